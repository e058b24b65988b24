/* What literals say together, asked directly; logic.c's tests cover the
 * whole lists. */
#include "compiler/ir/facts.h"
#include "compiler/ir/scratch.h"
#include "tests/unit/ir_oracle.h"

static struct facts collect(struct fixture *f, bool negated, size_t n,
                            const ir_ref *x)
{
    struct facts facts;
    ck_assert(facts_init(&facts, f->g, negated, (uint32_t)n));
    for (size_t k = 0; k < n; k++)
        facts_add(&facts, x[k]);
    return facts;
}

START_TEST(literals)
{
    OPEN;
    ir_ref a = load1(f, T_BOOL, q), c = ge(f, q, kv);
    ck_assert(facts_is_literal(f->g, a));
    ck_assert(facts_is_literal(f->g, not1(f, a)));
    ck_assert(facts_is_literal(f->g, c));
    ck_assert(!facts_is_literal(f->g, and2(f, a, c)));
    ck_assert(!facts_is_literal(f->g, or2(f, a, c)));
    ck_assert(!facts_is_literal(f->g, yes(f)));
    CLOSE;
}
END_TEST

START_TEST(truth_beside_bounds)
{
    OPEN;
    ir_ref d = sub(f, q, kv), a = load1(f, T_BOOL, q);
    ir_ref x[4] = {ge(f, d, num(f, 2)), le(f, d, num(f, 9)),
                   ne(f, d, num(f, 5)), a};
    struct facts s = collect(f, false, 4, x);
    ck_assert(facts_settle(&s));
    static const struct {
        int64_t v;
        int ge, le, eq;
    } t[] = {{1, 1, -1, -1},
             {2, 1, 0, 0},
             {5, 0, 0, -1},
             {9, 0, 1, 0},
             {10, -1, 1, -1}};
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        ir_ref v = num(f, t[k].v);
        ck_assert_int_eq(facts_truth(&s, ge(f, d, v)), t[k].ge);
        ck_assert_int_eq(facts_truth(&s, le(f, d, v)), t[k].le);
        ck_assert_int_eq(facts_truth(&s, eq(f, d, v)), t[k].eq);
        ck_assert_int_eq(facts_truth(&s, ne(f, d, v)), -t[k].eq);
    }
    ck_assert_int_eq(facts_truth(&s, a), 1);
    ck_assert_int_eq(facts_truth(&s, not1(f, a)), -1);
    ck_assert_int_eq(facts_truth(&s, load1(f, T_BOOL, kv)), 0);
    CLOSE;
}
END_TEST

START_TEST(contradictions)
{
    OPEN;
    ir_ref d = sub(f, q, kv), a = load1(f, T_BOOL, q);
    ir_ref two = num(f, 2), three = num(f, 3);
    ir_ref pair[][2] = {{ge(f, d, three), le(f, d, two)},
                        {eq(f, d, three), eq(f, d, two)},
                        {eq(f, d, three), ne(f, d, three)},
                        {a, not1(f, a)}};
    for (int k = 0; k < 4; k++) {
        struct facts s = collect(f, false, 2, pair[k]);
        ck_assert(!facts_settle(&s));
        s = collect(f, true, 2, pair[k]); /* one or the other: always so */
        ck_assert(facts_settle(&s) == (k == 1));
    }
    CLOSE;
}
END_TEST

START_TEST(shortest_literals)
{
    OPEN;
    ir_ref d = sub(f, q, kv), out[4];
    bool built = false;
    ir_ref x[4] = {ge(f, d, num(f, 2)), ge(f, d, num(f, 4)),
                   ne(f, d, num(f, 4)), ne(f, d, num(f, 7))};
    struct facts s = collect(f, false, 4, x);
    ck_assert(facts_settle(&s));
    ck_assert_uint_eq(facts_literals(&s, out, &built), 2);
    ck_assert(built); /* d >= 5 is new */
    ck_same(f, out[0], ge(f, d, num(f, 5)));
    ck_same(f, out[1], x[3]);
    /* as a disjunction: d >= 2 or d ~= 4 or … is all of it */
    s = collect(f, true, 4, x);
    ck_assert(!facts_settle(&s));
    ir_ref y[2] = {eq(f, d, num(f, 4)), ge(f, d, num(f, 5))};
    s = collect(f, true, 2, y);
    ck_assert(facts_settle(&s));
    ck_assert_uint_eq(facts_literals(&s, out, &built), 1);
    ck_same(f, out[0], ge(f, d, num(f, 4)));
    CLOSE;
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {literals, truth_beside_bounds, contradictions,
                                  shortest_literals};
    return run_tests("facts", tests, sizeof tests / sizeof *tests);
}

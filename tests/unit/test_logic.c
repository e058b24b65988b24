/* Negation, AND and OR: spellings that must meet in one node, folds, many
 * clauses, and random trees against brute force. */
#include "tests/unit/ir_oracle.h"
#include "tests/unit/timing.h"

#ifdef __SANITIZE_ADDRESS__
#define SLOW 10 /* times, under the sanitizers */
#else
#define SLOW 1
#endif

START_TEST(causal_is_one_node)
{
    OPEN;
    ir_ref want = ge(f, q, kv);
    ck_assert(ir_is(f->g, want, IR_GE0));
    ck_same(f, le(f, kv, q), want);
    ck_same(f, not1(f, lt(f, q, kv)), want);
    ck_same(f, ge(f, sub(f, q, kv), num(f, 0)), want);
    ck_same(f, lt(f, kv, add(f, q, num(f, 1))), want);
    ck_same(f, ge(f, ir_mul(f->g, q, num(f, 2)), ir_mul(f->g, kv, num(f, 2))),
            want);
    ck_same(f, eq(f, ir_max(f->g, q, kv), q), want);
    ck_same(f, ge(f, ir_neg(f->g, kv), ir_neg(f->g, q)), want);
    ck_same(f, or2(f, gt(f, q, kv), eq(f, q, kv)), want);
    ck_same(f, and2(f, want, ge(f, q, kv)), want);
    ck_same(f, ir_select(f->g, gt(f, kv, q), no(f), yes(f)), want);
    ck_same(f, not1(f, not1(f, want)), want);
    ck_same(f, gt(f, add(f, sub(f, q, kv), num(f, 1)), flt(f, 0.5)), want);
    /* the float spelling stays a float comparison */
    ir_ref odd = gt(f, q, sub(f, kv, flt(f, 1.0)));
    ck_assert(ir_is(f->g, odd, IR_FLT));
    CLOSE;
}
END_TEST

START_TEST(window_is_one_node)
{
    OPEN;
    ir_ref d = sub(f, q, kv), hundred = num(f, 100);
    ir_ref want = and2(f, ge(f, q, kv), le(f, d, hundred));
    ck_same(f, and2(f, le(f, num(f, 0), d), lt(f, d, num(f, 101))), want);
    ck_same(f, not1(f, or2(f, lt(f, q, kv), gt(f, d, hundred))), want);
    ir_ref inner =
        ir_select(f->g, ge(f, add(f, kv, hundred), q), yes(f), no(f));
    ck_same(f, ir_select(f->g, lt(f, q, kv), no(f), inner), want);
    ir_ref twice = sub(f, ir_mul(f->g, d, num(f, 2)), hundred);
    ck_same(f, le(f, ir_abs(f->g, twice), hundred), want);
    CLOSE;
}
END_TEST

START_TEST(two_sided_with_a_param)
{
    OPEN;
    ir_ref d = sub(f, q, kv), w = ir_param(f->g, P_INT);
    ir_ref want = and2(f, le(f, d, w), le(f, sub(f, kv, q), w));
    ck_same(f, le(f, ir_abs(f->g, d), w), want);
    ck_same(f, le(f, ir_abs(f->g, sub(f, kv, q)), w), want);
    ck_same(f, and2(f, le(f, ir_neg(f->g, w), d), le(f, d, w)), want);
    ck_same(f, le(f, ir_max(f->g, d, sub(f, kv, q)), w), want);
    CLOSE;
}
END_TEST

START_TEST(documents_are_one_node)
{
    OPEN;
    ir_ref a = load1(f, T_INT, q), b = load1(f, T_INT, kv);
    ir_ref want = and2(f, eq(f, a, b), ge(f, q, kv));
    ck_same(f, and2(f, le(f, kv, q), eq(f, b, a)), want);
    ck_same(f, ir_select(f->g, ne(f, a, b), no(f), le(f, kv, q)), want);
    ck_same(f, and2(f, eq(f, sub(f, a, b), num(f, 0)), not1(f, gt(f, kv, q))),
            want);
    ck_same(f, and2(f, not1(f, or2(f, lt(f, a, b), gt(f, a, b))), ge(f, q, kv)),
            want);
    CLOSE;
}
END_TEST

START_TEST(bounds_of_one_form)
{
    OPEN;
    ir_ref d = sub(f, q, kv), three = num(f, 3), five = num(f, 5);
    ck_same(f, and2(f, ge(f, d, three), ge(f, d, five)), ge(f, d, five));
    ck_same(f, or2(f, ge(f, d, three), ge(f, d, five)), ge(f, d, three));
    ck_same(f, and2(f, ge(f, d, three), le(f, d, three)), eq(f, d, three));
    ck_same(f, or2(f, lt(f, d, three), gt(f, d, three)), ne(f, d, three));
    ck_same(f, and2(f, ge(f, d, five), le(f, d, three)), no(f));
    ck_same(f, or2(f, ge(f, d, three), le(f, d, five)), yes(f));
    ck_same(f, or2(f, ge(f, d, five), lt(f, d, five)), yes(f));
    ck_same(f, and2(f, eq(f, d, three), eq(f, d, five)), no(f));
    ck_same(f, or2(f, ne(f, d, three), ne(f, d, five)), yes(f));
    ck_same(f, and2(f, eq(f, d, three), ne(f, d, five)), eq(f, d, three));
    ck_same(f, or2(f, eq(f, d, three), ne(f, d, five)), ne(f, d, five));
    ck_same(f, and2(f, eq(f, d, five), ge(f, d, three)), eq(f, d, five));
    ck_same(f, and2(f, eq(f, d, three), ge(f, d, five)), no(f));
    ck_same(f, and2(f, ne(f, d, three), ge(f, d, three)), gt(f, d, three));
    ck_same(f, and2(f, ne(f, d, three), ge(f, d, five)), ge(f, d, five));
    ck_same(f, or2(f, eq(f, d, three), gt(f, d, three)), ge(f, d, three));
    /* holes eat an interval up */
    ir_ref x[6] = {ge(f, d, num(f, 0)), le(f, d, three), ne(f, d, num(f, 0)),
                   ne(f, d, num(f, 2)), ne(f, d, three), yes(f)};
    ck_same(f, ir_and(f->g, 6, x), eq(f, d, num(f, 1)));
    x[5] = ne(f, d, num(f, 1));
    ck_same(f, ir_and(f->g, 6, x), no(f));
    CLOSE;
}
END_TEST

START_TEST(logic_of_atoms)
{
    OPEN;
    ir_ref a = load1(f, T_BOOL, q), b = load1(f, T_BOOL, kv);
    ir_ref c = ge(f, q, kv), d = lt(f, f->s, flt(f, 1));
    ck_same(f, and2(f, a, not1(f, a)), no(f));
    ck_same(f, or2(f, d, not1(f, d)), yes(f));
    ck_same(f, ir_and(f->g, 0, NULL), yes(f));
    ck_same(f, ir_or(f->g, 0, NULL), no(f));
    ck_same(f, and2(f, a, yes(f)), a);
    ck_same(f, or2(f, yes(f), a), yes(f));
    ir_ref x[4] = {a, and2(f, c, b), b, a};
    ir_ref y[3] = {c, b, a};
    ck_same(f, ir_and(f->g, 4, x), ir_and(f->g, 3, y));
    ck_assert_int_eq(ir_node(f->g, ir_and(f->g, 4, x))->n, 3);
    /* absorption, unit propagation, both ways */
    ck_same(f, and2(f, a, or2(f, a, b)), a);
    ck_same(f, or2(f, a, and2(f, a, b)), a);
    ck_same(f, and2(f, a, or2(f, not1(f, a), b)), and2(f, a, b));
    ck_same(f, or2(f, a, and2(f, not1(f, a), b)), or2(f, a, b));
    ir_ref strict = gt(f, q, add(f, kv, num(f, 4)));
    ck_same(f, and2(f, strict, or2(f, c, b)), strict); /* c follows */
    ck_same(f, and2(f, strict, or2(f, lt(f, q, kv), b)), and2(f, strict, b));
    ck_same(f, or2(f, c, and2(f, strict, b)), c);
    /* clauses in clauses, and what all clauses share */
    ir_ref ab = or2(f, a, b), z[3] = {a, b, d};
    ck_same(f, and2(f, ab, ir_or(f->g, 3, z)), ab);
    ck_same(f, or2(f, and2(f, c, a), and2(f, c, b)), and2(f, c, ab));
    ck_same(f, and2(f, or2(f, c, a), or2(f, c, b)), or2(f, c, and2(f, a, b)));
    ck_same(f, or2(f, and2(f, a, c), and2(f, a, not1(f, c))), a);
    /* deeper, by the literals beside it */
    ir_ref deep = or2(f, b, and2(f, d, or2(f, a, c)));
    ck_same(f, and2(f, a, deep), and2(f, a, or2(f, b, d)));
    CLOSE;
}
END_TEST

START_TEST(negation)
{
    OPEN;
    ir_ref a = load1(f, T_BOOL, q), b = load1(f, T_BOOL, kv);
    ir_ref c = ge(f, q, kv), e = eq(f, load1(f, T_INT, q), f->h);
    ir_ref r = or2(f, and2(f, a, c), and2(f, not1(f, b), e));
    ir_ref n = and2(f, or2(f, not1(f, a), lt(f, q, kv)), or2(f, b, not1(f, e)));
    ck_same(f, not1(f, r), n);
    ck_same(f, not1(f, n), r);
    ck_same(f, and2(f, r, n), no(f));
    ck_same(f, or2(f, r, n), yes(f));
    assert_verified(f, IR_NONE, n);
    ck_same(f, ir_eq(f->g, a, b),
            or2(f, and2(f, a, b), and2(f, not1(f, a), not1(f, b))));
    CLOSE;
}
END_TEST

START_TEST(a_chain_of_xor_stays_small)
{
    OPEN;
    ir_ref r = load1(f, T_BOOL, num(f, 0));
    for (int k = 1; k < 60; k++)
        r = not1(f, ir_eq(f->g, r, load1(f, T_BOOL, num(f, k))));
    ck_assert_int_lt(f->g->n_nodes, 2000);
    CLOSE;
}
END_TEST

/* k-th clause: q >= a and kv < b, of many different bounds. */
static ir_ref clause(struct fixture *f, int k, bool together)
{
    ir_ref at = num(f, together ? 7 * k : k);
    ir_ref x = eq(f, load1(f, T_INT, add(f, f->q, at)), num(f, k));
    ir_ref y = lt(f, load1(f, T_INT, f->kv), num(f, 3 * k));
    return and2(f, x, y);
}

START_TEST(many_clauses_are_quick)
{
    OPEN;
    static const int sizes[] = {200, 1000};
    static const double limit[] = {0.02, 0.25};
    ir_ref x[1000];
    for (int t = 0; t < 2; t++) {
        for (int k = 0; k < sizes[t]; k++)
            x[k] = clause(f, k, t);
        const double start = thread_seconds(), slow = SLOW;
        ir_ref r = ir_or(f->g, (size_t)sizes[t], x);
        ir_ref n = not1(f, r);
        const double took = thread_seconds() - start;
        ck_assert_msg(took < slow * limit[t], "%d clauses: %.1f ms", sizes[t],
                      1e3 * took);
        ck_assert_int_eq(ir_node(f->g, r)->n, sizes[t]);
        ck_assert(ir_is(f->g, n, IR_AND));
    }
    CLOSE;
}
END_TEST

START_TEST(many_values_of_one_form)
{
    OPEN;
    ir_ref x[1000], d = sub(f, q, kv);
    for (int k = 0; k < 1000; k++)
        x[k] = eq(f, d, num(f, 2 * k));
    ir_ref r = ir_or(f->g, 1000, x);
    ck_assert_int_eq(ir_node(f->g, r)->n, 1000);
    ck_same(f, or2(f, r, x[500]), r);
    ck_same(f, and2(f, r, x[500]), x[500]);
    ck_same(f, and2(f, r, eq(f, d, num(f, 3))), no(f));
    CLOSE;
}
END_TEST

static void check_tree(struct fixture *f, const struct forest *w, int root,
                       unsigned seed)
{
    ir_ref r = tree_build(f, w, root);
    ck_assert_msg(!f->g->failed, "%s", f->diag.message);
    assert_verified(f, IR_NONE, r);
    ir_ref n = not1(f, r);
    assert_verified(f, IR_NONE, n);
    ck_same(f, not1(f, n), r);
    struct oracle o = oracle_open(f, IR_NONE, r);
    struct oracle on = oracle_open(f, IR_NONE, n);
    for (int k = 0; k < N_POINTS; k++) {
        struct point at = point_at(k);
        int64_t want = tree_value(w, root, &at).i;
        oracle_run(&o, &at);
        oracle_run(&on, &at);
        if (o.value[r].i != want || on.value[n].i == want)
            ck_abort_msg("seed %u, q %d, kv %d: want %d\n%s", seed, (int)at.q,
                         (int)at.kv, (int)want, text_of(f, IR_NONE, r));
    }
}

static void random_trees(unsigned first, unsigned n, int depth, bool floats)
{
    static struct forest w;
    struct fixture f_, *f = &f_;
    for (unsigned seed = first; seed < first + n; seed++) {
        w.n = 0;
        w.state = seed;
        w.floats = floats;
        ck_assert(fixture_open(f, &alloc_libc));
        check_tree(f, &w, tree_bool(&w, depth), seed);
        fixture_close(f);
    }
}

START_TEST(random_trees_against_brute_force)
{
    random_trees(1, 16000, 2, false);
    random_trees(100000, 6000, 3, false);
    random_trees(200000, 4000, 2, true);
}
END_TEST

static bool build_something(struct fixture *f)
{
    ir_ref x[40];
    for (int k = 0; k < 40; k++)
        x[k] = clause(f, k, true);
    ir_ref r = ir_or(f->g, 40, x);
    r = ir_not(f->g, ir_and2(f->g, r, ir_lt(f->g, f->q, flt(f, 2.5))));
    r = ir_or2(f->g, r, ir_lt(f->g, f->s, f->q));
    return r != IR_NONE && ir_eq(f->g, r, x[0]) != IR_NONE;
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(build_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {causal_is_one_node,
                                  window_is_one_node,
                                  two_sided_with_a_param,
                                  documents_are_one_node,

                                  bounds_of_one_form,
                                  logic_of_atoms,
                                  negation,
                                  a_chain_of_xor_stays_small,
                                  many_clauses_are_quick,
                                  many_values_of_one_form,
                                  random_trees_against_brute_force,
                                  every_allocation_may_fail};
    return run_tests("logic", tests, sizeof tests / sizeof *tests);
}

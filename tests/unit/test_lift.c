/* pass_lift: spellings of a mask in the score, and random scores with -inf
 * arms against brute force. */
#include "compiler/passes/passes.h"
#include "tests/unit/ir_oracle.h"

static struct ir_roots lifted(struct fixture *f, ir_ref score, ir_ref keep)
{
    struct ir_roots roots = {score, keep};
    ck_assert_msg(pass_lift(f->g, &roots), "%s", f->diag.message);
    assert_verified(f, roots.score, roots.keep);
    return roots;
}

static void lifts(struct fixture *f, ir_ref score, ir_ref want_score,
                  ir_ref want_keep)
{
    struct ir_roots r = lifted(f, score, yes(f));
    ck_same(f, r.keep, want_keep);
    ck_same(f, r.score, want_score);
}

START_TEST(causal_as_a_score)
{
    OPEN;
    ir_ref s = f->s, inf = flt(f, -INFINITY), c = ge(f, q, kv);
    lifts(f, ir_select(f->g, c, s, inf), s, c);
    lifts(f, ir_select(f->g, lt(f, q, kv), inf, s), s, c);
    lifts(f, add(f, s, ir_select(f->g, c, flt(f, 0), inf)), s, c);
    lifts(f, add(f, s, ir_select(f->g, c, num(f, 0), inf)), s, c);
    CLOSE;
}
END_TEST

START_TEST(nothing_to_lift)
{
    OPEN;
    ir_ref s = f->s, c = ge(f, q, kv), x = load1(f, T_FLOAT, q);
    lifts(f, s, s, yes(f));
    ir_ref biased = add(f, s, ir_select(f->g, c, x, flt(f, 1)));
    lifts(f, biased, biased, yes(f));
    /* +inf, and -inf that is subtracted or multiplied, are values */
    ir_ref plus = ir_select(f->g, c, s, flt(f, INFINITY));
    lifts(f, plus, plus, yes(f));
    ir_ref inf = ir_select(f->g, c, x, flt(f, -INFINITY));
    lifts(f, sub(f, s, inf), sub(f, s, inf), yes(f));
    lifts(f, ir_mul(f->g, s, inf), ir_mul(f->g, s, inf), yes(f));
    CLOSE;
}
END_TEST

START_TEST(deeper_arms)
{
    OPEN;
    ir_ref s = f->s, inf = flt(f, -INFINITY), c = ge(f, q, kv);
    ir_ref d = load1(f, T_BOOL, kv), x = load1(f, T_FLOAT, q);
    ir_ref y = load1(f, T_FLOAT, kv);
    /* s + x where c, s where d, else masked */
    ir_ref three = ir_select(f->g, c, add(f, s, x),
                             ir_select(f->g, d, ir_mul(f->g, s, y), inf));
    lifts(f, three, ir_select(f->g, c, add(f, s, x), ir_mul(f->g, s, y)),
          or2(f, c, d));
    /* (s + (c ? x : -inf)) + (d ? y : -inf) */
    ir_ref sum = add(f, add(f, s, ir_select(f->g, c, x, inf)),
                     ir_select(f->g, d, y, inf));
    lifts(f, sum, add(f, add(f, s, x), y), and2(f, c, d));
    lifts(f, sub(f, ir_select(f->g, c, s, inf), x), sub(f, s, x), c);
    /* the mask that is there stays */
    struct ir_roots r = lifted(f, ir_select(f->g, c, s, inf), d);
    ck_same(f, r.keep, and2(f, c, d));
    CLOSE;
}
END_TEST

START_TEST(all_masked)
{
    OPEN;
    ir_ref inf = flt(f, -INFINITY), c = ge(f, q, kv);
    lifts(f, inf, f->s, no(f));
    lifts(f, add(f, f->s, inf), f->s, no(f));
    lifts(f, ir_select(f->g, c, add(f, f->s, inf), inf), f->s, no(f));
    CLOSE;
}
END_TEST

START_TEST(a_long_sum)
{
    OPEN;
    ir_ref s = f->s, inf = flt(f, -INFINITY);
    for (int k = 0; k < 20000; k++)
        s = add(f, s, load1(f, T_FLOAT, num(f, k)));
    ir_ref score = ir_select(f->g, ge(f, q, kv), s, inf);
    struct ir_roots roots = {score, yes(f)};
    ck_assert(pass_lift(f->g, &roots));
    ck_assert_uint_eq(roots.score, s);
    ck_same(f, roots.keep, ge(f, q, kv));
    CLOSE;
}
END_TEST

static void check(struct fixture *f, const struct forest *w, int root, int mask,
                  unsigned seed)
{
    struct ir_roots was = {ir_to_float(f->g, tree_build(f, w, root)),
                           tree_build(f, w, mask)};
    struct ir_roots now = lifted(f, was.score, was.keep);
    struct oracle o = oracle_open(f, now.score, now.keep);
    for (int k = 0; k < N_POINTS; k++) {
        struct point at = point_at(k);
        double s = tree_value(w, root, &at).f;
        bool keep = tree_value(w, mask, &at).i && s != -INFINITY;
        oracle_run(&o, &at);
        double t = o.value[now.score].f;
        bool kept = o.value[now.keep].i && t != -INFINITY;
        if (kept != keep || (keep && s != t))
            ck_abort_msg("seed %u, q %d, kv %d: %g (%d), want %g (%d)\n%s",
                         seed, (int)at.q, (int)at.kv, t, kept, s, keep,
                         text_of(f, now.score, now.keep));
    }
}

START_TEST(random_scores_against_brute_force)
{
    static struct forest w = {.minus_inf = true};
    struct fixture f;
    for (unsigned seed = 1; seed <= 8000; seed++) {
        w.n = 0;
        w.state = seed;
        ck_assert(fixture_open(&f, &alloc_libc));
        int root = tree_float(&w, 4), mask = tree_bool(&w, 1);
        check(&f, &w, root, mask, seed);
        fixture_close(&f);
    }
}
END_TEST

static bool lift_something(struct fixture *f)
{
    ir_ref inf = flt(f, -INFINITY), d = load1(f, T_BOOL, f->kv);
    ir_ref s = ir_select(f->g, d, add(f, f->s, load1(f, T_FLOAT, f->q)), inf);
    s = ir_select(f->g, ge(f, f->q, f->kv), s, f->s);
    struct ir_roots roots = {s, lt(f, f->q, num(f, 9))};
    return pass_lift(f->g, &roots);
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(lift_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {causal_as_a_score,
                                  nothing_to_lift,
                                  deeper_arms,
                                  all_masked,
                                  a_long_sum,
                                  random_scores_against_brute_force,
                                  every_allocation_may_fail};
    return run_tests("lift", tests, sizeof tests / sizeof *tests);
}

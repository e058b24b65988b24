/* pass_affine_score and pass_affine_index: forms by hand, and the forms'
 * values against the values they stand for. */
#include "compiler/passes/passes.h"
#include "tests/unit/ir_oracle.h"

static struct affine_score of_score(struct fixture *f, ir_ref r)
{
    struct affine_score a;
    ck_assert_msg(pass_affine_score(f->g, r, &a), "%s", f->diag.message);
    return a;
}

static void expect(struct fixture *f, ir_ref r, ir_ref alpha, ir_ref beta)
{
    struct affine_score a = of_score(f, r);
    ck_assert_msg(a.affine, "%s", text_of(f, r, IR_NONE));
    ck_same(f, a.alpha, alpha);
    ck_same(f, a.beta, beta);
}

static void expect_none(struct fixture *f, ir_ref r)
{
    struct affine_score a = of_score(f, r);
    ck_assert(!a.affine);
    ck_assert_uint_eq(a.alpha, IR_NONE);
    ck_assert_uint_eq(a.beta, IR_NONE);
}

START_TEST(affine_scores)
{
    OPEN;
    ir_ref s = f->s, one = flt(f, 1), zero = flt(f, 0), two = flt(f, 2);
    ir_ref slope = load1(f, T_FLOAT, f->h), c = ir_param(f->g, P_FLOAT);
    ir_ref d = ir_to_float(f->g, sub(f, kv, q)), x = load1(f, T_FLOAT, q);
    ir_ref alibi = ir_mul(f->g, slope, d);
    expect(f, s, one, zero);
    expect(f, add(f, s, alibi), one, alibi);
    expect(f, ir_mul(f->g, s, slope), slope, zero);
    expect(f, ir_mul(f->g, two, s), two, zero);
    expect(f, add(f, ir_mul(f->g, s, two), x), two, x);
    expect(f, add(f, add(f, s, x), alibi), one, add(f, x, alibi));
    expect(f, ir_div(f->g, s, c), ir_div(f->g, one, c), zero);
    expect(f, ir_neg(f->g, s), flt(f, -1), zero);
    expect(f, sub(f, s, x), one, ir_neg(f->g, x));
    expect(f, sub(f, x, s), flt(f, -1), x);
    expect(f, ir_mul(f->g, add(f, s, x), c), c, ir_mul(f->g, x, c));
    ir_ref behind = ir_mul(f->g, slope, ir_to_float(f->g, sub(f, q, kv)));
    expect(f, sub(f, add(f, s, x), alibi), one, add(f, x, behind));
    expect(f, sub(f, add(f, s, x), c), one, sub(f, x, c));
    /* factors free of kv come together */
    ir_ref both = ir_mul(f->g, ir_mul(f->g, slope, c), d);
    expect(f, add(f, s, ir_mul(f->g, alibi, c)), one, both);
    expect(f, add(f, s, ir_mul(f->g, c, alibi)), one, both);
    expect(f, ir_mul(f->g, add(f, s, alibi), c), c, both);
    expect(f, ir_div(f->g, add(f, s, alibi), c), ir_div(f->g, one, c),
           ir_mul(f->g, ir_div(f->g, slope, c), d));
    expect(f, add(f, s, sub(f, x, ir_mul(f->g, alibi, x))), one,
           sub(f, x, ir_mul(f->g, ir_mul(f->g, slope, x), d)));
    expect(f, add(f, s, ir_div(f->g, c, alibi)), one, ir_div(f->g, c, alibi));
    expect(f, add(f, s, ir_mul(f->g, d, ir_mul(f->g, d, d))), one,
           ir_mul(f->g, d, ir_mul(f->g, d, d)));
    /* a conditional bias */
    ir_ref t = ir_select(f->g, ge(f, q, kv), add(f, s, x), s);
    expect(f, t, one, ir_select(f->g, ge(f, q, kv), x, flt(f, -0.0)));
    CLOSE;
}
END_TEST

START_TEST(scores_that_are_not)
{
    OPEN;
    ir_ref s = f->s, x = load1(f, T_FLOAT, q), c = ir_param(f->g, P_FLOAT);
    expect_none(f, ir_mul(f->g, s, s));
    expect_none(f, add(f, s, ir_mul(f->g, s, c)));
    expect_none(f, ir_mul(f->g, s, x)); /* alpha would be of row scope */
    expect_none(f, ir_div(f->g, s, x));
    expect_none(f, ir_div(f->g, c, s));
    expect_none(f, x); /* no score in it */
    expect_none(f, ir_build(f->g, IR_FTANH, &s));
    expect_none(f, ir_select(f->g, ge(f, q, kv), s, c));
    ir_ref cold = lt(f, s, c);
    expect_none(f, add(f, s, ir_select(f->g, cold, c, x)));
    CLOSE;
}
END_TEST

START_TEST(outer_factors)
{
    OPEN;
    ir_ref s = f->s, c = ir_param(f->g, P_FLOAT), x = load1(f, T_FLOAT, q);
    ir_ref in = ir_div(f->g, s, c), t = ir_build(f->g, IR_FTANH, &in);
    struct affine_score a = of_score(f, ir_mul(f->g, c, t));
    ck_assert(!a.affine);
    ck_same(f, a.outer, c);
    ck_same(f, a.inner, t);
    ir_ref slope = load1(f, T_FLOAT, f->h);
    a = of_score(f, ir_mul(f->g, slope, ir_mul(f->g, c, t)));
    ck_same(f, a.outer, ir_mul(f->g, slope, c));
    ck_same(f, a.inner, t);
    a = of_score(f, ir_mul(f->g, x, t)); /* of row scope */
    ck_assert_uint_eq(a.outer, IR_NONE);
    ck_assert_uint_eq(a.inner, IR_NONE);
    a = of_score(f, add(f, ir_mul(f->g, c, t), x));
    ck_assert_uint_eq(a.outer, IR_NONE);
    a = of_score(f, t);
    ck_assert_uint_eq(a.outer, IR_NONE);
    CLOSE;
}
END_TEST

static void expect_index(struct fixture *f, ir_ref r, int64_t kq, int64_t kkv,
                         ir_ref rest)
{
    struct affine_index a;
    ck_assert(pass_affine_index(f->g, r, &a));
    ck_assert(a.affine);
    ck_assert_int_eq(a.kq, kq);
    ck_assert_int_eq(a.kkv, kkv);
    ck_same(f, a.rest, rest);
}

START_TEST(affine_indices)
{
    OPEN;
    ir_ref w = ir_param(f->g, P_INT), t = load1(f, T_INT, f->h);
    expect_index(f, q, 1, 0, num(f, 0));
    expect_index(f, num(f, 7), 0, 0, num(f, 7));
    expect_index(f, sub(f, q, kv), 1, -1, num(f, 0));
    ir_ref r = add(f, ir_mul(f->g, q, num(f, 3)), add(f, w, t));
    expect_index(f, add(f, r, num(f, 5)), 3, 0,
                 add(f, add(f, w, t), num(f, 5)));
    expect_index(f, ge(f, q, add(f, kv, w)), 1, -1, ir_neg(f->g, w));
    struct affine_index a;
    ir_ref half = ir_floordiv(f->g, q, num(f, 2));
    ck_assert(pass_affine_index(f->g, sub(f, half, kv), &a));
    ck_assert(!a.affine);
    ck_assert(pass_affine_index(f->g, load1(f, T_INT, q), &a));
    ck_assert(!a.affine);
    CLOSE;
}
END_TEST

static bool close_to(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) ||
           (!isfinite(a) && !isfinite(b));
}

START_TEST(random_scores_against_brute_force)
{
    static struct forest w;
    int found = 0;
    for (unsigned seed = 1; seed <= 6000; seed++) {
        struct fixture f;
        w.n = 0;
        w.state = seed;
        ck_assert(fixture_open(&f, &alloc_libc));
        int root = tree_float(&w, 3);
        ir_ref r = ir_to_float(f.g, tree_build(&f, &w, root));
        struct affine_score a = of_score(&f, r);
        if (a.affine) {
            ir_ref got = add(&f, ir_mul(f.g, a.alpha, f.s), a.beta);
            struct oracle o = oracle_open(&f, got, IR_NONE);
            found++;
            for (int k = 0; k < N_POINTS; k++) {
                struct point at = point_at(k);
                if (at.score == 1e30)
                    continue; /* cancels in no order we promise */
                oracle_run(&o, &at);
                double want = tree_value(&w, root, &at).f;
                if (!close_to(o.value[got].f, want))
                    ck_abort_msg("seed %u: got %g, want %g\n%s", seed,
                                 o.value[got].f, want, text_of(&f, r, IR_NONE));
            }
        }
        fixture_close(&f);
    }
    ck_assert_int_gt(found, 500);
}
END_TEST

START_TEST(random_indices_against_brute_force)
{
    static struct forest w;
    int found = 0;
    for (unsigned seed = 1; seed <= 4000; seed++) {
        struct fixture f;
        struct affine_index a;
        w.n = 0;
        w.state = seed;
        ck_assert(fixture_open(&f, &alloc_libc));
        int root = tree_int(&w, 2);
        ir_ref r = tree_build(&f, &w, root);
        ck_assert(pass_affine_index(f.g, r, &a));
        if (a.affine) {
            struct oracle o = oracle_open(&f, a.rest, IR_NONE);
            found++;
            ck_assert(!(ir_node(f.g, a.rest)->deps & (IR_DEP_Q | IR_DEP_KV)));
            for (int k = 0; k < N_POINTS; k++) {
                struct point at = point_at(k);
                oracle_run(&o, &at);
                int64_t got = a.kq * at.q + a.kkv * at.kv + o.value[a.rest].i;
                if (got != tree_value(&w, root, &at).i)
                    ck_abort_msg("seed %u", seed);
            }
        }
        fixture_close(&f);
    }
    ck_assert_int_gt(found, 1000);
}
END_TEST

static bool analyse_something(struct fixture *f)
{
    struct affine_score a;
    struct affine_index i;
    ir_ref c = ir_param(f->g, P_FLOAT), x = load1(f, T_FLOAT, f->q);
    ir_ref r = ir_mul(f->g, c, add(f, ir_mul(f->g, f->s, c), x));
    if (r == IR_NONE || !pass_affine_score(f->g, r, &a))
        return false;
    ir_ref d = add(f, sub(f, f->q, f->kv), ir_param(f->g, P_INT));
    return d != IR_NONE && pass_affine_index(f->g, d, &i);
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(analyse_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {affine_scores,
                                  scores_that_are_not,
                                  outer_factors,
                                  affine_indices,
                                  random_scores_against_brute_force,
                                  random_indices_against_brute_force,
                                  every_allocation_may_fail};
    return run_tests("affine", tests, sizeof tests / sizeof *tests);
}

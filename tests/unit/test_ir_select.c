/* ir_select: merging of booleans, what leaves a select of numbers, and
 * random trees against brute force, bit for bit. */
#include "tests/unit/ir_oracle.h"

static ir_ref sel(struct fixture *f, ir_ref c, ir_ref t, ir_ref e)
{
    return ir_select(f->g, c, t, e);
}

START_TEST(trivial_selects)
{
    OPEN;
    ir_ref c = ge(f, q, kv), s = f->s, two = flt(f, 2);
    ck_same(f, sel(f, yes(f), q, kv), q);
    ck_same(f, sel(f, no(f), q, kv), kv);
    ck_same(f, sel(f, c, s, s), s);
    /* both polarities are one node */
    ck_same(f, sel(f, c, s, two), sel(f, not1(f, c), two, s));
    ir_ref d = lt(f, s, two);
    ck_same(f, sel(f, d, s, two), sel(f, not1(f, d), two, s));
    ck_assert(ir_is(f->g, sel(f, c, s, two), IR_SEL_F));
    ck_assert(ir_is(f->g, sel(f, c, q, f->h), IR_SEL_I));
    /* int and float meet as float */
    ir_ref mixed = sel(f, d, q, two);
    ck_assert(ir_is(f->g, mixed, IR_SEL_F));
    ck_assert_int_eq(ir_node(f->g, mixed)->type, IR_FLOAT);
    /* the same condition again */
    ir_ref in = sel(f, d, f->b, f->h);
    ck_same(f, sel(f, d, in, q), sel(f, d, f->b, q));
    ck_same(f, sel(f, not1(f, d), in, q), sel(f, d, q, f->h));
    CLOSE;
}
END_TEST

START_TEST(booleans_merge)
{
    OPEN;
    ir_ref a = load1(f, T_BOOL, q), b = load1(f, T_BOOL, kv);
    ir_ref c = ge(f, q, kv), d = load1(f, T_BOOL, f->h);
    ck_same(f, sel(f, c, yes(f), a), or2(f, c, a));
    ck_same(f, sel(f, c, no(f), a), and2(f, not1(f, c), a));
    ck_same(f, sel(f, c, a, yes(f)), or2(f, not1(f, c), a));
    ck_same(f, sel(f, c, a, no(f)), and2(f, c, a));
    ck_same(f, sel(f, c, or2(f, a, b), or2(f, a, d)),
            or2(f, a, sel(f, c, b, d)));
    ck_same(f, sel(f, c, and2(f, a, b), and2(f, a, d)),
            and2(f, a, sel(f, c, b, d)));
    ck_same(f, sel(f, c, or2(f, a, b), a), or2(f, a, and2(f, c, b)));
    /* the else arm implies the then arm: its guard goes */
    ck_same(f, sel(f, c, a, and2(f, a, b)), and2(f, a, or2(f, c, b)));
    ir_ref near = ge(f, q, num(f, 9)), far = ge(f, q, num(f, 5));
    ck_same(f, sel(f, d, far, near), or2(f, near, and2(f, d, far)));
    ck_same(f, sel(f, d, near, far), or2(f, near, and2(f, not1(f, d), far)));
    ck_same(f, sel(f, a, b, not1(f, b)), ir_eq(f->g, a, b));
    CLOSE;
}
END_TEST

START_TEST(or_of_ands_from_paths)
{
    OPEN;
    ir_ref a = load1(f, T_BOOL, q), b = load1(f, T_BOOL, kv);
    ir_ref c = ge(f, q, kv), e = lt(f, q, num(f, 5));
    ir_ref want = or2(f, and2(f, a, c), and2(f, b, e));
    ir_ref tail = sel(f, b, e, no(f));
    ck_same(f, sel(f, a, sel(f, c, yes(f), tail), tail), want);
    CLOSE;
}
END_TEST

START_TEST(linear_terms_leave)
{
    OPEN;
    ir_ref c = load1(f, T_BOOL, f->h), w = ir_param(f->g, P_INT);
    ir_ref got = sel(f, c, add(f, q, num(f, 16)), q);
    ck_same(f, got, add(f, q, sel(f, c, num(f, 16), num(f, 0))));
    ck_assert(ir_is(f->g, got, IR_LIN));
    got = sel(f, c, add(f, sub(f, q, kv), w), sub(f, q, kv));
    ck_same(f, got, add(f, sub(f, q, kv), sel(f, c, w, num(f, 0))));
    got = sel(f, c, ir_mul(f->g, q, num(f, 2)), q); /* factors differ */
    ck_assert(ir_is(f->g, got, IR_SEL_I));
    CLOSE;
}
END_TEST

START_TEST(operands_leave)
{
    OPEN;
    ir_ref c = load1(f, T_BOOL, f->h), i[2] = {q, f->h}, j[2] = {kv, f->b};
    ck_same(f, sel(f, c, load1(f, T_INT, q), load1(f, T_INT, kv)),
            load1(f, T_INT, sel(f, c, q, kv)));
    ir_ref k[2] = {sel(f, c, q, kv), sel(f, c, f->h, f->b)};
    ck_same(
        f,
        sel(f, c, ir_load(f->g, T_TABLE, 2, i), ir_load(f->g, T_TABLE, 2, j)),
        ir_load(f->g, T_TABLE, 2, k));
    /* another tensor is another load */
    ck_assert(ir_is(f->g, sel(f, c, load1(f, T_INT, q), load1(f, T_OTHER, q)),
                    IR_SEL_I));
    ir_ref x = load1(f, T_FLOAT, q), y = load1(f, T_FLOAT, kv), s = f->s;
    ck_same(f, sel(f, c, add(f, s, x), add(f, s, y)),
            add(f, s, load1(f, T_FLOAT, sel(f, c, q, kv))));
    ck_same(f, sel(f, c, add(f, x, s), add(f, s, y)),
            add(f, s, sel(f, c, x, y)));
    ck_same(f, sel(f, c, ir_to_float(f->g, q), ir_to_float(f->g, kv)),
            ir_to_float(f->g, sel(f, c, q, kv)));
    ir_ref m = ir_max(f->g, q, f->h), n = ir_max(f->g, q, kv);
    ck_same(f, sel(f, c, m, n), ir_max(f->g, q, sel(f, c, f->h, kv)));
    CLOSE;
}
END_TEST

START_TEST(nested_selects_share_an_arm)
{
    OPEN;
    ir_ref c = load1(f, T_BOOL, q), d = load1(f, T_BOOL, kv), s = f->s;
    ir_ref x = load1(f, T_FLOAT, f->h);
    ir_ref in = sel(f, d, s, x), not_d = not1(f, d);
    ck_same(f, sel(f, c, s, in), sel(f, or2(f, c, d), s, x));
    ck_same(f, sel(f, c, x, in), sel(f, or2(f, c, not_d), x, s));
    ck_same(f, sel(f, c, in, x), sel(f, and2(f, c, d), s, x));
    ck_same(f, sel(f, c, in, s), sel(f, and2(f, c, not_d), x, s));
    /* two ways to boost the diagonal */
    ir_ref twice = ir_mul(f->g, s, flt(f, 2)), m = sub(f, q, kv);
    ir_ref far = gt(f, m, num(f, 8)), ahead = lt(f, m, num(f, -8));
    ck_same(f, sel(f, far, s, sel(f, ahead, s, twice)),
            sel(f, le(f, ir_abs(f->g, m), num(f, 8)), twice, s));
    CLOSE;
}
END_TEST

START_TEST(steps_leave)
{
    OPEN;
    ir_ref c = load1(f, T_BOOL, kv), s = f->s, x = load1(f, T_FLOAT, q);
    ir_ref two = flt(f, 2), one = flt(f, 1);
    ir_ref want = ir_mul(f->g, s, sel(f, c, two, one));
    ck_same(f, sel(f, c, ir_mul(f->g, s, two), s), want);
    ck_same(f, sel(f, not1(f, c), s, ir_mul(f->g, two, s)), want);
    /* s + (c ? x : -0): exact for every s, -0 included */
    ck_same(f, sel(f, c, add(f, s, x), s),
            add(f, s, sel(f, c, x, flt(f, -0.0))));
    ck_same(f, sel(f, c, s, sub(f, s, x)),
            sub(f, s, sel(f, c, flt(f, 0.0), x)));
    ck_same(f, sel(f, c, ir_div(f->g, s, x), s),
            ir_div(f->g, s, sel(f, c, x, one)));
    /* no step of s */
    ck_assert(ir_is(f->g, sel(f, c, sub(f, x, s), s), IR_SEL_F));
    ck_assert(ir_is(f->g, sel(f, c, ir_div(f->g, x, s), s), IR_SEL_F));
    CLOSE;
}
END_TEST

/* Two sums of 50,000 terms that differ in the first: no deep C stack. */
START_TEST(long_sums_end)
{
    OPEN;
    ir_ref a = f->s, b = ir_neg(f->g, f->s), c = load1(f, T_BOOL, q);
    for (int k = 0; k < 50000; k++) {
        ir_ref x = load1(f, T_FLOAT, num(f, k));
        a = add(f, a, x);
        b = add(f, b, x);
    }
    ck_assert_uint_ne(sel(f, c, a, b), IR_NONE);
    CLOSE;
}
END_TEST

static void check_float(const struct forest *w, struct fixture *f, int root,
                        unsigned seed)
{
    ir_ref r = ir_to_float(f->g, tree_build(f, w, root));
    if (f->g->failed)
        ck_abort_msg("%s", f->diag.message);
    assert_verified(f, r, IR_NONE);
    struct oracle o = oracle_open(f, r, IR_NONE);
    for (int k = 0; k < N_POINTS; k++) {
        struct point at = point_at(k);
        union value want = tree_value(w, root, &at);
        oracle_run(&o, &at);
        if (!same_double(o.value[r].f, want.f))
            ck_abort_msg("seed %u, q %d, kv %d: got %g, want %g\n%s", seed,
                         (int)at.q, (int)at.kv, o.value[r].f, want.f,
                         text_of(f, r, IR_NONE));
    }
}

static void check_int(const struct forest *w, struct fixture *f, int root,
                      unsigned seed)
{
    ir_ref r = tree_build(f, w, root);
    if (f->g->failed)
        ck_abort_msg("%s", f->diag.message);
    ir_ref keep = ir_le(f->g, r, num(f, 2));
    assert_verified(f, IR_NONE, keep);
    struct oracle o = oracle_open(f, r, keep);
    for (int k = 0; k < N_POINTS; k++) {
        struct point at = point_at(k);
        int64_t want = tree_value(w, root, &at).i;
        oracle_run(&o, &at);
        if (o.value[r].i != want || o.value[keep].i != (want <= 2))
            ck_abort_msg("seed %u, q %d, kv %d: got %d, want %d\n%s", seed,
                         (int)at.q, (int)at.kv, (int)o.value[r].i, (int)want,
                         text_of(f, IR_NONE, keep));
    }
}

START_TEST(random_trees_against_brute_force)
{
    static struct forest w;
    struct fixture f;
    for (unsigned seed = 1; seed <= 24000; seed++) {
        w.n = 0;
        w.state = seed;
        w.floats = seed % 4 == 0;
        ck_assert(fixture_open(&f, &alloc_libc));
        if (seed % 2)
            check_int(&w, &f, tree_int(&w, 3), seed);
        else
            check_float(&w, &f, tree_float(&w, 3), seed);
        fixture_close(&f);
    }
}
END_TEST

static bool build_something(struct fixture *f)
{
    ir_ref c = ge(f, f->q, f->kv), d = load1(f, T_BOOL, f->q);
    ir_ref x = load1(f, T_FLOAT, f->q), y = load1(f, T_FLOAT, f->kv);
    ir_ref r = sel(f, c, add(f, f->s, x), sel(f, d, add(f, f->s, y), f->s));
    ir_ref i = sel(f, d, add(f, f->q, num(f, 3)), f->q);
    ir_ref b = sel(f, c, or2(f, d, lt(f, i, f->kv)), and2(f, d, c));
    return r != IR_NONE && b != IR_NONE;
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(build_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {trivial_selects,
                                  booleans_merge,
                                  or_of_ands_from_paths,
                                  linear_terms_leave,
                                  operands_leave,
                                  nested_selects_share_an_arm,
                                  steps_leave,
                                  long_sums_end,
                                  random_trees_against_brute_force,
                                  every_allocation_may_fail};
    return run_tests("select", tests, sizeof tests / sizeof *tests);
}

/* pass_bounds: bounds of the classic masks, and that the bounds are implied
 * by the mask and, when exact, are the mask. */
#include "compiler/passes/passes.h"
#include "tests/unit/ir_oracle.h"

static struct plain_bounds of_mask(struct fixture *f, ir_ref keep)
{
    struct plain_bounds b;
    ck_assert_msg(pass_bounds(f->g, keep, &b), "%s", f->diag.message);
    return b;
}

static bool has(const struct plain_bounds *b, int64_t kq, int64_t kkv,
                ir_ref rest)
{
    for (int k = 0; k < b->n; k++)
        if (b->bound[k].kq == kq && b->bound[k].kkv == kkv &&
            b->bound[k].rest == rest)
            return true;
    return false;
}

START_TEST(classic_masks)
{
    OPEN;
    ir_ref causal = ge(f, q, kv), w = ir_param(f->g, P_INT);
    struct plain_bounds b = of_mask(f, causal);
    ck_assert(b.exact && b.n == 1 && has(&b, 1, -1, num(f, 0)));
    b = of_mask(f, and2(f, causal, lt(f, sub(f, q, kv), w)));
    ck_assert(b.exact && b.n == 2);
    ck_assert(has(&b, 1, -1, num(f, 0)));
    ck_assert(has(&b, -1, 1, sub(f, w, num(f, 1))));
    ir_ref len = ir_len(f->g, true, f->b);
    b = of_mask(f, lt(f, kv, len));
    ck_assert(b.exact && b.n == 1 && has(&b, 0, -1, sub(f, len, num(f, 1))));
    b = of_mask(f, yes(f));
    ck_assert(b.exact && b.n == 0);
    b = of_mask(f, no(f));
    ck_assert(b.exact && b.n == 1 && has(&b, 0, 0, num(f, -1)));
    b = of_mask(f, eq(f, q, add(f, kv, w)));
    ck_assert(b.exact && b.n == 2);
    ir_ref minus = ir_neg(f->g, w);
    ck_assert(has(&b, 1, -1, minus) && has(&b, -1, 1, w));
    CLOSE;
}
END_TEST

START_TEST(more_than_bounds)
{
    OPEN;
    ir_ref causal = ge(f, q, kv), a = load1(f, T_INT, q);
    ir_ref doc = eq(f, a, load1(f, T_INT, kv));
    struct plain_bounds b = of_mask(f, and2(f, causal, doc));
    ck_assert(!b.exact && b.n == 1 && has(&b, 1, -1, num(f, 0)));
    b = of_mask(f, or2(f, causal, doc));
    ck_assert(!b.exact && b.n == 0);
    b = of_mask(f, and2(f, causal, ge(f, kv, a)));
    ck_assert(!b.exact && b.n == 1);
    b = of_mask(f, and2(f, causal, ne(f, f->h, num(f, 3))));
    ck_assert(!b.exact && b.n == 1);
    b = of_mask(f, load1(f, T_BOOL, kv));
    ck_assert(!b.exact && b.n == 0);
    CLOSE;
}
END_TEST

static bool inside(const struct plain_bounds *b, const struct oracle *o,
                   const struct point *at)
{
    for (int k = 0; k < b->n; k++)
        if (b->bound[k].kq * at->q + b->bound[k].kkv * at->kv +
                o[k].value[b->bound[k].rest].i <
            0)
            return false;
    return true;
}

/* A conjunction of comparisons with some logic in it. */
static int conjunction(struct forest *w)
{
    int r = tree_new(w, TREE_AND, 3);
    for (int k = 0; k < 3; k++) {
        int x = tree_bool(w, k == 2);
        w->t[r].x[k] = x;
    }
    return r;
}

START_TEST(random_masks_against_brute_force)
{
    static struct forest w;
    int exact = 0;
    for (unsigned seed = 1; seed <= 6000; seed++) {
        struct fixture f;
        struct oracle o[8];
        w.n = 0;
        w.state = seed;
        ck_assert(fixture_open(&f, &alloc_libc));
        int root = conjunction(&w);
        struct plain_bounds b = of_mask(&f, tree_build(&f, &w, root));
        for (int k = 0; k < b.n && k < 8; k++)
            o[k] = oracle_open(&f, b.bound[k].rest, IR_NONE);
        exact += b.exact && b.n > 0;
        for (int k = 0; k < N_POINTS && b.n <= 8; k++) {
            struct point at = point_at(k);
            for (int j = 0; j < b.n; j++)
                oracle_run(&o[j], &at);
            bool keep = tree_value(&w, root, &at).i, in = inside(&b, o, &at);
            if ((keep && !in) || (b.exact && keep != in))
                ck_abort_msg("seed %u", seed);
        }
        fixture_close(&f);
    }
    ck_assert_int_gt(exact, 300);
}
END_TEST

static bool analyse_something(struct fixture *f)
{
    struct plain_bounds b;
    ir_ref w = ir_param(f->g, P_INT);
    ir_ref keep = and2(f, eq(f, f->q, add(f, f->kv, w)),
                       ge(f, f->q, load1(f, T_INT, f->kv)));
    return keep != IR_NONE && pass_bounds(f->g, keep, &b);
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(analyse_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {classic_masks, more_than_bounds,
                                  random_masks_against_brute_force,
                                  every_allocation_may_fail};
    return run_tests("bounds", tests, sizeof tests / sizeof *tests);
}

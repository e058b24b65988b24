/* pass_congruence: masks that become simpler, masks that stay, bounded work,
 * and random masks against brute force. */
#include "compiler/passes/passes.h"
#include "tests/unit/ir_oracle.h"

static ir_ref congruent(struct fixture *f, ir_ref keep)
{
    struct ir_roots roots = {f->s, keep};
    ck_assert_msg(pass_congruence(f->g, &roots), "%s", f->diag.message);
    ck_assert_uint_eq(roots.score, f->s);
    assert_verified(f, f->s, roots.keep);
    return roots.keep;
}

/* 0 <= q - kv <= 50 */
static ir_ref window(struct fixture *f, ir_ref q, ir_ref kv)
{
    return and2(f, ge(f, q, kv), le(f, sub(f, q, kv), num(f, 50)));
}

START_TEST(documents_with_offsets)
{
    OPEN;
    ir_ref a = load1(f, T_INT, q), b = load1(f, T_INT, kv);
    ir_ref qs = sub(f, q, load1(f, T_OTHER, a));
    ir_ref ks = sub(f, kv, load1(f, T_OTHER, b));
    ck_same(f, congruent(f, and2(f, eq(f, a, b), window(f, qs, ks))),
            and2(f, eq(f, a, b), window(f, q, kv)));
    /* inside an OR, too */
    ir_ref c = load1(f, T_BOOL, kv);
    ck_same(f, congruent(f, or2(f, c, and2(f, eq(f, a, b), window(f, qs, ks)))),
            or2(f, c, and2(f, eq(f, a, b), window(f, q, kv))));
    CLOSE;
}
END_TEST

START_TEST(batches_of_96)
{
    OPEN;
    ir_ref n = num(f, 96);
    ir_ref same = eq(f, ir_floordiv(f->g, q, n), ir_floordiv(f->g, kv, n));
    ir_ref in = window(f, ir_floormod(f->g, q, n), ir_floormod(f->g, kv, n));
    ck_same(f, congruent(f, and2(f, same, in)),
            and2(f, same, window(f, q, kv)));
    CLOSE;
}
END_TEST

/* With q // 4 known, q % 4 is q - 4 * (q // 4). */
START_TEST(a_remainder_beside_its_quotient)
{
    OPEN;
    ir_ref n = num(f, 4), block = eq(f, ir_floordiv(f->g, q, n), kv);
    ir_ref keep = and2(f, block, le(f, ir_floormod(f->g, q, n), f->h));
    ir_ref first = sub(f, q, ir_mul(f->g, kv, n));
    ck_same(f, congruent(f, keep), and2(f, block, le(f, first, f->h)));
    CLOSE;
}
END_TEST

START_TEST(what_does_not_help_stays)
{
    OPEN;
    ir_ref a = load1(f, T_INT, q), b = load1(f, T_INT, kv);
    ir_ref plain = and2(f, eq(f, a, b), ge(f, q, kv));
    ck_same(f, congruent(f, plain), plain);
    ck_same(f, congruent(f, ge(f, q, kv)), ge(f, q, kv));
    ck_same(f, congruent(f, yes(f)), yes(f));
    /* q == kv: variables stay, they are what tiles are made of */
    ir_ref diag = and2(f, eq(f, q, kv), load1(f, T_BOOL, q));
    ck_same(f, congruent(f, diag), diag);
    /* under OR an equation says nothing about its neighbour */
    ir_ref either = or2(f, eq(f, a, b), ge(f, load1(f, T_OTHER, a), b));
    ck_same(f, congruent(f, either), either);
    CLOSE;
}
END_TEST

START_TEST(a_trial_beyond_64_bits_is_dropped)
{
    OPEN;
    /* i // 3 == x with x far beyond what i // 3 reaches */
    struct ir_tensor t = {.name = "far", .dtype = DTYPE_I64, .rank = 1};
    t.dim[0] = (struct ir_dim){IR_DIM_FIXED, T_EXTENT};
    int far = ir_add_tensor(f->g, &t);
    ir_ref n = num(f, 300000), x = load1(f, far, kv);
    ir_ref keep = and2(f, eq(f, ir_floordiv(f->g, q, n), x),
                       ge(f, ir_floormod(f->g, q, n), f->h));
    ck_same(f, congruent(f, keep), keep);
    ck_assert_int_eq(f->diag.status, DIAG_OK);
    CLOSE;
}
END_TEST

/* 500 equations side by side, each a candidate: ends, and soon. */
START_TEST(work_is_bounded)
{
    OPEN;
    ir_ref x[1000];
    for (int k = 0; k < 500; k++) {
        ir_ref a = load1(f, T_INT, add(f, q, num(f, k)));
        ir_ref b = load1(f, T_OTHER, add(f, kv, num(f, k)));
        x[2 * k] = eq(f, a, b);
        x[2 * k + 1] = ge(f, ir_mul(f->g, a, num(f, 2 + k)), b);
    }
    ir_ref keep = ir_and(f->g, 1000, x);
    struct ir_roots roots = {f->s, keep};
    ck_assert(pass_congruence(f->g, &roots));
    assert_verified(f, IR_NONE, roots.keep);
    ck_assert_uint_lt(f->g->n_nodes, 200000);
    ck_assert_uint_lt(arena_used(f->arena), 200u << 20);
    CLOSE;
}
END_TEST

static void check(struct fixture *f, const struct forest *w, int root,
                  unsigned seed)
{
    ir_ref was = tree_build(f, w, root), now = congruent(f, was);
    struct oracle o = oracle_open(f, IR_NONE, now);
    for (int k = 0; k < N_POINTS; k++) {
        struct point at = point_at(k);
        oracle_run(&o, &at);
        if (o.value[now].i != tree_value(w, root, &at).i)
            ck_abort_msg("seed %u, q %d, kv %d\n%s\n%s", seed, (int)at.q,
                         (int)at.kv, text_of(f, IR_NONE, was),
                         text_of(f, IR_NONE, now));
    }
}

/* x == y and a random mask over x and y, so that there is something to do. */
static int equation_and(struct forest *w, int depth)
{
    int r = tree_new(w, TREE_AND, 3), e = tree_new(w, TREE_EQ, 2);
    int x = tree_int(w, 1), y = tree_int(w, 1), d = tree_new(w, TREE_SUB, 2);
    int l = tree_new(w, TREE_LE, 2), z = tree_int(w, 1);
    w->t[d].x[0] = x;
    w->t[d].x[1] = z;
    w->t[l].x[0] = d;
    w->t[l].x[1] = y;
    w->t[e].x[0] = x;
    w->t[e].x[1] = y;
    w->t[r].x[0] = e;
    w->t[r].x[1] = l;
    int rest = tree_bool(w, depth);
    w->t[r].x[2] = rest;
    return r;
}

START_TEST(random_masks_against_brute_force)
{
    static struct forest w;
    struct fixture f;
    for (unsigned seed = 1; seed <= 6000; seed++) {
        w.n = 0;
        w.state = seed;
        ck_assert(fixture_open(&f, &alloc_libc));
        int root = seed % 2 ? equation_and(&w, 2) : tree_bool(&w, 3);
        check(&f, &w, root, seed);
        fixture_close(&f);
    }
}
END_TEST

static bool simplify_something(struct fixture *f)
{
    ir_ref a = load1(f, T_INT, f->q), b = load1(f, T_INT, f->kv);
    ir_ref qs = sub(f, f->q, load1(f, T_OTHER, a));
    ir_ref ks = sub(f, f->kv, load1(f, T_OTHER, b));
    struct ir_roots roots = {f->s, and2(f, eq(f, a, b), ge(f, qs, ks))};
    return pass_congruence(f->g, &roots);
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(simplify_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {documents_with_offsets,
                                  batches_of_96,
                                  a_remainder_beside_its_quotient,
                                  what_does_not_help_stays,
                                  a_trial_beyond_64_bits_is_dropped,
                                  work_is_bounded,
                                  random_masks_against_brute_force,
                                  every_allocation_may_fail};
    return run_tests("congruence", tests, sizeof tests / sizeof *tests);
}

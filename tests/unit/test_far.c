/* pass_far: where values of q - kv come to rest, by hand and against brute
 * force over random functions whose every diagonal is known. */
#include "compiler/passes/passes.h"
#include <math.h>

#include "tests/unit/ir_fixture.h"

enum {
    NEAR = 300, /* diagonals of brute force, to both sides, one by one, */
    BEYOND = 3, /* and so many further ones */
    POINTS = 2 * (NEAR + BEYOND) + 1,
    CASES = 4000
};

static const int64_t beyond[BEYOND] = {5000, 1234567, (int64_t)1 << 30};

/* The k-th, in ascending order. */
static int64_t diagonal(int k)
{
    const int64_t d = k - NEAR - BEYOND;
    if (d > NEAR)
        return beyond[d - NEAR - 1];
    return d < -NEAR ? -beyond[-d - NEAR - 1] : d;
}

/* --- random functions ----------------------------------------------------- */

struct function {
    ir_ref node;
    int64_t at[POINTS]; /* its value at each diagonal */
};

static uint64_t state;

static int rnd(int n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)((state >> 33) % (uint64_t)n);
}

static ir_ref distance(struct fixture *f)
{
    return sub(f, f->q, f->kv);
}

static void set_constant(struct fixture *f, struct function *out, int64_t v)
{
    out->node = num(f, v);
    for (int k = 0; k < POINTS; k++)
        out->at[k] = v;
}

static void set_distance(struct fixture *f, struct function *out)
{
    out->node = distance(f);
    for (int k = 0; k < POINTS; k++)
        out->at[k] = diagonal(k);
}

static int64_t applied(int op, int64_t a, int64_t b)
{
    switch (op) {
    case 0:
        return a + b;
    case 1:
        return a < b ? a : b;
    case 2:
        return a > b ? a : b;
    case 3:
        return a - b;
    default:
        return a >= b;
    }
}

static void combine(struct fixture *f, int op, const struct function *a,
                    const struct function *b, struct function *out)
{
    const ir_ref x = a->node, y = b->node;
    out->node = op == 0   ? add(f, x, y)
                : op == 1 ? ir_min(f->g, x, y)
                : op == 2 ? ir_max(f->g, x, y)
                : op == 3 ? sub(f, x, y)
                          : ir_select(f->g, ge(f, x, y), num(f, 1), num(f, 0));
    for (int k = 0; k < POINTS; k++)
        out->at[k] = applied(op, a->at[k], b->at[k]);
}

static void choose(struct fixture *f, const struct function *c,
                   const struct function *a, const struct function *b,
                   struct function *out)
{
    out->node = ir_select(f->g, ge(f, c->node, num(f, 0)), a->node, b->node);
    for (int k = 0; k < POINTS; k++)
        out->at[k] = c->at[k] >= 0 ? a->at[k] : b->at[k];
}

static void absolute(struct fixture *f, const struct function *a,
                     struct function *out)
{
    out->node = ir_abs(f->g, a->node);
    for (int k = 0; k < POINTS; k++)
        out->at[k] = a->at[k] < 0 ? -a->at[k] : a->at[k];
}

static void any_function(struct fixture *f, int depth, struct function *out)
{
    struct function a, b, c;
    if (depth == 0 || rnd(6) == 0) {
        if (rnd(2))
            set_distance(f, out);
        else
            set_constant(f, out, rnd(201) - 100);
        return;
    }
    any_function(f, depth - 1, &a);
    any_function(f, depth - 1, &b);
    switch (rnd(8)) {
    case 0:
        absolute(f, &a, out);
        break;
    case 1:
        any_function(f, depth - 1, &c);
        choose(f, &c, &a, &b, out);
        break;
    default:
        combine(f, rnd(5), &a, &b, out);
    }
}

/* --- brute force ---------------------------------------------------------- */

static const struct plain_bounds no_bounds = {.exact = true};

static struct far_diagonals far_of(struct fixture *f, ir_ref r,
                                   const struct plain_bounds *mask)
{
    struct far_diagonals x;
    ck_assert_msg(pass_far(f->g, r, mask, &x), "%s", f->diag.message);
    return x;
}

/* The least distance from 0 on from which on all values are the same. */
static int64_t least(const struct function *x, bool before)
{
    int k = before ? POINTS - 1 : 0;
    const int step = before ? -1 : 1;
    while (diagonal(k) != 0 && x->at[k + step] == x->at[k])
        k += step;
    return diagonal(k) < 0 ? -diagonal(k) : diagonal(k);
}

static bool reads_distance(struct fixture *f, ir_ref r)
{
    enum scope *of;
    ck_assert(pass_scope(f->g, &of));
    return of[r] == SCOPE_DIAG;
}

/* What is found holds at every diagonal. */
START_TEST(what_is_found_is_so)
{
    int n_found = 0;
    state = 12345;
    for (int k = 0; k < CASES; k++) {
        OPEN;
        struct function x;
        any_function(f, 4, &x);
        if (reads_distance(f, x.node)) {
            const struct far_diagonals got = far_of(f, x.node, &no_bounds);
            if (got.found &&
                (got.before < least(&x, true) || got.after < least(&x, false)))
                ck_abort_msg("found %d, %d: they are %d, %d\n%s", got.before,
                             got.after, (int)least(&x, true),
                             (int)least(&x, false),
                             text_of(f, x.node, IR_NONE));
            n_found += got.found;
        }
        CLOSE;
    }
    ck_assert_int_gt(n_found, CASES / 20);
}
END_TEST

/* A sum of steps and clamps of q - kv or of |q - kv|, all ascending from the
 * middle on: what is found is what there is. */
static void steps(struct fixture *f, bool symmetric, struct function *out)
{
    struct function d, x, low, high, c, y, z;
    set_distance(f, &d);
    if (symmetric)
        absolute(f, &d, &x);
    else
        x = d;
    const int from = rnd(50) - (symmetric ? 0 : 50);
    set_constant(f, &low, from);
    set_constant(f, &high, from + 1 + rnd(60 - from));
    combine(f, 2, &x, &low, &y);
    combine(f, 1, &y, &high, out);
    for (int n = rnd(5); n > 0; n--) {
        set_constant(f, &c, rnd(61) - (symmetric ? 0 : 61));
        combine(f, 4, &x, &c, &y);
        combine(f, 0, out, &y, &z);
        *out = z;
    }
}

START_TEST(it_is_the_least)
{
    state = 777;
    for (int k = 0; k < CASES; k++) {
        OPEN;
        struct function x;
        steps(f, rnd(2), &x);
        ck_assert(reads_distance(f, x.node));
        const struct far_diagonals got =
            far_of(f, ir_to_float(f->g, x.node), &no_bounds);
        if (!got.found || got.before != least(&x, true) ||
            got.after != least(&x, false))
            ck_abort_msg("found %d, %d, %d: they are %d, %d\n%s", got.found,
                         got.before, got.after, (int)least(&x, true),
                         (int)least(&x, false), text_of(f, x.node, IR_NONE));
        CLOSE;
    }
}
END_TEST

/* --- by hand -------------------------------------------------------------- */

static ir_ref clamped(struct fixture *f, ir_ref x, int lo, int hi)
{
    return ir_min(f->g, ir_max(f->g, x, num(f, lo)), num(f, hi));
}

static void expect(struct fixture *f, ir_ref r, ir_ref keep, bool found,
                   int before, int after)
{
    struct plain_bounds mask;
    ck_assert(pass_bounds(f->g, keep, &mask));
    const struct far_diagonals got = far_of(f, r, &mask);
    ck_assert_msg(got.found == found &&
                      (!found || (got.before == before && got.after == after)),
                  "found %d, %d, %d\n%s", got.found, got.before, got.after,
                  text_of(f, r, keep));
}

START_TEST(values)
{
    OPEN;
    const ir_ref d = distance(f), all = yes(f);
    const ir_ref n = ir_abs(f->g, d), w = ir_param(f->g, P_INT);
    const ir_ref x = ir_to_float(f->g, n), eighth = flt(f, 0.125);
    const ir_ref log = ir_mul(f->g, x, eighth);
    /* loads, of indices that rest, and of tile scope beside them */
    expect(f, load1(f, T_FLOAT, clamped(f, d, -3, 5)), all, true, 5, 3);
    ir_ref at[] = {f->h, clamped(f, n, 0, 40)};
    expect(f, ir_load(f->g, T_TABLE, 2, at), all, true, 40, 40);
    expect(f, add(f, load1(f, T_FLOAT, clamped(f, d, 0, 7)), flt(f, 2)), all,
           true, 7, 0);
    expect(f, load1(f, T_FLOAT, load1(f, T_OTHER, clamped(f, d, 0, 7))), all,
           true, 7, 0);
    expect(f, load1(f, T_FLOAT, n), all, false, 0, 0);
    /* an index that T5's formula gives, in floats */
    const ir_ref y = ir_build(f->g, IR_FLOG, &log);
    const ir_ref far = ir_build(
        f->g, IR_FLOOR,
        (ir_ref[]){ir_mul(f->g, ir_div(f->g, y, flt(f, log2(16) * 0.693147)),
                          flt(f, 8))});
    expect(f,
           load1(f, T_FLOAT, ir_min(f->g, add(f, far, num(f, 8)), num(f, 15))),
           ge(f, q, kv), true, 91, FAR_NONE);
    /* a choice whose arms are of the tile */
    expect(f, ir_select(f->g, ge(f, d, num(f, 20)), w, add(f, w, num(f, 1))),
           all, true, 20, 0);
    /* bounds that are not known when compiling */
    expect(f, ir_min(f->g, n, w), all, false, 0, 0);
    expect(f, load1(f, T_FLOAT, ir_floordiv(f->g, n, num(f, 64))), all, false,
           0, 0);
    /* too many near ones */
    expect(f, clamped(f, d, -64, 64), all, true, 64, 64);
    expect(f, clamped(f, d, -65, 65), all, false, 0, 0);
    expect(f, clamped(f, d, 0, 128), all, true, 128, 0);
    expect(f, clamped(f, d, 0, 129), all, false, 0, 0);
    CLOSE;
}
END_TEST

START_TEST(masks)
{
    OPEN;
    const ir_ref d = distance(f), causal = ge(f, q, kv);
    const ir_ref x = clamped(f, ir_abs(f->g, d), 0, 61);
    const ir_ref w = ir_param(f->g, P_INT);
    expect(f, x, yes(f), true, 61, 61);
    expect(f, x, causal, true, 61, FAR_NONE);
    expect(f, x, le(f, q, kv), true, FAR_NONE, 61);
    /* one side alone comes to rest */
    const ir_ref one = ir_min(f->g, d, num(f, 61));
    expect(f, one, yes(f), false, 0, 0);
    expect(f, one, causal, true, 61, FAR_NONE);
    expect(f, one, le(f, kv, add(f, q, num(f, 60))), true, 61, FAR_NONE);
    expect(f, one, le(f, kv, add(f, q, num(f, 200))), false, 0, 0);
    /* of lengths that are not known */
    expect(f, x, ge(f, add(f, q, w), kv), true, 61, 61);
    /* windows: too little is far, or who knows */
    expect(f, x, and2(f, causal, lt(f, d, num(f, 1024))), false, 0, 0);
    expect(f, x, and2(f, causal, lt(f, d, num(f, 2048))), true, 61, FAR_NONE);
    expect(f, x, and2(f, causal, lt(f, d, w)), true, 61, FAR_NONE);
    /* what is no bound, and bounds of more than q - kv, say nothing */
    expect(f, x, or2(f, causal, lt(f, kv, num(f, 9))), true, 61, 61);
    expect(f, x, ge(f, q, ir_mul(f->g, kv, num(f, 2))), true, 61, 61);
    CLOSE;
}
END_TEST

static bool of_one(struct fixture *f)
{
    struct far_diagonals x;
    const ir_ref r = clamped(f, ir_abs(f->g, distance(f)), 0, 61);
    return r != IR_NONE && pass_far(f->g, r, &no_bounds, &x);
}

START_TEST(memory)
{
    fail_every_allocation(of_one);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {what_is_found_is_so, it_is_the_least, values,
                                  masks, memory};
    return run_tests("far", tests, sizeof tests / sizeof *tests);
}

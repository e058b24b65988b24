/* The interpreter of verdict programs, on programs written by hand: each kind
 * of slot, guards, NaN, bad reads, forms, halving. Every rectangle is compared
 * with the cells; where the program is exact, so must be the verdict. */
#include <math.h>

#include "tests/unit/ir_fixture.h"
#include "tests/unit/verdict_cells.h"

enum { N = 48, MOST = 32 };

/* A program in the making, and the data. */
struct hand {
    struct fixture *f;
    struct verdict_program p;
    struct verdict_slot slot[MOST];
    struct verdict_summary summary[MOST];
    int arg[MOST * 4];
    int64_t coef[MOST * 4];
    int n_args;
    int32_t id[N], other[N], table[N * N];
    uint8_t flag[N];
    float bias[N];
    struct eval_tensor tensors[5];
    union eval_value params[2];
    struct eval_env env;
};

static void hand_open(struct hand *w, struct fixture *f)
{
    *w = (struct hand){.f = f};
    ck_assert(fixture_open(f, &alloc_libc));
    w->p = (struct verdict_program){.tier = TIER_RANGED,
                                    .deps = IR_DEP_B | IR_DEP_H,
                                    .slot = w->slot,
                                    .arg = w->arg,
                                    .coef = w->coef,
                                    .empty_root = -1,
                                    .full_root = -1,
                                    .summary = w->summary};
    const void *data[5] = {w->id, w->flag, w->bias, w->table, w->other};
    for (int t = 0; t < 5; t++)
        w->tensors[t] =
            (struct eval_tensor){data[t], {N, N}, {t == T_TABLE ? N : 1, 1}};
    w->env = (struct eval_env){.B = 2,
                               .H = 2,
                               .Hkv = 2,
                               .Sq = N,
                               .Skv = N,
                               .tensors = w->tensors,
                               .params = w->params};
    srand(7);
    for (int i = 0; i < N; i++) {
        w->id[i] = i / 7 * (i % 20 < 17);
        w->other[i] = rand() % 30;
        w->flag[i] = rand() % 3 != 0;
        w->bias[i] = (float)(rand() % 9);
    }
    for (int i = 0; i < N * N; i++)
        w->table[i] = i / N / 8 == i % N / 8;
}

static void hand_close(struct hand *w)
{
    ck_assert_msg(!w->f->g->failed, "%s", w->f->diag.message);
    fixture_close(w->f);
}

static int add_slot(struct hand *w, struct verdict_slot s, int n,
                    const int *args, const int64_t *coefs)
{
    s.first = w->n_args;
    s.n = n;
    for (int k = 0; k < n; k++) {
        w->arg[w->n_args] = args[k];
        w->coef[w->n_args++] = coefs ? coefs[k] : 0;
    }
    w->slot[w->p.n_slots] = s;
    return w->p.root = w->p.n_slots++;
}

static int add_summary(struct hand *w, enum verdict_side side, ir_ref node,
                       ir_ref guard)
{
    w->summary[w->p.n_summaries] = (struct verdict_summary){side, node, guard};
    return w->p.n_summaries++;
}

static int leaf(struct hand *w, enum slot_kind kind, ir_ref node, int summary)
{
    enum ir_type type =
        node ? (enum ir_type)ir_node(w->f->g, node)->type : IR_INT;
    return add_slot(
        w,
        (struct verdict_slot){
            .kind = kind, .type = type, .node = node, .summary = summary},
        0, NULL, NULL);
}

static int of_side(struct hand *w, enum verdict_side side, ir_ref node,
                   ir_ref guard)
{
    return leaf(w, SLOT_SUMMARY, node, add_summary(w, side, node, guard));
}

static int rows(struct hand *w)
{
    return leaf(w, SLOT_Q, w->f->q, -1);
}

static int columns(struct hand *w)
{
    return leaf(w, SLOT_KV, w->f->kv, -1);
}

/* a - b + c against 0 */
static int difference(struct hand *w, enum ir_op op, int a, int b, int64_t c)
{
    return add_slot(
        w,
        (struct verdict_slot){.kind = SLOT_LINEAR,
                              .op = op,
                              .type = op == IR_LIN ? IR_INT : IR_BOOL,
                              .summary = -1,
                              .c = c},
        2, (int[]){a, b}, (int64_t[]){1, -1});
}

static int op(struct hand *w, enum ir_op o, int n, const int *args)
{
    return add_slot(w,
                    (struct verdict_slot){.kind = SLOT_OP,
                                          .op = o,
                                          .type = ir_op_info(o)->out,
                                          .summary = -1},
                    n, args, NULL);
}

static int both(struct hand *w, enum ir_op o, int a, int b)
{
    return op(w, o, 2, (int[]){a, b});
}

/* How many of all rectangles are decided, or are in truth. */
struct figures {
    long decided, really;
};

/* Never a claim that is not true; b = h = 1. */
static struct figures compare(struct hand *w, ir_ref keep)
{
    struct fixture *f = w->f;
    struct figures r = {0, 0};
    struct ir_roots roots = {f->s, keep};
    struct cells c;
    struct eval_plan *plan = eval_plan_new(f->arena, f->g, &roots);
    struct verdict_plan *verdicts = verdict_plan_new(f->g, &w->p);
    ck_assert(plan && verdicts);
    struct verdict_state *s = verdict_state_new(verdicts, EVAL_F32, &w->env);
    ck_assert_ptr_nonnull(s);
    ck_assert_msg(cells_make(&c, plan, EVAL_F32, &w->env, 1, 1, &f->diag), "%s",
                  f->diag.message);
    verdict_state_head(s, 0, 1);
    verdict_state_head(s, 1, 1);
    for (int q0 = 0; q0 < c.rows; q0++)
        for (int q1 = q0; q1 < c.rows; q1 += 1 + q1 % 5)
            for (int k0 = 0; k0 < c.cols; k0++)
                for (int k1 = k0; k1 < c.cols; k1 += 1 + k1 % 5) {
                    enum verdict v = verdict_eval(s, q0, q1, k0, k1);
                    enum verdict t = cells_truth(&c, q0, q1, k0, k1);
                    if (cells_contradict(v, t))
                        ck_abort_msg("rows %d..%d columns %d..%d: %d, not %d",
                                     q0, q1, k0, k1, v, t);
                    r.decided += v != VERDICT_PARTIAL;
                    r.really += t != VERDICT_PARTIAL;
                }
    cells_free(&c);
    verdict_state_free(s);
    return r;
}

static void exact(struct hand *w, ir_ref keep)
{
    struct figures r = compare(w, keep);
    ck_assert_int_gt(r.really, 100);
    ck_assert_int_eq(r.decided, r.really);
}

/* Some, though not all. */
static void some(struct hand *w, ir_ref keep)
{
    struct figures r = compare(w, keep);
    ck_assert_int_gt(r.decided, 100);
    ck_assert_int_lt(r.decided, r.really);
}

#define HAND                                                                   \
    struct fixture f_, *f = &f_;                                               \
    static struct hand w_;                                                     \
    struct hand *w = &w_;                                                      \
    hand_open(w, f)

START_TEST(linear_forms)
{
    HAND;
    difference(w, IR_GE0, rows(w), columns(w), 3);
    exact(w, ge(f, add(f, f->q, num(f, 3)), f->kv));
    difference(w, IR_EQ0, rows(w), columns(w), -2);
    exact(w, eq(f, f->q, add(f, f->kv, num(f, 2))));
    w->params[P_INT].i = 5; /* run-time: q - kv <= w */
    ir_ref p = ir_param(f->g, P_INT);
    int d = difference(w, IR_LIN, rows(w), columns(w), 0);
    difference(w, IR_GE0, leaf(w, SLOT_TILE, p, -1), d, 0);
    exact(w, le(f, sub(f, f->q, f->kv), p));
    hand_close(w);
}
END_TEST

START_TEST(lengths_bound_the_positions)
{
    HAND;
    const int32_t len_q[2] = {3, 31}, len_kv[2] = {48, 17};
    w->env.len_q = len_q;
    w->env.len_kv = len_kv;
    ir_ref a = load1(f, T_INT, f->q), b = load1(f, T_OTHER, f->kv);
    difference(w, IR_GE0, of_side(w, SIDE_Q, a, IR_NONE),
               of_side(w, SIDE_KV, b, IR_NONE), 0);
    exact(w, ge(f, a, b));
    hand_close(w);
}
END_TEST

START_TEST(summaries)
{
    HAND;
    ir_ref a = load1(f, T_INT, f->q), b = load1(f, T_INT, f->kv);
    int qa = of_side(w, SIDE_Q, a, IR_NONE);
    difference(w, IR_EQ0, qa, of_side(w, SIDE_KV, b, IR_NONE), 0);
    some(w, eq(f, a, b));            /* ids with holes */
    ir_ref c = load1(f, T_OTHER, b); /* chained */
    difference(w, IR_GE0, qa, of_side(w, SIDE_KV, c, IR_NONE), 0);
    exact(w, ge(f, a, c));
    ir_ref t = load1(f, T_BOOL, f->q), u = load1(f, T_BOOL, f->kv);
    int tq = of_side(w, SIDE_Q, t, IR_NONE),
        uk = of_side(w, SIDE_KV, u, IR_NONE);
    both(w, IR_OR, tq, uk);
    exact(w, or2(f, t, u));
    both(w, IR_AND, tq, op(w, IR_NOT, 1, &uk));
    exact(w, and2(f, t, not1(f, u)));
    hand_close(w);
}
END_TEST

/* In `valid[kv] and q >= other[kv]` invalid columns say nothing. */
START_TEST(guards)
{
    HAND;
    ir_ref v = load1(f, T_BOOL, f->kv), x = load1(f, T_OTHER, f->kv);
    ir_ref keep = and2(f, v, ge(f, f->q, x));
    for (int i = 0; i < N; i++)
        if (!w->flag[i])
            w->other[i] = i % 2 ? INT32_MIN : INT32_MAX;
    int r = rows(w), valid = of_side(w, SIDE_KV, v, IR_NONE);
    both(w, IR_AND, valid,
         difference(w, IR_GE0, r, of_side(w, SIDE_KV, x, IR_NONE), 0));
    struct figures without = compare(w, keep);
    both(w, IR_AND, valid,
         difference(w, IR_GE0, r, of_side(w, SIDE_KV, x, v), 0));
    struct figures with = compare(w, keep);
    ck_assert_int_gt(with.decided, without.decided);
    ck_assert_int_eq(with.decided, with.really);
    /* the position itself, where valid */
    both(w, IR_AND, valid,
         difference(w, IR_GE0, r,
                    leaf(w, SLOT_KV, f->kv, add_summary(w, SIDE_KV, f->kv, v)),
                    0));
    exact(w, and2(f, v, ge(f, f->q, f->kv)));
    hand_close(w);
}
END_TEST

START_TEST(floats)
{
    HAND;
    ir_ref a = load1(f, T_FLOAT, f->q), b = load1(f, T_FLOAT, f->kv);
    int qa = of_side(w, SIDE_Q, a, IR_NONE),
        kb = of_side(w, SIDE_KV, b, IR_NONE);
    int less = both(w, IR_FLT, qa, kb);
    exact(w, lt(f, a, b));
    w->bias[11] = -0.0f;
    w->bias[12] = -INFINITY;
    w->bias[13] = INFINITY;
    exact(w, lt(f, a, b));
    w->bias[14] = NAN; /* comparisons with it are false, their negation true */
    w->p.root = less;
    exact(w, lt(f, a, b));
    op(w, IR_NOT, 1, &less);
    exact(w, not1(f, lt(f, a, b)));
    both(w, IR_FLE, both(w, IR_FADD, qa, kb), kb);
    compare(w, le(f, ir_add(f->g, a, b), b));
    hand_close(w);
}
END_TEST

START_TEST(operations)
{
    HAND;
    int q = rows(w), kv = columns(w);
    ir_ref eight = num(f, 8);
    int e = leaf(w, SLOT_TILE, eight, -1);
    difference(w, IR_EQ0, both(w, IR_IDIV, q, e), both(w, IR_IDIV, kv, e), 0);
    exact(w, eq(f, ir_floordiv(f->g, f->q, eight),
                ir_floordiv(f->g, f->kv, eight)));
    difference(w, IR_GE0, both(w, IR_IMOD, q, e), both(w, IR_IMOD, kv, e), 0);
    exact(w, ge(f, ir_floormod(f->g, f->q, eight),
                ir_floormod(f->g, f->kv, eight)));
    int causal = difference(w, IR_GE0, q, kv, 0);
    int sel = op(w, IR_SEL_I, 3, (int[]){causal, q, e});
    difference(w, IR_GE0, sel, leaf(w, SLOT_TILE, num(f, 20), -1), 0);
    ir_ref c = ge(f, f->q, f->kv);
    compare(w, ge(f, ir_select(f->g, c, f->q, eight), num(f, 20)));
    hand_close(w);
}
END_TEST

/* Both indices: elements in reach, at most VERDICT_MAX_REACH. */
START_TEST(loads)
{
    HAND;
    int q = rows(w), kv = columns(w), one = leaf(w, SLOT_TILE, num(f, 1), -1);
    ir_ref l = ir_load(f->g, T_TABLE, 2, (ir_ref[]){f->q, f->kv});
    struct verdict_slot load = {.kind = SLOT_LOAD,
                                .op = IR_LOAD_I,
                                .type = IR_INT,
                                .node = l,
                                .summary = -1};
    int x = add_slot(w, load, 2, (int[]){q, kv}, NULL);
    difference(w, IR_GE0, x, one, 0);
    some(w, ge(f, l, num(f, 1)));
    hand_close(w);
}
END_TEST

START_TEST(anything_is_partial)
{
    HAND;
    leaf(w, SLOT_ANY, yes(f), -1);
    struct figures r = compare(w, ge(f, f->q, f->kv));
    ck_assert_int_eq(r.decided, 0);
    hand_close(w);
}
END_TEST

static enum verdict ask(struct hand *w, int q0, int q1, int k0, int k1)
{
    struct verdict_plan *plan = verdict_plan_new(w->f->g, &w->p);
    struct verdict_state *s = verdict_state_new(plan, EVAL_F64, &w->env);
    ck_assert_ptr_nonnull(s);
    verdict_state_head(s, 0, 0);
    enum verdict v = verdict_eval(s, q0, q1, k0, k1);
    verdict_state_free(s);
    return v;
}

/* id[kv + 40] ends at kv = 7. What may hang on such a read is PARTIAL, what is
 * decided without it is not. */
START_TEST(bad_reads)
{
    HAND;
    ir_ref x = load1(f, T_INT, add(f, f->kv, num(f, 40)));
    ir_ref valid = lt(f, f->kv, num(f, 8));
    int q = rows(w), kv = columns(w),
        far = leaf(w, SLOT_TILE, num(f, 1000), -1);
    int bad = of_side(w, SIDE_KV, x, IR_NONE);
    int below = difference(w, IR_GE0, far, bad, 0); /* true of all elements */
    ck_assert_int_eq(ask(w, 0, 9, 0, 7), VERDICT_FULL);
    ck_assert_int_eq(ask(w, 0, 9, 0, 8), VERDICT_PARTIAL);
    int causal = difference(w, IR_GE0, q, kv, 0);
    both(w, IR_AND, below, causal);
    ck_assert_int_eq(ask(w, 0, 9, 10, 30), VERDICT_EMPTY);
    ck_assert_int_eq(ask(w, 40, 47, 10, 30), VERDICT_PARTIAL);
    both(w, IR_OR, below, causal);
    ck_assert_int_eq(ask(w, 40, 47, 10, 30), VERDICT_FULL);
    op(w, IR_SEL_I, 3, (int[]){causal, q, bad});
    difference(w, IR_GE0, far, w->p.root, 0);
    ck_assert_int_eq(ask(w, 40, 47, 10, 30), VERDICT_FULL);
    ck_assert_int_eq(ask(w, 0, 9, 10, 30), VERDICT_PARTIAL);
    /* guarded */
    int guard = of_side(w, SIDE_KV, valid, IR_NONE);
    both(w, IR_AND, guard,
         difference(w, IR_GE0, far, of_side(w, SIDE_KV, x, valid), 0));
    ck_assert_int_eq(ask(w, 0, 9, 0, 7), VERDICT_FULL);
    ck_assert_int_eq(ask(w, 0, 9, 0, 20), VERDICT_PARTIAL);
    ck_assert_int_eq(ask(w, 0, 9, 8, 20), VERDICT_EMPTY);
    /* by both indices, and of tile scope */
    ir_ref t = ir_load(f->g, T_TABLE, 2, (ir_ref[]){f->q, sub(f, f->q, f->kv)});
    int d = difference(w, IR_LIN, q, kv, 0);
    struct verdict_slot load = {.kind = SLOT_LOAD,
                                .op = IR_LOAD_I,
                                .type = IR_INT,
                                .node = t,
                                .summary = -1};
    difference(w, IR_GE0, far, add_slot(w, load, 2, (int[]){q, d}, NULL), 0);
    ck_assert_int_eq(ask(w, 9, 9, 3, 9), VERDICT_FULL);
    ck_assert_int_eq(ask(w, 9, 9, 3, 10), VERDICT_PARTIAL);
    ir_ref y = load1(f, T_INT, num(f, N));
    difference(w, IR_GE0, far, leaf(w, SLOT_TILE, y, -1), 0);
    ck_assert_int_eq(ask(w, 0, 0, 0, 0), VERDICT_PARTIAL);
    hand_close(w);
}
END_TEST

/* The forms decide where the mask itself does not. */
START_TEST(forms)
{
    HAND;
    int q = rows(w), kv = columns(w);
    int causal = difference(w, IR_GE0, q, kv, 0);
    int not_before = difference(w, IR_GE0, kv, q, -10);
    int root = leaf(w, SLOT_ANY, yes(f), -1);
    w->p.empty_root = both(w, IR_AND, causal, not_before); /* never both */
    w->p.root = root;
    ck_assert_int_eq(ask(w, 0, 5, 20, 30), VERDICT_EMPTY);
    ck_assert_int_eq(ask(w, 0, 15, 0, 15), VERDICT_PARTIAL);
    w->p.full_root = w->p.empty_root;
    w->p.empty_root = -1;
    ck_assert_int_eq(ask(w, 0, 5, 20, 30), VERDICT_FULL);
    hand_close(w);
}
END_TEST

/* (q // 16 + kv // 16) % 2 == 0 is known in granules, not beyond. */
START_TEST(halving)
{
    HAND;
    int e = leaf(w, SLOT_TILE, num(f, 16), -1);
    int two = leaf(w, SLOT_TILE, num(f, 2), -1);
    int zero = leaf(w, SLOT_TILE, num(f, 0), -1);
    int a = both(w, IR_IDIV, rows(w), e), b = both(w, IR_IDIV, columns(w), e);
    int minus = difference(w, IR_LIN, a, b, 64);
    int even = difference(w, IR_EQ0, both(w, IR_IMOD, minus, two), zero, 0);
    int low = difference(w, IR_GE0, zero, a, 0); /* or the first rows */
    both(w, IR_OR, even, low);
    w->p.halve = true;
    ck_assert_int_eq(ask(w, 0, 15, 0, 47), VERDICT_FULL);
    ck_assert_int_eq(ask(w, 0, 47, 0, 47), VERDICT_PARTIAL);
    w->p.root = op(w, IR_NOT, 1, &low);
    w->p.root = both(w, IR_AND, w->p.root, even);
    int odd = op(w, IR_NOT, 1, &even);
    both(w, IR_OR, even, odd); /* unknown as a whole, true in granules */
    ck_assert_int_eq(ask(w, 0, 47, 0, 47), VERDICT_FULL);
    ck_assert_int_eq(ask(w, 16, 31, 0, 40), VERDICT_FULL);
    both(w, IR_AND, even, odd);
    ck_assert_int_eq(ask(w, 0, 47, 0, 47), VERDICT_EMPTY);
    ck_assert_int_eq(ask(w, 0, 47, 5, 47), VERDICT_PARTIAL); /* not aligned */
    w->p.halve = false;
    ck_assert_int_eq(ask(w, 0, 47, 0, 47), VERDICT_PARTIAL);
    hand_close(w);
}
END_TEST

START_TEST(no_positions)
{
    HAND;
    const int32_t none[2] = {0, 0};
    w->env.len_q = w->env.len_kv = none;
    ir_ref a = load1(f, T_INT, f->q);
    difference(w, IR_GE0, of_side(w, SIDE_Q, a, IR_NONE), columns(w), 0);
    struct verdict_plan *plan = verdict_plan_new(f->g, &w->p);
    struct verdict_state *s = verdict_state_new(plan, EVAL_F32, &w->env);
    verdict_state_head(s, 1, 1);
    verdict_state_free(s);
    w->env.Sq = w->env.Skv = 0;
    s = verdict_state_new(plan, EVAL_F32, &w->env);
    verdict_state_head(s, 0, 0);
    verdict_state_free(s);
    hand_close(w);
}
END_TEST

/* Sequences that are packed or padded: what is made is of the lengths that are
 * used, however long one might be. */
START_TEST(memory_is_of_the_used_lengths)
{
    HAND;
    const int32_t few[2] = {N, 9};
    w->env.len_q = w->env.len_kv = few;
    w->env.Sq = w->env.Skv = 1 << 30;
    int row = of_side(w, SIDE_Q, load1(f, T_INT, f->q), IR_NONE);
    int column = of_side(w, SIDE_KV, load1(f, T_INT, f->kv), IR_NONE);
    difference(w, IR_GE0, row, column, 0);
    struct verdict_plan *plan = verdict_plan_new(f->g, &w->p);
    struct verdict_state *s = verdict_state_new(plan, EVAL_F32, &w->env);
    ck_assert_ptr_nonnull(s);
    for (int b = 0; b < 2; b++) {
        verdict_state_head(s, b, 0);
        ck_assert_int_eq(verdict_eval(s, 0, few[b] - 1, 0, few[b] - 1),
                         VERDICT_PARTIAL);
        ck_assert_int_eq(verdict_eval(s, 7, 8, 0, 6), VERDICT_FULL);
    }
    verdict_state_free(s);
    hand_close(w);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {linear_forms,
                                  lengths_bound_the_positions,
                                  summaries,
                                  guards,
                                  floats,
                                  operations,
                                  loads,
                                  anything_is_partial,
                                  bad_reads,
                                  forms,
                                  halving,
                                  no_positions,
                                  memory_is_of_the_used_lengths};
    return run_tests("verdict interpreter", tests,
                     sizeof tests / sizeof *tests);
}

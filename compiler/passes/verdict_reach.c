/* In: the mask's nodes. Out: which of its loads by both indices cannot be
 * bounded, because a tile of usual size reaches too many elements. Intervals
 * over tiles at a few places, with plausible numbers for what only the launch
 * knows: an estimate that chooses between two sound ways. Called by
 * verdict.c. */
#include "compiler/passes/verdict_build.h"

#include <math.h>

#include "compiler/ir/scratch.h"

enum { ROWS = 128, COLUMNS = 64, LENGTH = 2048, COUNT = 8, PARAM = 16 };

struct place {
    int64_t q, kv; /* first row, first column */
};
static const struct place places[] = {
    {0, 0}, {LENGTH - ROWS, LENGTH - COLUMNS}, {LENGTH - ROWS, 0}};

static struct interval ints(int64_t lo, int64_t hi)
{
    return (struct interval){.type = IR_INT, .i = {lo, hi}};
}

static struct interval variable(enum ir_var v, struct place at)
{
    if (v == IR_VAR_Q)
        return ints(at.q, at.q + ROWS - 1);
    if (v == IR_VAR_KV)
        return ints(at.kv, at.kv + COLUMNS - 1);
    if (v == IR_VAR_SIZE_Q || v == IR_VAR_SIZE_KV)
        return ints(LENGTH, LENGTH);
    return v == IR_VAR_B || v == IR_VAR_H ? ints(0, 0) : ints(COUNT, COUNT);
}

static struct interval leaf(const struct ir_graph *g, ir_ref r, struct place at)
{
    const struct ir_node *n = ir_node(g, r);
    const double one = n->op == IR_CONST_F ? n->f : 1;
    if (n->op == IR_VAR_I)
        return variable((enum ir_var)n->i, at);
    if (n->op == IR_CONST_I)
        return ints(n->i, n->i);
    if (n->op == IR_LEN_Q || n->op == IR_LEN_KV)
        return ints(LENGTH, LENGTH);
    if (n->op == IR_PARAM_I)
        return ints(PARAM, PARAM);
    if (n->op == IR_CONST_B)
        return (struct interval){.type = IR_BOOL, .b = {!n->i, n->i != 0}};
    if (n->op == IR_CONST_F || n->op == IR_PARAM_F)
        return (struct interval){.type = IR_FLOAT, .f = {one, one, isnan(one)}};
    if (n->type == IR_INT && verdict_is_tile(g, r)) /* a load */
        return ints(n->lo > 0 ? n->lo : 0, n->lo > 0 ? n->lo : 0);
    if (n->type == IR_INT)
        return ints(n->lo, n->hi);
    return interval_any((enum ir_type)n->type);
}

static struct interval linear(struct ir_graph *g, ir_ref r,
                              const struct interval *x)
{
    bool wide;
    const struct ir_node *n = ir_node(g, r);
    const struct interval sum =
        interval_linear(n->i, n->n, g->coefs + n->first, x, &wide);
    return interval_of_sum((enum ir_op)n->op, &sum);
}

static struct interval value(struct ir_graph *g, ir_ref r,
                             const struct interval *of, struct place at)
{
    const struct ir_node *n = ir_node(g, r);
    const enum ir_op op = (enum ir_op)n->op;
    struct scratch_mark mark = scratch_mark(g);
    if (n->n == 0 || ir_op_is_load(op) || op == IR_LEN_Q || op == IR_LEN_KV)
        return leaf(g, r, at);
    struct interval *x = scratch_alloc(g, n->n * sizeof *x);
    if (!x)
        return interval_any((enum ir_type)n->type);
    for (uint32_t k = 0; k < n->n; k++)
        x[k] = of[ir_arg(g, r, k)];
    struct interval out;
    if (ir_op_is_linear(op))
        out = linear(g, r, x);
    else if (n->type == IR_BOOL && (verdict_is_logic(g, r) || op == IR_NOT))
        out = interval_any(IR_BOOL);
    else
        out = interval_eval(op, x);
    scratch_release(g, mark);
    return out;
}

static int64_t extent(const struct ir_dim *d)
{
    if (d->kind == IR_DIM_FIXED)
        return d->extent;
    return d->kind == IR_DIM_Q || d->kind == IR_DIM_KV || d->kind == IR_DIM_ANY
               ? LENGTH
               : COUNT;
}

static int64_t clamp(int64_t x, int64_t hi)
{
    return x < 0 ? 0 : x > hi ? hi : x;
}

static bool reaches_far(const struct ir_graph *g, ir_ref r,
                        const struct interval *of)
{
    const struct ir_tensor *t = &g->tensors[ir_node(g, r)->i];
    int64_t n = 1;
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++) {
        const struct interval *x = &of[ir_arg(g, r, k)];
        const int64_t last = extent(&t->dim[k]) - 1;
        const int64_t lo = clamp(x->i.lo, last), hi = clamp(x->i.hi, last);
        n *= hi < lo ? 1 : hi - lo + 1;
        if (n > VERDICT_MAX_REACH)
            return true;
    }
    return false;
}

bool *verdict_reach(struct ir_graph *g, const ir_ref *order, uint32_t n)
{
    bool *far = arena_alloc(g->arena, g->n_nodes * sizeof *far);
    struct interval *of = arena_alloc(g->arena, g->n_nodes * sizeof *of);
    if (!far || !of) {
        ir_fail_memory(g);
        return NULL;
    }
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (uint32_t k = 0; k < n; k++) {
            const ir_ref r = order[k];
            of[r] = value(g, r, of, places[p]);
            if (ir_op_is_load((enum ir_op)ir_node(g, r)->op) &&
                verdict_is_two_sided(g, r))
                far[r] |= reaches_far(g, r, of);
        }
    return g->failed ? NULL : far;
}

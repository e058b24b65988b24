/* In: the mask. Out: whether smaller rectangles may decide what a tile leaves
 * open: a value that jumps (summarised loads, %, bits) has to lie in a range
 * with two ends. Over a whole tile it covers both ends; over a few rows and
 * columns it may lie inside or outside. Where the range has one end, or the
 * values grow with their index, a tile is as good. Called by verdict.c. */
#include "compiler/passes/verdict_build.h"

#include "compiler/ir/scratch.h"

enum { MAX_NESTING = 8 };

/* Two sides of the smallest tile: together they see all of a period that is
 * no longer. */
enum { SHORT_PERIOD = 128 };

/* COARSE: the same over COARSE_STEP positions or more, so that granules see
 * one value. */
enum { JUMPS = 1, WRAPS = 2, COARSE = 4 };
enum { COARSE_STEP = 2 * VERDICT_GRANULE };

/* Indices from one value to the next, of a value that grows or falls evenly
 * with q, kv or both; 0: it does not, or nobody knows. */
static int64_t step_of(const struct ir_graph *g, ir_ref r, int nesting)
{
    const struct ir_node *n = ir_node(g, r);
    int64_t step = 0;
    if (n->op == IR_VAR_I && !verdict_is_tile(g, r))
        return 1;
    if (nesting == MAX_NESTING)
        return 0;
    if (n->op == IR_IABS)
        return step_of(g, ir_arg(g, r, 0), nesting + 1);
    if (n->op == IR_IDIV && ir_is(g, ir_arg(g, r, 1), IR_CONST_I)) {
        const int64_t by = ir_node(g, ir_arg(g, r, 1))->i;
        step = step_of(g, ir_arg(g, r, 0), nesting + 1);
        return by > 0 && by <= SHORT_PERIOD && step <= SHORT_PERIOD ? by * step
                                                                    : 0;
    }
    for (uint32_t k = 0; n->op == IR_LIN && k < n->n; k++) {
        const ir_ref x = ir_arg(g, r, k);
        if (verdict_is_tile(g, x))
            continue;
        const int64_t of = step_of(g, x, nesting + 1), c = ir_coef(g, r, k);
        if (of == 0 || (step && step != of) || (c != 1 && c != -1))
            return 0;
        step = of;
    }
    return step;
}

/* A remainder of a short period: no tile is inside one, the mask never hangs
 * on it alone; and what it says with its quotient is implied
 * (verdict_implied.c). */
static bool is_short_period(const struct ir_graph *g, ir_ref r)
{
    const ir_ref m = ir_arg(g, r, 1);
    const int64_t step = step_of(g, ir_arg(g, r, 0), 0);
    if (step == 0 || !ir_is(g, m, IR_CONST_I))
        return false;
    const int64_t n = ir_node(g, m)->i;
    return n >= -SHORT_PERIOD && n <= SHORT_PERIOD &&
           (n < 0 ? -n : n) * step <= SHORT_PERIOD;
}

static bool is_bits(enum ir_op op)
{
    return op == IR_IAND || op == IR_IOR || op == IR_IXOR || op == IR_ISHL ||
           op == IR_ISHR;
}

/* Whether a node is COARSE, from its operands. */
static bool is_coarse(const struct ir_graph *g, ir_ref r, const uint8_t *of)
{
    const struct ir_node *n = ir_node(g, r);
    if (verdict_is_tile(g, r))
        return true;
    if (n->op == IR_IDIV && ir_is(g, ir_arg(g, r, 1), IR_CONST_I) &&
        ir_node(g, ir_arg(g, r, 1))->i >= COARSE_STEP &&
        step_of(g, ir_arg(g, r, 0), 0) == 1)
        return true;
    for (uint32_t k = 0; k < n->n; k++)
        if (!(of[ir_arg(g, r, k)] & COARSE))
            return false;
    return n->n > 0;
}

/* How a value runs with its index, from its operands. A load by a coarse index
 * is a block's number in a list of blocks: of two blocks it can be any two. */
static uint8_t manner(const struct ir_graph *g, ir_ref r, const uint8_t *of)
{
    const enum ir_op op = (enum ir_op)ir_node(g, r)->op;
    uint8_t m = is_coarse(g, r, of) ? COARSE : 0;
    if (verdict_is_tile(g, r))
        return m;
    if (ir_op_is_load(op))
        return m | (m || verdict_is_two_sided(g, r) ? JUMPS | WRAPS : JUMPS);
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++)
        m |= of[ir_arg(g, r, k)] & (JUMPS | WRAPS);
    if (op == IR_IMOD && is_short_period(g, r))
        return m;
    if (op == IR_IMOD || is_bits(op))
        m |= JUMPS | WRAPS;
    return m;
}

/* Whether the form of two inequalities, one of them negated for an OR or not,
 * holds one jumping term between two ends. */
static bool encloses(const struct ir_graph *g, ir_ref a, ir_ref b,
                     const uint8_t *of)
{
    for (uint32_t i = 0; i < ir_node(g, a)->n; i++)
        for (uint32_t j = 0; j < ir_node(g, b)->n; j++)
            if (ir_arg(g, a, i) == ir_arg(g, b, j) &&
                (of[ir_arg(g, a, i)] & JUMPS) &&
                (ir_coef(g, a, i) < 0) != (ir_coef(g, b, j) < 0))
                return true;
    return false;
}

static bool any_encloses(const struct ir_graph *g, ir_ref r, const uint8_t *of)
{
    for (uint32_t i = 0; i < ir_node(g, r)->n; i++)
        for (uint32_t j = 0; j < i; j++) {
            const ir_ref a = ir_arg(g, r, i), b = ir_arg(g, r, j);
            if (ir_is(g, a, IR_GE0) && ir_is(g, b, IR_GE0) &&
                verdict_is_two_sided(g, a) && verdict_is_two_sided(g, b) &&
                encloses(g, a, b, of))
                return true;
        }
    return false;
}

static bool wraps(const struct ir_graph *g, ir_ref r, const uint8_t *of)
{
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++)
        if (of[ir_arg(g, r, k)] & WRAPS)
            return true;
    return false;
}

bool verdict_halves(struct ir_graph *g, const ir_ref *order, uint32_t n)
{
    struct scratch_mark mark = scratch_mark(g);
    uint8_t *of = scratch_alloc(g, g->n_nodes);
    bool found = false;
    for (uint32_t k = 0; of && k < n; k++) {
        const ir_ref r = order[k];
        of[r] = manner(g, r, of);
        if (ir_is(g, r, IR_EQ0) && verdict_is_two_sided(g, r))
            found |= wraps(g, r, of);
        else if (verdict_is_logic(g, r))
            found |= any_encloses(g, r, of);
    }
    scratch_release(g, mark);
    return found;
}

/* In: the mask. Out: whether smaller rectangles may decide what a tile leaves
 * open: a value that jumps (summarised loads, %, bits) has to lie in a range
 * with two ends. Over a whole tile it covers both ends; over a few rows and
 * columns it may lie inside or outside. Where the range has one end, or the
 * values grow with their index, a tile is as good. Called by verdict.c. */
#include "compiler/passes/verdict_build.h"

#include "compiler/ir/scratch.h"

/* From a modulus of this on, a tile of 64 by 64 may lie in one period of
 * q - kv. */
enum { LONG_PERIOD = 128 };

enum { JUMPS = 1, WRAPS = 2 };

/* A remainder of a short constant period of a form with single steps of q and
 * kv (or of its size): a tile sees all of it, so that the mask never hangs on
 * it alone. */
static bool is_short_period(const struct ir_graph *g, ir_ref r)
{
    const ir_ref of = ir_arg(g, r, 0), m = ir_arg(g, r, 1);
    const ir_ref x = ir_is(g, of, IR_IABS) ? ir_arg(g, of, 0) : of;
    if (!verdict_is_affine(g, x) || !ir_is(g, m, IR_CONST_I))
        return false;
    for (uint32_t k = 0; ir_is(g, x, IR_LIN) && k < ir_node(g, x)->n; k++)
        if (!verdict_is_tile(g, ir_arg(g, x, k)) && ir_coef(g, x, k) != 1 &&
            ir_coef(g, x, k) != -1)
            return false;
    return ir_node(g, m)->i > -LONG_PERIOD && ir_node(g, m)->i < LONG_PERIOD;
}

static bool is_both(const struct ir_graph *g, ir_ref r)
{
    const unsigned both = IR_DEP_Q | IR_DEP_KV;
    return (ir_node(g, r)->deps & both) == both;
}

static bool is_bits(enum ir_op op)
{
    return op == IR_IAND || op == IR_IOR || op == IR_IXOR || op == IR_ISHL ||
           op == IR_ISHR;
}

/* How a value runs with its index, from its operands. */
static uint8_t manner(const struct ir_graph *g, ir_ref r, const uint8_t *of)
{
    const enum ir_op op = (enum ir_op)ir_node(g, r)->op;
    uint8_t m = 0;
    if (verdict_is_tile(g, r))
        return 0;
    if (ir_op_is_load(op))
        return is_both(g, r) ? JUMPS | WRAPS : JUMPS;
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++)
        m |= of[ir_arg(g, r, k)];
    if (op == IR_IMOD && is_both(g, r) && is_short_period(g, r))
        return m;
    if (op == IR_IMOD || is_bits(op))
        return JUMPS | WRAPS;
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
            if (ir_is(g, a, IR_GE0) && ir_is(g, b, IR_GE0) && is_both(g, a) &&
                is_both(g, b) && encloses(g, a, b, of))
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
        if (ir_is(g, r, IR_EQ0) && is_both(g, r))
            found |= wraps(g, r, of);
        else if (verdict_is_logic(g, r))
            found |= any_encloses(g, r, of);
    }
    scratch_release(g, mark);
    return found;
}

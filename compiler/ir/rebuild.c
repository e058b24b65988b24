/* In: a node and new operands for it. Out: the node those operands make,
 * through the builders, so canonical and possibly folded. Called by the
 * passes, which thus need no list of ops. */
#include "compiler/ir/ir.h"

#include "compiler/ir/scratch.h"

static ir_ref finish_linear(struct ir_graph *g, enum ir_op op,
                            const struct ir_linear *l)
{
    if (op == IR_GE0)
        return ir_ge0(g, l);
    return op == IR_EQ0 ? ir_eq0(g, l) : ir_linear_node(g, l);
}

static ir_ref rebuild_linear(struct ir_graph *g, ir_ref r, const ir_ref *x)
{
    struct scratch_mark mark = scratch_mark(g);
    struct ir_linear l;
    uint32_t n = ir_node(g, r)->n, k = 0;
    ir_ref out = IR_NONE;
    if (ir_linear_scratch(g, &l, ir_node(g, r)->i, n))
        while (k < n && ir_linear_axpy(g, &l, x[k], ir_coef(g, r, k)))
            k++;
    if (!g->failed)
        out = finish_linear(g, ir_node(g, r)->op, &l);
    scratch_release(g, mark);
    return out;
}

static bool is_any(enum ir_op op, enum ir_op a, enum ir_op b, enum ir_op c)
{
    return op == a || op == b || op == c;
}

ir_ref ir_rebuild(struct ir_graph *g, ir_ref r, const ir_ref *x)
{
    if (g->failed)
        return IR_NONE;
    const struct ir_node *p = ir_node(g, r);
    enum ir_op op = p->op;
    for (uint32_t k = 0; k < p->n; k++)
        if (x[k] == IR_NONE)
            return IR_NONE;
    if (p->n == 0)
        return r;
    if (is_any(op, IR_LIN, IR_GE0, IR_EQ0))
        return rebuild_linear(g, r, x);
    if (is_any(op, IR_LOAD_B, IR_LOAD_I, IR_LOAD_F))
        return ir_load(g, (int)p->i, (int)p->n, x);
    if (op == IR_LEN_Q || op == IR_LEN_KV)
        return ir_len(g, op == IR_LEN_KV, x[0]);
    if (op == IR_DOT)
        return ir_dot(g, x[0], x[1]);
    if (op == IR_AND)
        return ir_and(g, p->n, x);
    if (op == IR_OR)
        return ir_or(g, p->n, x);
    if (op == IR_NOT)
        return ir_not(g, x[0]);
    if (op == IR_SEL_I || op == IR_SEL_F)
        return ir_select(g, x[0], x[1], x[2]);
    if (op == IR_FLT)
        return ir_lt(g, x[0], x[1]);
    if (op == IR_FLE)
        return ir_le(g, x[0], x[1]);
    if (op == IR_FEQ)
        return ir_eq(g, x[0], x[1]);
    if (op == IR_I2F)
        return ir_to_float(g, x[0]);
    return ir_build(g, op, x);
}

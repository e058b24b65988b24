/* Checked debug builds: reads outside a captured tensor. Beside a value its
 * fault is made, 0 or the first bad read that it depends on, by the rules of
 * the evaluator (ir/eval_poison.c): an arm that a select does not take and
 * operands that AND or OR does not need do not matter. In: nodes; out: text
 * of faults in their places, and reports for cells that count. Called by
 * variant.c; member.c asks for the members' values. */
#include "compiler/emit/writer.h"

#include <inttypes.h>

static bool is_load(const struct ir_node *n)
{
    return n->op == IR_LOAD_B || n->op == IR_LOAD_I || n->op == IR_LOAD_F;
}

bool fault_facts(struct emitter *e)
{
    e->may_fault = arena_alloc(e->arena, e->n_nodes * sizeof *e->may_fault);
    if (!e->may_fault)
        return false;
    for (ir_ref r = 1; r < e->n_nodes; r++) {
        const struct ir_node *n = ir_node(e->g, r);
        bool may = is_load(n) && n->n > 0;
        for (uint32_t k = 0; k < n->n; k++)
            may |= e->may_fault[ir_arg(e->g, r, k)];
        e->may_fault[r] = may;
    }
    return true;
}

static const char *fault(struct emitter *e, enum place p, ir_ref r);

/* The first fault of several; "" stands for none. */
static const char *first(struct emitter *e, const char *a, const char *b)
{
    if (!*a || !*b)
        return *a ? a : b;
    return writer_format(e, "facc_first(%s, %s)", a, b);
}

static const char *of_operands(struct emitter *e, enum place p, ir_ref r)
{
    const char *text = "";
    for (uint32_t k = 0; k < ir_node(e->g, r)->n; k++)
        if (e->may_fault[ir_arg(e->g, r, k)])
            text = first(e, text, fault(e, p, ir_arg(e->g, r, k)));
    return text;
}

static const char *of_load(struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    const char *text = of_operands(e, p, r);
    for (uint32_t d = 0; d < n->n; d++)
        text = first(
            e, text,
            writer_format(e,
                          "facc_outside<%" PRIu32 ">(args.tensors[%" PRId64
                          "], %" PRId64 ", %" PRIu32 ", %s)",
                          d, n->i, n->i, n->line,
                          writer_bare(e, expr_text(e, p, ir_arg(e->g, r, d)))));
    return text;
}

static const char *of_select(struct emitter *e, enum place p, ir_ref r)
{
    const ir_ref c = ir_arg(e->g, r, 0);
    const char *arm[2];
    for (uint32_t k = 0; k < 2; k++) {
        const ir_ref x = ir_arg(e->g, r, k + 1);
        arm[k] = e->may_fault[x] ? fault(e, p, x) : "0ull";
    }
    const char *taken =
        writer_format(e, "(%s ? %s : %s)", expr_text(e, p, c), arm[0], arm[1]);
    return first(e, e->may_fault[c] ? fault(e, p, c) : "", taken);
}

/* A sound operand that decides makes the others irrelevant. */
static const char *of_logic(struct emitter *e, enum place p, ir_ref r)
{
    const char *decides = "false";
    for (uint32_t k = 0; k < ir_node(e->g, r)->n; k++) {
        const ir_ref x = ir_arg(e->g, r, k);
        const char *value = writer_format(
            e, ir_is(e->g, r, IR_AND) ? "!%s" : "%s", expr_text(e, p, x));
        decides = e->may_fault[x]
                      ? writer_format(e, "%s | (%s == 0 & %s)", decides,
                                      fault(e, p, x), value)
                      : writer_format(e, "%s | %s", decides, value);
    }
    return writer_format(e, "(%s ? 0ull : %s)", decides, of_operands(e, p, r));
}

const char *fault_value(struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    if (is_load(n))
        return of_load(e, p, r);
    if (n->op == IR_SEL_F || n->op == IR_SEL_I)
        return of_select(e, p, r);
    if (n->op == IR_AND || n->op == IR_OR)
        return of_logic(e, p, r);
    return of_operands(e, p, r);
}

/* Of a node that may fault: the name of a member or a local. */
static const char *fault(struct emitter *e, enum place p, ir_ref r)
{
    struct place_text *at = &e->at[p];
    if (e->failed)
        return "";
    if (at->fault[r])
        return at->fault[r];
    const enum place where = expr_home(e, p, r);
    if (where != p)
        return member_name(e, where, MEMBER_FAULT, r, IR_NONE);
    return at->fault[r] =
               writer_add_local(e, p, r, "facc_fault", fault_value(e, p, r));
}

/* Reports the root's fault if the cell is inside the lengths and, for a
 * score, counts. */
void fault_report(struct emitter *e, enum place p, ir_ref root, ir_ref keep)
{
    if (!e->may_fault[root])
        return;
    const char *b = expr_text(e, p, e->var_b);
    const char *live = writer_format(e,
                                     "(q < facc_len_q(args, %s)) & "
                                     "(kv0 + c < facc_len_kv(args, %s))",
                                     b, b);
    if (keep != IR_NONE)
        live = writer_format(e, "%s & %s", live, expr_text(e, p, keep));
    if (keep != IR_NONE && e->may_fault[keep])
        live = writer_format(e, "%s & (%s == 0)", live, fault(e, p, keep));
    const char *what = fault(e, p, root);
    strbuf_addf(&e->at[p].body, "        facc_report(args, %s, ", what);
    strbuf_add(&e->at[p].body, live);
    strbuf_add(&e->at[p].body, ");\n");
}

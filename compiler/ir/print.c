/* In: roots. Out: text, one line per node in walk order, operands first, so
 * that equal graphs give equal text whatever the order of building. Read by
 * people (`facc emit`) and by golden tests. */
#include "compiler/ir/ir.h"

#include <inttypes.h>
#include <stdlib.h>

#include "compiler/ir/scratch.h"

static const char *const var_names[IR_VAR_COUNT] = {
    [IR_VAR_B] = "b",
    [IR_VAR_H] = "h",
    [IR_VAR_Q] = "q",
    [IR_VAR_KV] = "kv",
    [IR_VAR_SIZE_B] = "size.B",
    [IR_VAR_SIZE_H] = "size.H",
    [IR_VAR_SIZE_HKV] = "size.Hkv",
    [IR_VAR_SIZE_Q] = "size.q",
    [IR_VAR_SIZE_KV] = "size.kv",
    [IR_VAR_SIZE_D] = "size.D",
    [IR_VAR_SIZE_DV] = "size.Dv"};

struct printer {
    const struct ir_graph *g;
    const uint32_t *number; /* of a node, from 1 */
    struct strbuf *out;
};

static void operand(const struct printer *p, ir_ref r)
{
    strbuf_addf(p->out, "%%%" PRIu32, p->number[r]);
}

static void operands(const struct printer *p, ir_ref r, const char *between)
{
    for (uint32_t k = 0; k < ir_node(p->g, r)->n; k++) {
        strbuf_add(p->out, k ? between : "");
        operand(p, ir_arg(p->g, r, k));
    }
}

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

/* "%1 - 2*%2 + 4" */
static void linear(const struct printer *p, ir_ref r)
{
    const struct ir_node *n = ir_node(p->g, r);
    for (uint32_t k = 0; k < n->n; k++) {
        int64_t c = ir_coef(p->g, r, k);
        if (k)
            strbuf_add(p->out, c < 0 ? " - " : " + ");
        else if (c < 0)
            strbuf_add(p->out, "-");
        if (magnitude(c) != 1)
            strbuf_addf(p->out, "%" PRIu64 "*", magnitude(c));
        operand(p, ir_arg(p->g, r, k));
    }
    if (n->i)
        strbuf_addf(p->out, " %c %" PRIu64, n->i < 0 ? '-' : '+',
                    magnitude(n->i));
}

static void content(const struct printer *p, ir_ref r)
{
    const struct ir_node *n = ir_node(p->g, r);
    enum ir_op op = n->op;
    if (op == IR_CONST_B) {
        strbuf_add(p->out, n->i ? " true" : " false");
    } else if (op == IR_CONST_I) {
        strbuf_addf(p->out, " %" PRId64, n->i);
    } else if (op == IR_CONST_F) {
        strbuf_add(p->out, " ");
        strbuf_add_double(p->out, n->f);
    } else if (op == IR_VAR_I) {
        strbuf_addf(p->out, " %s", var_names[n->i]);
    } else if (op == IR_PARAM_I || op == IR_PARAM_F) {
        strbuf_addf(p->out, " %s", p->g->params[n->i].name);
    } else if (ir_op_is_load(op)) {
        strbuf_addf(p->out, " %s[", p->g->tensors[n->i].name);
        operands(p, r, ", ");
        strbuf_add(p->out, "]");
    } else if (ir_op_is_linear(op)) {
        strbuf_add(p->out, " ");
        linear(p, r);
    } else if (n->n) {
        strbuf_add(p->out, " ");
        operands(p, r, " ");
    }
}

static void node_line(const struct printer *p, ir_ref r)
{
    static const char *const types[] = {"bool", "int", "float"};
    static const char *const deps[] = {" b", " h", " q", " kv", " score"};
    const struct ir_node *n = ir_node(p->g, r);
    operand(p, r);
    strbuf_addf(p->out, " = %s", ir_op_info(n->op)->name);
    content(p, r);
    strbuf_addf(p->out, " : %s", types[n->type]);
    if (n->type == IR_INT)
        strbuf_addf(p->out, " [%" PRId64 ", %" PRId64 "]", n->lo, n->hi);
    for (int k = 0; k < 5; k++)
        if (n->deps & 1 << k)
            strbuf_add(p->out, deps[k]);
    strbuf_add(p->out, "\n");
}

static void root(const struct printer *p, const char *name, ir_ref r)
{
    if (r == IR_NONE)
        return;
    strbuf_addf(p->out, "%s = ", name);
    operand(p, r);
    strbuf_add(p->out, "\n");
}

void ir_print(struct ir_graph *g, const struct ir_roots *roots,
              struct strbuf *out)
{
    ir_ref *order;
    uint32_t n;
    struct scratch_mark mark = scratch_mark(g);
    uint32_t *number = scratch_alloc(g, g->n_nodes * sizeof *number);
    if (number && ir_walk(g, roots, &order, &n)) {
        struct printer p = {.g = g, .number = number, .out = out};
        for (uint32_t k = 0; k < n; k++)
            number[order[k]] = k + 1;
        for (uint32_t k = 0; k < n; k++)
            node_line(&p, order[k]);
        root(&p, "score", roots->score);
        root(&p, "keep", roots->keep);
    } else {
        out->failed = true;
    }
    scratch_release(g, mark);
}

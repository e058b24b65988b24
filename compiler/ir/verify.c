/* In: roots. Out: true when every reachable node keeps the rules that the
 * builders promise: types and arity of ops.def, operands before users,
 * canonical linear forms and predicates, negation normal form, sane ranges.
 * A failure is a bug of facc, hence DIAG_INTERNAL. Called after each pass in
 * test builds and by tests. */
#include "compiler/ir/ir.h"

#include <inttypes.h>

static bool is_logic(enum ir_op op)
{
    return op == IR_AND || op == IR_OR;
}

static enum ir_type letter_type(char c)
{
    return c == 'b' ? IR_BOOL : c == 'i' ? IR_INT : IR_FLOAT;
}

/* Every check returns what is wrong, or NULL. */
static const char *check_types(const struct ir_graph *g, ir_ref r)
{
    const struct ir_node *p = ir_node(g, r);
    const struct ir_op_info *info = ir_op_info(p->op);
    if (p->op == IR_INVALID || p->op >= IR_OP_COUNT)
        return "no op";
    if (p->type != info->out)
        return "type of the result";
    if (info->n >= 0 && p->n != (uint32_t)info->n)
        return "number of operands";
    for (uint32_t k = 0; k < p->n; k++) {
        ir_ref a = ir_arg(g, r, k);
        if (a == IR_NONE || a >= r)
            return "an operand is not before its user";
        enum ir_type want = info->n >= 0      ? letter_type(info->in[k])
                            : is_logic(p->op) ? IR_BOOL
                                              : IR_INT;
        if (ir_node(g, a)->type != want)
            return "type of an operand";
        if (!ir_op_is_linear(p->op) && ir_coef(g, r, k))
            return "a coefficient outside a linear form";
    }
    return NULL;
}

static const char *check_leaf(const struct ir_graph *g, ir_ref r)
{
    const struct ir_node *p = ir_node(g, r);
    if (p->op == IR_CONST_B && p->i != 0 && p->i != 1)
        return "a boolean constant is neither 0 nor 1";
    if (p->op == IR_VAR_I && (p->i < 0 || p->i >= IR_VAR_COUNT))
        return "no such variable";
    if (p->op == IR_PARAM_I || p->op == IR_PARAM_F) {
        if (p->i < 0 || p->i >= g->n_params)
            return "no such param";
        if (dtype_is_float(g->params[p->i].dtype) != (p->op == IR_PARAM_F))
            return "type of a param";
    }
    if (ir_op_is_load(p->op)) {
        if (p->i < 0 || p->i >= g->n_tensors)
            return "no such tensor";
        const struct ir_tensor *t = &g->tensors[p->i];
        if (p->n != (uint32_t)t->rank)
            return "number of indices";
        enum ir_type want = t->dtype == DTYPE_BOOL     ? IR_BOOL
                            : dtype_is_float(t->dtype) ? IR_FLOAT
                                                       : IR_INT;
        if (p->type != want)
            return "type of a load";
    }
    if (p->type == IR_INT && p->lo > p->hi)
        return "an empty range";
    return NULL;
}

/* The row that begins where a load reads; its length, 0: it is none. */
static int64_t row_length(const struct ir_graph *g, ir_ref load)
{
    const struct ir_node *p = ir_node(g, load);
    if (p->op != IR_LOAD_F || p->n == 0)
        return 0;
    const ir_ref last = ir_arg(g, load, p->n - 1);
    const struct ir_dim *d = &g->tensors[p->i].dim[p->n - 1];
    bool first = ir_is(g, last, IR_CONST_I) && ir_node(g, last)->i == 0;
    return first && d->kind == IR_DIM_FIXED ? d->extent : 0;
}

static const char *check_dot(const struct ir_graph *g, ir_ref r)
{
    const int64_t n = row_length(g, ir_arg(g, r, 0));
    if (n == 0 || n != row_length(g, ir_arg(g, r, 1)))
        return "a dot product of something else than two rows";
    return NULL;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

static const char *check_linear(const struct ir_graph *g, ir_ref r)
{
    const struct ir_node *p = ir_node(g, r);
    uint64_t d = 0;
    if (p->n == 0)
        return "a linear form without terms";
    for (uint32_t k = 0; k < p->n; k++) {
        ir_ref a = ir_arg(g, r, k);
        int64_t c = ir_coef(g, r, k);
        if (c == 0)
            return "a term with coefficient 0";
        if (ir_is(g, a, IR_LIN) || ir_is(g, a, IR_CONST_I))
            return "a linear form in a linear form";
        if (k && ir_node(g, ir_arg(g, r, k - 1))->hash > ir_node(g, a)->hash)
            return "terms are not sorted";
        for (uint32_t j = 0; j < k; j++)
            if (ir_arg(g, r, j) == a)
                return "a term twice";
        d = gcd(d, c < 0 ? 0 - (uint64_t)c : (uint64_t)c);
    }
    if (p->op == IR_LIN) {
        if (p->n == 1 && ir_coef(g, r, 0) == 1 && p->i == 0)
            return "a linear form that is its only term";
        return NULL;
    }
    if (d != 1)
        return "a predicate that is not in lowest terms";
    if (p->op == IR_EQ0 && ir_coef(g, r, 0) < 0)
        return "an equation with a negative first coefficient";
    return NULL;
}

static const char *check_logic(const struct ir_graph *g, ir_ref r)
{
    const struct ir_node *p = ir_node(g, r);
    if (p->op == IR_NOT) {
        enum ir_op op = ir_node(g, ir_arg(g, r, 0))->op;
        if (op == IR_NOT || op == IR_GE0 || op == IR_CONST_B || is_logic(op))
            return "a negation that is not over an atom";
        return NULL;
    }
    if (p->n < 2)
        return "logic of fewer than two operands";
    for (uint32_t k = 0; k < p->n; k++) {
        ir_ref a = ir_arg(g, r, k);
        if (ir_is(g, a, p->op))
            return "logic nested in its own kind";
        if (ir_is(g, a, IR_CONST_B))
            return "a constant in logic";
        if (k && ir_node(g, ir_arg(g, r, k - 1))->hash > ir_node(g, a)->hash)
            return "operands are not sorted";
        if (k && ir_arg(g, r, k - 1) == a)
            return "an operand twice";
    }
    return NULL;
}

static const char *check(const struct ir_graph *g, ir_ref r)
{
    const char *wrong = check_types(g, r);
    enum ir_op op = ir_node(g, r)->op;
    if (!wrong)
        wrong = check_leaf(g, r);
    if (!wrong && ir_op_is_linear(op))
        wrong = check_linear(g, r);
    if (!wrong && op == IR_DOT)
        wrong = check_dot(g, r);
    if (!wrong && (is_logic(op) || op == IR_NOT))
        wrong = check_logic(g, r);
    return wrong;
}

static bool report(struct ir_graph *g, const char *wrong, ir_ref r)
{
    const struct ir_node *p = ir_node(g, r);
    return diag_set(g->diag, DIAG_INTERNAL, "verify", g->file, (int)p->line,
                    "the IR is broken at node %" PRIu32 " (%s): %s", r,
                    ir_op_info(p->op)->name, wrong);
}

bool ir_verify(struct ir_graph *g, const struct ir_roots *roots)
{
    ir_ref *order;
    uint32_t n;
    if (g->failed || !ir_walk(g, roots, &order, &n))
        return false;
    if (roots->score && ir_node(g, roots->score)->type != IR_FLOAT)
        return report(g, "the score is no float", roots->score);
    if (roots->keep && ir_node(g, roots->keep)->type != IR_BOOL)
        return report(g, "the mask is no boolean", roots->keep);
    for (uint32_t k = 0; k < n; k++) {
        const char *wrong = check(g, order[k]);
        if (wrong)
            return report(g, wrong, order[k]);
    }
    return true;
}

/* In: a graph and its roots, or values of one side. Out: a plan: the order of
 * the nodes and how often each runs. Called by compile.c and verdict_plan.c. */
#include "compiler/ir/eval_plan.h"

static enum eval_scope scope_of(const struct eval_plan *p, uint8_t deps)
{
    bool q = deps & IR_DEP_Q, kv = deps & IR_DEP_KV;
    if (p->one_sided)
        return q || kv ? EVAL_COL : EVAL_TILE;
    if ((deps & IR_DEP_SCORE) || (q && kv))
        return EVAL_CELL;
    return kv ? EVAL_COL : q ? EVAL_ROW : EVAL_TILE;
}

/* Ops with loops of their own, which read scalar operands as scalars. */
static bool has_own_rule(enum ir_op op)
{
    return ir_op_info(op)->n < 0 || ir_op_info(op)->n == 0 || op == IR_LEN_Q ||
           op == IR_LEN_KV || op == IR_DOT;
}

/* Very rough, in simple vector ops. */
static int op_cost(enum ir_op op, uint32_t n)
{
    if (eval_is_read(op))
        return 4;
    if (op == IR_DOT)
        return 200;
    if (has_own_rule(op))
        return (int)(n < 1000 ? n : 1000);
    const char *dsl = ir_op_info(op)->dsl;
    bool simple = ir_op_info(op)->out != IR_FLOAT || dsl[0] == '\0';
    return op == IR_IDIV || op == IR_IMOD || op == IR_FMOD ? 20
           : simple                                        ? 1
                                                           : 10;
}

/* Instructions of a GPU's function unit (MUFU) that one value takes, as the
 * templates have it: sin and cos reduce their argument and use none of it. */
static int op_functions(enum ir_op op)
{
    static const struct {
        enum ir_op op;
        int n;
    } table[] = {{IR_FPOW, 2},  {IR_FEXP, 1},   {IR_FEXP2, 1},
                 {IR_FLOG, 1},  {IR_FLOG2, 1},  {IR_FTANH, 2},
                 {IR_FSQRT, 1}, {IR_FRSQRT, 1}, {IR_FTANH_FAST, 1},
                 {IR_FERF, 1},  {IR_FLOG10, 1}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].op == op)
            return table[i].n;
    return 0;
}

/* Division is by the reciprocal, which leaves the cell where it can. */
static int functions_of(const struct eval_plan *p, const struct eval_step *t)
{
    return t->op == IR_FDIV ? p->step[p->arg[t->first + 1]].scope == EVAL_CELL
                            : op_functions(t->op);
}

static void fill_steps(struct eval_plan *p, const ir_ref *order,
                       uint32_t *position)
{
    const struct ir_graph *g = p->graph;
    uint32_t args = 0;
    for (uint32_t j = 0; j < p->n_steps; j++) {
        const struct ir_node *x = ir_node(g, order[j]);
        struct eval_step *t = &p->step[j];
        enum eval_scope scope = scope_of(p, x->deps);
        position[order[j]] = j;
        t->op = x->op;
        p->has_dot |= x->op == IR_DOT;
        t->type = x->type;
        t->scope = (uint8_t)scope;
        t->wide = scope == EVAL_COL || scope == EVAL_CELL;
        t->taint = eval_is_read(x->op);
        t->reads_score = x->deps & IR_DEP_SCORE;
        t->n = x->n;
        t->first = args;
        t->line = x->line;
        t->i = x->i;
        t->f = x->f;
        for (uint32_t k = 0; k < x->n; k++) {
            struct eval_step *a = &p->step[position[ir_arg(g, order[j], k)]];
            p->arg[args] = (uint32_t)(a - p->step);
            p->coef[args++] = ir_coef(g, order[j], k);
            t->taint |= a->taint;
            a->spread |= t->wide && !a->wide && !has_own_rule(t->op);
        }
        p->cost += t->wide ? op_cost(t->op, t->n) : 0;
        p->functions += scope == EVAL_CELL ? functions_of(p, t) : 0;
        p->list[scope][p->n_list[scope]++] = j;
    }
}

static bool plan_alloc(struct arena *a, struct eval_plan *p, uint32_t n_args)
{
    p->step = arena_alloc(a, p->n_steps * sizeof *p->step);
    p->arg = arena_alloc(a, (n_args + 1) * sizeof *p->arg);
    p->coef = arena_alloc(a, (n_args + 1) * sizeof *p->coef);
    for (int j = 0; j < EVAL_SCOPES; j++) {
        p->list[j] = arena_alloc(a, p->n_steps * sizeof *p->list[j]);
        if (p->list[j] == NULL)
            return false;
    }
    return p->step != NULL && p->arg != NULL && p->coef != NULL;
}

/* Steps of the nodes in `order`, operands first. position[node] becomes its
 * step. */
static bool build(struct arena *a, struct eval_plan *p, const ir_ref *order,
                  uint32_t **position)
{
    const struct ir_graph *g = p->graph;
    uint32_t n_args = 0;
    *position = arena_alloc(a, g->n_nodes * sizeof **position);
    for (uint32_t j = 0; j < p->n_steps; j++)
        n_args += ir_node(g, order[j])->n;
    if (*position == NULL || !plan_alloc(a, p, n_args))
        return diag_nomem(g->diag, "eval");
    fill_steps(p, order, *position);
    return true;
}

struct eval_plan *eval_plan_new(struct arena *a, struct ir_graph *g,
                                const struct ir_roots *roots)
{
    struct eval_plan *p = arena_alloc(a, sizeof *p);
    ir_ref *order;
    uint32_t *position;
    if (p == NULL || !ir_walk(g, roots, &order, &p->n_steps)) {
        diag_nomem(g->diag, "eval"); /* unless the graph has failed before */
        return NULL;
    }
    p->graph = g;
    if (!build(a, p, order, &position))
        return NULL;
    p->score = position[roots->score];
    p->keep = position[roots->keep];
    p->has_score = !ir_is(g, roots->score, IR_SCORE);
    p->has_mask =
        !ir_is(g, roots->keep, IR_CONST_B) || !ir_node(g, roots->keep)->i;
    return p;
}

/* Nodes that the given ones reach, operands first: in the graph's order. */
static ir_ref *reachable(struct arena *a, const struct ir_graph *g, uint32_t n,
                         const ir_ref *nodes, uint32_t *count)
{
    ir_ref *order = arena_alloc(a, (g->n_nodes + 1) * sizeof *order);
    bool *seen = arena_alloc(a, g->n_nodes);
    if (order == NULL || seen == NULL)
        return NULL;
    for (uint32_t k = 0; k < n; k++)
        seen[nodes[k]] = true;
    for (ir_ref r = g->n_nodes; r-- > 1;)
        for (uint32_t k = 0; seen[r] && k < ir_node(g, r)->n; k++)
            seen[ir_arg(g, r, k)] = true;
    *count = 0;
    for (ir_ref r = 1; r < g->n_nodes; r++)
        if (seen[r])
            order[(*count)++] = r;
    return order;
}

struct eval_plan *eval_plan_new_side(struct arena *a, const struct ir_graph *g,
                                     uint32_t n, const ir_ref *nodes)
{
    struct eval_plan *p = arena_alloc(a, sizeof *p);
    uint32_t *position;
    ir_ref *order = p ? reachable(a, g, n, nodes, &p->n_steps) : NULL;
    if (order == NULL ||
        (p->value = arena_alloc(a, (n + 1) * sizeof *p->value)) == NULL) {
        diag_nomem(g->diag, "eval");
        return NULL;
    }
    p->graph = g;
    p->one_sided = true;
    if (!build(a, p, order, &position))
        return NULL;
    for (uint32_t k = 0; k < n; k++)
        p->value[k] = position[nodes[k]];
    return p;
}

bool eval_plan_has_score(const struct eval_plan *p)
{
    return p->has_score;
}

bool eval_plan_has_mask(const struct eval_plan *p)
{
    return p->has_mask;
}

bool eval_plan_mask_reads_score(const struct eval_plan *p)
{
    return p->step[p->keep].reads_score;
}

int eval_plan_cost(const struct eval_plan *p)
{
    return p->cost;
}

int eval_plan_functions(const struct eval_plan *p)
{
    return p->functions;
}

/* In: a verdict program. Out: how it is run: which summaries and tile values
 * each side's evaluator makes, what the graph says of each slot, and which
 * slots each root needs. Called by compile.c, for verdict_eval.c. */
#include "compiler/passes/verdict_plan.h"

/* Nodes that a side's plan gives, while they are collected. */
struct collected {
    ir_ref *node;
    uint32_t n;
};

static uint32_t collect(struct collected *c, ir_ref r)
{
    for (uint32_t k = 0; k < c->n; k++)
        if (c->node[k] == r)
            return k;
    c->node[c->n] = r;
    return c->n++;
}

/* Summaries of one side; column[s] becomes the place of summary s. */
static bool plan_side(struct ir_graph *g, struct verdict_plan *plan,
                      enum verdict_side which, uint32_t *column)
{
    const struct verdict_program *p = plan->p;
    struct verdict_side_plan *side = &plan->side[which];
    size_t most = 2 * (size_t)p->n_summaries + (size_t)p->n_slots + 1;
    struct collected c = {.node = arena_alloc(g->arena, most * sizeof(ir_ref))};
    side->column = arena_alloc(g->arena, ((size_t)p->n_summaries + 1) *
                                             sizeof *side->column);
    if (c.node == NULL || side->column == NULL)
        return false;
    for (int k = 0; k < p->n_summaries; k++) {
        const struct verdict_summary *s = &p->summary[k];
        const struct ir_node *x = ir_node(g, s->node);
        if (s->side != which)
            continue;
        column[k] = (uint32_t)side->n;
        side->column[side->n++] = (struct verdict_column){
            .node = collect(&c, s->node),
            .guard = s->guard ? collect(&c, s->guard) : UINT32_MAX,
            .type = (enum ir_type)x->type,
            .least = x->lo,
            .most = x->hi};
    }
    for (int k = 0; k < p->n_slots && which == SIDE_Q; k++)
        if (p->slot[k].kind == SLOT_TILE)
            plan->info[k].value = collect(&c, p->slot[k].node);
    side->eval = eval_plan_new_side(g->arena, g, c.n, c.node);
    return side->eval != NULL;
}

static void fill_info(const struct ir_graph *g, struct verdict_plan *plan,
                      const uint32_t *column)
{
    const struct verdict_program *p = plan->p;
    for (int k = 0; k < p->n_slots; k++) {
        const struct verdict_slot *s = &p->slot[k];
        struct slot_info *i = &plan->info[k];
        const struct ir_node *x = ir_node(g, s->node);
        bool ranged = s->node && x->type == IR_INT && s->type == IR_INT;
        i->least = ranged ? x->lo : INT64_MIN;
        i->most = ranged ? x->hi : INT64_MAX;
        if (s->summary >= 0) {
            i->side = p->summary[s->summary].side;
            i->value = column[s->summary];
        }
        if (s->kind == SLOT_LOAD) {
            i->tensor = (int)x->i;
            i->dtype = g->tensors[x->i].dtype;
        }
        if (s->n > plan->most_operands)
            plan->most_operands = s->n;
    }
}

/* Slots that `root` needs and that are not yet `taken`. */
static bool list_slots(struct ir_graph *g, const struct verdict_program *p,
                       int root, bool *taken, struct slot_list *out)
{
    size_t n = (size_t)p->n_slots + 1;
    bool *need = arena_alloc(g->arena, n);
    out->slot = arena_alloc(g->arena, n * sizeof *out->slot);
    if (need == NULL || out->slot == NULL)
        return false;
    if (root >= 0)
        need[root] = true;
    for (int k = p->n_slots; k-- > 0;)
        for (int j = 0; need[k] && j < p->slot[k].n; j++)
            need[p->arg[p->slot[k].first + j]] = true;
    for (int k = 0; k < p->n_slots; k++) {
        enum slot_kind kind = p->slot[k].kind;
        if (need[k] && !taken[k] && kind != SLOT_TILE && kind != SLOT_ANY)
            out->slot[out->n++] = k;
        taken[k] |= need[k];
    }
    return true;
}

static bool make_plan(struct ir_graph *g, struct verdict_plan *plan)
{
    const struct verdict_program *p = plan->p;
    const int root[ROOTS] = {p->root, p->empty_root, p->full_root};
    size_t slots = (size_t)p->n_slots + 1;
    uint32_t *column =
        arena_alloc(g->arena, ((size_t)p->n_summaries + 1) * sizeof *column);
    bool *taken = arena_alloc(g->arena, slots);
    plan->info = arena_alloc(g->arena, slots * sizeof *plan->info);
    if (column == NULL || taken == NULL || plan->info == NULL ||
        !plan_side(g, plan, SIDE_Q, column) ||
        !plan_side(g, plan, SIDE_KV, column))
        return false;
    for (int k = 0; k < ROOTS; k++)
        if (!list_slots(g, p, root[k], taken, &plan->list[k]))
            return false;
    fill_info(g, plan, column);
    return true;
}

struct verdict_plan *verdict_plan_new(struct ir_graph *g,
                                      const struct verdict_program *p)
{
    struct verdict_plan *plan = arena_alloc(g->arena, sizeof *plan);
    if (plan != NULL) {
        plan->p = p;
        if (make_plan(g, plan))
            return plan;
    }
    diag_nomem(g->diag, "verdict");
    return NULL;
}

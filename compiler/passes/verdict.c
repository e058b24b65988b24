/* In: the mask. Out: a program of intervals that tells for a rectangle of
 * cells whether all, none or some of them count, what it needs to know for
 * that, and why. Slots are made in verdict_build.c. Called by compile.c. */
#include "compiler/passes/verdict.h"

#include "compiler/ir/scratch.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/verdict_build.h"

const char *mask_tier_name(enum mask_tier t)
{
    static const char *const names[] = {
        [TIER_NONE] = "none",     [TIER_ANALYTIC] = "analytic",
        [TIER_RANGED] = "ranged", [TIER_SCANNED] = "scanned",
        [TIER_OPAQUE] = "opaque",
    };
    return names[t];
}

/* --- tier ----------------------------------------------------------------- */

static enum mask_tier tier_of(const struct ir_graph *g, ir_ref r,
                              const bool *scanned)
{
    const struct ir_node *n = ir_node(g, r);
    if (n->type == IR_BOOL && (n->deps & IR_DEP_SCORE))
        return TIER_OPAQUE;
    if (!ir_op_is_load((enum ir_op)n->op))
        return TIER_ANALYTIC;
    return scanned[r] ? TIER_SCANNED : TIER_RANGED;
}

/* The worst node decides; of equals the first of the walk. */
static void find_tier(struct verdict_program *p, const struct ir_graph *g,
                      const ir_ref *order, uint32_t n, const bool *scanned)
{
    p->tier = TIER_ANALYTIC;
    for (uint32_t k = 0; k < n; k++) {
        const enum mask_tier t = tier_of(g, order[k], scanned);
        if (t > p->tier) {
            p->tier = t;
            p->cause = order[k];
        }
    }
}

/* --- roots ---------------------------------------------------------------- */

/* The slot of r's disjunctive form, or -1: r has none that helps, or there is
 * no room for it (then all of it goes again). */
static int disjunctive(struct verdict_builder *b, ir_ref r)
{
    struct verdict_program *p = b->p;
    struct scratch_mark mark = scratch_mark(b->g);
    const int n_slots = p->n_slots, n_args = b->n_args;
    const int n_summaries = p->n_summaries;
    ir_ref *part;
    int n, root = -1;
    b->no_room = false;
    if (verdict_dnf(b->g, r, &part, &n) && n > 0)
        root = verdict_slot_or(b, part, n);
    if (b->no_room) {
        p->n_slots = n_slots;
        b->n_args = n_args;
        p->n_summaries = n_summaries;
        root = -1;
    }
    scratch_release(b->g, mark);
    return root;
}

static void find_roots(struct verdict_builder *b, ir_ref keep)
{
    const struct verdict_guards all = {{IR_NONE, IR_NONE}};
    struct verdict_program *p = b->p;
    p->root = verdict_slot(b, keep, all);
    p->cut = b->no_room;
    if (p->plain || p->tier == TIER_NONE || b->g->failed)
        return;
    p->empty_root = disjunctive(b, keep);
    const ir_ref negation = ir_not(b->g, keep);
    pass_recover(b->g);
    if (negation != IR_NONE)
        p->full_root = disjunctive(b, negation);
}

bool pass_verdict(struct ir_graph *g, ir_ref keep, struct verdict_program *out)
{
    struct ir_roots roots = {IR_NONE, keep};
    const uint32_t line = g->line;
    ir_ref *order;
    uint32_t n;
    *out =
        (struct verdict_program){.root = -1, .empty_root = -1, .full_root = -1};
    if (g->failed || !ir_walk(g, &roots, &order, &n))
        return false;
    struct verdict_builder b = {.g = g, .p = out, .n_scanned = g->n_nodes};
    const bool *scanned = verdict_reach(g, order, n);
    if (!scanned || !pass_plain(g, keep, &out->plain))
        return false;
    b.scanned = scanned;
    g->line = ir_node(g, keep)->line;
    out->deps = ir_node(g, keep)->deps & (IR_DEP_B | IR_DEP_H);
    if (!ir_is(g, keep, IR_CONST_B) || !ir_node(g, keep)->i)
        find_tier(out, g, order, n, scanned);
    out->halve = !out->plain && verdict_halves(g, order, n);
    if (!g->failed)
        find_roots(&b, keep);
    g->line = line;
    return !g->failed;
}

/* --- records -------------------------------------------------------------- */

bool verdict_is_wide(const struct ir_graph *g, const struct verdict_summary *s)
{
    const struct ir_node *n = ir_node(g, s->node);
    return n->type == IR_INT && (n->lo < INT32_MIN || n->hi > INT32_MAX);
}

int verdict_summary_bytes(const struct ir_graph *g,
                          const struct verdict_program *p,
                          enum verdict_side side)
{
    int bytes = 0, align = 1;
    for (int k = 0; k < p->n_summaries; k++) {
        const struct verdict_summary *s = &p->summary[k];
        const enum ir_type type = (enum ir_type)ir_node(g, s->node)->type;
        if (s->side != side)
            continue;
        const int size = verdict_is_wide(g, s) ? 8 : type == IR_BOOL ? 1 : 4;
        bytes += 2 * size + (type == IR_FLOAT); /* … and may be NaN */
        align = size > align ? size : align;
    }
    return (bytes + align - 1) / align * align;
}

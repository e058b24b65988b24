/* In: an AND or OR. Out: what of it becomes slots, and under which guards:
 * operands of one side together (their joint truth is summarised exactly),
 * with those that an equality carries there, mixed ones guarded by these, and
 * what pairs of operands imply. Called by
 * verdict_build.c. */
#include "compiler/passes/verdict_build.h"

#include "compiler/ir/scratch.h"
#include "compiler/passes/passes.h"

enum { MAX_NESTING = 8 };

/* Indices and tile terms only. */
static bool is_affine_sum(const struct ir_graph *g, ir_ref r)
{
    if (verdict_is_tile(g, r) || ir_is(g, r, IR_VAR_I))
        return true;
    if (!ir_op_is_linear((enum ir_op)ir_node(g, r)->op))
        return false;
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++) {
        const ir_ref x = ir_arg(g, r, k);
        if (!verdict_is_tile(g, x) && !ir_is(g, x, IR_VAR_I))
            return false;
    }
    return true;
}

static bool is_affine(const struct ir_graph *g, ir_ref r, int nesting)
{
    if (!verdict_is_logic(g, r) && !ir_is(g, r, IR_NOT))
        return is_affine_sum(g, r);
    bool all = nesting < MAX_NESTING;
    for (uint32_t k = 0; all && k < ir_node(g, r)->n; k++)
        all = is_affine(g, ir_arg(g, r, k), nesting + 1);
    return all;
}

bool verdict_is_affine(const struct ir_graph *g, ir_ref r)
{
    return is_affine(g, r, 0);
}

struct split {
    struct ir_graph *g;
    enum ir_op op;
    struct verdict_guards outer;
    struct verdict_operands *out;
};

static void add(struct split *s, ir_ref r, struct verdict_guards guards)
{
    s->out->node[s->out->n] = r;
    s->out->guards[s->out->n++] = guards;
}

/* Where the mixed operands matter on one side: where the outer guard holds
 * and r (of that side) does not decide. Without a usable one: outer. */
static ir_ref inner_guard(struct split *s, enum verdict_side side, ir_ref r)
{
    struct ir_graph *g = s->g;
    const ir_ref outer = s->outer.side[side];
    ir_ref guard = s->op == IR_AND ? r : ir_not(g, r);
    if (guard && outer)
        guard = ir_and2(g, outer, guard);
    pass_recover(g);
    const bool usable = guard && !ir_is(g, guard, IR_CONST_B);
    return usable ? guard : outer;
}

/* Joins the operands of one side. Affine ones alone stay apart: intervals
 * are exact for them, and for mixed operands that are affine, too, what
 * pairs imply is as good as a guard. */
static bool add_side(struct split *s, enum verdict_side side, const ir_ref *x,
                     int n, bool mixed_is_affine, ir_ref *guard)
{
    bool affine = true;
    *guard = s->outer.side[side];
    if (n == 0)
        return true;
    for (int k = 0; k < n; k++)
        affine &= verdict_is_affine(s->g, x[k]);
    const ir_ref all = s->op == IR_AND ? ir_and(s->g, (size_t)n, x)
                                       : ir_or(s->g, (size_t)n, x);
    if (s->g->failed)
        return false;
    for (int k = 0; affine && k < n; k++)
        add(s, x[k], s->outer);
    if (!affine)
        add(s, all, s->outer);
    if (!affine || !mixed_is_affine)
        *guard = inner_guard(s, side, all);
    return !s->g->failed;
}

struct groups {
    ir_ref *side[SIDES], *mixed, *tile;
    int n[SIDES], n_mixed, n_tile;
    bool mixed_is_affine;
};

static bool group(struct ir_graph *g, ir_ref r, struct groups *of)
{
    const size_t n = ir_node(g, r)->n + VERDICT_MAX_CARRIED;
    const size_t size = n * sizeof(ir_ref);
    *of = (struct groups){.mixed_is_affine = true};
    of->side[SIDE_Q] = scratch_alloc(g, size);
    of->side[SIDE_KV] = scratch_alloc(g, size);
    of->mixed = scratch_alloc(g, size);
    of->tile = scratch_alloc(g, size);
    if (!of->side[SIDE_Q] || !of->side[SIDE_KV] || !of->mixed || !of->tile)
        return false;
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++) {
        const ir_ref x = ir_arg(g, r, k);
        enum verdict_side side;
        if (verdict_is_tile(g, x)) {
            of->tile[of->n_tile++] = x;
        } else if (verdict_is_one_sided(g, x, &side)) {
            of->side[side][of->n[side]++] = x;
        } else {
            of->mixed[of->n_mixed++] = x;
            of->mixed_is_affine &= verdict_is_affine(g, x);
        }
    }
    return verdict_carry(g, (enum ir_op)ir_node(g, r)->op, of->mixed,
                         of->n_mixed, of->side, of->n);
}

/* requires: room for all operands and what they imply. */
static bool split(struct split *s, ir_ref r, const struct groups *of)
{
    struct verdict_guards inner;
    for (int k = 0; k < of->n_tile; k++)
        add(s, of->tile[k], s->outer);
    for (int k = 0; k < SIDES; k++)
        if (!add_side(s, (enum verdict_side)k, of->side[k], of->n[k],
                      of->mixed_is_affine, &inner.side[k]))
            return false;
    for (int k = 0; k < of->n_mixed; k++)
        add(s, of->mixed[k], inner);
    const int first = s->out->n;
    if (!verdict_implied(s->g, r, s->out->node, &s->out->n))
        return false;
    s->out->n_implied = s->out->n - first;
    for (int k = first; k < s->out->n; k++) {
        enum verdict_side side;
        const bool one = verdict_is_one_sided(s->g, s->out->node[k], &side);
        s->out->guards[k] = one ? s->outer : inner;
    }
    return true;
}

bool verdict_operands(struct ir_graph *g, ir_ref r, struct verdict_guards outer,
                      struct verdict_operands *out)
{
    const size_t n =
        ir_node(g, r)->n + VERDICT_MAX_CARRIED + VERDICT_MAX_IMPLIED;
    struct split s = {g, (enum ir_op)ir_node(g, r)->op, outer, out};
    struct groups of;
    *out = (struct verdict_operands){
        .node = scratch_alloc(g, n * sizeof *out->node),
        .guards = scratch_alloc(g, n * sizeof *out->guards)};
    return out->node && out->guards && group(g, r, &of) && split(&s, r, &of);
}

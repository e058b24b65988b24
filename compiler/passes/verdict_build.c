/* In: a boolean. Out: slots whose last one is an interval of it. Values of
 * one side that are not affine in their index are summarised; inequalities
 * are cut into row part, column part and the mixed rest. Called by
 * verdict.c.
 *
 * Why guards are sound. Call a slot's claim right when it holds at every cell
 * of the rectangle that passes the slot's guards. Then a slot is right if its
 * operands are right and it has their guards: cell by cell its rule is
 * sound. An AND has the guards G, its one-sided operands g have G too, its
 * mixed operands have G and g. At a cell that passes G but not g, g is false
 * there and says so, which is all that "the AND may be false" needs; at a
 * cell that passes G and g every operand's claim holds. An OR is the same
 * with g's negation. Where no cell of the rectangle passes a slot's guards,
 * whatever it says is right: lo > hi, or neither true nor false, cannot do
 * harm further up, because no cell's value hangs on it. The mask itself has
 * no guards, so what its slot says holds at all cells. */
#include "compiler/passes/verdict_build.h"

#include <math.h>
#include <string.h>

#include "compiler/ir/scratch.h"
#include "compiler/passes/passes.h"

enum { MAX_SLOTS = 512, MAX_SUMMARIES = 48, MAX_DEPTH = 200 };

/* --- arrays --------------------------------------------------------------- */

/* *array with room for one more element of `size` bytes. */
static bool room(struct verdict_builder *b, void **array, size_t size, int n,
                 int *cap)
{
    if (n < *cap)
        return true;
    const int more = *cap ? 2 * *cap : 16;
    void *p = arena_grow(b->g->arena, *array, (size_t)*cap * size,
                         (size_t)more * size);
    if (!p) {
        ir_fail_memory(b->g);
        return false;
    }
    *array = p;
    *cap = more;
    return true;
}

static int add_slot(struct verdict_builder *b, const struct verdict_slot *s,
                    struct verdict_guards guards)
{
    struct verdict_program *p = b->p;
    int cap = b->cap_slots;
    void *slot = p->slot, *of = b->guards;
    if (!room(b, &slot, sizeof *p->slot, p->n_slots, &cap))
        return -1;
    p->slot = slot;
    if (!room(b, &of, sizeof *b->guards, p->n_slots, &b->cap_slots))
        return -1;
    b->guards = of;
    p->slot[p->n_slots] = *s;
    b->guards[p->n_slots] = guards;
    return p->n_slots++;
}

static bool add_arg(struct verdict_builder *b, int slot, int64_t coef)
{
    struct verdict_program *p = b->p;
    int cap = b->cap_args;
    void *arg = p->arg, *k = p->coef;
    if (!room(b, &arg, sizeof *p->arg, b->n_args, &cap))
        return false;
    p->arg = arg;
    if (!room(b, &k, sizeof *p->coef, b->n_args, &b->cap_args))
        return false;
    p->coef = k;
    p->arg[b->n_args] = slot;
    p->coef[b->n_args++] = coef;
    return true;
}

/* Index of the summary; -1: no room, or memory (graph failed). */
static int add_summary(struct verdict_builder *b, enum verdict_side side,
                       ir_ref r, ir_ref guard)
{
    struct verdict_program *p = b->p;
    for (int k = 0; k < p->n_summaries; k++)
        if (p->summary[k].node == r && p->summary[k].guard == guard)
            return k;
    if (p->n_summaries == MAX_SUMMARIES) {
        b->no_room = true;
        return -1;
    }
    void *x = p->summary;
    if (!room(b, &x, sizeof *p->summary, p->n_summaries, &b->cap_summaries))
        return -1;
    p->summary = x;
    p->summary[p->n_summaries] = (struct verdict_summary){side, r, guard};
    return p->n_summaries++;
}

/* --- slots ---------------------------------------------------------------- */

static struct verdict_slot blank(const struct ir_graph *g, enum slot_kind kind,
                                 ir_ref r)
{
    const struct ir_node *n = ir_node(g, r);
    return (struct verdict_slot){.kind = kind,
                                 .op = (enum ir_op)n->op,
                                 .type = (enum ir_type)n->type,
                                 .node = r,
                                 .summary = -1};
}

static int leaf(struct verdict_builder *b, enum slot_kind kind, ir_ref r,
                struct verdict_guards guards)
{
    const struct verdict_slot s = blank(b->g, kind, r);
    return add_slot(b, &s, guards);
}

/* A slot with operands that were just made. */
static int node(struct verdict_builder *b, struct verdict_slot *s,
                const int *arg, const int64_t *coef, int n,
                struct verdict_guards guards)
{
    s->first = b->n_args;
    s->n = n;
    for (int k = 0; k < n; k++)
        if (arg[k] < 0 || !add_arg(b, arg[k], coef ? coef[k] : 1))
            return -1;
    return add_slot(b, s, guards);
}

static int one_sided(struct verdict_builder *b, ir_ref r,
                     enum verdict_side side, struct verdict_guards guards)
{
    struct verdict_slot s = blank(b->g, SLOT_SUMMARY, r);
    s.summary = add_summary(b, side, r, guards.side[side]);
    if (s.summary < 0)
        s.kind = SLOT_ANY;
    return b->g->failed ? -1 : add_slot(b, &s, guards);
}

static int position(struct verdict_builder *b, ir_ref r, enum verdict_side side,
                    struct verdict_guards guards)
{
    struct verdict_slot s = blank(b->g, side == SIDE_Q ? SLOT_Q : SLOT_KV, r);
    if (guards.side[side])
        s.summary = add_summary(b, side, r, guards.side[side]);
    return b->g->failed ? -1 : add_slot(b, &s, guards);
}

/* Operands of a node one by one. */
static int from_operands(struct verdict_builder *b, enum slot_kind kind,
                         ir_ref r, struct verdict_guards guards)
{
    struct ir_graph *g = b->g;
    const int n = (int)ir_node(g, r)->n;
    struct scratch_mark mark = scratch_mark(g);
    int *arg = scratch_alloc(g, (size_t)(n + 1) * sizeof *arg);
    int out = -1;
    for (int k = 0; arg && k < n; k++)
        arg[k] = verdict_slot(b, ir_arg(g, r, (uint32_t)k), guards);
    if (arg && !g->failed) {
        struct verdict_slot s = blank(g, kind, r);
        out = node(b, &s, arg, NULL, n, guards);
    }
    scratch_release(g, mark);
    return out;
}

static int logic(struct verdict_builder *b, ir_ref r,
                 struct verdict_guards guards)
{
    struct ir_graph *g = b->g;
    struct scratch_mark mark = scratch_mark(g);
    struct verdict_operands x;
    int out = -1, *arg = NULL;
    if (verdict_operands(g, r, guards, &x))
        arg = scratch_alloc(g, (size_t)(x.n + 1) * sizeof *arg);
    for (int k = 0; arg && k < x.n; k++)
        arg[k] = verdict_slot(b, x.node[k], x.guards[k]);
    if (arg && !g->failed) {
        struct verdict_slot s = blank(g, SLOT_OP, r);
        s.n_implied = x.n_implied;
        out = node(b, &s, arg, NULL, x.n, guards);
    }
    scratch_release(g, mark);
    return out;
}

/* --- linear forms --------------------------------------------------------- */

enum part { PART_TILE, PART_ROW, PART_COL, PART_REST, PARTS };

static enum part part_of(const struct ir_graph *g, ir_ref r)
{
    enum verdict_side side;
    if (verdict_is_tile(g, r))
        return PART_TILE;
    if (!verdict_is_one_sided(g, r, &side))
        return PART_REST;
    return side == SIDE_Q ? PART_ROW : PART_COL;
}

struct sum { /* operands of a SLOT_LINEAR */
    int *arg;
    int64_t *coef;
    int n;
};

static void add_term(struct verdict_builder *b, struct sum *s, ir_ref r,
                     int64_t k, struct verdict_guards guards)
{
    s->arg[s->n] = verdict_slot(b, r, guards);
    s->coef[s->n++] = k;
}

/* Divides by the common factor and makes the first coefficient positive, so
 * that a part and its multiples share a summary. */
static int64_t primitive(struct ir_linear *l)
{
    uint64_t d = 0;
    for (uint32_t j = 0; j < l->n; j++) {
        uint64_t x = l->k[j] < 0 ? 0 - (uint64_t)l->k[j] : (uint64_t)l->k[j];
        while (x) {
            const uint64_t t = d % x;
            d = x;
            x = t;
        }
        if (l->k[j] == INT64_MIN)
            return 1;
    }
    const int64_t by = l->k[0] < 0 ? -(int64_t)d : (int64_t)d;
    for (uint32_t j = 0; j < l->n; j++)
        l->k[j] /= by;
    return by;
}

/* One part of a form: one value, unless it is affine in its index, has no
 * second term, or leaves 64 bits by itself. */
static bool add_part(struct verdict_builder *b, struct sum *s,
                     struct ir_linear *l, bool whole,
                     struct verdict_guards guards)
{
    struct ir_graph *g = b->g;
    bool wide = true;
    int64_t lo, hi;
    if (whole && l->n && !ir_linear_range(g, l, &lo, &hi, &wide))
        return false;
    const int64_t by = wide || !l->n ? 1 : primitive(l);
    if (!wide) {
        const ir_ref r = ir_linear_node(g, l);
        if (g->failed)
            return false;
        add_term(b, s, r, by, guards);
        return true;
    }
    for (uint32_t j = 0; j < l->n; j++)
        add_term(b, s, l->term[j], l->k[j], guards);
    return true;
}

static bool is_position(const struct ir_graph *g, const struct ir_linear *l)
{
    return l->n == 1 && ir_is(g, l->term[0], IR_VAR_I);
}

static bool collect(struct verdict_builder *b, const struct ir_linear *l,
                    struct sum *s, struct verdict_guards guards)
{
    struct ir_graph *g = b->g;
    struct ir_linear of[PARTS];
    for (int p = 0; p < PARTS; p++)
        if (!ir_linear_scratch(g, &of[p], 0, l->n))
            return false;
    for (uint32_t j = 0; j < l->n; j++) {
        struct ir_linear *to = &of[part_of(g, l->term[j])];
        to->term[to->n] = l->term[j]; /* sorted, as l is */
        to->k[to->n++] = l->k[j];
    }
    for (int p = 0; p < PARTS; p++) {
        const bool whole = p != PART_REST && !is_position(g, &of[p]);
        if (!add_part(b, s, &of[p], whole, guards))
            return false;
    }
    return !g->failed;
}

static int linear(struct verdict_builder *b, ir_ref r,
                  struct verdict_guards guards)
{
    struct ir_graph *g = b->g;
    struct scratch_mark mark = scratch_mark(g);
    struct ir_linear l;
    int out = -1;
    if (!ir_linear_of(g, r, &l))
        return -1;
    struct sum s = {scratch_alloc(g, (l.n + 1) * sizeof *s.arg),
                    scratch_alloc(g, (l.n + 1) * sizeof *s.coef), 0};
    if (s.arg && s.coef && collect(b, &l, &s, guards)) {
        struct verdict_slot slot = blank(g, SLOT_LINEAR, r);
        slot.c = l.c;
        out = node(b, &slot, s.arg, s.coef, s.n, guards);
    }
    scratch_release(g, mark);
    return out;
}

/* --- choosing ------------------------------------------------------------- */

static int find(const struct verdict_builder *b, ir_ref r,
                struct verdict_guards guards)
{
    for (int k = b->p->n_slots; k-- > 0;)
        if (b->p->slot[k].node == r && b->guards[k].side[0] == guards.side[0] &&
            b->guards[k].side[1] == guards.side[1])
            return k;
    return -1;
}

static bool is_scanned(const struct verdict_builder *b, ir_ref r)
{
    return r < b->n_scanned && b->scanned[r];
}

/* Ops with an interval rule, and NOT. */
static bool has_rule(enum ir_op op)
{
    return op != IR_LEN_Q && op != IR_LEN_KV && op != IR_SCORE;
}

/* x * x, which x ^ 2 is, too, or x to a power of 4, 6 and so on. */
static bool is_even_power(const struct ir_graph *g, ir_ref r)
{
    if (ir_is(g, r, IR_IMUL) || ir_is(g, r, IR_FMUL))
        return ir_arg(g, r, 0) == ir_arg(g, r, 1);
    if (!ir_is(g, r, IR_FPOW) || !ir_is(g, ir_arg(g, r, 1), IR_CONST_F))
        return false;
    const double power = ir_node(g, ir_arg(g, r, 1))->f;
    return power > 0 && fmod(power, 2) == 0;
}

/* An even power as that of |x|, whose interval says that it is not below 0.
 * Others as they are. */
static ir_ref of_magnitude(struct ir_graph *g, ir_ref r)
{
    if (!is_even_power(g, r))
        return r;
    const ir_ref size = ir_abs(g, ir_arg(g, r, 0));
    return ir_is(g, r, IR_FPOW) ? ir_pow(g, size, ir_arg(g, r, 1))
                                : ir_mul(g, size, size);
}

static int choose(struct verdict_builder *b, ir_ref r,
                  struct verdict_guards guards)
{
    const enum ir_op op = (enum ir_op)ir_node(b->g, r)->op;
    if (verdict_is_logic(b->g, r))
        return logic(b, r, guards);
    if (ir_op_is_linear(op))
        return linear(b, r, guards);
    if (ir_op_is_load(op) && !is_scanned(b, r))
        return from_operands(b, SLOT_LOAD, r, guards);
    if (!ir_op_is_load(op) && has_rule(op))
        return from_operands(b, SLOT_OP, r, guards);
    return leaf(b, SLOT_ANY, r, guards);
}

static int mixed(struct verdict_builder *b, ir_ref r,
                 struct verdict_guards guards)
{
    const ir_ref same = of_magnitude(b->g, r);
    if (same != r)
        return verdict_slot(b, same, guards);
    b->depth++;
    const int out = choose(b, r, guards);
    b->depth--;
    return out;
}

static bool reads_score(const struct ir_graph *g, ir_ref r)
{
    return ir_node(g, r)->deps & IR_DEP_SCORE;
}

int verdict_slot(struct verdict_builder *b, ir_ref r,
                 struct verdict_guards guards)
{
    struct ir_graph *g = b->g;
    enum verdict_side side;
    if (g->failed)
        return -1;
    const unsigned deps = ir_node(g, r)->deps;
    if (!(deps & IR_DEP_Q))
        guards.side[SIDE_Q] = IR_NONE;
    if (!(deps & IR_DEP_KV))
        guards.side[SIDE_KV] = IR_NONE;
    const int known = find(b, r, guards);
    if (known >= 0)
        return known;
    if (verdict_is_tile(g, r))
        return leaf(b, SLOT_TILE, r, guards);
    if (b->p->n_slots >= MAX_SLOTS || b->depth >= MAX_DEPTH) {
        b->no_room = true;
        return leaf(b, SLOT_ANY, r, guards);
    }
    if (reads_score(g, r) && !verdict_is_logic(g, r))
        return leaf(b, SLOT_ANY, r, guards);
    if (!verdict_is_one_sided(g, r, &side))
        return mixed(b, r, guards);
    if (ir_is(g, r, IR_VAR_I))
        return position(b, r, side, guards);
    if (!verdict_is_affine(g, r))
        return one_sided(b, r, side, guards);
    return mixed(b, r, guards);
}

int verdict_slot_or(struct verdict_builder *b, const ir_ref *part, int n)
{
    struct ir_graph *g = b->g;
    const struct verdict_guards all = {{IR_NONE, IR_NONE}};
    struct scratch_mark mark = scratch_mark(g);
    int *arg = scratch_alloc(g, (size_t)(n + 1) * sizeof *arg);
    int out = -1;
    for (int k = 0; arg && k < n; k++)
        arg[k] = verdict_slot(b, part[k], all);
    if (arg && !g->failed) {
        struct verdict_slot s = {.kind = SLOT_OP,
                                 .op = IR_OR,
                                 .type = IR_BOOL,
                                 .node = IR_NONE,
                                 .summary = -1};
        out = n == 1 ? arg[0] : node(b, &s, arg, NULL, n, all);
    }
    scratch_release(g, mark);
    return out;
}

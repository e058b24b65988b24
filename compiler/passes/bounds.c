/* In: the mask. Out: its conjuncts that are plain bounds of q and kv with a
 * rest of tile scope: causal, windows, lengths. The kernel turns them into
 * the range of KV tiles of a query tile; a mask of nothing else needs no
 * schedule. Called by the emitter and by verdict.c. */
#include "compiler/passes/passes.h"

/* Adds kq * q + kkv * kv + rest >= 0 with everything times sign. */
static bool add(struct ir_graph *g, struct plain_bounds *out,
                const struct affine_index *a, int64_t sign)
{
    if (sign < 0 && (a->kq == INT64_MIN || a->kkv == INT64_MIN))
        return false;
    struct plain_bound *b = &out->bound[out->n];
    b->kq = sign * a->kq;
    b->kkv = sign * a->kkv;
    b->rest = sign < 0 ? ir_neg(g, a->rest) : a->rest;
    out->n += b->rest != IR_NONE;
    return b->rest != IR_NONE;
}

/* False when r is no plain bound; an equation is two. */
static bool bound(struct ir_graph *g, ir_ref r, struct plain_bounds *out)
{
    struct affine_index a;
    if (ir_is(g, r, IR_CONST_B) && !ir_node(g, r)->i) {
        a = (struct affine_index){.rest = ir_const_i(g, -1)};
        return add(g, out, &a, 1);
    }
    bool equation = ir_is(g, r, IR_EQ0);
    if (!equation && !ir_is(g, r, IR_GE0))
        return false;
    if (!pass_affine_index(g, r, &a) || !a.affine)
        return false;
    return add(g, out, &a, 1) && (!equation || add(g, out, &a, -1));
}

bool pass_bounds(struct ir_graph *g, ir_ref keep, struct plain_bounds *out)
{
    *out = (struct plain_bounds){.exact = true};
    if (g->failed)
        return false;
    bool several = ir_is(g, keep, IR_AND);
    size_t n = several ? ir_node(g, keep)->n : 1;
    out->bound = arena_alloc(g->arena, 2 * n * sizeof *out->bound);
    if (!out->bound) {
        ir_fail_memory(g);
        return false;
    }
    for (size_t k = 0; k < n && !g->failed; k++) {
        ir_ref r = several ? ir_arg(g, keep, (uint32_t)k) : keep;
        if (ir_is(g, r, IR_CONST_B) && ir_node(g, r)->i)
            continue;
        if (!bound(g, r, out))
            out->exact = false;
    }
    return !g->failed;
}

/* Factors and rests beyond these could leave 64 bits. */
enum { MAX_FACTOR = 1 << 24 };
static const int64_t max_rest = (int64_t)1 << 60;

bool plain_bound_is_usable(const struct plain_bound *b, int64_t rest_lo,
                           int64_t rest_hi)
{
    return (b->kq || b->kkv) && b->kq >= -MAX_FACTOR && b->kq <= MAX_FACTOR &&
           b->kkv >= -MAX_FACTOR && b->kkv <= MAX_FACTOR &&
           rest_lo >= -max_rest && rest_hi <= max_rest;
}

/* One conjunct: of tile scope, or nothing but usable bounds. */
static bool is_plain(struct ir_graph *g, ir_ref r)
{
    struct plain_bounds b;
    if (!(ir_node(g, r)->deps & (IR_DEP_Q | IR_DEP_KV | IR_DEP_SCORE)))
        return true;
    if (!pass_bounds(g, r, &b) || !b.exact)
        return false;
    for (int k = 0; k < b.n; k++) {
        const struct ir_node *rest = ir_node(g, b.bound[k].rest);
        if (!plain_bound_is_usable(&b.bound[k], rest->lo, rest->hi))
            return false;
    }
    return true;
}

bool pass_plain(struct ir_graph *g, ir_ref keep, bool *plain)
{
    const bool several = ir_is(g, keep, IR_AND);
    const uint32_t n = several ? ir_node(g, keep)->n : 1;
    *plain = true;
    for (uint32_t k = 0; *plain && k < n; k++)
        *plain = is_plain(g, several ? ir_arg(g, keep, k) : keep);
    return !g->failed;
}

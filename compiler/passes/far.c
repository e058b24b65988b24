/* In: a value of q - kv alone, and the mask's plain bounds. Out: the distances
 * from which on, before the query and after it, the value is one and the same.
 * By intervals over all q - kv of that side: proven, not sampled. Called by
 * the emitter. */
#include "compiler/passes/passes.h"

#include <math.h>

#include "compiler/ir/eval_math.h"
#include "compiler/ir/interval.h"

/* More near diagonals than this are not worth it: near tiles are weighed twice,
 * far ones are made a tenth faster. T5's 91 under a causal mask gain 2 % at 512
 * keys and 8 % at 8k; both its directions, 182, lose 26 % at 512, nothing at
 * 2k, and gain 7 % at 8k (H200, D 128). */
enum { MAX_NEAR = 128 };
/* Nor are fewer far ones, where the mask says so (a window). */
enum { MIN_FAR = 1024 };

static const int64_t max_length = (int64_t)1 << 30; /* of a sequence */

/* What is known of a node where q - kv lies in a range. */
struct known {
    struct interval x;
    bool settled; /* its value is the same for all of that range */
};

struct survey {
    const struct ir_graph *g;
    const ir_ref *order; /* of the value, operands first */
    uint32_t n;
    struct known *of;         /* by node */
    struct interval *operand; /* room for any node's */
    struct interval distance; /* the range of q - kv */
};

static struct interval one_int(int64_t v)
{
    return (struct interval){.type = IR_INT, .i = {v, v}};
}

/* Whatever q - kv is. */
static struct interval anything(const struct ir_node *n)
{
    struct interval x = interval_any((enum ir_type)n->type);
    if (n->type == IR_INT) {
        x.i.lo = n->lo;
        x.i.hi = n->hi;
    } else if (n->op == IR_CONST_B) {
        x.b.may_true = n->i != 0;
        x.b.may_false = n->i == 0;
    } else if (n->op == IR_CONST_F && (n->f == 0 || isnormal((float)n->f))) {
        x.f.lo = x.f.hi = (double)(float)n->f;
        x.f.nan = false;
    }
    return x;
}

/* One value, bits and all: a zero has two signs. */
static bool is_point(const struct interval *x)
{
    switch (x->type) {
    case IR_BOOL:
        return x->b.may_false != x->b.may_true;
    case IR_INT:
        return x->i.lo == x->i.hi;
    case IR_FLOAT:
        break;
    }
    return !x->f.nan && x->f.lo == x->f.hi && isfinite(x->f.lo) && x->f.lo != 0;
}

static struct interval of_logic(enum ir_op op, const struct interval *x,
                                uint32_t n)
{
    bool all_true = true, all_false = true, some_true = false,
         some_false = false;
    for (uint32_t k = 0; k < n; k++) {
        all_true &= x[k].b.may_true;
        all_false &= x[k].b.may_false;
        some_true |= x[k].b.may_true;
        some_false |= x[k].b.may_false;
    }
    struct interval y = {.type = IR_BOOL};
    y.b.may_true = op == IR_AND ? all_true : some_true;
    y.b.may_false = op == IR_AND ? some_false : all_false;
    return y;
}

static struct interval of_sum(const struct survey *s, ir_ref r)
{
    const struct ir_node *n = ir_node(s->g, r);
    bool wide;
    const struct interval y =
        interval_linear(n->i, n->n, s->g->coefs + n->first, s->operand, &wide);
    return wide ? anything(n) : interval_of_sum((enum ir_op)n->op, &y);
}

static struct interval of_node(const struct survey *s, ir_ref r)
{
    const struct ir_node *n = ir_node(s->g, r);
    const enum ir_op op = (enum ir_op)n->op;
    struct interval y = {.type = IR_BOOL};
    if (ir_op_is_linear(op))
        return of_sum(s, r);
    if (op == IR_AND || op == IR_OR)
        return of_logic(op, s->operand, n->n);
    if (op == IR_NOT) {
        y.b.may_true = s->operand[0].b.may_false;
        y.b.may_false = s->operand[0].b.may_true;
        return y;
    }
    if (ir_op_is_load(op) || op == IR_DOT || n->n > 3)
        return anything(n);
    return interval_eval(op, s->operand);
}

/* Is a surely less than b (or no more, which for ints says as much)? */
static bool is_less(const struct interval *a, const struct interval *b)
{
    if (a->type == IR_INT)
        return a->i.hi <= b->i.lo;
    return !a->f.nan && !b->f.nan && a->f.hi < b->f.lo;
}

/* The operand whose value the node surely has, or -1. */
static int chosen(const struct survey *s, enum ir_op op)
{
    const struct interval *x = s->operand;
    if (op == IR_SEL_I || op == IR_SEL_F)
        return !x[0].b.may_false ? 1 : !x[0].b.may_true ? 2 : -1;
    if (op == IR_IMIN || op == IR_FMIN)
        return is_less(&x[0], &x[1]) ? 0 : is_less(&x[1], &x[0]) ? 1 : -1;
    if (op == IR_IMAX || op == IR_FMAX)
        return is_less(&x[0], &x[1]) ? 1 : is_less(&x[1], &x[0]) ? 0 : -1;
    return -1;
}

/* The node's entry, from those of its operands. */
static void survey_node(const struct survey *s, ir_ref r)
{
    const struct ir_node *n = ir_node(s->g, r);
    struct known *out = &s->of[r];
    bool all = true;
    if (!(n->deps & (IR_DEP_Q | IR_DEP_KV))) {
        *out = (struct known){anything(n), true};
        return;
    }
    if (n->op == IR_VAR_I) {
        /* sums have the two with opposite factors */
        *out =
            (struct known){n->i == IR_VAR_Q ? s->distance : one_int(0), false};
        return;
    }
    for (uint32_t k = 0; k < n->n; k++) {
        s->operand[k] = s->of[ir_arg(s->g, r, k)].x;
        all &= s->of[ir_arg(s->g, r, k)].settled;
    }
    out->x = of_node(s, r);
    const int k = chosen(s, (enum ir_op)n->op);
    out->settled = all || is_point(&out->x) ||
                   (k >= 0 && s->of[ir_arg(s->g, r, (uint32_t)k)].settled);
}

/* Where q - kv is `distance` or more, or -distance or less. */
static bool settles(struct survey *s, ir_ref r, int64_t distance, bool before)
{
    s->distance.i.lo = before ? distance : -max_length;
    s->distance.i.hi = before ? max_length : -distance;
    for (uint32_t k = 0; k < s->n; k++)
        survey_node(s, s->order[k]);
    return s->of[r].settled;
}

/* The least distance from which on the value settles; beyond all if that is
 * more than MAX_NEAR. Of a smaller range no less is known. */
static int64_t least_distance(struct survey *s, ir_ref r, bool before)
{
    int64_t no = -1, yes = MAX_NEAR;
    if (!settles(s, r, yes, before))
        return max_length + 1;
    while (yes - no > 1) {
        const int64_t at = (no + yes) / 2;
        if (settles(s, r, at, before))
            yes = at;
        else
            no = at;
    }
    return yes;
}

/* The least and the largest q - kv that the mask leaves, as far as its
 * constants say. */
static void find_reach(const struct ir_graph *g, const struct plain_bounds *b,
                       int64_t *lo, int64_t *hi)
{
    *lo = -max_length;
    *hi = max_length;
    for (int j = 0; j < b->n; j++) {
        const struct plain_bound *x = &b->bound[j];
        const struct ir_node *rest = ir_node(g, x->rest);
        if (!plain_bound_is_usable(x, rest->lo, rest->hi) ||
            x->kq + x->kkv != 0)
            continue;
        const int64_t most = ev_floordiv(rest->hi, x->kq > 0 ? x->kq : x->kkv);
        if (x->kq > 0 && -most > *lo)
            *lo = -most;
        if (x->kq < 0 && most < *hi)
            *hi = most;
    }
}

static bool survey_new(struct ir_graph *g, ir_ref r, struct survey *s)
{
    const struct ir_roots roots = {r, IR_NONE};
    ir_ref *order;
    uint32_t most = 3;
    *s = (struct survey){.g = g, .distance = one_int(0)};
    if (!ir_walk(g, &roots, &order, &s->n))
        return false;
    s->order = order;
    for (uint32_t k = 0; k < s->n; k++)
        if (ir_node(g, order[k])->n > most)
            most = ir_node(g, order[k])->n;
    s->of = arena_alloc(g->arena, g->n_nodes * sizeof *s->of);
    s->operand = arena_alloc(g->arena, most * sizeof *s->operand);
    if (!s->of || !s->operand)
        ir_fail_memory(g);
    return !g->failed;
}

bool pass_far(struct ir_graph *g, ir_ref r, const struct plain_bounds *mask,
              struct far_diagonals *out)
{
    struct survey s;
    int64_t lo, hi;
    *out = (struct far_diagonals){.found = false};
    if (g->failed || !survey_new(g, r, &s))
        return false;
    find_reach(g, mask, &lo, &hi);
    const int64_t before = least_distance(&s, r, true);
    const int64_t after = least_distance(&s, r, false);
    const int64_t n_before = hi - before + 1, n_after = -lo - after + 1;
    const int64_t far =
        (n_before > 0 ? n_before : 0) + (n_after > 0 ? n_after : 0);
    out->found = far >= MIN_FAR && hi - lo + 1 - far <= MAX_NEAR;
    out->before = n_before > 0 ? (int)before : FAR_NONE;
    out->after = n_after > 0 ? (int)after : FAR_NONE;
    return true;
}

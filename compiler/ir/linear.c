/* Canonical linear forms. In: int nodes with factors; out: a LIN node, or one
 * of the two integer predicates, form >= 0 and form = 0, in lowest terms.
 * Arithmetic is that of the whole numbers: what leaves 64 bits fails. Called
 * by arith.c, logic.c, select.c and the passes. */
#include "compiler/ir/ir.h"

#include <string.h>

#include "compiler/ir/eval_math.h"
#include "compiler/ir/interval.h"
#include "compiler/ir/scratch.h"

/* Inequalities that one ir_ge0 may split into; beyond, |x|, min and max stay
 * whole, which only costs precision later. */
enum { MAX_SPLITS = 32 };

void ir_linear_init(struct ir_linear *l, int64_t c)
{
    *l = (struct ir_linear){.c = c};
}

static bool reserve(struct ir_graph *g, struct ir_linear *l, uint32_t n)
{
    if (n <= l->cap)
        return true;
    uint32_t cap = l->cap ? l->cap : 4;
    while (cap < n)
        cap *= 2;
    ir_ref *term = arena_alloc(g->arena, cap * sizeof *term);
    int64_t *k = arena_alloc(g->arena, cap * sizeof *k);
    if (!term || !k) {
        ir_fail_memory(g);
        return false;
    }
    if (l->n) {
        memcpy(term, l->term, l->n * sizeof *term);
        memcpy(k, l->k, l->n * sizeof *k);
    }
    l->term = term;
    l->k = k;
    l->cap = cap;
    return true;
}

bool ir_linear_scratch(struct ir_graph *g, struct ir_linear *l, int64_t c,
                       uint32_t cap)
{
    ir_linear_init(l, c);
    l->term = scratch_alloc(g, cap * sizeof *l->term);
    l->k = scratch_alloc(g, cap * sizeof *l->k);
    l->cap = cap;
    return l->term && l->k;
}

static void copy_terms(struct ir_linear *to, const struct ir_linear *from)
{
    if (from->n) {
        memcpy(to->term, from->term, from->n * sizeof *to->term);
        memcpy(to->k, from->k, from->n * sizeof *to->k);
    }
    to->n = from->n;
}

/* Into scratch memory, with room for `more` terms. */
static bool copy(struct ir_graph *g, struct ir_linear *to,
                 const struct ir_linear *from, uint32_t more)
{
    if (!ir_linear_scratch(g, to, from->c, from->n + more))
        return false;
    copy_terms(to, from);
    return true;
}

static bool overflow(struct ir_graph *g)
{
    ir_fail_range(g);
    return false;
}

static void remove_term(struct ir_linear *l, uint32_t j)
{
    l->n--;
    memmove(l->term + j, l->term + j + 1, (l->n - j) * sizeof *l->term);
    memmove(l->k + j, l->k + j + 1, (l->n - j) * sizeof *l->k);
}

/* Terms are sorted by hash: where the first with this one or a greater is. */
static uint32_t lower_bound(const struct ir_graph *g, const struct ir_linear *l,
                            uint64_t hash)
{
    uint32_t low = 0, high = l->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ir_node(g, l->term[middle])->hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* l += k * r for an r that is no constant and no LIN. */
static bool add_term(struct ir_graph *g, struct ir_linear *l, ir_ref r,
                     int64_t k)
{
    if (k == 0)
        return true;
    uint64_t hash = ir_node(g, r)->hash;
    uint32_t at = lower_bound(g, l, hash);
    for (; at < l->n && ir_node(g, l->term[at])->hash == hash; at++) {
        if (l->term[at] != r)
            continue;
        if (__builtin_add_overflow(l->k[at], k, &l->k[at]))
            return overflow(g);
        if (l->k[at] == 0)
            remove_term(l, at);
        return true;
    }
    if (!reserve(g, l, l->n + 1))
        return false;
    memmove(l->term + at + 1, l->term + at, (l->n - at) * sizeof *l->term);
    memmove(l->k + at + 1, l->k + at, (l->n - at) * sizeof *l->k);
    l->term[at] = r;
    l->k[at] = k;
    l->n++;
    return true;
}

static bool add_const(struct ir_graph *g, struct ir_linear *l, int64_t k,
                      int64_t c)
{
    int64_t t;
    if (__builtin_mul_overflow(k, c, &t) ||
        __builtin_add_overflow(l->c, t, &l->c))
        return overflow(g);
    return true;
}

bool ir_linear_axpy(struct ir_graph *g, struct ir_linear *l, ir_ref r,
                    int64_t k)
{
    if (g->failed)
        return false;
    if (ir_is(g, r, IR_CONST_I))
        return add_const(g, l, k, ir_node(g, r)->i);
    if (!ir_is(g, r, IR_LIN))
        return add_term(g, l, r, k);
    if (!add_const(g, l, k, ir_node(g, r)->i))
        return false;
    for (uint32_t j = 0; j < ir_node(g, r)->n; j++) {
        int64_t t;
        if (__builtin_mul_overflow(k, ir_coef(g, r, j), &t))
            return overflow(g);
        if (!add_term(g, l, ir_arg(g, r, j), t))
            return false;
    }
    return true;
}

bool ir_linear_of(struct ir_graph *g, ir_ref r, struct ir_linear *out)
{
    ir_linear_init(out, 0);
    if (g->failed)
        return false;
    if (!ir_is(g, r, IR_GE0) && !ir_is(g, r, IR_EQ0))
        return ir_linear_axpy(g, out, r, 1);
    const struct ir_node *p = ir_node(g, r);
    struct ir_linear at = {p->i, p->n, p->n, g->args + p->first,
                           g->coefs + p->first};
    if (!reserve(g, out, p->n))
        return false;
    out->c = p->i;
    copy_terms(out, &at);
    return true;
}

ir_ref ir_linear_node(struct ir_graph *g, const struct ir_linear *l)
{
    if (g->failed)
        return IR_NONE;
    if (l->n == 0)
        return ir_const_i(g, l->c);
    if (l->n == 1 && l->k[0] == 1 && l->c == 0)
        return l->term[0];
    return ir_intern(g, IR_LIN, IR_INT, l->n, l->term, l->k, l->c, 0);
}

/* --- predicates ---------------------------------------------------------- */

static uint64_t magnitude(int64_t x)
{
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

/* Of all coefficients; 1 for the one case that is no int64_t (all are the
 * least number). */
static int64_t common_factor(const struct ir_linear *l)
{
    uint64_t a = 0;
    for (uint32_t j = 0; j < l->n; j++) {
        uint64_t b = magnitude(l->k[j]);
        while (b) {
            uint64_t t = a % b;
            a = b;
            b = t;
        }
    }
    return a == 0 || a > INT64_MAX ? 1 : (int64_t)a;
}

bool ir_linear_range(struct ir_graph *g, const struct ir_linear *l, int64_t *lo,
                     int64_t *hi, bool *wide)
{
    struct scratch_mark mark = scratch_mark(g);
    struct interval *x = scratch_alloc(g, (l->n + 1) * sizeof *x);
    if (!x)
        return false;
    for (uint32_t j = 0; j < l->n; j++) {
        const struct ir_node *p = ir_node(g, l->term[j]);
        x[j] = (struct interval){.type = IR_INT, .i = {p->lo, p->hi}};
    }
    struct interval r = interval_linear(l->c, l->n, l->k, x, wide);
    *lo = r.i.lo;
    *hi = r.i.hi;
    scratch_release(g, mark);
    return true;
}

static bool over_both_indices(const struct ir_node *p)
{
    const unsigned both = IR_DEP_Q | IR_DEP_KV;
    return (p->deps & both) == both;
}

static ir_ref ge0(struct ir_graph *g, const struct ir_linear *l, int *budget);

/* The same with term j replaced by `by`, or by -by. */
static ir_ref ge0_with(struct ir_graph *g, const struct ir_linear *l,
                       uint32_t j, ir_ref by, bool negate, int *budget)
{
    struct scratch_mark mark = scratch_mark(g);
    struct ir_linear m;
    int64_t k = l->k[j], minus;
    ir_ref r = IR_NONE;
    if (__builtin_sub_overflow((int64_t)0, k, &minus))
        return ir_fail_range(g);
    if (!copy(g, &m, l, ir_node(g, by)->n + 1))
        return IR_NONE;
    remove_term(&m, j);
    if (ir_linear_axpy(g, &m, by, negate ? minus : k))
        r = ge0(g, &m, budget);
    scratch_release(g, mark);
    return r;
}

/* Whether the form stays within 64 bits with `by` (or -by) for term j. A min or
 * max may be what keeps a form there: max(x, -2^62) with any x. */
static bool stays_narrow(struct ir_graph *g, const struct ir_linear *l,
                         uint32_t j, ir_ref by, bool negate)
{
    struct scratch_mark mark = scratch_mark(g);
    struct interval *x = scratch_alloc(g, l->n * sizeof *x);
    if (!x)
        return false;
    for (uint32_t i = 0; i < l->n; i++) {
        const struct ir_node *p = ir_node(g, i == j ? by : l->term[i]);
        x[i] = (struct interval){.type = IR_INT, .i = {p->lo, p->hi}};
    }
    bool wide = negate && x[j].i.lo == INT64_MIN;
    if (negate && !wide) {
        x[j].i.lo = -ir_node(g, by)->hi;
        x[j].i.hi = -ir_node(g, by)->lo;
    }
    if (!wide)
        interval_linear(l->c, l->n, l->k, x, &wide);
    scratch_release(g, mark);
    return !wide;
}

/* |x|, min and max over both q and kv become plain inequalities: they have
 * exact verdicts. max(x, y) + r >= 0 is x + r >= 0 or y + r >= 0, and so on. */
static bool split(struct ir_graph *g, const struct ir_linear *l, int *budget,
                  ir_ref *out)
{
    for (uint32_t j = 0; j < l->n && 0 < *budget; j++) {
        ir_ref t = l->term[j];
        const struct ir_node *p = ir_node(g, t);
        bool is_abs = p->op == IR_IABS, is_min = p->op == IR_IMIN;
        if ((!is_abs && !is_min && p->op != IR_IMAX) || !over_both_indices(p))
            continue;
        bool any = is_min ? l->k[j] < 0 : l->k[j] > 0;
        ir_ref x = ir_arg(g, t, 0), y = is_abs ? x : ir_arg(g, t, 1);
        if (!stays_narrow(g, l, j, x, false) ||
            !stays_narrow(g, l, j, y, is_abs)) {
            if (g->failed)
                break;
            continue;
        }
        --*budget;
        ir_ref a = ge0_with(g, l, j, x, false, budget);
        ir_ref b = ge0_with(g, l, j, y, is_abs, budget);
        if (g->failed)
            *out = IR_NONE;
        else
            *out = any ? ir_or2(g, a, b) : ir_and2(g, a, b);
        return true;
    }
    return false;
}

/* A form in lowest terms as a node, unless its range decides it. */
static ir_ref predicate(struct ir_graph *g, enum ir_op op,
                        const struct ir_linear *l)
{
    int64_t lo, hi;
    bool wide;
    if (!ir_linear_range(g, l, &lo, &hi, &wide))
        return IR_NONE;
    if (hi < 0 || (op == IR_EQ0 && lo > 0))
        return ir_const_b(g, false);
    if (op == IR_GE0 && lo >= 0)
        return ir_const_b(g, true);
    if (wide)
        return ir_fail_range(g);
    return ir_intern(g, op, IR_BOOL, l->n, l->term, l->k, l->c, 0);
}

static ir_ref ge0(struct ir_graph *g, const struct ir_linear *l, int *budget)
{
    ir_ref r;
    if (l->n == 0)
        return ir_const_b(g, l->c >= 0);
    if (split(g, l, budget, &r))
        return r;
    struct scratch_mark mark = scratch_mark(g);
    struct ir_linear m;
    if (!copy(g, &m, l, 0))
        return IR_NONE;
    int64_t d = common_factor(&m);
    for (uint32_t j = 0; j < m.n; j++)
        m.k[j] /= d;
    m.c = ev_floordiv(m.c, d);
    r = predicate(g, IR_GE0, &m);
    scratch_release(g, mark);
    return r;
}

ir_ref ir_ge0(struct ir_graph *g, const struct ir_linear *l)
{
    int budget = MAX_SPLITS;
    return g->failed ? IR_NONE : ge0(g, l, &budget);
}

/* max(x, y) = x is x >= y, min(x, y) = x is y >= x. True with *out set when
 * putting operand `side` of term j for the term makes the form zero. */
static bool is_operand(struct ir_graph *g, const struct ir_linear *l,
                       uint32_t j, uint32_t side, ir_ref *out)
{
    ir_ref t = l->term[j], x = ir_arg(g, t, side), y = ir_arg(g, t, 1 - side);
    uint32_t room = ir_node(g, x)->n + ir_node(g, y)->n + 2;
    int64_t sign = ir_is(g, t, IR_IMAX) ? 1 : -1;
    struct ir_linear m, d;
    *out = IR_NONE;
    if (!copy(g, &m, l, room) || !ir_linear_scratch(g, &d, 0, room))
        return true;
    remove_term(&m, j);
    if (!ir_linear_axpy(g, &m, x, l->k[j]))
        return true;
    if (m.n || m.c)
        return false;
    if (ir_linear_axpy(g, &d, x, sign) && ir_linear_axpy(g, &d, y, -sign))
        *out = ir_ge0(g, &d);
    return true;
}

static bool is_min_max(const struct ir_graph *g, const struct ir_linear *l,
                       uint32_t j)
{
    ir_ref t = l->term[j];
    return (ir_is(g, t, IR_IMAX) || ir_is(g, t, IR_IMIN)) &&
           (l->k[j] == 1 || l->k[j] == -1);
}

/* Divides by d, which divides all. False: failed. */
static bool divide(struct ir_graph *g, struct ir_linear *l, int64_t d)
{
    bool least = l->c == INT64_MIN;
    for (uint32_t j = 0; j < l->n; j++)
        least = least || l->k[j] == INT64_MIN;
    if (least && d == -1)
        return overflow(g);
    for (uint32_t j = 0; j < l->n; j++)
        l->k[j] /= d;
    l->c /= d;
    return true;
}

static ir_ref eq0(struct ir_graph *g, struct ir_linear *l, int64_t d)
{
    ir_ref r;
    if (!divide(g, l, l->k[0] < 0 ? -d : d)) /* first coefficient positive */
        return IR_NONE;
    for (uint32_t j = 0; j < l->n; j++)
        for (uint32_t side = 0; is_min_max(g, l, j) && side < 2; side++)
            if (is_operand(g, l, j, side, &r))
                return r;
    return predicate(g, IR_EQ0, l);
}

ir_ref ir_eq0(struct ir_graph *g, const struct ir_linear *l)
{
    struct ir_linear m;
    if (g->failed)
        return IR_NONE;
    if (l->n == 0)
        return ir_const_b(g, l->c == 0);
    int64_t d = common_factor(l);
    if (l->c % d != 0)
        return ir_const_b(g, false);
    struct scratch_mark mark = scratch_mark(g);
    ir_ref r = copy(g, &m, l, 0) ? eq0(g, &m, d) : IR_NONE;
    scratch_release(g, mark);
    return r;
}

/* In: the literals of one AND or OR. Out: contradiction, the truth of other
 * literals beside them, and a shortest equal list. This is where tighter
 * bounds win, x >= 0 and -x >= 0 become x == 0, x == 1 excludes x == 2, and
 * p with not p is found. Called by logic.c. */
#include "compiler/ir/facts.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/ir/scratch.h"
#include "compiler/support/hash.h"

enum relation { REL_GE, REL_LE, REL_EQ, REL_NE };

struct literal { /* X rel v */
    ir_ref form; /* GE0 or EQ0 that names X, or the boolean itself */
    bool atom;   /* a boolean: X is 0 or 1, rel is REL_EQ */
    bool flip;   /* X is minus the form's terms */
    enum relation rel;
    int64_t v;
    uint64_t key; /* hash of X */
};

struct fact {              /* lo <= X <= hi, without the holes */
    struct literal x;      /* form, atom, flip and key of X */
    int64_t lo, hi;        /* INT64_MIN, INT64_MAX: unbounded */
    ir_ref src_lo, src_hi; /* literal that says so, IR_NONE: none does */
    uint32_t hole, n_hole; /* range in facts.hole, after settling */
};

struct hole { /* X ~= v */
    uint32_t fact;
    ir_ref src;
    int64_t v;
};

static bool is_logic(const struct ir_graph *g, ir_ref r)
{
    return ir_is(g, r, IR_AND) || ir_is(g, r, IR_OR);
}

bool facts_is_literal(const struct ir_graph *g, ir_ref r)
{
    return !is_logic(g, r) && !ir_is(g, r, IR_CONST_B);
}

/* The coefficient as X has it; wraps, which is harmless in comparisons. */
static uint64_t x_coef(const struct ir_graph *g, const struct literal *l,
                       uint32_t k)
{
    uint64_t c = (uint64_t)ir_coef(g, l->form, k);
    return l->flip ? 0 - c : c;
}

static void name_form(const struct ir_graph *g, struct literal *l)
{
    const struct ir_node *p = ir_node(g, l->form);
    l->flip = ir_coef(g, l->form, 0) < 0;
    l->key = p->n;
    for (uint32_t k = 0; k < p->n; k++) {
        l->key = hash_mix(l->key, ir_node(g, ir_arg(g, l->form, k))->hash);
        l->key = hash_mix(l->key, x_coef(g, l, k));
    }
}

static enum relation opposite(enum relation r)
{
    static const enum relation of[] = {REL_LE, REL_GE, REL_NE, REL_EQ};
    return of[r];
}

static void negate(struct literal *l)
{
    if (l->atom)
        l->v = 1 - l->v;
    else if (l->rel == REL_GE)
        l->v--;
    else if (l->rel == REL_LE)
        l->v++;
    if (!l->atom)
        l->rel = opposite(l->rel);
}

/* Numbers at the very ends of the range make an opaque boolean, so that
 * bounds can be negated and moved by one without overflow. */
static bool is_linear(const struct ir_graph *g, ir_ref r)
{
    const struct ir_node *p = ir_node(g, r);
    if (p->op != IR_GE0 && p->op != IR_EQ0)
        return false;
    for (uint32_t k = 0; k < p->n; k++)
        if (ir_coef(g, r, k) == INT64_MIN)
            return false;
    return p->i > INT64_MIN + 1 && p->i < INT64_MAX - 1;
}

static struct literal decode(const struct ir_graph *g, ir_ref r, bool negated)
{
    struct literal l = {.form = r, .rel = REL_EQ, .v = 1};
    bool inverse = false;
    if (ir_is(g, r, IR_NOT)) {
        inverse = true;
        l.form = ir_arg(g, r, 0);
    }
    const struct ir_node *p = ir_node(g, l.form);
    if (is_linear(g, l.form)) {
        name_form(g, &l);
        l.v = l.flip ? p->i : -p->i;
        if (p->op == IR_GE0)
            l.rel = l.flip ? REL_LE : REL_GE;
    } else {
        l.atom = true;
        l.key = p->hash;
    }
    if (inverse != negated)
        negate(&l);
    return l;
}

static bool same_x(const struct ir_graph *g, const struct literal *a,
                   const struct literal *b)
{
    if (a->key != b->key || a->atom != b->atom)
        return false;
    if (a->form == b->form)
        return true;
    const struct ir_node *p = ir_node(g, a->form), *q = ir_node(g, b->form);
    if (a->atom || p->n != q->n)
        return false;
    for (uint32_t k = 0; k < p->n; k++)
        if (ir_arg(g, a->form, k) != ir_arg(g, b->form, k) ||
            x_coef(g, a, k) != x_coef(g, b, k))
            return false;
    return true;
}

static ir_ref form_of(const struct ir_graph *g, ir_ref r)
{
    return ir_is(g, r, IR_NOT) ? ir_arg(g, r, 0) : r;
}

bool facts_unrelated(const struct ir_graph *g, ir_ref a, ir_ref b)
{
    ir_ref x = form_of(g, a), y = form_of(g, b);
    if (x == y)
        return false;
    if (!is_linear(g, x) || !is_linear(g, y))
        return true;
    if (ir_node(g, x)->n != ir_node(g, y)->n)
        return true;
    for (uint32_t k = 0; k < ir_node(g, x)->n; k++)
        if (ir_arg(g, x, k) != ir_arg(g, y, k))
            return true;
    return false;
}

bool facts_init(struct facts *f, struct ir_graph *g, bool negated, uint32_t cap)
{
    uint32_t size = 4;
    while (size < 2 * cap)
        size *= 2;
    *f = (struct facts){.g = g, .negate = negated, .mask = size - 1};
    f->fact = scratch_alloc(g, (cap + 1) * sizeof *f->fact);
    f->hole = scratch_alloc(g, (cap + 1) * sizeof *f->hole);
    f->table = scratch_alloc(g, size * sizeof *f->table);
    if (!f->fact || !f->hole || !f->table)
        return false;
    memset(f->table, 0, size * sizeof *f->table);
    return true;
}

/* Slot of X: holds 1 + index of its fact, or 0 where it would go. */
static uint32_t *find(const struct facts *f, const struct literal *l)
{
    uint32_t s = (uint32_t)(l->key ^ l->key >> 32) & f->mask;
    while (f->table[s] && !same_x(f->g, &f->fact[f->table[s] - 1].x, l))
        s = (s + 1) & f->mask;
    return &f->table[s];
}

void facts_add(struct facts *f, ir_ref r)
{
    struct literal l = decode(f->g, r, f->negate);
    uint32_t *slot = find(f, &l);
    if (!*slot) {
        f->fact[f->n] = (struct fact){.x = l, .lo = INT64_MIN, .hi = INT64_MAX};
        *slot = ++f->n;
    }
    struct fact *a = &f->fact[*slot - 1];
    if (l.rel == REL_NE) {
        f->hole[f->n_hole++] =
            (struct hole){.fact = *slot - 1, .src = r, .v = l.v};
        return;
    }
    /* an equation outside the range leaves lo > hi: empty for good */
    if (l.rel == REL_EQ ? l.v >= a->lo : l.rel == REL_GE && l.v > a->lo) {
        a->lo = l.v;
        a->src_lo = r;
    }
    if (l.rel == REL_EQ ? l.v <= a->hi : l.rel == REL_LE && l.v < a->hi) {
        a->hi = l.v;
        a->src_hi = r;
    }
}

static int by_fact_and_value(const void *x, const void *y)
{
    const struct hole *a = x, *b = y;
    if (a->fact != b->fact)
        return a->fact < b->fact ? -1 : 1;
    return (a->v > b->v) - (a->v < b->v);
}

/* Holes at the ends move the ends; what is left lies strictly inside. */
static void trim(struct facts *f, struct fact *a)
{
    while (a->n_hole && f->hole[a->hole].v <= a->lo) {
        if (f->hole[a->hole].v == a->lo) {
            a->lo++;
            a->src_lo = IR_NONE;
        }
        a->hole++;
        a->n_hole--;
    }
    while (a->n_hole && f->hole[a->hole + a->n_hole - 1].v >= a->hi) {
        if (f->hole[a->hole + a->n_hole - 1].v == a->hi) {
            a->hi--;
            a->src_hi = IR_NONE;
        }
        a->n_hole--;
    }
}

bool facts_settle(struct facts *f)
{
    if (f->n_hole > 1)
        qsort(f->hole, f->n_hole, sizeof *f->hole, by_fact_and_value);
    uint32_t kept = 0; /* without repeated values */
    for (uint32_t k = 0; k < f->n_hole; k++) {
        struct hole h = f->hole[k];
        struct fact *a = &f->fact[h.fact];
        if (a->n_hole && f->hole[kept - 1].v == h.v)
            continue;
        if (!a->n_hole++)
            a->hole = kept;
        f->hole[kept++] = h;
    }
    f->n_hole = kept;
    for (uint32_t k = 0; k < f->n; k++) {
        trim(f, &f->fact[k]);
        if (f->fact[k].lo > f->fact[k].hi)
            return false;
    }
    return true;
}

static bool is_hole(const struct facts *f, const struct fact *a, int64_t v)
{
    uint32_t lo = a->hole, hi = a->hole + a->n_hole;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (f->hole[mid].v == v)
            return true;
        if (f->hole[mid].v < v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

static bool follows(const struct facts *f, const struct fact *a,
                    const struct literal *l)
{
    switch (l->rel) {
    case REL_GE:
        return a->lo >= l->v;
    case REL_LE:
        return a->hi <= l->v;
    case REL_EQ:
        return a->lo == l->v && a->hi == l->v;
    case REL_NE:
        return l->v < a->lo || l->v > a->hi || is_hole(f, a, l->v);
    }
    return false;
}

int facts_truth(const struct facts *f, ir_ref r)
{
    struct literal l = decode(f->g, r, f->negate);
    uint32_t slot = *find(f, &l);
    if (!slot)
        return 0;
    const struct fact *a = &f->fact[slot - 1];
    if (follows(f, a, &l))
        return 1;
    negate(&l);
    return follows(f, a, &l) ? -1 : 0;
}

/* A node for X rel v, or for its negation where the list is negated. */
static ir_ref build(struct facts *f, const struct fact *a, enum relation rel,
                    int64_t v)
{
    struct ir_graph *g = f->g;
    struct literal x = a->x;
    x.rel = rel;
    x.v = v;
    if (f->negate)
        negate(&x);
    bool minus = x.flip != (x.rel == REL_LE);
    struct ir_linear l;
    ir_linear_init(&l, x.rel == REL_LE ? x.v : -x.v);
    uint32_t n = ir_node(g, x.form)->n;
    for (uint32_t k = 0; k < n; k++) {
        int64_t c = ir_coef(g, x.form, k);
        if (!ir_linear_axpy(g, &l, ir_arg(g, x.form, k), minus ? -c : c))
            return IR_NONE;
    }
    if (x.rel == REL_GE || x.rel == REL_LE)
        return ir_ge0(g, &l);
    ir_ref e = ir_eq0(g, &l);
    return x.rel == REL_EQ ? e : ir_not(g, e);
}

uint32_t facts_literals(struct facts *f, ir_ref *out, bool *built)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->n; k++) {
        const struct fact *a = &f->fact[k];
        if (a->lo == a->hi) {
            bool said = a->src_lo && a->src_lo == a->src_hi;
            *built |= !said;
            out[n++] = said ? a->src_lo : build(f, a, REL_EQ, a->lo);
            continue;
        }
        if (a->lo != INT64_MIN) {
            *built |= !a->src_lo;
            out[n++] = a->src_lo ? a->src_lo : build(f, a, REL_GE, a->lo);
        }
        if (a->hi != INT64_MAX) {
            *built |= !a->src_hi;
            out[n++] = a->src_hi ? a->src_hi : build(f, a, REL_LE, a->hi);
        }
        for (uint32_t h = 0; h < a->n_hole; h++)
            out[n++] = f->hole[a->hole + h].src;
    }
    return n;
}

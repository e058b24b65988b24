/* In: booleans. Out: booleans in negation normal form: n-ary AND and OR,
 * sorted by structural hash, never nested in their own kind, NOT only over
 * EQ0, float comparisons and loads. Simplified while building: literals by
 * facts.c, clauses (the operands of the other kind) by what the literals
 * say, by absorption and by pulling out what all share. Called by the
 * tracer, select.c and passes. AND and OR are one code: an OR is read as the
 * negation of an AND of negations. */
#include "compiler/ir/ir.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/ir/facts.h"
#include "compiler/ir/scratch.h"

enum { SETTLE_DEPTH = 4 };       /* levels of AND/OR seen by the literals */
enum { MAX_SUBSUMPTION = 2048 }; /* clauses compared pairwise */
enum { MAX_ROUNDS = 1000 };      /* then the list is right, not shortest */

struct item {
    uint64_t hash;
    ir_ref ref;
};

struct list {
    enum ir_op op; /* IR_AND or IR_OR */
    struct item *x;
    uint32_t n;
};

static ir_ref logic(struct ir_graph *g, enum ir_op op, size_t n,
                    const ir_ref *in);

static enum ir_op dual(enum ir_op op)
{
    return op == IR_AND ? IR_OR : IR_AND;
}

static int by_hash(const void *x, const void *y)
{
    const struct item *a = x, *b = y;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return (a->ref > b->ref) - (a->ref < b->ref);
}

static void sort_unique(struct list *l)
{
    if (l->n < 2)
        return;
    qsort(l->x, l->n, sizeof *l->x, by_hash);
    uint32_t m = 1;
    for (uint32_t k = 1; k < l->n; k++)
        if (l->x[k].ref != l->x[m - 1].ref)
            l->x[m++] = l->x[k];
    l->n = m;
}

static struct item item_of(const struct ir_graph *g, ir_ref r)
{
    return (struct item){ir_node(g, r)->hash, r};
}

/* Operands of the same kind are opened, the neutral constant goes. False:
 * the deciding constant is there, or something failed (*result says). */
static bool flatten(struct ir_graph *g, struct list *l, size_t n,
                    const ir_ref *in, ir_ref *result)
{
    size_t total = 0;
    *result = IR_NONE;
    for (size_t k = 0; k < n; k++) {
        if (in[k] == IR_NONE)
            return false;
        total += ir_is(g, in[k], l->op) ? ir_node(g, in[k])->n : 1;
    }
    l->n = 0;
    l->x = scratch_alloc(g, (total + 1) * sizeof *l->x);
    if (!l->x)
        return false;
    for (size_t k = 0; k < n; k++) {
        if (ir_is(g, in[k], IR_CONST_B)) {
            if ((ir_node(g, in[k])->i != 0) == (l->op == IR_AND))
                continue;
            *result = in[k];
            return false;
        }
        if (!ir_is(g, in[k], l->op)) {
            l->x[l->n++] = item_of(g, in[k]);
            continue;
        }
        for (uint32_t j = 0; j < ir_node(g, in[k])->n; j++)
            l->x[l->n++] = item_of(g, ir_arg(g, in[k], j));
    }
    sort_unique(l);
    return true;
}

static bool contains(const struct ir_graph *g, const struct list *l, ir_ref r)
{
    struct item key = item_of(g, r);
    return l->n && bsearch(&key, l->x, l->n, sizeof *l->x, by_hash);
}

/* Truth of a clause's compound part by the clauses of the list: 1 when it is
 * one of them, -1 when its negation is. */
static int known_clause(struct ir_graph *g, const struct list *l, ir_ref r)
{
    bool clause = !ir_is(g, r, l->op);
    ir_ref c = clause ? r : ir_not(g, r);
    if (c == IR_NONE || !contains(g, l, c))
        return 0;
    return clause ? 1 : -1;
}

/* Truth of r beside the rest of the list, as the list sees it (1, -1, 0);
 * *out is r without the parts that are decided. */
static int settle(struct facts *f, const struct list *l, ir_ref r, int depth,
                  ir_ref *out)
{
    struct ir_graph *g = f->g;
    *out = r;
    if (facts_is_literal(g, r))
        return facts_truth(f, r);
    if (ir_is(g, r, IR_CONST_B) || depth == 0)
        return 0;
    if (depth < SETTLE_DEPTH) {
        int known = known_clause(g, l, r);
        if (known)
            return known;
    }
    enum ir_op op = ir_node(g, r)->op;
    int strong = (op == IR_AND) == f->negate ? 1 : -1; /* decides r */
    uint32_t n = ir_node(g, r)->n, m = 0;
    bool changed = false;
    struct scratch_mark mark = scratch_mark(g);
    ir_ref *kept = scratch_alloc(g, n * sizeof *kept);
    int truth = 0;
    for (uint32_t k = 0; kept && k < n && truth != strong; k++) {
        ir_ref part = ir_arg(g, r, k);
        truth = settle(f, l, part, depth - 1, &kept[m]);
        changed |= truth || kept[m] != part;
        m += truth == 0;
    }
    if (truth != strong)
        truth = m == 0 ? -strong : 0;
    if (truth == 0 && changed)
        *out = logic(g, op, m, kept);
    scratch_release(g, mark);
    return truth;
}

/* Literals and clauses of the list said again. Result as `flatten`;
 * *again: some are new and want another look. */
static bool simplify(struct ir_graph *g, struct list *l, bool *again,
                     ir_ref *result)
{
    struct facts f;
    *result = IR_NONE;
    *again = false;
    if (!facts_init(&f, g, l->op == IR_OR, l->n))
        return false;
    ir_ref *x = scratch_alloc(g, (l->n + 1) * sizeof *x);
    if (!x)
        return false;
    for (uint32_t k = 0; k < l->n; k++)
        if (facts_is_literal(g, l->x[k].ref))
            facts_add(&f, l->x[k].ref);
    if (!facts_settle(&f)) {
        *result = ir_const_b(g, l->op == IR_OR);
        return false;
    }
    uint32_t m = facts_literals(&f, x, again);
    for (uint32_t k = 0; k < l->n; k++) {
        ir_ref r = l->x[k].ref;
        if (facts_is_literal(g, r))
            continue;
        int truth = settle(&f, l, r, SETTLE_DEPTH, &x[m]);
        if (truth < 0) {
            *result = ir_const_b(g, l->op == IR_OR);
            return false;
        }
        *again |= x[m] != r;
        m += truth == 0;
    }
    return flatten(g, l, m, x, result);
}

/* Bits of the operands' hashes: a subset's bits are a subset. */
static uint64_t signature(const struct ir_graph *g, ir_ref r)
{
    uint64_t s = 0;
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++)
        s |= (uint64_t)1 << (ir_node(g, ir_arg(g, r, k))->hash >> 58);
    return s;
}

/* Keeps in x[0..n) what is an operand of r too; both sorted by hash. */
static uint32_t intersect(const struct ir_graph *g, ir_ref *x, uint32_t n,
                          ir_ref r)
{
    uint32_t m = 0, j = 0, nr = ir_node(g, r)->n;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t h = ir_node(g, x[k])->hash;
        while (j < nr && ir_node(g, ir_arg(g, r, j))->hash < h)
            j++;
        if (j < nr && ir_arg(g, r, j) == x[k])
            x[m++] = x[k];
    }
    return m;
}

static bool is_subset(const struct ir_graph *g, ir_ref a, ir_ref b)
{
    uint32_t j = 0, na = ir_node(g, a)->n, nb = ir_node(g, b)->n;
    for (uint32_t k = 0; k < na; k++) {
        uint64_t h = ir_node(g, ir_arg(g, a, k))->hash;
        while (j < nb && ir_node(g, ir_arg(g, b, j))->hash < h)
            j++;
        if (j == nb || ir_arg(g, b, j) != ir_arg(g, a, k))
            return false;
    }
    return true;
}

/* (a | b) & (a | b | c) is (a | b): drops clauses that contain another. */
static bool absorb(struct ir_graph *g, struct list *l)
{
    if (l->n > MAX_SUBSUMPTION)
        return true;
    uint64_t *sig = scratch_alloc(g, (l->n + 1) * sizeof *sig);
    if (!sig)
        return false;
    for (uint32_t k = 0; k < l->n; k++)
        sig[k] =
            ir_is(g, l->x[k].ref, dual(l->op)) ? signature(g, l->x[k].ref) : 0;
    uint32_t m = 0;
    for (uint32_t k = 0; k < l->n; k++) {
        bool drop = false;
        for (uint32_t j = 0; sig[k] && j < l->n && !drop; j++)
            drop = j != k && sig[j] && !(sig[j] & ~sig[k]) &&
                   ir_node(g, l->x[j].ref)->n < ir_node(g, l->x[k].ref)->n &&
                   is_subset(g, l->x[j].ref, l->x[k].ref);
        if (!drop)
            l->x[m++] = l->x[k]; /* x[j] of a dropped one has a subset kept */
        if (!drop)
            sig[m - 1] = sig[k];
    }
    l->n = m;
    return true;
}

static ir_ref without(struct ir_graph *g, ir_ref r, const ir_ref *common,
                      uint32_t n_common)
{
    enum ir_op op = ir_node(g, r)->op;
    uint32_t n = ir_node(g, r)->n, m = 0;
    ir_ref *x = scratch_alloc(g, n * sizeof *x);
    if (!x)
        return IR_NONE;
    for (uint32_t k = 0, j = 0; k < n; k++) {
        ir_ref a = ir_arg(g, r, k);
        if (j < n_common && common[j] == a)
            j++;
        else
            x[m++] = a;
    }
    return logic(g, op, m, x);
}

/* (a & b) | (a & c) is a & (b | c), where every operand has an a. *done. */
static ir_ref pull_out(struct ir_graph *g, const struct list *l, bool *done)
{
    *done = false;
    for (uint32_t k = 0; k < l->n; k++)
        if (!ir_is(g, l->x[k].ref, dual(l->op)))
            return IR_NONE;
    ir_ref first = l->x[0].ref;
    uint32_t n = ir_node(g, first)->n;
    ir_ref *common = scratch_alloc(g, (n + 1) * sizeof *common);
    ir_ref *rest = scratch_alloc(g, l->n * sizeof *rest);
    if (!common || !rest)
        return IR_NONE;
    for (uint32_t k = 0; k < n; k++)
        common[k] = ir_arg(g, first, k);
    for (uint32_t k = 1; k < l->n && n; k++)
        n = intersect(g, common, n, l->x[k].ref);
    if (!n)
        return IR_NONE;
    *done = true;
    for (uint32_t k = 0; k < l->n; k++)
        rest[k] = without(g, l->x[k].ref, common, n);
    common[n] = logic(g, l->op, l->n, rest);
    return logic(g, dual(l->op), n + 1, common);
}

static ir_ref finish(struct ir_graph *g, const struct list *l)
{
    if (l->n == 0)
        return ir_const_b(g, l->op == IR_AND);
    if (l->n == 1)
        return l->x[0].ref;
    bool done;
    ir_ref r = pull_out(g, l, &done);
    if (done || g->failed)
        return r;
    ir_ref *x = scratch_alloc(g, l->n * sizeof *x);
    if (!x)
        return IR_NONE;
    for (uint32_t k = 0; k < l->n; k++)
        x[k] = l->x[k].ref;
    return ir_intern(g, l->op, IR_BOOL, l->n, x, NULL, 0, 0);
}

/* Two literals about different things: most of what the tracer asks. */
static bool is_plain_pair(const struct ir_graph *g, size_t n, const ir_ref *x)
{
    return n == 2 && x[0] != IR_NONE && x[1] != IR_NONE &&
           facts_is_literal(g, x[0]) && facts_is_literal(g, x[1]) &&
           facts_unrelated(g, x[0], x[1]);
}

static ir_ref logic(struct ir_graph *g, enum ir_op op, size_t n,
                    const ir_ref *in)
{
    if (g->failed)
        return IR_NONE;
    if (is_plain_pair(g, n, in)) {
        struct item a = item_of(g, in[0]), b = item_of(g, in[1]);
        bool sorted = by_hash(&a, &b) < 0;
        ir_ref x[2] = {sorted ? a.ref : b.ref, sorted ? b.ref : a.ref};
        return ir_intern(g, op, IR_BOOL, 2, x, NULL, 0, 0);
    }
    struct list l = {.op = op};
    struct scratch_mark mark = scratch_mark(g);
    ir_ref result;
    if (flatten(g, &l, n, in, &result)) {
        bool again = l.n > 1, open = true;
        for (int k = 0; open && again && k < MAX_ROUNDS; k++)
            open = simplify(g, &l, &again, &result);
        if (open && absorb(g, &l))
            result = finish(g, &l);
    }
    scratch_release(g, mark);
    return g->failed ? IR_NONE : result;
}

ir_ref ir_and(struct ir_graph *g, size_t n, const ir_ref *x)
{
    return logic(g, IR_AND, n, x);
}

ir_ref ir_or(struct ir_graph *g, size_t n, const ir_ref *x)
{
    return logic(g, IR_OR, n, x);
}

ir_ref ir_and2(struct ir_graph *g, ir_ref a, ir_ref b)
{
    ir_ref x[2] = {a, b};
    return logic(g, IR_AND, 2, x);
}

ir_ref ir_or2(struct ir_graph *g, ir_ref a, ir_ref b)
{
    ir_ref x[2] = {a, b};
    return logic(g, IR_OR, 2, x);
}

/* x >= 0 fails exactly when -x - 1 >= 0. */
static ir_ref not_ge0(struct ir_graph *g, ir_ref r)
{
    struct ir_linear l;
    ir_linear_init(&l, ~ir_node(g, r)->i);
    uint32_t n = ir_node(g, r)->n;
    for (uint32_t k = 0; k < n; k++) {
        int64_t c = ir_coef(g, r, k);
        if (c == INT64_MIN)
            return ir_fail_range(g);
        if (!ir_linear_axpy(g, &l, ir_arg(g, r, k), -c))
            return IR_NONE;
    }
    return ir_ge0(g, &l);
}

static ir_ref not_logic(struct ir_graph *g, ir_ref r)
{
    enum ir_op op = ir_node(g, r)->op;
    uint32_t n = ir_node(g, r)->n;
    struct scratch_mark mark = scratch_mark(g);
    ir_ref *x = scratch_alloc(g, n * sizeof *x);
    ir_ref out = IR_NONE;
    if (x) {
        for (uint32_t k = 0; k < n; k++)
            x[k] = ir_not(g, ir_arg(g, r, k));
        out = logic(g, dual(op), n, x);
    }
    scratch_release(g, mark);
    return out;
}

ir_ref ir_not(struct ir_graph *g, ir_ref r)
{
    if (g->failed || r == IR_NONE)
        return IR_NONE;
    const struct ir_node *p = ir_node(g, r);
    if (p->op == IR_CONST_B)
        return ir_const_b(g, !p->i);
    if (p->op == IR_NOT)
        return ir_arg(g, r, 0);
    if (p->neg)
        return p->neg;
    ir_ref out;
    if (p->op == IR_GE0)
        out = not_ge0(g, r);
    else if (p->op == IR_AND || p->op == IR_OR)
        out = not_logic(g, r);
    else
        out = ir_intern(g, IR_NOT, IR_BOOL, 1, &r, NULL, 0, 0);
    if (out == IR_NONE)
        return IR_NONE;
    g->nodes[r].neg = out;
    if (!g->nodes[out].neg)
        g->nodes[out].neg = r;
    return out;
}

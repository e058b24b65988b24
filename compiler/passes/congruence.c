/* In: keep. Out: keep in which, inside "x == y and P", P uses x for y (and
 * u - n * x for u % n where y is u // n) wherever that makes the whole
 * smaller. id[q] == id[kv] and window(q - off[id[q]], kv - off[id[kv]])
 * becomes id[q] == id[kv] and a window on q - kv: exact verdicts, cheaper
 * cells. Work is bounded; beyond the bound the mask stays as it is. Called
 * by compile.c. */
#include "compiler/passes/passes.h"

#include "compiler/ir/scratch.h"

enum { MAX_WORK = 200000 }; /* nodes looked at, of one mask */

struct congruence {
    struct ir_graph *g;
    int work;         /* left */
    uint32_t *seen;   /* by node: the walk that saw it last */
    uint32_t n_seen;  /* entries */
    uint32_t n_walks; /* so far */
};

/* One trial: `from` becomes `to`. */
struct trial {
    ir_ref from, to;
    ir_ref equation; /* stays */
};

static int node_weight(const struct ir_graph *g, ir_ref r)
{
    enum ir_op op = ir_node(g, r)->op;
    if (op == IR_LIN)
        return 1;
    bool dear = ir_op_is_load(op) || op == IR_IDIV || op == IR_IMOD;
    return dear ? 4 : 2;
}

static bool grow_seen(struct congruence *c)
{
    size_t n = c->g->n_nodes;
    if (n <= c->n_seen)
        return true;
    c->seen = arena_alloc(c->g->arena, 2 * n * sizeof *c->seen);
    c->n_seen = c->seen ? (uint32_t)(2 * n) : 0;
    c->n_walks = 0;
    if (!c->seen)
        ir_fail_memory(c->g);
    return c->seen != NULL;
}

/* The nodes below r, operands first, r last, in scratch memory. Unlike
 * ir_walk its cost is that of what it visits: a trial looks at a small part
 * of the graph. */
static bool walk(struct congruence *c, ir_ref r, ir_ref **order, uint32_t *n)
{
    struct ir_graph *g = c->g;
    size_t size = g->n_nodes * sizeof(ir_ref);
    if (!grow_seen(c))
        return false;
    ir_ref *out = scratch_alloc(g, size), *path = scratch_alloc(g, size);
    uint32_t *next = scratch_alloc(g, size), depth;
    if (!out || !path || !next)
        return false;
    uint32_t now = ++c->n_walks;
    *n = 0;
    c->seen[r] = now;
    path[0] = r;
    next[0] = 0;
    for (depth = 1; depth;) {
        ir_ref top = path[depth - 1];
        if (next[depth - 1] == ir_node(g, top)->n) {
            out[(*n)++] = top;
            depth--;
            continue;
        }
        ir_ref x = ir_arg(g, top, next[depth - 1]++);
        if (c->seen[x] == now)
            continue;
        c->seen[x] = now;
        path[depth] = x;
        next[depth++] = 0;
    }
    c->work -= (int)*n;
    *order = out;
    return true;
}

/* -1: memory is out. */
static int weight(struct congruence *c, ir_ref r)
{
    ir_ref *order;
    uint32_t n;
    int sum = 0;
    struct scratch_mark mark = scratch_mark(c->g);
    if (!walk(c, r, &order, &n))
        return -1;
    for (uint32_t k = 0; k < n; k++)
        sum += node_weight(c->g, order[k]);
    scratch_release(c->g, mark);
    return sum;
}

static ir_ref remainder_of(struct ir_graph *g, const struct trial *t, ir_ref r,
                           ir_ref u)
{
    ir_ref n = ir_arg(g, r, 1);
    struct ir_linear l;
    ir_linear_init(&l, 0);
    if (!ir_linear_axpy(g, &l, u, 1) ||
        !ir_linear_axpy(g, &l, t->to, -ir_node(g, n)->i))
        return IR_NONE;
    return ir_linear_node(g, &l);
}

/* r is u % n where the trial replaces u // n, for a constant n. */
static bool is_remainder(const struct ir_graph *g, const struct trial *t,
                         ir_ref r)
{
    return ir_is(g, r, IR_IMOD) && ir_is(g, t->from, IR_IDIV) &&
           ir_arg(g, r, 0) == ir_arg(g, t->from, 0) &&
           ir_arg(g, r, 1) == ir_arg(g, t->from, 1) &&
           ir_is(g, ir_arg(g, r, 1), IR_CONST_I) &&
           ir_node(g, ir_arg(g, r, 1))->i > 0;
}

static ir_ref substitute_node(struct ir_graph *g, const struct trial *t,
                              ir_ref r, const ir_ref *now)
{
    uint32_t n = ir_node(g, r)->n;
    bool changed = false;
    if (r == t->from)
        return t->to;
    if (is_remainder(g, t, r))
        return remainder_of(g, t, r, now[ir_arg(g, r, 0)]);
    for (uint32_t k = 0; k < n; k++)
        changed |= now[ir_arg(g, r, k)] != ir_arg(g, r, k);
    if (!changed)
        return r;
    struct scratch_mark mark = scratch_mark(g);
    ir_ref *x = scratch_alloc(g, n * sizeof *x);
    for (uint32_t k = 0; x && k < n; k++)
        x[k] = now[ir_arg(g, r, k)];
    ir_ref out = x ? ir_rebuild(g, r, x) : IR_NONE;
    scratch_release(g, mark);
    return out;
}

/* The conjunction r after the trial; IR_NONE when that fails. */
static ir_ref substitute(struct congruence *c, ir_ref r, const struct trial *t)
{
    struct ir_graph *g = c->g;
    ir_ref *order, out = IR_NONE;
    uint32_t n;
    struct scratch_mark mark = scratch_mark(g);
    if (!walk(c, r, &order, &n))
        return IR_NONE;
    ir_ref *now = scratch_alloc(g, g->n_nodes * sizeof *now);
    uint32_t n_parts = ir_node(g, r)->n;
    ir_ref *part = scratch_alloc(g, n_parts * sizeof *part);
    if (now && part) {
        for (uint32_t k = 0; k + 1 < n && !g->failed; k++)
            now[order[k]] = substitute_node(g, t, order[k], now);
        for (uint32_t k = 0; k < n_parts && !g->failed; k++)
            part[k] = ir_arg(g, r, k) == t->equation ? t->equation
                                                     : now[ir_arg(g, r, k)];
        out = ir_and(g, n_parts, part);
    }
    scratch_release(g, mark);
    return out;
}

void pass_recover(struct ir_graph *g)
{
    if (g->failed && g->diag && g->diag->status != DIAG_MEMORY) {
        g->failed = false;
        diag_init(g->diag);
    }
}

/* What equation says term k is: IR_NONE when it says nothing usable. */
static ir_ref solve(struct ir_graph *g, ir_ref equation, uint32_t k)
{
    struct ir_linear l, rest;
    int64_t c = ir_coef(g, equation, k);
    if ((c != 1 && c != -1) || ir_is(g, ir_arg(g, equation, k), IR_VAR_I))
        return IR_NONE;
    if (!ir_linear_of(g, equation, &l))
        return IR_NONE;
    ir_linear_init(&rest, 0);
    if (__builtin_mul_overflow(l.c, -c, &rest.c))
        return IR_NONE;
    for (uint32_t j = 0; j < l.n; j++)
        if (j != k && (l.k[j] == INT64_MIN ||
                       !ir_linear_axpy(g, &rest, l.term[j], -c * l.k[j])))
            return IR_NONE;
    return ir_linear_node(g, &rest);
}

/* One improvement of a conjunction, or r. */
static ir_ref improve(struct congruence *c, ir_ref r)
{
    struct ir_graph *g = c->g;
    int before = -1;
    uint32_t n = ir_node(g, r)->n;
    for (uint32_t e = 0; e < n; e++) {
        struct trial t = {.equation = ir_arg(g, r, e)};
        if (!ir_is(g, t.equation, IR_EQ0))
            continue;
        for (uint32_t k = 0; k < ir_node(g, t.equation)->n; k++) {
            if (c->work <= 0 || g->failed)
                return r;
            t.from = ir_arg(g, t.equation, k);
            t.to = solve(g, t.equation, k);
            if (before < 0)
                before = weight(c, r);
            ir_ref z = t.to ? substitute(c, r, &t) : IR_NONE;
            pass_recover(g);
            if (z && z != r && weight(c, z) < before)
                return z;
        }
    }
    return r;
}

static ir_ref congruent(struct congruence *c, ir_ref r);

static ir_ref congruent_parts(struct congruence *c, ir_ref r)
{
    struct ir_graph *g = c->g;
    uint32_t n = ir_node(g, r)->n;
    struct scratch_mark mark = scratch_mark(g);
    ir_ref *x = scratch_alloc(g, n * sizeof *x);
    bool changed = false;
    for (uint32_t k = 0; x && k < n; k++) {
        ir_ref part = ir_arg(g, r, k);
        x[k] = c->work > 0 ? congruent(c, part) : part;
        changed |= x[k] != part;
    }
    ir_ref out = !x ? IR_NONE : changed ? ir_rebuild(g, r, x) : r;
    scratch_release(g, mark);
    return out;
}

static ir_ref congruent(struct congruence *c, ir_ref r)
{
    struct ir_graph *g = c->g;
    ir_ref last = IR_NONE;
    while (r != last && r && ir_is(g, r, IR_AND)) {
        last = r;
        r = improve(c, r);
    }
    if (r && (ir_is(g, r, IR_AND) || ir_is(g, r, IR_OR)))
        r = congruent_parts(c, r);
    return r;
}

/* requires: keep in negation normal form; leaves: the same, never larger. */
bool pass_congruence(struct ir_graph *g, struct ir_roots *roots)
{
    struct congruence c = {.g = g, .work = MAX_WORK};
    if (g->failed)
        return false;
    ir_ref keep = congruent(&c, roots->keep);
    if (g->failed)
        return false;
    roots->keep = keep;
    return true;
}

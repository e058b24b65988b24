/* The node array. In: ops, operands, constants; out: references to nodes,
 * each distinct node once. Every builder of compiler/ir ends here. Equality
 * is by content; the hash only finds the place in the table. */
#include "compiler/ir/ir.h"

#include <math.h>
#include <string.h>

#include "compiler/ir/interval.h"
#include "compiler/support/hash.h"

enum { OUT_b = IR_BOOL, OUT_i = IR_INT, OUT_f = IR_FLOAT };

/* One type letter per operand, or "*" for any number. */
#define OP(name, dsl, n, out, in, cuda, eval, iv, d0, d1, d2)                  \
    _Static_assert(sizeof(in) == ((n) < 0 ? 2u : (unsigned)(n) + 1u),          \
                   "arity of " #name);
#include "compiler/ir/ops.def"

static const struct ir_op_info op_infos[IR_OP_COUNT] = {
    [IR_INVALID] = {"INVALID", "", 0, IR_BOOL, "", ""},
#define OP(name, dsl, n, out, in, cuda, eval, iv, d0, d1, d2)                  \
    [IR_##name] = {#name, dsl, n, (enum ir_type)OUT_##out, in, cuda},
#include "compiler/ir/ops.def"
};

const struct ir_op_info *ir_op_info(enum ir_op op)
{
    return &op_infos[op < IR_OP_COUNT ? op : IR_INVALID];
}

/* --- the graph ------------------------------------------------------- */

enum { FIRST_NODES = 64, FIRST_ARGS = 128, FIRST_TABLE = 256 };

ir_ref ir_fail_memory(struct ir_graph *g)
{
    g->failed = true;
    diag_nomem(g->diag, "trace");
    return IR_NONE;
}

ir_ref ir_fail_range(struct ir_graph *g)
{
    g->failed = true;
    diag_set(
        g->diag, DIAG_SCRIPT, "trace", g->file, (int)g->line,
        "integer arithmetic leaves 64 bits (positions and sizes count as "
        "up to 2^31 - 1, i64 values as within 2^60); bound an operand by & or "
        "facc.clamp, or make it a float by facc.float");
    return IR_NONE;
}

static bool grow_nodes(struct ir_graph *g)
{
    uint32_t cap = g->cap_nodes ? 2 * g->cap_nodes : FIRST_NODES;
    struct ir_node *p = arena_grow(g->arena, g->nodes, g->cap_nodes * sizeof *p,
                                   cap * sizeof *p);
    if (!p)
        return false;
    g->nodes = p;
    g->cap_nodes = cap;
    return true;
}

static bool grow_args(struct ir_graph *g, uint32_t n)
{
    uint32_t cap = g->cap_args ? g->cap_args : FIRST_ARGS;
    while (cap - g->n_args < n)
        cap *= 2;
    ir_ref *args = arena_grow(g->arena, g->args, g->cap_args * sizeof *args,
                              cap * sizeof *args);
    if (!args)
        return false;
    g->args = args;
    int64_t *coefs = arena_grow(g->arena, g->coefs, g->cap_args * sizeof *coefs,
                                cap * sizeof *coefs);
    if (!coefs)
        return false;
    g->coefs = coefs;
    g->cap_args = cap;
    return true;
}

/* Where a node with this hash would go: the first free slot of its chain. */
static uint32_t free_slot(const ir_ref *table, uint32_t size, uint64_t hash)
{
    uint32_t s = (uint32_t)hash & (size - 1);
    while (table[s])
        s = (s + 1) & (size - 1);
    return s;
}

static bool grow_table(struct ir_graph *g)
{
    uint32_t size = g->table_size ? 2 * g->table_size : FIRST_TABLE;
    ir_ref *table = arena_alloc(g->arena, size * sizeof *table);
    if (!table)
        return false;
    for (ir_ref r = 1; r < g->n_nodes; r++)
        table[free_slot(table, size, g->nodes[r].hash)] = r;
    g->table = table;
    g->table_size = size;
    return true;
}

struct ir_graph *ir_graph_new(struct arena *a, struct diag *d, const char *file)
{
    struct ir_graph *g = arena_alloc(a, sizeof *g);
    if (!g) {
        diag_nomem(d, "trace");
        return NULL;
    }
    g->arena = a;
    g->diag = d;
    g->file = arena_strdup(a, file ? file : "");
    if (!g->file || !grow_nodes(g) || !grow_args(g, 1) || !grow_table(g)) {
        diag_nomem(d, "trace");
        return NULL;
    }
    g->n_nodes = 1; /* IR_NONE */
    return g;
}

int ir_add_tensor(struct ir_graph *g, const struct ir_tensor *t)
{
    size_t n = (size_t)g->n_tensors;
    struct ir_tensor *p =
        arena_grow(g->arena, g->tensors, n * sizeof *p, (n + 1) * sizeof *p);
    char *name = p ? arena_strdup(g->arena, t->name) : NULL;
    if (!name) {
        ir_fail_memory(g);
        return -1;
    }
    p[n] = *t;
    p[n].name = name;
    g->tensors = p;
    return g->n_tensors++;
}

int ir_add_param(struct ir_graph *g, const struct ir_param *p)
{
    size_t n = (size_t)g->n_params;
    struct ir_param *q =
        arena_grow(g->arena, g->params, n * sizeof *q, (n + 1) * sizeof *q);
    char *name = q ? arena_strdup(g->arena, p->name) : NULL;
    if (!name) {
        ir_fail_memory(g);
        return -1;
    }
    q[n] = *p;
    q[n].name = name;
    g->params = q;
    return g->n_params++;
}

/* --- facts of a new node ---------------------------------------------- */

static uint64_t float_bits(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* From content alone: operands by their own hashes, declared things by what
 * they are and their place, never by name. */
static uint64_t node_hash(const struct ir_graph *g, const struct ir_node *p,
                          const ir_ref *args, const int64_t *coefs)
{
    uint64_t h = hash_mix(p->op, p->type);
    h = hash_mix(h, (uint64_t)p->i);
    h = hash_mix(h, float_bits(p->f));
    if (ir_op_is_load(p->op)) {
        h = hash_mix(h, g->tensors[p->i].dtype);
        h = hash_mix(h, (uint64_t)g->tensors[p->i].rank);
    } else if (p->op == IR_PARAM_I || p->op == IR_PARAM_F) {
        h = hash_mix(h, g->params[p->i].dtype);
    }
    for (uint32_t k = 0; k < p->n; k++) {
        h = hash_mix(h, g->nodes[args[k]].hash);
        if (coefs)
            h = hash_mix(h, (uint64_t)coefs[k]);
    }
    return h;
}

static ir_ref find(const struct ir_graph *g, const struct ir_node *p,
                   const ir_ref *args, const int64_t *coefs)
{
    uint32_t mask = g->table_size - 1;
    for (uint32_t s = (uint32_t)p->hash & mask; g->table[s];
         s = (s + 1) & mask) {
        const struct ir_node *q = &g->nodes[g->table[s]];
        if (q->hash != p->hash || q->op != p->op || q->type != p->type ||
            q->n != p->n || q->i != p->i ||
            float_bits(q->f) != float_bits(p->f))
            continue;
        bool same = true;
        for (uint32_t k = 0; k < p->n && same; k++)
            same = g->args[q->first + k] == args[k] &&
                   g->coefs[q->first + k] == (coefs ? coefs[k] : 0);
        if (same)
            return g->table[s];
    }
    return IR_NONE;
}

static unsigned node_deps(const struct ir_graph *g, const struct ir_node *p,
                          const ir_ref *args)
{
    unsigned deps = 0;
    if (p->op == IR_VAR_I && p->i <= IR_VAR_KV)
        deps = 1u << p->i;
    if (p->op == IR_SCORE)
        deps = IR_DEP_SCORE;
    for (uint32_t k = 0; k < p->n; k++)
        deps |= g->nodes[args[k]].deps;
    return deps;
}
_Static_assert(1 << IR_VAR_B == IR_DEP_B && 1 << IR_VAR_KV == IR_DEP_KV,
               "dependency bits follow the variables");

/* What loads give and params may be. */
static void dtype_range(enum dtype t, int64_t *lo, int64_t *hi)
{
    const int bits = 8 * (int)dtype_size(t);
    if (t == DTYPE_I64) {
        *lo = DTYPE_WIDE_MIN;
        *hi = DTYPE_WIDE_MAX;
    } else if (t == DTYPE_U8) {
        *lo = 0;
        *hi = UINT8_MAX;
    } else {
        *lo = -((int64_t)1 << (bits - 1));
        *hi = ((int64_t)1 << (bits - 1)) - 1;
    }
}

static struct interval operand_interval(const struct ir_node *p)
{
    struct interval x = {.type = (enum ir_type)p->type};
    switch ((enum ir_type)p->type) {
    case IR_INT:
        x.i.lo = p->lo;
        x.i.hi = p->hi;
        break;
    case IR_FLOAT:
        x.f.lo = -INFINITY;
        x.f.hi = INFINITY;
        x.f.nan = true;
        break;
    case IR_BOOL:
        x.b.may_false = true;
        x.b.may_true = true;
        break;
    }
    return x;
}

/* False when a linear form leaves 64 bits, or memory ran out. */
static bool int_range(struct ir_graph *g, struct ir_node *p)
{
    enum ir_op op = (enum ir_op)p->op;
    ir_ref *args = g->args + p->first;
    p->lo = 0;
    p->hi = INT32_MAX; /* indices, sizes, lengths */
    if (op == IR_CONST_I) {
        p->lo = p->hi = p->i;
    } else if (op == IR_PARAM_I) {
        dtype_range(g->params[p->i].dtype, &p->lo, &p->hi);
    } else if (op == IR_LOAD_I) {
        dtype_range(g->tensors[p->i].dtype, &p->lo, &p->hi);
    } else if (op == IR_LIN) {
        struct ir_linear l = {p->i, p->n, p->n, args, g->coefs + p->first};
        bool wide;
        if (!ir_linear_range(g, &l, &p->lo, &p->hi, &wide))
            return false;
        if (wide)
            ir_fail_range(g);
        return !wide;
    } else if (op != IR_VAR_I && op != IR_LEN_Q && op != IR_LEN_KV) {
        struct interval x[3];
        for (uint32_t k = 0; k < p->n && k < 3; k++)
            x[k] = operand_interval(&g->nodes[args[k]]);
        struct interval r = interval_eval(op, x);
        p->lo = r.i.lo;
        p->hi = r.i.hi;
    }
    return true;
}

ir_ref ir_intern(struct ir_graph *g, enum ir_op op, enum ir_type type,
                 uint32_t n, const ir_ref *args, const int64_t *coefs,
                 int64_t i, double f)
{
    if (g->failed)
        return IR_NONE;
    struct ir_node node = {.op = (uint8_t)op,
                           .type = (uint8_t)type,
                           .n = n,
                           .line = g->line,
                           .i = i,
                           .f = f};
    node.hash = node_hash(g, &node, args, coefs);
    ir_ref r = find(g, &node, args, coefs);
    if (r)
        return r;
    if ((g->n_nodes == g->cap_nodes && !grow_nodes(g)) ||
        (g->cap_args - g->n_args < n && !grow_args(g, n)) ||
        (2 * (g->n_nodes + 1) > g->table_size && !grow_table(g)))
        return ir_fail_memory(g);
    node.deps = (uint8_t)node_deps(g, &node, args);
    node.first = g->n_args;
    for (uint32_t k = 0; k < n; k++) {
        g->args[node.first + k] = args[k];
        g->coefs[node.first + k] = coefs ? coefs[k] : 0;
    }
    if (type == IR_INT && !int_range(g, &node))
        return IR_NONE;
    g->n_args += n;
    r = g->n_nodes++;
    g->nodes[r] = node;
    g->table[free_slot(g->table, g->table_size, node.hash)] = r;
    return r;
}

/* --- leaves ------------------------------------------------------------ */

ir_ref ir_const_b(struct ir_graph *g, bool v)
{
    return ir_intern(g, IR_CONST_B, IR_BOOL, 0, NULL, NULL, v, 0);
}

ir_ref ir_const_i(struct ir_graph *g, int64_t v)
{
    return ir_intern(g, IR_CONST_I, IR_INT, 0, NULL, NULL, v, 0);
}

ir_ref ir_const_f(struct ir_graph *g, double v)
{
    if (isnan(v))
        v = (double)NAN; /* one NaN */
    return ir_intern(g, IR_CONST_F, IR_FLOAT, 0, NULL, NULL, 0, v);
}

ir_ref ir_var(struct ir_graph *g, enum ir_var v)
{
    return ir_intern(g, IR_VAR_I, IR_INT, 0, NULL, NULL, (int64_t)v, 0);
}

ir_ref ir_score(struct ir_graph *g)
{
    return ir_intern(g, IR_SCORE, IR_FLOAT, 0, NULL, NULL, 0, 0);
}

ir_ref ir_param(struct ir_graph *g, int param)
{
    if (dtype_is_float(g->params[param].dtype))
        return ir_intern(g, IR_PARAM_F, IR_FLOAT, 0, NULL, NULL, param, 0);
    return ir_intern(g, IR_PARAM_I, IR_INT, 0, NULL, NULL, param, 0);
}

ir_ref ir_len(struct ir_graph *g, bool kv, ir_ref b)
{
    return ir_intern(g, kv ? IR_LEN_KV : IR_LEN_Q, IR_INT, 1, &b, NULL, 0, 0);
}

ir_ref ir_load(struct ir_graph *g, int tensor, int n_index, const ir_ref *index)
{
    enum dtype t = g->tensors[tensor].dtype;
    uint32_t n = (uint32_t)n_index;
    if (t == DTYPE_BOOL)
        return ir_intern(g, IR_LOAD_B, IR_BOOL, n, index, NULL, tensor, 0);
    if (dtype_is_float(t))
        return ir_intern(g, IR_LOAD_F, IR_FLOAT, n, index, NULL, tensor, 0);
    return ir_intern(g, IR_LOAD_I, IR_INT, n, index, NULL, tensor, 0);
}

int64_t ir_dot_length(const struct ir_graph *g, ir_ref dot)
{
    const struct ir_node *a = ir_node(g, ir_arg(g, dot, 0));
    const struct ir_tensor *t = &g->tensors[a->i];
    return t->dim[t->rank - 1].extent;
}

ir_ref ir_dot(struct ir_graph *g, ir_ref a, ir_ref b)
{
    ir_ref x[2] = {a, b};
    if (g->failed)
        return IR_NONE;
    if (ir_node(g, a)->hash > ir_node(g, b)->hash) {
        x[0] = b;
        x[1] = a;
    }
    return ir_intern(g, IR_DOT, IR_FLOAT, 2, x, NULL, 0, 0);
}

/* --- walking ------------------------------------------------------------ */

struct walk {
    const struct ir_graph *g;
    ir_ref *order;
    uint32_t n;
    ir_ref *path;      /* from the root down */
    uint32_t *visited; /* operands of the node that were entered, plus 1 */
};

/* Depth first, operands before users; a node is on the path at most once, so
 * n_nodes entries are enough. */
static void walk_from(struct walk *w, ir_ref root)
{
    uint32_t depth = 0;
    if (!root || w->visited[root])
        return;
    w->visited[root] = 1;
    w->path[depth++] = root;
    while (depth) {
        ir_ref r = w->path[depth - 1];
        uint32_t k = w->visited[r] - 1;
        if (k == ir_node(w->g, r)->n) {
            w->order[w->n++] = r;
            depth--;
            continue;
        }
        w->visited[r]++;
        ir_ref x = ir_arg(w->g, r, k);
        if (!w->visited[x]) {
            w->visited[x] = 1;
            w->path[depth++] = x;
        }
    }
}

bool ir_walk(struct ir_graph *g, const struct ir_roots *roots, ir_ref **order,
             uint32_t *n)
{
    struct walk w = {.g = g};
    w.order = arena_alloc(g->arena, g->n_nodes * sizeof *w.order);
    w.path = arena_alloc(g->arena, g->n_nodes * sizeof *w.path);
    w.visited = arena_alloc(g->arena, g->n_nodes * sizeof *w.visited);
    if (!w.order || !w.path || !w.visited) {
        ir_fail_memory(g);
        return false;
    }
    walk_from(&w, roots->score);
    walk_from(&w, roots->keep);
    *order = w.order;
    *n = w.n;
    return true;
}

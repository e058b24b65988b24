/* The IR: typed nodes in one array, every node built once (equal nodes are
 * shared), canonical forms chosen while building. A node only refers to
 * nodes before it. Builders are sticky: after the first failure (memory, a
 * range beyond i64) they return IR_NONE and the graph's diag says why.
 *
 * Types: bool, int (64-bit in meaning; every int node carries its range, from
 * which the emitter picks i32 or i64), float (f32 in kernels, f32 or f64 in
 * the evaluator). */
#ifndef FACC_IR_H
#define FACC_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/dtype.h"
#include "compiler/support/arena.h"
#include "compiler/support/diag.h"
#include "compiler/support/strbuf.h"

typedef uint32_t ir_ref; /* index into ir_graph.nodes, never a pointer */
#define IR_NONE 0u

enum ir_op {
    IR_INVALID = 0,
#define OP(name, dsl, n, out, in, cuda, eval, iv, d0, d1, d2) IR_##name,
#include "compiler/ir/ops.def"
    IR_OP_COUNT
};

enum ir_type { IR_BOOL, IR_INT, IR_FLOAT };

/* Static columns of the table. */
struct ir_op_info {
    const char *name; /* "FADD" */
    const char *dsl;  /* "" when none */
    int n;            /* operands, -1 any */
    enum ir_type out;
    const char *in;
    const char *cuda;
};
const struct ir_op_info *ir_op_info(enum ir_op op);

/* VAR_I's node.i: the indices, then the sizes (tile scope, run time; head dims
 * are constants of a kernel). */
enum ir_var {
    IR_VAR_B,
    IR_VAR_H,
    IR_VAR_Q,
    IR_VAR_KV,
    IR_VAR_SIZE_B,
    IR_VAR_SIZE_H,
    IR_VAR_SIZE_HKV,
    IR_VAR_SIZE_Q,
    IR_VAR_SIZE_KV,
    IR_VAR_SIZE_D, /* head dims of Q and K, of V and O */
    IR_VAR_SIZE_DV,
    IR_VAR_COUNT
};

/* What a node depends on (bits of node.deps). */
enum {
    IR_DEP_B = 1,
    IR_DEP_H = 2,
    IR_DEP_Q = 4,
    IR_DEP_KV = 8,
    IR_DEP_SCORE = 16
};

struct ir_node {
    uint8_t op;   /* enum ir_op */
    uint8_t type; /* enum ir_type */
    uint8_t deps; /* IR_DEP_* */
    uint8_t pad;
    uint32_t n;     /* operands */
    uint32_t first; /* index into ir_graph.args / .coefs */
    uint32_t line;  /* Lua line that first made it, 0 unknown */
    int64_t i;      /* constant, variable, parameter, tensor; LIN's constant */
    double f;       /* CONST_F */
    int64_t lo, hi; /* IR_INT: inclusive range; else 0 */
    uint64_t hash;  /* structural: independent of creation order */
    ir_ref neg;     /* bool: its negation once built (logic.c), or IR_NONE */
};

/* Extent of a captured tensor's dimension. */
enum ir_dim_kind {
    IR_DIM_FIXED,
    IR_DIM_B,
    IR_DIM_H,
    IR_DIM_HKV,
    IR_DIM_Q,
    IR_DIM_KV,
    IR_DIM_ANY /* what each call's tensor has */
};
enum { IR_MAX_RANK = 5 };

struct ir_dim {
    enum ir_dim_kind kind;
    int64_t extent; /* IR_DIM_FIXED only */
};

struct ir_tensor { /* a captured tensor, as declared */
    const char *name;
    enum dtype dtype;
    int rank; /* 0..IR_MAX_RANK */
    struct ir_dim dim[IR_MAX_RANK];
    int line;
};

struct ir_param { /* a run-time scalar, as declared */
    const char *name;
    enum dtype dtype; /* I32, I64, F32 */
    int line;
};

struct ir_graph {
    struct arena *arena; /* owns everything below */
    struct diag *diag;   /* first failure */
    const char *file;    /* for messages */
    uint32_t line;       /* stamped on nodes built from now on */
    struct ir_node *nodes;
    uint32_t n_nodes, cap_nodes; /* nodes[0] is IR_NONE */
    ir_ref *args;
    int64_t *coefs; /* parallel to args; 0 unless LIN, GE0, EQ0 */
    uint32_t n_args, cap_args;
    ir_ref *table; /* open-addressing hash set of nodes */
    uint32_t table_size;
    struct ir_tensor *tensors;
    int n_tensors;
    struct ir_param *params;
    int n_params;
    bool failed;
    struct scratch *scratch; /* scratch.c: reused temporaries, NULL at first */
};

/* NULL when memory is out. */
struct ir_graph *ir_graph_new(struct arena *a, struct diag *d,
                              const char *file);
/* Index of the new declaration, or -1 (memory). Names are copied. */
int ir_add_tensor(struct ir_graph *g, const struct ir_tensor *t);
int ir_add_param(struct ir_graph *g, const struct ir_param *p);

static inline const struct ir_node *ir_node(const struct ir_graph *g, ir_ref r)
{
    return &g->nodes[r];
}
static inline ir_ref ir_arg(const struct ir_graph *g, ir_ref r, uint32_t k)
{
    return g->args[g->nodes[r].first + k];
}
static inline int64_t ir_coef(const struct ir_graph *g, ir_ref r, uint32_t k)
{
    return g->coefs[g->nodes[r].first + k];
}
static inline bool ir_is(const struct ir_graph *g, ir_ref r, enum ir_op op)
{
    return g->nodes[r].op == op;
}
/* Reads a captured tensor. */
static inline bool ir_op_is_load(enum ir_op op)
{
    return op == IR_LOAD_B || op == IR_LOAD_I || op == IR_LOAD_F;
}
/* Has coefficients: a linear form or a predicate over one. */
static inline bool ir_op_is_linear(enum ir_op op)
{
    return op == IR_LIN || op == IR_GE0 || op == IR_EQ0;
}

/* --- leaves --------------------------------------------------------- */
ir_ref ir_const_b(struct ir_graph *g, bool v);
ir_ref ir_const_i(struct ir_graph *g, int64_t v);
ir_ref ir_const_f(struct ir_graph *g, double v);
ir_ref ir_var(struct ir_graph *g, enum ir_var v);
ir_ref ir_score(struct ir_graph *g);
ir_ref ir_param(struct ir_graph *g, int param);
ir_ref ir_len(struct ir_graph *g, bool kv, ir_ref b);
/* n_index must be the tensor's rank; indices are ints. */
ir_ref ir_load(struct ir_graph *g, int tensor, int n_index,
               const ir_ref *index);

/* Sum of the products of two rows: loads of floats whose last index is the
 * constant 0 in dimensions of one fixed extent, at least 1. */
ir_ref ir_dot(struct ir_graph *g, ir_ref a, ir_ref b);
/* Elements of the rows, which DOT's operands are loads of. */
int64_t ir_dot_length(const struct ir_graph *g, ir_ref dot);

/* --- numbers -------------------------------------------------------- */
/* Any typed op with fixed arity, operands already of the right types; folds
 * constants and applies the op's exact identities. */
ir_ref ir_build(struct ir_graph *g, enum ir_op op, const ir_ref *x);
ir_ref ir_to_float(struct ir_graph *g, ir_ref r); /* int to float */
/* Mixed int/float arithmetic as Lua's operators define it. */
ir_ref ir_add(struct ir_graph *g, ir_ref a, ir_ref b);
ir_ref ir_sub(struct ir_graph *g, ir_ref a, ir_ref b);
ir_ref ir_mul(struct ir_graph *g, ir_ref a, ir_ref b);
ir_ref ir_div(struct ir_graph *g, ir_ref a, ir_ref b); /* always float */
ir_ref ir_floordiv(struct ir_graph *g, ir_ref a, ir_ref b);
ir_ref ir_floormod(struct ir_graph *g, ir_ref a, ir_ref b);
ir_ref ir_pow(struct ir_graph *g, ir_ref a, ir_ref b);
ir_ref ir_neg(struct ir_graph *g, ir_ref a);
ir_ref ir_abs(struct ir_graph *g, ir_ref a);
ir_ref ir_min(struct ir_graph *g, ir_ref a, ir_ref b);
ir_ref ir_max(struct ir_graph *g, ir_ref a, ir_ref b);

/* --- comparisons (int, float or mixed; int against a float constant is
 * exact) and logic --------------------------------------------------- */
ir_ref ir_lt(struct ir_graph *g, ir_ref a, ir_ref b);
ir_ref ir_le(struct ir_graph *g, ir_ref a, ir_ref b);
ir_ref ir_eq(struct ir_graph *g, ir_ref a, ir_ref b);
ir_ref ir_not(struct ir_graph *g, ir_ref a);
ir_ref ir_and(struct ir_graph *g, size_t n, const ir_ref *x);
ir_ref ir_or(struct ir_graph *g, size_t n, const ir_ref *x);
ir_ref ir_and2(struct ir_graph *g, ir_ref a, ir_ref b);
ir_ref ir_or2(struct ir_graph *g, ir_ref a, ir_ref b);
/* c ? t : f for bools (logic), ints, floats and int/float mixes. */
ir_ref ir_select(struct ir_graph *g, ir_ref c, ir_ref t, ir_ref f);

/* Node r again with operands x (as many, same types) in place of its own:
 * through the builders, so the result is canonical and may fold. */
ir_ref ir_rebuild(struct ir_graph *g, ir_ref r, const ir_ref *x);

/* --- linear forms: c + sum k[j] * term[j], terms sorted by hash ------ */
struct ir_linear {
    int64_t c;
    uint32_t n, cap;
    ir_ref *term; /* arena */
    int64_t *k;
};
void ir_linear_init(struct ir_linear *l, int64_t c);
/* l += k * r. False on overflow beyond i64 or memory (graph failed). */
bool ir_linear_axpy(struct ir_graph *g, struct ir_linear *l, ir_ref r,
                    int64_t k);
/* As init, with room for cap terms in scratch memory: for forms that die in
 * the function that makes them, between scratch_mark and scratch_release. */
bool ir_linear_scratch(struct ir_graph *g, struct ir_linear *l, int64_t c,
                       uint32_t cap);
/* [lo, hi] of a form, saturated; *wide when the true range leaves int64_t.
 * False: memory. */
bool ir_linear_range(struct ir_graph *g, const struct ir_linear *l, int64_t *lo,
                     int64_t *hi, bool *wide);
/* The form of an int node, a GE0 or an EQ0. */
bool ir_linear_of(struct ir_graph *g, ir_ref r, struct ir_linear *out);
ir_ref ir_linear_node(struct ir_graph *g, const struct ir_linear *l);
ir_ref ir_ge0(struct ir_graph *g, const struct ir_linear *l);
ir_ref ir_eq0(struct ir_graph *g, const struct ir_linear *l);

/* --- building blocks for the files of compiler/ir ------------------- */
/* The one place that adds nodes: shares equal ones, sets deps and range. */
ir_ref ir_intern(struct ir_graph *g, enum ir_op op, enum ir_type type,
                 uint32_t n, const ir_ref *args, const int64_t *coefs,
                 int64_t i, double f);

/* Make the graph fail: out of memory, integers beyond 64 bits (at g->line).
 * IR_NONE. */
ir_ref ir_fail_memory(struct ir_graph *g);
ir_ref ir_fail_range(struct ir_graph *g);

/* --- whole graphs ---------------------------------------------------- */
/* What a mod pair lowers to. score is the value for kept cells; cells where
 * keep is false are masked whatever score gives there. */
struct ir_roots {
    ir_ref score; /* float; the SCORE node itself when there is no mod */
    ir_ref keep;  /* bool; CONST_B true when there is no mask */
};
/* Nodes reachable from the roots, operands first, in the order of a walk
 * from the roots (so independent of creation order). *order in the arena. */
bool ir_walk(struct ir_graph *g, const struct ir_roots *roots, ir_ref **order,
             uint32_t *n);
/* Types, arity, order, canonical-form invariants. False: diag INTERNAL. */
bool ir_verify(struct ir_graph *g, const struct ir_roots *roots);
/* One line per node: "%3 = LIN %1 - %2 + 4 : int [0, 99] q kv". */
void ir_print(struct ir_graph *g, const struct ir_roots *roots,
              struct strbuf *out);

#endif

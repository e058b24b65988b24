/* Brute force beside the builders: random expression trees with a value of
 * their own at every small point, built through ir_* as well, and a plain
 * evaluator of the resulting nodes. Nothing here comes from ops.def. */
#ifndef FACC_TEST_IR_ORACLE_H
#define FACC_TEST_IR_ORACLE_H

#include <math.h>

#include "tests/unit/ir_fixture.h"

struct point {
    int64_t b, h, q, kv;
    double score;
};

static const int64_t oracle_int[T_EXTENT] = {0, 0, 1, 1, 2, 2, 2, 3};
static const int64_t oracle_other[T_EXTENT] = {0, 2, 4, 7, 1, -1, 5, 3};
static const bool oracle_bool[T_EXTENT] = {1, 0, 1, 1, 0, 0, 1, 0};
static const double oracle_float[T_EXTENT] = {0.5,  -1,  0, 2.25,
                                              -0.0, 3.5, 8, -7};
static const int64_t oracle_w = 3;
static const double oracle_c = 1.5;

static inline int64_t oracle_table(int64_t i, int64_t j)
{
    return (3 * i + 5 * j) % 7 - 2;
}
static inline int64_t oracle_div(int64_t a, int64_t b)
{
    int64_t d = a / b;
    return d * b > a ? d - 1 : d; /* b > 0 */
}

/* --- nodes ---------------------------------------------------------------- */

union value {
    int64_t i; /* bools too */
    double f;
};

static inline union value of_int(int64_t i)
{
    return (union value){.i = i};
}
static inline union value of_float(double f)
{
    return (union value){.f = f};
}

static inline int64_t oracle_linear(const struct ir_graph *g, ir_ref r,
                                    const union value *v)
{
    int64_t sum = ir_node(g, r)->i;
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++)
        sum += ir_coef(g, r, k) * v[ir_arg(g, r, k)].i;
    return sum;
}

static inline int64_t oracle_logic(const struct ir_graph *g, ir_ref r,
                                   const union value *v, bool all)
{
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++)
        if ((v[ir_arg(g, r, k)].i != 0) != all)
            return !all;
    return all;
}

static inline union value oracle_load(const struct ir_node *p, int64_t i,
                                      int64_t j)
{
    if (i < 0 || i >= T_EXTENT || j < 0 || j >= T_EXTENT)
        ck_abort_msg("a read outside a tensor");
    if (p->i == T_FLOAT)
        return of_float(oracle_float[i]);
    return of_int(p->i == T_INT     ? oracle_int[i]
                  : p->i == T_OTHER ? oracle_other[i]
                  : p->i == T_BOOL  ? oracle_bool[i]
                                    : oracle_table(i, j));
}

static inline int64_t oracle_var(const struct point *at, int64_t var)
{
    switch (var) {
    case IR_VAR_B:
        return at->b;
    case IR_VAR_H:
        return at->h;
    case IR_VAR_Q:
        return at->q;
    case IR_VAR_KV:
        return at->kv;
    default:
        ck_abort_msg("variable %d has no value in tests", (int)var);
    }
    return 0;
}

static inline union value oracle_node(const struct ir_graph *g, ir_ref r,
                                      const union value *v,
                                      const struct point *at)
{
    const struct ir_node *p = ir_node(g, r);
    union value x[3] = {{0}};
    for (uint32_t k = 0; k < p->n && k < 3; k++)
        x[k] = v[ir_arg(g, r, k)];
    switch ((int)p->op) {
    case IR_CONST_B:
    case IR_CONST_I:
        return of_int(p->i);
    case IR_CONST_F:
        return of_float(p->f);
    case IR_VAR_I:
        return of_int(oracle_var(at, p->i));
    case IR_SCORE:
        return of_float(at->score);
    case IR_PARAM_I:
        return of_int(oracle_w);
    case IR_PARAM_F:
        return of_float(oracle_c);
    case IR_LOAD_B:
    case IR_LOAD_I:
    case IR_LOAD_F:
        return oracle_load(p, x[0].i, x[1].i);
    case IR_LIN:
        return of_int(oracle_linear(g, r, v));
    case IR_GE0:
        return of_int(oracle_linear(g, r, v) >= 0);
    case IR_EQ0:
        return of_int(oracle_linear(g, r, v) == 0);
    case IR_IMUL:
        return of_int(x[0].i * x[1].i);
    case IR_IDIV:
        return of_int(oracle_div(x[0].i, x[1].i));
    case IR_IMOD:
        return of_int(x[0].i - x[1].i * oracle_div(x[0].i, x[1].i));
    case IR_IMIN:
        return of_int(x[0].i < x[1].i ? x[0].i : x[1].i);
    case IR_IMAX:
        return of_int(x[0].i > x[1].i ? x[0].i : x[1].i);
    case IR_IABS:
        return of_int(llabs(x[0].i));
    case IR_SEL_I:
    case IR_SEL_F:
        return x[0].i ? x[1] : x[2];
    case IR_NOT:
        return of_int(!x[0].i);
    case IR_AND:
        return of_int(oracle_logic(g, r, v, true));
    case IR_OR:
        return of_int(oracle_logic(g, r, v, false));
    case IR_FLT:
        return of_int(x[0].f < x[1].f);
    case IR_FLE:
        return of_int(x[0].f <= x[1].f);
    case IR_FEQ:
        return of_int(x[0].f == x[1].f);
    case IR_I2F:
        return of_float((double)x[0].i);
    case IR_FADD:
        return of_float(x[0].f + x[1].f);
    case IR_FSUB:
        return of_float(x[0].f - x[1].f);
    case IR_FMUL:
        return of_float(x[0].f * x[1].f);
    case IR_FDIV:
        return of_float(x[0].f / x[1].f);
    case IR_FNEG:
        return of_float(-x[0].f);
    default:
        ck_abort_msg("op %s has no value in tests", ir_op_info(p->op)->name);
    }
    return of_int(0);
}

/* Reachable nodes in order and room for their values. */
struct oracle {
    struct ir_graph *g;
    ir_ref *order;
    uint32_t n;
    union value *value; /* by node */
};

static inline struct oracle oracle_open(struct fixture *f, ir_ref score,
                                        ir_ref keep)
{
    struct oracle o = {.g = f->g};
    struct ir_roots roots = {score, keep};
    ck_assert(ir_walk(f->g, &roots, &o.order, &o.n));
    o.value = arena_alloc(f->arena, f->g->n_nodes * sizeof *o.value);
    ck_assert_ptr_nonnull(o.value);
    return o;
}

static inline void oracle_run(struct oracle *o, const struct point *at)
{
    for (uint32_t k = 0; k < o->n; k++) {
        ir_ref r = o->order[k];
        const struct ir_node *p = ir_node(o->g, r);
        o->value[r] = oracle_node(o->g, r, o->value, at);
        int64_t v = o->value[r].i;
        if (p->type == IR_INT && (v < p->lo || v > p->hi))
            ck_abort_msg("%s gives %lld outside its range",
                         ir_op_info(p->op)->name, (long long)v);
    }
}

/* --- random trees --------------------------------------------------------- */

enum tree_kind {
    TREE_VAR,
    TREE_CONST,
    TREE_PARAM,
    TREE_LOAD,
    TREE_TABLE,
    TREE_ADD,
    TREE_SUB,
    TREE_SCALE,
    TREE_DIV,
    TREE_MOD,
    TREE_MIN,
    TREE_MAX,
    TREE_ABS,
    TREE_SELECT,
    TREE_LT,
    TREE_LE,
    TREE_EQ,
    TREE_LT_CONST,
    TREE_EQ_CONST,
    TREE_CONST_LE,
    TREE_NOT,
    TREE_AND,
    TREE_OR,
    TREE_FLAG,
    TREE_SAME,
    TREE_TRUE,
    TREE_SCORE,
    TREE_FCONST,
    TREE_FLOAD,
    TREE_FADD,
    TREE_FSUB,
    TREE_FMUL,
    TREE_FLOAT,
    TREE_MINUS_INF,
    TREE_FLT,
    TREE_FEQ
};

enum { TREE_CAP = 600 };

struct tree {
    enum tree_kind kind;
    int x[4], n; /* operands */
    int64_t i;
    double f;
};

struct forest {
    struct tree t[TREE_CAP];
    int n;
    uint64_t state;
    bool floats;    /* float comparisons, float selects */
    bool minus_inf; /* -inf arms in sums and selects */
};

static inline uint32_t forest_rnd(struct forest *w, uint32_t n)
{
    w->state = w->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->state >> 33) % n;
}

static inline int tree_int(struct forest *w, int depth);
static inline int tree_bool(struct forest *w, int depth);
static inline int tree_float(struct forest *w, int depth);

static inline int tree_new(struct forest *w, enum tree_kind kind, int n)
{
    if (w->n == TREE_CAP) /* asserts that hold cost a write each */
        ck_abort_msg("a tree is too large");
    w->t[w->n] = (struct tree){.kind = kind, .n = n};
    return w->n++;
}

static inline int tree_int(struct forest *w, int depth)
{
    static const enum tree_kind ops[] = {
        TREE_ADD, TREE_SUB, TREE_SUB, TREE_SCALE,  TREE_DIV,  TREE_MOD,
        TREE_MIN, TREE_MAX, TREE_ABS, TREE_SELECT, TREE_LOAD, TREE_TABLE};
    uint32_t pick = forest_rnd(w, 10);
    int r;
    if (depth <= 0 || pick < 4) {
        static const enum tree_kind leaf[] = {TREE_VAR, TREE_VAR, TREE_VAR,
                                              TREE_CONST, TREE_PARAM};
        r = tree_new(w, leaf[forest_rnd(w, 5)], 0);
        static const int64_t vars[] = {IR_VAR_Q,  IR_VAR_KV, IR_VAR_Q,
                                       IR_VAR_KV, IR_VAR_B,  IR_VAR_H};
        w->t[r].i = w->t[r].kind == TREE_VAR ? vars[forest_rnd(w, 6)]
                                             : (int64_t)forest_rnd(w, 9) - 3;
        return r;
    }
    enum tree_kind kind = ops[forest_rnd(w, 12)];
    bool unary = kind == TREE_SCALE || kind == TREE_DIV || kind == TREE_MOD ||
                 kind == TREE_ABS || kind == TREE_LOAD;
    r = tree_new(w, kind, kind == TREE_SELECT ? 3 : unary ? 1 : 2);
    int64_t c = kind == TREE_SCALE ? (int64_t)forest_rnd(w, 7) - 3
                                   : 1 + (int64_t)forest_rnd(w, 4);
    if (kind == TREE_LOAD)
        c = forest_rnd(w, 2) ? T_INT : T_OTHER;
    w->t[r].i = c;
    for (int k = 0; k < w->t[r].n; k++) {
        int x = kind == TREE_SELECT && k == 0 ? tree_bool(w, depth - 1)
                                              : tree_int(w, depth - 1);
        w->t[r].x[k] = x;
    }
    return r;
}

static inline int tree_bool(struct forest *w, int depth)
{
    static const enum tree_kind ops[] = {
        TREE_LT, TREE_LE, TREE_EQ, TREE_LT, TREE_LE, TREE_EQ, TREE_LT_CONST,
        TREE_EQ_CONST, TREE_CONST_LE, TREE_FLAG, TREE_FLAG, TREE_TRUE, TREE_FLT,
        TREE_FEQ,
        /* only above leaves */
        TREE_NOT, TREE_AND, TREE_AND, TREE_OR, TREE_OR, TREE_SELECT, TREE_SAME,
        TREE_AND, TREE_OR};
    uint32_t leaves = w->floats ? 14 : 12;
    enum tree_kind kind = depth <= 0 || forest_rnd(w, 5) == 0
                              ? ops[forest_rnd(w, leaves)]
                              : ops[14 + forest_rnd(w, 9)];
    int n = kind == TREE_TRUE ? 0
            : kind == TREE_NOT || kind == TREE_LT_CONST ||
                    kind == TREE_EQ_CONST || kind == TREE_CONST_LE ||
                    kind == TREE_FLAG
                ? 1
            : kind == TREE_SELECT                 ? 3
            : kind == TREE_AND || kind == TREE_OR ? 2 + (int)forest_rnd(w, 3)
                                                  : 2;
    int r = tree_new(w, kind, n);
    static const double halves[] = {2.5, -0.5, 1, 3, INFINITY, NAN, 0.25};
    w->t[r].f = halves[forest_rnd(w, 7)];
    w->t[r].i = forest_rnd(w, 2);
    for (int k = 0; k < n; k++) {
        bool logic = kind == TREE_NOT || kind == TREE_AND || kind == TREE_OR ||
                     kind == TREE_SELECT || kind == TREE_SAME;
        int x = logic ? tree_bool(w, depth - 1)
                : kind == TREE_FLT || kind == TREE_FEQ
                    ? tree_float(w, 1)
                    : tree_int(w, (int)forest_rnd(w, 3) - 1);
        w->t[r].x[k] = x;
    }
    return r;
}

static inline int tree_float(struct forest *w, int depth)
{
    if (depth <= 0 || forest_rnd(w, 5) == 0) {
        static const enum tree_kind leaf[] = {
            TREE_SCORE, TREE_SCORE, TREE_FCONST, TREE_FLOAD, TREE_FLOAT};
        if (w->minus_inf && forest_rnd(w, 4) == 0)
            return tree_new(w, TREE_MINUS_INF, 0);
        enum tree_kind kind = leaf[forest_rnd(w, 5)];
        bool inner = kind == TREE_FLOAD || kind == TREE_FLOAT;
        int r = tree_new(w, kind, inner);
        static const double some[] = {0, 1, 2, -1, 0.5, -0.0};
        w->t[r].f = some[forest_rnd(w, 6)];
        if (inner) {
            int x = tree_int(w, 1);
            w->t[r].x[0] = x;
        }
        return r;
    }
    static const enum tree_kind ops[] = {TREE_FADD, TREE_FADD,   TREE_FSUB,
                                         TREE_FMUL, TREE_SELECT, TREE_SELECT};
    enum tree_kind kind = ops[forest_rnd(w, 6)];
    int r = tree_new(w, kind, kind == TREE_SELECT ? 3 : 2);
    bool arms = w->minus_inf;
    w->t[r].i = 2; /* a select of floats */
    for (int k = 0; k < w->t[r].n; k++) {
        int x;
        if (kind == TREE_SELECT && k == 0) {
            x = tree_bool(w, 1);
        } else { /* infinities stay where they cannot make NaN */
            w->minus_inf =
                arms && kind != TREE_FMUL && !(kind == TREE_FSUB && k == 1);
            x = tree_float(w, depth - 1);
            w->minus_inf = arms;
        }
        w->t[r].x[k] = x;
    }
    return r;
}

/* Index into a tensor: any int, wrapped. */
static inline int64_t wrap(int64_t i)
{
    return i - T_EXTENT * oracle_div(i, T_EXTENT);
}

static inline bool same_double(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* The kinds whose value is a float, but for selects. */
static inline union value tree_value_float(const struct tree *t,
                                           const union value *x,
                                           const struct point *at)
{
    switch ((int)t->kind) {
    case TREE_SCORE:
        return of_float(at->score);
    case TREE_FCONST:
        return of_float(t->f);
    case TREE_FLOAD:
        return of_float(oracle_float[wrap(x[0].i)]);
    case TREE_FADD:
        return of_float(x[0].f + x[1].f);
    case TREE_FSUB:
        return of_float(x[0].f - x[1].f);
    case TREE_FMUL:
        return of_float(x[0].f * x[1].f);
    case TREE_FLOAT:
        return of_float((double)x[0].i);
    case TREE_MINUS_INF:
        return of_float(-INFINITY);
    default:
        ck_abort_msg("a tree of kind %d has no value", (int)t->kind);
    }
    return of_float(0);
}

static inline union value tree_value(const struct forest *w, int r,
                                     const struct point *at)
{
    const struct tree *t = &w->t[r];
    union value x[4] = {{0}};
    bool all = true, any = false;
    for (int k = 0; k < t->n; k++) {
        x[k] = tree_value(w, t->x[k], at);
        all &= x[k].i != 0;
        any |= x[k].i != 0;
    }
    int64_t a = x[0].i, b = x[1].i;
    switch ((int)t->kind) {
    case TREE_VAR:
        return of_int(oracle_var(at, t->i));
    case TREE_CONST:
    case TREE_TRUE:
        return of_int(t->i);
    case TREE_PARAM:
        return of_int(oracle_w);
    case TREE_LOAD:
        return of_int(t->i == T_INT ? oracle_int[wrap(a)]
                                    : oracle_other[wrap(a)]);
    case TREE_TABLE:
        return of_int(oracle_table(wrap(a), wrap(b)));
    case TREE_ADD:
        return of_int(a + b);
    case TREE_SUB:
        return of_int(a - b);
    case TREE_SCALE:
        return of_int(a * t->i);
    case TREE_DIV:
        return of_int((int64_t)floor((double)a / (double)t->i));
    case TREE_MOD:
        return of_int(a - t->i * (int64_t)floor((double)a / (double)t->i));
    case TREE_MIN:
        return of_int(a < b ? a : b);
    case TREE_MAX:
        return of_int(a < b ? b : a);
    case TREE_ABS:
        return of_int(a < 0 ? -a : a);
    case TREE_SELECT:
        return a ? x[1] : x[2];
    case TREE_LT:
        return of_int(a < b);
    case TREE_LE:
        return of_int(a <= b);
    case TREE_EQ:
    case TREE_SAME:
        return of_int(a == b);
    case TREE_LT_CONST:
        return of_int((double)a < t->f);
    case TREE_EQ_CONST:
        return of_int((double)a == t->f);
    case TREE_CONST_LE:
        return of_int(t->f <= (double)a);
    case TREE_NOT:
        return of_int(!a);
    case TREE_AND:
        return of_int(all);
    case TREE_OR:
        return of_int(any);
    case TREE_FLAG:
        return of_int(oracle_bool[wrap(a)]);
    case TREE_FLT:
        return of_int(x[0].f < x[1].f);
    case TREE_FEQ:
        return of_int(x[0].f == x[1].f);
    default:
        return tree_value_float(t, x, at);
    }
}

static inline ir_ref wrapped(struct fixture *f, ir_ref i)
{
    return ir_floormod(f->g, i, num(f, T_EXTENT));
}

static inline ir_ref tree_build(struct fixture *f, const struct forest *w,
                                int r)
{
    const struct tree *t = &w->t[r];
    struct ir_graph *g = f->g;
    ir_ref x[4] = {IR_NONE};
    for (int k = 0; k < t->n; k++)
        x[k] = tree_build(f, w, t->x[k]);
    switch (t->kind) {
    case TREE_VAR:
        return ir_var(g, (enum ir_var)t->i);
    case TREE_CONST:
        return num(f, t->i);
    case TREE_TRUE:
        return ir_const_b(g, t->i != 0);
    case TREE_PARAM:
        return ir_param(g, P_INT);
    case TREE_LOAD:
        return load1(f, (int)t->i, wrapped(f, x[0]));
    case TREE_TABLE:
        return ir_load(g, T_TABLE, 2,
                       (ir_ref[2]){wrapped(f, x[0]), wrapped(f, x[1])});
    case TREE_ADD:
    case TREE_FADD:
        return ir_add(g, x[0], x[1]);
    case TREE_SUB:
    case TREE_FSUB:
        return ir_sub(g, x[0], x[1]);
    case TREE_SCALE:
        return ir_mul(g, x[0], num(f, t->i));
    case TREE_DIV:
        return ir_floordiv(g, x[0], num(f, t->i));
    case TREE_MOD:
        return ir_floormod(g, x[0], num(f, t->i));
    case TREE_MIN:
        return ir_min(g, x[0], x[1]);
    case TREE_MAX:
        return ir_max(g, x[0], x[1]);
    case TREE_ABS:
        return ir_abs(g, x[0]);
    case TREE_SELECT:
        return ir_select(g, x[0], x[1], x[2]);
    case TREE_LT:
    case TREE_FLT:
        return ir_lt(g, x[0], x[1]);
    case TREE_LE:
        return ir_le(g, x[0], x[1]);
    case TREE_EQ:
    case TREE_FEQ:
    case TREE_SAME:
        return ir_eq(g, x[0], x[1]);
    case TREE_LT_CONST:
        return ir_lt(g, x[0], flt(f, t->f));
    case TREE_EQ_CONST:
        return ir_eq(g, x[0], flt(f, t->f));
    case TREE_CONST_LE:
        return ir_le(g, flt(f, t->f), x[0]);
    case TREE_NOT:
        return ir_not(g, x[0]);
    case TREE_AND:
        return ir_and(g, (size_t)t->n, x);
    case TREE_OR:
        return ir_or(g, (size_t)t->n, x);
    case TREE_FLAG:
        return load1(f, T_BOOL, wrapped(f, x[0]));
    case TREE_SCORE:
        return f->s;
    case TREE_FCONST:
        return flt(f, t->f);
    case TREE_FLOAD:
        return load1(f, T_FLOAT, wrapped(f, x[0]));
    case TREE_FMUL:
        return ir_mul(g, x[0], x[1]);
    case TREE_FLOAT:
        return ir_to_float(g, x[0]);
    case TREE_MINUS_INF:
        return flt(f, -INFINITY);
    }
    return IR_NONE;
}

/* All small points, 5 x 5 cells of 2 x 2 tiles. */
enum { N_POINTS = 100 };
static inline struct point point_at(int k)
{
    static const double scores[] = {0, 1.5, -2, 0.25, 1e30, -0.125, 3};
    return (struct point){k % 2, k / 2 % 2, k / 4 % 5, k / 20, scores[k % 7]};
}

#endif

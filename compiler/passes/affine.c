/* In: a score, or an int. Out: score = alpha * SCORE + beta with alpha of
 * tile scope, which the kernel folds into the exponent's FMA; an outer
 * factor of tile scope, which folds into the softmax's scale; and the
 * factors of q and kv in an int; and of a score the captured tensor that lies
 * along kv in memory. Called by the emitter, bounds.c and compile.c. */
#include "compiler/passes/passes.h"

static bool has_score(const struct ir_graph *g, ir_ref r)
{
    return ir_node(g, r)->deps & IR_DEP_SCORE;
}

static bool is_tile(const struct ir_graph *g, ir_ref r)
{
    return !(ir_node(g, r)->deps & (IR_DEP_Q | IR_DEP_KV | IR_DEP_SCORE));
}

static ir_ref build2(struct ir_graph *g, enum ir_op op, ir_ref a, ir_ref b)
{
    ir_ref x[2] = {a, b};
    return ir_build(g, op, x);
}

/* The value so far, alpha * SCORE + beta; an absent alpha is 1, an absent
 * beta 0. */
struct form {
    ir_ref alpha, beta;
};

static ir_ref times(struct ir_graph *g, enum ir_op op, ir_ref a, ir_ref k)
{
    if (a)
        return build2(g, op, a, k);
    return op == IR_FMUL ? k : build2(g, op, ir_const_f(g, 1), k);
}

static void negate(struct ir_graph *g, struct form *f)
{
    f->alpha = f->alpha ? ir_neg(g, f->alpha) : ir_const_f(g, -1);
    f->beta = f->beta ? ir_neg(g, f->beta) : IR_NONE;
}

/* The form of the op's value from that of its operand `side`, where the
 * other operand is free of the score. False: not affine. */
static bool step(struct ir_graph *g, ir_ref r, uint32_t side, struct form *f)
{
    enum ir_op op = ir_node(g, r)->op;
    ir_ref other = ir_node(g, r)->n == 2 ? ir_arg(g, r, 1 - side) : IR_NONE;
    if (op == IR_FNEG) {
        negate(g, f);
    } else if (op == IR_FADD) {
        f->beta = f->beta ? build2(g, IR_FADD, f->beta, other) : other;
    } else if (op == IR_FSUB && side == 0) {
        f->beta =
            f->beta ? build2(g, IR_FSUB, f->beta, other) : ir_neg(g, other);
    } else if (op == IR_FSUB) {
        negate(g, f);
        f->beta = f->beta ? build2(g, IR_FADD, other, f->beta) : other;
    } else if ((op == IR_FMUL || (op == IR_FDIV && side == 0)) &&
               is_tile(g, other)) {
        f->alpha = times(g, op, f->alpha, other);
        f->beta = f->beta ? times(g, op, f->beta, other) : IR_NONE;
    } else {
        return false;
    }
    return !g->failed;
}

/* Which operand depends on the score; false when not exactly one does. */
static bool score_side(const struct ir_graph *g, ir_ref r, uint32_t *side)
{
    uint32_t found = 0;
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++)
        if (has_score(g, ir_arg(g, r, k))) {
            *side = k;
            found++;
        }
    return found == 1;
}

/* The nodes from r down to the SCORE, when it is used once and all are of a
 * kind that `step` knows. n 0: not so. */
static bool path_to_score(struct ir_graph *g, ir_ref r, ir_ref **path,
                          uint32_t *n)
{
    uint32_t depth = 0, side = 0;
    *n = 0;
    for (ir_ref p = r; !ir_is(g, p, IR_SCORE); p = ir_arg(g, p, side)) {
        enum ir_op op = ir_node(g, p)->op;
        if (op != IR_FADD && op != IR_FSUB && op != IR_FMUL && op != IR_FDIV &&
            op != IR_FNEG)
            return true;
        if (!score_side(g, p, &side))
            return true;
        depth++;
    }
    *path = arena_alloc(g->arena, (depth + 1) * sizeof **path);
    if (!*path) {
        ir_fail_memory(g);
        return false;
    }
    (*path)[(*n)++] = r;
    for (ir_ref p = r; !ir_is(g, p, IR_SCORE); (*path)[(*n)++] = p) {
        score_side(g, p, &side);
        p = ir_arg(g, p, side);
    }
    return true;
}

/* Free of kv: a factor that Base may hold. */
static bool is_row(const struct ir_graph *g, ir_ref r)
{
    return !(ir_node(g, r)->deps & (IR_DEP_KV | IR_DEP_SCORE));
}

/* r = f * v with f free of kv and v not. */
static bool split_factor(const struct ir_graph *g, ir_ref r, ir_ref *f,
                         ir_ref *v)
{
    if (!ir_is(g, r, IR_FMUL))
        return false;
    const uint32_t k = is_row(g, ir_arg(g, r, 0)) ? 0 : 1;
    *f = ir_arg(g, r, k);
    *v = ir_arg(g, r, 1 - k);
    return is_row(g, *f) && !is_row(g, *v);
}

/* Operations from the bias to its products; each may double the visits. */
enum { GATHER_DEPTH = 8 };

/* A bias with the factors of its products together, so that slope * (kv - q) *
 * c is one slope: a product's factors in another order, nothing distributed. */
static ir_ref gather_factors(struct ir_graph *g, ir_ref r, int depth)
{
    const struct ir_node *n = ir_node(g, r);
    const enum ir_op op = (enum ir_op)n->op;
    if (g->failed || depth == 0 || is_row(g, r) ||
        !(op == IR_FADD || op == IR_FSUB || op == IR_FMUL || op == IR_FDIV ||
          op == IR_FNEG))
        return r;
    ir_ref x[2] = {ir_arg(g, r, 0), n->n == 2 ? ir_arg(g, r, 1) : IR_NONE};
    const ir_ref old[2] = {x[0], x[1]};
    for (uint32_t k = 0; k < 2 && x[k] != IR_NONE; k++)
        x[k] = gather_factors(g, x[k], depth - 1);
    for (uint32_t k = 0; k < 2 && (op == IR_FMUL || op == IR_FDIV); k++) {
        ir_ref f, v;
        if (split_factor(g, x[k], &f, &v) && is_row(g, x[1 - k]) &&
            (op == IR_FMUL || k == 0))
            return ir_mul(g, build2(g, op, f, x[1 - k]), v);
    }
    return x[0] == old[0] && x[1] == old[1] ? r : ir_build(g, op, x);
}

static bool find_affine(struct ir_graph *g, ir_ref score,
                        struct affine_score *out)
{
    struct form f = {IR_NONE, IR_NONE};
    ir_ref *path;
    uint32_t n, side = 0;
    if (!path_to_score(g, score, &path, &n))
        return false;
    if (n == 0)
        return true;
    for (uint32_t k = n - 1; k-- > 0;) {
        score_side(g, path[k], &side);
        if (!step(g, path[k], side, &f))
            return !g->failed;
    }
    out->alpha = f.alpha ? f.alpha : ir_const_f(g, 1);
    out->beta =
        f.beta ? gather_factors(g, f.beta, GATHER_DEPTH) : ir_const_f(g, 0);
    out->affine = !g->failed;
    return !g->failed;
}

/* score = outer * inner, as the multiplication at its root says. */
static void find_outer(struct ir_graph *g, ir_ref score,
                       struct affine_score *out)
{
    ir_ref outer = IR_NONE, inner = score;
    uint32_t side = 0;
    while (ir_is(g, inner, IR_FMUL) && score_side(g, inner, &side) &&
           is_tile(g, ir_arg(g, inner, 1 - side))) {
        outer = times(g, IR_FMUL, outer, ir_arg(g, inner, 1 - side));
        inner = ir_arg(g, inner, side);
    }
    if (outer && !(ir_is(g, outer, IR_CONST_F) && ir_node(g, outer)->f == 1)) {
        out->outer = outer;
        out->inner = inner;
    }
}

bool pass_affine_score(struct ir_graph *g, ir_ref score,
                       struct affine_score *out)
{
    *out = (struct affine_score){.affine = false};
    if (g->failed)
        return false;
    if (!has_score(g, score))
        return true;
    if (!find_affine(g, score, out))
        return false;
    find_outer(g, score, out);
    return !g->failed;
}

bool pass_affine_index(struct ir_graph *g, ir_ref r, struct affine_index *out)
{
    struct ir_linear l, rest;
    *out = (struct affine_index){.affine = false};
    if (!ir_linear_of(g, r, &l))
        return false;
    ir_linear_init(&rest, l.c);
    for (uint32_t k = 0; k < l.n; k++) {
        const struct ir_node *p = ir_node(g, l.term[k]);
        if (p->op == IR_VAR_I && p->i == IR_VAR_Q)
            out->kq = l.k[k];
        else if (p->op == IR_VAR_I && p->i == IR_VAR_KV)
            out->kkv = l.k[k];
        else if (p->deps & (IR_DEP_Q | IR_DEP_KV | IR_DEP_SCORE))
            return true;
        else if (!ir_linear_axpy(g, &rest, l.term[k], l.k[k]))
            return false;
    }
    out->rest = ir_linear_node(g, &rest);
    out->affine = out->rest != IR_NONE;
    return out->affine;
}

void pass_rows_lie(const struct ir_graph *g, struct tensor_rows *r, int dim,
                   ir_ref first)
{
    r->dim = dim;
    r->first = first;
    r->shifted = !ir_is(g, first, IR_CONST_I) || ir_node(g, first)->i != 0;
}

/* Copied to shared memory as they are, 2 or 4 bytes each. */
static bool is_plane_dtype(enum dtype t)
{
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

/* Fills *out where the load is one. */
static bool find_plane(struct ir_graph *g, ir_ref load, struct plane *out)
{
    const int last = (int)ir_node(g, load)->n - 1;
    const int tensor = (int)ir_node(g, load)->i;
    const enum dtype dtype = g->tensors[tensor].dtype;
    struct plane x = {.rows = {.load = load, .tensor = tensor, .dim = -1},
                      .first = IR_NONE,
                      .bytes = (int)dtype_size(dtype)};
    if (!is_plane_dtype(dtype))
        return true;
    for (int d = 0; d <= last; d++) {
        struct affine_index a;
        if (is_tile(g, ir_arg(g, load, (uint32_t)d)))
            continue;
        if (!pass_affine_index(g, ir_arg(g, load, (uint32_t)d), &a))
            return !g->failed;
        if (!a.affine)
            return true;
        if (d < last && a.kq == 1 && a.kkv == 0 && x.rows.dim < 0) {
            pass_rows_lie(g, &x.rows, d, a.rest);
        } else if (d == last && a.kq == 0 && a.kkv == 1) {
            x.first = a.rest;
        } else {
            return true;
        }
    }
    if (x.rows.dim >= 0 && x.first != IR_NONE)
        *out = x;
    return true;
}

bool pass_plane(struct ir_graph *g, ir_ref score, struct plane *out)
{
    const struct ir_roots roots = {score, IR_NONE};
    ir_ref *order;
    uint32_t n;
    *out = (struct plane){.rows = {.load = IR_NONE}};
    if (!ir_walk(g, &roots, &order, &n))
        return false;
    for (uint32_t k = 0; k < n && out->rows.load == IR_NONE; k++)
        if (ir_is(g, order[k], IR_LOAD_F) && !find_plane(g, order[k], out))
            return false;
    return true;
}

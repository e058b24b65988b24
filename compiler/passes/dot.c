/* In: roots. Out: the product of a row's and a column's vector that a kernel
 * can make by matrix instructions beside Q K^T: the score is F(SCORE + factor *
 * DOT), F anything. The sum that holds both is written anew without the DOT;
 * there SCORE stands for SCORE + factor * DOT. Sums are put in another order,
 * as a product of matrices does. Called by compile.c, last of the passes; the
 * program's own roots stay: CPU and checked builds evaluate these. */
#include "compiler/passes/passes.h"

#include "compiler/ir/scratch.h"

/* Columns are whole steps of the matrix instructions; more than the second do
 * not fit beside Q and K. */
enum { STEP = 16, MAX_COLUMNS = 128 };
enum { MAX_ADDENDS = 10000 }; /* looked at, of one DOT */

static bool is_tile(const struct ir_graph *g, ir_ref r)
{
    return !(ir_node(g, r)->deps & (IR_DEP_Q | IR_DEP_KV | IR_DEP_SCORE));
}

static bool reads_score(const struct ir_graph *g, ir_ref r)
{
    return ir_node(g, r)->deps & IR_DEP_SCORE;
}

/* --- the two tensors ------------------------------------------------------ */

/* Rows lie at position q (or kv) + first of one dimension, at indices of tile
 * scope in the others. False: *why, unless the graph failed. */
static bool find_rows(struct ir_graph *g, ir_ref load, unsigned dep,
                      struct tensor_rows *out, const char **why)
{
    const uint32_t n = ir_node(g, load)->n;
    const int64_t tensor = ir_node(g, load)->i;
    *out = (struct tensor_rows){.load = load, .tensor = (int)tensor, .dim = -1};
    for (uint32_t d = 0; d + 1 < n; d++) {
        const ir_ref x = ir_arg(g, load, d);
        struct affine_index a;
        if (is_tile(g, x))
            continue;
        if (!pass_affine_index(g, x, &a) && g->failed)
            return false;
        const int64_t k = dep == IR_DEP_Q ? a.kq : a.kkv;
        if (out->dim >= 0 || !a.affine || k != 1 || !is_tile(g, a.rest)) {
            *why = "an index is not q or kv plus a value of (b, h)";
            return false;
        }
        pass_rows_lie(g, out, (int)d, a.rest);
    }
    return out->dim >= 0;
}

static bool find_tensors(struct ir_graph *g, ir_ref dot, struct dot_term *out,
                         const char **why)
{
    const unsigned both = IR_DEP_Q | IR_DEP_KV;
    ir_ref a = ir_arg(g, dot, 0), b = ir_arg(g, dot, 1);
    if (ir_node(g, a)->deps & IR_DEP_KV) {
        const ir_ref first = a;
        a = b;
        b = first;
    }
    const struct ir_tensor *t = g->tensors;
    const enum dtype type = t[ir_node(g, a)->i].dtype;
    const int64_t n = ir_dot_length(g, dot);
    *why = "";
    if ((ir_node(g, a)->deps & both) != IR_DEP_Q ||
        (ir_node(g, b)->deps & both) != IR_DEP_KV)
        *why = "not of one row's and one column's vector";
    else if ((type != DTYPE_F16 && type != DTYPE_BF16) ||
             t[ir_node(g, b)->i].dtype != type)
        *why = "the tensors are not both f16 or both bf16";
    else if (n % STEP != 0 || n > MAX_COLUMNS)
        *why = "the vectors' length is no multiple of 16 up to 128";
    if (**why)
        return false;
    out->n = (int)n;
    out->dtype = type;
    return find_rows(g, a, IR_DEP_Q, &out->row, why) &&
           find_rows(g, b, IR_DEP_KV, &out->col, why);
}

/* --- the sum -------------------------------------------------------------- */

/* r = factor * dot, the factor of tile scope. */
static bool factor_of(struct ir_graph *g, ir_ref r, ir_ref dot, ir_ref *factor)
{
    const enum ir_op op = (enum ir_op)ir_node(g, r)->op;
    if (r == dot) {
        *factor = ir_const_f(g, 1);
        return !g->failed;
    }
    if (op == IR_FNEG && factor_of(g, ir_arg(g, r, 0), dot, factor)) {
        *factor = ir_neg(g, *factor);
        return !g->failed;
    }
    if (op != IR_FMUL && op != IR_FDIV)
        return false;
    for (uint32_t k = 0; k < (op == IR_FMUL ? 2 : 1); k++) {
        const ir_ref other = ir_arg(g, r, 1 - k);
        if (is_tile(g, other) && factor_of(g, ir_arg(g, r, k), dot, factor)) {
            ir_ref x[2] = {*factor, other};
            *factor = ir_build(g, op, x);
            return !g->failed;
        }
    }
    return false;
}

/* A sum's addends, looked at one by one. */
struct sum {
    ir_ref dot;
    ir_ref factor;    /* of all of its multiples, IR_NONE: none yet */
    int scores, sign; /* SCOREs among the addends, the last one's sign */
    int *left;        /* addends that may still be looked at */
    bool other;       /* one reads the score in another way */
};

/* What is left of r without the DOT's multiples; IR_NONE: nothing. */
static ir_ref without(struct ir_graph *g, struct sum *s, ir_ref r, int sign)
{
    const enum ir_op op = (enum ir_op)ir_node(g, r)->op;
    ir_ref factor;
    if (g->failed || (*s->left)-- <= 0) {
        s->other = true;
        return r;
    }
    if (op == IR_SCORE) {
        s->scores++;
        s->sign = sign;
        return r;
    }
    if (factor_of(g, r, s->dot, &factor)) {
        if (sign < 0)
            factor = ir_neg(g, factor);
        s->factor = s->factor ? ir_add(g, s->factor, factor) : factor;
        return IR_NONE;
    }
    if (op != IR_FADD && op != IR_FSUB && op != IR_FNEG) {
        s->other |= reads_score(g, r);
        return r;
    }
    const bool minus = op == IR_FSUB;
    const ir_ref old[2] = {ir_arg(g, r, 0),
                           op == IR_FNEG ? IR_NONE : ir_arg(g, r, 1)};
    if (op == IR_FNEG) {
        const ir_ref x = without(g, s, old[0], -sign);
        return x == old[0] ? r : x ? ir_neg(g, x) : IR_NONE;
    }
    ir_ref x[2];
    x[0] = without(g, s, old[0], sign);
    x[1] = without(g, s, old[1], minus ? -sign : sign);
    if (!x[0])
        return x[1] && minus ? ir_neg(g, x[1]) : x[1];
    if (!x[1])
        return x[0];
    return x[0] == old[0] && x[1] == old[1] ? r : ir_build(g, op, x);
}

/* --- the whole score ------------------------------------------------------ */

struct score_walk {
    ir_ref *order;
    uint32_t n;
};

/* The score with `sum` replaced; IR_NONE: it reads SCORE elsewhere, too, or the
 * graph failed. */
static ir_ref replace(struct ir_graph *g, const struct score_walk *w,
                      ir_ref sum, ir_ref by)
{
    ir_ref out = IR_NONE, x[3] = {IR_NONE};
    struct scratch_mark mark = scratch_mark(g);
    const uint32_t n_nodes = g->n_nodes;
    ir_ref *now = scratch_alloc(g, n_nodes * sizeof *now);
    for (uint32_t k = 0; now && k < w->n && !g->failed; k++) {
        const ir_ref r = w->order[k];
        const uint32_t n = ir_node(g, r)->n;
        /* IR_NONE: what cannot stay as it is */
        now[r] = r == sum ? by : ir_is(g, r, IR_SCORE) ? IR_NONE : r;
        bool changed = false, lost = false;
        for (uint32_t j = 0; j < n && r != sum; j++) {
            const ir_ref y = now[ir_arg(g, r, j)];
            lost |= y == IR_NONE;
            changed |= y != ir_arg(g, r, j);
        }
        if (r == sum || !changed)
            continue;
        ir_ref *y = n <= 3 ? x : scratch_alloc(g, n * sizeof *y);
        for (uint32_t j = 0; y && j < n; j++)
            y[j] = now[ir_arg(g, r, j)];
        now[r] = lost || !y ? IR_NONE : ir_rebuild(g, r, y);
    }
    if (now && !g->failed)
        out = now[w->order[w->n - 1]];
    scratch_release(g, mark);
    return out;
}

/* The largest sum of SCORE and the DOT that holds all uses of the score. */
static bool find_sum(struct ir_graph *g, const struct score_walk *w, ir_ref dot,
                     struct dot_term *out, const char **why)
{
    int left = MAX_ADDENDS;
    *why = "not added to the score itself";
    for (uint32_t k = w->n; k-- > 0 && !g->failed;) {
        const ir_ref r = w->order[k];
        const enum ir_op op = (enum ir_op)ir_node(g, r)->op;
        struct sum s = {.dot = dot, .left = &left};
        if ((op != IR_FADD && op != IR_FSUB) || !reads_score(g, r))
            continue;
        const ir_ref rest = without(g, &s, r, 1);
        if (!s.factor || s.scores != 1 || s.other)
            continue;
        out->roots.score = replace(g, w, r, rest);
        *why = "the score is used without it, too";
        if (!out->roots.score)
            continue;
        out->dot = dot;
        out->factor = s.sign < 0 ? ir_neg(g, s.factor) : s.factor;
        return !g->failed;
    }
    return false;
}

bool pass_dot(struct ir_graph *g, const struct ir_roots *roots,
              struct dot_term *out)
{
    const struct ir_roots score = {roots->score, IR_NONE};
    struct score_walk w;
    *out = (struct dot_term){.roots = *roots, .why = ""};
    if (g->failed || !ir_walk(g, &score, &w.order, &w.n))
        return false;
    for (uint32_t k = 0; k < w.n && !out->dot; k++) {
        const ir_ref r = w.order[k];
        const unsigned both = IR_DEP_Q | IR_DEP_KV;
        const char *why = "";
        struct dot_term t = *out;
        if (!ir_is(g, r, IR_DOT) || (ir_node(g, r)->deps & both) != both)
            continue;
        if (reads_score(g, roots->keep))
            why = "the mask reads the score";
        else if (find_tensors(g, r, &t, &why) && find_sum(g, &w, r, &t, &why))
            *out = t;
        if (!out->dot && !out->cell) {
            out->cell = r;
            out->why = why;
        }
    }
    return !g->failed;
}

/* The error analysis of analysis.h: each node in f64 beside a bound of what
 * f32 makes of it, to first order. */
#include "tests/fuzz/analysis.h"

#include <math.h>
#include <stdlib.h>

#include "compiler/compile.h"

struct number { /* of a node, computed in f64 */
    int64_t i;
    double f;
    double e; /* |f32 result - f| at most, to first order */
};

static const double unit = ANALYSIS_UNIT;

static int64_t variable(const struct analysis *a, int64_t which)
{
    const struct eval_env *e = a->env;
    const int64_t size[] = {e->B, e->H, e->Hkv, e->Sq, e->Skv, e->D, e->Dv};
    return which < 4 ? a->at[which] : size[which - IR_VAR_SIZE_B];
}

/* Outside of [0, B): its value does not matter. */
static int64_t length(const struct analysis *a, bool kv, int64_t b)
{
    return eval_env_len(a->env, kv, b < 0 || b >= a->env->B ? 0 : b);
}

static const char *element(const struct analysis *a, const struct ir_node *n)
{
    const struct eval_tensor *t = &a->env->tensors[n->i];
    int64_t at = 0;
    for (uint32_t k = 0; k < n->n; k++) {
        int64_t x = a->v[a->g->args[n->first + k]].i;
        if (x < 0 || x >= t->shape[k])
            x = 0; /* its value does not matter, or eval_row reports it */
        at += x * t->stride[k];
    }
    return (const char *)t->data +
           at * (int64_t)dtype_size(a->g->tensors[n->i].dtype);
}

static int64_t linear(const struct analysis *a, const struct ir_node *n)
{
    uint64_t sum = (uint64_t)n->i;
    for (uint32_t k = 0; k < n->n; k++)
        sum += (uint64_t)a->g->coefs[n->first + k] *
               (uint64_t)a->v[a->g->args[n->first + k]].i;
    return (int64_t)sum;
}

/* The op at the ends of its operands' error ranges. Where one lies outside of
 * the op's domain, rounding decides between a number and NaN. */
static void spread(struct analysis *a, enum ir_op op, const struct number *x,
                   uint32_t n, struct number *out)
{
    double most = 0;
    for (unsigned corner = 0; corner < 1u << n; corner++) {
        union eval_value in[3] = {{0}, {0}, {0}};
        for (uint32_t k = 0; k < n; k++)
            in[k].f = x[k].f + (corner >> k & 1 ? x[k].e : -x[k].e);
        double y = eval_op_f64(op, in).f;
        bool same = y == out->f || (isnan(y) && isnan(out->f));
        double d = same ? 0 : fabs(y - out->f);
        most = d > most ? d : most;
        a->near_threshold |= !isfinite(d);
    }
    /* f32 has nothing between 0 and 2^-149, and little below 2^-126 */
    out->e = most + (a->gpu ? 16 : 8) * unit * fabs(out->f) + 0x1p-125;
    if (a->gpu && op == IR_FTANH_FAST)
        out->e += 6e-4;
}

static bool same_floor(double x, double e)
{
    return floor(x - e) == floor(x + e) && ceil(x - e) == ceil(x + e);
}

static void float_op(struct analysis *a, enum ir_op op, const struct number *x,
                     uint32_t n, struct number *out)
{
    double q;
    union eval_value in[3] = {{0}, {0}, {0}};
    for (uint32_t k = 0; k < n; k++)
        in[k].f = x[k].f;
    if (op == IR_FLOOR || op == IR_CEIL || op == IR_ROUND) {
        out->i = eval_op_f64(op, in).i;
        double shift = op == IR_ROUND ? 0.5 : 0;
        a->near_threshold |= x[0].e > 0 && !same_floor(x[0].f + shift, x[0].e);
        return;
    }
    out->f = eval_op_f64(op, in).f;
    q = n == 2 ? x[0].f / x[1].f : 0;
    if (op == IR_FADD || op == IR_FSUB) {
        out->e = x[0].e + x[1].e + unit * fabs(out->f);
    } else if (op == IR_FNEG || op == IR_FABS) {
        out->e = x[0].e;
    } else if (op == IR_FMIN || op == IR_FMAX) {
        out->e = fmax(x[0].e, x[1].e);
    } else if (op == IR_FSIN || op == IR_FCOS) {
        out->e = x[0].e + 4 * unit;
    } else if (op == IR_FFLOORDIV || op == IR_FMOD) {
        double e = fabs(x[0].e / x[1].f) + fabs(q * x[1].e / x[1].f) +
                   2 * unit * fabs(q);
        a->near_threshold |= !same_floor(q, e);
        out->e = op == IR_FMOD ? x[0].e + fabs(floor(q)) * x[1].e +
                                     2 * unit * fabs(out->f)
                               : 0;
    } else {
        spread(a, op, x, n, out);
    }
}

static bool compare(struct analysis *a, enum ir_op op, const struct number *x)
{
    double d = x[0].f - x[1].f;
    if (fabs(d) <= x[0].e + x[1].e && x[0].e + x[1].e > 0)
        a->near_threshold = true;
    return op == IR_FLT   ? x[0].f < x[1].f
           : op == IR_FLE ? x[0].f <= x[1].f
                          : x[0].f == x[1].f;
}

/* A dot product: along the rows that its operands' loads begin. */
static void dot(struct analysis *a, ir_ref r, struct number *out)
{
    const struct ir_node *load[2] = {ir_node(a->g, ir_arg(a->g, r, 0)),
                                     ir_node(a->g, ir_arg(a->g, r, 1))};
    const int64_t n = ir_dot_length(a->g, r);
    double size = 0;
    for (int64_t k = 0; k < n; k++) {
        double x = 1;
        for (int j = 0; j < 2; j++) {
            const enum dtype t = a->g->tensors[load[j]->i].dtype;
            const int64_t step =
                a->env->tensors[load[j]->i].stride[load[j]->n - 1];
            x *= dtype_load_f64(t, element(a, load[j]) +
                                       k * step * (int64_t)dtype_size(t));
        }
        out->f += x;
        size += fabs(x);
    }
    out->e = (double)(n + 1) * unit * size;
}

static bool leaf(struct analysis *a, const struct ir_node *n,
                 const struct number *x, struct number *out)
{
    switch (n->op) {
    case IR_CONST_B:
    case IR_CONST_I:
        out->i = n->i;
        return true;
    case IR_CONST_F:
        out->f = n->f;
        out->e = isfinite(n->f) ? fabs(n->f - (double)(float)n->f) : 0;
        return true;
    case IR_VAR_I:
        out->i = variable(a, n->i);
        return true;
    case IR_SCORE:
        out->f = a->score;
        out->e = a->score_error;
        return true;
    case IR_PARAM_I:
        out->i = a->env->params[n->i].i;
        return true;
    case IR_PARAM_F:
        out->f = a->env->params[n->i].f;
        return true;
    case IR_LEN_Q:
    case IR_LEN_KV:
        out->i = length(a, n->op == IR_LEN_KV, x[0].i);
        return true;
    case IR_LOAD_B:
        out->i = *element(a, n) != 0;
        return true;
    case IR_LOAD_I:
        out->i = dtype_saturate(
            dtype_load_i64(a->g->tensors[n->i].dtype, element(a, n)));
        return true;
    case IR_LOAD_F:
        out->f = dtype_load_f64(a->g->tensors[n->i].dtype, element(a, n));
        return true;
    default:
        return false;
    }
}

static void node_value(struct analysis *a, ir_ref r)
{
    const struct ir_node *n = ir_node(a->g, r);
    struct number x[3] = {{0}, {0}, {0}};
    struct number *out = &a->v[r];
    union eval_value in[3];
    bool all = true, any = false;
    *out = (struct number){0};
    for (uint32_t k = 0; k < n->n; k++) {
        const struct number *arg = &a->v[ir_arg(a->g, r, k)];
        all &= arg->i != 0;
        any |= arg->i != 0;
        if (k < 3)
            x[k] = *arg;
    }
    if (leaf(a, n, x, out))
        return;
    switch (n->op) {
    case IR_DOT:
        dot(a, r, out);
        return;
    case IR_LIN:
        out->i = linear(a, n);
        return;
    case IR_GE0:
        out->i = linear(a, n) >= 0;
        return;
    case IR_EQ0:
        out->i = linear(a, n) == 0;
        return;
    case IR_NOT:
        out->i = !x[0].i;
        return;
    case IR_AND:
        out->i = all;
        return;
    case IR_OR:
        out->i = any;
        return;
    case IR_FLT:
    case IR_FLE:
    case IR_FEQ:
        out->i = compare(a, (enum ir_op)n->op, x);
        return;
    case IR_SEL_I:
    case IR_SEL_F:
        *out = x[0].i ? x[1] : x[2];
        return;
    case IR_I2F:
        out->f = (double)x[0].i;
        out->e = fabs(out->f) > 0x1p24 ? unit * fabs(out->f) : 0;
        return;
    default:
        break;
    }
    if (ir_op_info((enum ir_op)n->op)->in[0] == 'f') {
        float_op(a, (enum ir_op)n->op, x, n->n, out);
        return;
    }
    for (uint32_t k = 0; k < n->n && k < 3; k++)
        in[k].i = x[k].i;
    out->i = eval_op_f64((enum ir_op)n->op, in).i;
}

/* --- cells -------------------------------------------------------- */

bool analysis_open(struct analysis *a, struct ir_graph *g,
                   const struct ir_roots *roots, const struct eval_env *env)
{
    *a = (struct analysis){.g = g, .env = env, .roots = *roots};
    if (!ir_walk(g, roots, &a->order, &a->n_order))
        return false;
    a->v = calloc(g->n_nodes, sizeof *a->v);
    return a->v != NULL;
}

void analysis_close(struct analysis *a)
{
    free(a->v);
    a->v = NULL;
}

void analysis_cell(struct analysis *a)
{
    a->largest = 0;
    a->near_threshold = false;
    for (uint32_t k = 0; k < a->n_order; k++) {
        ir_ref r = a->order[k];
        node_value(a, r);
        if (ir_node(a->g, r)->type == IR_FLOAT && isfinite(a->v[r].f))
            a->largest = fmax(a->largest, fabs(a->v[r].f));
    }
    const struct number *want = &a->v[a->roots.score];
    a->want = want->f;
    a->error = want->e;
    a->keep = a->v[a->roots.keep].i != 0 && !(isinf(want->f) && want->f < 0);
    a->near_threshold |= a->largest > 1e30;
}

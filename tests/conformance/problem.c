/* In: a row of the list. Out: inputs of attention, and the output of some rows
 * by naive loops in double: each cell's score goes through the mod in plain
 * Lua, on numbers. Called by conformance.c. */
#include "tests/conformance/problem.h"

#include <math.h>

#include "tests/fuzz/concrete.h"

static const double scale = 0.125; /* 1 / sqrt(D) */

int problem_row(int k)
{
    static const int rows[P_ROWS] = {0,   1,   63,  64,  127, 128, 200,
                                     255, 256, 311, 469, 470, 530, P_SQ - 1};
    return rows[k];
}

/* --- inputs --------------------------------------------------------------- */

/* In (-2, 2), of 7 bits: what bf16 holds. */
static float *random_floats(size_t n, uint64_t seed)
{
    float *x = malloc(n * sizeof *x);
    if (!x)
        data_die("no memory for", "inputs");
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(data_pick(seed, i, 256) - 128) / 64;
    return x;
}

static facc_tensor tensor_of(float *data, int heads, int length)
{
    const int64_t row = P_D, head = row * length, batch = head * heads;
    return (facc_tensor){
        data, FACC_F32, 4, {P_B, heads, length, P_D}, {batch, head, row, 1}};
}

static void set_captured(struct problem *p, const struct ir_graph *g)
{
    for (int t = 0; t < g->n_tensors; t++) {
        const struct eval_tensor *x = &p->data.tensor[t];
        facc_tensor *out = &p->tensor[t];
        *out = (facc_tensor){.data = p->data.block[t],
                             .dtype = (facc_dtype)g->tensors[t].dtype,
                             .rank = g->tensors[t].rank};
        for (int d = 0; d < out->rank; d++) {
            out->shape[d] = x->shape[d];
            out->stride[d] = x->stride[d];
        }
    }
    for (int k = 0; k < g->n_params; k++) {
        if (dtype_is_float(g->params[k].dtype))
            p->param[k].f = p->data.param[k].f;
        else
            p->param[k].i = p->data.param[k].i;
    }
}

static void set_args(struct problem *p, const struct ir_graph *g)
{
    facc_args *a = &p->args;
    *a = (facc_args)FACC_ARGS_INIT;
    a->q = tensor_of(p->q, P_H, P_SQ);
    a->k = tensor_of(p->k, P_HKV, P_SKV);
    a->v = tensor_of(p->v, P_HKV, P_SKV);
    a->scale = scale;
    a->tensors = p->tensor;
    a->n_tensors = g->n_tensors;
    a->params = p->param;
    a->n_params = g->n_params;
    a->seqused_q = p->data.len_q;
    a->seqused_kv = p->data.len_kv;
}

/* --- the oracle ----------------------------------------------------------- */

struct cell {
    double score;
    bool keep;
};

static struct cell cell_of(struct concrete *c, int b, int h, int q, int kv,
                           double score, const char *label)
{
    struct cell x = {.score = score};
    struct diag d;
    diag_init(&d);
    if (!concrete_cell(c, b, h, q, kv, &x.score, &x.keep, &d)) {
        fprintf(stderr, "b %d h %d q %d kv %d: %s\n", b, h, q, kv, d.message);
        data_die("plain Lua fails in row", label);
    }
    x.keep = x.keep && !(isinf(x.score) && x.score < 0);
    return x;
}

static double dot(const float *x, const float *y)
{
    double sum = 0;
    for (int d = 0; d < P_D; d++)
        sum += (double)x[d] * (double)y[d];
    return sum;
}

/* Softmax of n scores over v's rows. */
static void weigh(const struct cell *cell, int n, const float *v, double *o,
                  double *lse)
{
    double most = -INFINITY, sum = 0;
    for (int kv = 0; kv < n; kv++)
        if (cell[kv].keep && !(cell[kv].score <= most))
            most = cell[kv].score;
    for (int d = 0; d < P_D; d++)
        o[d] = 0;
    *lse = -INFINITY;
    if (most <= -INFINITY)
        return;
    for (int kv = 0; kv < n; kv++) {
        const double w = cell[kv].keep ? exp(cell[kv].score - most) : 0;
        sum += w;
        for (int d = 0; d < P_D; d++)
            o[d] += w * (double)v[kv * P_D + d];
    }
    for (int d = 0; d < P_D; d++)
        o[d] /= sum;
    *lse = most + log(sum);
}

static void one_row(struct problem *p, struct concrete *c, bool reads_score,
                    int b, int h, int k, const char *label)
{
    struct oracle *w = p->want;
    struct cell cell[P_SKV];
    const int q = problem_row(k), hkv = h / (P_H / P_HKV);
    const int n = q < p->data.len_q[b] ? p->data.len_kv[b] : 0;
    const size_t kv_head = (size_t)(b * P_HKV + hkv) * P_SKV * P_D;
    const float *row = p->q + ((size_t)(b * P_H + h) * P_SQ + (size_t)q) * P_D;
    for (int kv = 0; kv < n; kv++) {
        const double s = scale * dot(row, p->k + kv_head + kv * P_D);
        const double by = 1e-5 * (1 + fabs(s));
        cell[kv] = cell_of(c, b, h, q, kv, s, label);
        w->kept += cell[kv].keep;
        if (reads_score && cell_of(c, b, h, q, kv, s - by, label).keep !=
                               cell_of(c, b, h, q, kv, s + by, label).keep)
            w->near[b][h][k] = true;
    }
    w->cells += n;
    weigh(cell, n, p->v + kv_head, w->o[b][h][k], &w->lse[b][h][k]);
    w->near_lines += w->near[b][h][k];
    w->empty_lines += !isfinite(w->lse[b][h][k]);
}

static void make_oracle(struct problem *p, const struct program *program,
                        const char *label, const char *text)
{
    struct diag d;
    diag_init(&d);
    struct concrete *c =
        concrete_open("row.lua", text, strlen(text), &p->data.env, &d);
    p->want = calloc(1, sizeof *p->want);
    if (!c || !p->want)
        data_die(c ? "no memory for" : d.message, label);
    for (int b = 0; b < P_B; b++)
        for (int h = 0; h < P_H; h++)
            for (int k = 0; k < P_ROWS; k++)
                one_row(p, c, eval_plan_mask_reads_score(program->plan), b, h,
                        k, label);
    concrete_close(c);
}

/* --- a problem ------------------------------------------------------------ */

void problem_open(struct problem *p, const struct program *program,
                  const char *label, const char *text)
{
    memset(p, 0, sizeof *p);
    struct data *d = &p->data;
    *d = (struct data){.env = {.B = P_B,
                               .H = P_H,
                               .Hkv = P_HKV,
                               .Sq = P_SQ,
                               .Skv = P_SKV,
                               .D = P_D,
                               .Dv = P_D},
                       .len_q = {P_SQ, 531},
                       .len_kv = {P_SKV, 405},
                       /* sm90 reads facc.dot's rows where they are whole */
                       .varied = program->dot.dot == IR_NONE};
    d->env.len_q = d->len_q;
    d->env.len_kv = d->len_kv;
    data_list(d, program->graph, 1);
    p->n_q = (size_t)P_B * P_H * P_SQ * P_D;
    p->n_k = (size_t)P_B * P_HKV * P_SKV * P_D;
    p->q = random_floats(p->n_q, 1);
    p->k = random_floats(p->n_k, 2);
    p->v = random_floats(p->n_k, 3);
    set_captured(p, program->graph);
    set_args(p, program->graph);
    make_oracle(p, program, label, text);
}

void problem_close(struct problem *p)
{
    data_free(&p->data);
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->want);
}

static double distance(double got, double want, double unit)
{
    if (got == want || (isnan(got) && isnan(want)))
        return 0;
    const double d = fabs(got - want) / unit;
    return isfinite(d) ? d : INFINITY;
}

struct errors problem_compare(const struct problem *p, const double *o,
                              const double *lse)
{
    struct errors e = {0, 0};
    for (int b = 0; b < P_B; b++)
        for (int h = 0; h < P_H; h++)
            for (int k = 0; k < P_ROWS; k++) {
                const size_t row =
                    (size_t)(b * P_H + h) * P_SQ + (size_t)problem_row(k);
                const double want = p->want->lse[b][h][k];
                if (p->want->near[b][h][k])
                    continue;
                const double unit = fmax(1, isfinite(want) ? fabs(want) : 1);
                e.lse = fmax(e.lse, distance(lse[row], want, unit));
                for (int d = 0; d < P_D; d++)
                    e.o = fmax(e.o, distance(o[row * P_D + (size_t)d],
                                             p->want->o[b][h][k][d], 1));
            }
    return e;
}

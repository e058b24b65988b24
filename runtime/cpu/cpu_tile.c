/* Online softmax over one block of query rows, KV tile by KV tile in rising
 * order, exactly as the kernels do it. In: the call's tensors and the
 * program's plan. Out: rows of O and LSE. Called by cpu_attention.c's
 * threads. */
#include "runtime/cpu/cpu_tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu_convert.h"
#include "runtime/cpu/cpu_dropout.h"
#include "runtime/cpu/cpu_fp8.h"
#include "runtime/cpu/cpu_mask.h"

enum { M = CPU_TILE_M, N = CPU_TILE_N, GROUP = 16 };

struct cpu_scratch {
    struct eval_state *eval; /* NULL: no mods */
    struct cpu_mask mask;
    void *q;           /* [M][D] */
    void *s;           /* [M][N] scores, then probabilities */
    void *o;           /* [M][dv_pad] not yet divided by l */
    void *k;           /* [D][N] packed */
    void *v;           /* [N][dv_pad] packed */
    float *rows;       /* [GROUP][max(D, Dv)] */
    double *out;       /* [Dv] */
    uint8_t *keep;     /* [M][N] */
    uint8_t *dead;     /* [M][N] masked cells; special V tiles only */
    double m[M], l[M]; /* running maximum, sum */
    double used[M];    /* with v_mean: sum of the weights that V gets */
    int dv_pad;        /* Dv up to whole vectors */
};

/* --- memory ------------------------------------------------------------- */

static void *carve(char *base, size_t *used, size_t n, size_t size)
{
    void *p = base != NULL ? base + *used : NULL;
    *used += (n * size + 63) & ~(size_t)63;
    return p;
}

static size_t lay_out(struct cpu_scratch *s, const struct cpu_call *call,
                      char *base)
{
    size_t size = call->kernels->size, used = 0;
    size_t d = (size_t)call->size.D, dv = (size_t)s->dv_pad;
    s->q = carve(base, &used, M * d, size);
    s->s = carve(base, &used, (size_t)M * N, size);
    s->o = carve(base, &used, M * dv, size);
    s->k = carve(base, &used, N * d, size);
    s->v = carve(base, &used, N * dv, size);
    s->rows = carve(base, &used, GROUP * (d > dv ? d : dv), sizeof(float));
    s->out = carve(base, &used, dv, sizeof(double));
    s->keep = carve(base, &used, (size_t)M * N, 1);
    s->dead = carve(base, &used, (size_t)M * N, 1);
    return used;
}

struct cpu_scratch *cpu_scratch_new(const struct cpu_call *call)
{
    int w = call->kernels->width;
    struct cpu_scratch head = {.dv_pad = (call->size.Dv + w - 1) / w * w};
    size_t own = (sizeof head + 63) & ~(size_t)63;
    size_t size = own + lay_out(&head, call, NULL);
    char *block = aligned_alloc(64, size);
    if (block == NULL)
        return NULL;
    lay_out(&head, call, block + own);
    struct cpu_scratch *s = (void *)block;
    *s = head;
    bool eval =
        eval_plan_has_score(call->plan) || eval_plan_has_mask(call->plan);
    if (eval)
        s->eval = eval_state_new(call->plan, call->f64 ? EVAL_F64 : EVAL_F32, N,
                                 &call->env.env);
    if (cpu_mask_open(&s->mask, call) && (!eval || s->eval != NULL))
        return s;
    cpu_scratch_free(s);
    return NULL;
}

void cpu_scratch_free(struct cpu_scratch *s)
{
    if (s == NULL)
        return;
    eval_state_free(s->eval);
    cpu_mask_close(&s->mask);
    free(s);
}

/* --- operands ----------------------------------------------------------- */

/* A tile of the loop below. */
struct tile {
    int b, h, hkv, q0, rows; /* query rows */
    int kv0, n;              /* columns */
    int n_pad;               /* columns up to whole vectors */
    bool mask;               /* some cells may be masked: keep holds them */
    const uint8_t *given;    /* what block lists say, or NULL: cpu_mask.h */
};

/* Row of sequence b; packed sequences begin at `cu`. */
static char *at(const facc_tensor *t, const int32_t *cu, int64_t b, int64_t h,
                int64_t row)
{
    if (cu != NULL) {
        row += cu[b];
        b = 0;
    }
    int64_t e = b * t->stride[0] + h * t->stride[1] + row * t->stride[2];
    return (char *)t->data + e * (int64_t)dtype_size((enum dtype)t->dtype);
}

static char *row_of(const struct cpu_call *call, void *matrix, int row, int ld)
{
    return (char *)matrix + (size_t)row * (size_t)ld * call->kernels->size;
}

static void load_q(const struct cpu_call *call, struct cpu_scratch *s,
                   const struct tile *t)
{
    const facc_tensor *q = &call->args->q;
    int dim = call->size.D;
    for (int i = 0; i < t->rows; i++) {
        cpu_load_row(s->rows, (enum dtype)q->dtype,
                     at(q, call->args->cu_seqlens_q, t->b, t->h, t->q0 + i),
                     q->stride[3], dim);
        call->kernels->widen(row_of(call, s->q, i, dim), s->rows, dim);
    }
}

/* K rows as columns; beyond n up to a multiple of 32 they are 0. */
static void load_k(const struct cpu_call *call, struct cpu_scratch *s,
                   const struct tile *t)
{
    const facc_tensor *k = &call->args->k;
    const int32_t *cu = call->args->cu_seqlens_kv;
    int dim = call->size.D;
    for (int c = 0; c < t->n || c % 32 != 0; c += GROUP) {
        for (int i = 0; i < GROUP; i++) {
            float *row = s->rows + (size_t)i * (size_t)dim;
            if (c + i < t->n)
                cpu_load_row(row, (enum dtype)k->dtype,
                             at(k, cu, t->b, t->hkv, t->kv0 + c + i),
                             k->stride[3], dim);
            else
                memset(row, 0, (size_t)dim * sizeof *row);
        }
        call->kernels->pack_columns(s->k, dim, c, s->rows);
    }
}

/* Column j of the tile. */
static void load_v_row(const struct cpu_call *call, struct cpu_scratch *s,
                       const struct tile *t, int j)
{
    const facc_tensor *v = &call->args->v;
    if (call->args->v_image != NULL) {
        cpu_fp8_image_row(call, t->b, t->hkv, t->kv0 + j, s->rows);
        return;
    }
    cpu_load_row(s->rows, (enum dtype)v->dtype,
                 at(v, call->args->cu_seqlens_kv, t->b, t->hkv, t->kv0 + j),
                 v->stride[3], call->size.Dv);
}

/* True when some value is infinite or NaN. */
static bool load_v(const struct cpu_call *call, struct cpu_scratch *s,
                   const struct tile *t)
{
    bool special = false;
    for (int j = 0; j < t->n; j++) {
        load_v_row(call, s, t, j);
        special |= call->kernels->pack_row(s->v, t->n, s->dv_pad, j,
                                           call->size.Dv, s->rows);
    }
    return special;
}

/* --- one KV tile -------------------------------------------------------- */

static const uint8_t *given_row(const struct tile *t, int i)
{
    return t->given != NULL ? t->given + (size_t)i * N : NULL;
}

/* The mask of a tile whose mask does not need scores. Sets *none when no
 * cell is kept: such a tile costs no more than this. */
static bool mask_rows(const struct cpu_call *call, struct cpu_scratch *s,
                      const struct tile *t, bool *none, struct diag *d)
{
    bool asks = eval_plan_has_mask(call->plan);
    *none = true;
    for (int i = 0; i < t->rows; i++) {
        uint8_t *keep = s->keep + (size_t)i * N;
        const uint8_t *given = given_row(t, i);
        if (asks && !eval_row_given(s->eval, t->q0 + i, given, NULL, keep, d))
            return false;
        for (int j = 0; j < t->n && !asks; j++) /* only lists can mask */
            keep[j] = given[j] >> 1;
        *none &= memchr(keep, 1, (size_t)t->n) == NULL;
    }
    return true;
}

static void pad_row(const struct cpu_call *call, const struct tile *t,
                    void *row)
{
    for (int j = t->n; j < t->n_pad; j++) {
        if (call->f64)
            ((double *)row)[j] = -INFINITY;
        else
            ((float *)row)[j] = -INFINITY;
    }
}

/* Scores of the tile through the mods; masked cells become -inf. */
static bool score_rows(const struct cpu_call *call, struct cpu_scratch *s,
                       const struct tile *t, struct diag *d)
{
    bool both = t->mask && eval_plan_mask_reads_score(call->plan);
    bool eval = both || eval_plan_has_score(call->plan);
    for (int i = 0; i < t->rows; i++) {
        void *row = row_of(call, s->s, i, N);
        uint8_t *keep = s->keep + (size_t)i * N;
        if (eval && !eval_row_given(s->eval, t->q0 + i, given_row(t, i), row,
                                    both ? keep : NULL, d))
            return false;
        if (t->mask)
            call->kernels->mask(t->n, row, keep);
        pad_row(call, t, row);
    }
    return true;
}

/* Scores become probabilities against the new running maximum; O and l move
 * to it. */
static void softmax_rows(const struct cpu_call *call, struct cpu_scratch *s,
                         const struct tile *t)
{
    const struct cpu_kernels *k = call->kernels;
    for (int i = 0; i < t->rows; i++) {
        void *row = row_of(call, s->s, i, N);
        double top = k->row_max(t->n_pad, row), old = s->m[i];
        top = top > old ? top : old;
        /* nothing kept so far: every exp(-inf - 0) is 0 */
        double shift = top > -INFINITY ? top : 0;
        double sum = k->row_exp(t->n_pad, row, shift);
        if (old != shift) {
            double alpha = exp(old - shift);
            if (!call->f64)
                alpha = (double)(float)alpha; /* l as O sees it */
            s->l[i] *= alpha;
            s->used[i] *= alpha;
            k->scale_row(s->dv_pad, row_of(call, s->o, i, s->dv_pad), alpha);
        }
        s->l[i] += sum;
        s->m[i] = top;
    }
}

/* Sets dropped probabilities to 0; l has them. */
static void drop_rows(const struct cpu_call *call, struct cpu_scratch *s,
                      const struct tile *t)
{
    const uint32_t head = (uint32_t)t->b * (uint32_t)call->size.H;
    const struct cpu_rectangle r = {t->q0, t->rows, t->kv0, t->n};
    cpu_drop(&call->dropout, head + (uint32_t)t->h, &r, s->s, N,
             call->kernels->size);
}

static void note_dead(const struct cpu_call *call, struct cpu_scratch *s,
                      const struct tile *t)
{
    for (int i = 0; i < t->rows; i++)
        for (int j = 0; j < t->n; j++) {
            const char *x = row_of(call, s->s, i, N);
            double v = call->f64 ? ((const double *)(const void *)x)[j]
                                 : (double)((const float *)(const void *)x)[j];
            s->dead[i * N + j] = v == -INFINITY;
        }
}

/* P V where V holds infinities or NaN: cells that are masked must not turn
 * 0 * NaN into NaN. */
static void add_special(const struct cpu_call *call, struct cpu_scratch *s,
                        const struct tile *t)
{
    for (int j = 0; j < t->n; j++) {
        load_v_row(call, s, t, j);
        for (int i = 0; i < t->rows; i++)
            if (!s->dead[i * N + j])
                call->kernels->add_row(
                    call->size.Dv, row_of(call, s->o, i, s->dv_pad),
                    row_of(call, s->s, i, N) + (size_t)j * call->kernels->size,
                    s->rows);
    }
}

static bool run_tile(const struct cpu_call *call, struct cpu_scratch *s,
                     const struct tile *t, struct diag *d)
{
    const struct cpu_kernels *k = call->kernels;
    const struct cpu_cells cells = {t->b,    t->h,   t->hkv, t->q0,
                                    t->rows, t->kv0, t->n};
    int dim = call->size.D, n32 = (t->n + 31) / 32 * 32;
    if (s->eval != NULL && !eval_tile(s->eval, t->b, t->h, t->kv0, t->n, d))
        return false;
    if (t->mask && !eval_plan_mask_reads_score(call->plan)) {
        bool none;
        if (!mask_rows(call, s, t, &none, d))
            return false;
        if (none)
            return true;
    }
    load_k(call, s, t);
    k->gemm(false, call->scale, t->rows, n32, dim, s->q, (size_t)dim, s->k,
            s->s, N);
    cpu_fp8_scores(call, &cells, s->s, N);
    if (!score_rows(call, s, t, d))
        return false;
    bool special = load_v(call, s, t);
    if (special)
        note_dead(call, s, t);
    softmax_rows(call, s, t);
    if (call->dropout.drops)
        drop_rows(call, s, t);
    if (call->args->v_mean != NULL)
        cpu_fp8_sum(call, &cells, s->s, N, s->used);
    cpu_fp8_weights(call, &cells, s->s, N);
    if (special)
        add_special(call, s, t);
    else
        k->gemm(true, 1, t->rows, s->dv_pad, t->n, s->s, N, s->v, s->o,
                (size_t)s->dv_pad);
    return true;
}

/* --- one block of rows -------------------------------------------------- */

/* A row's sum and the natural log of it, with the sink of its head. */
struct total {
    double factor; /* of the output, before it is divided */
    double sum, lse;
};

static struct total total_of(const struct cpu_call *call, int h, double m,
                             double l)
{
    const facc_tensor *t = call->args->sinks;
    double sink = -INFINITY;
    if (t != NULL)
        sink = (double)((const float *)t->data)[h * t->stride[0]];
    if (l == 0) /* nothing to attend to */
        return (struct total){0, 0, sink};
    if (sink == -INFINITY)
        return (struct total){call->dropout.scale, l, m + log(l)};
    double top = m > sink ? m : sink; /* NaN: of the sink, or in l */
    double factor = exp(m - top), sum = l * factor + exp(sink - top);
    return (struct total){factor * call->dropout.scale, sum, top + log(sum)};
}

static void store_row(const struct cpu_call *call, struct cpu_scratch *s,
                      const struct tile *t, int i, bool used)
{
    const facc_tensor *o = &call->args->o, *lse = &call->args->lse;
    const int32_t *cu = call->args->cu_seqlens_q;
    const void *row = row_of(call, s->o, i, s->dv_pad);
    const float *mean = cpu_fp8_mean(call, t->b, t->hkv);
    struct total all = {0, 0, -INFINITY};
    if (used)
        all = total_of(call, t->h, s->m[i], s->l[i]);
    for (int c = 0; c < call->size.Dv; c++) {
        double x = call->f64 ? ((const double *)row)[c]
                             : (double)((const float *)row)[c];
        if (mean != NULL) /* times what keys have, not sinks, undropped */
            x += (double)mean[c] * s->used[i];
        s->out[c] = all.sum == 0 ? 0 : x * all.factor / all.sum;
    }
    cpu_store_row((enum dtype)o->dtype, at(o, cu, t->b, t->h, t->q0 + i),
                  o->stride[3], call->size.Dv, s->out);
    if (lse->data != NULL)
        dtype_store((enum dtype)lse->dtype, at(lse, cu, t->b, t->h, t->q0 + i),
                    all.lse);
}

static void begin_rows(const struct cpu_call *call, struct cpu_scratch *s,
                       const struct tile *t)
{
    for (int i = 0; i < t->rows; i++) {
        s->m[i] = -INFINITY;
        s->l[i] = s->used[i] = 0;
    }
    memset(s->o, 0, (size_t)t->rows * (size_t)s->dv_pad * call->kernels->size);
    load_q(call, s, t);
    cpu_mask_head(&s->mask, t->b, t->h);
}

int cpu_rows(const struct cpu_call *call, int b)
{
    const int32_t *cu = call->args->cu_seqlens_q;
    return cu != NULL ? cu[b + 1] - cu[b] : call->size.Sq;
}

bool cpu_tile_run(const struct cpu_call *call, struct cpu_scratch *s, int b,
                  int h, int q0, struct diag *d)
{
    const struct eval_env *e = &call->env.env;
    int left = cpu_rows(call, b) - q0, end = left < M ? left : M;
    int used = (int)eval_env_len(e, false, b) - q0;
    int kv = (int)eval_env_len(e, true, b);
    int w = call->kernels->width;
    struct tile t = {.b = b, .h = h, .q0 = q0};
    t.hkv = h / (call->size.H / call->size.Hkv);
    t.rows = used < 0 ? 0 : used < end ? used : end;
    begin_rows(call, s, &t);
    /* tiles begin at multiples of N whatever is EMPTY: same bits */
    for (t.kv0 = 0; t.kv0 < kv && t.rows > 0; t.kv0 += N) {
        t.n = kv - t.kv0 < N ? kv - t.kv0 : N;
        t.n_pad = (t.n + w - 1) / w * w;
        enum verdict v =
            cpu_mask_tile(&s->mask, q0, t.rows, t.kv0, t.n, &t.given);
        t.mask = v == VERDICT_PARTIAL;
        if (v != VERDICT_EMPTY && !run_tile(call, s, &t, d))
            return false;
    }
    for (int i = 0; i < end; i++)
        store_row(call, s, &t, i, i < t.rows);
    return true;
}

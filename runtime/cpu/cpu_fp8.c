/* In: the descales, means and image of V of a call. Out: scores and weights
 * with their scales, rows of V. Called by cpu_tile.c. */
#include "runtime/cpu/cpu_fp8.h"

#include "compiler/ir/eval_math.h"
#include "templates/common/fp8_args.h"

/* A descale's values for one head of one sequence. */
struct scales {
    const float *at; /* NULL: all are 1 */
    int64_t stride;  /* of blocks */
    int block;       /* rows; 0: one value for all */
};

static struct scales scales_of(const facc_tensor *t, int b, int head, int block)
{
    struct scales s = {NULL, 0, 0};
    if (t == NULL)
        return s;
    s.at = t->data;
    if (t->rank >= 2)
        s.at += b * t->stride[0] + head * t->stride[1];
    if (t->rank == 3) {
        s.stride = t->stride[2];
        s.block = block;
    }
    return s;
}

static double scale_of(const struct scales *s, int row)
{
    if (s->at == NULL)
        return 1;
    return (double)s->at[s->block > 0 ? row / s->block * s->stride : 0];
}

void cpu_fp8_scores(const struct cpu_call *call, const struct cpu_cells *t,
                    void *s, int ld)
{
    const facc_args *a = call->args;
    const facc_tensor *q = a->descale_q;
    if (q == NULL && a->descale_k == NULL)
        return;
    const bool by_head =
        q != NULL && q->rank >= 2 && q->shape[1] == call->size.H;
    const struct scales of_q =
        scales_of(q, t->b, by_head ? t->h : t->hkv, a->descale_block_q);
    const struct scales of_k =
        scales_of(a->descale_k, t->b, t->hkv, a->descale_block_kv);
    double col[CPU_TILE_N];
    for (int j = 0; j < t->n; j++)
        col[j] = scale_of(&of_k, t->kv0 + j);
    for (int i = 0; i < t->rows; i++) {
        const double row = scale_of(&of_q, t->q0 + i);
        double *d = (double *)s + (size_t)i * (size_t)ld;
        float *f = (float *)s + (size_t)i * (size_t)ld;
        for (int j = 0; j < t->n && call->f64; j++)
            d[j] *= row * col[j];
        for (int j = 0; j < t->n && !call->f64; j++)
            f[j] *= (float)(row * col[j]);
    }
}

void cpu_fp8_sum(const struct cpu_call *call, const struct cpu_cells *t,
                 const void *p, int ld, double *sums)
{
    for (int i = 0; i < t->rows; i++) {
        const double *d = (const double *)p + (size_t)i * (size_t)ld;
        const float *f = (const float *)p + (size_t)i * (size_t)ld;
        for (int j = 0; j < t->n; j++)
            sums[i] += call->f64 ? d[j] : (double)f[j];
    }
}

void cpu_fp8_weights(const struct cpu_call *call, const struct cpu_cells *t,
                     void *p, int ld)
{
    const struct scales of_v = scales_of(call->args->descale_v, t->b, t->hkv,
                                         call->args->descale_block_kv);
    if (of_v.at == NULL)
        return;
    double col[CPU_TILE_N];
    for (int j = 0; j < t->n; j++)
        col[j] = scale_of(&of_v, t->kv0 + j);
    for (int i = 0; i < t->rows; i++) {
        double *d = (double *)p + (size_t)i * (size_t)ld;
        float *f = (float *)p + (size_t)i * (size_t)ld;
        for (int j = 0; j < t->n && call->f64; j++)
            d[j] = d[j] != 0 ? d[j] * col[j] : 0;
        for (int j = 0; j < t->n && !call->f64; j++)
            f[j] = f[j] != 0 ? f[j] * (float)col[j] : 0;
    }
}

void cpu_fp8_image_row(const struct cpu_call *call, int b, int hkv, int kv,
                       float *row)
{
    const facc_tensor *t = call->args->v_image;
    const int32_t *cu = call->args->cu_seqlens_kv;
    const int64_t chunk =
        kv / FACC_V_CHUNK + (cu != NULL ? facc_v_chunk(cu[b], b) : 0);
    const uint8_t *at = (const uint8_t *)t->data + hkv * t->stride[1] +
                        chunk * t->stride[2] +
                        (cu != NULL ? 0 : b * t->stride[0]);
    for (int d = 0; d < call->size.Dv; d++) {
        const uint8_t x = at[facc_v_byte(d, kv % FACC_V_CHUNK)];
        row[d] = t->dtype == FACC_E4M3 ? ev_from_e4m3(x) : ev_from_e5m2(x);
    }
}

const float *cpu_fp8_mean(const struct cpu_call *call, int b, int hkv)
{
    const facc_tensor *t = call->args->v_mean;
    if (t == NULL)
        return NULL;
    return (const float *)t->data + b * t->stride[0] + hkv * t->stride[1];
}

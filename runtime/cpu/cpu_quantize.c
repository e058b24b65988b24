/* facc_quantize. In: a tensor on host memory. Out: the same in FP8, with its
 * scales, means and image. Heads are taken by threads from a counter, twice:
 * first for means and largest magnitudes, then to be rounded. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu_convert.h"
#include "runtime/cpu/cpu_pool.h"
#include "runtime/error.h"
#include "runtime/quantize.h"
#include "templates/common/fp8_args.h"

static const char stage_name[] = "quantize";

struct job {
    const facc_quantize_args *a;
    struct quantize_sizes z;
    uint64_t signs[4];
    float norm;
    float *amax;      /* [B][H][blocks] */
    float *rows;      /* [heads at a time][D] */
    bool rounding;    /* the second time */
    atomic_int next;  /* head, of B * H */
    atomic_int slots; /* of rows */
};

/* Rows of a sequence, and the first one in the tensor. */
static int rows_of(const struct job *j, int b, int *first)
{
    const int32_t *cu = j->a->cu_seqlens;
    *first = cu ? cu[b] : 0;
    return cu ? cu[b + 1] - cu[b] : j->z.S;
}

static char *row_at(const facc_tensor *t, const struct job *j, int b, int h,
                    int row)
{
    const int64_t e = (j->z.packed ? 0 : b * t->stride[0]) + h * t->stride[1] +
                      row * t->stride[2];
    return (char *)t->data + e * (int64_t)facc_dtype_size(t->dtype);
}

static float *mean_of(const struct job *j, int b, int h)
{
    const facc_tensor *t = &j->a->mean;
    return t->data ? (float *)t->data + b * t->stride[0] + h * t->stride[1]
                   : NULL;
}

/* ---- one row ------------------------------------------------------------- */

/* In place, with the channels' signs; D is a power of two. */
static void hadamard(const struct job *j, float *x)
{
    const int D = j->z.D;
    for (int d = 0; d < D; d++)
        if (j->signs[d / 64] >> d % 64 & 1)
            x[d] = -x[d];
    for (int step = 1; step < D; step *= 2)
        for (int d = 0; d < D; d++)
            if (!(d & step)) {
                const float a = x[d], b = x[d + step];
                x[d] = a + b;
                x[d + step] = a - b;
            }
    for (int d = 0; d < D; d++)
        x[d] *= j->norm;
}

/* Row `row` of the tensor, without its mean, transformed. */
static void load_row(const struct job *j, int b, int h, int row, float *x)
{
    const facc_tensor *in = &j->a->in;
    const float *mean = mean_of(j, b, h);
    cpu_load_row(x, (enum dtype)in->dtype, row_at(in, j, b, h, row),
                 in->stride[3], j->z.D);
    for (int d = 0; mean && d < j->z.D; d++)
        x[d] -= mean[d];
    if (j->a->hadamard)
        hadamard(j, x);
}

/* ---- the first time ------------------------------------------------------ */

static void find_mean(const struct job *j, int b, int h, float *x)
{
    int first, n = rows_of(j, b, &first);
    double sum[256];
    float *mean = mean_of(j, b, h);
    const facc_tensor *in = &j->a->in;
    for (int d0 = 0; d0 < j->z.D; d0 += 256) {
        const int width = j->z.D - d0 < 256 ? j->z.D - d0 : 256;
        memset(sum, 0, sizeof sum);
        for (int i = 0; i < n; i++) {
            cpu_load_row(x, (enum dtype)in->dtype,
                         row_at(in, j, b, h, first + i), in->stride[3], j->z.D);
            for (int d = 0; d < width; d++)
                sum[d] += isfinite(x[d0 + d]) ? (double)x[d0 + d] : 0;
        }
        for (int d = 0; d < width; d++)
            mean[d0 + d] = n > 0 ? (float)(sum[d] / n) : 0;
    }
}

static int block_of(const struct job *j, int row)
{
    return j->z.blocks > 1 ? row / j->a->block : 0;
}

static void measure(const struct job *j, int b, int h, float *x)
{
    int first, n = rows_of(j, b, &first);
    float *amax = j->amax + ((int64_t)b * j->z.H + h) * j->z.blocks;
    if (j->a->mean.data)
        find_mean(j, b, h, x);
    for (int i = 0; i < j->z.blocks; i++)
        amax[i] = 0;
    for (int i = 0; i < n; i++) {
        float *most = &amax[block_of(j, i)];
        load_row(j, b, h, first + i, x);
        for (int d = 0; d < j->z.D; d++)
            if (isfinite(x[d]) && fabsf(x[d]) > *most)
                *most = fabsf(x[d]);
    }
}

/* ---- the second time ----------------------------------------------------- */

/* Scales of a head from its largest magnitudes; the first of these become
 * what values are multiplied by. */
static void write_scales(const struct job *j, int b, int h)
{
    const facc_tensor *t = &j->a->scale;
    float *amax = j->amax + ((int64_t)b * j->z.H + h) * j->z.blocks;
    for (int i = 0; i < j->z.blocks; i++) {
        const float s =
            quantize_scale(amax[i], j->a->out.dtype, j->a->power_of_two != 0);
        float *to = t->data;
        amax[i] = 1 / s;
        if (t->rank >= 2)
            to += b * t->stride[0] + h * t->stride[1];
        if (t->rank == 3)
            to += i * t->stride[2];
        if (!j->z.per_tensor)
            *to = s;
    }
}

static uint8_t *chunk_at(const struct job *j, int b, int h, int row)
{
    const facc_tensor *t = &j->a->image;
    const int32_t *cu = j->a->cu_seqlens;
    const int64_t chunk =
        row / FACC_V_CHUNK + (cu ? facc_v_chunk(cu[b], b) : 0);
    return (uint8_t *)t->data + (cu ? 0 : b * t->stride[0]) + h * t->stride[1] +
           chunk * t->stride[2];
}

static void clear_image(const struct job *j, int b, int h, int rows)
{
    const int chunks = (rows + FACC_V_CHUNK - 1) / FACC_V_CHUNK + FACC_V_PAD;
    memset(chunk_at(j, b, h, 0), 0,
           (size_t)chunks * FACC_V_CHUNK * (size_t)j->z.D);
}

/* Infinities as NaN. */
static void store_row(const struct job *j, int b, int h, int first, int row,
                      float factor, const float *x)
{
    const facc_tensor *out = &j->a->out;
    const enum dtype t = (enum dtype)out->dtype;
    double values[256];
    uint8_t codes[256];
    for (int d0 = 0; d0 < j->z.D; d0 += 256) {
        const int width = j->z.D - d0 < 256 ? j->z.D - d0 : 256;
        for (int d = 0; d < width; d++) {
            const float y = x[d0 + d] * factor;
            values[d] = isfinite(y) ? (double)y : (double)NAN;
        }
        if (out->data)
            cpu_store_row(
                t, row_at(out, j, b, h, first + row) + d0 * out->stride[3],
                out->stride[3], width, values);
        if (!j->a->image.data)
            continue;
        uint8_t *chunk = chunk_at(j, b, h, row);
        cpu_store_row(t, codes, 1, width, values);
        for (int d = 0; d < width; d++)
            chunk[facc_v_byte(d0 + d, row % FACC_V_CHUNK)] = codes[d];
    }
}

static void round_head(const struct job *j, int b, int h, float *x)
{
    int first, n = rows_of(j, b, &first);
    const float *factor = j->amax + ((int64_t)b * j->z.H + h) * j->z.blocks;
    write_scales(j, b, h);
    if (j->a->image.data)
        clear_image(j, b, h, n);
    for (int i = 0; i < n; i++) {
        load_row(j, b, h, first + i, x);
        store_row(j, b, h, first, i, factor[block_of(j, i)], x);
    }
}

/* ------------------------------------------------------------------------- */

static void work(void *user)
{
    struct job *j = user;
    float *x = j->rows + (int64_t)atomic_fetch_add(&j->slots, 1) * j->z.D;
    for (;;) {
        const int i = atomic_fetch_add(&j->next, 1);
        if (i >= j->z.B * j->z.H)
            return;
        if (j->rounding)
            round_head(j, i / j->z.H, i % j->z.H, x);
        else
            measure(j, i / j->z.H, i % j->z.H, x);
    }
}

static void run(struct job *j, struct cpu_pool *pool, int threads,
                bool rounding)
{
    j->rounding = rounding;
    atomic_store(&j->next, 0);
    atomic_store(&j->slots, 0);
    if (pool)
        cpu_pool_run(pool, threads, work, j);
    else
        work(j);
}

/* The largest of all for each. */
static void join(const struct job *j)
{
    const int n = j->z.B * j->z.H;
    float most = 0;
    for (int i = 0; i < n; i++)
        most = j->amax[i] > most ? j->amax[i] : most;
    for (int i = 0; i < n; i++)
        j->amax[i] = most;
    *(float *)j->a->scale.data =
        quantize_scale(most, j->a->out.dtype, j->a->power_of_two != 0);
}

static bool offsets_fit(const struct job *j, struct diag *d)
{
    const int32_t *cu = j->a->cu_seqlens;
    for (int b = 0; cu && b < j->z.B; b++)
        if ((b == 0 && cu[0] != 0) || cu[b + 1] < cu[b] ||
            cu[b + 1] - cu[b] > j->z.S || cu[b + 1] > j->z.T)
            return diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
                            "cu_seqlens[%d] is %d, cu_seqlens[%d] %d: offsets "
                            "ascend from 0 to at most %d, by at most %d",
                            b, cu[b], b + 1, cu[b + 1], j->z.T, j->z.S);
    return true;
}

static bool quantize(facc_ctx *ctx, struct job *j, struct diag *d)
{
    const size_t heads = (size_t)j->z.B * (size_t)j->z.H;
    int threads = ctx->cpu_threads;
    threads = (size_t)threads > heads ? (int)heads : threads;
    struct cpu_pool *pool = threads > 1 ? cpu_pool_get(ctx, d) : NULL;
    if (threads > 1 && !pool)
        return false;
    threads = threads > 1 ? threads : 1;
    j->amax = malloc((heads * (size_t)j->z.blocks + 1) * sizeof *j->amax);
    j->rows = malloc((size_t)threads * (size_t)j->z.D * sizeof *j->rows);
    const bool ok = j->amax && j->rows;
    if (ok) {
        quantize_signs(j->a->seed, j->signs);
        j->norm = (float)(1 / sqrt((double)j->z.D));
        run(j, pool, threads, false);
        if (j->z.per_tensor)
            join(j);
        run(j, pool, threads, true);
    }
    free(j->amax);
    free(j->rows);
    return ok || diag_nomem(d, stage_name);
}

facc_status facc_quantize(facc_ctx *ctx, const facc_quantize_args *args,
                          facc_error *err)
{
    struct diag d;
    facc_quantize_args a;
    struct job j = {.a = &a};
    diag_init(&d);
    if (!ctx)
        return error_null(err, "ctx");
    if (versioned_read(&a, sizeof a, args, "facc_quantize_args", &d) &&
        quantize_check(&a, false, false, stage_name, &j.z, &d) &&
        offsets_fit(&j, &d) && quantize(ctx, &j, &d))
        return FACC_OK;
    return error_report(err, &d, NULL, NULL);
}

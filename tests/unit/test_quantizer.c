/* facc_quantizer over a driver of recording functions, with the real NVRTC for
 * its one compile (skipped, aloud, where there is none): which kernels a launch
 * takes, their grids and arguments; what is refused. */
#include "tests/unit/launch_fixture.h"

#include <limits.h>
#include <stdio.h>

#include "templates/common/quantize_args.h"

enum { QB = 2, QH = 3, QS = 300, QD = 128 };

static _Alignas(256) char workspace[1 << 22];

/* The fixture's copies 1,600 bytes of the arguments: more than these have. */
static struct launched {
    enum entry entry;
    unsigned grid, block;
    struct facc_rounding args;
} launched[8];
static int n_launched;

static cu_result q_launch(cu_function f, unsigned gx, unsigned gy, unsigned gz,
                          unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, cu_stream stream, void **params,
                          void **extra)
{
    const long n = (int *)(void *)f - function_object[0];
    (void)stream;
    rec.odd += gx == 0 || gy != 1 || gz != 1 || by != 1 || bz != 1 ||
               shared != 0 || extra != NULL ||
               rec.current != (cu_context)(void *)&context_object;
    struct launched *l = &launched[n_launched < 8 ? n_launched : 7];
    l->entry = (enum entry)(n % N_ENTRIES);
    l->grid = gx;
    l->block = bx;
    memcpy(&l->args, params[0], sizeof l->args);
    n_launched++;
    return 0;
}

static facc_ctx *make_ctx(bool no_jit)
{
    facc_options o = FACC_OPTIONS_INIT;
    facc_ctx *ctx;
    o.cache_mode = 3;
    o.no_jit = no_jit;
    ck_assert_int_eq(facc_ctx_create(&ctx, &o, NULL), FACC_OK);
    return ctx;
}

static facc_quantize_variant variant_of(int dim)
{
    facc_quantize_variant v = FACC_QUANTIZE_VARIANT_INIT;
    v.from = FACC_BF16;
    v.to = FACC_E4M3;
    v.head_dim = dim;
    v.arch = 90;
    return v;
}

static facc_quantize_args args_of(int rank, int block)
{
    facc_quantize_args a = FACC_QUANTIZE_ARGS_INIT;
    a.in = tensor(FACC_BF16, 4, QB, QH, QS, QD);
    a.out = tensor(FACC_E4M3, 4, QB, QH, QS, QD);
    a.scale =
        tensor(FACC_F32, rank, QB, QH, block ? (QS + block - 1) / block : 1, 0);
    a.block = block;
    a.workspace = workspace;
    a.workspace_size = sizeof workspace;
    return a;
}

static void launch_ok(facc_quantizer *q, const facc_quantize_args *a)
{
    facc_error err = FACC_ERROR_INIT;
    n_launched = 0;
    memset(launched, 0, sizeof launched);
    ck_assert_msg(facc_quantizer_launch(q, a, NULL, &err) == FACC_OK, "%s",
                  err.message);
}

static void divides(struct facc_divisor by, unsigned d)
{
    const unsigned n[] = {
        0, d - 1, d, 7 * d - 1, 7 * d, INT_MAX - INT_MAX % d, INT_MAX};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        ck_assert_uint_eq((unsigned)(((uint64_t)n[i] * by.mul >> 32) + n[i]) >>
                              by.shift,
                          n[i] / d);
}

/* Blocks within a slab of 128 rows are rounded in one go; others need what is
 * largest first. */
static void check_launches(facc_quantizer *q)
{
    size_t bytes, align;
    facc_quantize_args a = args_of(3, 64);
    launch_ok(q, &a);
    ck_assert_int_eq(n_launched, 1);
    ck_assert_int_eq(launched[0].entry, ENTRY_ROUND);
    ck_assert_uint_eq(launched[0].grid, QB * QH * 3); /* ceil(300 / 128) */
    ck_assert_uint_eq(launched[0].block, facc_round_threads(QD, 0));
    const struct facc_rounding *r = &launched[0].args;
    ck_assert(r->fused && r->slab == 128 && r->unit == 128 && r->parts == 1);
    ck_assert(r->block == 64 && r->scale_stride[1] == 5 &&
              r->scale_stride[2] == 1 && !r->mean && !r->image);
    a = args_of(3, 96);
    launch_ok(q, &a);
    ck_assert(r->fused && r->slab == 96 && launched[0].grid == QB * QH * 4);
    ck_assert(r->all == QB * QH * 4 && r->ctas == r->all && r->units == 4);
    divides(r->by_unit, 96);
    divides(r->by_units, 4);
    divides(r->by_slabs, 8);
    a = args_of(3, 160); /* two slabs to a block */
    launch_ok(q, &a);
    ck_assert_int_eq(n_launched, 3);
    ck_assert(!r->fused && r->unit == 160 && r->parts == 2);
    divides(r->by_unit, 160);
    divides(r->by_parts, 2);
    ck_assert_int_eq(launched[0].entry, ENTRY_ROUND_AMAX);
    ck_assert_uint_eq(launched[0].grid, QB * QH * 2 * 2);
    ck_assert_int_eq(launched[1].entry, ENTRY_ROUND_SCALE);
    ck_assert_uint_eq(launched[1].grid, QB * QH * 2);
    ck_assert_uint_eq(launched[1].block, FACC_REDUCE_THREADS);
    ck_assert_int_eq(launched[2].entry, ENTRY_ROUND);
    a = args_of(2, 0);
    launch_ok(q, &a);
    ck_assert(n_launched == 3 && launched[1].grid == QB * QH &&
              r->scale_stride[2] == 0 && r->block == 0);
    a = args_of(0, 0);
    launch_ok(q, &a);
    ck_assert(n_launched == 3 && launched[1].grid == 1 && r->per_tensor);
    ck_assert_int_eq(facc_quantizer_workspace_size(q, &a, &bytes, &align, NULL),
                     FACC_OK);
    ck_assert(bytes > 0 && align == 256);
    a.workspace_size = bytes - 1;
    ck_assert_int_eq(facc_quantizer_launch(q, &a, NULL, NULL),
                     FACC_ERR_ARGUMENT);
    static const int32_t cu[4] = {0, 100, 100, QS};
    a = args_of(3, 64);
    a.in.shape[0] = a.out.shape[0] = 1;
    a.cu_seqlens = cu;
    a.n_seqs = 3;
    a.scale = tensor(FACC_F32, 3, 3, QH, 5, 0);
    launch_ok(q, &a); /* ids: 300 / 128 + 3 */
    ck_assert(r->slabs == 5 && launched[0].grid == QH * 5 && r->B == 3);
}

/* Twice the threads; CTAs have several slabs where there are many. */
static void check_hadamard(facc_quantizer *q)
{
    enum { ROWS = 22100, SLABS = QB * QH * 173 };
    const struct facc_rounding *r = &launched[0].args;
    facc_quantize_args a = args_of(2, 0);
    a.hadamard = 1;
    launch_ok(q, &a);
    ck_assert(n_launched == 3 && r->ctas == r->all && r->all == QB * QH * 3);
    ck_assert_uint_eq(launched[0].block, facc_round_threads(QD, 1));
    a.in = tensor(FACC_BF16, 4, QB, QH, ROWS, QD);
    a.out = tensor(FACC_E4M3, 4, QB, QH, ROWS, QD);
    launch_ok(q, &a);
    ck_assert(r->all == SLABS && r->ctas == SLABS / 2);
    ck_assert_uint_eq(launched[0].grid, SLABS / 2);
    ck_assert_uint_eq(launched[2].grid, SLABS / 2);
}

static void check_refusals(facc_quantizer *q)
{
    facc_error err = FACC_ERROR_INIT;
    facc_quantize_args a = args_of(2, 0);
    a.hadamard = 1;
    ck_assert_int_eq(facc_quantizer_launch(q, &a, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "the quantizer is for bf16"));
    a = args_of(2, 0);
    a.in.stride[1] += 4;
    ck_assert_int_eq(facc_quantizer_launch(q, &a, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "no multiple of 16 bytes"));
    a = args_of(2, 0);
    a.device = 1;
    ck_assert_int_eq(facc_quantizer_launch(q, &a, NULL, &err),
                     FACC_ERR_NOT_PREPARED);
}

START_TEST(launches)
{
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx = make_ctx(false);
    facc_quantizer *q = NULL, *again = NULL;
    facc_quantize_variant v = variant_of(QD);
    const facc_status s = facc_quantizer_get(&q, ctx, &v, &err);
    if (s == FACC_ERR_NO_NVRTC) {
        puts("quantizer: SKIPPED, there is no NVRTC");
        facc_ctx_free(ctx);
        return;
    }
    ck_assert_msg(s == FACC_OK, "%s\n%s", err.message, err.log);
    ck_assert_int_eq(facc_quantizer_get(&again, ctx, &v, &err), FACC_OK);
    facc_quantizer_free(again);
    fake_driver(ctx);
    ctx->driver->LaunchKernel = q_launch;
    const facc_quantize_args a = args_of(2, 0);
    ck_assert_int_eq(facc_quantizer_launch(q, &a, NULL, NULL),
                     FACC_ERR_NOT_PREPARED);
    ck_assert_msg(facc_quantizer_load(q, 0, &err) == FACC_OK, "%s",
                  err.message);
    ck_assert_int_eq(rec.loads, 1);
    check_launches(q);
    check_refusals(q);
    v.hadamard = 1;
    ck_assert_int_eq(facc_quantizer_get(&again, ctx, &v, &err), FACC_OK);
    ck_assert_int_eq(facc_quantizer_load(again, 0, &err), FACC_OK);
    check_hadamard(again);
    ck_assert_int_eq(rec.odd, 0);
    facc_quantizer_free(again);
    facc_quantizer_free(q);
    facc_ctx_free(ctx);
}
END_TEST

static const struct {
    facc_dtype from, to;
    int dim, arch, hadamard, mean, image;
    const char *message;
} refusals[] = {
    {FACC_E4M3, FACC_E4M3, 128, 90, 0, 0, 0, "from e4m3 to e4m3"},
    {FACC_BF16, FACC_F16, 128, 90, 0, 0, 0, "from bf16 to f16"},
    {FACC_BF16, FACC_E4M3, 128, 80, 0, 0, 0, "sm_80 has no FP8"},
    {FACC_BF16, FACC_E4M3, 264, 90, 0, 0, 0, "head_dim is 264"},
    {FACC_BF16, FACC_E4M3, 12, 90, 0, 0, 0, "head_dim is 12"},
    {FACC_BF16, FACC_E4M3, 24, 90, 0, 0, 1, "multiples of 16"},
    {FACC_BF16, FACC_E4M3, 96, 90, 1, 0, 0, "hadamard 32, 64, 128"},
    {FACC_BF16, FACC_E4M3, 64, 90, 1, 1, 0, "exclude each other"},
};
enum { N_REFUSALS = sizeof refusals / sizeof *refusals };

START_TEST(refused)
{
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx = make_ctx(false);
    facc_quantizer *q = NULL;
    facc_quantize_variant v = variant_of(refusals[_i].dim);
    v.from = refusals[_i].from;
    v.to = refusals[_i].to;
    v.arch = refusals[_i].arch;
    v.hadamard = refusals[_i].hadamard;
    v.mean = refusals[_i].mean;
    v.image = refusals[_i].image;
    ck_assert(facc_quantizer_get(&q, ctx, &v, &err) != FACC_OK && !q);
    ck_assert_msg(strstr(err.message, refusals[_i].message) != NULL, "%s",
                  err.message);
    facc_ctx_free(ctx);
}
END_TEST

/* No option of facc compile makes one: a manifest does. */
START_TEST(no_jit)
{
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx = make_ctx(true);
    facc_quantizer *q = NULL;
    facc_quantize_variant v = variant_of(64);
    ck_assert_int_eq(facc_quantizer_get(&q, ctx, &v, &err), FACC_ERR_NO_JIT);
    ck_assert_ptr_nonnull(strstr(err.message, "quantize bf16 e4m3 64 sm_90"));
    ck_assert_ptr_nonnull(strstr(
        err.message, "no_jit): record what runs ask for with FACC_MANIFEST and "
                     "give that to \"facc compile --manifest\""));
    facc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {launches, no_jit};
    return run_tests("quantizer", refused, N_REFUSALS, tests, 2);
}

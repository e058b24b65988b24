/* Conversions to and from FP8 against a table, and facc_quantize against loops
 * written by hand. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/facc.h"
#include "runtime/quantize.h"
#include "tests/numeric/fp8_table.h"

static facc_ctx *ctx;

static void open_context(void)
{
    facc_options o = FACC_OPTIONS_INIT;
    o.cache_mode = 3;
    ck_assert_int_eq(facc_ctx_create(&ctx, &o, NULL), FACC_OK);
}

static void close_context(void)
{
    facc_ctx_free(ctx);
}

static double value(const void *p, facc_dtype t, int64_t i)
{
    float x;
    ck_assert_int_eq(
        facc_convert(FACC_F32, &x, t,
                     (const char *)p + i * (int64_t)facc_dtype_size(t), 1),
        FACC_OK);
    return (double)x;
}

/* ---- conversions --------------------------------------------------------- */

static const facc_dtype fp8[2] = {FACC_E4M3, FACC_E5M2};

START_TEST(all_codes)
{
    struct fp8_table t;
    fp8_fill(&t, fp8[_i] == FACC_E4M3);
    for (int code = 0; code < 256; code++) {
        const uint8_t byte = (uint8_t)code;
        const double got = value(&byte, fp8[_i], 0), want = fp8_value(&t, code);
        ck_assert_msg((isnan(got) && isnan(want)) || got == want,
                      "code %02x is %g, want %g", code, got, want);
    }
    ck_assert(fp8_value(&t, t.last) == t.most);
}
END_TEST

static void check_one(const struct fp8_table *t, facc_dtype to, facc_dtype from,
                      const void *element)
{
    uint8_t got;
    const double x = value(element, from, 0);
    ck_assert_int_eq(facc_convert(to, &got, from, element, 1), FACC_OK);
    const int want = fp8_nearest(t, x);
    ck_assert_msg(got == want, "%.17g of %s becomes %02x, want %02x", x,
                  facc_dtype_name(from), got, want);
}

/* Every f16 and bf16. */
START_TEST(all_halves)
{
    enum { N = 65536 };
    static const facc_dtype from[2] = {FACC_F16, FACC_BF16};
    static uint16_t in[N];
    static float x[N];
    static uint8_t got[N];
    struct fp8_table t;
    fp8_fill(&t, fp8[_i] == FACC_E4M3);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < N; i++)
            in[i] = (uint16_t)i;
        ck_assert(facc_convert(FACC_F32, x, from[k], in, N) == FACC_OK &&
                  facc_convert(fp8[_i], got, from[k], in, N) == FACC_OK);
        for (int i = 0; i < N; i++)
            if (got[i] != fp8_nearest(&t, (double)x[i]))
                ck_abort_msg("%04x of %s becomes %02x", (unsigned)i,
                             facc_dtype_name(from[k]), got[i]);
    }
}
END_TEST

/* f32 at each value, at the middle of each pair, and beside these. */
START_TEST(all_middles)
{
    struct fp8_table t;
    fp8_fill(&t, fp8[_i] == FACC_E4M3);
    for (int code = 0; code < t.last; code++)
        for (int k = 0; k < 12; k++) {
            const double a = t.value[code], b = t.value[code + 1];
            float x = (float)(k % 2 ? (a + b) / 2 : a);
            if (k % 6 >= 2)
                x = nextafterf(x, k % 6 >= 4 ? 1e9f : -1e9f);
            x = k >= 6 ? -x : x;
            check_one(&t, fp8[_i], FACC_F32, &x);
        }
    for (int i = 0; i < 2; i++) {
        const float sign = i ? -1 : 1;
        const float odd[] = {(float)t.most * 1.03f * sign,
                             (float)t.most * 1.08f * sign, 3e38f * sign,
                             INFINITY * sign, NAN * sign};
        for (int k = 0; k < 5; k++)
            check_one(&t, fp8[_i], FACC_F32, &odd[k]);
    }
}
END_TEST

/* ---- facc_quantize ------------------------------------------------------- */

enum { B = 2, H = 3, S = 131, N_MAX = B * H * 160 * 64 };

struct call {
    facc_quantize_args a;
    struct fp8_table table;
    int D, n_seqs;
    const int32_t *cu;
    uint32_t in[N_MAX]; /* of any type */
    float x[N_MAX];     /* the same as f32, when it is rounded */
    uint8_t out[N_MAX];
    float scale[4096], mean[4 * H * 64];
    uint8_t image[B * H * 40 * 32 * 64];
};

static uint32_t state = 1;
static double uniform(void)
{
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 23) - 1;
}

static facc_tensor view(void *data, facc_dtype t, int rank,
                        const int64_t *shape)
{
    facc_tensor x = {data, t, rank, {0}, {0}};
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        x.shape[i] = shape[i];
        x.stride[i] = stride;
        stride *= shape[i];
    }
    return x;
}

/* scale's rank; block for rank 3. cu: packed sequences of S rows, or NULL. */
static void open_call(struct call *c, facc_dtype from, facc_dtype to, int D,
                      int rank, int block, const int32_t *cu, int n_seqs)
{
    const int64_t b = cu ? 1 : B, seqs = cu ? n_seqs : B;
    const int64_t shape[4] = {b, H, S, D};
    const int64_t scales[3] = {seqs, H, block ? (S + block - 1) / block : 1};
    const int64_t n = b * H * S * D;
    memset(c, 0, sizeof *c);
    c->a = (facc_quantize_args)FACC_QUANTIZE_ARGS_INIT;
    fp8_fill(&c->table, to == FACC_E4M3);
    c->D = D;
    c->cu = cu;
    c->n_seqs = (int)seqs;
    ck_assert(n * (int64_t)facc_dtype_size(from) <= (int64_t)sizeof c->in);
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)(uniform() * exp(3 * uniform()) + 0.5);
        facc_convert(from, (char *)c->in + i * (int64_t)facc_dtype_size(from),
                     FACC_F32, &x, 1);
    }
    memset(c->scale, 0xff, sizeof c->scale);
    memset(c->mean, 0xff, sizeof c->mean);
    memset(c->image, 0x7f, sizeof c->image);
    c->a.in = view(c->in, from, 4, shape);
    c->a.out = view(c->out, to, 4, shape);
    c->a.scale = view(c->scale, FACC_F32, rank, scales);
    c->a.block = block;
    if (cu) {
        c->a.cu_seqlens = cu;
        c->a.n_seqs = n_seqs;
    }
}

static void want_mean(struct call *c)
{
    const int64_t shape[3] = {c->n_seqs, H, c->D};
    c->a.mean = view(c->mean, FACC_F32, 3, shape);
}

static void want_image(struct call *c)
{
    const int64_t chunk = 32 * c->D;
    const int64_t chunks = facc_v_chunks(S, c->cu ? c->n_seqs : 0);
    const int64_t shape[4] = {c->cu ? 1 : B, H, chunks, chunk};
    ck_assert(shape[0] * H * chunks * chunk <= (int64_t)sizeof c->image);
    c->a.image = view(c->image, c->a.out.dtype, 4, shape);
}

static void quantize(struct call *c)
{
    facc_error err = FACC_ERROR_INIT;
    facc_convert(FACC_F32, c->x, c->a.in.dtype, c->in,
                 (size_t)(c->cu ? 1 : B) * H * S * (size_t)c->D);
    ck_assert_msg(facc_quantize(ctx, &c->a, &err) == FACC_OK, "%s",
                  err.message);
}

/* Element d of row i of a sequence. */
static int64_t place(const struct call *c, int b, int h, int i, int d)
{
    const int row = c->cu ? c->cu[b] + i : i, at = c->cu ? 0 : b;
    return (((int64_t)at * H + h) * S + row) * c->D + d;
}

static int rows(const struct call *c, int b)
{
    return c->cu ? c->cu[b + 1] - c->cu[b] : S;
}

static float input(const struct call *c, int b, int h, int i, int d)
{
    return c->x[place(c, b, h, i, d)];
}

static float centred(const struct call *c, int b, int h, int i, int d)
{
    const float x = input(c, b, h, i, d);
    return c->a.mean.data ? x - c->mean[(b * H + h) * c->D + d] : x;
}

static float scale_of(const struct call *c, int b, int h, int i)
{
    const int rank = c->a.scale.rank;
    const int blocks = c->a.block ? (S + c->a.block - 1) / c->a.block : 1;
    if (rank == 0)
        return c->scale[0];
    return rank == 2 ? c->scale[b * H + h]
                     : c->scale[(b * H + h) * blocks + i / c->a.block];
}

/* The largest finite magnitude of what shares row i's scale. */
static float largest(const struct call *c, int b0, int h0, int i0)
{
    const int rank = c->a.scale.rank, block = c->a.block;
    float most = 0;
    for (int b = 0; b < c->n_seqs; b++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < rows(c, b); i++)
                for (int d = 0; d < c->D; d++) {
                    if ((rank >= 2 && (b != b0 || h != h0)) ||
                        (rank == 3 && i / block != i0 / block))
                        continue;
                    const float x = fabsf(centred(c, b, h, i, d));
                    most = isfinite(x) && x > most ? x : most;
                }
    return most;
}

static void check_scale(const struct call *c, int b, int h, int i)
{
    const float most = largest(c, b, h, i), got = scale_of(c, b, h, i);
    const float want = most > 0 ? most / (float)c->table.most : 1;
    if (!c->a.power_of_two) {
        ck_assert_msg(got == want, "scale %.9g, want %.9g", (double)got,
                      (double)want);
        return;
    }
    int exponent;
    ck_assert(frexpf(got, &exponent) == 0.5f && got >= want && got < 2 * want);
}

static void check_mean(const struct call *c, int b, int h)
{
    for (int d = 0; d < c->D; d++) {
        double sum = 0;
        for (int i = 0; i < rows(c, b); i++)
            sum += (double)input(c, b, h, i, d);
        const double want = rows(c, b) > 0 ? sum / rows(c, b) : 0;
        ck_assert(fabs((double)c->mean[(b * H + h) * c->D + d] - want) <
                  1e-6 * fmax(1, fabs(want)));
    }
}

static void check_elements(const struct call *c, int b, int h)
{
    for (int i = 0; i < rows(c, b); i++)
        for (int d = 0; d < c->D; d++) {
            const float r = 1 / scale_of(c, b, h, i);
            const float y = centred(c, b, h, i, d) * r;
            const int want =
                fp8_nearest(&c->table, isfinite(y) ? (double)y : (double)NAN);
            const int got = c->out[place(c, b, h, i, d)];
            if (got != want)
                ck_abort_msg("[%d][%d][%d][%d] is %02x, want %02x", b, h, i, d,
                             got, want);
        }
}

/* Byte by byte: token t of channel d is where facc.h says, others are 0. */
static void check_image(const struct call *c, int b, int h)
{
    const int64_t chunks = facc_v_chunks(S, c->cu ? c->n_seqs : 0);
    const int64_t first = c->cu ? c->cu[b] / 32 + 4 * b : 0;
    const uint8_t *head =
        c->image + (((c->cu ? 0 : b) * H + h) * chunks + first) * 32 * c->D;
    const int n = rows(c, b), all = (n + 31) / 32 + 3;
    for (int k = 0; k < all * 32; k++)
        for (int d = 0; d < c->D; d++) {
            const int t = k % 16, unit = (k % 32 / 16) ^ (d / 4 % 2);
            const int at =
                t < 8 ? t / 2 * 4 + t % 2 : (t - 8) / 2 * 4 + 2 + t % 2;
            const int want = k < n ? c->out[place(c, b, h, k, d)] : 0;
            const int got = head[(k / 32 * c->D + d) * 32 + unit * 16 + at];
            if (got != want)
                ck_abort_msg("token %d channel %d: %02x, want %02x", k, d, got,
                             want);
        }
}

static void check_call(const struct call *c)
{
    for (int b = 0; b < c->n_seqs; b++)
        for (int h = 0; h < H; h++) {
            for (int i = 0; i < rows(c, b); i += 65)
                check_scale(c, b, h, i);
            if (c->a.mean.data)
                check_mean(c, b, h);
            check_elements(c, b, h);
            if (c->a.image.data)
                check_image(c, b, h);
        }
}

static struct call call;

START_TEST(granularities)
{
    static const facc_dtype from[] = {FACC_F32, FACC_F16, FACC_BF16};
    static const int ranks[] = {0, 2, 3}, blocks[] = {0, 0, 32, 96, 160};
    for (int i = 0; i < 5; i++)
        for (int extra = 0; extra < 2; extra++) {
            open_call(&call, from[(i + extra) % 3], fp8[_i], 16,
                      ranks[i < 2 ? i : 2], blocks[i], NULL, 0);
            call.a.power_of_two = extra;
            if (extra)
                want_mean(&call);
            want_image(&call);
            quantize(&call);
            check_call(&call);
        }
}
END_TEST

START_TEST(packed)
{
    static const int32_t cu[] = {0, 5, 5, 100, S};
    static const int ranks[] = {0, 2, 3};
    open_call(&call, FACC_BF16, FACC_E4M3, 16, ranks[_i], _i == 2 ? 64 : 0, cu,
              4);
    want_mean(&call);
    want_image(&call);
    quantize(&call);
    check_call(&call);
}
END_TEST

/* Zeros, the least and the largest numbers, NaN and infinities. */
START_TEST(odd_values)
{
    open_call(&call, FACC_F32, fp8[_i], 16, 3, 32, NULL, 0);
    float *x = (float *)(void *)call.in;
    for (int i = 0; i < 32 * 16; i++) {
        x[place(&call, 0, 0, i / 16, i % 16)] = i % 2 ? 0.0f : -0.0f;
        x[place(&call, 0, 1, i / 16, i % 16)] = (float)(i - 255) * 1e-45f;
        x[place(&call, 0, 2, i / 16, i % 16)] = (float)(i - 255) * 1.3e36f;
        x[place(&call, 1, 0, i / 16, i % 16)] = i % 2 ? INFINITY : NAN;
    }
    x[place(&call, 1, 1, 3, 3)] = NAN;
    x[place(&call, 1, 1, 4, 3)] = -INFINITY;
    want_image(&call);
    quantize(&call);
    for (int h = 0; h < H; h++)
        check_elements(&call, 0, h), check_image(&call, 0, h);
    check_elements(&call, 1, 0);
    check_elements(&call, 1, 1);
    ck_assert(scale_of(&call, 0, 0, 0) == 1);
    ck_assert(scale_of(&call, 0, 1, 0) == 0x1p-126f);
    ck_assert(scale_of(&call, 1, 0, 0) == 1); /* nothing is finite */
    check_scale(&call, 0, 2, 0);
    check_scale(&call, 1, 1, 0);
    ck_assert_int_eq(call.out[place(&call, 0, 0, 0, 0)], 0x80);
    ck_assert_int_eq(call.out[place(&call, 1, 1, 3, 3)], 0x7f);
    ck_assert_int_eq(call.out[place(&call, 1, 1, 4, 3)], 0x7f);
}
END_TEST

/* A mean is of the finite values; NaN stays where it is. */
START_TEST(odd_values_and_means)
{
    open_call(&call, FACC_F32, FACC_E4M3, 16, 2, 0, NULL, 0);
    float *x = (float *)(void *)call.in;
    for (int i = 0; i < S; i++)
        x[place(&call, 0, 0, i, 2)] = i == 7 ? NAN : i == 9 ? INFINITY : 8;
    want_mean(&call);
    quantize(&call);
    ck_assert(fabs((double)call.mean[2] - 8.0 * (S - 2) / S) < 1e-6);
    check_elements(&call, 0, 0);
    for (int i = 0; i < S; i++)
        ck_assert_int_eq((call.out[place(&call, 0, 0, i, 2)] & 0x7f) == 0x7f,
                         i == 7 || i == 9);
}
END_TEST

/* H_ij = (-1)^(number of bits of i & j), by that definition in double. */
START_TEST(hadamard)
{
    const int D = 64;
    uint64_t signs[4];
    open_call(&call, FACC_F32, FACC_E4M3, D, 2, 0, NULL, 0);
    call.a.hadamard = 1;
    call.a.seed = (uint64_t)_i * 77;
    quantize(&call);
    quantize_signs(call.a.seed, signs);
    for (int i = 0; i < S; i += 10)
        for (int d = 0; d < D; d++) {
            double y = 0;
            for (int k = 0; k < D; k++) {
                const double s = signs[0] >> k & 1 ? -1 : 1;
                y += s * (double)input(&call, 1, 2, i, k) *
                     (__builtin_popcount((unsigned)(k & d)) % 2 ? -1 : 1);
            }
            y /= 8;
            const double scale = (double)scale_of(&call, 1, 2, i);
            const double got =
                scale *
                fp8_value(&call.table, call.out[place(&call, 1, 2, i, d)]);
            ck_assert(fabs(got - y) <=
                      fabs(y) / 16 + scale * 0x1p-10 + 1e-5 * scale);
        }
    /* the other seeds' signs are others */
    uint64_t other[4];
    quantize_signs(call.a.seed + 1, other);
    ck_assert(memcmp(signs, other, sizeof signs) != 0);
}
END_TEST

/* out as [B][S][H][D] has the same bytes. */
START_TEST(strides)
{
    static struct call plain;
    open_call(&plain, FACC_F16, FACC_E4M3, 16, 3, 64, NULL, 0);
    state = 5;
    open_call(&call, FACC_F16, FACC_E4M3, 16, 3, 64, NULL, 0);
    memcpy(plain.in, call.in, sizeof call.in);
    quantize(&call);
    plain.a.out.stride[0] = (int64_t)S * H * 16;
    plain.a.out.stride[1] = 16;
    plain.a.out.stride[2] = (int64_t)H * 16;
    quantize(&plain);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < S; i++)
                ck_assert_mem_eq(&plain.out[((b * S + i) * H + h) * 16],
                                 &call.out[place(&call, b, h, i, 0)], 16);
    ck_assert_mem_eq(plain.scale, call.scale, sizeof call.scale);
}
END_TEST

/* ---- what does not fit --------------------------------------------------- */

static void in_dtype(struct call *c)
{
    c->a.in.dtype = FACC_E4M3;
}
static void out_dtype(struct call *c)
{
    c->a.out.dtype = FACC_F16;
}
static void out_shape(struct call *c)
{
    c->a.out.shape[2]--;
}
static void out_broadcast(struct call *c)
{
    c->a.out.stride[0] = 0;
}
static void scale_rank(struct call *c)
{
    c->a.scale.rank = 1;
}
static void scale_blocks(struct call *c)
{
    c->a.scale.shape[2]++;
}
static void odd_block(struct call *c)
{
    c->a.block = 40;
}
static void mean_and_hadamard(struct call *c)
{
    want_mean(c);
    c->a.hadamard = 1;
    c->a.in.shape[3] = c->a.out.shape[3] = c->D = 32;
}
static void hadamard_dim(struct call *c)
{
    c->a.hadamard = 1;
}
static void no_data(struct call *c)
{
    c->a.out.data = NULL;
}
static void image_chunks(struct call *c)
{
    want_image(c);
    c->a.image.shape[2]--;
}
static void seqs_without_offsets(struct call *c)
{
    c->a.n_seqs = 2;
}
static void offsets_descend(struct call *c)
{
    static const int32_t cu[] = {0, 40, 30};
    c->a.in.shape[0] = c->a.out.shape[0] = 1;
    c->a.cu_seqlens = cu;
    c->a.n_seqs = 2;
}

static const struct {
    void (*change)(struct call *);
    facc_status status;
    const char *message;
} changes[] = {
    {in_dtype, FACC_ERR_ARGUMENT, "in: dtype is e4m3"},
    {out_dtype, FACC_ERR_ARGUMENT, "out: dtype is f16, expected e4m3 or e5m2"},
    {out_shape, FACC_ERR_ARGUMENT, "out: extent 2 is 130, expected 131"},
    {out_broadcast, FACC_ERR_ARGUMENT, "out: stride 0 is 0 (a broadcast)"},
    {scale_rank, FACC_ERR_ARGUMENT, "scale: rank is 1, expected one number"},
    {scale_blocks, FACC_ERR_ARGUMENT, "scale: extent 2 is 6, expected 5"},
    {odd_block, FACC_ERR_ARGUMENT, "block is 40"},
    {mean_and_hadamard, FACC_ERR_ARGUMENT, "exclude each other"},
    {hadamard_dim, FACC_ERR_UNSUPPORTED, "hadamard: D is 16"},
    {no_data, FACC_ERR_ARGUMENT, "out: data is NULL"},
    {image_chunks, FACC_ERR_ARGUMENT, "image: 7 chunks, 8 are needed"},
    {seqs_without_offsets, FACC_ERR_ARGUMENT, "cu_seqlens is NULL"},
    {offsets_descend, FACC_ERR_ARGUMENT, "cu_seqlens[1] is 40"},
};
enum { N_CHANGES = sizeof changes / sizeof *changes };

START_TEST(what_does_not_fit)
{
    facc_error err = FACC_ERROR_INIT;
    open_call(&call, FACC_F32, FACC_E4M3, 16, 3, 32, NULL, 0);
    changes[_i].change(&call);
    ck_assert_int_eq(facc_quantize(ctx, &call.a, &err), changes[_i].status);
    ck_assert_msg(strstr(err.message, changes[_i].message) != NULL, "%s",
                  err.message);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("quantize");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, open_context, close_context);
    tcase_add_loop_test(t, all_codes, 0, 2);
    tcase_add_loop_test(t, all_halves, 0, 2);
    tcase_add_loop_test(t, all_middles, 0, 2);
    tcase_add_loop_test(t, granularities, 0, 2);
    tcase_add_loop_test(t, packed, 0, 3);
    tcase_add_loop_test(t, odd_values, 0, 2);
    tcase_add_test(t, odd_values_and_means);
    tcase_add_loop_test(t, hadamard, 0, 2);
    tcase_add_test(t, strides);
    tcase_add_loop_test(t, what_does_not_fit, 0, N_CHANGES);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    const int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

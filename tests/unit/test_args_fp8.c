/* What a call with FP8 tensors may bring, and the messages when it does not
 * fit: one change of a call that fits at a time. */
#include "tests/unit/call_fixture.h"

#include "templates/common/fp8_args.h"

static facc_tensor dq, dk, dv, mean, image;

/* e4m3, with everything; on the CPU, where no kernel is asked for. */
static void open_fp8(struct call *c)
{
    open_call(c);
    facc_args *a = &c->args;
    a->q.dtype = a->k.dtype = a->v.dtype = FACC_E4M3;
    a->o.dtype = FACC_BF16;
    dq = tensor(FACC_F32, 3, B, H, 4, 0); /* ceil(100 / 32) */
    dk = tensor(FACC_F32, 3, B, HKV, 2, 0);
    dv = tensor(FACC_F32, 2, B, HKV, 0, 0);
    mean = tensor(FACC_F32, 3, B, HKV, DV, 0);
    image = tensor(FACC_E4M3, 4, B, HKV, 6, 32 * DV); /* ceil(70 / 32) + 3 */
    a->descale_q = &dq;
    a->descale_k = &dk;
    a->descale_v = &dv;
    a->descale_block_q = 32;
    a->descale_block_kv = 64;
    a->v_mean = &mean;
    a->v_image = &image;
}

/* As the GPU asks: select.c is not. */
static bool check_as(struct call *c, bool gpu, bool blocks, struct diag *d)
{
    const struct args_rules rules = {
        .stage = "check", .gpu = gpu, .block_scales = blocks};
    struct args_sizes sizes;
    diag_init(d);
    return args_check(&c->args, &rules, &c->program->signature, &sizes, d);
}

START_TEST(what_fits)
{
    struct call c;
    struct diag d;
    open_fp8(&c);
    for (int gpu = 0; gpu < 2; gpu++)
        ck_assert_msg(check_as(&c, gpu, true, &d), "%s", d.message);
    dq = tensor(FACC_F32, 3, B, HKV, 9, 0); /* of KV heads, more blocks */
    ck_assert_msg(check_as(&c, true, true, &d), "%s", d.message);
    dq.rank = dk.rank = dv.rank = 0;
    dk.shape[0] = 77; /* not read */
    ck_assert_msg(check_as(&c, true, false, &d), "%s", d.message);
    c.args.v.data = NULL; /* the image has it */
    ck_assert_msg(check_as(&c, true, false, &d), "%s", d.message);
    c.args.descale_q = c.args.descale_v = NULL;
    c.args.v_mean = NULL;
    dk = tensor(FACC_F32, 2, B, HKV, 0, 0);
    dk.stride[0] = dk.stride[1] = 0;
    ck_assert_msg(check_as(&c, true, false, &d), "%s", d.message);
    pack_call(&c); /* N_SEQS in a row of SKV keys */
    dk = tensor(FACC_F32, 3, N_SEQS, HKV, 1, 0);
    image = tensor(FACC_E4M3, 4, 1, HKV, SKV / 32 + 4 * N_SEQS, 32 * DV);
    const struct args_rules rules = {
        .stage = "check", .gpu = true, .block_scales = true, .packed = true};
    struct args_sizes sizes;
    ck_assert_msg(
        args_check(&c.args, &rules, &c.program->signature, &sizes, &d), "%s",
        d.message);
    close_call(&c);
}
END_TEST

START_TEST(chunks)
{
    ck_assert_int_eq(facc_v_chunks(0, 0), 3);
    ck_assert_int_eq(facc_v_chunks(1, 0), 4);
    ck_assert_int_eq(facc_v_chunks(32, 0), 4);
    ck_assert_int_eq(facc_v_chunks(33, 0), 5);
    ck_assert_int_eq(facc_v_chunks(142, 4), 4 + 16);
    ck_assert_int_eq(facc_v_chunks(-1, 0), 0);
    ck_assert_int_eq(facc_v_chunks(5, -1), 0);
    ck_assert_int_eq(facc_v_chunks(INT64_MAX, 0), 0);
}
END_TEST

/* Chunks of packed sequences, whatever their lengths, do not meet. */
START_TEST(packed_chunks)
{
    for (int first = 0; first < 70; first++)
        for (int n = 0; n < 140; n++)
            for (int b = 0; b < 3; b++) {
                const int end =
                    facc_v_chunk(first, b) + (n + 31) / 32 + FACC_V_PAD;
                ck_assert_int_le(end, facc_v_chunk(first + n, b + 1));
            }
}
END_TEST

/* All bytes of a chunk, each once. */
START_TEST(bytes_of_a_chunk)
{
    bool seen[32 * 24] = {false};
    for (int d = 0; d < 24; d++)
        for (int t = 0; t < 32; t++) {
            const int at = facc_v_byte(d, t);
            ck_assert(at >= 32 * d && at < 32 * (d + 1) && !seen[at]);
            seen[at] = true;
        }
    ck_assert_int_eq(facc_v_byte(0, 0), 0);
    ck_assert_int_eq(facc_v_byte(0, 1), 1);
    ck_assert_int_eq(facc_v_byte(0, 8), 2);
    ck_assert_int_eq(facc_v_byte(0, 9), 3);
    ck_assert_int_eq(facc_v_byte(0, 2), 4);
    ck_assert_int_eq(facc_v_byte(3, 16), 96 + 16);
    ck_assert_int_eq(facc_v_byte(4, 16), 128);
    ck_assert_int_eq(facc_v_byte(4, 15), 128 + 31);
}
END_TEST

/* ---- one change each ---------------------------------------------------- */

static void f16_inputs(struct call *c)
{
    c->args.q.dtype = c->args.k.dtype = c->args.v.dtype = FACC_F16;
}
static void scale_rank(struct call *c)
{
    (void)c;
    dk.rank = 1;
}
static void scale_dtype(struct call *c)
{
    (void)c;
    dv.dtype = FACC_F64;
}
static void scale_heads(struct call *c)
{
    (void)c;
    dk.shape[1] = H;
}
static void q_scale_heads(struct call *c)
{
    (void)c;
    dq.shape[1] = 2;
}
static void scale_batch(struct call *c)
{
    (void)c;
    dv.shape[0] = 1;
}
static void no_scale_data(struct call *c)
{
    (void)c;
    dq.data = NULL;
}
static void few_blocks(struct call *c)
{
    (void)c;
    dk.shape[2] = 1;
}
static void no_block(struct call *c)
{
    c->args.descale_block_q = 0;
}
static void odd_block(struct call *c)
{
    c->args.descale_block_kv = 80;
}
static void mean_dim(struct call *c)
{
    (void)c;
    mean.shape[2] = DV - 1;
}
static void mean_stride(struct call *c)
{
    (void)c;
    mean.stride[2] = 2;
}
static void image_dtype(struct call *c)
{
    (void)c;
    image.dtype = FACC_E5M2;
}
static void image_chunks(struct call *c)
{
    (void)c;
    image.shape[2] = 5;
}
static void image_rows(struct call *c)
{
    (void)c;
    image.stride[2] = 64 * DV;
}
static void image_stride(struct call *c)
{
    (void)c;
    image.stride[1] += 64;
}
static void image_data(struct call *c)
{
    (void)c;
    image.data = memory + 32;
}

static const struct {
    void (*change)(struct call *);
    const char *message;
} changes[] = {
    {f16_inputs, "descale_q, descale_k, descale_v, v_mean and v_image are for "
                 "e4m3 and e5m2; q, k and v are f16"},
    {scale_rank, "descale_k: rank is 1, expected one number, [B, Hkv] or [B, "
                 "Hkv, blocks]"},
    {scale_dtype, "descale_v: dtype is f64, expected f32"},
    {scale_heads, "descale_k: extent 1 is 6, expected 3 (one number, [B, Hkv] "
                  "or [B, Hkv, blocks])"},
    {q_scale_heads, "descale_q: extent 1 is 2, expected 3 (one number, [B, "
                    "Hkv] or [B, Hkv, blocks])"},
    {scale_batch, "descale_v: extent 0 is 1, expected 2 (one number, [B, Hkv] "
                  "or [B, Hkv, blocks])"},
    {no_scale_data, "descale_q: data is NULL"},
    {few_blocks, "descale_k: 1 blocks of 64 rows, 2 are needed for 70 rows"},
    {no_block, "descale_block_q is 0, but descale_q has a value for each "
               "block of rows: it must be a multiple of 32"},
    {odd_block, "descale_block_kv is 80, but descale_k has a value for each "
                "block of rows: it must be a multiple of 32"},
    {mean_dim, "v_mean: extent 2 is 31, expected 32 ([B, Hkv, Dv])"},
    {mean_stride, "v_mean: the last dimension has stride 2, must be 1"},
    {image_dtype, "v_image: dtype is e5m2, expected e4m3"},
    {image_chunks, "v_image: 5 chunks, 6 are needed (facc_v_chunks)"},
    {image_rows, "v_image: chunks must be contiguous: strides 2 and 3 are "
                 "2048 and 1, expected 1024 and 1"},
    {image_stride,
     "v_image: stride 1 is 6208 bytes, must be a multiple of 128"},
    {image_data, "v_image: data is not aligned to 128 bytes"},
};
enum { N_CHANGES = sizeof changes / sizeof *changes };

START_TEST(what_does_not)
{
    struct call c;
    struct diag d;
    open_fp8(&c);
    changes[_i].change(&c);
    ck_assert(!check_as(&c, true, true, &d));
    ck_assert_int_eq(d.status, FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(d.message, changes[_i].message));
    close_call(&c);
}
END_TEST

/* A kernel is for descales of blocks or for none. */
START_TEST(of_another_variant)
{
    struct call c;
    struct diag d;
    facc_error err = FACC_ERROR_INIT;
    open_fp8(&c);
    ck_assert(!check_as(&c, true, false, &d));
    ck_assert_ptr_nonnull(strstr(d.message, "the variant is for none"));
    dq.rank = dk.rank = 2;
    ck_assert(!check_as(&c, true, true, &d));
    ck_assert_ptr_nonnull(strstr(d.message, "block_scales 0"));
    c.variant.block_scales = 1; /* of f16 */
    ck_assert_int_eq(check(&c, &err), FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "block_scales is for e4m3"));
    c.variant.block_scales = 0;
    c.variant.transposes_v = 1;
    ck_assert_int_eq(check(&c, &err), FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "transposes_v is for e4m3"));
    c.variant.transposes_v = 0;
    c.variant.exact_peaks = 1;
    ck_assert_int_eq(check(&c, &err), FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "exact_peaks is for e4m3"));
    close_call(&c);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {what_fits, chunks, packed_chunks,
                                  bytes_of_a_chunk, of_another_variant};
    return run_tests("args_fp8", what_does_not, N_CHANGES, tests,
                     sizeof tests / sizeof *tests);
}

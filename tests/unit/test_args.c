/* Arguments of a call: everything that facc_kernel_check (and so a launch)
 * refuses, with the words it uses, and what it must not refuse. */
#include "tests/unit/call_fixture.h"

#include <math.h>
#include <stdio.h>

/* ---- refusals ---------------------------------------------------------- */

static void q_rank(struct call *c)
{
    c->args.q.rank = 3;
}
static void q_null(struct call *c)
{
    c->args.q.data = NULL;
}
static void q_dtype(struct call *c)
{
    c->args.q.dtype = FACC_BF16;
}
static void k_dtype(struct call *c)
{
    c->args.k.dtype = FACC_BF16;
}
static void q_unknown(struct call *c)
{
    c->args.q.dtype = (facc_dtype)99;
}
static void o_dtype(struct call *c)
{
    c->args.o.dtype = FACC_F32;
}
static void lse_dtype(struct call *c)
{
    c->args.lse.dtype = FACC_F16;
}
static void q_negative(struct call *c)
{
    c->args.q.shape[2] = -1;
}
static void q_huge(struct call *c)
{
    c->args.q.shape[2] = (int64_t)1 << 31;
}
static void q_far(struct call *c)
{
    c->args.q.stride[0] = INT64_MAX;
}
static void q_odd_address(struct call *c)
{
    c->args.q.data = memory + 1;
}
static void k_batch(struct call *c)
{
    c->args.k.shape[0] = 1;
}
static void k_depth(struct call *c)
{
    c->args.k.shape[3] = 32;
}
static void v_length(struct call *c)
{
    c->args.v.shape[2] = SKV + 1;
}
static void v_heads(struct call *c)
{
    c->args.v.shape[1] = 1;
}
static void o_shape(struct call *c)
{
    c->args.o.shape[3] = D;
}
static void lse_shape(struct call *c)
{
    c->args.lse.shape[2] = 1;
}
static void heads_ratio(struct call *c)
{
    c->args.k.shape[1] = c->args.v.shape[1] = 4;
}
static void no_kv_heads(struct call *c)
{
    c->args.k.shape[1] = c->args.v.shape[1] = 0;
}
static void other_dims(struct call *c)
{
    c->args.q.shape[3] = c->args.k.shape[3] = 128;
}
static void q_stride(struct call *c)
{
    c->args.q.stride[3] = 2;
}
static void o_broadcast(struct call *c)
{
    c->args.o.stride[1] = 0;
}
static void lse_broadcast(struct call *c)
{
    c->args.lse.stride[0] = 0;
}
static void scale_nan(struct call *c)
{
    c->args.scale = NAN;
}
static void scale_inf(struct call *c)
{
    c->args.scale = -INFINITY;
}
static void scale_big(struct call *c)
{
    c->args.scale = 1e300;
}
static void seq_odd(struct call *c)
{
    c->args.seqused_q = (const int32_t *)(const void *)(memory + 2);
}
static void tensor_missing(struct call *c)
{
    c->args.n_tensors = 1;
}
static void tensor_null(struct call *c)
{
    c->args.tensors = NULL;
}
static void param_missing(struct call *c)
{
    c->args.n_params = 3;
}
static void slopes_dtype(struct call *c)
{
    c->captured[0].dtype = FACC_F16;
}
static void slopes_rank(struct call *c)
{
    c->captured[0].rank = 2;
}
static void slopes_shape(struct call *c)
{
    c->captured[0].shape[0] = HKV;
}
static void slopes_data(struct call *c)
{
    c->captured[0].data = NULL;
}
static void doc_shape(struct call *c)
{
    c->captured[1].shape[1] = SQ;
}
static void window_big(struct call *c)
{
    c->params[0].i = (int64_t)1 << 31;
}
static void gain_big(struct call *c)
{
    c->params[1].f = 1e39;
}
static void no_size(struct call *c)
{
    c->args.struct_size = 0;
}
static void variant_size(struct call *c)
{
    c->variant.struct_size = 3;
}
static void variant_dim(struct call *c)
{
    c->variant.head_dim = 60;
}
static void variant_dtype(struct call *c)
{
    c->variant.dtype = FACC_E4M3;
}
static void variant_old(struct call *c)
{
    c->variant.arch = 75;
}
static void variant_unknown(struct call *c)
{
    c->variant.arch = 88;
}
static void too_many_tiles(struct call *c)
{
    c->args.q.shape[0] = c->args.k.shape[0] = c->args.v.shape[0] = 1 << 30;
    c->args.o.shape[0] = c->captured[1].shape[0] = 1 << 30;
    c->args.lse.data = NULL;
}

static void too_long(struct call *c)
{
    c->args.k.shape[2] = c->args.v.shape[2] = (1 << 30) + 1;
    c->args.k.stride[2] = c->args.v.stride[2] = 0;
}

/* ---- packed sequences and block masks ---- */

static void cu_alone(struct call *c)
{
    pack_call(c);
    c->args.cu_seqlens_kv = NULL;
}
static void cu_kv_alone(struct call *c)
{
    pack_call(c);
    c->args.cu_seqlens_q = NULL;
}
static void cu_odd(struct call *c)
{
    pack_call(c);
    c->args.cu_seqlens_kv = (const int32_t *)(const void *)(memory + 1);
}
static void cu_batch(struct call *c)
{
    pack_call(c);
    c->args.q.shape[0] = c->args.k.shape[0] = c->args.v.shape[0] = B;
    c->args.o.shape[0] = c->args.lse.shape[0] = B;
}
static void cu_no_count(struct call *c)
{
    pack_call(c);
    c->args.n_seqs = 0;
}
static void cu_negative(struct call *c)
{
    pack_call(c);
    c->args.max_seqlen_kv = -1;
}
static void cu_longest(struct call *c) /* "kv" of doc is then all of Tkv */
{
    pack_call(c);
    c->args.max_seqlen_kv = 0;
}
static void cu_too_many(struct call *c)
{
    pack_call(c);
    c->captured[1].shape[0] = c->args.n_seqs = (1 << 30) + 1;
}
static void cu_forgotten(struct call *c)
{
    c->args.n_seqs = 1;
}
static void longest_forgotten(struct call *c)
{
    c->args.max_seqlen_q = 5;
}

static void not_made_packed(struct call *c)
{
    pack_call(c);
    c->variant.packed = 0;
}
static void made_packed(struct call *c)
{
    c->variant.packed = 1;
}

static facc_block_mask lists; /* what mask_call fills: of this process */

static void lists_missing(struct call *c)
{
    c->variant.block_mask = 1;
}
static void lists_unasked(struct call *c)
{
    mask_call(c, &lists);
    c->variant.block_mask = 0;
}
static void lists_version(struct call *c)
{
    mask_call(c, &lists);
    lists.struct_size = 0;
}
static void lists_blocks(struct call *c)
{
    mask_call(c, &lists);
    lists.block_kv = 0;
}
static void lists_rows(struct call *c)
{
    mask_call(c, &lists);
    lists.rows--;
}
static void lists_cols(struct call *c)
{
    mask_call(c, &lists);
    lists.cols--;
}
static void lists_counts(struct call *c)
{
    mask_call(c, &lists);
    lists.kv_num_blocks = NULL;
}
static void lists_indices(struct call *c)
{
    mask_call(c, &lists);
    lists.kv_indices = NULL;
}
static void lists_half(struct call *c)
{
    mask_call(c, &lists);
    lists.full_kv_indices = NULL;
}
static void lists_odd(struct call *c)
{
    mask_call(c, &lists);
    lists.full_kv_indices = (const int32_t *)(const void *)(memory + 2);
}
static void lists_of_packed(struct call *c)
{
    pack_call(c);
    mask_call(c, &lists);
    lists.rows = 1; /* of 32: the longest sequence has MAX_Q */
}

static void lists_of_two_masks(struct call *c)
{
    mask_call(c, &lists);
    c->program->signature.no_full_blocks = true;
}

/* ---- sinks ---- */

static facc_tensor sinks; /* of this process */

static void give_sinks(struct call *c)
{
    sinks = tensor(FACC_F32, 1, H, 0, 0, 0);
    c->args.sinks = &sinks;
    c->variant.sinks = 1;
}
static void sinks_missing(struct call *c)
{
    c->variant.sinks = 1;
}
static void sinks_unasked(struct call *c)
{
    give_sinks(c);
    c->variant.sinks = 0;
}
static void sinks_dtype(struct call *c)
{
    give_sinks(c);
    sinks.dtype = FACC_BF16;
}
static void sinks_unknown(struct call *c)
{
    give_sinks(c);
    sinks.dtype = (facc_dtype)77;
}
static void sinks_rank(struct call *c)
{
    give_sinks(c);
    sinks = tensor(FACC_F32, 2, B, H, 0, 0);
}
static void sinks_kv_heads(struct call *c)
{
    give_sinks(c);
    sinks.shape[0] = HKV;
}
static void sinks_null(struct call *c)
{
    give_sinks(c);
    sinks.data = NULL;
}
static void sinks_odd(struct call *c)
{
    give_sinks(c);
    sinks.data = memory + 2;
}
static void sinks_far(struct call *c)
{
    give_sinks(c);
    sinks.stride[0] = INT64_MAX;
}

/* ---- dropout ---- */

static void dropout_unasked(struct call *c)
{
    c->args.dropout_p = 0.25;
}
static void dropout_certain(struct call *c)
{
    c->args.dropout_p = 1;
    c->variant.dropout = 1;
}
static void dropout_negative(struct call *c)
{
    c->args.dropout_p = -0.5;
}
static void dropout_nan(struct call *c)
{
    c->args.dropout_p = NAN;
    c->variant.dropout = 1;
}

static void dropout_fp8(struct call *c)
{
    c->variant.dtype = FACC_E4M3;
    c->variant.dropout = 1;
}
static void dropout_v_mean(struct call *c)
{
    static facc_tensor mean;
    c->args.dropout_p = 0.5;
    c->args.v_mean = &mean;
    c->variant.dropout = 1;
}

struct refusal {
    void (*change)(struct call *c);
    facc_status status;
    const char *says;
};

static const struct refusal refusals[] = {
    {q_rank, FACC_ERR_ARGUMENT, "q: rank is 3, expected 4 ([B, H, Sq, D])"},
    {q_null, FACC_ERR_ARGUMENT, "q: data is NULL"},
    {q_dtype, FACC_ERR_ARGUMENT, "q: dtype is bf16, expected f16"},
    {k_dtype, FACC_ERR_ARGUMENT, "k: dtype is bf16, expected f16"},
    {q_unknown, FACC_ERR_ARGUMENT, "q: unknown dtype 99"},
    {o_dtype, FACC_ERR_ARGUMENT, "o: dtype is f32, expected f16"},
    {lse_dtype, FACC_ERR_ARGUMENT, "lse: dtype is f16, expected f32"},
    {q_negative, FACC_ERR_ARGUMENT, "q: extent 2 is -1"},
    {q_huge, FACC_ERR_ARGUMENT, "q: extent 2 is 2147483648"},
    {q_far, FACC_ERR_ARGUMENT, "q: its strides reach beyond"},
    {q_odd_address, FACC_ERR_ARGUMENT, "q: data is not aligned"},
    {k_batch, FACC_ERR_ARGUMENT,
     "k: shape is [1, 3, 70, 64], expected [2, 3, 70, 64]"},
    {k_depth, FACC_ERR_ARGUMENT,
     "k: shape is [2, 3, 70, 32], expected [2, 3, 70, 64]"},
    {v_length, FACC_ERR_ARGUMENT, "v: shape is [2, 3, 71, 32], expected"},
    {v_heads, FACC_ERR_ARGUMENT, "v: shape is [2, 1, 70, 32], expected"},
    {o_shape, FACC_ERR_ARGUMENT,
     "o: shape is [2, 6, 100, 64], expected [2, 6, 100, 32]"},
    {lse_shape, FACC_ERR_ARGUMENT, "lse: shape is [2, 6, 1], expected"},
    {heads_ratio, FACC_ERR_ARGUMENT, "6 query heads are no multiple of 4"},
    {no_kv_heads, FACC_ERR_ARGUMENT, "6 query heads are no multiple of 0"},
    {other_dims, FACC_ERR_ARGUMENT, "the variant is for 64 and 32"},
    {q_stride, FACC_ERR_ARGUMENT, "q: the last dimension has stride 2"},
    {o_broadcast, FACC_ERR_ARGUMENT, "o: stride 1 is 0"},
    {lse_broadcast, FACC_ERR_ARGUMENT, "lse: stride 0 is 0"},
    {scale_nan, FACC_ERR_ARGUMENT, "scale is NaN"},
    {scale_inf, FACC_ERR_ARGUMENT, "scale is infinite"},
    {scale_big, FACC_ERR_ARGUMENT, "scale is infinite or beyond f32"},
    {seq_odd, FACC_ERR_ARGUMENT, "seqused_q"},
    {tensor_missing, FACC_ERR_ARGUMENT,
     "1 captured tensor given, the program declares 2 (the first is "
     "\"slopes\")"},
    {tensor_null, FACC_ERR_ARGUMENT, "NULL"},
    {param_missing, FACC_ERR_ARGUMENT, "3 params given, the program"},
    {slopes_dtype, FACC_ERR_ARGUMENT,
     "\"slopes\": dtype is f16, declared as f32"},
    {slopes_rank, FACC_ERR_ARGUMENT, "\"slopes\": rank is 2, expected 1 ([H])"},
    {slopes_shape, FACC_ERR_ARGUMENT,
     "\"slopes\": shape is [3], expected [6] ([H])"},
    {slopes_data, FACC_ERR_ARGUMENT, "\"slopes\": data is NULL"},
    {doc_shape, FACC_ERR_ARGUMENT,
     "\"doc\": shape is [2, 100], expected [2, 70] ([B, kv])"},
    {gain_big, FACC_ERR_ARGUMENT,
     "param \"gain\" is declared as f32, 1e+39 does not fit"},
    {window_big, FACC_ERR_ARGUMENT, "param \"window\" is declared as i32"},
    {no_size, FACC_ERR_ARGUMENT, "facc_args.struct_size is 0"},
    {too_long, FACC_ERR_UNSUPPORTED, "Skv is 1073741825"},
    {variant_size, FACC_ERR_ARGUMENT, "facc_variant.struct_size is 3"},
    {variant_dim, FACC_ERR_UNSUPPORTED, "head_dim is 60"},
    {variant_dtype, FACC_ERR_UNSUPPORTED, "family sm80 takes no FP8"},
    {variant_old, FACC_ERR_UNSUPPORTED, "no kernels for sm_75"},
    {variant_unknown, FACC_ERR_UNSUPPORTED, "no kernels for sm_88"},
    {too_many_tiles, FACC_ERR_UNSUPPORTED, "too large for one launch"},
    {cu_alone, FACC_ERR_ARGUMENT, "cu_seqlens_kv is NULL"},
    {cu_kv_alone, FACC_ERR_ARGUMENT, "cu_seqlens_q is NULL"},
    {cu_odd, FACC_ERR_ARGUMENT, "cu_seqlens_kv must be aligned to 4 bytes"},
    {cu_batch, FACC_ERR_ARGUMENT, "q: B is 2; with packed sequences"},
    {cu_no_count, FACC_ERR_ARGUMENT, "n_seqs is 0"},
    {not_made_packed, FACC_ERR_ARGUMENT,
     "cu_seqlens_q is given, but the variant is not packed: set "
     "facc_variant.packed"},
    {made_packed, FACC_ERR_ARGUMENT,
     "the kernel is made for packed sequences: give cu_seqlens_q"},
    {cu_negative, FACC_ERR_ARGUMENT, "max_seqlen_kv -1: they are at least 0"},
    {cu_longest, FACC_ERR_ARGUMENT,
     "\"doc\": shape is [3, 50], expected [3, 70] ([B, kv])"},
    {cu_too_many, FACC_ERR_UNSUPPORTED, "B is 1073741825"},
    {cu_forgotten, FACC_ERR_ARGUMENT,
     "cu_seqlens_q and cu_seqlens_kv are NULL"},
    {longest_forgotten, FACC_ERR_ARGUMENT, "max_seqlen_q 5"},
    {lists_missing, FACC_ERR_ARGUMENT,
     "block_mask is NULL, but the variant has block_mask"},
    {lists_unasked, FACC_ERR_ARGUMENT,
     "block_mask is given, but the variant has none"},
    {lists_version, FACC_ERR_ARGUMENT, "facc_block_mask.struct_size is 0"},
    {lists_blocks, FACC_ERR_ARGUMENT,
     "block_mask: 4 x 5 blocks of 32 x 0: each must be at least 1"},
    {lists_rows, FACC_ERR_ARGUMENT,
     "3 rows of blocks of 32 are fewer than the 100 query rows"},
    {lists_cols, FACC_ERR_ARGUMENT,
     "4 columns of blocks of 16 are fewer than the 70 keys"},
    {lists_counts, FACC_ERR_ARGUMENT, "block_mask: kv_num_blocks is NULL"},
    {lists_indices, FACC_ERR_ARGUMENT, "block_mask: kv_indices is NULL"},
    {lists_half, FACC_ERR_ARGUMENT, "block_mask: full_kv_indices is NULL"},
    {lists_odd, FACC_ERR_ARGUMENT, "block_mask: its lists must be aligned"},
    {lists_of_two_masks, FACC_ERR_UNSUPPORTED, "put it all into mask_mod"},
    {lists_of_packed, FACC_ERR_ARGUMENT,
     "1 rows of blocks of 32 are fewer than the 60 query rows"},
    {sinks_missing, FACC_ERR_ARGUMENT,
     "sinks is NULL, but the variant has sinks: get a kernel without"},
    {sinks_unasked, FACC_ERR_ARGUMENT,
     "sinks are given, but the variant has none: get a kernel with "
     "facc_variant.sinks 1"},
    {sinks_dtype, FACC_ERR_ARGUMENT, "sinks: dtype is bf16, expected f32"},
    {sinks_unknown, FACC_ERR_ARGUMENT, "sinks: unknown dtype 77"},
    {sinks_rank, FACC_ERR_ARGUMENT, "sinks: rank is 2, expected 1 ([H])"},
    {sinks_kv_heads, FACC_ERR_ARGUMENT,
     "sinks: shape is [3], expected [6] ([H])"},
    {sinks_null, FACC_ERR_ARGUMENT, "sinks: data is NULL"},
    {sinks_odd, FACC_ERR_ARGUMENT, "sinks: data is not aligned"},
    {sinks_far, FACC_ERR_ARGUMENT, "sinks: its strides reach beyond"},
    {dropout_unasked, FACC_ERR_ARGUMENT,
     "dropout_p is 0.25, but the variant has no dropout: get a kernel with "
     "facc_variant.dropout 1"},
    {dropout_certain, FACC_ERR_ARGUMENT,
     "dropout_p is 1: it must be at least 0 and below 1"},
    {dropout_negative, FACC_ERR_ARGUMENT, "dropout_p is -0.5: it must be"},
    {dropout_nan, FACC_ERR_ARGUMENT, "dropout_p is nan: it must be"},
    {dropout_fp8, FACC_ERR_UNSUPPORTED,
     "variant.dropout is for f16 and bf16, dtype is e4m3"},
    {dropout_v_mean, FACC_ERR_UNSUPPORTED,
     "dropout_p is 0.5, but v_mean stands for what all weights give"}};
enum { N_REFUSALS = sizeof refusals / sizeof refusals[0] };

START_TEST(refused)
{
    const struct refusal *r = &refusals[_i];
    facc_error err = FACC_ERROR_INIT;
    struct call c;
    open_call(&c);
    ck_assert_msg(check(&c, &err) == FACC_OK, "%s", err.message);
    r->change(&c);
    facc_status s = check(&c, &err);
    ck_assert_msg(s == r->status, "%s: %s (%s)", facc_status_name(s),
                  err.message, r->says);
    ck_assert_int_eq(err.status, s);
    ck_assert_msg(strstr(err.message, r->says), "\"%s\" lacks \"%s\"",
                  err.message, r->says);
    ck_assert_int_eq(check(&c, NULL), r->status);
    close_call(&c);
}
END_TEST

START_TEST(accepted)
{
    facc_error err = FACC_ERROR_INIT;
    struct call c;
    open_call(&c);
    c.args.lse.data = NULL; /* not wanted: the rest of lse is not looked at */
    c.args.lse.rank = 77;
    ck_assert_msg(check(&c, &err) == FACC_OK, "%s", err.message);
    c.args.k.stride[0] = 0; /* inputs may be broadcast, reversed, spread */
    c.args.v.stride[2] = -DV;
    c.args.q.stride[1] = 1000001;
    c.args.scale = -3.5;
    ck_assert_msg(check(&c, &err) == FACC_OK, "%s", err.message);
    c.args.k.shape[2] = c.args.v.shape[2] = c.captured[1].shape[1] = 0;
    c.args.k.data = c.args.v.data = c.captured[1].data = NULL;
    /* NumPy's strides of an empty array are all 0 */
    memset(c.args.k.stride, 0, sizeof c.args.k.stride);
    memset(c.args.v.stride, 0, sizeof c.args.v.stride);
    ck_assert_msg(check(&c, &err) == FACC_OK, "%s", err.message);
    c.args.q.shape[2] = c.args.o.shape[2] = c.args.lse.shape[2] = 0;
    memset(c.args.o.stride, 0, sizeof c.args.o.stride);
    ck_assert_msg(check(&c, &err) == FACC_OK, "%s", err.message);
    ck_assert_int_eq(
        facc_kernel_check(c.ctx, c.program, &c.variant, NULL, &err), FACC_OK);
    ck_assert_int_eq(facc_kernel_check(NULL, c.program, &c.variant, NULL, NULL),
                     FACC_ERR_ARGUMENT);
    close_call(&c);
}
END_TEST

START_TEST(accepted_packed_and_masked)
{
    facc_error err = FACC_ERROR_INIT;
    struct call c;
    facc_block_mask m;
    open_call(&c);
    pack_call(&c);
    ck_assert_msg(check(&c, &err) == FACC_OK, "%s", err.message);
    c.args.max_seqlen_q = 1000; /* an upper bound: more than there is */
    ck_assert_msg(check(&c, &err) == FACC_OK, "%s", err.message);
    c.args.max_seqlen_q = 0; /* all of Tq */
    ck_assert_msg(check(&c, &err) == FACC_OK, "%s", err.message);
    c.args.seqused_q = c.args.cu_seqlens_q;
    mask_call(&c, &m);
    ck_assert_msg(check(&c, &err) == FACC_OK, "%s", err.message);
    m.rows++; /* more than is needed */
    m.cols += 7;
    m.full_kv_num_blocks = m.full_kv_indices = NULL;
    c.program->signature.no_full_blocks = true; /* and there are none */
    ck_assert_msg(check(&c, &err) == FACC_OK, "%s", err.message);
    close_call(&c);
}
END_TEST

/* The sizes that programs see, and those of the tensors. */
START_TEST(sizes)
{
    struct diag d;
    struct call c;
    facc_block_mask m;
    struct args_sizes z;
    struct args_rules rules = {.stage = "check", .sizes_only = true};
    diag_init(&d);
    open_call(&c);
    ck_assert(args_check(&c.args, &rules, &c.program->signature, &z, &d));
    ck_assert(!z.packed && z.B == B && z.Sq == SQ && z.Tkv == SKV);
    pack_call(&c);
    mask_call(&c, &m);
    ck_assert(args_check(&c.args, &rules, &c.program->signature, &z, &d));
    ck_assert(z.packed && z.B == N_SEQS && z.Sq == MAX_Q && z.Skv == MAX_KV);
    ck_assert(z.Tq == SQ && z.Tkv == SKV && z.block_mask.cols == m.cols);

    c.args.q.data = c.args.k.data = c.args.v.data = c.args.o.data = NULL;
    ck_assert(args_check(&c.args, &rules, &c.program->signature, &z, &d));
    c.captured[1].data = NULL; /* these are read */
    ck_assert(!args_check(&c.args, &rules, &c.program->signature, &z, &d));
    ck_assert_ptr_nonnull(strstr(d.message, "\"doc\": data is NULL"));
    diag_init(&d);
    c.captured[1].data = memory;
    rules.sizes_only = false;
    ck_assert(!args_check(&c.args, &rules, &c.program->signature, &z, &d));
    ck_assert_ptr_nonnull(strstr(d.message, "q: data is NULL"));
    close_call(&c);
}
END_TEST

/* A program whose score_mod masks, whose mask_mod does, or both. */
START_TEST(full_blocks_of_programs)
{
    static const char *const parts[2][2] = {
        {"", "score_mod = function(s, b, h, q, kv)\n"
             "  if kv > q then return -math.huge end\n  return 2 * s\nend,"},
        {"", "mask_mod = function(b, h, q, kv) return kv ~= 5 end,"}};
    facc_error err = FACC_ERROR_INIT;
    struct call c;
    open_call(&c);
    for (int i = 0; i < 4; i++) {
        char text[512];
        facc_program *p;
        snprintf(text, sizeof text,
                 "return require('facc').attention { %s\n%s }\n",
                 parts[0][i & 1], parts[1][i >> 1]);
        ck_assert_msg(facc_program_load_string(&p, c.ctx, "t.lua", text,
                                               strlen(text), &err) == FACC_OK,
                      "%s", err.message);
        ck_assert_int_eq(p->signature.no_full_blocks, i == 3);
        facc_program_free(p);
    }
    close_call(&c);
}
END_TEST

/* A struct of a newer facc: unknown fields must be zero. A short one of an
 * older facc: what is missing is zero. */
START_TEST(struct_versions)
{
    struct {
        facc_variant v;
        int32_t more[4];
    } newer;
    facc_error err = FACC_ERROR_INIT;
    struct call c;
    open_call(&c);
    memset(&newer, 0, sizeof newer);
    newer.v = c.variant;
    newer.v.struct_size = sizeof newer;
    ck_assert_int_eq(facc_kernel_check(c.ctx, c.program, &newer.v, NULL, &err),
                     FACC_OK);
    newer.more[3] = 1;
    ck_assert_int_eq(facc_kernel_check(c.ctx, c.program, &newer.v, NULL, &err),
                     FACC_ERR_UNSUPPORTED);
    c.variant.struct_size = offsetof(facc_variant, check_bounds);
    c.variant.check_bounds = 1;
    ck_assert_int_eq(
        facc_kernel_check(c.ctx, c.program, &c.variant, NULL, &err), FACC_OK);
    facc_error small = FACC_ERROR_INIT;
    small.struct_size = offsetof(facc_error, message);
    c.variant.struct_size = 0;
    ck_assert_int_eq(
        facc_kernel_check(c.ctx, c.program, &c.variant, NULL, &small),
        FACC_ERR_ARGUMENT);
    ck_assert_int_eq(small.status, FACC_ERR_ARGUMENT);
    ck_assert_int_eq(small.message[0], '\0');
    close_call(&c);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {accepted, accepted_packed_and_masked, sizes,
                                  full_blocks_of_programs, struct_versions};
    return run_tests("args", refused, N_REFUSALS, tests,
                     sizeof tests / sizeof tests[0]);
}

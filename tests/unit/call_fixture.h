/* A program with captured tensors and params, a variant, and arguments that
 * fit: what the tests of arguments and launches change one by one. */
#ifndef FACC_TEST_CALL_FIXTURE_H
#define FACC_TEST_CALL_FIXTURE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/context.h"
#include "runtime/kernel.h"
#include "tests/unit/suite.h"

static const char lua[] =
    "local facc = require 'facc'\n"
    "local slopes = facc.tensor('slopes', 'f32', { 'H' })\n"
    "local doc = facc.tensor('doc', 'i32', { 'B', 'kv' })\n"
    "local window = facc.param('window', 'i32')\n"
    "local gain = facc.param('gain', 'f32')\n"
    "return facc.attention {\n"
    "  score_mod = function(s, b, h, q, kv) return s * gain + slopes[h] end,\n"
    "  mask_mod = function(b, h, q, kv)\n"
    "    return q - kv < window and doc[b][kv] > 0\n"
    "  end,\n"
    "}\n";

enum { B = 2, H = 6, HKV = 3, SQ = 100, SKV = 70, D = 64, DV = 32 };

struct call {
    facc_ctx *ctx;
    facc_program *program;
    facc_variant variant;
    facc_args args;
    facc_tensor captured[2];
    facc_scalar_value params[2];
};

/* never read: addresses of the right alignment */
_Alignas(256) static char memory[64];

static inline facc_tensor tensor(facc_dtype t, int rank, int64_t s0, int64_t s1,
                                 int64_t s2, int64_t s3)
{
    facc_tensor x = {memory, t, rank, {s0, s1, s2, s3, 0}, {0}};
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        x.stride[i] = stride;
        stride *= x.shape[i];
    }
    return x;
}

static inline void open_call(struct call *c)
{
    facc_error err = FACC_ERROR_INIT;
    facc_options o = FACC_OPTIONS_INIT;
    facc_variant v = FACC_VARIANT_INIT;
    facc_args a = FACC_ARGS_INIT;
    o.cache_mode = 3;
    ck_assert_msg(facc_ctx_create(&c->ctx, &o, &err) == FACC_OK, "%s",
                  err.message);
    ck_assert_msg(facc_program_load_string(&c->program, c->ctx, "t.lua", lua,
                                           sizeof lua - 1, &err) == FACC_OK,
                  "%s", err.message);
    v.dtype = FACC_F16;
    v.head_dim = D;
    v.head_dim_v = DV;
    v.arch = 90;
    v.family = FACC_FAMILY_SM80;
    c->variant = v;
    a.q = tensor(FACC_F16, 4, B, H, SQ, D);
    a.k = tensor(FACC_F16, 4, B, HKV, SKV, D);
    a.v = tensor(FACC_F16, 4, B, HKV, SKV, DV);
    a.o = tensor(FACC_F16, 4, B, H, SQ, DV);
    a.lse = tensor(FACC_F32, 3, B, H, SQ, 0);
    c->captured[0] = tensor(FACC_F32, 1, H, 0, 0, 0);
    c->captured[1] = tensor(FACC_I32, 2, B, SKV, 0, 0);
    c->params[0].i = 1024;
    c->params[1].f = 0.5;
    a.tensors = c->captured;
    a.n_tensors = 2;
    a.params = c->params;
    a.n_params = 2;
    c->args = a;
}

/* Three packed sequences, of at most 60 and 50 rows. */
enum { N_SEQS = 3, MAX_Q = 60, MAX_KV = 50 };

static inline void pack_call(struct call *c)
{
    facc_args *a = &c->args;
    a->q.shape[0] = a->k.shape[0] = a->v.shape[0] = 1;
    a->o.shape[0] = a->lse.shape[0] = 1;
    c->captured[1] = tensor(FACC_I32, 2, N_SEQS, MAX_KV, 0, 0);
    a->cu_seqlens_q = a->cu_seqlens_kv = (const int32_t *)(const void *)memory;
    a->n_seqs = N_SEQS;
    a->max_seqlen_q = MAX_Q;
    a->max_seqlen_kv = MAX_KV;
    c->variant.packed = 1;
}

/* Block lists of one kernel's own: 32 x 16 blocks, for each h. */
static inline void mask_call(struct call *c, facc_block_mask *m)
{
    const int32_t *list = (const int32_t *)(const void *)memory;
    facc_block_mask lists = FACC_BLOCK_MASK_INIT;
    lists.block_q = 32;
    lists.block_kv = 16;
    lists.rows = (SQ + 31) / 32;
    lists.cols = (SKV + 15) / 16;
    lists.per_h = 1;
    lists.kv_num_blocks = lists.kv_indices = list;
    lists.full_kv_num_blocks = lists.full_kv_indices = list;
    *m = lists;
    c->variant.block_mask = 1;
    c->args.block_mask = m;
}

static inline void close_call(struct call *c)
{
    facc_program_free(c->program);
    facc_ctx_free(c->ctx);
}

static inline facc_status check(struct call *c, facc_error *err)
{
    return facc_kernel_check(c->ctx, c->program, &c->variant, &c->args, err);
}

/* One loop test (may be NULL) and the others; main's result. */
static inline int run_tests(const char *name, const TTest *loop, int n_loop,
                            const TTest *const *tests, size_t n)
{
    Suite *s = suite_create(name);
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    if (loop)
        tcase_add_loop_test(t, loop, 0, n_loop);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return suite_run(s);
}

#endif

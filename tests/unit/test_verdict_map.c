/* facc_verdict_map against brute force: cells by a C function, verdicts of
 * tiles by their cells. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/facc.h"
#include "tests/unit/suite.h"

enum { B = 2, H = 2, MAX_S = 80 };

/* A call on sizes alone, and the same mask in C. */
struct problem {
    const char *lua;
    bool (*keep)(int b, int h, int q, int kv); /* inside the lengths */
    const char *tier;
    bool exact; /* no tile is PARTIAL that need not be */
    int sq, skv, tile_q, tile_kv;
    const facc_tensor *tensors;
    int n_tensors;
    const facc_scalar_value *params;
    int n_params;
    const int32_t *used_q, *used_kv, *cu_q, *cu_kv; /* [B], [B + 1] */
    const facc_block_mask *blocks;
};

struct result {
    facc_status status;
    facc_error err;
    facc_verdict_counts counts;
    uint8_t verdicts[MAX_S * MAX_S], cells[MAX_S * MAX_S];
};

static facc_tensor shaped(int b, int h, int s)
{
    facc_tensor t = {.dtype = FACC_F16, .rank = 4, .shape = {b, h, s, 8}};
    int64_t n = 1;
    for (int d = 4; d-- > 0;) {
        t.stride[d] = n;
        n *= t.shape[d];
    }
    return t;
}

static facc_args args_of(const struct problem *p)
{
    facc_args a = FACC_ARGS_INIT;
    const int b = p->cu_q ? 1 : B;
    a.q = a.o = shaped(b, H, p->cu_q ? p->cu_q[B] : p->sq);
    a.k = a.v = shaped(b, H, p->cu_kv ? p->cu_kv[B] : p->skv);
    a.tensors = p->tensors;
    a.n_tensors = p->n_tensors;
    a.params = p->params;
    a.n_params = p->n_params;
    a.seqused_q = p->used_q;
    a.seqused_kv = p->used_kv;
    a.cu_seqlens_q = p->cu_q;
    a.cu_seqlens_kv = p->cu_kv;
    if (p->cu_q) {
        a.n_seqs = B;
        a.max_seqlen_q = p->sq;
        a.max_seqlen_kv = p->skv;
    }
    a.block_mask = p->blocks;
    return a;
}

static void map(const struct problem *p, int b, int h, struct result *r)
{
    facc_ctx *ctx;
    facc_program *program;
    facc_args a = args_of(p);
    r->err = (facc_error)FACC_ERROR_INIT;
    r->counts = (facc_verdict_counts)FACC_VERDICT_COUNTS_INIT;
    memset(r->verdicts, 77, sizeof r->verdicts);
    memset(r->cells, 77, sizeof r->cells);
    ck_assert_int_eq(facc_ctx_create(&ctx, NULL, NULL), FACC_OK);
    ck_assert_msg(facc_program_load_string(&program, ctx, "t.lua", p->lua,
                                           strlen(p->lua), &r->err) == FACC_OK,
                  "%s", r->err.message);
    r->status = facc_verdict_map(ctx, program, &a, b, h, p->tile_q, p->tile_kv,
                                 r->verdicts, r->cells, &r->counts, &r->err);
    facc_program_free(program);
    facc_ctx_free(ctx);
}

static int length(int size, const int32_t *cu, const int32_t *used, int b)
{
    const int n = cu ? cu[b + 1] - cu[b] : size;
    return used ? used[b] : n;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Of the tile's cells inside the lengths. */
static int tile_truth(const struct problem *p, int b, int h, int i, int j)
{
    const int len_q = length(p->sq, p->cu_q, p->used_q, b);
    const int len_kv = length(p->skv, p->cu_kv, p->used_kv, b);
    int seen = 0;
    for (int q = i * p->tile_q; q < least(len_q, (i + 1) * p->tile_q); q++)
        for (int kv = j * p->tile_kv; kv < least(len_kv, (j + 1) * p->tile_kv);
             kv++)
            seen |= p->keep(b, h, q, kv) ? FACC_TILE_FULL : FACC_TILE_EMPTY;
    return seen ? seen : FACC_TILE_EMPTY;
}

static int64_t check_cells(const struct problem *p, int b, int h,
                           const struct result *r)
{
    const int len_q = length(p->sq, p->cu_q, p->used_q, b);
    const int len_kv = length(p->skv, p->cu_kv, p->used_kv, b);
    int64_t kept = 0;
    for (int q = 0; q < p->sq; q++)
        for (int kv = 0; kv < p->skv; kv++) {
            const int want = q < len_q && kv < len_kv && p->keep(b, h, q, kv);
            kept += want;
            ck_assert_msg(r->cells[q * p->skv + kv] == want,
                          "b %d h %d q %d kv %d: not %d", b, h, q, kv, want);
        }
    return kept;
}

static void check_tiles(const struct problem *p, int b, int h,
                        const struct result *r)
{
    int64_t n[4] = {0};
    for (int i = 0; i < r->counts.rows; i++)
        for (int j = 0; j < r->counts.cols; j++) {
            const int got = r->verdicts[i * r->counts.cols + j];
            const int truth = tile_truth(p, b, h, i, j);
            ck_assert_msg(
                got == truth || (!p->exact && got == FACC_TILE_PARTIAL),
                "b %d h %d tile %d, %d: %d, truth %d", b, h, i, j, got, truth);
            n[got]++;
        }
    ck_assert_int_eq(r->counts.empty, n[FACC_TILE_EMPTY]);
    ck_assert_int_eq(r->counts.full, n[FACC_TILE_FULL]);
    ck_assert_int_eq(r->counts.partial, n[FACC_TILE_PARTIAL]);
}

static void check_problem(const struct problem *p)
{
    struct result r;
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++) {
            map(p, b, h, &r);
            ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
            ck_assert_str_eq(r.counts.tier, p->tier);
            ck_assert_int_eq(r.counts.rows,
                             (p->sq + p->tile_q - 1) / p->tile_q);
            ck_assert_int_eq(r.counts.cols,
                             (p->skv + p->tile_kv - 1) / p->tile_kv);
            ck_assert_int_eq(r.counts.cells, p->sq * p->skv);
            ck_assert_int_eq(r.counts.kept, check_cells(p, b, h, &r));
            check_tiles(p, b, h, &r);
        }
}

static const int tile_shapes[][2] = {
    {16, 8}, {7, 13}, {80, 1}, {1, 80}, {99, 99}};
enum { N_SHAPES = 5 };

/* --- masks ---------------------------------------------------------------- */

static bool all(int b, int h, int q, int kv)
{
    (void)b, (void)h, (void)q, (void)kv;
    return true;
}

static bool causal(int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return q >= kv;
}

static bool window(int b, int h, int q, int kv)
{
    return q >= kv && q - kv < 17 + 3 * h + b;
}

static int32_t ids[B][MAX_S];
static bool document(int b, int h, int q, int kv)
{
    return ids[b][q] == ids[b][kv] && (h == 0 || q >= kv);
}

static uint8_t dense[MAX_S][MAX_S];
static bool table(int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return dense[q][kv] != 0;
}

static const char mod_none[] = "return require 'facc'.attention {}";
static const char mod_causal[] =
    "return require 'facc'.attention { mask_mod = 'q >= kv' }";
static const char mod_window[] =
    "local facc = require 'facc'\n"
    "local w = facc.param('w', 'i32')\n"
    "return facc.attention { mask_mod = function(b, h, q, kv)\n"
    "  return q >= kv and q - kv < w + 3 * h + b\n"
    "end }\n";
static const char mod_document[] =
    "local facc = require 'facc'\n"
    "local ids = facc.tensor('ids', 'i32', { 'B', 80 })\n"
    "return facc.attention { mask_mod = function(b, h, q, kv)\n"
    "  return ids[b][q] == ids[b][kv] and (h == 0 or q >= kv)\n"
    "end }\n";
static const char mod_table[] =
    "local facc = require 'facc'\n"
    "local t = facc.tensor('t', 'bool', { 80, 80 })\n"
    "return facc.attention { mask_mod = function(b, h, q, kv)\n"
    "  return t[q][kv]\n"
    "end }\n";
static const char mod_score[] =
    "return require 'facc'.attention { score_mod = function(s, b, h, q, kv)\n"
    "  if q >= kv and s > 0 then return s end\n"
    "  return -math.huge\n"
    "end }\n";

static facc_tensor ids_tensor(void)
{
    for (int b = 0; b < B; b++)
        for (int i = 0; i < MAX_S; i++)
            ids[b][i] = (i + 5 * b) / 24;
    return (facc_tensor){.data = ids,
                         .dtype = FACC_I32,
                         .rank = 2,
                         .shape = {B, MAX_S},
                         .stride = {MAX_S, 1}};
}

static facc_tensor dense_tensor(void)
{
    for (int q = 0; q < MAX_S; q++)
        for (int kv = 0; kv < MAX_S; kv++)
            dense[q][kv] = (q / 16 + kv / 8) % 3 == 0 ||
                           ((q / 16 + kv / 8) % 3 == 1 && (q + kv) % 7 == 0);
    return (facc_tensor){.data = dense,
                         .dtype = FACC_BOOL,
                         .rank = 2,
                         .shape = {MAX_S, MAX_S},
                         .stride = {MAX_S, 1}};
}

static struct problem problem_of(const char *lua, int shape)
{
    return (struct problem){.lua = lua,
                            .exact = true,
                            .sq = 70,
                            .skv = 75,
                            .tile_q = tile_shapes[shape][0],
                            .tile_kv = tile_shapes[shape][1]};
}

START_TEST(no_mask)
{
    struct problem p = problem_of(mod_none, _i);
    p.keep = all;
    p.tier = "none";
    check_problem(&p);
}
END_TEST

START_TEST(analytic)
{
    static const facc_scalar_value w = {.i = 17};
    static const int32_t used_q[B] = {0, 33}, used_kv[B] = {75, 20};
    struct problem p = problem_of(mod_causal, _i);
    p.keep = causal;
    p.tier = "analytic";
    check_problem(&p);
    p.lua = mod_window;
    p.keep = window;
    p.params = &w;
    p.n_params = 1;
    check_problem(&p);
    p.used_q = used_q;
    p.used_kv = used_kv;
    check_problem(&p);
}
END_TEST

START_TEST(ranged)
{
    static const int32_t used[B] = {61, 70};
    const facc_tensor t = ids_tensor();
    struct problem p = problem_of(mod_document, _i);
    p.keep = document;
    p.tier = "ranged";
    p.tensors = &t;
    p.n_tensors = 1;
    check_problem(&p);
    p.used_q = p.used_kv = used;
    check_problem(&p);
}
END_TEST

/* The cells decide: every verdict is exact. */
START_TEST(scanned)
{
    const facc_tensor t = dense_tensor();
    struct problem p = problem_of(mod_table, _i);
    p.keep = table;
    p.tier = "scanned";
    p.tensors = &t;
    p.n_tensors = 1;
    check_problem(&p);
}
END_TEST

/* Positions count from the sequence's start; the maps are as large as the
 * longest sequence. */
START_TEST(packed)
{
    static const int32_t cu_q[B + 1] = {0, 70, 89}, cu_kv[B + 1] = {0, 11, 86};
    static const int32_t used[B] = {5, 18};
    const facc_tensor t = ids_tensor();
    struct problem p = problem_of(mod_causal, _i);
    p.keep = causal;
    p.tier = "analytic";
    p.cu_q = cu_q;
    p.cu_kv = cu_kv;
    check_problem(&p);
    p.used_q = p.used_kv = used;
    check_problem(&p);
    p.lua = mod_document;
    p.keep = document;
    p.tier = "ranged";
    p.tensors = &t;
    p.n_tensors = 1;
    check_problem(&p);
}
END_TEST

/* --- block lists ---------------------------------------------------------- */

enum { BLOCK_Q = 20, BLOCK_KV = 10, ROWS = 4, COLS = 8 };
static int32_t partial_counts[B * ROWS], partial_list[B * ROWS * COLS],
    full_counts[B * ROWS], full_list[B * ROWS * COLS];

/* 0 none, 1 partial, 2 full. */
static int block_class(int b, int row, int col)
{
    return (3 * row + col * col + b) % 4 % 3;
}

static bool blocks(int b, int h, int q, int kv)
{
    const int c = block_class(b, q / BLOCK_Q, kv / BLOCK_KV);
    return c == 2 || (c == 1 && causal(b, h, q, kv));
}

static facc_block_mask block_lists(void)
{
    facc_block_mask k = FACC_BLOCK_MASK_INIT;
    for (int r = 0; r < B * ROWS; r++) {
        partial_counts[r] = full_counts[r] = 0;
        for (int c = COLS; c-- > 0;) {
            const int class = block_class(r / ROWS, r % ROWS, c);
            if (class == 1)
                partial_list[r * COLS + partial_counts[r]++] = c;
            else if (class == 2)
                full_list[r * COLS + full_counts[r]++] = c;
        }
    }
    k.block_q = BLOCK_Q;
    k.block_kv = BLOCK_KV;
    k.rows = ROWS;
    k.cols = COLS;
    k.per_b = 1;
    k.kv_num_blocks = partial_counts;
    k.kv_indices = partial_list;
    k.full_kv_num_blocks = full_counts;
    k.full_kv_indices = full_list;
    return k;
}

START_TEST(given)
{
    facc_block_mask k = block_lists();
    struct problem p = problem_of(mod_causal, _i);
    p.keep = blocks;
    p.tier = "given";
    p.blocks = &k;
    p.exact = false; /* a tile of several blocks: their union */
    check_problem(&p);
    p.tile_q = BLOCK_Q;
    p.tile_kv = BLOCK_KV;
    p.exact = true;
    check_problem(&p);
    struct result r;
    partial_list[0] = COLS; /* row 0 of b 0 has one */
    map(&p, 0, 0, &r);
    ck_assert_int_eq(r.status, FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(r.err.message, "kv_indices[0][0][0][0] is 8"));
    k = block_lists();
    partial_counts[ROWS] = -1;
    map(&p, 1, 0, &r);
    ck_assert_int_eq(r.status, FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(
        strstr(r.err.message, "kv_num_blocks[1][0][0] is -1"));
}
END_TEST

/* --- what there is not ---------------------------------------------------- */

/* Which cells count is not known; that those above the diagonal do not, is. */
START_TEST(opaque)
{
    struct problem p = problem_of(mod_score, 0);
    struct result r;
    facc_ctx *ctx;
    facc_program *program;
    facc_args a = args_of(&p);
    map(&p, 0, 0, &r);
    ck_assert_int_eq(r.status, FACC_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(r.err.message, "reads the score"));
    ck_assert_int_eq(facc_ctx_create(&ctx, NULL, NULL), FACC_OK);
    ck_assert_int_eq(facc_program_load_string(&program, ctx, "t.lua", mod_score,
                                              sizeof mod_score - 1, NULL),
                     FACC_OK);
    ck_assert_int_eq(facc_verdict_map(ctx, program, &a, 0, 0, 16, 8, r.verdicts,
                                      NULL, &r.counts, NULL),
                     FACC_OK);
    ck_assert_str_eq(r.counts.tier, "opaque");
    ck_assert_int_eq(r.counts.kept, -1);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 10; j++)
            ck_assert_int_eq(r.verdicts[i * 10 + j],
                             8 * j > 16 * i + 15 || 8 * j > 69
                                 ? FACC_TILE_EMPTY
                                 : FACC_TILE_PARTIAL);
    facc_program_free(program);
    facc_ctx_free(ctx);
}
END_TEST

/* Any of the results may be left out. */
START_TEST(parts)
{
    struct problem p = problem_of(mod_causal, 0);
    struct result all_of, r;
    facc_ctx *ctx;
    facc_program *program;
    facc_args a = args_of(&p);
    map(&p, 0, 0, &all_of);
    ck_assert_int_eq(facc_ctx_create(&ctx, NULL, NULL), FACC_OK);
    ck_assert_int_eq(facc_program_load_string(&program, ctx, "t", mod_causal,
                                              sizeof mod_causal - 1, NULL),
                     FACC_OK);
    for (int k = 0; k < 16; k++) {
        const bool v = k & 1, c = k & 2, n = k & 4, skip = k & 8;
        r = (struct result){.counts = FACC_VERDICT_COUNTS_INIT};
        r.counts.skip_kept = skip;
        ck_assert_int_eq(facc_verdict_map(ctx, program, &a, 0, 0, p.tile_q,
                                          p.tile_kv, v ? r.verdicts : NULL,
                                          c ? r.cells : NULL,
                                          n ? &r.counts : NULL, NULL),
                         FACC_OK);
        ck_assert(!v || !memcmp(r.verdicts, all_of.verdicts,
                                (size_t)all_of.counts.rows *
                                    (size_t)all_of.counts.cols));
        ck_assert(!c || !memcmp(r.cells, all_of.cells, 70 * 75));
        if (n)
            ck_assert_int_eq(r.counts.kept,
                             skip && !c ? -1 : all_of.counts.kept);
        if (n)
            ck_assert_int_eq(r.counts.partial, all_of.counts.partial);
    }
    facc_program_free(program);
    facc_ctx_free(ctx);
}
END_TEST

static void refused(const struct problem *p, int b, int h, const char *why)
{
    struct result r;
    map(p, b, h, &r);
    ck_assert_int_eq(r.status, FACC_ERR_ARGUMENT);
    ck_assert_msg(strstr(r.err.message, why) != NULL, "%s", r.err.message);
}

START_TEST(arguments)
{
    static const int32_t long_q[B] = {70, 71}, falls[B + 1] = {0, 50, 49},
                         late[B + 1] = {1, 50, 70}, fine[B + 1] = {0, 50, 70};
    struct problem p = problem_of(mod_causal, 0);
    refused(&p, 2, 0, "(2, 0)");
    refused(&p, -1, 0, "(-1, 0)");
    refused(&p, 0, 2, "(0, 2)");
    p.tile_q = 0;
    refused(&p, 0, 0, "tiles are 0 x 8");
    p = problem_of(mod_causal, 0);
    p.used_q = long_q;
    refused(&p, 0, 0, "seqused_q[1] is 71");
    p = problem_of(mod_causal, 0);
    p.cu_q = fine;
    p.cu_kv = falls;
    refused(&p, 0, 0, "cu_seqlens_kv[1] is 50");
    p.cu_kv = late;
    refused(&p, 0, 0, "cu_seqlens_kv[0] is 1");
    p.cu_kv = fine;
    p.skv = 49;
    refused(&p, 0, 0, "cu_seqlens_kv[1] is 50: must be from 0 to 49");
    p = problem_of(mod_window, 0);
    refused(&p, 0, 0, "param");
}
END_TEST

/* A cell that reads outside a tensor is an error, the line is the user's. */
START_TEST(outside)
{
    static const char lua[] =
        "local facc = require 'facc'\n"
        "local t = facc.tensor('t', 'i32', { 3 })\n"
        "return facc.attention { mask_mod = function(b, h, q, kv)\n"
        "  return t[q] >= kv\n"
        "end }\n";
    static int32_t three[3] = {70, 70, 70};
    const facc_tensor t = {.data = three,
                           .dtype = FACC_I32,
                           .rank = 1,
                           .shape = {3},
                           .stride = {1}};
    struct problem p = problem_of(lua, 0);
    struct result r;
    p.tensors = &t;
    p.n_tensors = 1;
    map(&p, 0, 0, &r);
    ck_assert_int_eq(r.status, FACC_ERR_BOUNDS);
    ck_assert_int_eq(r.err.line, 4);
}
END_TEST

START_TEST(nothing)
{
    struct problem p = problem_of(mod_causal, 0);
    struct result r;
    facc_ctx *ctx;
    p.sq = 0;
    map(&p, 0, 0, &r);
    ck_assert_int_eq(r.status, FACC_OK);
    ck_assert_int_eq(r.counts.rows, 0);
    ck_assert_int_eq(r.counts.cells, 0);
    ck_assert_int_eq(r.counts.kept, 0);
    facc_args a = args_of(&p);
    ck_assert_int_eq(
        facc_verdict_map(NULL, NULL, &a, 0, 0, 1, 1, NULL, NULL, NULL, NULL),
        FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_ctx_create(&ctx, NULL, NULL), FACC_OK);
    ck_assert_int_eq(
        facc_verdict_map(ctx, NULL, &a, 0, 0, 1, 1, NULL, NULL, NULL, NULL),
        FACC_ERR_ARGUMENT);
    facc_verdict_counts unset = {.struct_size = 0};
    ck_assert_int_eq(
        facc_verdict_map(ctx, NULL, &a, 0, 0, 1, 1, NULL, NULL, &unset, NULL),
        FACC_ERR_ARGUMENT);
    facc_ctx_free(ctx);
}
END_TEST

/* Lists whose entries have no 64-bit numbers: 2^30 sequences of 8 heads. The
 * sizes alone say so; nothing is read. */
START_TEST(too_many_blocks)
{
    static const char lua[] = "local facc = require 'facc'\nreturn "
                              "facc.attention { mask_mod = function(b, h, q, "
                              "kv) return q >= kv end }";
    static const int32_t list[2];
    facc_block_mask m = FACC_BLOCK_MASK_INIT;
    facc_args a = FACC_ARGS_INIT;
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx;
    facc_program *p;
    a.q = a.k = a.v = a.o = shaped(1 << 30, 8, 2);
    for (int d = 0; d < 4; d++)
        a.q.stride[d] = a.k.stride[d] = a.v.stride[d] = a.o.stride[d] = 0;
    m.block_q = m.block_kv = 1;
    m.rows = 1 << 30;
    m.cols = 2;
    m.per_b = m.per_h = 1;
    m.kv_num_blocks = m.kv_indices = list;
    a.block_mask = &m;
    ck_assert_int_eq(facc_ctx_create(&ctx, NULL, NULL), FACC_OK);
    ck_assert_int_eq(
        facc_program_load_string(&p, ctx, "t.lua", lua, sizeof lua - 1, NULL),
        FACC_OK);
    ck_assert_int_eq(
        facc_verdict_map(ctx, p, &a, 0, 0, 1, 1, NULL, NULL, NULL, &err),
        FACC_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.message, "block_mask: lists of") != NULL, "%s",
                  err.message);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("verdict_map");
    TCase *shapes = tcase_create("tile shapes"), *t = tcase_create("calls");
    tcase_add_loop_test(shapes, no_mask, 0, N_SHAPES);
    tcase_add_loop_test(shapes, analytic, 0, N_SHAPES);
    tcase_add_loop_test(shapes, ranged, 0, N_SHAPES);
    tcase_add_loop_test(shapes, scanned, 0, N_SHAPES);
    tcase_add_loop_test(shapes, packed, 0, N_SHAPES);
    tcase_add_loop_test(shapes, given, 0, N_SHAPES);
    tcase_add_test(t, opaque);
    tcase_add_test(t, parts);
    tcase_add_test(t, arguments);
    tcase_add_test(t, outside);
    tcase_add_test(t, nothing);
    tcase_add_test(t, too_many_blocks);
    suite_add_tcase(s, shapes);
    suite_add_tcase(s, t);
    return suite_run(s);
}

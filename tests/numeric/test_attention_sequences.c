/* CPU attention of packed sequences and with block lists, against loops
 * written by hand; a packed sequence is that sequence alone, bit for bit. */
#include "tests/numeric/attention_reference.h"
#include "tests/unit/test_share.h"
#include "tests/unit/suite.h"

/* --- packed sequences --- */

enum { SEQUENCES = 7 };
static const int32_t len_q[SEQUENCES] = {5, 0, 130, 1, 257, 64, 0};
static const int32_t len_kv[SEQUENCES] = {5, 7, 130, 0, 299, 64, 0};
/* used lengths within them */
static const int32_t used_q[SEQUENCES] = {5, 0, 129, 1, 100, 0, 0};
static const int32_t used_kv[SEQUENCES] = {4, 7, 130, 0, 131, 64, 0};
static int32_t cu_q[SEQUENCES + 1], cu_kv[SEQUENCES + 1];
enum { GAP = 3 }; /* rows behind the last sequence */

static void add_up(const int32_t *len, int32_t *cu)
{
    cu[0] = 0;
    for (int b = 0; b < SEQUENCES; b++)
        cu[b + 1] = cu[b] + len[b];
}

/* Tensors for all sequences. */
static void start_packed(struct run *r, struct problem p)
{
    add_up(len_q, cu_q);
    add_up(len_kv, cu_kv);
    p.B = 1;
    p.H = 4;
    p.Hkv = 2;
    p.Sq = cu_q[SEQUENCES] + GAP;
    p.Skv = cu_kv[SEQUENCES] + GAP;
    p.D = 16;
    p.Dv = 24;
    start(r, &p);
    r->args.cu_seqlens_q = cu_q;
    r->args.cu_seqlens_kv = cu_kv;
    r->args.n_seqs = SEQUENCES;
    r->args.max_seqlen_q = 257;
    r->args.max_seqlen_kv = 299;
}

static void cut(facc_tensor *t, int first, int rows)
{
    t->data = element(t, 0, 0, first, 0);
    t->shape[2] = rows;
    t->stride[0] = 0; /* any b is this one */
}

/* Sequence b of the tensors, as if there was nothing else. */
static struct run one_of(const struct run *packed, int b)
{
    struct run r = *packed;
    cut(&r.q.t, cu_q[b], len_q[b]);
    cut(&r.o.t, cu_q[b], len_q[b]);
    cut(&r.lse.t, cu_q[b], len_q[b]);
    cut(&r.k.t, cu_kv[b], len_kv[b]);
    cut(&r.v.t, cu_kv[b], len_kv[b]);
    r.p.Sq = len_q[b];
    r.p.Skv = len_kv[b];
    return r;
}

static void check_sequence(const struct run *packed, int b)
{
    struct run r = one_of(packed, b);
    for (int h = 0; h < r.p.H; h++)
        for (int q = 0; q < r.p.Sq; q++) {
            double want[24] = {0}, f32[24], lse = -INFINITY;
            double got = get(&r.lse.t, b, h, q, 0);
            if (q < used(r.p.used_q, b, r.p.Sq))
                lse = naive_row(&r, b, h, q, want, f32);
            ck_assert_msg(same_kind(got, lse) &&
                              (!isfinite(lse) || fabs(got - lse) < 1e-12),
                          "b %d h %d q %d: lse %g, want %g", b, h, q, got, lse);
            for (int d = 0; d < r.p.Dv; d++) {
                double o = get(&r.o.t, b, h, q, d);
                ck_assert_msg(fabs(o - want[d]) < 1e-12,
                              "o[%d][%d][%d][%d] is %g, want %g", b, h, q, d, o,
                              want[d]);
            }
        }
}

/* Rows behind the last sequence stay as they were. */
static void check_gap(const struct run *r)
{
    for (int h = 0; h < r->p.H; h++)
        for (int i = 1; i <= GAP; i++) {
            ck_assert(isnan(get(&r->lse.t, 0, h, r->p.Sq - i, 0)));
            ck_assert(isnan(get(&r->o.t, 0, h, r->p.Sq - i, 3)));
        }
}

static const char of_b_lua[] =
    FACC "return facc.attention { mask_mod = function(b, h, q, kv)\n"
         "  return (q + 3 * kv) % (b + 2) ~= h % 2 and kv < facc.size.kv - 9\n"
         "end, score_mod = function(s, b, h, q, kv)\n"
         "  return s + 0.125 * b * (kv - q) / facc.size.B\n"
         "end }\n";
static bool of_b(int b, int h, int q, int kv)
{
    return (q + 3 * kv) % (b + 2) != h % 2 && kv < 299 - 9;
}
static double of_b_score(double s, int b, int h, int q, int kv)
{
    (void)h;
    return s + 0.125 * b * (kv - q) / SEQUENCES;
}

static const char bottom_right_lua[] =
    FACC "return facc.attention { mask_mod = facc.mods.causal_bottom_right }\n";
static bool bottom_right(int b, int h, int q, int kv)
{
    (void)h;
    return q + len_kv[b] - len_q[b] >= kv;
}
static bool bottom_right_used(int b, int h, int q, int kv)
{
    (void)h;
    return q + used_kv[b] - used_q[b] >= kv;
}

static void check_packed(struct problem p)
{
    struct run r;
    p.f64 = 1;
    p.out = FACC_F64;
    start_packed(&r, p);
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int b = 0; b < SEQUENCES; b++)
        check_sequence(&r, b);
    check_gap(&r);
    finish(&r);
}

START_TEST(packed_against_loops)
{
    struct problem p = {.used_q = _i ? used_q : NULL,
                        .used_kv = _i ? used_kv : NULL};
    for (int mod = 0; mod < N_MODS; mod++) {
        use_mod(&p, mod);
        p.layout = mod % 2 ? PERMUTED : PLAIN;
        p.o_layout = mod % 3 ? SLICED : PLAIN;
        check_packed(p);
    }
    p.lua = of_b_lua;
    p.keep = of_b;
    p.score = of_b_score;
    check_packed(p);
    p.lua = bottom_right_lua;
    p.keep = _i ? bottom_right_used : bottom_right;
    p.score = NULL;
    check_packed(p);
}
END_TEST

static void alone_has_the_bits(const struct run *packed, int b)
{
    struct run r = one_of(packed, b);
    struct buffer o = make(FACC_F32, PLAIN, 1, r.p.H, r.p.Sq, r.p.Dv);
    struct buffer lse = make(FACC_F32, PLAIN, 1, r.p.H, r.p.Sq, 1);
    int32_t uq = used(packed->p.used_q, b, r.p.Sq);
    int32_t uk = used(packed->p.used_kv, b, r.p.Skv);
    lse.t.rank = 3;
    facc_args a = FACC_ARGS_INIT;
    a.q = r.q.t;
    a.k = r.k.t;
    a.v = r.v.t;
    a.o = o.t;
    a.lse = lse.t;
    a.seqused_q = packed->p.used_q ? &uq : NULL;
    a.seqused_kv = packed->p.used_kv ? &uk : NULL;
    r.args = a;
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int h = 0; h < r.p.H; h++)
        for (int q = 0; q < r.p.Sq; q++) {
            ck_assert(get(&lse.t, 0, h, q, 0) == get(&r.lse.t, 0, h, q, 0));
            for (int d = 0; d < r.p.Dv; d++)
                ck_assert(get(&o.t, 0, h, q, d) == get(&r.o.t, 0, h, q, d));
        }
    free(o.memory);
    free(lse.memory);
}

START_TEST(packed_is_each_alone)
{
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = {.used_q = _i ? used_q : NULL,
                            .used_kv = _i ? used_kv : NULL};
        struct run r;
        use_mod(&p, mod);
        p.f64 = 0;
        p.threads = 1 + mod % 3;
        start_packed(&r, p);
        attend(&r);
        ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
        for (int b = 0; b < SEQUENCES; b++)
            alone_has_the_bits(&r, b);
        finish(&r);
    }
}
END_TEST

static void expect_error(const struct run *base, const char *text)
{
    struct run r = *base;
    attend(&r);
    ck_assert_int_eq(r.status, FACC_ERR_ARGUMENT);
    ck_assert_msg(strstr(r.err.message, text) != NULL, "%s", r.err.message);
}

START_TEST(bad_offsets)
{
    struct problem p = {.lua = NULL};
    struct run r, x;
    int32_t cu[SEQUENCES + 1], most[SEQUENCES] = {5, 0, 130, 1, 258, 64, 0};
    start_packed(&r, p);
    x = r;
    x.args.cu_seqlens_q = cu;
    memcpy(cu, cu_q, sizeof cu);
    cu[0] = 1;
    expect_error(&x, "cu_seqlens_q[0] is 1: must be from 0 to 0");
    cu[0] = 0;
    cu[3] = 4; /* descends */
    expect_error(&x, "cu_seqlens_q[3] is 4: must be from 5 to 262");
    cu[3] = cu_q[3];
    cu[7] = cu_q[7] + GAP + 1;
    expect_error(&x, "cu_seqlens_q[7] is 461: must be from 457 to 460");
    x = r;
    x.args.cu_seqlens_kv = cu;
    memcpy(cu, cu_kv, sizeof cu);
    cu[5] = cu[4] - 1;
    expect_error(&x, "cu_seqlens_kv[5] is 141: must be from 142 to 441");
    x = r;
    x.args.max_seqlen_q = 256;
    expect_error(&x, "cu_seqlens_q[5] is 393: must be from 136 to 392");
    x = r;
    x.args.seqused_q = most;
    expect_error(&x, "seqused_q[4] is 258: must be from 0 to 257");
    most[4] = -1;
    expect_error(&x, "seqused_q[4] is -1");
    finish(&r);
}
END_TEST

/* --- block lists --- */

enum { ABSENT, ASKED, COUNTS, MOST_BLOCKS = 4096 };

/* What each block is, and the same as lists. */
static struct blocks {
    facc_block_mask mask;
    int heads, B, H;
    uint8_t is[MOST_BLOCKS]; /* [lists][rows][cols] */
    int32_t num[MOST_BLOCKS], index[MOST_BLOCKS];
    int32_t full_num[MOST_BLOCKS], full_index[MOST_BLOCKS];
    bool (*inner)(int b, int h, int q, int kv);
} blocks;

static int class_of(int b, int h, int q, int kv)
{
    const facc_block_mask *m = &blocks.mask;
    int list =
        (m->per_b ? b : 0) * (m->per_h ? blocks.H : 1) + (m->per_h ? h : 0);
    return blocks
        .is[(list * m->rows + q / m->block_q) * m->cols + kv / m->block_kv];
}

static bool by_blocks(int b, int h, int q, int kv)
{
    int is = class_of(b, h, q, kv);
    return is == COUNTS ||
           (is == ASKED && (blocks.inner == NULL || blocks.inner(b, h, q, kv)));
}

/* Lists of rows of blocks; every second one from right to left. */
static void make_blocks(int B, int H, int Sq, int Skv, int bq, int bkv,
                        bool per_b, bool per_h, bool full)
{
    facc_block_mask *m = &blocks.mask;
    *m = (facc_block_mask)FACC_BLOCK_MASK_INIT;
    m->block_q = bq;
    m->block_kv = bkv;
    m->rows = (Sq + bq - 1) / bq;
    m->cols = (Skv + bkv - 1) / bkv;
    m->per_b = per_b;
    m->per_h = per_h;
    m->kv_num_blocks = blocks.num;
    m->kv_indices = blocks.index;
    m->full_kv_num_blocks = full ? blocks.full_num : NULL;
    m->full_kv_indices = full ? blocks.full_index : NULL;
    blocks.B = B;
    blocks.H = H;
    int rows = (per_b ? B : 1) * (per_h ? H : 1) * m->rows;
    ck_assert_int_le(rows * m->cols, MOST_BLOCKS);
    memset(blocks.index, 0xff, sizeof blocks.index); /* unused: not looked at */
    memset(blocks.full_index, 0xff, sizeof blocks.full_index);
    for (int r = 0; r < rows; r++) {
        int32_t *n = &blocks.num[r], *f = &blocks.full_num[r];
        *n = *f = 0;
        for (int k = 0; k < m->cols; k++) {
            int c = r % 2 ? m->cols - 1 - k : k;
            int is = (int)(uniform() * 1.5 + 1.5); /* 0, 1 or 2 */
            is = r % 5 == 4 ? ABSENT : is == COUNTS && !full ? ASKED : is;
            blocks.is[r * m->cols + c] = (uint8_t)is;
            if (is == ASKED)
                blocks.index[r * m->cols + (*n)++] = c;
            else if (is == COUNTS)
                blocks.full_index[r * m->cols + (*f)++] = c;
        }
    }
}

static void use_blocks(struct run *r)
{
    blocks.inner = r->p.keep;
    r->p.keep = by_blocks;
    r->args.block_mask = &blocks.mask;
}

static const int block_sizes[][2] = {{64, 64},   {128, 128}, {7, 13},
                                     {100, 300}, {200, 37},  {16, 129}};

START_TEST(blocks_against_loops)
{
    static const int inner[] = {0, 1, 2, 4, 5};
    for (int k = 0; k < test_share(20); k++) {
        struct problem p = {
            .B = 2, .H = 4, .Hkv = 2, .Sq = 140, .Skv = 270, .D = 8, .Dv = 8};
        struct run r;
        use_mod(&p, inner[k % 5]);
        p.f64 = k % 2;
        start(&r, &p);
        make_blocks(2, 4, 140, 270, block_sizes[_i][0], block_sizes[_i][1],
                    _i != 2 && (k & 1), _i != 2 && (k & 2), k % 4 != 3);
        use_blocks(&r);
        attend(&r);
        compare(&r);
        finish(&r);
    }
}
END_TEST

/* What a score_mod masks is masked in full blocks, too. */
static const char score_causal_lua[] =
    FACC "return facc.attention { score_mod = function(score, b, h, q, kv)\n"
         "  return q >= kv and 2 * score or -math.huge\n"
         "end }\n";
static double score_causal(double s, int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return q >= kv ? 2 * s : -INFINITY;
}

START_TEST(full_blocks_and_scores)
{
    struct problem p = {
        .B = 1, .H = 2, .Hkv = 1, .Sq = 140, .Skv = 270, .D = 8, .Dv = 8};
    struct run r;
    for (int k = 0; k < 3; k++) {
        p.lua = k == 0   ? score_causal_lua
                : k == 1 ? minus_inf_lua
                         : positive_lua;
        p.score = k == 0 ? score_causal : k == 1 ? minus_inf : positive;
        p.f64 = 1;
        start(&r, &p);
        make_blocks(1, 2, 140, 270, 32, 50, false, true, true);
        use_blocks(&r);
        attend(&r);
        compare(&r);
        finish(&r);
    }
}
END_TEST

/* The mask does not know Q and K alone: score > 0.125, where lists ask. */
START_TEST(blocks_and_scores)
{
    struct problem p = {
        .B = 1, .H = 2, .Hkv = 1, .Sq = 140, .Skv = 270, .D = 8, .Dv = 8};
    for (int k = 0; k < 4; k++) {
        struct run r;
        use_mod(&p, 6);
        start(&r, &p);
        make_blocks(1, 2, 140, 270, 30 + 10 * k, 50, false, true, false);
        use_blocks(&r);
        attend(&r);
        compare(&r);
        finish(&r);
    }
}
END_TEST

START_TEST(blocks_of_packed_sequences)
{
    for (int k = 0; k < 4; k++) {
        struct problem p = {.used_q = k % 2 ? used_q : NULL, .f64 = 1};
        struct run r;
        use_mod(&p, k);
        p.f64 = 1;
        p.out = FACC_F64;
        start_packed(&r, p);
        make_blocks(SEQUENCES, 4, 257, 299, 50, 70, true, k % 2, true);
        use_blocks(&r);
        attend(&r);
        ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
        for (int b = 0; b < SEQUENCES; b++)
            check_sequence(&r, b);
        finish(&r);
    }
}
END_TEST

/* 'document' has 300 entries; id[kv + 100] is bad from kv = 200 on. */
START_TEST(bad_reads_in_blocks)
{
    static const char mask_lua[] =
        FACC "local id = facc.tensor('document', 'i32', { 300 })\n"
             "return facc.attention { mask_mod = function(b, h, q, kv)\n"
             "  return id[kv + 100] < 1000 and q >= 0\n"
             "end }\n";
    static const char score_lua[] =
        FACC "local id = facc.tensor('document', 'i32', { 300 })\n"
             "return facc.attention { score_mod = function(s, b, h, q, kv)\n"
             "  return s + id[kv + 100]\n"
             "end }\n";
    for (int is = ABSENT; is <= COUNTS; is++)
        for (int score = 0; score < 2; score++) {
            struct problem p = {
                .B = 1, .H = 1, .Hkv = 1, .Sq = 9, .Skv = 270, .D = 8, .Dv = 8};
            struct run r;
            p.lua = score ? score_lua : mask_lua;
            start(&r, &p);
            make_blocks(1, 1, 9, 270, 9, 200, false, false, true);
            blocks.num[0] = is == ASKED ? 2 : 1;
            blocks.full_num[0] = is == COUNTS;
            blocks.index[0] = 0;
            blocks.index[1] = blocks.full_index[0] = 1;
            r.args.block_mask = &blocks.mask;
            attend(&r);
            bool fine = is == ABSENT || (is == COUNTS && !score);
            ck_assert_int_eq(r.status, fine ? FACC_OK : FACC_ERR_BOUNDS);
            finish(&r);
        }
}
END_TEST

START_TEST(bad_blocks)
{
    struct problem p = {
        .B = 2, .H = 2, .Hkv = 1, .Sq = 140, .Skv = 270, .D = 8, .Dv = 8};
    struct run r;
    start(&r, &p);
    r.args.block_mask = &blocks.mask;
    make_blocks(2, 2, 140, 270, 50, 90, true, true, true); /* 3 x 3 */
    blocks.num[7] = 4;
    expect_error(&r, "block_mask: kv_num_blocks[1][0][1] is 4: must be from 0 "
                     "to 3");
    blocks.num[7] = -1;
    expect_error(&r, "kv_num_blocks[1][0][1] is -1");
    blocks.num[7] = 2;
    blocks.index[21] = 1;
    blocks.index[22] = 3;
    expect_error(&r, "block_mask: kv_indices[1][0][1][1] is 3: must be from 0 "
                     "to 2");
    blocks.index[22] = 2;
    blocks.full_num[11] = 1;
    blocks.full_index[33] = -5;
    expect_error(&r, "full_kv_indices[1][1][2][0] is -5");
    finish(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cpu attention of sequences");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, open_context, close_context);
    tcase_add_loop_test(t, packed_against_loops, 0, 2);
    tcase_add_loop_test(t, packed_is_each_alone, 0, 2);
    tcase_add_test(t, bad_offsets);
    tcase_add_loop_test(t, blocks_against_loops, 0, 6);
    tcase_add_test(t, full_blocks_and_scores);
    tcase_add_test(t, blocks_and_scores);
    tcase_add_test(t, blocks_of_packed_sequences);
    tcase_add_test(t, bad_reads_in_blocks);
    tcase_add_test(t, bad_blocks);
    suite_add_tcase(s, t);
    return suite_run(s);
}

/* CPU attention with sinks, against loops written by hand. */
#include "tests/numeric/attention_reference.h"
#include "tests/unit/suite.h"

/* A sink for each head, about every second float. */
enum { STEP = 2 };
static float sinks[MAX_H * STEP];
static facc_tensor view;

static void give(struct run *r, const float *values)
{
    memset(sinks, 0xff, sizeof sinks); /* NaN */
    for (int h = 0; h < r->p.H; h++)
        sinks[h * STEP] = values[h];
    view = (facc_tensor){sinks, FACC_F32, 1, {r->p.H}, {STEP}};
    r->args.sinks = &view;
}

static double sink_of(int h)
{
    return (double)sinks[h * STEP];
}

/* One row in double, and what comes of a sink that is no number. */
static double sunk_row(const struct run *r, int b, int h, int q, double *out)
{
    const struct problem *p = &r->p;
    double s[512], sink = sink_of(h), top = sink, sum = 0;
    int n = 0;
    ck_assert_int_le(p->Skv, 512);
    for (int d = 0; d < p->Dv; d++)
        out[d] = 0;
    for (int kv = 0; kv < p->Skv; kv++) {
        s[kv] = is_kept(p, b, h, q, kv) ? raw_score(r, b, h, q, kv) : -INFINITY;
        n += s[kv] != -INFINITY;
        top = s[kv] > top ? s[kv] : top;
    }
    if (n == 0)
        return sink;
    for (int kv = 0; kv < p->Skv; kv++) {
        if (s[kv] == -INFINITY)
            continue;
        double w = exp(s[kv] - top);
        sum += w;
        for (int d = 0; d < p->Dv; d++)
            out[d] += w * get(&r->v.t, b, h / (p->H / p->Hkv), kv, d);
    }
    sum += exp(sink - top);
    for (int d = 0; d < p->Dv; d++)
        out[d] /= sum;
    return top + log(sum);
}

static bool near(double got, double want, double limit)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= limit * fmax(1, fabs(want));
}

static void check_rows(const struct run *r, int b)
{
    const struct problem *p = &r->p;
    const double limit = p->f64 ? 1e-13 : 3e-6;
    double want[64];
    for (int h = 0; h < p->H; h++)
        for (int q = 0; q < p->Sq; q++) {
            double lse = -INFINITY, got = get(&r->lse.t, b, h, q, 0);
            memset(want, 0, sizeof want);
            if (q < used(p->used_q, b, p->Sq))
                lse = sunk_row(r, b, h, q, want);
            ck_assert_msg(near(got, lse, limit),
                          "b %d h %d q %d: lse %.17g, want %.17g", b, h, q, got,
                          lse);
            for (int d = 0; d < p->Dv; d++) {
                double o = get(&r->o.t, b, h, q, d);
                ck_assert_msg(near(o, want[d], limit),
                              "o[%d][%d][%d][%d] is %.17g, want %.17g", b, h, q,
                              d, o, want[d]);
            }
        }
}

static void check_sunk(const struct problem *p, const float *values)
{
    struct run r;
    start(&r, p);
    give(&r, values);
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int b = 0; b < p->B; b++)
        check_rows(&r, b);
    finish(&r);
}

/* Below, among and above the scores; none; far away. */
static const float usual[MAX_H] = {0,       2.5f, -3, -INFINITY,
                                   -100000, 80,   1,  100000};
static const struct problem base = {
    .B = 1, .H = 8, .Hkv = 2, .Sq = 70, .Skv = 300, .D = 8, .Dv = 10};

/* --- numbers --- */

START_TEST(against_loops)
{
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = base;
        use_mod(&p, mod);
        p.f64 |= _i;
        p.out = p.f64 ? FACC_F64 : FACC_F32;
        p.layout = mod % 2 ? PERMUTED : PLAIN;
        p.spread = mod % 3 ? 1 : 3;
        p.threads = 1 + mod % 3;
        check_sunk(&p, usual);
    }
}
END_TEST

/* Sinks are no scores: neither the scale nor the score_mod is for them. */
START_TEST(scaled)
{
    struct problem p = base;
    use_mod(&p, 3); /* softcap */
    p.scale = 0.01;
    p.f64 = _i;
    p.out = p.f64 ? FACC_F64 : FACC_F32;
    check_sunk(&p, usual);
}
END_TEST

START_TEST(ratios_of_heads)
{
    for (int Hkv = 1; Hkv <= 8; Hkv *= 2) {
        struct problem p = base;
        p.Hkv = Hkv;
        p.Sq = 5;
        p.f64 = 1;
        p.out = FACC_F64;
        check_sunk(&p, usual);
    }
}
END_TEST

/* Also scores of -inf in every key, from a score_mod. */
START_TEST(rows_without_keys)
{
    static const int32_t used_q[2] = {70, 3}, used_kv[2] = {0, 299};
    static const float odd[MAX_H] = {INFINITY, NAN, 3, -INFINITY, 0, -7, 1, 2};
    struct problem p = base;
    p.B = 2;
    p.f64 = _i;
    p.out = p.f64 ? FACC_F64 : FACC_F32;
    p.used_q = used_q;
    p.used_kv = used_kv;
    check_sunk(&p, usual);
    check_sunk(&p, odd);
    p.lua = minus_inf_lua;
    p.score = minus_inf;
    p.scale = 1e-5; /* which that program takes back */
    check_sunk(&p, usual);
    p = base;
    p.f64 = _i;
    p.out = p.f64 ? FACC_F64 : FACC_F32;
    p.Skv = 0;
    check_sunk(&p, usual);
    check_sunk(&p, odd);
}
END_TEST

/* Of infinity and NaN, in heads beside others. */
START_TEST(no_numbers)
{
    static const float odd[MAX_H] = {INFINITY, NAN, 3, -INFINITY, 0, -7, 1, 2};
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = base;
        use_mod(&p, mod);
        p.f64 |= _i;
        p.out = p.f64 ? FACC_F64 : FACC_F32;
        check_sunk(&p, odd);
    }
}
END_TEST

/* Scores of 30,000 times as much, some -inf, and sinks as large. */
START_TEST(huge_scores)
{
    static const float huge[MAX_H] = {30000, -30000, 3e38f, -3e38f,
                                      9000,  0,      1,     INFINITY};
    struct problem p = base;
    p.lua = minus_inf_lua;
    p.score = minus_inf;
    p.f64 = 1;
    p.out = FACC_F64;
    check_sunk(&p, huge);
}
END_TEST

/* --- bits --- */

static void same_bits(const struct run *a, const struct run *b)
{
    ck_assert_msg(a->status == FACC_OK, "%s", a->err.message);
    ck_assert_msg(b->status == FACC_OK, "%s", b->err.message);
    ck_assert(memcmp(a->o.memory, b->o.memory, a->o.bytes) == 0);
    ck_assert(memcmp(a->lse.memory, b->lse.memory, a->lse.bytes) == 0);
}

START_TEST(minus_infinity_is_none)
{
    float none[MAX_H];
    for (int h = 0; h < MAX_H; h++)
        none[h] = -INFINITY;
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = base;
        struct run with, without;
        use_mod(&p, mod);
        p.f64 |= _i;
        start(&with, &p);
        start(&without, &p);
        give(&with, none);
        attend(&with);
        attend(&without);
        same_bits(&with, &without);
        finish(&with);
        finish(&without);
    }
}
END_TEST

/* One for all heads by stride 0; backwards. */
START_TEST(strides)
{
    static const float all[MAX_H] = {0.5f, 0.5f, 0.5f, 0.5f,
                                     0.5f, 0.5f, 0.5f, 0.5f};
    static float backwards[MAX_H];
    struct run r[2];
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++)
            start(&r[k], &base);
        for (int h = 0; h < base.H; h++)
            backwards[base.H - 1 - h] = usual[h];
        facc_tensor other = {&backwards[base.H - 1], FACC_F32, 1, {8}, {-1}};
        float one = 0.5f;
        if (i)
            other = (facc_tensor){&one, FACC_F32, 1, {8}, {0}};
        r[0].args.sinks = &other;
        attend(&r[0]);
        give(&r[1], i ? all : usual);
        attend(&r[1]);
        same_bits(&r[0], &r[1]);
        for (int k = 0; k < 2; k++)
            finish(&r[k]);
    }
}
END_TEST

/* --- sequences and blocks --- */

START_TEST(packed)
{
    enum { N = 4 };
    static const int32_t cu_q[N + 1] = {0, 5, 5, 135, 136};
    static const int32_t cu_kv[N + 1] = {0, 5, 12, 142, 142};
    struct problem p = base;
    struct run r;
    p.B = 1;
    p.Sq = cu_q[N];
    p.Skv = cu_kv[N];
    p.lua = causal_lua;
    p.keep = causal;
    p.f64 = _i;
    p.out = p.f64 ? FACC_F64 : FACC_F32;
    start(&r, &p);
    r.args.cu_seqlens_q = cu_q;
    r.args.cu_seqlens_kv = cu_kv;
    r.args.n_seqs = N;
    give(&r, usual);
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int b = 0; b < N; b++) { /* the last has a row and no key */
        struct run one = r;
        one.p.Sq = cu_q[b + 1] - cu_q[b];
        one.p.Skv = cu_kv[b + 1] - cu_kv[b];
        one.q.t.data = element(&r.q.t, 0, 0, cu_q[b], 0);
        one.o.t.data = element(&r.o.t, 0, 0, cu_q[b], 0);
        one.lse.t.data = element(&r.lse.t, 0, 0, cu_q[b], 0);
        one.k.t.data = element(&r.k.t, 0, 0, cu_kv[b], 0);
        one.v.t.data = element(&r.v.t, 0, 0, cu_kv[b], 0);
        check_rows(&one, 0);
    }
    finish(&r);
}
END_TEST

/* Rows of blocks: two blocks, none, one that is full. */
static bool of_blocks(int b, int h, int q, int kv)
{
    static const unsigned blocks[3] = {1 << 0 | 1 << 4, 0, 1 << 2};
    (void)b, (void)h;
    return blocks[q / 64] >> (kv / 64) & 1;
}

START_TEST(block_lists)
{
    static const int32_t count[3] = {2, 0, 0}, full_count[3] = {0, 0, 1};
    static const int32_t index[15] = {0, 4}, full_index[15] = {[10] = 2};
    facc_block_mask m = FACC_BLOCK_MASK_INIT;
    struct problem p = base;
    struct run r;
    p.Sq = 150;
    p.f64 = 1;
    p.out = FACC_F64;
    p.keep = of_blocks;
    m.block_q = m.block_kv = 64;
    m.rows = 3;
    m.cols = 5;
    m.kv_num_blocks = count;
    m.kv_indices = index;
    m.full_kv_num_blocks = full_count;
    m.full_kv_indices = full_index;
    start(&r, &p);
    r.args.block_mask = &m;
    give(&r, usual);
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int b = 0; b < p.B; b++)
        check_rows(&r, b);
    finish(&r);
}
END_TEST

/* --- errors --- */

static void refused(struct run *r, const facc_tensor *t, const char *says)
{
    r->args.sinks = t;
    attend(r);
    ck_assert_int_eq(r->status, FACC_ERR_ARGUMENT);
    ck_assert_msg(strstr(r->err.message, says), "%s", r->err.message);
}

START_TEST(refusals)
{
    struct run r;
    start(&r, &base);
    give(&r, usual);
    facc_tensor t = view;
    t.dtype = FACC_F64;
    refused(&r, &t, "sinks: dtype is f64, expected f32");
    t = view;
    t.rank = 2;
    refused(&r, &t, "sinks: rank is 2, expected 1 ([H])");
    t = view;
    t.shape[0] = base.Hkv;
    refused(&r, &t, "sinks: shape is [2], expected [8] ([H])");
    t = view;
    t.data = NULL;
    refused(&r, &t, "sinks: data is NULL");
    finish(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("attention_sinks");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, open_context, close_context);
    tcase_add_loop_test(t, against_loops, 0, 2);
    tcase_add_loop_test(t, scaled, 0, 2);
    tcase_add_test(t, ratios_of_heads);
    tcase_add_loop_test(t, rows_without_keys, 0, 2);
    tcase_add_loop_test(t, no_numbers, 0, 2);
    tcase_add_test(t, huge_scores);
    tcase_add_loop_test(t, minus_infinity_is_none, 0, 2);
    tcase_add_test(t, strides);
    tcase_add_loop_test(t, packed, 0, 2);
    tcase_add_test(t, block_lists);
    tcase_add_test(t, refusals);
    suite_add_tcase(s, t);
    return suite_run(s);
}

/* CPU attention with dropout, against loops written by hand, whose random
 * numbers are written a second time, too. */
#include "tests/numeric/attention_reference.h"
#include "tests/unit/suite.h"

/* --- which weights ------------------------------------------------------- */

static uint32_t high_of(uint32_t x, uint32_t y)
{
    return (uint32_t)((uint64_t)x * y >> 32);
}

/* Philox-4x32-10, round by round: multiply, swap, xor with the key. */
static void random_words(const uint32_t counter[4], uint64_t key,
                         uint32_t out[4])
{
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    for (uint32_t i = 0; i < 10; i++) {
        const uint32_t k0 = (uint32_t)key + i * 0x9E3779B9u;
        const uint32_t k1 = (uint32_t)(key >> 32) + i * 0xBB67AE85u;
        const uint32_t low0 = 0xD2511F53u * a, low1 = 0xCD9E8D57u * c;
        const uint32_t next0 = high_of(0xCD9E8D57u, c) ^ b ^ k0;
        const uint32_t next2 = high_of(0xD2511F53u, a) ^ d ^ k1;
        a = next0, b = low1, c = next2, d = low0;
    }
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}

static bool is_dropped(const facc_args *a, int H, int b, int h, int q, int kv)
{
    const uint32_t counter[4] = {
        (uint32_t)(kv / 16 * 4 + kv % 8 / 2), (uint32_t)(q / 16 * 8 + q % 8),
        (uint32_t)(b * H + h), (uint32_t)a->dropout_offset};
    const uint64_t key = a->dropout_seed ^ (a->dropout_offset >> 32 << 32);
    uint32_t x[4];
    random_words(counter, key, x);
    const uint32_t word = x[q / 8 % 2 + 2 * (kv / 8 % 2)];
    const double number = kv % 2 ? word >> 16 : word & 65535;
    return number >= 65536 - nearbyint(a->dropout_p * 65536);
}

/* What stays is divided by the share that stays. */
static double share_of(const facc_args *a)
{
    return 1 - nearbyint(a->dropout_p * 65536) / 65536;
}

/* --- rows ---------------------------------------------------------------- */

/* Row q of sequence b, whose number for the random ones is `random_b`, in
 * double: O, LSE. */
static double dropped_row(const struct run *r, int b, int random_b, int h,
                          int q, double *out)
{
    const struct problem *p = &r->p;
    const facc_tensor *sinks = r->args.sinks;
    double s[512], top = -INFINITY, sum = 0;
    ck_assert_int_le(p->Skv, 512);
    for (int d = 0; d < p->Dv; d++)
        out[d] = 0;
    for (int kv = 0; kv < p->Skv; kv++) {
        s[kv] = is_kept(p, b, h, q, kv) ? raw_score(r, b, h, q, kv) : -INFINITY;
        top = s[kv] > top ? s[kv] : top;
    }
    if (top == -INFINITY)
        return sinks ? (double)((const float *)sinks->data)[h] : -INFINITY;
    for (int kv = 0; kv < p->Skv; kv++) {
        if (s[kv] == -INFINITY)
            continue;
        const double w = exp(s[kv] - top);
        sum += w;
        const double stays =
            is_dropped(&r->args, p->H, random_b, h, q, kv) ? 0 : w;
        for (int d = 0; d < p->Dv; d++)
            out[d] += stays * get(&r->v.t, b, h / (p->H / p->Hkv), kv, d);
    }
    if (sinks)
        sum += exp((double)((const float *)sinks->data)[h] - top);
    for (int d = 0; d < p->Dv; d++)
        out[d] /= sum * share_of(&r->args);
    return top + log(sum);
}

static bool near(double got, double want, double limit)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= limit * fmax(1, fabs(want));
}

static void check_rows(const struct run *r, int b, int random_b)
{
    const struct problem *p = &r->p;
    const double limit = p->f64 ? 1e-12 : 3e-6;
    const double weight = fmax(1, 0.25 / share_of(&r->args));
    double want[64];
    for (int h = 0; h < p->H; h++)
        for (int q = 0; q < p->Sq; q++) {
            double lse = -INFINITY, got = get(&r->lse.t, b, h, q, 0);
            memset(want, 0, sizeof want);
            if (q < used(p->used_q, b, p->Sq))
                lse = dropped_row(r, b, random_b, h, q, want);
            ck_assert_msg(near(got, lse, limit),
                          "b %d h %d q %d: lse %.17g, want %.17g", b, h, q, got,
                          lse);
            for (int d = 0; d < p->Dv; d++) {
                double o = get(&r->o.t, b, h, q, d);
                ck_assert_msg(near(o, want[d], limit * weight),
                              "o[%d][%d][%d][%d] is %.17g, want %.17g", b, h, q,
                              d, o, want[d]);
            }
        }
}

static void give(struct run *r, double p, uint64_t seed, uint64_t offset)
{
    r->args.dropout_p = p;
    r->args.dropout_seed = seed;
    r->args.dropout_offset = offset;
}

static void check_dropped(const struct problem *p, double probability,
                          uint64_t seed, uint64_t offset)
{
    struct run r;
    start(&r, p);
    give(&r, probability, seed, offset);
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int b = 0; b < p->B; b++)
        check_rows(&r, b, b);
    finish(&r);
}

static const struct problem base = {
    .B = 2, .H = 4, .Hkv = 2, .Sq = 40, .Skv = 170, .D = 8, .Dv = 10};

/* --- numbers ------------------------------------------------------------- */

START_TEST(against_loops)
{
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = base;
        use_mod(&p, mod);
        p.f64 |= _i;
        p.out = p.f64 ? FACC_F64 : FACC_F32;
        p.layout = mod % 2 ? PERMUTED : PLAIN;
        p.threads = 1 + mod % 3;
        p.Sq += 3 * mod;
        p.Skv -= 9 * mod;
        check_dropped(&p, 0.1 + 0.12 * mod, 0x9abcdef012345678u + (unsigned)mod,
                      (uint64_t)mod << 31);
    }
}
END_TEST

/* From one weight in 65,536 that is dropped to one that stays. */
START_TEST(probabilities)
{
    static const double all[] = {0x1p-16, 0.001, 0.5, 0.999, 1 - 0x1p-16};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct problem p = base;
        p.f64 = _i;
        p.out = p.f64 ? FACC_F64 : FACC_F32;
        check_dropped(&p, all[i], i, 0);
    }
}
END_TEST

START_TEST(ratios_of_heads)
{
    for (int Hkv = 1; Hkv <= 4; Hkv *= 2) {
        struct problem p = base;
        p.Hkv = Hkv;
        p.Sq = 5;
        p.f64 = 1;
        p.out = FACC_F64;
        check_dropped(&p, 0.3, 1, 2);
    }
}
END_TEST

START_TEST(used_lengths)
{
    static const int32_t used_q[2] = {40, 3}, used_kv[2] = {0, 169};
    struct problem p = base;
    p.f64 = _i;
    p.out = p.f64 ? FACC_F64 : FACC_F32;
    p.used_q = used_q;
    p.used_kv = used_kv;
    check_dropped(&p, 0.3, 1, 2);
    p = base;
    p.f64 = _i;
    p.out = p.f64 ? FACC_F64 : FACC_F32;
    p.Skv = 0;
    check_dropped(&p, 0.3, 1, 2);
}
END_TEST

/* The denominator has sinks and all weights. */
START_TEST(sinks)
{
    static float values[4] = {0.5f, -INFINITY, 3, -20};
    facc_tensor t = {values, FACC_F32, 1, {4}, {1}};
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = base;
        struct run r;
        use_mod(&p, mod);
        p.f64 |= _i;
        p.out = p.f64 ? FACC_F64 : FACC_F32;
        start(&r, &p);
        r.args.sinks = &t;
        give(&r, 0.25, 3, 4);
        attend(&r);
        ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
        for (int b = 0; b < p.B; b++)
            check_rows(&r, b, b);
        finish(&r);
    }
}
END_TEST

/* Sequences one behind the other: as each alone, b the sequence. */
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
    give(&r, 0.4, 5, 6);
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int b = 0; b < N; b++) {
        struct run one = r;
        one.p.Sq = cu_q[b + 1] - cu_q[b];
        one.p.Skv = cu_kv[b + 1] - cu_kv[b];
        one.q.t.data = element(&r.q.t, 0, 0, cu_q[b], 0);
        one.o.t.data = element(&r.o.t, 0, 0, cu_q[b], 0);
        one.lse.t.data = element(&r.lse.t, 0, 0, cu_q[b], 0);
        one.k.t.data = element(&r.k.t, 0, 0, cu_kv[b], 0);
        one.v.t.data = element(&r.v.t, 0, 0, cu_kv[b], 0);
        check_rows(&one, 0, b);
    }
    finish(&r);
}
END_TEST

/* 0 times what is no number is none; masked cells are not there at all. */
START_TEST(no_numbers)
{
    struct problem p = base;
    struct run r;
    p.lua = causal_lua;
    p.keep = causal;
    p.f64 = _i;
    p.out = p.f64 ? FACC_F64 : FACC_F32;
    start(&r, &p);
    for (int b = 0; b < p.B; b++) {
        put(&r.v.t, b, 0, 30, 4, (double)NAN);
        put(&r.v.t, b, 1, 31, 5, (double)INFINITY);
    }
    give(&r, 0.5, 9, 0);
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int b = 0; b < p.B; b++)
        check_rows(&r, b, b);
    finish(&r);
}
END_TEST

/* --- bits ---------------------------------------------------------------- */

static void same_bits(const struct problem *p, double probability, bool same)
{
    struct run with, without;
    start(&with, p);
    start(&without, p);
    give(&with, probability, 77, 88);
    attend(&with);
    attend(&without);
    ck_assert_msg(with.status == FACC_OK, "%s", with.err.message);
    ck_assert_msg(without.status == FACC_OK, "%s", without.err.message);
    ck_assert(memcmp(with.lse.memory, without.lse.memory, with.lse.bytes) == 0);
    ck_assert_int_eq(memcmp(with.o.memory, without.o.memory, with.o.bytes) == 0,
                     same);
    finish(&with);
    finish(&without);
}

START_TEST(zero_is_none)
{
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = base;
        use_mod(&p, mod);
        p.f64 |= _i;
        same_bits(&p, 0, true);
        same_bits(&p, 0x1p-18, true);
        same_bits(&p, 0.2, false);
    }
}
END_TEST

/* --- statistics ---------------------------------------------------------- */

enum { QUERIES = 384, KEYS = 64, HEADS = 4, CELLS = HEADS * QUERIES * KEYS };

/* Decisions, seen from outside: with weights that are all the same and V the
 * identity, output is 0 where one is dropped. */
static void decisions(double p, uint64_t seed, uint64_t offset, bool *dropped)
{
    const struct problem identity = {.B = 1,
                                     .H = HEADS,
                                     .Hkv = 1,
                                     .Sq = QUERIES,
                                     .Skv = KEYS,
                                     .D = 8,
                                     .Dv = KEYS};
    struct run r;
    start(&r, &identity);
    fill(&r.q, 0);
    for (int i = 0; i < KEYS; i++)
        for (int j = 0; j < KEYS; j++)
            put(&r.v.t, 0, 0, i, j, i == j);
    give(&r, p, seed, offset);
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int h = 0, n = 0; h < HEADS; h++)
        for (int q = 0; q < QUERIES; q++)
            for (int kv = 0; kv < KEYS; kv++, n++) {
                const double o = get(&r.o.t, 0, h, q, kv);
                dropped[n] = o == 0;
                ck_assert(o == 0 || near(o, 1.0 / KEYS / (1 - p), 1e-4));
            }
    finish(&r);
}

/* `count` of n events of probability p, within five deviations. */
static void expect_rate(const char *what, long count, long n, double p)
{
    const double deviation = sqrt((double)n * p * (1 - p));
    ck_assert_msg(fabs((double)count - (double)n * p) < 5 * deviation,
                  "%s: %ld of %ld, expected %.0f +- %.0f", what, count, n,
                  (double)n * p, deviation);
}

START_TEST(rates)
{
    static bool x[CELLS];
    const double p[] = {0.1, 0.3, 0.5, 0.85};
    const int far[] = {1, 2, 8, 16, KEYS, 8 * KEYS, 16 * KEYS, QUERIES * KEYS};
    decisions(p[_i], 1234 + (uint64_t)_i, 0, x);
    long count = 0;
    for (int i = 0; i < CELLS; i++)
        count += x[i];
    expect_rate("dropped", count, CELLS, p[_i]);
    for (size_t f = 0; f < sizeof far / sizeof far[0]; f++) {
        long both = 0;
        for (int i = 0; i + far[f] < CELLS; i++)
            both += x[i] && x[i + far[f]];
        expect_rate("with a neighbour", both, CELLS - far[f], p[_i] * p[_i]);
    }
}
END_TEST

START_TEST(streams)
{
    static bool x[CELLS], y[CELLS];
    static const uint64_t other[][2] = {
        {1, 1}, {2, 0}, {1, (uint64_t)1 << 40}, {(uint64_t)1 << 40, 0}};
    decisions(0.5, 1, 0, x);
    decisions(0.5, 1, 0, y);
    ck_assert(memcmp(x, y, sizeof x) == 0);
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        long both = 0;
        decisions(0.5, other[i][0], other[i][1], y);
        for (int k = 0; k < CELLS; k++)
            both += x[k] && y[k];
        expect_rate("in both streams", both, CELLS, 0.25);
    }
}
END_TEST

/* --- errors -------------------------------------------------------------- */

START_TEST(refusals)
{
    static const struct {
        double p;
        const char *says;
    } all[] = {{1, "dropout_p is 1: it must be at least 0 and below 1"},
               {-0.25, "dropout_p is -0.25: it must be"},
               {1.5, "dropout_p is 1.5: it must be"},
               {NAN, "dropout_p is nan: it must be"},
               {INFINITY, "dropout_p is inf: it must be"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct run r;
        start(&r, &base);
        give(&r, all[i].p, 0, 0);
        attend(&r);
        ck_assert_int_eq(r.status, FACC_ERR_ARGUMENT);
        ck_assert_msg(strstr(r.err.message, all[i].says), "%s", r.err.message);
        finish(&r);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("attention_dropout");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, open_context, close_context);
    tcase_add_loop_test(t, against_loops, 0, 2);
    tcase_add_loop_test(t, probabilities, 0, 2);
    tcase_add_test(t, ratios_of_heads);
    tcase_add_loop_test(t, used_lengths, 0, 2);
    tcase_add_loop_test(t, sinks, 0, 2);
    tcase_add_loop_test(t, packed, 0, 2);
    tcase_add_loop_test(t, no_numbers, 0, 2);
    tcase_add_loop_test(t, zero_is_none, 0, 2);
    tcase_add_loop_test(t, rates, 0, 4);
    tcase_add_test(t, streams);
    tcase_add_test(t, refusals);
    suite_add_tcase(s, t);
    return suite_run(s);
}

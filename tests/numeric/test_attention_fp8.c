/* CPU attention of FP8 tensors with descales, means and the image of V, against
 * loops written by hand. */
#include "tests/numeric/attention_reference.h"
#include "tests/unit/suite.h"

/* Scales of one tensor: one number, of heads, of blocks; every second float. */
struct scales {
    float values[2 * 8 * 12 * 2];
    facc_tensor t;
    int block;
};

/* What a call brings, and where loops look it up. */
struct fp8 {
    struct scales q, k, v;
    float mean[4 * 8 * 32];
    facc_tensor mean_view;
    uint8_t image[4 * 8 * 16 * 32 * 32];
    facc_tensor image_view;
    double sink; /* of all heads, or -inf */
    float sinks[MAX_H];
    facc_tensor sink_view;
    const int32_t *cu_q, *cu_kv; /* first rows of packed sequences, or NULL */
};

enum kind { NONE, ONE, HEADS, BLOCKS };

static void make_scales(struct scales *s, enum kind kind, int B, int heads,
                        int rows, int block, double least)
{
    const int blocks = kind == BLOCKS ? (rows + block - 1) / block : 1;
    const int n = kind == ONE ? 1 : B * heads * blocks;
    memset(s->values, 0xff, sizeof s->values); /* NaN */
    ck_assert_int_le(2 * n, (int)(sizeof s->values / sizeof(float)));
    for (int i = 0; i < n; i++)
        s->values[2 * i] = (float)(least * (1 + 3 * fabs(uniform())));
    s->block = kind == BLOCKS ? block : 0;
    s->t = (facc_tensor){s->values, FACC_F32, 0, {0}, {0}};
    if (kind >= HEADS) {
        s->t.rank = kind == BLOCKS ? 3 : 2;
        s->t.shape[0] = B;
        s->t.shape[1] = heads;
        s->t.shape[2] = blocks;
        s->t.stride[2] = 2;
        s->t.stride[1] = 2 * blocks;
        s->t.stride[0] = 2 * blocks * heads;
    }
}

static const facc_tensor *given(const struct scales *s, enum kind kind)
{
    return kind == NONE ? NULL : &s->t;
}

static double scale_at(const facc_tensor *t, int block, int b, int head,
                       int row)
{
    const float *f = t ? t->data : NULL;
    if (!t)
        return 1;
    if (t->rank == 0)
        return (double)f[0];
    int64_t at = b * t->stride[0] + head * t->stride[1];
    if (t->rank == 3)
        at += row / block * t->stride[2];
    return (double)f[at];
}

/* Row `row` of sequence b. */
static double element_at(const facc_tensor *t, const int32_t *cu, int b, int h,
                         int row, int d)
{
    return cu ? get(t, 0, h, cu[b] + row, d) : get(t, b, h, row, d);
}

static double mean_at(const facc_args *a, int b, int hkv, int d)
{
    const facc_tensor *t = a->v_mean;
    if (!t)
        return 0;
    return (double)((const float *)
                        t->data)[b * t->stride[0] + hkv * t->stride[1] + d];
}

/* V's values, from V itself: the image has what it has. */
static double v_at(const struct run *r, const struct fp8 *f, int b, int hkv,
                   int kv, int d)
{
    const facc_args *a = &r->args;
    return element_at(&r->v.t, f->cu_kv, b, hkv, kv, d) *
               scale_at(a->descale_v, a->descale_block_kv, b, hkv, kv) +
           mean_at(a, b, hkv, d);
}

static double score_at(const struct run *r, const struct fp8 *f, int b, int h,
                       int q, int kv)
{
    const struct problem *p = &r->p;
    const facc_args *a = &r->args;
    const int hkv = h / (p->H / p->Hkv);
    const bool all = a->descale_q && a->descale_q->rank > 0 &&
                     a->descale_q->shape[1] == p->H;
    const double scale =
        scale_at(a->descale_q, a->descale_block_q, b, all ? h : hkv, q) *
        scale_at(a->descale_k, a->descale_block_kv, b, hkv, kv);
    double s = 0;
    for (int d = 0; d < p->D; d++)
        s += element_at(&r->q.t, f->cu_q, b, h, q, d) *
             element_at(&r->k.t, f->cu_kv, b, hkv, kv, d);
    s *= scale / sqrt(p->D);
    return p->score ? p->score(s, b, h, q, kv) : s;
}

static double row_of(const struct run *r, const struct fp8 *f, int b, int h,
                     int q, int n, double *out)
{
    const struct problem *p = &r->p;
    double s[512], top = f->sink, sum = 0;
    bool any = false;
    if (n > 512)
        ck_abort_msg("%d keys", n);
    memset(out, 0, (size_t)p->Dv * sizeof *out);
    for (int kv = 0; kv < n; kv++) {
        s[kv] =
            is_kept(p, b, h, q, kv) ? score_at(r, f, b, h, q, kv) : -INFINITY;
        any |= s[kv] != -INFINITY;
        top = s[kv] > top ? s[kv] : top;
    }
    if (!any)
        return f->sink;
    for (int kv = 0; kv < n; kv++) {
        if (s[kv] == -INFINITY)
            continue;
        const double w = exp(s[kv] - top);
        sum += w;
        for (int d = 0; d < p->Dv; d++)
            out[d] += w * v_at(r, f, b, h / (p->H / p->Hkv), kv, d);
    }
    sum += exp(f->sink - top);
    for (int d = 0; d < p->Dv; d++)
        out[d] /= sum;
    return top + log(sum);
}

static bool near(double got, double want, double limit)
{
    if (!isfinite(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= limit * fmax(1, fabs(want));
}

static void check_rows(const struct run *r, const struct fp8 *f, int b)
{
    const struct problem *p = &r->p;
    const double limit = p->f64 ? 1e-13 : 4e-6;
    const int rows = f->cu_q ? f->cu_q[b + 1] - f->cu_q[b] : p->Sq;
    const int keys = f->cu_kv ? f->cu_kv[b + 1] - f->cu_kv[b] : p->Skv;
    double want[32];
    for (int h = 0; h < p->H; h++)
        for (int q = 0; q < rows; q++) {
            double lse = -INFINITY;
            memset(want, 0, sizeof want);
            if (q < used(p->used_q, b, rows))
                lse = row_of(r, f, b, h, q, keys, want);
            const double got = element_at(&r->lse.t, f->cu_q, b, h, q, 0);
            if (!near(got, lse, limit))
                ck_abort_msg("b %d h %d q %d: lse %.17g, want %.17g", b, h, q,
                             got, lse);
            for (int d = 0; d < p->Dv; d++) {
                const double o = element_at(&r->o.t, f->cu_q, b, h, q, d);
                if (!near(o, want[d], limit))
                    ck_abort_msg("o[%d][%d][%d][%d] is %.17g, want %.17g", b, h,
                                 q, d, o, want[d]);
            }
        }
}

/* The image as facc.h and fp8_args.h tell of it, tokens one by one. Bytes that
 * nobody may read are NaN. */
static void make_image(struct run *r, struct fp8 *f)
{
    const struct problem *p = &r->p;
    const int n_seqs = f->cu_kv ? p->B : 0, B = f->cu_kv ? 1 : p->B;
    const int64_t chunks = facc_v_chunks(p->Skv, n_seqs);
    const int64_t chunk = 32 * p->Dv, head = chunks * chunk;
    ck_assert_int_le(B * p->Hkv * head, (int64_t)sizeof f->image);
    memset(f->image, 0x7f, sizeof f->image);
    f->image_view = (facc_tensor){f->image,
                                  r->v.t.dtype,
                                  4,
                                  {B, p->Hkv, chunks, chunk},
                                  {p->Hkv * head, head, chunk, 1}};
    for (int b = 0; b < p->B; b++) {
        const int keys = f->cu_kv ? f->cu_kv[b + 1] - f->cu_kv[b] : p->Skv;
        const int64_t first = f->cu_kv ? f->cu_kv[b] / 32 + 4 * b : 0;
        for (int h = 0; h < p->Hkv; h++)
            for (int t = 0; t < keys; t++)
                for (int d = 0; d < p->Dv; d++) {
                    const int unit = t % 32 / 16 ^ d / 4 % 2, k = t % 16;
                    int place = 0; /* byte 4 q + i is token 2 q + i, 6 + .. */
                    for (int at = 0; at < 16; at++)
                        if (k == 2 * (at / 4) + at % 4 + (at % 4 < 2 ? 0 : 6))
                            place = at;
                    uint8_t *to = f->image +
                                  (f->cu_kv ? 0 : b) * p->Hkv * head +
                                  h * head + (first + t / 32) * chunk;
                    memcpy(&to[32 * d + 16 * unit + place],
                           f->cu_kv ? element(&r->v.t, 0, h, f->cu_kv[b] + t, d)
                                    : element(&r->v.t, b, h, t, d),
                           1);
                }
    }
    r->args.v_image = &f->image_view;
    r->args.v.data = NULL;
}

struct setting {
    enum kind q, k, v;
    bool q_heads; /* Q's are of all heads */
    int block_q, block_kv;
    bool mean, image, sinks;
};

static void give(struct run *r, struct fp8 *f, const struct setting *s, int B,
                 int rows, int keys)
{
    const struct problem *p = &r->p;
    make_scales(&f->q, s->q, B, s->q_heads ? p->H : p->Hkv, rows,
                s->block_q ? s->block_q : 32, 0.5);
    make_scales(&f->k, s->k, B, p->Hkv, keys, s->block_kv ? s->block_kv : 32,
                0.5);
    make_scales(&f->v, s->v, B, p->Hkv, keys, s->block_kv ? s->block_kv : 32,
                0.25);
    r->args.descale_q = given(&f->q, s->q);
    r->args.descale_k = given(&f->k, s->k);
    r->args.descale_v = given(&f->v, s->v);
    r->args.descale_block_q = s->block_q;
    r->args.descale_block_kv = s->block_kv;
    for (int i = 0; i < B * p->Hkv * p->Dv; i++)
        f->mean[i] = (float)(2 * uniform());
    f->mean_view = (facc_tensor){
        f->mean, FACC_F32, 3, {B, p->Hkv, p->Dv}, {p->Hkv * p->Dv, p->Dv, 1}};
    r->args.v_mean = s->mean ? &f->mean_view : NULL;
    f->sink = s->sinks ? 1.5 : -INFINITY;
    for (int h = 0; h < MAX_H; h++)
        f->sinks[h] = 1.5f;
    f->sink_view = (facc_tensor){f->sinks, FACC_F32, 1, {p->H}, {1}};
    r->args.sinks = s->sinks ? &f->sink_view : NULL;
    if (s->image)
        make_image(r, f);
}

static void check_setting(const struct problem *p, const struct setting *s)
{
    static struct fp8 f;
    struct run r;
    memset(&f, 0, sizeof f);
    start(&r, p);
    give(&r, &f, s, p->B, p->Sq, p->Skv);
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int b = 0; b < p->B; b++)
        check_rows(&r, &f, b);
    finish(&r);
}

static const struct problem base = {
    .B = 2, .H = 4, .Hkv = 2, .Sq = 67, .Skv = 100, .D = 8, .Dv = 12};

static struct problem problem_of(int f64, facc_dtype in)
{
    struct problem p = base;
    p.in = in;
    p.f64 = f64;
    p.out = f64 ? FACC_F64 : FACC_F32;
    return p;
}

/* Every kind of descale of each tensor, with and without the others (odd and
 * even ones are cases of their own). */
START_TEST(kinds)
{
    for (int q = NONE; q <= BLOCKS; q++)
        for (int k = NONE; k <= BLOCKS; k++)
            for (int v = NONE; v <= BLOCKS; v++) {
                if ((q + k + v) % 2 != _i)
                    continue;
                struct problem p =
                    problem_of(v % 2, (q + k) % 2 ? FACC_E5M2 : FACC_E4M3);
                struct setting s = {(enum kind)q, (enum kind)k, (enum kind)v,
                                    (q + k) % 2,  32,           64,
                                    v % 2,        k % 2,        q == HEADS};
                p.B = 1;
                p.Sq = 40;
                check_setting(&p, &s);
            }
}
END_TEST

/* Blocks that no tile knows of, the last one cut; mods see scaled scores. */
START_TEST(mods_and_blocks)
{
    static const int blocks[] = {32, 96, 160, 4096};
    for (int mod = 0; mod < N_MODS; mod++)
        for (int i = mod % 2; i < 4; i += 2) {
            struct problem p = problem_of(1, FACC_E4M3);
            const struct setting s = {BLOCKS, BLOCKS,    BLOCKS,
                                      i % 2,  blocks[i], blocks[3 - i],
                                      true,   i > 1,     mod % 2};
            use_mod(&p, mod);
            check_setting(&p, &s);
        }
}
END_TEST

/* The mean is of the keys that count: of none in empty rows, in part beside a
 * sink; used lengths hide rows, whatever they hold. */
START_TEST(means_of_what_counts)
{
    static const int32_t used_q[2] = {67, 3}, used_kv[2] = {0, 99};
    const struct setting s = {HEADS, HEADS, HEADS, 0, 0, 0, true, _i, _i};
    struct problem p = problem_of(1, FACC_E4M3);
    p.lua = empty_rows_lua;
    p.keep = empty_rows;
    check_setting(&p, &s);
    p.used_q = used_q;
    p.used_kv = used_kv;
    check_setting(&p, &s);
    p.Skv = 0;
    p.used_kv = NULL;
    check_setting(&p, &s);
}
END_TEST

START_TEST(packed)
{
    enum { N = 4 };
    static const int32_t cu_q[N + 1] = {0, 5, 5, 135, 136};
    static const int32_t cu_kv[N + 1] = {0, 5, 12, 142, 142};
    static struct fp8 f;
    const struct setting s = {BLOCKS, BLOCKS, BLOCKS, false, 32,
                              64,     true,   _i & 1, _i > 1};
    struct problem p = problem_of(1, FACC_E4M3);
    struct run r;
    p.B = 1;
    p.Sq = cu_q[N];
    p.Skv = cu_kv[N];
    p.lua = causal_lua;
    p.keep = causal;
    start(&r, &p);
    r.args.cu_seqlens_q = f.cu_q = cu_q;
    r.args.cu_seqlens_kv = f.cu_kv = cu_kv;
    r.args.n_seqs = r.p.B = N;
    r.args.max_seqlen_q = r.args.max_seqlen_kv = 130;
    give(&r, &f, &s, N, 130, 130);
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int b = 0; b < N; b++)
        check_rows(&r, &f, b);
    finish(&r);
}
END_TEST

/* A scale of 0 makes scores and values 0; of NaN, NaN where it counts. */
START_TEST(odd_scales)
{
    static struct fp8 f;
    const struct setting s = {BLOCKS, BLOCKS, BLOCKS, false, 32,
                              32,     true,   false,  false};
    struct problem p = problem_of(_i, FACC_E4M3);
    struct run r;
    p.B = 1;
    p.lua = causal_lua;
    p.keep = causal;
    start(&r, &p);
    give(&r, &f, &s, 1, p.Sq, p.Skv);
    float *q = f.q.values, *k = f.k.values, *v = f.v.values;
    q[0] = k[0] = v[2] = 0;    /* the first and second blocks of head 0 */
    k[2 * 2] = v[2 * 2] = NAN; /* rows 64 to 95, seen by q >= 64 alone */
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int h = 0; h < 4; h++)
        for (int i = 0; i < 67; i++) {
            double want[32];
            const double lse = row_of(&r, &f, 0, h, i, p.Skv, want);
            const double got = get(&r.lse.t, 0, h, i, 0);
            if (h < 2 && i >= 64) {
                ck_assert(isnan(get(&r.o.t, 0, h, i, 5)));
                continue;
            }
            ck_assert(near(got, lse, 4e-6) &&
                      near(get(&r.o.t, 0, h, i, 5), want[5], 4e-6));
        }
    finish(&r);
}
END_TEST

/* NaN among V's elements stays in the rows that see it. */
START_TEST(nan_elements)
{
    static struct fp8 f;
    const struct setting s = {HEADS, HEADS, HEADS, false, 0,
                              0,     true,  _i,    false};
    struct problem p = problem_of(1, FACC_E4M3);
    struct run r;
    p.B = 1;
    p.lua = causal_lua;
    p.keep = causal;
    start(&r, &p);
    put(&r.v.t, 0, 1, 40, 3, NAN);
    give(&r, &f, &s, 1, p.Sq, p.Skv);
    attend(&r);
    ck_assert_msg(r.status == FACC_OK, "%s", r.err.message);
    for (int h = 0; h < 4; h++)
        for (int i = 0; i < 67; i++)
            for (int d = 2; d < 5; d++)
                ck_assert_int_eq(isnan(get(&r.o.t, 0, h, i, d)) != 0,
                                 h >= 2 && i >= 40 && d == 3);
    finish(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("attention_fp8");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, open_context, close_context);
    tcase_add_loop_test(t, kinds, 0, 2);
    tcase_add_test(t, mods_and_blocks);
    tcase_add_loop_test(t, means_of_what_counts, 0, 2);
    tcase_add_loop_test(t, packed, 0, 4);
    tcase_add_loop_test(t, odd_scales, 0, 2);
    tcase_add_loop_test(t, nan_elements, 0, 2);
    suite_add_tcase(s, t);
    return suite_run(s);
}

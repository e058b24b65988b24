/* CPU attention against naive O(Sq Skv) loops in double, with the mods
 * written a second time in C. f32 results may be off by a small multiple of
 * what naive f32 loops are off by. */
#ifndef FACC_TEST_ATTENTION_REFERENCE_H
#define FACC_TEST_ATTENTION_REFERENCE_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/dtype.h"
#include "runtime/facc.h"

enum { MAX_H = 8 };

/* --- problems --- */

enum layout {
    PLAIN,    /* [B][H][S][D] */
    PERMUTED, /* [B][S][H][D] in memory */
    SLICED,   /* every second element of padded rows */
    REVERSED, /* rows and elements run backwards */
    EXPANDED  /* one head for all: stride 0 */
};

struct problem {
    int B, H, Hkv, Sq, Skv, D, Dv;
    facc_dtype in, out;   /* 0: f32 */
    enum layout layout;   /* of q, k, v */
    enum layout o_layout; /* of o */
    const char *lua;      /* NULL: no mods */
    /* the same in C; NULL: identity, all kept */
    double (*score)(double s, int b, int h, int q, int kv);
    bool (*keep)(int b, int h, int q, int kv);
    const int32_t *used_q, *used_kv;
    double scale;  /* 0: default */
    double spread; /* of the inputs, 0: 1 */
    int f64, threads;
};

/* A tensor and the memory behind it. */
struct buffer {
    char *memory;
    size_t bytes;
    facc_tensor t;
};

static uint32_t state = 1;

static inline double uniform(void)
{
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 23) - 1;
}

static inline struct buffer make(facc_dtype t, enum layout l, int b, int h,
                                 int s, int d)
{
    struct buffer x = {0};
    int64_t size = (int64_t)facc_dtype_size(t);
    int64_t B = b, H = h, S = s, D = d, pad = l == SLICED ? 2 * D + 3 : D;
    int64_t n = B * H * S * pad + 8, first = l == SLICED ? 1 : 0;
    x.t = (facc_tensor){NULL, t, 4, {B, H, S, D}, {H * S * D, S * D, D, 1}};
    if (S == 0) /* as NumPy and PyTorch describe empty arrays */
        x.t.stride[0] = x.t.stride[1] = D;
    if (l == PERMUTED) {
        x.t.stride[0] = S * H * D;
        x.t.stride[1] = D;
        x.t.stride[2] = H * D;
    } else if (l == SLICED) {
        x.t.stride[0] = H * S * pad;
        x.t.stride[1] = S * pad;
        x.t.stride[2] = pad;
        x.t.stride[3] = 2;
    } else if (l == REVERSED) {
        x.t.stride[2] = -D;
        x.t.stride[3] = -1;
        first = S * D > 0 ? S * D - 1 : 0;
    } else if (l == EXPANDED) {
        x.t.stride[0] = x.t.stride[1] = 0;
    }
    x.bytes = (size_t)(n * size);
    x.memory = malloc(x.bytes);
    memset(x.memory, 0xff, x.bytes); /* NaN in every float type */
    x.t.data = x.memory + first * size;
    return x;
}

static inline char *element(const facc_tensor *t, int b, int h, int s, int d)
{
    int64_t e = b * t->stride[0] + h * t->stride[1] + s * t->stride[2] +
                d * t->stride[3];
    return (char *)t->data + e * (int64_t)facc_dtype_size(t->dtype);
}

static inline double get(const facc_tensor *t, int b, int h, int s, int d)
{
    return dtype_load_f64((enum dtype)t->dtype, element(t, b, h, s, d));
}

static inline void put(const facc_tensor *t, int b, int h, int s, int d,
                       double v)
{
    dtype_store((enum dtype)t->dtype, element(t, b, h, s, d), v);
}

static inline void fill(const struct buffer *x, double spread)
{
    for (int b = 0; b < x->t.shape[0]; b++)
        for (int h = 0; h < x->t.shape[1]; h++)
            for (int s = 0; s < x->t.shape[2]; s++)
                for (int d = 0; d < x->t.shape[3]; d++)
                    put(&x->t, b, h, s, d, uniform() * spread);
}

/* A problem with its tensors and what facc made of it. */
struct run {
    struct problem p;
    struct buffer q, k, v, o, lse;
    facc_args args;
    facc_error err;
    facc_status status;
};

static facc_ctx *ctx;

/* Captured by the mods below. */
static const float slopes[MAX_H] = {0.5f,   0.25f, 0.125f, 0.0625f,
                                    -0.25f, 1,     0,      0.03f};
static int32_t document[300];
static const int32_t window = 50;

static inline void start(struct run *r, const struct problem *p)
{
    r->p = *p;
    p = &r->p;
    facc_dtype in = p->in ? p->in : FACC_F32, out = p->out ? p->out : FACC_F32;
    double spread = p->spread != 0 ? p->spread : 1;
    state = 12345;
    r->q = make(in, p->layout, p->B, p->H, p->Sq, p->D);
    r->k = make(in, p->layout, p->B, p->Hkv, p->Skv, p->D);
    r->v = make(in, p->layout, p->B, p->Hkv, p->Skv, p->Dv);
    r->o = make(out, p->o_layout, p->B, p->H, p->Sq, p->Dv);
    r->lse = make(p->f64 ? FACC_F64 : FACC_F32, PLAIN, p->B, p->H, p->Sq, 1);
    r->lse.t.rank = 3;
    fill(&r->q, spread);
    fill(&r->k, spread);
    fill(&r->v, 1);
    r->args = (facc_args)FACC_ARGS_INIT;
    r->args.q = r->q.t;
    r->args.k = r->k.t;
    r->args.v = r->v.t;
    r->args.o = r->o.t;
    r->args.lse = r->lse.t;
    r->args.scale = p->scale;
    r->args.seqused_q = p->used_q;
    r->args.seqused_kv = p->used_kv;
}

static inline void finish(struct run *r)
{
    free(r->q.memory);
    free(r->k.memory);
    free(r->v.memory);
    free(r->o.memory);
    free(r->lse.memory);
}

static inline facc_program *load(const char *lua)
{
    facc_error err = FACC_ERROR_INIT;
    facc_program *program;
    if (lua == NULL)
        lua = "return require('facc').attention {}";
    facc_status s = facc_program_load_string(&program, ctx, "test.lua", lua,
                                             strlen(lua), &err);
    ck_assert_msg(s == FACC_OK, "%s", err.message);
    return program;
}

/* Runs it; captured values go by name. */
static inline void attend(struct run *r)
{
    facc_cpu_options o = FACC_CPU_OPTIONS_INIT;
    facc_program *program = load(r->p.lua);
    facc_tensor tensors[2];
    facc_scalar_value params[1];
    r->args.n_tensors = facc_program_tensor_count(program);
    r->args.n_params = facc_program_param_count(program);
    for (int i = 0; i < r->args.n_tensors; i++) {
        facc_declared d;
        facc_program_tensor(program, i, &d);
        tensors[i] = strcmp(d.name, "slopes") == 0
                         ? (facc_tensor){(void *)(uintptr_t)slopes,
                                         FACC_F32,
                                         1,
                                         {r->p.H},
                                         {1}}
                         : (facc_tensor){document, FACC_I32, 1, {300}, {1}};
    }
    params[0].i = window;
    r->args.tensors = tensors;
    r->args.params = params;
    o.f64 = r->p.f64;
    o.threads = r->p.threads;
    r->err = (facc_error)FACC_ERROR_INIT;
    r->status = facc_cpu_attention(ctx, program, &r->args, &o, &r->err);
    r->args.tensors = NULL; /* they end here */
    r->args.params = NULL;
    facc_program_free(program);
}

/* --- the naive way --- */

static inline int used(const int32_t *u, int b, int full)
{
    return u != NULL ? u[b] : full;
}

static inline bool is_kept(const struct problem *p, int b, int h, int q, int kv)
{
    return kv < used(p->used_kv, b, p->Skv) &&
           (p->keep == NULL || p->keep(b, h, q, kv));
}

static inline double raw_score(const struct run *r, int b, int h, int q, int kv)
{
    const struct problem *p = &r->p;
    double s = 0;
    for (int d = 0; d < p->D; d++)
        s += get(&r->q.t, b, h, q, d) *
             get(&r->k.t, b, h / (p->H / p->Hkv), kv, d);
    s *= p->scale != 0 ? p->scale : 1 / sqrt(p->D);
    return p->score != NULL ? p->score(s, b, h, q, kv) : s;
}

/* One row in double: O, LSE; and what f32 loops make of O. */
static inline double naive_row(const struct run *r, int b, int h, int q,
                               double *out, double *out_f32)
{
    const struct problem *p = &r->p;
    double *s = calloc((size_t)p->Skv + 1, sizeof *s), top = -INFINITY, l = 0;
    float l32 = 0;
    for (int kv = 0; kv < p->Skv; kv++) {
        s[kv] = is_kept(p, b, h, q, kv) ? raw_score(r, b, h, q, kv) : -INFINITY;
        top = s[kv] > top ? s[kv] : top;
    }
    for (int d = 0; d < p->Dv; d++)
        out[d] = out_f32[d] = 0;
    for (int kv = 0; kv < p->Skv; kv++) {
        if (s[kv] == -INFINITY)
            continue;
        double w = exp(s[kv] - top);
        float w32 = expf((float)s[kv] - (float)top);
        l += w;
        l32 += w32;
        for (int d = 0; d < p->Dv; d++) {
            double v = get(&r->v.t, b, h / (p->H / p->Hkv), kv, d);
            out[d] += w * v;
            out_f32[d] = (double)((float)out_f32[d] + w32 * (float)v);
        }
    }
    free(s);
    for (int d = 0; d < p->Dv && l != 0; d++) {
        out[d] /= l;
        out_f32[d] = (double)((float)out_f32[d] / l32);
    }
    return l == 0 ? -INFINITY : top + log(l);
}

/* Half a unit in the last place, relative. */
static inline double rounding(facc_dtype t)
{
    return t == FACC_F16 ? 0x1p-11 : t == FACC_BF16 ? 0x1p-8 : 0x1p-24;
}

static inline bool same_kind(double a, double b)
{
    return isnan(a) == isnan(b) && isinf(a) == isinf(b);
}

static inline void compare(const struct run *r)
{
    const struct problem *p = &r->p;
    double *want = calloc((size_t)p->Dv + 1, sizeof *want);
    double *f32 = calloc((size_t)p->Dv + 1, sizeof *f32);
    double worst = 0, worst_f32 = 0, worst_lse = 0;
    ck_assert_msg(r->status == FACC_OK, "%s", r->err.message);
    for (int b = 0; b < p->B; b++)
        for (int h = 0; h < p->H; h++)
            for (int q = 0; q < p->Sq; q++) {
                double lse = -INFINITY, got = get(&r->lse.t, b, h, q, 0);
                memset(want, 0, (size_t)p->Dv * sizeof *want);
                memset(f32, 0, (size_t)p->Dv * sizeof *f32);
                if (q < used(p->used_q, b, p->Sq))
                    lse = naive_row(r, b, h, q, want, f32);
                ck_assert_msg(same_kind(got, lse), "lse %g, want %g", got, lse);
                if (isfinite(lse))
                    worst_lse =
                        fmax(worst_lse, fabs(got - lse) / fmax(1, fabs(lse)));
                for (int d = 0; d < p->Dv; d++) {
                    double o = get(&r->o.t, b, h, q, d);
                    ck_assert_msg(same_kind(o, want[d]),
                                  "o[%d][%d][%d][%d] is %g, want %g", b, h, q,
                                  d, o, want[d]);
                    if (!isfinite(o))
                        continue;
                    double half = rounding(r->o.t.dtype) * fabs(want[d]);
                    worst = fmax(worst, fabs(o - want[d]) - half);
                    worst_f32 = fmax(worst_f32, fabs(f32[d] - want[d]));
                }
            }
    free(want);
    free(f32);
    double limit = p->f64 ? (r->o.t.dtype == FACC_F64 ? 1e-13 : 1e-12)
                          : 3 * worst_f32 + 1e-6;
    ck_assert_msg(worst <= limit, "error %g, limit %g (B%d H%d/%d S%dx%d D%d)",
                  worst, limit, p->B, p->H, p->Hkv, p->Sq, p->Skv, p->D);
    ck_assert_msg(worst_lse <= (p->f64 ? 1e-13 : 1e-6), "lse error %g",
                  worst_lse);
}

static inline void check_problem(const struct problem *p)
{
    struct run r;
    start(&r, p);
    attend(&r);
    compare(&r);
    finish(&r);
}

/* --- mods, twice --- */

#define FACC "local facc = require 'facc'\n"

static const char causal_lua[] =
    FACC "return facc.attention { mask_mod = function(b, h, q, kv)\n"
         "  return q >= kv\n"
         "end }\n";
static inline bool causal(int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return q >= kv;
}

static const char alibi_window_lua[] =
    FACC "local slopes = facc.tensor('slopes', 'f32', { 'H' })\n"
         "local window = facc.param('window', 'i32')\n"
         "return facc.attention {\n"
         "  score_mod = function(score, b, h, q, kv)\n"
         "    return score + slopes[h] * (kv - q)\n"
         "  end,\n"
         "  mask_mod = function(b, h, q, kv)\n"
         "    return q >= kv and q - kv < window\n"
         "  end,\n"
         "}\n";
static inline double alibi(double s, int b, int h, int q, int kv)
{
    (void)b;
    return s + (double)slopes[h] * (kv - q);
}
static inline bool windowed(int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return q >= kv && q - kv < window;
}

static const char softcap_lua[] =
    FACC "return facc.attention { score_mod = function(score, b, h, q, kv)\n"
         "  return 2.5 * facc.tanh(score / 2.5)\n"
         "end }\n";
static inline double softcap(double s, int b, int h, int q, int kv)
{
    (void)b, (void)h, (void)q, (void)kv;
    return 2.5 * tanh(s / 2.5);
}

static const char document_lua[] =
    FACC "local id = facc.tensor('document', 'i32', { 300 })\n"
         "return facc.attention { mask_mod = function(b, h, q, kv)\n"
         "  return id[q] == id[kv] and q >= kv\n"
         "end }\n";
static inline bool same_document(int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return document[q] == document[kv] && q >= kv;
}

/* Rows 1, 4, 7, ... of head 0 have nothing to attend to. */
static const char empty_rows_lua[] =
    FACC "return facc.attention { mask_mod = function(b, h, q, kv)\n"
         "  return (h > 0 or q % 3 ~= 1) and (q + kv) % 2 == 0\n"
         "end }\n";
static inline bool empty_rows(int b, int h, int q, int kv)
{
    (void)b;
    return (h > 0 || q % 3 != 1) && (q + kv) % 2 == 0;
}

/* A mask that needs the score: the -inf arm makes it one. */
static const char positive_lua[] =
    FACC "return facc.attention { score_mod = function(score, b, h, q, kv)\n"
         "  if score > 0.125 then return 2 * score end\n"
         "  return -math.huge\n"
         "end }\n";
static inline double positive(double s, int b, int h, int q, int kv)
{
    (void)b, (void)h, (void)q, (void)kv;
    return s > 0.125 ? 2 * s : -INFINITY;
}

/* Columns of the first tile are all -inf for late rows. */
static const char minus_inf_lua[] =
    FACC "return facc.attention { score_mod = function(score, b, h, q, kv)\n"
         "  if kv + 20 < q then return -math.huge end\n"
         "  return score * 30000\n"
         "end }\n";
static inline double minus_inf(double s, int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return kv + 20 < q ? -INFINITY : s * 30000;
}

static const struct {
    const char *lua;
    double (*score)(double, int, int, int, int);
    bool (*keep)(int, int, int, int);
} mods[] = {
    {NULL, NULL, NULL},
    {causal_lua, NULL, causal},
    {alibi_window_lua, alibi, windowed},
    {softcap_lua, softcap, NULL},
    {document_lua, NULL, same_document},
    {empty_rows_lua, NULL, empty_rows},
    {positive_lua, positive, NULL},
};
enum { N_MODS = sizeof mods / sizeof *mods };

static inline void use_mod(struct problem *p, int mod)
{
    p->lua = mods[mod].lua;
    p->score = mods[mod].score;
    p->keep = mods[mod].keep;
    if (p->score == positive) /* f32 rounding may cross the threshold */
        p->f64 = 1;
}

/* --- fixture --- */

static inline void open_context(void)
{
    facc_options o = FACC_OPTIONS_INIT;
    facc_error err = FACC_ERROR_INIT;
    o.cache_mode = 3;
    ck_assert_msg(facc_ctx_create(&ctx, &o, &err) == FACC_OK, "%s",
                  err.message);
    for (int k = 0; k < 300; k++)
        document[k] = k / 41;
}

static inline void close_context(void)
{
    facc_ctx_free(ctx);
}

#endif

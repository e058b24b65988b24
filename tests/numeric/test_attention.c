/* CPU attention against naive O(Sq Skv) loops in double, with the mods
 * written a second time in C. f32 results may be off by a small multiple of
 * what naive f32 loops are off by. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/dtype.h"
#include "runtime/facc.h"

enum { MAX_B = 4, MAX_H = 8 };

/* --- problems ---------------------------------------------------------------
 */

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

static double uniform(void)
{
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 23) - 1;
}

static struct buffer make(facc_dtype t, enum layout l, int b, int h, int s,
                          int d)
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

static char *element(const facc_tensor *t, int b, int h, int s, int d)
{
    int64_t e = b * t->stride[0] + h * t->stride[1] + s * t->stride[2] +
                d * t->stride[3];
    return (char *)t->data + e * (int64_t)facc_dtype_size(t->dtype);
}

static double get(const facc_tensor *t, int b, int h, int s, int d)
{
    return dtype_load_f64((enum dtype)t->dtype, element(t, b, h, s, d));
}

static void put(const facc_tensor *t, int b, int h, int s, int d, double v)
{
    dtype_store((enum dtype)t->dtype, element(t, b, h, s, d), v);
}

static void fill(const struct buffer *x, double spread)
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

static void start(struct run *r, const struct problem *p)
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

static void finish(struct run *r)
{
    free(r->q.memory);
    free(r->k.memory);
    free(r->v.memory);
    free(r->o.memory);
    free(r->lse.memory);
}

static facc_program *load(const char *lua)
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
static void attend(struct run *r)
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
    facc_program_free(program);
}

/* --- the naive way
 * ------------------------------------------------------------ */

static int used(const int32_t *u, int b, int full)
{
    return u != NULL ? u[b] : full;
}

static bool is_kept(const struct problem *p, int b, int h, int q, int kv)
{
    return kv < used(p->used_kv, b, p->Skv) &&
           (p->keep == NULL || p->keep(b, h, q, kv));
}

static double raw_score(const struct run *r, int b, int h, int q, int kv)
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
static double naive_row(const struct run *r, int b, int h, int q, double *out,
                        double *out_f32)
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
static double rounding(facc_dtype t)
{
    return t == FACC_F16 ? 0x1p-11 : t == FACC_BF16 ? 0x1p-8 : 0x1p-24;
}

static bool same_kind(double a, double b)
{
    return isnan(a) == isnan(b) && isinf(a) == isinf(b);
}

static void compare(const struct run *r)
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

static void check_problem(const struct problem *p)
{
    struct run r;
    start(&r, p);
    attend(&r);
    compare(&r);
    finish(&r);
}

/* --- mods, twice
 * ---------------------------------------------------------------- */

#define FACC "local facc = require 'facc'\n"

static const char causal_lua[] =
    FACC "return facc.attention { mask_mod = function(b, h, q, kv)\n"
         "  return q >= kv\n"
         "end }\n";
static bool causal(int b, int h, int q, int kv)
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
static double alibi(double s, int b, int h, int q, int kv)
{
    (void)b;
    return s + (double)slopes[h] * (kv - q);
}
static bool windowed(int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return q >= kv && q - kv < window;
}

static const char softcap_lua[] =
    FACC "return facc.attention { score_mod = function(score, b, h, q, kv)\n"
         "  return 2.5 * facc.tanh(score / 2.5)\n"
         "end }\n";
static double softcap(double s, int b, int h, int q, int kv)
{
    (void)b, (void)h, (void)q, (void)kv;
    return 2.5 * tanh(s / 2.5);
}

static const char document_lua[] =
    FACC "local id = facc.tensor('document', 'i32', { 300 })\n"
         "return facc.attention { mask_mod = function(b, h, q, kv)\n"
         "  return id[q] == id[kv] and q >= kv\n"
         "end }\n";
static bool same_document(int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return document[q] == document[kv] && q >= kv;
}

/* Rows 1, 4, 7, ... of head 0 have nothing to attend to. */
static const char empty_rows_lua[] =
    FACC "return facc.attention { mask_mod = function(b, h, q, kv)\n"
         "  return (h > 0 or q % 3 ~= 1) and (q + kv) % 2 == 0\n"
         "end }\n";
static bool empty_rows(int b, int h, int q, int kv)
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
static double positive(double s, int b, int h, int q, int kv)
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
static double minus_inf(double s, int b, int h, int q, int kv)
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

static void use_mod(struct problem *p, int mod)
{
    p->lua = mods[mod].lua;
    p->score = mods[mod].score;
    p->keep = mods[mod].keep;
    if (p->score == positive) /* f32 rounding may cross the threshold */
        p->f64 = 1;
}

/* --- tests
 * ------------------------------------------------------------------------ */

static const int lengths[] = {1, 2, 37, 127, 128, 129, 255, 257};

START_TEST(lengths_and_mods)
{
    struct problem p = {.B = 1, .H = 2, .Hkv = 2, .D = 8, .Dv = 8};
    int n = 0;
    p.Sq = lengths[_i];
    for (int k = 0; k < 8; k++) {
        p.Skv = lengths[k];
        use_mod(&p, (n++ + _i) % N_MODS);
        check_problem(&p);
    }
}
END_TEST

START_TEST(head_dims)
{
    static const int dims[] = {1, 8, 13, 40, 64, 72, 128, 256};
    for (int k = 0; k < 8; k++)
        for (int mod = 0; mod < N_MODS; mod += 2) {
            struct problem p = {.B = 1, .H = 1, .Hkv = 1, .Sq = 37, .Skv = 129};
            p.D = dims[k];
            p.Dv = dims[_i ? 7 - k : k];
            use_mod(&p, mod);
            check_problem(&p);
        }
}
END_TEST

START_TEST(head_groups)
{
    static const int ratio[] = {1, 2, 3, 7};
    for (int k = 0; k < 4; k++)
        for (int hkv = 1; hkv <= 2 && hkv * ratio[k] <= MAX_H; hkv++) {
            struct problem p = {
                .B = 2, .Hkv = hkv, .Sq = 33, .Skv = 140, .D = 16, .Dv = 24};
            p.H = hkv * ratio[k];
            use_mod(&p, 2);
            check_problem(&p);
        }
}
END_TEST

START_TEST(layouts)
{
    for (int l = PLAIN; l <= EXPANDED; l++)
        for (int o = PLAIN; o < EXPANDED; o++) {
            struct problem p = {
                .B = 2, .H = 4, .Hkv = 2, .Sq = 35, .Skv = 131, .D = 16};
            p.Dv = 13;
            p.layout = (enum layout)l;
            p.o_layout = (enum layout)o;
            use_mod(&p, (l + o) % N_MODS);
            check_problem(&p);
        }
}
END_TEST

/* Gaps of a sliced O stay as they were. */
START_TEST(writes_nothing_else)
{
    struct problem p = {.B = 1, .H = 2, .Hkv = 1, .Sq = 5, .Skv = 9, .D = 8};
    struct run r;
    p.Dv = 7;
    p.o_layout = SLICED;
    start(&r, &p);
    attend(&r);
    compare(&r);
    for (int h = 0; h < 2; h++)
        for (int q = 0; q < 5; q++)
            for (int d = 0; d < 7; d++) /* now every written element is NaN */
                put(&r.o.t, 0, h, q, d, NAN);
    for (size_t k = 0; k + 4 <= r.o.bytes; k += 4) {
        float x;
        memcpy(&x, r.o.memory + k, 4);
        ck_assert(isnan(x));
    }
    finish(&r);
}
END_TEST

START_TEST(dtypes)
{
    static const facc_dtype in[] = {FACC_F32, FACC_F16, FACC_BF16, FACC_E4M3,
                                    FACC_E5M2};
    static const facc_dtype out[] = {FACC_F32, FACC_F16, FACC_BF16, FACC_F64};
    for (int k = 0; k < 5; k++)
        for (int j = 0; j < 4; j++)
            for (int l = PLAIN; l <= SLICED; l += SLICED) {
                struct problem p = {
                    .B = 1, .H = 2, .Hkv = 1, .Sq = 20, .Skv = 130, .D = 24};
                p.Dv = 24;
                p.in = in[k];
                p.out = out[j];
                p.layout = (enum layout)l;
                use_mod(&p, 1 + (k + j) % 2);
                p.f64 = _i;
                check_problem(&p);
            }
}
END_TEST

START_TEST(oracle)
{
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = {
            .B = 2, .H = 2, .Hkv = 1, .Sq = 133, .Skv = 257, .D = 40};
        p.Dv = 72;
        p.f64 = 1;
        p.out = FACC_F64;
        use_mod(&p, mod);
        check_problem(&p);
    }
}
END_TEST

START_TEST(nothing_to_do)
{
    static const int sizes[][4] = {/* B, H, Sq, Skv */
                                   {0, 2, 3, 4},
                                   {1, 2, 0, 4},
                                   {1, 2, 3, 0},
                                   {1, 2, 0, 0},
                                   {2, 1, 130, 0}};
    for (int k = 0; k < 5; k++)
        for (int mod = 0; mod < N_MODS; mod++) {
            struct problem p = {.Hkv = 1, .D = 8, .Dv = 8};
            p.B = sizes[k][0];
            p.H = sizes[k][1];
            p.Sq = sizes[k][2];
            p.Skv = sizes[k][3];
            use_mod(&p, mod);
            check_problem(&p);
        }
}
END_TEST

/* Rows and columns beyond the used lengths hold NaN and are not looked at. */
START_TEST(used_lengths)
{
    static const int32_t used_q[4] = {0, 37, 150, 1};
    static const int32_t used_kv[4] = {140, 0, 129, 5};
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = {
            .B = 4, .H = 2, .Hkv = 1, .Sq = 150, .Skv = 140, .D = 8, .Dv = 16};
        struct run r;
        p.used_q = used_q;
        p.used_kv = used_kv;
        use_mod(&p, mod);
        start(&r, &p);
        for (int b = 0; b < 4; b++) {
            for (int s = used_kv[b]; s < p.Skv; s++) {
                for (int d = 0; d < p.D; d++)
                    put(&r.k.t, b, 0, s, d, d % 2 ? NAN : INFINITY);
                for (int d = 0; d < p.Dv; d++)
                    put(&r.v.t, b, 0, s, d, NAN);
            }
            for (int h = 0; h < 2; h++)
                for (int s = used_q[b]; s < p.Sq; s++)
                    for (int d = 0; d < p.D; d++)
                        put(&r.q.t, b, h, s, d, NAN);
        }
        attend(&r);
        compare(&r);
        finish(&r);
    }
}
END_TEST

/* NaN and infinities in K and V of masked cells reach no result; NaN in a
 * query row stays in that row. */
START_TEST(special_values)
{
    struct problem p = {
        .B = 1, .H = 3, .Hkv = 1, .Sq = 140, .Skv = 200, .D = 8, .Dv = 24};
    struct run r;
    p.f64 = _i;
    use_mod(&p, 2);
    start(&r, &p);
    for (int kv = 141; kv < 200; kv++) { /* beyond every query */
        put(&r.k.t, 0, 0, kv, 3, NAN);
        put(&r.v.t, 0, 0, kv, 5, kv % 2 ? NAN : INFINITY);
    }
    put(&r.v.t, 0, 0, 20, 7, NAN);      /* seen by queries 20 .. 69 */
    put(&r.v.t, 0, 0, 60, 8, INFINITY); /* 60 .. 109 */
    put(&r.v.t, 0, 0, 61, 8, -INFINITY);
    put(&r.q.t, 0, 1, 77, 0, NAN);
    attend(&r);
    compare(&r);
    ck_assert(isnan(get(&r.o.t, 0, 0, 69, 7)));
    ck_assert(isfinite(get(&r.o.t, 0, 0, 70, 7)));
    ck_assert(isinf(get(&r.o.t, 0, 0, 60, 8)));
    ck_assert(isnan(get(&r.o.t, 0, 0, 61, 8)));
    ck_assert(isnan(get(&r.o.t, 0, 1, 77, 1)));
    ck_assert(isfinite(get(&r.o.t, 0, 1, 78, 1)));
    finish(&r);
}
END_TEST

START_TEST(huge_and_minus_infinite_scores)
{
    static const double scales[] = {0, 100, -3, 1e5, 1e-30, -1e5};
    for (int k = 0; k < 6; k++) {
        struct problem p = {
            .B = 1, .H = 2, .Hkv = 2, .Sq = 200, .Skv = 260, .D = 8, .Dv = 8};
        struct run r;
        p.scale = scales[k];
        p.f64 = 1; /* f32 inputs of this size differ by whole units */
        p.lua = minus_inf_lua;
        p.score = minus_inf;
        check_problem(&p);
        p.lua = NULL;
        p.score = NULL;
        check_problem(&p);
        p.f64 = 0; /* here: no NaN, rows that sum to weights of 1 */
        p.lua = minus_inf_lua;
        start(&r, &p);
        for (int h = 0; h < 2; h++)
            for (int s = 0; s < 260; s++)
                for (int d = 0; d < 8; d++)
                    put(&r.v.t, 0, h, s, d, 1);
        attend(&r);
        ck_assert_int_eq(r.status, FACC_OK);
        for (int h = 0; h < 2; h++)
            for (int q = 0; q < 200; q++)
                for (int d = 0; d < 8; d++)
                    ck_assert(fabs(get(&r.o.t, 0, h, q, d) - 1) < 1e-5);
        finish(&r);
    }
}
END_TEST

static void same_bits(const struct run *a, const struct run *b)
{
    ck_assert_int_eq(a->status, FACC_OK);
    ck_assert_int_eq(b->status, FACC_OK);
    ck_assert(memcmp(a->o.memory, b->o.memory, a->o.bytes) == 0);
    ck_assert(memcmp(a->lse.memory, b->lse.memory, a->lse.bytes) == 0);
}

static const struct problem threaded = {
    .B = 2, .H = 4, .Hkv = 2, .Sq = 257, .Skv = 300, .D = 16, .Dv = 16};

START_TEST(threads_do_not_change_bits)
{
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = threaded;
        struct run one, many;
        use_mod(&p, mod);
        p.f64 = mod % 2;
        p.threads = 1;
        start(&one, &p);
        attend(&one);
        for (int n = 2; n <= 9; n += 7) {
            p.threads = n;
            start(&many, &p);
            attend(&many);
            same_bits(&one, &many);
            finish(&many);
        }
        finish(&one);
    }
}
END_TEST

static void *attend_thread(void *user)
{
    attend(user);
    return NULL;
}

START_TEST(calls_at_once)
{
    struct problem p = threaded;
    struct run r[4];
    pthread_t t[4];
    use_mod(&p, 2);
    p.threads = 3;
    for (int k = 0; k < 4; k++)
        start(&r[k], &p);
    for (int k = 0; k < 4; k++)
        ck_assert_int_eq(pthread_create(&t[k], NULL, attend_thread, &r[k]), 0);
    for (int k = 0; k < 4; k++)
        pthread_join(t[k], NULL);
    for (int k = 0; k < 4; k++) {
        same_bits(&r[0], &r[k]);
        if (k > 0)
            finish(&r[k]);
    }
    finish(&r[0]);
}
END_TEST

START_TEST(forked_child)
{
    struct problem p = threaded;
    struct run a, b;
    use_mod(&p, 1);
    p.threads = 3;
    start(&a, &p);
    attend(&a); /* the pool exists now */
    pid_t child = fork();
    if (child == 0) {
        start(&b, &p);
        attend(&b);
        bool ok = b.status == FACC_OK &&
                  memcmp(a.o.memory, b.o.memory, a.o.bytes) == 0;
        finish(&b);
        finish(&a);
        facc_ctx_free(ctx);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    finish(&a);
}
END_TEST

/* --- errors
 * -------------------------------------------------------------------------- */

/* Heads 1 and up read beyond 'document' from query 200 on. */
START_TEST(bad_read_is_the_first_one)
{
    static const char lua[] =
        FACC "local id = facc.tensor('document', 'i32', { 300 })\n"
             "return facc.attention { score_mod = function(s, b, h, q, kv)\n"
             "  return s + id[q + 100 * h]\n"
             "end }\n";
    char message[2048] = "";
    for (int n = 1; n <= 4; n++) {
        struct problem p = threaded;
        struct run r;
        p.lua = lua;
        p.threads = n;
        start(&r, &p);
        attend(&r);
        ck_assert_int_eq(r.status, FACC_ERR_BOUNDS);
        ck_assert_int_eq(r.err.line, 4);
        ck_assert_str_eq(r.err.file, "test.lua");
        ck_assert_msg(strstr(r.err.message,
                             "'document' is read outside its bounds: index 1 "
                             "is 300, the extent is 300 "
                             "(at b 0, h 1, q 200, kv 0)") != NULL,
                      "%s", r.err.message);
        if (n > 1)
            ck_assert_str_eq(message, r.err.message);
        strcpy(message, r.err.message);
        finish(&r);
    }
}
END_TEST

static void expect_error(const struct run *base, facc_status want,
                         const char *text)
{
    struct run r = *base;
    attend(&r);
    ck_assert_int_eq(r.status, want);
    ck_assert_msg(strstr(r.err.message, text) != NULL, "%s", r.err.message);
}

START_TEST(bad_arguments)
{
    static const int32_t low[2] = {3, -1}, high[2] = {3, 301};
    struct problem p = threaded;
    struct run r, x;
    start(&r, &p);
    x = r;
    x.args.seqused_q = low;
    expect_error(&x, FACC_ERR_ARGUMENT, "seqused_q[1] is -1");
    x = r;
    x.args.seqused_kv = high;
    expect_error(&x, FACC_ERR_ARGUMENT,
                 "seqused_kv[1] is 301: must be from 0 to 300");
    x = r;
    x.args.scale = NAN;
    expect_error(&x, FACC_ERR_ARGUMENT, "scale");
    x = r;
    x.args.o.dtype = FACC_I32;
    expect_error(&x, FACC_ERR_ARGUMENT, "o: dtype");
    x = r;
    x.p.threads = -1;
    expect_error(&x, FACC_ERR_ARGUMENT, "threads");
    facc_error err = FACC_ERROR_INIT;
    ck_assert_int_eq(facc_cpu_attention(NULL, NULL, &r.args, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_cpu_attention(ctx, NULL, &r.args, NULL, NULL),
                     FACC_ERR_ARGUMENT);
    finish(&r);
}
END_TEST

/* --- conversion
 * ---------------------------------------------------------------------------
 */

START_TEST(convert)
{
    static const float from[6] = {1, -2.5f, 65520, 1e-8f, 1.00048828125f, 500};
    static const uint16_t f16[6] = {0x3c00, 0xc100, 0x7c00,
                                    0x0000, 0x3c00, 0x5fd0};
    static const uint8_t e4m3[6] = {0x38, 0xc2, 0x7e, 0x00, 0x38, 0x7e};
    uint16_t h[6];
    uint8_t b[6];
    double d[6];
    int64_t big[1] = {(INT64_C(1) << 53) + 1}, copy[1];
    ck_assert_int_eq(facc_convert(FACC_F16, h, FACC_F32, from, 6), FACC_OK);
    ck_assert_mem_eq(h, f16, sizeof h);
    ck_assert_int_eq(facc_convert(FACC_E4M3, b, FACC_F32, from, 6), FACC_OK);
    ck_assert_mem_eq(b, e4m3, sizeof b);
    ck_assert_int_eq(facc_convert(FACC_F64, d, FACC_F16, f16, 6), FACC_OK);
    ck_assert(d[1] == -2.5 && isinf(d[2]) && d[5] == 500);
    ck_assert_int_eq(facc_convert(FACC_I64, copy, FACC_I64, big, 1), FACC_OK);
    ck_assert(copy[0] == big[0]);
    ck_assert_int_eq(facc_convert(FACC_F16, NULL, FACC_F32, from, 0), FACC_OK);
    ck_assert_int_eq(facc_convert(FACC_F16, NULL, FACC_F32, from, 1),
                     FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_convert((facc_dtype)99, h, FACC_F32, from, 1),
                     FACC_ERR_ARGUMENT);
}
END_TEST

static void open_context(void)
{
    facc_options o = FACC_OPTIONS_INIT;
    facc_error err = FACC_ERROR_INIT;
    o.cache_mode = 3;
    ck_assert_msg(facc_ctx_create(&ctx, &o, &err) == FACC_OK, "%s",
                  err.message);
    for (int k = 0; k < 300; k++)
        document[k] = k / 41;
}

static void close_context(void)
{
    facc_ctx_free(ctx);
}

int main(void)
{
    Suite *s = suite_create("cpu attention");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, open_context, close_context);
    tcase_add_loop_test(t, lengths_and_mods, 0, 8);
    tcase_add_loop_test(t, head_dims, 0, 2);
    tcase_add_test(t, head_groups);
    tcase_add_test(t, layouts);
    tcase_add_test(t, writes_nothing_else);
    tcase_add_loop_test(t, dtypes, 0, 2);
    tcase_add_test(t, oracle);
    tcase_add_test(t, nothing_to_do);
    tcase_add_test(t, used_lengths);
    tcase_add_loop_test(t, special_values, 0, 2);
    tcase_add_test(t, huge_and_minus_infinite_scores);
    tcase_add_test(t, threads_do_not_change_bits);
    tcase_add_test(t, calls_at_once);
    tcase_add_test(t, forked_child);
    tcase_add_test(t, bad_read_is_the_first_one);
    tcase_add_test(t, bad_arguments);
    tcase_add_test(t, convert);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

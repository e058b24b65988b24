/* Is this call's facc_args whole and consistent? In: the caller's tensors and
 * what the program declared. Out: sizes, or a diag that names the tensor, what
 * it has and what it should have. Called by facc_kernel_check, on every
 * launch, and by facc_cpu_attention. */
#include "runtime/args.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compiler/dtype.h"
#include "runtime/error.h"
#include "runtime/tensor_check.h"

/* Where and about what a message is. */
struct check {
    const struct args_rules *rules;
    const struct signature *signature;
    struct diag *d;
};

#define FAIL(c, status, ...)                                                   \
    diag_set((c)->d, status, (c)->rules->stage, NULL, 0, __VA_ARGS__)

static const char *shape_text(const facc_tensor *t, char *buf, size_t size)
{
    size_t n = 0;
    n += (size_t)snprintf(buf, size, "[");
    for (int i = 0; i < t->rank && i < FACC_MAX_DIMS && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%lld", i ? ", " : "",
                              (long long)t->shape[i]);
    if (n < size)
        snprintf(buf + n, size - n, "]");
    return buf;
}

/* ---- one tensor ------------------------------------------------------- */

/* Extents are ints on every path; offsets are 64-bit, and must stay so. */
static bool extents_fit(const struct check *c, const char *name,
                        const facc_tensor *t, size_t size)
{
    double span = 0;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0 || t->shape[i] > INT_MAX)
            return FAIL(c, FACC_ERR_ARGUMENT,
                        "%s: extent %d is %lld; extents go from 0 to %d", name,
                        i, (long long)t->shape[i], INT_MAX);
        span += fabs((double)t->stride[i]) * (double)t->shape[i];
    }
    if (span * (double)size > 4e18)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "%s: its strides reach beyond a 64-bit address space",
                    name);
    return true;
}

static bool described(const struct check *c, const char *name,
                      const facc_tensor *t, int rank, const char *layout)
{
    size_t size = facc_dtype_size(t->dtype);
    if (t->rank != rank)
        return FAIL(c, FACC_ERR_ARGUMENT, "%s: rank is %d, expected %d (%s)",
                    name, t->rank, rank, layout);
    if (size == 0)
        return FAIL(c, FACC_ERR_ARGUMENT, "%s: unknown dtype %d", name,
                    (int)t->dtype);
    return extents_fit(c, name, t, size);
}

static bool data_there(const struct check *c, const char *name,
                       const facc_tensor *t)
{
    size_t size = facc_dtype_size(t->dtype);
    if (!tensor_has_elements(t))
        return true;
    if (!t->data)
        return FAIL(c, FACC_ERR_ARGUMENT, "%s: data is NULL", name);
    if ((uintptr_t)t->data % size != 0)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "%s: data is not aligned to its element (%zu bytes)", name,
                    size);
    return true;
}

static bool contiguous_rows(const struct check *c, const char *name,
                            const facc_tensor *t)
{
    if (!c->rules->gpu || t->stride[3] == 1 || t->shape[3] <= 1 ||
        !tensor_has_elements(t))
        return true;
    return FAIL(c, FACC_ERR_ARGUMENT,
                "%s: the last dimension has stride %lld, must be 1: make it "
                "contiguous",
                name, (long long)t->stride[3]);
}

/* want[i] < 0: any extent. */
static bool shape_is(const struct check *c, const char *name,
                     const facc_tensor *t, const int64_t *want,
                     const char *layout)
{
    char have_text[160], want_text[160];
    facc_tensor w = *t;
    for (int i = 0; i < t->rank; i++) {
        if (want[i] < 0 || t->shape[i] == want[i])
            continue;
        for (int k = 0; k < t->rank; k++)
            if (want[k] >= 0)
                w.shape[k] = want[k];
        return FAIL(c, FACC_ERR_ARGUMENT, "%s: shape is %s, expected %s (%s)",
                    name, shape_text(t, have_text, sizeof have_text),
                    shape_text(&w, want_text, sizeof want_text), layout);
    }
    return true;
}

/* ---- q, k, v, o, lse -------------------------------------------------- */

static bool is_input(facc_dtype t)
{
    return t == FACC_F32 || t == FACC_F16 || t == FACC_BF16 || t == FACC_E4M3 ||
           t == FACC_E5M2;
}

static bool is_output(facc_dtype t)
{
    return t == FACC_F32 || t == FACC_F16 || t == FACC_BF16 || t == FACC_F64;
}

static bool dtype_fits(const struct check *c, const char *name, facc_dtype have,
                       facc_dtype want)
{
    if (have == want)
        return true;
    return FAIL(c, FACC_ERR_ARGUMENT, "%s: dtype is %s, expected %s", name,
                facc_dtype_name(have), facc_dtype_name(want));
}

static bool dtypes_fit(const struct check *c, const facc_args *a)
{
    const struct args_rules *r = c->rules;
    facc_dtype in = r->dtype ? r->dtype : a->q.dtype;
    if (!is_input(in))
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "q: dtype is %s; q, k and v are f32, f16, bf16, e4m3 or "
                    "e5m2",
                    facc_dtype_name(in));
    if (!dtype_fits(c, "q", a->q.dtype, in) ||
        !dtype_fits(c, "k", a->k.dtype, in) ||
        !dtype_fits(c, "v", a->v.dtype, in))
        return false;
    if (r->out_dtype && !dtype_fits(c, "o", a->o.dtype, r->out_dtype))
        return false;
    if (!is_output(a->o.dtype))
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "o: dtype is %s; o is f32, f16, bf16 or (CPU) f64",
                    facc_dtype_name(a->o.dtype));
    if (a->lse.data && a->lse.dtype != FACC_F32 &&
        (r->gpu || a->lse.dtype != FACC_F64))
        return FAIL(c, FACC_ERR_ARGUMENT, "lse: dtype is %s, expected f32%s",
                    facc_dtype_name(a->lse.dtype), r->gpu ? "" : " or f64");
    return true;
}

static bool whole(const struct check *c, const char *name, const facc_tensor *t,
                  int rank, const char *layout)
{
    return described(c, name, t, rank, layout) &&
           (c->rules->sizes_only || data_there(c, name, t));
}

/* With an image of V its data is not read. */
static bool v_whole(const struct check *c, const facc_tensor *v, bool image)
{
    return described(c, "v", v, 4, "[B, Hkv, Skv, Dv]") &&
           (image || c->rules->sizes_only || data_there(c, "v", v));
}

static bool tensors_whole(const struct check *c, const facc_args *a)
{
    return whole(c, "q", &a->q, 4, "[B, H, Sq, D]") &&
           whole(c, "k", &a->k, 4, "[B, Hkv, Skv, D]") &&
           v_whole(c, &a->v, a->v_image != NULL) &&
           whole(c, "o", &a->o, 4, "[B, H, Sq, Dv]") &&
           (!a->lse.data || whole(c, "lse", &a->lse, 3, "[B, H, Sq]"));
}

/* Generated code adds a tile's width and small constants to positions in 32
 * bits. */
static bool positions_fit(const struct check *c, const struct args_sizes *z)
{
    enum { N = 6 };
    const int size[N] = {z->B, z->H, z->Sq, z->Skv, z->Tq, z->Tkv};
    static const char *const name[N] = {"B", "H", "Sq", "Skv", "Tq", "Tkv"};
    for (int i = 0; i < N; i++)
        if (size[i] > 1 << 30)
            return FAIL(c, FACC_ERR_UNSUPPORTED,
                        "%s is %d; sizes and lengths go up to 2^30", name[i],
                        size[i]);
    return true;
}

static bool heads_fit(const struct check *c, int H, int Hkv)
{
    if (H == 0 || (Hkv > 0 && H % Hkv == 0))
        return true;
    return FAIL(c, FACC_ERR_ARGUMENT,
                "%d query heads are no multiple of %d KV heads: each KV head "
                "serves H / Hkv query heads",
                H, Hkv);
}

static bool head_dims_fit(const struct check *c, const struct args_sizes *z)
{
    const struct args_rules *r = c->rules;
    if (z->D < 1 || z->Dv < 1)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "head dim is %d and %d, must be at "
                    "least 1",
                    z->D, z->Dv);
    if ((r->head_dim && z->D != r->head_dim) ||
        (r->head_dim_v && z->Dv != r->head_dim_v))
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "q and v have head dims %d and %d, but the variant is for "
                    "%d and %d: get a kernel for these",
                    z->D, z->Dv, r->head_dim, r->head_dim_v);
    return true;
}

static bool shapes_fit(const struct check *c, const facc_args *a,
                       struct args_sizes *z)
{
    z->B = (int)a->q.shape[0];
    z->H = (int)a->q.shape[1];
    z->Sq = z->Tq = (int)a->q.shape[2];
    z->D = (int)a->q.shape[3];
    z->Hkv = (int)a->k.shape[1];
    z->Skv = z->Tkv = (int)a->k.shape[2];
    z->Dv = (int)a->v.shape[3];
    const int64_t k[4] = {z->B, -1, -1, z->D};
    const int64_t v[4] = {z->B, z->Hkv, z->Skv, -1};
    const int64_t o[4] = {z->B, z->H, z->Sq, z->Dv};
    return shape_is(c, "k", &a->k, k, "[B, Hkv, Skv, D]") &&
           shape_is(c, "v", &a->v, v, "[B, Hkv, Skv, Dv]") &&
           shape_is(c, "o", &a->o, o, "[B, H, Sq, Dv]") &&
           (!a->lse.data || shape_is(c, "lse", &a->lse, o, "[B, H, Sq]")) &&
           heads_fit(c, z->H, z->Hkv) &&
           args_sequences(a, c->rules, c->signature, z, c->d) &&
           positions_fit(c, z) && head_dims_fit(c, z);
}

static bool strides_fit(const struct check *c, const facc_args *a)
{
    const struct tensor_report r = {c->rules->stage, c->d};
    if (c->rules->sizes_only)
        return true;
    return contiguous_rows(c, "q", &a->q) && contiguous_rows(c, "k", &a->k) &&
           contiguous_rows(c, "v", &a->v) && contiguous_rows(c, "o", &a->o) &&
           tensor_is_writable(&r, "o", &a->o) &&
           (!a->lse.data || tensor_is_writable(&r, "lse", &a->lse));
}

static bool sinks_fit(const struct check *c, const facc_args *a,
                      const struct args_sizes *z)
{
    const facc_tensor *t = a->sinks;
    const int64_t shape[1] = {z->H};
    if (c->rules->gpu && c->rules->sinks && !t)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "sinks is NULL, but the variant has sinks: get a kernel "
                    "without, or give them");
    if (c->rules->gpu && !c->rules->sinks && t)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "sinks are given, but the variant has none: get a kernel "
                    "with facc_variant.sinks 1");
    return !t || (described(c, "sinks", t, 1, "[H]") &&
                  dtype_fits(c, "sinks", t->dtype, FACC_F32) &&
                  shape_is(c, "sinks", t, shape, "[H]") &&
                  (c->rules->sizes_only || data_there(c, "sinks", t)));
}

static bool dropout_fits(const struct check *c, const facc_args *a)
{
    const double p = a->dropout_p;
    if (!(p >= 0 && p < 1))
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "dropout_p is %g: it must be at least 0 and below 1", p);
    if (c->rules->gpu && !c->rules->dropout && p > 0)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "dropout_p is %g, but the variant has no dropout: get a "
                    "kernel with facc_variant.dropout 1",
                    p);
    if (c->rules->gpu && a->v_mean && p > 0)
        return FAIL(c, FACC_ERR_UNSUPPORTED,
                    "dropout_p is %g, but v_mean stands for what all weights "
                    "give: put it into V",
                    p);
    return true;
}

static bool scale_fits(const struct check *c, const facc_args *a)
{
    if (!isfinite(a->scale) || fabs(a->scale) > 3e38)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "scale is %s: it must be finite (0 means 1/sqrt(D))",
                    isnan(a->scale) ? "NaN" : "infinite or beyond f32");
    return true;
}

/* ---- what the program captures ---------------------------------------- */

/* -1: any. */
static int64_t dim_extent(const char *name, const struct args_sizes *z)
{
    if (strcmp(name, "any") == 0)
        return -1;
    if (strcmp(name, "B") == 0)
        return z->B;
    if (strcmp(name, "H") == 0)
        return z->H;
    if (strcmp(name, "Hkv") == 0)
        return z->Hkv;
    return strcmp(name, "q") == 0 ? z->Sq : z->Skv;
}

static const char *layout_text(const facc_declared *t, char *buf, size_t size)
{
    size_t n = (size_t)snprintf(buf, size, "[");
    for (int i = 0; i < t->rank && n < size; i++) {
        const char *comma = i ? ", " : "";
        n += t->dim_names[i] ? (size_t)snprintf(buf + n, size - n, "%s%s",
                                                comma, t->dim_names[i])
                             : (size_t)snprintf(buf + n, size - n, "%s%lld",
                                                comma, (long long)t->shape[i]);
    }
    if (n < size)
        snprintf(buf + n, size - n, "]");
    return buf;
}

static bool captured_is(const struct check *c, const char *name,
                        const char *layout, const facc_declared *want,
                        const facc_tensor *have, const struct args_sizes *z)
{
    int64_t shape[FACC_MAX_DIMS];
    if (have->dtype != want->dtype)
        return FAIL(c, FACC_ERR_ARGUMENT, "%s: dtype is %s, declared as %s",
                    name, facc_dtype_name(have->dtype),
                    facc_dtype_name(want->dtype));
    if (!described(c, name, have, want->rank, layout) ||
        !data_there(c, name, have))
        return false;
    for (int i = 0; i < want->rank; i++)
        shape[i] = want->dim_names[i] ? dim_extent(want->dim_names[i], z)
                                      : want->shape[i];
    return shape_is(c, name, have, shape, layout);
}

/* Texts are made only for a tensor that does not fit: this runs on every
 * launch. */
static bool captured_fits(const struct check *c, const facc_declared *want,
                          const facc_tensor *have, const struct args_sizes *z)
{
    char name[128], layout[160];
    const struct check quiet = {c->rules, c->signature, NULL};
    if (captured_is(&quiet, "", "", want, have, z))
        return true;
    snprintf(name, sizeof name, "captured tensor \"%.100s\"", want->name);
    layout_text(want, layout, sizeof layout);
    return captured_is(c, name, layout, want, have, z);
}

/* Integers where the program was proved not to overflow, floats that f32 has:
 * NaN and the infinities are the caller's to choose. */
static bool param_fits(const struct check *c, const facc_declared *want,
                       facc_scalar_value v)
{
    if (want->dtype == FACC_F32) {
        if (!isfinite(v.f) || fabs(v.f) <= FLT_MAX)
            return true;
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "param \"%s\" is declared as f32, %g does not fit",
                    want->name, v.f);
    }
    bool wide = want->dtype == FACC_I64;
    if (v.i >= (wide ? DTYPE_WIDE_MIN : INT_MIN) &&
        v.i <= (wide ? DTYPE_WIDE_MAX : INT_MAX))
        return true;
    return FAIL(c, FACC_ERR_ARGUMENT,
                "param \"%s\" is declared as %s, %lld does not fit%s",
                want->name, wide ? "i64" : "i32", (long long)v.i,
                wide ? " (from -2^60 to 2^60 - 1)" : "");
}

static bool count_fits(const struct check *c, const char *what, int have,
                       int want, const facc_declared *first)
{
    if (have == want)
        return true;
    return FAIL(c, FACC_ERR_ARGUMENT,
                "%d %s%s given, the program declares "
                "%d%s%s%s",
                have, what, have == 1 ? "" : "s", want,
                want ? " (the first is \"" : "", want ? first->name : "",
                want ? "\")" : "");
}

static bool captures_fit(const struct check *c, const facc_args *a,
                         const struct args_sizes *z)
{
    const struct signature *s = c->signature;
    if (!count_fits(c, "captured tensor", a->n_tensors, s->n_tensors,
                    s->tensors) ||
        !count_fits(c, "param", a->n_params, s->n_params, s->params))
        return false;
    if ((s->n_tensors && !a->tensors) || (s->n_params && !a->params))
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "args.tensors or args.params is NULL");
    for (int i = 0; i < s->n_tensors; i++)
        if (!captured_fits(c, &s->tensors[i], &a->tensors[i], z))
            return false;
    for (int i = 0; i < s->n_params; i++)
        if (!param_fits(c, &s->params[i], a->params[i]))
            return false;
    return true;
}

/* ----------------------------------------------------------------------- */

bool args_check(const facc_args *args, const struct args_rules *rules,
                const struct signature *signature, struct args_sizes *sizes,
                struct diag *d)
{
    const struct check c = {rules, signature, d};
    return reserved_is_zero(args->reserved0, "facc_args.reserved0", d) &&
           tensors_whole(&c, args) && dtypes_fit(&c, args) &&
           shapes_fit(&c, args, sizes) && strides_fit(&c, args) &&
           sinks_fit(&c, args, sizes) && dropout_fits(&c, args) &&
           scale_fits(&c, args) && args_fp8(args, rules, sizes, d) &&
           captures_fit(&c, args, sizes);
}

double args_scale(const facc_args *args, const struct args_sizes *sizes)
{
    return args->scale != 0 ? args->scale : 1.0 / sqrt((double)sizes->D);
}

struct args_dropout args_dropout(const facc_args *args)
{
    const double all = 65536, drops = floor(args->dropout_p * all + 0.5);
    struct args_dropout x = {.drops =
                                 (uint32_t)(drops < all ? drops : all - 1)};
    x.key[0] = (uint32_t)args->dropout_seed;
    x.key[1] = (uint32_t)(args->dropout_seed >> 32) ^
               (uint32_t)(args->dropout_offset >> 32);
    x.offset = (uint32_t)args->dropout_offset;
    x.scale = all / (all - x.drops);
    return x;
}

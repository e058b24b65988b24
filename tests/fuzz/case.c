/* Makes the test cases of case.h. */
#include "tests/fuzz/case.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* From 0 to n - 1, of anything that tells it apart. */
static int64_t any(const struct fuzz_case *c, uint64_t what, uint64_t i,
                   int64_t n)
{
    return (int64_t)(mix(mix(c->data_seed * 64 + what) + i) >> 33) % n;
}

/* --- sizes -------------------------------------------------------- */

static int choose_length(struct choices *x, bool gpu)
{
    static const uint16_t list[] = {4,   1,   2,  3,  7,   16,  0,   31,
                                    33,  17,  64, 65, 127, 128, 129, 150,
                                    191, 193, 96, 49, 255, 256, 257, 300};
    return list[choices_draw(x, gpu ? sizeof list / sizeof *list : 16)];
}

static int choose_dim(struct choices *x, bool gpu)
{
    static const uint8_t cpu[] = {4, 1, 8, 3, 16};
    static const uint8_t of_kernels[] = {16, 8,  16, 64, 8, 16, 32, 16,
                                         8,  24, 16, 40, 8, 72, 16, 128};
    return gpu ? of_kernels[choices_draw(x, 16)] : cpu[choices_draw(x, 5)];
}

/* Fewer sequences and heads first: lengths say more. */
static void fit(struct fuzz_case *c, int64_t cells)
{
    for (;;) {
        int64_t n = (int64_t)c->B * c->H * c->Sq * c->Skv;
        if (n <= cells)
            return;
        if (c->H > c->Hkv)
            c->H = c->Hkv;
        else if (c->H > 1)
            c->H = c->Hkv = 1;
        else if (c->B > 2)
            c->B = 2;
        else if (n > 2 * cells || c->B == 1)
            c->Sq > c->Skv ? (c->Sq = c->Sq / 2 + 1)
                           : (c->Skv = c->Skv / 2 + 1);
        else
            c->B = 1;
    }
}

static void choose_sizes(struct fuzz_case *c, struct choices *x,
                         const struct case_limits *limits)
{
    static const uint8_t ratio[] = {1, 2, 3, 4, 5, 7};
    c->B = 1 + (int)choices_draw(x, CASE_MOST_B);
    c->Hkv = 1 + (int)choices_draw(x, 3);
    c->H = c->Hkv * ratio[choices_draw(x, 6)];
    c->Sq = choose_length(x, limits->gpu);
    c->Skv = choose_length(x, limits->gpu);
    fit(c, limits->cells);
    c->D = choose_dim(x, limits->gpu);
    c->Dv = choices_draw(x, 4) == 3 ? choose_dim(x, limits->gpu) : c->D;
}

static int choose_used(struct choices *x, int longest)
{
    static const uint8_t of16[] = {16, 8, 0, 15, 1, 13};
    return longest * of16[choices_draw(x, 6)] / 16;
}

static void choose_lengths(struct fuzz_case *c, struct choices *x)
{
    int longest_q = 0, longest_kv = 0;
    c->lengths = (enum case_lengths)choices_draw(x, CASE_LENGTHS);
    for (int b = 0; b < c->B; b++) {
        const bool q = c->lengths >= USED_BOTH, kv = c->lengths >= USED_KV;
        c->len_q[b] = q ? choose_used(x, c->Sq) : c->Sq;
        c->len_kv[b] = kv ? choose_used(x, c->Skv) : c->Skv;
        c->cu_q[b + 1] = c->cu_q[b] + c->len_q[b];
        c->cu_kv[b + 1] = c->cu_kv[b] + c->len_kv[b];
        longest_q = c->len_q[b] > longest_q ? c->len_q[b] : longest_q;
        longest_kv = c->len_kv[b] > longest_kv ? c->len_kv[b] : longest_kv;
    }
    if (c->lengths != PACKED)
        return;
    c->Sq = longest_q;
    c->Skv = longest_kv;
}

/* --- tensors ------------------------------------------------------ */

static void *new_block(struct fuzz_case *c, size_t size)
{
    struct block *b = &c->block[c->n_blocks++];
    b->size = size + 16; /* never empty */
    b->data = malloc(b->size);
    if (b->data) /* what nobody should read: NaN, large numbers, true */
        memset(b->data, 0xff, b->size);
    return b->data;
}

static double element(const struct fuzz_case *c, int t, int64_t i, int64_t n)
{
    const struct modgen_tensor *m = &c->program.tensor[t];
    const uint64_t what = 16 + (uint64_t)t;
    if (m->style == STYLE_MASKING)
        return any(c, what, (uint64_t)i, 3) ? 0 : -(double)INFINITY;
    if (dtype_is_float(m->dtype))
        return (double)any(c, what, (uint64_t)i, 4096) / 512 - 4;
    const int64_t span = m->below - m->low;
    switch (m->style) {
    case STYLE_RUNS:
        return (double)(m->low + i / (1 + any(c, what, 99, 20)) % span);
    case STYLE_FEW:
        return (double)(m->low +
                        any(c, what, (uint64_t)i, span < 2 ? span : 2));
    case STYLE_RISING:
        return (double)(m->low + i * span / n);
    case STYLE_LIMITS:
        if (any(c, what, (uint64_t)i, 4) == 0)
            return any(c, what, (uint64_t)i + 7, 2) ? 0x1p63 : -0x1p63;
        /* fall through */
    case STYLE_RANDOM:
    case STYLES:
    case STYLE_MASKING:
        break;
    }
    return (double)(m->low + any(c, what, (uint64_t)i, span));
}

/* Strides of a layout, and the elements from the first to the last in memory:
 * *below of them lie before element 0. */
static int64_t lay_out(const struct modgen_tensor *m, const int64_t *shape,
                       int64_t *stride, int64_t *below)
{
    int64_t n = 1;
    *below = 0;
    for (int k = 0; k < m->rank; k++) {
        const int d = m->layout == LAYOUT_REVERSED ? k : m->rank - 1 - k;
        stride[d] = n;
        if (m->layout == LAYOUT_EXPANDED && d == m->rank - 1)
            stride[d] = 0;
        else
            n *= shape[d] * (m->layout == LAYOUT_GAPS ? 2 : 1);
    }
    if (m->rank > 0 && m->layout == LAYOUT_NEGATIVE && shape[0] > 0) {
        *below = stride[0] * (shape[0] - 1);
        stride[0] = -stride[0];
    }
    return n;
}

static bool make_tensor(struct fuzz_case *c, int t)
{
    const struct modgen_tensor *m = &c->program.tensor[t];
    const int64_t extent[] = {0, c->B, c->H, c->Hkv, c->Sq, c->Skv};
    struct eval_tensor *x = &c->tensor[t];
    facc_tensor *pub = &c->captured[t];
    const size_t size = dtype_size(m->dtype);
    int64_t below, n = 1;
    *pub = (facc_tensor){.dtype = (facc_dtype)m->dtype, .rank = m->rank};
    for (int d = 0; d < m->rank; d++) {
        x->shape[d] = m->extent[d] ? m->extent[d] : extent[m->kind[d]];
        n *= x->shape[d];
    }
    int64_t total = lay_out(m, x->shape, x->stride, &below);
    char *p = new_block(c, (size_t)total * size);
    if (!p)
        return false;
    x->data = p + (size_t)below * size;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = below, rest = i;
        for (int d = m->rank; d-- > 0; rest /= x->shape[d])
            at += rest % x->shape[d] * x->stride[d];
        dtype_store(m->dtype, p + (size_t)at * size, element(c, t, i, n));
    }
    pub->data = p + (size_t)below * size;
    memcpy(pub->shape, x->shape, sizeof x->shape);
    memcpy(pub->stride, x->stride, sizeof x->stride);
    return true;
}

/* Rows of q, k or v: few different values, so that products are exact. */
static void fill_rows(const struct fuzz_case *c, const facc_tensor *x, int what,
                      char *p)
{
    const enum dtype type = (enum dtype)x->dtype;
    const int *s = what ? &c->Skv : &c->Sq;
    const int32_t *len = what ? c->len_kv : c->len_q;
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < x->shape[1]; h++)
            for (int i = 0; i < (len[b] < *s ? len[b] : *s); i++) {
                int at_b;
                int64_t at_s;
                case_row(c, what > 0, b, i, &at_b, &at_s);
                int64_t at = at_b * x->stride[0] + h * x->stride[1] +
                             at_s * x->stride[2];
                for (int d = 0; d < x->shape[3]; d++) {
                    uint64_t k = ((uint64_t)at_s * 64 + (uint64_t)h) * 512 +
                                 (uint64_t)d + ((uint64_t)at_b << 40);
                    double v =
                        what < 2
                            ? (double)(any(c, (uint64_t)what, k, 9) - 4) / 2
                            : (double)(any(c, 2, k, 33) - 16) / 8;
                    dtype_store(type, p + (size_t)(at + d) * dtype_size(type),
                                v);
                }
            }
}

/* q, k, v as [B, H, S, D]; in memory in one of three orders, in the last with
 * room behind each row. */
static bool make_rows(struct fuzz_case *c, facc_tensor *x, int what, int H,
                      int D, facc_dtype dtype)
{
    const int n = c->B;
    const bool packed = c->lengths == PACKED;
    const int64_t S =
        what ? (packed ? c->cu_kv[n] : c->Skv) : (packed ? c->cu_q[n] : c->Sq);
    const int64_t B = packed ? 1 : n;
    const int64_t row = c->order == 2 ? D + 8 : D;
    *x = (facc_tensor){.dtype = dtype, .rank = 4, .shape = {B, H, S, D}};
    x->stride[3] = 1;
    x->stride[2] = c->order == 1 ? row * H : row;
    const int64_t rows = S > 0 ? S : 1; /* heads apart, without rows too */
    x->stride[1] = c->order == 1 ? row : row * rows;
    x->stride[0] = row * rows * H;
    char *p = new_block(c, (size_t)(B * H * S * row) * facc_dtype_size(dtype));
    if (!p)
        return false;
    x->data = p;
    fill_rows(c, x, what, p);
    return true;
}

static void set_lengths(struct fuzz_case *c)
{
    facc_args *a = &c->args;
    if (c->lengths == PACKED) {
        a->cu_seqlens_q = c->cu_q;
        a->cu_seqlens_kv = c->cu_kv;
        a->n_seqs = c->B;
        a->max_seqlen_q = c->Sq;
        a->max_seqlen_kv = c->Skv;
    } else if (c->lengths >= USED_KV) {
        a->seqused_kv = c->len_kv;
        if (c->lengths == USED_BOTH)
            a->seqused_q = c->len_q;
    }
    c->env = (struct eval_env){.B = c->B,
                               .H = c->H,
                               .Hkv = c->Hkv,
                               .Sq = c->Sq,
                               .Skv = c->Skv,
                               .D = c->D,
                               .Dv = c->Dv,
                               .len_q = c->len_q,
                               .len_kv = c->len_kv,
                               .tensors = c->tensor,
                               .params = c->param};
}

static void set_params(struct fuzz_case *c)
{
    for (int k = 0; k < c->program.n_params; k++) {
        const struct modgen_param *p = &c->program.param[k];
        if (p->dtype == DTYPE_F32)
            c->param[k].f = c->value[k].f = p->f;
        else
            c->param[k].i = c->value[k].i = p->i;
    }
}

bool case_make(struct fuzz_case *c, struct choices *x,
               const struct case_limits *limits)
{
    static const facc_dtype cpu[] = {FACC_F32, FACC_BF16, FACC_F16, FACC_E4M3,
                                     FACC_E5M2};
    memset(c, 0, sizeof *c);
    choose_sizes(c, x, limits);
    choose_lengths(c, x);
    c->order = (int)choices_draw(x, 3);
    const facc_dtype dtype =
        limits->gpu ? cpu[1 + choices_draw(x, 2)] : cpu[choices_draw(x, 5)];
    c->data_seed = choices_draw(x, 1 << 16);
    modgen_program(x, limits->gpu, &c->program);
    c->args = (facc_args)FACC_ARGS_INIT;
    set_lengths(c);
    set_params(c);
    for (int t = 0; t < c->program.n_tensors; t++)
        if (!make_tensor(c, t))
            return false;
    facc_args *a = &c->args;
    /* a power of two, so that scores are exact: |score| <= 16 */
    a->scale = exp2(floor(log2(4.0 / c->D)));
    a->tensors = c->captured;
    a->n_tensors = c->program.n_tensors;
    a->params = c->value;
    a->n_params = c->program.n_params;
    return make_rows(c, &a->q, 0, c->H, c->D, dtype) &&
           make_rows(c, &a->k, 1, c->Hkv, c->D, dtype) &&
           make_rows(c, &a->v, 2, c->Hkv, c->Dv, dtype);
}

void case_close(struct fuzz_case *c)
{
    for (int k = 0; k < c->n_blocks; k++)
        free(c->block[k].data);
    c->n_blocks = 0;
}

/* --- reading ------------------------------------------------------ */

void case_row(const struct fuzz_case *c, bool kv, int b, int q, int *at_b,
              int64_t *at_s)
{
    const bool packed = c->lengths == PACKED;
    *at_b = packed ? 0 : b;
    *at_s = q + (packed ? (kv ? c->cu_kv[b] : c->cu_q[b]) : 0);
}

int case_rows(const struct fuzz_case *c, int b)
{
    return c->lengths == PACKED ? c->len_q[b] : c->Sq;
}

static double at(const struct fuzz_case *c, const facc_tensor *x, bool kv,
                 int b, int h, int s, int d)
{
    int at_b;
    int64_t at_s;
    case_row(c, kv, b, s, &at_b, &at_s);
    const int64_t i = at_b * x->stride[0] + h * x->stride[1] +
                      at_s * x->stride[2] + d * x->stride[3];
    const size_t size = facc_dtype_size(x->dtype);
    return dtype_load_f64((enum dtype)x->dtype,
                          (const char *)x->data + (size_t)i * size);
}

double case_score(const struct fuzz_case *c, int b, int h, int q, int kv)
{
    double s = 0;
    const int hkv = h / (c->H / c->Hkv);
    for (int d = 0; d < c->D; d++)
        s += at(c, &c->args.q, false, b, h, q, d) *
             at(c, &c->args.k, true, b, hkv, kv, d);
    return s * c->args.scale;
}

double case_value(const struct fuzz_case *c, int b, int h, int kv, int d)
{
    return at(c, &c->args.v, true, b, h / (c->H / c->Hkv), kv, d);
}

/* --- for people --------------------------------------------------- */

static void add(char *text, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t size, const char *fmt, ...)
{
    const size_t n = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + n, size - n, fmt, ap);
    va_end(ap);
}

static void describe_tensor(const struct fuzz_case *c, int t, char *text,
                            size_t size)
{
    static const char *const layout[] = {"plain", "reversed", "gaps",
                                         "negative stride", "expanded"};
    const struct modgen_tensor *m = &c->program.tensor[t];
    const struct eval_tensor *x = &c->tensor[t];
    int64_t n = 1;
    add(text, size, "-- %s (%s):", m->name, layout[m->layout]);
    for (int d = 0; d < m->rank; d++)
        n *= x->shape[d];
    for (int64_t i = 0; i < n && i < 24; i++) {
        int64_t pos = 0, rest = i;
        for (int d = m->rank; d-- > 0; rest /= x->shape[d])
            pos += rest % x->shape[d] * x->stride[d];
        const char *p =
            (const char *)x->data + pos * (int64_t)dtype_size(m->dtype);
        if (dtype_is_float(m->dtype))
            add(text, size, " %g", dtype_load_f64(m->dtype, p));
        else
            add(text, size, " %lld", (long long)dtype_load_i64(m->dtype, p));
    }
    add(text, size, n > 24 ? " ... (%lld)\n" : "\n", (long long)n);
}

void case_describe(const struct fuzz_case *c, char *text, size_t size)
{
    static const char *const lengths[] = {"all used", "used kv",
                                          "used q and kv", "packed"};
    add(text, size,
        "-- B %d, H %d, Hkv %d, Sq %d, Skv %d, D %d, Dv %d, %s, "
        "scale %g; %s:",
        c->B, c->H, c->Hkv, c->Sq, c->Skv, c->D, c->Dv,
        facc_dtype_name(c->args.q.dtype), c->args.scale, lengths[c->lengths]);
    for (int b = 0; b < c->B; b++)
        add(text, size, " %d/%d", c->len_q[b], c->len_kv[b]);
    add(text, size, "\n");
    for (int k = 0; k < c->program.n_params; k++) {
        const struct modgen_param *p = &c->program.param[k];
        if (p->dtype == DTYPE_F32)
            add(text, size, "-- %s = %g\n", p->name, p->f);
        else
            add(text, size, "-- %s = %lld\n", p->name, (long long)p->i);
    }
    for (int t = 0; t < c->program.n_tensors; t++)
        describe_tensor(c, t, text, size);
}

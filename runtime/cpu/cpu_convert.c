/* Element conversion. In: a row of any float type and stride; out: floats,
 * and the way back. Called by cpu_attention.c; facc_convert is the public
 * form for whole arrays. */
#include "runtime/cpu/cpu_convert.h"

#include "compiler/ir/eval_math.h"
#include "runtime/facc.h"

#define LOAD_ROW(in_t, convert)                                                \
    do {                                                                       \
        const in_t *p = from;                                                  \
        if (stride == 1)                                                       \
            for (int i = 0; i < n; i++)                                        \
                to[i] = convert(p[i]);                                         \
        else                                                                   \
            for (int i = 0; i < n; i++)                                        \
                to[i] = convert(p[i * stride]);                                \
    } while (0)

void cpu_load_row(float *to, enum dtype t, const void *from, int64_t stride,
                  int n)
{
    if (t == DTYPE_F32)
        LOAD_ROW(float, );
    else if (t == DTYPE_F16)
        LOAD_ROW(uint16_t, ev_from_f16);
    else if (t == DTYPE_BF16)
        LOAD_ROW(uint16_t, ev_from_bf16);
    else if (t == DTYPE_E4M3)
        LOAD_ROW(uint8_t, ev_from_e4m3);
    else
        LOAD_ROW(uint8_t, ev_from_e5m2);
}

/* A float type narrower than double, for `narrow`. */
struct narrow_type {
    int shift;        /* mantissa bits that double has more */
    uint64_t rebias;  /* difference of the exponents' biases, in place */
    int magic;        /* ulp(2^magic) is the smallest subnormal */
    uint64_t largest; /* finite magnitude */
    uint64_t beyond;  /* what larger ones become: infinity, or largest */
    uint64_t nan;
    int sign; /* bit */
};

/* The same bits as dtype_store, without its branches: rows of outputs and
 * whole arrays go through here. */
static inline uint64_t narrow(const struct narrow_type t, double v)
{
    double magnitude = fabs(v), magic = ldexp(1, t.magic), shifted;
    uint64_t m, u, n;
    memcpy(&m, &magnitude, sizeof m);
    memcpy(&n, &magic, sizeof n);
    shifted = magnitude + magic; /* rounds to the subnormals' grid */
    memcpy(&u, &shifted, sizeof u);
    uint64_t r = m - t.rebias, tie = (r >> t.shift) & 1;
    uint64_t normal = (r + (UINT64_C(1) << (t.shift - 1)) - 1 + tie) >> t.shift;
    uint64_t h = m >= t.rebias + (UINT64_C(1) << 52) ? normal : u - n;
    h = h > t.largest ? t.beyond : h;
    h |= (uint64_t)(signbit(v) != 0) << t.sign;
    return magnitude <= INFINITY ? h : t.nan;
}

#define BIAS(b) ((UINT64_C(1023) - (b)) << 52)
static const struct narrow_type f16 = {42,     BIAS(15), 28, 0x7bff,
                                       0x7c00, 0x7fff,   15};
static const struct narrow_type bf16 = {45,     BIAS(127), -81, 0x7f7f,
                                        0x7f80, 0x7fff,    15};
static const struct narrow_type e4m3 = {49, BIAS(7), 43, 0x7e, 0x7e, 0x7f, 7};
static const struct narrow_type e5m2 = {50, BIAS(15), 36, 0x7b, 0x7b, 0x7f, 7};

#define STORE_ROW(out_t, e)                                                    \
    do {                                                                       \
        out_t *p = to;                                                         \
        for (int i = 0; i < n; i++)                                            \
            p[i * stride] = (out_t)(e);                                        \
    } while (0)

void cpu_store_row(enum dtype t, void *to, int64_t stride, int n,
                   const double *values)
{
    if (t == DTYPE_F32)
        STORE_ROW(float, values[i]);
    else if (t == DTYPE_F64)
        STORE_ROW(double, values[i]);
    else if (t == DTYPE_F16)
        STORE_ROW(uint16_t, narrow(f16, values[i]));
    else if (t == DTYPE_BF16)
        STORE_ROW(uint16_t, narrow(bf16, values[i]));
    else if (t == DTYPE_E4M3)
        STORE_ROW(uint8_t, narrow(e4m3, values[i]));
    else if (t == DTYPE_E5M2)
        STORE_ROW(uint8_t, narrow(e5m2, values[i]));
    else /* ints: facc_convert */
        for (int i = 0; i < n; i++)
            dtype_store(t, (char *)to + i * stride * (int64_t)dtype_size(t),
                        values[i]);
}

/* n <= CHUNK elements by way of double. */
enum { CHUNK = 256 };

static void convert_chunk(enum dtype b, char *d, enum dtype a, const char *s,
                          int n)
{
    float narrow_values[CHUNK];
    double values[CHUNK];
    bool is_narrow = dtype_is_float(a) && a != DTYPE_F64;
    if (is_narrow)
        cpu_load_row(narrow_values, a, s, 1, n);
    for (int i = 0; i < n; i++)
        values[i] = is_narrow
                        ? (double)narrow_values[i]
                        : dtype_load_f64(a, s + (size_t)i * dtype_size(a));
    cpu_store_row(b, d, 1, n, values);
}

static bool is_aligned(enum dtype t, const void *p)
{
    return (uintptr_t)p % dtype_size(t) == 0;
}

facc_status facc_convert(facc_dtype to, void *dst, facc_dtype from,
                         const void *src, size_t n)
{
    enum dtype a = (enum dtype)from, b = (enum dtype)to;
    size_t from_size = dtype_size(a), to_size = dtype_size(b);
    const char *s = src;
    char *d = dst;
    if (from_size == 0 || to_size == 0)
        return FACC_ERR_ARGUMENT;
    if (n == 0)
        return FACC_OK;
    if (d == NULL || s == NULL || !is_aligned(a, s) || !is_aligned(b, d) ||
        n > PTRDIFF_MAX / from_size || n > PTRDIFF_MAX / to_size)
        return FACC_ERR_ARGUMENT;
    if (a == b) {
        memmove(d, s, n * from_size);
    } else if (b == DTYPE_I64 && !dtype_is_float(a)) {
        for (size_t i = 0; i < n; i++) /* doubles end at 2^53 */
            ((int64_t *)dst)[i] = dtype_load_i64(a, s + i * from_size);
    } else {
        for (size_t i = 0; i < n; i += CHUNK)
            convert_chunk(b, d + i * to_size, a, s + i * from_size,
                          n - i < CHUNK ? (int)(n - i) : CHUNK);
    }
    return FACC_OK;
}

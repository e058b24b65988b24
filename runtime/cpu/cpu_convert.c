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

void cpu_store_row(enum dtype t, void *to, int64_t stride, int n,
                   const double *values)
{
    if (t == DTYPE_F32) {
        for (int i = 0; i < n; i++)
            ((float *)to)[i * stride] = (float)values[i];
    } else {
        int64_t step = stride * (int64_t)dtype_size(t);
        for (int i = 0; i < n; i++)
            dtype_store(t, (char *)to + i * step, values[i]);
    }
}

static bool is_int(enum dtype t)
{
    return !dtype_is_float(t);
}

facc_status facc_convert(facc_dtype to, void *dst, facc_dtype from,
                         const void *src, size_t n)
{
    enum dtype a = (enum dtype)from, b = (enum dtype)to;
    size_t from_size = dtype_size(a), to_size = dtype_size(b);
    if (from_size == 0 || to_size == 0 ||
        (n > 0 && (dst == NULL || src == NULL)))
        return FACC_ERR_ARGUMENT;
    const char *s = src;
    char *d = dst;
    if (a == b) {
        memmove(d, s, n * from_size);
        return FACC_OK;
    }
    for (size_t i = 0; i < n; i++, s += from_size, d += to_size) {
        if (b == DTYPE_I64 && is_int(a)) { /* doubles end at 2^53 */
            int64_t v = dtype_load_i64(a, s);
            memcpy(d, &v, sizeof v);
        } else {
            dtype_store(b, d, dtype_load_f64(a, s));
        }
    }
    return FACC_OK;
}

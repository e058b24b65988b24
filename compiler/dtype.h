/* Element types. Same values as facc_dtype (runtime asserts that). */
#ifndef FACC_DTYPE_H
#define FACC_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype {
    DTYPE_F32 = 1,
    DTYPE_F16 = 2,
    DTYPE_BF16 = 3,
    DTYPE_E4M3 = 4, /* OCP FP8 e4m3fn: no infinity, NaN = 0x7f/0xff */
    DTYPE_E5M2 = 5, /* OCP FP8 e5m2 */
    DTYPE_I8 = 6,
    DTYPE_U8 = 7,
    DTYPE_I16 = 8,
    DTYPE_I32 = 9,
    DTYPE_I64 = 10,
    DTYPE_BOOL = 11, /* one byte, nonzero is true */
    DTYPE_F64 = 12   /* outputs of the oracle only */
};

size_t dtype_size(enum dtype t);      /* bytes; 0 for an unknown value */
const char *dtype_name(enum dtype t); /* "f32" … ; "?" when unknown */
/* "f32" "f16" "bf16" "f8" (e4m3) "e4m3" "e5m2" "i8" "u8" "i16" "i32" "i64"
 * "bool" "f64"; false when unknown. */
bool dtype_parse(const char *name, enum dtype *out);
bool dtype_is_float(enum dtype t);
static inline bool dtype_is_fp8(enum dtype t)
{
    return t == DTYPE_E4M3 || t == DTYPE_E5M2;
}
/* One element as a double or integer, exactly. */
double dtype_load_f64(enum dtype t, const void *element);
int64_t dtype_load_i64(enum dtype t, const void *element);

/* What mods see of an i64 element of a captured tensor: beyond these ends it
 * counts as the end ("no limit" may be INT64_MAX), so that sums of several
 * stay in 64 bits. facc_load_i64 of variant_math.cuh does the same. */
#define DTYPE_WIDE_MIN (-((int64_t)1 << 60))
#define DTYPE_WIDE_MAX (((int64_t)1 << 60) - 1)
static inline int64_t dtype_saturate(int64_t v)
{
    return v < DTYPE_WIDE_MIN   ? DTYPE_WIDE_MIN
           : v > DTYPE_WIDE_MAX ? DTYPE_WIDE_MAX
                                : v;
}

/* Round to nearest even; e4m3 and e5m2 saturate to the largest finite value
 * as the hardware's cvt.rn.satfinite does; NaN stays NaN. */
void dtype_store(enum dtype t, void *element, double value);

#endif

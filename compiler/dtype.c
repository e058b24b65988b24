/* Element types: sizes, names, and exact conversion of single elements. In:
 * the bytes of an element or a double; out: the other one. Everybody who
 * reads or writes tensors on the CPU calls this. */
#include "compiler/dtype.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [DTYPE_F32] = {"f32", 4},   [DTYPE_F16] = {"f16", 2},
    [DTYPE_BF16] = {"bf16", 2}, [DTYPE_E4M3] = {"e4m3", 1},
    [DTYPE_E5M2] = {"e5m2", 1}, [DTYPE_I8] = {"i8", 1},
    [DTYPE_U8] = {"u8", 1},     [DTYPE_I16] = {"i16", 2},
    [DTYPE_I32] = {"i32", 4},   [DTYPE_I64] = {"i64", 8},
    [DTYPE_BOOL] = {"bool", 1}, [DTYPE_F64] = {"f64", 8},
};
enum { N_TYPES = sizeof types / sizeof *types };

static bool known(enum dtype t)
{
    return (int)t > 0 && (int)t < N_TYPES;
}

size_t dtype_size(enum dtype t)
{
    return known(t) ? types[t].size : 0;
}

const char *dtype_name(enum dtype t)
{
    return known(t) ? types[t].name : "?";
}

bool dtype_parse(const char *name, enum dtype *out)
{
    if (strcmp(name, "f8") == 0) {
        *out = DTYPE_E4M3;
        return true;
    }
    for (int t = 1; t < N_TYPES; t++) {
        if (strcmp(name, types[t].name) == 0) {
            *out = (enum dtype)t;
            return true;
        }
    }
    return false;
}

bool dtype_is_float(enum dtype t)
{
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16 ||
           t == DTYPE_E4M3 || t == DTYPE_E5M2 || t == DTYPE_F64;
}

/* A float of at most 16 bits: sign, exponent, mantissa. */
struct small_float {
    int bits;
    int mantissa;     /* stored mantissa bits */
    int min_exponent; /* of the smallest normal number */
    uint32_t largest; /* encoding of the largest finite magnitude */
    uint32_t nan;     /* encoding written for NaN */
    bool saturates;   /* beyond the largest: largest, not infinity */
    bool ieee;        /* the last exponent is infinity and NaN */
};

static const struct small_float f16 = {16,     10,    -14, 0x7bff,
                                       0x7fff, false, true};
static const struct small_float bf16 = {16,     7,     -126, 0x7f7f,
                                        0x7fff, false, true};
static const struct small_float e4m3 = {8, 3, -6, 0x7e, 0x7f, true, false};
static const struct small_float e5m2 = {8, 2, -14, 0x7b, 0x7f, true, true};

static double decode(const struct small_float *f, uint32_t x)
{
    uint32_t sign = x >> (f->bits - 1);
    uint32_t magnitude = x & ((1u << (f->bits - 1)) - 1);
    double v;
    if (magnitude > f->largest) {
        v = f->ieee && magnitude == f->largest + 1 ? INFINITY : NAN;
    } else {
        uint32_t exponent = magnitude >> f->mantissa;
        uint32_t m = magnitude & ((1u << f->mantissa) - 1);
        int e = f->min_exponent - f->mantissa;
        if (exponent) {
            m += 1u << f->mantissa;
            e += (int)exponent - 1;
        }
        v = ldexp((double)m, e);
    }
    return sign ? -v : v;
}

/* Round to nearest even: the value as a count of the ulps of its binade, and
 * a carry out of the mantissa moves into the exponent by itself. */
static uint32_t encode(const struct small_float *f, double v)
{
    if (isnan(v))
        return f->nan;
    uint32_t sign = (signbit(v) ? 1u : 0u) << (f->bits - 1);
    v = fabs(v);
    uint32_t beyond = f->saturates ? f->largest : f->largest + 1;
    if (isinf(v))
        return sign | beyond;
    int e = v > 0 ? ilogb(v) : f->min_exponent;
    if (e < f->min_exponent)
        e = f->min_exponent;
    if (e - f->min_exponent > (int)(f->largest >> f->mantissa))
        return sign | beyond;
    uint32_t ulps = (uint32_t)rint(scalbn(v, f->mantissa - e));
    uint32_t x = ((uint32_t)(e - f->min_exponent) << f->mantissa) + ulps;
    return sign | (x > f->largest ? beyond : x);
}

static uint32_t get_bits(const void *p, size_t size)
{
    uint8_t b = 0;
    uint16_t w = 0;
    if (size == 1) {
        memcpy(&b, p, 1);
        return b;
    }
    memcpy(&w, p, 2);
    return w;
}

double dtype_load_f64(enum dtype t, const void *element)
{
    float s;
    double d;
    switch (t) {
    case DTYPE_F32:
        memcpy(&s, element, sizeof s);
        return (double)s;
    case DTYPE_F64:
        memcpy(&d, element, sizeof d);
        return d;
    case DTYPE_F16:
        return decode(&f16, get_bits(element, 2));
    case DTYPE_BF16:
        return decode(&bf16, get_bits(element, 2));
    case DTYPE_E4M3:
        return decode(&e4m3, get_bits(element, 1));
    case DTYPE_E5M2:
        return decode(&e5m2, get_bits(element, 1));
    case DTYPE_I8:
    case DTYPE_U8:
    case DTYPE_I16:
    case DTYPE_I32:
    case DTYPE_I64:
    case DTYPE_BOOL:
        return (double)dtype_load_i64(t, element);
    }
    return 0;
}

/* Clamped to [lo, hi], which the int type holds; NaN gives 0. The bounds of
 * i64 are powers of two as doubles, hence >= and <=. */
static int64_t to_int(double v, int64_t lo, int64_t hi)
{
    if (isnan(v))
        return 0;
    if (v >= (double)hi)
        return hi;
    if (v <= (double)lo)
        return lo;
    return (int64_t)v;
}

int64_t dtype_load_i64(enum dtype t, const void *element)
{
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    switch (t) {
    case DTYPE_I8:
        memcpy(&i8, element, sizeof i8);
        return i8;
    case DTYPE_U8:
        return get_bits(element, 1);
    case DTYPE_BOOL:
        return get_bits(element, 1) != 0;
    case DTYPE_I16:
        memcpy(&i16, element, sizeof i16);
        return i16;
    case DTYPE_I32:
        memcpy(&i32, element, sizeof i32);
        return i32;
    case DTYPE_I64:
        memcpy(&i64, element, sizeof i64);
        return i64;
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16:
    case DTYPE_E4M3:
    case DTYPE_E5M2:
    case DTYPE_F64:
        return to_int(dtype_load_f64(t, element), INT64_MIN, INT64_MAX);
    }
    return 0;
}

static void put_int(void *element, size_t size, int64_t v)
{
    int8_t i8 = (int8_t)v;
    int16_t i16 = (int16_t)v;
    int32_t i32 = (int32_t)v;
    const void *from = &v;
    if (size == 1)
        from = &i8;
    else if (size == 2)
        from = &i16;
    else if (size == 4)
        from = &i32;
    memcpy(element, from, size);
}

void dtype_store(enum dtype t, void *element, double value)
{
    float s = (float)value;
    double r = rint(value);
    switch (t) {
    case DTYPE_F32:
        memcpy(element, &s, sizeof s);
        break;
    case DTYPE_F64:
        memcpy(element, &value, sizeof value);
        break;
    case DTYPE_F16:
        put_int(element, 2, encode(&f16, value));
        break;
    case DTYPE_BF16:
        put_int(element, 2, encode(&bf16, value));
        break;
    case DTYPE_E4M3:
        put_int(element, 1, encode(&e4m3, value));
        break;
    case DTYPE_E5M2:
        put_int(element, 1, encode(&e5m2, value));
        break;
    case DTYPE_I8:
        put_int(element, 1, to_int(r, INT8_MIN, INT8_MAX));
        break;
    case DTYPE_U8:
        put_int(element, 1, to_int(r, 0, UINT8_MAX));
        break;
    case DTYPE_I16:
        put_int(element, 2, to_int(r, INT16_MIN, INT16_MAX));
        break;
    case DTYPE_I32:
        put_int(element, 4, to_int(r, INT32_MIN, INT32_MAX));
        break;
    case DTYPE_I64:
        put_int(element, 8, to_int(r, INT64_MIN, INT64_MAX));
        break;
    case DTYPE_BOOL:
        put_int(element, 1, value != 0);
        break;
    }
}

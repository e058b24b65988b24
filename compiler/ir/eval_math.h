/* Scalar arithmetic of the evaluator, written so that loops over it
 * vectorise: no branches, no calls, no undefined behaviour. Integers wrap in
 * two's complement and follow Lua's rules for // % << >>; division by zero
 * gives 0. ops.def's eval column speaks these names. */
#ifndef FACC_EVAL_MATH_H
#define FACC_EVAL_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int64_t ev_wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t ev_wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t ev_wrap_neg(int64_t a)
{
    return (int64_t)(0 - (uint64_t)a);
}

static inline int64_t ev_wrap_abs(int64_t a)
{
    return a < 0 ? ev_wrap_neg(a) : a;
}

static inline int64_t ev_floordiv(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1) /* INT64_MIN / -1 traps */
        return ev_wrap_neg(a);
    return a / b - ((a % b != 0) & ((a ^ b) < 0));
}

static inline int64_t ev_floormod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    int64_t r = a % b;
    return (r != 0 && (r ^ b) < 0) ? r + b : r;
}

/* Lua's <<: logical, a negative count shifts right, 64 or more gives 0. */
static inline int64_t ev_shl(int64_t a, int64_t n)
{
    if (n <= -64 || n >= 64)
        return 0;
    return n >= 0 ? (int64_t)((uint64_t)a << n) : (int64_t)((uint64_t)a >> -n);
}

/* An integral float to int, saturating to i32; NaN gives 0. */
static inline int64_t ev_to_i32_f32(float x)
{
    float lo = x > -2147483648.0f ? x : -2147483648.0f; /* NaN goes low */
    float in = lo < 2147483520.0f ? lo : 2147483520.0f; /* largest below 2^31 */
    int32_t i = (int32_t)in;
    i = x >= 2147483648.0f ? INT32_MAX : i;
    return x != x ? 0 : i;
}

static inline int64_t ev_to_i32_f64(double x)
{
    double lo = x > -2147483648.0 ? x : -2147483648.0;
    double in = lo < 2147483647.0 ? lo : 2147483647.0;
    int32_t i = (int32_t)in;
    return x != x ? 0 : i;
}

/* Lua's % on floats: the result has the sign of the divisor. */
static inline float ev_fmod_f32(float a, float b)
{
    float m = fmodf(a, b);
    return (m > 0 ? b < 0 : (m < 0 && b > 0)) ? m + b : m;
}

static inline double ev_fmod_f64(double a, double b)
{
    double m = fmod(a, b);
    return (m > 0 ? b < 0 : (m < 0 && b > 0)) ? m + b : m;
}

/* Lua's ^: squares are products. */
static inline double ev_pow_f64(double a, double b)
{
    return b == 2 ? a * a : pow(a, b);
}

static inline uint32_t ev_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float ev_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* e^x to 1 ulp: x = n ln 2 + r, a polynomial for e^r, and 2^n applied in two
 * halves so that subnormal results round once. NaN stays NaN. */
static inline float ev_exp_f32(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds */
    float c = x > 89.0f ? 89.0f : x;
    c = c < -104.0f ? -104.0f : c;
    float t = c * 1.44269504088896341f + magic;
    float n = t - magic;
    float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * (r * r) + r) + 1.0f;
    int32_t e = (int32_t)(ev_bits(t) - ev_bits(magic));
    int32_t half = e >> 1;
    float s0 = ev_float(((uint32_t)half + 127u) << 23);
    float s1 = ev_float(((uint32_t)e - (uint32_t)half + 127u) << 23);
    return p * s0 * s1;
}

/* tanh to 2 ulp: an odd polynomial near 0, else 1 - 2 / (e^2|x| + 1). */
static inline float ev_tanh_f32(float x)
{
    float a = fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float near = p * z * x + x;
    float far = 1.0f - 2.0f / (ev_exp_f32(a + a) + 1.0f);
    far = x < 0 ? -far : far;
    return a < 0.625f ? near : far;
}

/* Narrow floats to f32, exactly. */
static inline float ev_from_bf16(uint16_t h)
{
    return ev_float((uint32_t)h << 16);
}

static inline float ev_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t mag = (uint32_t)(h & 0x7fffu) << 13;
    /* rebias the exponent by a multiplication: right for subnormals too */
    float v = ev_float(mag) * ev_float(0x77800000u);
    uint32_t u = mag >= 0x0f800000u ? mag | 0x7f800000u : ev_bits(v);
    return ev_float(sign | u);
}

static inline float ev_from_e5m2(uint8_t b)
{
    return ev_from_f16((uint16_t)(b << 8));
}

static inline float ev_from_e4m3(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80u) << 24;
    uint32_t mag = (uint32_t)(b & 0x7fu) << 20;
    float v = ev_float(mag) * ev_float(0x7b800000u); /* 2^120 */
    uint32_t u = (b & 0x7fu) == 0x7fu ? 0x7fc00000u : ev_bits(v);
    return ev_float(sign | u);
}

#endif

// Generated variants on the CPU, part 1: CUDA words and instructions as host
// C++ (test_emit.c puts this in place of common/variant_ptx.cuh).
#include <cmath>
#include <cstdint>
#include <cstring>

#include "templates/common/kernel_args.h"
#include "tests/unit/timing.h"

#define __device__
#define __forceinline__ inline
#define __noinline__
#define FACC_FN inline
#define FACC_CALL static

template <class T> static T __ldg(const T *p)
{
    return *p;
}
static float __int_as_float(int v)
{
    float f;
    memcpy(&f, &v, sizeof f);
    return f;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned v;
    memcpy(&v, &f, sizeof v);
    return v;
}
static float __uint_as_float(unsigned v)
{
    return __int_as_float((int)v);
}
static int saturated(double v)
{
    return v != v               ? 0
           : v >= 2147483647.0  ? 2147483647
           : v <= -2147483648.0 ? -2147483647 - 1
                                : (int)v;
}
static int __float2int_rd(float x)
{
    return saturated(std::floor((double)x));
}
static int __float2int_ru(float x)
{
    return saturated(std::ceil((double)x));
}
static int __float2int_rn(float x)
{
    return saturated(std::nearbyint((double)x));
}
static long long __mul64hi(long long a, long long b)
{
    return (long long)((__int128)a * b >> 64);
}

// Directed rounding: what the nearest number misses decides. Double holds a
// product of floats, and enough of a sum or quotient.
static float toward(double x, float end)
{
    const float y = (float)x;
    return x != x || (end < 0 ? (double)y <= x : (double)y >= x)
               ? y
               : std::nextafter(y, end);
}
#define HOST_ROUNDED(name, type, expression)                                   \
    static float name##_rd(type a, type b)                                     \
    {                                                                          \
        return toward(expression, -INFINITY);                                  \
    }                                                                          \
    static float name##_ru(type a, type b)                                     \
    {                                                                          \
        return toward(expression, INFINITY);                                   \
    }
HOST_ROUNDED(__fadd, float, (double)a + b)
HOST_ROUNDED(__fmul, float, double{a} * b)
HOST_ROUNDED(__fdiv, float, (double)a / b)
#undef HOST_ROUNDED
#define HOST_ROUNDED(name, type, expression)                                   \
    static float name##_rd(type a)                                             \
    {                                                                          \
        return toward(expression, -INFINITY);                                  \
    }                                                                          \
    static float name##_ru(type a)                                             \
    {                                                                          \
        return toward(expression, INFINITY);                                   \
    }
HOST_ROUNDED(__fsqrt, float, std::sqrt((double)a))
HOST_ROUNDED(__int2float, int, (double)a)
#undef HOST_ROUNDED

static float __fadd_rn(float a, float b)
{
    return a + b;
}
static float __fsub_rn(float a, float b)
{
    return a - b;
}
static float __fmul_rn(float a, float b)
{
    return a * b;
}

// Toward zero: what is beyond f32's ends becomes the end.
static float __fmul_rz(float a, float b)
{
    const double x = double{a} * b;
    const float y = (float)x;
    return x == x && std::fabs((double)y) > std::fabs(x)
               ? std::nextafter(y, 0.0f)
               : y;
}

static double __ll2double_rd(long long a)
{
    const double y = (double)a;
    return (__int128)y <= a ? y : std::nextafter(y, -INFINITY);
}
static double __ll2double_ru(long long a)
{
    const double y = (double)a;
    return (__int128)y >= a ? y : std::nextafter(y, INFINITY);
}
static float __ll2float_rd(long long a)
{
    const float y = (float)a;
    return (__int128)y <= a ? y : std::nextafter(y, -INFINITY);
}
static float __ll2float_ru(long long a)
{
    const float y = (float)a;
    return (__int128)y >= a ? y : std::nextafter(y, INFINITY);
}
static long long __double2ll_rd(double a)
{
    return (long long)std::floor(a);
}
static long long __double2ll_ru(double a)
{
    return (long long)std::ceil(a);
}
static double __dadd_rd(double a, double b)
{
    const double s = a + b, t = s - a, miss = (a - (s - t)) + (b - t);
    return miss < 0 ? std::nextafter(s, -INFINITY) : s;
}
static double __dadd_ru(double a, double b)
{
    return -__dadd_rd(-a, -b);
}
static double __dmul_rd(double a, double b)
{
    const double p = a * b;
    return std::fma(a, b, -p) < 0 ? std::nextafter(p, -INFINITY) : p;
}
static double __dmul_ru(double a, double b)
{
    return -__dmul_rd(-a, b);
}

static float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
static float facc_ex2(float x)
{
    return exp2f(x);
}
static float facc_rcp(float x)
{
    return 1.0f / x;
}
static float facc_tanh_fast(float x)
{
    return tanhf(x);
}
static float facc_max_nan(float a, float b)
{
    return a != a || b != b ? NAN : a < b ? b : a;
}
static float facc_half_bits(unsigned h)
{
    const int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    const float sign = h & 0x8000u ? -1.0f : 1.0f;
    if (exponent == 31)
        return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent
                       ? std::ldexp(1024.0f + (float)mantissa, exponent - 25)
                       : std::ldexp((float)mantissa, -24));
}
static int facc_swap_if_zero(int *p, int v)
{
    const int old = *p;
    *p = old == 0 ? v : old;
    return old;
}

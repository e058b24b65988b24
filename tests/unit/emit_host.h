// Generated variants on the CPU, part 1: CUDA words and instructions as host
// C++ (test_emit.c puts this in place of common/variant_ptx.cuh).
#include <cmath>
#include <cstdint>
#include <cstring>

#include "templates/common/kernel_args.h"

#define __device__
#define __forceinline__ inline
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

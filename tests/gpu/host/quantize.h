// What the kernels of templates/common/quantize.cu and transpose.cu need of CUDA beside simt.h.
#pragma once
#include "simt.h"

struct float4 {
    float x, y, z, w;
};

inline float __fmaf_rn(float a, float b, float c)
{
    return std::fma(a, b, c);
}
inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned long long)a * b >> 32;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    const unsigned long long all = (unsigned long long)b << 32 | a;
    unsigned y = 0;
    for (int i = 0; i < 4; ++i)
        y |= (unsigned)(all >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return y;
}
inline unsigned atomicMax(unsigned *p, unsigned v)
{
    const unsigned old = *p;
    *p = std::max(old, v);
    return old;
}

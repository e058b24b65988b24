// The instructions that quantize.cuh needs by name. Alone in a file, so that tests can put host
// functions in its place.
#pragma once

__device__ __forceinline__ float half_bits(unsigned bits)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)bits));
    return y;
}

// The larger one of |a| and |b|, or the one beside NaN, in each half of a word; with any sign.
template <bool kBf16> __device__ __forceinline__ unsigned largest_pair(unsigned a, unsigned b)
{
    unsigned y;
    if constexpr (kBf16)
        asm("max.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    else
        asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

// The compiler does not know x any more.
__device__ __forceinline__ void unknown(unsigned &x)
{
    asm volatile("" : "+r"(x));
}

// Four codes, that of x[0] in the lowest byte; saturating, NaN is 0x7f.
template <bool kE4m3> __device__ __forceinline__ unsigned pack_fp8(const float (&x)[4])
{
    unsigned y;
    if constexpr (kE4m3)
        asm("{.reg .b16 l, h;\ncvt.rn.satfinite.e4m3x2.f32 l, %2, %1;\n"
            "cvt.rn.satfinite.e4m3x2.f32 h, %4, %3;\nmov.b32 %0, {l, h};}"
            : "=r"(y)
            : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
    else
        asm("{.reg .b16 l, h;\ncvt.rn.satfinite.e5m2x2.f32 l, %2, %1;\n"
            "cvt.rn.satfinite.e5m2x2.f32 h, %4, %3;\nmov.b32 %0, {l, h};}"
            : "=r"(y)
            : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
    return y;
}

// The instructions that quantize.cuh needs by name. Alone in a file, so that tests can put host
// functions in its place.
#pragma once

__device__ __forceinline__ float half_bits(unsigned bits)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)bits));
    return y;
}

// Two codes, that of a in the lower byte; saturating, NaN is 0x7f.
template <bool kE4m3> __device__ __forceinline__ unsigned pack_fp8(float a, float b)
{
    unsigned short y;
    if constexpr (kE4m3)
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y) : "f"(b), "f"(a));
    else
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(y) : "f"(b), "f"(a));
    return y;
}

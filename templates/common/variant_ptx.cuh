// The instructions that variant_math.cuh needs by name. Alone in a file, so that tests can put host
// functions in its place and run generated code on the CPU.
#pragma once

#define FACC_FN __device__ __forceinline__
#define FACC_CALL static __device__ __noinline__

FACC_FN float facc_ex2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

FACC_FN float facc_rcp(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The hardware's approximation: relative error about 2^-11.
FACC_FN float facc_tanh_fast(float x)
{
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// NaN if either is one.
FACC_FN float facc_max_nan(float a, float b)
{
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

FACC_FN float facc_half_bits(unsigned bits)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)bits));
    return y;
}

// Stores v where there is a 0; what was there.
FACC_FN int facc_swap_if_zero(int *p, int v)
{
    return atomicCAS(p, 0, v);
}

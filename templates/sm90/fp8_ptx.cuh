// Thin wrappers of the PTX that FP8 needs beside ptx.cuh.
#pragma once
#include "sm90/ptx.cuh"

// `bytes` that lie in a row, to shared memory; `barrier` counts them. All are multiples of 16.
__device__ __forceinline__ void bulk_load(unsigned dst, const void *src, unsigned bytes,
                                          unsigned barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(dst),
                 "l"(src), "r"(bytes), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void *shared_pointer(unsigned address)
{
    return __cvta_shared_to_generic(address);
}

// Four floats as e4m3, the first in the lowest byte; beyond 448 they are 448, NaN stays NaN. (The
// second conversion merges into the register of the first.)
__device__ __forceinline__ unsigned pack_e4m3(float a, float b, float c, float d)
{
    unsigned r;
    asm("{\n"
        ".reg .b16 low, high;\n"
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
        "mov.b32 %0, {low, high};\n"
        "}"
        : "=r"(r)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return r;
}

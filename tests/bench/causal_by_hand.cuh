// The Variant generated for q >= kv, its bound and verdict replaced by what one
// writes by hand: in 32-bit arithmetic, without saturation. For the section
// causal_generic of bench_gpu.py, which includes this in place of
// facc_variant.cuh.
#pragma once
#define Variant GeneratedVariant
#include "facc_variant.cuh"
#undef Variant

struct Variant : GeneratedVariant {
    static __device__ __forceinline__ KvRange kv_range(const KernelArgs &, const Tile &, int,
                                                       int q_last)
    {
        return KvRange{0, q_last + 1};
    }

    static __device__ __forceinline__ int verdict(const KernelArgs &, const Tile &, int q_first,
                                                  int q_last, int kv_first, int kv_last)
    {
        return kv_first > q_last    ? kVerdictEmpty
               : kv_last <= q_first ? kVerdictFull
                                    : kVerdictPartial;
    }
};

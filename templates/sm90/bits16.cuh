// In the place of fp8.cuh, for kernels of 16 bits: nothing of it.
#pragma once
#include "facc_wgmma.cuh"
#include "sm90/shape.cuh"

constexpr bool kSettlesFirst = kGroups == 3 || Variant::kHasScore;
constexpr bool kFactorOfItem = false; // see Consumer
constexpr bool kWaitsAhead = false;

__device__ __forceinline__ void describe_fp8(const KernelArgs &, const Work &, Fp8Work<false> &) {}

__device__ __forceinline__ void describe_blocks(const KernelArgs &, const Work &, Fp8Work<false> &)
{
}

__device__ __forceinline__ void fill_scales(const KernelArgs &, const Work &,
                                            const Fp8Work<false> &, int, unsigned,
                                            ScaleTables<false> &)
{
}

__device__ __forceinline__ void scale_blocks(const Fp8Work<false> &, const ScaleTables<false> &,
                                             unsigned, Scores &)
{
}

__device__ __forceinline__ void load_image(const Fp8Work<false> &, int, unsigned, const Barrier &)
{
}

__device__ __forceinline__ void clear_image_tail(unsigned, int) {}

__device__ __forceinline__ void forget(float (&)[2]) {}

// What the accumulator is multiplied by, of a thread's two rows.
using Factors = float[2];

struct Promoter {
    __device__ __forceinline__ Promoter(const Control &, unsigned) {}
    __device__ __forceinline__ void step(const KernelArgs &, const RowState &, bool) const {}
    __device__ __forceinline__ bool accumulates() const { return true; }
};

__device__ __forceinline__ const Factors &factors_of(const Work &, const RowSum (&)[2],
                                                     const float (&by)[2], const Promoter &)
{
    return by;
}

// Column 8 n + 2 t + e of the output.
__device__ __forceinline__ float output_at(const float (&o)[kBlocksV][4], int n, int half, int e,
                                           const Factors &by)
{
    return o[n][2 * half + e] * by[half];
}

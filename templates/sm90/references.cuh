// The references of rows, which weights are made against, for elements of 16 and of 8 bits.
#pragma once
#include "common/score.cuh"

// True: the quick path takes narrow_score, if all scores turn out to be small.
constexpr bool kNarrow = Variant::kHasScore && Variant::kHasNarrow;

__device__ __forceinline__ void reset(RowState &state)
{
    state.reference[0] = state.reference[1] = minus_infinity();
    state.sum[0] = state.sum[1] = 0.0f;
    if constexpr (kExactPeaks)
        state.share_inverse = 0.0f;
}

// What scores are multiplied by before their exponential, on the quick path.
__device__ __forceinline__ float quick_multiplier(const KernelArgs &args, const Work &w)
{
    return kRawScores                       ? raw_factor(args, w)
           : Variant::kHasScore && !kNarrow ? Variant::multiplier(args, w.t)
                                            : 1.0f;
}

// Where a score is a product and the multiplier is 1, the sum joins that in one FMA; fmaf(x, 1,
// offset) would not.
__device__ __forceinline__ float exponent(float x, float multiplier, float offset)
{
    return Variant::kHasScore ? x * multiplier + offset : fmaf(x, multiplier, offset);
}

// True: an item's first tile, too, is first weighed quickly: against the largest of some of its
// scores. Not where it is often masked (documents 2 % slower), nor with three groups (D 64, 2 %).
constexpr bool kGuesses = kRawScores && !kMasks && !kFp8 && kGroups == 2;

__device__ __forceinline__ void guess_references(const KernelArgs &args, const Work &w,
                                                 const Scores &s, RowState &state)
{
    constexpr int kBlocks = 4; // of eight columns
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float top = minus_infinity();
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
            for (int e = 0; e < 2; ++e)
                top = max_or_nan(top,
                                 s[0][i * kBlocksN / kBlocks][2 * half + e] * raw_factor(args, w));
        top = max_or_nan(top, __shfl_xor_sync(~0u, top, 1));
        state.reference[half] = max_or_nan(top, __shfl_xor_sync(~0u, top, 2));
    }
}

// Where no cell counts for the group.
template <int kRegisters>
__device__ __forceinline__ void weigh_nothing(unsigned (&p)[kRegisters], float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < kRegisters; ++i)
        p[i] = 0;
    factor[0] = factor[1] = 1.0f;
}

// The true maximum of a tile times the multiplier, less `below`, becomes the reference where it is
// larger. offset: minus the reference, 0 where a row has none; factor: what sums and output so far
// are to be multiplied by.
__device__ __forceinline__ void raise_references(const Tops &tops, float multiplier, float below,
                                                 RowState &state, float (&offset)[2],
                                                 float (&factor)[2])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float top = tops.of[0][half];
        top = max_or_nan(top, __shfl_xor_sync(~0u, top, 1));
        top = max_or_nan(top, __shfl_xor_sync(~0u, top, 2)) * multiplier - below;
        const float reference = max_or_nan(top, state.reference[half]);
        offset[half] = reference == minus_infinity() ? 0.0f : -reference;
        factor[half] = exp2_fast(state.reference[half] + offset[half]);
        state.reference[half] = reference;
    }
}

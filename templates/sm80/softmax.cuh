// Online softmax on a warp's tile of scores.
#pragma once

#include "sm80/multiply.cuh"

// The reference of a row moves only when the maximum has grown by more than this many powers of
// two: weights stay at most 2^8 (exact in f16 and bf16 range, and divided out at the end), and the
// output is seldom rescaled.
constexpr float kSlack = 8.0f;

// Takes the tile's maxima into the references; rescales sum and output of rows whose reference
// moved. `multiplier` takes scores to log2 units and is positive. A row's bits do not depend on the
// other rows of its warp: rows that need no rescaling are multiplied by 1.
__device__ __forceinline__ void update_reference(const Scores &s, float multiplier, RowState &state,
                                                 Output &o)
{
    float factor[kBlocksM][2];
    bool moved = false;
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float top = minus_infinity();
#pragma unroll
            for (int n = 0; n < kBlocksN; ++n)
                top = fmaxf(top, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 2)) * multiplier;
            const float old = state.reference[m][half];
            const bool grows =
                top > old + kSlack; // true for the first score that counts: old is -inf
            factor[m][half] = grows ? exp2_fast(old - top) : 1.0f;
            state.reference[m][half] = grows ? top : old;
            moved |= grows;
        }
    }
    if (!__any_sync(~0u, moved))
        return;
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m) {
        state.sum[m][0] *= factor[m][0];
        state.sum[m][1] *= factor[m][1];
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                o[m][n][e] *= factor[m][e / 2];
    }
}

// What to add to scores in log2 units, by row: minus the reference, or nothing while no score has
// counted (2^-inf is 0, while -inf - -inf would be NaN).
struct Offsets {
    float of[kBlocksM][2];

    __device__ __forceinline__ Offsets(const RowState &state)
    {
#pragma unroll
        for (int i = 0; i < 2 * kBlocksM; ++i) {
            const float reference = state.reference[i / 2][i % 2];
            of[i / 2][i % 2] = reference == minus_infinity() ? 0.0f : -reference;
        }
    }
};

// 16 columns of scores to weights 2^(score - reference), as A fragments; adds them to the sums.
__device__ __forceinline__ void make_weights(const Scores &s, int step, float multiplier,
                                             const Offsets &offsets, RowState &state, Weights &p)
{
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) { // fragment register i: columns 8 (i / 2), row half i % 2
            const int half = i % 2;
            const float offset = offsets.of[m][half];
            const float(&x)[4] = s[m][2 * step + i / 2];
            const float low = exp2_fast(fmaf(x[2 * half], multiplier, offset));
            const float high = exp2_fast(fmaf(x[2 * half + 1], multiplier, offset));
            state.sum[m][half] += low + high;
            p[m][i] = pack_pair<kElement>(low, high);
        }
    }
}

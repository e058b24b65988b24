// Online softmax on a warp's tile of scores.
#pragma once

#include "sm80/multiply.cuh"

constexpr int kVote = 4;

// The largest score of each row so far in this tile, in this thread's columns.
struct Tops {
    float of[kBlocksM][2];

    __device__ __forceinline__ Tops()
    {
#pragma unroll
        for (int i = 0; i < 2 * kBlocksM; ++i)
            of[i / 2][i % 2] = minus_infinity();
    }

    // Scores of a block of eight columns.
    __device__ __forceinline__ void take(const Scores &s, int n)
    {
#pragma unroll
        for (int i = 0; i < 2 * kBlocksM; ++i) {
            float &top = of[i / 2][i % 2];
            const float(&x)[4] = s[i / 2][n];
            top = fmaxf(top, fmaxf(x[2 * (i % 2)], x[2 * (i % 2) + 1]));
        }
    }
};

// Beyond this (in log2 units) the rounding of a reference shows in weights of 16 bits.
constexpr float kLargeReference = 2048.0f;

__device__ __forceinline__ bool is_large(float reference, float multiplier)
{
    const float x = fabsf(reference * multiplier);
    return x > kLargeReference && x <= kMaxFloat;
}

// Takes the tile's maxima into the references; rescales sum and output of rows whose reference
// moved: the reference is always the maximum, so that where one weight carries a row it is exactly
// 1. (Rounded to the element type, any other weight would differ from what the f32 sum has of it.)
// `multiplier` takes scores to log2 units and is positive. A row's bits do not depend on the other
// rows of its warp, which are only multiplied by 1 on its account.
__device__ __forceinline__ void update_reference(const Tops &tops, float multiplier,
                                                 RowState &state, Output &o)
{
    float factor[kBlocksM][2];
    bool moves[kBlocksM][2];
    bool any = false;
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float top = tops.of[m][half];
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
            const float old = state.reference[m][half];
            moves[m][half] = top > old; // so for the first score that counts: old is -inf
            factor[m][half] = top - old;
            state.reference[m][half] = fmaxf(top, old);
            any |= moves[m][half];
        }
    }
    if (!__any_sync(~0u, any))
        return;
    bool large = false;
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i) {
        const int m = i / 2, half = i % 2;
        large |= is_large(state.reference[m][half], multiplier);
        // eight rows at a time: often only some have a new maximum
        if (kVote == 4 && !__any_sync(~0u, moves[m][half]))
            continue;
        if (kVote == 2 && !__any_sync(~0u, moves[m][0] | moves[m][1]))
            continue;
        const float by = moves[m][half] ? exp2_fast(-factor[m][half] * multiplier) : 1.0f;
        state.sum[m][half] *= by;
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n) {
            o[m][n][2 * half] *= by;
            o[m][n][2 * half + 1] *= by;
        }
    }
    state.any_large = __any_sync(~0u, large);
}

// What to add to scores in log2 units, by row: minus the reference, or nothing while no score has
// counted (2^-inf is 0, while -inf - -inf would be NaN). From scores of rows with a large reference
// it is subtracted here, where it is exact for the largest one.
struct Offsets {
    float of[kBlocksM][2];

    __device__ __forceinline__ Offsets(const RowState &state, float multiplier, Scores &s)
    {
#pragma unroll
        for (int i = 0; i < 2 * kBlocksM; ++i) {
            const float x = state.reference[i / 2][i % 2] * multiplier;
            of[i / 2][i % 2] = fabsf(x) <= kLargeReference ? -x : 0.0f;
        }
        if (!state.any_large)
            return;
#pragma unroll
        for (int i = 0; i < 2 * kBlocksM; ++i) {
            const float reference = state.reference[i / 2][i % 2];
            const float x = is_large(reference, multiplier) ? reference : 0.0f;
#pragma unroll
            for (int n = 0; n < kBlocksN; ++n) {
                s[i / 2][n][2 * (i % 2)] -= x;
                s[i / 2][n][2 * (i % 2) + 1] -= x;
            }
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

// Online softmax on a warp's tile of scores.
#pragma once

#include "sm80/multiply.cuh"

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

// How far a maximum may be above the reference (in log2 units; 2^8 is far from f16's end), and what
// part of the row's sum its weight may then be.
constexpr float kMaxSlack = 8.0f, kLeastPart = 1.0f / 32;
// Beyond this (in log2 units) the rounding of a reference shows in weights of 16 bits.
constexpr float kLargeReference = 2048.0f;

__device__ __forceinline__ bool is_large(float reference, float multiplier)
{
    const float x = fabsf(reference * multiplier);
    return x > kLargeReference && x <= kMaxFloat;
}

// Up to which score a row's reference may stay, from its sum so far.
__device__ __forceinline__ void raise_limits(float multiplier, RowState &state)
{
    const float inverse = 1.0f / multiplier;
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i) {
        float &limit = state.limit[i / 2][i % 2];
        float sum = state.sum[i / 2][i % 2]; // of the quad's four threads
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        const float slack = fminf(__log2f(sum * kLeastPart), kMaxSlack);
        limit = fmaxf(limit, fmaf(slack, inverse, state.reference[i / 2][i % 2]));
    }
}

// References of rows whose maximum is beyond their limit, with their sums and outputs. Returns
// whether any of the warp's is large; the limit of such a row is -inf, so that each of its tiles
// comes here.
__device__ __forceinline__ bool move_references(const Tops &tops, float multiplier, RowState &state,
                                                Output &o)
{
    float factor[2 * kBlocksM];
    bool scales = false, large = false;
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i) {
        float &reference = state.reference[i / 2][i % 2], &limit = state.limit[i / 2][i % 2];
        const float top = tops.of[i / 2][i % 2];
        const bool moves = top > fmaxf(limit, reference); // so for the first score that counts,
        const bool first = reference == minus_infinity(); // when sum and output are still 0
        factor[i] = moves && !first ? exp2_fast((reference - top) * multiplier) : 1.0f;
        scales |= moves && !first;
        reference = moves ? top : reference;
        limit = is_large(reference, multiplier) ? minus_infinity() : moves ? top : limit;
        large |= is_large(reference, multiplier);
    }
    large = __any_sync(~0u, large);
    if (!__any_sync(~0u, scales))
        return large;
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i) {
        state.sum[i / 2][i % 2] *= factor[i];
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n) {
            o[i / 2][n][2 * (i % 2)] *= factor[i];
            o[i / 2][n][2 * (i % 2) + 1] *= factor[i];
        }
    }
    return large;
}

// Large references are subtracted from the scores before anything is rounded.
__device__ __forceinline__ void subtract_large(float multiplier, const RowState &state, Scores &s)
{
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

// Brings the references up to date with a tile. Where one weight carries a row, its rounding to 16
// bits is an error that the f32 sum does not share, unless the weight is 1: so the reference is the
// row's maximum. Only a maximum that weighs little against the sum so far leaves it where it is,
// which saves rescaling the output; limits are found anew at a distance of 1, 2, 4, 8, ... tiles
// from the first. A row's bits do not depend on the other rows of its warp, which are only
// multiplied by 1 on its account. `multiplier` takes scores to log2 units and is positive.
__device__ __forceinline__ void update_references(Tops &tops, int distance, float multiplier,
                                                  RowState &state, Output &o, Scores &s)
{
    const bool raises = (distance & (distance - 1)) == 0;
    bool any = raises;
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i) {
        float &top = tops.of[i / 2][i % 2];
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        any |= top > state.limit[i / 2][i % 2];
    }
    if (!__any_sync(~0u, any))
        return;
    if (raises)
        raise_limits(multiplier, state);
    if (move_references(tops, multiplier, state, o))
        subtract_large(multiplier, state, s);
}

// What to add to scores in log2 units, by row: minus the reference, or nothing while no score has
// counted (2^-inf is 0, while -inf - -inf would be NaN) and where subtract_large has done it.
struct Offsets {
    float of[kBlocksM][2];

    __device__ __forceinline__ Offsets(const RowState &state, float multiplier)
    {
#pragma unroll
        for (int i = 0; i < 2 * kBlocksM; ++i) {
            const float x = state.reference[i / 2][i % 2] * multiplier;
            of[i / 2][i % 2] = fabsf(x) <= kLargeReference ? -x : 0.0f;
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

// Online softmax on a warp's tile of scores.
#pragma once

#include "sm80/multiply.cuh"
#include "sm80/stage.cuh"
// after what they ask of a family:
__device__ __forceinline__ float raw_factor(const KernelArgs &args, const Work &)
{
    return args.scale_log2;
}
#include "common/dropout.cuh"
#include "common/score.cuh"

// The reference of a row moves only when its maximum is beyond it by more than this many powers of
// two, which saves rescaling the output: weights stay at most 2^8, far from f16's end. That the
// largest weight is then not 1, and loses bits when it becomes an MMA operand, does no harm,
// because the output is divided by the sum of the operands.
constexpr float kSlack = 8.0f;

// Brings the references up to date with a tile; rescales sums and outputs of rows whose reference
// moved. `multiplier` takes scores to log2 units and is positive. A row's bits do not depend on the
// other rows of its warp, which are only multiplied by 1 on its account. False: no cell of the
// warp's rows counts in this tile, so that its weights are all 0.
template <bool kMayBeEmpty>
__device__ __forceinline__ bool update_references(Tops &tops, float multiplier, RowState &state,
                                                  Output &o)
{
    float factor[2 * kBlocksM];
    bool moves = false, scales = false, counts = false;
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i) {
        float &reference = state.reference[i / 2][i % 2], &top = tops.of[i / 2][i % 2];
        top = max_or_nan(top, __shfl_xor_sync(~0u, top, 1));
        top = max_or_nan(top, __shfl_xor_sync(~0u, top, 2)) * multiplier;
        moves |= top > reference + kSlack; // so for the first score that counts
        counts |= top != minus_infinity(); // NaN counts
    }
    if (!__any_sync(~0u, moves))
        return !kMayBeEmpty || __any_sync(~0u, counts);
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i) {
        float &reference = state.reference[i / 2][i % 2];
        const float top = tops.of[i / 2][i % 2];
        const bool row_moves = top > reference + kSlack;
        const bool first = reference == minus_infinity(); // sum and output are still 0
        factor[i] = row_moves && !first ? exp2_fast(reference - top) : 1.0f;
        scales |= row_moves && !first;
        reference = row_moves ? top : reference;
    }
    if (!__any_sync(~0u, scales))
        return true;
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i) {
        const int m = i / 2, e = 2 * (i % 2);
        state.sum[m][i % 2] *= factor[i];
        state.operands[m][e] *= factor[i];
        state.operands[m][e + 1] *= factor[i];
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n) {
            o[m][n][e] *= factor[i];
            o[m][n][e + 1] *= factor[i];
        }
    }
    return true;
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

// Dropout of 16 columns of weights, whose sums are taken before. q, kv: this thread's first cell.
__device__ __forceinline__ void drop_weights(const KernelArgs &args, const Work &w, int q, int kv,
                                             RowState &state, Weights &p)
{
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m) {
        unsigned keep[4];
        sum_operands(state, p, m);
        kept_weights(args, w, q + 16 * m, kv, keep);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            p[m][i] &= keep[i];
    }
}

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

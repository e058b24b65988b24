// From a tile of products to weights, as softmax.cuh has it, for FP8. Weights become e4m3, whose
// largest number is 448: a weight is 2^kTop where it is the row's largest when that becomes the
// reference, and saturation takes the place of overflow as the sign that a reference is too old.
#pragma once
#include "sm90/fp8.cuh"
// after what it asks of a family:
__device__ __forceinline__ float raw_factor(const KernelArgs &, const Work &w)
{
    return w.t.scale_log2;
}
#include "common/score.cuh"
#include "sm90/references.cuh"

// Of 24 weights that a thread has of a row in a tile of 96 columns, whose sum is at most 448, none
// is more. More than 4 means that this is asked of single weights more often (6: 8 % slower, 8: 25
// %), less loses small weights (e4m3 ends at 2^-9).
constexpr float kTop = 4.0f, kTopWeight = 16.0f;
constexpr float kLargest = 448.0f;

// What the sum over a tile, in a thread's columns of a row, may be of that of all tiles before. A
// weight is rounded to 2^-4 of itself. One that would carry a row, as far as a thread sees, becomes
// the reference, and so exactly 2^kTop.
constexpr float kMostShare = 4.0f;

// kExactPeaks: instead, of a mean tile before, or of all of them if that is more (tiles that grow
// step by step are no such case); then of single weights, which may be kMostOfSum of that.
constexpr float kMostTimes = 4.0f, kLeastShare = 0.15f, kMostOfSum = 0.75f;

// A fragments, e4m3: register 2 m + half has columns 16 m + 2 t, the next, and those 8 further.
using Weights = unsigned[kTileN / 8];

static_assert(!kHasDropout, "dropout is for 16 bits");
__device__ __forceinline__ void drop_weights(const KernelArgs &, const Work &, int, int, Weights &)
{
}

// The descales of blocks that a tile's 32 columns from 32 c on lie in: 1 where there are none.
__device__ __forceinline__ ChunkScales chunk_scales(const ScaleTables<false> &, int, int)
{
    return ChunkScales{1.0f, 0.0f, 1.0f};
}
__device__ __forceinline__ ChunkScales chunk_scales(const ScaleTables<true> &tables, int slot,
                                                    int c)
{
    return tables.scales[slot][c];
}

// Of a thread's part of a row's tile: two, that additions wait less; registers are short.
constexpr int kSums = Variant::kHasScore ? 1 : 2;
__device__ __forceinline__ float whole_sum(const float (&sum)[kSums])
{
    return kSums == 2 ? sum[0] + sum[kSums - 1] : sum[0];
}

// Weights 2^(x multiplier + offset), or 2^x if kMoved, of columns 16 m to 16 m + 15, packed; adds
// them to the sums, which begin with m = 0. The descale of V is in the packed ones alone.
template <bool kMoved>
__device__ __forceinline__ void weigh_blocks(const float (&first)[4], const float (&second)[4],
                                             int m, float multiplier, const float (&offset)[2],
                                             const ChunkScales &scales, Weights &p,
                                             float (&sum)[2][kSums])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float by = kBlockScales ? offset[half] + scales.v_log2 : offset[half];
        float weight[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float x = (i < 2 ? first : second)[2 * half + i % 2];
            if constexpr (!kMoved)
                x = exponent(x, multiplier, by);
            else if constexpr (kBlockScales)
                x += scales.v_log2;
            weight[i] = exp2_fast(x);
            float &to = sum[half][i % kSums];
            const bool begins = m == 0 && i < kSums;
            if constexpr (kBlockScales)
                to = fmaf(weight[i], scales.v_inverse, begins ? 0.0f : to);
            else
                to = begins ? weight[i] : to + weight[i];
        }
        p[2 * m + half] = pack_e4m3(weight[0], weight[1], weight[2], weight[3]);
    }
}

constexpr bool kMoved = Variant::kHasScore && Variant::kHasOffset && !kNarrow;

// A weight is 448, so that it may have been more, or NaN: none has a sign.
__device__ __forceinline__ bool saturated(const Weights &p)
{
    unsigned top = 0;
#pragma unroll
    for (int i = 0; i < kTileN / 8; ++i)
        top |= p[i] + 0x02020202u;
    return (top & 0x80808080u) != 0;
}

// A weight of a row is `most` or more; or 448, as above. Weights are in the order of their bytes.
__device__ __forceinline__ bool any_of(const Weights &p, int half, float most)
{
    const unsigned up = 0x80808080u - pack_e4m3(most, most, most, most);
    unsigned top = 0;
#pragma unroll
    for (int m = 0; m < kTileN / 16; ++m)
        top |= p[2 * m + half] + up;
    return (top & 0x80808080u) != 0;
}

// What a thread's sum of a row's weights in a tile may be.
__device__ __forceinline__ float most_sum(float sum)
{
    return fmaxf(kMostShare * sum, kTopWeight);
}

// Of all tiles' sums the next may have the share 1 / share_inverse: kMostTimes over their number,
// and kLeastShare at least.
__device__ __forceinline__ void count_tile(RowState &state)
{
    if constexpr (kExactPeaks)
        state.share_inverse = fminf(state.share_inverse + 1.0f / kMostTimes, 1.0f / kLeastShare);
}

// Against the references as they are. total: of the weights of this thread, for state.sum. False
// (of the whole warp): `weights_hold` is to be asked.
__device__ __forceinline__ bool weigh_quickly(const KernelArgs &args, const Work &w,
                                              const Rows &rows, const Stage &stage, int slot,
                                              int kv0, float multiplier, const Scores &s,
                                              const RowState &state, Weights &p, float (&total)[2])
{
    Cells at(args, w, rows, slot, kv0);
    float offset[2], sum[2][kSums], widest = 0.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        offset[half] = -state.reference[half];
        if constexpr (kNarrow) // has the shift in it, unlike references
            offset[half] -= Variant::shift(args, w.t);
        if constexpr (kMoved)
            at.base[0][half] = Variant::offset_by(at.base[0][half], offset[half]);
    }
#pragma unroll
    for (int m = 0; m < kBlocksN / 2; ++m) {
        float x[2][kBlocksM][4];
#pragma unroll
        for (int i = 0; i < 2; ++i)
            score_block<true, kMaskAtOnce, kRawScores, kNarrow>(args, w, rows, stage, at, 2 * m + i,
                                                                s, x[i], &widest);
        const ChunkScales scales = chunk_scales(stage, slot, m / 2);
        weigh_blocks<kMoved>(x[0][0], x[1][0], m,
                             kBlockScales && kRawScores ? multiplier * q_scale(w) * scales.k
                                                        : multiplier,
                             offset, scales, p, sum);
    }
    bool good = true;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        total[half] = whole_sum(sum[half]);
        if constexpr (kNarrow)
            if (!(widest <= Variant::narrow_limit(args, w.t)))
                total[half] = __int_as_float(0x7f800000);
        if constexpr (kExactPeaks) // no quotient: that unit is busy with exponentials
            good &= (total[half] <= kLargest) &
                    (total[half] * state.share_inverse <=
                     fmaxf(state.sum[half], kTopWeight * state.share_inverse));
        else
            good &= total[half] <= fminf(most_sum(state.sum[half]), kLargest);
    }
    return !__any_sync(~0u, !good);
}

// A sum of more than 448 may be of weights that all are less; and one that is too large for its
// row, if not infinite, of weights that all are small.
__device__ __forceinline__ bool weights_hold(const RowState &state, const Weights &p,
                                             const float (&total)[2])
{
    if constexpr (kExactPeaks) {
        const float share = kMostOfSum * facc_rcp(state.share_inverse);
        bool good = true;
#pragma unroll
        for (int half = 0; half < 2; ++half)
            good &= (total[half] < __int_as_float(0x7f800000)) &
                    !any_of(p, half, fmaxf(share * state.sum[half], kTopWeight));
        return !__any_sync(~0u, !good);
    }
    const bool good = (total[0] <= most_sum(state.sum[0])) & (total[1] <= most_sum(state.sum[1]));
    return !__any_sync(~0u, !good | saturated(p));
}

// With the true maximum as reference where it is larger; `factor` is what sums and output so far
// are to be multiplied by (the sums are).
__device__ __forceinline__ void weigh_exactly(const KernelArgs &args, const Work &w,
                                              const Rows &rows, const Stage &stage, int slot,
                                              int kv0, Scores &s, RowState &state, Weights &p,
                                              float (&factor)[2])
{
    Tops tops;
    if constexpr (kRawScores)
        scale_blocks(w, stage, slot, s);
    apply_tile<true, kMasks, false>(args, w, rows, stage, slot, kv0, s, tops);
    if (kv0 + kTileN > w.kv_len)
        cut_tail(w.kv_len - kv0, s, tops);
    const float multiplier = Variant::kHasScore ? Variant::multiplier(args, w.t) : 1.0f;
    float offset[2], sum[2][kSums];
    raise_references(tops, multiplier, kTop, state, offset, factor);
#pragma unroll
    for (int m = 0; m < kBlocksN / 2; ++m) {
        weigh_blocks<false>(s[0][2 * m], s[0][2 * m + 1], m, multiplier, offset,
                            chunk_scales(stage, slot, m / 2), p, sum);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
        state.sum[half] = fmaf(state.sum[half], factor[half], whole_sum(sum[half]));
}

// From a tile of products to weights. The exponentials are first taken against the references that
// the rows have: no maximum, no exchange between lanes, score and all in one stream. Only where
// that gives too large a sum (or a NaN, or the row has no reference yet), or scores that the
// cheaper form of a score_mod is not made for, and in tiles that are masked cell by cell, the true
// maximum becomes the reference.
#pragma once
#include "sm90/bits16.cuh"
// after what they ask of a family:
__device__ __forceinline__ float raw_factor(const KernelArgs &args, const Work &)
{
    return args.scale_log2;
}
#include "common/dropout.cuh"
#include "common/score.cuh"
#include "sm90/references.cuh"

// What a row's sum over a tile, in a thread's columns, may be with the old reference. A weight that
// becomes an MMA operand is rounded: to 2^-9 of itself, which averages out unless one key carries
// the row. One that would carry it by more than four times the rest, or has a weight of more than
// kTileN, gets a weight of exactly 1 by a new reference. (A smaller bound than kTileN would be
// exceeded in the second tile of rows that count few cells of the first, below a diagonal.) That
// of f16 keeps weights finite.
constexpr float kMostSum = kElement == kElementF16 ? 32768.0f : 1048576.0f;

__device__ __forceinline__ float most_sum(float sum)
{
    return fminf(fmaxf(4.0f * sum, kTileN), kMostSum);
}

using Weights = unsigned[kTileN / 4]; // A fragments: register 2n + half has columns of block n

// Weights 2^(x multiplier + offset), or 2^x if kMoved, of a block of eight columns, packed; adds
// them to the sums.
template <bool kMoved, int kSums>
__device__ __forceinline__ void weigh_block(const float (&x)[4], int n, float multiplier,
                                            const float (&offset)[2], Weights &p,
                                            float (&sum)[2][kSums])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float low = x[2 * half], high = x[2 * half + 1];
        if constexpr (!kMoved) {
            low = exponent(low, multiplier, offset[half]);
            high = exponent(high, multiplier, offset[half]);
        }
        low = exp2_fast(low);
        high = exp2_fast(high);
        sum[half][0] += low;
        sum[half][kSums - 1] += high;
        p[2 * n + half] = pack_pair<kElement>(low, high);
    }
}

// True: there scores come with minus the row's reference in them.
template <class V, bool kPlane> __host__ __device__ constexpr bool is_moved()
{
    if constexpr (kPlane)
        return V::Plane::kOffset;
    else
        return V::kHasScore && V::kHasOffset && !kNarrow;
}

// The rows as they are given, or late.
__device__ __forceinline__ const Rows &rows_now(const KernelArgs &args, const Work &w,
                                                const Rows &given, Rows &late)
{
    if constexpr (kRowsLate) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
            late[0][half] = Variant::row(args, w.t,
                                         w.q0 + threadIdx.x / 32 * kRowsPerWarp +
                                             threadIdx.x % 32 / 4 + 8 * half);
        return late;
    } else {
        return given;
    }
}

// Against the references as they are. total: of the weights of this thread, for state.sum. False
// (of the whole warp): the weights are no good. kPlane: in a tile whose captured elements are
// copied.
template <bool kPlane>
__device__ __forceinline__ bool
weigh_by_references(const KernelArgs &args, const Work &w, const Rows &given, const Stage &stage,
                    int slot, int kv0, float multiplier, const Scores &s, const RowState &state,
                    Weights &p, float (&total)[2])
{
    Rows late;
    const Rows &rows = rows_now(args, w, given, late);
    Cells at(args, w, rows, slot, kv0);
    PlaneCells<kPlane> plane(kPlane ? plane_beside(stage, slot) : 0);
    constexpr bool kMoved = is_moved<Variant, kPlane>();
    constexpr int kSums = kNarrow ? 1 : 2; // per row: registers are short
    float offset[2], sum[2][kSums] = {}, widest = 0.0f, most[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        offset[half] = -state.reference[half];
        most[half] = most_sum(state.sum[half]);
        settle_now(most[half]); // not behind the sums
        if constexpr (kNarrow)  // has the shift in it, unlike references
            offset[half] -= Variant::shift(args, w.t);
        if constexpr (kMoved)
            at.base[0][half] = Variant::offset_by(at.base[0][half], offset[half]);
    }
#pragma unroll
    for (int n = 0; n < kBlocksN; ++n) {
        float x[kBlocksM][4], elements[4];
        plane.load(n, elements);
        score_block<true, kMaskAtOnce, kRawScores, kNarrow, kPlane>(args, w, rows, stage, at, n, s,
                                                                    x, &widest, elements);
        weigh_block<kMoved>(x[0], n, multiplier, offset, p, sum);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
        total[half] = kSums == 2 ? sum[half][0] + sum[half][kSums - 1] : sum[half][0];
    bool good = (total[0] <= most[0]) & (total[1] <= most[1]);
    if constexpr (kNarrow)
        good &= widest <= Variant::narrow_limit(args, w.t); // no branch before the load
    return !__any_sync(~0u, !good);
}

__device__ __forceinline__ bool weigh_quickly(const KernelArgs &args, const Work &w,
                                              const Rows &rows, const Stage &stage, int slot,
                                              int kv0, float multiplier, const Scores &s,
                                              const RowState &state, Weights &p, float (&total)[2])
{
    if constexpr (kPlanes)
        if (w.is_copied())
            return weigh_by_references<true>(args, w, rows, stage, slot, kv0, multiplier, s, state,
                                             p, total);
    return weigh_by_references<false>(args, w, rows, stage, slot, kv0, multiplier, s, state, p,
                                      total);
}

__device__ __forceinline__ void count_tile(RowState &) {}

// Weights that were found to be no good may still be: not of 16 bits.
__device__ __forceinline__ bool weights_hold(const RowState &, const Weights &, const float (&)[2])
{
    return false;
}

// apply_tile with the captured elements that are copied.
__device__ __forceinline__ void apply_copied(const KernelArgs &args, const Work &w,
                                             const Rows &rows, const Stage &stage, int slot,
                                             int kv0, Scores &s, Tops &tops)
{
    const Cells at(args, w, rows, slot, kv0);
    PlaneCells<kPlanes> plane(plane_beside(stage, slot));
    tops = Tops();
#pragma unroll
    for (int n = 0; n < kBlocksN; ++n) {
        float elements[4];
        plane.load(n, elements);
        apply_block<true, kMasks, false, kPlanes>(args, w, rows, stage, at, n, s, tops, elements);
    }
}

// With the true maximum as reference where it is larger. Its weight is exactly 1: not so if the
// product with the scale were joined with the reference in one FMA. `factor` is what sums and
// output so far are to be multiplied by (the sums are).
__device__ __forceinline__ void weigh_exactly(const KernelArgs &args, const Work &w,
                                              const Rows &given, const Stage &stage, int slot,
                                              int kv0, Scores &s, RowState &state, Weights &p,
                                              float (&factor)[2])
{
    Rows late;
    const Rows &rows = rows_now(args, w, given, late);
    Tops tops;
    if (kPlanes && w.is_copied())
        apply_copied(args, w, rows, stage, slot, kv0, s, tops);
    else
        apply_tile<true, kMasks, false>(args, w, rows, stage, slot, kv0, s, tops);
    if (kv0 + kTileN > w.kv_len)
        cut_tail(w.kv_len - kv0, s, tops);
    const float multiplier = Variant::kHasScore ? Variant::multiplier(args, w.t) : 1.0f;
    float offset[2], sum[2][2] = {};
    raise_references(tops, multiplier, 0.0f, state, offset, factor);
#pragma unroll
    for (int n = 0; n < kBlocksN; ++n)
        weigh_block<false>(s[0][n], n, multiplier, offset, p, sum);
#pragma unroll
    for (int half = 0; half < 2; ++half)
        state.sum[half] = fmaf(state.sum[half], factor[half], sum[half][0] + sum[half][1]);
}

// Dropout of a tile's weights, whose sums are taken. q: this thread's first row.
__device__ __forceinline__ void drop_weights(const KernelArgs &args, const Work &w, int q, int kv0,
                                             Weights &p)
{
#pragma unroll
    for (int step = 0; step < kTileN / 16; ++step) {
        unsigned keep[4];
        kept_weights(args, w, q, kv0 + 16 * step + 2 * (threadIdx.x % 4), keep);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            p[4 * step + i] &= keep[i];
    }
}

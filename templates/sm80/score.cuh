// Applies the program's score and mask to a tile of accumulators. Afterwards a score is in log2
// units (or raw, if kRawScores), and -inf where the cell does not count.
//
// A thread's first column is kv0 + 2t; its other ones differ by constants c = 8 block + (0 or 1).
#pragma once

#include "sm80/shape.cuh"

// Column and diagonal values that are costly to make: once per tile, for two tiles, because the
// next tile's are written while this one's are read.
constexpr int kStageBuffers = kGroups + 1;

struct Stage {
    Variant::Col col[kStageBuffers][Variant::kStageCol ? kTileN : 1];
    Variant::Diag diag[kStageBuffers][Variant::kStageDiag ? kTileM + kTileN - 1 : 1];
};

template <int kFillThreads>
__device__ __forceinline__ void fill_stage(const KernelArgs &args, const Work &w, Stage &stage,
                                           int buffer, int kv0)
{
    if constexpr (Variant::kStageCol) {
        for (int i = threadIdx.x % kFillThreads; i < kTileN; i += kFillThreads)
            stage.col[buffer][i] = Variant::col(args, w.t, kv0 + i);
    }
    if constexpr (Variant::kStageDiag) {
        for (int i = threadIdx.x % kFillThreads; i < kTileM + kTileN - 1; i += kFillThreads)
            stage.diag[buffer][i] = Variant::diag(args, w.t, w.q0 - kv0 + i - (kTileN - 1));
    }
}

template <bool kMasked>
__device__ __forceinline__ void apply_score(const KernelArgs &args, const Work &w, const Rows &rows,
                                            const Stage &stage, int buffer, int kv0, Scores &s)
{
    const int lane = threadIdx.x % 32;
    const int row_in_tile = threadIdx.x / 32 * kRowsPerWarp + lane / 4;
    const int q_first = w.q0 + row_in_tile;
    const int kv_first = kv0 + 2 * (lane % 4);
    const int limit = w.kv_len - kv_first; // columns c < limit exist

    Variant::Base base[kBlocksM][2];
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            base[m][half] =
                Variant::base(args, w.t, rows[m][half], q_first + 16 * m + 8 * half, kv_first);

#pragma unroll
    for (int n = 0; n < kBlocksN; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int c = 8 * n + e;
            const Variant::Col col = Variant::kStageCol ? stage.col[buffer][kv_first - kv0 + c]
                                                        : Variant::col(args, w.t, kv_first + c);
#pragma unroll
            for (int i = 0; i < 2 * kBlocksM; ++i) {
                const int m = i / 2, half = i % 2, q = q_first + 8 * i;
                const int d = row_in_tile + 8 * i - (kv_first - kv0) - c; // q - kv - (q0 - kv0)
                const Variant::Diag diag = Variant::kStageDiag
                                               ? stage.diag[buffer][d + kTileN - 1]
                                               : Variant::diag(args, w.t, q - kv_first - c);
                const Variant::Row &row = rows[m][half];
                float &x = s[m][n][2 * half + e];
                const float raw = x;
                if constexpr (Variant::kHasScore)
                    x = Variant::score_log2(args, w.t, row, col, diag, base[m][half], raw, q,
                                            kv_first, c);
                else if constexpr (!kRawScores)
                    x = raw * args.scale_log2;
                if constexpr (kMasked) {
                    bool keep = c < limit;
                    if constexpr (Variant::kHasMask)
                        keep &= Variant::mask(args, w.t, row, col, diag, base[m][half], raw, q,
                                              kv_first, c);
                    x = keep ? x : minus_infinity();
                }
            }
        }
    }
}

// Applies the program's score and mask to a tile of accumulators. Afterwards a score times the
// loop's multiplier is in log2 units; it is -inf where the cell does not count.
//
// A thread's first column is kv0 + 2t; its other ones differ by constants c = 8 block + (0 or 1).
//
// The family has defined: kBlocksM, kBlocksN, kRowsPerWarp; Scores, Rows; Work with t, q0, classes;
// Stage, which has CellTables; kRawScores; raw_factor(args, w), from raw scores to log2 units.
#pragma once

#include "common/blocks.cuh"
#include "common/mma.cuh"
#include "common/tables.cuh"

// The largest score of each row so far in this tile, in this thread's columns; NaN if one is.
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
            top = max_or_nan(top, max_or_nan(x[2 * (i % 2)], x[2 * (i % 2) + 1]));
        }
    }
};

// The blocks of a block mask that a thread's cells lie in.
struct CellBlocks {
    int row[2 * kBlocksM];
    int shared; // class of all cells, where they lie in one block; else 0

    __device__ __forceinline__ void find(const KernelArgs &args, const Work &w, int q_first,
                                         int kv_first)
    {
#pragma unroll
        for (int i = 0; i < 2 * kBlocksM; ++i)
            row[i] = block_row(args, q_first + 8 * i);
        const int col = block_col(args, kv_first);
        const bool one =
            row[0] == row[2 * kBlocksM - 1] && col == block_col(args, kv_first + kTileN - 7);
        shared = one ? block_class(args, w.classes, row[0], col) : 0;
    }

    // Of the cell in row i and column kv; `counts` by the mask.
    __device__ __forceinline__ bool decide(const KernelArgs &args, const Work &w, int i, int kv,
                                           bool counts) const
    {
        const int c = shared ? shared : block_class(args, w.classes, row[i], block_col(args, kv));
        return c == kVerdictPartial ? counts : c == kVerdictFull;
    }
};

// Where a thread's cells lie.
struct Cells {
    int row_in_tile, q_first;
    int kv0, kv_first;
    int buffer; // of the stage
    Variant::Base base[kBlocksM][2];
    CellBlocks blocks;

    __device__ __forceinline__ Cells(const KernelArgs &args, const Work &w, const Rows &rows,
                                     int buffer, int kv0)
        : kv0(kv0), buffer(buffer)
    {
        const int lane = threadIdx.x % 32;
        row_in_tile = threadIdx.x / 32 * kRowsPerWarp + lane / 4;
        q_first = w.q0 + row_in_tile;
        kv_first = kv0 + 2 * (lane % 4);
#pragma unroll
        for (int i = 0; i < 2 * kBlocksM; ++i)
            base[i / 2][i % 2] =
                Variant::base(args, w.t, rows[i / 2][i % 2], q_first + 8 * i, kv_first);
        if constexpr (kBlockMask)
            blocks.find(args, w, q_first, kv_first);
    }
};

// Asked only where the Variant has it.
template <class V, class... X> __device__ __forceinline__ float plane_score(const X &...x)
{
    return V::plane_score(x...);
}

// Score and mask (each if asked for) of one block of eight columns, from accumulators s to x. kRaw:
// without a score_mod x is s, else in log2 units. kNarrow: x is narrow_score()'s, and `widest` its.
// kPlane: the captured elements of the cells are `plane`'s.
template <bool kScore, bool kMask, bool kRaw, bool kNarrow = false, bool kPlane = false>
__device__ __forceinline__ void score_block(const KernelArgs &args, const Work &w, const Rows &rows,
                                            const Stage &stage, const Cells &at, int n,
                                            const Scores &s, float (&x)[kBlocksM][4],
                                            float *widest = nullptr, const float *plane = nullptr)
{
    ColPair cols;
    if constexpr (Stage::kHasCol)
        cols = stage.col[at.buffer][4 * n + (at.kv_first - at.kv0) / 2];
    else
#pragma unroll
        for (int e = 0; e < 2; ++e)
            cols.of[e] = Variant::col(args, w.t, at.kv_first + 8 * n + e);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        const int c = 8 * n + e;
        const Variant::Col &col = cols.of[e];
#pragma unroll
        for (int i = 0; i < 2 * kBlocksM; ++i) {
            const int m = i / 2, half = i % 2, q = at.q_first + 8 * i;
            const int d =
                at.row_in_tile + 8 * i - (at.kv_first - at.kv0) - c; // q - kv - (q0 - kv0)
            const Variant::Diag diag = Stage::kHasDiag
                                           ? stage.diag[at.buffer][d + kTileN - 1]
                                           : Variant::diag(args, w.t, q - at.kv_first - c);
            const float raw = s[m][n][2 * half + e];
            float y = raw;
            if constexpr (kPlane)
                y = plane_score<Variant>(args, w.t, rows[m][half], col, diag, at.base[m][half], raw,
                                         q, at.kv_first, c, plane[4 * m + 2 * half + e]);
            else if constexpr (kNarrow)
                y = Variant::narrow_score(args, w.t, rows[m][half], col, diag, at.base[m][half],
                                          raw, q, at.kv_first, c, *widest);
            else if constexpr (kScore && Variant::kHasScore)
                y = Variant::score(args, w.t, rows[m][half], col, diag, at.base[m][half], raw, q,
                                   at.kv_first, c);
            else if constexpr (kScore && !kRaw)
                y = raw * raw_factor(args, w);
            bool counts = true;
            if constexpr (kMask && Variant::kHasMask)
                counts = Variant::mask(args, w.t, rows[m][half], col, diag, at.base[m][half], raw,
                                       q, at.kv_first, c);
            if constexpr (kMask && kBlockMask)
                counts = at.blocks.decide(args, w, i, at.kv_first + c, counts);
            x[m][2 * half + e] = counts ? y : minus_infinity();
        }
    }
}

// The same in place, with their maxima.
template <bool kScore, bool kMask, bool kRaw = kRawScores, bool kPlane = false>
__device__ __forceinline__ void apply_block(const KernelArgs &args, const Work &w, const Rows &rows,
                                            const Stage &stage, const Cells &at, int n, Scores &s,
                                            Tops &tops, const float *plane = nullptr)
{
    float x[kBlocksM][4];
    score_block<kScore, kMask, kRaw, false, kPlane>(args, w, rows, stage, at, n, s, x, nullptr,
                                                    plane);
#pragma unroll
    for (int i = 0; i < 4 * kBlocksM; ++i)
        s[i / 4][n][i % 4] = x[i / 4][i % 4];
    tops.take(s, n);
}

template <bool kScore, bool kMask, bool kRaw = kRawScores>
__device__ __forceinline__ void apply_tile(const KernelArgs &args, const Work &w, const Rows &rows,
                                           const Stage &stage, int buffer, int kv0, Scores &s,
                                           Tops &tops)
{
    const Cells at(args, w, rows, buffer, kv0);
    tops = Tops();
#pragma unroll
    for (int n = 0; n < kBlocksN; ++n)
        apply_block<kScore, kMask, kRaw>(args, w, rows, stage, at, n, s, tops);
}

// Columns behind the last one do not count.
__device__ __forceinline__ void cut_tail(int columns, Scores &s, Tops &tops)
{
    tops = Tops();
    const int limit = columns - 2 * (threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < kBlocksN; ++n) {
#pragma unroll
        for (int i = 0; i < 4 * kBlocksM; ++i)
            if (8 * n + i % 2 >= limit)
                s[i / 4][n][i % 4] = minus_infinity();
        tops.take(s, n);
    }
}

// Column and diagonal values that are costly to make: once per tile, in tables in shared memory.
#pragma once
#include "common/args.cuh"
#include "facc_variant.cuh"

// Two columns, which a thread reads at once.
struct alignas(sizeof(Variant::Col) == 4   ? 8
               : sizeof(Variant::Col) == 8 ? 16
                                           : alignof(Variant::Col)) ColPair {
    Variant::Col of[2];
};

constexpr int kDiagonals = kTileM + kTileN - 1;
constexpr int kColTableBytes = kTileN / 2 * static_cast<int>(sizeof(ColPair));
constexpr int kDiagTableBytes = kDiagonals * static_cast<int>(sizeof(Variant::Diag));

// kBuffers: tiles that are being written or read.
template <int kBuffers, bool kCols, bool kDiags> struct CellTables {
    static constexpr bool kHasCol = kCols, kHasDiag = kDiags;
    ColPair col[kBuffers][kCols ? kTileN / 2 : 1];
    Variant::Diag diag[kBuffers][kDiags ? kDiagonals : 1];

    // Those of the tile of q0 and kv0, by kFillThreads threads.
    template <int kFillThreads>
    __device__ __forceinline__ void fill(const KernelArgs &args, const Variant::Tile &t, int q0,
                                         int kv0, int buffer)
    {
        if constexpr (kCols)
            for (int i = threadIdx.x % kFillThreads; i < kTileN; i += kFillThreads)
                col[buffer][i / 2].of[i % 2] = Variant::col(args, t, kv0 + i);
        if constexpr (kDiags)
            for (int i = threadIdx.x % kFillThreads; i < kDiagonals; i += kFillThreads)
                diag[buffer][i] = Variant::diag(args, t, q0 - kv0 + i - (kTileN - 1));
    }
};

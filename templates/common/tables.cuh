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
                                         int kv0, int slot)
    {
        fill_cols<kFillThreads, 1>(args, t, kv0, slot);
        if constexpr (kDiags)
            make<kFillThreads, 1>(diag[slot], 0, kDiagonals,
                                  [&](int i) { return diag_of(args, t, q0, kv0, i); });
    }

    // The same by one warp, tile after tile: from the slot before it takes what the tile shares
    // with its neighbour, the last one made, if `follows`. Values are made some at a time, so that
    // their loads are in flight together.
    __device__ __forceinline__ void fill_next(const KernelArgs &args, const Variant::Tile &t,
                                              int q0, int kv0, int slot, bool follows)
    {
        constexpr int kAtOnce = 4;
        fill_cols<32, kAtOnce>(args, t, kv0, slot);
        if constexpr (kDiags) {
            constexpr int kShared =
                kTileM - 1; // diagonals, the first ones of the tile before in kv
            constexpr int kFirstNew = Variant::kReverse ? kShared : 0;
            if (follows) {
                __syncwarp(); // other lanes have written there
                const Variant::Diag *before = diag[(slot + kBuffers - 1) % kBuffers];
                for (int i = threadIdx.x % 32; i < kShared; i += 32)
                    if constexpr (Variant::kReverse)
                        diag[slot][i] = before[i + kTileN];
                    else
                        diag[slot][i + kTileN] = before[i];
            }
            make<32, kAtOnce>(diag[slot], follows ? kFirstNew : 0,
                              follows ? kFirstNew + kTileN : kDiagonals,
                              [&](int i) { return diag_of(args, t, q0, kv0, i); });
        }
    }

  private:
    static __device__ __forceinline__ Variant::Diag
    diag_of(const KernelArgs &args, const Variant::Tile &t, int q0, int kv0, int i)
    {
        return Variant::diag(args, t, q0 - kv0 + i - (kTileN - 1));
    }

    template <int kThreads, int kAtOnce>
    __device__ __forceinline__ void fill_cols(const KernelArgs &args, const Variant::Tile &t,
                                              int kv0, int slot)
    {
        if constexpr (kCols)
            make<kThreads, kAtOnce>(&col[slot][0].of[0], 0, kTileN,
                                    [&](int i) { return Variant::col(args, t, kv0 + i); });
    }

    // to[first .. end) by kThreads threads.
    template <int kThreads, int kAtOnce, class Value, class Make>
    static __device__ __forceinline__ void make(Value *to, int first, int end, const Make &value)
    {
        for (int i = first + threadIdx.x % kThreads; i < end; i += kAtOnce * kThreads) {
            Value values[kAtOnce];
#pragma unroll
            for (int j = 0; j < kAtOnce; ++j)
                values[j] = value(i + j * kThreads);
#pragma unroll
            for (int j = 0; j < kAtOnce; ++j)
                if (i + j * kThreads < end)
                    to[i + j * kThreads] = values[j];
        }
    }
};

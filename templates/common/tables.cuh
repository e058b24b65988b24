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

template <bool kWords> struct UnitOf {
    using Type = unsigned char;
};
template <> struct UnitOf<true> {
    using Type = unsigned;
};

constexpr int kDiagonals = kTileM + kTileN - 1;
constexpr int kColTableBytes = kTileN / 2 * static_cast<int>(sizeof(ColPair));
constexpr int kDiagTableBytes = kDiagonals * static_cast<int>(sizeof(Variant::Diag));

// How many of a tile's diagonals are alike, from the newest one on: those that the tile before in
// the order of visits does not have.
template <int kBuffers, bool kThere> struct AlikeDiagonals {
};
template <int kBuffers> struct AlikeDiagonals<kBuffers, true> {
    int alike[kBuffers];
};

// kBuffers: tiles that are being written or read. kFlats: where all diagonals of a tile are alike,
// that is told.
template <int kBuffers, bool kCols, bool kDiags, bool kFlats = false>
struct CellTables : AlikeDiagonals<kBuffers, kDiags && kFlats> {
    static constexpr bool kHasCol = kCols, kHasDiag = kDiags, kHasFlat = kDiags && kFlats;
    static constexpr int kNewest = Variant::kReverse ? kDiagonals - 1 : 0;
    ColPair col[kBuffers][kCols ? kTileN / 2 : 1];
    Variant::Diag diag[kBuffers][kDiags ? kDiagonals : 1];

    // Of a slot that fill_next filled: all diagonals are alike, and this is their value.
    __device__ __forceinline__ bool is_flat(int slot) const
    {
        return this->alike[slot] >= kDiagonals;
    }
    __device__ __forceinline__ Variant::Diag flat(int slot) const { return diag[slot][kNewest]; }

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
            const int first = follows ? kFirstNew : 0, end = follows ? first + kTileN : kDiagonals;
            make<32, kAtOnce>(diag[slot], first, end,
                              [&](int i) { return diag_of(args, t, q0, kv0, i); });
            if constexpr (kFlats)
                count_alike(slot, first, end, follows);
        }
    }

  private:
    // Bit by bit; structs hold words, or bools alone.
    static __device__ __forceinline__ bool same(const Variant::Diag &a, const Variant::Diag &b)
    {
        using Unit = UnitOf<sizeof(Variant::Diag) % 4 == 0>::Type;
        const Unit *x = reinterpret_cast<const Unit *>(&a), *y = reinterpret_cast<const Unit *>(&b);
        bool all = true;
#pragma unroll
        for (unsigned i = 0; i < sizeof(Variant::Diag) / sizeof(Unit); ++i)
            all &= x[i] == y[i];
        return all;
    }

    // After diagonals [first, end), the new ones, are made.
    __device__ __forceinline__ void count_alike(int slot, int first, int end, bool follows)
    {
        __syncwarp(); // other lanes have written there
        const int before = (slot + kBuffers - 1) % kBuffers;
        const Variant::Diag newest = flat(slot);
        bool all = true;
        for (int i = first + threadIdx.x % 32; i < end; i += 32)
            all &= same(diag[slot][i], newest);
        int n = __any_sync(~0u, !all) ? 0 : end - first;
        if (n > 0 && follows && same(flat(before), newest))
            n += this->alike[before];
        __syncwarp(); // all lanes have read
        this->alike[slot] = min(n, kDiagonals);
    }

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

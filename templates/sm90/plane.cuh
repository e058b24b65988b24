// A captured tensor that the score reads in each cell, where it is rows of neighbours in memory
// (Variant::Plane): the table warp has TMA copy a tile's elements to shared memory ahead of the
// consumers, who find them there as accumulators lie: in panels [kPlanePanels][kTileM] of rows as
// wide as the tile's row has such parts, with TMA's swizzle of that width.
//
// What is asked of the Variant is only instantiated where it has a Plane.
#pragma once
#include "common/extra.cuh"
#include "sm90/ptx.cuh"

constexpr int kPlaneSlots = 2;
constexpr int kPlaneRowBytes = kTileN * kPlaneBytes;
constexpr int kPlaneWidth = kPlaneRowBytes % 128 == 0 ? 128 : kPlaneRowBytes % 64 == 0 ? 64 : 32;
constexpr int kPlanePanels = kPlaneRowBytes / kPlaneWidth;
constexpr int kPlanePanelBytes = kTileM * kPlaneWidth;
constexpr int kPlaneSlotBytes = kPlanePanels * kPlanePanelBytes;

// Of an item: whether its tiles are copied, and from where.
template <bool kThere, class V> struct PlaneItem {
    __device__ __forceinline__ bool is_copied() const { return false; }
    __device__ __forceinline__ void find_plane(const KernelArgs &, const Variant::Tile &) {}
};
template <class V> struct PlaneItem<true, V> {
    ExtraPlace plane_place;
    int plane_first; // column of the tensor for the KV position 0
    bool copied;

    __device__ __forceinline__ bool is_copied() const { return copied; }

    template <class Args>
    __device__ __forceinline__ void find_plane(const Args &args, const Variant::Tile &t)
    {
        constexpr int kFar = 1 << 30; // behind any tensor, and far from overflow
        plane_place = extra_place<typename V::Plane>(args, t);
        plane_first = max(-kFar, min(V::Plane::first(args, t), kFar));
        // TMA takes no box that begins between multiples of 16 bytes (an illegal instruction).
        copied = args.tensors[V::Plane::kTensor].copied && plane_first % (16 / kPlaneBytes) == 0;
    }
};

// By one lane: the tile of q0, kv0 to a slot. What is outside the tensor is 0. `full` counts it.
template <class Args, class W>
__device__ __forceinline__ void copy_plane(const Args &args, const W &w, int kv0, unsigned slot,
                                           unsigned full)
{
    mbarrier_expect(full, kPlaneSlotBytes);
#pragma unroll
    for (int i = 0; i < kPlanePanels; ++i)
        tma_load_5d(slot + i * kPlanePanelBytes, args.plane_map, full,
                    w.plane_first + kv0 + i * (kPlaneWidth / kPlaneBytes),
                    w.plane_place.position + w.q0, w.plane_place.other[0], w.plane_place.other[1],
                    w.plane_place.other[2]);
}

// A consumer's way to the elements of its cells.
template <bool kThere> struct PlaneCells {
    static constexpr bool kHas = false;
    __device__ __forceinline__ explicit PlaneCells(unsigned) {}
    __device__ __forceinline__ void load(int, float (&)[4]) {}
};
template <> struct PlaneCells<true> {
    static constexpr bool kHas = true;
    static constexpr int kUnits = kPlaneWidth / 16; // of a panel's row
    // f32: half a warp reads 8 bytes of each of four rows at once, and the swizzle leaves two of
    // them in the same banks. So some rows read another block first: as far away as this.
    static constexpr int kTurn = kPlaneBytes == 2 ? 0 : kPlaneWidth / 64; // blocks
    unsigned row;                                                         // its place, and
    unsigned unit; // of 16 bytes in it, swizzled
    unsigned words[4];
    float ahead[2][4]; // of the blocks kTurn away

    __device__ __forceinline__ explicit PlaneCells(unsigned slot)
    {
        const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16;
        // Of 16 bits, lanes give places of rows: see store_staged.
        const int r = warp_row + (kPlaneBytes == 2 ? lane % 16 : lane / 4);
        row = slot + r * kPlaneWidth + (kPlaneBytes == 2 ? 0 : lane % 2 * 8);
        unit = 16 * ((kPlaneBytes == 2 ? lane / 16 : lane % 4 / 2) ^ r * kUnits / 8 % kUnits ^
                     (turned() ? 2 * kTurn : 0));
    }

    // Of the block of eight columns n, as accumulators lie. Blocks are asked for in order.
    __device__ __forceinline__ void load(int n, float (&x)[4])
    {
        if constexpr (kPlaneBytes == 2) {
            if (n % 2 == 0)
                ldmatrix_x4(words, address(n));
#pragma unroll
            for (int half = 0; half < 2; ++half)
                unpack_pair<Variant>(words[n % 2 * 2 + half], x[2 * half], x[2 * half + 1]);
        } else if constexpr (kTurn == 0) {
            load_block(n, x);
        } else if (n % (2 * kTurn) < kTurn) {
            float first[4], second[4];
            load_block(n, first);
            load_block(n + kTurn, second);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                x[i] = turned() ? second[i] : first[i];
                ahead[n % kTurn][i] = turned() ? first[i] : second[i];
            }
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                x[i] = ahead[n % kTurn][i];
        }
    }

  private:
    // Width 128: in odd rows; 64: in the third and fourth of each four.
    static __device__ __forceinline__ bool turned()
    {
        return kTurn > 0 && threadIdx.x & (kTurn == 2 ? 4 : 8);
    }

    __device__ __forceinline__ unsigned address(int n) const
    {
        const int units = n * kPlaneBytes / 2; // before it
        return row + (unit ^ 16 * (units % kUnits)) + units / kUnits * kPlanePanelBytes;
    }

    __device__ __forceinline__ void load_block(int n, float (&x)[4]) const
    {
        load_shared_pair(address(n), x[0], x[1]);
        load_shared_pair(address(n) + 8 * kPlaneWidth, x[2], x[3]);
    }

    template <class V>
    static __device__ __forceinline__ void unpack_pair(unsigned word, float &low, float &high)
    {
        if constexpr (V::Plane::kType == kElementF16) {
            low = facc_half_bits(word & 0xffffu);
            high = facc_half_bits(word >> 16);
        } else {
            low = __uint_as_float(word << 16);
            high = __uint_as_float(word & 0xffff0000u);
        }
    }
};

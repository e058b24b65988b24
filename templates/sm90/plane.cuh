// A captured tensor that the score reads in each cell, where it is rows of neighbours in memory
// (Variant::Plane): the table warp copies a tile's elements to shared memory ahead of the
// consumers, who find them there as accumulators lie. A row of a slot has its elements in units of
// 16 bytes, placed so that the eight (f32: four) rows which are read at once lie in different
// banks.
//
// What is asked of the Variant is only instantiated where it has a Plane.
#pragma once
#include "common/args.cuh"
#include "facc_variant.cuh"
#include "sm90/ptx.cuh"

constexpr int kPlaneSlots = 2;
constexpr int kPlaneUnits = kTileN * kPlaneBytes / 16; // of a row
constexpr bool kPlaneSwizzled = kPlaneUnits % 8 == 0;
constexpr int kPlanePitch = 16 * (kPlaneUnits + (kPlaneSwizzled ? 0 : kPlaneBytes / 2));
constexpr int kPlaneSlotBytes = kTileM * kPlanePitch;

__device__ __forceinline__ unsigned plane_unit(int row, int unit)
{
    return kPlaneSwizzled ? unit ^ (kPlaneBytes == 2 ? row % 8 : row % 4 * 2) : unit;
}

// Of an item: whether its tiles are copied.
template <bool kThere, class V> struct PlaneItem {
    __device__ __forceinline__ bool is_copied() const { return false; }
    __device__ __forceinline__ void find_plane(const KernelArgs &, const Variant::Tile &) {}
};
template <class V> struct PlaneItem<true, V> {
    bool copied;

    __device__ __forceinline__ bool is_copied() const { return copied; }

    // Rows of neighbours, all at multiples of 16 bytes.
    template <class Args>
    __device__ __forceinline__ void find_plane(const Args &args, const Variant::Tile &t)
    {
        using Plane = typename V::Plane;
        constexpr int kUnit = 16 / kPlaneBytes, kFar = 1 << 30; // columns do not overflow
        const auto &x = args.tensors[Plane::kTensor];
        const int shift = Plane::first(args, t);
        bool fits = x.data != nullptr && x.stride[Plane::kDim] == 1 &&
                    reinterpret_cast<unsigned long long>(x.data) % 16 == 0 && shift > -kFar &&
                    shift < kFar && shift % kUnit == 0;
#pragma unroll
        for (int d = 0; d < Plane::kRank; ++d)
            fits &= d == Plane::kDim || x.shape[d] == 1 || x.stride[d] % kUnit == 0;
        copied = fits;
    }
};

// By one warp: the tile of q0 to a slot, from column `column` of the tensor on; zeros from behind
// its last (kInside: there are none). Eight lanes copy 128 bytes of a row at once.
template <class V, bool kInside, class Args>
__device__ __forceinline__ void copy_rows(const Args &args, const Variant::Tile &t, int q0,
                                          int column, unsigned slot)
{
    using Plane = typename V::Plane;
    constexpr int kUnit = 16 / kPlaneBytes, kLanes = 8, kRows = 32 / kLanes;
    const auto &x = args.tensors[Plane::kTensor];
    const int lane = threadIdx.x % 32, unit = lane % kLanes;
    const char *first = static_cast<const char *>(x.data) +
                        (column + unit * kUnit) * static_cast<long long>(kPlaneBytes);
#pragma unroll 4
    for (int r = lane / kLanes; r < kTileM; r += kRows) {
        const char *from = first + Plane::row(V::row(args, t, q0 + r)) * kPlaneBytes;
#pragma unroll
        for (int u = 0; u < kPlaneUnits; u += kLanes) {
            const unsigned to = slot + r * kPlanePitch + 16 * plane_unit(r, u + unit);
            const int at = column + (u + unit) * kUnit;
            const int n = at < 0 ? 0 : max(0, min(x.shape[Plane::kDim] - at, kUnit));
            if (u + kLanes > kPlaneUnits && unit >= kPlaneUnits - u)
                continue;
            if constexpr (kInside)
                cp_async_16(to, from + 16 * u);
            else
                cp_async_16_part(to, n > 0 ? from + 16 * u : x.data, n * kPlaneBytes);
        }
    }
}

template <class V, class Args>
__device__ __forceinline__ void copy_plane(const Args &args, const Variant::Tile &tile, int q0,
                                           int kv0, unsigned slot)
{
    const Variant::Tile t = tile; // not read again after each copy
    const int column = kv0 + V::Plane::first(args, t);
    if (column >= 0 && column <= args.tensors[V::Plane::kTensor].shape[V::Plane::kDim] - kTileN)
        copy_rows<V, true>(args, t, q0, column, slot);
    else
        copy_rows<V, false>(args, t, q0, column, slot);
}

// A consumer's way to the elements of its cells.
template <bool kThere> struct PlaneCells {
    static constexpr bool kHas = false;
    __device__ __forceinline__ explicit PlaneCells(unsigned) {}
    __device__ __forceinline__ void load(int, float (&)[4]) {}
};
template <> struct PlaneCells<true> {
    static constexpr bool kHas = true;
    unsigned row;     // its place, and
    unsigned swizzle; // what is added to even units' bits
    unsigned words[4];

    __device__ __forceinline__ explicit PlaneCells(unsigned slot)
    {
        const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16;
        if constexpr (kPlaneBytes == 2) { // lanes give places of rows: see store_staged
            const int r = warp_row + lane % 16;
            row = slot + r * kPlanePitch;
            swizzle = 16 * plane_unit(r, lane / 16);
        } else {
            const int r = warp_row + lane / 4;
            row = slot + r * kPlanePitch + lane % 2 * 8;
            swizzle = 16 * plane_unit(r, lane % 4 / 2);
        }
    }

    // Of the block of eight columns n, as accumulators lie. Blocks are asked for in order.
    __device__ __forceinline__ void load(int n, float (&x)[4])
    {
        if constexpr (kPlaneBytes == 2) {
            if (n % 2 == 0)
                ldmatrix_x4(words, row + (swizzle ^ n % 8 * 16) + n / 8 * 128);
#pragma unroll
            for (int half = 0; half < 2; ++half)
                unpack_pair<Variant>(words[n % 2 * 2 + half], x[2 * half], x[2 * half + 1]);
        } else {
            const unsigned at = row + (swizzle ^ n % 4 * 32) + n / 4 * 128;
            load_shared_pair(at, x[0], x[1]);
            load_shared_pair(at + 8 * kPlanePitch, x[2], x[3]);
        }
    }

  private:
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

// The extra columns of Q K^T (common/extra.cuh) in shared memory: panels behind those of the head
// dim, in the same slots of Q and K, by the same barriers. A row of a panel has 32, 64 or 128 bytes
// and the swizzle of that width, so that 16 columns take no more room than they need.
//
// What follows asks no more than the constants, ExtraItem and load_extra of this file: columns of
// another kind (written by warps, say) need other ones.
#pragma once
#include "common/extra.cuh"
#include "sm90/ptx.cuh"

constexpr int kExtraRowBytes = kExtraDim <= 16 ? 32 : kExtraDim <= 32 ? 64 : 128;
constexpr int kExtraPanels = (kExtraDim + 63) / 64;
// Of so many rows: loaded; and with what keeps the next slot on the swizzle's period.
__host__ __device__ constexpr int extra_bytes(int rows)
{
    return kExtraPanels * rows * kExtraRowBytes;
}
__host__ __device__ constexpr int extra_room(int rows)
{
    return (extra_bytes(rows) + 1023) / 1024 * 1024;
}

// What an item's description keeps of them.
template <bool kThere, class V> struct ExtraItem {
    static constexpr bool kForeign = false; // tensors go on behind the sequence's last rows
    __device__ __forceinline__ void find_extra(const KernelArgs &, const Variant::Tile &) {}
    __device__ __forceinline__ float factor() const { return 1.0f; }
    __device__ __forceinline__ ExtraPlace extra_q() const { return ExtraPlace{}; }
    __device__ __forceinline__ ExtraPlace extra_k() const { return ExtraPlace{}; }
};
template <class V> struct ExtraItem<true, V> {
    static constexpr bool kForeign = V::DotRows::kShifted;
    ExtraPlace extra_q_, extra_k_;
    float factor_;
    template <class Args>
    __device__ __forceinline__ void find_extra(const Args &args, const Variant::Tile &t)
    {
        extra_q_ = extra_place<typename V::DotRows>(args, t);
        extra_k_ = extra_place<typename V::DotCols>(args, t);
        factor_ = extra_factor<V>(args, t);
    }
    __device__ __forceinline__ float factor() const { return factor_; }
    __device__ __forceinline__ ExtraPlace extra_q() const { return extra_q_; }
    __device__ __forceinline__ ExtraPlace extra_k() const { return extra_k_; }
};

// By one lane: the panels of `rows` rows from that position on; `barrier` counts their
// extra_bytes(rows). map: the tensor's, of DotMaps.
template <int kRows, class Args>
__device__ __forceinline__ void load_extra(const Args &args, int map, unsigned dst,
                                           unsigned barrier, const ExtraPlace &p, int position)
{
    if constexpr (kExtraDim > 0)
#pragma unroll
        for (int i = 0; i < kExtraPanels; ++i)
            tma_load_5d(dst + i * kRows * kExtraRowBytes, args.dot_map[map], barrier, 64 * i,
                        p.position + position, p.other[0], p.other[1], p.other[2]);
}

template <class Args> __device__ __forceinline__ void prefetch_extra(const Args &args, int map)
{
    if constexpr (kExtraDim > 0)
        tma_prefetch_map(args.dot_map[map]);
}

// The Variant of score + slopes[h] * (kv - q) under q >= kv as one writes it by hand: two FMAs a
// cell, the slope's head term and the row's reference in one of them; bounds in 32-bit arithmetic.
// For bench_hopper.py, which includes this in place of facc_variant.cuh.
#pragma once
#define Variant GeneratedVariant
#include "facc_variant.cuh"
#undef Variant

struct Variant : GeneratedVariant {
    static constexpr bool kReverse = true; // the nearest keys have the largest scores
    static constexpr bool kHasOffset = true, kHasNarrow = false;
    static constexpr bool kStageCol = false, kStageDiag = false;

    struct Tile : GeneratedVariant::Tile {
        float slope; // in log2 units
    };
    struct Base {
        int diagonal;
        float at_first;
    };

    static __device__ __forceinline__ Tile tile(const KernelArgs &args, int, int h)
    {
        Tile t{};
        const facc_captured &slopes = args.tensors[0];
        t.slope = static_cast<const float *>(slopes.data)[h * slopes.stride[0]] * kLog2e;
        return t;
    }

    static __device__ __forceinline__ Base base(const KernelArgs &, const Tile &t, const Row &,
                                                int q, int kv0)
    {
        return Base{q - kv0, t.slope * static_cast<float>(kv0 - q)};
    }

    static __device__ __forceinline__ float score(const KernelArgs &args, const Tile &t,
                                                  const Row &, const Col &, const Diag &,
                                                  const Base &base, float s, int, int, int c)
    {
        return fmaf(s, args.scale_log2, fmaf(t.slope, static_cast<float>(c), base.at_first));
    }

    static __device__ __forceinline__ Base offset_by(const Base &base, float by)
    {
        return Base{base.diagonal, base.at_first + by};
    }

    static __device__ __forceinline__ float narrow_score(const KernelArgs &, const Tile &,
                                                         const Row &, const Col &, const Diag &,
                                                         const Base &, float s, int, int, int,
                                                         float &)
    {
        return s;
    }

    static __device__ __forceinline__ bool mask(const KernelArgs &, const Tile &, const Row &,
                                                const Col &, const Diag &, const Base &base, float,
                                                int, int, int c)
    {
        return base.diagonal >= c;
    }

    static __device__ __forceinline__ KvRange kv_range(const KernelArgs &, const Tile &, int,
                                                       int q_last)
    {
        return KvRange{0, q_last + 1};
    }

    static __device__ __forceinline__ int verdict(const KernelArgs &, const Tile &, int q_first,
                                                  int q_last, int kv_first, int kv_last)
    {
        return kv_first > q_last    ? kVerdictEmpty
               : kv_last <= q_first ? kVerdictFull
                                    : kVerdictPartial;
    }
};

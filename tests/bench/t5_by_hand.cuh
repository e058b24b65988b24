// The Variant of T5's bias (32 buckets of both directions, far distance 128) under q >= kv as one
// writes it by hand. From a distance of 91 on there is one bucket: tiles that are all there, nearly
// all of a long sequence, add one number of the head, in the FMA that takes the scale and the row's
// reference. Tiles near the diagonal read a table of diagonals; the quick path is given NaN there,
// which it refuses. For bench_hopper.py, which includes this in place of facc_variant.cuh.
#pragma once
#define Variant GeneratedVariant
#include "facc_variant.cuh"
#undef Variant

struct Variant : GeneratedVariant {
    static constexpr bool kReverse = true;
    static constexpr bool kHasOffset = true, kHasNarrow = false;
    static constexpr bool kStageCol = false, kStageDiag = true;
    static constexpr int kNear = 8, kFar = 91, kLastBucket = 15; // keys before the query

    struct Tile : GeneratedVariant::Tile {
        const float *bias; // of the head
        int step;          // elements from bucket to bucket
        float far;         // in log2 units
    };
    struct Diag {
        float bias; // in log2 units
    };
    struct Base {
        int diagonal;
        float far;
        bool exact; // known when compiling: offset_by is the quick path's alone
    };

    static __device__ __forceinline__ Tile tile(const KernelArgs &args, int, int h)
    {
        Tile t{};
        const facc_captured &bias = args.tensors[0];
        t.bias = static_cast<const float *>(bias.data) + h * bias.stride[1];
        t.step = static_cast<int>(bias.stride[0]);
        t.far = t.bias[kLastBucket * t.step] * kLog2e;
        return t;
    }

    // Only asked for in tables; keys behind the query never count.
    static __device__ __forceinline__ Diag diag(const KernelArgs &, const Tile &t, int distance)
    {
        if (distance >= kFar)
            return Diag{t.far};
        const int far = (distance >= 12) + (distance >= 16) + (distance >= 23) + (distance >= 32) +
                        (distance >= 46) + (distance >= 64);
        return Diag{__ldg(t.bias + (min(max(distance, 0), kNear) + far) * t.step) * kLog2e};
    }

    static __device__ __forceinline__ Base base(const KernelArgs &, const Tile &t, const Row &,
                                                int q, int kv0)
    {
        return Base{q - kv0, t.far, true};
    }

    // What the quick path adds: NaN unless all cells are far.
    static __device__ __forceinline__ Base offset_by(const Base &base, float by)
    {
        const bool far = base.diagonal >= kFar + last_column();
        return Base{base.diagonal, far ? base.far + by : __int_as_float(0x7fffffff), false};
    }

    static __device__ __forceinline__ float score(const KernelArgs &args, const Tile &, const Row &,
                                                  const Col &, const Diag &d, const Base &base,
                                                  float s, int, int, int)
    {
        return fmaf(s, args.scale_log2, base.exact ? d.bias : base.far);
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

  private:
    // Of a thread, from its first one on.
    static __device__ __forceinline__ constexpr int last_column() { return kTileN - 7; }
};

// The Variant of ids[b][q] == ids[b][kv] and q >= kv as one writes it by hand who knows that
// documents lie one behind the other and that an id is its document's first position: row q counts
// from ids[b][q] to q. These bounds become a row's bits, one for each of a thread's columns, so
// that a cell costs one test, and columns load nothing. The lists of tiles are made as ever. For
// bench_hopper.py, which includes this in place of facc_variant.cuh.
#pragma once
#define Variant GeneratedVariant
#include "facc_variant.cuh"
#undef Variant

struct Variant : GeneratedVariant {
    static constexpr bool kStageCol = false, kStageDiag = false;

    struct Tile : GeneratedVariant::Tile { // the lists are made with that
        const int *ids;                    // of the sequence
    };
    struct Row {
        int first; // of the document
    };
    struct Col {
    };
    struct Base {
        unsigned counts[2]; // of the cells 0 … 31, 32 … 63
    };

    static __device__ __forceinline__ Tile tile(const KernelArgs &args, int b, int h)
    {
        const facc_captured &ids = args.tensors[0];
        return Tile{GeneratedVariant::tile(args, b, h),
                    static_cast<const int *>(ids.data) + b * ids.stride[0]};
    }

    static __device__ __forceinline__ Row row(const KernelArgs &args, const Tile &t, int q)
    {
        const facc_captured &ids = args.tensors[0];
        return Row{__ldg(t.ids + min(q, ids.shape[1] - 1) * ids.stride[1])};
    }

    static __device__ __forceinline__ Col col(const KernelArgs &, const Tile &, int)
    {
        return Col{};
    }

    static __device__ __forceinline__ Base base(const KernelArgs &, const Tile &, const Row &r,
                                                int q, int kv0)
    {
        const int first = cells_below(r.first - kv0), end = cells_below(q + 1 - kv0);
        return Base{{bits(end) & ~bits(first), bits(end - 32) & ~bits(first - 32)}};
    }

    static __device__ __forceinline__ Base offset_by(const Base &base, float) { return base; }

    static __device__ __forceinline__ float score(const KernelArgs &args, const Tile &, const Row &,
                                                  const Col &, const Diag &, const Base &, float s,
                                                  int, int, int)
    {
        return s * args.scale_log2;
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
        const int cell = c / 8 * 2 + c % 8;
        return base.counts[cell / 32] >> cell % 32 & 1;
    }

    // The lists of tiles ask for these.
    static __device__ __forceinline__ KvRange kv_range(const KernelArgs &, const Tile &, int,
                                                       int q_last)
    {
        return KvRange{0, q_last + 1};
    }

  private:
    // Of a thread's columns 0, 1, 8, 9, 16 …: those less than c.
    static __device__ __forceinline__ int cells_below(int c)
    {
        const int x = max(c, 0);
        return x / 8 * 2 + min(x % 8, 2);
    }

    // The lowest n.
    static __device__ __forceinline__ unsigned bits(int n)
    {
        return n >= 32 ? ~0u : n <= 0 ? 0u : ~0u >> (32 - n);
    }
};

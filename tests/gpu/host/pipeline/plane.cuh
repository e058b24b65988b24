// score + bias[h][q + 3][kv + shift], whose tiles are copied, of f32 or bf16 elements
// (HOST_PLANE_TYPE); HOST_CAUSAL: under q >= kv.
#pragma once
#define Variant BiasVariant
#include "tests/gpu/variants/bias.cuh"
#undef Variant

constexpr int kPlaneShift = 8;

struct Variant : BiasVariant {
    static constexpr bool kHasMask = HOST_CAUSAL, kReverse = HOST_CAUSAL;

    struct Base : BiasVariant::Base {
        facc_by by;
    };
    struct Plane {
        static constexpr int kTensor = 0, kRank = 3, kDim = 2, kType = HOST_PLANE_TYPE;
        static constexpr bool kOffset = true;
        static long long row(const Row &r) { return r.r1; }
        static int first(const KernelArgs &, const Tile &) { return kPlaneShift; }
    };

    static Row row(const KernelArgs &args, const Tile &t, int q)
    {
        Row r;
        r.r1 = t.t1 + facc_at<1>(args.tensors[0], q + 3);
        return r;
    }
    static Base base(const KernelArgs &, const Tile &, const Row &, int, int) { return Base(); }
    static Base offset_by(const Base &base, float by)
    {
        Base moved = base;
        moved.by = facc_by{facc_moved(0.0f, by), true};
        return moved;
    }
    static float score(const KernelArgs &args, const Tile &, const Row &r, const Col &,
                       const Diag &, const Base &, float s, int, int kv0, int c)
    {
        const facc_captured &bias = args.tensors[0];
        const long long at = r.r1 + facc_at<2>(bias, kv0 + c + kPlaneShift);
        return fmaf(s, args.scale_log2,
                    facc_times_log2e(kPlaneBytes == 2 ? facc_load_bf16(bias, at)
                                                      : facc_load_f32(bias, at)));
    }
    static float plane_score(const KernelArgs &args, const Tile &, const Row &, const Col &,
                             const Diag &, const Base &base, float s, int, int, int, float x)
    {
        return fmaf(s, args.scale_log2, facc_times_log2e(x, base.by.moved) + base.by.by);
    }
    static bool mask(const KernelArgs &, const Tile &, const Row &, const Col &, const Diag &,
                     const Base &, float, int q, int kv0, int c)
    {
        return q >= kv0 + c;
    }
    static KvRange kv_range(const KernelArgs &, const Tile &, int, int q_last)
    {
        return KvRange{0, HOST_CAUSAL ? q_last + 1 : kMaxInt};
    }
    static int verdict(const KernelArgs &, const Tile &, int q_first, int q_last, int kv_first,
                       int kv_last)
    {
        return !HOST_CAUSAL         ? kVerdictFull
               : kv_first > q_last  ? kVerdictEmpty
               : kv_last <= q_first ? kVerdictFull
                                    : kVerdictPartial;
    }
};

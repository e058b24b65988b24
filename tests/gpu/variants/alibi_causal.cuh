// Sample of what facc generates, for score + slopes[h] * (kv - q), q >= kv.
// Tensors: 0 slopes f32 {H}.
#pragma once
#include "common/args.cuh"
#include "common/variant_math.cuh"

struct Variant {
    static constexpr bool kHasScore = true;
    static constexpr bool kHasMask = true;
    static constexpr bool kMaskNeedsScore = false;
    static constexpr bool kReverse = true;
    static constexpr bool kStageCol = false;
    static constexpr bool kStageDiag = false;

    struct Tile {
        float t1; // slopes[h] * log2(e);
    };
    struct Row {};
    struct Col {};
    struct Diag {};
    struct Base {
        float f1;
        int i2;
    };
    struct KvRange {
        int first, end;
    };

    static FACC_FN Tile tile(const KernelArgs &args, int b, int h)
    {
        Tile t;
        t.t1 = facc_load_f32(args.tensors[0], facc_at<0>(args.tensors[0], h)) * 1.44269502f;
        return t;
    }
    static FACC_FN Row row(const KernelArgs &args, const Tile &t, int q)
    {
        Row r;
        return r;
    }
    static FACC_FN Col col(const KernelArgs &args, const Tile &t, int kv)
    {
        Col k;
        return k;
    }
    static FACC_FN Diag diag(const KernelArgs &args, const Tile &t, int q_minus_kv)
    {
        Diag d;
        return d;
    }
    static FACC_FN Base base(const KernelArgs &args, const Tile &t, const Row &r, int q, int kv0)
    {
        Base base;
        base.f1 = (float)(kv0 - q);
        base.i2 = q - kv0;
        return base;
    }

    static FACC_FN float score_log2(const KernelArgs &args, const Tile &t, const Row &r, const Col &k, const Diag &d,
                                    const Base &base, float s, int q, int kv0, int c)
    {
        return fmaf(s, args.scale_log2, t.t1 * (base.f1 + (float)c));
    }
    static FACC_FN bool mask(const KernelArgs &args, const Tile &t, const Row &r, const Col &k, const Diag &d,
                             const Base &base, float s, int q, int kv0, int c)
    {
        return base.i2 >= c;
    }

    static FACC_FN KvRange kv_range(const KernelArgs &args, const Tile &t, int q_first, int q_last)
    {
        const long long end = (long long)q_last + 1;
        return KvRange{0, facc_saturate(end)};
    }
    static FACC_FN int verdict(const KernelArgs &args, const Tile &t, int q_first, int q_last, int kv_first, int kv_last)
    {
        bool may = true, must = true;
        may &= (long long)q_last >= kv_first;
        must &= (long long)q_first >= kv_last;
        return !may ? kVerdictEmpty : must ? kVerdictFull : kVerdictPartial;
    }
};

// Sample of what facc generates, for 50 * tanh(score / 50).
#pragma once
#include "common/args.cuh"
#include "common/variant_math.cuh"

struct Variant {
    static constexpr bool kHasScore = true;
    static constexpr bool kHasMask = false;
    static constexpr bool kMaskNeedsScore = false;
    static constexpr bool kReverse = false;
    static constexpr bool kStageCol = false;
    static constexpr bool kStageDiag = false;

    struct Tile {
        float alpha; // scale / 50;
    };
    struct Row {};
    struct Col {};
    struct Diag {};
    struct Base {};
    struct KvRange {
        int first, end;
    };

    static FACC_FN Tile tile(const KernelArgs &args, int b, int h)
    {
        Tile t;
        t.alpha = args.scale * 0.0199999996f;
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
        return base;
    }

    static FACC_FN float score_log2(const KernelArgs &args, const Tile &t, const Row &r, const Col &k, const Diag &d,
                                    const Base &base, float s, int q, int kv0, int c)
    {
        return 72.1347504f * facc_tanh(s * t.alpha);
    }
    static FACC_FN bool mask(const KernelArgs &args, const Tile &t, const Row &r, const Col &k, const Diag &d,
                             const Base &base, float s, int q, int kv0, int c)
    {
        return true;
    }

    static FACC_FN KvRange kv_range(const KernelArgs &args, const Tile &t, int q_first, int q_last)
    {
        return KvRange{0, kMaxInt};
    }
    static FACC_FN int verdict(const KernelArgs &args, const Tile &t, int q_first, int q_last, int kv_first, int kv_last)
    {
        return kVerdictFull;
    }
};

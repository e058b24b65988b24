// What facc generates for keep[q][kv].
// Tensors: 0 keep u8 {q, kv}.
#pragma once
#include "common/args.cuh"
#include "common/variant_math.cuh"

struct Variant {
    static constexpr bool kHasScore = false;
    static constexpr bool kHasMask = true;
    static constexpr bool kMaskNeedsScore = false;
    static constexpr bool kAlwaysPartial = false;
    static constexpr bool kReverse = false;
    static constexpr bool kHasOffset = false;
    static constexpr bool kHasNarrow = false;
    static constexpr bool kStageCol = false;
    static constexpr bool kStageDiag = false;

    struct Tile {};
    struct Row {
        long long r1;
    };
    struct Col {
    };
    struct Diag {};
    struct Base {};
    struct KvRange {
        int first, end;
    };

    static FACC_FN Tile tile(const KernelArgs &args, int b, int h)
    {
        Tile t;
        return t;
    }

    static FACC_FN Row row(const KernelArgs &args, const Tile &t, int q)
    {
        Row r;
        r.r1 = facc_at<0>(args.tensors[0], q);
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

    static FACC_FN float multiplier(const KernelArgs &args, const Tile &t)
    {
        return 1.0f;
    }

    static FACC_FN float shift(const KernelArgs &args, const Tile &t)
    {
        return 0.0f;
    }

    static FACC_FN float score(const KernelArgs &args, const Tile &t, const Row &r, const Col &k,
            const Diag &d, const Base &base, float s, int q, int kv0, int c)
    {
        return s * args.scale_log2;
    }

    static FACC_FN Base offset_by(const Base &base, float by)
    {
        Base moved = base;
        return moved;
    }

    static FACC_FN float narrow_score(const KernelArgs &args, const Tile &t, const Row &r, const Col &k,
            const Diag &d, const Base &base, float s, int q, int kv0, int c, float &widest)
    {
        return s;
    }

    static FACC_FN float narrow_limit(const KernelArgs &args, const Tile &t)
    {
        return -1.0f;
    }

    static FACC_FN bool mask(const KernelArgs &args, const Tile &t, const Row &r, const Col &k,
            const Diag &d, const Base &base, float s, int q, int kv0, int c)
    {
        return facc_load_u8(args.tensors[0], r.r1 + facc_at<1>(args.tensors[0], kv0 + c)) != 0;
    }

    static FACC_FN KvRange kv_range(const KernelArgs &args, const Tile &t, int q_first, int q_last)
    {
        long long first = 0, end = kMaxInt;
        return KvRange{facc_saturate(first), facc_saturate(facc_max(end, 0ll))};
    }

    static FACC_FN int verdict(const KernelArgs &args, const Tile &t, int q_first, int q_last,
            int kv_first, int kv_last)
    {
        bool may = true, must = false;
        return !may ? kVerdictEmpty : must ? kVerdictFull : kVerdictPartial;
    }

    static constexpr bool kPlanned = true, kScanned = true, kHalved = false;
    static constexpr bool kHasQSummary = false, kHasKvSummary = false;
    struct QSummary {};
    struct KvSummary {};
    static FACC_FN QSummary q_nothing() { return QSummary{}; }
    static FACC_FN void q_add(const KernelArgs &, const Tile &, int, QSummary &) {}
    static FACC_FN void q_merge(QSummary &, const QSummary &) {}
    static FACC_FN KvSummary kv_nothing() { return KvSummary{}; }
    static FACC_FN void kv_add(const KernelArgs &, const Tile &, int, KvSummary &) {}
    static FACC_FN void kv_merge(KvSummary &, const KvSummary &) {}
    static FACC_FN int tile_verdict(const KernelArgs &, const Tile &, int, int, const QSummary &,
            int, int, const KvSummary &)
    {
        return kVerdictPartial;
    }
};

// doc[q] == doc[kv] with PARTIAL tiles cut into granules.
// Tensors: 0 doc i32 {kv}.
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
    static constexpr bool kStageCol = true;
    static constexpr bool kStageDiag = false;

    struct Tile {};
    struct Row {
        int r1;
    };
    struct Col {
        int k1;
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
        r.r1 = facc_load_i32(args.tensors[0], facc_at<0>(args.tensors[0], q));
        return r;
    }

    static FACC_FN Col col(const KernelArgs &args, const Tile &t, int kv)
    {
        Col k;
        k.k1 = facc_load_i32(args.tensors[0], facc_at<0>(args.tensors[0], kv));
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
        return r.r1 == k.k1;
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

    static constexpr bool kPlanned = true, kScanned = false, kHalved = true;
    static constexpr bool kHasQSummary = true, kHasKvSummary = true;
    struct QSummary {
        int q1, q2;
    };
    struct KvSummary {
        int k1, k2;
    };
    static FACC_FN QSummary q_nothing() { return QSummary{2147483647, -2147483647 - 1}; }
    static FACC_FN void q_add(const KernelArgs &args, const Tile &t, int q, QSummary &s)
    {
        const int x = facc_load_i32(args.tensors[0], facc_at<0>(args.tensors[0], q));
        s.q1 = min(s.q1, x);
        s.q2 = max(s.q2, x);
    }
    static FACC_FN void q_merge(QSummary &s, const QSummary &other)
    {
        s.q1 = min(s.q1, other.q1);
        s.q2 = max(s.q2, other.q2);
    }
    static FACC_FN KvSummary kv_nothing() { return KvSummary{2147483647, -2147483647 - 1}; }
    static FACC_FN void kv_add(const KernelArgs &args, const Tile &t, int kv, KvSummary &s)
    {
        const int x = facc_load_i32(args.tensors[0], facc_at<0>(args.tensors[0], kv));
        s.k1 = min(s.k1, x);
        s.k2 = max(s.k2, x);
    }
    static FACC_FN void kv_merge(KvSummary &s, const KvSummary &other)
    {
        s.k1 = min(s.k1, other.k1);
        s.k2 = max(s.k2, other.k2);
    }
    static FACC_FN int tile_verdict(const KernelArgs &args, const Tile &t, int q_first, int q_last,
            const QSummary &qs, int kv_first, int kv_last, const KvSummary &ks)
    {
        bool may = qs.q1 <= ks.k2 && ks.k1 <= qs.q2;
        bool must = qs.q1 == qs.q2 && ks.k1 == ks.k2 && qs.q1 == ks.k1;
        return !may ? kVerdictEmpty : must ? kVerdictFull : kVerdictPartial;
    }
};

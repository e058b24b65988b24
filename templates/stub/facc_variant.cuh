// Stand-in for the generated variant: plain attention, no score, no mask.
#pragma once
#include "common/args.cuh"
#include "common/variant_math.cuh"

struct Variant {
    static constexpr bool kHasScore = false;
    static constexpr bool kHasMask = false;
    static constexpr bool kMaskNeedsScore = false;
    static constexpr bool kAlwaysPartial = false;
    static constexpr bool kReverse = false;
    static constexpr bool kHasOffset = false;
    static constexpr bool kHasNarrow = false;
    static constexpr bool kStageCol = false;
    static constexpr bool kStageDiag = false;

    struct Tile {
    };
    struct Row {
    };
    struct Col {
    };
    struct Diag {
    };
    struct Base {
    };
    struct KvRange {
        int first, end;
    };

    static FACC_FN Tile tile(const KernelArgs &, int, int) { return Tile{}; }
    static FACC_FN Row row(const KernelArgs &, const Tile &, int) { return Row{}; }
    static FACC_FN Col col(const KernelArgs &, const Tile &, int) { return Col{}; }
    static FACC_FN Diag diag(const KernelArgs &, const Tile &, int) { return Diag{}; }
    static FACC_FN Base base(const KernelArgs &, const Tile &, const Row &, int, int)
    {
        return Base{};
    }

    static FACC_FN float multiplier(const KernelArgs &, const Tile &) { return 1.0f; }
    static FACC_FN float shift(const KernelArgs &, const Tile &) { return 0.0f; }
    static FACC_FN float score(const KernelArgs &args, const Tile &, const Row &, const Col &,
                               const Diag &, const Base &, float s, int, int, int)
    {
        return s * args.scale_log2;
    }
    static FACC_FN Base offset_by(const Base &base, float) { return base; }
    static FACC_FN float narrow_score(const KernelArgs &, const Tile &, const Row &, const Col &,
                                      const Diag &, const Base &, float s, int, int, int, float &)
    {
        return s;
    }
    static FACC_FN float narrow_limit(const KernelArgs &, const Tile &) { return -1.0f; }
    static FACC_FN bool mask(const KernelArgs &, const Tile &, const Row &, const Col &,
                             const Diag &, const Base &, float, int, int, int)
    {
        return true;
    }
    static FACC_FN KvRange kv_range(const KernelArgs &, const Tile &, int, int)
    {
        return KvRange{0, kMaxInt};
    }
    static FACC_FN int verdict(const KernelArgs &, const Tile &, int, int, int, int)
    {
        return kVerdictFull;
    }

    static constexpr bool kPlanned = false, kScanned = false, kHalved = false;
    static constexpr bool kHasQSummary = false, kHasKvSummary = false;
    struct QSummary {
    };
    struct KvSummary {
    };
    static FACC_FN QSummary q_nothing() { return QSummary{}; }
    static FACC_FN void q_add(const KernelArgs &, const Tile &, int, QSummary &) {}
    static FACC_FN void q_merge(QSummary &, const QSummary &) {}
    static FACC_FN KvSummary kv_nothing() { return KvSummary{}; }
    static FACC_FN void kv_add(const KernelArgs &, const Tile &, int, KvSummary &) {}
    static FACC_FN void kv_merge(KvSummary &, const KvSummary &) {}
    static FACC_FN int tile_verdict(const KernelArgs &, const Tile &, int, int, const QSummary &, int,
                                    int, const KvSummary &)
    {
        return kVerdictFull;
    }
};

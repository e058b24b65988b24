// A variant whose tiles are EMPTY, FULL or PARTIAL by chance, for each group of 64 rows and 32
// columns, so that groups visit other tiles than their neighbours. SKIPS_TABLES: with a score from a
// table of diagonals; SKIPS_REVERSE: from the last tile to the first.
#pragma once
#include "common/args.cuh"
#include "common/variant_math.cuh"

struct Variant {
    static constexpr bool kHasScore = SKIPS_TABLES, kHasMask = true, kMaskNeedsScore = false;
    static constexpr bool kAlwaysPartial = false, kReverse = SKIPS_REVERSE, kHasOffset = false;
    static constexpr bool kHasNarrow = false, kStageCol = false, kStageDiag = SKIPS_TABLES;
    struct Tile {
        int seed, share;
    };
    struct Row {
    };
    struct Col {
    };
    struct Diag {
        float bias;
    };
    struct Base {
    };
    struct KvRange {
        int first, end;
    };

    // 0 none of the cells of a block counts, 1 all, 2 some.
    static FACC_FN int block(const Tile &t, int q, int kv)
    {
        unsigned x = static_cast<unsigned>(t.seed) * 2654435761u + (q / 64) * 40503u + (kv / 32) * 9973u;
        x ^= x >> 15;
        x *= 2246822519u;
        x ^= x >> 13;
        const int chance = x % 100;
        return chance >= t.share ? 0 : chance % 2 + 1;
    }
    static FACC_FN Tile tile(const KernelArgs &args, int b, int h)
    {
        // bounds_report: nothing here uses it
        const int *shares = args.bounds_report;
        return Tile{b * 1000 + h + shares[0], shares[1 + (b + h) % 4]};
    }
    static FACC_FN Row row(const KernelArgs &, const Tile &, int) { return Row{}; }
    static FACC_FN Col col(const KernelArgs &, const Tile &, int) { return Col{}; }
    static FACC_FN Diag diag(const KernelArgs &, const Tile &, int d) { return Diag{0.01f * d}; }
    static FACC_FN Base base(const KernelArgs &, const Tile &, const Row &, int, int) { return Base{}; }
    static FACC_FN float multiplier(const KernelArgs &, const Tile &) { return 1.0f; }
    static FACC_FN float shift(const KernelArgs &, const Tile &) { return 0.0f; }
    static FACC_FN float score(const KernelArgs &args, const Tile &, const Row &, const Col &, const Diag &d,
                               const Base &, float s, int, int, int)
    {
        return s * args.scale_log2 + d.bias;
    }
    static FACC_FN Base offset_by(const Base &base, float) { return base; }
    static FACC_FN float narrow_score(const KernelArgs &, const Tile &, const Row &, const Col &, const Diag &,
                                      const Base &, float s, int, int, int, float &)
    {
        return s;
    }
    static FACC_FN float narrow_limit(const KernelArgs &, const Tile &) { return -1.0f; }
    static FACC_FN bool counts(const Tile &t, int q, int kv)
    {
        const int of = block(t, q, kv);
        return of == 1 || (of == 2 && (q + kv) % 3 == 0);
    }
    static FACC_FN bool mask(const KernelArgs &, const Tile &t, const Row &, const Col &, const Diag &,
                             const Base &, float, int q, int kv0, int c)
    {
        return counts(t, q, kv0 + c);
    }
    static FACC_FN KvRange kv_range(const KernelArgs &, const Tile &, int, int) { return KvRange{0, kMaxInt}; }
    static FACC_FN int verdict(const KernelArgs &, const Tile &t, int q_first, int q_last, int kv_first,
                               int kv_last)
    {
        int seen = 0; // bit 0: a cell may be masked, bit 1: may count
        for (int q = q_first / 64; q <= q_last / 64; ++q)
            for (int kv = kv_first / 32; kv <= kv_last / 32; ++kv) {
                const int of = block(t, 64 * q, 32 * kv);
                seen |= of == 0 ? kVerdictEmpty : of == 1 ? kVerdictFull : kVerdictPartial;
            }
        return seen;
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
    static FACC_FN int tile_verdict(const KernelArgs &, const Tile &, int, int, const QSummary &, int, int,
                                    const KvSummary &)
    {
        return kVerdictPartial;
    }
};

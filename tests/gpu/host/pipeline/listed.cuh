// A mask that the test makes up: tiles' classes, and cells of PARTIAL ones, are its functions.
// HOST_LISTED: launches bring lists of tiles; else the kernel asks verdicts, and the plain bounds
// leave everything. HOST_TABLES: what the mask reads of columns and diagonals goes through the
// tables. HOST_AT_ONCE: all tiles are masked cell by cell.
#pragma once
#include "common/args.cuh"
#include "common/variant_math.cuh"

#ifndef HOST_AT_ONCE
#define HOST_AT_ONCE 0
#endif

bool host_cell(int b, int h, int q, int kv);
int host_verdict(int b, int h, int q, int kv); // of the tile that the cell is in

struct Variant {
    static constexpr bool kHasScore = false, kHasMask = true, kMaskNeedsScore = false;
    static constexpr bool kAlwaysPartial = HOST_AT_ONCE, kHasOffset = false, kHasNarrow = false;
    static constexpr bool kReverse = HOST_REVERSE;
    static constexpr bool kStageCol = HOST_TABLES, kStageDiag = HOST_TABLES;

    struct Tile {
        int b, h;
    };
    struct Row {
        int q;
    };
    struct Col {
        int kv;
    };
    struct Diag {
        int d;
    };
    struct Base {
    };
    struct KvRange {
        int first, end;
    };

    static Tile tile(const KernelArgs &, int b, int h) { return Tile{b, h}; }
    static Row row(const KernelArgs &, const Tile &, int q) { return Row{q}; }
    static Col col(const KernelArgs &, const Tile &, int kv) { return Col{kv}; }
    static Diag diag(const KernelArgs &, const Tile &, int d) { return Diag{d}; }
    static Base base(const KernelArgs &, const Tile &, const Row &, int, int) { return Base{}; }
    static float multiplier(const KernelArgs &, const Tile &) { return 1.0f; }
    static float shift(const KernelArgs &, const Tile &) { return 0.0f; }
    static float score(const KernelArgs &args, const Tile &, const Row &, const Col &, const Diag &,
                       const Base &, float s, int, int, int)
    {
        return s * args.scale_log2;
    }
    static Base offset_by(const Base &base, float) { return base; }
    static float narrow_score(const KernelArgs &, const Tile &, const Row &, const Col &,
                              const Diag &, const Base &, float s, int, int, int, float &)
    {
        return s;
    }
    static float narrow_limit(const KernelArgs &, const Tile &) { return -1.0f; }
    static bool mask(const KernelArgs &, const Tile &t, const Row &r, const Col &k, const Diag &d,
                     const Base &, float, int, int, int)
    {
        return d.d == r.q - k.kv && host_cell(t.b, t.h, r.q, k.kv);
    }
    static KvRange kv_range(const KernelArgs &, const Tile &, int, int)
    {
        return KvRange{0, kMaxInt};
    }
    static int verdict(const KernelArgs &, const Tile &t, int q, int, int kv, int)
    {
        return host_verdict(t.b, t.h, q, kv);
    }

    static constexpr bool kPlanned = HOST_LISTED, kScanned = false, kHalved = false;
    static constexpr bool kHasQSummary = false, kHasKvSummary = false;
    struct QSummary {
    };
    struct KvSummary {
    };
    static QSummary q_nothing() { return QSummary{}; }
    static void q_add(const KernelArgs &, const Tile &, int, QSummary &) {}
    static void q_merge(QSummary &, const QSummary &) {}
    static KvSummary kv_nothing() { return KvSummary{}; }
    static void kv_add(const KernelArgs &, const Tile &, int, KvSummary &) {}
    static void kv_merge(KvSummary &, const KvSummary &) {}
    static int tile_verdict(const KernelArgs &, const Tile &, int, int, const QSummary &, int, int,
                            const KvSummary &)
    {
        return kVerdictPartial;
    }
};

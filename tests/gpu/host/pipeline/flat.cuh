// A bias of diagonals in long stretches of one number, with single others between them: many tiles'
// values are all alike. HOST_REVERSE: the direction of visits.
#pragma once
#define Variant PlainVariant
#include "templates/stub/facc_variant.cuh"
#undef Variant

struct Variant : PlainVariant {
    static constexpr bool kHasScore = true, kReverse = HOST_REVERSE;
    static constexpr bool kHasFlat = true, kHasFlatOffset = HOST_FLAT_OFFSET;
    static constexpr bool kStageDiag = true;

    struct Diag : PlainVariant::Diag {
        float bias; // in log2 units
    };
    // Stretches begin where tiles do; every third has another number in it.
    static Diag diag(const KernelArgs &, const Tile &, int d)
    {
        const int at = d + (768 << 10), stretch = at / 768;
        return Diag{{}, stretch % 3 == 0 && at % 768 == 400 ? -4.0f : stretch % 2 ? 2.0f : 0.5f};
    }
    static Diag offset_diag(const Diag &d, float by) { return Diag{{}, facc_moved(d.bias, by)}; }
    static float score(const KernelArgs &args, const Tile &, const Row &, const Col &,
                       const Diag &d, const Base &, float s, int, int, int)
    {
        return fmaf(s, args.scale_log2, d.bias);
    }
};

// Plain attention, but for a score_mod that has a cheap form and a shift, as none that is generated
// has both: kCap times the exact tanh of raw products. The heads' factors differ.
#pragma once
#define Variant Plain
#include "stub/facc_variant.cuh"
#undef Variant

struct Variant : Plain {
    static constexpr bool kHasScore = true, kHasNarrow = true;
    static constexpr float kCap = 20.0f;

    struct Tile {
        float factor;
        facc_narrow narrow;
    };

    static Tile tile(const KernelArgs &, int, int h)
    {
        const float factor = h % 2 ? -0.03f : 0.25f;
        return Tile{factor, facc_narrow_tanh(factor, kCap * kLog2e)};
    }
    static Row row(const KernelArgs &, const Tile &, int) { return Row{}; }
    static Col col(const KernelArgs &, const Tile &, int) { return Col{}; }
    static Diag diag(const KernelArgs &, const Tile &, int) { return Diag{}; }
    static Base base(const KernelArgs &, const Tile &, const Row &, int, int) { return Base{}; }
    static float multiplier(const KernelArgs &, const Tile &) { return 2 * kCap * kLog2e; }
    static float shift(const KernelArgs &, const Tile &) { return kCap * kLog2e; }
    static float score(const KernelArgs &, const Tile &t, const Row &, const Col &, const Diag &,
                       const Base &, float s, int, int, int)
    {
        return facc_tanh_below(2 * kLog2e * t.factor * s);
    }
    static float narrow_score(const KernelArgs &, const Tile &t, const Row &, const Col &,
                              const Diag &, const Base &, float s, int, int, int, float &widest)
    {
        return facc_narrow_cell(t.narrow, s, widest);
    }
    static float narrow_limit(const KernelArgs &, const Tile &t) { return t.narrow.limit; }
    static bool mask(const KernelArgs &, const Tile &, const Row &, const Col &, const Diag &,
                     const Base &, float, int, int, int)
    {
        return true;
    }
    static KvRange kv_range(const KernelArgs &, const Tile &, int, int)
    {
        return KvRange{0, kMaxInt};
    }
};

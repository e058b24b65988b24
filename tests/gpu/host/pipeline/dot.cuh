// Causal attention with the products of two captured tensors' rows beside Q K^T, as facc prints
// them: of bf16 {B, H / 2 + 1, any, kExtraDim} at row q + 3 of head h / 2, and of {any, kExtraDim}
// at row 5 b + 2 + kv; times HOST_DOT_FACTOR times the scale.
#pragma once
#define Variant CausalVariant
#include "tests/gpu/variants/causal.cuh"
#undef Variant

struct Variant : CausalVariant {
    struct Tile : CausalVariant::Tile {
        int b, h;
    };
    static Tile tile(const KernelArgs &, int b, int h)
    {
        Tile t;
        t.b = b;
        t.h = h;
        return t;
    }
    struct DotRows {
        static constexpr int kTensor = 0, kRank = 4, kDim = 2;
        static constexpr bool kShifted = true;
        static void at(const KernelArgs &, const Tile &t, int (&at)[3])
        {
            at[0] = t.b;
            at[1] = t.h / 2;
            at[2] = 3;
        }
    };
    struct DotCols {
        static constexpr int kTensor = 1, kRank = 2, kDim = 0;
        static constexpr bool kShifted = true;
        static void at(const KernelArgs &, const Tile &t, int (&at)[1]) { at[0] = 5 * t.b + 2; }
    };
    static float dot_factor(const KernelArgs &args, const Tile &)
    {
        return HOST_DOT_FACTOR * args.scale;
    }
};

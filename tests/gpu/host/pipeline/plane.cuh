// score + bias[h][q + h - 3][b][kv + 8 h - 8 + h // 3 * 3], 0 outside the tensor, whose tiles are
// copied where that begins a unit of 16 bytes, of f32 or bf16 elements (HOST_PLANE_TYPE);
// HOST_CAUSAL: under q >= kv.
#pragma once
#define Variant BiasVariant
#include "tests/gpu/variants/bias.cuh"
#undef Variant

struct Variant : BiasVariant {
    static constexpr bool kHasMask = HOST_CAUSAL, kReverse = HOST_CAUSAL;

    struct Tile : BiasVariant::Tile {
        int b, h;
    };
    struct Base : BiasVariant::Base {
        facc_by by;
    };
    struct PlaneRows {
        static constexpr int kTensor = 0, kRank = 4, kDim = 1;
        static constexpr bool kShifted = true;
        static void at(const KernelArgs &, const Tile &t, int (&at)[3])
        {
            at[0] = t.h;
            at[1] = t.h - 3;
            at[2] = t.b;
        }
    };
    struct Plane : PlaneRows {
        static constexpr int kType = HOST_PLANE_TYPE;
        static constexpr bool kOffset = true;
        static int first(const KernelArgs &, const Tile &t) { return 8 * t.h - 8 + t.h / 3 * 3; }
    };

    static Tile tile(const KernelArgs &, int b, int h)
    {
        Tile t{};
        t.b = b;
        t.h = h;
        return t;
    }
    static Row row(const KernelArgs &, const Tile &t, int q)
    {
        return Row{q + t.h - 3}; // its index
    }
    static Base base(const KernelArgs &, const Tile &, const Row &, int, int) { return Base(); }
    static Base offset_by(const Base &base, float by)
    {
        Base moved = base;
        moved.by = facc_by{facc_moved(0.0f, by), true};
        return moved;
    }
    static float score(const KernelArgs &args, const Tile &t, const Row &r, const Col &,
                       const Diag &, const Base &, float s, int, int kv0, int c)
    {
        const facc_captured &bias = args.tensors[0];
        const int column = kv0 + c + Plane::first(args, t);
        float x = 0;
        if (r.r1 >= 0 && r.r1 < bias.shape[1] && column >= 0 && column < bias.shape[3]) {
            const long long at =
                t.h * bias.stride[0] + r.r1 * bias.stride[1] + t.b * bias.stride[2] + column;
            x = kPlaneBytes == 2 ? facc_load_bf16(bias, at) : facc_load_f32(bias, at);
        }
        return fmaf(s, args.scale_log2, facc_times_log2e(x));
    }
    static float plane_score(const KernelArgs &args, const Tile &, const Row &, const Col &,
                             const Diag &, const Base &base, float s, int, int, int, float x)
    {
        return fmaf(s, args.scale_log2, facc_times_log2e(x, base.by.moved) + base.by.by);
    }
    static bool mask(const KernelArgs &, const Tile &, const Row &, const Col &, const Diag &,
                     const Base &, float, int q, int kv0, int c)
    {
        return q >= kv0 + c;
    }
    static KvRange kv_range(const KernelArgs &, const Tile &, int, int q_last)
    {
        return KvRange{0, HOST_CAUSAL ? q_last + 1 : kMaxInt};
    }
    static int verdict(const KernelArgs &, const Tile &, int q_first, int q_last, int kv_first,
                       int kv_last)
    {
        return !HOST_CAUSAL         ? kVerdictFull
               : kv_first > q_last  ? kVerdictEmpty
               : kv_last <= q_first ? kVerdictFull
                                    : kVerdictPartial;
    }
};

// The sequences of a launch, padded or packed: lengths, where their rows lie, ids of what is made
// for them, and what of KV a query tile can reach.
#pragma once
#include "common/args.cuh"
#include "facc_variant.cuh"

// True: every launch brings a schedule with lists of KV tiles. Else a schedule (of packed
// sequences) only gives the order of query tiles.
constexpr bool kListed = Variant::kPlanned || kBlockMask;

// The forward kernel's tiles: in its own unit constants; the unit of the kernels that make a
// schedule has kTileM = 0 and serves them all.
FACC_FN int tile_m(const KernelArgs &args)
{
    return kTileM > 0 ? kTileM : args.tiling.tile_m;
}
FACC_FN int tile_n(const KernelArgs &args)
{
    return kTileM > 0 ? kTileN : args.tiling.tile_n;
}

struct Sequence {
    int rows;                    // of Q, O, LSE; those behind q_len are not attended
    int q_len, kv_len;           // used lengths
    long long q_start, kv_start; // of its rows in packed tensors
};

// Lengths beyond Sq and Skv break the caller's word; cut, so that nothing is written outside.
FACC_FN Sequence sequence_of(const KernelArgs &args, int b)
{
    Sequence s{args.Sq, 0, args.Skv, 0, 0};
    // At run time: without this test (it is false for good where !kPacked) ptxas, at its limit of
    // registers, makes the forward kernel of causal masks 3 % slower.
    if (args.cu_seqlens_q) {
        s.q_start = args.cu_seqlens_q[b];
        s.kv_start = args.cu_seqlens_kv[b];
        s.rows = max(0, min(args.cu_seqlens_q[b + 1] - args.cu_seqlens_q[b], args.Sq));
        s.kv_len = max(0, min(args.cu_seqlens_kv[b + 1] - args.cu_seqlens_kv[b], args.Skv));
    }
    s.q_len = args.seqused_q ? max(0, min(args.seqused_q[b], s.rows)) : s.rows;
    if (args.seqused_kv)
        s.kv_len = max(0, min(args.seqused_kv[b], s.kv_len));
    return s;
}

// Ids (kernel_args.h) of items that are `width` positions wide, among those of one h. cu: offsets
// of packed sequences, or 0; length: Sq or Skv.
FACC_FN int first_id(const KernelArgs &args, const int *cu, int length, int width, int b)
{
    if (!args.schedule.per_b)
        return 0;
    return kPacked && cu ? cu[b] / width + b : b * ((length + width - 1) / width);
}

struct Place {
    int b, item; // the item may lie behind the sequence's end: a gap
};

FACC_FN Place place_of(const KernelArgs &args, const int *cu, int length, int width, int id)
{
    if (!args.schedule.per_b)
        return Place{0, id};
    if (!kPacked || !cu) {
        const int items = (length + width - 1) / width;
        return Place{id / items, id % items};
    }
    int b = 0, end = args.B; // first_id(b) <= id < first_id(end)
    while (end - b > 1) {
        const int middle = b + (end - b) / 2;
        if (cu[middle] / width + middle <= id)
            b = middle;
        else
            end = middle;
    }
    return Place{b, id - (cu[b] / width + b)};
}

// KV tiles that the mask's plain bounds leave to rows q0 .. q0 + tile_m - 1.
struct Reach {
    int first, end;
};

FACC_FN Reach reach_of(const KernelArgs &args, const Variant::Tile &t, int q0, int q_len,
                       int kv_len)
{
    const int q_last = min(q0 + tile_m(args), q_len) - 1;
    int first = 0, end = q_last < q0 ? 0 : kv_len;
    if constexpr (Variant::kHasMask && !kBlockMask) { // full blocks count whatever the mask says
        if (end > 0) {
            const Variant::KvRange range = Variant::kv_range(args, t, q0, q_last);
            first = max(0, min(range.first, end));
            end = max(first, min(range.end, end));
        }
    }
    Reach r;
    const int width = tile_n(args);
    r.first = first / width;
    r.end = end > first ? (end + width - 1) / width : r.first;
    return r;
}

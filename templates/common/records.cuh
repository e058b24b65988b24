// The records that summaries of rows and of columns are kept in, by tile, by window of 32 KV tiles,
// by granule: summaries.cuh makes them, tile_row.cuh reads them.
#pragma once
#include "common/overlap.cuh"
#include "common/sequences.cuh"

constexpr int kGranule = FACC_GRANULE;

// Warp groups, rows of each, columns of a window.
FACC_FN int groups(const KernelArgs &args)
{
    return kTileM > 0 ? kGroups : args.tiling.groups;
}
FACC_FN int group_rows(const KernelArgs &args)
{
    return kTileM > 0 ? kRowsPerGroup : args.tiling.group_rows;
}
FACC_FN int window_columns(const KernelArgs &args)
{
    return 32 * tile_n(args);
}

struct QSide {
    using Summary = Variant::QSummary;
    static constexpr bool kHas = Variant::kHasQSummary;
    static FACC_FN Summary nothing() { return Variant::q_nothing(); }
    static FACC_FN void add(const KernelArgs &args, const Variant::Tile &t, int q, Summary &s)
    {
        Variant::q_add(args, t, q, s);
    }
    static FACC_FN void merge(Summary &s, const Summary &other) { Variant::q_merge(s, other); }
    static FACC_FN int width(const KernelArgs &args, int level)
    {
        return level == FACC_LEVEL_GRANULE ? kGranule : group_rows(args);
    }
    static FACC_FN const int *cu(const KernelArgs &args) { return args.cu_seqlens_q; }
    static FACC_FN int length(const KernelArgs &args) { return args.Sq; }
    static FACC_FN int ids(const KernelArgs &args, int level) { return args.schedule.q_ids[level]; }
    static FACC_FN void *records(const KernelArgs &args, int level)
    {
        return args.schedule.q_summary[level];
    }
};

struct KvSide {
    using Summary = Variant::KvSummary;
    static constexpr bool kHas = Variant::kHasKvSummary;
    static FACC_FN Summary nothing() { return Variant::kv_nothing(); }
    static FACC_FN void add(const KernelArgs &args, const Variant::Tile &t, int kv, Summary &s)
    {
        Variant::kv_add(args, t, kv, s);
    }
    static FACC_FN void merge(Summary &s, const Summary &other) { Variant::kv_merge(s, other); }
    static FACC_FN int width(const KernelArgs &args, int level)
    {
        return level == FACC_LEVEL_GRANULE ? kGranule
               : level == FACC_LEVEL_TILE  ? tile_n(args)
                                           : window_columns(args);
    }
    static FACC_FN const int *cu(const KernelArgs &args) { return args.cu_seqlens_kv; }
    static FACC_FN int length(const KernelArgs &args) { return args.Skv; }
    static FACC_FN int ids(const KernelArgs &args, int level)
    {
        return args.schedule.kv_ids[level];
    }
    static FACC_FN void *records(const KernelArgs &args, int level)
    {
        return args.schedule.kv_summary[level];
    }
};

// The records of (b, h) at one level; record i is about positions i * width and on.
template <class Side>
FACC_FN typename Side::Summary *records_of(const KernelArgs &args, int level, int b, int h)
{
    const int first =
        first_id(args, Side::cu(args), Side::length(args), Side::width(args, level), b);
    return static_cast<typename Side::Summary *>(Side::records(args, level)) + first +
           (args.schedule.per_h ? h : 0) * static_cast<long long>(Side::ids(args, level));
}

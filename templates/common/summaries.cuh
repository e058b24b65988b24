// Summaries of rows and of columns, which verdicts are made from: records by tile, by window of 32
// KV tiles, by granule. Made in time linear in the lengths.
#pragma once
#include "common/sequences.cuh"

constexpr int kWindow = 32 * kTileN; // columns
constexpr int kGranule = FACC_GRANULE;

struct QSide {
    using Summary = Variant::QSummary;
    static constexpr bool kHas = Variant::kHasQSummary;
    static FACC_FN Summary nothing() { return Variant::q_nothing(); }
    static FACC_FN void add(const KernelArgs &args, const Variant::Tile &t, int q, Summary &s)
    {
        Variant::q_add(args, t, q, s);
    }
    static FACC_FN void merge(Summary &s, const Summary &other) { Variant::q_merge(s, other); }
    static FACC_FN int width(int level)
    {
        return level == FACC_LEVEL_GRANULE ? kGranule : kRowsPerGroup;
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
    static FACC_FN int width(int level)
    {
        return level == FACC_LEVEL_GRANULE ? kGranule : level == FACC_LEVEL_TILE ? kTileN : kWindow;
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
    const int first = first_id(args, Side::cu(args), Side::length(args), Side::width(level), b);
    return static_cast<typename Side::Summary *>(Side::records(args, level)) + first +
           (args.schedule.per_h ? h : 0) * static_cast<long long>(Side::ids(args, level));
}

template <class T> FACC_FN T shuffle_xor(const T &x, int lanes)
{
    constexpr int kWords = (sizeof(T) + 3) / 4;
    union Words {
        T value;
        unsigned word[kWords];
    } w;
    w.value = x;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
        w.word[i] = __shfl_xor_sync(~0u, w.word[i], lanes);
    return w.value;
}

// By a warp: one record of the tile level, about positions first .. end - 1 of at most kWidth, and
// its granules. All lanes get it.
template <class Side, int kWidth>
FACC_FN typename Side::Summary summarize_tile(const KernelArgs &args, const Variant::Tile &t,
                                              int first, int end, typename Side::Summary *tiles,
                                              typename Side::Summary *granules)
{
    const int lane = threadIdx.x % 32;
    typename Side::Summary all = Side::nothing();
#pragma unroll
    for (int at = 0; at < kWidth; at += 32) {
        const int i = first + at + lane;
        const bool inside = at + lane < kWidth && i < end;
        typename Side::Summary s = Side::nothing();
        if (inside)
            Side::add(args, t, i, s);
#pragma unroll
        for (int lanes = 1; lanes < 32; lanes *= 2) {
            if (Variant::kHalved && lanes == kGranule && inside && lane % kGranule == 0)
                granules[i / kGranule] = s;
            Side::merge(s, shuffle_xor(s, lanes));
        }
        Side::merge(all, s);
    }
    if (lane == 0)
        tiles[first / kWidth] = all;
    return all;
}

FACC_FN void summarize_window(const KernelArgs &args, int id)
{
    constexpr int kWarpsHere = FACC_PREPARE_THREADS / 32;
    __shared__ Variant::KvSummary parts[kWarpsHere];
    const int ids = args.schedule.kv_ids[FACC_LEVEL_WINDOW], h = id / ids;
    const Place place = place_of(args, args.cu_seqlens_kv, args.Skv, kWindow, id % ids);
    const Sequence sequence = sequence_of(args, place.b);
    if (place.item > (sequence.kv_len - 1) / kWindow || sequence.kv_len == 0)
        return;
    const Variant::Tile t = Variant::tile(args, place.b, h);
    Variant::KvSummary *tiles = records_of<KvSide>(args, FACC_LEVEL_TILE, place.b, h);
    Variant::KvSummary *granules = records_of<KvSide>(args, FACC_LEVEL_GRANULE, place.b, h);
    const int warp = threadIdx.x / 32;

    Variant::KvSummary all = Variant::kv_nothing();
#pragma unroll 1
    for (int i = warp; i < 32; i += kWarpsHere) {
        const int first = place.item * kWindow + i * kTileN;
        if (first >= sequence.kv_len)
            break;
        Variant::kv_merge(
            all, summarize_tile<KvSide, kTileN>(args, t, first, sequence.kv_len, tiles, granules));
    }
    if (threadIdx.x % 32 == 0)
        parts[warp] = all;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < kWarpsHere; ++i)
            Variant::kv_merge(all, parts[i]);
        static_cast<Variant::KvSummary *>(KvSide::records(args, FACC_LEVEL_WINDOW))[id] = all;
    }
}

FACC_FN void summarize_rows(const KernelArgs &args, int id)
{
    const int h = id / args.schedule.row_ids;
    const Place place =
        place_of(args, args.cu_seqlens_q, args.Sq, kTileM, id % args.schedule.row_ids);
    const Sequence sequence = sequence_of(args, place.b);
    if (place.item > (sequence.q_len - 1) / kTileM || sequence.q_len == 0)
        return;
    const int group = threadIdx.x / 32;
    const int first = place.item * kTileM + group * kRowsPerGroup;
    if (group >= kGroups || first >= sequence.q_len)
        return;
    const Variant::Tile t = Variant::tile(args, place.b, h);
    summarize_tile<QSide, kRowsPerGroup>(args, t, first, sequence.q_len,
                                         records_of<QSide>(args, FACC_LEVEL_TILE, place.b, h),
                                         records_of<QSide>(args, FACC_LEVEL_GRANULE, place.b, h));
}

// One CTA per window of KV, then one per query tile.
extern "C" __global__ void __launch_bounds__(FACC_PREPARE_THREADS)
    facc_summarize(const __grid_constant__ KernelArgs args)
{
    int id = blockIdx.x;
    if constexpr (KvSide::kHas) {
        const int windows =
            (args.schedule.per_h ? args.H : 1) * args.schedule.kv_ids[FACC_LEVEL_WINDOW];
        if (id < windows) {
            summarize_window(args, id);
            return;
        }
        id -= windows;
    }
    if constexpr (QSide::kHas)
        summarize_rows(args, id);
}

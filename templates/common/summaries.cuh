// Summaries of rows and of columns, which verdicts are made from: records by tile, by window of 32
// KV tiles, by granule. Made in time linear in the lengths.
#pragma once
#include "common/records.cuh"

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

// By a warp: of `first` lanes each to that of `end` lanes, powers of two. A loop: compile time.
template <class Side> FACC_FN void merge_lanes(typename Side::Summary &s, int first, int end)
{
#pragma unroll 1
    for (int lanes = first; lanes < end; lanes *= 2)
        Side::merge(s, shuffle_xor(s, lanes));
}

// By a warp: one record of the tile level, about positions first .. end - 1 (at least one, at most
// a tile's), and its granules. All lanes get it. Lanes without a position take the last one again,
// so that the loads of four steps, which most tiles have at most, are under way at once.
template <class Side>
FACC_FN typename Side::Summary summarize_tile(const KernelArgs &args, const Variant::Tile &t,
                                              int first, int end, typename Side::Summary *tiles,
                                              typename Side::Summary *granules)
{
    const int width = Side::width(args, FACC_LEVEL_TILE);
    const int lane = threadIdx.x % 32, last = min(end, first + width) - 1;
    typename Side::Summary all = Side::nothing();
    const auto add = [&](int i) {
        if constexpr (Variant::kHalved) {
            typename Side::Summary s = Side::nothing();
            Side::add(args, t, min(i, last), s);
            merge_lanes<Side>(s, 1, kGranule);
            if (i <= last && lane % kGranule == 0)
                granules[i / kGranule] = s;
            Side::merge(all, s);
        } else {
            Side::add(args, t, min(i, last), all);
        }
    };
#pragma unroll 1
    for (int at = 0; at < width; at += 128)
#pragma unroll
        for (int step = 0; step < 4; ++step)
            add(first + at + 32 * step + lane);
    merge_lanes<Side>(all, Variant::kHalved ? kGranule : 1, 32);
    if (lane == 0)
        tiles[first / width] = all;
    return all;
}

constexpr int kSummarizeWarps = FACC_SUMMARIZE_THREADS / 32;
static_assert(kSummarizeWarps == 32, "one for each tile of a window");

FACC_FN void summarize_window(const KernelArgs &args, int id)
{
    __shared__ Variant::KvSummary parts[kSummarizeWarps];
    const int ids = args.schedule.kv_ids[FACC_LEVEL_WINDOW], h = id / ids;
    const int columns = window_columns(args);
    const Place place = place_of(args, args.cu_seqlens_kv, args.Skv, columns, id % ids);
    const Sequence sequence = sequence_of(args, place.b);
    if (place.item > (sequence.kv_len - 1) / columns || sequence.kv_len == 0)
        return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = place.item * columns + warp * tile_n(args);
    Variant::KvSummary all = Variant::kv_nothing();
    if (first < sequence.kv_len)
        all = summarize_tile<KvSide>(args, Variant::tile(args, place.b, h), first, sequence.kv_len,
                                     records_of<KvSide>(args, FACC_LEVEL_TILE, place.b, h),
                                     records_of<KvSide>(args, FACC_LEVEL_GRANULE, place.b, h));
    if (lane == 0)
        parts[warp] = all;
    __syncthreads();
    if (warp > 0)
        return;
    all = parts[lane];
    merge_lanes<KvSide>(all, 1, 32);
    if (lane == 0)
        static_cast<Variant::KvSummary *>(KvSide::records(args, FACC_LEVEL_WINDOW))[id] = all;
}

// By a warp: a group's rows of a query tile.
FACC_FN void summarize_rows(const KernelArgs &args, int id, int group)
{
    const int h = id / args.schedule.row_ids;
    const int rows = tile_m(args);
    const Place place =
        place_of(args, args.cu_seqlens_q, args.Sq, rows, id % args.schedule.row_ids);
    const Sequence sequence = sequence_of(args, place.b);
    const int first = place.item * rows + group * group_rows(args);
    if (place.item > (sequence.q_len - 1) / rows || first >= sequence.q_len)
        return;
    const Variant::Tile t = Variant::tile(args, place.b, h);
    summarize_tile<QSide>(args, t, first, sequence.q_len,
                          records_of<QSide>(args, FACC_LEVEL_TILE, place.b, h),
                          records_of<QSide>(args, FACC_LEVEL_GRANULE, place.b, h));
}

// One CTA per window of KV, then one per so many query tiles as it has warps for.
extern "C" __global__ void __launch_bounds__(FACC_SUMMARIZE_THREADS)
    facc_summarize(const __grid_constant__ KernelArgs args)
{
    start_of_maker();
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
    if constexpr (QSide::kHas) {
        const int groups = args.tiling.groups, rows = kSummarizeWarps / groups;
        const int place = static_cast<int>(threadIdx.x / 32) / groups, row = id * rows + place;
        if (place < rows && row < args.schedule.max_rows)
            summarize_rows(args, row, static_cast<int>(threadIdx.x / 32) % groups);
    }
}

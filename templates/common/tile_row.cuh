// A row of the schedule, and verdicts of rectangles of its cells.
#pragma once
#include "common/blocks.cuh"
#include "common/records.cuh"

// A query tile of a (b, h), or of all that share it.
struct TileRow {
    int b, h, tile;             // tile -1: a gap, nothing else is set
    int q0, groups, group_rows; // its first row; warp groups, rows of each
    int q_len, kv_len;
    Reach reach;
    Variant::Tile t;

    // By its id among the rows of a schedule.
    FACC_FN TileRow(const KernelArgs &args, int id)
    {
        h = id / args.schedule.row_ids;
        const int rows = tile_m(args);
        const Place place =
            place_of(args, args.cu_seqlens_q, args.Sq, rows, id % args.schedule.row_ids);
        const Sequence sequence = sequence_of(args, place.b);
        b = place.b;
        tile = sequence.rows > 0 && place.item <= (sequence.rows - 1) / rows ? place.item : -1;
        if (tile < 0)
            return;
        q0 = tile * rows;
        groups = ::groups(args);
        group_rows = ::group_rows(args);
        q_len = sequence.q_len;
        kv_len = sequence.kv_len;
        t = Variant::tile(args, b, h);
        reach = reach_of(args, t, q0, q_len, kv_len);
    }

    FACC_FN TileRow(const KernelArgs &args, const Variant::Tile &t, int b, int h, int tile,
                    int q_len, int kv_len)
        : b(b), h(h), tile(tile), q0(tile * tile_m(args)), groups(::groups(args)),
          group_rows(::group_rows(args)), q_len(q_len), kv_len(kv_len),
          reach(reach_of(args, t, q0, q_len, kv_len)), t(t)
    {
    }

    FACC_FN int q_first(int group) const { return q0 + group * group_rows; }
    FACC_FN int q_last(int group) const { return min(q_first(group) + group_rows, q_len) - 1; }
    FACC_FN bool has_rows(int group) const { return group < groups && q_first(group) < q_len; }
    // Inclusive, of `width` columns from kv on.
    FACC_FN int kv_last(int kv, int width) const { return min(kv + width, kv_len) - 1; }
    FACC_FN int first_window() const { return reach.first / 32; }
    FACC_FN int windows() const
    {
        return reach.end > reach.first ? (reach.end + 31) / 32 - first_window() : 0;
    }
};

// A record of a level by its number in the sequence; nothing where positions have none.
template <class Side>
FACC_FN typename Side::Summary summary_of(const KernelArgs &args, const TileRow &row, int level,
                                          int number)
{
    if constexpr (Side::kHas)
        return records_of<Side>(args, level, row.b, row.h)[number];
    else
        return Side::nothing();
}

// What the program's mask says of a rectangle, inclusive.
FACC_FN int mask_verdict(const KernelArgs &args, const TileRow &row, int q_first, int q_last,
                         const Variant::QSummary &qs, int kv_first, int kv_last,
                         const Variant::KvSummary &ks)
{
    if constexpr (!Variant::kHasMask)
        return kVerdictFull;
    else if constexpr (Variant::kPlanned)
        return Variant::tile_verdict(args, row.t, q_first, q_last, qs, kv_first, kv_last, ks);
    else
        return Variant::verdict(args, row.t, q_first, q_last, kv_first, kv_last);
}

// Of a group's rows and the columns of one record of a level. By numbers: tiles that only the
// launch knows would be divided by.
FACC_FN int group_verdict(const KernelArgs &args, const TileRow &row, int group, int level,
                          int number)
{
    const int width = KvSide::width(args, level), kv = number * width;
    return mask_verdict(
        args, row, row.q_first(group), row.q_last(group),
        summary_of<QSide>(args, row, FACC_LEVEL_TILE, row.tile * row.groups + group), kv,
        row.kv_last(kv, width), summary_of<KvSide>(args, row, level, number));
}

// A PARTIAL tile by its granules, one verdict by each lane.
FACC_FN int halve(const KernelArgs &args, const TileRow &row, int group, int kv_first)
{
    const int cols = tile_n(args) / kGranule, granules = row.group_rows / kGranule * cols;
    unsigned seen = 0;
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < granules; i += 32) {
        const int q = row.q_first(group) + i / cols * kGranule;
        const int kv = kv_first + i % cols * kGranule;
        if (q < row.q_len && kv < row.kv_len)
            seen |= mask_verdict(args, row, q, min(q + kGranule, row.q_len) - 1,
                                 summary_of<QSide>(args, row, FACC_LEVEL_GRANULE, q / kGranule), kv,
                                 row.kv_last(kv, kGranule),
                                 summary_of<KvSide>(args, row, FACC_LEVEL_GRANULE, kv / kGranule));
    }
    return __reduce_or_sync(~0u, seen);
}

// Loops over groups stay loops where they are for any number of groups: compile time.
constexpr int kUnrollGroups = kTileM > 0 ? kGroups : 1;

FACC_FN void clear_bits(facc_schedule_bits (&bits)[kGroups])
{
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
        bits[g] = facc_schedule_bits{0, 0};
}

FACC_FN void put_bits(facc_schedule_bits (&bits)[kGroups], int group, unsigned work,
                      unsigned masked)
{
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
        if (g == group)
            bits[g] = facc_schedule_bits{work, masked};
}

// Bits of a window's tiles, one verdict by each lane.
FACC_FN void judge_tiles(const KernelArgs &args, const TileRow &row, int window,
                         facc_schedule_bits (&bits)[kGroups])
{
    const int width = tile_n(args);
    const int lane = threadIdx.x % 32, tile = 32 * window + lane, kv = tile * width;
    const bool in_reach = tile >= row.reach.first && tile < row.reach.end;
    const bool tail = kv + width > row.kv_len;
    clear_bits(bits);
#pragma unroll kUnrollGroups
    for (int g = 0; g < row.groups; ++g) {
        int verdict = kVerdictEmpty;
        if (in_reach && row.has_rows(g))
            verdict = group_verdict(args, row, g, FACC_LEVEL_TILE, tile);
        if constexpr (Variant::kHalved) {
            unsigned partial = __ballot_sync(~0u, verdict == kVerdictPartial);
            while (partial) {
                const int i = __ffs(partial) - 1;
                const int finer = halve(args, row, g, (32 * window + i) * width);
                verdict = lane == i ? finer : verdict;
                partial &= partial - 1;
            }
        }
        put_bits(
            bits, g, __ballot_sync(~0u, verdict != kVerdictEmpty),
            __ballot_sync(~0u, verdict == kVerdictPartial || (verdict == kVerdictFull && tail)));
    }
}

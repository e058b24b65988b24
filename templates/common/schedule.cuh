// The kernels that make a schedule: which KV tiles each query tile visits, and which query tiles go
// first. Before them summaries.cuh and scan.cuh make what verdicts need to know. Groups of warps
// that the forward kernel does not have have no rows.
#pragma once
#include "common/scan.cuh"
#include "common/summaries.cuh"

FACC_FN int entry_bytes(const KernelArgs &args)
{
    return 8 + 8 * args.tiling.groups;
}

// Bits of 32 windows, each lane's own (none where !inside): verdicts of whole windows first.
FACC_FN void judge_windows(const KernelArgs &args, const TileRow &row, int window, bool inside,
                           facc_schedule_bits (&bits)[kGroups])
{
    const int columns = window_columns(args);
    const int lane = threadIdx.x % 32, kv = window * columns;
    bool open = false, some = false;
    clear_bits(bits);
#pragma unroll 1
    for (int g = 0; g < row.groups; ++g) {
        int verdict = kVerdictEmpty;
        if (inside && row.has_rows(g))
            verdict = group_verdict(args, row, g, FACC_LEVEL_WINDOW, window);
        put_bits(bits, g, verdict == kVerdictFull ? ~0u : 0u, 0u);
        open |= verdict == kVerdictPartial;
        some |= verdict != kVerdictEmpty;
    }
    open |= some && row.kv_len - kv < columns; // not all of its tiles exist
    for (unsigned left = __ballot_sync(~0u, open); left; left &= left - 1) {
        const int i = __ffs(left) - 1;
        facc_schedule_bits finer[kGroups];
        judge_tiles(args, row, __shfl_sync(~0u, window, i), finer);
#pragma unroll
        for (int g = 0; g < kGroups; ++g)
            bits[g] = lane == i ? finer[g] : bits[g];
    }
}

// A row's list while it is written, by a warp.
class EntryList
{
  public:
    FACC_FN EntryList(const KernelArgs &args, int id)
        : count(0), entries(0), groups_(args.tiling.groups), bytes_(entry_bytes(args)),
          room_(args.schedule.max_entries)
    {
        list_ = args.schedule.entries + static_cast<long long>(id) * room_ * bytes_;
    }

    // Windows of the lanes, in the order of visits; left: windows of the row from lane 0's on. Runs
    // of equal windows share an entry. False: the list is full and its last entry is about all
    // that is left.
    FACC_FN bool append(const TileRow &row, int window, int left,
                        const facc_schedule_bits (&bits)[kGroups])
    {
        const int lane = threadIdx.x % 32;
        unsigned any = 0;
        bool same = lane > 0;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            any |= bits[g].work;
            same &= __shfl_up_sync(~0u, bits[g].work, 1) == bits[g].work;
            same &= __shfl_up_sync(~0u, bits[g].masked, 1) == bits[g].masked;
        }
        const unsigned joins = __ballot_sync(~0u, same && any != 0);
        const unsigned starts = __ballot_sync(~0u, !same && any != 0);
        const int total = entries + __popc(starts);
        const bool full = total > room_ || (total == room_ && left > 32);
        const int slot = entries + __popc(starts & ((1u << lane) - 1));
        const bool first = starts >> lane & 1;
        const bool last = full && first && slot == room_ - 1;
        const int repeats = last ? left - lane : __ffs(~(joins >> lane >> 1));
        if (first && slot < room_)
            write(row, slot, window - (Variant::kReverse ? repeats - 1 : 0), repeats, bits, last);

        const unsigned cut = __ballot_sync(~0u, last);
        const int end = cut ? __ffs(cut) - 1 : 32;
        count += __reduce_add_sync(~0u, lane < end ? __popc(any) : 0);
        if (cut)
            count += 32 * (left - end);
        entries = min(total, room_);
        return !full;
    }

    int count, entries;

  private:
    FACC_FN void write(const TileRow &row, int slot, int window, int repeats,
                       const facc_schedule_bits (&bits)[kGroups], bool all) const
    {
        unsigned char *at = list_ + slot * bytes_;
        *reinterpret_cast<facc_schedule_entry *>(at) = facc_schedule_entry{window, repeats};
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            const unsigned rest = row.has_rows(g) ? ~0u : 0u;
            if (g < groups_)
                reinterpret_cast<facc_schedule_bits *>(at + 8)[g] =
                    all ? facc_schedule_bits{rest, rest} : bits[g];
        }
    }

    unsigned char *list_;
    int groups_, bytes_, room_;
};

// By a warp.
FACC_FN void list_tiles(const KernelArgs &args, const TileRow &row, int id, EntryList &list)
{
    const int first = row.first_window(), windows = row.windows();
#pragma unroll 1
    for (int i = 0; i < windows; i += 32) {
        const int at = i + static_cast<int>(threadIdx.x % 32); // in the order of visits
        const int window = Variant::kReverse ? first + windows - 1 - at : first + at;
        facc_schedule_bits bits[kGroups];
        if constexpr (kScans) {
#pragma unroll
            for (int g = 0; g < kGroups; ++g) {
                const long long of_row = id * static_cast<long long>(args.schedule.windows);
                bits[g] = at < windows && g < args.tiling.groups
                              ? args.schedule.scan[(of_row + window) * args.tiling.groups + g]
                              : facc_schedule_bits{0, 0};
            }
        } else {
            judge_windows(args, row, window, at < windows, bits);
        }
        if (!list.append(row, window, windows - i, bits))
            break;
    }
}

// One warp per row.
extern "C" __global__ void __launch_bounds__(FACC_PREPARE_THREADS)
    facc_schedule(const __grid_constant__ KernelArgs args)
{
    start_of_maker();
    const int id = blockIdx.x * (FACC_PREPARE_THREADS / 32) + threadIdx.x / 32;
    if (id >= args.schedule.max_rows)
        return;
    const TileRow row(args, id);
    struct facc_schedule_row out = {row.b, row.h, row.tile, 0, 0, 0};
    if (row.tile >= 0) {
        out.count = row.reach.end - row.reach.first;
        if constexpr (kListed) {
            EntryList list(args, id);
            list_tiles(args, row, id, list);
            out.count = list.count;
            out.entries = list.entries;
        }
    }
    if (threadIdx.x % 32 == 0)
        args.schedule.rows[id] = out;
}

// Row ids by the number of their KV tiles, most first; to within a 256th of the largest number, and
// by id where that is equal. A counting sort: each warp has a run of the rows, each bin of numbers
// a place for each warp.
class RowSort
{
  public:
    static constexpr int kBins = 256, kWarpsHere = FACC_ORDER_THREADS / 32;

    FACC_FN RowSort(const struct facc_schedule &s, int *ends, int most)
        : s_(s), ends_(ends), most_(most), shift_(max(0, 24 - __clz(most)))
    {
        const int run = (s.max_rows + FACC_ORDER_THREADS - 1) / FACC_ORDER_THREADS * 32;
        warp_ = threadIdx.x / 32;
        first_ = min(s.max_rows, warp_ * run);
        end_ = min(s.max_rows, first_ + run);
    }

    FACC_FN void count() const
    {
#pragma unroll 2
        for (int i = first_ + static_cast<int>(threadIdx.x % 32); i < end_; i += 32) {
            const int bin = bin_of(i);
            if (bin >= 0)
                atomicAdd(place(bin), 1);
        }
    }

    FACC_FN void scatter() const
    {
        const int lane = threadIdx.x % 32;
        int bin = bin_of(first_ + lane);
#pragma unroll 1
        for (int i = first_; i < end_; i += 32) {
            const int next = bin_of(i + 32 + lane); // its load is under way meanwhile
            const unsigned alike = __match_any_sync(~0u, bin);
            const int rank = __popc(alike & ((1u << lane) - 1));
            if (bin >= 0)
                s_.order[*place(bin) + rank] = i + lane;
            __syncwarp();
            if (bin >= 0 && rank == 0)
                *place(bin) += __popc(alike);
            __syncwarp();
            bin = next;
        }
    }

  private:
    FACC_FN int bin_of(int i) const
    {
        if (i >= end_ || s_.rows[i].tile < 0)
            return -1;
        return (most_ >> shift_) - (s_.rows[i].count >> shift_);
    }
    FACC_FN int *place(int bin) const
    {
        return ends_ + bin * kWarpsHere + warp_;
    }

    const struct facc_schedule &s_;
    int *ends_;
    int most_, shift_, warp_, first_, end_;
};

// Each value to the sum of those before it, by all threads; the sum of all.
FACC_FN int sum_before(int *values, int *sums)
{
    constexpr int kEach = RowSort::kBins * RowSort::kWarpsHere / FACC_ORDER_THREADS;
    static_assert(RowSort::kWarpsHere == 32, "a lane for each warp");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int *mine = values + threadIdx.x * kEach, own[kEach];
    int before = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        own[i] = mine[i];
        before += own[i];
    }
    const int all_own = before;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(~0u, before, d);
        before += lane >= d ? other : 0;
    }
    if (lane == 31)
        sums[warp] = before;
    __syncthreads();
    const int of_warp = sums[lane];
    before += __reduce_add_sync(~0u, lane < warp ? of_warp : 0) - all_own;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        mine[i] = before;
        before += own[i];
    }
    __syncthreads();
    return __reduce_add_sync(~0u, of_warp);
}

extern "C" __global__ void __launch_bounds__(FACC_ORDER_THREADS)
    facc_order(const __grid_constant__ KernelArgs args)
{
    start_of_maker();
    __shared__ int ends[RowSort::kBins * RowSort::kWarpsHere];
    __shared__ int sums[RowSort::kWarpsHere], most;
    const struct facc_schedule &s = args.schedule;
    const int thread = threadIdx.x;
#pragma unroll
    for (int i = 0; i < RowSort::kBins * RowSort::kWarpsHere; i += FACC_ORDER_THREADS)
        ends[i + thread] = 0;
    if (thread == 0)
        most = 0;
    if (args.next_item && thread < 2)
        args.next_item[thread] = 0;
    __syncthreads();
    int top = 0;
#pragma unroll 1
    for (int i = thread; i < s.max_rows; i += FACC_ORDER_THREADS)
        top = max(top, s.rows[i].count);
    top = __reduce_max_sync(~0u, top);
    if (thread % 32 == 0)
        atomicMax(&most, top);
    __syncthreads();
    const RowSort sort(s, ends, most);
    sort.count();
    __syncthreads();
    const int rows = sum_before(ends, sums);
    sort.scatter();
#pragma unroll 1
    for (int i = rows + thread; i < s.max_rows; i += FACC_ORDER_THREADS)
        s.order[i] = -1;
}

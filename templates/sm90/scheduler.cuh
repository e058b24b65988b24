// Which query tiles a CTA works on: one warp finds them, describes them for all others, and loads
// their Q.
#pragma once
#include "common/blocks.cuh"
#include "common/items.cuh"
#include "common/overlap.cuh"
#include "sm90/shape.cuh"

// A fixed order of items that gives all CTAs about the same work where work falls evenly from the
// last query tile of a head to the first, or is the same in all (at S 8,192 within 0.1 % of handing
// out the longest first, at most 0.8 % on shapes that a counter balances). First the tiles of whole
// heads in pairs of the last and the first that are left, CTA by CTA; then the tiles of the last
// heads longest first: one to each CTA that has got a pair less, then rounds to and fro.
class FixedOrder
{
  public:
    __device__ __forceinline__ explicit FixedOrder(const KernelArgs &args)
        : round_(0), second_(false)
    {
        const int ctas = gridDim.x, heads = args.B * args.H;
        const int per_head = (args.q_tiles + 1) / 2, pairs = heads * per_head;
        const int in_rounds = ctas + pairs % ctas;
        const int last = min(heads, (in_rounds + per_head - 1) / per_head);
        first_of_last_ = (heads - last) / together(args) * together(args);
        pairs_ = first_of_last_ * per_head;
    }

    // tile -1: there are no more.
    __device__ __forceinline__ Item next(const KernelArgs &args)
    {
        const int ctas = gridDim.x, cta = blockIdx.x, tiles = args.q_tiles, n = together(args);
        if constexpr (!kMasks) { // all the same work: head by head, for few K and V at a time
            const int number = round_++ * ctas + cta;
            return number < args.num_work
                       ? item(args, number / (tiles * n) * n + number % n, number / n % tiles)
                       : Item{0, 0, -1, 0};
        }
        const int pair = round_ * ctas + cta;
        if (pair < pairs_) {
            const int per_head = (tiles + 1) / 2, head = pair / (per_head * n) * n + pair % n;
            const int low = pair / n % per_head, high = tiles - 1 - low;
            const int tile = second_ ? low : high;
            second_ = !second_ && low != high;
            round_ += !second_;
            return item(args, head, tile);
        }
        const int extra = pairs_ % ctas, full = pairs_ / ctas;
        const int heads = args.B * args.H - first_of_last_;
        int place;
        if (extra > 0 && round_ == full) {
            place = cta - extra; // not for those with one pair more, which are a round ahead
        } else {
            const int rounds = round_ - full - (extra > 0);
            place = (extra > 0 ? ctas - extra : 0) + rounds * ctas +
                    (rounds % 2 ? cta : ctas - 1 - cta);
        }
        ++round_;
        if (heads == 0 || place >= heads * tiles)
            return Item{0, 0, -1, 0};
        return item(args, first_of_last_ + place % heads, tiles - 1 - place / heads);
    }

  private:
    // Heads whose tiles take turns. Planes (plane.cuh) are mostly the same for all b: read at once,
    // they come from DRAM once.
    static __device__ __forceinline__ int together(const KernelArgs &args)
    {
        return !kPlanes ? 1 : args.B % 4 == 0 ? 4 : args.B % 3 == 0 ? 3 : 2 - args.B % 2;
    }
    static __device__ __forceinline__ Item item(const KernelArgs &args, int head, int tile)
    {
        return kPlanes ? Item{head % args.B, head / args.B, tile, 0}
                       : Item{head / args.H, head % args.H, tile, 0};
    }

    int first_of_last_, pairs_, round_;
    bool second_;
};

// Items by a schedule: numbers are handed out by a counter, most work first. By a warp.
class Counter
{
  public:
    __device__ __forceinline__ explicit Counter(const KernelArgs &) : first_(true), id_(0) {}

    __device__ __forceinline__ Item next(const KernelArgs &args)
    {
        for (;;) {
            int number = blockIdx.x;
            if (!first_) {
                if (threadIdx.x % 32 == 0)
                    number = gridDim.x + atomicAdd(args.next_item, 1);
                number = __shfl_sync(~0u, number, 0);
            }
            first_ = false;
            if (number >= args.num_work)
                return Item{0, 0, -1, 0};
            const Turn turn = find_turn(args, number, args.section_heads, args.last_section);
            id_ = args.schedule.order[turn.place];
            const Item item = scheduled_item(args, turn.head, id_);
            if (item.tile >= 0)
                return item;
        }
    }
    // Of the row of the last item.
    __device__ __forceinline__ int id() const { return id_; }

    // Once there are no more: the last CTA makes the counter ready for another launch.
    static __device__ __forceinline__ void close(const KernelArgs &args)
    {
        if (threadIdx.x % 32 == 0 &&
            atomicAdd(args.next_item + 1, 1) == static_cast<int>(gridDim.x) - 1) {
            args.next_item[0] = 0;
            args.next_item[1] = 0;
        }
    }

  private:
    bool first_;
    int id_;
};

__device__ __forceinline__ void describe(const KernelArgs &args, const Item &item, int id, Work &w)
{
    const Sequence sequence = sequence_of(args, item.b);
    w.b = item.b;
    w.h = item.h;
    w.q0 = item.tile * kTileM;
    w.q_rows = sequence.rows;
    w.q_len = sequence.q_len;
    w.kv_len = sequence.kv_len;
    w.q_start = static_cast<int>(sequence.q_start);
    w.kv_start = static_cast<int>(sequence.kv_start);
    const int kv_head = item.h / args.group;
    w.k_h = args.k_stride[1] ? kv_head : 0;
    w.k_b = args.k_stride[0] ? item.b : 0;
    w.v_h = args.v_stride[1] ? kv_head : 0;
    w.v_b = args.v_stride[0] ? item.b : 0;
    w.o = static_cast<char *>(args.o) + (kOutElement == kElementF32 ? 4 : 2) *
                                            (item.b * args.o_stride[0] + item.h * args.o_stride[1] +
                                             w.q_start * args.o_stride[2]);
    w.lse = args.lse ? args.lse + item.b * args.lse_stride[0] + item.h * args.lse_stride[1] +
                           w.q_start * args.lse_stride[2]
                     : 0;
    w.foreign = args.cu_seqlens_q || args.seqused_q || args.seqused_kv || Work::kForeign;
    describe_fp8(args, w, w);
    w.t = Variant::tile(args, item.b, item.h);
    w.find_extra(args, w.t);
    w.find_plane(args, w.t);
    if constexpr (kBlockMask)
        w.classes = block_classes_of(args, item.b, item.h);
    if constexpr (kListed) {
        const int room = args.schedule.max_entries * (1 + kGroups);
        w.n_entries = item.n_entries;
        w.entries = reinterpret_cast<const uint2 *>(args.schedule.entries) +
                    static_cast<long long>(id) * room;
        prefetch(w.entries);
    }
}

__device__ __forceinline__ void load_q(const KernelArgs &args, const Control &c, const Tiles &tiles,
                                       const Work &w, unsigned item)
{
    const unsigned buffer = item % kQBuffers;
    const int b = args.q_stride[0] ? w.b : 0, h = args.q_stride[1] ? w.h : 0;
#pragma unroll 1
    for (int g = 0; g < kGroups; ++g) {
        const unsigned full = c.q_full[buffer][g].address();
        c.q_empty[buffer][g].wait_empty(item, kQBuffers);
        mbarrier_expect(full, kHeadBytesQ + extra_bytes(kRowsPerGroup));
#pragma unroll
        for (int p = 0; p < kPanels; ++p)
            tma_load(tiles.q(buffer, g) + p * kRowsPerGroup * kRowBytesQK, args.tensor_map[0], full,
                     kPanelColumns * p, w.q_start + w.q0 + kRowsPerGroup * g, h, b);
        load_extra<kRowsPerGroup>(args, 0, tiles.q(buffer, g) + kHeadBytesQ, full, w.extra_q(),
                                  w.q0 + kRowsPerGroup * g);
    }
}

// In the slots of its Q, which are empty. By one warp.
__device__ __forceinline__ void make_rows(const KernelArgs &args, Control &c, const Work &w,
                                          unsigned item)
{
    const unsigned buffer = item % kQBuffers;
    for (int r = threadIdx.x % 32; r < kTileM; r += 32)
        c.row[buffer * kTileM + r] = Variant::row(args, w.t, w.q0 + r);
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
        c.q_full[buffer][g].arrive();
}

// True: descriptions read no memory, so that the first is there when the launch before is over.
__device__ __forceinline__ bool described_early(const KernelArgs &args)
{
    return !FACC_SCHEDULED && !kFp8 && kNumTensors == 0 && !args.cu_seqlens_q && !args.seqused_q &&
           !args.seqused_kv;
}

// By one warp.
__device__ __forceinline__ void schedule_items(const KernelArgs &args, Control &c,
                                               const Tiles &tiles)
{
    const int lane = threadIdx.x % 32;
    FixedOrder order(args);
    Counter counter(args);
    tma_prefetch_map(args.tensor_map[0]);
    prefetch_extra(args, 0);
    if (!described_early(args))
        wait_for_launches_before();
#pragma unroll 1
    for (unsigned i = 0;; ++i) {
        Work &w = c.item[i % kItems];
        if (i > 0)
            c.started.wait_full(i - 1, 1); // late, so that counters hand out the last ones fairly
        Item item;
        if constexpr (FACC_SCHEDULED)
            item = counter.next(args);
        else
            item = order.next(args);
        c.item_empty[i % kItems].wait_empty(i, kItems);
        if (lane == 0) {
            w.tile = item.tile;
            if (item.tile >= 0)
                describe(args, item, counter.id(), w);
        }
        __syncwarp();
        if constexpr (kBlockScales)
            if (item.tile >= 0)
                describe_blocks(args, w, w);
        if (i == 0)
            wait_for_launches_before();
        c.item_full[i % kItems].arrive();
        if (item.tile < 0)
            break;
        if (lane == 0)
            load_q(args, c, tiles, w, i);
        __syncwarp();
        if constexpr (kRowsShared)
            make_rows(args, c, w, i);
    }
    let_next_launch_start();
    if constexpr (FACC_SCHEDULED)
        Counter::close(args);
}

// Which query tiles a CTA works on: one warp finds them, describes them for all others, and loads
// their Q.
#pragma once
#include "common/blocks.cuh"
#include "common/items.cuh"
#include "sm90/shape.cuh"

// Numbers of items for this CTA: handed out by a counter, or in a fixed order.
class Queue
{
  public:
    __device__ __forceinline__ Queue() : round_(0) {}

    // The next one, or -1. By a warp; all lanes get it.
    __device__ __forceinline__ int next(const KernelArgs &args)
    {
        int number = blockIdx.x;
        if (args.next_item) {
            if (round_ > 0) {
                if (threadIdx.x % 32 == 0)
                    number = gridDim.x + atomicAdd(args.next_item, 1);
                number = __shfl_sync(~0u, number, 0);
            }
            ++round_;
            return number < args.num_work ? number : -1;
        }
        return fixed(args);
    }

    // Once no number is left: the last CTA makes the counter ready for another launch.
    __device__ __forceinline__ void close(const KernelArgs &args) const
    {
        if (args.next_item && threadIdx.x % 32 == 0 &&
            atomicAdd(args.next_item + 1, 1) == static_cast<int>(gridDim.x) - 1) {
            args.next_item[0] = 0;
            args.next_item[1] = 0;
        }
    }

  private:
    // Items of a section come most work first; CTAs take them in rounds, every other round (and
    // section) in the opposite order, so that all get about the same work.
    __device__ __forceinline__ int fixed(const KernelArgs &args)
    {
        const int ctas = gridDim.x;
        const int number = round_ * ctas + static_cast<int>(round_ % 2 ? ctas - 1 - blockIdx.x
                                                                       : blockIdx.x);
        ++round_;
        return number < args.num_work ? number : -1;
    }

    int round_;
};

__device__ __forceinline__ Item item_of(const KernelArgs &args, int number, int &id)
{
    if (kListed || args.schedule.rows) {
        const Turn turn = find_turn(args, number, args.section_heads);
        id = args.schedule.order[turn.place];
        return scheduled_item(args, turn.head, id);
    }
    return plain_item(args, number, args.section_heads);
}

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
    w.foreign = args.cu_seqlens_q || args.seqused_q || args.seqused_kv;
    w.t = Variant::tile(args, item.b, item.h);
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
        mbarrier_expect(full, kBytesQ);
#pragma unroll
        for (int p = 0; p < kPanels; ++p)
            tma_load(tiles.q(buffer, g) + p * kRowsPerGroup * kRowBytes, args.tensor_map[0], full,
                     64 * p, w.q_start + w.q0 + kRowsPerGroup * g, h, b);
    }
}

// By one warp.
__device__ __forceinline__ void schedule_items(const KernelArgs &args, Control &c,
                                               const Tiles &tiles)
{
    const int lane = threadIdx.x % 32;
    Queue queue;
    tma_prefetch_map(args.tensor_map[0]);
#pragma unroll 1
    for (unsigned i = 0;; ++i) {
        Work &w = c.item[i % kItems];
        if (i > 0)
            c.started.wait_full(i - 1, 1); // late, so that counters hand out the last ones fairly
        Item item{0, 0, -1, 0};
        int id = 0, number;
        while ((number = queue.next(args)) >= 0) {
            item = item_of(args, number, id);
            if (item.tile >= 0)
                break;
        }
        c.item_empty[i % kItems].wait_empty(i, kItems);
        if (lane == 0) {
            w.tile = number < 0 ? -1 : item.tile;
            if (number >= 0)
                describe(args, item, id, w);
        }
        __syncwarp();
        if constexpr (kHasRows)
            if (number >= 0)
                for (int r = lane; r < kTileM; r += 32)
                    w.row[r] = Variant::row(args, w.t, w.q0 + r);
        c.item_full[i % kItems].arrive_warp();
        if (number < 0)
            break;
        if (lane == 0)
            load_q(args, c, tiles, w, i);
        __syncwarp();
    }
    queue.close(args);
}

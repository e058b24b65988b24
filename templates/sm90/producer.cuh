// Which KV tiles an item visits, and their loads: K one tile ahead of V, across items too.
#pragma once
#include "common/tile_row.cuh"
#include "sm90/scheduler.cuh"

// The windows of an item that hold work, by its schedule's list. An entry is read ahead, a word by
// each lane.
class ListedSegments
{
  public:
    __device__ __forceinline__ ListedSegments(const KernelArgs &, const Work &w)
        : entries_(w.entries), entry_(0), n_entries_(w.n_entries), repeat_(0)
    {
        read(0);
    }

    // False: there are no more. All lanes get it.
    __device__ __forceinline__ bool next(Segment &s)
    {
        if (entry_ >= n_entries_)
            return false;
        const int first = __shfl_sync(~0u, word_.x, 0), repeats = __shfl_sync(~0u, word_.y, 0);
        s.window = first + (Variant::kReverse ? repeats - 1 - repeat_ : repeat_);
        s.any = 0;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            s.group[g].work = __shfl_sync(~0u, word_.x, 1 + g);
            s.group[g].masked = __shfl_sync(~0u, word_.y, 1 + g);
            s.any |= s.group[g].work;
        }
        if (++repeat_ == repeats) {
            repeat_ = 0;
            read(++entry_);
        }
        return true;
    }

  private:
    __device__ __forceinline__ void read(int entry)
    {
        const int lane = threadIdx.x % 32;
        if (entry < n_entries_ && lane <= kGroups)
            word_ = entries_[entry * (1 + kGroups) + lane];
    }

    const uint2 *entries_;
    uint2 word_;
    int entry_, n_entries_, repeat_;
};

// The same by the mask's plain bounds.
class BoundedSegments
{
  public:
    __device__ __forceinline__ BoundedSegments(const KernelArgs &args, const Work &w)
        : args_(args), row_(args, w.t, w.b, w.h, w.tile, w.q_len, w.kv_len),
          window_(Variant::kReverse ? (row_.reach.end + 31) / 32 - 1 : row_.reach.first / 32),
          left_(row_.windows())
    {
    }

    __device__ __forceinline__ bool next(Segment &s)
    {
        while (left_ > 0) {
            s.window = window_;
            judge_tiles(args_, row_, window_, s.group);
            window_ += Variant::kReverse ? -1 : 1;
            --left_;
            s.any = 0;
#pragma unroll
            for (int g = 0; g < kGroups; ++g)
                s.any |= s.group[g].work;
            if (s.any)
                return true;
        }
        return false;
    }

  private:
    const KernelArgs &args_;
    TileRow row_;
    int window_, left_;
};

template <bool kFromList> struct SegmentsOf {
    using Type = BoundedSegments;
};
template <> struct SegmentsOf<true> {
    using Type = ListedSegments;
};
using Segments = SegmentsOf<kListed>::Type;

// Bits of a window in the order of visits.
__device__ __forceinline__ int take_bit(unsigned &bits)
{
    const int bit = Variant::kReverse ? 31 - __clz(bits) : __ffs(bits) - 1;
    bits &= ~(1u << bit);
    return bit;
}

// Tells the readers of segments; by a warp.
class SegmentWriter
{
  public:
    __device__ __forceinline__ SegmentWriter(Control &c) : c_(c), n_(0) {}

    __device__ __forceinline__ void write(const Segment &s)
    {
        const int slot = n_ % kSegments;
        c_.segment_empty[slot].wait_empty(n_, kSegments);
        if (threadIdx.x % 32 == 0) {
            c_.segment[slot] = s;
            c_.segment_full[slot].arrive();
        }
        ++n_;
    }

    __device__ __forceinline__ void write(SegmentKind kind)
    {
        Segment s = {};
        s.kind = kind;
        write(s);
    }

  private:
    Control &c_;
    int n_;
};

// Where a tile of K or V comes from.
struct Source {
    int row, h, b;
};

class Loader
{
  public:
    __device__ __forceinline__ Loader(const KernelArgs &args, Control &c, const Tiles &tiles)
        : args_(args), c_(c), tiles_(tiles), n_(0)
    {
        tma_prefetch_map(args.tensor_map[1]);
        tma_prefetch_map(args.tensor_map[2]);
    }

    // K of a tile, then V of the one before it. By one lane.
    __device__ __forceinline__ void load(const Source &s)
    {
        start<kPanels>(c_.k_full, c_.k_empty, tiles_.k(n_ % kStages), args_.tensor_map[1], n_, s,
                       args_.k_stride);
        flush();
        last_ = s;
        ++n_;
    }

    // V of the last tile.
    __device__ __forceinline__ void flush()
    {
        if (n_ > 0)
            start<kPanelsV>(c_.v_full, c_.v_empty, tiles_.v((n_ - 1) % kStages),
                            args_.tensor_map[2], n_ - 1, last_, args_.v_stride);
    }

  private:
    template <int kTilePanels>
    __device__ __forceinline__ static void start(Barrier (&full)[kStages], Barrier (&empty)[kStages],
                                                 unsigned dst, const void *map, int n,
                                                 const Source &s, const long long (&stride)[3])
    {
        const unsigned barrier = full[n % kStages].address();
        empty[n % kStages].wait_empty(n, kStages);
        mbarrier_expect(barrier, kTilePanels * kTileN * kRowBytes);
#pragma unroll
        for (int p = 0; p < kTilePanels; ++p)
            tma_load(dst + p * kTileN * kRowBytes, map, barrier, 64 * p, s.row, stride[1] ? s.h : 0,
                     stride[0] ? s.b : 0);
    }

    const KernelArgs &args_;
    Control &c_;
    const Tiles &tiles_;
    int n_; // tiles whose K has been asked for
    Source last_;
};

// By one warp.
__device__ __forceinline__ void load_tiles(const KernelArgs &args, Control &c, const Tiles &tiles)
{
    const int lane = threadIdx.x % 32;
    SegmentWriter segments(c);
    Loader loader(args, c, tiles);
#pragma unroll 1
    for (int i = 0;; ++i) {
        c.item_full[i % kItems].wait_full(i, kItems);
        const Work &w = c.item[i % kItems];
        if (lane == 0)
            c.started.arrive();
        if (w.tile < 0)
            break;
        const int h = w.h / args.group, b = w.b, kv_start = w.kv_start;
        Segments windows(args, w);
        Segment s = {};
        s.kind = kSegmentTiles;
        while (windows.next(s)) {
            if (s.any == 0)
                continue;
            segments.write(s);
            for (unsigned any = s.any; any;) {
                const int tile = 32 * s.window + take_bit(any);
                if (lane == 0)
                    loader.load(Source{kv_start + tile * kTileN, h, b});
                __syncwarp();
            }
        }
        segments.write(kSegmentEnd);
        c.item_empty[i % kItems].arrive_warp();
    }
    if (lane == 0)
        loader.flush();
    __syncwarp();
    segments.write(kSegmentStop);
}

// Makes the tables of each tile that is loaded, in the slot of its V. By one warp.
__device__ __forceinline__ void make_tables(const KernelArgs &args, Control &c)
{
    int load = 0, item = 0;
#pragma unroll 1
    for (int n = 0;; ++n) {
        const Barrier &full = c.segment_full[n % kSegments];
        full.wait_full(n, kSegments);
        const Segment s = c.segment[n % kSegments];
        c.segment_empty[n % kSegments].arrive_warp();
        const Work &w = c.item[item % kItems];
        if (s.kind == kSegmentStop)
            break;
        if (s.kind == kSegmentEnd) {
            c.item_empty[item % kItems].arrive_warp();
            ++item;
            continue;
        }
        for (unsigned any = s.any; any; ++load) {
            const int tile = 32 * s.window + take_bit(any), slot = load % kStages;
            c.v_empty[slot].wait_empty(load, kStages);
            c.stage.fill<32>(args, w.t, w.q0, tile * kTileN, slot);
            c.table_full[slot].arrive_warp();
        }
    }
}

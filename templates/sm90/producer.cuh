// Which KV tiles an item visits, and their loads: K one tile ahead of V, across items too.
#pragma once
#include "common/tile_row.cuh"
#include "sm90/scheduler.cuh"

// The windows of an item that hold work, by its schedule's list. An entry is read ahead, a word by
// each lane. Here and below, what is known of the item is read from shared memory each time:
// producers have few registers.
class ListedSegments
{
  public:
    __device__ __forceinline__ ListedSegments(const KernelArgs &, const Work &w)
        : w_(w), entry_(0), repeat_(0)
    {
        read();
    }

    // False: there are no more. All lanes get it.
    __device__ __forceinline__ bool next(Segment &s)
    {
        if (entry_ >= w_.n_entries)
            return false;
        const int first = __shfl_sync(~0u, word_.x, 0), repeats = __shfl_sync(~0u, word_.y, 0);
        s.window = first + (Variant::kReverse ? repeats - 1 - repeat_ : repeat_);
        s.any = 0;
        // Lists that were too long go on behind the end.
        const int left = (w_.kv_len + kTileN - 1) / kTileN - 32 * s.window;
        const unsigned exist = left >= 32 ? ~0u : (1u << max(left, 0)) - 1;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            s.group[g].work = __shfl_sync(~0u, word_.x, 1 + g) & exist;
            s.group[g].masked = __shfl_sync(~0u, word_.y, 1 + g);
            s.any |= s.group[g].work;
        }
        if (++repeat_ == repeats) {
            repeat_ = 0;
            ++entry_;
            read();
        }
        s.kind = entry_ >= w_.n_entries ? kSegmentLastTiles : kSegmentTiles;
        return true;
    }

  private:
    __device__ __forceinline__ void read()
    {
        const int lane = threadIdx.x % 32;
        if (entry_ < w_.n_entries && lane <= kGroups)
            word_ = w_.entries[entry_ * (1 + kGroups) + lane];
    }

    const Work &w_;
    uint2 word_;
    int entry_, repeat_;
};

// The same by the mask's plain bounds.
class BoundedSegments
{
  public:
    __device__ __forceinline__ BoundedSegments(const KernelArgs &args, const Work &w)
        : args_(args), w_(w)
    {
        const TileRow r = row();
        window_ = Variant::kReverse ? (r.reach.end + 31) / 32 - 1 : r.reach.first / 32;
        left_ = r.windows();
    }

    __device__ __forceinline__ bool next(Segment &s)
    {
#pragma unroll 1
        while (left_ > 0) {
            s.window = window_;
            judge_tiles(args_, row(), window_, s.group);
            window_ += Variant::kReverse ? -1 : 1;
            --left_;
            s.any = 0;
#pragma unroll
            for (int g = 0; g < kGroups; ++g)
                s.any |= s.group[g].work;
            s.kind = s.any && left_ == 0 ? kSegmentLastTiles : kSegmentTiles;
            if (s.any)
                return true;
        }
        return false;
    }

  private:
    __device__ __forceinline__ TileRow row() const
    {
        return TileRow(args_, w_.t, w_.b, w_.h, w_.tile, w_.q_len, w_.kv_len);
    }

    const KernelArgs &args_;
    const Work &w_;
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
        const unsigned slot = n_ % kSegments;
        if (threadIdx.x % 32 == 0) { // another lane could come too late for the phase
            c_.segment_empty[slot].wait_empty(n_, kSegments);
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
    unsigned n_;
};

// By one lane.
class Loader
{
  public:
    __device__ __forceinline__ Loader(const KernelArgs &args, Control &c, const Tiles &tiles)
        : args_(args), c_(c), tiles_(tiles), n_(0), v_waits_(false)
    {
        tma_prefetch_map(args.tensor_map[1]);
        tma_prefetch_map(args.tensor_map[2]);
    }

    // K of the tile from that row on, then V of the one before it.
    __device__ __forceinline__ void load(const Work &w, int row)
    {
        const Source s{row, args_.k_stride[1] ? w.h / args_.group : 0, w.b};
        start<kPanels>(c_.k_full, c_.k_empty, tiles_.k(n_ % kStages), args_.tensor_map[1], n_, s,
                       args_.k_stride[0]);
        flush();
        c_.last = Source{row, args_.v_stride[1] ? w.h / args_.group : 0, w.b};
        v_waits_ = true;
        ++n_;
    }

    // V of the last tile, if it has not been asked for: where nobody knows when the next K comes.
    __device__ __forceinline__ void flush()
    {
        if (v_waits_)
            start<kPanelsV>(c_.v_full, c_.v_empty, tiles_.v((n_ - 1) % kStages),
                            args_.tensor_map[2], n_ - 1, c_.last, args_.v_stride[0]);
        v_waits_ = false;
    }

  private:
    template <int kTilePanels>
    __device__ __forceinline__ void start(Barrier (&full)[kStages], Barrier (&empty)[kStages],
                                          unsigned dst, const void *map, unsigned n,
                                          const Source &s, long long stride_b) const
    {
        const unsigned barrier = full[n % kStages].address();
        empty[n % kStages].wait_empty(n, kStages);
        mbarrier_expect(barrier, kTilePanels * kTileN * kRowBytes);
#pragma unroll
        for (int p = 0; p < kTilePanels; ++p)
            tma_load(dst + p * kTileN * kRowBytes, map, barrier, 64 * p, s.row, s.h,
                     stride_b ? s.b : 0);
    }

    const KernelArgs &args_;
    Control &c_;
    const Tiles &tiles_;
    unsigned n_;   // tiles whose K has been asked for
    bool v_waits_; // V of the last one, from c_.last, has not
};

// By one warp.
__device__ __forceinline__ void load_tiles(const KernelArgs &args, Control &c, const Tiles &tiles)
{
    const int lane = threadIdx.x % 32;
    SegmentWriter segments(c);
    Loader loader(args, c, tiles);
#pragma unroll 1
    for (unsigned i = 0;; ++i) {
        c.item_full[i % kItems].wait_full(i, kItems);
        const Work &w = c.item[i % kItems];
        if (lane == 0)
            c.started.arrive();
        if (w.tile < 0)
            break;
        Segments windows(args, w);
        Segment s = {};
        int told = kSegmentEnd; // of the item, last
#pragma unroll 1
        while (windows.next(s)) {
            if (s.any == 0)
                continue;
            segments.write(s);
            told = s.kind;
#pragma unroll 1
            while (s.any) {
                const int tile = 32 * s.window + take_bit(s.any);
                if (lane == 0)
                    loader.load(w, w.kv_start + tile * kTileN);
                __syncwarp();
            }
        }
        // Consumers may have to finish what they hold before they pass an item without tiles.
        if (told == kSegmentEnd && lane == 0)
            loader.flush();
        __syncwarp();
        if (told != kSegmentLastTiles)
            segments.write(kSegmentEnd);
        c.item_empty[i % kItems].arrive_warp();
    }
    if (lane == 0)
        loader.flush();
    __syncwarp();
    segments.write(kSegmentStop);
}

// Makes the tables of each tile that is loaded, in the slot of its V. By the last warps of the CTA.
__device__ __forceinline__ void make_tables(const KernelArgs &args, Control &c)
{
    unsigned load = 0, item = 0;
#pragma unroll 1
    for (unsigned n = 0;; ++n) {
        const Barrier &full = c.segment_full[n % kSegments];
        full.wait_full(n, kSegments);
        const Segment s = c.segment[n % kSegments];
        c.segment_empty[n % kSegments].arrive_warp();
        const Work &w = c.item[item % kItems];
        if (s.kind == kSegmentStop)
            break;
#pragma unroll 1
        for (unsigned any = s.any; any; ++load) {
            const int tile = 32 * s.window + take_bit(any);
            const unsigned slot = load % kStages;
            c.v_empty[slot].wait_empty(load, kStages);
            c.stage.fill<32 * kTableWarps>(args, w.t, w.q0, tile * kTileN, static_cast<int>(slot));
            c.table_full[slot].arrive_warp();
        }
        if (s.kind != kSegmentTiles) {
            c.item_empty[item % kItems].arrive_warp();
            ++item;
        }
    }
}

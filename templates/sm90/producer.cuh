// Which KV tiles an item visits, and their loads: one warp finds them, tells of them in runs and
// loads K; those that load V and make tables follow its runs, as consumers do. Where V is
// transposed here, that first warp loads it, too, and those that follow transpose it.
#pragma once
#include "common/tile_row.cuh"
#include "sm90/scheduler.cuh"

// A window: 32 KV tiles of an item, from tile 32 * window on.
struct Window {
    int window;
    unsigned any;              // tiles that some group works on: these are loaded
    facc_schedule_bits *group; // written and read by lane 0

    __device__ __forceinline__ void set(int g, facc_schedule_bits bits)
    {
        any |= bits.work;
        if (threadIdx.x % 32 == 0)
            group[g] = bits;
    }
};

// The windows of an item that hold work, by its schedule's list. An entry is read ahead, a word by
// each lane. Here and below, what is known of the item is read from shared memory each time:
// producers have few registers.
class ListedWindows
{
  public:
    __device__ __forceinline__ ListedWindows(const KernelArgs &, const Work &w)
        : w_(w), entry_(0), repeat_(0)
    {
        read();
    }

    // False: there are no more. All lanes get it.
    __device__ __forceinline__ bool next(Window &s)
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
            const unsigned work = __shfl_sync(~0u, word_.x, 1 + g) & exist;
            s.set(g, facc_schedule_bits{work, __shfl_sync(~0u, word_.y, 1 + g)});
        }
        if (++repeat_ == repeats) {
            repeat_ = 0;
            ++entry_;
            read();
        }
        return true;
    }

    __device__ __forceinline__ bool over() const
    {
        return entry_ >= w_.n_entries;
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
class BoundedWindows
{
  public:
    __device__ __forceinline__ BoundedWindows(const KernelArgs &args, const Work &w)
        : args_(args), w_(w)
    {
        const TileRow r = row();
        window_ = Variant::kReverse ? (r.reach.end + 31) / 32 - 1 : r.reach.first / 32;
        left_ = r.windows();
    }

    __device__ __forceinline__ bool next(Window &s)
    {
#pragma unroll 1
        while (left_ > 0) {
            s.window = window_;
            facc_schedule_bits bits[kGroups];
            judge_tiles(args_, row(), window_, bits);
            window_ += Variant::kReverse ? -1 : 1;
            --left_;
            s.any = 0;
#pragma unroll
            for (int g = 0; g < kGroups; ++g)
                s.set(g, bits[g]);
            if (s.any)
                return true;
        }
        return false;
    }

    __device__ __forceinline__ bool over() const
    {
        return left_ == 0;
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

template <bool kFromList> struct WindowsOf {
    using Type = BoundedWindows;
};
template <> struct WindowsOf<true> {
    using Type = ListedWindows;
};
using Windows = WindowsOf<kListed>::Type;

// Bits from `bit` on, in the order of visits.
__device__ __forceinline__ unsigned in_order(unsigned bits, int bit)
{
    return Variant::kReverse ? __brev(bits) >> (31 - bit) : bits >> bit;
}

// Tiles from `bit` on that follow each other in the order of visits.
__device__ __forceinline__ int run_length(unsigned any, int bit)
{
    const unsigned gap = ~in_order(any, bit);
    return gap ? __ffs(gap) - 1 : 32;
}

// Those bits.
__device__ __forceinline__ unsigned run_bits(int bit, int tiles)
{
    const unsigned all = ~0u >> (32 - tiles);
    return Variant::kReverse ? __brev(all) >> (31 - bit) : all << bit;
}

// Tells the readers of runs; by a warp.
class RunWriter
{
  public:
    __device__ __forceinline__ RunWriter(Control &c) : c_(c), n_(0) {}

    // Of a window's tiles from `bit` on.
    __device__ __forceinline__ void write(RunKind kind, const Window &s, int bit, int tiles)
    {
        const unsigned slot = n_++ % kRuns;
        if (threadIdx.x % 32 != 0) // another lane could come too late for the phase
            return;
        c_.run_empty[slot].wait_empty(n_ - 1, kRuns);
        Run &run = c_.run[slot];
        run.kind = kind;
        run.tile = 32 * s.window + bit;
        run.tiles = tiles;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            run.masked[g] = in_order(s.group[g].masked | ~s.group[g].work, bit);
            run.dead[g] = ~s.group[g].work;
        }
        c_.run_full[slot].arrive();
    }

    __device__ __forceinline__ void write(RunKind kind)
    {
        write(kind, Window{0, 0, c_.window}, 0, 0);
    }

  private:
    Control &c_;
    unsigned n_;
};

// By one lane: a tile of K or V, from that row on. kMore: bytes that the caller loads besides.
template <int kTilePanels, int kMore = 0, int kBytes = kRowBytes, int kColumns = 64>
__device__ __forceinline__ void load_tile(unsigned dst, const void *map, const Barrier &full,
                                          int row, int h, int b)
{
    const unsigned barrier = full.address();
    mbarrier_expect(barrier, kTilePanels * kTileN * kBytes + kMore);
#pragma unroll
    for (int p = 0; p < kTilePanels; ++p)
        tma_load(dst + p * kTileN * kBytes, map, barrier, kColumns * p, row, h, b);
}

// Where V is not transposed here; else see fp8.cuh.
__device__ __forceinline__ void load_natural(const KernelArgs &, const Work &,
                                             const NaturalBarriers<false> &, const Tiles &, int,
                                             unsigned)
{
}
__device__ __forceinline__ void transpose_natural(const Control &, const NaturalBarriers<false> &,
                                                  const Tiles &, unsigned, int)
{
}

// By one warp.
__device__ __forceinline__ void load_tiles(const KernelArgs &args, Control &c, const Tiles &tiles)
{
    const int lane = threadIdx.x % 32;
    RunWriter runs(c);
    unsigned load = 0;
    tma_prefetch_map(args.tensor_map[1]);
    prefetch_extra(args, 1);
    if constexpr (kTransposesV)
        tma_prefetch_map(args.tensor_map[2]);
#pragma unroll 1
    for (unsigned i = 0;; ++i) {
        c.item_full[i % kItems].wait_full(i, kItems);
        const Work &w = c.item[i % kItems];
        if (lane == 0)
            c.started.arrive();
        if (w.tile < 0)
            break;
        Windows windows(args, w);
        Window s{0, 0, c.window};
        int told = kRunEnd; // of the item, last
#pragma unroll 1
        while (windows.next(s)) {
#pragma unroll 1
            while (s.any) {
                const int bit = Variant::kReverse ? 31 - __clz(s.any) : __ffs(s.any) - 1;
                int left = run_length(s.any, bit);
                // Consumers clear what is behind the sequence where a run ends.
                if (Variant::kReverse && told == kRunEnd && w.foreign)
                    left = 1;
                s.any &= ~run_bits(bit, left);
                told = windows.over() && s.any == 0 ? kRunLastTiles : kRunTiles;
                runs.write(static_cast<RunKind>(told), s, bit, left);
                int row = w.kv_start + (32 * s.window + bit) * kTileN;
                const int h = w.k_h, b = w.k_b, start = w.kv_start;
                const ExtraPlace place = w.extra_k();
#pragma unroll 1
                for (; left > 0; --left) {
                    const unsigned slot = load % kStages;
                    if (lane == 0) {
                        c.k_empty[slot].wait_empty(load, kStages);
                        load_tile<kPanels, extra_bytes(kTileN), kRowBytesQK, kPanelColumns>(
                            tiles.k(slot), args.tensor_map[1], c.k_full[slot], row, h, b);
                        load_extra<kTileN>(args, 1, tiles.k(slot) + kHeadBytesK,
                                           c.k_full[slot].address(), place, row - start);
                        load_natural(args, w, c, tiles, row, load);
                    }
                    ++load;
                    row += Variant::kReverse ? -kTileN : kTileN;
                }
                __syncwarp();
            }
        }
        if (told != kRunLastTiles)
            runs.write(kRunEnd);
        c.item_empty[i % kItems].arrive_warp();
    }
    runs.write(kRunStop);
}

// Calls visit(w, tile, load, follows) for each tile that is loaded; follows: the one before was its
// neighbour. By one warp.
template <class Visit> __device__ __forceinline__ void follow_runs(Control &c, const Visit &visit)
{
    unsigned load = 0, item = 0;
#pragma unroll 1
    for (unsigned n = 0;; ++n) {
        c.run_full[n % kRuns].wait_full(n, kRuns);
        const Run run = c.run[n % kRuns];
        c.run_empty[n % kRuns].arrive_warp();
        if (run.kind == kRunStop)
            break;
        const Work &w = c.item[item % kItems];
#pragma unroll 1
        for (int i = 0; i < run.tiles; ++i, ++load)
            visit(w, run.tile + (Variant::kReverse ? -i : i), load, i > 0);
        if (run.kind != kRunTiles) {
            c.item_empty[item % kItems].arrive_warp();
            ++item;
        }
    }
}

__device__ __forceinline__ void load_values(const KernelArgs &args, Control &c, const Tiles &tiles)
{
    if constexpr (!kFp8)
        tma_prefetch_map(args.tensor_map[2]);
    follow_runs(c, [&](const Work &w, int tile, unsigned load, bool) {
        const unsigned slot = load % kStages;
        if constexpr (kTransposesV) {
            transpose_natural(c, c, tiles, load, 0);
        } else if (threadIdx.x % 32 == 0) {
            c.v_empty[slot].wait_empty(load, kStages);
            if constexpr (kFp8)
                load_image(w, tile, tiles.v(slot), c.v_full[slot]);
            else
                load_tile<kPanelsV>(tiles.v(slot), args.tensor_map[2], c.v_full[slot],
                                    w.kv_start + tile * kTileN, w.v_h, w.v_b);
        }
    });
}

// The other half of what load_values does, where there are no tables to make.
__device__ __forceinline__ void transpose_values(Control &c, const Tiles &tiles)
{
    follow_runs(c, [&](const Work &, int, unsigned load, bool) {
        transpose_natural(c, c, tiles, load, 1);
    });
}

// By one lane; arrives.
template <class W>
__device__ __forceinline__ void start_plane(const KernelArgs &args, const W &w, int kv0,
                                            unsigned slot, const Barrier &full)
{
    if constexpr (kPlanes) {
        if (w.is_copied())
            copy_plane(args, w, kv0, slot, full.address());
        else
            full.arrive();
    }
}

// Values of columns and diagonals, and copies.
__device__ __forceinline__ void make_tables(const KernelArgs &args, Control &c, const Tiles &tiles)
{
    follow_runs(c, [&](const Work &w, int tile, unsigned load, bool follows) {
        const unsigned slot = load % kTableSlots;
        c.table_empty[slot].wait_empty(load, kTableSlots);
        if (kPlanes && threadIdx.x % 32 == 0)
            start_plane(args, w, tile * kTileN, tiles.plane(slot), c.table_full[slot]);
        c.stage.fill_next(args, w.t, w.q0, tile * kTileN, static_cast<int>(slot), follows);
        fill_scales(args, w, w, tile * kTileN, slot, c.stage);
        c.table_full[slot].arrive();
    });
}

// Which query tile a CTA works on, and which KV tiles it visits.
#pragma once

#include "common/blocks.cuh"
#include "common/items.cuh"
#include "sm80/shape.cuh"

// Small sections keep K and V in the L2 cache; with a mask it counts more that no head's longest
// query tile starts late (32 heads, 128 x 64, H200: Longformer 0.59 ms in one section, 0.84 in
// four; a window 2 % faster; causal the same; documents 1 % slower).
constexpr int kSectionHeads = Variant::kHasMask || kBlockMask ? 32 : 8;

__device__ __forceinline__ bool aligned_16(const void *p, const long long (&stride)[3])
{
    const long long bits =
        reinterpret_cast<long long>(p) | stride[0] * 2 | stride[1] * 2 | stride[2] * 2;
    return (bits & 15) == 0;
}

__device__ __forceinline__ const char *head_address(const void *p, const long long (&stride)[3],
                                                    int b, int h)
{
    return static_cast<const char *>(p) + 2 * (b * stride[0] + h * stride[1]);
}

__device__ __forceinline__ void describe(const KernelArgs &args, const Item &item, Work &w)
{
    const int b = item.b, h = item.h, h_kv = h / args.group;
    const Sequence sequence = sequence_of(args, b);
    w.b = b;
    w.h = h;
    w.q0 = item.tile * kTileM;
    w.q_rows = sequence.rows;
    w.q_len = sequence.q_len;
    w.kv_len = sequence.kv_len;
    w.q_start = sequence.q_start;
    w.q = head_address(args.q, args.q_stride, b, h) + 2 * sequence.q_start * args.q_stride[2];
    w.k = head_address(args.k, args.k_stride, b, h_kv) + 2 * sequence.kv_start * args.k_stride[2];
    w.v = head_address(args.v, args.v_stride, b, h_kv) + 2 * sequence.kv_start * args.v_stride[2];
    w.q_aligned = aligned_16(args.q, args.q_stride);
    w.k_aligned = aligned_16(args.k, args.k_stride);
    w.v_aligned = aligned_16(args.v, args.v_stride);
    w.t = Variant::tile(args, b, h);
    w.find_extra(args, w.t);
    if constexpr (kBlockMask)
        w.classes = block_classes_of(args, b, h);
    if constexpr (!kListed) {
        const Reach reach = reach_of(args, w.t, w.q0, w.q_len, w.kv_len);
        w.first_tile = reach.first;
        w.end_tile = reach.end;
    }
}

// By all threads; the caller's barrier makes it visible.
__device__ __forceinline__ void find_work(const KernelArgs &args, Work &w)
{
    Item item;
    if (kListed || args.schedule.rows) {
        const Turn turn = find_turn(args, blockIdx.x, kSectionHeads);
        const int id = args.schedule.order[turn.place];
        item = scheduled_item(args, turn.head, id); // under way while the list is staged
        if constexpr (kListed) {
            const int room = args.schedule.max_entries * Work::kEntryWords;
            const uint2 *entries = reinterpret_cast<const uint2 *>(args.schedule.entries) +
                                   static_cast<long long>(id) * room;
            const int words = id < 0 ? 0 : min(room, Work::kStaged * Work::kEntryWords);
            for (int i = threadIdx.x; i < words; i += kThreads)
                w.staged[i] = entries[i];
            if (threadIdx.x == 0)
                w.entries = entries;
        }
        if (threadIdx.x != 0)
            return;
        w.n_entries = item.n_entries;
    } else {
        if (threadIdx.x != 0)
            return;
        item = plain_item(args, blockIdx.x, kSectionHeads);
    }
    if (item.tile < 0)
        w.q0 = -1;
    else
        describe(args, item, w);
}

// What a warp group does with a KV tile.
enum TileWork { kTileNone = 0, kTilePlain = 1, kTileMasked = 2 };

// Visits the KV tiles that may count for any row of the CTA, in one direction. Verdicts of 32 tiles
// are made at once, one by each lane; all warps of the CTA come to the same list, each group of
// warps to its own work in a tile.
class BoundsWalk
{
  public:
    __device__ __forceinline__ BoundsWalk(const Work &w, int group)
        : group_(group), window_(Variant::kReverse ? w.end_tile : w.first_tile - 32), pending_(0),
          mine_(0), partial_(0)
    {
    }

    // The next KV tile, or -1, and this group's work in it.
    __device__ __forceinline__ int next(const KernelArgs &args, const Work &w, TileWork &work)
    {
        work = kTileNone;
        while (pending_ == 0) {
            window_ += Variant::kReverse ? -32 : 32;
            if (window_ >= w.end_tile || window_ + 32 <= w.first_tile) {
                window_ = Variant::kReverse ? w.first_tile : w.end_tile; // stay at the end
                return -1;
            }
            classify(args, w);
        }
        const int bit = Variant::kReverse ? 31 - __clz(pending_) : __ffs(pending_) - 1;
        pending_ &= ~(1u << bit);
        if ((mine_ >> bit) & 1)
            work = (partial_ >> bit) & 1 ? kTileMasked : kTilePlain;
        return window_ + bit;
    }

  private:
    __device__ __forceinline__ void classify(const KernelArgs &args, const Work &w)
    {
        const int tile = window_ + static_cast<int>(threadIdx.x % 32);
        const int kv_first = tile * kTileN;
        const int kv_last = min(kv_first + kTileN, w.kv_len) - 1;
        const bool in_reach = tile >= w.first_tile && tile < w.end_tile;
        int verdict[kGroups];
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            const int q_first = w.q0 + g * kRowsPerGroup;
            const int q_last = min(q_first + kRowsPerGroup, w.q_len) - 1;
            verdict[g] = in_reach && q_first <= q_last ? kVerdictFull : kVerdictEmpty;
            if constexpr (Variant::kHasMask)
                if (verdict[g] == kVerdictFull)
                    verdict[g] = Variant::verdict(args, w.t, q_first, q_last, kv_first, kv_last);
        }
        const int any = verdict[0] == kVerdictEmpty ? verdict[kGroups - 1] : verdict[0];
        const int mine = group_ == 0 ? verdict[0] : verdict[kGroups - 1];
        const bool tail = kv_first + kTileN > w.kv_len;
        pending_ = __ballot_sync(~0u, any != kVerdictEmpty);
        mine_ = __ballot_sync(~0u, mine != kVerdictEmpty);
        partial_ = __ballot_sync(~0u, mine == kVerdictPartial || tail);
    }

    int group_;
    int window_; // tile of bit 0 of the sets below
    unsigned pending_, mine_, partial_;
};

// The same from a schedule's list. Its first entries are in shared memory, and are read from there
// for each tile: registers are scarce. Later ones are asked for ahead of time.
class ListWalk
{
  public:
    __device__ __forceinline__ ListWalk(const Work &, int group)
        : group_(group), entry_(-1), left_(0), pending_(0)
    {
    }

    __device__ __forceinline__ int next(const KernelArgs &, const Work &w, TileWork &work)
    {
        work = kTileNone;
        while (pending_ == 0) {
            if (left_ == 0 && entry_ + 1 >= w.n_entries)
                return -1;
            take_window(w);
        }
        const uint2 head = word(w, 0), own = word(w, kGroups == 1 ? 1 : 1 + group_);
        const int bit = Variant::kReverse ? 31 - __clz(pending_) : __ffs(pending_) - 1;
        pending_ &= ~(1u << bit);
        if ((own.x >> bit) & 1)
            work = (own.y >> bit) & 1 ? kTileMasked : kTilePlain;
        const int window = Variant::kReverse ? head.x + left_ : head.x + head.y - 1 - left_;
        return 32 * window + bit;
    }

  private:
    // The next window, of the same entry or the next one.
    __device__ __forceinline__ void take_window(const Work &w)
    {
        constexpr int kAheadOf = 8; // entries
        if (left_ > 0) {
            --left_;
        } else {
            ++entry_;
            left_ = static_cast<int>(word(w, 0).y) - 1;
            if (entry_ + kAheadOf >= Work::kStaged && entry_ + kAheadOf < w.n_entries)
                prefetch(w.entries + (entry_ + kAheadOf) * Work::kEntryWords);
        }
        pending_ = word(w, 1).x | word(w, kGroups).x;
    }

    // Of the entry: 0 its windows, 1 + g bits of group g.
    __device__ __forceinline__ uint2 word(const Work &w, int i) const
    {
        const int at = entry_ * Work::kEntryWords + i;
        return entry_ < Work::kStaged ? w.staged[at] : w.entries[at];
    }

    int group_;
    int entry_; // the list's, being visited
    int left_;  // windows of it that come after this one
    unsigned pending_;
};

template <bool kFromList> struct WalkOf {
    using Type = BoundsWalk;
};
template <> struct WalkOf<true> {
    using Type = ListWalk;
};
using TileWalk = WalkOf<kListed>::Type;

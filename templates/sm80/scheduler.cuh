// Which query tile a CTA works on, and which KV tiles it visits.
#pragma once

#include "sm80/shape.cuh"

// Heads are walked in sections whose K and V fit the L2 cache; inside a section the last query
// tiles of all heads go first, because under a causal mask they are the longest and would otherwise
// end the launch with a long tail.
constexpr int kSectionHeads = 8;

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

__device__ __forceinline__ void find_kv_tiles(const KernelArgs &args, Work &w)
{
    const int q_last = min(w.q0 + kTileM, w.q_len) - 1;
    int first = 0, end = q_last < w.q0 ? 0 : w.kv_len;
    if constexpr (Variant::kHasMask) {
        if (end > 0) {
            const Variant::KvRange range = Variant::kv_range(args, w.t, w.q0, q_last);
            first = max(0, min(range.first, end));
            end = max(first, min(range.end, end));
        }
    }
    w.first_tile = first / kTileN;
    w.end_tile = end > first ? (end + kTileN - 1) / kTileN : w.first_tile;
}

// By one thread.
__device__ __forceinline__ void find_work(const KernelArgs &args, Work &w)
{
    const int heads = args.B * args.H;
    const int per_section = kSectionHeads * args.q_tiles;
    const int section = blockIdx.x / per_section;
    const int rest = blockIdx.x - section * per_section;
    const int in_section = min(kSectionHeads, heads - section * kSectionHeads);
    const int tile = args.q_tiles - 1 - rest / in_section;
    const int head = section * kSectionHeads + rest % in_section;
    const int b = head / args.H, h = head % args.H, h_kv = h / args.group;

    w.b = b;
    w.h = h;
    w.q0 = tile * kTileM;
    w.q_len = args.seqused_q ? max(0, min(args.seqused_q[b], args.Sq)) : args.Sq;
    w.kv_len = args.seqused_kv ? max(0, min(args.seqused_kv[b], args.Skv)) : args.Skv;
    w.q = head_address(args.q, args.q_stride, b, h);
    w.k = head_address(args.k, args.k_stride, b, h_kv);
    w.v = head_address(args.v, args.v_stride, b, h_kv);
    w.q_aligned = aligned_16(args.q, args.q_stride);
    w.k_aligned = aligned_16(args.k, args.k_stride);
    w.v_aligned = aligned_16(args.v, args.v_stride);
    w.t = Variant::tile(args, b, h);
    find_kv_tiles(args, w);
}

// What a warp group does with a KV tile.
enum TileWork { kTileNone = 0, kTilePlain = 1, kTileMasked = 2 };

// Visits the KV tiles that may count for any row of the CTA, in one direction. Verdicts of 32 tiles
// are made at once, one by each lane; all warps of the CTA come to the same list, each group of
// warps to its own work in a tile.
class TileWalk
{
  public:
    __device__ __forceinline__ TileWalk(const Work &w, int group)
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

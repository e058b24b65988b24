// Which query tile a CTA works on, and which KV tiles it visits.
#pragma once

#include "sm80/shape.cuh"

// Heads are walked in sections whose K and V fit the L2 cache; inside a section the last query
// tiles of all heads go first, because under a causal mask they are the longest and would otherwise
// end the launch with a long tail.
constexpr int kSectionHeads = 8;

__device__ __forceinline__ Work find_work(const KernelArgs &args)
{
    const int heads = args.B * args.H;
    const int per_section = kSectionHeads * args.q_tiles;
    const int section = blockIdx.x / per_section;
    const int rest = blockIdx.x - section * per_section;
    const int in_section = min(kSectionHeads, heads - section * kSectionHeads);
    const int tile = args.q_tiles - 1 - rest / in_section;
    const int head = section * kSectionHeads + rest % in_section;

    Work w;
    w.b = head / args.H;
    w.h = head - w.b * args.H;
    w.q0 = tile * kTileM;
    w.q_len = args.seqused_q ? max(0, min(args.seqused_q[w.b], args.Sq)) : args.Sq;
    w.kv_len = args.seqused_kv ? max(0, min(args.seqused_kv[w.b], args.Skv)) : args.Skv;
    const int h_kv = w.h / args.group;
    w.q = static_cast<const char *>(args.q) + 2 * (w.b * args.q_stride[0] + w.h * args.q_stride[1]);
    w.k =
        static_cast<const char *>(args.k) + 2 * (w.b * args.k_stride[0] + h_kv * args.k_stride[1]);
    w.v =
        static_cast<const char *>(args.v) + 2 * (w.b * args.v_stride[0] + h_kv * args.v_stride[1]);
    return w;
}

// Visits the KV tiles that may count, in one direction. Verdicts of 32 tiles are made at once, one
// by each lane; all warps of the CTA come to the same list.
class TileWalk
{
  public:
    __device__ __forceinline__ TileWalk(const KernelArgs &args, const Variant::Tile &t,
                                        const Work &w)
    {
        const int q_last = min(w.q0 + kTileM, w.q_len) - 1;
        int first = 0, end = w.kv_len;
        if (q_last < w.q0) {
            end = 0;
        } else if constexpr (Variant::kHasMask) {
            const Variant::KvRange range = Variant::kv_range(args, t, w.q0, q_last);
            first = max(0, min(range.first, end));
            end = max(first, min(range.end, end));
        }
        first_ = first / kTileN;
        end_ = end > first ? (end + kTileN - 1) / kTileN : first_;
        window_ = Variant::kReverse ? end_ : first_ - 32;
        pending_ = partial_ = 0;
    }

    // The next KV tile, or -1. `masked`: some of its cells may not count.
    __device__ __forceinline__ int next(const KernelArgs &args, const Variant::Tile &t,
                                        const Work &w, bool &masked)
    {
        while (pending_ == 0) {
            window_ += Variant::kReverse ? -32 : 32;
            if (window_ >= end_ || window_ + 32 <= first_)
                return -1;
            classify(args, t, w);
        }
        const int bit = Variant::kReverse ? 31 - __clz(pending_) : __ffs(pending_) - 1;
        pending_ &= ~(1u << bit);
        masked = (partial_ >> bit) & 1;
        return window_ + bit;
    }

  private:
    __device__ __forceinline__ void classify(const KernelArgs &args, const Variant::Tile &t,
                                             const Work &w)
    {
        const int tile = window_ + static_cast<int>(threadIdx.x % 32);
        const int kv_first = tile * kTileN;
        const int kv_last = min(kv_first + kTileN, w.kv_len) - 1;
        int verdict = kVerdictEmpty;
        if (tile >= first_ && tile < end_) {
            verdict = kVerdictFull;
            if constexpr (Variant::kHasMask)
                verdict = Variant::verdict(args, t, w.q0, min(w.q0 + kTileM, w.q_len) - 1, kv_first,
                                           kv_last);
        }
        const bool tail = kv_first + kTileN > w.kv_len;
        pending_ = __ballot_sync(~0u, verdict != kVerdictEmpty);
        partial_ = __ballot_sync(~0u, verdict == kVerdictPartial || tail);
    }

    int first_, end_; // tiles in reach
    int window_;      // tile of bit 0 of the sets below
    unsigned pending_, partial_;
};

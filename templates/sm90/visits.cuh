// The KV tiles that a consumer warpgroup works on, as the producer tells of them, and the release of
// what is not for it. Other groups' tiles pass through the same slots of K and V: they must be
// waited for and let go.
#pragma once
#include "sm90/epilogue.cuh"
#include "sm90/producer.cuh"

struct Visit {
    int tile;
    int load; // its number among all loads: slot and phase of K and V
    int item;
    bool masked;
};

enum NextVisit { kNextTile, kNextBehind, kNextNone };

class Visits
{
  public:
    __device__ __forceinline__ Visits(const KernelArgs &args, Control &c, int group)
        : args_(args), c_(c), group_(group), window_(0), any_(0), mine_(0), masked_(0), loads_(0),
          segments_(0), items_(0), k_open_(0), v_open_(0), touched_(false), ended_(false)
    {
    }

    // The next visit. held: load of the one before, which still holds its V and its item. The
    // producer may wait for these before it tells of the next one: then kNextBehind, and the visit
    // before must be finished before next is asked again with held -1. open: the output of its item
    // is not written yet; then kNextBehind also when that item is over. Writes the output of items
    // without work for this group.
    __device__ __forceinline__ NextVisit next(int held, bool open, Visit &v)
    {
        while (mine_ == 0) {
            const int end = loads_ + __popc(any_);
            if (held >= 0 && end - held - 1 > kStages)
                return kNextBehind;
            if (held < 0)
                pass(end);
            loads_ = end;
            any_ = 0;
            if (!ended_) {
                if (!read_segment())
                    return kNextNone;
                continue;
            }
            if (!touched_) {
                if (held >= 0)
                    return kNextBehind;
                finish_empty();
            } else {
                release_q();
            }
            const bool closes = open && touched_;
            ended_ = touched_ = false;
            ++items_;
            if (closes)
                return kNextBehind;
        }
        const int bit = Variant::kReverse ? 31 - __clz(mine_) : __ffs(mine_) - 1;
        const unsigned upto = (2u << bit) - 1; // bits 0 .. bit
        const unsigned before = Variant::kReverse ? any_ & ~upto : any_ & (upto >> 1);
        v.load = loads_ + __popc(before);
        if (held >= 0 && v.load - held - 1 > kStages)
            return kNextBehind;
        if (held < 0)
            pass(v.load);
        v.tile = 32 * window_ + bit;
        v.masked = masked_ >> bit & 1;
        v.item = items_;
        any_ &= Variant::kReverse ? upto >> 1 : ~upto;
        mine_ &= ~(1u << bit);
        loads_ = v.load + 1;
        touched_ = true;
        return kNextTile;
    }

    // The item whose tiles are being told.
    __device__ __forceinline__ int item() const { return items_; }

    // K of all loads before `load` is let go,
    __device__ __forceinline__ void pass_k(int load)
    {
        for (; k_open_ < load; ++k_open_) {
            c_.k_full[k_open_ % kStages].wait_full(k_open_, kStages);
            c_.k_empty[k_open_ % kStages].arrive_warp();
        }
    }
    // or V.
    __device__ __forceinline__ void pass_v(int load)
    {
        for (; v_open_ < load; ++v_open_) {
            c_.v_full[v_open_ % kStages].wait_full(v_open_, kStages);
            c_.v_empty[v_open_ % kStages].arrive_warp();
        }
    }

  private:
    // Both, but for the last V, which may come only after K of a load that is not known yet.
    __device__ __forceinline__ void pass(int load)
    {
        while (k_open_ < load) {
            pass_v(k_open_);
            pass_k(k_open_ + 1);
        }
    }

    __device__ __forceinline__ bool read_segment()
    {
        const int slot = segments_ % kSegments;
        c_.segment_full[slot].wait_full(segments_, kSegments);
        const Segment &s = c_.segment[slot];
        const int kind = s.kind;
        window_ = s.window;
        any_ = s.any;
        mine_ = s.group[group_].work;
        masked_ = s.group[group_].masked;
        c_.segment_empty[slot].arrive_warp();
        ++segments_;
        ended_ = kind == kSegmentEnd;
        return kind != kSegmentStop;
    }

    __device__ __forceinline__ void release_q()
    {
        c_.q_empty[items_ % kQBuffers][group_].arrive_warp();
    }

    __device__ __forceinline__ void finish_empty()
    {
        write_nothing(args_, c_.item[items_ % kItems]);
        c_.item_empty[items_ % kItems].arrive_warp();
        c_.q_full[items_ % kQBuffers][group_].wait_full(items_, kQBuffers);
        release_q();
    }

    const KernelArgs &args_;
    Control &c_;
    int group_;
    int window_;
    unsigned any_, mine_, masked_; // of the segment, not yet visited
    int loads_;                    // number of the first load of any_
    int segments_, items_;         // read; the item being read
    int k_open_, v_open_;          // first loads that are not let go
    bool touched_, ended_;         // the item had work for this group; is over
};

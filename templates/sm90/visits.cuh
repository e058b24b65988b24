// The KV tiles that a consumer warpgroup works on, as the producer tells of them, and the release
// of what is not for it. Other groups' tiles pass through the same slots of K and V: they must be
// waited for and let go.
#pragma once
#include "sm90/epilogue.cuh"
#include "sm90/producer.cuh"

struct Visit {
    int tile;
    bool masked;
};

enum NextVisit { kNextTile, kNextBehind, kNextNone };

// Registers are scarce: what can be told from the rest is not kept.
class Visits
{
  public:
    __device__ __forceinline__ Visits(const KernelArgs &args, Control &c, int group)
        : args_(args), c_(c), group_(group), window_(0), any_(0), mine_(0), masked_(0), tile_(0),
          run_(0), more_(0), loads_(0), v_open_(0), segments_(0), items_(0), k_first_(false),
          touched_(false), ended_(false)
    {
    }

    // The item whose tiles are being told.
    __device__ __forceinline__ unsigned item() const { return items_; }
    // The number among all loads of the visit told last: slot and phase of its K and V.
    __device__ __forceinline__ unsigned load() const { return loads_ - 1; }
    // The first load whose V is not let go.
    __device__ __forceinline__ unsigned v_open() const { return v_open_; }

    // True: the next load is for this group, the tile that follows the last visit's, and no loads
    // were skipped before that one: the common case, in few steps, since all wait for them.
    __device__ __forceinline__ bool goes_on() const { return run_ > 0; }
    __device__ __forceinline__ Visit go_on()
    {
        --run_;
        ++loads_;
        tile_ += Variant::kReverse ? -1 : 1;
        return Visit{tile_, static_cast<bool>(masked_ >> (tile_ & 31) & 1)};
    }

    // The next visit. holds: the one told last still has its V and its item, and let go all V
    // before. The producer may wait for these before it tells of the next one: then kNextBehind,
    // and the visit before must be finished before next is asked again with holds false. open: the
    // output of its item is not written yet; then kNextBehind also when that item is over. Writes
    // the output of items without work for this group.
    __device__ __forceinline__ NextVisit next(bool holds, bool open, Visit &v)
    {
        if (more_ > 0) {
            run_ = more_;
            more_ = 0;
            v = go_on();
            return kNextTile;
        }
#pragma unroll 1
        while (mine_ == 0) {
            const unsigned end = loads_ + __popc(any_);
            // One fewer than below: of an item without tiles the producer tells after the last V.
            if (holds && end - v_open_ > kStages)
                return kNextBehind;
            if (!holds)
                pass(end);
            loads_ = end;
            any_ = 0;
            if (!ended_) {
                if (!read_segment())
                    return kNextNone;
                continue;
            }
            if (!touched_) {
                if (holds)
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
        const unsigned before = any_ & (Variant::kReverse ? ~upto : upto >> 1);
        const unsigned load = loads_ + __popc(before);
        if (holds && load - v_open_ - 1 > kStages)
            return kNextBehind;
        if (!holds)
            pass(load);
        loads_ = load;
        tile_ = 32 * window_ + bit - (Variant::kReverse ? -1 : 1);
        // Set bits from this one on, which are visits without any loads between.
        run_ = Variant::kReverse ? __clz(~(mine_ << (31 - bit))) : __ffs(~(mine_ >> bit)) - 1;
        if (run_ < 0 || run_ > 32)
            run_ = 32;
        const unsigned taken = Variant::kReverse ? ~0u << (bit + 1 - run_) & upto
                                                 : ~(upto >> 1) & (2u << (bit + run_ - 1)) - 1;
        any_ &= ~before & ~taken;
        mine_ &= ~taken;
        const bool skips = load != v_open_ + 1, starts = !touched_;
        touched_ = true;
        v = go_on();
        // Rows behind the sequence are cleared on the uncommon way.
        const bool has_tail =
            Variant::kReverse && starts && v.masked && (kPacked || args_.seqused_kv);
        if (skips || has_tail)
            hold_back();
        return kNextTile;
    }
    // The rest of the run is told by next(), not go_on().
    __device__ __forceinline__ void hold_back()
    {
        more_ += run_;
        run_ = 0;
    }

    // K of loads first .. end - 1, which are not for this group, is let go,
    __device__ __forceinline__ void skip_k(unsigned first, unsigned end) const
    {
#pragma unroll 1
        for (; first != end; ++first) {
            c_.k_full[first % kStages].wait_full(first, kStages);
            c_.k_empty[first % kStages].arrive_warp();
        }
    }
    // or V of all that are not yet, before `end`.
    __device__ __forceinline__ void skip_v(unsigned end)
    {
#pragma unroll 1
        for (; v_open_ != end; ++v_open_) {
            c_.v_full[v_open_ % kStages].wait_full(v_open_, kStages);
            if constexpr (kTables) // else a visit 4 loads later could take the parity for its own
                c_.table_full[v_open_ % kStages].wait_full(v_open_, kStages);
            c_.v_empty[v_open_ % kStages].arrive_warp();
        }
    }
    // Of the visit told last, once it is read;
    __device__ __forceinline__ void release_k() const
    {
        c_.k_empty[load() % kStages].arrive_warp();
    }
    // of the first that is open.
    __device__ __forceinline__ void release_v()
    {
        c_.v_empty[v_open_ % kStages].arrive_warp();
        ++v_open_;
        k_first_ = false;
    }

    // K and V of all loads before `end`, but for the last V: it may come only after K of a load
    // that is not known yet. k_first_: K of the first load with an open V is let go already.
    __device__ __forceinline__ void pass(unsigned end)
    {
#pragma unroll 1
        for (unsigned k = v_open_ + k_first_; k != end; ++k) {
            skip_v(k);
            skip_k(k, k + 1);
            k_first_ = true;
        }
    }

  private:
    __device__ __forceinline__ bool read_segment()
    {
        const unsigned slot = segments_ % kSegments;
        c_.segment_full[slot].wait_full(segments_, kSegments);
        const Segment &s = c_.segment[slot];
        const int kind = s.kind;
        window_ = s.window;
        any_ = s.any;
        mine_ = s.group[group_].work;
        masked_ = s.group[group_].masked;
        c_.segment_empty[slot].arrive_warp();
        ++segments_;
        ended_ = kind != kSegmentTiles;
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
    unsigned any_, mine_, masked_; // of the segment, behind the run
    int tile_, run_, more_;        // the last visit's; visits of the run that are left
    unsigned loads_;               // number of the next load
    unsigned v_open_;
    unsigned segments_, items_; // read; the item being read
    bool k_first_;
    bool touched_, ended_; // the item had work for this group; is over
};

// The KV tiles that the consumer warpgroups work on, as the load warp tells of them: run by run.
// All groups visit all tiles of a CTA, so that every slot is waited for and let go in order.
#pragma once
#include "sm90/epilogue.cuh"
#include "sm90/producer.cuh"

struct Visit {
    int tile;
    bool masked; // cells may not count
};

// What `next` says: a visit; that what the group holds is to be finished first; that there is none.
enum NextVisit { kNextTile, kNextBehind, kNextNone };

// Registers are scarce: what can be told from the rest is not kept. All of it is the same in all
// lanes, and ptxas must know: what is read from shared memory is, if the address is.
class Visits
{
  public:
    __device__ __forceinline__ Visits(const KernelArgs &args, Control &c, int group)
        : args_(args), c_(c), group_(group), masked_(0), tile_(0), run_(0), held_back_(0),
          loads_(0), freed_(0), runs_(0), items_(0), visited_(false), over_(false)
    {
    }

    // The item whose tiles are being told.
    __device__ __forceinline__ unsigned item() const { return items_; }
    // The number among all loads of the visit told last: slot and phase of its K and V.
    __device__ __forceinline__ unsigned load() const { return loads_ - 1; }

    // The number of the first load whose V is not let go.
    __device__ __forceinline__ unsigned held() const { return freed_; }

    // True: the next visit is the tile that follows the last one, of the same item: the common
    // case, in few steps, since all wait for them.
    __device__ __forceinline__ bool goes_on() const { return run_ > 0; }
    __device__ __forceinline__ Visit go_on()
    {
        --run_;
        ++loads_;
        tile_ += Variant::kReverse ? -1 : 1;
        const bool masked = masked_ & 1;
        masked_ >>= 1;
        return Visit{tile_, masked};
    }

    // The next visit. holds: the one told last still has its V and its item. An item without tiles
    // may be followed by more than there are slots: then kNextBehind, and the visit before must be
    // finished before next is asked again with holds false. open: the output of its item is not
    // written yet; then kNextBehind also when that item is over. Writes the output of items without
    // tiles.
    __device__ __forceinline__ NextVisit next(bool holds, bool open, Visit &v)
    {
        if (held_back_ > 0) {
            run_ = held_back_;
            held_back_ = 0;
            v = go_on();
            return kNextTile;
        }
#pragma unroll 1
        while (run_ == 0) {
            if (!over_) {
                if (!read_run())
                    return kNextNone;
                continue;
            }
            if (!visited_) {
                if (holds)
                    return kNextBehind;
                finish_empty();
            } else {
                release_q();
            }
            const bool closes = open && visited_;
            over_ = visited_ = false;
            ++items_;
            if (closes)
                return kNextBehind;
        }
        visited_ = true;
        v = go_on();
        return kNextTile;
    }
    // The visit that follows is told by next, not go_on, also if the run goes on: for a step that
    // has no V of a visit before it to let go.
    __device__ __forceinline__ void hold_back()
    {
        held_back_ += run_;
        run_ = 0;
    }

    // K of the visit told last is let go,
    __device__ __forceinline__ void release_k() const
    {
        c_.k_empty[load() % kStages].arrive_warp();
    }
    // or V of the first that has it;
    __device__ __forceinline__ void release_v()
    {
        release_v_if(true);
    }
    // or is not, without a branch.
    __device__ __forceinline__ void release_v_if(bool goes)
    {
        __syncwarp();
        if (goes && threadIdx.x % 32 == 0)
            c_.v_empty[freed_ % kStages].arrive();
        freed_ += goes;
    }

    // No cell of the tile counts for this group. Only asked where cells may not count.
    __device__ __forceinline__ bool is_dead(int tile) const
    {
        return __any_sync(~0u, c_.dead[threadIdx.x / 32] >> (tile & 31) & 1);
    }

  private:
    __device__ __forceinline__ bool read_run()
    {
        const unsigned slot = runs_ % kRuns;
        c_.run_full[slot].wait_full(runs_, kRuns);
        const Run &run = c_.run[slot];
        const int kind = run.kind;
        tile_ = run.tile - (Variant::kReverse ? -1 : 1);
        run_ = run.tiles;
        masked_ = run.masked[group_];
        __syncwarp(); // other lanes may still read
        c_.dead[threadIdx.x / 32] = run.dead[group_];
        c_.run_empty[slot].arrive_warp();
        ++runs_;
        over_ = kind != kRunTiles;
        return kind != kRunStop;
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
    unsigned masked_;       // bit 0: of the next visit of the run, and so on
    int tile_;              // of the visit told last
    int run_, held_back_;   // visits of the run that are left: for go_on; or else for next
    unsigned loads_;        // visits told, of all items: the number of the next one's load
    unsigned freed_;        // of these, whose V is let go
    unsigned runs_, items_; // read so far; the item being told
    bool visited_, over_;   // the item had visits; has no more runs
};

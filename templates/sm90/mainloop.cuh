// A consumer warpgroup's loop: one pipeline over all KV tiles of all items. In each step the
// product of a tile lies ready; its softmax is made, then Q K^T of the next tile (of the next item
// too) is issued, and behind it P V of this one, so that the tensor cores are busy while this group
// makes a softmax, and an item's output is written under the next one's first product.
#pragma once
#include "facc_wgmma.cuh"
#include "sm90/visits.cuh"

// Issues Q K^T with the extra columns, times a factor. That is multiplied once their product is
// there: rare, so that nothing is done meanwhile.
template <class S>
__device__ __forceinline__ void multiply_all(S &s, unsigned q, unsigned k, float factor)
{
    if constexpr (kExtraDim == 0) {
        multiply_qk(s, q, k);
    } else if (factor == 1.0f) {
        multiply_qk(s, q, k);
    } else {
        multiply_extra(s, q, k);
        wgmma_wait<0>();
        pin(s);
#pragma unroll
        for (int n = 0; n < kBlocksN; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                s[n][e] *= factor;
        multiply_head(s, q, k);
    }
}

// x, which is the same in all lanes, in a uniform register. (Of __shfl_sync, ptxas would make it
// again from what it was made of, in the hottest loop.)
__device__ __forceinline__ unsigned uniform(unsigned x)
{
    return __reduce_or_sync(~0u, x);
}
__device__ __forceinline__ float uniform(float x)
{
    return __uint_as_float(uniform(__float_as_uint(x)));
}

// The next item's first product is issued before this one's last P V.
constexpr bool kJoinsItems = kQBuffers > 1;

class Consumer
{
  public:
    __device__ __forceinline__ Consumer(const KernelArgs &args, Control &c, const Tiles &tiles,
                                        int group)
        : args_(args), c_(c), group_(group), visits_(args, c, group),
          q0_(uniform(wgmma_descriptor(tiles.q(0, group), 16))),
          k0_(uniform(wgmma_descriptor(tiles.k(0), 16))),
          v0_(uniform(wgmma_descriptor(tiles.v(0), kTileN * kRowBytes))), tiles_(tiles),
          promoter_(c, tiles.o(group)), item_(0), open_(false), waiting_(false)
    {
    }

    __device__ __forceinline__ void run();

  private:
    __device__ __forceinline__ void wait_q(unsigned item) const
    {
        const Work &w = c_.item[item % kItems];
        const int rows = w.q_len - w.q0 - group_ * kRowsPerGroup;
        c_.q_full[item % kQBuffers][group_].wait_full(item, kQBuffers);
        if (w.foreign && rows < kRowsPerGroup) {
            const unsigned tile = tiles_.q(item % kQBuffers, group_);
            clear_tail<kRowBytesQK>(tile, kPanels, kRowsPerGroup, rows);
            if constexpr (kExtraDim > 0)
                clear_tail<kExtraRowBytes>(tile + kHeadBytesQ, kExtraPanels, kRowsPerGroup, rows);
        }
    }

    // Rows of a tile behind the sequence may hold anything, and must not do anything: 0 * NaN, of P
    // V, is NaN, and a row of Q has a vote in what is done with others.
    template <int kBytes>
    __device__ __forceinline__ void clear_tail(unsigned tile, int panels, int rows, int from) const
    {
#pragma unroll 1
        for (int p = 0; p < panels; ++p)
#pragma unroll 1
            for (int i = max(from, 0) * kBytes / 16 + threadIdx.x % kGroupThreads;
                 i < rows * kBytes / 16; i += kGroupThreads)
                store_shared_16(tile + p * rows * kBytes + 16 * i, uint4{0, 0, 0, 0});
        fence_async_shared();
        barrier_sync<kGroupThreads>(1 + group_);
    }

    __device__ __forceinline__ unsigned q_descriptor() const
    {
        return q0_ + visits_.item() % kQBuffers * (kGroups * kBytesQ >> 4);
    }
    __device__ __forceinline__ unsigned k_descriptor(unsigned load) const
    {
        return k0_ + load % kStages * (kBytesK >> 4);
    }
    __device__ __forceinline__ unsigned v_descriptor(unsigned load) const
    {
        return v0_ + load % kStages * (kBytesV >> 4);
    }
    // Of the extra columns of the visit told last.
    __device__ __forceinline__ float factor() const
    {
        return c_.item[visits_.item() % kItems].factor();
    }
    __device__ __forceinline__ void wait_k(unsigned load) const
    {
        c_.k_full[load % kStages].wait_full(load, kStages);
    }
    __device__ __forceinline__ void wait_v(unsigned load) const
    {
        c_.v_full[load % kStages].wait_full(load, kStages);
    }

    // A sequence's last tile of V without what is behind it. A run ends with it.
    __device__ __forceinline__ void settle_v(const Work &w, const Visit &v, unsigned load) const
    {
        if (!v.masked || !w.foreign || v.tile * kTileN + kTileN <= w.kv_len)
            return;
        wait_v(load);
        if constexpr (kFp8) {
            clear_image_tail(tiles_.v(load % kStages), w.kv_len - v.tile * kTileN);
            fence_async_shared();
            barrier_sync<kGroupThreads>(1 + group_);
        } else {
            clear_tail<kRowBytes>(tiles_.v(load % kStages), kPanelsV, kTileN,
                                  w.kv_len - v.tile * kTileN);
        }
    }

    __device__ __forceinline__ void weigh(const Work &w, const Visit &v, unsigned load, Weights &p);
    __device__ __forceinline__ void weigh_again(const Work &w, const Visit &v, const Rows &rows,
                                                unsigned slot, Weights &p);
    __device__ __forceinline__ void write_before();
    __device__ __forceinline__ void settle();
    __device__ __forceinline__ void keep(const Weights &p);
    __device__ __forceinline__ void finish(const RowSum (&rows)[2], unsigned item);
    __device__ __forceinline__ void put_off(unsigned item);
    __device__ __forceinline__ bool find(NextVisit kind, Visit &next);
    __device__ __forceinline__ void leave();
    __device__ __forceinline__ void start();
    __device__ __forceinline__ NextVisit run_on(Visit &v, Visit &next, Weights &p);
    __device__ __forceinline__ void drain(const Visit &v, const Weights &p);
    // This thread's first; the other is 8 further.
    static __device__ __forceinline__ int row_in_tile()
    {
        return threadIdx.x / 32 * kRowsPerWarp + threadIdx.x % 32 / 4;
    }
    // What is kept of those rows of an item whose output is put off; then of the 8 further.
    __device__ __forceinline__ RowSum &before(int half) const
    {
        if constexpr (kBeforeInOutput) { // in the warp's own part, which lies in front of Control
            unsigned char *own = reinterpret_cast<unsigned char *>(&c_) -
                                 (kGroups - group_) * kBytesO +
                                 threadIdx.x % kGroupThreads / 32 * kRowsPerWarp * kRowBytes;
            return reinterpret_cast<RowSum *>(own)[threadIdx.x % 32 / 4 + 8 * half];
        }
        return c_.before[row_in_tile() + 8 * half];
    }

    // Of raw scores; of the item of the visit told last. What is the same for all items is better
    // a constant.
    __device__ __forceinline__ void take_multiplier()
    {
        if constexpr (kFactorOfItem)
            multiplier_ = uniform(raw_factor(args_, c_.item[visits_.item() % kItems]));
    }

    const KernelArgs &args_;
    Control &c_;
    int group_;
    Visits visits_;
    unsigned q0_, k0_, v0_;
    Tiles tiles_;
    Promoter promoter_;
    Scores s_;
    Weights p_;
    RowState state_;
    float factor_[2];
    float multiplier_; // see take_multiplier
    unsigned item_;    // of the visit
    bool open_;        // its output is in the accumulator, and no product in flight
    bool rescale_;     // the output, by factor_, is to be; true in an item's first visit
    bool first_;       // this visit is its item's first
    bool waiting_;     // the output of the item before is still in the accumulator
};

// Of the product that lies ready.
__device__ __forceinline__ void Consumer::weigh(const Work &w, const Visit &v, unsigned load,
                                                Weights &p)
{
    const unsigned slot = load % kTableSlots;
    const int kv0 = v.tile * kTileN;
    Rows rows;
    if constexpr (kHasRows && !kRowsLate) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = row_in_tile() + 8 * half;
            rows[0][half] = kRowsShared ? c_.row[item_ % kQBuffers * kTileM + r]
                                        : Variant::row(args_, w.t, w.q0 + r);
        }
    }
    if constexpr (kTables)
        c_.table_full[slot].wait_full(load, kTableSlots);
    if constexpr (!kRawScores)
        scale_blocks(w, c_.stage, slot, s_);
    const float multiplier = kFactorOfItem ? multiplier_ : quick_multiplier(args_, w);
    const bool masked = kMaskAtOnce ? kv0 + kTileN > w.kv_len : v.masked;
    const bool careful = (!kGuesses && first_) || masked;
    float total[2];
    if (kGuesses && first_ && !masked)
        guess_references(args_, w, s_, state_);
    rescale_ = kGuesses && first_;
    const bool good = !careful && weigh_quickly(args_, w, rows, c_.stage, slot, kv0, multiplier, s_,
                                                state_, p, total);
    if constexpr (kSettlesFirst)
        wgmma_wait<0>(); // P V of the visit before: not below, since all warps of the group must
    if (!good) {
        if (careful || !weights_hold(state_, p, total)) {
            total[0] = total[1] = 0.0f;
            weigh_again(w, v, rows, slot, p);
        }
    } else {
        forget(factor_);
    }
    state_.sum[0] += total[0];
    state_.sum[1] += total[1];
    count_tile(state_);
    if constexpr (kTables)
        c_.table_empty[slot].arrive_warp();
    if constexpr (kHasDropout)
        drop_weights(args_, w, w.q0 + row_in_tile(), kv0, p);
}

// With new references, or none.
__device__ __forceinline__ void Consumer::weigh_again(const Work &w, const Visit &v,
                                                      const Rows &rows, unsigned slot, Weights &p)
{
    if (visits_.is_dead(v.tile))
        weigh_nothing(p, factor_);
    else
        weigh_exactly(args_, w, rows, c_.stage, slot, v.tile * kTileN, s_, state_, p, factor_);
    if constexpr (kSettlesFirst) {
        if (!first_)
            scale_output(factor_[0], factor_[1]);
    } else {
        rescale_ = true;
    }
}

__device__ __forceinline__ void Consumer::finish(const RowSum (&rows)[2], unsigned item)
{
    write_output(args_, c_.item[item % kItems], tiles_.o(group_), rows, promoter_);
    c_.item_empty[item % kItems].arrive_warp();
}

// Its output stays in the accumulator until `settle`.
__device__ __forceinline__ void Consumer::put_off(unsigned item)
{
    RowSum rows[2];
    whole_rows(state_, rows);
    if constexpr (kBeforeInOutput)
        wait_stores();
    if (threadIdx.x % 4 == 0) {
        before(0) = rows[0];
        before(1) = rows[1];
    }
    if (threadIdx.x % 32 == 0)
        c_.item_before[threadIdx.x / 32] = item;
    __syncwarp();
    waiting_ = true;
}

// The output that was put off.
__device__ __forceinline__ void Consumer::write_before()
{
    if (!waiting_)
        return;
    const RowSum rows[2] = {before(0), before(1)};
    finish(rows, c_.item_before[threadIdx.x / 32]);
    waiting_ = false;
}

// Makes the accumulator ready for this visit's P V. None is in flight.
__device__ __forceinline__ void Consumer::settle()
{
    if constexpr (kSettlesFirst) { // scaled it is
        if (first_)
            write_before();
    } else if (rescale_) {
        if (first_)
            write_before();
        else
            scale_output(factor_[0], factor_[1]);
    }
}

// Puts P into the registers of the product. What one in flight reads may not be written, so P has a
// copy; ptxas would fold it without the zero that it does not know.
__device__ __forceinline__ void Consumer::keep(const Weights &p)
{
#pragma unroll
    for (unsigned i = 0; i < sizeof p_ / sizeof p_[0]; ++i)
        p_[i] = p[i] ^ static_cast<unsigned>(args_.zero);
}

// The next visit, to a group that holds nothing; before it the output of the item that it leaves.
// False: there is none.
__device__ __forceinline__ bool Consumer::find(NextVisit kind, Visit &next)
{
#pragma unroll 1
    for (;;) {
        if (open_ && (kind == kNextNone || visits_.item() != item_)) {
            RowSum rows[2];
            whole_rows(state_, rows);
            finish(rows, item_);
            open_ = false;
        }
        if (kind != kNextBehind)
            break;
        kind = visits_.next(false, open_, next);
    }
    return kind != kNextNone;
}

// Q K^T of the visit told last, with no product in flight.
__device__ __forceinline__ void Consumer::start()
{
    item_ = visits_.item();
    take_multiplier();
    first_ = !open_;
    if (first_) {
        reset(state_);
        wait_q(item_);
    }
    visits_.hold_back();
    const unsigned load = visits_.load();
    wait_k(load);
    multiply_all(s_[0], q_descriptor(), k_descriptor(load), factor());
    wgmma_wait<0>();
    pin(s_[0]);
    visits_.release_k();
}

// P V of a visit, after which nothing is held.
__device__ __forceinline__ void Consumer::drain(const Visit &v, const Weights &p)
{
    settle_v(c_.item[item_ % kItems], v, visits_.held());
    settle();
    promoter_.step(args_, state_, first_);
    keep(p);
    wait_v(visits_.held());
    multiply_pv(p_, v_descriptor(visits_.held()), !first_ && promoter_.accumulates());
    wgmma_wait<0>();
    visits_.release_v();
    open_ = true;
}

// Step by step from a visit whose product lies ready, as far as the next one is known while this
// one is held; what is known of the next then. Leaves v and its weights to `drain`.
__device__ __forceinline__ NextVisit Consumer::run_on(Visit &v, Visit &next, Weights &p)
{
    bool reads = false; // P V of the visit before is in flight: in all steps but the first
#pragma unroll 1
    for (;;) {
        const Work &w = c_.item[item_ % kItems];
        const unsigned load = visits_.load(); // of v
        weigh(w, v, load, p);
        const bool plain = visits_.goes_on(); // never in the first step: see hold_back
        if (plain) {
            next = visits_.go_on();
            if constexpr (kPromotes) {
                wgmma_wait<0>();
                promoter_.step(args_, state_, false);
            }
        } else {
            wgmma_wait<0>();
            if (reads)
                visits_.release_v();
            reads = true;
            const NextVisit kind = visits_.next(true, false, next);
            if (kind != kNextTile || (!kJoinsItems && visits_.item() != item_))
                return kind;
            if (kJoinsItems && visits_.item() != item_)
                wait_q(visits_.item());
            settle_v(w, v, load);
            if constexpr (kSettlesFirst) {
                settle();
                wgmma_wait<0>(); // behind what ptxas cannot see to be uniform: the warp is together
                promoter_.step(args_, state_, first_);
                leave();
            }
            if constexpr (kWaitsAhead) {
                wait_k(visits_.load());
                wait_v(load);
            }
        }
        const float by = factor();
        if (!kWaitsAhead)
            wait_k(visits_.load());
        wgmma_wait<0>(); // P V of the visit before
        if constexpr (kSettlesFirst)
            keep(p);
        multiply_all(s_[0], q_descriptor(), k_descriptor(visits_.load()), by);
        if constexpr (kSettlesFirst)
            visits_.release_v_if(plain);
        else if (plain)
            visits_.release_v();
        if constexpr (!kSettlesFirst) { // under the product in flight
            settle();
            keep(p);
            if (!plain)
                leave();
        }
        const unsigned last = visits_.load() - 1; // V of the visit: `load`, not kept
        if (!kWaitsAhead)
            wait_v(last);
        multiply_pv(p_, v_descriptor(last), !first_ && promoter_.accumulates());
        if (kWaitsAhead && visits_.goes_on()) { // the next step's
            wait_k(visits_.load() + 1);
            wait_v(visits_.load());
        }
        wgmma_wait<1>();
        pin(s_[0]);
        visits_.release_k();
        first_ = false;
        // Without a condition, ptxas would not know them to be uniform where items are not joined.
        if (kJoinsItems || !plain) {
            first_ = visits_.item() != item_;
            item_ = visits_.item();
        }
        v = next;
    }
}

// From the visit's item, if the visit told last is of another.
__device__ __forceinline__ void Consumer::leave()
{
    if (!kJoinsItems || visits_.item() == item_)
        return;
    if constexpr (kSettlesFirst)
        visits_.hold_back(); // its first visit settles the output that is put off
    put_off(item_);
    reset(state_);
    take_multiplier();
}

__device__ __forceinline__ void Consumer::run()
{
    Visit v, next;
    Weights p;
    NextVisit kind = kNextBehind;
#pragma unroll 1
    while (find(kind, next)) {
        v = next;
        start();
        kind = run_on(v, next, p);
        drain(v, p);
    }
    if (kOutputStaged && threadIdx.x % 32 == 0)
        tma_store_wait_read(); // the memory is this CTA's only while it runs
}

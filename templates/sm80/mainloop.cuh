// The loop over KV tiles: S = Q K^T, score and mask, online softmax, O += P V, with K and V copied
// ahead by cp.async.
//
// Two schedules. With one group of warps (four) a CTA goes through these steps in order, and a
// second CTA of the multiprocessor fills the gaps as it can. With two groups (eight warps) the
// groups take turns: while one has the tensor cores for P V of the last tile and Q K^T of this one,
// the other makes its softmax. Each scheduler of the multiprocessor has warps of both groups. Left
// alone, warps fall into step: all want the tensor cores, then none does.
#pragma once
#include "sm80/copy.cuh"
#include "sm80/multiply.cuh"
#include "sm80/scheduler.cuh"
#include "sm80/softmax.cuh"

// For the raw-score path, which needs a positive multiplier: a negative scale moves its sign into
// the Q tile, a zero scale zeroes the tile (so that -inf * 0 never arises). Rare; waits for Q, the
// caller's next barrier makes it visible.
__device__ __forceinline__ float settle_scale(float scale_log2, unsigned shared)
{
    if (scale_log2 > 0.0f)
        return scale_log2;
    cp_async_wait<0>();
    __syncthreads();
#pragma unroll 1
    for (int i = 4 * threadIdx.x; i < kBytesQ; i += 4 * kThreads) {
        const unsigned word = load_shared_word(shared + i);
        store_shared(shared + i, scale_log2 < 0.0f ? word ^ 0x80008000u : 0u);
    }
    return scale_log2 < 0.0f ? -scale_log2 : 1.0f;
}

// What a CTA's loop works with.
struct Loop {
    using CopyQ = TileCopy<kTileM, kHeadDim, kThreads, kRowBytes>;
    using CopyK = TileCopy<kTileN, kHeadDim, kGroupThreads, kRowBytes>;
    using CopyV = TileCopy<kTileN, kHeadDimV, kGroupThreads, kRowBytesV>;

    const KernelArgs &args;
    const Work &w;
    Stage &stage;
    RowState &state;
    Output &o;
    unsigned k0, v0; // shared buffers
    Addresses a;
    float multiplier; // of scores as make_weights gets them
    int drop_kv0;     // dropout: of the tile whose weights are made
    Rows rows;        // with kRowsShared read anew in each tile that is masked
    QFragments q;

    __device__ __forceinline__ Loop(const KernelArgs &args, const Work &w, unsigned shared,
                                    Stage &stage, RowState &state, Output &o)
        : args(args), w(w), stage(stage), state(state), o(o), k0(shared + kBytesQ),
          v0(shared + kBytesQ + kStages * kBytesK), a(lane_addresses(shared)), multiplier(1.0f)
    {
    }

    __device__ __forceinline__ void start_k(int tile, int buffer) const
    {
        CopyK(w.k, 2 * args.k_stride[2], w.k_aligned)
            .start(k0 + buffer * kBytesK, tile * kTileN, w.kv_len);
        start_extra<false, kTileN, kGroupThreads>(w, k0 + buffer * kBytesK + 2 * kDepth, kRowBytes,
                                                  tile * kTileN, w.kv_len);
    }

    __device__ __forceinline__ void start_v(int tile, int buffer) const
    {
        CopyV(w.v, 2 * args.v_stride[2], w.v_aligned)
            .start(v0 + buffer * kBytesV, tile * kTileN, w.kv_len);
    }

    __device__ __forceinline__ void fill(int tile, int buffer) const
    {
        stage.fill<kGroupThreads>(args, w.t, w.q0, tile * kTileN, buffer);
    }

    // This thread's first; the others are 8 apart.
    static __device__ __forceinline__ int row_in_tile()
    {
        return threadIdx.x / 32 * kRowsPerWarp + threadIdx.x % 32 / 4;
    }

    // Q and what depends on it; the caller has started K of the first tile (and V with one group
    // and two stages).
    __device__ __forceinline__ void prepare(unsigned shared)
    {
        CopyQ(w.q, 2 * args.q_stride[2], w.q_aligned).start(shared, w.q0, w.q_len);
        start_extra<true, kTileM, kThreads>(w, shared + 2 * kDepth, kRowBytes, w.q0, w.q_len);
        cp_async_commit();
        if constexpr (kRawScores)
            multiplier = settle_scale(args.scale_log2, shared);
        else if constexpr (Variant::kHasScore)
            multiplier = Variant::multiplier(args, w.t);
        if constexpr (kRowsShared) {
            for (int i = threadIdx.x; i < kTileM; i += kThreads)
                stage.row[i] = Variant::row(args, w.t, w.q0 + i);
        } else {
#pragma unroll
            for (int i = 0; i < 2 * kBlocksM; ++i)
                rows[i / 2][i % 2] = Variant::row(args, w.t, w.q0 + row_in_tile() + 8 * i);
        }
        cp_async_wait<0>();
        __syncthreads();
        if constexpr (kQInRegisters)
#pragma unroll
            for (int step = 0; step < kStepsQK; ++step)
                load_q(q[step], a.q, step);
    }

    // Accumulators to what make_weights takes, but for what was done between the MMAs; references
    // and output brought up to date. False: no cell of this warp counts.
    __device__ __forceinline__ bool prepare_scores(Scores &s, Tops &tops, TileWork work, int tile,
                                                   int buffer)
    {
        const int kv0 = tile * kTileN;
        if constexpr (kHasDropout)
            drop_kv0 = kv0;
        // Apart from the mask, if it can wait: in one block of code with the MMAs before it.
        if constexpr (kMaskAtOnce) {
            if constexpr (!kMaskBetween)
                apply_tile<true, true>(args, w, rows, stage, buffer, kv0, s, tops);
        } else if constexpr (!kMasks || !Variant::kMaskNeedsScore) {
            if constexpr (!kScoreBetween)
                apply_tile<true, false>(args, w, rows, stage, buffer, kv0, s, tops);
        } else if (work != kTileMasked) {
            apply_tile<true, false>(args, w, rows, stage, buffer, kv0, s, tops);
        }
        if (work == kTileMasked) {
            if constexpr (kRowsShared)
#pragma unroll
                for (int i = 0; i < 2 * kBlocksM; ++i)
                    rows[i / 2][i % 2] = stage.row[row_in_tile() + 8 * i];
            if constexpr (kMasks && !kMaskAtOnce)
                apply_tile<Variant::kMaskNeedsScore, true>(args, w, rows, stage, buffer, kv0, s,
                                                           tops);
            if (kv0 + kTileN > w.kv_len)
                cut_tail(w.kv_len - kv0, s, tops);
        }
        return update_references<kMasks>(tops, multiplier, state, o);
    }

    // 16 columns of weights of a tile whose scores are prepared.
    __device__ __forceinline__ void weigh(const Scores &s, int step, const Offsets &offsets,
                                          Weights &p)
    {
        make_weights(s, step, multiplier, offsets, state, p);
        if constexpr (kHasDropout)
            drop_weights(args, w, w.q0 + row_in_tile(),
                         drop_kv0 + 16 * step + 2 * (threadIdx.x % 4), state, p);
    }

    __device__ __forceinline__ void run_in_order(unsigned shared);
    __device__ __forceinline__ void run_in_turns(unsigned shared);
};

__device__ __forceinline__ void Loop::run_in_order(unsigned shared)
{
    TileWalk walk(w, 0);
    TileWork work, next_work;
    int tile = walk.next(args, w, work);
    if (tile < 0)
        return;
    start_k(tile, 0);
    if constexpr (kStages == 2)
        start_v(tile, 0);
    fill(tile, 0);
    prepare(shared);

    int buffer = 0; // of this tile's stage, and of K and V if they have two
#pragma unroll 1
    while (true) {
        const int next = walk.next(args, w, next_work), other = buffer ^ 1;
        if constexpr (kStages == 2) {
            if (next >= 0) {
                start_k(next, other);
                start_v(next, other);
                fill(next, other);
            }
        } else {
            start_v(tile, 0);
        }
        cp_async_commit();

        Scores s;
        Tops tops;
        const Cells at(args, w, rows, buffer, tile * kTileN);
        const unsigned k = a.k + (kStages == 2 ? buffer * kBytesK : 0);
        if constexpr (kExtraDim > 0)
            multiply_extra(s, q, a.q, k, w);
        multiply_qk(
            s, q, a.q, k,
            [&](int n) {
                if constexpr (kBetween)
                    apply_block<kScoreBetween, kMaskBetween>(args, w, rows, stage, at, n, s, tops);
            },
            [] {});
        if constexpr (kStages == 1) {
            cp_async_wait<0>();
            __syncthreads(); // V has landed; all warps are done with K
            if (next >= 0) {
                start_k(next, 0);
                fill(next, other);
            }
            cp_async_commit();
        }
        if (prepare_scores(s, tops, work, tile, buffer)) {
            const Offsets offsets(state);
            multiply_pv(o, state, a.v + (kStages == 2 ? buffer * kBytesV : 0),
                        [&](int step, Weights &p) { weigh(s, step, offsets, p); });
        }
        if (next < 0)
            break;
        cp_async_wait<0>();
        __syncthreads(); // the next tile's K (and V) have landed; all warps are done with this
                         // one's
        tile = next;
        work = next_work;
        buffer = other;
    }
}

// Barrier 1 + g gives group g its turn. Tile j has phase j (Q K^T) and, in phase j + 1, P V. Group
// 1 copies: after its phase j both groups are done with K of tile j and V of tile j - 1, so K of
// tile j + 2 and V of tile j + 1 go there. Its copies are complete before it ends its next phase,
// and the turns' barriers make them visible.
__device__ __forceinline__ void Loop::run_in_turns(unsigned shared)
{
    const int group = __shfl_sync(~0u, threadIdx.x / kGroupThreads, 0);
    TileWalk walk(w, group);
    TileWork work, next_work, later_work;
    int tile = walk.next(args, w, work);
    if (tile < 0)
        return;
    int next = walk.next(args, w, next_work);
    if (group == 0) {
        start_k(tile, 0);
        fill(tile, 0);
        if (next >= 0)
            fill(next, 1);
    }
    prepare(shared);
    if (group == 1) {
        barrier_arrive<kThreads>(1);
        start_v(tile, 0);
        if (next >= 0)
            start_k(next, 1);
        cp_async_commit();
    }

    Weights p[kStepsN];
    bool has_weights = false;   // of the last tile, for this warp
    int buffer = 0, staged = 0; // of this tile
#pragma unroll 1
    while (true) {
        Scores s;
        const unsigned k = a.k + buffer * kBytesK, v = a.v + (buffer ^ 1) * kBytesV;
        const auto hand_over = [&] {
            if (group == 1)
                cp_async_wait<0>();
            barrier_arrive<kThreads>(2 - group);
        };
        const auto take_weights = [&](int step, Weights &x) {
#pragma unroll
            for (int i = 0; i < 4 * kBlocksM; ++i)
                x[i / 4][i % 4] = p[step][i / 4][i % 4];
        };
        barrier_sync<kThreads>(1 + group);
        if (has_weights)
            multiply_pv(o, state, v, take_weights);
        if (work != kTileNone) {
            if constexpr (kExtraDim > 0)
                multiply_extra(s, q, a.q, k, w);
            multiply_qk(
                s, q, a.q, k, [](int) {}, hand_over);
        } else if (group == 0 || tile >= 0)
            hand_over();
        if (tile < 0)
            break;
        const int later = walk.next(args, w, later_work);
        if (group == 0) {
            barrier_arrive<kThreads>(3 + buffer);
        } else {
            barrier_sync<kThreads>(3 + buffer); // all warps are done with the two buffers
            if (next >= 0)
                start_v(next, buffer ^ 1);
            if (later >= 0) {
                start_k(later, buffer);
                fill(later, staged == 0 ? 2 : staged - 1);
            }
            cp_async_commit();
        }
        has_weights = false;
        if (work != kTileNone) {
            Tops tops;
            has_weights = prepare_scores(s, tops, work, tile, staged);
            if (has_weights) {
                const Offsets offsets(state);
#pragma unroll
                for (int step = 0; step < kStepsN; ++step)
                    weigh(s, step, offsets, p[step]);
            }
        }
        tile = next, work = next_work;
        next = later, next_work = later_work;
        buffer ^= 1;
        staged = staged == 2 ? 0 : staged + 1;
    }
}

__device__ __forceinline__ void run_mainloop(const KernelArgs &args, const Work &w, unsigned shared,
                                             Stage &stage, RowState &state, Output &o)
{
    Loop loop(args, w, shared, stage, state, o);
    if constexpr (kGroups == 2)
        loop.run_in_turns(shared);
    else
        loop.run_in_order(shared);
}

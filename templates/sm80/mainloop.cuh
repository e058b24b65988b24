// The loop over KV tiles: S = Q K^T, score and mask, online softmax, O += P V, with K and V copied
// ahead by cp.async.
#pragma once

#include "sm80/copy.cuh"
#include "sm80/scheduler.cuh"
#include "sm80/score.cuh"
#include "sm80/softmax.cuh"

// Shared-memory addresses for this lane's part in ldmatrix.
struct Addresses {
    unsigned q; // of the warp's rows: A fragments
    unsigned k; // of stage 0: B fragments of two column blocks
    unsigned v; // of stage 0: transposed, B fragments of two output blocks
};

__device__ __forceinline__ Addresses lane_addresses(unsigned shared)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned k0 = shared + kBytesQ, v0 = k0 + kStages * kBytesK;
    Addresses a;
    a.q = shared + (warp * kRowsPerWarp + lane % 16) * kRowBytes + lane / 16 * 16;
    a.k = k0 + (lane % 8 + lane / 16 * 8) * kRowBytes + lane / 8 % 2 * 16;
    a.v = v0 + lane % 16 * kRowBytesV + lane / 16 * 16;
    return a;
}

using QFragments = unsigned[kQInRegisters ? kStepsD : 1][kBlocksM][4];

__device__ __forceinline__ void load_q(QFragments &q, unsigned address, int slot, int step)
{
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m)
        ldmatrix_x4(q[slot][m], address + 16 * m * kRowBytes + 32 * step);
}

// S = Q K^T. The fragment of the next MMAs is read before the MMAs of this one are issued.
__device__ __forceinline__ void multiply_qk(Scores &s, QFragments &q, const Addresses &a,
                                            unsigned k)
{
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m)
#pragma unroll
        for (int n = 0; n < kBlocksN; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                s[m][n][e] = 0.0f;

    unsigned b[2][4];
    ldmatrix_x4(b[0], k);
#pragma unroll
    for (int step = 0; step < kStepsD; ++step) {
        const int slot = kQInRegisters ? step : 0;
        if (!kQInRegisters)
            load_q(q, a.q, 0, step);
#pragma unroll
        for (int pair = 0; pair < kStepsN; ++pair) {
            const int i = step * kStepsN + pair, next = i + 1;
            if (next < kStepsD * kStepsN)
                ldmatrix_x4(b[next % 2],
                            k + 16 * (next % kStepsN) * kRowBytes + 32 * (next / kStepsN));
#pragma unroll
            for (int m = 0; m < kBlocksM; ++m) {
                mma_16816(s[m][2 * pair], q[slot][m], b[i % 2][0], b[i % 2][1]);
                mma_16816(s[m][2 * pair + 1], q[slot][m], b[i % 2][2], b[i % 2][3]);
            }
        }
    }
}

// O += P V, P made from the scores one step of 16 columns at a time, beside the MMAs of the step
// before.
__device__ __forceinline__ void multiply_pv(Output &o, const Scores &s, float multiplier,
                                            RowState &state, unsigned v)
{
    constexpr int kPairs = kBlocksV / 2;
    float offset[kBlocksM][2];
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            offset[m][half] = negated_reference(state.reference[m][half]);

    unsigned b[2][4];
    ldmatrix_x4_trans(b[0], v);
#pragma unroll
    for (int step = 0; step < kStepsN; ++step) {
        unsigned p[kBlocksM][4];
#pragma unroll
        for (int m = 0; m < kBlocksM; ++m)
            weights(s, m, step, multiplier, offset[m], state, p[m]);
#pragma unroll
        for (int pair = 0; pair < kPairs; ++pair) {
            const int i = step * kPairs + pair, next = i + 1;
            if (next < kStepsN * kPairs)
                ldmatrix_x4_trans(b[next % 2],
                                  v + 16 * (next / kPairs) * kRowBytesV + 32 * (next % kPairs));
#pragma unroll
            for (int m = 0; m < kBlocksM; ++m) {
                mma_16816(o[m][2 * pair], p[m], b[i % 2][0], b[i % 2][1]);
                mma_16816(o[m][2 * pair + 1], p[m], b[i % 2][2], b[i % 2][3]);
            }
        }
    }
}

// For the raw-score path, which needs a positive multiplier: a negative scale moves its sign into
// the Q tile, a zero scale zeroes the tile (so that -inf * 0 never arises). Rare; Q and its
// visibility are settled here.
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

__device__ __forceinline__ void run_mainloop(const KernelArgs &args, const Variant::Tile &t,
                                             const Work &w, unsigned shared, Stage &stage,
                                             RowState &state, Output &o)
{
    const TileCopy<kTileN, kHeadDim> copy_k(w.k, 2 * args.k_stride[2],
                                            aligned_16(args.k, args.k_stride));
    const TileCopy<kTileN, kHeadDimV> copy_v(w.v, 2 * args.v_stride[2],
                                             aligned_16(args.v, args.v_stride));
    const unsigned k0 = shared + kBytesQ, v0 = k0 + kStages * kBytesK;
    const Addresses a = lane_addresses(shared);

    TileWalk walk(args, t, w);
    bool masked = false, next_masked = false;
    int tile = walk.next(args, t, w, masked);
    if (tile < 0)
        return;
    TileCopy<kTileM, kHeadDim>(w.q, 2 * args.q_stride[2], aligned_16(args.q, args.q_stride))
        .start(shared, w.q0, w.q_len);
    copy_k.start(k0, tile * kTileN, w.kv_len);
    if constexpr (kStages == 2)
        copy_v.start(v0, tile * kTileN, w.kv_len);
    cp_async_commit();
    fill_stage(args, t, stage, 0, w.q0, tile * kTileN);
    float multiplier = 1.0f;
    if constexpr (kRawScores)
        multiplier = settle_scale(args.scale_log2, shared);

    Rows rows;
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i)
        rows[i / 2][i % 2] = Variant::row(
            args, t, w.q0 + threadIdx.x / 32 * kRowsPerWarp + threadIdx.x % 32 / 4 + 8 * i);

    QFragments q;
    int buffer = 0; // of this tile: of the stage, and of K and V if they have two
#pragma unroll 1
    for (bool first = true;; first = false) {
        cp_async_wait<0>();
        __syncthreads(); // this tile's K (and V) have landed; all warps are done with the tile
                         // before
        if (kQInRegisters && first) {
#pragma unroll
            for (int step = 0; step < kStepsD; ++step)
                load_q(q, a.q, kQInRegisters ? step : 0, step);
        }
        const int kv0 = tile * kTileN, other = buffer ^ 1;
        tile = walk.next(args, t, w, next_masked);
        if constexpr (kStages == 2) {
            if (tile >= 0) {
                copy_k.start(k0 + other * kBytesK, tile * kTileN, w.kv_len);
                copy_v.start(v0 + other * kBytesV, tile * kTileN, w.kv_len);
                fill_stage(args, t, stage, other, w.q0, tile * kTileN);
            }
        } else {
            copy_v.start(v0, kv0, w.kv_len);
        }
        cp_async_commit();

        Scores s;
        multiply_qk(s, q, a, a.k + (kStages == 2 ? buffer * kBytesK : 0));
        if constexpr (kStages == 1) {
            cp_async_wait<0>();
            __syncthreads(); // V has landed; all warps are done with K
            if (tile >= 0) {
                copy_k.start(k0, tile * kTileN, w.kv_len);
                fill_stage(args, t, stage, other, w.q0, tile * kTileN);
            }
            cp_async_commit();
        }
        if (masked)
            apply_score<true>(args, t, rows, stage, buffer, w, kv0, s);
        else if constexpr (!kRawScores)
            apply_score<false>(args, t, rows, stage, buffer, w, kv0, s);
        update_reference(s, multiplier, state, o);
        multiply_pv(o, s, multiplier, state, a.v + (kStages == 2 ? buffer * kBytesV : 0));
        if (tile < 0)
            break;
        masked = next_masked;
        buffer = other;
    }
}

// The two matrix products of a tile, from shared memory and registers. The fragment of later MMAs
// is read kAhead steps before it is used.
#pragma once
#include "sm80/shape.cuh"

constexpr int kAhead = 2;
// The other group gets its turn when this part of the MMAs is left (an eighth), so that it starts
// while they drain.
constexpr int kHandOverPart = 8;

using QFragments = unsigned[kQInRegisters ? kStepsQK : 1][kBlocksM][4];
using Weights = unsigned[kBlocksM][4]; // 16 KV columns of P as A fragments

// Shared-memory addresses for this lane's part in ldmatrix.
struct Addresses {
    unsigned q; // of the warp's rows: A fragments
    unsigned k; // of buffer 0: B fragments of two column blocks
    unsigned v; // of buffer 0: transposed, B fragments of two output blocks
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

// The A fragments of 16 elements of the head dim.
__device__ __forceinline__ void load_q(unsigned (&q)[kBlocksM][4], unsigned address, int step)
{
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m)
        ldmatrix_x4(q[m], address + 16 * m * kRowBytes + 32 * step);
}

__device__ __forceinline__ void clear(Scores &s)
{
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m)
#pragma unroll
        for (int n = 0; n < kBlocksN; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                s[m][n][e] = 0.0f;
}

// S = factor * Q K^T of the extra columns.
template <class W>
__device__ __forceinline__ void multiply_extra(Scores &s, QFragments &q, unsigned q_address,
                                               unsigned k, const W &w)
{
    constexpr int kCount = kStepsExtra * kStepsN;
    clear(s);
    unsigned b[kAhead + 1][4];
#pragma unroll
    for (int i = 0; i < kCount + kAhead; ++i) {
        if (i < kCount)
            ldmatrix_x4(b[i % (kAhead + 1)],
                        k + 16 * (i % kStepsN) * kRowBytes + 32 * (kStepsD + i / kStepsN));
        const int now = i - kAhead;
        if (now < 0)
            continue;
        const int step = kStepsD + now / kStepsN, pair = now % kStepsN;
        unsigned(&a)[kBlocksM][4] = q[kQInRegisters ? step : 0];
        if (!kQInRegisters && pair == 0)
            load_q(a, q_address, step);
        const unsigned(&x)[4] = b[now % (kAhead + 1)];
#pragma unroll
        for (int m = 0; m < kBlocksM; ++m) {
            mma_16816(s[m][2 * pair], a[m], x[0], x[1]);
            mma_16816(s[m][2 * pair + 1], a[m], x[2], x[3]);
        }
    }
    const float factor = w.factor();
    if (factor == 1.0f)
        return;
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m)
#pragma unroll
        for (int n = 0; n < kBlocksN; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                s[m][n][e] *= factor;
}

// S = Q K^T, or S + Q K^T where there are extra columns, by kTogether pairs of column blocks at a
// time. Calls near_end shortly before the last MMAs, finished(block) when a column block is final
// and other MMAs have been issued.
template <class Finished, class NearEnd>
__device__ __forceinline__ void multiply_qk(Scores &s, QFragments &q, unsigned q_address,
                                            unsigned k, Finished finished, NearEnd near_end)
{
    constexpr int kCount = kStepsD * kStepsN;
    constexpr int kLeft = (kCount + kHandOverPart - 1) / kHandOverPart; // at least one
    constexpr int kRound = kStepsD * kTogether;
    const auto step_of = [](int i) { return i % kRound / kTogether; };
    const auto pair_of = [](int i) { return i / kRound * kTogether + i % kTogether; };
    if constexpr (kExtraDim == 0)
        clear(s);

    unsigned b[kAhead + 1][4];
#pragma unroll
    for (int i = 0; i < kCount + kAhead; ++i) {
        if (i < kCount)
            ldmatrix_x4(b[i % (kAhead + 1)], k + 16 * pair_of(i) * kRowBytes + 32 * step_of(i));
        const int now = i - kAhead;
        if (now < 0)
            continue;
        if (now == kCount - kLeft)
            near_end();
        const int step = step_of(now), pair = pair_of(now);
        unsigned(&a)[kBlocksM][4] = q[kQInRegisters ? step : 0];
        if (!kQInRegisters && pair == 0)
            load_q(a, q_address, step);
        const unsigned(&x)[4] = b[now % (kAhead + 1)];
#pragma unroll
        for (int m = 0; m < kBlocksM; ++m) {
            mma_16816(s[m][2 * pair], a[m], x[0], x[1]);
            mma_16816(s[m][2 * pair + 1], a[m], x[2], x[3]);
        }
        // the blocks of the last round, evenly over this one
        const int in_round = now % kRound;
#pragma unroll
        for (int n = 0; n < 2 * kTogether; ++n)
            if (now >= kRound && in_round == (2 * n + 1) * kRound / (4 * kTogether))
                finished((now / kRound - 1) * 2 * kTogether + n);
    }
#pragma unroll
    for (int n = kBlocksN - 2 * kTogether; n < kBlocksN; ++n)
        finished(n);
}

// Row sums of 16 columns of P, by one more column block of V, all ones: the sums of just what the
// output is made of.
__device__ __forceinline__ void sum_operands(RowState &state, const Weights &p, int m)
{
    constexpr unsigned kOnes = kElement == kElementF16 ? 0x3c003c00u : 0x3f803f80u;
    mma_16816(state.operands[m], p[m], kOnes, kOnes);
}

// O += P V. weights(step) gives 16 columns of P, whose sums are taken here, unless some of them are
// dropped: then before that.
template <class GetWeights>
__device__ __forceinline__ void multiply_pv(Output &o, RowState &state, unsigned v,
                                            GetWeights weights)
{
    constexpr int kPairs = kBlocksV / 2, kCount = kStepsN * kPairs;
    unsigned b[kAhead + 1][4];
    Weights p;
#pragma unroll
    for (int i = 0; i < kCount + kAhead; ++i) {
        if (i < kCount)
            ldmatrix_x4_trans(b[i % (kAhead + 1)],
                              v + 16 * (i / kPairs) * kRowBytesV + 32 * (i % kPairs));
        const int now = i - kAhead;
        if (now < 0)
            continue;
        const int pair = now % kPairs;
        if (pair == 0)
            weights(now / kPairs, p);
        const unsigned(&x)[4] = b[now % (kAhead + 1)];
#pragma unroll
        for (int m = 0; m < kBlocksM; ++m) {
            mma_16816(o[m][2 * pair], p[m], x[0], x[1]);
            mma_16816(o[m][2 * pair + 1], p[m], x[2], x[3]);
            if (!kHasDropout && pair == kPairs - 1)
                sum_operands(state, p, m);
        }
    }
}

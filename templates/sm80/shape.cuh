// Shapes of the sm80 forward kernel, derived from the configuration.
//
// A CTA owns kTileM query rows of one head; a warp kTileM / kWarps of them (one or two blocks of
// 16), so that with two blocks each K and V fragment read from shared memory feeds two MMAs:
// shared-memory bandwidth, not the tensor cores, limits a kernel with one block per warp.
//
// Shared memory: Q [kTileM][kDepth], then kStages of K [kTileN][kDepth], then kStages of V
// [kTileN][kDepthV]; afterwards O [kTileM][kDepthV] over the same bytes. Head dims are padded to
// the MMA's 16. Rows are 16 bytes longer than their data: an odd number of 16-byte units, so eight
// rows of one column fall into eight different bank groups for every head dim, and every address is
// a base plus a constant (an XOR swizzle would save the bytes and cost registers).
#pragma once

#include "common/args.cuh"
#include "common/mma.cuh"
#include "common/program.cuh"
#include "common/sequences.cuh"
#include "facc_config.cuh"
#include "facc_variant.cuh"
#include "sm80/extra.cuh"

__host__ __device__ constexpr int round_up(int x, int multiple)
{
    return (x + multiple - 1) / multiple * multiple;
}

constexpr int kThreads = 32 * kWarps;
// Eight warps are two groups that take turns at the tensor cores (mainloop.cuh).
constexpr int kGroups = kWarps == 8 ? 2 : 1;
constexpr int kGroupThreads = kThreads / kGroups;
constexpr int kRowsPerGroup = kTileM / kGroups;
constexpr int kRowsPerWarp = kTileM / kWarps;
constexpr int kBlocksM = kRowsPerWarp / 16; // MMA blocks: rows of a warp,
constexpr int kBlocksN = kTileN / 8;        // score columns,
constexpr int kDepth = round_up(kHeadDim, 16);
constexpr int kDepthV = round_up(kHeadDimV, 16);
constexpr int kBlocksV = kDepthV / 8;           // output columns,
constexpr int kStepsD = kDepth / 16;            // MMA steps along the head dim,
constexpr int kStepsQK = kStepsD + kStepsExtra; // and the extra columns behind it,
constexpr int kStepsN = kTileN / 16;            // and along KV in P V

constexpr int kRowBytes = 2 * (kDepth + kExtraDim) + 16;
constexpr int kRowBytesV = 2 * kDepthV + 16;
constexpr int kBytesQ = kTileM * kRowBytes;
constexpr int kBytesK = kTileN * kRowBytes;
constexpr int kBytesV = kTileN * kRowBytesV;
constexpr int kBytesLoop = kBytesQ + kStages * (kBytesK + kBytesV);
constexpr int kBytesO = kOutElement == kElementF32 ? 0 : kTileM * kRowBytesV;
constexpr int kBytesNeeded = kBytesLoop > kBytesO ? kBytesLoop : kBytesO;

// CTAs of a multiprocessor, which bounds the registers of a thread: 255 for eight warps in all, 168
// for twelve, which small tiles can do with (the sum: accumulators and Q fragments).
constexpr int kFragmentRegisters =
    kBlocksM * (4 * kBlocksV + 4 * kBlocksN + 4 * (kQInRegisters ? kStepsQK : 1));
constexpr int kCtasPerSm = kWarps == 8 ? 1 : kFragmentRegisters <= 128 ? 3 : 2;

static_assert(kBlocksM == 1 || kBlocksM == 2, "a warp owns 16 or 32 query rows");
static_assert(kTileM % (16 * kWarps) == 0 && kTileN % 16 == 0, "tiles are whole MMA blocks");
static_assert(kHeadDim % 8 == 0 && kHeadDimV % 8 == 0, "rows are whole 16-byte units");
static_assert(kWarps == 4 || kWarps == 8, "one group of warps, or two");
static_assert(kStages == 2 || (kStages == 1 && kGroups == 1), "two groups need two buffers");
static_assert(kSharedBytes == kBytesNeeded, "runtime/select.c computes the same sum");
static_assert(kElement == kElementF16 || kElement == kElementBf16,
              "this family takes 16-bit Q, K, V");

// With one group of warps and Q in registers, score and such a mask are applied between the MMAs of
// Q K^T, which then finish some columns before they start the next; two groups hide it behind each
// other's MMAs.
constexpr bool kMaskBetween = kGroups == 1 && kQInRegisters && kMaskAtOnce;
constexpr bool kScoreBetween = kGroups == 1 && kQInRegisters && !kRawScores &&
                               (kMaskBetween || !(Variant::kHasMask && Variant::kMaskNeedsScore));
constexpr bool kBetween = kMaskBetween || kScoreBetween;
constexpr int kTogether = !kBetween ? kStepsN : kStepsN % 2 == 0 ? 2 : 1; // pairs of column blocks

using Scores = float[kBlocksM][kBlocksN][4];
using Output = float[kBlocksM][kBlocksV][4];
using Rows = Variant::Row[kBlocksM][2];

// Of one thread, per row g and g + 8 of each block. Weights are 2^(x - reference) with x the score
// in log2 units; reference is -inf until a score counts, then the largest score so far or at most
// kSlack below it.
struct RowState {
    float reference[kBlocksM][2];
    float sum[kBlocksM][2];      // of weights, of this thread's columns only until the end: the LSE
    float operands[kBlocksM][4]; // of weights as the MMAs take them, whole rows: divides the output
};

// One query tile of one head. In shared memory, and read from there each time: registers are
// scarce.
struct Work : ExtraWork<(kExtraDim > 0), Variant> {
    static constexpr int kStaged = kListed ? 32 : 1; // entries,
    static constexpr int kEntryWords = 1 + kGroups;  // of 8 bytes
    int b, h;
    int q0;                               // first row; -1: nothing to do
    int q_rows;                           // rows >= q_rows are not of this sequence
    int q_len;                            // rows >= q_len are not attended
    int kv_len;                           // columns >= kv_len do not exist
    int first_tile, end_tile;             // KV tiles in reach of the mask's plain bounds, or
    int n_entries;                        // the list that says which:
    const uint2 *entries;                 // of a schedule,
    uint2 staged[kStaged * kEntryWords];  // and the first of them
    const unsigned char *classes;         // block mask: of (b, h)
    const char *q, *k, *v;                // first element of (b, h)
    long long q_start;                    // row of O and LSE that is the sequence's first
    bool q_aligned, k_aligned, v_aligned; // rows may be read 16 bytes at a time
    Variant::Tile t;
};

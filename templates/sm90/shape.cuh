// Shapes of the sm90 forward kernel, derived from the configuration, and what a CTA keeps in shared
// memory.
//
// A CTA stays on its multiprocessor and works through query tiles (items) of kTileM rows: 64 for
// each of its kGroups consumer warpgroups, whose warps own 16 whole rows each. The last warpgroup
// produces: one warp finds items and loads Q, one finds KV tiles and loads K, one loads V, and one
// makes tables of column and diagonal values, if there are any.
//
// Q, K and V lie in panels of 64 columns, rows of 128 bytes, with TMA's 128-byte swizzle, which
// wgmma reads as they are: Q [kQBuffers][kGroups][kPanels][64][64], K
// [kStages][kPanels][kTileN][64], V likewise, then output; extra columns of Q and K (extra.cuh) lie
// behind the panels of each slot. TMA fills head dims up to whole panels
// with zeros. With FP8 panels of Q and K have 128 columns, or 64 in rows of 64 bytes; V is an image
// (fp8.cuh).
#pragma once

#include "common/args.cuh"
#include "common/program.cuh"
#include "common/sequences.cuh"
#include "common/tables.cuh"
#include "sm90/extra.cuh"
#include "sm90/plane.cuh"
#include "sm90/ptx.cuh"

#ifdef FACC_FP8
constexpr bool kFp8 = true;
#else
constexpr bool kFp8 = false, kBlockScales = false, kPromotes = false, kTransposesV = false;
constexpr bool kExactPeaks = false;
#endif

constexpr int kGroups = kWarps / 4 - 1;
constexpr int kThreads = 32 * kWarps;
constexpr int kGroupThreads = 128;
constexpr int kRowsPerGroup = 64;
constexpr int kRowsPerWarp = 16;
constexpr int kConsumerWarps = 4 * kGroups;
constexpr int kBlocksM = 1;
constexpr int kBlocksN = kTileN / 8;
constexpr int kBlocksV = kHeadDimV / 8;

constexpr int kRowBytes = 128; // of a panel of V or O
constexpr int kRowBytesQK = kFp8 && kHeadDim <= 64 ? 64 : 128;
constexpr int kPanelColumns = kFp8 ? kRowBytesQK : 64; // of Q and K
constexpr int kPanels = (kHeadDim + kPanelColumns - 1) / kPanelColumns;
constexpr int kPanelsV = (kHeadDimV + 63) / 64;
constexpr int kHeadBytesQ = kPanels * kRowsPerGroup * kRowBytesQK; // of one group
constexpr int kHeadBytesK = kPanels * kTileN * kRowBytesQK;
constexpr int kBytesQ =
    kHeadBytesQ + extra_room(kRowsPerGroup); // extra columns behind the head dim
constexpr int kBytesK = kHeadBytesK + extra_room(kTileN);
constexpr int kBytesV = kFp8 ? kTileN * kHeadDimV : kPanelsV * kTileN * kRowBytes;
constexpr int kNaturalSlots = 2; // of V as the caller has it, where it is transposed here (fp8.cuh)
constexpr int kBytesOperands = kQBuffers * kGroups * kBytesQ + kStages * (kBytesK + kBytesV) +
                               (kTransposesV ? kNaturalSlots * kBytesV : 0);

static_assert(kGroups == 2 || kGroups == 3, "two or three consumer warpgroups, and the producer");
static_assert(kTileM == kGroups * kRowsPerGroup, "a warpgroup multiplies 64 rows");
static_assert(kTileN % 16 == 0 && kTileN <= 256, "whole steps of P V, one TMA box");
static_assert((kStages & (kStages - 1)) == 0, "slots are numbers modulo this");
static_assert(kElement == kElementF16 || kElement == kElementBf16 || kFp8,
              "this family takes Q, K, V of 16 and of 8 bits");
static_assert(!kFp8 || (kTileN % 32 == 0 && kHeadDim % 32 == 0 && kHeadDimV % 16 == 0),
              "whole steps of 32 bytes");
static_assert(!kTransposesV || (kFp8 && kHeadDim == kHeadDimV), "V comes in panels as K does");
static_assert(!kCheckBounds, "checked builds are sm80's");

using Scores = float[kBlocksM][kBlocksN][4];
using Rows = Variant::Row[kBlocksM][2];

// Powers of two, as kStages and kQBuffers are: slots are numbers modulo these.
constexpr unsigned kItems = 4, kRuns = 4;

// True: tiles of a captured tensor are copied (plane.cuh), if what an item of this program is
// described by leaves the room: 1,280 bytes are the rest of Control without tables.
constexpr bool kPlanes = kPlaneBytes > 0 &&
                         kBytesOperands + kPlaneSlots *kPlaneSlotBytes + 8 * kTileM + 1280 +
                                 static_cast<int>(kItems * sizeof(Variant::Tile)) <=
                             kSharedBytes;
constexpr int kBytesPlanes = kPlanes ? kPlaneSlots * kPlaneSlotBytes : 0;
constexpr int kBytesTiles = kBytesOperands + kBytesPlanes;

// Values of rows are made once per item, and come and go with its Q; those of columns and diagonals
// once per tile, in what room the rest of Control leaves; what does not fit is made in each thread.
constexpr int kFixedBytes = 8 * kTileM + 2048 + // before; barriers and runs
                            static_cast<int>(kItems * sizeof(Variant::Tile)) +
                            (kFp8 ? 4 * kTileM + 1024 : 0); // what FP8 adds
// FP8: of the copy of sums (fp8.cuh) of one group.
constexpr int kBytesCopy = kPromotes ? 4 * kRowsPerGroup * kHeadDimV : 0;
constexpr int kRoom = kSharedBytes - kBytesTiles - kGroups * kBytesCopy - kFixedBytes;
constexpr int kRowTableBytes = static_cast<int>(kQBuffers * kTileM * sizeof(Variant::Row));
// Not those of V, which are let go a product later.
constexpr unsigned kTableSlots = kPlanes ? kPlaneSlots : kStages;
constexpr int kColBytes = kTableSlots * kColTableBytes, kDiagBytes = kTableSlots * kDiagTableBytes;
constexpr bool kHasRows = !__is_empty(Variant::Row);
constexpr bool kRowsShared = kHasRows && kRowTableBytes <= kRoom;
// Elsewhere they are made in each thread for each tile; with planes by what reads them, so that
// offsets of their loads take no registers where elements are copied.
constexpr bool kRowsLate = kHasRows && !kRowsShared && kPlanes;
constexpr int kRoomOfCols = kRoom - (kRowsShared ? kRowTableBytes : 0);
constexpr bool kStageCol = Variant::kStageCol && kColBytes <= kRoomOfCols;
constexpr int kRoomOfDiags = kRoomOfCols - (kStageCol ? kColBytes : 0);
constexpr bool kStageDiag = Variant::kStageDiag && kDiagBytes <= kRoomOfDiags;

// What FP8 adds to the description of a query tile.
template <bool kHas> struct Fp8Work {
};
template <> struct Fp8Work<true> {
    const unsigned char *v; // image of the sequence
    float descale_v;        // of the output; of V's blocks: the largest
    const float *mean;      // of V's columns, or 0
    // Descales of blocks: those of the sequence's first rows, or 0; those of this tile's warps.
    const float *k_scales, *v_scales;
    float q_scale[kBlockScales ? kConsumerWarps : 1];
};

// One query tile of one head.
struct Work : ExtraItem<(kExtraDim > 0), Variant>, PlaneItem<kPlanes, Variant>, Fp8Work<kFp8> {
    int b, h;
    int tile;                     // its number; -1: no more items
    int q0;                       // first row
    int q_rows;                   // rows >= q_rows are not of this sequence
    int q_len;                    // rows >= q_len are not attended
    int kv_len;                   // columns >= kv_len do not exist
    int q_start, kv_start;        // rows of the tensors that are the sequence's first
    int k_h, k_b, v_h, v_b;       // where K and V are
    int n_entries;                // of a schedule's list,
    const uint2 *entries;         // or
    bool foreign;                 // tensors go on behind the sequence's last rows
    const unsigned char *classes; // block mask: of (b, h)
    char *o;                      // of the sequence's first row
    float *lse;                   // likewise, or null
    Variant::Tile t;
};

// What the load warp tells of KV tiles: at most 32, one after the other in the order of visits;
// maybe the item's last, or that it, or all, is over.
enum RunKind { kRunTiles, kRunLastTiles, kRunEnd, kRunStop };
struct Run {
    int kind, tile, tiles;
    unsigned masked[kGroups]; // bit i: cells of the i-th tile may not count
    unsigned dead[kGroups];   // bit of its place in the window: none does
};

// Descales of 32 columns: of K; of V, in log2 units of the largest, and that as a divisor.
struct ChunkScales {
    float k, v_log2, v_inverse;
};
template <bool kHas> struct ScaleTables {
};
template <> struct ScaleTables<true> {
    ChunkScales scales[kTableSlots][kTileN / 32];
};

constexpr bool kTables = kStageCol || kStageDiag || kBlockScales || kPlanes;
// Producer warps that follow runs: for V, for tables or, where there are none, for V, too.
constexpr int kFollowers = kTables || kTransposesV ? 2 : 1;
constexpr int kTransposers = kTables ? 1 : 2; // those for V, where it is transposed here
struct Stage : CellTables<kTableSlots, kStageCol, kStageDiag>, ScaleTables<kBlockScales> {
};

// Of one thread, for its rows g and g + 8.
struct RowState {
    float reference[2];  // in log2 units; -inf until a score counts
    float sum[2];        // of weights 2^(score - reference), of this thread's columns only
    float share_inverse; // kExactPeaks: see count_tile
};

// What is kept of a row while its output waits to be written.
struct RowSum {
    float reference, sum;
};

// Barriers in pairs: full says that a slot may be read, empty that it may be written.
struct Barrier {
    unsigned long long word;
    __device__ __forceinline__ unsigned address() const { return shared_address(&word); }
    __device__ __forceinline__ void init(int arrivals) const { mbarrier_init(address(), arrivals); }
    __device__ __forceinline__ void arrive() const { mbarrier_arrive(address()); }
    // For the n-th use of one of `slots` slots: to be written (empty), to be read (full).
    __device__ __forceinline__ void wait_full(unsigned n, unsigned slots) const
    {
        mbarrier_wait(address(), n / slots & 1);
    }
    __device__ __forceinline__ void wait_empty(unsigned n, unsigned slots) const
    {
        mbarrier_wait(address(), (n / slots & 1) ^ 1);
    }
    // By a warp, after all its lanes are done. (Where lanes have written what others read, each
    // arrives for itself: racecheck does not see that they wait for each other.)
    __device__ __forceinline__ void arrive_warp() const
    {
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            arrive();
    }
};

// FP8: of sums in the copy.
template <bool kHas> struct CopiedRows {
};
template <> struct CopiedRows<true> {
    float reference[kTileM];   // as it was when they were added; NaN: there are none
    int tiles[kConsumerWarps]; // since then
};

// Of V's tiles before they are transposed.
template <bool kHas> struct NaturalBarriers {
};
template <> struct NaturalBarriers<true> {
    Barrier natural_full[kNaturalSlots], natural_empty[kNaturalSlots];
};

// kElsewhere: what waits to be written waits in the memory of the output.
template <bool kElsewhere> struct ControlOf : CopiedRows<kPromotes>, NaturalBarriers<kTransposesV> {
    Barrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
    Barrier q_full[kQBuffers][kGroups], q_empty[kQBuffers][kGroups];
    Barrier item_full[kItems], item_empty[kItems];
    Barrier run_full[kRuns], run_empty[kRuns];
    Barrier table_full[kTableSlots], table_empty[kTableSlots];
    Barrier started; // phase i: the loads of item i have begun
    Run run[kRuns];
    facc_schedule_bits window[kGroups]; // for the load warp, whose registers are few
    Work item[kItems];
    Variant::Row row[kRowsShared ? kQBuffers * kTileM : 1];
    RowSum before[kElsewhere ? 1 : kTileM];
    unsigned item_before[kConsumerWarps];
    unsigned dead[kConsumerWarps]; // of the run, see Run
    Stage stage;
};

// True: output goes through shared memory and leaves by TMA, in panels as Q has: [kGroups]
// [kPanelsV][64][64]. Not where the rows behind a sequence are another's, nor where the rest needs
// all the memory, as that copy does.
constexpr int kBytesPanel = kRowsPerGroup * kRowBytes;
constexpr int kBytesAround = kBytesTiles + kGroups * kPanelsV * kBytesPanel; // Control
constexpr bool kOutputStaged =
    kQBuffers == 2 && kOutElement != kElementF32 && !kPacked && !kPromotes &&
    kBytesAround + static_cast<int>(sizeof(ControlOf<true>)) <= kSharedBytes;
constexpr bool kBeforeInOutput =
    kOutputStaged && kBytesAround + static_cast<int>(sizeof(ControlOf<false>)) > kSharedBytes;
using Control = ControlOf<kBeforeInOutput>;
// Of one group; or of its copy.
constexpr int kBytesO = kOutputStaged ? kPanelsV * kBytesPanel : kBytesCopy;
static_assert(kBytesTiles + kGroups * kBytesO + static_cast<int>(sizeof(Control)) <= kSharedBytes,
              "select.c leaves this much");

// The same as Tiles::plane, where only tables are known.
__device__ __forceinline__ unsigned plane_beside(const Stage &stage, unsigned slot)
{
    const Control &any = *reinterpret_cast<const Control *>(1024);
    const unsigned long long in_control =
        reinterpret_cast<const char *>(&any.stage) - reinterpret_cast<const char *>(&any);
    return shared_address(&stage) - static_cast<unsigned>(in_control) - kGroups * kBytesO -
           kBytesPlanes + slot * kPlaneSlotBytes;
}

// Afterwards the warp may write its part of the output's memory again. All lanes wait, though one
// stores: a branch here costs those around it their order (3 % of all, in the main loop).
__device__ __forceinline__ void wait_stores()
{
    tma_store_wait_read();
    __syncwarp();
}

// Addresses of tiles in shared memory.
struct Tiles {
    unsigned base;
    __device__ __forceinline__ unsigned q(int buffer, int group) const
    {
        return base + (buffer * kGroups + group) * kBytesQ;
    }
    __device__ __forceinline__ unsigned k(int slot) const
    {
        return base + kQBuffers * kGroups * kBytesQ + slot * kBytesK;
    }
    __device__ __forceinline__ unsigned v(int slot) const { return k(kStages) + slot * kBytesV; }
    __device__ __forceinline__ unsigned natural(int slot) const { return v(kStages + slot); }
    __device__ __forceinline__ unsigned plane(unsigned slot) const
    {
        return base + kBytesOperands + slot * kPlaneSlotBytes;
    }
    __device__ __forceinline__ unsigned o(int group) const
    {
        return base + kBytesTiles + group * kBytesO;
    }
};

// Registers of a thread, so that all of a multiprocessor are used: 65,536 / kThreads each at the
// start (a multiple of 8), of which the producers give most to the consumers.
constexpr int kProducerRegisters = kGroups == 2 ? 40 : 32;
constexpr int kConsumerRegisters = kGroups == 2 ? 232 : 160;

__device__ __forceinline__ void init_natural(const NaturalBarriers<false> &) {}
__device__ __forceinline__ void init_natural(const NaturalBarriers<true> &b)
{
    for (int i = 0; i < kNaturalSlots; ++i) {
        b.natural_full[i].init(1);
        b.natural_empty[i].init(kTransposers);
    }
}

__device__ __forceinline__ void init_barriers(const Control &c)
{
    for (int i = 0; i < kStages; ++i) {
        c.k_full[i].init(1);
        c.v_full[i].init(kTransposesV ? kTransposers : 1);
        c.k_empty[i].init(kConsumerWarps);
        c.v_empty[i].init(kConsumerWarps);
    }
    init_natural(c);
    for (unsigned i = 0; i < kTableSlots; ++i) {
        c.table_full[i].init(kPlanes ? 33 : 32); // each lane; and a copy
        c.table_empty[i].init(kConsumerWarps);
    }
    for (int i = 0; i < kQBuffers; ++i)
        for (int g = 0; g < kGroups; ++g) {
            c.q_full[i][g].init(kRowsShared ? 33 : 1); // Q; each lane that made rows
            c.q_empty[i][g].init(4);
        }
    for (unsigned i = 0; i < kItems; ++i) {
        c.item_full[i].init(32);
        c.item_empty[i].init(kConsumerWarps + 1 + kFollowers);
    }
    for (unsigned i = 0; i < kRuns; ++i) {
        c.run_full[i].init(1);
        c.run_empty[i].init(kConsumerWarps + kFollowers);
    }
    c.started.init(1);
    mbarrier_fence_init();
}

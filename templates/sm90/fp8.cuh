// What Q, K and V of 8 bits ask for beside their shapes: V's image, descales, V's mean, sums that
// are promoted. Kernels for 16 bits have bits16.cuh in its place.
//
// V's image. The tensor cores take FP8 operands with the terms of a product's sum side by side, so
// V^T: common/fp8_args.h says how it lies. A tile is one piece of memory, as wgmma reads it.
//
// Promotion. Sums of FP8 products keep 13 bits: with a mean of V as large as its deviation, 10 % of
// O are lost over 8k tokens. Every args.fp8.promote_tiles KV tiles they are therefore added to a
// copy in f32, in shared memory, and begin anew. Where V comes without its mean (args.fp8.v_mean),
// nothing piles up, and nothing is promoted.
#pragma once
#include "common/descales.cuh"
#include "facc_wgmma.cuh"
#include "sm90/fp8_ptx.cuh"
#include "sm90/shape.cuh"

// Registers are short: outputs are corrected and written with no scores in flight. And steps are
// short: what is rare is done in as few pieces as can be, since each that is jumped over costs.
constexpr bool kSettlesFirst = true;
constexpr bool kFactorOfItem = kRawScores; // see Consumer
// Steps are short: K and V of the next one are waited for under this one's products, where there
// are slots enough that they have come.
constexpr bool kWaitsAhead = kStages >= 4;

// ---- descriptions of query tiles

__device__ __forceinline__ void describe_fp8(const KernelArgs &args, const Work &w,
                                             Fp8Work<true> &f)
{
    const facc_fp8 &more = args.fp8;
    const int h = w.h / args.group;
    const long long chunk = args.cu_seqlens_kv ? facc_v_chunk(w.kv_start, w.b) : 0;
    f.v = static_cast<const unsigned char *>(args.v) + w.b * args.v_stride[0] +
          h * args.v_stride[1] + chunk * (FACC_V_CHUNK * kHeadDimV);
    f.descale_v = kBlockScales ? 1.0f : descale_of(more.descale_v, more.descale_v_stride, w.b, h);
    f.mean =
        more.v_mean ? more.v_mean + w.b * more.v_mean_stride[0] + h * more.v_mean_stride[1] : 0;
}

// Descales of blocks; by a warp.
__device__ __forceinline__ void describe_blocks(const KernelArgs &args, const Work &w,
                                                Fp8Work<true> &f)
{
    const facc_fp8 &more = args.fp8;
    const int lane = threadIdx.x % 32, h = w.h / args.group;
    const float *q =
        descale_at(more.descale_q, more.descale_q_stride, w.b, w.h / more.descale_q_group);
    if (lane < kConsumerWarps) {
        const int block = min(w.q0 + kRowsPerWarp * lane, w.q_rows - 1) / more.descale_block_q;
        f.q_scale[kBlockScales ? lane : 0] = q ? q[block * more.descale_q_stride[2]] : 1.0f;
    }
    const float *v = descale_at(more.descale_v, more.descale_v_stride, w.b, h);
    float top = v ? 0.0f : 1.0f;
    if (v)
        for (int i = lane; i * more.descale_block_kv < w.kv_len; i += 32)
            top = fmaxf(top, v[i * more.descale_v_stride[2]]);
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        top = fmaxf(top, __shfl_xor_sync(~0u, top, lanes));
    if (lane == 0) {
        f.k_scales = descale_at(more.descale_k, more.descale_k_stride, w.b, h);
        f.v_scales = v;
        f.descale_v = top;
    }
    __syncwarp();
}

// ---- descales of blocks, per tile

__device__ __forceinline__ void fill_scales(const KernelArgs &, const Work &, const Fp8Work<true> &,
                                            int, unsigned, ScaleTables<false> &)
{
}

// Those of the tile from kv0 on, by a warp. A block of V whose descale is
// less than 2^-40 of the largest has no weight (but counts in the sums).
__device__ __forceinline__ void fill_scales(const KernelArgs &args, const Work &w,
                                            const Fp8Work<true> &f, int kv0, unsigned slot,
                                            ScaleTables<true> &tables)
{
    constexpr float kLeast = 9.09494702e-13f;
    const int i = threadIdx.x % 32;
    if (i >= kTileN / 32)
        return;
    const facc_fp8 &more = args.fp8;
    const int block = min(kv0 + 32 * i, w.kv_len - 1) / more.descale_block_kv;
    const float k = f.k_scales ? f.k_scales[block * more.descale_k_stride[2]] : 1.0f;
    const float v = f.v_scales && f.descale_v > 0.0f
                        ? f.v_scales[block * more.descale_v_stride[2]] / f.descale_v
                        : 1.0f;
    const float ratio = v < kLeast ? kLeast : v;
    tables.scales[slot][i] = ChunkScales{k, log2_fast(ratio), 1.0f / ratio};
}

__device__ __forceinline__ float q_scale(const Fp8Work<true> &f)
{
    return f.q_scale[kBlockScales ? threadIdx.x / 32 : 0];
}

__device__ __forceinline__ void scale_blocks(const Fp8Work<true> &, const ScaleTables<false> &,
                                             unsigned, Scores &)
{
}

// Raw scores times the descales of Q and K.
__device__ __forceinline__ void
scale_blocks(const Fp8Work<true> &f, const ScaleTables<true> &tables, unsigned slot, Scores &s)
{
    const float q = q_scale(f);
#pragma unroll
    for (int n = 0; n < kBlocksN; ++n) {
        const float by = q * tables.scales[slot][n / 4].k;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            s[0][n][i] *= by;
    }
}

// ---- V

// By one lane.
__device__ __forceinline__ void load_image(const Fp8Work<true> &f, int tile, unsigned dst,
                                           const Barrier &full)
{
    mbarrier_expect(full.address(), kBytesV);
    bulk_load(dst, f.v + tile * static_cast<long long>(kBytesV), kBytesV, full.address());
}

// The same of a tile from that row on, as the caller's V has it, to be transposed here.
__device__ __forceinline__ void load_natural(const KernelArgs &args, const Work &w,
                                             const NaturalBarriers<true> &b, const Tiles &tiles,
                                             int row, unsigned load)
{
    const unsigned slot = load % kNaturalSlots;
    b.natural_empty[slot].wait_empty(load, kNaturalSlots);
    mbarrier_expect(b.natural_full[slot].address(), kBytesV);
#pragma unroll
    for (int p = 0; p < kPanels; ++p)
        tma_load(tiles.natural(slot) + p * kTileN * kRowBytesQK, args.tensor_map[2],
                 b.natural_full[slot].address(), kPanelColumns * p, row, w.v_h, w.v_b);
}

// The part of a warp of the image of a tile in panels as TMA brings them. A step takes 16 tokens of
// 32 channels: matrices of 8 tokens by 8 pairs of channels, turned, have in a lane's register a
// pair's bytes of two tokens; of the registers of 16 tokens, the even bytes are a channel's, the
// odd ones the next one's, and already in the image's order. Half of the lanes store the two the
// other way round: so the rows of a matrix lie in different banks. Warps take every kTransposers-th
// step across. Registers are short: addresses are one of each side, but for constants.
__device__ __forceinline__ void transpose_tile(unsigned from, unsigned to, unsigned part)
{
    constexpr int kMine = kHeadDimV / 32 / kTransposers; // across; then how many at once
    constexpr int kAcross = kMine > 4 ? 2 : kMine, kDown = kMine < 4 ? 2 : 1;
    constexpr int kUnits = kRowBytesQK / 16, kFarther = 2 * kTransposers; // of 16 bytes
    static_assert(!kTransposesV || (kMine > 0 && kTileN % (16 * kDown) == 0), "whole steps");
    const unsigned lane = threadIdx.x % 32, matrix = lane / 8, row = lane % 8;
    const unsigned swizzle = kUnits == 8 ? row : row / 2;
    from += (8 * (matrix & 1) + row) * kRowBytesQK + ((2 * part + (matrix >> 1) ^ swizzle) << 4);
    to += 1024 * part + 32 * (16 * (matrix >> 1) + 2 * row + (row >> 2 ^ (matrix & 1))) +
          ((row >> 1 & 1) << 4);
    const unsigned first = lane < 16 ? 0x6420 : 0x7531, second = first ^ (0x6420 ^ 0x7531);
#pragma unroll 1
    for (int down = 0; down < kTileN / 16; down += kDown)
#pragma unroll
        for (int across = 0; across < kMine; across += kAcross) {
            unsigned x[kDown][kAcross][4];
#pragma unroll
            for (int i = 0; i < kDown; ++i)
#pragma unroll
                for (int j = 0; j < kAcross; ++j) {
                    const int unit = kFarther * (across + j);
                    const unsigned at = from + 16 * kRowBytesQK * down ^ unit % kUnits << 4;
                    ldmatrix_x4_trans(x[i][j], at + 16 * kRowBytesQK * i +
                                                   unit / kUnits * (kTileN * kRowBytesQK));
                }
#pragma unroll
            for (int i = 0; i < kDown; ++i)
#pragma unroll
                for (int j = 0; j < kAcross; ++j) {
                    const unsigned(&y)[4] = x[i][j];
                    const int half = (down + i) % 2; // of a chunk
                    const unsigned at = to + down / 2 * (FACC_V_CHUNK * kHeadDimV) ^
                                        static_cast<unsigned>(half << 4);
                    store_matrices(
                        at + 1024 * kTransposers * (across + j),
                        uint4{__byte_perm(y[0], y[1], first), __byte_perm(y[0], y[1], second),
                              __byte_perm(y[2], y[3], first), __byte_perm(y[2], y[3], second)});
                }
        }
}

// By a warp, the `part`-th of kTransposers: its part of the tile of that load.
__device__ __forceinline__ void transpose_natural(const Control &c, const NaturalBarriers<true> &b,
                                                  const Tiles &tiles, unsigned load, int part)
{
    const unsigned slot = load % kStages, natural = load % kNaturalSlots;
    b.natural_full[natural].wait_full(load, kNaturalSlots);
    c.v_empty[slot].wait_empty(load, kStages);
    transpose_tile(tiles.natural(natural), tiles.v(slot), part);
    fence_async_shared();
    c.v_full[slot].arrive_warp();
    b.natural_empty[natural].arrive_warp();
}

// Tokens from `from` on are set to 0: by a warpgroup, which has to wait for itself behind it.
__device__ __forceinline__ void clear_image_tail(unsigned tile, int from)
{
    constexpr int kGroupBytes = FACC_V_CHUNK * kHeadDimV;
#pragma unroll 1
    for (int i = threadIdx.x % kGroupThreads; i < kBytesV / 16; i += kGroupThreads) {
        const int byte = 16 * i, n = byte % kGroupBytes / 32;
        const int unit = (byte / 16 ^ n / 4) % 2;
        const int left = from - (byte / kGroupBytes * FACC_V_CHUNK + 16 * unit); // tokens to keep
        if (left >= 16)
            continue;
        uint4 x = load_shared_16(tile + byte);
        unsigned *const words = &x.x;
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            unsigned keep = 0;
            for (int b = 0; b < 4; ++b)
                keep |= 2 * t + b + (b < 2 ? 0 : 6) < left ? 0xffu << 8 * b : 0u;
            words[t] &= keep;
        }
        store_shared_16(tile + byte, x);
    }
}

// Factors that are not used need no registers up to here: where scores or descales take more of
// them than there are (in plain kernels the two instructions cost more than they save).
__device__ __forceinline__ void forget(float (&factor)[2])
{
    if constexpr (Variant::kHasScore || kBlockScales)
        factor[0] = factor[1] = 1.0f;
}

// ---- promotion

// A group's promotions. Registers are short: what is kept from tile to tile is in shared memory.
template <bool kHas> class PromoterOf
{
  public:
    __device__ __forceinline__ PromoterOf(const Control &, unsigned) {}
    __device__ __forceinline__ void step(const KernelArgs &, const RowState &, bool) {}
    __device__ __forceinline__ bool accumulates() const { return true; }
    __device__ __forceinline__ const float4 *factors(const RowSum (&)[2], float (&)[2]) const
    {
        return 0;
    }
};

template <> class PromoterOf<true>
{
  public:
    // copy: of the group.
    __device__ __forceinline__ PromoterOf(CopiedRows<true> &rows, unsigned copy)
        : rows_(rows), copy_(copy), begins_(false)
    {
    }

    // Before P V of a visit, with the accumulator as the references in `state` say. first: of its
    // item; the output of the item before is written.
    __device__ __forceinline__ void step(const KernelArgs &args, const RowState &state, bool first)
    {
        int &tiles = rows_.tiles[threadIdx.x / 32];
        const int now = first ? 0 : tiles + 1;
        begins_ = __any_sync(~0u, now == args.fp8.promote_tiles && now > 0);
        if (begins_)
            promote(state);
        tiles = begins_ ? 0 : now;
        if (first)
            rows_.reference[row()] = rows_.reference[row() + 8] = __int_as_float(0x7fffffff);
        __syncwarp();
    }
    // Else P V begins the sums anew.
    __device__ __forceinline__ bool accumulates() const { return !begins_; }

    // For this thread's sums in the copy, with the references in `rows` now; and where they are, or
    // 0: block n is 128 n further.
    __device__ __forceinline__ const float4 *factors(const RowSum (&rows)[2], float (&by)[2]) const
    {
        bool any = false;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float then = rows_.reference[row() + 8 * half], now = rows[half].reference;
            any = then == then;
            by[half] = any ? exp2_fast(then - (now == minus_infinity() ? 0.0f : now)) : 0.0f;
        }
        return any ? copy() : 0;
    }

  private:
    __device__ __forceinline__ float4 *copy() const // of this thread
    {
        return static_cast<float4 *>(shared_pointer(copy_)) + threadIdx.x % kGroupThreads;
    }
    static __device__ __forceinline__ int row()
    {
        return threadIdx.x / 32 * kRowsPerWarp + threadIdx.x % 32 / 4;
    }

    __device__ __forceinline__ void promote(const RowState &state) const
    {
        const RowSum rows[2] = {{state.reference[0], 0.0f}, {state.reference[1], 0.0f}};
        float o[kBlocksV][4], by[2];
        read_output(o);
        const float4 *before = factors(rows, by);
        float4 *const to = copy();
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n) {
            float4 x{o[n][0], o[n][1], o[n][2], o[n][3]};
            const float4 y = before ? before[128 * n] : float4{};
            to[128 * n] = float4{fmaf(y.x, by[0], x.x), fmaf(y.y, by[0], x.y),
                                 fmaf(y.z, by[1], x.z), fmaf(y.w, by[1], x.w)};
        }
        __syncwarp(); // other lanes have read
        rows_.reference[row()] = state.reference[0];
        rows_.reference[row() + 8] = state.reference[1];
        __syncwarp();
    }

    CopiedRows<true> &rows_;
    unsigned copy_; // address
    bool begins_;   // it has all sums
};
using Promoter = PromoterOf<kPromotes>;

// ---- the output

// What sums become the output with.
struct Factors {
    float by[2], share[2], copied[2];
    const float4 *copy; // of this thread; 0: no sums are in it
    const float *mean;  // of this thread's first column, or 0
};

// rows: references and sums of weights; by: 1 / sum, of all that divides them. V's mean is added to
// where it was taken from.
__device__ __forceinline__ Factors factors_of(const Fp8Work<true> &f, const RowSum (&rows)[2],
                                              const float (&by)[2], const Promoter &promoter)
{
    Factors x;
    x.mean = f.mean ? f.mean + 2 * (threadIdx.x % 4) : 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        x.by[half] = by[half] * f.descale_v;
        x.share[half] = rows[half].sum * by[half];
    }
    x.copy = promoter.factors(rows, x.copied);
    return x;
}

// Column 8 n + 2 t + e of the output.
__device__ __forceinline__ float output_at(const float (&o)[kBlocksV][4], int n, int half, int e,
                                           const Factors &f)
{
    float x = o[n][2 * half + e];
    if constexpr (kPromotes) {
        const float4 all = f.copy ? f.copy[128 * n] : float4{};
        const float copied[4] = {all.x, all.y, all.z, all.w};
        x = fmaf(copied[2 * half + e], f.copied[half], x);
    }
    const float mean = f.mean ? f.mean[8 * n + e] : 0.0f;
    return fmaf(x, f.by[half], mean * f.share[half]);
}

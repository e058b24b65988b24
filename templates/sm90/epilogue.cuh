// Normalises the output of a warpgroup's rows and writes O and LSE. Rows that attend to nothing
// give 0 and -inf, or their sink; rows between the used query length and the sequence's own 0 and
// -inf.
#pragma once
#include "sm90/shape.cuh"
// after what it asks of a family:
#include "common/sinks.cuh"

// Where a thread's two rows (8 apart) go.
struct Target {
    const Work &w;
    int q_first;

    __device__ __forceinline__ explicit Target(const Work &w)
        : w(w), q_first(w.q0 + threadIdx.x / 32 * kRowsPerWarp + threadIdx.x % 32 / 4)
    {
    }

    __device__ __forceinline__ int q(int half) const { return q_first + 8 * half; }
    __device__ __forceinline__ bool exists(int half) const { return q(half) < w.q_rows; }
    __device__ __forceinline__ bool attends(int half) const { return q(half) < w.q_len; }

    __device__ __forceinline__ void put_lse(const KernelArgs &args, int half, float value) const
    {
        if (w.lse && threadIdx.x % 4 == 0 && exists(half))
            w.lse[q(half) * args.lse_stride[2]] = value;
    }
};

// Lane t of a quad has word t of each of four rows of four words; afterwards it has all of row t.
__device__ __forceinline__ void transpose_quad(unsigned (&x)[4])
{
    const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
    const unsigned a = __shfl_xor_sync(~0u, odd ? x[0] : x[1], 1);
    const unsigned b = __shfl_xor_sync(~0u, odd ? x[2] : x[3], 1);
    x[0] = odd ? a : x[0], x[1] = odd ? x[1] : a;
    x[2] = odd ? b : x[2], x[3] = odd ? x[3] : b;
    const unsigned c = __shfl_xor_sync(~0u, high ? x[0] : x[2], 2);
    const unsigned d = __shfl_xor_sync(~0u, high ? x[1] : x[3], 2);
    x[0] = high ? c : x[0], x[2] = high ? x[2] : c;
    x[1] = high ? d : x[1], x[3] = high ? x[3] : d;
}

// A pair of a row's neighbours in O.
__device__ __forceinline__ unsigned output_pair(const float (&o)[kBlocksV][4], int n, int half,
                                                const Factors &by)
{
    return pack_pair<kOutElement>(output_at(o, n, half, 0, by), output_at(o, n, half, 1, by));
}

// From registers; a quad writes 64 contiguous bytes of a row at once.
__device__ __forceinline__ void store_direct(const KernelArgs &args, const Target &to,
                                             const float (&o)[kBlocksV][4], const Factors &by,
                                             const bool (&attends)[2])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        char *row = to.w.o + 2 * to.q(half) * args.o_stride[2] + 16 * (threadIdx.x % 4);
#pragma unroll
        for (int n = 0; n < kBlocksV; n += 4) {
            unsigned x[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                x[i] = n + i < kBlocksV && attends[half] ? output_pair(o, n + i, half, by) : 0u;
            transpose_quad(x);
            if (to.exists(half) && n + static_cast<int>(threadIdx.x % 4) < kBlocksV)
                *reinterpret_cast<uint4 *>(row + 16 * n) = uint4{x[0], x[1], x[2], x[3]};
        }
    }
}

// Rows of a warp's part that attend to nothing.
__device__ __forceinline__ void clear_rows(unsigned own, const bool (&attends)[2])
{
    __syncwarp(); // other lanes have written there
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll 1
        for (int i = threadIdx.x % 4; i < 8 * kPanelsV && !attends[half]; i += 4)
            store_shared_16(own + i / 8 * kBytesPanel +
                                (threadIdx.x % 32 / 4 + 8 * half) * kRowBytes + i % 8 * 16,
                            uint4{0, 0, 0, 0});
}

// Through this warp's part of `stage`, in panels of 64 columns with TMA's swizzle: while the tensor
// cores go on.
__device__ __forceinline__ void store_staged(const KernelArgs &args, const Work &w, unsigned stage,
                                             const float (&o)[kBlocksV][4], const Factors &by,
                                             const bool (&attends)[2])
{
    const int lane = threadIdx.x % 32, rows = threadIdx.x / 32 * kRowsPerWarp;
    const unsigned own = stage + rows % kRowsPerGroup * kRowBytes;
    // Of each two blocks of eight columns, lanes 0-7 give the places of rows 0-7 of the first, the
    // next eight of its rows 8-15, then the same of the second.
    const unsigned place = own + lane % 16 * kRowBytes + ((lane / 16 ^ lane % 8) << 4);
    wait_stores();
#pragma unroll
    for (int n = 0; n < kBlocksV; n += 2) {
        const unsigned at = (place ^ n % 8 << 4) + n / 8 * kBytesPanel;
        const unsigned low = output_pair(o, n, 0, by), high = output_pair(o, n, 1, by);
        if (n + 1 < kBlocksV)
            store_matrices(
                at, uint4{low, high, output_pair(o, n + 1, 0, by), output_pair(o, n + 1, 1, by)});
        else
            store_matrices(at, low, high);
    }
    if (__any_sync(~0u, !(attends[0] & attends[1]))) // seldom: not a choice for each element
        clear_rows(own, attends);
    fence_async_shared();
    __syncwarp();
    if (lane == 0) {
#pragma unroll
        for (int p = 0; p < kPanelsV; ++p)
            tma_store(args.tensor_map[3], own + p * kBytesPanel, 64 * p, w.q0 + rows, w.h, w.b);
        tma_store_commit();
    }
}

__device__ __forceinline__ void store_f32(const KernelArgs &args, const Target &to,
                                          const float (&o)[kBlocksV][4], const Factors &by,
                                          const bool (&attends)[2])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float *row = reinterpret_cast<float *>(to.w.o) + to.q(half) * args.o_stride[2] +
                     2 * (threadIdx.x % 4);
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n)
            if (to.exists(half)) {
                row[8 * n] = attends[half] ? output_at(o, n, half, 0, by) : 0.0f;
                row[8 * n + 1] = attends[half] ? output_at(o, n, half, 1, by) : 0.0f;
            }
    }
}

// The sums of a thread's two rows.
__device__ __forceinline__ void whole_rows(const RowState &state, RowSum (&rows)[2])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sum = state.sum[half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        rows[half] = RowSum{state.reference[half], sum};
    }
}

// The accumulator is read: no product may be in flight. stage: of this group; promoter: has what
// else is in the sums.
__device__ __forceinline__ void write_output(const KernelArgs &args, const Work &w, unsigned stage,
                                             const RowSum (&rows)[2], const Promoter &promoter)
{
    constexpr float kLn2 = 0.693147180559945f;
    const Target to(w);
    float by[2], lse[2], o[kBlocksV][4];
    bool attends[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sum = rows[half].sum;
        float base = rows[half].reference;
        if constexpr (Variant::kHasScore)
            base += Variant::shift(args, w.t);
        attends[half] = to.attends(half) && sum != 0.0f; // NaN: the user's own
        float factor = 1.0f, nothing = minus_infinity();
        if constexpr (kHasSinks) {
            const Sunk sunk(args, w, base);
            factor = sunk.factor;
            sum = fmaf(sum, factor, sunk.weight);
            base = sunk.top;
            nothing = to.attends(half) ? sunk.sink : nothing;
        }
        by[half] = kHasSinks ? factor * facc_rcp(sum) : facc_rcp(sum);
        if constexpr (kHasDropout)
            by[half] *= args.dropout_scale;
        lse[half] = attends[half] ? (base + log2_fast(sum)) * kLn2 : nothing;
    }
    read_output(o);
    const Factors &factors = factors_of(w, rows, by, promoter);
    if constexpr (kOutElement == kElementF32)
        store_f32(args, to, o, factors, attends);
    else if constexpr (kOutputStaged)
        store_staged(args, w, stage, o, factors, attends);
    else
        store_direct(args, to, o, factors, attends);
    to.put_lse(args, 0, lse[0]); // last: its address is of no use to what comes before
    to.put_lse(args, 1, lse[1]);
}

// Of an item in which no cell of this group counts.
__device__ __forceinline__ void write_nothing(const KernelArgs &args, const Work &w)
{
    const Target to(w);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
        float nothing = minus_infinity();
        if constexpr (kHasSinks)
            nothing = to.attends(half) ? sink_of(args, w) : nothing;
        to.put_lse(args, half, nothing);
        if (!to.exists(half))
            continue;
        constexpr int kBytes = kOutElement == kElementF32 ? 4 : 2;
        char *row = w.o + kBytes * to.q(half) * args.o_stride[2];
#pragma unroll 1
        for (int n = threadIdx.x % 4; n < kBytes * kHeadDimV / 16; n += 4)
            *reinterpret_cast<uint4 *>(row + 16 * n) = uint4{0, 0, 0, 0};
    }
}

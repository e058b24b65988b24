// Normalises the output of a warpgroup's rows and writes O and LSE. Rows that attend to nothing
// give 0 and -inf, or their sink; rows between the used query length and the sequence's own 0 and
// -inf.
#pragma once
#include "sm90/softmax.cuh"
// after what it asks of a family:
#include "common/sinks.cuh"

// Where a thread's two rows (8 apart) go.
struct Target {
    int q_first;
    int q_len, q_rows;
    char *o; // of row 0 of the sequence
    float *lse;

    __device__ __forceinline__ Target(const KernelArgs &args, const Work &w)
        : q_first(w.q0 + threadIdx.x / 32 * kRowsPerWarp + threadIdx.x % 32 / 4), q_len(w.q_len),
          q_rows(w.q_rows)
    {
        constexpr int kBytes = kOutElement == kElementF32 ? 4 : 2;
        o = static_cast<char *>(args.o) +
            kBytes *
                (w.b * args.o_stride[0] + w.h * args.o_stride[1] + w.q_start * args.o_stride[2]);
        lse = args.lse ? args.lse + w.b * args.lse_stride[0] + w.h * args.lse_stride[1] +
                             w.q_start * args.lse_stride[2]
                       : 0;
    }

    __device__ __forceinline__ void put_lse(const KernelArgs &args, int half, float value) const
    {
        const int q = q_first + 8 * half;
        if (lse && threadIdx.x % 4 == 0 && q < q_rows)
            lse[q * args.lse_stride[2]] = value;
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

// From registers; a quad writes 64 contiguous bytes of a row at once.
__device__ __forceinline__ void store_direct(const KernelArgs &args, const Target &to,
                                             const float (&o)[kBlocksV][4], const float (&by)[2],
                                             const bool (&attends)[2])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int q = to.q_first + 8 * half;
        char *row = to.o + 2 * q * args.o_stride[2] + 16 * (threadIdx.x % 4);
#pragma unroll
        for (int n = 0; n < kBlocksV; n += 4) {
            unsigned x[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                x[i] = n + i < kBlocksV && attends[half]
                           ? pack_pair<kOutElement>(
                                 o[n + i < kBlocksV ? n + i : 0][2 * half] * by[half],
                                 o[n + i < kBlocksV ? n + i : 0][2 * half + 1] * by[half])
                           : 0u;
            transpose_quad(x);
            if (q < to.q_rows && n + static_cast<int>(threadIdx.x % 4) < kBlocksV)
                *reinterpret_cast<uint4 *>(row + 16 * n) = uint4{x[0], x[1], x[2], x[3]};
        }
    }
}

// Through this warp's part of `stage`, in panels of 64 columns with TMA's swizzle: while the tensor
// cores go on. The last store from there must have been read.
__device__ __forceinline__ void store_staged(const KernelArgs &args, const Work &w, unsigned stage,
                                             const float (&o)[kBlocksV][4], const float (&by)[2],
                                             const bool (&attends)[2])
{
    const int lane = threadIdx.x % 32, g = lane / 4, rows = threadIdx.x / 32 * kRowsPerWarp;
    const unsigned own = stage + rows % kRowsPerGroup * kRowBytes;
    if (lane == 0)
        tma_store_wait_read();
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n)
            store_shared(own + n / 8 * kBytesPanel + (g + 8 * half) * kRowBytes +
                             ((n % 8 ^ g) << 4) + 4 * (lane % 4),
                         attends[half] ? pack_pair<kOutElement>(o[n][2 * half] * by[half],
                                                                o[n][2 * half + 1] * by[half])
                                       : 0u);
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
                                          const float (&o)[kBlocksV][4], const float (&by)[2],
                                          const bool (&attends)[2])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int q = to.q_first + 8 * half;
        float *row = reinterpret_cast<float *>(to.o) + q * args.o_stride[2] + 2 * (threadIdx.x % 4);
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n)
            if (q < to.q_rows) {
                row[8 * n] = attends[half] ? o[n][2 * half] * by[half] : 0.0f;
                row[8 * n + 1] = attends[half] ? o[n][2 * half + 1] * by[half] : 0.0f;
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

// The accumulator is read: no product may be in flight. stage: of this group.
__device__ __forceinline__ void write_output(const KernelArgs &args, const Work &w, unsigned stage,
                                             const RowSum (&rows)[2])
{
    constexpr float kLn2 = 0.693147180559945f;
    const Target to(args, w);
    float by[2], o[kBlocksV][4];
    bool attends[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sum = rows[half].sum;
        float base = rows[half].reference;
        if constexpr (Variant::kHasScore)
            base += Variant::shift(args, w.t);
        attends[half] = to.q_first + 8 * half < to.q_len && sum != 0.0f; // NaN: the user's own
        float factor = 1.0f, nothing = minus_infinity();
        if constexpr (kHasSinks) {
            const Sunk sunk(args, w, base);
            factor = sunk.factor;
            sum = fmaf(sum, factor, sunk.weight);
            base = sunk.top;
            nothing = to.q_first + 8 * half < to.q_len ? sunk.sink : nothing;
        }
        by[half] = kHasSinks ? factor * facc_rcp(sum) : facc_rcp(sum);
        to.put_lse(args, half, attends[half] ? (base + log2_fast(sum)) * kLn2 : nothing);
    }
    read_output(o);
    if constexpr (kOutElement == kElementF32)
        store_f32(args, to, o, by, attends);
    else if constexpr (kOutputStaged)
        store_staged(args, w, stage, o, by, attends);
    else
        store_direct(args, to, o, by, attends);
}

// Of an item in which no cell of this group counts.
__device__ __forceinline__ void write_nothing(const KernelArgs &args, const Work &w)
{
    const Target to(args, w);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
        const int q = to.q_first + 8 * half;
        float nothing = minus_infinity();
        if constexpr (kHasSinks)
            nothing = q < to.q_len ? sink_of(args, w) : nothing;
        to.put_lse(args, half, nothing);
        if (q >= to.q_rows)
            continue;
        constexpr int kUnits = kHeadDimV * (kOutElement == kElementF32 ? 4 : 2) / 16;
        char *row = to.o + (kOutElement == kElementF32 ? 4 : 2) * q * args.o_stride[2];
#pragma unroll 1
        for (int n = threadIdx.x % 4; n < kUnits; n += 4)
            *reinterpret_cast<uint4 *>(row + 16 * n) = uint4{0, 0, 0, 0};
    }
}

// Normalises the output of a warpgroup's rows and writes O and LSE from registers. Rows that attend
// to nothing, and rows between the used query length and the sequence's own, give 0 and -inf.
#pragma once
#include "sm90/softmax.cuh"

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
        o = static_cast<char *>(args.o) + kBytes * (w.b * args.o_stride[0] + w.h * args.o_stride[1] +
                                                    w.q_start * args.o_stride[2]);
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

// 16-bit: a quad writes 16 contiguous bytes of a row at once. Exchanges between lanes for wider
// stores cost more than they save.
__device__ __forceinline__ void store_16bit(const KernelArgs &args, const Target &to,
                                            const float (&o)[kBlocksV][4], const float (&by)[2],
                                            const bool (&attends)[2])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int q = to.q_first + 8 * half;
        char *row = to.o + 2 * q * args.o_stride[2] + 4 * (threadIdx.x % 4);
        if (q < to.q_rows)
#pragma unroll
            for (int n = 0; n < kBlocksV; ++n)
                *reinterpret_cast<unsigned *>(row + 16 * n) =
                    attends[half] ? pack_pair<kOutElement>(o[n][2 * half] * by[half],
                                                           o[n][2 * half + 1] * by[half])
                                  : 0u;
    }
}

__device__ __forceinline__ void store_f32(const KernelArgs &args, const Target &to,
                                          const float (&o)[kBlocksV][4], const float (&by)[2],
                                          const bool (&attends)[2])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int q = to.q_first + 8 * half;
        float *row =
            reinterpret_cast<float *>(to.o) + q * args.o_stride[2] + 2 * (threadIdx.x % 4);
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n)
            if (q < to.q_rows) {
                row[8 * n] = attends[half] ? o[n][2 * half] * by[half] : 0.0f;
                row[8 * n + 1] = attends[half] ? o[n][2 * half + 1] * by[half] : 0.0f;
            }
    }
}

// The accumulator is read: no product may be in flight.
__device__ __forceinline__ void write_output(const KernelArgs &args, const Work &w,
                                             const RowState &state)
{
    constexpr float kLn2 = 0.693147180559945f;
    const Target to(args, w);
    float by[2], o[kBlocksV][4];
    bool attends[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sum = state.sum[half], base = state.reference[half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        if constexpr (Variant::kHasScore)
            base += Variant::shift(args, w.t);
        attends[half] = to.q_first + 8 * half < to.q_len && sum != 0.0f; // NaN: the user's own
        by[half] = facc_rcp(sum);
        to.put_lse(args, half, attends[half] ? (base + log2_fast(sum)) * kLn2 : minus_infinity());
    }
    read_output(o);
    if constexpr (kOutElement == kElementF32)
        store_f32(args, to, o, by, attends);
    else
        store_16bit(args, to, o, by, attends);
}

// Of an item in which no cell of this group counts.
__device__ __forceinline__ void write_nothing(const KernelArgs &args, const Work &w)
{
    const Target to(args, w);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
        const int q = to.q_first + 8 * half;
        to.put_lse(args, half, minus_infinity());
        if (q >= to.q_rows)
            continue;
        constexpr int kUnits = kHeadDimV * (kOutElement == kElementF32 ? 4 : 2) / 16;
        char *row = to.o + (kOutElement == kElementF32 ? 4 : 2) * q * args.o_stride[2];
#pragma unroll 1
        for (int n = threadIdx.x % 4; n < kUnits; n += 4)
            *reinterpret_cast<uint4 *>(row + 16 * n) = uint4{0, 0, 0, 0};
    }
}

// Normalises the output and writes O and LSE. Rows that attend to nothing give 0 and -inf, or their
// sink; rows between the used query length and the sequence's own 0 and -inf.
#pragma once

#include "sm80/shape.cuh"
// after what it asks of a family:
#include "common/sinks.cuh"

// The quad's partial sums to row sums; output to its final value; LSE written.
__device__ __forceinline__ void finish_rows(const KernelArgs &args, const Work &w, RowState &state,
                                            Output &o)
{
    constexpr float kLn2 = 0.693147180559945f;
    const int lane = threadIdx.x % 32;
    const int q_first = w.q0 + threadIdx.x / 32 * kRowsPerWarp + lane / 4;
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i) {
        const int m = i / 2, half = i % 2, q = q_first + 8 * i;
        float sum = state.sum[m][half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        const bool attends = q < w.q_len && sum != 0.0f; // NaN attends: it is the user's own
        float inverse = 1.0f / state.operands[m][2 * half];
        float base = state.reference[m][half];
        if constexpr (Variant::kHasScore)
            base += Variant::shift(args, w.t);
        float nothing = minus_infinity();
        if constexpr (kHasSinks) {
            const Sunk sunk(args, w, base);
            inverse = sunk.factor / fmaf(state.operands[m][2 * half], sunk.factor, sunk.weight);
            sum = fmaf(sum, sunk.factor, sunk.weight);
            base = sunk.top;
            nothing = q < w.q_len ? sunk.sink : nothing;
        }
        if constexpr (kHasDropout)
            inverse *= args.dropout_scale;
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; ++e)
                o[m][n][e] = attends ? o[m][n][e] * inverse : 0.0f;
        if (args.lse && lane % 4 == 0 && q < w.q_rows)
            args.lse[w.b * args.lse_stride[0] + w.h * args.lse_stride[1] +
                     (w.q_start + q) * args.lse_stride[2]] =
                attends ? (base + log2f(sum)) * kLn2 : nothing;
    }
}

// f32: from registers; a quad writes 32 contiguous bytes of a row.
__device__ __forceinline__ void store_f32(const KernelArgs &args, const Work &w, const Output &o)
{
    const int lane = threadIdx.x % 32;
    const int q_first = w.q0 + threadIdx.x / 32 * kRowsPerWarp + lane / 4;
    float *head = static_cast<float *>(args.o) + w.b * args.o_stride[0] + w.h * args.o_stride[1] +
                  w.q_start * args.o_stride[2];
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i) {
        const int q = q_first + 8 * i;
        if (q >= w.q_rows)
            continue;
        float *row = head + q * args.o_stride[2];
#pragma unroll
        for (int n = 0; n < kHeadDimV / 8; ++n) {
            row[8 * n + 2 * (lane % 4)] = o[i / 2][n][2 * (i % 2)];
            row[8 * n + 2 * (lane % 4) + 1] = o[i / 2][n][2 * (i % 2) + 1];
        }
    }
}

// 16-bit: through shared memory, each warp its own rows, so that a lane writes 16 bytes. K and V
// are overwritten: all warps must be done with them.
__device__ __forceinline__ void store_16bit(const KernelArgs &args, const Work &w, unsigned shared,
                                            const Output &o)
{
    constexpr int kUnits = kHeadDimV / 8;
    const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * kRowsPerWarp;
    const unsigned stage = shared + warp_row * kRowBytesV;
#pragma unroll
    for (int i = 0; i < 2 * kBlocksM; ++i)
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n)
            store_shared(
                stage + (lane / 4 + 8 * i) * kRowBytesV + 16 * n + 4 * (lane % 4),
                pack_pair<kOutElement>(o[i / 2][n][2 * (i % 2)], o[i / 2][n][2 * (i % 2) + 1]));
    __syncwarp();
    char *head =
        static_cast<char *>(args.o) +
        2 * (w.b * args.o_stride[0] + w.h * args.o_stride[1] + w.q_start * args.o_stride[2]);
    const long long stride = 2 * args.o_stride[2];
    const int rows = min(kRowsPerWarp, w.q_rows - w.q0 - warp_row);
    const long long bits = reinterpret_cast<long long>(head) | stride;
    if ((bits & 15) == 0) {
#pragma unroll 4
        for (int i = lane; i < rows * kUnits; i += 32) {
            const int row = i / kUnits, unit = i % kUnits;
            *reinterpret_cast<uint4 *>(head + (w.q0 + warp_row + row) * stride + 16 * unit) =
                load_shared_16(stage + row * kRowBytesV + 16 * unit);
        }
    } else {
#pragma unroll 1
        for (int i = lane; i < rows * kHeadDimV; i += 32) {
            const int row = i / kHeadDimV, col = i % kHeadDimV;
            *reinterpret_cast<unsigned short *>(head + (w.q0 + warp_row + row) * stride + 2 * col) =
                load_shared_half(stage + row * kRowBytesV + 2 * col);
        }
    }
}

__device__ __forceinline__ void run_epilogue(const KernelArgs &args, const Work &w, unsigned shared,
                                             RowState &state, Output &o)
{
    finish_rows(args, w, state, o);
    if constexpr (kOutElement == kElementF32) {
        store_f32(args, w, o);
    } else {
        __syncthreads();
        store_16bit(args, w, shared, o);
    }
}

// Forward attention for f16 and bf16 with mma.sync, ldmatrix and cp.async: every GPU from Ampere
// on. One CTA per query tile; each warp owns whole query rows, so that the softmax needs no
// exchange between warps.
#include "sm80/epilogue.cuh"
#include "sm80/mainloop.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, kCtasPerSm)
    facc_forward(const __grid_constant__ KernelArgs args)
{
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    __shared__ Stage stage;
    __shared__ Work w;
    const unsigned shared = shared_address(shared_bytes);

    find_work(args, w);
    __syncthreads();
    if (w.q0 < 0)
        return;
    RowState state;
    Output o;
#pragma unroll
    for (int m = 0; m < kBlocksM; ++m) {
        state.reference[m][0] = state.reference[m][1] = minus_infinity();
        state.sum[m][0] = state.sum[m][1] = 0.0f;
#pragma unroll
        for (int e = 0; e < 4; ++e)
            state.operands[m][e] = 0.0f;
#pragma unroll
        for (int n = 0; n < kBlocksV; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                o[m][n][e] = 0.0f;
    }
    run_mainloop(args, w, shared, stage, state, o);
    run_epilogue(args, w, shared, state, o);
}

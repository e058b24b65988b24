// The products of facc_wgmma.cuh in the order of a main loop: the next S is
// multiplied while O takes this P. Only assembled (nvrtc_check.py): what lies
// in shared memory means nothing.
#include "facc_wgmma.cuh"

template <int kGroups> __device__ __forceinline__ void wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

__device__ __forceinline__ unsigned pack(float low, float high)
{
    unsigned r;
    if constexpr (kElement == kElementF16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

__device__ __forceinline__ float weigh(float s, float &sum)
{
    float w;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(w) : "f"(s));
    sum += w;
    return w;
}

__device__ __forceinline__ void softmax(const float (&s)[kTileN / 8][4],
                                        unsigned (&p)[kTileN / 4],
                                        float (&sum)[2])
{
#pragma unroll
    for (int n = 0; n < kTileN / 8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float low = weigh(s[n][2 * i], sum[i]),
                        high = weigh(s[n][2 * i + 1], sum[i]);
            p[2 * n + i] = pack(low, high);
        }
}

extern "C" __global__ void __launch_bounds__(32 * kWarps, 1)
    facc_forward(float *out, unsigned q, unsigned k, unsigned v, int tiles,
                 unsigned zero)
{
    FACC_DECLARE_OUTPUT();
    if (threadIdx.x >= 32 * (kWarps - 4))
        return;
    if constexpr (kWarps == 12)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    else
        asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    float s[kTileN / 8][4], sum[2] = {0, 0};
    unsigned p[kTileN / 4], next[kTileN / 4];
    multiply_qk(s, q, k);
    wait<0>();
    pin(s);
#pragma unroll 1
    for (int j = 0; j < tiles; j++) {
        softmax(s, next, sum);
        wait<0>();
        multiply_qk(s, q, k + 64 * j);
        if (j > 0 && sum[0] > 1e6f)
            scale_output(1 / sum[0], 1 / sum[1]);
#pragma unroll
        for (int n = 0; n < kTileN / 4; n++)
            p[n] = next[n] ^ zero; // not written while a product reads it
        multiply_pv(p, v + 64 * j, j > 0);
        wait<1>();
        pin(s);
    }
    wait<0>();
    float o[kHeadDimV / 8][4];
    read_output(o);
#pragma unroll
    for (int n = 0; n < kHeadDimV / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            out[(4 * n + e) * 384 + threadIdx.x] = o[n][e] / sum[e >> 1];
}

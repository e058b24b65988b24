// The rate of mma.sync m16n8k16 (bf16) of one multiprocessor: n rounds of 32 MMAs a warp, on 16
// accumulators. With `loads` four MMAs share one ldmatrix, as in attention with two row blocks a
// warp. tune_sm80.py launches it, one CTA a multiprocessor.

__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void ldmatrix(unsigned (&b)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(address));
}

extern "C" __global__ void __launch_bounds__(256, 1) peak(float *out, int n, int loads)
{
    __shared__ __align__(16) unsigned words[9216];
    for (int i = threadIdx.x; i < 9216; i += blockDim.x)
        words[i] = i;
    __syncthreads();
    const unsigned lane = threadIdx.x % 32;
    const unsigned base =
        static_cast<unsigned>(__cvta_generic_to_shared(words)) + lane % 16 * 144 + lane / 16 * 16;
    const unsigned a[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    unsigned b[4] = {threadIdx.x, 1, 2, 3};
    float c[16][4] = {};
    if (loads) {
        for (int i = 0; i < n; ++i) {
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                ldmatrix(b, base + 2304 * j);
#pragma unroll
                for (int m = 0; m < 4; ++m)
                    mma(c[(4 * j + m) % 16], a[m / 2], b[m % 2 * 2], b[m % 2 * 2 + 1]);
            }
        }
    } else {
        for (int i = 0; i < n; ++i) {
#pragma unroll
            for (int j = 0; j < 32; ++j)
                mma(c[j % 16], a[j % 2], b[j % 4 / 2 * 2], b[j % 4 / 2 * 2 + 1]);
        }
    }
    float sum = 0.0f; // used, so that nothing is optimised away
    for (int j = 0; j < 16; ++j)
        sum += c[j][0] + c[j][1] + c[j][2] + c[j][3];
    if (sum == 12345.0f)
        out[0] = sum;
}

// What CUDA C++ has of its own that templates/sm90 use, for the lanes of warps.h, which includes
// it.
#pragma once

#define threadIdx (simt::m.lane->id)
#define blockIdx (simt::m.cta->index)
#define gridDim (simt::m.grid)

inline void __syncthreads()
{
    simt::named_barrier(0, 32 * static_cast<int>(simt::m.cta->warps.size()));
}
[[noreturn]] inline void __trap()
{
    simt::fail("trap");
}
inline void __syncwarp()
{
    simt::meet(0, 1);
}
inline unsigned __ballot_sync(unsigned, bool x)
{
    const unsigned *values = simt::meet(x, 2);
    unsigned all = 0;
    for (int i = 0; i < simt::m.warp->lanes; ++i)
        all |= values[i] << i;
    return all;
}
inline bool __any_sync(unsigned, bool x)
{
    return __ballot_sync(~0u, x) != 0;
}
inline int __shfl_sync(unsigned, int x, int lane)
{
    return simt::meet(x, 3)[lane];
}
inline unsigned __shfl_xor_sync(unsigned, unsigned x, int lanes)
{
    return simt::meet(x, 4)[(threadIdx.x % 32) ^ lanes];
}
inline float __shfl_xor_sync(unsigned, float x, int lanes)
{
    return __uint_as_float(simt::meet(__float_as_uint(x), 5)[(threadIdx.x % 32) ^ lanes]);
}
inline unsigned __reduce_or_sync(unsigned, unsigned x)
{
    const unsigned *values = simt::meet(x, 6);
    unsigned all = 0;
    for (int i = 0; i < simt::m.warp->lanes; ++i)
        all |= values[i];
    return all;
}
inline int atomicAdd(int *p, int x)
{
    simt::preempt();
    const int old = *p;
    *p += x;
    return old;
}
inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
inline int __ffs(unsigned x)
{
    return __builtin_ffs(x);
}
inline unsigned __brev(unsigned x)
{
    unsigned y = 0;
    for (int i = 0; i < 32; ++i)
        y |= (x >> i & 1) << (31 - i);
    return y;
}
inline int __clz(unsigned x)
{
    return x ? __builtin_clz(x) : 32;
}

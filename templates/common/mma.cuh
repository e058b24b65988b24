// Thin wrappers of the PTX that the mma.sync families use, and conversions between f32 and the
// 16-bit element type. Nothing here knows of attention.
#pragma once

#include "common/mma_16816.cuh"
#include "facc_config.cuh"

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Of the element type.
__device__ __forceinline__ void mma_16816(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                          unsigned b1)
{
    mma_16816<kElement != kElementF16>(c, a, b0, b1);
}

// Four 8 x 8 matrices; lane l gives the address of row l % 8 of matrix l / 8. Volatile: must not
// cross a barrier.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void cp_async_16(unsigned dst, const void *src)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}

// False: writes zeros and does not read src.
__device__ __forceinline__ void cp_async_16_or_zero(unsigned dst, const void *src, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src),
                 "r"(valid ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void prefetch(const void *p)
{
    asm volatile("prefetch.global.L1 [%0];" ::"l"(p));
}

__device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most kPending of the newest groups are in flight.
template <int kPending> __device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Named barriers (0 is __syncthreads): sync waits until kCount threads have come, arrive only
// counts itself.
template <int kCount> __device__ __forceinline__ void barrier_sync(int id)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kCount) : "memory");
}

template <int kCount> __device__ __forceinline__ void barrier_arrive(int id)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(kCount) : "memory");
}

__device__ __forceinline__ void store_shared(unsigned address, unsigned value)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void store_shared(unsigned address, unsigned short value)
{
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(value) : "memory");
}

__device__ __forceinline__ unsigned load_shared_word(unsigned address)
{
    unsigned v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
    return v;
}

__device__ __forceinline__ unsigned short load_shared_half(unsigned address)
{
    unsigned short v;
    asm volatile("ld.shared.b16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
    return v;
}

__device__ __forceinline__ uint4 load_shared_16(unsigned address)
{
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

// The larger one; NaN if one of them is (fmaxf would lose it).
__device__ __forceinline__ float max_or_nan(float a, float b)
{
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

// 2^x; 2^-inf is exactly 0.
__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Each half of a word becomes its own sign, 16 times.
__device__ __forceinline__ unsigned half_signs(unsigned x)
{
    unsigned y;
    asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(y) : "r"(x));
    return y;
}

// Two floats as a pair of kType elements, `low` in the low half, rounded to nearest even.
template <int kType> __device__ __forceinline__ unsigned pack_pair(float low, float high)
{
    unsigned r;
    if constexpr (kType == kElementF16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

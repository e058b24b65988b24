// Thin wrappers of the PTX that Hopper adds: mbarriers, TMA, wgmma's waits, register reallocation.
// Nothing here knows of attention.
#pragma once
#include "common/mma.cuh"

// --- arithmetic ---

__device__ __forceinline__ float log2_fast(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// ptxas may not put off what makes x.
__device__ __forceinline__ void settle_now(float &x)
{
    asm volatile("" : "+f"(x));
}

// --- mbarriers: 8 bytes of shared memory, by address ---

__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

// Makes initialised barriers visible to TMA; a __syncthreads follows.
__device__ __forceinline__ void mbarrier_fence_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and lets the phase wait for `bytes` more that TMA brings.
__device__ __forceinline__ void mbarrier_expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

// Waits until the phase of that parity is over; parity 1 is over from the start.
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// --- TMA ---

__device__ __forceinline__ void tma_prefetch_map(const void *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// A box of a 4-D tensor to shared memory; `barrier` counts its bytes.
__device__ __forceinline__ void tma_load(unsigned dst, const void *map, unsigned barrier, int c0,
                                         int c1, int c2, int c3)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3,%4,%5,%6}], [%2];" ::"r"(dst),
                 "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

// Of a 5-D tensor.
__device__ __forceinline__ void tma_load_5d(unsigned dst, const void *map, unsigned barrier, int c0,
                                            int c1, int c2, int c3, int c4)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3,%4,%5,%6,%7}], [%2];" ::"r"(dst),
                 "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory");
}

// A box from shared memory to a 4-D tensor; part of it may lie outside.
__device__ __forceinline__ void tma_store(const void *map, unsigned src, int c0, int c1, int c2,
                                          int c3)
{
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2,%3,%4,%5}], [%1];" ::"l"(
            map),
        "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
        : "memory");
}

__device__ __forceinline__ void tma_store_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until this thread's stores have read shared memory.
__device__ __forceinline__ void tma_store_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ __forceinline__ void store_shared_16(unsigned address, uint4 v)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(v.x), "r"(v.y),
                 "r"(v.z), "r"(v.w)
                 : "memory");
}

// Matrices of 8 x 8 16-bit elements, a pair in each lane's register; lanes 8i to 8i + 7 give the
// places of the i-th one's rows.
__device__ __forceinline__ void store_matrices(unsigned row, uint4 v)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
__device__ __forceinline__ void store_matrices(unsigned row, unsigned first, unsigned second)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" ::"r"(row), "r"(first),
                 "r"(second)
                 : "memory");
}

// Ordinary writes to shared memory before it are seen by TMA and wgmma after it.
__device__ __forceinline__ void fence_async_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void load_shared_pair(unsigned address, float &first, float &second)
{
    asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];"
                 : "=f"(first), "=f"(second)
                 : "r"(address)
                 : "memory");
}

// --- wgmma ---

// Waits until at most kPending of the newest groups are in flight.
template <int kPending> __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// The low word of a descriptor of a tile in 128-byte rows, swizzled. lead: bytes between 64-column
// panels, for operands that are read across them (V); else 16.
__device__ __forceinline__ unsigned wgmma_descriptor(unsigned address, unsigned lead)
{
    return (lead >> 4) << 16 | (address >> 4 & 0x3fff);
}

// --- registers of a warpgroup ---

template <int kRegisters> __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

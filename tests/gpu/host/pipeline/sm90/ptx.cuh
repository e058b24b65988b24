// In the place of templates/sm90/ptx.cuh.
#pragma once
#include "common/mma.cuh"

inline void mbarrier_init(unsigned barrier, unsigned arrivals)
{
    simt::init(barrier, static_cast<int>(arrivals));
}
inline void mbarrier_fence_init() {}
inline void mbarrier_arrive(unsigned barrier)
{
    simt::arrive(barrier, 0);
}
inline void mbarrier_expect(unsigned barrier, unsigned bytes)
{
    simt::arrive(barrier, bytes);
}
// Barrier::wait_full(n, slots) and wait_empty(n, slots) call this: what they wait for is known by
// their arguments, not only a parity.
#define mbarrier_wait(barrier, parity) simt::wait(barrier, parity, n / slots + (__func__[5] == 'f'))

inline float log2_fast(float x)
{
    return std::log2(x);
}

inline void settle_now(float &) {}

inline void tma_prefetch_map(const void *) {}
inline void tma_load(unsigned dst, const void *map, unsigned barrier, int c0, int c1, int c2,
                     int c3)
{
    simt::start_load(dst, barrier, map, c0, c1, c2, c3);
}
inline void tma_load_5d(unsigned dst, const void *map, unsigned barrier, int c0, int c1, int c2,
                        int c3, int c4)
{
    simt::start_load(dst, barrier, map, c0, c1, c2, c3, c4);
}
inline void tma_store(const void *, unsigned src, int c0, int c1, int c2, int c3)
{
    simt::m.store(src, c0, c1, c2, c3);
}
inline void tma_store_commit() {}
inline void tma_store_wait_read() {}
inline void store_shared(unsigned address, unsigned v)
{
    memcpy(simt::m.cta->shared + address, &v, sizeof v);
}
inline void store_shared_16(unsigned address, uint4 v)
{
    if (HOST_CONSUMER_LANES > 1) // else tiles hold tags
        memcpy(simt::m.cta->shared + address, &v, sizeof v);
}
// Rows of 16 bytes in the memory of lane 8i and the seven after it: of the i-th matrix, whose pair
// (row lane / 4, columns 2 (lane % 4) and the next) is in a lane's i-th register.
inline void store_matrices(unsigned row, const unsigned *v, int matrices)
{
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < matrices; ++i) {
        const unsigned to = simt::meet(row, 7)[8 * i + lane / 4];
        memcpy(simt::m.cta->shared + to + 4 * (lane % 4), &v[i], sizeof v[i]);
    }
}
inline void store_matrices(unsigned row, uint4 v)
{
    const unsigned all[4] = {v.x, v.y, v.z, v.w};
    store_matrices(row, all, 4);
}
inline void store_matrices(unsigned row, unsigned first, unsigned second)
{
    const unsigned all[2] = {first, second};
    store_matrices(row, all, 2);
}
inline void fence_async_shared() {}

inline void load_shared_pair(unsigned address, float &first, float &second)
{
    memcpy(&first, simt::m.cta->shared + address, sizeof first);
    memcpy(&second, simt::m.cta->shared + address + 4, sizeof second);
}
// As store_matrices has them.
inline void ldmatrix_x4(unsigned (&v)[4], unsigned row)
{
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) {
        const unsigned from = simt::meet(row, 8)[8 * i + lane / 4];
        memcpy(&v[i], simt::m.cta->shared + from + 4 * (lane % 4), sizeof v[i]);
    }
}

template <int kPending> void wgmma_wait()
{
    simt::wait_products(kPending);
}
inline unsigned wgmma_descriptor(unsigned address, unsigned lead)
{
    return (lead >> 4) << 16 | (address >> 4 & 0x3fff);
}
template <int kRegisters> void give_registers() {}
template <int kRegisters> void take_registers() {}

// In the place of templates/sm90/ptx.cuh: barriers count, TMA copies at once, products are made as
// late as they may be (when they are waited for), so that what is let go too early shows.
#pragma once
#include "common/mma.cuh"
#include <functional>
#include <map>

namespace simt
{
struct Mbarrier {
    int arrivals, left;
    long bytes;
    unsigned phases;

    void settle()
    {
        idle = 0;
        if (left == 0 && bytes == 0) {
            left = arrivals;
            ++phases;
        }
    }
};
inline std::map<unsigned, Mbarrier> mbarriers;

// What stands in the 128 bytes of a tensor map.
struct Map {
    const unsigned short *data;
    long extent[4], stride[4]; // D, rows, heads, batch; in elements
    int rows;                  // of the box
};

inline unsigned swizzled(unsigned offset)
{
    return offset ^ (offset >> 7 & 7) << 4;
}

// Element (row, column) of a tile of 64-column panels, `panel` bytes apart.
inline unsigned short &element(unsigned base, unsigned panel, int row, int column)
{
    const unsigned at = base + column / 64 * panel + row * 128 + column % 64 * 2;
    return *reinterpret_cast<unsigned short *>(shared + swizzled(at));
}

// Groups of products of each thread that are in flight; they have one each.
struct Products {
    std::vector<std::function<void()>> of[512];
};
inline Products products;
} // namespace simt

inline void mbarrier_init(unsigned barrier, unsigned arrivals)
{
    simt::mbarriers[barrier] = simt::Mbarrier{static_cast<int>(arrivals), static_cast<int>(arrivals), 0, 0};
}
inline void mbarrier_fence_init() {}
inline void mbarrier_arrive(unsigned barrier)
{
    simt::Mbarrier &b = simt::mbarriers.at(barrier);
    if (--b.left < 0)
        simt::fail("more arrivals at a barrier than it expects");
    b.settle();
}
inline void mbarrier_expect(unsigned barrier, unsigned bytes)
{
    simt::mbarriers.at(barrier).bytes += bytes;
    mbarrier_arrive(barrier);
}
inline void mbarrier_wait(unsigned barrier, unsigned parity)
{
    simt::waits_for[threadIdx.x] = barrier;
    while ((simt::mbarriers.at(barrier).phases & 1) == parity)
        simt::poll();
    simt::waits_for[threadIdx.x] = 0;
}

inline void tma_prefetch_map(const void *) {}
inline void tma_load(unsigned dst, const void *map, unsigned barrier, int c0, int c1, int c2, int c3)
{
    simt::Map m;
    memcpy(&m, map, sizeof m);
    for (int r = 0; r < m.rows; ++r)
        for (int c = 0; c < 64; ++c) {
            const long at[4] = {c0 + c, static_cast<long>(c1) + r, c2, c3};
            bool inside = true;
            long offset = 0;
            for (int i = 0; i < 4; ++i) {
                inside &= at[i] >= 0 && at[i] < m.extent[i];
                offset += at[i] * m.stride[i];
            }
            simt::element(dst, 0, r, c) = inside ? m.data[offset] : 0;
        }
    simt::Mbarrier &b = simt::mbarriers.at(barrier);
    b.bytes -= m.rows * 128;
    b.settle();
}

inline void store_shared_16(unsigned address, uint4 v)
{
    memcpy(simt::shared + address, &v, 16);
}
inline void fence_async_shared() {}

template <int kPending> inline void wgmma_wait()
{
    auto &mine = simt::products.of[threadIdx.x];
    while (mine.size() > kPending) {
        mine.front()();
        mine.erase(mine.begin());
    }
    simt::meet(0, 20);
}

inline unsigned wgmma_descriptor(unsigned address, unsigned lead)
{
    return (lead >> 4) << 16 | (address >> 4 & 0x3fff);
}
template <int kRegisters> inline void give_registers() {}
template <int kRegisters> inline void take_registers() {}

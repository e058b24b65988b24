// In the place of templates/sm90/ptx.cuh: barriers count, TMA copies at once or any time later,
// products are made as late as they may be (when they are waited for): what is let go too early or
// not waited for shows.
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

inline void tma_prefetch_map(const void *) {}

namespace simt
{
// A box on its way: its place in shared memory and in the tensor.
struct Box {
    Map map;
    unsigned dst, barrier;
    long at[4];

    void land() const
    {
        for (int r = 0; r < map.rows; ++r)
            for (int c = 0; c < 64; ++c) {
                bool inside = true;
                long offset = 0;
                for (int i = 0; i < 4; ++i) {
                    const long x = at[i] + (i == 0 ? c : i == 1 ? r : 0);
                    inside &= x >= 0 && x < map.extent[i];
                    offset += x * map.stride[i];
                }
                element(dst, 0, r, c) = inside ? map.data[offset] : 0;
            }
        Mbarrier &b = mbarriers.at(barrier);
        b.bytes -= map.rows * 128;
        b.settle();
    }
};
inline std::vector<Box> boxes;
inline unsigned chance = 1;

inline unsigned random()
{
    chance = chance * 1664525u + 1013904223u;
    return chance >> 16;
}

inline void land_some()
{
    if (boxes.empty() || random() % 256)
        return;
    const size_t i = random() % boxes.size(); // in any order
    boxes[i].land();
    boxes.erase(boxes.begin() + i);
}
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
    while ((simt::mbarriers.at(barrier).phases & 1) == parity) {
        simt::land_some();
        simt::poll();
    }
    simt::waits_for[threadIdx.x] = 0;
}

inline void tma_load(unsigned dst, const void *map, unsigned barrier, int c0, int c1, int c2, int c3)
{
    simt::Box box = {{}, dst, barrier, {c0, c1, c2, c3}};
    memcpy(&box.map, map, sizeof box.map);
    if (simt::random() % 2)
        box.land();
    else
        simt::boxes.push_back(box);
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
        for (unsigned n = simt::random() % 8; n > 0; --n) { // others go on meanwhile
            simt::land_some();
            simt::yield();
        }
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

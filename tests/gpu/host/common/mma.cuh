// In the place of templates/common/mma.cuh: what schedulers, and the sm90 kernel, need of it.
#pragma once
#include "simt.h"

inline void prefetch(const void *) {}

// ---- shared memory: addresses are offsets ----
namespace simt
{
alignas(1024) inline unsigned char shared[232448];
inline long idle;                // polls of barriers since the last arrival
inline unsigned waits_for[512]; // a thread's barrier, by its address in shared memory

inline void poll()
{
    if (++idle > 5000000) {
        for (size_t i = 0; i < block.threads.size(); i += 32)
            fprintf(stderr, "warp %zu: %s %u\n", i / 32, block.threads[i].done ? "has ended" : "waits for barrier at",
                    waits_for[i]);
        fail("deadlock: nothing arrives at any barrier");
    }
    yield();
}

// Named barriers.
struct Named {
    int waiting;
    long turns;
};
inline Named named[16];
} // namespace simt

inline unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(static_cast<const unsigned char *>(p) - simt::shared);
}

template <int kCount> inline void barrier_sync(int id)
{
    simt::Named &b = simt::named[id];
    const long mine = b.turns;
    if (++b.waiting == kCount) {
        b.waiting = 0;
        ++b.turns;
        simt::idle = 0;
    }
    while (b.turns == mine)
        simt::poll();
}

// ---- numbers ----
inline float max_or_nan(float a, float b)
{
    return a != a ? a : b != b ? b : max(a, b);
}
inline float exp2_fast(float x)
{
    return exp2f(x);
}
inline unsigned bf16_of(float x)
{
    unsigned u;
    memcpy(&u, &x, 4);
    return x != x ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
inline float float_of(unsigned bf16)
{
    return __uint_as_float(bf16 << 16);
}
template <int kType> inline unsigned pack_pair(float low, float high)
{
    return bf16_of(low) | bf16_of(high) << 16;
}

// CUDA threads on the CPU, for the kernels of templates/common/schedule.cuh: each thread of a CTA
// is a fiber that runs until a warp's or the CTA's threads have to meet. CTAs run one after the
// other. Meetings that cannot come about, or of threads in different places, end the program.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <ucontext.h>
#include <vector>

#include "tests/unit/emit_host.h"

#define __host__
#define __global__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

using std::max;
using std::min;

struct uint2 {
    unsigned x, y;
};
struct uint4 {
    unsigned x, y, z, w;
};

namespace simt
{
struct Index {
    unsigned x;
};

[[noreturn]] inline void fail(const char *what)
{
    fprintf(stderr, "simt: %s\n", what);
    abort();
}

struct Thread {
    ucontext_t context;
    Index id;
    bool done;
    long meetings; // of its warp, that it has come to
    long barriers;
};

struct Warp {
    unsigned values[2][32];
    int operation;
    int arrived;
    long meetings;
};

struct Block {
    static constexpr int kStack = 64 * 1024;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<char> stacks;
    std::function<void()> body;
    ucontext_t scheduler;
    Thread *current;
    Index index;
    int alive, waiting;
    long barriers;
};

inline Block block;

inline void yield()
{
    swapcontext(&block.current->context, &block.scheduler);
}

inline void enter()
{
    block.body();
    block.current->done = true;
    --block.alive;
    yield();
}

// All lanes give a value and get those of all.
inline const unsigned *meet(unsigned value, int operation)
{
    Thread &t = *block.current;
    Warp &w = block.warps[t.id.x / 32];
    if (w.arrived > 0 && w.operation != operation)
        fail("lanes of a warp meet in different operations");
    w.operation = operation;
    const long meeting = t.meetings++;
    w.values[meeting % 2][t.id.x % 32] = value;
    if (++w.arrived == 32) {
        w.arrived = 0;
        ++w.meetings;
    }
    while (w.meetings <= meeting)
        yield();
    return w.values[meeting % 2];
}

inline void barrier()
{
    const long mine = block.current->barriers++;
    ++block.waiting;
    while (block.barriers <= mine) {
        if (block.waiting == block.alive) { // those that have ended count as come
            block.waiting = 0;
            ++block.barriers;
        } else {
            yield();
        }
    }
}

inline void run_block(int threads)
{
    block.threads.resize(threads);
    block.stacks.resize(static_cast<size_t>(threads) * Block::kStack);
    block.warps.assign((threads + 31) / 32, Warp());
    block.alive = threads;
    block.waiting = 0;
    block.barriers = 0;
    for (int i = 0; i < threads; ++i) {
        Thread &t = block.threads[i];
        t.id.x = i;
        t.done = false;
        t.meetings = t.barriers = 0;
        getcontext(&t.context);
        t.context.uc_stack.ss_sp = &block.stacks[static_cast<size_t>(i) * Block::kStack];
        t.context.uc_stack.ss_size = Block::kStack;
        makecontext(&t.context, enter, 0);
    }
    for (long round = 0; block.alive > 0; ++round) {
        if (round > 1000000)
            fail("threads wait for each other");
        for (Thread &t : block.threads)
            if (!t.done) {
                block.current = &t;
                swapcontext(&block.scheduler, &t.context);
            }
    }
}

template <class F> void launch(int blocks, int threads, F body)
{
    block.body = body;
    for (int i = 0; i < blocks; ++i) {
        block.index.x = i;
        run_block(threads);
    }
}
} // namespace simt

#define threadIdx (simt::block.current->id)
#define blockIdx (simt::block.index)

inline void __syncthreads()
{
    simt::barrier();
}
inline void __syncwarp()
{
    simt::meet(0, 1);
}
inline unsigned __ballot_sync(unsigned, bool x)
{
    const unsigned *values = simt::meet(x, 2);
    unsigned all = 0;
    for (int i = 0; i < 32; ++i)
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
    const int lane = threadIdx.x % 32;
    return simt::meet(x, 4)[lane ^ lanes];
}
template <class T> T __shfl_up_sync(unsigned, T x, int lanes)
{
    const int lane = threadIdx.x % 32;
    return simt::meet(x, 5)[lane < lanes ? lane : lane - lanes];
}
inline unsigned __reduce_or_sync(unsigned, unsigned x)
{
    const unsigned *values = simt::meet(x, 6);
    unsigned all = 0;
    for (int i = 0; i < 32; ++i)
        all |= values[i];
    return all;
}
inline int __reduce_add_sync(unsigned, int x)
{
    const unsigned *values = simt::meet(x, 7);
    unsigned all = 0;
    for (int i = 0; i < 32; ++i)
        all += values[i];
    return all;
}
inline int __reduce_max_sync(unsigned, int x)
{
    const unsigned *values = simt::meet(x, 8);
    int all = values[0];
    for (int i = 0; i < 32; ++i)
        all = max(all, static_cast<int>(values[i]));
    return all;
}
inline unsigned __match_any_sync(unsigned, int x)
{
    const unsigned *values = simt::meet(x, 9);
    unsigned all = 0;
    for (int i = 0; i < 32; ++i)
        all |= static_cast<unsigned>(values[i] == static_cast<unsigned>(x)) << i;
    return all;
}
inline int atomicAdd(int *p, int x)
{
    const int old = *p;
    *p += x;
    return old;
}
inline void atomicOr(unsigned *p, unsigned x)
{
    *p |= x;
}
inline void atomicMax(int *p, int x)
{
    *p = max(*p, x);
}
inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
inline int __ffs(unsigned x)
{
    return __builtin_ffs(x);
}
inline int __clz(unsigned x)
{
    return x ? __builtin_clz(x) : 32;
}

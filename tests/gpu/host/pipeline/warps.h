// CTAs of specialised warps on the CPU, for the kernels of templates/sm90: mbarriers, TMA and wgmma
// that complete when a seeded scheduler says so, any warp next. In: KernelArgs and a function that
// each lane runs (launch). Out: what is wrong with the way they work together (Failure), or "".
//
// What is checked here: nobody waits for ever; a waiter sees the very phase that it is for; nobody
// arrives twice in a phase; nothing is loaded over what a product in flight reads; registers of
// products in flight are left alone.
#pragma once
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <ucontext.h>
#include <vector>

#include "tests/unit/emit_host.h"

#define __host__
#define __global__ static
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
struct float4 {
    float x, y, z, w;
};

#ifndef HOST_CONSUMER_LANES
#define HOST_CONSUMER_LANES 32 // 1: one lane stands for a consumer warp (tags instead of numbers)
#endif

namespace simt
{
struct Index {
    unsigned x;
};

struct MBarrier {
    std::string name;
    int arrivals = 0, pending = 0;
    long bytes = 0;
    unsigned done = 0; // phases
    // In this phase: warps, one lane for each; or lanes of each warp, where all arrive, and beside
    // them (bit 32) what brings loads.
    std::array<unsigned long long, 16> arrived = {};
    bool by_lanes() const { return arrivals >= 32; }
    bool may_lack_load = false; // a lane may arrive in its place, then once more
    std::function<void()> over; // at the end of a phase
};

enum State { kReady, kMeets, kWaits, kDone };

struct Lane {
    ucontext_t start;
    jmp_buf at;
    std::unique_ptr<char[]> stack;
    bool started;
    Index id;
    State state;
    long meetings;
    long *named; // generation of a named barrier that it waits for
    long named_at;
    MBarrier *barrier;
    unsigned parity, need;
    std::vector<float> output;  // registers of O
    std::vector<unsigned> seen; // tags: what has been added to O
    int tried;                  // tags: the tile that was weighed quickly, last
};

// Columns that scores are the products of.
enum Columns { kAllColumns, kExtraColumns, kHeadColumns };

#ifdef FACC_FP8
constexpr int kWeightWords = kTileN / 8;
#else
constexpr int kWeightWords = kTileN / 4;
#endif

struct Product {
    bool scores, accumulate;
    Columns columns;
    unsigned a, b; // descriptors
    float *s[32];
    const unsigned *p[32];
    std::vector<unsigned> copy; // of P when it was issued
    std::vector<float> before;  // of scores that are added to
};

struct Warp {
    int number, lanes;
    std::vector<Lane> lane;
    unsigned values[2][32];
    int operation, arrived, staged;
    long meetings;
    Product staging;
    std::vector<Product> products; // in flight, oldest first
    size_t steps;                  // of Cta::steps
    unsigned seen_done = 0;        // Cta::changes when it was found stuck
    bool stuck;
};

struct Load {
    unsigned dst, barrier;
    const void *map;
    int at[5];
    int bytes; // not 0: of a bulk load, from `map`
};

struct Named {
    int arrived = 0;
    long generation = 0;
};

struct Cta {
    Index index;
    unsigned char *shared;
    std::vector<Warp> warps;
    std::map<unsigned, MBarrier> barriers;
    std::vector<Load> loads;
    Named named[16];
    std::vector<char> steps[4]; // products and waits of each group, in the order of all its warps
    int alive;                  // lanes
    long changes;               // phases, meetings: something a stuck warp may wait for
};

// How the scheduler chooses.
struct Policy {
    double warp[16]; // weights
    double load, product;
    bool newest_load_first, round_robin;
    int bold;   // turns of four that go on until the warp has to wait
    bool loose; // lanes of a warp do not stay together
};

struct Machine {
    std::vector<std::unique_ptr<Cta>> ctas;
    Index grid;
    int consumers; // warps
    Cta *cta;
    Warp *warp;
    Lane *lane;
    jmp_buf scheduler;
    bool turn_over, cautious;
    bool together; // the warps of a group issue products together
    std::string failure;
    std::mt19937 rng;
    Policy policy;
    unsigned next = 0;
    std::function<void()> body;
    // Given by the program: names of barriers, and what a load or a product does.
    std::function<void(Cta &)> prepare;
    std::function<int(const Load &, bool starts)> load; // bytes
    std::function<void(unsigned src, int c0, int c1, int c2, int c3)> store;
    std::function<void(Warp &, const Product &)> product;
    std::function<bool(const Product &, unsigned address)> reads;
    std::function<const char *(int)> role;
};
inline Machine m;

inline double chance()
{
    return std::uniform_real_distribution<double>(0, 1)(m.rng);
}

inline void leave()
{
    if (!_setjmp(m.lane->at))
        _longjmp(m.scheduler, 1);
}

[[noreturn]] inline void die()
{
    m.lane->state = kDone;
    m.turn_over = true;
    for (;;)
        leave();
}

inline std::string text(const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    return line;
}

// From the scheduler, too: then the caller returns.
inline void note(const std::string &what)
{
    if (m.failure.empty())
        m.failure = what;
}

[[noreturn]] inline void fail(const std::string &what)
{
    note(text("CTA %u %s (warp %d, lane %u): ", m.cta->index.x, m.role(m.warp->number),
              m.warp->number, m.lane->id.x % 32) +
         what);
    die();
}

// Another warp, or another lane of this one, may go on here.
inline void preempt()
{
    if (m.policy.loose ? m.rng() % 2 : m.cautious) {
        m.turn_over = true;
        leave();
    }
}

inline const unsigned *meet(unsigned value, int operation)
{
    Warp &w = *m.warp;
    Lane &l = *m.lane;
    if (w.lanes == 1) {
        w.values[0][0] = value;
        return w.values[0];
    }
    if (w.arrived > 0 && w.operation != operation)
        fail(text("lanes meet in different operations: %d and %d", w.operation, operation));
    w.operation = operation;
    const long meeting = l.meetings++;
    w.values[meeting % 2][l.id.x % 32] = value;
    if (++w.arrived == 32) {
        w.arrived = 0;
        ++w.meetings;
        for (Lane &other : w.lane)
            if (other.state == kMeets)
                other.state = kReady;
        return w.values[meeting % 2];
    }
    while (w.meetings <= meeting) {
        l.state = kMeets;
        leave();
    }
    return w.values[meeting % 2];
}

inline void named_barrier(int id, int threads)
{
    Named &b = m.cta->named[id];
    const long mine = b.generation;
    b.arrived += 32 / m.warp->lanes;
    if (b.arrived >= threads) {
        b.arrived = 0;
        ++b.generation;
        ++m.cta->changes;
        preempt();
        return;
    }
    m.lane->state = kWaits;
    m.lane->barrier = nullptr;
    m.lane->named = &b.generation;
    m.lane->named_at = mine;
    leave();
}

// ---- mbarriers ------------------------------------------------------------------

inline MBarrier &barrier_at(unsigned address)
{
    return m.cta->barriers[address];
}

inline void settle(MBarrier &b)
{
    if (b.pending == 0 && b.bytes == 0) {
        ++b.done;
        b.pending = b.arrivals;
        b.arrived = {};
        ++m.cta->changes;
        if (b.over)
            b.over();
    }
}

inline void init(unsigned address, int arrivals)
{
    MBarrier &b = barrier_at(address);
    b.arrivals = b.pending = arrivals;
}

inline void arrive(unsigned address, long bytes)
{
    preempt();
    MBarrier &b = barrier_at(address);
    if (b.arrivals == 0)
        fail("arrives at what is no barrier");
    unsigned long long bit = !b.by_lanes() ? 1 : 1ull << (bytes ? 32 : m.lane->id.x % 32);
    unsigned long long &arrived = b.arrived[m.warp->number];
    if (b.may_lack_load && arrived & bit)
        bit = 1ull << 32;
    if (arrived & bit)
        fail("arrives twice in a phase of " + b.name + text(" (phase %u)", b.done));
    if (b.pending == 0)
        fail("one arrival too many at " + b.name);
    arrived |= bit;
    b.bytes += bytes;
    --b.pending;
    settle(b);
    preempt();
}

// True: the lane goes on. Looks for phases that it sees in place of its own, or has missed.
inline bool passes(Cta &cta, Warp &w, Lane &l)
{
    MBarrier &b = *l.barrier;
    const bool over = (b.done & 1) != l.parity;
    if (over ? b.done != l.need : b.done >= l.need)
        note(text("CTA %u %s (warp %d): ", cta.index.x, m.role(w.number), w.number) +
             text("waits for phase %u of ", l.need - 1) + b.name +
             text(", of which %u are over: ", b.done) +
             (over ? "goes on as if it were" : "has missed it"));
    return over;
}

// phases: so many of them must be over.
inline void wait(unsigned address, unsigned parity, unsigned phases)
{
    preempt();
    Lane &l = *m.lane;
    l.barrier = &barrier_at(address);
    l.parity = parity;
    l.need = phases;
    while (!passes(*m.cta, *m.warp, l)) {
        if (!m.failure.empty())
            die();
        l.state = kWaits;
        leave();
    }
    l.barrier = nullptr;
    if (!m.failure.empty())
        die();
}

// ---- loads and products ----------------------------------------------------------

inline void start_load(unsigned dst, unsigned barrier, const void *map, int c0, int c1, int c2,
                       int c3, int c4 = 0, int bytes = 0)
{
    preempt();
    for (Warp &w : m.cta->warps)
        for (Product &p : w.products)
            if (m.reads(p, dst))
                fail(text("loads to %u over what a product of warp %d reads", dst, w.number));
    const Load load{dst, barrier, map, {c0, c1, c2, c3, c4}, bytes};
    m.load(load, true);
    m.cta->loads.push_back(load);
    preempt();
}

inline void finish_load(Cta &cta, size_t i)
{
    m.cta = &cta;
    const Load load = cta.loads[i];
    cta.loads.erase(cta.loads.begin() + i);
    MBarrier &b = barrier_at(load.barrier);
    b.bytes -= m.load(load, false);
    if (b.bytes < 0)
        note("more bytes than expected at " + b.name);
    settle(b);
}

inline void finish_product(Cta &cta, Warp &w)
{
    m.cta = &cta;
    Product p = w.products.front();
    w.products.erase(w.products.begin());
    m.product(w, p);
}

inline bool in_flight(bool scores)
{
    for (const Product &p : m.warp->products)
        if (p.scores == scores)
            return true;
    return false;
}

// Of wgmma's instructions: all warps of a group must execute the same.
inline void step_together(char what)
{
    if (m.lane->id.x % 32 != 0)
        return;
    Warp &w = *m.warp;
    std::vector<char> &all = m.cta->steps[w.number / 4];
    if (w.steps == all.size())
        all.push_back(what);
    if (all[w.steps++] != what)
        fail("products and waits are not those of the group's other warps");
}

// By all lanes.
inline void issue(const Product &p)
{
    step_together(p.scores ? 'q' : 'v');
    Warp &w = *m.warp;
    const int lane = m.lane->id.x % 32;
    if (m.together)
        named_barrier(12 + w.number / 4, 128);
    if (w.staged == 0) {
        w.staging = p;
        w.staging.copy.assign(w.lanes * kWeightWords, 0);
        w.staging.before.assign(w.lanes * (kTileN / 2), 0);
    }
    if (w.staging.a != p.a || w.staging.b != p.b || w.staging.accumulate != p.accumulate)
        fail("lanes give a product different operands");
    w.staging.s[lane] = p.s[0];
    w.staging.p[lane] = p.p[0];
    if (!p.scores)
        std::copy(p.p[0], p.p[0] + kWeightWords, w.staging.copy.begin() + lane * kWeightWords);
    else if (p.accumulate)
        std::copy(p.before.begin(), p.before.end(), w.staging.before.begin() + lane * (kTileN / 2));
    if (++w.staged == w.lanes) {
        w.staged = 0;
        w.products.push_back(w.staging);
    }
    meet(0, p.scores ? 20 : 21);
    preempt();
}

inline void wait_products(size_t pending)
{
    step_together(static_cast<char>('0' + pending));
    meet(0, 22);
    while (m.warp->products.size() > pending)
        finish_product(*m.cta, *m.warp);
    if (!m.failure.empty())
        die();
    preempt();
}

// ---- scheduler ------------------------------------------------------------------

inline void enter()
{
    m.body();
    if (!m.warp->products.empty())
        fail("ends while a product is in flight");
    if (--m.cta->alive == 0 && !m.cta->loads.empty())
        fail("the CTA ends while a load is in flight");
    m.lane->state = kDone;
    for (;;)
        leave();
}

inline bool wakes(Cta &cta, Warp &w)
{
    if (w.stuck && w.seen_done == static_cast<unsigned>(cta.changes))
        return false;
    bool ready = false;
    for (Lane &l : w.lane) {
        if (l.state == kWaits && (l.barrier ? passes(cta, w, l) : *l.named != l.named_at))
            l.state = kReady;
        ready |= l.state == kReady;
    }
    w.stuck = !ready;
    w.seen_done = static_cast<unsigned>(cta.changes);
    return ready;
}

inline void run_lane(Lane &l)
{
    m.lane = &l;
    if (_setjmp(m.scheduler))
        return;
    if (l.started)
        _longjmp(l.at, 1);
    l.started = true;
    setcontext(&l.start);
}

inline void turn(Cta &cta, Warp &w)
{
    m.cta = &cta;
    m.warp = &w;
    m.turn_over = false;
    m.cautious = m.rng() % 4 >= static_cast<unsigned>(m.policy.bold);
    for (bool moved = true; moved && !m.turn_over && m.failure.empty();) {
        moved = false;
        for (Lane &l : w.lane)
            if (l.state == kReady && m.failure.empty()) {
                run_lane(l);
                moved = true;
            }
    }
    w.stuck = false;
}

inline void prepare(Cta &cta, int warps, int consumers)
{
    cta.warps.resize(warps);
    cta.barriers.clear();
    cta.loads.clear();
    cta.changes = 0;
    cta.alive = 0;
    for (std::vector<char> &group : cta.steps)
        group.clear();
    for (Named &n : cta.named)
        n = Named();
    for (int i = 0; i < warps; ++i) {
        Warp &w = cta.warps[i];
        w.number = i;
        w.lanes = i < consumers ? HOST_CONSUMER_LANES : 32;
        w.lane.resize(w.lanes);
        w.arrived = w.staged = 0;
        w.meetings = 0;
        w.products.clear();
        w.steps = 0;
        w.stuck = false;
        for (int j = 0; j < w.lanes; ++j) {
            Lane &l = w.lane[j];
            ++cta.alive;
            constexpr size_t kStack = 128 * 1024;
            if (!l.stack)
                l.stack.reset(new char[kStack]);
            l.started = false;
            l.id.x = 32 * i + j;
            l.state = kReady;
            l.meetings = 0;
            l.seen.clear();
            l.tried = -1;
            getcontext(&l.start);
            l.start.uc_stack.ss_sp = l.stack.get();
            l.start.uc_stack.ss_size = kStack;
            makecontext(&l.start, enter, 0);
        }
    }
}

inline void draw_policy()
{
    Policy &p = m.policy;
    const int kind = m.rng() % 6, slow = m.rng() % 16;
    p.round_robin = kind == 0;
    for (int i = 0; i < 16; ++i)
        p.warp[i] = kind < 2    ? 1
                    : kind == 2 ? (m.rng() % 3 ? 1 : 1e-4)
                    : kind == 3 ? (i == slow ? 1e-5 : 1)
                    : kind == 4 ? (i >= m.consumers && i == m.consumers + slow % 4 ? 1e-5 : 1)
                                : std::pow(10, -6 * chance());
    const double often[] = {1e-9, 0.1, 1, 100};
    p.load = often[m.rng() % 4];
    p.product = often[m.rng() % 4];
    p.newest_load_first = m.rng() % 2;
    p.bold = m.rng() % 5;
    p.loose = m.rng() % 2;
}

// One thing happens. False: nothing can.
inline bool step()
{
    struct Choice {
        Cta *cta;
        Warp *warp;
        int kind; // 0 a turn, 1 a product, 2 a load
        double weight;
    };
    static std::vector<Choice> choices;
    choices.clear();
    double sum = 0;
    bool can = false;
    for (auto &cta : m.ctas) {
        for (Warp &w : cta->warps) {
            if (wakes(*cta, w)) {
                choices.push_back({cta.get(), &w, 0, m.policy.warp[w.number]});
                can = true;
            }
            if (!w.products.empty())
                choices.push_back({cta.get(), &w, 1, m.policy.product});
        }
        if (!cta->loads.empty()) {
            choices.push_back({cta.get(), nullptr, 2, m.policy.load});
            can = true;
        }
    }
    if (!can || !m.failure.empty())
        return false;
    for (const Choice &c : choices)
        sum += c.weight;
    double at = chance() * sum;
    size_t i = 0;
    if (m.policy.round_robin)
        i = m.next++ % choices.size();
    else
        while (i + 1 < choices.size() && (at -= choices[i].weight) > 0)
            ++i;
    const Choice c = choices[i];
    if (c.kind == 0)
        turn(*c.cta, *c.warp);
    else if (c.kind == 1)
        finish_product(*c.cta, *c.warp);
    else
        finish_load(*c.cta, m.policy.newest_load_first ? c.cta->loads.size() - 1
                                                       : m.rng() % c.cta->loads.size());
    return true;
}

// Bits of the warps that have arrived, in part at least.
inline unsigned warps_of(const MBarrier &b)
{
    unsigned all = 0;
    for (size_t i = 0; i < b.arrived.size(); ++i)
        all |= static_cast<unsigned>(b.arrived[i] != 0) << i;
    return all;
}

inline std::string waiters()
{
    std::string all;
    for (auto &cta : m.ctas) {
        std::string last;
        for (Warp &w : cta->warps) {
            std::string what;
            for (Lane &l : w.lane)
                if (l.state == kWaits && what.empty())
                    what = text("\n    CTA %u %-9s waits for ", cta->index.x, m.role(w.number)) +
                           (l.barrier
                                ? text("phase %u of ", l.need - 1) + l.barrier->name +
                                      text("; %u are over, %d of %d arrivals (by warps %x) and %ld "
                                           "bytes are missing",
                                           l.barrier->done, l.barrier->pending, l.barrier->arrivals,
                                           warps_of(*l.barrier), l.barrier->bytes)
                                : "a named barrier");
            if (what != last) // warps of a group mostly wait for the same
                all += what;
            last = what;
        }
    }
    return all;
}

// Runs `ctas` CTAs side by side. What went wrong, or "".
inline std::string launch(int ctas, int warps, int consumers, unsigned seed,
                          std::function<void()> body)
{
    static std::vector<std::unique_ptr<unsigned char[]>> memory;
    m.failure.clear();
    m.rng.seed(seed);
    m.body = body;
    m.consumers = consumers;
    m.grid.x = ctas;
    while (static_cast<int>(m.ctas.size()) < ctas)
        m.ctas.push_back(std::make_unique<Cta>());
    m.ctas.resize(ctas);
    while (static_cast<int>(memory.size()) < ctas)
        memory.emplace_back(new unsigned char[kSharedBytes + 1024]);
    for (int i = 0; i < ctas; ++i) {
        Cta &cta = *m.ctas[i];
        cta.index.x = i;
        cta.shared = memory[i].get() + (-reinterpret_cast<uintptr_t>(memory[i].get()) & 1023);
        memset(cta.shared, 0xff, kSharedBytes);
        prepare(cta, warps, consumers);
        m.prepare(cta);
    }
    draw_policy();
    m.together = m.rng() % 4 == 0;
    for (long steps = 0; step(); ++steps) {
        if (steps % 256 == 255 && m.rng() % 2)
            draw_policy();
        if (steps > 20000000)
            note("never ends");
    }
    for (auto &cta : m.ctas) {
        bool all = true;
        for (Warp &w : cta->warps)
            for (Lane &l : w.lane)
                all &= l.state == kDone;
        if (!all)
            note("deadlock" + waiters());
    }
    return m.failure;
}
} // namespace simt

#include "lanes.h"

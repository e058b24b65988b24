// In the place of templates/sm90/softmax.cuh: scores and weights are tags of the tiles that they
// are made of; pipeline.cpp has check_weights and check_output.
#pragma once
#include "sm90/bits16.cuh"

using Weights = unsigned[kTileN / 4];

// True: a tile before had weights.
bool check_weights(const KernelArgs &args, const Work &w, const Rows &rows, const Stage &stage,
                   int slot, int kv0, const Scores &s, bool quick);
void check_output(const KernelArgs &args, const Work &w, float sum, bool nothing);
bool host_quick();

inline void reset(RowState &state)
{
    state.reference[0] = state.reference[1] = 0.0f;
    state.sum[0] = state.sum[1] = 0.0f;
}
constexpr bool kGuesses = !kMasks && kGroups == 2;
inline void guess_references(const KernelArgs &, const Work &, const Scores &, RowState &state)
{
    if (state.sum[0] != 0)
        simt::fail("a reference is guessed that is there");
    state.reference[1] = 1.0f;
}
inline void host_weigh(const Scores &s, Weights &p)
{
    for (int i = 0; i < kTileN / 4; ++i)
        memcpy(&p[i], &s[0][0][i % 4], 4);
}
inline float raw_factor(const KernelArgs &, const Work &)
{
    return 1.0f;
}
inline float quick_multiplier(const KernelArgs &, const Work &)
{
    return 1.0f;
}
inline void count_tile(RowState &) {}

inline bool weights_hold(const RowState &, const Weights &, const float (&)[2])
{
    return false;
}
inline bool weigh_quickly(const KernelArgs &args, const Work &w, const Rows &rows,
                          const Stage &stage, int slot, int kv0, float, const Scores &s,
                          const RowState &state, Weights &p, float (&total)[2])
{
    const bool any = check_weights(args, w, rows, stage, slot, kv0, s, true);
    if (any && state.sum[0] == 0)
        simt::fail("sums are lost");
    if (!(any || state.reference[1] == 1.0f) || !host_quick()) // without a reference: infinite
        return false;
    host_weigh(s, p);
    total[0] = 1.0f;
    total[1] = 0.0f;
    return true;
}
inline void weigh_exactly(const KernelArgs &args, const Work &w, const Rows &rows,
                          const Stage &stage, int slot, int kv0, Scores &s, RowState &state,
                          Weights &p, float (&factor)[2])
{
    check_weights(args, w, rows, stage, slot, kv0, s, false);
    factor[0] = factor[1] = 1.0f;
    host_weigh(s, p);
    state.sum[0] += 1;
}
inline void weigh_nothing(Weights &p, float (&factor)[2])
{
    memset(p, 0, sizeof p);
    factor[0] = factor[1] = 1.0f;
}
inline void drop_weights(const KernelArgs &, const Work &, int, int, Weights &)
{
    simt::fail("tags are not dropped");
}

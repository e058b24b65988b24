// In the place of the generated products: they are put in the warp's queue.
#pragma once
#include "common/mma.cuh"

constexpr unsigned kInFlight = 0x7fd5a5a5; // of a score whose product is not done

inline void issue_scores(float (&s)[kTileN / 8][4], unsigned q, unsigned k, simt::Columns columns)
{
    if (simt::in_flight(true))
        simt::fail("Q K^T is issued while one is in flight");
    simt::Product p{};
    p.scores = true;
    p.columns = columns;
    p.accumulate = columns == simt::kHeadColumns;
    p.before.assign(&s[0][0], &s[0][0] + kTileN / 2);
    for (int i = 0; i < kTileN / 2; ++i)
        memcpy(&s[0][0] + i, &kInFlight, 4);
    p.a = q;
    p.b = k;
    p.s[0] = &s[0][0];
    simt::issue(p);
}
inline void multiply_qk(float (&s)[kTileN / 8][4], unsigned q, unsigned k)
{
    issue_scores(s, q, k, simt::kAllColumns);
}
inline void multiply_extra(float (&s)[kTileN / 8][4], unsigned q, unsigned k)
{
    issue_scores(s, q, k, simt::kExtraColumns);
}
inline void multiply_head(float (&s)[kTileN / 8][4], unsigned q, unsigned k)
{
    issue_scores(s, q, k, simt::kHeadColumns);
}
inline void multiply_pv(const unsigned (&x)[simt::kWeightWords], unsigned v, bool accumulate)
{
    if (simt::in_flight(false))
        simt::fail("P V is issued while one is in flight");
    simt::Product p{};
    p.accumulate = accumulate;
    p.b = v;
    p.p[0] = x;
    simt::issue(p);
}
#define FACC_DECLARE_OUTPUT()

inline void scale_output(float first, float second)
{
    if (simt::in_flight(false))
        simt::fail("O is scaled while P V is in flight");
    std::vector<float> &o = simt::m.lane->output;
    for (size_t i = 0; i < o.size(); ++i)
        o[i] *= i % 4 < 2 ? first : second;
}
inline void read_output(float (&o)[kHeadDimV / 8][4])
{
    if (simt::in_flight(false))
        simt::fail("O is read while P V is in flight");
    memcpy(o, simt::m.lane->output.data(), sizeof o);
}
inline void pin(float (&s)[kTileN / 8][4])
{
    if (simt::in_flight(true))
        simt::fail("scores are used while Q K^T is in flight");
}

// In the place of the generated products: the same in scalar C++, from shared memory as wgmma reads
// it. A thread makes its own fragments (compiler/emit/wgmma.c tells of the layouts).
#pragma once
#include "sm90/shape.cuh"

namespace simt
{
inline float output[512][kHeadDimV / 8][4];
inline unsigned weights[512][kTileN / 4]; // P of each thread, which its quad needs

inline unsigned address_of(unsigned descriptor)
{
    return (descriptor & 0x3fff) << 4;
}
} // namespace simt

#define FACC_DECLARE_OUTPUT()

inline void multiply_qk(float (&s)[kTileN / 8][4], unsigned q, unsigned k)
{
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    for (auto &x : s)
        for (float &y : x)
            y = NAN; // until it is waited for
    simt::products.of[threadIdx.x].push_back([&s, q, k, warp, lane] {
        constexpr int kSteps = (kHeadDim + 15) / 16 * 16;
        for (int n = 0; n < kTileN / 8; ++n)
            for (int e = 0; e < 4; ++e) {
                const int row = 16 * warp + lane / 4 + 8 * (e / 2), column = 8 * n + 2 * (lane % 4) + e % 2;
                float sum = 0;
                for (int d = 0; d < kSteps; ++d)
                    sum += float_of(simt::element(simt::address_of(q), 64 * 128, row, d)) *
                           float_of(simt::element(simt::address_of(k), kTileN * 128, column, d));
                s[n][e] = sum;
            }
    });
    simt::meet(0, 21);
}

inline void multiply_pv(const unsigned (&p)[kTileN / 4], unsigned v, bool accumulate)
{
    const int thread = threadIdx.x, lane = thread % 32;
    memcpy(simt::weights[thread], p, sizeof p);
    simt::products.of[thread].push_back([thread, lane, v, accumulate] {
        const unsigned panel = (v >> 16 & 0x3fff) << 4;
        for (int n = 0; n < kHeadDimV / 8; ++n)
            for (int e = 0; e < 4; ++e) {
                const int column = 8 * n + 2 * (lane % 4) + e % 2;
                float sum = accumulate ? simt::output[thread][n][e] : 0;
                for (int k = 0; k < kTileN; ++k) {
                    const unsigned pair = simt::weights[thread - lane % 4 + k % 8 / 2][2 * (k / 8) + e / 2];
                    sum += float_of(k % 2 ? pair >> 16 : pair & 0xffff) *
                           float_of(simt::element(simt::address_of(v), panel, k, column));
                }
                simt::output[thread][n][e] = sum;
            }
    });
    simt::meet(0, 22);
}

inline void in_flight(size_t most, const char *what)
{
    if (simt::products.of[threadIdx.x].size() > most)
        simt::fail(what);
}
inline void scale_output(float first, float second)
{
    in_flight(1, "the output is scaled while P V is in flight");
    for (auto &o : simt::output[threadIdx.x])
        o[0] *= first, o[1] *= first, o[2] *= second, o[3] *= second;
}
inline void read_output(float (&o)[kHeadDimV / 8][4])
{
    in_flight(1, "the output is read while P V is in flight");
    memcpy(o, simt::output[threadIdx.x], sizeof o);
}
inline void pin(float (&)[kTileN / 8][4]) {}

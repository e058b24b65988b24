// In the place of templates/common/mma.cuh: what sm90 needs of it.
#pragma once
#include "common/variant_ptx.cuh"

inline unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(static_cast<const unsigned char *>(p) - simt::m.cta->shared);
}
inline void prefetch(const void *) {}
template <int kCount> void barrier_sync(int id)
{
    simt::named_barrier(id, kCount);
}
inline float max_or_nan(float a, float b)
{
    return facc_max_nan(a, b);
}
inline unsigned half_signs(unsigned x)
{
    return (x >> 31) * 0xffff0000u | (x >> 15 & 1) * 0xffffu;
}
inline float exp2_fast(float x)
{
    return exp2f(x);
}

#ifndef FACC_FP8
static_assert(kElement == kElementBf16, "f16 is not done here");
#endif
static_assert(kOutElement != kElementF16, "nor here");

inline uint4 load_shared_16(unsigned address)
{
    uint4 v;
    memcpy(&v, simt::m.cta->shared + address, sizeof v);
    return v;
}

// Matrices of 8 by 8 pairs of bytes, whose rows are at the addresses of eight lanes each; turned: a
// lane has rows 2 (lane % 4) and the next of column lane / 4.
inline void ldmatrix_x4_trans(unsigned (&r)[4], unsigned address)
{
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) {
        const unsigned *rows = simt::meet(address, 8);
        unsigned short pair[2];
        for (int half = 0; half < 2; ++half)
            memcpy(&pair[half],
                   simt::m.cta->shared + rows[8 * i + lane % 4 * 2 + half] + lane / 4 * 2, 2);
        r[i] = pair[0] | static_cast<unsigned>(pair[1]) << 16;
    }
}

inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    unsigned r = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned n = selector >> 4 * i & 7;
        r |= ((n < 4 ? a : b) >> n % 4 * 8 & 255) << 8 * i;
    }
    return r;
}

inline unsigned bf16_bits(float x)
{
    unsigned bits;
    memcpy(&bits, &x, 4);
    return x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
template <int kType> unsigned pack_pair(float low, float high)
{
    return bf16_bits(low) | bf16_bits(high) << 16;
}

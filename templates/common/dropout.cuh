// Dropout of attention weights, after their sums are taken. Asks the family for KernelArgs, Work,
// half_signs.
#pragma once
#include "common/philox.h"

// Ones where a weight stays, for the four registers of an A fragment, whose first row is q and
// whose first column in this thread is kv. Two weights lie in a register, and two random numbers of
// 16 bits: `random + drops` carries where a weight is dropped, and the carry out of a half follows
// from that into its highest bit.
__device__ __forceinline__ void kept_weights(const KernelArgs &args, const Work &w, int q, int kv,
                                             unsigned (&keep)[4])
{
    constexpr unsigned kLow = 0x7fff7fffu;
    const unsigned drops = args.dropout_drops * 0x10001u;
    facc_dropout_bits(keep, args.dropout_key, args.dropout_offset, w.b * args.H + w.h, q, kv);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned x = keep[i], into = (x & kLow) + (drops & kLow);
        keep[i] = ~half_signs((x & drops) | ((x | drops) & into));
    }
}

// V transposed for FP8 kernels, as fp8_args.h has it: how a thread writes 16 tokens of four
// channels of a chunk.
#pragma once
#include "common/fp8_args.h"

// Bytes of four tokens in four channels each: a word a token before, a word a channel after.
__device__ __forceinline__ void transpose_bytes(unsigned &a, unsigned &b, unsigned &c, unsigned &d)
{
    const unsigned low = __byte_perm(a, b, 0x5140), low2 = __byte_perm(c, d, 0x5140);
    const unsigned high = __byte_perm(a, b, 0x7362), high2 = __byte_perm(c, d, 0x7362);
    a = __byte_perm(low, low2, 0x5410);
    b = __byte_perm(low, low2, 0x7632);
    c = __byte_perm(high, high2, 0x5410);
    d = __byte_perm(high, high2, 0x7632);
}

// The token (0 to 15) of a half chunk that is the `place`-th: the inverse of facc_v_place.
__device__ __forceinline__ constexpr int token_at(int place)
{
    return place / 4 * 2 + (place & 1) + ((place & 2) ? 8 : 0);
}

// Channels 4 quad .. 4 quad + 3 of half a chunk. words[place]: those of token_at(place); taken
// apart here.
__device__ __forceinline__ void store_quad(unsigned char *chunk, int half, int quad,
                                           unsigned (&words)[16])
{
#pragma unroll
    for (int p = 0; p < 16; p += 4)
        transpose_bytes(words[p], words[p + 1], words[p + 2], words[p + 3]);
    unsigned char *row = chunk + 128 * quad + 16 * ((half ^ quad) & 1);
#pragma unroll
    for (int k = 0; k < 4; k++)
        *reinterpret_cast<uint4 *>(row + 32 * k) =
            uint4{words[k], words[4 + k], words[8 + k], words[12 + k]};
}

// V transposed for FP8 kernels, as fp8_args.h has it: how a thread writes 16 tokens of 16 channels
// of a chunk.
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

// Channels d0 .. d0 + 15 (d0: a multiple of 16) of half a chunk. words[place][w]: channels d0 + 4 w
// .. of token_at(place), taken apart here.
__device__ __forceinline__ void store_half(unsigned char *chunk, int half, int d0,
                                           unsigned (&words)[16][4])
{
#pragma unroll
    for (int w = 0; w < 4; w++) {
#pragma unroll
        for (int p = 0; p < 16; p += 4)
            transpose_bytes(words[p][w], words[p + 1][w], words[p + 2][w], words[p + 3][w]);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            unsigned char *row = chunk + 32 * (d0 + 4 * w + k) + 16 * ((half ^ w) & 1);
            *reinterpret_cast<uint4 *>(row) =
                uint4{words[k][w], words[4 + k][w], words[8 + k][w], words[12 + k][w]};
        }
    }
}

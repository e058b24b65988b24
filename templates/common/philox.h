/* Which attention weights dropout sets to 0: the one definition of all kernels
 * and the CPU (so both C11 and CUDA C++). A pure function of seed, offset and
 * the weight's (b, h, q, kv), which a backward pass evaluates again. */
#ifndef FACC_PHILOX_H
#define FACC_PHILOX_H

#ifdef __CUDACC__
#define FACC_PHILOX __device__ __forceinline__
#else
#define FACC_PHILOX static inline
#endif

/* Philox-4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3" (2011): the counter becomes 128 random bits. */
FACC_PHILOX void facc_philox(unsigned x[4], unsigned key0, unsigned key1)
{
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int round = 0; round < 10; ++round) {
        const unsigned long long a = 0xD2511F53ull * x[0];
        const unsigned long long b = 0xCD9E8D57ull * x[2];
        x[0] = (unsigned)(b >> 32) ^ x[1] ^ key0;
        x[1] = (unsigned)b;
        x[2] = (unsigned)(a >> 32) ^ x[3] ^ key1;
        x[3] = (unsigned)a;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* A call of it decides about eight weights, those that a thread has of 16 rows
 * by 16 columns in the accumulators of mma.sync and wgmma: rows q and q + 8,
 * columns kv, kv + 1, kv + 8, kv + 9, for q % 16 < 8, kv % 16 in 0, 2, 4, 6.
 * The weight at (q', kv') has 16 bits: of x[q' / 8 % 2 + 2 * (kv' / 8 % 2)] the
 * low half where kv' is even, else the high half. It is dropped if that number
 * is at least 65,536 - drops.
 *
 * Counter: columns (kv / 16 * 4 + kv % 8 / 2), rows (q / 16 * 8 + q % 8), head
 * (b * H + h), the offset's low word. Key: the seed, its high word xor that of
 * the offset. */
FACC_PHILOX void facc_dropout_bits(unsigned x[4], const unsigned key[2], unsigned offset,
                                   unsigned head, unsigned q, unsigned kv)
{
    x[0] = kv / 16 * 4 + kv % 8 / 2;
    x[1] = q / 16 * 8 + q % 8;
    x[2] = head;
    x[3] = offset;
    facc_philox(x, key[0], key[1]);
}

#endif

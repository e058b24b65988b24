// In the place of templates/common/mma_16816.cuh.
#pragma once
#include "common/quantize_ptx.cuh"

template <bool kBf16>
void mma_16816(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    const unsigned mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    unsigned all[6][32];
    for (int i = 0; i < 6; ++i)
        std::copy_n(simt::meet(mine[i], 10), 32, all[i]);
    const auto element = [&](int i, int row, int k) {
        const unsigned bits = all[i][row % 8 * 4 + k % 8 / 2] >> 16 * (k % 2) & 0xffff;
        float y;
        const unsigned high = bits << 16;
        memcpy(&y, &high, sizeof y);
        return (double)(kBf16 ? y : half_bits(bits));
    };
    for (int i = 0; i < 4; ++i) {
        const int row = threadIdx.x % 32 / 4 + i / 2 * 8, column = threadIdx.x % 4 * 2 + i % 2;
        double sum = c[i];
        for (int k = 0; k < 16; ++k)
            sum += element(row / 8 + k / 8 * 2, row, k) * element(4 + k / 8, column, k);
        c[i] = (float)sum;
    }
}

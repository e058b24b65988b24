// mma.sync.m16n8k16 of two 16-bit types, with sums in f32.
//
// Fragments of m16n8k16, lane = 4 g + t (g 0..7, t 0..3):
//   A (16 x 16)  a[0]: row g,   k 2t 2t+1   a[1]: row g+8, same k   a[2]: row g, k+8   a[3]: row
//   g+8, k+8 B (16 x 8)   b0:   k 2t 2t+1, column g  b1:   k+8 C (16 x 8)   c[0] c[1]: row g,
//   columns 2t 2t+1                  c[2] c[3]: row g+8
#pragma once

// c += a b
template <bool kBf16>
__device__ __forceinline__ void mma_16816(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                          unsigned b1)
{
    if constexpr (kBf16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

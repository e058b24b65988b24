#pragma once
#include "quantize.h"

inline float half_bits(unsigned bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float m = exponent == 31 ? (mantissa ? NAN : INFINITY)
                    : exponent     ? std::ldexp(1024.0f + mantissa, exponent - 25)
                                   : std::ldexp((float)mantissa, -24);
    return bits & 0x8000 ? -m : m;
}

// The code whose value is nearest, by trying all; ties to even.
template <bool kE4m3> unsigned code_of(float x)
{
    if (x != x)
        return 0x7f;
    const int bits = kE4m3 ? 3 : 2, last = kE4m3 ? 0x7e : 0x7b, bias = kE4m3 ? 7 : 15;
    int best = 0;
    double least = INFINITY;
    for (int c = 0; c <= last; ++c) {
        const int e = c >> bits, m = c & ((1 << bits) - 1);
        const double v =
            e ? std::ldexp(m + (1 << bits), e - bias - bits) : std::ldexp(m, 1 - bias - bits);
        const double far = std::fabs(std::fabs((double)x) - v);
        if (far < least || (far == least && c % 2 == 0)) {
            least = far;
            best = c;
        }
    }
    return best | (std::signbit(x) ? 0x80 : 0);
}

template <bool kE4m3> unsigned pack_fp8(const float (&x)[4])
{
    return code_of<kE4m3>(x[0]) | code_of<kE4m3>(x[1]) << 8 | code_of<kE4m3>(x[2]) << 16 |
           code_of<kE4m3>(x[3]) << 24;
}

inline void unknown(unsigned &) {}

// a is no NaN.
template <bool kBf16> unsigned largest_pair(unsigned a, unsigned b)
{
    unsigned y = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        const unsigned u = a >> shift & 0x7fff, v = b >> shift & 0x7fff;
        const bool nan = v > (kBf16 ? 0x7f80u : 0x7c00u);
        y |= (nan || u > v ? u : v) << shift;
    }
    return y;
}

// In the place of templates/sm90/fp8_ptx.cuh.
#pragma once
#include "sm90/ptx.cuh"

inline void bulk_load(unsigned dst, const void *src, unsigned bytes, unsigned barrier)
{
    simt::start_load(dst, barrier, src, 0, 0, 0, 0, 0, static_cast<int>(bytes));
}
inline void *shared_pointer(unsigned address)
{
    return simt::m.cta->shared + address;
}

inline unsigned e4m3_bits(float x)
{
    if (x != x)
        return 0x7f;
    const unsigned sign = std::signbit(x) ? 0x80 : 0;
    const float size = std::min(std::abs(x), 448.0f);
    if (size == 0)
        return sign;
    int exponent = std::max(std::ilogb(size), -6);
    int digits = static_cast<int>(std::nearbyint(std::ldexp(size, 3 - exponent)));
    if (digits == 16) {
        digits = 8;
        ++exponent;
    }
    return sign | (digits < 8 ? digits : (exponent + 7) << 3 | (digits - 8));
}
inline float e4m3_value(unsigned bits)
{
    const int exponent = bits >> 3 & 15, digits = bits & 7;
    const float size = (bits & 0x7f) == 0x7f ? NAN
                       : exponent == 0       ? std::ldexp(static_cast<float>(digits), -9)
                                             : std::ldexp(8.0f + digits, exponent - 10);
    return bits & 0x80 ? -size : size;
}
inline unsigned pack_e4m3(float a, float b, float c, float d)
{
    return e4m3_bits(a) | e4m3_bits(b) << 8 | e4m3_bits(c) << 16 | e4m3_bits(d) << 24;
}

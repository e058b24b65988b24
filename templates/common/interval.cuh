// Interval rules that generated verdicts call: given the ranges of an op's operands, a range that
// holds its result. The device twin of compiler/ir/interval.c: one function facc_iv_<rule> per name
// in the iv column of compiler/ir/ops.def. Float ends are rounded outward. Ranges of values that no
// position has (a guard that never holds) have lo > hi; what comes of them does not matter, since
// the guard itself decides.
#pragma once
#include "common/variant_math.cuh"

// Long rules are called, not repeated in every kernel that asks for a verdict.
#define FACC_RULE inline __device__ __noinline__

template <class T> struct facc_ints { // int or long long, whichever the emitter proved to suffice
    T lo, hi;
};
struct facc_floats {
    float lo, hi; // of what is not NaN
    bool nan;     // may be NaN
};
struct facc_bools {
    bool f, t; // may be false, may be true
};

FACC_FN facc_bools facc_may(bool f, bool t)
{
    return facc_bools{f, t};
}

FACC_FN int facc_verdict(bool f, bool t)
{
    return (int)(f | !t) | (int)t << 1; // kVerdictEmpty, Full, Partial without a branch
}

FACC_FN facc_bools facc_hull(facc_bools x, facc_bools y)
{
    return facc_bools{(bool)(x.f | y.f), (bool)(x.t | y.t)};
}

FACC_FN float facc_infinity()
{
    return __int_as_float(0x7f800000);
}

FACC_FN facc_floats facc_only_nan()
{
    return facc_floats{facc_infinity(), -facc_infinity(), true};
}

FACC_FN facc_floats facc_any_float()
{
    return facc_floats{-facc_infinity(), facc_infinity(), true};
}

FACC_FN facc_floats facc_point(float x)
{
    return x == x ? facc_floats{x, x, false} : facc_only_nan();
}

// ---- integers
constexpr long long kMaxLong = 0x7fffffffffffffffll, kMinLong = -kMaxLong - 1;

template <class T> FACC_FN facc_ints<T> facc_any_int()
{
    return sizeof(T) == 8 ? facc_ints<T>{(T)kMinLong, (T)kMaxLong}
                          : facc_ints<T>{(T)kMinInt, (T)kMaxInt};
}

template <class T> FACC_FN facc_ints<T> facc_hull(facc_ints<T> x, facc_ints<T> y)
{
    return facc_ints<T>{facc_min(x.lo, y.lo), facc_max(x.hi, y.hi)};
}

// The low and the high half of the product have one sign.
FACC_FN bool facc_product_fits(long long a, long long b)
{
    return __mul64hi(a, b) == ((long long)((unsigned long long)a * (unsigned long long)b) >> 63);
}
FACC_FN bool facc_product_fits(int, int)
{
    return true; // by the emitter's ranges
}

// Corners; anything when one leaves 64 bits, since products wrap.
template <class T> FACC_RULE facc_ints<T> facc_iv_imul(facc_ints<T> x, facc_ints<T> y)
{
    if (!(facc_product_fits(x.lo, y.lo) && facc_product_fits(x.lo, y.hi) &&
          facc_product_fits(x.hi, y.lo) && facc_product_fits(x.hi, y.hi)))
        return facc_any_int<T>();
    const T a = x.lo * y.lo, b = x.lo * y.hi, c = x.hi * y.lo, d = x.hi * y.hi;
    return facc_ints<T>{facc_min(facc_min(a, b), facc_min(c, d)),
                        facc_max(facc_max(a, b), facc_max(c, d))};
}

// x // [a, b] without 0 in it: monotone in both, for a dividend of one sign.
template <class T> FACC_FN facc_ints<T> facc_quotients(facc_ints<T> x, T a, T b)
{
    const T q = facc_floordiv(x.lo, a), r = facc_floordiv(x.lo, b);
    const T s = facc_floordiv(x.hi, a), t = facc_floordiv(x.hi, b);
    return facc_ints<T>{facc_min(facc_min(q, r), facc_min(s, t)),
                        facc_max(facc_max(q, r), facc_max(s, t))};
}

template <class T> FACC_RULE facc_ints<T> facc_iv_idiv(facc_ints<T> x, facc_ints<T> y)
{
    if (x.lo == facc_any_int<T>().lo && y.lo <= -1 && y.hi >= -1)
        return facc_any_int<T>(); // the one quotient that wraps
    const facc_ints<T> up = facc_quotients(x, facc_max(y.lo, T(1)), facc_max(y.hi, T(1)));
    const facc_ints<T> down = facc_quotients(x, facc_min(y.lo, T(-1)), facc_min(y.hi, T(-1)));
    facc_ints<T> r = y.hi > 0 ? up : down;
    if (y.hi > 0 && y.lo < 0)
        r = facc_hull(r, down);
    if (y.lo <= 0 && y.hi >= 0) // x // 0 is 0
        r = y.lo == y.hi ? facc_ints<T>{0, 0} : facc_hull(r, facc_ints<T>{0, 0});
    return r;
}

// By one positive divisor.
template <class T> FACC_FN facc_ints<T> facc_iv_imod_by(facc_ints<T> x, T n)
{
    const T a = facc_floordiv(x.lo, n), b = facc_floordiv(x.hi, n);
    return a == b ? facc_ints<T>{x.lo - a * n, x.hi - a * n} : facc_ints<T>{0, n - 1};
}

template <class T> FACC_RULE facc_ints<T> facc_iv_imod(facc_ints<T> x, facc_ints<T> y)
{
    if (y.lo == y.hi && y.lo != 0 && y.lo != -1 &&
        facc_floordiv(x.lo, y.lo) == facc_floordiv(x.hi, y.lo))
        return facc_ints<T>{facc_floormod(x.lo, y.lo), facc_floormod(x.hi, y.lo)};
    if (x.lo >= 0 && y.lo > x.hi)
        return x;
    facc_ints<T> r = {y.lo < 0 ? y.lo + 1 : T(0), y.hi > 0 ? y.hi - 1 : T(0)};
    if (x.lo >= 0)
        r.hi = facc_min(r.hi, x.hi);
    if (x.hi <= 0)
        r.lo = facc_max(r.lo, x.lo);
    return r;
}

template <class T> FACC_FN facc_ints<T> facc_iv_imin(facc_ints<T> x, facc_ints<T> y)
{
    return facc_ints<T>{facc_min(x.lo, y.lo), facc_min(x.hi, y.hi)};
}

template <class T> FACC_FN facc_ints<T> facc_iv_imax(facc_ints<T> x, facc_ints<T> y)
{
    return facc_ints<T>{facc_max(x.lo, y.lo), facc_max(x.hi, y.hi)};
}

template <class T> FACC_FN facc_ints<T> facc_iv_iabs(facc_ints<T> x)
{
    if (x.lo >= 0)
        return x;
    if (x.lo == facc_any_int<T>().lo) // |x| wraps
        return facc_any_int<T>();
    return x.hi <= 0 ? facc_ints<T>{-x.hi, -x.lo} : facc_ints<T>{0, facc_max(-x.lo, x.hi)};
}

// ---- bits: those above the highest one in which a range's ends differ are known
using facc_longs = facc_ints<long long>;
using facc_word = unsigned long long;

FACC_FN facc_word facc_fill_right(facc_word x)
{
    x |= x >> 1;
    x |= x >> 2;
    x |= x >> 4;
    x |= x >> 8;
    x |= x >> 16;
    return x | x >> 32;
}

struct facc_known {
    facc_word ones, zeros;
};

FACC_FN facc_known facc_known_bits(facc_longs x)
{
    const facc_word varying = facc_fill_right((facc_word)x.lo ^ (facc_word)x.hi);
    return facc_known{(facc_word)x.lo & ~varying, ~(facc_word)x.lo & ~varying};
}

FACC_FN facc_longs facc_from_bits(facc_known k)
{
    const facc_word sign = 1ull << 63, open = ~(k.ones | k.zeros) & sign; // either sign
    return facc_longs{(long long)(k.ones | open), (long long)(~k.zeros & ~open)};
}

FACC_FN facc_word facc_magnitude(long long x)
{
    return (facc_word)(x < 0 ? ~x : x);
}

// Bits of numbers in [-2^k, 2^k) make such a number again.
FACC_FN facc_longs facc_within_width(facc_longs r, facc_longs x, facc_longs y)
{
    const long long most = (long long)facc_fill_right(facc_magnitude(x.lo) | facc_magnitude(x.hi) |
                                                      facc_magnitude(y.lo) | facc_magnitude(y.hi));
    return facc_longs{facc_max(r.lo, -most - 1), facc_min(r.hi, most)};
}

FACC_RULE facc_longs facc_and_bits(facc_longs x, facc_longs y)
{
    const facc_known a = facc_known_bits(x), b = facc_known_bits(y);
    facc_longs r = facc_from_bits(facc_known{a.ones & b.ones, a.zeros | b.zeros});
    if (x.lo >= 0)
        r = facc_longs{facc_max(r.lo, 0ll), facc_min(r.hi, x.hi)};
    if (y.lo >= 0)
        r = facc_longs{facc_max(r.lo, 0ll), facc_min(r.hi, y.hi)};
    return facc_within_width(r, x, y);
}

FACC_RULE facc_longs facc_or_bits(facc_longs x, facc_longs y)
{
    const facc_known a = facc_known_bits(x), b = facc_known_bits(y);
    facc_longs r = facc_from_bits(facc_known{a.ones | b.ones, a.zeros & b.zeros});
    if (x.lo >= 0 && y.lo >= 0)
        r.lo = facc_max(r.lo, facc_max(x.lo, y.lo));
    if (x.hi < 0)
        r = facc_longs{facc_max(r.lo, x.lo), facc_min(r.hi, -1ll)};
    if (y.hi < 0)
        r = facc_longs{facc_max(r.lo, y.lo), facc_min(r.hi, -1ll)};
    return facc_within_width(r, x, y);
}

FACC_RULE facc_longs facc_xor_bits(facc_longs x, facc_longs y)
{
    const facc_known a = facc_known_bits(x), b = facc_known_bits(y);
    return facc_within_width(facc_from_bits(facc_known{(a.ones & b.zeros) | (a.zeros & b.ones),
                                                       (a.ones & b.ones) | (a.zeros & b.zeros)}),
                             x, y);
}

// By [a, b] with 0 <= a: a multiplication while nothing is shifted out.
FACC_FN facc_longs facc_shift_left(facc_longs x, long long a, long long b)
{
    if (x.lo == 0 && x.hi == 0)
        return x;
    if (b > 62)
        return facc_any_int<long long>();
    return facc_iv_imul(x, facc_longs{facc_shl(1, a), facc_shl(1, b)});
}

FACC_FN facc_longs facc_shift_right(facc_longs x, long long a, long long b)
{
    if (b == 0)
        return x;
    if (x.lo >= 0 || (x.hi < 0 && a > 0))
        return facc_longs{facc_shr(x.lo, b), facc_shr(x.hi, a)};
    return a > 0 ? facc_longs{0, facc_shr(-1, a)} : facc_any_int<long long>();
}

FACC_RULE facc_longs facc_shl_bits(facc_longs x, facc_longs y)
{
    if (y.lo >= 0)
        return facc_shift_left(x, y.lo, y.hi);
    return y.hi <= 0 && y.lo != kMinLong ? facc_shift_right(x, -y.hi, -y.lo)
                                         : facc_any_int<long long>();
}

FACC_RULE facc_longs facc_shr_bits(facc_longs x, facc_longs y)
{
    if (y.lo >= 0)
        return facc_shift_right(x, y.lo, y.hi);
    return y.hi <= 0 && y.lo != kMinLong ? facc_shift_left(x, -y.hi, -y.lo)
                                         : facc_any_int<long long>();
}

// Results of narrow operands that the emitter proved to be narrow.
template <class T> FACC_FN facc_ints<T> facc_fitted(facc_longs x)
{
    return sizeof(T) == 8 ? facc_ints<T>{(T)x.lo, (T)x.hi}
                          : facc_ints<T>{(T)facc_saturate(x.lo), (T)facc_saturate(x.hi)};
}

template <class T> FACC_FN facc_ints<T> facc_iv_iand(facc_ints<T> x, facc_ints<T> y)
{
    return facc_fitted<T>(facc_and_bits(facc_longs{x.lo, x.hi}, facc_longs{y.lo, y.hi}));
}

template <class T> FACC_FN facc_ints<T> facc_iv_ior(facc_ints<T> x, facc_ints<T> y)
{
    return facc_fitted<T>(facc_or_bits(facc_longs{x.lo, x.hi}, facc_longs{y.lo, y.hi}));
}

template <class T> FACC_FN facc_ints<T> facc_iv_ixor(facc_ints<T> x, facc_ints<T> y)
{
    return facc_fitted<T>(facc_xor_bits(facc_longs{x.lo, x.hi}, facc_longs{y.lo, y.hi}));
}

template <class T> FACC_FN facc_ints<T> facc_iv_ishl(facc_ints<T> x, facc_ints<T> y)
{
    return facc_fitted<T>(facc_shl_bits(facc_longs{x.lo, x.hi}, facc_longs{y.lo, y.hi}));
}

template <class T> FACC_FN facc_ints<T> facc_iv_ishr(facc_ints<T> x, facc_ints<T> y)
{
    return facc_fitted<T>(facc_shr_bits(facc_longs{x.lo, x.hi}, facc_longs{y.lo, y.hi}));
}

// ---- linear forms that 64 bits might not hold: outward in double, exact below 2^53
struct facc_sum {
    double lo, hi;
};

FACC_FN facc_sum facc_sum_of(long long c)
{
    return facc_sum{__ll2double_rd(c), __ll2double_ru(c)};
}

FACC_FN facc_sum facc_sum_of_anything()
{
    return facc_sum{-1e30, 1e30};
}

// k: exact in double.
FACC_FN facc_sum facc_sum_add(facc_sum s, double k, facc_longs x)
{
    const double lo = k < 0 ? __ll2double_ru(x.hi) : __ll2double_rd(x.lo);
    const double hi = k < 0 ? __ll2double_rd(x.lo) : __ll2double_ru(x.hi);
    return facc_sum{__dadd_rd(s.lo, __dmul_rd(k, lo)), __dadd_ru(s.hi, __dmul_ru(k, hi))};
}

// Anything where it leaves 64 bits: kernels wrap.
FACC_FN facc_longs facc_sum_ints(facc_sum s)
{
    constexpr double kEnd = 9223372036854775808.0;
    return s.lo >= -kEnd && s.hi < kEnd ? facc_longs{__double2ll_rd(s.lo), __double2ll_ru(s.hi)}
                                        : facc_any_int<long long>();
}

// ---- floats
constexpr float kMinNormal = 1.17549435e-38f;

FACC_FN bool facc_empty(facc_floats x)
{
    return !(x.lo <= x.hi);
}

FACC_FN bool facc_holds(facc_floats x, float v)
{
    return x.lo <= v && v <= x.hi;
}

FACC_FN bool facc_holds_infinity(facc_floats x)
{
    return facc_holds(x, facc_infinity()) || facc_holds(x, -facc_infinity());
}

// NaN ends (inf - inf, 0 * inf) say nothing about their side.
FACC_FN facc_floats facc_outward(float lo, float hi, bool nan)
{
    return facc_floats{lo == lo ? lo : -facc_infinity(), hi == hi ? hi : facc_infinity(), nan};
}

FACC_FN float facc_widened(float x, float margin)
{
    return fabsf(x) > kMaxFloat || x == 0.0f ? x : __fadd_ru(x, __fmul_ru(fabsf(x), margin));
}

// Functions with an error; it counts twice, at the end of the range and in the cell. What is below
// the normal numbers may be flushed to 0.
FACC_FN facc_floats facc_with_margin(float lo, float hi, float margin, bool nan)
{
    const float a = -facc_widened(-lo, margin), b = facc_widened(hi, margin);
    return facc_outward(fabsf(a) < kMinNormal ? (a < 0.0f ? -kMinNormal : 0.0f) : a,
                        fabsf(b) < kMinNormal ? (b > 0.0f ? kMinNormal : 0.0f) : b, nan);
}

constexpr float kUlps = 1.0f / (1 << 19), kExpError = 1.0f / (1 << 14);
constexpr float kFastError = 1.0f / (1 << 9);

// A function's value at one place: its code may be contracted differently around the cell.
FACC_FN facc_floats facc_near(float x)
{
    return x == x ? facc_with_margin(x, x, kUlps, false) : facc_only_nan();
}

FACC_FN facc_floats facc_hull(facc_floats x, facc_floats y)
{
    return facc_floats{fminf(x.lo, y.lo), fmaxf(x.hi, y.hi), x.nan || y.nan};
}

FACC_FN facc_floats facc_iv_fneg(facc_floats x)
{
    return facc_floats{-x.hi, -x.lo, x.nan};
}

FACC_RULE facc_floats facc_iv_fadd(facc_floats x, facc_floats y)
{
    if (facc_empty(x) || facc_empty(y))
        return facc_only_nan();
    const float inf = facc_infinity();
    const bool nan = x.nan || y.nan || (facc_holds(x, inf) && facc_holds(y, -inf)) ||
                     (facc_holds(x, -inf) && facc_holds(y, inf));
    return facc_outward(__fadd_rd(x.lo, y.lo), __fadd_ru(x.hi, y.hi), nan);
}

FACC_FN facc_floats facc_iv_fsub(facc_floats x, facc_floats y)
{
    return facc_iv_fadd(x, facc_iv_fneg(y));
}

// 0 * inf counts as 0, which is what it bounds: 0 times anything finite.
FACC_FN float facc_product_down(float a, float b)
{
    return a == 0.0f || b == 0.0f ? 0.0f : __fmul_rd(a, b);
}

FACC_FN float facc_product_up(float a, float b)
{
    return a == 0.0f || b == 0.0f ? 0.0f : __fmul_ru(a, b);
}

FACC_FN float facc_least(float a, float b, float c, float d)
{
    return fminf(fminf(a, b), fminf(c, d));
}

FACC_FN float facc_most(float a, float b, float c, float d)
{
    return fmaxf(fmaxf(a, b), fmaxf(c, d));
}

FACC_RULE facc_floats facc_iv_fmul(facc_floats x, facc_floats y)
{
    if (facc_empty(x) || facc_empty(y))
        return facc_only_nan();
    const bool nan = x.nan || y.nan || (facc_holds(x, 0.0f) && facc_holds_infinity(y)) ||
                     (facc_holds(y, 0.0f) && facc_holds_infinity(x));
    return facc_outward(facc_least(facc_product_down(x.lo, y.lo), facc_product_down(x.lo, y.hi),
                                   facc_product_down(x.hi, y.lo), facc_product_down(x.hi, y.hi)),
                        facc_most(facc_product_up(x.lo, y.lo), facc_product_up(x.lo, y.hi),
                                  facc_product_up(x.hi, y.lo), facc_product_up(x.hi, y.hi)),
                        nan);
}

FACC_RULE facc_floats facc_iv_fdiv(facc_floats x, facc_floats y)
{
    if (facc_empty(x) || facc_empty(y))
        return facc_only_nan();
    if (facc_holds(y, 0.0f) || (facc_holds_infinity(x) && facc_holds_infinity(y)))
        return facc_any_float();
    return facc_outward(facc_least(__fdiv_rd(x.lo, y.lo), __fdiv_rd(x.lo, y.hi),
                                   __fdiv_rd(x.hi, y.lo), __fdiv_rd(x.hi, y.hi)),
                        facc_most(__fdiv_ru(x.lo, y.lo), __fdiv_ru(x.lo, y.hi),
                                  __fdiv_ru(x.hi, y.lo), __fdiv_ru(x.hi, y.hi)),
                        x.nan || y.nan);
}

FACC_FN facc_floats facc_iv_ffloordiv(facc_floats x, facc_floats y)
{
    const facc_floats r = facc_iv_fdiv(x, y);
    return facc_floats{floorf(r.lo), floorf(r.hi), r.nan};
}

// Where one may be NaN either may come out whole.
FACC_FN facc_floats facc_iv_fmin(facc_floats x, facc_floats y)
{
    float hi = fminf(x.hi, y.hi);
    hi = x.nan ? fmaxf(hi, y.hi) : hi;
    hi = y.nan ? fmaxf(hi, x.hi) : hi;
    return facc_floats{fminf(x.lo, y.lo), hi, x.nan || y.nan};
}

FACC_FN facc_floats facc_iv_fmax(facc_floats x, facc_floats y)
{
    return facc_iv_fneg(facc_iv_fmin(facc_iv_fneg(x), facc_iv_fneg(y)));
}

FACC_FN facc_floats facc_iv_fabs(facc_floats x)
{
    if (facc_empty(x) || x.lo >= 0.0f)
        return x;
    const facc_floats n = facc_iv_fneg(x);
    return x.hi <= 0.0f ? n : facc_floats{0.0f, fmaxf(n.hi, x.hi), x.nan};
}

// y ln x is bilinear for positive x: extremes at the corners.
FACC_RULE facc_floats facc_iv_fpow(facc_floats x, facc_floats y)
{
    if (facc_empty(x) || facc_empty(y) || !(x.lo >= kMinNormal || (x.lo >= 0.0f && y.lo > 0.0f)))
        return facc_any_float();
    const float a = powf(x.lo, y.lo), b = powf(x.lo, y.hi);
    const float c = powf(x.hi, y.lo), d = powf(x.hi, y.hi);
    return facc_with_margin(facc_least(a, b, c, d), facc_most(a, b, c, d), kUlps, x.nan | y.nan);
}

FACC_FN facc_floats facc_iv_unknown(facc_floats)
{
    return facc_any_float();
}

FACC_FN facc_floats facc_iv_unknown(facc_floats, facc_floats)
{
    return facc_any_float();
}

// An increasing function's values at the ends.
FACC_FN facc_floats facc_increasing(facc_floats x, float lo, float hi, float margin, float least,
                                    float most)
{
    if (facc_empty(x))
        return facc_only_nan();
    const facc_floats r = facc_with_margin(lo, hi, margin, x.nan);
    return facc_floats{fminf(fmaxf(r.lo, least), most), fminf(fmaxf(r.hi, least), most), r.nan};
}

FACC_RULE facc_floats facc_iv_exp(facc_floats x)
{
    return facc_increasing(x, facc_exp(x.lo), facc_exp(x.hi), kExpError, 0.0f, facc_infinity());
}

FACC_RULE facc_floats facc_iv_exp2(facc_floats x)
{
    return facc_increasing(x, exp2f(x.lo), exp2f(x.hi), kExpError, 0.0f, facc_infinity());
}

// Subnormal arguments may be flushed to 0; below 0 there is only NaN.
FACC_FN facc_floats facc_logarithm(facc_floats x, float lo, float hi)
{
    if (facc_empty(x) || x.hi < 0.0f)
        return facc_only_nan();
    return facc_with_margin(x.lo < kMinNormal ? -facc_infinity() : lo, hi, kUlps,
                            x.nan || x.lo < 0.0f);
}

FACC_RULE facc_floats facc_iv_log(facc_floats x)
{
    return facc_logarithm(x, logf(x.lo), logf(x.hi));
}

FACC_RULE facc_floats facc_iv_log2(facc_floats x)
{
    return facc_logarithm(x, log2f(x.lo), log2f(x.hi));
}

FACC_RULE facc_floats facc_iv_log10(facc_floats x)
{
    return facc_logarithm(x, log10f(x.lo), log10f(x.hi));
}

FACC_RULE facc_floats facc_iv_tanh(facc_floats x)
{
    return facc_increasing(x, facc_tanh(x.lo), facc_tanh(x.hi), kUlps, -1.0f, 1.0f);
}

FACC_RULE facc_floats facc_iv_tanh_fast(facc_floats x)
{
    return facc_increasing(x, facc_tanh_fast(x.lo), facc_tanh_fast(x.hi), kFastError, -1.0f, 1.0f);
}

FACC_RULE facc_floats facc_iv_sigmoid(facc_floats x)
{
    return facc_increasing(x, facc_sigmoid(x.lo), facc_sigmoid(x.hi), kExpError, 0.0f, 1.0f);
}

FACC_RULE facc_floats facc_iv_erf(facc_floats x)
{
    return facc_increasing(x, erff(x.lo), erff(x.hi), kUlps, -1.0f, 1.0f);
}

FACC_FN facc_floats facc_iv_unit(facc_floats x)
{
    return facc_empty(x) ? facc_only_nan()
                         : facc_floats{-1.0f, 1.0f, x.nan || facc_holds_infinity(x)};
}

FACC_RULE facc_floats facc_iv_sqrt(facc_floats x)
{
    if (facc_empty(x) || x.hi < 0.0f)
        return facc_only_nan();
    return facc_outward(__fsqrt_rd(fmaxf(x.lo, 0.0f)), __fsqrt_ru(x.hi), x.nan || x.lo < 0.0f);
}

FACC_RULE facc_floats facc_iv_rsqrt(facc_floats x)
{
    if (facc_empty(x) || x.hi < 0.0f)
        return facc_only_nan();
    if (x.lo < kMinNormal) // the sign of a zero decides which infinity
        return facc_floats{-facc_infinity(), facc_infinity(), x.nan || x.lo < 0.0f};
    return facc_with_margin(rsqrtf(x.hi), rsqrtf(x.lo), kUlps, x.nan);
}

// ---- between the types
FACC_FN facc_floats facc_iv_i2f(facc_ints<int> x)
{
    return facc_floats{__int2float_rd(x.lo), __int2float_ru(x.hi), false};
}

FACC_FN facc_floats facc_iv_i2f(facc_longs x)
{
    return facc_floats{__ll2float_rd(x.lo), __ll2float_ru(x.hi), false};
}

FACC_FN facc_ints<int> facc_with_zero(facc_floats x, int lo, int hi)
{
    if (facc_empty(x)) // NaN gives 0
        return facc_ints<int>{0, 0};
    return x.nan ? facc_ints<int>{facc_min(lo, 0), facc_max(hi, 0)} : facc_ints<int>{lo, hi};
}

FACC_FN facc_ints<int> facc_iv_f2i_floor(facc_floats x)
{
    return facc_with_zero(x, facc_floor_i32(x.lo), facc_floor_i32(x.hi));
}

FACC_FN facc_ints<int> facc_iv_f2i_ceil(facc_floats x)
{
    return facc_with_zero(x, facc_ceil_i32(x.lo), facc_ceil_i32(x.hi));
}

FACC_FN facc_ints<int> facc_iv_f2i_round(facc_floats x)
{
    return facc_with_zero(x, facc_round_i32(x.lo), facc_round_i32(x.hi));
}

FACC_FN facc_bools facc_iv_flt(facc_floats x, facc_floats y)
{
    const bool nan = x.nan | y.nan;
    return facc_may(nan || x.hi >= y.lo, x.lo < y.hi);
}

FACC_FN facc_bools facc_iv_fle(facc_floats x, facc_floats y)
{
    const bool nan = x.nan | y.nan;
    return facc_may(nan || x.hi > y.lo, x.lo <= y.hi);
}

FACC_FN facc_bools facc_iv_feq(facc_floats x, facc_floats y)
{
    const bool meet = fmaxf(x.lo, y.lo) <= fminf(x.hi, y.hi);
    const bool one = x.lo == x.hi && y.lo == y.hi;
    return facc_may(x.nan || y.nan || !meet || !one, meet);
}

template <class X> FACC_FN X facc_iv_sel(facc_bools c, X x, X y)
{
    return !c.f ? x : !c.t ? y : facc_hull(x, y);
}

// ---- loads: all elements in reach of the indices' ranges
constexpr int kMaxReach = 256; // VERDICT_MAX_REACH

// Along one dimension: `run` elements from `first` on; then the last one, where an index may be
// negative, since loads clamp as unsigned numbers.
struct facc_reach {
    long long first, last, run, n, stride;

    FACC_FN long long offset(long long i) const { return (i < run ? first + i : last) * stride; }
};

template <int d>
FACC_FN facc_reach facc_reach_of(const facc_captured &t, long long lo, long long hi)
{
    const long long last = facc_max((long long)t.shape[d] - 1, 0ll);
    const long long first = facc_min(facc_max(lo, 0ll), last);
    const long long end = hi < 0 ? 0 : facc_min(hi, last) + 1;
    const long long run = facc_max(end - first, 0ll);
    const long long n = run + (lo < 0 && first + run <= last ? 1 : 0);
    return facc_reach{first, last, run, n, t.stride[d]};
}

FACC_FN facc_reach facc_reach_one()
{
    return facc_reach{0, 0, 1, 1, 0};
}

FACC_FN long long facc_reach_count(long long count, facc_reach x)
{
    return count > kMaxReach ? count : count * x.n;
}

template <class Visit>
FACC_FN bool facc_for_each(const Visit &visit, facc_reach a, facc_reach b, facc_reach c,
                           facc_reach d, facc_reach e)
{
    long long n = facc_reach_count(facc_reach_count(facc_reach_count(a.n, b), c), d);
    n = facc_reach_count(n, e);
    if (n > kMaxReach)
        return false;
    for (int i = 0; n > 0 && i < (int)a.n; i++)
        for (int j = 0; j < (int)b.n; j++)
            for (int k = 0; k < (int)c.n; k++)
                for (int l = 0; l < (int)d.n; l++)
                    for (int m = 0; m < (int)e.n; m++)
                        visit(a.offset(i) + b.offset(j) + c.offset(k) + d.offset(l) + e.offset(m));
    return true;
}

// `any`: all that the elements' type holds.
template <class T, T (*load)(const facc_captured &, long long)>
FACC_FN facc_ints<T>
facc_reach_ints(facc_ints<T> any, const facc_captured &t, facc_reach a,
                facc_reach b = facc_reach_one(), facc_reach c = facc_reach_one(),
                facc_reach d = facc_reach_one(), facc_reach e = facc_reach_one())
{
    facc_ints<T> r = {any.hi, any.lo};
    const auto visit = [&](long long offset) {
        const T x = load(t, offset);
        r = facc_hull(r, facc_ints<T>{x, x});
    };
    return facc_for_each(visit, a, b, c, d, e) ? r : any;
}

template <float (*load)(const facc_captured &, long long)>
FACC_FN facc_floats facc_reach_floats(const facc_captured &t, facc_reach a,
                                      facc_reach b = facc_reach_one(),
                                      facc_reach c = facc_reach_one(),
                                      facc_reach d = facc_reach_one(),
                                      facc_reach e = facc_reach_one())
{
    facc_floats r = {facc_infinity(), -facc_infinity(), false};
    const auto visit = [&](long long offset) { r = facc_hull(r, facc_point(load(t, offset))); };
    return facc_for_each(visit, a, b, c, d, e) ? r : facc_any_float();
}

template <bool (*load)(const facc_captured &, long long)>
FACC_FN facc_bools facc_reach_bools(const facc_captured &t, facc_reach a,
                                    facc_reach b = facc_reach_one(),
                                    facc_reach c = facc_reach_one(),
                                    facc_reach d = facc_reach_one(),
                                    facc_reach e = facc_reach_one())
{
    facc_bools r = {false, false};
    const auto visit = [&](long long offset) {
        const bool x = load(t, offset);
        r = facc_may(r.f | !x, r.t | x);
    };
    return facc_for_each(visit, a, b, c, d, e) ? r : facc_may(true, true);
}

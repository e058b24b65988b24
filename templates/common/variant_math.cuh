// What generated code calls: Lua's integer arithmetic, functions, loads from captured tensors,
// verdict words. No header but kernel_args.h is needed; the same text compiles under NVRTC for
// every architecture from sm_80.
#pragma once
#include "common/args.cuh"
#include "common/variant_ptx.cuh"

// ---- verdicts: bit 0: a cell may be masked, bit 1: a cell may count
constexpr int kVerdictEmpty = 1, kVerdictFull = 2, kVerdictPartial = 3;
constexpr int kMaxInt = 0x7fffffff, kMinInt = -kMaxInt - 1;

// ---- integers: Lua's floor division and modulo (divisor 0 gives 0), logical 64-bit shifts
FACC_FN int facc_floordiv(int a, int b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (int)(0u - (unsigned)a);
    const int q = a / b, r = a - q * b;
    return q - (int)(r != 0 && (r ^ b) < 0);
}

FACC_FN long long facc_floordiv(long long a, long long b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (long long)(0ull - (unsigned long long)a);
    const long long q = a / b, r = a - q * b;
    return q - (long long)(r != 0 && (r ^ b) < 0);
}

FACC_FN int facc_floormod(int a, int b)
{
    if (b == 0 || b == -1)
        return 0;
    const int r = a % b;
    return r != 0 && (r ^ b) < 0 ? r + b : r;
}

FACC_FN long long facc_floormod(long long a, long long b)
{
    if (b == 0 || b == -1)
        return 0;
    const long long r = a % b;
    return r != 0 && (r ^ b) < 0 ? r + b : r;
}

FACC_FN int facc_min(int a, int b)
{
    return a < b ? a : b;
}
FACC_FN int facc_max(int a, int b)
{
    return a > b ? a : b;
}
FACC_FN int facc_abs(int a)
{
    return a < 0 ? (int)(0u - (unsigned)a) : a;
}
// Lua's, by comparison: a NaN in the first operand stays, one in the second does not (fminf would
// lose both).
FACC_FN float facc_min(float a, float b)
{
    return b < a ? b : a;
}
FACC_FN float facc_max(float a, float b)
{
    return a < b ? b : a;
}
FACC_FN long long facc_min(long long a, long long b)
{
    return a < b ? a : b;
}
FACC_FN long long facc_max(long long a, long long b)
{
    return a > b ? a : b;
}
FACC_FN long long facc_abs(long long a)
{
    return a < 0 ? (long long)(0ull - (unsigned long long)a) : a;
}

FACC_FN long long facc_shl(long long a, long long n)
{
    const unsigned long long u = (unsigned long long)a;
    if (n >= 0)
        return n > 63 ? 0 : (long long)(u << (int)n);
    return n < -63 ? 0 : (long long)(u >> (int)-n);
}

FACC_FN long long facc_shr(long long a, long long n)
{
    const unsigned long long u = (unsigned long long)a;
    if (n >= 0)
        return n > 63 ? 0 : (long long)(u >> (int)n);
    return n < -63 ? 0 : (long long)(u << (int)-n);
}

// To 32 bits, ends kept: comparisons with small constants stay right.
FACC_FN int facc_saturate(long long a)
{
    return a > kMaxInt ? kMaxInt : a < kMinInt ? kMinInt : (int)a;
}

// ---- float to int: saturates, NaN gives 0, as cvt does
FACC_FN int facc_floor_i32(float x)
{
    return __float2int_rd(x);
}
FACC_FN int facc_ceil_i32(float x)
{
    return __float2int_ru(x);
}
FACC_FN int facc_round_i32(float x)
{
    return __float2int_rn(x);
}

// ---- floats
constexpr float kLog2e = 1.44269502f, kMaxFloat = 3.40282347e+38f;

// a * b and 1 / a as factors that are multiplied once more: a product of finite numbers stays
// finite, so that 0 times it is 0 as in the unfolded expression.
FACC_FN float facc_fold(float a, float b)
{
    const float p = a * b;
    return fabsf(p) > kMaxFloat && fabsf(a) <= kMaxFloat && fabsf(b) <= kMaxFloat
               ? copysignf(kMaxFloat, p)
               : p;
}
FACC_FN float facc_reciprocal(float a)
{
    const float p = 1.0f / a;
    return fabsf(p) > kMaxFloat && a != 0.0f ? copysignf(kMaxFloat, p) : p;
}
// Loaded numbers may be the least that there are: toward zero, so that what is finite stays finite
// (a row of such scores alone is one of equal weights) and -inf stays what it is.
FACC_FN float facc_times_log2e(float a)
{
    return __fmul_rz(a, kLog2e);
}

// A part of a score in log2 units with minus a row's reference in it; NaN where f32 (and the f64
// that it is compared with) would have lost the rest of the score: no weight is good then.
FACC_FN float facc_moved(float a, float by)
{
    return fabsf(by) < 1e16f ? a + by : __int_as_float(0x7fffffff);
}

// What Base says of it: `by` joins the score; moved: known when compiling, true after offset_by.
struct facc_by {
    float by = 0.0f;
    bool moved = false;
};
// Near a reference what is far below it, finite or not, has no weight, and what is as far as it has
// NaN: one factor suffices, which joins a sum.
FACC_FN float facc_times_log2e(float a, bool moved)
{
    return moved ? a * kLog2e : facc_times_log2e(a);
}

// What Base says of a bias of q - kv that is one number, in log2 units, where that is kBefore or
// more, and another one where it is -kAfter or less (kMaxInt: nowhere).
struct facc_far {
    int distance; // q - kv in the base's column
    float before, after;
    float by = 0.0f;   // what is added on the quick path
    bool exact = true; // known when compiling: there the diagonal's value is
};
// For columns 0 to `last`, which are all far on one side, or nothing counts: NaN.
template <int kBefore, int kAfter>
FACC_FN facc_far facc_far_by(const facc_far &x, float by, int last)
{
    float bias = __int_as_float(0x7fffffff);
    if (kBefore != kMaxInt)
        bias = x.distance - last >= kBefore ? x.before : bias;
    if (kAfter != kMaxInt)
        bias = x.distance <= -kAfter ? x.after : bias;
    return facc_far{x.distance, x.before, x.after, facc_moved(bias, by), false};
}

FACC_FN float facc_exp(float x)
{
    return expf(x);
}

// Absolute error below 2.5e-7, relative error below 5e-7, odd, exact at 0, +-1 at the ends; no
// branch. Near 0, where 1 - 2 / (1 + e^2x) cancels, an odd polynomial (minimax on [0, 0.6]) is
// selected.
FACC_FN float facc_tanh(float x)
{
    const float a = fabsf(x), z = x * x;
    const float far = fmaf(-2.0f, facc_rcp(1.0f + facc_ex2(a * 2.8853900817779268f)), 1.0f);
    float p = fmaf(z, 0.015612585470080376f, -0.05221178010106087f);
    p = fmaf(z, p, 0.13313116133213043f);
    p = fmaf(z, p, -0.33332598209381104f);
    const float near = fmaf(x * z, p, x);
    return a < 0.6f ? near : copysignf(far, x);
}

// (tanh(x) - 1) / 2 from 2 log2(e) x. Absolute error below 1.2e-7, which under a modest factor is
// as good as facc_tanh, at a third of its instructions.
FACC_FN float facc_tanh_below(float x)
{
    return -facc_rcp(1.0f + facc_ex2(x));
}

// by * tanh(factor * s) of small arguments without the function unit: s * (a0 + a1 s^2 + a2 s^4).
// Where s^2 <= limit, tanh's relative error is below 1e-4 (minimax on [0, 0.65]), less than
// facc_tanh_fast's. Factors that would leave f32's range have a limit that nothing meets.
struct facc_narrow {
    float a0, a1, a2, limit;
};

FACC_FN facc_narrow facc_narrow_tanh(float factor, float by)
{
    constexpr float kSquare = 0.4225f, kLeast = 1e-5f, kMost = 1e5f, kMostBy = 1e10f;
    const float size = fabsf(factor), square = factor * factor, a = by * factor;
    const bool fits = size >= kLeast && size <= kMost && fabsf(by) <= kMostBy;
    return facc_narrow{a * 0.99990153f, a * square * -0.32906365f,
                       a * square * square * 0.10479579f,
                       fits ? kSquare * facc_rcp(square) : -1.0f};
}

// `widest` becomes the largest s^2 so far, or NaN for ever.
FACC_FN float facc_narrow_cell(const facc_narrow &n, float s, float &widest)
{
    const float square = s * s;
    widest = facc_max_nan(widest, square);
    return s * fmaf(fmaf(square, n.a2, n.a1), square, n.a0);
}

FACC_FN float facc_sigmoid(float x)
{
    return facc_rcp(1.0f + expf(-x));
}

// x ^ n by products; |n| <= 8.
template <int n> FACC_FN float facc_power(float x)
{
    const float x2 = x * x, x4 = x2 * x2;
    constexpr int m = n < 0 ? -n : n;
    const float odd = m & 1 ? x : 1.0f, two = m & 2 ? odd * x2 : odd;
    const float p = m & 8 ? x4 * x4 : m & 4 ? two * x4 : two;
    return n < 0 ? 1.0f / p : p;
}

// Lua's float %: the result has the divisor's sign.
FACC_FN float facc_fmod(float a, float b)
{
    const float m = fmodf(a, b);
    return (m > 0.0f ? b < 0.0f : m < 0.0f && b > 0.0f) ? m + b : m;
}

// ---- sequence lengths
FACC_FN int facc_length(const int *used, const int *offsets, int full, int batch, long long b)
{
    const int i = b < 0 ? 0 : b < batch ? (int)b : batch - 1;
    if (used != nullptr)
        return __ldg(used + i);
    return offsets != nullptr ? __ldg(offsets + i + 1) - __ldg(offsets + i) : full;
}

FACC_FN int facc_len_q(const KernelArgs &args, long long b)
{
    return facc_length(args.seqused_q, args.cu_seqlens_q, args.Sq, args.B, b);
}

FACC_FN int facc_len_kv(const KernelArgs &args, long long b)
{
    return facc_length(args.seqused_kv, args.cu_seqlens_kv, args.Skv, args.B, b);
}

// ---- captured tensors
// Element offset of index i along dimension d, clamped into the tensor: one unsigned minimum, so
// that padding never reads outside. A tensor with an extent of 0 is passed with data == 0, and its
// loads give 0.
template <int d> FACC_FN long long facc_at(const facc_captured &t, int i)
{
    const unsigned last = (unsigned)t.shape[d] - 1u, u = (unsigned)i;
    return (long long)(u < last ? u : last) * t.stride[d];
}

template <int d> FACC_FN long long facc_at(const facc_captured &t, long long i)
{
    const unsigned long long last = (unsigned)t.shape[d] - 1u, u = (unsigned long long)i;
    return (long long)(u < last ? u : last) * t.stride[d];
}

template <class T> FACC_FN T facc_element(const facc_captured &t, long long offset)
{
    return t.data != nullptr ? __ldg((const T *)t.data + offset) : T(0);
}

FACC_FN float facc_load_f32(const facc_captured &t, long long offset)
{
    return facc_element<float>(t, offset);
}
FACC_FN float facc_load_f16(const facc_captured &t, long long offset)
{
    return facc_half_bits(facc_element<unsigned short>(t, offset));
}
FACC_FN float facc_load_bf16(const facc_captured &t, long long offset)
{
    return __uint_as_float((unsigned)facc_element<unsigned short>(t, offset) << 16);
}
// e4m3 is an f16 with the exponent's bias less by 8, but for its one NaN; e5m2 is the upper byte of
// an f16.
FACC_FN float facc_load_e4m3(const facc_captured &t, long long offset)
{
    const unsigned x = facc_element<unsigned char>(t, offset);
    const float y = facc_half_bits((x & 0x80u) << 8 | (x & 0x7fu) << 7) * 256.0f;
    return (x & 0x7fu) == 0x7fu ? __int_as_float(0x7fffffff) : y;
}
FACC_FN float facc_load_e5m2(const facc_captured &t, long long offset)
{
    return facc_half_bits((unsigned)facc_element<unsigned char>(t, offset) << 8);
}
FACC_FN int facc_load_i8(const facc_captured &t, long long offset)
{
    return facc_element<signed char>(t, offset);
}
FACC_FN int facc_load_u8(const facc_captured &t, long long offset)
{
    return facc_element<unsigned char>(t, offset);
}
FACC_FN int facc_load_i16(const facc_captured &t, long long offset)
{
    return facc_element<short>(t, offset);
}
FACC_FN int facc_load_i32(const facc_captured &t, long long offset)
{
    return facc_element<int>(t, offset);
}
// Beyond 2^60 an element counts as that end, as in compiler/dtype.h: sums with it stay in 64 bits.
FACC_FN long long facc_load_i64(const facc_captured &t, long long offset)
{
    constexpr long long kEnd = 1ll << 60;
    return facc_max(-kEnd, facc_min(facc_element<long long>(t, offset), kEnd - 1));
}
FACC_FN bool facc_load_bool(const facc_captured &t, long long offset)
{
    return facc_element<unsigned char>(t, offset) != 0;
}

// Sum of the products of two rows of n floats, along dimension da of a from offset i on and db of
// b from j on: in order and fused, so that every kernel has the same bits.
template <int n, float (*load_a)(const facc_captured &, long long), int da,
          float (*load_b)(const facc_captured &, long long), int db>
FACC_FN float facc_dot(const facc_captured &a, long long i, const facc_captured &b, long long j)
{
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; k++) {
        sum = fmaf(load_a(a, i), load_b(b, j), sum);
        i += a.stride[da];
        j += b.stride[db];
    }
    return sum;
}

// ---- checked builds
// A read outside a captured tensor: 0 for none, else from the top tensor + 1 (12 bits), line of the
// user's file (17), dimension (3), index (32).
using facc_fault = unsigned long long;

FACC_FN facc_fault facc_first(facc_fault a, facc_fault b)
{
    return a != 0 ? a : b;
}

template <int d>
FACC_FN facc_fault facc_outside(const facc_captured &t, int tensor, int line, long long i)
{
    if (i >= 0 && i < t.shape[d])
        return 0;
    return (facc_fault)(tensor + 1) << 52 | (facc_fault)(line & 0x1ffff) << 35 |
           (facc_fault)d << 32 | (unsigned)facc_saturate(i);
}

// An extent by run-time numbers; 0 where the program captures nothing.
template <class Args> FACC_FN int facc_extent(const Args &args, int tensor, int d)
{
    if constexpr (kNumTensors > 0)
        return args.tensors[tensor].shape[d];
    else
        return 0;
}

// The first one wins: {tensor + 1, line, index, extent}. Not inlined: it would be in every cell.
FACC_CALL void facc_report_fault(const KernelArgs &args, facc_fault fault)
{
    const int tensor = (int)(fault >> 52);
    if (args.bounds_report == nullptr || facc_swap_if_zero(args.bounds_report, tensor) != 0)
        return;
    args.bounds_report[1] = (int)(fault >> 35 & 0x1ffff);
    args.bounds_report[2] = (int)(unsigned)fault;
    args.bounds_report[3] = facc_extent(args, tensor - 1, (int)(fault >> 32 & 7));
}

FACC_FN void facc_report(const KernelArgs &args, facc_fault fault, bool live)
{
    if (fault != 0 && live)
        facc_report_fault(args, fault);
}

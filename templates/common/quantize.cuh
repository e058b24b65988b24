// Parts of the kernels that round a tensor to FP8 (quantize.cu): which rows a CTA has, how its
// threads hold them, how they become bytes.
#pragma once
#include "common/fp8_image.cuh"
#include "common/mma_16816.cuh"
#include "common/quantize_args.h"
#include "common/quantize_ptx.cuh"
#include "facc_config.cuh"

constexpr bool kFromF32 = kFrom == kElementF32;
// With hadamard: tensor cores do most of it, and the next slab is loaded while this one is rounded.
constexpr bool kProducts = kHadamard && !kFromF32;
constexpr int kThreads = facc_round_threads(kHeadDim, kHadamard || kFromF32);
constexpr int kSlabRows = facc_slab_rows(kHeadDim); // the most that a CTA has
constexpr int kUnits = kSlabRows / 32;              // of rows that may be blocks
// CTAs to a multiprocessor, for the registers that they need.
constexpr int kAmaxCtas = (kProducts && kHeadDim <= 64 ? 768 : 640) / kThreads;
constexpr int kRoundCtas = 512 / kThreads;

// ---- which rows --------------------------------------------------------------------------------

struct Rows {
    int b, h;
    int unit, part;    // of the sequence, of the unit
    int first, count;  // of the sequence; none in gaps
    long long in, out; // elements before these rows
    __device__ __forceinline__ bool begin() const { return unit == 0 && part == 0; }
};

__device__ __forceinline__ int divided(int n, const facc_divisor &by)
{
    return (int)((__umulhi((unsigned)n, by.mul) + (unsigned)n) >> by.shift);
}

__device__ __forceinline__ int first_unit(const facc_rounding &a, int b)
{
    return a.cu_seqlens ? divided(a.cu_seqlens[b], a.by_unit) + b : b * a.units;
}

__device__ __forceinline__ int length_of(const facc_rounding &a, int b)
{
    return a.cu_seqlens ? max(0, min(a.cu_seqlens[b + 1] - a.cu_seqlens[b], a.S)) : a.S;
}

// The last sequence that begins at or before a unit.
__device__ __forceinline__ int sequence_of(const facc_rounding &a, int unit)
{
    if (!a.cu_seqlens)
        return divided(unit, a.by_units);
    int b = 0, end = a.B;
#pragma unroll 1
    while (end - b > 1) {
        const int middle = b + (end - b) / 2;
        if (first_unit(a, middle) <= unit)
            b = middle;
        else
            end = middle;
    }
    return b;
}

__device__ __forceinline__ int start_of(const facc_rounding &a, int b)
{
    return a.cu_seqlens ? a.cu_seqlens[b] : 0;
}

__device__ __forceinline__ unsigned long long times(long long stride, int n)
{
    return (unsigned long long)stride * (unsigned)n; // n is not negative
}

__device__ __forceinline__ long long before(const facc_rounding &a, const Rows &r,
                                            const long long (&stride)[3])
{
    return (long long)((a.cu_seqlens ? 0 : times(stride[0], r.b)) + times(stride[1], r.h) +
                       times(stride[2], start_of(a, r.b) + r.first));
}

__device__ __forceinline__ Rows rows_of(const facc_rounding &a, int id)
{
    Rows r;
    r.h = divided(id, a.by_slabs);
    const int slab = id - r.h * a.slabs, unit = divided(slab, a.by_parts);
    r.part = slab - unit * a.parts;
    r.b = sequence_of(a, unit);
    r.unit = unit - first_unit(a, r.b);
    const int length = length_of(a, r.b);
    const long long first = (long long)r.unit * a.unit + r.part * a.slab;
    const long long last = min(first + a.slab, (long long)(r.unit + 1) * a.unit);
    r.first = (int)min(first, (long long)length);
    r.count = (int)min(last, (long long)length) - r.first;
    r.in = before(a, r, a.in_stride);
    r.out = before(a, r, a.out_stride);
    return r;
}

// With hadamard: all slabs of a CTA, then none. Found once, since 64 elements to a thread and slab
// do not pay for it.
constexpr int kPlan = kHadamard ? FACC_MOST_SLABS + 1 : 1;

__device__ __forceinline__ void make_plan(const facc_rounding &a, bool backwards,
                                          Rows (&plan)[kPlan])
{
    const int i = threadIdx.x, id = (int)blockIdx.x + i * a.ctas;
    if (i < kPlan)
        plan[i] = i < kPlan - 1 && id < a.all ? rows_of(a, backwards ? a.all - 1 - id : id)
                                              : Rows{0, 0, 0, 0, 0, 0, 0, 0};
}

// ---- a thread's part of a slab -----------------------------------------------------------------

// With hadamard a row is in groups of columns, which lanes take in turn. For tensor cores four
// lanes have a row in groups of 8, as their operands are; a warp's rows are in sequence. From f32 a
// thread has 32 elements of two rows in groups of 16: of each butterfly but those between lanes
// both sides are in the thread, and codes are stored 16 bytes at a time. Without, 16 bytes of each
// of 16 rows, half a chunk of the image: loads of a warp are whole lines, means take few registers,
// and no byte has to go to another thread. Lanes 2 i and 2 i + 1 have the halves of a chunk, so
// that stores of the image fill whole sectors.
constexpr int kWidth = kFromF32 ? 4 : 8; // elements of a vector of 16 bytes
constexpr int kGroup = kProducts ? 8 : kHadamard ? 16 : kWidth;
constexpr int kLanes = kProducts ? 4 : kHadamard ? kHeadDim / 32 : 1; // to a row
constexpr int kElements = kHadamard ? kHeadDim / kLanes : kWidth;     // of a row
constexpr int kVectors = kElements / kWidth;
constexpr int kRows = kHadamard ? kSlabRows * kLanes / kThreads : 16;
constexpr int kColumns = kHadamard ? 1 : kHeadDim / kWidth; // vectors of a whole row
constexpr int kStepRows = kProducts ? 8 : kHadamard ? kThreads / kLanes : 1; // to the next row

struct Place {
    int lane;   // of the row
    int first;  // of the slab's rows
    int column; // of the first vector
    // Rows and columns from the first to those of a number: of a row, an element.
    static __device__ __forceinline__ constexpr int row(int i)
    {
        return kHadamard ? i * kStepRows : i;
    }
    static __device__ __forceinline__ constexpr int offset(int e)
    {
        return e / kGroup * kGroup * kLanes + e % kGroup;
    }
};

// Threads that have none are behind all rows.
__device__ __forceinline__ Place place_of(int thread)
{
    const int lane = thread % kLanes, row = thread / kLanes;
    if constexpr (kHadamard)
        return Place{lane, kProducts ? row / 8 * 8 * kRows + row % 8 : row, lane * kGroup};
    const int pair = thread >> 1, half = thread & 1;
    return Place{0, pair / kColumns * 32 + 16 * half, pair % kColumns * kWidth};
}

// A thread's rows in memory, one after the other.
struct Walk {
    char *at;       // the first vector of a row
    long long step; // to the next one
    int left;       // rows of the slab from the thread's first on
};

__device__ __forceinline__ Walk walk_of(const Rows &r, const Place &at, const void *tensor,
                                        long long slab, const long long (&stride)[3], int size)
{
    const unsigned long long thread = times(stride[2], at.first) + at.column;
    return Walk{(char *)tensor + slab * size + thread * size, Place::row(1) * stride[2] * size,
                tensor ? r.count - at.first : -1};
}

__device__ __forceinline__ Walk walk_in(const facc_rounding &a, const Rows &r, const Place &at)
{
    return walk_of(r, at, a.in, r.in, a.in_stride, 16 / kWidth);
}

// The row of number i, zeros behind the slab; then the walk is at the next one.
__device__ __forceinline__ void load_row(Walk &w, int i, uint4 (&v)[kVectors])
{
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        const char *from = w.at + Place::offset(kWidth * j) * (16 / kWidth);
        v[j] = Place::row(i) < w.left ? *reinterpret_cast<const uint4 *>(from) : uint4{0, 0, 0, 0};
    }
    w.at += w.step;
}

struct Part {
    uint4 raw[kRows][kVectors];
};

__device__ __forceinline__ void load_part(const facc_rounding &a, const Rows &r, const Place &at,
                                          Part &p)
{
    Walk w = walk_in(a, r, at);
#pragma unroll
    for (int i = 0; i < kRows; i++)
        load_row(w, i, p.raw[i]);
}

// ---- values ------------------------------------------------------------------------------------

__device__ __forceinline__ void unpack(const uint4 (&v)[kVectors], float (&x)[kElements])
{
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        const unsigned w[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if constexpr (kFromF32) {
                x[4 * j + i] = __uint_as_float(w[i]);
            } else if constexpr (kFrom == kElementBf16) {
                x[8 * j + 2 * i] = __uint_as_float(w[i] << 16);
                x[8 * j + 2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
            } else {
                x[8 * j + 2 * i] = half_bits(w[i] & 0xffff);
                x[8 * j + 2 * i + 1] = half_bits(w[i] >> 16);
            }
        }
    }
}

struct Mean {
    float m[kMean ? kElements : 1];
};

__device__ __forceinline__ Mean mean_of(const facc_rounding &a, const Rows &r, const Place &at)
{
    Mean mean;
    const float *from = a.mean + r.b * a.mean_stride[0] + r.h * a.mean_stride[1] + at.column;
    if constexpr (kMean)
#pragma unroll
        for (int e = 0; e < kElements; e++)
            mean.m[e] = from[e];
    return mean;
}

__device__ __forceinline__ void values_of(const uint4 (&v)[kVectors], const Mean &mean,
                                          float (&x)[kElements])
{
    unpack(v, x);
    if constexpr (kMean)
#pragma unroll
        for (int e = 0; e < kElements; e++)
            x[e] -= mean.m[e];
}

// ---- hadamard ----------------------------------------------------------------------------------

// In shared memory. Sign bits of a row, as vectors have them. What each lane has of 8 columns of a
// Hadamard matrix of 16 and of the other 8, and minus these: a compiler that knows what they have
// in common copies registers for each product.
struct Tables {
    uint4 signs[kHadamard ? kHeadDim / kWidth : 1];
    uint4 factors[2][32];
};

__device__ __forceinline__ void make_tables(const facc_rounding &a, Tables &tables)
{
    unsigned *word = reinterpret_cast<unsigned *>(tables.signs);
    for (int i = threadIdx.x; i < kHeadDim / kWidth * 4; i += kThreads) {
        const int c = i * kWidth / 4;
        const unsigned bits = (unsigned)(a.signs[c >> 6] >> (c & 63));
        word[i] = kFromF32 ? bits << 31 : (bits & 1) << 15 | (bits & 2) << 30;
    }
    if (kProducts && threadIdx.x < 64) {
        constexpr unsigned kOnes = kFrom == kElementBf16 ? 0x3f803f80u : 0x3c003c00u;
        constexpr unsigned kMinus = 0x80008000u;
        const int t = threadIdx.x % 4, g = threadIdx.x / 4 % 8, minus = threadIdx.x / 32;
        const bool odd = (__popc(t & g / 2) + minus) % 2;
        const unsigned b = kOnes ^ (odd ? kMinus : 0) ^ (g % 2 ? 0x80000000u : 0);
        tables.factors[minus][threadIdx.x % 32] = uint4{b, b, b, b ^ kMinus};
    }
}

__device__ __forceinline__ void change_signs(const Tables &tables, const Place &at, Part &p)
{
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        const uint4 mask = tables.signs[at.column / kWidth + Place::offset(kWidth * j) / kWidth];
#pragma unroll
        for (int i = 0; i < kRows; i++) {
            uint4 &v = p.raw[i][j];
            v = uint4{v.x ^ mask.x, v.y ^ mask.y, v.z ^ mask.z, v.w ^ mask.w};
        }
    }
}

// Of a thread's own elements: those whose numbers differ in one bit, from kFirst to below kEnd.
template <int kFirst, int kEnd> __device__ __forceinline__ void butterflies(float (&x)[kElements])
{
#pragma unroll
    for (int step = kFirst; step < kEnd; step *= 2)
#pragma unroll
        for (int i = 0; i < kElements; i++)
            if (!(i & step)) {
                const float u = x[i], v = x[i + step];
                x[i] = u + v;
                x[i + step] = u - v;
            }
}

constexpr int kChain = kVectors < 4 ? kVectors : 4; // vectors that tensor cores sum
constexpr int kLast = kProducts ? 2 : 16;           // between the elements of the last sums

// Bits 0, 2, 3 and 4 of the columns' numbers, and those of a chain: a vector is an operand as it
// is, 8 rows of 16 columns with bit 1 clear, then 8 of those with bit 1 set. Its word i in lane t
// has columns 8 t + 2 i and 8 t + 2 i + 1; factors put what they become there again.
__device__ __forceinline__ void multiply(const Tables &tables, const uint4 (&v)[kVectors],
                                         float (&x)[kElements])
{
    constexpr bool kBf16 = kFrom == kElementBf16;
    const uint4 plus = tables.factors[0][threadIdx.x % 32];
    const uint4 minus = tables.factors[1][threadIdx.x % 32];
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        float y[2][4] = {};
#pragma unroll
        for (int i = 0; i < kChain; i++) {
            const uint4 &w = v[j / kChain * kChain + i], &b = (i & j) % 3 ? minus : plus;
            const unsigned a[4] = {w.x, w.y, w.z, w.w};
            mma_16816<kBf16>(y[0], a, b.x, b.y);
            mma_16816<kBf16>(y[1], a, b.z, b.w);
        }
#pragma unroll
        for (int e = 0; e < 8; e++)
            x[8 * j + e] = y[e / 4][e % 4];
    }
}

// Sums and differences of the elements whose columns differ in one bit, for each bit but one, which
// is between numbers e and e + kLast: that and the norm are left to the caller. From f32 in the
// order of the CPU, so that bits are the same.
__device__ __forceinline__ void most_of_hadamard(const Tables &tables, const Place &at,
                                                 const uint4 (&v)[kVectors], float (&x)[kElements])
{
    if constexpr (kProducts) {
        multiply(tables, v, x);
        butterflies<8 * kChain, kElements>(x);
    } else {
        unpack(v, x);
        butterflies<1, 16>(x);
#pragma unroll
        for (int bit = 1; bit < kLanes; bit *= 2) {
            const float sign = at.lane & bit ? -1.0f : 1.0f;
#pragma unroll
            for (int e = 0; e < kElements; e++) {
                const float other =
                    __uint_as_float(__shfl_xor_sync(0xffffffffu, __float_as_uint(x[e]), bit));
                x[e] = __fmaf_rn(x[e], sign, other); // exactly the sum, or the difference
            }
        }
    }
}

// ---- largest magnitudes ------------------------------------------------------------------------

constexpr float kMostFinite = 3.402823466e38f;

__device__ __forceinline__ float finite_magnitude(float x)
{
    const float m = fabsf(x);
    return m <= kMostFinite ? m : 0.0f; // neither infinite nor NaN
}

// Infinite where a value is; leaves out NaN.
__device__ __forceinline__ float quickly_largest(const float (&x)[kElements])
{
    float most = 0.0f;
#pragma unroll
    for (int e = 0; e < kElements; e++)
        most = fmaxf(most, fabsf(x[e]));
    return most;
}

__device__ __forceinline__ float largest_finite(const float (&x)[kElements])
{
    float most = 0.0f;
#pragma unroll
    for (int e = 0; e < kElements; e++)
        most = fmaxf(most, finite_magnitude(x[e]));
    return most;
}

struct Most {
    float amax;    // of those that are finite
    bool infinite; // others, too
};

__device__ __forceinline__ Most joined(const Most &m, const Most &n)
{
    return Most{fmaxf(m.amax, n.amax), m.infinite || n.infinite};
}

// As memory has it: negative, also -0, where some are infinite.
__device__ __forceinline__ float as_number(const Most &m)
{
    return m.infinite ? -m.amax : m.amax;
}

__device__ __forceinline__ Most from_number(float x)
{
    return Most{fabsf(x), __float_as_uint(x) >> 31 != 0};
}

// Of a thread's rows, without hadamard. Where some are infinite rows are loaded again: numbers of
// registers are no variables.
__device__ __forceinline__ Most largest(const facc_rounding &a, const Rows &r, const Place &at,
                                        const Part &p, const Mean &mean)
{
    float most = 0.0f, x[kElements];
    if constexpr (kMean || kFromF32) {
#pragma unroll
        for (int i = 0; i < kRows; i++) {
            values_of(p.raw[i], mean, x);
            const float m = quickly_largest(x);
            most = at.first + i < r.count ? fmaxf(most, m) : most;
        }
    } else {
        unsigned w = 0;
#pragma unroll
        for (int i = 0; i < kRows; i++) {
            w = largest_pair<kFrom == kElementBf16>(w, p.raw[i][0].x);
            w = largest_pair<kFrom == kElementBf16>(w, p.raw[i][0].y);
            w = largest_pair<kFrom == kElementBf16>(w, p.raw[i][0].z);
            w = largest_pair<kFrom == kElementBf16>(w, p.raw[i][0].w);
        }
        const uint4 both[kVectors] = {uint4{w, 0, 0, 0}};
        unpack(both, x);
        most = fmaxf(fabsf(x[0]), fabsf(x[1]));
    }
    if (most <= kMostFinite)
        return Most{most, false};
    most = 0.0f;
    Walk walk = walk_in(a, r, at);
#pragma unroll 1
    for (int i = 0; i < min(kRows, walk.left); i++) {
        uint4 v[kVectors];
        load_row(walk, i, v);
        values_of(v, mean, x);
        most = fmaxf(most, largest_finite(x));
    }
    return Most{most, true};
}

// As quantize_scale of runtime/quantize_args.c.
__device__ __forceinline__ float scale_of(const facc_rounding &a, float amax)
{
    float s = amax / (kTo == kElementE4m3 ? 448.0f : 57344.0f);
    if (amax == 0.0f)
        return 1.0f;
    s = s < 1.175494351e-38f ? 1.175494351e-38f : s;
    return a.power_of_two ? __uint_as_float((__float_as_uint(s) + 0x7fffffu) & 0xff800000u) : s;
}

__device__ __forceinline__ float *scale_at(const facc_rounding &a, int b, int h, int block)
{
    return a.scale + b * a.scale_stride[0] + h * a.scale_stride[1] + block * a.scale_stride[2];
}

// ---- codes -------------------------------------------------------------------------------------

// Infinities become NaN, as infinity times 0 is.
__device__ __forceinline__ void lose_infinities(float (&x)[kElements])
{
#pragma unroll
    for (int e = 0; e < kElements; e++)
        x[e] = __fmaf_rn(x[e], 0.0f, x[e]);
}

// The same of what is loaded.
__device__ __forceinline__ void lose_infinities(uint4 (&v)[kVectors])
{
    constexpr unsigned kInfinity = kFromF32                ? 0x7f800000u
                                   : kFrom == kElementBf16 ? 0x7f807f80u
                                                           : 0x7c007c00u;
    constexpr unsigned kLow = kFromF32 ? 0x7fffffffu : 0x7fffu, kHigh = kFromF32 ? 0 : 0x7fff0000u;
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        unsigned *w[4] = {&v[j].x, &v[j].y, &v[j].z, &v[j].w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const unsigned x = *w[i];
            *w[i] |= (x & kLow) == (kInfinity & kLow) ? 1 : 0;
            if (kHigh && (x & kHigh) == (kInfinity & kHigh))
                *w[i] |= 0x10000u;
        }
    }
}

// A norm that is a power of two joins the factor: where that is no more than 2^100, products that
// it makes subnormal become 0 either way. Behind tensor cores bits are free: any norm joins it.
__device__ __forceinline__ float join_norm(const facc_rounding &a, float factor,
                                           float (&x)[kElements])
{
    if (kProducts || ((kHeadDim == 64 || kHeadDim == 256) && factor <= 1.2676506e30f))
        return factor * a.norm;
#pragma unroll
    for (int e = 0; e < kElements; e++)
        x[e] *= a.norm;
    return factor;
}

// Of values that are finite or NaN, with means any.
__device__ __forceinline__ void codes_of(const float (&x)[kElements], float factor,
                                         unsigned (&codes)[kElements / 4])
{
#pragma unroll
    for (int k = 0; k < kElements / 4; k++) {
        float y[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            y[e] = x[4 * k + e] * factor;
            if constexpr (kMean)
                y[e] = __fmaf_rn(y[e], 0.0f, y[e]);
        }
        codes[k] = pack_fp8<kTo == kElementE4m3>(y);
    }
}

// Rows of out are at multiples of 16 bytes if D is one of 64, else of 8.
__device__ __forceinline__ void store_codes(unsigned char *to, const unsigned (&c)[kElements / 4])
{
    if constexpr (kElements == 4) {
        *reinterpret_cast<unsigned *>(to) = c[0];
    } else if constexpr (kElements == 8) {
        *reinterpret_cast<uint2 *>(to) = uint2{c[0], c[1]};
    } else {
#pragma unroll
        for (int k = 0; k < kElements / 4; k += 2)
            if (kGroup == 8 || kHeadDim % 64 != 0)
                *reinterpret_cast<uint2 *>(to + Place::offset(4 * k)) = uint2{c[k], c[k + 1]};
            else if (k % 4 == 0)
                *reinterpret_cast<uint4 *>(to + Place::offset(4 * k)) =
                    uint4{c[k], c[k + 1], c[k + 2], c[k + 3]};
    }
}

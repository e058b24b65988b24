// Parts of the kernels that round a tensor to FP8 (quantize.cu): which rows a CTA has, how its
// threads hold them, how they become bytes.
#pragma once
#include "common/fp8_image.cuh"
#include "common/quantize_args.h"
#include "common/quantize_ptx.cuh"
#include "facc_config.cuh"

constexpr int kLanes = facc_row_lanes(kHeadDim);    // of a warp to a row
constexpr int kWarpRows = 32 / kLanes;              // of a step; lanes behind have none
constexpr int kStepRows = facc_step_rows(kHeadDim); // of all warps
constexpr int kSlabRows = facc_slab_rows(kHeadDim); // the most that a CTA has
constexpr int kSteps = 2, kVectors = 4;             // of a thread: rows; 8 elements each
constexpr int kUnits = kSlabRows / 32;              // of rows that may be blocks

// ---- which rows --------------------------------------------------------------------------------

struct Rows {
    int b, h;
    int first, count; // of the sequence; none in gaps
    int length;       // of the sequence
    long long start;  // its first row in a packed tensor
    int unit;         // of the sequence
};

__device__ __forceinline__ int first_unit(const facc_rounding &a, int b)
{
    return a.cu_seqlens ? a.cu_seqlens[b] / a.unit + b : b * ((a.S + a.unit - 1) / a.unit);
}

__device__ __forceinline__ int length_of(const facc_rounding &a, int b)
{
    return a.cu_seqlens ? max(0, min(a.cu_seqlens[b + 1] - a.cu_seqlens[b], a.S)) : a.S;
}

__device__ __forceinline__ Rows rows_of(const facc_rounding &a, int id)
{
    Rows r;
    r.h = id / a.slabs;
    const int unit = id % a.slabs / a.parts, part = id % a.slabs % a.parts;
    int b = 0, end = a.B; // the last that begins at or before it
    while (end - b > 1) {
        const int middle = b + (end - b) / 2;
        if (first_unit(a, middle) <= unit)
            b = middle;
        else
            end = middle;
    }
    r.b = b;
    r.start = a.cu_seqlens ? a.cu_seqlens[b] : 0;
    r.length = length_of(a, b);
    r.unit = unit - first_unit(a, b);
    const long long first = (long long)r.unit * a.unit + part * a.slab;
    const long long last = min(first + a.slab, (long long)(r.unit + 1) * a.unit);
    r.first = (int)min(first, (long long)r.length);
    r.count = (int)min(last, (long long)r.length) - r.first;
    return r;
}

// Row i of the sequence.
__device__ __forceinline__ long long row_at(const facc_rounding &a, const long long (&stride)[3],
                                            const Rows &r, int i)
{
    return (a.cu_seqlens ? 0 : r.b) * stride[0] + r.h * stride[1] + (r.start + i) * stride[2];
}

// ---- elements ----------------------------------------------------------------------------------

// Eight, at a multiple of 16 bytes.
__device__ __forceinline__ void load_vector(const facc_rounding &a, long long at, float *x)
{
    if constexpr (kFrom == kElementF32) {
        const float4 *p = reinterpret_cast<const float4 *>(static_cast<const float *>(a.in) + at);
        const float4 low = p[0], high = p[1];
        x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
        x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
    } else {
        const uint4 v =
            *reinterpret_cast<const uint4 *>(static_cast<const unsigned short *>(a.in) + at);
        const unsigned w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if constexpr (kFrom == kElementBf16) {
                x[2 * i] = __uint_as_float(w[i] << 16);
                x[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
            } else {
                x[2 * i] = half_bits(w[i] & 0xffff);
                x[2 * i + 1] = half_bits(w[i] >> 16);
            }
        }
    }
}

__device__ __forceinline__ float finite_magnitude(float x)
{
    const float m = fabsf(x);
    return m <= 3.402823466e38f ? m : 0.0f; // neither infinite nor NaN
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

// ---- a thread's part of a slab -----------------------------------------------------------------

// Rows step * kStepRows + .. of the slab, in each 8 elements from 8 * (lane + kLanes * j) on.
struct Part {
    float x[kSteps][8 * kVectors];
    int row[kSteps]; // of the slab; -1: none
    int lane;        // of the row
    __device__ __forceinline__ int column(int j) const { return 8 * (lane + kLanes * j); }
};

// The signs of a thread's columns, a byte for each vector.
__device__ __forceinline__ unsigned signs_of(const facc_rounding &a, const Part &p)
{
    unsigned all = 0;
#pragma unroll
    for (int j = 0; j < kVectors; j++) {
        const int c = p.column(j) & 255;
        all |= (unsigned)(a.signs[c >> 6] >> (c & 63) & 0xff) << (8 * j);
    }
    return all;
}

// Of a thread's own elements: those whose numbers differ in one bit, from kFirst to below kEnd.
template <int kFirst, int kEnd>
__device__ __forceinline__ void butterflies(float (&x)[8 * kVectors])
{
#pragma unroll
    for (int step = kFirst; step < kEnd; step *= 2)
#pragma unroll
        for (int i = 0; i < 8 * kVectors; i++)
            if (!(i & step)) {
                const float u = x[i], v = x[i + step];
                x[i] = u + v;
                x[i + step] = u - v;
            }
}

// Sums and differences of the elements whose columns differ in one bit, bit by bit from the lowest:
// the order of the CPU, so that bits are the same.
__device__ __forceinline__ void hadamard(const facc_rounding &a, Part &p)
{
    const unsigned signs = signs_of(a, p);
#pragma unroll
    for (int s = 0; s < kSteps; s++) {
        float(&x)[8 * kVectors] = p.x[s];
#pragma unroll
        for (int i = 0; i < 8 * kVectors; i++)
            x[i] = __uint_as_float(__float_as_uint(x[i]) ^ (signs >> i & 1) << 31);
        butterflies<1, 8>(x);
#pragma unroll
        for (int bit = 1; bit < kLanes; bit *= 2)
#pragma unroll
            for (int i = 0; i < 8 * kVectors; i++) {
                const float other =
                    __uint_as_float(__shfl_xor_sync(0xffffffffu, __float_as_uint(x[i]), bit));
                x[i] = p.lane & bit ? other - x[i] : x[i] + other;
            }
        butterflies<8, 8 * kVectors>(x);
#pragma unroll
        for (int i = 0; i < 8 * kVectors; i++)
            x[i] *= a.norm;
    }
}

__device__ __forceinline__ void load_part(const facc_rounding &a, const Rows &r, Part &p)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    p.lane = lane % kLanes;
#pragma unroll
    for (int s = 0; s < kSteps; s++) {
        const int row = s * kStepRows + warp * kWarpRows + lane / kLanes;
        p.row[s] = lane < kLanes * kWarpRows && row < kSlabRows ? row : -1;
        const bool valid = p.row[s] >= 0 && row < r.count;
        const long long at = valid ? row_at(a, a.in_stride, r, r.first + row) : 0;
#pragma unroll
        for (int j = 0; j < kVectors; j++) {
#pragma unroll
            for (int e = 0; e < 8; e++)
                p.x[s][8 * j + e] = 0.0f;
            if (valid && p.column(j) < kHeadDim)
                load_vector(a, at + p.column(j), &p.x[s][8 * j]);
        }
    }
    if constexpr (kMean) {
        const float *mean = a.mean + r.b * a.mean_stride[0] + r.h * a.mean_stride[1];
#pragma unroll
        for (int j = 0; j < kVectors; j++)
            if (p.column(j) < kHeadDim)
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    const float m = mean[p.column(j) + e];
#pragma unroll
                    for (int s = 0; s < kSteps; s++)
                        if (p.row[s] >= 0 && p.row[s] < r.count)
                            p.x[s][8 * j + e] -= m;
                }
    }
    if constexpr (kHadamard)
        hadamard(a, p);
}

// fmaxf drops NaN; where an infinity is among them they are looked at once more.
__device__ __forceinline__ float largest(const Part &p, int s)
{
    float most = 0.0f;
#pragma unroll
    for (int i = 0; i < 8 * kVectors; i++)
        most = fmaxf(most, fabsf(p.x[s][i]));
    if (most <= 3.402823466e38f)
        return most;
    most = 0.0f;
#pragma unroll
    for (int i = 0; i < 8 * kVectors; i++)
        most = fmaxf(most, finite_magnitude(p.x[s][i]));
    return most;
}

// Eight codes; infinities become NaN, as infinity times 0 is.
__device__ __forceinline__ uint2 codes_of(const float *x, float factor)
{
    unsigned w[2];
#pragma unroll
    for (int k = 0; k < 2; k++) {
        float y[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float v = x[4 * k + e] * factor;
            y[e] = __fmaf_rn(v, 0.0f, v);
        }
        w[k] = pack_fp8<kTo == kElementE4m3>(y[0], y[1]) | pack_fp8<kTo == kElementE4m3>(y[2], y[3])
                                                               << 16;
    }
    return uint2{w[0], w[1]};
}

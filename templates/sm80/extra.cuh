// The extra columns of Q K^T (common/extra.cuh) in shared memory: behind the head dim's in the rows
// of Q and K.
#pragma once
#include "common/extra.cuh"
#include "common/mma.cuh"

constexpr int kStepsExtra = kExtraDim / 16;

// Rows of one of the two tensors, of a (b, h): that of position i begins stride * (first + i) bytes
// behind data, if there is one: the tensor has `extent`.
struct ExtraRows {
    const char *data;
    long long stride, step; // bytes from row to row, from element to element
    int first, extent;
    bool aligned; // rows may be read 16 bytes at a time

    // Those of positions from position0 on to dst, `pitch` bytes apart; what is none, or from
    // n_rows on, becomes zeros. By kCopyThreads threads.
    template <int kRows, int kCopyThreads>
    __device__ __forceinline__ void start(unsigned dst, int pitch, int position0, int n_rows) const
    {
        constexpr int kUnits = kExtraDim / 8; // of 16 bytes
#pragma unroll
        for (int i = 0; i < kRows * kUnits; i += kCopyThreads) {
            const int at = i + threadIdx.x % kCopyThreads, row = at / kUnits, unit = at % kUnits;
            const int position = position0 + row, index = first + position;
            if (kRows * kUnits % kCopyThreads != 0 && at >= kRows * kUnits)
                break;
            const bool valid = position < n_rows && index >= 0 && index < extent;
            const char *from = data + index * stride + 8 * unit * step;
            const unsigned to = dst + row * pitch + 16 * unit;
            if (aligned)
                cp_async_16_or_zero(to, valid ? from : data, valid);
            else
                copy_elements(to, from, valid);
        }
    }

  private:
    // The slow way, for pointers and strides that are not multiples of 16 bytes.
    __device__ __forceinline__ void copy_elements(unsigned to, const char *from, bool valid) const
    {
#pragma unroll 1
        for (int i = 0; i < 8; ++i) {
            unsigned short v = 0;
            if (valid)
                v = *reinterpret_cast<const unsigned short *>(from + i * step);
            store_shared(to + 2 * i, v);
        }
    }
};

// What the CTA's description keeps of them.
template <bool kThere, class V> struct ExtraWork {
    __device__ __forceinline__ void find_extra(const KernelArgs &, const Variant::Tile &) {}
    __device__ __forceinline__ float factor() const { return 1.0f; }
};
template <class V> struct ExtraWork<true, V> {
    ExtraRows rows_of_q, rows_of_k;
    float factor_;

    template <class Args>
    __device__ __forceinline__ void find_extra(const Args &args, const Variant::Tile &t)
    {
        find_rows<typename V::DotRows>(args, t, rows_of_q);
        find_rows<typename V::DotCols>(args, t, rows_of_k);
        factor_ = extra_factor<V>(args, t);
    }
    __device__ __forceinline__ float factor() const { return factor_; }

  private:
    template <class Side, class Args>
    static __device__ __forceinline__ void find_rows(const Args &args, const Variant::Tile &t,
                                                     ExtraRows &r)
    {
        const auto &x = args.tensors[Side::kTensor];
        const ExtraPlace p = extra_place<Side>(args, t);
        long long offset = 0;
        int n = 0;
#pragma unroll
        for (int d = 0; d < Side::kRank - 1; ++d)
            if (d != Side::kDim)
                offset += p.other[n++] * x.stride[d];
        r.data = static_cast<const char *>(x.data) + 2 * offset;
        r.stride = 2 * x.stride[Side::kDim];
        r.step = 2 * x.stride[Side::kRank - 1];
        r.first = p.position;
        r.extent = x.data ? x.shape[Side::kDim] : 0;
        r.aligned =
            x.data && r.step == 2 && ((reinterpret_cast<long long>(r.data) | r.stride) & 15) == 0;
    }
};

// Copies them; nothing where there are none. q: of Q, else of K.
template <bool kOfQ, int kRows, int kCopyThreads, class W>
__device__ __forceinline__ void start_extra(const W &w, unsigned dst, int pitch, int position0,
                                            int n_rows)
{
    if constexpr (kExtraDim > 0) {
        if constexpr (kOfQ)
            w.rows_of_q.template start<kRows, kCopyThreads>(dst, pitch, position0, n_rows);
        else
            w.rows_of_k.template start<kRows, kCopyThreads>(dst, pitch, position0, n_rows);
    }
}

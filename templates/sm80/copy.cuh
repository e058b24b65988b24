// Global to shared memory: tiles of 16-bit rows, zero-filled beyond the last valid row and beyond
// the head dim, so that neither padding nor what lies behind a sequence's end can bring in a NaN.
#pragma once

#include "sm80/shape.cuh"

// kPitch: bytes from one shared row to the next. The 16-byte units of a row are spread over kLanes
// threads (a power of two, some idle), so that a thread keeps its column and only its row pointer
// moves.
template <int kRows, int kCols, int kCopyThreads, int kPitch> class TileCopy
{
    static constexpr int kUnits = round_up(kCols, 16) / 8;
    static constexpr int kLanes = kUnits <= 2    ? 2
                                  : kUnits <= 4  ? 4
                                  : kUnits <= 8  ? 8
                                  : kUnits <= 16 ? 16
                                                 : 32;
    static constexpr int kRowsAtOnce = kCopyThreads / kLanes;
    static constexpr int kBytes = kPitch; // of a shared row

  public:
    // base, stride (bytes): the matrix; aligned: rows may be read 16 bytes at a time.
    __device__ __forceinline__ TileCopy(const char *base, long long stride, bool aligned)
        : base_(base), stride_(stride), aligned_(aligned)
    {
    }

    // Rows row0 .. row0 + kRows - 1 to dst; rows >= n_rows become zeros.
    __device__ __forceinline__ void start(unsigned dst, int row0, int n_rows) const
    {
        if (!aligned_)
            copy_elements(dst, row0, n_rows);
        else if (row0 + kRows <= n_rows && kRows % kRowsAtOnce == 0)
            copy_units<false>(dst, row0, n_rows);
        else
            copy_units<true>(dst, row0, n_rows);
    }

  private:
    template <bool kTail>
    __device__ __forceinline__ void copy_units(unsigned dst, int row0, int n_rows) const
    {
        const int unit = threadIdx.x % kLanes, row = threadIdx.x % kCopyThreads / kLanes;
        if (kUnits < kLanes && unit >= kUnits)
            return;
        const bool in_row = kCols % 16 == 0 || unit < kCols / 8;
        const char *src = base_ + (row0 + row) * stride_ + 16 * unit;
        dst += row * kBytes + 16 * unit;
#pragma unroll
        for (int i = 0; i < kRows; i += kRowsAtOnce) {
            if (kRows % kRowsAtOnce != 0 && row + i >= kRows)
                break;
            const bool valid = in_row && (!kTail || row0 + row + i < n_rows);
            if (kTail || kCols % 16 != 0)
                cp_async_16_or_zero(dst + i * kBytes, valid ? src : base_, valid);
            else
                cp_async_16(dst + i * kBytes, src);
            src += kRowsAtOnce * stride_;
        }
    }

    // The slow way, for pointers and strides that are not multiples of 16 bytes.
    __device__ __forceinline__ void copy_elements(unsigned dst, int row0, int n_rows) const
    {
#pragma unroll 1
        for (int i = threadIdx.x % kCopyThreads; i < kRows * kUnits * 8; i += kCopyThreads) {
            const int row = i / (kUnits * 8), col = i % (kUnits * 8);
            unsigned short v = 0;
            if (col < kCols && row0 + row < n_rows)
                v = *reinterpret_cast<const unsigned short *>(base_ + (row0 + row) * stride_ +
                                                              2 * col);
            store_shared(dst + row * kBytes + 2 * col, v);
        }
    }

    const char *base_;
    long long stride_;
    bool aligned_;
};

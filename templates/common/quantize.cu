// The unit of the kernels that round a tensor to FP8 (facc_quantizer in runtime/quantize.c): in
// their order, of which a launch takes those that it needs.
//
//   kernel                if                            CTAs             reads         gives
//   facc_quantize_sums    kMean                         one per slab     the tensor    sums
//   facc_quantize_mean    kMean                         one per (b, h)   sums          mean, amax
//   of heads facc_quantize_amax    not fused; kMean: blocks      one per slab     the tensor amax
//   of slabs facc_quantize_scale   not fused                     one per scale    amax scale
//   facc_quantize_round   always                        one per slab     the tensor    out, image,
//   scale
#include "common/quantize.cuh"

// The largest of all threads', for the first one.
template <int kThreads> __device__ __forceinline__ float largest_of_all(float x)
{
    __shared__ float most[kThreads / 32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
    for (int bit = 16; bit > 0; bit /= 2)
        x = fmaxf(x, __uint_as_float(__shfl_xor_sync(0xffffffffu, __float_as_uint(x), bit)));
    if (lane == 0)
        most[warp] = x;
    __syncthreads();
    for (int i = 0; i < kThreads / 32 && threadIdx.x == 0; i++)
        x = fmaxf(x, most[i]);
    return x;
}

#ifdef FACC_QUANTIZE_MEAN
// ---- means -------------------------------------------------------------------------------------

constexpr int kRowVectors = kHeadDim / 8;
constexpr int kRowThreads = FACC_QUANTIZE_THREADS / kRowVectors; // rows side by side
constexpr int kSegments = FACC_REDUCE_THREADS / kHeadDim;        // of slabs, side by side

__device__ __forceinline__ float infinity()
{
    return __uint_as_float(0x7f800000u);
}

// Of a channel's finite values.
struct Channel {
    float sum, most, least;
    // Rightly if all are finite; else the sum is not.
    __device__ __forceinline__ void add_quickly(float x)
    {
        sum += x;
        most = fmaxf(most, x);
        least = fminf(least, x);
    }
    __device__ __forceinline__ void add(float x)
    {
        const bool finite = fabsf(x) <= 3.402823466e38f;
        sum += finite ? x : 0.0f;
        most = finite ? fmaxf(most, x) : most;
        least = finite ? fminf(least, x) : least;
    }
    __device__ __forceinline__ void join(const Channel &c)
    {
        sum += c.sum;
        most = fmaxf(most, c.most);
        least = fminf(least, c.least);
    }
};

// A thread's rows of eight channels. False: quickly, and some are not finite.
template <bool kQuickly>
__device__ __forceinline__ bool add_rows(const facc_rounding &a, const Rows &r, int thread,
                                         int column, Channel (&c)[8])
{
#pragma unroll
    for (int e = 0; e < 8; e++)
        c[e] = Channel{0.0f, -infinity(), infinity()};
#pragma unroll 4
    for (int i = thread; i < r.count; i += kRowThreads) {
        float x[8];
        load_vector(a, row_at(a, a.in_stride, r, r.first + i) + column, x);
#pragma unroll
        for (int e = 0; e < 8; e++)
            if constexpr (kQuickly)
                c[e].add_quickly(x[e]);
            else
                c[e].add(x[e]);
    }
    bool finite = true;
#pragma unroll
    for (int e = 0; e < 8; e++)
        finite = finite && fabsf(c[e].sum) <= 3.402823466e38f;
    return finite || !kQuickly;
}

extern "C" __global__ void __launch_bounds__(FACC_QUANTIZE_THREADS)
    facc_quantize_sums(const __grid_constant__ facc_rounding a)
{
    __shared__ Channel part[kRowThreads][kHeadDim];
    const Rows r = rows_of(a, blockIdx.x);
    const int column = threadIdx.x % kRowVectors * 8, thread = threadIdx.x / kRowVectors;
    if (thread < kRowThreads) {
        Channel c[8];
        if (!add_rows<true>(a, r, thread, column, c))
            add_rows<false>(a, r, thread, column, c);
#pragma unroll
        for (int e = 0; e < 8; e++)
            part[thread][column + e] = c[e];
    }
    __syncthreads();
    for (int d = threadIdx.x; d < kHeadDim; d += FACC_QUANTIZE_THREADS) {
        Channel c = part[0][d];
        for (int i = 1; i < kRowThreads; i++)
            c.join(part[i][d]);
        const long long all = (long long)a.H * a.slabs * kHeadDim;
        float *to = a.sums + (long long)blockIdx.x * kHeadDim + d;
        to[0] = c.sum;
        to[all] = c.most;
        to[2 * all] = c.least;
    }
}

// In segments of slabs, which are joined in order. Largest magnitudes of heads come from the
// largest and the least values: rounding is monotone.
extern "C" __global__ void __launch_bounds__(FACC_REDUCE_THREADS)
    facc_quantize_mean(const __grid_constant__ facc_rounding a)
{
    __shared__ double sums[kSegments][kHeadDim];
    __shared__ float most[kSegments][kHeadDim], least[kSegments][kHeadDim];
    const int b = blockIdx.x / a.H, h = blockIdx.x % a.H;
    const int d = threadIdx.x % kHeadDim, segment = threadIdx.x / kHeadDim;
    const int length = length_of(a, b);
    const int count = (length + a.unit - 1) / a.unit * a.parts;
    const int each = (count + kSegments - 1) / kSegments;
    const long long all = (long long)a.H * a.slabs * kHeadDim;
    const float *from =
        a.sums + ((long long)h * a.slabs + (long long)first_unit(a, b) * a.parts) * kHeadDim + d;
    if (segment < kSegments) {
        double sum = 0;
        float high = -infinity(), low = infinity();
#pragma unroll 4
        for (int i = segment * each; i < min(count, (segment + 1) * each); i++) {
            const float *at = from + (long long)i * kHeadDim;
            sum += at[0];
            high = fmaxf(high, at[all]);
            low = fminf(low, at[2 * all]);
        }
        sums[segment][d] = sum;
        most[segment][d] = high;
        least[segment][d] = low;
    }
    __syncthreads();
    float amax = 0.0f;
    if (threadIdx.x < kHeadDim) {
        double sum = 0;
        float high = -infinity(), low = infinity();
        for (int i = 0; i < kSegments; i++) {
            sum += sums[i][d];
            high = fmaxf(high, most[i][d]);
            low = fminf(low, least[i][d]);
        }
        float mean = length > 0 ? (float)(sum / length) : 0.0f;
        mean = fabsf(mean) <= 3.402823466e38f ? mean : 0.0f; // sums were infinite
        a.mean[b * a.mean_stride[0] + h * a.mean_stride[1] + d] = mean;
        if (high >= low)
            amax = fmaxf(finite_magnitude(high - mean), finite_magnitude(low - mean));
    }
    amax = largest_of_all<FACC_REDUCE_THREADS>(amax);
    if (threadIdx.x == 0 && a.block == 0)
        a.amax[blockIdx.x] = amax;
}

#endif // FACC_QUANTIZE_MEAN

// ---- scales ------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(FACC_QUANTIZE_THREADS, kMean ? 2 : 3)
    facc_quantize_amax(const __grid_constant__ facc_rounding a)
{
    const Rows r = rows_of(a, blockIdx.x);
    Part p;
    load_part(a, r, p);
    float most = 0.0f;
#pragma unroll
    for (int s = 0; s < kSteps; s++)
        most = fmaxf(most, largest(p, s));
    most = largest_of_all<FACC_QUANTIZE_THREADS>(most);
    if (threadIdx.x == 0)
        a.amax[blockIdx.x] = most;
}

// One for all, for each (b, h), for each block of it.
extern "C" __global__ void __launch_bounds__(FACC_REDUCE_THREADS)
    facc_quantize_scale(const __grid_constant__ facc_rounding a)
{
    const bool of_heads = kMean && a.block == 0; // amax has one for each
    const int blocks = a.block ? (a.S + a.block - 1) / a.block : 1;
    const int block = blockIdx.x % blocks, bh = blockIdx.x / blocks;
    const int b = bh / a.H, h = bh % a.H;
    int first = bh, count = 1;
    if (a.per_tensor) {
        first = 0;
        count = of_heads ? a.B * a.H : a.H * a.slabs;
    } else if (!of_heads) {
        const int units = (length_of(a, b) + a.unit - 1) / a.unit;
        first = h * a.slabs + (first_unit(a, b) + block) * a.parts;
        count = a.block ? (block < units ? a.parts : 0) : units * a.parts;
    }
    float most = 0.0f;
    for (int i = threadIdx.x; i < count; i += FACC_REDUCE_THREADS)
        most = fmaxf(most, a.amax[first + i]);
    most = largest_of_all<FACC_REDUCE_THREADS>(most);
    if (threadIdx.x == 0)
        *scale_at(a, b, h, block) = scale_of(a, most);
}

// ---- rounding ----------------------------------------------------------------------------------

// The scale of a row of the slab, in blocks of the slab itself; its first thread writes it.
__device__ __forceinline__ float fused_scale(const facc_rounding &a, const Rows &r, int row,
                                             bool writes, const unsigned (&unit_amax)[kUnits])
{
    const int block = row / a.block;
    float most = 0.0f;
    for (int i = 0; i < a.block / 32; i++)
        most = fmaxf(most, __uint_as_float(unit_amax[block * (a.block / 32) + i]));
    const float s = scale_of(a, most);
    if (writes && row % a.block == 0)
        *scale_at(a, r.b, r.h, r.first / a.block + block) = s;
    return s;
}

// Blocks behind a packed sequence's last row: scales that nobody needs are 1.
__device__ __forceinline__ void fill_scales(const facc_rounding &a, const Rows &r)
{
    const int blocks = (a.S + a.block - 1) / a.block;
    const int used = (r.length + a.block - 1) / a.block;
    for (int i = used + threadIdx.x; i < blocks; i += FACC_QUANTIZE_THREADS)
        *scale_at(a, r.b, r.h, i) = 1.0f;
}

constexpr int kTileStride = kHeadDim / 4 + 1; // words of a row in shared memory: the halves of a
                                              // chunk are in other banks

// The chunks of a slab, and those of zeros behind a sequence.
__device__ __forceinline__ void store_image(const facc_rounding &a, const Rows &r,
                                            const unsigned *tile)
{
    constexpr int kQuads = kHeadDim / 4;
    const bool last = r.first + r.count == r.length;
    const int own = (r.count + FACC_V_CHUNK - 1) / FACC_V_CHUNK;
    const int chunks = own + (last ? FACC_V_PAD : 0);
    const long long first =
        r.first / FACC_V_CHUNK + (a.cu_seqlens ? facc_v_chunk(r.start, r.b) : 0);
    unsigned char *to = a.image + (a.cu_seqlens ? 0 : r.b) * a.image_stride[0] +
                        r.h * a.image_stride[1] + first * (FACC_V_CHUNK * kHeadDim);
    for (int job = threadIdx.x; job < chunks * 2 * kQuads; job += FACC_QUANTIZE_THREADS) {
        const int half = job & 1, quad = (job >> 1) % kQuads, chunk = (job >> 1) / kQuads;
        unsigned words[16];
#pragma unroll
        for (int p = 0; p < 16; p++) {
            const int row = 32 * chunk + 16 * half + token_at(p);
            words[p] = chunk < own ? tile[row * kTileStride + quad] : 0;
        }
        store_quad(to + chunk * (FACC_V_CHUNK * kHeadDim), half, quad, words);
    }
}

// A row's codes. In pairs of lanes, 16 bytes each: the even one those of both in one vector, the
// other in the next, so that stores fill sectors. to: 0 for none.
__device__ __forceinline__ void store_codes(const Part &p, unsigned char *to,
                                            const uint2 (&codes)[kVectors])
{
    if constexpr (kHeadDim == 64 || kHeadDim == 128 || kHeadDim == 256) {
        const bool odd = p.lane & 1;
#pragma unroll
        for (int j = 0; j < kVectors; j += 2) {
            const uint2 mine = odd ? codes[j + 1] : codes[j];
            const uint2 other = odd ? codes[j] : codes[j + 1];
            const unsigned x = __shfl_xor_sync(0xffffffffu, other.x, 1);
            const unsigned y = __shfl_xor_sync(0xffffffffu, other.y, 1);
            const int column = odd ? p.column(j + 1) - 8 : p.column(j);
            if (to)
                *reinterpret_cast<uint4 *>(to + column) =
                    odd ? uint4{x, y, mine.x, mine.y} : uint4{mine.x, mine.y, x, y};
        }
    } else {
#pragma unroll
        for (int j = 0; j < kVectors; j++)
            if (to && p.column(j) < kHeadDim)
                *reinterpret_cast<uint2 *>(to + p.column(j)) = codes[j];
    }
}

// Three CTAs to a multiprocessor: one loads while others wait for each other's threads.
extern "C" __global__ void __launch_bounds__(FACC_QUANTIZE_THREADS, 3)
    facc_quantize_round(const __grid_constant__ facc_rounding a)
{
    __shared__ unsigned unit_amax[kUnits];
    __shared__ unsigned tile[kImage ? kSlabRows * kTileStride : 1];
    const Rows r = rows_of(a, blockIdx.x);
    const bool begins = r.unit == 0 && r.first == 0 && blockIdx.x % a.slabs % a.parts == 0;
    if (a.fused && begins)
        fill_scales(a, r);
    if (r.count <= 0 && !(begins && r.length == 0))
        return; // a gap
    for (int i = threadIdx.x; i < kUnits; i += FACC_QUANTIZE_THREADS)
        unit_amax[i] = 0;
    Part p;
    load_part(a, r, p);
    __syncthreads();
    if (a.fused) {
#pragma unroll
        for (int s = 0; s < kSteps; s++)
            if (p.row[s] >= 0)
                atomicMax(&unit_amax[p.row[s] / 32], __float_as_uint(largest(p, s)));
        __syncthreads();
    }
#pragma unroll
    for (int s = 0; s < kSteps; s++) {
        const int row = p.row[s];
        if (row < 0)
            continue;
        const bool valid = row < r.count;
        float factor = 0.0f;
        if (valid)
            factor = 1.0f / (a.fused ? fused_scale(a, r, row, p.lane == 0, unit_amax)
                                     : *scale_at(a, r.b, r.h, a.block ? r.unit : 0));
        const long long at = valid && a.out ? row_at(a, a.out_stride, r, r.first + row) : 0;
        uint2 codes[kVectors];
#pragma unroll
        for (int j = 0; j < kVectors; j++) {
            if (p.column(j) >= kHeadDim)
                continue;
            codes[j] = valid ? codes_of(&p.x[s][8 * j], factor) : uint2{0, 0};
            if constexpr (kImage) {
                unsigned *to = tile + row * kTileStride + p.column(j) / 4;
                to[0] = codes[j].x;
                to[1] = codes[j].y;
            }
        }
        store_codes(p, valid && a.out ? a.out + at : 0, codes);
    }
    if constexpr (kImage) {
        __syncthreads();
        store_image(a, r, tile);
    }
}

// The unit of the kernels that round a tensor to FP8 (facc_quantizer in runtime/quantize.c): in
// their order, of which a launch takes those that it needs.
//
// clang-format off
//   kernel                if                           CTAs             reads         gives
//   facc_quantize_sums    kMean                        one per slab     the tensor    sums
//   facc_quantize_mean    kMean                        one per (b, h)   sums          mean; without blocks
//                                                                                     scale or amax of heads
//   facc_quantize_amax    not fused; kMean: blocks     ctas             the tensor    amax of slabs
//   facc_quantize_scale   not fused; kMean: not heads  one per scale    amax          scale
//   facc_quantize_round   always                       ctas             the tensor    out, image, scale
// clang-format on
#include "common/quantize.cuh"

// Of all threads, for the first one. turn: 0 and 1 by turns if there are more calls.
template <int kAll> __device__ __forceinline__ Most largest_of_all(Most m, int turn)
{
    __shared__ float most[2][kAll / 32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const float x = __uint_as_float(__reduce_max_sync(0xffffffffu, (int)__float_as_uint(m.amax)));
    const bool infinite = __any_sync(0xffffffffu, m.infinite);
    if (lane == 0)
        most[turn][warp] = as_number(Most{x, infinite});
    __syncthreads();
    Most all{0.0f, false};
    for (int i = 0; i < kAll / 32 && threadIdx.x == 0; i++)
        all = joined(all, from_number(most[turn][i]));
    return all;
}

#ifdef FACC_QUANTIZE_MEAN
// ---- means -------------------------------------------------------------------------------------

constexpr int kSegments = FACC_REDUCE_THREADS / kHeadDim; // of slabs, side by side

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

__device__ __forceinline__ void clear(Channel (&c)[kElements])
{
#pragma unroll
    for (int e = 0; e < kElements; e++)
        c[e] = Channel{0.0f, -infinity(), infinity()};
}

// Of a thread's rows. False: some are not finite.
__device__ __forceinline__ bool add_quickly(const Rows &r, const Place &at, const Part &p,
                                            Channel (&c)[kElements])
{
    clear(c);
#pragma unroll
    for (int i = 0; i < kRows; i++) {
        float x[kElements];
        unpack(p.raw[i], x);
        if (at.first + i < r.count)
#pragma unroll
            for (int e = 0; e < kElements; e++)
                c[e].add_quickly(x[e]);
    }
    bool finite = true;
#pragma unroll
    for (int e = 0; e < kElements; e++)
        finite = finite && fabsf(c[e].sum) <= kMostFinite;
    return finite;
}

// Rows are loaded again: numbers of registers are no variables.
__device__ __forceinline__ void add_finite(const facc_rounding &a, const Rows &r, const Place &at,
                                           Channel (&c)[kElements])
{
    clear(c);
    Walk walk = walk_in(a, r, at);
#pragma unroll 1
    for (int i = 0; i < min(kRows, walk.left); i++) {
        uint4 v[kVectors];
        float x[kElements];
        load_row(walk, i, v);
        unpack(v, x);
#pragma unroll
        for (int e = 0; e < kElements; e++)
            c[e].add(x[e]);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 512 / kThreads)
    facc_quantize_sums(const __grid_constant__ facc_rounding a)
{
    __shared__ Channel part[kUnits * 2][kHeadDim];
    const Rows r = rows_of(a, blockIdx.x);
    const Place at = place_of(threadIdx.x);
    Part p;
    load_part(a, r, at, p);
    if (at.first < kSlabRows) {
        Channel c[kElements];
        if (!add_quickly(r, at, p, c))
            add_finite(a, r, at, c);
#pragma unroll
        for (int e = 0; e < kElements; e++)
            part[at.first / 16][at.column + e] = c[e];
    }
    __syncthreads();
    for (int d = threadIdx.x; d < kHeadDim; d += kThreads) {
        Channel c = part[0][d];
        for (int i = 1; i < kUnits * 2; i++)
            c.join(part[i][d]);
        const long long all = (long long)a.all * kHeadDim;
        float *to = a.sums + (long long)blockIdx.x * kHeadDim + d;
        to[0] = c.sum;
        if (a.block == 0) {
            to[all] = c.most;
            to[2 * all] = c.least;
        }
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
    const long long all = (long long)a.all * kHeadDim;
    const float *from =
        a.sums + ((long long)h * a.slabs + (long long)first_unit(a, b) * a.parts) * kHeadDim + d;
    if (segment < kSegments) {
        double sum = 0;
        float high = -infinity(), low = infinity();
#pragma unroll 4
        for (int i = segment * each; i < min(count, (segment + 1) * each); i++) {
            const float *at = from + (long long)i * kHeadDim;
            sum += at[0];
            if (a.block == 0) {
                high = fmaxf(high, at[all]);
                low = fminf(low, at[2 * all]);
            }
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
    if (a.block)
        return;
    amax = largest_of_all<FACC_REDUCE_THREADS>(Most{amax, false}, 0).amax;
    if (threadIdx.x == 0 && a.per_tensor)
        a.amax[blockIdx.x] = amax;
    else if (threadIdx.x == 0)
        *scale_at(a, b, h, 0) = scale_of(a, amax);
}

#endif // FACC_QUANTIZE_MEAN

// ---- scales ------------------------------------------------------------------------------------

// The last butterfly only: the larger magnitude of sum and difference is the magnitudes' sum.
__device__ __forceinline__ Most largest_behind_hadamard(const facc_rounding &a,
                                                        float (&x)[kElements])
{
    float most = 0.0f;
#pragma unroll
    for (int e = 0; e < kElements; e++)
        if (!(e & kLast))
            most = fmaxf(most, fabsf(x[e]) + fabsf(x[e + kLast]));
    if (most <= kMostFinite)
        return Most{most * a.norm, false};
    butterflies<kLast, 2 * kLast>(x);
    return Most{largest_finite(x) * a.norm, true};
}

extern "C" __global__ void __launch_bounds__(kThreads, kAmaxCtas)
    facc_quantize_amax(const __grid_constant__ facc_rounding a)
{
    __shared__ Tables tables;
    __shared__ Rows plan[kPlan];
    const Place at = place_of(threadIdx.x);
    const Rows r = rows_of(a, blockIdx.x);
    const Mean mean = mean_of(a, r, at);
    Part p;
    load_part(a, r, at, p);
    if constexpr (kHadamard) {
        make_plan(a, false, plan);
        make_tables(a, tables);
        __syncthreads();
    }
    int id = blockIdx.x, turn = 0;
    do {
        Most m{0.0f, false};
        if constexpr (kHadamard) {
            const Rows &after = plan[turn + 1];
            change_signs(tables, at, p);
            Walk walk = walk_in(a, after, at);
#pragma unroll
            for (int i = 0; i < kRows; i++) {
                float x[kElements];
                most_of_hadamard(tables, at, p.raw[i], x);
                load_row(walk, i, p.raw[i]);
                m = joined(m, largest_behind_hadamard(a, x));
            }
        } else {
            m = largest(a, r, at, p, mean);
        }
        m = largest_of_all<kThreads>(m, turn & 1);
        if (threadIdx.x == 0)
            a.amax[id] = as_number(m);
        id += a.ctas;
        turn++;
    } while (kHadamard && id < a.all);
}

// One for all, for each (b, h), for each block of it.
extern "C" __global__ void __launch_bounds__(FACC_REDUCE_THREADS)
    facc_quantize_scale(const __grid_constant__ facc_rounding a)
{
    const bool of_heads = kMean && a.block == 0; // amax has one for each
    const int blocks = a.block ? (a.S + a.block - 1) / a.block : 1;
    const int block = blockIdx.x % blocks, bh = blockIdx.x / blocks;
    const int b = bh / a.H, h = bh % a.H;
    int first = 0, count = of_heads ? a.B * a.H : a.all;
    if (!a.per_tensor) {
        const int units = (length_of(a, b) + a.unit - 1) / a.unit;
        first = h * a.slabs + (first_unit(a, b) + block) * a.parts;
        count = a.block ? (block < units ? a.parts : 0) : units * a.parts;
    }
    Most m{0.0f, false};
    for (int i = threadIdx.x; i < count; i += FACC_REDUCE_THREADS)
        m = joined(m, from_number(a.amax[first + i]));
    m = largest_of_all<FACC_REDUCE_THREADS>(m, 0);
    if (threadIdx.x == 0)
        *scale_at(a, b, h, block) = scale_of(a, m.amax);
}

// ---- scales of blocks in the slab --------------------------------------------------------------

// Blocks behind a packed sequence's last row: scales that nobody needs are 1.
__device__ __forceinline__ void fill_scales(const facc_rounding &a, const Rows &r)
{
    const int blocks = (a.S + a.block - 1) / a.block;
    const int used = (length_of(a, r.b) + a.block - 1) / a.block;
#pragma unroll 1
    for (int i = used + threadIdx.x; i < blocks; i += kThreads)
        *scale_at(a, r.b, r.h, i) = 1.0f;
}

// All threads call it: a warp's are of one unit, with hadamard, or of some in sequence.
__device__ __forceinline__ void join_amax(unsigned (&unit_amax)[kUnits], int unit, float amax)
{
    const int mine = (int)__float_as_uint(amax);
    if constexpr (kHadamard) {
        const int most = __reduce_max_sync(0xffffffffu, mine);
        if ((threadIdx.x & 31) == 0)
            atomicMax(&unit_amax[unit], (unsigned)most);
    } else {
        const int pair = threadIdx.x / 32 * 16;
        const int last = min((pair + 15) / kColumns, kUnits - 1);
#pragma unroll 1
        for (int u = pair / kColumns; u <= last; u++) {
            const int most = __reduce_max_sync(0xffffffffu, u == unit ? mine : 0);
            if ((threadIdx.x & 31) == 0)
                atomicMax(&unit_amax[u], (unsigned)most);
        }
    }
}

// A thread for each unit: its block's scale and one over it.
__device__ __forceinline__ void scale_units(const facc_rounding &a, const Rows &r,
                                            const unsigned (&unit_amax)[kUnits],
                                            float (&unit_factor)[kUnits])
{
    const int unit = threadIdx.x, units = a.block / 32;
    if (unit >= a.slab / 32)
        return;
    const int block = unit / units;
    float most = 0.0f;
#pragma unroll 1
    for (int i = 0; i < units; i++)
        most = fmaxf(most, __uint_as_float(unit_amax[block * units + i]));
    const float s = scale_of(a, most);
    unit_factor[unit] = 1.0f / s;
    if (unit % units == 0 && 32 * unit < r.count)
        *scale_at(a, r.b, r.h, r.first / a.block + block) = s;
}

// ---- rounding ----------------------------------------------------------------------------------

constexpr int kTileStride = kHeadDim / 4 + 1; // words of a row in shared memory: the halves of a
                                              // chunk are in other banks

// The slab's first chunk.
__device__ __forceinline__ unsigned char *image_at(const facc_rounding &a, const Rows &r)
{
    const long long first =
        r.first / FACC_V_CHUNK + (a.cu_seqlens ? facc_v_chunk(a.cu_seqlens[r.b], r.b) : 0);
    return a.image + (a.cu_seqlens ? 0 : r.b) * a.image_stride[0] + r.h * a.image_stride[1] +
           first * (FACC_V_CHUNK * kHeadDim);
}

// Zeros behind a sequence.
__device__ __forceinline__ void pad_image(const facc_rounding &a, const Rows &r, unsigned char *to,
                                          int chunks)
{
    constexpr int kBytes = FACC_V_CHUNK * kHeadDim;
    if (r.first + r.count == length_of(a, r.b))
#pragma unroll 1
        for (int i = threadIdx.x * 16; i < FACC_V_PAD * kBytes; i += kThreads * 16)
            *reinterpret_cast<uint4 *>(to + chunks * kBytes + i) = uint4{0, 0, 0, 0};
}

// With hadamard a thread has too few rows: they meet in shared memory.
__device__ __forceinline__ void store_tile(unsigned char *to, int chunks, const unsigned *tile)
{
    constexpr int kQuads = kHeadDim / 4;
    for (int job = threadIdx.x; job < chunks * 2 * kQuads; job += kThreads) {
        const int half = job & 1, quad = (job >> 1) % kQuads, chunk = (job >> 1) / kQuads;
        unsigned words[16];
#pragma unroll
        for (int p = 0; p < 16; p++)
            words[p] = tile[(32 * chunk + 16 * half + token_at(p)) * kTileStride + quad];
        store_quad(to + chunk * (FACC_V_CHUNK * kHeadDim), half, quad, words);
    }
}

__device__ __forceinline__ void finish_image(const facc_rounding &a, const Rows &r,
                                             const unsigned *tile)
{
    const int chunks = (r.count + FACC_V_CHUNK - 1) / FACC_V_CHUNK;
    unsigned char *to = image_at(a, r);
    if constexpr (kHadamard) {
        __syncthreads();
        store_tile(to, chunks, tile);
        __syncthreads();
    }
    pad_image(a, r, to, chunks);
}

// A slab's values: what is loaded, or with hadamard what becomes of it.
struct Values {
    Part p;
    float x[kHadamard ? kRows : 1][kElements];
};

__device__ __forceinline__ void transform(const Tables &tables, const Place &at, Values &v)
{
    change_signs(tables, at, v.p);
#pragma unroll
    for (int i = 0; i < kRows; i++) {
        most_of_hadamard(tables, at, v.p.raw[i], v.x[i]);
        butterflies<kLast, 2 * kLast>(v.x[i]);
    }
}

// Keeps the compiler from holding what it has made of these: means are subtracted again.
__device__ __forceinline__ void forget(Part &p)
{
#pragma unroll
    for (int i = 0; i < kRows; i++)
#pragma unroll
        for (int j = 0; j < kVectors; j++) {
            unknown(p.raw[i][j].x);
            unknown(p.raw[i][j].y);
            unknown(p.raw[i][j].z);
            unknown(p.raw[i][j].w);
        }
}

// Infinities become NaN.
__device__ __forceinline__ void lose_infinities(Values &v)
{
#pragma unroll
    for (int i = 0; i < kRows; i++)
        if constexpr (kHadamard)
            lose_infinities(v.x[i]);
        else
            lose_infinities(v.p.raw[i]);
}

// The amax of each unit. True if the thread has infinite values.
__device__ __forceinline__ bool find_amax(const facc_rounding &a, const Rows &r, const Place &at,
                                          const Mean &mean, const Values &v,
                                          unsigned (&unit_amax)[kUnits])
{
    bool infinite = false;
    if constexpr (kHadamard) {
        constexpr int kAtOnce = !kProducts ? 1 : kRows < 4 ? kRows : 4; // rows of one unit
#pragma unroll
        for (int i = 0; i < kRows; i += kAtOnce) {
            float most = 0.0f;
#pragma unroll
            for (int k = i; k < i + kAtOnce; k++)
                most = fmaxf(most, quickly_largest(v.x[k]));
            if (!(most <= kMostFinite)) {
                most = 0.0f;
#pragma unroll
                for (int k = i; k < i + kAtOnce; k++)
                    most = fmaxf(most, largest_finite(v.x[k]));
                infinite = true;
            }
            join_amax(unit_amax, (at.first + at.row(i)) / 32, most * a.norm);
        }
    } else {
        const Most m = largest(a, r, at, v.p, mean);
        infinite = m.infinite;
        join_amax(unit_amax, at.first / 32, m.amax);
    }
    return infinite;
}

// What kernels before have found.
struct Given {
    float factor;
    bool infinite; // some values
};

__device__ __forceinline__ Given given_for(const facc_rounding &a, const Rows &r, int id)
{
    if (a.fused || r.count <= 0)
        return Given{1.0f, false};
    return Given{1.0f / *scale_at(a, r.b, r.h, a.block ? r.unit : 0),
                 !kMean && from_number(a.amax[id]).infinite};
}

// Codes of a row of the image's tile, 0 behind the slab's rows.
__device__ __forceinline__ void to_tile(unsigned *tile, const Place &at, int row,
                                        const unsigned (&codes)[kElements / 4], bool valid)
{
    unsigned *to = tile + row * kTileStride + at.column / 4;
#pragma unroll
    for (int k = 0; k < kElements / 4; k++)
        to[Place::offset(4 * k) / 4] = valid ? codes[k] : 0;
}

// unit_factor: or 0, and factor is of all.
__device__ __forceinline__ void round_rows(const facc_rounding &a, const Rows &r, const Place &at,
                                           const Mean &mean, Values &v, const float *unit_factor,
                                           float factor, unsigned *tile)
{
    unsigned words[kElements / 4][16]; // of the image
    Walk walk = walk_of(r, at, a.out, r.out, a.out_stride, 1);
    const int left = r.count - at.first;
#pragma unroll
    for (int i = 0; i < kRows; i++) {
        float(&x)[kElements] = v.x[kHadamard ? i : 0];
        const int row = at.first + at.row(i);
        if constexpr (!kHadamard)
            values_of(v.p.raw[i], mean, x);
        float f = unit_factor ? unit_factor[min(row / 32, kUnits - 1)] : factor;
        if constexpr (kHadamard)
            f = join_norm(a, f, x);
        unsigned codes[kElements / 4];
        codes_of(x, f, codes);
        if (at.row(i) < walk.left)
            store_codes((unsigned char *)walk.at, codes);
        walk.at += walk.step;
        if constexpr (kImage && kHadamard)
            to_tile(tile, at, row, codes, at.row(i) < left);
        else if constexpr (kImage)
#pragma unroll
            for (int k = 0; k < kElements / 4; k++)
                words[k][facc_v_place(i)] = i < left ? codes[k] : 0;
    }
    if constexpr (kImage && !kHadamard)
        if (at.first / 32 * 32 < r.count) {
            unsigned char *to = image_at(a, r) + at.first / 32 * (FACC_V_CHUNK * kHeadDim);
#pragma unroll
            for (int k = 0; k < kElements / 4; k++)
                store_quad(to, at.first / 16 & 1, at.column / 4 + k, words[k]);
        }
}

extern "C" __global__ void __launch_bounds__(kThreads, kRoundCtas)
    facc_quantize_round(const __grid_constant__ facc_rounding a)
{
    __shared__ unsigned unit_amax[2][kUnits];
    __shared__ float unit_factor[kUnits];
    __shared__ unsigned tile[kHadamard && kImage ? kSlabRows * kTileStride : 1];
    __shared__ Tables tables;
    __shared__ Rows plan[kPlan];
    __shared__ Given givens[kPlan];
    // Where a kernel before has read the tensor: what it read last may still be in the cache.
    const bool backwards = kMean || !a.fused;
    const Place at = place_of(threadIdx.x);
    for (int i = threadIdx.x; i < 2 * kUnits; i += kThreads)
        unit_amax[i / kUnits][i % kUnits] = 0;
    Values v;
    const Rows begin = rows_of(a, backwards ? a.all - 1 - blockIdx.x : blockIdx.x);
    const Mean mean = mean_of(a, begin, at);
    load_part(a, begin, at, v.p);
    if constexpr (kHadamard) {
        const int i = threadIdx.x, id = (int)blockIdx.x + i * a.ctas;
        make_plan(a, backwards, plan);
        if (i < kPlan)
            givens[i] = given_for(a, plan[i], backwards ? a.all - 1 - id : id);
        make_tables(a, tables);
    }
    __syncthreads();
    int id = blockIdx.x, turn = 0;
    do {
        const Rows &r = kHadamard ? plan[turn] : begin;
        const Rows &after = kHadamard ? plan[turn + 1] : begin;
        const Given given =
            kHadamard ? givens[turn] : given_for(a, r, backwards ? a.all - 1 - id : id);
        if constexpr (kHadamard)
            transform(tables, at, v);
        if constexpr (kProducts)
            load_part(a, after, at, v.p);
        bool infinite = given.infinite;
        if (a.fused) {
            infinite = find_amax(a, r, at, mean, v, unit_amax[turn & 1]);
            __syncthreads();
            scale_units(a, r, unit_amax[turn & 1], unit_factor);
            if (threadIdx.x < kUnits)
                unit_amax[(turn & 1) ^ 1][threadIdx.x] = 0;
            __syncthreads();
            if (r.begin())
                fill_scales(a, r);
        }
        if (!kMean && infinite)
            lose_infinities(v);
        if constexpr (kMean)
            forget(v.p);
        round_rows(a, r, at, mean, v, a.fused ? unit_factor : 0, given.factor, tile);
        if constexpr (kImage)
            if (r.count > 0 || (r.begin() && length_of(a, r.b) == 0))
                finish_image(a, r, tile);
        if constexpr (kHadamard && !kProducts)
            load_part(a, after, at, v.p);
        id += a.ctas;
        turn++;
    } while (kHadamard && id < a.all);
}

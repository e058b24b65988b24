// The unit of the kernel that transposes V before an FP8 launch; its configuration has kHeadDimV
// alone. A thread reads 16 bytes of each of 16 rows and writes 16 bytes for each of 16 channels;
// lanes 2 i and 2 i + 1 have the halves of a chunk, so that a warp's stores fill whole sectors.
#include "common/fp8_image.cuh"
#include "facc_config.cuh"

static_assert(kHeadDimV % 16 == 0 && kHeadDimV <= 256, "select.c takes no others");
constexpr int kRows = facc_transpose_rows(kHeadDimV);
constexpr int kGroups = kHeadDimV / 16; // of channels
static_assert(kRows >= 128, "ids of packed sequences would meet");

struct Slab {
    int b, first; // sequence, its row
};

__device__ __forceinline__ Slab slab_of(const facc_transpose_args &args, int id)
{
    if (!args.cu_seqlens) {
        const int each = args.slabs / args.B;
        return Slab{id / each, id % each * kRows};
    }
    int b = 0, end = args.B; // the last that begins at or before id
    while (end - b > 1) {
        const int middle = b + (end - b) / 2;
        if (args.cu_seqlens[middle] / kRows + 2 * middle <= id)
            b = middle;
        else
            end = middle;
    }
    return Slab{b, (id - (args.cu_seqlens[b] / kRows + 2 * b)) * kRows};
}

extern "C" __global__ void __launch_bounds__(FACC_TRANSPOSE_THREADS)
    facc_transpose_v(const __grid_constant__ facc_transpose_args args)
{
    const int head = blockIdx.x / args.slabs;
    const Slab slab = slab_of(args, blockIdx.x % args.slabs);
    const int b = slab.b, half = threadIdx.x & 1, pair = threadIdx.x >> 1;
    const int row = slab.first + 32 * (pair / kGroups) + 16 * half, d0 = pair % kGroups * 16;
    int length = args.Skv;
    long long start = 0, chunk = row / FACC_V_CHUNK;
    if (args.cu_seqlens) {
        start = args.cu_seqlens[b];
        length = max(0, min(args.cu_seqlens[b + 1] - args.cu_seqlens[b], args.Skv));
        chunk += facc_v_chunk(start, b);
    }
    if (args.seqused)
        length = max(0, min(args.seqused[b], length));
    const int chunks = (length + FACC_V_CHUNK - 1) / FACC_V_CHUNK + FACC_V_PAD;
    if (pair >= kRows / 32 * kGroups || row / FACC_V_CHUNK >= chunks)
        return;

    const long long place = args.cu_seqlens ? 0 : b;
    const unsigned char *from = args.v + place * args.v_stride[0] + head * args.v_stride[1] +
                                (start + row) * args.v_stride[2] + d0;
    unsigned words[4][16];
#pragma unroll
    for (int p = 0; p < 16; p++) {
        uint4 x{0, 0, 0, 0};
        if (row + token_at(p) < length)
            x = *reinterpret_cast<const uint4 *>(from + token_at(p) * args.v_stride[2]);
        words[0][p] = x.x;
        words[1][p] = x.y;
        words[2][p] = x.z;
        words[3][p] = x.w;
    }
    unsigned char *to = args.image + place * args.image_stride[0] + head * args.image_stride[1] +
                        chunk * (FACC_V_CHUNK * kHeadDimV);
#pragma unroll
    for (int w = 0; w < 4; w++)
        store_quad(to, half, d0 / 4 + w, words[w]);
}

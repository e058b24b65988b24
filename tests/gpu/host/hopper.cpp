// Runs the sm90 forward kernel on the CPU - its scheduler, loaders, pipeline, softmax and epilogue as
// they are - on random lengths, with NaN behind used lengths, and compares with attention in double.
// One program per configuration (hopper_host.py compiles them): args SEED CASES.
#include "simt.h"
// clang-format off
#include "sm90/mainloop.cuh"
// clang-format on
#include <random>

static std::mt19937 rng;

static int draw(int low, int high)
{
    return std::uniform_int_distribution<int>(low, high)(rng);
}

static void forward(const KernelArgs &args)
{
    Control &c = *reinterpret_cast<Control *>(simt::shared + kBytesTiles);
    const Tiles tiles{shared_address(simt::shared)};
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        init_barriers(c);
        if (getenv("SIMT_BARRIERS")) {
            const Barrier *b = c.k_full;
            fprintf(stderr, "barriers from %u on: %d k_full, k_empty, v_full, v_empty each, %d q_full, q_empty, ",
                    b->address(), kStages, kQBuffers * kGroups);
            fprintf(stderr, "%u item_full, item_empty, %u segment_full, segment_empty\n", kItems, kSegments);
        }
    }
    __syncthreads();
    if (warp == kConsumerWarps) {
        schedule_items(args, c, tiles);
    } else if (warp == kConsumerWarps + 1) {
        load_tiles(args, c, tiles);
    } else if (kTables && warp == kConsumerWarps + 2) {
        make_tables(args, c);
    } else if (warp < kConsumerWarps) {
        Consumer consumer(args, c, tiles, warp / 4);
        consumer.run();
    }
}

struct Tensor {
    std::vector<unsigned short> data;
    long stride[3]; // b, h, row
    int dim;

    Tensor(int B, int H, int S, int D) : data(static_cast<size_t>(B) * H * S * D), dim(D)
    {
        stride[0] = static_cast<long>(H) * S * D, stride[1] = static_cast<long>(S) * D, stride[2] = D;
        std::normal_distribution<float> normal;
        for (auto &x : data)
            x = bf16_of(normal(rng));
    }
    unsigned short *row(int b, int h, int s) { return &data[b * stride[0] + h * stride[1] + s * stride[2]]; }
    void describe(unsigned char *map, int B, int H, int S, int rows) const
    {
        const simt::Map m = {data.data(), {dim, S, H, B}, {1, stride[2], stride[1], stride[0]}, rows};
        memcpy(map, &m, sizeof m);
    }
};

// Whether output and LSE of a row are right.
static bool row_is_right(const KernelArgs &args, Tensor &q, Tensor &k, Tensor &v, int b, int h, int i,
                         int kv_len, bool attended, const unsigned short *o, float lse)
{
    const Variant::Tile t = Variant::tile(args, b, h);
    std::vector<double> s(kv_len, -INFINITY);
    double top = -INFINITY, sum = 0;
    for (int j = 0; attended && j < kv_len; ++j) {
        const Variant::Row row = Variant::row(args, t, i);
        const Variant::Col col = Variant::col(args, t, j);
        const Variant::Diag diag = Variant::diag(args, t, i - j);
        const Variant::Base base = Variant::base(args, t, row, i, j);
        if (Variant::kHasMask && !Variant::mask(args, t, row, col, diag, base, 0, i, j, 0))
            continue;
        double dot = 0;
        for (int d = 0; d < kHeadDim; ++d)
            dot += static_cast<double>(float_of(q.row(b, h, i)[d])) * float_of(k.row(b, h / args.group, j)[d]);
        s[j] = Variant::kHasScore
                   ? Variant::score(args, t, row, col, diag, base, static_cast<float>(dot), i, j, 0)
                   : dot * args.scale_log2;
        top = max(top, s[j]);
    }
    std::vector<double> want(kHeadDimV);
    for (int j = 0; j < kv_len; ++j)
        if (s[j] > -INFINITY) {
            const double p = exp2(s[j] - top);
            sum += p;
            for (int d = 0; d < kHeadDimV; ++d)
                want[d] += p * float_of(v.row(b, h / args.group, j)[d]);
        }
    if (sum == 0) {
        for (int d = 0; d < kHeadDimV; ++d)
            if (o[d] != 0)
                return false;
        return lse == -INFINITY;
    }
    for (int d = 0; d < kHeadDimV; ++d)
        if (!(fabs(float_of(o[d]) - want[d] / sum) < 0.03))
            return false;
    return fabs(lse - (top + log2(sum)) * M_LN2) < 1e-3;
}

static void run_case(int n)
{
    static const int lengths[] = {1, 40, 64, 65, 130, 200, 333, 420};
    const int B = draw(1, 3), Hkv = draw(1, 2), group = draw(1, 2), H = Hkv * group;
    const int Sq = lengths[draw(0, 7)], Skv = lengths[draw(0, 7)] * draw(1, 3);
    const bool padded = draw(0, 1);
    Tensor q(B, H, Sq, kHeadDim), k(B, Hkv, Skv, kHeadDim), v(B, Hkv, Skv, kHeadDimV), o(B, H, Sq, kHeadDimV);
    std::vector<float> lse(B * H * Sq, NAN);
    std::vector<int> used_q(B, Sq), used_kv(B, Skv);
    int shares[] = {draw(0, 1000000), draw(0, 1) * draw(0, 100), draw(0, 100), 100, draw(5, 40)};
    std::fill(o.data.begin(), o.data.end(), 0x7fff);
    for (int b = 0; padded && b < B; ++b) {
        used_q[b] = draw(0, Sq), used_kv[b] = draw(0, 3) ? draw(0, Skv) : 0;
        for (int h = 0; h < H; ++h)
            for (int i = used_q[b]; i < Sq; ++i)
                std::fill_n(q.row(b, h, i), kHeadDim, 0x7fff);
        for (int h = 0; h < Hkv; ++h)
            for (int j = used_kv[b]; j < Skv; ++j) {
                std::fill_n(k.row(b, h, j), kHeadDim, 0x7fff);
                std::fill_n(v.row(b, h, j), kHeadDimV, 0x7fff);
            }
    }
    KernelArgs args = {};
    q.describe(args.tensor_map[0], B, H, Sq, 64);
    k.describe(args.tensor_map[1], B, Hkv, Skv, kTileN);
    v.describe(args.tensor_map[2], B, Hkv, Skv, kTileN);
    args.o = o.data.data();
    args.lse = lse.data();
    for (int i = 0; i < 3; ++i) {
        args.q_stride[i] = q.stride[i], args.k_stride[i] = k.stride[i], args.v_stride[i] = v.stride[i];
        args.o_stride[i] = o.stride[i];
        args.lse_stride[i] = i == 0 ? H * Sq : i == 1 ? Sq : 1;
    }
    args.B = B, args.H = H, args.Hkv = Hkv, args.Sq = Sq, args.Skv = Skv, args.group = group;
    args.D = kHeadDim, args.Dv = kHeadDimV;
    args.scale_log2 = 1.4427f / sqrtf(kHeadDim) * (draw(0, 3) ? 1 : 6); // flat and steep
    if (padded)
        args.seqused_q = used_q.data(), args.seqused_kv = used_kv.data();
    args.q_tiles = (Sq + kTileM - 1) / kTileM;
    args.num_work = args.q_tiles * B * H;
    args.section_heads = draw(1, B * H);
    args.bounds_report = shares;
    int counter[2] = {0, 0};
    if (draw(0, 1))
        args.next_item = counter;
    simt::grid.x = min(args.num_work, draw(1, 3));
    simt::launch(simt::grid.x, kThreads, [&] { forward(args); });
    if (!simt::boxes.empty())
        simt::fail("a load was not waited for by anyone");
    if (counter[0] || counter[1])
        simt::fail("the counter of items is not 0 for the next launch");
    for (int b = 0; b < B; ++b)
        for (int h = 0; h < H; ++h)
            for (int i = 0; i < Sq; ++i)
                if (!row_is_right(args, q, k, v, b, h, i, used_kv[b], i < used_q[b], o.row(b, h, i),
                                  lse[(b * H + h) * Sq + i])) {
                    fprintf(stderr, "case %d (%d x %d x %d, %d x %d): wrong in b %d h %d row %d: %g, LSE %g\n", n, B,
                            H, Hkv, Sq, Skv, b, h, i, float_of(o.row(b, h, i)[0]), lse[(b * H + h) * Sq + i]);
                    exit(1);
                }
}

int main(int argc, char **argv)
{
    const int seed = argc > 1 ? atoi(argv[1]) : 1, cases = argc > 2 ? atoi(argv[2]) : 10;
    for (int n = 0; n < cases; ++n) {
        rng.seed(seed * 1000 + n);
        fprintf(stderr, "case %d\n", n);
        run_case(n);
    }
    printf("%d cases\n", cases);
}

// Random cases for pipeline.cpp: lengths, what the mask makes of KV tiles, lists of tiles as
// schedules have them, tensors; and which tiles each group is expected to visit.
#pragma once
#include "common/tile_row.cuh"
#include <map>
#include <tuple>

#ifdef HOST_LISTED // listed.cuh
#define HOST_MADE_UP 1
#else
#define HOST_MADE_UP 0
#endif
#ifndef HOST_TENSOR
#define HOST_TENSOR 0
#endif
#ifndef HOST_DOT_FACTOR // dot.cuh
#define HOST_DOT_FACTOR 1
#endif
constexpr bool kTags = HOST_CONSUMER_LANES == 1;

static std::mt19937 rng;

static int draw(int low, int high)
{
    return std::uniform_int_distribution<int>(low, high)(rng);
}

// A tile that is loaded, for any group's sake, as a group sees it.
struct Visited {
    int tile;
    bool masked; // its cells are asked for one by one
    bool dead;   // none counts: then masked, too
};
using Visitations = std::vector<Visited>; // of a group, in order

// A tile by its verdict for each group; tail: some columns are behind the sequence. False: it is
// not loaded.
static bool visit(int tile, const int (&verdict)[kGroups], bool tail,
                  Visitations *const (&visits)[kGroups])
{
    bool loaded = false;
    for (int v : verdict)
        loaded |= v != kVerdictEmpty;
    for (int g = 0; g < kGroups && loaded; ++g)
        visits[g]->push_back(
            {tile, tail || verdict[g] != kVerdictFull, verdict[g] == kVerdictEmpty});
    return loaded;
}

struct Case {
    KernelArgs args;
    int ctas, heads; // classes of so many (b, h)
    bool packed;
    std::vector<std::unique_ptr<std::vector<unsigned char>>> memory;
    std::map<std::tuple<int, int, int>, std::vector<unsigned char>>
        classes;                                                    // of (b, h, query tile):
                                                                    // [kGroups][KV tiles]
    std::map<std::tuple<int, int, int, int>, Visitations> expected; // of (b, h, tile, group)
    std::map<std::tuple<int, int, int, int>, int> written;          // warps
    long tiles;
#ifdef FACC_FP8
    const unsigned char *v; // as it is before it is made an image
#else
    const unsigned short *v;
#endif
    long long v_stride[3];

    template <class T> T *take(size_t n)
    {
        memory.push_back(std::make_unique<std::vector<unsigned char>>(n * sizeof(T) + 64));
        return reinterpret_cast<T *>(memory.back()->data());
    }
};
static Case *c;

static unsigned mixed(unsigned x)
{
    x = (x ^ x >> 16) * 0x7feb352d;
    x = (x ^ x >> 15) * 0x846ca68b;
    return x ^ x >> 16;
}

static std::tuple<int, int, int> class_key(int b, int h, int tile)
{
    return {c->args.schedule.per_b ? b : 0, c->args.schedule.per_h ? h : 0, tile};
}

int host_verdict(int b, int h, int q, int kv)
{
    const auto at = c->classes.find(class_key(b, h, q / kTileM));
    if (at == c->classes.end() || q < 0 || kv < 0)
        return kVerdictEmpty;
    const size_t n = at->second.size() / kGroups, tile = kv / kTileN;
    return tile < n ? at->second[q % kTileM / 64 * n + tile] : kVerdictEmpty;
}

bool host_cell(int b, int h, int q, int kv)
{
    const int verdict = host_verdict(b, h, q, kv);
    return verdict == kVerdictFull ||
           (verdict == kVerdictPartial && mixed(kv / kTileN * 77 + q / 64) % 8 && mixed(q) % 5 &&
            mixed(q * 65599 + kv) % 3 == 0);
}

// Which tiles of each group of a query tile are worked on, drawn to have gaps of all lengths.
static std::vector<unsigned char> draw_classes(int tiles)
{
    std::vector<unsigned char> all(kGroups * tiles, kVerdictEmpty);
    const int kind = draw(0, 10), rare = draw(0, 1) ? draw(1, 4) : draw(1, 40);
    if (kind == 0)
        return all;
    const int only = draw(0, kGroups - 1), first = draw(0, 1) ? 0 : draw(0, tiles),
              end = draw(0, 1) ? tiles : draw(first, tiles);
    for (int g = 0; g < kGroups; ++g) {
        int now = draw(0, 1), left = kind == 10 ? 1 << 30 : 0;
        for (int i = first; i < end; ++i) {
            if (kind < 3 && g != only)
                continue;
            if (left-- == 0) {
                now = kind < 6 ? draw(0, rare) == 0 : !now;
                left = kind < 6 ? 0 : draw(0, draw(0, 4) ? 3 : 20);
            }
            if (now)
                all[g * tiles + i] = draw(0, 2) ? kVerdictFull : kVerdictPartial;
        }
    }
    return all;
}

static void draw_lengths(int size)
{
    KernelArgs &a = c->args;
    c->packed = FACC_SCHEDULED && (!kListed || draw(0, 2) == 0);
    a.B = c->packed                      ? draw(1, 3 + size / 2)
          : draw(0, kPlaneBytes ? 1 : 2) ? 1
                                         : draw(1, kPlaneBytes ? 4 : 3);
    a.group = draw(1, 2);
    a.Hkv = draw(1, 2);
    a.H = a.Hkv * a.group;
    a.Sq =
        max(1, draw(0, 3) ? draw(0, size) * kTileM + draw(0, 1) * draw(-60, 60) : draw(1, kTileM));
    a.Skv = max(0, draw(0, size) * draw(1, 4) * kTileN + draw(0, 1) * draw(-30, 30));
    if (draw(0, 9) == 0)
        a.Skv = max(0, draw(30, 70) * kTileN + draw(-20, 20));
    a.q_tiles = (a.Sq + kTileM - 1) / kTileM;
    if (c->packed) {
        int *cu_q = c->take<int>(a.B + 1), *cu_kv = c->take<int>(a.B + 1);
        for (int b = 0; b < a.B; ++b) {
            const int kind = draw(0, 4), other = draw(0, 4);
            cu_q[b + 1] = cu_q[b] + (kind < 2 ? min(kind, a.Sq) : kind == 2 ? a.Sq : draw(0, a.Sq));
            cu_kv[b + 1] = cu_kv[b] + (other < 2    ? min(other, a.Skv)
                                       : other == 2 ? a.Skv
                                                    : draw(0, a.Skv));
        }
        a.cu_seqlens_q = cu_q;
        a.cu_seqlens_kv = cu_kv;
    }
    if (draw(0, 2) == 0) {
        int *used_q = c->take<int>(a.B), *used_kv = c->take<int>(a.B);
        for (int b = 0; b < a.B; ++b) {
            used_q[b] = draw(0, 3) ? draw(0, a.Sq) : draw(0, 1);
            used_kv[b] = draw(0, 3) ? draw(0, a.Skv) : draw(0, 1);
        }
        a.seqused_q = draw(0, 2) ? used_q : nullptr;
        a.seqused_kv = draw(0, 2) ? used_kv : nullptr;
    }
}

// The list of a query tile, as facc_schedule writes it; equal windows may share an entry.
static std::vector<unsigned> list_of(const std::vector<unsigned char> &classes, int tiles,
                                     int kv_len, Visitations *const (&visits)[kGroups],
                                     int &entries)
{
    struct Entry {
        int window, repeats;
        unsigned bits[2 * kGroups];
    };
    std::vector<Entry> list;
    const bool too_long = draw(0, 5) == 0; // goes on behind the end
    const int windows = (tiles + 31) / 32 + (too_long ? draw(0, 1) : 0);
    for (int i = 0; i < windows; ++i) {
        Entry e{Variant::kReverse ? windows - 1 - i : i, 1, {}};
        bool some = false;
        for (int j = 0; j < 32; ++j) {
            const int bit = Variant::kReverse ? 31 - j : j, tile = 32 * e.window + bit;
            if (tile >= tiles) {
                for (unsigned &bits : e.bits)
                    bits |= static_cast<unsigned>(too_long) << bit;
                continue;
            }
            const bool tail = (tile + 1) * kTileN > kv_len;
            int verdict[kGroups];
            for (int g = 0; g < kGroups; ++g) {
                verdict[g] = classes[g * tiles + tile];
                const unsigned work = verdict[g] != kVerdictEmpty;
                e.bits[2 * g] |= work << bit;
                e.bits[2 * g + 1] |= (work & (verdict[g] == kVerdictPartial || tail)) << bit;
            }
            some |= visit(tile, verdict, tail, visits);
        }
        if (!some && draw(0, 3)) // an entry may be about nothing
            continue;
        if (!list.empty() && !memcmp(list.back().bits, e.bits, sizeof e.bits) &&
            e.window == list.back().window + (Variant::kReverse ? -1 : list.back().repeats)) {
            if (Variant::kReverse)
                list.back().window = e.window;
            ++list.back().repeats;
        } else {
            list.push_back(e);
        }
    }
    entries = static_cast<int>(list.size());
    std::vector<unsigned> words;
    for (const Entry &e : list) {
        words.push_back(e.window);
        words.push_back(e.repeats);
        words.insert(words.end(), e.bits, e.bits + 2 * kGroups);
    }
    return words;
}

static const std::vector<unsigned char> &place_classes(int b, int h, int tile, const Sequence &n,
                                                       bool mostly_empty)
{
    const int tiles = (n.kv_len + kTileN - 1) / kTileN;
    std::vector<unsigned char> &classes = c->classes[class_key(b, h, tile)];
    classes = draw_classes(tiles);
    for (int g = 0; g < kGroups; ++g)
        for (int i = 0; i < tiles; ++i)
            if (tile * kTileM + g * 64 >= n.q_len || (mostly_empty && draw(0, 9)))
                classes[g * tiles + i] = kVerdictEmpty;
    return classes;
}

static void place_lists()
{
    KernelArgs &a = c->args;
    struct facc_schedule &s = a.schedule;
    s.per_b = c->packed || a.seqused_q || a.seqused_kv || draw(0, 1);
    s.per_h = draw(0, 1);
    std::vector<facc_schedule_row> rows;
    std::vector<std::vector<unsigned>> lists;
    const int mostly_empty = draw(0, 4) == 0;
    for (int h = 0; h < (s.per_h ? a.H : 1); ++h)
        for (int b = 0; b < (s.per_b ? a.B : 1); ++b) {
            const Sequence n = sequence_of(a, b);
            for (int tile = 0; tile * kTileM < n.rows; ++tile) {
                facc_schedule_row row{b, h, tile, 0, 0, 0};
                std::vector<unsigned> words;
                if (kListed) {
                    const int tiles = (n.kv_len + kTileN - 1) / kTileN;
                    const std::vector<unsigned char> &classes =
                        place_classes(b, h, tile, n, mostly_empty);
                    Visitations visits[kGroups], *to[kGroups];
                    for (int g = 0; g < kGroups; ++g)
                        to[g] = &visits[g];
                    words = list_of(classes, tiles, n.kv_len, to, row.entries);
                    for (int b2 = s.per_b ? b : 0; b2 < (s.per_b ? b + 1 : a.B); ++b2)
                        for (int h2 = s.per_h ? h : 0; h2 < (s.per_h ? h + 1 : a.H); ++h2)
                            for (int g = 0; g < kGroups; ++g)
                                c->expected[{b2, h2, tile, g}] = visits[g];
                }
                rows.push_back(row);
                lists.push_back(words);
            }
        }
    const int gaps = draw(0, 1) ? 0 : draw(1, 3);
    s.max_rows = static_cast<int>(rows.size()) + gaps;
    s.rows = c->take<facc_schedule_row>(s.max_rows);
    s.order = c->take<int>(s.max_rows);
    s.max_entries = 1;
    for (auto &row : rows)
        s.max_entries = max(s.max_entries, row.entries);
    constexpr int kWords = 2 + 2 * kGroups;
    s.entries = c->take<unsigned char>(4ll * s.max_rows * s.max_entries * kWords);
    for (int i = 0; i < s.max_rows; ++i) {
        const bool is = i < static_cast<int>(rows.size());
        s.rows[i] = is ? rows[i] : facc_schedule_row{0, 0, -1, 0, 0, 0};
        s.order[i] = is ? i : -1;
        if (is && !lists[i].empty())
            memcpy(s.entries + 4ll * i * s.max_entries * kWords, lists[i].data(),
                   4 * lists[i].size());
    }
    if (draw(0, 1))
        std::shuffle(s.order, s.order + rows.size(), rng);
    a.num_work = s.max_rows * (s.per_b ? 1 : a.B) * (s.per_h ? 1 : a.H);
}

// Without lists: by the variant's verdicts.
static void expect_bounded()
{
    const KernelArgs &a = c->args;
    const bool mostly_empty = draw(0, 4) == 0;
    for (int b = 0; b < a.B; ++b)
        for (int h = 0; h < a.H; ++h) {
            const Sequence n = sequence_of(a, b);
            const Variant::Tile t = Variant::tile(a, b, h);
            for (int tile = 0; tile * kTileM < n.rows; ++tile) {
                if (HOST_MADE_UP)
                    place_classes(b, h, tile, n, mostly_empty);
                const TileRow row(a, t, b, h, tile, n.q_len, n.kv_len);
                Visitations *visits[kGroups];
                for (int g = 0; g < kGroups; ++g)
                    visits[g] = &c->expected[{b, h, tile, g}];
                for (int i = row.reach.first; i < row.reach.end; ++i) {
                    const int kv = i * kTileN, last = row.kv_last(kv, kTileN);
                    int verdict[kGroups];
                    for (int g = 0; g < kGroups; ++g)
                        verdict[g] =
                            !row.has_rows(g) ? kVerdictEmpty
                            : !Variant::kHasMask
                                ? kVerdictFull
                                : Variant::verdict(a, t, row.q_first(g), row.q_last(g), kv, last);
                    visit(i, verdict, kv + kTileN > n.kv_len, visits);
                }
                for (Visitations *v : visits)
                    if (Variant::kReverse)
                        std::reverse(v->begin(), v->end());
            }
        }
}

struct HostMap { // in the place of a tensor map
    int tensor;  // 0 Q, 1 K, 2 V, 3 and 4 the captured ones of dot.cuh, 5 that of plane.cuh
    int rows;    // of a box
};

// Those of dot.cuh: NaN where no position has a row, and behind the sequences.
template <class Args> static void place_dot(Args &a)
{
    if constexpr (kExtraDim > 0) {
        const long long heads = a.H / 2 + 1, rows = a.Sq + 3 + 7, columns = 5 * a.B + 2 + a.Skv;
        const long long n[2] = {a.B * heads * rows * kExtraDim, columns * kExtraDim};
        a.tensors[0] =
            facc_captured{0,
                          {heads * rows * kExtraDim, rows * kExtraDim, kExtraDim, 1},
                          {a.B, static_cast<int>(heads), static_cast<int>(rows), kExtraDim},
                          0};
        a.tensors[1] = facc_captured{0, {kExtraDim, 1}, {static_cast<int>(columns), kExtraDim}, 0};
        for (int i = 0; i < 2; ++i) {
            const HostMap map{3 + i, i == 0 ? 64 : kTileN};
            memcpy(a.dot_map[i], &map, sizeof map);
            if (kTags)
                continue;
            unsigned short *x = c->take<unsigned short>(n[i]);
            for (long long j = 0; j < n[i]; ++j) {
                const long long row = j / kExtraDim;
                const bool none = i == 0 ? row % rows < 3 || row % rows >= a.Sq + 3 : row < 2;
                x[j] = none ? 0x7fff
                            : bf16_bits(static_cast<float>(mixed(static_cast<unsigned>(j * 7 + i)) %
                                                           2001) /
                                            500 -
                                        2);
            }
            a.tensors[i].data = x;
        }
    }
}

// plane.cuh: {H or 1, any, B or 1, any}, mostly where TMA takes it; NaN in rows and columns of no
// position, 1e30 between the rows.
template <class Args> static void place_plane(Args &a)
{
    const int heads = draw(0, 3) ? a.H : 1, batches = draw(0, 1) ? a.B : 1; // 1: for all
    const int rows = max(1, a.Sq + draw(-3, 9)), columns = max(1, a.Skv + draw(-9, 20));
    constexpr int kUnit = 16 / kPlaneBytes;
    const long long pitch = (columns + kUnit - 1) / kUnit * kUnit + draw(0, 2) * kUnit;
    const size_t n = heads * rows * batches * pitch;
    unsigned char *x = c->take<unsigned char>(n * kPlaneBytes + 32);
    x += -reinterpret_cast<unsigned long long>(x) % 16 + 16 * draw(0, 1);
    for (size_t i = 0; i < n; ++i) {
        const int column = static_cast<int>(i % pitch),
                  h = heads == 1 ? 0 : i / pitch / batches / rows, last = heads == 1 ? a.H - 1 : h,
                  row = i / pitch / batches % rows;
        const bool none = row < h - 3 || row >= a.Sq + last - 3 || column < 8 * h - 8 + h / 3 * 3 ||
                          column >= a.Skv + 8 * last - 8 + last / 3 * 3;
        const float value =
            column >= columns ? 1e30f
            : none            ? NAN
                   : static_cast<float>(mixed(static_cast<unsigned>(i)) % 1000) * 4e-3f - 2;
        const unsigned short half = bf16_bits(value);
        memcpy(x + i * kPlaneBytes, kPlaneBytes == 2 ? (const void *)&half : &value, kPlaneBytes);
    }
    a.tensors[0] = facc_captured{
        x,
        {heads == 1 ? 0 : rows * batches * pitch, batches * pitch, batches == 1 ? 0 : pitch, 1},
        {a.H, rows, a.B, columns},
        draw(0, 4) > 0};
    const HostMap map{5, kTileM};
    memcpy(a.plane_map, &map, sizeof map);
}

// f32 {32, H}, bf16 {H, 65}: biases of q - kv, so that all but few count less than others.
template <class Args> static void place_table(Args &a)
{
    const size_t n = HOST_TENSOR * a.H;
    float *x = c->take<float>(n);
    unsigned short *half = reinterpret_cast<unsigned short *>(x);
    for (size_t i = 0; i < n; ++i) {
        const float value = static_cast<float>(mixed(static_cast<unsigned>(i)) % 1000) * 6e-3f - 3;
        if (HOST_TENSOR == 32)
            x[i] = value;
        else
            half[i] = bf16_bits(value);
    }
    if (HOST_TENSOR == 32)
        a.tensors[0] = facc_captured{x, {a.H, 1}, {32, a.H}, 0};
    else
        a.tensors[0] = facc_captured{x, {65, 1}, {a.H, 65}, 0};
}

// HOST_TENSOR 1: f32 {H}; 3: f32 {H, q, kv}; 32, 65: see above.
template <class Args> static void place_captured(Args &a)
{
    if constexpr (kExtraDim > 0) {
        place_dot(a);
    } else if constexpr (kPlaneBytes > 0) {
        place_plane(a);
    } else if constexpr (HOST_TENSOR >= 32) {
        place_table(a);
    } else if constexpr (kNumTensors > 0) {
        facc_captured &t = a.tensors[0];
        const size_t row = max(a.Skv, 1), n = HOST_TENSOR == 1 ? a.H : a.H * a.Sq * row;
        float *x = c->take<float>(n);
        for (size_t i = 0; i < n; ++i)
            x[i] = static_cast<float>(mixed(static_cast<unsigned>(i)) % 1000) * 1e-3f;
        if (HOST_TENSOR == 1)
            t = facc_captured{x, {1}, {a.H}, 0};
        else
            t = facc_captured{x,
                              {static_cast<long long>(a.Sq * row), static_cast<long long>(row), 1},
                              {a.H, a.Sq, static_cast<int>(row)},
                              0};
    }
}

// ---- tensors --------------------------------------------------------------------

constexpr float kScale = 0.25f, kHuge = 1 << 18; // scores in the millions

#ifdef FACC_FP8
using Element = unsigned char;
static float value_of(Element x)
{
    return e4m3_value(x);
}
static Element element_of(float x)
{
    return static_cast<Element>(e4m3_bits(x));
}
#else
using Element = unsigned short;
static float value_of(Element x)
{
    return __uint_as_float(static_cast<unsigned>(x) << 16);
}
static Element element_of(float x)
{
    return static_cast<Element>(bf16_bits(x));
}
#endif

static Element element(int tensor, long long i)
{
    const float x =
        static_cast<float>(mixed(static_cast<unsigned>(i * 3 + tensor)) % 2001) / 1000 - 1;
    return element_of(tensor == 0 ? 4 * x : 2 * x);
}

#ifdef FACC_FP8
// Descales of one tensor, as launches bring them: none, or one for all, for each head, for each
// block of rows.
static const float *draw_descales(long long (&stride)[3], int heads, long long blocks)
{
    const int kind = draw(0, 3), b = c->args.B;
    if (kind == 0)
        return nullptr;
    const long long n = kBlockScales && kind != 1 ? blocks : 1;
    float *x = c->take<float>(b * heads * n);
    for (long long i = 0; i < b * heads * n; ++i)
        x[i] = static_cast<float>(draw(1, 16)) / 8;
    stride[2] = n > 1;
    stride[1] = kind > 1 ? n : 0;
    stride[0] = kind > 1 ? heads * n : 0;
    return x;
}

// What the launch brings for FP8; V as an image, unless the kernel makes it.
static void place_fp8(long long rows_kv, const Element *natural, const long long (&from)[3])
{
    KernelArgs &a = c->args;
    facc_fp8 &f = a.fp8;
    f.descale_block_q = 32 * draw(1, 4);
    f.descale_block_kv = 32 * draw(1, 4);
    f.descale_q_group = draw(0, 1) ? 1 : a.group;
    f.descale_q = draw_descales(f.descale_q_stride, a.H / f.descale_q_group,
                                (a.Sq + f.descale_block_q - 1) / f.descale_block_q);
    f.descale_k = draw_descales(f.descale_k_stride, a.Hkv, a.Skv / f.descale_block_kv + 1);
    f.descale_v = draw_descales(f.descale_v_stride, a.Hkv, a.Skv / f.descale_block_kv + 1);
    f.promote_tiles = kPromotes ? draw(0, 3) : 0;
    if (draw(0, 1)) {
        float *mean = c->take<float>(a.B * a.Hkv * kHeadDimV);
        for (int i = 0; i < a.B * a.Hkv * kHeadDimV; ++i)
            mean[i] = static_cast<float>(draw(-8, 8)) / 4;
        f.v_mean = mean;
        f.v_mean_stride[0] = a.Hkv * kHeadDimV;
        f.v_mean_stride[1] = kHeadDimV;
    }
    if (kTransposesV)
        return;
    const long long chunks = c->packed ? facc_v_chunk(rows_kv, a.B) : (rows_kv + 31) / 32 + 3;
    constexpr int kChunk = 32 * kHeadDimV;
    unsigned char *image = c->take<unsigned char>((c->packed ? 1 : a.B) * a.Hkv * chunks * kChunk);
    a.v_stride[1] = chunks * kChunk;
    a.v_stride[0] = c->packed ? 0 : a.Hkv * a.v_stride[1];
    a.v_stride[2] = 0;
    for (int b = 0; b < a.B; ++b)
        for (int h = 0; h < a.Hkv; ++h) {
            const long long start = c->packed ? a.cu_seqlens_kv[b] : 0;
            const long long rows = c->packed ? a.cu_seqlens_kv[b + 1] - start : rows_kv;
            unsigned char *to = image + b * a.v_stride[0] + h * a.v_stride[1] +
                                (c->packed ? facc_v_chunk(start, b) : 0) * kChunk;
            for (long long t = 0; t < rows; ++t)
                for (int d = 0; d < kHeadDimV; ++d)
                    to[t / 32 * kChunk + facc_v_byte(d, t % 32)] =
                        natural[b * from[0] + h * from[1] + (start + t) * from[2] + d];
        }
    a.v = image;
}
#endif

static void place_tensors()
{
    KernelArgs &a = c->args;
    const long long rows_q = c->packed ? a.cu_seqlens_q[a.B] : a.Sq;
    const long long rows_kv = c->packed ? a.cu_seqlens_kv[a.B] : a.Skv;
    const int batches = c->packed ? 1 : a.B;
    a.D = kHeadDim;
    a.Dv = kHeadDimV;
    a.scale = draw(0, 1) ? kScale : -kScale;
    if (kRawScores && !kFp8 && draw(0, 3) == 0)
        a.scale *= kHuge;
    a.scale_log2 = a.scale * 1.4426950408889634f;
    const auto place = [&](long long(&stride)[3], int heads, long long rows, int d) {
        stride[2] = heads * d; // (b, s, h, d)
        stride[1] = d;
        stride[0] = c->packed ? 0 : stride[2] * rows;
        return static_cast<size_t>(batches * rows * heads * d);
    };
    const size_t n[4] = {
        place(a.q_stride, a.H, rows_q, kHeadDim), place(a.k_stride, a.Hkv, rows_kv, kHeadDim),
        place(a.v_stride, a.Hkv, rows_kv, kHeadDimV), place(a.o_stride, a.H, rows_q, kHeadDimV)};
    for (int i = 0; i < 3; ++i) {
        const HostMap map{i, i == 0 ? 64 : kTileN};
        memcpy(a.tensor_map[i], &map, sizeof map);
    }
    a.lse_stride[2] = 1;
    a.lse_stride[1] = rows_q;
    a.lse_stride[0] = c->packed ? 0 : a.H * rows_q;
    if (kTags)
        return;
    const void **tensor[3] = {&a.q, &a.k, &a.v};
    for (int i = 0; i < 3; ++i) {
        Element *x = c->take<Element>(n[i]);
        for (size_t j = 0; j < n[i]; ++j)
            x[j] = element(i, j);
        *tensor[i] = x;
    }
    a.o = c->take<float>(n[3]);
    a.lse = c->take<float>(batches * a.H * rows_q);
    memset(a.o, 0xff, n[3] * (kOutElement == kElementF32 ? 4 : 2));
    memset(a.lse, 0xff, batches * a.H * rows_q * 4);
    if (kHasSinks) { // none, or below, among and above the scores
        float *sinks = c->take<float>(2 * a.H);
        for (int h = 0; h < a.H; ++h) {
            sinks[2 * h] = draw(0, 4) ? draw(-6, 9) : -INFINITY;
            sinks[2 * h + 1] = NAN;
        }
        a.sinks = sinks;
        a.sinks_stride = 2;
    }
    if (kHasDropout) {
        a.dropout_key[0] = rng();
        a.dropout_key[1] = rng();
        a.dropout_offset = rng();
        a.dropout_drops = draw(0, 3) ? draw(0, 40000) : 0;
        a.dropout_scale = 65536.0f / (65536 - a.dropout_drops);
    }
    c->v = static_cast<const Element *>(a.v);
    std::copy(a.v_stride, a.v_stride + 3, c->v_stride);
    constexpr int kSize = sizeof(Element);
    // Rows behind used lengths hold NaN.
    for (int b = 0; b < a.B; ++b) {
        const Sequence s = sequence_of(a, b);
        const long long all_kv = c->packed ? a.cu_seqlens_kv[b + 1] - a.cu_seqlens_kv[b] : a.Skv;
        for (long long r = s.q_start + s.q_len; r < s.q_start + s.rows; ++r)
            memset((char *)a.q + kSize * (b * a.q_stride[0] + r * a.q_stride[2]), 0xff,
                   kSize * a.q_stride[2]);
        for (long long r = s.kv_start + s.kv_len; r < s.kv_start + all_kv; ++r) {
            memset((char *)a.k + kSize * (b * a.k_stride[0] + r * a.k_stride[2]), 0xff,
                   kSize * a.k_stride[2]);
            memset((char *)a.v + kSize * (b * a.v_stride[0] + r * a.v_stride[2]), 0xff,
                   kSize * a.v_stride[2]);
        }
    }
#ifdef FACC_FP8
    place_fp8(rows_kv, c->v, c->v_stride);
#endif
}

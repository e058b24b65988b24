// Runs the sm90 forward kernel on the CPU, warps and all (warps.h), on random cases, and checks
// what every warpgroup multiplies and writes. One program per variant and configuration
// (pipeline_host.py compiles them): args SEED CASES [SIZE].
//
// With one lane for each consumer warp (HOST_CONSUMER_LANES 1) tiles hold tags: which tensor, row
// and head they are; products, softmax and epilogue pass these on. With 32 lanes tiles, softmax
// and epilogue are the real ones, and O and LSE are compared with a plain loop.
#include "forward_host.cuh" // templates/sm90/forward.cu
#include "common/tile_row.cuh"
#include <set>
#include <tuple>

#ifdef HOST_LISTED // listed.cuh
#define HOST_MADE_UP 1
#else
#define HOST_MADE_UP 0
#endif
#ifndef HOST_TENSOR
#define HOST_TENSOR 0
#endif
constexpr bool kTags = HOST_CONSUMER_LANES == 1;

static std::mt19937 rng;

static int draw(int low, int high)
{
    return std::uniform_int_distribution<int>(low, high)(rng);
}

// ---- cases ----------------------------------------------------------------------

struct Visited {
    int tile;
    bool masked;
};
using Visitations = std::vector<Visited>; // of a group, in order

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
    a.B = c->packed ? draw(1, 3 + size / 2) : draw(0, 2) ? 1 : draw(1, 3);
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
                                     int kv_len, Visitations (&visits)[kGroups], int &entries)
{
    struct Entry {
        int window, repeats;
        unsigned bits[2 * kGroups];
    };
    std::vector<Entry> list;
    const int windows = (tiles + 31) / 32;
    for (int i = 0; i < windows; ++i) {
        Entry e{Variant::kReverse ? windows - 1 - i : i, 1, {}};
        bool some = false;
        for (int j = 0; j < 32; ++j) {
            const int bit = Variant::kReverse ? 31 - j : j, tile = 32 * e.window + bit;
            for (int g = 0; g < kGroups && tile < tiles; ++g) {
                const int verdict = classes[g * tiles + tile];
                if (verdict == kVerdictEmpty)
                    continue;
                const bool masked = verdict == kVerdictPartial || (tile + 1) * kTileN > kv_len;
                e.bits[2 * g] |= 1u << bit;
                e.bits[2 * g + 1] |= static_cast<unsigned>(masked) << bit;
                visits[g].push_back({tile, masked});
                some = true;
            }
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
                    Visitations visits[kGroups];
                    words = list_of(classes, tiles, n.kv_len, visits, row.entries);
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
                for (int g = 0; g < kGroups; ++g) {
                    Visitations &v = c->expected[{b, h, tile, g}];
                    for (int i = row.reach.first; i < row.reach.end && row.has_rows(g); ++i) {
                        const int kv = i * kTileN, last = row.kv_last(kv, kTileN);
                        const int verdict =
                            Variant::kHasMask
                                ? Variant::verdict(a, t, row.q_first(g), row.q_last(g), kv, last)
                                : kVerdictFull;
                        if (verdict != kVerdictEmpty)
                            v.push_back({i, verdict == kVerdictPartial || kv + kTileN > n.kv_len});
                    }
                    if (Variant::kReverse)
                        std::reverse(v.begin(), v.end());
                }
            }
        }
}

// HOST_TENSOR 1: f32 {H}; 3: f32 {H, q, kv}.
template <class Args> static void place_captured(Args &a)
{
    if constexpr (kNumTensors > 0) {
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

struct HostMap { // in the place of a tensor map
    int tensor;  // 0 Q, 1 K, 2 V
    int rows;    // of a box
};

constexpr float kScale = 0.25f;

static unsigned short element(int tensor, long long i)
{
    const float x =
        static_cast<float>(mixed(static_cast<unsigned>(i * 3 + tensor)) % 2001) / 1000 - 1;
    return static_cast<unsigned short>(bf16_bits(tensor == 0 ? 4 * x : 2 * x));
}

static void place_tensors()
{
    KernelArgs &a = c->args;
    const long long rows_q = c->packed ? a.cu_seqlens_q[a.B] : a.Sq;
    const long long rows_kv = c->packed ? a.cu_seqlens_kv[a.B] : a.Skv;
    const int batches = c->packed ? 1 : a.B;
    a.D = kHeadDim;
    a.Dv = kHeadDimV;
    a.scale = kScale;
    a.scale_log2 = kScale * 1.4426950408889634f;
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
        unsigned short *x = c->take<unsigned short>(n[i]);
        for (size_t j = 0; j < n[i]; ++j)
            x[j] = element(i, j);
        *tensor[i] = x;
    }
    a.o = c->take<float>(n[3]);
    a.lse = c->take<float>(batches * a.H * rows_q);
    memset(a.o, 0xff, n[3] * (kOutElement == kElementF32 ? 4 : 2));
    memset(a.lse, 0xff, batches * a.H * rows_q * 4);
    // Rows behind used lengths hold NaN.
    for (int b = 0; b < a.B; ++b) {
        const Sequence s = sequence_of(a, b);
        const long long all_kv = c->packed ? a.cu_seqlens_kv[b + 1] - a.cu_seqlens_kv[b] : a.Skv;
        for (long long r = s.q_start + s.q_len; r < s.q_start + s.rows; ++r)
            memset((char *)a.q + 2 * (b * a.q_stride[0] + r * a.q_stride[2]), 0xff,
                   2 * a.q_stride[2]);
        for (long long r = s.kv_start + s.kv_len; r < s.kv_start + all_kv; ++r) {
            memset((char *)a.k + 2 * (b * a.k_stride[0] + r * a.k_stride[2]), 0xff,
                   2 * a.k_stride[2]);
            memset((char *)a.v + 2 * (b * a.v_stride[0] + r * a.v_stride[2]), 0xff,
                   2 * a.v_stride[2]);
        }
    }
}

// ---- what loads and products do ---------------------------------------------------

struct Tag {
    int tensor, at[4];
};
static std::vector<Tag> tags;
constexpr unsigned kNoTag = 0xffffffff;

static std::string text_of(unsigned tag)
{
    if (tag >= tags.size())
        return simt::text("nothing (%x)", tag);
    const Tag &t = tags[tag];
    return simt::text("%c row %d head %d batch %d", "QKV"[t.tensor], t.at[1], t.at[2], t.at[3]);
}

static int load_box(const simt::Load &load, bool starts)
{
    HostMap map;
    memcpy(&map, load.map, sizeof map);
    unsigned char *to = simt::m.cta->shared + load.dst;
    const int bytes = map.rows * 128;
    if (kTags) {
        unsigned tag = kNoTag;
        if (!starts) {
            tag = static_cast<unsigned>(tags.size());
            tags.push_back({map.tensor, {load.at[0], load.at[1], load.at[2], load.at[3]}});
        }
        memcpy(to, &tag, 4);
        return bytes;
    }
    if (starts) {
        memset(to, 0xff, bytes);
        return bytes;
    }
    const KernelArgs &a = c->args;
    const int d = map.tensor == 2 ? kHeadDimV : kHeadDim;
    const long long rows = map.tensor == 0 ? (c->packed ? a.cu_seqlens_q[a.B] : a.Sq)
                           : c->packed     ? a.cu_seqlens_kv[a.B]
                                           : a.Skv;
    const long long *stride = map.tensor == 0   ? a.q_stride
                              : map.tensor == 1 ? a.k_stride
                                                : a.v_stride;
    const auto *from = static_cast<const unsigned short *>(map.tensor == 0   ? a.q
                                                           : map.tensor == 1 ? a.k
                                                                             : a.v);
    for (int r = 0; r < map.rows; ++r)
        for (int i = 0; i < 64; ++i) {
            const long long row = load.at[1] + r, col = load.at[0] + i;
            const unsigned short x =
                row < rows && col < d
                    ? from[load.at[3] * stride[0] + load.at[2] * stride[1] + row * stride[2] + col]
                    : 0;
            memcpy(to + r * 128 + ((i / 8) ^ (r % 8)) * 16 + i % 8 * 2, &x, 2);
        }
    return bytes;
}

// 16 rows of 64 columns of O.
static void store_box(unsigned src, int c0, int c1, int c2, int c3)
{
    const KernelArgs &a = c->args;
    for (int r = 0; r < 16; ++r)
        for (int i = 0; i < 64; ++i)
            if (c1 + r < a.Sq && c0 + i < kHeadDimV)
                memcpy(static_cast<unsigned short *>(a.o) + c3 * a.o_stride[0] +
                           c2 * a.o_stride[1] + (c1 + r) * a.o_stride[2] + c0 + i,
                       simt::m.cta->shared + src + r * 128 + ((i / 8) ^ (r % 8)) * 16 + i % 8 * 2,
                       2);
}

static unsigned address_of(unsigned descriptor)
{
    return (descriptor & 0x3fff) << 4;
}

static float number_at(const unsigned char *panel, int r, int col, int pitch)
{
    unsigned short x;
    memcpy(&x, panel + col / 64 * pitch + r * 128 + ((col % 64 / 8) ^ (r % 8)) * 16 + col % 8 * 2,
           2);
    return __uint_as_float(static_cast<unsigned>(x) << 16);
}

static void multiply_tags(simt::Warp &w, const simt::Product &p)
{
    unsigned a, b;
    memcpy(&b, simt::m.cta->shared + address_of(p.b), 4);
    if (p.scores) {
        memcpy(&a, simt::m.cta->shared + address_of(p.a), 4);
        memcpy(p.s[0], &a, 4);
        memcpy(p.s[0] + 1, &b, 4);
        memset(p.s[0] + 2, 0, 8);
        return;
    }
    std::vector<unsigned> &seen = w.lane[0].seen;
    if (!p.accumulate)
        seen.clear();
    seen.insert(seen.end(), {p.p[0][0], p.p[0][1], b});
}

static void multiply_numbers(simt::Warp &w, const simt::Product &p)
{
    const unsigned char *shared = simt::m.cta->shared;
    static std::vector<float> x, y;
    const int rows = 16 * (w.number % 4);
    if (p.scores) {
        x.assign(16 * kHeadDim, 0);
        y.assign(kTileN * kHeadDim, 0);
        for (int d = 0; d < kHeadDim; ++d) {
            for (int r = 0; r < 16; ++r)
                x[r * kHeadDim + d] = number_at(shared + address_of(p.a), rows + r, d, 64 * 128);
            for (int r = 0; r < kTileN; ++r)
                y[r * kHeadDim + d] = number_at(shared + address_of(p.b), r, d, kTileN * 128);
        }
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < kTileN / 2; ++i) {
                const int col = i / 4 * 8 + lane % 4 * 2 + i % 2, row = lane / 4 + i % 4 / 2 * 8;
                float sum = 0;
                for (int d = 0; d < kHeadDim; ++d)
                    sum += x[row * kHeadDim + d] * y[col * kHeadDim + d];
                p.s[lane][i] = sum;
            }
        return;
    }
    x.assign(16 * kTileN, 0);
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < kTileN / 4; ++i)
            for (int e = 0; e < 2; ++e)
                x[(lane / 4 + i % 2 * 8) * kTileN + i / 2 * 8 + lane % 4 * 2 + e] =
                    __uint_as_float(e ? p.p[lane][i] & 0xffff0000u : p.p[lane][i] << 16);
    y.assign(kTileN * kHeadDimV, 0);
    for (int r = 0; r < kTileN; ++r)
        for (int d = 0; d < kHeadDimV; ++d)
            y[r * kHeadDimV + d] = number_at(shared + address_of(p.b), r, d, kTileN * 128);
    for (int lane = 0; lane < 32; ++lane) {
        std::vector<float> &o = w.lane[lane].output;
        for (int i = 0; i < kHeadDimV / 2; ++i) {
            const int col = i / 4 * 8 + lane % 4 * 2 + i % 2, row = lane / 4 + i % 4 / 2 * 8;
            float sum = p.accumulate ? o[i] : 0;
            for (int k = 0; k < kTileN; ++k)
                sum += x[row * kTileN + k] * y[k * kHeadDimV + col];
            o[i] = sum;
        }
    }
}

static void multiply(simt::Warp &w, const simt::Product &p)
{
    for (int lane = 0; lane < w.lanes; ++lane)
        if (p.scores) {
            for (int i = 0; i < kTileN / 2; ++i)
                if (memcmp(p.s[lane] + i, &kInFlight, 4))
                    simt::note(
                        simt::text("warp %d writes scores while Q K^T is in flight", w.number));
        } else if (memcmp(p.p[lane], &p.copy[lane * (kTileN / 4)], kTileN)) {
            simt::note(simt::text("warp %d writes P while P V is in flight", w.number));
        }
    if (kTags)
        multiply_tags(w, p);
    else
        multiply_numbers(w, p);
}

static bool reads(const simt::Product &p, unsigned address)
{
    const auto inside = [&](unsigned start, int bytes) {
        return address >= start && address < start + bytes;
    };
    return p.scores ? inside(address_of(p.a), kBytesQ) || inside(address_of(p.b), kBytesK)
                    : inside(address_of(p.b), kBytesV);
}

// ---- barriers ---------------------------------------------------------------------

static const char *role_of(int warp)
{
    static const char *const producers[] = {"scheduler", "loader", "tables", "idle"};
    static const char *const groups[] = {"group 0", "group 1", "group 2"};
    return warp < kConsumerWarps ? groups[warp / 4] : producers[warp - kConsumerWarps];
}

// Names; and slots hold garbage once they are let go.
static void name_barriers(simt::Cta &cta)
{
    Control &control = *reinterpret_cast<Control *>(cta.shared + kBytesTiles);
    simt::m.cta = &cta;
    const Tiles at{0};
    const auto name = [&](Barrier &b, const char *what, int i, std::function<void()> over = {}) {
        simt::MBarrier &m = cta.barriers[b.address()];
        m.name = simt::text("%s[%d]", what, i);
        m.over = over;
    };
    const auto spoil = [&cta](void *from, size_t bytes) {
        return [=, &cta] {
            (void)cta;
            memset(from, 0xff, bytes);
        };
    };
    for (int i = 0; i < kStages; ++i) {
        name(control.k_full[i], "k_full", i);
        name(control.v_full[i], "v_full", i);
        name(control.table_full[i], "table_full", i);
        name(control.k_empty[i], "k_empty", i, spoil(cta.shared + at.k(i), kTags ? 4 : kBytesK));
        name(control.v_empty[i], "v_empty", i, [=, &cta, &control] {
            memset(cta.shared + at.v(i), 0xff, kTags ? 4 : kBytesV);
            if (kTables) {
                memset(&control.stage.col[i], 0xff, sizeof control.stage.col[i]);
                memset(&control.stage.diag[i], 0xff, sizeof control.stage.diag[i]);
            }
        });
    }
    for (int i = 0; i < kQBuffers; ++i)
        for (int g = 0; g < kGroups; ++g) {
            name(control.q_full[i][g], "q_full of buffer, group", 10 * i + g);
            name(control.q_empty[i][g], "q_empty of buffer, group", 10 * i + g,
                 spoil(cta.shared + at.q(i, g), kTags ? 4 : kBytesQ));
        }
    for (unsigned i = 0; i < kItems; ++i) {
        name(control.item_full[i], "item_full", i);
        name(control.item_empty[i], "item_empty", i, spoil(&control.item[i], sizeof(Work)));
    }
    for (unsigned i = 0; i < kSegments; ++i) {
        name(control.segment_full[i], "segment_full", i);
        name(control.segment_empty[i], "segment_empty", i,
             spoil(&control.segment[i], sizeof(Segment)));
    }
    name(control.started, "started", 0);
    for (simt::Warp &w : cta.warps)
        for (simt::Lane &l : w.lane)
            l.output.assign(kHeadDimV / 2, __int_as_float(0x7fc00000));
}

// ---- checks -----------------------------------------------------------------------

static const Visitations &expected_of(const Work &w, int group)
{
    const auto at = c->expected.find({w.b, w.h, w.q0 / kTileM, group});
    if (at == c->expected.end())
        simt::fail(simt::text("an item that is none: b %d h %d row %d", w.b, w.h, w.q0));
    return at->second;
}

static void check_tag(unsigned tag, int tensor, int row, int head, int b, const char *what)
{
    const KernelArgs &a = c->args;
    const Tag want{tensor,
                   {0, row, head,
                    tensor == 0     ? (a.q_stride[0] ? b : 0)
                    : a.k_stride[0] ? b
                                    : 0}};
    if (tag >= tags.size() || memcmp(&tags[tag], &want, sizeof want))
        simt::fail(std::string(what) + " is of " + text_of(tag) +
                   simt::text(", not of row %d head %d batch %d", row, head, want.at[3]));
}

#if HOST_CONSUMER_LANES == 1
bool host_quick()
{
    return simt::m.rng() % 4 != 0;
}

void check_weights(const KernelArgs &args, const Work &w, const Rows &rows, const Stage &stage,
                   int slot, int kv0, const Scores &s, bool quick)
{
    const int group = threadIdx.x / 128;
    unsigned q, k;
    memcpy(&q, &s[0][0][0], 4);
    memcpy(&k, &s[0][0][1], 4);
    const Visitations &expected = expected_of(w, group);
    bool found = false;
    for (const Visited &v : expected)
        if (v.tile == kv0 / kTileN) {
            found = true;
            if (quick && v.masked && !kMaskAtOnce)
                simt::fail(simt::text("KV tile %d is not masked", v.tile));
        }
    if (!found)
        simt::fail(simt::text("b %d h %d row %d: KV tile %d is not for this group", w.b, w.h, w.q0,
                              kv0 / kTileN));
    check_tag(q, 0, w.q_start + w.q0 + 64 * group, w.h, w.b, "Q");
    check_tag(k, 1, w.kv_start + kv0, w.h / args.group, w.b, "K");
    if constexpr (Stage::kHasCol)
        for (int i = 0; i < kTileN; ++i) {
            const Variant::Col x = Variant::col(args, w.t, kv0 + i);
            if (memcmp(&x, &stage.col[slot][i / 2].of[i % 2], sizeof x))
                simt::fail(simt::text("the table of KV tile %d has other columns", kv0 / kTileN));
        }
    if constexpr (Stage::kHasDiag)
        for (int i = 0; i < kDiagonals; ++i) {
            const Variant::Diag x = Variant::diag(args, w.t, w.q0 - kv0 + i - (kTileN - 1));
            if (memcmp(&x, &stage.diag[slot][i], sizeof x))
                simt::fail(simt::text("the table of KV tile %d has other diagonals", kv0 / kTileN));
        }
    if constexpr (kHasRows) {
        const Variant::Row x = Variant::row(args, w.t, w.q0 + threadIdx.x / 32 * kRowsPerWarp);
        if (memcmp(&x, &rows[0][0], sizeof x))
            simt::fail("other rows");
    }
}

void check_output(const KernelArgs &args, const Work &w, float sum, bool nothing)
{
    const int group = threadIdx.x / 128;
    const Visitations &expected = expected_of(w, group);
    const std::vector<unsigned> &seen = simt::m.lane->seen;
    const std::string item = simt::text("b %d h %d row %d: ", w.b, w.h, w.q0);
    if (nothing ? !expected.empty() : seen.size() != 3 * expected.size())
        simt::fail(item + simt::text("%d tiles, not %d", nothing ? 0 : (int)seen.size() / 3,
                                     (int)expected.size()));
    if (!nothing && sum != static_cast<float>(expected.size()))
        simt::fail(item + "sums of other tiles");
    for (size_t i = 0; !nothing && i < expected.size(); ++i) {
        const int row = w.kv_start + expected[i].tile * kTileN;
        check_tag(seen[3 * i], 0, w.q_start + w.q0 + 64 * group, w.h, w.b, "Q of the output");
        check_tag(seen[3 * i + 1], 1, row, w.h / args.group, w.b, "P");
        check_tag(seen[3 * i + 2], 2, row, w.h / args.group, w.b, "V");
    }
    ++c->written[{w.b, w.h, w.q0 / kTileM, group}];
    simt::preempt();
}
#endif

static std::string check_all()
{
    const KernelArgs &a = c->args;
    if (a.next_item && (a.next_item[0] || a.next_item[1]))
        return "the counter is not reset";
    if (kTags) {
        for (const auto &e : c->expected)
            if (c->written[e.first] != 4)
                return simt::text("b %d h %d tile %d group %d is written by %d warps, not 4",
                                  std::get<0>(e.first), std::get<1>(e.first), std::get<2>(e.first),
                                  std::get<3>(e.first), c->written[e.first]);
        return "";
    }
    for (int b = 0; b < a.B; ++b)
        for (int h = 0; h < a.H; ++h) {
            const Sequence n = sequence_of(a, b);
            const Variant::Tile t = Variant::tile(a, b, h);
            for (int q = 0; q < n.rows; ++q) {
                const long long at =
                    b * a.o_stride[0] + h * a.o_stride[1] + (n.q_start + q) * a.o_stride[2];
                const float lse = a.lse[b * a.lse_stride[0] + h * a.lse_stride[1] + n.q_start + q];
                const auto *qs = (const unsigned short *)a.q + b * a.q_stride[0] +
                                 h * a.q_stride[1] + (n.q_start + q) * a.q_stride[2];
                double sum = 0, o[kHeadDimV] = {};
                const Variant::Row row = Variant::row(a, t, q);
                for (int kv = 0; q < n.q_len && kv < n.kv_len; ++kv) {
                    const auto col = Variant::col(a, t, kv);
                    const auto diag = Variant::diag(a, t, q - kv);
                    const auto base = Variant::base(a, t, row, q, kv);
                    if (Variant::kHasMask &&
                        !Variant::mask(a, t, row, col, diag, base, 0, q, kv, 0))
                        continue;
                    const auto *y = (const unsigned short *)a.k + b * a.k_stride[0] +
                                    h / a.group * a.k_stride[1] + (n.kv_start + kv) * a.k_stride[2];
                    const auto *z = (const unsigned short *)a.v + b * a.v_stride[0] +
                                    h / a.group * a.v_stride[1] + (n.kv_start + kv) * a.v_stride[2];
                    float s = 0;
                    for (int d = 0; d < kHeadDim; ++d)
                        s += __uint_as_float(qs[d] << 16) * __uint_as_float(y[d] << 16);
                    const double x = Variant::kHasScore
                                         ? Variant::score(a, t, row, col, diag, base, s, q, kv, 0) *
                                               Variant::multiplier(a, t)
                                         : s * a.scale_log2;
                    const double p = std::exp2(x);
                    sum += p;
                    for (int d = 0; d < kHeadDimV; ++d)
                        o[d] += p * __uint_as_float(z[d] << 16);
                }
                const bool right_lse =
                    sum == 0 ? lse == -INFINITY : std::abs(std::log(sum) - lse) < 1e-3;
                bool right = right_lse;
                float got = 0;
                int d = 0;
                for (; d < kHeadDimV && right; ++d) {
                    got = kOutElement == kElementF32
                              ? ((const float *)a.o)[at + d]
                              : __uint_as_float(((const unsigned short *)a.o)[at + d] << 16);
                    right = std::abs((sum == 0 ? 0 : o[d] / sum) - got) < 0.02;
                }
                if (!right)
                    return simt::text("b %d h %d q %d: LSE %g, not %g; O[%d] %g, not %g", b, h, q,
                                      lse, sum == 0 ? -INFINITY : std::log(sum), d - 1, got,
                                      o[max(d - 1, 0)] / sum);
            }
        }
    return "";
}

// The fixed order gives every query tile of every head to one CTA, whatever their numbers.
static std::string check_fixed_order(int shapes)
{
    simt::Cta cta;
    simt::m.cta = &cta;
    for (int i = 0; i < shapes; ++i) {
        const int most = draw(0, 1) ? 6 : 200;
        KernelArgs a{};
        a.B = draw(1, 3);
        a.H = draw(1, most) / a.B + 1;
        a.q_tiles = draw(1, most);
        a.num_work = a.B * a.H * a.q_tiles;
        a.section_heads = draw(1, a.B * a.H);
        simt::m.grid.x = min(a.num_work, draw(1, most));
        std::vector<int> given(a.num_work);
        const std::string shape = simt::text("fixed order, B %d H %d, %d tiles, %u CTAs: ", a.B,
                                             a.H, a.q_tiles, simt::m.grid.x);
        for (cta.index.x = 0; cta.index.x < simt::m.grid.x; ++cta.index.x) {
            FixedOrder order(a);
            for (int n = 0;; ++n) {
                const Item item = order.next(a);
                if (item.tile < 0)
                    break;
                if (item.b < 0 || item.b >= a.B || item.h < 0 || item.h >= a.H ||
                    item.tile >= a.q_tiles || n > a.num_work)
                    return shape + "an item that is none";
                ++given[(item.b * a.H + item.h) * a.q_tiles + item.tile];
            }
            if (order.next(a).tile >= 0)
                return shape + "goes on behind its end";
        }
        for (int n : given)
            if (n != 1)
                return shape + simt::text("an item is given %d times", n);
    }
    return "";
}

// ---- program ----------------------------------------------------------------------

static std::string describe_case()
{
    const KernelArgs &a = c->args;
    std::string all = simt::text("B %d H %d/%d Sq %d Skv %d%s%s%s, %d CTAs, %s, %d items:", a.B,
                                 a.H, a.Hkv, a.Sq, a.Skv, c->packed ? " packed" : "",
                                 a.seqused_q ? " used q" : "", a.seqused_kv ? " used kv" : "",
                                 c->ctas, a.next_item ? "counter" : "fixed", a.num_work);
    int lines = 0;
    for (const auto &e : c->expected) {
        const int group = std::get<3>(e.first);
        if (group == 0 && lines++ == 24)
            break;
        if (group == 0)
            all += simt::text("\n    b %d h %d tile %d:", std::get<0>(e.first),
                              std::get<1>(e.first), std::get<2>(e.first));
        all += group ? " |" : "";
        const Visitations &v = e.second;
        for (size_t j = 0; j < v.size() && j < 20; ++j)
            all += simt::text(" %d%s", v[j].tile, v[j].masked ? "m" : "");
        all += v.size() > 20 ? " ..." : v.empty() ? " -" : "";
    }
    return all;
}

static std::string run_case(unsigned seed, int size, long &weight)
{
    static std::unique_ptr<Case> owner;
    owner = std::make_unique<Case>();
    Case &now = *owner;
    c = owner.get();
    memset(&now.args, 0, sizeof now.args);
    rng.seed(seed);
    draw_lengths(size);
    KernelArgs &a = now.args;
    a.schedule.per_b = a.schedule.per_h = 1;
    place_captured(a);
    a.num_work = a.q_tiles * a.B * a.H;
    if (kListed || c->packed)
        place_lists();
    if (!kListed)
        expect_bounded();
    place_tensors();
    a.section_heads = draw(1, a.B * a.H);
    now.ctas = min(a.num_work, draw(0, 1) ? 1 : draw(1, 5));
    if (FACC_SCHEDULED)
        a.next_item = now.take<int>(2);
    if (now.ctas == 0)
        return "";
    weight = a.num_work;
    for (const auto &e : now.expected)
        weight += static_cast<long>(e.second.size());
    for (int launch = 0; launch < 2; ++launch) {
        tags.clear();
        now.written.clear();
        const std::string wrong =
            simt::launch(now.ctas, kWarps, kConsumerWarps, seed + 77777 * launch,
                         [&] { facc_forward(now.args); });
        std::string what = wrong.empty() ? check_all() : wrong;
        if (!what.empty())
            return what;
        if (!(a.next_item && draw(0, 1)))
            break;
    }
    return "";
}

int main(int argc, char **argv)
{
    const int seed = argc > 1 ? atoi(argv[1]) : 1, cases = argc > 2 ? atoi(argv[2]) : 100;
    const int most = argc > 3 ? atoi(argv[3]) : 4;
    simt::m.prepare = name_barriers;
    simt::m.load = load_box;
    simt::m.store = store_box;
    simt::m.product = multiply;
    simt::m.reads = reads;
    simt::m.role = role_of;
    int failed = 0;
    rng.seed(seed);
    const std::string order = FACC_SCHEDULED ? "" : check_fixed_order(cases);
    if (!order.empty()) {
        printf("%s\n", order.c_str());
        return 1;
    }
    long smallest = 0, tiles = 0;
    std::string first;
    for (int i = 0; i < cases; ++i) {
        long weight = 0;
        const std::string what = run_case(seed + i, 1 + i * most / cases, weight);
        tiles += weight;
        if (what.empty())
            continue;
        ++failed;
        if (first.empty() || weight < smallest) {
            smallest = weight;
            first = simt::text("seed %d size %d: ", seed + i, 1 + i * most / cases) + what +
                    "\n  " + describe_case();
        }
    }
    if (failed)
        printf("%d of %d cases fail; the smallest:\n%s\n", failed, cases, first.c_str());
    else
        printf("%d cases, %ld items and visits\n", cases, tiles);
    return failed != 0;
}

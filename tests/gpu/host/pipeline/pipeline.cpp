// Runs the sm90 forward kernel on the CPU, warps and all (warps.h), on random cases, and checks
// what every warpgroup multiplies and writes. One program per variant and configuration
// (pipeline_host.py compiles them): args SEED CASES [SIZE [first]]; first: the first case that
// fails is the last.
//
// With one lane for each consumer warp (HOST_CONSUMER_LANES 1) tiles hold tags: which tensor, row
// and head they are; products, softmax and epilogue pass these on. With 32 lanes tiles, softmax
// and epilogue are the real ones, and O and LSE are compared with a plain loop.
#include "common/philox.h"
#include "forward_host.cuh" // templates/sm90/forward.cu
#include "cases.h"
#include "orders.h"

static_assert(kPlanes == (kPlaneBytes > 0), "the program is about copies");

// ---- what loads and products do ---------------------------------------------------

struct Tag {
    int tensor, at[5];
};
static std::vector<Tag> tags;
constexpr unsigned kNoTag = 0xffffffff; // 0 is none either: weights of a dead tile

static std::string text_of(unsigned tag)
{
    if (tag == 0 || tag >= tags.size())
        return simt::text("nothing (%x)", tag);
    const Tag &t = tags[tag];
    return simt::text("%c row %d head %d batch %d", "QKVrc"[t.tensor], t.at[1], t.at[2], t.at[3]);
}

// A place in shared memory, by TMA's swizzle of rows of so many bytes: bits above 6 change those of
// 16-byte units.
static unsigned swizzled(unsigned at, int width)
{
    return at ^ ((at >> 7 & (width / 16 - 1)) << 4);
}

// Of element i of row r of an extra panel.
static int extra_at(int r, int i)
{
    return swizzled(r * kExtraRowBytes + 2 * i, kExtraRowBytes);
}

template <class Args>
static void load_extra_box(const Args &a, const HostMap &map, const simt::Load &load,
                           unsigned char *to)
{
    if constexpr (kExtraDim > 0) {
        const facc_captured &t = a.tensors[map.tensor - 3];
        const bool of_rows = map.tensor == 3;
        const int rows = t.shape[of_rows ? 2 : 0], width = kExtraRowBytes / 2;
        for (int r = 0; r < map.rows; ++r)
            for (int i = 0; i < width; ++i) {
                const int row = load.at[1] + r, col = load.at[0] + i;
                const long long at =
                    (of_rows ? load.at[2] * t.stride[0] + load.at[3] * t.stride[1] : 0) +
                    1ll * row * kExtraDim + col;
                const unsigned short x = row >= 0 && row < rows && col < kExtraDim
                                             ? static_cast<const unsigned short *>(t.data)[at]
                                             : 0;
                memcpy(to + extra_at(r, i), &x, 2);
            }
    }
}

// An element of the tensor of plane.cuh as TMA reads it; broadcast dimensions have one index.
template <class Args> static unsigned plane_element(const Args &a, const int (&at)[4])
{
    const facc_captured &t = a.tensors[0]; // columns, rows, then the others
    static constexpr int kDims[4] = {3, 1, 0, 2};
    long long place = 0;
    for (int k = 0; k < 4; ++k) {
        const int d = kDims[k];
        if (at[k] < 0 || at[k] >= (t.stride[d] ? t.shape[d] : 1))
            return 0;
        place += at[k] * t.stride[d];
    }
    unsigned x = 0;
    memcpy(&x, static_cast<const char *>(t.data) + place * kPlaneBytes, kPlaneBytes);
    return x;
}

template <class Args>
static void load_plane_box(const Args &a, const HostMap &map, const simt::Load &load)
{
    if constexpr (kPlanes) {
        if (!a.tensors[0].copied)
            simt::note("a tensor is copied that has no map");
        if (load.dst % 128 || load.at[4])
            simt::note("a box is copied to what is no multiple of 128 bytes, or from elsewhere");
        if (load.at[0] * kPlaneBytes % 16)
            simt::note("a box begins between multiples of 16 bytes");
        constexpr int kWidth = kPlaneWidth / kPlaneBytes;
        for (int i = 0; i < map.rows * kWidth; ++i) {
            const int r = i / kWidth, col = i % kWidth;
            const unsigned x =
                plane_element(a, {load.at[0] + col, load.at[1] + r, load.at[2], load.at[3]});
            memcpy(simt::m.cta->shared +
                       swizzled(load.dst + r * kPlaneWidth + col * kPlaneBytes, kPlaneWidth),
                   &x, kPlaneBytes);
        }
    }
}

// Of an element, with the swizzle of rows so wide.
static int place_in_panel(int row, int col)
{
    return swizzled(row * kRowBytesQK + col * static_cast<int>(sizeof(Element)), kRowBytesQK);
}

static int load_box(const simt::Load &load, bool starts)
{
    HostMap map{};
    if (load.bytes == 0)
        memcpy(&map, load.map, sizeof map);
    unsigned char *to = simt::m.cta->shared + load.dst;
    const int bytes = load.bytes ? load.bytes
                                 : map.rows * (map.tensor == 5          ? kPlaneWidth
                                               : map.tensor > 2         ? kExtraRowBytes
                                               : map.tensor < 2 || kFp8 ? kRowBytesQK
                                                                        : 128);
    if (map.tensor == 5 && !starts) {
        load_plane_box(c->args, map, load);
        return bytes;
    }
    if (kTags && map.tensor != 5) {
        unsigned tag = kNoTag;
        if (!starts) {
            tag = static_cast<unsigned>(tags.size());
            Tag t{map.tensor, {}};
            memcpy(t.at, load.at, sizeof t.at);
            tags.push_back(t);
        }
        memcpy(to, &tag, 4);
        return bytes;
    }
    if (starts) {
        memset(to, 0xff, bytes);
        return bytes;
    }
    if (load.bytes) {
        memcpy(to, load.map, bytes);
        return bytes;
    }
    const KernelArgs &a = c->args;
    if (map.tensor > 2) {
        load_extra_box(a, map, load, to);
        return bytes;
    }
    const int d = map.tensor == 2 ? kHeadDimV : kHeadDim;
    const long long rows = map.tensor == 0 ? (c->packed ? a.cu_seqlens_q[a.B] : a.Sq)
                           : c->packed     ? a.cu_seqlens_kv[a.B]
                                           : a.Skv;
    const long long *stride = map.tensor == 0   ? a.q_stride
                              : map.tensor == 1 ? a.k_stride
                                                : a.v_stride;
    const auto *from = static_cast<const Element *>(map.tensor == 0   ? a.q
                                                    : map.tensor == 1 ? a.k
                                                                      : a.v);
    for (int r = 0; r < map.rows; ++r)
        for (int i = 0; i < kPanelColumns; ++i) {
            const long long row = load.at[1] + r, col = load.at[0] + i;
            const Element x =
                row < rows && col < d
                    ? from[load.at[3] * stride[0] + load.at[2] * stride[1] + row * stride[2] + col]
                    : 0;
            memcpy(to + place_in_panel(r, i), &x, sizeof x);
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
    Element x;
    memcpy(&x, panel + col / kPanelColumns * pitch + place_in_panel(r, col % kPanelColumns),
           sizeof x);
    return value_of(x);
}

// Weight of a lane's P, and V, as instructions take them.
#ifdef FACC_FP8
static void read_weights(const simt::Product &p, int lane, std::vector<float> &x)
{
    for (int i = 0; i < simt::kWeightWords; ++i)
        for (int e = 0; e < 4; ++e)
            x[(lane / 4 + i % 2 * 8) * kTileN + i / 2 * 16 + e / 2 * 8 + lane % 4 * 2 + e % 2] =
                e4m3_value(p.p[lane][i] >> 8 * e & 255);
}
static float value_at(const unsigned char *v, int row, int d)
{
    return e4m3_value(v[row / 32 * 32 * kHeadDimV + facc_v_byte(d, row % 32)]);
}
#else
static void read_weights(const simt::Product &p, int lane, std::vector<float> &x)
{
    for (int i = 0; i < kTileN / 4; ++i)
        for (int e = 0; e < 2; ++e)
            x[(lane / 4 + i % 2 * 8) * kTileN + i / 2 * 8 + lane % 4 * 2 + e] =
                __uint_as_float(e ? p.p[lane][i] & 0xffff0000u : p.p[lane][i] << 16);
}
static float value_at(const unsigned char *v, int row, int d)
{
    return number_at(v, row, d, kTileN * 128);
}
#endif

static void multiply_tags(simt::Warp &w, const simt::Product &p)
{
    unsigned a, b;
    memcpy(&b, simt::m.cta->shared + address_of(p.b), 4);
    if (p.scores) {
        memcpy(&a, simt::m.cta->shared + address_of(p.a), 4);
        memcpy(p.s[0], &a, 4);
        memcpy(p.s[0] + 1, &b, 4);
        memset(p.s[0] + 2, 0, 8);
        if (kExtraDim > 0) { // in tags the factor is 1: all columns at once
            memcpy(p.s[0] + 2, simt::m.cta->shared + address_of(p.a) + kHeadBytesQ, 4);
            memcpy(p.s[0] + 3, simt::m.cta->shared + address_of(p.b) + kHeadBytesK, 4);
        }
        return;
    }
    std::vector<unsigned> &seen = w.lane[0].seen;
    if (!p.accumulate)
        seen.clear();
    seen.insert(seen.end(), {p.p[0][0], p.p[0][1], b});
}

static float extra_number(const unsigned char *panels, int rows, int r, int col)
{
    unsigned short x;
    memcpy(&x, panels + col / 64 * rows * kExtraRowBytes + extra_at(r, col % 64), 2);
    return __uint_as_float(static_cast<unsigned>(x) << 16);
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
                x[r * kHeadDim + d] =
                    number_at(shared + address_of(p.a), rows + r, d, 64 * kRowBytesQK);
            for (int r = 0; r < kTileN; ++r)
                y[r * kHeadDim + d] =
                    number_at(shared + address_of(p.b), r, d, kTileN * kRowBytesQK);
        }
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < kTileN / 2; ++i) {
                const int col = i / 4 * 8 + lane % 4 * 2 + i % 2, row = lane / 4 + i % 4 / 2 * 8;
                float sum = p.accumulate ? p.before[lane * (kTileN / 2) + i] : 0;
                for (int d = 0; d < kExtraDim && p.columns != simt::kHeadColumns; ++d)
                    sum += extra_number(shared + address_of(p.a) + kHeadBytesQ, 64, rows + row, d) *
                           extra_number(shared + address_of(p.b) + kHeadBytesK, kTileN, col, d);
                for (int d = 0; d < kHeadDim && p.columns != simt::kExtraColumns; ++d)
                    sum += x[row * kHeadDim + d] * y[col * kHeadDim + d];
                p.s[lane][i] = sum;
            }
        return;
    }
    x.assign(16 * kTileN, 0);
    for (int lane = 0; lane < 32; ++lane)
        read_weights(p, lane, x);
    y.assign(kTileN * kHeadDimV, 0);
    for (int r = 0; r < kTileN; ++r)
        for (int d = 0; d < kHeadDimV; ++d)
            y[r * kHeadDimV + d] = value_at(shared + address_of(p.b), r, d);
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
        } else if (memcmp(p.p[lane], &p.copy[lane * simt::kWeightWords], 4 * simt::kWeightWords)) {
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
    static const char *const producers[] = {"scheduler", "K loader", "V loader",
                                            kTables ? "tables" : "other half of V"};
    static const char *const groups[] = {"group 0", "group 1", "group 2"};
    return warp < kConsumerWarps ? groups[warp / 4] : producers[warp - kConsumerWarps];
}

template <class B, class Spoil, class Name>
static void name_natural(B &natural, const Spoil &spoil, const Name &name)
{
    for (int i = 0; i < kNaturalSlots; ++i) {
        name(natural.natural_full[i], "natural_full", i);
        name(natural.natural_empty[i], "natural_empty", i, spoil(i));
    }
}

// Names; and slots hold garbage once they are let go.
static void name_barriers(simt::Cta &cta)
{
    Control &control = *reinterpret_cast<Control *>(cta.shared + kBytesTiles + kGroups * kBytesO);
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
    const auto spoil_table = [&](Control &control, unsigned i) {
        auto &col = control.stage.col[i];
        return [&col, i, &cta] {
            memset(&col, 0xff, sizeof col);
            if (kPlanes)
                memset(cta.shared + Tiles{0}.plane(i), 0xff, kPlaneSlotBytes);
        };
    };
    for (int i = 0; i < kStages; ++i) {
        name(control.k_full[i], "k_full", i);
        name(control.v_full[i], "v_full", i);
        name(control.k_empty[i], "k_empty", i, spoil(cta.shared + at.k(i), kTags ? 4 : kBytesK));
        name(control.v_empty[i], "v_empty", i, spoil(cta.shared + at.v(i), kTags ? 4 : kBytesV));
    }
    if constexpr (kTransposesV)
        name_natural(
            control, [&](int i) { return spoil(cta.shared + at.natural(i), kBytesV); }, name);
    for (unsigned i = 0; i < kTableSlots; ++i) {
        name(control.table_full[i], "table_full", i);
        cta.barriers[control.table_full[i].address()].may_lack_load = kPlanes;
        // Not the diagonals, which the next tile's are copied from.
        name(control.table_empty[i], "table_empty", i, spoil_table(control, i));
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
    for (unsigned i = 0; i < kRuns; ++i) {
        name(control.run_full[i], "run_full", i);
        name(control.run_empty[i], "run_empty", i, spoil(&control.run[i], sizeof(Run)));
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

static void check_tag(unsigned tag, const Tag &want, const char *what)
{
    if (tag == 0 || tag >= tags.size() || memcmp(&tags[tag], &want, sizeof want))
        simt::fail(
            std::string(what) + " is of " + text_of(tag) +
            simt::text(", not of row %d head %d batch %d", want.at[1], want.at[2], want.at[3]));
}

static void check_tag(unsigned tag, int tensor, int row, int head, int b, const char *what)
{
    const KernelArgs &a = c->args;
    check_tag(tag,
              Tag{tensor,
                  {0, row, head,
                   tensor == 0     ? (a.q_stride[0] ? b : 0)
                   : a.k_stride[0] ? b
                                   : 0}},
              what);
}

// What the table warp has had copied for this warp's rows.
template <class Args>
static void check_plane(const Args &args, const Work &w, const Stage &stage, int slot, int kv0)
{
    for (int i = 0; i < 16 * kTileN; ++i) {
        const int r = threadIdx.x / 32 * 16 + i / kTileN, col = i % kTileN,
                  byte = col * kPlaneBytes;
        const unsigned at = plane_beside(stage, slot) + byte / kPlaneWidth * kPlanePanelBytes +
                            r * kPlaneWidth + byte % kPlaneWidth;
        const facc_captured &t = args.tensors[0];
        const unsigned want =
            plane_element(args, {kv0 + col + 8 * w.h - 8 + w.h / 3 * 3, w.q0 + r + w.h - 3,
                                 t.stride[0] ? w.h : 0, t.stride[2] ? w.b : 0});
        if (memcmp(&want, simt::m.cta->shared + swizzled(at, kPlaneWidth), kPlaneBytes))
            simt::fail(simt::text("row %d column %d of KV tile %d is not the tensor's", r, col,
                                  kv0 / kTileN));
    }
}

#if HOST_CONSUMER_LANES == 1
bool host_quick()
{
    return simt::m.rng() % 4 != 0;
}

bool check_weights(const KernelArgs &args, const Work &w, const Rows &rows, const Stage &stage,
                   int slot, int kv0, const Scores &s, bool quick)
{
    const int group = threadIdx.x / 128, tile = kv0 / kTileN;
    unsigned q, k;
    memcpy(&q, &s[0][0][0], 4);
    memcpy(&k, &s[0][0][1], 4);
    const Visitations &expected = expected_of(w, group);
    const auto v = std::find_if(expected.begin(), expected.end(),
                                [&](const Visited &x) { return x.tile == tile; });
    const std::string what = simt::text("b %d h %d row %d: KV tile %d ", w.b, w.h, w.q0, tile);
    if (v == expected.end())
        simt::fail(what + "is for no group");
    const bool first = v == expected.begin();
    const bool asked = kMaskAtOnce ? kv0 + kTileN > w.kv_len : v->masked; // cell by cell
    int &tried = simt::m.lane->tried;
    if (quick && first && !kGuesses)
        simt::fail(what + "is the first and weighed against references");
    if (quick && asked)
        simt::fail(what + "is not masked");
    if (!quick && v->dead)
        simt::fail(what + "is weighed, but is dead");
    if (!quick && (!first || kGuesses) && !asked && tried != tile)
        simt::fail(what + "is weighed exactly at once");
    tried = quick ? tile : -1;
    check_tag(q, 0, w.q_start + w.q0 + 64 * group, w.h, w.b, "Q");
    check_tag(k, 1, w.kv_start + kv0, w.h / args.group, w.b, "K");
    if (kExtraDim > 0) { // dot.cuh
        memcpy(&q, &s[0][0][2], 4);
        memcpy(&k, &s[0][0][3], 4);
        check_tag(q, Tag{3, {0, w.q0 + 64 * group + 3, w.b, w.h / 2}}, "rows");
        check_tag(k, Tag{4, {0, kv0 + 5 * w.b + 2}}, "columns");
    }
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
    if constexpr (kPlanes)
        if (w.is_copied())
            check_plane(args, w, stage, slot, kv0);
    if constexpr (kHasRows && !kRowsLate) {
        const Variant::Row x = Variant::row(args, w.t, w.q0 + threadIdx.x / 32 * kRowsPerWarp);
        if (memcmp(&x, &rows[0][0], sizeof x))
            simt::fail("other rows");
    }
    return std::any_of(expected.begin(), v, [](const Visited &x) { return !x.dead; });
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
    int sums = 0;
    for (size_t i = 0; !nothing && i < expected.size(); ++i) {
        const int row = w.kv_start + expected[i].tile * kTileN;
        const unsigned *p = &seen[3 * i];
        const bool zero = p[0] == 0 && p[1] == 0;
        if (expected[i].dead && !zero && !kMaskAtOnce)
            simt::fail(item + simt::text("dead tile %d has weights", expected[i].tile));
        if (!expected[i].dead || !zero) {
            check_tag(p[0], 0, w.q_start + w.q0 + 64 * group, w.h, w.b, "Q of the output");
            check_tag(p[1], 1, row, w.h / args.group, w.b, "P");
            ++sums;
        }
        check_tag(p[2], 2, row, w.h / args.group, w.b, "V");
    }
    if (!nothing && sum != static_cast<float>(sums))
        simt::fail(item + "sums of other tiles");
    ++c->written[{w.b, w.h, w.q0 / kTileM, group}];
    simt::preempt();
}
#endif

// What the extra columns add to q . k.
template <class Args> static float extra_product(const Args &a, int b, int h, int q, int kv)
{
    float sum = 0;
    if constexpr (kExtraDim > 0) {
        const auto *x = static_cast<const unsigned short *>(a.tensors[0].data) +
                        b * a.tensors[0].stride[0] + h / 2 * a.tensors[0].stride[1] +
                        (q + 3) * kExtraDim;
        const auto *y =
            static_cast<const unsigned short *>(a.tensors[1].data) + (kv + 5 * b + 2) * kExtraDim;
        for (int d = 0; d < kExtraDim; ++d)
            sum += __uint_as_float(x[d] << 16) * __uint_as_float(y[d] << 16);
    }
    return sum * HOST_DOT_FACTOR;
}

static bool is_dropped(const KernelArgs &a, int b, int h, int q, int kv)
{
    unsigned x[4] = {unsigned(kv / 16 * 4 + kv % 8 / 2), unsigned(q / 16 * 8 + q % 8),
                     unsigned(b * a.H + h), a.dropout_offset};
    facc_philox(x, a.dropout_key[0], a.dropout_key[1]);
    const unsigned word = x[q / 8 % 2 + 2 * (kv / 8 % 2)];
    return (kv % 2 ? word >> 16 : word & 0xffff) + a.dropout_drops >= 65536;
}

// From raw scores to log2 units; descales of blocks of rows, of V; V's mean.
#ifdef FACC_FP8
static float factor_of(const KernelArgs &, const Variant::Tile &t)
{
    return t.scale_log2;
}
static float descale(const float *x, const long long (&stride)[3], int b, int h, int block)
{
    return x ? x[b * stride[0] + h * stride[1] + (kBlockScales ? block * stride[2] : 0)] : 1.0f;
}
static float scale_qk(const KernelArgs &a, int b, int h, int q, int kv)
{
    const facc_fp8 &f = a.fp8;
    return !kBlockScales ? 1.0f
                         : descale(f.descale_q, f.descale_q_stride, b, h / f.descale_q_group,
                                   q / f.descale_block_q) *
                               descale(f.descale_k, f.descale_k_stride, b, h / a.group,
                                       kv / f.descale_block_kv);
}
static float scale_v(const KernelArgs &a, int b, int h, int kv)
{
    const facc_fp8 &f = a.fp8;
    return descale(f.descale_v, f.descale_v_stride, b, h / a.group, kv / f.descale_block_kv);
}
static float mean_v(const KernelArgs &a, int b, int h, int d)
{
    const facc_fp8 &f = a.fp8;
    return f.v_mean ? f.v_mean[b * f.v_mean_stride[0] + h / a.group * f.v_mean_stride[1] + d]
                    : 0.0f;
}
#else
static float factor_of(const KernelArgs &a, const Variant::Tile &)
{
    return a.scale_log2;
}
static float scale_qk(const KernelArgs &, int, int, int, int)
{
    return 1;
}
static float scale_v(const KernelArgs &, int, int, int)
{
    return 1;
}
static float mean_v(const KernelArgs &, int, int, int)
{
    return 0;
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
                const auto *qs = (const Element *)a.q + b * a.q_stride[0] + h * a.q_stride[1] +
                                 (n.q_start + q) * a.q_stride[2];
                const double by = kHasDropout ? 65536.0 / (65536 - a.dropout_drops) : 1;
                // Of weights of 2^(score - top).
                double top = -INFINITY, second = -INFINITY, sum = 0, o[kHeadDimV] = {},
                       size[kHeadDimV] = {};
                const Variant::Row row = Variant::row(a, t, q);
                if (kHasSinks && q < n.q_len && a.sinks[h * a.sinks_stride] > -INFINITY) {
                    top = a.sinks[h * a.sinks_stride] * 1.4426950408889634;
                    sum = 1;
                }
                for (int kv = 0; q < n.q_len && kv < n.kv_len; ++kv) {
                    const auto col = Variant::col(a, t, kv);
                    const auto diag = Variant::diag(a, t, q - kv);
                    const auto base = Variant::base(a, t, row, q, kv);
                    if (Variant::kHasMask &&
                        !Variant::mask(a, t, row, col, diag, base, 0, q, kv, 0))
                        continue;
                    const auto *y = (const Element *)a.k + b * a.k_stride[0] +
                                    h / a.group * a.k_stride[1] + (n.kv_start + kv) * a.k_stride[2];
                    const auto *z = c->v + b * c->v_stride[0] + h / a.group * c->v_stride[1] +
                                    (n.kv_start + kv) * c->v_stride[2];
                    float s = extra_product(a, b, h, q, kv);
                    for (int d = 0; d < kHeadDim; ++d)
                        s += value_of(qs[d]) * value_of(y[d]);
                    s *= scale_qk(a, b, h, q, kv);
                    const double x = Variant::kHasScore
                                         ? Variant::score(a, t, row, col, diag, base, s, q, kv, 0) *
                                               Variant::multiplier(a, t)
                                         : s * factor_of(a, t);
                    if (x > top) {
                        const double factor = std::exp2(top - x);
                        second = top;
                        top = x;
                        sum *= factor;
                        for (int d = 0; d < kHeadDimV; ++d) {
                            o[d] *= factor;
                            size[d] *= factor;
                        }
                    } else {
                        second = std::max(second, x);
                    }
                    const double p = std::exp2(x - top);
                    sum += p;
                    if (kHasDropout && is_dropped(a, b, h, q, kv))
                        continue;
                    for (int d = 0; d < kHeadDimV; ++d) {
                        const double value = value_of(z[d]) * scale_v(a, b, h, kv);
                        o[d] += p * by * (value + mean_v(a, b, h, d));
                        size[d] += p * std::abs(value);
                    }
                }
                const double want = sum == 0 ? -INFINITY : std::log(sum) + top * 0.6931471805599453;
                const bool right_lse =
                    sum == 0 ? lse == want : std::abs(want - lse) < 1e-3 + 1e-6 * std::abs(want);
                const bool huge = std::abs(a.scale) > kScale;
                if (huge && top - second < 64) // how s is summed may decide
                    continue;
                bool right = right_lse;
                float got = 0;
                int d = 0;
                for (; d < kHeadDimV && right; ++d) {
                    got = kOutElement == kElementF32
                              ? ((const float *)a.o)[at + d]
                              : __uint_as_float(((const unsigned short *)a.o)[at + d] << 16);
                    const double expected = sum == 0 ? 0 : o[d] / sum;
                    right =
                        std::abs(expected - got) < (huge ? 1e-5 + std::abs(expected) / 256
                                                    : kFp8 && sum > 0 ? 0.04 + 0.07 * size[d] / sum
                                                                      : 0.02 * by);
                }
                if (!right)
                    return simt::text("b %d h %d q %d: LSE %g, not %g; O[%d] %g, not %g", b, h, q,
                                      lse, want, d - 1, got, sum == 0 ? 0 : o[max(d - 1, 0)] / sum);
            }
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
            all += simt::text(" %d%s", v[j].tile, v[j].dead ? "d" : v[j].masked ? "m" : "");
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
    a.scale = kScale;
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
        tags.assign(1, Tag{});
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
    std::string order = FACC_SCHEDULED ? check_sections(cases) : check_fixed_order(cases);
    if (order.empty() && !FACC_SCHEDULED)
        order = check_turns(cases);
    if (!order.empty()) {
        printf("%s\n", order.c_str());
        return 1;
    }
    long smallest = 0, tiles = 0;
    std::string first;
    for (int i = 0; i < cases && !(failed && argc > 4); ++i) {
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

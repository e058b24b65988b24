// Runs the kernels that make a schedule on the CPU, on random lengths, and checks rows, lists,
// order and the forward kernel's way through them against the cells. One program per variant and
// configuration (schedule_host.py compiles them): args SEED CASES. The kernels are a library of
// their own, as they are a unit of their own: schedule_kernels.cpp.
#include "simt.h"
// Of loads, of which there are none here.
inline void cp_async_16_or_zero(unsigned, const void *, bool) {}
inline void store_shared(unsigned, unsigned short) {}
// clang-format off
#include "sm80/shape.cuh"
#include "sm80/scheduler.cuh"
#include "common/schedule.cuh"
// clang-format on
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <tuple>

static std::mt19937 rng;

static int draw(int low, int high)
{
    return std::uniform_int_distribution<int>(low, high)(rng);
}

[[noreturn]] static void wrong(const char *what, int a = 0, int b = 0, int c = 0)
{
    fprintf(stderr, "wrong: %s (%d, %d, %d)\n", what, a, b, c);
    exit(1);
}

// Memory with a guard behind it, full of garbage.
struct Memory {
    static constexpr int kGuard = 64;
    std::vector<std::unique_ptr<std::vector<unsigned char>>> parts;

    template <class T> T *take(long long n)
    {
        parts.push_back(std::make_unique<std::vector<unsigned char>>(n * sizeof(T) + kGuard, 0xa5));
        return reinterpret_cast<T *>(parts.back()->data());
    }
    void check() const
    {
        for (const auto &part : parts)
            for (int i = 1; i <= kGuard; ++i)
                if ((*part)[part->size() - i] != 0xa5)
                    wrong("written behind an array of the workspace");
    }
};

// Blocks of a block mask as drawn, apart from the lists that are made of them.
struct Blocks {
    std::vector<unsigned char> of; // [B or 1][H or 1][rows][cols]
};

struct Case {
    KernelArgs args;
    Memory memory;
    Blocks blocks;
    std::vector<int> data; // of the captured tensor
    bool packed, large;
};

static void draw_lengths(Case &c)
{
    KernelArgs &a = c.args;
    c.large = draw(0, 5) == 0;
    c.packed = draw(0, 2) == 0;
    a.B = draw(1, c.packed ? 6 : 3);
    a.H = 2 * draw(1, 2);
    a.Hkv = a.H / 2;
    a.group = 2;
    const int longest = draw(0, 3) ? 900 : 70 * kTileN;
    a.Sq = draw(1, min(longest, 900));
    a.Skv = draw(0, longest);
    if (c.large) { // several blocks of 32 windows, runs of equal ones
        a.B = 1;
        a.Sq = draw(1, 150);
        a.Skv = draw(30, 44) * 32 * kTileN + draw(0, 1) * draw(1, 100);
    }
    int *cu_q = c.memory.take<int>(a.B + 1), *cu_kv = c.memory.take<int>(a.B + 1);
    if (c.packed) {
        cu_q[0] = cu_kv[0] = 0;
        for (int b = 0; b < a.B; ++b) {
            cu_q[b + 1] = cu_q[b] + (draw(0, 3) ? draw(0, a.Sq) : draw(0, 1) * a.Sq);
            cu_kv[b + 1] = cu_kv[b] + (draw(0, 3) ? draw(0, a.Skv) : draw(0, 1) * a.Skv);
        }
        a.cu_seqlens_q = cu_q;
        a.cu_seqlens_kv = cu_kv;
    }
    if (draw(0, 1)) {
        int *used_q = c.memory.take<int>(a.B), *used_kv = c.memory.take<int>(a.B);
        for (int b = 0; b < a.B; ++b) {
            used_q[b] = draw(-1, a.Sq + 5);
            used_kv[b] = draw(-1, a.Skv + 5);
        }
        a.seqused_q = draw(0, 2) ? used_q : nullptr;
        a.seqused_kv = draw(0, 2) ? used_kv : nullptr;
    }
}

template <class Args> static void draw_tensor(Case &c, Args &a)
{
    if constexpr (kNumTensors > 0 && sizeof(Args) > 0) {
        facc_captured &t = a.tensors[0];
        const int n = max(max(a.Sq, a.Skv), 1);
        if (Variant::kScanned) { // keep u8 {q, kv}: rectangles of ones and zeros, some noise
            const int rows = a.Sq, cols = max(a.Skv, 1);
            unsigned char *keep = c.memory.take<unsigned char>(static_cast<long long>(rows) * cols);
            const int h = draw(1, 300), w = draw(1, c.large ? 20000 : 400),
                      noise = draw(0, 1) ? 5000 : 1 << 30;
            for (int q = 0; q < rows; ++q)
                for (int kv = 0; kv < cols; ++kv)
                    keep[static_cast<long long>(q) * cols + kv] =
                        ((q / h * 7 + kv / w * 3) % 4 == 0) != (draw(0, noise) == 0);
            t = facc_captured{keep, {cols, 1}, {rows, cols}, 0};
        } else { // documents
            int *doc = c.memory.take<int>(n), id = 0;
            const int mean = c.large ? 50000 : draw(0, 3) ? 200 : 3000;
            for (int i = 0; i < n; ++i)
                doc[i] = id += draw(0, mean) == 0;
            t = facc_captured{doc, {1}, {n}, 0};
        }
    }
}

static void draw_blocks(Case &c)
{
    KernelArgs &a = c.args;
    a.block_per_b = draw(0, 1);
    a.block_per_h = draw(0, 1);
    const int sizes[] = {16, 30, 64, 100, 128, 200};
    a.block_size_q = sizes[draw(0, 5)];
    a.block_size_kv = sizes[draw(0, 5)];
    a.block_rows = (a.Sq + a.block_size_q - 1) / a.block_size_q + draw(0, 1);
    a.block_cols = (a.Skv + a.block_size_kv - 1) / a.block_size_kv + draw(0, 1);
    a.block_rows = max(a.block_rows, 1);
    a.block_cols = max(a.block_cols, 1);
    const long long rows =
        (a.block_per_b ? a.B : 1) * static_cast<long long>(a.block_per_h ? a.H : 1) * a.block_rows;
    const long long n = rows * a.block_cols;
    int *counts = c.memory.take<int>(rows), *indices = c.memory.take<int>(n);
    int *full_counts = c.memory.take<int>(rows), *full_indices = c.memory.take<int>(n);
    const bool has_full = draw(0, 3) > 0;
    for (long long r = 0; r < rows; ++r) {
        counts[r] = full_counts[r] = 0;
        int kind = 1;
        for (int i = 0; i < a.block_cols; ++i) {
            if (draw(0, c.large ? 100 : 2) == 0)
                kind = draw(0, 3);
            const int block = kind == 3               ? kVerdictPartial
                              : kind == 2 && has_full ? kVerdictFull
                                                      : kVerdictEmpty;
            c.blocks.of.push_back(static_cast<unsigned char>(block));
            if (block == kVerdictPartial)
                indices[r * a.block_cols + counts[r]++] = i;
            if (block == kVerdictFull)
                full_indices[r * a.block_cols + full_counts[r]++] = i;
        }
        if (counts[r] < a.block_cols) // a number that is none
            indices[r * a.block_cols + counts[r]++] = draw(0, 1) ? -1 : a.block_cols;
    }
    a.block_counts = counts;
    a.block_indices = indices;
    a.full_counts = has_full ? full_counts : nullptr;
    a.full_indices = has_full ? full_indices : nullptr;
    a.schedule.block_classes = c.memory.take<unsigned char>(n);
}

static int ids_of(const Case &c, bool q, int width)
{
    const KernelArgs &a = c.args;
    const int *cu = q ? a.cu_seqlens_q : a.cu_seqlens_kv;
    if (c.packed)
        return cu[a.B] / width + a.B;
    return (a.schedule.per_b ? a.B : 1) * (((q ? a.Sq : a.Skv) + width - 1) / width);
}

static void place_schedule(Case &c)
{
    KernelArgs &a = c.args;
    struct facc_schedule &s = a.schedule;
    s.per_b =
        c.packed || a.seqused_q || a.seqused_kv || (kBlockMask && a.block_per_b) || draw(0, 1);
    s.per_h = (kBlockMask && a.block_per_h) || draw(0, 1);
    const int heads = s.per_h ? a.H : 1;
    s.row_ids = ids_of(c, true, kTileM);
    s.max_rows = s.row_ids * heads;
    s.windows = ((a.Skv + kTileN - 1) / kTileN + 31) / 32;
    s.max_entries = draw(0, c.large ? 1 : 4) ? s.windows : min(s.windows, draw(1, 3));
    s.rows = c.memory.take<facc_schedule_row>(s.max_rows);
    s.order = c.memory.take<int>(s.max_rows);
    s.entries = c.memory.take<unsigned char>(static_cast<long long>(s.max_rows) * s.max_entries *
                                             entry_bytes(a));
    if (kScans)
        s.scan = c.memory.take<facc_schedule_bits>(static_cast<long long>(s.max_rows) * s.windows *
                                                   kGroups);
    for (int level = 0; level < FACC_LEVELS; ++level) {
        if (level == FACC_LEVEL_GRANULE && !Variant::kHalved)
            continue;
        if (Variant::kHasQSummary && level != FACC_LEVEL_WINDOW) {
            s.q_ids[level] = ids_of(c, true, QSide::width(a, level));
            s.q_summary[level] =
                c.memory.take<unsigned char>(s.q_ids[level] * heads * sizeof(Variant::QSummary));
        }
        if (Variant::kHasKvSummary) {
            s.kv_ids[level] = ids_of(c, false, KvSide::width(a, level));
            s.kv_summary[level] =
                c.memory.take<unsigned char>(s.kv_ids[level] * heads * sizeof(Variant::KvSummary));
        }
    }
}

extern "C" void run_schedule(const void *args);

// ---- checks ---------------------------------------------------------------------

struct Lengths {
    int rows, q_len, kv_len;
};

static Lengths lengths_of(const KernelArgs &a, int b)
{
    Lengths n{a.Sq, 0, a.Skv};
    if (a.cu_seqlens_q) {
        n.rows = a.cu_seqlens_q[b + 1] - a.cu_seqlens_q[b];
        n.kv_len = a.cu_seqlens_kv[b + 1] - a.cu_seqlens_kv[b];
    }
    n.q_len = a.seqused_q ? std::clamp(a.seqused_q[b], 0, n.rows) : n.rows;
    if (a.seqused_kv)
        n.kv_len = std::clamp(a.seqused_kv[b], 0, n.kv_len);
    return n;
}

static bool counts_cell(const Case &c, int b, int h, const Variant::Tile &t, int q, int kv)
{
    const KernelArgs &a = c.args;
    if (kBlockMask) {
        const long long list =
            (a.block_per_b ? b : 0) * (a.block_per_h ? a.H : 1) + (a.block_per_h ? h : 0);
        const int block = c.blocks.of[(list * a.block_rows + q / a.block_size_q) * a.block_cols +
                                      kv / a.block_size_kv];
        if (block != kVerdictPartial)
            return block == kVerdictFull;
    }
    if (!Variant::kHasMask)
        return true;
    const Variant::Row r = Variant::row(a, t, q);
    return Variant::mask(a, t, r, Variant::col(a, t, kv), Variant::diag(a, t, q - kv),
                         Variant::base(a, t, r, q, kv), 0.0f, q, kv, 0);
}

// For each KV tile and group: bit 0 a cell is masked, bit 1 a cell counts; 0 without rows.
using Truth = std::vector<std::array<int, kGroups>>;

static Truth truth_of(const Case &c, int b, int h, int tile, const Lengths &n)
{
    const Variant::Tile t = Variant::tile(c.args, b, h);
    Truth truth((n.kv_len + kTileN - 1) / kTileN, std::array<int, kGroups>{});
    for (int q = tile * kTileM; q < min(tile * kTileM + kTileM, n.q_len); ++q)
        for (int kv = 0; kv < n.kv_len; ++kv)
            truth[kv / kTileN][(q - tile * kTileM) / kRowsPerGroup] |=
                counts_cell(c, b, h, t, q, kv) ? kVerdictFull : kVerdictEmpty;
    return truth;
}

struct Totals {
    long rows, tiles, really, masked, really_masked;
} totals;

struct Listed {
    int tile;
    std::array<int, kGroups> work; // enum TileWork
};

static std::vector<Listed> read_list(const KernelArgs &a, int id)
{
    const struct facc_schedule &s = a.schedule;
    const facc_schedule_row &row = s.rows[id];
    std::vector<Listed> list;
    if (row.entries > s.max_entries)
        wrong("more entries than there is room", id);
    for (int e = 0; e < row.entries; ++e) {
        const unsigned char *at =
            s.entries + (static_cast<long long>(id) * s.max_entries + e) * entry_bytes(a);
        const auto *entry = reinterpret_cast<const facc_schedule_entry *>(at);
        const auto *bits = reinterpret_cast<const facc_schedule_bits *>(at + 8);
        if (entry->repeats < 1)
            wrong("repeats", id, e, entry->repeats);
        for (int i = 0; i < 32 * entry->repeats; ++i) {
            const int place = Variant::kReverse ? 32 * entry->repeats - 1 - i : i;
            Listed l{32 * entry->window + place, {}};
            bool any = false;
            for (int g = 0; g < kGroups; ++g) {
                const bool work = bits[g].work >> place % 32 & 1;
                const bool masked = bits[g].masked >> place % 32 & 1;
                any |= work;
                l.work[g] = !work ? kTileNone : masked ? kTileMasked : kTilePlain;
                if (masked && !work)
                    wrong("masked without work", id, l.tile, g);
            }
            if (any)
                list.push_back(l);
        }
    }
    return list;
}

static void check_list(const Case &c, int id, const std::vector<Listed> &list)
{
    const KernelArgs &a = c.args;
    const facc_schedule_row &row = a.schedule.rows[id];
    const Lengths n = lengths_of(a, row.b);
    const Truth truth = truth_of(c, row.b, row.h, row.tile, n);
    const bool roomy = a.schedule.max_entries == a.schedule.windows;
    if (row.count != static_cast<int>(list.size()))
        wrong("count", id, row.count, static_cast<int>(list.size()));
    std::map<int, std::array<int, kGroups>> work;
    for (size_t i = 0; i < list.size(); ++i) {
        if (i > 0 && (list[i].tile > list[i - 1].tile) == Variant::kReverse)
            wrong("not in the order of visits", id, list[i].tile);
        if (roomy && list[i].tile >= static_cast<int>(truth.size()))
            wrong("a tile behind the end", id, list[i].tile);
        work[list[i].tile] = list[i].work;
    }
    for (size_t i = 0; i < truth.size(); ++i)
        for (int g = 0; g < kGroups; ++g) {
            const auto found = work.find(static_cast<int>(i));
            const int is = found == work.end() ? kTileNone : found->second[g];
            const bool tail = static_cast<int>(i + 1) * kTileN > n.kv_len;
            if ((truth[i][g] & kVerdictFull) && is == kTileNone)
                wrong("a tile that counts is not listed", id, static_cast<int>(i), g);
            if (is == kTilePlain && (truth[i][g] != kVerdictFull || tail))
                wrong("a tile must be masked", id, static_cast<int>(i), g);
            if (Variant::kScanned && !kBlockMask && roomy && truth[i][g] != 0 &&
                (is != kTileNone) != ((truth[i][g] & kVerdictFull) != 0))
                wrong("a scanned tile is not exact", id, static_cast<int>(i), g);
            totals.tiles += is != kTileNone;
            totals.really += (truth[i][g] & kVerdictFull) != 0;
            totals.masked += is == kTileMasked;
            totals.really_masked +=
                truth[i][g] == kVerdictPartial || (truth[i][g] == kVerdictFull && tail);
        }
    ++totals.rows;
}

static void check_rows(const Case &c)
{
    const KernelArgs &a = c.args;
    const struct facc_schedule &s = a.schedule;
    std::set<std::tuple<int, int, int>> expected, found;
    for (int b = 0; b < (s.per_b ? a.B : 1); ++b)
        for (int h = 0; h < (s.per_h ? a.H : 1); ++h)
            for (int i = 0; i * kTileM < lengths_of(a, b).rows; ++i)
                expected.insert({b, h, i});
    for (int id = 0; id < s.max_rows; ++id) {
        const facc_schedule_row &row = s.rows[id];
        if (row.tile < 0)
            continue;
        if (!found.insert({row.b, row.h, row.tile}).second)
            wrong("a row twice", row.b, row.h, row.tile);
        if constexpr (kListed) {
            check_list(c, id, read_list(a, id));
        } else if (row.entries != 0) {
            wrong("entries without lists", id);
        }
    }
    if (found != expected)
        wrong("rows", static_cast<int>(found.size()), static_cast<int>(expected.size()));
}

static void check_order(const struct facc_schedule &s)
{
    std::vector<int> ids;
    int most = 0, shift = 0;
    for (int id = 0; id < s.max_rows; ++id)
        if (s.rows[id].tile >= 0) {
            ids.push_back(id);
            most = max(most, s.rows[id].count);
        }
    while (most >> shift > 255)
        ++shift;
    std::stable_sort(ids.begin(), ids.end(), [&](int x, int y) {
        return s.rows[x].count >> shift > s.rows[y].count >> shift;
    });
    ids.resize(s.max_rows, -1);
    for (int i = 0; i < s.max_rows; ++i)
        if (s.order[i] != ids[i])
            wrong("order", i, s.order[i], ids[i]);
}

// The forward kernel's CTAs: every row of O once, tiles as listed.
static void check_forward(const Case &c)
{
    const KernelArgs &a = c.args;
    const struct facc_schedule &s = a.schedule;
    std::set<std::tuple<int, int, int>> found;
    const int work = s.max_rows * (s.per_b ? 1 : a.B) * (s.per_h ? 1 : a.H);
    static Work w;
    static std::vector<Listed> visits[kGroups];
    simt::block.body = [&] {
        find_work(a, w);
        __syncthreads();
        if (w.q0 < 0)
            return;
        if (threadIdx.x % kGroupThreads >= 32)
            return; // one warp of each group walks
        const int group = threadIdx.x / kGroupThreads;
        TileWalk walk(w, group);
        for (int i = 0;; ++i) {
            TileWork part;
            const int tile = walk.next(a, w, part);
            if (tile < 0 && walk.next(a, w, part) >= 0)
                wrong("a walk goes on behind its end");
            if (tile < 0)
                break;
            if (threadIdx.x % 32 == 0) {
                Listed l{tile, {}};
                l.work[group] = part;
                visits[group].push_back(l);
            }
        }
    };
    for (int i = 0; i < work; ++i) {
        for (auto &v : visits)
            v.clear();
        simt::block.index.x = i;
        simt::run_block(kThreads);
        if (w.q0 < 0)
            continue;
        if (!found.insert({w.b, w.h, w.q0 / kTileM}).second)
            wrong("a query tile twice", w.b, w.h, w.q0 / kTileM);
        const Lengths n = lengths_of(a, w.b);
        if (w.q_rows != n.rows || w.q_len != n.q_len || w.kv_len != n.kv_len)
            wrong("lengths", w.b, w.q_rows, w.kv_len);
        const long long q_start = c.packed ? a.cu_seqlens_q[w.b] : 0;
        const long long kv_start = c.packed ? a.cu_seqlens_kv[w.b] : 0;
        const char *base = static_cast<const char *>(a.q);
        if (w.q !=
                base + 2 * (w.b * a.q_stride[0] + w.h * a.q_stride[1] + q_start * a.q_stride[2]) ||
            w.q_start != q_start)
            wrong("address of q", w.b, w.h);
        base = static_cast<const char *>(a.k);
        if (w.k != base + 2 * (w.b * a.k_stride[0] + w.h / a.group * a.k_stride[1] +
                               kv_start * a.k_stride[2]))
            wrong("address of k", w.b, w.h);
        std::vector<Listed> list;
        for (int id = 0; id < s.max_rows; ++id) {
            const facc_schedule_row &row = s.rows[id];
            if (row.tile == w.q0 / kTileM && row.b == (s.per_b ? w.b : 0) &&
                row.h == (s.per_h ? w.h : 0)) {
                if constexpr (kListed)
                    list = read_list(a, id);
                for (int g = 0; g < kGroups; ++g)
                    if (static_cast<int>(visits[g].size()) != row.count)
                        wrong("visits", id, static_cast<int>(visits[g].size()), row.count);
            }
        }
        for (int g = 0; g < kGroups; ++g)
            for (size_t j = 0; j < list.size(); ++j)
                if (visits[g][j].tile != list[j].tile || visits[g][j].work[g] != list[j].work[g])
                    wrong("a visit is not as listed", i, static_cast<int>(j), visits[g][j].tile);
    }
    size_t expected = 0;
    for (int b = 0; b < a.B; ++b)
        expected += static_cast<size_t>((lengths_of(a, b).rows + kTileM - 1) / kTileM) * a.H;
    if (found.size() != expected)
        wrong("query tiles", static_cast<int>(found.size()), static_cast<int>(expected));
}

static void run_case()
{
    auto c = std::make_unique<Case>();
    memset(&c->args, 0, sizeof c->args);
    draw_lengths(*c);
    draw_tensor(*c, c->args);
    if (kBlockMask)
        draw_blocks(*c);
    KernelArgs &a = c->args;
    a.tiling = facc_tiling{kTileM, kTileN, kGroups, kRowsPerGroup};
    place_schedule(*c);
    a.q_tiles = (a.Sq + kTileM - 1) / kTileM;
    a.q = reinterpret_cast<void *>(0x10000);
    a.k = reinterpret_cast<void *>(0x20000);
    for (int i = 0; i < 3; ++i) {
        a.q_stride[i] = i == 0 && c->packed ? 0 : 1 << (20 - 4 * i);
        a.k_stride[i] = i == 0 && c->packed ? 0 : 3 << (19 - 4 * i);
    }
    if (a.schedule.max_rows == 0)
        return;
    run_schedule(&a);
    c->memory.check();
    check_rows(*c);
    check_order(a.schedule);
    check_forward(*c);
}

int main(int argc, char **argv)
{
    const int seed = argc > 1 ? atoi(argv[1]) : 1, cases = argc > 2 ? atoi(argv[2]) : 20;
    for (int i = 0; i < cases; ++i) {
        rng.seed(seed + i);
        run_case();
    }
    printf("%d cases, %ld rows; %ld tiles listed, %ld count; %ld masked, %ld must be\n", cases,
           totals.rows, totals.tiles, totals.really, totals.masked, totals.really_masked);
    return 0;
}

// A Variant written by hand beside the generated one, on the CPU: the same cells count, with the
// same scores; the quick path gets the moved score or NaN. For test_hopper.py, which defines
// BY_HAND and the Mod: MOD_SLOPES, MOD_T5 or MOD_DOCUMENTS.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/unit/emit_host.h"
using std::max;
using std::min;
#include BY_HAND

constexpr int H = 3, S = 700;

static KernelArgs args;
static float floats[32 * H];
static int ids[2][S];

static void captured(const void *data, int rows, int columns)
{
    facc_captured &t = args.tensors[0];
    t.data = data;
    t.shape[0] = rows;
    t.shape[1] = columns;
    t.stride[0] = columns;
    t.stride[1] = 1;
}

static void set_up()
{
    args.scale_log2 = 0.125f;
    for (int i = 0; i < 32 * H; i++)
        floats[i] = 0.37f * (float)(i * 37 % 53) - 9.0f;
    for (int b = 0; b < 2; b++)
        for (int q = 0, first = 0, length = 1; q < S; q++) {
            if (q - first == length) {
                first = q;
                length = (length * 29 + 11 + b) % 150 + 1;
            }
            ids[b][q] = first;
        }
#if defined MOD_SLOPES
    captured(floats, H, 1);
#elif defined MOD_T5
    captured(floats, 32, H);
#else
    captured(ids, 2, S);
#endif
}

struct Cell {
    bool counts;
    float score, moved; // of the quick path
};

// Those of a row in a thread's columns.
template <class V> static std::vector<Cell> cells(int b, int h, int q, int kv0)
{
    std::vector<Cell> out;
    const typename V::Tile t = V::tile(args, b, h);
    const typename V::Row r = V::row(args, t, q);
    const typename V::Base base = V::base(args, t, r, q, kv0), moved = V::offset_by(base, 3.0f);
    for (int i = 0; i < kTileN / 4; i++) {
        const int c = i / 2 * 8 + i % 2, kv = kv0 + c;
        const typename V::Col k = V::col(args, t, kv);
        const typename V::Diag d = V::diag(args, t, q - kv);
        const float s = (float)((q * 31 + kv * 17) % 101) - 50.0f;
        Cell x{V::mask(args, t, r, k, d, base, s, q, kv0, c) && kv < S, 0.0f, 0.0f};
        if (V::kHasScore) {
            x.score = V::score(args, t, r, k, d, base, s, q, kv0, c);
            x.moved =
                V::kHasOffset ? V::score(args, t, r, k, d, moved, s, q, kv0, c) - 3.0f : x.score;
        }
        out.push_back(x);
    }
    return out;
}

static bool near(float a, float b)
{
    return std::fabs(a - b) <= 1e-4f * std::fmax(1.0f, std::fabs(b));
}

int main()
{
    set_up();
    long bad = 0, count = 0, refused = 0, full = 0;
    for (int b = 0; b < 2; b++)
        for (int q = 0; q < S; q += 1 + b)
            for (int kv0 = b ? 2 : 0; kv0 < S; kv0 += kTileN) {
                const int h = (q + kv0) % H;
                const auto hand = cells<Variant>(b, h, q, kv0),
                           made = cells<GeneratedVariant>(b, h, q, kv0);
                bool all = true, quick = true, made_quick = true;
                for (size_t i = 0; i < made.size(); i++) {
                    bad += hand[i].counts != made[i].counts;
                    all &= made[i].counts;
                    if (!made[i].counts)
                        continue;
                    count++;
                    bad += !near(hand[i].score, made[i].score);
                    quick &= hand[i].moved == hand[i].moved;
                    made_quick &= made[i].moved == made[i].moved;
                    for (float moved : {hand[i].moved, made[i].moved})
                        bad += moved == moved && !near(moved, made[i].score);
                }
                bad += all && quick != made_quick;
                full += all;
                refused += all && !quick;
            }
    for (int q = 0; q < S; q += 7)
        for (int kv = 0; kv < S; kv += 5) {
            const Variant::Tile t = Variant::tile(args, 0, 0);
            const GeneratedVariant::Tile g = GeneratedVariant::tile(args, 0, 0);
            const auto range = Variant::kv_range(args, t, q, q + 63);
            const auto other = GeneratedVariant::kv_range(args, g, q, q + 63);
            bad += range.first != other.first || range.end != other.end;
            bad += Variant::verdict(args, t, q, q + 63, kv, kv + 31) !=
                   GeneratedVariant::verdict(args, g, q, q + 63, kv, kv + 31);
        }
    printf("%ld %ld %ld %ld\n", bad, count, full, refused);
    return 0;
}

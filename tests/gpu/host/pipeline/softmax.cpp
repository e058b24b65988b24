// Runs the softmax of templates/sm90 on the CPU, one warp (warps.h), with the cheap scores of
// narrow.cuh: tiles of drawn products one after the other, as the loop gives them, dead ones among
// them. What is checked: which tiles may be, and which must be, weighed by cheap scores and against
// the references as they are; weights, sums and references against a plain loop in doubles. Args
// SEED CASES (pipeline_host.py compiles and runs it).
#include "sm90/softmax.cuh"

constexpr int kRows = 16;
constexpr float kLimit = 0.65f; // of tanh's argument

static std::mt19937 rng;

static float draw(float low, float high)
{
    return std::uniform_real_distribution<float>(low, high)(rng);
}

enum Kind { kTiny, kRaised, kSmall, kOneWide, kOneNan, kOneInfinite, kWide, kDead, kKinds };
struct Products {
    Kind kind;
    float s[kRows][kTileN];
};

static Products draw_products(Kind kind, float factor)
{
    Products tile{kind, {}};
    const float most = kind <= kRaised ? 0.01f : kind == kWide ? 3.0f : 0.99f * kLimit;
    for (auto &row : tile.s)
        for (float &s : row)
            s = (draw(-most, most) + (kind == kRaised ? 0.08f : 0.0f)) / factor;
    float &one = tile.s[rng() % kRows][rng() % kTileN];
    if (kind == kOneWide)
        one = (rng() % 2 ? draw(1.01f * kLimit, 3) : draw(-3, -1.01f * kLimit)) / factor;
    if (kind == kOneNan)
        one = NAN;
    if (kind == kOneInfinite)
        one = rng() % 2 ? INFINITY : -INFINITY;
    return tile;
}

// What a row has come to: by the kernel, in units of its reference; by the plain loop.
struct Total {
    double weights, expected;
};

struct Lane { // what it leaves behind of a tile
    RowState before, state;
    Weights p;
    float factor[2];
    bool quick;
};
static Lane lanes[32];

static void weigh(const KernelArgs &args, const Work &w, const Products &tile, bool first)
{
    const int lane = threadIdx.x % 32;
    Lane &l = lanes[lane];
    Stage stage;
    Rows rows;
    Scores s;
    for (int i = 0; i < kTileN / 2; ++i)
        s[0][i / 4][i % 4] = tile.s[lane / 4 + i % 4 / 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2];
    if (first)
        reset(l.state);
    l.before = l.state;
    l.factor[0] = l.factor[1] = NAN;
    l.quick = false;
    if (tile.kind == kDead) {
        weigh_nothing(l.p, l.factor);
        return;
    }
    float total[2];
    l.quick = !first && weigh_quickly(args, w, rows, stage, 0, 0, quick_multiplier(args, w), s,
                                      l.state, l.p, total);
    if (l.quick) {
        l.state.sum[0] += total[0];
        l.state.sum[1] += total[1];
    } else {
        weigh_exactly(args, w, rows, stage, 0, 0, s, l.state, l.p, l.factor);
    }
}

// The score in log2 units.
static double score_of(const Work &w, float s)
{
    return Variant::kCap / M_LN2 * std::tanh(double{s} * w.t.factor);
}

// The most that a thread's sum of weights over the tile is, by the references before it, as a part
// of what it may be.
static double fullness(const Work &w, const Products &tile)
{
    double most = 0;
    for (int i = 0; i < 64; ++i) {
        const RowState &before = lanes[i / 2].before;
        const int r = i / 8 + i % 2 * 8, half = i % 2;
        double sum = 0;
        for (int col = 0; col < kTileN; ++col)
            if (col % 8 / 2 == i / 2 % 4)
                sum += std::exp2(score_of(w, tile.s[r][col]) - Variant::kCap / M_LN2 -
                                 before.reference[half]);
        most = std::max(most, sum / std::max(4.0 * before.sum[half], double{kTileN}));
    }
    return most;
}

static std::string check_row(const Work &w, const Products &tile, int r, Total &total)
{
    double sum = 0;
    if (!lanes[0].quick)
        total.weights *= lanes[r % 8 * 4].factor[r / 8];
    for (int t = 0; t < 4; ++t) {
        const Lane &l = lanes[r % 8 * 4 + t];
        sum += l.state.sum[r / 8];
        for (int i = 0; i < kTileN / 4; ++i) {
            const int col = i / 2 * 8 + 2 * t + i % 2;
            const double x = tile.kind == kDead ? -INFINITY : score_of(w, tile.s[r][col]);
            const unsigned bits = l.p[i / 2 * 2 + r / 8];
            const double p = __uint_as_float(i % 2 ? bits & 0xffff0000u : bits << 16);
            const double wanted =
                x == -INFINITY ? 0
                               : std::exp2(x - Variant::kCap / M_LN2 - l.state.reference[r / 8]);
            total.weights += p;
            total.expected += std::exp2(x);
            if (std::isnan(wanted) ? !std::isnan(p)
                                   : !(std::abs(p - wanted) <= 0.008 * wanted + 1e-30))
                return simt::text("row %d column %d: weight %g, not %g", r, col, p, wanted);
        }
    }
    if (total.expected == 0) // nothing but dead tiles
        return sum == 0 && total.weights == 0 ? "" : simt::text("row %d: sum %g, not 0", r, sum);
    const double by = std::exp2(lanes[r % 8 * 4].state.reference[r / 8] + Variant::kCap / M_LN2);
    if (std::isnan(total.expected) ? !std::isnan(sum)
                                   : !(std::abs(sum * by / total.expected - 1) < 2e-3 &&
                                       std::abs(total.weights / sum - 1) < 4e-3))
        return simt::text("row %d: sum %g, of weights %g, not %g", r, sum * by, total.weights * by,
                          total.expected);
    return "";
}

static std::string run_case(int seed, int &quick)
{
    rng.seed(seed);
    KernelArgs args{};
    Work w{};
    w.q_rows = w.q_len = kTileM;
    w.kv_len = 1 << 20;
    w.t = Variant::tile(args, 0, seed % 2);
    const bool calm = rng() % 4 == 0; // no large scores: most tiles are quick
    bool nan = false, some = false;   // products
    Total total[kRows] = {};
    for (int i = 0, tiles = 1 + static_cast<int>(rng() % 6); i < tiles; ++i) {
        const Products tile = draw_products(rng() % 8 == 0 ? kDead
                                            : calm         ? (rng() % 4 ? kTiny : kRaised)
                                                           : static_cast<Kind>(rng() % kDead),
                                            w.t.factor);
        nan |= tile.kind == kOneNan;
        const std::string wrong =
            simt::launch(1, 1, 1, rng(), [&] { weigh(args, w, tile, i == 0); });
        if (!wrong.empty())
            return wrong;
        for (const Lane &l : lanes)
            if (l.quick != lanes[0].quick)
                return "lanes do not agree";
        quick += lanes[0].quick;
        if (lanes[0].quick && (tile.kind > kSmall || nan))
            return simt::text("cheap scores in a tile of kind %d", tile.kind);
        const double full =
            lanes[0].quick || (tile.kind <= kSmall && some && !nan) ? fullness(w, tile) : 2;
        if (lanes[0].quick && !(full < 1.01))
            return simt::text("a sum is %g of what it may be", full);
        if (!lanes[0].quick && full < 0.99)
            return simt::text("a new reference, but sums are %g of what they may be", full);
        if (!lanes[0].quick && calm && some && tile.kind == kTiny)
            return "no cheap scores where all are tiny";
        some |= tile.kind != kDead;
        for (int r = 0; r < kRows; ++r) {
            const std::string what = check_row(w, tile, r, total[r]);
            if (!what.empty())
                return simt::text("tile %d of kind %d, %s: ", i, tile.kind,
                                  lanes[0].quick ? "quick" : "exact") +
                       what;
        }
    }
    return "";
}

int main(int argc, char **argv)
{
    const int seed = argc > 1 ? atoi(argv[1]) : 1, cases = argc > 2 ? atoi(argv[2]) : 100;
    int failed = 0, quick = 0;
    std::string first;
    simt::m.prepare = [](simt::Cta &) {};
    simt::m.role = [](int) { return "warp"; };
    for (int i = 0; i < cases; ++i) {
        const std::string what = run_case(seed + i, quick);
        failed += !what.empty();
        if (first.empty() && !what.empty())
            first = simt::text("seed %d: ", seed + i) + what;
    }
    if (failed)
        printf("%d of %d cases fail; the first:\n%s\n", failed, cases, first.c_str());
    else
        printf("%d cases, %d tiles by cheap scores\n", cases, quick);
    return failed != 0;
}

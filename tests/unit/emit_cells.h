// Generated variants on the CPU, part 2: what test_emit.c calls. Included once
// per variant inside its namespace, with CELLS, MOVED, NARROW, TILE,
// PLAN and TIME defined as the functions' names.

// The captured element of a cell, as a kernel copies it; indices are
// clamped as facc_at does.
template <class V, class Args>
static float plane_element(const Args &args, const typename V::Tile &t, int q,
                           int kv)
{
    using P = typename V::Plane;
    const auto &x = args.tensors[P::kTensor];
    int others[P::kRank - 1];
    P::at(args, t, others);
    long long at = 0;
    for (int d = 0; d < P::kRank; d++) {
        const long long last = x.shape[d] - 1;
        const long long i = d == P::kRank - 1
                                ? kv + (long long)P::first(args, t)
                            : d == P::kDim ? q + (long long)others[d]
                                           : others[d];
        at += (i < 0 || i > last ? last : i) * x.stride[d];
    }
    return P::kType == kElementF32   ? facc_load_f32(x, at)
           : P::kType == kElementF16 ? facc_load_f16(x, at)
                                     : facc_load_bf16(x, at);
}

// score(), or where there is one plane_score().
template <class V, class Args>
static float any_score(bool plane, const Args &args, const typename V::Tile &t,
                       const typename V::Row &r, const typename V::Col &k,
                       const typename V::Diag &d, const typename V::Base &base,
                       float s, int q, int kv0, int c)
{
    if constexpr (kPlaneBytes > 0)
        if (plane)
            return V::plane_score(args, t, r, k, d, base, s, q, kv0, c,
                                  plane_element<V>(args, t, q, kv0 + c));
    return V::score(args, t, r, k, d, base, s, q, kv0, c);
}

template <class V> constexpr bool plane_moves()
{
    if constexpr (kPlaneBytes > 0)
        return V::Plane::kOffset;
    else
        return false;
}

// Cells (q, kv0 .. kv0 + n - 1), as a kernel's thread makes them; every other
// one with its captured element, where kernels copy these.
extern "C" void CELLS(const void *bytes, int b, int h, int q, int kv0, int n,
                      const float *s, float *score, unsigned char *keep)
{
    const KernelArgs &args = *(const KernelArgs *)bytes;
    const Variant::Tile t = Variant::tile(args, b, h);
    const Variant::Row r = Variant::row(args, t, q);
    const Variant::Base base = Variant::base(args, t, r, q, kv0);
    for (int c = 0; c < n; c++) {
        const Variant::Col k = Variant::col(args, t, kv0 + c);
        const Variant::Diag d = Variant::diag(args, t, q - kv0 - c);
        score[c] =
            Variant::kHasScore
                ? fmaf(any_score<Variant>(c % 2, args, t, r, k, d, base, s[c],
                                          q, kv0, c),
                       Variant::multiplier(args, t), Variant::shift(args, t))
                : s[c] * args.scale_log2;
        keep[c] = !Variant::kHasMask ||
                  Variant::mask(args, t, r, k, d, base, s[c], q, kv0, c);
    }
}

template <class Base>
static auto has_far(const Base &base, int) -> decltype(base.far, true)
{
    return true;
}
template <class Base> static bool has_far(const Base &, long)
{
    return false;
}

// The same cells' score() with a base moved by so much. 0: there is none; 2:
// it may be NaN in all of them, where these are not far from the diagonal.
extern "C" int MOVED(const void *bytes, int b, int h, int q, int kv0, int n,
                     const float *s, float by, float *score)
{
    const KernelArgs &args = *(const KernelArgs *)bytes;
    const Variant::Tile t = Variant::tile(args, b, h);
    const Variant::Row r = Variant::row(args, t, q);
    const Variant::Base base =
        Variant::offset_by(Variant::base(args, t, r, q, kv0), by);
    for (int c = 0; c < n; c++) {
        const Variant::Col k = Variant::col(args, t, kv0 + c);
        const Variant::Diag d = Variant::diag(args, t, q - kv0 - c);
        score[c] = any_score<Variant>(plane_moves<Variant>(), args, t, r, k, d,
                                      base, s[c], q, kv0, c);
    }
    if (has_far(base, 0))
        return 2;
    return Variant::kHasOffset || plane_moves<Variant>();
}

// Cells of one (q, kv0) by the cheap form, each after the one before, and
// widest after each; the limit.
extern "C" float NARROW(const void *bytes, int h, int n, const float *s,
                        float *score, float *widest)
{
    const KernelArgs &args = *(const KernelArgs *)bytes;
    const Variant::Tile t = Variant::tile(args, 0, h);
    const Variant::Row r = Variant::row(args, t, 0);
    const Variant::Base base = Variant::base(args, t, r, 0, 0);
    const Variant::Col k = Variant::col(args, t, 0);
    const Variant::Diag d = Variant::diag(args, t, 0);
    float w = 0;
    for (int c = 0; c < n; c++) {
        score[c] =
            Variant::narrow_score(args, t, r, k, d, base, s[c], 0, 0, 0, w);
        widest[c] = w;
    }
    return Variant::kHasNarrow ? Variant::narrow_limit(args, t) : -2;
}

// out: first, end, verdict of a tile.
extern "C" void TILE(const void *bytes, int b, int h, int q_first, int q_last,
                     int kv_first, int kv_last, int *out)
{
    const KernelArgs &args = *(const KernelArgs *)bytes;
    const Variant::Tile t = Variant::tile(args, b, h);
    const Variant::KvRange range = Variant::kv_range(args, t, q_first, q_last);
    out[0] = range.first;
    out[1] = range.end;
    out[2] = Variant::verdict(args, t, q_first, q_last, kv_first, kv_last);
}

static Variant::QSummary
rows_summary(const KernelArgs &args, const Variant::Tile &t, int first, int end)
{
    Variant::QSummary s = Variant::q_nothing();
    for (int q = first; q < end; q++)
        Variant::q_add(args, t, q, s);
    return s;
}

static Variant::KvSummary columns_summary(const KernelArgs &args,
                                          const Variant::Tile &t, int first,
                                          int end)
{
    Variant::KvSummary s = Variant::kv_nothing();
    for (int kv = first; kv < end; kv++)
        Variant::kv_add(args, t, kv, s);
    return s;
}

// A rectangle's verdict, its summaries merged from two parts.
extern "C" int PLAN(const void *bytes, int b, int h, int q_first, int q_last,
                    int kv_first, int kv_last)
{
    const KernelArgs &args = *(const KernelArgs *)bytes;
    const Variant::Tile t = Variant::tile(args, b, h);
    const int q = (q_first + q_last) / 2, kv = kv_first + (kv_last > kv_first);
    Variant::QSummary qs = rows_summary(args, t, q_first, q);
    Variant::KvSummary ks = columns_summary(args, t, kv_first, kv);
    Variant::q_merge(qs, rows_summary(args, t, q, q_last + 1));
    Variant::kv_merge(ks, columns_summary(args, t, kv, kv_last + 1));
    return Variant::tile_verdict(args, t, q_first, q_last, qs, kv_first,
                                 kv_last, ks);
}

__attribute__((noinline)) static int
one_verdict(const KernelArgs &args, const Variant::Tile &t, int q,
            const Variant::QSummary &qs, int kv, const Variant::KvSummary &ks)
{
    return Variant::tile_verdict(args, t, q, q + 63, qs, kv, kv + 63, ks);
}

// ns per verdict of all tiles of 64 x 64, their summaries made before; the
// best of some runs, since the machine may be busy.
extern "C" double TIME(const void *bytes, long *sum)
{
    enum { TILES = 32, TIMES = 10, BEST_OF = 30 };
    const KernelArgs &args = *(const KernelArgs *)bytes;
    const Variant::Tile t = Variant::tile(args, 0, 0);
    static Variant::QSummary qs[TILES];
    static Variant::KvSummary ks[TILES];
    for (int k = 0; k < TILES; k++) {
        qs[k] = rows_summary(args, t, 64 * k, 64 * k + 64);
        ks[k] = columns_summary(args, t, 64 * k, 64 * k + 64);
    }
    double best = INFINITY;
    for (int run = 0; run < BEST_OF; run++) {
        const double began = thread_seconds();
        for (int n = 0; n < TIMES; n++)
            for (int q = 0; q < TILES; q++)
                for (int kv = 0; kv < TILES; kv++)
                    *sum +=
                        one_verdict(args, t, 64 * q, qs[q], 64 * kv, ks[kv]);
        best = fmin(best, thread_seconds() - began);
    }
    return 1e9 * best / (TIMES * TILES * TILES);
}

#undef CELLS
#undef MOVED
#undef NARROW
#undef TILE
#undef PLAN
#undef TIME

// Interval rules on the CPU: random ranges, and values in them. Included by
// the file that test_emit_rules.c writes, after common/interval.cuh.

static unsigned long long rng_state = 1;

static unsigned rng(unsigned n)
{
    rng_state = rng_state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(rng_state >> 33) % n;
}

// Small, near a power of two, or anything.
template <class T> static T some_int()
{
    const int bits = sizeof(T) == 8 ? 63 : 14; // products of ints must fit
    const unsigned long long any = (unsigned long long)rng(1u << 31) << 33 ^
                                   (unsigned long long)rng(1u << 31) << 10 ^
                                   rng(1u << 31);
    const int kind = (int)rng(4), shift = (int)rng((unsigned)bits);
    long long x = kind == 0   ? (long long)rng(20) - 10
                  : kind == 1 ? (long long)rng(200) - 100
                  : kind == 2 ? (1ll << shift) + (long long)rng(5) - 2
                              : (long long)(any >> (63 - bits));
    if (sizeof(T) == 8 && rng(40) == 0)
        x = rng(2) ? kMaxLong : kMinLong;
    return (T)(rng(2) ? x : (long long)(0 - (unsigned long long)x));
}

static float some_float()
{
    static const float special[] = {0.0f,     -0.0f,     1.0f,         -1.0f,
                                    INFINITY, -INFINITY, 1e-40f,       -1e-40f,
                                    3.4e38f,  -3.4e38f,  0.5f,         2.0f,
                                    1.2e-38f, 1e-30f,    2147483648.0f};
    if (rng(4) == 0)
        return special[rng(sizeof special / sizeof *special)];
    const float x = std::ldexp((float)rng(1 << 24), (int)rng(40) - 34);
    return rng(2) ? x : -x;
}

template <class X> struct random_range;
template <class T> struct random_range<facc_ints<T>> {
    static facc_ints<T> make()
    {
        const T a = some_int<T>();
        T b = some_int<T>();
        if (rng(2)) // close to a; else any
            b = (T)((unsigned long long)a + rng(40));
        if (rng(6) == 0)
            b = a;
        return a <= b ? facc_ints<T>{a, b} : facc_ints<T>{b, a};
    }
};
template <> struct random_range<facc_floats> {
    static facc_floats make()
    {
        const float a = some_float(), b = rng(6) ? some_float() : a;
        return facc_floats{fminf(a, b), fmaxf(a, b), rng(5) == 0};
    }
};
template <> struct random_range<facc_bools> {
    static facc_bools make()
    {
        const unsigned k = 1 + rng(3);
        return facc_bools{(k & 1) != 0, (k & 2) != 0};
    }
};

template <class T> static T pick(facc_ints<T> x)
{
    const unsigned long long n =
        (unsigned long long)(long long)x.hi - (unsigned long long)x.lo;
    const unsigned long long any =
        (unsigned long long)rng(1u << 31) << 33 | rng(1u << 31);
    const unsigned kind = rng(4);
    return kind == 0    ? x.lo
           : kind == 1  ? x.hi
           : n + 1 == 0 ? (T)any
                        : (T)((unsigned long long)x.lo + any % (n + 1));
}

static float pick(facc_floats x)
{
    if (x.nan && rng(4) == 0)
        return NAN;
    const float part = (float)rng(1 << 20) / (1 << 20);
    const float v = x.lo + (x.hi - x.lo) * part;
    const unsigned kind = rng(3);
    return kind == 0 || !(v >= x.lo && v <= x.hi) ? x.lo : kind == 1 ? x.hi : v;
}

static bool pick(facc_bools x)
{
    return x.f && x.t ? rng(2) != 0 : x.t;
}

template <class T, class V> static bool holds(facc_ints<T> r, V v)
{
    return r.lo <= v && v <= r.hi;
}
static bool holds(facc_floats r, float v)
{
    return v != v ? r.nan : r.lo <= v && v <= r.hi;
}
static bool holds(facc_bools r, bool v)
{
    return v ? r.t : r.f;
}

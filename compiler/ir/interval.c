/* Interval rules. In: an op and the ranges of its operands; out: a range that
 * holds every result. Called for each int node while building, and by the
 * mask verdicts.
 *
 * Float bounds must hold for kernels (f32, perhaps flushing subnormals) and
 * for the f64 evaluator alike: bounds are computed in double from the ends
 * of the operands, which is right because rounding is monotone, and then
 * moved outward to f32 numbers; functions with a few ulps of error get a
 * relative margin on top. */
#include "compiler/ir/interval.h"

#include <float.h>
#include <math.h>

#include "compiler/ir/eval_math.h"

/* --- integers ------------------------------------------------------------ */

static struct interval ints(int64_t lo, int64_t hi)
{
    return (struct interval){.type = IR_INT, .i = {lo, hi}};
}

static struct interval any_int(void)
{
    return ints(INT64_MIN, INT64_MAX);
}

static int64_t min_i(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_i(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Products at the corners; any int when one leaves 64 bits, since kernels and
 * the evaluator wrap. */
static struct interval iv_imul(const struct interval *x)
{
    int64_t a[2] = {x[0].i.lo, x[0].i.hi}, b[2] = {x[1].i.lo, x[1].i.hi};
    struct interval r = ints(INT64_MAX, INT64_MIN);
    for (int j = 0; j < 4; j++) {
        int64_t p;
        if (__builtin_mul_overflow(a[j / 2], b[j % 2], &p))
            return any_int();
        r.i.lo = min_i(r.i.lo, p);
        r.i.hi = max_i(r.i.hi, p);
    }
    return r;
}

/* Adds x // [a, b] to r, with 0 outside [a, b]. Floor division is monotone in
 * the dividend, and in the divisor for a dividend of one sign. */
static void add_quotients(struct interval *r, const struct interval *x,
                          int64_t a, int64_t b)
{
    int64_t n[2] = {x->i.lo, x->i.hi}, d[2] = {a, b};
    for (int j = 0; j < 4; j++) {
        int64_t q = ev_floordiv(n[j / 2], d[j % 2]);
        r->i.lo = min_i(r->i.lo, q);
        r->i.hi = max_i(r->i.hi, q);
    }
}

static struct interval iv_idiv(const struct interval *x)
{
    struct interval r = ints(INT64_MAX, INT64_MIN), d = x[1];
    if (x[0].i.lo == INT64_MIN && d.i.lo <= -1 && d.i.hi >= -1)
        return any_int(); /* the one quotient that wraps */
    if (d.i.lo <= 0 && d.i.hi >= 0)
        r = ints(0, 0); /* x // 0 is 0 */
    if (d.i.hi > 0)
        add_quotients(&r, &x[0], max_i(d.i.lo, 1), d.i.hi);
    if (d.i.lo < 0)
        add_quotients(&r, &x[0], d.i.lo, min_i(d.i.hi, -1));
    return r;
}

static struct interval iv_imod(const struct interval *x)
{
    struct interval a = x[0], d = x[1];
    if (d.i.lo == d.i.hi && d.i.lo != 0 && d.i.lo != -1) {
        int64_t n = d.i.lo;
        if (ev_floordiv(a.i.lo, n) == ev_floordiv(a.i.hi, n))
            return ints(ev_floormod(a.i.lo, n), ev_floormod(a.i.hi, n));
    }
    if (a.i.lo >= 0 && d.i.lo > a.i.hi)
        return a;
    struct interval r = ints(0, 0);
    if (d.i.lo < 0)
        r.i.lo = d.i.lo + 1;
    if (d.i.hi > 0)
        r.i.hi = d.i.hi - 1;
    if (a.i.lo >= 0) /* above 0 only by a positive divisor: at most a */
        r.i.hi = min_i(r.i.hi, a.i.hi);
    if (a.i.hi <= 0)
        r.i.lo = max_i(r.i.lo, a.i.lo);
    return r;
}

static struct interval iv_imin(const struct interval *x)
{
    return ints(min_i(x[0].i.lo, x[1].i.lo), min_i(x[0].i.hi, x[1].i.hi));
}

static struct interval iv_imax(const struct interval *x)
{
    return ints(max_i(x[0].i.lo, x[1].i.lo), max_i(x[0].i.hi, x[1].i.hi));
}

static struct interval iv_iabs(const struct interval *x)
{
    int64_t lo = x[0].i.lo, hi = x[0].i.hi;
    if (lo >= 0)
        return x[0];
    if (lo == INT64_MIN)
        return any_int(); /* |x| wraps */
    if (hi <= 0)
        return ints(-hi, -lo);
    return ints(0, max_i(-lo, hi));
}

/* Bits that are the same in the whole range: those above the highest bit in
 * which its ends differ. */
struct known_bits {
    uint64_t ones, zeros;
};

static struct known_bits known_bits(const struct interval *x)
{
    uint64_t varying = (uint64_t)x->i.lo ^ (uint64_t)x->i.hi;
    for (int s = 1; s < 64; s *= 2)
        varying |= varying >> s;
    return (struct known_bits){(uint64_t)x->i.lo & ~varying,
                               ~(uint64_t)x->i.lo & ~varying};
}

static struct interval from_bits(struct known_bits k)
{
    const uint64_t sign = UINT64_C(1) << 63;
    uint64_t lo = k.ones, hi = ~k.zeros;
    if (((k.ones | k.zeros) & sign) == 0) { /* either sign */
        lo |= sign;
        hi &= ~sign;
    }
    return ints((int64_t)lo, (int64_t)hi);
}

/* Bits of numbers in [-2^k, 2^k) make such a number again, whatever their
 * signs. */
static struct interval within_width(struct interval r, const struct interval *x)
{
    uint64_t mask = 0;
    for (int j = 0; j < 2; j++) {
        mask |= (uint64_t)(x[j].i.lo < 0 ? ~x[j].i.lo : x[j].i.lo);
        mask |= (uint64_t)(x[j].i.hi < 0 ? ~x[j].i.hi : x[j].i.hi);
    }
    for (int s = 1; s < 64; s *= 2)
        mask |= mask >> s;
    int64_t most = (int64_t)mask; /* 2^k - 1, k <= 63 */
    return ints(max_i(r.i.lo, -most - 1), min_i(r.i.hi, most));
}

static struct interval iv_iand(const struct interval *x)
{
    struct known_bits a = known_bits(&x[0]), b = known_bits(&x[1]);
    struct known_bits k = {a.ones & b.ones, a.zeros | b.zeros};
    struct interval r = from_bits(k);
    for (int j = 0; j < 2; j++) { /* no more than an operand without sign */
        if (x[j].i.lo >= 0) {
            r.i.lo = max_i(r.i.lo, 0);
            r.i.hi = min_i(r.i.hi, x[j].i.hi);
        }
    }
    return within_width(r, x);
}

static struct interval iv_ior(const struct interval *x)
{
    struct known_bits a = known_bits(&x[0]), b = known_bits(&x[1]);
    struct known_bits k = {a.ones | b.ones, a.zeros & b.zeros};
    struct interval r = from_bits(k);
    if (x[0].i.lo >= 0 && x[1].i.lo >= 0)
        r.i.lo = max_i(r.i.lo, max_i(x[0].i.lo, x[1].i.lo));
    for (int j = 0; j < 2; j++) { /* a negative operand's bits only grow */
        if (x[j].i.hi < 0) {
            r.i.lo = max_i(r.i.lo, x[j].i.lo);
            r.i.hi = min_i(r.i.hi, -1);
        }
    }
    return within_width(r, x);
}

static struct interval iv_ixor(const struct interval *x)
{
    struct known_bits a = known_bits(&x[0]), b = known_bits(&x[1]);
    struct known_bits k = {(a.ones & b.zeros) | (a.zeros & b.ones),
                           (a.ones & b.ones) | (a.zeros & b.zeros)};
    return within_width(from_bits(k), x);
}

/* x << [a, b] with 0 <= a: a multiplication while nothing is shifted out. */
static struct interval shift_left(const struct interval *x, int64_t a,
                                  int64_t b)
{
    if (x->i.lo == 0 && x->i.hi == 0)
        return *x;
    if (b > 62)
        return any_int();
    struct interval by[2] = {*x, ints((int64_t)1 << a, (int64_t)1 << b)};
    return iv_imul(by);
}

/* x >> [a, b] with 0 <= a, logical: monotone in the dividend as an unsigned
 * number. */
static struct interval shift_right(const struct interval *x, int64_t a,
                                   int64_t b)
{
    if (b == 0)
        return *x;
    if (x->i.lo >= 0 || (x->i.hi < 0 && a > 0))
        return ints(ev_shl(x->i.lo, -min_i(b, 64)),
                    ev_shl(x->i.hi, -min_i(a, 64)));
    if (a > 0)
        return ints(0, ev_shl(-1, -min_i(a, 64)));
    return any_int();
}

static struct interval iv_ishl(const struct interval *x)
{
    int64_t lo = x[1].i.lo, hi = x[1].i.hi;
    if (lo >= 0)
        return shift_left(&x[0], lo, hi);
    if (hi <= 0 && lo != INT64_MIN)
        return shift_right(&x[0], -hi, -lo);
    return any_int();
}

static struct interval iv_ishr(const struct interval *x)
{
    int64_t lo = x[1].i.lo, hi = x[1].i.hi;
    if (lo >= 0)
        return shift_right(&x[0], lo, hi);
    if (hi <= 0 && lo != INT64_MIN)
        return shift_left(&x[0], -hi, -lo);
    return any_int();
}

/* --- floats --------------------------------------------------------------- */

static struct interval floats(double lo, double hi, bool nan)
{
    return (struct interval){.type = IR_FLOAT, .f = {lo, hi, nan}};
}

static struct interval iv_unknown(const struct interval *x)
{
    (void)x;
    return floats(-INFINITY, INFINITY, true);
}

static struct interval only_nan(void)
{
    return floats(INFINITY, -INFINITY, true);
}

static bool empty(const struct interval *x)
{
    return !(x->f.lo <= x->f.hi);
}

static bool holds(const struct interval *x, double v)
{
    return x->f.lo <= v && v <= x->f.hi;
}

static bool holds_inf(const struct interval *x)
{
    return holds(x, INFINITY) || holds(x, -INFINITY);
}

/* The largest f32 number <= v; 0 for what may be flushed to it. */
static double down(double v)
{
    if (isinf(v))
        return v;
    if (fabs(v) < (double)FLT_MIN)
        return v < 0 ? -(double)FLT_MIN : 0.0;
    if (v > (double)FLT_MAX)
        return (double)FLT_MAX;
    if (v < -(double)FLT_MAX)
        return -INFINITY;
    float f = (float)v;
    return (double)f > v ? (double)nextafterf(f, -INFINITY) : (double)f;
}

static double up(double v)
{
    return -down(-v);
}

/* [lo, hi] as computed in double, moved outward. NaN ends (inf - inf, 0 *
 * inf) say nothing about their side. */
static struct interval outward(double lo, double hi, bool nan)
{
    return floats(isnan(lo) ? -INFINITY : down(lo),
                  isnan(hi) ? INFINITY : up(hi), nan);
}

/* The same with a relative margin for functions that are not exact. */
static struct interval with_margin(double lo, double hi, double margin,
                                   bool nan)
{
    struct interval r =
        outward(lo - fabs(lo) * margin, hi + fabs(hi) * margin, nan);
    if (isinf(lo))
        r.f.lo = lo;
    if (isinf(hi))
        r.f.hi = hi;
    return r;
}

/* Of libraries' and CUDA's functions (a few ulps of 2^-23); of exp by way of
 * exp2 with its argument's rounding; of tanh.approx. */
static const double ulps = 1.0 / (1 << 20);
static const double exp_error = 1.0 / (1 << 15);
static const double fast_error = 1.0 / (1 << 10);

static struct interval iv_fadd(const struct interval *x)
{
    bool nan = x[0].f.nan || x[1].f.nan;
    if (empty(&x[0]) || empty(&x[1]))
        return only_nan();
    nan = nan || (holds(&x[0], INFINITY) && holds(&x[1], -INFINITY)) ||
          (holds(&x[0], -INFINITY) && holds(&x[1], INFINITY));
    return outward(x[0].f.lo + x[1].f.lo, x[0].f.hi + x[1].f.hi, nan);
}

static struct interval iv_fneg(const struct interval *x)
{
    return floats(-x[0].f.hi, -x[0].f.lo, x[0].f.nan);
}

static struct interval iv_fsub(const struct interval *x)
{
    struct interval y[2] = {x[0], iv_fneg(&x[1])};
    return iv_fadd(y);
}

/* Extremes of a function of two that takes them at the corners of a box. */
static void corners(const struct interval *x, double (*fn)(double, double),
                    double *lo, double *hi)
{
    double a[2] = {x[0].f.lo, x[0].f.hi}, b[2] = {x[1].f.lo, x[1].f.hi};
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int j = 0; j < 4; j++) {
        double v = fn(a[j / 2], b[j % 2]);
        *lo = v < *lo ? v : *lo;
        *hi = v > *hi ? v : *hi;
    }
}

/* 0 * inf counts as 0, which is what it bounds: 0 times anything finite. */
static double product(double a, double b)
{
    return a == 0 || b == 0 ? 0.0 : a * b;
}

static double quotient(double a, double b)
{
    return a / b;
}

static struct interval iv_fmul(const struct interval *x)
{
    double lo, hi;
    if (empty(&x[0]) || empty(&x[1]))
        return only_nan();
    bool nan = x[0].f.nan || x[1].f.nan ||
               (holds(&x[0], 0) && holds_inf(&x[1])) ||
               (holds(&x[1], 0) && holds_inf(&x[0]));
    corners(x, product, &lo, &hi);
    return outward(lo, hi, nan);
}

static struct interval iv_fdiv(const struct interval *x)
{
    double lo, hi;
    bool nan = x[0].f.nan || x[1].f.nan;
    if (empty(&x[0]) || empty(&x[1]))
        return only_nan();
    if (holds(&x[1], 0) || (holds_inf(&x[0]) && holds_inf(&x[1])))
        return floats(-INFINITY, INFINITY, true);
    corners(x, quotient, &lo, &hi);
    return outward(lo, hi, nan);
}

static struct interval iv_ffloordiv(const struct interval *x)
{
    struct interval r = iv_fdiv(x);
    r.f.lo = floor(r.f.lo);
    r.f.hi = floor(r.f.hi);
    return r;
}

/* Which operand a NaN lets through differs between Lua's comparison and
 * fminf: either may come out whole. */
static struct interval iv_fmin(const struct interval *x)
{
    struct interval r =
        floats(fmin(x[0].f.lo, x[1].f.lo), fmin(x[0].f.hi, x[1].f.hi),
               x[0].f.nan || x[1].f.nan);
    if (x[0].f.nan)
        r.f.hi = fmax(r.f.hi, x[1].f.hi);
    if (x[1].f.nan)
        r.f.hi = fmax(r.f.hi, x[0].f.hi);
    return r;
}

static struct interval iv_fmax(const struct interval *x)
{
    struct interval y[2] = {iv_fneg(&x[0]), iv_fneg(&x[1])};
    struct interval r = iv_fmin(y);
    return iv_fneg(&r);
}

static struct interval iv_fabs(const struct interval *x)
{
    if (empty(&x[0]) || x[0].f.lo >= 0)
        return x[0];
    struct interval n = iv_fneg(x);
    if (x[0].f.hi <= 0)
        return n;
    return floats(0, fmax(n.f.hi, x[0].f.hi), x[0].f.nan);
}

/* y ln x is bilinear for positive x: extremes at the corners. */
static struct interval iv_fpow(const struct interval *x)
{
    double lo, hi;
    bool nan = x[0].f.nan || x[1].f.nan;
    if (empty(&x[0]) || empty(&x[1]) ||
        !(x[0].f.lo >= (double)FLT_MIN || (x[0].f.lo >= 0 && x[1].f.lo > 0)))
        return iv_unknown(x);
    corners(x, pow, &lo, &hi);
    return with_margin(lo, hi, ulps, nan);
}

/* --- functions of one float ---------------------------------------------- */

static double clamped(double v, double lo, double hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static struct interval increasing(const struct interval *x,
                                  double (*fn)(double), double margin,
                                  double least, double most)
{
    if (empty(x))
        return only_nan();
    struct interval r = with_margin(fn(x->f.lo), fn(x->f.hi), margin, x->f.nan);
    r.f.lo = clamped(r.f.lo, least, most);
    r.f.hi = clamped(r.f.hi, least, most);
    return r;
}

static struct interval iv_exp(const struct interval *x)
{
    return increasing(x, exp, exp_error, 0, INFINITY);
}

static struct interval iv_exp2(const struct interval *x)
{
    return increasing(x, exp2, exp_error, 0, INFINITY);
}

/* Subnormal arguments may be flushed to 0; below 0 there is only NaN. */
static struct interval logarithm(const struct interval *x, double (*fn)(double))
{
    if (empty(x) || x->f.hi < 0)
        return only_nan();
    double lo = x->f.lo < (double)FLT_MIN ? -INFINITY : fn(x->f.lo);
    return with_margin(lo, fn(x->f.hi), ulps, x->f.nan || x->f.lo < 0);
}

static struct interval iv_log(const struct interval *x)
{
    return logarithm(x, log);
}

static struct interval iv_log2(const struct interval *x)
{
    return logarithm(x, log2);
}

static struct interval iv_log10(const struct interval *x)
{
    return logarithm(x, log10);
}

static struct interval iv_tanh(const struct interval *x)
{
    return increasing(x, tanh, ulps, -1, 1);
}

static struct interval iv_tanh_fast(const struct interval *x)
{
    return increasing(x, tanh, fast_error, -1, 1);
}

static double sigmoid(double v)
{
    return 1 / (1 + exp(-v));
}

static struct interval iv_sigmoid(const struct interval *x)
{
    return increasing(x, sigmoid, exp_error, 0, 1);
}

static struct interval iv_erf(const struct interval *x)
{
    return increasing(x, erf, ulps, -1, 1);
}

static struct interval iv_unit(const struct interval *x)
{
    if (empty(x))
        return only_nan();
    return floats(-1, 1, x->f.nan || holds_inf(x));
}

static struct interval iv_sqrt(const struct interval *x)
{
    if (empty(x) || x->f.hi < 0)
        return only_nan();
    return outward(sqrt(fmax(x->f.lo, 0)), sqrt(x->f.hi),
                   x->f.nan || x->f.lo < 0);
}

static struct interval iv_rsqrt(const struct interval *x)
{
    if (empty(x) || x->f.hi < 0)
        return only_nan();
    if (x->f.lo < (double)FLT_MIN) /* the sign of a zero decides which inf */
        return floats(-INFINITY, INFINITY, x->f.nan || x->f.lo < 0);
    return with_margin(1 / sqrt(x->f.hi), 1 / sqrt(x->f.lo), ulps, x->f.nan);
}

/* --- between the types ---------------------------------------------------- */

static struct interval iv_i2f(const struct interval *x)
{
    return outward((double)x->i.lo, (double)x->i.hi, false);
}

static int64_t to_i32(double v)
{
    return (int64_t)clamped(v, (double)INT32_MIN, (double)INT32_MAX);
}

static struct interval to_int(const struct interval *x, double (*fn)(double))
{
    if (empty(x))
        return ints(0, 0); /* NaN gives 0 */
    struct interval r = ints(to_i32(fn(x->f.lo)), to_i32(fn(x->f.hi)));
    if (x->f.nan) {
        r.i.lo = min_i(r.i.lo, 0);
        r.i.hi = max_i(r.i.hi, 0);
    }
    return r;
}

static struct interval iv_f2i_floor(const struct interval *x)
{
    return to_int(x, floor);
}

static struct interval iv_f2i_ceil(const struct interval *x)
{
    return to_int(x, ceil);
}

static struct interval iv_f2i_round(const struct interval *x)
{
    return to_int(x, rint);
}

static struct interval bools(bool may_false, bool may_true)
{
    return (struct interval){.type = IR_BOOL, .b = {may_false, may_true}};
}

static struct interval iv_flt(const struct interval *x)
{
    bool nan = x[0].f.nan || x[1].f.nan;
    return bools(nan || x[0].f.hi >= x[1].f.lo, x[0].f.lo < x[1].f.hi);
}

static struct interval iv_fle(const struct interval *x)
{
    bool nan = x[0].f.nan || x[1].f.nan;
    return bools(nan || x[0].f.hi > x[1].f.lo, x[0].f.lo <= x[1].f.hi);
}

static struct interval iv_feq(const struct interval *x)
{
    bool nan = x[0].f.nan || x[1].f.nan;
    bool meet = fmax(x[0].f.lo, x[1].f.lo) <= fmin(x[0].f.hi, x[1].f.hi);
    bool one = x[0].f.lo == x[0].f.hi && x[1].f.lo == x[1].f.hi;
    return bools(nan || !meet || !one, meet);
}

static struct interval hull(const struct interval *a, const struct interval *b)
{
    switch (a->type) {
    case IR_INT:
        return ints(min_i(a->i.lo, b->i.lo), max_i(a->i.hi, b->i.hi));
    case IR_FLOAT:
        return floats(fmin(a->f.lo, b->f.lo), fmax(a->f.hi, b->f.hi),
                      a->f.nan || b->f.nan);
    case IR_BOOL:
        break;
    }
    return bools(a->b.may_false || b->b.may_false,
                 a->b.may_true || b->b.may_true);
}

static struct interval iv_sel(const struct interval *x)
{
    if (!x[0].b.may_false)
        return x[1];
    if (!x[0].b.may_true)
        return x[2];
    return hull(&x[1], &x[2]);
}

/* --- the table ------------------------------------------------------------ */

struct interval interval_any(enum ir_type t)
{
    if (t == IR_INT)
        return any_int();
    return t == IR_FLOAT ? iv_unknown(NULL) : bools(true, true);
}

#define iv_none NULL

static struct interval (*const rules[IR_OP_COUNT])(const struct interval *) = {
#define OP(name, dsl, n, out, in, cuda, eval, iv, d0, d1, d2)                  \
    [IR_##name] = iv_##iv,
#include "compiler/ir/ops.def"
};

struct interval interval_eval(enum ir_op op, const struct interval *x)
{
    /* "none": the caller's mistake, everything of the type is right, too */
    return rules[op] ? rules[op](x) : interval_any(ir_op_info(op)->out);
}

__extension__ typedef __int128 wide_int;

static int64_t saturated(wide_int v)
{
    if (v > INT64_MAX)
        return INT64_MAX;
    return v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

struct interval interval_linear(int64_t c, uint32_t n, const int64_t *k,
                                const struct interval *x, bool *wide)
{
    wide_int lo = c, hi = c;
    bool lo_out = false, hi_out = false; /* of 128 bits */
    for (uint32_t j = 0; j < n; j++) {
        wide_int a = (wide_int)k[j] * x[j].i.lo, b = (wide_int)k[j] * x[j].i.hi;
        lo_out |= __builtin_add_overflow(lo, k[j] < 0 ? b : a, &lo);
        hi_out |= __builtin_add_overflow(hi, k[j] < 0 ? a : b, &hi);
    }
    *wide = lo_out || hi_out || lo < INT64_MIN || hi > INT64_MAX;
    return ints(lo_out ? INT64_MIN : saturated(lo),
                hi_out ? INT64_MAX : saturated(hi));
}

struct interval interval_of_sum(enum ir_op op, const struct interval *sum)
{
    const int64_t lo = sum->i.lo, hi = sum->i.hi;
    if (op == IR_GE0)
        return bools(lo < 0, hi >= 0);
    if (op == IR_EQ0)
        return bools(lo != 0 || hi != 0, lo <= 0 && hi >= 0);
    return *sum;
}

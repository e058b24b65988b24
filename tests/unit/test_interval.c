/* Interval rules: random boxes of operands and random points in them, the
 * point's result by functions written here, in double and in float, must be
 * in the interval; and hand-written cases that an over-wide rule fails. */
#include <float.h>
#include <math.h>

#include "compiler/ir/interval.h"
#include "tests/unit/ir_fixture.h"
#include "tests/unit/suite.h"

/* In hot loops: Check writes a mark to a pipe at each of its assertions. */
#define must(cond, ...)                                                        \
    do {                                                                       \
        if (!(cond))                                                           \
            ck_abort_msg(__VA_ARGS__);                                         \
    } while (0)

enum { SAMPLES = 100000 };

static uint64_t state;

static uint64_t bits64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint32_t rnd(uint32_t n)
{
    return (uint32_t)(bits64() >> 32) % n;
}

/* --- ints ----------------------------------------------------------------- */

static int64_t any_int(void)
{
    static const int64_t corner[] = {0,
                                     1,
                                     -1,
                                     2,
                                     -2,
                                     63,
                                     64,
                                     -64,
                                     INT32_MAX,
                                     INT32_MIN,
                                     INT64_MAX,
                                     INT64_MIN,
                                     INT64_MAX - 1,
                                     INT64_MIN + 1};
    switch (rnd(4)) {
    case 0:
        return corner[rnd(sizeof corner / sizeof *corner)];
    case 1:
        return (int64_t)rnd(21) - 10;
    case 2:
        return (int64_t)rnd(4001) - 2000;
    default:
        return (int64_t)bits64() >> rnd(64);
    }
}

/* A count of a shift, often a sensible one. */
static int64_t any_count(void)
{
    return rnd(4) ? (int64_t)rnd(150) - 75 : any_int();
}

static struct interval int_box(int64_t (*any)(void))
{
    int64_t a = any(), b = rnd(5) ? any() : a;
    struct interval x = {.type = IR_INT};
    if (rnd(3) == 0 && a < INT64_MAX - 100)
        b = a + rnd(100);
    x.i.lo = a < b ? a : b;
    x.i.hi = a < b ? b : a;
    return x;
}

static int64_t int_in(const struct interval *x)
{
    uint64_t width = (uint64_t)x->i.hi - (uint64_t)x->i.lo;
    switch (rnd(5)) {
    case 0:
        return x->i.lo;
    case 1:
        return x->i.hi;
    default:
        break;
    }
    uint64_t step = width == UINT64_MAX ? bits64() : bits64() % (width + 1);
    if (rnd(2) && step > 16) /* near an end */
        step = rnd(2) ? step % 16 : width - step % 16;
    return (int64_t)((uint64_t)x->i.lo + step);
}

static int64_t i_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
static int64_t i_div(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static int64_t i_mod(int64_t a, int64_t b)
{
    return b == 0
               ? 0
               : (int64_t)((uint64_t)a - (uint64_t)i_div(a, b) * (uint64_t)b);
}
static int64_t i_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t i_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static int64_t i_abs(int64_t a, int64_t b)
{
    (void)b;
    return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
}
static int64_t i_and(int64_t a, int64_t b)
{
    return a & b;
}
static int64_t i_or(int64_t a, int64_t b)
{
    return a | b;
}
static int64_t i_xor(int64_t a, int64_t b)
{
    return a ^ b;
}
static int64_t i_shl(int64_t a, int64_t n)
{
    if (n <= -64 || n >= 64)
        return 0;
    return (int64_t)(n < 0 ? (uint64_t)a >> -n : (uint64_t)a << n);
}
static int64_t i_shr(int64_t a, int64_t n)
{
    return n <= -64 || n >= 64 ? 0 : i_shl(a, -n);
}

static const struct {
    enum ir_op op;
    int64_t (*fn)(int64_t, int64_t);
    int64_t (*second)(void); /* chooses the second operand */
} int_ops[] = {
    {IR_IMUL, i_mul, any_int},   {IR_IDIV, i_div, any_int},
    {IR_IMOD, i_mod, any_int},   {IR_IMIN, i_min, any_int},
    {IR_IMAX, i_max, any_int},   {IR_IABS, i_abs, any_int},
    {IR_IAND, i_and, any_int},   {IR_IOR, i_or, any_int},
    {IR_IXOR, i_xor, any_int},   {IR_ISHL, i_shl, any_count},
    {IR_ISHR, i_shr, any_count},
};

START_TEST(int_rules_hold)
{
    state = 88172645463325252u + (uint64_t)_i;
    for (int n = 0; n < SAMPLES; n++) {
        struct interval x[3] = {int_box(any_int), int_box(int_ops[_i].second)};
        struct interval r = interval_eval(int_ops[_i].op, x);
        must(r.type == IR_INT, "type");
        for (int k = 0; k < 3; k++) {
            int64_t a = int_in(&x[0]), b = int_in(&x[1]);
            int64_t v = int_ops[_i].fn(a, b);
            must(r.i.lo <= v && v <= r.i.hi,
                 "%s(%lld, %lld) = %lld, said [%lld, %lld]",
                 ir_op_info(int_ops[_i].op)->name, (long long)a, (long long)b,
                 (long long)v, (long long)r.i.lo, (long long)r.i.hi);
        }
    }
}
END_TEST

/* Every box of small ints, every point: the exact hull where it is asked. */
START_TEST(small_boxes_are_exact)
{
    static const enum ir_op exact[] = {IR_IMUL, IR_IDIV, IR_IMIN, IR_IMAX,
                                       IR_IABS};
    for (size_t k = 0; k < sizeof int_ops / sizeof *int_ops; k++) {
        bool hull = false;
        for (size_t j = 0; j < sizeof exact / sizeof *exact; j++)
            hull |= int_ops[k].op == exact[j];
        for (int box = 0; box < 14641; box++) {
            int64_t e[4] = {box % 11 - 5, box / 11 % 11 - 5, box / 121 % 11 - 5,
                            box / 1331 - 5};
            if (e[0] > e[1] || e[2] > e[3])
                continue;
            struct interval x[3] = {{.type = IR_INT, .i = {e[0], e[1]}},
                                    {.type = IR_INT, .i = {e[2], e[3]}}};
            int64_t lo = INT64_MAX, hi = INT64_MIN;
            for (int64_t a = e[0]; a <= e[1]; a++) {
                for (int64_t b = e[2]; b <= e[3]; b++) {
                    int64_t v = int_ops[k].fn(a, b);
                    lo = v < lo ? v : lo;
                    hi = v > hi ? v : hi;
                }
            }
            struct interval r = interval_eval(int_ops[k].op, x);
            must(hull ? r.i.lo == lo && r.i.hi == hi
                      : r.i.lo <= lo && r.i.hi >= hi,
                 "%s [%d, %d] [%d, %d]", ir_op_info(int_ops[k].op)->name,
                 (int)e[0], (int)e[1], (int)e[2], (int)e[3]);
        }
    }
}
END_TEST

static struct interval ints(int64_t lo, int64_t hi)
{
    return (struct interval){.type = IR_INT, .i = {lo, hi}};
}

static void check_int(enum ir_op op, struct interval a, struct interval b,
                      int64_t lo, int64_t hi)
{
    struct interval x[3] = {a, b}, r = interval_eval(op, x);
    ck_assert_msg(r.i.lo == lo && r.i.hi == hi, "%s: [%lld, %lld]",
                  ir_op_info(op)->name, (long long)r.i.lo, (long long)r.i.hi);
}

START_TEST(int_rules_are_tight)
{
    struct interval c16 = ints(16, 16), n = ints(0, 1000);
    check_int(IR_IDIV, ints(-33, 100), c16, -3, 6);
    check_int(IR_IDIV, ints(10, 100), ints(2, 5), 2, 50);
    check_int(IR_IMOD, ints(32, 40), c16, 0, 8);
    check_int(IR_IMOD, ints(30, 40), c16, 0, 15);
    check_int(IR_IMOD, ints(-3, -1), c16, 13, 15);
    check_int(IR_IMOD, ints(3, 9), ints(1, 1000), 0, 9);
    check_int(IR_IMOD, ints(3, 9), ints(10, 1000), 3, 9);
    check_int(IR_IMOD, n, ints(-8, -8), -7, 0);
    check_int(IR_IAND, ints(0x120, 0x12f), ints(0xf0, 0xf0), 0x20, 0x20);
    check_int(IR_IAND, ints(-5, 7), ints(0, 31), 0, 31);
    check_int(IR_IAND, ints(-5, 7), ints(-3, 2), -8, 7);
    check_int(IR_IOR, ints(0, 3), ints(8, 8), 8, 11);
    check_int(IR_IOR, ints(0, 9), ints(-9, 3), -16, 15);
    check_int(IR_IXOR, ints(-8, 7), ints(0, 1), -8, 7);
    check_int(IR_IXOR, ints(INT64_MIN, 3), ints(0, 1), INT64_MIN, INT64_MAX);
    check_int(IR_IXOR, ints(4, 7), ints(4, 7), 0, 3);
    check_int(IR_IXOR, ints(0, 9), ints(-1, -1), -16, -1);
    check_int(IR_ISHL, ints(-3, 5), ints(1, 4), -48, 80);
    check_int(IR_ISHL, ints(0, 5), ints(60, 63), INT64_MIN, INT64_MAX);
    check_int(IR_ISHL, n, ints(-3, -1), 0, 500);
    check_int(IR_ISHR, n, ints(3, 100), 0, 125);
    check_int(IR_ISHR, ints(-1, -1), ints(60, 60), 15, 15);
    check_int(IR_ISHR, ints(-4, 4), ints(62, 62), 0, 3);
    check_int(IR_IMUL, ints(INT64_MAX, INT64_MAX), ints(1, 2), INT64_MIN,
              INT64_MAX);
}
END_TEST

START_TEST(linear_forms)
{
    static const int64_t k[2] = {2, -3};
    struct interval x[2] = {ints(0, 10), ints(-1, 5)};
    bool wide = true;
    struct interval r = interval_linear(4, 2, k, x, &wide);
    ck_assert(!wide && r.i.lo == -11 && r.i.hi == 27);
    r = interval_linear(7, 0, NULL, NULL, &wide);
    ck_assert(!wide && r.i.lo == 7 && r.i.hi == 7);
    /* parts beyond 64 bits that cancel are not wide */
    static const int64_t big[2] = {INT64_MAX, INT64_MIN};
    struct interval c[2] = {ints(5, 5), ints(5, 5)};
    r = interval_linear(6, 2, big, c, &wide);
    ck_assert(!wide && r.i.lo == 1 && r.i.hi == 1);
    /* saturated on the true side */
    struct interval y[1] = {ints(2, 3)};
    r = interval_linear(0, 1, big, y, &wide);
    ck_assert(wide && r.i.lo == INT64_MAX && r.i.hi == INT64_MAX);
    struct interval z[2] = {ints(INT64_MIN, INT64_MAX),
                            ints(INT64_MIN, INT64_MAX)};
    r = interval_linear(INT64_MAX, 2, big, z, &wide);
    ck_assert(wide && r.i.lo == INT64_MIN && r.i.hi == INT64_MAX);
}
END_TEST

/* --- floats --------------------------------------------------------------- */

/* Always a float number, so that points in between exist for both widths. */
static float any_float(void)
{
    static const float corner[] = {0.0f,  -0.0f,   1.0f,     -1.0f,    0.5f,
                                   2.0f,  -3.5f,   1e-45f,   FLT_MIN,  FLT_MAX,
                                   88.0f, -104.0f, INFINITY, -INFINITY};
    switch (rnd(4)) {
    case 0:
        return corner[rnd(sizeof corner / sizeof *corner)];
    case 1:
        return (float)((int)rnd(201) - 100) / 8;
    case 2:
        return ((float)rnd(20001) - 10000) / 1000;
    default:
        break;
    }
    float v = ldexpf((float)rnd(1u << 24), (int)rnd(240) - 140);
    return rnd(2) ? v : -v;
}

static struct interval float_box(void)
{
    float a = any_float(), b = rnd(5) ? any_float() : a;
    struct interval x = {.type = IR_FLOAT};
    if (rnd(3) == 0)
        b = a + fabsf(a) * 0.01f;
    x.f.lo = (double)fminf(a, b);
    x.f.hi = (double)fmaxf(a, b);
    x.f.nan = rnd(6) == 0;
    return x;
}

static double float_in(const struct interval *x)
{
    double lo = fmax(x->f.lo, -(double)FLT_MAX);
    double hi = fmin(x->f.hi, (double)FLT_MAX);
    if (x->f.nan && rnd(4) == 0)
        return NAN;
    uint32_t pick = rnd(5);
    if (pick == 0 || lo > hi)
        return x->f.lo;
    if (pick == 1)
        return x->f.hi;
    double v = lo + (hi - lo) * ((double)rnd(1u << 30) / (1u << 30));
    if (pick == 2 && lo < 0 && hi > 0)
        v = 0;
    return fmin(fmax(v, lo), hi);
}

/* One op in both widths: D(x, y) and F(x, y). */
#define BOTH(name, double_expr, float_expr)                                    \
    static double d_##name(double x, double y)                                 \
    {                                                                          \
        (void)y;                                                               \
        return double_expr;                                                    \
    }                                                                          \
    static float f_##name(float x, float y)                                    \
    {                                                                          \
        (void)y;                                                               \
        return float_expr;                                                     \
    }
BOTH(add, x + y, x + y)
BOTH(sub, x - y, x - y)
BOTH(mul, x *y, x *y)
BOTH(div, x / y, x / y)
BOTH(neg, -x, -x)
BOTH(min, y < x ? y : x, fminf(x, y))
BOTH(max, x < y ? y : x, fmaxf(x, y))
BOTH(abs, fabs(x), fabsf(x))
BOTH(pow, pow(x, y), powf(x, y))
BOTH(floordiv, floor(x / y), floorf(x / y))
BOTH(fmod, fmod(x, y), fmodf(x, y))
BOTH(exp, exp(x), expf(x))
BOTH(exp2, exp2(x), exp2f(x))
BOTH(log, log(x), logf(x))
BOTH(log2, log2(x), log2f(x))
BOTH(log10, log10(x), log10f(x))
BOTH(tanh, tanh(x), tanhf(x))
BOTH(tanh_fast, tanh(x) * 1.0004, tanhf(x) * (1 - 0x1p-11f))
BOTH(sigmoid, 1 / (1 + exp(-x)), 1 / (1 + expf(-x)))
BOTH(sin, sin(x), sinf(x))
BOTH(cos, cos(x), cosf(x))
BOTH(tan, tan(x), tanf(x))
BOTH(sqrt, sqrt(x), sqrtf(x))
BOTH(rsqrt, 1 / sqrt(x), 1 / sqrtf(x))
BOTH(erf, erf(x), erff(x))

static const struct {
    enum ir_op op;
    double (*d)(double, double);
    float (*f)(float, float);
} float_ops[] = {
    {IR_FADD, d_add, f_add},
    {IR_FSUB, d_sub, f_sub},
    {IR_FMUL, d_mul, f_mul},
    {IR_FDIV, d_div, f_div},
    {IR_FNEG, d_neg, f_neg},
    {IR_FMIN, d_min, f_min},
    {IR_FMAX, d_max, f_max},
    {IR_FABS, d_abs, f_abs},
    {IR_FPOW, d_pow, f_pow},
    {IR_FFLOORDIV, d_floordiv, f_floordiv},
    {IR_FMOD, d_fmod, f_fmod},
    {IR_FEXP, d_exp, f_exp},
    {IR_FEXP2, d_exp2, f_exp2},
    {IR_FLOG, d_log, f_log},
    {IR_FLOG2, d_log2, f_log2},
    {IR_FLOG10, d_log10, f_log10},
    {IR_FTANH, d_tanh, f_tanh},
    {IR_FTANH_FAST, d_tanh_fast, f_tanh_fast},
    {IR_FSIGMOID, d_sigmoid, f_sigmoid},
    {IR_FSIN, d_sin, f_sin},
    {IR_FCOS, d_cos, f_cos},
    {IR_FTAN, d_tan, f_tan},
    {IR_FSQRT, d_sqrt, f_sqrt},
    {IR_FRSQRT, d_rsqrt, f_rsqrt},
    {IR_FERF, d_erf, f_erf},
};

static void check_in(enum ir_op op, const struct interval *r, double v,
                     double a, double b)
{
    if (isnan(v))
        must(r->f.nan, "%s(%a, %a) is NaN", ir_op_info(op)->name, a, b);
    else
        must(r->f.lo <= v && v <= r->f.hi, "%s(%a, %a) = %a, said [%a, %a]",
             ir_op_info(op)->name, a, b, v, r->f.lo, r->f.hi);
}

/* The result, and the same flushed to zero as kernels may. */
START_TEST(float_rules_hold)
{
    enum ir_op op = float_ops[_i].op;
    state = 362436069362436069u + (uint64_t)_i;
    for (int n = 0; n < SAMPLES; n++) {
        struct interval x[3] = {float_box(), float_box()};
        struct interval r = interval_eval(op, x);
        must(r.type == IR_FLOAT, "type");
        for (int k = 0; k < 3; k++) {
            double a = float_in(&x[0]), b = float_in(&x[1]);
            float fa = (float)a, fb = (float)b;
            if (op != IR_FTANH_FAST || fabs(tanh(a)) < 0.999)
                check_in(op, &r, float_ops[_i].d(a, b), a, b);
            float v = float_ops[_i].f(fa, fb);
            check_in(op, &r, (double)v, (double)fa, (double)fb);
            if (fabsf(v) < FLT_MIN && op != IR_FNEG && op != IR_FABS &&
                op != IR_FMIN && op != IR_FMAX)
                check_in(op, &r, 0, (double)fa, (double)fb);
        }
    }
}
END_TEST

static struct interval floats(double lo, double hi)
{
    return (struct interval){.type = IR_FLOAT, .f = {lo, hi, false}};
}

static void check_float(enum ir_op op, struct interval a, struct interval b,
                        double lo, double hi, double slack)
{
    struct interval x[3] = {a, b}, r = interval_eval(op, x);
    ck_assert_msg(r.f.lo <= lo && r.f.lo >= lo - slack && r.f.hi >= hi &&
                      r.f.hi <= hi + slack && !r.f.nan,
                  "%s: [%a, %a]", ir_op_info(op)->name, r.f.lo, r.f.hi);
}

START_TEST(float_rules_are_tight)
{
    struct interval x = floats(-2, 3), y = floats(4, 5);
    check_float(IR_FADD, x, y, 2, 8, 0);
    check_float(IR_FSUB, x, y, -7, -1, 0);
    check_float(IR_FMUL, x, y, -10, 15, 0);
    check_float(IR_FDIV, floats(-8, 10), floats(2, 4), -4, 5, 0);
    check_float(IR_FDIV, floats(1, 1), floats(3, 3), 1.0 / 3, 1.0 / 3, 1e-7);
    check_float(IR_FNEG, x, x, -3, 2, 0);
    check_float(IR_FABS, x, x, 0, 3, 0);
    check_float(IR_FMIN, x, floats(0, 1), -2, 1, 0);
    check_float(IR_FMAX, x, floats(0, 1), 0, 3, 0);
    check_float(IR_FFLOORDIV, floats(-7, 7), floats(2, 2), -4, 3, 0);
    check_float(IR_FEXP, floats(0, 1), x, 1, 2.718281828, 1e-3);
    check_float(IR_FEXP, floats(-INFINITY, 0), x, 0, 1, 1e-3);
    check_float(IR_FLOG, floats(1, 8), x, 0, 2.07944154, 1e-5);
    check_float(IR_FTANH, floats(-INFINITY, INFINITY), x, -1, 1, 0);
    check_float(IR_FSIGMOID, floats(0, INFINITY), x, 0.5, 1, 1e-3);
    check_float(IR_FSIN, x, x, -1, 1, 0);
    check_float(IR_FSQRT, floats(4, 9), x, 2, 3, 0);
    check_float(IR_FRSQRT, floats(4, 16), x, 0.25, 0.5, 1e-5);
    check_float(IR_FPOW, floats(2, 3), floats(-1, 2), 1.0 / 3, 9, 1e-4);
}
END_TEST

/* An operand that is NaN and nothing else has an empty hull. */
START_TEST(only_nan)
{
    struct interval nan = {.type = IR_FLOAT, .f = {INFINITY, -INFINITY, true}};
    for (size_t k = 0; k < sizeof float_ops / sizeof *float_ops; k++) {
        struct interval x[3] = {nan, nan};
        struct interval r = interval_eval(float_ops[k].op, x);
        ck_assert(r.f.nan);
        ck_assert(!isnan(r.f.lo) && !isnan(r.f.hi));
    }
    struct interval x[3] = {nan, floats(1, 2)}, r = interval_eval(IR_FLT, x);
    ck_assert(r.b.may_false && !r.b.may_true);
    r = interval_eval(IR_FEQ, x);
    ck_assert(r.b.may_false && !r.b.may_true);
    r = interval_eval(IR_FLOOR, x);
    ck_assert(r.i.lo == 0 && r.i.hi == 0);
}
END_TEST

/* --- between the types ---------------------------------------------------- */

static void check_bool(const struct interval *r, bool v, const char *what)
{
    must(v ? r->b.may_true : r->b.may_false, "%s", what);
}

START_TEST(comparisons_hold)
{
    state = 521288629546311u;
    for (int n = 0; n < SAMPLES; n++) {
        struct interval x[3] = {float_box(), rnd(4) ? float_box() : x[0]};
        struct interval lt = interval_eval(IR_FLT, x);
        struct interval le = interval_eval(IR_FLE, x);
        struct interval eq = interval_eval(IR_FEQ, x);
        for (int k = 0; k < 3; k++) {
            double a = float_in(&x[0]), b = float_in(&x[1]);
            check_bool(&lt, a < b, "FLT");
            check_bool(&le, a <= b, "FLE");
            check_bool(&eq, a == b, "FEQ");
        }
    }
    struct interval x[3] = {floats(1, 2), floats(2, 3)};
    struct interval r = interval_eval(IR_FLE, x);
    ck_assert(r.b.may_true && !r.b.may_false);
    r = interval_eval(IR_FLT, x);
    ck_assert(r.b.may_true && r.b.may_false);
    x[1] = floats(0, 0.5);
    r = interval_eval(IR_FLT, x);
    ck_assert(!r.b.may_true && r.b.may_false);
    r = interval_eval(IR_FEQ, x);
    ck_assert(!r.b.may_true && r.b.may_false);
    x[0] = x[1] = floats(4, 4);
    r = interval_eval(IR_FEQ, x);
    ck_assert(r.b.may_true && !r.b.may_false);
}
END_TEST

static int64_t saturated(double v)
{
    if (isnan(v))
        return 0;
    return v <= -2147483648.0  ? INT32_MIN
           : v >= 2147483647.0 ? INT32_MAX
                               : (int64_t)v;
}

START_TEST(conversions_hold)
{
    state = 977741965465u;
    for (int n = 0; n < SAMPLES; n++) {
        struct interval x[3] = {float_box()}, i[3] = {int_box(any_int)};
        struct interval down = interval_eval(IR_FLOOR, x);
        struct interval up = interval_eval(IR_CEIL, x);
        struct interval near = interval_eval(IR_ROUND, x);
        struct interval f = interval_eval(IR_I2F, i);
        for (int k = 0; k < 3; k++) {
            double v = float_in(&x[0]);
            int64_t w = int_in(&i[0]), a = saturated(floor(v));
            must(down.i.lo <= a && a <= down.i.hi, "floor(%a)", v);
            a = saturated(ceil(v));
            must(up.i.lo <= a && a <= up.i.hi, "ceil(%a)", v);
            a = saturated(nearbyint(v));
            must(near.i.lo <= a && a <= near.i.hi, "round(%a)", v);
            check_in(IR_I2F, &f, (double)w, 0, 0);
            check_in(IR_I2F, &f, (double)(float)w, 0, 0);
        }
    }
    struct interval x[3] = {floats(-1.5, 2.5)}, r = interval_eval(IR_FLOOR, x);
    ck_assert(r.i.lo == -2 && r.i.hi == 2);
    r = interval_eval(IR_ROUND, x);
    ck_assert(r.i.lo == -2 && r.i.hi == 2);
    struct interval i[3] = {ints(-3, 1000)};
    r = interval_eval(IR_I2F, i);
    ck_assert(r.f.lo == -3 && r.f.hi == 1000 && !r.f.nan);
}
END_TEST

START_TEST(selects_hold)
{
    struct interval c = {.type = IR_BOOL, .b = {true, true}};
    struct interval x[3] = {c, ints(3, 5), ints(-1, 4)};
    struct interval r = interval_eval(IR_SEL_I, x);
    ck_assert(r.i.lo == -1 && r.i.hi == 5);
    x[0].b.may_false = false;
    r = interval_eval(IR_SEL_I, x);
    ck_assert(r.i.lo == 3 && r.i.hi == 5);
    x[0].b.may_false = true;
    x[0].b.may_true = false;
    r = interval_eval(IR_SEL_I, x);
    ck_assert(r.i.lo == -1 && r.i.hi == 4);
    struct interval y[3] = {c, floats(0, 1), floats(-INFINITY, -2)};
    y[2].f.nan = true;
    r = interval_eval(IR_SEL_F, y);
    ck_assert(r.f.lo == -INFINITY && r.f.hi == 1 && r.f.nan);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("interval");
    TCase *t = tcase_create("interval");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, int_rules_hold, 0, sizeof int_ops / sizeof *int_ops);
    tcase_add_loop_test(t, float_rules_hold, 0,
                        sizeof float_ops / sizeof *float_ops);
    tcase_add_test(t, small_boxes_are_exact);
    tcase_add_test(t, int_rules_are_tight);
    tcase_add_test(t, linear_forms);
    tcase_add_test(t, float_rules_are_tight);
    tcase_add_test(t, only_nan);
    tcase_add_test(t, comparisons_hold);
    tcase_add_test(t, conversions_hold);
    tcase_add_test(t, selects_hold);
    suite_add_tcase(s, t);
    return suite_run(s);
}

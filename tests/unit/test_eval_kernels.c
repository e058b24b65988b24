/* The evaluator's ops against literals, its instruction sets against each
 * other, its float functions against the C library in double. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/eval_kernels.h"
#include "compiler/ir/eval_math.h"
#include "tests/unit/suite.h"

/* --- every op of the table against literals --- */

#define I(v)                                                                   \
    {                                                                          \
        .i = (v)                                                               \
    }
#define F(v)                                                                   \
    {                                                                          \
        .f = (v)                                                               \
    }
static const struct literal {
    enum ir_op op;
    union eval_value x[3], y;
} literals[] = {
    {IR_IMUL, {I(-7), I(6)}, I(-42)},
    {IR_IMUL, {I(INT64_MAX), I(2)}, I(-2)},
    {IR_IMUL, {I(INT64_MIN), I(-1)}, I(INT64_MIN)},
    {IR_IDIV, {I(7), I(2)}, I(3)},
    {IR_IDIV, {I(-7), I(2)}, I(-4)},
    {IR_IDIV, {I(7), I(-2)}, I(-4)},
    {IR_IDIV, {I(-7), I(-2)}, I(3)},
    {IR_IDIV, {I(-8), I(2)}, I(-4)},
    {IR_IDIV, {I(5), I(0)}, I(0)},
    {IR_IDIV, {I(INT64_MIN), I(-1)}, I(INT64_MIN)},
    {IR_IMOD, {I(7), I(3)}, I(1)},
    {IR_IMOD, {I(-7), I(3)}, I(2)},
    {IR_IMOD, {I(7), I(-3)}, I(-2)},
    {IR_IMOD, {I(-7), I(-3)}, I(-1)},
    {IR_IMOD, {I(-6), I(3)}, I(0)},
    {IR_IMOD, {I(5), I(0)}, I(0)},
    {IR_IMOD, {I(INT64_MIN), I(-1)}, I(0)},
    {IR_IMIN, {I(-3), I(2)}, I(-3)},
    {IR_IMAX, {I(-3), I(2)}, I(2)},
    {IR_IABS, {I(-3)}, I(3)},
    {IR_IABS, {I(INT64_MIN)}, I(INT64_MIN)},
    {IR_IAND, {I(12), I(10)}, I(8)},
    {IR_IOR, {I(12), I(10)}, I(14)},
    {IR_IXOR, {I(12), I(10)}, I(6)},
    {IR_ISHL, {I(3), I(4)}, I(48)},
    {IR_ISHL, {I(-1), I(-60)}, I(15)},
    {IR_ISHL, {I(1), I(63)}, I(INT64_MIN)},
    {IR_ISHL, {I(1), I(64)}, I(0)},
    {IR_ISHL, {I(1), I(INT64_MIN)}, I(0)},
    {IR_ISHR, {I(-1), I(60)}, I(15)},
    {IR_ISHR, {I(48), I(4)}, I(3)},
    {IR_ISHR, {I(3), I(-4)}, I(48)},
    {IR_ISHR, {I(-1), I(INT64_MIN)}, I(0)},
    {IR_SEL_I, {I(1), I(5), I(6)}, I(5)},
    {IR_SEL_I, {I(0), I(5), I(6)}, I(6)},
    {IR_NOT, {I(1)}, I(0)},
    {IR_NOT, {I(0)}, I(1)},
    {IR_FLT, {F(1), F(2)}, I(1)},
    {IR_FLT, {F(2), F(2)}, I(0)},
    {IR_FLT, {F(NAN), F(2)}, I(0)},
    {IR_FLE, {F(2), F(2)}, I(1)},
    {IR_FLE, {F(2), F(NAN)}, I(0)},
    {IR_FEQ, {F(0.0), F(-0.0)}, I(1)},
    {IR_FEQ, {F(NAN), F(NAN)}, I(0)},
    {IR_I2F, {I(-9)}, F(-9)},
    {IR_FLOOR, {F(-2.5)}, I(-3)},
    {IR_FLOOR, {F(1e300)}, I(INT32_MAX)},
    {IR_FLOOR, {F(-1e300)}, I(INT32_MIN)},
    {IR_FLOOR, {F(NAN)}, I(0)},
    {IR_CEIL, {F(-2.5)}, I(-2)},
    {IR_CEIL, {F(2147483646.5)}, I(INT32_MAX)},
    {IR_ROUND, {F(2.5)}, I(2)},
    {IR_ROUND, {F(3.5)}, I(4)},
    {IR_ROUND, {F(-INFINITY)}, I(INT32_MIN)},
    {IR_FADD, {F(0.1), F(0.2)}, F(0.30000000000000004)},
    {IR_FSUB, {F(0.3), F(0.1)}, F(0.19999999999999998)},
    {IR_FMUL, {F(0.1), F(3)}, F(0.30000000000000004)},
    {IR_FDIV, {F(1), F(3)}, F(0.3333333333333333)},
    {IR_FDIV, {F(-1), F(0)}, F(-INFINITY)},
    {IR_FNEG, {F(2)}, F(-2)},
    {IR_FMIN, {F(2), F(-1)}, F(-1)},
    {IR_FMAX, {F(2), F(-1)}, F(2)},
    {IR_FABS, {F(-2.5)}, F(2.5)},
    {IR_FPOW, {F(2), F(0.5)}, F(1.4142135623730951)},
    {IR_FPOW, /* Lua multiplies; pow() gives another last bit */
     {F(0x1.c28636d2a3a9fp-3), F(2)},
     F(0x1.c28636d2a3a9fp-3 * 0x1.c28636d2a3a9fp-3)},
    {IR_FFLOORDIV, {F(-7), F(2)}, F(-4)},
    {IR_FMOD, {F(5.5), F(2)}, F(1.5)},
    {IR_FMOD, {F(-5.5), F(2)}, F(0.5)},
    {IR_FMOD, {F(5.5), F(-2)}, F(-0.5)},
    {IR_FMOD, {F(-5.5), F(-2)}, F(-1.5)},
    {IR_FMOD, {F(-1), F(INFINITY)}, F(INFINITY)},
    {IR_FMOD, {F(1), F(INFINITY)}, F(1)},
    {IR_SEL_F, {I(1), F(1.5), F(2.5)}, F(1.5)},
    {IR_SEL_F, {I(0), F(1.5), F(2.5)}, F(2.5)},
    {IR_FEXP, {F(1)}, F(2.718281828459045)},
    {IR_FEXP2, {F(-3)}, F(0.125)},
    {IR_FLOG, {F(10)}, F(2.302585092994046)},
    {IR_FLOG2, {F(8)}, F(3)},
    {IR_FLOG10, {F(1000)}, F(3)},
    {IR_FTANH, {F(0.5)}, F(0.46211715726000973)},
    {IR_FTANH_FAST, {F(0.5)}, F(0.46211715726000973)},
    {IR_FSIGMOID, {F(0)}, F(0.5)},
    {IR_FSIN, {F(1)}, F(0.8414709848078965)},
    {IR_FCOS, {F(1)}, F(0.5403023058681398)},
    {IR_FTAN, {F(1)}, F(1.5574077246549023)},
    {IR_FSQRT, {F(2)}, F(1.4142135623730951)},
    {IR_FRSQRT, {F(4)}, F(0.5)},
    {IR_FERF, {F(0.5)}, F(0.5204998778130465)},
    {IR_DOT, {F(2), F(3)}, F(6)}, /* rows of one element */
};
enum { N_LITERALS = sizeof literals / sizeof *literals };

/* Has a row an eval column? */
static bool in_table(int op)
{
    const struct ir_op_info *o = ir_op_info((enum ir_op)op);
    return o->n > 0 && op != IR_LEN_Q && op != IR_LEN_KV;
}

START_TEST(table_literals)
{
    const struct literal *t = &literals[_i];
    union eval_value y = eval_op_f64(t->op, t->x);
    const char *name = ir_op_info(t->op)->name;
    if (ir_op_info(t->op)->out == IR_FLOAT)
        ck_assert_msg(memcmp(&y.f, &t->y.f, sizeof y.f) == 0,
                      "%s: %.17g, want %.17g", name, y.f, t->y.f);
    else
        ck_assert_msg(y.i == t->y.i, "%s: %lld, want %lld", name,
                      (long long)y.i, (long long)t->y.i);
}
END_TEST

START_TEST(table_is_covered)
{
    for (int op = 1; op < IR_OP_COUNT; op++) {
        bool seen = !in_table(op);
        for (int k = 0; k < N_LITERALS; k++)
            seen |= (int)literals[k].op == op;
        ck_assert_msg(seen, "no literal for %s",
                      ir_op_info((enum ir_op)op)->name);
    }
}
END_TEST

/* The loops take operand types from arity and result; the table's `in`
 * column must say the same. */
START_TEST(table_signatures)
{
    for (int op = 1; op < IR_OP_COUNT; op++) {
        const struct ir_op_info *o = ir_op_info((enum ir_op)op);
        if (!in_table(op))
            continue;
        const char *in = o->n == 3                       ? NULL
                         : o->n == 2                     ? NULL
                         : op == IR_IABS || op == IR_I2F ? "i"
                         : o->out == IR_BOOL             ? "b"
                                                         : "f";
        if (o->n == 3)
            in = o->out == IR_INT ? "bii" : "bff";
        if (o->n == 2)
            in = o->out == IR_INT ? "ii" : "ff";
        ck_assert_str_eq(o->in, in);
    }
}
END_TEST

/* --- instruction sets --- */

static const int64_t ints[] = {0,  1,  -1, 2,  -2,        3,         -3,  7,
                               31, 63, 64, 65, INT64_MIN, INT64_MAX, -64, 4096};
static const double floats[] = {
    0.0,     -0.0, 1,   -1,   0.5,       -0.5,     2.5,   1e-40,
    3.5e-46, 88.5, -88, -104, 1e5,       -1e5,     1e300, 2147483648.0,
    0.62,    0.63, 9.1, -30,  -INFINITY, INFINITY, NAN,   1e-310};
enum { N_INTS = sizeof ints / sizeof *ints };
enum { N_FLOATS = sizeof floats / sizeof *floats, N_MAX = N_FLOATS * N_FLOATS };

/* All pairs of interesting values, as operand k of type t. */
static int fill_operand(char t, int k, enum eval_precision prec, void *to)
{
    int n = t == 'f' ? N_FLOATS : N_INTS;
    for (int a = 0; a < N_MAX; a++) {
        int which = k == 0 ? a % n : a / n % n;
        if (t == 'f' && prec == EVAL_F32)
            ((float *)to)[a] = (float)floats[which];
        else if (t == 'f')
            ((double *)to)[a] = floats[which];
        else if (t == 'i')
            ((int64_t *)to)[a] = ints[which];
        else
            ((uint8_t *)to)[a] = (uint8_t)(a % 3 != 0);
    }
    return N_MAX;
}

static size_t size_of(enum ir_type t, enum eval_precision prec)
{
    return t == IR_BOOL ? 1 : t == IR_FLOAT && prec == EVAL_F32 ? 4 : 8;
}

/* Same bits, any two NaN being equal. */
static bool same(enum ir_type t, enum eval_precision prec, const char *a,
                 const char *b)
{
    if (memcmp(a, b, size_of(t, prec)) == 0)
        return true;
    if (t != IR_FLOAT)
        return false;
    float s[2];
    double d[2];
    memcpy(&s[0], a, 4);
    memcpy(&s[1], b, 4);
    if (prec == EVAL_F32)
        return isnan(s[0]) && isnan(s[1]);
    memcpy(&d[0], a, 8);
    memcpy(&d[1], b, 8);
    return isnan(d[0]) && isnan(d[1]);
}

static void compare_sets(enum ir_op op, enum eval_precision prec,
                         const struct eval_kernels *a,
                         const struct eval_kernels *b)
{
    static int64_t x[3][N_MAX], ya[N_MAX], yb[N_MAX];
    const struct ir_op_info *o = ir_op_info(op);
    for (int k = 0; k < o->n; k++)
        fill_operand(o->in[k], k, prec, x[k]);
    a->table(op, N_MAX, ya, x[0], x[1], x[2]);
    b->table(op, N_MAX, yb, x[0], x[1], x[2]);
    size_t size = size_of(o->out, prec);
    for (size_t k = 0; k < N_MAX; k++)
        ck_assert_msg(
            same(o->out, prec, (char *)ya + k * size, (char *)yb + k * size),
            "%s: element %zu differs between instruction sets", o->name, k);
}

START_TEST(sets_agree)
{
    static const char *const isa[] = {"avx2", "avx512"};
    enum eval_precision prec = _i ? EVAL_F64 : EVAL_F32;
    for (int k = 0; k < 2; k++) {
        const struct eval_kernels *s = eval_kernels_named(prec, isa[k]);
        for (int op = 1; s != NULL && op < IR_OP_COUNT; op++)
            if (in_table(op))
                compare_sets((enum ir_op)op, prec, s,
                             eval_kernels_named(prec, "generic"));
    }
}
END_TEST

/* --- float functions of our own --- */

/* Distance in units of the last place of the exact value's binade. */
static double ulps(float got, double want)
{
    if (isnan(want) || isinf((float)want))
        return (isnan(got) && isnan(want)) || got == (float)want ? 0 : 1e9;
    int e;
    frexp(want, &e);
    e = e < -125 ? -125 : e;
    return fabs((double)got - want) / ldexp(1, e - 24);
}

START_TEST(exp_and_tanh_accurate)
{
    double worst_exp = 0, worst_tanh = 0;
    for (uint32_t u = 0; u < 0xff000000u; u += 4099) {
        float x = ev_float(u);
        double e = ulps(ev_exp_f32(x), exp((double)x));
        double t = ulps(ev_tanh_f32(x), tanh((double)x));
        worst_exp = e > worst_exp ? e : worst_exp;
        worst_tanh = t > worst_tanh ? t : worst_tanh;
    }
    ck_assert_msg(worst_exp <= 1.5, "exp: %g ulp", worst_exp);
    ck_assert_msg(worst_tanh <= 2, "tanh: %g ulp", worst_tanh);
    ck_assert(isnan(ev_exp_f32(NAN)) && isnan(ev_tanh_f32(NAN)));
    ck_assert(ev_exp_f32(-INFINITY) == 0 && isinf(ev_exp_f32(INFINITY)));
    ck_assert(ev_tanh_f32(INFINITY) == 1 && ev_tanh_f32(-INFINITY) == -1);
}
END_TEST

START_TEST(narrow_floats_exact)
{
    for (uint32_t u = 0; u < 0x10000; u++) {
        uint16_t h = (uint16_t)u;
        uint8_t b = (uint8_t)u;
        double w = dtype_load_f64(DTYPE_F16, &h);
        ck_assert((isnan(w) && isnan(ev_from_f16(h))) ||
                  ((double)ev_from_f16(h) == w &&
                   !signbit(ev_from_f16(h)) == !signbit(w)));
        w = dtype_load_f64(DTYPE_BF16, &h);
        ck_assert((isnan(w) && isnan(ev_from_bf16(h))) ||
                  (double)ev_from_bf16(h) == w);
        w = dtype_load_f64(DTYPE_E4M3, &b);
        ck_assert((isnan(w) && isnan(ev_from_e4m3(b))) ||
                  (double)ev_from_e4m3(b) == w);
        w = dtype_load_f64(DTYPE_E5M2, &b);
        ck_assert((isnan(w) && isnan(ev_from_e5m2(b))) ||
                  (double)ev_from_e5m2(b) == w);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eval kernels");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, table_literals, 0, N_LITERALS);
    tcase_add_test(t, table_is_covered);
    tcase_add_test(t, table_signatures);
    tcase_add_loop_test(t, sets_agree, 0, 2);
    tcase_add_test(t, exp_and_tanh_accurate);
    tcase_add_test(t, narrow_floats_exact);
    suite_add_tcase(s, t);
    return suite_run(s);
}

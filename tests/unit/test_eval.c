/* The evaluator against literals and loops written by hand. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/eval.h"
#include "compiler/ir/eval_kernels.h"
#include "compiler/ir/eval_math.h"

/* --- a graph and a call ------------------------------------------------- */

static struct arena *arena;
static struct diag diag;
static struct ir_graph *g;
static struct eval_env env;

static void setup(void)
{
    arena = arena_new(&alloc_libc);
    diag_init(&diag);
    g = ir_graph_new(arena, &diag, "mod.lua");
    env = (struct eval_env){.B = 2, .H = 4, .Hkv = 2, .Sq = 40, .Skv = 50};
}

static void teardown(void)
{
    arena_free(arena);
}

/* Position of the cells that a test looks at. */
struct cells {
    int64_t b, h, q, kv0;
    int n;
};

/* One row through the evaluator in f64: scores in and out, keep out. */
static bool run_row(ir_ref score, ir_ref keep, const struct cells *c,
                    double *row, uint8_t *kept)
{
    struct ir_roots roots = {score, keep};
    ck_assert_msg(!g->failed, "%s", diag.message);
    struct eval_plan *p = eval_plan_new(arena, g, &roots);
    ck_assert_ptr_nonnull(p);
    struct eval_state *s = eval_state_new(p, EVAL_F64, c->n, &env);
    ck_assert_ptr_nonnull(s);
    diag_init(&diag);
    bool ok = eval_tile(s, c->b, c->h, c->kv0, c->n, &diag) &&
              eval_row(s, c->q, row, kept, &diag);
    eval_state_free(s);
    return ok;
}

static double cell_f64(ir_ref score, const struct cells *c)
{
    double row[64] = {0};
    ck_assert_msg(run_row(score, ir_const_b(g, true), c, row, NULL), "%s",
                  diag.message);
    return row[0];
}

static ir_ref var(enum ir_var v)
{
    return ir_var(g, v);
}

static ir_ref f(double v)
{
    return ir_const_f(g, v);
}

static ir_ref i(int64_t v)
{
    return ir_const_i(g, v);
}

/* --- every op of the table against literals ------------------------------- */

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
    {IR_FTANH, {F(0.5)}, F(0.46211715726000973)},
    {IR_FTANH_FAST, {F(0.5)}, F(0.46211715726000973)},
    {IR_FSIGMOID, {F(0)}, F(0.5)},
    {IR_FSIN, {F(1)}, F(0.8414709848078965)},
    {IR_FCOS, {F(1)}, F(0.5403023058681398)},
    {IR_FTAN, {F(1)}, F(1.5574077246549023)},
    {IR_FSQRT, {F(2)}, F(1.4142135623730951)},
    {IR_FRSQRT, {F(4)}, F(0.5)},
    {IR_FERF, {F(0.5)}, F(0.5204998778130465)},
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

/* --- instruction sets ------------------------------------------------------
 */

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

/* --- float functions of our own --------------------------------------------
 */

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

/* --- scopes ------------------------------------------------------------------
 */

static int tensor(const char *name, enum dtype t, int rank,
                  const int64_t *extent)
{
    struct ir_tensor x = {.name = name, .dtype = t, .rank = rank};
    for (int k = 0; k < rank; k++)
        x.dim[k] = (struct ir_dim){IR_DIM_FIXED, extent[k]};
    return ir_add_tensor(g, &x);
}

START_TEST(scopes_against_loops)
{
    static const float slope[4] = {0.5f, 0.25f, -2, 8};
    static const int32_t doc[50] = {0, 0, 0, 1, 1, 2, 2, 2, 2, 3};
    struct eval_tensor tensors[2] = {{slope, {4}, {1}}, {doc, {50}, {1}}};
    env.tensors = tensors;
    ir_ref b = var(IR_VAR_B), h = var(IR_VAR_H), q = var(IR_VAR_Q);
    ir_ref kv = var(IR_VAR_KV);
    int s = tensor("slope", DTYPE_F32, 1, (int64_t[]){4});
    int d = tensor("doc", DTYPE_I32, 1, (int64_t[]){50});
    /* score * (b + 1) + slope[h] * (kv - q) + doc[kv] % 2 */
    ir_ref score = ir_mul(g, ir_score(g), ir_add(g, b, i(1)));
    score = ir_add(g, score, ir_mul(g, ir_load(g, s, 1, &h), ir_sub(g, kv, q)));
    score = ir_add(g, score, ir_floormod(g, ir_load(g, d, 1, &kv), i(2)));
    /* doc[q] == doc[kv] or 2 * q - kv < 3 */
    ir_ref keep =
        ir_or2(g, ir_eq(g, ir_load(g, d, 1, &q), ir_load(g, d, 1, &kv)),
               ir_lt(g, ir_sub(g, ir_mul(g, i(2), q), kv), i(3)));
    struct ir_roots roots = {score, keep};
    ck_assert(!g->failed);
    struct eval_plan *p = eval_plan_new(arena, g, &roots);
    ck_assert(eval_plan_has_score(p) && eval_plan_has_mask(p));
    ck_assert_int_gt(eval_plan_cost(p), 0);
    for (int prec = EVAL_F32; prec <= EVAL_F64; prec++) {
        struct eval_state *st =
            eval_state_new(p, (enum eval_precision)prec, 16, &env);
        for (int64_t c = 0; c < 2 * 4 * 4; c++) { /* tiles, in odd order */
            int64_t tb = c % 2, th = c / 2 % 4, kv0 = c / 8 * 13;
            int n = kv0 + 16 <= 50 ? 16 : (int)(50 - kv0);
            ck_assert(eval_tile(st, tb, th, kv0, n, &diag));
            for (int64_t tq = 39; tq >= 0; tq -= 3) {
                double wide[16];
                float narrow[16];
                uint8_t kept[16];
                for (int k = 0; k < n; k++)
                    narrow[k] = (float)(wide[k] = 0.125 * k - 1);
                ck_assert(eval_row(st, tq,
                                   prec == EVAL_F32 ? (void *)narrow : wide,
                                   kept, &diag));
                for (int k = 0; k < n; k++) {
                    int64_t col = kv0 + k;
                    double want = (0.125 * k - 1) * (double)(tb + 1) +
                                  (double)slope[th] * (double)(col - tq) +
                                  doc[col] % 2;
                    double got = prec == EVAL_F32 ? (double)narrow[k] : wide[k];
                    ck_assert_double_eq(got, want); /* exact in f32 too */
                    ck_assert_int_eq(kept[k],
                                     doc[tq] == doc[col] || 2 * tq - col < 3);
                }
            }
        }
        eval_state_free(st);
    }
}
END_TEST

START_TEST(identity_and_scalar_roots)
{
    struct cells c = {0, 3, 5, 8, 4};
    double row[4] = {1, 2, 3, 4};
    uint8_t kept[4];
    struct ir_roots none = {ir_score(g), ir_const_b(g, true)};
    struct eval_plan *p = eval_plan_new(arena, g, &none);
    ck_assert(!eval_plan_has_score(p) && !eval_plan_has_mask(p));
    ck_assert(run_row(none.score, none.keep, &c, row, kept));
    ck_assert(row[0] == 1 && row[3] == 4 && kept[0] == 1 && kept[3] == 1);
    /* tile- and row-scope roots fill the row */
    ir_ref h = ir_to_float(g, var(IR_VAR_H));
    ck_assert(run_row(h, ir_lt(g, var(IR_VAR_Q), i(5)), &c, row, kept));
    ck_assert(row[0] == 3 && row[3] == 3 && kept[0] == 0 && kept[3] == 0);
}
END_TEST

START_TEST(sizes_params_lengths)
{
    static const int32_t len_q[2] = {7, 9}, len_kv[2] = {11, 13};
    union eval_value params[2] = {{.i = INT64_C(1) << 40}, {.f = 0.1}};
    struct ir_param pi = {"window", DTYPE_I64, 1}, pf = {"cap", DTYPE_F32, 2};
    struct cells c = {1, 2, 3, 4, 1};
    env.params = params;
    int a = ir_add_param(g, &pi), b = ir_add_param(g, &pf);
    ir_ref sizes = ir_add(g, ir_mul(g, var(IR_VAR_SIZE_B), i(1000000)),
                          ir_add(g, ir_mul(g, var(IR_VAR_SIZE_H), i(100000)),
                                 ir_mul(g, var(IR_VAR_SIZE_HKV), i(10000))));
    sizes = ir_add(g, sizes, ir_mul(g, var(IR_VAR_SIZE_Q), i(100)));
    sizes = ir_add(g, sizes, var(IR_VAR_SIZE_KV));
    ck_assert_double_eq(cell_f64(ir_to_float(g, sizes), &c), 2424050);
    ck_assert_double_eq(
        cell_f64(ir_to_float(g, ir_floordiv(g, ir_param(g, a), i(1 << 20))),
                 &c),
        1 << 20);
    /* an f32 param is an f32 on every path */
    ck_assert_double_eq(cell_f64(ir_param(g, b), &c), (double)0.1f);
    ir_ref vb = var(IR_VAR_B);
    ir_ref lens = ir_add(g, ir_mul(g, ir_len(g, false, vb), i(100)),
                         ir_len(g, true, ir_sub(g, i(1), vb)));
    lens = ir_to_float(g, lens);
    ck_assert_double_eq(cell_f64(lens, &c), 40 * 100 + 50);
    env.len_q = len_q;
    env.len_kv = len_kv;
    ck_assert_double_eq(cell_f64(lens, &c), 9 * 100 + 11);
    /* a length of a sequence that is not there */
    double row[1] = {0};
    ir_ref bad = ir_to_float(g, ir_len(g, true, ir_add(g, vb, i(1))));
    ck_assert(!run_row(bad, ir_const_b(g, true), &c, row, NULL));
    ck_assert_int_eq(diag.status, DIAG_BOUNDS);
    ck_assert_ptr_nonnull(strstr(diag.message, "sequence 2 of 2"));
}
END_TEST

/* --- loads -------------------------------------------------------------------
 */

START_TEST(loads_of_every_type)
{
    static const float f32[2] = {0, -1.5f};
    static const uint16_t f16[2] = {0, 0xbe00}, bf16[2] = {0, 0xbfc0};
    static const uint8_t e4m3[2] = {0, 0xbc}, e5m2[2] = {0, 0xbe};
    static const int8_t i8[2] = {0, -128};
    static const uint8_t u8[2] = {0, 200}, bools[2] = {0, 7};
    static const int16_t i16[2] = {0, -30000};
    static const int32_t i32[2] = {0, INT32_MIN};
    static const int64_t i64[2] = {0, INT64_C(1) << 50};
    const struct {
        enum dtype t;
        const void *data;
        double want;
    } all[] = {{DTYPE_F32, f32, -1.5},    {DTYPE_F16, f16, -1.5},
               {DTYPE_BF16, bf16, -1.5},  {DTYPE_E4M3, e4m3, -1.5},
               {DTYPE_E5M2, e5m2, -1.5},  {DTYPE_I8, i8, -128},
               {DTYPE_U8, u8, 200},       {DTYPE_I16, i16, -30000},
               {DTYPE_I32, i32, -0x1p31}, {DTYPE_I64, i64, 0x1p50},
               {DTYPE_BOOL, bools, 1}};
    enum { N = sizeof all / sizeof *all };
    struct eval_tensor tensors[N];
    env.tensors = tensors;
    struct cells c = {1, 0, 0, 1, 1};
    for (int k = 0; k < N; k++) {
        tensors[k] = (struct eval_tensor){all[k].data, {2}, {1}};
        int t = tensor("t", all[k].t, 1, (int64_t[]){2});
        ir_ref scalar = var(IR_VAR_B), wide = var(IR_VAR_KV);
        ir_ref x[2] = {ir_load(g, t, 1, &scalar), ir_load(g, t, 1, &wide)};
        for (int j = 0; j < 2; j++) {
            ir_ref v = all[k].t == DTYPE_BOOL ? ir_select(g, x[j], f(1), f(0))
                                              : ir_to_float(g, x[j]);
            ck_assert_double_eq(cell_f64(v, &c), all[k].want);
        }
    }
}
END_TEST

START_TEST(loads_strided)
{
    /* data[i] = i; a view of rank 5 that runs backwards, repeats, skips */
    static int32_t data[400];
    for (int k = 0; k < 400; k++)
        data[k] = k;
    struct eval_tensor tensors[2] = {
        {data + 399, {2, 4, 40, 50, 3}, {-100, 0, -3, -2, 1}},
        {data + 17, {0}, {0}}};
    env.tensors = tensors;
    ir_ref index[5] = {var(IR_VAR_B), var(IR_VAR_H), var(IR_VAR_Q),
                       var(IR_VAR_KV), i(0)};
    int t = tensor("t", DTYPE_I32, 5, (int64_t[]){2, 4, 40, 50, 3});
    int rank0 = tensor("r", DTYPE_I32, 0, NULL);
    ir_ref v = ir_load(g, t, 5, index);
    struct cells c = {1, 3, 11, 7, 20};
    double row[20] = {0};
    ck_assert(run_row(ir_to_float(g, v), ir_const_b(g, true), &c, row, NULL));
    for (int k = 0; k < 20; k++)
        ck_assert_double_eq(row[k], 399 - 100 - 33 - 2 * (7 + k));
    ck_assert_double_eq(
        cell_f64(ir_to_float(g, ir_load(g, rank0, 0, NULL)), &c), 17);
}
END_TEST

/* --- reads outside
 * ------------------------------------------------------------ */

static const float eight[8] = {0, 1, 2, 3, 4, 5, 6, 7};

/* t[index] of 8 floats, made in line 12. */
static ir_ref read_eight(ir_ref index)
{
    static struct eval_tensor tensors[1];
    tensors[0] = (struct eval_tensor){eight, {8}, {1}};
    env.tensors = tensors;
    g->line = 12;
    int t = g->n_tensors > 0 ? 0 : tensor("bias", DTYPE_F32, 1, (int64_t[]){8});
    ir_ref r = ir_load(g, t, 1, &index);
    g->line = 0;
    return r;
}

static void expect_bounds(ir_ref score, ir_ref keep, const char *text)
{
    struct cells c = {1, 2, 10, 0, 16};
    double row[16] = {0};
    uint8_t kept[16];
    ck_assert(!run_row(score, keep, &c, row, kept));
    ck_assert_int_eq(diag.status, DIAG_BOUNDS);
    ck_assert_int_eq(diag.line, 12);
    ck_assert_str_eq(diag.file, "mod.lua");
    ck_assert_msg(strstr(diag.message, text) != NULL, "%s", diag.message);
}

START_TEST(bad_read_reported)
{
    ir_ref kv = var(IR_VAR_KV), q = var(IR_VAR_Q), yes = ir_const_b(g, true);
    expect_bounds(ir_add(g, ir_score(g), read_eight(kv)), yes,
                  "'bias' is read outside its bounds: index 1 is 8, the "
                  "extent is 8 (at b 1, h 2, q 10, kv 8)");
    expect_bounds(read_eight(ir_sub(g, kv, q)), yes, "index 1 is -10");
    expect_bounds(read_eight(q), yes, "index 1 is 10");
    expect_bounds(read_eight(ir_sub(g, var(IR_VAR_B), i(2))), yes,
                  "index 1 is -1");
    /* far outside, where index arithmetic would overflow */
    expect_bounds(read_eight(ir_mul(g, kv, i(-(INT64_C(1) << 30)))), yes,
                  "index 1 is -1073741824");
    /* the mask itself is read from outside */
    ir_ref keep = ir_lt(g, read_eight(kv), f(3));
    expect_bounds(ir_score(g), keep, "index 1 is 8");
    /* through an index: t[t[kv]] */
    ir_ref chained =
        read_eight(ir_build(g, IR_FLOOR, (ir_ref[]){read_eight(kv)}));
    expect_bounds(chained, yes, "index 1 is 8");
}
END_TEST

static void expect_fine(ir_ref score, ir_ref keep, const double *want,
                        const uint8_t *want_keep)
{
    struct cells c = {1, 2, 10, 0, 16};
    double row[16] = {0};
    uint8_t kept[16];
    ck_assert_msg(run_row(score, keep, &c, row, kept), "%s", diag.message);
    for (int k = 0; k < 16; k++) {
        ck_assert_int_eq(kept[k], want_keep[k]);
        if (kept[k])
            ck_assert_double_eq(row[k], want[k]);
    }
}

START_TEST(bad_read_that_does_not_matter)
{
    static const double first[16] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const uint8_t all[16] = {1, 1, 1, 1, 1, 1, 1, 1,
                                    1, 1, 1, 1, 1, 1, 1, 1};
    static const uint8_t half[16] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const uint8_t three[16] = {1, 1, 1};
    static const uint8_t not_three[16] = {0, 0, 0, 1, 1, 1, 1, 1,
                                          1, 1, 1, 1, 1, 1, 1, 1};
    static const double zero[16] = {0};
    ir_ref kv = var(IR_VAR_KV), inside = ir_lt(g, kv, i(8));
    ir_ref t = read_eight(kv), yes = ir_const_b(g, true);
    /* masked cells; an arm not taken; both ways round */
    expect_fine(t, inside, first, half);
    expect_fine(ir_select(g, inside, t, f(0)), yes, first, all);
    expect_fine(ir_select(g, ir_not(g, inside), f(0), t), yes, first, all);
    /* a mask that reads, decided by another operand */
    ir_ref low = ir_lt(g, t, f(3));
    expect_fine(f(0), ir_and2(g, inside, low), zero, three);
    expect_fine(f(0), ir_or2(g, ir_not(g, inside), ir_not(g, low)), zero,
                not_three);
    /* a select chosen by a poisoned condition is an error, a clean one with
     * poisoned arms only where taken */
    expect_bounds(ir_select(g, low, f(1), f(2)), yes, "index 1 is 8");
    expect_fine(ir_select(g, low, f(1), f(2)), inside,
                (const double[16]){1, 1, 1, 2, 2, 2, 2, 2}, half);
}
END_TEST

START_TEST(empty_tensor)
{
    struct eval_tensor none = {NULL, {0}, {1}};
    struct cells c = {0, 0, 0, 0, 4};
    double row[4] = {0};
    uint8_t kept[4];
    env.tensors = &none;
    int t = tensor("none", DTYPE_F32, 1, (int64_t[]){0});
    ir_ref kv = var(IR_VAR_KV), v = ir_load(g, t, 1, &kv);
    ck_assert(!run_row(v, ir_const_b(g, true), &c, row, kept));
    ck_assert_int_eq(diag.status, DIAG_BOUNDS);
    ck_assert(run_row(v, ir_lt(g, kv, i(0)), &c, row, kept));
}
END_TEST

/* --- column ranges
 * -------------------------------------------------------------- */

/* Against every cell: outside nothing is kept, inside all is. */
static void check_range(ir_ref keep, bool exact)
{
    struct ir_roots roots = {ir_score(g), keep};
    struct eval_plan *p = eval_plan_new(arena, g, &roots);
    struct eval_state *s = eval_state_new(p, EVAL_F32, 50, &env);
    ck_assert_ptr_nonnull(s);
    for (int64_t h = 0; h < 4; h++)
        for (int64_t q0 = 0; q0 < 40; q0 += 7) {
            int64_t q1 = q0 + 7 < 40 ? q0 + 7 : 40;
            int any[50] = {0}, all[50];
            for (int k = 0; k < 50; k++)
                all[k] = 1;
            ck_assert(eval_tile(s, 0, h, 0, 50, &diag));
            for (int64_t q = q0; q < q1; q++) {
                uint8_t kept[50];
                ck_assert(eval_row(s, q, NULL, kept, &diag));
                for (int k = 0; k < 50; k++) {
                    any[k] |= kept[k];
                    all[k] &= kept[k];
                }
            }
            struct eval_range r;
            eval_kv_range(s, 0, h, q0, q1, 50, &r);
            ck_assert(0 <= r.lo && r.lo <= r.hi && r.hi <= 50);
            ck_assert(r.lo < r.hi || r.lo == 0);
            for (int k = 0; k < 50; k++) {
                bool out = k < r.lo || k >= r.hi;
                bool full = k >= r.full_lo && k < r.full_hi;
                ck_assert(!(out && any[k]) && !(full && !all[k]));
                if (exact)
                    ck_assert(out == !any[k] && full == all[k]);
            }
        }
    eval_state_free(s);
}

START_TEST(ranges)
{
    ir_ref q = var(IR_VAR_Q), kv = var(IR_VAR_KV), h = var(IR_VAR_H);
    ir_ref d = ir_sub(g, q, kv), causal = ir_le(g, i(0), d);
    check_range(ir_const_b(g, true), true);
    check_range(ir_const_b(g, false), true);
    check_range(causal, true);
    check_range(ir_le(g, d, i(0)), true);
    check_range(ir_and2(g, causal, ir_lt(g, d, i(12))), true);
    check_range(ir_le(g, d, ir_mul(g, h, i(4))), true);
    check_range(ir_lt(g, h, i(2)), true);
    check_range(ir_and2(g, causal, ir_lt(g, h, i(2))), true);
    check_range(ir_le(g, ir_mul(g, kv, i(3)), ir_add(g, q, i(20))), true);
    check_range(ir_le(g, ir_add(g, q, i(30)), kv), true);
    check_range(ir_le(g, ir_add(g, q, i(90)), kv), true);
    check_range(ir_lt(g, q, i(21)), true);
    check_range(ir_lt(g, kv, i(21)), true);
    ir_ref odd = ir_eq(g, ir_floormod(g, kv, i(2)), i(1));
    check_range(ir_and2(g, causal, odd), false);
    check_range(ir_or2(g, causal, odd), false);
}
END_TEST

/* Tile-scope reads outside a tensor bound nothing. */
START_TEST(range_of_a_bad_read)
{
    static const int32_t start[1] = {0};
    struct eval_tensor t = {start, {1}, {1}};
    struct eval_range r;
    env.tensors = &t;
    int id = tensor("start", DTYPE_I32, 1, (int64_t[]){1});
    ir_ref h = var(IR_VAR_H);
    struct ir_roots roots = {
        ir_score(g),
        ir_le(g, ir_load(g, id, 1, &h), ir_sub(g, var(IR_VAR_KV), i(5)))};
    struct eval_state *s =
        eval_state_new(eval_plan_new(arena, g, &roots), EVAL_F32, 50, &env);
    eval_kv_range(s, 0, 0, 0, 8, 50, &r);
    ck_assert(r.lo == 5 && r.hi == 50 && r.full_lo == 5 && r.full_hi == 50);
    eval_kv_range(s, 0, 1, 0, 8, 50, &r);
    ck_assert(r.lo == 0 && r.hi == 50 && r.full_lo == r.full_hi);
    eval_state_free(s);
}
END_TEST

/* --- memory
 * ------------------------------------------------------------------------ */

/* Gives out memory `left` times and then refuses; counts what is alive. */
struct failing {
    long left, live;
};

static void *failing_fn(void *user, void *ptr, size_t old_size, size_t new_size)
{
    struct failing *x = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        x->live--;
        return NULL;
    }
    if (x->left-- <= 0)
        return NULL;
    x->live += ptr == NULL;
    return realloc(ptr, new_size);
}

START_TEST(allocation_fails)
{
    bool done = false;
    for (long n = 0; n < 200 && !done; n++) {
        struct failing left = {n, 0};
        struct alloc al = {failing_fn, &left};
        struct arena *a = arena_new(&al);
        if (a == NULL)
            continue;
        struct diag d;
        diag_init(&d);
        struct ir_graph *x = ir_graph_new(a, &d, "mod.lua");
        if (x != NULL) {
            ir_ref q = ir_var(x, IR_VAR_Q), kv = ir_var(x, IR_VAR_KV);
            struct ir_roots roots = {
                ir_add(x, ir_score(x), ir_to_float(x, ir_sub(x, kv, q))),
                ir_le(x, kv, q)};
            struct eval_plan *p =
                x->failed ? NULL : eval_plan_new(a, x, &roots);
            ck_assert(p != NULL || d.status == DIAG_MEMORY);
            done = p != NULL;
        }
        arena_free(a);
        ck_assert_int_eq(left.live, 0);
    }
    ck_assert(done);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eval");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, table_literals, 0, N_LITERALS);
    tcase_add_test(t, table_is_covered);
    tcase_add_test(t, table_signatures);
    tcase_add_loop_test(t, sets_agree, 0, 2);
    tcase_add_test(t, exp_and_tanh_accurate);
    tcase_add_test(t, narrow_floats_exact);
    tcase_add_test(t, scopes_against_loops);
    tcase_add_test(t, identity_and_scalar_roots);
    tcase_add_test(t, sizes_params_lengths);
    tcase_add_test(t, loads_of_every_type);
    tcase_add_test(t, loads_strided);
    tcase_add_test(t, bad_read_reported);
    tcase_add_test(t, bad_read_that_does_not_matter);
    tcase_add_test(t, empty_tensor);
    tcase_add_test(t, ranges);
    tcase_add_test(t, range_of_a_bad_read);
    tcase_add_test(t, allocation_fails);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

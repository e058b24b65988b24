/* The body of one set of kernels. The includer defines FT (float type), EVP
 * (precision suffix, f32 or f64), EVI (instruction set suffix) and EV_TARGET
 * (function attribute); all but FT's helpers are undefined at the end. No
 * include guard: included once per set. */

#define EV_CAT4(a, p, i) a##_##p##_##i
#define EV_CAT(a, p, i) EV_CAT4(a, p, i)
#define EV_FN(a) EV_CAT(a, EVP, EVI)

/* Operand types follow from the result and the arity; the two int operands
 * of one-operand ops are named. tests/unit/test_eval.c holds this against
 * the table's `in` column. */
#define EV_PICK(c, a, b) __builtin_choose_expr(c, a, b)
#define EV_IS(o) (EV_IS_##o)
#define EV_IS_b 0
#define EV_IS_i 1
#define EV_IS_f 2
#define EV_NUM(o) EV_PICK(EV_IS(o) == 1, (int64_t)0, (FT)0)
#define EV_ONE(name, o)                                                        \
    EV_PICK(IR_##name == IR_IABS || IR_##name == IR_I2F, (int64_t)0,           \
            EV_PICK(EV_IS(o) == 0, (uint8_t)0, (FT)0))
#define EV_X0(name, o, n)                                                      \
    __typeof__(EV_PICK((n) == 3, (uint8_t)0,                                   \
                       EV_PICK((n) == 2, EV_NUM(o), EV_ONE(name, o))))
#define EV_X12(o) __typeof__(EV_NUM(o))
#define EV_OUT(o) __typeof__(EV_PICK(EV_IS(o) == 0, (uint8_t)0, EV_NUM(o)))

/* NOLINTNEXTLINE(readability-function-size): one case per row of the table */
EV_TARGET static void EV_FN(table)(enum ir_op op, int n, void *d,
                                   const void *p0, const void *p1,
                                   const void *p2)
{
    switch (op) {
#define NONE 0 /* leaves, loads, linear forms and logic: never asked here */
#define OP(name, dsl, arity, out, in, cuda, eval, iv, d0, d1, d2)              \
    case IR_##name: {                                                          \
        EV_OUT(out) *restrict r = d;                                           \
        const EV_X0(name, out, arity) *v0 = p0;                                \
        const EV_X12(out) *v1 = p1, *v2 = p2;                                  \
        for (int i = 0; i < n; i++) {                                          \
            EV_X0(name, out, arity) x0 = (arity) > 0 ? v0[i] : 0;              \
            EV_X12(out) x1 = (arity) > 1 ? v1[i] : 0;                          \
            EV_X12(out) x2 = (arity) > 2 ? v2[i] : 0;                          \
            (void)x0, (void)x1, (void)x2;                                      \
            r[i] = (EV_OUT(out))(eval);                                        \
        }                                                                      \
        break;                                                                 \
    }
#include "compiler/ir/ops.def"
#undef NONE
    case IR_INVALID:
    case IR_OP_COUNT:
        break;
    }
}

EV_TARGET static void EV_FN(axpy)(int n, int64_t *d, int64_t k,
                                  const int64_t *x)
{
    if (k == 1) {
        for (int i = 0; i < n; i++)
            d[i] = ev_wrap_add(d[i], x[i]);
    } else if (k == -1) {
        for (int i = 0; i < n; i++)
            d[i] = ev_wrap_add(d[i], ev_wrap_neg(x[i]));
    } else {
        for (int i = 0; i < n; i++)
            d[i] = ev_wrap_add(d[i], ev_wrap_mul(k, x[i]));
    }
}

EV_TARGET static void EV_FN(test)(bool equal, int n, uint8_t *d, int64_t c,
                                  int64_t k, const int64_t *x)
{
    if (equal) {
        for (int i = 0; i < n; i++)
            d[i] = ev_wrap_add(c, ev_wrap_mul(k, x[i])) == 0;
    } else if (k == 1) {
        for (int i = 0; i < n; i++)
            d[i] = ev_wrap_add(c, x[i]) >= 0;
    } else if (k == -1) {
        for (int i = 0; i < n; i++)
            d[i] = ev_wrap_add(c, ev_wrap_neg(x[i])) >= 0;
    } else {
        for (int i = 0; i < n; i++)
            d[i] = ev_wrap_add(c, ev_wrap_mul(k, x[i])) >= 0;
    }
}

EV_TARGET static bool EV_FN(index)(int n, int64_t *off, uint8_t *bad,
                                   const int64_t *x, int64_t extent,
                                   int64_t stride)
{
    int64_t outside = 0; /* its sign: any is outside */
    for (int i = 0; i < n; i++)
        outside |= x[i] | ev_wrap_add(extent - 1, ev_wrap_neg(x[i]));
    if (outside >= 0) {
        for (int i = 0; i < n; i++)
            off[i] = ev_wrap_add(off[i], ev_wrap_mul(stride, x[i]));
        return false;
    }
    for (int i = 0; i < n; i++) {
        bool in = x[i] >= 0 && x[i] < extent;
        bad[i] |= !in;
        off[i] = ev_wrap_add(off[i], in ? ev_wrap_mul(stride, x[i]) : 0);
    }
    return true;
}

#define EV_GATHER(out_t, in_t, convert)                                        \
    do {                                                                       \
        out_t *restrict r = d;                                                 \
        const in_t *p = data;                                                  \
        for (int i = 0; i < n; i++)                                            \
            r[i] = (out_t)convert(p[off[i]]);                                  \
    } while (0)

EV_TARGET static void EV_FN(gather)(enum dtype t, int n, void *d,
                                    const void *data, const int64_t *off)
{
    switch (t) {
    case DTYPE_F32:
        EV_GATHER(FT, float, );
        break;
    case DTYPE_F16:
        EV_GATHER(FT, uint16_t, ev_from_f16);
        break;
    case DTYPE_BF16:
        EV_GATHER(FT, uint16_t, ev_from_bf16);
        break;
    case DTYPE_E4M3:
        EV_GATHER(FT, uint8_t, ev_from_e4m3);
        break;
    case DTYPE_E5M2:
        EV_GATHER(FT, uint8_t, ev_from_e5m2);
        break;
    case DTYPE_I8:
        EV_GATHER(int64_t, int8_t, );
        break;
    case DTYPE_U8:
        EV_GATHER(int64_t, uint8_t, );
        break;
    case DTYPE_I16:
        EV_GATHER(int64_t, int16_t, );
        break;
    case DTYPE_I32:
        EV_GATHER(int64_t, int32_t, );
        break;
    case DTYPE_I64:
        EV_GATHER(int64_t, int64_t, dtype_saturate);
        break;
    case DTYPE_BOOL:
        EV_GATHER(uint8_t, uint8_t, 0 !=);
        break;
    case DTYPE_F64: /* never captured; here so that the switch is whole */
        EV_GATHER(FT, double, );
        break;
    }
}

/* d += a * b; one element of what is not wide. */
EV_TARGET static void EV_FN(mac)(int n, void *d, const void *a, bool a_wide,
                                 const void *b, bool b_wide)
{
    FT *restrict sum = d;
    const FT *x = a, *y = b;
    if (a_wide && b_wide) {
        for (int i = 0; i < n; i++)
            sum[i] += x[i] * y[i];
    } else {
        const FT *wide = a_wide ? x : y, one = a_wide ? y[0] : x[0];
        if (!a_wide && !b_wide)
            sum[0] += x[0] * y[0];
        else
            for (int i = 0; i < n; i++)
                sum[i] += wide[i] * one;
    }
}

static const struct eval_kernels EV_FN(kernels) = {
    EV_FN(table), EV_FN(axpy),   EV_FN(test),
    EV_FN(index), EV_FN(gather), EV_FN(mac),
};

#undef EV_CAT4
#undef EV_CAT
#undef EV_FN
#undef EV_PICK
#undef EV_IS
#undef EV_IS_b
#undef EV_IS_i
#undef EV_IS_f
#undef EV_NUM
#undef EV_ONE
#undef EV_X0
#undef EV_X12
#undef EV_OUT
#undef EV_GATHER
#undef EVI
#undef EV_TARGET

/* Element conversions: every code of every narrow float against a second
 * decoder, every midpoint between neighbours, and hand-written values. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "compiler/dtype.h"
#include "compiler/ir/eval_math.h"
#include "tests/unit/suite.h"

static double load(enum dtype t, uint32_t code)
{
    uint16_t w = (uint16_t)code;
    uint8_t b = (uint8_t)code;
    return dtype_load_f64(t, dtype_size(t) == 1 ? (void *)&b : (void *)&w);
}

static uint32_t store(enum dtype t, double v)
{
    uint16_t w = 0;
    uint8_t b = 0;
    if (dtype_size(t) == 1) {
        dtype_store(t, &b, v);
        return b;
    }
    dtype_store(t, &w, v);
    return w;
}

static double second_opinion(enum dtype t, uint32_t code)
{
    if (t == DTYPE_F16)
        return (double)ev_from_f16((uint16_t)code);
    if (t == DTYPE_BF16)
        return (double)ev_from_bf16((uint16_t)code);
    if (t == DTYPE_E4M3)
        return (double)ev_from_e4m3((uint8_t)code);
    return (double)ev_from_e5m2((uint8_t)code);
}

static const enum dtype narrow[] = {DTYPE_F16, DTYPE_BF16, DTYPE_E4M3,
                                    DTYPE_E5M2};

START_TEST(every_code_decodes_and_returns)
{
    for (int k = 0; k < 4; k++) {
        enum dtype t = narrow[k];
        uint32_t codes = dtype_size(t) == 1 ? 256 : 65536;
        for (uint32_t c = 0; c < codes; c++) {
            double v = load(t, c), w = second_opinion(t, c);
            if (isnan(w)) {
                ck_assert(isnan(v));
                ck_assert(isnan(load(t, store(t, v))));
                continue;
            }
            ck_assert(v == w && !signbit(v) == !signbit(w));
            if (isfinite(v) || (t != DTYPE_E4M3 && t != DTYPE_E5M2))
                ck_assert_uint_eq(store(t, v), c);
        }
    }
}
END_TEST

/* Between neighbours the nearer, at the middle the even one. */
START_TEST(midpoints_round_to_even)
{
    for (int k = 0; k < 4; k++) {
        enum dtype t = narrow[k];
        uint32_t half = dtype_size(t) == 1 ? 128 : 32768;
        for (uint32_t c = 0; c + 1 < half; c++) {
            double a = load(t, c), b = load(t, c + 1);
            if (!isfinite(a) || !isfinite(b))
                continue;
            double mid = (a + b) / 2;
            uint32_t even = c & 1 ? c + 1 : c;
            ck_assert_uint_eq(store(t, mid), even);
            ck_assert_uint_eq(store(t, nextafter(mid, 0)), c);
            ck_assert_uint_eq(store(t, nextafter(mid, INFINITY)), c + 1);
            ck_assert_uint_eq(store(t, -mid), even | half);
        }
    }
}
END_TEST

START_TEST(known_values)
{
    ck_assert_uint_eq(store(DTYPE_F16, 1), 0x3c00);
    ck_assert_uint_eq(store(DTYPE_F16, 65504), 0x7bff);
    ck_assert_uint_eq(store(DTYPE_F16, 65519), 0x7bff);
    ck_assert_uint_eq(store(DTYPE_F16, 65520), 0x7c00);
    ck_assert_uint_eq(store(DTYPE_F16, 1e300), 0x7c00);
    ck_assert_uint_eq(store(DTYPE_F16, -INFINITY), 0xfc00);
    ck_assert_uint_eq(store(DTYPE_F16, 5.9604644775390625e-08), 0x0001);
    ck_assert_uint_eq(store(DTYPE_F16, 2.98023223876953125e-08), 0x0000);
    ck_assert_uint_eq(store(DTYPE_F16, 1e-320), 0x0000);
    ck_assert_uint_eq(store(DTYPE_F16, -1e-320), 0x8000);
    ck_assert_uint_eq(store(DTYPE_BF16, 1), 0x3f80);
    ck_assert_uint_eq(store(DTYPE_BF16, (double)FLT_MAX), 0x7f80);
    ck_assert_uint_eq(store(DTYPE_BF16, -INFINITY), 0xff80);
    ck_assert_uint_eq(store(DTYPE_E4M3, 448), 0x7e);
    ck_assert_uint_eq(store(DTYPE_E4M3, 464), 0x7e);
    ck_assert_uint_eq(store(DTYPE_E4M3, 1e30), 0x7e);
    ck_assert_uint_eq(store(DTYPE_E4M3, -INFINITY), 0xfe);
    ck_assert_uint_eq(store(DTYPE_E4M3, 0.001953125), 0x01);
    ck_assert_uint_eq(store(DTYPE_E4M3, NAN) & 0x7f, 0x7f);
    ck_assert_uint_eq(store(DTYPE_E5M2, 57344), 0x7b);
    ck_assert_uint_eq(store(DTYPE_E5M2, 1e9), 0x7b);
    ck_assert_uint_eq(store(DTYPE_E5M2, INFINITY), 0x7b);
    ck_assert(isinf(load(DTYPE_E5M2, 0x7c)));
    ck_assert(isnan(load(DTYPE_E5M2, 0x7d)));
}
END_TEST

START_TEST(wide_floats)
{
    float f = 0;
    double d = 0;
    dtype_store(DTYPE_F32, &f, 1.0 / 3);
    ck_assert(f == (float)(1.0 / 3));
    ck_assert(dtype_load_f64(DTYPE_F32, &f) == (double)f);
    dtype_store(DTYPE_F64, &d, 1.0 / 3);
    ck_assert(dtype_load_f64(DTYPE_F64, &d) == 1.0 / 3);
    f = -2.75f;
    ck_assert_int_eq(dtype_load_i64(DTYPE_F32, &f), -2);
    d = NAN;
    ck_assert_int_eq(dtype_load_i64(DTYPE_F64, &d), 0);
    d = 1e300;
    ck_assert_int_eq(dtype_load_i64(DTYPE_F64, &d), INT64_MAX);
}
END_TEST

START_TEST(ints_round_and_saturate)
{
    static const struct {
        enum dtype t;
        double in;
        int64_t out;
    } cases[] = {
        {DTYPE_I8, 2.5, 2},
        {DTYPE_I8, 3.5, 4},
        {DTYPE_I8, -200, -128},
        {DTYPE_I8, 200, 127},
        {DTYPE_U8, -1, 0},
        {DTYPE_U8, 255.4, 255},
        {DTYPE_U8, 300, 255},
        {DTYPE_I16, -1e9, -32768},
        {DTYPE_I16, 1234, 1234},
        {DTYPE_I32, 1e12, INT32_MAX},
        {DTYPE_I32, -7, -7},
        {DTYPE_I64, 1e300, INT64_MAX},
        {DTYPE_I64, -1e300, INT64_MIN},
        {DTYPE_I64, 9007199254740992.0, INT64_C(9007199254740992)},
        {DTYPE_I32, NAN, 0},
        {DTYPE_BOOL, 0.25, 1},
        {DTYPE_BOOL, 0, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int64_t cell = -1; /* neighbours must stay */
        dtype_store(cases[k].t, &cell, cases[k].in);
        ck_assert_int_eq(dtype_load_i64(cases[k].t, &cell), cases[k].out);
        ck_assert(dtype_load_f64(cases[k].t, &cell) == (double)cases[k].out);
        if (dtype_size(cases[k].t) < 8)
            ck_assert_uint_eq(((unsigned char *)&cell)[7], 0xff);
    }
    uint8_t any = 7;
    ck_assert_int_eq(dtype_load_i64(DTYPE_BOOL, &any), 1);
}
END_TEST

START_TEST(names)
{
    for (int t = DTYPE_F32; t <= DTYPE_F64; t++) {
        enum dtype u = 0;
        ck_assert(dtype_parse(dtype_name((enum dtype)t), &u));
        ck_assert_int_eq((int)u, t);
        ck_assert_uint_gt(dtype_size((enum dtype)t), 0);
    }
    enum dtype t = DTYPE_I8;
    ck_assert(dtype_parse("f8", &t) && t == DTYPE_E4M3);
    ck_assert(!dtype_parse("float", &t) && !dtype_parse("", &t));
    ck_assert_str_eq(dtype_name((enum dtype)99), "?");
    ck_assert_uint_eq(dtype_size((enum dtype)0), 0);
    ck_assert(dtype_is_float(DTYPE_E5M2) && !dtype_is_float(DTYPE_BOOL));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtype");
    TCase *t = tcase_create("dtype");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_code_decodes_and_returns);
    tcase_add_test(t, midpoints_round_to_even);
    tcase_add_test(t, known_values);
    tcase_add_test(t, wide_floats);
    tcase_add_test(t, ints_round_and_saturate);
    tcase_add_test(t, names);
    suite_add_tcase(s, t);
    return suite_run(s);
}

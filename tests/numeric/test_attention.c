/* What CPU attention computes: shapes, layouts, types, lengths, masks, special
 * values. */
#include "tests/numeric/attention_reference.h"
#include "tests/unit/suite.h"

static const int lengths[] = {1, 2, 37, 127, 128, 129, 255, 257};

START_TEST(lengths_and_mods)
{
    struct problem p = {.B = 1, .H = 2, .Hkv = 2, .D = 8, .Dv = 8};
    int n = 0;
    p.Sq = lengths[_i];
    for (int k = 0; k < 8; k++) {
        p.Skv = lengths[k];
        use_mod(&p, (n++ + _i) % N_MODS);
        check_problem(&p);
    }
}
END_TEST

START_TEST(head_dims)
{
    static const int dims[] = {1, 8, 13, 40, 64, 72, 128, 256};
    for (int k = 0; k < 8; k++)
        for (int mod = 0; mod < N_MODS; mod += 2) {
            struct problem p = {.B = 1, .H = 1, .Hkv = 1, .Sq = 37, .Skv = 129};
            p.D = dims[k];
            p.Dv = dims[_i ? 7 - k : k];
            use_mod(&p, mod);
            check_problem(&p);
        }
}
END_TEST

START_TEST(head_groups)
{
    static const int ratio[] = {1, 2, 3, 7};
    for (int k = 0; k < 4; k++)
        for (int hkv = 1; hkv <= 2 && hkv * ratio[k] <= MAX_H; hkv++) {
            struct problem p = {
                .B = 2, .Hkv = hkv, .Sq = 33, .Skv = 140, .D = 16, .Dv = 24};
            p.H = hkv * ratio[k];
            use_mod(&p, 2);
            check_problem(&p);
        }
}
END_TEST

START_TEST(layouts)
{
    for (int l = PLAIN; l <= EXPANDED; l++)
        for (int o = PLAIN; o < EXPANDED; o++) {
            struct problem p = {
                .B = 2, .H = 4, .Hkv = 2, .Sq = 35, .Skv = 131, .D = 16};
            p.Dv = 13;
            p.layout = (enum layout)l;
            p.o_layout = (enum layout)o;
            use_mod(&p, (l + o) % N_MODS);
            check_problem(&p);
        }
}
END_TEST

/* Gaps of a sliced O stay as they were. */
START_TEST(writes_nothing_else)
{
    struct problem p = {.B = 1, .H = 2, .Hkv = 1, .Sq = 5, .Skv = 9, .D = 8};
    struct run r;
    p.Dv = 7;
    p.o_layout = SLICED;
    start(&r, &p);
    attend(&r);
    compare(&r);
    for (int h = 0; h < 2; h++)
        for (int q = 0; q < 5; q++)
            for (int d = 0; d < 7; d++) /* now every written element is NaN */
                put(&r.o.t, 0, h, q, d, NAN);
    for (size_t k = 0; k + 4 <= r.o.bytes; k += 4) {
        float x;
        memcpy(&x, r.o.memory + k, 4);
        ck_assert(isnan(x));
    }
    finish(&r);
}
END_TEST

START_TEST(dtypes)
{
    static const facc_dtype in[] = {FACC_F32, FACC_F16, FACC_BF16, FACC_E4M3,
                                    FACC_E5M2};
    static const facc_dtype out[] = {FACC_F32, FACC_F16, FACC_BF16, FACC_F64};
    for (int k = 0; k < 5; k++)
        for (int j = 0; j < 4; j++)
            for (int l = PLAIN; l <= SLICED; l += SLICED) {
                struct problem p = {
                    .B = 1, .H = 2, .Hkv = 1, .Sq = 20, .Skv = 130, .D = 24};
                p.Dv = 24;
                p.in = in[k];
                p.out = out[j];
                p.layout = (enum layout)l;
                use_mod(&p, 1 + (k + j) % 2);
                p.f64 = _i;
                check_problem(&p);
            }
}
END_TEST

START_TEST(oracle)
{
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = {
            .B = 2, .H = 2, .Hkv = 1, .Sq = 133, .Skv = 257, .D = 40};
        p.Dv = 72;
        p.f64 = 1;
        p.out = FACC_F64;
        use_mod(&p, mod);
        check_problem(&p);
    }
}
END_TEST

START_TEST(nothing_to_do)
{
    static const int sizes[][4] = {/* B, H, Sq, Skv */
                                   {0, 2, 3, 4},
                                   {1, 2, 0, 4},
                                   {1, 2, 3, 0},
                                   {1, 2, 0, 0},
                                   {2, 1, 130, 0}};
    for (int k = 0; k < 5; k++)
        for (int mod = 0; mod < N_MODS; mod++) {
            struct problem p = {.Hkv = 1, .D = 8, .Dv = 8};
            p.B = sizes[k][0];
            p.H = sizes[k][1];
            p.Sq = sizes[k][2];
            p.Skv = sizes[k][3];
            use_mod(&p, mod);
            check_problem(&p);
        }
}
END_TEST

/* Rows and columns beyond the used lengths hold NaN and are not looked at. */
START_TEST(used_lengths)
{
    static const int32_t used_q[4] = {0, 37, 150, 1};
    static const int32_t used_kv[4] = {140, 0, 129, 5};
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = {
            .B = 4, .H = 2, .Hkv = 1, .Sq = 150, .Skv = 140, .D = 8, .Dv = 16};
        struct run r;
        p.used_q = used_q;
        p.used_kv = used_kv;
        use_mod(&p, mod);
        start(&r, &p);
        for (int b = 0; b < 4; b++) {
            for (int s = used_kv[b]; s < p.Skv; s++) {
                for (int d = 0; d < p.D; d++)
                    put(&r.k.t, b, 0, s, d, d % 2 ? NAN : INFINITY);
                for (int d = 0; d < p.Dv; d++)
                    put(&r.v.t, b, 0, s, d, NAN);
            }
            for (int h = 0; h < 2; h++)
                for (int s = used_q[b]; s < p.Sq; s++)
                    for (int d = 0; d < p.D; d++)
                        put(&r.q.t, b, h, s, d, NAN);
        }
        attend(&r);
        compare(&r);
        finish(&r);
    }
}
END_TEST

/* NaN and infinities in K and V of masked cells reach no result; NaN in a
 * query row stays in that row. */
START_TEST(special_values)
{
    struct problem p = {
        .B = 1, .H = 3, .Hkv = 1, .Sq = 140, .Skv = 200, .D = 8, .Dv = 24};
    struct run r;
    p.f64 = _i;
    use_mod(&p, 2);
    start(&r, &p);
    for (int kv = 141; kv < 200; kv++) { /* beyond every query */
        put(&r.k.t, 0, 0, kv, 3, NAN);
        put(&r.v.t, 0, 0, kv, 5, kv % 2 ? NAN : INFINITY);
    }
    put(&r.v.t, 0, 0, 20, 7, NAN);      /* seen by queries 20 .. 69 */
    put(&r.v.t, 0, 0, 60, 8, INFINITY); /* 60 .. 109 */
    put(&r.v.t, 0, 0, 61, 8, -INFINITY);
    put(&r.q.t, 0, 1, 77, 0, NAN);
    attend(&r);
    compare(&r);
    ck_assert(isnan(get(&r.o.t, 0, 0, 69, 7)));
    ck_assert(isfinite(get(&r.o.t, 0, 0, 70, 7)));
    ck_assert(isinf(get(&r.o.t, 0, 0, 60, 8)));
    ck_assert(isnan(get(&r.o.t, 0, 0, 61, 8)));
    ck_assert(isnan(get(&r.o.t, 0, 1, 77, 1)));
    ck_assert(isfinite(get(&r.o.t, 0, 1, 78, 1)));
    finish(&r);
}
END_TEST

/* Long stretches without a cell: EMPTY columns are skipped 4,096 at a time. */
static const char far_lua[] = FACC
    "return facc.attention { mask_mod = function(b, h, q, kv)\n"
    "  return kv // 4096 % 2 == 1 and kv % 4096 < 3 * h or kv == 12290 + q\n"
    "end }\n";
static bool far(int b, int h, int q, int kv)
{
    (void)b;
    return (kv / 4096 % 2 == 1 && kv % 4096 < 3 * h) || kv == 12290 + q;
}

START_TEST(long_rows)
{
    static const int ends[] = {4095, 4096, 4097, 8300, 12300, 12416};
    for (int k = 0; k < 6; k++) {
        struct problem p = {.B = 1, .H = 2, .Hkv = 1, .Sq = 20, .D = 8};
        p.Dv = 8;
        p.Skv = ends[k];
        p.lua = far_lua;
        p.keep = far;
        check_problem(&p);
    }
}
END_TEST

START_TEST(huge_and_minus_infinite_scores)
{
    static const double scales[] = {0, 100, -3, 1e5, 1e-30, -1e5};
    for (int k = 0; k < 6; k++) {
        struct problem p = {
            .B = 1, .H = 2, .Hkv = 2, .Sq = 200, .Skv = 260, .D = 8, .Dv = 8};
        struct run r;
        p.scale = scales[k];
        p.f64 = 1; /* f32 inputs of this size differ by whole units */
        p.lua = minus_inf_lua;
        p.score = minus_inf;
        check_problem(&p);
        p.lua = NULL;
        p.score = NULL;
        check_problem(&p);
        p.f64 = 0; /* here: no NaN, rows that sum to weights of 1 */
        p.lua = minus_inf_lua;
        start(&r, &p);
        for (int h = 0; h < 2; h++)
            for (int s = 0; s < 260; s++)
                for (int d = 0; d < 8; d++)
                    put(&r.v.t, 0, h, s, d, 1);
        attend(&r);
        ck_assert_int_eq(r.status, FACC_OK);
        for (int h = 0; h < 2; h++)
            for (int q = 0; q < 200; q++)
                for (int d = 0; d < 8; d++)
                    ck_assert(fabs(get(&r.o.t, 0, h, q, d) - 1) < 1e-5);
        finish(&r);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cpu attention");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, open_context, close_context);
    tcase_add_loop_test(t, lengths_and_mods, 0, 8);
    tcase_add_loop_test(t, head_dims, 0, 2);
    tcase_add_test(t, head_groups);
    tcase_add_test(t, layouts);
    tcase_add_test(t, writes_nothing_else);
    tcase_add_loop_test(t, dtypes, 0, 2);
    tcase_add_test(t, oracle);
    tcase_add_test(t, nothing_to_do);
    tcase_add_test(t, used_lengths);
    tcase_add_loop_test(t, special_values, 0, 2);
    tcase_add_test(t, long_rows);
    tcase_add_test(t, huge_and_minus_infinite_scores);
    suite_add_tcase(s, t);
    return suite_run(s);
}

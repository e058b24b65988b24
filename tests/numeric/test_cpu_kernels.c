/* Every instruction set's inner loops of the CPU attention against plain
 * loops, whichever of them this machine would choose by itself. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu_convert.h"
#include "runtime/cpu/cpu_kernels.h"
#include "tests/unit/suite.h"

static const char *const sets[] = {"generic", "avx2", "avx512f"};

/* Loop tests run over 3 sets x 2 float types. NULL: not on this machine. */
static const struct cpu_kernels *set_of(int i)
{
    return cpu_kernels_named(i >= 3, sets[i % 3]);
}

static uint32_t state = 7;

static float uniform(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (1 << 23) - 1;
}

static void *matrix(const struct cpu_kernels *k, int n)
{
    void *p = aligned_alloc(64, ((size_t)n * k->size + 63) / 64 * 64 + 64);
    ck_assert_ptr_nonnull(p);
    return p;
}

static double at(const struct cpu_kernels *k, const void *m, int i)
{
    return k->size == sizeof(double) ? ((const double *)m)[i]
                                     : (double)((const float *)m)[i];
}

static void set(const struct cpu_kernels *k, void *m, int i, double v)
{
    if (k->size == sizeof(double))
        ((double *)m)[i] = v;
    else
        ((float *)m)[i] = (float)v;
}

static double tolerance(const struct cpu_kernels *k)
{
    return k->size == sizeof(double) ? 1e-14 : 1e-5;
}

/* c = scale a b and c += a b; b packed by rows or by columns. */
static void check_gemm(const struct cpu_kernels *k, int m, int n, int depth,
                       bool columns)
{
    float *b = malloc(((size_t)(n * depth) + 1) * sizeof *b);
    void *a = matrix(k, m * depth), *packed = matrix(k, n * depth);
    void *c = matrix(k, m * n);
    float rows[16 * 64];
    for (int i = 0; i < n * depth; i++)
        b[i] = uniform();
    for (int i = 0; i < m * depth; i++)
        set(k, a, i, (double)uniform());
    for (int j = 0; columns && j < n; j += 16) {
        for (int i = 0; i < 16; i++)
            for (int d = 0; d < depth; d++)
                rows[i * depth + d] = b[d * n + j + i];
        k->pack_columns(packed, depth, j, rows);
    }
    for (int d = 0; !columns && d < depth; d++)
        ck_assert(!k->pack_row(packed, depth, n, d, n, b + d * n));
    k->gemm(false, -0.5, m, n, depth, a, (size_t)depth, packed, c, (size_t)n);
    k->gemm(true, 1, m, n, depth, a, (size_t)depth, packed, c, (size_t)n);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double want = 0;
            for (int d = 0; d < depth; d++)
                want += at(k, a, i * depth + d) * (double)b[d * n + j];
            ck_assert(fabs(at(k, c, i * n + j) - 0.5 * want) <
                      tolerance(k) * (1 + depth));
        }
    free(a);
    free(b);
    free(c);
    free(packed);
}

START_TEST(gemm)
{
    const struct cpu_kernels *k = set_of(_i);
    if (k == NULL)
        return;
    for (int m = 1; m <= 14; m++)
        for (int n = k->width; n <= 5 * k->width; n += k->width)
            for (int depth = 0; depth <= 13; depth += 13 - (m % 2))
                check_gemm(k, m, n, depth, false);
    for (int m = 1; m <= 128; m += 31)
        for (int n = 32; n <= 128; n += 32)
            check_gemm(k, m, n, m == 1 ? 13 : 64, true);
}
END_TEST

START_TEST(pack_row)
{
    const struct cpu_kernels *k = set_of(_i);
    if (k == NULL)
        return;
    float v[13];
    int n = (13 + k->width - 1) / k->width * k->width;
    void *b = matrix(k, 2 * n);
    for (int i = 0; i < 13; i++)
        v[i] = (float)i;
    for (int i = 0; i < 2 * n; i++)
        set(k, b, i, NAN);
    ck_assert(!k->pack_row(b, 2, n, 0, 13, v));
    ck_assert(!k->pack_row(b, 2, n, 1, 13, v));
    double sum = 0; /* 13 values twice, all else 0 */
    for (int i = 0; i < 2 * n; i++)
        sum += at(k, b, i);
    ck_assert(sum == 2 * 78);
    v[12] = INFINITY;
    ck_assert(k->pack_row(b, 2, n, 0, 13, v));
    v[12] = -NAN;
    ck_assert(k->pack_row(b, 2, n, 0, 13, v));
    ck_assert(!k->pack_row(b, 2, n, 0, 12, v));
    free(b);
}
END_TEST

START_TEST(rows)
{
    const struct cpu_kernels *k = set_of(_i);
    if (k == NULL)
        return;
    enum { N = 64 };
    void *s = matrix(k, N), *o = matrix(k, N);
    uint8_t keep[N];
    float v[N];
    for (int i = 0; i < N; i++) {
        set(k, s, i, (double)uniform() * 10);
        keep[i] = i % 3 != 0;
        v[i] = uniform();
    }
    set(k, s, 1, NAN); /* ignored by the maximum, not by the sum */
    set(k, s, 7, 20);
    set(k, s, 9, 30);
    ck_assert(k->row_max(N, s) == 30);
    k->mask(N, s, keep);
    ck_assert(k->row_max(N, s) == 20);
    ck_assert(at(k, s, 0) == -INFINITY && at(k, s, 63) == -INFINITY);
    ck_assert(k->row_max(0, s) == -INFINITY);
    set(k, s, 1, 20);
    double want = 0, x[N];
    for (int i = 0; i < N; i++)
        want += x[i] = exp(at(k, s, i) - 20);
    ck_assert(fabs(k->row_exp(N, s, 20) - want) < tolerance(k) * want);
    for (int i = 0; i < N; i++)
        ck_assert(fabs(at(k, s, i) - x[i]) <= tolerance(k) * x[i]);
    set(k, s, 5, NAN);
    ck_assert(isnan(k->row_exp(N, s, 0)));
    for (int i = 0; i < N; i++)
        set(k, o, i, i);
    set(k, s, 4, 0.5);
    k->add_row(N - 1, o, (char *)s + 4 * k->size, v);
    k->scale_row(N, o, 4);
    for (int i = 0; i < N; i++) {
        double sum = i + (i < N - 1 ? 0.5 * (double)v[i] : 0);
        ck_assert(fabs(at(k, o, i) - 4 * sum) <= tolerance(k) * 64);
    }
    ck_assert(at(k, o, 63) == 4 * 63);
    k->widen(o, v, N);
    ck_assert(at(k, o, 11) == (double)v[11]);
    free(s);
    free(o);
}
END_TEST

START_TEST(choice)
{
    ck_assert_ptr_nonnull(cpu_kernels_named(false, "generic"));
    ck_assert_ptr_null(cpu_kernels_named(false, "quantum"));
    ck_assert_str_eq(cpu_kernels_get(false)->isa, cpu_kernels_get(true)->isa);
    ck_assert_uint_eq(cpu_kernels_get(false)->size, sizeof(float));
    ck_assert_uint_eq(cpu_kernels_get(true)->size, sizeof(double));
}
END_TEST

START_TEST(strided_rows)
{
    static const uint16_t f16[6] = {0x3c00, 0, 0xc000, 0, 0x7c00, 0};
    static const uint8_t e5m2[3] = {0x3c, 0xc0, 0x7c};
    float row[3];
    cpu_load_row(row, DTYPE_F16, f16, 2, 3);
    ck_assert(row[0] == 1 && row[1] == -2 && isinf(row[2]));
    cpu_load_row(row, DTYPE_F16, f16 + 4, -2, 3);
    ck_assert(isinf(row[0]) && row[1] == -2 && row[2] == 1);
    cpu_load_row(row, DTYPE_E5M2, e5m2, 1, 3);
    ck_assert(row[0] == 1 && row[1] == -2 && isinf(row[2]));
    const double v[3] = {1, -2, 1.0 / 3};
    float f[5] = {9, 9, 9, 9, 9};
    uint16_t h[3];
    cpu_store_row(DTYPE_F32, f, 2, 3, v);
    ck_assert(f[0] == 1 && f[1] == 9 && f[2] == -2 && f[4] == (float)v[2]);
    cpu_store_row(DTYPE_BF16, h + 2, -1, 3, v);
    ck_assert(h[2] == 0x3f80 && h[1] == 0xc000 && h[0] == 0x3eab);
}
END_TEST

/* Rows are rounded as single elements are: every f16 and its neighbours,
 * halves between them, tiny, huge and special values. */
START_TEST(rounding)
{
    static const enum dtype types[] = {DTYPE_F16, DTYPE_BF16, DTYPE_E4M3,
                                       DTYPE_E5M2};
    enum { N = 5 };
    for (int t = 0; t < 4; t++)
        for (uint32_t u = 0; u < 0x10000; u++) {
            uint16_t h = (uint16_t)u, next = (uint16_t)(u + 1);
            double a = dtype_load_f64(DTYPE_F16, &h);
            double b = dtype_load_f64(DTYPE_F16, &next);
            double bf = dtype_load_f64(DTYPE_BF16, &h);
            double v[N] = {a, (a + b) / 2, nextafter((a + b) / 2, b), bf,
                           bf * 1.001953125};
            uint16_t row[N] = {0}, want[N] = {0};
            size_t size = dtype_size(types[t]);
            cpu_store_row(types[t], row, 1, N, v);
            for (size_t i = 0; i < N; i++)
                dtype_store(types[t], (char *)want + i * size, v[i]);
            ck_assert_msg(memcmp(row, want, N * size) == 0, "%s of %a, %a",
                          dtype_name(types[t]), a, bf);
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cpu kernels");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, gemm, 0, 6);
    tcase_add_loop_test(t, pack_row, 0, 6);
    tcase_add_loop_test(t, rows, 0, 6);
    tcase_add_test(t, choice);
    tcase_add_test(t, strided_rows);
    tcase_add_test(t, rounding);
    suite_add_tcase(s, t);
    return suite_run(s);
}

/* Philox-4x32-10 against the vectors that its authors publish, and which bits
 * decide about which weight: written out a second time, cell by cell. */
#include <check.h>
#include <stdint.h>
#include <string.h>

#include "runtime/args.h"
#include "runtime/cpu/cpu_dropout.h"
#include "templates/common/philox.h"
#include "tests/unit/suite.h"

/* --- numbers ------------------------------------------------------------- */

/* Random123's kat_vectors, philox4x32 10: counter, key, result. */
static const unsigned known[][10] = {
    {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
    {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
     0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
    {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
     0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};

START_TEST(known_answers)
{
    const unsigned *k = known[_i];
    unsigned x[4];
    memcpy(x, k, sizeof x);
    facc_philox(x, k[4], k[5]);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(x[i], k[6 + i]);
}
END_TEST

/* --- weights ------------------------------------------------------------- */

/* The 16 bits of one weight. */
static unsigned bits_of(uint64_t seed, uint64_t offset, unsigned head,
                        unsigned q, unsigned kv)
{
    unsigned x[4];
    x[0] = 4 * (kv / 16) + kv / 2 % 4;
    x[1] = 8 * (q / 16) + q % 8;
    x[2] = head;
    x[3] = (unsigned)offset;
    facc_philox(x, (unsigned)seed, (unsigned)((seed ^ offset) >> 32));
    const unsigned word = x[(q % 16 >= 8 ? 1 : 0) + (kv % 16 >= 8 ? 2 : 0)];
    return kv % 2 ? word >> 16 : word % 65536;
}

enum { ROWS = 37, COLUMNS = 45 };

static void check_rectangle(const facc_args *a, struct cpu_rectangle r)
{
    const struct args_dropout d = args_dropout(a);
    float x[ROWS][COLUMNS];
    double y[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            y[i][j] = x[i][j] = 1;
    cpu_drop(&d, 7, &r, x, COLUMNS, sizeof x[0][0]);
    cpu_drop(&d, 7, &r, y, COLUMNS, sizeof y[0][0]);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            const bool inside = i < r.rows && j < r.columns;
            const unsigned bits =
                bits_of(a->dropout_seed, a->dropout_offset, 7,
                        (unsigned)(r.q0 + i), (unsigned)(r.kv0 + j));
            const float want = inside && bits >= 65536 - d.drops ? 0 : 1;
            ck_assert_msg(x[i][j] == want && y[i][j] == (double)want,
                          "row %d column %d: %g and %g, not %g", r.q0 + i,
                          r.kv0 + j, (double)x[i][j], y[i][j], (double)want);
        }
}

START_TEST(rectangles)
{
    facc_args a = FACC_ARGS_INIT;
    a.dropout_p = 0.4;
    a.dropout_seed = 0x123456789abcdef0;
    a.dropout_offset = 0xfedcba9800000001;
    for (int rows = 1; rows <= ROWS; rows += rows % 8 == 1 ? 1 : 3)
        for (int columns = 1; columns <= COLUMNS; columns += 2 + rows % 2)
            check_rectangle(&a,
                            (struct cpu_rectangle){48, rows, 1 << 29, columns});
}
END_TEST

/* Every weight of 64 rows by 64 columns has bits of its own: no counter and no
 * place in a result is used twice. */
START_TEST(places)
{
    enum { N = 64 };
    static unsigned seen[N * N][5];
    const unsigned key[2] = {0, 0};
    int n = 0;
    for (unsigned q = 0; q < N; q++)
        for (unsigned kv = 0; kv < N; kv++)
            if (q % 16 < 8 && kv % 2 == 0 && kv % 16 < 8) {
                unsigned x[4];
                facc_dropout_bits(x, key, 0, 0, q, kv);
                memcpy(seen[n++], x, sizeof x);
            }
    ck_assert_int_eq(n, N * N / 8);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            ck_assert_int_ne(memcmp(seen[i], seen[j], 16), 0);
}
END_TEST

/* --- probabilities ------------------------------------------------------- */

START_TEST(resolution)
{
    static const struct {
        double p;
        uint32_t drops;
    } cases[] = {{0, 0},
                 {0x1p-18, 0},
                 {0x1p-17, 1},
                 {0x1p-16, 1},
                 {0.1, 6554},
                 {0.5, 32768},
                 {1 - 0x1p-16, 65535},
                 {1 - 0x1p-17, 65535},
                 {1 - 0x1p-53, 65535}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        facc_args a = FACC_ARGS_INIT;
        a.dropout_p = cases[i].p;
        const struct args_dropout d = args_dropout(&a);
        ck_assert_uint_eq(d.drops, cases[i].drops);
        ck_assert_double_eq(d.scale * (65536 - cases[i].drops), 65536);
    }
}
END_TEST

/* Offsets make other streams of one seed, in both of their words. */
START_TEST(seeds_and_offsets)
{
    static const uint64_t pairs[][2] = {
        {1, 0}, {2, 0}, {1, 1}, {1, (uint64_t)1 << 32}, {1, (uint64_t)1 << 63}};
    enum { N = sizeof pairs / sizeof pairs[0] };
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++) {
            int same = 0;
            for (unsigned kv = 0; kv < 64; kv++)
                same += bits_of(pairs[i][0], pairs[i][1], 0, 0, kv) ==
                        bits_of(pairs[j][0], pairs[j][1], 0, 0, kv);
            ck_assert_int_lt(same, 4);
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("philox");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, known_answers, 0, sizeof known / sizeof known[0]);
    tcase_add_test(t, rectangles);
    tcase_add_test(t, places);
    tcase_add_test(t, resolution);
    tcase_add_test(t, seeds_and_offsets);
    suite_add_tcase(s, t);
    return suite_run(s);
}

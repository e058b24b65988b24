/* How CPU attention is called: threads, processes, errors; conversions. The
 * numbers themselves are test_attention.c's. */
#include "tests/numeric/attention_reference.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- threads and processes --- */

static void same_bits(const struct run *a, const struct run *b)
{
    ck_assert_int_eq(a->status, FACC_OK);
    ck_assert_int_eq(b->status, FACC_OK);
    ck_assert(memcmp(a->o.memory, b->o.memory, a->o.bytes) == 0);
    ck_assert(memcmp(a->lse.memory, b->lse.memory, a->lse.bytes) == 0);
}

static const struct problem threaded = {
    .B = 2, .H = 4, .Hkv = 2, .Sq = 257, .Skv = 300, .D = 16, .Dv = 16};

START_TEST(threads_do_not_change_bits)
{
    for (int mod = 0; mod < N_MODS; mod++) {
        struct problem p = threaded;
        struct run one, many;
        use_mod(&p, mod);
        p.f64 = mod % 2;
        p.threads = 1;
        start(&one, &p);
        attend(&one);
        for (int n = 2; n <= 9; n += 7) {
            p.threads = n;
            start(&many, &p);
            attend(&many);
            same_bits(&one, &many);
            finish(&many);
        }
        finish(&one);
    }
}
END_TEST

/* The same cells, once by verdicts and once as a mask that no verdict decides
 * (documents are not negative). */
START_TEST(verdicts_do_not_change_bits)
{
#define DECIDED "q - kv < 140 and q >= kv"
#define MASK(text)                                                             \
    FACC "local id = facc.tensor('document', 'i32', { 300 })\n"                \
         "return facc.attention { mask_mod = function(b, h, q, kv)\n"          \
         "  return " text "\nend }\n"
    static const char *const lua[2] = {
        MASK(DECIDED " and id[0] >= 0"),
        MASK(DECIDED " and id[(7 * q + 13 * kv) % 300] >= 0")};
    struct problem p = threaded;
    struct run r[2];
    for (int f64 = 0; f64 < 2; f64++) {
        for (int k = 0; k < 2; k++) {
            p.f64 = f64;
            p.lua = lua[k];
            start(&r[k], &p);
            attend(&r[k]);
        }
        same_bits(&r[0], &r[1]);
        finish(&r[0]);
        finish(&r[1]);
    }
#undef DECIDED
#undef MASK
}
END_TEST

static void *attend_thread(void *user)
{
    attend(user);
    return NULL;
}

START_TEST(calls_at_once)
{
    struct problem p = threaded;
    struct run r[4];
    pthread_t t[4];
    use_mod(&p, 2);
    p.threads = 3;
    for (int k = 0; k < 4; k++)
        start(&r[k], &p);
    for (int k = 0; k < 4; k++)
        ck_assert_int_eq(pthread_create(&t[k], NULL, attend_thread, &r[k]), 0);
    for (int k = 0; k < 4; k++)
        pthread_join(t[k], NULL);
    for (int k = 0; k < 4; k++) {
        same_bits(&r[0], &r[k]);
        if (k > 0)
            finish(&r[k]);
    }
    finish(&r[0]);
}
END_TEST

START_TEST(forked_child)
{
    struct problem p = threaded;
    struct run a, b;
    use_mod(&p, 1);
    p.threads = 3;
    start(&a, &p);
    attend(&a); /* the pool exists now */
    pid_t child = fork();
    if (child == 0) {
        start(&b, &p);
        attend(&b);
        bool ok = b.status == FACC_OK &&
                  memcmp(a.o.memory, b.o.memory, a.o.bytes) == 0;
        finish(&b);
        finish(&a);
        facc_ctx_free(ctx);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    finish(&a);
}
END_TEST

/* --- errors --- */

/* Heads 1 and up read beyond 'document' from query 200 on. */
START_TEST(bad_read_is_the_first_one)
{
    static const char lua[] =
        FACC "local id = facc.tensor('document', 'i32', { 300 })\n"
             "return facc.attention { score_mod = function(s, b, h, q, kv)\n"
             "  return s + id[q + 100 * h]\n"
             "end }\n";
    char message[2048] = "";
    for (int n = 1; n <= 4; n++) {
        struct problem p = threaded;
        struct run r;
        p.lua = lua;
        p.threads = n;
        start(&r, &p);
        attend(&r);
        ck_assert_int_eq(r.status, FACC_ERR_BOUNDS);
        ck_assert_int_eq(r.err.line, 4);
        ck_assert_str_eq(r.err.file, "test.lua");
        ck_assert_msg(strstr(r.err.message,
                             "'document' is read outside its bounds: index 1 "
                             "is 300, the extent is 300 "
                             "(at b 0, h 1, q 200, kv 0)") != NULL,
                      "%s", r.err.message);
        if (n > 1)
            ck_assert_str_eq(message, r.err.message);
        strcpy(message, r.err.message);
        finish(&r);
    }
}
END_TEST

static void expect_error(const struct run *base, facc_status want,
                         const char *text)
{
    struct run r = *base;
    attend(&r);
    ck_assert_int_eq(r.status, want);
    ck_assert_msg(strstr(r.err.message, text) != NULL, "%s", r.err.message);
}

START_TEST(bad_arguments)
{
    static const int32_t low[2] = {3, -1}, high[2] = {3, 301};
    struct problem p = threaded;
    struct run r, x;
    start(&r, &p);
    x = r;
    x.args.seqused_q = low;
    expect_error(&x, FACC_ERR_ARGUMENT, "seqused_q[1] is -1");
    x = r;
    x.args.seqused_kv = high;
    expect_error(&x, FACC_ERR_ARGUMENT,
                 "seqused_kv[1] is 301: must be from 0 to 300");
    x = r;
    x.args.scale = NAN;
    expect_error(&x, FACC_ERR_ARGUMENT, "scale");
    x = r;
    x.args.o.dtype = FACC_I32;
    expect_error(&x, FACC_ERR_ARGUMENT, "o: dtype");
    x = r;
    x.p.threads = -1;
    expect_error(&x, FACC_ERR_ARGUMENT, "threads");
    facc_error err = FACC_ERROR_INIT;
    ck_assert_int_eq(facc_cpu_attention(NULL, NULL, &r.args, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_cpu_attention(ctx, NULL, &r.args, NULL, NULL),
                     FACC_ERR_ARGUMENT);
    finish(&r);
}
END_TEST

/* --- conversion --- */

START_TEST(convert)
{
    static const float from[6] = {1, -2.5f, 65520, 1e-8f, 1.00048828125f, 500};
    static const uint16_t f16[6] = {0x3c00, 0xc100, 0x7c00,
                                    0x0000, 0x3c00, 0x5fd0};
    static const uint8_t e4m3[6] = {0x38, 0xc2, 0x7e, 0x00, 0x38, 0x7e};
    uint16_t h[6];
    uint8_t b[6];
    double d[6];
    int64_t big[1] = {(INT64_C(1) << 53) + 1}, copy[1];
    ck_assert_int_eq(facc_convert(FACC_F16, h, FACC_F32, from, 6), FACC_OK);
    ck_assert_mem_eq(h, f16, sizeof h);
    ck_assert_int_eq(facc_convert(FACC_E4M3, b, FACC_F32, from, 6), FACC_OK);
    ck_assert_mem_eq(b, e4m3, sizeof b);
    ck_assert_int_eq(facc_convert(FACC_F64, d, FACC_F16, f16, 6), FACC_OK);
    ck_assert(d[1] == -2.5 && isinf(d[2]) && d[5] == 500);
    ck_assert_int_eq(facc_convert(FACC_I64, copy, FACC_I64, big, 1), FACC_OK);
    ck_assert(copy[0] == big[0]);
    ck_assert_int_eq(facc_convert(FACC_F16, NULL, FACC_F32, from, 0), FACC_OK);
    ck_assert_int_eq(facc_convert(FACC_F16, NULL, FACC_F32, from, 1),
                     FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_convert((facc_dtype)99, h, FACC_F32, from, 1),
                     FACC_ERR_ARGUMENT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cpu attention calls");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, open_context, close_context);
    tcase_add_test(t, threads_do_not_change_bits);
    tcase_add_test(t, verdicts_do_not_change_bits);
    tcase_add_test(t, calls_at_once);
    tcase_add_test(t, forked_child);
    tcase_add_test(t, bad_read_is_the_first_one);
    tcase_add_test(t, bad_arguments);
    tcase_add_test(t, convert);
    suite_add_tcase(s, t);
    return suite_run(s);
}

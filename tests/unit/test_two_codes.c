/* Kernels of two codes, family sm90's and sm80's: both are got or none, side by
 * side, each by its own key. Skipped, aloud, where there is no NVRTC. */
#include "tests/unit/kernel_fixture.h"

#include "runtime/kernel.h"

#include <sys/wait.h>

static facc_status get_any(facc_kernel **k, facc_ctx *ctx, facc_program *p,
                           int layout, int family, facc_error *err)
{
    facc_variant v = FACC_VARIANT_INIT;
    v.dtype = FACC_BF16;
    v.head_dim = 64;
    v.arch = 90;
    v.layout = layout;
    v.family = family;
    return facc_kernel_get(k, ctx, p, &v, err);
}

static facc_kernel_info info_of(const facc_kernel *k)
{
    facc_kernel_info i = FACC_KERNEL_INFO_INIT;
    ck_assert_int_eq(facc_kernel_get_info(k, &i), FACC_OK);
    return i;
}

/* Gets one and frees it; what it was. */
static facc_kernel_info got_any(facc_ctx *ctx, facc_program *p, int layout,
                                int family)
{
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k;
    ck_assert_msg(get_any(&k, ctx, p, layout, family, &err) == FACC_OK,
                  "%s\n%s", err.message, err.log);
    const facc_kernel_info i = info_of(k);
    facc_kernel_free(k);
    return i;
}

START_TEST(both_or_one)
{
    struct counts c;
    facc_options o = options(&c);
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k;
    if (no_nvrtc("both_or_one"))
        return;
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    ck_assert_int_eq(get_any(&k, ctx, p, FACC_LAYOUT_ANY, 0, &err), FACC_OK);
    ck_counts(&c, 2, 0, 0);
    facc_kernel_info i = info_of(k);
    ck_assert_str_eq(i.family, "sm90");
    ck_assert_str_eq(i.fallback, "sm80");
    ck_assert_str_eq(i.launched, "");
    ck_assert_str_eq(i.source, "nvrtc");
    ck_assert(i.compile_seconds > 0 && i.arch == 90);
    ck_assert(i.tile_m == 192 && i.tile_n == 96 && i.warps == 16);
    ck_assert_str_ne(k->module[0]->key, k->module[1]->key);
    ck_assert_str_eq(i.key, k->module[0]->key);
    ck_assert_ptr_nonnull(strstr(k->module[0]->text, "option -arch=sm_90a\n"));
    ck_assert_ptr_nonnull(strstr(k->module[1]->text, "option -arch=sm_90\n"));
    ck_assert_ptr_nonnull(strstr(k->module[0]->text, "facc_wgmma.cuh"));
    ck_assert_ptr_null(strstr(k->module[1]->text, "facc_wgmma.cuh"));
    facc_kernel_free(k);

    i = got_any(ctx, p, FACC_LAYOUT_ALIGNED, 0);
    ck_counts(&c, 2, 0, 1);
    ck_assert_str_eq(i.family, "sm90");
    ck_assert_str_eq(i.fallback, "");
    ck_assert_str_eq(i.source, "memory");
    ck_assert(i.compile_seconds == 0);
    i = got_any(ctx, p, FACC_LAYOUT_ANY, FACC_FAMILY_SM80);
    ck_counts(&c, 2, 0, 2);
    ck_assert_str_eq(i.family, "sm80");
    i = got_any(ctx, p, FACC_LAYOUT_ANY, FACC_FAMILY_SM90);
    ck_assert_str_eq(i.family, "sm90");
    ck_assert_str_eq(i.fallback, "");
    (void)got_any(ctx, p, FACC_LAYOUT_ANY, 0);
    ck_counts(&c, 2, 0, 5);
    facc_program_free(p);
    facc_ctx_free(ctx);

    ctx = open_ctx(&o); /* a short variant is an older facc.h's: any layout */
    p = program(ctx, causal);
    facc_variant old = FACC_VARIANT_INIT;
    old.struct_size = offsetof(facc_variant, layout);
    old.dtype = FACC_BF16;
    old.head_dim = 64;
    old.arch = 90;
    ck_assert_int_eq(facc_kernel_get(&k, ctx, p, &old, &err), FACC_OK);
    ck_counts(&c, 2, 2, 5);
    ck_assert_str_eq(info_of(k).source, "disk");
    struct { /* and writes no more of the info than that one has */
        char bytes[sizeof(facc_kernel_info)];
    } raw;
    memset(&raw, 'x', sizeof raw);
    const size_t size = offsetof(facc_kernel_info, fallback);
    memcpy(&raw, &size, sizeof size);
    ck_assert_int_eq(facc_kernel_get_info(k, (facc_kernel_info *)(void *)&raw),
                     FACC_OK);
    ck_assert(raw.bytes[size] == 'x' && raw.bytes[sizeof raw - 1] == 'x');
    facc_kernel_free(k);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

/* What makes schedules is one code for all families, head dims and dtypes. */
START_TEST(one_schedule_for_all)
{
    struct counts c;
    facc_options o = options(&c);
    facc_error err = FACC_ERROR_INIT;
    facc_variant v = FACC_VARIANT_INIT;
    facc_kernel *k, *other;
    if (no_nvrtc("one_schedule_for_all"))
        return;
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    v.dtype = FACC_BF16;
    v.head_dim = 64;
    v.arch = 90;
    v.packed = 1;
    ck_assert_int_eq(facc_kernel_get(&k, ctx, p, &v, &err), FACC_OK);
    ck_counts(&c, 3, 0, 0);
    const struct module *makers = k->module[2];
    ck_assert_str_eq(makers->meta.summary, "schedule sm_90 packed expression");
    ck_assert_ptr_nonnull(strstr(makers->text, "entry facc_schedule\n"));
    ck_assert_ptr_nonnull(strstr(makers->text, "option -arch=sm_90\n"));
    ck_assert_ptr_null(strstr(makers->text, "kHeadDim"));
    v.head_dim = 128;
    v.dtype = FACC_F16;
    v.out_dtype = FACC_F32;
    v.layout = FACC_LAYOUT_ALIGNED;
    ck_assert_int_eq(facc_kernel_get(&other, ctx, p, &v, &err), FACC_OK);
    ck_counts(&c, 4, 0, 1);
    ck_assert_ptr_eq(other->module[1], makers);
    facc_kernel_free(other);
    facc_kernel_free(k);
    facc_program_free(p);
    facc_ctx_free(ctx);
    ctx = open_ctx(&o); /* on disk it is one, too */
    p = program(ctx, causal);
    v.family = FACC_FAMILY_SM80;
    ck_assert_int_eq(facc_kernel_get(&k, ctx, p, &v, &err), FACC_OK);
    ck_counts(&c, 5, 1, 1);
    ck_assert_str_eq(info_of(k).source, "nvrtc");
    facc_kernel_free(k);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

/* One that was there already: what took longest is told. */
START_TEST(source_of_two)
{
    struct counts c;
    facc_options o = options(&c);
    if (no_nvrtc("source_of_two"))
        return;
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    (void)got_any(ctx, p, FACC_LAYOUT_ALIGNED, 0);
    facc_kernel_info i = got_any(ctx, p, FACC_LAYOUT_ANY, 0);
    ck_counts(&c, 2, 0, 1);
    ck_assert_str_eq(i.source, "nvrtc");
    ck_assert(i.compile_seconds > 0);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

/* Loop: 0 sm80's template is bad, 1 sm90's, 2 both. */
START_TEST(one_fails)
{
    struct counts c;
    facc_options o = options(&c);
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k;
    char dir[2 * PATH_MAX];
    if (no_nvrtc("one_fails"))
        return;
    for (int i = 0; i < 2; i++)
        if (_i == i || _i == 2) {
            snprintf(dir, sizeof dir, "%s/sm%d", templates, i ? 90 : 80);
            write_file(dir, "forward.cu", "__device__ int x = nonsense;\n");
        }
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    ck_assert_int_eq(get_any(&k, ctx, p, FACC_LAYOUT_ANY, 0, &err),
                     FACC_ERR_COMPILE);
    ck_assert_ptr_null(k);
    ck_assert_msg(strstr(err.message, "nonsense"), "%s", err.message);
    ck_assert_ptr_nonnull(strstr(err.log, _i ? "sm90/forward.cu(1): error"
                                             : "sm80/forward.cu(1): error"));
    ck_counts(&c, 0, 0, 0); /* nothing was got */
    for (int i = 0; i < 2; i++) {
        snprintf(dir, sizeof dir, "%s/sm%d", templates, i ? 90 : 80);
        write_file(dir, "forward.cu", small_template);
    }
    (void)got_any(ctx, p, FACC_LAYOUT_ANY, 0); /* the good one was kept */
    ck_counts(&c, _i == 2 ? 2 : 1, 0, _i == 2 ? 0 : 1);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

START_TEST(nothing_to_compile_with)
{
    struct counts c;
    facc_options o = options(&c);
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k;
    o.nvrtc_path = "/nowhere/libnvrtc.so";
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    ck_assert_int_eq(get_any(&k, ctx, p, FACC_LAYOUT_ANY, 0, &err),
                     FACC_ERR_NO_NVRTC);
    ck_assert_ptr_null(k);
    facc_program_free(p);
    facc_ctx_free(ctx);
    o.no_jit = 1;
    ctx = open_ctx(&o);
    p = program(ctx, causal);
    ck_assert_int_eq(get_any(&k, ctx, p, FACC_LAYOUT_ANY, 0, &err),
                     FACC_ERR_NO_JIT);
    ck_assert_ptr_nonnull(strstr(err.message, "sm90 bf16 64/64 sm_90"));
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

struct asked {
    facc_ctx *ctx;
    facc_program *p;
};

static void *get_in_thread(void *user)
{
    const struct asked *r = user;
    (void)got_any(r->ctx, r->p, FACC_LAYOUT_ANY, 0);
    return NULL;
}

START_TEST(threads_compile_each_once)
{
    enum { N = 6 };
    struct counts c;
    facc_options o = options(&c);
    pthread_t t[N];
    if (no_nvrtc("threads_compile_each_once"))
        return;
    facc_ctx *ctx = open_ctx(&o);
    struct asked same = {ctx, program(ctx, causal)};
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, get_in_thread, &same), 0);
    for (int i = 0; i < N; i++)
        pthread_join(t[i], NULL);
    ck_counts(&c, 2, 0, 2 * (N - 1));
    facc_program_free(same.p);
    facc_ctx_free(ctx);
}
END_TEST

START_TEST(forked_child)
{
    struct counts c;
    facc_options o = options(&c);
    if (no_nvrtc("forked_child"))
        return;
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    (void)got_any(ctx, p, FACC_LAYOUT_ANY, FACC_FAMILY_SM80);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)got_any(ctx, p, FACC_LAYOUT_ANY, 0);
        bool ok = c.nvrtc == 2 && c.memory == 1;
        facc_program_free(p);
        facc_ctx_free(ctx);
        _exit(ok ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

/* An NVRTC whose compiles wait for another one to be under way; one that waits
 * in vain fails. */
static const char meeting_nvrtc[] =
    "#include <stdatomic.h>\n"
    "#include <string.h>\n"
    "#include <unistd.h>\n"
    "typedef unsigned long size;\n"
    "static atomic_int inside;\n"
    "int nvrtcVersion(int *a, int *b) { *a = 13; *b = 0; return 0; }\n"
    "const char *nvrtcGetErrorString(int r) { return r ? \"bad\" : \"ok\"; }\n"
    "int nvrtcGetNumSupportedArchs(int *n) { *n = 1; return 0; }\n"
    "int nvrtcGetSupportedArchs(int *a) { *a = 90; return 0; }\n"
    "int nvrtcCreateProgram(void) { return 0; }\n"
    "int nvrtcDestroyProgram(void) { return 0; }\n"
    "int nvrtcCompileProgram(void)\n"
    "{\n"
    "    inside++;\n"
    "    for (int i = 0; i < 10000 && inside < 2; i++)\n"
    "        usleep(10000);\n"
    "    return inside < 2 ? 6 : 0;\n"
    "}\n"
    "int nvrtcGetPTXSize(void *p, size *n) { *n = 0; return 0; }\n"
    "int nvrtcGetPTX(void) { return 0; }\n"
    "int nvrtcGetCUBINSize(void *p, size *n) { *n = 4; return 0; }\n"
    "int nvrtcGetCUBIN(void *p, char *s)\n"
    "{\n"
    "    memcpy(s, \"\\177ELF\", 4);\n"
    "    return 0;\n"
    "}\n"
    "int nvrtcGetProgramLogSize(void *p, size *n) { *n = 0; return 0; }\n"
    "int nvrtcGetProgramLog(void) { return 0; }\n";

START_TEST(side_by_side)
{
    struct counts c;
    facc_options o = options(&c);
    char file[2 * PATH_MAX], command[3 * PATH_MAX];
    snprintf(file, sizeof file, "%s/libnvrtc.so.13", base);
    snprintf(command, sizeof command, "cc -shared -fPIC -x c - -o %s", file);
    FILE *cc = popen(command, "w");
    ck_assert_ptr_nonnull(cc);
    fputs(meeting_nvrtc, cc);
    ck_assert_int_eq(pclose(cc), 0);
    o.nvrtc_path = file;
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    (void)got_any(ctx, p, FACC_LAYOUT_ANY, 0);
    ck_counts(&c, 2, 0, 0);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {both_or_one,
                                  one_schedule_for_all,
                                  source_of_two,
                                  nothing_to_compile_with,
                                  threads_compile_each_once,
                                  forked_child,
                                  side_by_side};
    Suite *s = suite_create("one of two codes");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, one_fails, 0, 3);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    const int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return run_tests("two codes", tests, sizeof tests / sizeof tests[0]) |
           (failed != 0);
}

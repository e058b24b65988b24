/* facc_ctx: environment and options, warnings, names, error reports, and what
 * a machine without cache, driver or NVRTC gets. */
#include "runtime/context.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cache.h"
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/error.h"
#include "tests/unit/suite.h"

/* Each test runs in a process of its own (CK_FORK), so it may change the
 * environment. */
static void clean(void)
{
    static const char *const names[] = {
        "FACC_CACHE_DIR", "FACC_CACHE", "FACC_NO_JIT",   "FACC_NVRTC",
        "FACC_LOG",       "FACC_KEEP",  "FACC_LINEINFO", "XDG_CACHE_HOME"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    setenv("HOME", "/home/somebody", 1);
}

static facc_ctx *open_ctx(const facc_options *o)
{
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx;
    ck_assert_msg(facc_ctx_create(&ctx, o, &err) == FACC_OK, "%s", err.message);
    return ctx;
}

static void ck_dirs(const facc_options *o, const char *want)
{
    char have[512] = "";
    facc_ctx *ctx = open_ctx(o);
    for (int i = 0; i < ctx->cache->n_dirs; i++) {
        strcat(have, i ? ":" : "");
        strcat(have, ctx->cache->dirs[i]);
    }
    ck_assert_str_eq(have, want);
    facc_ctx_free(ctx);
}

START_TEST(cache_directories)
{
    clean();
    ck_dirs(NULL, "/home/somebody/.cache/facc");
    setenv("XDG_CACHE_HOME", "/var/x", 1);
    ck_dirs(NULL, "/var/x/facc");
    setenv("XDG_CACHE_HOME", "relative", 1); /* invalid: ignored */
    ck_dirs(NULL, "/home/somebody/.cache/facc");
    setenv("FACC_CACHE_DIR", "/a:/b", 1);
    ck_dirs(NULL, "/a:/b");
    facc_options o = FACC_OPTIONS_INIT;
    o.cache_dirs = "/c";
    ck_dirs(&o, "/c");
    o.cache_dirs = "";
    ck_dirs(&o, "");
    unsetenv("FACC_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    ck_dirs(NULL, "");
    setenv("HOME", "", 1);
    ck_dirs(NULL, "");
    ck_assert_int_eq(chdir("/tmp"), 0);
    setenv("FACC_CACHE_DIR", "here", 1);
    ck_dirs(NULL, "/tmp/here");
}
END_TEST

static enum cache_mode mode_of(const facc_options *o)
{
    facc_ctx *ctx = open_ctx(o);
    enum cache_mode m = ctx->cache->mode;
    facc_ctx_free(ctx);
    return m;
}

START_TEST(cache_modes)
{
    facc_options o = FACC_OPTIONS_INIT;
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx;
    clean();
    ck_assert_int_eq(mode_of(NULL), CACHE_RW);
    setenv("FACC_CACHE", "ro", 1);
    ck_assert_int_eq(mode_of(NULL), CACHE_RO);
    setenv("FACC_CACHE", "off", 1);
    ck_assert_int_eq(mode_of(NULL), CACHE_OFF);
    ck_dirs(NULL, "");
    o.cache_mode = 1;
    ck_assert_int_eq(mode_of(&o), CACHE_RW); /* options win */
    setenv("FACC_CACHE", "yes", 1);
    ck_assert_int_eq(facc_ctx_create(&ctx, NULL, &err), FACC_ERR_ARGUMENT);
    ck_assert_ptr_null(ctx);
    ck_assert_str_eq(err.message,
                     "FACC_CACHE is \"yes\", must be rw, ro or off");
    o.cache_mode = 4;
    ck_assert_int_eq(facc_ctx_create(&ctx, &o, &err), FACC_ERR_ARGUMENT);
}
END_TEST

START_TEST(other_settings)
{
    facc_options o = FACC_OPTIONS_INIT;
    facc_error err = FACC_ERROR_INIT;
    clean();
    facc_ctx *ctx = open_ctx(NULL);
    ck_assert(!ctx->no_jit && !ctx->lineinfo && !ctx->quiet);
    ck_assert_ptr_null(ctx->nvrtc_path);
    ck_assert_ptr_null(ctx->keep_dir);
    ck_assert_int_ge(ctx->cpu_threads, 1);
    facc_ctx_free(ctx);
    setenv("FACC_NO_JIT", "1", 1);
    setenv("FACC_LINEINFO", "1", 1);
    setenv("FACC_LOG", "off", 1);
    setenv("FACC_NVRTC", "/env/nvrtc", 1);
    setenv("FACC_KEEP", "/env/keep", 1);
    ctx = open_ctx(NULL);
    ck_assert(ctx->no_jit && ctx->lineinfo && ctx->quiet);
    ck_assert_str_eq(ctx->nvrtc_path, "/env/nvrtc");
    ck_assert_str_eq(ctx->keep_dir, "/env/keep");
    facc_ctx_free(ctx);
    setenv("FACC_NO_JIT", "0", 1);
    o.nvrtc_path = "/option/nvrtc";
    o.cpu_threads = 3;
    ctx = open_ctx(&o);
    ck_assert(!ctx->no_jit);
    ck_assert_str_eq(ctx->nvrtc_path, "/option/nvrtc");
    ck_assert_int_eq(ctx->cpu_threads, 3);
    facc_ctx_free(ctx);
    o.cpu_threads = -1;
    ck_assert_int_eq(facc_ctx_create(&ctx, &o, &err), FACC_ERR_ARGUMENT);
    o.cpu_threads = 0;
    o.struct_size = 0;
    ck_assert_int_eq(facc_ctx_create(&ctx, &o, &err), FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "facc_options.struct_size"));
    facc_ctx_free(NULL);
}
END_TEST

/* ---- warnings ------------------------------------------------------------ */

struct said {
    int n;
    char last[256];
};

static void say(void *user, const char *message)
{
    struct said *s = user;
    s->n++;
    snprintf(s->last, sizeof s->last, "%s", message);
}

START_TEST(each_warning_once)
{
    facc_options o = FACC_OPTIONS_INIT;
    struct said s = {0, ""};
    clean();
    o.on_warning = say;
    o.user = &s;
    facc_ctx *ctx = open_ctx(&o);
    ctx_warn(ctx, WARN_CACHE_WRITE, "%s %d", "first", 1);
    ctx_warn(ctx, WARN_CACHE_WRITE, "%s", "again");
    ck_assert_int_eq(s.n, 1);
    ck_assert_str_eq(s.last, "first 1");
    ctx_warn(ctx, WARN_SPILL, "%s", "other");
    ck_assert_int_eq(s.n, 2);
    facc_ctx_free(ctx);
    ctx = open_ctx(&o); /* per context, not per process */
    ctx_warn(ctx, WARN_SPILL, "%s", "other");
    ck_assert_int_eq(s.n, 3);
    facc_ctx_free(ctx);
}
END_TEST

/* ---- names ------------------------------------------------------------------
 */

START_TEST(names)
{
    ck_assert_str_eq(facc_version(), "0.1.0");
    ck_assert_str_eq(facc_status_name(FACC_OK), "FACC_OK");
    ck_assert_str_eq(facc_status_name(FACC_ERR_SCRIPT), "FACC_ERR_SCRIPT");
    ck_assert_str_eq(facc_status_name(FACC_ERR_NO_NVRTC), "FACC_ERR_NO_NVRTC");
    ck_assert_str_eq(facc_status_name(FACC_ERR_BOUNDS), "FACC_ERR_BOUNDS");
    ck_assert_str_eq(facc_status_name(FACC_ERR_INTERNAL), "FACC_ERR_INTERNAL");
    ck_assert_str_eq(facc_status_name(-15), "FACC_ERR_?");
    ck_assert_str_eq(facc_status_name(1), "FACC_ERR_?");
    ck_assert_str_eq(facc_status_name(INT32_MIN), "FACC_ERR_?");
    ck_assert_uint_eq(facc_dtype_size(FACC_BF16), 2);
    ck_assert_uint_eq(facc_dtype_size((facc_dtype)77), 0);
    ck_assert_str_eq(facc_dtype_name(FACC_E4M3), "e4m3");
    facc_string_free(NULL);
}
END_TEST

/* ---- error reports ----------------------------------------------------------
 */

static facc_error reported(const char *file, int line, const char *text,
                           const char *source, const char *log)
{
    facc_error err = FACC_ERROR_INIT;
    struct diag d;
    diag_init(&d);
    diag_set(&d, FACC_ERR_SCRIPT, "trace", file, line, "%s", text);
    ck_assert_int_eq(error_report(&err, &d, source, log), FACC_ERR_SCRIPT);
    ck_assert_uint_eq(err.struct_size, sizeof err);
    ck_assert_int_eq(err.line, line);
    ck_assert_str_eq(err.stage, "trace");
    return err;
}

START_TEST(reports)
{
    static const char source[] = "first\r\n  second(1, 2)\nthird";
    facc_error e = reported("a.lua", 2, "bad call", source, "log text");
    ck_assert_str_eq(e.message, "a.lua:2: error: bad call\n"
                                "    2 |   second(1, 2)");
    ck_assert_str_eq(e.file, "a.lua");
    ck_assert_str_eq(e.log, "log text");
    e = reported("a.lua", 3, "x", source, NULL);
    ck_assert_str_eq(e.message, "a.lua:3: error: x\n    3 | third");
    ck_assert_str_eq(e.log, "");
    e = reported("a.lua", 4, "x", source, NULL); /* no such line */
    ck_assert_str_eq(e.message, "a.lua:4: error: x");
    e = reported("a.lua", 0, "x", source, NULL);
    ck_assert_str_eq(e.message, "a.lua: error: x");
    e = reported(NULL, 0, "no place", NULL, NULL);
    ck_assert_str_eq(e.message, "no place");
    e = reported("a.lua", 1, "boom\nstack traceback:\n\ta.lua:1: in f", source,
                 NULL);
    ck_assert_str_eq(e.message, "a.lua:1: error: boom\n    1 | first");
    ck_assert_str_eq(e.log, "stack traceback:\n\ta.lua:1: in f");
}
END_TEST

START_TEST(long_reports_are_cut)
{
    char *log = malloc(20001);
    ck_assert_ptr_nonnull(log);
    memset(log, 'x', 20000);
    log[20000] = '\0';
    facc_error e = reported("a.lua", 1, "m", log, log);
    ck_assert_uint_eq(strlen(e.message), sizeof e.message - 1);
    ck_assert_uint_eq(strlen(e.log), sizeof e.log - 1);
    free(log);
}
END_TEST

/* ---- what is there ------------------------------------------------------- */

START_TEST(system_without_anything)
{
    facc_system_info i = {.struct_size = sizeof i};
    facc_error err = FACC_ERROR_INIT;
    clean();
    setenv("FACC_NVRTC", "/nowhere", 1);
    setenv("FACC_CACHE_DIR", "/proc/cannot", 1);
    facc_ctx *ctx = open_ctx(NULL);
    ck_assert_int_eq(facc_system(ctx, &i, &err), FACC_OK);
    ck_assert_int_eq(i.nvrtc_found, 0);
    ck_assert_ptr_nonnull(strstr(i.nvrtc_error, "/nowhere"));
    ck_assert_str_eq(i.cache_dir, "/proc/cannot");
    ck_assert_int_ge(i.cpu_threads, 1);
    ck_assert_str_eq(i.cpu_isa, cpu_kernels_get(false)->isa);
    ck_assert_int_eq(i.driver_found, i.driver_error[0] == '\0');
    facc_system_info unset = {0};
    ck_assert_int_eq(facc_system(ctx, &unset, &err), FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_system(NULL, &i, &err), FACC_ERR_ARGUMENT);
    facc_ctx_free(ctx);
    unsetenv("FACC_CACHE_DIR");
    unsetenv("HOME");
    ctx = open_ctx(NULL);
    ck_assert_int_eq(facc_system(ctx, &i, &err), FACC_OK);
    ck_assert_str_eq(i.cache_dir, "");
    ck_assert_ptr_nonnull(strstr(i.cache_error, "HOME"));
    facc_ctx_free(ctx);
}
END_TEST

/* Every GPU call of a machine without one says so, from any thread. */
START_TEST(no_driver)
{
    facc_error err = FACC_ERROR_INIT;
    facc_device_info info = {.struct_size = sizeof info};
    facc_timer *timer;
    void *p;
    facc_ctx *ctx = open_ctx(NULL);
    struct diag d;
    diag_init(&d);
    if (ctx_driver(ctx, &d)) {
        printf("SKIPPED no_driver: there is a GPU here\n");
        facc_ctx_free(ctx);
        return;
    }
    for (int i = 0; i < 2; i++) { /* the second answer is the kept one */
        err.message[0] = '\0';
        ck_assert_int_eq(facc_device_info_get(ctx, 0, &info, &err),
                         FACC_ERR_NO_DRIVER);
        ck_assert_int_ne(err.message[0], '\0');
    }
    ck_assert_int_eq(facc_device_alloc(&p, ctx, 0, 10, &err),
                     FACC_ERR_NO_DRIVER);
    ck_assert_ptr_null(p);
    ck_assert_int_eq(facc_device_free(ctx, 0, &info), FACC_ERR_NO_DRIVER);
    ck_assert_int_eq(facc_device_free(ctx, 0, NULL), FACC_OK);
    ck_assert_int_eq(facc_device_upload(ctx, 0, &info, &info, 1, &err),
                     FACC_ERR_NO_DRIVER);
    ck_assert_int_eq(facc_device_download(ctx, 0, &info, &info, 1, &err),
                     FACC_ERR_NO_DRIVER);
    ck_assert_int_eq(facc_device_synchronize(ctx, 0, &err), FACC_ERR_NO_DRIVER);
    ck_assert_int_eq(facc_timer_create(&timer, ctx, 0, &err),
                     FACC_ERR_NO_DRIVER);
    ck_assert_ptr_null(timer);
    facc_timer_free(NULL);
    facc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {cache_directories,
                                  cache_modes,
                                  other_settings,
                                  each_warning_once,
                                  names,
                                  reports,
                                  long_reports_are_cut,
                                  system_without_anything,
                                  no_driver};
    Suite *s = suite_create("context");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return suite_run(s);
}

/* facc_kernel_get when something is missing or broken: entries, NVRTC, disks,
 * templates; what is repaired, what is said. Skipped, aloud, where there is no
 * NVRTC. */
#include "tests/unit/kernel_fixture.h"

#include <signal.h>
#include <sys/resource.h>

/* Flips a byte of the only entry's file. */
static void damage(const char *key, const char *file)
{
    char path[3 * PATH_MAX];
    snprintf(path, sizeof path, "%s/v1/%.2s/%s/%s", cache, key, key, file);
    FILE *f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    fseek(f, 20, SEEK_SET);
    int byte = fgetc(f);
    fseek(f, 20, SEEK_SET);
    fputc(byte ^ 0x20, f);
    fclose(f);
}

START_TEST(damaged_entry_is_rebuilt)
{
    struct counts c;
    facc_options o = options(&c);
    if (no_nvrtc("damaged_entry_is_rebuilt"))
        return;
    once(&o, causal);
    damage(c.key, "kernel.cubin");
    once(&o, causal);
    ck_counts(&c, 2, 0, 0);
    ck_assert_int_eq(c.warnings, 1);
    ck_assert_ptr_nonnull(strstr(c.warning, "is damaged"));
    once(&o, causal);
    ck_counts(&c, 2, 1, 0);
    ck_assert_int_eq(c.warnings, 1);
}
END_TEST

START_TEST(no_jit)
{
    struct counts c;
    facc_options o = options(&c);
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k;
    o.no_jit = 1;
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    ck_assert_int_eq(get(&k, ctx, p, 80, &err), FACC_ERR_NO_JIT);
    ck_assert_ptr_null(k);
    ck_assert_ptr_nonnull(strstr(err.message, "sm80 bf16 64/64 sm_80"));
    ck_assert_ptr_nonnull(strstr(err.message,
                                 "\"facc compile FILE --dtype bf16 --head-dim "
                                 "64/64 --arch 80\""));
    facc_variant v = FACC_VARIANT_INIT;
    char *text = NULL;
    v.dtype = FACC_BF16;
    v.head_dim = 64;
    v.arch = 80;
    ck_assert_int_eq(facc_program_dump(&text, ctx, p, &v, FACC_DUMP_PTX, &err),
                     FACC_ERR_NO_JIT);
    ck_assert_ptr_null(text);
    ck_assert_ptr_nonnull(strstr(err.message, "PTX for sm_80"));
    facc_program_free(p);
    facc_ctx_free(ctx);
    if (no_nvrtc("no_jit"))
        return;
    o.no_jit = 0;
    once(&o, causal);
    o.no_jit = 1; /* a cached kernel is not a compile */
    once(&o, causal);
    ck_counts(&c, 1, 1, 0);
}
END_TEST

/* No NVRTC: a hit does not need one, a miss says what is missing. */
START_TEST(hits_need_no_nvrtc)
{
    struct counts c;
    facc_options o = options(&c);
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k;
    o.nvrtc_path = "/nowhere/libnvrtc.so";
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    ck_assert_int_eq(get(&k, ctx, p, 80, &err), FACC_ERR_NO_NVRTC);
    ck_assert_ptr_nonnull(strstr(err.message, "/nowhere/libnvrtc.so"));
    facc_program_free(p);
    facc_ctx_free(ctx);
    if (no_nvrtc("hits_need_no_nvrtc"))
        return;
    o.nvrtc_path = NULL;
    once(&o, causal);
    o.nvrtc_path = "/nowhere/libnvrtc.so";
    once(&o, causal);
    ck_counts(&c, 1, 1, 0);
}
END_TEST

START_TEST(memory_only)
{
    struct counts c;
    facc_options o = options(&c);
    static const char *const dirs[] = {"", "/proc/facc-cannot-be-here"};
    static const char *const says[] = {"no cache directory",
                                       "/proc/facc-cannot-be-here"};
    if (no_nvrtc("memory_only"))
        return;
    for (int i = 0; i < 2; i++) {
        o = options(&c);
        o.cache_dirs = dirs[i];
        facc_ctx *ctx = open_ctx(&o);
        facc_program *p = program(ctx, causal);
        facc_kernel_free(got(ctx, p, 80));
        facc_kernel_free(got(ctx, p, 90));
        facc_kernel_free(got(ctx, p, 80));
        ck_counts(&c, 2, 0, 1);
        ck_assert_int_eq(c.warnings, 1); /* once */
        ck_assert_ptr_nonnull(strstr(c.warning, says[i]));
        facc_program_free(p);
        facc_ctx_free(ctx);
    }
    o = options(&c);
    o.cache_mode = 3; /* switched off: no reason to warn */
    once(&o, causal);
    ck_counts(&c, 1, 0, 0);
    ck_assert_int_eq(c.warnings, 0);
    ck_assert_int_ne(access(cache, F_OK), 0);
}
END_TEST

/* A disk without room: the entry is given up, nothing is left behind. The
 * limit on file sizes stands in for a full disk. */
START_TEST(no_room_on_disk)
{
    struct counts c;
    facc_options o = options(&c);
    if (no_nvrtc("no_room_on_disk"))
        return;
    char command[3 * PATH_MAX], listing[64] = "";
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, tiny;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    tiny = old;
    tiny.rlim_cur = 600;
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k = NULL;
    /* Check itself writes a file at every assertion: none while it is tiny. */
    int set = setrlimit(RLIMIT_FSIZE, &tiny);
    facc_status s = get(&k, ctx, p, 80, &err);
    int reset = setrlimit(RLIMIT_FSIZE, &old);
    ck_assert(set == 0 && reset == 0);
    ck_assert_msg(s == FACC_OK, "%s", err.message);
    ck_assert_int_eq(c.warnings, 1);
    ck_assert_ptr_nonnull(strstr(c.warning, "cannot write"));
    facc_kernel_free(k);
    facc_program_free(p);
    facc_ctx_free(ctx);
    snprintf(command, sizeof command, "find %s -type f | wc -l", cache);
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(fgets(listing, sizeof listing, f));
    pclose(f);
    ck_assert_int_eq(atoi(listing), 0);
}
END_TEST

START_TEST(refused_by_nvrtc)
{
    struct counts c;
    facc_options o = options(&c);
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k;
    char dir[2 * PATH_MAX];
    if (no_nvrtc("refused_by_nvrtc"))
        return;
    snprintf(dir, sizeof dir, "%s/sm80", templates);
    write_file(dir, "forward.cu", "__device__ int x = nonsense;\n");
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    for (int i = 0; i < 2; i++) { /* failures are not kept */
        ck_assert_int_eq(get(&k, ctx, p, 80, &err), FACC_ERR_COMPILE);
        ck_assert_ptr_null(k);
        ck_assert_msg(strstr(err.message, "nonsense"), "%s", err.message);
        ck_assert_ptr_nonnull(strstr(err.log, "sm80/forward.cu(1): error"));
    }
    ck_assert_int_eq(c.nvrtc, 0);
    snprintf(dir, sizeof dir, "%s/sm80/forward.cu", templates);
    unlink(dir);
    ck_assert_int_eq(get(&k, ctx, p, 80, &err), FACC_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.message, "sm80/forward.cu"));
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

/* An NVRTC whose cubin is none: the kernel is refused, nothing is cached. */
static const char broken_nvrtc[] =
    "typedef unsigned long size;\n"
    "int nvrtcVersion(int *a, int *b) { *a = 13; *b = 0; return 0; }\n"
    "const char *nvrtcGetErrorString(int r) { return r ? \"bad\" : \"ok\"; }\n"
    "int nvrtcGetNumSupportedArchs(int *n) { *n = 1; return 0; }\n"
    "int nvrtcGetSupportedArchs(int *a) { *a = 80; return 0; }\n"
    "int nvrtcCreateProgram(void) { return 0; }\n"
    "int nvrtcDestroyProgram(void) { return 0; }\n"
    "int nvrtcCompileProgram(void) { return 0; }\n"
    "int nvrtcGetPTXSize(void *p, size *n) { *n = 0; return 0; }\n"
    "int nvrtcGetPTX(void) { return 0; }\n"
    "int nvrtcGetCUBINSize(void *p, size *n) { *n = 5; return 0; }\n"
    "int nvrtcGetCUBIN(void *p, char *s) { s[0] = 'x'; return 0; }\n"
    "int nvrtcGetProgramLogSize(void *p, size *n) { *n = 0; return 0; }\n"
    "int nvrtcGetProgramLog(void) { return 0; }\n";

START_TEST(no_elf_is_refused)
{
    struct counts c;
    facc_options o = options(&c);
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k;
    char file[2 * PATH_MAX], command[3 * PATH_MAX];
    snprintf(file, sizeof file, "%s/libnvrtc.so.13", base);
    snprintf(command, sizeof command, "cc -shared -fPIC -x c - -o %s", file);
    FILE *cc = popen(command, "w");
    ck_assert_ptr_nonnull(cc);
    fputs(broken_nvrtc, cc);
    ck_assert_int_eq(pclose(cc), 0);
    o.nvrtc_path = file;
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(get(&k, ctx, p, 80, &err), FACC_ERR_COMPILE);
        ck_assert_ptr_null(k);
        ck_assert_msg(strstr(err.message, "no ELF file"), "%s", err.message);
    }
    ck_counts(&c, 0, 0, 0);
    int64_t removed = -1;
    ck_assert_int_eq(facc_cache_clear(ctx, &removed, &err), FACC_OK);
    ck_assert_int_eq(removed, 0);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {damaged_entry_is_rebuilt, no_jit,
                                  hits_need_no_nvrtc,       memory_only,
                                  no_room_on_disk,          refused_by_nvrtc,
                                  no_elf_is_refused};
    return run_tests("kernel_faults", tests, sizeof tests / sizeof tests[0]);
}

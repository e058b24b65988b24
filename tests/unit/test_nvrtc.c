/* Finding NVRTC (and not finding it, or finding one that is too old), reading
 * ptxas logs, compiling a small unit with headers in memory. What needs a real
 * NVRTC is skipped, aloud, where there is none. */
#include "runtime/nvrtc.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/facc.h"
#include "tests/unit/suite.h"

static struct nvrtc *real(const char *test)
{
    struct diag d;
    diag_init(&d);
    struct nvrtc *n = nvrtc_open(getenv("FACC_NVRTC"), &d);
    if (!n)
        printf("SKIPPED %s: %s\n", test, d.message);
    return n;
}

/* ---- logs ------------------------------------------------------------- */

START_TEST(log_of_ptxas)
{
    static const char log[] =
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'facc_scan' for 'sm_80'\n"
        "    0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 256 registers\n"
        "ptxas info    : Compiling entry function 'facc_forward' for 'sm_80'\n"
        "ptxas info    : Function properties for facc_forward\n"
        "    16 bytes stack frame, 24 bytes spill stores, 40 bytes spill "
        "loads\n"
        "ptxas info    : Used 255 registers, used 1 barriers, 16 bytes "
        "cumulative stack size\n"
        "ptxas info    : Function properties for helper\n"
        "    0 bytes stack frame, 8 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 32 registers\n"
        "ptxas info    : Compiling entry function 'facc_forward_too' for "
        "'sm_80'\n"
        "    0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 256 registers";
    struct nvrtc_build b;
    memset(&b, 0, sizeof b);
    nvrtc_parse_log(log, &b);
    ck_assert_int_eq(b.registers, 255);
    ck_assert_int_eq(b.spill_bytes, 72);
    ck_assert(!b.serialized);
    nvrtc_parse_log("ptxas info : (C7510) Potential Performance Loss: "
                    "wgmma.mma_async instructions are serialized\n",
                    &b);
    ck_assert(b.serialized);
    ck_assert_int_eq(b.registers, -1);
    ck_assert_int_eq(b.spill_bytes, 0);
    nvrtc_parse_log("", &b);
    ck_assert_int_eq(b.registers, -1);
    nvrtc_parse_log(" registers\n bytes spill stores", &b);
    ck_assert_int_eq(b.registers, -1);
}
END_TEST

START_TEST(options_of_targets)
{
    struct nvrtc_options o;
    nvrtc_options(&(struct nvrtc_target){120, false, false}, &o);
    ck_assert_int_eq(o.n, 2);
    ck_assert_str_eq(o.text[0], "-arch=sm_120");
    ck_assert_str_eq(o.text[1], "--std=c++17");
    nvrtc_options(&(struct nvrtc_target){80, false, true}, &o);
    ck_assert_int_eq(o.n, 3);
    ck_assert_str_eq(o.text[2], "-lineinfo");
    nvrtc_options(&(struct nvrtc_target){90, true, false}, &o);
    ck_assert_int_eq(o.n, 2);
    ck_assert_str_eq(o.text[0], "-arch=sm_90a");
}
END_TEST

/* ---- not finding it ----------------------------------------------------- */

static void ck_not_opened(const char *where, const char *says)
{
    struct diag d;
    diag_init(&d);
    ck_assert_ptr_null(nvrtc_open(where, &d));
    ck_assert_int_eq(d.status, FACC_ERR_NO_NVRTC);
    ck_assert_msg(strstr(d.message, says), "\"%s\" lacks \"%s\"", d.message,
                  says);
}

START_TEST(wrong_places)
{
    char dir[] = "/tmp/facc-nvrtc-XXXXXX", file[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_not_opened("/nowhere/libnvrtc.so.13", "does not exist");
    ck_not_opened(dir, "no libnvrtc.so.13 or .12");
    snprintf(file, sizeof file, "%s/libnvrtc.so.13", dir);
    FILE *f = fopen(file, "w");
    fputs("not a library", f);
    fclose(f);
    ck_not_opened(file, "cannot be opened");
    ck_not_opened(dir, "cannot be opened");
    unlink(file);
    rmdir(dir);
}
END_TEST

/* A library with the given C text at `file`; false: no compiler here. */
static bool make_library(const char *file, const char *text)
{
    char command[512];
    snprintf(command, sizeof command, "cc -shared -fPIC -x c - -o %s", file);
    FILE *p = popen(command, "w");
    if (!p)
        return false;
    fputs(text, p);
    return pclose(p) == 0;
}

START_TEST(too_old_or_no_nvrtc)
{
    char dir[] = "/tmp/facc-nvrtc-XXXXXX", file[64], text[2048] = "";
    static const char *const names[] = {
        "GetErrorString",    "GetNumSupportedArchs",
        "GetSupportedArchs", "CreateProgram",
        "DestroyProgram",    "CompileProgram",
        "GetPTXSize",        "GetPTX",
        "GetCUBINSize",      "GetCUBIN",
        "GetProgramLogSize", "GetProgramLog"};
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/libnvrtc.so.12", dir);
    if (!make_library(file, "int nothing(void) { return 0; }\n")) {
        printf("SKIPPED too_old_or_no_nvrtc: no C compiler\n");
        rmdir(dir);
        return;
    }
    ck_not_opened(dir, "/libnvrtc.so.12 has no nvrtc");
    unlink(file);
    size_t n = (size_t)snprintf(
        text, sizeof text,
        "int nvrtcVersion(int *a, int *b) { *a = 11; *b = 8; return 0; }\n");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "int nvrtc%s(void) { return 0; }\n", names[i]);
    ck_assert(make_library(file, text));
    ck_not_opened(file, "is NVRTC 11.8: facc needs 12.0 or newer");
    unlink(file);
    rmdir(dir);
}
END_TEST

/* ---- compiling ------------------------------------------------------------
 */

static const char main_text[] =
    "#include \"facc_config.cuh\"\n"
    "#include \"common/more.cuh\"\n"
    "extern \"C\" __global__ void facc_forward(int *out)\n"
    "{\n"
    "    out[threadIdx.x] = kValue + more(threadIdx.x);\n"
    "}\n";

/* Points into `headers`. */
static struct cuda_unit small_unit(struct cuda_header headers[2],
                                   const char *config)
{
    headers[0] = (struct cuda_header){"facc_config.cuh", config};
    headers[1] = (struct cuda_header){
        "common/more.cuh",
        "__device__ inline int more(int x) { return 2 * x; }\n"};
    return (struct cuda_unit){"sm80/forward.cu", main_text, headers, 2,
                              "facc_forward"};
}

START_TEST(cubin_for_every_arch)
{
    static const int archs[] = {80, 86, 89, 90, 100, 120};
    struct cuda_header headers[2];
    const struct cuda_unit u =
        small_unit(headers, "constexpr int kValue = 7;\n");
    struct nvrtc *n = real("cubin_for_every_arch");
    if (!n)
        return;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        struct nvrtc_build b;
        struct diag d;
        diag_init(&d);
        bool ok =
            nvrtc_compile(n, &u, &(struct nvrtc_target){archs[i], false, false},
                          false, &b, &d);
        if (!ok && d.status == FACC_ERR_UNSUPPORTED) {
            printf("SKIPPED sm_%d: %s\n", archs[i], d.message);
            nvrtc_build_free(&b);
            continue;
        }
        ck_assert_msg(ok, "%s", d.message);
        ck_assert_uint_gt(b.size, 100);
        ck_assert_int_eq(memcmp(b.image, "\177ELF", 4), 0);
        ck_assert_int_gt(b.registers, 0);
        ck_assert_int_eq(b.spill_bytes, 0);
        ck_assert(!b.serialized);
        ck_assert(b.seconds > 0);
        ck_assert_int_eq(strncmp(b.compiler, "NVRTC 1", 7), 0);
        nvrtc_build_free(&b);
    }
    nvrtc_close(n);
}
END_TEST

START_TEST(ptx_and_lineinfo)
{
    struct cuda_header headers[2];
    const struct cuda_unit u =
        small_unit(headers, "constexpr int kValue = 7;\n");
    struct nvrtc_build b;
    struct diag d;
    struct nvrtc *n = real("ptx_and_lineinfo");
    if (!n)
        return;
    diag_init(&d);
    ck_assert_msg(nvrtc_compile(n, &u, &(struct nvrtc_target){80, false, true},
                                true, &b, &d),
                  "%s", d.message);
    ck_assert_uint_eq(strlen(b.image), b.size);
    ck_assert_ptr_nonnull(strstr(b.image, ".entry facc_forward"));
    ck_assert_ptr_nonnull(strstr(b.image, ".loc"));
    ck_assert_ptr_nonnull(strstr(b.image, ".target sm_80"));
    nvrtc_build_free(&b);
    nvrtc_close(n);
}
END_TEST

/* An error in a header: status, first error line in the message, whole log.
 * The program is usable again afterwards. */
START_TEST(refused_unit)
{
    struct cuda_header headers[2];
    struct cuda_unit u = small_unit(
        headers, "#line 12 \"alibi.lua\"\nconstexpr int kValue = nonsense;\n");
    struct nvrtc_build b;
    struct diag d;
    struct nvrtc *n = real("refused_unit");
    if (!n)
        return;
    diag_init(&d);
    const struct nvrtc_target t = {80, false, false};
    ck_assert(!nvrtc_compile(n, &u, &t, false, &b, &d));
    ck_assert_int_eq(d.status, FACC_ERR_COMPILE);
    ck_assert_ptr_nonnull(strstr(d.message, "alibi.lua(12): error:"));
    ck_assert_ptr_nonnull(strstr(d.message, "nonsense"));
    ck_assert_ptr_nonnull(b.log);
    ck_assert_ptr_nonnull(strstr(b.log, "nonsense"));
    ck_assert_ptr_null(b.image);
    nvrtc_build_free(&b);
    headers[0].text = "constexpr int kValue = 7;\n";
    diag_init(&d);
    ck_assert(nvrtc_compile(n, &u, &t, false, &b, &d));
    nvrtc_build_free(&b);
    nvrtc_close(n);
}
END_TEST

START_TEST(arch_too_new_for_nvrtc)
{
    struct cuda_header headers[2];
    const struct cuda_unit u = small_unit(headers, "");
    struct nvrtc_build b;
    struct diag d;
    struct nvrtc *n = real("arch_too_new_for_nvrtc");
    if (!n)
        return;
    diag_init(&d);
    ck_assert(!nvrtc_compile(n, &u, &(struct nvrtc_target){999, false, false},
                             false, &b, &d));
    ck_assert_int_eq(d.status, FACC_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(d.message, "sm_999"));
    ck_assert_ptr_nonnull(strstr(d.message, "install a newer NVRTC"));
    nvrtc_build_free(&b);
    nvrtc_close(n);
}
END_TEST

/* Opened from a folder that is not on the loader's path: the builtins must
 * be found beside it. */
START_TEST(from_a_folder)
{
    char folder[PATH_MAX];
    struct diag d;
    struct cuda_header headers[2];
    const struct cuda_unit u =
        small_unit(headers, "constexpr int kValue = 7;\n");
    struct nvrtc_build b;
    struct nvrtc *n = real("from_a_folder");
    if (!n)
        return;
    snprintf(folder, sizeof folder, "%s", nvrtc_path(n));
    nvrtc_close(n);
    char *slash = strrchr(folder, '/');
    ck_assert_ptr_nonnull(slash);
    *slash = '\0';
    diag_init(&d);
    n = nvrtc_open(folder, &d);
    ck_assert_msg(n != NULL, "%s", d.message);
    ck_assert_int_ge(nvrtc_version(n), 12000);
    ck_assert_msg(nvrtc_compile(n, &u, &(struct nvrtc_target){80, false, false},
                                false, &b, &d),
                  "%s", d.message);
    nvrtc_build_free(&b);
    nvrtc_close(n);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        log_of_ptxas,        options_of_targets,     wrong_places,
        too_old_or_no_nvrtc, cubin_for_every_arch,   ptx_and_lineinfo,
        refused_unit,        arch_too_new_for_nvrtc, from_a_folder};
    Suite *s = suite_create("nvrtc");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return suite_run(s);
}

/* Directories of its own for each test of facc_kernel_get, a small template
 * that compiles in some 50 ms, and a context that counts where kernels came
 * from. */
#ifndef FACC_TEST_KERNEL_FIXTURE_H
#define FACC_TEST_KERNEL_FIXTURE_H

#include <check.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/context.h"
#include "runtime/nvrtc.h"
#include "tests/unit/suite.h"

static char base[PATH_MAX];           /* of this process: test fixture */
static char templates[PATH_MAX + 16]; /* base/templates */
static char fast[64];                 /* in memory, if it can be; or "" */
static char cache[PATH_MAX + 16];     /* of one of the two: fsync takes 10 ms
                                         on a disk */

static inline int remove_one(const char *path, const struct stat *st, int flag,
                             struct FTW *at)
{
    (void)st, (void)flag, (void)at;
    return remove(path);
}

static inline void write_file(const char *dir, const char *name,
                              const char *text)
{
    char path[3 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static const char small_template[] =
    "#include \"common/args.cuh\"\n"
    "#include \"facc_variant.cuh\"\n"
    "extern \"C\" __global__ void facc_forward(const __grid_constant__ "
    "KernelArgs args)\n"
    "{\n"
    "    static_cast<float *>(args.o)[threadIdx.x] = kTileM;\n"
    "}\n";

static inline void set_up(void)
{
    char path[2 * PATH_MAX];
    snprintf(base, sizeof base, "%s/facc-kernel-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(base));
    snprintf(templates, sizeof templates, "%s/templates", base);
    snprintf(fast, sizeof fast, "/dev/shm/facc-kernel-XXXXXX");
    if (!mkdtemp(fast))
        fast[0] = '\0';
    snprintf(cache, sizeof cache, "%s/cache", fast[0] ? fast : base);
    ck_assert_int_eq(mkdir(templates, 0755), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/sm%d", templates, i ? 90 : 80);
        ck_assert_int_eq(mkdir(path, 0755), 0);
        write_file(path, "forward.cu", small_template);
    }
    snprintf(path, sizeof path, "%s/common", templates);
    ck_assert_int_eq(symlink(FACC_SOURCE_DIR "/templates/common", path), 0);
    unsetenv("FACC_CACHE");
    unsetenv("FACC_NO_JIT");
    unsetenv("FACC_KEEP");
    unsetenv("FACC_LINEINFO");
}

static inline void tear_down(void)
{
    nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (fast[0])
        nftw(fast, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- a context that counts ----------------------------------------------- */

/* Nothing here waits: a child may be forked while a thread that stays behind
 * counts. */
struct counts {
    atomic_int memory, disk, nvrtc, warnings;
    pthread_mutex_t lock; /* of the texts: the last, where one thread asks */
    char key[33], warning[512];
};

static inline void keep_text(struct counts *c, char *to, size_t size,
                             const char *text)
{
    if (pthread_mutex_trylock(&c->lock) != 0)
        return;
    snprintf(to, size, "%s", text);
    pthread_mutex_unlock(&c->lock);
}

static inline void on_compile(void *user, const facc_compile_event *e)
{
    struct counts *c = user;
    c->memory += strcmp(e->source, "memory") == 0;
    c->disk += strcmp(e->source, "disk") == 0;
    c->nvrtc += strcmp(e->source, "nvrtc") == 0;
    keep_text(c, c->key, sizeof c->key, e->key);
}

static inline void on_warning(void *user, const char *message)
{
    struct counts *c = user;
    c->warnings++;
    keep_text(c, c->warning, sizeof c->warning, message);
}

static inline facc_options options(struct counts *c)
{
    facc_options o = FACC_OPTIONS_INIT;
    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    o.cache_dirs = cache;
    o.template_dir = templates;
    o.on_compile = on_compile;
    o.on_warning = on_warning;
    o.user = c;
    return o;
}

static inline facc_ctx *open_ctx(const facc_options *o)
{
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx;
    ck_assert_msg(facc_ctx_create(&ctx, o, &err) == FACC_OK, "%s", err.message);
    return ctx;
}

static inline bool no_nvrtc(const char *test)
{
    struct diag d;
    facc_ctx *ctx = open_ctx(NULL);
    diag_init(&d);
    bool none = !ctx_nvrtc(ctx, &d);
    if (none)
        printf("SKIPPED %s: %s\n", test, d.message);
    facc_ctx_free(ctx);
    return none;
}

static const char causal[] = "q >= kv";

static inline facc_program *program(facc_ctx *ctx, const char *mask)
{
    facc_error err = FACC_ERROR_INIT;
    facc_program *p;
    ck_assert_msg(facc_program_load_expressions(&p, ctx, NULL, mask, NULL, 0,
                                                &err) == FACC_OK,
                  "%s", err.message);
    return p;
}

static inline facc_status get(facc_kernel **k, facc_ctx *ctx, facc_program *p,
                              int arch, facc_error *err)
{
    facc_variant v = FACC_VARIANT_INIT;
    v.dtype = FACC_BF16;
    v.head_dim = 64;
    v.arch = arch;
    v.family = FACC_FAMILY_SM80;
    return facc_kernel_get(k, ctx, p, &v, err);
}

static inline facc_kernel *got(facc_ctx *ctx, facc_program *p, int arch)
{
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k;
    ck_assert_msg(get(&k, ctx, p, arch, &err) == FACC_OK, "%s\n%s", err.message,
                  err.log);
    return k;
}

/* One whole request in a context of its own; true: FACC_OK. */
static inline void once(const facc_options *o, const char *mask)
{
    facc_ctx *ctx = open_ctx(o);
    facc_program *p = program(ctx, mask);
    facc_kernel_free(got(ctx, p, 80));
    facc_program_free(p);
    facc_ctx_free(ctx);
}

static inline void ck_counts(const struct counts *c, int nvrtc, int disk,
                             int memory)
{
    ck_assert_int_eq(c->nvrtc, nvrtc);
    ck_assert_int_eq(c->disk, disk);
    ck_assert_int_eq(c->memory, memory);
}

/* Runs the tests, each with its own directories; main's result. */
static inline int run_tests(const char *name, const TTest *const *tests,
                            size_t n)
{
    return suite_run_tests(name, 120, set_up, tear_down, tests, n);
}

#endif

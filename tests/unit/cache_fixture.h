/* A cache directory of its own for each test, and entries of made-up units. */
#ifndef FACC_TEST_CACHE_FIXTURE_H
#define FACC_TEST_CACHE_FIXTURE_H

#include "runtime/cache.h"

#include <check.h>
#include <dirent.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/facc.h"
#include "tests/unit/suite.h"

static char base[PATH_MAX]; /* of this process: test fixture */

static inline int remove_one(const char *path, const struct stat *st, int flag,
                             struct FTW *at)
{
    (void)st;
    (void)flag;
    (void)at;
    return remove(path);
}

/* In memory where there is such a file system: fsync of a disk takes 10 ms. */
static inline void set_up(void)
{
    const char *dir = getenv("TMPDIR");
    if (!dir)
        dir = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(base, sizeof base, "%s/facc-cache-XXXXXX", dir);
    ck_assert_ptr_nonnull(mkdtemp(base));
}

static inline void tear_down(void)
{
    nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char text[] = "facc unit 1\nfile facc_config.cuh 3\nabc\n";
enum { TEXT_SIZE = sizeof text - 1, CUBIN_SIZE = 5000 };

static inline struct cache_item made(char first)
{
    struct cache_item i;
    memset(&i, 0, sizeof i);
    i.cubin = malloc(CUBIN_SIZE);
    ck_assert_ptr_nonnull(i.cubin);
    memset(i.cubin, first, CUBIN_SIZE);
    memcpy(i.cubin, "\177ELF", 4);
    i.cubin_size = CUBIN_SIZE;
    snprintf(i.meta.compiler, sizeof i.meta.compiler, "NVRTC 13.0.88");
    snprintf(i.meta.summary, sizeof i.meta.summary, "sm80 \"bf16\" x.lua");
    i.meta.registers = 168;
    i.meta.spill_bytes = 12;
    i.meta.compile_us = 654321;
    return i;
}

static inline void write_made(const struct cache *c, const char *key,
                              const char *unit, size_t size, char first)
{
    struct diag d;
    diag_init(&d);
    struct cache_item i = made(first);
    ck_assert_msg(cache_write(c, key, unit, size, &i, &d), "%s", d.message);
    free(i.cubin);
}

static inline enum cache_result lookup(const struct cache *c, const char *key,
                                       char *first)
{
    struct diag d;
    struct cache_item i;
    diag_init(&d);
    memset(&i, 0, sizeof i);
    enum cache_result r = cache_read(c, key, text, TEXT_SIZE, &i, &d);
    if (r == CACHE_HIT) {
        ck_assert_uint_eq(i.cubin_size, CUBIN_SIZE);
        if (first)
            *first = ((char *)i.cubin)[CUBIN_SIZE - 1];
    } else {
        ck_assert_ptr_null(i.cubin);
        ck_assert_int_eq(diag_failed(&d), r != CACHE_MISS);
    }
    free(i.cubin);
    return r;
}

static inline struct cache *opened(enum cache_mode mode, const char *dirs)
{
    struct cache *c = cache_open(dirs, mode);
    ck_assert_ptr_nonnull(c);
    return c;
}

static inline void entry_path(char *out, size_t size, const char *key,
                              const char *file)
{
    int n = snprintf(out, size, "%s/v1/%.2s/%s%s%s", base, key, key,
                     file ? "/" : "", file ? file : "");
    ck_assert_int_lt(n, (int)size);
}

/* Files and directories below `dir`, not counting itself. */
static inline int count_in(const char *dir)
{
    int n = 0;
    DIR *list = opendir(dir);
    if (!list)
        return -1;
    for (struct dirent *e; (e = readdir(list));)
        n += e->d_name[0] != '.';
    closedir(list);
    return n;
}

static inline int count_sub(const char *sub)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/v1/%s", base, sub);
    return count_in(path);
}

static inline long size_of(const char *path)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    return (long)st.st_size;
}

/* What a listing tells: of the last entry the summary. */
struct seen {
    int n, valid;
    int64_t bytes;
    char summary[160];
};

static inline int see(void *user, const struct cache_listing *e)
{
    struct seen *s = user;
    s->n++;
    s->valid += e->valid;
    s->bytes += e->bytes;
    snprintf(s->summary, sizeof s->summary, "%s", e->meta.summary);
    ck_assert_ptr_nonnull(strstr(e->dir, e->key));
    return 0;
}

/* Runs the tests, each with its own directory; main's result. */
static inline int run_tests(const char *name, const TTest *const *tests,
                            size_t n)
{
    return suite_run_tests(name, 120, set_up, tear_down, tests, n);
}

#endif

/* facc_cache_export and facc_cache_import: round trips, tar's own view of the
 * file, layers, archives that are damaged, cut short, hostile or none. */
#include "tests/unit/cache_fixture.h"

#include "runtime/cache_entry.h"
#include "runtime/context.h"

static char archive[PATH_MAX + 32], other[PATH_MAX + 32];

static facc_ctx *ctx_of(const char *dirs, int mode)
{
    facc_options o = FACC_OPTIONS_INIT;
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx;
    o.cache_dirs = dirs;
    o.cache_mode = mode;
    ck_assert_msg(facc_ctx_create(&ctx, &o, &err) == FACC_OK, "%s",
                  err.message);
    return ctx;
}

/* n entries in `dir`; the i-th has cubins of i + 1 in all bytes. */
static void fill(const char *dir, int n)
{
    struct cache *c = opened(CACHE_RW, dir);
    for (int i = 0; i < n; i++) {
        char unit[32], key[33];
        snprintf(unit, sizeof unit, "unit %d", i);
        ck_assert(cache_key(unit, strlen(unit), key));
        write_made(c, key, unit, strlen(unit), (char)(i + 1));
    }
    cache_close(c);
}

static void ck_filled(const char *dir, int n)
{
    struct cache *c = opened(CACHE_RO, dir);
    for (int i = 0; i < n; i++) {
        char unit[32], key[33];
        struct diag d;
        struct cache_item item;
        diag_init(&d);
        snprintf(unit, sizeof unit, "unit %d", i);
        ck_assert(cache_key(unit, strlen(unit), key));
        ck_assert_int_eq(cache_read(c, key, unit, strlen(unit), &item, &d),
                         CACHE_HIT);
        ck_assert_int_eq(((char *)item.cubin)[CUBIN_SIZE - 1], i + 1);
        ck_assert_int_eq(item.meta.registers, 168);
        free(item.cubin);
    }
    cache_close(c);
}

static void paths(void)
{
    snprintf(archive, sizeof archive, "%s/cache.tar", base);
    snprintf(other, sizeof other, "%s/other", base);
}

static void export_all(const char *dirs, int64_t want)
{
    int64_t n = -1;
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx = ctx_of(dirs, 1);
    ck_assert_msg(facc_cache_export(ctx, archive, &n, &err) == FACC_OK, "%s",
                  err.message);
    ck_assert_int_eq(n, want);
    facc_ctx_free(ctx);
}

static facc_status import_all(const char *dirs, const char *file,
                              int64_t got[3], facc_error *err)
{
    facc_ctx *ctx = ctx_of(dirs, 1);
    *err = (facc_error)FACC_ERROR_INIT;
    got[0] = got[1] = got[2] = -1;
    facc_status s =
        facc_cache_import(ctx, file, &got[0], &got[1], &got[2], err);
    facc_ctx_free(ctx);
    return s;
}

static void ck_import(const char *dirs, int64_t added, int64_t present,
                      int64_t refused)
{
    int64_t got[3];
    facc_error err;
    ck_assert_msg(import_all(dirs, archive, got, &err) == FACC_OK, "%s",
                  err.message);
    ck_assert_int_eq(got[0], added);
    ck_assert_int_eq(got[1], present);
    ck_assert_int_eq(got[2], refused);
}

static void ck_refused(const char *file, int64_t added, const char *says)
{
    int64_t got[3];
    facc_error err;
    ck_assert_int_eq(import_all(other, file, got, &err), FACC_ERR_IO);
    ck_assert_msg(strstr(err.message, says), "%s", err.message);
    ck_assert_int_eq(got[0], added);
}

static char *slurp(const char *path, size_t *size)
{
    *size = (size_t)size_of(path);
    char *data = malloc(*size + 1);
    FILE *f = fopen(path, "rb");
    ck_assert(data && f && fread(data, 1, *size, f) == *size);
    fclose(f);
    return data;
}

static void spill(const char *path, const char *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(data, 1, size, f) == size);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(there_and_back)
{
    size_t first, second;
    paths();
    fill(base, 5);
    export_all(base, 5);
    char *a = slurp(archive, &first);
    ck_import(other, 5, 0, 0);
    ck_filled(other, 5);
    ck_import(other, 0, 5, 0);
    export_all(other, 5); /* the same bytes up to the order of entries */
    char *b = slurp(archive, &second);
    ck_assert_uint_eq(first, second);
    free(a);
    free(b);
    char tmp[2 * PATH_MAX];
    snprintf(tmp, sizeof tmp, "%s/v1/tmp", other);
    ck_assert_int_eq(count_in(tmp), 0);
    ck_assert_int_eq(count_in(base), 3); /* v1, cache.tar, other */
}
END_TEST

/* What tar unpacks is a layer; what tar packs can be imported. */
START_TEST(tar_reads_and_writes_it)
{
    char command[6 * PATH_MAX];
    paths();
    fill(base, 3);
    export_all(base, 3);
    snprintf(command, sizeof command,
             "mkdir '%s' && tar -xf '%s' -C '%s' --no-same-owner", other,
             archive, other);
    if (system("tar --version >/dev/null 2>&1") != 0) {
        printf("SKIPPED tar_reads_and_writes_it: no tar\n");
        return;
    }
    ck_assert_int_eq(system(command), 0);
    ck_filled(other, 3);
    snprintf(command, sizeof command, "tar -cf '%s' -C '%s' . && rm -r '%s'",
             archive, other, other);
    ck_assert_int_eq(system(command), 0);
    ck_import(other, 3, 0, 0);
    ck_filled(other, 3);
}
END_TEST

/* Of two layers each key once; damaged entries stay behind. */
START_TEST(layers_and_damage)
{
    char both[3 * PATH_MAX], key[33], path[2 * PATH_MAX];
    paths();
    fill(base, 4);
    fill(other, 6);
    snprintf(both, sizeof both, "%s:%s", base, other);
    export_all(both, 6);
    ck_assert(cache_key("unit 3", 6, key));
    entry_path(path, sizeof path, key, "kernel.cubin");
    ck_assert_int_eq(truncate(path, 100), 0);
    export_all(base, 3);
    export_all(both, 6);
    ck_import(base, 3, 3, 0); /* the damaged one is replaced, two are new */
    ck_filled(base, 6);
}
END_TEST

/* Any byte of an entry changed: that entry is left out, or the archive is none.
 * Whatever is taken is right. */
START_TEST(any_byte)
{
    size_t size;
    int whole = 0, left_out = 0, none = 0;
    paths();
    fill(base, 2);
    export_all(base, 2);
    char *data = slurp(archive, &size);
    facc_ctx *ctx = ctx_of(other, 1);
    for (size_t at = 0; at < size; at += at % 512 < 160 ? 7 : 41) {
        int64_t n[3] = {0, 0, 0}, removed;
        data[at] ^= 0x15;
        spill(archive, data, size);
        data[at] ^= 0x15;
        facc_status s =
            facc_cache_import(ctx, archive, &n[0], &n[1], &n[2], NULL);
        ck_assert(s == FACC_OK || s == FACC_ERR_IO);
        none += s != FACC_OK;
        left_out += s == FACC_OK && n[0] < 2;
        whole += s == FACC_OK && n[0] == 2; /* padding, or the end */
        ck_assert_int_eq(facc_cache_clear(ctx, &removed, NULL), FACC_OK);
        ck_assert_int_eq(removed, n[0]);
    }
    ck_assert(none > 20 && left_out > 20 && whole > 5);
    facc_ctx_free(ctx);
    free(data);
}
END_TEST

START_TEST(cut_short)
{
    size_t size;
    paths();
    fill(base, 2);
    export_all(base, 2);
    char *data = slurp(archive, &size);
    ck_assert_int_eq(size % 512, 0);
    spill(archive, data, size / 2 + 3 * 512 + 100);
    ck_refused(archive, 1, "cut short");
    spill(archive, data, 100);
    ck_refused(archive, 0, "cut short");
    spill(archive, data, size - 1024); /* without the empty blocks */
    ck_import(other, 1, 1, 0);
    spill(archive, "", 0);
    ck_import(other, 0, 0, 0);
    memset(data, 'x', size);
    spill(archive, data, size);
    ck_refused(archive, 0, "no tar archive");
    ck_refused("/nowhere/cache.tar", 0, "No such file");
    free(data);
}
END_TEST

/* Names that are no entries' are passed over: nothing is written outside. */
START_TEST(hostile_names)
{
    char command[6 * PATH_MAX], victim[2 * PATH_MAX];
    paths();
    if (system("tar --version >/dev/null 2>&1") != 0) {
        printf("SKIPPED hostile_names: no tar\n");
        return;
    }
    snprintf(victim, sizeof victim, "%s/victim", base);
    snprintf(
        command, sizeof command,
        "cd '%s' && mkdir -p w/v1/ab && cd w && echo x >../victim && "
        "ln -s ../../../victim v1/ab/abcdefabcdefabcdefabcdefabcdefab && "
        "mkdir -p v1/cd/cdcdefabcdefabcdefabcdefabcdefab && "
        "echo y >v1/cd/cdcdefabcdefabcdefabcdefabcdefab/meta.json && "
        "ln -s /etc/passwd v1/cd/cdcdefabcdefabcdefabcdefabcdefab/unit.txt && "
        "mkdir -p v1/cd/abcdefabcdefabcdefabcdefabcdefab && "
        "echo z >v1/cd/abcdefabcdefabcdefabcdefabcdefab/meta.json && "
        "tar -Pcf '%s' ../victim v1 /etc/hostname",
        base, archive);
    ck_assert_int_eq(system(command), 0);
    ck_import(other, 0, 0, 1);
    ck_assert_int_eq(size_of(victim), 2);
    ck_assert_int_ne(access(other, F_OK), 0); /* not even made */
}
END_TEST

START_TEST(where_it_cannot_be)
{
    facc_error err = FACC_ERROR_INIT;
    int64_t n, got[3];
    paths();
    fill(base, 1);
    export_all(base, 1);
    facc_ctx *ctx = ctx_of(base, 1);
    ck_assert_int_eq(facc_cache_export(ctx, "/nowhere/x.tar", &n, &err),
                     FACC_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.message, "/nowhere/x.tar: No such"));
    ck_assert_int_eq(facc_cache_export(ctx, NULL, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_cache_import(NULL, archive, NULL, NULL, NULL, &err),
                     FACC_ERR_ARGUMENT);
    facc_ctx_free(ctx);
    static const int modes[] = {2, 3};
    for (int i = 0; i < 2; i++) { /* read only, off */
        ctx = ctx_of(base, modes[i]);
        ck_assert_int_eq(
            facc_cache_import(ctx, archive, NULL, NULL, NULL, &err),
            FACC_ERR_IO);
        ck_assert_ptr_nonnull(strstr(err.message, "FACC_CACHE_DIR"));
        facc_ctx_free(ctx);
    }
    ck_assert_int_eq(import_all("/proc/cannot", archive, got, &err),
                     FACC_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.message, "/proc/cannot"));
    ck_assert_int_eq(got[0], 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        there_and_back, tar_reads_and_writes_it, layers_and_damage, any_byte,
        cut_short,      hostile_names,           where_it_cannot_be};
    return run_tests("cache_archive", tests, sizeof tests / sizeof tests[0]);
}

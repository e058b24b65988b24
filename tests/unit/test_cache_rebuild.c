/* facc_cache_rebuild: what is compiled again from its own unit, byte for byte;
 * what is not, and why; layers; what forbids it. By an NVRTC of our own. */
#include "tests/unit/fake_nvrtc.h"
#include "tests/unit/kernel_fixture.h"

#include "runtime/cache.h"
#include "runtime/cache_entry.h"

static char nvrtc[PATH_MAX + 32], layer[PATH_MAX + 32];
static char key[33]; /* of the kernel that make_entry got */

struct told {
    int n, outcome, set_aside;
    char key[33], summary[160], why[1024];
};

static int tell(void *user, const facc_cache_rebuilt *e)
{
    struct told *t = user;
    t->n++;
    t->outcome = e->outcome;
    t->set_aside = e->set_aside;
    snprintf(t->key, sizeof t->key, "%s", e->key);
    snprintf(t->summary, sizeof t->summary, "%s", e->summary);
    snprintf(t->why, sizeof t->why, "%s", e->why);
    return 0;
}

static facc_options own(struct counts *c)
{
    facc_options o = options(c);
    o.nvrtc_path = nvrtc;
    return o;
}

/* One entry in the cache. */
static void make_entry(void)
{
    struct counts c;
    ck_assert_msg(make_fake_nvrtc(base, nvrtc, sizeof nvrtc), "no C compiler");
    facc_options o = own(&c);
    once(&o, causal);
    ck_counts(&c, 1, 0, 0);
    snprintf(key, sizeof key, "%s", c.key);
}

static void rebuild_with(const facc_options *o, struct told *t)
{
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx = open_ctx(o);
    memset(t, 0, sizeof *t);
    ck_assert_msg(facc_cache_rebuild(ctx, 2, tell, t, &err) == FACC_OK, "%s",
                  err.message);
    facc_ctx_free(ctx);
}

static void rebuild(struct told *t)
{
    struct counts c;
    facc_options o = own(&c);
    rebuild_with(&o, t);
}

/* Of the entry below `dir`. */
static FILE *open_file(const char *dir, const char *name, const char *mode)
{
    char path[3 * PATH_MAX];
    snprintf(path, sizeof path, "%s/v1/%.2s/%s/%s", dir, key, key, name);
    FILE *f = fopen(path, mode);
    ck_assert_msg(f != NULL, "%s", path);
    return f;
}

static void flip(const char *dir, const char *name, long at)
{
    FILE *f = open_file(dir, name, "r+b");
    fseek(f, at, SEEK_SET);
    int byte = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(byte ^ 1, f);
    fclose(f);
}

static size_t read_cubin(const char *dir, char *to, size_t size)
{
    FILE *f = open_file(dir, "kernel.cubin", "rb");
    size_t n = fread(to, 1, size, f);
    fclose(f);
    return n;
}

static void ck_found(const char *dirs)
{
    struct counts c;
    facc_options o = own(&c);
    o.cache_dirs = dirs;
    o.no_jit = 1;
    once(&o, causal);
    ck_counts(&c, 0, 1, 0);
    ck_assert_int_eq(c.warnings, 0);
}

START_TEST(valid_ones_stay)
{
    struct told t;
    make_entry();
    rebuild(&t);
    ck_assert_int_eq(t.n, 1);
    ck_assert_int_eq(t.outcome, FACC_REBUILD_KEPT);
    ck_assert_str_eq(t.why, "");
    ck_assert_str_eq(t.key, key);
}
END_TEST

START_TEST(the_same_bytes_again)
{
    static const char *const names[] = {"kernel.cubin", "meta.json"};
    char before[8192], after[8192];
    struct told t;
    make_entry();
    const size_t n = read_cubin(cache, before, sizeof before);
    for (int i = 0; i < 2; i++) {
        flip(cache, names[i], 70);
        rebuild(&t);
        ck_assert_int_eq(t.outcome, FACC_REBUILD_MADE);
        ck_assert_int_eq(t.set_aside, 1);
        ck_assert_ptr_nonnull(strstr(t.why, names[i]));
        ck_assert_str_eq(t.summary, i ? "sm80/forward.cu sm_80"
                                      : "sm80 bf16 64/64 sm_80 expression");
        ck_assert_uint_eq(read_cubin(cache, after, sizeof after), n);
        ck_assert_int_eq(memcmp(before, after, n), 0);
        ck_found(cache);
    }
}
END_TEST

START_TEST(without_a_unit)
{
    struct told t;
    make_entry();
    flip(cache, "unit.txt", 200);
    rebuild(&t);
    ck_assert_int_eq(t.outcome, FACC_REBUILD_LOST);
    ck_assert_int_eq(t.set_aside, 1);
    ck_assert_ptr_nonnull(strstr(t.why, "without unit.txt"));
    rebuild(&t);
    ck_assert_int_eq(t.n, 0); /* out of the way */
}
END_TEST

/* Another facc's templates: its entries are its own. */
START_TEST(of_another_build)
{
    char dir[2 * PATH_MAX];
    struct told t;
    make_entry();
    snprintf(dir, sizeof dir, "%s/sm80", templates);
    write_file(dir, "forward.cu", "#include \"facc_variant.cuh\"\n");
    flip(cache, "kernel.cubin", 70);
    rebuild(&t);
    ck_assert_int_eq(t.outcome, FACC_REBUILD_LOST);
    ck_assert_ptr_nonnull(strstr(t.why, "another build of facc made it"));
}
END_TEST

/* Puts the entry back with other text or facts. */
static void alter(const char *unit, const char *compiler)
{
    struct entry_file f[ENTRY_FILES];
    struct cache_item item;
    struct diag d;
    char why[ENTRY_WHY];
    memset(&item, 0, sizeof item);
    diag_init(&d);
    ck_assert_int_eq(entry_load(cache, key, f, &item.meta, why), ENTRY_OK);
    const char *text = unit ? unit : f[ENTRY_UNIT].data;
    item.cubin = f[ENTRY_CUBIN].data;
    item.cubin_size = f[ENTRY_CUBIN].size;
    snprintf(item.meta.compiler, sizeof item.meta.compiler, "%s", compiler);
    if (unit)
        ck_assert(entry_retire(cache, key, true) &&
                  cache_key(text, strlen(text), key));
    ck_assert(entry_replace(cache, key, text, strlen(text), &item, &d));
    entry_files_free(f);
}

START_TEST(of_another_nvrtc)
{
    struct told t;
    make_entry();
    alter(NULL, "NVRTC 12.4.99");
    rebuild(&t);
    ck_assert_int_eq(t.outcome, FACC_REBUILD_MADE);
    ck_assert_int_eq(t.set_aside, 0);
    ck_assert_str_eq(t.why, "NVRTC 12.4.99 made it");
    rebuild(&t);
    ck_assert_int_eq(t.outcome, FACC_REBUILD_KEPT);
    ck_found(cache);
}
END_TEST

START_TEST(of_another_version)
{
    static const char unit[] = "facc unit 1\nversion 0.0.9\ntemplates 00\n"
                               "entry facc_forward\n";
    struct told t;
    make_entry();
    alter(unit, "NVRTC 12.4.99");
    rebuild(&t);
    ck_assert_int_eq(t.outcome, FACC_REBUILD_KEPT);
    ck_assert_ptr_nonnull(strstr(t.why, "it stays: facc 0.0.9 made it"));
    flip(cache, "kernel.cubin", 70);
    rebuild(&t);
    ck_assert_int_eq(t.outcome, FACC_REBUILD_LOST);
    ck_assert_ptr_nonnull(strstr(t.why, "facc 0.0.9 made it"));
}
END_TEST

static int count(void *user, const facc_cache_rebuilt *e)
{
    int *n = user;
    n[e->outcome]++;
    ck_assert_int_eq(e->set_aside,
                     e->why[0] && strncmp(e->dir, layer, strlen(layer)) != 0);
    return 0;
}

static void ck_outcomes(const char *dirs, int kept, int made, int elsewhere)
{
    struct counts c;
    facc_error err = FACC_ERROR_INIT;
    int n[4] = {0};
    facc_options o = own(&c);
    o.cache_dirs = dirs;
    facc_ctx *ctx = open_ctx(&o);
    ck_assert_int_eq(facc_cache_rebuild(ctx, 1, count, n, &err), FACC_OK);
    facc_ctx_free(ctx);
    ck_assert_int_eq(n[FACC_REBUILD_KEPT], kept);
    ck_assert_int_eq(n[FACC_REBUILD_MADE], made);
    ck_assert_int_eq(n[FACC_REBUILD_ELSEWHERE], elsewhere);
    ck_assert_int_eq(n[FACC_REBUILD_LOST], 0);
    ck_found(dirs);
}

START_TEST(layers)
{
    char dirs[4 * PATH_MAX], command[8 * PATH_MAX];
    make_entry();
    snprintf(layer, sizeof layer, "%s/layer", base);
    snprintf(dirs, sizeof dirs, "%s:%s", cache, layer);
    snprintf(command, sizeof command, "cp -r '%s' '%s'", cache, layer);
    ck_assert_int_eq(system(command), 0);
    ck_outcomes(dirs, 2, 0, 0);
    flip(cache, "unit.txt", 70); /* the layer has it */
    ck_outcomes(dirs, 1, 0, 1);
    ck_outcomes(dirs, 1, 0, 0); /* and it alone now */
    flip(layer, "kernel.cubin", 70);
    ck_outcomes(dirs, 0, 1, 0);
    ck_found(cache);
    ck_outcomes(dirs, 1, 0, 1); /* still damaged there: no loss */
}
END_TEST

static facc_status refused(const facc_options *o, const char *want)
{
    struct told t = {0};
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx = open_ctx(o);
    facc_status s = facc_cache_rebuild(ctx, 1, tell, &t, &err);
    ck_assert_int_eq(t.n, 0);
    ck_assert_msg(strstr(err.message, want) != NULL, "%s", err.message);
    facc_ctx_free(ctx);
    return s;
}

/* Nothing is touched: the damaged entry is where it was. */
START_TEST(what_forbids_it)
{
    struct counts c;
    struct told t;
    make_entry();
    flip(cache, "kernel.cubin", 70);
    facc_options o = own(&c);
    o.no_jit = 1;
    ck_assert_int_eq(refused(&o, "FACC_NO_JIT"), FACC_ERR_NO_JIT);
    o = own(&c);
    o.nvrtc_path = "/nonexistent";
    ck_assert_int_eq(refused(&o, "does not exist"), FACC_ERR_NO_NVRTC);
    o = own(&c);
    o.cache_mode = 2; /* ro */
    ck_assert_int_eq(refused(&o, "FACC_CACHE_DIR"), FACC_ERR_IO);
    rebuild(&t);
    ck_assert_int_eq(t.outcome, FACC_REBUILD_MADE);
}
END_TEST

static int stop(void *user, const facc_cache_rebuilt *e)
{
    (void)e;
    ++*(int *)user;
    return 1;
}

START_TEST(stops_when_told)
{
    struct counts c;
    facc_error err = FACC_ERROR_INIT;
    int n = 0;
    make_entry();
    facc_options o = own(&c);
    for (int i = 0; i < 5; i++) {
        char mask[32];
        snprintf(mask, sizeof mask, "q >= kv + %d", i + 1);
        once(&o, mask);
    }
    facc_ctx *ctx = open_ctx(&o);
    ck_assert_int_eq(facc_cache_rebuild(ctx, 3, stop, &n, &err), FACC_OK);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(facc_cache_rebuild(NULL, 1, stop, &n, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_cache_rebuild(ctx, 1, NULL, &n, &err),
                     FACC_ERR_ARGUMENT);
    facc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        valid_ones_stay,  the_same_bytes_again, without_a_unit,
        of_another_build, of_another_nvrtc,     of_another_version,
        layers,           what_forbids_it,      stops_when_told};
    return run_tests("cache_rebuild", tests, sizeof tests / sizeof *tests);
}

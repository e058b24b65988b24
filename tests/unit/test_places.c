/* Odd surroundings: a locale whose decimals have commas, paths with spaces,
 * UTF-8 and quotes, a relative cache directory. Texts, keys, entries and
 * results are the same everywhere. NVRTC is made up. */
#include "tests/unit/fake_nvrtc.h"
#include "tests/unit/kernel_fixture.h"

#include <locale.h>

static char fake[PATH_MAX + 64];

static void set_up_places(void)
{
    char dir[PATH_MAX + 32];
    setlocale(LC_ALL, "C");
    set_up();
    snprintf(dir, sizeof dir, "%s/n v \xc3\xbc\xe6\xbc\xa2", base);
    ck_assert_int_eq(mkdir(dir, 0755), 0);
    ck_assert_msg(make_fake_nvrtc(dir, fake, sizeof fake), "no C compiler");
}

/* ---- a decimal comma
 * ---------------------------------------------------------- */

/* German, made here where the system has it not. False: it cannot be. */
static bool comma_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8",
                                        "fr_FR.UTF-8", "de_DE"};
    char command[3 * PATH_MAX], half[16];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (setlocale(LC_ALL, names[i]))
            break;
    snprintf(half, sizeof half, "%.1f", 0.5);
    if (strcmp(half, "0,5") == 0)
        return true;
    snprintf(command, sizeof command,
             "localedef -c -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1",
             base);
    setenv("LOCPATH", base, 1);
    (void)!system(command);
    (void)setlocale(LC_ALL, "de_DE.UTF-8");
    snprintf(half, sizeof half, "%.1f", 0.5);
    return strcmp(half, "0,5") == 0;
}

/* Numbers of all kinds, in the script and in what is made of it. */
static const char lua[] =
    "local facc = require 'facc'\n"
    "local gain = facc.param('gain', 'f32')\n"
    "local third, tiny = tonumber('0.3333333333333333'), 1.5e-7\n"
    "return facc.attention {\n"
    "  score_mod = function(s, b, h, q, kv)\n"
    "    return facc.tanh(s * 0.0625) * 16.25 + third * (kv - q) + tiny * "
    "gain\n"
    "  end,\n"
    "  mask_mod = function(b, h, q, kv) return q >= kv and q - kv < 1e3 end,\n"
    "}\n";

struct outcome {
    char *text[8];
    int n;
    char key[33], manifest[8192];
    float o[4 * 16];
};

static void drop(struct outcome *x)
{
    while (x->n > 0)
        facc_string_free(x->text[--x->n]);
}

static facc_program *load(facc_ctx *ctx)
{
    facc_error err = FACC_ERROR_INIT;
    facc_program *p;
    ck_assert_msg(facc_program_load_string(&p, ctx, "numbers.lua", lua,
                                           sizeof lua - 1, &err) == FACC_OK,
                  "%s", err.message);
    return p;
}

static void take_texts(facc_ctx *ctx, facc_program *p, struct outcome *x)
{
    static const facc_dump dumps[] = {FACC_DUMP_IR, FACC_DUMP_VARIANT,
                                      FACC_DUMP_CONFIG, FACC_DUMP_FLAT};
    facc_error err = FACC_ERROR_INIT;
    facc_variant v = FACC_VARIANT_INIT;
    v.dtype = FACC_BF16;
    v.head_dim = 64;
    for (v.arch = 80; v.arch <= 90; v.arch += 10)
        for (int i = v.arch == 80 ? 0 : 1; i < (v.arch == 80 ? 4 : 2); i++)
            ck_assert_msg(facc_program_dump(&x->text[x->n++], ctx, p, &v,
                                            dumps[i], &err) == FACC_OK,
                          "%s", err.message);
    v.arch = 90;
    ck_assert_int_eq(
        facc_program_explain(&x->text[x->n++], ctx, p, &v, 1, &err), FACC_OK);
    ck_assert_int_eq(
        facc_program_explain(&x->text[x->n++], ctx, p, &v, 0, &err), FACC_OK);
}

static void attend(facc_ctx *ctx, facc_program *p, struct outcome *x)
{
    float q[4 * 16], k[8 * 16];
    facc_scalar_value gain = {.f = 2.5};
    facc_error err = FACC_ERROR_INIT;
    facc_args a = FACC_ARGS_INIT;
    for (int i = 0; i < 64; i++)
        q[i] = 0.01f * (float)(i % 13 - 6);
    for (int i = 0; i < 128; i++)
        k[i] = 0.02f * (float)(i % 11 - 5);
    a.q = (facc_tensor){q, FACC_F32, 4, {1, 1, 4, 16}, {64, 64, 16, 1}};
    a.k = (facc_tensor){k, FACC_F32, 4, {1, 1, 8, 16}, {128, 128, 16, 1}};
    a.v = a.k;
    a.o = a.q;
    a.o.data = x->o;
    a.params = &gain;
    a.n_params = 1;
    ck_assert_msg(facc_cpu_attention(ctx, p, &a, NULL, &err) == FACC_OK, "%s",
                  err.message);
}

static void read_manifest(const char *path, struct outcome *x)
{
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    x->manifest[fread(x->manifest, 1, sizeof x->manifest - 1, f)] = '\0';
    fclose(f);
}

/* All of it; where the kernel must come from. */
static void run_all(struct outcome *x, const char *source)
{
    struct counts c;
    char manifest[PATH_MAX + 32];
    facc_options o = options(&c);
    memset(x, 0, sizeof *x);
    snprintf(manifest, sizeof manifest, "%s/m.jsonl", base);
    o.nvrtc_path = fake;
    o.template_dir = NULL;
    o.manifest = manifest;
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = load(ctx);
    facc_kernel_free(got(ctx, p, 80));
    ck_assert_int_eq(c.nvrtc, strcmp(source, "nvrtc") == 0);
    ck_assert_int_eq(c.disk, strcmp(source, "disk") == 0);
    memcpy(x->key, c.key, sizeof x->key);
    take_texts(ctx, p, x);
    attend(ctx, p, x);
    ck_assert_int_eq(c.warnings, 0);
    facc_program_free(p);
    facc_ctx_free(ctx);
    read_manifest(manifest, x);
}

START_TEST(decimal_comma)
{
    struct outcome c, comma, again;
    run_all(&c, "nvrtc");
    if (!comma_locale()) {
        printf("SKIPPED decimal_comma: no such locale, and none can be made "
               "(package locales)\n");
        drop(&c);
        return;
    }
    run_all(&comma, "disk"); /* the same key, and meta.json is understood */
    ck_assert_str_eq(c.key, comma.key);
    ck_assert_str_eq(c.manifest, comma.manifest); /* and no second line */
    ck_assert_int_eq(c.n, comma.n);
    for (int i = 0; i < c.n; i++)
        ck_assert_str_eq(c.text[i], comma.text[i]);
    ck_assert_int_eq(memcmp(c.o, comma.o, sizeof c.o), 0);
    drop(&c);
    drop(&comma);
    nftw(cache, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    run_all(&again, "nvrtc"); /* entries written with commas around */
    setlocale(LC_ALL, "C");
    run_all(&comma, "disk");
    ck_assert_str_eq(again.key, comma.key);
    drop(&again);
    drop(&comma);
}
END_TEST

/* ---- paths
 * ---------------------------------------------------------------------- */

static const char *const names[] = {
    "with space",         "\xc3\xbc\xe6\xbc\xa2\xe5\xad\x97",
    "quote\"back\\slash", "new\nline",
    "\xe9 latin-1",       "-rf"};
enum { N_NAMES = sizeof names / sizeof names[0] };

/* Cache, manifest, kept files, scripts and templates below it. */
static void use(const char *dir)
{
    struct counts c;
    facc_error err = FACC_ERROR_INIT;
    char keep[2 * PATH_MAX], file[2 * PATH_MAX], manifest[2 * PATH_MAX],
        cache_dir[2 * PATH_MAX], archive[2 * PATH_MAX];
    int64_t n = 0, present = 0;
    facc_program *p;
    snprintf(keep, sizeof keep, "%s/keep", dir);
    snprintf(manifest, sizeof manifest, "%s/m.jsonl", dir);
    snprintf(file, sizeof file, "%s/x.lua", dir);
    snprintf(cache_dir, sizeof cache_dir, "%s/cache", dir);
    snprintf(archive, sizeof archive, "%s/all.tar", dir);
    write_file(dir, "x.lua",
               "return require'facc'.attention "
               "{ mask_mod = 'q >= kv' }\n");
    setenv("FACC_KEEP", keep, 1);
    for (int round = 0; round < 2; round++) {
        facc_options o = options(&c);
        o.nvrtc_path = fake;
        o.cache_dirs = cache_dir;
        o.manifest = manifest;
        o.template_dir = NULL;
        facc_ctx *ctx = open_ctx(&o);
        ck_assert_msg(facc_program_load_file(&p, ctx, file, &err) == FACC_OK,
                      "%s", err.message);
        facc_kernel_free(got(ctx, p, 80));
        ck_counts(&c, !round, round, 0);
        ck_assert_msg(c.warnings == 0, "%s", c.warning);
        ck_assert_msg(facc_cache_export(ctx, archive, &n, &err) == FACC_OK,
                      "%s", err.message);
        ck_assert_int_eq(n, 1);
        ck_assert_msg(facc_cache_import(ctx, archive, NULL, &present, NULL,
                                        &err) == FACC_OK,
                      "%s", err.message);
        ck_assert_int_eq(present, 1);
        facc_program_free(p);
        facc_ctx_free(ctx);
    }
    snprintf(file, sizeof file, "%.4096s/%s.cu", keep, c.key);
    ck_assert_msg(access(file, R_OK) == 0, "%s", file);
    ck_assert_int_eq(access(manifest, R_OK), 0);
    unsetenv("FACC_KEEP");
}

START_TEST(odd_paths)
{
    for (int i = 0; i < N_NAMES; i++) {
        char dir[PATH_MAX + 64];
        snprintf(dir, sizeof dir, "%s/%s", fast[0] ? fast : base, names[i]);
        ck_assert_int_eq(mkdir(dir, 0755), 0);
        use(dir);
    }
}
END_TEST

/* A relative directory is that of the moment when the context was made. */
START_TEST(relative_directory)
{
    struct counts c;
    char path[2 * PATH_MAX];
    facc_options o = options(&c);
    o.nvrtc_path = fake;
    o.template_dir = NULL;
    o.cache_dirs = "rel cache";
    ck_assert_int_eq(chdir(base), 0);
    facc_ctx *ctx = open_ctx(&o);
    ck_assert_int_eq(chdir("/"), 0);
    facc_program *p = program(ctx, causal);
    facc_kernel_free(got(ctx, p, 80));
    facc_program_free(p);
    facc_ctx_free(ctx);
    ck_assert_int_eq(c.warnings, 0);
    snprintf(path, sizeof path, "%s/rel cache/v1/%.2s/%s/meta.json", base,
             c.key, c.key);
    ck_assert_int_eq(access(path, R_OK), 0);
}
END_TEST

/* HOME unset: from memory, with one warning, and no file anywhere. */
START_TEST(no_home)
{
    struct counts c;
    facc_options o = options(&c);
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("FACC_CACHE_DIR");
    o.nvrtc_path = fake;
    o.template_dir = NULL;
    o.cache_dirs = NULL;
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    for (int i = 0; i < 3; i++) {
        facc_kernel_free(got(ctx, p, 80));
        facc_kernel_free(got(ctx, p, 89));
    }
    ck_counts(&c, 2, 0, 4);
    ck_assert_int_eq(c.warnings, 1);
    ck_assert_ptr_nonnull(strstr(c.warning, "memory only"));
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {decimal_comma, odd_paths, relative_directory,
                                  no_home};
    return suite_run_tests("places", 120, set_up_places, tear_down, tests,
                           sizeof tests / sizeof tests[0]);
}

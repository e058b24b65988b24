/* Manifests: what is recorded, once, by several threads and processes; what is
 * read back; files that are damaged or cannot be written. Nothing is compiled:
 * kernels are recorded whether they could be had or not. */
#include "tests/unit/kernel_fixture.h"

#include <sys/wait.h>

static char path[PATH_MAX + 32];

static facc_ctx *recording(struct counts *c, const char *file)
{
    facc_options o = options(c);
    o.no_jit = 1;
    o.manifest = file;
    return open_ctx(&o);
}

static void ask(facc_ctx *ctx, facc_program *p, const facc_variant *v)
{
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k;
    ck_assert_int_eq(facc_kernel_get(&k, ctx, p, v, &err), FACC_ERR_NO_JIT);
}

static facc_variant plain(int arch)
{
    facc_variant v = FACC_VARIANT_INIT;
    v.dtype = FACC_BF16;
    v.head_dim = 64;
    v.arch = arch;
    return v;
}

struct read_back {
    int n, stop_at;
    facc_variant variant[64];
    char program[64][64], text[64][256];
};

static int keep_entry(void *user, const facc_manifest_entry *e)
{
    struct read_back *r = user;
    ck_assert_int_lt(r->n, 64);
    ck_assert_uint_eq(e->text_size, strlen(e->text));
    r->variant[r->n] = e->variant;
    snprintf(r->program[r->n], 64, "%s", e->program);
    snprintf(r->text[r->n++], 256, "%s", e->text);
    return r->n == r->stop_at;
}

static struct read_back read_all(facc_ctx *ctx)
{
    facc_error err = FACC_ERROR_INIT;
    struct read_back r = {.n = 0};
    ck_assert_msg(facc_manifest_read(ctx, path, keep_entry, &r, &err) ==
                      FACC_OK,
                  "%s", err.message);
    return r;
}

static int lines_in(const char *file)
{
    FILE *f = fopen(file, "r");
    int n = 0;
    ck_assert_ptr_nonnull(f);
    for (int c; (c = fgetc(f)) != EOF;)
        n += c == '\n';
    fclose(f);
    return n;
}

static void add_bytes(const char *bytes)
{
    FILE *f = fopen(path, "a");
    ck_assert(f && fputs(bytes, f) >= 0);
    fclose(f);
}

static void set_path(void)
{
    snprintf(path, sizeof path, "%s/m \xc3\xbc.jsonl", base);
}

/* Every field of a variant, and a program's text with all that JSON escapes. */
START_TEST(round_trip)
{
    struct counts c;
    facc_error err = FACC_ERROR_INIT;
    facc_program *p;
    static const char lua[] =
        "-- \"quoted\" \\ \t\x01 \xc3\xbc\n"
        "return require 'facc'.attention { mask_mod = 'q >= kv' }\n";
    set_path();
    facc_ctx *ctx = recording(&c, path);
    ck_assert_int_eq(facc_program_load_string(&p, ctx, "dir x/\xc3\xbc \"a.lua",
                                              lua, sizeof lua - 1, &err),
                     FACC_OK);
    facc_variant v = plain(90);
    v.dtype = FACC_F16;
    v.out_dtype = FACC_F32;
    v.head_dim = 192;
    v.head_dim_v = 128;
    v.block_mask = v.packed = 0;
    v.sinks = 1;
    v.check_bounds = 1;
    v.layout = FACC_LAYOUT_ANY;
    v.family = FACC_FAMILY_SM80;
    ask(ctx, p, &v);
    facc_variant w = plain(80);
    w.packed = 1;
    ask(ctx, p, &w);
    facc_variant e = plain(90); /* its template is not in the fixture's */
    facc_kernel *k;
    e.dtype = FACC_E4M3;
    e.out_dtype = FACC_F16;
    e.head_dim_v = 64;
    e.block_scales = e.centred_v = e.transposes_v = e.exact_peaks = 1;
    ck_assert_int_eq(facc_kernel_get(&k, ctx, p, &e, &err), FACC_ERR_IO);
    struct read_back r = read_all(ctx);
    ck_assert_int_eq(r.n, 3);
    ck_assert_int_eq(memcmp(&r.variant[0], &v, sizeof v), 0);
    w.head_dim_v = 64; /* told in full */
    ck_assert_int_eq(memcmp(&r.variant[1], &w, sizeof w), 0);
    ck_assert_int_eq(memcmp(&r.variant[2], &e, sizeof e), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(r.program[i], "dir x/\xc3\xbc \"a.lua");
        ck_assert_str_eq(r.text[i], lua);
    }
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

/* What says the same is one line, in this run and the next. */
START_TEST(once_each)
{
    struct counts c;
    set_path();
    for (int run = 0; run < 3; run++) {
        facc_ctx *ctx = recording(&c, path);
        facc_program *p = program(ctx, causal), *q = program(ctx, causal);
        facc_variant v = plain(80), same = plain(80), other = plain(89);
        same.head_dim_v = 64;
        same.out_dtype = FACC_BF16;
        for (int i = 0; i < 3; i++) {
            ask(ctx, p, &v);
            ask(ctx, q, &same);
            ask(ctx, p, &other);
        }
        facc_program_free(p);
        facc_program_free(q);
        ck_assert_int_eq(c.warnings, 0);
        facc_ctx_free(ctx);
        ck_assert_int_eq(lines_in(path), 2);
    }
}
END_TEST

/* An option wins over the environment; what is refused is not recorded. */
START_TEST(environment_and_refusals)
{
    struct counts c;
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k;
    set_path();
    setenv("FACC_MANIFEST", path, 1);
    facc_ctx *ctx = recording(&c, NULL);
    facc_program *p = program(ctx, causal);
    facc_variant v = plain(80);
    v.head_dim = 60;
    ck_assert_int_eq(facc_kernel_get(&k, ctx, p, &v, &err),
                     FACC_ERR_UNSUPPORTED);
    ck_assert_int_ne(access(path, F_OK), 0);
    v = plain(80);
    ask(ctx, p, &v);
    ck_assert_int_eq(lines_in(path), 1);
    facc_program_free(p);
    facc_ctx_free(ctx);
    ctx = recording(&c, "");
    p = program(ctx, causal);
    v = plain(89);
    ask(ctx, p, &v);
    ck_assert_int_eq(lines_in(path), 1);
    facc_program_free(p);
    facc_ctx_free(ctx);
    unsetenv("FACC_MANIFEST");
}
END_TEST

START_TEST(several_processes)
{
    enum { N = 6 };
    pid_t pid[N];
    struct counts c;
    set_path();
    for (int i = 0; i < N; i++)
        if ((pid[i] = fork()) == 0) {
            facc_ctx *ctx = recording(&c, path);
            facc_program *p = program(ctx, causal);
            for (int dim = 8; dim <= 256; dim += 8) {
                facc_variant v = plain(80);
                v.head_dim = dim;
                ask(ctx, p, &v);
            }
            _exit(c.warnings);
        }
    for (int i = 0; i < N; i++) {
        int status;
        ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
        ck_assert_int_eq(status, 0);
    }
    facc_ctx *ctx = recording(&c, NULL);
    struct read_back r = read_all(ctx); /* doubles are passed over */
    ck_assert_int_eq(r.n, 32);
    ck_assert_int_eq(c.warnings, 0);
    facc_ctx_free(ctx);
}
END_TEST

/* A writer that was killed, lines of others, a later facc's field. */
START_TEST(damaged_lines)
{
    struct counts c;
    facc_error err = FACC_ERROR_INIT;
    struct read_back r = {.stop_at = 1};
    set_path();
    add_bytes("{\"program\":\"x.lua\",\"dtype\":\"bf1");
    facc_ctx *ctx = recording(&c, path);
    facc_program *p = program(ctx, causal);
    ck_assert_int_eq(facc_manifest_read(ctx, path, keep_entry, &r, &err),
                     FACC_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.message, "is no manifest"));
    facc_variant v = plain(80), w = plain(89);
    ask(ctx, p, &v); /* on a line of its own */
    add_bytes("\n[]\n{}\n\n{\"program\":\"y.lua\",\"text\":\"z\",\"dtype\":"
              "\"bf16\",\"out_dtype\":\"\",\"head_dim\":1e9}\n"
              "{\"program\":\"y.lua\",\"text\":\"z\",\"dtype\":\"f16\","
              "\"out_dtype\":\"\",\"head_dim\":64,\"arch\":90,\"new\":7}\n");
    ask(ctx, p, &w);
    r = read_all(ctx);
    ck_assert_int_eq(r.n, 3);
    ck_assert_str_eq(r.text[1], "z");
    ck_assert_int_eq(r.variant[1].arch, 90);
    ck_assert_int_eq(c.warnings, 1);
    ck_assert_ptr_nonnull(strstr(c.warning, "no line of a manifest"));
    r = (struct read_back){.stop_at = 2};
    ck_assert_int_eq(facc_manifest_read(ctx, path, keep_entry, &r, &err),
                     FACC_OK);
    ck_assert_int_eq(r.n, 2);
    ck_assert_int_eq(
        facc_manifest_read(ctx, "/nowhere/m", keep_entry, &r, &err),
        FACC_ERR_IO);
    ck_assert_int_eq(facc_manifest_read(ctx, base, keep_entry, &r, &err),
                     FACC_ERR_IO); /* a directory */
    ck_assert_int_eq(facc_manifest_read(ctx, path, NULL, &r, &err),
                     FACC_ERR_ARGUMENT);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

/* The run goes on as if there were no manifest, with one warning. */
START_TEST(cannot_be_written)
{
    static const char *const files[] = {"/nowhere/m.jsonl", "/dev/full", NULL};
    for (int i = 0; i < 3; i++) {
        struct counts c;
        facc_ctx *ctx = recording(&c, files[i] ? files[i] : base);
        facc_program *p = program(ctx, causal);
        for (int arch = 80; arch < 100; arch += 9) {
            facc_variant v = plain(arch);
            if (arch == 80 || arch == 89)
                ask(ctx, p, &v);
        }
        ck_assert_int_eq(c.warnings, 1);
        ck_assert_msg(strstr(c.warning, "the manifest") &&
                          strstr(c.warning, "cannot be written: "),
                      "%s", c.warning);
        facc_program_free(p);
        facc_ctx_free(ctx);
    }
}
END_TEST

struct quantizers {
    int n, stop_at;
    facc_quantize_variant v[8];
};

static int keep_quantizer(void *user, const facc_quantize_variant *v)
{
    struct quantizers *r = user;
    ck_assert_int_lt(r->n, 8);
    r->v[r->n++] = *v;
    return r->n == r->stop_at;
}

/* Lines of their own among those of kernels; each reader passes over the
 * other's. */
START_TEST(quantizers)
{
    struct counts c;
    facc_error err = FACC_ERROR_INIT;
    facc_quantizer *q;
    struct quantizers r = {.n = 0};
    facc_quantize_variant v = FACC_QUANTIZE_VARIANT_INIT, w;
    set_path();
    facc_ctx *ctx = recording(&c, path);
    v.from = FACC_F16;
    v.to = FACC_E5M2;
    v.head_dim = 64;
    v.arch = 80; /* refused: no line */
    ck_assert_int_eq(facc_quantizer_get(&q, ctx, &v, &err),
                     FACC_ERR_UNSUPPORTED);
    ck_assert_int_ne(access(path, F_OK), 0);
    v.arch = 89;
    v.hadamard = v.image = 1;
    w = v;
    w.hadamard = 7; /* the same */
    ck_assert_int_eq(facc_quantizer_get(&q, ctx, &v, &err), FACC_ERR_NO_JIT);
    ck_assert_int_eq(facc_quantizer_get(&q, ctx, &w, &err), FACC_ERR_NO_JIT);
    facc_program *p = program(ctx, causal);
    facc_variant kernel = plain(80);
    ask(ctx, p, &kernel);
    w.hadamard = 0;
    w.mean = 1;
    ck_assert_int_eq(facc_quantizer_get(&q, ctx, &w, &err), FACC_ERR_NO_JIT);
    ck_assert_int_eq(lines_in(path), 3);
    ck_assert_int_eq(read_all(ctx).n, 1);
    add_bytes("{\"from\":\"bf16\",\"head_dim\":64,\"arch\":90}\n");
    ck_assert_int_eq(c.warnings, 0);
    ck_assert_int_eq(
        facc_manifest_read_quantizers(ctx, path, keep_quantizer, &r, &err),
        FACC_OK);
    ck_assert_int_eq(c.warnings, 1);
    ck_assert_int_eq(r.n, 2);
    ck_assert_int_eq(memcmp(&r.v[0], &v, sizeof v), 0);
    ck_assert_int_eq(memcmp(&r.v[1], &w, sizeof w), 0);
    r = (struct quantizers){.stop_at = 1};
    ck_assert_int_eq(
        facc_manifest_read_quantizers(ctx, path, keep_quantizer, &r, &err),
        FACC_OK);
    ck_assert_int_eq(r.n, 1);
    ck_assert_int_eq(facc_manifest_read_quantizers(ctx, path, NULL, &r, &err),
                     FACC_ERR_ARGUMENT);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

START_TEST(text_with_nul)
{
    static const char lua[] = "-- \0\n"
                              "return require 'facc'.attention { mask_mod = "
                              "'q >= kv' }\n";
    struct counts c;
    facc_program *p;
    facc_error err = FACC_ERROR_INIT;
    set_path();
    facc_ctx *ctx = recording(&c, path);
    ck_assert_msg(facc_program_load_string(&p, ctx, "n.lua", lua,
                                           sizeof lua - 1, &err) == FACC_OK,
                  "%s", err.message);
    facc_variant v = plain(80);
    ask(ctx, p, &v);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_int_eq(c.warnings, 1);
    ck_assert_ptr_nonnull(strstr(c.warning, "n.lua has a NUL"));
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        round_trip,        once_each,     environment_and_refusals,
        several_processes, damaged_lines, cannot_be_written,
        text_with_nul,     quantizers};
    return run_tests("manifest", tests, sizeof tests / sizeof tests[0]);
}

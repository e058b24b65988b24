/* The compiler's stages together: units and their includes, explanations,
 * memory running out at every allocation over the golden cases. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/compile.h"
#include "tests/unit/suite.h"

static const char alibi[] =
    "local facc = require 'facc'\n"
    "local slopes = facc.tensor('slopes', 'f32', { 'H' })\n"
    "local window = facc.param('window', 'i32')\n"
    "return facc.attention {\n"
    "  score_mod = function(s, b, h, q, kv) return s + slopes[h] * (kv - q) "
    "end,\n"
    "  mask_mod = 'q >= kv and q - kv < window' }\n";

static const struct unit_config config = {.family = "sm80",
                                          .dtype = DTYPE_F16,
                                          .out_dtype = DTYPE_F32,
                                          .head_dim = 72,
                                          .head_dim_v = 64,
                                          .tile_m = 64,
                                          .tile_n = 32,
                                          .warps = 4,
                                          .stages = 2,
                                          .q_in_registers = true,
                                          .shared_bytes = 1234};

static struct program *load(const char *name, const char *text)
{
    struct diag d;
    diag_init(&d);
    struct program *p =
        compile_program(&alloc_libc, name, text, strlen(text), NULL, &d);
    ck_assert_msg(p != NULL, "%s:%d: %s", d.file, d.line, d.message);
    return p;
}

static const char *header(const struct cuda_unit *u, const char *name)
{
    for (int k = 0; k < u->n_headers; k++)
        if (strcmp(u->headers[k].name, name) == 0)
            return u->headers[k].text;
    return NULL;
}

START_TEST(a_unit_has_all_that_it_includes)
{
    struct program *p = load("some/where/alibi.lua", alibi);
    struct arena *a = arena_new(&alloc_libc);
    struct cuda_unit u;
    struct diag d;
    diag_init(&d);
    ck_assert_msg(compile_unit(p, &config, NULL, a, &u, &d), "%s", d.message);
    ck_assert_str_eq(u.main_name, "sm80/forward.cu");
    ck_assert_str_eq(u.entry, "facc_forward");
    ck_assert_ptr_nonnull(strstr(u.main_text, "facc_forward"));
    ck_assert_str_eq(u.headers[0].name, "facc_config.cuh");
    ck_assert_str_eq(u.headers[1].name, "facc_variant.cuh");
    ck_assert_ptr_nonnull(header(&u, "common/kernel_args.h"));
    for (int k = 0; k < u.n_headers; k++) {
        const char *line = u.headers[k].text;
        for (; (line = strstr(line, "#include \"")) != NULL; line++) {
            char name[128];
            ck_assert_int_eq(sscanf(line, "#include \"%127[^\"]", name), 1);
            ck_assert_msg(header(&u, name) != NULL, "%s", name);
        }
        for (int j = 0; j < k; j++)
            ck_assert_str_ne(u.headers[j].name, u.headers[k].name);
    }
    arena_free(a);
    program_free(p);
}
END_TEST

START_TEST(the_configuration_is_in_the_text)
{
    struct program *p = load("alibi.lua", alibi);
    struct arena *a = arena_new(&alloc_libc);
    struct cuda_unit u;
    struct diag d;
    diag_init(&d);
    ck_assert(compile_unit(p, &config, NULL, a, &u, &d));
    static const char *const want[] = {"kElement = kElementF16;",
                                       "kOutElement = kElementF32;",
                                       "kHeadDim = 72, kHeadDimV = 64;",
                                       "kTileM = 64, kTileN = 32;",
                                       "kWarps = 4, kStages = 2;",
                                       "kQInRegisters = true;",
                                       "kSharedBytes = 1234;",
                                       "kCheckBounds = false;",
                                       "kNumTensors = 1, kNumParams = 1;"};
    for (size_t k = 0; k < sizeof want / sizeof *want; k++)
        ck_assert_msg(strstr(u.headers[0].text, want[k]) != NULL, "%s",
                      want[k]);
    /* the file's name alone: text does not depend on where it lies */
    ck_assert_ptr_nonnull(strstr(u.headers[1].text, "#line 5 \"alibi.lua\""));
    arena_free(a);
    program_free(p);
}
END_TEST

START_TEST(text_without_lines_ignores_where_lines_stand)
{
    char moved[sizeof alibi + 8];
    snprintf(moved, sizeof moved, "\n\n%s", alibi);
    struct program *p[2] = {load("a.lua", alibi), load("b.lua", moved)};
    struct arena *a = arena_new(&alloc_libc);
    struct strbuf text[2], bare[2];
    for (int k = 0; k < 2; k++) {
        struct diag d;
        diag_init(&d);
        p[k]->graph->diag = &d;
        strbuf_init(&text[k], a);
        strbuf_init(&bare[k], a);
        ck_assert(emit_variant(p[k]->graph, &p[k]->roots, &p[k]->verdict,
                               &config, &text[k]));
        ck_assert(emit_without_lines(strbuf_text(&text[k]), &bare[k]));
        program_free(p[k]);
    }
    ck_assert_str_ne(strbuf_text(&text[0]), strbuf_text(&text[1]));
    ck_assert_str_eq(strbuf_text(&bare[0]), strbuf_text(&bare[1]));
    arena_free(a);
}
END_TEST

START_TEST(emitting_twice_gives_the_same_text)
{
    struct program *p = load("alibi.lua", alibi);
    struct arena *a = arena_new(&alloc_libc);
    struct cuda_unit u[2];
    struct diag d;
    diag_init(&d);
    for (int k = 0; k < 2; k++)
        ck_assert(compile_unit(p, &config, NULL, a, &u[k], &d));
    ck_assert_str_eq(u[0].headers[1].text, u[1].headers[1].text);
    arena_free(a);
    program_free(p);
}
END_TEST

START_TEST(templates_are_read_from_a_folder)
{
    struct program *p = load("alibi.lua", alibi);
    struct arena *a = arena_new(&alloc_libc);
    struct cuda_unit u, embedded;
    struct diag d;
    diag_init(&d);
    ck_assert_msg(
        compile_unit(p, &config, FACC_SOURCE_DIR "/templates", a, &u, &d), "%s",
        d.message);
    ck_assert(compile_unit(p, &config, NULL, a, &embedded, &d));
    ck_assert_int_eq(u.n_headers, embedded.n_headers);
    ck_assert_str_eq(u.main_text, embedded.main_text);
    ck_assert(!compile_unit(p, &config, "/nowhere", a, &u, &d));
    ck_assert_int_eq(d.status, DIAG_IO);
    ck_assert_ptr_nonnull(strstr(d.file, "/nowhere/sm80/forward.cu"));
    /* the program is still good */
    diag_init(&d);
    ck_assert(compile_unit(p, &config, NULL, a, &u, &d));
    arena_free(a);
    program_free(p);
}
END_TEST

START_TEST(an_unknown_family_is_an_error)
{
    struct program *p = load("alibi.lua", alibi);
    struct arena *a = arena_new(&alloc_libc);
    struct unit_config c = config;
    struct cuda_unit u;
    struct diag d;
    diag_init(&d);
    c.family = "sm10";
    ck_assert(!compile_unit(p, &c, NULL, a, &u, &d));
    ck_assert_str_eq(d.message, "no template file 'sm10/forward.cu'");
    arena_free(a);
    program_free(p);
}
END_TEST

START_TEST(the_flat_form_has_every_header_once)
{
    struct program *p = load("alibi.lua", alibi);
    struct arena *a = arena_new(&alloc_libc);
    struct cuda_unit u;
    struct strbuf flat;
    struct diag d;
    diag_init(&d);
    strbuf_init(&flat, a);
    ck_assert(compile_unit(p, &config, NULL, a, &u, &d));
    ck_assert(emit_flat(&u, &flat));
    ck_assert_ptr_null(strstr(strbuf_text(&flat), "\n#include \""));
    const char *at = strstr(strbuf_text(&flat), "struct Variant {");
    ck_assert_ptr_nonnull(at);
    ck_assert_ptr_null(strstr(at + 1, "struct Variant {"));
    arena_free(a);
    program_free(p);
}
END_TEST

/* The explanation has all of these lines, and none of those. */
static void explains(const char *text, const char *const *lines, size_t n,
                     const char *missing)
{
    struct program *p = load("t.lua", text);
    struct arena *a = arena_new(&alloc_libc);
    struct strbuf out;
    struct diag d;
    diag_init(&d);
    strbuf_init(&out, a);
    ck_assert(compile_explain(p, &out, &d));
    for (size_t k = 0; k < n; k++)
        ck_assert_msg(strstr(strbuf_text(&out), lines[k]) != NULL,
                      "no \"%s\" in:\n%s", lines[k], strbuf_text(&out));
    ck_assert_msg(strstr(strbuf_text(&out), missing) == NULL, "%s",
                  strbuf_text(&out));
    arena_free(a);
    program_free(p);
}

START_TEST(explanations_name_the_tier)
{
    static const char *const plain[] = {
        "tier     analytic\n         nothing but plain bounds: no schedule"};
    explains(alibi, plain, 1, "a schedule is made");
    static const char *const none[] = {"tier     none\n"};
    explains("return require 'facc'.attention {}", none, 1, "schedule");
    static const char *const scanned[] = {
        "tier     scanned: reads dense[q][kv] by both q and kv   line 3\n",
        "a schedule is made", "1 summary of rows, 1 of columns",
        "stay PARTIAL are scanned"};
    explains("local facc = require 'facc' "
             "local id = facc.tensor('id', 'i32', { 'q' })\n"
             "local dense = facc.tensor('dense', 'bool', { 'q', 'kv' })\n"
             "return facc.attention { mask_mod = 'dense[q][kv] and id[q] == "
             "id[kv]' }",
             scanned, 4, "too large");
    static const char *const halved[] = {
        "tier     analytic\n         a schedule is made",
        "3 summaries of rows, 2 of columns",
        "PARTIAL tiles are halved, down to granules of "};
    explains("local facc = require 'facc'\nreturn facc.attention { mask_mod = "
             "facc.mods.natten(200, 200, 7) }",
             halved, 3, "scanned");
    static const char *const opaque[] = {
        "tier     opaque: (0.5 < score) reads the score   line 2\n",
        "nothing is known of whole tiles"};
    explains("local facc = require 'facc'\nreturn facc.attention { score_mod = "
             "function(s, b, h, q, kv) if s > 0.5 then return s end return "
             "-math.huge end }",
             opaque, 2, "schedule");
    static const char *const partly[] = {
        "a schedule is made", "what reads the score counts as unknown"};
    explains(
        "local facc = require 'facc'\nreturn facc.attention { score_mod = "
        "function(s, b, h, q, kv) if s > 0.5 and q >= kv then return s end "
        "return -math.huge end }",
        partly, 2, "nothing is known");
    static const char *const cut[] = {
        "a schedule is made", "too large: parts of it count as unknown"};
    explains("local facc = require 'facc'\n"
             "local id = facc.tensor('id', 'i32', { 512 })\n"
             "return facc.attention { mask_mod = function(b, h, q, kv) return "
             "facc.all(80, function(t) return id[(q + t * 5) % 512] ~= "
             "id[(kv + t * 3) % 512] + t end) end }",
             cut, 2, "nothing is known");
}
END_TEST

START_TEST(explanations_name_scopes_forms_and_bounds)
{
    struct program *p = load("alibi.lua", alibi);
    struct arena *a = arena_new(&alloc_libc);
    struct strbuf text;
    struct diag d;
    diag_init(&d);
    strbuf_init(&text, a);
    ck_assert(compile_explain(p, &text, &d));
    static const char *const want[] = {
        "program  alibi.lua\n",
        "tensor   slopes       f32   { H }\n",
        "param    window       i32\n",
        "affine: alpha = 1.0, beta = (slopes[h] * (float)((kv - q)));",
        "bound    q - kv >= 0: KV tiles above it are skipped\n",
        "bound    -q + kv + (window - 1) >= 0: KV tiles below it are skipped\n",
        " tile  float slopes[h]   line 5\n"};
    for (size_t k = 0; k < sizeof want / sizeof *want; k++)
        ck_assert_msg(strstr(strbuf_text(&text), want[k]) != NULL,
                      "no \"%s\" in:\n%s", want[k], strbuf_text(&text));
    arena_free(a);
    program_free(p);
}
END_TEST

/* Text of the variant, or the error in *d. */
static bool variant_of(const char *name, const char *text, struct arena *a,
                       struct strbuf *out, struct diag *d)
{
    struct program *p = load(name, text);
    diag_init(d);
    p->graph->diag = d;
    strbuf_init(out, a);
    const bool ok =
        emit_variant(p->graph, &p->roots, &p->verdict, &config, out);
    program_free(p);
    return ok;
}

static void check_sum(int terms, bool want)
{
    char text[512];
    struct arena *a = arena_new(&alloc_libc);
    struct strbuf out;
    struct diag d;
    snprintf(text, sizeof text,
             "local facc = require 'facc'\nreturn facc.attention { "
             "score_mod = function(s, b, h, q, kv)\nreturn s * "
             "facc.sum(%d, function(k) return facc.sin(q * kv + k) end) end }",
             terms);
    ck_assert_int_eq(variant_of("deep.lua", text, a, &out, &d), want);
    if (!want) {
        ck_assert_int_eq(d.status, DIAG_UNSUPPORTED);
        ck_assert_int_eq(d.line, 3);
        ck_assert_ptr_nonnull(strstr(d.message, "more than 2000 operations"));
    }
    arena_free(a);
}

START_TEST(scores_that_mask_are_known)
{
    static const struct {
        const char *mods;
        bool score_masks, has_mask_mod;
    } list[] = {
        {"score_mod = function(s) return 2 * s end", false, false},
        {"mask_mod = 'q >= kv'", false, true},
        {"mask_mod = 'q >= kv', score_mod = 'score + q - kv'", false, true},
        {"score_mod = 'q >= kv and score or -math.huge'", true, false},
        {"score_mod = function(s, b, h, q, kv)\n"
         "  if q < kv then return -math.huge end return s end",
         true, false},
        {"score_mod = function(s, b, h, q, kv)\n"
         "  return s + facc.where(function() return q >= kv end, 0, "
         "-math.huge) end",
         true, false},
        {"score_mod = function(s, b, h, q, kv)\n"
         "  return facc.where(function() return q >= kv end, s, -math.huge) "
         "end, mask_mod = 'kv > 3'",
         true, true},
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        char text[512];
        snprintf(text, sizeof text,
                 "local facc = require 'facc'\nreturn facc.attention { %s }\n",
                 list[k].mods);
        struct program *p = load("t.lua", text);
        ck_assert_msg(p->facts.score_masks == list[k].score_masks, "%s",
                      list[k].mods);
        ck_assert_int_eq(p->facts.has_mask_mod, list[k].has_mask_mod);
        program_free(p);
    }
}
END_TEST

START_TEST(long_chains_are_refused_not_fatal)
{
    check_sum(1990, true);
    check_sum(2010, false);
}
END_TEST

/* Shared values are printed once: text does not double with each line. */
START_TEST(shared_values_do_not_multiply)
{
    static const char *const mods[] = {
        "score_mod = function(s, b, h, q, kv) local x = facc.tanh(s) for i = "
        "1, 60 do x = x + x end return x end",
        "score_mod = function(s, b, h, q, kv) local x = facc.sin(q * kv) for "
        "i = 1, 60 do x = x + x * x end return s + x end",
        "mask_mod = function(b, h, q, kv) local x = q * kv for i = 1, 60 do "
        "x = (x + (x // 3)) % 1000 end return x > 7 end"};
    for (size_t k = 0; k < sizeof mods / sizeof *mods; k++) {
        char text[512];
        struct arena *a = arena_new(&alloc_libc);
        struct strbuf out;
        struct diag d;
        snprintf(text, sizeof text,
                 "local facc = require 'facc' return facc.attention { %s }",
                 mods[k]);
        ck_assert(variant_of("shared.lua", text, a, &out, &d));
        ck_assert_uint_lt(out.len, 40000);
        arena_free(a);
    }
}
END_TEST

START_TEST(names_that_a_directive_cannot_hold_are_left_out)
{
    static const char *const names[] = {"a\"b.lua", "a\\b.lua", "a\nb"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct arena *a = arena_new(&alloc_libc);
        struct strbuf out;
        struct diag d;
        ck_assert(variant_of(names[k], alibi, a, &out, &d));
        ck_assert_ptr_null(strstr(strbuf_text(&out), "#line"));
        arena_free(a);
    }
}
END_TEST

/* What facc_tanh_below loses must stay below 1e-5 in the LSE. */
START_TEST(short_tanh_only_under_modest_factors)
{
    static const struct {
        const char *score;
        bool is_short;
    } cases[] = {{"50 * facc.tanh(s / 50)", true},
                 {"50.5 * facc.tanh(s / 50.5)", false},
                 {"-3 * facc.tanh(s)", false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[256];
        struct arena *a = arena_new(&alloc_libc);
        struct strbuf out;
        struct diag d;
        snprintf(text, sizeof text,
                 "local facc = require 'facc' return facc.attention { "
                 "score_mod = function(s, b, h, q, kv) return %s end }",
                 cases[k].score);
        ck_assert(variant_of("tanh.lua", text, a, &out, &d));
        ck_assert_int_eq(strstr(strbuf_text(&out), "facc_tanh_below(") != NULL,
                         cases[k].is_short);
        arena_free(a);
    }
}
END_TEST

/* --- memory running out -------------------------------------------------- */

struct limited {
    long left;     /* allocations that still work */
    long n;        /* asked for */
    bool for_good; /* all later ones fail too, else one */
};

static void *limited_alloc(void *user, void *ptr, size_t old, size_t size)
{
    struct limited *l = user;
    if (size > old) {
        l->n++;
        if (l->left == 0 || (l->left < 0 && l->for_good)) {
            l->left = -1;
            return NULL;
        }
        l->left--;
    }
    return alloc_libc.fn(alloc_libc.user, ptr, old, size);
}

static bool run_all(const char *name, const char *text,
                    const struct alloc *alloc, struct diag *d)
{
    bool ok = false;
    struct program *p =
        compile_program(alloc, name, text, strlen(text), NULL, d);
    struct arena *a = p ? arena_new(alloc) : NULL;
    if (p && !a)
        diag_nomem(d, "test");
    if (a) {
        struct cuda_unit u;
        struct strbuf explained;
        struct unit_config hopper = config;
        hopper.family = "sm90";
        strbuf_init(&explained, a);
        ok = compile_unit(p, &config, NULL, a, &u, d) &&
             compile_unit(p, &hopper, NULL, a, &u, d) &&
             compile_explain(p, &explained, d);
        arena_free(a);
    }
    program_free(p);
    return ok;
}

/* Everything once with the n-th allocation failing; how many there were. Lua
 * collects garbage and asks again, so that a single failure may be survived;
 * a lasting one may not. */
static long run_limited(const char *name, const char *text, long n,
                        bool for_good)
{
    struct limited l = {.left = n, .for_good = for_good};
    const struct alloc alloc = {limited_alloc, &l};
    struct diag d;
    diag_init(&d);
    const bool ok = run_all(name, text, &alloc, &d), reached = l.left < 0;
    if ((ok && reached && for_good) || (!ok && !reached) ||
        (!ok && d.status != DIAG_MEMORY))
        ck_abort_msg("%s: allocation %ld of %ld failing: %s, status %d, %s",
                     name, n, l.n, ok ? "ok" : "failed", d.status, d.message);
    return l.n;
}

static long exhaust(const char *name, const char *text)
{
    const long used = run_limited(name, text, 1L << 40, true);
    for (long n = 0; n < used; n++) {
        run_limited(name, text, n, true);
        run_limited(name, text, n, false);
    }
    return used;
}

static bool read_text(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    text[fread(text, 1, size - 1, f)] = '\0';
    fclose(f);
    return true;
}

START_TEST(memory_may_run_out_anywhere)
{
    static const char folder[] = FACC_SOURCE_DIR "/tests/golden";
    long n_runs = 0;
    int n_cases = 0;
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        static char text[1 << 16];
        char path[512], cuda[512];
        const size_t len = strlen(e->d_name);
        if (len < 5 || strcmp(e->d_name + len - 4, ".lua") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        snprintf(cuda, sizeof cuda, "%.*s.cuh", (int)strlen(path) - 4, path);
        if (access(cuda, R_OK) != 0 || !read_text(path, text, sizeof text))
            continue;
        n_runs += exhaust(e->d_name, text);
        n_cases++;
    }
    closedir(dir);
    ck_assert_int_gt(n_cases, 10);
    ck_assert_int_gt(n_runs, 100 * n_cases);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("compile");
    TCase *t = tcase_create("compile");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, a_unit_has_all_that_it_includes);
    tcase_add_test(t, the_configuration_is_in_the_text);
    tcase_add_test(t, text_without_lines_ignores_where_lines_stand);
    tcase_add_test(t, emitting_twice_gives_the_same_text);
    tcase_add_test(t, templates_are_read_from_a_folder);
    tcase_add_test(t, an_unknown_family_is_an_error);
    tcase_add_test(t, the_flat_form_has_every_header_once);
    tcase_add_test(t, explanations_name_scopes_forms_and_bounds);
    tcase_add_test(t, explanations_name_the_tier);
    tcase_add_test(t, scores_that_mask_are_known);
    tcase_add_test(t, long_chains_are_refused_not_fatal);
    tcase_add_test(t, shared_values_do_not_multiply);
    tcase_add_test(t, short_tanh_only_under_modest_factors);
    tcase_add_test(t, names_that_a_directive_cannot_hold_are_left_out);
    tcase_add_test(t, memory_may_run_out_anywhere);
    suite_add_tcase(s, t);
    return suite_run(s);
}

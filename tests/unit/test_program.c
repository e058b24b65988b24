/* facc_program_load_*: files, strings, expressions; what they declare; the
 * words of their refusals. */
#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/context.h"
#include "runtime/program.h"
#include "tests/unit/comma_locale.h"
#include "tests/unit/suite.h"

static facc_ctx *open_ctx(void)
{
    facc_error err = FACC_ERROR_INIT;
    facc_options o = FACC_OPTIONS_INIT;
    facc_ctx *ctx;
    o.cache_mode = 3;
    ck_assert_msg(facc_ctx_create(&ctx, &o, &err) == FACC_OK, "%s",
                  err.message);
    return ctx;
}

static const char lua[] =
    "local facc = require 'facc'\n"
    "local bias = facc.tensor('bias', 'bf16', { 'H', 'q', 'kv' })\n"
    "local table = facc.tensor('table', 'i64', { 'B', 'Hkv', 7 })\n"
    "local one = facc.tensor('one', 'bool', {})\n"
    "local w = facc.param('w', 'i32')\n"
    "local g = facc.param('g', 'f32')\n"
    "return facc.attention {\n"
    "  score_mod = function(s, b, h, q, kv) return s * g + bias[h][q][kv] "
    "end,\n"
    "  mask_mod = function(b, h, q, kv)\n"
    "    return one() and q - kv < w and table[b][0][0] > kv\n"
    "  end,\n"
    "}\n";

static void ck_declared(const facc_declared *t, const char *name,
                        facc_dtype dtype, int rank)
{
    ck_assert_str_eq(t->name, name);
    ck_assert_int_eq((int)t->dtype, (int)dtype);
    ck_assert_int_eq(t->rank, rank);
}

START_TEST(declarations)
{
    facc_error err = FACC_ERROR_INIT;
    facc_declared t;
    facc_program *p;
    facc_ctx *ctx = open_ctx();
    ck_assert_msg(facc_program_load_string(&p, ctx, "t.lua", lua,
                                           sizeof lua - 1, &err) == FACC_OK,
                  "%s", err.message);
    ck_assert_int_eq(facc_program_tensor_count(p), 3);
    ck_assert_int_eq(facc_program_param_count(p), 2);
    ck_assert_int_eq(facc_program_tensor(p, 0, &t), FACC_OK);
    ck_declared(&t, "bias", FACC_BF16, 3);
    ck_assert_str_eq(t.dim_names[0], "H");
    ck_assert_str_eq(t.dim_names[1], "q");
    ck_assert_str_eq(t.dim_names[2], "kv");
    ck_assert_int_eq(t.shape[2], -1);
    ck_assert_int_eq(facc_program_tensor(p, 1, &t), FACC_OK);
    ck_declared(&t, "table", FACC_I64, 3);
    ck_assert_str_eq(t.dim_names[0], "B");
    ck_assert_str_eq(t.dim_names[1], "Hkv");
    ck_assert_ptr_null(t.dim_names[2]);
    ck_assert_int_eq(t.shape[2], 7);
    ck_assert_int_eq(facc_program_tensor(p, 2, &t), FACC_OK);
    ck_declared(&t, "one", FACC_BOOL, 0);
    ck_assert_int_eq(facc_program_param(p, 1, &t), FACC_OK);
    ck_declared(&t, "g", FACC_F32, 0);
    ck_assert_int_eq(facc_program_tensor(p, 3, &t), FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_program_tensor(p, -1, &t), FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_program_param(p, 2, &t), FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_program_tensor(p, 0, NULL), FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_program_tensor_count(NULL), 0);
    ck_assert_str_eq(facc_program_warning(p), "");
    ck_assert_str_eq(facc_program_warning(NULL), "");

    struct signature copy; /* outlives the program */
    ck_assert(signature_copy(&copy, &p->signature));
    facc_program_free(p);
    ck_declared(&copy.tensors[1], "table", FACC_I64, 3);
    ck_declared(&copy.params[0], "w", FACC_I32, 0);
    ck_assert_str_eq(copy.file, "t.lua");
    signature_free(&copy);
    facc_program_free(NULL);
    facc_ctx_free(ctx);
}
END_TEST

/* ---- files --------------------------------------------------------------- */

static facc_status load_text(facc_ctx *ctx, const char *path, const char *text,
                             size_t size, facc_error *err)
{
    facc_program *p;
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, size, f), size);
    fclose(f);
    facc_status s = facc_program_load_file(&p, ctx, path, err);
    ck_assert_int_eq(s == FACC_OK, p != NULL);
    facc_program_free(p);
    return s;
}

START_TEST(file)
{
    facc_error err = FACC_ERROR_INIT;
    facc_program *p;
    char dir[] = "/tmp/facc-program-XXXXXX", path[64], want[128];
    facc_ctx *ctx = open_ctx();
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a.lua", dir);
    ck_assert_int_eq(load_text(ctx, path, lua, sizeof lua - 1, &err), FACC_OK);

    /* longer than any read buffer */
    size_t size = sizeof lua - 1 + 100000;
    char *big = malloc(size);
    ck_assert_ptr_nonnull(big);
    memset(big, '\n', size);
    memcpy(big + 100000, lua, sizeof lua - 1);
    ck_assert_int_eq(load_text(ctx, path, big, size, &err), FACC_OK);
    free(big);

    static const char bad[] = "local facc = require 'facc'\n"
                              "return facc.attention { score_mod = 1 + }\n";
    ck_assert_int_eq(load_text(ctx, path, bad, sizeof bad - 1, &err),
                     FACC_ERR_SCRIPT);
    snprintf(want, sizeof want, "%s:2: error: ", path);
    ck_assert_msg(strncmp(err.message, want, strlen(want)) == 0, "%s",
                  err.message);
    ck_assert_ptr_nonnull(strstr(
        err.message, "\n    2 | return facc.attention { score_mod = 1 + }"));
    ck_assert_str_eq(err.file, path);
    ck_assert_int_eq(err.line, 2);

    ck_assert_int_eq(load_text(ctx, path, "", 0, &err), FACC_ERR_SCRIPT);
    ck_assert_int_eq(load_text(ctx, path, "\x1bLua", 4, &err),
                     FACC_ERR_SCRIPT); /* byte code */
    unlink(path);
    ck_assert_int_eq(facc_program_load_file(&p, ctx, path, &err), FACC_ERR_IO);
    ck_assert_ptr_null(p);
    ck_assert_ptr_nonnull(strstr(err.message, "cannot open"));
    ck_assert_ptr_nonnull(strstr(err.message, path));
    ck_assert_int_eq(facc_program_load_file(&p, ctx, dir, &err), FACC_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.message, "cannot read"));
    ck_assert_int_eq(facc_program_load_file(&p, ctx, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_program_load_file(&p, NULL, dir, &err),
                     FACC_ERR_ARGUMENT);
    rmdir(dir);
    facc_ctx_free(ctx);
}
END_TEST

/* A Lua error inside a mod: line and message, the traceback in the log. */
START_TEST(error_inside_a_mod)
{
    static const char text[] =
        "local facc = require 'facc'\n"
        "local function inner(x) return x + nothing.here end\n"
        "return facc.attention {\n"
        "  score_mod = function(s) local r = inner(s); return r end }\n";
    facc_error err = FACC_ERROR_INIT;
    facc_program *p;
    facc_ctx *ctx = open_ctx();
    ck_assert_int_eq(facc_program_load_string(&p, ctx, "deep.lua", text,
                                              sizeof text - 1, &err),
                     FACC_ERR_SCRIPT);
    ck_assert_int_eq(strncmp(err.message, "deep.lua:2: error: ", 19), 0);
    ck_assert_ptr_nonnull(strstr(err.message, "    2 | local function inner"));
    ck_assert_ptr_null(strstr(err.message, "stack traceback"));
    ck_assert_msg(strstr(err.log, "deep.lua:4"), "%s", err.log);
    facc_ctx_free(ctx);
}
END_TEST

/* ---- expressions --------------------------------------------------------- */

START_TEST(expressions)
{
    static const facc_declaration list[] = {
        {.name = "slopes", .dtype = FACC_F32, .rank = 1, .dim_names = {"H"}},
        {.name = "grid", .dtype = FACC_I32, .rank = 2, .shape = {4, 5}},
        {.name = "window", .dtype = FACC_I32, .is_param = 1}};
    facc_error err = FACC_ERROR_INIT;
    facc_declared t;
    facc_program *p;
    facc_ctx *ctx = open_ctx();
    ck_assert_msg(facc_program_load_expressions(
                      &p, ctx, "score + slopes[h]*(kv-q)",
                      "q >= kv and q - kv < window and grid[0][h] ~= 0", list,
                      3, &err) == FACC_OK,
                  "%s", err.message);
    ck_assert_int_eq(facc_program_tensor_count(p), 2);
    ck_assert_int_eq(facc_program_param_count(p), 1);
    ck_assert_int_eq(facc_program_tensor(p, 1, &t), FACC_OK);
    ck_declared(&t, "grid", FACC_I32, 2);
    ck_assert_int_eq(t.shape[1], 5);
    facc_program_free(p);
    ck_assert_int_eq(
        facc_program_load_expressions(&p, ctx, NULL, NULL, NULL, 0, &err),
        FACC_OK);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

struct refusal {
    const char *score, *mask;
    facc_declaration declaration;
    facc_status status;
    const char *says;
};

static const struct refusal refusals[] = {
    {"score +",
     NULL,
     {.name = "x", .dtype = FACC_F32, .rank = 0},
     FACC_ERR_SCRIPT,
     "expression:3: error: score_mod:1: unexpected"},
    {"score +",
     NULL,
     {.name = "x", .dtype = FACC_F32, .rank = 0},
     FACC_ERR_SCRIPT,
     "\n    3 | return facc.attention { score_mod = \"score +\" }"},
    {NULL,
     "q >= unknown",
     {.name = "x", .dtype = FACC_F32, .rank = 0},
     FACC_ERR_SCRIPT,
     "expression:3: error: "},
    {NULL,
     "true end, os.exit(1",
     {.name = "x", .dtype = FACC_F32},
     FACC_ERR_SCRIPT,
     "expression:3: error: "},
    {NULL,
     NULL,
     {.name = "a b", .dtype = FACC_F32},
     FACC_ERR_ARGUMENT,
     "\"a b\" is not a name"},
    {NULL,
     NULL,
     {.name = "1a", .dtype = FACC_F32},
     FACC_ERR_ARGUMENT,
     "\"1a\" is not a name"},
    {NULL,
     NULL,
     {.name = NULL, .dtype = FACC_F32},
     FACC_ERR_ARGUMENT,
     "\"\" is not a name"},
    {NULL,
     NULL,
     {.name = "x", .dtype = FACC_F32, .rank = 6},
     FACC_ERR_ARGUMENT,
     "rank is 6"},
    {NULL,
     NULL,
     {.name = "x", .dtype = FACC_F32, .rank = 1, .dim_names = {"heads"}},
     FACC_ERR_ARGUMENT,
     "unknown dimension \"heads\""},
    {NULL, NULL, {.name = "x", .dtype = (facc_dtype)50}, FACC_ERR_SCRIPT, "?"},
    {NULL,
     NULL,
     {.name = "x", .dtype = FACC_BF16, .is_param = 1},
     FACC_ERR_SCRIPT,
     "bf16"}};
enum { N_REFUSALS = sizeof refusals / sizeof refusals[0] };

START_TEST(refused)
{
    const struct refusal *r = &refusals[_i];
    facc_error err = FACC_ERROR_INIT;
    facc_program *p;
    facc_ctx *ctx = open_ctx();
    facc_status s = facc_program_load_expressions(&p, ctx, r->score, r->mask,
                                                  &r->declaration, 1, &err);
    ck_assert_ptr_null(p);
    ck_assert_msg(s == r->status, "%s: %s", facc_status_name(s), err.message);
    ck_assert_msg(strstr(err.message, r->says), "\"%s\" lacks \"%s\"",
                  err.message, r->says);
    facc_ctx_free(ctx);
}
END_TEST

/* Quotes, backslashes and other bytes in an expression stay what they are. */
START_TEST(odd_characters)
{
    facc_error err = FACC_ERROR_INIT;
    facc_program *p;
    facc_ctx *ctx = open_ctx();
    ck_assert_msg(facc_program_load_expressions(
                      &p, ctx, NULL, "q >= kv and #\"a\\\"]]\\n\xc3\xa9\" == 7",
                      NULL, 0, &err) == FACC_OK,
                  "%s", err.message);
    facc_program_free(p);
    facc_ctx_free(ctx);
}
END_TEST

static char *explained(facc_ctx *ctx, const char *text)
{
    facc_error err = FACC_ERROR_INIT;
    facc_program *p;
    char *json;
    ck_assert_msg(facc_program_load_string(&p, ctx, "t.lua", text, strlen(text),
                                           &err) == FACC_OK,
                  "%s", err.message);
    ck_assert_int_eq(facc_program_explain(&json, ctx, p, NULL, 1, &err),
                     FACC_OK);
    facc_program_free(p);
    return json;
}

/* Lua's numbers from and to text are the C library's: what a program means
 * must not depend on where it is loaded. */
START_TEST(decimal_comma)
{
    static const char text[] =
        "local c = tonumber(tostring(0.5)) + tonumber('0x1.8p1') + '1.25'\n"
        "assert(tostring(0.5) == '0.5' and 0.25 .. '' == '0.25')\n"
        "assert(string.format('%.2f', 1.25) == '1.25')\n"
        "assert(tonumber('1,5') == nil and tonumber('1.5') == 1.5)\n"
        "assert('B' < 'a' and 'Z' < '\\xc4')\n"
        "return require('facc').attention {\n"
        "  score_mod = function(s, b, h, q, kv) return s * 0.1 + c end,\n"
        "  mask_mod = 'q - kv < 7.5',\n"
        "}\n";
    facc_ctx *ctx = open_ctx();
    char *here = explained(ctx, text);
    if (comma_locale()) {
        char *there = explained(ctx, text);
        ck_assert_str_eq(here, there);
        ck_assert_str_eq(localeconv()->decimal_point, ",");
        facc_string_free(there);
    } else {
        printf("SKIPPED decimal_comma: no de_DE.UTF-8, nor localedef\n");
    }
    facc_string_free(here);
    facc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {declarations,       file,
                                  error_inside_a_mod, expressions,
                                  odd_characters,     decimal_comma};
    Suite *s = suite_create("program");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, refused, 0, N_REFUSALS);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return suite_run(s);
}

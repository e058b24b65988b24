/* facc_wgmma.cuh: the stand-ins in templates/stub/sm90 are what the emitter
 * prints for their configuration (--update rewrites them), and other shapes
 * have the steps and operands that they need. tests/gpu/nvrtc_check.py
 * assembles them. Also what the schedule's configuration says of head dims. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "compiler/compile.h"
#include "tests/unit/suite.h"

static const struct unit_config stub = {.family = "sm90",
                                        .dtype = DTYPE_BF16,
                                        .out_dtype = DTYPE_BF16,
                                        .head_dim = 128,
                                        .head_dim_v = 128,
                                        .tile_m = 128,
                                        .tile_n = 128,
                                        .warps = 12,
                                        .stages = 2,
                                        .q_buffers = 2,
                                        .shared_bytes = 232448,
                                        .packed = true,
                                        .sinks = true,
                                        .dropout = true};

static struct program *program;
static struct arena *arena;

static void open_program(void)
{
    static const char text[] = "local facc = require 'facc'\n"
                               "return facc.attention {}\n";
    struct diag d;
    diag_init(&d);
    program =
        compile_program(&alloc_libc, "plain.lua", text, strlen(text), NULL, &d);
    arena = arena_new(&alloc_libc);
    ck_assert(program && arena);
}

static void close_program(void)
{
    program_free(program);
    arena_free(arena);
}

static const char *wgmma_text(const struct unit_config *c)
{
    struct strbuf b;
    strbuf_init(&b, arena);
    ck_assert(emit_wgmma(program->graph, c, &b));
    return strbuf_text(&b);
}

static const char *config_text(const struct unit_config *c)
{
    struct strbuf b;
    strbuf_init(&b, arena);
    ck_assert(emit_config(program->graph, &program->verdict, c, &b));
    return strbuf_text(&b);
}

/* --- stand-ins ----------------------------------------------------------- */

#define STUB FACC_SOURCE_DIR "/templates/stub/"

static bool updating;

static void check_file(const char *path, const char *want)
{
    static char got[1 << 16];
    FILE *f = fopen(path, updating ? "wb" : "rb");
    ck_assert_msg(f, "cannot open %s", path);
    if (updating)
        ck_assert(fputs(want, f) >= 0);
    else
        got[fread(got, 1, sizeof got - 1, f)] = '\0';
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_msg(updating || strcmp(got, want) == 0,
                  "%s is not what the emitter prints (--update rewrites it)",
                  path);
}

START_TEST(stand_ins_are_what_is_printed)
{
    const struct unit_config schedule = emit_schedule(&stub);
    check_file(STUB "sm90/facc_config.cuh", config_text(&stub));
    check_file(STUB "sm90/facc_wgmma.cuh", wgmma_text(&stub));
    check_file(STUB "schedule/facc_config.cuh", config_text(&schedule));
}
END_TEST

static const char *schedule_text(const char *mask)
{
    struct unit_config c = stub;
    c.head_dim_v = 64;
    c = emit_schedule(&c);
    const char *text = arena_printf(arena,
                                    "local facc = require 'facc'\n"
                                    "return facc.attention { mask_mod = "
                                    "function(b, h, q, kv) return %s end }\n",
                                    mask);
    struct diag d;
    diag_init(&d);
    struct program *p =
        compile_program(&alloc_libc, "mask.lua", text, strlen(text), NULL, &d);
    ck_assert_msg(p, "%s", d.message);
    struct cuda_unit u;
    struct strbuf flat;
    strbuf_init(&flat, arena);
    ck_assert(emit_unit(p->graph, &p->roots, &p->verdict, &c, NULL, arena, &u));
    ck_assert(emit_flat(&u, &flat));
    program_free(p);
    return strbuf_text(&flat);
}

/* One text for all head dims, unless the mask reads them. */
START_TEST(schedule_has_head_dims_that_are_read)
{
    const char *dims = "constexpr int kHeadDim = 128, kHeadDimV = 64;";
    ck_assert_ptr_null(strstr(schedule_text("q >= kv"), "kHeadDim"));
    ck_assert_ptr_nonnull(strstr(schedule_text("q - kv < facc.size.Dv"), dims));
}
END_TEST

/* --- shapes -------------------------------------------------------------- */

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *s = text; (s = strstr(s, what)) != NULL; s++)
        n++;
    return n;
}

static void has(const char *text, const char *what, int n)
{
    ck_assert_msg(count(text, what) == n, "%d times, want %d: %s\n%s",
                  count(text, what), n, what, text);
}

START_TEST(steps_reach_the_zero_filled_columns)
{
    struct unit_config c = stub;
    c.dtype = DTYPE_F16;
    c.head_dim = 72;
    c.head_dim_v = 104;
    c.tile_n = 96;
    const char *text = wgmma_text(&c);
    has(text, "m64n96k16.f32.f16.f16 \" FACC_SCORES \", a, b, first", 1);
    has(text, "m64n96k16.f32.f16.f16 \" FACC_SCORES \", a, b, more", 4);
    has(text, "m64n104k16.f32.f16.f16 \" FACC_OUTPUT", 6);
    has(text, "bf16", 0);
    has(text, "wgmma.commit_group", 2);
    has(text, ".reg .f32 oo<52>;", 1);
}
END_TEST

START_TEST(operands_step_from_panel_to_panel)
{
    struct unit_config c = stub;
    c.head_dim = c.head_dim_v = 192;
    c.tile_n = 80;
    const char *text = wgmma_text(&c);
    /* Q: 64 rows of 128 bytes a panel, K: 80; inside 32 bytes a step */
    has(text, "low, %40, 6; mov.b64 a", 1);
    has(text, "low, %40, 512; mov.b64 a", 1);
    has(text, "low, %41, 640; mov.b64 b", 1);
    has(text, "low, %40, 1030; mov.b64 a", 1); /* the last step */
    has(text, "low, %41, 1286; mov.b64 b", 1);
    has(text, "low, %20, 512; mov.b64 b", 1); /* V: 2048 bytes a step */
    has(text, "setp.ne.u32 first, %21, 0;", 1);
    has(text, "{%16,%17,%18,%19}, b, more", 1);
}
END_TEST

/* Behind the head dim's panels, in rows of their own width: all at once, they
 * alone, and the rest on top of them. */
START_TEST(extra_columns_come_first)
{
    static const struct {
        int n;
        const char *high; /* 128, 64 or 32 bytes to a row and its swizzle */
        int steps;
    } t[] = {
        {64, "0x40000040", 4}, {32, "0x80000020", 2}, {16, "0xc0000010", 1}};
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        const struct dot_term dot = {.n = t[k].n};
        struct unit_config c = stub; /* 128 columns in two panels */
        c.tile_n = 64;
        c.dot = &dot;
        const char *text = wgmma_text(&c);
        const int steps = t[k].steps;
        /* Q: 2 panels of 8192 bytes, K: of 8192 */
        char a[80], b[80];
        snprintf(a, sizeof a, "low, %%32, 1024; mov.b64 a, {low, %s}",
                 t[k].high);
        snprintf(b, sizeof b, "low, %%33, 1024; mov.b64 b, {low, %s}",
                 t[k].high);
        has(text, a, 2);
        has(text, b, 2);
        has(text, "void multiply_", 4);
        has(text, "FACC_SCORES \", a, b, first", 2);
        has(text, "FACC_SCORES \", a, b, more", 2 * steps + 2 * 8 - 2);
        has(text, "wgmma.commit_group", 4);
        has(text, "\"=f\"(s[0][0])", 2);
        has(text, "\"+f\"(s[0][0])", 2); /* multiply_head, pin */
        has(text, t[k].high,
            t[k].n == 64 ? 2 * 2 * (4 + 8) + 4 : 2 * 2 * steps);
    }
}
END_TEST

START_TEST(fp8)
{
    struct unit_config c = stub;
    c.dropout = false;
    c.dtype = DTYPE_E4M3;
    c.head_dim = c.head_dim_v = 256;
    c.tile_n = 96;
    const char *text = wgmma_text(&c);
    has(text, "m64n96k32.f32.e4m3.e4m3 \" FACC_SCORES \", a, b, first, 1, 1;",
        1);
    has(text, "FACC_SCORES \", a, b, more, 1, 1;", 7);
    has(text, "m64n256k32.f32.e4m3.e4m3 \" FACC_OUTPUT", 3);
    has(text, "const unsigned (&p)[kTileN / 8]", 1);
    has(text, "low, %48, 512; mov.b64 a", 1); /* a panel: 64 rows, 128 bytes */
    has(text, "low, %49, 774; mov.b64 b, {low, 0x40000040}", 1);
    /* V: 32 tokens a step, in rows of 32 bytes */
    has(text, "low, %12, 512; mov.b64 b, {low, 0xc0000010}", 1);
    has(text, "low, %12, 1024; mov.b64 b, {low, 0xc0000010}", 1);

    c.dtype = DTYPE_E5M2; /* P is e4m3 */
    c.head_dim = c.head_dim_v = 64;
    text = wgmma_text(&c);
    has(text, "m64n96k32.f32.e5m2.e5m2 \" FACC_SCORES", 2);
    has(text, "m64n64k32.f32.e4m3.e5m2 \" FACC_OUTPUT", 3);
    has(text, "0x80000020", 4); /* rows of 64 bytes */
}
END_TEST

/* The softmax scale comes with the descales of Q and K. */
START_TEST(fp8_units)
{
    static const char text[] =
        "local facc = require 'facc'\n"
        "return facc.attention { score_mod = function(s, b, h, q, kv)\n"
        "  return facc.where(s > 0, s, 2 * s) + (kv - q) end }\n";
    struct diag d;
    diag_init(&d);
    struct program *p =
        compile_program(&alloc_libc, "mod.lua", text, strlen(text), NULL, &d);
    ck_assert(p);
    struct unit_config c = stub;
    struct cuda_unit u;
    c.dropout = false;
    for (int k = 0; k < 2; k++) {
        c.dtype = k ? DTYPE_E4M3 : DTYPE_F16;
        ck_assert(
            emit_unit(p->graph, &p->roots, &p->verdict, &c, NULL, arena, &u));
        ck_assert_str_eq(u.main_name,
                         k ? "sm90/fp8_forward.cu" : "sm90/forward.cu");
        const char *variant = NULL;
        bool descales = false;
        for (int i = 0; i < u.n_headers; i++) {
            if (strcmp(u.headers[i].name, "facc_variant.cuh") == 0)
                variant = u.headers[i].text;
            descales |= strcmp(u.headers[i].name, "common/descales.cuh") == 0;
        }
        ck_assert_ptr_nonnull(variant);
        ck_assert(descales == (k == 1));
        has(variant, "t.scale = facc_descaled(args, b, h);", k);
        has(variant, "float scale, scale_log2;", k);
        ck_assert((strstr(variant, "args.scale") == NULL) == (k == 1));
    }
    program_free(p);
}
END_TEST

START_TEST(units_of_the_family_have_the_products)
{
    struct unit_config c = stub;
    struct cuda_unit u;
    struct diag d;
    diag_init(&d);
    program->graph->diag = &d;
    ck_assert_msg(emit_unit(program->graph, &program->roots, &program->verdict,
                            &c, NULL, arena, &u),
                  "%s", d.message);
    ck_assert_str_eq(u.main_name, "sm90/forward.cu");
    ck_assert_str_eq(u.headers[2].name, "facc_wgmma.cuh");
    c.family = "sm80";
    ck_assert(emit_unit(program->graph, &program->roots, &program->verdict, &c,
                        NULL, arena, &u));
    for (int k = 0; k < u.n_headers; k++)
        ck_assert_str_ne(u.headers[k].name, "facc_wgmma.cuh");
}
END_TEST

int main(int argc, char **argv)
{
    updating = argc > 1 && strcmp(argv[1], "--update") == 0;
    Suite *s = suite_create("emit_wgmma");
    TCase *t = tcase_create("products");
    tcase_add_checked_fixture(t, open_program, close_program);
    tcase_add_test(t, stand_ins_are_what_is_printed);
    tcase_add_test(t, schedule_has_head_dims_that_are_read);
    tcase_add_test(t, steps_reach_the_zero_filled_columns);
    tcase_add_test(t, operands_step_from_panel_to_panel);
    tcase_add_test(t, extra_columns_come_first);
    tcase_add_test(t, fp8);
    tcase_add_test(t, fp8_units);
    tcase_add_test(t, units_of_the_family_have_the_products);
    suite_add_tcase(s, t);
    return suite_run(s);
}

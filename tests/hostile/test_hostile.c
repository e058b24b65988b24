/* The hostile scripts of tests/hostile/NAME.lua, each with what must come of
 * it: an error with its line, or the same program as a plain way of saying it.
 * Every one is loaded with the limits that users have, on a small stack, and
 * printed as kernels; time and memory are bounded. The tables are Lua files,
 * run by a Lua state without a sandbox: cases.lua has what they call.
 *
 * FACC_TEST_TIMES=1 prints what each takes; an argument runs the cases whose
 * names have it in them. */
#include <check.h>
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/compile.h"
#include "runtime/select.h"
#include "tests/unit/test_share.h"
#include "tests/unit/timing.h"

/* Sanitizers make all slower by five to twenty, and stack frames larger. With
 * the lower limit of instructions any case may end by it; what it gives with
 * the users' limit is for the release build to say. There, too, scripts that
 * never end do so by a lower limit in the short form, but for every eighth. */
#ifdef FACC_VERIFY
enum { MOST_SECONDS = 120, STACK = 8 << 20, IS_SLOW = 1 };
#else
enum { MOST_SECONDS = 30, STACK = 1 << 20, IS_SLOW = 0 };
#endif
enum {
    MOST_MEMORY = 800 << 20,
    FEW_INSTRUCTIONS = 20000000,
    OF_ENDLESS = IS_SLOW ? 5000000 : 40000000
};
static const char endless[] = "VM instructions";

static lua_State *tables; /* the cases, in the global `cases` */
static int n_cases;

/* --- memory that is counted ----------------------------------------- */

struct counted {
    size_t live, peak;
};

static void *count_alloc(void *user, void *ptr, size_t old_size,
                         size_t new_size)
{
    struct counted *c = user;
    void *p = alloc_libc.fn(alloc_libc.user, ptr, old_size, new_size);
    if (p || !new_size)
        c->live += new_size - (ptr ? old_size : 0);
    c->peak = c->live > c->peak ? c->live : c->peak;
    return p;
}

/* --- one script ------------------------------------------------------ */

struct attempt {
    const char *name; /* of the file, as messages have it */
    const char *text;
    size_t size;
    long long instructions; /* limit; 0: users' */
    struct diag diag;       /* status 0: it loads */
    char *ir;               /* then; the caller frees */
    uint32_t nodes;
    size_t emitted; /* bytes of text, both families */
    double seconds;
    struct counted memory;
};

static bool emit(struct attempt *x, struct program *p, const struct alloc *a,
                 int family)
{
    const facc_variant v = {.struct_size = sizeof v,
                            .dtype = FACC_BF16,
                            .out_dtype = FACC_BF16,
                            .head_dim = 64,
                            .head_dim_v = 64,
                            .family = family};
    struct unit_config c;
    struct cuda_unit unit;
    struct arena *arena = arena_new(a);
    bool ok = select_config(&v, family, family, p->cell_loads, true,
                            p->dot.dot ? &p->dot : NULL, &c, &x->diag) &&
              compile_unit(p, &c, NULL, arena, &unit, &x->diag);
    for (int i = 0; ok && i < 2; i++) /* config and variant */
        x->emitted += strlen(unit.headers[i].text);
    arena_free(arena);
    return ok;
}

/* The whole way from text to kernels. */
static void *run(void *argument)
{
    struct attempt *x = argument;
    const struct compile_limits limits = {.instructions = x->instructions};
    const struct alloc a = {count_alloc, &x->memory};
    const double from = thread_seconds();
    diag_init(&x->diag);
    struct program *p =
        compile_program(&a, x->name, x->text, x->size, &limits, &x->diag);
    if (p) {
        struct arena *arena = arena_new(&a);
        struct strbuf ir, facts;
        strbuf_init(&ir, arena);
        strbuf_init(&facts, arena);
        ir_print(p->graph, &p->roots, &ir);
        x->ir = strdup(strbuf_text(&ir));
        x->nodes = p->graph->n_nodes;
        if (emit(x, p, &a, FACC_FAMILY_SM80))
            emit(x, p, &a, FACC_FAMILY_SM90);
        if (!diag_failed(&x->diag))
            compile_explain(p, &facts, &x->diag);
        arena_free(arena);
        program_free(p);
    }
    x->seconds = thread_seconds() - from;
    return NULL;
}

static struct attempt attempt(const char *name, const char *text, size_t size,
                              long long instructions)
{
    struct attempt x = {
        .name = name, .text = text, .size = size, .instructions = instructions};
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    ck_assert_int_eq(pthread_attr_setstacksize(&attr, STACK), 0);
    ck_assert_int_eq(pthread_create(&thread, &attr, run, &x), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    return x;
}

/* --- what must come of it -------------------------------------------- */

/* Field of the case on top, "" if there is none; lives as long as the case. */
static const char *text_field(const char *key, size_t *size)
{
    lua_getfield(tables, -1, key);
    const char *s = lua_tolstring(tables, -1, size);
    lua_pop(tables, 1); /* the table holds it */
    return s ? s : "";
}

static void check_same(const char *name, struct attempt *x, const char *plain)
{
    ck_assert_msg(!diag_failed(&x->diag), "%s: fails\n%s:%d: %s", name,
                  x->diag.file, x->diag.line, x->diag.message);
    if (!*plain)
        return;
    struct attempt y =
        attempt("plain.lua", plain, strlen(plain), x->instructions);
    ck_assert_msg(!diag_failed(&y.diag), "%s: the plain way fails\n%s", name,
                  y.diag.message);
    ck_assert_msg(strcmp(x->ir, y.ir) == 0, "%s: another program\n%s---\n%s",
                  name, x->ir, y.ir);
    free(y.ir);
}

static void check_error(const char *name, const struct attempt *x,
                        const char *message, int line)
{
    ck_assert_msg(diag_failed(&x->diag), "%s: loads", name);
    const bool status =
        x->diag.status == DIAG_SCRIPT || x->diag.status == DIAG_UNSUPPORTED;
    ck_assert_msg(status && x->diag.line == line &&
                      strcmp(x->diag.file, x->name) == 0 &&
                      strstr(x->diag.message, message),
                  "%s: want %d: %s\nstatus %d, %s:%d: %s", name, line, message,
                  x->diag.status, x->diag.file, x->diag.line, x->diag.message);
}

/* Of instructions; 0: users'. */
static long long limit_of_case(int k, const char *message)
{
    if (strstr(message, endless) && k % 8 && !test_long())
        return OF_ENDLESS;
    return IS_SLOW ? FEW_INSTRUCTIONS : 0;
}

/* Under sanitizers, where nothing is said of the case. */
static bool ends_early(const struct attempt *x)
{
    return IS_SLOW && x->diag.line > 0 && strstr(x->diag.message, endless);
}

static void print_taken(const char *name, const struct attempt *x)
{
    char what[160] = "";
    if (diag_failed(&x->diag))
        snprintf(what, sizeof what, "%d: %.*s", x->diag.line,
                 (int)strcspn(x->diag.message, "\n"), x->diag.message);
    else
        snprintf(what, sizeof what, "%u nodes, %zu bytes of text", x->nodes,
                 x->emitted);
    printf("%6.2f s %6.1f MiB  %s: %.110s\n", x->seconds,
           (double)x->memory.peak / (1 << 20), name, what);
    fflush(stdout);
}

START_TEST(hostile)
{
    size_t size;
    lua_getglobal(tables, "cases");
    lua_rawgeti(tables, -1, _i + 1);
    const char *name = text_field("name", NULL);
    const char *text = text_field("text", &size);
    const char *message = text_field("message", NULL);
    lua_getfield(tables, -1, "line");
    const int line = (int)lua_tointeger(tables, -1);
    lua_pop(tables, 1);
    struct attempt x =
        attempt("hostile.lua", text, size, limit_of_case(_i, message));
    if (getenv("FACC_TEST_TIMES"))
        print_taken(name, &x);
    if (line && !ends_early(&x))
        check_error(name, &x, message, line);
    else if (!ends_early(&x))
        check_same(name, &x, text_field("same", NULL));
    ck_assert_msg(x.seconds < MOST_SECONDS, "%s: %.1f s", name, x.seconds);
    ck_assert_msg(x.memory.peak < MOST_MEMORY, "%s: %zu bytes", name,
                  x.memory.peak);
    ck_assert_msg(x.memory.live == 0, "%s: %zu bytes are lost", name,
                  x.memory.live);
    free(x.ir);
    lua_pop(tables, 2);
}
END_TEST

/* --- the tables ------------------------------------------------------ */

static void load_tables(const char *only)
{
    tables = luaL_newstate();
    luaL_openlibs(tables);
    lua_pushstring(tables, FACC_SOURCE_DIR "/tests/hostile/");
    lua_setglobal(tables, "folder");
    lua_pushstring(tables, only);
    lua_setglobal(tables, "only");
    if (luaL_dofile(tables, FACC_SOURCE_DIR "/tests/hostile/cases.lua")) {
        fprintf(stderr, "%s\n", lua_tostring(tables, -1));
        exit(2);
    }
    lua_getglobal(tables, "cases");
    n_cases = (int)lua_rawlen(tables, -1);
    lua_settop(tables, 0);
}

int main(int argc, char **argv)
{
    load_tables(argc > 1 ? argv[1] : NULL);
    TCase *c = tcase_create("hostile");
    Suite *s = suite_create("hostile");
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, hostile, 0, n_cases);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    const int failed = srunner_ntests_failed(r);
    srunner_free(r);
    lua_close(tables);
    return n_cases == 0 || failed != 0;
}

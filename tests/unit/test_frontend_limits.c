/* What a file may take (instructions, memory, paths), allocations that fail,
 * damaged files, and loads side by side. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/fuzz/modgen.h"
#include "tests/unit/frontend_fixture.h"
#include "tests/unit/test_share.h"
#include "tests/unit/timing.h"

/* --- limits ------------------------------------------------------- */

START_TEST(endless_loop)
{
    struct compile_limits limits = {.instructions = 1000000};
    struct load l;
    load_limited(&l, "local x = 1\nwhile true do x = x + 1 end", &limits);
    ck_assert_str_eq(l.diag.message,
                     "the script runs for more than 1000000 VM instructions: "
                     "does a loop never end?");
    ck_assert_int_eq(l.diag.line, 2);
    unload(&l);
}
END_TEST

/* With a fifth of the usual limit; under sanitizers, which take ten times as
 * long, with a quarter of that in the short form. The slowest takes a tenth of
 * the time. */
enum { BUSY_INSTRUCTIONS = 40000000 };
#ifdef FACC_TEST_SLOW
enum { MOST_SECONDS = 40 };
#else
enum { MOST_SECONDS = 20 };
#endif

/* Loops whose work is done in C, or by few instructions: each must end soon.
 * big is a table of half a million numbers. */
static const char *const busy[] = {
    "while true do pairs(big) end",
    "while true do for k in pairs(big) do break end end",
    "local t = {} while true do table.insert(t, 1, 1) end",
    "while true do table.insert(big, 1, 1) table.remove(big, 1) end",
    "while true do table.remove(big, 1) big[#big + 1] = 1 end",
    "while true do table.sort(big) end",
    "while true do table.sort(big, function(a, b) return a < b end) end",
    "while true do local s = table.concat(big) end",
    "while true do table.unpack(big) end",
    "while true do table.pack(table.unpack(big)) end",
    "while true do local x = select('#', table.unpack(big)) end",
    "while true do math.max(table.unpack(big)) end",
    "local function f(...) while true do select('#', ...) end end "
    "f(table.unpack(big, 1, 300000))",
    "local function g() end local function f(...) while true do g(...) end end "
    "f(table.unpack(big, 1, 300000))",
    "local function g(...) end local function f(...) while true do g(...) end "
    "end f(table.unpack(big, 1, 300000))",
    "for i = 1, #big do big[i] = nil end while true do next(big) end",
    "for i = 1, #big do big[i] = nil end while true do pairs(big) end",
    "while true do local s = ('x'):rep(1000000) end",
    "while true do local s = (''):rep(1 << 62) end",
    "local s = ('x'):rep(8000000) while true do local t = s .. 'y' end",
    "local s = ('x'):rep(8000000) while true do local t = s:upper() end",
    "local s = ('x'):rep(8000000) while true do local t = s:reverse() end",
    "local s = ('x'):rep(900000) while true do s:byte(1, -1) end",
    "local s = ('x'):rep(8000000) local t = s:upper():lower() "
    "while true do local x = s == t end",
    "while true do local s = tostring(1e300) end",
    "while true do local s = ('%99.99f'):format(1e300) end",
    "while true do local x = tonumber('1.5e10') end",
    "while true do local x = undefined end",
    "while true do local t = {} end",
    "while true do local f = function() return big end end",
    "while true do facc.attention { mask_mod = 'q >= kv' } end",
    "while true do local x = facc.exp(1.0) end",
    "while true do facc.max(4, function(k) return big[1] end) end",
    "for i = 1, 1e9 do facc.param('p' .. i, 'i32') end",
    "for i = 1, 1e9 do facc.tensor('p' .. i, 'i32', {}) end",
    "mask = function(b, h, q, kv) while true do local x = q + kv end end",
    "mask = function(b, h, q, kv) while true do local x = q > kv end end",
    "mask = function(b, h, q, kv) while true do local x = q == kv end end",
    "mask = function(b, h, q, kv) while true do local x = ti[q] end end",
    "mask = function(b, h, q, kv) while true do local x = facc.mods.causal "
    "end end",
    "mask = function(b, h, q, kv) local n = 0 for i = 0, 2000 do n = n + ti[i] "
    "end while true do local x = n + 1 end end",
    "mask = function(b, h, q, kv) local n = 0 for i = 0, 2000 do n = n + ti[i] "
    "end while true do local x = n > 1 end end",
    "mask = function(b, h, q, kv) for i = 1, 400 do local x = q % 512 == i "
    "end while true do local x = q % 512 > 500 end end",
};

START_TEST(busy_loop)
{
    struct compile_limits limits = {.instructions =
                                        test_share(BUSY_INSTRUCTIONS)};
    struct load l;
    char body[1024];
    snprintf(body, sizeof body,
             "local big = {} for i = 1, 500000 do big[i] = i end\n%s",
             busy[_i]);
    const double from = thread_seconds();
    load_mod_limited(&l, body, &limits);
    const double s = thread_seconds() - from;
    ck_assert_msg(
        strstr(l.diag.message, "VM instructions: does a loop never") ||
            strstr(l.diag.message, "MiB of memory"),
        "%s\n%s", busy[_i], l.ok ? "loads" : l.diag.message);
    if (getenv("FACC_TEST_TIMES"))
        printf("%5.2f s  %s\n", s, busy[_i]);
    ck_assert_msg(s < test_share(MOST_SECONDS), "%s\n%.1f s", busy[_i], s);
    unload(&l);
}
END_TEST

/* Much work that ends is no error. */
START_TEST(long_work)
{
    static const char *const bodies[] = {
        "local n = 0 for i = 1, 1000000 do n = n + i end mask = 'q >= kv'",
        "local t = {} for i = 1, 1000000 do t[i] = i end local n = 0 "
        "for k, v in pairs(t) do n = n + v end "
        "for k, v in ipairs(t) do n = n + v end table.sort(t) "
        "mask = 'q >= kv'",
        "local t = {} for i = 1, 1000000 do table.insert(t, i) end "
        "mask = 'q >= kv'",
        "local t = {} for i = 1, 100000 do t[i] = i .. ',' end "
        "assert(#table.concat(t) > 500000) mask = 'q >= kv'",
        "local t = {} for i = 1, 10000 do t['k' .. i] = i end "
        "mask = function(b, h, q, kv) local n = 0 for k, v in pairs(t) do "
        "n = n + v end return q + n > kv end",
        "local t = {} for i = 1, 10000 do t[i] = i end score = function(s, b, "
        "h, q, kv) return s + facc.sum(64, function(k) return (q - kv) % (k + "
        "2) == 0 and t[k + 1] or 0 end) end",
        "mask = function(b, h, q, kv) local n = 0 for i = 1, 1000000 do "
        "n = n + i end return q + n > kv end",
    };
    for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++) {
        struct load l;
        load_mod(&l, bodies[k]);
        ck_assert_msg(l.ok, "%s\n%s", bodies[k], l.diag.message);
        unload(&l);
    }
}
END_TEST

/* A recursion that leaves no frame of the user's file: looking for one must
 * not walk the whole stack at every call. */
START_TEST(deep_mods)
{
    struct load l;
    load_mod(&l, "local function f(...) return facc.mods.not_mask(f)(...) end "
                 "mask = f");
    ck_assert_msg(strstr(l.diag.message, "stack overflow") ||
                      strstr(l.diag.message, "VM instructions"),
                  "%s", l.diag.message);
    unload(&l);
}
END_TEST

START_TEST(memory_bomb)
{
    const char *text[] = {
        "local t = {}\nfor i = 1, 1e9 do t[i] = {} end",
        "local s = 'x'\nwhile true do s = s .. s end",
        "local t = {}\nt[1] = ('x'):rep(1 << 23) .. ('y'):rep(1 << 23)",
    };
    struct compile_limits limits = {.lua_memory = 8 << 20};
    for (int i = 0; i < 3; i++) {
        struct load l;
        load_limited(&l, text[i], &limits);
        ck_assert_str_eq(l.diag.message,
                         "the script needs more than 8 MiB of memory");
        ck_assert_int_eq(l.diag.status, DIAG_SCRIPT);
        ck_assert_int_eq(l.diag.line, 2);
        unload(&l);
    }
}
END_TEST

START_TEST(stack_overflow)
{
    struct load l;
    load(&l, "local function f(n)\nreturn 1 + f(n + 1) end\nreturn f(0)");
    ck_assert(strncmp(l.diag.message, "stack overflow", 14) == 0);
    ck_assert_int_eq(l.diag.line, 2);
    unload(&l);
}
END_TEST

START_TEST(too_many_values)
{
    struct load l;
    load_mod(&l, "score = function(s) for i = 1, 1e9 do s = s * 1.5 + i end "
                 "return s end");
    ck_assert_str_eq(l.diag.message,
                     "the mod computes more than 1048576 different values");
    unload(&l);
    load_mod(&l, "mask = function(b, h, q, kv) local n = 0\n"
                 "for i = 0, 9999 do n = n + ti[i] end return n > q end");
    ck_assert_str_eq(l.diag.message,
                     "the mod's integer sums have more than 8388608 terms in "
                     "all; make them shorter, or floats by facc.float");
    unload(&l);
}
END_TEST

START_TEST(path_limits)
{
    struct compile_limits limits = {.max_paths = 3, .max_comparisons = 2};
    struct load l;
    load_limited(&l,
                 "local facc = require 'facc'\nreturn facc.attention { "
                 "mask_mod = function(b, h, q, kv)\nif q > 5 or kv > 7 then "
                 "return true end\nreturn b > 3 end }",
                 &limits);
    ck_assert_str_eq(l.diag.message,
                     "more than 2 comparisons on one path; use facc.sum, "
                     "facc.any or facc.all for the loop");
    ck_assert_int_eq(l.diag.line, 4);
    unload(&l);
}
END_TEST

/* --- memory ------------------------------------------------------- */

struct failing {
    long left; /* allocations until one fails; -1: none does */
    long live; /* blocks */
};

static void *failing_alloc(void *user, void *ptr, size_t old_size,
                           size_t new_size)
{
    struct failing *f = user;
    if (new_size && f->left == 0)
        return NULL;
    if (new_size && f->left > 0)
        f->left--;
    f->live += (new_size != 0 && !ptr) - (!new_size && ptr);
    return alloc_libc.fn(alloc_libc.user, ptr, old_size, new_size);
}

START_TEST(nth_allocation_fails)
{
    const char *text =
        "local facc = require 'facc'\n"
        "local slopes = facc.tensor('slopes', 'f32', {'H'})\n"
        "local w = facc.param('w', 'i32')\n"
        "return facc.attention {\n"
        "  score_mod = facc.mods.compose(facc.mods.alibi(slopes), "
        "function(s, b, h, q, kv) return q == kv and s or facc.silu(s) end),\n"
        "  mask_mod = 'q >= kv and facc.any(3, function(k) return q - kv < w "
        "+ k end)' }";
    bool ok = false;
    long n = 0;
    for (; !ok; n += 1 + n / 64) {
        struct failing f = {n, 0};
        struct alloc a = {failing_alloc, &f};
        struct diag d;
        diag_init(&d);
        struct arena *arena = arena_new(&a);
        struct ir_graph *g = arena ? ir_graph_new(arena, &d, "t.lua") : NULL;
        struct ir_roots roots;
        struct traced_facts facts;
        if (g) {
            ok = frontend_load(g, &a, "t.lua", text, strlen(text), NULL, &roots,
                               &facts);
            ck_assert_msg(ok || d.status == DIAG_MEMORY, "n = %ld: %s", n,
                          d.message);
        }
        arena_free(arena);
        ck_assert_msg(f.live == 0, "n = %ld: %ld blocks", n, f.live);
    }
    ck_assert_int_gt(n, 100);
}
END_TEST

/* --- damaged files ------------------------------------------------ */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Random programs with pieces deleted, doubled or replaced: each loads or
 * gives an error with a line; nothing crashes, hangs or leaks. */
START_TEST(damaged_files)
{
    static const char *const pieces[] = {
        "q",   "kv",  "(",    ")",     "[",       "]",   "==",     "~=",
        "<",   "..",  "{",    "}",     "'x'",     "nil", "#",      "function()",
        "end", "-",   "//",   "0",     "1e308",   "~",   "facc",   "facc.sum(",
        "and", "not", "true", "b0",    "slopes",  ",",   "return", "local z =",
        ":",   ".n",  "math", "-1 //", "1 << 63", "...", "[[",     "--"};
    static char text[MODGEN_TEXT], damaged[2 * MODGEN_TEXT];
    struct compile_limits limits = {
        .lua_memory = 8 << 20, .instructions = 1000000, .max_paths = 256};
    uint64_t state = 12345;
    int loaded = 0;
    const int count = 3000;
    for (int i = 0; i < count; i++) {
        size_t n = modgen((uint64_t)i, text);
        size_t from = (size_t)(strstr(text, "facc.attention") - text);
        size_t at = from + next_random(&state) % (n - from);
        size_t cut = next_random(&state) % 8;
        const char *piece =
            pieces[next_random(&state) % (sizeof pieces / sizeof *pieces)];
        cut = at + cut > n ? n - at : cut;
        snprintf(damaged, sizeof damaged, "%.*s%s%s%s", (int)at, text,
                 i % 3 ? " " : "", i % 4 ? piece : "", text + at + cut);
        struct load l;
        load_limited(&l, damaged, &limits);
        loaded += l.ok;
        ck_assert_msg(l.ok || l.diag.status == DIAG_SCRIPT, "%s\n%s", damaged,
                      l.diag.message);
        ck_assert_msg(l.ok || l.diag.line > 0, "%s\n%s", damaged,
                      l.diag.message);
        unload(&l);
    }
    ck_assert_int_gt(loaded, count / 100);
    ck_assert_int_lt(loaded, count - count / 10);
}
END_TEST

/* --- threads ------------------------------------------------------ */

enum { N_THREADS = 4, N_PROGRAMS = 40 };

struct worker {
    pthread_t thread;
    char text[MODGEN_TEXT];
    uint64_t hash[N_PROGRAMS]; /* of both roots; 0: failed */
};

static void *trace_programs(void *argument)
{
    struct worker *w = argument;
    for (int i = 0; i < N_PROGRAMS; i++) {
        struct traced_facts facts;
        struct ir_roots r;
        struct diag d;
        modgen((uint64_t)i + 500, w->text);
        diag_init(&d);
        struct arena *a = arena_new(&alloc_libc);
        struct ir_graph *g = ir_graph_new(a, &d, "t.lua");
        if (frontend_load(g, &alloc_libc, "t.lua", w->text, strlen(w->text),
                          NULL, &r, &facts))
            w->hash[i] =
                ir_node(g, r.score)->hash * 31 + ir_node(g, r.keep)->hash;
        arena_free(a);
    }
    return NULL;
}

/* Loads share nothing; and structural hashes do not depend on the state. */
START_TEST(threads)
{
    static struct worker w[N_THREADS];
    for (int k = 0; k < N_THREADS; k++)
        ck_assert_int_eq(
            pthread_create(&w[k].thread, NULL, trace_programs, &w[k]), 0);
    for (int k = 0; k < N_THREADS; k++)
        pthread_join(w[k].thread, NULL);
    for (int k = 0; k < N_THREADS; k++)
        for (int i = 0; i < N_PROGRAMS; i++) {
            ck_assert(w[k].hash[i] != 0);
            ck_assert(w[k].hash[i] == w[0].hash[i]);
        }
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("frontend");
    tcase_add_test(c, endless_loop);
    tcase_add_loop_test(c, busy_loop, 0, sizeof busy / sizeof *busy);
    tcase_add_test(c, long_work);
    tcase_add_test(c, deep_mods);
    tcase_add_test(c, memory_bomb);
    tcase_add_test(c, stack_overflow);
    tcase_add_test(c, too_many_values);
    tcase_add_test(c, path_limits);
    tcase_add_test(c, nth_allocation_fails);
    tcase_add_test(c, damaged_files);
    tcase_add_test(c, threads);
    return run_case("frontend_limits", c);
}

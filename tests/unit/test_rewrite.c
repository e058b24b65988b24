/* The token rewriting against plain Lua: every chunk is run as it is and
 * rewritten, and must give the same values. Hand-written chunks, random
 * expressions (count: argv[1] or 20,000), and the exact text of a few. */
#include <check.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/frontend/rewrite.h"
#include "compiler/frontend/trace.h"
#include "tests/unit/suite.h"

static long n_random = 20000;

/* --- one chunk, both ways ----------------------------------------- */

struct outcome {
    bool ok;
    char text[2048]; /* the values, or the error */
};

static void describe(lua_State *L, struct outcome *o)
{
    size_t at = 0;
    o->text[0] = '\0';
    for (int i = 1; i <= lua_gettop(L); i++) {
        const char *s = luaL_tolstring(L, i, NULL);
        bool address = strstr(s, ": 0x") || strstr(s, "builtin");
        int n = snprintf(o->text + at, sizeof o->text - at, "%s%s",
                         i > 1 ? ", " : "", address ? "reference" : s);
        lua_pop(L, 1);
        if (n > 0 && at + (size_t)n < sizeof o->text)
            at += (size_t)n;
    }
}

static void run_plain(lua_State *L, const char *text, struct outcome *o)
{
    lua_settop(L, 0);
    o->ok = luaL_loadbufferx(L, text, strlen(text), "=c", "t") == LUA_OK &&
            lua_pcall(L, 0, LUA_MULTRET, 0) == LUA_OK;
    describe(L, o);
}

static void run_rewritten(lua_State *L, struct arena *a, const char *text,
                          struct outcome *o)
{
    lua_settop(L, 0);
    o->ok = luaL_loadbufferx(L, text, strlen(text), "=c", "t") == LUA_OK;
    if (o->ok) {
        struct rewritten r = rewrite_source(a, text, strlen(text));
        ck_assert_ptr_nonnull(r.text);
        ck_assert_int_eq(r.reserved_line, 0);
        lua_settop(L, 0);
        o->ok = luaL_loadbufferx(L, r.text, r.size, "=c", "t") == LUA_OK;
        if (o->ok) {
            int n = l_push_sentinels(L);
            o->ok = lua_pcall(L, n, LUA_MULTRET, 0) == LUA_OK;
        }
    }
    describe(L, o);
}

struct fixture {
    struct arena *arena;
    struct diag diag;
    struct trace trace; /* a state with the sentinels, and all of Lua */
    lua_State *plain;
};

static int l_open_all(lua_State *L)
{
    luaL_openlibs(L);
    lua_pushcfunction(L, luaopen_base); /* what the sandbox took away */
    lua_call(L, 0, 0);
    return 0;
}

static void fixture_open(struct fixture *f)
{
    struct compile_limits limits = {.instructions = 1000000000000};
    *f = (struct fixture){0};
    diag_init(&f->diag);
    f->arena = arena_new(&alloc_libc);
    f->trace.graph = ir_graph_new(f->arena, &f->diag, "c");
    f->trace.diag = &f->diag;
    ck_assert(state_open(&f->trace, &alloc_libc, "c", "", 0, &limits));
    ck_assert(state_call(&f->trace, l_open_all, NULL));
    f->plain = luaL_newstate();
    luaL_openlibs(f->plain);
}

static void fixture_close(struct fixture *f)
{
    lua_close(f->plain);
    state_close(&f->trace);
    arena_free(f->arena);
}

/* --- written by hand ---------------------------------------------- */

static const char *const chunks[] = {
    /* what == means for each type */
    "return 1 == 1.0, 1 == '1', 'x' == 'x', nil == nil, nil == false, 2 ~= 2",
    "local nan = 0/0 return nan == nan, nan ~= nan, 0 == -0.0, 1/0 == 1/0",
    "return 2^53 == 2^53 + 1, 9007199254740993 == 2.0^53, 1 == math.huge",
    "return math.maxinteger + 1 == math.mininteger, math.maxinteger + 0.0 == "
    "math.maxinteger",
    "local t = {} return t == t, t == {}, print == print, t ~= nil",
    "return true == true, true ~= false, nil ~= nil, false == nil",
    /* precedence and associativity */
    "local a, b, c = 1, 1, true return a == b == c, a == b ~= c, a < b == c",
    "local a, b = 6, 3 return a == 2 | 4, a == 2 ~ 4, a & b == 2, a | 1 == 7",
    "local a, b = 6, 3 return a == b << 1, ~a == -7, a ~ b == 5, a >> 1 == b",
    "local s = 'x' return s .. 'y' == 'xy', 'xy' == s .. 'y', #s == 1",
    "local s = 'x' return -#s == -1, not s == nil, not (s == nil)",
    "return 2^2 == 4, 2 == 2 and 3 == 3 or 4 == 5, 1 == 2 or 3 == 3",
    "return 1 == 2 and 3 or 7, not 1 == 2, not not (1 == 1), 1 + 1 == 2 * 1",
    "return 1 << 2 == 4, 3 >= 3 == true, 3 <= 3 == true, 1 <= 2 == (2 >= 1)",
    "local a = 7 return 7 == a | 8 | 16, a | 8 == 15, a == 3 | 4 ~ 1 & 5",
    "return 5 // 2 == 2, 5 % 3 == 2, -5 // 2 == -3, 7 >> 1 == 3, 2 ^ 0.5 == 2",
    /* places where an expression can stand */
    "if not (1 == 2) and 3 ~= 4 then return 'a' elseif 1 == 1 then return 0 "
    "end",
    "local i = 0 while i ~= 5 do i = i + 1 end repeat i = i - 1 until i == 0 "
    "return i",
    "for i = 1, 3 do if i == 2 then goto next end ::next:: end return 1 == 1",
    "goto done do return 1 end ::done:: if 1 == 1 then return 'here' end",
    "local function f(...) return ... == 1, select('#', ...) == 2, (...) == 1 "
    "end return f(1, 2)",
    "local t = {1 == 1, [1 == 2] = 5, x = 3 ~= 4; 'a' == 'b'} return t[1], "
    "t[false], t.x, t[2]",
    "local t = {} t.x = 1 == 1 t[1], t[2] = 1 == 2, 2 == 2 return t.x, t[1], "
    "t[2]",
    "local f = function(x) return x end return f{1} == nil, f'x' == 'x', "
    "f[[x]] == 'x'",
    "return (function() return 1 == 1 end)() == true, (1 == 1) == true",
    "local n = 0 local function g(v) n = n * 10 + v return v end local r = "
    "g(1) == g(2) | g(4) return r, n",
    "local x <const> = 5 local y <close> = nil return x == 5, x ~= 5, y == nil",
    /* index keys */
    "local t = {a = {b = 1}, f = function(self, x) return x end} return "
    "t.a.b == 1, t:f(3) == 3, t['a']['b'] == 1",
    "local t = {5, {6, 7}} local i = 2 return t[i][i], t[t[2][1] - 5], "
    "t[ [[k]] ], t[#t][1 == 1 and 2 or 1]",
    "local function two() return 2, 3 end local t = {4, 5} return t[two()], "
    "t[(two())], {[two()] = 1}[2]",
    "local function two() return 2, 3 end local t = {4, 5} t[two()] = 9 return "
    "t[2], t[1 < 2], t[ 1 --[[ ] ]] ]",
    "local t = {} t[1], t[2] = t, 3 return t[1][1][2], t[1]['x'], t[1.0] == t",
    /* no blank between a word and a bracket */
    "local a, b = 1 if(a)then b = 2 end if(b)then a = nil elseif(a)then a = 4 "
    "end return a, b",
    "local i = 3 while(i)do i = nil end repeat i = 1 until(i)return(i)",
    "local a, b = nil, 2 return not(a), not(a)and(b), (a)or(b)and(a), not(a==b)"
    "or(b)",
    "local f = function(x)return(x)end return not(f)(1)and(f){2}, f(not(f'x'))",
    /* text that only looks like an operator */
    "local s = [[a == b]] local u = [==[ ]] == [=[ ~= ]==] local v = 'a == b' "
    "return s, u, v, s == 'a == b'",
    "-- a == b\n--[[ c == d\n ]] --[==[ e ]] ~= f ]==]\nreturn 1 ==\n1, 1\n=="
    "\n1",
    "return '\\'' == \"'\", '\\\\' == '\\\\', '\\z   \n  a' == 'a', "
    "'\\x3d\\x3d' == '=='",
    "return 'a\\\nb' == 'a\\nb', \"it's ~= it\", '--[[' == '--[[', 1 --]] ==\n"
    "== 1",
    "local t = {[ [[k]] ] = 1, [ [==[q]==] ] = 2} return t[ [[k]] ] == 1, "
    "t[ [==[q]==] ], t.k == t['k']",
    "return 0x10 == 16, 1e2 == 100, 0x.8p1 == 1, 3 == 3., .5 == 1/2, 0xA==10",
    /* metamethods of the other side are not asked for what == would not ask */
    "local m = setmetatable({}, {__lt = function() error '__lt' end, __bor = "
    "function() return 'B' end}) return m == 1, 1 == m, m ~= m, m | 1 == 'B', "
    "'B' == m | 1",
    "local P = {['__eq'] = function() return 'yes' end} local a, b = "
    "setmetatable({}, P), setmetatable({}, P) return a == b, a ~= b, a == 1",
    "local p = setmetatable({}, {__index = function(_, k) return k end}) "
    "return p[3], p['x'], p[1 == 1], p[p[2]]",
    /* errors stay errors */
    "return a ==",
    "x == 1",
    "return 1 == == 2",
    "local s = 'abc\nreturn 1 == 1",
    "return [==[ == ",
    "return '\\q' == 1",
    "if a == then end",
    "return 1 ~ = 1",
    "\n\nlocal x = 1\nreturn x == y.z",
    "return nil == nil == nil + 1",
    "return {} < 1 == 1",
    "return 1 == {} | 2",
    "local t = nil return t[1 == 1]",
};

START_TEST(handwritten_chunks)
{
    struct fixture f;
    fixture_open(&f);
    const char *text = chunks[_i];
    struct outcome want, got;
    run_plain(f.plain, text, &want);
    run_rewritten(f.trace.L, f.arena, text, &got);
    ck_assert_msg(
        want.ok == got.ok && (!want.ok || strcmp(want.text, got.text) == 0),
        "%s\n  plain:     %s\n  rewritten: %s", text, want.text, got.text);
    fixture_close(&f);
}
END_TEST

/* --- random expressions ------------------------------------------- */

struct writer {
    uint64_t seed;
    char text[8192];
    size_t n;
};

static unsigned pick(struct writer *w, unsigned n)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->seed >> 33) % n;
}

static void add(struct writer *w, const char *s)
{
    size_t n = strlen(s);
    if (w->n + n < sizeof w->text) {
        memcpy(w->text + w->n, s, n + 1);
        w->n += n;
    }
}

static const char *const operators[] = {
    "==", "~=", "==", "~=", "<", "<=", ">",  ">=", "|", "~",   "&", "<<",
    ">>", "..", "+",  "-",  "*", "/",  "//", "%",  "^", "and", "or"};
static const char *const atoms[] = {
    "a",          "b",        "c",
    "d",          "s",        "t",
    "n",          "x",        "1",
    "2",          "3.0",      "0x10",
    "1e1",        "\"s\"",    "nil",
    "true",       "false",    "t.k",
    "t[1]",       "f(1)",     "f{2}",
    "g()",        "...",      "(...)",
    "#t",         "m",        "m2",
    "3.",         ".5",       "{1==2}",
    "[[a == b]]", "t[\"k\"]", "function() return 1 == 2 end"};
enum {
    N_OPERATORS = sizeof operators / sizeof *operators,
    N_ATOMS = sizeof atoms / sizeof *atoms
};

static void expression(struct writer *w, int depth)
{
    unsigned what = depth ? pick(w, 10) : 0;
    static const char *const before[] = {"not ", "-", "~", "(", "t["};
    static const char *const after[] = {"", "", "", ")", "]"};
    if (what < 2) {
        add(w, atoms[pick(w, N_ATOMS)]);
    } else if (what < 7) {
        add(w, before[what - 2]);
        /* "--" would start a comment */
        if (what == 3 && w->n > 1 && w->text[w->n - 2] == '-')
            add(w, " ");
        expression(w, depth - 1);
        add(w, after[what - 2]);
    } else if (what == 7 && pick(w, 3) == 0) {
        add(w, "f(");
        expression(w, depth - 1);
        add(w, ") --[[ x == y ]]\n");
    } else if (what == 7) { /* without blanks */
        add(w, pick(w, 2) ? "not(" : "(");
        expression(w, depth - 1);
        add(w, ")");
        add(w, operators[pick(w, N_OPERATORS)]);
        add(w, "(");
        expression(w, depth - 1);
        add(w, ")");
    } else {
        expression(w, depth - 1);
        add(w, pick(w, 8) ? " " : "\n");
        add(w, operators[pick(w, N_OPERATORS)]);
        add(w, " ");
        expression(w, depth - 1);
    }
}

static const char setting[] =
    "local a, b, c, d, s, t, n, x = 1, 2, 3.0, -1, 's', "
    "{5, k = 'v', [true] = 1, [false] = 2}, nil, '10' "
    "local f = function(q) return q end "
    "local g = function() return 1, 2 end "
    "local P = {['__eq'] = function() return true end} "
    "local m, m2 = setmetatable({}, P), setmetatable({}, P) "
    "return (function(...) local t, d, s = t, d, s return ";

START_TEST(random_expressions)
{
    struct fixture f;
    fixture_open(&f);
    struct writer w = {.seed = 20261129};
    long values = 0;
    for (long i = 0; i < n_random; i++) {
        struct outcome want, got;
        struct arena *a = arena_new(&alloc_libc);
        if (i % 20000 == 19999) { /* a state runs for some seconds at most */
            fixture_close(&f);
            fixture_open(&f);
        }
        w.n = 0;
        add(&w, setting);
        expression(&w, 4);
        add(&w, " end)(1, 2)");
        run_plain(f.plain, w.text, &want);
        run_rewritten(f.trace.L, a, w.text, &got);
        ck_assert_msg(want.ok == got.ok &&
                          (!want.ok || strcmp(want.text, got.text) == 0),
                      "%s\n  plain:     %s\n  rewritten: %s",
                      w.text + strlen(setting), want.text, got.text);
        values += want.ok;
        arena_free(a);
    }
    ck_assert_msg(values > n_random / 10, "only %ld of %ld give values", values,
                  n_random);
    fixture_close(&f);
}
END_TEST

/* --- exact text --------------------------------------------------- */

static void expect_text(const char *text, const char *want)
{
    struct arena *a = arena_new(&alloc_libc);
    struct rewritten r = rewrite_source(a, text, strlen(text));
    ck_assert_ptr_nonnull(r.text);
    ck_assert_uint_eq(r.size, strlen(r.text));
    ck_assert_uint_ge(r.size, strlen(REWRITE_HEAD));
    ck_assert_str_eq(r.text + strlen(REWRITE_HEAD), want);
    arena_free(a);
}

START_TEST(text)
{
    expect_text("return a == b", "return a > __eq | b");
    expect_text("return a ~= b", "return a > __ne | b");
    expect_text("x = t[i]", "x = t[__k(i)]");
    expect_text("x = t[1] t['a'] t[ [[b]] ]", "x = t[1] t['a'] t[ [[b]] ]");
    expect_text("x = t[1 + i]", "x = t[__k(1 + i)]");
    expect_text("x = t[u[i]]", "x = t[__k(u[__k(i)])]");
    expect_text("a <= b >= c << d >> e = f ~ g",
                "a <= b >= c << d >> e = f ~ g");
    expect_text("-- a == t[i]\n'~=' \"t[i]\" [[ == ]]",
                "-- a == t[i]\n'~=' \"t[i]\" [[ == ]]");
    expect_text("", "");
    /* conditions */
    expect_text("if a then elseif b.c then end",
                "if __c(a) then elseif __c(b.c) then end");
    expect_text("x = a and b or c", "x = __c(a) and __c(b,0) or c");
    expect_text("x = (a --[[ ]] or b)", "x = (__c(a,0) --[[ ]] or b)");
    expect_text("x = not a and not b.c(d) == e, not f",
                "x = not __c(a) and not __c(b.c(d)) > __eq | e, not __c(f)");
    expect_text("if q >= kv and t then", "if q >= kv and __c(t) then");
    expect_text("x = q + a and -b or a ^ c and #d and e == f and g",
                "x = q + a and -b or a ^ c and #d and e > __eq | f and g");
    expect_text("if (a and b) then", "if __c((__c(a) and b)) then");
    expect_text("if a[i][1](j, not k){l}'s'\n--[[ ]]then",
                "if __c(a[__k(i)][1](j, not __c(k)){l}'s')\n--[[ ]]then");
    expect_text("while a do f(b) end", "while __c(a) do f(b) end");
    expect_text("if(a)then elseif(b)then end x = not(c)and(d) and(e)or(f)",
                "if __c((a))then elseif __c((b))then end "
                "x = not __c((c))and __c((d)) and __c((e),0)or(f)");
    expect_text(
        "while a < b and c or not d do f(e and g) end",
        "while a < b and __c(c,0) or not __c(d) do f(__c(e) and g) end");
    expect_text(
        "while f(function() for i = a, b and c do end end) and d do end",
        "while __c(f(function() for i = a, __c(b) and c do end end)) "
        "and __c(d) do end");
    expect_text("for i = a, b do end", "for i = a, b do end");
    expect_text("repeat until a b()", "repeat until __c(a) b()");
    expect_text("repeat until a < b", "repeat until a < b");
    expect_text("repeat until a and b or c d()",
                "repeat until __c(a) and __c(b,0) or __c(c) d()");
    expect_text("repeat until a == b or c x = d and e",
                "repeat until a > __eq | b or __c(c) x = __c(d) and e");
    expect_text("repeat until (a or b) and c return d and e",
                "repeat until __c((__c(a,0) or b)) and __c(c) return __c(d) "
                "and e");
    expect_text("repeat until a x, y = b and c, d and e",
                "repeat until __c(a) x, y = __c(b) and c, __c(d) and e");
    expect_text("repeat until a -- x", "repeat until __c(a) -- x");
    expect_text("x = not a ::l:: goto l", "x = not __c(a) ::l:: goto l");
    expect_text("x = {a and b, [1] = not c, not d, [e and f] = g}",
                "x = {__c(a) and b, [1] = not __c(c), not __c(d), [__k(__c(e) "
                "and f)] = g}");
    expect_text("x = a .. b and a:b(c) and nil and true and 3.5 and ...",
                "x = a .. b and __c(a:b(c)) and nil and true and 3.5 and ...");
    expect_text("x = function() return not a end and b",
                "x = function() return not __c(a) end and b");
}
END_TEST

START_TEST(reserved_names)
{
    struct arena *a = arena_new(&alloc_libc);
    const char *uses[] = {"local x\nlocal __eq = 1", "x\n= t.__ne",
                          "\nreturn __k", "\nlocal __c"};
    const char *lacks[] = {"local __eqq, a__k, __n = 1", "-- __eq\n'__k'"};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        ck_assert_int_eq(
            rewrite_source(a, uses[i], strlen(uses[i])).reserved_line, 2);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(
            rewrite_source(a, lacks[i], strlen(lacks[i])).reserved_line, 0);
    arena_free(a);
}
END_TEST

/* What the rewriting is for: as plain Lua this is silently false. */
START_TEST(negative_control)
{
    struct fixture f;
    fixture_open(&f);
    struct outcome o;
    run_plain(f.plain,
              "local v = setmetatable({}, {__eq = function() return true end})"
              " return v == 1",
              &o);
    ck_assert_str_eq(o.text, "false");
    fixture_close(&f);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        n_random = strtol(argv[1], NULL, 10);
    Suite *s = suite_create("rewrite");
    TCase *c = tcase_create("rewrite");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, handwritten_chunks, 0,
                        sizeof chunks / sizeof *chunks);
    tcase_add_test(c, random_expressions);
    tcase_add_test(c, text);
    tcase_add_test(c, reserved_names);
    tcase_add_test(c, negative_control);
    suite_add_tcase(s, c);
    return suite_run(s);
}

/* What a file may hold and what each trap gives: a program or the exact
 * message. Small files are made around one function; whole files stand
 * below. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/frontend/frontend.h"
#include "tests/fuzz/modgen.h"

struct load {
    struct arena *arena;
    struct diag diag;
    struct ir_graph *graph;
    struct ir_roots roots;
    int score_paths, mask_paths;
    const char *warning;
    bool ok;
};

static void load_limited(struct load *l, const char *text,
                         const struct compile_limits *limits)
{
    *l = (struct load){0};
    diag_init(&l->diag);
    l->arena = arena_new(&alloc_libc);
    l->graph = ir_graph_new(l->arena, &l->diag, "t.lua");
    l->ok = frontend_load(l->graph, &alloc_libc, "t.lua", text, strlen(text),
                          limits, &l->roots, &l->score_paths, &l->mask_paths,
                          &l->warning);
    ck_assert_msg(l->ok != diag_failed(&l->diag), "%s", text);
    if (l->ok)
        ck_assert_msg(ir_verify(l->graph, &l->roots), "%s\n%s", text,
                      l->diag.message);
}

static void load(struct load *l, const char *text)
{
    load_limited(l, text, NULL);
}

static void unload(struct load *l)
{
    arena_free(l->arena);
}

static const char prelude[] =
    "local facc = require 'facc' "
    "local tb = facc.tensor('tb', 'f32', {2048}) "
    "local ti = facc.tensor('ti', 'i32', {2048}) "
    "local bb = facc.tensor('bb', 'bool', {2048}) "
    "local t2 = facc.tensor('t2', 'f32', {'q', 'kv'}) "
    "local t0 = facc.tensor('t0', 'f32', {}) "
    "local i0 = facc.tensor('i0', 'i32', {}) "
    "local w = facc.param('w', 'i32') "
    "local S = 2048\n";

/* The body stands from line 2 on and gives `score` or `mask`. */
static void load_mod(struct load *l, const char *body)
{
    static char text[8192];
    const char *kind = strstr(body, "mask =") ? "mask" : "score";
    snprintf(text, sizeof text,
             "%slocal score, mask\n%s\nreturn facc.attention { %s_mod = %s }",
             prelude, body, kind, kind);
    load(l, text);
}

/* --- traps -------------------------------------------------------- */

struct trap {
    const char *body;
    const char *message; /* first line wanted; NULL: it loads */
};

static const char impure[] =
    "the function changes a variable or table outside of itself: its result "
    "would depend on how often it runs";
static const char wants_bool[] =
    "the function must return true or false, got a traced number";

static const struct trap traps[] = {
    /* state */
    {"local n = 0\nscore = function(s) n = n + 1 return s + n end",
     "score_mod is not a pure function: traced in another order of its "
     "comparisons it gives another result"},
    {"local n = 0\nscore = function(s, b, h, q, kv) n = n + 1\nif q > kv then "
     "return s end return s + n end",
     impure},
    {"local f = false\nscore = function(s, b, h, q, kv) f = not f\nif q >= kv "
     "then return s + (f and 1 or 0) end return s - 5 end",
     impure},
    {"local m = {}\nmask = function(b, h, q, kv) m[#m + 1] = 1\nif #m > 3 then "
     "return q >= kv end return q <= kv end",
     impure},
    {"local m\nmask = function(b, h, q, kv) m = m or 100 return q - kv < m end",
     NULL},
    {"local k = 0\nmask = function(b, h, q, kv) k = 1 - k\nif q >= kv then "
     "return k == 1 end return false end",
     impure},
    {"mask = function(b, h, q, kv) G = (G or 0) + 1\nif G > 5 then return q > "
     "kv end return q >= kv end",
     impure},
    {"local keep\nscore = function(s, b, h, q, kv) keep = keep or q\nreturn s "
     "+ "
     "keep end",
     "+: a traced value was kept from an earlier run or from inside "
     "facc.where/sum/any/all/max/min"},
    {"local keep\nscore = function(s, b, h, q, kv) if q >= kv then keep = q + "
     "1 end return s + (keep or 0) end",
     "+: a traced value was kept from an earlier run or from inside "
     "facc.where/sum/any/all/max/min"},
    {"score = function(s, b, h, q, kv) local x = 0\nlocal y = "
     "facc.where(function() x = q + 1 return q > kv end, 1, 2)\nreturn s + x "
     "+ y end",
     impure},
    {"score = function(s, b, h, q, kv) local n = 0\nlocal y = facc.sum(3, "
     "function(k) n = n + 1 return kv > k and 1 or 0 end) return s + n + y "
     "end",
     impure},
    {"score = function(s) facc.sum(3, function(k) s = s + k return 0 end) "
     "return s end",
     impure},
    /* plain tables and traced keys */
    {"score = function(s, b, h) local t = {0.5, 0.25}\nreturn s + (t[h + 1] or "
     "0) end",
     "a plain Lua table is indexed with a traced value (line 4); use "
     "facc.tensor for data, or facc.where"},
    {"score = function(s, b, h) local t = {0.5, 0.25}\nreturn s * (t[h] or 1) "
     "end",
     "a plain Lua table is indexed with a traced value (line 4); use "
     "facc.tensor for data, or facc.where"},
    {"score = function(s, b, h) local t = {}\nt[h] = 1\nreturn s end",
     "a plain Lua table is indexed with a traced value (line 4); use "
     "facc.tensor for data, or facc.where"},
    {"score = function(s, b, h) local t = {0.5, 0.25}\nlocal x = t[h]\nreturn "
     "s + tb[0] end",
     "a plain Lua table is indexed with a traced value (line 4); use "
     "facc.tensor for data, or facc.where"},
    {"score = function(s, b, h) local t = 'text'\nlocal x = t[h]\nreturn s + "
     "tb(0) end",
     "a plain Lua table is indexed with a traced value (line 4); use "
     "facc.tensor for data, or facc.where"},
    {"score = function(s) local t = {0.5, 0.25}\nreturn s + (t[i0] or 0) end",
     "a plain Lua table is indexed with a traced value (line 4); use "
     "facc.tensor for data, or facc.where"},
    {"score = function(s, b, h) return s + tb[i0] + t2[i0][h] end", NULL},
    {"score = function(s, b, h) error(42) end", "42"},
    {"score = function(s, b, h) error(h) end",
     "the error object is a traced number"},
    {"score = function(s, b, h) tb[h] = 1 return s end",
     "captured tensors are read-only"},
    {"score = function(s, b, h, q) return s + h[q] end",
     "a traced number is indexed (more indices than the tensor has "
     "dimensions?)"},
    {"score = function(s, b, h) local t = {[h] = 1} return s end",
     "a plain Lua table is indexed with a traced value (line 3); use "
     "facc.tensor for data, or facc.where"},
    {"mask = function(b, h, q, kv) local t = {} for i = 1, 3 do t[i] = q + i "
     "end t.x = kv return t[2] > t.x end",
     NULL},
    /* traced numbers are numbers and nothing else */
    {"score = function(s, b, h) return s + #h end",
     "a traced number has no length"},
    {"score = function(s) for i, v in ipairs(tb) do s = s + v end return s "
     "end",
     "ipairs over a tensor: its length is not known while tracing; use "
     "facc.sum/any/all/max/min"},
    {"score = function(s, b, h) for i = 0, h do s = s + 1 end return s end",
     "bad 'for' limit (number expected, got traced number)"},
    {"score = function(s) return s + '10' end",
     "+: strings are not converted to numbers in a mod (got \"10\")"},
    {"score = function(s, b, h) return '10' * h + s end",
     "*: strings are not converted to numbers in a mod (got \"10\")"},
    {"score = function(s) return s .. 'x' end",
     "a traced value has no text while tracing"},
    {"score = function(s, b, h) return tostring(h) == '1' and s or -s end",
     "a traced value has no text while tracing"},
    {"score = function(s, b, h) return s + #string.format('%d', h) end",
     "bad argument #2 to 'format' (number expected, got traced number)"},
    {"score = function(s, b, h) return s + h.x end",
     "a traced number is indexed (more indices than the tensor has "
     "dimensions?)"},
    {"score = function(s, b, h) return h(s) end", "a traced number is called"},
    {"score = function(s, b, h) h.x = 1 return s end",
     "a traced number is assigned to"},
    {"score = function(s, b, h, q) return s + slopez[h] end",
     "attempt to index a nil value (global 'slopez')"},
    {"mask = function(b, h, q, kv) while true do facc.sum(9, function(k) "
     "return q end) end end",
     "the functions inside facc.sum/any/all/max/min/where run too often: does "
     "a loop never end?"},
    {"mask = function() while true do facc.attention { mask_mod = 'true' } "
     "end end",
     "facc.attention is called inside of a mod"},
    {"mask = function(b, h, q, kv) return q >= windw end",
     "<=: expected a number, but 'windw' is not defined"},
    {"mask = function(b, h, q, kv) return windw ~= q end",
     "a traced number is compared with 'windw', which is not defined"},
    {"mask = function(b, h, q, kv) local w = windw or 4\n"
     "return q ~= nil and q - kv < w end",
     NULL},
    {"mask = function(b, h, q, kv) return q >= nil end",
     "<=: expected a number, got nil (is a name misspelt?)"},
    {"mask = function(b, h, q, kv) return type(q) == 'number' and "
     "math.type(q) == 'integer' and tonumber(q) >= math.tointeger(kv) end",
     NULL},
    {"score = function(s) return s + (math.type(s) == 'float' and 1 or 2) end",
     NULL},
    {"score = function(s) return math.tointeger(s) end",
     "math.tointeger of a traced float; use // or math.floor"},
    /* results */
    {"score = function(s, b, h, q, kv)\nif q >= kv then return s end end",
     "no value is returned on one path (after the comparison in line 4)"},
    {"score = function(s) end", "the function returns no value"},
    {"score = function(s, b, h, q, kv) return q >= kv end",
     "the function must return a number, got a boolean"},
    {"mask = function(b, h, q, kv) return kv % 2 end", wants_bool},
    {"mask = function(b, h, q, kv)\nif q >= kv then return true end end",
     "no value is returned on one path (after the comparison in line 4)"},
    {"score = function(s) return {} end",
     "result: expected a number, got a table"},
    {"score = function(s, b, h, q) return t2[q] end",
     "result: tensor 't2' is used with 1 of its 2 indices"},
    {"mask = function(b, h, q, kv) if kv % 2 then return true end return "
     "false end",
     NULL}, /* the lint warns */
    {"score = function(s) return 7 end", NULL},
    /* tensors */
    {"score = function(s, b, h, q) return s + t2[q] end",
     "+: tensor 't2' is used with 1 of its 2 indices"},
    {"score = function(s, b, h, q) return s + tb[q / 2] end",
     "index 1 of tensor 'tb' is a float; use //"},
    {"score = function(s, b, h, q) return s + tb[2.5] end",
     "index 1 of tensor 'tb' is a float; use //"},
    {"score = function(s, b, h, q) return s + tb[2.0] + tb(q) + t2[q][1] + "
     "t2(q)(1) + t2(q, 1) end",
     NULL},
    {"score = function(s, b, h, q) return s + tb(q, 1) end",
     "tensor 'tb' takes 1 index, got more"},
    {"score = function(s, b, h, q) return s + tb[q][1] end",
     "a traced number is indexed (more indices than the tensor has "
     "dimensions?)"},
    {"score = function(s, b, h, q) return s + tb.data[q] end",
     "tensor 'tb' has no field 'data'; its indices are integers"},
    {"score = function(s) tb[1] = 3 return s end",
     "captured tensors are read-only"},
    {"score = function(s) return s * t0 + t0 / 2 + math.exp(t0) + t0() end",
     NULL},
    {"score = function(s) if t0 > 0 and t0 ~= 1 then return s end return s + "
     "t0 end",
     NULL},
    {"score = function(s) return t0 end", NULL},
    {"score = function(s, b, h, q) return s + tb[ti[ti[q]]] end", NULL},
    {"score = function(s, b, h, q) return s + tb[bb[q]] end",
     "index: expected a number, got a boolean"},
    {"score = function(s, b, h, q) local t = facc.tensor('t', 'f32', {1}) "
     "return s end",
     "facc.tensor is called inside of a mod; declare it before"},
    {"mask = function(b, h, q, kv) return tb == ti or q >= kv end", NULL},
    {"mask = function(b, h, q, kv) return tb == q end",
     "==: tensor 'tb' is used with 0 of its 1 indices"},
    {"mask = function(b, h, q, kv) return t2[q] == t2[kv] end",
     "==: tensor 't2' is used with 1 of its 2 indices"},
    {"mask = function(b, h, q, kv) return bb[q] == true and bb[kv] ~= nil end",
     NULL},
    /* arithmetic */
    {"score = function(s) return s & 1 end", "'&' needs integers, got a float"},
    {"score = function(s, b, h, q) return s + (q & 3.0) end", NULL},
    {"score = function(s, b, h, q) return s + (q & 3.5) end",
     "'&' needs integers, got a float"},
    {"score = function(s, b, h, q) return s + q // 0 end",
     "integer '//' by zero"},
    {"score = function(s, b, h, q) return s + q % 0 end",
     "integer '%' by zero"},
    {"score = function(s, b, h, q) return s + q // 0.0 end", NULL},
    {"score = function(s, b, h, q) return s + (q // 3.0) + (q % 2.5) + (q // "
     "3) end",
     NULL},
    {"score = function(s, b, h, q) return s + ((q * 2654435761) >> 16) % 7 "
     "end",
     NULL},
    {"score = function(s) return math.fmod(s, 2) end",
     "bad argument #1 to 'fmod' (number expected, got traced number)"},
    {"score = function(s) return facc.tanhh(s) end",
     "facc has no field 'tanhh'"},
    {"score = function(s) return facc.exp() end",
     "exp: expected a number, got nothing"},
    {"score = function(s) return facc.silu(s) + facc.gelu(s) + "
     "math.relu(s) + facc.gelu_tanh(s) end",
     NULL},
    /* comparisons */
    {"mask = function(b, h, q, kv) return kv == 3.0 or kv == 4.5 or kv < 2.5 "
     "or kv >= 2e9 or kv ~= kv end",
     NULL},
    {"mask = function(b, h, q, kv) return q < math.huge and kv > -math.huge "
     "and q ~= 0/0 and not (q < 0/0) end",
     NULL},
    {"score = function(s) return s ~= s and 0 or s end", NULL},
    {"mask = function(b, h, q, kv) return q ~= nil and (q == 'q') == false "
     "and q >= kv end",
     NULL},
    {"mask = function(b, h, q, kv) return math.max(q, kv) == q end", NULL},
    {"mask = function(b, h, q, kv) local t = {q, kv, 5} table.sort(t) return "
     "t[1] == 5 end",
     NULL},
    {"mask = function(b, h, q, kv) local function f(n) return n < 100 and f(n "
     "+ 1) or q >= kv end return f(0) end",
     NULL},
    {"local wide = w > 5 mask = function(b, h, q, kv) return wide end",
     "a traced value is compared outside of a mod"},
    /* what the sandbox lacks */
    {"mask = function(b, h, q, kv) return pcall(function() return q end) end",
     "attempt to call a nil value (global 'pcall')"},
    {"mask = function() return coroutine.wrap(print) end",
     "attempt to index a nil value (global 'coroutine')"},
    {"mask = function() return setmetatable({}, {}) end",
     "attempt to call a nil value (global 'setmetatable')"},
    {"mask = function(b, h, q) return getmetatable(q) end",
     "attempt to call a nil value (global 'getmetatable')"},
    {"mask = function(b, h, q, kv) return rawequal(q, kv) end",
     "attempt to call a nil value (global 'rawequal')"},
    {"mask = function() return math.random() < 0.5 end",
     "attempt to call a nil value (field 'random')"},
    {"mask = function() return ('x'):find('x') end",
     "attempt to call a nil value (method 'find')"},
    {"mask = function() return os.time() == io.stdout end",
     "attempt to index a nil value (global 'os')"},
    {"mask = function(b, h, q, kv) local s = ('x'):rep(3, '-') return #s == 5 "
     "and s == 'x-x-x' and q >= kv end",
     NULL},
    {"mask = function(b, h, q, kv) return #('x'):rep(1 << 40) > 0 end",
     "the script needs more than 64 MiB of memory"},
    {"mask = function(b, h, q, kv) return #(''):rep(1 << 62) == 0 and q > kv "
     "end",
     NULL},
    {"score = function(s) return s + require('os').time() end",
     "only 'facc' and 'facc.mods' can be required, not 'os'"},
    /* where and the reductions */
    {"mask = function(b, h, q, kv) return facc.where(q >= kv, true, false) "
     "end",
     NULL},
    {"score = function(s, b, h, q, kv) return facc.where(q, s, 0) end",
     "where: the condition must be a function or a boolean, got a traced "
     "number"},
    {"score = function(s, b, h, q, kv) return facc.where(q > kv, s, true) end",
     "where: the values must both be numbers or both booleans"},
    {"score = function(s, b, h, q, kv) return facc.where(q > kv, s) end",
     "where: expected a number, got nil (is a name misspelt?)"},
    {"score = function(s, b, h, q, kv) return s + facc.sum(q, function(k) "
     "return k end) end",
     "facc.sum: the count must be a plain integer, got a traced number"},
    {"score = function(s, b, h, q, kv) return s + facc.max(0, function(k) "
     "return k end) end",
     "facc.max of nothing"},
    {"score = function(s, b, h, q, kv) return s + facc.sum(0, function(k) "
     "return k end) + facc.max(3, function(k) return q + k end) + facc.min(1, "
     "2, q) end",
     NULL},
    {"mask = function(b, h, q, kv) return facc.any(0, function() return 1 "
     "end) or facc.all(0, function() return 1 end) end",
     NULL},
    {"mask = function(b, h, q, kv) return facc.any(2, function(k) return q "
     "end) end",
     wants_bool},
    {"mask = function(b, h, q, kv) return facc.any(4, function(i) return "
     "facc.all(4, function(j) return (q + i) % (j + 2) ~= 0 or (kv + j) % (i "
     "+ 2) == 0 end) end) end",
     NULL},
    {"mask = function(b, h, q, kv) return facc.any(100, function(i) return q "
     "// 50 == i and kv // 50 == (i * 7) % 40 end) end",
     NULL},
    {"score = function(s, b, h, q, kv) return s + facc.sum(64, function(i) "
     "return (q - kv) % (i + 2) == 0 and i + 1 or 0 end) end",
     NULL},
    {"score = function(s, b, h, q, kv) for i = 1, 40 do s = s + "
     "facc.where(function() return (q - kv) % (i + 1) == 0 end, i, 0) end "
     "return s end",
     NULL},
    /* limits */
    {"score = function(s, b, h, q, kv)\nfor i = 1, 13 do\nif (q - kv) % (i + "
     "1) == 0 then s = s + i end\nend return s end",
     "more than 4096 paths: most comparisons fork in line 5; put the loop's "
     "body into facc.sum/any/all/max/min(n, f), or write "
     "facc.where(function() return c end, a, b)"},
    {"score = function(s, b, h, q, kv)\nlocal i = 0\nwhile (q ~ i) < kv do i "
     "= i + 1 end\nreturn s + i end",
     "more than 512 comparisons on one path; use facc.sum, facc.any or "
     "facc.all for the loop"},
    /* sizes and lengths */
    {"mask = function(b, h, q, kv) return q + facc.size.kv - facc.size.q >= "
     "kv and kv < facc.len.kv(b) and q < facc.len.q(b) and h < facc.size.H "
     "and b < facc.size.B and facc.size.Hkv > 0 end",
     NULL},
    {"score = function(s) return s + facc.size.k end",
     "facc.size has B, H, Hkv, q and kv, not 'k'"},
    {"score = function(s) return s + facc.len.q(s) end",
     "facc.len.q: the sequence must be an integer"},
    /* the standard mods */
    {"score = function(s) return s + facc.mods.causall end",
     "facc.mods has no 'causall'"},
    {"mask = facc.mods.sliding_window('x')",
     "facc.mods.sliding_window: expected a number, got string"},
    {"mask = facc.mods.and_masks(facc.mods.causal, nil, 3)",
     "facc.mods.and_masks: expected functions, got nil"},
    {"mask = facc.mods.and_masks(facc.mods.causal_bottom_right, "
     "facc.mods.or_masks(facc.mods.sliding_window(w), "
     "facc.mods.prefix_lm(ti)), facc.mods.not_mask(facc.mods.document(ti)), "
     "facc.mods.dilated(64, 3), facc.mods.longformer(9, 2), "
     "facc.mods.longformer(9, bb), facc.mods.sinks_window(4, 9), "
     "facc.mods.block_diagonal(96), facc.mods.natten(32, 64, 7))",
     NULL},
    {"score = facc.mods.compose(facc.mods.alibi(), facc.mods.alibi(tb), "
     "facc.mods.softcap(20), facc.mods.softcap_fast(t0), "
     "facc.mods.relative_bias(tb, 100), facc.mods.relative_bias(t2, 100), "
     "facc.mods.t5_bias(t2))",
     NULL},
};

START_TEST(trap)
{
    const struct trap *t = &traps[_i];
    struct load l;
    load_mod(&l, t->body);
    char *end = strchr(l.diag.message, '\n');
    if (end)
        *end = '\0';
    if (t->message)
        ck_assert_msg(!l.ok && strcmp(l.diag.message, t->message) == 0,
                      "%s\n  want: %s\n  got:  %s", t->body, t->message,
                      l.ok ? "no error" : l.diag.message);
    else
        ck_assert_msg(l.ok, "%s\n  %d: %s", t->body, l.diag.line,
                      l.diag.message);
    if (!l.ok) {
        ck_assert_int_eq(l.diag.status, DIAG_SCRIPT);
        ck_assert_str_eq(l.diag.file, "t.lua");
        ck_assert_int_ge(l.diag.line, 3);
    }
    unload(&l);
}
END_TEST

/* --- whole files -------------------------------------------------- */

struct file {
    const char *text;
    int line;
    const char *message; /* the whole message */
};

static const struct file files[] = {
    {"", 1, "the file must return facc.attention{...}, but it returns nothing"},
    {"local facc = require 'facc'\nfacc.attention {}\n", 2,
     "the file must return facc.attention{...}, but it returns nothing"},
    {"return 7", 1,
     "the file must return facc.attention{...}, but it returns a number"},
    {"return {}", 1,
     "the file must return facc.attention{...}, but it returns a table"},
    {"return function() end", 1,
     "the file must return facc.attention{...}, but it returns a function"},
    {"local x = = 1", 1, "unexpected symbol near '='"},
    {"\n\nreturn 'abc", 3, "unfinished string near <eof>"},
    {"return facc.attention {}", 1,
     "attempt to index a nil value (global 'facc')\n"
     "stack traceback:\n\tt.lua:1: in main chunk"},
    {"local __eq = 1\nreturn __eq", 1,
     "the names __eq, __ne and __k are reserved"},
    {"local facc = require 'facc'\nreturn facc.attention {\n  mask = 1 }", 2,
     "facc.attention: unknown key 'mask'; known are score_mod and mask_mod"},
    {"local facc = require 'facc'\nreturn facc.attention { 1 }", 2,
     "facc.attention: keys are score_mod and mask_mod, not a number"},
    {"local facc = require 'facc'\nreturn facc.attention()", 2,
     "facc.attention takes a table { score_mod = …, mask_mod = … }, got "
     "nothing"},
    {"local facc = require 'facc'\nreturn facc.attention { score_mod = 3 }", 2,
     "score_mod must be a function or an expression in a string, got a "
     "number"},
    {"local facc = require 'facc'\n\nlocal t = facc.tensor('t', 'f31', {})", 3,
     "facc.tensor 't': unknown type 'f31'; known are f32 f16 bf16 f8 e4m3 "
     "e5m2 i8 u8 i16 i32 i64 bool"},
    {"local facc = require 'facc'\nlocal t = facc.param('t', 'bool')", 2,
     "facc.param 't': unknown type 'bool'; known are i32 i64 f32"},
    {"local facc = require 'facc'\nlocal t = facc.tensor('t', 'f32', {'S'})", 2,
     "facc.tensor 't': dimension 1 must be a positive integer or one of \"B\" "
     "\"H\" \"Hkv\" \"q\" \"kv\""},
    {"local facc = require 'facc'\nlocal t = facc.tensor('t', 'f32', {4, 0})",
     2,
     "facc.tensor 't': dimension 2 must be a positive integer or one of \"B\" "
     "\"H\" \"Hkv\" \"q\" \"kv\""},
    {"local facc = require 'facc'\nlocal t = facc.tensor('t', 'f32', "
     "{1,2,3,4,5,6})",
     2, "facc.tensor 't': at most 5 dimensions"},
    {"local facc = require 'facc'\nlocal t = facc.tensor('t', 'f32', 'H')", 2,
     "facc.tensor 't': the dimensions must be a table such as { \"H\", 4 }, "
     "got a string"},
    {"local facc = require 'facc'\nlocal t = facc.tensor('a b', 'f32', {})", 2,
     "facc.tensor: 'a b' is not a name (letters, digits and _, at most 63)"},
    {"local facc = require 'facc'\nfacc.tensor('t', 'f32', {})\n"
     "facc.param('t', 'i32')",
     3, "'t' is declared twice"},
    {"local facc = require 'facc'\nlocal flag = facc.tensor('flag', 'bool', "
     "{})\nreturn facc.attention { mask_mod = function(b, h, q, kv)\nif flag "
     "then return q >= kv end return true end }",
     2,
     "tensor 'flag' is never read; a bool tensor of rank 0 is read by calling "
     "it: if flag() then"},
    {"local facc = require 'facc'\nreturn facc.attention {\n"
     "mask_mod = casual }",
     2, "facc.attention: 'casual' is not defined"},
    {"local facc = require 'facc'\nlocal keep = facc.tensor('keep', 'bool', "
     "{'q', 'kv'})\nreturn facc.attention { mask_mod = function(b, h, q, kv)\n"
     "return keep[q] and q >= kv end }",
     4,
     "tensor 'keep' has 2 indices; with fewer it is not read, and a condition "
     "takes it for true"},
    {"local facc = require 'facc'\nreturn facc.attention {\nmask_mod = 'q >=' "
     "}",
     2, "mask_mod:1: unexpected symbol near <eof>"},
    {"local facc = require 'facc'\nreturn facc.attention {\nmask_mod = 'q >= "
     "kv end' }",
     2, "mask_mod:1: <eof> expected near 'end'"},
    {"local facc = require 'facc'\nreturn facc.attention {\nmask_mod = "
     "'true), (false' }",
     2, "mask_mod:1: <eof> expected near ')'"},
    {"local facc = require 'facc'\nreturn facc.attention {\nmask_mod = "
     "'true;' }",
     2, "mask_mod must be one expression, which gives one value"},
    {"local facc = require 'facc'\nreturn facc.attention {\nmask_mod = "
     "'q >= kv\\0' }",
     2, "mask_mod has a NUL character"},
    {"local facc = require 'facc'\nreturn facc.attention {\nscore_mod = "
     "'score + slopes[h]' }",
     2,
     "unknown name 'slopes'; known are score, b, h, q, kv, and the functions "
     "of Lua, math and facc"},
    {"local facc = require 'facc'\n"
     "local function deep(x) return x + nothing.here end\n"
     "local function helper(x)\n  local y = deep(x)\n  return y\nend\n"
     "return facc.attention { score_mod = function(s)\n"
     "  local r = helper(s)\n  return r\nend }",
     2,
     "attempt to index a nil value (global 'nothing')\n"
     "stack traceback:\n"
     "\tt.lua:2: in function 'deep'\n"
     "\tt.lua:4: in function 'helper'\n"
     "\tt.lua:8: in score_mod"},
    {"local facc = require 'facc'\nreturn facc.attention { score_mod = "
     "function(s)\n  return s + facc.sum(3, function(k)\n    return k + "
     "nothing.x\n  end)\nend }",
     4,
     "attempt to index a nil value (global 'nothing')\n"
     "stack traceback:\n"
     "\tt.lua:4: in function <line 3>\n"
     "\tt.lua:3: in score_mod"},
    {"local facc = require 'facc'\nerror('out of ideas')", 2,
     "out of ideas\nstack traceback:\n\tt.lua:2: in main chunk"},
    {"local facc = require 'facc'\nerror({})", 2,
     "the error object is a table\nstack traceback:\n\tt.lua:2: in main "
     "chunk"},
    {"local facc = require 'facc'\nassert(1 == 2, 'no')", 2,
     "no\nstack traceback:\n\tt.lua:2: in main chunk"},
};

START_TEST(file)
{
    const struct file *f = &files[_i];
    struct load l;
    load(&l, f->text);
    ck_assert_msg(!l.ok, "%s", f->text);
    ck_assert_str_eq(l.diag.message, f->message);
    ck_assert_msg(l.diag.line == f->line, "%s\n  line %d", f->text,
                  l.diag.line);
    ck_assert_str_eq(l.diag.file, "t.lua");
    unload(&l);
}
END_TEST

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

/* --- what loading gives ------------------------------------------- */

START_TEST(declarations)
{
    struct load l;
    load(&l, "local facc = require 'facc'\n"
             "local a = facc.tensor('a', 'f8', {'B', 'H', 'Hkv', 'q', 'kv'})\n"
             "local b = facc.tensor('b', 'i64', {3, 4})\n"
             "local w = facc.param('w', 'f32')\n"
             "return facc.attention { mask_mod = function() return true end }");
    ck_assert(l.ok);
    ck_assert_int_eq(l.graph->n_tensors, 2);
    ck_assert_int_eq(l.graph->n_params, 1);
    const struct ir_tensor *a = &l.graph->tensors[0];
    ck_assert_str_eq(a->name, "a");
    ck_assert_int_eq(a->dtype, DTYPE_E4M3);
    ck_assert_int_eq(a->rank, 5);
    ck_assert_int_eq(a->line, 2);
    ck_assert_int_eq(a->dim[0].kind, IR_DIM_B);
    ck_assert_int_eq(a->dim[1].kind, IR_DIM_H);
    ck_assert_int_eq(a->dim[2].kind, IR_DIM_HKV);
    ck_assert_int_eq(a->dim[3].kind, IR_DIM_Q);
    ck_assert_int_eq(a->dim[4].kind, IR_DIM_KV);
    const struct ir_tensor *b = &l.graph->tensors[1];
    ck_assert_int_eq(b->dtype, DTYPE_I64);
    ck_assert_int_eq(b->dim[1].kind, IR_DIM_FIXED);
    ck_assert_int_eq((int)b->dim[1].extent, 4);
    ck_assert_str_eq(l.graph->params[0].name, "w");
    ck_assert_int_eq(l.graph->params[0].dtype, DTYPE_F32);
    ck_assert_int_eq(l.graph->params[0].line, 4);
    unload(&l);
}
END_TEST

static void expect_print(const char *body, const char *want)
{
    struct load l;
    load_mod(&l, body);
    ck_assert_msg(l.ok, "%s: %s", body, l.diag.message);
    struct strbuf b;
    strbuf_init(&b, l.arena);
    ir_print(l.graph, &l.roots, &b);
    ck_assert_str_eq(strbuf_text(&b), want);
    unload(&l);
}

START_TEST(traced_roots)
{
    expect_print("mask = function(b, h, q, kv) return q >= kv end",
                 "%1 = SCORE : float score\n"
                 "%2 = VAR_I kv : int [0, 2147483647] kv\n"
                 "%3 = VAR_I q : int [0, 2147483647] q\n"
                 "%4 = GE0 -%2 + %3 : bool q kv\n"
                 "score = %1\n"
                 "keep = %4\n");
    /* a leaf of -inf is mask, not value */
    expect_print("score = function(s, b, h, q, kv)\nif q >= kv then return s "
                 "end return -math.huge end",
                 "%1 = SCORE : float score\n"
                 "%2 = VAR_I kv : int [0, 2147483647] kv\n"
                 "%3 = VAR_I q : int [0, 2147483647] q\n"
                 "%4 = GE0 -%2 + %3 : bool q kv\n"
                 "score = %1\n"
                 "keep = %4\n");
    expect_print("score = function(s) return 2 end",
                 "%1 = CONST_F 2.0 : float\n"
                 "%2 = CONST_B true : bool\n"
                 "score = %1\n"
                 "keep = %2\n");
}
END_TEST

/* Different spellings, one graph: every pair must print the same. */
START_TEST(spellings)
{
    const char *causal[] = {
        "mask = function(b, h, q, kv) return q >= kv end",
        "mask = function(b, h, q, kv) return kv <= q end",
        "mask = function(b, h, q, kv) return not (q < kv) end",
        "mask = function(b, h, q, kv) if q < kv then return false end return "
        "true end",
        "mask = function(b, h, q, kv) return q - kv >= 0 end",
        "mask = function(b, h, q, kv) return q == kv or q > kv end",
        "mask = function(b, h, q, kv) return kv - q < 1 and true or false end",
        "mask = function(b, h, q, kv) return math.max(q, kv) == q end",
        "mask = 'q >= kv'",
        "mask = 'not (kv > q)'",
        "mask = facc.mods.causal",
        "score = function(s, b, h, q, kv) return q >= kv and s or -math.huge "
        "end",
        "score = 'q >= kv and score or -math.huge'",
    };
    const char *window[] = {
        "mask = function(b, h, q, kv) return q >= kv and q - kv < w end",
        "mask = function(b, h, q, kv) local d = q - kv return 0 <= d and d < w "
        "end",
        "mask = facc.mods.sliding_window(w)",
        "mask = facc.mods.and_masks(facc.mods.causal, function(b, h, q, kv) "
        "return q - kv <= w - 1 end)",
        "mask = 'q >= kv and q - kv < w'",
    };
    const char *alibi[] = {
        "score = function(s, b, h, q, kv) return s + tb[h] * (kv - q) end",
        "score = function(s, b, h, q, kv) return s + (kv - q) * tb(h) end",
        "score = facc.mods.alibi(tb)",
        "score = 'score + tb[h] * (kv - q)'",
    };
    const struct {
        const char **list;
        int n;
    } groups[] = {{causal, sizeof causal / sizeof *causal},
                  {window, sizeof window / sizeof *window},
                  {alibi, sizeof alibi / sizeof *alibi}};
    for (int g = 0; g < 3; g++) {
        char first[4096];
        for (int i = 0; i < groups[g].n; i++) {
            struct load l;
            load_mod(&l, groups[g].list[i]);
            ck_assert_msg(l.ok, "%s: %s", groups[g].list[i], l.diag.message);
            struct strbuf b;
            strbuf_init(&b, l.arena);
            ir_print(l.graph, &l.roots, &b);
            if (i == 0)
                snprintf(first, sizeof first, "%s", strbuf_text(&b));
            ck_assert_msg(strcmp(first, strbuf_text(&b)) == 0, "%s\n%s\n%s",
                          groups[g].list[i], first, strbuf_text(&b));
            unload(&l);
        }
    }
}
END_TEST

START_TEST(paths)
{
    const struct {
        const char *body;
        int paths;
    } list[] = {
        {"mask = function() return true end", 1},
        {"mask = function(b, h, q, kv) return q >= kv end", 2},
        {"mask = function(b, h, q, kv) return q >= kv and q - kv < 9 end", 3},
        /* q >= kv settles kv > q, and q > kv - 5 */
        {"mask = function(b, h, q, kv) return q >= kv or kv > q end", 2},
        {"mask = function(b, h, q, kv) return q >= kv and q > kv - 5 end", 2},
        /* exclusive cases: not 2^n */
        {"mask = function(b, h, q, kv) for i = 1, 8 do if q == i then return "
         "kv == 2 * i end end return false end",
         17},
        {"mask = function(b, h, q, kv) return facc.any(8, function(i) return q "
         "== i and kv == i end) end",
         2},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct load l;
        load_mod(&l, list[i].body);
        ck_assert_msg(l.ok, "%s: %s", list[i].body, l.diag.message);
        ck_assert_msg(l.mask_paths == list[i].paths, "%s: %d", list[i].body,
                      l.mask_paths);
        ck_assert_int_eq(l.score_paths, 1);
        unload(&l);
    }
}
END_TEST

START_TEST(warnings)
{
    const struct {
        const char *body;
        const char *warning;
    } list[] = {
        {"mask = function(b, h, q, kv)\nif kv % 2 then return true end return "
         "false end",
         "line 4: a computed value is never used (every number counts as true "
         "in Lua, 0 too)"},
        {"score = function(s, b, h, q, kv)\nlocal x = q - kv\nreturn s end",
         "line 4: a computed value is never used (every number counts as true "
         "in Lua, 0 too)"},
        {"score = function(s, b, h, q, kv)\nlocal x = q - kv\nif kv > 3 then "
         "return s end return s + x end",
         ""},
        {"mask = function(b, h, q, kv) return kv % 2 == 0 end", ""},
        {"score = function(s, b, h, q, kv) return s + math.abs(q - kv) end",
         ""},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct load l;
        load_mod(&l, list[i].body);
        ck_assert_msg(l.ok, "%s: %s", list[i].body, l.diag.message);
        ck_assert_str_eq(l.warning, list[i].warning);
        unload(&l);
    }
}
END_TEST

/* Nodes carry the user's line, in helpers and standard mods too. */
START_TEST(lines)
{
    struct load l;
    load(&l, "local facc = require 'facc'\n"
             "local t = facc.tensor('t', 'f32', {'H'})\n"
             "local function double(x)\n"
             "  return x * 2\n"
             "end\n"
             "return facc.attention { score_mod = function(s, b, h)\n"
             "  s = double(s)\n"
             "  return s +\n"
             "    t[h]\n"
             "end }");
    ck_assert_msg(l.ok, "%s", l.diag.message);
    uint32_t mul = 0, add = 0, load_line = 0;
    for (uint32_t i = 1; i < l.graph->n_nodes; i++) {
        const struct ir_node *n = &l.graph->nodes[i];
        mul = n->op == IR_FMUL ? n->line : mul;
        add = n->op == IR_FADD ? n->line : add;
        load_line = n->op == IR_LOAD_F ? n->line : load_line;
    }
    ck_assert_uint_eq(mul, 4);
    ck_assert_uint_eq(load_line, 9);
    ck_assert_uint_eq(add, 8);
    unload(&l);
}
END_TEST

/* Lua's order of string keys is another in every state; ours is not. */
START_TEST(order_of_pairs)
{
    char first[4096];
    for (int i = 0; i < 8; i++) {
        struct load l;
        load_mod(&l,
                 "local t = {zeta = 1.5, alpha = 2.5, mid = 3.5, [3] = 4.5, "
                 "[1] = 5.5, beta = 6.5, omega = 7.5, gone = 1}\n"
                 "score = function(s) local first = ''\n"
                 "for k, v in pairs(t) do\nif k == 'alpha' then t.gone = nil "
                 "end s = (s + v) * v\nfirst = first .. k .. ' ' end\n"
                 "assert(first == '1 3 alpha beta mid omega zeta ')\n"
                 "return s end");
        ck_assert_msg(l.ok, "%s", l.diag.message);
        struct strbuf b;
        strbuf_init(&b, l.arena);
        ir_print(l.graph, &l.roots, &b);
        if (i == 0)
            snprintf(first, sizeof first, "%s", strbuf_text(&b));
        ck_assert_str_eq(strbuf_text(&b), first);
        unload(&l);
    }
    struct load l;
    load_mod(&l, "score = function(s, b, h) for k in pairs(h) do s = s + k "
                 "end return s end");
    ck_assert_str_eq(l.diag.message,
                     "pairs over a traced number: it is no table");
    unload(&l);
}
END_TEST

START_TEST(preambles)
{
    const char *text[] = {
        "#!/usr/bin/env facc\nlocal facc = require 'facc'\nreturn "
        "facc.attention {}",
        "\xef\xbb\xbflocal facc = require 'facc'\n\nreturn facc.attention {}",
    };
    for (int i = 0; i < 2; i++) {
        struct load l;
        load(&l, text[i]);
        ck_assert_msg(l.ok, "%s", l.diag.message);
        ck_assert(ir_is(l.graph, l.roots.score, IR_SCORE));
        ck_assert(ir_is(l.graph, l.roots.keep, IR_CONST_B));
        unload(&l);
    }
    struct load l; /* the first line still counts */
    load(&l, "#!facc\nreturn nothing.x");
    ck_assert_int_eq(l.diag.line, 2);
    unload(&l);
}
END_TEST

/* Bytecode could do anything. */
START_TEST(no_bytecode)
{
    struct load l;
    load(&l, "\x1bLua");
    ck_assert(!l.ok);
    ck_assert_ptr_nonnull(strstr(l.diag.message, "binary chunk"));
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
        int score_paths, mask_paths;
        const char *warning;
        if (g) {
            ok = frontend_load(g, &a, "t.lua", text, strlen(text), NULL, &roots,
                               &score_paths, &mask_paths, &warning);
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
        int score_paths, mask_paths;
        const char *warning;
        struct ir_roots r;
        struct diag d;
        modgen((uint64_t)i + 500, w->text);
        diag_init(&d);
        struct arena *a = arena_new(&alloc_libc);
        struct ir_graph *g = ir_graph_new(a, &d, "t.lua");
        if (frontend_load(g, &alloc_libc, "t.lua", w->text, strlen(w->text),
                          NULL, &r, &score_paths, &mask_paths, &warning))
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

/* --- the list of known mods --------------------------------------- */

START_TEST(conformance)
{
    FILE *f = fopen(FACC_SOURCE_DIR "/tests/conformance/mods.lua", "rb");
    ck_assert_ptr_nonnull(f);
    static char text[1 << 17];
    size_t n = fread(text, 1, sizeof text - 64, f);
    fclose(f);
    text[n] = '\0';
    const char *first = "local want = \"S01\"\n";
    ck_assert(strncmp(text, first, strlen(first)) == 0);
    int loaded = 0;
    for (const char *p = text; (p = strstr(p, "(\"")) != NULL; p += 2) {
        static char whole[1 << 18];
        char name[32];
        bool mod = (p > text + 5 && strncmp(p - 5, "score", 5) == 0) ||
                   (p > text + 4 && strncmp(p - 4, "mask", 4) == 0);
        if (!mod || p[-6] == '.' || sscanf(p, "(\"%31[^\"]", name) != 1)
            continue;
        snprintf(whole, sizeof whole, "local want = \"%s\"\n%s", name,
                 text + strlen(first));
        struct load l;
        load(&l, whole);
        ck_assert_msg(l.ok, "%s: line %d: %s", name, l.diag.line,
                      l.diag.message);
        ck_assert_msg(*l.warning == '\0', "%s: %s", name, l.warning);
        unload(&l);
        loaded++;
    }
    ck_assert_int_ge(loaded, 109);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("frontend");
    TCase *c = tcase_create("frontend");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, trap, 0, sizeof traps / sizeof *traps);
    tcase_add_loop_test(c, file, 0, sizeof files / sizeof *files);
    tcase_add_test(c, endless_loop);
    tcase_add_test(c, memory_bomb);
    tcase_add_test(c, stack_overflow);
    tcase_add_test(c, too_many_values);
    tcase_add_test(c, path_limits);
    tcase_add_test(c, declarations);
    tcase_add_test(c, traced_roots);
    tcase_add_test(c, spellings);
    tcase_add_test(c, paths);
    tcase_add_test(c, warnings);
    tcase_add_test(c, lines);
    tcase_add_test(c, order_of_pairs);
    tcase_add_test(c, preambles);
    tcase_add_test(c, no_bytecode);
    tcase_add_test(c, nth_allocation_fails);
    tcase_add_test(c, damaged_files);
    tcase_add_test(c, threads);
    tcase_add_test(c, conformance);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

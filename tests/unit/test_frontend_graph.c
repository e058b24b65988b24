/* What loading gives: declarations, graphs of different spellings, paths,
 * warnings, lines; and that the whole list of known mods loads. */

#include "tests/conformance/list.h"
#include "tests/unit/frontend_fixture.h"

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
        ck_assert_msg(l.facts.mask_paths == list[i].paths, "%s: %d",
                      list[i].body, l.facts.mask_paths);
        ck_assert_int_eq(l.facts.score_paths, 1);
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
         "t.lua:4: warning: a computed value is never used (every number "
         "counts as true in Lua, 0 too)"},
        {"score = function(s, b, h, q, kv)\nlocal x = q - kv\nreturn s end",
         "t.lua:4: warning: a computed value is never used (every number "
         "counts as true in Lua, 0 too)"},
        {"score = function(s, b, h, q, kv)\nlocal x = q - kv\nif kv > 3 then "
         "return s end return s + x end",
         ""},
        {"mask = function(b, h, q, kv)\nif w and q < kv then return false end "
         "return true end",
         "t.lua:4: warning: a computed value is never used (every number "
         "counts as true in Lua, 0 too)"},
        {"mask = function(b, h, q, kv) return not w or q - kv < w end", ""},
        {"mask = function(b, h, q, kv)\nreturn not w or q < kv end",
         "t.lua:4: warning: a computed value is never used (every number "
         "counts as true in Lua, 0 too)"},
        /* the last turn of a loop, a helper's other results */
        {"mask = function(b, h, q, kv) local n = q\nfor k = 1, 3 do\nif n % "
         "2 == kv % 2 then return true end\nn = n // 2\nend return false end",
         ""},
        {"local function at(n) return n // 64, n // 8 % 8, n % 8 end\nmask = "
         "function(b, h, q, kv) local t, y = at(q)\nlocal _, z = at(kv) return "
         "t > z or y == z end",
         ""},
        {"mask = function(b, h, q, kv)\nif q % 2 then return kv // 3 > q end "
         "return false end",
         "t.lua:4: warning: a computed value is never used (every number "
         "counts as true in Lua, 0 too)"},
        {"mask = function(b, h, q, kv) local n = w or 5 return q < n end", ""},
        {"mask = function(b, h, q, kv) return kv % 2 == 0 end", ""},
        {"score = function(s, b, h, q, kv) return s + math.abs(q - kv) end",
         ""},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct load l;
        load_mod(&l, list[i].body);
        ck_assert_msg(l.ok, "%s: %s", list[i].body, l.diag.message);
        ck_assert_str_eq(l.facts.warning, list[i].warning);
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

/* --- the list of known mods --------------------------------------- */

START_TEST(conformance)
{
    static struct list_row rows[LIST_MOST];
    const int n = list_rows(rows);
    for (int k = 0; k < n; k++) {
        struct load l;
        load(&l, list_text(&rows[k]));
        ck_assert_msg(l.ok, "%s.lua:%d: %s", rows[k].file, l.diag.line,
                      l.diag.message);
        ck_assert_msg(*l.facts.warning == '\0', "%s: %s", rows[k].name,
                      l.facts.warning);
        unload(&l);
        for (int j = 0; j < k; j++)
            ck_assert_str_ne(rows[j].name, rows[k].name);
    }
    ck_assert_int_ge(n, 190);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("frontend");
    tcase_add_test(c, declarations);
    tcase_add_test(c, traced_roots);
    tcase_add_test(c, spellings);
    tcase_add_test(c, paths);
    tcase_add_test(c, warnings);
    tcase_add_test(c, lines);
    tcase_add_test(c, order_of_pairs);
    tcase_add_test(c, preambles);
    tcase_add_test(c, no_bytecode);
    tcase_add_test(c, conformance);
    return run_case("frontend_graph", c);
}

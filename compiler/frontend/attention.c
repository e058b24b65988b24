/* facc.attention{score_mod=, mask_mod=}: checks the keys and turns one-line
 * expressions into functions. The result is what the user's file returns.
 * Called by the Lua VM. */
#include "compiler/frontend/trace.h"

#include "compiler/support/strbuf.h"

/* --- what an expression sees -------------------------------------- */

static const char *const parameter[] = {"score", "b", "h", "q", "kv"};

/* The parameters of a score_mod, or of a mask_mod. */
static const char *const *parameters(bool score, int *n)
{
    *n = score ? 5 : 4;
    return score ? parameter : parameter + 1;
}

/* A declared name that is a parameter's could never be read. */
static void l_check_name(lua_State *L, const char *name, bool score)
{
    int n;
    const char *const *p = parameters(score, &n);
    for (int i = 0; i < n; i++)
        if (strcmp(p[i], name) == 0)
            l_fail(L,
                   "'%s' is declared, but in an expression it is the "
                   "parameter of that name; choose another name",
                   name);
}

static void add_names(struct strbuf *b, const struct ir_graph *g, bool score)
{
    int n;
    const char *const *p = parameters(score, &n);
    for (int i = 0; i < n; i++)
        strbuf_addf(b, "%s%s", i ? ", " : "", p[i]);
    for (int i = 0; i < g->n_tensors; i++)
        strbuf_addf(b, ", %s", g->tensors[i].name);
    for (int i = 0; i < g->n_params; i++)
        strbuf_addf(b, ", %s", g->params[i].name);
}

/* __index of the environment: what only the facc table makes, else an error,
 * since nil would make `q == windw` silently false. Upvalue: score. */
static int l_other_name(lua_State *L)
{
    struct trace *t = l_enter(L);
    if (lua_type(L, 2) != LUA_TSTRING)
        l_fail(L, "names are strings, not %s", value_kind_name(L, 2));
    const char *name = lua_tostring(L, 2);
    if (l_push_made_field(L, name))
        return 1;
    struct strbuf b;
    strbuf_init(&b, t->graph->arena);
    add_names(&b, t->graph, lua_toboolean(L, lua_upvalueindex(1)));
    if (b.failed)
        l_fail_recorded(L);
    l_fail(L,
           "unknown name '%s'; known are %s, and the functions of Lua, math "
           "and facc",
           name, b.text);
}

static void l_copy_fields(lua_State *L, int from, int to)
{
    for (lua_pushnil(L); lua_next(L, from); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, to);
    }
}

/* The names an expression sees: Lua's globals and facc's functions, then the
 * declared tensors and params. */
static void l_push_environment(lua_State *L, int facc, bool score)
{
    struct trace *t = trace_of(L);
    l_charge(L, 4000 + 64 * (t->graph->n_tensors + t->graph->n_params));
    lua_createtable(L, 0, 64);
    int env = lua_gettop(L);
    lua_pushglobaltable(L);
    l_copy_fields(L, env + 1, env);
    l_copy_fields(L, facc, env);
    lua_settop(L, env);
    lua_pushvalue(L, facc);
    lua_setfield(L, env, "facc");
    for (int i = 0; i < t->graph->n_tensors; i++) {
        l_check_name(L, t->graph->tensors[i].name, score);
        l_push_view(L, &(struct view){.kind = OBJECT_TENSOR, .tensor = i});
        lua_setfield(L, env, t->graph->tensors[i].name);
    }
    for (int i = 0; i < t->graph->n_params; i++) {
        l_check_name(L, t->graph->params[i].name, score);
        if (!t->env)
            l_push_value(L, ir_param(t->graph, i));
        else if (t->graph->params[i].dtype == DTYPE_F32)
            lua_pushnumber(L, t->env->params[i].f);
        else
            lua_pushinteger(L, t->env->params[i].i);
        lua_setfield(L, env, t->graph->params[i].name);
    }
    lua_createtable(L, 0, 2);
    lua_pushboolean(L, score);
    lua_pushcclosure(L, l_other_name, 1);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, env);
}

/* --- expressions -------------------------------------------------- */

/* Is the text one expression? As it is, so that no bracket in it can close
 * ours, and in parentheses, which hold no list. */
static void l_check_expression(lua_State *L, const char *text,
                               const char *chunk)
{
    struct strbuf b, whole;
    strbuf_init(&b, trace_of(L)->graph->arena);
    strbuf_init(&whole, trace_of(L)->graph->arena);
    strbuf_addf(&b, "return %s", text);
    strbuf_addf(&whole, "return (%s\n)", text);
    if (b.failed || whole.failed)
        l_fail_recorded(L);
    l_load_chunk(L, b.text, b.len, chunk);
    lua_pop(L, 1);
    if (!l_is_chunk(L, whole.text, whole.len, chunk))
        l_fail(L, "%s must be one expression, which gives one value",
               chunk + 1);
}

/* The expression on top becomes a function of the mod's parameters. */
static void l_compile_expression(lua_State *L, int facc, bool score)
{
    struct trace *t = trace_of(L);
    const char *chunk = score ? "=score_mod" : "=mask_mod";
    size_t size;
    const char *x = lua_tolstring(L, -1, &size);
    if (strlen(x) != size)
        l_fail(L, "%s has a NUL character", chunk + 1);
    l_check_expression(L, x, chunk);
    struct strbuf f;
    strbuf_init(&f, t->graph->arena);
    strbuf_addf(&f, "return function(%sb, h, q, kv) return %s\nend",
                score ? "score, " : "", x);
    if (f.failed)
        l_fail_recorded(L);
    lua_pop(L, 1);
    l_load_chunk(L, f.text, f.len, chunk);
    l_push_environment(L, facc, score);
    lua_setupvalue(L, -2, 1); /* _ENV */
    l_run_chunk(L);
}

/* function(q, kv) would be called with b and h: names of parameters that stand
 * elsewhere are an error. The function is on top; one of C has no names. */
static void l_check_parameters(lua_State *L, bool score)
{
    static const char *const names[][2] = {{"score", "score"},
                                           {"b", "batch"},
                                           {"h", "head"},
                                           {"q", "q_idx"},
                                           {"kv", "kv_idx"}};
    enum { N = sizeof names / sizeof *names };
    const char *name;
    for (int i = 1; (name = lua_getlocal(L, NULL, i)) != NULL; i++)
        for (int k = 0; k < N; k++) {
            const bool has =
                !strcmp(name, names[k][0]) || !strcmp(name, names[k][1]);
            if (has && k + score != i)
                l_fail(L, "%s is called as %s, but parameter %d is named '%s'",
                       score ? "score_mod" : "mask_mod",
                       score ? "(score, b, h, q, kv)" : "(b, h, q, kv)", i,
                       name);
        }
}

/* Pushes the function under the key, or nil. True: there is one. */
static bool l_push_mod(lua_State *L, int facc, bool score)
{
    const char *key = score ? "score_mod" : "mask_mod";
    lua_pushstring(L, key);
    lua_rawget(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING)
        l_compile_expression(L, facc, score);
    if (lua_isnil(L, -1))
        return false;
    if (lua_type(L, -1) != LUA_TFUNCTION)
        l_fail(L, "%s must be a function or an expression in a string, got %s",
               key, value_kind_name(L, -1));
    l_check_parameters(L, score);
    return true;
}

/* mask_mod = causal, and no such global: the table has no mask_mod, which
 * would be no mask without a word. */
static void l_check_missing(lua_State *L, const struct attention *a)
{
    const struct trace *t = trace_of(L);
    bool in_table = *t->undefined && t->undefined_line >= t->attention_line;
    if (in_table && !(a->has_score && a->has_mask))
        l_fail(L, "facc.attention: '%s' is not defined", t->undefined);
}

static int l_attention(lua_State *L)
{
    struct trace *t = l_enter(L);
    if (t->scope)
        l_fail(L, "facc.attention is called inside of a mod");
    t->attention_line = (int)t->graph->line;
    if (lua_type(L, 1) != LUA_TTABLE)
        l_fail(L,
               "facc.attention takes a table { score_mod = …, mask_mod = … }, "
               "got %s",
               value_kind_name(L, 1));
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        const char *key =
            lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        if (!key)
            l_fail(L,
                   "facc.attention: keys are score_mod and mask_mod, not "
                   "%s",
                   value_kind_name(L, -2));
        bool whole = strlen(key) == lua_rawlen(L, -2);
        if (!whole ||
            (strcmp(key, "score_mod") != 0 && strcmp(key, "mask_mod") != 0))
            l_fail(L,
                   "facc.attention: unknown key '%s'; known are score_mod and "
                   "mask_mod",
                   key);
    }
    struct attention *a = lua_newuserdatauv(L, sizeof *a, 2);
    *a = (struct attention){.kind = OBJECT_ATTENTION};
    a->has_score = l_push_mod(L, 2, true);
    lua_setiuservalue(L, 3, 1);
    a->has_mask = l_push_mod(L, 2, false);
    lua_setiuservalue(L, 3, 2);
    l_check_missing(L, a);
    return 1;
}

void l_open_attention(lua_State *L, int facc)
{
    lua_pushvalue(L, facc);
    lua_pushcclosure(L, l_attention, 1);
    lua_setfield(L, facc, "attention");
}

/* facc.attention{score_mod=, mask_mod=}: checks the keys and turns one-line
 * expressions into functions. The result is what the user's file returns.
 * Called by the Lua VM. */
#include "compiler/frontend/trace.h"

#include "compiler/support/strbuf.h"

/* The names an expression sees: Lua's globals and facc's functions, then the
 * declared tensors and params. */
static void l_push_environment(lua_State *L, int facc)
{
    struct trace *t = trace_of(L);
    lua_createtable(L, 0, 64);
    int env = lua_gettop(L);
    int from[2];
    lua_pushglobaltable(L);
    from[0] = env + 1;
    from[1] = facc;
    for (int k = 0; k < 2; k++)
        for (lua_pushnil(L); lua_next(L, from[k]); lua_pop(L, 1)) {
            lua_pushvalue(L, -2);
            lua_pushvalue(L, -2);
            lua_rawset(L, env);
        }
    lua_settop(L, env);
    lua_pushvalue(L, facc);
    lua_setfield(L, env, "facc");
    for (int i = 0; i < t->graph->n_tensors; i++) {
        l_push_view(L, &(struct view){.kind = OBJECT_TENSOR, .tensor = i});
        lua_setfield(L, env, t->graph->tensors[i].name);
    }
    for (int i = 0; i < t->graph->n_params; i++) {
        if (!t->env)
            l_push_value(L, ir_param(t->graph, i));
        else if (t->graph->params[i].dtype == DTYPE_F32)
            lua_pushnumber(L, t->env->params[i].f);
        else
            lua_pushinteger(L, t->env->params[i].i);
        lua_setfield(L, env, t->graph->params[i].name);
    }
}

/* The expression on top becomes a function of the mod's parameters. */
static void l_compile_expression(lua_State *L, int facc, bool score)
{
    struct trace *t = trace_of(L);
    const char *chunk = score ? "=score_mod" : "=mask_mod";
    struct strbuf b;
    strbuf_init(&b, t->graph->arena);
    strbuf_add(&b, "return ");
    strbuf_add(&b, lua_tostring(L, -1));
    if (b.failed)
        l_fail_recorded(L);
    l_load_chunk(L, b.text, b.len, chunk); /* is it one expression? */
    lua_pop(L, 2);
    size_t skip = strlen("return ");
    struct strbuf f;
    strbuf_init(&f, t->graph->arena);
    strbuf_addf(&f, "return function(%sb, h, q, kv) return ",
                score ? "score, " : "");
    strbuf_addn(&f, b.text + skip, b.len - skip);
    strbuf_add(&f, "\nend");
    if (f.failed)
        l_fail_recorded(L);
    l_load_chunk(L, f.text, f.len, chunk);
    l_push_environment(L, facc);
    lua_setupvalue(L, -2, 1); /* _ENV */
    l_run_chunk(L);
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
               key, kind_name(L, -1));
    return true;
}

static int l_attention(lua_State *L)
{
    struct trace *t = l_enter(L);
    t->attention_line = (int)t->graph->line;
    if (lua_type(L, 1) != LUA_TTABLE)
        l_fail(L,
               "facc.attention takes a table { score_mod = …, mask_mod = … }, "
               "got %s",
               kind_name(L, 1));
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        const char *key =
            lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        if (!key)
            l_fail(L,
                   "facc.attention: keys are score_mod and mask_mod, not "
                   "%s",
                   kind_name(L, -2));
        if (strcmp(key, "score_mod") != 0 && strcmp(key, "mask_mod") != 0)
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
    return 1;
}

void l_open_attention(lua_State *L, int facc)
{
    lua_pushvalue(L, facc);
    lua_pushcclosure(L, l_attention, 1);
    lua_setfield(L, facc, "attention");
}

/* What a user's file finds: a choice of Lua's library (counted.c), require, and
 * the facc table, put together from dsl.c, tensor.c, scopes.c, attention.c and
 * the embedded mods.lua. Called by state.c. */
#include "compiler/frontend/trace.h"

#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "compiler/emit/emit.h"

/* What stays of a library; the rest is not there. */
static const char *const keep_base[] = {
    "_G",    "_VERSION", "assert",   "error",    "ipairs", "next",
    "pairs", "select",   "tonumber", "tostring", NULL};
static const char *const keep_table[] = {"concat", "insert", "pack", "remove",
                                         "sort",   "unpack", NULL};
static const char *const keep_string[] = {
    "byte", "char", "format", "len", "lower", "reverse", "sub", "upper", NULL};
static const char *const keep_math[] = {
    "abs", "acos",       "asin", "atan", "ceil", "cos", "deg",
    "exp", "floor",      "fmod", "huge", "log",  "max", "maxinteger",
    "min", "mininteger", "modf", "pi",   "rad",  "sin", "sqrt",
    "tan", "tointeger",  "ult",  NULL};

static bool is_listed(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* Opens a library and leaves its table, reduced to the list. */
static void l_open_library(lua_State *L, const char *name, lua_CFunction open,
                           const char *const *list)
{
    luaL_requiref(L, name, open, 1);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pop(L, 1);
        bool gone = lua_type(L, -1) == LUA_TSTRING &&
                    !is_listed(list, lua_tostring(L, -1));
        if (gone) { /* clearing a field is allowed while traversing */
            lua_pushvalue(L, -1);
            lua_pushnil(L);
            lua_settable(L, -4);
        }
    }
}

/* --- what is not there -------------------------------------------- */

static void l_set_index(lua_State *L, int table, lua_CFunction f)
{
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, f);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, table);
}

static int l_mods_index(lua_State *L)
{
    l_enter(L);
    l_fail(L, "facc.mods has no '%s'",
           lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2)
                                         : value_kind_name(L, 2));
}

/* Calls the Lua function that is the upvalue. After `return facc.relu(x)` the
 * user's own frame would be gone, and with it the line of an error; it stays
 * below a function of C. */
static int l_call_standard(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* Of all functions in the field `part` of the table on top. */
static void l_keep_frames(lua_State *L, const char *part)
{
    lua_getfield(L, -1, part);
    const int table = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, table); lua_settop(L, table + 1)) {
        lua_pushcclosure(L, l_call_standard, 1);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, table);
    }
    lua_settop(L, table - 1);
}

/* The standard mods and composed functions, from the embedded mods.lua: the
 * table is made at first use and kept where no user code sees it. */
static const char mods_key[] = "facc.mods.lua";

static void l_push_standard(lua_State *L, const char *part)
{
    if (lua_getfield(L, LUA_REGISTRYINDEX, mods_key) != LUA_TTABLE) {
        const struct embedded_file *f = embedded_find("mods.lua");
        lua_pop(L, 1);
        l_load_chunk(L, f->text, f->size, STANDARD_CHUNK);
        l_run_chunk(L);
        l_keep_frames(L, "mods");
        l_keep_frames(L, "functions");
        lua_getfield(L, -1, "mods");
        l_set_index(L, lua_gettop(L), l_mods_index);
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_setfield(L, LUA_REGISTRYINDEX, mods_key);
    }
    lua_getfield(L, -1, part);
    lua_remove(L, -2);
}

bool l_push_made_field(lua_State *L, const char *name)
{
    bool mods = strcmp(name, "mods") == 0;
    l_push_standard(L, mods ? "mods" : "functions");
    if (mods)
        return true;
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    if (!lua_isnil(L, -1))
        return true;
    lua_pop(L, 1);
    return false;
}

/* __index of the facc table: what is not made in C. */
static int l_facc_index(lua_State *L)
{
    l_enter(L);
    if (lua_type(L, 2) != LUA_TSTRING)
        l_fail(L, "facc has no field of type %s", value_kind_name(L, 2));
    const char *name = lua_tostring(L, 2);
    if (!l_push_made_field(L, name))
        l_fail(L, "facc has no field '%s'", name);
    return 1;
}

/* __index of math, string and table: under math functions that only facc has,
 * else an error: nil would make `q == math.foo` silently false. */
static _Noreturn void l_no_field(lua_State *L, const char *library)
{
    if (lua_type(L, 2) != LUA_TSTRING)
        l_fail(L, "%s has no field of type %s", library, value_kind_name(L, 2));
    l_fail(L, "%s has no '%s'", library, lua_tostring(L, 2));
}

static int l_math_index(lua_State *L)
{
    l_enter(L);
    if (lua_type(L, 2) == LUA_TSTRING) {
        l_push_standard(L, "functions");
        lua_getfield(L, -1, lua_tostring(L, 2));
    }
    if (lua_isnil(L, -1) || lua_type(L, 2) != LUA_TSTRING)
        l_no_field(L, LUA_MATHLIBNAME);
    return 1;
}

static int l_string_index(lua_State *L)
{
    l_enter(L);
    l_no_field(L, LUA_STRLIBNAME);
}

static int l_table_index(lua_State *L)
{
    l_enter(L);
    l_no_field(L, LUA_TABLIBNAME);
}

static int l_require(lua_State *L)
{
    l_enter(L);
    const char *name = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
    bool whole = strlen(name) == lua_rawlen(L, 1); /* no NUL in it */
    if (whole && strcmp(name, "facc") == 0) {
        lua_pushvalue(L, lua_upvalueindex(1));
        return 1;
    }
    if (whole && strcmp(name, "facc.mods") == 0) {
        l_push_standard(L, "mods");
        return 1;
    }
    l_fail(L, "only 'facc' and 'facc.mods' can be required, not '%s'", name);
}

/* __index of the globals: nil, as in plain Lua, but the name is noted, so that
 * a message can tell of it. */
static int l_undefined_global(lua_State *L)
{
    struct trace *t = trace_of(L);
    l_charge(L, 64);
    if (lua_type(L, 2) != LUA_TSTRING)
        return 0;
    snprintf(t->undefined, sizeof t->undefined, "%s", lua_tostring(L, 2));
    t->undefined_line = state_line(L);
    return 0;
}

const char *sandbox_undefined(const struct trace *t)
{
    bool here = *t->undefined && t->undefined_line == (int)t->graph->line;
    return here ? t->undefined : NULL;
}

void l_open_sandbox(lua_State *L)
{
    l_open_library(L, LUA_GNAME, luaopen_base, keep_base);
    l_open_library(L, LUA_TABLIBNAME, luaopen_table, keep_table);
    l_set_index(L, lua_gettop(L), l_table_index);
    l_open_library(L, LUA_STRLIBNAME, luaopen_string, keep_string);
    l_set_index(L, lua_gettop(L), l_string_index);
    l_open_library(L, LUA_MATHLIBNAME, luaopen_math, keep_math);
    l_set_index(L, lua_gettop(L), l_math_index);
    lua_settop(L, 0);
    l_open_counted(L);
    l_open_values(L);
    l_open_sentinels(L);
    lua_createtable(L, 0, 64);
    int facc = lua_gettop(L);
    l_open_functions(L, facc);
    l_open_tensors(L, facc);
    l_open_scopes(L, facc);
    l_open_attention(L, facc);
    l_set_index(L, facc, l_facc_index);
    lua_pushvalue(L, facc);
    lua_pushcclosure(L, l_require, 1);
    lua_setglobal(L, "require");
    lua_pushglobaltable(L);
    l_set_index(L, lua_gettop(L), l_undefined_global);
    lua_settop(L, 0);
}

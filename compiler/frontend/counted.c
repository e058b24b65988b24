/* Lua's library functions whose time grows with their data, pairs in a fixed
 * order, texts without addresses: their work is counted as VM instructions,
 * which the hook sees none of while C runs. Put in place by sandbox.c; called
 * by the Lua VM. */
#include "compiler/frontend/trace.h"

#include <lualib.h>

/* --- Lua's own functions ------------------------------------------ */

/* What a call costs beside its arguments and results. */
enum work {
    WORK_CALL,   /* nothing more */
    WORK_TEXT,   /* numbers to text and back, and the texts handed in */
    WORK_PRINT,  /* the same, of what may have an address */
    WORK_FORMAT, /* the same, by a format */
    WORK_SHIFT,  /* entries from the position in argument 2 on */
    WORK_CONCAT, /* entries of the table, or of the range in arguments 3, 4 */
    WORK_SORT,   /* n log n of them, by the longest text */
    WORK_NEXT    /* from the start over holes of unknown number */
};

static long long log2_of(long long n)
{
    return n > 1 ? 64 - __builtin_clzll((unsigned long long)n) : 1;
}

enum { TEXT_BYTES = 16 /* looked at in the time of one instruction */ };

/* Instructions to look at the value's text, if it has one. */
static long long text_work(lua_State *L, int i)
{
    if (lua_type(L, i) != LUA_TSTRING)
        return 0;
    return (long long)(lua_rawlen(L, i) / TEXT_BYTES);
}

static long long arguments_work(lua_State *L)
{
    long long sum = 0;
    for (int i = lua_gettop(L); i > 0; i--)
        sum += text_work(L, i);
    return sum;
}

/* Of the n entries of the table in argument 1. */
static long long longest_text_work(lua_State *L, long long n)
{
    long long most = 0;
    for (long long i = 1; i <= n; i++) {
        lua_rawgeti(L, 1, i);
        long long work = text_work(L, -1);
        most = work > most ? work : most;
        lua_pop(L, 1);
    }
    return most;
}

static long long concat_work(lua_State *L, long long n)
{
    enum { EACH = 10, MOST = 1 << 30 };
    long long from = lua_isinteger(L, 3) ? lua_tointeger(L, 3) : 1;
    long long to = lua_isinteger(L, 4) ? lua_tointeger(L, 4) : n;
    if (from > to)
        return 0;
    unsigned long long range =
        (unsigned long long)to - (unsigned long long)from;
    return EACH *
           (long long)(range < MOST ? range + 1 : 1); /* ends at a hole */
}

static long long work_of(lua_State *L, enum work work, bool shifts)
{
    enum { TEXT = 200, HOLES = 256 /* bytes of Lua's to one instruction */ };
    if (work == WORK_TEXT || work == WORK_PRINT || work == WORK_FORMAT)
        return TEXT + arguments_work(L);
    if (work == WORK_CALL || lua_type(L, 1) != LUA_TTABLE)
        return 0;
    if (work == WORK_NEXT)
        return lua_isnoneornil(L, 2) ? state_memory(L) / HOLES : 0;
    long long n = (long long)lua_rawlen(L, 1);
    if (work == WORK_SORT)
        return 2 * n * log2_of(n) * (1 + longest_text_work(L, n));
    if (work == WORK_CONCAT)
        return concat_work(L, n);
    long long from = shifts ? lua_tointeger(L, 2) : n;
    return from > 0 && from < n ? n - from : 0;
}

/* The text of a table or function is its type's name: an address is another in
 * every run, and would be in programs and cache keys. */
static void l_hide_address(lua_State *L, int i)
{
    const int type = lua_type(L, i);
    if (type == LUA_TUSERDATA &&
        luaL_getmetafield(L, i, "__tostring") != LUA_TNIL) {
        lua_pop(L, 1); /* which refuses */
        return;
    }
    if (type != LUA_TTABLE && type != LUA_TFUNCTION && type != LUA_TUSERDATA)
        return;
    lua_pushstring(L, lua_typename(L, type));
    lua_replace(L, i);
}

/* Of the arguments of a format. */
static void l_hide_addresses(lua_State *L)
{
    size_t n = 0;
    const char *s =
        lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &n) : "";
    for (size_t i = 0, arg = 2; i < n; i++) {
        if (s[i] != '%')
            continue;
        i += 1 + strspn(s + i + 1, "-+ #0123456789.");
        if (i < n && s[i] == 'p') {
            l_enter(L);
            l_fail(L, "string.format has no %%p: addresses change");
        }
        if (i < n && s[i] == 's' && arg <= (size_t)lua_gettop(L))
            l_hide_address(L, (int)arg);
        arg += i < n && s[i] != '%';
    }
}

/* Upvalues: Lua's function, the kind of work, from how many arguments on one
 * is a position. */
static int l_counted(lua_State *L)
{
    int n = lua_gettop(L);
    enum work work = (enum work)lua_tointeger(L, lua_upvalueindex(2));
    bool shifts = n >= lua_tointeger(L, lua_upvalueindex(3));
    l_charge(L, 16 + n + work_of(L, work, shifts));
    if (work == WORK_PRINT && n > 0)
        l_hide_address(L, 1);
    if (work == WORK_FORMAT)
        l_hide_addresses(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, n, LUA_MULTRET);
    l_charge(L, lua_gettop(L));
    return lua_gettop(L);
}

/* --- pairs in a fixed order --------------------------------------- */

/* Lua's own order of string keys changes from run to run, and with it the
 * order of additions and the cache key. */
static int key_rank(lua_State *L, int i)
{
    int type = lua_type(L, i);
    return type == LUA_TNUMBER ? 0 : type == LUA_TSTRING ? 1 : 2;
}

static int l_key_less(lua_State *L)
{
    int a = key_rank(L, 1);
    int b = key_rank(L, 2);
    l_charge(L, text_work(L, 1));
    lua_pushboolean(L, a < b ||
                           (a == b && a < 2 && lua_compare(L, 1, 2, LUA_OPLT)));
    return 1;
}

/* Upvalues: the keys in order, the table, how many keys were visited. */
static int l_next_pair(lua_State *L)
{
    lua_Integer at = lua_tointeger(L, lua_upvalueindex(3));
    for (;;) {
        lua_settop(L, 0);
        if (lua_rawgeti(L, lua_upvalueindex(1), ++at) == LUA_TNIL)
            return 1;
        lua_pushvalue(L, 1);
        if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL)
            break; /* else it was removed meanwhile */
    }
    lua_pushinteger(L, at);
    lua_replace(L, lua_upvalueindex(3));
    return 2;
}

bool counted_is_iterator(lua_State *L, int i)
{
    return lua_tocfunction(L, i) == l_next_pair;
}

/* Upvalue: table.sort. */
static int l_pairs(lua_State *L)
{
    l_charge(L, 32);
    if (lua_type(L, 1) == LUA_TUSERDATA) {
        l_enter(L);
        l_fail(L, "pairs over %s: it is no table", value_kind_name(L, 1));
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    l_charge(L, work_of(L, WORK_NEXT, false));
    lua_newtable(L);
    lua_Integer n = 0;
    bool sorted = true; /* as lists are */
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_rawseti(L, 2, ++n);
        sorted = sorted && lua_isinteger(L, -2) && lua_tointeger(L, -2) == n;
    }
    l_charge(L, 8 * n);
    if (!sorted) {
        l_charge(L, 8 * n * log2_of(n));
        lua_pushvalue(L, lua_upvalueindex(1));
        lua_pushvalue(L, 2);
        lua_pushcfunction(L, l_key_less);
        lua_call(L, 2, 0);
    }
    lua_pushvalue(L, 1);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, l_next_pair, 3);
    return 1;
}

/* --- library functions -------------------------------------------- */

/* string.rep whose time is bounded by the memory limit. */
static int l_string_rep(lua_State *L)
{
    size_t n, n_sep;
    const char *s = luaL_checklstring(L, 1, &n);
    lua_Integer count = luaL_checkinteger(L, 2);
    const char *sep = luaL_optlstring(L, 3, "", &n_sep);
    struct trace *t = trace_of(L);
    if (count <= 0 || n + n_sep == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if ((size_t)count > t->lua_limit / (n + n_sep))
        l_fail(L, "the script needs more than %zu MiB of memory",
               t->lua_limit >> 20);
    l_charge(L, 2 * count); /* the allocator counts the bytes */
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (lua_Integer k = 0; k < count; k++) {
        if (k)
            luaL_addlstring(&b, sep, n_sep);
        luaL_addlstring(&b, s, n);
    }
    luaL_pushresult(&b);
    return 1;
}

static const struct {
    const char *table, *name;
    enum work work;
    int shifts; /* arguments of the form with a position */
} counted[] = {{LUA_GNAME, "select", WORK_CALL, 0},
               {LUA_GNAME, "next", WORK_NEXT, 0},
               {LUA_GNAME, "tonumber", WORK_TEXT, 0},
               {LUA_GNAME, "tostring", WORK_PRINT, 0},
               {LUA_TABLIBNAME, "concat", WORK_CONCAT, 0},
               {LUA_TABLIBNAME, "insert", WORK_SHIFT, 3},
               {LUA_TABLIBNAME, "pack", WORK_CALL, 0},
               {LUA_TABLIBNAME, "remove", WORK_SHIFT, 2},
               {LUA_TABLIBNAME, "sort", WORK_SORT, 0},
               {LUA_TABLIBNAME, "unpack", WORK_CALL, 0},
               {LUA_STRLIBNAME, "byte", WORK_CALL, 0},
               {LUA_STRLIBNAME, "char", WORK_CALL, 0},
               {LUA_STRLIBNAME, "format", WORK_FORMAT, 0},
               {LUA_STRLIBNAME, "lower", WORK_CALL, 0},
               {LUA_STRLIBNAME, "reverse", WORK_CALL, 0},
               {LUA_STRLIBNAME, "sub", WORK_CALL, 0},
               {LUA_STRLIBNAME, "upper", WORK_CALL, 0}};

void l_open_counted(lua_State *L)
{
    lua_getglobal(L, LUA_TABLIBNAME);
    lua_getfield(L, -1, "sort");
    lua_pushcclosure(L, l_pairs, 1);
    lua_setglobal(L, "pairs");
    lua_getglobal(L, LUA_STRLIBNAME);
    lua_pushcfunction(L, l_string_rep);
    lua_setfield(L, -2, "rep");
    for (size_t k = 0; k < sizeof counted / sizeof *counted; k++) {
        lua_getglobal(L, counted[k].table);
        lua_getfield(L, -1, counted[k].name);
        lua_pushinteger(L, counted[k].work);
        lua_pushinteger(L, counted[k].shifts);
        lua_pushcclosure(L, l_counted, 3);
        lua_setfield(L, -2, counted[k].name);
        lua_settop(L, 0);
    }
}

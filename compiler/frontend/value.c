/* Traced numbers as Lua holds them: making and reading the userdata, and what
 * they refuse (text, length, calls). Arithmetic and comparisons are in
 * operators.c. Called by the other l_ files and the Lua VM. */
#include "compiler/frontend/trace.h"

void *value_object(lua_State *L, int i, enum object_kind kind)
{
    if (lua_type(L, i) != LUA_TUSERDATA)
        return NULL;
    enum object_kind *p = lua_touserdata(L, i);
    return *p == kind ? p : NULL;
}

bool value_is_traced(lua_State *L, int i)
{
    return value_object(L, i, OBJECT_VALUE) != NULL;
}

const char *value_uncalled(lua_State *L, int i)
{
    return lua_isfunction(L, i) ? "; one that makes a mod, as "
                                  "facc.mods.sliding_window(100), is called"
                                : "";
}

const char *value_kind_name(lua_State *L, int i)
{
    if (value_is_traced(L, i))
        return "a traced number";
    if (value_object(L, i, OBJECT_TENSOR))
        return "a tensor";
    if (value_object(L, i, OBJECT_ATTENTION))
        return "the result of facc.attention";
    switch (lua_type(L, i)) {
    case LUA_TNONE:
        return "nothing";
    case LUA_TNUMBER:
        return "a number";
    case LUA_TBOOLEAN:
        return "a boolean";
    case LUA_TSTRING:
        return "a string";
    case LUA_TTABLE:
        return "a table";
    case LUA_TFUNCTION:
        return "a function";
    default:
        return "nil";
    }
}

/* --- making values ------------------------------------------------ */

/* Lua's limits do not count the graph: 24 MiB of nodes, 96 MiB of operands. A
 * sum of n different terms made one by one has n^2 / 2 of them. */
enum { MAX_NODES = 1 << 20, MAX_OPERANDS = 1 << 23 };

void l_push_value(lua_State *L, ir_ref r)
{
    struct trace *t = trace_of(L);
    if (r == IR_NONE || t->graph->failed)
        l_fail_recorded(L);
    if (t->graph->n_nodes > MAX_NODES)
        l_fail(L, "the mod computes more than %d different values", MAX_NODES);
    if (t->graph->n_args > MAX_OPERANDS)
        l_fail(L,
               "the mod's integer sums have more than %d terms in all; make "
               "them shorter, or floats by facc.float",
               MAX_OPERANDS);
    struct traced *u = lua_newuserdatauv(L, sizeof *u, 0);
    *u = (struct traced){OBJECT_VALUE, r, t->scope ? t->scope->run : 0};
    luaL_setmetatable(L, TRACED_NAME);
}

/* Room for node r in the lint's arrays. */
static bool lint_room(struct trace *t, ir_ref r)
{
    if (r < t->lint_cap)
        return true;
    uint32_t cap = t->lint_cap ? t->lint_cap : 256;
    while (cap <= r)
        cap *= 2;
    struct arena *a = t->graph->arena;
    uint32_t *born =
        arena_grow(a, t->born, t->lint_cap * sizeof *born, cap * sizeof *born);
    if (!born)
        return false;
    t->born = born;
    bool *used =
        arena_grow(a, t->used, t->lint_cap * sizeof *used, cap * sizeof *used);
    if (!used)
        return false;
    t->used = used;
    t->lint_cap = cap;
    return true;
}

void l_push_result(lua_State *L, ir_ref r, uint32_t nodes_before)
{
    struct trace *t = trace_of(L);
    if (t->lint && r >= nodes_before && r != IR_NONE) {
        if (!lint_room(t, r))
            l_fail_recorded(L);
        t->born[r] = t->graph->line;
    }
    l_push_value(L, r);
}

void l_lint_condition(lua_State *L, ir_ref r)
{
    struct trace *t = trace_of(L);
    if (!t->lint)
        return;
    if (!lint_room(t, r))
        l_fail_recorded(L);
    if (!t->born[r])
        t->born[r] = t->graph->line;
}

/* --- reading values ----------------------------------------------- */

static ir_ref l_traced_ref(lua_State *L, const struct traced *u,
                           const char *what)
{
    struct trace *t = trace_of(L);
    const struct exploration *s = t->scope;
    while (s && s->run != u->run)
        s = s->up;
    if (u->run && !s)
        l_fail(L,
               "%s: a traced value was kept from an earlier run or from "
               "inside facc.where/sum/any/all/max/min",
               what);
    if (t->lint) {
        if (!lint_room(t, u->ref))
            l_fail_recorded(L);
        t->used[u->ref] = true;
    }
    return u->ref;
}

void l_resolve(lua_State *L, int i)
{
    struct view *v = value_object(L, i, OBJECT_TENSOR);
    if (!v || v->n < trace_of(L)->graph->tensors[v->tensor].rank)
        return;
    i = lua_absindex(L, i);
    l_load_view(L, v);
    lua_replace(L, i);
}

ir_ref l_to_ref(lua_State *L, int i, const char *what)
{
    struct trace *t = trace_of(L);
    struct ir_graph *g = t->graph;
    l_resolve(L, i);
    if (lua_type(L, i) == LUA_TNUMBER)
        return lua_isinteger(L, i) ? ir_const_i(g, lua_tointeger(L, i))
                                   : ir_const_f(g, lua_tonumber(L, i));
    if (lua_type(L, i) == LUA_TBOOLEAN)
        return ir_const_b(g, lua_toboolean(L, i));
    struct traced *u = value_object(L, i, OBJECT_VALUE);
    if (u)
        return l_traced_ref(L, u, what);
    struct view *v = value_object(L, i, OBJECT_TENSOR);
    if (v)
        l_fail(L, "%s: tensor '%s' is used with %d of its %d indices", what,
               g->tensors[v->tensor].name, v->n, g->tensors[v->tensor].rank);
    if (lua_type(L, i) == LUA_TSTRING)
        l_fail(L,
               "%s: strings are not converted to numbers in a mod (got "
               "\"%s\")",
               what, lua_tostring(L, i));
    const char *name = sandbox_undefined(t);
    if (lua_isnil(L, i) && name)
        l_fail(L, "%s: expected a number, but '%s' is not defined", what, name);
    l_fail(L, "%s: expected a number, got %s%s", what, value_kind_name(L, i),
           lua_isnil(L, i) ? " (is a name misspelt?)" : value_uncalled(L, i));
}

ir_ref l_to_number(lua_State *L, int i, const char *what)
{
    ir_ref r = l_to_ref(L, i, what);
    struct ir_graph *g = trace_of(L)->graph;
    if (r == IR_NONE)
        l_fail_recorded(L);
    if (ir_node(g, r)->type == IR_BOOL)
        l_fail(L,
               "%s: expected a number, got a boolean; x and 1 or 0 makes one "
               "of it",
               what);
    return r;
}

/* --- what a traced number cannot do ------------------------------- */

static int l_refuse(lua_State *L)
{
    trace_of(L)->pending_line = 0; /* the key's error would say less */
    l_enter(L);
    l_fail(L, "%s", lua_tostring(L, lua_upvalueindex(1)));
}

static int l_type(lua_State *L)
{
    l_charge(L, 8);
    luaL_checkany(L, 1);
    lua_pushstring(L, value_is_traced(L, 1) ? "number"
                      : value_object(L, 1, OBJECT_TENSOR) != 0
                          ? "tensor"
                          : luaL_typename(L, 1));
    return 1;
}

static int l_math_type(lua_State *L)
{
    luaL_checkany(L, 1);
    l_resolve(L, 1);
    struct traced *u = value_object(L, 1, OBJECT_VALUE);
    if (u)
        lua_pushstring(L, ir_node(trace_of(L)->graph, u->ref)->type == IR_INT
                              ? "integer"
                              : "float");
    else if (lua_type(L, 1) == LUA_TNUMBER)
        lua_pushstring(L, lua_isinteger(L, 1) ? "integer" : "float");
    else
        luaL_pushfail(L);
    return 1;
}

/* tonumber, math.tointeger: a traced number stays what it is. */
static int l_convert(lua_State *L)
{
    if (!lua_isnone(L, 1))
        l_resolve(L, 1);
    struct traced *u = value_object(L, 1, OBJECT_VALUE);
    if (u && lua_toboolean(L, lua_upvalueindex(2)) &&
        ir_node(trace_of(L)->graph, u->ref)->type != IR_INT)
        l_fail(L, "math.tointeger of a traced float; use // or math.floor");
    if (u) {
        lua_settop(L, 1);
        return 1;
    }
    int n = lua_gettop(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, n, 1);
    return 1;
}

/* What math has of numbers alone, and what to write instead. */
static const struct {
    const char *name, *instead;
} plain_only[] = {
    {"acos", ""},
    {"asin", ""},
    {"atan", ""},
    {"deg", "; multiply by 180 / math.pi"},
    {"fmod", "; use %, which rounds down, or x - y * facc.floor(x / y)"},
    {"modf", "; use // 1, % 1 or facc.floor"},
    {"rad", "; multiply by math.pi / 180"},
    {"ult", "; use <"}};
enum { N_PLAIN_ONLY = sizeof plain_only / sizeof *plain_only };

/* Upvalues: Lua's function, its place in the table. */
static int l_plain_only(lua_State *L)
{
    int n = lua_gettop(L);
    l_charge(L, 16 + n);
    for (int i = 1; i <= n; i++) {
        l_resolve(L, i);
        if (value_is_traced(L, i)) {
            lua_Integer k = lua_tointeger(L, lua_upvalueindex(2));
            l_enter(L);
            l_fail(L, "math.%s is not there for traced values%s",
                   plain_only[k].name, plain_only[k].instead);
        }
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, n, LUA_MULTRET);
    return lua_gettop(L);
}

static int l_ipairs(lua_State *L)
{
    l_charge(L, 16);
    if (lua_type(L, 1) == LUA_TUSERDATA) {
        l_enter(L);
        l_fail(L,
               "ipairs over %s: its length is not known while tracing; use "
               "facc.sum/any/all/max/min",
               value_kind_name(L, 1));
    }
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 3);
    return 3;
}

/* --- metatables --------------------------------------------------- */

static void l_set_refusal(lua_State *L, const char *event, const char *text)
{
    lua_pushstring(L, text);
    lua_pushcclosure(L, l_refuse, 1);
    lua_setfield(L, -2, event);
}

static void l_open_metatables(lua_State *L)
{
    luaL_newmetatable(L, TRACED_NAME);
    l_set_operators(L);
    l_set_refusal(L, "__len", "a traced number has no length");
    l_set_refusal(L, "__concat", "a traced value has no text while tracing");
    l_set_refusal(L, "__tostring", "a traced value has no text while tracing");
    l_set_refusal(L, "__index",
                  "a traced number is indexed (more indices than the tensor "
                  "has dimensions?)");
    l_set_refusal(L, "__newindex", "a traced number is assigned to");
    l_set_refusal(L, "__call", "a traced number is called");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    luaL_newmetatable(L, TENSOR_NAME);
    l_set_operators(L);
    l_set_refusal(L, "__len", "use facc.rank for the rank of a tensor");
    l_set_refusal(L, "__concat", "a tensor has no text");
    l_set_refusal(L, "__tostring", "a tensor has no text");
    l_set_refusal(L, "__newindex", "captured tensors are read-only");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 2);
}

/* Puts f in the place of the function `name` of the table on top, with the
 * old one and `flag` as upvalues. */
static void l_wrap(lua_State *L, const char *name, lua_CFunction f, bool flag)
{
    lua_getfield(L, -1, name);
    lua_pushboolean(L, flag);
    lua_pushcclosure(L, f, 2);
    lua_setfield(L, -2, name);
}

void l_open_values(lua_State *L)
{
    l_open_metatables(L);
    lua_pushglobaltable(L);
    l_wrap(L, "ipairs", l_ipairs, false);
    l_wrap(L, "tonumber", l_convert, false);
    lua_pushcfunction(L, l_type);
    lua_setfield(L, -2, "type");
    lua_getfield(L, -1, "math");
    lua_pushcfunction(L, l_math_type);
    lua_setfield(L, -2, "type");
    l_wrap(L, "tointeger", l_convert, true);
    for (int k = 0; k < N_PLAIN_ONLY; k++) {
        lua_getfield(L, -1, plain_only[k].name);
        lua_pushinteger(L, k);
        lua_pushcclosure(L, l_plain_only, 2);
        lua_setfield(L, -2, plain_only[k].name);
    }
    lua_pop(L, 2);
}

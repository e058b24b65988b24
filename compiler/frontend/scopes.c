/* facc.where and facc.sum/any/all/max/min(n, f): inner functions explored in
 * a scope of their own and merged into one value, so that n conditions cost n
 * and not 2^n paths. Called by the Lua VM. */
#include "compiler/frontend/vectors.h"

/* --- where -------------------------------------------------------- */

/* Running on numbers: the type is that of the merge, float if either is. */
static int l_pick(lua_State *L, bool first)
{
    bool to_float = lua_type(L, 2) == LUA_TNUMBER &&
                    !(lua_isinteger(L, 2) && lua_isinteger(L, 3));
    lua_pushvalue(L, first ? 2 : 3);
    if (to_float)
        lua_pushnumber(L, lua_tonumber(L, -1));
    return 1;
}

/* The condition at 1, running on numbers. */
static bool l_plain_condition(lua_State *L)
{
    if (lua_isboolean(L, 1))
        return lua_toboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_call(L, 0, 1);
    if (!lua_isboolean(L, -1))
        l_fail(L, "the function must return true or false, got %s",
               value_kind_name(L, -1));
    return lua_toboolean(L, -1);
}

/* where(condition, a, b): the condition is a boolean, or a function whose
 * comparisons then do not multiply the paths outside. */
static int l_where(lua_State *L)
{
    struct trace *t = l_enter(L);
    struct ir_graph *g = t->graph;
    lua_settop(L, 3);
    bool inner = lua_type(L, 1) == LUA_TFUNCTION;
    l_resolve(L, 1);
    if (!inner && !lua_isboolean(L, 1))
        l_fail(L,
               "where: the condition must be a function or a boolean, got %s",
               value_kind_name(L, 1));
    l_resolve(L, 2);
    l_resolve(L, 3);
    if (lua_isboolean(L, 2) != lua_isboolean(L, 3) && !lua_isnil(L, 3))
        l_fail(L, "where: the values must both be numbers or both booleans");
    if (t->env)
        return l_pick(L, l_plain_condition(L));
    ir_ref a = l_to_ref(L, 2, "where");
    ir_ref b = l_to_ref(L, 3, "where");
    ir_ref c = inner ? l_explore(L, 1, 2, 0, RESULT_BOOL).value
                     : ir_const_b(g, lua_toboolean(L, 1));
    uint32_t before = g->n_nodes;
    ir_ref r = ir_select(g, c, a, b);
    if (r == IR_NONE || g->failed)
        l_fail_recorded(L);
    if (ir_node(g, r)->type == IR_BOOL)
        lua_pushboolean(L, l_fork(L, r));
    else
        l_push_result(L, r, before);
    return 1;
}

/* --- reductions --------------------------------------------------- */

enum reduction { REDUCE_SUM, REDUCE_ANY, REDUCE_ALL, REDUCE_MAX, REDUCE_MIN };
static const char *const reduction_name[] = {"sum", "any", "all", "max", "min"};
static const char *const vector_name[] = {"facc.sum", "facc.any", "facc.all",
                                          "facc.max", "facc.min"};

static lua_Integer l_count(lua_State *L, enum reduction what)
{
    const char *name = reduction_name[what];
    l_resolve(L, 1);
    if (value_is_traced(L, 1))
        l_fail(L,
               "facc.%s: the count must be a plain integer, got a traced "
               "number",
               name);
    int whole = false; /* 8.0 is one, as for Lua's own functions */
    const lua_Integer n =
        lua_type(L, 1) == LUA_TNUMBER ? lua_tointegerx(L, 1, &whole) : 0;
    if (!whole || n < 0)
        l_fail(L, "facc.%s: the count must be an integer from 0, got %s", name,
               lua_type(L, 1) == LUA_TNUMBER ? lua_tostring(L, 1)
                                             : value_kind_name(L, 1));
    if (lua_type(L, 2) != LUA_TFUNCTION)
        l_fail(L, "facc.%s: expected a function, got %s", name,
               value_kind_name(L, 2));
    return n;
}

/* The numbers below and on top become one. */
static void l_combine(lua_State *L, enum reduction what)
{
    if (what != REDUCE_SUM) {
        l_extremum(L, what == REDUCE_MAX);
        return;
    }
    if (!value_is_traced(L, -1) && !value_is_traced(L, -2)) {
        lua_arith(L, LUA_OPADD);
        return;
    }
    struct ir_graph *g = trace_of(L)->graph;
    uint32_t before = g->n_nodes;
    ir_ref x = l_to_number(L, -2, "sum");
    ir_ref y = l_to_number(L, -1, "sum");
    lua_pop(L, 2);
    l_push_result(L, ir_add(g, x, y), before);
}

/* f(k) as one number on top. */
static void l_term(lua_State *L, lua_Integer k, const char *name)
{
    struct trace *t = trace_of(L);
    if (t->env) {
        lua_pushvalue(L, 2);
        lua_pushinteger(L, k);
        lua_call(L, 1, 1);
        l_resolve(L, -1);
        if (lua_type(L, -1) != LUA_TNUMBER)
            l_fail(L, "facc.%s: the function must return a number, got %s",
                   name, value_kind_name(L, -1));
        return;
    }
    lua_pushinteger(L, k);
    ir_ref r = l_explore(L, 2, lua_gettop(L), 1, RESULT_NUMBER).value;
    lua_pop(L, 1);
    const struct ir_node *n = ir_node(t->graph, r);
    if (n->op == IR_CONST_I)
        lua_pushinteger(L, n->i);
    else if (n->op == IR_CONST_F)
        lua_pushnumber(L, n->f);
    else
        l_push_value(L, r);
}

/* (n, f), or one vector. */
static int l_reduce(lua_State *L, enum reduction what)
{
    if (lua_isnoneornil(L, 2) && value_is_vector(L, 1))
        return l_reduce_vector(L, what == REDUCE_MAX, what == REDUCE_SUM,
                               vector_name[what]);
    lua_Integer n = l_count(L, what);
    lua_settop(L, 2);
    if (n == 0 && what != REDUCE_SUM)
        l_fail(L, "facc.%s of nothing", reduction_name[what]);
    if (n == 0)
        lua_pushinteger(L, 0);
    for (lua_Integer k = 0; k < n; k++) {
        l_term(L, k, reduction_name[what]);
        if (k)
            l_combine(L, what);
    }
    return 1;
}

int l_reduce_numbers(lua_State *L, bool max)
{
    return l_reduce(L, max ? REDUCE_MAX : REDUCE_MIN);
}

static int l_sum(lua_State *L)
{
    l_enter(L);
    return l_reduce(L, REDUCE_SUM);
}

/* any and all on numbers stop at the first that settles it. */
static int l_any_all_plain(lua_State *L, lua_Integer n, bool any)
{
    bool result = !any;
    for (lua_Integer k = 0; k < n && result != any; k++) {
        lua_pushvalue(L, 2);
        lua_pushinteger(L, k);
        lua_call(L, 1, 1);
        if (!lua_isboolean(L, -1))
            l_fail(L, "the function must return true or false, got %s",
                   value_kind_name(L, -1));
        result = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    lua_pushboolean(L, result);
    return 1;
}

/* Upvalue: any or all. All terms are collected and joined once: pair by pair
 * would cost n^2. */
static int l_any_all(lua_State *L)
{
    enum { MOST = 1 << 16 };
    struct trace *t = l_enter(L);
    bool any = lua_toboolean(L, lua_upvalueindex(1));
    if (lua_isnoneornil(L, 2) && value_is_vector(L, 1))
        return l_any_all_vector(L, any,
                                vector_name[any ? REDUCE_ANY : REDUCE_ALL]);
    lua_Integer n = l_count(L, any ? REDUCE_ANY : REDUCE_ALL);
    lua_settop(L, 2);
    if (t->env)
        return l_any_all_plain(L, n, any);
    if (n > MOST)
        l_fail(L, "facc.%s: more than %d terms", any ? "any" : "all", MOST);
    ir_ref *term = l_alloc(L, sizeof *term * (size_t)(n + 1));
    for (lua_Integer k = 0; k < n; k++) {
        lua_pushinteger(L, k);
        term[k] = l_explore(L, 2, 3, 1, RESULT_BOOL).value;
        lua_settop(L, 2);
    }
    t->graph->line = (uint32_t)state_line(L);
    ir_ref r = any ? ir_or(t->graph, (size_t)n, term)
                   : ir_and(t->graph, (size_t)n, term);
    lua_pushboolean(L, l_fork(L, r));
    return 1;
}

void l_open_scopes(lua_State *L, int facc)
{
    lua_pushcfunction(L, l_where);
    lua_setfield(L, facc, "where");
    l_open_vectors(L, facc);
    lua_pushcfunction(L, l_sum);
    lua_setfield(L, facc, "sum");
    for (int any = 0; any < 2; any++) {
        lua_pushboolean(L, any);
        lua_pushcclosure(L, l_any_all, 1);
        lua_setfield(L, facc, any ? "any" : "all");
    }
}

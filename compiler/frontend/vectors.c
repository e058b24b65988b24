/* Small vectors: Lua lists, and slices, which are captured tensors whose last
 * index is missing. facc.dot(x, y), facc.sum/any/all/max/min(x) and #slice.
 * Called by the Lua VM and by scopes.c. */
#include "compiler/frontend/vectors.h"

enum { MOST_ELEMENTS = 1024 /* that are written out one by one */ };

/* --- what a vector is ---------------------------------------------------- */

/* The dimension that the view's next index is for. */
static const struct ir_dim *next_dim(lua_State *L, const struct view *v)
{
    const struct ir_tensor *t = &trace_of(L)->graph->tensors[v->tensor];
    return v->n < t->rank ? &t->dim[v->n] : NULL;
}

bool value_is_vector(lua_State *L, int i)
{
    const struct view *v = value_object(L, i, OBJECT_TENSOR);
    return lua_type(L, i) == LUA_TTABLE || (v && next_dim(L, v));
}

/* How many elements; fails for what is no vector. */
static lua_Integer l_length(lua_State *L, int i, const char *what)
{
    struct view *v = value_object(L, i, OBJECT_TENSOR);
    if (lua_type(L, i) == LUA_TTABLE)
        return (lua_Integer)lua_rawlen(L, i);
    if (!v)
        l_fail(L,
               "%s: expected a list of numbers or a tensor without its last "
               "index, got %s",
               what, value_kind_name(L, i));
    const struct ir_tensor *t = &trace_of(L)->graph->tensors[v->tensor];
    if (v->n != t->rank - 1)
        l_fail(L,
               "%s: tensor '%s' has %d of its %d indices; all but the last "
               "are needed",
               what, t->name, v->n, t->rank);
    if (next_dim(L, v)->kind != IR_DIM_FIXED)
        l_fail(L,
               "%s: the last dimension of tensor '%s' must be declared as a "
               "number: its elements are known by then",
               what, t->name);
    return next_dim(L, v)->extent;
}

/* The k-th element, from 0; reading a slice may fork. */
static void l_push_element(lua_State *L, int i, lua_Integer k)
{
    struct trace *t = trace_of(L);
    struct view *v = value_object(L, i, OBJECT_TENSOR);
    if (!v) {
        lua_rawgeti(L, i, k + 1);
        l_resolve(L, -1);
        return;
    }
    struct view one = *v;
    if (t->env)
        one.index.at[one.n++] = k;
    else
        one.index.ref[one.n++] = ir_const_i(t->graph, k);
    l_load_view(L, &one);
}

static lua_Integer l_short_length(lua_State *L, int i, const char *what)
{
    const lua_Integer n = l_length(L, i, what);
    if (n > MOST_ELEMENTS)
        l_fail(L, "%s: %lld elements; at most %d are written out", what,
               (long long)n, MOST_ELEMENTS);
    return n;
}

/* --- #slice --------------------------------------------------------------- */

static int l_len(lua_State *L)
{
    struct trace *t = l_enter(L);
    const struct view *v = lua_touserdata(L, 1);
    const struct ir_dim *d = next_dim(L, v);
    const char *name = t->graph->tensors[v->tensor].name;
    if (!d)
        l_fail(L, "tensor '%s' of rank 0 has no length", name);
    if (d->kind != IR_DIM_FIXED)
        l_fail(L,
               "the length of tensor '%s' is not known while tracing: its "
               "dimension %d is declared by name; facc.size has the sizes of "
               "the call, facc.rank the number of dimensions",
               name, v->n + 1);
    lua_pushinteger(L, d->extent);
    return 1;
}

/* --- facc.dot ------------------------------------------------------------- */

static bool is_float_slice(lua_State *L, int i)
{
    const struct view *v = value_object(L, i, OBJECT_TENSOR);
    return v && dtype_is_float(trace_of(L)->graph->tensors[v->tensor].dtype);
}

static ir_ref l_row(lua_State *L, int i)
{
    struct ir_graph *g = trace_of(L)->graph;
    struct view v = *(struct view *)value_object(L, i, OBJECT_TENSOR);
    v.index.ref[v.n++] = ir_const_i(g, 0);
    return ir_load(g, v.tensor, v.n, v.index.ref);
}

/* Two slices of floats on numbers: in the evaluator's order. */
static void l_dot_numbers(lua_State *L, lua_Integer n)
{
    lua_Number sum = 0;
    for (lua_Integer k = 0; k < n; k++) {
        l_push_element(L, 1, k);
        l_push_element(L, 2, k);
        sum += lua_tonumber(L, -2) * lua_tonumber(L, -1);
        lua_pop(L, 2);
    }
    lua_pushnumber(L, sum);
}

/* Sum of products by Lua's operators. */
static void l_dot_written_out(lua_State *L, lua_Integer n)
{
    l_short_length(L, 1, "facc.dot");
    for (lua_Integer k = 0; k < n; k++) {
        l_push_element(L, 1, k);
        l_push_element(L, 2, k);
        lua_arith(L, LUA_OPMUL);
        if (k)
            lua_arith(L, LUA_OPADD);
    }
}

/* dot(x, y): two slices of floats are one operation, whatever their length. */
static int l_dot(lua_State *L)
{
    struct trace *t = l_enter(L);
    lua_settop(L, 2);
    const lua_Integer n = l_length(L, 1, "facc.dot");
    const lua_Integer m = l_length(L, 2, "facc.dot");
    if (n != m)
        l_fail(L,
               "facc.dot: the first vector has %lld elements, the second "
               "%lld",
               (long long)n, (long long)m);
    if (n == 0)
        lua_pushnumber(L, 0);
    else if (!is_float_slice(L, 1) || !is_float_slice(L, 2))
        l_dot_written_out(L, n);
    else if (t->env)
        l_dot_numbers(L, n);
    else {
        const uint32_t before = t->graph->n_nodes;
        const ir_ref x = l_row(L, 1), y = l_row(L, 2);
        l_push_result(L, ir_dot(t->graph, x, y), before);
    }
    return 1;
}

/* --- reductions ----------------------------------------------------------- */

int l_reduce_vector(lua_State *L, bool max, bool sum, const char *what)
{
    const lua_Integer n = l_short_length(L, 1, what);
    lua_settop(L, 1);
    if (n == 0 && !sum)
        l_fail(L, "%s of nothing", what);
    if (n == 0)
        lua_pushinteger(L, 0);
    for (lua_Integer k = 0; k < n; k++) {
        l_push_element(L, 1, k);
        if (!value_is_traced(L, -1) && lua_type(L, -1) != LUA_TNUMBER)
            l_fail(L, "%s: element %lld is %s, not a number", what,
                   (long long)k + 1, value_kind_name(L, -1));
        if (k && sum)
            lua_arith(L, LUA_OPADD);
        else if (k)
            l_extremum(L, max);
    }
    return 1;
}

/* Of a slice of booleans: one condition, which forks once. */
static int l_any_all_slice(lua_State *L, bool any, lua_Integer n,
                           const char *what)
{
    struct ir_graph *g = trace_of(L)->graph;
    struct view v = *(struct view *)value_object(L, 1, OBJECT_TENSOR);
    if (g->tensors[v.tensor].dtype != DTYPE_BOOL)
        l_fail(L, "%s: tensor '%s' is not one of booleans", what,
               g->tensors[v.tensor].name);
    ir_ref *term = l_alloc(L, sizeof *term * (size_t)(n + 1));
    v.n++;
    for (lua_Integer k = 0; k < n; k++) {
        v.index.ref[v.n - 1] = ir_const_i(g, k);
        term[k] = ir_load(g, v.tensor, v.n, v.index.ref);
    }
    ir_ref r = any ? ir_or(g, (size_t)n, term) : ir_and(g, (size_t)n, term);
    lua_pushboolean(L, l_fork(L, r));
    return 1;
}

int l_any_all_vector(lua_State *L, bool any, const char *what)
{
    const lua_Integer n = l_short_length(L, 1, what);
    lua_settop(L, 1);
    if (value_object(L, 1, OBJECT_TENSOR) && !trace_of(L)->env)
        return l_any_all_slice(L, any, n, what);
    bool result = !any;
    for (lua_Integer k = 0; k < n; k++) {
        l_push_element(L, 1, k);
        if (!lua_isboolean(L, -1))
            l_fail(L, "%s: element %lld is %s, not a boolean", what,
                   (long long)k + 1, value_kind_name(L, -1));
        if (lua_toboolean(L, -1) == any)
            result = any;
        lua_pop(L, 1);
    }
    lua_pushboolean(L, result);
    return 1;
}

void l_open_vectors(lua_State *L, int facc)
{
    lua_pushcfunction(L, l_dot);
    lua_setfield(L, facc, "dot");
    luaL_getmetatable(L, TENSOR_NAME);
    lua_pushcfunction(L, l_len);
    lua_setfield(L, -2, "__len");
    lua_pop(L, 1);
}

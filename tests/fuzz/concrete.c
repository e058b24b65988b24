/* The user's file run by the Lua VM on numbers, nothing traced: what the mods
 * mean, as the oracle of the tests. In: Lua text and the tensors' data; out:
 * one cell's score and keep. Called by test_tracer.c. */
#include "tests/fuzz/concrete.h"

#include <math.h>

#include "compiler/frontend/trace.h"

struct concrete {
    struct trace trace;
    struct arena *arena;
    struct diag diag;
    const char *text;
    size_t size;
    int attention; /* registry reference */
    bool has_score, has_mask;
};

struct cell { /* of the protected call */
    struct concrete *c;
    int64_t at[4]; /* b, h, q, kv */
    double score;
    bool keep;
};

/* --- functions of their own --------------------------------------- */

/* facc's functions of one float on numbers go by ops.def, like the evaluator:
 * here they are the C library's, so that a wrong row of that table shows. */
static double exponential_2(double x)
{
    return exp2(x);
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double reciprocal_root(double x)
{
    return 1 / sqrt(x);
}

static const struct {
    const char *name;
    double (*f)(double x);
    bool whole; /* the result is an int, and an int stays what it is */
} functions[] = {
    {"exp", exp, false},   {"exp2", exponential_2, false},
    {"log2", log2, false}, {"log10", log10, false},
    {"tanh", tanh, false}, {"tanh_fast", tanh, false},
    {"sin", sin, false},   {"sigmoid", sigmoid, false},
    {"cos", cos, false},   {"rsqrt", reciprocal_root, false},
    {"tan", tan, false},   {"sqrt", sqrt, false},
    {"erf", erf, false},   {"floor", floor, true},
    {"ceil", ceil, true},  {"round", rint, true},
};

static int l_own_function(lua_State *L)
{
    const lua_Integer k = lua_tointeger(L, lua_upvalueindex(1));
    lua_settop(L, 1);
    l_resolve(L, 1);
    if (functions[k].whole && lua_isinteger(L, 1))
        return 1;
    const double y = functions[k].f(luaL_checknumber(L, 1));
    if (functions[k].whole)
        lua_pushinteger(L, (lua_Integer)y);
    else
        lua_pushnumber(L, y);
    return 1;
}

static void l_put_functions(lua_State *L)
{
    lua_getglobal(L, "math");
    lua_getglobal(L, "require");
    lua_pushstring(L, "facc");
    lua_call(L, 1, 1);
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
        for (int table = 1; table <= 2; table++) {
            lua_pushinteger(L, (lua_Integer)k);
            lua_pushcclosure(L, l_own_function, 1);
            lua_setfield(L, table, functions[k].name);
        }
    lua_settop(L, 0);
}

/* --- cells -------------------------------------------------------- */

static int l_load_plain(lua_State *L)
{
    struct concrete *c = lua_touserdata(L, 1);
    lua_settop(L, 0);
    l_put_functions(L);
    struct attention *a = l_run_file(L, c->text, c->size);
    c->has_score = a->has_score;
    c->has_mask = a->has_mask;
    c->attention = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

/* Calls mod 1 (score) or 2 (mask); leaves its result. */
static void l_call_mod(lua_State *L, const struct cell *x, int which)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->c->attention);
    lua_getiuservalue(L, -1, which);
    if (which == 1)
        lua_pushnumber(L, x->score);
    for (int i = 0; i < 4; i++)
        lua_pushinteger(L, x->at[i]);
    lua_call(L, which == 1 ? 5 : 4, 1);
    l_resolve(L, -1);
}

static int l_cell(lua_State *L)
{
    struct cell *x = lua_touserdata(L, 1);
    x->keep = true;
    x->c->trace.instructions = 0;
    x->c->trace.mod = "mod"; /* conditions read bool tensors */
    if (x->c->has_score) {
        l_call_mod(L, x, 1);
        if (lua_type(L, -1) != LUA_TNUMBER)
            l_fail(L, "the function must return a number, got %s",
                   value_kind_name(L, -1));
        x->score = lua_tonumber(L, -1);
        x->keep = !(isinf(x->score) && x->score < 0);
    }
    if (x->c->has_mask) {
        l_call_mod(L, x, 2);
        if (!lua_isboolean(L, -1))
            l_fail(L, "the function must return true or false, got %s",
                   value_kind_name(L, -1));
        x->keep = x->keep && lua_toboolean(L, -1);
    }
    return 0;
}

struct concrete *concrete_open(const char *name, const char *text, size_t size,
                               const struct eval_env *env, struct diag *d)
{
    struct arena *arena = arena_new(&alloc_libc);
    struct concrete *c = arena ? arena_alloc(arena, sizeof *c) : NULL;
    struct ir_graph *g = c ? ir_graph_new(arena, &c->diag, name) : NULL;
    if (!g) {
        arena_free(arena);
        diag_nomem(d, "load");
        return NULL;
    }
    *c = (struct concrete){.arena = arena, .text = text, .size = size};
    diag_init(&c->diag);
    c->trace.graph = g;
    c->trace.diag = &c->diag;
    c->trace.env = env;
    if (state_open(&c->trace, &alloc_libc, name, text, size, NULL) &&
        state_call(&c->trace, l_load_plain, c))
        return c;
    *d = c->diag;
    concrete_close(c);
    return NULL;
}

bool concrete_cell(struct concrete *c, int64_t b, int64_t h, int64_t q,
                   int64_t kv, double *score, bool *keep, struct diag *d)
{
    struct cell x = {c, {b, h, q, kv}, *score, true};
    diag_init(&c->diag);
    if (!state_call(&c->trace, l_cell, &x)) {
        *d = c->diag;
        return false;
    }
    *score = x.score;
    *keep = x.keep;
    return true;
}

void concrete_close(struct concrete *c)
{
    if (!c)
        return;
    state_close(&c->trace);
    arena_free(c->arena);
}

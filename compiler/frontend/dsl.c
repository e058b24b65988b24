/* The functions under facc.* and math.*. One per row of ops.def with a DSL
 * name, and those whose type follows their operands: abs, min, max, clamp,
 * log, pow. Traced numbers give IR nodes; plain numbers give numbers, from
 * Lua's own function under math.*, from the op's f64 evaluation under facc.*.
 * Called by the Lua VM. */
#include "compiler/frontend/vectors.h"

#include <math.h>
#include <string.h>

/* Puts rank-0 tensors' values in place; is any argument traced? */
static bool l_any_traced(lua_State *L)
{
    bool any = false;
    for (int i = 1; i <= lua_gettop(L); i++) {
        l_resolve(L, i);
        any |= value_is_traced(L, i);
    }
    return any;
}

static lua_Number l_plain_number(lua_State *L, int i, const char *what)
{
    if (lua_type(L, i) != LUA_TNUMBER)
        l_fail(L, "%s: expected a number, got %s", what, value_kind_name(L, i));
    return lua_tonumber(L, i);
}

/* --- rows of ops.def ---------------------------------------------- */

static ir_ref l_operand_of(lua_State *L, int i, char type, const char *what)
{
    struct ir_graph *g = trace_of(L)->graph;
    ir_ref r = l_to_number(L, i, what);
    if (type == 'f')
        return ir_to_float(g, r);
    if (ir_node(g, r)->type != IR_INT)
        l_fail(L, "%s: expected an integer, got a float", what);
    return r;
}

/* floor, ceil, round of a whole number is that number. */
static bool is_rounding(enum ir_op op)
{
    return op == IR_FLOOR || op == IR_CEIL || op == IR_ROUND;
}

static int l_plain_function(lua_State *L, enum ir_op op)
{
    const struct ir_op_info *info = ir_op_info(op);
    union eval_value x[3] = {{0}, {0}, {0}};
    if (is_rounding(op) && lua_isinteger(L, 1)) {
        lua_settop(L, 1);
        return 1;
    }
    for (int i = 0; i < info->n; i++)
        x[i].f = l_plain_number(L, i + 1, info->dsl);
    if (op == IR_I2F)
        lua_pushnumber(L, x[0].f);
    else if (info->out == IR_INT)
        lua_pushinteger(L, eval_op_f64(op, x).i);
    else
        lua_pushnumber(L, eval_op_f64(op, x).f);
    return 1;
}

/* Upvalues: the op, Lua's function of that name or nil. */
static int l_function(lua_State *L)
{
    struct trace *t = l_enter(L);
    struct ir_graph *g = t->graph;
    enum ir_op op = (enum ir_op)lua_tointeger(L, lua_upvalueindex(1));
    const struct ir_op_info *info = ir_op_info(op);
    if (!l_any_traced(L)) {
        if (lua_isnil(L, lua_upvalueindex(2)))
            return l_plain_function(L, op);
        lua_pushvalue(L, lua_upvalueindex(2));
        lua_insert(L, 1);
        lua_call(L, lua_gettop(L) - 1, 1);
        return 1;
    }
    uint32_t before = g->n_nodes;
    ir_ref x[3];
    if (op == IR_I2F || is_rounding(op)) {
        x[0] = l_to_number(L, 1, info->dsl);
        bool whole = ir_node(g, x[0])->type == IR_INT;
        if (whole && is_rounding(op)) {
            l_push_value(L, x[0]);
            return 1;
        }
        if (op == IR_I2F) {
            l_push_result(L, ir_to_float(g, x[0]), before);
            return 1;
        }
    }
    for (int i = 0; i < info->n; i++)
        x[i] = l_operand_of(L, i + 1, info->in[i], info->dsl);
    l_push_result(L, ir_build(g, op, x), before);
    return 1;
}

/* The op that Lua takes for a base (numbers: 2 and 10), or FLOG: a quotient. */
static enum ir_op log_of_base(lua_State *L, int i)
{
    lua_Number base = lua_type(L, i) == LUA_TNUMBER ? lua_tonumber(L, i) : 0;
    return base == 2 ? IR_FLOG2 : base == 10 ? IR_FLOG10 : IR_FLOG;
}

/* log(x, base): as Lua. Upvalue 1: Lua's function or nil. */
static int l_log(lua_State *L)
{
    struct trace *t = l_enter(L);
    struct ir_graph *g = t->graph;
    bool based = lua_gettop(L) >= 2 && !lua_isnil(L, 2);
    lua_settop(L, based ? 2 : 1);
    if (!l_any_traced(L)) {
        if (!lua_isnil(L, lua_upvalueindex(1))) {
            lua_pushvalue(L, lua_upvalueindex(1));
            lua_insert(L, 1);
            lua_call(L, lua_gettop(L) - 1, 1);
            return 1;
        }
        lua_Number x = l_plain_number(L, 1, "log");
        lua_Number base = based ? l_plain_number(L, 2, "log") : 0;
        lua_pushnumber(L, !based       ? log(x)
                          : base == 2  ? log2(x)
                          : base == 10 ? log10(x)
                                       : log(x) / log(base));
        return 1;
    }
    uint32_t before = g->n_nodes;
    enum ir_op op = based ? log_of_base(L, 2) : IR_FLOG;
    ir_ref x = l_operand_of(L, 1, 'f', "log");
    ir_ref r = ir_build(g, op, &x);
    if (based && op == IR_FLOG) {
        ir_ref base = l_operand_of(L, 2, 'f', "log");
        r = ir_div(g, r, ir_build(g, IR_FLOG, &base));
    }
    l_push_result(L, r, before);
    return 1;
}

/* --- functions of int or float ------------------------------------ */

/* pow(x, y): what the operator ^ gives. */
static int l_pow(lua_State *L)
{
    struct trace *t = l_enter(L);
    struct ir_graph *g = t->graph;
    lua_settop(L, 2);
    if (!l_any_traced(L)) {
        l_plain_number(L, 1, "pow");
        l_plain_number(L, 2, "pow");
        lua_arith(L, LUA_OPPOW);
        return 1;
    }
    uint32_t before = g->n_nodes;
    ir_ref x = l_to_number(L, 1, "pow");
    ir_ref y = l_to_number(L, 2, "pow");
    l_push_result(L, ir_pow(g, x, y), before);
    return 1;
}

static int l_abs(lua_State *L)
{
    struct trace *t = l_enter(L);
    lua_settop(L, 1);
    if (l_any_traced(L)) {
        uint32_t before = t->graph->n_nodes;
        ir_ref x = l_to_number(L, 1, "abs");
        l_push_result(L, ir_abs(t->graph, x), before);
        return 1;
    }
    lua_Number x = l_plain_number(L, 1, "abs");
    if (!lua_isinteger(L, 1))
        lua_pushnumber(L, fabs(x));
    else if (lua_tointeger(L, 1) < 0)
        lua_arith(L, LUA_OPUNM);
    return 1;
}

void l_extremum(lua_State *L, bool max)
{
    struct ir_graph *g = trace_of(L)->graph;
    const char *what = max ? "max" : "min";
    if (value_is_traced(L, -1) || value_is_traced(L, -2)) {
        uint32_t before = g->n_nodes;
        ir_ref x = l_to_number(L, -2, what);
        ir_ref y = l_to_number(L, -1, what);
        ir_ref r = max ? ir_max(g, x, y) : ir_min(g, x, y);
        lua_pop(L, 2);
        l_push_result(L, r, before);
        return;
    }
    lua_Number x = l_plain_number(L, -2, what);
    lua_Number y = l_plain_number(L, -1, what);
    bool ints = lua_isinteger(L, -2) && lua_isinteger(L, -1);
    bool second = ints ? lua_compare(L, max ? -2 : -1, max ? -1 : -2, LUA_OPLT)
                       : (max ? x < y : y < x);
    lua_pop(L, second ? 0 : 1);
    if (second)
        lua_remove(L, -2);
    if (!ints && lua_isinteger(L, -1)) { /* a mixed result is a float */
        lua_Number v = lua_tonumber(L, -1);
        lua_pop(L, 1);
        lua_pushnumber(L, v);
    }
}

/* max(a, b, …), min(a, b, …). Upvalues: max or not; under math.* Lua's own
 * function, under facc.* nil: there (n, function) reduces. */
static int l_max_min(lua_State *L)
{
    bool max = lua_toboolean(L, lua_upvalueindex(1));
    l_enter(L);
    int n = lua_gettop(L);
    bool under_math = !lua_isnil(L, lua_upvalueindex(2));
    if (!under_math &&
        (lua_type(L, 2) == LUA_TFUNCTION || (n == 1 && value_is_vector(L, 1))))
        return l_reduce_numbers(L, max);
    if (!l_any_traced(L) && under_math) {
        lua_pushvalue(L, lua_upvalueindex(2));
        lua_insert(L, 1);
        lua_call(L, n, 1);
        return 1;
    }
    if (n == 0)
        l_fail(L, "%s: expected a number, got nothing", max ? "max" : "min");
    lua_pushvalue(L, 1);
    if (n == 1)
        l_to_number(L, 1, max ? "max" : "min");
    for (int i = 2; i <= n; i++) {
        lua_pushvalue(L, i);
        l_extremum(L, max);
    }
    return 1;
}

/* clamp(x, low, high) = min(max(x, low), high) */
static int l_clamp(lua_State *L)
{
    l_enter(L);
    lua_settop(L, 3);
    l_any_traced(L);
    for (int i = 1; i <= 3; i++)
        if (!value_is_traced(L, i))
            l_plain_number(L, i, "clamp");
    lua_insert(L, 1); /* high, x, low */
    l_extremum(L, true);
    lua_insert(L, 1);
    l_extremum(L, false);
    return 1;
}

/* --- the tables --------------------------------------------------- */

/* Under facc.NAME and math.NAME; n upvalues on top before Lua's own. */
static void l_set_both(lua_State *L, int facc, int math, const char *name,
                       lua_CFunction f, int n)
{
    int first = lua_gettop(L) - n + 1;
    for (int k = 0; k < n; k++)
        lua_pushvalue(L, first + k);
    lua_pushnil(L);
    lua_pushcclosure(L, f, n + 1);
    lua_setfield(L, facc, name);
    lua_pushstring(L, name);
    lua_rawget(L, math);
    lua_pushcclosure(L, f, n + 1);
    lua_setfield(L, math, name);
}

void l_open_functions(lua_State *L, int facc)
{
    lua_getglobal(L, "math");
    int math = lua_gettop(L);
    for (int op = 1; op < IR_OP_COUNT; op++) {
        const struct ir_op_info *info = ir_op_info((enum ir_op)op);
        if (!*info->dsl || op == IR_FPOW || op == IR_FLOG)
            continue;
        lua_pushinteger(L, op);
        l_set_both(L, facc, math, info->dsl, l_function, 1);
    }
    l_set_both(L, facc, math, "log", l_log, 0);
    l_set_both(L, facc, math, "pow", l_pow, 0);
    l_set_both(L, facc, math, "abs", l_abs, 0);
    l_set_both(L, facc, math, "clamp", l_clamp, 0);
    for (int max = 0; max < 2; max++) {
        lua_pushboolean(L, max);
        l_set_both(L, facc, math, max ? "max" : "min", l_max_min, 1);
    }
    lua_settop(L, math - 1);
}

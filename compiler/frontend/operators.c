/* Operators on traced numbers and rank-0 tensors: arithmetic builds IR nodes,
 * comparisons fork, and the sentinels stand behind the rewritten == ~= and
 * index keys (rewrite.h). Called by the Lua VM only. */
#include "compiler/frontend/trace.h"

static const char eq_name[] = "facc.eq";
static const char operand_name[] = "facc.operand";

/* --- arithmetic --------------------------------------------------- */

static const char *const operator_text[] = {
    [LUA_OPADD] = "+",   [LUA_OPSUB] = "-",  [LUA_OPMUL] = "*",
    [LUA_OPMOD] = "%",   [LUA_OPPOW] = "^",  [LUA_OPDIV] = "/",
    [LUA_OPIDIV] = "//", [LUA_OPBAND] = "&", [LUA_OPBOR] = "|",
    [LUA_OPBXOR] = "~",  [LUA_OPSHL] = "<<", [LUA_OPSHR] = ">>",
    [LUA_OPUNM] = "-",   [LUA_OPBNOT] = "~"};

static bool is_bitwise(int op)
{
    return op == LUA_OPBNOT || (op >= LUA_OPBAND && op <= LUA_OPSHR);
}

/* ~x is -x - 1. */
static ir_ref complement(struct ir_graph *g, ir_ref a)
{
    return ir_sub(g, ir_neg(g, a), ir_const_i(g, 1));
}

static ir_ref binary(struct ir_graph *g, int op, ir_ref a, ir_ref b)
{
    ir_ref x[2] = {a, b};
    switch (op) {
    case LUA_OPADD:
        return ir_add(g, a, b);
    case LUA_OPSUB:
        return ir_sub(g, a, b);
    case LUA_OPMUL:
        return ir_mul(g, a, b);
    case LUA_OPDIV:
        return ir_div(g, a, b);
    case LUA_OPPOW:
        return ir_pow(g, a, b);
    case LUA_OPIDIV:
        return ir_floordiv(g, a, b);
    case LUA_OPMOD:
        return ir_floormod(g, a, b);
    case LUA_OPBAND:
        return ir_build(g, IR_IAND, x);
    case LUA_OPBOR:
        return ir_build(g, IR_IOR, x);
    case LUA_OPBXOR:
        return ir_build(g, IR_IXOR, x);
    case LUA_OPSHL:
        return ir_build(g, IR_ISHL, x);
    case LUA_OPSHR:
        return ir_build(g, IR_ISHR, x);
    case LUA_OPUNM:
        return ir_neg(g, a);
    default:
        return complement(g, a);
    }
}

/* Plain numbers after all: running on numbers, or rank-0 tensors there. */
static int l_plain_arith(lua_State *L, int op)
{
    lua_settop(L, op == LUA_OPUNM || op == LUA_OPBNOT ? 1 : 2);
    lua_arith(L, op);
    return 1;
}

static ir_ref l_whole(lua_State *L, int i, int op)
{
    struct ir_graph *g = trace_of(L)->graph;
    const char *text = operator_text[op];
    ir_ref r;
    if (lua_type(L, i) == LUA_TNUMBER && !lua_isinteger(L, i)) {
        int exact; /* Lua takes 3.0 for 3 here */
        lua_Integer v = lua_tointegerx(L, i, &exact);
        if (exact)
            return ir_const_i(g, v);
    }
    r = l_to_number(L, i, text);
    if (ir_node(g, r)->type != IR_INT)
        l_fail(L, "'%s' needs integers, got a float", text);
    return r;
}

static int l_arith(lua_State *L)
{
    struct trace *t = l_enter(L);
    struct ir_graph *g = t->graph;
    int op = (int)lua_tointeger(L, lua_upvalueindex(1));
    l_resolve(L, 1);
    l_resolve(L, 2);
    if (t->env)
        return l_plain_arith(L, op);
    uint32_t before = g->n_nodes;
    ir_ref a, b;
    if (is_bitwise(op)) {
        a = l_whole(L, 1, op);
        b = l_whole(L, 2, op);
    } else {
        a = l_to_number(L, 1, operator_text[op]);
        b = l_to_number(L, 2, operator_text[op]);
    }
    const struct ir_node *y = ir_node(g, b);
    l_charge(L, 4 * ((long long)ir_node(g, a)->n + y->n));
    bool divides = op == LUA_OPIDIV || op == LUA_OPMOD;
    if (divides && y->op == IR_CONST_I && y->i == 0 &&
        ir_node(g, a)->type == IR_INT)
        l_fail(L, "integer '%s' by zero", operator_text[op]);
    l_push_result(L, binary(g, op, a, b), before);
    return 1;
}

/* --- comparisons -------------------------------------------------- */

/* A comparison is one inequality over the difference, which must stay inside
 * 64 bits. x may be anything (a shift, bits of a negative number): against a
 * y below 2^61 it may be clamped to 2^62. */
static ir_ref narrow(struct ir_graph *g, ir_ref x, ir_ref y)
{
    const int64_t limit = (int64_t)1 << 62;
    const struct ir_node *n = ir_node(g, x);
    const struct ir_node *m = ir_node(g, y);
    bool small = m->type == IR_INT && m->lo >= -limit / 2 && m->hi <= limit / 2;
    if (n->type != IR_INT || !small || (n->lo >= -limit && n->hi <= limit))
        return x;
    return ir_max(g, ir_min(g, x, ir_const_i(g, limit)), ir_const_i(g, -limit));
}

/* == < <= of the values at i and j, one of them traced. */
static bool l_compare_traced(lua_State *L, int op, int i, int j)
{
    struct ir_graph *g = trace_of(L)->graph;
    /* Lua asks for q >= kv by kv <= q: which of them was written is not known
     */
    const char *what = op == LUA_OPEQ ? "==" : "comparison";
    ir_ref x = l_to_number(L, i, what);
    ir_ref y = l_to_number(L, j, what);
    l_charge(L, 4 * ((long long)ir_node(g, x)->n + ir_node(g, y)->n));
    ir_ref a = narrow(g, x, y);
    ir_ref b = narrow(g, y, x);
    if (a == IR_NONE || b == IR_NONE)
        l_fail_recorded(L);
    ir_ref c = op == LUA_OPEQ   ? ir_eq(g, a, b)
               : op == LUA_OPLT ? ir_lt(g, a, b)
                                : ir_le(g, a, b);
    return l_fork(L, c);
}

static int l_order(lua_State *L)
{
    struct trace *t = l_enter(L);
    int op = (int)lua_tointeger(L, lua_upvalueindex(1));
    l_resolve(L, 1);
    l_resolve(L, 2);
    lua_pushboolean(L, t->env ? lua_compare(L, 1, 2, op)
                              : l_compare_traced(L, op, 1, 2));
    return 1;
}

/* Argument 1, which the rewriting puts there. A file could come by a sentinel
 * through its own `...` and write it elsewhere. */
static struct comparison *l_comparison(lua_State *L)
{
    struct comparison *c = value_object(L, 1, OBJECT_EQ);
    if (!c)
        c = value_object(L, 1, OBJECT_OPERAND);
    if (!c)
        l_fail(L, "a part of a comparison is used as a value");
    return c;
}

/* (__eq | b), or (that | c): wraps the right side of a comparison. */
static int l_operand(lua_State *L)
{
    struct comparison *from = l_comparison(L);
    bool negated = from->negated;
    lua_settop(L, 2);
    if (from->kind == OBJECT_OPERAND) { /* a == b | c */
        lua_getiuservalue(L, 1, 1);
        lua_insert(L, 2);
        lua_arith(L, LUA_OPBOR);
    }
    struct comparison *w = lua_newuserdatauv(L, sizeof *w, 1);
    *w = (struct comparison){OBJECT_OPERAND, negated};
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, operand_name);
    return 1;
}

/* A tensor without all of its indices is no number and no condition:
 * comparing it with one would be silently false. */
static void l_check_complete(lua_State *L, int i, int other)
{
    struct view *v = value_object(L, i, OBJECT_TENSOR);
    if (v && (v->n > 0 || value_is_traced(L, other) ||
              lua_type(L, other) == LUA_TNUMBER || lua_isboolean(L, other)))
        l_to_ref(L, i, "==");
}

/* The same for a name that is not defined. A nil from elsewhere is compared as
 * in plain Lua. */
static void l_check_defined(lua_State *L, int i, int other)
{
    struct trace *t = trace_of(L);
    const char *name = sandbox_undefined(t);
    if (name && lua_isnil(L, i) && value_is_traced(L, other))
        l_fail(L, "a traced number is compared with '%s', which is not defined",
               name);
}

/* In Lua a boolean equals no number, whatever both are. */
static void l_check_boolean(lua_State *L, int i, int other)
{
    if (trace_of(L)->scope && lua_isboolean(L, i) &&
        (value_is_traced(L, other) || lua_type(L, other) == LUA_TNUMBER))
        l_fail(L,
               "a boolean is compared with a number, which it never "
               "equals; a bool tensor gives true or false: write x or not x");
}

static void l_check_text(lua_State *L, int i, int other)
{
    if (lua_type(L, i) == LUA_TSTRING && value_is_traced(L, other))
        l_fail(L, "a traced number is compared with a string, which it never "
                  "equals");
}

/* operand < a, which is what a == b has become. */
static int l_equal(lua_State *L)
{
    struct trace *t = l_enter(L);
    bool negated = l_comparison(L)->negated;
    lua_getiuservalue(L, 1, 1);
    lua_replace(L, 1); /* 1: b, 2: a */
    l_resolve(L, 1);
    l_resolve(L, 2);
    l_check_complete(L, 1, 2);
    l_check_complete(L, 2, 1);
    l_check_defined(L, 1, 2);
    l_check_defined(L, 2, 1);
    l_check_boolean(L, 1, 2);
    l_check_boolean(L, 2, 1);
    l_check_text(L, 1, 2);
    l_check_text(L, 2, 1);
    t->undefined[0] = '\0';
    bool numbers = (value_is_traced(L, 1) || lua_type(L, 1) == LUA_TNUMBER) &&
                   (value_is_traced(L, 2) || lua_type(L, 2) == LUA_TNUMBER);
    bool traced = value_is_traced(L, 1) || value_is_traced(L, 2);
    if (lua_type(L, 1) == LUA_TSTRING && lua_type(L, 2) == LUA_TSTRING)
        l_charge(L, (long long)(lua_rawlen(L, 1) / 16));
    bool equal = numbers && traced && !t->env
                     ? l_compare_traced(L, LUA_OPEQ, 2, 1)
                     : lua_compare(L, 2, 1, LUA_OPEQ);
    lua_pushboolean(L, equal != negated);
    return 1;
}

/* __k(e): a traced key must next meet a tensor. */
static int l_key(lua_State *L)
{
    lua_settop(L, 1);
    l_resolve(L, 1);
    if (value_is_traced(L, 1)) {
        struct trace *t = l_enter(L);
        t->pending_line = (int)t->graph->line;
    }
    return 1;
}

/* A number out of a tensor as a condition: what is meant is that it is not 0,
 * as of padding; Lua takes 0 for true, too. A param may be there to be asked
 * whether there is one: it is a mistake if that is all that is done with it. */
static void l_check_element(lua_State *L)
{
    struct traced *u = value_object(L, 1, OBJECT_VALUE);
    struct ir_graph *g = trace_of(L)->graph;
    const struct ir_node *n = u ? ir_node(g, u->ref) : NULL;
    if (!n)
        return;
    l_enter(L);
    if (n->op == IR_PARAM_I || n->op == IR_PARAM_F)
        l_lint_condition(L, u->ref);
    if (!ir_op_is_load((enum ir_op)n->op))
        return;
    l_fail(L,
           "an element of tensor '%s' is a condition, and in Lua every number "
           "counts as true, 0 too; compare it (~= 0), or declare a bool tensor",
           g->tensors[n->i].name);
}

/* __c(x), __c(x,0): x, which is a condition; 0: an "or" follows. Lua takes
 * every tensor for true; asking whether there is one is sensible while loading,
 * and for tensors of numbers. A bool tensor of rank 0 is read. */
static int l_condition(lua_State *L)
{
    struct trace *t = trace_of(L);
    const bool is_value = lua_gettop(L) > 1;
    lua_settop(L, 1);
    if (!is_value && t->mod)
        l_check_element(L);
    struct view *v = value_object(L, 1, OBJECT_TENSOR);
    const struct ir_tensor *decl = v ? &t->graph->tensors[v->tensor] : NULL;
    if (!v || !t->mod || decl->dtype != DTYPE_BOOL)
        return 1;
    l_enter(L);
    l_resolve(L, 1);
    if (decl->rank == 0)
        return 1;
    l_fail(L,
           "tensor '%s' is used as a condition with %d of its %d indices, "
           "which takes it for true",
           decl->name, v->n, decl->rank);
}

int l_push_sentinels(lua_State *L)
{
    for (int negated = 0; negated < 2; negated++) {
        struct comparison *c = lua_newuserdatauv(L, sizeof *c, 0);
        *c = (struct comparison){OBJECT_EQ, negated != 0};
        luaL_setmetatable(L, eq_name);
    }
    lua_pushcfunction(L, l_key);
    lua_pushcfunction(L, l_condition);
    return 4;
}

/* --- metatables --------------------------------------------------- */

void l_set_operators(lua_State *L)
{
    static const char *const event[] = {
        [LUA_OPADD] = "__add",   [LUA_OPSUB] = "__sub",   [LUA_OPMUL] = "__mul",
        [LUA_OPMOD] = "__mod",   [LUA_OPPOW] = "__pow",   [LUA_OPDIV] = "__div",
        [LUA_OPIDIV] = "__idiv", [LUA_OPBAND] = "__band", [LUA_OPBOR] = "__bor",
        [LUA_OPBXOR] = "__bxor", [LUA_OPSHL] = "__shl",   [LUA_OPSHR] = "__shr",
        [LUA_OPUNM] = "__unm",   [LUA_OPBNOT] = "__bnot"};
    for (int op = LUA_OPADD; op <= LUA_OPBNOT; op++) {
        lua_pushinteger(L, op);
        lua_pushcclosure(L, l_arith, 1);
        lua_setfield(L, -2, event[op]);
    }
    lua_pushinteger(L, LUA_OPLT);
    lua_pushcclosure(L, l_order, 1);
    lua_setfield(L, -2, "__lt");
    lua_pushinteger(L, LUA_OPLE);
    lua_pushcclosure(L, l_order, 1);
    lua_setfield(L, -2, "__le");
}

void l_open_sentinels(lua_State *L)
{
    luaL_newmetatable(L, eq_name);
    lua_pushcfunction(L, l_operand);
    lua_setfield(L, -2, "__bor");
    luaL_newmetatable(L, operand_name);
    lua_pushcfunction(L, l_operand);
    lua_setfield(L, -2, "__bor");
    lua_pushcfunction(L, l_equal);
    lua_setfield(L, -2, "__lt");
    lua_pop(L, 2);
}

/* What a file declares and reads: facc.tensor, facc.param, facc.size,
 * facc.len, and the indexing of captured tensors. Tracing gives IR loads;
 * running on numbers (t->env) reads the passed data. Called by the Lua VM. */
#include "compiler/frontend/trace.h"

/* --- reading ------------------------------------------------------ */

static void l_load_traced(lua_State *L, const struct view *v)
{
    struct ir_graph *g = trace_of(L)->graph;
    ir_ref r = ir_load(g, v->tensor, v->n, v->index.ref);
    if (r == IR_NONE || g->failed)
        l_fail_recorded(L);
    if (ir_node(g, r)->type == IR_BOOL)
        lua_pushboolean(L, l_fork(L, r));
    else
        l_push_value(L, r);
}

static void l_load_number(lua_State *L, const struct view *v)
{
    struct trace *t = trace_of(L);
    const struct ir_tensor *decl = &t->graph->tensors[v->tensor];
    const struct eval_tensor *data = &t->env->tensors[v->tensor];
    int64_t at = 0;
    for (int i = 0; i < v->n; i++) {
        int64_t x = v->index.at[i];
        if (x < 0 || x >= data->shape[i])
            l_fail(L, "index %d of tensor '%s' is %lld, outside of [0, %lld)",
                   i + 1, decl->name, (long long)x, (long long)data->shape[i]);
        at += x * data->stride[i];
    }
    const char *p =
        (const char *)data->data + at * (int64_t)dtype_size(decl->dtype);
    if (decl->dtype == DTYPE_BOOL)
        lua_pushboolean(L, *p != 0);
    else if (dtype_is_float(decl->dtype))
        lua_pushnumber(L, dtype_load_f64(decl->dtype, p));
    else
        lua_pushinteger(L, dtype_saturate(dtype_load_i64(decl->dtype, p)));
}

void l_load_view(lua_State *L, const struct view *v)
{
    if (trace_of(L)->env)
        l_load_number(L, v);
    else
        l_load_traced(L, v);
}

void l_push_view(lua_State *L, const struct view *v)
{
    *(struct view *)lua_newuserdatauv(L, sizeof *v, 0) = *v;
    luaL_setmetatable(L, TENSOR_NAME);
}

static _Noreturn void l_float_index(lua_State *L, int nth, const char *name)
{
    l_fail(L,
           "index %d of tensor '%s' is a float; use // on integers (n / 2 and "
           "2 ^ n are floats) or math.floor",
           nth, name);
}

/* The index at stack position i becomes index v->n of the view. */
static void l_add_index(lua_State *L, int i, struct view *v)
{
    struct trace *t = trace_of(L);
    const struct ir_tensor *decl = &t->graph->tensors[v->tensor];
    int nth = v->n + 1;
    if (v->n == decl->rank)
        l_fail(L, "tensor '%s' takes %d %s (line %d), got more", decl->name,
               decl->rank, decl->rank == 1 ? "index" : "indices", decl->line);
    l_resolve(L, i);
    if (lua_type(L, i) == LUA_TSTRING)
        l_fail(L, "tensor '%s' has no field '%s'; its indices are integers",
               decl->name, lua_tostring(L, i));
    if (lua_type(L, i) == LUA_TNUMBER) {
        int whole;
        lua_Integer x = lua_tointegerx(L, i, &whole);
        if (!whole)
            l_float_index(L, nth, decl->name);
        if (t->env)
            v->index.at[v->n++] = x;
        else
            v->index.ref[v->n++] = ir_const_i(t->graph, x);
        return;
    }
    ir_ref r = l_to_number(L, i, "index");
    if (ir_node(t->graph, r)->type != IR_INT)
        l_float_index(L, nth, decl->name);
    v->index.ref[v->n++] = r;
}

static int l_deliver(lua_State *L, const struct view *v)
{
    struct trace *t = trace_of(L);
    if (v->n == t->graph->tensors[v->tensor].rank) {
        l_load_view(L, v);
        return 1;
    }
    if (t->partial)
        t->partial[v->tensor] = (int)t->graph->line;
    l_push_view(L, v);
    return 1;
}

static int l_index(lua_State *L)
{
    struct trace *t = trace_of(L);
    if (value_is_traced(L, 2)) /* the key that was noted has met a tensor */
        t->pending_line = 0;
    l_enter(L);
    struct view v = *(struct view *)lua_touserdata(L, 1);
    l_add_index(L, 2, &v);
    return l_deliver(L, &v);
}

/* bias(h, q, kv) */
static int l_call_tensor(lua_State *L)
{
    l_enter(L);
    struct view v = *(struct view *)lua_touserdata(L, 1);
    int n = lua_gettop(L);
    for (int i = 2; i <= n; i++)
        l_add_index(L, i, &v);
    return l_deliver(L, &v);
}

static int l_rank(lua_State *L)
{
    struct trace *t = l_enter(L);
    struct view *v = value_object(L, 1, OBJECT_TENSOR);
    if (!v)
        l_fail(L, "facc.rank: expected a tensor, got %s",
               value_kind_name(L, 1));
    lua_pushinteger(L, t->graph->tensors[v->tensor].rank - v->n);
    return 1;
}

/* --- declarations ------------------------------------------------- */

static bool is_identifier(const char *s)
{
    if (!*s || (*s >= '0' && *s <= '9'))
        return false;
    for (; *s; s++) {
        bool letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z');
        if (!letter && !(*s >= '0' && *s <= '9') && *s != '_')
            return false;
    }
    return true;
}

/* A string that C sees whole; NULL for one with a NUL, and for all else. */
static const char *word_at(lua_State *L, int i)
{
    const char *s = lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : NULL;
    return s && strlen(s) == lua_rawlen(L, i) ? s : NULL;
}

/* The name in argument 1, checked to be new. */
static const char *l_declared_name(lua_State *L, const char *what)
{
    enum { LONGEST = 63 };
    struct trace *t = trace_of(L);
    if (t->scope)
        l_fail(L, "%s is called inside of a mod; declare it before", what);
    if (lua_type(L, 1) != LUA_TSTRING)
        l_fail(L, "%s: the name must be a string, got %s", what,
               value_kind_name(L, 1));
    const char *name = lua_tostring(L, 1);
    l_charge(L, 2 * (t->graph->n_tensors + t->graph->n_params));
    if (!word_at(L, 1) || !is_identifier(name) || strlen(name) > LONGEST)
        l_fail(L, "%s: '%s' is not a name (letters, digits and _, at most %d)",
               what, name, LONGEST);
    for (int i = 0; i < t->graph->n_tensors; i++)
        if (strcmp(t->graph->tensors[i].name, name) == 0)
            l_fail(L, "'%s' is declared twice", name);
    for (int i = 0; i < t->graph->n_params; i++)
        if (strcmp(t->graph->params[i].name, name) == 0)
            l_fail(L, "'%s' is declared twice", name);
    return name;
}

static enum dtype l_declared_type(lua_State *L, const char *what,
                                  const char *name, bool param)
{
    enum dtype type;
    const char *text = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2)
                                                     : value_kind_name(L, 2);
    bool known = word_at(L, 2) && dtype_parse(text, &type) && type != DTYPE_F64;
    if (param && known)
        known = type == DTYPE_I32 || type == DTYPE_I64 || type == DTYPE_F32;
    if (!known)
        l_fail(L, "%s '%s': unknown type '%s'; known are %s", what, name, text,
               param ? "i32 i64 f32"
                     : "f32 f16 bf16 f8 e4m3 e5m2 i8 u8 i16 i32 i64 bool");
    return type;
}

static struct ir_dim l_declared_dim(lua_State *L, int i, const char *name,
                                    int nth)
{
    static const struct {
        const char *name;
        enum ir_dim_kind kind;
    } known[] = {{"B", IR_DIM_B}, {"H", IR_DIM_H},   {"Hkv", IR_DIM_HKV},
                 {"q", IR_DIM_Q}, {"kv", IR_DIM_KV}, {"any", IR_DIM_ANY}};
    const char *text = word_at(L, i);
    for (size_t k = 0; text && k < sizeof known / sizeof *known; k++)
        if (strcmp(text, known[k].name) == 0)
            return (struct ir_dim){known[k].kind, 0};
    int whole = 0;
    const lua_Integer n = lua_type(L, i) == LUA_TNUMBER
                              ? lua_tointegerx(L, i, &whole) /* of 2 ^ 3, too */
                              : 0;
    if (whole && n >= 0)
        return (struct ir_dim){IR_DIM_FIXED, n};
    l_fail(L,
           "facc.tensor '%s': dimension %d must be an integer from 0 on or one "
           "of \"B\" \"H\" \"Hkv\" \"q\" \"kv\" \"any\"",
           name, nth);
}

/* facc.tensor(name, type, {dims}) */
static int l_tensor(lua_State *L)
{
    struct trace *t = l_enter(L);
    struct ir_tensor decl = {.line = (int)t->graph->line};
    decl.name = l_declared_name(L, "facc.tensor");
    decl.dtype = l_declared_type(L, "facc.tensor", decl.name, false);
    if (lua_type(L, 3) != LUA_TTABLE)
        l_fail(L,
               "facc.tensor '%s': the dimensions must be a table such as "
               "{ \"H\", 4 }, got %s",
               decl.name, value_kind_name(L, 3));
    lua_Unsigned rank = lua_rawlen(L, 3);
    if (rank > IR_MAX_RANK)
        l_fail(L, "facc.tensor '%s': at most %d dimensions", decl.name,
               IR_MAX_RANK);
    decl.rank = (int)rank;
    for (int i = 0; i < decl.rank; i++) {
        lua_rawgeti(L, 3, i + 1);
        decl.dim[i] = l_declared_dim(L, -1, decl.name, i + 1);
        lua_pop(L, 1);
    }
    int index = ir_add_tensor(t->graph, &decl);
    if (index < 0)
        l_fail_recorded(L);
    l_push_view(L, &(struct view){.kind = OBJECT_TENSOR, .tensor = index});
    return 1;
}

/* facc.param(name, type) */
static int l_param(lua_State *L)
{
    struct trace *t = l_enter(L);
    struct ir_param decl = {.line = (int)t->graph->line};
    decl.name = l_declared_name(L, "facc.param");
    decl.dtype = l_declared_type(L, "facc.param", decl.name, true);
    int index = ir_add_param(t->graph, &decl);
    if (index < 0)
        l_fail_recorded(L);
    if (!t->env)
        l_push_value(L, ir_param(t->graph, index));
    else if (decl.dtype == DTYPE_F32)
        lua_pushnumber(L, t->env->params[index].f);
    else
        lua_pushinteger(L, t->env->params[index].i);
    return 1;
}

/* --- sizes and lengths -------------------------------------------- */

static void l_set_size(lua_State *L, const char *name, enum ir_var var,
                       int64_t value)
{
    struct trace *t = trace_of(L);
    if (t->env)
        lua_pushinteger(L, value);
    else
        l_push_value(L, ir_var(t->graph, var));
    lua_setfield(L, -2, name);
}

static int l_size_index(lua_State *L)
{
    l_enter(L);
    l_fail(L, "facc.size has B, H, Hkv, q, kv, D and Dv, not '%s'",
           lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2)
                                         : value_kind_name(L, 2));
}

/* facc.len.q(b), facc.len.kv(b) */
static int l_len(lua_State *L)
{
    struct trace *t = l_enter(L);
    bool kv = lua_toboolean(L, lua_upvalueindex(1));
    const char *what = kv ? "facc.len.kv" : "facc.len.q";
    l_resolve(L, 1);
    if (!t->env) {
        ir_ref b = l_to_number(L, 1, what);
        if (ir_node(t->graph, b)->type != IR_INT)
            l_fail(L, "%s: the sequence must be an integer", what);
        l_push_value(L, ir_len(t->graph, kv, b));
        return 1;
    }
    lua_Integer b = luaL_checkinteger(L, 1);
    if (b < 0 || b >= t->env->B)
        l_fail(L, "%s: sequence %lld is outside of [0, %lld)", what,
               (long long)b, (long long)t->env->B);
    const int32_t *used = kv ? t->env->len_kv : t->env->len_q;
    lua_pushinteger(L, used ? used[b] : kv ? t->env->Skv : t->env->Sq);
    return 1;
}

static void l_open_sizes(lua_State *L, int facc)
{
    const struct eval_env none = {0};
    const struct eval_env *e = trace_of(L)->env ? trace_of(L)->env : &none;
    lua_createtable(L, 0, 7);
    l_set_size(L, "B", IR_VAR_SIZE_B, e->B);
    l_set_size(L, "H", IR_VAR_SIZE_H, e->H);
    l_set_size(L, "Hkv", IR_VAR_SIZE_HKV, e->Hkv);
    l_set_size(L, "q", IR_VAR_SIZE_Q, e->Sq);
    l_set_size(L, "kv", IR_VAR_SIZE_KV, e->Skv);
    l_set_size(L, "D", IR_VAR_SIZE_D, e->D);
    l_set_size(L, "Dv", IR_VAR_SIZE_DV, e->Dv);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, l_size_index);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_setfield(L, facc, "size");
    lua_createtable(L, 0, 2);
    for (int kv = 0; kv < 2; kv++) {
        lua_pushboolean(L, kv);
        lua_pushcclosure(L, l_len, 1);
        lua_setfield(L, -2, kv ? "kv" : "q");
    }
    lua_setfield(L, facc, "len");
}

void l_open_tensors(lua_State *L, int facc)
{
    luaL_getmetatable(L, TENSOR_NAME);
    lua_pushcfunction(L, l_index);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, l_call_tensor);
    lua_setfield(L, -2, "__call");
    lua_pop(L, 1);
    lua_pushcfunction(L, l_tensor);
    lua_setfield(L, facc, TENSOR_NAME);
    lua_pushcfunction(L, l_param);
    lua_setfield(L, facc, "param");
    lua_pushcfunction(L, l_rank);
    lua_setfield(L, facc, "rank");
    l_open_sizes(L, facc);
}

/* A fingerprint of everything that a function can reach through its upvalues
 * and tables: numbers and booleans by value, traced values by node, the rest
 * by identity. Equal before and after a run: the function changed nothing.
 * Called by explore.c. */
#include "compiler/frontend/trace.h"

#include "compiler/support/hash.h"

enum { MAX_DEPTH = 16 };

/* True when the object was met in this round before; notes it otherwise. */
static bool met(struct trace *t, const void *p)
{
    uint32_t i = (uint32_t)((uintptr_t)p >> 4) * 2654435769u;
    for (;; i++) {
        struct seen *s = &t->seen[i % SEEN_CAPACITY];
        if (s->round != t->seen_round) {
            *s = (struct seen){p, t->seen_round};
            t->n_seen++;
            return false;
        }
        if (s->object == p)
            return true;
    }
}

static uint64_t l_finger(lua_State *L, int i, int depth);

static uint64_t l_finger_upvalues(lua_State *L, int i, uint64_t h, int depth)
{
    if (lua_iscfunction(L, i))
        return h;
    for (int k = 1; lua_getupvalue(L, i, k); k++) {
        l_charge(L, 4);
        h = hash_mix(h, l_finger(L, -1, depth - 1));
        lua_pop(L, 1);
    }
    return h;
}

/* The order of a table's entries says nothing, so they are added up. */
static uint64_t l_finger_entries(lua_State *L, int i, uint64_t h, int depth)
{
    uint64_t sum = 0;
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
        l_charge(L, 4);
        uint64_t key = l_finger(L, -2, depth - 1);
        sum += hash_mix(key, l_finger(L, -1, depth - 1));
    }
    return hash_mix(h, sum);
}

static uint64_t l_finger(lua_State *L, int i, int depth)
{
    struct trace *t = trace_of(L);
    i = lua_absindex(L, i);
    int type = lua_type(L, i);
    uint64_t h = (uint64_t)type + 7;
    if (type == LUA_TNUMBER) {
        lua_Number d = lua_tonumber(L, i);
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        return hash_mix(h, bits);
    }
    if (type == LUA_TBOOLEAN)
        return hash_mix(h, (uint64_t)lua_toboolean(L, i));
    struct traced *u = value_object(L, i, OBJECT_VALUE);
    if (u)
        return hash_mix(h, ir_node(t->graph, u->ref)->hash);
    const void *p = lua_topointer(L, i);
    if (!p)
        return h;
    h = hash_mix(h, (uint64_t)(uintptr_t)p);
    if (type != LUA_TTABLE && type != LUA_TFUNCTION)
        return h;
    /* beyond the limits the check is incomplete, never wrong */
    if (!depth || t->n_seen == SEEN_LIMIT || met(t, p))
        return h;
    luaL_checkstack(L, 4, NULL);
    return type == LUA_TFUNCTION ? l_finger_upvalues(L, i, h, depth)
                                 : l_finger_entries(L, i, h, depth);
}

uint64_t l_fingerprint(lua_State *L, int fn)
{
    struct trace *t = trace_of(L);
    t->seen_round++;
    t->n_seen = 0;
    return l_finger(L, fn, MAX_DEPTH);
}

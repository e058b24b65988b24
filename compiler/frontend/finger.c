/* A fingerprint of everything that a function can reach through its upvalues
 * and tables: numbers, booleans and strings by value, traced values by node,
 * the rest by identity. Equal before and after a run: the function changed
 * nothing. Called by explore.c.
 *
 * Objects are looked at one after the other, each once, in the order in which
 * they are met; the order says nothing, so what they give is added up. */
#include "compiler/frontend/trace.h"

#include "compiler/support/hash.h"

/* What is still to be looked at. */
struct fingerprint {
    int queue; /* a Lua table: the objects met */
    lua_Integer n_met;
};

/* --- the set of objects that were met ----------------------------- */

static struct seen *place_of(struct seen *set, uint32_t cap, uint32_t round,
                             const void *p)
{
    uint32_t i = (uint32_t)((uintptr_t)p >> 4) * 2654435769u;
    for (;; i++) {
        struct seen *s = &set[i % cap];
        if (s->round != round || s->object == p)
            return s;
    }
}

static void l_grow_seen(lua_State *L)
{
    enum { MOST = 1 << 20 };
    struct trace *t = trace_of(L);
    uint32_t cap = 2 * t->seen_cap;
    if (cap > MOST)
        l_fail(L,
               "the function reaches more than %d tables and functions: too "
               "many to tell whether it changes them",
               MOST / 2);
    struct seen *set = l_alloc(L, sizeof *set * cap);
    for (uint32_t i = 0; i < t->seen_cap; i++)
        if (t->seen[i].round == t->seen_round)
            *place_of(set, cap, t->seen_round, t->seen[i].object) = t->seen[i];
    t->seen = set;
    t->seen_cap = cap;
}

/* Notes the object at i, if it was not met before in this round. */
static void l_meet(lua_State *L, struct fingerprint *f, int i, const void *p)
{
    struct trace *t = trace_of(L);
    struct seen *s = place_of(t->seen, t->seen_cap, t->seen_round, p);
    if (s->round == t->seen_round)
        return;
    *s = (struct seen){p, t->seen_round};
    lua_pushvalue(L, i);
    lua_rawseti(L, f->queue, ++f->n_met);
    if (f->n_met >= t->seen_cap / 2)
        l_grow_seen(L);
}

/* --- values ------------------------------------------------------- */

static uint64_t l_finger_text(lua_State *L, int i, uint64_t h)
{
    size_t n;
    const char *text = lua_tolstring(L, i, &n);
    l_charge(L, (long long)(n / 16));
    h = hash_mix(h, n);
    for (size_t at = 0; at < n; at += 8) {
        uint64_t word = 0;
        memcpy(&word, text + at, n - at < 8 ? n - at : 8);
        h = hash_mix(h, word);
    }
    return h;
}

/* Functions of C have nothing that changes, but for the place of an
 * iteration. */
static bool has_state(lua_State *L, int i, int type)
{
    return type == LUA_TTABLE ||
           (type == LUA_TFUNCTION &&
            (!lua_iscfunction(L, i) || counted_is_iterator(L, i)));
}

static uint64_t l_finger(lua_State *L, struct fingerprint *f, int i)
{
    struct trace *t = trace_of(L);
    int type = lua_type(L, i);
    uint64_t h = (uint64_t)type + 7;
    if (lua_isinteger(L, i))
        return hash_mix(h, (uint64_t)lua_tointeger(L, i));
    if (type == LUA_TNUMBER) {
        lua_Number d = lua_tonumber(L, i);
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        return hash_mix(h, ~bits);
    }
    if (type == LUA_TBOOLEAN)
        return hash_mix(h, (uint64_t)lua_toboolean(L, i));
    if (type == LUA_TSTRING) /* by identity, another could take its place */
        return l_finger_text(L, i, h);
    struct traced *u = value_object(L, i, OBJECT_VALUE);
    if (u)
        return hash_mix(h, ir_node(t->graph, u->ref)->hash);
    const void *p = lua_topointer(L, i);
    if (p && has_state(L, i, type))
        l_meet(L, f, lua_absindex(L, i), p);
    return hash_mix(h, (uint64_t)(uintptr_t)p);
}

/* --- objects ------------------------------------------------------ */

static uint64_t l_finger_upvalues(lua_State *L, struct fingerprint *f, int i)
{
    uint64_t h = 0;
    for (int k = 1; lua_getupvalue(L, i, k); k++) {
        l_charge(L, 4);
        h = hash_mix(h, l_finger(L, f, -1));
        lua_pop(L, 1);
    }
    return h;
}

static uint64_t l_finger_entries(lua_State *L, struct fingerprint *f, int i)
{
    uint64_t sum = 0;
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
        l_charge(L, 4);
        uint64_t key = l_finger(L, f, -2);
        sum += hash_mix(key, l_finger(L, f, -1));
    }
    return sum;
}

uint64_t l_fingerprint(lua_State *L, int fn)
{
    struct trace *t = trace_of(L);
    luaL_checkstack(L, 8, NULL);
    lua_newtable(L);
    struct fingerprint f = {.queue = lua_gettop(L)};
    t->seen_round++;
    uint64_t sum = l_finger(L, &f, fn);
    for (lua_Integer k = 1; k <= f.n_met; k++) {
        lua_rawgeti(L, f.queue, k);
        int object = f.queue + 1;
        uint64_t h = (uint64_t)(uintptr_t)lua_topointer(L, object);
        sum += hash_mix(h, lua_type(L, object) == LUA_TTABLE
                               ? l_finger_entries(L, &f, object)
                               : l_finger_upvalues(L, &f, object));
        lua_settop(L, f.queue);
    }
    lua_settop(L, f.queue - 1);
    return sum;
}

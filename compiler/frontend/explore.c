/* Runs a mod, or the inner function of facc.sum and friends, once for each
 * path through its comparisons, and merges the results. In: a Lua function
 * and its arguments; out: one value and one keep. Called by trace.c,
 * scopes.c; the comparisons of value.c and the bool loads of tensor.c call
 * l_fork.
 *
 * Nothing is aborted: a new comparison takes one outcome and notes the other;
 * the next run replays the decisions and flips the last open one. Memory is
 * one stack of decisions. */
#include "compiler/frontend/trace.h"

#include <math.h>
#include <string.h>

/* --- decisions ---------------------------------------------------- */

static bool is_const_bool(const struct ir_graph *g, ir_ref r)
{
    return ir_is(g, r, IR_CONST_B);
}

/* Do the decisions of this path settle c? Then *outcome says how. */
static bool l_settled(lua_State *L, const struct exploration *s, ir_ref c,
                      bool *outcome)
{
    struct ir_graph *g = trace_of(L)->graph;
    for (int i = 0; i < s->pos; i++) {
        l_charge(L, 16 + ir_node(g, c)->n);
        const struct decision *d = &s->decisions[i];
        if (d->cond == c) {
            *outcome = d->outcome;
            return true;
        }
        ir_ref known = d->outcome ? d->cond : ir_not(g, d->cond);
        ir_ref both = ir_and2(g, known, c);
        if (both == known) { /* implied */
            *outcome = true;
            return true;
        }
        if (both != IR_NONE && is_const_bool(g, both)) { /* excluded */
            *outcome = false;
            return true;
        }
    }
    return false;
}

static struct decision *l_new_decision(lua_State *L, struct exploration *s,
                                       ir_ref cond)
{
    struct trace *t = trace_of(L);
    if (s->n == t->max_comparisons)
        l_fail(L,
               "more than %d comparisons on one path; use facc.sum, "
               "facc.any or facc.all for the loop",
               t->max_comparisons);
    if (s->n == s->cap) {
        int cap = s->cap ? 2 * s->cap : 16;
        struct decision *d =
            arena_grow(t->graph->arena, s->decisions,
                       sizeof *d * (size_t)s->cap, sizeof *d * (size_t)cap);
        if (!d)
            l_fail_recorded(L);
        s->decisions = d;
        s->cap = cap;
    }
    int line = (int)t->graph->line;
    if (line > 0 && line < t->n_lines)
        t->forks[line]++;
    struct decision *d = &s->decisions[s->n++];
    *d = (struct decision){
        .cond = cond, .line = line, .outcome = t->first_outcome};
    return d;
}

bool l_fork(lua_State *L, ir_ref cond)
{
    struct trace *t = trace_of(L);
    struct ir_graph *g = t->graph;
    struct exploration *s = t->scope;
    if (cond == IR_NONE || g->failed)
        l_fail_recorded(L);
    if (is_const_bool(g, cond))
        return ir_node(g, cond)->i != 0;
    if (!s)
        l_fail(L,
               "a traced value is compared outside of a mod, where it has no "
               "value yet; compare it inside of score_mod or mask_mod");
    bool outcome;
    if (l_settled(L, s, cond, &outcome))
        return outcome;
    if (g->failed)
        l_fail_recorded(L);
    if (s->pos < s->n) {
        const struct decision *d = &s->decisions[s->pos++];
        if (d->cond != cond)
            l_fail(L,
                   "the mod is not a pure function: at this comparison an "
                   "earlier run of it had other values (line %d then)",
                   d->line);
        return d->outcome;
    }
    struct decision *d = l_new_decision(L, s, cond);
    s->pos++;
    return d->outcome;
}

/* --- results ------------------------------------------------------ */

static _Noreturn void l_no_value(lua_State *L)
{
    const struct exploration *s = trace_of(L)->scope;
    if (s->n)
        l_fail(L,
               "no value is returned on one path (after the comparison in "
               "line %d)",
               s->decisions[s->n - 1].line);
    l_fail(L, "the function returns no value");
}

/* On all paths, or on some, as of "q >= kv and score". */
static _Noreturn void l_no_number(lua_State *L)
{
    const struct exploration *s = trace_of(L)->scope;
    for (int i = 0; i < s->n; i++)
        if (s->decisions[i].second)
            l_fail(L,
                   "the function must return a number, got a boolean on one "
                   "path (after the comparison in line %d); -math.huge masks "
                   "a cell",
                   s->decisions[s->n - 1].line);
    l_fail(L, "the function must return a number, got a boolean");
}

static bool is_minus_infinity(const struct ir_graph *g, ir_ref r)
{
    const struct ir_node *n = ir_node(g, r);
    return n->op == IR_CONST_F && isinf(n->f) && n->f < 0;
}

/* The result on top of the stack as one leaf of the merge. */
static struct merged l_leaf(lua_State *L, enum result_kind kind)
{
    struct ir_graph *g = trace_of(L)->graph;
    bool wants_bool = kind == RESULT_MASK || kind == RESULT_BOOL;
    struct merged m = {.keep = ir_const_b(g, true)};
    l_resolve(L, -1);
    if (lua_isnil(L, -1))
        l_no_value(L);
    const struct view *v = value_object(L, -1, OBJECT_TENSOR);
    if (v)
        l_fail(L,
               "the function must return %s, got tensor '%s' with %d of its "
               "%d indices",
               wants_bool ? "true or false" : "a number",
               g->tensors[v->tensor].name, v->n, g->tensors[v->tensor].rank);
    if (wants_bool && !lua_isboolean(L, -1))
        l_fail(L, "the function must return true or false, got %s%s",
               value_kind_name(L, -1), value_uncalled(L, -1));
    if (!wants_bool && lua_isboolean(L, -1))
        l_no_number(L);
    m.value = l_to_ref(L, -1, "result");
    if (kind == RESULT_SCORE) {
        m.value = ir_to_float(g, m.value);
        if (m.value != IR_NONE && is_minus_infinity(g, m.value))
            m.keep = ir_const_b(g, false); /* mask, not value */
    }
    if (m.value == IR_NONE || g->failed)
        l_fail_recorded(L);
    return m;
}

static bool never_kept(const struct ir_graph *g, ir_ref keep)
{
    return is_const_bool(g, keep) && !ir_node(g, keep)->i;
}

/* Both outcomes of d are known: no and yes swap places with the order. */
static struct merged l_join(lua_State *L, const struct decision *d,
                            struct merged last)
{
    struct ir_graph *g = trace_of(L)->graph;
    struct merged first = {.value = d->value, .keep = d->keep};
    struct merged yes = d->outcome ? last : first;
    struct merged no = d->outcome ? first : last;
    struct merged m = {.value = IR_NONE};
    g->line = (uint32_t)d->line;
    if (never_kept(g, yes.keep)) /* its value matters to nobody */
        m.value = no.value;
    else if (never_kept(g, no.keep))
        m.value = yes.value;
    else
        m.value = ir_select(g, d->cond, yes.value, no.value);
    m.keep = ir_select(g, d->cond, yes.keep, no.keep);
    if (g->failed)
        l_fail_recorded(L);
    return m;
}

/* --- runs --------------------------------------------------------- */

static struct exploration *l_enter_scope(lua_State *L, int fn)
{
    struct trace *t = trace_of(L);
    struct exploration *s = t->spare;
    if (s)
        t->spare = s->up;
    else
        s = l_alloc(L, sizeof *s);
    struct decision *decisions = s->decisions;
    int cap = s->cap;
    *s = (struct exploration){
        .up = t->scope, .decisions = decisions, .cap = cap};
    lua_Debug ar;
    lua_pushvalue(L, fn);
    lua_getinfo(L, ">S", &ar);
    if (strcmp(ar.source, t->chunk) == 0)
        s->line = ar.linedefined;
    t->scope = s;
    return s;
}

static void leave_scope(struct trace *t)
{
    struct exploration *s = t->scope;
    t->scope = s->up;
    s->up = t->spare;
    t->spare = s;
}

/* The decisions of this path alone, by line, if it has any: those of all
 * paths are mostly the last ones, which are taken back first. */
static void count_forks_of_path(struct trace *t)
{
    bool any = false;
    for (const struct exploration *s = t->scope; s; s = s->up)
        any = any || s->n > 0;
    for (int i = 0; any && i < t->n_lines; i++)
        t->forks[i] = 0;
    for (const struct exploration *s = t->scope; s; s = s->up)
        for (int i = 0; i < s->n; i++)
            if (s->decisions[i].line > 0 && s->decisions[i].line < t->n_lines)
                t->forks[s->decisions[i].line]++;
}

static _Noreturn void l_too_many_paths(lua_State *L)
{
    struct trace *t = trace_of(L);
    int worst = 0;
    count_forks_of_path(t);
    for (int i = 1; i < t->n_lines; i++)
        if (t->forks[i] > t->forks[worst])
            worst = i;
    if (!worst)
        l_fail(L, "the functions inside facc.sum/any/all/max/min/where run "
                  "too often: does a loop never end?");
    l_fail_at(L, worst,
              "more than %d paths: most comparisons fork in line %d; put the "
              "loop's body into facc.sum/any/all/max/min(n, f), or write "
              "facc.where(function() return c end, a, b)",
              t->max_paths, worst);
}

static void l_call_once(lua_State *L, struct exploration *s, int fn,
                        int first_arg, int n_args)
{
    struct trace *t = trace_of(L);
    s->pos = 0;
    s->run = ++t->last_run;
    lua_pushvalue(L, fn);
    for (int i = 0; i < n_args; i++) {
        struct traced *u = value_object(L, first_arg + i, OBJECT_VALUE);
        if (u)
            l_push_value(L, u->ref); /* alive in this run only */
        else
            lua_pushvalue(L, first_arg + i);
    }
    lua_call(L, n_args, 1);
    l_enter(L); /* a traced key may be pending */
}

/* The function must leave what it can reach as it was: compared after a few
 * runs of a mod (the first run may fill a cache), after every run of an inner
 * function. */
static void l_check_surroundings(lua_State *L, struct exploration *s, int fn,
                                 int paths, bool inner)
{
    bool due = inner || paths <= 8 || (paths & (paths - 1)) == 0;
    if (!due)
        return;
    uint64_t now = l_fingerprint(L, fn);
    if ((inner || paths > 1) && now != s->fingerprint)
        l_fail(L, "the function changes a variable or table outside of "
                  "itself: its result would depend on how often it runs");
    s->fingerprint = now;
}

struct merged l_explore(lua_State *L, int fn, int first_arg, int n_args,
                        enum result_kind kind)
{
    struct trace *t = trace_of(L);
    bool inner = kind == RESULT_NUMBER || kind == RESULT_BOOL;
    luaL_checkstack(L, n_args + 8, NULL);
    struct exploration *s = l_enter_scope(L, fn);
    if (inner)
        s->fingerprint = l_fingerprint(L, fn);
    struct merged m;
    int paths = 0;
    for (;;) {
        enum { INNER_RUNS = 16 }; /* times the limit of paths */
        if (++paths > t->max_paths || t->runs++ / INNER_RUNS > t->max_paths)
            l_too_many_paths(L);
        l_call_once(L, s, fn, first_arg, n_args);
        l_check_surroundings(L, s, fn, paths, inner);
        m = l_leaf(L, kind);
        lua_pop(L, 1);
        if (s->pos != s->n)
            l_fail(L,
                   "the mod is not a pure function: this run made %d "
                   "comparisons, an earlier one %d",
                   s->pos, s->n);
        while (s->n && s->decisions[s->n - 1].second)
            m = l_join(L, &s->decisions[--s->n], m);
        if (!s->n)
            break;
        struct decision *d = &s->decisions[s->n - 1];
        d->value = m.value;
        d->keep = m.keep;
        d->second = true;
        d->outcome = !d->outcome;
    }
    leave_scope(t);
    m.paths = paths;
    m.line = s->line ? s->line : t->attention_line;
    return m;
}

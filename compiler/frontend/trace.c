/* The front end's entry: runs the user's file, traces its two mods, and fills
 * the graph's roots. In: Lua text; out: ir_graph and ir_roots. Called by
 * compile.c. */
#include "compiler/frontend/frontend.h"

#include "compiler/frontend/trace.h"

struct job { /* of the protected call */
    struct trace *t;
    const char *text;
    size_t size;
    struct ir_roots *roots;
    struct traced_facts *facts;
};

static void l_push_arguments(lua_State *L, bool score)
{
    struct ir_graph *g = trace_of(L)->graph;
    if (score)
        l_push_value(L, ir_score(g));
    for (int v = IR_VAR_B; v <= IR_VAR_KV; v++)
        l_push_value(L, ir_var(g, (enum ir_var)v));
}

/* Traces the function on top twice, with the outcomes of new decisions in
 * opposite orders: state that a run leaves for the next one, and that the
 * fingerprint misses, makes the results differ. */
static struct merged l_trace_mod(lua_State *L, bool score)
{
    struct trace *t = trace_of(L);
    int fn = lua_gettop(L);
    struct merged m[2];
    t->mod = score ? "score_mod" : "mask_mod";
    l_push_arguments(L, score);
    int n_args = lua_gettop(L) - fn;
    for (int order = 0; order < 2; order++) {
        t->first_outcome = order == 0;
        t->lint = order == 0;
        t->runs = 0;
        for (int i = 0; i < t->n_lines; i++)
            t->forks[i] = 0;
        m[order] = l_explore(L, fn, fn + 1, n_args,
                             score ? RESULT_SCORE : RESULT_MASK);
    }
    if (m[0].value != m[1].value || m[0].keep != m[1].keep)
        l_fail_at(L, m[0].line,
                  "%s is not a pure function: traced in another order of its "
                  "comparisons it gives another result",
                  t->mod);
    t->mod = NULL;
    t->lint = false;
    lua_settop(L, fn);
    return m[0];
}

static bool is_read(const struct ir_graph *g, int tensor)
{
    for (uint32_t i = 1; i < g->n_nodes; i++)
        if (g->nodes[i].op == IR_LOAD_B && g->nodes[i].i == tensor)
            return true;
    return false;
}

/* A bool tensor in a condition without all of its indices is no comparison:
 * Lua takes it for true without asking. Read nowhere, one of rank 0, or one
 * that was indexed in part, was most likely used so. */
static void l_check_flags(lua_State *L)
{
    struct trace *t = trace_of(L);
    for (int k = 0; k < t->graph->n_tensors; k++) {
        const struct ir_tensor *decl = &t->graph->tensors[k];
        bool suspect = decl->rank == 0 || t->partial[k];
        if (decl->dtype != DTYPE_BOOL || !suspect || is_read(t->graph, k))
            continue;
        if (decl->rank > 0)
            l_fail_at(L, t->partial[k],
                      "tensor '%s' has %d indices; with fewer it is not read, "
                      "and a condition takes it for true",
                      decl->name, decl->rank);
        l_fail_at(L, decl->line,
                  "tensor '%s' is never read: outside of the mods it has no "
                  "value, and a condition takes it for true",
                  decl->name);
    }
}

static int l_load(lua_State *L)
{
    struct job *j = lua_touserdata(L, 1);
    struct ir_graph *g = j->t->graph;
    lua_settop(L, 0);
    struct attention *a = l_run_file(L, j->text, j->size);
    int attention = lua_gettop(L);
    struct merged score = {ir_score(g), ir_const_b(g, true), 1, 0};
    struct merged mask = {ir_const_b(g, true), IR_NONE, 1, 0};
    j->t->stage = "trace";
    j->t->partial =
        l_alloc(L, sizeof *j->t->partial * (size_t)(g->n_tensors + 1));
    if (a->has_score) {
        lua_getiuservalue(L, attention, 1);
        score = l_trace_mod(L, true);
    }
    if (a->has_mask) {
        lua_getiuservalue(L, attention, 2);
        mask = l_trace_mod(L, false);
    }
    l_check_flags(L);
    j->roots->score = score.value;
    j->roots->keep = ir_and2(g, score.keep, mask.value);
    if (g->failed || j->roots->keep == IR_NONE || score.value == IR_NONE)
        l_fail_recorded(L);
    j->facts->score_paths = score.paths;
    j->facts->mask_paths = mask.paths;
    j->facts->has_mask_mod = a->has_mask;
    j->facts->score_masks = score.keep != ir_const_b(g, true);
    return 0;
}

/* One bit of 64 for each op, by line, of the values that were used. NULL: no
 * memory. */
static uint64_t *used_ops(const struct trace *t)
{
    const size_t n = (size_t)t->n_lines;
    uint64_t *ops = arena_alloc(t->graph->arena, n * sizeof *ops);
    for (size_t i = 0; ops && i < n; i++)
        ops[i] = 0;
    for (uint32_t r = 1; ops && r < t->lint_cap; r++)
        if (t->used[r] && t->born[r] < n)
            ops[t->born[r]] |= UINT64_C(1) << ir_node(t->graph, r)->op % 64;
    return ops;
}

/* The lint: a computed value that nothing used, or "". NULL: no memory. The
 * last turn of a loop and a helper's other result are no mistakes: the same op
 * of that line was used elsewhere. */
static const char *warning_of(const struct trace *t)
{
    const uint64_t *ops = NULL;
    for (uint32_t r = 1; r < t->lint_cap; r++) {
        const uint32_t line = t->born[r];
        if (!line || t->used[r])
            continue;
        if (!ops && !(ops = used_ops(t)))
            return NULL;
        if (line < (uint32_t)t->n_lines &&
            ops[line] >> ir_node(t->graph, r)->op % 64 & 1)
            continue;
        return arena_printf(t->graph->arena,
                            "%s:%u: warning: a computed value is never used "
                            "(every number counts as true in Lua, 0 too)",
                            t->name, (unsigned)line);
    }
    return "";
}

bool frontend_load(struct ir_graph *g, const struct alloc *a, const char *name,
                   const char *text, size_t size,
                   const struct compile_limits *limits, struct ir_roots *roots,
                   struct traced_facts *facts)
{
    struct trace t = {.graph = g, .diag = g->diag};
    struct job j = {&t, text, size, roots, facts};
    bool ok = state_open(&t, a, name, text, size, limits) &&
              state_call(&t, l_load, &j);
    if (ok) {
        facts->warning = warning_of(&t);
        ok = facts->warning || diag_nomem(g->diag, "trace");
    }
    state_close(&t);
    return ok;
}

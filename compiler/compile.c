/* The compiler's stages in order. In: the text of a user's file, later a
 * configuration; out: a program (graph, roots, evaluation plan), then a CUDA
 * unit. Called by the runtime and the tests; explain.c describes a program to
 * people. */
#include "compiler/compile.h"

#include <locale.h>

#include "compiler/frontend/frontend.h"

/* In test builds the graph is checked after every stage. */
static bool verify(struct ir_graph *g, const struct ir_roots *roots)
{
#ifdef FACC_VERIFY
    return ir_verify(g, roots);
#else
    (void)g;
    (void)roots;
    return true;
#endif
}

/* Lua's tostring, tonumber and patterns follow the process's locale (a decimal
 * comma!); what a program means must not. Only this thread is switched. */
static bool load(struct program *p, const struct alloc *a, const char *text,
                 size_t size, const struct compile_limits *limits)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c)
        return false;
    locale_t callers = uselocale(c);
    bool ok = frontend_load(p->graph, a, p->name, text, size, limits, &p->roots,
                            &p->facts);
    uselocale(callers);
    freelocale(c);
    return ok;
}

/* -inf arms become mask, also those that tracing did not see as results. */
static bool lift(struct program *p)
{
    const struct ir_roots traced = p->roots;
    if (!pass_lift(p->graph, &p->roots))
        return false;
    p->facts.score_masks |=
        p->roots.score != traced.score || p->roots.keep != traced.keep;
    return true;
}

static bool build(struct program *p, const struct alloc *a, const char *text,
                  size_t size, const struct compile_limits *limits)
{
    struct ir_graph *g = p->graph;
    return load(p, a, text, size, limits) && verify(g, &p->roots) && lift(p) &&
           verify(g, &p->roots) && pass_congruence(g, &p->roots) &&
           verify(g, &p->roots) &&
           pass_verdict(g, p->roots.keep, &p->verdict) &&
           verify(g, &p->roots) && pass_dot(g, &p->roots, &p->dot) &&
           verify(g, &p->dot.roots) &&
           pass_cell_loads(g, p->roots.score, &p->cell_loads) &&
           pass_plane(g, p->roots.score, &p->plane) &&
           (p->plan = eval_plan_new(p->arena, g, &p->roots)) != NULL &&
           (p->verdict_plan = verdict_plan_new(g, &p->verdict)) != NULL;
}

/* An empty program with its arena and graph. */
static struct program *open_program(const struct alloc *a, const char *name,
                                    struct diag *d)
{
    struct arena *arena = arena_new(a);
    if (!arena)
        return NULL;
    struct program *p = arena_alloc(arena, sizeof *p);
    if (p) {
        p->arena = arena;
        p->facts.warning = "";
        p->name = arena_strdup(arena, name);
        if (p->name && (p->graph = ir_graph_new(arena, d, p->name)) != NULL)
            return p;
    }
    arena_free(arena);
    return NULL;
}

struct program *compile_program(const struct alloc *a, const char *name,
                                const char *text, size_t size,
                                const struct compile_limits *limits,
                                struct diag *d)
{
    const struct compile_limits defaults = {0};
    struct program *p = open_program(a, name, d);
    if (!p) {
        diag_nomem(d, "load");
        return NULL;
    }
    if (!build(p, a, text, size, limits ? limits : &defaults)) {
        diag_nomem(d, "compile"); /* does nothing if a reason is recorded */
        program_free(p);
        return NULL;
    }
    p->graph->diag = NULL; /* the caller's, from here on per call */
    return p;
}

void program_free(struct program *p)
{
    if (p)
        arena_free(p->arena);
}

bool compile_unit(struct program *p, const struct unit_config *config,
                  const char *template_dir, struct arena *out_arena,
                  struct cuda_unit *out, struct diag *d)
{
    struct ir_graph *g = p->graph;
    g->diag = d;
    g->failed = false; /* an earlier call may have run out of memory */
    const bool ok = emit_unit(g, &p->roots, &p->verdict, config, template_dir,
                              out_arena, out);
    if (!ok)
        diag_nomem(d, "emit");
    g->diag = NULL;
    return ok;
}

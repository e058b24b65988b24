/* The compiler's face to the runtime: Lua text in, a program; a program and a
 * configuration in, a CUDA unit. Needs no GPU. Read compile.c first: it calls
 * the stages in order. */
#ifndef FACC_COMPILE_H
#define FACC_COMPILE_H

#include "compiler/emit/emit.h"
#include "compiler/ir/eval.h"
#include "compiler/ir/ir.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/verdict.h"

struct traced_facts {
    int score_paths, mask_paths; /* explored while tracing */
    bool has_mask_mod;
    bool score_masks;    /* -inf arms of the score_mod are part of keep */
    const char *warning; /* lint, "file:line: warning: …", or "" */
};

struct program {
    struct arena *arena; /* owns the program itself and all below */
    struct ir_graph *graph;
    struct ir_roots roots;          /* after all passes */
    struct dot_term dot;            /* of roots */
    struct eval_plan *plan;         /* of roots */
    struct verdict_program verdict; /* of roots.keep */
    struct verdict_plan *verdict_plan;
    const char *name; /* file or chunk name as given */
    struct traced_facts facts;
    int cell_loads; /* captured elements that the score reads for every cell */
    struct plane plane; /* of roots.score */
};

struct compile_limits {     /* zero fields mean the default */
    size_t lua_memory;      /* bytes; default 64 MiB */
    long long instructions; /* VM instructions per load; default 200 M */
    int max_paths;          /* default 4096 */
    int max_comparisons;    /* on one path; default 512 */
};

/* Loads, traces and optimises one file of Lua. `name` is used in
 * messages ("alibi.lua"). NULL with *d filled on failure. */
struct program *compile_program(const struct alloc *a, const char *name,
                                const char *text, size_t size,
                                const struct compile_limits *limits,
                                struct diag *d);
void program_free(struct program *p);

/* Adds nodes to the program's graph: callers serialise per program. The unit
 * lives in `out_arena`. template_dir as for emit_unit, may be NULL. */
bool compile_unit(struct program *p, const struct unit_config *config,
                  const char *template_dir, struct arena *out_arena,
                  struct cuda_unit *out, struct diag *d);

/* Human-readable facts: scopes of every value, affine forms, bounds. */
bool compile_explain(struct program *p, struct strbuf *out, struct diag *d);
/* What put the mask into its tier, "reads id[kv]   line 5"; nothing for the
 * tiers that need no tensor. */
bool compile_tier_cause(struct program *p, struct strbuf *out, struct diag *d);

#endif

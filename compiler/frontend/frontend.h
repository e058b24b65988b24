/* Lua text to graph. Read trace.c first: it runs the user's file (state.c, in
 * the sandbox of sandbox.c, its text rewritten by rewrite.c) and traces the
 * mods: explore.c runs a function on all its paths, value.c and operators.c
 * are the traced numbers, tensor.c dsl.c scopes.c attention.c the facc table,
 * mods.lua the standard mods. concrete.c runs the same file on numbers. */
#ifndef FACC_FRONTEND_H
#define FACC_FRONTEND_H

#include "compiler/compile.h"

/* Fills g (tensors, params, nodes), roots (before passes) and the path
 * counts. False with g->diag filled. */
bool frontend_load(struct ir_graph *g, const struct alloc *a, const char *name,
                   const char *text, size_t size,
                   const struct compile_limits *limits, struct ir_roots *roots,
                   int *score_paths, int *mask_paths, const char **warning);

/* The same file run by the Lua VM on numbers, nothing traced: the oracle of
 * the tests. Tensors and params give numbers from env. */
struct concrete; /* opaque */
struct concrete *concrete_open(const char *name, const char *text, size_t size,
                               const struct eval_env *env, struct diag *d);
/* score is in/out (mod applied), keep out. False: *d filled. */
bool concrete_cell(struct concrete *c, int64_t b, int64_t h, int64_t q,
                   int64_t kv, double *score, bool *keep, struct diag *d);
void concrete_close(struct concrete *c);

#endif

/* Lua text to graph. state.c opens the sandbox and loads the script,
 * rewrite.c rewrites == ~= and index keys, dsl.c is the facc module and the
 * metamethods of traced values, trace.c explores paths. */
#ifndef FACC_FRONTEND_H
#define FACC_FRONTEND_H

#include "compiler/compile.h"

/* Fills g (tensors, params, nodes), roots (before passes) and the path
 * counts. False with g->diag filled. */
bool frontend_load(struct ir_graph *g, const struct alloc *a, const char *name,
                   const char *text, size_t size,
                   const struct compile_limits *limits,
                   struct ir_roots *roots, int *score_paths, int *mask_paths,
                   const char **warning);

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

/* Lua text to graph. Read trace.c first: it runs the user's file (state.c, in
 * the sandbox of sandbox.c, its text rewritten by rewrite.c) and traces the
 * mods: explore.c runs a function on all its paths, value.c and operators.c
 * are the traced numbers, tensor.c dsl.c scopes.c attention.c the facc table,
 * counted.c Lua's own functions, mods.lua the standard mods. The tests run the
 * same file on numbers: tests/fuzz/concrete.c. */
#ifndef FACC_FRONTEND_H
#define FACC_FRONTEND_H

#include "compiler/compile.h"

/* Fills g (tensors, params, nodes), roots (before passes) and what else is
 * known of the mods. False with g->diag filled. */
bool frontend_load(struct ir_graph *g, const struct alloc *a, const char *name,
                   const char *text, size_t size,
                   const struct compile_limits *limits, struct ir_roots *roots,
                   struct traced_facts *facts);

#endif

/* Temporary arrays of the builders: a stack per graph whose memory is used
 * again, because an arena never takes anything back and one trace builds
 * hundreds of thousands of lists. */
#ifndef FACC_SCRATCH_H
#define FACC_SCRATCH_H

#include "compiler/ir/ir.h"

struct scratch_chunk; /* opaque */

struct scratch_mark {
    struct scratch_chunk *chunk;
    size_t used;
};

/* Everything allocated after a mark goes at its release; marks nest. */
struct scratch_mark scratch_mark(const struct ir_graph *g);
void scratch_release(struct ir_graph *g, struct scratch_mark m);
/* Uninitialised, aligned to 16. NULL when memory is out (graph failed). */
void *scratch_alloc(struct ir_graph *g, size_t size);

#endif

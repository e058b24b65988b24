/* Makes a failing case small: fewer decisions, smaller numbers, as long as the
 * case still fails in the same stage. */
#ifndef FACC_FUZZ_SHRINK_H
#define FACC_FUZZ_SHRINK_H

#include "tests/fuzz/pool.h"

/* c: the decisions of the failing case, as made, in and out. *o: its outcome,
 * in and out. Attempts; at most `seconds`.
 */
long fuzz_shrink(struct pool *p, struct choices *c, struct outcome *o,
                 double seconds);

#endif

/* A user's file run by the Lua VM on numbers, nothing traced: the oracle of the
 * tests. Tensors and params give numbers from env. */
#ifndef FACC_TEST_CONCRETE_H
#define FACC_TEST_CONCRETE_H

#include "compiler/compile.h"

struct concrete; /* opaque */
struct concrete *concrete_open(const char *name, const char *text, size_t size,
                               const struct eval_env *env, struct diag *d);
/* score is in/out (mod applied), keep out. False: *d filled. */
bool concrete_cell(struct concrete *c, int64_t b, int64_t h, int64_t q,
                   int64_t kv, double *score, bool *keep, struct diag *d);
void concrete_close(struct concrete *c);

#endif

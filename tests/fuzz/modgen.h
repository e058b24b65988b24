/* Random programs in Lua: seed in, text out. Every mod is pure and defined
 * for all cells: indices stay inside the tensors, divisors are not zero,
 * arguments stay in their functions' domains, numbers stay small, so that
 * plain Lua, the evaluator and kernels must agree. All programs declare the
 * same tensors and params, in the order of modgen_tensors. */
#ifndef FACC_MODGEN_H
#define FACC_MODGEN_H

#include <stddef.h>
#include <stdint.h>

#include "compiler/dtype.h"

struct modgen_tensor {
    const char *name;
    enum dtype dtype;
    int rank;
    int64_t extent[3];
    int64_t below; /* ints: values are 0 … below - 1 */
};
extern const struct modgen_tensor modgen_tensors[];
extern const int modgen_n_tensors;
/* Params: pi (i32) from 1 to 64, pl (i64) the same, pf (f32) in (0, 4). */
enum { MODGEN_PARAMS = 3 };

/* Sizes the programs reckon with: B, H <= 4; lengths <= 64. */
enum { MODGEN_MAX_LENGTH = 64, MODGEN_TEXT = 1 << 16 };

/* The program of a seed into text[MODGEN_TEXT]; its length. */
size_t modgen(uint64_t seed, char *text);

#endif

/* Inner loops of the evaluator, one set per precision and instruction set.
 * eval_kernels.c makes them by including eval_loops.h several times; eval.c
 * calls them. Every set gives the same bits: no contraction, no
 * reassociation. */
#ifndef FACC_EVAL_KERNELS_H
#define FACC_EVAL_KERNELS_H

#include "compiler/ir/eval.h"

struct eval_kernels {
    /* d[i] = op(x0[i], x1[i], x2[i]); unused operands are NULL. */
    void (*table)(enum ir_op op, int n, void *d, const void *x0, const void *x1,
                  const void *x2);
    /* d[i] += k * x[i], wrapping */
    void (*axpy)(int n, int64_t *d, int64_t k, const int64_t *x);
    /* d[i] = c + k * x[i] >= 0, or == 0 */
    void (*test)(bool equal, int n, uint8_t *d, int64_t c, int64_t k,
                 const int64_t *x);
    /* One more index of a load: off[i] += stride * clamp(x[i]), and
     * bad[i] |= x[i] outside [0, extent). True when any is outside. */
    bool (*index)(int n, int64_t *off, uint8_t *bad, const int64_t *x,
                  int64_t extent, int64_t stride);
    /* d[i] = data[off[i]] as the IR type of `t` */
    void (*gather)(enum dtype t, int n, void *d, const void *data,
                   const int64_t *off);
    /* d[i] += a[i] * b[i], floats; of an operand that is not wide a[0] */
    void (*mac)(int n, void *d, const void *a, bool a_wide, const void *b,
                bool b_wide);
};

/* The best set that this machine runs. */
const struct eval_kernels *eval_kernels_get(enum eval_precision prec);
/* By name, "generic" "avx2" "avx512": NULL when this machine lacks it. */
const struct eval_kernels *eval_kernels_named(enum eval_precision prec,
                                              const char *isa);

#endif

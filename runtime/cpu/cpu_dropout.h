/* Dropout on the CPU: which weights of a tile are 0, as all kernels decide. */
#ifndef FACC_CPU_DROPOUT_H
#define FACC_CPU_DROPOUT_H

#include "runtime/args.h"

/* q and kv in their sequence; q0 and kv0 are multiples of 16. */
struct cpu_rectangle {
    int q0, rows, kv0, columns;
};

/* Sets what is dropped of x [rows][ld], floats of `size` bytes, to 0. head:
 * b * H + h. */
void cpu_drop(const struct args_dropout *d, uint32_t head,
              const struct cpu_rectangle *r, void *x, int ld, size_t size);

#endif

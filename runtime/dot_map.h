/* TMA descriptors of the captured tensors whose rows join Q K^T, for kernels of
 * family sm90. Called by launch.c; no allocation, no lock. */
#ifndef FACC_DOT_MAP_H
#define FACC_DOT_MAP_H

#include <stdbool.h>

#include "compiler/emit/emit.h"
#include "runtime/args.h"
#include "runtime/driver.h"

/* What launches must know of the program's term: by value, as a kernel may
 * outlive its program. */
struct dot_tensors {
    int columns; /* 0: there is no such term */
    struct dot_side {
        int tensor, dim; /* rows lie along this dimension */
        bool shifted;    /* not from its first on */
    } row, col;
};
/* dot NULL: none. */
void dot_tensors_of(const struct dot_term *dot, struct dot_tensors *out);

/* Whether TMA can read the tensors of a call. False: *d, which may be NULL,
 * says which is not so and what helps. Reads no tensor's memory. */
bool dot_map_possible(const struct dot_tensors *dot, const struct signature *s,
                      const facc_args *args, const char *stage, struct diag *d);

/* Encodes the maps of a call that is possible and has rows. tile_n: columns of
 * a KV tile. */
bool dot_map_encode(const struct driver *drv, const struct dot_tensors *dot,
                    int tile_n, const facc_args *args,
                    const struct args_sizes *sizes, unsigned char (*map)[128],
                    const char *stage, struct diag *d);

#endif

/* TMA descriptors of captured tensors, for kernels of family sm90: those whose
 * rows join Q K^T, and the one whose tiles are copied. Called by launch.c; no
 * allocation, no lock. */
#ifndef FACC_CAPTURED_MAP_H
#define FACC_CAPTURED_MAP_H

#include <stdbool.h>

#include "compiler/emit/emit.h"
#include "runtime/args.h"
#include "runtime/driver.h"

/* What launches must know of the program's term: by value, as a kernel may
 * outlive its program. */
struct captured_rows {
    int tensor, dim; /* rows lie along this dimension */
    bool shifted;    /* not from its first on */
};
struct dot_tensors {
    int columns; /* 0: there is no such term */
    struct captured_rows row, col;
};
struct plane_tensor {
    int bytes; /* of an element; 0: there is none */
    struct captured_rows rows;
};
/* dot NULL: none. */
void dot_tensors_of(const struct dot_term *dot, struct dot_tensors *out);
struct plane_tensor plane_tensor_of(const struct plane *plane);

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

/* The same of the tensor whose tiles are copied, which kernels can do without;
 * there is one. A tile has tile_m rows and tile_n columns. */
bool plane_map_possible(const struct plane_tensor *plane,
                        const facc_args *args);
bool plane_map_encode(const struct driver *drv,
                      const struct plane_tensor *plane, int tile_m, int tile_n,
                      const facc_args *args, const struct args_sizes *sizes,
                      unsigned char map[128], const char *stage,
                      struct diag *d);

#endif

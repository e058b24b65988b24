/* TMA descriptors of Q, K and V, for kernels of family sm90. Called by launch.c
 * on every launch, and by kernel.c; no allocation, no lock. */
#ifndef FACC_TENSOR_MAP_H
#define FACC_TENSOR_MAP_H

#include <stdbool.h>

#include "compiler/emit/emit.h"
#include "runtime/args.h"
#include "runtime/driver.h"

/* Whether TMA can read Q, K and V, and O be written 16 bytes at a time
 * (facc.h: aligned). False: *d, which may be NULL, says which tensor is not so
 * and what helps. Reads no tensor's memory. */
bool tensor_map_possible(const facc_args *args, const struct unit_config *c,
                         const char *stage, struct diag *d);

/* Encodes the maps of Q, K and V of a call that is possible and has rows. */
bool tensor_map_encode(const struct driver *drv, const struct unit_config *c,
                       const facc_args *args, unsigned char (*map)[128],
                       const char *stage, struct diag *d);

#endif

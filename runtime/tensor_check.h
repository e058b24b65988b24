/* Checks of one tensor of a call, for all kinds of calls. Each that does not
 * hold sets the diag, with the tensor's name, what was given and what must be,
 * and returns false. */
#ifndef FACC_TENSOR_CHECK_H
#define FACC_TENSOR_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/support/diag.h"
#include "runtime/facc.h"

struct tensor_report {
    const char *stage; /* "launch", … */
    struct diag *d;
};

/* Without elements, data and strides say nothing (NumPy sets them to 0). */
bool tensor_has_elements(const facc_tensor *t);

bool tensor_is_f32(const struct tensor_report *r, const char *name,
                   const facc_tensor *t);
/* layout: of all extents, for the message. */
bool tensor_rank_is(const struct tensor_report *r, const char *name,
                    const facc_tensor *t, int rank, const char *layout);
bool tensor_extent_is(const struct tensor_report *r, const char *name,
                      const facc_tensor *t, int dim, int64_t want,
                      const char *layout);
/* Has data, at a multiple of align bytes; or no elements. */
bool tensor_is_aligned(const struct tensor_report *r, const char *name,
                       const facc_tensor *t, size_t align);
/* No two elements of an output share memory through stride 0. */
bool tensor_is_writable(const struct tensor_report *r, const char *name,
                        const facc_tensor *t);

#endif

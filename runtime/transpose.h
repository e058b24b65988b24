/* V for FP8 kernels, which read it transposed: the caller's image, or one that
 * facc_transpose_v makes in the workspace before each launch. Called by
 * kernel.c, launch.c and workspace.c; allocates nothing, reads no tensor. */
#ifndef FACC_TRANSPOSE_H
#define FACC_TRANSPOSE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/args.h"
#include "templates/common/fp8_args.h"

struct transpose {
    int grid;          /* CTAs of facc_transpose_v; 0: it is not launched */
    size_t bytes;      /* of the workspace, behind the schedule's */
    void *image;       /* of V, the caller's or in the workspace */
    int64_t stride[2]; /* bytes: of b (packed: 0), of a KV head */
    struct facc_transpose_args args;
};

/* `used` bytes of args->workspace are the schedule's. False, with *d filled,
 * when there are more rows than one launch takes, or facc_transpose_v cannot
 * read V. Reads no memory of the call. */
bool transpose_make(const facc_args *args, const struct args_sizes *z,
                    size_t used, const char *stage, struct transpose *out,
                    struct diag *d);

#endif

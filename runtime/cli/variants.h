/* Lists of dtypes, head dims and architectures from the command line. */
#ifndef FACC_CLI_VARIANTS_H
#define FACC_CLI_VARIANTS_H

#include "runtime/cli/cli.h"

enum { MAX_LIST = 64 };
struct variant_lists {
    int dtype[MAX_LIST], head_dim[MAX_LIST], arch[MAX_LIST];
    int n_dtype, n_head_dim, n_arch;
};

/* --dtype, --head-dim and --arch with their defaults (bf16, 128, 90).
 * --check-bounds, --packed, --block-mask, --layout and --family hold for all
 * variants. */
int variants_parse(const struct command *c, const struct options *o,
                   struct variant_lists *l);
facc_variant variants_make(const struct options *o,
                           const struct variant_lists *l, int dtype,
                           int head_dim, int arch);
/* Where each option must be one value. */
int variants_single(const struct command *c, const struct options *o,
                    facc_variant *out);

#endif

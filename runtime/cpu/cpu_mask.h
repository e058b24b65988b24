/* The mask as the CPU attention walks over it: what is true of a tile without
 * looking at its cells, and what block lists say of each cell. */
#ifndef FACC_CPU_MASK_H
#define FACC_CPU_MASK_H

#include "compiler/passes/verdict.h"
#include "runtime/cpu/cpu_tile.h"

struct cpu_mask { /* of one thread */
    const struct cpu_call *call;
    struct verdict_state *verdicts; /* NULL: no mask, all FULL */
    const uint8_t *classes;         /* of (b, h), or NULL */
    int64_t kv_len;                 /* of b */
    uint8_t *given;                 /* [CPU_TILE_M][CPU_TILE_N] */
    int64_t skip_until;             /* columns before it are EMPTY */
};

/* False: memory. */
bool cpu_mask_open(struct cpu_mask *m, const struct cpu_call *call);
void cpu_mask_close(struct cpu_mask *m);
/* All calls below are about (b, h), until the next block of rows. */
void cpu_mask_head(struct cpu_mask *m, int b, int h);
/* Of rows x n cells, inside the lengths; tiles of a block of rows come in
 * rising order. *given: for each cell what block lists say, rows CPU_TILE_N
 * apart, as eval_row_given takes it; NULL where the mask decides all. */
enum verdict cpu_mask_tile(struct cpu_mask *m, int q0, int rows, int kv0, int n,
                           const uint8_t **given);

#endif

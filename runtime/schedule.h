/* The schedule of a launch (templates/README.md): whether there is one, which
 * kernels make it, and where in the workspace it lies. Called by kernel.c,
 * launch.c and workspace.c; allocates nothing, reads no tensor. */
#ifndef FACC_SCHEDULE_H
#define FACC_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/args.h"
#include "runtime/program.h"
#include "templates/common/kernel_args.h"

/* The kernels of a launch: those before facc_forward, in order, make its
 * schedule and are in one module. */
enum entry {
    ENTRY_CLASSES,   /* facc_block_classes */
    ENTRY_SUMMARIZE, /* facc_summarize */
    ENTRY_SCAN,      /* facc_scan */
    ENTRY_SCHEDULE,  /* facc_schedule */
    ENTRY_ORDER,     /* facc_order */
    ENTRY_FORWARD,   /* facc_forward */
    ENTRY_TRANSPOSE, /* facc_transpose_v, before it: runtime/transpose.h */
    /* of no attention: runtime/quantize.c */
    ENTRY_ROUND_SUMS,
    ENTRY_ROUND_MEAN,
    ENTRY_ROUND_AMAX,
    ENTRY_ROUND_SCALE,
    ENTRY_ROUND,
    N_ENTRIES
};
const char *entry_name(enum entry e);

/* What a program and a configuration decide: the same as what is generated
 * for struct Variant. */
struct schedule_facts {
    enum mask_tier tier;
    bool scheduled;        /* FACC_SCHEDULED: launches make a schedule */
    bool planned;          /* kPlanned: a schedule whatever the call */
    bool scanned, halved;  /* kScanned, kHalved */
    bool per_b, per_h;     /* the mask depends on b, on h */
    int q_bytes, kv_bytes; /* of a record of summaries; 0: there are none */
};
void schedule_facts(const facc_program *p, const struct unit_config *c,
                    struct schedule_facts *out);
/* "none" … "opaque", and "given" for block masks. */
const char *schedule_tier(const struct schedule_facts *f,
                          const struct unit_config *c);
/* Bit e: the module of this configuration has entry e. */
unsigned schedule_entries(const struct schedule_facts *f,
                          const struct unit_config *c);

/* The grids of one launch, and where its schedule is. */
struct schedule {
    bool needed;         /* else facc_forward alone, and no workspace */
    int q_tiles;         /* of the longest sequence */
    int grid[N_ENTRIES]; /* CTAs; 0: not launched. facc_forward: num_work, of
                            which family sm90 has CTAs of several */
    size_t bytes;        /* of the workspace, from args->workspace on */
    struct facc_schedule at;
    struct facc_tiling tiling;
    int section_heads, last_section; /* family sm90, needed: kernel_args.h */
    int *next_item;                  /* two counters, or NULL */
};
enum { SCHEDULE_ALIGN = 256 }; /* bytes: of the workspace, of each part */

/* False, with *d filled, when the call is too large for one launch. Reads no
 * memory of the call, not even whether there is a workspace. */
bool schedule_make(const struct unit_config *c, const struct schedule_facts *f,
                   const facc_args *args, const struct args_sizes *z,
                   const char *stage, struct schedule *out, struct diag *d);

#endif

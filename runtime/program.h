/* A loaded program: the compiler's result, its text for messages, and the
 * signature (what it captures) in the public form. */
#ifndef FACC_PROGRAM_H
#define FACC_PROGRAM_H

#include <pthread.h>

#include "compiler/compile.h"
#include "runtime/facc.h"

struct planned; /* module.h */

/* What a program asks of facc_args: captured tensors and params, in their
 * order. Names and arrays are owned by one block (`block`), so that kernels
 * can outlive programs. */
struct signature {
    void *block;
    const char *file; /* of the program, for messages */
    int n_tensors, n_params;
    facc_declared *tensors, *params;
    /* score_mod and mask_mod both mask: what a full block of a block mask
     * means is not known, they are refused. */
    bool no_full_blocks;
};

bool signature_copy(struct signature *out, const struct signature *s);
void signature_free(struct signature *s);

struct facc_program {
    facc_ctx *ctx;
    struct program *compiled; /* graph->…, plan: immutable for readers */
    struct signature signature;
    int q_summary_bytes; /* of the verdict program: see schedule_facts */
    int kv_summary_bytes;
    char *text;            /* the user's text, NUL-terminated */
    size_t text_size;      /* it may have a NUL within */
    pthread_mutex_t lock;  /* compile_unit and compile_explain add nodes */
    struct planned *plans; /* module.c: code that was got, in no order */
};

#endif

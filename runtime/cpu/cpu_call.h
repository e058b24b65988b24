/* A call on host memory as the evaluator takes it: captured tensors, params,
 * lengths of sequences, block lists; read once and checked. For
 * facc_cpu_attention and facc_verdict_map. */
#ifndef FACC_CPU_CALL_H
#define FACC_CPU_CALL_H

#include "compiler/ir/eval.h"
#include "compiler/passes/verdict.h"
#include "runtime/args.h"

struct cpu_env {
    struct eval_env env; /* len_q, len_kv: used lengths, NULL: all Sq, Skv */
    /* Block lists: what they say of each block, as enum verdict. NULL: none,
     * the program decides. */
    uint8_t *classes; /* [B or 1][H or 1][rows][cols] */
    void *memory;     /* of env */
};

/* `a` and *z as args_check left them; borrowed. score_masks: the score_mod
 * masks cells, in full blocks too, so that these ask the mask like partial
 * ones. stage: of messages. False: *d filled. Close it in either case. */
bool cpu_env_open(struct cpu_env *e, const facc_args *a,
                  const struct args_sizes *z, bool score_masks,
                  const char *stage, struct diag *d);
void cpu_env_close(struct cpu_env *e);

/* [rows][cols] of one (b, h), or NULL. */
const uint8_t *cpu_env_classes(const struct cpu_env *e,
                               const struct args_sizes *z, int b, int h);

/* Of one (b, h)'s classes, those of the blocks that rows q_first .. q_last and
 * columns kv_first .. kv_last touch: bit 1 << class. */
unsigned cpu_classes_in(const uint8_t *classes, const facc_block_mask *m,
                        int64_t q_first, int64_t q_last, int64_t kv_first,
                        int64_t kv_last);
/* The verdict of a rectangle that touches blocks of these classes; by_mask:
 * the program's, which stands for its partial blocks and counts only with
 * them. As scan_tile of templates/common/scan.cuh has it. */
enum verdict cpu_classes_join(unsigned classes, enum verdict by_mask);

#endif

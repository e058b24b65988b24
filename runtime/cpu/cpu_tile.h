/* One block of query rows of one head: what facc_cpu_attention's threads do
 * over and over. */
#ifndef FACC_CPU_TILE_H
#define FACC_CPU_TILE_H

#include "runtime/cpu/cpu_call.h"
#include "runtime/cpu/cpu_kernels.h"

enum { CPU_TILE_M = 128, CPU_TILE_N = 128 }; /* rows, columns; N: 32 k */

/* A call, as all threads see it. */
struct cpu_call {
    const facc_args *args;
    struct args_sizes size;
    double scale;
    struct args_dropout dropout;
    bool f64;
    const struct cpu_kernels *kernels;
    const struct eval_plan *plan;
    const struct verdict_plan *verdicts;
    struct cpu_env env;
};

/* One thread's memory. */
struct cpu_scratch;
/* NULL when memory is out. */
struct cpu_scratch *cpu_scratch_new(const struct cpu_call *call);
void cpu_scratch_free(struct cpu_scratch *s);

/* Rows of sequence b in Q, used or not. */
int cpu_rows(const struct cpu_call *call, int b);
/* Output and LSE of rows q0 .. q0 + CPU_TILE_M - 1 (as far as there are any)
 * of sequence b, head h. False: *d filled. */
bool cpu_tile_run(const struct cpu_call *call, struct cpu_scratch *s, int b,
                  int h, int q0, struct diag *d);

#endif

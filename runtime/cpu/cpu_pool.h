/* Threads of the CPU path: made on first use, kept by the context, made anew
 * in a forked child. */
#ifndef FACC_CPU_POOL_H
#define FACC_CPU_POOL_H

#include "runtime/context.h"

/* The context's pool. NULL with *d filled when memory is out. */
struct cpu_pool *cpu_pool_get(facc_ctx *ctx, struct diag *d);
/* No run may be in flight. NULL is fine; so is a pool inherited by fork. */
void cpu_pool_free(struct cpu_pool *p);

/* Calls work(user) on the caller and on up to threads - 1 others at once;
 * returns when all calls have. A pool that is busy, or threads that cannot
 * be made, leave the work to fewer threads, so work must take its share from
 * a common counter. */
void cpu_pool_run(struct cpu_pool *p, int threads, void (*work)(void *user),
                  void *user);

#endif

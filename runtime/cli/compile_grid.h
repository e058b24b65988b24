/* Many kernels at once: facc compile's tasks and their progress. */
#ifndef FACC_CLI_COMPILE_GRID_H
#define FACC_CLI_COMPILE_GRID_H

#include <pthread.h>

#include "runtime/cli/cli.h"

struct task {
    const char *file;      /* of the program; "" expressions; not owned */
    facc_program *program; /* NULL: it could not be loaded, see err */
    facc_variant variant;
    facc_quantize_variant quantize; /* from is not 0: this one */
    facc_status status;
    facc_error err;
    facc_kernel_info info;
    double seconds;
};

struct grid {
    facc_ctx *ctx;
    struct task *tasks;
    int n, cap;
    bool quiet; /* no lines on stdout */
    /* while they run */
    pthread_mutex_t lock;
    int next, running, done, failed, compiled;
    double compiled_seconds;
    double start;
    bool line; /* a line of progress is on the terminal */
};

/* A new task at the end. */
struct task *grid_add(struct grid *g);

/* For facc_options: a quantizer's handle does not say where it is from. */
void grid_on_compile(void *user, const facc_compile_event *e);

/* How many of n tasks may compile at once: as many as asked for (0: as there
 * are CPUs) and the memory holds, which is `memory` MiB (0: what is free here).
 */
int grid_jobs(int n, int asked, int memory);

/* Gets all kernels, `jobs` at a time. An interrupt (SIGINT, SIGTERM) lets those
 * that run end. EXIT_OK or EXIT_FAILED. */
int grid_run(struct grid *g, int jobs);

#endif

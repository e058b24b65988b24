/* Processes that check cases, so that one that crashes or hangs is a finding
 * and not the end. The parent never touches the library or a GPU. */
#ifndef FACC_FUZZ_POOL_H
#define FACC_FUZZ_POOL_H

#include <sys/types.h>

#include "tests/fuzz/check.h"

enum { POOL_MOST = 256 };

struct worker {
    pid_t pid; /* 0: not running */
    int to, from;
    bool busy;
    double since, cpu; /* of the case under way: when it began, and the
                          worker's CPU time then */
    uint64_t seed;
};

struct pool {
    struct check_options options;
    double timeout; /* seconds of CPU time a case may take; 4 times as long by
                       the clock: the machine may be busy */
    int n;
    struct worker worker[POOL_MOST];
};

double pool_now(void); /* seconds */
void pool_open(struct pool *p, const struct check_options *options, int n,
               double timeout);
void pool_close(struct pool *p);
/* Whether there is a GPU: asked by another process. */
bool pool_has_gpu(void);
/* Gives an idle worker a case: of a seed, or (given not NULL) of these
 * decisions. */
void pool_send(struct pool *p, int worker, uint64_t seed, const uint32_t *given,
               uint32_t n);
/* Waits until a case ends; the worker, or -1 after `seconds`. */
int pool_wait(struct pool *p, double seconds, struct outcome *out);

#endif

/* Times of what a test does. A busy machine makes the thread's own little
 * longer; of the others the best of many tells. */
#ifndef FACC_TEST_TIMING_H
#define FACC_TEST_TIMING_H

#include <time.h>

static inline double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* CPU time of this thread: what others do meanwhile is not counted. */
static inline double thread_seconds(void)
{
    return clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

static inline double wall_seconds(void)
{
    return clock_seconds(CLOCK_MONOTONIC);
}

#endif

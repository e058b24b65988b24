/* How many CPUs this process may use: at least 1. For the library and for the
 * command line, which does not see the library's own functions. */
#ifndef FACC_USABLE_CPUS_H
#define FACC_USABLE_CPUS_H

#include <sched.h>
#include <unistd.h>

static inline int usable_cpus(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    if (n < 1) /* more CPUs than the set holds */
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n;
}

#endif

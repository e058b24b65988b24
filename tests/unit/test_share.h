/* Which sanitizer a build has; how many random cases it runs. */
#ifndef FACC_TEST_SHARE_H
#define FACC_TEST_SHARE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FACC_TEST_SLOW 1
#endif
#if __has_feature(thread_sanitizer)
#define FACC_TEST_THREADS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FACC_TEST_SLOW 1
#elif defined(__SANITIZE_THREAD__)
#define FACC_TEST_THREADS 1
#endif

static inline bool test_long(void) /* tests/run.sh --long */
{
    const char *is_long = getenv("FACC_TEST_LONG");
    return is_long != NULL && strcmp(is_long, "1") == 0;
}

/* Of n cases: a quarter under sanitizers, which take several times as long,
 * in the short form; else all. */
static inline int test_share(int n)
{
#ifdef FACC_TEST_SLOW
    if (!test_long())
        return (n + 3) / 4;
#endif
    return n;
}

#endif

/* Preloaded by out_of_memory.sh: the FAIL_NTH-th allocation of the process,
 * and every one after it unless FAIL_ONCE is set, returns NULL. With FAIL_COUNT
 * the number of allocations is written to standard error at exit. The C
 * library's own start-up does not come here. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);

static atomic_long count, limit = -1;
static atomic_int once;

static void report(void)
{
    fprintf(stderr, "ALLOCATIONS %ld\n", (long)count);
}

static int fails(void)
{
    long nth = atomic_load(&limit);
    if (nth < 0) {
        const char *s = getenv("FAIL_NTH");
        nth = s ? atol(s) : 0;
        atomic_store(&once, getenv("FAIL_ONCE") != NULL);
        atomic_store(&limit, nth);
        if (getenv("FAIL_COUNT"))
            atexit(report);
    }
    long n = atomic_fetch_add(&count, 1) + 1;
    if (nth <= 0 || n < nth || (n > nth && atomic_load(&once)))
        return 0;
    errno = ENOMEM; /* the C library asserts it */
    return 1;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return fails() ? NULL : __libc_realloc(p, n);
}

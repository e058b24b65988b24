/* An allocator that gives out memory `left` times and then refuses, and that
 * counts what is still alive. */
#ifndef FACC_TEST_FAILING_ALLOC_H
#define FACC_TEST_FAILING_ALLOC_H

#include <stdlib.h>

#include "compiler/support/arena.h"

struct failing {
    long left; /* allocations until the first refusal */
    long live; /* blocks not yet freed */
};

static inline void *failing_fn(void *user, void *ptr, size_t old_size,
                               size_t new_size)
{
    struct failing *f = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        f->live--;
        return NULL;
    }
    if (f->left <= 0)
        return NULL;
    f->left--;
    if (!ptr)
        f->live++;
    return realloc(ptr, new_size);
}

static inline struct alloc failing_alloc(struct failing *f)
{
    return (struct alloc){failing_fn, f};
}

#endif

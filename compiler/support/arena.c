/* Chained blocks that die together. In: an allocator with sizes; out: zeroed,
 * 16-aligned pieces. Everything in the compiler that outlives one function
 * call is made here, so one arena_free ends a program and all it owns. */
#include "compiler/support/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct block {
    struct block *prev;
    size_t size; /* bytes of data */
    size_t used;
    size_t pad; /* keeps data 16-aligned */
    unsigned char data[];
};
_Static_assert(sizeof(struct block) % ALIGN == 0, "data must be aligned");

struct arena {
    struct alloc alloc;
    struct block *top;
    size_t next_size; /* of the next ordinary block */
    size_t used;      /* bytes handed out */
};

static void *libc_fn(void *user, void *ptr, size_t old_size, size_t new_size)
{
    (void)user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

const struct alloc alloc_libc = {libc_fn, NULL};

struct arena *arena_new(const struct alloc *a)
{
    struct arena *r = a->fn(a->user, NULL, 0, sizeof *r);
    if (!r)
        return NULL;
    memset(r, 0, sizeof *r);
    r->alloc = *a;
    r->next_size = FIRST_BLOCK;
    return r;
}

void arena_free(struct arena *a)
{
    if (!a)
        return;
    struct alloc alloc = a->alloc;
    for (struct block *b = a->top; b;) {
        struct block *prev = b->prev;
        alloc.fn(alloc.user, b, sizeof *b + b->size, 0);
        b = prev;
    }
    alloc.fn(alloc.user, a, sizeof *a, 0);
}

/* 0 when rounding up leaves size_t. */
static size_t rounded(size_t size)
{
    if (size == 0)
        return ALIGN;
    if (size > SIZE_MAX - sizeof(struct block) - ALIGN)
        return 0;
    return (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

static struct block *add_block(struct arena *a, size_t need)
{
    size_t size = a->next_size > need ? a->next_size : need;
    struct block *b = a->alloc.fn(a->alloc.user, NULL, 0, sizeof *b + size);
    if (!b)
        return NULL;
    b->prev = a->top;
    b->size = size;
    b->used = 0;
    a->top = b;
    if (a->next_size < LARGEST_BLOCK)
        a->next_size *= 2;
    return b;
}

void *arena_alloc(struct arena *a, size_t size)
{
    size_t need = rounded(size);
    if (!need)
        return NULL;
    struct block *b = a->top;
    if (!b || b->size - b->used < need) {
        b = add_block(a, need);
        if (!b)
            return NULL;
    }
    void *p = b->data + b->used;
    b->used += need;
    a->used += need;
    return memset(p, 0, need);
}

/* Extends the last allocation where it lies. */
static bool grow_in_place(struct arena *a, void *ptr, size_t old_size,
                          size_t new_size)
{
    struct block *b = a->top;
    size_t was = rounded(old_size), need = rounded(new_size);
    if (!b || was > b->used || (unsigned char *)ptr != b->data + b->used - was)
        return false;
    if (need - was > b->size - b->used)
        return false;
    memset((unsigned char *)ptr + old_size, 0, need - old_size);
    b->used += need - was;
    a->used += need - was;
    return true;
}

void *arena_grow(struct arena *a, void *ptr, size_t old_size, size_t new_size)
{
    if (!ptr)
        return arena_alloc(a, new_size);
    if (new_size <= old_size)
        return ptr;
    if (!rounded(new_size))
        return NULL;
    if (grow_in_place(a, ptr, old_size, new_size))
        return ptr;
    void *p = arena_alloc(a, new_size);
    if (p)
        memcpy(p, ptr, old_size);
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    if (n == SIZE_MAX)
        return NULL;
    char *p = arena_alloc(a, n + 1);
    if (p && n)
        memcpy(p, s, n);
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (p)
        vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return p;
}

size_t arena_used(const struct arena *a)
{
    return a->used;
}

/* Arena: many small objects that die together. One arena per program or
 * compile owns nodes, text and diagnostics; only copies leave it. */
#ifndef FACC_ARENA_H
#define FACC_ARENA_H

#include <stddef.h>
#include <stdint.h>

/* The allocator behind an arena. realloc semantics with sizes, as Lua's:
 * size 0 frees and returns NULL. Never called with NULL and size 0. */
struct alloc {
    void *(*fn)(void *user, void *ptr, size_t old_size, size_t new_size);
    void *user;
};

struct arena; /* opaque */

/* Plain malloc/free behind the alloc interface. */
extern const struct alloc alloc_libc;

/* NULL when memory is out. `a` is copied. */
struct arena *arena_new(const struct alloc *a);
void arena_free(struct arena *a); /* NULL is fine */

/* Zeroed, aligned to 16. NULL when memory is out. */
void *arena_alloc(struct arena *a, size_t size);

/* Grows `ptr` (old_size bytes, may be NULL) to new_size; contents kept, the
 * new tail zeroed. The old block stays until the arena dies unless it was
 * the last allocation. NULL when memory is out (`ptr` stays valid). */
void *arena_grow(struct arena *a, void *ptr, size_t old_size, size_t new_size);

char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Bytes handed out so far. */
size_t arena_used(const struct arena *a);

#endif

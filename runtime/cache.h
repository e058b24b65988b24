/* The disk cache of compiled kernels. An entry is a directory
 * DIR/v1/ab/abcd…/ of kernel.cubin, unit.txt (everything that decided the
 * machine code, compared in full on a hit) and meta.json (sizes, digests,
 * facts; written last). Entries appear by rename, so readers see all or
 * nothing; what fails verification is set aside and rebuilt. A struct cache
 * never changes after cache_open: no locks. */
#ifndef FACC_CACHE_H
#define FACC_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/support/diag.h"

enum cache_mode { CACHE_RW = 1, CACHE_RO = 2, CACHE_OFF = 3 };

struct cache {
    enum cache_mode mode; /* CACHE_OFF: n_dirs is 0 */
    int n_dirs;
    char **dirs; /* absolute; with CACHE_RW the first is written */
};

/* Facts about a cubin that are kept beside it. */
struct cache_meta {
    char compiler[48];
    char summary[160]; /* "sm80 bf16 128/128 sm_90 alibi.lua" */
    int registers, spill_bytes;
    int64_t compile_us;
};

struct cache_item {
    void *cubin; /* owned: free() */
    size_t cubin_size;
    struct cache_meta meta;
};

enum cache_result {
    CACHE_MISS,    /* not there */
    CACHE_HIT,     /* *out is filled */
    CACHE_CORRUPT, /* a miss; a bad entry was set aside or skipped */
    CACHE_REFUSED, /* a miss; owner or permissions cannot be trusted */
    CACHE_NOMEM    /* memory is out: not known */
};

/* dirs: colon list, may be NULL or empty (then memory only). Touches no
 * file. NULL when memory is out. */
struct cache *cache_open(const char *dirs, enum cache_mode mode);
void cache_close(struct cache *c); /* NULL is fine */
bool cache_can_write(const struct cache *c);

/* 32 hex digits of the unit text. False when memory is out. */
bool cache_key(const char *text, size_t size, char key[33]);

/* Looks into every directory in order. *d tells more about CACHE_CORRUPT and
 * CACHE_REFUSED and is left alone otherwise. */
enum cache_result cache_read(const struct cache *c, const char *key,
                             const char *text, size_t size,
                             struct cache_item *out, struct diag *d);
/* Publishes into the first directory, making it if need be. True also when
 * another process was faster. False: *d has FACC_ERR_IO. */
bool cache_write(const struct cache *c, const char *key, const char *text,
                 size_t size, const struct cache_item *item, struct diag *d);

/* So that several processes compile a key once: waits up to max_wait_ms for
 * the key's lock file. -1 when it could not be had: then compile anyway,
 * correctness does not depend on it. */
int cache_lock(const struct cache *c, const char *key, int max_wait_ms);
void cache_unlock(const struct cache *c, const char *key, int lock);

/* One entry, as cache_each sees it. */
struct cache_listing {
    const char *dir; /* path of the entry */
    const char *key;
    struct cache_meta meta;
    int64_t bytes, last_used;
    bool valid;
};
/* cache_admin.c. Every entry of directory `i` until fn returns nonzero. False:
 * *d filled. */
bool cache_each(const struct cache *c, int i,
                int (*fn)(void *user, const struct cache_listing *e),
                void *user, struct diag *d);
/* Likewise. Entries of the first directory beyond max_bytes (negative:
 * no cap), least recently used first, and all invalid ones. */
bool cache_gc(const struct cache *c, int64_t max_bytes, int64_t *removed,
              int64_t *freed, struct diag *d);
bool cache_clear(const struct cache *c, int64_t *removed, struct diag *d);

#endif

/* The files of a cache entry as bytes: meta.json and what it vouches for. */
#ifndef FACC_CACHE_META_H
#define FACC_CACHE_META_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/cache.h"

enum { ENTRY_CUBIN, ENTRY_UNIT, ENTRY_META, ENTRY_FILES };
extern const char *const entry_file_name[ENTRY_FILES];
enum {
    ENTRY_MAX_FILE = 256 << 20, /* a larger file is no cache file */
    ENTRY_WHY = 256             /* bytes of a reason */
};

struct entry_file {
    char *data; /* NUL-terminated */
    size_t size;
};

enum entry_state {
    ENTRY_OK,
    ENTRY_ABSENT,
    ENTRY_BAD,         /* incomplete, truncated, digests differ, no cubin */
    ENTRY_REFUSED,     /* owner, permissions, symbolic link */
    ENTRY_DIR_REFUSED, /* likewise of a directory that holds entries */
    ENTRY_OTHER,       /* a valid entry of another unit (a hash collision) */
    ENTRY_NOMEM
};

/* Are these the files of the entry `key`, and of the unit `text` (NULL: of
 * any)? ENTRY_OK and *meta; ENTRY_BAD and a reason in *why (ENTRY_WHY bytes);
 * ENTRY_OTHER; ENTRY_NOMEM. */
enum entry_state entry_verify(const struct entry_file f[ENTRY_FILES],
                              const char *key, const char *text, size_t size,
                              struct cache_meta *meta, char *why);
/* What is left of an entry that is damaged: is the unit by itself the one that
 * the key was made of? ENTRY_OK, ENTRY_BAD with *why, ENTRY_NOMEM. */
enum entry_state entry_verify_unit(const struct entry_file *unit,
                                   const char *key, char *why);
/* The facts of a meta.json that is as it was written. */
bool entry_read_meta(const struct entry_file *f, struct cache_meta *meta);
/* meta.json of an item. NULL when memory is out; free(). */
char *entry_print_meta(const char *key, const char *text, size_t size,
                       const struct cache_item *item);
/* Does it begin like machine code? What a broken compiler gave would fail in
 * the driver, again and again. */
bool entry_is_elf(const void *cubin, size_t size);

#endif

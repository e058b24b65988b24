/* One cache entry on disk: reading with verification, writing, removing. All
 * through directory handles, never following symbolic links below the cache
 * directory, and trusting only what this user or root owns. */
#ifndef FACC_CACHE_ENTRY_H
#define FACC_CACHE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/support/diag.h"
#include "runtime/cache.h"
#include "runtime/cache_meta.h"

#define CACHE_SCHEMA "v1"

/* Opens DIR/v1/name or, with create, makes it with its parents. -1 and errno,
 * EPERM when it is not to be trusted. */
int entry_open_sub(const char *dir, const char *name, bool create);

/* The words for errno after one of these, or after writing below them. */
const char *entry_error(int err);

/* Reads the entry `key` under `dir`. text NULL: verify only. On ENTRY_BAD and
 * ENTRY_*REFUSED *why (256 bytes) is a reason. touch: marks it used. */
enum entry_state entry_read(const char *dir, const char *key, const char *text,
                            size_t size, bool touch, struct cache_item *out,
                            char *why);
/* Likewise its files, verified: entry_files_free. */
enum entry_state entry_load(const char *dir, const char *key,
                            struct entry_file f[ENTRY_FILES],
                            struct cache_meta *meta, char *why);
void entry_files_free(struct entry_file f[ENTRY_FILES]);
/* Of a damaged one: its unit (free its data) if that is whole, its facts as far
 * as they are (else empty). Else as entry_verify_unit, or not to be read. */
enum entry_state entry_salvage(const char *dir, const char *key,
                               struct entry_file *unit, struct cache_meta *meta,
                               char *why);
/* False: *d has FACC_ERR_IO naming the file. */
bool entry_publish(const char *dir, const char *key, const char *text,
                   size_t size, const struct cache_item *item, struct diag *d);
/* The same in place of one that is there, which stays if this fails (unless the
 * file system cannot exchange directories: then it may be a miss). */
bool entry_replace(const char *dir, const char *key, const char *text,
                   size_t size, const struct cache_item *item, struct diag *d);
/* Moves an entry out of sight; deletes it too when `destroy`. */
bool entry_retire(const char *dir, const char *key, bool destroy);
/* A temporary of that age has no writer any more. */
enum { ENTRY_STALE_SECONDS = 3600 };
/* Removes temporaries (and retired entries) older than max_age seconds. */
void entry_sweep(const char *dir, int64_t max_age);
/* Size of all files and time of last use. */
bool entry_stat(const char *dir, const char *key, int64_t *bytes,
                int64_t *last_used);
bool entry_is_key(const char *name);
/* Could entries be published in dir (making it if need be)? Changes nothing;
 * why gets a reason if not. */
bool entry_can_write(const char *dir, char *why, size_t size);

#endif

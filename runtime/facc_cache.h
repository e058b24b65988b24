/* facc: the cache of compiled kernels, and what to compile beforehand. A part
 * of facc.h, which includes it and has the conventions. */
#ifndef FACC_PUBLIC_CACHE_H
#define FACC_PUBLIC_CACHE_H

#include "facc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- cache ------------------------------------------------------------- */

/* What it points to is valid inside the callback only. */
typedef struct facc_cache_entry {
    const char *key;     /* 32 hex digits */
    const char *dir;     /* directory of the entry */
    const char *summary; /* "sm80 bf16 128/128 sm_90 alibi.lua" */
    int64_t bytes;
    int64_t last_used; /* seconds since the epoch */
    int32_t valid;     /* verified: digests match */
} facc_cache_entry;
/* Calls back, in the calling thread, for every entry of every directory;
 * stops early on nonzero. FACC_ERR_IO. */
FACC_API facc_status facc_cache_list(facc_ctx *ctx,
                                     int (*entry)(void *user,
                                                  const facc_cache_entry *e),
                                     void *user, facc_error *err);
/* Removes entries that fail verification; least recently used ones beyond
 * max_bytes (negative: no cap); stale temporaries. Counts may be NULL. Only
 * in the first directory, which other processes may use meanwhile; nothing
 * when the cache is off or read only. FACC_ERR_IO: it cannot be read. */
FACC_API facc_status facc_cache_gc(facc_ctx *ctx, int64_t max_bytes,
                                   int64_t *removed, int64_t *freed_bytes,
                                   facc_error *err);
/* The same for every entry of the first directory. */
FACC_API facc_status facc_cache_clear(facc_ctx *ctx, int64_t *removed,
                                      facc_error *err);
/* Writes the valid entries of all directories into one file, a tar archive that
 * may as well be unpacked into a directory, to be a read-only layer. The file
 * appears whole or not at all. count may be NULL. FACC_ERR_IO. */
FACC_API facc_status facc_cache_export(facc_ctx *ctx, const char *path,
                                       int64_t *count, facc_error *err);
/* Reads such a file into the first directory: entries that are new, that were
 * there already (they stay), and that failed verification and were left out.
 * Counts may be NULL. FACC_ERR_IO: no archive, or cut short (the entries before
 * that are in), or the directory cannot be written. */
FACC_API facc_status facc_cache_import(facc_ctx *ctx, const char *path,
                                       int64_t *added, int64_t *present,
                                       int64_t *refused, facc_error *err);
/* What facc_cache_rebuild did about an entry. */
enum {
    FACC_REBUILD_KEPT = 0,      /* valid, left as it is */
    FACC_REBUILD_MADE = 1,      /* compiled again, into the first directory */
    FACC_REBUILD_ELSEWHERE = 2, /* damaged; another directory has it, too */
    FACC_REBUILD_LOST = 3       /* damaged, and cannot be compiled again */
};
/* What it points to is valid inside the callback only. */
typedef struct facc_cache_rebuilt {
    const char *key, *summary; /* as facc_cache_entry's; "" when that is lost */
    const char *dir;           /* the cache directory */
    int32_t outcome;           /* FACC_REBUILD_… */
    int32_t set_aside; /* moved out of the way, to DIR/v1/tmp for an hour */
    const char *why;   /* of all that is not plainly valid; else "" */
} facc_cache_rebuilt;
/* Verifies every entry of every directory. Damaged ones of the first directory
 * are set aside, and compiled again from the unit that an entry holds, if that
 * is whole and of this build of facc; so are valid ones of the first directory
 * that another NVRTC made. `jobs` at a time, each up to 100 MiB. Calls back for
 * each entry, from any of its threads but from one at a time; stops early on
 * nonzero. FACC_ERR_NO_JIT (compiling is forbidden), FACC_ERR_NO_NVRTC and
 * FACC_ERR_IO (no directory that can be written): nothing was changed. */
FACC_API facc_status
facc_cache_rebuild(facc_ctx *ctx, int32_t jobs,
                   int (*entry)(void *user, const facc_cache_rebuilt *e),
                   void *user, facc_error *err);

/* ---- manifests: what to compile beforehand -------------------------------
 *
 * A run with facc_options.manifest (or $FACC_MANIFEST) records what it asks
 * for; who reads the file loads each program and gets each kernel, and each
 * quantizer, so that the next run finds them all: "facc compile --manifest
 * FILE" does. */

/* What it points to is valid inside the callback only. */
typedef struct facc_manifest_entry {
    const char *program; /* its name: for messages */
    const char *text;    /* for facc_program_load_string */
    size_t text_size;
    facc_variant variant; /* arch is never 0 */
} facc_manifest_entry;
/* Calls back, in the calling thread, for every kernel of the file, once; stops
 * early on nonzero. A line that is none is passed over with a warning.
 * FACC_ERR_IO: the file cannot be read, or no line is one. */
FACC_API facc_status
facc_manifest_read(facc_ctx *ctx, const char *path,
                   int (*entry)(void *user, const facc_manifest_entry *e),
                   void *user, facc_error *err);
/* The same for every quantizer (facc_quantizer_get) of the file; arch is never
 * 0. Either passes over the lines of the other. */
FACC_API facc_status facc_manifest_read_quantizers(
    facc_ctx *ctx, const char *path,
    int (*quantizer)(void *user, const facc_quantize_variant *v), void *user,
    facc_error *err);

#ifdef __cplusplus
}
#endif

#endif

/* What a facc_ctx owns. Settings are fixed once the context is made; parts
 * that are opened lazily (driver, NVRTC, thread pool) are guarded by `lock`.
 * No other state exists: two contexts share nothing. */
#ifndef FACC_CONTEXT_H
#define FACC_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "compiler/support/diag.h"
#include "runtime/facc.h"

struct cache;        /* cache.h */
struct cpu_pool;     /* cpu/cpu_pool.h */
struct driver;       /* driver.h */
struct kernel_table; /* module.h */
struct manifest;     /* manifest.h */
struct nvrtc;        /* nvrtc.h */

/* Warnings that are given once per context: bits of facc_ctx.warned. */
enum ctx_warning {
    WARN_CACHE_MEMORY_ONLY = 1,
    WARN_CACHE_WRITE = 2,
    WARN_CACHE_CORRUPT = 4,
    WARN_SPILL = 8,
    WARN_KEEP = 16,
    WARN_SERIALIZED = 32,
    WARN_MANIFEST = 64
};

struct facc_ctx {
    pid_t pid; /* of the creator; differs in a forked child */

    /* settings: options first, then the environment; never NULL unless said */
    char *nvrtc_path;   /* file or folder, NULL: the usual places */
    char *template_dir; /* NULL: embedded templates */
    char *keep_dir;     /* $FACC_KEEP: units are dumped there, or NULL */
    bool no_jit;        /* a compile is an error */
    bool lineinfo;      /* $FACC_LINEINFO: kernels carry line tables */
    bool quiet;         /* $FACC_LOG=off: no warnings on stderr */
    int cpu_threads;    /* threads that the CPU path may use, >= 1 */
    void (*on_compile)(void *user, const facc_compile_event *event);
    void (*on_warning)(void *user, const char *message);
    void *user;

    struct cache *cache;          /* no directories: memory only */
    struct kernel_table *kernels; /* has its own lock */
    struct manifest *manifest;    /* likewise; NULL: not recorded */

    pthread_mutex_t lock; /* guards what follows */
    struct driver *driver;
    struct diag *driver_error; /* why it is not there, once tried */
    struct nvrtc *nvrtc;
    atomic_int compiling;  /* of the creator's threads, those inside NVRTC */
    struct cpu_pool *pool; /* made by cpu_pool_get, freed by facc_ctx_free */
    unsigned warned;       /* enum ctx_warning */
};

/* The driver, opened at the first call. NULL with *d filled: no driver or
 * device, a forked child, or ctx is NULL. */
struct driver *ctx_driver(facc_ctx *ctx, struct diag *d);
/* NVRTC likewise; works in a forked child. A failure is not remembered. */
struct nvrtc *ctx_nvrtc(facc_ctx *ctx, struct diag *d);
/* False with *d filled in a child after fork. */
bool ctx_not_forked(const facc_ctx *ctx, struct diag *d);
/* Takes a lock of the context or of one of its parts. False, with *d (may be
 * NULL) filled, in a forked child if a thread that stayed in the parent had it
 * at that moment: it is never given back there. */
bool ctx_lock(const facc_ctx *ctx, pthread_mutex_t *lock, struct diag *d);
/* One line to on_warning or stderr; each kind once per context. */
void ctx_warn(facc_ctx *ctx, enum ctx_warning kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif

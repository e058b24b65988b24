/* Machine code shared in a context: found in memory, on disk, or made. */
#ifndef FACC_MODULE_H
#define FACC_MODULE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "compiler/emit/emit.h"
#include "runtime/cache.h"
#include "runtime/context.h"
#include "runtime/captured_map.h"
#include "runtime/driver.h"
#include "runtime/nvrtc.h"
#include "runtime/program.h"
#include "runtime/schedule.h"
#include "runtime/select.h"

/* Machine code of one unit. Lives as long as the context, so that a kernel
 * that is freed and asked for again costs nothing. Fixed once it is in the
 * table, except for what loading adds. */
struct module {
    struct module *next;
    char key[33];
    unsigned entries; /* bit e: it has enum entry e */
    char *text;       /* what decided the code, compared in full */
    size_t text_size;
    void *cubin;
    size_t cubin_size;
    struct cache_meta meta;
    pthread_mutex_t lock; /* of loading */
    cu_library library;
    struct driver *driver; /* set before any function below */
    /* Set once loaded on a device, in order; a launch reads only these. */
    _Atomic(cu_function) function[DRIVER_MAX_DEVICES][N_ENTRIES];
};

/* What decides a program's module: known without emitting its text. */
struct plan {
    struct unit_config config;
    struct schedule_facts facts; /* the program's, with config */
    int arch;
};
void module_target(const facc_ctx *ctx, const struct plan *plan,
                   struct nvrtc_target *out);

/* Of a kernel: the preferred family's, then the one for tensors that it cannot
 * take; what makes the schedules of both, if launches bring one; what
 * transposes V for FP8. */
struct plans {
    int n;
    struct plan plan[SELECT_MAX_FAMILIES];
    bool scheduled;
    struct plan schedule;
    bool transposed; /* FP8: launches may have to transpose V */
    struct plan transpose;
    struct dot_tensors dot;    /* of the codes that have such a term */
    struct plane_tensor plane; /* of those that copy its tiles */
};
enum { MODULES_MAX = SELECT_MAX_FAMILIES + 2 };
/* A kernel's plans in the order of its modules: the families', the schedule's,
 * the one that transposes V. How many, and the i-th. */
static inline int plans_count(const struct plans *p)
{
    return p->n + p->scheduled + p->transposed;
}
static inline const struct plan *plans_at(const struct plans *p, int i)
{
    return i < p->n                    ? &p->plan[i]
           : i == p->n && p->scheduled ? &p->schedule
                                       : &p->transpose;
}

/* The modules that a program has got so far: a list, the program's. */
struct planned;
void module_plans_free(struct planned *list); /* NULL is fine */

/* All modules of a context, compiles under way. */
struct kernel_table;
struct kernel_table *kernel_table_new(void);
/* drv NULL: nothing is unloaded (no driver, or a forked child). */
void kernel_table_free(struct kernel_table *t, const struct driver *drv);

/* What a module_get tells besides the module. */
struct module_origin {
    const char *source;     /* "memory" "disk" "nvrtc" */
    double seconds;         /* of the whole call */
    double compile_seconds; /* 0 unless compiled by this call */
    char *log;              /* NVRTC's when it refused the unit; free() */
};
/* One compile per key among the threads of a context and, through the cache
 * directory, among processes. NULL with *d filled. */
struct module *module_get(facc_ctx *ctx, facc_program *p,
                          const struct plan *plan, struct module_origin *origin,
                          struct diag *d);
/* All of a kernel's, the first one and the others side by side. False with *d
 * filled if one fails; origins have logs that the caller frees in any case. */
bool module_get_all(facc_ctx *ctx, facc_program *p, const struct plans *plans,
                    struct module *out[MODULES_MAX],
                    struct module_origin origin[MODULES_MAX], struct diag *d);

/* Emits the unit of a configuration into `arena`; locks the program. */
bool module_unit(facc_ctx *ctx, facc_program *p,
                 const struct unit_config *config, struct arena *arena,
                 struct cuda_unit *unit, struct diag *d);

/* nvrtc_compile, with what a forked child must know of it. */
bool module_compile(facc_ctx *ctx, struct nvrtc *n, const struct cuda_unit *u,
                    const struct nvrtc_target *t, bool ptx,
                    struct nvrtc_build *build, struct diag *d);

/* What NVRTC gave, if it is machine code, with its facts into an item of the
 * cache, which takes the code; the summary is the caller's. */
bool module_take(struct cache_item *item, struct nvrtc_build *build,
                 const struct nvrtc *n, struct diag *d);

/* Makes the module launchable on a device: idempotent. */
bool module_load(struct module *m, struct driver *drv, int device,
                 int shared_bytes, struct diag *d);
bool module_is_loaded(const struct module *m, int device);

#endif

/* facc_ctx: reads options and environment once, opens driver and NVRTC when
 * first needed, gives warnings once. Everything else hangs on it. */
#include "runtime/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compiler/dtype.h"
#include "runtime/cache.h"
#include "runtime/cache_entry.h"
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/cpu_pool.h"
#include "runtime/driver.h"
#include "runtime/error.h"
#include "runtime/manifest.h"
#include "runtime/module.h"
#include "runtime/nvrtc.h"
#include "runtime/usable_cpus.h"

/* ---- names and versions ------------------------------------------------ */

const char *facc_version(void)
{
    return FACC_VERSION;
}

const char *facc_status_name(facc_status s)
{
    static const char *const names[] = {"FACC_OK",
                                        "FACC_ERR_ARGUMENT",
                                        "FACC_ERR_SCRIPT",
                                        "FACC_ERR_UNSUPPORTED",
                                        "FACC_ERR_MEMORY",
                                        "FACC_ERR_IO",
                                        "FACC_ERR_NO_DRIVER",
                                        "FACC_ERR_NO_NVRTC",
                                        "FACC_ERR_COMPILE",
                                        "FACC_ERR_CUDA",
                                        "FACC_ERR_NOT_PREPARED",
                                        "FACC_ERR_BOUNDS",
                                        "FACC_ERR_NO_JIT",
                                        "FACC_ERR_FORKED",
                                        "FACC_ERR_INTERNAL"};
    const int n = (int)(sizeof names / sizeof names[0]);
    return s <= 0 && s > -n ? names[-s] : "FACC_ERR_?";
}

_Static_assert((int)FACC_F32 == (int)DTYPE_F32, "dtypes");
_Static_assert((int)FACC_F16 == (int)DTYPE_F16, "dtypes");
_Static_assert((int)FACC_BF16 == (int)DTYPE_BF16, "dtypes");
_Static_assert((int)FACC_E4M3 == (int)DTYPE_E4M3, "dtypes");
_Static_assert((int)FACC_E5M2 == (int)DTYPE_E5M2, "dtypes");
_Static_assert((int)FACC_I8 == (int)DTYPE_I8, "dtypes");
_Static_assert((int)FACC_U8 == (int)DTYPE_U8, "dtypes");
_Static_assert((int)FACC_I16 == (int)DTYPE_I16, "dtypes");
_Static_assert((int)FACC_I32 == (int)DTYPE_I32, "dtypes");
_Static_assert((int)FACC_I64 == (int)DTYPE_I64, "dtypes");
_Static_assert((int)FACC_BOOL == (int)DTYPE_BOOL, "dtypes");
_Static_assert((int)FACC_F64 == (int)DTYPE_F64, "dtypes");

size_t facc_dtype_size(facc_dtype t)
{
    return dtype_size((enum dtype)t);
}

const char *facc_dtype_name(facc_dtype t)
{
    return dtype_name((enum dtype)t);
}

void facc_string_free(char *text)
{
    free(text);
}

/* ---- settings ------------------------------------------------------------ */

static const char *env(const char *name)
{
    const char *s = getenv(name);
    return s && s[0] ? s : NULL;
}

static bool env_on(const char *name)
{
    const char *s = env(name);
    return s && strcmp(s, "0") != 0;
}

/* A copy of `s` into *to; NULL stays NULL. */
static bool copy(char **to, const char *s)
{
    *to = s ? strdup(s) : NULL;
    return !s || *to;
}

static bool cache_mode_of(const facc_options *o, enum cache_mode *mode,
                          struct diag *d)
{
    const char *s = env("FACC_CACHE");
    *mode = CACHE_RW;
    if (o->cache_mode < 0 || o->cache_mode > 3)
        return diag_set(d, FACC_ERR_ARGUMENT, "context", NULL, 0,
                        "facc_options.cache_mode is %d, must be 0 to 3",
                        o->cache_mode);
    if (o->cache_mode > 0)
        *mode = (enum cache_mode)o->cache_mode;
    else if (!s || strcmp(s, "rw") == 0)
        *mode = CACHE_RW;
    else if (strcmp(s, "ro") == 0)
        *mode = CACHE_RO;
    else if (strcmp(s, "off") == 0)
        *mode = CACHE_OFF;
    else
        return diag_set(d, FACC_ERR_ARGUMENT, "context", NULL, 0,
                        "FACC_CACHE is \"%s\", must be rw, ro or off", s);
    return true;
}

/* The colon list of directories; *out NULL: memory only. */
static bool cache_dirs_of(const facc_options *o, char **out)
{
    const char *xdg = env("XDG_CACHE_HOME"), *home = env("HOME");
    if (o->cache_dirs)
        return copy(out, o->cache_dirs);
    if (env("FACC_CACHE_DIR"))
        return copy(out, env("FACC_CACHE_DIR"));
    *out = NULL;
    /* XDG: relative paths are invalid and to be ignored. */
    if (xdg && xdg[0] == '/')
        return asprintf(out, "%s/facc", xdg) >= 0;
    if (home && home[0] == '/')
        return asprintf(out, "%s/.cache/facc", home) >= 0;
    return true;
}

static bool open_cache(facc_ctx *ctx, const facc_options *o, struct diag *d)
{
    enum cache_mode mode;
    char *dirs = NULL;
    if (!cache_mode_of(o, &mode, d))
        return false;
    if (!cache_dirs_of(o, &dirs))
        return diag_nomem(d, "context");
    ctx->cache = cache_open(dirs, mode);
    free(dirs);
    return ctx->cache || diag_nomem(d, "context");
}

static bool configure(facc_ctx *ctx, const facc_options *o, struct diag *d)
{
    const char *log = env("FACC_LOG");
    ctx->no_jit = o->no_jit || env_on("FACC_NO_JIT");
    ctx->lineinfo = env_on("FACC_LINEINFO");
    ctx->quiet = log && strcmp(log, "off") == 0;
    ctx->on_compile = o->on_compile;
    ctx->on_warning = o->on_warning;
    ctx->user = o->user;
    if (!reserved_is_zero(o->reserved0, "facc_options.reserved0", d))
        return false;
    if (o->cpu_threads < 0)
        return diag_set(d, FACC_ERR_ARGUMENT, "context", NULL, 0,
                        "facc_options.cpu_threads is %d, must be at least 0",
                        o->cpu_threads);
    ctx->cpu_threads = o->cpu_threads ? o->cpu_threads : usable_cpus();
    if (!copy(&ctx->nvrtc_path,
              o->nvrtc_path ? o->nvrtc_path : env("FACC_NVRTC")) ||
        !copy(&ctx->template_dir, o->template_dir) ||
        !copy(&ctx->keep_dir, env("FACC_KEEP")))
        return diag_nomem(d, "context");
    const char *manifest = o->manifest ? o->manifest : env("FACC_MANIFEST");
    if (manifest && manifest[0] && !(ctx->manifest = manifest_new(manifest)))
        return diag_nomem(d, "context");
    return open_cache(ctx, o, d);
}

facc_status facc_ctx_create(facc_ctx **out, const facc_options *options,
                            facc_error *err)
{
    const facc_options defaults = FACC_OPTIONS_INIT;
    facc_options o;
    struct diag d;
    diag_init(&d);
    if (!out)
        return error_null(err, "out");
    *out = NULL;
    facc_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx) {
        diag_nomem(&d, "context");
        return error_report(err, &d, NULL, NULL);
    }
    ctx->pid = getpid();
    pthread_mutex_init(&ctx->lock, NULL);
    if (versioned_read(&o, sizeof o, options ? options : &defaults,
                       "facc_options", &d) &&
        configure(ctx, &o, &d)) {
        ctx->kernels = kernel_table_new();
        if (ctx->kernels) {
            *out = ctx;
            return FACC_OK;
        }
        diag_nomem(&d, "context");
    }
    facc_ctx_free(ctx);
    return error_report(err, &d, NULL, NULL);
}

void facc_ctx_free(facc_ctx *ctx)
{
    if (!ctx)
        return;
    bool forked = ctx->pid != getpid();
    kernel_table_free(ctx->kernels, forked ? NULL : ctx->driver);
    cpu_pool_free(ctx->pool);
    nvrtc_close(ctx->nvrtc);
    driver_close(ctx->driver, forked);
    cache_close(ctx->cache);
    manifest_free(ctx->manifest);
    free(ctx->driver_error);
    free(ctx->nvrtc_path);
    free(ctx->template_dir);
    free(ctx->keep_dir);
    pthread_mutex_destroy(&ctx->lock);
    free(ctx);
}

/* ---- opened when needed -------------------------------------------------- */

bool ctx_not_forked(const facc_ctx *ctx, struct diag *d)
{
    if (ctx->pid == getpid())
        return true;
    return diag_set(d, FACC_ERR_FORKED, "driver", NULL, 0,
                    "this process is a fork of the one that made the "
                    "context: CUDA does not work across fork; make a context "
                    "in the child, or fork before the first GPU call");
}

enum { FORKED_WAIT_S = 2 }; /* a thread of the child may have the lock */

bool ctx_lock(const facc_ctx *ctx, pthread_mutex_t *lock, struct diag *d)
{
    if (ctx->pid == getpid())
        return pthread_mutex_lock(lock) == 0;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FORKED_WAIT_S;
    return pthread_mutex_timedlock(lock, &until) == 0 ||
           diag_set(d, FACC_ERR_FORKED, "context", NULL, 0,
                    "this process was forked while another thread of its "
                    "parent was busy with this context: make a context in the "
                    "child");
}

/* A machine without a GPU asks again and again: the answer is kept. */
static struct driver *open_driver(facc_ctx *ctx, struct diag *d)
{
    if (ctx->driver)
        return ctx->driver;
    if (ctx->driver_error) {
        *d = *ctx->driver_error;
        return NULL;
    }
    ctx->driver = driver_open(d);
    if (!ctx->driver && d->status != FACC_ERR_MEMORY) {
        ctx->driver_error = malloc(sizeof *d);
        if (ctx->driver_error)
            *ctx->driver_error = *d;
    }
    return ctx->driver;
}

struct driver *ctx_driver(facc_ctx *ctx, struct diag *d)
{
    if (!ctx) {
        diag_set(d, FACC_ERR_ARGUMENT, "api", NULL, 0, "ctx is NULL");
        return NULL;
    }
    if (!ctx_not_forked(ctx, d))
        return NULL;
    pthread_mutex_lock(&ctx->lock);
    struct driver *drv = open_driver(ctx, d);
    pthread_mutex_unlock(&ctx->lock);
    return drv;
}

struct nvrtc *ctx_nvrtc(facc_ctx *ctx, struct diag *d)
{
    if (ctx->pid != getpid() && atomic_load(&ctx->compiling) > 0) {
        diag_set(d, FACC_ERR_FORKED, "nvrtc", NULL, 0,
                 "this process was forked while another thread of its parent "
                 "was compiling: NVRTC cannot be used in it; fork before, or "
                 "start a program of its own (exec)");
        return NULL;
    }
    if (!ctx_lock(ctx, &ctx->lock, d))
        return NULL;
    if (!ctx->nvrtc)
        ctx->nvrtc = nvrtc_open(ctx->nvrtc_path, d);
    struct nvrtc *n = ctx->nvrtc;
    pthread_mutex_unlock(&ctx->lock);
    return n;
}

void ctx_warn(facc_ctx *ctx, enum ctx_warning kind, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    if (!ctx_lock(ctx, &ctx->lock, NULL))
        return;
    bool said = (ctx->warned & (unsigned)kind) != 0;
    ctx->warned |= (unsigned)kind;
    pthread_mutex_unlock(&ctx->lock);
    if (said)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (ctx->on_warning)
        ctx->on_warning(ctx->user, text);
    else if (!ctx->quiet)
        fprintf(stderr, "facc: warning: %s\n", text);
}

/* ---- what is there ------------------------------------------------------- */

static void describe_driver(facc_ctx *ctx, facc_system_info *i)
{
    struct diag d;
    diag_init(&d);
    const struct driver *drv = ctx_driver(ctx, &d);
    if (!drv) {
        snprintf(i->driver_error, sizeof i->driver_error, "%.255s", d.message);
        return;
    }
    i->driver_found = 1;
    i->driver_version = drv->version;
    i->device_count = drv->n_devices;
    memcpy(i->driver_path, drv->path, sizeof i->driver_path);
}

static void describe_nvrtc(facc_ctx *ctx, facc_system_info *i)
{
    struct diag d;
    diag_init(&d);
    const struct nvrtc *n = ctx_nvrtc(ctx, &d);
    if (!n) {
        snprintf(i->nvrtc_error, sizeof i->nvrtc_error, "%.255s", d.message);
        return;
    }
    i->nvrtc_found = 1;
    i->nvrtc_version = nvrtc_version(n);
    snprintf(i->nvrtc_path, sizeof i->nvrtc_path, "%s", nvrtc_path(n));
}

static void describe_cache(const facc_ctx *ctx, facc_system_info *i)
{
    const struct cache *c = ctx->cache;
    if (c->n_dirs == 0) {
        snprintf(i->cache_error, sizeof i->cache_error, "%s",
                 c->mode == CACHE_OFF
                     ? "switched off (FACC_CACHE)"
                     : "no FACC_CACHE_DIR, XDG_CACHE_HOME or HOME");
        return;
    }
    snprintf(i->cache_dir, sizeof i->cache_dir, "%s", c->dirs[0]);
    if (c->mode == CACHE_RO)
        snprintf(i->cache_error, sizeof i->cache_error, "%s",
                 "read only by FACC_CACHE or facc_options");
    else
        i->cache_writable =
            entry_can_write(c->dirs[0], i->cache_error, sizeof i->cache_error);
}

facc_status facc_system(facc_ctx *ctx, facc_system_info *out, facc_error *err)
{
    facc_system_info i = {0};
    struct diag d;
    diag_init(&d);
    if (ctx) {
        describe_driver(ctx, &i);
        describe_nvrtc(ctx, &i);
        describe_cache(ctx, &i);
        i.cpu_threads = ctx->cpu_threads;
        snprintf(i.cpu_isa, sizeof i.cpu_isa, "%s",
                 cpu_kernels_get(false)->isa);
    }
    if (ctx && versioned_write(out, &i, sizeof i))
        return FACC_OK;
    diag_set(&d, FACC_ERR_ARGUMENT, "api", NULL, 0,
             "ctx is NULL or facc_system_info.struct_size is not set");
    return error_report(err, &d, NULL, NULL);
}

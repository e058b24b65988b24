/* From a plan to machine code: the table in memory, then the disk cache, then
 * NVRTC, each key once at a time. Called by kernel.c; the driver's part is
 * module_load at the end. */
#include "runtime/module.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "compiler/compile.h"
#include "compiler/support/hash.h"
#include "compiler/support/utf8.h"
#include "runtime/cache_entry.h"

enum { LOCK_WAIT_MS = 30000 };

struct planned {
    struct planned *next;
    struct plan plan;
    struct module *module;
};

/* A key being read or compiled by some thread; lives on that thread's
 * stack. A forked child ignores those of its parent: nobody finishes them
 * there. */
struct flight {
    struct flight *next;
    const char *key;
    pid_t pid;
};

struct kernel_table {
    pthread_mutex_t lock;
    pthread_cond_t landed; /* a flight is over */
    struct module *modules;
    struct flight *flights;
};

struct kernel_table *kernel_table_new(void)
{
    struct kernel_table *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->landed, NULL);
    return t;
}

static void module_free(struct module *m, const struct driver *drv)
{
    if (m->library && drv)
        drv->LibraryUnload(m->library);
    pthread_mutex_destroy(&m->lock);
    free(m->text);
    free(m->cubin);
    free(m);
}

void kernel_table_free(struct kernel_table *t, const struct driver *drv)
{
    if (!t)
        return;
    for (struct module *m = t->modules, *next; m; m = next) {
        next = m->next;
        module_free(m, drv);
    }
    pthread_cond_destroy(&t->landed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* ---- plans ------------------------------------------------------------ */

/* One value for each member: with one more this does not compile
 * (-Wmissing-field-initializers), so that none is forgotten below. */
_Static_assert(sizeof(struct unit_config){"", DTYPE_F16, DTYPE_F16, 0, 0, 0, 0,
                                          0, 0, false, 0, 0, false, false,
                                          false, false, false} > 0,
               "compare it, too");

static bool same_config(const struct unit_config *a,
                        const struct unit_config *b)
{
    return strcmp(a->family, b->family) == 0 && a->dtype == b->dtype &&
           a->out_dtype == b->out_dtype && a->head_dim == b->head_dim &&
           a->head_dim_v == b->head_dim_v && a->tile_m == b->tile_m &&
           a->tile_n == b->tile_n && a->warps == b->warps &&
           a->stages == b->stages && a->q_in_registers == b->q_in_registers &&
           a->q_buffers == b->q_buffers && a->shared_bytes == b->shared_bytes &&
           a->check_bounds == b->check_bounds &&
           a->block_mask == b->block_mask && a->packed == b->packed &&
           a->full_blocks_partial == b->full_blocks_partial &&
           a->sinks == b->sinks;
}

/* The table's lock guards the lists of all programs: nobody holds it for long,
 * as the program's own is held while its text is emitted. */
static struct module *find_plan(struct kernel_table *t, const facc_program *p,
                                const struct plan *plan)
{
    struct module *m = NULL;
    pthread_mutex_lock(&t->lock);
    for (const struct planned *at = p->plans; at && !m; at = at->next)
        if (at->plan.arch == plan->arch &&
            same_config(&at->plan.config, &plan->config))
            m = at->module;
    pthread_mutex_unlock(&t->lock);
    return m;
}

/* A shortcut only: when memory is out, the next call emits the text again. */
static void remember_plan(struct kernel_table *t, facc_program *p,
                          const struct plan *plan, struct module *m)
{
    struct planned *new = malloc(sizeof *new);
    if (!new)
        return;
    new->plan = *plan;
    new->module = m;
    pthread_mutex_lock(&t->lock);
    new->next = p->plans;
    p->plans = new;
    pthread_mutex_unlock(&t->lock);
}

void module_plans_free(struct planned *list)
{
    for (struct planned *next; list; list = next) {
        next = list->next;
        free(list);
    }
}

/* ---- the text that decides the code ----------------------------------- */

void module_target(const facc_ctx *ctx, const struct plan *plan,
                   struct nvrtc_target *out)
{
    *out = (struct nvrtc_target){.arch = plan->arch,
                                 .own = select_is_sm90(&plan->config),
                                 .lineinfo = ctx->lineinfo};
}

bool module_unit(facc_ctx *ctx, facc_program *p,
                 const struct unit_config *config, struct arena *arena,
                 struct cuda_unit *unit, struct diag *d)
{
    pthread_mutex_lock(&p->lock);
    bool ok =
        compile_unit(p->compiled, config, ctx->template_dir, arena, unit, d);
    pthread_mutex_unlock(&p->lock);
    return ok;
}

static bool generated(const struct cuda_header *h)
{
    return strncmp(h->name, "facc_", 5) == 0;
}

/* The digest of all template files: they change with facc, not with the
 * user's program, so their text itself need not be kept in every entry. */
static bool template_digest(const struct cuda_unit *u, char hex[33])
{
    struct hash_stream *s = hash_stream_new();
    if (!s)
        return false;
    hash_stream_field(s, u->main_name, strlen(u->main_name));
    hash_stream_field(s, u->main_text, strlen(u->main_text));
    for (int i = 0; i < u->n_headers; i++) {
        const struct cuda_header *h = &u->headers[i];
        if (generated(h))
            continue;
        hash_stream_field(s, h->name, strlen(h->name));
        hash_stream_field(s, h->text, strlen(h->text));
    }
    hash128_hex(hash_stream_end(s), hex);
    return true;
}

/* Where the user's lines stand decides nothing unless the cubin carries a line
 * table. */
static bool add_generated(const struct cuda_header *h, bool lineinfo,
                          struct strbuf *b)
{
    struct strbuf body;
    strbuf_init(&body, b->arena);
    if (lineinfo)
        strbuf_add(&body, h->text);
    else if (!emit_without_lines(h->text, &body))
        return false;
    strbuf_addf(b, "file %s %zu\n", h->name, body.len);
    strbuf_addn(b, strbuf_text(&body), body.len);
    strbuf_add(b, "\n");
    return !body.failed && !b->failed;
}

/* unit.txt: everything that decides the cubin, each text with its length.
 * NVRTC's version is not in it: a hit needs no NVRTC. */
static bool unit_text(const struct cuda_unit *u, const struct nvrtc_target *t,
                      struct strbuf *b)
{
    char hex[33];
    struct nvrtc_options o;
    if (!template_digest(u, hex))
        return false;
    nvrtc_options(t, &o);
    strbuf_addf(b, "facc unit 1\nversion %s\ntemplates %s\nentry %s\n",
                FACC_VERSION, hex, u->entry);
    for (int i = 0; i < o.n; i++)
        strbuf_addf(b, "option %s\n", o.text[i]);
    for (int i = 0; i < u->n_headers; i++)
        if (generated(&u->headers[i]) &&
            !add_generated(&u->headers[i], t->lineinfo, b))
            return false;
    return !b->failed;
}

/* ---- one request ------------------------------------------------------ */

struct request {
    facc_ctx *ctx;
    const facc_program *program;
    const struct plan *plan;
    struct cuda_unit unit;
    struct nvrtc_target target;
    struct strbuf text;
    char key[33];
    struct module_origin *origin;
    struct diag *d;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Takes the cubin over, also when it fails. */
static struct module *module_new(const struct request *r,
                                 struct cache_item *item)
{
    struct module *m = calloc(1, sizeof *m);
    char *text = malloc(r->text.len + 1);
    if (!m || !text) {
        free(m);
        free(text);
        free(item->cubin);
        diag_nomem(r->d, "load");
        return NULL;
    }
    memcpy(text, strbuf_text(&r->text), r->text.len + 1);
    memcpy(m->key, r->key, sizeof m->key);
    m->entries = schedule_entries(&r->plan->facts, &r->plan->config);
    m->text = text;
    m->text_size = r->text.len;
    m->cubin = item->cubin;
    m->cubin_size = item->cubin_size;
    m->meta = item->meta;
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void summarise(const struct request *r, char *out, size_t size)
{
    const struct unit_config *c = &r->plan->config;
    const char *name = strrchr(r->program->compiled->name, '/');
    char tensors[40] = "";
    if (!emit_is_schedule(c))
        snprintf(tensors, sizeof tensors, " %s %d/%d", dtype_name(c->dtype),
                 c->head_dim, c->head_dim_v);
    snprintf(out, size, "%s%s sm_%d%s%s%s %.80s", c->family, tensors,
             r->plan->arch, c->packed ? " packed" : "",
             c->block_mask ? " block-mask" : "", c->sinks ? " sinks" : "",
             name ? name + 1 : r->program->compiled->name);
    utf8_repair(out); /* it goes into JSON; the name may be cut */
}

static bool keep_file(const char *dir, const char *key, const char *suffix,
                      const void *data, size_t size)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s%s", dir, key, suffix) >=
        (int)sizeof path)
        return false;
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, size, f) == size;
    return f && fclose(f) == 0 && ok;
}

/* $FACC_KEEP: what was compiled, for people. */
static void keep_build(const struct request *r, const struct nvrtc_build *b)
{
    const char *dir = r->ctx->keep_dir;
    struct strbuf flat;
    if (!dir)
        return;
    strbuf_init(&flat, r->text.arena);
    (void)mkdir(dir, 0777);
    if (!emit_flat(&r->unit, &flat) ||
        !keep_file(dir, r->key, ".cu", strbuf_text(&flat), flat.len) ||
        (b->log && !keep_file(dir, r->key, ".log", b->log, strlen(b->log))) ||
        (b->image && !keep_file(dir, r->key, ".cubin", b->image, b->size)))
        ctx_warn(r->ctx, WARN_KEEP, "FACC_KEEP: cannot write into %s", dir);
}

static void warn_quality(const struct request *r, const char *summary,
                         const struct nvrtc_build *b)
{
    if (b->spill_bytes > 0)
        ctx_warn(r->ctx, WARN_SPILL,
                 "%s: %d bytes of registers are spilled to memory: the "
                 "kernel is slower than it should be (a simpler mod helps)",
                 summary, b->spill_bytes);
    if (b->serialized)
        ctx_warn(r->ctx, WARN_SERIALIZED,
                 "%s: the compiler serialised matrix instructions: the "
                 "kernel is slower than it should be",
                 summary);
}

static bool compile(const struct request *r, struct cache_item *item)
{
    struct nvrtc_build build;
    struct nvrtc *n = ctx_nvrtc(r->ctx, r->d);
    if (!n)
        return false;
    bool ok = nvrtc_compile(n, &r->unit, &r->target, false, &build, r->d);
    keep_build(r, &build);
    if (ok && !entry_is_elf(build.image, build.size))
        ok = diag_set(r->d, FACC_ERR_COMPILE, "nvrtc", NULL, 0,
                      "what NVRTC (%s) gave is no ELF file", nvrtc_path(n));
    if (ok) {
        memset(item, 0, sizeof *item);
        summarise(r, item->meta.summary, sizeof item->meta.summary);
        memcpy(item->meta.compiler, build.compiler, sizeof build.compiler);
        item->meta.registers = build.registers;
        item->meta.spill_bytes = build.spill_bytes;
        item->meta.compile_us = (int64_t)(build.seconds * 1e6);
        item->cubin = build.image;
        item->cubin_size = build.size;
        build.image = NULL;
        r->origin->source = "nvrtc";
        r->origin->compile_seconds = build.seconds;
        warn_quality(r, item->meta.summary, &build);
    } else {
        r->origin->log = build.log;
        build.log = NULL;
    }
    nvrtc_build_free(&build);
    return ok;
}

static void publish(const struct request *r, const struct cache_item *item)
{
    const struct cache *c = r->ctx->cache;
    struct diag why;
    diag_init(&why);
    if (c->mode == CACHE_RW && c->n_dirs == 0)
        ctx_warn(r->ctx, WARN_CACHE_MEMORY_ONLY,
                 "no cache directory: compiled kernels are kept in memory "
                 "only (set FACC_CACHE_DIR, or HOME)");
    else if (!cache_write(c, r->key, strbuf_text(&r->text), r->text.len, item,
                          &why))
        ctx_warn(r->ctx, WARN_CACHE_WRITE,
                 "%s; compiled kernels are kept in memory only (set "
                 "FACC_CACHE_DIR to a directory that can be written)",
                 why.message);
}

/* True on a hit; on false the request may have failed for lack of memory. */
static bool read_disk(const struct request *r, struct cache_item *item)
{
    struct diag why;
    diag_init(&why);
    enum cache_result s = cache_read(
        r->ctx->cache, r->key, strbuf_text(&r->text), r->text.len, item, &why);
    if (s == CACHE_HIT)
        r->origin->source = "disk";
    if (s == CACHE_NOMEM)
        return diag_nomem(r->d, "cache");
    if (diag_failed(&why))
        ctx_warn(r->ctx, WARN_CACHE_CORRUPT, "%s", why.message);
    return s == CACHE_HIT;
}

static bool no_jit(const struct request *r)
{
    char summary[160];
    summarise(r, summary, sizeof summary);
    return diag_set(r->d, FACC_ERR_NO_JIT, "cache", NULL, 0,
                    "kernel %s (%s) is in no cache directory, and compiling "
                    "is forbidden (FACC_NO_JIT or facc_options.no_jit): "
                    "compile it beforehand with \"facc compile\"",
                    r->key, summary);
}

/* The slow way, by one thread for a key. */
static struct module *fetch(const struct request *r)
{
    struct cache_item item;
    memset(&item, 0, sizeof item);
    if (read_disk(r, &item))
        return module_new(r, &item);
    if (diag_failed(r->d))
        return NULL;
    if (r->ctx->no_jit) {
        no_jit(r);
        return NULL;
    }
    const struct cache *c = r->ctx->cache;
    int lock = cache_lock(c, r->key, LOCK_WAIT_MS);
    /* Another process may have been faster while this one waited. */
    bool ok = lock >= 0 && read_disk(r, &item);
    if (!ok && !diag_failed(r->d)) {
        ok = compile(r, &item);
        if (ok)
            publish(r, &item);
    }
    cache_unlock(c, r->key, lock);
    return ok ? module_new(r, &item) : NULL;
}

static struct module *find_module(const struct kernel_table *t,
                                  const struct request *r)
{
    for (struct module *m = t->modules; m; m = m->next)
        if (strcmp(m->key, r->key) == 0 && m->text_size == r->text.len &&
            memcmp(m->text, strbuf_text(&r->text), m->text_size) == 0)
            return m;
    return NULL;
}

static bool in_flight(const struct kernel_table *t, const char *key)
{
    for (const struct flight *f = t->flights; f; f = f->next)
        if (strcmp(f->key, key) == 0 && f->pid == getpid())
            return true;
    return false;
}

static void land(struct kernel_table *t, const struct flight *flight)
{
    struct flight **at = &t->flights;
    while (*at != flight)
        at = &(*at)->next;
    *at = flight->next;
    pthread_cond_broadcast(&t->landed);
}

static struct module *obtain(const struct request *r)
{
    struct kernel_table *t = r->ctx->kernels;
    pthread_mutex_lock(&t->lock);
    struct module *m = find_module(t, r);
    while (!m && in_flight(t, r->key)) {
        pthread_cond_wait(&t->landed, &t->lock);
        m = find_module(t, r); /* still none: that thread failed, try here */
    }
    if (m) {
        r->origin->source = "memory";
        pthread_mutex_unlock(&t->lock);
        return m;
    }
    struct flight flight = {t->flights, r->key, getpid()};
    t->flights = &flight;
    pthread_mutex_unlock(&t->lock);

    m = fetch(r);

    pthread_mutex_lock(&t->lock);
    if (m) {
        m->next = t->modules;
        t->modules = m;
    }
    land(t, &flight);
    pthread_mutex_unlock(&t->lock);
    return m;
}

static struct module *emit_and_obtain(struct request *r, facc_program *p)
{
    struct module *m = NULL;
    struct arena *arena = arena_new(&alloc_libc);
    if (!arena) {
        diag_nomem(r->d, "emit");
        return NULL;
    }
    strbuf_init(&r->text, arena);
    if (!module_unit(r->ctx, p, &r->plan->config, arena, &r->unit, r->d))
        goto out;
    if (!unit_text(&r->unit, &r->target, &r->text) ||
        !cache_key(strbuf_text(&r->text), r->text.len, r->key)) {
        diag_nomem(r->d, "emit");
        goto out;
    }
    m = obtain(r);
out:
    arena_free(arena);
    return m;
}

struct module *module_get(facc_ctx *ctx, facc_program *p,
                          const struct plan *plan, struct module_origin *origin,
                          struct diag *d)
{
    double start = now();
    memset(origin, 0, sizeof *origin);
    origin->source = "memory";
    struct module *m = find_plan(ctx->kernels, p, plan);
    if (!m) {
        struct request r;
        memset(&r, 0, sizeof r);
        r.ctx = ctx;
        r.program = p;
        r.plan = plan;
        module_target(ctx, plan, &r.target);
        r.origin = origin;
        r.d = d;
        m = emit_and_obtain(&r, p);
        if (m)
            remember_plan(ctx->kernels, p, plan, m);
    }
    origin->seconds = now() - start;
    return m;
}

/* The modules of a kernel from the second on: one after the other, since the
 * first takes as long as they do, and cores may be few. */
struct fetching {
    facc_ctx *ctx;
    facc_program *program;
    const struct plans *plans;
    struct module **out;
    struct module_origin *origin;
    struct diag d; /* of the first that failed; none are fetched behind it */
};

static void *run_fetching(void *user)
{
    struct fetching *f = user;
    for (int i = 1; i < plans_count(f->plans) && !diag_failed(&f->d); i++)
        f->out[i] = module_get(f->ctx, f->program, plans_at(f->plans, i),
                               &f->origin[i], &f->d);
    return NULL;
}

static bool all_planned(const struct fetching *f)
{
    bool all = true;
    for (int i = 1; all && i < plans_count(f->plans); i++)
        all = find_plan(f->ctx->kernels, f->program, plans_at(f->plans, i));
    return all;
}

/* Signals are the application's: the thread takes none. */
static bool start_thread(pthread_t *t, struct fetching *f)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const bool ok = pthread_create(t, NULL, run_fetching, f) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
}

bool module_get_all(facc_ctx *ctx, facc_program *p, const struct plans *plans,
                    struct module *out[MODULES_MAX],
                    struct module_origin origin[MODULES_MAX], struct diag *d)
{
    struct fetching others = {ctx, p, plans, out, origin, {0}};
    pthread_t thread;
    memset(out, 0, MODULES_MAX * sizeof *out);
    memset(origin, 0, MODULES_MAX * sizeof *origin);
    diag_init(&others.d);
    const bool threaded =
        !all_planned(&others) && start_thread(&thread, &others);
    out[0] = module_get(ctx, p, &plans->plan[0], &origin[0], d);
    if (threaded)
        pthread_join(thread, NULL);
    else if (out[0])
        run_fetching(&others);
    if (out[0] && diag_failed(&others.d))
        *d = others.d;
    return !diag_failed(d);
}

/* ---- loading ---------------------------------------------------------- */

static bool load_library(struct module *m, struct driver *drv, struct diag *d)
{
    cu_library lib = NULL;
    if (m->library)
        return true;
    if (!driver_ok(
            drv,
            drv->LibraryLoadData(&lib, m->cubin, NULL, NULL, 0, NULL, NULL, 0),
            "load", "cuLibraryLoadData", d))
        return false;
    m->library = lib;
    m->driver = drv;
    return true;
}

/* Asking for the function and an attribute makes the driver load the code
 * now, so that no launch (or capture) has to. The device is current. */
static bool load_entry(struct module *m, struct driver *drv, int device,
                       enum entry e, int shared_bytes, struct diag *d)
{
    cu_kernel kernel = NULL;
    cu_function f = NULL;
    char call[80];
    int registers;
    snprintf(call, sizeof call, "cuLibraryGetKernel (%s)", entry_name(e));
    if (!driver_ok(drv,
                   drv->LibraryGetKernel(&kernel, m->library, entry_name(e)),
                   "load", call, d))
        return false;
    if (e == ENTRY_FORWARD &&
        !driver_ok(drv,
                   drv->KernelSetAttribute(CU_FUNC_MAX_DYNAMIC_SHARED,
                                           shared_bytes, kernel, device),
                   "load", "cuKernelSetAttribute (dynamic shared memory)", d))
        return false;
    if (!driver_ok(drv, drv->KernelGetFunction(&f, kernel), "load",
                   "cuKernelGetFunction", d) ||
        !driver_ok(drv,
                   drv->KernelGetAttribute(&registers, CU_FUNC_NUM_REGS, kernel,
                                           device),
                   "load", "cuKernelGetAttribute", d))
        return false;
    atomic_store(&m->function[device][e], f);
    return true;
}

static bool load_entries(struct module *m, struct driver *drv, int device,
                         int shared_bytes, struct diag *d)
{
    if (!driver_push(drv, device, d))
        return false;
    bool ok = true;
    for (int e = 0; ok && e < N_ENTRIES; e++)
        if (m->entries & 1u << e)
            ok = load_entry(m, drv, device, (enum entry)e, shared_bytes, d);
    driver_pop(drv);
    return ok;
}

/* The last one's function tells that all are there. */
bool module_is_loaded(const struct module *m, int device)
{
    int last = N_ENTRIES - 1;
    while (last > 0 && !(m->entries & 1u << last))
        last--;
    return atomic_load(&m->function[device][last]) != NULL;
}

bool module_load(struct module *m, struct driver *drv, int device,
                 int shared_bytes, struct diag *d)
{
    if (module_is_loaded(m, device))
        return true;
    pthread_mutex_lock(&m->lock);
    bool ok = module_is_loaded(m, device) ||
              (load_library(m, drv, d) &&
               load_entries(m, drv, device, shared_bytes, d));
    pthread_mutex_unlock(&m->lock);
    return ok;
}

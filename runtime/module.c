/* From a plan to machine code: the program's list of plans, the table in
 * memory, then module_fetch.c, each key once at a time. Called by kernel.c. */
#include "runtime/module.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compiler/compile.h"
#include "runtime/module_parts.h"

struct planned {
    struct planned *next;
    struct plan plan;
    struct module *module;
};

/* A key being read or compiled by some thread; lives on that thread's
 * stack. */
struct flight {
    struct flight *next;
    const char *key;
};

struct kernel_table {
    pid_t pid; /* of the process whose threads fly and wait */
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
    t->pid = getpid();
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
    if (t->pid == getpid()) { /* else there may be waiters, in the parent */
        pthread_cond_destroy(&t->landed);
        pthread_mutex_destroy(&t->lock);
    }
    free(t);
}

/* ---- plans ------------------------------------------------------------ */

/* One value for each member: with one more this does not compile
 * (-Wmissing-field-initializers), so that none is forgotten below. */
_Static_assert(sizeof(struct unit_config){"",    DTYPE_F16, DTYPE_F16, 0,
                                          0,     0,         0,         0,
                                          0,     false,     0,         0,
                                          false, false,     false,     false,
                                          false, false,     false,     false,
                                          false, false,     0,         0,
                                          NULL} > 0,
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
           a->sinks == b->sinks && a->block_scales == b->block_scales &&
           a->promotes == b->promotes && a->transposes_v == b->transposes_v &&
           a->exact_peaks == b->exact_peaks && a->dropout == b->dropout &&
           a->rounding == b->rounding && a->plane_bytes == b->plane_bytes &&
           a->dot == b->dot;
}

/* The table's lock guards the lists of all programs: nobody holds it for long,
 * as the program's own is held while its text is emitted. */
static struct module *find_plan(const facc_program *p, const struct plan *plan)
{
    struct kernel_table *t = p->ctx->kernels;
    struct module *m = NULL;
    if (!ctx_lock(p->ctx, &t->lock, NULL))
        return NULL;
    for (const struct planned *at = p->plans; at && !m; at = at->next)
        if (at->plan.arch == plan->arch &&
            same_config(&at->plan.config, &plan->config))
            m = at->module;
    pthread_mutex_unlock(&t->lock);
    return m;
}

/* A shortcut only: when memory is out, the next call emits the text again. */
static void remember_plan(facc_program *p, const struct plan *plan,
                          struct module *m)
{
    struct kernel_table *t = p->ctx->kernels;
    struct planned *new = malloc(sizeof *new);
    if (!new || !ctx_lock(p->ctx, &t->lock, NULL)) {
        free(new);
        return;
    }
    new->plan = *plan;
    new->module = m;
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

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
        if (strcmp(f->key, key) == 0)
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

/* In a forked child, whose lock this is: nobody finishes the parent's flights
 * here, and its waiters will never leave. */
static void begin_anew(struct kernel_table *t)
{
    t->pid = getpid();
    t->flights = NULL;
    pthread_cond_init(&t->landed, NULL);
}

static struct module *obtain(const struct request *r)
{
    struct kernel_table *t = r->ctx->kernels;
    if (!ctx_lock(r->ctx, &t->lock, r->d))
        return NULL;
    if (t->pid != getpid())
        begin_anew(t);
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
    struct flight flight = {t->flights, r->key};
    t->flights = &flight;
    pthread_mutex_unlock(&t->lock);

    m = module_fetch(r);

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
    if (!module_unit_text(&r->unit, &r->target, &r->text) ||
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
    struct module *m = find_plan(p, plan);
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
            remember_plan(p, plan, m);
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
        all = find_plan(f->program, plans_at(f->plans, i));
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

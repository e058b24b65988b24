/* facc_cache_rebuild: every entry verified, and those that are damaged or of
 * another NVRTC compiled again from their own unit.txt: no program is needed.
 * In: the cache directories. Out: a word on each entry. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cache_entry.h"
#include "runtime/error.h"
#include "runtime/facc.h"
#include "runtime/module_parts.h"

enum { LOCK_WAIT_MS = 30000, MAX_JOBS = 64 };

static const char stage_name[] = "cache";

struct task {
    int layer; /* of the cache's directories */
    char key[33];
};

struct rebuild {
    facc_ctx *ctx;
    struct nvrtc *nvrtc;
    char compiler[48]; /* as meta.json names this NVRTC */
    struct task *tasks;
    size_t n, cap;
    int layer; /* whose entries are being listed */
    int (*entry)(void *user, const facc_cache_rebuilt *e);
    void *user;
    pthread_mutex_t lock; /* of what follows, and of calling back */
    size_t next;
    bool stopped;
    struct diag *d;
};

/* What is found and done about one entry. */
struct finding {
    const struct task *task;
    const char *dir;
    bool gone; /* another process removed it meanwhile */
    int outcome;
    bool set_aside;
    struct cache_meta meta;
    struct strbuf why;
};

/* ---- compiling ---------------------------------------------------------- */

/* nvrtcVersion has no patch level, what it makes has. */
static bool name_compiler(struct rebuild *r)
{
    struct nvrtc_build b;
    const struct nvrtc_target t = {.arch = 90};
    const struct cuda_unit u = {.main_name = "name.cu",
                                .main_text = "extern \"C\" __global__ void "
                                             "facc_name() {}\n"};
    bool ok = module_compile(r->ctx, r->nvrtc, &u, &t, false, &b, r->d);
    if (ok)
        memcpy(r->compiler, b.compiler, sizeof r->compiler);
    nvrtc_build_free(&b);
    return ok;
}

static bool compile(const struct rebuild *r, const struct cuda_unit *u,
                    const struct nvrtc_target *t, struct cache_item *item,
                    struct diag *d)
{
    struct nvrtc_build b;
    const bool ok = module_compile(r->ctx, r->nvrtc, u, t, false, &b, d) &&
                    module_take(item, &b, r->nvrtc, d);
    nvrtc_build_free(&b);
    return ok;
}

/* Into the first directory, in place of a valid entry there or of none. */
static bool make_again(const struct rebuild *r, struct finding *f,
                       const struct entry_file *unit, bool replace,
                       struct diag *d)
{
    const struct cache *c = r->ctx->cache;
    struct cuda_unit u;
    struct nvrtc_target t;
    struct cache_item item = {.meta = f->meta};
    struct arena *a = arena_new(&alloc_libc);
    if (!a)
        return diag_nomem(d, stage_name);
    bool ok = module_reread(r->ctx, unit->data, unit->size, a, &u, &t, d);
    if (ok && item.meta.summary[0] == '\0') /* went with meta.json */
        snprintf(item.meta.summary, sizeof item.meta.summary, "%s sm_%d",
                 u.main_name, t.arch);
    ok = ok && compile(r, &u, &t, &item, d) &&
         (replace
              ? entry_replace(c->dirs[0], f->task->key, unit->data, unit->size,
                              &item, d)
              : cache_write(c, f->task->key, unit->data, unit->size, &item, d));
    if (ok)
        f->meta = item.meta;
    free(item.cubin);
    arena_free(a);
    return ok;
}

/* ---- one entry ---------------------------------------------------------- */

/* Another directory that has it. NULL: none. */
static const char *find_elsewhere(const struct cache *c, const struct task *t)
{
    char why[ENTRY_WHY];
    for (int i = 0; i < c->n_dirs; i++)
        if (i != t->layer && entry_read(c->dirs[i], t->key, NULL, 0, false,
                                        NULL, why) == ENTRY_OK)
            return c->dirs[i];
    return NULL;
}

static void keep_or_renew(const struct rebuild *r, struct finding *f,
                          const struct entry_file *unit)
{
    struct diag d;
    diag_init(&d);
    f->outcome = FACC_REBUILD_KEPT;
    if (f->task->layer > 0 || strcmp(f->meta.compiler, r->compiler) == 0)
        return;
    strbuf_addf(&f->why, "%s made it", f->meta.compiler);
    if (make_again(r, f, unit, true, &d))
        f->outcome = FACC_REBUILD_MADE;
    else
        strbuf_addf(&f->why, ", it stays: %s", d.message);
}

/* what: of the entry. unit: empty when that is damaged, too. */
static void mend(const struct rebuild *r, struct finding *f, const char *what,
                 const struct entry_file *unit)
{
    const struct cache *c = r->ctx->cache;
    struct diag d;
    diag_init(&d);
    strbuf_add(&f->why, what);
    f->set_aside =
        f->task->layer == 0 && entry_retire(f->dir, f->task->key, false);
    const char *other = find_elsewhere(c, f->task);
    f->outcome = FACC_REBUILD_LOST;
    if (other) {
        f->outcome = FACC_REBUILD_ELSEWHERE;
        strbuf_addf(&f->why, "; %s has it, too", other);
    } else if (!unit->data)
        strbuf_add(&f->why, "; without unit.txt nothing tells what to compile");
    else if (make_again(r, f, unit, false, &d))
        f->outcome = FACC_REBUILD_MADE;
    else
        strbuf_addf(&f->why, "; %s", d.message);
}

static bool examine(const struct rebuild *r, struct finding *f)
{
    struct entry_file file[ENTRY_FILES], unit = {NULL, 0};
    char why[ENTRY_WHY], no_unit[ENTRY_WHY];
    const char *key = f->task->key;
    enum entry_state s = entry_load(f->dir, key, file, &f->meta, why);
    f->gone = s == ENTRY_ABSENT;
    if (s == ENTRY_OK)
        keep_or_renew(r, f, &file[ENTRY_UNIT]);
    else if (s != ENTRY_ABSENT && s != ENTRY_NOMEM) {
        if (entry_salvage(f->dir, key, &unit, &f->meta, no_unit) == ENTRY_NOMEM)
            return false;
        mend(r, f, why, &unit);
        free(unit.data);
    }
    entry_files_free(file);
    return s != ENTRY_NOMEM && !f->why.failed;
}

/* ---- all of them -------------------------------------------------------- */

static void fail(struct rebuild *r)
{
    pthread_mutex_lock(&r->lock);
    r->stopped = true;
    diag_nomem(r->d, stage_name);
    pthread_mutex_unlock(&r->lock);
}

static void tell(struct rebuild *r, const struct finding *f)
{
    const facc_cache_rebuilt e = {.key = f->task->key,
                                  .dir = f->dir,
                                  .summary = f->meta.summary,
                                  .outcome = f->outcome,
                                  .set_aside = f->set_aside,
                                  .why = strbuf_text(&f->why)};
    pthread_mutex_lock(&r->lock);
    if (!r->stopped && !f->gone)
        r->stopped = r->entry(r->user, &e) != 0;
    pthread_mutex_unlock(&r->lock);
}

static void process(struct rebuild *r, const struct task *t)
{
    const struct cache *c = r->ctx->cache;
    struct finding f = {.task = t, .dir = c->dirs[t->layer]};
    struct arena *a = arena_new(&alloc_libc);
    if (!a) {
        fail(r);
        return;
    }
    strbuf_init(&f.why, a);
    int lock = cache_lock(c, t->key, LOCK_WAIT_MS);
    const bool ok = examine(r, &f);
    cache_unlock(c, t->key, lock);
    if (ok)
        tell(r, &f);
    else
        fail(r);
    arena_free(a);
}

static void *worker(void *user)
{
    struct rebuild *r = user;
    for (;;) {
        pthread_mutex_lock(&r->lock);
        const struct task *t =
            !r->stopped && r->next < r->n ? &r->tasks[r->next++] : NULL;
        pthread_mutex_unlock(&r->lock);
        if (!t)
            return NULL;
        process(r, t);
    }
}

static int add_task(void *user, const struct cache_listing *e)
{
    struct rebuild *r = user;
    if (r->n == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 64;
        void *p = realloc(r->tasks, cap * sizeof *r->tasks);
        if (!p)
            return !diag_nomem(r->d, stage_name);
        r->tasks = p;
        r->cap = cap;
    }
    struct task *t = &r->tasks[r->n++];
    t->layer = r->layer;
    snprintf(t->key, sizeof t->key, "%s", e->key);
    return 0;
}

static bool run(struct rebuild *r, int jobs)
{
    pthread_t thread[MAX_JOBS];
    int started = 0;
    const struct cache *c = r->ctx->cache;
    for (; r->layer < c->n_dirs; r->layer++)
        if (!cache_each(c, r->layer, add_task, r, r->d) || diag_failed(r->d))
            return false;
    pthread_mutex_init(&r->lock, NULL);
    while (started < jobs - 1 && started < MAX_JOBS &&
           pthread_create(&thread[started], NULL, worker, r) == 0)
        started++;
    worker(r); /* this thread works too */
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&r->lock);
    return !diag_failed(r->d);
}

static bool prepare(struct rebuild *r)
{
    if (r->ctx->no_jit)
        return diag_set(r->d, FACC_ERR_NO_JIT, stage_name, NULL, 0,
                        "rebuilding compiles, and compiling is forbidden "
                        "(FACC_NO_JIT or facc_options.no_jit)");
    if (!cache_can_write(r->ctx->cache))
        return diag_set(r->d, FACC_ERR_IO, stage_name, NULL, 0,
                        "there is no cache directory to rebuild in: set "
                        "FACC_CACHE_DIR to one that can be written");
    r->nvrtc = ctx_nvrtc(r->ctx, r->d);
    return r->nvrtc && name_compiler(r);
}

facc_status facc_cache_rebuild(facc_ctx *ctx, int32_t jobs,
                               int (*entry)(void *user,
                                            const facc_cache_rebuilt *e),
                               void *user, facc_error *err)
{
    struct diag d;
    diag_init(&d);
    if (!ctx || !entry)
        return error_null(err, ctx ? "entry" : "ctx");
    struct rebuild r = {.ctx = ctx, .entry = entry, .user = user, .d = &d};
    bool ok = prepare(&r) && run(&r, jobs);
    free(r.tasks);
    return ok ? FACC_OK : error_report(err, &d, NULL, NULL);
}

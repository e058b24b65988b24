/* Looking after the cache: listing, garbage collection, clearing, for
 * facc_cache_* at the end; never on the way to a kernel. */
#include "runtime/cache.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cache_entry.h"
#include "runtime/context.h"
#include "runtime/error.h"
#include "runtime/facc.h"

/* Names in DIR/v1/sub (or DIR/v1 for NULL) that `keep` accepts. */
struct names {
    char (*name)[33];
    size_t n, cap;
};

static bool is_shelf(const char *name)
{
    return strlen(name) == 2 && strspn(name, "0123456789abcdef") == 2;
}

static bool add_name(struct names *out, const char *name)
{
    if (out->n == out->cap) {
        size_t cap = out->cap ? out->cap * 2 : 64;
        void *p = realloc(out->name, cap * sizeof *out->name);
        if (!p)
            return false;
        out->name = p;
        out->cap = cap;
    }
    snprintf(out->name[out->n++], sizeof *out->name, "%.32s", name);
    return true;
}

/* Takes fd over. */
static bool list_names(int fd, bool (*keep)(const char *), struct names *out)
{
    DIR *list = fdopendir(fd);
    bool ok = true;
    if (!list) {
        close(fd);
        return false;
    }
    for (struct dirent *e; ok && (e = readdir(list));)
        if (keep(e->d_name))
            ok = add_name(out, e->d_name);
    closedir(list);
    return ok;
}

/* All keys of a cache directory; a directory that is not there has none. */
static bool list_keys(const char *dir, struct names *keys, struct diag *d)
{
    struct names shelves = {NULL, 0, 0};
    int fd = entry_open_sub(dir, ".", false);
    if (fd < 0 && errno == ENOENT)
        return true;
    if (fd < 0)
        return diag_set(d, FACC_ERR_IO, "cache", NULL, 0,
                        "cannot read the cache directory %s: %s", dir,
                        entry_error(errno));
    bool ok = list_names(fd, is_shelf, &shelves);
    for (size_t i = 0; ok && i < shelves.n; i++) {
        int shelf = entry_open_sub(dir, shelves.name[i], false);
        if (shelf >= 0)
            ok = list_names(shelf, entry_is_key, keys);
    }
    free(shelves.name);
    return ok || diag_nomem(d, "cache");
}

/* ENTRY_ABSENT: another process removed it meanwhile. */
static enum entry_state describe(const char *dir, const char *key,
                                 struct cache_listing *e)
{
    struct cache_item item;
    char why[256];
    memset(&item, 0, sizeof item);
    memset(e, 0, sizeof *e);
    e->key = key;
    (void)entry_stat(dir, key, &e->bytes, &e->last_used);
    enum entry_state state = entry_read(dir, key, NULL, 0, false, &item, why);
    e->valid = state == ENTRY_OK;
    e->meta = item.meta;
    free(item.cubin);
    return state;
}

bool cache_each(const struct cache *c, int i,
                int (*fn)(void *user, const struct cache_listing *e),
                void *user, struct diag *d)
{
    struct names keys = {NULL, 0, 0};
    bool ok = list_keys(c->dirs[i], &keys, d);
    for (size_t k = 0; ok && k < keys.n; k++) {
        struct cache_listing e;
        char *path = NULL;
        const char *key = keys.name[k];
        enum entry_state state = describe(c->dirs[i], key, &e);
        if (state == ENTRY_ABSENT)
            continue;
        if (state == ENTRY_NOMEM || asprintf(&path, "%s/%s/%.2s/%s", c->dirs[i],
                                             CACHE_SCHEMA, key, key) < 0) {
            ok = diag_nomem(d, "cache");
            break;
        }
        e.dir = path;
        int stop = fn(user, &e);
        free(path);
        if (stop)
            break;
    }
    free(keys.name);
    return ok;
}

/* ---- garbage collection ----------------------------------------------- */

struct survivor {
    char key[33];
    int64_t bytes, last_used;
};

struct collection {
    const char *dir;
    struct survivor *list;
    size_t n, cap;
    int64_t total, removed, freed;
    bool failed;
};

static void drop(struct collection *g, const char *key, int64_t bytes)
{
    if (!entry_retire(g->dir, key, true))
        return;
    g->removed++;
    g->freed += bytes;
}

static int collect(void *user, const struct cache_listing *e)
{
    struct collection *g = user;
    if (!e->valid) {
        drop(g, e->key, e->bytes);
        return 0;
    }
    if (g->n == g->cap) {
        size_t cap = g->cap ? g->cap * 2 : 64;
        void *p = realloc(g->list, cap * sizeof *g->list);
        if (!p) {
            g->failed = true;
            return 1;
        }
        g->list = p;
        g->cap = cap;
    }
    struct survivor *s = &g->list[g->n++];
    snprintf(s->key, sizeof s->key, "%s", e->key);
    s->bytes = e->bytes;
    s->last_used = e->last_used;
    g->total += e->bytes;
    return 0;
}

static int oldest_first(const void *a, const void *b)
{
    const struct survivor *x = a, *y = b;
    if (x->last_used != y->last_used)
        return x->last_used < y->last_used ? -1 : 1;
    return strcmp(x->key, y->key);
}

bool cache_gc(const struct cache *c, int64_t max_bytes, int64_t *removed,
              int64_t *freed, struct diag *d)
{
    *removed = *freed = 0;
    if (!cache_can_write(c))
        return true;
    struct collection g;
    memset(&g, 0, sizeof g);
    g.dir = c->dirs[0];
    bool ok = cache_each(c, 0, collect, &g, d);
    if (g.failed)
        ok = diag_nomem(d, "cache");
    if (ok && max_bytes >= 0 && g.n > 0)
        qsort(g.list, g.n, sizeof *g.list, oldest_first);
    for (size_t i = 0; ok && max_bytes >= 0 && i < g.n; i++) {
        if (g.total <= max_bytes)
            break;
        drop(&g, g.list[i].key, g.list[i].bytes);
        g.total -= g.list[i].bytes;
    }
    entry_sweep(c->dirs[0], ENTRY_STALE_SECONDS);
    free(g.list);
    *removed = g.removed;
    *freed = g.freed;
    return ok;
}

bool cache_clear(const struct cache *c, int64_t *removed, struct diag *d)
{
    struct names keys = {NULL, 0, 0};
    *removed = 0;
    if (!cache_can_write(c))
        return true;
    bool ok = list_keys(c->dirs[0], &keys, d);
    for (size_t k = 0; ok && k < keys.n; k++)
        if (entry_retire(c->dirs[0], keys.name[k], true))
            (*removed)++;
    entry_sweep(c->dirs[0], ENTRY_STALE_SECONDS);
    free(keys.name);
    return ok;
}

/* ---- public ------------------------------------------------------------ */

struct list_call {
    int (*entry)(void *user, const facc_cache_entry *e);
    void *user;
    int stopped;
};

static int hand_out(void *user, const struct cache_listing *l)
{
    struct list_call *call = user;
    facc_cache_entry e = {.key = l->key,
                          .dir = l->dir,
                          .summary = l->meta.summary,
                          .bytes = l->bytes,
                          .last_used = l->last_used,
                          .valid = l->valid};
    call->stopped = call->entry(call->user, &e);
    return call->stopped;
}

facc_status facc_cache_list(facc_ctx *ctx,
                            int (*entry)(void *user, const facc_cache_entry *e),
                            void *user, facc_error *err)
{
    struct diag d;
    struct list_call call = {entry, user, 0};
    diag_init(&d);
    if (!ctx || !entry)
        return error_null(err, ctx ? "entry" : "ctx");
    for (int i = 0; i < ctx->cache->n_dirs && !call.stopped; i++)
        if (!cache_each(ctx->cache, i, hand_out, &call, &d))
            return error_report(err, &d, NULL, NULL);
    return FACC_OK;
}

facc_status facc_cache_gc(facc_ctx *ctx, int64_t max_bytes, int64_t *removed,
                          int64_t *freed_bytes, facc_error *err)
{
    struct diag d;
    int64_t r, f;
    diag_init(&d);
    if (!ctx)
        return error_null(err, "ctx");
    bool ok = cache_gc(ctx->cache, max_bytes, &r, &f, &d);
    if (removed)
        *removed = r;
    if (freed_bytes)
        *freed_bytes = f;
    return ok ? FACC_OK : error_report(err, &d, NULL, NULL);
}

facc_status facc_cache_clear(facc_ctx *ctx, int64_t *removed, facc_error *err)
{
    struct diag d;
    int64_t r;
    diag_init(&d);
    if (!ctx)
        return error_null(err, "ctx");
    bool ok = cache_clear(ctx->cache, &r, &d);
    if (removed)
        *removed = r;
    return ok ? FACC_OK : error_report(err, &d, NULL, NULL);
}

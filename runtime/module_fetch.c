/* A request that memory cannot answer: the disk cache, then NVRTC, and what is
 * compiled is published. One compile per key among processes; all that goes
 * wrong beside the compile itself is a warning. Called by module.c. */
#include "runtime/module_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cache_entry.h"

enum { LOCK_WAIT_MS = 30000 };

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

bool module_compile(facc_ctx *ctx, struct nvrtc *n, const struct cuda_unit *u,
                    const struct nvrtc_target *t, bool ptx,
                    struct nvrtc_build *build, struct diag *d)
{
    const int counts = ctx->pid == getpid();
    atomic_fetch_add(&ctx->compiling, counts);
    bool ok = nvrtc_compile(n, u, t, ptx, build, d);
    atomic_fetch_sub(&ctx->compiling, counts);
    return ok;
}

bool module_take(struct cache_item *item, struct nvrtc_build *build,
                 const struct nvrtc *n, struct diag *d)
{
    if (!entry_is_elf(build->image, build->size))
        return diag_set(d, FACC_ERR_COMPILE, "nvrtc", NULL, 0,
                        "what NVRTC (%s) gave is no ELF file", nvrtc_path(n));
    memcpy(item->meta.compiler, build->compiler, sizeof build->compiler);
    item->meta.registers = build->registers;
    item->meta.spill_bytes = build->spill_bytes;
    item->meta.compile_us = (int64_t)(build->seconds * 1e6);
    item->cubin = build->image;
    item->cubin_size = build->size;
    build->image = NULL;
    return true;
}

static bool compile(const struct request *r, struct cache_item *item)
{
    struct nvrtc_build build;
    struct nvrtc *n = ctx_nvrtc(r->ctx, r->d);
    if (!n)
        return false;
    memset(item, 0, sizeof *item);
    bool ok =
        module_compile(r->ctx, n, &r->unit, &r->target, false, &build, r->d);
    keep_build(r, &build);
    ok = ok && module_take(item, &build, n, r->d);
    if (ok) {
        module_summarise(r, item->meta.summary, sizeof item->meta.summary);
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

/* A file's name as a shell takes it, or a word for it. */
static void write_name(const char *name, char *out, size_t size)
{
    if (strcmp(name, "expression") == 0 || strchr(name, '\''))
        name = "FILE";
    const char *quote = strpbrk(name, " \t\n\"\\$`!#&;|<>()[]{}*?~") ? "'" : "";
    snprintf(out, size, "%s%.250s%s", quote, name, quote);
}

/* The command that makes what is missing. Kernels of a schedule are made with
 * any of the program's. */
static void write_command(const struct request *r, char *out, size_t size)
{
    const struct unit_config *c = &r->plan->config;
    char name[256], tensors[96] = "", o[24] = "";
    write_name(r->program->compiled->name, name, sizeof name);
    if (c->out_dtype != c->dtype)
        snprintf(o, sizeof o, " --out-dtype %s", dtype_name(c->out_dtype));
    if (emit_is_transpose(c))
        snprintf(tensors, sizeof tensors, " --dtype e4m3 --head-dim %d",
                 c->head_dim_v);
    else if (!emit_is_schedule(c))
        snprintf(tensors, sizeof tensors, " --dtype %s%s --head-dim %d/%d",
                 dtype_name(c->dtype), o, c->head_dim, c->head_dim_v);
    snprintf(out, size, "facc compile %s%s --arch %d%s%s%s%s%s%s%s%s%s", name,
             tensors, r->plan->arch, c->packed ? " --packed" : "",
             c->block_mask ? " --block-mask" : "",
             c->sinks ? " --with-sinks" : "",
             c->dropout ? " --with-dropout" : "",
             c->block_scales ? " --per 128" : "",
             dtype_size(c->dtype) == 1 && !c->promotes ? " --centre-v" : "",
             c->transposes_v ? " --transpose-v" : "",
             c->exact_peaks ? " --exact-peaks" : "",
             c->check_bounds ? " --check-bounds" : "");
}

static bool no_jit(const struct request *r)
{
    char summary[160], command[512], compile[600] = "";
    module_summarise(r, summary, sizeof summary);
    write_command(r, command, sizeof command);
    if (!emit_is_quantize(&r->plan->config)) /* manifests alone make these */
        snprintf(compile, sizeof compile,
                 "compile it beforehand with \"%s\", or ", command);
    return diag_set(r->d, FACC_ERR_NO_JIT, "cache", NULL, 0,
                    "kernel %s (%s) is in no cache directory, and compiling "
                    "is forbidden (FACC_NO_JIT or facc_options.no_jit): "
                    "%srecord what runs ask for with FACC_MANIFEST and give "
                    "that to \"facc compile --manifest\"",
                    r->key, summary, compile);
}

struct module *module_fetch(const struct request *r)
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

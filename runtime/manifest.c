/* Manifests: written by kernel.c's and quantize.c's calls, a line per kernel or
 * quantizer that was asked for; read line by line for whoever warms a cache up.
 * Several processes may write one file: lines are appended whole, under a lock
 * where there are locks. */
#include "runtime/manifest.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/support/hash.h"
#include "runtime/error.h"
#include "runtime/program.h"

static const char stage_name[] = "manifest";

/* ---- a set of lines ----------------------------------------------------- */

struct lines { /* by digest */
    struct hash128 *list;
    size_t n, cap;
};

static bool digest_of(const char *line, size_t size, struct hash128 *out)
{
    struct hash_stream *s = hash_stream_new();
    if (!s)
        return false;
    hash_stream_field(s, line, size);
    *out = hash_stream_end(s);
    return true;
}

/* *fresh: it was not in the set. False when memory is out. */
static bool add_line(struct lines *set, const char *line, size_t size,
                     bool *fresh)
{
    struct hash128 h;
    if (!digest_of(line, size, &h))
        return false;
    *fresh = false;
    for (size_t i = 0; i < set->n; i++)
        if (set->list[i].lo == h.lo && set->list[i].hi == h.hi)
            return true;
    if (set->n == set->cap) {
        size_t cap = set->cap ? set->cap * 2 : 64;
        void *p = realloc(set->list, cap * sizeof *set->list);
        if (!p)
            return false;
        set->list = p;
        set->cap = cap;
    }
    set->list[set->n++] = h;
    *fresh = true;
    return true;
}

/* ---- a line ------------------------------------------------------------- */

/* The numbers of a variant. `device` is not among them: arch is resolved. */
#define VARIANT_INTS(E)                                                        \
    E(head_dim)                                                                \
    E(head_dim_v)                                                              \
    E(arch)                                                                    \
    E(check_bounds)                                                            \
    E(block_mask)                                                              \
    E(packed)                                                                  \
    E(sinks)                                                                   \
    E(layout)                                                                  \
    E(family)                                                                  \
    E(block_scales)                                                            \
    E(centred_v)                                                               \
    E(dropout)                                                                 \
    E(transposes_v)                                                            \
    E(exact_peaks)
_Static_assert(offsetof(facc_variant, reserved0) + sizeof(int32_t) ==
                   sizeof(facc_variant),
               "a field behind exact_peaks: VARIANT_INTS lacks it");

static bool add_dtype(cJSON *o, const char *name, facc_dtype t)
{
    return cJSON_AddStringToObject(o, name, t ? facc_dtype_name(t) : "");
}

static bool add_fields(cJSON *o, const facc_program *p, const facc_variant *v)
{
    bool ok = cJSON_AddStringToObject(o, "program", p->compiled->name) &&
              add_dtype(o, "dtype", v->dtype) &&
              add_dtype(o, "out_dtype", v->out_dtype);
#define ADD(name) ok = ok && cJSON_AddNumberToObject(o, #name, v->name);
    VARIANT_INTS(ADD)
#undef ADD
    return ok && cJSON_AddStringToObject(o, "text", p->text);
}

/* Of a quantizer, likewise. */
#define QUANTIZE_INTS(E)                                                       \
    E(head_dim)                                                                \
    E(arch)                                                                    \
    E(hadamard)                                                                \
    E(mean)                                                                    \
    E(image)
_Static_assert(offsetof(facc_quantize_variant, image) + sizeof(int32_t) ==
                   sizeof(facc_quantize_variant),
               "a field behind image: QUANTIZE_INTS lacks it");

static bool add_quantizer(cJSON *o, const facc_quantize_variant *v)
{
    bool ok = add_dtype(o, "from", v->from) && add_dtype(o, "to", v->to);
#define ADD(name) ok = ok && cJSON_AddNumberToObject(o, #name, v->name);
    QUANTIZE_INTS(ADD)
#undef ADD
    return ok;
}

/* Deletes o. NULL when memory is out; free(). */
static char *print_line(cJSON *o, bool filled)
{
    char *line = NULL;
    char *text = filled ? cJSON_PrintUnformatted(o) : NULL;
    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    cJSON_free(text);
    cJSON_Delete(o);
    return line;
}

static bool take_dtype(const cJSON *o, const char *name, facc_dtype *out)
{
    const char *s =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
    *out = (facc_dtype)0;
    if (!s || !s[0])
        return s != NULL;
    for (int t = FACC_F32; t <= FACC_F64; t++)
        if (strcmp(s, facc_dtype_name((facc_dtype)t)) == 0)
            *out = (facc_dtype)t;
    return *out != 0;
}

/* A manifest of an older facc may lack a number: 0. */
static bool take_int(const cJSON *o, const char *name, int32_t *out)
{
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, name);
    *out = 0;
    if (!n)
        return true;
    if (!cJSON_IsNumber(n) || fabs(n->valuedouble) > 1e6 ||
        n->valuedouble != floor(n->valuedouble))
        return false;
    *out = (int32_t)n->valuedouble;
    return true;
}

/* Strings point into o. */
static bool parse_line(const cJSON *o, facc_manifest_entry *e)
{
    facc_variant *v = &e->variant;
    memset(e, 0, sizeof *e);
    v->struct_size = sizeof *v;
    e->program =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "program"));
    e->text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "text"));
    bool ok = e->program && e->text && take_dtype(o, "dtype", &v->dtype) &&
              v->dtype && take_dtype(o, "out_dtype", &v->out_dtype);
#define TAKE(name) ok = ok && take_int(o, #name, &v->name);
    VARIANT_INTS(TAKE)
#undef TAKE
    e->text_size = ok ? strlen(e->text) : 0;
    return ok;
}

static bool parse_quantizer(const cJSON *o, facc_quantize_variant *v)
{
    *v = (facc_quantize_variant)FACC_QUANTIZE_VARIANT_INIT;
    bool ok = take_dtype(o, "from", &v->from) && v->from &&
              take_dtype(o, "to", &v->to) && v->to;
#define TAKE(name) ok = ok && take_int(o, #name, &v->name);
    QUANTIZE_INTS(TAKE)
#undef TAKE
    return ok;
}

/* ---- recording ---------------------------------------------------------- */

struct manifest {
    char *path;
    pthread_mutex_t lock;
    bool begun;         /* what was in the file is in `lines` */
    bool torn;          /* its last line has no end: a writer was killed */
    struct lines lines; /* in the file already */
};

struct manifest *manifest_new(const char *path)
{
    struct manifest *m = calloc(1, sizeof *m);
    if (!m || !(m->path = strdup(path))) {
        free(m);
        return NULL;
    }
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

void manifest_free(struct manifest *m)
{
    if (!m)
        return;
    pthread_mutex_destroy(&m->lock);
    free(m->lines.list);
    free(m->path);
    free(m);
}

/* A file that cannot be read has no lines: writing will say why. */
static FILE *open_plain(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "re")
                                                       : NULL;
}

static bool begin(struct manifest *m)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    bool ok = true, fresh;
    FILE *f = m->begun ? NULL : open_plain(m->path);
    m->begun = true;
    while (ok && f && (n = getline(&line, &cap, f)) > 0) {
        ok = add_line(&m->lines, line, (size_t)n, &fresh);
        m->torn = line[n - 1] != '\n';
    }
    free(line);
    if (f)
        fclose(f);
    return ok;
}

static bool append(struct manifest *m, const char *line)
{
    int fd = open(m->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return false;
    (void)flock(fd, LOCK_EX);
    const size_t n = strlen(line);
    bool ok = !m->torn || write(fd, "\n", 1) == 1;
    errno = ENOSPC; /* what a short write means */
    ok = ok && write(fd, line, n) == (ssize_t)n;
    m->torn = !ok;
    int saved = errno;
    ok = close(fd) == 0 && ok;
    errno = ok ? 0 : saved;
    return ok;
}

/* Frees the line; NULL: memory was out for it. */
static void record(facc_ctx *ctx, char *line)
{
    struct manifest *m = ctx->manifest;
    bool ok = line != NULL, fresh = false;
    errno = ENOMEM;
    if (!ctx_lock(ctx, &m->lock, NULL)) {
        free(line);
        return;
    }
    ok = ok && begin(m) && add_line(&m->lines, line, strlen(line), &fresh);
    if (ok && fresh)
        ok = append(m, line);
    int saved = errno;
    pthread_mutex_unlock(&m->lock);
    if (!ok)
        ctx_warn(ctx, WARN_MANIFEST, "the manifest %s cannot be written: %s",
                 m->path, strerror(saved));
    free(line);
}

void manifest_record(facc_ctx *ctx, const facc_program *p,
                     const facc_variant *variant, int arch)
{
    struct manifest *m = ctx->manifest;
    facc_variant v;
    struct diag d;
    diag_init(&d);
    if (!m || !versioned_read(&v, sizeof v, variant, "facc_variant", &d))
        return;
    if (strlen(p->text) != p->text_size) { /* no JSON string */
        ctx_warn(ctx, WARN_MANIFEST,
                 "%s has a NUL character: the manifest %s will lack its "
                 "kernels",
                 p->compiled->name, m->path);
        return;
    }
    v.arch = arch;
    if (v.head_dim_v == 0)
        v.head_dim_v = v.head_dim;
    if (v.out_dtype == v.dtype)
        v.out_dtype = (facc_dtype)0;
    cJSON *o = cJSON_CreateObject();
    record(ctx, print_line(o, o && add_fields(o, p, &v)));
}

void manifest_record_quantizer(facc_ctx *ctx, facc_quantize_variant v, int arch)
{
    if (!ctx->manifest)
        return;
    v.arch = arch;
    v.hadamard = v.hadamard != 0; /* what says the same is one line */
    v.mean = v.mean != 0;
    v.image = v.image != 0;
    cJSON *o = cJSON_CreateObject();
    record(ctx, print_line(o, o && add_quantizer(o, &v)));
}

/* ---- reading ------------------------------------------------------------ */

struct reading {
    facc_ctx *ctx;
    const char *path;
    int (*entry)(void *user, const facc_manifest_entry *e);       /* or */
    int (*quantizer)(void *user, const facc_quantize_variant *v); /* NULL */
    void *user;
    struct lines seen;
    int number, good;
    bool stopped;
};

static bool is_blank(const char *s)
{
    return s[strspn(s, " \t\r\n")] == '\0';
}

static bool read_line(struct reading *r, const char *line, size_t n,
                      struct diag *d)
{
    bool fresh;
    facc_manifest_entry e;
    facc_quantize_variant v;
    r->number++;
    if (is_blank(line))
        return true;
    if (!add_line(&r->seen, line, n, &fresh))
        return diag_nomem(d, stage_name);
    if (!fresh)
        return true;
    cJSON *o = cJSON_ParseWithLength(line, n);
    if (o && parse_line(o, &e)) {
        r->good++;
        r->stopped = r->entry && r->entry(r->user, &e) != 0;
    } else if (o && parse_quantizer(o, &v)) {
        r->good++;
        r->stopped = r->quantizer && r->quantizer(r->user, &v) != 0;
    } else
        ctx_warn(r->ctx, WARN_MANIFEST,
                 "%s:%d is no line of a manifest: it is passed over", r->path,
                 r->number);
    cJSON_Delete(o);
    return true;
}

static bool read_lines(struct reading *r, struct diag *d)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n = 0;
    bool ok = true;
    FILE *f = fopen(r->path, "re");
    if (!f)
        return diag_set(d, FACC_ERR_IO, stage_name, NULL, 0, "%s: %s", r->path,
                        strerror(errno));
    while (ok && !r->stopped && (n = getline(&line, &cap, f)) > 0)
        ok = read_line(r, line, (size_t)n, d);
    if (ok && ferror(f))
        ok = diag_set(d, FACC_ERR_IO, stage_name, NULL, 0, "%s: %s", r->path,
                      strerror(errno));
    if (ok && r->number > 0 && r->good == 0)
        ok =
            diag_set(d, FACC_ERR_IO, stage_name, NULL, 0,
                     "%s is no manifest: none of its lines is of one", r->path);
    free(line);
    fclose(f);
    return ok;
}

static facc_status read_manifest(struct reading *r, facc_error *err)
{
    struct diag d;
    diag_init(&d);
    bool ok = read_lines(r, &d);
    free(r->seen.list);
    return ok ? FACC_OK : error_report(err, &d, NULL, NULL);
}

facc_status facc_manifest_read(facc_ctx *ctx, const char *path,
                               int (*entry)(void *user,
                                            const facc_manifest_entry *e),
                               void *user, facc_error *err)
{
    if (!ctx || !path || !entry)
        return error_null(err, !ctx ? "ctx" : !path ? "path" : "entry");
    struct reading r = {.ctx = ctx, .path = path, .entry = entry, .user = user};
    return read_manifest(&r, err);
}

facc_status facc_manifest_read_quantizers(
    facc_ctx *ctx, const char *path,
    int (*quantizer)(void *user, const facc_quantize_variant *v), void *user,
    facc_error *err)
{
    if (!ctx || !path || !quantizer)
        return error_null(err, !ctx ? "ctx" : !path ? "path" : "quantizer");
    struct reading r = {
        .ctx = ctx, .path = path, .quantizer = quantizer, .user = user};
    return read_manifest(&r, err);
}

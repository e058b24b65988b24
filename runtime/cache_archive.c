/* Entries to and from one file: a tar archive (ustar) of v1/ab/KEY/…, so that
 * it may as well be unpacked into a directory that is then a read-only layer.
 * Everything that is read is verified before it is published. For
 * facc_cache_export and facc_cache_import at the end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cache_entry.h"
#include "runtime/context.h"
#include "runtime/error.h"
#include "runtime/facc.h"

enum { BLOCK = 512, NAME_SIZE = 100 };

/* The header of a file in the archive: numbers are octal text. */
struct tar_header {
    char name[NAME_SIZE];
    char mode[8], uid[8], gid[8];
    char size[12], mtime[12];
    char sum[8];
    char type;
    char link[100];
    char magic[8];
    char rest[247];
};
_Static_assert(sizeof(struct tar_header) == BLOCK, "a block");

static unsigned checksum(const struct tar_header *h)
{
    struct tar_header copy = *h;
    const unsigned char *byte = (const unsigned char *)&copy;
    unsigned sum = 0;
    memset(copy.sum, ' ', sizeof copy.sum);
    for (size_t i = 0; i < BLOCK; i++)
        sum += byte[i];
    return sum;
}

static size_t padding(size_t size)
{
    return (BLOCK - size % BLOCK) % BLOCK;
}

static bool file_error(struct diag *d, const char *path, const char *what)
{
    return diag_set(d, FACC_ERR_IO, "cache", NULL, 0, "%s: %s", path, what);
}

/* ---- writing ---------------------------------------------------------- */

/* The same entries give the same bytes: no times, no names of users. */
static void make_header(struct tar_header *h, const char *key, int file,
                        size_t size)
{
    memset(h, 0, sizeof *h);
    snprintf(h->name, sizeof h->name, "%s/%.2s/%s/%s", CACHE_SCHEMA, key, key,
             entry_file_name[file]);
    snprintf(h->mode, sizeof h->mode, "%07o", 0644u);
    snprintf(h->uid, sizeof h->uid, "%07o", 0u);
    snprintf(h->gid, sizeof h->gid, "%07o", 0u);
    snprintf(h->size, sizeof h->size, "%011o", (unsigned)size);
    snprintf(h->mtime, sizeof h->mtime, "%011o", 0u);
    h->type = '0';
    memcpy(h->magic, "ustar\00000", 8);
    snprintf(h->sum, sizeof h->sum, "%06o", checksum(h));
    h->sum[7] = ' ';
}

static bool put_entry(FILE *f, const char *key,
                      const struct entry_file e[ENTRY_FILES])
{
    static const char zeros[BLOCK];
    bool ok = true;
    for (int i = 0; i < ENTRY_FILES && ok; i++) {
        struct tar_header h;
        const size_t pad = padding(e[i].size);
        make_header(&h, key, i, e[i].size);
        ok = fwrite(&h, sizeof h, 1, f) == 1 &&
             fwrite(e[i].data, 1, e[i].size, f) == e[i].size &&
             fwrite(zeros, 1, pad, f) == pad;
    }
    return ok;
}

struct exporting {
    const struct cache *cache;
    int layer;
    FILE *f;
    char (*done)[33]; /* keys that an earlier layer had */
    size_t n, cap;
    bool failed, nomem;
};

static bool is_done(const struct exporting *x, const char *key)
{
    for (size_t i = 0; i < x->n; i++)
        if (strcmp(x->done[i], key) == 0)
            return true;
    return false;
}

static bool note_done(struct exporting *x, const char *key)
{
    if (x->n == x->cap) {
        size_t cap = x->cap ? x->cap * 2 : 64;
        void *p = realloc(x->done, cap * sizeof *x->done);
        if (!p)
            return false;
        x->done = p;
        x->cap = cap;
    }
    snprintf(x->done[x->n++], sizeof *x->done, "%s", key);
    return true;
}

static int export_one(void *user, const struct cache_listing *l)
{
    struct exporting *x = user;
    struct entry_file e[ENTRY_FILES];
    struct cache_meta meta;
    char why[ENTRY_WHY];
    if (!l->valid || is_done(x, l->key))
        return 0;
    enum entry_state s =
        entry_load(x->cache->dirs[x->layer], l->key, e, &meta, why);
    x->nomem = s == ENTRY_NOMEM;
    if (s != ENTRY_OK) /* else it went meanwhile */
        return x->nomem;
    x->failed = !put_entry(x->f, l->key, e);
    x->nomem = !note_done(x, l->key);
    entry_files_free(e);
    return x->failed || x->nomem;
}

static bool write_archive(struct exporting *x, const char *path, struct diag *d)
{
    static const char end[2 * BLOCK];
    bool ok = true;
    for (x->layer = 0; ok && x->layer < x->cache->n_dirs; x->layer++) {
        ok = cache_each(x->cache, x->layer, export_one, x, d);
        if (x->nomem)
            ok = diag_nomem(d, "cache");
        else if (x->failed)
            ok = file_error(d, path, strerror(errno));
    }
    if (ok && (fwrite(end, sizeof end, 1, x->f) != 1 || fflush(x->f) != 0 ||
               fsync(fileno(x->f)) != 0))
        ok = file_error(d, path, strerror(errno));
    return ok;
}

/* Under another name until it is whole. */
static bool export_to(const struct cache *c, const char *path, int64_t *count,
                      struct diag *d)
{
    char *temp = NULL;
    struct exporting x = {.cache = c};
    if (asprintf(&temp, "%s.%ld.tmp", path, (long)getpid()) < 0)
        return diag_nomem(d, "cache");
    x.f = fopen(temp, "wbx");
    bool ok = x.f || file_error(d, path, strerror(errno));
    ok = ok && write_archive(&x, path, d);
    if (x.f && fclose(x.f) != 0 && ok)
        ok = file_error(d, path, strerror(errno));
    if (ok && rename(temp, path) != 0)
        ok = file_error(d, path, strerror(errno));
    if (!ok && x.f)
        (void)unlink(temp);
    *count = (int64_t)x.n;
    free(x.done);
    free(temp);
    return ok;
}

/* ---- reading ---------------------------------------------------------- */

struct importing {
    const struct cache *cache;
    const char *path;
    FILE *f;
    char key[33]; /* of the entry whose files are being read; "" none */
    struct entry_file file[ENTRY_FILES];
    int64_t added, present, refused;
    struct diag *d;
};

static bool read_octal(const char *s, size_t n, size_t *out)
{
    size_t v = 0, i = 0;
    while (i < n && s[i] == ' ')
        i++;
    for (; i < n && s[i] != '\0' && s[i] != ' '; i++) {
        if (s[i] < '0' || s[i] > '7' || v > SIZE_MAX / 16)
            return false;
        v = v * 8 + (size_t)(s[i] - '0');
    }
    *out = v;
    return true;
}

/* v1/ab/KEY/NAME, maybe behind "./": the key, and which file. */
static bool parse_name(const char *name, char key[33], int *file)
{
    if (strncmp(name, "./", 2) == 0)
        name += 2;
    const size_t head = sizeof CACHE_SCHEMA - 1 + 1; /* "v1/" */
    if (strncmp(name, CACHE_SCHEMA "/", head) != 0 ||
        strnlen(name, head + 3 + 33) < head + 3 + 33)
        return false;
    memcpy(key, name + head + 3, 32);
    key[32] = '\0';
    if (!entry_is_key(key) || memcmp(name + head, key, 2) != 0 ||
        name[head + 2] != '/' || name[head + 3 + 32] != '/')
        return false;
    for (*file = 0; *file < ENTRY_FILES; (*file)++)
        if (strcmp(name + head + 3 + 33, entry_file_name[*file]) == 0)
            return true;
    return false;
}

static bool publish(struct importing *m, const struct cache_meta *meta)
{
    const struct entry_file *unit = &m->file[ENTRY_UNIT];
    const struct cache_item item = {.cubin = m->file[ENTRY_CUBIN].data,
                                    .cubin_size = m->file[ENTRY_CUBIN].size,
                                    .meta = *meta};
    bool ok = entry_publish(m->cache->dirs[0], m->key, unit->data, unit->size,
                            &item, m->d);
    m->added += ok;
    return ok;
}

/* What is there already stays, unless it is damaged. */
static bool import_entry(struct importing *m)
{
    struct cache_meta meta;
    char why[ENTRY_WHY];
    const char *dir = m->cache->dirs[0];
    for (int i = 0; i < ENTRY_FILES; i++)
        if (!m->file[i].data) {
            m->refused++;
            return true;
        }
    enum entry_state s = entry_verify(m->file, m->key, NULL, 0, &meta, why);
    if (s == ENTRY_NOMEM)
        return diag_nomem(m->d, "cache");
    if (s != ENTRY_OK) {
        m->refused++;
        return true;
    }
    s = entry_read(dir, m->key, NULL, 0, false, NULL, why);
    if (s == ENTRY_OK) {
        m->present++;
        return true;
    }
    if (s == ENTRY_NOMEM)
        return diag_nomem(m->d, "cache");
    if (s != ENTRY_ABSENT)
        (void)entry_retire(dir, m->key, false);
    return publish(m, &meta);
}

static bool end_entry(struct importing *m)
{
    bool ok = m->key[0] == '\0' || import_entry(m);
    m->key[0] = '\0';
    entry_files_free(m->file);
    return ok;
}

static bool cut_short(struct importing *m)
{
    return file_error(m->d, m->path,
                      ferror(m->f) ? strerror(errno)
                                   : "the archive is cut short");
}

static bool skip(struct importing *m, size_t n)
{
    char block[BLOCK];
    for (; n >= BLOCK; n -= BLOCK)
        if (fread(block, BLOCK, 1, m->f) != 1)
            return cut_short(m);
    return n == 0 || fread(block, n, 1, m->f) == 1 || cut_short(m);
}

static bool read_data(struct importing *m, int file, size_t size)
{
    struct entry_file *to = &m->file[file];
    free(to->data); /* the last one of a name counts, as for tar */
    to->size = 0;
    to->data = malloc(size + 1);
    if (!to->data)
        return diag_nomem(m->d, "cache");
    to->data[size] = '\0';
    if (fread(to->data, 1, size, m->f) != size)
        return cut_short(m);
    to->size = size;
    return skip(m, padding(size));
}

static bool read_member(struct importing *m, const struct tar_header *h)
{
    char name[NAME_SIZE + 1], key[33];
    int file;
    size_t size, sum;
    memcpy(name, h->name, NAME_SIZE);
    name[NAME_SIZE] = '\0';
    if (!read_octal(h->sum, sizeof h->sum, &sum) || sum != checksum(h) ||
        !read_octal(h->size, sizeof h->size, &size))
        return file_error(m->d, m->path, "it is no tar archive, or damaged");
    const bool plain = h->type == '0' || h->type == '\0';
    if (!plain || size > ENTRY_MAX_FILE || !parse_name(name, key, &file))
        return skip(m, size + padding(size)); /* not a file of the cache */
    if (strcmp(key, m->key) != 0) {
        if (!end_entry(m))
            return false;
        memcpy(m->key, key, sizeof key);
    }
    return read_data(m, file, size);
}

static bool read_archive(struct importing *m)
{
    static const struct tar_header none;
    struct tar_header h;
    for (;;) {
        size_t n = fread(&h, 1, sizeof h, m->f);
        if (n == 0 && !ferror(m->f)) /* some leave the empty blocks out */
            break;
        if (n != sizeof h)
            return cut_short(m);
        if (memcmp(&h, &none, sizeof h) == 0)
            break;
        if (!read_member(m, &h))
            return false;
    }
    return end_entry(m);
}

static bool import_from(struct importing *m)
{
    if (!cache_can_write(m->cache))
        return diag_set(m->d, FACC_ERR_IO, "cache", NULL, 0,
                        "there is no cache directory to import into: set "
                        "FACC_CACHE_DIR to one that can be written");
    m->f = fopen(m->path, "rb");
    if (!m->f)
        return file_error(m->d, m->path, strerror(errno));
    bool ok = read_archive(m);
    entry_files_free(m->file);
    (void)fclose(m->f);
    return ok;
}

/* ---- public ------------------------------------------------------------ */

facc_status facc_cache_export(facc_ctx *ctx, const char *path, int64_t *count,
                              facc_error *err)
{
    struct diag d;
    int64_t n = 0;
    diag_init(&d);
    if (!ctx || !path)
        return error_null(err, ctx ? "path" : "ctx");
    bool ok = export_to(ctx->cache, path, &n, &d);
    if (count)
        *count = n;
    return ok ? FACC_OK : error_report(err, &d, NULL, NULL);
}

facc_status facc_cache_import(facc_ctx *ctx, const char *path, int64_t *added,
                              int64_t *present, int64_t *refused,
                              facc_error *err)
{
    struct diag d;
    diag_init(&d);
    if (!ctx || !path)
        return error_null(err, ctx ? "path" : "ctx");
    struct importing m = {.cache = ctx->cache, .path = path, .d = &d};
    bool ok = import_from(&m);
    if (added)
        *added = m.added;
    if (present)
        *present = m.present;
    if (refused)
        *refused = m.refused;
    return ok ? FACC_OK : error_report(err, &d, NULL, NULL);
}

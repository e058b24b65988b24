/* What makes the files of an entry one: meta.json, written and read; sizes,
 * digests and the key, verified. In and out: bytes in memory. Called by
 * cache_entry.c and cache_archive.c. */
#include "runtime/cache_meta.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/support/hash.h"
#include "runtime/facc.h"

const char *const entry_file_name[ENTRY_FILES] = {"kernel.cubin", "unit.txt",
                                                  "meta.json"};

bool entry_is_elf(const void *cubin, size_t size)
{
    return size >= 4 && memcmp(cubin, "\177ELF", 4) == 0;
}

static bool digest(const void *data, size_t size, char hex[33])
{
    struct hash_stream *s = hash_stream_new();
    if (!s)
        return false;
    hash_stream_field(s, data, size);
    hash128_hex(hash_stream_end(s), hex);
    return true;
}

static bool take_string(const cJSON *o, const char *name, char *to, size_t size)
{
    const char *s =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
    if (!s || strlen(s) >= size)
        return false;
    memcpy(to, s, strlen(s) + 1);
    return true;
}

static bool take_number(const cJSON *o, const char *name, double *to)
{
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, name);
    if (!cJSON_IsNumber(n) || !(n->valuedouble >= -1e15) ||
        !(n->valuedouble <= 1e15))
        return false;
    *to = n->valuedouble;
    return true;
}

/* Expected digest and size of one file, as meta.json has them. */
static bool take_file(const cJSON *meta, const char *name, char hex[33],
                      double *size)
{
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(meta, "files");
    const cJSON *f = cJSON_GetObjectItemCaseSensitive(files, name);
    return take_string(f, "xxh128", hex, 33) && take_number(f, "bytes", size);
}

/* meta.json is {"seal":"<32 digits>","meta":<body>}: the seal is the digest of
 * the body's bytes, so a changed byte is noticed as one in the cubin is, and
 * what holds the seal parses unless memory is out. */
static const char seal_head[] = "{\"seal\":\"";
static const char meta_head[] = "\",\"meta\":";
enum {
    SEAL_AT = sizeof seal_head - 1,
    META_AT = SEAL_AT + 32,
    BODY_AT = META_AT + sizeof meta_head - 1
};

/* *n bytes of body, if it is as it was written. */
static enum entry_state sealed_body(const struct entry_file *f,
                                    const char **body, size_t *n)
{
    char hex[33];
    if (f->size < BODY_AT + 1 || f->data[f->size - 1] != '}' ||
        memcmp(f->data, seal_head, SEAL_AT) != 0 ||
        memcmp(f->data + META_AT, meta_head, BODY_AT - META_AT) != 0)
        return ENTRY_BAD;
    *body = f->data + BODY_AT;
    *n = f->size - BODY_AT - 1;
    if (!digest(*body, *n, hex))
        return ENTRY_NOMEM;
    return memcmp(f->data + SEAL_AT, hex, 32) == 0 ? ENTRY_OK : ENTRY_BAD;
}

struct expected { /* of meta.json */
    struct cache_meta meta;
    char cubin[33], unit[33];
    double cubin_size, unit_size;
};

static enum entry_state parse_meta(const struct entry_file *f,
                                   struct expected *e)
{
    double registers, spill, us;
    const char *body;
    size_t n;
    enum entry_state s = sealed_body(f, &body, &n);
    if (s != ENTRY_OK)
        return s;
    cJSON *m = cJSON_ParseWithLength(body, n);
    if (!m)
        return ENTRY_NOMEM;
    bool ok =
        take_string(m, "compiler", e->meta.compiler, sizeof e->meta.compiler) &&
        take_string(m, "summary", e->meta.summary, sizeof e->meta.summary) &&
        take_number(m, "registers", &registers) &&
        take_number(m, "spill_bytes", &spill) &&
        take_number(m, "compile_us", &us) &&
        take_file(m, entry_file_name[ENTRY_CUBIN], e->cubin, &e->cubin_size) &&
        take_file(m, entry_file_name[ENTRY_UNIT], e->unit, &e->unit_size);
    if (ok) {
        e->meta.registers = (int)registers;
        e->meta.spill_bytes = (int)spill;
        e->meta.compile_us = (int64_t)us;
    }
    cJSON_Delete(m);
    return ok ? ENTRY_OK : ENTRY_BAD;
}

/* ---- writing ---------------------------------------------------------- */

static bool add_file(cJSON *files, const char *name, const void *data,
                     size_t size)
{
    char hex[33];
    cJSON *f = cJSON_AddObjectToObject(files, name);
    return f && digest(data, size, hex) &&
           cJSON_AddNumberToObject(f, "bytes", (double)size) &&
           cJSON_AddStringToObject(f, "xxh128", hex);
}

static bool add_facts(cJSON *o, const char *key, const char *text, size_t size,
                      const struct cache_item *item)
{
    const struct cache_meta *m = &item->meta;
    cJSON *files;
    return cJSON_AddStringToObject(o, "facc", FACC_VERSION) &&
           cJSON_AddStringToObject(o, "key", key) &&
           cJSON_AddStringToObject(o, "summary", m->summary) &&
           cJSON_AddStringToObject(o, "compiler", m->compiler) &&
           cJSON_AddNumberToObject(o, "registers", m->registers) &&
           cJSON_AddNumberToObject(o, "spill_bytes", m->spill_bytes) &&
           cJSON_AddNumberToObject(o, "compile_us", (double)m->compile_us) &&
           (files = cJSON_AddObjectToObject(o, "files")) != NULL &&
           add_file(files, entry_file_name[ENTRY_CUBIN], item->cubin,
                    item->cubin_size) &&
           add_file(files, entry_file_name[ENTRY_UNIT], text, size);
}

/* NULL when memory is out; free(). */
char *entry_print_meta(const char *key, const char *text, size_t size,
                       const struct cache_item *item)
{
    char hex[33], *whole = NULL;
    cJSON *o = cJSON_CreateObject();
    char *body =
        o && add_facts(o, key, text, size, item) ? cJSON_Print(o) : NULL;
    if (body && digest(body, strlen(body), hex) &&
        asprintf(&whole, "%s%s%s%s}", seal_head, hex, meta_head, body) < 0)
        whole = NULL;
    cJSON_free(body);
    cJSON_Delete(o);
    return whole;
}

/* ---- verifying -------------------------------------------------------- */

static enum entry_state verify_file(const struct entry_file *f,
                                    const char *name, const char *want,
                                    double want_size, char *why)
{
    char have[33];
    if ((double)f->size != want_size) {
        snprintf(why, ENTRY_WHY, "%s has %zu bytes, expected %.0f", name,
                 f->size, want_size);
        return ENTRY_BAD;
    }
    if (!digest(f->data, f->size, have))
        return ENTRY_NOMEM;
    if (strcmp(have, want) == 0)
        return ENTRY_OK;
    snprintf(why, ENTRY_WHY, "the digest of %s differs", name);
    return ENTRY_BAD;
}

/* The unit must be the one that the key was made of; and `text`, unless that is
 * NULL: else two units have one digest. */
static enum entry_state verify_unit(const struct entry_file *unit,
                                    const char *key, const char *text,
                                    size_t size, char *why)
{
    char hex[33];
    if (text && unit->size == size && memcmp(unit->data, text, size) == 0)
        return ENTRY_OK;
    if (!digest(unit->data, unit->size, hex))
        return ENTRY_NOMEM;
    if (strcmp(hex, key) == 0)
        return text ? ENTRY_OTHER : ENTRY_OK;
    snprintf(why, ENTRY_WHY, "it is the entry of another key, %s", hex);
    return ENTRY_BAD;
}

enum entry_state entry_verify(const struct entry_file f[ENTRY_FILES],
                              const char *key, const char *text, size_t size,
                              struct cache_meta *meta, char *why)
{
    struct expected e;
    memset(&e, 0, sizeof e);
    snprintf(why, ENTRY_WHY, "%s is damaged", entry_file_name[ENTRY_META]);
    enum entry_state s = parse_meta(&f[ENTRY_META], &e);
    if (s == ENTRY_OK)
        s = verify_file(&f[ENTRY_UNIT], entry_file_name[ENTRY_UNIT], e.unit,
                        e.unit_size, why);
    if (s == ENTRY_OK)
        s = verify_unit(&f[ENTRY_UNIT], key, text, size, why);
    if (s == ENTRY_OK)
        s = verify_file(&f[ENTRY_CUBIN], entry_file_name[ENTRY_CUBIN], e.cubin,
                        e.cubin_size, why);
    if (s == ENTRY_OK &&
        !entry_is_elf(f[ENTRY_CUBIN].data, f[ENTRY_CUBIN].size)) {
        s = ENTRY_BAD;
        snprintf(why, ENTRY_WHY, "%s is no ELF file",
                 entry_file_name[ENTRY_CUBIN]);
    }
    if (s == ENTRY_OK)
        *meta = e.meta;
    return s;
}

enum entry_state entry_verify_unit(const struct entry_file *unit,
                                   const char *key, char *why)
{
    return verify_unit(unit, key, NULL, 0, why);
}

bool entry_read_meta(const struct entry_file *f, struct cache_meta *meta)
{
    struct expected e;
    memset(&e, 0, sizeof e);
    if (parse_meta(f, &e) != ENTRY_OK)
        return false;
    *meta = e.meta;
    return true;
}

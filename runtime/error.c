/* A failed diag in, the caller's facc_error out: message with file and line,
 * the quoted source line, the log. Every public function ends here when it
 * fails, and begins with versioned_read. */
#include "runtime/error.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

_Static_assert(FACC_ERR_ARGUMENT == (int)DIAG_ARGUMENT, "statuses");
_Static_assert(FACC_ERR_SCRIPT == (int)DIAG_SCRIPT, "statuses");
_Static_assert(FACC_ERR_UNSUPPORTED == (int)DIAG_UNSUPPORTED, "statuses");
_Static_assert(FACC_ERR_MEMORY == (int)DIAG_MEMORY, "statuses");
_Static_assert(FACC_ERR_IO == (int)DIAG_IO, "statuses");
_Static_assert(FACC_ERR_BOUNDS == (int)DIAG_BOUNDS, "statuses");
_Static_assert(FACC_ERR_INTERNAL == (int)DIAG_INTERNAL, "statuses");

/* Text that is cut off at the end of a fixed buffer. */
struct text {
    char *to;
    size_t size, len;
};

static void add(struct text *t, const char *s, size_t n)
{
    size_t room = t->size - 1 - t->len;
    if (n > room)
        n = room;
    memcpy(t->to + t->len, s, n);
    t->len += n;
    t->to[t->len] = '\0';
}

/* The line-th line of source, without its newline. */
static const char *source_line(const char *source, int line, size_t *n)
{
    const char *s = source;
    for (int i = 1; i < line; i++) {
        s = strchr(s, '\n');
        if (!s)
            return NULL;
        s++;
    }
    *n = strcspn(s, "\r\n");
    return s;
}

static void add_source(struct text *t, const char *source, int line)
{
    size_t n;
    const char *s = source_line(source, line, &n);
    if (!s || n == 0)
        return;
    char number[32];
    int k = snprintf(number, sizeof number, "\n%5d | ", line);
    add(t, number, (size_t)k);
    add(t, s, n);
}

static void fill(facc_error *e, const struct diag *d, const char *source,
                 const char *log)
{
    /* A Lua traceback belongs into the log: the message stays readable. */
    static const char traceback[] = "\nstack traceback:";
    const char *trace = strstr(d->message, traceback);
    size_t n = trace ? (size_t)(trace - d->message) : strlen(d->message);
    struct text m = {e->message, sizeof e->message, 0};

    memset(e, 0, sizeof *e);
    e->struct_size = sizeof *e;
    e->status = d->status;
    e->line = d->line;
    memcpy(e->stage, d->stage, sizeof e->stage);
    memcpy(e->file, d->file, sizeof e->file);
    e->stage[sizeof e->stage - 1] = e->file[sizeof e->file - 1] = '\0';
    if (d->file[0]) {
        char at[300];
        int k = d->line > 0 ? snprintf(at, sizeof at, "%s:%d: error: ", d->file,
                                       d->line)
                            : snprintf(at, sizeof at, "%s: error: ", d->file);
        add(&m, at, (size_t)k);
    }
    add(&m, d->message, n);
    if (source && d->line > 0)
        add_source(&m, source, d->line);
    struct text l = {e->log, sizeof e->log, 0};
    if (trace)
        add(&l, trace + 1, strlen(trace + 1));
    else if (log)
        add(&l, log, strlen(log));
}

facc_status error_report(facc_error *err, const struct diag *d,
                         const char *source, const char *log)
{
    if (!err || err->struct_size < sizeof err->struct_size)
        return d->status;
    if (err->struct_size >= sizeof *err) {
        size_t size = err->struct_size;
        fill(err, d, source, log);
        err->struct_size = size;
        return d->status;
    }
    facc_error whole;
    fill(&whole, d, source, log);
    whole.struct_size = err->struct_size;
    memcpy(err, &whole, err->struct_size);
    return d->status;
}

facc_status error_null(facc_error *err, const char *what)
{
    struct diag d;
    diag_init(&d);
    diag_set(&d, FACC_ERR_ARGUMENT, "api", NULL, 0, "%s is NULL", what);
    return error_report(err, &d, NULL, NULL);
}

bool reserved_is_zero(int32_t value, const char *what, struct diag *d)
{
    return value == 0 ||
           diag_set(d, FACC_ERR_UNSUPPORTED, "api", NULL, 0,
                    "%s is %d, which facc %s does not know: update libfacc or "
                    "leave the field zero",
                    what, value, FACC_VERSION);
}

/* Sizes of structs that begin with a size_t are multiples of its own. */
static bool possible_size(size_t n)
{
    return n >= sizeof n && n % sizeof n == 0;
}

bool versioned_read(void *dst, size_t size, const void *src, const char *what,
                    struct diag *d)
{
    if (!src)
        return diag_set(d, FACC_ERR_ARGUMENT, "api", NULL, 0, "%s is NULL",
                        what);
    size_t n;
    memcpy(&n, src, sizeof n);
    if (!possible_size(n) || n > 1u << 20)
        return diag_set(d, FACC_ERR_ARGUMENT, "api", NULL, 0,
                        "%s.struct_size is %zu: initialise the struct with "
                        "its _INIT macro",
                        what, n);
    memset(dst, 0, size);
    memcpy(dst, src, n < size ? n : size);
    const unsigned char *tail = src;
    for (size_t i = size; i < n; i++)
        if (tail[i])
            return diag_set(d, FACC_ERR_UNSUPPORTED, "api", NULL, 0,
                            "%s uses a field that facc %s does not know: "
                            "update libfacc or leave the field zero",
                            what, FACC_VERSION);
    return true;
}

bool versioned_write(void *dst, const void *src, size_t size)
{
    size_t n;
    if (!dst)
        return false;
    memcpy(&n, dst, sizeof n);
    if (!possible_size(n))
        return false;
    size_t body = (n < size ? n : size) - sizeof n;
    memcpy((char *)dst + sizeof n, (const char *)src + sizeof n, body);
    return true;
}

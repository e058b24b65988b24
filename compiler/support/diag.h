/* Diagnostics of one call: the first error wins and stays. Only facts; the
 * runtime copies them into the caller's facc_error. */
#ifndef FACC_DIAG_H
#define FACC_DIAG_H

#include <stdarg.h>
#include <stdbool.h>

/* Same values as facc_status (runtime/error.c asserts that). */
enum diag_status {
    DIAG_OK = 0,
    DIAG_ARGUMENT = -1,
    DIAG_SCRIPT = -2,
    DIAG_UNSUPPORTED = -3,
    DIAG_MEMORY = -4,
    DIAG_IO = -5,
    DIAG_BOUNDS = -11,
    DIAG_INTERNAL = -14
};

struct diag {
    int status;         /* enum diag_status */
    char stage[24];     /* "load", "trace", "emit", "cpu", … */
    char file[256];     /* user's file, "" when none */
    int line;           /* 1-based, 0 when none */
    char message[2048]; /* one line first, details after newlines */
};

void diag_init(struct diag *d);
/* Records the first error; returns false, so `return diag_set(…)` reads
 * well. file may be NULL, line 0. d may be NULL. */
bool diag_set(struct diag *d, int status, const char *stage, const char *file,
              int line, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
bool diag_setv(struct diag *d, int status, const char *stage, const char *file,
               int line, const char *fmt, va_list ap);
/* Records "out of memory" for a stage. */
bool diag_nomem(struct diag *d, const char *stage);
static inline bool diag_failed(const struct diag *d)
{
    return d->status != DIAG_OK;
}

#endif

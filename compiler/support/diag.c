/* Records the first error of a call. In: status, stage, place, text; out: a
 * struct diag that the runtime copies into the caller's facc_error. */
#include "compiler/support/diag.h"

#include <stdio.h>

void diag_init(struct diag *d)
{
    *d = (struct diag){.status = DIAG_OK};
}

bool diag_setv(struct diag *d, int status, const char *stage, const char *file,
               int line, const char *fmt, va_list ap)
{
    if (!d || diag_failed(d))
        return false;
    d->status = status;
    d->line = line;
    snprintf(d->stage, sizeof d->stage, "%s", stage);
    snprintf(d->file, sizeof d->file, "%s", file ? file : "");
    vsnprintf(d->message, sizeof d->message, fmt, ap);
    return false;
}

bool diag_set(struct diag *d, int status, const char *stage, const char *file,
              int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_setv(d, status, stage, file, line, fmt, ap);
    va_end(ap);
    return false;
}

bool diag_nomem(struct diag *d, const char *stage)
{
    return diag_set(d, DIAG_MEMORY, stage, NULL, 0, "out of memory");
}

/* From the compiler's diag to the caller's facc_error, and the checks of
 * versioned structs that every public function begins with. */
#ifndef FACC_ERROR_H
#define FACC_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler/support/diag.h"
#include "runtime/facc.h"

/* Copies a failed diag into *err (may be NULL) and returns its status.
 * `source`, the user's whole text or NULL, gives the line that is quoted
 * below the message; `log` may be NULL. */
facc_status error_report(facc_error *err, const struct diag *d,
                         const char *source, const char *log);

/* For a pointer that must not be NULL: fills *err, gives FACC_ERR_ARGUMENT. */
facc_status error_null(facc_error *err, const char *what);
/* For a reserved field: false, with *d filled, unless it is 0. A later facc.h
 * may give it a meaning that this library must not ignore. */
bool reserved_is_zero(int32_t value, const char *what, struct diag *d);

/* Reads a caller's versioned struct of `what` into a zeroed *dst of `size`
 * bytes. False, with *d filled, when struct_size is not set or when the
 * caller's struct is newer and uses fields unknown here. */
bool versioned_read(void *dst, size_t size, const void *src, const char *what,
                    struct diag *d);
/* Writes *src (its struct_size first) to a caller's struct, as much as fits.
 * False when the caller did not set struct_size. */
bool versioned_write(void *dst, const void *src, size_t size);

#endif

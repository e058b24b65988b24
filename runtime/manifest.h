/* The list of kernels that were asked for, kept in a file: a line of JSON for
 * each program and variant, and for each quantizer. Recorded where
 * facc_options.manifest or $FACC_MANIFEST names one; read by facc_manifest_read
 * and facc_manifest_read_quantizers. */
#ifndef FACC_MANIFEST_H
#define FACC_MANIFEST_H

#include "runtime/context.h"

struct manifest;

/* Touches no file. NULL when memory is out. */
struct manifest *manifest_new(const char *path);
void manifest_free(struct manifest *m); /* NULL is fine */

/* Appends the line, unless it is there; arch is the variant's, resolved. What
 * goes wrong is a warning. ctx->manifest NULL: nothing. */
void manifest_record(facc_ctx *ctx, const facc_program *p,
                     const facc_variant *variant, int arch);
void manifest_record_quantizer(facc_ctx *ctx, facc_quantize_variant v,
                               int arch);

#endif

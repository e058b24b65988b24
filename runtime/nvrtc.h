/* NVRTC, opened at run time and only when something must be compiled. */
#ifndef FACC_NVRTC_H
#define FACC_NVRTC_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler/emit/emit.h"
#include "compiler/support/diag.h"

struct nvrtc; /* opaque */

/* where: a library file or its folder, or NULL for the usual places (the
 * loader's path, the toolkit, wheels beside libfacc). NULL: *d has
 * FACC_ERR_NO_NVRTC with the places tried and the way out. */
struct nvrtc *nvrtc_open(const char *where, struct diag *d);
void nvrtc_close(struct nvrtc *n);        /* NULL is fine */
int nvrtc_version(const struct nvrtc *n); /* major * 1000 + minor * 10 */
const char *nvrtc_path(const struct nvrtc *n);

/* What decides the machine code besides the unit. */
struct nvrtc_target {
    int arch; /* 90: sm_90 */
    bool own; /* sm_90a: with what that architecture alone has */
    bool lineinfo;
};
enum { NVRTC_MAX_OPTIONS = 6, NVRTC_OPTION_SIZE = 32 };
struct nvrtc_options {
    int n;
    char text[NVRTC_MAX_OPTIONS][NVRTC_OPTION_SIZE];
};
/* The options that belong into a cache key. */
void nvrtc_options(const struct nvrtc_target *t, struct nvrtc_options *out);

struct nvrtc_build {
    void *image;     /* cubin or NUL-terminated PTX; owned */
    size_t size;     /* bytes; of PTX without the NUL */
    char *log;       /* owned, may be NULL */
    int registers;   /* of facc_forward; -1 not known */
    int spill_bytes; /* stores + loads of it and what it calls */
    bool serialized; /* a C75xx performance message was given */
    double seconds;
    char compiler[48]; /* "NVRTC 13.0.88" */
};
/* False: *d has FACC_ERR_COMPILE (build->log has NVRTC's log), … In both
 * cases nvrtc_build_free. */
bool nvrtc_compile(struct nvrtc *n, const struct cuda_unit *unit,
                   const struct nvrtc_target *t, bool ptx,
                   struct nvrtc_build *build, struct diag *d);
void nvrtc_build_free(struct nvrtc_build *build);
/* Fills registers, spill_bytes and serialized from a ptxas -v log. */
void nvrtc_parse_log(const char *log, struct nvrtc_build *build);

#endif

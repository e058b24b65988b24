/* Between the parts of module.c: one request for a plan's machine code. */
#ifndef FACC_MODULE_PARTS_H
#define FACC_MODULE_PARTS_H

#include "runtime/module.h"

struct request {
    facc_ctx *ctx;
    const facc_program *program;
    const struct plan *plan;
    struct cuda_unit unit;
    struct nvrtc_target target;
    struct strbuf text;
    char key[33];
    struct module_origin *origin;
    struct diag *d;
};

/* module_unit.c. unit.txt: everything that decides the cubin, each text with
 * its length. NVRTC's version is not in it: a hit needs no NVRTC. False when
 * memory is out. */
bool module_unit_text(const struct cuda_unit *u, const struct nvrtc_target *t,
                      struct strbuf *b);
/* The variant and the program in a few words. */
void module_summarise(const struct request *r, char *out, size_t size);

/* module_reread.c. The unit that such a text is of, to be compiled again; all
 * in `a`. False: another facc's, whose templates are not here; none; memory. */
bool module_reread(const facc_ctx *ctx, const char *text, size_t size,
                   struct arena *a, struct cuda_unit *u, struct nvrtc_target *t,
                   struct diag *d);

/* module_fetch.c. From the disk or NVRTC: the slow way, by one thread for a
 * key. NULL with *r->d filled. */
struct module *module_fetch(const struct request *r);

#endif

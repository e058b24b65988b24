/* From unit.txt of a cache entry back to a unit: what was generated is in it,
 * templates are this facc's, if their digest is. In: the text. Out: a unit that
 * gives this text again, to the byte. Called by cache_rebuild.c. */
#include "runtime/module_parts.h"

#include <stdio.h>
#include <string.h>

static const char stage_name[] = "cache";

enum { MAX_GENERATED = 3 }; /* configuration, variant, products */

struct parsed {
    const char *version, *entry;
    struct cuda_header headers[MAX_GENERATED];
    int n;
    struct nvrtc_target target;
};

struct text {
    const char *at, *end;
    struct arena *arena;
    bool nomem;
};

static char *copy(struct text *t, const char *s, size_t n)
{
    char *c = arena_strndup(t->arena, s, n);
    t->nomem = t->nomem || !c;
    return c;
}

/* What follows the label on this line, and goes on to the next one. NULL: the
 * line has another label. */
static char *take_line(struct text *t, const char *label)
{
    const size_t n = strlen(label);
    const char *stop = memchr(t->at, '\n', (size_t)(t->end - t->at));
    if (!stop || (size_t)(stop - t->at) < n || memcmp(t->at, label, n) != 0)
        return NULL;
    char *rest = copy(t, t->at + n, (size_t)(stop - t->at) - n);
    t->at = stop + 1;
    return rest;
}

/* "file NAME SIZE", the text, a line's end. */
static bool take_header(struct text *t, struct cuda_header *h)
{
    size_t size;
    char *line = take_line(t, "file ");
    char *space = line ? strrchr(line, ' ') : NULL;
    if (!space || sscanf(space, "%zu", &size) != 1 ||
        size >= (size_t)(t->end - t->at))
        return false;
    *space = '\0';
    h->name = line;
    h->text = copy(t, t->at, size);
    t->at += size + 1;
    return h->text != NULL;
}

static void take_option(const char *option, struct nvrtc_target *target)
{
    char own = '\0';
    if (sscanf(option, "-arch=sm_%d%c", &target->arch, &own) >= 1)
        target->own = own == 'a';
    else if (strcmp(option, "-lineinfo") == 0)
        target->lineinfo = true;
}

static bool parse(struct text *t, struct parsed *p)
{
    const char *option;
    memset(p, 0, sizeof *p);
    if (!take_line(t, "facc unit 1"))
        return false;
    p->version = take_line(t, "version ");
    if (!take_line(t, "templates "))
        return false;
    p->entry = take_line(t, "entry ");
    while ((option = take_line(t, "option ")))
        take_option(option, &p->target);
    while (p->n < MAX_GENERATED && take_header(t, &p->headers[p->n]))
        p->n++;
    return p->version && p->entry && t->at == t->end;
}

static bool is_main(const char *name)
{
    const size_t n = strlen(name);
    return n > 3 && strcmp(name + n - 3, ".cu") == 0;
}

/* Is it, with this main file, the unit of that text? The digest of all template
 * files is in there. False, *d filled: memory is out. */
static bool fits(const facc_ctx *ctx, const struct parsed *p, const char *text,
                 size_t size, struct arena *a, struct cuda_unit *u,
                 struct diag *d)
{
    struct diag misfit;
    struct strbuf b;
    diag_init(&misfit);
    strbuf_init(&b, a);
    u->entry = p->entry;
    u->n_headers = p->n;
    u->headers = arena_alloc(a, sizeof p->headers);
    if (!u->headers)
        return diag_nomem(d, stage_name);
    memcpy(u->headers, p->headers, sizeof p->headers);
    if (!emit_rejoin(ctx->template_dir, a, &misfit, u))
        return misfit.status == DIAG_MEMORY && diag_nomem(d, stage_name);
    if (!module_unit_text(u, &p->target, &b))
        return diag_nomem(d, stage_name);
    return b.len == size && memcmp(strbuf_text(&b), text, size) == 0;
}

bool module_reread(const facc_ctx *ctx, const char *text, size_t size,
                   struct arena *a, struct cuda_unit *u, struct nvrtc_target *t,
                   struct diag *d)
{
    struct text at = {text, text + size, a, false};
    struct parsed p;
    const bool whole = parse(&at, &p);
    if (at.nomem)
        return diag_nomem(d, stage_name);
    if (p.version && strcmp(p.version, FACC_VERSION) != 0)
        return diag_set(d, FACC_ERR_UNSUPPORTED, stage_name, NULL, 0,
                        "facc %s made it, which alone can compile it again",
                        p.version);
    for (int i = 0; whole && i < n_embedded_files; i++) {
        if (!is_main(embedded_files[i].name))
            continue;
        *u = (struct cuda_unit){.main_name = embedded_files[i].name};
        *t = p.target;
        if (fits(ctx, &p, text, size, a, u, d))
            return true;
        if (diag_failed(d))
            return false;
    }
    return diag_set(d, FACC_ERR_UNSUPPORTED, stage_name, NULL, 0,
                    "another build of facc made it, with other templates, "
                    "which alone can compile it again");
}

/* From a plan to the text that decides its machine code, and to the few words
 * that name it for people. Called by module.c and module_fetch.c. */
#include "runtime/module_parts.h"

#include <stdio.h>
#include <string.h>

#include "compiler/support/hash.h"
#include "compiler/support/utf8.h"

void module_target(const facc_ctx *ctx, const struct plan *plan,
                   struct nvrtc_target *out)
{
    *out = (struct nvrtc_target){.arch = plan->arch,
                                 .own = select_is_sm90(&plan->config),
                                 .lineinfo = ctx->lineinfo};
}

bool module_unit(facc_ctx *ctx, facc_program *p,
                 const struct unit_config *config, struct arena *arena,
                 struct cuda_unit *unit, struct diag *d)
{
    if (!ctx_lock(ctx, &p->lock, d))
        return false;
    bool ok =
        compile_unit(p->compiled, config, ctx->template_dir, arena, unit, d);
    pthread_mutex_unlock(&p->lock);
    return ok;
}

static bool generated(const struct cuda_header *h)
{
    return strncmp(h->name, "facc_", 5) == 0;
}

/* The digest of all template files: they change with facc, not with the
 * user's program, so their text itself need not be kept in every entry. */
static bool template_digest(const struct cuda_unit *u, char hex[33])
{
    struct hash_stream *s = hash_stream_new();
    if (!s)
        return false;
    hash_stream_field(s, u->main_name, strlen(u->main_name));
    hash_stream_field(s, u->main_text, strlen(u->main_text));
    for (int i = 0; i < u->n_headers; i++) {
        const struct cuda_header *h = &u->headers[i];
        if (generated(h))
            continue;
        hash_stream_field(s, h->name, strlen(h->name));
        hash_stream_field(s, h->text, strlen(h->text));
    }
    hash128_hex(hash_stream_end(s), hex);
    return true;
}

/* Where the user's lines stand decides nothing unless the cubin carries a line
 * table. */
static bool add_generated(const struct cuda_header *h, bool lineinfo,
                          struct strbuf *b)
{
    struct strbuf body;
    strbuf_init(&body, b->arena);
    if (lineinfo)
        strbuf_add(&body, h->text);
    else if (!emit_without_lines(h->text, &body))
        return false;
    strbuf_addf(b, "file %s %zu\n", h->name, body.len);
    strbuf_addn(b, strbuf_text(&body), body.len);
    strbuf_add(b, "\n");
    return !body.failed && !b->failed;
}

bool module_unit_text(const struct cuda_unit *u, const struct nvrtc_target *t,
                      struct strbuf *b)
{
    char hex[33];
    struct nvrtc_options o;
    if (!template_digest(u, hex))
        return false;
    nvrtc_options(t, &o);
    strbuf_addf(b, "facc unit 1\nversion %s\ntemplates %s\nentry %s\n",
                FACC_VERSION, hex, u->entry);
    for (int i = 0; i < o.n; i++)
        strbuf_addf(b, "option %s\n", o.text[i]);
    for (int i = 0; i < u->n_headers; i++)
        if (generated(&u->headers[i]) &&
            !add_generated(&u->headers[i], t->lineinfo, b))
            return false;
    return !b->failed;
}

void module_summarise(const struct request *r, char *out, size_t size)
{
    const struct unit_config *c = &r->plan->config;
    const char *name = strrchr(r->program->compiled->name, '/');
    char tensors[40] = "";
    if (emit_is_transpose(c)) {
        snprintf(out, size, "transpose %d sm_%d", c->head_dim_v, r->plan->arch);
        return;
    }
    if (emit_is_quantize(c)) {
        snprintf(out, size, "quantize %s %s %d sm_%d%s%s%s",
                 dtype_name(c->dtype), dtype_name(c->out_dtype), c->head_dim,
                 r->plan->arch, c->rounding & ROUND_HADAMARD ? " hadamard" : "",
                 c->rounding & ROUND_MEAN ? " mean" : "",
                 c->rounding & ROUND_IMAGE ? " image" : "");
        return;
    }
    if (!emit_is_schedule(c))
        snprintf(tensors, sizeof tensors, " %s %d/%d", dtype_name(c->dtype),
                 c->head_dim, c->head_dim_v);
    snprintf(out, size, "%s%s sm_%d%s%s%s%s%s %.80s", c->family, tensors,
             r->plan->arch, c->packed ? " packed" : "",
             c->block_mask ? " block-mask" : "", c->sinks ? " sinks" : "",
             c->dropout ? " dropout" : "", c->exact_peaks ? " exact-peaks" : "",
             name ? name + 1 : r->program->compiled->name);
    utf8_repair(out); /* it goes into JSON; the name may be cut */
}

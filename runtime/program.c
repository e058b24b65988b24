/* facc_program_*: text (a file, a string, or two expressions) to a compiled
 * program and its signature; and the ways to look inside one. */
#include "runtime/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/context.h"
#include "runtime/error.h"
#include "runtime/module.h"

static const char stage_name[] = "load";
enum { MAX_TEXT = 16 << 20 }; /* bytes of a program */

/* ---- signature ---------------------------------------------------------- */

_Static_assert(FACC_MAX_DIMS == (int)IR_MAX_RANK, "ranks");

static const char *dim_name(enum ir_dim_kind kind)
{
    static const char *const names[] = {
        [IR_DIM_FIXED] = NULL, [IR_DIM_B] = "B", [IR_DIM_H] = "H",
        [IR_DIM_HKV] = "Hkv",  [IR_DIM_Q] = "q", [IR_DIM_KV] = "kv",
        [IR_DIM_ANY] = "any"};
    return names[kind];
}

/* One block: declarations, then their names, then the file. */
struct block {
    facc_declared *next;
    char *text;
};

static size_t block_size(const struct signature *s)
{
    size_t n = strlen(s->file) + 1;
    for (int i = 0; i < s->n_tensors; i++)
        n += sizeof *s->tensors + strlen(s->tensors[i].name) + 1;
    for (int i = 0; i < s->n_params; i++)
        n += sizeof *s->params + strlen(s->params[i].name) + 1;
    return n;
}

static const char *put(struct block *b, const char *s)
{
    size_t n = strlen(s) + 1;
    char *to = memcpy(b->text, s, n);
    b->text += n;
    return to;
}

static facc_declared *put_list(struct block *b, const facc_declared *list,
                               int n)
{
    facc_declared *to = b->next;
    for (int i = 0; i < n; i++) {
        *b->next = list[i];
        b->next->name = put(b, list[i].name);
        b->next++;
    }
    return to;
}

bool signature_copy(struct signature *out, const struct signature *s)
{
    memset(out, 0, sizeof *out);
    char *block = malloc(block_size(s));
    if (!block)
        return false;
    size_t count = (size_t)s->n_tensors + (size_t)s->n_params;
    struct block b = {(facc_declared *)(void *)block,
                      block + count * sizeof(facc_declared)};
    out->block = block;
    out->n_tensors = s->n_tensors;
    out->n_params = s->n_params;
    out->no_full_blocks = s->no_full_blocks;
    out->tensors = put_list(&b, s->tensors, s->n_tensors);
    out->params = put_list(&b, s->params, s->n_params);
    out->file = put(&b, s->file);
    return true;
}

void signature_free(struct signature *s)
{
    free(s->block);
    memset(s, 0, sizeof *s);
}

static void declare_tensor(facc_declared *to, const struct ir_tensor *t)
{
    memset(to, 0, sizeof *to);
    to->name = t->name;
    to->dtype = (facc_dtype)t->dtype;
    to->rank = t->rank;
    for (int i = 0; i < t->rank; i++) {
        to->dim_names[i] = dim_name(t->dim[i].kind);
        to->shape[i] = to->dim_names[i] ? -1 : t->dim[i].extent;
    }
}

/* The one place that reads what the graph declares. */
static bool signature_of(struct signature *out, const struct program *p)
{
    const struct ir_graph *g = p->graph;
    size_t count = (size_t)g->n_tensors + (size_t)g->n_params;
    facc_declared *list = calloc(count + 1, sizeof *list);
    if (!list)
        return false;
    struct signature s = {.file = p->name,
                          .n_tensors = g->n_tensors,
                          .n_params = g->n_params,
                          .tensors = list,
                          .params = list + g->n_tensors,
                          .no_full_blocks =
                              p->facts.score_masks && p->facts.has_mask_mod};
    for (int i = 0; i < g->n_tensors; i++)
        declare_tensor(&s.tensors[i], &g->tensors[i]);
    for (int i = 0; i < g->n_params; i++) {
        s.params[i].name = g->params[i].name;
        s.params[i].dtype = (facc_dtype)g->params[i].dtype;
    }
    bool ok = signature_copy(out, &s);
    free(list);
    return ok;
}

/* ---- loading ------------------------------------------------------------ */

/* While nobody else has the graph, whose nodes may move later. */
static void summary_bytes(facc_program *p)
{
    const struct program *c = p->compiled;
    p->q_summary_bytes = verdict_summary_bytes(c->graph, &c->verdict, SIDE_Q);
    p->kv_summary_bytes = verdict_summary_bytes(c->graph, &c->verdict, SIDE_KV);
}

static facc_program *program_new(facc_ctx *ctx, const char *name,
                                 const char *text, size_t size, struct diag *d)
{
    facc_program *p = calloc(1, sizeof *p);
    if (!p || !(p->text = malloc(size + 1))) {
        free(p);
        diag_nomem(d, stage_name);
        return NULL;
    }
    memcpy(p->text, text, size);
    p->text[size] = '\0';
    p->text_size = size;
    p->ctx = ctx;
    pthread_mutex_init(&p->lock, NULL);
    p->compiled = compile_program(&alloc_libc, name, text, size, NULL, d);
    if (p->compiled && signature_of(&p->signature, p->compiled)) {
        summary_bytes(p);
        return p;
    }
    if (p->compiled)
        diag_nomem(d, stage_name);
    facc_program_free(p);
    return NULL;
}

void facc_program_free(facc_program *p)
{
    if (!p)
        return;
    module_plans_free(p->plans);
    program_free(p->compiled);
    signature_free(&p->signature);
    pthread_mutex_destroy(&p->lock);
    free(p->text);
    free(p);
}

static facc_status refuse(facc_error *err, const char *why)
{
    struct diag d;
    diag_init(&d);
    diag_set(&d, FACC_ERR_ARGUMENT, stage_name, NULL, 0, "%s", why);
    return error_report(err, &d, NULL, NULL);
}

facc_status facc_program_load_string(facc_program **out, facc_ctx *ctx,
                                     const char *name, const char *text,
                                     size_t size, facc_error *err)
{
    struct diag d;
    diag_init(&d);
    if (!out)
        return error_null(err, "out");
    *out = NULL;
    if (!ctx || !name || (!text && size > 0))
        return refuse(err, "ctx, name or text is NULL");
    if (size > MAX_TEXT)
        return refuse(err, "the text is larger than 16 MiB: not a Lua program");
    *out = program_new(ctx, name, text ? text : "", size, &d);
    if (*out)
        return FACC_OK;
    /* The quoted line must be of this text, not of a standard mod's. */
    bool own = strcmp(d.file, name) == 0 && text && !memchr(text, 0, size);
    char *copy = own ? strndup(text, size) : NULL;
    error_report(err, &d, copy, NULL);
    free(copy);
    return d.status;
}

/* A whole file; NULL with *d filled. */
static char *read_file(const char *path, size_t *size, struct diag *d)
{
    size_t cap = 1 << 14, n = 0;
    FILE *f = fopen(path, "rb");
    char *text = f ? malloc(cap) : NULL;
    while (text) {
        size_t got = fread(text + n, 1, cap - n, f);
        n += got;
        if (got == 0 || n > MAX_TEXT)
            break;
        char *grown = n == cap ? realloc(text, cap * 2) : text;
        if (!grown)
            free(text);
        cap = n == cap ? cap * 2 : cap;
        text = grown;
    }
    *size = n;
    if (!f)
        diag_set(d, FACC_ERR_IO, stage_name, NULL, 0, "cannot open %s: %s",
                 path, strerror(errno));
    else if (!text)
        diag_nomem(d, stage_name);
    else if (ferror(f))
        diag_set(d, FACC_ERR_IO, stage_name, NULL, 0, "cannot read %s: %s",
                 path, strerror(errno));
    else if (n > MAX_TEXT)
        diag_set(d, FACC_ERR_IO, stage_name, NULL, 0,
                 "%s is larger than %d MiB: not a Lua file", path,
                 MAX_TEXT >> 20);
    if (f)
        fclose(f);
    if (diag_failed(d)) {
        free(text);
        return NULL;
    }
    return text;
}

facc_status facc_program_load_file(facc_program **out, facc_ctx *ctx,
                                   const char *path, facc_error *err)
{
    struct diag d;
    size_t size;
    diag_init(&d);
    if (!out)
        return error_null(err, "out");
    *out = NULL;
    if (!ctx || !path)
        return refuse(err, "ctx or path is NULL");
    char *text = read_file(path, &size, &d);
    if (!text)
        return error_report(err, &d, NULL, NULL);
    facc_status s = facc_program_load_string(out, ctx, path, text, size, err);
    free(text);
    return s;
}

/* ---- expressions -------------------------------------------------------- */

static bool is_name(const char *s)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    static const char more[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return s && strspn(s, letters) > 0 && strspn(s, more) == strlen(s);
}

static bool is_dim_name(const char *s)
{
    for (int k = IR_DIM_B; k <= IR_DIM_ANY; k++)
        if (strcmp(s, dim_name((enum ir_dim_kind)k)) == 0)
            return true;
    return false;
}

static bool declare_dims(struct strbuf *b, const facc_declaration *c,
                         struct diag *d)
{
    strbuf_add(b, ", {");
    for (int i = 0; i < c->rank; i++) {
        const char *name = c->dim_names[i];
        if (name && !is_dim_name(name))
            return diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
                            "tensor \"%s\": unknown dimension \"%s\", must "
                            "be B, H, Hkv, q, kv, any or an integer",
                            c->name, name);
        if (name)
            strbuf_addf(b, "%s\"%s\"", i ? ", " : "", name);
        else
            strbuf_addf(b, "%s%lld", i ? ", " : "", (long long)c->shape[i]);
    }
    strbuf_add(b, "}");
    return true;
}

static bool declare(struct strbuf *b, const facc_declaration *c, struct diag *d)
{
    if (!is_name(c->name))
        return diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
                        "\"%s\" is not a name: use letters, digits and _",
                        c->name ? c->name : "");
    if (c->rank < 0 || c->rank > FACC_MAX_DIMS)
        return diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
                        "tensor \"%s\": rank is %d, must be 0 to %d", c->name,
                        c->rank, FACC_MAX_DIMS);
    strbuf_addf(b, "facc.%s(\"%s\", \"%s\"", c->is_param ? "param" : "tensor",
                c->name, facc_dtype_name(c->dtype));
    if (!c->is_param && !declare_dims(b, c, d))
        return false;
    strbuf_add(b, ")\n");
    return true;
}

/* A Lua string; decimal escapes keep every byte. */
static void quote(struct strbuf *b, const char *s)
{
    strbuf_add(b, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\' || c < 32 || c > 126)
            strbuf_addf(b, "\\%03d", c);
        else
            strbuf_addn(b, s, 1);
    }
    strbuf_add(b, "\"");
}

/* Both expressions on one line: messages have its number and quote it. */
static bool write_program(struct strbuf *b, const char *score, const char *mask,
                          const facc_declaration *list, size_t n,
                          struct diag *d)
{
    strbuf_add(b, "local facc = require \"facc\"\n");
    for (size_t i = 0; i < n; i++)
        if (!declare(b, &list[i], d))
            return false;
    strbuf_add(b, "return facc.attention {");
    if (score) {
        strbuf_add(b, " score_mod = ");
        quote(b, score);
    }
    if (mask) {
        strbuf_add(b, score ? ", mask_mod = " : " mask_mod = ");
        quote(b, mask);
    }
    strbuf_add(b, " }\n");
    return !b->failed || diag_nomem(d, stage_name);
}

facc_status facc_program_load_expressions(facc_program **out, facc_ctx *ctx,
                                          const char *score, const char *mask,
                                          const facc_declaration *declarations,
                                          size_t n_declarations,
                                          facc_error *err)
{
    struct diag d;
    struct strbuf b;
    diag_init(&d);
    if (!out)
        return error_null(err, "out");
    *out = NULL;
    if (!ctx || (!declarations && n_declarations > 0))
        return refuse(err, "ctx or declarations is NULL");
    struct arena *arena = arena_new(&alloc_libc);
    strbuf_init(&b, arena);
    if (!arena)
        diag_nomem(&d, stage_name);
    else if (write_program(&b, score, mask, declarations, n_declarations, &d))
        *out = program_new(ctx, "expression", strbuf_text(&b), b.len, &d);
    facc_status s =
        *out ? FACC_OK : error_report(err, &d, strbuf_text(&b), NULL);
    arena_free(arena);
    return s;
}

/* ---- declarations -------------------------------------------------------- */

int32_t facc_program_tensor_count(const facc_program *p)
{
    return p ? p->signature.n_tensors : 0;
}

int32_t facc_program_param_count(const facc_program *p)
{
    return p ? p->signature.n_params : 0;
}

facc_status facc_program_tensor(const facc_program *p, int32_t index,
                                facc_declared *out)
{
    if (!p || !out || index < 0 || index >= p->signature.n_tensors)
        return FACC_ERR_ARGUMENT;
    *out = p->signature.tensors[index];
    return FACC_OK;
}

facc_status facc_program_param(const facc_program *p, int32_t index,
                               facc_declared *out)
{
    if (!p || !out || index < 0 || index >= p->signature.n_params)
        return FACC_ERR_ARGUMENT;
    *out = p->signature.params[index];
    return FACC_OK;
}

const char *facc_program_warning(const facc_program *p)
{
    return p ? p->compiled->facts.warning : "";
}

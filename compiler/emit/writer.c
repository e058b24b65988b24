/* Text, and locals of the Variant's places. In: formats, nodes and their
 * values' text; out: text in the arena, statements in the places' bodies.
 * Called by the files of compiler/emit that print values. */
#include "compiler/emit/writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *writer_format(struct emitter *e, const char *format, ...)
{
    va_list ap, again;
    va_start(ap, format);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : arena_alloc(e->arena, (size_t)n + 1);
    if (s)
        vsnprintf(s, (size_t)n + 1, format, again);
    else
        e->failed = true;
    va_end(again);
    return s ? s : "";
}

/* Statements that come from the user's file say so. */
void writer_add_line(struct emitter *e, struct strbuf *out, ir_ref r)
{
    const uint32_t line = ir_node(e->g, r)->line;
    if (line && e->file[0])
        strbuf_addf(out, "#line %u \"%s\"\n", line, e->file);
}

const char *writer_scale(const struct emitter *e, bool log2)
{
    if (dtype_is_fp8(e->config->dtype))
        return log2 ? "t.scale_log2" : "t.scale";
    return log2 ? "args.scale_log2" : "args.scale";
}

const char *writer_bare(struct emitter *e, const char *text)
{
    const size_t n = strlen(text);
    if (n < 2 || text[0] != '(' || text[n - 1] != ')')
        return text;
    int depth = 0;
    for (size_t k = 0; k + 1 < n; k++) {
        depth += (text[k] == '(') - (text[k] == ')');
        if (depth == 0)
            return text;
    }
    return writer_format(e, "%.*s", (int)(n - 2), text + 1);
}

const char *writer_add_local(struct emitter *e, enum place p, ir_ref r,
                             const char *type, const char *value)
{
    struct place_text *at = &e->at[p];
    const char *name = writer_format(e, "v%d", ++at->n_locals);
    writer_add_line(e, &at->body, r);
    strbuf_addf(&at->body, "        const %s %s = ", type, name);
    strbuf_add(&at->body, writer_bare(e, value));
    strbuf_add(&at->body, ";\n");
    return name;
}

void writer_add_body(struct strbuf *out, const struct strbuf *body)
{
    const char *text = strbuf_text(body);
    strbuf_add(out, text);
    if (!strstr(text, "#line "))
        return;
    unsigned line = 2;
    for (const char *s = strbuf_text(out); *s; s++)
        line += *s == '\n';
    strbuf_addf(out, "#line %u \"facc_variant.cuh\"\n", line);
}

/* A place's own operands only: what another place holds is one use here. */
void writer_count_uses(struct emitter *e, enum place p, ir_ref root)
{
    const struct ir_node *n = ir_node(e->g, root);
    if (!e->counting)
        return;
    if (e->at[p].uses[root]++ || expr_home(e, p, root) != p)
        return;
    for (uint32_t k = 0; k < n->n; k++)
        writer_count_uses(e, p, ir_arg(e->g, root, k));
}

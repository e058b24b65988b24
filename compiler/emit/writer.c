/* Places, members and locals of the Variant's text. In: requests for a value
 * by a place; out: statements in the places' bodies and a list of members.
 * Called by the other files of compiler/emit. */
#include "compiler/emit/writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *fmt(struct emitter *e, const char *format, ...)
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
void emit_line(struct emitter *e, struct strbuf *out, ir_ref r)
{
    const uint32_t line = ir_node(e->g, r)->line;
    if (line && e->file[0])
        strbuf_addf(out, "#line %u \"%s\"\n", line, e->file);
}

const char *bare(struct emitter *e, const char *text)
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
    return fmt(e, "%.*s", (int)(n - 2), text + 1);
}

const char *statement(struct emitter *e, enum place p, ir_ref r,
                      const char *type, const char *value)
{
    struct place_text *at = &e->at[p];
    const char *name = fmt(e, "v%d", ++at->n_locals);
    emit_line(e, &at->body, r);
    strbuf_addf(&at->body, "        const %s %s = ", type, name);
    strbuf_add(&at->body, bare(e, value));
    strbuf_add(&at->body, ";\n");
    return name;
}

/* A member that is the same text is the same value. */
static const char *same_value(const struct emitter *e, enum place where,
                              const char *type, const char *value)
{
    for (int k = 0; k < e->n_members; k++) {
        const struct member *m = &e->member[k];
        if (m->place == where && m->value && strcmp(m->type, type) == 0 &&
            strcmp(m->value, value) == 0)
            return m->name;
    }
    return NULL;
}

static const struct member *find(const struct emitter *e, enum place where,
                                 enum member_kind kind, ir_ref r, ir_ref by)
{
    for (int k = 0; k < e->n_members; k++) {
        const struct member *m = &e->member[k];
        if (m->place == where && m->kind == kind && m->node == r && m->by == by)
            return m;
    }
    return NULL;
}

static struct member *add(struct emitter *e)
{
    if (e->n_members == e->cap_members) {
        const int cap = e->cap_members ? 2 * e->cap_members : 16;
        struct member *p =
            arena_grow(e->arena, e->member, (size_t)e->cap_members * sizeof *p,
                       (size_t)cap * sizeof *p);
        if (!p) {
            e->failed = true;
            return NULL;
        }
        e->member = p;
        e->cap_members = cap;
    }
    return &e->member[e->n_members++];
}

const char *member(struct emitter *e, enum place where, enum member_kind kind,
                   ir_ref r, ir_ref by)
{
    static const char *const handle[PLACE_COUNT] = {"t", "r", "k", "d", "base"};
    static const char letter[PLACE_COUNT] = "trkdb";
    const struct member *old = find(e, where, kind, r, by);
    if (old)
        return old->name;

    struct place_text *at = &e->at[where];
    const char *type = "float";
    count_uses(e, where, r);
    const char *value = bare(e, member_value(e, where, kind, r, by, &type));
    const char *name = same_value(e, where, type, value);
    struct member *m = add(e);
    if (!m)
        return "";
    *m = (struct member){
        .place = where, .kind = kind, .node = r, .by = by, .type = type};
    m->name =
        name ? name
             : fmt(e, "%s.%c%d", handle[where], letter[where], ++at->n_members);
    if (!name) {
        m->value = value;
        emit_line(e, &at->body, r);
        strbuf_addf(&at->body, "        %s = ", m->name);
        strbuf_add(&at->body, value);
        strbuf_add(&at->body, ";\n");
    }
    if (kind == MEMBER_VALUE)
        at->local[r] = m->name;
    return m->name;
}

/* A place's own operands only: what another place holds is one use here. */
void count_uses(struct emitter *e, enum place p, ir_ref root)
{
    const struct ir_node *n = ir_node(e->g, root);
    if (!e->counting)
        return;
    if (e->at[p].uses[root]++ || home(e, p, root) != p)
        return;
    for (uint32_t k = 0; k < n->n; k++)
        count_uses(e, p, ir_arg(e->g, root, k));
}

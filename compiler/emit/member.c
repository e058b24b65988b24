/* Members: values that a place of wider scope makes once for the narrower
 * ones. In: a request for a value of another place; out: its name, and the
 * first time the member itself with its assignment in that place's body.
 * Called by expr.c, form.c, score.c and fault.c, which give the values'
 * text. */
#include "compiler/emit/writer.h"

#include <string.h>

#include "compiler/support/hash.h"

static const char *slope_at_base(struct emitter *e, ir_ref i2f, ir_ref by)
{
    const char *form = form_base_float(e, i2f);
    return writer_format(
        e, "(%s * %s)",
        by == IR_NONE ? "kLog2e" : score_times_log2e(e, PLACE_BASE, by), form);
}

/* The text of a member's value in its place p. Fills *type unless float. */
static const char *value_of(struct emitter *e, enum place p,
                            enum member_kind kind, ir_ref r, ir_ref by,
                            const char **type)
{
    switch (kind) {
    case MEMBER_VALUE:
        *type = expr_type(e, r);
        return expr_text(e, p, r);
    case MEMBER_LOG2:
        return writer_format(e, "facc_fold(%s, kLog2e)", expr_text(e, p, r));
    case MEMBER_SCALE:
    case MEMBER_SCALE_LOG2:
        return writer_format(e, "facc_fold(%s, %s)", expr_text(e, p, r),
                             writer_scale(e, kind == MEMBER_SCALE_LOG2));
    case MEMBER_RECIPROCAL:
        return writer_format(e, "facc_reciprocal(%s)", expr_text(e, p, r));
    case MEMBER_RECIPROCAL_LOG2:
        return writer_format(e, "facc_fold(facc_reciprocal(%s), kLog2e)",
                             expr_text(e, p, r));
    case MEMBER_OFFSET:
        *type = "long long";
        return expr_offset_part(e, p, r);
    case MEMBER_PART:
    case MEMBER_PART_NEG:
        if (ir_is(e->g, r, IR_AND) || ir_is(e->g, r, IR_OR)) {
            *type = "bool";
            return expr_logic_part(e, p, r);
        }
        return form_part(e, p, r, kind == MEMBER_PART_NEG, type);
    case MEMBER_FORM:
    case MEMBER_FORM_SAT:
        return form_base(e, r, kind == MEMBER_FORM_SAT, type);
    case MEMBER_FORM_FLOAT:
        return form_base_float(e, r);
    case MEMBER_FAULT:
        *type = "facc_fault";
        return fault_value(e, p, r);
    case MEMBER_SLOPE:
        return slope_at_base(e, r, by);
    case MEMBER_ADDEND:
        return score_times_log2e(e, p, r);
    case MEMBER_NARROW:
        *type = "facc_narrow";
        return score_narrow_value(e, r, by);
    }
    return "";
}

static unsigned value_bucket(const char *value)
{
    uint64_t h = 0;
    for (; *value; value++)
        h = h * 31 + (unsigned char)*value;
    return (unsigned)(hash_mix(h, 0) % MEMBER_BUCKETS);
}

static unsigned key_bucket(enum place where, enum member_kind kind, ir_ref r,
                           ir_ref by)
{
    const uint64_t h = (uint64_t)r << 32 | by;
    return (unsigned)(hash_mix(h, where * 64u + kind) % MEMBER_BUCKETS);
}

/* A member that is the same text is the same value. */
static const char *same_value(const struct emitter *e, enum place where,
                              const char *type, const char *value)
{
    for (int k = e->by_value[value_bucket(value)]; k;) {
        const struct member *m = &e->member[k - 1];
        k = m->next_value;
        if (m->place == where && strcmp(m->type, type) == 0 &&
            strcmp(m->value, value) == 0)
            return m->name;
    }
    return NULL;
}

static const struct member *find(const struct emitter *e, enum place where,
                                 enum member_kind kind, ir_ref r, ir_ref by)
{
    for (int k = e->by_key[key_bucket(where, kind, r, by)]; k;) {
        const struct member *m = &e->member[k - 1];
        k = m->next_key;
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

const char *member_name(struct emitter *e, enum place where,
                        enum member_kind kind, ir_ref r, ir_ref by)
{
    static const char *const handle[PLACE_COUNT] = {"t", "r", "k", "d", "base"};
    static const char letter[PLACE_COUNT] = "trkdb";
    const struct member *old = find(e, where, kind, r, by);
    if (old)
        return old->name;

    struct place_text *at = &e->at[where];
    const char *type = "float";
    writer_count_uses(e, where, r);
    const char *value = writer_bare(e, value_of(e, where, kind, r, by, &type));
    const char *name = same_value(e, where, type, value);
    struct member *m = add(e);
    if (!m)
        return "";
    *m = (struct member){
        .place = where, .kind = kind, .node = r, .by = by, .type = type};
    m->name = name ? name
                   : writer_format(e, "%s.%c%d", handle[where], letter[where],
                                   ++at->n_members);
    int *bucket = &e->by_key[key_bucket(where, kind, r, by)];
    m->next_key = *bucket;
    *bucket = e->n_members;
    if (!name) {
        m->value = value;
        bucket = &e->by_value[value_bucket(value)];
        m->next_value = *bucket;
        *bucket = e->n_members;
        writer_add_line(e, &at->body, r);
        strbuf_addf(&at->body, "        %s = ", m->name);
        strbuf_add(&at->body, value);
        strbuf_add(&at->body, ";\n");
    }
    if (kind == MEMBER_VALUE)
        at->local[r] = m->name;
    return m->name;
}

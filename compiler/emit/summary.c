/* QSummary and KvSummary: what verdicts need to know of a range of rows, or
 * columns. In: the verdict program's summaries; out: the structs' text and the
 * bodies of q_add and kv_add, which make the values as a cell would: loads
 * clamp. Called by variant.c (the bodies) and verdict.c (the text). */
#include "compiler/emit/writer.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static const struct verdict_summary *summary_at(const struct emitter *e, int k)
{
    return &e->verdict->summary[k];
}

static enum ir_type type_of(const struct emitter *e, int k)
{
    return (enum ir_type)ir_node(e->g, summary_at(e, k)->node)->type;
}

static bool is_wide(const struct emitter *e, int k)
{
    return verdict_is_wide(e->g, summary_at(e, k));
}

static bool is_of(const struct emitter *e, int k, enum verdict_side side)
{
    return summary_at(e, k)->side == side;
}

struct iv summary_iv(struct emitter *e, int k)
{
    const char *s = is_of(e, k, SIDE_Q) ? "qs" : "ks";
    struct iv y = {.type = type_of(e, k)};
    if (y.type == IR_INT) {
        y.lo = writer_format(e, "%s.lo%d", s, k);
        y.hi = writer_format(e, "%s.hi%d", s, k);
        y.wide = is_wide(e, k);
        y.x = e->range[summary_at(e, k)->node];
    } else if (y.type == IR_FLOAT) {
        y.whole = writer_format(e, "facc_floats{%s.lo%d, %s.hi%d, %s.nan%d}", s,
                                k, s, k, s, k);
    } else {
        y.f = writer_format(e, "%s.f%d", s, k);
        y.t = writer_format(e, "%s.t%d", s, k);
    }
    return y;
}

/* --- the values of one position ------------------------------------------ */

static bool is_name(const char *s)
{
    while (isalnum((unsigned char)*s) || *s == '_' || *s == '.')
        s++;
    return *s == '\0';
}

/* A text that is used more than once. */
static const char *as_name(struct emitter *e, enum place p, ir_ref r,
                           const char *type, const char *text)
{
    return is_name(text) ? text : writer_add_local(e, p, r, type, text);
}

/* The value's texts. */
struct value {
    const char *lo, *hi; /* ints, floats */
    const char *nan;     /* floats */
    const char *f, *t;   /* bools */
};

static struct value value_of(struct emitter *e, enum place p, int k)
{
    const ir_ref r = summary_at(e, k)->node;
    const struct iv x = iv_of_node(e, p, r);
    struct value v = {.f = x.f, .t = x.t};
    if (x.type == IR_INT) {
        const char *cast = is_wide(e, k) && !x.wide ? "(long long)" : "";
        const bool point = x.lo == x.hi;
        const char *lo = point ? as_name(e, p, r, expr_type(e, r), x.lo) : x.lo;
        v.lo = writer_format(e, "%s%s", cast, lo);
        v.hi = writer_format(e, "%s%s", cast, point ? lo : x.hi);
    } else if (x.type == IR_FLOAT && !e->inexact[r]) {
        v.lo = v.hi = as_name(e, p, r, "float", expr_text(e, p, r));
        v.nan = writer_format(e, "%s != %s", v.lo, v.lo);
    } else if (x.type == IR_FLOAT) {
        const char *name = as_name(e, p, r, "facc_floats", x.whole);
        v.lo = writer_format(e, "%s.lo", name);
        v.hi = writer_format(e, "%s.hi", name);
        v.nan = writer_format(e, "%s.nan", name);
    }
    return v;
}

/* Where the guard holds, or may. */
static void add_value(struct emitter *e, enum place p, int k)
{
    const ir_ref guard = summary_at(e, k)->guard;
    const struct value v = value_of(e, p, k);
    struct strbuf *out = &e->at[p].body;
    const char *in = guard == IR_NONE ? "        " : "            ";
    if (guard != IR_NONE) {
        const char *when = writer_bare(e, iv_of_node(e, p, guard).t);
        strbuf_addf(out, "        if (%s) {\n", when);
    }
    if (type_of(e, k) == IR_BOOL)
        strbuf_addf(out, "%ss.f%d |= %s;\n%ss.t%d |= %s;\n", in, k, v.f, in, k,
                    v.t);
    else
        strbuf_addf(out,
                    "%ss.lo%d = facc_min(s.lo%d, %s);\n"
                    "%ss.hi%d = facc_max(s.hi%d, %s);\n",
                    in, k, k, v.lo, in, k, k, v.hi);
    if (type_of(e, k) == IR_FLOAT)
        strbuf_addf(out, "%ss.nan%d |= %s;\n", in, k, v.nan);
    if (guard != IR_NONE)
        strbuf_add(out, "        }\n");
}

void summary_places(struct emitter *e)
{
    const int n = e->verdict->n_summaries;
    for (int k = 0; k < n; k++) {
        const enum place p = is_of(e, k, SIDE_Q) ? PLACE_Q_ADD : PLACE_KV_ADD;
        writer_count_uses(e, p, summary_at(e, k)->node);
        if (summary_at(e, k)->guard != IR_NONE)
            writer_count_uses(e, p, summary_at(e, k)->guard);
    }
    for (int k = 0; k < n; k++)
        add_value(e, is_of(e, k, SIDE_Q) ? PLACE_Q_ADD : PLACE_KV_ADD, k);
}

/* --- text ---------------------------------------------------------------- */

/* In the order of verdict_summary_bytes. */
static void add_members(struct emitter *e, struct strbuf *out,
                        enum verdict_side side)
{
    for (int size = 8; size > 0; size /= 2) {
        for (int k = 0; k < e->verdict->n_summaries; k++) {
            const enum ir_type type = type_of(e, k);
            if (!is_of(e, k, side))
                continue;
            if (type == IR_INT && size == (is_wide(e, k) ? 8 : 4))
                strbuf_addf(out, "        %s lo%d, hi%d;\n",
                            size == 8 ? "long long" : "int", k, k);
            if (type == IR_FLOAT && size == 4)
                strbuf_addf(out, "        float lo%d, hi%d;\n", k, k);
            if (type == IR_FLOAT && size == 1)
                strbuf_addf(out, "        bool nan%d;\n", k);
            if (type == IR_BOOL && size == 1)
                strbuf_addf(out, "        bool f%d, t%d;\n", k, k);
        }
    }
}

/* Ends of ints start at the ends of what the value can be, so that nothing
 * overflows where no position came. */
static void add_nothing(struct emitter *e, struct strbuf *out,
                        enum verdict_side side)
{
    for (int k = 0; k < e->verdict->n_summaries; k++) {
        const struct range x = e->range[summary_at(e, k)->node];
        const bool wide = is_wide(e, k);
        if (!is_of(e, k, side))
            continue;
        if (type_of(e, k) == IR_INT)
            strbuf_addf(out, "        s.lo%d = %s;\n        s.hi%d = %s;\n", k,
                        expr_int_const(e, x.hi, wide), k,
                        expr_int_const(e, x.lo, wide));
        else if (type_of(e, k) == IR_FLOAT)
            strbuf_addf(out,
                        "        s.lo%d = facc_infinity();\n"
                        "        s.hi%d = -facc_infinity();\n"
                        "        s.nan%d = false;\n",
                        k, k, k);
        else
            strbuf_addf(out, "        s.f%d = s.t%d = false;\n", k, k);
    }
}

static void add_merge(struct emitter *e, struct strbuf *out,
                      enum verdict_side side)
{
    for (int k = 0; k < e->verdict->n_summaries; k++) {
        if (!is_of(e, k, side))
            continue;
        if (type_of(e, k) == IR_BOOL) {
            strbuf_addf(out,
                        "        s.f%d |= other.f%d;\n"
                        "        s.t%d |= other.t%d;\n",
                        k, k, k, k);
            continue;
        }
        strbuf_addf(out,
                    "        s.lo%d = facc_min(s.lo%d, other.lo%d);\n"
                    "        s.hi%d = facc_max(s.hi%d, other.hi%d);\n",
                    k, k, k, k, k, k);
        if (type_of(e, k) == IR_FLOAT)
            strbuf_addf(out, "        s.nan%d |= other.nan%d;\n", k, k);
    }
}

static void add_empty_side(struct strbuf *out, const char *type, const char *v)
{
    strbuf_addf(out,
                "    struct %s {};\n"
                "    static FACC_FN %s %s_nothing() { return %s{}; }\n"
                "    static FACC_FN void %s_add(const KernelArgs &, const Tile "
                "&, int, %s &) {}\n"
                "    static FACC_FN void %s_merge(%s &, const %s &) {}\n",
                type, type, v, type, v, type, v, type, type);
}

static void add_side(struct emitter *e, struct strbuf *out,
                     enum verdict_side side, const char *type, const char *v)
{
    const enum place p = side == SIDE_Q ? PLACE_Q_ADD : PLACE_KV_ADD;
    const int bytes = verdict_summary_bytes(e->g, e->verdict, side);
    if (bytes == 0) {
        add_empty_side(out, type, v);
        return;
    }
    strbuf_addf(out, "    struct %s {\n", type);
    add_members(e, out, side);
    strbuf_addf(out,
                "    };\n    static_assert(sizeof(%s) == %d, "
                "\"the runtime reckons with it\");\n"
                "    static FACC_FN %s %s_nothing()\n    {\n        %s s;\n",
                type, bytes, type, v, type);
    add_nothing(e, out, side);
    strbuf_addf(out,
                "        return s;\n    }\n    static FACC_FN void %s_add("
                "const KernelArgs &args, const Tile &t, int %s, %s &s)\n"
                "    {\n",
                v, v, type);
    writer_add_body(out, &e->at[p].body);
    strbuf_addf(out,
                "    }\n    static FACC_FN void %s_merge(%s &s, const %s "
                "&other)\n    {\n",
                v, type, type);
    add_merge(e, out, side);
    strbuf_add(out, "    }\n");
}

/* Members of a program without summaries of its own. */
void summary_add_nothing(struct strbuf *out)
{
    strbuf_add(out, "    static constexpr bool kHasQSummary = false, "
                    "kHasKvSummary = false;\n");
    add_empty_side(out, "QSummary", "q");
    add_empty_side(out, "KvSummary", "kv");
}

void summary_add_text(struct emitter *e, struct strbuf *out)
{
    strbuf_addf(
        out,
        "    static constexpr bool kHasQSummary = %s, kHasKvSummary = "
        "%s;\n",
        emit_bool(verdict_summary_bytes(e->g, e->verdict, SIDE_Q) > 0),
        emit_bool(verdict_summary_bytes(e->g, e->verdict, SIDE_KV) > 0));
    add_side(e, out, SIDE_Q, "QSummary", "q");
    add_side(e, out, SIDE_KV, "KvSummary", "kv");
}

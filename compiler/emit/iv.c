/* Intervals of values as text. In: an op and its operands' intervals; out: an
 * interval of the result, made by the rules of templates/common/interval.cuh
 * in locals of the place. Called by verdict.c for slots and by summary.c for
 * values that are not known to the last bit. */
#include "compiler/emit/writer.h"

#include <inttypes.h>
#include <string.h>

#include "compiler/ir/interval.h"

/* --- facts --------------------------------------------------------------- */

/* Rules whose op gives the same bits wherever it is compiled; other float ops
 * are functions with an error, and code that may be contracted. */
static const char *const exact_rules[] = {
    "fadd", "fsub", "fmul", "fdiv",      "fneg",     "fmin",
    "fmax", "fabs", "i2f",  "ffloordiv", "sqrt",     "sel",
    "flt",  "fle",  "feq",  "f2i_floor", "f2i_ceil", "f2i_round"};

static const char *rule_name(enum ir_op op)
{
    static const char *const names[IR_OP_COUNT] = {
#define OP(name, dsl, n, out, in, cuda, eval, iv, d0, d1, d2) [IR_##name] = #iv,
#include "compiler/ir/ops.def"
    };
    return names[op];
}

static bool is_function(const struct ir_node *n)
{
    const char *rule = rule_name((enum ir_op)n->op);
    if (n->type != IR_FLOAT || n->n == 0 || strcmp(rule, "none") == 0)
        return false;
    for (size_t k = 0; k < sizeof exact_rules / sizeof *exact_rules; k++)
        if (strcmp(rule, exact_rules[k]) == 0)
            return false;
    return true;
}

bool iv_facts(struct emitter *e, ir_ref keep)
{
    e->of_mask = arena_alloc(e->arena, e->n_nodes * sizeof *e->of_mask);
    e->inexact = arena_alloc(e->arena, e->n_nodes * sizeof *e->inexact);
    if (!e->of_mask || !e->inexact)
        return false;
    e->of_mask[keep] = true;
    for (int k = 0; e->verdict && k < e->verdict->n_slots; k++)
        e->of_mask[e->verdict->slot[k].node] = true;
    for (int k = 0; e->verdict && k < e->verdict->n_summaries; k++) {
        e->of_mask[e->verdict->summary[k].node] = true;
        e->of_mask[e->verdict->summary[k].guard] = true;
    }
    for (ir_ref r = e->n_nodes; r-- > 1;)
        for (uint32_t k = 0; e->of_mask[r] && k < ir_node(e->g, r)->n; k++)
            e->of_mask[ir_arg(e->g, r, k)] = true;
    for (ir_ref r = 1; r < e->n_nodes; r++) {
        const struct ir_node *n = ir_node(e->g, r);
        e->inexact[r] = is_function(n);
        for (uint32_t k = 0; k < n->n; k++)
            e->inexact[r] |= e->inexact[ir_arg(e->g, r, k)];
    }
    return true;
}

/* --- text of operands ---------------------------------------------------- */

static const char *ints_type(bool wide)
{
    return wide ? "facc_ints<long long>" : "facc_ints<int>";
}

static const char *ints_text(struct emitter *e, const struct iv *x, bool wide)
{
    if (x->whole && x->wide == wide)
        return x->whole;
    return writer_format(e, "%s{%s, %s}", ints_type(wide),
                         writer_bare(e, x->lo), writer_bare(e, x->hi));
}

static const char *text_of(struct emitter *e, const struct iv *x, bool wide)
{
    if (x->type == IR_INT)
        return ints_text(e, x, wide);
    if (x->whole)
        return x->whole;
    return writer_format(e, "facc_may(%s, %s)", x->f, x->t);
}

/* --- results ------------------------------------------------------------- */

/* The value as a local of the place. */
static struct iv named(struct emitter *e, enum place p, ir_ref r,
                       enum ir_type type, bool wide, struct range x,
                       const char *text)
{
    static const char *const types[] = {
        [IR_BOOL] = "facc_bools", [IR_FLOAT] = "facc_floats"};
    const char *name = writer_add_local(
        e, p, r, type == IR_INT ? ints_type(wide) : types[type], text);
    struct iv y = {.type = type, .whole = name, .wide = wide, .x = x};
    if (type == IR_INT) {
        y.lo = writer_format(e, "%s.lo", name);
        y.hi = writer_format(e, "%s.hi", name);
    } else if (type == IR_BOOL) {
        y.f = writer_format(e, "%s.f", name);
        y.t = writer_format(e, "%s.t", name);
    }
    return y;
}

/* One variable for each side that is asked for and not always so: a struct
 * would stay one on the CPU. */
static struct iv named_bool(struct emitter *e, enum place p, ir_ref r,
                            const char *f, const char *t, unsigned need)
{
    struct place_text *at = &e->at[p];
    const bool f_always = strcmp(f, "true") == 0;
    const bool t_always = strcmp(t, "true") == 0;
    struct iv y = {.type = IR_BOOL, .f = f, .t = t};
    if (f_always && t_always)
        return y;
    if (need == IV_WHOLE)
        return named(e, p, r, IR_BOOL, false, (struct range){0, 0},
                     writer_format(e, "facc_may(%s, %s)", writer_bare(e, f),
                                   writer_bare(e, t)));
    at->n_locals++;
    writer_add_line(e, &at->body, r);
    strbuf_add(&at->body, "        const bool ");
    if (!f_always) {
        y.f = writer_format(e, "f%d", at->n_locals);
        strbuf_addf(&at->body, "%s = %s%s", y.f, writer_bare(e, f),
                    t_always ? "" : ", ");
    }
    if (!t_always) {
        y.t = writer_format(e, "t%d", at->n_locals);
        strbuf_addf(&at->body, "%s = %s", y.t, writer_bare(e, t));
    }
    strbuf_add(&at->body, ";\n");
    return y;
}

static struct iv point(struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    const char *text = expr_text(e, p, r);
    struct iv y = {.type = (enum ir_type)n->type};
    if (n->type == IR_INT) {
        y.lo = y.hi = text;
        y.wide = !expr_fits_int(e->range[r]);
        y.x = e->range[r];
    } else if (n->type == IR_FLOAT) {
        y.whole = writer_format(e, "facc_point(%s)", writer_bare(e, text));
    } else {
        y.f = writer_format(e, "!%s", text);
        y.t = text;
    }
    return y;
}

struct iv iv_anything(struct emitter *e, ir_ref r)
{
    const enum ir_type type = (enum ir_type)ir_node(e->g, r)->type;
    struct iv y = {.type = type, .f = "true", .t = "true"};
    if (type == IR_FLOAT) {
        y.whole = "facc_any_float()";
    } else if (type == IR_INT) {
        y.x = e->range[r];
        y.wide = !expr_fits_int(y.x);
        y.lo = expr_int_const(e, y.x.lo, y.wide);
        y.hi = expr_int_const(e, y.x.hi, y.wide);
    }
    return y;
}

/* --- logic --------------------------------------------------------------- */

/* Joined by the sign; where one is "true": dropped from an AND, the whole of
 * an OR. */
static const char *joined(struct emitter *e, const struct iv *x, int n,
                          bool of_true, char sign)
{
    struct strbuf b;
    strbuf_init(&b, e->arena);
    for (int k = 0; k < n; k++) {
        const char *s = of_true ? x[k].t : x[k].f;
        if (strcmp(s, "true") == 0 && sign == '|')
            return "true";
        if (strcmp(s, "true") != 0)
            strbuf_addf(&b, "%s%s",
                        b.len == 0    ? "("
                        : sign == '|' ? " | "
                                      : " & ",
                        s);
    }
    if (b.len == 0)
        return "true";
    strbuf_add(&b, ")");
    e->failed |= b.failed;
    return strbuf_text(&b);
}

static struct iv logic(struct emitter *e, enum place p, ir_ref r, bool is_and,
                       const struct iv *x, int n, unsigned need)
{
    const char *f = "true", *t = "true";
    if (need & IV_FALSE)
        f = joined(e, x, n, false, is_and ? '|' : '&');
    if (need & IV_TRUE)
        t = joined(e, x, n, true, is_and ? '&' : '|');
    return named_bool(e, p, r, f, t, need);
}

/* --- linear forms -------------------------------------------------------- */

/* The terms' ends that make the sum least (or most), those of one sign alone
 * if asked: then made positive. */
static int terms_at(const struct iv *x, const int64_t *k, int n, bool most,
                    int sign, struct form_term *out)
{
    int m = 0;
    for (int j = 0; j < n; j++) {
        if (sign && (k[j] < 0) != (sign < 0))
            continue;
        const bool high = (k[j] > 0) == most;
        out[m++] = (struct form_term){.k = sign < 0 ? -k[j] : k[j],
                                      .text = high ? x[j].hi : x[j].lo,
                                      .wide = x[j].wide,
                                      .x = x[j].x};
    }
    return m;
}

/* Where 64 bits might not hold it. */
static struct iv far_sum(struct emitter *e, enum place p, ir_ref r, int64_t c,
                         const int64_t *k, const struct iv *x, int n)
{
    const int64_t exact = (int64_t)1 << 53;
    const char *text =
        writer_format(e, "facc_sum_of(%s)", expr_int_const(e, c, true));
    for (int j = 0; j < n; j++) {
        if (k[j] < -exact || k[j] > exact)
            text = "facc_sum_of_anything()";
        else
            text = writer_format(e, "facc_sum_add(%s, %" PRId64 ".0, %s)", text,
                                 k[j], ints_text(e, &x[j], true));
    }
    return named(e, p, r, IR_INT, true, (struct range){INT64_MIN, INT64_MAX},
                 writer_format(e, "facc_sum_ints(%s)", text));
}

static struct iv sum_value(struct emitter *e, enum place p, ir_ref r, int64_t c,
                           const int64_t *k, const struct iv *x, int n,
                           struct form_term *terms)
{
    struct range range;
    bool lo_wide, hi_wide;
    if (n == 1 && k[0] == 1 && c == 0)
        return x[0];
    const char *lo = form_sum(e, terms, terms_at(x, k, n, false, 0, terms), c,
                              &lo_wide, &range);
    const char *hi = form_sum(e, terms, terms_at(x, k, n, true, 0, terms), c,
                              &hi_wide, &range);
    if (!lo || !hi)
        return far_sum(e, p, r, c, k, x, n);
    return named(e, p, r, IR_INT, lo_wide, range,
                 writer_format(e, "%s{%s, %s}", ints_type(lo_wide),
                               writer_bare(e, lo), writer_bare(e, hi)));
}

/* Texts of the two sides of a comparison, both made positive. */
struct sides {
    const char *plus_lo, *plus_hi, *minus_lo, *minus_hi;
};

static bool sides_of(struct emitter *e, int64_t c, const int64_t *k,
                     const struct iv *x, int n, struct form_term *terms,
                     struct sides *s)
{
    struct range range;
    bool wide;
    const int64_t plus = c > 0 ? c : 0, minus = c < 0 ? -c : 0;
    if (c == INT64_MIN)
        return false;
    for (int j = 0; j < n; j++)
        if (k[j] == INT64_MIN)
            return false;
    s->plus_lo = form_sum(e, terms, terms_at(x, k, n, false, 1, terms), plus,
                          &wide, &range);
    s->plus_hi = form_sum(e, terms, terms_at(x, k, n, true, 1, terms), plus,
                          &wide, &range);
    s->minus_lo = form_sum(e, terms, terms_at(x, k, n, true, -1, terms), minus,
                           &wide, &range);
    s->minus_hi = form_sum(e, terms, terms_at(x, k, n, false, -1, terms), minus,
                           &wide, &range);
    return s->plus_lo && s->plus_hi && s->minus_lo && s->minus_hi;
}

static struct iv compared(struct emitter *e, enum place p, ir_ref r, bool ge,
                          bool strict, const struct sides *s, unsigned need)
{
    const char *f = "true", *t = "true";
    if (ge) {
        if (need & IV_FALSE)
            f = writer_format(e, "(%s %s %s)", s->plus_lo, strict ? "<=" : "<",
                              s->minus_hi);
        if (need & IV_TRUE)
            t = writer_format(e, "(%s %s %s)", s->plus_hi,
                              strict ? ">" : ">=", s->minus_lo);
    } else {
        const bool point = strcmp(s->plus_lo, s->plus_hi) == 0 &&
                           strcmp(s->minus_lo, s->minus_hi) == 0;
        if (need & IV_FALSE)
            f = point
                    ? writer_format(e, "(%s != %s)", s->plus_lo, s->minus_lo)
                    : writer_format(e, "((%s != %s) | (%s != %s))", s->plus_lo,
                                    s->minus_hi, s->plus_hi, s->minus_lo);
        if (need & IV_TRUE)
            t = point
                    ? writer_format(e, "(%s == %s)", s->plus_lo, s->minus_lo)
                    : writer_format(e, "((%s <= %s) & (%s >= %s))", s->plus_lo,
                                    s->minus_hi, s->plus_hi, s->minus_lo);
    }
    return named_bool(e, p, r, f, t, need);
}

struct iv iv_of_sum(struct emitter *e, enum place p, ir_ref r, enum ir_op op,
                    int64_t c, const int64_t *k, const struct iv *x, int n,
                    unsigned need)
{
    struct form_term *terms =
        arena_alloc(e->arena, ((size_t)n + 1) * sizeof *terms);
    struct sides s;
    if (!terms) {
        e->failed = true;
        return (struct iv){
            .type = IR_INT, .lo = "", .hi = "", .f = "", .t = ""};
    }
    if (op == IR_LIN)
        return sum_value(e, p, r, c, k, x, n, terms);
    /* x - y - 1 >= 0 as x > y */
    const bool strict = op == IR_GE0 && c == -1;
    if (sides_of(e, strict ? 0 : c, k, x, n, terms, &s))
        return compared(e, p, r, op == IR_GE0, strict, &s, need);
    const struct iv y = far_sum(e, p, r, c, k, x, n);
    s = (struct sides){y.lo, y.hi, "0", "0"};
    return compared(e, p, r, op == IR_GE0, false, &s, need);
}

/* --- ops of the table ---------------------------------------------------- */

/* What the text's ends can be. */
static struct interval static_range(const struct iv *x)
{
    struct interval y = interval_any(x->type);
    if (x->type == IR_INT) {
        y.i.lo = x->x.lo;
        y.i.hi = x->x.hi;
    }
    return y;
}

static bool is_positive_constant(const struct iv *x)
{
    return x->type == IR_INT && x->x.lo == x->x.hi && x->x.lo > 0;
}

/* Division by a positive constant: by the ends. */
static const char *divided(struct emitter *e, const struct iv *x, bool wide)
{
    const char *by = expr_int_const(e, x[1].x.lo, wide);
    const char *of = wide && !x[0].wide ? "(long long)" : "";
    if (!wide && x[0].x.lo >= 0)
        return writer_format(e,
                             "facc_ints<int>{(int)((unsigned)%s / %su), "
                             "(int)((unsigned)%s / %su)}",
                             x[0].lo, by, x[0].hi, by);
    return writer_format(e,
                         "%s{facc_floordiv(%s%s, %s), facc_floordiv(%s%s, %s)}",
                         ints_type(wide), of, x[0].lo, by, of, x[0].hi, by);
}

static const char *call(struct emitter *e, enum ir_op op, const struct iv *x,
                        int n, bool wide)
{
    struct strbuf b;
    if (op == IR_IDIV && is_positive_constant(&x[1]))
        return divided(e, x, wide);
    if (op == IR_IMOD && is_positive_constant(&x[1]))
        return writer_format(e, "facc_iv_imod_by(%s, %s)",
                             ints_text(e, &x[0], wide),
                             expr_int_const(e, x[1].x.lo, wide));
    strbuf_init(&b, e->arena);
    strbuf_addf(&b, "facc_iv_%s(", rule_name(op));
    for (int k = 0; k < n; k++)
        strbuf_addf(&b, "%s%s", k ? ", " : "", text_of(e, &x[k], wide));
    strbuf_add(&b, ")");
    e->failed |= b.failed;
    return strbuf_text(&b);
}

struct iv iv_of_op(struct emitter *e, enum place p, ir_ref r, enum ir_op op,
                   const struct iv *x, int n, unsigned need)
{
    const struct ir_op_info *info = ir_op_info(op);
    struct interval in[3], out;
    struct range range = {0, 0};
    if (op == IR_AND || op == IR_OR)
        return logic(e, p, r, op == IR_AND, x, n, need);
    if (op == IR_NOT)
        return (struct iv){.type = IR_BOOL, .f = x[0].t, .t = x[0].f};
    if (n > 3 || strcmp(rule_name(op), "none") == 0)
        return iv_anything(e, r);
    bool wide = false;
    for (int k = 0; k < n; k++) {
        in[k] = static_range(&x[k]);
        wide |= x[k].type == IR_INT && (x[k].wide || !expr_fits_int(x[k].x));
    }
    if (info->out == IR_INT) {
        out = interval_eval(op, in);
        range = (struct range){out.i.lo, out.i.hi};
        wide |= !expr_fits_int(range);
    }
    return named(e, p, r, info->out, wide, range, call(e, op, x, n, wide));
}

/* --- loads --------------------------------------------------------------- */

struct iv iv_of_load(struct emitter *e, enum place p, ir_ref r,
                     const struct iv *x, int n)
{
    const struct ir_node *load = ir_node(e->g, r);
    const struct iv any = iv_anything(e, r);
    const char *type = dtype_name(e->g->tensors[load->i].dtype);
    struct strbuf b;
    strbuf_init(&b, e->arena);
    if (load->type == IR_INT)
        strbuf_addf(&b, "facc_reach_ints<%s, facc_load_%s>(%s, ",
                    any.wide ? "long long" : "int", type,
                    ints_text(e, &any, any.wide));
    else
        strbuf_addf(&b, "facc_reach_%s<facc_load_%s>(",
                    load->type == IR_BOOL ? "bools" : "floats", type);
    strbuf_addf(&b, "args.tensors[%" PRId64 "]", load->i);
    for (int d = 0; d < n; d++)
        strbuf_addf(&b,
                    ", facc_reach_of<%d>(args.tensors[%" PRId64 "], %s, %s)", d,
                    load->i, writer_bare(e, x[d].lo), writer_bare(e, x[d].hi));
    if (n == 0)
        strbuf_add(&b, ", facc_reach_one()");
    strbuf_add(&b, ")");
    e->failed |= b.failed;
    return named(e, p, r, (enum ir_type)load->type, any.wide, any.x,
                 strbuf_text(&b));
}

/* --- nodes --------------------------------------------------------------- */

/* A function of values that are known to the last bit. */
static bool is_near(const struct emitter *e, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    for (uint32_t k = 0; k < n->n; k++)
        if (e->inexact[ir_arg(e->g, r, k)])
            return false;
    return n->type == IR_FLOAT;
}

struct iv iv_of_node(struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    const enum ir_op op = (enum ir_op)n->op;
    if (e->failed || !e->inexact[r])
        return point(e, p, r);
    if (is_near(e, r))
        return (struct iv){
            .type = IR_FLOAT,
            .whole = writer_format(e, "facc_near(%s)",
                                   writer_bare(e, expr_text(e, p, r)))};
    struct iv *x = arena_alloc(e->arena, ((size_t)n->n + 1) * sizeof *x);
    if (!x) {
        e->failed = true;
        return point(e, p, r);
    }
    for (uint32_t k = 0; k < n->n; k++)
        x[k] = iv_of_node(e, p, ir_arg(e->g, r, k));
    if (ir_op_is_linear(op))
        return iv_of_sum(e, p, r, op, n->i, e->g->coefs + n->first, x,
                         (int)n->n, IV_WHOLE);
    if (ir_op_is_load(op))
        return iv_of_load(e, p, r, x, (int)n->n);
    return iv_of_op(e, p, r, op, x, (int)n->n, IV_WHOLE);
}

/* Linear forms. In: a LIN, GE0 or EQ0 and the place that asks; out: C text of
 * its value, or of the comparison with the terms split over both sides, so
 * that no side can overflow where the whole would. Terms of a wider scope are
 * summed there, as its members. Forms linear in kv over row values come from
 * Base plus the constant column c. Called by expr.c; member.c asks for the
 * members' values. */
#include "compiler/emit/writer.h"

#include <inttypes.h>

/* Beyond this a step of c columns might leave a saturated base. */
enum { MAX_KV_FACTOR = 1 << 20 };

struct item { /* k * value */
    int64_t k;
    ir_ref term;      /* or IR_NONE: */
    const char *part; /* a member */
    bool wide_part;
    struct range x;
};

struct form {
    struct item *item;
    int n;
    int64_t c;
};

static bool is_form(const struct emitter *e, ir_ref r)
{
    return ir_is(e->g, r, IR_LIN) || ir_is(e->g, r, IR_GE0) ||
           ir_is(e->g, r, IR_EQ0);
}

static bool known_to_row(const struct emitter *e, ir_ref r)
{
    return e->scope[r] == SCOPE_TILE || e->scope[r] == SCOPE_ROW;
}

static bool is_var(const struct emitter *e, ir_ref r, enum ir_var v)
{
    return ir_is(e->g, r, IR_VAR_I) && ir_node(e->g, r)->i == v;
}

int64_t form_kv(const struct emitter *e, ir_ref r)
{
    int64_t k = 0;
    if (!is_form(e, r))
        return 0;
    for (uint32_t j = 0; j < ir_node(e->g, r)->n; j++) {
        const ir_ref x = ir_arg(e->g, r, j);
        if (is_var(e, x, IR_VAR_KV))
            k = ir_coef(e->g, r, j);
        else if (!known_to_row(e, x))
            return 0;
    }
    return k >= -MAX_KV_FACTOR && k <= MAX_KV_FACTOR ? k : 0;
}

/* --- ranges -------------------------------------------------------------- */

static int64_t add(int64_t a, int64_t b)
{
    int64_t v;
    if (__builtin_add_overflow(a, b, &v))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return v;
}

static int64_t multiply(int64_t a, int64_t b)
{
    int64_t v;
    if (__builtin_mul_overflow(a, b, &v))
        return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return v;
}

static struct range scaled(int64_t k, struct range x)
{
    const int64_t a = multiply(k, x.lo), b = multiply(k, x.hi);
    return a < b ? (struct range){a, b} : (struct range){b, a};
}

static struct range sum(struct range a, struct range b)
{
    return (struct range){add(a.lo, b.lo), add(a.hi, b.hi)};
}

/* --- items --------------------------------------------------------------- */

/* Which wider place sums the term for p, or p itself. */
static enum place group_of(const struct emitter *e, enum place p, ir_ref x)
{
    if (p == PLACE_TILE)
        return p;
    if (e->scope[x] == SCOPE_TILE)
        return expr_is_cell(p) || p == PLACE_BASE ? PLACE_ROW : PLACE_TILE;
    if (e->scope[x] == SCOPE_ROW && (expr_is_cell(p) || p == PLACE_BASE))
        return PLACE_ROW;
    if (e->scope[x] == SCOPE_COL && expr_is_cell(p))
        return PLACE_COL;
    return p;
}

struct group {
    int n, rows;       /* terms; terms of row scope */
    ir_ref term;       /* one of them */
    int64_t k;         /* its factor */
    bool all_negative; /* factors */
    struct range x;    /* of the sum */
};

static struct group look_at_group(const struct emitter *e, enum place p,
                                  ir_ref r, enum place where)
{
    struct group s = {.all_negative = true};
    for (uint32_t j = 0; j < ir_node(e->g, r)->n; j++) {
        const ir_ref x = ir_arg(e->g, r, j);
        const int64_t k = ir_coef(e->g, r, j);
        if (is_var(e, x, IR_VAR_KV) && p == PLACE_BASE)
            continue;
        if (group_of(e, p, x) != where)
            continue;
        s.n++;
        s.rows += e->scope[x] == SCOPE_ROW;
        s.term = x;
        s.k = k;
        s.all_negative &= k < 0;
        s.x = sum(s.x, scaled(k, e->range[x]));
    }
    return s;
}

static struct range negated(struct range x)
{
    return scaled(-1, x);
}

static void add_part(struct emitter *e, struct form *f, ir_ref r,
                     enum place where, const struct group *s, bool negative,
                     int64_t c)
{
    struct range x = sum(s->x, (struct range){c, c});
    if (negative)
        x = negated(x);
    f->item[f->n++] = (struct item){
        .k = negative ? -1 : 1,
        .part = member_name(e, where, negative ? MEMBER_PART_NEG : MEMBER_PART,
                            r, IR_NONE),
        .wide_part = !expr_fits_int(x),
        .x = x};
}

static void add_term(struct emitter *e, struct form *f, ir_ref x, int64_t k)
{
    f->item[f->n++] = (struct item){.k = k, .term = x, .x = e->range[x]};
}

/* The constant goes with the wider part where there is one. */
static bool add_group(struct emitter *e, enum place p, ir_ref r,
                      enum place where, struct form *f)
{
    const struct group s = look_at_group(e, p, r, where);
    if (s.n == 0)
        return false;
    if (s.n == 1 && f->c == 0) {
        add_term(e, f, s.term, s.k);
        return s.k > 0;
    }
    const enum place at =
        where == PLACE_ROW && s.rows == 0 ? PLACE_TILE : where;
    add_part(e, f, r, at, &s, s.all_negative, f->c);
    f->c = 0;
    return !s.all_negative;
}

/* One comparison with the row's part: the other sign. */
static void add_columns(struct emitter *e, enum place p, ir_ref r,
                        struct form *f, bool row_positive)
{
    const struct group s = look_at_group(e, p, r, PLACE_COL);
    if (s.n == 0)
        return;
    if (s.n == 1 && (f->n == 0 || (s.k < 0) == row_positive))
        add_term(e, f, s.term, s.k);
    else
        add_part(e, f, r, PLACE_COL, &s, row_positive, 0);
}

/* In the diagonal's function q and kv come only as q - kv. */
static bool skip_in_diag(const struct emitter *e, enum place p, ir_ref x)
{
    return p == PLACE_DIAG && is_var(e, x, IR_VAR_KV);
}

static bool collect(struct emitter *e, enum place p, ir_ref r, struct form *f)
{
    const struct ir_node *n = ir_node(e->g, r);
    *f = (struct form){.c = n->i};
    f->item = arena_alloc(e->arena, (n->n + 2) * sizeof *f->item);
    if (!f->item) {
        e->failed = true;
        return false;
    }
    if (expr_is_cell(p) || p == PLACE_BASE) {
        const bool positive = add_group(e, p, r, PLACE_ROW, f);
        if (expr_is_cell(p))
            add_columns(e, p, r, f, positive);
    } else if (p != PLACE_TILE) {
        add_group(e, p, r, PLACE_TILE, f);
    }
    for (uint32_t j = 0; j < n->n; j++) {
        const ir_ref x = ir_arg(e->g, r, j);
        if (group_of(e, p, x) == p && !skip_in_diag(e, p, x))
            add_term(e, f, x, ir_coef(e->g, r, j));
    }
    return true;
}

/* --- text ---------------------------------------------------------------- */

static const char *item_text(struct emitter *e, enum place p,
                             const struct item *t, bool wide)
{
    const char *x;
    if (t->part)
        x = wide && !t->wide_part ? writer_format(e, "(long long)%s", t->part)
                                  : t->part;
    else if (p == PLACE_DIAG && is_var(e, t->term, IR_VAR_Q))
        x = wide ? "(long long)q_minus_kv" : "q_minus_kv";
    else
        x = wide ? expr_wide(e, p, t->term) : expr_text(e, p, t->term);
    const uint64_t k = t->k < 0 ? 0 - (uint64_t)t->k : (uint64_t)t->k;
    return k == 1
               ? x
               : writer_format(e, "%" PRIu64 "%s * %s", k, wide ? "ll" : "", x);
}

/* Does every partial sum, in the order of printing, fit 32 bits? */
static bool sums_fit(const struct form *f)
{
    struct range s = {0, 0};
    for (int pass = 0; pass < 2; pass++) {
        for (int j = 0; j < f->n; j++) {
            if ((f->item[j].k < 0) != pass)
                continue;
            const struct range t = scaled(f->item[j].k, f->item[j].x);
            s = sum(s, t);
            if (!expr_fits_int(f->item[j].x) || !expr_fits_int(t) ||
                !expr_fits_int(s))
                return false;
        }
        if ((f->c < 0) == pass) {
            s = sum(s, (struct range){f->c, f->c});
            if (!expr_fits_int(s))
                return false;
        }
    }
    return true;
}

/* The same for 64 bits. */
static bool sums_fit_wide(const struct form *f)
{
    int64_t lo = 0, hi = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int j = 0; j < f->n; j++) {
            const int64_t k = f->item[j].k;
            int64_t a, b;
            if ((k < 0) == pass &&
                (__builtin_mul_overflow(k, f->item[j].x.lo, &a) ||
                 __builtin_mul_overflow(k, f->item[j].x.hi, &b) ||
                 __builtin_add_overflow(lo, k < 0 ? b : a, &lo) ||
                 __builtin_add_overflow(hi, k < 0 ? a : b, &hi)))
                return false;
        }
        if ((f->c < 0) == pass && (__builtin_add_overflow(lo, f->c, &lo) ||
                                   __builtin_add_overflow(hi, f->c, &hi)))
            return false;
    }
    return f->c != INT64_MIN;
}

static void put_const(struct emitter *e, struct strbuf *b, int64_t c, bool wide)
{
    if (b->len == 1 || c == INT64_MIN) {
        strbuf_add(b, b->len == 1 ? "" : " + ");
        strbuf_add(b, expr_int_const(e, c, wide));
    } else {
        strbuf_add(b, c < 0 ? " - " : " + ");
        strbuf_add(b, expr_int_const(e, c < 0 ? -c : c, wide));
    }
}

/* Positive terms first, then negative ones. */
static const char *sum_text(struct emitter *e, enum place p,
                            const struct form *f, bool wide)
{
    struct strbuf b;
    if (f->n == 0)
        return expr_int_const(e, f->c, wide);
    if (f->n == 1 && f->c == 0 && f->item[0].k == 1)
        return item_text(e, p, &f->item[0], wide);
    strbuf_init(&b, e->arena);
    strbuf_add(&b, "(");
    for (int negative = 0; negative < 2; negative++) {
        for (int j = 0; j < f->n; j++) {
            if ((f->item[j].k < 0) != negative)
                continue;
            strbuf_add(&b, b.len == 1 ? (negative ? "-" : "")
                                      : (negative ? " - " : " + "));
            strbuf_add(&b, item_text(e, p, &f->item[j], wide));
        }
        if (f->c != 0 && (f->c < 0) == negative)
            put_const(e, &b, f->c, wide);
    }
    strbuf_add(&b, ")");
    e->failed |= b.failed;
    return strbuf_text(&b);
}

const char *form_step(struct emitter *e, int64_t k)
{
    if (k == 1)
        return "c";
    return k == -1 ? "-c" : writer_format(e, "%" PRId64 " * c", k);
}

const char *form_value(struct emitter *e, enum place p, ir_ref r, bool wide)
{
    struct form f;
    const int64_t kv = expr_is_cell(p) ? form_kv(e, r) : 0;
    if (kv)
        return writer_format(
            e, "(%s %s %s)",
            member_name(e, PLACE_BASE, MEMBER_FORM, r, IR_NONE),
            kv < 0 ? "-" : "+", form_step(e, kv < 0 ? -kv : kv));
    if (!collect(e, p, r, &f))
        return "";
    const bool in_wide = wide || !sums_fit(&f);
    const char *text = sum_text(e, p, &f, in_wide);
    return in_wide && !wide ? writer_format(e, "(int)%s", text) : text;
}

const char *form_sum(struct emitter *e, const struct form_term *t, int n,
                     int64_t c, bool *wide, struct range *x)
{
    struct form f = {.n = n, .c = c};
    bool any_wide = false;
    *wide = false;
    *x = (struct range){c, c};
    f.item = arena_alloc(e->arena, ((size_t)n + 1) * sizeof *f.item);
    if (!f.item) {
        e->failed = true;
        return "";
    }
    for (int j = 0; j < n; j++) {
        f.item[j] = (struct item){.k = t[j].k,
                                  .part = t[j].text,
                                  .wide_part = t[j].wide,
                                  .x = t[j].x};
        any_wide |= t[j].wide;
        *x = sum(*x, scaled(t[j].k, t[j].x));
    }
    *wide = any_wide || !sums_fit(&f);
    if (*wide && !sums_fit_wide(&f))
        return NULL;
    return sum_text(e, PLACE_PLAN, &f, *wide);
}

/* The items of one sign, made positive, and the constant if it is there. */
static const char *side(struct emitter *e, enum place p, const struct form *f,
                        bool negative, int64_t c)
{
    struct form s = {.c = c};
    s.item = arena_alloc(e->arena, ((size_t)f->n + 1) * sizeof *s.item);
    if (!s.item) {
        e->failed = true;
        return "";
    }
    for (int j = 0; j < f->n; j++) {
        if ((f->item[j].k < 0) != negative)
            continue;
        s.item[s.n] = f->item[j];
        s.item[s.n++].k *= negative ? -1 : 1;
    }
    return sum_text(e, p, &s, !sums_fit(&s));
}

const char *form_compare(struct emitter *e, enum place p, ir_ref r,
                         bool unequal)
{
    const bool ge = ir_is(e->g, r, IR_GE0);
    const char *op = ge ? ">=" : unequal ? "!=" : "==";
    const int64_t kv = expr_is_cell(p) ? form_kv(e, r) : 0;
    struct form f;
    if (kv)
        return writer_format(
            e, "(%s %s %s)",
            member_name(e, PLACE_BASE, MEMBER_FORM_SAT, r, IR_NONE), op,
            form_step(e, -kv));
    if (!collect(e, p, r, &f))
        return "";
    if (ge && f.c == -1) { /* x - y - 1 >= 0 */
        op = ">";
        f.c = 0;
    }
    const char *left = side(e, p, &f, false, f.c > 0 ? f.c : 0);
    const char *right = side(e, p, &f, true, f.c < 0 ? -f.c : 0);
    bool positive = false;
    for (int j = 0; j < f.n; j++)
        positive |= f.item[j].k > 0;
    if (positive || !ge)
        return writer_format(e, "(%s %s %s)", left, op, right);
    return writer_format(e, "(%s %s %s)", right, op[1] ? "<=" : "<", left);
}

/* --- members ------------------------------------------------------------- */

/* Terms of a form that a place sums for narrower ones. */
static bool in_part(const struct emitter *e, enum place p, ir_ref x)
{
    return p == PLACE_COL   ? e->scope[x] == SCOPE_COL
           : p == PLACE_ROW ? known_to_row(e, x)
                            : e->scope[x] == SCOPE_TILE;
}

const char *form_part(struct emitter *e, enum place p, ir_ref r, bool negate,
                      const char **type)
{
    const struct ir_node *n = ir_node(e->g, r);
    struct form f = {.c = p == PLACE_COL ? 0 : n->i};
    f.item = arena_alloc(e->arena, (n->n + 1) * sizeof *f.item);
    if (!f.item) {
        e->failed = true;
        return "";
    }
    struct range x = {f.c, f.c};
    for (uint32_t j = 0; j < n->n; j++) {
        const ir_ref t = ir_arg(e->g, r, j);
        if (!in_part(e, p, t))
            continue;
        x = sum(x, scaled(ir_coef(e->g, r, j), e->range[t]));
        add_term(e, &f, t, negate ? -ir_coef(e->g, r, j) : ir_coef(e->g, r, j));
    }
    if (negate)
        f.c = -f.c;
    const bool wide = !expr_fits_int(negate ? negated(x) : x);
    *type = wide ? "long long" : "int";
    const bool in_wide = wide || !sums_fit(&f);
    const char *text = sum_text(e, p, &f, in_wide);
    return in_wide && !wide ? writer_format(e, "(int)%s", text) : text;
}

const char *form_base(struct emitter *e, ir_ref r, bool saturate,
                      const char **type)
{
    struct form f;
    if (!collect(e, PLACE_BASE, r, &f))
        return "";
    struct range x = {f.c, f.c};
    for (int j = 0; j < f.n; j++)
        x = sum(x, scaled(f.item[j].k, f.item[j].x));
    const bool wide = !expr_fits_int(x), in_wide = wide || !sums_fit(&f);
    const char *text = sum_text(e, PLACE_BASE, &f, in_wide);
    *type = wide && !saturate ? "long long" : "int";
    if (wide && saturate)
        return writer_format(e, "facc_saturate(%s)", writer_bare(e, text));
    return in_wide && !wide ? writer_format(e, "(int)%s", text) : text;
}

const char *form_base_float(struct emitter *e, ir_ref i2f)
{
    const char *type;
    return writer_format(e, "(float)%s",
                         form_base(e, ir_arg(e->g, i2f, 0), false, &type));
}

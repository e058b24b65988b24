/* The score in units of log2(e). In: the score's node; out: what the cell
 * computes and how the kernel goes on from there (score_frame), and text in
 * which scale, log2(e) and factors of wider scope are multiplied once, in that
 * scope. Folding reorders roundings (a product's factors, a reciprocal for a
 * division: at most 1 ulp each) and never makes a NaN. Called by variant.c,
 * expr.c and member.c. */
#include "compiler/emit/writer.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double log2e = 1.4426950408889634;

static bool is_const(const struct emitter *e, ir_ref r, double v)
{
    return ir_is(e->g, r, IR_CONST_F) && ir_node(e->g, r)->f == v;
}

/* Where a factor is made: params and constants too are multiplied there. */
static enum place factor_home(const struct emitter *e, enum place p, ir_ref r)
{
    return e->scope[r] == SCOPE_TILE ? PLACE_TILE : expr_home(e, p, r);
}

static bool is_wider(const struct emitter *e, enum place p, ir_ref r)
{
    return factor_home(e, p, r) != p;
}

static bool is_slope(const struct emitter *e, enum place p, ir_ref r)
{
    return p == PLACE_SCORE && ir_is(e->g, r, IR_I2F) &&
           form_kv(e, ir_arg(e->g, r, 0)) != 0;
}

/* alpha times the scale (times log2(e)) as one factor. */
static const char *scale(struct emitter *e, ir_ref alpha, bool in_log2)
{
    const char *plain = writer_scale(e, in_log2);
    if (is_const(e, alpha, 1))
        return plain;
    const enum place where = factor_home(e, PLACE_SCORE, alpha);
    if (where == PLACE_SCORE)
        return writer_format(e, "(%s * %s)", plain,
                             expr_text(e, PLACE_SCORE, alpha));
    return member_name(e, where, in_log2 ? MEMBER_SCALE_LOG2 : MEMBER_SCALE,
                       alpha, IR_NONE);
}

static const char *affine(struct emitter *e, const struct affine_score *a,
                          bool in_log2)
{
    const char *by = scale(e, a->alpha, in_log2);
    if (is_const(e, a->beta, 0))
        return writer_format(e, "(s * %s)", by);
    const char *beta = in_log2 ? score_times_log2e(e, PLACE_SCORE, a->beta)
                               : expr_text(e, PLACE_SCORE, a->beta);
    if (in_log2 && a->beta == e->far_bias)
        beta = far_addend(e, beta);
    return writer_format(e, "fmaf(s, %s, %s)", by, beta);
}

/* Column c's distance from the base as a float: exact below 2^24. */
static const char *float_step(struct emitter *e, int64_t k)
{
    if (k == 1)
        return "(float)c";
    return writer_format(e, "(float)(%s)", form_step(e, k));
}

/* r = by * form (by IR_NONE: 1), as slope() prints it: Base holds the value at
 * its first column. */
static bool as_slope(const struct emitter *e, enum place p, ir_ref r,
                     ir_ref *form, ir_ref *by)
{
    *form = r;
    *by = IR_NONE;
    if (is_slope(e, p, r))
        return true;
    if (!ir_is(e->g, r, IR_FMUL) || is_wider(e, p, r))
        return false;
    const bool swap = !is_wider(e, p, ir_arg(e->g, r, 0));
    *by = ir_arg(e->g, r, swap);
    *form = ir_arg(e->g, r, !swap);
    const enum scope s = e->scope[*by];
    return is_slope(e, p, *form) && (s == SCOPE_TILE || s == SCOPE_ROW);
}

static const char *slope(struct emitter *e, ir_ref form, ir_ref by)
{
    const char *factor =
        by == IR_NONE ? "kLog2e" : score_times_log2e(e, PLACE_SCORE, by);
    return writer_format(e, "fmaf(%s, %s, %s)", factor,
                         float_step(e, form_kv(e, ir_arg(e->g, form, 0))),
                         member_name(e, PLACE_BASE, MEMBER_SLOPE, form, by));
}

/* r = the score times a factor of a wider scope, which takes the scale in (one
 * of tile scope: the affine form). */
static bool is_scaled(const struct emitter *e, enum place p, ir_ref r,
                      ir_ref *by)
{
    if (p != PLACE_SCORE || !ir_is(e->g, r, IR_FMUL))
        return false;
    const bool swap = ir_is(e->g, ir_arg(e->g, r, 0), IR_SCORE);
    *by = ir_arg(e->g, r, swap);
    return ir_is(e->g, ir_arg(e->g, r, !swap), IR_SCORE) && is_wider(e, p, *by);
}

const char *score_folded(struct emitter *e, ir_ref r)
{
    ir_ref factor;
    if (!e->affine[r].affine && is_scaled(e, PLACE_SCORE, r, &factor))
        return writer_format(e, "(s * %s)", scale(e, factor, false));
    if (e->affine[r].affine)
        return affine(e, &e->affine[r], false);
    if (is_slope(e, PLACE_SCORE, r))
        return writer_format(
            e, "(%s + %s)",
            member_name(e, PLACE_BASE, MEMBER_FORM_FLOAT, r, IR_NONE),
            float_step(e, form_kv(e, ir_arg(e->g, r, 0))));
    if (!ir_is(e->g, r, IR_FDIV))
        return NULL;
    const ir_ref x = ir_arg(e->g, r, 0), y = ir_arg(e->g, r, 1);
    if (!is_wider(e, PLACE_SCORE, y))
        return NULL;
    const enum place where = factor_home(e, PLACE_SCORE, y);
    const char *by = member_name(e, where, MEMBER_RECIPROCAL, y, IR_NONE);
    return writer_format(e, "(%s * %s)", expr_text(e, PLACE_SCORE, x), by);
}

/* --- times log2(e) ------------------------------------------------------- */

/* Finite, but log2(e) times it is not. */
static bool is_far_const(double v)
{
    return isfinite((float)v) && !isfinite((float)(v * log2e));
}

static const char *const_times_log2e(struct emitter *e, double v)
{
    double x = v * log2e;
    if (is_far_const(v))
        x = v < 0 ? -(double)FLT_MAX : (double)FLT_MAX;
    return expr_float_const(e, x);
}

/* May it be so near f32's ends that log2(e) times it is beyond them, though it
 * is finite: a constant that is, or a number that the cell loads, of a type
 * that reaches there? (What is made in wider scopes is folded there.) */
static bool is_far(const struct emitter *e, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    if (n->op == IR_CONST_F)
        return is_far_const(n->f);
    if (is_wider(e, PLACE_SCORE, r))
        return false;
    switch (n->op) {
    case IR_LOAD_F:
        return dtype_size(e->g->tensors[n->i].dtype) == 4 ||
               e->g->tensors[n->i].dtype == DTYPE_BF16;
    case IR_SEL_F:
        return e->is_far[ir_arg(e->g, r, 1)] || e->is_far[ir_arg(e->g, r, 2)];
    case IR_FADD:
    case IR_FSUB:
    case IR_FMUL:
    case IR_FMIN:
    case IR_FMAX:
        return e->is_far[ir_arg(e->g, r, 0)] || e->is_far[ir_arg(e->g, r, 1)];
    case IR_FNEG:
    case IR_FABS:
    case IR_FDIV:
        return e->is_far[ir_arg(e->g, r, 0)];
    default:
        return false;
    }
}

/* Does the multiplication by log2(e) cost the cell nothing? */
static bool is_free(const struct emitter *e, ir_ref r)
{
    const enum place p = PLACE_SCORE;
    const struct ir_node *n = ir_node(e->g, r);
    if (is_wider(e, p, r) || e->affine[r].affine || is_slope(e, p, r) ||
        n->op == IR_SCORE)
        return true;
    if (n->op == IR_FMUL)
        return !e->is_far[r] && (is_wider(e, p, ir_arg(e->g, r, 0)) ||
                                 is_wider(e, p, ir_arg(e->g, r, 1)));
    if (n->op == IR_FNEG)
        return e->free_log2[ir_arg(e->g, r, 0)];
    if (n->op == IR_SEL_F)
        return e->free_log2[ir_arg(e->g, r, 1)] &&
               e->free_log2[ir_arg(e->g, r, 2)];
    return (n->op == IR_FADD || n->op == IR_FSUB) &&
           e->free_log2[ir_arg(e->g, r, 0)] && e->free_log2[ir_arg(e->g, r, 1)];
}

bool score_facts(struct emitter *e)
{
    e->is_far = arena_alloc(e->arena, e->n_nodes * sizeof *e->is_far);
    e->free_log2 = arena_alloc(e->arena, e->n_nodes * sizeof *e->free_log2);
    if (!e->is_far || !e->free_log2)
        return false;
    for (ir_ref r = 1; r < e->n_nodes; r++) {
        e->is_far[r] = is_far(e, r);
        e->free_log2[r] = is_free(e, r);
    }
    return true;
}

/* Expressions name members as they are made: here and below one after the
 * other, since C does not say in which order arguments are evaluated, and the
 * text (so the cache key) must not depend on the C compiler. */
static const char *product(struct emitter *e, enum place p, ir_ref r)
{
    ir_ref form, by;
    if (as_slope(e, p, r, &form, &by))
        return slope(e, form, by);
    if (is_scaled(e, p, r, &by))
        return writer_format(e, "(s * %s)", scale(e, by, true));
    const bool swap = !is_wider(e, p, ir_arg(e->g, r, 0));
    const ir_ref f = ir_arg(e->g, r, swap), x = ir_arg(e->g, r, !swap);
    const char *other = expr_text(e, p, x);
    return writer_format(e, "(%s * %s)", score_times_log2e(e, p, f), other);
}

static const char *quotient(struct emitter *e, ir_ref r)
{
    const ir_ref x = ir_arg(e->g, r, 0), y = ir_arg(e->g, r, 1);
    const enum place where = factor_home(e, PLACE_SCORE, y);
    const char *by = member_name(e, where, MEMBER_RECIPROCAL_LOG2, y, IR_NONE);
    return writer_format(e, "(%s * %s)", expr_text(e, PLACE_SCORE, x), by);
}

/* Does log2(e) pass through the operator to its operands? */
static bool is_distributed(const struct emitter *e, ir_ref r)
{
    const enum ir_op op = (enum ir_op)ir_node(e->g, r)->op;
    if (op == IR_FADD || op == IR_FSUB)
        return e->free_log2[ir_arg(e->g, r, 0)] ||
               e->free_log2[ir_arg(e->g, r, 1)];
    return op != IR_FMUL && e->free_log2[r];
}

static const char *distributed(struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    if (n->op == IR_SEL_F) {
        const char *no = score_times_log2e(e, p, ir_arg(e->g, r, 2));
        const char *yes = score_times_log2e(e, p, ir_arg(e->g, r, 1));
        return writer_format(e, "(%s ? %s : %s)",
                             expr_text(e, p, ir_arg(e->g, r, 0)), yes, no);
    }
    const char *x = score_times_log2e(e, p, ir_arg(e->g, r, 0));
    if (n->op == IR_FNEG)
        return writer_format(e, "(-%s)", x);
    return writer_format(e, "(%s %c %s)", x, n->op == IR_FADD ? '+' : '-',
                         score_times_log2e(e, p, ir_arg(e->g, r, 1)));
}

/* What is left after constants, affine forms and members. */
static const char *inner_times_log2e(struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    const bool cell = p == PLACE_SCORE;
    if (cell && n->op == IR_FMUL && e->free_log2[r])
        return product(e, p, r);
    const bool far = cell && e->is_far[r];
    if (cell && n->op == IR_FDIV && !far && is_wider(e, p, ir_arg(e->g, r, 1)))
        return quotient(e, r);
    if (cell && is_distributed(e, r))
        return distributed(e, p, r);
    const char *text = expr_text(e, p, r);
    if (far && e->by_plane)
        return writer_format(e, "facc_times_log2e(%s, base.by.moved)",
                             writer_bare(e, text));
    return far ? writer_format(e, "facc_times_log2e(%s)", writer_bare(e, text))
               : writer_format(e, "(%s * kLog2e)", text);
}

const char *score_times_log2e(struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    struct place_text *at = &e->at[p];
    if (e->failed)
        return "";
    if (at->log2[r])
        return at->log2[r];
    if (p == PLACE_SCORE && r == e->addend)
        return member_name(e, PLACE_BASE, MEMBER_ADDEND, r, IR_NONE);
    if (n->op == IR_CONST_F)
        return const_times_log2e(e, n->f);
    if (n->op == IR_SCORE)
        return writer_format(e, "(s * %s)", writer_scale(e, true));
    if (p == PLACE_SCORE && !e->affine[r].affine && is_slope(e, p, r))
        return slope(e, r, IR_NONE);
    if (is_wider(e, p, r))
        return member_name(e, factor_home(e, p, r), MEMBER_LOG2, r, IR_NONE);
    const char *text = p == PLACE_SCORE && e->affine[r].affine
                           ? affine(e, &e->affine[r], true)
                           : inner_times_log2e(e, p, r);
    if (at->uses[r] < 2)
        return text;
    return at->log2[r] = writer_add_local(e, p, r, "float", text);
}

/* --- the cell ------------------------------------------------------------ */

/* The score is twice the factor times facc_tanh_below, whose error it
 * multiplies; and the product and the shift, each the factor in size, cancel
 * near 0. A row of one key has that as its LSE, which must be right to 1e-5:
 * 1.15e-5 off under a factor of 64, and by the same errors 1.03e-5 under 55,
 * 0.96e-5 under 50. */
static const double max_tanh_factor = 50;

/* outer * tanh_fast(alpha * SCORE). */
static bool find_narrow(struct ir_graph *g, ir_ref score,
                        const struct affine_score *a, struct score_frame *out)
{
    const ir_ref core = a->outer ? a->inner : score;
    struct affine_score x;
    if (!ir_is(g, core, IR_FTANH_FAST))
        return true;
    if (!pass_affine_score(g, ir_arg(g, core, 0), &x))
        return false;
    if (x.affine && ir_is(g, x.beta, IR_CONST_F) &&
        ir_node(g, x.beta)->f == 0) {
        out->alpha = x.alpha;
        out->outer = a->outer ? a->outer : ir_const_f(g, 1);
    }
    return !g->failed;
}

bool score_split(struct ir_graph *g, ir_ref score, struct score_frame *out)
{
    struct affine_score a;
    *out = (struct score_frame){.inner = score, .log2 = true, .multiplier = 1};
    if (!pass_affine_score(g, score, &a))
        return false;
    if (!find_narrow(g, score, &a, out))
        return false;
    if (a.affine || !ir_is(g, a.outer, IR_CONST_F))
        return true;
    const double by = ir_node(g, a.outer)->f;
    if (!(by > 1e-30 && by < 1e30)) /* positive, far from f32's ends */
        return true;
    out->log2 = false;
    out->inner = a.inner;
    out->multiplier = by * log2e;
    if (ir_is(g, a.inner, IR_FTANH) && by <= max_tanh_factor) {
        out->inner = ir_mul(g, ir_const_f(g, 2), ir_arg(g, a.inner, 0));
        out->tanh_below = true;
        out->shift = out->multiplier;
        out->multiplier *= 2;
    }
    return !g->failed;
}

const char *score_cell(struct emitter *e, const struct score_frame *f)
{
    if (!f->log2 && !f->tanh_below)
        return expr_text(e, PLACE_SCORE, f->inner);
    const char *x = score_times_log2e(e, PLACE_SCORE, f->inner);
    return f->tanh_below
               ? writer_format(e, "facc_tanh_below(%s)", writer_bare(e, x))
               : x;
}

const char *score_plane_cell(struct emitter *e, const struct score_frame *f,
                             bool moved, bool *adds)
{
    const struct affine_score *a = &e->affine[f->inner];
    *adds = !moved && f->log2 && !f->tanh_below && a->affine;
    if (!*adds)
        return score_cell(e, f);
    const char *by = scale(e, a->alpha, true);
    return writer_format(e, "fmaf(s, %s, %s + base.by.by)", by,
                         score_times_log2e(e, PLACE_SCORE, a->beta));
}

/* --- the offset ---------------------------------------------------------- */

struct addend {
    bool of_row;     /* or tile; else a slope */
    ir_ref form, by; /* of a slope; a row's value, IR_NONE */
    bool negative;
};

static bool is_addend(const struct emitter *e, ir_ref r, struct addend *out)
{
    if (!out->of_row)
        return as_slope(e, PLACE_SCORE, r, &out->form, &out->by);
    const enum place home = expr_home(e, PLACE_SCORE, r);
    out->form = r;
    out->by = IR_NONE;
    return home == PLACE_ROW || home == PLACE_TILE;
}

/* A number of that kind that the text of r times log2(e) adds once, in the
 * order of printing. */
static bool find_addend(const struct emitter *e, ir_ref r, bool negative,
                        struct addend *out)
{
    const struct ir_node *n = ir_node(e->g, r);
    if (e->at[PLACE_SCORE].uses[r] > 1) /* a local, added more than once? */
        return false;
    out->negative = negative;
    if (is_addend(e, r, out))
        return true;
    if (is_wider(e, PLACE_SCORE, r) || !is_distributed(e, r))
        return false;
    if (n->op == IR_FNEG)
        return find_addend(e, ir_arg(e->g, r, 0), !negative, out);
    return (n->op == IR_FADD || n->op == IR_FSUB) &&
           (find_addend(e, ir_arg(e->g, r, 0), negative, out) ||
            find_addend(e, ir_arg(e->g, r, 1), negative != (n->op == IR_FSUB),
                        out));
}

/* How often a member's name is in a text. "" has no memory: in none. */
static int count_name(const char *text, const char *name)
{
    const size_t len = strlen(name);
    int n = 0;
    for (const char *s = text; len > 0 && (s = strstr(s, name)) != NULL;
         s += len)
        n += s[len] < '0' || s[len] > '9';
    return n;
}

static bool find_cell_addend(const struct emitter *e,
                             const struct score_frame *f, struct addend *out)
{
    return !e->failed && f->log2 && !f->tanh_below &&
           e->affine[f->inner].affine &&
           find_addend(e, e->affine[f->inner].beta, false, out);
}

/* In the cell's text with its locals. */
static int count_in_cell(const struct emitter *e, const char *cell,
                         const char *name)
{
    return count_name(cell, name) +
           count_name(strbuf_text(&e->at[PLACE_SCORE].body), name);
}

void score_pick_addend(struct emitter *e, const struct score_frame *f)
{
    struct addend slope = {.of_row = false}, row = {.of_row = true};
    e->addend = IR_NONE;
    if (!find_cell_addend(e, f, &slope) && find_cell_addend(e, f, &row))
        e->addend = row.form;
}

const char *score_offset(struct emitter *e, const struct score_frame *f,
                         const char *cell)
{
    struct addend a = {.of_row = e->addend != IR_NONE};
    if (e->far_bias != IR_NONE)
        return far_offset(e);
    if (!find_cell_addend(e, f, &a))
        return NULL;
    const char *name = member_name(
        e, PLACE_BASE, e->addend == IR_NONE ? MEMBER_SLOPE : MEMBER_ADDEND,
        a.form, a.by);
    if (count_in_cell(e, cell, name) != 1) /* two slopes may be one member */
        return NULL;
    const char *member = strchr(name, '.');
    if (e->plane.rows.load != IR_NONE || e->addend != IR_NONE)
        return writer_format(
            e, "        moved%s = facc_moved(base%s, %sby);\n%s", member,
            member, a.negative ? "-" : "",
            e->plane.rows.load != IR_NONE ? "        moved.by.moved = true;\n"
                                          : "");
    return writer_format(e, "        moved%s %s= by;\n", member,
                         a.negative ? "-" : "+");
}

/* --- the cheap form ------------------------------------------------------ */

const char *score_narrow_value(struct emitter *e, ir_ref alpha, ir_ref by)
{
    const char *factor = scale(e, alpha, false);
    return writer_format(e, "facc_narrow_tanh(%s, %s)", factor,
                         score_times_log2e(e, PLACE_SCORE, by));
}

const char *score_narrow(struct emitter *e, const struct score_frame *f)
{
    if (f->alpha == IR_NONE)
        return NULL;
    return member_name(e, PLACE_TILE, MEMBER_NARROW, f->alpha, f->outer);
}

/* Nodes as C text. In: a node and the place that asks; out: an expression of
 * names, members and literals, with shared values named once in their place.
 * Ops print by ops.def's cuda column; leaves, loads and logic here, linear
 * forms in form.c. Called by variant.c for the roots, and by every file that
 * prints operands. */
#include "compiler/emit/writer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A text longer than this becomes a variable of its own. */
enum { MAX_TEXT = 160 };

bool expr_is_cell(enum place p)
{
    return p == PLACE_SCORE || p == PLACE_MASK;
}

bool expr_fits_int(struct range x)
{
    return x.lo >= INT32_MIN && x.hi <= INT32_MAX;
}

const char *expr_type(const struct emitter *e, ir_ref r)
{
    switch ((enum ir_type)ir_node(e->g, r)->type) {
    case IR_BOOL:
        return "bool";
    case IR_FLOAT:
        return "float";
    case IR_INT:
        break;
    }
    return expr_fits_int(e->range[r]) ? "int" : "long long";
}

/* Made where it is asked for: literals, arguments, sizes. */
static bool is_leaf(const struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    if (n->op == IR_VAR_I && (n->i == IR_VAR_B || n->i == IR_VAR_H))
        return p == PLACE_TILE;
    return n->n == 0 && n->op != IR_LOAD_B && n->op != IR_LOAD_I &&
           n->op != IR_LOAD_F;
}

enum place expr_home(const struct emitter *e, enum place p, ir_ref r)
{
    if (is_leaf(e, p, r))
        return p;
    switch (e->scope[r]) {
    case SCOPE_TILE:
        return PLACE_TILE;
    case SCOPE_ROW:
        return p == PLACE_Q_ADD ? p : PLACE_ROW;
    case SCOPE_COL:
        return p == PLACE_KV_ADD ? p : PLACE_COL;
    case SCOPE_DIAG:
        return e->cost[r] >= COSTLY ? PLACE_DIAG : p;
    case SCOPE_CELL:
        break;
    }
    return p;
}

const char *expr_float_const(struct emitter *e, double v)
{
    const float f = (float)v;
    if (isnan(f))
        return "__int_as_float(0x7fffffff)";
    if (isinf(f))
        return f > 0 ? "__int_as_float(0x7f800000)"
                     : "__int_as_float(0xff800000)";
    struct strbuf b;
    strbuf_init(&b, e->arena);
    strbuf_add_double(&b, (double)f);
    e->failed |= b.failed;
    const char *s = strbuf_text(&b);
    const char *dot = strpbrk(s, ".e") ? "" : ".0";
    return signbit(f) ? writer_format(e, "(%s%sf)", s, dot)
                      : writer_format(e, "%s%sf", s, dot);
}

const char *expr_int_const(struct emitter *e, int64_t v, bool wide)
{
    if (v == INT64_MIN)
        return "(-9223372036854775807ll - 1)";
    if (v == INT32_MIN && !wide)
        return "kMinInt";
    wide |= v < INT32_MIN || v > INT32_MAX;
    return writer_format(e, v < 0 ? "(%" PRId64 "%s)" : "%" PRId64 "%s", v,
                         wide ? "ll" : "");
}

static const char *variable(struct emitter *e, enum place p, int64_t var)
{
    static const char *const name[IR_VAR_COUNT] = {
        [IR_VAR_B] = "b",
        [IR_VAR_H] = "h",
        [IR_VAR_Q] = "q",
        [IR_VAR_KV] = "kv",
        [IR_VAR_SIZE_B] = "args.B",
        [IR_VAR_SIZE_H] = "args.H",
        [IR_VAR_SIZE_HKV] = "args.Hkv",
        [IR_VAR_SIZE_Q] = "args.Sq",
        [IR_VAR_SIZE_KV] = "args.Skv",
        [IR_VAR_SIZE_D] = "kHeadDim",
        [IR_VAR_SIZE_DV] = "kHeadDimV"};
    if (var == IR_VAR_KV && expr_is_cell(p))
        return "(kv0 + c)";
    if (var == IR_VAR_KV && p == PLACE_BASE)
        return "kv0";
    (void)e;
    return name[var];
}

static const char *leaf(struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    if (n->op == IR_CONST_F)
        return expr_float_const(e, n->f);
    if (n->op == IR_CONST_I)
        return expr_int_const(e, n->i, false);
    if (n->op == IR_CONST_B)
        return emit_bool(n->i != 0);
    if (n->op == IR_VAR_I)
        return variable(e, p, n->i);
    if (n->op == IR_PARAM_F)
        return writer_format(e, "args.params[%" PRId64 "].f", n->i);
    if (n->op == IR_PARAM_I)
        return writer_format(e,
                             expr_fits_int(e->range[r])
                                 ? "(int)args.params[%" PRId64 "].i"
                                 : "args.params[%" PRId64 "].i",
                             n->i);
    return writer_format(e, "(s * %s)", writer_scale(e, false)); /* SCORE */
}

/* --- loads --------------------------------------------------------------- */

static const char *index_offset(struct emitter *e, enum place p, ir_ref load,
                                uint32_t d)
{
    return writer_format(
        e, "facc_at<%u>(args.tensors[%" PRId64 "], %s)", d,
        ir_node(e->g, load)->i,
        writer_bare(e, expr_text(e, p, ir_arg(e->g, load, d))));
}

/* The widest-scope place below p that knows some index of the load: row, else
 * tile. Column parts stay with the cell: 64-bit values per column are dear. */
static enum place offset_home(const struct emitter *e, enum place p,
                              ir_ref load)
{
    bool tile = false, row = false;
    for (uint32_t d = 0; d < ir_node(e->g, load)->n; d++) {
        const enum scope s = e->scope[ir_arg(e->g, load, d)];
        tile |= s == SCOPE_TILE;
        row |= s == SCOPE_ROW;
    }
    if (row && expr_is_cell(p))
        return PLACE_ROW;
    return tile ? PLACE_TILE : p;
}

static bool known_in(const struct emitter *e, enum place p, ir_ref r)
{
    const enum scope s = e->scope[r];
    return s == SCOPE_TILE || (p == PLACE_ROW && s == SCOPE_ROW) ||
           (p != PLACE_ROW && p != PLACE_TILE);
}

/* Terms that p knows, those of a wider place as its member. */
const char *expr_offset_part(struct emitter *e, enum place p, ir_ref load)
{
    const enum place wider = offset_home(e, p, load);
    const char *sum = "";
    if (wider != p)
        sum = member_name(e, wider, MEMBER_OFFSET, load, IR_NONE);
    for (uint32_t d = 0; d < ir_node(e->g, load)->n; d++) {
        const ir_ref x = ir_arg(e->g, load, d);
        if (!known_in(e, p, x) || (wider != p && known_in(e, wider, x)))
            continue;
        sum = writer_format(e, "%s%s%s", sum, *sum ? " + " : "",
                            index_offset(e, p, load, d));
    }
    return *sum ? sum : "0ll";
}

static const char *load(struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    if (e->by_plane && p == PLACE_SCORE && r == e->plane.rows.load)
        return "x";
    const char *text = writer_format(
        e, "facc_load_%s(args.tensors[%" PRId64 "], %s)",
        dtype_name(e->g->tensors[n->i].dtype), n->i, expr_offset_part(e, p, r));
    return text;
}

/* "facc_load_f16, 3": how the elements of a row are read, and the dimension
 * that it runs along. */
static const char *row_reader(struct emitter *e, ir_ref load)
{
    const struct ir_node *n = ir_node(e->g, load);
    return writer_format(e, "facc_load_%s, %" PRIu32,
                         dtype_name(e->g->tensors[n->i].dtype), n->n - 1);
}

/* A sum of products along the rows that the operands are the beginnings of. */
static const char *dot(struct emitter *e, enum place p, ir_ref r)
{
    const ir_ref a = ir_arg(e->g, r, 0), b = ir_arg(e->g, r, 1);
    return writer_format(
        e,
        "facc_dot<%" PRId64 ", %s, %s>(args.tensors[%" PRId64 "], %s, "
        "args.tensors[%" PRId64 "], %s)",
        ir_dot_length(e->g, r), row_reader(e, a), row_reader(e, b),
        ir_node(e->g, a)->i, expr_offset_part(e, p, a), ir_node(e->g, b)->i,
        expr_offset_part(e, p, b));
}

/* --- logic --------------------------------------------------------------- */

/* Where an operand of n-ary logic is decided: a place, or p itself. */
static enum place operand_home(const struct emitter *e, enum place p, ir_ref x)
{
    return expr_is_cell(p) && form_kv(e, x) ? p : expr_home(e, p, x);
}

static void join(struct emitter *e, struct strbuf *b, ir_ref r, const char *x)
{
    strbuf_add(b, b->len == 0 ? "(" : ir_is(e->g, r, IR_AND) ? " & " : " | ");
    strbuf_add(b, x);
}

static const char *joined(struct emitter *e, struct strbuf *b)
{
    strbuf_add(b, ")");
    e->failed |= b->failed;
    return strbuf_text(b);
}

/* The operands that the place itself decides, as its members' part. */
const char *expr_logic_part(struct emitter *e, enum place p, ir_ref r)
{
    struct strbuf b;
    strbuf_init(&b, e->arena);
    for (uint32_t k = 0; k < ir_node(e->g, r)->n; k++) {
        const ir_ref x = ir_arg(e->g, r, k);
        if (operand_home(e, PLACE_MASK, x) == p)
            join(e, &b, r, expr_text(e, p, x));
    }
    return joined(e, &b);
}

/* In a cell, operands of one wider place are decided there, together. */
static const char *logic(struct emitter *e, enum place p, ir_ref r)
{
    int n_at[PLACE_COUNT] = {0};
    struct strbuf b;
    strbuf_init(&b, e->arena);
    for (uint32_t k = 0; expr_is_cell(p) && k < ir_node(e->g, r)->n; k++)
        n_at[operand_home(e, p, ir_arg(e->g, r, k))]++;
    n_at[p] = 0;
    for (int w = PLACE_TILE; w <= PLACE_DIAG; w++)
        if (n_at[w] > 1)
            join(e, &b, r,
                 member_name(e, (enum place)w, MEMBER_PART, r, IR_NONE));
    for (uint32_t k = 0; k < ir_node(e->g, r)->n; k++) {
        const ir_ref x = ir_arg(e->g, r, k);
        if (n_at[operand_home(e, p, x)] < 2)
            join(e, &b, r, expr_text(e, p, x));
    }
    return joined(e, &b);
}

/* --- ops of the table ---------------------------------------------------- */

/* 64-bit if any int among result and operands is: the operation is done at
 * that width. */
static bool op_is_wide(const struct emitter *e, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    bool wide = n->type == IR_INT && !expr_fits_int(e->range[r]);
    for (uint32_t k = 0; k < n->n; k++) {
        const ir_ref x = ir_arg(e->g, r, k);
        wide |= ir_node(e->g, x)->type == IR_INT && !expr_fits_int(e->range[x]);
    }
    return wide || n->op == IR_ISHL || n->op == IR_ISHR;
}

static const char *substitute(struct emitter *e, const char *pattern,
                              const char *const *operand)
{
    struct strbuf b;
    strbuf_init(&b, e->arena);
    for (const char *s = pattern; *s; s++) {
        if (s[0] != '$') {
            strbuf_addn(&b, s, 1);
            continue;
        }
        /* a call's argument needs no parentheses of its own */
        const char *x = operand[s[1] - '0'];
        const bool argument =
            s > pattern && (s[-1] == '(' || (s[-1] == ' ' && s[-2] == ',')) &&
            (s[2] == ',' || s[2] == ')');
        strbuf_add(&b, argument ? writer_bare(e, x) : x);
        s++;
    }
    e->failed |= b.failed;
    return strbuf_text(&b);
}

/* Non-negative by positive constant: plain unsigned division. */
static const char *unsigned_division(struct emitter *e, enum place p, ir_ref r,
                                     bool wide)
{
    const struct ir_node *n = ir_node(e->g, r);
    const ir_ref x = ir_arg(e->g, r, 0), y = ir_arg(e->g, r, 1);
    if ((n->op != IR_IDIV && n->op != IR_IMOD) || wide ||
        !ir_is(e->g, y, IR_CONST_I) || ir_node(e->g, y)->i <= 0 ||
        e->range[x].lo < 0)
        return NULL;
    return writer_format(e, "(int)((unsigned)%s %c %" PRId64 "u)",
                         expr_text(e, p, x), n->op == IR_IDIV ? '/' : '%',
                         ir_node(e->g, y)->i);
}

/* Exponents from here to its negation are written out as products. */
enum { MAX_POWER = 8 };

/* x ^ n of a small whole constant n: powf takes a hundred instructions. */
static const char *small_power(struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, ir_arg(e->g, r, 1));
    const double v = n->op == IR_CONST_F ? n->f : 0.5;
    if (v != floor(v) || fabs(v) > MAX_POWER)
        return NULL;
    return writer_format(e, "facc_power<%d>(%s)", (int)v,
                         writer_bare(e, expr_text(e, p, ir_arg(e->g, r, 0))));
}

/* Sums and products of masks are not contracted: the same value must have the
 * same bits in every kernel, whatever is around it. */
static const char *op_pattern(const struct emitter *e, ir_ref r)
{
    const enum ir_op op = (enum ir_op)ir_node(e->g, r)->op;
    if (e->of_mask[r] && op == IR_FADD)
        return "__fadd_rn($0, $1)";
    if (e->of_mask[r] && op == IR_FSUB)
        return "__fsub_rn($0, $1)";
    if (e->of_mask[r] && op == IR_FMUL)
        return "__fmul_rn($0, $1)";
    return ir_op_info(op)->cuda;
}

static const char *table_op(struct emitter *e, enum place p, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    const bool wide = op_is_wide(e, r);
    const char *text = n->n == 2 ? unsigned_division(e, p, r, wide) : NULL;
    if (text)
        return text;
    const char *operand[3] = {"", "", ""};
    for (uint32_t k = 0; k < n->n && k < 3; k++) {
        const ir_ref x = ir_arg(e->g, r, k);
        operand[k] = wide && ir_node(e->g, x)->type == IR_INT
                         ? expr_wide(e, p, x)
                         : expr_text(e, p, x);
    }
    text = substitute(e, op_pattern(e, r), operand);
    const bool narrow = n->type == IR_INT && wide && expr_fits_int(e->range[r]);
    return narrow ? writer_format(e, "(int)%s", text) : text;
}

/* --- any node ------------------------------------------------------------ */

static const char *length(struct emitter *e, enum place p, ir_ref r)
{
    return writer_format(e, "facc_len_%s(args, %s)",
                         ir_is(e->g, r, IR_LEN_Q) ? "q" : "kv",
                         expr_text(e, p, ir_arg(e->g, r, 0)));
}

static const char *inline_text(struct emitter *e, enum place p, ir_ref r)
{
    const enum ir_op op = (enum ir_op)ir_node(e->g, r)->op;
    if (op == IR_LIN)
        return form_value(e, p, r, !expr_fits_int(e->range[r]));
    if (op == IR_GE0 || op == IR_EQ0)
        return form_compare(e, p, r, false);
    if (op == IR_NOT && ir_is(e->g, ir_arg(e->g, r, 0), IR_EQ0))
        return form_compare(e, p, ir_arg(e->g, r, 0), true);
    if (op == IR_LOAD_B || op == IR_LOAD_I || op == IR_LOAD_F)
        return load(e, p, r);
    if (op == IR_LEN_Q || op == IR_LEN_KV)
        return length(e, p, r);
    if (op == IR_DOT)
        return dot(e, p, r);
    const char *power = op == IR_FPOW ? small_power(e, p, r) : NULL;
    if (power)
        return power;
    if (op == IR_AND || op == IR_OR)
        return logic(e, p, r);
    const char *folded = p == PLACE_SCORE ? score_folded(e, r) : NULL;
    return folded ? folded : table_op(e, p, r);
}

/* Linear in kv with the rest known to the row: from Base, whatever scope. */
static bool from_base(const struct emitter *e, enum place p, ir_ref r)
{
    if (ir_is(e->g, r, IR_I2F) || ir_is(e->g, r, IR_NOT))
        r = ir_arg(e->g, r, 0);
    return expr_is_cell(p) && form_kv(e, r) != 0;
}

const char *expr_text(struct emitter *e, enum place p, ir_ref r)
{
    struct place_text *at = &e->at[p];
    if (e->failed)
        return "";
    if (at->local[r])
        return at->local[r];
    if (is_leaf(e, p, r))
        return leaf(e, p, r);
    const enum place where = expr_home(e, p, r);
    if (where != p && !from_base(e, p, r))
        return member_name(e, where, MEMBER_VALUE, r, IR_NONE);
    const char *text = inline_text(e, p, r);
    if (at->uses[r] < 2 && strlen(text) <= MAX_TEXT)
        return text;
    return at->local[r] = writer_add_local(e, p, r, expr_type(e, r), text);
}

const char *expr_wide(struct emitter *e, enum place p, ir_ref r)
{
    if (ir_is(e->g, r, IR_CONST_I))
        return expr_int_const(e, ir_node(e->g, r)->i, true);
    const char *text = expr_text(e, p, r);
    return expr_fits_int(e->range[r]) ? writer_format(e, "(long long)%s", text)
                                      : text;
}

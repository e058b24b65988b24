/* In: c ? t : f. Out: logic where t and f are booleans; else a select with
 * everything both arms share moved out of it: terms of linear forms, equal
 * operands of one op (two loads become one load of a selected index), the
 * score of s * k and s. Only what keeps every bit of every value. Called by
 * the tracer when paths merge, and by passes. */
#include "compiler/ir/ir.h"

#include <math.h>

#include "compiler/ir/scratch.h"

/* Levels of operands that a select moves into; beyond, it is left outside:
 * two sums that differ in their first of many terms must not fill the C
 * stack. */
enum { MAX_DEPTH = 200 };

static ir_ref choose(struct ir_graph *g, ir_ref c, ir_ref t, ir_ref f,
                     int depth);

static enum ir_type type_of(const struct ir_graph *g, ir_ref r)
{
    return ir_node(g, r)->type;
}

static bool arm_is(const struct ir_graph *g, ir_ref r, bool v)
{
    return ir_is(g, r, IR_CONST_B) && (ir_node(g, r)->i != 0) == v;
}

/* --- booleans --------------------------------------------------------- */

struct parts { /* operands of an AND or OR, or one thing alone */
    ir_ref *x;
    uint32_t n;
};

static bool parts_of(struct ir_graph *g, ir_ref r, enum ir_op op,
                     struct parts *p)
{
    p->n = ir_is(g, r, op) ? ir_node(g, r)->n : 1;
    p->x = scratch_alloc(g, (p->n + 1) * sizeof *p->x);
    if (!p->x)
        return false;
    p->x[0] = r;
    for (uint32_t k = 0; ir_is(g, r, op) && k < p->n; k++)
        p->x[k] = ir_arg(g, r, k);
    return true;
}

/* Moves what both lists hold into common; both are sorted by hash. */
static void take_common(const struct ir_graph *g, struct parts *a,
                        struct parts *b, struct parts *common)
{
    uint32_t i = 0, j = 0, na = 0, nb = 0;
    while (i < a->n && j < b->n) {
        if (a->x[i] == b->x[j]) {
            common->x[common->n++] = a->x[i++];
            j++;
        } else if (ir_node(g, a->x[i])->hash <= ir_node(g, b->x[j])->hash) {
            a->x[na++] = a->x[i++];
        } else {
            b->x[nb++] = b->x[j++];
        }
    }
    while (i < a->n)
        a->x[na++] = a->x[i++];
    while (j < b->n)
        b->x[nb++] = b->x[j++];
    a->n = na;
    b->n = nb;
}

static ir_ref join(struct ir_graph *g, enum ir_op op, const struct parts *p)
{
    return op == IR_OR ? ir_or(g, p->n, p->x) : ir_and(g, p->n, p->x);
}

/* c ? (s op t) : (s op f) is s op (c ? t : f). *done: there was an s. */
static ir_ref pull_out(struct ir_graph *g, enum ir_op op, ir_ref c, ir_ref t,
                       ir_ref f, int depth, bool *done)
{
    struct scratch_mark mark = scratch_mark(g);
    struct parts a, b, s = {.n = 0};
    ir_ref out = IR_NONE;
    *done = false;
    if (parts_of(g, t, op, &a) && parts_of(g, f, op, &b) &&
        parts_of(g, t, op, &s)) {
        s.n = 0;
        take_common(g, &a, &b, &s);
        *done = s.n > 0;
        if (*done) {
            s.x[s.n++] =
                choose(g, c, join(g, op, &a), join(g, op, &b), depth + 1);
            out = join(g, op, &s);
        }
    }
    scratch_release(g, mark);
    return out;
}

static ir_ref select_bool(struct ir_graph *g, ir_ref c, ir_ref t, ir_ref f,
                          int depth)
{
    bool done;
    ir_ref r = pull_out(g, IR_OR, c, t, f, depth, &done);
    if (!done && !g->failed)
        r = pull_out(g, IR_AND, c, t, f, depth, &done);
    if (done || g->failed)
        return r;
    ir_ref not_c = ir_not(g, c);
    if (arm_is(g, t, true))
        return ir_or2(g, c, f);
    if (arm_is(g, t, false))
        return ir_and2(g, not_c, f);
    if (arm_is(g, f, true))
        return ir_or2(g, not_c, t);
    if (arm_is(g, f, false))
        return ir_and2(g, c, t);
    ir_ref both = ir_and2(g, t, f);
    if (both == f) /* f implies t: no guard on f */
        return ir_or2(g, f, ir_and2(g, c, t));
    if (both == t)
        return ir_or2(g, t, ir_and2(g, not_c, f));
    return ir_or2(g, ir_and2(g, c, t), ir_and2(g, not_c, f));
}

/* --- numbers ----------------------------------------------------------- */

/* Of c and its negation one is chosen by structure alone, so that both ways
 * to write a select give one node. */
static bool wrong_polarity(struct ir_graph *g, ir_ref c, ir_ref not_c)
{
    if (ir_is(g, c, IR_NOT))
        return true;
    if (ir_is(g, not_c, IR_NOT))
        return false;
    if (ir_is(g, c, IR_GE0))
        return ir_coef(g, c, 0) < 0;
    return ir_node(g, not_c)->hash < ir_node(g, c)->hash;
}

static bool is_select(const struct ir_graph *g, ir_ref r)
{
    return ir_is(g, r, IR_SEL_I) || ir_is(g, r, IR_SEL_F);
}

/* An arm that selects by the same condition again has only one side left. */
static ir_ref live_arm(const struct ir_graph *g, ir_ref arm, ir_ref c,
                       ir_ref not_c, bool taken)
{
    while (is_select(g, arm)) {
        ir_ref d = ir_arg(g, arm, 0);
        if (d != c && d != not_c)
            break;
        arm = ir_arg(g, arm, (d == c) == taken ? 1 : 2);
    }
    return arm;
}

/* Value that leaves every x as it is, bit for bit, in x op value. */
static bool neutral_right(enum ir_op op, double *v)
{
    switch ((int)op) {
    case IR_FADD:
        *v = -0.0;
        return true;
    case IR_FSUB:
        *v = 0.0;
        return true;
    case IR_FMUL:
    case IR_FDIV:
        *v = 1.0;
        return true;
    default:
        return false;
    }
}

static bool commutes(enum ir_op op)
{
    static const uint8_t yes[IR_OP_COUNT] = {
        [IR_FADD] = 1, [IR_FMUL] = 1, [IR_IMUL] = 1, [IR_IMIN] = 1,
        [IR_IMAX] = 1, [IR_IAND] = 1, [IR_IOR] = 1,  [IR_IXOR] = 1};
    return yes[op];
}

/* c ? s * k : s is s * (c ? k : 1); the same for + - /. */
static ir_ref select_step(struct ir_graph *g, ir_ref c, ir_ref t, ir_ref f,
                          int depth)
{
    for (int swap = 0; swap < 2; swap++) {
        ir_ref s = swap ? t : f, stepped = swap ? f : t;
        enum ir_op op = ir_node(g, stepped)->op;
        double neutral;
        if (!neutral_right(op, &neutral))
            continue;
        uint32_t side = ir_arg(g, stepped, 0) == s ? 1 : 0;
        if (ir_arg(g, stepped, 1 - side) != s || (side == 0 && !commutes(op)))
            continue;
        ir_ref k = ir_arg(g, stepped, side), one = ir_const_f(g, neutral);
        ir_ref x[2] = {s, swap ? choose(g, c, one, k, depth + 1)
                               : choose(g, c, k, one, depth + 1)};
        return x[1] == IR_NONE ? IR_NONE : ir_build(g, op, x);
    }
    return IR_NONE;
}

/* c ? q + x : q + y is q + (c ? x : y). */
static ir_ref select_linear(struct ir_graph *g, ir_ref c, ir_ref t, ir_ref f,
                            int depth)
{
    struct ir_linear a, b, shared;
    if (!ir_is(g, t, IR_LIN) && !ir_is(g, f, IR_LIN))
        return IR_NONE;
    if (!ir_linear_of(g, t, &a) || !ir_linear_of(g, f, &b))
        return IR_NONE;
    ir_linear_init(&shared, 0);
    for (uint32_t i = 0; i < a.n; i++)
        for (uint32_t j = 0; j < b.n; j++)
            if (a.term[i] == b.term[j] && a.k[i] == b.k[j] &&
                !ir_linear_axpy(g, &shared, a.term[i], a.k[i]))
                return IR_NONE;
    if (!shared.n)
        return IR_NONE;
    for (uint32_t j = 0; j < shared.n; j++)
        if (!ir_linear_axpy(g, &a, shared.term[j], -shared.k[j]) ||
            !ir_linear_axpy(g, &b, shared.term[j], -shared.k[j]))
            return IR_NONE;
    ir_ref s =
        choose(g, c, ir_linear_node(g, &a), ir_linear_node(g, &b), depth + 1);
    if (s == IR_NONE || !ir_linear_axpy(g, &shared, s, 1))
        return IR_NONE;
    return ir_linear_node(g, &shared);
}

/* Operand of f that stands where t has operand k. */
static ir_ref partner(const struct ir_graph *g, ir_ref t, ir_ref f, uint32_t k)
{
    bool crossed =
        commutes(ir_node(g, t)->op) && (ir_arg(g, t, 0) == ir_arg(g, f, 1) ||
                                        ir_arg(g, t, 1) == ir_arg(g, f, 0));
    return ir_arg(g, f, crossed ? 1 - k : k);
}

/* c ? op(x, y) : op(x, z) is op(x, c ? y : z); loads of one tensor select
 * all their indices: what is read is what the chosen arm reads. */
static ir_ref select_operand(struct ir_graph *g, ir_ref c, ir_ref t, ir_ref f,
                             int depth)
{
    const struct ir_node *p = ir_node(g, t), *q = ir_node(g, f);
    if (p->op != q->op || p->i != q->i || p->n != q->n || p->n == 0 ||
        p->op == IR_LIN || p->op == IR_DOT || is_select(g, t))
        return IR_NONE;
    uint32_t n = p->n, different = 0;
    for (uint32_t k = 0; k < n; k++)
        different += ir_arg(g, t, k) != partner(g, t, f, k);
    if (different != 1 && !ir_op_is_load(ir_node(g, t)->op))
        return IR_NONE;
    ir_ref x[IR_MAX_RANK];
    for (uint32_t k = 0; k < n; k++) {
        ir_ref a = ir_arg(g, t, k), b = partner(g, t, f, k);
        x[k] = a == b ? a : choose(g, c, a, b, depth + 1);
    }
    return ir_rebuild(g, t, x);
}

/* A select in an arm that shares a value with the other arm is one select
 * by more logic: c ? x : (d ? x : y) is c or d ? x : y. */
static ir_ref select_nested(struct ir_graph *g, ir_ref c, ir_ref t, ir_ref f,
                            int depth)
{
    for (uint32_t k = 1; k <= 2 && is_select(g, f); k++)
        if (ir_arg(g, f, k) == t) {
            ir_ref d = ir_arg(g, f, 0);
            ir_ref either = ir_or2(g, c, k == 1 ? d : ir_not(g, d));
            return choose(g, either, t, ir_arg(g, f, 3 - k), depth + 1);
        }
    for (uint32_t k = 1; k <= 2 && is_select(g, t); k++)
        if (ir_arg(g, t, k) == f) {
            ir_ref d = ir_arg(g, t, 0);
            ir_ref both = ir_and2(g, c, k == 2 ? d : ir_not(g, d));
            return choose(g, both, ir_arg(g, t, 3 - k), f, depth + 1);
        }
    return IR_NONE;
}

static ir_ref select_number(struct ir_graph *g, ir_ref c, ir_ref t, ir_ref f,
                            int depth)
{
    enum ir_type type = type_of(g, t);
    ir_ref r = IR_NONE;
    if (depth < MAX_DEPTH) {
        r = select_nested(g, c, t, f, depth);
        if (!r && !g->failed)
            r = type == IR_FLOAT ? select_step(g, c, t, f, depth)
                                 : select_linear(g, c, t, f, depth);
        if (!r && !g->failed)
            r = select_operand(g, c, t, f, depth);
    }
    if (r || g->failed)
        return r;
    ir_ref x[3] = {c, t, f};
    return ir_intern(g, type == IR_INT ? IR_SEL_I : IR_SEL_F, type, 3, x, NULL,
                     0, 0);
}

static ir_ref choose(struct ir_graph *g, ir_ref c, ir_ref t, ir_ref f,
                     int depth)
{
    if (g->failed || c == IR_NONE || t == IR_NONE || f == IR_NONE)
        return IR_NONE;
    if (ir_is(g, c, IR_CONST_B))
        return ir_node(g, c)->i ? t : f;
    if (t == f)
        return t;
    if (type_of(g, t) == IR_BOOL && type_of(g, f) == IR_BOOL)
        return select_bool(g, c, t, f, depth);
    if (type_of(g, t) != type_of(g, f)) {
        t = ir_to_float(g, t);
        f = ir_to_float(g, f);
    }
    ir_ref not_c = ir_not(g, c);
    if (not_c == IR_NONE || t == IR_NONE || f == IR_NONE)
        return IR_NONE;
    t = live_arm(g, t, c, not_c, true);
    f = live_arm(g, f, c, not_c, false);
    if (t == f)
        return t;
    return wrong_polarity(g, c, not_c) ? select_number(g, not_c, f, t, depth)
                                       : select_number(g, c, t, f, depth);
}

ir_ref ir_select(struct ir_graph *g, ir_ref c, ir_ref t, ir_ref f)
{
    return choose(g, c, t, f, 0);
}

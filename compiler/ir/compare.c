/* In: two numbers (int, float or mixed). Out: a < b, a <= b, a == b as
 * booleans: GE0 and EQ0 over linear forms for ints, float comparisons else.
 * An int against a float constant is exact, as in Lua: q >= 2.5 is q >= 3,
 * q == 4.5 is false. A traced int against a traced float compares in f32,
 * exact below 2^24 only. Called by the tracer and passes. */
#include "compiler/ir/ir.h"

#include <math.h>

#include "compiler/ir/scratch.h"

static enum ir_type type_of(const struct ir_graph *g, ir_ref r)
{
    return ir_node(g, r)->type;
}

static bool numbers(struct ir_graph *g, ir_ref a, ir_ref b)
{
    if (g->failed || a == IR_NONE || b == IR_NONE)
        return false;
    if (type_of(g, a) != IR_BOOL && type_of(g, b) != IR_BOOL)
        return true;
    g->failed = true;
    return diag_set(g->diag, DIAG_INTERNAL, "ir", g->file, (int)g->line,
                    "a boolean is compared as a number");
}

/* b - a + c >= 0, or b - a + c = 0 */
static ir_ref difference(struct ir_graph *g, enum ir_op op, ir_ref a, ir_ref b,
                         int64_t c)
{
    struct scratch_mark mark = scratch_mark(g);
    struct ir_linear l;
    ir_ref r = IR_NONE;
    uint32_t room = ir_node(g, a)->n + ir_node(g, b)->n + 2;
    if (ir_linear_scratch(g, &l, c, room) && ir_linear_axpy(g, &l, b, 1) &&
        ir_linear_axpy(g, &l, a, -1))
        r = op == IR_GE0 ? ir_ge0(g, &l) : ir_eq0(g, &l);
    scratch_release(g, mark);
    return r;
}

/* a < b or a <= b of ints. Disjoint ranges decide before the difference of
 * far-away numbers could leave 64 bits. */
static ir_ref int_less(struct ir_graph *g, ir_ref a, ir_ref b, bool strict)
{
    const struct ir_node *x = ir_node(g, a), *y = ir_node(g, b);
    if (x->hi < y->lo || (!strict && x->hi == y->lo))
        return ir_const_b(g, true);
    if (x->lo > y->hi || (strict && x->lo == y->hi))
        return ir_const_b(g, false);
    return difference(g, IR_GE0, a, b, strict ? -1 : 0);
}

static ir_ref int_equal(struct ir_graph *g, ir_ref a, ir_ref b)
{
    const struct ir_node *x = ir_node(g, a), *y = ir_node(g, b);
    if (x->hi < y->lo || x->lo > y->hi)
        return ir_const_b(g, false);
    return difference(g, IR_EQ0, a, b, 0);
}

/* a <= v or a >= v for a whole v that may lie outside int64_t; strict: a < v
 * or a > v. */
static ir_ref int_bound(struct ir_graph *g, ir_ref a, double v, bool upper,
                        bool strict)
{
    if (isnan(v))
        return ir_const_b(g, false);
    if (v >= 0x1p63)
        return ir_const_b(g, upper);
    if (v < -0x1p63)
        return ir_const_b(g, !upper);
    ir_ref c = ir_const_i(g, (int64_t)v);
    if (c == IR_NONE)
        return IR_NONE;
    return upper ? int_less(g, a, c, strict) : int_less(g, c, a, strict);
}

/* Float comparison: folded where the operands decide it. */
static ir_ref compare_floats(struct ir_graph *g, enum ir_op op, ir_ref a,
                             ir_ref b)
{
    a = ir_to_float(g, a);
    b = ir_to_float(g, b);
    if (a == IR_NONE || b == IR_NONE)
        return IR_NONE;
    if (ir_is(g, a, IR_CONST_F) && ir_is(g, b, IR_CONST_F)) {
        double x = ir_node(g, a)->f, y = ir_node(g, b)->f;
        return ir_const_b(g, op == IR_FLT   ? x < y
                             : op == IR_FLE ? x <= y
                                            : x == y);
    }
    if (op == IR_FLT && a == b)
        return ir_const_b(g, false);
    ir_ref x[2] = {a, b};
    if (op == IR_FEQ && ir_node(g, a)->hash > ir_node(g, b)->hash) {
        x[0] = b;
        x[1] = a;
    }
    return ir_intern(g, op, IR_BOOL, 2, x, NULL, 0, 0);
}

static bool is_int_and_constant(const struct ir_graph *g, ir_ref a, ir_ref b)
{
    return type_of(g, a) == IR_INT && ir_is(g, b, IR_CONST_F);
}

ir_ref ir_lt(struct ir_graph *g, ir_ref a, ir_ref b)
{
    if (!numbers(g, a, b))
        return IR_NONE;
    if (type_of(g, a) == IR_INT && type_of(g, b) == IR_INT)
        return int_less(g, a, b, true);
    if (is_int_and_constant(g, a, b))
        return int_bound(g, a, ceil(ir_node(g, b)->f), true, true);
    if (is_int_and_constant(g, b, a))
        return int_bound(g, b, floor(ir_node(g, a)->f), false, true);
    return compare_floats(g, IR_FLT, a, b);
}

ir_ref ir_le(struct ir_graph *g, ir_ref a, ir_ref b)
{
    if (!numbers(g, a, b))
        return IR_NONE;
    if (type_of(g, a) == IR_INT && type_of(g, b) == IR_INT)
        return int_less(g, a, b, false);
    if (is_int_and_constant(g, a, b))
        return int_bound(g, a, floor(ir_node(g, b)->f), true, false);
    if (is_int_and_constant(g, b, a))
        return int_bound(g, b, ceil(ir_node(g, a)->f), false, false);
    return compare_floats(g, IR_FLE, a, b);
}

ir_ref ir_eq(struct ir_graph *g, ir_ref a, ir_ref b)
{
    if (g->failed || a == IR_NONE || b == IR_NONE)
        return IR_NONE;
    if (type_of(g, a) == IR_BOOL && type_of(g, b) == IR_BOOL)
        return ir_select(g, a, b, ir_not(g, b));
    if (!numbers(g, a, b))
        return IR_NONE;
    if (type_of(g, a) == IR_INT && type_of(g, b) == IR_INT)
        return int_equal(g, a, b);
    if (is_int_and_constant(g, b, a))
        return ir_eq(g, b, a);
    if (is_int_and_constant(g, a, b)) {
        double c = ir_node(g, b)->f;
        if (!(c >= -0x1p63 && c < 0x1p63) || floor(c) != c)
            return ir_const_b(g, false);
        return ir_eq(g, a, ir_const_i(g, (int64_t)c));
    }
    return compare_floats(g, IR_FEQ, a, b);
}

/* Numbers. In: typed operands; out: a node, with constants folded and exact
 * identities applied: ints become linear forms where they can, floats are
 * never reassociated. Called by the tracer (Lua's operators) and the passes. */
#include "compiler/ir/ir.h"

#include <assert.h>
#include <math.h>

#include "compiler/ir/eval.h"
#include "compiler/ir/eval_math.h"
#include "compiler/ir/scratch.h"

static bool is_int(const struct ir_graph *g, ir_ref r)
{
    return ir_node(g, r)->type == IR_INT;
}

static bool is_const(const struct ir_graph *g, ir_ref r)
{
    return ir_is(g, r, IR_CONST_I) || ir_is(g, r, IR_CONST_F) ||
           ir_is(g, r, IR_CONST_B);
}

static bool is_float_const(const struct ir_graph *g, ir_ref r, double v)
{
    return ir_is(g, r, IR_CONST_F) && ir_node(g, r)->f == v;
}

static void swap(ir_ref *a, ir_ref *b)
{
    ir_ref t = *a;
    *a = *b;
    *b = t;
}

static void sort_by_hash(const struct ir_graph *g, ir_ref x[2])
{
    if (ir_node(g, x[0])->hash > ir_node(g, x[1])->hash)
        swap(&x[0], &x[1]);
}

static ir_ref plain(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    const struct ir_op_info *info = ir_op_info(op);
    return ir_intern(g, op, info->out, (uint32_t)info->n, x, NULL, 0, 0);
}

/* --- ints ----------------------------------------------------------------- */

/* a * x + b * y; y may be IR_NONE */
static ir_ref linear2(struct ir_graph *g, ir_ref x, int64_t a, ir_ref y,
                      int64_t b)
{
    struct scratch_mark mark = scratch_mark(g);
    struct ir_linear l;
    ir_ref r = IR_NONE;
    if (ir_linear_scratch(g, &l, 0, ir_node(g, x)->n + ir_node(g, y)->n + 2) &&
        ir_linear_axpy(g, &l, x, a) && (!y || ir_linear_axpy(g, &l, y, b)))
        r = ir_linear_node(g, &l);
    scratch_release(g, mark);
    return r;
}

static ir_ref scaled(struct ir_graph *g, ir_ref x, int64_t k)
{
    return linear2(g, x, k, IR_NONE, 0);
}

/* Whether k * x stays within 64 bits for all of x's range. */
static bool can_scale(const struct ir_graph *g, ir_ref x, int64_t k)
{
    const struct ir_node *p = ir_node(g, x);
    int64_t t;
    if (__builtin_mul_overflow(p->lo, k, &t) ||
        __builtin_mul_overflow(p->hi, k, &t))
        return false;
    if (!ir_is(g, x, IR_LIN))
        return true;
    if (__builtin_mul_overflow(p->i, k, &t))
        return false;
    for (uint32_t j = 0; j < p->n; j++)
        if (__builtin_mul_overflow(ir_coef(g, x, j), k, &t))
            return false;
    return true;
}

static ir_ref multiply(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    if (ir_is(g, x[0], IR_CONST_I))
        swap(&x[0], &x[1]);
    if (ir_is(g, x[1], IR_CONST_I))
        return scaled(g, x[0], ir_node(g, x[1])->i);
    const struct ir_node *a = ir_node(g, x[0]), *b = ir_node(g, x[1]);
    int64_t t;
    if (__builtin_mul_overflow(a->lo, b->lo, &t) ||
        __builtin_mul_overflow(a->lo, b->hi, &t) ||
        __builtin_mul_overflow(a->hi, b->lo, &t) ||
        __builtin_mul_overflow(a->hi, b->hi, &t))
        return ir_fail_range(g);
    sort_by_hash(g, x);
    return plain(g, op, x);
}

/* (m * n + r) // n = m + r // n and (m * n + r) % n = r % n: moves whole
 * multiples of n out of `l` into `whole`. False: failed. */
static bool take_multiples(struct ir_graph *g, struct ir_linear *l,
                           struct ir_linear *whole, int64_t n)
{
    for (uint32_t j = l->n; j-- > 0;) {
        int64_t k = l->k[j];
        if (k % n != 0)
            continue;
        ir_ref t = l->term[j];
        if (!ir_linear_axpy(g, whole, t, k / n) ||
            !ir_linear_axpy(g, l, t, ev_wrap_neg(k)))
            return false;
    }
    whole->c = ev_floordiv(l->c, n);
    l->c = ev_floormod(l->c, n);
    return true;
}

/* x // n or x % n for a constant n > 1, by parts. */
static ir_ref divide_parts(struct ir_graph *g, enum ir_op op, ir_ref *x,
                           int64_t n)
{
    uint32_t room = ir_node(g, x[0])->n + 2;
    struct ir_linear l, whole;
    if (!ir_linear_scratch(g, &l, 0, room) ||
        !ir_linear_scratch(g, &whole, 0, room) ||
        !ir_linear_axpy(g, &l, x[0], 1) || !take_multiples(g, &l, &whole, n))
        return IR_NONE;
    if (whole.n == 0 && whole.c == 0)
        return plain(g, op, x);
    ir_ref y[2] = {ir_linear_node(g, &l), x[1]};
    ir_ref rest = ir_build(g, op, y);
    if (op == IR_IMOD)
        return rest;
    return ir_linear_axpy(g, &whole, rest, 1) ? ir_linear_node(g, &whole)
                                              : IR_NONE;
}

static ir_ref divide_const(struct ir_graph *g, enum ir_op op, ir_ref *x,
                           int64_t n)
{
    const struct ir_node *p = ir_node(g, x[0]);
    int64_t k = ev_floordiv(p->lo, n), multiple;
    bool div = op == IR_IDIV;
    if (n == 1)
        return div ? x[0] : ir_const_i(g, 0);
    if (k == ev_floordiv(p->hi, n)) { /* one quotient in the whole range */
        if (div)
            return ir_const_i(g, k);
        if (!__builtin_mul_overflow(-k, n, &multiple))
            return linear2(g, x[0], 1, ir_const_i(g, multiple), 1);
    }
    struct scratch_mark mark = scratch_mark(g);
    ir_ref r = divide_parts(g, op, x, n);
    scratch_release(g, mark);
    return r;
}

static ir_ref divide(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    if (ir_is(g, x[1], IR_CONST_I)) {
        int64_t n = ir_node(g, x[1])->i;
        if (n == 0) /* as a run-time zero does */
            return ir_const_i(g, 0);
        if (n > 0)
            return divide_const(g, op, x, n);
    }
    return plain(g, op, x);
}

static ir_ref min_max(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    const struct ir_node *a = ir_node(g, x[0]), *b = ir_node(g, x[1]);
    if (x[0] == x[1])
        return x[0];
    if (a->hi <= b->lo)
        return x[op == IR_IMIN ? 0 : 1];
    if (b->hi <= a->lo)
        return x[op == IR_IMIN ? 1 : 0];
    sort_by_hash(g, x);
    return plain(g, op, x);
}

static ir_ref bitwise(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    if (x[0] == x[1])
        return op == IR_IXOR ? ir_const_i(g, 0) : x[0];
    if (ir_is(g, x[0], IR_CONST_I))
        swap(&x[0], &x[1]);
    if (ir_is(g, x[1], IR_CONST_I)) {
        int64_t k = ir_node(g, x[1])->i;
        if (k == 0)
            return op == IR_IAND ? x[1] : x[0];
        if (k == -1 && op == IR_IAND)
            return x[0];
        if (k == -1 && op == IR_IOR)
            return x[1];
        if (k == -1 && can_scale(g, x[0], -1)) /* ~x = -x - 1 */
            return linear2(g, x[0], -1, ir_const_i(g, -1), 1);
    }
    sort_by_hash(g, x);
    return plain(g, op, x);
}

/* A left shift by a constant that loses no bits is a multiplication. */
static ir_ref shift(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    if (ir_is(g, x[1], IR_CONST_I)) {
        int64_t n = ir_node(g, x[1])->i;
        if (op == IR_ISHR)
            n = ev_wrap_neg(n);
        if (n == 0)
            return x[0];
        if (n <= -64 || n >= 64)
            return ir_const_i(g, 0);
        if (n > 0 && n < 63 && can_scale(g, x[0], (int64_t)1 << n))
            return scaled(g, x[0], (int64_t)1 << n);
    }
    return plain(g, op, x);
}

/* |x| and |-x| are one node: the first coefficient is positive. */
static ir_ref absolute(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    const struct ir_node *p = ir_node(g, x[0]);
    if (p->lo >= 0 || p->op == op)
        return x[0];
    bool can_negate = can_scale(g, x[0], -1);
    if (p->hi <= 0 && can_negate)
        return scaled(g, x[0], -1);
    if (p->op == IR_LIN && ir_coef(g, x[0], 0) < 0 && can_negate)
        x[0] = scaled(g, x[0], -1);
    return plain(g, op, x);
}

/* --- floats --------------------------------------------------------------- */

/* Bounds the look into a sum; beyond, the answer is the safe one. */
enum { ZERO_DEPTH = 4 };

/* Whether r is never -0, so that r - (+0) and r + (-0) are the same. A score
 * of -0 counts as 0. */
static bool never_minus_zero(const struct ir_graph *g, ir_ref r, int depth)
{
    const struct ir_node *p = ir_node(g, r);
    switch (p->op) {
    case IR_SCORE:
    case IR_I2F:
    case IR_FABS:
    case IR_FEXP:
    case IR_FEXP2:
    case IR_FSIGMOID:
        return true;
    case IR_CONST_F:
        return p->f != 0 || !signbit(p->f);
    case IR_FADD: /* -0 only from two of them */
        return depth > 0 && (never_minus_zero(g, ir_arg(g, r, 0), depth - 1) ||
                             never_minus_zero(g, ir_arg(g, r, 1), depth - 1));
    case IR_FSUB: /* -0 - 0 only */
        return depth > 0 && never_minus_zero(g, ir_arg(g, r, 0), depth - 1);
    default:
        return false;
    }
}

/* -r where that costs nothing and is exact but for the sign of zero: an int
 * form, or a product with one. IR_NONE: no such form (or failed). */
static ir_ref negated_form(struct ir_graph *g, ir_ref r)
{
    if (ir_is(g, r, IR_I2F)) {
        ir_ref x = ir_arg(g, r, 0);
        return can_scale(g, x, -1) ? ir_to_float(g, scaled(g, x, -1)) : IR_NONE;
    }
    if (!ir_is(g, r, IR_FMUL))
        return IR_NONE;
    for (uint32_t j = 0; j < 2; j++) {
        ir_ref f = ir_arg(g, r, j);
        if (!ir_is(g, f, IR_I2F) || !ir_is(g, ir_arg(g, f, 0), IR_LIN))
            continue;
        ir_ref n = negated_form(g, f);
        if (n)
            return ir_mul(g, n, ir_arg(g, r, 1 - j));
    }
    return IR_NONE;
}

static ir_ref subtract(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    ir_ref sum[2] = {x[0], IR_NONE};
    if (is_float_const(g, x[1], 0) && !signbit(ir_node(g, x[1])->f))
        return x[0];
    if (ir_is(g, x[1], IR_FNEG))
        sum[1] = ir_arg(g, x[1], 0);
    else if (never_minus_zero(g, x[0], ZERO_DEPTH))
        sum[1] = negated_form(g, x[1]);
    if (g->failed)
        return IR_NONE;
    return sum[1] ? ir_build(g, IR_FADD, sum) : plain(g, op, x);
}

/* A power of two whose reciprocal is a normal f32: dividing by it and
 * multiplying by the reciprocal round alike. */
static bool exact_reciprocal(double v)
{
    int e;
    return fabs(frexp(v, &e)) == 0.5 && e > -120 && e < 120;
}

/* Signs leave products and quotients, which is exact: -a * b is -(a * b). True
 * when the result is to be negated. */
static bool take_signs(const struct ir_graph *g, ir_ref x[2])
{
    bool negate = false;
    for (int j = 0; j < 2; j++) {
        if (ir_is(g, x[j], IR_FNEG)) {
            x[j] = ir_arg(g, x[j], 0);
            negate = !negate;
        }
    }
    return negate;
}

static ir_ref negated_build(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    ir_ref r = ir_build(g, op, x);
    return ir_build(g, IR_FNEG, &r);
}

static ir_ref float_divide(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    if (take_signs(g, x))
        return negated_build(g, op, x);
    if (!ir_is(g, x[1], IR_CONST_F) || !exact_reciprocal(ir_node(g, x[1])->f))
        return plain(g, op, x);
    ir_ref y[2] = {x[0], ir_const_f(g, 1 / ir_node(g, x[1])->f)};
    return ir_build(g, IR_FMUL, y);
}

static ir_ref float_multiply(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    if (take_signs(g, x))
        return negated_build(g, op, x);
    for (int j = 0; j < 2; j++) {
        if (is_float_const(g, x[j], 1))
            return x[1 - j];
        if (is_float_const(g, x[j], -1))
            return ir_build(g, IR_FNEG, &x[1 - j]);
    }
    sort_by_hash(g, x);
    return plain(g, op, x);
}

static ir_ref power(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    return is_float_const(g, x[1], 1) ? x[0] : plain(g, op, x);
}

static ir_ref negate(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    return ir_is(g, x[0], op) ? ir_arg(g, x[0], 0) : plain(g, op, x);
}

static ir_ref float_absolute(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    if (ir_is(g, x[0], op))
        return x[0];
    if (ir_is(g, x[0], IR_FNEG))
        x[0] = ir_arg(g, x[0], 0);
    return plain(g, op, x);
}

/* The order of operands decides ties and NaN: it stays. */
static ir_ref float_min_max(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    return x[0] == x[1] ? x[0] : plain(g, op, x);
}

/* x + -y is x - y. */
static ir_ref add(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    bool negative[2] = {ir_is(g, x[0], IR_FNEG), ir_is(g, x[1], IR_FNEG)};
    if (negative[0] != negative[1]) {
        if (negative[0])
            swap(&x[0], &x[1]);
        x[1] = ir_arg(g, x[1], 0);
        return subtract(g, IR_FSUB, x);
    }
    sort_by_hash(g, x);
    return plain(g, op, x);
}

/* floor, ceil and round of an int are the int, while it is an i32. */
static ir_ref to_int(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    if (ir_is(g, x[0], IR_I2F)) {
        ir_ref i = ir_arg(g, x[0], 0);
        const struct ir_node *p = ir_node(g, i);
        if (p->lo >= INT32_MIN && p->hi <= INT32_MAX)
            return i;
    }
    return plain(g, op, x);
}

/* Bools and selects have files of their own. */
static ir_ref choose(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    (void)op;
    return ir_select(g, x[0], x[1], x[2]);
}

static ir_ref invert(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    (void)op;
    return ir_not(g, x[0]);
}

static ir_ref compare(struct ir_graph *g, enum ir_op op, ir_ref *x)
{
    if (op == IR_FEQ)
        return ir_eq(g, x[0], x[1]);
    return op == IR_FLT ? ir_lt(g, x[0], x[1]) : ir_le(g, x[0], x[1]);
}

/* --- any op --------------------------------------------------------------- */

static ir_ref fold(struct ir_graph *g, enum ir_op op, const ir_ref *x, int n)
{
    union eval_value v[3] = {{0}}, r;
    for (int k = 0; k < n; k++) {
        const struct ir_node *p = ir_node(g, x[k]);
        if (p->type == IR_FLOAT)
            v[k].f = p->f;
        else
            v[k].i = p->i;
    }
    r = eval_op_f64(op, v);
    switch (ir_op_info(op)->out) {
    case IR_BOOL:
        return ir_const_b(g, r.i != 0);
    case IR_INT:
        return ir_const_i(g, r.i);
    case IR_FLOAT:
        break;
    }
    return ir_const_f(g, r.f);
}

static bool all_const(const struct ir_graph *g, const ir_ref *x, int n)
{
    for (int k = 0; k < n; k++)
        if (!is_const(g, x[k]))
            return false;
    return n > 0;
}

typedef ir_ref build_rule(struct ir_graph *g, enum ir_op op, ir_ref *x);

/* Ops without an entry have no identities. */
static build_rule *const rules[IR_OP_COUNT] = {
    [IR_IMUL] = multiply,       [IR_IDIV] = divide,
    [IR_IMOD] = divide,         [IR_IMIN] = min_max,
    [IR_IMAX] = min_max,        [IR_IABS] = absolute,
    [IR_IAND] = bitwise,        [IR_IOR] = bitwise,
    [IR_IXOR] = bitwise,        [IR_ISHL] = shift,
    [IR_ISHR] = shift,          [IR_SEL_I] = choose,
    [IR_FLOOR] = to_int,        [IR_CEIL] = to_int,
    [IR_ROUND] = to_int,        [IR_FADD] = add,
    [IR_FSUB] = subtract,       [IR_FMUL] = float_multiply,
    [IR_FDIV] = float_divide,   [IR_FNEG] = negate,
    [IR_FABS] = float_absolute, [IR_FMIN] = float_min_max,
    [IR_FMAX] = float_min_max,  [IR_FPOW] = power,
    [IR_SEL_F] = choose,        [IR_NOT] = invert,
    [IR_FLT] = compare,         [IR_FLE] = compare,
    [IR_FEQ] = compare,
};

ir_ref ir_build(struct ir_graph *g, enum ir_op op, const ir_ref *operands)
{
    int n = ir_op_info(op)->n;
    ir_ref x[3] = {IR_NONE};
    assert(n >= 0); /* the others have builders of their own */
    if (g->failed)
        return IR_NONE;
    for (int k = 0; k < n && k < 3; k++)
        x[k] = operands[k];
    if (op == IR_FPOW && is_float_const(g, x[1], 2)) { /* Lua's own rule */
        op = IR_FMUL;
        x[1] = x[0];
    }
    if (op != IR_LEN_Q && op != IR_LEN_KV && all_const(g, x, n)) {
        int64_t t;
        if (op == IR_IMUL && __builtin_mul_overflow(ir_node(g, x[0])->i,
                                                    ir_node(g, x[1])->i, &t))
            return ir_fail_range(g);
        return fold(g, op, x, n);
    }
    return rules[op] ? rules[op](g, op, x) : plain(g, op, x);
}

/* --- Lua's operators ------------------------------------------------------ */

ir_ref ir_to_float(struct ir_graph *g, ir_ref r)
{
    if (g->failed)
        return IR_NONE;
    return is_int(g, r) ? ir_build(g, IR_I2F, &r) : r;
}

static ir_ref float2(struct ir_graph *g, enum ir_op op, ir_ref a, ir_ref b)
{
    ir_ref x[2] = {ir_to_float(g, a), ir_to_float(g, b)};
    return ir_build(g, op, x);
}

/* The int op when both are ints, else the float op. */
static ir_ref mixed2(struct ir_graph *g, enum ir_op int_op, enum ir_op float_op,
                     ir_ref a, ir_ref b)
{
    ir_ref x[2] = {a, b};
    if (g->failed)
        return IR_NONE;
    if (is_int(g, a) && is_int(g, b))
        return ir_build(g, int_op, x);
    return float2(g, float_op, a, b);
}

ir_ref ir_add(struct ir_graph *g, ir_ref a, ir_ref b)
{
    if (g->failed)
        return IR_NONE;
    if (is_int(g, a) && is_int(g, b))
        return linear2(g, a, 1, b, 1);
    return float2(g, IR_FADD, a, b);
}

ir_ref ir_sub(struct ir_graph *g, ir_ref a, ir_ref b)
{
    if (g->failed)
        return IR_NONE;
    if (is_int(g, a) && is_int(g, b))
        return linear2(g, a, 1, b, -1);
    return float2(g, IR_FSUB, a, b);
}

ir_ref ir_mul(struct ir_graph *g, ir_ref a, ir_ref b)
{
    return mixed2(g, IR_IMUL, IR_FMUL, a, b);
}

ir_ref ir_div(struct ir_graph *g, ir_ref a, ir_ref b)
{
    return float2(g, IR_FDIV, a, b);
}

ir_ref ir_floordiv(struct ir_graph *g, ir_ref a, ir_ref b)
{
    return mixed2(g, IR_IDIV, IR_FFLOORDIV, a, b);
}

ir_ref ir_floormod(struct ir_graph *g, ir_ref a, ir_ref b)
{
    return mixed2(g, IR_IMOD, IR_FMOD, a, b);
}

ir_ref ir_pow(struct ir_graph *g, ir_ref a, ir_ref b)
{
    return float2(g, IR_FPOW, a, b);
}

ir_ref ir_neg(struct ir_graph *g, ir_ref a)
{
    if (g->failed)
        return IR_NONE;
    return is_int(g, a) ? scaled(g, a, -1) : ir_build(g, IR_FNEG, &a);
}

ir_ref ir_abs(struct ir_graph *g, ir_ref a)
{
    if (g->failed)
        return IR_NONE;
    return ir_build(g, is_int(g, a) ? IR_IABS : IR_FABS, &a);
}

ir_ref ir_min(struct ir_graph *g, ir_ref a, ir_ref b)
{
    return mixed2(g, IR_IMIN, IR_FMIN, a, b);
}

ir_ref ir_max(struct ir_graph *g, ir_ref a, ir_ref b)
{
    return mixed2(g, IR_IMAX, IR_FMAX, a, b);
}

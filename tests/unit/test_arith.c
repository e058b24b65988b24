/* Arithmetic while building: exact rewrites by the nodes they give, constant
 * folding against literals, and long random programs whose graphs must give,
 * bit for bit, what Lua's operators give on numbers. */
#include <math.h>

#include "compiler/ir/eval.h"
#include "tests/unit/ir_fixture.h"

static void open(struct fixture *f)
{
    ck_assert(fixture_open(f, &alloc_libc));
}

static ir_ref build1(struct fixture *f, enum ir_op op, ir_ref a)
{
    return ir_build(f->g, op, &a);
}

static ir_ref build2(struct fixture *f, enum ir_op op, ir_ref a, ir_ref b)
{
    ir_ref x[2] = {a, b};
    return ir_build(f->g, op, x);
}

#define ck_op(f, r, want) ck_assert_int_eq(ir_node((f)->g, r)->op, want)

START_TEST(int_division_takes_multiples_out)
{
    struct fixture f;
    open(&f);
    struct ir_graph *g = f.g;
    ir_ref n = num(&f, 64), q64 = ir_floordiv(g, f.q, n);
    ck_same(&f, ir_floordiv(g, add(&f, f.q, n), n), add(&f, q64, num(&f, 1)));
    ir_ref x = add(&f, f.q, ir_mul(g, f.kv, num(&f, 128)));
    ck_same(&f, ir_floordiv(g, sub(&f, x, num(&f, 64)), n),
            add(&f, add(&f, q64, ir_mul(g, f.kv, num(&f, 2))), num(&f, -1)));
    ck_same(&f, ir_floormod(g, x, n), ir_floormod(g, f.q, n));
    ck_same(&f, ir_floormod(g, sub(&f, f.q, num(&f, 63)), n),
            ir_floormod(g, add(&f, f.q, num(&f, 1)), n));
    ck_same(&f, ir_floordiv(g, ir_mul(g, f.q, n), n), f.q);
    ck_same(&f, ir_floormod(g, ir_mul(g, f.q, n), n), num(&f, 0));
    ck_same(&f, ir_floordiv(g, f.q, num(&f, 1)), f.q);
    ck_same(&f, ir_floormod(g, f.q, num(&f, 1)), num(&f, 0));
    ck_same(&f, ir_floordiv(g, f.q, num(&f, 0)), num(&f, 0));
    ck_same(&f, ir_floormod(g, f.q, num(&f, 0)), num(&f, 0));
    ck_op(&f, ir_floordiv(g, f.q, num(&f, -3)), IR_IDIV);
    fixture_close(&f);
}
END_TEST

START_TEST(ranges_simplify_ints)
{
    struct fixture f;
    open(&f);
    struct ir_graph *g = f.g;
    ir_ref r = ir_floormod(g, f.q, num(&f, 8)); /* 0 .. 7 */
    ck_same(&f, ir_floormod(g, r, num(&f, 8)), r);
    ck_same(&f, ir_floordiv(g, r, num(&f, 8)), num(&f, 0));
    ck_same(&f, ir_floordiv(g, sub(&f, r, num(&f, 8)), num(&f, 8)),
            num(&f, -1));
    ck_same(&f, ir_min(g, r, num(&f, 9)), r);
    ck_same(&f, ir_max(g, r, num(&f, 9)), num(&f, 9));
    ck_same(&f, ir_max(g, num(&f, 0), f.q), f.q);
    ck_same(&f, ir_min(g, f.q, num(&f, -1)), num(&f, -1));
    ck_same(&f, ir_abs(g, f.q), f.q);
    ck_same(&f, ir_abs(g, sub(&f, r, num(&f, 9))), sub(&f, num(&f, 9), r));
    ir_ref d = sub(&f, f.q, f.kv);
    ck_same(&f, ir_abs(g, d), ir_abs(g, ir_neg(g, d)));
    ck_same(&f, ir_abs(g, ir_abs(g, d)), ir_abs(g, d));
    ck_same(&f, ir_min(g, d, d), d);
    ck_same(&f, ir_max(g, d, f.h), ir_max(g, f.h, d));
    fixture_close(&f);
}
END_TEST

START_TEST(bits_and_shifts)
{
    struct fixture f;
    open(&f);
    ir_ref d = sub(&f, f.q, f.kv), zero = num(&f, 0), all = num(&f, -1);
    ck_same(&f, build2(&f, IR_IAND, d, zero), zero);
    ck_same(&f, build2(&f, IR_IAND, all, d), d);
    ck_same(&f, build2(&f, IR_IOR, zero, d), d);
    ck_same(&f, build2(&f, IR_IOR, d, all), all);
    ck_same(&f, build2(&f, IR_IXOR, d, zero), d);
    ck_same(&f, build2(&f, IR_IXOR, d, d), zero);
    ck_same(&f, build2(&f, IR_IAND, d, d), d);
    ck_same(&f, build2(&f, IR_IXOR, d, all),
            sub(&f, ir_neg(f.g, d), num(&f, 1)));
    ck_same(&f, build2(&f, IR_IOR, d, f.h), build2(&f, IR_IOR, f.h, d));
    ck_same(&f, build2(&f, IR_ISHL, d, num(&f, 3)), ir_mul(f.g, d, num(&f, 8)));
    ck_same(&f, build2(&f, IR_ISHR, d, num(&f, -3)),
            ir_mul(f.g, d, num(&f, 8)));
    ck_same(&f, build2(&f, IR_ISHL, d, zero), d);
    ck_same(&f, build2(&f, IR_ISHR, d, num(&f, 64)), zero);
    ck_same(&f, build2(&f, IR_ISHL, d, num(&f, -64)), zero);
    ir_ref lost = build2(&f, IR_ISHL, d, num(&f, 40)); /* shifts bits out */
    ck_op(&f, lost, IR_ISHL);
    ck_assert_int_eq(ir_node(f.g, lost)->lo, INT64_MIN);
    ck_assert_int_eq(ir_node(f.g, lost)->hi, INT64_MAX);
    ir_ref r = build2(&f, IR_ISHR, f.q, num(&f, 4));
    ck_assert_int_eq(ir_node(f.g, r)->hi, INT32_MAX >> 4);
    ck_assert(!f.g->failed);
    fixture_close(&f);
}
END_TEST

START_TEST(float_rewrites_are_exact)
{
    struct fixture f;
    open(&f);
    struct ir_graph *g = f.g;
    ir_ref s = f.s, c = ir_param(g, P_FLOAT), one = flt(&f, 1);
    ir_ref two = flt(&f, 2), zero = flt(&f, 0), d = sub(&f, f.kv, f.q);
    ck_same(&f, add(&f, s, c), add(&f, c, s));
    ck_same(&f, ir_mul(g, s, c), ir_mul(g, c, s));
    ck_same(&f, ir_mul(g, s, one), s);
    ck_same(&f, ir_mul(g, flt(&f, -1), s), ir_neg(g, s));
    ck_same(&f, ir_neg(g, ir_neg(g, s)), s);
    ck_same(&f, ir_div(g, s, one), s);
    ck_same(&f, ir_div(g, s, flt(&f, 8)), ir_mul(g, s, flt(&f, 0.125)));
    ck_op(&f, ir_div(g, s, flt(&f, 3)), IR_FDIV);
    ck_op(&f, ir_div(g, s, zero), IR_FDIV);
    ck_op(&f, ir_div(g, s, flt(&f, 0x1p-130)), IR_FDIV);
    ck_same(&f, sub(&f, s, zero), s);
    ck_op(&f, add(&f, s, zero), IR_FADD); /* -0 + 0 is 0 */
    ck_op(&f, sub(&f, s, flt(&f, -0.0)), IR_FSUB);
    ck_same(&f, sub(&f, s, ir_neg(g, c)), add(&f, s, c));
    ck_same(&f, add(&f, ir_neg(g, c), s), sub(&f, s, c));
    ck_same(&f, ir_pow(g, s, two), ir_mul(g, s, s));
    ck_same(&f, ir_pow(g, s, one), s);
    ck_op(&f, ir_pow(g, s, flt(&f, 3)), IR_FPOW);
    ck_same(&f, ir_abs(g, ir_neg(g, s)), ir_abs(g, s));
    ck_same(&f, ir_abs(g, ir_abs(g, s)), ir_abs(g, s));
    ck_same(&f, ir_min(g, s, s), s);
    ck_assert_uint_ne(ir_min(g, s, c), ir_min(g, c, s));
    /* a bias of distance, in several ways */
    ir_ref bias = add(&f, s, ir_mul(g, c, d));
    ck_same(&f, sub(&f, s, ir_mul(g, c, sub(&f, f.q, f.kv))), bias);
    ck_same(&f, sub(&f, s, ir_mul(g, ir_neg(g, d), c)), bias);
    ck_same(&f, sub(&f, s, ir_neg(g, ir_mul(g, d, c))), bias);
    ck_same(&f, add(&f, s, ir_mul(g, ir_neg(g, c), sub(&f, f.q, f.kv))), bias);
    ck_same(&f, ir_mul(g, ir_neg(g, s), ir_neg(g, c)), ir_mul(g, s, c));
    ck_same(&f, ir_div(g, ir_neg(g, s), c), ir_neg(g, ir_div(g, s, c)));
    ck_same(&f, sub(&f, s, ir_neg(g, d)), add(&f, s, d));
    /* a load may be -0, which the sign of a zero distance would change */
    ck_op(&f, sub(&f, load1(&f, T_FLOAT, f.q), d), IR_FSUB);
    fixture_close(&f);
}
END_TEST

START_TEST(conversions)
{
    struct fixture f;
    open(&f);
    ir_ref d = sub(&f, f.q, f.kv), x = ir_to_float(f.g, d);
    ck_op(&f, x, IR_I2F);
    ck_same(&f, ir_to_float(f.g, x), x);
    ck_same(&f, ir_to_float(f.g, num(&f, 3)), flt(&f, 3));
    ck_same(&f, build1(&f, IR_FLOOR, x), d);
    ck_same(&f, build1(&f, IR_CEIL, x), d);
    ck_same(&f, build1(&f, IR_ROUND, x), d);
    ir_ref wide = ir_mul(f.g, d, num(&f, 100)); /* no i32: saturates */
    ck_op(&f, build1(&f, IR_FLOOR, ir_to_float(f.g, wide)), IR_FLOOR);
    ck_op(&f, build1(&f, IR_FLOOR, f.s), IR_FLOOR);
    ck_assert_int_eq(ir_node(f.g, build1(&f, IR_FLOOR, f.s))->lo, INT32_MIN);
    ck_op(&f, add(&f, f.q, flt(&f, 0.5)), IR_FADD);
    ck_op(&f, ir_div(f.g, f.q, f.kv), IR_FDIV);
    ck_op(&f, ir_floordiv(f.g, f.s, f.q), IR_FFLOORDIV);
    ck_op(&f, ir_floormod(f.g, f.q, f.s), IR_FMOD);
    fixture_close(&f);
}
END_TEST

/* What the Lua 5.4 VM prints for these expressions. */
START_TEST(constants_fold_as_lua_computes)
{
    struct fixture f;
    open(&f);
    struct ir_graph *g = f.g;
    ck_same(&f, ir_floordiv(g, num(&f, -7), num(&f, 2)), num(&f, -4));
    ck_same(&f, ir_floormod(g, num(&f, -7), num(&f, 3)), num(&f, 2));
    ck_same(&f, ir_floormod(g, num(&f, 7), num(&f, -3)), num(&f, -2));
    ck_same(&f, ir_floordiv(g, flt(&f, -7), flt(&f, 2)), flt(&f, -4));
    ck_same(&f, ir_floormod(g, flt(&f, -5.5), num(&f, 2)), flt(&f, 0.5));
    ck_same(&f, ir_floormod(g, flt(&f, 5.5), flt(&f, -2)), flt(&f, -0.5));
    ck_same(&f, ir_div(g, num(&f, 7), num(&f, 2)), flt(&f, 3.5));
    ck_same(&f, ir_div(g, num(&f, 1), num(&f, 0)), flt(&f, INFINITY));
    ck_same(&f, ir_pow(g, num(&f, 2), num(&f, 10)), flt(&f, 1024));
    /* the VM squares by multiplying, also when 2 is only seen at run time */
    ck_same(&f, ir_pow(g, flt(&f, 2.759), num(&f, 2)), flt(&f, 2.759 * 2.759));
    union eval_value square[2] = {{.f = 2.759}, {.f = 2}};
    ck_assert(eval_op_f64(IR_FPOW, square).f == 2.759 * 2.759);
    ck_same(&f, add(&f, flt(&f, 0.1), flt(&f, 0.2)),
            flt(&f, 0.30000000000000004));
    ck_same(&f, build2(&f, IR_ISHL, num(&f, 1), num(&f, 62)),
            num(&f, INT64_C(1) << 62));
    ck_same(&f, build2(&f, IR_ISHL, num(&f, 1), num(&f, 64)), num(&f, 0));
    ck_same(&f, build2(&f, IR_ISHR, num(&f, -1), num(&f, 60)), num(&f, 15));
    ck_same(&f, build2(&f, IR_ISHR, num(&f, 1), num(&f, -4)), num(&f, 16));
    ck_same(&f, build2(&f, IR_IXOR, num(&f, 12), num(&f, 10)), num(&f, 6));
    ck_same(&f, build1(&f, IR_FLOOR, flt(&f, -2.5)), num(&f, -3));
    ck_same(&f, build1(&f, IR_CEIL, flt(&f, -2.5)), num(&f, -2));
    ck_same(&f, build1(&f, IR_ROUND, flt(&f, 2.5)), num(&f, 2));
    ck_same(&f, build1(&f, IR_FLOOR, flt(&f, 1e300)), num(&f, INT32_MAX));
    ck_same(&f, build1(&f, IR_FEXP, flt(&f, 0)), flt(&f, 1));
    ck_same(&f, build1(&f, IR_FSQRT, flt(&f, 2)), flt(&f, 1.4142135623730951));
    ck_same(&f, ir_min(g, num(&f, 3), flt(&f, 2.5)), flt(&f, 2.5));
    ck_same(&f, ir_max(g, flt(&f, NAN), flt(&f, 1)), flt(&f, NAN));
    ck_same(&f, ir_max(g, flt(&f, 1), flt(&f, NAN)), flt(&f, 1));
    ck_same(&f, ir_abs(g, num(&f, -3)), num(&f, 3));
    ck_assert(!g->failed);
    fixture_close(&f);
}
END_TEST

/* --- random programs ------------------------------------------------------ */

enum { POINTS = 24, STEPS = 40 };

union number {
    int64_t i;
    double f;
};

/* A value of the program: its node, and what Lua has at every point. */
struct val {
    ir_ref r;
    bool is_int;
    union number at[POINTS];
};

struct machine {
    struct fixture f;
    uint64_t state;
    struct val v[16 + STEPS];
    int n;
    union number var[3][POINTS]; /* h, q, kv */
    union number score[POINTS];
};

static uint32_t rnd(struct machine *m, uint32_t n)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->state >> 33) % n;
}

static struct val *push(struct machine *m, ir_ref r, bool is_int)
{
    struct val *v = &m->v[m->n++];
    v->r = r;
    v->is_int = is_int;
    return v;
}

static void push_leaves(struct machine *m)
{
    static const int64_t ints[] = {0, 1, -1, 2, 3, 7, 64, -5};
    static const double floats[] = {0.5, -0.0, 2, -1.25, 8};
    const ir_ref var[3] = {m->f.h, m->f.q, m->f.kv};
    for (int k = 0; k < 3; k++) {
        struct val *v = push(m, var[k], true);
        for (int p = 0; p < POINTS; p++) {
            uint32_t top = p < 12 ? 4 : p < 20 ? 300 : INT32_MAX;
            m->var[k][p].i = v->at[p].i = rnd(m, top);
        }
    }
    struct val *s = push(m, m->f.s, false);
    for (int p = 0; p < POINTS; p++)
        m->score[p].f = s->at[p].f = ((double)rnd(m, 4001) - 2000) / 256;
    for (int k = 0; k < 5; k++) {
        int64_t i = ints[rnd(m, 8)];
        double x = floats[rnd(m, 5)];
        bool is_int = k < 3;
        struct val *v = push(m, is_int ? num(&m->f, i) : flt(&m->f, x), is_int);
        for (int p = 0; p < POINTS; p++) {
            if (is_int)
                v->at[p].i = i;
            else
                v->at[p].f = x;
        }
    }
}

/* Lua's int operators, written from its manual. */
static int64_t lua_floordiv(int64_t a, int64_t b)
{
    if (b == 0)
        return 0; /* ours: Lua would raise an error */
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a);
    int64_t d = a / b;
    return d * b != a && (a < 0) != (b < 0) ? d - 1 : d;
}

static int64_t lua_mod(int64_t a, int64_t b)
{
    uint64_t whole = (uint64_t)lua_floordiv(a, b) * (uint64_t)b; /* wraps */
    return b == 0 ? 0 : (int64_t)((uint64_t)a - whole);
}

static int64_t lua_shl(int64_t a, int64_t n)
{
    uint64_t u = (uint64_t)a;
    for (int64_t k = 0; k < n && k < 64; k++)
        u *= 2;
    for (int64_t k = 0; k > n && k > -64; k--)
        u /= 2;
    return (int64_t)u;
}

static double lua_fmod(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

enum binary {
    ADD,
    SUB,
    MUL,
    FLOORDIV,
    MOD,
    MIN,
    MAX, /* any numbers */
    DIV,
    POW, /* float results */
    BAND,
    BOR,
    BXOR,
    SHL,
    SHR, /* ints only */
    N_BINARY
};

/* False: Lua's result would wrap, which facc refuses. */
static bool lua_int(enum binary op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case ADD:
        return !__builtin_add_overflow(a, b, out);
    case SUB:
        return !__builtin_sub_overflow(a, b, out);
    case MUL:
        return !__builtin_mul_overflow(a, b, out);
    case FLOORDIV:
        *out = lua_floordiv(a, b);
        break;
    case MOD:
        *out = lua_mod(a, b);
        break;
    case MIN:
        *out = a < b ? a : b;
        break;
    case MAX:
        *out = a > b ? a : b;
        break;
    case BAND:
        *out = a & b;
        break;
    case BOR:
        *out = a | b;
        break;
    case BXOR:
        *out = a ^ b;
        break;
    case SHL:
        *out = lua_shl(a, b);
        break;
    case SHR:
        *out = b == INT64_MIN ? 0 : lua_shl(a, -b);
        break;
    case DIV:
    case POW:
    case N_BINARY:
        ck_abort();
    }
    return true;
}

static double lua_float(enum binary op, double a, double b)
{
    switch ((int)op) {
    case ADD:
        return a + b;
    case SUB:
        return a - b;
    case MUL:
        return a * b;
    case FLOORDIV:
        return floor(a / b);
    case MOD:
        return lua_fmod(a, b);
    case MIN:
        return b < a ? b : a;
    case MAX:
        return a < b ? b : a;
    case DIV:
        return a / b;
    case POW:
        return b == 2 ? a * a : pow(a, b);
    default:
        ck_abort();
    }
    return 0;
}

static ir_ref build_binary(struct fixture *f, enum binary op, ir_ref a,
                           ir_ref b)
{
    static ir_ref (*const mixed[])(struct ir_graph *, ir_ref, ir_ref) = {
        ir_add, ir_sub, ir_mul, ir_floordiv, ir_floormod,
        ir_min, ir_max, ir_div, ir_pow};
    static const enum ir_op bits[] = {IR_IAND, IR_IOR, IR_IXOR, IR_ISHL,
                                      IR_ISHR};
    return op < BAND ? mixed[op](f->g, a, b) : build2(f, bits[op - BAND], a, b);
}

static double as_float(const struct val *v, int p)
{
    return v->is_int ? (double)v->at[p].i : v->at[p].f;
}

/* One random operator. False when ints left 64 bits: the end. */
static bool step(struct machine *m)
{
    enum binary op = (enum binary)rnd(m, N_BINARY);
    const struct val *a = &m->v[rnd(m, (uint32_t)m->n)];
    const struct val *b = &m->v[rnd(m, (uint32_t)m->n)];
    bool is_int = a->is_int && b->is_int && op != DIV && op != POW;
    if (op >= BAND && !is_int)
        return true;
    if (op == POW && rnd(m, 3) == 0) { /* the case with a rule of its own */
        b = push(m, flt(&m->f, 2), false);
        for (int p = 0; p < POINTS; p++)
            m->v[m->n - 1].at[p].f = 2;
    }
    ir_ref r = build_binary(&m->f, op, a->r, b->r);
    if (!r)
        return false;
    struct val *v = push(m, r, is_int);
    for (int p = 0; p < POINTS; p++) {
        if (!is_int)
            v->at[p].f = lua_float(op, as_float(a, p), as_float(b, p));
        else if (!lua_int(op, a->at[p].i, b->at[p].i, &v->at[p].i))
            ck_abort_msg("a range missed an overflow");
    }
    return true;
}

static union number node_value(struct machine *m, ir_ref r,
                               const union number *known, int p)
{
    const struct ir_graph *g = m->f.g;
    const struct ir_node *n = ir_node(g, r);
    union eval_value x[3] = {{0}}, y;
    union number out = {0};
    uint64_t sum = (uint64_t)n->i; /* parts may wrap, the whole does not */
    switch ((int)n->op) {
    case IR_CONST_I:
        out.i = n->i;
        return out;
    case IR_CONST_F:
        out.f = n->f;
        return out;
    case IR_VAR_I:
        return m->var[n->i - IR_VAR_H][p];
    case IR_SCORE:
        return m->score[p];
    case IR_LIN:
        for (uint32_t k = 0; k < n->n; k++)
            sum +=
                (uint64_t)ir_coef(g, r, k) * (uint64_t)known[ir_arg(g, r, k)].i;
        out.i = (int64_t)sum;
        return out;
    default:
        break;
    }
    for (uint32_t k = 0; k < n->n; k++) {
        ir_ref a = ir_arg(g, r, k);
        if (ir_node(g, a)->type == IR_FLOAT)
            x[k].f = known[a].f;
        else
            x[k].i = known[a].i;
    }
    y = eval_op_f64((enum ir_op)n->op, x);
    if (n->type == IR_FLOAT)
        out.f = y.f;
    else
        out.i = y.i;
    return out;
}

static bool same_number(const struct val *v, union number got, int p)
{
    if (v->is_int)
        return v->at[p].i == got.i;
    double a = v->at[p].f, b = got.f;
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* All values of all points, and every int inside its node's range. */
static void check_machine(struct machine *m, int seed)
{
    struct ir_graph *g = m->f.g;
    uint32_t n = g->n_nodes;
    union number *known = arena_alloc(m->f.arena, n * sizeof *known);
    for (int p = 0; p < POINTS; p++) {
        for (ir_ref r = 1; r < n; r++) {
            const struct ir_node *x = ir_node(g, r);
            if (x->op == IR_VAR_I && x->i == IR_VAR_B)
                continue;
            known[r] = node_value(m, r, known, p);
            if (x->type == IR_INT && (known[r].i < x->lo || known[r].i > x->hi))
                ck_abort_msg("seed %d: %s outside its range", seed,
                             ir_op_info((enum ir_op)x->op)->name);
        }
        for (int k = 0; k < m->n; k++)
            if (!same_number(&m->v[k], known[m->v[k].r], p))
                ck_abort_msg("seed %d, point %d, value %d:\n%s", seed, p, k,
                             text_of(&m->f, m->v[k].r, IR_NONE));
    }
}

START_TEST(random_programs_equal_lua)
{
    static struct machine m;
    int long_ones = 0, refused = 0;
    for (int seed = 1; seed <= 1000; seed++) {
        m = (struct machine){.state = (uint64_t)seed * 7919};
        open(&m.f);
        push_leaves(&m);
        int k = 0;
        while (k < STEPS / 2 && step(&m))
            k++;
        if (m.f.g->failed) {
            refused++;
            ck_assert_int_eq(m.f.diag.status, DIAG_SCRIPT);
            m.f.g->failed = false; /* what was built must still be right */
        }
        long_ones += k == STEPS / 2;
        check_machine(&m, seed);
        fixture_close(&m.f);
    }
    ck_assert_int_gt(long_ones, 200);
    ck_assert_int_gt(refused, 50);
}
END_TEST

static bool build_some(struct fixture *f)
{
    struct ir_graph *g = f->g;
    ir_ref r = f->s;
    for (int k = 1; k < 40; k++) {
        ir_ref i = ir_floordiv(g, add(f, f->q, num(f, 3 * k)), num(f, k));
        ir_ref j = ir_abs(g, sub(f, i, ir_mul(g, f->kv, f->h)));
        r = sub(f, r, ir_mul(g, load1(f, T_FLOAT, i), ir_neg(g, j)));
        r = ir_pow(g, r, flt(f, 2 + k % 2));
    }
    return r && !g->failed;
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(build_some);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        int_division_takes_multiples_out,
        ranges_simplify_ints,
        bits_and_shifts,
        float_rewrites_are_exact,
        conversions,
        constants_fold_as_lua_computes,
        random_programs_equal_lua,
        every_allocation_may_fail,
    };
    return run_tests("arith", tests, sizeof tests / sizeof *tests);
}

/* In: an AND or OR. Out: operands that its own imply and that intervals do
 * not see: sums of two inequalities in which a term goes (one step of
 * Fourier-Motzkin elimination), in which a quotient and its remainder become
 * their dividend (u = n (u // n) + u % n), the order of unequal quotients, that
 * of the dividends of ordered ones, and the two sides of values that are left
 * out. In an OR they are implied by the
 * negations, and negated. Adding them does not change the truth. Called by
 * verdict_logic.c. */
#include "compiler/ir/scratch.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/verdict_build.h"

enum { MAX_FORMS = 12 };

struct forms { /* >= 0, where the AND holds (the OR does not) */
    struct ir_linear of[MAX_FORMS];
    ir_ref from[MAX_FORMS];
    int n;
};

/* sign * (form of r) + c. False: memory. */
static bool add_form(struct ir_graph *g, struct forms *f, ir_ref r,
                     int64_t sign, int64_t c)
{
    struct ir_linear l, *to = &f->of[f->n];
    bool fits = true;
    if (f->n == MAX_FORMS)
        return true;
    if (!ir_linear_of(g, r, &l) || !ir_linear_scratch(g, to, 0, l.n))
        return false;
    fits &= !__builtin_mul_overflow(l.c, sign, &to->c);
    fits &= !__builtin_add_overflow(to->c, c, &to->c);
    to->n = l.n;
    for (uint32_t j = 0; j < l.n; j++) {
        to->term[j] = l.term[j];
        fits &= !__builtin_mul_overflow(l.k[j], sign, &to->k[j]);
    }
    f->from[f->n] = r;
    f->n += fits;
    return true;
}

static bool add_forms(struct ir_graph *g, struct forms *f, enum ir_op op,
                      ir_ref r)
{
    const bool negated = op == IR_OR;
    if (ir_node(g, r)->deps & IR_DEP_SCORE)
        return true;
    if (ir_is(g, r, IR_GE0)) /* of -x - 1 if negated */
        return add_form(g, f, r, negated ? -1 : 1, negated ? -1 : 0);
    if (negated && ir_is(g, r, IR_NOT))
        r = ir_arg(g, r, 0);
    else if (negated)
        return true;
    if (!ir_is(g, r, IR_EQ0))
        return true;
    return add_form(g, f, r, 1, 0) && add_form(g, f, r, -1, 0);
}

/* Some term that is not the same all over a tile is in both and goes. */
static bool cancels(const struct ir_graph *g, const struct ir_linear *x,
                    const struct ir_linear *y)
{
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t j = 0; j < y->n; j++)
            if (x->term[i] == y->term[j] && !verdict_is_tile(g, x->term[i]) &&
                (uint64_t)x->k[i] + (uint64_t)y->k[j] == 0)
                return true;
    return false;
}

/* u // n in x and u % n in y with one coefficient: n * x + y has u itself. */
struct carry {
    ir_ref quotient, remainder;
    int64_t n, k;
};

static bool carries(const struct ir_graph *g, const struct ir_linear *x,
                    const struct ir_linear *y, struct carry *out)
{
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t j = 0; j < y->n; j++) {
            const ir_ref a = x->term[i], b = y->term[j];
            if (x->k[i] != y->k[j] || !ir_is(g, a, IR_IDIV) ||
                !ir_is(g, b, IR_IMOD) || ir_arg(g, a, 0) != ir_arg(g, b, 0) ||
                ir_arg(g, a, 1) != ir_arg(g, b, 1) ||
                !ir_is(g, ir_arg(g, a, 1), IR_CONST_I))
                continue;
            *out =
                (struct carry){a, b, ir_node(g, ir_arg(g, a, 1))->i, x->k[i]};
            return out->n > 0 && !verdict_is_tile(g, a);
        }
    return false;
}

static bool add_scaled(struct ir_graph *g, struct ir_linear *sum,
                       const struct ir_linear *x, int64_t by)
{
    int64_t c;
    bool ok = !__builtin_mul_overflow(x->c, by, &c) &&
              !__builtin_add_overflow(sum->c, c, &sum->c);
    for (uint32_t j = 0; ok && j < x->n; j++) {
        int64_t k;
        ok = !__builtin_mul_overflow(x->k[j], by, &k) &&
             ir_linear_axpy(g, sum, x->term[j], k);
    }
    return ok;
}

static bool join(struct ir_graph *g, struct ir_linear *sum,
                 const struct carry *c)
{
    int64_t minus;
    return !__builtin_mul_overflow(-c->n, c->k, &minus) && c->k != INT64_MIN &&
           ir_linear_axpy(g, sum, c->quotient, minus) &&
           ir_linear_axpy(g, sum, c->remainder, -c->k) &&
           ir_linear_axpy(g, sum, ir_arg(g, c->quotient, 0), c->k);
}

/* by * x + y >= 0, or its negation in an OR; IR_NONE when it says nothing.
 * The carry is joined if there is one. */
static ir_ref implied(struct ir_graph *g, enum ir_op op,
                      const struct ir_linear *x, const struct ir_linear *y,
                      const struct carry *c)
{
    struct scratch_mark mark = scratch_mark(g);
    struct ir_linear sum;
    bool ok = ir_linear_scratch(g, &sum, 0, x->n + y->n) &&
              add_scaled(g, &sum, x, c ? c->n : 1) &&
              add_scaled(g, &sum, y, 1) && (!c || join(g, &sum, c));
    ir_ref r = ok ? ir_ge0(g, &sum) : IR_NONE;
    if (r && op == IR_OR)
        r = ir_not(g, r);
    scratch_release(g, mark);
    pass_recover(g);
    if (r && ir_is(g, r, IR_CONST_B) &&
        (ir_node(g, r)->i != 0) == (op == IR_AND))
        return IR_NONE;
    return r;
}

/* Two quotients by one n in f, of both indices each, with coefficients k and
 * -k: k (x // n - y // n). Where each is of one index, intervals are exact. */
static bool is_difference(const struct ir_graph *g, const struct ir_linear *f,
                          ir_ref *x, ir_ref *y, int64_t *n, int64_t *k)
{
    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t j = 0; j < f->n; j++) {
            *x = f->term[i];
            *y = f->term[j];
            *k = f->k[i];
            if (*k <= 0 || f->k[j] != -*k || !ir_is(g, *x, IR_IDIV) ||
                !ir_is(g, *y, IR_IDIV) || ir_arg(g, *x, 1) != ir_arg(g, *y, 1))
                continue;
            const struct ir_node *by = ir_node(g, ir_arg(g, *x, 1));
            *n = by->i;
            return by->op == IR_CONST_I && *n > 0 &&
                   (verdict_is_two_sided(g, *x) || verdict_is_two_sided(g, *y));
        }
    return false;
}

/* Of k (x // n - y // n) + rest >= 0: k (x - y + n - 1) + n rest >= 0, in which
 * what x and y share goes. */
static ir_ref implied_dividends(struct ir_graph *g, enum ir_op op,
                                const struct ir_linear *f)
{
    ir_ref x, y, r = IR_NONE;
    int64_t n, k, c;
    if (!is_difference(g, f, &x, &y, &n, &k) ||
        __builtin_mul_overflow(n - 1, k, &c) || c > INT64_MAX - k)
        return IR_NONE;
    struct scratch_mark mark = scratch_mark(g);
    struct ir_linear sum;
    if (ir_linear_scratch(g, &sum, c, f->n) && add_scaled(g, &sum, f, n) &&
        ir_linear_axpy(g, &sum, x, -c - k) &&
        ir_linear_axpy(g, &sum, y, c + k) &&
        ir_linear_axpy(g, &sum, ir_arg(g, x, 0), k) &&
        ir_linear_axpy(g, &sum, ir_arg(g, y, 0), -k))
        r = ir_ge0(g, &sum);
    if (r && op == IR_OR)
        r = ir_not(g, r);
    scratch_release(g, mark);
    pass_recover(g);
    return r && !ir_is(g, r, IR_CONST_B) ? r : IR_NONE;
}

/* x // n - y // n of r, an EQ0; false: r is something else. */
static bool is_quotients(const struct ir_graph *g, ir_ref r, ir_ref *x,
                         ir_ref *y)
{
    if (!ir_is(g, r, IR_EQ0) || ir_node(g, r)->n != 2 || ir_node(g, r)->i ||
        ir_coef(g, r, 0) != 1 || ir_coef(g, r, 1) != -1)
        return false;
    *x = ir_arg(g, r, 0);
    *y = ir_arg(g, r, 1);
    return ir_is(g, *x, IR_IDIV) && ir_is(g, *y, IR_IDIV) &&
           ir_arg(g, *x, 1) == ir_arg(g, *y, 1) &&
           ir_is(g, ir_arg(g, *x, 1), IR_CONST_I) &&
           ir_node(g, ir_arg(g, *x, 1))->i > 0;
}

/* Whether form f >= 0 says that a >= b. */
static bool says(struct ir_graph *g, const struct ir_linear *f, ir_ref a,
                 ir_ref b)
{
    struct scratch_mark mark = scratch_mark(g);
    struct ir_linear d;
    const bool ok = ir_linear_scratch(g, &d, 0, f->n + 2) &&
                    add_scaled(g, &d, f, 1) && ir_linear_axpy(g, &d, a, -1) &&
                    ir_linear_axpy(g, &d, b, 1);
    scratch_release(g, mark);
    pass_recover(g);
    return ok && d.n == 0 && d.c <= 0;
}

/* Of x >= y and x // n ~= y // n: x // n > y // n. r: an operand. */
static ir_ref implied_order(struct ir_graph *g, enum ir_op op, ir_ref r,
                            const struct ir_linear *f)
{
    ir_ref x, y;
    if (op == IR_AND && !ir_is(g, r, IR_NOT))
        return IR_NONE;
    const ir_ref equation = op == IR_AND ? ir_arg(g, r, 0) : r;
    if (!is_quotients(g, equation, &x, &y))
        return IR_NONE;
    const ir_ref u = ir_arg(g, x, 0), v = ir_arg(g, y, 0);
    ir_ref out = IR_NONE;
    if (says(g, f, u, v))
        out = ir_lt(g, y, x);
    else if (says(g, f, v, u))
        out = ir_lt(g, x, y);
    if (out && op == IR_OR)
        out = ir_not(g, out);
    pass_recover(g);
    return out;
}

struct implied { /* operands that others imply */
    ir_ref *of;
    int *n;    /* of all operands */
    int added; /* at most VERDICT_MAX_IMPLIED */
};

static void add_one(struct implied *to, ir_ref r)
{
    if (r == IR_NONE || to->added == VERDICT_MAX_IMPLIED)
        return;
    to->of[(*to->n)++] = r;
    to->added++;
}

static void add_pair(struct ir_graph *g, enum ir_op op,
                     const struct ir_linear *x, const struct ir_linear *y,
                     struct implied *to)
{
    struct carry c;
    if (to->added == VERDICT_MAX_IMPLIED)
        return;
    if (cancels(g, x, y))
        add_one(to, implied(g, op, x, y, NULL));
    if (carries(g, x, y, &c))
        add_one(to, implied(g, op, x, y, &c));
    if (carries(g, y, x, &c))
        add_one(to, implied(g, op, y, x, &c));
}

/* --- values that are left out --------------------------------------------- */

/* Operands that say x ~= c where the AND holds (the OR does not). */
struct unequal {
    ir_ref of[MAX_FORMS]; /* x - c == 0, of both indices */
    int n;
};

static void find_unequal(const struct ir_graph *g, ir_ref r,
                         struct unequal *out)
{
    const bool is_and = ir_is(g, r, IR_AND);
    for (uint32_t k = 0; k < ir_node(g, r)->n && out->n < MAX_FORMS; k++) {
        ir_ref x = ir_arg(g, r, k);
        if (is_and && !ir_is(g, x, IR_NOT))
            continue;
        x = is_and ? ir_arg(g, x, 0) : x;
        if (ir_is(g, x, IR_EQ0) && verdict_is_two_sided(g, x))
            out->of[out->n++] = x;
    }
}

static bool same_terms(const struct ir_graph *g, ir_ref a, ir_ref b)
{
    const struct ir_node *x = ir_node(g, a), *y = ir_node(g, b);
    bool same = x->n == y->n;
    for (uint32_t j = 0; same && j < x->n; j++)
        same = ir_arg(g, a, j) == ir_arg(g, b, j) &&
               ir_coef(g, a, j) == ir_coef(g, b, j);
    return same;
}

/* Is x + c == 0 there, x that of `like`? */
static bool has_constant(const struct ir_graph *g, const struct unequal *u,
                         ir_ref like, int64_t c)
{
    for (int j = 0; j < u->n; j++)
        if (ir_node(g, u->of[j])->i == c && same_terms(g, u->of[j], like))
            return true;
    return false;
}

/* x + first ~= 0, …, x + last ~= 0: x is on one side of all these. equation:
 * x + first == 0. */
static ir_ref beside(struct ir_graph *g, enum ir_op op, ir_ref equation,
                     int64_t first, int64_t last)
{
    struct scratch_mark mark = scratch_mark(g);
    struct ir_linear above, below;
    ir_ref r = IR_NONE;
    if (ir_linear_of(g, equation, &above) &&
        ir_linear_scratch(g, &below, first - last - 1, above.n) &&
        add_scaled(g, &below, &above, -1)) {
        above.c--;
        const ir_ref sides[] = {ir_ge0(g, &above), ir_ge0(g, &below)};
        if (sides[0] && sides[1])
            r = ir_or(g, 2, sides);
    }
    if (r && op == IR_OR)
        r = ir_not(g, r);
    scratch_release(g, mark);
    pass_recover(g);
    return r;
}

/* Of neighbouring values that are left out, which intervals alone would not
 * see, as each may be taken where the others are not. */
static void add_beside(struct ir_graph *g, ir_ref r, struct implied *to)
{
    const enum ir_op op = (enum ir_op)ir_node(g, r)->op;
    struct unequal u = {.n = 0};
    find_unequal(g, r, &u);
    for (int i = 0; i < u.n; i++) {
        const int64_t first = ir_node(g, u.of[i])->i;
        int64_t last = first;
        if (first <= INT32_MIN || first >= INT32_MAX ||
            has_constant(g, &u, u.of[i], first - 1))
            continue;
        while (has_constant(g, &u, u.of[i], last + 1))
            last++;
        if (last > first)
            add_one(to, beside(g, op, u.of[i], first, last));
    }
}

bool verdict_implied(struct ir_graph *g, ir_ref r, ir_ref *out, int *n)
{
    const enum ir_op op = (enum ir_op)ir_node(g, r)->op;
    struct forms *f = scratch_alloc(g, sizeof *f);
    struct implied to = {out, n, 0};
    if (!f)
        return false;
    f->n = 0;
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++)
        if (!add_forms(g, f, op, ir_arg(g, r, k)))
            return false;
    for (int i = 0; i < f->n && !g->failed; i++) {
        for (int j = 0; j < i; j++)
            if (f->from[i] != f->from[j])
                add_pair(g, op, &f->of[i], &f->of[j], &to);
        for (uint32_t k = 0; k < ir_node(g, r)->n; k++)
            add_one(&to, implied_order(g, op, ir_arg(g, r, k), &f->of[i]));
        if (to.added < VERDICT_MAX_IMPLIED)
            add_one(&to, implied_dividends(g, op, &f->of[i]));
    }
    if (!g->failed)
        add_beside(g, r, &to);
    return !g->failed;
}

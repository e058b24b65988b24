/* Plain bounds of a mask: which columns a block of rows can need at all, and
 * which it needs whole. In: the mask's conjuncts of the form
 * kq * q + kkv * kv + rest >= 0 with rest of tile scope. Out: two column
 * ranges. Called by the CPU attention for every block of rows. */
#include "compiler/ir/eval_plan.h"

#include "compiler/ir/eval_math.h"

struct bound {
    int64_t kq, kkv, rest;
};

/* False when the step is no plain bound. */
static bool plain_bound(const struct eval_state *s, const struct eval_step *t,
                        struct bound *out)
{
    const struct eval_plan *p = s->plan;
    *out = (struct bound){.rest = t->i};
    if (t->op != IR_GE0)
        return false;
    for (uint32_t k = 0; k < t->n; k++) {
        uint32_t a = p->arg[t->first + k];
        const struct eval_step *x = &p->step[a];
        int64_t coef = p->coef[t->first + k], term;
        if (x->op == IR_VAR_I && x->i == IR_VAR_Q)
            out->kq = coef;
        else if (x->op == IR_VAR_I && x->i == IR_VAR_KV)
            out->kkv = coef;
        else if (x->scope != EVAL_TILE || s->any_bad[a] ||
                 __builtin_mul_overflow(coef, *(int64_t *)s->val[a], &term) ||
                 __builtin_add_overflow(out->rest, term, &out->rest))
            return false;
    }
    return true;
}

/* Cuts [*lo, *hi) to the columns with kkv * kv + m >= 0. */
static void cut(int64_t kkv, int64_t m, int64_t *lo, int64_t *hi)
{
    if (kkv == 0) {
        if (m < 0)
            *hi = *lo;
    } else if (kkv > 0) {
        int64_t first = ev_wrap_neg(ev_floordiv(m, kkv)); /* ceil(-m / kkv) */
        *lo = first > *lo ? first : *lo;
    } else {
        int64_t last = ev_floordiv(m, ev_wrap_neg(kkv));
        *hi = last < *hi ? last + 1 : *hi;
    }
}

/* One conjunct. False when it says nothing exact. */
static bool apply(const struct eval_state *s, uint32_t step, int64_t q0,
                  int64_t q1, struct eval_range *r)
{
    const struct eval_step *t = &s->plan->step[step];
    struct bound b;
    int64_t first, last;
    if (t->scope == EVAL_TILE && !s->any_bad[step]) {
        if (!*(uint8_t *)s->val[step])
            r->hi = r->lo;
        return true;
    }
    if (!plain_bound(s, t, &b) || __builtin_mul_overflow(b.kq, q0, &first) ||
        __builtin_mul_overflow(b.kq, q1 - 1, &last) ||
        __builtin_add_overflow(first, b.rest, &first) ||
        __builtin_add_overflow(last, b.rest, &last))
        return false;
    cut(b.kkv, first > last ? first : last, &r->lo, &r->hi);
    cut(b.kkv, first > last ? last : first, &r->full_lo, &r->full_hi);
    return true;
}

void eval_kv_range(struct eval_state *s, int64_t b, int64_t h, int64_t q0,
                   int64_t q1, int64_t n_kv, struct eval_range *out)
{
    const struct eval_plan *p = s->plan;
    const struct eval_step *keep = &p->step[p->keep];
    struct eval_range r = {0, n_kv, 0, n_kv};
    bool exact = true;
    eval_head(s, b, h);
    if (keep->op == IR_AND && keep->scope != EVAL_TILE) {
        for (uint32_t k = 0; k < keep->n; k++)
            exact &= apply(s, p->arg[keep->first + k], q0, q1, &r);
    } else {
        exact = apply(s, p->keep, q0, q1, &r);
    }
    if (r.hi <= r.lo)
        r = (struct eval_range){0, 0, 0, 0};
    if (!exact || r.full_hi < r.full_lo)
        r.full_hi = r.full_lo = r.lo;
    *out = r;
}

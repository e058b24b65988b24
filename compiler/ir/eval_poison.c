/* Reads outside a captured tensor. A bad read gives a poisoned element;
 * poison follows the values it reaches, except through an arm that a select
 * does not take and past an operand that decides an AND or an OR without it.
 * Only poison in a kept cell's result is an error. In: the row's values and
 * poison. Out: poison of one more step, or the error. Called by eval.c. */
#include "compiler/ir/eval_plan.h"

static bool is_bad(const struct eval_state *s, uint32_t step, int i)
{
    return s->any_bad[step] &&
           s->bad[step][s->plan->step[step].wide ? i : 0] != 0;
}

static bool is_true(const struct eval_state *s, uint32_t step, int i)
{
    const uint8_t *x = s->val[step];
    return x[s->plan->step[step].wide ? i : 0] != 0;
}

static bool is_select(const struct eval_step *t)
{
    return t->op == IR_SEL_I || t->op == IR_SEL_F;
}

/* The operand through which element i is poisoned, false when a
 * clean operand decides the result or none is bad. */
static bool bad_operand(const struct eval_state *s, const struct eval_step *t,
                        int i, uint32_t *operand)
{
    const uint32_t *a = &s->plan->arg[t->first];
    bool logic = t->op == IR_AND || t->op == IR_OR, found = false;
    if (is_select(t) && !is_bad(s, a[0], i)) {
        *operand = is_true(s, a[0], i) ? a[1] : a[2];
        return is_bad(s, *operand, i);
    }
    for (uint32_t k = 0; k < t->n; k++) {
        bool bad = is_bad(s, a[k], i);
        if (bad && !found)
            *operand = a[k];
        if (logic && !bad && is_true(s, a[k], i) == (t->op == IR_OR))
            return false;
        found |= bad;
    }
    return found;
}

void eval_poison_step(struct eval_state *s, uint32_t step)
{
    const struct eval_step *t = &s->plan->step[step];
    bool any = false;
    for (uint32_t k = 0; k < t->n; k++)
        any |= s->any_bad[s->plan->arg[t->first + k]];
    s->any_bad[step] = any;
    if (!any)
        return;
    int n = t->wide ? s->n_kv : 1;
    uint8_t seen = 0;
    for (int i = 0; i < n; i++) {
        uint32_t operand;
        uint8_t bad = bad_operand(s, t, i, &operand);
        s->bad[step][i] = bad;
        seen |= bad;
    }
    s->any_bad[step] = seen;
}

static int64_t int_at(const struct eval_state *s, uint32_t step, int i)
{
    const int64_t *x = s->val[step];
    return x[s->plan->step[step].wide ? i : 0];
}

/* Names the read that poisoned element i of a step. */
static bool report(const struct eval_state *s, uint32_t step, int i,
                   struct diag *d)
{
    const struct eval_plan *p = s->plan;
    const struct ir_graph *g = p->graph;
    const struct eval_step *t = &p->step[step];
    uint32_t operand;
    while (bad_operand(s, t, i, &operand))
        t = &p->step[operand];
    long long b = s->b, h = s->h, q = s->q, kv = s->kv0 + i;
    if (t->op == IR_LEN_Q || t->op == IR_LEN_KV)
        return diag_set(d, DIAG_BOUNDS, "eval", g->file, (int)t->line,
                        "facc.len.%s is asked for sequence %lld of %lld "
                        "(at b %lld, h %lld, q %lld, kv %lld)",
                        t->op == IR_LEN_Q ? "q" : "kv",
                        (long long)int_at(s, p->arg[t->first], i),
                        (long long)s->env->B, b, h, q, kv);
    const struct eval_tensor *m = &s->env->tensors[t->i];
    for (uint32_t k = 0; k < t->n; k++) {
        long long x = int_at(s, p->arg[t->first + k], i);
        if (x >= 0 && x < m->shape[k])
            continue;
        return diag_set(d, DIAG_BOUNDS, "eval", g->file, (int)t->line,
                        "tensor '%s' is read outside its bounds: index %u is "
                        "%lld, the extent is %lld "
                        "(at b %lld, h %lld, q %lld, kv %lld)",
                        g->tensors[t->i].name, k + 1, x, (long long)m->shape[k],
                        b, h, q, kv);
    }
    return diag_set(d, DIAG_INTERNAL, "eval", g->file, (int)t->line,
                    "poison without a bad read");
}

bool eval_poison_check(const struct eval_state *s, const uint8_t *given,
                       bool want_score, struct diag *d)
{
    const struct eval_plan *p = s->plan;
    for (int i = 0; i < s->n_kv; i++) {
        bool may_mask = given == NULL || (given[i] & 1);
        bool may_count = given == NULL || (given[i] & 2);
        if (may_mask && may_count && is_bad(s, p->keep, i))
            return report(s, p->keep, i, d);
        if (want_score && may_count && is_bad(s, p->score, i) &&
            (!may_mask || is_true(s, p->keep, i)))
            return report(s, p->score, i, d);
    }
    return true;
}

/* The interpreter of verdict programs. In: a program, the shapes and captured
 * tensors, a rectangle of cells. Out: EMPTY, FULL or PARTIAL. Called by the CPU
 * attention for each of its tiles, by facc_verdict_map and by the tests. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/passes/verdict_plan.h"
#include "compiler/passes/verdict_tables.h"

struct verdict_state {
    const struct verdict_plan *plan;
    const struct eval_env *env;
    struct verdict_tables *side[SIDES];
    struct verdict_value *v; /* by slot */
    struct interval *x;      /* operands of one slot */
    bool made;               /* the tables hold for: */
    int64_t b, h, n[SIDES];
    int64_t first[SIDES], last[SIDES]; /* the rectangle */
};

/* --- state -------------------------------------------------------------- */

static struct interval anything(enum ir_type type, const struct slot_info *i)
{
    struct interval r = interval_any(type);
    if (type == IR_INT) {
        r.i.lo = i->least;
        r.i.hi = i->most;
    }
    return r;
}

/* The most positions that a sequence uses. */
static int64_t longest(const int32_t *used, int64_t n, int64_t size)
{
    int64_t most = 0;
    if (used == NULL)
        return size;
    for (int64_t b = 0; b < n; b++)
        most = used[b] > most ? used[b] : most;
    return most;
}

struct verdict_state *verdict_state_new(const struct verdict_plan *plan,
                                        enum eval_precision prec,
                                        const struct eval_env *env)
{
    const int64_t cap[SIDES] = {longest(env->len_q, env->B, env->Sq),
                                longest(env->len_kv, env->B, env->Skv)};
    struct verdict_state *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->plan = plan;
    s->env = env;
    s->v = calloc((size_t)plan->p->n_slots + 1, sizeof *s->v);
    s->x = calloc((size_t)plan->most_operands + 3, sizeof *s->x);
    for (int k = 0; k < SIDES; k++)
        s->side[k] = verdict_tables_new(&plan->side[k], prec, env, cap[k]);
    if (s->v == NULL || s->x == NULL || s->side[0] == NULL ||
        s->side[1] == NULL) {
        verdict_state_free(s);
        return NULL;
    }
    for (int k = 0; k < plan->p->n_slots; k++)
        if (plan->p->slot[k].kind == SLOT_ANY)
            s->v[k].iv = anything(plan->p->slot[k].type, &plan->info[k]);
    return s;
}

void verdict_state_free(struct verdict_state *s)
{
    if (s == NULL)
        return;
    verdict_tables_free(s->side[0]);
    verdict_tables_free(s->side[1]);
    free(s->v);
    free(s->x);
    free(s);
}

void verdict_state_head(struct verdict_state *s, int64_t b, int64_t h)
{
    const struct verdict_program *p = s->plan->p;
    const struct eval_env *e = s->env;
    const int64_t n[SIDES] = {eval_env_len(e, false, b),
                              eval_env_len(e, true, b)};
    bool same_b = !(p->deps & IR_DEP_B) || s->b == b;
    bool same_h = !(p->deps & IR_DEP_H) || s->h == h;
    if (s->made && same_b && same_h && n[0] == s->n[0] && n[1] == s->n[1])
        return;
    for (int k = 0; k < SIDES; k++) {
        s->n[k] = n[k];
        verdict_tables_fill(s->side[k], b, h, n[k]);
    }
    for (int k = 0; k < p->n_slots; k++)
        if (p->slot[k].kind == SLOT_TILE)
            s->v[k] = verdict_tables_scalar(
                s->side[SIDE_Q], s->plan->info[k].value, p->slot[k].type);
    s->b = b;
    s->h = h;
    s->made = true;
}

/* --- slots -------------------------------------------------------------- */

static const struct verdict_value *operand(const struct verdict_state *s,
                                           const struct verdict_slot *t, int k)
{
    return &s->v[s->plan->p->arg[t->first + k]];
}

static struct verdict_value boolean(bool may_false, bool may_true, bool bad)
{
    struct verdict_value r = {.iv.type = IR_BOOL, .bad = bad};
    r.iv.b.may_false = may_false;
    r.iv.b.may_true = may_true;
    r.none = !may_false && !may_true;
    return r;
}

/* Rows or columns themselves. */
static struct verdict_value positions(const struct verdict_state *s,
                                      enum verdict_side side)
{
    struct verdict_value r = {.iv.type = IR_INT};
    r.iv.i.lo = s->first[side];
    r.iv.i.hi = s->last[side];
    return r;
}

/* Copies the operands to s->x. True when one is of no position: then so is
 * the result. */
static bool gather(struct verdict_state *s, const struct verdict_slot *t,
                   bool *bad)
{
    bool none = false;
    *bad = false;
    for (int k = 0; k < t->n; k++) {
        const struct verdict_value *x = operand(s, t, k);
        s->x[k] = x->iv;
        none |= x->none;
        *bad |= x->bad;
    }
    return none;
}

static struct verdict_value linear(struct verdict_state *s,
                                   const struct verdict_slot *t)
{
    bool bad, wide;
    if (gather(s, t, &bad))
        return (struct verdict_value){.iv.type = t->type, .none = true};
    struct interval sum = interval_linear(
        t->c, (uint32_t)t->n, s->plan->p->coef + t->first, s->x, &wide);
    if (wide) /* kernels and the evaluator wrap */
        sum = interval_any(IR_INT);
    return (struct verdict_value){.iv = interval_of_sum(t->op, &sum),
                                  .bad = bad};
}

/* An operand without bad reads that decides alone makes the result; as in
 * eval_poison.c. Operands of no position never count (their guard is an
 * operand too, and decides). Implied ones only exclude. */
static struct verdict_value logic(const struct verdict_state *s,
                                  const struct verdict_slot *t)
{
    bool is_and = t->op == IR_AND, decided = false, bad = false;
    bool all[2] = {true, true}, any[2] = {false, false}; /* false, true */
    for (int k = 0; k < t->n; k++) {
        const struct verdict_value *x = operand(s, t, k);
        const bool may[2] = {x->iv.b.may_false, x->iv.b.may_true};
        bool own = k < t->n - t->n_implied;
        for (int j = 0; j < 2; j++) {
            all[j] &= may[j];
            any[j] |= own && may[j];
        }
        decided |= own && !x->bad && may[!is_and] && !may[is_and];
        bad |= x->bad;
    }
    return is_and ? boolean(any[0], all[1], bad && !decided)
                  : boolean(all[0], any[1], bad && !decided);
}

static struct verdict_value selected(struct verdict_state *s,
                                     const struct verdict_slot *t)
{
    const struct verdict_value *c = operand(s, t, 0), *a = operand(s, t, 1),
                               *b = operand(s, t, 2);
    struct verdict_value r;
    if (c->none)
        return (struct verdict_value){.iv.type = t->type, .none = true};
    if (!c->iv.b.may_false || b->none) {
        r = *a;
    } else if (!c->iv.b.may_true || a->none) {
        r = *b;
    } else {
        s->x[0] = c->iv;
        s->x[1] = a->iv;
        s->x[2] = b->iv;
        r = (struct verdict_value){.iv = interval_eval(t->op, s->x),
                                   .bad = a->bad || b->bad};
    }
    r.bad |= c->bad;
    return r;
}

static struct verdict_value apply(struct verdict_state *s,
                                  const struct verdict_slot *t)
{
    bool bad;
    if (t->op == IR_AND || t->op == IR_OR)
        return logic(s, t);
    if (t->op == IR_SEL_I || t->op == IR_SEL_F)
        return selected(s, t);
    if (gather(s, t, &bad))
        return (struct verdict_value){.iv.type = t->type, .none = true};
    if (t->op == IR_NOT)
        return boolean(s->x[0].b.may_true, s->x[0].b.may_false, bad);
    return (struct verdict_value){.iv = interval_eval(t->op, s->x), .bad = bad};
}

static void widen(struct interval *r, enum dtype t, const void *element)
{
    if (r->type == IR_INT) {
        int64_t v = dtype_saturate(dtype_load_i64(t, element));
        r->i.lo = v < r->i.lo ? v : r->i.lo;
        r->i.hi = v > r->i.hi ? v : r->i.hi;
    } else if (r->type == IR_BOOL) {
        bool v = *(const uint8_t *)element != 0;
        r->b.may_true |= v;
        r->b.may_false |= !v;
    } else {
        double v = dtype_load_f64(t, element);
        r->f.nan |= isnan(v);
        r->f.lo = v < r->f.lo ? v : r->f.lo;
        r->f.hi = v > r->f.hi ? v : r->f.hi;
    }
}

/* All elements with indices from lo to hi, inside the tensor. */
static struct interval scan(const struct eval_tensor *m, int rank, enum dtype t,
                            enum ir_type type, const int64_t *lo,
                            const int64_t *hi)
{
    struct interval r = {.type = type};
    int64_t at[IR_MAX_RANK] = {0};
    int k;
    if (type == IR_INT) {
        r.i.lo = INT64_MAX;
        r.i.hi = INT64_MIN;
    } else if (type == IR_FLOAT) {
        r.f.lo = (double)INFINITY;
        r.f.hi = -(double)INFINITY;
    }
    memcpy(at, lo, (size_t)rank * sizeof *at);
    do {
        int64_t offset = 0;
        for (k = 0; k < rank; k++)
            offset += at[k] * m->stride[k];
        widen(&r, t, (const char *)m->data + offset * (int64_t)dtype_size(t));
        for (k = rank - 1; k >= 0 && at[k] == hi[k]; k--)
            at[k] = lo[k];
        if (k >= 0)
            at[k]++;
    } while (k >= 0);
    return r;
}

/* Indices are clamped into the tensor, as kernels do it; that one may be
 * outside makes the value bad. */
static struct verdict_value load(struct verdict_state *s, int slot)
{
    const struct verdict_slot *t = &s->plan->p->slot[slot];
    const struct slot_info *i = &s->plan->info[slot];
    const struct eval_tensor *m = &s->env->tensors[i->tensor];
    struct verdict_value r = {.iv = anything(t->type, i)};
    int64_t lo[IR_MAX_RANK], hi[IR_MAX_RANK], reach = 1;
    if (gather(s, t, &r.bad)) {
        r.none = true;
        return r;
    }
    for (int k = 0; k < t->n; k++) {
        int64_t end = m->shape[k] - 1, a = s->x[k].i.lo, z = s->x[k].i.hi;
        r.bad |= a < 0 || z > end;
        if (end < 0)
            return r;
        lo[k] = a < 0 ? 0 : a > end ? end : a;
        hi[k] = z < 0 ? 0 : z > end ? end : z;
        int64_t n = hi[k] - lo[k] + 1;
        reach = n > VERDICT_MAX_REACH ? VERDICT_MAX_REACH + 1 : reach * n;
        reach = reach > VERDICT_MAX_REACH ? VERDICT_MAX_REACH + 1 : reach;
    }
    if (reach <= VERDICT_MAX_REACH)
        r.iv = scan(m, t->n, i->dtype, t->type, lo, hi);
    return r;
}

static void run_slot(struct verdict_state *s, int k)
{
    const struct verdict_slot *t = &s->plan->p->slot[k];
    const struct slot_info *i = &s->plan->info[k];
    switch (t->kind) {
    case SLOT_SUMMARY:
        s->v[k] = verdict_tables_get(s->side[i->side], (int)i->value,
                                     s->first[i->side], s->last[i->side]);
        break;
    case SLOT_Q:
    case SLOT_KV:
        if (t->summary < 0)
            s->v[k] = positions(s, t->kind == SLOT_Q ? SIDE_Q : SIDE_KV);
        else
            s->v[k] = verdict_tables_get(s->side[i->side], (int)i->value,
                                         s->first[i->side], s->last[i->side]);
        break;
    case SLOT_LINEAR:
        s->v[k] = linear(s, t);
        break;
    case SLOT_OP:
        s->v[k] = apply(s, t);
        break;
    case SLOT_LOAD:
        s->v[k] = load(s, k);
        break;
    case SLOT_TILE:
    case SLOT_ANY:
        break;
    }
}

/* --- verdicts ----------------------------------------------------------- */

static const struct verdict_value *run_root(struct verdict_state *s, int which,
                                            int root)
{
    const struct slot_list *l = &s->plan->list[which];
    for (int k = 0; k < l->n; k++)
        run_slot(s, l->slot[k]);
    return &s->v[root];
}

enum verdict verdict_eval_whole(struct verdict_state *s, int64_t q_first,
                                int64_t q_last, int64_t kv_first,
                                int64_t kv_last)
{
    const struct verdict_program *p = s->plan->p;
    s->first[SIDE_Q] = q_first;
    s->last[SIDE_Q] = q_last;
    s->first[SIDE_KV] = kv_first;
    s->last[SIDE_KV] = kv_last;
    const struct verdict_value *r = run_root(s, 0, p->root);
    if (r->bad || r->none)
        return VERDICT_PARTIAL;
    if (!r->iv.b.may_true)
        return VERDICT_EMPTY;
    if (!r->iv.b.may_false)
        return VERDICT_FULL;
    if (p->empty_root >= 0) {
        r = run_root(s, 1, p->empty_root);
        if (!r->iv.b.may_true && !r->none)
            return VERDICT_EMPTY;
    }
    if (p->full_root >= 0) {
        r = run_root(s, 2, p->full_root);
        if (!r->iv.b.may_true && !r->none)
            return VERDICT_FULL;
    }
    return VERDICT_PARTIAL;
}

/* Where to cut a range: at a multiple of the granule, near its middle. 0: too
 * short. */
static int64_t middle(int64_t first, int64_t last)
{
    int64_t n = last - first + 1;
    int64_t m = first + (n / 2 + VERDICT_GRANULE - 1) / VERDICT_GRANULE *
                            VERDICT_GRANULE;
    return n > VERDICT_GRANULE && m <= last ? m : 0;
}

enum verdict verdict_eval(struct verdict_state *s, int64_t q_first,
                          int64_t q_last, int64_t kv_first, int64_t kv_last)
{
    enum verdict v = verdict_eval_whole(s, q_first, q_last, kv_first, kv_last);
    int64_t q_mid = middle(q_first, q_last), kv_mid = middle(kv_first, kv_last);
    if (v != VERDICT_PARTIAL || !s->plan->p->halve || (!q_mid && !kv_mid))
        return v;
    unsigned all = 0;
    for (int part = 0; part < 4 && all != VERDICT_PARTIAL; part++) {
        bool low = part / 2 == 0, left = part % 2 == 0;
        if ((!q_mid && !low) || (!kv_mid && !left))
            continue;
        all |= verdict_eval(s, low || !q_mid ? q_first : q_mid,
                            low && q_mid ? q_mid - 1 : q_last,
                            left || !kv_mid ? kv_first : kv_mid,
                            left && kv_mid ? kv_mid - 1 : kv_last);
    }
    return (enum verdict)all;
}

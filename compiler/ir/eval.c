/* Runs a graph over rows of cells. In: a plan (eval_plan.c), the shapes and
 * captured tensors. Out: the mod's scores and the kept cells of a row. Every
 * value has its own vector, so that bad reads can be followed afterwards
 * (eval_poison.c). Called by the CPU attention, by constant folding and by the
 * tests as the oracle. */
#include "compiler/ir/eval_plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/eval_math.h"

/* --- state -------------------------------------------------------------- */

static size_t element_size(enum eval_precision prec, uint8_t type)
{
    return type == IR_BOOL                        ? 1
           : type == IR_FLOAT && prec == EVAL_F32 ? sizeof(float)
                                                  : 8;
}

/* Hands out `size` bytes of one block, or only counts when base is NULL. */
static void *carve(char *base, size_t *used, size_t size)
{
    void *p = base != NULL ? base + *used : NULL;
    *used += (size + 63) & ~(size_t)63;
    return p;
}

/* Lays the state's arrays out; the first call measures. */
static size_t lay_out(struct eval_state *s, char *base)
{
    const struct eval_plan *p = s->plan;
    size_t used = 0, columns = (size_t)s->max_kv;
    s->val = carve(base, &used, p->n_steps * sizeof *s->val);
    s->bad = carve(base, &used, p->n_steps * sizeof *s->bad);
    s->any_bad = carve(base, &used, p->n_steps * sizeof *s->any_bad);
    s->offset = carve(base, &used, columns * sizeof *s->offset);
    for (int k = 0; k < 2 && p->has_dot; k++) {
        s->row_offset[k] = carve(base, &used, columns * sizeof(int64_t));
        s->row[k] = carve(base, &used, columns * sizeof(double));
    }
    for (uint32_t j = 0; j < p->n_steps; j++) {
        const struct eval_step *t = &p->step[j];
        size_t n = t->wide || t->spread ? columns : 1;
        void *v = t->op == IR_SCORE
                      ? NULL /* the caller's row */
                      : carve(base, &used, n * element_size(s->prec, t->type));
        void *b = t->taint ? carve(base, &used, t->wide ? columns : 1) : NULL;
        if (base != NULL) {
            s->val[j] = v;
            s->bad[j] = b;
        }
    }
    return used;
}

struct eval_state *eval_state_new(const struct eval_plan *p,
                                  enum eval_precision prec, int max_kv,
                                  const struct eval_env *env)
{
    assert(max_kv > 0);
    struct eval_state head = {.plan = p,
                              .env = env,
                              .k = eval_kernels_get(prec),
                              .prec = prec,
                              .max_kv = max_kv};
    size_t own = (sizeof head + 63) & ~(size_t)63;
    size_t size = own + lay_out(&head, NULL);
    char *block = aligned_alloc(64, size);
    if (block == NULL)
        return NULL;
    memset(block, 0, size);
    lay_out(&head, block + own);
    struct eval_state *s = (void *)block;
    *s = head;
    return s;
}

void eval_state_free(struct eval_state *s)
{
    free(s);
}

/* --- steps -------------------------------------------------------------- */

static int64_t variable(const struct eval_state *s, int64_t v)
{
    const struct eval_env *e = s->env;
    switch ((enum ir_var)v) {
    case IR_VAR_B:
        return s->b;
    case IR_VAR_H:
        return s->h;
    case IR_VAR_Q:
        return s->q;
    case IR_VAR_SIZE_B:
        return e->B;
    case IR_VAR_SIZE_H:
        return e->H;
    case IR_VAR_SIZE_HKV:
        return e->Hkv;
    case IR_VAR_SIZE_Q:
        return e->Sq;
    case IR_VAR_SIZE_KV:
        return e->Skv;
    case IR_VAR_SIZE_D:
        return e->D;
    case IR_VAR_SIZE_DV:
        return e->Dv;
    case IR_VAR_KV:
    case IR_VAR_COUNT:
        break;
    }
    return 0;
}

static void put_float(const struct eval_state *s, void *d, double v)
{
    if (s->prec == EVAL_F32)
        *(float *)d = (float)v;
    else
        *(double *)d = v;
}

static void run_leaf(struct eval_state *s, const struct eval_step *t, void *d)
{
    int64_t *di = d;
    switch (t->op) {
    case IR_CONST_B:
        *(uint8_t *)d = t->i != 0;
        break;
    case IR_CONST_I:
        *di = t->i;
        break;
    case IR_CONST_F:
        put_float(s, d, t->f);
        break;
    case IR_VAR_I:
        if (!t->wide)
            *di = variable(s, t->i);
        else
            for (int i = 0; i < s->n_kv; i++)
                di[i] = s->kv0 + i;
        break;
    case IR_PARAM_I:
        *di = s->env->params[t->i].i;
        break;
    case IR_PARAM_F: /* declared f32: rounded on every path */
        put_float(s, d, (float)s->env->params[t->i].f);
        break;
    default: /* SCORE: set by eval_row */
        break;
    }
}

/* LIN, GE0, EQ0: scalar terms go into the constant. */
static void run_linear(struct eval_state *s, const struct eval_step *t, void *d,
                       int n)
{
    const struct eval_plan *p = s->plan;
    int64_t c = t->i;
    uint32_t wide = 0, last = 0;
    for (uint32_t k = 0; k < t->n; k++) {
        if (eval_arg(p, t, k)->wide) {
            wide++;
            last = k;
        } else {
            const int64_t *x = s->val[p->arg[t->first + k]];
            c = ev_wrap_add(c, ev_wrap_mul(p->coef[t->first + k], *x));
        }
    }
    if (t->op != IR_LIN && wide == 1) {
        s->k->test(t->op == IR_EQ0, n, d, c, p->coef[t->first + last],
                   s->val[p->arg[t->first + last]]);
        return;
    }
    int64_t *sum = t->op == IR_LIN ? d : s->offset;
    for (int i = 0; i < n; i++)
        sum[i] = c;
    for (uint32_t k = 0; k < t->n; k++)
        if (eval_arg(p, t, k)->wide)
            s->k->axpy(n, sum, p->coef[t->first + k],
                       s->val[p->arg[t->first + k]]);
    if (t->op != IR_LIN)
        s->k->test(t->op == IR_EQ0, n, d, 0, 1, sum);
}

static void run_logic(struct eval_state *s, const struct eval_step *t,
                      uint8_t *d, int n)
{
    const struct eval_plan *p = s->plan;
    uint8_t start = t->op == IR_AND;
    for (uint32_t k = 0; k < t->n; k++)
        if (!eval_arg(p, t, k)->wide) {
            uint8_t x = *(uint8_t *)s->val[p->arg[t->first + k]];
            start = t->op == IR_AND ? start & x : start | x;
        }
    memset(d, start, (size_t)n);
    for (uint32_t k = 0; k < t->n; k++) {
        const uint8_t *x = s->val[p->arg[t->first + k]];
        if (!eval_arg(p, t, k)->wide)
            continue;
        for (int i = 0; i < n; i++)
            d[i] = t->op == IR_AND ? d[i] & x[i] : d[i] | x[i];
    }
}

static bool is_outside(int64_t x, int64_t extent)
{
    return x < 0 || x >= extent;
}

/* A load's indices become element offsets, clamped inside; bad elements are
 * those with an index outside or with a poisoned index. */
static void load_offsets(struct eval_state *s, uint32_t step, int n)
{
    const struct eval_plan *p = s->plan;
    const struct eval_step *t = &p->step[step];
    const struct eval_tensor *m = &s->env->tensors[t->i];
    uint8_t *bad = s->bad[step];
    int64_t base = 0;
    bool all = false, any = false;
    for (uint32_t k = 0; k < t->n; k++) {
        uint32_t a = p->arg[t->first + k];
        const int64_t *x = s->val[a];
        bool out = m->shape[k] <= 0 ||
                   (!p->step[a].wide && is_outside(*x, m->shape[k]));
        all |= out;
        if (!p->step[a].wide && !out)
            base = ev_wrap_add(base, ev_wrap_mul(m->stride[k], *x));
    }
    memset(bad, all, (size_t)n);
    for (int i = 0; i < n; i++)
        s->offset[i] = base;
    for (uint32_t k = 0; k < t->n && !all; k++) {
        uint32_t a = p->arg[t->first + k];
        if (p->step[a].wide)
            any |= s->k->index(n, s->offset, bad, s->val[a], m->shape[k],
                               m->stride[k]);
    }
    s->any_bad[step] = all | any;
}

static void run_load(struct eval_state *s, uint32_t step, void *d, int n)
{
    const struct eval_plan *p = s->plan;
    const struct eval_step *t = &p->step[step];
    const struct eval_tensor *m = &s->env->tensors[t->i];
    bool empty = false;
    load_offsets(s, step, n);
    for (uint32_t k = 0; k < t->n; k++)
        empty |= m->shape[k] <= 0;
    if (empty) /* nothing there to read: all are poisoned */
        memset(d, 0, (size_t)n * element_size(s->prec, t->type));
    else
        s->k->gather(p->graph->tensors[t->i].dtype, n, d, m->data, s->offset);
    if (s->any_bad[step]) /* keeps values deterministic */
        for (int i = 0; i < n; i++)
            if (s->bad[step][i])
                memset((char *)d + (size_t)i * element_size(s->prec, t->type),
                       0, element_size(s->prec, t->type));
    for (uint32_t k = 0; k < t->n; k++) {
        uint32_t a = p->arg[t->first + k];
        if (!s->any_bad[a])
            continue;
        s->any_bad[step] = true;
        for (int i = 0; i < n; i++)
            s->bad[step][i] |= s->bad[a][p->step[a].wide ? i : 0];
    }
}

/* Used length of a sequence: a load from a tensor [B]. */
static void run_length(struct eval_state *s, uint32_t step, int64_t *d, int n)
{
    const struct eval_step *t = &s->plan->step[step];
    uint32_t a = s->plan->arg[t->first];
    bool wide = s->plan->step[a].wide;
    const int64_t *x = s->val[a];
    s->any_bad[step] = false;
    for (int i = 0; i < n; i++) {
        int64_t b = x[wide ? i : 0];
        bool out = is_outside(b, s->env->B);
        d[i] = out ? 0 : eval_env_len(s->env, t->op == IR_LEN_KV, b);
        s->bad[step][i] = out || (s->any_bad[a] && s->bad[a][wide ? i : 0]);
        s->any_bad[step] |= s->bad[step][i];
    }
}

/* Offsets of a load's elements, inside the tensor; where a read is bad, of
 * some element. False: there is none. */
static bool row_offsets(struct eval_state *s, uint32_t step, int64_t *offset)
{
    const struct eval_plan *p = s->plan;
    const struct eval_step *t = &p->step[step];
    const struct eval_tensor *m = &s->env->tensors[t->i];
    const int n = t->wide ? s->n_kv : 1;
    for (int i = 0; i < n; i++)
        offset[i] = 0;
    for (uint32_t k = 0; k < t->n; k++) {
        const uint32_t a = p->arg[t->first + k];
        const int64_t *x = s->val[a], extent = m->shape[k];
        const bool wide = p->step[a].wide;
        if (extent <= 0)
            return false;
        for (int i = 0; i < n; i++)
            if (!is_outside(x[wide ? i : 0], extent))
                offset[i] = ev_wrap_add(
                    offset[i], ev_wrap_mul(m->stride[k], x[wide ? i : 0]));
    }
    return true;
}

/* The d-th elements of the rows that begin where the load of an operand
 * reads. */
static void row_elements(struct eval_state *s, const struct eval_step *load,
                         int which, int64_t d)
{
    const struct ir_tensor *decl = &s->plan->graph->tensors[load->i];
    const struct eval_tensor *m = &s->env->tensors[load->i];
    const size_t size = dtype_size(decl->dtype);
    const int64_t first = m->stride[load->n - 1] * d * (int64_t)size;
    s->k->gather(decl->dtype, load->wide ? s->n_kv : 1, s->row[which],
                 (const char *)m->data + first, s->row_offset[which]);
}

/* Sums along the rows, in their order. */
static void run_dot(struct eval_state *s, const struct eval_step *t, void *d,
                    int n)
{
    const struct eval_plan *p = s->plan;
    const struct eval_step *a = eval_arg(p, t, 0), *b = eval_arg(p, t, 1);
    const struct ir_tensor *decl = &p->graph->tensors[a->i];
    bool any = true;
    memset(d, 0, (size_t)n * element_size(s->prec, IR_FLOAT));
    for (uint32_t k = 0; k < 2; k++)
        any &= row_offsets(s, p->arg[t->first + k], s->row_offset[k]);
    for (int64_t k = 0; any && k < decl->dim[a->n - 1].extent; k++) {
        row_elements(s, a, 0, k);
        row_elements(s, b, 1, k);
        s->k->mac(n, d, s->row[0], a->wide, s->row[1], b->wide);
    }
}

/* Repeats a scalar over the columns. */
static void spread(const struct eval_state *s, const struct eval_step *t,
                   void *d)
{
    size_t size = element_size(s->prec, t->type);
    if (size == 1) {
        memset(d, *(uint8_t *)d, (size_t)s->max_kv);
    } else if (size == 4) {
        float *x = d;
        for (int i = 1; i < s->max_kv; i++)
            x[i] = x[0];
    } else {
        int64_t *x = d;
        for (int i = 1; i < s->max_kv; i++)
            x[i] = x[0];
    }
}

static void run_step(struct eval_state *s, uint32_t step)
{
    const struct eval_plan *p = s->plan;
    const struct eval_step *t = &p->step[step];
    void *d = s->val[step];
    int n = t->wide ? s->n_kv : 1;
    enum ir_op op = (enum ir_op)t->op;
    if (ir_op_is_linear(op))
        run_linear(s, t, d, n);
    else if (op == IR_AND || op == IR_OR)
        run_logic(s, t, d, n);
    else if (op == IR_LEN_Q || op == IR_LEN_KV)
        run_length(s, step, d, n);
    else if (ir_op_is_load(op))
        run_load(s, step, d, n);
    else if (op == IR_DOT)
        run_dot(s, t, d, n);
    else if (t->n == 0)
        run_leaf(s, t, d);
    else
        s->k->table(op, n, d, s->val[p->arg[t->first]],
                    t->n > 1 ? s->val[p->arg[t->first + 1]] : NULL,
                    t->n > 2 ? s->val[p->arg[t->first + 2]] : NULL);
    if (t->taint && !eval_is_read(op))
        eval_poison_step(s, step);
    if (t->spread)
        spread(s, t, d);
}

static void run_scope(struct eval_state *s, enum eval_scope scope)
{
    for (uint32_t j = 0; j < s->plan->n_list[scope]; j++)
        run_step(s, s->plan->list[scope][j]);
}

/* --- tiles and rows ----------------------------------------------------- */

/* Makes the tile-scope values of (b, h). */
static void run_head(struct eval_state *s, int64_t b, int64_t h)
{
    if (s->tile_valid && s->b == b && s->h == h)
        return;
    s->b = b;
    s->h = h;
    s->tile_valid = true;
    run_scope(s, EVAL_TILE);
}

bool eval_tile(struct eval_state *s, int64_t b, int64_t h, int64_t kv0,
               int n_kv, struct diag *d)
{
    if (n_kv < 0 || n_kv > s->max_kv)
        return diag_set(d, DIAG_INTERNAL, "eval", NULL, 0,
                        "tile of %d columns in a state for %d", n_kv,
                        s->max_kv);
    run_head(s, b, h);
    s->kv0 = kv0;
    s->n_kv = n_kv;
    run_scope(s, EVAL_COL);
    return true;
}

void eval_side(struct eval_state *s, int64_t b, int64_t h, int64_t first, int n)
{
    assert(s->plan->one_sided && n <= s->max_kv);
    run_head(s, b, h);
    s->kv0 = first;
    s->n_kv = n;
    run_scope(s, EVAL_COL);
}

struct eval_column eval_side_value(const struct eval_state *s, uint32_t k)
{
    uint32_t step = s->plan->value[k];
    return (struct eval_column){s->val[step],
                                s->any_bad[step] ? s->bad[step] : NULL,
                                s->plan->step[step].wide};
}

/* Copies a root's values to the caller's row. */
static void copy_out(const struct eval_state *s, uint32_t root, void *out)
{
    const struct eval_step *t = &s->plan->step[root];
    size_t size = element_size(s->prec, t->type);
    const char *v = s->val[root];
    if (v == out) /* SCORE itself */
        return;
    if (t->wide) {
        memcpy(out, v, (size_t)s->n_kv * size);
        return;
    }
    for (int i = 0; i < s->n_kv; i++)
        memcpy((char *)out + (size_t)i * size, v, size);
}

bool eval_row(struct eval_state *s, int64_t q, void *score, uint8_t *keep,
              struct diag *d)
{
    return eval_row_given(s, q, NULL, score, keep, d);
}

bool eval_row_given(struct eval_state *s, int64_t q, const uint8_t *given,
                    void *score, uint8_t *keep, struct diag *d)
{
    const struct eval_plan *p = s->plan;
    if (score == NULL && keep != NULL && eval_plan_mask_reads_score(p))
        return diag_set(d, DIAG_INTERNAL, "eval", p->graph->file, 0,
                        "the mask reads the score, which is not given");
    s->q = q;
    run_scope(s, EVAL_ROW);
    for (uint32_t j = 0; j < p->n_list[EVAL_CELL]; j++) {
        uint32_t step = p->list[EVAL_CELL][j];
        if (p->step[step].op == IR_SCORE)
            s->val[step] = score;
        else if (score != NULL || !p->step[step].reads_score)
            run_step(s, step);
    }
    bool score_bad = score != NULL && s->any_bad[p->score];
    bool keep_bad = keep != NULL && s->any_bad[p->keep];
    if ((score_bad || keep_bad) &&
        !eval_poison_check(s, given, score != NULL, d))
        return false;
    if (score != NULL)
        copy_out(s, p->score, score);
    if (keep != NULL)
        copy_out(s, p->keep, keep);
    for (int i = 0; keep != NULL && given != NULL && i < s->n_kv; i++)
        keep[i] = (uint8_t)((keep[i] | !(given[i] & 1)) & given[i] >> 1);
    return true;
}

/* --- constants ---------------------------------------------------------- */

union eval_value eval_op_f64(enum ir_op op, const union eval_value *x)
{
    const struct ir_op_info *info = ir_op_info(op);
    const void *operand[3] = {NULL, NULL, NULL};
    union eval_value y = {0};
    uint8_t b[3], bool_out = 0;
    assert(info->n > 0 && info->n <= 3);
    for (int k = 0; k < info->n; k++) {
        b[k] = x[k].i != 0;
        operand[k] = info->in[k] == 'b' ? (const void *)&b[k] : &x[k];
    }
    eval_kernels_named(EVAL_F64, "generic")
        ->table(op, 1, info->out == IR_BOOL ? (void *)&bool_out : &y,
                operand[0], operand[1], operand[2]);
    if (info->out == IR_BOOL)
        y.i = bool_out;
    return y;
}

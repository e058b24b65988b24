/* Captured tensors and params of random programs: declared where they are
 * first used, read at indices that lie inside. */
#include "tests/fuzz/modgen_expr.h"

#include <stdio.h>
#include <string.h>

/* --- declarations ------------------------------------------------- */

int modgen_kind(const struct modgen_tensor *t)
{
    if (t->style == STYLE_MASKING)
        return 3;
    return t->dtype == DTYPE_BOOL ? 0 : dtype_is_float(t->dtype) ? 2 : 1;
}

static void choose_values(struct writer *w, struct modgen_tensor *t)
{
    static const int64_t most[] = {50, 2, 5, 100};
    t->below = most[modgen_pick(w, 4)];
    if (t->dtype == DTYPE_BOOL)
        t->below = 2;
    else if (t->dtype != DTYPE_U8 && modgen_pick(w, 3) == 2)
        t->low = -t->below;
    t->style = (enum modgen_style)modgen_pick(w, STYLES);
    if (t->style == STYLE_LIMITS && t->dtype != DTYPE_I64)
        t->style = STYLE_RANDOM;
    t->layout = (enum modgen_layout)modgen_pick(w, LAYOUTS);
}

static void choose_dims(struct writer *w, struct modgen_tensor *t)
{
    static const uint8_t ranks[] = {1, 1, 1, 2, 2, 2, 0, 3, 3, 1, 4, 5};
    static const uint8_t extents[] = {4, 1, 2, 3, 8, 16, 32, 7};
    static const enum ir_dim_kind kinds[] = {
        IR_DIM_KV, IR_DIM_Q,     IR_DIM_H,   IR_DIM_FIXED,
        IR_DIM_B,  IR_DIM_FIXED, IR_DIM_HKV, IR_DIM_ANY};
    int long_dims = 0;
    t->rank = ranks[modgen_pick(w, sizeof ranks)];
    if (t->rank == 0 && t->dtype == DTYPE_BOOL && !w->reads)
        t->rank = 1; /* one that is never read is an error */
    for (int d = 0; d < t->rank; d++) {
        enum ir_dim_kind k = kinds[modgen_pick(w, 8)];
        bool is_long = k == IR_DIM_Q || k == IR_DIM_KV;
        if (is_long && ++long_dims > 2)
            k = IR_DIM_FIXED;
        t->kind[d] = k;
        if (k == IR_DIM_FIXED || k == IR_DIM_ANY)
            t->extent[d] = extents[modgen_pick(w, t->rank > 2 ? 4 : 8)];
    }
}

bool modgen_has_room(const struct writer *w)
{
    return !w->fixed && w->out->n_tensors < MODGEN_MOST_TENSORS - 3;
}

int modgen_new_tensor(struct writer *w, int kind, int64_t last)
{
    static const enum dtype floats[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16,
                                        DTYPE_E4M3, DTYPE_E5M2};
    static const enum dtype ints[] = {DTYPE_I32, DTYPE_I64, DTYPE_I8, DTYPE_U8,
                                      DTYPE_I16};
    int index = w->out->n_tensors++;
    struct modgen_tensor *t = &w->out->tensor[index];
    *t = (struct modgen_tensor){.dtype = DTYPE_BOOL};
    snprintf(t->name, sizeof t->name, "t%d", index);
    if (kind == 3)
        t->dtype = floats[modgen_pick(w, 3)]; /* that have infinities */
    else if (kind == 2)
        t->dtype = floats[modgen_pick(w, 5)];
    else if (kind == 1)
        t->dtype = ints[modgen_pick(w, 5)];
    choose_dims(w, t);
    if (last) {
        t->rank = t->rank ? t->rank : 1;
        t->kind[t->rank - 1] = IR_DIM_FIXED;
        t->extent[t->rank - 1] = last;
    }
    choose_values(w, t);
    if (kind == 3)
        t->style = STYLE_MASKING;
    return index;
}

/* The last slots are for the first tensor of each kind. */
int modgen_some_tensor(struct writer *w, int kind)
{
    int have[MODGEN_MOST_TENSORS], n = 0;
    for (int i = 0; i < w->out->n_tensors; i++)
        if (modgen_kind(&w->out->tensor[i]) == kind)
            have[n++] = i;
    if (n == 0 || (modgen_has_room(w) && modgen_pick(w, 3) == 2))
        return modgen_new_tensor(w, kind, 0);
    return have[modgen_pick(w, (unsigned)n)];
}

/* --- indices ------------------------------------------------------ */

void modgen_put_extent(struct writer *w, const struct modgen_tensor *t, int d)
{
    static const char *const size[] = {"",
                                       "facc.size.B",
                                       "facc.size.H",
                                       "facc.size.Hkv",
                                       "facc.size.q",
                                       "facc.size.kv"};
    if (t->extent[d])
        modgen_put(w, "%lld", (long long)t->extent[d]);
    else
        modgen_put(w, "%s", size[t->kind[d]]);
}

/* The index that such a dimension is made for. */
static bool put_natural(struct writer *w, enum ir_dim_kind kind)
{
    static const char *const text[] = {
        "", "b", "h", "h // (facc.size.H // facc.size.Hkv)", "q", "kv", ""};
    modgen_put(w, "%s", text[kind]);
    return kind != IR_DIM_FIXED && kind != IR_DIM_ANY;
}

/* An index from 0 to the extent - 1. */
static void put_index(struct writer *w, int depth,
                      const struct modgen_tensor *t, int d)
{
    const int64_t n = t->extent[d];
    const bool power = t->kind[d] == IR_DIM_FIXED && (n & (n - 1)) == 0;
    const unsigned how = modgen_pick(w, 8);
    if (how < 4 && put_natural(w, t->kind[d]))
        return;
    switch (how) {
    case 4:
        modgen_put(w, "facc.clamp(");
        modgen_int(w, depth);
        modgen_put(w, ", 0, ");
        modgen_put_extent(w, t, d);
        modgen_put(w, " - 1)");
        return;
    case 5:
        if (t->extent[d])
            modgen_put(w, "%u", modgen_pick(w, (unsigned)n));
        else
            modgen_put(w, "0");
        return;
    case 6:
        modgen_put(w, "(");
        modgen_int(w, depth);
        modgen_put(w, power ? ") & (" : ") %% (");
        modgen_put_extent(w, t, d);
        modgen_put(w, power ? " - 1)" : ")");
        return;
    default:
        modgen_put(w, "(");
        modgen_int(w, depth);
        modgen_put(w, ") %% ");
        modgen_put_extent(w, t, d);
    }
}

void modgen_indices(struct writer *w, int depth, int tensor, int first,
                    int count)
{
    const unsigned how = modgen_pick(w, 4); /* 3: t(i, j), 2: t(i)[j] */
    const bool list = how == 3 && count > 1;
    if (list)
        modgen_put(w, "(");
    for (int i = 0; i < count; i++) {
        const bool call = how >= 2 && i == 0;
        if (!list)
            modgen_put(w, call ? "(" : "[");
        else if (i)
            modgen_put(w, ", ");
        put_index(w, depth, &w->out->tensor[tensor], first + i);
        if (!list)
            modgen_put(w, call ? ")" : "]");
    }
    if (list)
        modgen_put(w, ")");
}

void modgen_load(struct writer *w, int depth, int tensor)
{
    const struct modgen_tensor *t = &w->out->tensor[tensor];
    for (int k = 0; k < w->n_vars; k++) {
        const struct variable *v = &w->var[k];
        if (v->type != VIEW || v->tensor != tensor || modgen_pick(w, 2) == 0)
            continue;
        modgen_put(w, "%s", v->name);
        modgen_indices(w, depth, tensor, v->taken, t->rank - v->taken);
        return;
    }
    modgen_put(w, "%s", t->name);
    if (t->rank > 0)
        modgen_indices(w, depth, tensor, 0, t->rank);
    else if (t->dtype == DTYPE_BOOL || modgen_pick(w, 2))
        modgen_put(w, "()"); /* a number is read without it, too */
}

/* --- params ------------------------------------------------------- */

static const struct modgen_param *some_param(struct writer *w, bool floats)
{
    static const int64_t values[] = {13, 1, 64, 37, -1, -20, 5, 2};
    struct modgen_program *p = w->out;
    int have[MODGEN_MOST_PARAMS], n = 0;
    for (int i = 0; i < p->n_params; i++)
        if ((p->param[i].dtype == DTYPE_F32) == floats)
            have[n++] = i;
    bool room = !w->fixed && p->n_params < MODGEN_MOST_PARAMS - 1;
    if (n && !(room && modgen_pick(w, 3) == 2))
        return &p->param[have[modgen_pick(w, (unsigned)n)]];
    struct modgen_param *q = &p->param[p->n_params];
    *q = (struct modgen_param){.dtype = DTYPE_F32};
    snprintf(q->name, sizeof q->name, "p%d", p->n_params++);
    if (floats) {
        q->f = 0.25 * (1 + modgen_pick(w, 15));
    } else {
        q->dtype = modgen_pick(w, 2) ? DTYPE_I64 : DTYPE_I32;
        q->i = values[modgen_pick(w, 8)];
    }
    return q;
}

struct range modgen_int_param(struct writer *w, bool positive)
{
    const struct modgen_param *p = some_param(w, false);
    if (positive && p->i < 1)
        modgen_put(w, "(%s %% 7 + 1)", p->name);
    else if (p->dtype == DTYPE_I64)
        modgen_put(w, positive ? "(%s %% 64 + 1)" : "(%s %% 64)", p->name);
    else
        modgen_put(w, "%s", p->name);
    return (struct range){65, 0x1p31};
}

void modgen_float_param(struct writer *w)
{
    modgen_put(w, "%s", some_param(w, true)->name);
}

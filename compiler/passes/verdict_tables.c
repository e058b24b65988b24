/* Tables of summaries. In: the nodes and guards of one side, a (b, h). Out:
 * minimum and maximum over any range of positions: a sparse table (Bender and
 * Farach-Colton, The LCA Problem Revisited, 2000: two overlapping powers of
 * two) over blocks of positions, the positions themselves at the ends; counts
 * for booleans, NaN and bad reads. Called by verdict_eval.c for every (b, h).
 */
#include "compiler/passes/verdict_tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, CHUNK = 512 };

/* Numbers are kept as ordered 64-bit keys. lo > hi: the position does not
 * count. */
struct table {
    int64_t *lo, *hi;             /* [cap] */
    int64_t *block_lo, *block_hi; /* [level][blocks of cap] */
    uint32_t *is_false, *is_true; /* [cap + 1] positions before; bools */
    uint32_t *is_nan, *is_bad;    /* [cap + 1] floats; all */
};

struct verdict_tables {
    const struct verdict_side_plan *side;
    struct eval_state *eval;
    enum eval_precision prec;
    int64_t cap, blocks, n;
    struct table *table; /* [side->n] */
    void *block;         /* their memory */
};

static enum ir_type type_of(const struct verdict_tables *t, int k)
{
    return t->side->column[k].type;
}

/* --- memory ------------------------------------------------------------- */

static int levels_of(int64_t blocks)
{
    int levels = 1;
    while ((int64_t)1 << levels <= blocks)
        levels++;
    return levels;
}

static void *carve(char *base, size_t *used, int64_t n, size_t size)
{
    void *p = base != NULL ? base + *used : NULL;
    *used += ((size_t)n * size + 15) & ~(size_t)15;
    return p;
}

/* The first call measures. */
static size_t lay_out(struct verdict_tables *t, char *base)
{
    size_t used = 0;
    for (int k = 0; k < t->side->n; k++) {
        struct table *x = &t->table[k];
        int64_t counts = t->cap + 1;
        int64_t cells = levels_of(t->blocks) * t->blocks;
        x->is_bad = carve(base, &used, counts, sizeof *x->is_bad);
        if (type_of(t, k) == IR_BOOL) {
            x->is_false = carve(base, &used, counts, sizeof *x->is_false);
            x->is_true = carve(base, &used, counts, sizeof *x->is_true);
            continue;
        }
        x->lo = carve(base, &used, t->cap, sizeof *x->lo);
        x->hi = carve(base, &used, t->cap, sizeof *x->hi);
        x->block_lo = carve(base, &used, cells, sizeof *x->lo);
        x->block_hi = carve(base, &used, cells, sizeof *x->hi);
        if (type_of(t, k) == IR_FLOAT)
            x->is_nan = carve(base, &used, counts, sizeof *x->is_nan);
    }
    return used;
}

struct verdict_tables *verdict_tables_new(const struct verdict_side_plan *side,
                                          enum eval_precision prec,
                                          const struct eval_env *env,
                                          int64_t cap)
{
    struct verdict_tables *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->side = side;
    t->prec = prec;
    t->cap = cap;
    t->blocks = (cap + BLOCK - 1) / BLOCK;
    t->table = calloc((size_t)side->n + 1, sizeof *t->table);
    t->eval = eval_state_new(side->eval, prec, CHUNK, env);
    if (t->table == NULL || t->eval == NULL)
        goto fail;
    t->block = malloc(lay_out(t, NULL) + 1);
    if (t->block == NULL)
        goto fail;
    lay_out(t, t->block);
    return t;
fail:
    verdict_tables_free(t);
    return NULL;
}

void verdict_tables_free(struct verdict_tables *t)
{
    if (t == NULL)
        return;
    eval_state_free(t->eval);
    free(t->table);
    free(t->block);
    free(t);
}

/* --- making them -------------------------------------------------------- */

/* Doubles in their order as integers; zeros of either sign are neighbours. */
static int64_t key_of(double v)
{
    int64_t u;
    memcpy(&u, &v, sizeof u);
    return u < 0 ? u ^ INT64_MAX : u;
}

static double value_of(int64_t key)
{
    double v;
    key = key < 0 ? key ^ INT64_MAX : key;
    memcpy(&v, &key, sizeof v);
    return v;
}

static void put_bool(struct table *x, int64_t at, bool counts, bool bad, bool v)
{
    x->is_false[at + 1] = x->is_false[at] + (counts && (bad || !v));
    x->is_true[at + 1] = x->is_true[at] + (counts && (bad || v));
}

static void put_int(struct table *x, int64_t at, bool counts, int64_t lo,
                    int64_t hi)
{
    x->lo[at] = counts ? lo : INT64_MAX;
    x->hi[at] = counts ? hi : INT64_MIN;
}

static void put_float(struct table *x, int64_t at, bool counts, bool bad,
                      double v)
{
    bool nan = counts && (bad || isnan(v));
    bool none = !counts || (!bad && isnan(v));
    x->lo[at] = none ? INT64_MAX : key_of(bad ? -(double)INFINITY : v);
    x->hi[at] = none ? INT64_MIN : key_of(bad ? (double)INFINITY : v);
    x->is_nan[at + 1] = x->is_nan[at] + nan;
}

static double float_at(enum eval_precision prec, const void *v, int i)
{
    return prec == EVAL_F64 ? ((const double *)v)[i]
                            : (double)((const float *)v)[i];
}

/* Column k at positions at .. at + n - 1. */
static void put_chunk(struct verdict_tables *t, int k, int64_t at, int n)
{
    struct table *x = &t->table[k];
    const struct verdict_column *c = &t->side->column[k];
    struct eval_column v = eval_side_value(t->eval, c->node), g = {0};
    if (c->guard != UINT32_MAX)
        g = eval_side_value(t->eval, c->guard);
    for (int i = 0; i < n; i++) {
        int j = v.wide ? i : 0, m = g.wide ? i : 0;
        bool unknown = g.bad != NULL && g.bad[m]; /* whether it counts */
        bool counts =
            g.value == NULL || unknown || ((const uint8_t *)g.value)[m];
        bool bad = counts && v.bad != NULL && v.bad[j];
        x->is_bad[at + i + 1] = x->is_bad[at + i] + bad;
        if (c->type == IR_BOOL) {
            put_bool(x, at + i, counts, bad, ((const uint8_t *)v.value)[j]);
        } else if (c->type == IR_INT) {
            int64_t value = ((const int64_t *)v.value)[j];
            put_int(x, at + i, counts, bad ? c->least : value,
                    bad ? c->most : value);
        } else {
            put_float(x, at + i, counts, bad, float_at(t->prec, v.value, j));
        }
    }
}

static int64_t min_i(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_i(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Level l, entry j: of 2^l blocks from block j. */
static void make_blocks(const struct verdict_tables *t, struct table *x)
{
    int64_t blocks = (t->n + BLOCK - 1) / BLOCK;
    for (int64_t j = 0; j < blocks; j++) {
        int64_t lo = INT64_MAX, hi = INT64_MIN;
        for (int64_t i = j * BLOCK; i < t->n && i < (j + 1) * BLOCK; i++) {
            lo = min_i(lo, x->lo[i]);
            hi = max_i(hi, x->hi[i]);
        }
        x->block_lo[j] = lo;
        x->block_hi[j] = hi;
    }
    for (int l = 1; (int64_t)1 << l <= blocks; l++) {
        const int64_t *lo = x->block_lo + (l - 1) * t->blocks;
        const int64_t *hi = x->block_hi + (l - 1) * t->blocks;
        int64_t half = (int64_t)1 << (l - 1);
        for (int64_t j = 0; j + 2 * half <= blocks; j++) {
            x->block_lo[l * t->blocks + j] = min_i(lo[j], lo[j + half]);
            x->block_hi[l * t->blocks + j] = max_i(hi[j], hi[j + half]);
        }
    }
}

void verdict_tables_fill(struct verdict_tables *t, int64_t b, int64_t h,
                         int64_t n)
{
    t->n = n;
    for (int k = 0; k < t->side->n; k++) {
        struct table *x = &t->table[k];
        x->is_bad[0] = 0;
        if (type_of(t, k) == IR_BOOL)
            x->is_false[0] = x->is_true[0] = 0;
        else if (type_of(t, k) == IR_FLOAT)
            x->is_nan[0] = 0;
    }
    eval_side(t->eval, b, h, 0, 0); /* tile scope, whatever n */
    for (int64_t at = 0; at < n && t->side->n > 0; at += CHUNK) {
        int m = n - at < CHUNK ? (int)(n - at) : CHUNK;
        eval_side(t->eval, b, h, at, m);
        for (int k = 0; k < t->side->n; k++)
            put_chunk(t, k, at, m);
    }
    for (int k = 0; k < t->side->n; k++)
        if (type_of(t, k) != IR_BOOL)
            make_blocks(t, &t->table[k]);
}

/* --- asking them -------------------------------------------------------- */

struct extremes {
    int64_t lo, hi;
};

static void take(struct extremes *e, int64_t lo, int64_t hi)
{
    e->lo = min_i(e->lo, lo);
    e->hi = max_i(e->hi, hi);
}

static struct extremes extremes(const struct verdict_tables *t,
                                const struct table *x, int64_t first,
                                int64_t last)
{
    struct extremes e = {INT64_MAX, INT64_MIN};
    for (; first <= last && first % BLOCK != 0; first++)
        take(&e, x->lo[first], x->hi[first]);
    for (; first <= last && (last + 1) % BLOCK != 0 && last + 1 < t->n; last--)
        take(&e, x->lo[last], x->hi[last]);
    if (first > last)
        return e;
    int64_t from = first / BLOCK, blocks = last / BLOCK - from + 1;
    int l = 63 - __builtin_clzll((unsigned long long)blocks);
    int64_t a = l * t->blocks + from, b = a + blocks - ((int64_t)1 << l);
    take(&e, x->block_lo[a], x->block_hi[a]);
    take(&e, x->block_lo[b], x->block_hi[b]);
    return e;
}

struct verdict_value verdict_tables_get(const struct verdict_tables *t, int k,
                                        int64_t first, int64_t last)
{
    const struct table *x = &t->table[k];
    struct verdict_value v = {.iv.type = type_of(t, k),
                              .bad = x->is_bad[last + 1] != x->is_bad[first]};
    if (v.iv.type == IR_BOOL) {
        v.iv.b.may_false = x->is_false[last + 1] != x->is_false[first];
        v.iv.b.may_true = x->is_true[last + 1] != x->is_true[first];
        v.none = !v.iv.b.may_false && !v.iv.b.may_true;
        return v;
    }
    struct extremes e = extremes(t, x, first, last);
    bool empty = e.lo > e.hi;
    if (v.iv.type == IR_INT) {
        v.none = empty;
        v.iv.i.lo = e.lo;
        v.iv.i.hi = e.hi;
        return v;
    }
    v.iv.f.nan = x->is_nan[last + 1] != x->is_nan[first];
    v.iv.f.lo = empty ? (double)INFINITY : value_of(e.lo);
    v.iv.f.hi = empty ? -(double)INFINITY : value_of(e.hi);
    v.none = empty && !v.iv.f.nan;
    return v;
}

struct verdict_value verdict_tables_scalar(const struct verdict_tables *t,
                                           uint32_t k, enum ir_type type)
{
    struct eval_column c = eval_side_value(t->eval, k);
    struct verdict_value v = {.iv.type = type, .bad = c.bad != NULL};
    if (type == IR_BOOL) {
        bool x = *(const uint8_t *)c.value;
        v.iv.b.may_false = v.bad || !x;
        v.iv.b.may_true = v.bad || x;
    } else if (type == IR_INT) {
        int64_t x = *(const int64_t *)c.value;
        v.iv.i.lo = v.bad ? INT64_MIN : x;
        v.iv.i.hi = v.bad ? INT64_MAX : x;
    } else {
        double x = float_at(t->prec, c.value, 0);
        bool nan = isnan(x);
        v.iv.f.lo = v.bad ? -(double)INFINITY : nan ? (double)INFINITY : x;
        v.iv.f.hi = v.bad ? (double)INFINITY : nan ? -(double)INFINITY : x;
        v.iv.f.nan = v.bad || nan;
    }
    return v;
}

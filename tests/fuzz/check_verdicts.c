/* Verdicts of rectangles against the truth (check.h). */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/check.h"

/* Cells of one (b, h), summed from the first row and column. */
struct count {
    int32_t keep, passed; /* count; are not masked by the mask */
};
struct sums {
    int rows, cols;
    struct count *at; /* [rows + 1][cols + 1] */
    bool near;        /* f32 may see some cell otherwise */
};

static bool sums_make(struct sums *s, const struct truth *t, int b, int h)
{
    s->rows = t->c->len_q[b];
    s->cols = t->c->len_kv[b];
    const size_t stride = (size_t)s->cols + 1;
    s->near = false;
    s->at = calloc(((size_t)s->rows + 1) * stride, sizeof *s->at);
    for (int q = 0; q < s->rows && s->at; q++) {
        struct count left = {0, 0};
        for (int kv = 0; kv < s->cols; kv++) {
            const struct cell *x = truth_cell(t, b, h, q, kv);
            const struct count *above =
                &s->at[(size_t)q * stride + (size_t)kv + 1];
            left.keep += x->keep;
            left.passed += x->passed;
            s->near |= x->near;
            s->at[((size_t)q + 1) * stride + (size_t)kv + 1] = (struct count){
                above->keep + left.keep, above->passed + left.passed};
        }
    }
    return s->at != NULL;
}

/* Ends included. */
struct rectangle {
    int q0, q1, k0, k1;
};

/* EMPTY: no cell counts; FULL: the mask keeps all. */
static enum verdict truth_of(const struct sums *s, const struct rectangle *r)
{
    const size_t stride = (size_t)s->cols + 1;
    const struct count *above = s->at + (size_t)r->q0 * stride;
    const struct count *below = s->at + (size_t)(r->q1 + 1) * stride;
    const int k0 = r->k0, k1 = r->k1 + 1;
    const int32_t keep =
        below[k1].keep - below[k0].keep - above[k1].keep + above[k0].keep;
    const int32_t passed = below[k1].passed - below[k0].passed -
                           above[k1].passed + above[k0].passed;
    return passed == (r->q1 - r->q0 + 1) * (k1 - k0) ? VERDICT_FULL
           : keep == 0                               ? VERDICT_EMPTY
                                                     : VERDICT_PARTIAL;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

/* A range of 0 .. n - 1: any, or a tile. */
static void pick(uint64_t *state, int n, int *first, int *last)
{
    static const int sizes[] = {8, 16, 32, 64, 128};
    const int a = (int)(next(state) % (uint64_t)n);
    if (next(state) % 2) {
        const int size = sizes[next(state) % 5];
        *first = a / size * size;
        *last = *first + size < n ? *first + size - 1 : n - 1;
        return;
    }
    const int b = (int)(next(state) % (uint64_t)n);
    *first = a < b ? a : b;
    *last = a < b ? b : a;
}

static bool check_rectangles(struct verdict_state *v, const struct sums *s,
                             const char *where, uint64_t seed,
                             struct outcome *o)
{
    enum { RECTANGLES = 40 };
    uint64_t state = seed;
    for (int k = 0; k < RECTANGLES && s->rows > 0 && s->cols > 0; k++) {
        struct rectangle r;
        pick(&state, s->rows, &r.q0, &r.q1);
        pick(&state, s->cols, &r.k0, &r.k1);
        const enum verdict truth = truth_of(s, &r);
        const enum verdict claim =
            k % 4 ? verdict_eval(v, r.q0, r.q1, r.k0, r.k1)
                  : verdict_eval_whole(v, r.q0, r.q1, r.k0, r.k1);
        if (claim != VERDICT_PARTIAL && claim != truth)
            return check_fail(o, STAGE_VERDICT,
                              "%s rows %d..%d, columns %d..%d are called %s",
                              where, r.q0, r.q1, r.k0, r.k1,
                              claim == VERDICT_EMPTY ? "EMPTY" : "FULL");
        o->tally.tiles++;
        o->tally.decided += claim != VERDICT_PARTIAL;
        o->tally.really += truth != VERDICT_PARTIAL;
    }
    return true;
}

bool check_verdicts(const struct truth *t, const struct program *p,
                    uint64_t seed, struct outcome *o)
{
    const struct fuzz_case *c = t->c;
    bool ok = true;
    if (p->verdict.tier == TIER_NONE)
        return true;
    for (int prec = EVAL_F32; prec <= EVAL_F64 && ok; prec++) {
        struct verdict_state *v = verdict_state_new(
            p->verdict_plan, (enum eval_precision)prec, &c->env);
        if (!v)
            return check_fail(o, STAGE_VERDICT, "memory is out");
        for (int i = 0; i < c->B * c->H && ok; i++) {
            struct sums s;
            char where[48];
            snprintf(where, sizeof where, "%s: b %d h %d",
                     prec == EVAL_F32 ? "f32" : "f64", i / c->H, i % c->H);
            verdict_state_head(v, i / c->H, i % c->H);
            if (!sums_make(&s, t, i / c->H, i % c->H))
                ok = check_fail(o, STAGE_VERDICT, "memory is out");
            else if (prec == EVAL_F64 || !s.near)
                ok = check_rectangles(v, &s, where, seed + (uint64_t)i, o);
            free(s.at);
        }
        verdict_state_free(v);
    }
    return ok;
}

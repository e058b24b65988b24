/* All cells of a mask, and what is true of a rectangle of them: the brute
 * force that verdicts are compared with. */
#ifndef FACC_TEST_VERDICT_CELLS_H
#define FACC_TEST_VERDICT_CELLS_H

#include <stdlib.h>
#include <string.h>

#include "compiler/ir/eval.h"
#include "compiler/passes/verdict.h"

struct cells {
    int rows, cols; /* inside the used lengths */
    int stride;     /* cols + 1 */
    int32_t *sum;   /* [rows + 1][stride] cells that count above and left */
};

/* Where the mask reads the score: some number for every cell. */
static inline void cells_scores(float *scores, int q, int cols)
{
    for (int i = 0; i < cols; i++)
        scores[i] =
            (float)(((unsigned)q * 7919u + (unsigned)i * 104729u) % 2048u) /
                128.0f -
            8.0f;
}

/* False with *d filled: a bad read that matters. A mask that reads the score
 * needs EVAL_F32. */
static inline bool cells_make(struct cells *c, const struct eval_plan *plan,
                              enum eval_precision prec,
                              const struct eval_env *env, int b, int h,
                              struct diag *d)
{
    int rows = (int)(env->len_q ? env->len_q[b] : env->Sq);
    int cols = (int)(env->len_kv ? env->len_kv[b] : env->Skv);
    struct eval_state *s = eval_state_new(plan, prec, cols > 0 ? cols : 1, env);
    uint8_t *keep = malloc((size_t)cols + 1);
    float *scores = malloc(((size_t)cols + 1) * sizeof *scores);
    bool scored = eval_plan_mask_reads_score(plan);
    *c = (struct cells){.rows = rows, .cols = cols, .stride = cols + 1};
    c->sum = calloc((size_t)(rows + 1) * (size_t)c->stride, sizeof *c->sum);
    bool ok = s && keep && scores && c->sum && eval_tile(s, b, h, 0, cols, d);
    for (int q = 0; q < rows && ok; q++) {
        const int32_t *above = c->sum + (size_t)q * (size_t)c->stride;
        int32_t *row = c->sum + (size_t)(q + 1) * (size_t)c->stride, left = 0;
        cells_scores(scores, q, scored ? cols : 0);
        ok = eval_row(s, q, scored ? scores : NULL, keep, d);
        for (int i = 0; i < cols && ok; i++) {
            left += keep[i];
            row[i + 1] = above[i + 1] + left;
        }
    }
    free(keep);
    free(scores);
    eval_state_free(s);
    return ok;
}

static inline void cells_free(struct cells *c)
{
    free(c->sum);
}

/* Of a rectangle, ends included. */
static inline enum verdict cells_truth(const struct cells *c, int q0, int q1,
                                       int k0, int k1)
{
    const int32_t *above = c->sum + (size_t)q0 * (size_t)c->stride;
    const int32_t *below = c->sum + (size_t)(q1 + 1) * (size_t)c->stride;
    int64_t n = (int64_t)below[k1 + 1] - below[k0] - above[k1 + 1] + above[k0];
    return n == 0                                        ? VERDICT_EMPTY
           : n == (int64_t)(q1 - q0 + 1) * (k1 - k0 + 1) ? VERDICT_FULL
                                                         : VERDICT_PARTIAL;
}

/* The verdict claims more than is true. */
static inline bool cells_contradict(enum verdict claimed, enum verdict truth)
{
    return claimed != VERDICT_PARTIAL && claimed != truth;
}

#endif

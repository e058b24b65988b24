/* Tables of summaries: what one-sided parts of a mask are over any range of
 * rows or columns. Between verdict_eval.c and verdict_tables.c. */
#ifndef FACC_VERDICT_TABLES_H
#define FACC_VERDICT_TABLES_H

#include "compiler/passes/verdict_plan.h"

/* What is known of a value over a rectangle. */
struct verdict_value {
    struct interval iv;
    bool none; /* of no position: the guard excludes all; iv says nothing */
    bool bad;  /* may hang on a read outside a captured tensor */
};

/* Tables of one side for up to `cap` positions. NULL: memory. */
struct verdict_tables;
struct verdict_tables *verdict_tables_new(const struct verdict_side_plan *side,
                                          enum eval_precision prec,
                                          const struct eval_env *env,
                                          int64_t cap);
void verdict_tables_free(struct verdict_tables *t);
/* Makes them for sequence b, head h, positions 0 .. n - 1, and the values of
 * tile scope. */
void verdict_tables_fill(struct verdict_tables *t, int64_t b, int64_t h,
                         int64_t n);
/* Value k of the plan, of tile scope. */
struct verdict_value verdict_tables_scalar(const struct verdict_tables *t,
                                           uint32_t k, enum ir_type type);
/* Column k of the side over positions first .. last, inside. */
struct verdict_value verdict_tables_get(const struct verdict_tables *t, int k,
                                        int64_t first, int64_t last);
#endif

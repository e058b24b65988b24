/* How a verdict program is run: made once by verdict_plan.c, read by
 * verdict_eval.c and verdict_tables.c. Immutable, in the graph's arena. */
#ifndef FACC_VERDICT_PLAN_H
#define FACC_VERDICT_PLAN_H

#include "compiler/passes/verdict.h"

/* One summary, as its side's plan makes it. */
struct verdict_column {
    uint32_t node, guard; /* values of the plan; guard: UINT32_MAX none */
    enum ir_type type;
    int64_t least, most; /* ints: what a bad read may give */
};

/* How one side's values are made. */
struct verdict_side_plan {
    struct eval_plan *eval;
    int n;
    struct verdict_column *column; /* [n] */
};

/* What the graph says of a slot's node. */
struct slot_info {
    uint32_t value; /* SLOT_TILE: of the q side's plan; summaries: column */
    enum verdict_side side;
    int tensor; /* SLOT_LOAD */
    enum dtype dtype;
    int64_t least, most; /* range of an int */
};

/* Slots that one root needs and no root before it. */
struct slot_list {
    int *slot;
    int n;
};

enum { ROOTS = 3 }; /* the mask, EMPTY's form, FULL's form */

struct verdict_plan {
    const struct verdict_program *p;
    struct verdict_side_plan side[SIDES];
    struct slot_info *info; /* by slot */
    struct slot_list list[ROOTS];
    int most_operands;
};

#endif

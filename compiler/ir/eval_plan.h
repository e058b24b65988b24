/* What eval_plan.c, eval.c and eval_poison.c share: the compiled order of
 * evaluation and one thread's state. */
#ifndef FACC_EVAL_PLAN_H
#define FACC_EVAL_PLAN_H

#include "compiler/ir/eval.h"
#include "compiler/ir/eval_kernels.h"

/* How often a step runs. */
enum eval_scope { EVAL_TILE, EVAL_COL, EVAL_ROW, EVAL_CELL, EVAL_SCOPES };

/* One node. Scalars (tile and row scope) have one element; wide steps one per
 * column of the tile. */
struct eval_step {
    uint8_t op;    /* enum ir_op */
    uint8_t type;  /* enum ir_type */
    uint8_t scope; /* enum eval_scope */
    bool wide;
    bool spread; /* scalar, repeated over all columns: wide steps read it */
    bool taint;  /* depends on a load: may be poisoned */
    bool reads_score;
    uint32_t n;
    uint32_t first; /* into eval_plan.arg and .coef */
    uint32_t line;
    int64_t i;
    double f;
};

struct eval_plan {
    const struct ir_graph *graph; /* names of tensors, file */
    struct eval_step *step;
    uint32_t n_steps;
    uint32_t *arg; /* steps */
    int64_t *coef;
    uint32_t *list[EVAL_SCOPES]; /* steps of a scope, operands first */
    uint32_t n_list[EVAL_SCOPES];
    uint32_t score, keep; /* steps of the roots */
    bool has_score, has_mask, has_dot;
    bool one_sided;  /* values by position, EVAL_COL, instead of the roots */
    uint32_t *value; /* one_sided: steps of the nodes asked for */
    int cost;
    int functions; /* MUFU instructions of a cell */
};

struct eval_state {
    const struct eval_plan *plan;
    const struct eval_env *env;
    const struct eval_kernels *k;
    enum eval_precision prec;
    int max_kv;
    bool tile_valid; /* tile-scope values hold for (b, h) */
    int64_t b, h, q, kv0;
    int n_kv;
    void **val;      /* by step: element 0 */
    uint8_t **bad;   /* by step: poisoned elements; NULL without taint */
    bool *any_bad;   /* by step: some element of bad is set */
    int64_t *offset; /* scratch, max_kv */
    /* of dot products: offsets of the rows, elements of them */
    int64_t *row_offset[2];
    void *row[2];
};

static inline const struct eval_step *
eval_arg(const struct eval_plan *p, const struct eval_step *t, uint32_t k)
{
    return &p->step[p->arg[t->first + k]];
}

/* Reads the call's memory: used lengths are a tensor [B] too. */
static inline bool eval_is_read(enum ir_op op)
{
    return ir_op_is_load(op) || op == IR_LEN_Q || op == IR_LEN_KV;
}

/* --- eval_poison.c: reads outside a tensor ---------------------------- */
/* Marks which elements of a step (not a load) hang on a bad read. */
void eval_poison_step(struct eval_state *s, uint32_t step);
/* False with *d filled when a bad read reaches a kept cell of the row. given
 * as for eval_row_given. */
bool eval_poison_check(const struct eval_state *s, const uint8_t *given,
                       bool want_score, struct diag *d);

#endif

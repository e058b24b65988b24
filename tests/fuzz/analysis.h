/* What f32 may make of a cell: a mod's graph in f64 with a running bound of
 * the rounding errors, and whether some comparison or rounding to an int is so
 * close to its threshold that they may decide it. */
#ifndef FACC_FUZZ_ANALYSIS_H
#define FACC_FUZZ_ANALYSIS_H

#include "compiler/ir/eval.h"

#define ANALYSIS_UNIT 0x1p-24

struct number;

struct analysis {
    const struct ir_graph *g;
    const struct eval_env *env;
    struct ir_roots roots;
    ir_ref *order; /* of the roots */
    uint32_t n_order;
    struct number *v; /* by node; owned */
    bool gpu; /* functions as kernels have them: tanh_fast is not tanh */
    /* in: the cell b, h, q, kv; its score, and how far f32's may be from it */
    int64_t at[4];
    double score, score_error;
    /* out */
    double want, error; /* after the mod; |f32's - want| at most */
    bool keep;
    double largest; /* of all intermediate values */
    bool near_threshold;
};

/* Of a graph's roots. False: memory is out. */
bool analysis_open(struct analysis *a, struct ir_graph *g,
                   const struct ir_roots *roots, const struct eval_env *env);
void analysis_cell(struct analysis *a);
void analysis_close(struct analysis *a);

#endif

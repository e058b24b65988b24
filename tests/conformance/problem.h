/* One attention problem for a row of the list: inputs, captured data, and what
 * the output is by loops in double over cells that plain Lua decides. */
#ifndef FACC_TEST_PROBLEM_H
#define FACC_TEST_PROBLEM_H

#include "runtime/facc.h"
#include "tests/conformance/list.h"

enum {
    P_B = 2,
    P_H = 4,
    P_HKV = 2,
    P_SQ = 600,
    P_SKV = 640,
    P_D = 64,
    P_ROWS = 14, /* of a head, that the oracle looks at */
    P_LINES = P_B * P_H * P_ROWS
};

/* What the oracle says of some rows of every head. */
struct oracle {
    double o[P_B][P_H][P_ROWS][P_D];
    double lse[P_B][P_H][P_ROWS];
    bool near[P_B][P_H][P_ROWS]; /* a rounding of the score decides a cell */
    long cells, kept;
    int near_lines;
    int empty_lines; /* no cell counts: O is 0 */
};
int problem_row(int k); /* q of the k-th such row */

struct problem {
    struct data data; /* captured tensors and params, used lengths */
    float *q, *k, *v; /* [B][H or Hkv][S][D], values that bf16 holds */
    facc_tensor tensor[DATA_TENSORS];
    facc_scalar_value param[DATA_PARAMS];
    facc_args args;  /* of f32 inputs on the host */
    size_t n_q, n_k; /* elements of q (and o), of k (and v) */
    struct oracle *want;
};

/* For a program's declarations. text: the program, for plain Lua. */
void problem_open(struct problem *p, const struct program *program,
                  const char *label, const char *text);
void problem_close(struct problem *p);

/* The worst |o - oracle| and |lse - oracle| / max(1, |oracle|), of arrays
 * [B][H][Sq][D] and [B][H][Sq]; infinity where one is not finite and should
 * be. */
struct errors {
    double o, lse;
};
struct errors problem_compare(const struct problem *p, const double *o,
                              const double *lse);

#endif

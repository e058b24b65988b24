/* A random test case: a program, sizes, lengths of sequences, captured
 * tensors, Q, K and V. All of it follows from one stream of decisions. */
#ifndef FACC_FUZZ_CASE_H
#define FACC_FUZZ_CASE_H

#include "compiler/ir/eval.h"
#include "runtime/facc.h"
#include "tests/fuzz/modgen.h"

enum { CASE_MOST_B = 3, CASE_MOST_DIM = 256 };

/* What sizes a case may have. */
struct case_limits {
    int64_t cells; /* B * H * Sq * Skv */
    bool gpu;      /* longer sequences; head dims, dtypes, strides of kernels */
};

enum case_lengths { ALL_USED, USED_KV, USED_BOTH, PACKED, CASE_LENGTHS };

struct block { /* of memory; tensors lie somewhere in it */
    void *data;
    size_t size;
};

struct fuzz_case {
    struct modgen_program program;
    enum case_lengths lengths;
    int B, H, Hkv, Sq, Skv, D, Dv; /* Sq, Skv: of the longest sequence */
    int32_t len_q[CASE_MOST_B], len_kv[CASE_MOST_B]; /* used */
    int32_t cu_q[CASE_MOST_B + 1], cu_kv[CASE_MOST_B + 1];
    uint64_t data_seed;
    int order; /* of the dimensions of q, k, v */
    /* what the evaluator takes */
    struct eval_env env;
    struct eval_tensor tensor[MODGEN_MOST_TENSORS];
    union eval_value param[MODGEN_MOST_PARAMS];
    /* what the library takes: host memory, o and lse without data */
    facc_args args;
    facc_tensor captured[MODGEN_MOST_TENSORS];
    facc_scalar_value value[MODGEN_MOST_PARAMS];
    /* owned; captured tensors, then q, k, v */
    struct block block[MODGEN_MOST_TENSORS + 3];
    int n_blocks;
};

/* False: memory is out. Close it in either case. */
bool case_make(struct fuzz_case *c, struct choices *choices,
               const struct case_limits *limits);
void case_close(struct fuzz_case *c);

/* Score of a cell before the mods, exact in f32. */
double case_score(const struct fuzz_case *c, int b, int h, int q, int kv);
/* Element d of row kv of sequence b in V. */
double case_value(const struct fuzz_case *c, int b, int h, int kv, int d);
/* Rows of sequence b that O has. */
int case_rows(const struct fuzz_case *c, int b);
/* Row q of sequence b in a tensor [B or 1, H, S]: its index along b and s. */
void case_row(const struct fuzz_case *c, bool kv, int b, int q, int *at_b,
              int64_t *at_s);
/* Sizes, params and what tensors hold, as comments of Lua. */
void case_describe(const struct fuzz_case *c, char *text, size_t size);

#endif

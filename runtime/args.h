/* Checks of one attention call that hold for the GPU and the CPU: shapes,
 * dtypes, strides, scale, captured tensors by name. No allocation, reads no
 * tensor data. Called by facc_kernel_check, facc_kernel_launch and
 * facc_cpu_attention. */
#ifndef FACC_ARGS_H
#define FACC_ARGS_H

#include <stdbool.h>

#include "runtime/facc.h"
#include "runtime/program.h"

/* Sizes of a call, all >= 0 and <= 2^30. */
struct args_sizes {
    /* Packed: B sequences, the longest of Sq queries and Skv keys. */
    int B, H, Hkv, Sq, Skv, D, Dv;
    int Tq, Tkv; /* rows of the tensors: Sq and Skv unless packed */
    bool packed;
    /* If args->block_mask: that struct, whatever version the caller has. */
    facc_block_mask block_mask;
};

/* What a device accepts beyond the common rules. */
struct args_rules {
    const char *stage;        /* of messages: "launch" "cpu" "check" */
    bool gpu;                 /* contiguous last dimension, 16-byte rows */
    bool block_mask;          /* GPU: made for a block mask, else for none */
    bool packed;              /* GPU: for packed sequences, else for none */
    bool sinks;               /* GPU: for sinks, else for none */
    bool block_scales;        /* GPU: for descales of blocks, else for none */
    bool transposes_v;        /* GPU: not for an image of V */
    bool dropout;             /* GPU: for dropout; else p is 0 */
    bool sizes_only;          /* q, k, v, o, lse, sinks: data may be NULL */
    facc_dtype dtype;         /* of Q, K, V; 0: any float dtype of facc.h */
    facc_dtype out_dtype;     /* of O; 0: f32 f16 bf16 f64 */
    int head_dim, head_dim_v; /* 0: any */
};

/* True with *sizes filled. `args` is a whole facc_args: see versioned_read. */
bool args_check(const facc_args *args, const struct args_rules *rules,
                const struct signature *signature, struct args_sizes *sizes,
                struct diag *d);
/* Part of it, of what says which rows belong to which sequence and which
 * blocks count: args_sequences.c. Of the tensors *z has all sizes; B, Sq and
 * Skv become those of packed sequences. Reads no lengths and no lists. */
bool args_sequences(const facc_args *args, const struct args_rules *rules,
                    const struct signature *signature, struct args_sizes *z,
                    struct diag *d);
/* And of what FP8 brings: args_fp8.c. *z is whole. */
bool args_fp8(const facc_args *args, const struct args_rules *rules,
              const struct args_sizes *z, struct diag *d);
/* args->scale, or its default. */
double args_scale(const facc_args *args, const struct args_sizes *sizes);

/* What args say of dropout, as templates/common/philox.h takes it. */
struct args_dropout {
    uint32_t key[2], offset;
    uint32_t drops; /* of 65,536 weights; 0: none */
    double scale;   /* of those that stay: 1 / (1 - drops / 65,536) */
};
struct args_dropout args_dropout(const facc_args *args);

#endif

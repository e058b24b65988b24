/* The one kernel-argument layout of all kernel families, included by the C
 * runtime and by every template (so C11 and CUDA C++ both): a header of 1,152
 * bytes, then one facc_captured per captured tensor, then one facc_scalar per
 * run-time param, in the program's order. Strides are in elements, offsets
 * 64-bit. Unused pointers are 0. */
#ifndef FACC_KERNEL_ARGS_H
#define FACC_KERNEL_ARGS_H

#ifdef __cplusplus
#define FACC_ALIGN(n) alignas(n)
#define FACC_LAYOUT_ASSERT(e) static_assert(e, #e)
#else
#define FACC_ALIGN(n) _Alignas(n)
#define FACC_LAYOUT_ASSERT(e) _Static_assert(e, #e)
#endif

#define FACC_MAX_RANK 5

struct facc_captured {
    const void *data;
    long long stride[FACC_MAX_RANK];
    int shape[FACC_MAX_RANK]; /* extents; for index clamping and checks */
    int reserved;
};

union facc_scalar { /* a run-time param, widened */
    long long i;
    double f64;
    float f; /* f32 params are stored here */
};

struct facc_kernel_header {
    /* TMA descriptors of Q, K, V, O (128 bytes each): sm90 families */
    FACC_ALIGN(128) unsigned char tensor_map[4][128];
    /* tensors; strides of (b, h, s), the last dimension is contiguous */
    const void *q, *k, *v;
    void *o;
    float *lse; /* natural log, or 0 */
    long long q_stride[3], k_stride[3], v_stride[3], o_stride[3];
    long long lse_stride[3];
    /* sizes */
    int B, H, Hkv, Sq, Skv;
    int D, Dv;
    int group;        /* H / Hkv */
    float scale;      /* softmax scale */
    float scale_log2; /* scale * log2(e) */
    /* sequences: used lengths [B]; packed offsets [B + 1] */
    const int *seqused_q, *seqused_kv;
    const int *cu_seqlens_q, *cu_seqlens_kv;
    /* paged KV: page_table[b][page], pages of page_size rows */
    const int *page_table;
    long long page_table_stride;
    int page_size, num_pages;
    /* extras: attention sinks [H]; row outputs; dropout; FP8 descales */
    const float *sinks;
    float *row_max, *row_entropy;
    unsigned long long dropout_seed, dropout_offset;
    float dropout_p;
    int descale_block;
    const float *descale_q, *descale_k, *descale_v;
    long long descale_q_stride[2], descale_k_stride[2], descale_v_stride[2];
    /* scheduling */
    int q_tiles;             /* query tiles per (b, h) */
    int num_work;            /* tiles of the whole launch */
    const int *block_counts; /* imported block lists, issue of the masks */
    const int *block_indices;
    const int *full_counts;
    const int *full_indices;
    int block_size_q, block_size_kv;
    void *workspace;
    /* checked debug build: first bad read {tensor + 1, line, index, extent}, 0 = none */
    int *bounds_report;
    unsigned char reserved[200];
};

FACC_LAYOUT_ASSERT(sizeof(struct facc_captured) == 72);
FACC_LAYOUT_ASSERT(sizeof(union facc_scalar) == 8);
FACC_LAYOUT_ASSERT(sizeof(struct facc_kernel_header) == 1152);

#endif

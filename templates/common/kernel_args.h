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
    int copied;               /* sm90: its tiles are, by a descriptor behind all this */
};

union facc_scalar { /* a run-time param, widened */
    long long i;
    double f64;
    float f; /* f32 params are stored here */
};

/* The schedule of a launch: which KV tiles each query tile visits, most work
 * first. Made on the device by the kernels of common/schedule.cuh, in the
 * caller's workspace; without one (rows == 0) the forward kernel finds its KV
 * tiles by the mask's plain bounds. One row per query tile of a (b, h), or of
 * all b or all h where the mask and the lengths are the same for them. */
struct facc_schedule_row {
    int b, h;    /* 0 where the row is for all */
    int tile;    /* query tile of its sequence; -1: no such row */
    int count;   /* KV tiles that some warp group visits */
    int entries; /* of this row's list */
    int reserved;
};

/* Up to 32 KV tiles from 32 * window on, or `repeats` such windows that are
 * all alike. Bit i is tile 32 * window + i. After these 8 bytes, for each
 * warp group (one to three) of the CTA: */
struct facc_schedule_entry {
    int window, repeats;
};
struct facc_schedule_bits {
    unsigned work;   /* some cell may count */
    unsigned masked; /* of these: some cell may be masked */
};

/* Levels of summaries: positions that one record is about. */
enum {
    FACC_LEVEL_TILE,    /* KV: kTileN; q: kRowsPerGroup */
    FACC_LEVEL_WINDOW,  /* KV: 32 * kTileN; q: none */
    FACC_LEVEL_GRANULE, /* FACC_GRANULE, if Variant::kHalved */
    FACC_LEVELS
};
enum { FACC_GRANULE = 8 };

/* Query rows and KV columns of the forward kernel's tiles, the warp groups of
 * its CTAs and each one's rows: the kernels that make a schedule are compiled
 * once for all tiles. */
struct facc_tiling {
    int tile_m, tile_n, groups, group_rows;
};
enum { FACC_MAX_GROUPS = 3 };

/* Threads of a CTA: of every kernel that makes a schedule, but of those that
 * need more: facc_order, and facc_summarize, whose warps have one tile each. */
enum { FACC_PREPARE_THREADS = 128, FACC_SUMMARIZE_THREADS = 1024, FACC_ORDER_THREADS = 1024 };

/* Ids. Rows and records of one h (or of all) are numbered by b and position:
 * item i of sequence b, of items that are `width` positions wide, has the id
 * first(b) + i, where first(b) is b * ceil(length / width) with Sq or Skv for
 * the length, 0 for b where they are for all b, and for packed sequences
 * cu_seqlens[b] / width + b, which leaves gaps. Those of head h come `ids of
 * one h` later. */
struct facc_schedule {
    struct facc_schedule_row *rows;        /* [max_rows] */
    int *order;                            /* [max_rows] row ids, then -1 */
    unsigned char *entries;                /* [max_rows][max_entries], as visited */
    unsigned char *q_summary[FACC_LEVELS]; /* records of Variant::QSummary */
    unsigned char *kv_summary[FACC_LEVELS];
    struct facc_schedule_bits *scan; /* [max_rows][windows][groups] or 0 */
    unsigned char *block_classes;    /* block mask: [B or 1][H or 1][rows][cols]
                                        verdict of a block by the lists alone */
    int row_ids;                     /* ids of one h; max_rows: of all */
    int max_rows, max_entries, windows;
    int q_ids[FACC_LEVELS], kv_ids[FACC_LEVELS];
    int per_b, per_h; /* 1: rows and records are of one b, of one h */
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
    /* sequences: used lengths [B]; packed offsets [B + 1]: then B is the number
     * of sequences, Sq and Skv are the longest lengths, the tensors' own b has
     * stride 0 here, and row q of sequence b is row cu_seqlens_q[b] + q */
    const int *seqused_q, *seqused_kv;
    const int *cu_seqlens_q, *cu_seqlens_kv;
    /* paged KV: page_table[b][page], pages of page_size rows */
    const int *page_table;
    long long page_table_stride;
    int page_size, num_pages;
    /* extras: attention sinks [H]; row outputs; dropout; FP8 descales */
    const float *sinks;
    float *row_max, *row_entropy;
    unsigned dropout_key[2], dropout_offset; /* of common/philox.h */
    unsigned dropout_drops;                  /* of 65,536 */
    float dropout_scale;                     /* 65,536 / (65,536 - drops) */
    int last_section; /* sm90, schedule: the number of the section that has all that is left */
    const float *descale_q, *descale_k, *descale_v;
    long long descale_q_stride[2], descale_k_stride[2], descale_v_stride[2];
    /* scheduling */
    int q_tiles;  /* query tiles per (b, h) */
    int num_work; /* query tiles of all (b, h), or places of a schedule */
    /* block mask in FlexAttention's form: for each row of blocks how many
     * partial (full) blocks it has, and which; all int32, contiguous */
    const int *block_counts, *block_indices;
    const int *full_counts, *full_indices;
    int block_size_q, block_size_kv;
    int block_rows, block_cols; /* of the lists: [B or 1][H or 1][rows][cols] */
    int block_per_b, block_per_h;
    void *workspace;
    /* checked debug build: first bad read {tensor + 1, line, index, extent}, 0 = none */
    int *bounds_report;
    struct facc_schedule schedule;
    /* sm90 families */
    int *next_item;    /* two zeroed counters, to hand out work by; or 0: a fixed order */
    int section_heads; /* schedule: (b, h) of a section, whose K and V stay in L2 */
    int zero;          /* 0, as the compiler must not know */
    struct facc_tiling tiling;
    long long sinks_stride;
};

FACC_LAYOUT_ASSERT(sizeof(struct facc_captured) == 72);
FACC_LAYOUT_ASSERT(sizeof(union facc_scalar) == 8);
FACC_LAYOUT_ASSERT(sizeof(struct facc_kernel_header) == 1152);

#endif

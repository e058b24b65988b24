/* facc: attention variants compiled at run time.
 *
 * A program (score_mod and mask_mod in Lua) is loaded once; a kernel is made
 * for a program and a variant (dtype, head dims, architecture); a launch
 * takes tensors. Or the same program runs on the CPU.
 *
 *   check -> get (cache or compile; no GPU needed) -> load -> launch
 *
 * facc_cache.h and facc_device.h, included at the end, have the rest.
 *
 * Conventions. Functions return facc_status: 0 or negative. `out` comes
 * first; on failure *out is NULL (or untouched where it is no pointer) and
 * *err, if not NULL, tells what was wrong and where. Strings handed out are
 * the caller's, to be freed with facc_string_free, unless said otherwise.
 * Every struct that the caller fills begins with struct_size and has an
 * ..._INIT; unset fields are zero and mean the default. Pointers must not be
 * NULL unless said; what is handed in is borrowed for the call only.
 *
 * Threads and lifetimes. Any thread may call anything at any time: a
 * facc_ctx, a facc_program and a facc_kernel may be used by several threads
 * at once. A facc_timer is for one thread at a time. Freeing something needs
 * all its users gone; a context goes last, after its programs, kernels and
 * timers. In a child after fork, calls that need the GPU return
 * FACC_ERR_FORKED.
 *
 * Statuses. Comments name those that a call is made for; besides, any may
 * return FACC_ERR_ARGUMENT (a wrong argument), FACC_ERR_MEMORY and
 * FACC_ERR_INTERNAL, and those that need the GPU FACC_ERR_NO_DRIVER,
 * FACC_ERR_FORKED and FACC_ERR_CUDA. */
#ifndef FACC_H
#define FACC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C++" {
template <class T> inline T facc_struct_init()
{
    T x = T();
    x.struct_size = sizeof(T);
    return x;
}
}
extern "C" {
#endif

#if defined(__GNUC__)
#define FACC_API __attribute__((visibility("default")))
#else
#define FACC_API
#endif

#define FACC_VERSION_MAJOR 0
#define FACC_VERSION_MINOR 1
#define FACC_VERSION_PATCH 0
#define FACC_VERSION "0.1.0"

/* A struct with its size set and all else zero. */
#ifdef __cplusplus
#define FACC_STRUCT_INIT(type) facc_struct_init<type>()
#else
#define FACC_STRUCT_INIT(type)                                                 \
    {                                                                          \
        .struct_size = sizeof(type)                                            \
    }
#endif

/* "0.1.0"; static. */
FACC_API const char *facc_version(void);

/* ---- status and errors --------------------------------------------- */

typedef int32_t facc_status;
enum {
    FACC_OK = 0,
    FACC_ERR_ARGUMENT = -1,      /* the call or its tensors do not fit */
    FACC_ERR_SCRIPT = -2,        /* the user's Lua: syntax, run time, tracing */
    FACC_ERR_UNSUPPORTED = -3,   /* valid, but nothing here can run it */
    FACC_ERR_MEMORY = -4,        /* host or device memory is out */
    FACC_ERR_IO = -5,            /* a file could not be read or written */
    FACC_ERR_NO_DRIVER = -6,     /* no libcuda or no device */
    FACC_ERR_NO_NVRTC = -7,      /* no NVRTC, or too old */
    FACC_ERR_COMPILE = -8,       /* NVRTC refused the unit: see err->log */
    FACC_ERR_CUDA = -9,          /* a driver call failed */
    FACC_ERR_NOT_PREPARED = -10, /* launch on a device it is not loaded on */
    FACC_ERR_BOUNDS = -11,       /* the mod read outside a captured tensor */
    FACC_ERR_NO_JIT = -12,       /* a compile was needed and is forbidden */
    FACC_ERR_FORKED = -13,       /* GPU call in a forked child */
    FACC_ERR_INTERNAL = -14      /* a defect of facc: please report */
};
/* "FACC_ERR_SCRIPT" …; static; "FACC_ERR_?" for unknown values. */
FACC_API const char *facc_status_name(facc_status s);

typedef struct facc_error {
    size_t struct_size;
    facc_status status;
    int32_t line;       /* of file, 1-based; 0 when there is none */
    char stage[24];     /* "load" "trace" "emit" "nvrtc" "cache" "launch" … */
    char file[256];     /* the user's file, "" when none */
    char message[2048]; /* whole text, "file:line: error: …" included */
    char log[8192];     /* NVRTC's log or a Lua traceback, "" when none */
} facc_error;
#define FACC_ERROR_INIT FACC_STRUCT_INIT(facc_error)

/* ---- tensors --------------------------------------------------------- */

typedef enum facc_dtype {
    FACC_F32 = 1,
    FACC_F16 = 2,
    FACC_BF16 = 3,
    FACC_E4M3 = 4, /* FP8, finite only */
    FACC_E5M2 = 5,
    FACC_I8 = 6,
    FACC_U8 = 7,
    FACC_I16 = 8,
    FACC_I32 = 9,
    FACC_I64 = 10,
    FACC_BOOL = 11, /* one byte */
    FACC_F64 = 12   /* outputs of the CPU's f64 oracle only */
} facc_dtype;

FACC_API size_t facc_dtype_size(facc_dtype t);      /* bytes, 0 unknown */
FACC_API const char *facc_dtype_name(facc_dtype t); /* "bf16"; static */

#define FACC_MAX_DIMS 5

/* A borrowed view: device memory for launches, host memory for the CPU. */
typedef struct facc_tensor {
    void *data;
    facc_dtype dtype;
    int32_t rank;
    int64_t shape[FACC_MAX_DIMS];
    int64_t stride[FACC_MAX_DIMS]; /* in elements, any sign, 0 = broadcast */
} facc_tensor;

/* ---- context --------------------------------------------------------- */

typedef struct facc_ctx facc_ctx;

/* What happened when a kernel was asked for. */
typedef struct facc_compile_event {
    const char *key;    /* 32 hex digits */
    const char *source; /* "memory", "disk" or "nvrtc" */
    double seconds;
} facc_compile_event;

typedef struct facc_options {
    size_t struct_size;
    /* Colon list of cache directories, the first writable, the others read
     * only. NULL: $FACC_CACHE_DIR, else $XDG_CACHE_HOME/facc, else
     * $HOME/.cache/facc, else memory only. */
    const char *cache_dirs;
    int32_t cache_mode;       /* 0 $FACC_CACHE or rw, 1 rw, 2 ro, 3 off */
    int32_t no_jit;           /* nonzero (or $FACC_NO_JIT=1): never compile */
    const char *nvrtc_path;   /* NULL: $FACC_NVRTC, then the usual places */
    const char *template_dir; /* NULL: the embedded templates */
    int32_t cpu_threads;      /* 0: all that the process may use */
    int32_t reserved0;
    /* Called from the thread that asked, outside of locks; in a forked child,
     * too, where a lock of your own that another thread had at that moment is
     * never given back. May be NULL. */
    void (*on_compile)(void *user, const facc_compile_event *event);
    /* Warnings, one line each, from any thread. NULL: stderr unless
     * $FACC_LOG=off. */
    void (*on_warning)(void *user, const char *message);
    void *user; /* of both callbacks; lives as long as the context */
    /* File to which a line is added for each kernel or quantizer that is asked
     * for, had or not, unless it is there: see facc_manifest_read. NULL:
     * $FACC_MANIFEST, or none. */
    const char *manifest;
} facc_options;
#define FACC_OPTIONS_INIT FACC_STRUCT_INIT(facc_options)

/* Reads the environment once; opens neither driver nor NVRTC yet. options
 * may be NULL. A cache directory that cannot be used is a warning, no
 * error. *out is the caller's until facc_ctx_free. */
FACC_API facc_status facc_ctx_create(facc_ctx **out,
                                     const facc_options *options,
                                     facc_error *err);
/* Unloads the kernels and ends the threads of the CPU path. NULL is fine. */
FACC_API void facc_ctx_free(facc_ctx *ctx);
FACC_API void facc_string_free(char *text); /* NULL is fine */

/* ---- programs -------------------------------------------------------- */

typedef struct facc_program facc_program;

/* Traces the mods of a Lua file (or of `size` bytes of text, called `name` in
 * messages; both are copied). FACC_ERR_IO, FACC_ERR_SCRIPT. *out is the
 * caller's until facc_program_free. */
FACC_API facc_status facc_program_load_file(facc_program **out, facc_ctx *ctx,
                                            const char *path, facc_error *err);
FACC_API facc_status facc_program_load_string(facc_program **out, facc_ctx *ctx,
                                              const char *name,
                                              const char *text, size_t size,
                                              facc_error *err);
/* One-line expressions over score, b, h, q, kv and the declared names. score
 * or mask may be NULL. Dims of a tensor: NULL entries of dim_names take the
 * integer in shape, others are "B" "H" "Hkv" "q" "kv", or "any": what each
 * call's tensor has. */
typedef struct facc_declaration {
    const char *name;
    facc_dtype dtype;
    int32_t is_param; /* nonzero: a run-time scalar (i32, i64, f32) */
    int32_t rank;
    int64_t shape[FACC_MAX_DIMS];
    const char *dim_names[FACC_MAX_DIMS];
} facc_declaration;
/* As load_string; everything is copied. FACC_ERR_SCRIPT. */
FACC_API facc_status facc_program_load_expressions(
    facc_program **out, facc_ctx *ctx, const char *score, const char *mask,
    const facc_declaration *declarations, size_t n_declarations,
    facc_error *err);
FACC_API void facc_program_free(facc_program *p); /* kernels live on */

/* Captured tensors and run-time params in the order that facc_args takes
 * them. Names live as long as the program. */
typedef struct facc_declared {
    const char *name;
    facc_dtype dtype;
    int32_t rank;                         /* params: 0 */
    int64_t shape[FACC_MAX_DIMS];         /* -1 where dim_names is set */
    const char *dim_names[FACC_MAX_DIMS]; /* "H" …, NULL for integers */
} facc_declared;
/* 0 when p is NULL. */
FACC_API int32_t facc_program_tensor_count(const facc_program *p);
FACC_API int32_t facc_program_param_count(const facc_program *p);
/* FACC_ERR_ARGUMENT: no such index. *out is a plain copy. */
FACC_API facc_status facc_program_tensor(const facc_program *p, int32_t index,
                                         facc_declared *out);
FACC_API facc_status facc_program_param(const facc_program *p, int32_t index,
                                        facc_declared *out);
/* A lint warning from tracing, "file:line: warning: …", or ""; lives as long as
 * the program. */
FACC_API const char *facc_program_warning(const facc_program *p);

/* ---- variants and kernels -------------------------------------------- */

/* What the strides and pointers of launches are like, for architectures whose
 * best kernels need them aligned (sm_90: family sm90). Aligned are q, k, v and
 * o whose data and strides of b, h and s are multiples of 16 bytes, the strides
 * not negative and below 2^40 bytes (where the extent is 1, a stride counts for
 * nothing), and whose rows do not overlap. */
enum {
    FACC_LAYOUT_ANY = 0,    /* any: a second code, of family sm80, is made
                               beside the first and takes what is not */
    FACC_LAYOUT_ALIGNED = 1 /* aligned: no second code is made, and tensors
                               that are not aligned are an error */
};

/* Kernel families: sm80 runs everywhere (mma.sync), sm90 on sm_90 alone (TMA,
 * wgmma), but not in checked debug builds. */
enum {
    FACC_FAMILY_AUTO = 0,  /* the best for the variant */
    FACC_FAMILY_SM80 = 80, /* that one alone, whatever the layout; */
    FACC_FAMILY_SM90 = 90  /* FACC_ERR_UNSUPPORTED where it cannot be */
};

typedef struct facc_variant {
    size_t struct_size;
    facc_dtype dtype;     /* of Q, K, V: F16, BF16; on sm_90 E4M3, E5M2 */
    facc_dtype out_dtype; /* of O; 0: same as dtype, BF16 for FP8 */
    int32_t head_dim;     /* of Q and K: a multiple of 8 up to 256 */
    int32_t head_dim_v;   /* of V and O; 0: head_dim */
    int32_t arch;         /* 80 86 89 90 100 120; 0: that of `device` */
    int32_t device;       /* used when arch is 0 */
    int32_t check_bounds; /* nonzero: checked debug build */
    int32_t block_mask;   /* nonzero: launches bring args.block_mask */
    int32_t packed;       /* nonzero: launches bring args.cu_seqlens_q, _kv;
                             0: they must not */
    int32_t sinks;        /* nonzero: launches bring args.sinks; 0: not */
    int32_t layout;       /* FACC_LAYOUT_… */
    int32_t family;       /* FACC_FAMILY_… */
    int32_t block_scales; /* FP8; nonzero: launches bring a descale of rank 3,
                             of blocks of rows; 0: they must not */
    int32_t centred_v;    /* FP8; nonzero: V's channels have means near 0 (args.
                             v_mean is given, say) or there are few keys. 0:
                             any, safe; sums over more keys than 4,096 are then
                             slower where v_mean is not given. Head dims
                             beyond 128: as 1 whatever is said */
    int32_t dropout;      /* nonzero: launches may have args.dropout_p */
    int32_t transposes_v; /* FP8; nonzero: the kernel transposes V itself, tile
                             by tile: launches bring no args.v_image. Faster
                             where few queries read each key: facc_transposes_v.
                             0: a launch transposes V first, or has its image */
    int32_t exact_peaks;  /* FP8; nonzero: in rows that few keys carry, weights
                             are relative to the row's maximum, whose own is
                             then exact: 0.7 of a kernel's error where Q and K
                             have outliers, for 13 to 18 % more time there and
                             some percent without any. 0: where it is quick */
    int32_t reserved0;
} facc_variant;
#define FACC_VARIANT_INIT FACC_STRUCT_INIT(facc_variant)

typedef union facc_scalar_value { /* a run-time param */
    int64_t i;                    /* i32; i64 from -2^60 to 2^60 - 1 */
    double f;                     /* f32 */
} facc_scalar_value;

/* Block lists from outside, FlexAttention's BlockMask: a block of the lists is
 * block_q rows by block_kv columns, whatever the kernel's tiles. For each row
 * of blocks: how many of its blocks are partial (the program's mask_mod
 * decides their cells) and full (all cells count), and their column numbers.
 * Blocks in neither list are masked. rows * block_q >= Sq, cols * block_kv >=
 * Skv. All int32, contiguous; device memory for launches, host memory for the
 * CPU. A number outside 0 .. cols - 1 is ignored on the GPU, an error on the
 * CPU. A block in both lists is full. A score_mod that masks (-inf) does so in
 * full blocks, too; if there is also a mask_mod, lists of full blocks are
 * refused: FACC_ERR_UNSUPPORTED. */
typedef struct facc_block_mask {
    size_t struct_size;
    int32_t block_q, block_kv;
    int32_t rows, cols;                /* of blocks */
    int32_t per_b, per_h;              /* nonzero: lists for each b, each h */
    const int32_t *kv_num_blocks;      /* [B or 1][H or 1][rows] */
    const int32_t *kv_indices;         /* [B or 1][H or 1][rows][cols] */
    const int32_t *full_kv_num_blocks; /* same shapes, both or neither NULL */
    const int32_t *full_kv_indices;
} facc_block_mask;
#define FACC_BLOCK_MASK_INIT FACC_STRUCT_INIT(facc_block_mask)

/* One attention call. Shapes: q [B, H, Sq, D], k [B, Hkv, Skv, D],
 * v [B, Hkv, Skv, Dv], o [B, H, Sq, Dv], lse [B, H, Sq] f32 (f64 in the
 * oracle; data NULL: not written). The last dimension of q, k, v, o has
 * stride 1 on the GPU. Memory is the caller's and must stay valid until the
 * work is done. Rows beyond seqused_q give 0 and -inf, as rows without keys or
 * with scores of -inf alone do; finite scores, however small, are weighed (on
 * the GPU an LSE beyond +-2.35e38 reads so). Elements of captured
 * i64 tensors beyond -2^60 and 2^60 - 1 count as these: INT64_MAX may say "no
 * limit".
 *
 * Packed sequences: with cu_seqlens_q and cu_seqlens_kv (both or neither) the
 * tensors hold n_seqs sequences one behind the other: q [1, H, Tq, D],
 * k [1, Hkv, Tkv, D], v, o and lse likewise; sequence b has rows
 * cu_seqlens_q[b] .. cu_seqlens_q[b + 1] - 1, none longer than max_seqlen_q.
 * n_seqs is at least 1; rows behind the last sequence are not written.
 * For the program b is the sequence, q and kv count from its start, size.B is
 * n_seqs, size.q and size.kv are the longest lengths; dims "B", "q", "kv" of
 * captured tensors mean these. seqused_q and seqused_kv may shorten sequences
 * within their rows. Offsets ascend from 0; on the GPU they are device memory
 * and not checked. Kernels are made for packed sequences or for none: see
 * facc_variant.
 *
 * Attention sinks: a logit for each query head, [H] f32 of any stride (data on
 * the device for launches), which joins the softmax of each of its rows and
 * has no value. For a row with scores s of the keys that count:
 *     O = sum(exp(s) v) / (sum(exp(s)) + exp(sink))
 *     LSE = log(sum(exp(s)) + exp(sink))
 * Sinks are not scaled by `scale`, and no mod sees them. A row of which no key
 * counts gives 0 and LSE = sink; rows beyond seqused_q 0 and -inf as ever. A
 * sink of -inf is none; one of +inf or NaN makes O and LSE NaN in rows with
 * keys, as inf - inf and NaN do.
 *
 * FP8: Q, K and V stand for q * descale_q, k * descale_k and v * descale_v +
 * v_mean. A descale is one f32 (rank 0), one for each KV head ([B, Hkv]; that
 * of Q also for each query head, [B, H]), or one for each block of rows besides
 * ([B, Hkv, blocks]): rows i * descale_block_q .. and i * descale_block_kv ..
 * of a sequence, from its start, whatever the kernel's tiles; both are
 * multiples of 32, and there are at least as many blocks as the longest
 * sequence has. Of packed sequences B is n_seqs. Strides are any: 0 shares a
 * value. Values are any finite numbers (V's of blocks not negative), read when
 * the work runs: they never make another kernel. V's are best powers of two.
 * v_mean is [B, Hkv, Dv], the last dimension with stride 1: what was subtracted
 * of each channel before rounding. facc_quantize makes all of these.
 *
 * GPU kernels read V transposed. v_image brings it so, as facc_quantize writes
 * it: then v says shape and dtype, its data is not read and may be NULL.
 * Without it a launch transposes V into the workspace first, or the kernel does
 * tile by tile (facc_variant.transposes_v, and no v_image). It is [B, Hkv,
 * chunks, 32 * Dv] of V's dtype, packed [1, Hkv, chunks, 32 * Dv]; chunks as
 * facc_v_chunks says; its last two dimensions are contiguous, on the GPU data
 * and the strides of B and Hkv multiples of 128 bytes.
 *
 * Dropout: each weight of the softmax, normalised, is set to 0 with probability
 * dropout_p, and what stays is divided by 1 - dropout_p; the LSE and the sum
 * that divides (sinks included) are those of all weights. Which weights are
 * dropped is a function of dropout_seed, dropout_offset, b * H + h, q and kv
 * alone (templates/common/philox.h: Philox-4x32-10), the same on the CPU and in
 * all kernels, padded or packed. Calls with one seed and different offsets are
 * independent (seeds from 2^32 on: unless the offsets' high words differ by as
 * much as theirs). Decisions have 16 bits: dropout_p counts as the nearest
 * multiple of 2^-16, at most 1 - 2^-16, also in what is divided by; below 2^-17
 * it is none. 0 gives the same bits as a call without dropout. A dropped weight
 * is 0 times its row of V: NaN where that is infinite or NaN. On the GPU not
 * with v_mean, and not in FP8 kernels: FACC_ERR_UNSUPPORTED. */
typedef struct facc_args {
    size_t struct_size;
    facc_tensor q, k, v, o, lse;
    double scale;               /* softmax scale; 0: 1/sqrt(D) */
    const facc_tensor *tensors; /* captured, in the program's order */
    int32_t n_tensors;
    int32_t n_params;
    const facc_scalar_value *params; /* in the program's order */
    const int32_t *seqused_q;        /* [B] used lengths, or NULL */
    const int32_t *seqused_kv;
    void *workspace; /* facc_workspace_size bytes */
    size_t workspace_size;
    int32_t device; /* ordinal to launch on */
    /* Nonzero: the workspace holds the schedule of an earlier launch of this
     * kernel with the same sizes, lengths, params, captured tensors and block
     * mask, which is used again. Where the kernel has a second code (see
     * facc_kernel_info.fallback), both launches have aligned tensors, or
     * neither has: schedules are one code's. */
    int32_t schedule_ready;
    /* packed sequences */
    const int32_t *cu_seqlens_q; /* [n_seqs + 1], or NULL */
    const int32_t *cu_seqlens_kv;
    int32_t n_seqs;
    int32_t max_seqlen_q, max_seqlen_kv; /* 0: Tq, Tkv */
    int32_t reserved0;
    const facc_block_mask *block_mask; /* or NULL; see facc_variant */
    const facc_tensor *sinks;          /* or NULL; see facc_variant */
    /* FP8 */
    const facc_tensor *descale_q, *descale_k, *descale_v; /* or NULL: 1 */
    int32_t descale_block_q, descale_block_kv; /* rows; 0: no blocks */
    const facc_tensor *v_mean;                 /* or NULL: 0 */
    const facc_tensor *v_image;                /* or NULL */
    double dropout_p;                          /* at least 0, below 1 */
    uint64_t dropout_seed, dropout_offset;
} facc_args;
#define FACC_ARGS_INIT FACC_STRUCT_INIT(facc_args)

/* Chunks of 32 rows that the image of V has for each (b, KV head) of sequences
 * of up to `rows` rows; of packed ones, n_seqs of them in `rows` rows together,
 * for each KV head. n_seqs 0: not packed. */
FACC_API int64_t facc_v_chunks(int64_t rows, int32_t n_seqs);
/* What facc_variant.transposes_v is best, without an image of V, where q_rows
 * rows of Q read each row of V: Sq * H / Hkv, under a causal mask half of it.
 * (A pass over V before the kernel costs as much however many do; V transposed
 * in the kernel costs for each tile of queries.) */
FACC_API int32_t facc_transposes_v(int32_t head_dim, int64_t q_rows);

typedef struct facc_kernel facc_kernel;

/* Would this run, and if not, why: touches no tensor's memory, compiles
 * nothing, asks a device only for its architecture and only when
 * variant->arch is 0. args may be NULL (then only the variant is checked).
 * FACC_ERR_ARGUMENT: the args do not fit; FACC_ERR_UNSUPPORTED: no kernel
 * for this. */
FACC_API facc_status facc_kernel_check(facc_ctx *ctx, const facc_program *p,
                                       const facc_variant *variant,
                                       const facc_args *args, facc_error *err);
/* From memory, disk or NVRTC, in this order, for a program that was loaded in
 * ctx. Needs no GPU unless variant->arch is 0. Concurrent calls for one key
 * compile once. Blocks for seconds when it compiles. A kernel has up to three
 * codes: the forward kernel, that of a second family (FACC_LAYOUT_ANY), and the
 * kernels that make schedules (facc_kernel_info.scheduled), which are the same
 * for all families, head dims and dtypes of a program. All are there, or there
 * is no kernel: the first is made beside the others, which have a thread of
 * their own that has ended when the call returns, and on_compile tells of each.
 * FACC_ERR_UNSUPPORTED,
 * FACC_ERR_NO_NVRTC, FACC_ERR_NO_JIT, FACC_ERR_COMPILE. *out is the caller's
 * until facc_kernel_free; the machine code stays in the context. */
FACC_API facc_status facc_kernel_get(facc_kernel **out, facc_ctx *ctx,
                                     facc_program *p,
                                     const facc_variant *variant,
                                     facc_error *err);
/* No launch may be in flight. NULL is fine. */
FACC_API void facc_kernel_free(facc_kernel *k);
/* Makes it launchable on a device (module load, attributes); may
 * synchronise the device. Idempotent. FACC_ERR_ARGUMENT: made for another
 * architecture. */
FACC_API facc_status facc_kernel_load(facc_kernel *k, int32_t device,
                                      facc_error *err);

/* Tiers of masks, by what decides tiles: "none" (no mask), "analytic" (sizes,
 * params and positions), "ranged" (and the ranges of captured tensors in a
 * tile), "scanned" (some tiles must be looked at cell by cell), "opaque" (the
 * mask reads the score: what the rest of it decides), "given" (block lists).
 *
 * Where there are several codes, all is about the first, but for spill_bytes
 * (the larger of both families'), compile_seconds (the largest) and source
 * (what took longest: "nvrtc" if one of them was compiled). */
typedef struct facc_kernel_info {
    size_t struct_size;
    char key[33];    /* cache key, hex */
    char family[15]; /* "sm80" "sm90" */
    int32_t arch;
    int32_t tile_m, tile_n, warps, stages;
    int32_t registers;    /* per thread; -1: the compiler did not say */
    int32_t spill_bytes;  /* stores + loads, per thread */
    int32_t shared_bytes; /* per CTA, dynamic */
    int64_t cubin_bytes;
    double compile_seconds; /* 0 on a hit */
    char source[16];        /* "memory" "disk" "nvrtc" */
    char compiler[48];      /* "NVRTC 13.0 …" of the entry */
    char tier[16];          /* of the mask, see above */
    int32_t scheduled;      /* nonzero: launches make a schedule first */
    int32_t transposes_v;   /* FP8; as facc_variant says */
    char fallback[16];      /* family of the second code, "sm80"; "" none */
    char launched[16];      /* family that the last launch took; "" none yet */
} facc_kernel_info;
#define FACC_KERNEL_INFO_INIT FACC_STRUCT_INIT(facc_kernel_info)
/* Fills the fields that out->struct_size covers. */
FACC_API facc_status facc_kernel_get_info(const facc_kernel *k,
                                          facc_kernel_info *out);

/* Bytes of the workspace for these args (0 is possible) and its alignment
 * in bytes. It holds the schedule of launches whose mask is more than plain
 * bounds, with packed sequences or with a block mask; linear in the lengths
 * but for masks that must be scanned and block masks (1 Mi tokens with a
 * document mask: 17 to 22 MB, by the tile). Of two codes the larger need: it
 * suffices whatever the strides and pointers. Launches in flight at the same
 * time need a workspace each. Pure; q, k, v, o and sinks may be without
 * data.
 * FACC_ERR_ARGUMENT, FACC_ERR_UNSUPPORTED: as the launch would say. */
FACC_API facc_status facc_workspace_size(const facc_kernel *k,
                                         const facc_args *args, size_t *bytes,
                                         size_t *align);
/* Enqueues on `stream` (a CUstream of args->device; NULL is the legacy
 * default stream). No compile, load, allocation, lock or synchronisation;
 * may be captured. FACC_ERR_NOT_PREPARED: facc_kernel_load first.
 * FACC_ERR_ARGUMENT: the args do not fit, or are not aligned and the kernel has
 * no code for that (FACC_LAYOUT_ALIGNED); FACC_ERR_UNSUPPORTED: more tiles than
 * one launch takes. Then nothing was enqueued. The arguments are read
 * before the call returns; the tensors' memory when the stream gets there. */
FACC_API facc_status facc_kernel_launch(facc_kernel *k, const facc_args *args,
                                        void *stream, facc_error *err);
/* Waits for the device. FACC_ERR_BOUNDS with the Lua line if a launch of
 * this check_bounds kernel read outside a captured tensor; the report is
 * then cleared. FACC_ERR_NOT_PREPARED: not loaded, or no such kernel. */
FACC_API facc_status facc_kernel_bounds_report(facc_kernel *k, int32_t device,
                                               facc_error *err);

/* ---- CPU -------------------------------------------------------------- */

typedef struct facc_cpu_options {
    size_t struct_size;
    int32_t f64;     /* nonzero: the oracle, all arithmetic in double */
    int32_t threads; /* 0: the context's */
} facc_cpu_options;
#define FACC_CPU_OPTIONS_INIT FACC_STRUCT_INIT(facc_cpu_options)

/* Runs on host memory, shapes as facc_args says; done when it returns. q, k,
 * v: one dtype of f32 f16 bf16 e4m3 e5m2; o: f32 f16 bf16 f64; lse f32 or
 * f64. Any head dim, any strides. options may be NULL. The bits do not
 * depend on the number of threads. FACC_ERR_BOUNDS with the Lua line if a
 * mod read outside a captured tensor and the value mattered; then o and lse
 * are partly written. */
FACC_API facc_status facc_cpu_attention(facc_ctx *ctx, const facc_program *p,
                                        const facc_args *args,
                                        const facc_cpu_options *options,
                                        facc_error *err);
/* Converts n contiguous elements between dtypes, rounding to nearest even;
 * FP8 saturates. dst and src are aligned to their elements and do not
 * overlap (may where the dtypes are the same). FACC_ERR_ARGUMENT. */
FACC_API facc_status facc_convert(facc_dtype to, void *dst, facc_dtype from,
                                  const void *src, size_t n);

/* ---- rounding to FP8 ---------------------------------------------------
 * Of a tensor [B, H, S, D] (Q, K or V), rows of what share a scale: all, those
 * of a head, or blocks of rows; `scale` says which by its rank. In f32, for
 * each element x of channel d:
 *     y = x - mean[d]           with mean: that of the channel over the rows
 *     y = hadamard(signs * y)   with hadamard: signs by the seed, the same for
 *                               all rows, orthonormal, so that Q and K with one
 *                               seed have the same scores
 *     out = y * (1 / scale), to nearest even
 * and scale = max |y| / 448 (e5m2: 57,344), at least 2^-126, with power_of_two
 * the next one of these. Where all y are 0 it is 1. NaN and infinities become
 * NaN, and count for no scale and no mean. Out stands for out * scale + mean,
 * with hadamard for the transformed values: what facc_args takes.
 * Kernels give the same bits as the CPU, but for sums that they take in another
 * order: means, and hadamard of f16 and bf16, where y is within 2^-20 of its
 * row's largest. */

typedef struct facc_quantize_args {
    size_t struct_size;
    facc_tensor in; /* [B, H, S, D] f32 f16 bf16; packed [1, H, T, D] */
    /* Of the same shape, e4m3 or e5m2. data NULL: not written, the image
     * alone is. */
    facc_tensor out;
    facc_tensor scale; /* f32, written: rank 0, [B, H] or [B, H, blocks] */
    facc_tensor mean;  /* [B, H, D] f32, written; data NULL: none */
    /* As facc_args.v_image says, of out's dtype, written; data NULL: none */
    facc_tensor image;
    int32_t block;        /* rows to a scale of rank 3: a multiple of 32 */
    int32_t power_of_two; /* nonzero: of scales (good for V) */
    int32_t hadamard;     /* nonzero: D is 32, 64, 128 or 256; no mean then */
    int32_t n_seqs;       /* of packed sequences; 0 without cu_seqlens */
    uint64_t seed;        /* of hadamard's signs */
    /* Packed sequences, as facc_args has them: B of scale and mean is n_seqs,
     * blocks count from a sequence's start. Or NULL. */
    const int32_t *cu_seqlens;
    int32_t max_seqlen; /* of packed sequences; 0: T */
    int32_t device;     /* of launches, as are the following */
    void *workspace;
    size_t workspace_size;
} facc_quantize_args;
#define FACC_QUANTIZE_ARGS_INIT FACC_STRUCT_INIT(facc_quantize_args)

/* On host memory, done when it returns; any strides. */
FACC_API facc_status facc_quantize(facc_ctx *ctx,
                                   const facc_quantize_args *args,
                                   facc_error *err);

/* The kernels that do the same on a device, made once for what is compiled
 * into them. As with facc_kernel: get (cache or compile; no GPU needed), load,
 * launch. Only rows that are contiguous, and strides of multiples of 16 bytes
 * (out: 8 unless D is a multiple of 64); bits are those of facc_quantize, but
 * for sums of means. From sm_89 on. */
typedef struct facc_quantizer facc_quantizer;
typedef struct facc_quantize_variant {
    size_t struct_size;
    facc_dtype from;  /* of in: f32 f16 bf16 */
    facc_dtype to;    /* of out: e4m3 e5m2 */
    int32_t head_dim; /* D: a multiple of 8 up to 256, with image of 16 */
    int32_t arch;     /* as in facc_variant; 0: that of `device` */
    int32_t device;
    int32_t hadamard; /* nonzero: launches ask for it; 0: they must not */
    int32_t mean;     /* likewise: args.mean has data, */
    int32_t image;    /* args.image has */
} facc_quantize_variant;
#define FACC_QUANTIZE_VARIANT_INIT FACC_STRUCT_INIT(facc_quantize_variant)

/* FACC_ERR_UNSUPPORTED, FACC_ERR_NO_NVRTC, FACC_ERR_NO_JIT, FACC_ERR_COMPILE.
 * *out is the caller's until facc_quantizer_free. */
FACC_API facc_status facc_quantizer_get(facc_quantizer **out, facc_ctx *ctx,
                                        const facc_quantize_variant *variant,
                                        facc_error *err);
FACC_API void facc_quantizer_free(facc_quantizer *q); /* NULL is fine */
FACC_API facc_status facc_quantizer_load(facc_quantizer *q, int32_t device,
                                         facc_error *err);
/* Bytes of the workspace for these args, and its alignment. Pure. */
FACC_API facc_status facc_quantizer_workspace_size(
    const facc_quantizer *q, const facc_quantize_args *args, size_t *bytes,
    size_t *align, facc_error *err);
/* Enqueues up to five kernels, as facc_kernel_launch does. Scale and mean are
 * there for what comes behind in the stream. FACC_ERR_NOT_PREPARED,
 * FACC_ERR_ARGUMENT, FACC_ERR_UNSUPPORTED. */
FACC_API facc_status facc_quantizer_launch(facc_quantizer *q,
                                           const facc_quantize_args *args,
                                           void *stream, facc_error *err);

/* ---- looking inside --------------------------------------------------- */

typedef enum facc_dump {
    FACC_DUMP_IR = 1,      /* text form of the graph */
    FACC_DUMP_VARIANT = 2, /* generated struct Variant */
    FACC_DUMP_CONFIG = 3,  /* generated configuration header */
    FACC_DUMP_FLAT = 4,    /* the forward kernel's unit in one file */
    FACC_DUMP_PTX = 5      /* through NVRTC */
} facc_dump;
/* One text, *out the caller's (facc_string_free). variant may be NULL for
 * FACC_DUMP_IR. FACC_ERR_UNSUPPORTED: no kernel for the variant; for PTX
 * FACC_ERR_NO_NVRTC, FACC_ERR_NO_JIT and FACC_ERR_COMPILE. */
FACC_API facc_status facc_program_dump(char **out, facc_ctx *ctx,
                                       facc_program *p,
                                       const facc_variant *variant,
                                       facc_dump what, facc_error *err);
/* What the compiler knows: scopes, affine forms, bounds, family, tile and
 * why. variant may be NULL. json nonzero: one JSON object. *out is the
 * caller's (facc_string_free). FACC_ERR_UNSUPPORTED. */
FACC_API facc_status facc_program_explain(char **out, facc_ctx *ctx,
                                          facc_program *p,
                                          const facc_variant *variant,
                                          int32_t json, facc_error *err);

/* What a verdict says of a tile: all cells masked, all count, or unknown. */
enum { FACC_TILE_EMPTY = 1, FACC_TILE_FULL = 2, FACC_TILE_PARTIAL = 3 };

typedef struct facc_verdict_counts {
    size_t struct_size;
    int32_t rows, cols; /* of tiles */
    int64_t empty, full, partial;
    int64_t cells, kept; /* of the whole mask */
    char tier[16];       /* see facc_kernel_info; "opaque": kept is -1 */
    int32_t skip_kept;   /* in: nonzero: no cell is looked at for kept, which
                            is -1 */
    int32_t reserved0;
} facc_verdict_counts;
#define FACC_VERDICT_COUNTS_INIT FACC_STRUCT_INIT(facc_verdict_counts)
/* The mask of (b, h) on the CPU, tile by tile as a schedule would have it.
 * args: sizes and host memory of captured tensors, params, lengths, block
 * mask; the data of q, k, v, o is not touched and may be NULL. Any of the
 * three results may be NULL: verdicts [rows][cols] of tiles of tile_q rows
 * by tile_kv columns, FACC_TILE_…; cells [Sq][Skv] 1 where a cell counts, for
 * rows and columns inside the used lengths of b, else 0 (FACC_ERR_UNSUPPORTED
 * where the mask reads the score); counts. Time is that of the cells if
 * cells or kept are asked for, else that of the verdicts. */
FACC_API facc_status facc_verdict_map(
    facc_ctx *ctx, const facc_program *p, const facc_args *args, int32_t b,
    int32_t h, int32_t tile_q, int32_t tile_kv, uint8_t *verdicts,
    uint8_t *cells, facc_verdict_counts *counts, facc_error *err);

#ifdef __cplusplus
}
#endif

/* ---- the other parts ------------------------------------------------- */

#include "facc_cache.h"  /* facc_cache_…, facc_manifest_… */
#include "facc_device.h" /* facc_system, facc_device_…, facc_timer_… */

#endif

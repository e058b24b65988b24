/* The command line: one file per subcommand, over facc.h alone. Exit codes: 0
 * done, 1 failure, 2 wrong usage. */
#ifndef FACC_CLI_H
#define FACC_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/facc.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
    const char *name;
    const char *summary; /* one line for `facc --help` */
    const char *help;    /* whole text of `facc NAME --help` */
    int (*run)(int argc, char **argv);
};
extern const struct command command_run, command_compile, command_emit,
    command_explain, command_check, command_bench, command_mask, command_cache,
    command_doctor, command_quantize;

/* --- messages (report.c) -------------------------------------------- */
/* "facc: error: …" on stderr; both return the exit code. */
int cli_usage(const struct command *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int cli_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int cli_fail_facc(const facc_error *err); /* with log, if any */
void cli_warn(const facc_program *p);     /* its lint, if any */
/* Never return NULL: they say so and exit when memory is out (SIZE_MAX: more
 * than there can be). The caller frees. */
void *cli_alloc(size_t bytes);
void *cli_alloc_for(const char *what,
                    size_t bytes); /* what is in the message */
char *cli_strdup(const char *s);
/* Prints a cJSON value and frees it; EXIT_OK or EXIT_FAILED. */
struct cJSON;
int cli_print_json(struct cJSON *value);
/* Seconds of a monotonic clock. */
double cli_now(void);
int cli_compare_double(const void *a, const void *b);

/* --- options (options.c) -------------------------------------------- */
enum { MAX_NAMED = 64 };
struct named_text {
    char *name, *value;
};

/* Arrays of int32 that say where sequences lie and how long they are. */
enum sequence_array {
    SEQ_CU_Q, /* packed: [n_seqs + 1] */
    SEQ_CU_KV,
    SEQ_USED_Q, /* used lengths: [B] or [n_seqs] */
    SEQ_USED_KV,
    SEQ_ARRAYS
};

/* What run, check and bench share; the others use a part. */
struct options {
    const char *file;                  /* FILE.lua, or NULL with expressions */
    const char *score, *mask;          /* one-line expressions */
    const char *q, *k, *v, *out, *lse; /* .npy paths */
    struct named_text tensors[MAX_NAMED], params[MAX_NAMED];
    int n_tensors, n_params;
    const char *sequences[SEQ_ARRAYS]; /* .npy paths */
    const char *sinks;                 /* .npy path */
    const char *dropout;               /* its probability, or NULL */
    uint64_t dropout_seed, dropout_offset;
    /* FP8: .npy paths of what the call brings (quantize: what it writes) */
    const char *descales[3], *v_mean, *v_image;
    const char *descale; /* quantize */
    int descale_block;   /* rows; 0: not given */
    const char *per;     /* "tensor", "head" or rows: what shares a scale */
    bool hadamard, power_of_two, centre_v, exact_peaks;
    bool has_scale;
    double scale;
    facc_dtype dtype;   /* 0: by the files and the device */
    const char *device; /* "cpu", "gpu", "gpu:N"; NULL: whatever is there */
    bool has_shape;
    int64_t B, H, Hkv, Sq, Skv, D, Dv; /* --random */
    uint64_t seed;
    int threads;
    bool stats, json;
    const char *arch; /* list for compile, one for emit and explain */
    const char *dtypes, *head_dims; /* lists for compile */
    const char *what;               /* emit */
    int jobs, rounds;
    const char *manifest;      /* compile */
    int memory;                /* MiB; 0: not given */
    facc_dtype out_dtype;      /* of the variants; 0: as dtype */
    bool roofline;             /* bench */
    const char *gpu;           /* roofline: a name; NULL not given */
    double lse_limit;          /* check; 0: the default */
    int64_t mask_sq, mask_skv; /* mask; -1: not given */
    int64_t mask_h, mask_hkv;  /* the same */
    int64_t batch, head;
    int64_t tile_q, tile_kv; /* 0: not given */
    bool check_bounds;
    /* compile, emit, explain: of the variants */
    bool packed, block_mask, with_sinks, with_dropout, transpose_v;
    int32_t layout;                      /* the same: FACC_LAYOUT_… */
    int32_t family;                      /* FACC_FAMILY_… */
    const char *lengths, *csv, *picture; /* bench: a list; paths */
    bool peers;                          /* bench */
    bool timings;                        /* emit */
    bool rebuild;                        /* cache */
    const char *positional[256];
    int n_positional;
};

/* Fills o with defaults, then from argv (argv[0] is the subcommand). Returns
 * EXIT_OK, EXIT_USAGE after a message, or -1 when --help was printed. Only
 * options whose long names are listed in `allowed` (NULL-ended) are
 * accepted. */
int options_parse(const struct command *c, int argc, char **argv,
                  const char *const *allowed, struct options *o);
/* What every command that makes a job takes (job_prepare): items of such a
 * list. */
#define JOB_OPTIONS                                                            \
    "q", "k", "v", "random", "seed", "score", "mask", "tensor", "param",       \
        "scale", "dtype", "device", "threads", "json", "cu-seqlens-q",         \
        "cu-seqlens-kv", "seqused-q", "seqused-kv", "sinks", "dropout",        \
        "dropout-seed", "dropout-offset", "family", "descale-q", "descale-k",  \
        "descale-v", "descale-block", "v-mean", "v-image", "per", "hadamard",  \
        "centre-v", "exact-peaks"
bool cli_parse_int(const char *text, int64_t *out); /* whole text, base 10 */
bool cli_looks_int(const char *text); /* digits and a sign, of any size */
/* Locale-free. No infinity that is not written as one. */
bool cli_parse_double(const char *text, double *out);
/* The next item of a list with commas, cut out of *rest; NULL after the last.
 * An item that does not fit is "". */
enum { CLI_ITEM = 64 };
const char *cli_next_item(const char **rest, char item[CLI_ITEM]);
bool cli_parse_dtype(const char *text, facc_dtype *out);

/* --- npy files (npy.c) ------------------------------------------------ */
struct array {
    facc_tensor t; /* C order; whoever has the array frees the data */
    size_t count;  /* elements */
};
/* Message in `why` on failure. `raw` 0, or the dtype that the file's integers
 * of the same width stand for ("file.npy:bf16"). */
bool npy_read(const char *path, facc_dtype raw, struct array *out, char *why,
              size_t why_size);
bool npy_write(const char *path, const facc_tensor *t, char *why,
               size_t why_size);

/* --- FP8 (fp8.c) --------------------------------------------------------- */
enum fp8_array {
    FP8_DESCALE_Q,
    FP8_DESCALE_K,
    FP8_DESCALE_V,
    FP8_V_MEAN,
    FP8_V_IMAGE,
    FP8_ARRAYS
};
struct job;
/* Descales, means and image from files, or with --per Q, K and V rounded here
 * to o->dtype with what belongs to them. After sequences are known. */
int fp8_load(const struct command *c, const struct options *o, struct job *job);
/* What is best for so many keys, each read by so many query rows; nothing for
 * other dtypes. */
void fp8_choose(facc_variant *v, facc_dtype dtype, int64_t head_dim,
                int64_t q_rows, int64_t keys);
/* Points args at arrays of FP8_… (NULL: none). */
void fp8_set(facc_args *a, enum fp8_array which, const facc_tensor *t);
/* --per: rank and block of scales. */
bool fp8_granularity(const struct command *c, const char *per, int *rank,
                     int *block);

/* --- inputs (inputs.c) -------------------------------------------------- */
/* One attention call on host memory, ready for the CPU or to be uploaded. */
struct job {
    facc_ctx *ctx;
    facc_program *program;
    facc_variant variant;
    facc_args args;       /* host tensors */
    facc_tensor *tensors; /* of args */
    facc_scalar_value *params;
    struct array sequences[SEQ_ARRAYS]; /* of args; data NULL: not given */
    struct array sinks;                 /* the same */
    struct array fp8[FP8_ARRAYS];       /* the same */
    facc_tensor originals[3]; /* Q, K, V before --per; data NULL: none */
    bool tokens_first; /* Q, K, V came as [T, H, D]: O is to be so, too */
    int device;        /* -1: CPU */
    char device_name[160];
};
/* Loads program, tensors and params as the options say. EXIT_OK or the exit
 * code after a message. job_finish frees the job either way. */
int job_prepare(const struct command *c, const struct options *o,
                struct job *job);
int job_load_program(const struct command *c, const struct options *o,
                     struct job *job);
/* The captured tensors and params alone. */
int job_captures(const struct options *o, struct job *job);
void job_finish(struct job *job);
/* Runs once: on the CPU (f64: the oracle) or the GPU. o and lse of args are
 * host memory and get the results. */
int job_run_cpu(struct job *job, bool f64, double *seconds);
int job_run_gpu(struct job *job, double *milliseconds, facc_kernel_info *info);
/* Makes o and lse of job's args; who replaces them frees the old ones. */
void job_outputs(struct job *job, facc_dtype o_dtype, facc_dtype lse_dtype);
void job_free_outputs(facc_args *a);

/* A fresh tensor in C order; `name` is for messages. */
facc_tensor new_tensor(const char *name, facc_dtype dtype, int rank,
                       const int64_t *shape);
/* "file.npy" or "file.npy:bf16" to a fresh array; EXIT_OK or EXIT_FAILED. */
int read_array(const char *text, struct array *out);
/* In place: floats to floats, integers to integers that hold the values;
 * `what` names it in messages. EXIT_OK or EXIT_FAILED. */
int convert_array(const char *what, struct array *a, facc_dtype to);

/* --- sequences (sequences.c) -------------------------------------------- */
/* Loads cu_seqlens and used lengths into job and its args. */
int sequences_load(const struct command *c, const struct options *o,
                   struct job *job);
/* Are there as many used lengths as sequences, and all rows in the tensors?
 * After Q and K are known. */
int sequences_fit(const struct job *job);
/* Points args at arrays of SEQ_… (NULL: none). */
void sequences_set(facc_args *a, enum sequence_array which, const void *data);
/* Length of sequence b of one side, by the arrays and the tensors' shape.
 * a: host memory. */
int64_t sequence_length(const facc_args *a, bool kv, int64_t b);

/* --- a launch on device copies (gpu.c) -------------------------------- */
struct gpu_job {
    struct job *job;
    facc_kernel *kernel;
    facc_args args; /* device tensors */
    facc_tensor tensors[MAX_NAMED];
    facc_tensor sequences[SEQ_ARRAYS];
    facc_tensor sinks; /* data NULL: not there */
    facc_tensor fp8[FP8_ARRAYS];
    facc_timer *timer;
};
int gpu_prepare(struct job *job, struct gpu_job *g);
int gpu_launch(struct gpu_job *g);
int gpu_fetch(struct gpu_job *g); /* o and lse to the host */
void gpu_finish(struct gpu_job *g);

/* Bytes spanned by a tensor's elements from its lowest address. */
size_t tensor_bytes(const facc_tensor *t);
double attention_flops(const facc_args *a);

#endif

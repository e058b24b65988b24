/* What a case is put through. Plain Lua on numbers gives every cell's score
 * and mask (check_cells.c): the truth that the evaluator, verdicts
 * (check_verdicts.c), the CPU attention (check_cpu.c, by way of a loop by hand
 * in f64, check_rows.c), and kernels (check_gpu.c) are compared with. */
#ifndef FACC_FUZZ_CHECK_H
#define FACC_FUZZ_CHECK_H

#include "compiler/compile.h"
#include "tests/fuzz/analysis.h"
#include "tests/fuzz/case.h"

/* Where a case failed. */
enum stage {
    STAGE_FINE,
    STAGE_TRACE,
    STAGE_CELLS,
    STAGE_CELLS_F32,
    STAGE_VERDICT,
    STAGE_CPU_F64,
    STAGE_CPU_F32,
    STAGE_NVRTC,
    STAGE_GPU_SM80,
    STAGE_GPU_SM90,
    STAGE_CRASH,
    STAGE_HANG,
    STAGES
};

/* Sums over cases; all members are long. */
struct tally {
    long cases;
    long cells, kept;
    long near_threshold; /* cells that f32 may see otherwise */
    long rows, compared; /* of outputs in f32; whose values could be judged */
    long tiles, decided, really;      /* verdicts; not PARTIAL; truly so */
    long kernels, launches, left_out; /* left out: too large for kernels */
    long op[IR_OP_COUNT];             /* traced programs that have it */
};

struct outcome {
    enum stage stage;
    char message[1024];
    struct tally tally;
};

/* Records the first failure; false. */
bool check_fail(struct outcome *o, enum stage stage, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

struct cell {
    double score;       /* before the mods */
    double want, error; /* after; how far f32 may be from it */
    bool keep, near;
    bool passed; /* the mask's keep after the passes: -inf may come from data */
};

struct truth {
    const struct fuzz_case *c;
    struct cell *cell; /* [B][H][Sq][Skv]; of used rows and columns */
};
static inline struct cell *truth_cell(const struct truth *t, int b, int h,
                                      int q, int kv)
{
    const struct fuzz_case *c = t->c;
    return &t->cell[(((size_t)b * (size_t)c->H + (size_t)h) * (size_t)c->Sq +
                     (size_t)q) *
                        (size_t)c->Skv +
                    (size_t)kv];
}

/* check_cells.c. Fills the truth; the evaluator as traced and after the
 * passes, in f64 bit by bit, in f32 within the analysis. */
bool check_cells(struct truth *t, bool gpu, struct outcome *o);

/* check_verdicts.c. Rectangles of every (b, h): never unsound. */
bool check_verdicts(const struct truth *t, const struct program *p,
                    uint64_t seed, struct outcome *o);

/* --- check_rows.c: outputs ---------------------------------------- */

/* How exact an output must be. */
struct judging {
    enum stage stage;
    const char *what;   /* "CPU, f64", for messages */
    bool f64;           /* all arithmetic in f64 */
    double probability; /* relative rounding of probabilities */
};
/* o [B or 1, H, S, Dv] and lse [B or 1, H, S] as the args have them, against
 * the loop by hand. */
bool check_rows(const struct truth *t, const struct judging *j,
                const facc_tensor *o, const facc_tensor *lse,
                struct outcome *out);
/* The shapes of o and lse, contiguous; bytes of each. */
void rows_shape(const struct fuzz_case *c, facc_tensor *o, facc_dtype o_dtype,
                facc_tensor *lse, facc_dtype lse_dtype, size_t *o_bytes,
                size_t *lse_bytes);

/* --- check_cpu.c, check_gpu.c ------------------------------------- */
bool check_cpu(const struct truth *t, facc_ctx *ctx, const facc_program *p,
               struct outcome *o);
/* Both families compile, for architectures that the seed chooses. */
bool check_nvrtc(const struct fuzz_case *c, facc_ctx *ctx, facc_program *p,
                 uint64_t seed, struct outcome *o);
/* Each family that device 0 has. */
bool check_gpu(const struct truth *t, facc_ctx *ctx, facc_program *p,
               struct outcome *o);

/* --- check.c ------------------------------------------------------ */

struct check_options {
    bool nvrtc, gpu; /* also */
};
struct case_limits check_limits(const struct check_options *o);
/* Whether there is a GPU; asks the driver. */
bool check_has_gpu(facc_ctx *ctx);
/* A context as all of the above want it. */
facc_ctx *check_context(void);
/* All of it for the case of a stream of decisions. */
void check_case(struct choices *choices, const struct check_options *options,
                facc_ctx *ctx, struct outcome *out);

#endif

/* Times facc's own variants over lengths on one device. In: options. Out: a
 * bench_table. Q, K and V are made once and cut into sequences of each
 * length; the variants of a length take turns, each measurement on a GPU is a
 * burst of launches after a pause, which keeps the card off its power limit.
 * Called by cmd_bench.c. */
#include "runtime/cli/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CPU_WINDOW = 128, GPU_WINDOW = 1024, DOCUMENTS = 16 };
static const double burst_ms = 8, pause_ms = 20;

enum sweep_mask { FULL, CAUSAL, WINDOW, DOCUMENT };

static const struct {
    const char *name;
    const char *lua;
    enum sweep_mask mask;
} variants[BENCH_VARIANTS] = {
    {"full", "return facc.attention {}", FULL},
    {"causal", "return facc.attention { mask_mod = facc.mods.causal }", CAUSAL},
    {"ALiBi, causal",
     "return facc.attention { score_mod = facc.mods.alibi(),"
     " mask_mod = facc.mods.causal }",
     CAUSAL},
    {"softcap, causal",
     "return facc.attention { score_mod = facc.mods.softcap_fast(20),"
     " mask_mod = facc.mods.causal }",
     CAUSAL},
    {"window 1024",
     "return facc.attention { mask_mod ="
     " facc.mods.sliding_window(facc.param(\"window\", \"i32\")) }",
     WINDOW},
    {"16 documents",
     "local ids = facc.tensor(\"ids\", \"i32\", { \"kv\" })\n"
     "return facc.attention { mask_mod = facc.mods.and_masks("
     "facc.mods.document(ids), facc.mods.causal) }",
     DOCUMENT},
};

struct sweep {
    const struct command *c;
    const struct options *o;
    struct bench_table *t;
    struct job base; /* Q, K, V, O, LSE as one sequence; the context */
    int64_t window;
};

/* One variant at one length. */
struct contestant {
    struct job job; /* data and context are the base's */
    struct gpu_job gpu;
    int launches; /* of a burst */
    double *ms;
};

/* --- shapes ------------------------------------------------------------------
 */

static int64_t sequences(const struct bench_table *t, int64_t length)
{
    int64_t n = t->tokens / length;
    return n ? n : 1;
}

/* Cells of one (b, h) that count; below a diagonal half of them, as is usual
 * where TFLOP/s are quoted. */
static double cells_of(enum sweep_mask mask, double s, double window)
{
    switch (mask) {
    case CAUSAL:
        return s * s / 2;
    case WINDOW:
        return s > window ? s * window - window * window / 2 : s * s / 2;
    case DOCUMENT:
        return s * s / (2 * DOCUMENTS);
    case FULL:
        break;
    }
    return s * s;
}

/* The same data as B sequences of S tokens. */
static void reshape(facc_tensor *x, int64_t B, int64_t S)
{
    x->shape[0] = B;
    x->shape[2] = S;
    int64_t n = 1;
    for (int d = x->rank; d-- > 0;) {
        x->stride[d] = n;
        n *= x->shape[d];
    }
}

/* --- one contestant
 * ----------------------------------------------------------- */

static int load_variant(const struct sweep *w, int variant, int64_t S,
                        struct job *job)
{
    char text[512];
    facc_error err = FACC_ERROR_INIT;
    int n = snprintf(text, sizeof text, "local facc = require \"facc\"\n%s\n",
                     variants[variant].lua);
    if (facc_program_load_string(&job->program, job->ctx,
                                 variants[variant].name, text, (size_t)n, &err))
        return cli_fail_facc(&err);
    if (variants[variant].mask == WINDOW) {
        job->params = cli_alloc(sizeof *job->params);
        job->params[0].i = w->window;
        job->args.params = job->params;
        job->args.n_params = 1;
    }
    if (variants[variant].mask == DOCUMENT) {
        int32_t *ids = cli_alloc((size_t)S * sizeof *ids);
        for (int64_t i = 0; i < S; i++)
            ids[i] = (int32_t)(i * DOCUMENTS / S);
        job->tensors = cli_alloc(sizeof *job->tensors);
        job->tensors[0] = (facc_tensor){.data = ids,
                                        .dtype = FACC_I32,
                                        .rank = 1,
                                        .shape = {S},
                                        .stride = {1}};
        job->args.tensors = job->tensors;
        job->args.n_tensors = 1;
    }
    return EXIT_OK;
}

static int launch(struct contestant *x, int n, double *ms)
{
    facc_error err = FACC_ERROR_INIT;
    if (x->job.device < 0) {
        double s = 0;
        int rc = job_run_cpu(&x->job, false, &s);
        *ms = s * 1e3;
        return rc;
    }
    if (facc_timer_begin(x->gpu.timer, &err))
        return cli_fail_facc(&err);
    for (int i = 0; i < n; i++) {
        int rc = gpu_launch(&x->gpu);
        if (rc)
            return rc;
    }
    if (facc_timer_end(x->gpu.timer, ms, &err))
        return cli_fail_facc(&err);
    *ms /= n;
    return EXIT_OK;
}

static int make(struct sweep *w, int variant, int64_t S, struct contestant *x)
{
    x->job = w->base;
    x->job.program = NULL;
    x->job.tensors = NULL;
    x->job.params = NULL;
    facc_args *a = &x->job.args;
    facc_tensor *all[5] = {&a->q, &a->k, &a->v, &a->o, &a->lse};
    for (int i = 0; i < 5; i++)
        reshape(all[i], sequences(w->t, S), S);
    int rc = load_variant(w, variant, S, &x->job);
    if (!rc && x->job.device >= 0)
        rc = gpu_prepare(&x->job, &x->gpu);
    double ms = 0;
    for (int i = 0; i < 3 && !rc; i++) { /* the CPU needs no more than one */
        rc = launch(x, 1, &ms);
        if (x->job.device < 0)
            break;
    }
    x->launches = ms > 0 && ms < burst_ms ? (int)(burst_ms / ms + 0.5) : 1;
    return rc;
}

static void end(struct contestant *x)
{
    if (x->gpu.job)
        gpu_finish(&x->gpu);
    for (int i = 0; i < x->job.args.n_tensors; i++)
        free(x->job.tensors[i].data);
    free(x->job.tensors);
    free(x->job.params);
    facc_program_free(x->job.program);
    free(x->ms);
}

/* --- one length
 * ---------------------------------------------------------------- */

static void take_a_breath(const struct sweep *w)
{
    const struct timespec t = {.tv_nsec = (long)(pause_ms * 1e6)};
    if (w->base.device >= 0)
        nanosleep(&t, NULL);
}

static int keep_roof(struct sweep *w, int variant, int at, struct contestant *x)
{
    struct bench_table *t = w->t;
    struct roof *r = &t->roofs[t->n_roofs];
    if (t->n_roofs > 0) /* a CPU's is measured once */
        r->machine = t->roofs[0].machine;
    snprintf(r->label, sizeof r->label, "%.40s, %lld", t->names[variant],
             (long long)t->lengths[at]);
    if (x->job.device < 0)
        x->job.variant.dtype = x->job.args.q.dtype;
    if (x->job.device < 0)
        x->job.variant.out_dtype = x->job.args.o.dtype;
    r->group = variant;
    t->n_roofs++;
    return roof_make(w->c, w->o, &x->job, t->figures[variant][at].median * 1e-3,
                     r);
}

static int keep(struct sweep *w, int variant, int at, struct contestant *x)
{
    struct bench_table *t = w->t;
    struct bench_figure *f = &t->figures[variant][at];
    qsort(x->ms, (size_t)t->rounds, sizeof *x->ms, cli_compare_double);
    f->median = x->ms[t->rounds / 2];
    f->min = x->ms[0];
    f->max = x->ms[t->rounds - 1];
    f->cells = cells_of(variants[variant].mask, (double)t->lengths[at],
                        (double)w->window);
    f->tflops =
        4.0 * t->D * f->cells * t->H * (double)t->B[at] / f->median * 1e-9;
    if (x->job.device >= 0 && !t->family[0]) {
        facc_kernel_info info = FACC_KERNEL_INFO_INIT;
        facc_kernel_get_info(x->gpu.kernel, &info);
        snprintf(t->family, sizeof t->family, "%s", info.family);
    }
    return w->o->roofline ? keep_roof(w, variant, at, x) : EXIT_OK;
}

static int sweep_length(struct sweep *w, int at)
{
    struct bench_table *t = w->t;
    struct contestant *x = cli_alloc(BENCH_VARIANTS * sizeof *x);
    int rc = EXIT_OK;
    for (int v = 0; v < BENCH_VARIANTS && !rc; v++) {
        x[v].ms = cli_alloc((size_t)t->rounds * sizeof *x[v].ms);
        rc = make(w, v, t->lengths[at], &x[v]);
    }
    for (int round = 0; round < t->rounds; round++)
        for (int v = 0; v < BENCH_VARIANTS && !rc; v++) {
            take_a_breath(w);
            rc = launch(&x[v], x[v].launches, &x[v].ms[round]);
        }
    for (int v = 0; v < BENCH_VARIANTS; v++) {
        if (!rc)
            rc = keep(w, v, at, &x[v]);
        end(&x[v]);
    }
    free(x);
    return rc;
}

/* --- all of it
 * ------------------------------------------------------------------- */

static int parse_lengths(const struct command *c, const char *text,
                         struct bench_table *t)
{
    char item[CLI_ITEM];
    const char *rest = text, *part;
    while ((part = cli_next_item(&rest, item))) {
        int64_t s;
        if (t->n_lengths == BENCH_LENGTHS)
            return cli_usage(c, "--lengths: %d at most", BENCH_LENGTHS);
        if (!cli_parse_int(part, &s) || s < DOCUMENTS || s > 1 << 20 ||
            (t->n_lengths && s <= t->lengths[t->n_lengths - 1]))
            return cli_usage(c,
                             "--lengths wants rising integers from %d to "
                             "2^20, got '%s'",
                             DOCUMENTS, text);
        t->lengths[t->n_lengths++] = s;
    }
    return EXIT_OK;
}

/* Sizes where the options say nothing: as tests/bench/RESULTS.md has them on
 * a GPU, small ones on the CPU. */
static int choose_sizes(const struct command *c, const struct options *o,
                        bool gpu, struct bench_table *t)
{
    int64_t D = gpu ? 128 : 64;
    const int width = gpu ? 2048 : 256;
    if (o->head_dims &&
        (!cli_parse_int(o->head_dims, &D) || D < 8 || D > 256 || D % 8 != 0))
        return cli_usage(c,
                         "--head-dim wants a multiple of 8 up to 256, got "
                         "'%s'",
                         o->head_dims);
    t->D = (int)D;
    t->H = width / t->D ? width / t->D : 1;
    t->rounds = o->rounds ? o->rounds : 7;
    int rc = parse_lengths(c,
                           o->lengths ? o->lengths
                           : gpu      ? "512,1024,2048,4096,8192,16384"
                                      : "128,256,512,1024",
                           t);
    int64_t most = rc ? 0 : t->lengths[t->n_lengths - 1];
    t->tokens = (int)(gpu && most < 16384 ? 16384 : most);
    for (int i = 0; i < t->n_lengths; i++)
        t->B[i] = sequences(t, t->lengths[i]);
    return rc;
}

/* Chooses the device; then Q, K and V are made in the size it takes. */
static int prepare(const struct command *c, struct sweep *w)
{
    struct options o = *w->o;
    struct bench_table *t = w->t;
    o.has_shape = true;
    o.B = o.H = o.Hkv = o.Sq = o.Skv = 1;
    o.D = o.Dv = 8;
    int rc = job_prepare(c, &o, &w->base);
    const bool gpu = w->base.device >= 0;
    job_finish(&w->base);
    if (!rc)
        rc = choose_sizes(c, &o, gpu, t);
    o.H = o.Hkv = t->H;
    o.Sq = o.Skv = t->tokens;
    o.D = o.Dv = t->D;
    if (rc) {
        w->base = (struct job){.args = FACC_ARGS_INIT};
        return rc;
    }
    rc = job_prepare(c, &o, &w->base);
    if (!rc && gpu) { /* O as a framework has it */
        job_free_outputs(&w->base.args);
        job_outputs(&w->base, w->base.variant.dtype, FACC_F32);
        w->base.variant.out_dtype = w->base.variant.dtype;
        w->base.variant.layout = FACC_LAYOUT_ALIGNED;
    }
    w->window = gpu ? GPU_WINDOW : CPU_WINDOW;
    return rc;
}

int bench_sweep(const struct command *c, const struct options *o,
                struct bench_table *t)
{
    struct sweep w = {.c = c, .o = o, .t = t};
    int rc = prepare(c, &w);
    if (!rc) {
        t->device_index = w.base.device;
        t->dtype = facc_dtype_name(w.base.variant.dtype);
        snprintf(t->device, sizeof t->device, "%s", w.base.device_name);
        for (int v = 0; v < BENCH_VARIANTS; v++)
            t->names[v] = variants[v].mask == WINDOW && w.base.device < 0
                              ? "window 128"
                              : variants[v].name;
    }
    for (int i = 0; i < t->n_lengths && !rc; i++)
        rc = sweep_length(&w, i);
    job_finish(&w.base);
    return rc;
}

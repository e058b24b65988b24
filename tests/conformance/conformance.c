/* The conformance table: every row of the four lists on every path
 * that this machine has, against plain Lua on numbers (problem.c). In: options.
 * Out: a table, one line a row: which paths ran, worst errors; exit code 1 when
 * one is over its limit or a kernel does not compile.
 *
 * Paths: the CPU in double and in f32; the kernels of family sm80 and sm90,
 * compiled if asked for, run where there is a GPU. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tests/conformance/problem.h"

static const char usage[] =
    "usage: conformance [options] [ROW...]\n"
    "  --compile     also compile the kernels of both families\n"
    "  --arch N      for sm_N (without a GPU; default 90)\n"
    "  --gpu         run them on device 0\n"
    "  --jobs N      compile so many at once (default 2)\n"
    "  --out FILE    the table as Markdown\n"
    "  --write DIR   only write each row as a file of its own\n";

enum path { CPU_F64, CPU_F32, SM80, SM90, PATHS };
static const char *const path_name[PATHS] = {"CPU f64", "CPU f32", "sm80",
                                             "sm90"};
/* Limits. O: absolute; weights of kernels are rounded to bf16, and their
 * results. LSE: relative beyond 1. */
static const struct errors limit[PATHS] = {
    {1e-9, 1e-9}, {2e-4, 1e-5}, {2.5e-2, 1e-5}, {2.5e-2, 1e-5}};

/* Of a row's lines: left out at most, and with keys at least. */
enum { MOST_NEAR = P_LINES / 16, LEAST_WITH_KEYS = P_LINES / 4 };

enum outcome { NOT_RUN, COMPILED, RAN, FAILED };

struct row_result {
    enum outcome outcome[PATHS];
    struct errors worst[PATHS];
    char why[256];     /* of the first failure */
    int spills[PATHS]; /* bytes */
    long cells, kept;
    int near_lines, empty_lines; /* of P_LINES */
};

struct options {
    bool compile, gpu;
    int arch, jobs;
    const char *out, *write;
};

struct job { /* one row */
    const struct list_row *row;
    char *text;
    facc_program *program;
    facc_kernel *kernel[PATHS];
    struct row_result result;
};

static struct options options = {.arch = 90, .jobs = 2};
static facc_ctx *ctx;
static struct job job[LIST_MOST];
static int n_jobs;

static void fail(struct job *j, enum path path, const char *why)
{
    j->result.outcome[path] = FAILED;
    if (!*j->result.why)
        snprintf(j->result.why, sizeof j->result.why, "%s: %.220s",
                 path_name[path], why);
}

static double lse_limit(const struct job *j, enum path path)
{
    const bool fast = path >= SM80 && strstr(j->row->name, "fast");
    return fast ? 2e-4 : limit[path].lse;
}

static void judge(struct job *j, enum path path, const struct problem *p,
                  const double *o, const double *lse)
{
    const struct errors e = problem_compare(p, o, lse);
    j->result.worst[path] = e;
    j->result.outcome[path] = RAN;
    if (!(e.o <= limit[path].o) || !(e.lse <= lse_limit(j, path)))
        fail(j, path, "over its limit");
}

/* A row says little if few of its lines are compared, or if they are of zeros
 * alone, as those of an output that nothing was written to may be. */
static void bound_lines(struct job *j, const struct oracle *w)
{
    char why[128] = "";
    if (w->near_lines > MOST_NEAR)
        snprintf(why, sizeof why, "%d of %d lines are near a threshold",
                 w->near_lines, P_LINES);
    else if (P_LINES - w->empty_lines < LEAST_WITH_KEYS &&
             !strstr(j->row->name, "empty"))
        snprintf(why, sizeof why, "%d of %d lines have no keys", w->empty_lines,
                 P_LINES);
    if (*why)
        snprintf(j->result.why, sizeof j->result.why, "%s", why);
}

static void *memory(size_t bytes)
{
    void *p = calloc(bytes, 1);
    if (!p)
        data_die("no memory for", "a tensor");
    return p;
}

/* --- the CPU -------------------------------------------------------------- */

/* NaN of any float type: what is not written shows. */
static void *poisoned(size_t bytes)
{
    return memset(memory(bytes), 0xff, bytes);
}

static void to_double(facc_dtype from, void *data, double *out, size_t n)
{
    if (from != FACC_F64)
        facc_convert(FACC_F64, out, from, data, n);
    else
        memcpy(out, data, n * sizeof *out);
}

static void set_output(facc_args *a, void *o, facc_dtype o_type, void *lse,
                       facc_dtype lse_type)
{
    a->o = a->q;
    a->o.data = o;
    a->o.dtype = o_type;
    a->lse = (facc_tensor){lse, lse_type, 3, {P_B, P_H, P_SQ}, {0}};
    a->lse.stride[0] = P_H * P_SQ;
    a->lse.stride[1] = P_SQ;
    a->lse.stride[2] = 1;
}

static void run_cpu(struct job *j, enum path path, const struct problem *p)
{
    const facc_dtype type = path == CPU_F64 ? FACC_F64 : FACC_F32;
    facc_cpu_options how = FACC_CPU_OPTIONS_INIT;
    facc_error err = FACC_ERROR_INIT;
    facc_args a = p->args;
    const size_t rows = p->n_q / P_D;
    double *o = memory(p->n_q * sizeof *o), *lse = memory(rows * sizeof *lse);
    void *got_o = poisoned(p->n_q * sizeof *o);
    void *got_lse = poisoned(rows * sizeof *lse);
    how.f64 = path == CPU_F64;
    set_output(&a, got_o, type, got_lse, type);
    if (facc_cpu_attention(ctx, j->program, &a, &how, &err) == FACC_OK) {
        to_double(type, got_o, o, p->n_q);
        to_double(type, got_lse, lse, rows);
        judge(j, path, p, o, lse);
    } else {
        fail(j, path, err.message);
    }
    free(o);
    free(lse);
    free(got_o);
    free(got_lse);
}

/* --- kernels -------------------------------------------------------------- */

static void compile(struct job *j, enum path path)
{
    facc_variant v = FACC_VARIANT_INIT;
    facc_error err = FACC_ERROR_INIT;
    v.dtype = FACC_BF16;
    v.head_dim = v.head_dim_v = P_D;
    v.arch = options.gpu ? 0 : path == SM90 ? 90 : options.arch;
    v.family = path == SM80 ? FACC_FAMILY_SM80 : FACC_FAMILY_SM90;
    v.layout = path == SM80 ? FACC_LAYOUT_ANY : FACC_LAYOUT_ALIGNED;
    if (facc_kernel_get(&j->kernel[path], ctx, j->program, &v, &err) !=
        FACC_OK) {
        fail(j, path, *err.log ? err.log : err.message);
        return;
    }
    facc_kernel_info info = FACC_KERNEL_INFO_INIT;
    facc_kernel_get_info(j->kernel[path], &info);
    j->result.outcome[path] = COMPILED;
    j->result.spills[path] = info.spill_bytes;
}

static void *compile_some(void *next)
{
    for (;;) {
        const int k = atomic_fetch_add((atomic_int *)next, 1);
        if (k >= 2 * n_jobs)
            return NULL;
        compile(&job[k / 2], k % 2 ? SM90 : SM80);
        if (k % 50 == 49)
            fprintf(stderr, "%d of %d kernels\n", k + 1, 2 * n_jobs);
    }
}

static void compile_all(void)
{
    enum { MOST = 64 };
    pthread_t thread[MOST];
    atomic_int next = 0;
    int n = options.jobs < MOST ? options.jobs : MOST, started = 0;
    while (started < n &&
           pthread_create(&thread[started], NULL, compile_some, &next) == 0)
        started++;
    if (started == 0)
        compile_some(&next);
    for (int k = 0; k < started; k++)
        pthread_join(thread[k], NULL);
}

/* --- the GPU -------------------------------------------------------------- */

struct device {
    void *copy[DATA_TENSORS + 16];
    int n;
    facc_error err;
    bool failed;
};

/* A copy on the device, of nothing if host is NULL. */
static void *put(struct device *d, const void *host, size_t bytes)
{
    void *p = NULL;
    if (d->failed ||
        facc_device_alloc(&p, ctx, 0, bytes ? bytes : 1, &d->err) != FACC_OK) {
        d->failed = true;
        return NULL;
    }
    d->copy[d->n++] = p;
    if (host && bytes)
        d->failed =
            facc_device_upload(ctx, 0, p, host, bytes, &d->err) != FACC_OK;
    return p;
}

static void put_bf16(struct device *d, facc_tensor *t, size_t n)
{
    void *bits = memory(2 * n);
    facc_convert(FACC_BF16, bits, FACC_F32, t->data, n);
    t->data = put(d, bits, 2 * n);
    t->dtype = FACC_BF16;
    free(bits);
}

static void put_outputs(struct device *d, facc_args *a, size_t n, size_t rows)
{
    void *nan = poisoned(4 * n);
    set_output(a, put(d, nan, 2 * n), FACC_BF16, put(d, nan, 4 * rows),
               FACC_F32);
    free(nan);
}

/* All of a launch's memory. */
static void put_args(struct device *d, const struct problem *p, facc_kernel *k,
                     facc_args *a, facc_tensor *tensor)
{
    size_t bytes = 0, align = 0;
    const size_t rows = p->n_q / P_D;
    *a = p->args;
    put_bf16(d, &a->q, p->n_q);
    put_bf16(d, &a->k, p->n_k);
    put_bf16(d, &a->v, p->n_k);
    put_outputs(d, a, p->n_q, rows);
    for (int t = 0; t < a->n_tensors; t++) {
        tensor[t] = a->tensors[t];
        tensor[t].data = put(d, tensor[t].data, p->data.bytes[t]);
    }
    a->tensors = tensor;
    a->seqused_q = put(d, a->seqused_q, sizeof(int32_t) * P_B);
    a->seqused_kv = put(d, a->seqused_kv, sizeof(int32_t) * P_B);
    if (facc_workspace_size(k, a, &bytes, &align) != FACC_OK)
        d->failed = true;
    a->workspace = put(d, NULL, bytes);
    a->workspace_size = bytes;
}

static bool launch(struct device *d, facc_kernel *k, const facc_args *a,
                   void *o, size_t n, void *lse, size_t rows)
{
    return !d->failed && facc_kernel_load(k, 0, &d->err) == FACC_OK &&
           facc_kernel_launch(k, a, NULL, &d->err) == FACC_OK &&
           facc_device_synchronize(ctx, 0, &d->err) == FACC_OK &&
           facc_device_download(ctx, 0, o, a->o.data, 2 * n, &d->err) ==
               FACC_OK &&
           facc_device_download(ctx, 0, lse, a->lse.data, 4 * rows, &d->err) ==
               FACC_OK;
}

static void run_gpu(struct job *j, enum path path, const struct problem *p)
{
    struct device d = {.err = FACC_ERROR_INIT};
    facc_tensor tensor[DATA_TENSORS];
    facc_args a;
    const size_t rows = p->n_q / P_D;
    void *bits = poisoned(2 * p->n_q), *sums = poisoned(4 * rows);
    double *o = memory(p->n_q * sizeof *o), *lse = memory(rows * sizeof *lse);
    put_args(&d, p, j->kernel[path], &a, tensor);
    if (launch(&d, j->kernel[path], &a, bits, p->n_q, sums, rows)) {
        to_double(FACC_BF16, bits, o, p->n_q);
        to_double(FACC_F32, sums, lse, rows);
        judge(j, path, p, o, lse);
    } else {
        fail(j, path, d.err.message);
    }
    for (int k = 0; k < d.n; k++)
        facc_device_free(ctx, 0, d.copy[k]);
    free(bits);
    free(sums);
    free(o);
    free(lse);
}

/* --- rows ----------------------------------------------------------------- */

static void open_job(struct job *j, const struct list_row *row)
{
    facc_error err = FACC_ERROR_INIT;
    const char *text = list_text(row);
    char name[64];
    j->row = row;
    j->text = memory(strlen(text) + 1);
    memcpy(j->text, text, strlen(text));
    snprintf(name, sizeof name, "%s.lua", row->name); /* lines: row->file's */
    if (facc_program_load_string(&j->program, ctx, name, text, strlen(text),
                                 &err) != FACC_OK)
        data_die(err.message, row->name);
}

static void run_job(struct job *j)
{
    static struct problem p;
    struct program *program = list_compile(j->row->name, j->text);
    problem_open(&p, program, j->row->name, j->text);
    j->result.cells = p.want->cells;
    j->result.kept = p.want->kept;
    j->result.near_lines = p.want->near_lines;
    j->result.empty_lines = p.want->empty_lines;
    bound_lines(j, p.want);
    run_cpu(j, CPU_F64, &p);
    run_cpu(j, CPU_F32, &p);
    for (int path = SM80; options.gpu && path <= SM90; path++)
        if (j->kernel[path])
            run_gpu(j, (enum path)path, &p);
    problem_close(&p);
    program_free(program);
}

static void close_job(struct job *j)
{
    for (int k = 0; k < PATHS; k++)
        facc_kernel_free(j->kernel[k]);
    facc_program_free(j->program);
    free(j->text);
}

/* --- the table ------------------------------------------------------------ */

static void print_path(FILE *f, const struct row_result *r, enum path path)
{
    static const char *const word[] = {"-", "compiled", "", "FAILED"};
    char text[48];
    if (r->worst[path].o > 0 || r->worst[path].lse > 0 ||
        r->outcome[path] == RAN)
        snprintf(text, sizeof text, "%.1e %.1e%s", r->worst[path].o,
                 r->worst[path].lse, r->outcome[path] == FAILED ? " !" : "");
    else if (r->outcome[path] == COMPILED && r->spills[path] > 0)
        snprintf(text, sizeof text, "compiled, spills %d", r->spills[path]);
    else
        snprintf(text, sizeof text, "%s", word[r->outcome[path]]);
    fprintf(f, " %-18s |", text);
}

static int print_table(FILE *f)
{
    int failed = 0;
    fprintf(f,
            "Worst error of O (absolute) and of LSE (relative beyond 1) "
            "against plain Lua on numbers in\nloops over cells, B %d, H %d, "
            "Hkv %d, Sq %d, Skv %d, D %d, shorter second sequence.\n\n",
            P_B, P_H, P_HKV, P_SQ, P_SKV, P_D);
    fprintf(f, "| row | kept | %-18s | %-18s | %-18s | %-18s |\n", "CPU f64",
            "CPU f32", "sm80", "sm90");
    fprintf(f, "|---|---|---|---|---|---|\n");
    for (int k = 0; k < n_jobs; k++) {
        const struct row_result *r = &job[k].result;
        fprintf(f, "| %-18s | %3.0f %% |", job[k].row->name,
                100.0 * (double)r->kept / (double)r->cells);
        for (int path = 0; path < PATHS; path++)
            print_path(f, r, (enum path)path);
        fprintf(f, "%s%s\n", *r->why ? " " : "", r->why);
        failed += *r->why != '\0';
    }
    return failed;
}

static void summary(int failed)
{
    int ran[PATHS] = {0}, compiled[PATHS] = {0};
    long near = 0, empty = 0;
    for (int k = 0; k < n_jobs; k++) {
        for (int p = 0; p < PATHS; p++) {
            ran[p] += job[k].result.outcome[p] == RAN;
            compiled[p] += job[k].result.outcome[p] == COMPILED;
        }
        near += job[k].result.near_lines;
        empty += job[k].result.empty_lines;
    }
    printf("%d rows: %d on the CPU in f64, %d in f32; sm80: %d run, %d only "
           "compiled; sm90: %d run, %d only compiled; of %d lines %ld near a "
           "threshold left out, %ld without keys; %d failed\n",
           n_jobs, ran[CPU_F64], ran[CPU_F32], ran[SM80], compiled[SM80],
           ran[SM90], compiled[SM90], n_jobs * P_LINES, near, empty, failed);
}

/* --- options -------------------------------------------------------------- */

static void write_rows(const struct list_row *rows, int n)
{
    char path[512];
    for (int k = 0; k < n; k++) {
        snprintf(path, sizeof path, "%s/%s.lua", options.write, rows[k].name);
        FILE *f = fopen(path, "w");
        if (!f || fputs(list_text(&rows[k]), f) < 0 || fclose(f) != 0)
            data_die("cannot write", path);
    }
}

static bool wanted(const char *name, char **names, int n)
{
    for (int k = 0; k < n; k++)
        if (strcmp(name, names[k]) == 0)
            return true;
    return n == 0;
}

static const char *value_of(int argc, char **argv, int *k)
{
    if (*k + 1 >= argc)
        data_die("a value is missing after", argv[*k]);
    return argv[++*k];
}

/* Leaves the names of rows at the beginning of argv; how many. */
static int read_options(int argc, char **argv)
{
    int n = 0;
    for (int k = 1; k < argc; k++) {
        const char *s = argv[k];
        if (strcmp(s, "--compile") == 0)
            options.compile = true;
        else if (strcmp(s, "--gpu") == 0)
            options.compile = options.gpu = true;
        else if (strcmp(s, "--arch") == 0)
            options.arch = atoi(value_of(argc, argv, &k));
        else if (strcmp(s, "--jobs") == 0)
            options.jobs = atoi(value_of(argc, argv, &k));
        else if (strcmp(s, "--out") == 0)
            options.out = value_of(argc, argv, &k);
        else if (strcmp(s, "--write") == 0)
            options.write = value_of(argc, argv, &k);
        else if (s[0] == '-')
            data_die(usage, s);
        else
            argv[n++] = argv[k];
    }
    return n;
}

int main(int argc, char **argv)
{
    static struct list_row rows[LIST_MOST];
    const int n_names = read_options(argc, argv), n_rows = list_rows(rows);
    facc_error err = FACC_ERROR_INIT;
    if (options.write) {
        write_rows(rows, n_rows);
        return 0;
    }
    if (facc_ctx_create(&ctx, NULL, &err) != FACC_OK)
        data_die(err.message, "");
    for (int k = 0; k < n_rows; k++)
        if (wanted(rows[k].name, argv, n_names))
            open_job(&job[n_jobs++], &rows[k]);
    if (options.compile)
        compile_all();
    for (int k = 0; k < n_jobs; k++)
        run_job(&job[k]);
    if (options.out) {
        FILE *f = fopen(options.out, "w");
        if (!f || (print_table(f), fclose(f) != 0))
            data_die("cannot write", options.out);
    }
    const int failed = print_table(stdout);
    summary(failed);
    for (int k = 0; k < n_jobs; k++)
        close_job(&job[k]);
    facc_ctx_free(ctx);
    return failed != 0 || n_jobs == 0;
}

/* From options to a job: program, Q, K, V, captured tensors, params, device.
 * Called by run, check and bench. */
#include "runtime/cli/cli.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t tensor_count(const facc_tensor *t)
{
    size_t n = 1;
    for (int d = 0; d < t->rank; d++)
        n *= (size_t)t->shape[d];
    return n;
}

size_t tensor_bytes(const facc_tensor *t)
{
    return tensor_count(t) * facc_dtype_size(t->dtype);
}

double attention_flops(const facc_args *a)
{
    const int64_t n = a->cu_seqlens_q ? a->n_seqs : a->q.shape[0];
    double cells = 0; /* of all sequences */
    for (int64_t b = 0; b < n; b++)
        cells += (double)sequence_length(a, false, b) *
                 (double)sequence_length(a, true, b);
    return 2.0 * cells * (double)a->q.shape[1] *
           (double)(a->q.shape[3] + a->v.shape[3]);
}

/* name: for the message when memory is out, which ends the process. */
facc_tensor new_tensor(const char *name, facc_dtype dtype, int rank,
                       const int64_t *shape)
{
    facc_tensor t = {.dtype = dtype, .rank = rank};
    char what[160];
    int at = snprintf(what, sizeof what, "%s is too large, [", name);
    int64_t n = 1;
    size_t bytes;
    bool fits = true;
    for (int d = 0; d < rank; d++)
        at += snprintf(what + at, sizeof what - (size_t)at, "%s%" PRId64,
                       d ? ", " : "", shape[d]);
    snprintf(what + at, sizeof what - (size_t)at, "] of %s",
             facc_dtype_name(dtype));
    for (int d = rank; d-- > 0;) {
        t.shape[d] = shape[d];
        t.stride[d] = n;
        fits &= !__builtin_mul_overflow(n, shape[d], &n);
    }
    fits &= !__builtin_mul_overflow(n, facc_dtype_size(dtype), &bytes);
    t.data = cli_alloc_for(what, fits ? bytes : SIZE_MAX);
    return t;
}

/* "file.npy" or "file.npy:bf16". */
static char *split_type(const char *text, facc_dtype *raw)
{
    char *path = cli_strdup(text), *colon = strrchr(path, ':');
    *raw = (facc_dtype)0;
    if (colon && cli_parse_dtype(colon + 1, raw))
        *colon = 0;
    return path;
}

int read_array(const char *text, struct array *out)
{
    char why[512];
    facc_dtype raw;
    char *path = split_type(text, &raw);
    bool ok = npy_read(path, raw, out, why, sizeof why);
    free(path);
    return ok ? EXIT_OK : cli_fail("%s", why);
}

static bool is_float(facc_dtype t)
{
    return (t >= FACC_F32 && t <= FACC_E5M2) || t == FACC_F64;
}

static bool in_range(facc_dtype t, int64_t v)
{
    switch (t) {
    case FACC_I8:
        return v >= INT8_MIN && v <= INT8_MAX;
    case FACC_U8:
        return v >= 0 && v <= UINT8_MAX;
    case FACC_I16:
        return v >= INT16_MIN && v <= INT16_MAX;
    case FACC_I32:
        return v >= INT32_MIN && v <= INT32_MAX;
    case FACC_BOOL:
        return v == 0 || v == 1;
    case FACC_I64:
    case FACC_F32:
    case FACC_F16:
    case FACC_BF16:
    case FACC_E4M3:
    case FACC_E5M2:
    case FACC_F64:
        break;
    }
    return true;
}

/* Floats convert to floats, integers to integers that hold the values. */
int convert_array(const char *what, struct array *a, facc_dtype to)
{
    facc_dtype from = a->t.dtype;
    if (from == to)
        return EXIT_OK;
    if (is_float(from) != is_float(to))
        return cli_fail("%s: the file holds %s, %s is wanted", what,
                        facc_dtype_name(from), facc_dtype_name(to));
    if (!is_float(from)) {
        int64_t *wide = cli_alloc(a->count * sizeof *wide);
        facc_convert(FACC_I64, wide, from, a->t.data, a->count);
        int rc = EXIT_OK;
        for (size_t i = 0; i < a->count && !rc; i++)
            if (!in_range(to, wide[i]))
                rc = cli_fail("%s: element %zu is %" PRId64
                              ", which %s does not hold",
                              what, i, wide[i], facc_dtype_name(to));
        free(wide);
        if (rc)
            return rc;
    }
    void *data = cli_alloc(a->count * facc_dtype_size(to));
    bool ok = facc_convert(to, data, from, a->t.data, a->count) == FACC_OK;
    free(a->t.data);
    a->t.data = data;
    if (!ok)
        return cli_fail("%s: %s does not convert to %s", what,
                        facc_dtype_name(from), facc_dtype_name(to));
    a->t.dtype = to;
    return EXIT_OK;
}

/* --- program ----------------------------------------------------------- */

/* A tensor for an expression: type and dims are the file's. */
static int declare_tensors(const struct options *o, facc_declaration *decl,
                           size_t *n)
{
    for (int i = 0; i < o->n_tensors; i++) {
        struct array a;
        int rc = read_array(o->tensors[i].value, &a);
        free(a.t.data); /* read again when the program is known */
        if (rc)
            return rc;
        facc_declaration *d = &decl[(*n)++];
        d->name = o->tensors[i].name;
        d->dtype = a.t.dtype == FACC_F64 ? FACC_F32 : a.t.dtype;
        d->rank = a.t.rank;
        memcpy(d->shape, a.t.shape, sizeof d->shape);
    }
    return EXIT_OK;
}

/* A param for an expression: the type is that of the number. */
static int declare_params(const struct options *o, facc_declaration *decl,
                          size_t *n)
{
    for (int i = 0; i < o->n_params; i++) {
        const char *text = o->params[i].value;
        int64_t v;
        bool whole = cli_parse_int(text, &v);
        if (!whole && cli_looks_int(text))
            return cli_fail("param '%s': %s is no 64-bit integer; write %s.0 "
                            "for a float",
                            o->params[i].name, text, text);
        facc_declaration *d = &decl[(*n)++];
        d->name = o->params[i].name;
        d->is_param = 1;
        d->dtype = !whole                             ? FACC_F32
                   : v >= INT32_MIN && v <= INT32_MAX ? FACC_I32
                                                      : FACC_I64;
    }
    return EXIT_OK;
}

static int load_expressions(const struct options *o, struct job *job)
{
    facc_declaration *decl = cli_alloc(sizeof *decl * 2 * MAX_NAMED);
    facc_error err = FACC_ERROR_INIT;
    size_t n = 0;
    int rc = declare_tensors(o, decl, &n);
    if (!rc)
        rc = declare_params(o, decl, &n);
    if (!rc && facc_program_load_expressions(&job->program, job->ctx, o->score,
                                             o->mask, decl, n, &err))
        rc = cli_fail_facc(&err);
    if (!rc)
        cli_warn(job->program);
    free(decl);
    return rc;
}

int job_load_program(const struct command *c, const struct options *o,
                     struct job *job)
{
    facc_error err = FACC_ERROR_INIT;
    facc_options options = FACC_OPTIONS_INIT;
    options.cpu_threads = o->threads;
    if (o->n_positional > 1)
        return cli_usage(c, "one FILE.lua at most, got '%s' too",
                         o->positional[1]);
    if (o->file && (o->score || o->mask))
        return cli_usage(c, "give either a file or --score/--mask, not both");
    if (facc_ctx_create(&job->ctx, &options, &err))
        return cli_fail_facc(&err);
    if (!o->file)
        return load_expressions(o, job);
    if (facc_program_load_file(&job->program, job->ctx, o->file, &err))
        return cli_fail_facc(&err);
    cli_warn(job->program);
    return EXIT_OK;
}

/* --- Q, K, V ------------------------------------------------------------- */

/* splitmix64, then Box-Muller: the same inputs on every machine up to libm's
 * last bit, whatever the dtype. */
static double uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return ((double)(z >> 11) + 0.5) * 0x1p-53;
}

static void fill_normal(facc_tensor *t, uint64_t seed)
{
    size_t n = tensor_count(t);
    float *x = cli_alloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i += 2) {
        double r = sqrt(-2 * log(uniform(&seed)));
        double a = 6.283185307179586 * uniform(&seed);
        x[i] = (float)(r * cos(a));
        x[i + 1] = (float)(r * sin(a));
    }
    facc_convert(t->dtype, t->data, FACC_F32, x, n);
    free(x);
}

static int load_qkv(const struct command *c, const struct options *o,
                    struct job *job)
{
    facc_tensor *t[3] = {&job->args.q, &job->args.k, &job->args.v};
    const char *path[3] = {o->q, o->k, o->v};
    static const char *const name[3] = {"q", "k", "v"};
    struct array a[3]; /* the data is the job's at once, which frees it */
    facc_dtype dtype = o->per ? (facc_dtype)0 : o->dtype; /* fp8.c rounds */
    for (int i = 0; i < 3; i++) {
        if (!path[i])
            return cli_usage(c, "--%s FILE.npy is missing (or --random ...)",
                             name[i]);
        int rc = read_array(path[i], &a[i]);
        *t[i] = a[i].t;
        if (rc)
            return rc;
        if (!is_float(a[i].t.dtype))
            return cli_fail("%s: holds %s; Q, K and V are floats (raw bit "
                            "patterns: say %s:bf16)",
                            path[i], facc_dtype_name(a[i].t.dtype), path[i]);
    }
    if (!dtype) /* the files' own, where the device runs it */
        dtype = a[0].t.dtype == FACC_F64 ? FACC_F32 : a[0].t.dtype;
    if (!o->dtype && !o->per && job->device >= 0 && dtype == FACC_F32)
        dtype = FACC_BF16;
    for (int i = 0; i < 3; i++) {
        int rc = convert_array(path[i], &a[i], dtype);
        *t[i] = a[i].t;
        if (rc)
            return rc;
    }
    return EXIT_OK;
}

static void random_qkv(const struct options *o, struct job *job)
{
    facc_dtype dtype = o->per             ? FACC_F32
                       : o->dtype         ? o->dtype
                       : job->device >= 0 ? FACC_BF16
                                          : FACC_F32;
    job->args.q =
        new_tensor("q", dtype, 4, (int64_t[]){o->B, o->H, o->Sq, o->D});
    job->args.k =
        new_tensor("k", dtype, 4, (int64_t[]){o->B, o->Hkv, o->Skv, o->D});
    job->args.v =
        new_tensor("v", dtype, 4, (int64_t[]){o->B, o->Hkv, o->Skv, o->Dv});
    fill_normal(&job->args.q, o->seed * 3 + 1);
    fill_normal(&job->args.k, o->seed * 3 + 2);
    fill_normal(&job->args.v, o->seed * 3 + 3);
}

/* --- captured tensors and params ------------------------------------------ */

static int find_named(const struct named_text *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return i;
    return -1;
}

static int load_tensors(const struct options *o, struct job *job)
{
    int n = facc_program_tensor_count(job->program);
    job->tensors = cli_alloc((size_t)n * sizeof *job->tensors);
    job->args.tensors = job->tensors;
    job->args.n_tensors = n;
    for (int i = 0; i < n; i++) {
        facc_declared d;
        facc_program_tensor(job->program, i, &d);
        int at = find_named(o->tensors, o->n_tensors, d.name);
        if (at < 0)
            return cli_fail("the mod captures tensor '%s' (%s, rank %d): "
                            "give --tensor %s=FILE.npy",
                            d.name, facc_dtype_name(d.dtype), d.rank, d.name);
        char what[CLI_ITEM + 32];
        struct array a;
        snprintf(what, sizeof what, "--tensor %.*s", CLI_ITEM, d.name);
        int rc = read_array(o->tensors[at].value, &a);
        if (!rc)
            rc = convert_array(what, &a, d.dtype);
        job->tensors[i] = a.t;
        if (rc)
            return rc;
    }
    return EXIT_OK;
}

static int load_params(const struct options *o, struct job *job)
{
    int n = facc_program_param_count(job->program);
    job->params = cli_alloc((size_t)n * sizeof *job->params);
    for (int i = 0; i < n; i++) {
        facc_declared d;
        facc_program_param(job->program, i, &d);
        int at = find_named(o->params, o->n_params, d.name);
        if (at < 0)
            return cli_fail("the mod takes the param '%s' (%s): give --param "
                            "%s=VALUE",
                            d.name, facc_dtype_name(d.dtype), d.name);
        const char *text = o->params[at].value;
        bool ok = d.dtype == FACC_F32
                      ? cli_parse_double(text, &job->params[i].f)
                      : cli_parse_int(text, &job->params[i].i) &&
                            in_range(d.dtype, job->params[i].i);
        if (!ok)
            return cli_fail("param '%s' is %s: '%s' is none", d.name,
                            facc_dtype_name(d.dtype), text);
    }
    job->args.params = job->params;
    job->args.n_params = n;
    return EXIT_OK;
}

/* Names that the program does not declare are mistakes. */
static int refuse_unknown(const struct options *o, const struct job *job)
{
    for (int kind = 0; kind < 2; kind++) {
        const struct named_text *list = kind ? o->params : o->tensors;
        int n = kind ? o->n_params : o->n_tensors;
        int known = kind ? facc_program_param_count(job->program)
                         : facc_program_tensor_count(job->program);
        for (int i = 0; i < n; i++) {
            bool found = false;
            facc_declared d;
            for (int j = 0; j < known && !found; j++) {
                if (kind)
                    facc_program_param(job->program, j, &d);
                else
                    facc_program_tensor(job->program, j, &d);
                found = !strcmp(d.name, list[i].name);
            }
            if (!found)
                return cli_fail("the mod declares no %s '%s'",
                                kind ? "param" : "tensor", list[i].name);
        }
    }
    return EXIT_OK;
}

/* --- device ------------------------------------------------------------- */

static int choose_device(const struct command *c, const struct options *o,
                         struct job *job)
{
    facc_error err = FACC_ERROR_INIT;
    facc_system_info sys = FACC_SYSTEM_INFO_INIT;
    const char *want = o->device;
    int64_t ordinal = 0;
    job->device = -1;
    snprintf(job->device_name, sizeof job->device_name, "CPU");
    if (want && !strcmp(want, "cpu"))
        return EXIT_OK;
    if (want && strcmp(want, "gpu") != 0 &&
        (strncmp(want, "gpu:", 4) != 0 || !cli_parse_int(want + 4, &ordinal)))
        return cli_usage(c, "--device is cpu, gpu or gpu:N, got '%s'", want);
    if (facc_system(job->ctx, &sys, &err))
        return cli_fail_facc(&err);
    if (sys.device_count == 0 && !want)
        return EXIT_OK;
    if (ordinal < 0 || ordinal >= sys.device_count)
        return cli_fail("--device %s: %s", want,
                        sys.device_count   ? "there is no such GPU"
                        : sys.driver_found ? "the driver sees no GPU"
                                           : sys.driver_error);
    facc_device_info info = FACC_DEVICE_INFO_INIT;
    if (facc_device_info_get(job->ctx, (int)ordinal, &info, &err))
        return cli_fail_facc(&err);
    job->device = (int)ordinal;
    snprintf(job->device_name, sizeof job->device_name, "%s (sm_%d)", info.name,
             info.arch);
    return EXIT_OK;
}

void job_outputs(struct job *job, facc_dtype o_dtype, facc_dtype lse_dtype)
{
    const facc_tensor *q = &job->args.q, *v = &job->args.v;
    int64_t shape[4] = {q->shape[0], q->shape[1], q->shape[2], v->shape[3]};
    job->args.o = new_tensor("o", o_dtype, 4, shape);
    job->args.lse = new_tensor("lse", lse_dtype, 3, shape);
}

void job_free_outputs(facc_args *a)
{
    free(a->o.data);
    free(a->lse.data);
}

static int load_sinks(const struct options *o, struct job *job)
{
    if (!o->sinks)
        return EXIT_OK;
    int rc = read_array(o->sinks, &job->sinks);
    if (!rc)
        rc = convert_array("--sinks", &job->sinks, FACC_F32);
    job->args.sinks = &job->sinks.t;
    job->variant.sinks = 1;
    return rc;
}

static int set_dropout(const struct command *c, const struct options *o,
                       struct job *job)
{
    facc_args *a = &job->args;
    if (!o->dropout) {
        if (o->dropout_seed || o->dropout_offset)
            return cli_usage(c, "--dropout-seed and --dropout-offset are of "
                                "--dropout P");
        return EXIT_OK;
    }
    if (!cli_parse_double(o->dropout, &a->dropout_p) ||
        !(a->dropout_p >= 0 && a->dropout_p < 1))
        return cli_usage(c,
                         "--dropout wants a probability, at least 0 and below "
                         "1, got '%s'",
                         o->dropout);
    a->dropout_seed = o->dropout_seed;
    a->dropout_offset = o->dropout_offset;
    job->variant.dropout = 1;
    return EXIT_OK;
}

int job_captures(const struct options *o, struct job *job)
{
    int rc = refuse_unknown(o, job);
    if (!rc)
        rc = load_tensors(o, job);
    return rc ? rc : load_params(o, job);
}

/* Packed tokens, [T, H, D], as [1, H, T, D]. */
static void heads_first(facc_tensor *t)
{
    const int64_t rows = t->shape[0], heads = t->shape[1], dim = t->shape[2];
    t->rank = 4;
    const int64_t shape[4] = {1, heads, rows, dim};
    const int64_t stride[4] = {rows * heads * dim, dim, heads * dim, 1};
    memcpy(t->shape, shape, sizeof shape);
    memcpy(t->stride, stride, sizeof stride);
}

static int check_ranks(struct job *job)
{
    facc_args *a = &job->args;
    const bool packed = a->cu_seqlens_q != NULL;
    const int rank = a->q.rank;
    if ((rank != 4 && !(rank == 3 && packed)) || a->k.rank != rank ||
        a->v.rank != rank)
        return cli_fail(
            "Q, K and V have four dimensions, %s; got rank %d, %d, %d",
            packed ? "[1, H, T, D], or packed [T, H, D]" : "[B, H, S, D]",
            a->q.rank, a->k.rank, a->v.rank);
    job->tokens_first = rank == 3;
    if (job->tokens_first) {
        heads_first(&a->q);
        heads_first(&a->k);
        heads_first(&a->v);
    }
    return EXIT_OK;
}

int job_prepare(const struct command *c, const struct options *o,
                struct job *job)
{
    *job = (struct job){.args = FACC_ARGS_INIT, .variant = FACC_VARIANT_INIT};
    if (o->dtypes && !o->dtype)
        return cli_usage(c, "one --dtype, got '%s'", o->dtypes);
    int rc = set_dropout(c, o, job);
    if (!rc)
        rc = job_load_program(c, o, job);
    if (!rc)
        rc = choose_device(c, o, job);
    if (!rc && !o->has_shape)
        rc = load_qkv(c, o, job);
    if (rc)
        return rc;
    if (o->has_shape)
        random_qkv(o, job);
    rc = job_captures(o, job);
    if (!rc)
        rc = load_sinks(o, job);
    if (!rc)
        rc = sequences_load(c, o, job);
    if (!rc)
        rc = check_ranks(job);
    if (!rc)
        rc = sequences_fit(job);
    if (!rc)
        rc = fp8_load(c, o, job);
    if (rc)
        return rc;
    job->args.scale = o->scale;
    if (o->has_scale && o->scale == 0)
        return cli_fail("--scale 0 makes every score 0 before the mod; write "
                        "a score_mod that ignores the score instead");
    facc_dtype dtype = job->args.q.dtype;
    job_outputs(job, dtype == FACC_F16 ? FACC_F16 : FACC_F32, FACC_F32);
    job->variant.dtype = dtype;
    job->variant.out_dtype = job->args.o.dtype;
    job->variant.head_dim = (int32_t)job->args.q.shape[3];
    job->variant.head_dim_v = (int32_t)job->args.v.shape[3];
    job->variant.device = job->device < 0 ? 0 : job->device;
    job->variant.check_bounds = o->check_bounds;
    job->variant.packed = job->args.cu_seqlens_q != NULL;
    job->variant.layout = FACC_LAYOUT_ALIGNED; /* all memory is our own */
    job->variant.family = o->family;
    return EXIT_OK;
}

void job_finish(struct job *job)
{
    facc_args *a = &job->args;
    free(a->q.data);
    free(a->k.data);
    free(a->v.data);
    job_free_outputs(a);
    for (int i = 0; i < a->n_tensors; i++)
        free(job->tensors[i].data);
    for (int i = 0; i < SEQ_ARRAYS; i++)
        free(job->sequences[i].t.data);
    free(job->sinks.t.data);
    for (int i = 0; i < FP8_ARRAYS; i++)
        free(job->fp8[i].t.data);
    for (int i = 0; i < 3; i++)
        free(job->originals[i].data);
    free(job->tensors);
    free(job->params);
    facc_program_free(job->program);
    facc_ctx_free(job->ctx);
}

int job_run_cpu(struct job *job, bool f64, double *seconds)
{
    facc_error err = FACC_ERROR_INIT;
    facc_cpu_options options = FACC_CPU_OPTIONS_INIT;
    options.f64 = f64;
    double start = cli_now();
    if (facc_cpu_attention(job->ctx, job->program, &job->args, &options, &err))
        return cli_fail_facc(&err);
    *seconds = cli_now() - start;
    return EXIT_OK;
}

int job_run_gpu(struct job *job, double *milliseconds, facc_kernel_info *info)
{
    struct gpu_job g;
    facc_error err = FACC_ERROR_INIT;
    int rc = gpu_prepare(job, &g);
    if (!rc && facc_timer_begin(g.timer, &err))
        rc = cli_fail_facc(&err);
    if (!rc)
        rc = gpu_launch(&g);
    if (!rc && facc_timer_end(g.timer, milliseconds, &err))
        rc = cli_fail_facc(&err);
    if (!rc && job->variant.check_bounds &&
        facc_kernel_bounds_report(g.kernel, job->device, &err))
        rc = cli_fail_facc(&err);
    if (!rc)
        rc = gpu_fetch(&g);
    if (!rc)
        facc_kernel_get_info(g.kernel, info);
    gpu_finish(&g);
    return rc;
}

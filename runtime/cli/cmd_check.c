/* facc check: the kernel (or the CPU path) against the f64 oracle. In:
 * options of a job. Out: errors and verdict on stdout; exit code 1 over a
 * limit. */
#include "runtime/cli/cli.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: facc check [FILE.lua] --random B,H,Hkv,Sq,Skv,D[,Dv] [options]\n"
    "       facc check [FILE.lua] --q Q.npy --k K.npy --v V.npy [options]\n"
    "\n"
    "Runs the program on the chosen device and in double precision on the\n"
    "CPU, on the same rounded inputs, and reports the errors. Takes the input\n"
    "options of facc run. Exit code 1 when an error is over its limit.\n"
    "\n"
    "  error of O    |O - oracle| / |oracle| over all elements; limit f32\n"
    "                1e-5, f16 1e-3, bf16 8e-3, FP8 8e-2\n"
    "  error of LSE  |LSE - oracle| / max(1, |oracle|), worst row; limit\n"
    "                1e-5, FP8 5e-3\n"
    "  --lse-limit X another limit: 2e-4 for a mod that uses tanh_fast\n"
    "  --per G --dtype e4m3   rounds the float inputs to FP8 first, one scale\n"
    "                per tensor, head or G rows (facc quantize); the errors\n"
    "                above are then the kernel's, and two more are told:\n"
    "                of rounding (the oracle on FP8 against the oracle on the\n"
    "                floats) and of both. --hadamard, --centre-v as in facc "
    "run\n"
    "  --check-bounds   as in facc run\n"
    "  --json        for machines\n"
    "\n"
    "example: facc check examples/alibi_window.lua \\\n"
    "                    --random 1,9,3,512,512,64 \\\n"
    "             --tensor slopes=examples/data/slopes.npy --param "
    "window=128\n";

static const char *const allowed[] = {JOB_OPTIONS, "check-bounds", "lse-limit",
                                      NULL};

struct errors {
    double o_relative; /* |O - ref| / |ref|, Frobenius */
    double o_worst;    /* largest |O - ref| */
    int64_t worst_at[4];
    double lse_worst; /* |LSE - ref| / max(1, |ref|) */
    int64_t bad;      /* NaN or infinity where the oracle has none */
    bool split;       /* --per: there are originals; relative errors: */
    double rounding;  /* of the oracle on FP8 against that on the originals */
    double both;      /* of O against the latter */
};

static double load(const facc_tensor *t, size_t i)
{
    double v;
    facc_convert(FACC_F64, &v, t->dtype,
                 (const char *)t->data + i * facc_dtype_size(t->dtype), 1);
    return v;
}

/* The worst element so far is element i. */
static void set_worst(struct errors *e, double d, const facc_tensor *o,
                      size_t i)
{
    e->o_worst = d;
    for (int k = 4; k-- > 0; i /= (size_t)o->shape[k])
        e->worst_at[k] = (int64_t)(i % (size_t)o->shape[k]);
}

static void compare_o(const facc_tensor *got, const facc_tensor *ref,
                      struct errors *e)
{
    double diff2 = 0, ref2 = 0;
    const size_t n = tensor_bytes(ref) / sizeof(double);
    for (size_t i = 0; i < n; i++) {
        double g = load(got, i), r = ((double *)ref->data)[i];
        double d = fabs(g - r);
        if (!isfinite(g) && isfinite(r)) {
            e->bad++;
            continue;
        }
        if (isnan(r))
            continue;
        diff2 += d * d;
        ref2 += r * r;
        if (d > e->o_worst)
            set_worst(e, d, ref, i);
    }
    e->o_relative = ref2 > 0 ? sqrt(diff2 / ref2) : sqrt(diff2);
}

static void compare_lse(const facc_tensor *got, const facc_tensor *ref,
                        struct errors *e)
{
    const size_t n = tensor_bytes(ref) / sizeof(double);
    for (size_t i = 0; i < n; i++) {
        double g = load(got, i), r = ((double *)ref->data)[i];
        if (g == r || isnan(r))
            continue;
        double d = isfinite(g) && isfinite(r) ? fabs(g - r) / fmax(1, fabs(r))
                                              : INFINITY;
        e->lse_worst = fmax(e->lse_worst, d);
    }
}

/* ref: of the inputs as rounded. */
static int compare_originals(struct job *job, const facc_tensor *got,
                             struct errors *e)
{
    facc_args *a = &job->args;
    facc_tensor *const inputs[3] = {&a->q, &a->k, &a->v};
    const facc_args rounded = *a;
    struct errors of_rounding = {.bad = 0}, of_both = {.bad = 0};
    double t;
    if (!job->originals[0].data)
        return EXIT_OK;
    for (int i = 0; i < 3; i++)
        *inputs[i] = job->originals[i];
    for (int i = 0; i < FP8_ARRAYS; i++)
        fp8_set(a, (enum fp8_array)i, NULL);
    job_outputs(job, FACC_F64, FACC_F64);
    const int rc = job_run_cpu(job, true, &t);
    if (!rc) {
        compare_o(&rounded.o, &a->o, &of_rounding);
        compare_o(got, &a->o, &of_both);
    }
    job_free_outputs(a);
    *a = rounded;
    e->split = true;
    e->rounding = of_rounding.o_relative;
    e->both = of_both.o_relative;
    return rc;
}

static double o_limit(facc_dtype t)
{
    switch (t) {
    case FACC_F32:
        return 1e-5;
    case FACC_F16:
        return 1e-3;
    case FACC_BF16:
        return 8e-3;
    case FACC_E4M3:
    case FACC_E5M2:
    case FACC_I8:
    case FACC_U8:
    case FACC_I16:
    case FACC_I32:
    case FACC_I64:
    case FACC_BOOL:
    case FACC_F64:
        break;
    }
    return 8e-2;
}

static double lse_limit(const struct options *o, facc_dtype t)
{
    const bool fp8 = t == FACC_E4M3 || t == FACC_E5M2;
    return o->lse_limit > 0 ? o->lse_limit : fp8 ? 5e-3 : 1e-5;
}

/* family: of the kernel, "" on the CPU. */
static int report(const struct options *o, const struct job *job,
                  const struct errors *e, bool passed, double limit,
                  const char *family)
{
    if (!o->json) {
        printf("device        %s%s%s\n", job->device_name,
               family[0] ? ", kernel family " : "", family);
        printf("error of O    %.3g (limit %.3g); worst element %.3g at "
               "[%lld, %lld, %lld, %lld]\n",
               e->o_relative, limit, e->o_worst, (long long)e->worst_at[0],
               (long long)e->worst_at[1], (long long)e->worst_at[2],
               (long long)e->worst_at[3]);
        printf("error of LSE  %.3g (limit %.3g)\n", e->lse_worst,
               lse_limit(o, job->args.q.dtype));
        if (e->split)
            printf("of rounding   %.3g\nof both       %.3g\n", e->rounding,
                   e->both);
        if (e->bad)
            printf("not finite    %lld elements\n", (long long)e->bad);
        puts(passed ? "passed" : "FAILED");
        return EXIT_OK;
    }
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "device", job->device_name);
    cJSON_AddNumberToObject(j, "o_error", e->o_relative);
    cJSON_AddNumberToObject(j, "o_worst", e->o_worst);
    cJSON_AddNumberToObject(j, "o_limit", limit);
    cJSON_AddNumberToObject(j, "lse_error",
                            isfinite(e->lse_worst) ? e->lse_worst : 1e300);
    cJSON_AddNumberToObject(j, "lse_limit", lse_limit(o, job->args.q.dtype));
    cJSON_AddNumberToObject(j, "not_finite", (double)e->bad);
    if (e->split) {
        cJSON_AddNumberToObject(j, "rounding_error", e->rounding);
        cJSON_AddNumberToObject(j, "both_errors", e->both);
    }
    cJSON_AddBoolToObject(j, "passed", passed);
    if (family[0])
        cJSON_AddStringToObject(j, "family", family);
    return cli_print_json(j);
}

static int run(int argc, char **argv)
{
    struct options o;
    struct job job;
    struct errors e = {.bad = 0};
    facc_kernel_info info = FACC_KERNEL_INFO_INIT;
    double t;
    int rc = options_parse(&command_check, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    rc = job_prepare(&command_check, &o, &job);
    if (!rc)
        rc = job.device >= 0 ? job_run_gpu(&job, &t, &info)
                             : job_run_cpu(&job, false, &t);
    if (rc) {
        job_finish(&job);
        return rc;
    }
    facc_args got = job.args;
    job_outputs(&job, FACC_F64, FACC_F64);
    rc = job_run_cpu(&job, true, &t);
    if (!rc)
        rc = compare_originals(&job, &got.o, &e);
    if (!rc) {
        double limit = o_limit(job.args.q.dtype);
        compare_o(&got.o, &job.args.o, &e);
        compare_lse(&got.lse, &job.args.lse, &e);
        bool passed = e.o_relative <= limit &&
                      e.lse_worst <= lse_limit(&o, job.args.q.dtype) && !e.bad;
        rc = report(&o, &job, &e, passed, limit, info.launched);
        if (!rc && !passed)
            rc = EXIT_FAILED;
    }
    job_free_outputs(&got);
    job_finish(&job);
    return rc;
}

const struct command command_check = {
    "check", "compare the kernel or the CPU path with the f64 oracle", help,
    run};

/* facc bench: times a program on random inputs, or facc's own variants over
 * lengths. In: options. Out: a table or JSON on stdout, CSV, a picture. */
#include "runtime/cli/bench.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: facc bench [options]\n"
    "       facc bench [FILE.lua] --random B,H,Hkv,Sq,Skv,D[,Dv] [options]\n"
    "\n"
    "Without a program and inputs: a table of facc's own variants (full,\n"
    "causal, ALiBi, softcap, window, 16 documents) over lengths, in TFLOP/s "
    "of\n"
    "the cells that count. The variants of a length take turns; on a GPU each\n"
    "measurement is a burst of 8 ms after a pause of 20 ms, so that the card\n"
    "stays below its power limit. On the CPU the sizes are small.\n"
    "\n"
    "  --lengths LIST  --head-dim D  --dtype T  --rounds N (default 7)\n"
    "  --device cpu|gpu|gpu:N  --threads N  --json\n"
    "  --csv FILE      one line for each variant and length\n"
    "  --picture FILE  SVG: speed over length, a line for each variant\n"
    "  --peers         then compares with PyTorch's cuDNN and FlexAttention\n"
    "                  kernels, if FACC_PYTHON (or python3) imports torch; "
    "with\n"
    "                  --csv into FILE_peers.csv\n"
    "  --roofline      what the machine allows at best, what limits it, and "
    "how\n"
    "                  much of that was reached; --picture then draws the\n"
    "                  roofline. On the CPU the roofs are measured first.\n"
    "  --gpu NAME      the rates of H200, H100 ... instead of this GPU's\n"
    "\n"
    "With a program or inputs: median time of one call over --rounds rounds\n"
    "(default 20), after warm-up calls (GPU three, CPU one), and what it "
    "comes\n"
    "to: TFLOP/s with every cell counted, and the bytes of Q, K, V, O and LSE\n"
    "over the time. On a GPU each call makes the mask's schedule anew, if it\n"
    "has one. Takes the input options of facc run.\n"
    "\n"
    "  --rounds N   --json   --roofline (see also facc explain --random)\n"
    "\n"
    "example: facc bench --csv bench.csv --picture bench.svg\n"
    "example: facc bench --lengths 1024,4096,16384 --head-dim 64 --peers\n"
    "example: facc bench --mask 'q >= kv' --random 2,16,16,8192,8192,128 \\\n"
    "                    --roofline --picture roofline.svg\n";

static const char *const allowed[] = {
    JOB_OPTIONS, "rounds", "lengths",  "head-dim", "csv",
    "picture",   "peers",  "roofline", "gpu",      NULL};

struct timing {
    double *ms; /* sorted */
    int n;
};

static int time_cpu(struct job *job, struct timing *t)
{
    for (int i = -1; i < t->n; i++) {
        double s;
        int rc = job_run_cpu(job, false, &s);
        if (rc)
            return rc;
        if (i >= 0)
            t->ms[i] = s * 1e3;
    }
    return EXIT_OK;
}

static int time_gpu(struct job *job, struct timing *t, facc_kernel_info *info)
{
    struct gpu_job g;
    facc_error err = FACC_ERROR_INIT;
    int rc = gpu_prepare(job, &g);
    for (int i = -3; i < t->n && !rc; i++) {
        double ms;
        if (facc_timer_begin(g.timer, &err))
            rc = cli_fail_facc(&err);
        if (!rc)
            rc = gpu_launch(&g);
        if (!rc && facc_timer_end(g.timer, &ms, &err))
            rc = cli_fail_facc(&err);
        if (!rc && i >= 0)
            t->ms[i] = ms;
    }
    if (!rc)
        facc_kernel_get_info(g.kernel, info);
    gpu_finish(&g);
    return rc;
}

static double bytes_moved(const facc_args *a)
{
    return (double)(tensor_bytes(&a->q) + tensor_bytes(&a->k) +
                    tensor_bytes(&a->v) + tensor_bytes(&a->o) +
                    tensor_bytes(&a->lse));
}

/* r NULL: none is asked for. */
static int report(const struct options *o, const struct job *job,
                  const struct timing *t, const facc_kernel_info *info,
                  const struct roof *r)
{
    double median = t->ms[t->n / 2];
    double tflops = attention_flops(&job->args) / median * 1e-9;
    double gbs = bytes_moved(&job->args) / median * 1e-6;
    if (!o->json) {
        printf("device    %s%s%s\n", job->device_name,
               job->device >= 0 ? ", kernel family " : "", info->family);
        printf("%10s %10s %10s %10s %10s\n", "median ms", "min ms", "max ms",
               "TFLOP/s", "GB/s");
        printf("%10.4f %10.4f %10.4f %10.2f %10.2f\n", median, t->ms[0],
               t->ms[t->n - 1], tflops, gbs);
        if (r)
            roof_print(r);
        return EXIT_OK;
    }
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "device", job->device_name);
    cJSON_AddNumberToObject(j, "rounds", t->n);
    cJSON_AddNumberToObject(j, "median_ms", median);
    cJSON_AddNumberToObject(j, "min_ms", t->ms[0]);
    cJSON_AddNumberToObject(j, "max_ms", t->ms[t->n - 1]);
    cJSON_AddNumberToObject(j, "tflops", tflops);
    cJSON_AddNumberToObject(j, "gbytes_per_second", gbs);
    if (r)
        cJSON_AddItemToObject(j, "roofline", roof_json(r));
    return cli_print_json(j);
}

static int roofline(const struct options *o, struct job *job, double ms,
                    struct roof *r)
{
    if (job->device < 0) /* no kernel: the arrays' own dtypes */
        job->variant.dtype = job->args.q.dtype;
    if (job->device < 0)
        job->variant.out_dtype = job->args.o.dtype;
    snprintf(r->label, sizeof r->label, "%.60s",
             o->file    ? o->file
             : o->mask  ? o->mask
             : o->score ? o->score
                        : "attention");
    return roof_make(&command_bench, o, job, ms * 1e-3, r);
}

/* One program on inputs of its own. */
static int bench_program(const struct options *o)
{
    struct job job;
    facc_kernel_info info = FACC_KERNEL_INFO_INIT;
    int rc = job_prepare(&command_bench, o, &job);
    if (rc) {
        job_finish(&job);
        return rc;
    }
    if (job.device >= 0) { /* O as a framework has it */
        job_free_outputs(&job.args);
        job_outputs(&job, job.variant.dtype, FACC_F32);
        job.variant.out_dtype = job.variant.dtype;
    }
    struct roof r = {.measured = 0};
    struct timing t = {.n = o->rounds ? o->rounds : 20};
    t.ms = cli_alloc((size_t)t.n * sizeof *t.ms);
    rc = job.device >= 0 ? time_gpu(&job, &t, &info) : time_cpu(&job, &t);
    if (!rc) {
        qsort(t.ms, (size_t)t.n, sizeof *t.ms, cli_compare_double);
        if (o->roofline)
            rc = roofline(o, &job, t.ms[t.n / 2], &r);
        if (!rc)
            rc = report(o, &job, &t, &info, o->roofline ? &r : NULL);
        if (!rc && o->picture)
            rc = roof_write_svg(&r, 1, o->picture);
    }
    free(t.ms);
    job_finish(&job);
    return rc;
}

/* facc's own variants over lengths, and beside others. */
static int bench_table(const struct options *o)
{
    struct bench_table *t = cli_alloc(sizeof *t);
    int rc = bench_sweep(&command_bench, o, t);
    if (!rc)
        rc = bench_report(o, t);
    if (!rc && o->roofline && !o->json)
        roof_print_table(t->roofs, t->n_roofs);
    if (!rc && o->peers)
        rc = bench_peers(o, t->device_index);
    free(t);
    return rc;
}

static int run(int argc, char **argv)
{
    struct options o;
    int rc = options_parse(&command_bench, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    bool sequences = false;
    for (int i = 0; i < SEQ_ARRAYS; i++)
        sequences |= o.sequences[i] != NULL;
    const bool program = o.file || o.score || o.mask || o.q || o.k || o.v ||
                         o.has_shape || o.n_tensors || o.n_params ||
                         o.has_scale || o.sinks || o.dropout || sequences;
    if (o.gpu && !o.roofline)
        return cli_usage(&command_bench, "--gpu is of --roofline");
    if (program && (o.lengths || o.head_dims || o.csv || o.peers ||
                    (o.picture && !o.roofline)))
        return cli_usage(&command_bench,
                         "--lengths, --head-dim, --csv, --picture and --peers "
                         "are of the table, which has no program and inputs "
                         "(--picture also of --roofline)");
    if (o.peers && o.json)
        return cli_usage(&command_bench,
                         "--peers prints tables: not with --json");
    return program ? bench_program(&o) : bench_table(&o);
}

const struct command command_bench = {
    "bench", "time a program, or a table of variants", help, run};

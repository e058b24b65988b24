/* facc run: one attention call, .npy in and out. In: options of a job. Out:
 * .npy files, numbers on stdout. */
#include "runtime/cli/cli.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: facc run [FILE.lua] --q Q.npy --k K.npy --v V.npy -o O.npy\n"
    "       facc run --mask EXPR [--score EXPR] --random B,H,Hkv,Sq,Skv,D ...\n"
    "\n"
    "Runs attention with the mods of FILE.lua (or of one-line expressions, or\n"
    "with none) on the GPU if there is one, else on the CPU.\n"
    "\n"
    "  --q --k --v FILE.npy   [B, H, Sq, D], [B, Hkv, Skv, D] and\n"
    "                         [B, Hkv, Skv, Dv]; FILE.npy:bf16 names the\n"
    "                         type of raw 16-bit files\n"
    "  --random B,H,Hkv,Sq,Skv,D[,Dv]  normal random inputs; --seed N\n"
    "  --score EXPR, --mask EXPR       over score, b, h, q, kv and what the\n"
    "                         next two name\n"
    "  --tensor NAME=FILE.npy, --param NAME=VALUE   what the mods capture\n"
    "  --cu-seqlens-q A.npy, --cu-seqlens-kv B.npy   packed sequences, one\n"
    "                         behind the other: [n + 1] offsets; Q is then\n"
    "                         [1, H, Tq, D] or [Tq, H, D], b the sequence\n"
    "  --seqused-q U.npy, --seqused-kv U.npy   [B] used lengths\n"
    "  --sinks S.npy          attention sinks, [H]: a logit of each query "
    "head\n"
    "                         that joins the softmax and has no value\n"
    "  --dropout P            sets weights to 0 with probability P, and "
    "the\n"
    "                         others by 1 / (1 - P) larger; --dropout-seed N,\n"
    "                         --dropout-offset N (default 0) say which\n"
    "  --descale-q D.npy, --descale-k, --descale-v   FP8: what Q, K and V are\n"
    "                         multiplied by: one number, [B, Hkv] (Q also\n"
    "                         [B, H]) or [B, Hkv, blocks] of --descale-block "
    "N\n"
    "                         rows\n"
    "  --v-mean M.npy         FP8: is added to V, [B, Hkv, D]\n"
    "  --v-image I.npy:e4m3   FP8: V transposed, as facc quantize writes it\n"
    "  --per tensor|head|N --dtype e4m3   rounds float inputs to FP8 with a "
    "scale\n"
    "                         for all, each head or N rows; --hadamard "
    "spreads\n"
    "                         outliers of Q and K, --centre-v takes V's means\n"
    "  --exact-peaks          FP8 on the GPU: less error where few keys carry\n"
    "                         a row, in more time\n"
    "  --scale X              softmax scale; default 1/sqrt(D)\n"
    "  --dtype T              f32 f16 bf16 e4m3 e5m2 (FP8: NAME.npy:e4m3);\n"
    "                         default: the files' type, bf16 on the GPU\n"
    "                         where that is f32\n"
    "  --device cpu|gpu|gpu:N\n"
    "  --family sm80|sm90     GPU: another kernel family than the best\n"
    "  -o, --out O.npy        output, f16 for f16 inputs, else f32\n"
    "  --lse LSE.npy          log-sum-exp per row, f32\n"
    "  --check-bounds         checked debug build: report a read outside a\n"
    "                         tensor\n"
    "  --threads N            of the CPU path\n"
    "  --stats                shapes, time, TFLOP/s\n"
    "  --json                 the same for machines\n"
    "\n"
    "example: facc run --mask 'q >= kv and q - kv < 1024' \\\n"
    "                  --random 1,8,2,2048,2048,64 --stats\n";

static const char *const allowed[] = {JOB_OPTIONS, "out",          "lse",
                                      "stats",     "check-bounds", NULL};

static void print_stats(const struct job *job, double ms,
                        const facc_kernel_info *info)
{
    const facc_args *a = &job->args;
    printf("device    %s\n", job->device_name);
    printf("shape     B %lld  H %lld  Hkv %lld  Sq %lld  Skv %lld  D %lld  "
           "Dv %lld  %s\n",
           (long long)a->q.shape[0], (long long)a->q.shape[1],
           (long long)a->k.shape[1], (long long)a->q.shape[2],
           (long long)a->k.shape[2], (long long)a->q.shape[3],
           (long long)a->v.shape[3], facc_dtype_name(a->q.dtype));
    if (a->cu_seqlens_q)
        printf("packed    %d sequences, at most %d queries and %d keys long\n",
               a->n_seqs, a->max_seqlen_q, a->max_seqlen_kv);
    printf("time      %.3f ms\n", ms);
    printf("rate      %.2f TFLOP/s (all cells counted)\n",
           attention_flops(a) / ms * 1e-9);
    if (job->device >= 0)
        printf("mask      tier %s%s\n", info->tier,
               info->scheduled ? ", with a schedule" : "");
    if (job->device >= 0)
        printf("kernel    %s  tile %d x %d  %d warps  %d registers  %d spill "
               "bytes  from %s  %s\n",
               info->family, info->tile_m, info->tile_n, info->warps,
               info->registers, info->spill_bytes, info->source, info->key);
}

static int print_json(const struct job *job, double ms,
                      const facc_kernel_info *info)
{
    const facc_args *a = &job->args;
    cJSON *j = cJSON_CreateObject();
    static const char *const name[] = {"B", "H", "Sq", "D"};
    cJSON_AddStringToObject(j, "device", job->device_name);
    for (int i = 0; i < 4; i++)
        cJSON_AddNumberToObject(j, name[i], (double)a->q.shape[i]);
    cJSON_AddNumberToObject(j, "Hkv", (double)a->k.shape[1]);
    cJSON_AddNumberToObject(j, "Skv", (double)a->k.shape[2]);
    cJSON_AddNumberToObject(j, "Dv", (double)a->v.shape[3]);
    cJSON_AddStringToObject(j, "dtype", facc_dtype_name(a->q.dtype));
    if (a->cu_seqlens_q) {
        cJSON_AddNumberToObject(j, "n_seqs", a->n_seqs);
        cJSON_AddNumberToObject(j, "max_seqlen_q", a->max_seqlen_q);
        cJSON_AddNumberToObject(j, "max_seqlen_kv", a->max_seqlen_kv);
    }
    cJSON_AddNumberToObject(j, "milliseconds", ms);
    cJSON_AddNumberToObject(j, "tflops", attention_flops(a) / ms * 1e-9);
    if (job->device >= 0) {
        cJSON *k = cJSON_AddObjectToObject(j, "kernel");
        cJSON_AddStringToObject(k, "key", info->key);
        cJSON_AddStringToObject(k, "family", info->family);
        cJSON_AddStringToObject(k, "launched", info->launched);
        cJSON_AddStringToObject(k, "source", info->source);
        cJSON_AddNumberToObject(k, "registers", info->registers);
        cJSON_AddNumberToObject(k, "spill_bytes", info->spill_bytes);
        cJSON_AddStringToObject(k, "tier", info->tier);
        cJSON_AddBoolToObject(k, "scheduled", info->scheduled);
        cJSON_AddBoolToObject(k, "transposes_v", info->transposes_v);
    }
    return cli_print_json(j);
}

static int write_outputs(const struct options *o, const struct job *job)
{
    char why[512];
    facc_tensor out = job->args.o, lse = job->args.lse;
    if (job->tokens_first) { /* [T, H, Dv] and [H, T] */
        const int order[3] = {2, 1, 3};
        for (int d = 0; d < 3; d++) {
            out.shape[d] = job->args.o.shape[order[d]];
            out.stride[d] = job->args.o.stride[order[d]];
            lse.shape[d] = job->args.lse.shape[d < 2 ? d + 1 : 0];
            lse.stride[d] = job->args.lse.stride[d < 2 ? d + 1 : 0];
        }
        out.rank = 3;
        lse.rank = 2;
    }
    if (o->out && !npy_write(o->out, &out, why, sizeof why))
        return cli_fail("%s", why);
    if (o->lse && !npy_write(o->lse, &lse, why, sizeof why))
        return cli_fail("%s", why);
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct options o;
    struct job job;
    facc_kernel_info info = FACC_KERNEL_INFO_INIT;
    double ms = 0;
    int rc = options_parse(&command_run, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    if (o.out && o.lse && !strcmp(o.out, o.lse))
        return cli_usage(&command_run, "-o and --lse are both '%s'", o.out);
    if (!o.out && !o.lse && !o.stats && !o.json)
        return cli_usage(&command_run, "nothing to produce: give -o O.npy, "
                                       "--lse LSE.npy, --stats or --json");
    rc = job_prepare(&command_run, &o, &job);
    if (!rc && job.device >= 0) {
        rc = job_run_gpu(&job, &ms, &info);
    } else if (!rc) {
        rc = job_run_cpu(&job, false, &ms);
        ms *= 1e3;
    }
    if (!rc)
        rc = write_outputs(&o, &job);
    if (!rc && o.json)
        rc = print_json(&job, ms, &info);
    else if (!rc && o.stats)
        print_stats(&job, ms, &info);
    job_finish(&job);
    return rc;
}

const struct command command_run = {
    "run", "run attention on .npy files or random inputs", help, run};

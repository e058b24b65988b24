/* facc explain: what the compiler knows about a program, and the roofline of a
 * call. In: a program, one variant, maybe sizes. Out: text or JSON on stdout, a
 * picture. */
#include "runtime/cli/roofline.h"
#include "runtime/cli/variants.h"

#include <cjson/cJSON.h>
#include <stdio.h>

static const char help[] =
    "usage: facc explain [FILE.lua] [options]\n"
    "\n"
    "Scopes of every value (tile, row, column, diagonal, cell), affine forms,\n"
    "plain bounds of the mask, its tier (what must be known to skip tiles) "
    "and\n"
    "what put it there, and the kernel family and tile that would run.\n"
    "Compiles nothing. facc mask shows the tiles themselves.\n"
    "\n"
    "  --score EXPR, --mask EXPR, --tensor, --param   as in facc run\n"
    "  --dtype bf16   --head-dim 128 or 192/128   --arch 90   --json\n"
    "  --packed   --block-mask   --with-sinks   --with-dropout\n"
    "  --layout aligned   --family sm80   --per N   --centre-v   "
    "--transpose-v\n"
    "  --exact-peaks   --out-dtype f32\n"
    "  as in facc compile; with sizes, what facc run would choose for them is\n"
    "  chosen, too (--centre-v, --transpose-v)\n"
    "\n"
    "With sizes, the roofline of that call: cells that count, FLOP, bytes of\n"
    "device memory at best, arithmetic intensity and the ridge; how long\n"
    "tensor cores, exp unit, L2 and HBM need for their parts, and which of\n"
    "them is the limit. facc bench --roofline measures it.\n"
    "\n"
    "  --random B,H,Hkv,Sq,Skv,D[,Dv]   the sizes; captured tensors and "
    "params\n"
    "                  as in facc run, or every cell is counted\n"
    "  --cu-seqlens-q, --cu-seqlens-kv, --seqused-q, --seqused-kv FILE.npy\n"
    "  --gpu NAME      H200, H100, A100, B200 ...; default by --arch\n"
    "  --picture FILE  SVG\n"
    "\n"
    "example: facc explain examples/alibi.lua --head-dim 64\n"
    "example: facc explain --mask 'q >= kv' --random 2,16,16,8192,8192,128\n";

static const char *const allowed[] = {
    "score",        "mask",          "tensor",     "param",
    "dtype",        "head-dim",      "arch",       "json",
    "packed",       "block-mask",    "with-sinks", "per",
    "centre-v",     "with-dropout",  "layout",     "out-dtype",
    "family",       "random",        "gpu",        "picture",
    "cu-seqlens-q", "cu-seqlens-kv", "seqused-q",  "seqused-kv",
    "transpose-v",  "exact-peaks",   NULL};

/* --- the roofline of a call -------------------------------------------------
 */

static facc_tensor sized(facc_dtype t, int rank, int64_t b, int64_t h,
                         int64_t s, int64_t d)
{
    facc_tensor x = {.dtype = t, .rank = rank, .shape = {b, h, s, d}};
    int64_t n = 1;
    for (int i = rank; i-- > 0;) {
        x.stride[i] = n;
        n *= x.shape[i];
    }
    return x;
}

/* Q, K, V, O and LSE without memory. */
static void size_args(const struct options *o, struct job *job)
{
    const facc_variant *v = &job->variant;
    const facc_dtype out = v->out_dtype ? v->out_dtype : v->dtype;
    facc_args *a = &job->args;
    a->q = sized(v->dtype, 4, o->B, o->H, o->Sq, o->D);
    a->k = sized(v->dtype, 4, o->B, o->Hkv, o->Skv, o->D);
    a->v = sized(v->dtype, 4, o->B, o->Hkv, o->Skv, o->Dv);
    a->o = sized(out, 4, o->B, o->H, o->Sq, o->Dv);
    a->lse = sized(FACC_F32, 3, o->B, o->H, o->Sq, 1);
}

static int check_shape(const struct options *o)
{
    if (!o->has_shape && (o->gpu || o->picture))
        return cli_usage(&command_explain,
                         "--gpu and --picture are of the roofline: give the "
                         "sizes with --random");
    if (o->has_shape && o->head_dims)
        return cli_usage(&command_explain,
                         "--random has the head dims: no --head-dim");
    if (o->has_shape && (!o->H || !o->Hkv || !o->D || !o->Dv))
        return cli_usage(&command_explain,
                         "--random: heads and head dims are at least 1");
    return EXIT_OK;
}

/* Captured tensors that are not given: then the mask is not asked. */
static int roofline(const struct options *o, struct job *job, struct roof *r)
{
    const bool none = !o->n_tensors && !o->n_params;
    int rc = none && facc_program_tensor_count(job->program) +
                             facc_program_param_count(job->program) >
                         0
                 ? EXIT_OK
                 : job_captures(o, job);
    if (!rc)
        rc = sequences_load(&command_explain, o, job);
    if (rc)
        return rc;
    size_args(o, job);
    snprintf(r->label, sizeof r->label, "%.60s",
             o->file    ? o->file
             : o->mask  ? o->mask
             : o->score ? o->score
                        : "attention");
    return roof_make(&command_explain, o, job, 0, r);
}

/* The library's object, with one more field. */
static int print_json(const char *text, const struct roof *r)
{
    cJSON *j = cJSON_Parse(text);
    if (!j)
        return cli_fail("out of memory");
    cJSON_AddItemToObject(j, "roofline", roof_json(r));
    return cli_print_json(j);
}

static int explain(const struct options *o, struct job *job)
{
    struct roof r = {.measured = 0};
    facc_error err = FACC_ERROR_INIT;
    char *text;
    if (facc_program_explain(&text, job->ctx, job->program, &job->variant,
                             o->json, &err))
        return cli_fail_facc(&err);
    int rc = o->has_shape ? roofline(o, job, &r) : EXIT_OK;
    if (!rc && o->has_shape && o->json)
        rc = print_json(text, &r);
    else if (!rc) {
        fputs(text, stdout);
        if (o->has_shape)
            roof_print(&r);
    }
    facc_string_free(text);
    return !rc && o->picture ? roof_write_svg(&r, 1, o->picture) : rc;
}

static int run(int argc, char **argv)
{
    struct options o;
    struct job job = {.device = -1, .args = FACC_ARGS_INIT};
    int rc = options_parse(&command_explain, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    rc = check_shape(&o);
    if (!rc)
        rc = variants_single(&command_explain, &o, &job.variant);
    if (rc)
        return rc;
    if (o.has_shape) {
        job.variant.head_dim = (int32_t)o.D;
        job.variant.head_dim_v = (int32_t)o.Dv;
        job.variant.packed |= o.sequences[SEQ_CU_Q] != NULL;
        fp8_choose(&job.variant, job.variant.dtype, o.D, o.Sq * (o.H / o.Hkv),
                   o.Skv);
    }
    rc = job_load_program(&command_explain, &o, &job);
    if (!rc)
        rc = explain(&o, &job);
    job_finish(&job);
    return rc;
}

const struct command command_explain = {
    "explain", "print what the compiler knows about a program", help, run};

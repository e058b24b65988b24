/* What FP8 calls bring besides Q, K and V: read from files, or made here of
 * float tensors with --per. Called by job_prepare. */
#include "runtime/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_fp8(facc_dtype t)
{
    return t == FACC_E4M3 || t == FACC_E5M2;
}

void fp8_set(facc_args *a, enum fp8_array which, const facc_tensor *t)
{
    const facc_tensor **const to[FP8_ARRAYS] = {
        &a->descale_q, &a->descale_k, &a->descale_v, &a->v_mean, &a->v_image};
    *to[which] = t;
}

bool fp8_granularity(const struct command *c, const char *per, int *rank,
                     int *block)
{
    int64_t rows = 0;
    const bool blocks = cli_parse_int(per, &rows);
    *rank = blocks ? 3 : !strcmp(per, "head") ? 2 : 0;
    *block = (int)rows;
    if (*rank != 0 || !strcmp(per, "tensor"))
        if (!blocks || (rows > 0 && rows <= 1 << 30 && rows % 32 == 0))
            return true;
    cli_usage(c,
              "--per is tensor, head or a number of rows, a multiple of 32; "
              "got '%s'",
              per);
    return false;
}

/* ---- from files ---------------------------------------------------------- */

static int read_files(const struct options *o, struct job *job)
{
    const char *const path[FP8_ARRAYS] = {
        o->descales[0], o->descales[1], o->descales[2], o->v_mean, o->v_image};
    static const char *const name[FP8_ARRAYS] = {
        "--descale-q", "--descale-k", "--descale-v", "--v-mean", "--v-image"};
    for (int i = 0; i < FP8_ARRAYS; i++) {
        if (!path[i])
            continue;
        int rc = read_array(path[i], &job->fp8[i]);
        if (!rc && i != FP8_V_IMAGE)
            rc = convert_array(name[i], &job->fp8[i], FACC_F32);
        if (rc)
            return rc;
        fp8_set(&job->args, (enum fp8_array)i, &job->fp8[i].t);
    }
    job->args.descale_block_q = job->args.descale_block_kv = o->descale_block;
    return EXIT_OK;
}

/* ---- from floats --------------------------------------------------------- */

static void make_array(struct array *a, const char *name, facc_dtype t,
                       int rank, const int64_t *shape)
{
    a->t = new_tensor(name, t, rank, shape);
}

/* which: 0 Q, 1 K, 2 V. */
static int round_one(const struct options *o, struct job *job, int which,
                     int rank, int block)
{
    facc_tensor *const all[3] = {&job->args.q, &job->args.k, &job->args.v};
    const int32_t *const cu[2] = {job->args.cu_seqlens_q,
                                  job->args.cu_seqlens_kv};
    const int32_t longest[2] = {job->args.max_seqlen_q,
                                job->args.max_seqlen_kv};
    facc_error err = FACC_ERROR_INIT;
    facc_quantize_args a = FACC_QUANTIZE_ARGS_INIT;
    facc_tensor *t = all[which];
    const bool packed = cu[which > 0] != NULL;
    int64_t rows = t->shape[2];
    job->originals[which] = *t;
    *t = new_tensor("an FP8 tensor", o->dtype, 4, t->shape);
    a.in = job->originals[which];
    a.out = *t;
    a.block = block;
    a.power_of_two = which == 2;
    a.hadamard = which < 2 && o->hadamard;
    if (packed) {
        a.cu_seqlens = cu[which > 0];
        a.n_seqs = job->args.n_seqs;
        a.max_seqlen = longest[which > 0];
        rows = a.max_seqlen > 0 ? a.max_seqlen : rows;
    }
    const int64_t B = packed ? a.n_seqs : t->shape[0], H = t->shape[1];
    make_array(&job->fp8[which], "descales", FACC_F32, rank,
               (int64_t[]){B, H, block ? (rows + block - 1) / block : 1});
    a.scale = job->fp8[which].t;
    fp8_set(&job->args, (enum fp8_array)which, &job->fp8[which].t);
    if (which == 2 && o->centre_v) {
        make_array(&job->fp8[FP8_V_MEAN], "means", FACC_F32, 3,
                   (int64_t[]){B, H, t->shape[3]});
        a.mean = job->fp8[FP8_V_MEAN].t;
        fp8_set(&job->args, FP8_V_MEAN, &job->fp8[FP8_V_MEAN].t);
    }
    return facc_quantize(job->ctx, &a, &err) ? cli_fail_facc(&err) : EXIT_OK;
}

static int round_all(const struct command *c, const struct options *o,
                     struct job *job)
{
    int rank, block;
    if (!is_fp8(o->dtype))
        return cli_usage(c, "--per wants --dtype e4m3 or e5m2");
    for (int i = 0; i < 3; i++)
        if (o->descales[i] || o->v_mean || o->v_image)
            return cli_usage(c, "--per makes the descales: give no files of "
                                "them");
    if (!fp8_granularity(c, o->per, &rank, &block))
        return EXIT_USAGE;
    if (is_fp8(job->args.q.dtype) || is_fp8(job->args.k.dtype) ||
        is_fp8(job->args.v.dtype))
        return cli_fail("--per rounds floats, but the files are FP8 already");
    int rc = EXIT_OK;
    for (int i = 0; i < 3 && !rc; i++)
        rc = round_one(o, job, i, rank, block);
    job->args.descale_block_q = job->args.descale_block_kv = block;
    return rc;
}

void fp8_choose(facc_variant *v, facc_dtype dtype, int64_t head_dim,
                int64_t q_rows, int64_t keys)
{
    enum { CENTRED_BELOW = 4096 }; /* keys: as facc_variant.centred_v says */
    if (!is_fp8(dtype))
        return;
    v->centred_v |= keys < CENTRED_BELOW;
    v->transposes_v |= facc_transposes_v((int32_t)head_dim, q_rows);
}

/* Sequences of packed calls are about as long as each other. */
static int64_t q_rows(const facc_args *a)
{
    const int64_t heads = a->k.shape[1] > 0 ? a->k.shape[1] : 1;
    const int64_t parts = a->cu_seqlens_q && a->n_seqs > 0 ? a->n_seqs : 1;
    return a->q.shape[2] / parts * (a->q.shape[1] / heads);
}

int fp8_load(const struct command *c, const struct options *o, struct job *job)
{
    if (!o->per && (o->hadamard || o->centre_v))
        return cli_usage(c, "--hadamard and --centre-v go with --per");
    int rc = o->per ? round_all(c, o, job) : read_files(o, job);
    const facc_args *a = &job->args;
    const facc_tensor *const scales[3] = {a->descale_q, a->descale_k,
                                          a->descale_v};
    if (!rc && o->exact_peaks && !is_fp8(a->q.dtype))
        return cli_usage(c, "--exact-peaks is for e4m3 and e5m2");
    for (int i = 0; i < 3; i++)
        if (scales[i] && scales[i]->rank == 3)
            job->variant.block_scales = 1;
    job->variant.centred_v = a->v_mean != NULL;
    job->variant.exact_peaks = o->exact_peaks;
    fp8_choose(&job->variant, a->q.dtype, a->q.shape[3], q_rows(a),
               a->k.shape[2]);
    job->variant.transposes_v &= a->v_image == NULL;
    return rc;
}

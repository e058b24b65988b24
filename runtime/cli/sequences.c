/* Packed sequences and used lengths: .npy files of offsets to facc_args. Called
 * by inputs.c and cmd_mask.c; gpu.c points at device copies instead. */
#include "runtime/cli/cli.h"

#include <limits.h>
#include <stdio.h>

static const char *const option_of[SEQ_ARRAYS] = {[SEQ_CU_Q] = "cu-seqlens-q",
                                                  [SEQ_CU_KV] = "cu-seqlens-kv",
                                                  [SEQ_USED_Q] = "seqused-q",
                                                  [SEQ_USED_KV] = "seqused-kv"};

void sequences_set(facc_args *a, enum sequence_array which, const void *data)
{
    const int32_t **to[SEQ_ARRAYS] = {&a->cu_seqlens_q, &a->cu_seqlens_kv,
                                      &a->seqused_q, &a->seqused_kv};
    *to[which] = data;
}

int64_t sequence_length(const facc_args *a, bool kv, int64_t b)
{
    const int32_t *cu = kv ? a->cu_seqlens_kv : a->cu_seqlens_q;
    const int32_t *used = kv ? a->seqused_kv : a->seqused_q;
    int64_t n = cu ? cu[b + 1] - cu[b] : (kv ? &a->k : &a->q)->shape[2];
    return used && used[b] < n ? used[b] : n;
}

static int load_one(const struct options *o, enum sequence_array i,
                    struct job *job)
{
    struct array *a = &job->sequences[i];
    const char *path = o->sequences[i];
    char what[64];
    int rc = read_array(path, a);
    snprintf(what, sizeof what, "--%s", option_of[i]);
    if (!rc)
        rc = convert_array(what, a, FACC_I32);
    if (!rc && (a->t.rank != 1 || a->count >= INT_MAX))
        rc = cli_fail("%s: --%s wants one dimension, got rank %d", path,
                      option_of[i], a->t.rank);
    sequences_set(&job->args, i, a->t.data);
    return rc;
}

/* Ascending from 0; the longest length in *longest. */
static int check_offsets(const struct options *o, enum sequence_array i,
                         const struct job *job, int32_t *longest)
{
    const struct array *a = &job->sequences[i];
    const int32_t *cu = a->t.data;
    if (a->count < 1 || cu[0] != 0)
        return cli_fail("%s: offsets begin with 0", o->sequences[i]);
    *longest = 0;
    for (size_t k = 1; k < a->count; k++) {
        if (cu[k] < cu[k - 1])
            return cli_fail("%s: offset %zu is %d, below the one before, %d",
                            o->sequences[i], k, cu[k], cu[k - 1]);
        if (cu[k] - cu[k - 1] > *longest)
            *longest = cu[k] - cu[k - 1];
    }
    return EXIT_OK;
}

static int load_packed(const struct options *o, struct job *job)
{
    facc_args *a = &job->args;
    const size_t n = job->sequences[SEQ_CU_Q].count;
    if (n != job->sequences[SEQ_CU_KV].count)
        return cli_fail("--cu-seqlens-q has %zu offsets, --cu-seqlens-kv %zu: "
                        "both are of the same sequences",
                        n, job->sequences[SEQ_CU_KV].count);
    int rc = check_offsets(o, SEQ_CU_Q, job, &a->max_seqlen_q);
    if (!rc)
        rc = check_offsets(o, SEQ_CU_KV, job, &a->max_seqlen_kv);
    a->n_seqs = (int32_t)(n ? n - 1 : 0);
    return rc;
}

int sequences_load(const struct command *c, const struct options *o,
                   struct job *job)
{
    if (!o->sequences[SEQ_CU_Q] != !o->sequences[SEQ_CU_KV])
        return cli_usage(c, "--cu-seqlens-q and --cu-seqlens-kv come together");
    for (int i = 0; i < SEQ_ARRAYS; i++) {
        int rc = o->sequences[i] ? load_one(o, (enum sequence_array)i, job)
                                 : EXIT_OK;
        if (rc)
            return rc;
    }
    return o->sequences[SEQ_CU_Q] ? load_packed(o, job) : EXIT_OK;
}

/* On the GPU nobody else looks. */
static int offsets_fit(const struct job *job)
{
    const facc_args *a = &job->args;
    const int32_t *cu[2] = {a->cu_seqlens_q, a->cu_seqlens_kv};
    const int64_t rows[2] = {a->q.shape[2], a->k.shape[2]};
    for (int i = 0; i < 2; i++)
        if (cu[i] && cu[i][a->n_seqs] > rows[i])
            return cli_fail("--%s ends with %d, but %s has %lld rows",
                            option_of[SEQ_CU_Q + i], cu[i][a->n_seqs],
                            i ? "K" : "Q", (long long)rows[i]);
    return EXIT_OK;
}

int sequences_fit(const struct job *job)
{
    const facc_args *a = &job->args;
    int rc = offsets_fit(job);
    if (rc)
        return rc;
    const size_t n =
        a->cu_seqlens_q ? (size_t)a->n_seqs : (size_t)a->q.shape[0];
    for (int i = SEQ_USED_Q; i <= SEQ_USED_KV; i++)
        if (job->sequences[i].t.data && job->sequences[i].count != n)
            return cli_fail("--%s has %zu lengths, there are %zu sequences",
                            option_of[i], job->sequences[i].count, n);
    return EXIT_OK;
}

/* facc_cpu_attention. In: a program and a call on host memory. Out: O and
 * LSE, or an error that does not depend on the number of threads. The work is
 * cut into blocks of query rows that threads take from a counter; each block
 * is computed by one thread alone, so the bits do not depend on it either. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu_pool.h"
#include "runtime/cpu/cpu_tile.h"
#include "runtime/error.h"

struct job {
    struct cpu_call call;
    struct eval_tensor *tensors; /* one block with params */
    int64_t items, blocks;       /* blocks of rows per (b, h) */
    atomic_llong next;           /* item to be taken */
    atomic_bool stop;            /* an item failed: take no more */
    pthread_mutex_t lock;        /* guards what follows */
    int64_t failed;              /* lowest item that failed, or -1 */
    struct diag *d;              /* its error */
};

static bool used_fit(const char *name, const int32_t *used, int n, int full,
                     struct diag *d)
{
    for (int b = 0; used != NULL && b < n; b++)
        if (used[b] < 0 || used[b] > full)
            return diag_set(d, DIAG_ARGUMENT, "cpu", NULL, 0,
                            "%s[%d] is %d: must be from 0 to %d", name, b,
                            (int)used[b], full);
    return true;
}

/* Captured tensors and params as the evaluator takes them. */
static bool make_env(struct job *j, struct diag *d)
{
    const facc_args *a = j->call.args;
    const struct args_sizes *z = &j->call.size;
    size_t nt = (size_t)a->n_tensors, np = (size_t)a->n_params;
    j->tensors =
        calloc(1, nt * sizeof *j->tensors + np * sizeof(union eval_value) + 1);
    if (j->tensors == NULL)
        return diag_nomem(d, "cpu");
    union eval_value *params = (void *)(j->tensors + nt);
    for (size_t i = 0; i < nt; i++) {
        j->tensors[i].data = a->tensors[i].data;
        for (int k = 0; k < a->tensors[i].rank; k++) {
            j->tensors[i].shape[k] = a->tensors[i].shape[k];
            j->tensors[i].stride[k] = a->tensors[i].stride[k];
        }
    }
    _Static_assert(sizeof *params == sizeof *a->params, "same union");
    if (np > 0)
        memcpy(params, a->params, np * sizeof *params);
    j->call.env = (struct eval_env){z->B,          z->H,       z->Hkv,
                                    z->Sq,         z->Skv,     a->seqused_q,
                                    a->seqused_kv, j->tensors, params};
    return true;
}

/* Items are taken in rising order, so every item below a failed one was
 * taken and ends: the lowest failure is the same whoever runs. */
static void note_failure(struct job *j, int64_t item, const struct diag *d)
{
    pthread_mutex_lock(&j->lock);
    if (j->failed < 0 || item < j->failed) {
        j->failed = item;
        *j->d = *d;
    }
    pthread_mutex_unlock(&j->lock);
    atomic_store(&j->stop, true);
}

static void work(void *user)
{
    struct job *j = user;
    struct cpu_scratch *s = cpu_scratch_new(&j->call);
    struct diag d;
    if (s == NULL)
        return; /* others may do it; else run() sees items left */
    diag_init(&d);
    while (!atomic_load(&j->stop)) {
        int64_t item = atomic_fetch_add(&j->next, 1);
        if (item >= j->items)
            break;
        int64_t head = item / j->blocks;
        if (!cpu_tile_run(&j->call, s, (int)(head / j->call.size.H),
                          (int)(head % j->call.size.H),
                          (int)(item % j->blocks) * CPU_TILE_M, &d)) {
            note_failure(j, item, &d);
            break;
        }
    }
    cpu_scratch_free(s);
}

static bool run(facc_ctx *ctx, struct job *j, int threads, struct diag *d)
{
    const struct args_sizes *z = &j->call.size;
    j->blocks = (z->Sq + CPU_TILE_M - 1) / CPU_TILE_M;
    j->items = (int64_t)z->B * z->H * j->blocks;
    j->failed = -1;
    j->d = d;
    atomic_init(&j->next, 0);
    atomic_init(&j->stop, false);
    if (threads > j->items)
        threads = (int)j->items;
    struct cpu_pool *pool = threads > 1 ? cpu_pool_get(ctx, d) : NULL;
    if (threads > 1 && pool == NULL)
        return false;
    if (pthread_mutex_init(&j->lock, NULL) != 0)
        return diag_nomem(d, "cpu");
    if (pool != NULL)
        cpu_pool_run(pool, threads, work, j);
    else
        work(j);
    pthread_mutex_destroy(&j->lock);
    if (j->failed < 0 && atomic_load(&j->next) < j->items)
        return diag_nomem(d, "cpu");
    return j->failed < 0;
}

static bool attention(facc_ctx *ctx, const facc_program *p,
                      const facc_args *args, const facc_cpu_options *options,
                      struct diag *d)
{
    static const struct args_rules rules = {.stage = "cpu"};
    facc_args a;
    facc_cpu_options o = FACC_CPU_OPTIONS_INIT;
    struct job j = {.call = {.args = &a}};
    struct args_sizes *z = &j.call.size;
    if (ctx == NULL || p == NULL)
        return diag_set(d, DIAG_ARGUMENT, "cpu", NULL, 0, "%s is NULL",
                        ctx == NULL ? "ctx" : "program");
    if (!versioned_read(&a, sizeof a, args, "facc_args", d) ||
        (options != NULL &&
         !versioned_read(&o, sizeof o, options, "facc_cpu_options", d)) ||
        !args_check(&a, &rules, &p->signature, z, d) ||
        !used_fit("seqused_q", a.seqused_q, z->B, z->Sq, d) ||
        !used_fit("seqused_kv", a.seqused_kv, z->B, z->Skv, d))
        return false;
    if (o.threads < 0)
        return diag_set(d, DIAG_ARGUMENT, "cpu", NULL, 0,
                        "facc_cpu_options.threads is %d", (int)o.threads);
    j.call.scale = args_scale(&a, z);
    j.call.f64 = o.f64 != 0;
    j.call.kernels = cpu_kernels_get(j.call.f64);
    j.call.plan = p->compiled->plan;
    bool ok = make_env(&j, d) &&
              run(ctx, &j, o.threads > 0 ? o.threads : ctx->cpu_threads, d);
    free(j.tensors);
    return ok;
}

facc_status facc_cpu_attention(facc_ctx *ctx, const facc_program *p,
                               const facc_args *args,
                               const facc_cpu_options *options, facc_error *err)
{
    struct diag d;
    diag_init(&d);
    if (attention(ctx, p, args, options, &d))
        return FACC_OK;
    return error_report(err, &d, p != NULL ? p->text : NULL, NULL);
}

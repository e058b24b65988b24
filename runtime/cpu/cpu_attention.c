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
    int64_t *first; /* [B + 1] item at which a sequence begins */
    int64_t items;
    atomic_llong next;    /* item to be taken */
    atomic_bool stop;     /* an item failed: take no more */
    pthread_mutex_t lock; /* guards what follows */
    int64_t failed;       /* lowest item that failed, or -1 */
    struct diag *d;       /* its error */
};

/* Items: sequence by sequence, head by head, block by block. */
static bool count_items(struct job *j, struct diag *d)
{
    const struct args_sizes *z = &j->call.size;
    j->first = malloc(((size_t)z->B + 1) * sizeof *j->first);
    if (j->first == NULL)
        return diag_nomem(d, "cpu");
    j->items = 0;
    for (int b = 0; b < z->B; b++) {
        int64_t rows = cpu_rows(&j->call, b);
        j->first[b] = j->items;
        j->items += (rows + CPU_TILE_M - 1) / CPU_TILE_M * z->H;
    }
    j->first[z->B] = j->items;
    return true;
}

/* The sequence of an item: the last that begins at or before it and is not
 * empty. */
static int sequence_of(const struct job *j, int64_t item)
{
    int low = 0, high = j->call.size.B;
    while (high - low > 1) {
        int mid = low + (high - low) / 2;
        if (j->first[mid] <= item)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static bool run_item(struct job *j, struct cpu_scratch *s, int64_t item,
                     struct diag *d)
{
    int b = sequence_of(j, item);
    int64_t blocks = (j->first[b + 1] - j->first[b]) / j->call.size.H;
    int64_t k = item - j->first[b];
    return cpu_tile_run(&j->call, s, b, (int)(k / blocks),
                        (int)(k % blocks) * CPU_TILE_M, d);
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
        if (!run_item(j, s, item, &d)) {
            note_failure(j, item, &d);
            break;
        }
    }
    cpu_scratch_free(s);
}

static bool run(facc_ctx *ctx, struct job *j, int threads, struct diag *d)
{
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
        !args_check(&a, &rules, &p->signature, z, d))
        return false;
    if (o.threads < 0)
        return diag_set(d, DIAG_ARGUMENT, "cpu", NULL, 0,
                        "facc_cpu_options.threads is %d", (int)o.threads);
    j.call.scale = args_scale(&a, z);
    j.call.dropout = args_dropout(&a);
    j.call.f64 = o.f64 != 0;
    j.call.kernels = cpu_kernels_get(j.call.f64);
    j.call.plan = p->compiled->plan;
    j.call.verdicts = p->compiled->verdict_plan;
    bool ok = cpu_env_open(&j.call.env, &a, z, p->compiled->facts.score_masks,
                           "cpu", d) &&
              count_items(&j, d) &&
              run(ctx, &j, o.threads > 0 ? o.threads : ctx->cpu_threads, d);
    free(j.first);
    cpu_env_close(&j.call.env);
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

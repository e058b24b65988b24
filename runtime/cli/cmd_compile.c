/* facc compile: precompiles a grid of variants into the cache, several at a
 * time, with a progress line each. */
#include "runtime/cli/variants.h"

#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: facc compile FILE.lua... [--dtype LIST] [--head-dim LIST]\n"
    "                    [--arch LIST] [--jobs N] [--json]\n"
    "\n"
    "Compiles every combination of file, dtype, head dim and architecture\n"
    "into the cache; what is there already is not compiled again. Needs\n"
    "NVRTC, no GPU. With --score/--mask instead of files, the one program\n"
    "that they make.\n"
    "\n"
    "  --dtype bf16,f16   --head-dim 64,128,192/128   --arch 80,90\n"
    "  --packed           kernels for packed sequences (cu_seqlens): others\n"
    "                     than those for padded ones\n"
    "  --block-mask       kernels for block lists given with each call\n"
    "  --with-sinks       kernels for attention sinks given with each call\n"
    "  --check-bounds     checked debug builds\n"
    "  --layout any       for sm_90: code of family sm90, and of sm80 for\n"
    "                     tensors that are not aligned to 16 bytes (default)\n"
    "  --layout aligned   the former alone\n"
    "  --family sm80      or sm90: that family's code alone\n"
    "  --jobs N           at once; default 2\n"
    "\n"
    "example: facc compile examples/*.lua --dtype bf16 \\\n"
    "                      --head-dim 64,128 --arch 90\n";

static const char *const allowed[] = {
    "score",      "mask",         "tensor", "param",
    "dtype",      "head-dim",     "arch",   "jobs",
    "json",       "check-bounds", "packed", "block-mask",
    "with-sinks", "layout",       "family", NULL};

struct task {
    const char *file; /* NULL: expressions */
    facc_program *program;
    facc_variant variant;
    facc_status status;
    facc_error err;
    facc_kernel_info info;
    double seconds;
};

struct grid {
    facc_ctx *ctx;
    struct task *tasks;
    int n, next, done, failed;
    bool quiet;
    pthread_mutex_t lock;
};

static void announce(const struct grid *g, const struct task *t)
{
    const facc_variant *v = &t->variant;
    printf("[%d/%d] %s  %s  D %d/%d  sm_%d  ", g->done, g->n,
           t->file ? t->file : "(expressions)", facc_dtype_name(v->dtype),
           v->head_dim, v->head_dim_v, v->arch);
    if (t->status)
        printf("FAILED: %s\n", t->err.message);
    else
        printf("%s%s%s  %s  %.2f s  %d registers  %d spill bytes\n",
               t->info.family, t->info.fallback[0] ? " and " : "",
               t->info.fallback, t->info.source, t->seconds, t->info.registers,
               t->info.spill_bytes);
    fflush(stdout);
}

static void *worker(void *user)
{
    struct grid *g = user;
    for (;;) {
        pthread_mutex_lock(&g->lock);
        struct task *t = g->next < g->n ? &g->tasks[g->next++] : NULL;
        pthread_mutex_unlock(&g->lock);
        if (!t)
            return NULL;
        facc_kernel *k;
        double start = cli_now();
        t->status =
            facc_kernel_get(&k, g->ctx, t->program, &t->variant, &t->err);
        t->seconds = cli_now() - start;
        if (!t->status) {
            facc_kernel_get_info(k, &t->info);
            facc_kernel_free(k);
        }
        pthread_mutex_lock(&g->lock);
        g->done++;
        g->failed += t->status != FACC_OK;
        if (!g->quiet)
            announce(g, t);
        pthread_mutex_unlock(&g->lock);
    }
}

static int run_grid(struct grid *g, int jobs)
{
    pthread_t thread[64];
    int started = 0;
    pthread_mutex_init(&g->lock, NULL);
    while (started < jobs - 1 && started < 64 &&
           !pthread_create(&thread[started], NULL, worker, g))
        started++;
    worker(g); /* this thread works too */
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&g->lock);
    return g->failed ? EXIT_FAILED : EXIT_OK;
}

static int print_json(const struct grid *g)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < g->n; i++) {
        const struct task *t = &g->tasks[i];
        cJSON *j = cJSON_CreateObject();
        cJSON_AddStringToObject(j, "file", t->file ? t->file : "");
        cJSON_AddStringToObject(j, "dtype", facc_dtype_name(t->variant.dtype));
        cJSON_AddNumberToObject(j, "head_dim", t->variant.head_dim);
        cJSON_AddNumberToObject(j, "head_dim_v", t->variant.head_dim_v);
        cJSON_AddNumberToObject(j, "arch", t->variant.arch);
        cJSON_AddStringToObject(
            j, "layout",
            t->variant.layout == FACC_LAYOUT_ALIGNED ? "aligned" : "any");
        cJSON_AddStringToObject(j, "family", t->info.family);
        cJSON_AddStringToObject(j, "fallback", t->info.fallback);
        cJSON_AddBoolToObject(j, "packed", t->variant.packed);
        cJSON_AddBoolToObject(j, "sinks", t->variant.sinks);
        cJSON_AddBoolToObject(j, "block_mask", t->variant.block_mask);
        cJSON_AddStringToObject(j, "status", facc_status_name(t->status));
        cJSON_AddStringToObject(j, "message", t->err.message);
        cJSON_AddStringToObject(j, "key", t->info.key);
        cJSON_AddStringToObject(j, "source", t->info.source);
        cJSON_AddNumberToObject(j, "seconds", t->seconds);
        cJSON_AddNumberToObject(j, "registers", t->info.registers);
        cJSON_AddNumberToObject(j, "spill_bytes", t->info.spill_bytes);
        cJSON_AddNumberToObject(j, "cubin_bytes", (double)t->info.cubin_bytes);
        cJSON_AddItemToArray(list, j);
    }
    return cli_print_json(list);
}

/* Loads every file, then lays out the grid. */
static int plan(const struct options *o, const struct variant_lists *l,
                struct grid *g, facc_program **programs, int n_files)
{
    facc_error err = FACC_ERROR_INIT;
    for (int f = 0; f < n_files; f++) {
        if (o->n_positional && facc_program_load_file(&programs[f], g->ctx,
                                                      o->positional[f], &err))
            return cli_fail_facc(&err);
        for (int d = 0; d < l->n_dtype; d++)
            for (int h = 0; h < l->n_head_dim; h++)
                for (int a = 0; a < l->n_arch; a++) {
                    struct task *t = &g->tasks[g->n++];
                    t->file = o->n_positional ? o->positional[f] : NULL;
                    t->program = programs[f];
                    t->variant = variants_make(o, l, d, h, a);
                    t->err = (facc_error)FACC_ERROR_INIT;
                    t->info.struct_size = sizeof t->info;
                }
    }
    return EXIT_OK;
}

static int compile_all(const struct options *o, const struct variant_lists *l,
                       const struct job *job)
{
    const int n_files = o->n_positional ? o->n_positional : 1;
    facc_program **programs = cli_alloc((size_t)n_files * sizeof *programs);
    struct grid g = {.ctx = job->ctx, .quiet = o->json};
    g.tasks = cli_alloc(sizeof *g.tasks * (size_t)n_files *
                        (size_t)(l->n_dtype * l->n_head_dim * l->n_arch));
    programs[0] = job->program; /* or NULL: plan() loads the files */
    int rc = plan(o, l, &g, programs, n_files);
    if (!rc)
        rc = run_grid(&g, o->jobs ? o->jobs : 2);
    if (o->json && g.done)
        print_json(&g);
    for (int f = o->n_positional ? 0 : 1; f < n_files; f++)
        facc_program_free(programs[f]);
    free(programs);
    free(g.tasks);
    return rc;
}

static int run(int argc, char **argv)
{
    struct options o;
    struct variant_lists l;
    struct job job = {.device = -1};
    facc_error err = FACC_ERROR_INIT;
    int rc = options_parse(&command_compile, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    if (!o.n_positional && !o.score && !o.mask)
        return cli_usage(&command_compile,
                         "give FILE.lua... or --score/--mask");
    if (o.n_positional && (o.score || o.mask))
        return cli_usage(&command_compile,
                         "give either files or --score/--mask, not both");
    rc = variants_parse(&command_compile, &o, &l);
    if (rc)
        return rc;
    if (!o.n_positional)
        rc = job_load_program(&command_compile, &o, &job);
    else if (facc_ctx_create(&job.ctx, NULL, &err))
        rc = cli_fail_facc(&err);
    if (!rc)
        rc = compile_all(&o, &l, &job);
    job_finish(&job);
    return rc;
}

const struct command command_compile = {
    "compile", "precompile variants into the cache", help, run};

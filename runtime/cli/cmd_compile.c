/* facc compile: precompiles variants into the cache: a grid of them, or those
 * that a run has recorded. In: options. Out: compile_grid.c's lines, or JSON.
 */
#include "runtime/cli/compile_grid.h"
#include "runtime/cli/variants.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "usage: facc compile FILE.lua... [--dtype LIST] [--head-dim LIST]\n"
    "                    [--arch LIST] [--jobs N] [--memory MIB] [--json]\n"
    "       facc compile --manifest FILE [--arch LIST] [--jobs N] ...\n"
    "\n"
    "Compiles every combination of file, dtype, head dim and architecture\n"
    "into the cache; what is there already is not compiled again, so that a\n"
    "run that was interrupted goes on where it was. One that fails does not\n"
    "stop the others. Needs NVRTC, no GPU. With --score, --mask, --tensor\n"
    "and --param (as in facc run) instead of files, the one program that they\n"
    "make.\n"
    "\n"
    "A manifest lists what runs have asked for (a run with FACC_MANIFEST=FILE\n"
    "adds to it), programs included: kernels, and what rounds to FP8\n"
    "(facc_quantizer_get).\n"
    "\n"
    "  --dtype bf16,f16   --head-dim 64,128,192/128   --arch 80,90\n"
    "  --out-dtype f32    O's, where it is not that of Q\n"
    "  --packed           kernels for packed sequences (cu_seqlens): others\n"
    "                     than those for padded ones\n"
    "  --block-mask       kernels for block lists given with each call\n"
    "  --with-sinks       kernels for attention sinks given with each call\n"
    "  --per N, --centre-v   FP8: kernels for scales of blocks of rows; for V\n"
    "                     without channel means\n"
    "  --transpose-v      FP8: kernels that transpose V themselves, for calls\n"
    "                     of few queries to each key\n"
    "  --exact-peaks      FP8: kernels of less error, in more time, in rows\n"
    "                     that few keys carry\n"
    "  --with-dropout     kernels with dropout, by each call's probability\n"
    "  --check-bounds     checked debug builds\n"
    "  --layout any       for sm_90: code of family sm90, and of sm80 for\n"
    "                     tensors that are not aligned to 16 bytes (default)\n"
    "  --layout aligned   the former alone\n"
    "  --family sm80      or sm90: that family's code alone\n"
    "  --manifest FILE    what runs have asked for; --arch: for these instead\n"
    "  --jobs N           at most N at once; default: one for each CPU\n"
    "  --memory MIB       and no more than fit into it, at 200 MiB each;\n"
    "                     default: what is free\n"
    "\n"
    "example: facc compile examples/*.lua --dtype bf16 \\\n"
    "                      --head-dim 64,128 --arch 90\n"
    "example: FACC_MANIFEST=m.jsonl python3 serve.py\n"
    "         facc compile --manifest m.jsonl\n";

static const char *const allowed[] = {
    "score",        "mask",        "tensor",      "param",     "dtype",
    "head-dim",     "arch",        "jobs",        "json",      "check-bounds",
    "packed",       "block-mask",  "with-sinks",  "per",       "centre-v",
    "with-dropout", "layout",      "family",      "out-dtype", "manifest",
    "memory",       "transpose-v", "exact-peaks", NULL};

static int print_json(const struct grid *g)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < g->n; i++) {
        const struct task *t = &g->tasks[i];
        cJSON *j = cJSON_CreateObject();
        const facc_dtype out = t->variant.out_dtype;
        cJSON_AddStringToObject(j, "file", t->file);
        cJSON_AddStringToObject(j, "dtype", facc_dtype_name(t->variant.dtype));
        cJSON_AddStringToObject(j, "out_dtype",
                                facc_dtype_name(out ? out : t->variant.dtype));
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
        cJSON_AddBoolToObject(j, "dropout", t->variant.dropout);
        cJSON_AddBoolToObject(j, "block_mask", t->variant.block_mask);
        cJSON_AddBoolToObject(j, "exact_peaks", t->variant.exact_peaks);
        if (t->quantize.from) {
            cJSON_AddBoolToObject(j, "hadamard", t->quantize.hadamard);
            cJSON_AddBoolToObject(j, "mean", t->quantize.mean);
            cJSON_AddBoolToObject(j, "image", t->quantize.image);
        }
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

/* --- the grid ----------------------------------------------------------------
 */

/* Programs that were loaded, to be freed. */
struct loaded {
    const struct options *o;
    struct grid *g;
    struct variant_lists lists;
    struct {
        facc_program *program;
        char *name, *text; /* of a manifest's; text NULL: of a file */
    } * list;
    int n, cap;
};

static int keep(struct loaded *l, facc_program *p, const char *name,
                const char *text)
{
    if (l->n == l->cap) {
        const int cap = l->cap ? 2 * l->cap : 64;
        void *grown = cli_alloc((size_t)cap * sizeof *l->list);
        if (l->n)
            memcpy(grown, l->list, (size_t)l->n * sizeof *l->list);
        free(l->list);
        l->list = grown;
        l->cap = cap;
    }
    l->list[l->n].program = p;
    l->list[l->n].name = cli_strdup(name);
    l->list[l->n].text = text ? cli_strdup(text) : NULL;
    return l->n++;
}

static void unload(struct loaded *l)
{
    for (int i = 0; i < l->n; i++) {
        facc_program_free(l->list[i].program);
        free(l->list[i].name);
        free(l->list[i].text);
    }
    free(l->list);
}

static void add_task(struct grid *g, const char *name, facc_program *p,
                     const facc_variant *v)
{
    for (int i = 0; i < g->n; i++) /* of a manifest for other architectures */
        if (p && g->tasks[i].program == p &&
            memcmp(&g->tasks[i].variant, v, sizeof *v) == 0)
            return;
    struct task *t = grid_add(g);
    t->file = name;
    t->program = p;
    t->variant = *v;
}

/* One that cannot be loaded is a failure among the others. */
static void add_failed(struct grid *g, const char *name, const facc_error *err)
{
    struct task *t = grid_add(g);
    t->file = name;
    t->variant = (facc_variant)FACC_VARIANT_INIT;
    t->status = err->status;
    t->err = *err;
}

static void add_variants(struct loaded *l, const char *name, facc_program *p)
{
    const struct variant_lists *v = &l->lists;
    for (int d = 0; d < v->n_dtype; d++)
        for (int h = 0; h < v->n_head_dim; h++)
            for (int a = 0; a < v->n_arch; a++) {
                const facc_variant x = variants_make(l->o, v, d, h, a);
                add_task(l->g, name, p, &x);
            }
}

static void add_files(struct loaded *l)
{
    for (int f = 0; f < l->o->n_positional; f++) {
        facc_error err = FACC_ERROR_INIT;
        facc_program *p;
        const char *name = l->o->positional[f];
        if (facc_program_load_file(&p, l->g->ctx, name, &err)) {
            add_failed(l->g, name, &err);
            continue;
        }
        cli_warn(p);
        keep(l, p, name, NULL);
        add_variants(l, name, p);
    }
}

/* The program of a manifest's line: each text once. */
static int find_or_load(struct loaded *l, const facc_manifest_entry *e,
                        facc_error *err)
{
    facc_program *p;
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->list[i].name, e->program) &&
            !strcmp(l->list[i].text, e->text))
            return i;
    if (facc_program_load_string(&p, l->g->ctx, e->program, e->text,
                                 e->text_size, err))
        p = NULL;
    int i = keep(l, p, e->program, e->text);
    if (!p)
        add_failed(l->g, l->list[i].name, err);
    return i;
}

static int add_recorded(void *user, const facc_manifest_entry *e)
{
    struct loaded *l = user;
    facc_error err = FACC_ERROR_INIT;
    const int i = find_or_load(l, e, &err);
    facc_program *p = l->list[i].program;
    if (!p)
        return 0;
    facc_variant v = e->variant;
    for (int a = 0; a < (l->o->arch ? l->lists.n_arch : 1); a++) {
        if (l->o->arch)
            v.arch = l->lists.arch[a];
        add_task(l->g, l->list[i].name, p, &v);
    }
    return 0;
}

/* Its variant is for what is printed. */
static void add_quantizer(struct grid *g, const facc_quantize_variant *v)
{
    for (int i = 0; i < g->n; i++)
        if (memcmp(&g->tasks[i].quantize, v, sizeof *v) == 0)
            return;
    struct task *t = grid_add(g);
    t->file = "(quantizer)";
    t->quantize = *v;
    t->variant = (facc_variant)FACC_VARIANT_INIT;
    t->variant.dtype = v->from;
    t->variant.out_dtype = v->to;
    t->variant.head_dim = t->variant.head_dim_v = v->head_dim;
    t->variant.arch = v->arch;
}

static int add_recorded_quantizer(void *user, const facc_quantize_variant *e)
{
    struct loaded *l = user;
    facc_quantize_variant v = *e;
    for (int a = 0; a < (l->o->arch ? l->lists.n_arch : 1); a++) {
        if (l->o->arch)
            v.arch = l->lists.arch[a];
        add_quantizer(l->g, &v);
    }
    return 0;
}

static int compile_all(const struct options *o, const struct variant_lists *v,
                       const struct job *job)
{
    facc_error err = FACC_ERROR_INIT;
    struct grid g = {.ctx = job->ctx, .quiet = o->json};
    struct loaded l = {.o = o, .g = &g, .lists = *v};
    int rc = EXIT_OK;
    struct stat st;
    if (o->manifest && stat(o->manifest, &st) == 0 && !S_ISREG(st.st_mode))
        rc = cli_fail("%s: a manifest is read twice and must be a file: write "
                      "what comes from a pipe to one first",
                      o->manifest);
    else if (o->manifest) {
        if (facc_manifest_read(job->ctx, o->manifest, add_recorded, &l, &err) ||
            facc_manifest_read_quantizers(job->ctx, o->manifest,
                                          add_recorded_quantizer, &l, &err))
            rc = cli_fail_facc(&err);
    } else if (o->n_positional)
        add_files(&l);
    else
        add_variants(&l, "", job->program);
    if (!rc)
        rc = grid_run(
            &g, grid_jobs(g.n, o->jobs ? o->jobs : o->threads, o->memory));
    if (o->json && print_json(&g))
        rc = EXIT_FAILED;
    unload(&l);
    free(g.tasks);
    return rc;
}

static int check_usage(const struct options *o)
{
    const bool expressions = o->score || o->mask;
    if (!o->n_positional && !expressions && !o->manifest)
        return cli_usage(&command_compile,
                         "give FILE.lua..., --score/--mask or --manifest");
    if (o->n_positional && expressions)
        return cli_usage(&command_compile,
                         "give either files or --score/--mask, not both");
    if (o->manifest &&
        (o->n_positional || expressions || o->dtypes || o->head_dims ||
         o->out_dtype || o->packed || o->block_mask || o->with_sinks ||
         o->with_dropout || o->per || o->centre_v || o->transpose_v ||
         o->exact_peaks || o->check_bounds || o->layout || o->family))
        return cli_usage(&command_compile,
                         "--manifest has its own programs and variants: only "
                         "--arch, --jobs, --memory and --json go with it");
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct options o;
    struct variant_lists l;
    struct job job = {.device = -1};
    facc_error err = FACC_ERROR_INIT;
    facc_options made = FACC_OPTIONS_INIT;
    int rc = options_parse(&command_compile, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    rc = check_usage(&o);
    if (!rc)
        rc = variants_parse(&command_compile, &o, &l);
    if (rc)
        return rc;
    made.on_compile = grid_on_compile;
    if (o.score || o.mask)
        rc = job_load_program(&command_compile, &o, &job);
    else if (facc_ctx_create(&job.ctx, &made, &err))
        rc = cli_fail_facc(&err);
    if (!rc)
        rc = compile_all(&o, &l, &job);
    job_finish(&job);
    return rc;
}

const struct command command_compile = {
    "compile", "precompile variants into the cache", help, run};

/* facc mask: the mask of one sequence and head, and what its tiles come to. In:
 * a program, lengths, what it captures. Out: a PNG, text or JSON. Needs no
 * GPU. */
#include "runtime/cli/mask.h"
#include "runtime/cli/variants.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char help[] =
    "usage: facc mask [FILE.lua] [--sq N] [--skv N] [-o MASK.png] [options]\n"
    "\n"
    "Shows a mask: which cells count, and what is known of whole tiles before\n"
    "a kernel runs. EMPTY tiles are skipped, FULL ones run no mask code,\n"
    "PARTIAL ones are masked cell by cell. Prints counts and a map of\n"
    "characters; with -o it makes a picture instead.\n"
    "\n"
    "  --sq N, --skv N     lengths; default: those of captured tensors and\n"
    "                      sequences, else 1024; --skv: as --sq\n"
    "  --batch B, --head H which of them; default 0\n"
    "  --heads H[,HKV]     how many, where the mask asks facc.size or "
    "captures\n"
    "                      tensors of KV heads; default: as those say\n"
    "  --tile RxC          query rows x KV columns; default: the tile of the\n"
    "                      kernel, which depends on --head-dim (128),\n"
    "                      --dtype (bf16) and --arch (90)\n"
    "  --mask EXPR, --score EXPR, --tensor NAME=FILE.npy, --param NAME=VALUE,\n"
    "  --cu-seqlens-q, --cu-seqlens-kv, --seqused-q, --seqused-kv FILE.npy\n"
    "                      as in facc run\n"
    "  -o, --out MASK.png  the picture\n"
    "  --json              for machines, the map as an array of strings\n"
    "\n"
    "Beyond 2^28 cells the tiles alone are looked at.\n"
    "\n"
    "example: facc mask --mask 'q >= kv and q - kv < 300' --sq 2048 -o w.png\n";

static const char *const allowed[] = {
    "sq",        "skv",        "batch", "head",         "heads",
    "tile",      "head-dim",   "dtype", "arch",         "mask",
    "score",     "tensor",     "param", "cu-seqlens-q", "cu-seqlens-kv",
    "seqused-q", "seqused-kv", "out",   "json",         NULL};

enum {
    DEFAULT_LENGTH = 1024,
    MAX_CELLS = 1 << 28, /* that are held in memory, a byte each */
    MAX_TILES = 1 << 28
};

/* --- sizes ---------------------------------------------------------------- */

struct sizes {
    int64_t B, H, Hkv, q, kv; /* -1: nobody said */
};

/* Captured tensors with named dims say how large these are; facc_verdict_map
 * names the tensor that does not fit. */
static void sizes_of_tensors(const struct job *job, struct sizes *z)
{
    static const char *const name[] = {"B", "H", "Hkv", "q", "kv"};
    int64_t *const to[] = {&z->B, &z->H, &z->Hkv, &z->q, &z->kv};
    for (int i = 0; i < job->args.n_tensors; i++) {
        facc_declared d;
        facc_program_tensor(job->program, i, &d);
        for (int k = 0; k < d.rank && k < job->tensors[i].rank; k++)
            for (int j = 0; j < 5 && d.dim_names[k]; j++)
                if (!strcmp(d.dim_names[k], name[j]) && *to[j] < 0)
                    *to[j] = job->tensors[i].shape[k];
    }
}

static facc_tensor shape_only(int64_t b, int64_t h, int64_t s)
{
    return (facc_tensor){.dtype = FACC_F32,
                         .rank = 4,
                         .shape = {b, h, s, 1},
                         .stride = {h * s, s, 1, 1}};
}

static int64_t or_else(int64_t value, int64_t other)
{
    return value >= 0 ? value : other;
}

/* What Q, K, V, O would be. */
static void make_args(const struct options *o, struct job *job)
{
    struct sizes z = {-1, o->mask_h, o->mask_hkv, o->mask_sq, o->mask_skv};
    const facc_args *packed = job->args.cu_seqlens_q ? &job->args : NULL;
    facc_args *a = &job->args;
    sizes_of_tensors(job, &z);
    z.q = or_else(z.q, or_else(z.kv, DEFAULT_LENGTH));
    z.kv = or_else(z.kv, z.q);
    for (int i = SEQ_USED_Q; i <= SEQ_USED_KV; i++)
        if (job->sequences[i].t.data)
            z.B = or_else(z.B, (int64_t)job->sequences[i].count);
    z.B = or_else(z.B, o->batch + 1);
    z.H = or_else(z.H, or_else(z.Hkv, o->head + 1));
    z.Hkv = or_else(z.Hkv, z.H);
    if (packed) { /* lengths are what the offsets say */
        z.B = 1;
        z.q = a->cu_seqlens_q[a->n_seqs];
        z.kv = a->cu_seqlens_kv[a->n_seqs];
    }
    a->q = a->o = shape_only(z.B, z.H, z.q);
    a->k = a->v = shape_only(z.B, z.Hkv, z.kv);
}

static int check_sizes(const struct command *c, const struct options *o,
                       const struct job *job)
{
    const facc_args *a = &job->args;
    const int64_t B = a->cu_seqlens_q ? a->n_seqs : a->q.shape[0];
    if (a->cu_seqlens_q && (o->mask_sq >= 0 || o->mask_skv >= 0))
        return cli_usage(c, "--sq and --skv: the lengths of packed sequences "
                            "are in --cu-seqlens-q and --cu-seqlens-kv");
    if (o->batch >= B)
        return cli_fail("--batch %" PRId64 ": there are %" PRId64 " sequences",
                        o->batch, B);
    if (o->head >= a->q.shape[1])
        return cli_fail("--head %" PRId64 ": there are %" PRId64
                        " heads, unless --heads says how many",
                        o->head, a->q.shape[1]);
    return EXIT_OK;
}

/* --- what the compiler says --------------------------------------------- */

static int number(const cJSON *object, const char *name)
{
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(n) ? n->valueint : 0;
}

/* The kernel's tile, and why the tier is what it is. */
static int ask_compiler(const struct command *c, const struct options *o,
                        struct job *job, struct mask_view *m)
{
    facc_variant v;
    facc_error err = FACC_ERROR_INIT;
    char *text;
    int rc = variants_single(c, o, &v);
    if (rc)
        return rc;
    if (facc_program_explain(&text, job->ctx, job->program, &v, 1, &err))
        return cli_fail_facc(&err);
    cJSON *j = cJSON_Parse(text);
    facc_string_free(text);
    if (!j)
        return cli_fail("out of memory: what the compiler says");
    const cJSON *kernel = cJSON_GetObjectItemCaseSensitive(j, "kernel");
    const cJSON *cause = cJSON_GetObjectItemCaseSensitive(j, "tier_cause");
    m->tile_q = o->tile_q ? (int)o->tile_q : number(kernel, "tile_m");
    m->tile_kv = o->tile_kv ? (int)o->tile_kv : number(kernel, "tile_n");
    if (cJSON_IsString(cause))
        snprintf(m->cause, sizeof m->cause, "%s", cause->valuestring);
    cJSON_Delete(j);
    return EXIT_OK;
}

/* --- the map -------------------------------------------------------------- */

static int64_t tiles(int64_t n, int tile)
{
    return (n + tile - 1) / tile;
}

/* Work of more than about a second is announced to people. */
static void announce(const struct mask_view *m, int64_t n_tiles, bool cells)
{
    const double n_cells = cells ? (double)m->sq * (double)m->skv : 0;
    if (isatty(STDERR_FILENO) && (n_cells > 1 << 25 || n_tiles > 1 << 22))
        fprintf(stderr, "facc mask: looking at %.0f tiles and %.0f cells ...\n",
                (double)n_tiles, n_cells);
}

static int make_map(struct job *job, struct mask_view *m, bool want_cells)
{
    facc_error err = FACC_ERROR_INIT;
    const int64_t rows = tiles(m->sq, m->tile_q);
    const int64_t cols = tiles(m->skv, m->tile_kv);
    if ((double)rows * (double)cols > MAX_TILES)
        return cli_fail("%" PRId64 " x %" PRId64 " tiles are too many: give a "
                        "larger --tile than %dx%d",
                        rows, cols, m->tile_q, m->tile_kv);
    const bool few = (double)m->sq * (double)m->skv <= MAX_CELLS;
    m->verdicts = cli_alloc((size_t)(rows * cols));
    if (few && want_cells)
        m->cells = cli_alloc((size_t)m->sq * (size_t)m->skv);
    m->counts.skip_kept = !few;
    announce(m, rows * cols, few);
    facc_status s = facc_verdict_map(
        job->ctx, job->program, &job->args, (int32_t)m->b, (int32_t)m->h,
        m->tile_q, m->tile_kv, m->verdicts, m->cells, &m->counts, &err);
    if (s == FACC_ERR_UNSUPPORTED && m->cells) { /* the mask reads the score */
        free(m->cells);
        m->cells = NULL;
        s = facc_verdict_map(job->ctx, job->program, &job->args, (int32_t)m->b,
                             (int32_t)m->h, m->tile_q, m->tile_kv, m->verdicts,
                             NULL, &m->counts, &err);
    }
    return s ? cli_fail_facc(&err) : EXIT_OK;
}

static int terminal_width(void)
{
    struct winsize w;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        return w.ws_col;
    return 80;
}

static void set_name(const struct options *o, struct mask_view *m)
{
    const char *text = o->file ? o->file : o->mask ? o->mask : o->score;
    const char *slash = o->file ? strrchr(o->file, '/') : NULL;
    snprintf(m->name, sizeof m->name, "%s",
             slash  ? slash + 1
             : text ? text
                    : "none");
}

static int show(const struct options *o, const struct mask_view *m)
{
    int rc = o->out ? mask_write_png(m, o->out) : EXIT_OK;
    if (rc)
        return rc;
    if (o->json)
        return mask_print_json(m);
    if (!o->out)
        mask_print_text(m, terminal_width());
    return EXIT_OK;
}

static int prepare(const struct command *c, const struct options *o,
                   struct job *job, struct mask_view *m)
{
    int rc = job_load_program(c, o, job);
    if (!rc)
        rc = ask_compiler(c, o, job, m);
    if (!rc)
        rc = job_captures(o, job);
    if (!rc)
        rc = sequences_load(c, o, job);
    if (!rc)
        make_args(o, job);
    if (!rc)
        rc = sequences_fit(job);
    if (!rc)
        rc = check_sizes(c, o, job);
    if (rc)
        return rc;
    const facc_args *a = &job->args;
    set_name(o, m);
    m->b = o->batch;
    m->h = o->head;
    m->sq = a->cu_seqlens_q ? a->max_seqlen_q : a->q.shape[2];
    m->skv = a->cu_seqlens_q ? a->max_seqlen_kv : a->k.shape[2];
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct options o;
    struct job job = {.device = -1, .args = FACC_ARGS_INIT};
    struct mask_view m = {.counts = FACC_VERDICT_COUNTS_INIT};
    int rc = options_parse(&command_mask, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    rc = prepare(&command_mask, &o, &job, &m);
    if (!rc)
        rc = make_map(&job, &m, o.out != NULL);
    if (!rc)
        rc = show(&o, &m);
    free(m.verdicts);
    free(m.cells);
    job_finish(&job);
    return rc;
}

const struct command command_mask = {
    "mask", "show a mask and the verdicts on its tiles", help, run};

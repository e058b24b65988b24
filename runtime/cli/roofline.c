/* The model. In: sizes, mask, kernel. Out: work for each unit, times at best,
 * the limiter. The mask is asked by the verdicts of its own tiles, on the CPU;
 * many sequences and heads are sampled. */
#include "runtime/cli/roofline.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES = 4,         /* of sequences, and of heads, if there are more */
    MAX_CELLS = 1 << 25, /* looked at one by one for each sample */
    MAX_TILES = 1 << 20,
    CPU_TILE = 64
};

const char *roof_unit_name(const struct roof_machine *m, enum roof_unit u)
{
    static const char *const gpu[] = {"tensor cores", "exp unit", "L2", "HBM"};
    static const char *const cpu[] = {"FMA units", "exp", "cache", "DRAM"};
    return m->gpu ? gpu[u] : cpu[u];
}

/* ---- what runs
 * ---------------------------------------------------------------- */

static int number(const cJSON *object, const char *name)
{
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(n) ? n->valueint : 0;
}

/* The kernel's tile and the mods' functions, as the library tells them. */
static int ask_library(struct job *job, const facc_variant *v, bool gpu,
                       struct roof_load *l)
{
    facc_error err = FACC_ERROR_INIT;
    char *text;
    if (facc_program_explain(&text, job->ctx, job->program, gpu ? v : NULL, 1,
                             &err))
        return cli_fail_facc(&err);
    cJSON *j = cJSON_Parse(text);
    facc_string_free(text);
    if (!j)
        return cli_fail("out of memory: what the library says");
    const cJSON *kernel = cJSON_GetObjectItemCaseSensitive(j, "kernel");
    l->functions = number(j, "cell_functions");
    l->tile_m = gpu ? number(kernel, "tile_m") : CPU_TILE;
    l->tile_n = gpu ? number(kernel, "tile_n") : CPU_TILE;
    cJSON_Delete(j);
    return EXIT_OK;
}

/* ---- the mask
 * ------------------------------------------------------------------- */

static double tiles(double n, int tile)
{
    return ceil(n / tile);
}

/* Shares of the query rows and of the KV columns that a tile is computed of:
 * the others need not be loaded. */
static void add_shares(const uint8_t *verdicts, int rows, int cols,
                       struct roof_load *l)
{
    int used_rows = 0, used_cols = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            if (verdicts[(size_t)i * (size_t)cols + (size_t)j] !=
                FACC_TILE_EMPTY) {
                used_rows++;
                break;
            }
    for (int j = 0; j < cols; j++)
        for (int i = 0; i < rows; i++)
            if (verdicts[(size_t)i * (size_t)cols + (size_t)j] !=
                FACC_TILE_EMPTY) {
                used_cols++;
                break;
            }
    l->q_share += rows ? (double)used_rows / rows : 0;
    l->kv_share += cols ? (double)used_cols / cols : 0;
}

/* One sequence and head: adds its cells. False: the mask cannot be asked. */
static bool ask_mask(struct job *job, const facc_args *a, int64_t b, int64_t h,
                     struct roof_load *l)
{
    const double q = (double)sequence_length(a, false, b);
    const double kv = (double)sequence_length(a, true, b);
    facc_verdict_counts n = FACC_VERDICT_COUNTS_INIT;
    if (tiles(q, l->tile_m) * tiles(kv, l->tile_n) > MAX_TILES)
        return false;
    n.skip_kept = q * kv > MAX_CELLS;
    uint8_t *verdicts =
        cli_alloc((size_t)(tiles(q, l->tile_m) * tiles(kv, l->tile_n)));
    const bool asked =
        !facc_verdict_map(job->ctx, job->program, a, (int32_t)b, (int32_t)h,
                          l->tile_m, l->tile_n, verdicts, NULL, &n, NULL);
    if (asked)
        add_shares(verdicts, n.rows, n.cols, l);
    free(verdicts);
    if (!asked)
        return false;
    const double area = (double)l->tile_m * l->tile_n;
    const double most = tiles(q, l->tile_m) * tiles(kv, l->tile_n) * area;
    const double part = most > 0 ? q * kv / most : 0; /* of a tile: edges */
    l->computed += (double)(n.full + n.partial) * area;
    l->estimated |= n.kept < 0;
    l->kept += n.kept >= 0
                   ? (double)n.kept
                   : ((double)n.full + 0.5 * (double)n.partial) * area * part;
    return true;
}

/* All sequences and heads, or some of them, evenly spread. */
static void count_cells(struct job *job, const facc_args *a,
                        struct roof_load *l)
{
    const int64_t B = a->cu_seqlens_q ? a->n_seqs : a->q.shape[0];
    const int64_t H = a->q.shape[1];
    const int64_t nb = B < SAMPLES ? B : SAMPLES,
                  nh = H < SAMPLES ? H : SAMPLES;
    for (int64_t b = 0; b < B; b++)
        l->cells += (double)H * (double)sequence_length(a, false, b) *
                    (double)sequence_length(a, true, b);
    for (int64_t i = 0; i < nb && !l->unknown; i++)
        for (int64_t j = 0; j < nh && !l->unknown; j++)
            l->unknown = !ask_mask(job, a, i * B / nb, j * H / nh, l);
    const double times = nb * nh > 0 ? (double)(B * H) / (double)(nb * nh) : 0;
    l->estimated |= times > 1;
    l->kept *= times;
    l->computed *= times;
    l->q_share /= (double)(nb * nh > 0 ? nb * nh : 1);
    l->kv_share /= (double)(nb * nh > 0 ? nb * nh : 1);
}

/* Without values of captured tensors, say: every cell. */
static void count_all(const facc_args *a, struct roof_load *l)
{
    const int64_t B = a->cu_seqlens_q ? a->n_seqs : a->q.shape[0];
    l->kept = l->computed = 0;
    l->q_share = l->kv_share = 1;
    for (int64_t b = 0; b < B; b++) {
        const double q = (double)sequence_length(a, false, b);
        const double kv = (double)sequence_length(a, true, b);
        l->kept += (double)a->q.shape[1] * q * kv;
        l->computed += (double)a->q.shape[1] * tiles(q, l->tile_m) *
                       tiles(kv, l->tile_n) * l->tile_m * l->tile_n;
    }
}

/* ---- work
 * ------------------------------------------------------------------------ */

static double elements(const facc_tensor *t)
{
    double n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->stride[i] == 0 ? 1 : (double)t->shape[i];
    return n;
}

static void count_bytes(const facc_args *a, const facc_variant *v,
                        struct roof_load *l)
{
    const double size = (double)facc_dtype_size(v->dtype);
    const double out =
        (double)facc_dtype_size(v->out_dtype ? v->out_dtype : v->dtype);
    double *bytes = l->tensor_bytes;
    bytes[0] = elements(&a->q) * size * l->q_share;
    bytes[1] = elements(&a->k) * size * l->kv_share;
    bytes[2] = elements(&a->v) * size * l->kv_share;
    bytes[3] = elements(&a->o) * out;
    bytes[4] = elements(&a->lse) * 4;
    bytes[5] = 0;
    for (int i = 0; i < a->n_tensors; i++)
        bytes[5] += elements(&a->tensors[i]) *
                    (double)facc_dtype_size(a->tensors[i].dtype);
    l->work[ROOF_MEMORY] = 0;
    for (int i = 0; i < 6; i++)
        l->work[ROOF_MEMORY] += bytes[i];
    /* each tile that is computed loads its K and V rows */
    l->work[ROOF_L2] = l->computed / l->tile_m *
                           (double)(a->k.shape[3] + a->v.shape[3]) * size +
                       bytes[0] + bytes[3];
}

/* Products take 16 elements of a head dim at a time. */
static double padded(int64_t dim)
{
    return 16 * ceil((double)dim / 16);
}

int roof_load(struct job *job, const facc_args *a, const facc_variant *v,
              bool gpu, struct roof_load *l)
{
    memset(l, 0, sizeof *l);
    int rc = ask_library(job, v, gpu, l);
    if (rc)
        return rc;
    if (a->n_tensors < facc_program_tensor_count(job->program) ||
        a->n_params < facc_program_param_count(job->program))
        l->unknown = true;
    count_cells(job, a, l);
    if (l->unknown)
        count_all(a, l);
    const double D = (double)a->q.shape[3], Dv = (double)a->v.shape[3];
    l->flops = 2 * (D + Dv) * l->kept;
    l->work[ROOF_MATH] =
        gpu ? 2 * l->computed * (padded(a->q.shape[3]) + padded(a->v.shape[3]))
            : l->flops;
    l->work[ROOF_EXP] = l->computed * (1 + l->functions);
    count_bytes(a, v, l);
    l->busy = 1;
    return EXIT_OK;
}

/* Rows of tiles: what cores share among them. */
static double rows_of_tiles(const facc_args *a, int tile)
{
    const int64_t B = a->cu_seqlens_q ? a->n_seqs : a->q.shape[0];
    double n = 0;
    for (int64_t b = 0; b < B; b++)
        n += (double)a->q.shape[1] *
             tiles((double)sequence_length(a, false, b), tile);
    return n;
}

void roof_solve(struct roof *r)
{
    const struct roof_load *l = &r->load;
    r->best = 0;
    r->limiter = ROOF_MEMORY;
    for (int u = 0; u < ROOF_UNITS; u++) {
        double rate = r->machine.rate[u];
        if (u == ROOF_MATH || u == ROOF_EXP)
            rate *= l->busy; /* a core that has no tile computes nothing */
        r->seconds[u] = rate > 0 ? l->work[u] / rate : 0;
        if (r->seconds[u] > r->best) {
            r->best = r->seconds[u];
            r->limiter = (enum roof_unit)u;
        }
    }
    const double bytes = l->work[ROOF_MEMORY];
    r->intensity = bytes > 0 ? l->flops / bytes : 0;
    r->ridge = r->machine.rate[ROOF_MATH] / r->machine.rate[ROOF_MEMORY];
}

int roof_make(const struct command *c, const struct options *o, struct job *job,
              double seconds, struct roof *r)
{
    const facc_args *a = &job->args;
    const facc_variant *v = &job->variant;
    const bool gpu = v->arch != 0 || job->device >= 0;
    facc_error err = FACC_ERROR_INIT;
    facc_device_info info = FACC_DEVICE_INFO_INIT;
    int arch = v->arch;
    if (gpu && !arch) {
        if (facc_device_info_get(job->ctx, job->device, &info, &err))
            return cli_fail_facc(&err);
        arch = info.arch;
    }
    const char *family =
        arch == 90 && v->family != FACC_FAMILY_SM80 ? "sm90" : "sm80";
    int rc = roof_load(job, a, v, gpu, &r->load);
    if (rc)
        return rc;
    if (gpu)
        rc = roof_machine_gpu(c, o, job, arch, family, v->dtype, &r->machine);
    else if (r->machine.cores == 0) /* measured once */
        roof_machine_cpu(o->threads, &r->machine);
    if (rc)
        return rc;
    r->load.busy = fmin(1, rows_of_tiles(a, r->load.tile_m) / r->machine.cores);
    r->measured = seconds;
    roof_solve(r);
    return EXIT_OK;
}

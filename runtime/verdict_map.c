/* facc_verdict_map: the mask of one (b, h) on the CPU. In: a program and a
 * call on host memory of which only sizes, lengths, params, captured tensors
 * and block lists are read. Out: a verdict per tile, as the kernels' schedule
 * would have it, the cells themselves, and counts of both. */
#include <stdio.h>
#include <string.h>

#include "compiler/passes/verdict.h"
#include "runtime/args.h"
#include "runtime/context.h"
#include "runtime/cpu/cpu_call.h"
#include "runtime/error.h"
#include "templates/common/kernel_args.h"

static const char stage_name[] = "mask";

/* Columns that the evaluator makes at a time. */
enum { CHUNK = 512 };

struct map {
    facc_args args;
    struct args_sizes size;
    struct cpu_env env;
    int b, h;
    int64_t len_q, len_kv; /* of b */
    enum mask_tier tier;   /* of the program, whatever the block lists */
    struct verdict_state *verdicts; /* NULL: all FULL */
    struct eval_state *eval;        /* NULL: every cell counts, or OPAQUE */
    const uint8_t *classes;         /* [block rows][cols] of (b, h), or NULL */
    uint8_t keep[CHUNK];
    struct diag *d;
};

/* Rows q0 .. q1 - 1 and columns kv0 .. kv1 - 1, inside the lengths. */
struct rect {
    int64_t q0, q1, kv0, kv1;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* --- cells -------------------------------------------------------------- */

/* Without block lists the program alone decides. */
static enum verdict class_at(const struct map *m, int64_t q, int64_t kv)
{
    const facc_block_mask *k = &m->size.block_mask;
    return m->classes
               ? (enum verdict)
                     m->classes[q / k->block_q * k->cols + kv / k->block_kv]
               : VERDICT_PARTIAL;
}

/* The part of one chunk's rows in r; all of it in one column of blocks. */
static bool chunk_cells(struct map *m, const struct rect *r, uint8_t *out,
                        int64_t *kept)
{
    const int n = (int)(r->kv1 - r->kv0);
    if (m->eval && !eval_tile(m->eval, m->b, m->h, r->kv0, n, m->d))
        return false;
    for (int64_t q = r->q0; q < r->q1; q++) {
        uint8_t *keep = out ? out + q * m->size.Skv + r->kv0 : m->keep;
        const enum verdict c = class_at(m, q, r->kv0);
        if (c != VERDICT_PARTIAL || !m->eval)
            memset(keep, c != VERDICT_EMPTY, (size_t)n);
        else if (!eval_row(m->eval, q, NULL, keep, m->d))
            return false;
        for (int i = 0; i < n; i++)
            *kept += keep[i];
    }
    return true;
}

/* Adds to *kept the cells of r that count; out: [Sq][Skv], or NULL. */
static bool rect_cells(struct map *m, const struct rect *r, uint8_t *out,
                       int64_t *kept)
{
    const int64_t block = m->classes ? m->size.block_mask.block_kv : CHUNK;
    struct rect chunk = *r;
    for (int64_t kv = r->kv0; kv < r->kv1; kv = chunk.kv1) {
        chunk.kv0 = kv;
        chunk.kv1 = least(least(kv + CHUNK, r->kv1), (kv / block + 1) * block);
        if (!chunk_cells(m, &chunk, out, kept))
            return false;
    }
    return true;
}

/* --- verdicts ----------------------------------------------------------- */

static bool scan(struct map *m, const struct rect *r, enum verdict *out)
{
    int64_t kept = 0;
    if (!rect_cells(m, r, NULL, &kept))
        return false;
    *out = kept == 0                                     ? VERDICT_EMPTY
           : kept == (r->q1 - r->q0) * (r->kv1 - r->kv0) ? VERDICT_FULL
                                                         : VERDICT_PARTIAL;
    return true;
}

/* As scan_tile of templates/common/scan.cuh has it. */
static bool rect_verdict(struct map *m, const struct rect *r, enum verdict *out)
{
    const int64_t q_last = r->q1 - 1, kv_last = r->kv1 - 1;
    unsigned found = 1u << VERDICT_PARTIAL; /* all ask the mask */
    enum verdict by_mask = VERDICT_FULL;
    if (m->classes)
        found = cpu_classes_in(m->classes, &m->size.block_mask, r->q0, q_last,
                               r->kv0, kv_last);
    if (found >> VERDICT_PARTIAL & 1) {
        if (m->verdicts)
            by_mask = verdict_eval(m->verdicts, r->q0, q_last, r->kv0, kv_last);
        if (by_mask == VERDICT_PARTIAL && m->tier == TIER_SCANNED)
            return scan(m, r, out);
    }
    *out = cpu_classes_join(found, by_mask);
    return true;
}

/* verdicts may be NULL: only counted. */
static bool all_tiles(struct map *m, int32_t tile_q, int32_t tile_kv,
                      uint8_t *verdicts, facc_verdict_counts *counts)
{
    int64_t n[4] = {0};
    for (int64_t i = 0; i < counts->rows; i++)
        for (int64_t j = 0; j < counts->cols; j++) {
            const struct rect r = {
                i * tile_q, least((i + 1) * tile_q, m->len_q), j * tile_kv,
                least((j + 1) * tile_kv, m->len_kv)};
            enum verdict v = VERDICT_EMPTY;
            if (r.q0 < r.q1 && r.kv0 < r.kv1 && !rect_verdict(m, &r, &v))
                return false;
            if (verdicts)
                verdicts[i * counts->cols + j] = (uint8_t)v;
            n[v]++;
        }
    counts->empty = n[VERDICT_EMPTY];
    counts->full = n[VERDICT_FULL];
    counts->partial = n[VERDICT_PARTIAL];
    return true;
}

_Static_assert(FACC_TILE_EMPTY == (int)VERDICT_EMPTY &&
                   FACC_TILE_FULL == (int)VERDICT_FULL &&
                   FACC_TILE_PARTIAL == (int)VERDICT_PARTIAL,
               "the same verdicts");
_Static_assert((int)VERDICT_GRANULE == (int)FACC_GRANULE, "halving ends alike");

/* --- the whole ---------------------------------------------------------- */

static bool read_call(struct map *m, facc_ctx *ctx, const facc_program *p,
                      const facc_args *args, struct diag *d)
{
    static const struct args_rules rules = {.stage = stage_name,
                                            .sizes_only = true};
    m->d = d;
    if (!ctx || !p)
        return diag_set(d, DIAG_ARGUMENT, stage_name, NULL, 0, "%s is NULL",
                        ctx ? "program" : "ctx");
    if (!versioned_read(&m->args, sizeof m->args, args, "facc_args", d) ||
        !args_check(&m->args, &rules, &p->signature, &m->size, d))
        return false;
    if (m->b < 0 || m->b >= m->size.B || m->h < 0 || m->h >= m->size.H)
        return diag_set(d, DIAG_ARGUMENT, stage_name, NULL, 0,
                        "(b, h) is (%d, %d), of %d and %d", m->b, m->h,
                        m->size.B, m->size.H);
    if (!cpu_env_open(&m->env, &m->args, &m->size,
                      p->compiled->facts.score_masks, stage_name, d))
        return false;
    m->len_q = eval_env_len(&m->env.env, false, m->b);
    m->len_kv = eval_env_len(&m->env.env, true, m->b);
    m->classes = cpu_env_classes(&m->env, &m->size, m->b, m->h);
    return true;
}

/* wants_cells: a cell of the result cannot be had without the score. */
static bool open_program(struct map *m, const facc_program *p, bool wants_cells)
{
    const struct program *c = p->compiled;
    m->tier = c->verdict.tier;
    if (wants_cells && m->tier == TIER_OPAQUE)
        return diag_set(m->d, DIAG_UNSUPPORTED, stage_name, NULL, 0,
                        "the mask reads the score: which cells count is known "
                        "only with Q and K");
    if (m->tier == TIER_NONE)
        return true;
    m->verdicts = verdict_state_new(c->verdict_plan, EVAL_F32, &m->env.env);
    if (!m->verdicts)
        return diag_nomem(m->d, stage_name);
    if (m->tier != TIER_OPAQUE) {
        m->eval = eval_state_new(c->plan, EVAL_F32, CHUNK, &m->env.env);
        if (!m->eval)
            return diag_nomem(m->d, stage_name);
    }
    verdict_state_head(m->verdicts, m->b, m->h);
    return true;
}

static bool cells_and_counts(struct map *m, uint8_t *cells,
                             facc_verdict_counts *counts)
{
    const struct rect all = {0, m->len_q, 0, m->len_kv};
    const struct args_sizes *z = &m->size;
    counts->cells = (int64_t)z->Sq * z->Skv;
    counts->kept = -1;
    snprintf(counts->tier, sizeof counts->tier, "%s",
             m->classes ? "given" : mask_tier_name(m->tier));
    if (cells)
        memset(cells, 0, (size_t)z->Sq * (size_t)z->Skv);
    if ((!cells && counts->skip_kept) || m->tier == TIER_OPAQUE)
        return true;
    counts->kept = 0;
    return rect_cells(m, &all, cells, &counts->kept);
}

static bool verdict_map(struct map *m, const facc_program *p, int32_t tile_q,
                        int32_t tile_kv, uint8_t *verdicts, uint8_t *cells,
                        facc_verdict_counts *counts)
{
    if (tile_q < 1 || tile_kv < 1)
        return diag_set(m->d, DIAG_ARGUMENT, stage_name, NULL, 0,
                        "tiles are %d x %d", (int)tile_q, (int)tile_kv);
    counts->rows = (int32_t)(((int64_t)m->size.Sq + tile_q - 1) / tile_q);
    counts->cols = (int32_t)(((int64_t)m->size.Skv + tile_kv - 1) / tile_kv);
    return open_program(m, p, cells != NULL) &&
           all_tiles(m, tile_q, tile_kv, verdicts, counts) &&
           cells_and_counts(m, cells, counts);
}

static void close_map(struct map *m)
{
    eval_state_free(m->eval);
    verdict_state_free(m->verdicts);
    cpu_env_close(&m->env);
}

facc_status facc_verdict_map(facc_ctx *ctx, const facc_program *p,
                             const facc_args *args, int32_t b, int32_t h,
                             int32_t tile_q, int32_t tile_kv, uint8_t *verdicts,
                             uint8_t *cells, facc_verdict_counts *counts,
                             facc_error *err)
{
    struct diag d;
    struct map m = {.b = b, .h = h};
    facc_verdict_counts own = {.skip_kept = 1};
    diag_init(&d);
    bool ok = !counts || versioned_read(&own, sizeof own, counts,
                                        "facc_verdict_counts", &d);
    ok = ok && read_call(&m, ctx, p, args, &d) &&
         verdict_map(&m, p, tile_q, tile_kv, verdicts, cells, &own);
    close_map(&m);
    if (!ok)
        return error_report(err, &d, p ? p->text : NULL, NULL);
    if (counts)
        (void)versioned_write(counts, &own, sizeof own);
    return FACC_OK;
}

/* In: a configuration, what the verdict program says of the mask, the sizes of
 * a call. Out: the grids of the kernels that make its schedule, and the parts
 * of the workspace: struct facc_schedule. Called on every launch that needs
 * one; plain launches only learn that they do not. */
#include "runtime/schedule.h"

#include <limits.h>
#include <string.h>

#include "runtime/select.h"

/* Entries that a row may have. A list that is longer ends in one entry for
 * all that is left (slower, never wrong), so that the workspace stays linear
 * in the lengths: beyond 128 windows of 32 tiles of 64 keys, 256 Ki keys. */
enum { MAX_ENTRIES = 128, TILES_PER_WINDOW = 32 };

const char *entry_name(enum entry e)
{
    static const char *const names[N_ENTRIES] = {
        [ENTRY_CLASSES] = "facc_block_classes",
        [ENTRY_SUMMARIZE] = "facc_summarize",
        [ENTRY_SCAN] = "facc_scan",
        [ENTRY_SCHEDULE] = "facc_schedule",
        [ENTRY_ORDER] = "facc_order",
        [ENTRY_FORWARD] = "facc_forward",
        [ENTRY_TRANSPOSE] = "facc_transpose_v",
        [ENTRY_ROUND_SUMS] = "facc_quantize_sums",
        [ENTRY_ROUND_MEAN] = "facc_quantize_mean",
        [ENTRY_ROUND_AMAX] = "facc_quantize_amax",
        [ENTRY_ROUND_SCALE] = "facc_quantize_scale",
        [ENTRY_ROUND] = "facc_quantize_round"};
    return names[e];
}

/* ---- what programs and configurations decide ---------------------------- */

void schedule_facts(const facc_program *p, const struct unit_config *c,
                    struct schedule_facts *out)
{
    const struct verdict_program *v = &p->compiled->verdict;
    memset(out, 0, sizeof *out);
    out->tier = v->tier;
    out->per_b = (v->deps & IR_DEP_B) != 0;
    out->per_h = (v->deps & IR_DEP_H) != 0;
    out->scheduled = emit_scheduled(v, c);
    out->planned = emit_planned(v, c);
    if (!out->planned)
        return;
    out->scanned = v->tier == TIER_SCANNED;
    out->halved = v->halve;
    out->q_bytes = p->q_summary_bytes;
    out->kv_bytes = p->kv_summary_bytes;
}

/* kScans of scan.cuh. */
static bool scans(const struct schedule_facts *f, const struct unit_config *c)
{
    return f->scanned || c->block_mask;
}

unsigned schedule_entries(const struct schedule_facts *f,
                          const struct unit_config *c)
{
    if (emit_is_transpose(c))
        return 1u << ENTRY_TRANSPOSE;
    if (emit_is_quantize(c))
        return 1u << ENTRY_ROUND_AMAX | 1u << ENTRY_ROUND_SCALE |
               1u << ENTRY_ROUND |
               (c->rounding & ROUND_MEAN
                    ? 1u << ENTRY_ROUND_SUMS | 1u << ENTRY_ROUND_MEAN
                    : 0);
    if (!emit_is_schedule(c))
        return 1u << ENTRY_FORWARD;
    unsigned set = 1u << ENTRY_SCHEDULE | 1u << ENTRY_ORDER;
    if (c->block_mask)
        set |= 1u << ENTRY_CLASSES;
    if (f->q_bytes > 0 || f->kv_bytes > 0)
        set |= 1u << ENTRY_SUMMARIZE;
    if (scans(f, c))
        set |= 1u << ENTRY_SCAN;
    return set;
}

const char *schedule_tier(const struct schedule_facts *f,
                          const struct unit_config *c)
{
    return c->block_mask ? "given" : mask_tier_name(f->tier);
}

/* ---- sizes -------------------------------------------------------------- */

/* Sizes so far, all from 0 to INT_MAX: kernels count in ints. */
struct sums {
    const struct args_sizes *z;
    int b, heads; /* that rows are made for */
    bool fits;
};

static int whole(struct sums *s, int64_t n)
{
    if (n > INT_MAX) {
        s->fits = false;
        return 0;
    }
    return (int)n;
}

static int product(struct sums *s, int a, int b)
{
    return whole(s, (int64_t)a * b);
}

static int blocks(int n, int width)
{
    return (int)(((int64_t)n + width - 1) / width);
}

/* Ids of one h of what is `width` positions wide: as kernel_args.h counts. */
static int ids(struct sums *s, bool q, int width)
{
    const struct args_sizes *z = s->z;
    if (z->packed)
        return whole(s, (int64_t)(q ? z->Tq : z->Tkv) / width + z->B);
    return product(s, s->b, blocks(q ? z->Sq : z->Skv, width));
}

/* Of warps with rows of their own: kGroups of sm80/shape.cuh, where two take
 * turns, and of sm90/shape.cuh, where the last four warps load. */
static int groups(const struct unit_config *c)
{
    if (select_is_sm90(c))
        return c->warps / 4 - 1;
    return c->warps == 8 ? 2 : 1;
}

static void count(const struct unit_config *c, const struct schedule_facts *f,
                  struct sums *s, struct facc_schedule *at)
{
    const int tiles = blocks(s->z->Skv, c->tile_n);
    at->row_ids = ids(s, true, c->tile_m);
    at->max_rows = product(s, at->row_ids, s->heads);
    at->windows = blocks(tiles, TILES_PER_WINDOW);
    if (f->planned || c->block_mask) /* else rows only say the order */
        at->max_entries = at->windows < MAX_ENTRIES ? at->windows : MAX_ENTRIES;
    if (f->q_bytes > 0) {
        at->q_ids[FACC_LEVEL_TILE] = ids(s, true, c->tile_m / groups(c));
        at->q_ids[FACC_LEVEL_GRANULE] =
            f->halved ? ids(s, true, FACC_GRANULE) : 0;
    }
    if (f->kv_bytes > 0) {
        at->kv_ids[FACC_LEVEL_TILE] = ids(s, false, c->tile_n);
        at->kv_ids[FACC_LEVEL_WINDOW] =
            ids(s, false, TILES_PER_WINDOW * c->tile_n);
        at->kv_ids[FACC_LEVEL_GRANULE] =
            f->halved ? ids(s, false, FACC_GRANULE) : 0;
    }
    for (int i = 0; i < FACC_LEVELS; i++) { /* records have int numbers */
        (void)product(s, at->q_ids[i], s->heads);
        (void)product(s, at->kv_ids[i], s->heads);
    }
}

/* ---- the workspace ------------------------------------------------------ */

/* Where parts go, one behind the other. */
struct space {
    uintptr_t base;
    size_t used;
};

static void *part(struct space *w, int64_t count, size_t size)
{
    const uintptr_t at = w->base + w->used;
    const size_t n = (size_t)count * size;
    w->used += (n + SCHEDULE_ALIGN - 1) / SCHEDULE_ALIGN * SCHEDULE_ALIGN;
    return n > 0 ? (void *)at : NULL;
}

/* Rows of blocks in all lists. */
static int class_rows(struct sums *s)
{
    const facc_block_mask *m = &s->z->block_mask;
    const int lists =
        product(s, m->per_b ? s->z->B : 1, m->per_h ? s->z->H : 1);
    return product(s, lists, m->rows);
}

static void lay_out(const struct unit_config *c, const struct schedule_facts *f,
                    struct sums *s, void *workspace, struct schedule *out)
{
    struct facc_schedule *at = &out->at;
    struct space w = {(uintptr_t)workspace, 0};
    const size_t bits = (size_t)groups(c) * sizeof(struct facc_schedule_bits);
    const int64_t rows = at->max_rows;
    at->rows = part(&w, rows, sizeof *at->rows);
    at->order = part(&w, rows, sizeof *at->order);
    at->entries = part(&w, rows * at->max_entries,
                       sizeof(struct facc_schedule_entry) + bits);
    for (int i = 0; i < FACC_LEVELS; i++) {
        at->q_summary[i] =
            part(&w, (int64_t)at->q_ids[i] * s->heads, (size_t)f->q_bytes);
        at->kv_summary[i] =
            part(&w, (int64_t)at->kv_ids[i] * s->heads, (size_t)f->kv_bytes);
    }
    if (scans(f, c))
        at->scan = part(&w, rows * at->windows, bits);
    if (c->block_mask)
        at->block_classes =
            part(&w, (int64_t)class_rows(s) * s->z->block_mask.cols, 1);
    if (select_is_sm90(c))
        out->next_item = part(&w, 2, sizeof *out->next_item);
    out->bytes = w.used;
}

/* ---- grids -------------------------------------------------------------- */

static void scheduled_grids(const struct unit_config *c,
                            const struct schedule_facts *f, struct sums *s,
                            struct schedule *out)
{
    const struct facc_schedule *at = &out->at;
    const int warps = FACC_PREPARE_THREADS / 32;
    const int row_warps = FACC_SUMMARIZE_THREADS / 32 / groups(c);
    const int64_t windows = (int64_t)at->kv_ids[FACC_LEVEL_WINDOW] * s->heads;
    if (c->block_mask)
        out->grid[ENTRY_CLASSES] = class_rows(s);
    out->grid[ENTRY_SUMMARIZE] =
        whole(s, (f->kv_bytes > 0 ? windows : 0) +
                     (f->q_bytes > 0 ? blocks(at->max_rows, row_warps) : 0));
    if (scans(f, c))
        out->grid[ENTRY_SCAN] = product(s, at->max_rows, at->windows);
    out->grid[ENTRY_SCHEDULE] = blocks(at->max_rows, warps);
    out->grid[ENTRY_ORDER] = at->max_rows > 0;
    const int b = at->per_b ? 1 : s->z->B, h = at->per_h ? 1 : s->z->H;
    out->grid[ENTRY_FORWARD] = product(s, product(s, at->max_rows, b), h);
}

/* How many (b, h), of those that share rows, each of `tiles` query tiles, make
 * a section: as many as have K and V of some 16 MB, which stay in L2 (16
 * documents of 8,192 keys: 8 MB 1 %, 32 MB 2 % slower). The last section has
 * tiles enough, longest first, for the CTAs to end at about one time. by_b,
 * by_h: rows are of one b, of one h. */
static void make_sections(const struct args_sizes *z, bool by_b, bool by_h,
                          int tiles, struct schedule *out)
{
    enum { SECTION_BYTES = 16 << 20, LAST_TILES = 500 };
    const int heads = (by_b ? 1 : z->B) * (by_h ? 1 : z->H);
    out->section_heads = 1;
    if (tiles == 0 || z->H == 0)
        return;
    const int64_t rows =
        (int64_t)(z->packed ? 1 : z->B) * z->Hkv * (int64_t)z->Tkv;
    const double bytes = 2.0 * (z->D + z->Dv) * (double)rows / heads;
    const double fit = bytes > 0 ? SECTION_BYTES / bytes + 0.5 : heads;
    const int n = fit < heads ? (int)fit : heads,
              least = blocks(LAST_TILES, tiles);
    out->section_heads = n > 1 ? n : 1;
    out->last_section =
        least < heads ? (heads - least) / out->section_heads : 0;
}

static bool too_large(const struct args_sizes *z, const char *stage,
                      struct diag *d)
{
    return diag_set(d, FACC_ERR_UNSUPPORTED, stage, NULL, 0,
                    "B %d, H %d, Sq %d, Skv %d are too large for one launch: "
                    "split the batch",
                    z->B, z->H, z->Tq, z->Tkv);
}

bool schedule_make(const struct unit_config *c, const struct schedule_facts *f,
                   const facc_args *args, const struct args_sizes *z,
                   const char *stage, struct schedule *out, struct diag *d)
{
    struct sums s = {z, 1, 1, true};
    struct facc_schedule *at = &out->at;
    memset(out, 0, sizeof *out);
    out->q_tiles = blocks(z->Sq, c->tile_m);
    out->needed = f->scheduled;
    /* Positions in padded tiles must stay ints as well. */
    (void)whole(&s, ((int64_t)out->q_tiles + 1) * c->tile_m);
    (void)whole(&s, (int64_t)z->Skv + 2 * (int64_t)c->tile_n);
    if (!out->needed) {
        const int heads = product(&s, z->B, z->H);
        out->grid[ENTRY_FORWARD] = product(&s, heads, out->q_tiles);
        return s.fits || too_large(z, stage, d);
    }
    out->tiling = (struct facc_tiling){c->tile_m, c->tile_n, groups(c),
                                       c->tile_m / groups(c)};
    at->per_b = f->per_b || z->packed || args->seqused_q || args->seqused_kv ||
                (c->block_mask && z->block_mask.per_b);
    at->per_h = f->per_h || (c->block_mask && z->block_mask.per_h);
    s.b = at->per_b ? z->B : 1;
    s.heads = at->per_h ? z->H : 1;
    count(c, f, &s, at);
    scheduled_grids(c, f, &s, out);
    if (!s.fits)
        return too_large(z, stage, d);
    lay_out(c, f, &s, args->workspace, out);
    if (select_is_sm90(c))
        make_sections(z, at->per_b, at->per_h, at->max_rows, out);
    return true;
}

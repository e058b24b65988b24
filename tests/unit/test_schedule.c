/* Schedules of launches over a recording driver: which kernels run, in what
 * grids, and where in the workspace their parts lie. Facts of programs are set
 * by hand. No GPU, no NVRTC. */
#include "tests/unit/launch_fixture.h"

#include <stdint.h>
#include <stdio.h>

/* A document mask's: depends on b, both sides summarised. */
static const struct schedule_facts document = {.tier = TIER_RANGED,
                                               .planned = true,
                                               .halved = true,
                                               .per_b = true,
                                               .q_bytes = 8,
                                               .kv_bytes = 24};
/* One of each h that is scanned. */
static const struct schedule_facts scanned = {.tier = TIER_SCANNED,
                                              .planned = true,
                                              .scanned = true,
                                              .per_h = true,
                                              .kv_bytes = 4};

/* As if the kernel were made for another program: it is loaded anew. */
static void set_facts(struct made_kernel *m, struct schedule_facts f)
{
    const struct unit_config *c = &m->kernel->plans.plan[0].config;
    f.scheduled = f.planned || c->packed || c->block_mask;
    make_scheduled(m, &f);
    load(m);
}

static size_t size_of(struct made_kernel *m)
{
    size_t bytes = 1, align = 0;
    ck_assert_int_eq(
        facc_workspace_size(m->kernel, &m->call.args, &bytes, &align), FACC_OK);
    ck_assert_uint_eq(align, 256);
    ck_assert_uint_eq(bytes % 256, 0);
    return bytes;
}

/* A workspace that is just enough; the driver touches none. */
static void give_workspace(struct made_kernel *m)
{
    m->call.args.workspace_size = size_of(m);
    m->call.args.workspace = (void *)(uintptr_t)0x7f0000000100;
}

static struct facc_kernel_header launched(struct made_kernel *m)
{
    facc_error err = FACC_ERROR_INIT;
    struct facc_kernel_header h;
    rec.launches = 0;
    ck_assert_msg(facc_kernel_launch(m->kernel, &m->call.args, NULL, &err) ==
                      FACC_OK,
                  "%s", err.message);
    memcpy(&h, rec.args, sizeof h);
    return h;
}

/* Launch number `i` was of this entry, and of that many CTAs. */
static void ck_seen(int i, enum entry e, int64_t grid)
{
    const struct seen *s = &rec.seen[i];
    ck_assert_int_lt(i, rec.launches);
    ck_assert_msg(s->entry == e, "%d: %s, not %s", i, entry_name(s->entry),
                  entry_name(e));
    ck_assert_msg(s->grid == grid, "%s: %u CTAs, not %lld", entry_name(e),
                  s->grid, (long long)grid);
    if (e != ENTRY_FORWARD) {
        ck_assert_uint_eq(s->shared, 0);
        const bool large = e == ENTRY_ORDER || e == ENTRY_SUMMARIZE;
        ck_assert_uint_eq(s->block, large ? 1024 : 128);
    }
}

/* ---- parts of the workspace --------------------------------------------- */

struct region {
    uintptr_t at;
    size_t bytes;
};

static void add(struct region *list, int *n, const void *p, int64_t count,
                size_t size)
{
    if (count * (int64_t)size == 0) {
        ck_assert_ptr_null(p);
        return;
    }
    ck_assert_ptr_nonnull(p);
    list[(*n)++] = (struct region){(uintptr_t)p, (size_t)count * size};
}

/* Every part is inside the workspace, aligned, and nobody else's. */
static void ck_parts(const struct made_kernel *m,
                     const struct facc_kernel_header *h)
{
    const struct facc_schedule *s = &h->schedule;
    const struct schedule_facts *f = &m->kernel->plans.plan[0].facts;
    const struct unit_config *c = &m->kernel->plans.plan[0].config;
    const size_t bits = c->warps == 8 ? 16 : 8;
    const int64_t rows = s->max_rows, heads = s->per_h ? h->H : 1;
    struct region list[16];
    int n = 0;
    add(list, &n, s->rows, rows, sizeof *s->rows);
    add(list, &n, s->order, rows, sizeof *s->order);
    add(list, &n, s->entries, rows * s->max_entries, 8 + bits);
    for (int i = 0; i < FACC_LEVELS; i++) {
        add(list, &n, s->q_summary[i], s->q_ids[i] * heads, (size_t)f->q_bytes);
        add(list, &n, s->kv_summary[i], s->kv_ids[i] * heads,
            (size_t)f->kv_bytes);
    }
    const bool scan = f->scanned || c->block_mask;
    add(list, &n, s->scan, scan ? rows * s->windows : 0, bits);
    const int64_t lists =
        (h->block_per_b ? h->B : 1) * (h->block_per_h ? h->H : 1);
    add(list, &n, s->block_classes, lists * h->block_rows * h->block_cols, 1);

    const uintptr_t base = (uintptr_t)m->call.args.workspace;
    for (int i = 0; i < n; i++) {
        ck_assert_uint_eq(list[i].at % 256, 0);
        ck_assert_uint_ge(list[i].at, base);
        ck_assert_uint_le(list[i].at + list[i].bytes,
                          base + m->call.args.workspace_size);
        for (int k = 0; k < i; k++)
            ck_assert(list[i].at >= list[k].at + list[k].bytes ||
                      list[k].at >= list[i].at + list[i].bytes);
    }
}

static int64_t up(int64_t n, int64_t width)
{
    return (n + width - 1) / width;
}

/* ---- which kernels, how many CTAs --------------------------------------- */

START_TEST(ranged_mask)
{
    struct made_kernel m;
    make_kernel(&m);
    set_facts(&m, document);
    give_workspace(&m);
    struct facc_kernel_header h = launched(&m);
    const struct unit_config *c = &m.kernel->plans.plan[0].config;
    const int64_t tiles = up(SQ, c->tile_m), rows = B * tiles;
    const int64_t windows = up(SKV, 32 * c->tile_n);
    ck_assert_int_eq(rec.launches, 4);
    ck_seen(0, ENTRY_SUMMARIZE, B * windows + up(rows, 16));
    ck_seen(1, ENTRY_SCHEDULE, up(rows, 4));
    ck_seen(2, ENTRY_ORDER, 1);
    ck_seen(3, ENTRY_FORWARD, rows * H);
    ck_assert_uint_eq(rec.shared, (unsigned)c->shared_bytes);
    const struct facc_schedule *s = &h.schedule;
    ck_assert(s->per_b == 1 && s->per_h == 0);
    ck_assert(s->row_ids == rows && s->max_rows == rows);
    ck_assert(s->windows == windows && s->max_entries == windows);
    ck_assert_int_eq(s->q_ids[FACC_LEVEL_TILE], B * tiles);
    ck_assert_int_eq(s->q_ids[FACC_LEVEL_WINDOW], 0);
    ck_assert_int_eq(s->q_ids[FACC_LEVEL_GRANULE], B * up(SQ, FACC_GRANULE));
    ck_assert_int_eq(s->kv_ids[FACC_LEVEL_TILE], B * up(SKV, c->tile_n));
    ck_assert_int_eq(s->kv_ids[FACC_LEVEL_WINDOW], B * windows);
    ck_assert_int_eq(s->kv_ids[FACC_LEVEL_GRANULE], B * up(SKV, FACC_GRANULE));
    ck_assert_int_eq(h.num_work, (int)(rows * H));
    ck_parts(&m, &h);
    drop_kernel(&m);
}
END_TEST

/* Two groups of warps, a scan, rows of each h, only one side's summaries. */
START_TEST(scanned_mask)
{
    struct made_kernel m;
    make_kernel(&m);
    struct unit_config *c = &m.kernel->plans.plan[0].config;
    c->warps = 8;
    c->tile_m = 64;
    c->tile_n = 16;
    set_facts(&m, scanned);
    m.call.args.k.shape[2] = m.call.args.v.shape[2] = 3000;
    m.call.captured[1].shape[1] = 3000;
    give_workspace(&m);
    struct facc_kernel_header h = launched(&m);
    const int64_t tiles = up(SQ, 64), windows = up(3000, INT64_C(32) * 16);
    ck_assert_int_eq(rec.launches, 5);
    ck_seen(0, ENTRY_SUMMARIZE, H * windows);
    ck_seen(1, ENTRY_SCAN, tiles * H * windows);
    ck_seen(2, ENTRY_SCHEDULE, up(tiles * H, 4));
    ck_seen(3, ENTRY_ORDER, 1);
    ck_seen(4, ENTRY_FORWARD, tiles * H * B);
    ck_assert(h.schedule.row_ids == tiles && h.schedule.max_rows == tiles * H);
    ck_assert_int_eq(h.schedule.kv_ids[FACC_LEVEL_GRANULE], 0);
    ck_parts(&m, &h);

    m.kernel->plans.plan[0].facts.q_bytes = 8; /* of a group's rows */
    m.kernel->plans.plan[0].facts.kv_bytes = 0;
    give_workspace(&m);
    h = launched(&m);
    ck_seen(0, ENTRY_SUMMARIZE, up(tiles * H, 16)); /* 32 warps */
    ck_assert_int_eq(h.schedule.q_ids[FACC_LEVEL_TILE], up(SQ, 32));
    ck_parts(&m, &h);
    drop_kernel(&m);
}
END_TEST

/* Used lengths differ between sequences, so rows do. */
START_TEST(used_lengths)
{
    const int32_t used[2] = {5, 6};
    struct schedule_facts f = document;
    struct made_kernel m;
    make_kernel(&m);
    f.per_b = false;
    set_facts(&m, f);
    give_workspace(&m);
    struct facc_kernel_header h = launched(&m);
    const int rows = h.schedule.max_rows;
    ck_assert_int_eq(h.schedule.per_b, 0);
    ck_assert_int_eq(h.num_work, rows * B * H);
    m.call.args.seqused_kv = used;
    give_workspace(&m);
    h = launched(&m);
    ck_assert_int_eq(h.schedule.per_b, 1);
    ck_assert_int_eq(h.schedule.max_rows, rows * B);
    ck_assert_int_eq(h.num_work, rows * B * H);
    ck_parts(&m, &h);
    drop_kernel(&m);
}
END_TEST

/* A mask of plain bounds: nothing is summarised, but there are rows. */
START_TEST(packed_sequences)
{
    struct made_kernel m;
    make_kernel(&m);
    set_facts(&m, (struct schedule_facts){.tier = TIER_ANALYTIC});
    ck_assert_uint_eq(size_of(&m), 0);
    pack_call(&m.call);
    m.kernel->plans.plan[0].config.packed = true;
    set_facts(&m, m.kernel->plans.plan[0].facts);
    give_workspace(&m);
    struct facc_kernel_header h = launched(&m);
    const struct unit_config *c = &m.kernel->plans.plan[0].config;
    const int64_t rows = SQ / c->tile_m + N_SEQS;
    ck_assert_int_eq(rec.launches, 3);
    ck_seen(0, ENTRY_SCHEDULE, up(rows, 4));
    ck_seen(1, ENTRY_ORDER, 1);
    ck_seen(2, ENTRY_FORWARD, rows * H);
    ck_assert_ptr_eq(h.cu_seqlens_q, memory);
    ck_assert_ptr_eq(h.cu_seqlens_kv, memory);
    ck_assert(h.B == N_SEQS && h.Sq == MAX_Q && h.Skv == MAX_KV);
    ck_assert(h.q_stride[0] == 0 && h.q_stride[1] == SQ * D);
    ck_assert(h.k_stride[0] == 0 && h.v_stride[0] == 0);
    ck_assert(h.o_stride[0] == 0 && h.lse_stride[0] == 0);
    ck_assert_int_eq(h.lse_stride[1], SQ);
    ck_assert(h.schedule.per_b == 1 && h.schedule.max_rows == rows);
    ck_assert_int_eq(h.schedule.max_entries, 0); /* only the order */
    ck_assert_int_eq(h.q_tiles, (int)up(MAX_Q, c->tile_m));
    ck_parts(&m, &h);

    set_facts(&m, document);
    give_workspace(&m);
    h = launched(&m);
    ck_assert_int_eq(h.schedule.kv_ids[FACC_LEVEL_GRANULE],
                     SKV / FACC_GRANULE + N_SEQS);
    ck_assert_int_eq(h.schedule.kv_ids[FACC_LEVEL_WINDOW],
                     SKV / (32 * c->tile_n) + N_SEQS);
    ck_seen(0, ENTRY_SUMMARIZE,
            h.schedule.kv_ids[FACC_LEVEL_WINDOW] + up(h.schedule.max_rows, 16));
    ck_parts(&m, &h);
    drop_kernel(&m);
}
END_TEST

START_TEST(block_mask)
{
    facc_block_mask lists;
    struct made_kernel m;
    make_kernel(&m);
    mask_call(&m.call, &lists);
    m.kernel->plans.plan[0].config.block_mask = true;
    set_facts(&m, (struct schedule_facts){.tier = TIER_ANALYTIC});
    give_workspace(&m);
    struct facc_kernel_header h = launched(&m);
    const int64_t tiles = up(SQ, m.kernel->plans.plan[0].config.tile_m);
    ck_assert_int_eq(rec.launches, 5);
    ck_seen(0, ENTRY_CLASSES, H * lists.rows);
    ck_seen(1, ENTRY_SCAN, tiles * H * h.schedule.windows);
    ck_seen(2, ENTRY_SCHEDULE, up(tiles * H, 4));
    ck_seen(3, ENTRY_ORDER, 1);
    ck_seen(4, ENTRY_FORWARD, tiles * H * B);
    ck_assert(h.schedule.per_h == 1 && h.schedule.per_b == 0);
    ck_assert_ptr_eq(h.block_counts, memory);
    ck_assert_ptr_eq(h.full_indices, memory);
    ck_assert(h.block_size_q == 32 && h.block_size_kv == 16);
    ck_assert(h.block_rows == lists.rows && h.block_cols == lists.cols);
    ck_assert(h.block_per_b == 0 && h.block_per_h == 1);
    ck_parts(&m, &h);

    lists.per_b = 7; /* any number but 0 */
    lists.per_h = 0;
    lists.full_kv_num_blocks = lists.full_kv_indices = NULL;
    give_workspace(&m);
    h = launched(&m);
    ck_seen(0, ENTRY_CLASSES, B * lists.rows);
    ck_assert(h.schedule.per_h == 0 && h.schedule.per_b == 1);
    ck_assert(h.block_per_b == 1 && !h.full_counts && !h.full_indices);
    ck_parts(&m, &h);
    drop_kernel(&m);
}
END_TEST

/* ---- used again, refused ------------------------------------------------ */

START_TEST(schedule_ready)
{
    struct made_kernel m;
    make_kernel(&m);
    set_facts(&m, document);
    give_workspace(&m);
    struct facc_kernel_header h = launched(&m), again;
    m.call.args.schedule_ready = 1;
    again = launched(&m);
    ck_assert_int_eq(rec.launches, 1);
    ck_seen(0, ENTRY_FORWARD, h.num_work);
    ck_assert_mem_eq(&h, &again, sizeof h);
    drop_kernel(&m);
}
END_TEST

static void ck_refused(struct made_kernel *m, facc_status want,
                       const char *says)
{
    facc_error err = FACC_ERROR_INIT;
    rec.launches = 0;
    facc_status s = facc_kernel_launch(m->kernel, &m->call.args, NULL, &err);
    ck_assert_msg(s == want, "%s: %s", facc_status_name(s), err.message);
    ck_assert_msg(strstr(err.message, says) != NULL, "%s", err.message);
    ck_assert_int_eq(rec.launches, 0);
}

/* A kernel is for packed sequences or for none, whatever its mask. */
START_TEST(packed_is_checked)
{
    size_t bytes = 77, align;
    struct made_kernel m;
    make_kernel(&m);
    load(&m);
    for (int i = 0; i < 2; i++) {
        m.kernel->plans.plan[0].config.packed = true;
        ck_refused(&m, FACC_ERR_ARGUMENT, "is made for packed sequences");
        ck_assert_int_eq(
            facc_workspace_size(m.kernel, &m.call.args, &bytes, &align),
            FACC_ERR_ARGUMENT);
        m.kernel->plans.plan[0].config.packed = false;
        set_facts(&m, document);
    }
    pack_call(&m.call);
    ck_refused(&m, FACC_ERR_ARGUMENT, "set facc_variant.packed");
    ck_assert_int_eq(
        facc_workspace_size(m.kernel, &m.call.args, &bytes, &align),
        FACC_ERR_ARGUMENT);
    ck_assert_uint_eq(bytes, 77);
    m.kernel->plans.plan[0].config.packed = true;
    give_workspace(&m);
    (void)launched(&m);
    ck_assert_int_eq(rec.launches, 4);
    drop_kernel(&m);
}
END_TEST

START_TEST(workspace_is_checked)
{
    struct made_kernel m;
    make_kernel(&m);
    set_facts(&m, document);
    give_workspace(&m);
    facc_args *a = &m.call.args;
    a->workspace_size--;
    ck_refused(&m, FACC_ERR_ARGUMENT, "workspace has");
    a->schedule_ready = 1; /* all the more */
    ck_refused(&m, FACC_ERR_ARGUMENT, "workspace has");
    a->workspace_size++;
    a->workspace = (char *)a->workspace + 128;
    ck_refused(&m, FACC_ERR_ARGUMENT, "aligned to 256");
    a->workspace = NULL;
    ck_refused(&m, FACC_ERR_ARGUMENT, "workspace has 0 bytes");
    drop_kernel(&m);
}
END_TEST

/* A kernel that cannot be launched ends the sequence. */
START_TEST(driver_fails)
{
    struct made_kernel m;
    make_kernel(&m);
    set_facts(&m, document);
    give_workspace(&m);
    rec.launch_result = 719;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, NULL),
                     FACC_ERR_CUDA);
    ck_assert_int_eq(rec.launches, 1);
    ck_assert_int_eq(rec.pushes, rec.pops);
    drop_kernel(&m);
}
END_TEST

static void set_lengths(struct made_kernel *m, int64_t b, int64_t h, int64_t s)
{
    facc_args *a = &m->call.args;
    a->q.shape[0] = a->k.shape[0] = a->v.shape[0] = a->o.shape[0] = b;
    a->q.shape[1] = a->k.shape[1] = a->v.shape[1] = a->o.shape[1] = h;
    a->q.shape[2] = a->k.shape[2] = a->v.shape[2] = a->o.shape[2] = s;
    a->lse.data = NULL;
    m->call.captured[0].shape[0] = h;
    m->call.captured[1].shape[0] = b;
    m->call.captured[1].shape[1] = s;
    for (int i = 0; i < 4; i++) /* no memory is as large */
        a->q.stride[i] = a->k.stride[i] = a->v.stride[i] = i == 3;
}

START_TEST(too_large)
{
    static const int64_t cases[][3] = {
        {1 << 30, 1, 1 << 20}, /* rows */
        {1 << 12, 1, 1 << 24}, /* granules of 16 */
        {1 << 10, 1 << 10, 1 << 20},
        {1 << 20, 1 << 12, 1}, /* CTAs of facc_forward */
    };
    static const char says[] = "too large for one launch";
    struct made_kernel m;
    make_kernel(&m);
    set_facts(&m, document);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t bytes = 77, align;
        set_lengths(&m, cases[i][0], cases[i][1], cases[i][2]);
        for (int k = 0; k < 4; k++)
            m.call.args.o.stride[k] = 1;
        ck_refused(&m, FACC_ERR_UNSUPPORTED, says);
        ck_assert_int_eq(
            facc_workspace_size(m.kernel, &m.call.args, &bytes, &align),
            FACC_ERR_UNSUPPORTED);
        ck_assert_uint_eq(bytes, 77);
    }
    struct schedule_facts f = document;
    f.per_h = true; /* 2^28 rows, 2^32 granules */
    f.kv_bytes = 0;
    set_facts(&m, f);
    set_lengths(&m, 1, 1 << 15, 1 << 20);
    m.call.args.o.stride[0] = m.call.args.o.stride[1] = 1;
    m.call.args.o.stride[2] = 1;
    ck_refused(&m, FACC_ERR_UNSUPPORTED, says);
    f = document;
    f.scanned = true; /* 2^13 rows of 2^18 windows */
    set_facts(&m, f);
    set_lengths(&m, 1, 1, 1 << 20);
    m.call.args.k.shape[2] = m.call.args.v.shape[2] = 1 << 30;
    m.call.captured[1].shape[1] = 1 << 30;
    m.kernel->plans.plan[0].config.tile_n = 16;
    ck_refused(&m, FACC_ERR_UNSUPPORTED, says);
    drop_kernel(&m);
}
END_TEST

/* As many CTAs of a scan of each h as an int counts, 2^30, and twice that. */
START_TEST(largest_scan)
{
    const int64_t rows = 1 << 15, windows = 1 << 15;
    struct made_kernel m;
    make_kernel(&m);
    m.kernel->plans.plan[0].config.warps = 8;
    m.kernel->plans.plan[0].config.tile_m = 64;
    m.kernel->plans.plan[0].config.tile_n = 16;
    set_facts(&m, scanned);
    set_lengths(&m, 1, 2, rows / 2 * 64);
    m.call.args.o.stride[0] = m.call.args.o.stride[1] = 1;
    m.call.args.o.stride[2] = 1;
    m.call.args.k.shape[2] = m.call.args.v.shape[2] = windows * 32 * 16;
    m.call.captured[1].shape[1] = windows * 32 * 16;
    give_workspace(&m);
    ck_assert_uint_gt(m.call.args.workspace_size,
                      (size_t)(rows * windows) * 16);
    struct facc_kernel_header h = launched(&m);
    ck_seen(0, ENTRY_SUMMARIZE, 2 * windows);
    ck_seen(1, ENTRY_SCAN, rows * windows);
    ck_seen(2, ENTRY_SCHEDULE, rows / 4);
    ck_assert_int_eq(h.num_work, rows);
    ck_assert_int_eq(h.schedule.max_entries, 128);
    ck_parts(&m, &h);
    m.call.args.k.shape[2] = m.call.args.v.shape[2] = windows * 2 * 32 * 16;
    m.call.captured[1].shape[1] = windows * 2 * 32 * 16;
    ck_refused(&m, FACC_ERR_UNSUPPORTED, "too large for one launch");
    drop_kernel(&m);
}
END_TEST

/* Lists of each (b, h), 2^60 of them: no 64-bit number of blocks. Fewer: more
 * rows than one grid has. */
START_TEST(too_many_lists)
{
    facc_block_mask lists;
    struct made_kernel m;
    make_kernel(&m);
    m.kernel->plans.plan[0].config.block_mask = true;
    set_facts(&m, (struct schedule_facts){.tier = TIER_ANALYTIC});
    set_lengths(&m, 1 << 30, 1 << 30, 1);
    for (int k = 0; k < 4; k++)
        m.call.args.o.stride[k] = 1;
    m.call.captured[1].stride[0] = 0;
    mask_call(&m.call, &lists);
    lists.per_b = lists.per_h = 1;
    lists.rows = 1 << 30;
    lists.cols = 1 << 29;
    ck_refused(&m, FACC_ERR_ARGUMENT, "beyond a 64-bit address space");
    lists.per_b = lists.per_h = 0;
    ck_refused(&m, FACC_ERR_UNSUPPORTED, "too large for one launch");
    set_lengths(&m, 1, 1, 1); /* classes: 2^59 bytes, which it may ask for */
    ck_assert_uint_gt(size_of(&m), (size_t)1 << 59);
    set_lengths(&m, 4, 1, 1); /* 2^32 rows of blocks */
    lists.per_b = 1;
    lists.cols = 1 << 20;
    ck_refused(&m, FACC_ERR_UNSUPPORTED, "too large for one launch");
    drop_kernel(&m);
}
END_TEST

/* ---- sizes -------------------------------------------------------------- */

static void real_tiles(struct made_kernel *m, int tile_m, int tile_n, int warps)
{
    m->kernel->plans.plan[0].config.tile_m = tile_m;
    m->kernel->plans.plan[0].config.tile_n = tile_n;
    m->kernel->plans.plan[0].config.warps = warps;
}

/* A million tokens with a document mask: 32 MB at most, and linear from
 * there. The tiles are those of head dims 64 and 128. */
START_TEST(workspace_is_linear)
{
    static const int tiles[][3] = {{128, 64, 4}, {256, 48, 8}};
    struct made_kernel m;
    make_kernel(&m);
    set_facts(&m, document);
    for (int i = 0; i < 2; i++) {
        real_tiles(&m, tiles[i][0], tiles[i][1], tiles[i][2]);
        set_lengths(&m, 1, 2, 1 << 20);
        size_t once = size_of(&m);
        printf("1 Mi tokens, tiles of %d x %d: workspace of %.1f MB\n",
               tiles[i][0], tiles[i][1], (double)once * 1e-6);
        fflush(stdout);
        ck_assert_uint_le(once, 32 * 1000 * 1000);
        ck_assert_uint_gt(once, 1 << 20);
        set_lengths(&m, 1, 2, 1 << 22);
        ck_assert_uint_le(size_of(&m), 4 * once + 4096);
    }
    drop_kernel(&m);
}
END_TEST

/* Ids of packed sequences, as kernel_args.h counts them: none twice, and all
 * below the number that the runtime makes room for. */
START_TEST(packed_ids_have_room)
{
    srand(7);
    for (int round = 0; round < 2000; round++) {
        const int n = 1 + rand() % 9, width = 1 + rand() % 40;
        int64_t at = 0, next = 0;
        for (int b = 0; b < n; b++) {
            const int length = rand() % 3 ? rand() % 100 : 0;
            const int64_t first = at / width + b;
            ck_assert_int_ge(first, next);
            next = first + up(length, width);
            at += length;
        }
        ck_assert_int_le(next, at / width + n);
    }
}
END_TEST

/* The last tile of a launch without rows, columns, heads: nothing to do, or
 * rows that attend to nothing. */
START_TEST(empties)
{
    struct made_kernel m;
    make_kernel(&m);
    set_facts(&m, document);
    m.call.args.k.shape[2] = m.call.args.v.shape[2] = 0;
    m.call.captured[1].shape[1] = 0;
    give_workspace(&m);
    struct facc_kernel_header h = launched(&m);
    ck_assert_int_eq(h.schedule.windows, 0);
    ck_assert_int_gt(h.num_work, 0);
    ck_seen(rec.launches - 1, ENTRY_FORWARD, h.num_work);
    ck_parts(&m, &h);
    m.call.args.q.shape[2] = m.call.args.o.shape[2] = 0;
    m.call.args.lse.shape[2] = 0;
    ck_assert_uint_eq(size_of(&m), 0);
    rec.launches = 0;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, NULL),
                     FACC_OK);
    ck_assert_int_eq(rec.launches, 0);
    drop_kernel(&m);
}
END_TEST

/* What kernel_configure finds in a program. */
static struct schedule_facts facts_of(struct call *c, const char *mask)
{
    static const facc_declaration doc = {"doc", FACC_I32, 0,
                                         2,     {-1, -1}, {"B", "kv"}};
    static const facc_declaration far = {"far", FACC_I32, 0, 1, {-1}, {"H"}};
    static const facc_declaration any = {"any", FACC_BOOL, 0,
                                         2,     {-1, -1},  {"q", "kv"}};
    const facc_declaration all[] = {doc, far, any};
    facc_error err = FACC_ERROR_INIT;
    facc_program *p;
    struct plans plans;
    struct diag d;
    diag_init(&d);
    ck_assert_msg(facc_program_load_expressions(&p, c->ctx, NULL, mask, all, 3,
                                                &err) == FACC_OK,
                  "%s", err.message);
    ck_assert(kernel_configure(c->ctx, p, &c->variant, &plans, &d));
    facc_program_free(p);
    return plans.plan[0].facts;
}

START_TEST(facts_of_programs)
{
    static const struct {
        const char *mask;
        enum mask_tier tier;
        bool planned, scanned, per_b, per_h, q, kv;
    } cases[] = {
        {NULL, TIER_NONE, false, false, false, false, false, false},
        {"q >= kv", TIER_ANALYTIC, false, false, false, false, false, false},
        {"q - kv < far[h]", TIER_RANGED, false, false, false, true, false,
         false},
        {"doc[b][kv] == doc[b][q] and q >= kv", TIER_RANGED, true, false, true,
         false, true, true},
        {"any[q][kv]", TIER_SCANNED, true, true, false, false, false, false},
    };
    struct call c;
    open_call(&c);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct schedule_facts f = facts_of(&c, cases[i].mask);
        ck_assert_msg(f.tier == cases[i].tier, "%s: %s", cases[i].mask,
                      mask_tier_name(f.tier));
        ck_assert_int_eq(f.planned, cases[i].planned);
        ck_assert_int_eq(f.scheduled, cases[i].planned);
        ck_assert_int_eq(f.scanned, cases[i].scanned);
        ck_assert_int_eq(f.per_b, cases[i].per_b);
        ck_assert_int_eq(f.per_h, cases[i].per_h);
        ck_assert_int_eq(f.q_bytes > 0, cases[i].q);
        ck_assert_int_eq(f.kv_bytes > 0, cases[i].kv);
    }
    c.variant.check_bounds = 1; /* every verdict is PARTIAL */
    struct schedule_facts f = facts_of(&c, "any[q][kv]");
    ck_assert(!f.planned && !f.scanned && f.tier == TIER_SCANNED);
    ck_assert(!f.scheduled);
    c.variant.packed = 1;
    f = facts_of(&c, "q >= kv");
    ck_assert(!f.planned && f.scheduled);
    c.variant.packed = 0;
    c.variant.block_mask = 1;
    f = facts_of(&c, NULL);
    ck_assert(!f.planned && f.scheduled);
    close_call(&c);
}
END_TEST

START_TEST(entries_of_facts)
{
    const unsigned always = 1u << ENTRY_SCHEDULE | 1u << ENTRY_ORDER;
    struct unit_config c = {.family = "sm80", .packed = true};
    struct schedule_facts f = {.scheduled = true, .tier = TIER_ANALYTIC};
    ck_assert_uint_eq(schedule_entries(&f, &c), 1u << ENTRY_FORWARD);
    c = emit_schedule(&c);
    ck_assert_uint_eq(schedule_entries(&f, &c), always);
    f = (struct schedule_facts){.scheduled = true, .q_bytes = 8};
    ck_assert_uint_eq(schedule_entries(&f, &c), always | 1u << ENTRY_SUMMARIZE);
    f = (struct schedule_facts){
        .scheduled = true, .scanned = true, .kv_bytes = 1};
    ck_assert_uint_eq(schedule_entries(&f, &c),
                      always | 1u << ENTRY_SCAN | 1u << ENTRY_SUMMARIZE);
    f = (struct schedule_facts){.scheduled = true};
    c.block_mask = true;
    ck_assert_uint_eq(schedule_entries(&f, &c),
                      always | 1u << ENTRY_SCAN | 1u << ENTRY_CLASSES);
    ck_assert_str_eq(schedule_tier(&f, &c), "given");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        ranged_mask,      scanned_mask,         used_lengths,
        packed_sequences, block_mask,           schedule_ready,
        driver_fails,     workspace_is_checked, too_large,
        empties,          workspace_is_linear,  packed_ids_have_room,
        entries_of_facts, facts_of_programs,    packed_is_checked,
        largest_scan,     too_many_lists};
    return run_tests("schedule", NULL, 0, tests,
                     sizeof tests / sizeof tests[0]);
}

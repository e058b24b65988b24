/* Launches of family sm90 over the recording driver: which code a call takes,
 * its tensor maps, grid, sections and counters; what is refused. No GPU, no
 * NVRTC. */
#include "tests/unit/launch_fixture.h"
#include "tests/unit/timing.h"

#include <stdio.h>

/* A kernel of the call's program for sm_90, loaded. */
static void make_sm90(struct made_kernel *m, int layout)
{
    open_call(&m->call);
    m->call.variant.family = FACC_FAMILY_AUTO;
    m->call.variant.layout = layout;
    make_kernel_of_call(m);
    load(m);
}

static struct facc_kernel_header launched(struct made_kernel *m)
{
    facc_error err = FACC_ERROR_INIT;
    struct facc_kernel_header h;
    rec.launches = rec.encodes = 0;
    ck_assert_msg(facc_kernel_launch(m->kernel, &m->call.args, NULL, &err) ==
                      FACC_OK,
                  "%s", err.message);
    memcpy(&h, rec.args, sizeof h);
    return h;
}

static const char *family_of(const struct made_kernel *m)
{
    static facc_kernel_info i;
    i = (facc_kernel_info)FACC_KERNEL_INFO_INIT;
    ck_assert_int_eq(facc_kernel_get_info(m->kernel, &i), FACC_OK);
    return i.launched;
}

/* ---- what a launch brings ------------------------------------------------ */

static void ck_map(int i, uint64_t columns, uint64_t rows, uint64_t heads,
                   uint64_t batch, uint32_t box_rows)
{
    const struct encoded *e = &rec.encoded[i];
    const uint64_t extent[4] = {columns, rows, heads, batch};
    ck_assert(e->type == 6 && e->rank == 4); /* f16 */
    ck_assert(e->interleave == 0 && e->fill == 0);
    ck_assert(e->swizzle == 3 && e->promotion == 3); /* 128 B, 256 B */
    ck_assert(e->box[0] == 64 && e->box[1] == box_rows);
    ck_assert(e->box[2] == 1 && e->box[3] == 1);
    for (int k = 0; k < 4; k++) {
        ck_assert_uint_eq(e->step[k], 1);
        ck_assert_msg(e->extent[k] == extent[k], "map %d: extent %d is %llu", i,
                      k, (unsigned long long)e->extent[k]);
    }
    for (int k = 0; k < 3; k++) /* what the driver asks, whatever the extent */
        ck_assert(e->stride[k] % 16 == 0 && e->stride[k] > 0);
}

static void ck_strides(int i, uint64_t rows, uint64_t heads, uint64_t batch)
{
    const struct encoded *e = &rec.encoded[i];
    ck_assert(e->stride[0] == rows && e->stride[1] == heads &&
              e->stride[2] == batch);
}

START_TEST(maps_and_grid)
{
    struct made_kernel m;
    make_sm90(&m, FACC_LAYOUT_ANY);
    ck_assert_int_eq(rec.loads, 2);
    ck_assert_str_eq(family_of(&m), "");
    const struct unit_config *c = &m.kernel->plans.plan[0].config;
    ck_assert_str_eq(c->family, "sm90");
    char *const data = memory;
    m.call.args.k.data = data + 16;
    m.call.args.v.data = data + 32;
    const struct facc_kernel_header h = launched(&m);
    ck_assert(rec.launches == 1 && rec.encodes == 4);
    ck_map(0, D, SQ, H, B, 64);
    ck_map(1, D, SKV, HKV, B, (uint32_t)c->tile_n);
    ck_map(2, DV, SKV, HKV, B, (uint32_t)c->tile_n);
    ck_map(3, DV, SQ, H, B, 16); /* a warp's rows */
    ck_strides(0, 2 * D, 2 * D * SQ, 2 * D * SQ * H);
    ck_strides(1, 2 * D, 2 * D * SKV, 2 * D * SKV * HKV);
    ck_strides(2, 2 * DV, 2 * DV * SKV, 2 * DV * SKV * HKV);
    ck_assert_ptr_eq(rec.encoded[0].address, data);
    ck_assert_ptr_eq(rec.encoded[1].address, data + 16);
    ck_assert_ptr_eq(rec.encoded[2].address, data + 32);
    ck_assert_ptr_eq(rec.encoded[3].address, m.call.args.o.data);
    for (int i = 0; i < 4; i++) /* each in its place */
        for (int k = 0; k < 128; k++)
            ck_assert_int_eq(h.tensor_map[i][k], i + 1);
    ck_assert_int_eq(h.num_work, B * H * 1); /* one tile of 192 rows */
    ck_assert_int_eq(h.q_tiles, 1);
    ck_assert(h.zero == 0 && h.next_item == NULL && h.section_heads == 0);
    ck_assert_uint_eq(rec.grid, B * H);
    ck_assert_uint_eq(rec.block, 512);
    ck_assert_uint_eq(rec.shared, 232448);
    ck_assert_int_eq(rec.seen[0].library, 0);
    ck_assert_str_eq(family_of(&m), "sm90");
    m.call.args.q.shape[2] = m.call.args.o.shape[2] = 1000;
    m.call.args.lse.data = NULL;
    ck_assert_int_eq(launched(&m).num_work, 6 * B * H);
    ck_assert_uint_eq(rec.grid, 20); /* the device's multiprocessors */
    drop_kernel(&m);
}
END_TEST

START_TEST(bf16_maps)
{
    struct made_kernel m;
    open_call(&m.call);
    m.call.variant.family = FACC_FAMILY_SM90;
    m.call.variant.dtype = FACC_BF16;
    facc_args *a = &m.call.args;
    a->q.dtype = a->k.dtype = a->v.dtype = a->o.dtype = FACC_BF16;
    make_kernel_of_call(&m);
    load(&m);
    ck_assert_ptr_null(m.second);
    (void)launched(&m);
    ck_assert(rec.encoded[0].type == 9 && rec.encoded[2].type == 9);
    drop_kernel(&m);
}
END_TEST

/* Output that does not leave by TMA has no map. */
START_TEST(f32_output_has_none)
{
    struct made_kernel m;
    open_call(&m.call);
    m.call.variant.family = FACC_FAMILY_SM90;
    m.call.variant.out_dtype = m.call.args.o.dtype = FACC_F32;
    make_kernel_of_call(&m);
    load(&m);
    const struct facc_kernel_header h = launched(&m);
    ck_assert_int_eq(rec.encodes, 3);
    ck_assert_int_eq(h.tensor_map[3][0], 0);
    drop_kernel(&m);
}
END_TEST

/* Strides of extent 1 say nothing; broadcasts are of extent 1. */
START_TEST(maps_of_broadcasts)
{
    struct made_kernel m;
    make_sm90(&m, FACC_LAYOUT_ALIGNED);
    facc_args *a = &m.call.args;
    a->k.stride[0] = 0;
    a->v.stride[1] = 0;
    a->q.shape[2] = a->o.shape[2] = 1;
    a->q.stride[2] = 7;
    a->lse.data = NULL;
    (void)launched(&m);
    ck_map(0, D, 1, H, B, 64);
    ck_map(1, D, SKV, HKV, 1, 96);
    ck_map(2, DV, SKV, 1, B, 96);
    ck_strides(2, 2 * DV, 2 * DV, 2 * DV * SKV * HKV);
    drop_kernel(&m);
}
END_TEST

START_TEST(no_keys_and_no_rows)
{
    struct made_kernel m;
    make_sm90(&m, FACC_LAYOUT_ALIGNED);
    facc_args *a = &m.call.args;
    a->k.shape[2] = a->v.shape[2] = m.call.captured[1].shape[1] = 0;
    a->k.data = a->v.data = NULL;
    (void)launched(&m); /* fully masked rows are written */
    ck_assert_int_eq(rec.launches, 1);
    ck_map(1, D, 1, 1, 1, 96);
    ck_map(2, DV, 1, 1, 1, 96);
    ck_assert_ptr_nonnull(rec.encoded[1].address);
    a->q.shape[2] = a->o.shape[2] = a->lse.shape[2] = 0;
    (void)launched(&m);
    ck_assert(rec.launches == 0 && rec.encodes == 0);
    drop_kernel(&m);
}
END_TEST

/* ---- which code -----------------------------------------------------------
 */

static void q_address(facc_args *a)
{
    a->q.data = memory + 8;
}
static void v_address(facc_args *a)
{
    a->v.data = memory + 2;
}
static void o_address(facc_args *a)
{
    a->o.data = memory + 4;
}
static void k_rows(facc_args *a)
{
    a->k.stride[2] = D + 4;
}
static void q_heads(facc_args *a)
{
    a->q.stride[1]++;
}
static void k_heads_backwards(facc_args *a)
{
    a->k.stride[1] *= -1;
}
static void v_rows_broadcast(facc_args *a)
{
    a->v.stride[2] = 0;
}
static void q_rows_overlap(facc_args *a)
{
    a->q.stride[2] = D / 2;
}
static void k_batch_far(facc_args *a)
{
    a->k.stride[0] = INT64_C(1) << 39;
}
static void o_batch(facc_args *a)
{
    a->o.stride[0] += 4;
}
static void o_heads_backwards(facc_args *a)
{
    a->o.stride[1] *= -1;
}
static void o_rows_backwards(facc_args *a)
{
    a->o.stride[2] *= -1;
}
static void lse_address(facc_args *a)
{
    a->lse.data = memory + 4;
}
static void rows_of_all_heads(facc_args *a)
{
    a->q.stride[2] = H * D; /* [B, S, H, D] */
    a->q.stride[1] = D;
}
static void nothing(facc_args *a)
{
    (void)a;
}

static const struct {
    void (*change)(facc_args *);
    const char *why; /* NULL: family sm90 takes it */
} choices[] = {
    {nothing, NULL},
    {rows_of_all_heads, NULL},
    {lse_address, NULL},
    {q_address, "q: data ("},
    {v_address, "v: data ("},
    {o_address, "o: data ("},
    {k_rows, "k: stride 2 is 68 elements"},
    {q_heads, "q: stride 1 is 6401 elements"},
    {k_heads_backwards, "k: stride 1 is -4480 elements"},
    {o_heads_backwards, "o: stride 1 is -"},
    {o_rows_backwards, "o: stride 2 is -"},
    {v_rows_broadcast, "v: stride 2 is 0 elements"},
    {q_rows_overlap, "q: stride 2 is 32 elements"},
    {k_batch_far, "k: stride 0 is 549755813888 elements"},
    {o_batch, "o: stride 0 is"},
};

START_TEST(code_by_strides)
{
    struct made_kernel m;
    make_sm90(&m, FACC_LAYOUT_ANY);
    choices[_i].change(&m.call.args);
    const struct facc_kernel_header h = launched(&m);
    const bool sm80 = choices[_i].why != NULL;
    const struct unit_config *c = &m.kernel->plans.plan[sm80].config;
    ck_assert_str_eq(c->family, sm80 ? "sm80" : "sm90");
    ck_assert_str_eq(family_of(&m), c->family);
    ck_assert_int_eq(rec.seen[0].library, sm80);
    ck_assert_uint_eq(rec.block, 32u * (unsigned)c->warps);
    ck_assert_uint_eq(rec.shared, (unsigned)c->shared_bytes);
    ck_assert_int_eq(rec.encodes, sm80 ? 0 : 4);
    if (sm80)
        ck_assert_uint_eq(rec.grid, (unsigned)h.num_work);
    ck_assert_int_eq(check(&m.call, NULL), FACC_OK);
    drop_kernel(&m);
}
END_TEST

START_TEST(aligned_alone)
{
    facc_error err = FACC_ERROR_INIT;
    struct made_kernel m;
    make_sm90(&m, FACC_LAYOUT_ALIGNED);
    ck_assert_int_eq(rec.loads, 1);
    choices[_i].change(&m.call.args);
    const bool refused = choices[_i].why != NULL;
    const facc_status want = refused ? FACC_ERR_ARGUMENT : FACC_OK;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     want);
    ck_assert_int_eq(rec.launches, !refused);
    for (int i = 0; refused && i < 2; i++) { /* check says the same */
        ck_assert_msg(strstr(err.message, choices[_i].why), "%s", err.message);
        ck_assert_ptr_nonnull(strstr(err.message, "FACC_LAYOUT_ANY"));
        ck_assert_int_eq(check(&m.call, &err), FACC_ERR_ARGUMENT);
    }
    drop_kernel(&m);
}
END_TEST

START_TEST(families_and_layouts)
{
    facc_error err = FACC_ERROR_INIT;
    struct call c;
    open_call(&c);
    c.variant.layout = 2;
    ck_assert_int_eq(check(&c, &err), FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "variant.layout is 2"));
    c.variant.layout = FACC_LAYOUT_ANY;
    c.variant.family = 1;
    ck_assert_int_eq(check(&c, &err), FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "variant.family is 1"));
    c.variant.family = FACC_FAMILY_SM90;
    ck_assert_int_eq(check(&c, &err), FACC_OK);
    c.args.q.stride[2] = 0; /* one code, whatever the layout */
    ck_assert_int_eq(check(&c, &err), FACC_ERR_ARGUMENT);
    c.variant.check_bounds = 1;
    ck_assert_int_eq(check(&c, &err), FACC_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "no checked debug build"));
    c.variant.check_bounds = 0;
    c.variant.arch = 100;
    ck_assert_int_eq(check(&c, &err), FACC_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "needs sm_90"));
    c.variant.family = FACC_FAMILY_AUTO;
    c.variant.layout = FACC_LAYOUT_ALIGNED; /* nothing else to take */
    ck_assert_int_eq(check(&c, &err), FACC_OK);
    close_call(&c);
}
END_TEST

/* ---- schedules ------------------------------------------------------------
 */

/* As if the program had a document mask. */
static void plan_document(struct made_kernel *m)
{
    make_scheduled(m, &(struct schedule_facts){.tier = TIER_RANGED,
                                               .scheduled = true,
                                               .planned = true,
                                               .halved = true,
                                               .per_b = true,
                                               .q_bytes = 8,
                                               .kv_bytes = 24});
    load(m);
}

static size_t size_of(struct made_kernel *m)
{
    size_t bytes = 1, align = 0;
    ck_assert_int_eq(
        facc_workspace_size(m->kernel, &m->call.args, &bytes, &align), FACC_OK);
    ck_assert_uint_eq(align, 256);
    return bytes;
}

START_TEST(schedule_of_three_groups)
{
    struct made_kernel m;
    make_sm90(&m, FACC_LAYOUT_ALIGNED);
    plan_document(&m);
    facc_args *a = &m.call.args;
    const uintptr_t at = 0x7f0000000100;
    a->q.shape[2] = a->o.shape[2] = 1000;
    a->lse.data = NULL;
    a->workspace_size = size_of(&m);
    a->workspace = (void *)at;
    const struct facc_kernel_header h = launched(&m);
    const int64_t rows = h.schedule.max_rows;
    ck_assert_int_eq(rows, B * 6); /* of 192 query rows */
    ck_assert_int_eq(h.num_work, rows * H);
    ck_assert_int_eq(h.section_heads, H);
    ck_assert_int_eq(h.schedule.q_ids[FACC_LEVEL_TILE], B * 16); /* of 64 */
    ck_assert_int_eq(h.schedule.kv_ids[FACC_LEVEL_TILE], B * 1); /* of 96 */
    ck_assert_int_eq((char *)h.schedule.q_summary[0] -
                         (char *)h.schedule.entries,
                     (rows * (8 + 3 * 8) + 255) / 256 * 256);
    /* the counters: two, the workspace's last part */
    ck_assert_uint_eq((uintptr_t)h.next_item, at + a->workspace_size - 256);
    for (int i = 0; i < FACC_LEVELS; i++)
        ck_assert((uintptr_t)h.schedule.kv_summary[i] < (uintptr_t)h.next_item);
    ck_assert_int_eq(rec.launches, 4);
    ck_assert_int_eq(rec.seen[0].entry, ENTRY_SUMMARIZE);
    /* windows, then so many query tiles as 32 warps have groups for */
    ck_assert_uint_eq(rec.seen[0].grid, B * 1 + (B * 6 + 9) / 10);
    ck_assert_int_eq(rec.seen[2].entry, ENTRY_ORDER);
    ck_assert_uint_eq(rec.grid, 20);
    a->workspace_size--;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, a, NULL, NULL),
                     FACC_ERR_ARGUMENT);
    drop_kernel(&m);
}
END_TEST

/* Enough for either code, each of which lays out its own. */
START_TEST(workspace_of_two_codes)
{
    struct made_kernel m;
    size_t each[2];
    make_sm90(&m, FACC_LAYOUT_ANY);
    plan_document(&m);
    const size_t both = size_of(&m);
    for (int i = 0; i < 2; i++) {
        struct facc_kernel k = *m.kernel;
        size_t align;
        k.plans.n = 1;
        k.plans.plan[0] = m.kernel->plans.plan[i];
        ck_assert_int_eq(
            facc_workspace_size(&k, &m.call.args, &each[i], &align), FACC_OK);
    }
    ck_assert_uint_ne(each[0], each[1]);
    ck_assert_uint_eq(both, each[0] > each[1] ? each[0] : each[1]);
    m.call.args.workspace = (void *)(uintptr_t)0x7f0000000100;
    m.call.args.workspace_size = both;
    for (int code = 0; code < 2; code++) { /* one makes schedules for both */
        const struct facc_kernel_header h = launched(&m);
        const struct unit_config *c = &m.kernel->plans.plan[code].config;
        const int groups = code ? 1 : 3;
        ck_assert_int_eq(rec.launches, 4);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(rec.seen[i].library, 2);
        ck_assert_int_eq(rec.seen[3].library, code);
        ck_assert_int_eq(h.tiling.tile_m, c->tile_m);
        ck_assert_int_eq(h.tiling.tile_n, c->tile_n);
        ck_assert_int_eq(h.tiling.groups, groups);
        ck_assert_int_eq(h.tiling.group_rows, c->tile_m / groups);
        ck_assert_int_eq(h.next_item == NULL, code);
        q_address(&m.call.args);
    }
    drop_kernel(&m);
}
END_TEST

START_TEST(packed_sequences)
{
    struct made_kernel m;
    open_call(&m.call);
    pack_call(&m.call);
    m.call.variant.family = FACC_FAMILY_AUTO;
    make_kernel_of_call(&m);
    make_scheduled(&m, &(struct schedule_facts){.scheduled = true});
    load(&m);
    facc_args *a = &m.call.args;
    a->workspace_size = size_of(&m);
    a->workspace = (void *)(uintptr_t)0x7f0000000100;
    struct facc_kernel_header h = launched(&m);
    ck_map(0, D, SQ, H, 1, 64);
    ck_map(1, D, SKV, HKV, 1, 96);
    ck_map(2, DV, SKV, HKV, 1, 96);
    ck_assert_int_eq(h.q_stride[0], 0);
    ck_assert_int_eq(h.num_work, h.schedule.max_rows * H);
    ck_assert_ptr_nonnull(h.next_item);
    ck_assert_int_eq(rec.launches, 3);
    /* no rows at all: places of gaps are still walked */
    a->q.shape[2] = a->o.shape[2] = 0;
    a->q.data = a->o.data = a->lse.data = NULL;
    h = launched(&m);
    ck_assert_int_gt(h.num_work, 0);
    ck_map(0, D, 1, 1, 1, 64);
    ck_assert_ptr_eq(rec.encoded[0].address, a->workspace);
    ck_assert_str_eq(family_of(&m), "sm90");
    drop_kernel(&m);
}
END_TEST

/* By drivers that take it, also in captures; never of family sm80, whose
 * kernels do not wait. */
START_TEST(overlapping_launches)
{
    struct made_kernel m;
    make_sm90(&m, FACC_LAYOUT_ANY);
    struct driver *drv = m.call.ctx->driver;
    drv->LaunchKernelEx = f_launch_ex;
    drv->version = 12020;
    (void)launched(&m);
    ck_assert_int_eq(rec.overlapping, 0);
    drv->version = 12030;
    (void)launched(&m);
    ck_assert_int_eq(rec.launches, 1);
    ck_assert_int_eq(rec.overlapping, 1);
    ck_assert_str_eq(family_of(&m), "sm90");
    m.call.args.q.stride[2] += 1; /* not for TMA */
    (void)launched(&m);
    ck_assert_str_eq(family_of(&m), "sm80");
    ck_assert_int_eq(rec.launches, 1);
    ck_assert_int_eq(rec.overlapping, 1);
    drop_kernel(&m);
}
END_TEST

/* (b, h) whose K and V together are some 16 MB; the last section has 500 tiles
 * or all. Launches without a schedule have none. */
static const struct {
    int b, h, hkv, sq, skv, heads, last;
} sections[] = {
    {2, 16, 16, 12000, 8192, 11, 2}, /* 48 MB: 11, 11 and the 8 of 500 tiles */
    {2, 16, 16, 12000, 16384, 5, 4}, /* 96 MB: 4 times 5, 12 */
    {2, 16, 4, 12000, 16384, 21, 1}, /* 24 MB */
    {2, 16, 16, 1152, 65536, 1, 0},  /* 500 tiles at least: of 84 (b, h) */
    {64, 16, 16, 192, 1920, 46, 11}, /* 360 MB */
    {1, 1, 1, 192, 192, 1, 0},
};

START_TEST(section_sizes)
{
    struct made_kernel m;
    make_sm90(&m, FACC_LAYOUT_ALIGNED);
    facc_args *a = &m.call.args;
    const int64_t b = sections[_i].b, heads = sections[_i].h;
    const int64_t hkv = sections[_i].hkv, skv = sections[_i].skv;
    a->q = tensor(FACC_F16, 4, b, heads, sections[_i].sq, D);
    a->k = tensor(FACC_F16, 4, b, hkv, skv, D);
    a->v = tensor(FACC_F16, 4, b, hkv, skv, DV);
    a->o = tensor(FACC_F16, 4, b, heads, sections[_i].sq, DV);
    a->lse.data = NULL;
    m.call.captured[0].shape[0] = heads;
    m.call.captured[1].shape[0] = b;
    m.call.captured[1].shape[1] = skv;
    ck_assert_int_eq(launched(&m).section_heads, 0);
    make_scheduled(&m, &(struct schedule_facts){.scheduled = true});
    load(&m);
    a->workspace_size = size_of(&m);
    a->workspace = (void *)(uintptr_t)0x7f0000000100;
    const struct facc_kernel_header h = launched(&m);
    ck_assert_int_eq(h.section_heads, sections[_i].heads);
    ck_assert_int_eq(h.last_section, sections[_i].last);
    drop_kernel(&m);
}
END_TEST

/* ---- what can go wrong ----------------------------------------------------
 */

START_TEST(driver_without_tensor_maps)
{
    facc_error err = FACC_ERROR_INIT;
    struct made_kernel m;
    open_call(&m.call);
    m.call.variant.family = FACC_FAMILY_AUTO;
    make_kernel_of_call(&m);
    m.call.ctx->driver->TensorMapEncodeTiled = NULL;
    ck_assert_int_eq(facc_kernel_load(m.kernel, 0, &err), FACC_ERR_NO_DRIVER);
    ck_assert_ptr_nonnull(strstr(err.message, "cuTensorMapEncodeTiled"));
    ck_assert_ptr_nonnull(strstr(err.message, "FACC_FAMILY_SM80"));
    drop_kernel(&m);
}
END_TEST

START_TEST(map_refused)
{
    facc_error err = FACC_ERROR_INIT;
    struct made_kernel m;
    make_sm90(&m, FACC_LAYOUT_ANY);
    rec.encode_result = CU_ERROR_INVALID_VALUE;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_ERR_CUDA);
    ck_assert_ptr_nonnull(strstr(err.message, "cuTensorMapEncodeTiled failed"));
    ck_assert_int_eq(rec.launches, 0);
    ck_assert_str_eq(family_of(&m), "");
    drop_kernel(&m);
}
END_TEST

/* Both codes or none. */
START_TEST(half_loaded)
{
    struct made_kernel m;
    make_sm90(&m, FACC_LAYOUT_ANY);
    memset((void *)m.second->function, 0, sizeof m.second->function);
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, NULL),
                     FACC_ERR_NOT_PREPARED);
    load(&m);
    (void)launched(&m);
    drop_kernel(&m);
}
END_TEST

START_TEST(host_time)
{
    enum { ROUNDS = 40, N = 250 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const double limit = 100e-6;
#else
    const double limit = 5e-6;
#endif
    struct made_kernel m;
    double best = 1;
    make_sm90(&m, FACC_LAYOUT_ANY);
    for (int round = 0; round < ROUNDS; round++) {
        const double start = thread_seconds();
        for (int i = 0; i < N; i++)
            facc_kernel_launch(m.kernel, &m.call.args, NULL, NULL);
        const double s = (thread_seconds() - start) / N;
        best = s < best ? s : best;
    }
    ck_assert_int_eq(rec.encodes, 4 * ROUNDS * N);
    printf("launch of family sm90: %.2f us of host time over the driver's\n",
           best * 1e6);
    fflush(stdout);
    ck_assert(best < limit);
    drop_kernel(&m);
}
END_TEST

int main(void)
{
    enum {
        N_CHOICES = sizeof choices / sizeof choices[0],
        N_SECTIONS = sizeof sections / sizeof sections[0]
    };
    const TTest *const tests[] = {maps_and_grid,
                                  bf16_maps,
                                  f32_output_has_none,
                                  maps_of_broadcasts,
                                  no_keys_and_no_rows,
                                  families_and_layouts,
                                  schedule_of_three_groups,
                                  workspace_of_two_codes,
                                  packed_sequences,
                                  overlapping_launches,
                                  map_refused,
                                  driver_without_tensor_maps,
                                  half_loaded,
                                  host_time};
    const int a =
        run_tests("choice of code", code_by_strides, N_CHOICES, NULL, 0);
    const int b = run_tests("aligned alone", aligned_alone, N_CHOICES, NULL, 0);
    return run_tests("tensor maps", section_sizes, N_SECTIONS, tests,
                     sizeof tests / sizeof tests[0]) |
           a | b;
}

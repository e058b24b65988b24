/* Launches of programs whose facc.dot joins Q K^T, and of those with a tensor
 * whose tiles are copied, over the recording driver: the maps, which code a
 * call takes, what is refused or loaded cell by cell, the scale. No GPU, no
 * NVRTC. */
#include "tests/unit/launch_fixture.h"

#include <math.h>
#include <stdio.h>

static const char beside[] =
    "local facc = require 'facc'\n"
    "local qr = facc.tensor('qr', 'f16', { 'B', 'H', 'q', 32 })\n"
    "local kr = facc.tensor('kr', 'f16', { 'any', 'any', 32 })\n"
    "return facc.attention { score_mod = function(s, b, h, q, kv)\n"
    "  return s + facc.dot(qr[b][h][q], kr[kv + %d][h]) end }\n";
enum { N = 32, ROWS = 90 };

static void open_dot(struct made_kernel *m, int layout, int shift)
{
    facc_error err = FACC_ERROR_INIT;
    char text[1024];
    const int n = snprintf(text, sizeof text, beside, shift);
    open_call(&m->call);
    struct call *c = &m->call;
    facc_program_free(c->program);
    ck_assert_msg(facc_program_load_string(&c->program, c->ctx, "t.lua", text,
                                           (size_t)n, &err) == FACC_OK,
                  "%s", err.message);
    c->captured[0] = tensor(FACC_F16, 4, B, H, SQ, N);
    c->captured[1] = tensor(FACC_F16, 3, ROWS, H, N, 0);
    c->args.n_params = 0;
    c->args.params = NULL;
    c->variant.family = FACC_FAMILY_AUTO;
    c->variant.layout = layout;
}

static void make_dot(struct made_kernel *m, int layout, int shift)
{
    open_dot(m, layout, shift);
    make_kernel_of_call(m);
    load(m);
}

static struct facc_kernel_header launched(struct made_kernel *m)
{
    facc_error err = FACC_ERROR_INIT;
    struct facc_kernel_header h;
    rec.launches = rec.encodes = 0;
    memset(rec.args, 0, sizeof rec.args);
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

static void ck_map(int i, uint32_t rows, uint64_t (*extent)[5],
                   uint64_t (*stride)[4])
{
    const struct encoded *e = &rec.encoded[i];
    ck_assert(e->type == 6 && e->rank == 5 && e->swizzle == 2); /* 64 B */
    ck_assert(e->box[0] == N && e->box[1] == rows && e->box[2] == 1 &&
              e->box[3] == 1 && e->box[4] == 1);
    for (int k = 0; k < 5; k++)
        ck_assert_msg(e->extent[k] == (*extent)[k], "map %d: extent %d is %llu",
                      i, k, (unsigned long long)e->extent[k]);
    for (int k = 0; k < 4; k++)
        ck_assert_msg(e->stride[k] == (*stride)[k], "map %d: stride %d is %llu",
                      i, k, (unsigned long long)e->stride[k]);
}

START_TEST(maps)
{
    struct made_kernel m;
    make_dot(&m, FACC_LAYOUT_ANY, 0);
    ck_assert_int_eq(m.kernel->plans.plan[0].config.dot->n, N);
    const uint32_t tile_n = (uint32_t)m.kernel->plans.plan[0].config.tile_n;
    const struct facc_kernel_header h = launched(&m);
    ck_assert_int_eq(rec.encodes, 6);
    ck_assert_str_eq(family_of(&m), "sm90");
    /* rows, then b and h; behind the lengths is another's: kr has 90 rows */
    ck_map(4, 64, &(uint64_t[5]){N, SQ, B, H, 1},
           &(uint64_t[4]){2 * N, 2 * N * SQ * H, 2 * N * SQ, 16});
    ck_map(5, tile_n, &(uint64_t[5]){N, SKV, H, 1, 1},
           &(uint64_t[4]){2 * N * H, 2 * N, 16, 16});
    for (int i = 0; i < 2; i++) /* behind the captured tensors */
        for (int k = 0; k < 128; k++)
            ck_assert_int_eq(rec.args[1408 + 128 * i + k], 5 + i);
    ck_assert_int_eq(h.tensor_map[3][0], 4);
    drop_kernel(&m);
}
END_TEST

START_TEST(broadcast_and_shifted)
{
    struct made_kernel m;
    make_dot(&m, FACC_LAYOUT_ALIGNED, 3);
    const uint32_t tile_n = (uint32_t)m.kernel->plans.plan[0].config.tile_n;
    m.call.captured[0].stride[0] = 0;
    m.call.captured[1].stride[1] = 0;
    launched(&m);
    ck_map(4, 64, &(uint64_t[5]){N, SQ, 1, H, 1},
           &(uint64_t[4]){2 * N, 16, 2 * N * SQ, 16});
    /* from the fourth row on: all of them may be meant */
    ck_map(5, tile_n, &(uint64_t[5]){N, ROWS, 1, 1, 1},
           &(uint64_t[4]){2 * N * H, 16, 16, 16});
    drop_kernel(&m);
}
END_TEST

/* A change that TMA does not take: the other code does, or an error. */
static void refused(void (*change)(struct call *c), const char *message)
{
    struct made_kernel m;
    facc_error err = FACC_ERROR_INIT;
    make_dot(&m, FACC_LAYOUT_ANY, 0);
    change(&m.call);
    launched(&m);
    ck_assert_str_eq(family_of(&m), "sm80");
    ck_assert_int_eq(rec.encodes, 0);
    drop_kernel(&m);
    make_dot(&m, FACC_LAYOUT_ALIGNED, 0);
    change(&m.call);
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.message, message) != NULL, "%s", err.message);
    ck_assert_msg(strstr(err.message, "FACC_LAYOUT_ANY") != NULL, "%s",
                  err.message);
    err = (facc_error)FACC_ERROR_INIT;
    ck_assert_int_eq(check(&m.call, &err), FACC_ERR_ARGUMENT);
    drop_kernel(&m);
}

static void move(struct call *c)
{
    c->captured[0].data = memory + 2;
}
static void spread(struct call *c)
{
    c->captured[1].stride[2] = 2;
}
static void odd_rows(struct call *c)
{
    c->captured[1].stride[0] = H * N + 1;
}
static void one_row(struct call *c)
{
    c->captured[0].stride[2] = 0;
}
static void backwards(struct call *c)
{
    c->captured[0].stride[1] = -SQ * N;
}
static void far(struct call *c)
{
    c->captured[0].stride[0] = INT64_C(1) << 39;
}
static void empty(struct call *c)
{
    c->captured[1].shape[1] = 0;
}

START_TEST(tensors_that_tma_does_not_take)
{
    refused(move, "captured tensor \"qr\": data (");
    refused(spread, "captured tensor \"kr\": stride 2 is 2 elements");
    refused(odd_rows, "captured tensor \"kr\": stride 0 is 193 elements");
    refused(one_row, "captured tensor \"qr\": stride 2 is 0 elements");
    refused(backwards, "captured tensor \"qr\": stride 1 is -3200 elements");
    refused(far, "captured tensor \"qr\": stride 0 is 549755813888 elements");
    refused(empty, "captured tensor \"kr\" has no elements");
}
END_TEST

/* No keys: nothing is read that counts, whatever the tensors are. */
START_TEST(no_keys)
{
    struct made_kernel m;
    make_dot(&m, FACC_LAYOUT_ALIGNED, 0);
    m.call.args.k.shape[2] = m.call.args.v.shape[2] = 0;
    m.call.captured[1].shape[0] = 0;
    m.call.captured[1].data = NULL;
    m.call.captured[0].data = memory + 2;
    launched(&m);
    ck_assert_int_eq(rec.encodes, 6);
    for (int i = 4; i < 6; i++) {
        ck_assert_ptr_eq(rec.encoded[i].address, m.call.args.q.data);
        ck_assert_uint_eq(rec.encoded[i].extent[1], 1);
    }
    drop_kernel(&m);
}
END_TEST

START_TEST(scale)
{
    static const struct {
        double given;
        float want;
    } t[] = {{1e-60, 0x1p-80f}, {-1e-60, -0x1p-80f}, {0.5, 0.5f}, {-2, -2}};
    struct made_kernel m;
    make_dot(&m, FACC_LAYOUT_ANY, 0);
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        m.call.args.scale = t[k].given;
        const struct facc_kernel_header h = launched(&m);
        ck_assert(h.scale == t[k].want);
        ck_assert(fabsf(h.scale_log2 / h.scale - 1.442695f) < 1e-6f);
    }
    drop_kernel(&m);
}
END_TEST

/* Q of another type, checked builds: cell by cell, by any tensors. */
START_TEST(cell_by_cell)
{
    struct made_kernel m;
    open_dot(&m, FACC_LAYOUT_ANY, 0);
    m.call.variant.dtype = FACC_BF16;
    m.call.args.q.dtype = m.call.args.k.dtype = m.call.args.v.dtype =
        m.call.args.o.dtype = FACC_BF16;
    m.call.captured[0].data = memory + 2;
    make_kernel_of_call(&m);
    load(&m);
    ck_assert_ptr_null(m.kernel->plans.plan[0].config.dot);
    launched(&m);
    ck_assert_int_eq(rec.encodes, 4);
    ck_assert_str_eq(family_of(&m), "sm90");
    drop_kernel(&m);
    open_dot(&m, FACC_LAYOUT_ANY, 0);
    m.call.variant.check_bounds = 1;
    make_kernel_of_call(&m);
    ck_assert_ptr_null(m.kernel->plans.plan[0].config.dot);
    drop_kernel(&m);
}
END_TEST

/* ---- planes -------------------------------------------------------------- */

enum { PITCH = 80 }; /* of rows of SKV elements */

/* score + bias at rows q + `row` and columns kv + 1 of b and h. */
static void make_plane(struct made_kernel *m, const char *type, const char *row)
{
    facc_error err = FACC_ERROR_INIT;
    char text[1024];
    const int n = snprintf(
        text, sizeof text,
        "local facc = require 'facc'\n"
        "local bias = facc.tensor('bias', '%s', { 'any', 'B', 'any', 'any' })\n"
        "local slopes = facc.tensor('slopes', 'f32', { 'H' })\n"
        "return facc.attention { score_mod = function(s, b, h, q, kv)\n"
        "  return s + bias[h][b][q%s][kv + 1] + slopes[h] end }\n",
        type, row);
    open_call(&m->call);
    struct call *c = &m->call;
    facc_program_free(c->program);
    ck_assert_msg(facc_program_load_string(&c->program, c->ctx, "t.lua", text,
                                           (size_t)n, &err) == FACC_OK,
                  "%s", err.message);
    c->captured[0] = tensor(strcmp(type, "f32") == 0 ? FACC_F32 : FACC_BF16, 4,
                            H, B, ROWS + SQ, PITCH);
    c->captured[0].shape[3] = SKV + 1;
    c->captured[1] = tensor(FACC_F32, 1, H, 0, 0, 0);
    c->args.n_params = 0;
    c->args.params = NULL;
    c->variant.family = FACC_FAMILY_SM90;
    make_kernel_of_call(m);
    load(m);
}

/* O has one where it leaves by TMA, as it does beside two buffers of Q. */
static int maps_of_qkvo(const struct made_kernel *m)
{
    return m->kernel->plans.plan[0].config.q_buffers == 2 ? 4 : 3;
}

/* Of tensor 0, as the kernel sees it. */
static int is_copied(struct made_kernel *m)
{
    struct facc_captured t;
    launched(m);
    memcpy(&t, rec.args + sizeof(struct facc_kernel_header), sizeof t);
    ck_assert_str_eq(family_of(m), "sm90");
    ck_assert_int_eq(rec.encodes, maps_of_qkvo(m) + t.copied);
    return t.copied;
}

static void ck_plane_map(const struct made_kernel *m, int size,
                         uint64_t (*extent)[5], uint64_t (*stride)[4])
{
    const struct unit_config *c = &m->kernel->plans.plan[0].config;
    const struct encoded *e = &rec.encoded[maps_of_qkvo(m)];
    const int bytes = c->tile_n * size;
    const int width = bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : 32;
    ck_assert_int_eq(c->plane_bytes, size);
    ck_assert_int_eq(e->type, size == 4 ? CU_MAP_FLOAT32 : CU_MAP_BFLOAT16);
    ck_assert_int_eq(e->swizzle, width == 128  ? CU_MAP_SWIZZLE_128B
                                 : width == 64 ? CU_MAP_SWIZZLE_64B
                                               : CU_MAP_SWIZZLE_32B);
    ck_assert(e->rank == 5 && e->fill == 0 && e->interleave == 0);
    ck_assert_ptr_eq(e->address, m->call.captured[0].data);
    ck_assert_uint_eq(e->box[0], (unsigned)(width / size));
    ck_assert_uint_eq(e->box[1], (unsigned)c->tile_m);
    for (int k = 2; k < 5; k++)
        ck_assert_uint_eq(e->box[k], 1);
    for (int k = 0; k < 5; k++)
        ck_assert_msg(e->extent[k] == (*extent)[k], "extent %d is %llu", k,
                      (unsigned long long)e->extent[k]);
    for (int k = 0; k < 4; k++)
        ck_assert_msg(e->stride[k] == (*stride)[k], "stride %d is %llu", k,
                      (unsigned long long)e->stride[k]);
    for (int k = 0; k < 128; k++) /* behind the captured tensors */
        ck_assert_int_eq(rec.args[1408 + k], rec.encodes);
}

START_TEST(plane_maps)
{
    static const char *const type[] = {[2] = "bf16", [4] = "f32"};
    const uint64_t last = ROWS + SQ;
    for (unsigned size = 2; size <= 4; size += 2) {
        const uint64_t row = size * PITCH, all = last * row;
        struct made_kernel m;
        make_plane(&m, type[size], "");
        ck_assert_int_eq(is_copied(&m), 1);
        /* columns, rows of this call, h, b */
        ck_plane_map(&m, (int)size, &(uint64_t[5]){SKV + 1, SQ, H, B, 1},
                     &(uint64_t[4]){row, all * B, all, 16});
        m.call.captured[0].stride[0] = 0; /* for all h */
        ck_assert_int_eq(is_copied(&m), 1);
        ck_plane_map(&m, (int)size, &(uint64_t[5]){SKV + 1, SQ, 1, B, 1},
                     &(uint64_t[4]){row, 16, all, 16});
        drop_kernel(&m);
        make_plane(&m, type[size], " + h - 3"); /* any row may be meant */
        ck_assert_int_eq(is_copied(&m), 1);
        ck_plane_map(&m, (int)size, &(uint64_t[5]){SKV + 1, last, H, B, 1},
                     &(uint64_t[4]){row, all * B, all, 16});
        drop_kernel(&m);
    }
}
END_TEST

static void behind(struct call *c)
{
    c->captured[0].data = memory + 16; /* TMA takes it */
}
static void between(struct call *c)
{
    c->captured[0].data = memory + 8;
}
static void pairs(struct call *c)
{
    c->captured[0].stride[3] = 2;
}
static void uneven(struct call *c)
{
    c->captured[0].stride[2] = PITCH + 2;
}
static void same_row(struct call *c)
{
    c->captured[0].stride[2] = 0;
}
static void upwards(struct call *c)
{
    c->captured[0].stride[1] = -PITCH;
}
static void very_far(struct call *c)
{
    c->captured[0].stride[0] = INT64_C(1) << 38;
}
static void no_kv(struct call *c)
{
    c->args.k.shape[2] = c->args.v.shape[2] = 0;
}

/* Elements are loaded one by one where TMA does not take the tensor. */
START_TEST(planes_that_are_not_copied)
{
    static const struct {
        void (*change)(struct call *c);
        int copied;
    } t[] = {{behind, 1},   {between, 0}, {pairs, 0},    {uneven, 0},
             {same_row, 0}, {upwards, 0}, {very_far, 0}, {no_kv, 0}};
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        struct made_kernel m;
        make_plane(&m, "f32", "");
        t[k].change(&m.call);
        ck_assert_msg(is_copied(&m) == t[k].copied, "%d", (int)k);
        drop_kernel(&m);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {maps,
                                  broadcast_and_shifted,
                                  tensors_that_tma_does_not_take,
                                  no_keys,
                                  scale,
                                  cell_by_cell,
                                  plane_maps,
                                  planes_that_are_not_copied};
    return run_tests("captured maps", NULL, 0, tests,
                     sizeof tests / sizeof *tests);
}

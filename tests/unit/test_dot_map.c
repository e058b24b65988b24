/* Launches of programs whose facc.dot joins Q K^T, over the recording driver:
 * the maps of its tensors, which code a call takes, what is refused, the scale.
 * No GPU, no NVRTC. */
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
           &(uint64_t[4]){2 * N, 2 * N * SQ * H, 2 * N * SQ, 2 * N});
    ck_map(5, tile_n, &(uint64_t[5]){N, SKV, H, 1, 1},
           &(uint64_t[4]){2 * N * H, 2 * N, 2 * N, 2 * N});
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
           &(uint64_t[4]){2 * N, 2 * N, 2 * N * SQ, 2 * N});
    /* from the fourth row on: all of them may be meant */
    ck_map(5, tile_n, &(uint64_t[5]){N, ROWS, 1, 1, 1},
           &(uint64_t[4]){2 * N * H, 2 * N, 2 * N, 2 * N});
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

int main(void)
{
    const TTest *const tests[] = {
        maps,  broadcast_and_shifted, tensors_that_tma_does_not_take, no_keys,
        scale, cell_by_cell};
    return run_tests("dot maps", NULL, 0, tests, sizeof tests / sizeof *tests);
}

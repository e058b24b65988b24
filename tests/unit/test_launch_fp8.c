/* Launches of FP8 kernels over a driver of recording functions: what they get
 * besides, V transposed before them or by the caller, room for it. */
#include "tests/unit/launch_fixture.h"

#include "runtime/transpose.h"

static facc_tensor dq, dk, dv, mean, image;
static _Alignas(256) char workspace[1 << 20];

static void make_call(struct made_kernel *m)
{
    open_call(&m->call);
    m->call.variant.family = FACC_FAMILY_SM90;
    make_kernel_of_call(m);
    make_fp8(m);
    facc_args *a = &m->call.args;
    a->q.dtype = a->k.dtype = a->v.dtype = FACC_E4M3;
    a->o.dtype = FACC_BF16;
    a->workspace = workspace;
    a->workspace_size = sizeof workspace;
    dq = tensor(FACC_F32, 3, B, H, 4, 0);
    dk = tensor(FACC_F32, 2, B, HKV, 0, 0);
    dv = tensor(FACC_F32, 0, 0, 0, 0, 0);
    mean = tensor(FACC_F32, 3, B, HKV, DV, 0);
    load(m);
}

static void launch_ok(struct made_kernel *m, struct facc_kernel_header *h,
                      struct facc_fp8 *f)
{
    facc_error err = FACC_ERROR_INIT;
    rec.launches = rec.encodes = 0;
    ck_assert_msg(facc_kernel_launch(m->kernel, &m->call.args, NULL, &err) ==
                      FACC_OK,
                  "%s", err.message);
    memcpy(h, rec.args, sizeof *h);
    memcpy(f, rec.args + 1152 + 144 + 16, sizeof *f);
}

START_TEST(scales_and_means)
{
    struct made_kernel m;
    struct facc_kernel_header h;
    struct facc_fp8 f;
    make_call(&m);
    facc_args *a = &m.call.args;
    launch_ok(&m, &h, &f);
    ck_assert(!f.descale_q && !f.descale_k && !f.descale_v && !f.v_mean);
    ck_assert(f.descale_block_q > 0 && f.descale_block_kv > 0);
    ck_assert_int_eq(f.promote_tiles, 0); /* 70 keys */
    m.kernel->plans.plan[0].config.block_scales = true;
    a->descale_q = &dq;
    a->descale_k = &dk;
    a->descale_v = &dv;
    a->descale_block_q = 32;
    launch_ok(&m, &h, &f);
    ck_assert(f.descale_q == dq.data && f.descale_k == dk.data &&
              f.descale_v == dv.data);
    ck_assert(f.descale_q_stride[0] == 4 * H && f.descale_q_stride[1] == 4 &&
              f.descale_q_stride[2] == 1 && f.descale_q_group == 1);
    ck_assert(f.descale_k_stride[0] == HKV && f.descale_k_stride[1] == 1 &&
              f.descale_k_stride[2] == 0);
    ck_assert(f.descale_v_stride[0] == 0 && f.descale_v_stride[1] == 0 &&
              f.descale_v_stride[2] == 0);
    ck_assert_int_eq(f.descale_block_q, 32);
    dq = tensor(FACC_F32, 3, B, HKV, 4, 0);
    a->v_mean = &mean;
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(f.descale_q_group, H / HKV);
    ck_assert(f.v_mean == mean.data && f.v_mean_stride[0] == HKV * DV &&
              f.v_mean_stride[1] == DV);
    drop_kernel(&m);
}
END_TEST

/* Sums move on to f32 where they are long and V keeps its mean. */
START_TEST(promotion)
{
    struct made_kernel m;
    struct facc_kernel_header h;
    struct facc_fp8 f;
    make_call(&m);
    facc_args *a = &m.call.args;
    image = tensor(FACC_E4M3, 4, B, HKV, 131, 32 * DV);
    a->v_image = &image;
    a->k.shape[2] = a->v.shape[2] = m.call.captured[1].shape[1] = 4095;
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(f.promote_tiles, 0);
    a->k.shape[2] = a->v.shape[2] = m.call.captured[1].shape[1] = 4096;
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(f.promote_tiles, 0); /* the code cannot */
    m.kernel->plans.plan[0].config.promotes = true;
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(f.promote_tiles, 4);
    a->v_mean = &mean;
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(f.promote_tiles, 0);
    drop_kernel(&m);
}
END_TEST

START_TEST(v_is_transposed_first)
{
    struct made_kernel m;
    struct facc_kernel_header h;
    struct facc_fp8 f;
    size_t bytes, align;
    make_call(&m);
    facc_args *a = &m.call.args;
    const int64_t head = facc_v_chunks(SKV, 0) * 32 * DV;
    ck_assert_int_eq(facc_workspace_size(m.kernel, a, &bytes, &align), FACC_OK);
    ck_assert_uint_eq(bytes, (size_t)(B * HKV * head));
    int32_t used[2] = {70, 3};
    a->seqused_kv = used;
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(rec.launches, 2);
    ck_assert_int_eq(rec.seen[0].entry, ENTRY_TRANSPOSE);
    ck_assert_int_eq(rec.seen[1].entry, ENTRY_FORWARD);
    ck_assert_uint_eq(rec.seen[0].block, FACC_TRANSPOSE_THREADS);
    /* a CTA has all 6 chunks: 128 * 256 / 32 rows */
    ck_assert_uint_eq(rec.seen[0].grid, B * HKV);
    const struct facc_transpose_args *t = &rec.transpose;
    ck_assert(t->v == a->v.data && t->v_stride[0] == HKV * SKV * DV &&
              t->v_stride[1] == SKV * DV && t->v_stride[2] == DV);
    ck_assert(t->image == (void *)workspace && t->image_stride[1] == head &&
              t->image_stride[0] == HKV * head);
    ck_assert(t->seqused == used && !t->cu_seqlens && t->B == B &&
              t->Skv == SKV && t->slabs == B);
    ck_assert(h.v == (void *)workspace && h.v_stride[0] == HKV * head &&
              h.v_stride[1] == head && h.v_stride[2] == 0);
    ck_assert_int_eq(rec.encodes, 3); /* Q, K, O */
    a->workspace_size = bytes - 1;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, a, NULL, NULL),
                     FACC_ERR_ARGUMENT);
    drop_kernel(&m);
}
END_TEST

/* The kernel loads V itself, as it lies. */
START_TEST(v_is_transposed_inside)
{
    struct made_kernel m;
    struct facc_kernel_header h;
    struct facc_fp8 f;
    facc_error err = FACC_ERROR_INIT;
    size_t bytes, align;
    make_call(&m);
    facc_args *a = &m.call.args;
    m.kernel->plans.transposed = false;
    m.kernel->plans.plan[0].config.transposes_v = true;
    a->workspace = NULL;
    a->workspace_size = 0;
    a->descale_k = &dk;
    ck_assert_int_eq(facc_workspace_size(m.kernel, a, &bytes, &align), FACC_OK);
    ck_assert_uint_eq(bytes, 0);
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(rec.launches, 1);
    ck_assert(h.v == a->v.data && h.v_stride[0] == HKV * SKV * DV &&
              h.v_stride[1] == SKV * DV && h.v_stride[2] == DV);
    ck_assert(f.descale_k == dk.data);
    ck_assert_int_eq(rec.encodes, 4); /* Q, K, V, O */
    ck_assert_uint_eq(rec.encoded[2].box[1],
                      (unsigned)m.kernel->plans.plan[0].config.tile_n);
    a->v.stride[2] += 8;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, a, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "v: stride 2"));
    a->v.stride[2] -= 8;
    image = tensor(FACC_E4M3, 4, B, HKV, 6, 32 * DV);
    a->v_image = &image;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, a, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "transposes_v 0"));
    ck_assert_int_eq(rec.launches, 1);
    m.kernel->plans.transposed = true;
    drop_kernel(&m);
}
END_TEST

/* The choice: by the query rows to each key. */
START_TEST(inside_or_before)
{
    ck_assert(facc_transposes_v(128, 0) && facc_transposes_v(128, 2048));
    ck_assert(!facc_transposes_v(128, 16384));
    ck_assert(!facc_transposes_v(64, INT64_MAX));
    ck_assert(facc_transposes_v(256, 1024) && !facc_transposes_v(256, 2048));
}
END_TEST

START_TEST(v_image_as_given)
{
    struct made_kernel m;
    struct facc_kernel_header h;
    struct facc_fp8 f;
    size_t bytes, align;
    make_call(&m);
    facc_args *a = &m.call.args;
    image = tensor(FACC_E4M3, 4, B, HKV, 6, 32 * DV);
    image.stride[0] = 0; /* one for all b */
    a->v_image = &image;
    a->v.data = NULL;
    a->workspace = NULL;
    ck_assert_int_eq(facc_workspace_size(m.kernel, a, &bytes, &align), FACC_OK);
    ck_assert_uint_eq(bytes, 0);
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(rec.launches, 1);
    ck_assert(h.v == image.data && h.v_stride[0] == 0 &&
              h.v_stride[1] == 6 * 32 * DV);
    drop_kernel(&m);
}
END_TEST

/* Behind the schedule; also when that is used again. */
START_TEST(beside_a_schedule)
{
    const struct schedule_facts planned = {.scheduled = true, .planned = true};
    struct made_kernel m;
    struct facc_kernel_header h;
    struct facc_fp8 f;
    size_t bytes, align;
    open_call(&m.call);
    m.call.variant.family = FACC_FAMILY_SM90;
    make_kernel_of_call(&m);
    make_scheduled(&m, &planned);
    make_fp8(&m);
    facc_args *a = &m.call.args;
    a->q.dtype = a->k.dtype = a->v.dtype = FACC_E4M3;
    a->o.dtype = FACC_BF16;
    a->workspace = workspace;
    a->workspace_size = sizeof workspace;
    load(&m);
    ck_assert_int_eq(facc_workspace_size(m.kernel, a, &bytes, &align), FACC_OK);
    const size_t of_v = (size_t)(B * HKV * facc_v_chunks(SKV, 0) * 32 * DV);
    ck_assert_uint_gt(bytes, of_v);
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(rec.seen[0].entry, ENTRY_TRANSPOSE);
    ck_assert(h.v == workspace + (bytes - of_v) &&
              (void *)h.schedule.rows == workspace);
    a->schedule_ready = 1;
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(rec.launches, 2);
    ck_assert_int_eq(rec.seen[0].entry, ENTRY_TRANSPOSE);
    ck_assert_int_eq(rec.seen[1].entry, ENTRY_FORWARD);
    drop_kernel(&m);
}
END_TEST

/* Q and K as bytes, in boxes as wide as a row up to 128. */
START_TEST(maps)
{
    struct made_kernel m;
    struct facc_kernel_header h;
    struct facc_fp8 f;
    make_call(&m); /* D 64, Dv 32 */
    facc_args *a = &m.call.args;
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(rec.encoded[0].type, CU_MAP_UINT8);
    ck_assert_int_eq(rec.encoded[0].swizzle, CU_MAP_SWIZZLE_64B);
    ck_assert_uint_eq(rec.encoded[0].box[0], 64);
    ck_assert_uint_eq(rec.encoded[0].box[1], 64);
    ck_assert_uint_eq(rec.encoded[0].stride[0], 64);
    ck_assert_uint_eq(rec.encoded[1].box[0], 64);
    ck_assert_uint_eq(rec.encoded[1].box[1],
                      (unsigned)m.kernel->plans.plan[0].config.tile_n);
    ck_assert_int_eq(rec.encoded[2].type, CU_MAP_BFLOAT16); /* O */
    m.kernel->plans.plan[0].config.head_dim = 128;
    a->q.shape[3] = a->k.shape[3] = 128;
    for (int i = 0; i < 3; i++) {
        a->q.stride[i] *= 2;
        a->k.stride[i] *= 2;
    }
    launch_ok(&m, &h, &f);
    ck_assert_int_eq(rec.encoded[0].swizzle, CU_MAP_SWIZZLE_128B);
    ck_assert_uint_eq(rec.encoded[0].box[0], 128);
    drop_kernel(&m);
}
END_TEST

START_TEST(what_cannot_be_transposed)
{
    facc_error err = FACC_ERROR_INIT;
    struct made_kernel m;
    make_call(&m);
    facc_args *a = &m.call.args;
    a->v.stride[2] += 8;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, a, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "bring v_image"));
    a->v.stride[2] -= 8;
    a->k.data = memory + 8;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, a, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "move the tensor"));
    ck_assert_ptr_null(strstr(err.message, "FACC_LAYOUT_ANY"));
    ck_assert_int_eq(rec.launches, 0);
    drop_kernel(&m);
}
END_TEST

/* CTAs cover all chunks; of packed sequences each begins behind the others. */
START_TEST(slabs)
{
    struct diag d;
    struct transpose t;
    facc_args a = FACC_ARGS_INIT;
    static const int dims[] = {16, 64, 96, 128, 192, 256};
    diag_init(&d);
    a.v = tensor(FACC_E4M3, 4, 3, 2, 1000, 64);
    for (int i = 0; i < 6; i++) {
        const int rows = facc_transpose_rows(dims[i]);
        ck_assert(rows >= 128 && rows % 32 == 0);
        ck_assert_int_le(rows / 16 * (dims[i] / 16), FACC_TRANSPOSE_THREADS);
        for (int n = 0; n < 3000; n += 31) {
            struct args_sizes z = {3,       2, 2, 1,     n,  64,
                                   dims[i], 1, n, false, {0}};
            ck_assert(transpose_make(&a, &z, 0, "t", &t, &d));
            const int64_t each = t.args.slabs / 3;
            ck_assert_int_eq(each * 3, t.args.slabs);
            ck_assert(each * rows >= facc_v_chunks(n, 0) * 32 &&
                      (each - 1) * rows < facc_v_chunks(n, 0) * 32);
            for (int first = 0; first < 600; first += 37) {
                const int64_t chunks = (n + 31) / 32 + FACC_V_PAD;
                const int64_t need = (chunks * 32 + rows - 1) / rows;
                ck_assert_int_le(first / rows + need, (first + n) / rows + 2);
            }
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        scales_and_means,          promotion,
        v_is_transposed_first,     v_is_transposed_inside,
        inside_or_before,          v_image_as_given,
        beside_a_schedule,         maps,
        what_cannot_be_transposed, slabs};
    return run_tests("launch_fp8", NULL, 0, tests,
                     sizeof tests / sizeof *tests);
}

/* Loading and launching over a driver made of recording functions: byte
 * layout, grid, contexts, statuses, threads, fork. No GPU, no NVRTC. */
#include "tests/unit/launch_fixture.h"
#include "tests/unit/timing.h"

#include <math.h>
#include <stdio.h>
#include <sys/wait.h>

static int stream_object;

/* ---- launching ---------------------------------------------------------- */

START_TEST(argument_bytes)
{
    facc_error err = FACC_ERROR_INIT;
    struct made_kernel m;
    struct facc_kernel_header h;
    struct facc_captured cap[2];
    union facc_scalar par[2];
    int32_t used[2] = {5, 6};
    make_kernel(&m);
    load(&m);
    facc_args *a = &m.call.args;
    a->seqused_kv = used;
    a->scale = 0.25;
    m.call.params[0].i = -7;
    void *stream = &stream_object;
    ck_assert_msg(facc_kernel_launch(m.kernel, a, stream, &err) == FACC_OK,
                  "%s", err.message);
    ck_assert_int_eq(rec.launches, 1); /* no schedule: one kernel */
    ck_assert_int_eq(rec.seen[0].entry, ENTRY_FORWARD);
    ck_assert_ptr_eq(rec.stream, stream);
    const struct unit_config *c = &m.kernel->plans.plan[0].config;
    unsigned tiles = (unsigned)((SQ + c->tile_m - 1) / c->tile_m);
    ck_assert_uint_eq(rec.grid, tiles * B * H);
    ck_assert_uint_eq(rec.block, 32u * (unsigned)c->warps);
    ck_assert_uint_eq(rec.shared, (unsigned)c->shared_bytes);

    memcpy(&h, rec.args, sizeof h);
    memcpy(cap, rec.args + 1152, sizeof cap);
    memcpy(par, rec.args + 1152 + 144, sizeof par);
    ck_assert_ptr_eq(h.q, memory);
    ck_assert_ptr_eq(h.lse, memory);
    ck_assert_int_eq(h.q_stride[0], H * SQ * D);
    ck_assert_int_eq(h.q_stride[1], SQ * D);
    ck_assert_int_eq(h.q_stride[2], D);
    ck_assert_int_eq(h.k_stride[1], SKV * D);
    ck_assert_int_eq(h.v_stride[2], DV);
    ck_assert_int_eq(h.o_stride[2], DV);
    ck_assert_int_eq(h.lse_stride[1], SQ);
    ck_assert(h.B == B && h.H == H && h.Hkv == HKV && h.Sq == SQ);
    ck_assert(h.Skv == SKV && h.D == D && h.Dv == DV && h.group == 2);
    ck_assert(h.scale == 0.25f);
    ck_assert(h.scale_log2 == 0.36067376022224085f);
    ck_assert_ptr_null(h.seqused_q);
    ck_assert_ptr_eq(h.seqused_kv, used);
    ck_assert_int_eq(h.q_tiles, (int)tiles);
    ck_assert_int_eq(h.num_work, (int)rec.grid);
    ck_assert_ptr_null(h.bounds_report);
    ck_assert_ptr_null(h.page_table);
    ck_assert_ptr_null(h.cu_seqlens_q);
    ck_assert_ptr_null(h.block_counts);
    ck_assert(!h.schedule.rows && h.schedule.max_rows == 0);
    ck_assert(cap[0].shape[0] == H && cap[0].stride[0] == 1);
    ck_assert(cap[1].shape[0] == B && cap[1].shape[1] == SKV);
    ck_assert(cap[1].stride[0] == SKV && cap[1].stride[1] == 1);
    ck_assert_ptr_eq(cap[1].data, memory);
    ck_assert_int_eq(par[0].i, -7);
    ck_assert(par[1].f == 0.5f);
    drop_kernel(&m);
    ck_assert_int_eq(rec.pushes, rec.pops);
}
END_TEST

START_TEST(sinks_of_any_stride)
{
    facc_error err = FACC_ERROR_INIT;
    struct made_kernel m;
    struct facc_kernel_header h;
    facc_tensor sinks = tensor(FACC_F32, 1, H, 0, 0, 0);
    make_kernel(&m);
    load(&m);
    for (int64_t stride = -2; stride <= 1; stride++) {
        m.kernel->plans.plan[0].config.sinks = true;
        sinks.stride[0] = stride;
        m.call.args.sinks = &sinks;
        ck_assert_msg(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err) ==
                          FACC_OK,
                      "%s", err.message);
        memcpy(&h, rec.args, sizeof h);
        ck_assert_ptr_eq(h.sinks, memory);
        ck_assert_int_eq(h.sinks_stride, stride);
    }
    m.kernel->plans.plan[0].config.sinks = false;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_ERR_ARGUMENT);
    m.call.args.sinks = NULL;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_OK);
    memcpy(&h, rec.args, sizeof h);
    ck_assert(!h.sinks && h.sinks_stride == 0);
    drop_kernel(&m);
}
END_TEST

START_TEST(dropout)
{
    facc_error err = FACC_ERROR_INIT;
    struct made_kernel m;
    struct facc_kernel_header h;
    make_kernel(&m);
    load(&m);
    m.kernel->plans.plan[0].config.dropout = true;
    m.call.args.dropout_p = 0.25;
    m.call.args.dropout_seed = 0x1122334455667788;
    m.call.args.dropout_offset = 0x100000002;
    for (int none = 0; none < 2; none++) {
        ck_assert_msg(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err) ==
                          FACC_OK,
                      "%s", err.message);
        memcpy(&h, rec.args, sizeof h);
        ck_assert_uint_eq(h.dropout_drops, none ? 0 : 16384);
        ck_assert_float_eq(h.dropout_scale, none ? 1 : 4.0f / 3);
        ck_assert_uint_eq(h.dropout_key[0], 0x55667788);
        ck_assert_uint_eq(h.dropout_key[1], 0x11223345);
        ck_assert_uint_eq(h.dropout_offset, 2);
        m.call.args.dropout_p = 0; /* such a kernel takes this, too */
    }
    drop_kernel(&m);
}
END_TEST

START_TEST(defaults_and_empties)
{
    struct made_kernel m;
    struct facc_kernel_header h;
    struct facc_captured cap[2];
    make_kernel(&m);
    load(&m);
    facc_args *a = &m.call.args;
    a->lse.data = NULL;
    a->k.shape[2] = a->v.shape[2] = m.call.captured[1].shape[1] = 0;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, a, NULL, NULL), FACC_OK);
    ck_assert_int_eq(rec.launches, 1); /* fully masked rows are written */
    memcpy(&h, rec.args, sizeof h);
    memcpy(cap, rec.args + 1152, sizeof cap);
    ck_assert(h.scale == 0.125f);
    ck_assert_ptr_null(h.lse);
    ck_assert_ptr_null(cap[1].data); /* no elements */
    ck_assert_ptr_nonnull(cap[0].data);

    a->q.shape[2] = a->o.shape[2] = 0; /* no rows: nothing to do */
    ck_assert_int_eq(facc_kernel_launch(m.kernel, a, NULL, NULL), FACC_OK);
    ck_assert_int_eq(rec.launches, 1);
    drop_kernel(&m);
}
END_TEST

START_TEST(contexts_are_left_as_found)
{
    struct made_kernel m;
    make_kernel(&m);
    load(&m);
    ck_assert_int_eq(rec.pushes, rec.pops);
    int pushes = rec.pushes;
    rec.current = (cu_context)(void *)&context_object; /* already current */
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, NULL),
                     FACC_OK);
    ck_assert_int_eq(rec.pushes, pushes);
    rec.current = NULL;
    rec.launch_result = 719;
    facc_error err = FACC_ERROR_INIT;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_ERR_CUDA);
    ck_assert_ptr_nonnull(strstr(err.message, "cuLaunchKernel failed"));
    ck_assert_ptr_nonnull(strstr(err.message, "CUDA_ERROR_FAKE"));
    ck_assert_int_eq(rec.pushes, pushes + 1);
    ck_assert_int_eq(rec.pushes, rec.pops);
    rec.launch_result = CU_ERROR_OUT_OF_MEMORY;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_ERR_MEMORY);
    drop_kernel(&m);
}
END_TEST

START_TEST(not_prepared)
{
    facc_error err = FACC_ERROR_INIT;
    struct made_kernel m;
    make_kernel(&m);
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_ERR_NOT_PREPARED);
    ck_assert_ptr_nonnull(strstr(err.message, "facc_kernel_load"));
    load(&m);
    m.call.args.device = 1;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_ERR_NOT_PREPARED);
    m.call.args.device = -1;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_kernel_load(m.kernel, 1, &err), FACC_OK);
    m.call.args.device = 1;
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_OK);
    ck_assert_int_eq(rec.loads, 1); /* one library for all devices */
    ck_assert_int_eq(facc_kernel_launch(NULL, &m.call.args, NULL, &err),
                     FACC_ERR_ARGUMENT);
    m.call.args.scale = NAN; /* launch checks what check checks */
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "scale is NaN"));
    ck_assert_str_eq(err.stage, "launch");
    drop_kernel(&m);
}
END_TEST

START_TEST(load_refuses)
{
    facc_error err = FACC_ERROR_INIT;
    struct made_kernel m;
    make_kernel(&m);
    ck_assert_int_eq(facc_kernel_load(m.kernel, 2, &err), FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "device 2 does not exist"));
    rec.arch_major = 8;
    ck_assert_int_eq(facc_kernel_load(m.kernel, 0, &err), FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(
        strstr(err.message, "the kernel is for sm_90, device 0 is sm_80"));
    rec.arch_major = 9;
    static const enum entry always[] = {ENTRY_FORWARD, ENTRY_SCHEDULE,
                                        ENTRY_ORDER};
    m.kernel->plans.plan[0].config.packed = true;
    make_scheduled(&m, &(struct schedule_facts){.scheduled = true});
    for (int i = 0; i < 3; i++) { /* in no case half loaded */
        rec.missing = entry_name(always[i]);
        ck_assert_int_eq(facc_kernel_load(m.kernel, 0, &err), FACC_ERR_CUDA);
        ck_assert_ptr_nonnull(strstr(err.message, rec.missing));
        ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, NULL),
                         FACC_ERR_NOT_PREPARED);
    }
    rec.missing = NULL;
    load(&m);
    ck_assert_int_eq(rec.loads, 2); /* the forward kernel; the schedule's */
    drop_kernel(&m);
}
END_TEST

START_TEST(arch_of_the_device)
{
    static const int cases[][3] = {
        {8, 0, 80},   {8, 6, 86},   {8, 7, 86},   {8, 9, 89}, {9, 0, 90},
        {10, 0, 100}, {10, 3, 100}, {12, 1, 120}, {7, 5, 0},  {11, 0, 0}};
    struct call c;
    open_call(&c);
    fake_driver(c.ctx);
    c.variant.arch = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct diag d;
        struct plans plans;
        diag_init(&d);
        rec.arch_major = cases[i][0];
        rec.arch_minor = cases[i][1];
        bool ok = kernel_configure(c.ctx, c.program, &c.variant, &plans, &d);
        ck_assert_int_eq(ok, cases[i][2] != 0);
        ck_assert_int_eq(ok ? plans.plan[0].arch : 0, cases[i][2]);
        ck_assert_int_eq(d.status, ok ? 0 : FACC_ERR_UNSUPPORTED);
    }
    c.variant.device = 5;
    ck_assert_int_eq(
        facc_kernel_check(c.ctx, c.program, &c.variant, NULL, NULL),
        FACC_ERR_ARGUMENT);
    close_call(&c);
}
END_TEST

static void *load_in_thread(void *user)
{
    struct made_kernel *m = user;
    load(m);
    return NULL;
}

START_TEST(threads_load_once)
{
    pthread_t t[4];
    struct made_kernel m;
    make_kernel(&m);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, load_in_thread, &m), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    ck_assert_int_eq(rec.loads, 1);
    drop_kernel(&m);
}
END_TEST

/* In a forked child: GPU calls are refused, checks still work, nothing is
 * unloaded or released. */
START_TEST(forked_child)
{
    struct made_kernel m;
    make_kernel(&m);
    load(&m);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        facc_error err = FACC_ERROR_INIT;
        int ok =
            facc_kernel_launch(m.kernel, &m.call.args, NULL, &err) ==
                FACC_ERR_FORKED &&
            facc_kernel_load(m.kernel, 0, &err) == FACC_ERR_FORKED &&
            facc_kernel_bounds_report(m.kernel, 0, &err) == FACC_ERR_FORKED &&
            strstr(err.message, "fork") && check(&m.call, &err) == FACC_OK &&
            rec.launches == 0;
        facc_kernel_free(m.kernel);
        close_call(&m.call);
        _exit(ok && rec.unloads == 0 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    drop_kernel(&m);
}
END_TEST

START_TEST(bounds_report)
{
    facc_error err = FACC_ERROR_INIT;
    struct made_kernel m;
    struct facc_kernel_header h;
    make_kernel(&m);
    ck_assert_int_eq(facc_kernel_bounds_report(m.kernel, 0, &err),
                     FACC_ERR_NOT_PREPARED);
    m.kernel->plans.plan[0].config.check_bounds = true;
    load(&m);
    load(&m);
    ck_assert_int_eq(facc_kernel_launch(m.kernel, &m.call.args, NULL, &err),
                     FACC_OK);
    memcpy(&h, rec.args, sizeof h);
    ck_assert_ptr_nonnull(h.bounds_report);
    ck_assert_int_eq(facc_kernel_bounds_report(m.kernel, 0, &err), FACC_OK);
    h.bounds_report[0] = 2; /* what a checked kernel writes */
    h.bounds_report[1] = 9;
    h.bounds_report[2] = 71;
    h.bounds_report[3] = 70;
    ck_assert_int_eq(facc_kernel_bounds_report(m.kernel, 0, &err),
                     FACC_ERR_BOUNDS);
    ck_assert_int_eq(err.line, 9);
    ck_assert_ptr_nonnull(strstr(
        err.message, "t.lua:9: error: index 71 is outside captured tensor "
                     "\"doc\""));
    ck_assert_int_eq(facc_kernel_bounds_report(m.kernel, 0, &err), FACC_OK);
    drop_kernel(&m);
}
END_TEST

/* Streams need not wait for the default one, in which copies are made. */
START_TEST(uploads_are_done)
{
    int from = 5, to = 0;
    struct made_kernel m;
    make_kernel(&m);
    load(&m);
    ck_assert_int_eq(
        facc_device_upload(m.call.ctx, 0, &to, &from, sizeof to, NULL),
        FACC_OK);
    ck_assert_int_eq(to, 5);
    ck_assert_int_eq(rec.unwaited, 0);
    drop_kernel(&m);
}
END_TEST

START_TEST(workspace)
{
    size_t bytes = 1, align = 0;
    struct made_kernel m;
    make_kernel(&m);
    ck_assert_int_eq(
        facc_workspace_size(m.kernel, &m.call.args, &bytes, &align), FACC_OK);
    ck_assert_uint_eq(bytes, 0);
    ck_assert_uint_eq(align, 256);
    ck_assert_int_eq(facc_workspace_size(NULL, &m.call.args, &bytes, &align),
                     FACC_ERR_ARGUMENT);
    m.call.args.q.data = m.call.args.o.data = NULL; /* sizes are enough */
    ck_assert_int_eq(
        facc_workspace_size(m.kernel, &m.call.args, &bytes, &align), FACC_OK);
    m.call.args.k.shape[3]++;
    bytes = align = 77;
    ck_assert_int_eq(
        facc_workspace_size(m.kernel, &m.call.args, &bytes, &align),
        FACC_ERR_ARGUMENT);
    ck_assert(bytes == 77 && align == 77);
    drop_kernel(&m);
}
END_TEST

/* More captures than kernel arguments can carry: refused before anything is
 * compiled. */
START_TEST(too_many_captures)
{
    char text[8192];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "local facc = require 'facc'\n"
                                "local sum = 0\nlocal t = {}\n");
    for (int i = 0; i < 40; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "t[%d] = facc.tensor('t%d', 'f32', { 'H' })\n", i,
                              i);
    snprintf(text + n, sizeof text - n,
             "return facc.attention { score_mod = function(s, b, h)\n"
             "  for i = 0, 39 do s = s + t[i][h] end\n  return s\nend }\n");
    facc_error err = FACC_ERROR_INIT;
    facc_program *p;
    struct call c;
    open_call(&c);
    ck_assert_msg(facc_program_load_string(&p, c.ctx, "many.lua", text,
                                           strlen(text), &err) == FACC_OK,
                  "%s", err.message);
    ck_assert_int_eq(facc_kernel_check(c.ctx, p, &c.variant, NULL, &err),
                     FACC_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "captures 40 tensors"));
    facc_program_free(p);
    close_call(&c);
}
END_TEST

/* Best of some rounds: seconds of host time of a launch. */
enum { TIMED_ROUNDS = 40, TIMED_LAUNCHES = 250 };

static double time_of_launch(struct made_kernel *m)
{
    double best = 1;
    for (int round = 0; round < TIMED_ROUNDS; round++) {
        const double start = thread_seconds();
        for (int i = 0; i < TIMED_LAUNCHES; i++)
            facc_kernel_launch(m->kernel, &m->call.args, NULL, NULL);
        const double s = (thread_seconds() - start) / TIMED_LAUNCHES;
        best = s < best ? s : best;
    }
    return best;
}

/* Host time besides the driver's, also of the three kernels of a launch that
 * makes a schedule. */
START_TEST(launch_overhead)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const double limit = 100e-6;
#else
    const double limit = 5e-6;
#endif
    struct made_kernel m;
    make_kernel(&m);
    load(&m);
    const double plain = time_of_launch(&m);
    make_scheduled(&m, &(struct schedule_facts){.scheduled = true});
    load(&m);
    m.call.args.workspace = (void *)(uintptr_t)(1 << 20);
    m.call.args.workspace_size = 1 << 20;
    rec.launches = 0;
    const double scheduled = time_of_launch(&m);
    ck_assert_int_eq(rec.launches, 3 * TIMED_ROUNDS * TIMED_LAUNCHES);
    printf("launch: %.2f us of host time over the driver's, with a schedule "
           "%.2f us\n",
           plain * 1e6, scheduled * 1e6);
    fflush(stdout);
    ck_assert(plain < limit);
    ck_assert(scheduled < limit);
    drop_kernel(&m);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {argument_bytes,
                                  defaults_and_empties,
                                  sinks_of_any_stride,
                                  contexts_are_left_as_found,
                                  dropout,
                                  not_prepared,
                                  load_refuses,
                                  arch_of_the_device,
                                  threads_load_once,
                                  forked_child,
                                  bounds_report,
                                  workspace,
                                  too_many_captures,
                                  launch_overhead,
                                  uploads_are_done};
    return run_tests("launch", NULL, 0, tests, sizeof tests / sizeof tests[0]);
}

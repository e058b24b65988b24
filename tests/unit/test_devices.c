/* Two GPUs in one process, by a driver that knows which is which: contexts,
 * functions, attributes, memory and launches of each, loads and failures of one
 * that the other does not notice; and a million launches. */
#include "tests/unit/launch_fixture.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

enum { DEVICES = 2, STACK = 8, THREADS = 8 };

/* What the driver knows of each device. The stack of contexts is the thread's.
 */
static struct {
    int context, functions[MODULES_MAX * N_ENTRIES];
    atomic_int retained, released, attributes, launches, allocated;
    int arch;
    bool broken; /* functions of this device cannot be had */
} gpu[DEVICES];
static _Thread_local cu_context stack[STACK];
static _Thread_local int depth;
static atomic_int mistakes;

/* The device whose context is current; -1: none. */
static int current_device(void)
{
    for (int i = 0; i < DEVICES && depth > 0; i++)
        if (stack[depth - 1] == (cu_context)(void *)&gpu[i].context)
            return i;
    return -1;
}

static cu_result g_attribute(int *v, int which, cu_device device)
{
    mistakes += device < 0 || device >= DEVICES;
    *v = which == CU_DEV_MULTIPROCESSORS ? 10 * (device + 1)
         : which == CU_DEV_CC_MAJOR      ? gpu[device].arch / 10
                                         : gpu[device].arch % 10;
    return 0;
}
static cu_result g_retain(cu_context *c, cu_device device)
{
    *c = (cu_context)(void *)&gpu[device].context;
    gpu[device].retained++;
    return 0;
}
static cu_result g_release(cu_device device)
{
    gpu[device].released++;
    return 0;
}
static cu_result g_current(cu_context *c)
{
    *c = depth > 0 ? stack[depth - 1] : NULL;
    return 0;
}
static cu_result g_push(cu_context c)
{
    if (depth == STACK)
        return CU_ERROR_INVALID_VALUE;
    stack[depth++] = c;
    return 0;
}
static cu_result g_pop(cu_context *c)
{
    mistakes += depth == 0;
    *c = depth > 0 ? stack[--depth] : NULL;
    return 0;
}
/* A function is of the device whose context is current. */
static cu_result g_function(cu_function *f, cu_kernel k)
{
    const int device = current_device();
    const long n = (int *)(void *)k - function_object[0];
    if (device < 0 || gpu[device].broken)
        return CU_ERROR_INVALID_VALUE;
    *f = (cu_function)(void *)&gpu[device].functions[n];
    return 0;
}
static cu_result g_put(int which, int v, cu_kernel k, cu_device device)
{
    (void)which, (void)v, (void)k;
    gpu[device].attributes++;
    return 0;
}
static cu_result g_alloc(cu_ptr *p, size_t n)
{
    const int device = current_device();
    if (device < 0)
        return CU_ERROR_INVALID_VALUE;
    gpu[device].allocated++;
    char *memory_of = calloc(1, n + 256);
    ck_assert_ptr_nonnull(memory_of);
    memory_of[0] = (char)device;
    *p = (cu_ptr)(uintptr_t)(memory_of + 256);
    return 0;
}
static cu_result g_free(cu_ptr p)
{
    char *memory_of = (char *)(uintptr_t)p - 256;
    mistakes += memory_of[0] != current_device();
    gpu[(int)memory_of[0]].allocated--;
    free(memory_of);
    return 0;
}
static cu_result g_launch(cu_function f, unsigned gx, unsigned gy, unsigned gz,
                          unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, cu_stream stream, void **params,
                          void **extra)
{
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
    (void)params, (void)extra;
    const int device = (int)(intptr_t)stream - 1; /* its stream, by agreement */
    const int *object = (const int *)(const void *)f;
    mistakes += device != current_device() || object < gpu[device].functions ||
                object >= gpu[device].functions + MODULES_MAX * N_ENTRIES;
    gpu[device].launches++;
    return 0;
}

static void two_gpus(facc_ctx *ctx, int first, int second)
{
    struct driver *drv = ctx->driver;
    memset(gpu, 0, sizeof gpu);
    depth = mistakes = 0;
    gpu[0].arch = first;
    gpu[1].arch = second;
    drv->DeviceGetAttribute = g_attribute;
    drv->PrimaryCtxRetain = g_retain;
    drv->PrimaryCtxRelease = g_release;
    drv->CtxGetCurrent = g_current;
    drv->CtxPushCurrent = g_push;
    drv->CtxPopCurrent = g_pop;
    drv->KernelGetFunction = g_function;
    drv->KernelSetAttribute = g_put;
    drv->MemAlloc = g_alloc;
    drv->MemFree = g_free;
    drv->LaunchKernel = g_launch;
}

static void *stream_of(int device)
{
    return (void *)(intptr_t)(device + 1);
}

static facc_status launch_on(struct made_kernel *m, int device, facc_error *err)
{
    m->call.args.device = device;
    return facc_kernel_launch(m->kernel, &m->call.args, stream_of(device), err);
}

/* ---- two of a kind
 * ------------------------------------------------------------ */

START_TEST(each_device_its_own)
{
    facc_error err = FACC_ERROR_INIT;
    struct made_kernel m;
    make_kernel(&m);
    two_gpus(m.call.ctx, 90, 90);
    ck_assert_int_eq(facc_kernel_load(m.kernel, 1, &err), FACC_OK);
    ck_assert_int_eq(gpu[0].retained, 0); /* the other one is left alone */
    ck_assert_int_eq(gpu[1].retained, 1);
    ck_assert_int_eq(launch_on(&m, 0, &err), FACC_ERR_NOT_PREPARED);
    ck_assert_int_eq(launch_on(&m, 1, &err), FACC_OK);
    ck_assert_int_eq(facc_kernel_load(m.kernel, 0, &err), FACC_OK);
    for (int i = 0; i < 3; i++)
        for (int device = 0; device < DEVICES; device++)
            ck_assert_int_eq(launch_on(&m, device, &err), FACC_OK);
    ck_assert_int_eq(rec.loads, 1); /* one library for both */
    for (int device = 0; device < DEVICES; device++) {
        ck_assert_int_eq(gpu[device].retained, 1);
        ck_assert_int_eq(gpu[device].attributes, 1);
        ck_assert_int_eq(gpu[device].launches, 3 + device);
        ck_assert_int_eq(facc_kernel_load(m.kernel, device, &err), FACC_OK);
        ck_assert_int_eq(gpu[device].attributes, 1); /* once */
    }
    ck_assert_int_eq(depth, 0);
    ck_assert_int_eq(mistakes, 0);
    drop_kernel(&m);
    for (int device = 0; device < DEVICES; device++)
        ck_assert_int_eq(gpu[device].released, 1);
}
END_TEST

/* The framework's device is current, the launch is for the other one: as it was
 * afterwards, also when the launch fails. */
START_TEST(callers_context_comes_back)
{
    struct made_kernel m;
    facc_error err = FACC_ERROR_INIT;
    make_kernel(&m);
    two_gpus(m.call.ctx, 90, 90);
    for (int device = 0; device < DEVICES; device++)
        ck_assert_int_eq(facc_kernel_load(m.kernel, device, &err), FACC_OK);
    for (int mine = 0; mine < DEVICES; mine++)
        for (int device = 0; device < DEVICES; device++) {
            stack[0] = (cu_context)(void *)&gpu[mine].context;
            depth = 1;
            ck_assert_int_eq(launch_on(&m, device, &err), FACC_OK);
            ck_assert_int_eq(facc_kernel_load(m.kernel, device, &err), FACC_OK);
            m.call.args.scale = NAN;
            ck_assert_int_eq(launch_on(&m, device, &err), FACC_ERR_ARGUMENT);
            m.call.args.scale = 0;
            ck_assert_int_eq(depth, 1);
            ck_assert_int_eq(current_device(), mine);
        }
    depth = 0;
    ck_assert_int_eq(mistakes, 0);
    drop_kernel(&m);
}
END_TEST

/* One device fails to load: it is not half there, and the other one runs. */
START_TEST(one_device_fails)
{
    struct made_kernel m;
    facc_error err = FACC_ERROR_INIT;
    make_kernel(&m);
    two_gpus(m.call.ctx, 90, 90);
    gpu[1].broken = true;
    ck_assert_int_eq(facc_kernel_load(m.kernel, 0, &err), FACC_OK);
    ck_assert_int_eq(facc_kernel_load(m.kernel, 1, &err), FACC_ERR_CUDA);
    ck_assert_int_eq(launch_on(&m, 1, &err), FACC_ERR_NOT_PREPARED);
    ck_assert_int_eq(launch_on(&m, 0, &err), FACC_OK);
    gpu[1].broken = false;
    ck_assert_int_eq(facc_kernel_load(m.kernel, 1, &err), FACC_OK);
    ck_assert_int_eq(launch_on(&m, 1, &err), FACC_OK);
    ck_assert_int_eq(depth, 0);
    ck_assert_int_eq(mistakes, 0);
    drop_kernel(&m);
}
END_TEST

/* Checked builds: a report of its own on each. */
START_TEST(reports_of_each)
{
    struct made_kernel m;
    facc_error err = FACC_ERROR_INIT;
    make_kernel(&m);
    two_gpus(m.call.ctx, 90, 90);
    m.kernel->plans.plan[0].config.check_bounds = true;
    for (int device = 0; device < DEVICES; device++) {
        ck_assert_int_eq(facc_kernel_load(m.kernel, device, &err), FACC_OK);
        ck_assert_int_eq(gpu[device].allocated, 1);
    }
    int *report = (int *)(uintptr_t)atomic_load(&m.kernel->report[1]);
    report[0] = 1;
    report[1] = 7;
    ck_assert_int_eq(facc_kernel_bounds_report(m.kernel, 0, &err), FACC_OK);
    ck_assert_int_eq(facc_kernel_bounds_report(m.kernel, 1, &err),
                     FACC_ERR_BOUNDS);
    ck_assert_int_eq(err.line, 7);
    facc_kernel *k = m.kernel;
    m.kernel = calloc(1, sizeof *k); /* drop_kernel frees this one */
    ck_assert_ptr_nonnull(m.kernel);
    m.kernel->ctx = k->ctx;
    m.kernel->module[0] = k->module[0];
    facc_kernel_free(k);
    for (int device = 0; device < DEVICES; device++)
        ck_assert_int_eq(gpu[device].allocated, 0);
    ck_assert_int_eq(mistakes, 0);
    drop_kernel(&m);
}
END_TEST

/* Memory, copies and timers of a device are made in its context. */
START_TEST(conveniences_of_each)
{
    struct call c;
    facc_error err = FACC_ERROR_INIT;
    void *p[DEVICES];
    open_call(&c);
    fake_driver(c.ctx);
    two_gpus(c.ctx, 90, 90);
    for (int device = 0; device < DEVICES; device++)
        ck_assert_int_eq(facc_device_alloc(&p[device], c.ctx, device, 64, &err),
                         FACC_OK);
    for (int device = 0; device < DEVICES; device++) {
        ck_assert_int_eq(gpu[device].allocated, 1);
        ck_assert_int_eq(facc_device_free(c.ctx, device, p[device]), FACC_OK);
        ck_assert_int_eq(gpu[device].allocated, 0);
    }
    ck_assert_int_eq(facc_device_alloc(&p[0], c.ctx, 2, 64, &err),
                     FACC_ERR_ARGUMENT);
    ck_assert_int_eq(depth, 0);
    ck_assert_int_eq(mistakes, 0);
    close_call(&c);
}
END_TEST

struct user {
    struct made_kernel *m;
    int device, failed;
    pthread_barrier_t *start;
};

/* One thread's calls, its device's or by chance the other's context current. */
static void *use_device(void *at)
{
    struct user *u = at;
    facc_error err = FACC_ERROR_INIT;
    facc_args args = u->m->call.args;
    args.device = u->device;
    stack[0] = (cu_context)(void *)&gpu[u->failed % DEVICES].context;
    depth = 1;
    u->failed = 0;
    pthread_barrier_wait(u->start);
    u->failed += facc_kernel_load(u->m->kernel, u->device, &err) != FACC_OK;
    for (int i = 0; i < 1000; i++)
        u->failed += facc_kernel_launch(u->m->kernel, &args,
                                        stream_of(u->device), &err) != FACC_OK;
    u->failed += depth != 1;
    return NULL;
}

/* Threads of both devices at once load one kernel and launch it: one library,
 * each device prepared once, every launch with its own function. */
START_TEST(threads_of_each)
{
    struct made_kernel m;
    struct user users[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    make_kernel(&m);
    two_gpus(m.call.ctx, 90, 90);
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        users[i] = (struct user){&m, i % DEVICES, i / DEVICES, &start};
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, use_device, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(users[i].failed, 0);
    }
    pthread_barrier_destroy(&start);
    ck_assert_int_eq(rec.loads, 1);
    for (int device = 0; device < DEVICES; device++) {
        ck_assert_int_eq(gpu[device].retained, 1);
        ck_assert_int_eq(gpu[device].attributes, 1);
        ck_assert_int_eq(gpu[device].launches, THREADS / DEVICES * 1000);
    }
    ck_assert_int_eq(mistakes, 0);
    drop_kernel(&m);
    for (int device = 0; device < DEVICES; device++)
        ck_assert_int_eq(gpu[device].released, 1);
}
END_TEST

/* ---- two of different kinds
 * ------------------------------------------------------ */

/* A kernel is for one of them; arch 0 asks the device that is named. */
START_TEST(different_architectures)
{
    struct made_kernel m;
    facc_error err = FACC_ERROR_INIT;
    struct diag d;
    struct plans plans;
    make_kernel(&m);
    two_gpus(m.call.ctx, 90, 86);
    ck_assert_int_eq(facc_kernel_load(m.kernel, 0, &err), FACC_OK);
    ck_assert_int_eq(facc_kernel_load(m.kernel, 1, &err), FACC_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(
        strstr(err.message, "the kernel is for sm_90, device 1 is sm_86"));
    ck_assert_int_eq(launch_on(&m, 1, &err), FACC_ERR_NOT_PREPARED);
    ck_assert_int_eq(launch_on(&m, 0, &err), FACC_OK);
    facc_variant v = m.call.variant;
    v.arch = 0;
    for (v.device = 0; v.device < DEVICES; v.device++) {
        diag_init(&d);
        ck_assert(kernel_configure(m.call.ctx, m.call.program, &v, &plans, &d));
        ck_assert_int_eq(plans.plan[0].arch, v.device ? 86 : 90);
    }
    ck_assert_int_eq(mistakes, 0);
    drop_kernel(&m);
}
END_TEST

/* Each has multiprocessors of its own number. */
START_TEST(multiprocessors_of_each)
{
    struct call c;
    struct diag d;
    open_call(&c);
    fake_driver(c.ctx);
    two_gpus(c.ctx, 90, 90);
    diag_init(&d);
    for (int i = 0; i < 4; i++)
        ck_assert(driver_count_multiprocessors(c.ctx->driver, i % 2, &d));
    ck_assert_int_eq(atomic_load(&c.ctx->driver->multiprocessors[0]), 10);
    ck_assert_int_eq(atomic_load(&c.ctx->driver->multiprocessors[1]), 20);
    close_call(&c);
}
END_TEST

/* ---- many launches
 * ------------------------------------------------------------------ */

START_TEST(a_million_launches)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const int n = 20000;
#else
    const int n = 1000000;
#endif
    struct made_kernel m;
    facc_error err = FACC_ERROR_INIT;
    make_kernel(&m);
    two_gpus(m.call.ctx, 90, 90);
    for (int device = 0; device < DEVICES; device++) {
        ck_assert_int_eq(facc_kernel_load(m.kernel, device, &err), FACC_OK);
        ck_assert_int_eq(launch_on(&m, device, &err), FACC_OK);
    }
    const size_t heap = mallinfo2().uordblks;
    int failed = 0; /* Check writes a file at each assertion */
    for (int i = 0; i < n; i++)
        failed += launch_on(&m, i % 2, &err) != FACC_OK;
    ck_assert_int_eq(failed, 0);
    ck_assert_int_lt((ssize_t)(mallinfo2().uordblks - heap), 1000);
    ck_assert_int_eq(gpu[0].launches + gpu[1].launches, n + 2);
    ck_assert_int_eq(mistakes, 0);
    drop_kernel(&m);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        each_device_its_own,     callers_context_comes_back,
        one_device_fails,        reports_of_each,
        conveniences_of_each,    threads_of_each,
        different_architectures, multiprocessors_of_each,
        a_million_launches};
    return run_tests("devices", NULL, 0, tests, sizeof tests / sizeof tests[0]);
}

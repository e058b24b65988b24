/* A driver made of functions that record, and a kernel as facc_kernel_get
 * makes it, without NVRTC: for tests of loading and launching. */
#ifndef FACC_TEST_LAUNCH_FIXTURE_H
#define FACC_TEST_LAUNCH_FIXTURE_H

#include "templates/common/fp8_args.h"
#include "tests/unit/call_fixture.h"

#include <pthread.h>
#include <unistd.h>

struct recorded {
    int launches, overlapping, odd, loads, unloads, pushes, pops;
    int unwaited; /* copies and sets that nothing has waited for */
    cu_context current;
    struct seen {
        enum entry entry;
        int library; /* number of the load of its module */
        unsigned grid, block, shared;
        cu_stream stream;
    } seen[16];          /* launches, the 17th on the last one's place */
    const char *missing; /* an entry that the library lacks */
    unsigned grid, block, shared; /* of the last launch */
    cu_stream stream;
    unsigned char args[4096];
    struct facc_transpose_args transpose;
    int arch_major, arch_minor, multiprocessors;
    cu_result launch_result, encode_result;
    int encodes;
    struct encoded { /* tensor maps */
        int type, rank, interleave, swizzle, promotion, fill;
        void *address;
        uint64_t extent[5], stride[4];
        uint32_t box[5], step[5];
    } encoded[6];
};
static struct recorded rec;
static int context_object, library_object[MODULES_MAX];
static int function_object[MODULES_MAX][N_ENTRIES];

static inline cu_result f_name(cu_result r, const char **s)
{
    (void)r;
    *s = "CUDA_ERROR_FAKE";
    return 0;
}
static inline cu_result f_attribute(int *v, int which, cu_device device)
{
    (void)device;
    *v = which == CU_DEV_MULTIPROCESSORS ? rec.multiprocessors
         : which == CU_DEV_CC_MAJOR      ? rec.arch_major
                                         : rec.arch_minor;
    return 0;
}
static inline cu_result f_retain(cu_context *c, cu_device device)
{
    (void)device;
    *c = (cu_context)(void *)&context_object;
    return 0;
}
static inline cu_result f_release(cu_device device)
{
    (void)device;
    return 0;
}
static inline cu_result f_current(cu_context *c)
{
    *c = rec.current;
    return 0;
}
static inline cu_result f_push(cu_context c)
{
    rec.current = c;
    rec.pushes++;
    return 0;
}
static inline cu_result f_pop(cu_context *c)
{
    *c = rec.current;
    rec.current = NULL;
    rec.pops++;
    return 0;
}
static inline cu_result f_synchronize(void)
{
    rec.unwaited = 0;
    return 0;
}
static inline cu_result f_alloc(cu_ptr *p, size_t n)
{
    *p = (cu_ptr)(uintptr_t)malloc(n);
    return *p ? 0 : CU_ERROR_OUT_OF_MEMORY;
}
static inline cu_result f_free(cu_ptr p)
{
    free((void *)(uintptr_t)p);
    return 0;
}
static inline cu_result f_download(void *to, cu_ptr p, size_t n)
{
    memcpy(to, (void *)(uintptr_t)p, n);
    return 0;
}
static inline cu_result f_upload(cu_ptr p, const void *from, size_t n)
{
    memcpy((void *)(uintptr_t)p, from, n);
    rec.unwaited++;
    return 0;
}
static inline cu_result f_set(cu_ptr p, unsigned char v, size_t n)
{
    memset((void *)(uintptr_t)p, v, n);
    rec.unwaited++;
    return 0;
}
static inline cu_result f_load(cu_library *lib, const void *code, int *jo,
                               void **jv, unsigned nj, int *lo, void **lv,
                               unsigned nl)
{
    (void)code, (void)jo, (void)jv, (void)nj, (void)lo, (void)lv, (void)nl;
    usleep(10000); /* so that threads overlap */
    *lib = (cu_library)(void *)&library_object[rec.loads++ % MODULES_MAX];
    return 0;
}
static inline cu_result f_unload(cu_library lib)
{
    (void)lib;
    rec.unloads++;
    return 0;
}
static inline cu_result f_kernel(cu_kernel *k, cu_library lib, const char *name)
{
    const long n = (int *)(void *)lib - library_object;
    if (rec.missing && strcmp(name, rec.missing) == 0)
        return CU_ERROR_NOT_FOUND;
    for (int e = 0; e < N_ENTRIES; e++)
        if (strcmp(name, entry_name((enum entry)e)) == 0) {
            *k = (cu_kernel)(void *)&function_object[n][e];
            return 0;
        }
    return CU_ERROR_NOT_FOUND;
}
static inline cu_result f_function(cu_function *f, cu_kernel k)
{
    *f = (cu_function)(void *)k;
    return 0;
}
static inline cu_result f_get(int *v, int which, cu_kernel k, cu_device device)
{
    (void)which, (void)k, (void)device;
    *v = 100;
    return 0;
}
static inline cu_result f_put(int which, int v, cu_kernel k, cu_device device)
{
    const long e = ((int *)(void *)k - function_object[0]) % N_ENTRIES;
    (void)v, (void)device;
    return which == CU_FUNC_MAX_DYNAMIC_SHARED && e == ENTRY_FORWARD
               ? 0
               : CU_ERROR_INVALID_VALUE;
}
static inline cu_result f_launch(cu_function f, unsigned gx, unsigned gy,
                                 unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, cu_stream stream,
                                 void **params, void **extra)
{
    /* ck_assert writes to a file, also when it holds: it would be timed */
    const long n = (int *)(void *)f - function_object[0], e = n % N_ENTRIES;
    rec.odd += rec.unwaited > 0 || n < 0 || n >= MODULES_MAX * N_ENTRIES ||
               gx == 0 || rec.current != (cu_context)(void *)&context_object ||
               gy != 1 || gz != 1 || by != 1 || bz != 1 || extra != NULL;
    rec.seen[rec.launches < 16 ? rec.launches : 15] = (struct seen){
        (enum entry)e, (int)(n / N_ENTRIES), gx, bx, shared, stream};
    rec.launches++;
    rec.grid = gx;
    rec.block = bx;
    rec.shared = shared;
    rec.stream = stream;
    if (e == ENTRY_TRANSPOSE)
        memcpy(&rec.transpose, params[0], sizeof rec.transpose);
    else
        memcpy(rec.args, params[0], 1664); /* FP8's, or two maps, behind 1408 */
    return rec.launch_result;
}

static inline cu_result f_launch_ex(const struct cu_launch *l, cu_function f,
                                    void **params, void **extra)
{
    rec.overlapping += l->n == 1 && l->attributes->id == CU_LAUNCH_OVERLAP &&
                       l->attributes->value.allowed == 1;
    return f_launch(f, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                    l->block[1], l->block[2], l->shared, l->stream, params,
                    extra);
}

static inline cu_result f_encode(void *map, int type, uint32_t rank,
                                 void *address, const uint64_t *extent,
                                 const uint64_t *stride, const uint32_t *box,
                                 const uint32_t *step, int interleave,
                                 int swizzle, int promotion, int fill)
{
    struct encoded *e = &rec.encoded[rec.encodes < 6 ? rec.encodes : 5];
    if (rec.current != (cu_context)(void *)&context_object)
        return 201; /* CUDA_ERROR_INVALID_CONTEXT, as the driver says */
    e->type = type;
    e->rank = (int)rank;
    e->interleave = interleave;
    e->swizzle = swizzle;
    e->promotion = promotion;
    e->fill = fill;
    e->address = address;
    memcpy(e->extent, extent, rank * sizeof *extent);
    memcpy(e->stride, stride, (rank - 1) * sizeof *stride);
    memcpy(e->box, box, rank * sizeof *box);
    memcpy(e->step, step, rank * sizeof *step);
    rec.odd += (uintptr_t)map % 128 != 0;
    memset(map, ++rec.encodes, 128);
    return rec.encode_result;
}

/* Gives the context a driver of two devices, which ctx_free closes. */
static inline void fake_driver(facc_ctx *ctx)
{
    struct driver *drv = calloc(1, sizeof *drv);
    ck_assert_ptr_nonnull(drv);
    memset(&rec, 0, sizeof rec);
    rec.arch_major = 9;
    rec.multiprocessors = 20;
    pthread_mutex_init(&drv->lock, NULL);
    drv->n_devices = 2;
    drv->GetErrorName = drv->GetErrorString = f_name;
    drv->DeviceGetAttribute = f_attribute;
    drv->PrimaryCtxRetain = f_retain;
    drv->PrimaryCtxRelease = f_release;
    drv->CtxGetCurrent = f_current;
    drv->CtxPushCurrent = f_push;
    drv->CtxPopCurrent = f_pop;
    drv->CtxSynchronize = f_synchronize;
    drv->MemAlloc = f_alloc;
    drv->MemFree = f_free;
    drv->MemcpyDtoH = f_download;
    drv->MemcpyHtoD = f_upload;
    drv->MemsetD8 = f_set;
    drv->LibraryLoadData = f_load;
    drv->LibraryUnload = f_unload;
    drv->LibraryGetKernel = f_kernel;
    drv->KernelGetFunction = f_function;
    drv->KernelGetAttribute = f_get;
    drv->KernelSetAttribute = f_put;
    drv->LaunchKernel = f_launch;
    drv->TensorMapEncodeTiled = f_encode;
    ctx->driver = drv;
}

/* A kernel as facc_kernel_get makes it, without compiling anything; its facts
 * are those of a program without a mask. */
struct made_kernel {
    struct call call;
    struct module *module, *second; /* second: NULL for one code */
    struct module *makers;          /* of the schedule, or NULL */
    struct module *transposer;      /* of V for FP8, or NULL */
    facc_kernel *kernel;
};

static inline struct module *make_module(const struct plan *p)
{
    struct module *m = calloc(1, sizeof *m);
    ck_assert_ptr_nonnull(m);
    pthread_mutex_init(&m->lock, NULL);
    m->entries = schedule_entries(&p->facts, &p->config);
    return m;
}

/* Of m->call and its variant. */
static inline void make_kernel_of_call(struct made_kernel *m)
{
    struct diag d;
    struct plans plans;
    diag_init(&d);
    fake_driver(m->call.ctx);
    ck_assert_msg(kernel_configure(m->call.ctx, m->call.program,
                                   &m->call.variant, &plans, &d),
                  "%s", d.message);
    m->kernel = calloc(1, sizeof *m->kernel);
    ck_assert_ptr_nonnull(m->kernel);
    m->kernel->ctx = m->call.ctx;
    m->kernel->plans = plans;
    m->kernel->plans.scheduled = false;
    m->makers = m->transposer = NULL;
    for (int i = 0; i < plans.n; i++)
        memset(&m->kernel->plans.plan[i].facts, 0, sizeof plans.plan[i].facts);
    m->module = make_module(&m->kernel->plans.plan[0]);
    m->second = plans.n > 1 ? make_module(&m->kernel->plans.plan[1]) : NULL;
    m->kernel->module[0] = m->module;
    m->kernel->module[1] = m->second;
    m->kernel->args_size = 1408; /* 1152 + 144 + 16, rounded up to 128 */
    ck_assert(
        signature_copy(&m->kernel->signature, &m->call.program->signature));
}

/* As if the kernel were made for a program of these facts: to be loaded. */
static inline void make_scheduled(struct made_kernel *m,
                                  const struct schedule_facts *facts)
{
    struct plans *p = &m->kernel->plans;
    p->scheduled = facts->scheduled;
    p->schedule.arch = p->plan[0].arch;
    p->schedule.config = emit_schedule(&p->plan[0].config);
    p->schedule.facts = *facts;
    for (int i = 0; i < p->n; i++)
        p->plan[i].facts = *facts;
    if (!m->makers)
        m->makers = make_module(&p->schedule);
    m->makers->entries =
        schedule_entries(&p->schedule.facts, &p->schedule.config);
    memset((void *)m->makers->function, 0, sizeof m->makers->function);
    m->kernel->module[p->n] = m->makers;
}

/* As if the kernel of family sm90 were one for FP8: to be loaded. */
static inline void make_fp8(struct made_kernel *m)
{
    struct plans *p = &m->kernel->plans;
    ck_assert_int_eq(p->n, 1);
    p->plan[0].config.dtype = DTYPE_E4M3;
    p->plan[0].config.out_dtype = DTYPE_BF16;
    p->transposed = true;
    p->transpose.arch = p->plan[0].arch;
    p->transpose.config = emit_transpose(&p->plan[0].config);
    m->transposer = make_module(&p->transpose);
    m->kernel->module[p->n + p->scheduled] = m->transposer;
    m->kernel->args_size = 1536; /* 136 more, rounded up */
}

static inline void make_kernel(struct made_kernel *m)
{
    open_call(&m->call);
    make_kernel_of_call(m);
}

static inline void drop_kernel(struct made_kernel *m)
{
    struct module *all[MODULES_MAX] = {m->module, m->second, m->makers,
                                       m->transposer};
    ck_assert(rec.odd == 0 && rec.unwaited == 0);
    facc_kernel_free(m->kernel);
    for (int i = 0; i < MODULES_MAX; i++) {
        if (all[i])
            pthread_mutex_destroy(&all[i]->lock);
        free(all[i]);
    }
    close_call(&m->call);
}

static inline void load(struct made_kernel *m)
{
    facc_error err = FACC_ERROR_INIT;
    ck_assert_msg(facc_kernel_load(m->kernel, 0, &err) == FACC_OK, "%s",
                  err.message);
}

#endif

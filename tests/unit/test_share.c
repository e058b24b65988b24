/* One library, many users: processes that want one cold kernel, threads that
 * get, load and launch many, children that were forked while threads were
 * busy. NVRTC and the driver are made up, so that all of it runs anywhere, also
 * under ThreadSanitizer. */
#include "tests/unit/fake_nvrtc.h"
#include "tests/unit/kernel_fixture.h"
#include "tests/unit/test_share.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "runtime/driver.h"
#include "runtime/kernel.h"

static char fake[PATH_MAX + 32], compiles[PATH_MAX + 32], gate[PATH_MAX + 32];

static void set_up_share(void)
{
    set_up();
    ck_assert_msg(make_fake_nvrtc(base, fake, sizeof fake), "no C compiler");
    snprintf(compiles, sizeof compiles, "%s/compiles", base);
    snprintf(gate, sizeof gate, "%s/gate", base);
    setenv("FAKE_NVRTC_LOG", compiles, 1);
    setenv("FAKE_NVRTC_GATE", gate, 1);
    unsetenv("FAKE_NVRTC_MS");
}

static facc_options fake_options(struct counts *c)
{
    facc_options o = options(c);
    o.nvrtc_path = fake;
    o.template_dir = NULL; /* nothing is compiled: the real ones */
    return o;
}

static int count_compiles(void)
{
    struct stat st;
    return stat(compiles, &st) == 0 ? (int)st.st_size : 0;
}

/* ---- processes ------------------------------------------------------------
 */

/* What a process got, as one number: the bytes of its cubin. */
static uint64_t sum_of(const facc_kernel *k)
{
    const unsigned char *byte = k->module[0]->cubin;
    uint64_t sum = 1469598103u;
    for (size_t i = 0; i < k->module[0]->cubin_size; i++)
        sum = (sum ^ byte[i]) * 1099511628211u;
    return sum;
}

static void want_one(int to)
{
    struct counts c;
    facc_options o = fake_options(&c);
    facc_ctx *ctx = open_ctx(&o);
    facc_program *p = program(ctx, causal);
    facc_kernel *k = got(ctx, p, 80);
    uint64_t answer = c.warnings ? 0 : sum_of(k);
    facc_kernel_free(k);
    facc_program_free(p);
    facc_ctx_free(ctx);
    _exit(write(to, &answer, sizeof answer) == sizeof answer ? 0 : 1);
}

START_TEST(sixteen_processes_one_compile)
{
    enum { N = 16 };
    int pipes[2], right = 0;
    pid_t pid[N];
    ck_assert_int_eq(pipe(pipes), 0);
    setenv("FAKE_NVRTC_MS", "300", 1);
    for (int i = 0; i < N; i++) {
        pid[i] = fork();
        ck_assert_int_ge(pid[i], 0);
        if (pid[i] == 0)
            want_one(pipes[1]);
    }
    uint64_t answer, first = 0;
    for (int i = 0; i < N; i++) {
        int status;
        ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(read(pipes[0], &answer, sizeof answer), sizeof answer);
        first = i ? first : answer;
        right += answer != 0 && answer == first;
    }
    ck_assert_int_eq(right, N);
    ck_assert_int_eq(count_compiles(), 1);
    close(pipes[0]);
    close(pipes[1]);
}
END_TEST

/* ---- threads ---------------------------------------------------------------
 */

/* A driver of one device whose functions change nothing but counts. */
static atomic_int loads, unloads, launches;
static int object;

static cu_result d_name(cu_result r, const char **s)
{
    (void)r;
    *s = "FAKE";
    return 0;
}
static cu_result d_attribute(int *v, int which, cu_device device)
{
    (void)device;
    *v = which == CU_DEV_CC_MAJOR ? 8 : which == CU_DEV_CC_MINOR ? 0 : 20;
    return 0;
}
static cu_result d_retain(cu_context *c, cu_device device)
{
    (void)device;
    *c = (cu_context)(void *)&object;
    return 0;
}
static cu_result d_release(cu_device device)
{
    (void)device;
    return 0;
}
static cu_result d_current(cu_context *c)
{
    *c = NULL;
    return 0;
}
static cu_result d_push(cu_context c)
{
    return c == (cu_context)(void *)&object ? 0 : CU_ERROR_INVALID_VALUE;
}
static cu_result d_load(cu_library *lib, const void *code, int *jo, void **jv,
                        unsigned nj, int *lo, void **lv, unsigned nl)
{
    (void)jo, (void)jv, (void)nj, (void)lo, (void)lv, (void)nl;
    if (memcmp(code, "\177ELF", 4) != 0)
        return CU_ERROR_INVALID_VALUE;
    *lib = (cu_library)(void *)&object;
    atomic_fetch_add(&loads, 1);
    return 0;
}
static cu_result d_unload(cu_library lib)
{
    (void)lib;
    atomic_fetch_add(&unloads, 1);
    return 0;
}
static cu_result d_kernel(cu_kernel *k, cu_library lib, const char *name)
{
    (void)lib, (void)name;
    *k = (cu_kernel)(void *)&object;
    return 0;
}
static cu_result d_function(cu_function *f, cu_kernel k)
{
    *f = (cu_function)(void *)k;
    return 0;
}
static cu_result d_get(int *v, int which, cu_kernel k, cu_device device)
{
    (void)which, (void)k, (void)device;
    *v = 100;
    return 0;
}
static cu_result d_put(int which, int v, cu_kernel k, cu_device device)
{
    (void)which, (void)v, (void)k, (void)device;
    return 0;
}
static cu_result d_launch(cu_function f, unsigned gx, unsigned gy, unsigned gz,
                          unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, cu_stream stream, void **params,
                          void **extra)
{
    (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream;
    (void)extra;
    if (f != (cu_function)(void *)&object || gx == 0 || bx == 0 || !params[0])
        return CU_ERROR_INVALID_VALUE;
    atomic_fetch_add(&launches, 1);
    return 0;
}

static void give_driver(facc_ctx *ctx)
{
    struct driver *drv = calloc(1, sizeof *drv);
    ck_assert_ptr_nonnull(drv);
    atomic_store(&loads, 0);
    atomic_store(&unloads, 0);
    atomic_store(&launches, 0);
    pthread_mutex_init(&drv->lock, NULL);
    drv->n_devices = 1;
    drv->GetErrorName = drv->GetErrorString = d_name;
    drv->DeviceGetAttribute = d_attribute;
    drv->PrimaryCtxRetain = d_retain;
    drv->PrimaryCtxRelease = d_release;
    drv->CtxGetCurrent = drv->CtxPopCurrent = d_current;
    drv->CtxPushCurrent = d_push;
    drv->LibraryLoadData = d_load;
    drv->LibraryUnload = d_unload;
    drv->LibraryGetKernel = d_kernel;
    drv->KernelGetFunction = d_function;
    drv->KernelGetAttribute = d_get;
    drv->KernelSetAttribute = d_put;
    drv->LaunchKernel = d_launch;
    ctx->driver = drv;
}

enum { THREADS = 8, KERNELS = 100 };

struct crew {
    facc_ctx *ctx;
    facc_program *shared[4]; /* the others are each thread's own */
    pthread_barrier_t start;
};
struct worker {
    struct crew *crew;
    int number, wrong;
};

static facc_tensor tensor4(void *data, int64_t rows)
{
    return (facc_tensor){.data = data,
                         .dtype = FACC_BF16,
                         .rank = 4,
                         .shape = {1, 1, rows, 64},
                         .stride = {64 * rows, 64 * rows, 64, 1}};
}

static bool launch_one(facc_kernel *k)
{
    static _Alignas(16) char memory[16 * 64 * 2];
    facc_args a = FACC_ARGS_INIT;
    a.q = a.k = a.v = a.o = tensor4(memory, 16);
    return facc_kernel_launch(k, &a, NULL, NULL) == FACC_OK;
}

/* The i-th of a hundred masks, by a program of the thread's own or a shared
 * one: one cubin for all who ask for that mask. */
static bool use_kernel(struct crew *crew, int i)
{
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k = NULL;
    facc_program *own = NULL, *p = i < 4 ? crew->shared[i] : NULL;
    char mask[64];
    snprintf(mask, sizeof mask, "q >= kv + %d", i);
    if (!p && !facc_program_load_expressions(&own, crew->ctx, NULL, mask, NULL,
                                             0, &err))
        p = own;
    bool ok = p && get(&k, crew->ctx, p, 80, &err) == FACC_OK &&
              facc_kernel_load(k, 0, &err) == FACC_OK && launch_one(k);
    if (!ok)
        fprintf(stderr, "%s\n", err.message);
    facc_kernel_free(k);
    facc_program_free(own);
    return ok;
}

static void *work(void *user)
{
    struct worker *w = user;
    pthread_barrier_wait(&w->crew->start);
    for (int i = 0; i < KERNELS; i++) /* pairs ask for the same, then not */
        w->wrong += !use_kernel(w->crew, (i + w->number / 2 * 17) % KERNELS);
    return NULL;
}

/* Looks around meanwhile: lists, explains, is told about the system. */
static int on_entry(void *user, const facc_cache_entry *e)
{
    int *n = user;
    *n += e->valid;
    return 0;
}
static void *look(void *user)
{
    struct worker *w = user;
    facc_system_info s = FACC_SYSTEM_INFO_INIT;
    pthread_barrier_wait(&w->crew->start);
    for (int i = 0; i < 20; i++) {
        int n = 0;
        char *text = NULL;
        w->wrong += facc_cache_list(w->crew->ctx, on_entry, &n, NULL) != 0;
        w->wrong +=
            facc_program_explain(&text, w->crew->ctx, w->crew->shared[i % 4],
                                 NULL, i % 2, NULL) != 0;
        w->wrong += facc_system(w->crew->ctx, &s, NULL) != 0;
        facc_string_free(text);
    }
    return NULL;
}

START_TEST(eight_threads_hundred_kernels)
{
    struct counts c;
    facc_options o = fake_options(&c);
    struct crew crew;
    struct worker w[THREADS + 1];
    pthread_t t[THREADS + 1];
    char manifest[PATH_MAX + 32];
    snprintf(manifest, sizeof manifest, "%s/m.jsonl", base);
    o.manifest = manifest;
    crew.ctx = open_ctx(&o);
    give_driver(crew.ctx);
    for (int i = 0; i < 4; i++) {
        char mask[64];
        snprintf(mask, sizeof mask, "q >= kv + %d", i);
        crew.shared[i] = program(crew.ctx, mask);
    }
    pthread_barrier_init(&crew.start, NULL, THREADS + 1);
    for (int i = 0; i <= THREADS; i++) {
        w[i] = (struct worker){&crew, i, 0};
        ck_assert_int_eq(
            pthread_create(&t[i], NULL, i < THREADS ? work : look, &w[i]), 0);
    }
    for (int i = 0; i <= THREADS; i++) {
        pthread_join(t[i], NULL);
        ck_assert_int_eq(w[i].wrong, 0);
    }
    ck_assert_int_eq(count_compiles(), KERNELS);
    ck_counts(&c, KERNELS, 0, (THREADS - 1) * KERNELS);
    ck_assert_int_eq(c.warnings, 0);
    ck_assert_int_eq(atomic_load(&loads), KERNELS);
    ck_assert_int_eq(atomic_load(&launches), THREADS * KERNELS);
    pthread_barrier_destroy(&crew.start);
    for (int i = 0; i < 4; i++)
        facc_program_free(crew.shared[i]);
    facc_ctx_free(crew.ctx);
    ck_assert_int_eq(atomic_load(&unloads), KERNELS);
}
END_TEST

/* ---- forks
 * -------------------------------------------------------------------
 */

struct busy {
    facc_ctx *ctx;
    facc_program *p;
    atomic_bool stop;
};

static void *compile_in_thread(void *user)
{
    struct busy *b = user;
    facc_kernel_free(got(b->ctx, b->p, 80));
    return NULL;
}

static facc_status in_child(facc_status (*call)(const struct busy *b),
                            const struct busy *b)
{
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        signal(SIGALRM, SIG_DFL); /* not Check's, which ends the test */
        alarm(300);               /* a hang is a signal */
        _exit(-call(b));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "the child hung or crashed: %d", status);
    return -WEXITSTATUS(status);
}

static facc_status child_gets_same(const struct busy *b)
{
    facc_kernel *k;
    facc_error err = FACC_ERROR_INIT;
    facc_status s = get(&k, b->ctx, b->p, 80, &err);
    if (s && !strstr(err.message, "fork"))
        return FACC_ERR_INTERNAL;
    if (!s)
        facc_kernel_free(k);
    facc_program_free(b->p);
    facc_ctx_free(b->ctx);
    return s;
}

/* The parent's compile ends at some moment of this. */
static facc_status child_opens_gate(const struct busy *b)
{
    return unlink(gate) == 0 ? child_gets_same(b) : FACC_ERR_INTERNAL;
}

static facc_status child_uses_cpu(const struct busy *b)
{
    char *text = NULL;
    facc_error err = FACC_ERROR_INIT;
    static float memory[16 * 64];
    facc_args a = FACC_ARGS_INIT;
    a.q = a.k = a.v = a.o = tensor4(memory, 16);
    a.q.dtype = a.k.dtype = a.v.dtype = a.o.dtype = FACC_F32;
    facc_status s = facc_program_explain(&text, b->ctx, b->p, NULL, 0, &err);
    facc_string_free(text);
    facc_cpu_options two = FACC_CPU_OPTIONS_INIT;
    two.threads = 2;
    return s ? s : facc_cpu_attention(b->ctx, b->p, &a, &two, &err);
}

/* While a thread of the parent compiles. With a cache the child gets what the
 * parent publishes; without one it would need an NVRTC that is busy for ever.
 */
static void fork_while_compiling(int cache_mode,
                                 facc_status (*get_it)(const struct busy *b),
                                 facc_status want)
{
    struct counts c;
    facc_options o = fake_options(&c);
    struct busy b;
    pthread_t t;
    facc_status s;
    const int before = count_compiles();
    o.cache_mode = cache_mode;
    b.ctx = open_ctx(&o);
    b.p = program(b.ctx, causal);
    write_file(base, "gate", "");
    ck_assert_int_eq(pthread_create(&t, NULL, compile_in_thread, &b), 0);
    while (count_compiles() == before)
        usleep(1000);
    ck_assert_int_eq(in_child(child_uses_cpu, &b), FACC_OK);
    s = in_child(get_it, &b);
    ck_assert_msg(s == want, "%s", facc_status_name(s));
    (void)unlink(gate);
    pthread_join(t, NULL);
    ck_counts(&c, 1, 0, 0);
    ck_assert_int_eq(count_compiles(), before + 1);
    ck_assert_int_eq(in_child(child_gets_same, &b),
                     FACC_OK); /* nobody is busy */
    facc_program_free(b.p);
    facc_ctx_free(b.ctx);
}

START_TEST(forked_while_compiling)
{
    setenv("FAKE_NVRTC_MS", "700", 1);
    fork_while_compiling(1, child_opens_gate, FACC_OK);
    fork_while_compiling(3, child_gets_same, FACC_ERR_FORKED);
}
END_TEST

static void *work_until_told(void *user)
{
    struct busy *b = user;
    for (int i = 0; !atomic_load(&b->stop); i++) {
        facc_error err = FACC_ERROR_INIT;
        facc_kernel *k = NULL;
        char mask[64];
        facc_program *p;
        snprintf(mask, sizeof mask, "q >= kv + %d", i % 50);
        if (facc_program_load_expressions(&p, b->ctx, NULL, mask, NULL, 0,
                                          &err))
            continue;
        if (get(&k, b->ctx, p, 80, &err) == FACC_OK)
            facc_kernel_free(k);
        facc_program_free(p);
    }
    return NULL;
}

static facc_status child_does_all(const struct busy *b)
{
    facc_status s = child_uses_cpu(b);
    if (s && s != FACC_ERR_FORKED)
        return s;
    return child_gets_same(b);
}

/* At any moment of four busy threads: an answer or an error that names the
 * fork, never a hang. Not under sanitizers, whose allocators' locks a child may
 * inherit taken. */
START_TEST(forked_at_any_time)
{
    enum { N = 4 };
    const int children =
        getenv("FACC_TEST_LONG") && atoi(getenv("FACC_TEST_LONG")) ? 500 : 20;
    struct counts c;
    facc_options o = fake_options(&c);
    struct busy b;
    pthread_t t[N];
    int ok = 0, refused = 0;
    b.ctx = open_ctx(&o);
    give_driver(b.ctx);
    b.p = program(b.ctx, causal);
    facc_kernel_free(got(b.ctx, b.p, 80));
    atomic_init(&b.stop, false);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, work_until_told, &b), 0);
    for (int i = 0; i < children; i++) {
        usleep((unsigned)(i * 37 % 11) * 100);
        const facc_status s = in_child(child_does_all, &b);
        ck_assert_msg(s == FACC_OK || s == FACC_ERR_FORKED, "%s",
                      facc_status_name(s));
        ok += s == FACC_OK;
        refused += s != FACC_OK;
    }
    atomic_store(&b.stop, true);
    for (int i = 0; i < N; i++)
        pthread_join(t[i], NULL);
    printf("forked while busy: %d worked, %d were refused\n", ok, refused);
    facc_program_free(b.p);
    facc_ctx_free(b.ctx);
}
END_TEST

static bool can_run(const TTest *t)
{
#if defined(FACC_TEST_SLOW) || defined(FACC_TEST_THREADS)
    return t != forked_at_any_time;
#else
    return t != NULL;
#endif
}

int main(void)
{
    const TTest *const tests[] = {sixteen_processes_one_compile,
                                  eight_threads_hundred_kernels,
                                  forked_while_compiling, forked_at_any_time};
    Suite *s = suite_create("share");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, set_up_share, tear_down);
    tcase_set_timeout(t, 600);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (can_run(tests[i]))
            tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return suite_run(s);
}

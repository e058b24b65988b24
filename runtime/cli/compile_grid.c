/* Runs the tasks of facc compile on several threads, no more than the memory
 * holds, with a line for each that is done and a line of progress on a
 * terminal. What is done is in the cache: whoever is interrupted starts again
 * and goes on. */
#include "runtime/cli/compile_grid.h"
#include "runtime/usable_cpus.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    /* What one more kernel under way takes: up to 100 MiB each of two threads
     * for head dim 256 on sm_90, with NVRTC 13. */
    MIB_PER_JOB = 200,
    MAX_JOBS = 64
};

struct task *grid_add(struct grid *g)
{
    if (g->n == g->cap) {
        const int cap = g->cap ? 2 * g->cap : 64;
        struct task *t = cli_alloc((size_t)cap * sizeof *t);
        if (g->n)
            memcpy(t, g->tasks, (size_t)g->n * sizeof *t);
        free(g->tasks);
        g->tasks = t;
        g->cap = cap;
    }
    struct task *t = &g->tasks[g->n++];
    t->err = (facc_error)FACC_ERROR_INIT;
    t->info = (facc_kernel_info)FACC_KERNEL_INFO_INIT;
    t->quantize = (facc_quantize_variant)FACC_QUANTIZE_VARIANT_INIT;
    return t;
}

/* --- memory ----------------------------------------------------------------
 */

enum { UNKNOWN = -1 };

/* A number in a file: the first one behind `label`, or at the beginning. */
static double number_in(const char *path, const char *label)
{
    char line[256];
    double found = UNKNOWN;
    FILE *f = fopen(path, "re");
    while (f && found < 0 && fgets(line, sizeof line, f)) {
        const size_t n = label ? strlen(label) : 0;
        int64_t v;
        char *text = line + n;
        if (label && strncmp(line, label, n) != 0)
            continue;
        text += strspn(text, " \t");
        text[strcspn(text, " \t\n")] = '\0';
        if (!cli_parse_int(text, &v)) /* "max": no limit */
            break;
        found = (double)v;
    }
    if (f)
        fclose(f);
    return found;
}

static double lesser(double a, double b)
{
    return b < 0 ? a : a < 0 || b < a ? b : a;
}

/* What the container may still take, pages of files not counted. */
static double left_in_group(const char *limit, const char *used,
                            const char *stat, const char *label)
{
    const double most = number_in(limit, NULL), now = number_in(used, NULL);
    const double files = number_in(stat, label);
    if (most < 0 || now < 0)
        return UNKNOWN;
    const double left = most - now + (files > 0 ? files : 0);
    return left > 0 ? left : 0;
}

/* MiB that this process may take yet; UNKNOWN: no limit is known. */
static double free_mib(void)
{
    struct rlimit r;
    double kib = number_in("/proc/meminfo", "MemAvailable:");
    double bytes = kib < 0 ? UNKNOWN : 1024 * kib;
    bytes = lesser(bytes, left_in_group("/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/memory.current",
                                        "/sys/fs/cgroup/memory.stat",
                                        "inactive_file"));
    bytes = lesser(bytes,
                   left_in_group("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                 "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                                 "/sys/fs/cgroup/memory/memory.stat",
                                 "total_inactive_file"));
    if (getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY) {
        const double pages = number_in("/proc/self/statm", NULL);
        const double used =
            pages < 0 ? 0 : pages * (double)sysconf(_SC_PAGESIZE);
        bytes = lesser(
            bytes, (double)r.rlim_cur > used ? (double)r.rlim_cur - used : 0);
    }
    return bytes < 0 ? UNKNOWN : bytes / (1 << 20);
}

int grid_jobs(int n, int asked, int memory)
{
    int jobs = asked ? asked : usable_cpus();
    const double mib = memory ? memory : free_mib();
    if (jobs > MAX_JOBS)
        jobs = MAX_JOBS;
    if (jobs > n)
        jobs = n;
    if (mib >= 0 && jobs > 1 && mib < (double)jobs * MIB_PER_JOB) {
        jobs = mib < 2 * MIB_PER_JOB ? 1 : (int)(mib / MIB_PER_JOB);
        fprintf(stderr, "facc: %d at once: %.0f MiB of memory are free\n", jobs,
                mib);
    }
    return jobs < 1 ? 1 : jobs;
}

/* --- progress ----------------------------------------------------------------
 */

static void erase_line(struct grid *g)
{
    if (g->line)
        fputs("\r\033[K", stderr);
    g->line = false;
}

/* Kernels that were there already are no measure of those that are not. */
static double seconds_left(const struct grid *g)
{
    const int at_once = g->running > 0 ? g->running : 1;
    return g->compiled
               ? g->compiled_seconds / g->compiled * (g->n - g->done) / at_once
               : -1;
}

static void draw_line(struct grid *g)
{
    if (!isatty(STDERR_FILENO) || g->done == g->n)
        return;
    const double left = seconds_left(g);
    fprintf(stderr, "\r\033[K[%d/%d] %d at once, %d failed, %.0f s", g->done,
            g->n, g->running, g->failed, cli_now() - g->start);
    if (left >= 0)
        fprintf(stderr, ", %.0f s to go", left);
    g->line = true;
}

static void announce(struct grid *g, const struct task *t)
{
    const facc_variant *v = &t->variant;
    erase_line(g);
    if (!g->quiet) {
        printf("[%d/%d] %s", g->done, g->n,
               t->file[0] ? t->file : "(expressions)");
        if (t->program)
            printf("  %s  D %d/%d  sm_%d", facc_dtype_name(v->dtype),
                   v->head_dim, v->head_dim_v, v->arch);
        else if (t->quantize.from)
            printf("  %s to %s  D %d%s%s%s  sm_%d", facc_dtype_name(v->dtype),
                   facc_dtype_name(v->out_dtype), v->head_dim,
                   t->quantize.hadamard ? "  hadamard" : "",
                   t->quantize.mean ? "  mean" : "",
                   t->quantize.image ? "  image" : "", v->arch);
        if (t->status)
            printf("  FAILED: %s\n", t->err.message);
        else if (t->quantize.from)
            printf("  %s  %.2f s\n", t->info.source, t->seconds);
        else
            printf("  %s%s%s  %s  %.2f s  %d registers  %d spill bytes\n",
                   t->info.family, t->info.fallback[0] ? " and " : "",
                   t->info.fallback, t->info.source, t->seconds,
                   t->info.registers, t->info.spill_bytes);
        fflush(stdout);
    }
    draw_line(g);
}

/* --- threads
 * ------------------------------------------------------------------ */

static volatile sig_atomic_t interrupted; /* set by the handler alone */

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* The second one ends the process. */
static void catch_signals(struct sigaction old[2])
{
    struct sigaction a = {.sa_handler = on_signal,
                          .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, &old[0]);
    sigaction(SIGTERM, &a, &old[1]);
}

static void get_kernel(struct grid *g, struct task *t)
{
    facc_kernel *k;
    const double start = cli_now();
    t->status = facc_kernel_get(&k, g->ctx, t->program, &t->variant, &t->err);
    t->seconds = cli_now() - start;
    if (!t->status) {
        facc_kernel_get_info(k, &t->info);
        facc_kernel_free(k);
    }
}

/* The one that this thread gets. */
static _Thread_local struct task *quantizer;

void grid_on_compile(void *user, const facc_compile_event *e)
{
    (void)user;
    if (!quantizer)
        return;
    snprintf(quantizer->info.key, sizeof quantizer->info.key, "%s", e->key);
    snprintf(quantizer->info.source, sizeof quantizer->info.source, "%s",
             e->source);
}

static void get_quantizer(struct grid *g, struct task *t)
{
    facc_quantizer *q = NULL;
    const double start = cli_now();
    quantizer = t;
    t->status = facc_quantizer_get(&q, g->ctx, &t->quantize, &t->err);
    quantizer = NULL;
    t->seconds = cli_now() - start;
    facc_quantizer_free(q);
}

/* Others took the memory meanwhile: one that does not start yet costs less than
 * one that the system kills. Somebody always runs. The lock is held. */
static bool must_wait(const struct grid *g)
{
    if (g->running == 0)
        return false;
    const double mib = free_mib();
    return mib >= 0 && mib < MIB_PER_JOB;
}

static struct task *take(struct grid *g)
{
    struct task *t = NULL;
    pthread_mutex_lock(&g->lock);
    while (!interrupted && g->next < g->n && must_wait(g)) {
        const struct timespec pause = {.tv_nsec = 200000000};
        pthread_mutex_unlock(&g->lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&g->lock);
    }
    if (!interrupted && g->next < g->n) {
        t = &g->tasks[g->next++];
        g->running++;
    }
    pthread_mutex_unlock(&g->lock);
    return t;
}

static void *worker(void *user)
{
    struct grid *g = user;
    for (struct task *t; (t = take(g));) {
        if (t->program)
            get_kernel(g, t);
        else if (t->quantize.from)
            get_quantizer(g, t);
        pthread_mutex_lock(&g->lock);
        g->running--;
        g->done++;
        g->failed += t->status != FACC_OK;
        if (strcmp(t->info.source, "nvrtc") == 0) {
            g->compiled++;
            g->compiled_seconds += t->seconds;
        }
        announce(g, t);
        pthread_mutex_unlock(&g->lock);
    }
    return NULL;
}

static void summarise(const struct grid *g)
{
    printf("%d of %d kernels: %d compiled, %d there already, %d failed, "
           "%.1f s\n",
           g->done, g->n, g->compiled, g->done - g->compiled - g->failed,
           g->failed, cli_now() - g->start);
    if (g->done < g->n)
        fprintf(stderr, "facc: interrupted: the same command goes on\n");
}

int grid_run(struct grid *g, int jobs)
{
    pthread_t thread[MAX_JOBS];
    struct sigaction old[2];
    int started = 0;
    pthread_mutex_init(&g->lock, NULL);
    g->start = cli_now();
    interrupted = 0;
    catch_signals(old);
    draw_line(g);
    while (started < jobs - 1 && started < MAX_JOBS &&
           !pthread_create(&thread[started], NULL, worker, g))
        started++;
    worker(g); /* this thread works too */
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    sigaction(SIGINT, &old[0], NULL);
    sigaction(SIGTERM, &old[1], NULL);
    erase_line(g);
    if (!g->quiet && g->n > 1)
        summarise(g);
    pthread_mutex_destroy(&g->lock);
    return g->failed || g->done < g->n ? EXIT_FAILED : EXIT_OK;
}

/* Worker processes (pool.h), one request and one reply at a time by pipes. */
#include "tests/fuzz/pool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct request {
    uint64_t seed;
    int32_t n; /* decisions that follow; -1: of the seed */
};

double pool_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu_time(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool transfer(int fd, void *data, size_t size, bool out)
{
    char *p = data;
    while (size > 0) {
        ssize_t n = out ? write(fd, p, size) : read(fd, p, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

/* --- the worker --------------------------------------------------- */

/* A context keeps the machine code that it made: renewed now and then. */
enum { CASES_PER_CONTEXT = 64 };

static _Noreturn void work(int from, int to, const struct check_options *o)
{
    static struct choices choices;
    static uint32_t given[CHOICES_MOST];
    struct outcome out;
    struct request r;
    facc_ctx *ctx = NULL;
    for (long k = 0; transfer(from, &r, sizeof r, false); k++) {
        if (k % CASES_PER_CONTEXT == 0) {
            facc_ctx_free(ctx);
            ctx = check_context();
        }
        if (!ctx)
            _exit(3);
        choices_seed(&choices, r.seed);
        if (r.n >= 0) {
            if (!transfer(from, given, (size_t)r.n * sizeof *given, false))
                break;
            choices_replay(&choices, given, (uint32_t)r.n);
        }
        check_case(&choices, o, ctx, &out);
        if (!transfer(to, &out, sizeof out, true))
            break;
    }
    _exit(0);
}

bool pool_has_gpu(void)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        facc_ctx *ctx = check_context();
        _exit(!ctx || !check_has_gpu(ctx));
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* --- the parent --------------------------------------------------- */

static void start(struct pool *p, int k)
{
    int down[2], up[2];
    struct worker *w = &p->worker[k];
    if (pipe(down) || pipe(up)) {
        perror("fuzz: pipe");
        exit(2);
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        perror("fuzz: fork");
        exit(2);
    }
    if (pid == 0) {
        close(down[1]);
        close(up[0]);
        for (int i = 0; i < p->n; i++)
            if (p->worker[i].pid) { /* the others' ends */
                close(p->worker[i].to);
                close(p->worker[i].from);
            }
        work(down[0], up[1], &p->options);
    }
    close(down[0]);
    close(up[1]);
    *w = (struct worker){.pid = pid, .to = down[1], .from = up[0]};
}

/* How it ended. */
static int reap(struct worker *w)
{
    int status = 0;
    close(w->to);
    close(w->from);
    waitpid(w->pid, &status, 0);
    w->pid = 0;
    w->busy = false;
    return status;
}

void pool_open(struct pool *p, const struct check_options *options, int n,
               double timeout)
{
    *p = (struct pool){.options = *options, .timeout = timeout};
    signal(SIGPIPE, SIG_IGN);
    p->n = n < 1 ? 1 : n > POOL_MOST ? POOL_MOST : n;
}

void pool_close(struct pool *p)
{
    for (int k = 0; k < p->n; k++)
        if (p->worker[k].pid) {
            if (p->worker[k].busy)
                kill(p->worker[k].pid, SIGKILL);
            reap(&p->worker[k]);
        }
}

void pool_send(struct pool *p, int k, uint64_t seed, const uint32_t *given,
               uint32_t n)
{
    struct worker *w = &p->worker[k];
    struct request r = {seed, given ? (int32_t)n : -1};
    for (int again = 0; again < 3; again++) {
        if (!w->pid)
            start(p, k);
        w->busy = true;
        w->since = pool_now();
        w->cpu = cpu_time(w->pid);
        w->seed = seed;
        if (transfer(w->to, &r, sizeof r, true) &&
            (!given || transfer(w->to, (uint32_t *)(uintptr_t)given,
                                (size_t)n * sizeof *given, true)))
            return;
        reap(w); /* it had left after its last case */
    }
    fprintf(stderr, "fuzz: workers do not start\n");
    exit(2);
}

static void crashed(struct worker *w, struct outcome *out)
{
    const int status = reap(w);
    *out = (struct outcome){.stage = STAGE_CRASH, .tally = {.cases = 1}};
    if (WIFSIGNALED(status))
        snprintf(out->message, sizeof out->message, "ended by signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(out->message, sizeof out->message, "exit code %d",
                 WEXITSTATUS(status));
}

/* A case that takes too long; the worker, or -1. */
static int find_hung(struct pool *p, struct outcome *out)
{
    for (int k = 0; k < p->n; k++) {
        struct worker *w = &p->worker[k];
        if (!w->busy || (pool_now() - w->since < 4 * p->timeout &&
                         cpu_time(w->pid) - w->cpu < p->timeout))
            continue;
        kill(w->pid, SIGKILL);
        reap(w);
        *out = (struct outcome){.stage = STAGE_HANG, .tally = {.cases = 1}};
        snprintf(out->message, sizeof out->message, "nothing for %g s",
                 p->timeout);
        return k;
    }
    return -1;
}

int pool_wait(struct pool *p, double seconds, struct outcome *out)
{
    struct pollfd fd[POOL_MOST];
    int owner[POOL_MOST], n = 0;
    for (int k = 0; k < p->n; k++)
        if (p->worker[k].busy) {
            fd[n] = (struct pollfd){.fd = p->worker[k].from, .events = POLLIN};
            owner[n++] = k;
        }
    if (poll(fd, (nfds_t)n, (int)(1000 * seconds)) > 0)
        for (int i = 0; i < n; i++) {
            struct worker *w = &p->worker[owner[i]];
            if (!fd[i].revents)
                continue;
            w->busy = false;
            if (!transfer(w->from, out, sizeof *out, false)) {
                crashed(w, out);
            } else if (p->options.gpu && out->stage != STAGE_FINE) {
                /* after a fault of the GPU nothing works there any more */
                kill(w->pid, SIGKILL);
                reap(w);
            }
            return owner[i];
        }
    return find_hung(p, out);
}

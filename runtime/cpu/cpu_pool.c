/* A pool of threads that sleep between jobs. In: a function to be called by
 * several threads at once. Out: it has been. Called by cpu_attention.c; the
 * context owns the pool. */
#include "runtime/cpu/cpu_pool.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_THREADS = 1024 };

struct cpu_pool {
    pid_t pid; /* of the process whose threads these are */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* a job has seats, or stop */
    pthread_cond_t idle; /* running fell to 0 */
    bool busy;           /* a job is in flight */
    bool stop;
    int seats;   /* threads that may still join the job */
    int running; /* threads inside work */
    void (*work)(void *user);
    void *user;
    int n_threads;
    pthread_t thread[MAX_THREADS];
};

static struct cpu_pool *pool_new(void)
{
    struct cpu_pool *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->pid = getpid();
    if (pthread_mutex_init(&p->lock, NULL) != 0)
        goto no_lock;
    if (pthread_cond_init(&p->wake, NULL) != 0)
        goto no_wake;
    if (pthread_cond_init(&p->idle, NULL) != 0)
        goto no_idle;
    return p;
no_idle:
    pthread_cond_destroy(&p->wake);
no_wake:
    pthread_mutex_destroy(&p->lock);
no_lock:
    free(p);
    return NULL;
}

struct cpu_pool *cpu_pool_get(facc_ctx *ctx, struct diag *d)
{
    if (!ctx_lock(ctx, &ctx->lock, d))
        return NULL;
    if (ctx->pool != NULL && ctx->pool->pid != getpid()) {
        cpu_pool_free(ctx->pool);
        ctx->pool = NULL;
    }
    if (ctx->pool == NULL)
        ctx->pool = pool_new();
    struct cpu_pool *p = ctx->pool;
    pthread_mutex_unlock(&ctx->lock);
    if (p == NULL)
        diag_nomem(d, "cpu");
    return p;
}

void cpu_pool_free(struct cpu_pool *p)
{
    if (p == NULL)
        return;
    if (p->pid == getpid()) {
        pthread_mutex_lock(&p->lock);
        assert(!p->busy);
        p->stop = true;
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
        for (int i = 0; i < p->n_threads; i++)
            pthread_join(p->thread[i], NULL);
        pthread_cond_destroy(&p->idle);
        pthread_cond_destroy(&p->wake);
        pthread_mutex_destroy(&p->lock);
    } /* else: the threads stayed in the parent, the lock's state is unknown */
    free(p);
}

static void *serve(void *user)
{
    struct cpu_pool *p = user;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (p->seats == 0) {
            pthread_cond_wait(&p->wake, &p->lock);
            continue;
        }
        p->seats--;
        p->running++;
        pthread_mutex_unlock(&p->lock);
        p->work(p->user);
        pthread_mutex_lock(&p->lock);
        if (--p->running == 0)
            pthread_cond_signal(&p->idle);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Brings the pool to n threads, or as near as the system allows. Signals are
 * the application's: these threads take none. */
static void grow(struct cpu_pool *p, int n)
{
    sigset_t all, old;
    if (n > MAX_THREADS)
        n = MAX_THREADS;
    if (p->n_threads >= n)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (p->n_threads < n &&
           pthread_create(&p->thread[p->n_threads], NULL, serve, p) == 0)
        p->n_threads++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void cpu_pool_run(struct cpu_pool *p, int threads, void (*work)(void *user),
                  void *user)
{
    pthread_mutex_lock(&p->lock);
    bool mine = !p->busy && threads > 1;
    if (mine) {
        grow(p, threads - 1);
        p->busy = true;
        p->work = work;
        p->user = user;
        p->seats = threads - 1 < p->n_threads ? threads - 1 : p->n_threads;
        pthread_cond_broadcast(&p->wake);
    }
    pthread_mutex_unlock(&p->lock);
    work(user);
    if (!mine)
        return;
    pthread_mutex_lock(&p->lock);
    p->seats = 0; /* whoever has not begun need not */
    while (p->running > 0)
        pthread_cond_wait(&p->idle, &p->lock);
    p->busy = false;
    pthread_mutex_unlock(&p->lock);
}

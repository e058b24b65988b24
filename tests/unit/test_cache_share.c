/* One cache directory, several processes: one compile per key, racing
 * writers, bounded waits. */
#include "tests/unit/cache_fixture.h"
#include "tests/unit/timing.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- processes ----------------------------------------------------------- */

/* One of several processes that want a key: locks, looks, "compiles" (writes
 * a line to `log`), publishes. */
static void want_key(const char *log)
{
    char key[33];
    struct diag d;
    struct cache_item i;
    diag_init(&d);
    struct cache *c = opened(CACHE_RW, base);
    if (!cache_key(text, TEXT_SIZE, key))
        _exit(1);
    int lock = cache_lock(c, key, 100000);
    if (lock < 0)
        _exit(2);
    if (cache_read(c, key, text, TEXT_SIZE, &i, &d) != CACHE_HIT) {
        int fd = open(log, O_WRONLY | O_APPEND);
        if (write(fd, "x", 1) != 1)
            _exit(3);
        close(fd);
        usleep(50000);
        i = made('p');
        if (!cache_write(c, key, text, TEXT_SIZE, &i, &d))
            _exit(4);
    }
    free(i.cubin);
    cache_unlock(c, key, lock);
    cache_close(c);
    _exit(0);
}

START_TEST(several_processes_compile_once)
{
    enum { N = 8 };
    char log[2 * PATH_MAX];
    pid_t pid[N];
    snprintf(log, sizeof log, "%s/log", base);
    fclose(fopen(log, "w"));
    for (int i = 0; i < N; i++) {
        pid[i] = fork();
        ck_assert_int_ge(pid[i], 0);
        if (pid[i] == 0)
            want_key(log);
    }
    for (int i = 0; i < N; i++) {
        int status;
        ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_eq(size_of(log), 1);
    ck_assert_int_eq(count_sub("lock"), 0);
    ck_assert_int_eq(count_sub("tmp"), 0);
}
END_TEST

/* Without locks all publish: one wins, all succeed. */
START_TEST(racing_writers)
{
    enum { N = 8 };
    char key[33];
    pid_t pid[N];
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    for (int i = 0; i < N; i++) {
        pid[i] = fork();
        ck_assert_int_ge(pid[i], 0);
        if (pid[i] == 0) {
            struct diag d;
            diag_init(&d);
            struct cache_item item = made((char)('0' + i));
            _exit(cache_write(c, key, text, TEXT_SIZE, &item, &d) ? 0 : 1);
        }
    }
    for (int i = 0; i < N; i++) {
        int status;
        ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_eq(lookup(c, key, NULL), CACHE_HIT);
    ck_assert_int_eq(count_sub("tmp"), 0);
    cache_close(c);
}
END_TEST

/* A holder that never lets go delays others for a bounded time only. */
START_TEST(lock_wait_is_bounded)
{
    char key[33];
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    int lock = cache_lock(c, key, 0);
    ck_assert_int_ge(lock, 0);
    const double start = wall_seconds();
    ck_assert_int_eq(cache_lock(c, key, 100), -1);
    const double waited = wall_seconds() - start;
    ck_assert(waited >= 0.09 && waited < 10);
    cache_unlock(c, key, lock);
    lock = cache_lock(c, key, 0);
    ck_assert_int_ge(lock, 0);
    cache_unlock(c, key, lock);
    cache_close(c);
}
END_TEST

/* A child that was forked meanwhile has the lock's descriptor too: closing it
 * here would not release the lock. */
START_TEST(forked_children_hold_no_lock)
{
    char key[33];
    int status;
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    int lock = cache_lock(c, key, 0);
    ck_assert_int_ge(lock, 0);
    pid_t idle = fork();
    if (idle == 0) {
        pause();
        _exit(0);
    }
    pid_t waiter = fork();
    if (waiter == 0)
        _exit(cache_lock(c, key, 100000) >= 0 ? 0 : 1);
    usleep(200000); /* so that it waits; it need not */
    cache_unlock(c, key, lock);
    ck_assert_int_eq(waitpid(waiter, &status, 0), waiter);
    kill(idle, SIGKILL);
    ck_assert_int_eq(waitpid(idle, NULL, 0), idle);
    ck_assert_int_eq(status, 0);
    cache_close(c);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {several_processes_compile_once,
                                  racing_writers, lock_wait_is_bounded,
                                  forked_children_hold_no_lock};
    return run_tests("cache_share", tests, sizeof tests / sizeof tests[0]);
}

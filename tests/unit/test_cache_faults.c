/* The disk cache when the system fails: every call of an operation in turn
 * fails with each of the errors that disks and networks have, once or from then
 * on; or the process is killed there. Calls are taken by the linker (--wrap,
 * see tests/CMakeLists.txt), so that nothing of it is left to chance; then
 * kills at random times, and real file systems that are full or read only.
 * usage: test_cache_faults [N]: so many random kills (default 10). */
#include "tests/unit/cache_fixture.h"
#include "tests/unit/timing.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "runtime/cache_entry.h"
#include "runtime/context.h"

static int random_kills = 10; /* of the command line */

/* ---- calls that fail
 * --------------------------------------------------------- */

/* What happens at the at-th call from now on. */
static struct {
    int at;           /* counted down; below 0: nothing any more */
    int error;        /* errno; 0: the process is killed */
    bool stays;       /* all that follow fail, too */
    const char *only; /* calls of this name alone, or NULL */
    const char *hit;  /* the call that failed first */
    bool done_first;  /* the call is made, then fails: a lost answer */
} fault = {.at = -1};

static bool fails(const char *name)
{
    if (fault.at < 0 || (fault.only && strcmp(fault.only, name) != 0))
        return false;
    if (fault.at > 0) {
        fault.at--;
        return false;
    }
    if (!fault.error)
        kill(getpid(), SIGKILL);
    if (!fault.hit)
        fault.hit = name;
    if (!fault.stays)
        fault.at = -1;
    errno = fault.error;
    return true;
}

static void arm(int at, int error, bool stays, const char *only)
{
    memset(&fault, 0, sizeof fault);
    fault.at = at;
    fault.error = error;
    fault.stays = stays;
    fault.only = only;
}

/* True: the armed call was reached. */
static bool disarm(void)
{
    bool reached = fault.hit != NULL;
    fault.at = -1;
    return reached;
}

#define WRAP(ret, name, params, args)                                          \
    ret __real_##name params;                                                  \
    ret __wrap_##name params;                                                  \
    ret __wrap_##name params                                                   \
    {                                                                          \
        return fails(#name) ? (ret)-1 : __real_##name args;                    \
    }
WRAP(int, renameat2,
     (int from, const char *a, int to, const char *b, unsigned flags),
     (from, a, to, b, flags))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode))
WRAP(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n))
WRAP(ssize_t, read, (int fd, void *data, size_t n), (fd, data, n))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, fstat, (int fd, struct stat *st), (fd, st))
WRAP(int, unlinkat, (int at, const char *path, int flags), (at, path, flags))
WRAP(int, flock, (int fd, int what), (fd, what))
WRAP(int, futimens, (int fd, const struct timespec t[2]), (fd, t))

int __real_renameat(int a, const char *from, int b, const char *to);
int __wrap_renameat(int a, const char *from, int b, const char *to);
int __wrap_renameat(int a, const char *from, int b, const char *to)
{
    if (!fails("renameat"))
        return __real_renameat(a, from, b, to);
    int saved = errno;
    if (fault.done_first)
        (void)__real_renameat(a, from, b, to);
    errno = saved;
    return -1;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) /* closes in any case */
{
    int r = __real_close(fd);
    return fails("close") ? -1 : r;
}

static mode_t mode_of(int flags, va_list ap)
{
    return flags & O_CREAT ? va_arg(ap, mode_t) : 0;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, ap);
    va_end(ap);
    return fails("open") ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, ap);
    va_end(ap);
    return fails("openat") ? -1 : __real_openat(at, path, flags, mode);
}

static const int errors[] = {ENOSPC, EDQUOT, EIO,    EROFS, EACCES,
                             EXDEV,  ESTALE, ENOENT, EMFILE};
enum { N_ERRORS = sizeof errors / sizeof errors[0], MOST_CALLS = 1000 };

/* ---- helpers
 * ------------------------------------------------------------------ */

static void empty_base(void)
{
    char sub[2 * PATH_MAX];
    snprintf(sub, sizeof sub, "%s/v1", base);
    nftw(sub, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool write_one(const struct cache *c, const char *key, struct diag *d)
{
    struct cache_item i = made('a');
    diag_init(d);
    bool ok = cache_write(c, key, text, TEXT_SIZE, &i, d);
    free(i.cubin);
    return ok;
}

/* Whatever happened before: the entry is whole or not there, and a process that
 * is well gets it or makes it. */
static void ck_heals(const struct cache *c, const char *key, const char *what)
{
    struct diag d;
    char first = 0;
    enum cache_result r = lookup(c, key, &first);
    ck_assert_msg(r == CACHE_MISS || (r == CACHE_HIT && first == 'a'), "%s: %d",
                  what, (int)r);
    ck_assert_msg(write_one(c, key, &d), "%s: %s", what, d.message);
    ck_assert_msg(lookup(c, key, &first) == CACHE_HIT && first == 'a', "%s",
                  what);
    int lock = cache_lock(c, key, 0); /* of a process that is gone, or free */
    ck_assert_msg(lock >= 0, "%s", what);
    cache_unlock(c, key, lock);
}

/* ---- one call fails
 * ------------------------------------------------------------ */

/* Publishing with the n-th call failing, for all n: an error is told, unless
 * the entry is there or the call did not matter. */
static int publish_failing(int error, bool stays)
{
    char key[33], what[64];
    struct diag d;
    int n = 0;
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    for (;; n++) {
        ck_assert_int_lt(n, MOST_CALLS);
        empty_base();
        arm(n, error, stays, NULL);
        bool ok = write_one(c, key, &d);
        bool reached = disarm();
        snprintf(what, sizeof what, "call %d (%s), errno %d", n,
                 fault.hit ? fault.hit : "", error);
        ck_assert_msg(ok != diag_failed(&d), "%s", what);
        if (!ok)
            ck_assert_msg(d.status == FACC_ERR_IO && strstr(d.message, base),
                          "%s: %s", what, d.message);
        else
            ck_assert_msg(lookup(c, key, NULL) == CACHE_HIT, "%s", what);
        ck_heals(c, key, what);
        if (!reached)
            break;
    }
    cache_close(c);
    return n;
}

START_TEST(any_call_of_publishing)
{
    for (int e = 0; e < N_ERRORS; e++) {
        int once = publish_failing(errors[e], false);
        int stays = publish_failing(errors[e], true);
        ck_assert(once > 15 && stays > 15);
    }
}
END_TEST

/* What could be cleaned up is: a full disk leaves no pieces. */
START_TEST(failed_writes_leave_nothing)
{
    static const char *const names[] = {"write", "fsync", "renameat"};
    char key[33];
    struct diag d;
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    for (int i = 0; i < 3; i++)
        for (int n = 0;; n++) {
            empty_base();
            arm(n, ENOSPC, true, names[i]);
            bool ok = write_one(c, key, &d);
            if (!disarm())
                break;
            if (!ok) /* syncing the folder behind the rename may fail */
                ck_assert_ptr_nonnull(strstr(d.message, "No space left"));
            ck_assert_int_eq(count_sub("tmp"), 0);
            ck_assert_int_lt(n, 20);
        }
    cache_close(c);
}
END_TEST

/* What is replaced is there all the time, the old one or the new one. */
START_TEST(any_call_of_replacing)
{
    char key[33], what[64], first = 0;
    struct diag d;
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    for (int e = 0; e < N_ERRORS; e++)
        for (int n = 0, reached = 1; reached; n++) {
            ck_assert_int_lt(n, MOST_CALLS);
            empty_base();
            ck_assert(write_one(c, key, &d));
            struct cache_item i = made('b');
            arm(n / 2, errors[e], n % 2, NULL);
            bool ok = entry_replace(base, key, text, TEXT_SIZE, &i, &d);
            reached = disarm() || n % 2 == 0;
            free(i.cubin);
            snprintf(what, sizeof what, "call %d (%s), errno %d", n / 2,
                     fault.hit ? fault.hit : "", errors[e]);
            ck_assert_msg(ok != diag_failed(&d), "%s", what);
            ck_assert_msg(lookup(c, key, &first) == CACHE_HIT, "%s", what);
            ck_assert_msg(first == (ok ? 'b' : 'a'), "%s", what);
        }
    cache_close(c);
}
END_TEST

/* A whole request of another process: lock, look, publish, unlock. */
static void request(const struct cache *c, const char *key)
{
    struct diag d;
    struct cache_item i = {0};
    diag_init(&d);
    int lock = cache_lock(c, key, 50);
    if (cache_read(c, key, text, TEXT_SIZE, &i, &d) != CACHE_HIT)
        (void)write_one(c, key, &d);
    free(i.cubin);
    cache_unlock(c, key, lock);
}

/* Reading with the n-th call failing: the right bytes, or a miss. A good entry
 * survives what will pass: no descriptors, a stale handle. */
START_TEST(any_call_of_reading)
{
    char key[33], what[64];
    struct diag d;
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    for (int e = 0; e < N_ERRORS; e++)
        for (int n = 0, reached = 1; reached; n++) {
            struct cache_item i = {0};
            ck_assert_int_lt(n, MOST_CALLS);
            ck_assert(write_one(c, key, &d));
            diag_init(&d);
            arm(n, errors[e], n % 2, NULL);
            enum cache_result r = cache_read(c, key, text, TEXT_SIZE, &i, &d);
            reached = disarm();
            snprintf(what, sizeof what, "call %d (%s), errno %d", n,
                     fault.hit ? fault.hit : "", errors[e]);
            if (r == CACHE_HIT)
                ck_assert_msg(((char *)i.cubin)[CUBIN_SIZE - 1] == 'a', "%s",
                              what);
            free(i.cubin);
            if (errors[e] == EMFILE || errors[e] == ESTALE)
                ck_assert_msg(lookup(c, key, NULL) == CACHE_HIT, "%s", what);
            ck_heals(c, key, what);
        }
    cache_close(c);
}
END_TEST

/* A file system without locks: no wait, and all else works. */
START_TEST(no_locks)
{
    static const int kinds[] = {ENOLCK, EOPNOTSUPP, EINVAL, EIO};
    char key[33];
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    for (int i = 0; i < 4; i++) {
        arm(0, kinds[i], true, "flock");
        const double start = wall_seconds();
        ck_assert_int_eq(cache_lock(c, key, 100000), -1);
        ck_assert(wall_seconds() - start < 50);
        request(c, key);
        disarm();
        ck_assert_int_eq(lookup(c, key, NULL), CACHE_HIT);
        ck_heals(c, key, "no locks");
    }
    cache_close(c);
}
END_TEST

/* Network file systems: the rename is done, its answer lost; or somebody else's
 * entry is there and not seen yet. Neither is a failure. */
START_TEST(renames_of_network_disks)
{
    static const int kinds[] = {ENOENT, ESTALE, EIO, EEXIST, ENOTEMPTY};
    char key[33];
    struct diag d;
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    for (int i = 0; i < 5; i++) {
        empty_base();
        arm(0, kinds[i], false, "renameat");
        fault.done_first = true;
        ck_assert_msg(write_one(c, key, &d), "%s", d.message);
        ck_assert(disarm());
        ck_assert_int_eq(lookup(c, key, NULL), CACHE_HIT);
        ck_assert_int_eq(count_sub("tmp"), 0);
    }
    static const int failures[] = {EXDEV, EPERM, ESTALE, ENOENT, EBUSY};
    for (int i = 0; i < 5; i++) {
        empty_base();
        arm(0, failures[i], true, "renameat");
        ck_assert(!write_one(c, key, &d));
        ck_assert(disarm());
        ck_assert_ptr_nonnull(strstr(d.message, "cannot write"));
        ck_assert_int_eq(count_sub("tmp"), 0);
        ck_heals(c, key, "rename");
    }
    cache_close(c);
}
END_TEST

/* ---- kills
 * ----------------------------------------------------------------------- */

/* Something to be repaired, something to be collected. */
static void damage(const char *key)
{
    char path[2 * PATH_MAX];
    entry_path(path, sizeof path, key, "kernel.cubin");
    (void)truncate(path, 77);
}

static void all_of_it(const struct cache *c, const char *key, int kind)
{
    struct diag d;
    int64_t removed, freed;
    diag_init(&d);
    if (kind == 1)
        (void)cache_gc(c, 0, &removed, &freed, &d);
    if (kind == 2)
        (void)cache_clear(c, &removed, &d);
    request(c, key);
}

/* kind 0: publishing; 1: collecting, then publishing; 2: clearing; 3: repair.
 */
static int kill_everywhere(int kind)
{
    char key[33], what[64];
    struct diag d;
    int n = 0, status = 1;
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    for (; status != 0; n++) {
        ck_assert_int_lt(n, MOST_CALLS);
        empty_base();
        if (kind > 0)
            ck_assert(write_one(c, key, &d));
        if (kind == 3)
            damage(key);
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            arm(n, 0, false, NULL);
            all_of_it(c, key, kind);
            _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(status == 0 ||
                  (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        snprintf(what, sizeof what, "kind %d, killed at call %d", kind, n);
        if (kind == 3 && lookup(c, key, NULL) == CACHE_CORRUPT)
            ck_assert_int_eq(lookup(c, key, NULL), CACHE_MISS);
        ck_heals(c, key, what);
    }
    cache_close(c);
    return n;
}

START_TEST(killed_at_any_call)
{
    int calls[4];
    for (int kind = 0; kind < 4; kind++)
        calls[kind] = kill_everywhere(kind);
    printf("killed at %d, %d, %d and %d calls\n", calls[0], calls[1], calls[2],
           calls[3]);
    for (int kind = 0; kind < 4; kind++)
        ck_assert_int_gt(calls[kind], 20);
}
END_TEST

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Writes, reads and removes without end. */
static void churn(unsigned seed)
{
    struct cache *c = opened(CACHE_RW, base);
    for (;;) {
        char unit[32], key[33];
        struct diag d;
        int64_t removed, freed;
        diag_init(&d);
        int n = snprintf(unit, sizeof unit, "unit %u", next_random(&seed) % 7);
        if (!cache_key(unit, (size_t)n, key))
            _exit(1);
        struct cache_item i = made((char)unit[5]), got = {0};
        (void)cache_write(c, key, unit, (size_t)n, &i, &d);
        if (cache_read(c, key, unit, (size_t)n, &got, &d) == CACHE_HIT &&
            ((char *)got.cubin)[9] != unit[5])
            _exit(2);
        if (next_random(&seed) % 4 == 0)
            (void)entry_retire(base, key, true);
        if (next_random(&seed) % 16 == 0)
            (void)cache_gc(c, 3 * CUBIN_SIZE, &removed, &freed, &d);
        free(i.cubin);
        free(got.cubin);
    }
}

struct tally {
    int all, bad;
};

static int tally_one(void *user, const struct cache_listing *l)
{
    struct tally *t = user;
    t->all++;
    t->bad += !l->valid;
    return 0;
}

/* Three processes at once, one killed after the other: nobody ever sees an
 * entry that is not whole. */
START_TEST(killed_at_random_times)
{
    enum { N = 3 };
    pid_t pid[N];
    unsigned seed = 1;
    struct tally t = {0, 0};
    struct diag d;
    struct cache *c = opened(CACHE_RW, base);
    diag_init(&d);
    for (int i = 0; i < N; i++)
        if ((pid[i] = fork()) == 0)
            churn(seed + (unsigned)i);
    while (t.all == 0) { /* until they are at it */
        usleep(1000);
        ck_assert_msg(cache_each(c, 0, tally_one, &t, &d), "%s", d.message);
    }
    for (int i = 0; i < random_kills; i++) {
        int status;
        const int at = i % N;
        usleep(500 + next_random(&seed) % 20000);
        ck_assert_int_eq(kill(pid[at], SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid[at], &status, 0), pid[at]);
        ck_assert_msg(WIFSIGNALED(status), "a wrong entry was read: %d",
                      status);
        ck_assert_msg(cache_each(c, 0, tally_one, &t, &d), "%s", d.message);
        ck_assert_int_eq(t.bad, 0);
        if ((pid[at] = fork()) == 0)
            churn(seed);
    }
    for (int i = 0; i < N; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    entry_sweep(base, 0); /* an hour later */
    ck_assert_int_eq(count_sub("tmp"), 0);
    char key[33];
    ck_assert(cache_key(text, TEXT_SIZE, key));
    ck_heals(c, key, "random kills");
    cache_close(c);
}
END_TEST

/* ---- real file systems
 * -------------------------------------------------------------- */

/* Runs in a child that may mount; 77: it may not. */
static void in_own_mounts(const char *name, int (*test)(const char *dir))
{
    char dir[2 * PATH_MAX];
    int status;
    snprintf(dir, sizeof dir, "%s/mount", base);
    ck_assert_int_eq(mkdir(dir, 0755), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) != 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=755") != 0)
            _exit(77);
        _exit(test(dir));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        printf("SKIPPED %s: no right to mount\n", name);
    else
        ck_assert_msg(status == 0, "%s: line %d", name, WEXITSTATUS(status));
}

/* In the child: what failed is told by a small number. */
#define WANT(n, condition)                                                     \
    do {                                                                       \
        if (!(condition))                                                      \
            return n;                                                          \
    } while (0)

static bool write_sized(const struct cache *c, int unit, size_t size,
                        struct diag *d)
{
    char name[32], key[33];
    struct cache_item i = made('a');
    int n = snprintf(name, sizeof name, "unit %d", unit);
    diag_init(d);
    i.cubin = realloc(i.cubin, size);
    memset((char *)i.cubin + 4, 'a', size - 4);
    i.cubin_size = size;
    bool ok = cache_key(name, (size_t)n, key) &&
              cache_write(c, key, name, (size_t)n, &i, d);
    free(i.cubin);
    return ok;
}

static int full_disk(const char *dir)
{
    struct diag d;
    struct tally t = {0, 0};
    struct cache *c = cache_open(dir, CACHE_RW);
    int written = 0;
    WANT(1, c && !write_sized(c, 0, 100000, &d));
    WANT(2, strstr(d.message, "No space left"));
    while (written < 100 && write_sized(c, 1 + written, 6000, &d))
        written++;
    WANT(3, written > 1 && written < 20 && strstr(d.message, "No space left"));
    diag_init(&d);
    WANT(4, cache_each(c, 0, tally_one, &t, &d));
    WANT(5, t.all == written && t.bad == 0);
    int64_t removed, freed;
    WANT(6, cache_gc(c, 8000, &removed, &freed, &d) && removed >= written - 1);
    WANT(7, write_sized(c, 50, 6000, &d)); /* there is room again */
    cache_close(c);
    return 0;
}

static int read_only_disk(const char *dir)
{
    struct diag d;
    char key[33], why[256];
    struct cache_item i = {0};
    struct cache *c = cache_open(dir, CACHE_RW);
    WANT(1, c != NULL);
    WANT(2, cache_key(text, TEXT_SIZE, key) && write_one(c, key, &d));
    WANT(3, mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    diag_init(&d);
    WANT(4, cache_read(c, key, text, TEXT_SIZE, &i, &d) == CACHE_HIT);
    WANT(5, ((char *)i.cubin)[77] == 'a');
    WANT(6, cache_lock(c, key, 100) == -1);
    WANT(7, !write_sized(c, 5, 600, &d) && strstr(d.message, "Read-only file"));
    WANT(8, !entry_can_write(dir, why, sizeof why));
    free(i.cubin);
    cache_close(c);
    return 0;
}

START_TEST(full_file_system)
{
    in_own_mounts("full_file_system", full_disk);
}
END_TEST

START_TEST(read_only_file_system)
{
    in_own_mounts("read_only_file_system", read_only_disk);
}
END_TEST

/* ---- homes
 * -----------------------------------------------------------------------------
 */

struct said {
    int n;
    char last[512];
};

static void say(void *user, const char *message)
{
    struct said *s = user;
    s->n++;
    snprintf(s->last, sizeof s->last, "%s", message);
}

/* A home that cannot be written, as a user who is not root. */
static int poor_home(const char *home)
{
    struct said said = {0, ""};
    facc_options o = FACC_OPTIONS_INIT;
    facc_system_info sys = FACC_SYSTEM_INFO_INIT;
    facc_ctx *ctx;
    struct diag d;
    char key[33];
    if (geteuid() == 0 &&
        (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
        return 77;
    setenv("HOME", home, 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("FACC_CACHE_DIR");
    unsetenv("FACC_CACHE");
    o.on_warning = say;
    o.user = &said;
    WANT(1, facc_ctx_create(&ctx, &o, NULL) == FACC_OK);
    WANT(2, facc_system(ctx, &sys, NULL) == FACC_OK && !sys.cache_writable);
    WANT(3, strstr(sys.cache_dir, home) && sys.cache_error[0]);
    WANT(4, cache_key(text, TEXT_SIZE, key));
    WANT(5, !write_one(ctx->cache, key, &d));
    WANT(6, d.status == FACC_ERR_IO && strstr(d.message, home));
    WANT(7, !strstr(d.message, "No such file"));
    WANT(8, cache_lock(ctx->cache, key, 100) == -1);
    facc_ctx_free(ctx);
    return said.n == 0 ? 0 : 9;
}

START_TEST(read_only_home)
{
    char home[2 * PATH_MAX];
    int status;
    snprintf(home, sizeof home, "%s/home", base);
    ck_assert_int_eq(chmod(base, 0755), 0);
    for (int kind = 0; kind < 3; kind++) {
        if (kind < 2) { /* 0: may be read; 1: not even that; 2: is no folder */
            ck_assert_int_eq(mkdir(home, 0755), 0);
            ck_assert_int_eq(chmod(home, kind ? 0 : 0555), 0);
        } else {
            fclose(fopen(home, "w"));
        }
        pid_t pid = fork();
        if (pid == 0)
            _exit(poor_home(home));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            printf("SKIPPED read_only_home: cannot become another user\n");
        else
            ck_assert_msg(status == 0, "kind %d: %d", kind,
                          WEXITSTATUS(status));
        ck_assert_int_eq(remove(home), 0);
    }
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {any_call_of_publishing,
                                  failed_writes_leave_nothing,
                                  any_call_of_replacing,
                                  any_call_of_reading,
                                  no_locks,
                                  renames_of_network_disks,
                                  killed_at_any_call,
                                  killed_at_random_times,
                                  full_file_system,
                                  read_only_file_system,
                                  read_only_home};
    if (argc > 1)
        random_kills = atoi(argv[1]);
    return run_tests("cache_faults", tests, sizeof tests / sizeof tests[0]);
}

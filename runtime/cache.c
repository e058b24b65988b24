/* The cache's policy: which directories, in which order; what happens to bad
 * entries; one compile per key among processes. In: keys and unit texts from
 * kernel.c. Out: verified cubins. Files are cache_entry.c's business. */
#include "runtime/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "compiler/support/hash.h"
#include "runtime/cache_entry.h"
#include "runtime/facc.h"

enum { POLL_MS = 10 };

/* A relative directory is taken from where the process is now: chdir later
 * must not move the cache. */
static char *absolute(const char *s, size_t n)
{
    char *path = NULL;
    if (s[0] == '/')
        return strndup(s, n);
    char *cwd = getcwd(NULL, 0);
    if (cwd && asprintf(&path, "%s/%.*s", cwd, (int)n, s) < 0)
        path = NULL;
    free(cwd);
    return path;
}

static bool add_dirs(struct cache *c, const char *dirs)
{
    size_t max = 1;
    for (const char *s = dirs; *s; s++)
        max += *s == ':';
    c->dirs = calloc(max, sizeof *c->dirs);
    if (!c->dirs)
        return false;
    for (const char *s = dirs; *s;) {
        size_t n = strcspn(s, ":");
        if (n > 0) {
            c->dirs[c->n_dirs] = absolute(s, n);
            if (!c->dirs[c->n_dirs])
                return false;
            c->n_dirs++;
        }
        s += n + (s[n] == ':');
    }
    return true;
}

struct cache *cache_open(const char *dirs, enum cache_mode mode)
{
    struct cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->mode = mode;
    if (mode != CACHE_OFF && dirs && !add_dirs(c, dirs)) {
        cache_close(c);
        return NULL;
    }
    return c;
}

void cache_close(struct cache *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n_dirs; i++)
        free(c->dirs[i]);
    free(c->dirs);
    free(c);
}

bool cache_can_write(const struct cache *c)
{
    return c->mode == CACHE_RW && c->n_dirs > 0;
}

bool cache_key(const char *text, size_t size, char key[33])
{
    struct hash_stream *s = hash_stream_new();
    if (!s)
        return false;
    hash_stream_field(s, text, size);
    hash128_hex(hash_stream_end(s), key);
    return true;
}

enum cache_result cache_read(const struct cache *c, const char *key,
                             const char *text, size_t size,
                             struct cache_item *out, struct diag *d)
{
    enum cache_result result = CACHE_MISS;
    char why[256];
    for (int i = 0; i < c->n_dirs; i++) {
        bool own = i == 0 && cache_can_write(c);
        enum entry_state s =
            entry_read(c->dirs[i], key, text, size, own, out, why);
        if (s == ENTRY_OK)
            return CACHE_HIT;
        if (s == ENTRY_NOMEM)
            return CACHE_NOMEM;
        if (s == ENTRY_DIR_REFUSED) {
            result = CACHE_REFUSED;
            diag_set(d, FACC_ERR_IO, "cache", NULL, 0,
                     "the cache directory %s is not trusted (%s): it is "
                     "ignored",
                     c->dirs[i], why);
        }
        if (s != ENTRY_BAD && s != ENTRY_REFUSED)
            continue;
        result = s == ENTRY_BAD ? CACHE_CORRUPT : CACHE_REFUSED;
        bool aside = own && entry_retire(c->dirs[i], key, false);
        diag_set(d, FACC_ERR_IO, "cache", NULL, 0,
                 "cache entry %s in %s is %s (%s): it is %s", key, c->dirs[i],
                 s == ENTRY_BAD ? "damaged" : "not trusted", why,
                 aside ? "set aside and rebuilt" : "ignored");
    }
    return result;
}

bool cache_write(const struct cache *c, const char *key, const char *text,
                 size_t size, const struct cache_item *item, struct diag *d)
{
    if (!cache_can_write(c))
        return true;
    if (!entry_publish(c->dirs[0], key, text, size, item, d))
        return false;
    entry_sweep(c->dirs[0], ENTRY_STALE_SECONDS);
    return true;
}

/* ---- one compile among processes ------------------------------------- */

int cache_lock(const struct cache *c, const char *key, int max_wait_ms)
{
    if (!cache_can_write(c))
        return -1;
    int dir = entry_open_sub(c->dirs[0], "lock", true);
    if (dir < 0)
        return -1;
    int fd = openat(dir, key, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    close(dir);
    if (fd < 0)
        return -1;
    for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; waited += POLL_MS) {
        if (waited >= max_wait_ms || (errno != EWOULDBLOCK && errno != EINTR)) {
            close(fd);
            return -1;
        }
        struct timespec t = {0, POLL_MS * 1000000L};
        nanosleep(&t, NULL);
    }
    return fd;
}

void cache_unlock(const struct cache *c, const char *key, int lock)
{
    if (lock < 0)
        return;
    /* Gone while still held: whoever waits on the old file then finds the
     * entry, whoever makes a new one finds it too. */
    int dir = entry_open_sub(c->dirs[0], "lock", false);
    if (dir >= 0) {
        (void)unlinkat(dir, key, 0);
        close(dir);
    }
    (void)flock(lock, LOCK_UN); /* a forked child may hold a copy open */
    close(lock);
}

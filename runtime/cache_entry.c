/* Cache entries as files. In: a directory, a key, the unit's text. Out: a
 * verified cubin, or an entry published by one rename. cache.c decides what
 * to do with the outcome. */
#include "runtime/cache_entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/facc.h"

enum { DIR_MODE = 0755, FILE_MODE = 0644 };

/* ---- directories ----------------------------------------------------- */

/* Machine code is executed with the user's rights: nobody else (but root)
 * may have been able to put it there. */
static bool trusted(const struct stat *st)
{
    return (st->st_uid == geteuid() || st->st_uid == 0) &&
           (st->st_mode & S_IWOTH) == 0;
}

static int checked(int fd)
{
    struct stat st;
    if (fd < 0)
        return fd;
    const int err = fstat(fd, &st) != 0 ? errno : trusted(&st) ? 0 : EPERM;
    if (!err)
        return fd;
    close(fd);
    errno = err;
    return -1;
}

static bool make_parents(const char *dir)
{
    char path[4096];
    size_t n = strlen(dir);
    if (n == 0 || n >= sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(path, dir, n + 1);
    int refused = 0; /* some systems say so of those that are there, too */
    for (char *s = path + 1; *s; s++) {
        if (*s != '/')
            continue;
        *s = '\0';
        if (mkdir(path, DIR_MODE) != 0 && errno != EEXIST) {
            if (errno != EROFS && errno != EACCES)
                return false;
            refused = errno;
        }
        *s = '/';
    }
    /* XDG's rule for a cache directory that is not there yet. */
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return true;
    if (errno == ENOENT && refused)
        errno = refused;
    return false;
}

static int open_root(const char *dir, bool create)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && create && make_parents(dir))
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return checked(fd);
}

static int open_dir(int at, const char *name, bool create)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(at, name, flags);
    if (fd < 0 && errno == ENOENT && create) {
        if (mkdirat(at, name, DIR_MODE) != 0 && errno != EEXIST)
            return -1;
        fd = openat(at, name, flags);
    }
    return checked(fd);
}

int entry_open_sub(const char *dir, const char *name, bool create)
{
    int root = open_root(dir, create);
    if (root < 0)
        return -1;
    int v = open_dir(root, CACHE_SCHEMA, create);
    int saved = errno;
    close(root);
    errno = saved;
    if (v < 0)
        return -1;
    int fd = open_dir(v, name, create);
    saved = errno;
    close(v);
    errno = saved;
    return fd;
}

const char *entry_error(int err)
{
    return err == EPERM ? "it and its folders must be this user's or root's, "
                          "and not world-writable"
                        : strerror(err);
}

/* DIR/v1/ab of a key. */
static int open_shelf(const char *dir, const char *key, bool create)
{
    char shelf[3] = {key[0], key[1], '\0'};
    return entry_open_sub(dir, shelf, create);
}

bool entry_is_key(const char *name)
{
    return strlen(name) == 32 && strspn(name, "0123456789abcdef") == 32;
}

bool entry_can_write(const char *dir, char *why, size_t size)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path) {
        snprintf(why, size, "its path is too long");
        return false;
    }
    int fd = open_root(dir, false);
    if (fd >= 0)
        close(fd);
    else if (errno == EPERM) {
        snprintf(why, size,
                 "it belongs to somebody else or is "
                 "world-writable");
        return false;
    }
    /* The nearest parent that exists decides. */
    while (access(path, F_OK) != 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (!slash)
            break;
        slash[slash == path] = '\0';
        if (slash == path)
            break;
    }
    if (access(path, W_OK | X_OK) == 0)
        return true;
    snprintf(why, size, "%s", strerror(errno));
    return false;
}

/* ---- reading --------------------------------------------------------- */

static bool read_all(int fd, char *to, size_t size)
{
    while (size > 0) {
        ssize_t n = read(fd, to, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        size -= (size_t)n;
    }
    return true;
}

/* After a call that failed. Errors that tell nothing of the file: it is not
 * there now. */
static enum entry_state cannot_read(const char *name, const char *what,
                                    char *why)
{
    const int err = errno;
    if (err == EMFILE || err == ENFILE || err == ENOMEM || err == ESTALE ||
        err == EAGAIN)
        return ENTRY_ABSENT;
    snprintf(why, ENTRY_WHY, "%s cannot be %s: %s", name, what, strerror(err));
    return err == ELOOP ? ENTRY_REFUSED : ENTRY_BAD;
}

static enum entry_state read_open(int fd, const char *name,
                                  struct entry_file *f, char *why)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return cannot_read(name, "looked at", why);
    if (!S_ISREG(st.st_mode) || st.st_size > ENTRY_MAX_FILE) {
        snprintf(why, ENTRY_WHY, "%s is not a plain file", name);
        return ENTRY_BAD;
    }
    if (!trusted(&st)) {
        snprintf(why, ENTRY_WHY,
                 "%s belongs to somebody else or is world-writable", name);
        return ENTRY_REFUSED;
    }
    f->size = (size_t)st.st_size;
    f->data = malloc(f->size + 1);
    if (!f->data)
        return ENTRY_NOMEM;
    f->data[f->size] = '\0';
    errno = EIO; /* of a file that became shorter */
    return read_all(fd, f->data, f->size) ? ENTRY_OK
                                          : cannot_read(name, "read", why);
}

static enum entry_state read_file(int dir, const char *name,
                                  struct entry_file *f, char *why)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return cannot_read(name, "opened", why);
    enum entry_state s = read_open(fd, name, f, why);
    close(fd);
    return s;
}

static enum entry_state read_in(int dir, const char *key, const char *text,
                                size_t size, struct entry_file f[ENTRY_FILES],
                                struct cache_meta *meta, char *why)
{
    enum entry_state s = ENTRY_OK;
    for (int i = ENTRY_FILES; i-- > 0 && s == ENTRY_OK;)
        s = read_file(dir, entry_file_name[i], &f[i], why);
    return s == ENTRY_OK ? entry_verify(f, key, text, size, meta, why) : s;
}

static enum entry_state open_entry(const char *dir, const char *key, int *fd,
                                   char *why)
{
    why[0] = '\0';
    int shelf = open_shelf(dir, key, false);
    *fd = shelf < 0 ? -1 : open_dir(shelf, key, false);
    int saved = errno;
    if (shelf >= 0)
        close(shelf);
    if (*fd >= 0)
        return ENTRY_OK;
    if (saved != EPERM && saved != ELOOP && saved != ENOTDIR)
        return ENTRY_ABSENT;
    snprintf(why, ENTRY_WHY,
             "%s belongs to somebody else, is world-writable or is a link",
             shelf < 0 ? "it or a folder in it" : "it");
    return shelf < 0 ? ENTRY_DIR_REFUSED : ENTRY_REFUSED;
}

enum entry_state entry_load(const char *dir, const char *key,
                            struct entry_file f[ENTRY_FILES],
                            struct cache_meta *meta, char *why)
{
    int fd;
    memset(f, 0, ENTRY_FILES * sizeof *f);
    enum entry_state s = open_entry(dir, key, &fd, why);
    if (s != ENTRY_OK)
        return s;
    s = read_in(fd, key, NULL, 0, f, meta, why);
    close(fd);
    if (s != ENTRY_OK)
        entry_files_free(f);
    return s;
}

enum entry_state entry_salvage(const char *dir, const char *key,
                               struct entry_file *unit, struct cache_meta *meta,
                               char *why)
{
    struct entry_file facts = {NULL, 0};
    char no_facts[ENTRY_WHY];
    int fd;
    memset(meta, 0, sizeof *meta);
    *unit = (struct entry_file){NULL, 0};
    enum entry_state s = open_entry(dir, key, &fd, why);
    if (s != ENTRY_OK)
        return s;
    if (read_file(fd, entry_file_name[ENTRY_META], &facts, no_facts) ==
        ENTRY_OK)
        (void)entry_read_meta(&facts, meta);
    free(facts.data);
    s = read_file(fd, entry_file_name[ENTRY_UNIT], unit, why);
    if (s == ENTRY_OK)
        s = entry_verify_unit(unit, key, why);
    close(fd);
    if (s != ENTRY_OK) {
        free(unit->data);
        *unit = (struct entry_file){NULL, 0};
    }
    return s;
}

void entry_files_free(struct entry_file f[ENTRY_FILES])
{
    for (int i = 0; i < ENTRY_FILES; i++) {
        free(f[i].data);
        f[i] = (struct entry_file){NULL, 0};
    }
}

enum entry_state entry_read(const char *dir, const char *key, const char *text,
                            size_t size, bool touch, struct cache_item *out,
                            char *why)
{
    struct entry_file f[ENTRY_FILES] = {{NULL, 0}};
    struct cache_meta meta;
    int fd;
    enum entry_state s = open_entry(dir, key, &fd, why);
    if (s != ENTRY_OK)
        return s;
    s = read_in(fd, key, text, size, f, &meta, why);
    if (s == ENTRY_OK && touch)
        (void)futimens(fd, NULL); /* time of last use, for gc */
    close(fd);
    if (s == ENTRY_OK && out) {
        out->cubin = f[ENTRY_CUBIN].data;
        out->cubin_size = f[ENTRY_CUBIN].size;
        out->meta = meta;
        f[ENTRY_CUBIN].data = NULL;
    }
    entry_files_free(f);
    return s;
}

/* ---- writing --------------------------------------------------------- */

static bool io_error(struct diag *d, const char *dir, const char *what)
{
    return diag_set(d, FACC_ERR_IO, "cache", NULL, 0,
                    "cannot write %s in the cache directory %s: %s", what, dir,
                    entry_error(errno));
}

static bool write_file(int dir, const char *name, const void *data, size_t size)
{
    int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
               FILE_MODE);
    if (fd < 0)
        return false;
    const char *s = data;
    bool ok = true;
    while (ok && size > 0) {
        ssize_t n = write(fd, s, size);
        if (n < 0 && errno == EINTR)
            continue;
        ok = n > 0;
        s += ok ? n : 0;
        size -= ok ? (size_t)n : 0;
    }
    ok = ok && fsync(fd) == 0;
    int saved = errno;
    if (close(fd) != 0 && ok)
        return false;
    errno = saved;
    return ok;
}

static bool write_in(int tmp, const char *dir, const char *key,
                     const char *text, size_t size,
                     const struct cache_item *item, struct diag *d)
{
    char *meta = entry_print_meta(key, text, size, item);
    if (!meta)
        return diag_nomem(d, "cache");
    bool ok =
        write_file(tmp, entry_file_name[ENTRY_CUBIN], item->cubin,
                   item->cubin_size) &&
        write_file(tmp, entry_file_name[ENTRY_UNIT], text, size) &&
        write_file(tmp, entry_file_name[ENTRY_META], meta, strlen(meta)) &&
        fsync(tmp) == 0;
    if (!ok)
        io_error(d, dir, "an entry");
    free(meta);
    return ok;
}

/* A name that no other process or machine on a shared disk uses. */
static void temp_name(const char *prefix, char *out, size_t size)
{
    char host[64] = "";
    uint64_t r = 0;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    for (char *s = host; *s; s++)
        if (*s == '/')
            *s = '_';
    if (getrandom(&r, sizeof r, GRND_NONBLOCK) != (ssize_t)sizeof r)
        r = (uint64_t)(uintptr_t)&r ^ (uint64_t)clock();
    snprintf(out, size, "%s%ld-%s-%016" PRIx64, prefix, (long)getpid(), host,
             r);
}

/* Entries hold files only; what else somebody put there goes as well, down to
 * a depth. Links are removed, not followed. */
static void remove_below(int at, const char *name, int depth)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list) {
        if (fd >= 0)
            close(fd);
        (void)unlinkat(at, name, 0);
        return;
    }
    for (struct dirent *e; (e = readdir(list));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, e->d_name, 0) != 0 && depth > 0)
            remove_below(fd, e->d_name, depth - 1);
    }
    closedir(list);
    (void)unlinkat(at, name, AT_REMOVEDIR);
}

static void remove_dir(int at, const char *name)
{
    enum { DEPTH = 8 };
    remove_below(at, name, DEPTH);
}

/* Did the rename happen after all, its answer lost on the way from a server? */
static bool is_there(const char *dir, const char *key)
{
    char why[ENTRY_WHY];
    return entry_read(dir, key, NULL, 0, false, NULL, why) == ENTRY_OK;
}

/* False: there is none now (another process removed it, or the file system
 * cannot exchange and it had to go). */
static bool exchange(int tmps, const char *name, int shelf, const char *dir,
                     const char *key)
{
    const bool ok = renameat2(tmps, name, shelf, key, RENAME_EXCHANGE) == 0;
    if (ok)
        remove_dir(tmps, name);
    else
        (void)entry_retire(dir, key, true);
    return ok;
}

static bool publish_from(int tmps, const char *name, const char *dir,
                         const char *key, bool replace, struct diag *d)
{
    int shelf = open_shelf(dir, key, true);
    if (shelf >= 0 && replace && exchange(tmps, name, shelf, dir, key)) {
        close(shelf);
        return true;
    }
    bool ok = shelf >= 0 && renameat(tmps, name, shelf, key) == 0;
    const int err = errno;
    if (ok)
        (void)fsync(shelf);
    else
        remove_dir(tmps, name);
    if (shelf >= 0)
        close(shelf);
    if (!ok && !replace) /* another process was faster? */
        ok = err == EEXIST || err == ENOTEMPTY || is_there(dir, key);
    errno = err;
    return ok || io_error(d, dir, shelf < 0 ? "a sub-directory" : "an entry");
}

static bool publish(const char *dir, const char *key, const char *text,
                    size_t size, const struct cache_item *item, bool replace,
                    struct diag *d)
{
    char name[160];
    int tmps = entry_open_sub(dir, "tmp", true);
    if (tmps < 0)
        return io_error(d, dir, "a sub-directory");
    temp_name("", name, sizeof name);
    int tmp = open_dir(tmps, name, true);
    bool ok = tmp >= 0;
    if (!ok)
        io_error(d, dir, "a temporary");
    if (ok && !write_in(tmp, dir, key, text, size, item, d)) {
        remove_dir(tmps, name);
        ok = false;
    }
    if (tmp >= 0)
        close(tmp);
    ok = ok && publish_from(tmps, name, dir, key, replace, d);
    close(tmps);
    return ok;
}

bool entry_publish(const char *dir, const char *key, const char *text,
                   size_t size, const struct cache_item *item, struct diag *d)
{
    return publish(dir, key, text, size, item, false, d);
}

bool entry_replace(const char *dir, const char *key, const char *text,
                   size_t size, const struct cache_item *item, struct diag *d)
{
    return publish(dir, key, text, size, item, true, d);
}

/* ---- removing -------------------------------------------------------- */

bool entry_retire(const char *dir, const char *key, bool destroy)
{
    char name[160];
    int tmps = entry_open_sub(dir, "tmp", true);
    int shelf = open_shelf(dir, key, false);
    temp_name("retired-", name, sizeof name);
    bool ok = tmps >= 0 && shelf >= 0 && renameat(shelf, key, tmps, name) == 0;
    if (ok && destroy)
        remove_dir(tmps, name);
    if (tmps >= 0)
        close(tmps);
    if (shelf >= 0)
        close(shelf);
    return ok;
}

void entry_sweep(const char *dir, int64_t max_age)
{
    int fd = entry_open_sub(dir, "tmp", false);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list) {
        if (fd >= 0)
            close(fd);
        return;
    }
    time_t now = time(NULL);
    for (struct dirent *e; (e = readdir(list));) {
        struct stat st;
        if (e->d_name[0] == '.' ||
            fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if ((int64_t)now - (int64_t)st.st_mtime >= max_age)
            remove_dir(fd, e->d_name);
    }
    closedir(list);
}

bool entry_stat(const char *dir, const char *key, int64_t *bytes,
                int64_t *last_used)
{
    struct stat st;
    int shelf = open_shelf(dir, key, false);
    int fd = shelf < 0 ? -1 : open_dir(shelf, key, false);
    if (shelf >= 0)
        close(shelf);
    *bytes = *last_used = 0;
    if (fd < 0)
        return false;
    bool ok = fstat(fd, &st) == 0;
    if (ok)
        *last_used = (int64_t)st.st_mtime;
    for (int i = 0; i < ENTRY_FILES; i++)
        if (fstatat(fd, entry_file_name[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            *bytes += (int64_t)st.st_size;
    close(fd);
    return ok;
}

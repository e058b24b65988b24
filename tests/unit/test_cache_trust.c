/* Whom the disk cache trusts: owners, permissions, links, in its directories,
 * entries, temporaries and locks. Machine code of others is never run, and what
 * is theirs is left alone. */
#include "tests/unit/cache_fixture.h"

#include "runtime/cache_entry.h"

static const char *const files[] = {"kernel.cubin", "unit.txt", "meta.json"};

/* ---- trust -----------------------------------------------------------------
 */

static void refuse_mode(const struct cache *c, const char *key,
                        const char *path, mode_t bad)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(chmod(path, bad), 0);
    ck_assert_msg(lookup(c, key, NULL) == CACHE_REFUSED, "%s", path);
    ck_assert_int_eq(chmod(path, st.st_mode & 07777), 0);
    ck_assert_int_eq(lookup(c, key, NULL), CACHE_HIT);
}

/* An entry, and a cache that leaves it where it is. */
static struct cache *written_then_read_only(char key[33])
{
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    write_made(c, key, text, TEXT_SIZE, 'a');
    cache_close(c);
    return opened(CACHE_RO, base);
}

START_TEST(world_writable_is_refused)
{
    char key[33], path[2 * PATH_MAX];
    struct cache *c = written_then_read_only(key);
    refuse_mode(c, key, base, 0777);
    snprintf(path, sizeof path, "%s/v1", base);
    refuse_mode(c, key, path, 0777);
    snprintf(path, sizeof path, "%s/v1/%.2s", base, key);
    refuse_mode(c, key, path, 0777);
    entry_path(path, sizeof path, key, NULL);
    refuse_mode(c, key, path, 0777);
    for (size_t f = 0; f < 3; f++) {
        entry_path(path, sizeof path, key, files[f]);
        refuse_mode(c, key, path, 0666);
    }
    cache_close(c);
}
END_TEST

START_TEST(links_are_refused)
{
    char key[33], path[2 * PATH_MAX], moved[3 * PATH_MAX];
    struct cache *c = written_then_read_only(key);
    snprintf(moved, sizeof moved, "%s/moved", base);
    for (size_t f = 0; f < 4; f++) {
        entry_path(path, sizeof path, key, f < 3 ? files[f] : NULL);
        ck_assert_int_eq(rename(path, moved), 0);
        ck_assert_int_eq(symlink(moved, path), 0);
        ck_assert_msg(lookup(c, key, NULL) == CACHE_REFUSED, "%s", path);
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(rename(moved, path), 0);
        ck_assert_int_eq(lookup(c, key, NULL), CACHE_HIT);
    }
    cache_close(c);
}
END_TEST

/* Owned by somebody else: needs root to set up. */
START_TEST(other_owner_is_refused)
{
    char key[33], path[2 * PATH_MAX];
    if (geteuid() != 0) {
        printf("SKIPPED other_owner_is_refused: needs root\n");
        return;
    }
    struct cache *c = written_then_read_only(key);
    entry_path(path, sizeof path, key, "kernel.cubin");
    ck_assert_int_eq(chown(path, 12345, 12345), 0);
    ck_assert_int_eq(lookup(c, key, NULL), CACHE_REFUSED);
    ck_assert_int_eq(chown(path, 0, 0), 0);
    ck_assert_int_eq(lookup(c, key, NULL), CACHE_HIT);
    ck_assert_int_eq(chown(base, 12345, 12345), 0);
    ck_assert_int_eq(lookup(c, key, NULL), CACHE_REFUSED);
    cache_close(c);
}
END_TEST

/* What is refused is what the message names: the directory or an entry. */
START_TEST(refusals_name_what_they_refuse)
{
    struct seen seen = {0, 0, 0, ""};
    char key[33], path[2 * PATH_MAX], want[3 * PATH_MAX];
    struct diag d;
    struct cache_item i = made('a');
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    write_made(c, key, text, TEXT_SIZE, 'a');
    for (int sub = 0; sub < 2; sub++) {
        snprintf(path, sizeof path, "%s%s", base, sub ? "/v1" : "");
        ck_assert_int_eq(chmod(path, 0777), 0);
        diag_init(&d);
        ck_assert_int_eq(cache_read(c, key, text, TEXT_SIZE, NULL, &d),
                         CACHE_REFUSED);
        snprintf(want, sizeof want, "the cache directory %s is not trusted",
                 base);
        ck_assert_msg(strstr(d.message, want), "%s", d.message);
        ck_assert_ptr_null(strstr(d.message, key));
        diag_init(&d);
        ck_assert(!cache_write(c, key, text, TEXT_SIZE, &i, &d));
        ck_assert_msg(strstr(d.message, "world-writable"), "%s", d.message);
        diag_init(&d);
        ck_assert(!cache_each(c, 0, see, &seen, &d));
        ck_assert_msg(strstr(d.message, "world-writable"), "%s", d.message);
        ck_assert_int_eq(chmod(path, 0755), 0);
        ck_assert_int_eq(lookup(c, key, NULL), CACHE_HIT);
    }
    entry_path(path, sizeof path, key, NULL);
    ck_assert_int_eq(chmod(path, 0777), 0);
    diag_init(&d);
    ck_assert_int_eq(cache_read(c, key, text, TEXT_SIZE, NULL, &d),
                     CACHE_REFUSED);
    snprintf(want, sizeof want, "cache entry %s in %s is not trusted", key,
             base);
    ck_assert_msg(strstr(d.message, want), "%s", d.message);
    free(i.cubin);
    cache_close(c);
}
END_TEST

/* What stands where an entry should be, in one's own directory. */
static void plant(int kind, const char *path)
{
    char sub[3 * PATH_MAX];
    if (kind == 0) {
        ck_assert_int_eq(chmod(path, 0777), 0);
        snprintf(sub, sizeof sub, "%s/a", path);
        ck_assert_int_eq(mkdir(sub, 0755), 0);
        snprintf(sub, sizeof sub, "%s/a/b", path);
        ck_assert_int_eq(mkdir(sub, 0755), 0);
        return;
    }
    ck_assert_int_eq(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    if (kind == 1) {
        FILE *f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        fclose(f);
    } else {
        ck_assert_int_eq(symlink(kind == 2 ? "/etc" : path, path), 0);
    }
}

/* It would be compiled again by every process, for ever. */
START_TEST(own_untrusted_entries_are_replaced)
{
    char key[33], path[2 * PATH_MAX];
    int64_t removed, freed;
    struct diag d;
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    entry_path(path, sizeof path, key, NULL);
    write_made(c, key, text, TEXT_SIZE, 'a');
    diag_init(&d);
    for (int kind = 0; kind < 4; kind++) {
        plant(kind, path);
        ck_assert_int_eq(lookup(c, key, NULL), CACHE_REFUSED);
        write_made(c, key, text, TEXT_SIZE, 'b');
        ck_assert_int_eq(lookup(c, key, NULL), CACHE_HIT);
        plant(kind, path);
        ck_assert(cache_gc(c, -1, &removed, &freed, &d));
        ck_assert_int_eq(removed, 1);
        write_made(c, key, text, TEXT_SIZE, 'b');
        ck_assert_int_eq(lookup(c, key, NULL), CACHE_HIT);
    }
    ck_assert_int_eq(count_sub("tmp"), 4); /* set aside; gc deletes its own */
    entry_sweep(base, -1);
    ck_assert_int_eq(count_sub("tmp"), 0);
    cache_close(c);
}
END_TEST

/* A link planted where the temporary directory should be must not send files
 * elsewhere. */
START_TEST(planted_links_are_not_followed)
{
    char key[33], path[2 * PATH_MAX], outside[2 * PATH_MAX];
    struct diag d;
    snprintf(outside, sizeof outside, "%s/outside", base);
    snprintf(path, sizeof path, "%s/v1", base);
    ck_assert_int_eq(mkdir(outside, 0755), 0);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/v1/tmp", base);
    ck_assert_int_eq(symlink(outside, path), 0);
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    struct cache_item i = made('a');
    diag_init(&d);
    ck_assert(!cache_write(c, key, text, TEXT_SIZE, &i, &d));
    ck_assert_int_eq(d.status, FACC_ERR_IO);
    ck_assert_int_eq(count_in(outside), 0);
    free(i.cubin);
    cache_close(c);
}
END_TEST

/* A link where the lock should be: what it points to is not opened, and the
 * compile goes on without a lock. */
START_TEST(planted_locks_are_not_followed)
{
    char key[33], path[2 * PATH_MAX], victim[2 * PATH_MAX];
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    write_made(c, key, text, TEXT_SIZE, 'a');
    snprintf(victim, sizeof victim, "%s/victim", base);
    snprintf(path, sizeof path, "%s/v1/lock", base);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/v1/lock/%s", base, key);
    for (int dangling = 0; dangling < 2; dangling++) {
        if (!dangling)
            fclose(fopen(victim, "w"));
        ck_assert_int_eq(symlink(victim, path), 0);
        ck_assert_int_eq(cache_lock(c, key, 1000), -1);
        ck_assert_int_eq(access(victim, F_OK), dangling ? -1 : 0);
        ck_assert_int_eq(unlink(path), 0);
        (void)unlink(victim);
    }
    int lock = cache_lock(c, key, 1000);
    ck_assert_int_ge(lock, 0);
    cache_unlock(c, key, lock);
    snprintf(path, sizeof path, "%s/v1/lock", base);
    ck_assert_int_eq(chmod(path, 0777), 0); /* others could hold it for ever */
    ck_assert_int_eq(cache_lock(c, key, 1000), -1);
    cache_close(c);
}
END_TEST

/* The directory itself is a link: what counts is whose the target is. */
START_TEST(linked_directories)
{
    char key[33], real[2 * PATH_MAX], link[2 * PATH_MAX];
    struct diag d;
    struct cache_item i = made('a');
    snprintf(real, sizeof real, "%s/real", base);
    snprintf(link, sizeof link, "%s/link", base);
    ck_assert_int_eq(mkdir(real, 0755), 0);
    ck_assert_int_eq(symlink(real, link), 0);
    struct cache *c = opened(CACHE_RW, link);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    write_made(c, key, text, TEXT_SIZE, 'a');
    ck_assert_int_eq(lookup(c, key, NULL), CACHE_HIT);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(real, 12345, 12345), 0);
        ck_assert_int_eq(lookup(c, key, NULL), CACHE_REFUSED);
        diag_init(&d);
        ck_assert(!cache_write(c, "0123456789abcdef0123456789abcdef", text,
                               TEXT_SIZE, &i, &d));
        ck_assert_ptr_nonnull(strstr(d.message, "this user's or root's"));
    } else
        printf("SKIPPED linked_directories, another owner: needs root\n");
    free(i.cubin);
    cache_close(c);
}
END_TEST

/* What is not trusted is neither removed nor repaired: it is somebody else's.
 */
START_TEST(other_peoples_entries_stay)
{
    char key[33], path[2 * PATH_MAX];
    int64_t removed = -1, freed;
    struct diag d;
    if (geteuid() != 0) {
        printf("SKIPPED other_peoples_entries_stay: needs root\n");
        return;
    }
    struct cache *c = opened(CACHE_RW, base);
    ck_assert(cache_key(text, TEXT_SIZE, key));
    write_made(c, key, text, TEXT_SIZE, 'a');
    entry_path(path, sizeof path, key, "kernel.cubin");
    ck_assert_int_eq(chown(base, 12345, 12345), 0);
    ck_assert_int_eq(lookup(c, key, NULL), CACHE_REFUSED);
    diag_init(&d);
    ck_assert(!cache_gc(c, 0, &removed, &freed, &d));
    diag_init(&d);
    ck_assert(!cache_clear(c, &removed, &d));
    ck_assert_int_eq(removed, 0);
    ck_assert_int_eq(access(path, F_OK), 0);
    cache_close(c);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {world_writable_is_refused,
                                  links_are_refused,
                                  other_owner_is_refused,
                                  refusals_name_what_they_refuse,
                                  own_untrusted_entries_are_replaced,
                                  planted_links_are_not_followed,
                                  planted_locks_are_not_followed,
                                  linked_directories,
                                  other_peoples_entries_stay};
    return run_tests("cache_trust", tests, sizeof tests / sizeof tests[0]);
}

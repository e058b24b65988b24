/* facc cache: what is in the cache; verify, rebuild, gc, clear, to and from a
 * file. In: a subcommand. Out: a table or JSON on stdout; exit code 1 where
 * verify or import finds a broken entry, and where one could not be rebuilt. */
#include "runtime/cli/compile_grid.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "usage: facc cache ls [--json]     entries of all cache directories\n"
    "       facc cache verify          digests of every entry; exit code 1 if\n"
    "                                  one does not match\n"
    "       facc cache verify --rebuild [--jobs N] [--memory MIB] [--json]\n"
    "                                  and sets those aside and compiles them\n"
    "                                  again, and what another NVRTC made;\n"
    "                                  exit code 1 if one could not be\n"
    "       facc cache gc [MAX_BYTES]  remove broken entries and leftovers,\n"
    "                                  then the least recently used beyond\n"
    "                                  MAX_BYTES\n"
    "       facc cache clear           remove every entry\n"
    "       facc cache export FILE     all valid entries into a tar archive\n"
    "       facc cache import FILE     what such a file has and the cache has\n"
    "                                  not; exit code 1 if an entry in it is\n"
    "                                  damaged, which is left out\n"
    "       facc cache path            the directory that is written to\n"
    "\n"
    "The directory is $FACC_CACHE_DIR (a colon list: the first is written\n"
    "to, the others are read-only layers), else $XDG_CACHE_HOME/facc, else\n"
    "$HOME/.cache/facc. An exported file may also be unpacked with tar into\n"
    "a directory of that list.\n"
    "\n"
    "An entry is rebuilt from its own unit.txt, without the program. Where\n"
    "that is damaged, too, or of another build of facc, the next run that\n"
    "needs the kernel compiles it, or \"facc compile\" beforehand. Entries of\n"
    "read-only layers are rebuilt into the first directory.\n"
    "\n"
    "example: facc cache verify --rebuild --jobs 4\n"
    "example: facc cache export kernels.tar\n"
    "example: tar -xf kernels.tar -C /usr/share/facc\n"
    "         FACC_CACHE_DIR=$HOME/.cache/facc:/usr/share/facc facc cache "
    "ls\n";

static const char *const allowed[] = {"json", "rebuild", "jobs", "memory",
                                      NULL};

struct listing {
    cJSON *json; /* NULL: a table */
    int64_t entries, bytes, broken;
    bool verify;
};

static int list_entry(void *user, const facc_cache_entry *e)
{
    struct listing *l = user;
    l->entries++;
    l->bytes += e->bytes;
    l->broken += !e->valid;
    if (l->json) {
        cJSON *j = cJSON_CreateObject();
        cJSON_AddStringToObject(j, "key", e->key);
        cJSON_AddStringToObject(j, "dir", e->dir);
        cJSON_AddStringToObject(j, "summary", e->summary);
        cJSON_AddNumberToObject(j, "bytes", (double)e->bytes);
        cJSON_AddNumberToObject(j, "last_used", (double)e->last_used);
        cJSON_AddBoolToObject(j, "valid", e->valid != 0);
        cJSON_AddItemToArray(l->json, j);
    } else if (!l->verify || !e->valid) {
        char when[32] = "?";
        time_t t = (time_t)e->last_used;
        struct tm tm;
        if (localtime_r(&t, &tm))
            strftime(when, sizeof when, "%Y-%m-%d %H:%M", &tm);
        printf("%s  %9lld  %s  %s%s\n", e->key, (long long)e->bytes, when,
               e->summary, e->valid ? "" : "  BROKEN");
    }
    return 0;
}

static int list(facc_ctx *ctx, bool json, bool verify)
{
    facc_error err = FACC_ERROR_INIT;
    struct listing l = {.verify = verify};
    if (json)
        l.json = cJSON_CreateArray();
    if (facc_cache_list(ctx, list_entry, &l, &err))
        return cli_fail_facc(&err);
    if (json) {
        if (cli_print_json(l.json))
            return EXIT_FAILED;
    } else {
        printf("%lld entries, %lld bytes, %lld broken\n", (long long)l.entries,
               (long long)l.bytes, (long long)l.broken);
    }
    return verify && l.broken ? EXIT_FAILED : EXIT_OK;
}

/* --- verify --rebuild -------------------------------------------------------
 */

enum { OUTCOMES = FACC_REBUILD_LOST + 1 };
static const char *const outcome_name[OUTCOMES] = {"kept", "rebuilt",
                                                   "elsewhere", "lost"};

struct rebuilding {
    cJSON *json; /* NULL: lines */
    int n[OUTCOMES];
};

static int tell_rebuilt(void *user, const facc_cache_rebuilt *e)
{
    struct rebuilding *r = user;
    r->n[e->outcome]++;
    if (r->json) {
        cJSON *j = cJSON_CreateObject();
        cJSON_AddStringToObject(j, "key", e->key);
        cJSON_AddStringToObject(j, "dir", e->dir);
        cJSON_AddStringToObject(j, "summary", e->summary);
        cJSON_AddStringToObject(j, "outcome", outcome_name[e->outcome]);
        cJSON_AddBoolToObject(j, "set_aside", e->set_aside != 0);
        cJSON_AddStringToObject(j, "why", e->why);
        cJSON_AddItemToArray(r->json, j);
        return 0;
    }
    printf("%s  %s  %s%s%s\n", e->key, e->summary[0] ? e->summary : "?",
           outcome_name[e->outcome], e->why[0] ? ": " : "", e->why);
    fflush(stdout);
    return 0;
}

static int count_entry(void *user, const facc_cache_entry *e)
{
    (void)e;
    ++*(int *)user;
    return 0;
}

static int rebuild(facc_ctx *ctx, const struct options *o)
{
    facc_error err = FACC_ERROR_INIT;
    struct rebuilding r = {.json = o->json ? cJSON_CreateArray() : NULL};
    int n = 0;
    if (facc_cache_list(ctx, count_entry, &n, &err))
        return cli_fail_facc(&err);
    const facc_status s = facc_cache_rebuild(
        ctx, grid_jobs(n, o->jobs, o->memory), tell_rebuilt, &r, &err);
    if (r.json && cli_print_json(r.json))
        return EXIT_FAILED;
    if (s)
        return cli_fail_facc(&err);
    const int lost = r.n[FACC_REBUILD_LOST];
    if (!r.json)
        printf("%d entries: %d kept, %d rebuilt, %d in another directory, %d "
               "lost\n",
               n, r.n[FACC_REBUILD_KEPT], r.n[FACC_REBUILD_MADE],
               r.n[FACC_REBUILD_ELSEWHERE], lost);
    if (lost)
        fprintf(stderr, "facc: what is lost is compiled by the next run that "
                        "needs it, or beforehand by \"facc compile\"\n");
    return lost ? EXIT_FAILED : EXIT_OK;
}

static int path(facc_ctx *ctx)
{
    facc_error err = FACC_ERROR_INIT;
    facc_system_info sys = FACC_SYSTEM_INFO_INIT;
    if (facc_system(ctx, &sys, &err))
        return cli_fail_facc(&err);
    puts(sys.cache_dir[0] ? sys.cache_dir : "(memory only)");
    return EXIT_OK;
}

static int collect(facc_ctx *ctx, const char *max_bytes)
{
    facc_error err = FACC_ERROR_INIT;
    int64_t max = -1, removed = 0, freed = 0;
    if (max_bytes && (!cli_parse_int(max_bytes, &max) || max < 0))
        return cli_usage(&command_cache, "gc wants a number of bytes, got '%s'",
                         max_bytes);
    if (facc_cache_gc(ctx, max, &removed, &freed, &err))
        return cli_fail_facc(&err);
    printf("%lld removed, %lld bytes freed\n", (long long)removed,
           (long long)freed);
    return EXIT_OK;
}

static int clear(facc_ctx *ctx)
{
    facc_error err = FACC_ERROR_INIT;
    int64_t removed = 0;
    if (facc_cache_clear(ctx, &removed, &err))
        return cli_fail_facc(&err);
    printf("%lld removed\n", (long long)removed);
    return EXIT_OK;
}

static int export_file(facc_ctx *ctx, const char *file)
{
    facc_error err = FACC_ERROR_INIT;
    int64_t n = 0;
    if (facc_cache_export(ctx, file, &n, &err))
        return cli_fail_facc(&err);
    printf("%lld entries into %s\n", (long long)n, file);
    return EXIT_OK;
}

static int import_file(facc_ctx *ctx, const char *file)
{
    facc_error err = FACC_ERROR_INIT;
    int64_t added = 0, present = 0, refused = 0;
    facc_status s =
        facc_cache_import(ctx, file, &added, &present, &refused, &err);
    printf("%lld added, %lld there already, %lld damaged\n", (long long)added,
           (long long)present, (long long)refused);
    if (s)
        return cli_fail_facc(&err);
    return refused ? EXIT_FAILED : EXIT_OK;
}

static int act(facc_ctx *ctx, const struct options *o)
{
    const char *what = o->positional[0], *more = o->positional[1];
    if (!strcmp(what, "ls"))
        return list(ctx, o->json, false);
    if (o->rebuild)
        return rebuild(ctx, o);
    if (!strcmp(what, "verify"))
        return list(ctx, o->json, true);
    if (!strcmp(what, "gc"))
        return collect(ctx, more);
    if (!strcmp(what, "path"))
        return path(ctx);
    if (!strcmp(what, "export"))
        return export_file(ctx, more);
    if (!strcmp(what, "import"))
        return import_file(ctx, more);
    return clear(ctx);
}

static int run(int argc, char **argv)
{
    static const struct {
        const char *name;
        int least, most; /* words behind it */
    } all[] = {{"ls", 0, 0},    {"verify", 0, 0}, {"gc", 0, 1},
               {"clear", 0, 0}, {"path", 0, 0},   {"export", 1, 1},
               {"import", 1, 1}};
    struct options o;
    facc_ctx *ctx;
    facc_error err = FACC_ERROR_INIT;
    int rc = options_parse(&command_cache, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    if (!o.n_positional)
        return cli_usage(
            &command_cache,
            "say what: ls, verify, gc, clear, path, export or import");
    size_t i = 0, n = sizeof all / sizeof all[0];
    while (i < n && strcmp(all[i].name, o.positional[0]) != 0)
        i++;
    if (i == n)
        return cli_usage(&command_cache, "there is no 'cache %s'",
                         o.positional[0]);
    if (o.n_positional - 1 > all[i].most)
        return cli_usage(&command_cache, "'%s' is one too many",
                         o.positional[all[i].most + 1]);
    if (o.n_positional - 1 < all[i].least)
        return cli_usage(&command_cache, "%s wants a FILE", all[i].name);
    if (o.rebuild && strcmp(o.positional[0], "verify") != 0)
        return cli_usage(&command_cache, "--rebuild goes with verify");
    if ((o.jobs || o.memory) && !o.rebuild)
        return cli_usage(&command_cache,
                         "--jobs and --memory go with verify --rebuild");
    if (facc_ctx_create(&ctx, NULL, &err))
        return cli_fail_facc(&err);
    rc = act(ctx, &o);
    facc_ctx_free(ctx);
    return rc;
}

const struct command command_cache = {
    "cache", "list, verify, clean, export or import the kernel cache", help,
    run};

/* The rows of tests/conformance/NAME.lua as texts and as programs, and data for
 * them of random lengths and params. */
#ifndef FACC_TEST_LIST_H
#define FACC_TEST_LIST_H

#include "compiler/compile.h"
#include "tests/conformance/data.h"

enum { LIST_MOST = 512, LIST_FILES = 8, LIST_FILE = 1 << 15 };
static const char *const list_files[LIST_FILES] = {
    "scores",   "masks",     "biases",    "functions",
    "patterns", "sequences", "spellings", "odd"};

struct list_row {
    const char *file; /* "scores" */
    char name[32];
    int line; /* in the file */
};

/* The whole file, from its second line on: the first one chooses a row. */
static inline const char *list_file(const char *file)
{
    static char text[LIST_FILES][LIST_FILE];
    int which = 0;
    while (strcmp(file, list_files[which]) != 0)
        which++;
    char *to = text[which];
    char path[512];
    if (!*to) {
        const char *root = getenv("FACC_CONFORMANCE");
        snprintf(path, sizeof path, "%s/%s.lua",
                 root ? root : FACC_SOURCE_DIR "/tests/conformance", file);
        FILE *f = fopen(path, "rb");
        const size_t size = f ? fread(to, 1, LIST_FILE, f) : 0;
        if (f)
            fclose(f);
        if (size == 0 || size == LIST_FILE ||
            strncmp(to, "local want = \"", 14) != 0)
            data_die("no list in file", path);
        to[size] = '\0';
    }
    return strchr(to, '\n') + 1;
}

/* All rows, by file and line, into rows[LIST_MOST]; how many. */
static inline int list_rows(struct list_row *rows)
{
    int n = 0;
    for (int k = 0; k < LIST_FILES; k++) {
        const char *file = list_files[k], *s = list_file(file);
        for (int line = 2; s; line++, s = strchr(s, '\n'), s += s != NULL) {
            if (n == LIST_MOST)
                data_die("too many rows in", file);
            struct list_row *r = &rows[n];
            n += sscanf(s, "if row \"%31[^\"]", r->name) == 1;
            r->file = file;
            r->line = line;
        }
    }
    return n;
}

/* A row as the text of a program; good until the next call. */
static inline const char *list_text(const struct list_row *r)
{
    static char text[LIST_FILE + 64];
    snprintf(text, sizeof text, "local want = \"%s\"\n%s", r->name,
             list_file(r->file));
    return text;
}

/* --- as programs ---------------------------------------------------------- */

struct list_entry {
    char name[32];
    struct program *p;
};

static inline struct program *list_compile(const char *label, const char *text)
{
    struct diag d;
    diag_init(&d);
    struct program *p =
        compile_program(&alloc_libc, label, text, strlen(text), NULL, &d);
    if (!p) {
        fprintf(stderr, "line %d: %s\n", d.line, d.message);
        data_die("cannot compile", label);
    }
    return p;
}

/* One row by its name. */
static inline struct program *list_open_one(const char *name)
{
    static struct list_row rows[LIST_MOST];
    const int n = list_rows(rows);
    for (int k = 0; k < n; k++)
        if (strcmp(rows[k].name, name) == 0)
            return list_compile(name, list_text(&rows[k]));
    data_die("no such row:", name);
    return NULL;
}

/* Those that are wanted into e[LIST_MOST]; how many. */
static inline int list_open(struct list_entry *e,
                            bool (*wanted)(const struct program *p))
{
    static struct list_row rows[LIST_MOST];
    const int n_rows = list_rows(rows);
    int n = 0;
    for (int k = 0; k < n_rows; k++) {
        struct program *p = list_compile(rows[k].name, list_text(&rows[k]));
        if (wanted(p)) {
            memcpy(e[n].name, rows[k].name, sizeof e[n].name);
            e[n++].p = p;
        } else {
            program_free(p);
        }
    }
    return n;
}

static inline bool list_has_mask(const struct program *p)
{
    return eval_plan_has_mask(p->plan);
}

static inline void list_close(struct list_entry *e, int n)
{
    for (int k = 0; k < n; k++)
        program_free(e[k].p);
}

/* Lengths up to `most`, the same for all programs of a seed; those of
 * sequences too if the seed is odd. */
static inline void list_random_data(struct data *d, const struct ir_graph *g,
                                    uint64_t seed, int64_t most)
{
    memset(d, 0, sizeof *d);
    d->env = (struct eval_env){.B = 2,
                               .H = 4,
                               .Hkv = 2,
                               .Sq = 1 + data_pick(seed, 1, most),
                               .Skv = 1 + data_pick(seed, 2, most)};
    for (int b = 0; b < 2; b++) {
        d->len_q[b] = (int32_t)(1 + data_pick(seed, 3, d->env.Sq));
        d->len_kv[b] = (int32_t)(1 + data_pick(seed, 4, d->env.Skv));
    }
    if (seed % 2) {
        d->env.len_q = d->len_q;
        d->env.len_kv = d->len_kv;
    }
    data_list(d, g, seed);
    for (int k = 0; k < g->n_params; k++) {
        const char *name = g->params[k].name;
        if (strcmp(name, "W") == 0)
            d->param[k].i = data_pick(seed, 5, 200) - 50;
        else if (strcmp(name, "w") == 0)
            d->param[k].i = data_pick(seed, 6, 300) - 20;
        else if (strcmp(name, "position") == 0)
            d->param[k].i = data_pick(seed, 7, 3000) - 1000;
    }
}

#endif

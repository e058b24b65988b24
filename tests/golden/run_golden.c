/* Golden cases: NAME.lua beside NAME.ir (the graph after all passes),
 * NAME.cuh (the generated variant) or NAME.err (the whole message). Run in
 * this folder; the suffixes that are there say what is compared. --update
 * rewrites them; a new NAME.lua without any gets what it gives. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/compile.h"

enum { MAX_CASES = 512, MAX_NAME = 128, MAX_TEXT = 1 << 20 };

struct golden {
    bool update;
    int n_checks, n_failed;
};

/* The file's text, NUL-terminated, or NULL. The caller frees. */
static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = malloc(MAX_TEXT);
    if (text) {
        const size_t n = fread(text, 1, MAX_TEXT - 1, f);
        text[n] = '\0';
    }
    fclose(f);
    return text;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(2);
    }
}

static void report_difference(const char *path, const char *want,
                              const char *got)
{
    int line = 1;
    while (*want && *want == *got) {
        line += *want == '\n';
        want++;
        got++;
    }
    printf("FAILED %s: line %d differs (--update rewrites)\n", path, line);
}

static void check(struct golden *g, const char *name, const char *suffix,
                  const char *got, bool is_new)
{
    char path[MAX_NAME + 8];
    snprintf(path, sizeof path, "%s.%s", name, suffix);
    char *want = read_file(path);
    if (!want && !(g->update && is_new))
        return;
    g->n_checks++;
    if (!want || strcmp(want, got) != 0) {
        if (g->update) {
            write_file(path, got);
            printf("written %s\n", path);
        } else {
            report_difference(path, want, got);
            g->n_failed++;
        }
    }
    free(want);
}

static bool exists(const char *name, const char *suffix)
{
    char path[MAX_NAME + 8];
    snprintf(path, sizeof path, "%s.%s", name, suffix);
    FILE *f = fopen(path, "rb");
    if (f)
        fclose(f);
    return f != NULL;
}

static void check_error(struct golden *g, const char *name,
                        const struct diag *d, bool is_new)
{
    char text[4096];
    snprintf(text, sizeof text, "%s:%d: error: %s\n", d->file, d->line,
             d->message);
    if (!exists(name, "err") && !is_new) {
        printf("FAILED %s.lua does not compile: %s", name, text);
        g->n_failed++;
    }
    check(g, name, "err", text, is_new);
}

/* .cuh: by a plain configuration, a checked one for NAME_checked, or one of
 * family sm90 for NAME_sm90. */
static void check_texts(struct golden *g, const char *name, struct program *p,
                        bool is_new)
{
    const struct unit_config c = {.family =
                                      strstr(name, "_sm90") ? "sm90" : "sm80",
                                  .dtype = DTYPE_BF16,
                                  .out_dtype = DTYPE_BF16,
                                  .check_bounds = strstr(name, "_checked"),
                                  .dot = p->dot.dot ? &p->dot : NULL};
    struct arena *a = arena_new(&alloc_libc);
    struct strbuf ir, cuda;
    struct diag d;
    diag_init(&d);
    strbuf_init(&ir, a);
    strbuf_init(&cuda, a);
    p->graph->diag = &d;
    ir_print(p->graph, &p->roots, &ir);
    if (emit_variant(p->graph, &p->roots, &p->verdict, &c, &cuda)) {
        check(g, name, "ir", strbuf_text(&ir), is_new);
        check(g, name, "cuh", strbuf_text(&cuda), is_new);
    } else {
        printf("FAILED %s: %s\n", name, d.message);
        g->n_failed++;
    }
    arena_free(a);
}

static void run_case(struct golden *g, const char *file)
{
    char name[MAX_NAME];
    snprintf(name, sizeof name, "%.*s", (int)strlen(file) - 4, file);
    const bool is_new =
        !exists(name, "ir") && !exists(name, "cuh") && !exists(name, "err");
    char *text = read_file(file);
    struct diag d;
    diag_init(&d);
    struct program *p =
        text ? compile_program(&alloc_libc, file, text, strlen(text), NULL, &d)
             : NULL;
    if (!p) {
        check_error(g, name, &d, is_new);
    } else if (exists(name, "err")) {
        printf("FAILED %s: compiles, but has %s.err\n", file, name);
        g->n_failed++;
    } else {
        check_texts(g, name, p, is_new);
    }
    if (is_new && !g->update) {
        printf("FAILED %s: nothing to compare with\n", file);
        g->n_failed++;
    }
    program_free(p);
    free(text);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

int main(int argc, char **argv)
{
    static char cases[MAX_CASES][MAX_NAME];
    struct golden g = {.update = argc > 1 && !strcmp(argv[1], "--update")};
    size_t n = 0;
    DIR *dir = opendir(".");
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        const size_t len = strlen(e->d_name);
        if (len <= 4 || strcmp(e->d_name + len - 4, ".lua") != 0)
            continue;
        if (len >= MAX_NAME || n == MAX_CASES) {
            printf(
                "FAILED %s: more than %d cases, or a name of %d characters\n",
                e->d_name, MAX_CASES, MAX_NAME);
            return 1;
        }
        memcpy(cases[n++], e->d_name, len + 1);
    }
    if (dir)
        closedir(dir);
    qsort(cases, n, sizeof *cases, by_name);
    for (size_t k = 0; k < n; k++)
        run_case(&g, cases[k]);
    printf("golden: %zu cases, %d texts compared, %d failed\n", n, g.n_checks,
           g.n_failed);
    return n == 0 || g.n_checks == 0 || g.n_failed != 0;
}

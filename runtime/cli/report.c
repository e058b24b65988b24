/* Messages and small helpers of the command line. Called by every
 * subcommand. */
#include "runtime/cli/cli.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compiler/support/utf8.h"

int cli_usage(const struct command *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "facc %s: error: ", c->name);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\nTry: facc %s --help\n", c->name);
    return EXIT_USAGE;
}

int cli_fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("facc: error: ", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return EXIT_FAILED;
}

int cli_fail_facc(const facc_error *err)
{
    /* Messages about the user's file begin with its name and line. */
    fprintf(stderr, "%s%s\n",
            err->file[0] ? "" : "facc: error: ", err->message);
    if (err->log[0])
        fprintf(stderr, "%s\n", err->log);
    return EXIT_FAILED;
}

void cli_warn(const facc_program *p)
{
    if (facc_program_warning(p)[0])
        fprintf(stderr, "%s\n", facc_program_warning(p));
}

void *cli_alloc_for(const char *what, size_t bytes)
{
    void *p = bytes < SIZE_MAX ? calloc(1, bytes ? bytes : 1) : NULL;
    if (!p) {
        fprintf(stderr, "facc: error: out of memory: %s\n", what);
        exit(EXIT_FAILED);
    }
    return p;
}

void *cli_alloc(size_t bytes)
{
    char what[32];
    snprintf(what, sizeof what, "%zu bytes", bytes);
    return cli_alloc_for(what, bytes);
}

char *cli_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(cli_alloc(n), s, n);
}

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int cli_compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int cli_print_json(struct cJSON *value)
{
    char *text = cJSON_Print(value);
    cJSON_Delete(value);
    if (!text)
        return cli_fail("out of memory");
    utf8_repair(text); /* names of files are any bytes */
    puts(text);
    free(text);
    return EXIT_OK;
}

/* facc explain: what the compiler knows about a program. In: a
 * program and one variant. Out: text or JSON on stdout. */
#include "runtime/cli/variants.h"

#include <stdio.h>

static const char help[] =
    "usage: facc explain [FILE.lua] [options]\n"
    "\n"
    "Scopes of every value (tile, row, column, diagonal, cell), affine forms,\n"
    "plain bounds of the mask, its tier (what must be known to skip tiles) "
    "and\n"
    "what put it there, and the kernel family and tile that would run.\n"
    "Compiles nothing. facc mask shows the tiles themselves.\n"
    "\n"
    "  --score EXPR, --mask EXPR, --tensor, --param   as in facc run\n"
    "  --dtype bf16   --head-dim 128 or 192/128   --arch 90   --json\n"
    "  --packed   --block-mask   --with-sinks   --layout aligned\n"
    "  --family sm80   as in facc compile\n"
    "\n"
    "example: facc explain examples/alibi.lua --head-dim 64\n";

static const char *const allowed[] = {
    "score",      "mask",   "tensor",    "param",  "dtype",
    "head-dim",   "arch",   "json",      "packed", "block-mask",
    "with-sinks", "layout", "out-dtype", "family", NULL};

static int run(int argc, char **argv)
{
    struct options o;
    struct job job = {.device = -1};
    facc_variant v;
    facc_error err = FACC_ERROR_INIT;
    char *text;
    int rc = options_parse(&command_explain, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    rc = variants_single(&command_explain, &o, &v);
    if (!rc)
        rc = job_load_program(&command_explain, &o, &job);
    if (!rc &&
        facc_program_explain(&text, job.ctx, job.program, &v, o.json, &err))
        rc = cli_fail_facc(&err);
    if (!rc) {
        fputs(text, stdout);
        facc_string_free(text);
    }
    job_finish(&job);
    return rc;
}

const struct command command_explain = {
    "explain", "print what the compiler knows about a program", help, run};

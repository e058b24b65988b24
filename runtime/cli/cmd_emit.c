/* facc emit: IR, generated CUDA or PTX of a program. In: a program
 * and one variant. Out: text on stdout. */
#include "runtime/cli/variants.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: facc emit [FILE.lua] [--what WHAT] [options]\n"
    "\n"
    "Prints what the compiler makes of a program; WHAT is\n"
    "  ir       the optimised graph (default)\n"
    "  variant  the generated struct Variant\n"
    "  config   the generated constants\n"
    "  flat     the whole CUDA unit in one file\n"
    "  ptx      that, through NVRTC\n"
    "\n"
    "  --score EXPR, --mask EXPR, --tensor, --param   as in facc run\n"
    "  --dtype bf16   --head-dim 128 or 192/128   --arch 90   --check-bounds\n"
    "  --packed   --block-mask   --family sm80   as in facc compile\n"
    "\n"
    "example: facc emit --score 'score + 0.1 * (kv - q)' --what variant\n";

static const char *const allowed[] = {
    "what",       "score",  "mask",     "tensor",       "param",
    "dtype",      "arch",   "head-dim", "check-bounds", "packed",
    "block-mask", "family", NULL};

static bool parse_what(const char *text, facc_dump *out)
{
    static const struct {
        const char *name;
        facc_dump dump;
    } table[] = {{"ir", FACC_DUMP_IR},
                 {"variant", FACC_DUMP_VARIANT},
                 {"config", FACC_DUMP_CONFIG},
                 {"flat", FACC_DUMP_FLAT},
                 {"ptx", FACC_DUMP_PTX}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(text, table[i].name)) {
            *out = table[i].dump;
            return true;
        }
    return false;
}

static int run(int argc, char **argv)
{
    struct options o;
    struct job job = {.device = -1};
    facc_variant v;
    facc_error err = FACC_ERROR_INIT;
    facc_dump what = FACC_DUMP_IR;
    char *text;
    int rc = options_parse(&command_emit, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    if (o.what && !parse_what(o.what, &what))
        return cli_usage(&command_emit,
                         "--what is ir, variant, config, flat or ptx, got "
                         "'%s'",
                         o.what);
    rc = variants_single(&command_emit, &o, &v);
    if (!rc)
        rc = job_load_program(&command_emit, &o, &job);
    if (!rc && facc_program_dump(&text, job.ctx, job.program, &v, what, &err))
        rc = cli_fail_facc(&err);
    if (!rc) {
        fputs(text, stdout);
        facc_string_free(text);
    }
    job_finish(&job);
    return rc;
}

const struct command command_emit = {
    "emit", "print the IR, the CUDA or the PTX of a program", help, run};

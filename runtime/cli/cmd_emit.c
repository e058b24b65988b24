/* facc emit: IR, generated CUDA or PTX of a program. In: a program
 * and one variant. Out: text on stdout. */
#include "runtime/cli/variants.h"

#include <math.h>
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
    "  --packed   --block-mask   --with-sinks   --with-dropout   --family "
    "sm80\n"
    "  --per N   --centre-v   --transpose-v   --exact-peaks   --out-dtype f32\n"
    "  as in facc compile\n"
    "  --timings  of FILE.lua: how long that takes instead of the text\n"
    "\n"
    "example: facc emit --score 'score + 0.1 * (kv - q)' --what variant\n";

static const char *const allowed[] = {
    "what",       "score",      "mask",     "tensor",       "param",
    "dtype",      "arch",       "head-dim", "check-bounds", "packed",
    "block-mask", "with-sinks", "per",      "centre-v",     "with-dropout",
    "out-dtype",  "family",     "timings",  "transpose-v",  "exact-peaks",
    NULL};

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

static int print_text(const struct job *job, const facc_variant *v,
                      facc_dump what)
{
    facc_error err = FACC_ERROR_INIT;
    char *text;
    if (facc_program_dump(&text, job->ctx, job->program, v, what, &err))
        return cli_fail_facc(&err);
    fputs(text, stdout);
    facc_string_free(text);
    return EXIT_OK;
}

/* Loading (tracing, passes) and emission, the least of some rounds each. */
static int print_timings(const struct options *o, const struct job *job,
                         const facc_variant *v, facc_dump what)
{
    enum { ROUNDS = 10 };
    double load = HUGE_VAL, emit = HUGE_VAL;
    for (int i = 0; i < ROUNDS; i++) {
        facc_error err = FACC_ERROR_INIT;
        facc_program *p;
        char *text;
        const double start = cli_now();
        if (facc_program_load_file(&p, job->ctx, o->file, &err))
            return cli_fail_facc(&err);
        const double loaded = cli_now();
        const facc_status s =
            facc_program_dump(&text, job->ctx, p, v, what, &err);
        const double end = cli_now();
        facc_program_free(p);
        if (s)
            return cli_fail_facc(&err);
        facc_string_free(text);
        load = fmin(load, loaded - start);
        emit = fmin(emit, end - loaded);
    }
    printf("%s: %.2f ms: %.2f load (tracing, passes), %.2f emit\n", o->file,
           1e3 * (load + emit), 1e3 * load, 1e3 * emit);
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct options o;
    struct job job = {.device = -1};
    facc_variant v;
    int rc = options_parse(&command_emit, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    facc_dump what = o.timings ? FACC_DUMP_FLAT : FACC_DUMP_IR;
    if (o.what && !parse_what(o.what, &what))
        return cli_usage(&command_emit,
                         "--what is ir, variant, config, flat or ptx, got "
                         "'%s'",
                         o.what);
    if (o.timings && !o.file)
        return cli_usage(&command_emit, "--timings wants a FILE.lua");
    rc = variants_single(&command_emit, &o, &v);
    if (!rc)
        rc = job_load_program(&command_emit, &o, &job);
    if (!rc)
        rc = o.timings ? print_timings(&o, &job, &v, what)
                       : print_text(&job, &v, what);
    job_finish(&job);
    return rc;
}

const struct command command_emit = {
    "emit", "print the IR, the CUDA or the PTX of a program", help, run};

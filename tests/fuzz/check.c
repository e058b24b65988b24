/* One case through all that it is asked to pass (check.h). */
#include "tests/fuzz/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/program.h"

bool check_fail(struct outcome *o, enum stage stage, const char *fmt, ...)
{
    va_list ap;
    if (o->stage != STAGE_FINE)
        return false;
    o->stage = stage;
    va_start(ap, fmt);
    vsnprintf(o->message, sizeof o->message, fmt, ap);
    va_end(ap);
    return false;
}

struct case_limits check_limits(const struct check_options *o)
{
    return o->gpu ? (struct case_limits){.cells = 20000, .gpu = true}
                  : (struct case_limits){.cells = 1200, .gpu = o->nvrtc};
}

static void ignore(void *user, const char *message)
{
    (void)user;
    (void)message;
}

facc_ctx *check_context(void)
{
    facc_options o = FACC_OPTIONS_INIT;
    facc_ctx *ctx;
    o.cache_mode = 3; /* off: what is compiled is not what another run left */
    o.cpu_threads = 1;
    o.on_warning = ignore; /* spills */
    return facc_ctx_create(&ctx, &o, NULL) == FACC_OK ? ctx : NULL;
}

/* A mod of many operations is there for every score of a thread: NVRTC takes
 * minutes for what nobody would write. */
static bool check_kernels(const struct truth *t,
                          const struct check_options *options, facc_ctx *ctx,
                          facc_program *p, struct outcome *o)
{
    enum { MOST_COST = 30 };
    if (!options->nvrtc && !options->gpu)
        return true;
    if (eval_plan_cost(p->compiled->plan) > MOST_COST) {
        o->tally.left_out++;
        return true;
    }
    return (!options->nvrtc || check_nvrtc(t->c, ctx, p, t->c->data_seed, o)) &&
           (!options->gpu || check_gpu(t, ctx, p, o));
}

static void check_made(const struct fuzz_case *c,
                       const struct check_options *options, facc_ctx *ctx,
                       struct outcome *o)
{
    struct truth t = {.c = c};
    facc_error err = FACC_ERROR_INIT;
    facc_program *p = NULL;
    const size_t cells =
        (size_t)c->B * (size_t)c->H * (size_t)c->Sq * (size_t)c->Skv;
    t.cell = calloc(cells + 1, sizeof *t.cell);
    if (!t.cell)
        check_fail(o, STAGE_CELLS, "memory is out");
    else if (facc_program_load_string(&p, ctx, "mod.lua", c->program.text,
                                      c->program.size, &err) != FACC_OK)
        check_fail(o, STAGE_TRACE, "%s", err.message);
    else
        (void)(check_cells(&t, options->gpu, o) &&
               check_verdicts(&t, p->compiled, c->data_seed, o) &&
               check_cpu(&t, ctx, p, o) &&
               check_kernels(&t, options, ctx, p, o));
    facc_program_free(p);
    free(t.cell);
}

void check_case(struct choices *choices, const struct check_options *options,
                facc_ctx *ctx, struct outcome *out)
{
    const struct case_limits limits = check_limits(options);
    struct fuzz_case *c = malloc(sizeof *c);
    *out = (struct outcome){.tally = {.cases = 1}};
    if (c && case_make(c, choices, &limits))
        check_made(c, options, ctx, out);
    else
        check_fail(out, STAGE_CELLS, "memory is out");
    if (c)
        case_close(c);
    free(c);
}

/* The CPU attention against the loop by hand (check.h): the f64 oracle, and
 * f32 with an output of the inputs' type. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/check.h"

static bool run(const struct truth *t, facc_ctx *ctx, const facc_program *p,
                const struct judging *j, facc_dtype o_dtype,
                facc_dtype lse_dtype, struct outcome *out)
{
    facc_args a = t->c->args;
    facc_cpu_options options = FACC_CPU_OPTIONS_INIT;
    facc_error err = FACC_ERROR_INIT;
    size_t o_bytes, lse_bytes;
    bool ok;
    options.f64 = j->f64;
    options.threads = 1;
    rows_shape(t->c, &a.o, o_dtype, &a.lse, lse_dtype, &o_bytes, &lse_bytes);
    a.o.data = malloc(o_bytes + 1);
    a.lse.data = malloc(lse_bytes + 1);
    if (!a.o.data || !a.lse.data) {
        ok = check_fail(out, j->stage, "memory is out");
    } else {
        memset(a.o.data, 0xff, o_bytes); /* NaN: must be written */
        memset(a.lse.data, 0xff, lse_bytes);
        ok = facc_cpu_attention(ctx, p, &a, &options, &err) == FACC_OK
                 ? check_rows(t, j, &a.o, &a.lse, out)
                 : check_fail(out, j->stage, "%s", err.message);
    }
    free(a.o.data);
    free(a.lse.data);
    return ok;
}

bool check_cpu(const struct truth *t, facc_ctx *ctx, const facc_program *p,
               struct outcome *o)
{
    static const struct judging f64 = {STAGE_CPU_F64, "CPU, f64", true, 0};
    static const struct judging f32 = {STAGE_CPU_F32, "CPU", false, 0};
    const facc_dtype type = t->c->args.q.dtype;
    const bool half = type == FACC_BF16 || type == FACC_F16;
    return run(t, ctx, p, &f64, FACC_F64, FACC_F64, o) &&
           run(t, ctx, p, &f32, half ? type : FACC_F32, FACC_F32, o);
}

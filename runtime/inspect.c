/* facc_program_dump and facc_program_explain: what the compiler made of a
 * program, as text for people or JSON for machines. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/support/utf8.h"
#include "runtime/context.h"
#include "runtime/error.h"
#include "runtime/kernel.h"
#include "runtime/nvrtc.h"

/* A copy for the caller. */
static bool hand_out(char **out, const struct strbuf *b, struct diag *d)
{
    if (!b->failed)
        *out = strdup(strbuf_text(b));
    return *out || diag_nomem(d, "dump");
}

/* ---- dump ---------------------------------------------------------------- */

static bool dump_header(const struct cuda_unit *u, const char *name,
                        struct strbuf *b, struct diag *d)
{
    for (int i = 0; i < u->n_headers; i++)
        if (strcmp(u->headers[i].name, name) == 0) {
            strbuf_add(b, u->headers[i].text);
            return true;
        }
    return diag_set(d, FACC_ERR_INTERNAL, "dump", NULL, 0, "the unit has no %s",
                    name);
}

static bool dump_ptx(facc_ctx *ctx, const struct cuda_unit *u,
                     const struct plan *plan, struct strbuf *b, char **log,
                     struct diag *d)
{
    struct nvrtc_build build;
    struct nvrtc_target target;
    module_target(ctx, plan, &target);
    if (ctx->no_jit)
        return diag_set(d, FACC_ERR_NO_JIT, "dump", NULL, 0,
                        "PTX for sm_%d would have to be compiled, which is "
                        "forbidden (FACC_NO_JIT or facc_options.no_jit)",
                        plan->arch);
    struct nvrtc *n = ctx_nvrtc(ctx, d);
    if (!n)
        return false;
    bool ok = module_compile(ctx, n, u, &target, true, &build, d);
    if (ok)
        strbuf_addn(b, build.image, build.size);
    else {
        *log = build.log;
        build.log = NULL;
    }
    nvrtc_build_free(&build);
    return ok;
}

static bool dump_ir(facc_program *p, struct strbuf *b, struct diag *d)
{
    if (!ctx_lock(p->ctx, &p->lock, d))
        return false;
    ir_print(p->compiled->graph, &p->compiled->roots, b);
    pthread_mutex_unlock(&p->lock);
    return true;
}

static bool dump_unit(facc_ctx *ctx, facc_program *p,
                      const facc_variant *variant, facc_dump what,
                      struct strbuf *b, char **log, struct diag *d)
{
    struct cuda_unit unit;
    struct plans plans;
    memset(&unit, 0, sizeof unit);
    if (!kernel_configure(ctx, p, variant, &plans, d) ||
        !module_unit(ctx, p, &plans.plan[0].config, b->arena, &unit, d))
        return false;
    switch (what) {
    case FACC_DUMP_VARIANT:
        return dump_header(&unit, "facc_variant.cuh", b, d);
    case FACC_DUMP_CONFIG:
        return dump_header(&unit, "facc_config.cuh", b, d);
    case FACC_DUMP_FLAT:
        return emit_flat(&unit, b) || diag_nomem(d, "dump");
    case FACC_DUMP_PTX:
        return dump_ptx(ctx, &unit, &plans.plan[0], b, log, d);
    case FACC_DUMP_IR:
        break;
    }
    return diag_set(d, FACC_ERR_ARGUMENT, "dump", NULL, 0, "unknown dump %d",
                    (int)what);
}

static bool both_given(const facc_ctx *ctx, const facc_program *p,
                       struct diag *d)
{
    return (ctx && p) || diag_set(d, FACC_ERR_ARGUMENT, "dump", NULL, 0,
                                  "ctx or program is NULL");
}

facc_status facc_program_dump(char **out, facc_ctx *ctx, facc_program *p,
                              const facc_variant *variant, facc_dump what,
                              facc_error *err)
{
    struct diag d;
    struct strbuf b;
    char *log = NULL;
    diag_init(&d);
    if (!out)
        return error_null(err, "out");
    *out = NULL;
    struct arena *arena = arena_new(&alloc_libc);
    if (!arena)
        diag_nomem(&d, "dump");
    else if (both_given(ctx, p, &d)) {
        strbuf_init(&b, arena);
        bool ok = what == FACC_DUMP_IR
                      ? dump_ir(p, &b, &d)
                      : dump_unit(ctx, p, variant, what, &b, &log, &d);
        if (ok)
            (void)hand_out(out, &b, &d);
    }
    arena_free(arena);
    facc_status s =
        *out ? FACC_OK : error_report(err, &d, p ? p->text : NULL, log);
    free(log);
    return s;
}

/* ---- explain ------------------------------------------------------------- */

static void explain_tile(const struct unit_config *c, struct strbuf *b)
{
    const bool sm90 = select_is_sm90(c);
    strbuf_addf(b, "  tile %d query rows x %d KV columns, %d warps%s, ",
                c->tile_m, c->tile_n, c->warps,
                sm90 ? ", 4 of which load" : "");
    strbuf_addf(b, "%d K/V buffer%s, ", c->stages, c->stages == 1 ? "" : "s");
    strbuf_add(b, c->q_in_registers   ? "Q in registers\n"
                  : c->q_buffers == 2 ? "2 Q buffers\n"
                                      : "Q in shared memory\n");
    if (sm90)
        strbuf_addf(b,
                    "  one CTA per multiprocessor, which has its shared "
                    "memory: %d bytes\n",
                    c->shared_bytes);
    else
        strbuf_addf(b, "  %d bytes of shared memory per CTA\n",
                    c->shared_bytes);
}

static void explain_selection(const facc_program *p, const struct plans *plans,
                              struct strbuf *b)
{
    const struct plan *plan = &plans->plan[0];
    const struct unit_config *c = &plan->config;
    strbuf_addf(b, "\nkernel for sm_%d\n", plan->arch);
    strbuf_addf(b, "  family %s, %s, head dims %d and %d, output %s\n",
                c->family, dtype_name(c->dtype), c->head_dim, c->head_dim_v,
                dtype_name(c->out_dtype));
    if (c->packed)
        strbuf_add(b, "  for packed sequences\n");
    if (c->sinks)
        strbuf_add(b, "  with attention sinks\n");
    if (dtype_is_fp8(c->dtype))
        strbuf_addf(b,
                    "  descales of %s; sums of P V %s\n"
                    "  V is read transposed: %s\n",
                    c->block_scales ? "blocks of rows" : "heads or tensors",
                    c->promotes ? "move on to f32 every few tiles from 4,096 "
                                  "keys on, unless V's mean is given"
                                : "keep 13 fraction bits: bring v_mean where "
                                  "channels of V have means",
                    c->transposes_v
                        ? "the kernel transposes it tile by tile"
                        : "a launch transposes it first unless its image is "
                          "given");
    if (c->exact_peaks)
        strbuf_add(b, "  weights that carry a row are rounded exactly\n");
    if (c->dropout)
        strbuf_add(b, "  with dropout: Philox-4x32-10, 16 bits for each "
                      "weight\n");
    if (c->dot)
        strbuf_addf(b, "  %d columns of facc.dot join those of Q and K\n",
                    c->dot->n);
    else if (p->compiled->dot.dot)
        strbuf_add(b, "  facc.dot is made cell by cell\n");
    if (plan->facts.scheduled)
        strbuf_addf(b,
                    "  launches make a schedule first%s, by kernels with a "
                    "cubin of their own\n",
                    c->block_mask ? ", of the block lists given" : "");
    if (c->check_bounds)
        strbuf_add(b, "  checked debug build\n");
    explain_tile(c, b);
    if (plans->n > 1) {
        strbuf_addf(b,
                    "  family %s for tensors that are not aligned to 16 "
                    "bytes:\n",
                    plans->plan[1].config.family);
        explain_tile(&plans->plan[1].config, b);
    }
}

static bool add_declared(cJSON *list, const facc_declared *t)
{
    cJSON *o = cJSON_CreateObject();
    if (!o || !cJSON_AddItemToArray(list, o)) {
        cJSON_Delete(o);
        return false;
    }
    cJSON *shape = NULL;
    bool ok = cJSON_AddStringToObject(o, "name", t->name) &&
              cJSON_AddStringToObject(o, "dtype", facc_dtype_name(t->dtype)) &&
              (shape = cJSON_AddArrayToObject(o, "shape")) != NULL;
    for (int i = 0; ok && i < t->rank; i++) {
        cJSON *e = t->dim_names[i] ? cJSON_CreateString(t->dim_names[i])
                                   : cJSON_CreateNumber((double)t->shape[i]);
        ok = e && cJSON_AddItemToArray(shape, e);
    }
    return ok;
}

static bool add_program(cJSON *o, const facc_program *p, const char *cause)
{
    const struct signature *s = &p->signature;
    const struct program *c = p->compiled;
    bool ok =
        cJSON_AddStringToObject(o, "program", c->name) &&
        cJSON_AddStringToObject(o, "warning", c->facts.warning) &&
        cJSON_AddNumberToObject(o, "score_paths", c->facts.score_paths) &&
        cJSON_AddNumberToObject(o, "mask_paths", c->facts.mask_paths) &&
        cJSON_AddBoolToObject(o, "has_score", eval_plan_has_score(c->plan)) &&
        cJSON_AddBoolToObject(o, "has_mask", eval_plan_has_mask(c->plan)) &&
        cJSON_AddNumberToObject(o, "cell_cost", eval_plan_cost(c->plan)) &&
        cJSON_AddNumberToObject(o, "cell_functions",
                                eval_plan_functions(c->plan)) &&
        cJSON_AddStringToObject(o, "tier", mask_tier_name(c->verdict.tier)) &&
        cJSON_AddStringToObject(o, "tier_cause", cause);
    cJSON *tensors = ok ? cJSON_AddArrayToObject(o, "tensors") : NULL;
    cJSON *params = tensors ? cJSON_AddArrayToObject(o, "params") : NULL;
    ok = params != NULL;
    for (int i = 0; ok && i < s->n_tensors; i++)
        ok = add_declared(tensors, &s->tensors[i]);
    for (int i = 0; ok && i < s->n_params; i++)
        ok = add_declared(params, &s->params[i]);
    return ok;
}

static bool add_kernel(cJSON *o, const struct plans *plans)
{
    const struct plan *plan = &plans->plan[0];
    const struct unit_config *c = &plan->config;
    const char *fallback = plans->n > 1 ? plans->plan[1].config.family : "";
    cJSON *k = cJSON_AddObjectToObject(o, "kernel");
    return k && cJSON_AddStringToObject(k, "family", c->family) &&
           cJSON_AddStringToObject(k, "fallback", fallback) &&
           cJSON_AddNumberToObject(k, "arch", plan->arch) &&
           cJSON_AddStringToObject(k, "dtype", dtype_name(c->dtype)) &&
           cJSON_AddStringToObject(k, "out_dtype", dtype_name(c->out_dtype)) &&
           cJSON_AddNumberToObject(k, "head_dim", c->head_dim) &&
           cJSON_AddNumberToObject(k, "head_dim_v", c->head_dim_v) &&
           cJSON_AddNumberToObject(k, "tile_m", c->tile_m) &&
           cJSON_AddNumberToObject(k, "tile_n", c->tile_n) &&
           cJSON_AddNumberToObject(k, "warps", c->warps) &&
           cJSON_AddNumberToObject(k, "stages", c->stages) &&
           cJSON_AddNumberToObject(k, "shared_bytes", c->shared_bytes) &&
           cJSON_AddBoolToObject(k, "block_mask", c->block_mask) &&
           cJSON_AddBoolToObject(k, "packed", c->packed) &&
           cJSON_AddBoolToObject(k, "sinks", c->sinks) &&
           cJSON_AddBoolToObject(k, "dropout", c->dropout) &&
           cJSON_AddBoolToObject(k, "transposes_v", c->transposes_v) &&
           cJSON_AddBoolToObject(k, "exact_peaks", c->exact_peaks) &&
           cJSON_AddBoolToObject(k, "scheduled", plan->facts.scheduled);
}

/* "keys": the names of the fields so far, for readers of any version. */
static bool add_keys(cJSON *o)
{
    cJSON *keys = cJSON_CreateArray();
    bool ok = keys != NULL;
    for (const cJSON *f = o->child; ok && f; f = f->next) {
        cJSON *name = cJSON_CreateString(f->string);
        ok = name && cJSON_AddItemToArray(keys, name);
    }
    if (ok && cJSON_AddItemToObject(o, "keys", keys))
        return true;
    cJSON_Delete(keys);
    return false;
}

/* What compile.h tells, before any kernel. */
struct told {
    struct strbuf text, cause;
};

static bool ask(facc_program *p, struct arena *arena, struct told *t,
                struct diag *d)
{
    strbuf_init(&t->text, arena);
    strbuf_init(&t->cause, arena);
    if (!ctx_lock(p->ctx, &p->lock, d))
        return false;
    bool ok = compile_explain(p->compiled, &t->text, d) &&
              compile_tier_cause(p->compiled, &t->cause, d);
    pthread_mutex_unlock(&p->lock);
    return ok;
}

/* plans NULL: no variant was given. */
static bool explain_json(char **out, const facc_program *p,
                         const struct plans *plans, struct told *t,
                         struct diag *d)
{
    cJSON *o = cJSON_CreateObject();
    char *json = NULL;
    if (o && add_program(o, p, strbuf_text(&t->cause)) &&
        (!plans || add_kernel(o, plans)) && add_keys(o) &&
        cJSON_AddStringToObject(o, "text", strbuf_text(&t->text)))
        json = cJSON_Print(o);
    cJSON_Delete(o);
    /* cJSON may have hooks: facc_string_free is free(). */
    *out = json ? strdup(json) : NULL;
    if (*out)
        utf8_repair(*out); /* names of files are any bytes */
    cJSON_free(json);
    return *out || diag_nomem(d, "explain");
}

static bool explain(char **out, facc_ctx *ctx, facc_program *p,
                    const facc_variant *variant, bool json, struct arena *arena,
                    struct diag *d)
{
    struct plans plans;
    struct told t;
    if (!ask(p, arena, &t, d))
        return false;
    if (variant) {
        if (!kernel_configure(ctx, p, variant, &plans, d))
            return false;
        explain_selection(p, &plans, &t.text);
    }
    if (t.text.failed || t.cause.failed)
        return diag_nomem(d, "explain");
    return json ? explain_json(out, p, variant ? &plans : NULL, &t, d)
                : hand_out(out, &t.text, d);
}

facc_status facc_program_explain(char **out, facc_ctx *ctx, facc_program *p,
                                 const facc_variant *variant, int32_t json,
                                 facc_error *err)
{
    struct diag d;
    diag_init(&d);
    if (!out)
        return error_null(err, "out");
    *out = NULL;
    struct arena *arena = arena_new(&alloc_libc);
    if (!arena)
        diag_nomem(&d, "explain");
    else if (both_given(ctx, p, &d))
        (void)explain(out, ctx, p, variant, json != 0, arena, &d);
    arena_free(arena);
    return *out ? FACC_OK : error_report(err, &d, NULL, NULL);
}

/* facc_kernel_check, _get, _free, _load, _get_info: variant to configuration,
 * configuration to machine code (module.c), machine code onto a device. */
#include "runtime/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/manifest.h"
#include "runtime/select.h"
#include "templates/common/fp8_args.h"
#include "templates/common/kernel_args.h"

static const char stage_name[] = "kernel";

/* ---- variant to configuration ------------------------------------------ */

static const int known_archs[] = {80, 86, 89, 90, 100, 120};
enum { N_ARCHS = sizeof known_archs / sizeof known_archs[0] };

/* Code for sm_XY runs on sm_XZ with Z >= Y: the best architecture that facc
 * compiles for. 0: none. */
static int arch_for_device(int device_arch)
{
    int best = 0;
    for (int i = 0; i < N_ARCHS; i++)
        if (known_archs[i] / 10 == device_arch / 10 &&
            known_archs[i] <= device_arch)
            best = known_archs[i];
    return best;
}

static bool known_arch(int arch, struct diag *d)
{
    for (int i = 0; i < N_ARCHS; i++)
        if (known_archs[i] == arch)
            return true;
    return diag_set(d, FACC_ERR_UNSUPPORTED, stage_name, NULL, 0,
                    "there are no kernels for sm_%d: facc compiles for sm_80, "
                    "86, 89, 90, 100 and 120; the CPU path runs anywhere",
                    arch);
}

bool kernel_arch(facc_ctx *ctx, int asked, int device, int *arch,
                 struct diag *d)
{
    int have;
    *arch = asked;
    if (asked != 0)
        return known_arch(asked, d);
    struct driver *drv = ctx_driver(ctx, d);
    if (!drv || !driver_arch(drv, device, &have, d))
        return false;
    *arch = arch_for_device(have);
    return *arch != 0 ||
           diag_set(d, FACC_ERR_UNSUPPORTED, stage_name, NULL, 0,
                    "device %d is sm_%d; facc's kernels run on sm_80, 86, "
                    "89, 90, 100 and 120; the CPU path runs anywhere",
                    device, have);
}

static size_t args_size(const struct signature *s, bool fp8)
{
    size_t n = sizeof(struct facc_kernel_header) +
               (size_t)s->n_tensors * sizeof(struct facc_captured) +
               (size_t)s->n_params * sizeof(union facc_scalar) +
               (fp8 ? sizeof(struct facc_fp8) : 0);
    return (n + KERNEL_ARGS_ALIGN - 1) / KERNEL_ARGS_ALIGN * KERNEL_ARGS_ALIGN;
}

static bool captures_fit(const facc_program *p, bool fp8, struct diag *d)
{
    const struct signature *s = &p->signature;
    const size_t other = args_size(&(struct signature){.n_tensors = 0}, fp8);
    if (args_size(s, fp8) <= KERNEL_MAX_ARGS)
        return true;
    return diag_set(
        d, FACC_ERR_UNSUPPORTED, stage_name, NULL, 0,
        "%s captures %d tensors and %d params: a kernel takes up "
        "to %d tensors (params count for a ninth of one); join "
        "some into one tensor",
        s->file, s->n_tensors, s->n_params,
        (int)((KERNEL_MAX_ARGS - other) / sizeof(struct facc_captured)));
}

static bool fp8_fits(const facc_variant *v, struct diag *d)
{
    const char *name = v->block_scales   ? "block_scales"
                       : v->transposes_v ? "transposes_v"
                       : v->exact_peaks  ? "exact_peaks"
                                         : NULL;
    if (!name || dtype_is_fp8((enum dtype)v->dtype))
        return true;
    return diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
                    "variant.%s is for e4m3 and e5m2, dtype is %s", name,
                    facc_dtype_name(v->dtype));
}

/* The product of vectors that kernels of this variant make beside Q K^T. */
static const struct dot_term *usable_dot(const facc_program *p,
                                         const facc_variant *v)
{
    const struct dot_term *dot = &p->compiled->dot;
    const bool room =
        args_size(&p->signature, false) + DOT_MAPS_BYTES <= KERNEL_MAX_ARGS;
    return dot->dot && (facc_dtype)dot->dtype == v->dtype && !v->check_bounds &&
                   room
               ? dot
               : NULL;
}

static bool dropout_fits(const facc_variant *v, struct diag *d)
{
    if (!v->dropout || !dtype_is_fp8((enum dtype)v->dtype))
        return true;
    return diag_set(d, FACC_ERR_UNSUPPORTED, stage_name, NULL, 0,
                    "variant.dropout is for f16 and bf16, dtype is %s",
                    facc_dtype_name(v->dtype));
}

static bool configure(const facc_program *p, const facc_variant *v, int arch,
                      int family, struct plan *plan, struct diag *d)
{
    const struct eval_plan *e = p->compiled->plan;
    const struct dot_term *dot = usable_dot(p, v);
    const int loads = p->compiled->cell_loads;
    const bool masks = eval_plan_has_mask(e);
    plan->arch = arch;
    if (!(dot && select_config(v, arch, family, loads, masks, dot,
                               &plan->config, NULL)) &&
        !select_config(v, arch, family, loads, masks, NULL, &plan->config, d))
        return false;
    if (args_size(&p->signature, false) + DOT_MAPS_BYTES + PLANE_MAP_BYTES <=
        KERNEL_MAX_ARGS)
        select_plane(&plan->config, p->compiled->plane.bytes);
    plan->config.packed = v->packed != 0;
    plan->config.sinks = v->sinks != 0;
    plan->config.block_scales = v->block_scales != 0;
    plan->config.exact_peaks = v->exact_peaks != 0;
    plan->config.dropout = v->dropout != 0;
    plan->config.full_blocks_partial =
        plan->config.block_mask && p->compiled->facts.score_masks;
    schedule_facts(p, &plan->config, &plan->facts);
    return true;
}

/* All plans' launches bring a schedule, or none's. */
static void configure_schedule(const facc_program *p, int arch,
                               struct plans *plans)
{
    struct plan *s = &plans->schedule;
    plans->scheduled = true;
    s->arch = arch;
    s->config = emit_schedule(&plans->plan[0].config);
    schedule_facts(p, &s->config, &s->facts);
}

bool kernel_configure(facc_ctx *ctx, const facc_program *p,
                      const facc_variant *variant, struct plans *plans,
                      struct diag *d)
{
    facc_variant v;
    int arch, family[SELECT_MAX_FAMILIES];
    memset(plans, 0, sizeof *plans);
    if (!versioned_read(&v, sizeof v, variant, "facc_variant", d) ||
        !fp8_fits(&v, d) || !dropout_fits(&v, d) ||
        !reserved_is_zero(v.reserved0, "facc_variant.reserved0", d) ||
        !kernel_arch(ctx, v.arch, v.device, &arch, d))
        return false;
    const int n = select_families(&v, arch, family, d);
    for (int i = 0; i < n; i++)
        if (!configure(p, &v, arch, family[i], &plans->plan[i], d))
            return false;
    plans->n = n;
    dot_tensors_of(n > 0 ? plans->plan[0].config.dot : NULL, &plans->dot);
    plans->plane = plane_tensor_of(&p->compiled->plane);
    if (n > 0 && plans->plan[0].facts.scheduled)
        configure_schedule(p, arch, plans);
    const bool fp8 = dtype_is_fp8((enum dtype)v.dtype);
    if (n > 0 && fp8 && !plans->plan[0].config.transposes_v) {
        plans->transposed = true;
        plans->transpose.arch = arch;
        plans->transpose.config = emit_transpose(&plans->plan[0].config);
    }
    return n > 0 && captures_fit(p, fp8, d);
}

static bool given(const void *ctx, const void *p, struct diag *d)
{
    if (ctx && p)
        return true;
    return diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0, "%s is NULL",
                    ctx ? "program" : "ctx");
}

/* ---- check ------------------------------------------------------------ */

static bool check_args(const struct plans *plans, const facc_program *p,
                       const facc_args *args, struct diag *d)
{
    facc_args a;
    struct args_rules rules;
    struct args_sizes sizes;
    struct schedule schedule;
    launch_rules(&plans->plan[0].config, "check", &rules);
    if (!versioned_read(&a, sizeof a, args, "facc_args", d) ||
        !args_check(&a, &rules, &p->signature, &sizes, d))
        return false;
    const int i = launch_choice(plans, &p->signature, &a, rules.stage, d);
    return i >= 0 &&
           schedule_make(&plans->plan[i].config, &plans->plan[i].facts, &a,
                         &sizes, rules.stage, &schedule, d);
}

facc_status facc_kernel_check(facc_ctx *ctx, const facc_program *p,
                              const facc_variant *variant,
                              const facc_args *args, facc_error *err)
{
    struct diag d;
    struct plans plans;
    diag_init(&d);
    if (given(ctx, p, &d) && kernel_configure(ctx, p, variant, &plans, &d) &&
        (!args || check_args(&plans, p, args, &d)))
        return FACC_OK;
    return error_report(err, &d, NULL, NULL);
}

/* ---- get, free, info ---------------------------------------------------- */

/* The code that a program has got is its own context's. */
static bool of_ctx(const facc_ctx *ctx, const facc_program *p, struct diag *d)
{
    return p->ctx == ctx ||
           diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
                    "the program was loaded in another context: load it in "
                    "the one that the kernel is asked of");
}

static void tell(const facc_kernel *k, const struct module_origin *origin)
{
    for (int i = 0; i < plans_count(&k->plans) && k->ctx->on_compile; i++) {
        const facc_compile_event e = {k->module[i]->key, origin[i].source,
                                      origin[i].seconds};
        k->ctx->on_compile(k->ctx->user, &e);
    }
}

/* Of the codes' origins the one that took longest. */
static void note_origin(facc_kernel *k, const struct module_origin *origin)
{
    static const char *const order[] = {"memory", "disk", "nvrtc"};
    int most = 0;
    for (int i = 0; i < plans_count(&k->plans); i++) {
        for (int s = most; s < 3; s++)
            if (strcmp(order[s], origin[i].source) == 0)
                most = s;
        if (origin[i].compile_seconds > k->compile_seconds)
            k->compile_seconds = origin[i].compile_seconds;
    }
    snprintf(k->source, sizeof k->source, "%s", order[most]);
}

static facc_kernel *make(facc_ctx *ctx, facc_program *p,
                         const struct plans *plans,
                         struct module_origin *origin, struct diag *d)
{
    facc_kernel *k = calloc(1, sizeof *k);
    if (!k || !signature_copy(&k->signature, &p->signature)) {
        diag_nomem(d, stage_name);
        free(k);
        return NULL;
    }
    k->ctx = ctx;
    k->plans = *plans;
    k->args_size =
        args_size(&k->signature, dtype_is_fp8(plans->plan[0].config.dtype));
    if (!module_get_all(ctx, p, plans, k->module, origin, d)) {
        signature_free(&k->signature);
        free(k);
        return NULL;
    }
    note_origin(k, origin);
    return k;
}

facc_status facc_kernel_get(facc_kernel **out, facc_ctx *ctx, facc_program *p,
                            const facc_variant *variant, facc_error *err)
{
    struct diag d;
    struct plans plans;
    struct module_origin origin[MODULES_MAX] = {{0}};
    const char *log = NULL;
    facc_status status = FACC_OK;
    diag_init(&d);
    if (!out)
        return error_null(err, "out");
    *out = NULL;
    if (given(ctx, p, &d) && of_ctx(ctx, p, &d) &&
        kernel_configure(ctx, p, variant, &plans, &d)) {
        manifest_record(ctx, p, variant, plans.plan[0].arch);
        *out = make(ctx, p, &plans, origin, &d);
    }
    if (*out)
        tell(*out, origin);
    else {
        for (int i = 0; i < MODULES_MAX && !log; i++)
            log = origin[i].log;
        status = error_report(err, &d, p ? p->text : NULL, log);
    }
    for (int i = 0; i < MODULES_MAX; i++)
        free(origin[i].log);
    return status;
}

static void free_reports(facc_kernel *k)
{
    struct driver *drv = k->module[0]->driver;
    struct diag d;
    diag_init(&d);
    if (!k->plans.plan[0].config.check_bounds || !drv ||
        !ctx_not_forked(k->ctx, &d))
        return;
    for (int i = 0; i < DRIVER_MAX_DEVICES; i++) {
        cu_ptr report = atomic_load(&k->report[i]);
        if (report && driver_push(drv, i, &d)) {
            drv->MemFree(report);
            driver_pop(drv);
        }
    }
}

void facc_kernel_free(facc_kernel *k)
{
    if (!k)
        return;
    free_reports(k);
    signature_free(&k->signature);
    free(k);
}

static void family_of(const facc_kernel *k, int i, char *out, size_t size)
{
    snprintf(out, size, "%s",
             i >= 0 && i < k->plans.n ? k->plans.plan[i].config.family : "");
}

facc_status facc_kernel_get_info(const facc_kernel *k, facc_kernel_info *out)
{
    facc_kernel_info i = {0};
    if (!k)
        return FACC_ERR_ARGUMENT;
    const struct module *m = k->module[0];
    const struct plan *p = &k->plans.plan[0];
    memcpy(i.key, m->key, sizeof i.key);
    family_of(k, 0, i.family, sizeof i.family);
    i.arch = p->arch;
    i.tile_m = p->config.tile_m;
    i.tile_n = p->config.tile_n;
    i.warps = p->config.warps;
    i.stages = p->config.stages;
    i.registers = m->meta.registers;
    for (int n = 0; n < k->plans.n; n++)
        if (k->module[n]->meta.spill_bytes > i.spill_bytes)
            i.spill_bytes = k->module[n]->meta.spill_bytes;
    i.shared_bytes = p->config.shared_bytes;
    i.cubin_bytes = (int64_t)m->cubin_size;
    i.compile_seconds = k->compile_seconds;
    memcpy(i.source, k->source, sizeof i.source);
    memcpy(i.compiler, m->meta.compiler, sizeof i.compiler);
    snprintf(i.tier, sizeof i.tier, "%s", schedule_tier(&p->facts, &p->config));
    i.scheduled = p->facts.scheduled;
    i.transposes_v = p->config.transposes_v;
    family_of(k, 1, i.fallback, sizeof i.fallback);
    family_of(k, atomic_load(&k->launched) - 1, i.launched, sizeof i.launched);
    return versioned_write(out, &i, sizeof i) ? FACC_OK : FACC_ERR_ARGUMENT;
}

/* ---- load --------------------------------------------------------------- */

static bool runs_on(const facc_kernel *k, const struct driver *drv, int device,
                    struct diag *d)
{
    int have;
    const int arch = k->plans.plan[0].arch; /* of all */
    if (!driver_arch(drv, device, &have, d))
        return false;
    if (have / 10 == arch / 10 && have >= arch)
        return true;
    return diag_set(d, FACC_ERR_ARGUMENT, "load", NULL, 0,
                    "the kernel is for sm_%d, device %d is sm_%d: get one "
                    "with variant.arch 0 and variant.device %d",
                    arch, device, have, device);
}

/* What launches of family sm90 need besides the code. */
static bool sm90_ready(struct driver *drv, int device, struct diag *d)
{
    if (!drv->TensorMapEncodeTiled)
        return diag_set(d, FACC_ERR_NO_DRIVER, "load", NULL, 0,
                        "the NVIDIA driver (%s) has no "
                        "cuTensorMapEncodeTiled, which family sm90 needs: "
                        "update it, or get the kernel with variant.family "
                        "FACC_FAMILY_SM80",
                        drv->path);
    return driver_count_multiprocessors(drv, device, d);
}

static bool load_all(facc_kernel *k, struct driver *drv, int device,
                     struct diag *d)
{
    for (int i = 0; i < plans_count(&k->plans); i++) {
        const struct unit_config *c = &plans_at(&k->plans, i)->config;
        if ((select_is_sm90(c) && !sm90_ready(drv, device, d)) ||
            !module_load(k->module[i], drv, device, c->shared_bytes, d))
            return false;
    }
    return true;
}

/* The report of a checked build: four zeroed ints. */
static bool make_report(facc_kernel *k, struct driver *drv, int device,
                        struct diag *d)
{
    cu_ptr p = 0, none = 0;
    if (!k->plans.plan[0].config.check_bounds ||
        atomic_load(&k->report[device]))
        return true;
    if (!driver_push(drv, device, d))
        return false;
    bool ok =
        driver_ok(drv, drv->MemAlloc(&p, 4 * sizeof(int)), "load", "cuMemAlloc",
                  d) &&
        driver_ok(drv, drv->MemsetD8(p, 0, 4 * sizeof(int)), "load",
                  "cuMemsetD8", d) &&
        /* it may still be under way, and launches' streams not wait */
        driver_ok(drv, drv->CtxSynchronize(), "load", "cuCtxSynchronize", d);
    if (p &&
        (!ok || !atomic_compare_exchange_strong(&k->report[device], &none, p)))
        drv->MemFree(p); /* or another thread was faster */
    driver_pop(drv);
    return ok;
}

facc_status facc_kernel_load(facc_kernel *k, int32_t device, facc_error *err)
{
    struct diag d;
    diag_init(&d);
    if (!k) {
        diag_set(&d, FACC_ERR_ARGUMENT, "load", NULL, 0, "kernel is NULL");
        return error_report(err, &d, NULL, NULL);
    }
    struct driver *drv = ctx_driver(k->ctx, &d);
    if (drv && runs_on(k, drv, device, &d) && load_all(k, drv, device, &d) &&
        make_report(k, drv, device, &d))
        return FACC_OK;
    return error_report(err, &d, NULL, NULL);
}

/* facc_quantizer: the kernels of templates/common/quantize.cu. In: a variant,
 * then tensors on a device. Out: machine code like a kernel's, in the same
 * cache, and launches that round a tensor to FP8. */
#include "runtime/quantize.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/kernel.h"
#include "runtime/manifest.h"
#include "templates/common/quantize_args.h"

static const char stage_name[] = "quantize";

enum { WAVE = 512 }; /* CTAs of a launch before they have several slabs each */

struct facc_quantizer {
    facc_ctx *ctx;
    struct plan plan;
    struct module *module; /* the context's */
};

/* ---- making -------------------------------------------------------------- */

static bool configure(facc_ctx *ctx, const facc_quantize_variant *v,
                      struct plan *plan, struct diag *d)
{
    const enum dtype from = (enum dtype)v->from, to = (enum dtype)v->to;
    memset(plan, 0, sizeof *plan);
    if (!kernel_arch(ctx, v->arch, v->device, &plan->arch, d))
        return false;
    if (plan->arch < 89)
        return diag_set(d, FACC_ERR_UNSUPPORTED, stage_name, NULL, 0,
                        "sm_%d has no FP8: the kernels that round to it run "
                        "from sm_89 on; facc_quantize runs on the CPU",
                        plan->arch);
    if ((from != DTYPE_F32 && from != DTYPE_F16 && from != DTYPE_BF16) ||
        !dtype_is_fp8(to))
        return diag_set(d, FACC_ERR_UNSUPPORTED, stage_name, NULL, 0,
                        "from %s to %s: kernels round f32, f16 and bf16 to "
                        "e4m3 and e5m2",
                        dtype_name(from), dtype_name(to));
    const int unit = v->image ? 16 : 8;
    if (v->head_dim < unit || v->head_dim > 256 || v->head_dim % unit != 0 ||
        (v->hadamard &&
         (v->head_dim < 32 || (v->head_dim & (v->head_dim - 1)) != 0)))
        return diag_set(d, FACC_ERR_UNSUPPORTED, stage_name, NULL, 0,
                        "head_dim is %d: kernels take multiples of %d up to "
                        "256, hadamard 32, 64, 128 and 256",
                        v->head_dim, unit);
    if (v->hadamard && v->mean)
        return diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
                        "mean and hadamard exclude each other");
    plan->config = (struct unit_config){
        .family = "quantize",
        .dtype = from,
        .out_dtype = to,
        .head_dim = v->head_dim,
        .rounding = (v->hadamard ? (unsigned)ROUND_HADAMARD : 0) |
                    (v->mean ? (unsigned)ROUND_MEAN : 0) |
                    (v->image ? (unsigned)ROUND_IMAGE : 0)};
    return true;
}

/* Units belong to programs: one of no mods is there for the call. */
static facc_quantizer *make(facc_ctx *ctx, const struct plan *plan,
                            struct module_origin *origin, facc_error *err,
                            struct diag *d)
{
    facc_program *p = NULL;
    facc_quantizer *q = calloc(1, sizeof *q);
    if (!q) {
        diag_nomem(d, stage_name);
        return NULL;
    }
    const facc_status s =
        facc_program_load_expressions(&p, ctx, NULL, NULL, NULL, 0, err);
    if (s != FACC_OK)
        diag_set(d, (enum diag_status)s, stage_name, NULL, 0,
                 "no program could be made");
    q->ctx = ctx;
    q->plan = *plan;
    q->module = p ? module_get(ctx, p, plan, origin, d) : NULL;
    facc_program_free(p);
    if (q->module)
        return q;
    free(q);
    return NULL;
}

facc_status facc_quantizer_get(facc_quantizer **out, facc_ctx *ctx,
                               const facc_quantize_variant *variant,
                               facc_error *err)
{
    struct diag d;
    struct plan plan;
    struct module_origin origin = {0};
    facc_quantize_variant v;
    facc_status status = FACC_OK;
    diag_init(&d);
    if (!out || !ctx)
        return error_null(err, out ? "ctx" : "out");
    *out = NULL;
    if (versioned_read(&v, sizeof v, variant, "facc_quantize_variant", &d) &&
        configure(ctx, &v, &plan, &d)) {
        manifest_record_quantizer(ctx, v, plan.arch);
        *out = make(ctx, &plan, &origin, err, &d);
    }
    if (!*out)
        status = error_report(err, &d, NULL, origin.log);
    else if (ctx->on_compile) {
        const facc_compile_event e = {(*out)->module->key, origin.source,
                                      origin.seconds};
        ctx->on_compile(ctx->user, &e);
    }
    free(origin.log);
    return status;
}

void facc_quantizer_free(facc_quantizer *q)
{
    free(q);
}

facc_status facc_quantizer_load(facc_quantizer *q, int32_t device,
                                facc_error *err)
{
    struct diag d;
    int have;
    diag_init(&d);
    if (!q)
        return error_null(err, "quantizer");
    struct driver *drv = ctx_driver(q->ctx, &d);
    if (drv && driver_arch(drv, device, &have, &d)) {
        if (have / 10 != q->plan.arch / 10 || have < q->plan.arch)
            diag_set(&d, FACC_ERR_ARGUMENT, "load", NULL, 0,
                     "the quantizer is for sm_%d, device %d is sm_%d",
                     q->plan.arch, device, have);
        else if (module_load(q->module, drv, device, 0, &d))
            return FACC_OK;
    }
    return error_report(err, &d, NULL, NULL);
}

/* ---- a launch ------------------------------------------------------------ */

struct rounding {
    struct facc_rounding args;
    int grid[N_ENTRIES]; /* CTAs; 0: not launched */
    size_t bytes;        /* of the workspace */
};

static bool as_made(const struct unit_config *c, const facc_quantize_args *a,
                    struct diag *d)
{
    const unsigned asked = (a->hadamard ? (unsigned)ROUND_HADAMARD : 0) |
                           (a->mean.data ? (unsigned)ROUND_MEAN : 0) |
                           (a->image.data ? (unsigned)ROUND_IMAGE : 0);
    if ((enum dtype)a->in.dtype == c->dtype &&
        (enum dtype)a->out.dtype == c->out_dtype && asked == c->rounding &&
        a->in.shape[3] == c->head_dim)
        return true;
    return diag_set(
        d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
        "the quantizer is for %s to %s, D %d, hadamard %d, mean "
        "%d, image %d; the args ask for %s to %s, D %lld, %d, %d, "
        "%d",
        dtype_name(c->dtype), dtype_name(c->out_dtype), c->head_dim,
        (c->rounding & ROUND_HADAMARD) != 0, (c->rounding & ROUND_MEAN) != 0,
        (c->rounding & ROUND_IMAGE) != 0, facc_dtype_name(a->in.dtype),
        facc_dtype_name(a->out.dtype), (long long)a->in.shape[3],
        a->hadamard != 0, a->mean.data != NULL, a->image.data != NULL);
}

static struct facc_divisor divisor(int d)
{
    struct facc_divisor by = {0, 0};
    while ((int64_t)1 << by.shift < d)
        by.shift++;
    const uint64_t more = ((uint64_t)1 << by.shift) - (uint64_t)d;
    by.mul = (unsigned)((more << 32) / (uint64_t)d + 1);
    return by;
}

/* Rows of a slab, as quantize_args.h counts them; how many slabs of a head. */
static int64_t cut(const struct quantize_sizes *z, int block,
                   struct facc_rounding *r)
{
    const int most = facc_slab_rows(z->D);
    r->block = block;
    r->fused = block > 0 && block <= most;
    r->slab = r->fused ? most / block * block : most;
    r->unit = block > most ? block : r->slab;
    r->parts = block > most ? (block + most - 1) / most : 1;
    r->units = (int)(((int64_t)z->S + r->unit - 1) / r->unit);
    const int64_t units =
        z->packed ? z->T / r->unit + (int64_t)z->B : z->B * (int64_t)r->units;
    return units * r->parts;
}

/* With hadamard a CTA loads its next slab while it rounds one: it has several,
 * but all multiprocessors have CTAs. */
static int ctas_of(int all, bool hadamard)
{
    const int each =
        all / WAVE < FACC_MOST_SLABS ? all / WAVE : FACC_MOST_SLABS;
    return hadamard && each > 1 ? (all + each - 1) / each : all;
}

/* What a launch's CTAs are found by. */
static void number_slabs(int slabs, bool hadamard, struct facc_rounding *r)
{
    r->slabs = slabs;
    r->all = r->H * slabs;
    r->ctas = ctas_of(r->all, hadamard);
    r->by_unit = divisor(r->unit);
    r->by_parts = divisor(r->parts);
    r->by_units = divisor(r->units > 0 ? r->units : 1);
    r->by_slabs = divisor(slabs > 0 ? slabs : 1);
}

static void take_tensors(const facc_quantize_args *a,
                         const struct quantize_sizes *z,
                         struct facc_rounding *r)
{
    r->in = a->in.data;
    r->out = a->out.data;
    r->image = a->image.data;
    r->scale = a->scale.data;
    r->mean = a->mean.data;
    for (int i = 0; i < 3; i++) {
        r->in_stride[i] = a->in.stride[i];
        r->out_stride[i] = a->out.stride[i];
        r->scale_stride[i] = i < a->scale.rank ? a->scale.stride[i] : 0;
    }
    for (int i = 0; i < 2; i++) {
        r->image_stride[i] = a->image.stride[i];
        r->mean_stride[i] = a->mean.stride[i];
    }
    r->cu_seqlens = a->cu_seqlens;
    _Static_assert(sizeof r->signs == 4 * sizeof(uint64_t), "words");
    uint64_t signs[4];
    quantize_signs(a->seed, signs);
    memcpy(r->signs, signs, sizeof signs);
    r->B = z->B;
    r->H = z->H;
    r->S = z->S;
    r->per_tensor = z->per_tensor;
    r->power_of_two = a->power_of_two != 0;
    r->norm = (float)(1 / sqrt((double)z->D));
}

static bool rounding_make(const facc_quantize_args *a,
                          const struct quantize_sizes *z, struct rounding *out,
                          struct diag *d)
{
    struct facc_rounding *r = &out->args;
    memset(out, 0, sizeof *out);
    take_tensors(a, z, r);
    const int64_t slabs = cut(z, a->scale.rank == 3 ? a->block : 0, r);
    const int64_t all = slabs * z->H, heads = (int64_t)z->B * z->H;
    const int64_t scales = z->per_tensor ? 1 : heads * z->blocks;
    if (all > INT_MAX / 2 || scales > INT_MAX)
        return diag_set(d, FACC_ERR_UNSUPPORTED, stage_name, NULL, 0,
                        "B %d, H %d, S %d are too large for one launch", z->B,
                        z->H, z->T);
    number_slabs((int)slabs, a->hadamard != 0, r);
    const bool mean = a->mean.data != NULL;
    const size_t amax =
        ((size_t)(all > heads ? all : heads) * sizeof(float) + 255) / 256 * 256;
    r->amax = a->workspace;
    r->sums = (float *)(void *)((char *)a->workspace + amax);
    out->bytes = amax + (mean ? (size_t)(3 * all * z->D) * sizeof(float) : 0);
    if (mean) {
        out->grid[ENTRY_ROUND_SUMS] = (int)all;
        out->grid[ENTRY_ROUND_MEAN] = (int)heads;
    }
    if (!r->fused) {
        if (!mean || r->block)
            out->grid[ENTRY_ROUND_AMAX] = r->ctas;
        if (!mean || r->block || z->per_tensor)
            out->grid[ENTRY_ROUND_SCALE] = (int)scales;
    }
    out->grid[ENTRY_ROUND] = r->ctas;
    return true;
}

static bool planned(const facc_quantizer *q, const facc_quantize_args *args,
                    bool sizes_only, facc_quantize_args *a, struct rounding *r,
                    struct diag *d)
{
    struct quantize_sizes z;
    return versioned_read(a, sizeof *a, args, "facc_quantize_args", d) &&
           quantize_check(a, true, sizes_only, stage_name, &z, d) &&
           as_made(&q->plan.config, a, d) && rounding_make(a, &z, r, d);
}

facc_status facc_quantizer_workspace_size(const facc_quantizer *q,
                                          const facc_quantize_args *args,
                                          size_t *bytes, size_t *align,
                                          facc_error *err)
{
    struct diag d;
    struct rounding r;
    facc_quantize_args a;
    diag_init(&d);
    if (!q || !bytes || !align)
        return error_null(err, q ? "bytes or align" : "quantizer");
    if (!planned(q, args, true, &a, &r, &d))
        return error_report(err, &d, NULL, NULL);
    *bytes = r.bytes;
    *align = SCHEDULE_ALIGN;
    return FACC_OK;
}

static bool ready(const facc_quantizer *q, const facc_quantize_args *a,
                  const struct rounding *r, struct diag *d)
{
    if (!ctx_not_forked(q->ctx, d))
        return false;
    if (a->device < 0 || a->device >= DRIVER_MAX_DEVICES ||
        !module_is_loaded(q->module, a->device))
        return diag_set(d, FACC_ERR_NOT_PREPARED, stage_name, NULL, 0,
                        "the quantizer is not loaded on device %d: call "
                        "facc_quantizer_load first",
                        a->device);
    if (a->workspace && a->workspace_size >= r->bytes &&
        (uintptr_t)a->workspace % SCHEDULE_ALIGN == 0)
        return true;
    return r->bytes == 0 ||
           diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
                    "workspace has %zu bytes at %p, %zu aligned to %d are "
                    "needed (facc_quantizer_workspace_size)",
                    a->workspace ? a->workspace_size : 0, a->workspace,
                    r->bytes, SCHEDULE_ALIGN);
}

static bool enqueue(const facc_quantizer *q, int device, struct rounding *r,
                    cu_stream stream, struct diag *d)
{
    struct driver *drv = q->module->driver;
    const struct unit_config *c = &q->plan.config;
    const bool twice =
        c->dtype == DTYPE_F32 || (c->rounding & ROUND_HADAMARD) != 0;
    void *params[1] = {&r->args};
    for (int e = ENTRY_ROUND_SUMS; e <= ENTRY_ROUND; e++) {
        const bool reduces = e == ENTRY_ROUND_MEAN || e == ENTRY_ROUND_SCALE;
        const unsigned threads =
            reduces ? (unsigned)FACC_REDUCE_THREADS
                    : (unsigned)facc_round_threads(c->head_dim, twice);
        if (r->grid[e] > 0 &&
            !driver_ok(
                drv,
                drv->LaunchKernel(atomic_load(&q->module->function[device][e]),
                                  (unsigned)r->grid[e], 1, 1, threads, 1, 1, 0,
                                  stream, params, NULL),
                stage_name, "cuLaunchKernel", d))
            return false;
    }
    return true;
}

facc_status facc_quantizer_launch(facc_quantizer *q,
                                  const facc_quantize_args *args, void *stream,
                                  facc_error *err)
{
    struct diag d;
    struct rounding r;
    facc_quantize_args a;
    diag_init(&d);
    if (!q)
        return error_null(err, "quantizer");
    if (planned(q, args, false, &a, &r, &d) && ready(q, &a, &r, &d)) {
        struct driver *drv = q->module->driver;
        const cu_context mine = atomic_load(&drv->context[a.device]);
        cu_context current = NULL;
        const bool switched =
            drv->CtxGetCurrent(&current) != 0 || current != mine;
        if (!switched || driver_ok(drv, drv->CtxPushCurrent(mine), stage_name,
                                   "cuCtxPushCurrent", &d)) {
            const bool ok = enqueue(q, a.device, &r, stream, &d);
            if (switched)
                driver_pop(drv);
            if (ok)
                return FACC_OK;
        }
    }
    return error_report(err, &d, NULL, NULL);
}

/* facc_kernel_launch: checks the arguments, lays them out as the templates'
 * kernel_args.h says, and enqueues. On the caller's hot path: no lock, no
 * allocation, no load, no synchronisation. facc_kernel_bounds_report reads
 * what a checked debug build found. */
#include "runtime/kernel.h"

#include <math.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/tensor_map.h"
#include "runtime/transpose.h"
#include "templates/common/kernel_args.h"

static const char stage_name[] = "launch";

void launch_rules(const struct unit_config *config, const char *stage,
                  struct args_rules *out)
{
    *out = (struct args_rules){
        .stage = stage,
        .gpu = true,
        .block_mask = config->block_mask,
        .packed = config->packed,
        .sinks = config->sinks,
        .block_scales = config->block_scales,
        .transposes_v = config->transposes_v,
        .dropout = config->dropout,
        .dtype = (facc_dtype)config->dtype,
        .out_dtype = (facc_dtype)config->out_dtype,
        .head_dim = config->head_dim,
        .head_dim_v = config->head_dim_v,
    };
}

/* Whether TMA takes all that family sm90 reads by it. */
static bool sm90_possible(const struct plans *plans, const struct signature *s,
                          const facc_args *args, const char *stage,
                          struct diag *d)
{
    return tensor_map_possible(args, &plans->plan[0].config, stage, d) &&
           dot_map_possible(&plans->dot, s, args, stage, d);
}

int launch_choice(const struct plans *plans, const struct signature *s,
                  const facc_args *args, const char *stage, struct diag *d)
{
    if (!select_is_sm90(&plans->plan[0].config))
        return 0;
    if (plans->n == 1)
        return sm90_possible(plans, s, args, stage, d) ? 0 : -1;
    return sm90_possible(plans, s, args, stage, NULL) ? 0 : 1;
}

/* ---- packing ------------------------------------------------------------ */

union packed {
    struct facc_kernel_header header;
    unsigned char bytes[KERNEL_MAX_ARGS];
};

static void strides3(long long out[3], const facc_tensor *t)
{
    for (int i = 0; i < 3; i++)
        out[i] = t->stride[i];
}

/* Packed sequences: b says which rows, not where the tensor goes on. */
static void pack_sequences(struct facc_kernel_header *h, const facc_args *a)
{
    h->cu_seqlens_q = a->cu_seqlens_q;
    h->cu_seqlens_kv = a->cu_seqlens_kv;
    h->q_stride[0] = h->k_stride[0] = h->v_stride[0] = 0;
    h->o_stride[0] = h->lse_stride[0] = 0;
}

static void pack_block_mask(struct facc_kernel_header *h,
                            const facc_block_mask *m)
{
    h->block_counts = m->kv_num_blocks;
    h->block_indices = m->kv_indices;
    h->full_counts = m->full_kv_num_blocks;
    h->full_indices = m->full_kv_indices;
    h->block_size_q = m->block_q;
    h->block_size_kv = m->block_kv;
    h->block_rows = m->rows;
    h->block_cols = m->cols;
    h->block_per_b = m->per_b != 0;
    h->block_per_h = m->per_h != 0;
}

static void pack_dropout(struct facc_kernel_header *h, const facc_args *a)
{
    const struct args_dropout x = args_dropout(a);
    h->dropout_key[0] = x.key[0];
    h->dropout_key[1] = x.key[1];
    h->dropout_offset = x.offset;
    h->dropout_drops = x.drops;
    h->dropout_scale = (float)x.scale;
}

static void pack_header(struct facc_kernel_header *h, const facc_args *a,
                        const struct args_sizes *z)
{
    const double log2e = 1.4426950408889634074;
    double scale = args_scale(a, z);
    h->q = a->q.data;
    h->k = a->k.data;
    h->v = a->v.data;
    h->o = a->o.data;
    h->lse = a->lse.data;
    strides3(h->q_stride, &a->q);
    strides3(h->k_stride, &a->k);
    strides3(h->v_stride, &a->v);
    strides3(h->o_stride, &a->o);
    if (h->lse)
        strides3(h->lse_stride, &a->lse);
    h->B = z->B;
    h->H = z->H;
    h->Hkv = z->Hkv;
    h->Sq = z->Sq;
    h->Skv = z->Skv;
    h->D = z->D;
    h->Dv = z->Dv;
    h->group = z->Hkv > 0 ? z->H / z->Hkv : 1;
    h->scale = (float)scale;
    h->scale_log2 = (float)(scale * log2e);
    h->seqused_q = a->seqused_q;
    h->seqused_kv = a->seqused_kv;
    h->workspace = a->workspace;
    if (z->packed)
        pack_sequences(h, a);
    if (a->block_mask)
        pack_block_mask(h, &z->block_mask);
    if (a->sinks) {
        h->sinks = a->sinks->data;
        h->sinks_stride = a->sinks->stride[0];
    }
    pack_dropout(h, a);
}

/* A captured tensor without elements has no data either: loads, whose indices
 * are clamped, see that and give 0. */
static void pack_captured(struct facc_captured *c, const facc_tensor *t)
{
    memset(c, 0, sizeof *c);
    c->data = t->data;
    for (int i = 0; i < t->rank; i++) {
        c->shape[i] = (int)t->shape[i];
        c->stride[i] = t->stride[i];
        if (t->shape[i] == 0)
            c->data = NULL;
    }
}

/* Returns where they end. */
static unsigned char *pack_lists(unsigned char *to, const struct signature *s,
                                 const facc_args *a)
{
    for (int i = 0; i < s->n_tensors; i++) {
        struct facc_captured c;
        pack_captured(&c, &a->tensors[i]);
        memcpy(to, &c, sizeof c);
        to += sizeof c;
    }
    for (int i = 0; i < s->n_params; i++) {
        union facc_scalar v = {.i = 0};
        if (s->params[i].dtype == FACC_F32)
            v.f = (float)a->params[i].f;
        else
            v.i = a->params[i].i;
        memcpy(to, &v, sizeof v);
        to += sizeof v;
    }
    return to;
}

/* ---- FP8 ---------------------------------------------------------------- */

/* Sums of P V are kept with 13 fraction bits: where V's channels have means
 * they move on to f32 every so many tiles, unless the sums are short. V of mean
 * and deviation 1, 8,192 keys: 7.1e-3 off with 8 tiles, measured; 3.4e-3 with 4
 * in the prototype, 2.3e-3 with 2, at a fifth of the time. */
enum { PROMOTE_TILES = 4, PROMOTE_FROM = 4096 };

static const float *pack_descale(long long stride[3], const facc_tensor *t)
{
    for (int i = 0; i < 3; i++)
        stride[i] = t && i < t->rank ? t->stride[i] : 0;
    return t ? t->data : NULL;
}

static void pack_fp8(unsigned char *to, const facc_args *a,
                     const struct args_sizes *z, bool promotes)
{
    struct facc_fp8 f;
    const facc_tensor *q = a->descale_q;
    memset(&f, 0, sizeof f);
    f.descale_q = pack_descale(f.descale_q_stride, q);
    f.descale_k = pack_descale(f.descale_k_stride, a->descale_k);
    f.descale_v = pack_descale(f.descale_v_stride, a->descale_v);
    f.descale_q_group =
        (q && q->rank >= 2 && q->shape[1] == z->H) || z->Hkv == 0
            ? 1
            : z->H / z->Hkv;
    f.descale_block_q = a->descale_block_q ? a->descale_block_q : FACC_V_CHUNK;
    f.descale_block_kv =
        a->descale_block_kv ? a->descale_block_kv : FACC_V_CHUNK;
    f.promote_tiles =
        !promotes || a->v_mean || z->Skv < PROMOTE_FROM ? 0 : PROMOTE_TILES;
    if (a->v_mean) {
        f.v_mean = a->v_mean->data;
        f.v_mean_stride[0] = a->v_mean->stride[0];
        f.v_mean_stride[1] = a->v_mean->stride[1];
    }
    memcpy(to, &f, sizeof f);
}

/* V is the image. */
static void pack_image(struct facc_kernel_header *h, const struct transpose *t)
{
    h->v = t->image;
    h->v_stride[0] = t->stride[0];
    h->v_stride[1] = t->stride[1];
    h->v_stride[2] = 0;
}

/* ---- launching ---------------------------------------------------------- */

struct ready { /* a launch that passed all checks */
    struct driver *drv;
    cu_context context;
    cu_ptr report;
    const struct plan *plan;               /* the code that it takes */
    const struct module *forward, *makers; /* makers: of the schedule */
    const struct module *transposer;       /* FP8: of V, else NULL */
    struct args_sizes sizes;
    struct schedule schedule;
    struct transpose transpose;
    size_t workspace; /* bytes */
};

static bool prepared(const facc_kernel *k, int device, struct ready *r,
                     struct diag *d)
{
    if (!ctx_not_forked(k->ctx, d))
        return false;
    if (device < 0 || device >= DRIVER_MAX_DEVICES)
        return diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
                        "device %d does not exist", device);
    r->report = atomic_load(&k->report[device]);
    bool loaded = !k->plans.plan[0].config.check_bounds || r->report;
    for (int i = 0; i < plans_count(&k->plans); i++)
        loaded = loaded && module_is_loaded(k->module[i], device);
    if (!loaded)
        return diag_set(d, FACC_ERR_NOT_PREPARED, stage_name, NULL, 0,
                        "the kernel is not loaded on device %d: call "
                        "facc_kernel_load before launching, and before a "
                        "capture begins",
                        device);
    r->drv = k->module[0]->driver;
    r->context = atomic_load(&r->drv->context[device]);
    return true;
}

/* The code and its schedule. */
static bool planned(const facc_kernel *k, const facc_args *a, struct ready *r,
                    struct diag *d)
{
    const int i = launch_choice(&k->plans, &k->signature, a, stage_name, d);
    if (i < 0)
        return false;
    r->plan = &k->plans.plan[i];
    r->forward = k->module[i];
    r->makers = k->module[k->plans.n];
    r->transposer = NULL;
    if (!schedule_make(&r->plan->config, &r->plan->facts, a, &r->sizes,
                       stage_name, &r->schedule, d))
        return false;
    r->workspace = r->schedule.bytes;
    if (!k->plans.transposed)
        return true;
    r->transposer = k->module[k->plans.n + k->plans.scheduled];
    if (!transpose_make(a, &r->sizes, r->schedule.bytes, stage_name,
                        &r->transpose, d))
        return false;
    r->workspace += r->transpose.bytes;
    return true;
}

/* CTAs of facc_forward: sm90's stay, one to a multiprocessor, and take one
 * piece of work after the other. */
static int forward_grid(const struct ready *r, int device)
{
    const int work = r->schedule.grid[ENTRY_FORWARD];
    if (!select_is_sm90(&r->plan->config))
        return work;
    const int most = atomic_load(&r->drv->multiprocessors[device]);
    return work < most ? work : most;
}

/* Family sm90's kernels, those of its schedules too, wait by themselves for
 * what comes before them (common/overlap.cuh). Drivers before CUDA 12.3 do not
 * take that in a capture. */
static bool may_overlap(const struct ready *r)
{
    return select_is_sm90(&r->plan->config) && r->drv->LaunchKernelEx &&
           r->drv->version >= 12030;
}

static cu_result launch_overlapping(const struct driver *drv, cu_function f,
                                    const struct cu_launch *plain,
                                    void **params)
{
    struct cu_launch_attribute overlap = {.id = CU_LAUNCH_OVERLAP,
                                          .value.allowed = 1};
    struct cu_launch l = *plain;
    l.attributes = &overlap;
    l.n = 1;
    return drv->LaunchKernelEx(&l, f, params, NULL);
}

/* One kernel; all of a launch take the same arguments. */
static bool enqueue(const struct ready *r, int device, enum entry e,
                    union packed *args, cu_stream stream, struct diag *d)
{
    const struct module *m = e == ENTRY_FORWARD ? r->forward : r->makers;
    int grid = r->schedule.grid[e];
    void *params[1] = {args};
    unsigned threads = FACC_PREPARE_THREADS, shared = 0;
    if (e == ENTRY_FORWARD) {
        threads = 32u * (unsigned)r->plan->config.warps;
        shared = (unsigned)r->plan->config.shared_bytes;
        grid = forward_grid(r, device);
    } else if (e == ENTRY_ORDER) {
        threads = FACC_ORDER_THREADS;
    } else if (e == ENTRY_SUMMARIZE) {
        threads = FACC_SUMMARIZE_THREADS;
    }
    const cu_function f = atomic_load(&m->function[device][e]);
    if (may_overlap(r)) {
        const struct cu_launch l = {.grid = {(unsigned)grid, 1, 1},
                                    .block = {threads, 1, 1},
                                    .shared = shared,
                                    .stream = stream};
        return driver_ok(r->drv, launch_overlapping(r->drv, f, &l, params),
                         stage_name, "cuLaunchKernelEx", d);
    }
    return driver_ok(r->drv,
                     r->drv->LaunchKernel(f, (unsigned)grid, 1, 1, threads, 1,
                                          1, shared, stream, params, NULL),
                     stage_name, "cuLaunchKernel", d);
}

static bool enqueue_transpose(const struct ready *r, int device,
                              cu_stream stream, struct diag *d)
{
    void *params[1] = {(void *)(uintptr_t)&r->transpose.args};
    return driver_ok(
        r->drv,
        r->drv->LaunchKernel(
            atomic_load(&r->transposer->function[device][ENTRY_TRANSPOSE]),
            (unsigned)r->transpose.grid, 1, 1, FACC_TRANSPOSE_THREADS, 1, 1, 0,
            stream, params, NULL),
        stage_name, "cuLaunchKernel", d);
}

static bool enqueue_all(const struct ready *r, const facc_args *a,
                        union packed *args, cu_stream stream, struct diag *d)
{
    bool ok = !r->transposer || r->transpose.grid == 0 ||
              enqueue_transpose(r, a->device, stream, d);
    if (r->schedule.needed && !a->schedule_ready)
        for (int e = 0; ok && e < ENTRY_FORWARD; e++)
            if (r->schedule.grid[e] > 0)
                ok = enqueue(r, a->device, (enum entry)e, args, stream, d);
    return ok && enqueue(r, a->device, ENTRY_FORWARD, args, stream, d);
}

/* Tiles are copied where TMA can; elsewhere elements are loaded one by one. */
static bool pack_plane(const facc_kernel *k, union packed *args,
                       const facc_args *a, const struct ready *r,
                       unsigned char *map, struct diag *d)
{
    const struct plane_tensor *p = &k->plans.plane;
    const struct unit_config *c = &r->plan->config;
    const int copied = plane_map_possible(p, a);
    memcpy(args->bytes + sizeof args->header +
               (size_t)p->rows.tensor * sizeof(struct facc_captured) +
               offsetof(struct facc_captured, copied),
           &copied, sizeof copied);
    return !copied || plane_map_encode(r->drv, p, c->tile_m, c->tile_n, a,
                                       &r->sizes, map, stage_name, d);
}

/* What family sm90 asks besides. The context is current: encoding a tensor map
 * needs one. */
static bool pack_sm90(const facc_kernel *k, union packed *args,
                      const facc_args *a, const struct ready *r, struct diag *d)
{
    struct facc_kernel_header *h = &args->header;
    const struct unit_config *c = &r->plan->config;
    unsigned char(*maps)[128] =
        (unsigned char(*)[128])(args->bytes + k->args_size);
    h->next_item = r->schedule.next_item;
    h->section_heads = r->schedule.section_heads;
    h->last_section = r->schedule.last_section;
    return tensor_map_encode(r->drv, c, a, h->tensor_map, stage_name, d) &&
           (!c->dot || dot_map_encode(r->drv, &k->plans.dot, c->tile_n, a,
                                      &r->sizes, maps, stage_name, d)) &&
           (!c->plane_bytes ||
            pack_plane(k, args, a, r, maps[c->dot ? 2 : 0], d));
}

/* The product of extra columns is multiplied by its factor over the scale, and
 * all by the scale: one of 0 is a power of 2 that loses all of Q K^T, nothing
 * of the rest. */
static void settle_scale(struct facc_kernel_header *h)
{
    const float least = 0x1p-80f;
    if (!(fabsf(h->scale) < least))
        return;
    h->scale = copysignf(least, h->scale);
    h->scale_log2 = h->scale * 1.44269504f;
}

static bool launch(const facc_kernel *k, const struct ready *r,
                   const facc_args *a, cu_stream stream, struct diag *d)
{
    _Alignas(KERNEL_ARGS_ALIGN) union packed args;
    struct driver *drv = r->drv;
    cu_context current = NULL;
    memset(&args, 0, k->args_size);
    pack_header(&args.header, a, &r->sizes);
    if (r->plan->config.dot)
        settle_scale(&args.header);
    args.header.q_tiles = r->schedule.q_tiles;
    args.header.num_work = r->schedule.grid[ENTRY_FORWARD];
    args.header.bounds_report = (int *)(uintptr_t)r->report;
    args.header.schedule = r->schedule.at;
    args.header.tiling = r->schedule.tiling;
    unsigned char *end =
        pack_lists(args.bytes + sizeof args.header, &k->signature, a);
    if (r->transposer)
        pack_image(&args.header, &r->transpose);
    if (dtype_is_fp8(r->plan->config.dtype))
        pack_fp8(end, a, &r->sizes, r->plan->config.promotes);

    bool switched = drv->CtxGetCurrent(&current) != 0 || current != r->context;
    if (switched && !driver_ok(drv, drv->CtxPushCurrent(r->context), stage_name,
                               "cuCtxPushCurrent", d))
        return false;
    bool ok =
        (!select_is_sm90(&r->plan->config) || pack_sm90(k, &args, a, r, d)) &&
        enqueue_all(r, a, &args, stream, d);
    if (switched)
        driver_pop(drv);
    return ok;
}

static bool workspace_fits(const facc_args *a, size_t bytes, struct diag *d)
{
    if (bytes == 0 || (a->workspace && a->workspace_size >= bytes &&
                       (uintptr_t)a->workspace % SCHEDULE_ALIGN == 0))
        return true;
    return diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
                    "workspace has %zu bytes at %p, %zu aligned to %d are "
                    "needed (facc_workspace_size)",
                    a->workspace ? a->workspace_size : 0, a->workspace, bytes,
                    SCHEDULE_ALIGN);
}

facc_status facc_kernel_launch(facc_kernel *k, const facc_args *args,
                               void *stream, facc_error *err)
{
    struct diag d;
    struct ready r;
    struct args_rules rules;
    facc_args a;
    diag_init(&d);
    if (!k) {
        diag_set(&d, FACC_ERR_ARGUMENT, stage_name, NULL, 0, "kernel is NULL");
        return error_report(err, &d, NULL, NULL);
    }
    launch_rules(&k->plans.plan[0].config, stage_name, &rules);
    if (versioned_read(&a, sizeof a, args, "facc_args", &d) &&
        prepared(k, a.device, &r, &d) &&
        args_check(&a, &rules, &k->signature, &r.sizes, &d) &&
        planned(k, &a, &r, &d) && workspace_fits(&a, r.workspace, &d) &&
        (r.schedule.grid[ENTRY_FORWARD] == 0 ||
         launch(k, &r, &a, stream, &d))) {
        const int i = (int)(r.plan - k->plans.plan);
        atomic_store_explicit(&k->launched, i + 1, memory_order_relaxed);
        return FACC_OK;
    }
    return error_report(err, &d, NULL, NULL);
}

/* ---- checked debug builds ------------------------------------------------ */

static bool read_report(facc_kernel *k, struct driver *drv, int device,
                        int report[4], struct diag *d)
{
    cu_ptr at = atomic_load(&k->report[device]);
    if (!at)
        return diag_set(d, FACC_ERR_NOT_PREPARED, stage_name, NULL, 0,
                        "the kernel is not loaded on device %d, or its "
                        "variant has no check_bounds",
                        device);
    if (!driver_push(drv, device, d))
        return false;
    bool ok = driver_ok(drv, drv->CtxSynchronize(), stage_name,
                        "cuCtxSynchronize", d) &&
              driver_ok(drv, drv->MemcpyDtoH(report, at, 4 * sizeof(int)),
                        stage_name, "cuMemcpyDtoH", d) &&
              driver_ok(drv, drv->MemsetD8(at, 0, 4 * sizeof(int)), stage_name,
                        "cuMemsetD8", d) &&
              driver_ok(drv, drv->CtxSynchronize(), stage_name,
                        "cuCtxSynchronize", d); /* of that, too */
    driver_pop(drv);
    return ok;
}

facc_status facc_kernel_bounds_report(facc_kernel *k, int32_t device,
                                      facc_error *err)
{
    struct diag d;
    int report[4] = {0, 0, 0, 0}; /* tensor + 1, line, index, extent */
    diag_init(&d);
    struct driver *drv = k ? ctx_driver(k->ctx, &d) : NULL;
    if (!k)
        diag_set(&d, FACC_ERR_ARGUMENT, stage_name, NULL, 0, "kernel is NULL");
    if (!drv || !driver_device_exists(drv, device, &d) ||
        !read_report(k, drv, device, report, &d))
        return error_report(err, &d, NULL, NULL);
    if (report[0] == 0)
        return FACC_OK;
    const struct signature *s = &k->signature;
    bool known = report[0] >= 1 && report[0] <= s->n_tensors;
    diag_set(&d, FACC_ERR_BOUNDS, stage_name, s->file, report[1],
             "index %d is outside captured tensor \"%s\", which has %d there",
             report[2], known ? s->tensors[report[0] - 1].name : "?",
             report[3]);
    return error_report(err, &d, NULL, NULL);
}

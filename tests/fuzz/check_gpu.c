/* Kernels: that both families compile, and what they give on a GPU (check.h).
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/check.h"

/* --- compiling ---------------------------------------------------- */

static facc_variant variant_of(const struct fuzz_case *c, int family)
{
    facc_variant v = FACC_VARIANT_INIT;
    v.dtype = c->args.q.dtype;
    v.head_dim = c->D;
    v.head_dim_v = c->Dv;
    v.packed = c->lengths == PACKED;
    v.family = family;
    if (family == FACC_FAMILY_SM90)
        v.layout = FACC_LAYOUT_ALIGNED;
    return v;
}

static facc_kernel *compile(facc_ctx *ctx, facc_program *p,
                            const facc_variant *v, enum stage stage,
                            struct outcome *o)
{
    facc_error err = FACC_ERROR_INIT;
    facc_kernel *k = NULL;
    if (facc_kernel_get(&k, ctx, p, v, &err) == FACC_OK) {
        o->tally.kernels++;
        return k;
    }
    err.log[400] = '\0';
    check_fail(o, stage, "sm_%d, family %d: %s\n%s", (int)v->arch,
               (int)v->family, err.message, err.log);
    return NULL;
}

bool check_nvrtc(const struct fuzz_case *c, facc_ctx *ctx, facc_program *p,
                 uint64_t seed, struct outcome *o)
{
    static const int archs[] = {80, 90, 86, 89, 100, 120};
    for (int k = 0; k < 2; k++) {
        facc_variant v = variant_of(c, k ? FACC_FAMILY_SM90 : FACC_FAMILY_SM80);
        v.arch = k ? 90 : archs[seed % 6];
        v.check_bounds = !k && seed % 16 == 7;
        facc_kernel *kernel = compile(ctx, p, &v, STAGE_NVRTC, o);
        if (!kernel)
            return false;
        facc_kernel_free(kernel);
    }
    return true;
}

/* --- device memory ------------------------------------------------ */

enum { MOST_COPIES = MODGEN_MOST_TENSORS + 16, GUARD = 4096 };

struct device {
    facc_ctx *ctx;
    struct outcome *out;
    enum stage stage;
    void *copy[MOST_COPIES]; /* owned */
    int n;
};

static void *allocate(struct device *d, size_t bytes)
{
    facc_error err = FACC_ERROR_INIT;
    void *p = NULL;
    if (facc_device_alloc(&p, d->ctx, 0, bytes, &err) != FACC_OK) {
        check_fail(d->out, d->stage, "%s", err.message);
        return NULL;
    }
    return d->copy[d->n++] = p;
}

static void *upload(struct device *d, const void *data, size_t bytes)
{
    facc_error err = FACC_ERROR_INIT;
    void *p = allocate(d, bytes);
    if (p && facc_device_upload(d->ctx, 0, p, data, bytes, &err) != FACC_OK) {
        check_fail(d->out, d->stage, "%s", err.message);
        return NULL;
    }
    return p;
}

/* A tensor's whole block; where the tensor's data is in the copy. */
static bool upload_tensor(struct device *d, const struct block *b,
                          facc_tensor *x)
{
    char *p = upload(d, b->data, b->size);
    if (!p)
        return false;
    x->data = p + ((const char *)x->data - (const char *)b->data);
    return true;
}

static bool upload_ints(struct device *d, const int32_t **x, int n)
{
    if (*x)
        *x = upload(d, *x, (size_t)n * sizeof **x);
    return d->out->stage == STAGE_FINE;
}

static bool upload_case(struct device *d, const struct fuzz_case *c,
                        facc_args *a, facc_tensor *captured)
{
    for (int t = 0; t < c->program.n_tensors; t++) {
        captured[t] = c->captured[t];
        if (!upload_tensor(d, &c->block[t], &captured[t]))
            return false;
    }
    a->tensors = captured;
    const struct block *rows = &c->block[c->program.n_tensors];
    return upload_tensor(d, &rows[0], &a->q) &&
           upload_tensor(d, &rows[1], &a->k) &&
           upload_tensor(d, &rows[2], &a->v) &&
           upload_ints(d, &a->seqused_q, c->B) &&
           upload_ints(d, &a->seqused_kv, c->B) &&
           upload_ints(d, &a->cu_seqlens_q, c->B + 1) &&
           upload_ints(d, &a->cu_seqlens_kv, c->B + 1);
}

/* --- one launch --------------------------------------------------- */

struct output {
    size_t bytes;
    char *host; /* owned: GUARD bytes, the tensor, GUARD bytes */
    char *device;
};

static bool output_open(struct output *x, struct device *d, facc_tensor *t)
{
    const size_t size = x->bytes + 2 * GUARD;
    x->host = malloc(size);
    if (!x->host)
        return check_fail(d->out, d->stage, "memory is out");
    memset(x->host, 0xff, size); /* NaN: must be written */
    x->device = upload(d, x->host, size);
    t->data = x->device ? x->device + GUARD : NULL;
    return x->device != NULL;
}

static bool output_read(struct output *x, struct device *d, facc_tensor *t)
{
    facc_error err = FACC_ERROR_INIT;
    const size_t size = x->bytes + 2 * GUARD;
    if (facc_device_download(d->ctx, 0, x->host, x->device, size, &err) !=
        FACC_OK)
        return check_fail(d->out, d->stage, "%s", err.message);
    for (size_t i = 0; i < GUARD; i++)
        if (x->host[i] != (char)0xff ||
            x->host[GUARD + x->bytes + i] != (char)0xff)
            return check_fail(d->out, d->stage, "written outside the output");
    t->data = x->host + GUARD;
    return true;
}

static bool launch(struct device *d, facc_kernel *k, facc_args *a)
{
    facc_error err = FACC_ERROR_INIT;
    size_t bytes, align;
    if (facc_kernel_load(k, 0, &err) != FACC_OK ||
        facc_workspace_size(k, a, &bytes, &align) != FACC_OK)
        return check_fail(d->out, d->stage, "load: %s", err.message);
    a->workspace = bytes ? allocate(d, bytes) : NULL;
    a->workspace_size = bytes;
    if (d->out->stage != STAGE_FINE)
        return false;
    if (facc_kernel_launch(k, a, NULL, &err) != FACC_OK)
        return check_fail(d->out, d->stage, "launch: %s", err.message);
    if (facc_device_synchronize(d->ctx, 0, &err) != FACC_OK)
        return check_fail(d->out, d->stage, "%s", err.message);
    d->out->tally.launches++;
    return true;
}

static bool launch_and_judge(const struct truth *t, struct device *d,
                             facc_kernel *k, const struct judging *j,
                             facc_args *a)
{
    const facc_dtype type = a->q.dtype;
    struct output o = {0}, lse = {0};
    rows_shape(t->c, &a->o, type, &a->lse, FACC_F32, &o.bytes, &lse.bytes);
    bool ok = output_open(&o, d, &a->o) && output_open(&lse, d, &a->lse) &&
              launch(d, k, a) && output_read(&o, d, &a->o) &&
              output_read(&lse, d, &a->lse) &&
              check_rows(t, j, &a->o, &a->lse, d->out);
    free(o.host);
    free(lse.host);
    return ok;
}

static bool check_family(const struct truth *t, facc_ctx *ctx, facc_program *p,
                         int arch, int family, struct outcome *out)
{
    const bool sm90 = family == FACC_FAMILY_SM90;
    const struct judging j = {
        sm90 ? STAGE_GPU_SM90 : STAGE_GPU_SM80, sm90 ? "sm90" : "sm80", false,
        t->c->args.q.dtype == FACC_BF16 ? 0x1p-7 : 0x1p-10};
    struct device d = {.ctx = ctx, .out = out, .stage = j.stage};
    facc_tensor captured[MODGEN_MOST_TENSORS];
    facc_args a = t->c->args;
    facc_variant v = variant_of(t->c, family);
    v.arch = arch;
    facc_kernel *k = compile(ctx, p, &v, j.stage, out);
    bool ok = k && upload_case(&d, t->c, &a, captured) &&
              launch_and_judge(t, &d, k, &j, &a);
    for (int i = 0; i < d.n; i++)
        facc_device_free(ctx, 0, d.copy[i]);
    facc_kernel_free(k);
    return ok;
}

bool check_has_gpu(facc_ctx *ctx)
{
    facc_system_info info = FACC_SYSTEM_INFO_INIT;
    return facc_system(ctx, &info, NULL) == FACC_OK && info.device_count > 0;
}

bool check_gpu(const struct truth *t, facc_ctx *ctx, facc_program *p,
               struct outcome *o)
{
    facc_device_info info = FACC_DEVICE_INFO_INIT;
    facc_error err = FACC_ERROR_INIT;
    if (facc_device_info_get(ctx, 0, &info, &err) != FACC_OK)
        return check_fail(o, STAGE_GPU_SM80, "%s", err.message);
    return check_family(t, ctx, p, info.arch, FACC_FAMILY_SM80, o) &&
           (info.arch != 90 ||
            check_family(t, ctx, p, info.arch, FACC_FAMILY_SM90, o));
}

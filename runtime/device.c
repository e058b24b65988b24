/* facc_device_* and facc_timer_*: conveniences over the driver for the CLI,
 * the examples and the tests. Frameworks bring their own memory, streams and
 * timing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/context.h"
#include "runtime/driver.h"
#include "runtime/error.h"

static const char stage_name[] = "device";

static bool attribute(const struct driver *drv, int device, int which,
                      int *value, struct diag *d)
{
    return driver_ok(drv, drv->DeviceGetAttribute(value, which, device),
                     stage_name, "cuDeviceGetAttribute", d);
}

static bool describe(const struct driver *drv, int device, facc_device_info *i,
                     struct diag *d)
{
    size_t memory = 0;
    int l2 = 0;
    if (!driver_arch(drv, device, &i->arch, d) ||
        !driver_ok(drv,
                   drv->DeviceGetName(i->name, (int)sizeof i->name, device),
                   stage_name, "cuDeviceGetName", d) ||
        !driver_ok(drv, drv->DeviceTotalMem(&memory, device), stage_name,
                   "cuDeviceTotalMem", d) ||
        !attribute(drv, device, CU_DEV_MULTIPROCESSORS, &i->multiprocessors,
                   d) ||
        !attribute(drv, device, CU_DEV_L2_BYTES, &l2, d) ||
        !attribute(drv, device, CU_DEV_SHARED_OPTIN, &i->shared_bytes_per_block,
                   d) ||
        !attribute(drv, device, CU_DEV_CLOCK_KHZ, &i->clock_khz, d))
        return false;
    if (drv->DeviceGetAttribute(&i->memory_clock_khz, CU_DEV_MEMORY_CLOCK_KHZ,
                                device) != 0)
        i->memory_clock_khz = 0;
    if (drv->DeviceGetAttribute(&i->memory_bus_bits, CU_DEV_MEMORY_BUS_BITS,
                                device) != 0)
        i->memory_bus_bits = 0;
    i->memory_bytes = (int64_t)memory;
    i->l2_bytes = l2;
    return true;
}

facc_status facc_device_info_get(facc_ctx *ctx, int32_t device,
                                 facc_device_info *out, facc_error *err)
{
    struct diag d;
    facc_device_info i = {0};
    diag_init(&d);
    const struct driver *drv = ctx_driver(ctx, &d);
    if (!drv || !describe(drv, device, &i, &d))
        return error_report(err, &d, NULL, NULL);
    if (versioned_write(out, &i, sizeof i))
        return FACC_OK;
    diag_set(&d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
             "facc_device_info.struct_size is not set");
    return error_report(err, &d, NULL, NULL);
}

/* The driver with the device's context current; pop when not NULL. */
static struct driver *enter(facc_ctx *ctx, int32_t device, struct diag *d)
{
    diag_init(d);
    struct driver *drv = ctx_driver(ctx, d);
    return drv && driver_push(drv, device, d) ? drv : NULL;
}

/* Ends what enter began, with the result of a driver call. */
static facc_status leave(struct driver *drv, cu_result r, const char *call,
                         struct diag *d, facc_error *err)
{
    bool ok = driver_ok(drv, r, stage_name, call, d);
    driver_pop(drv);
    return ok ? FACC_OK : error_report(err, d, NULL, NULL);
}

facc_status facc_device_alloc(void **out, facc_ctx *ctx, int32_t device,
                              size_t bytes, facc_error *err)
{
    struct diag d;
    cu_ptr p = 0;
    if (!out)
        return error_null(err, "out");
    *out = NULL;
    struct driver *drv = enter(ctx, device, &d);
    if (!drv)
        return error_report(err, &d, NULL, NULL);
    cu_result r = drv->MemAlloc(&p, bytes ? bytes : 1);
    if (r == 0)
        *out = (void *)(uintptr_t)p;
    return leave(drv, r, "cuMemAlloc", &d, err);
}

facc_status facc_device_free(facc_ctx *ctx, int32_t device, void *ptr)
{
    struct diag d;
    if (!ptr)
        return FACC_OK;
    struct driver *drv = enter(ctx, device, &d);
    if (!drv)
        return d.status;
    return leave(drv, drv->MemFree((cu_ptr)(uintptr_t)ptr), "cuMemFree", &d,
                 NULL);
}

facc_status facc_device_upload(facc_ctx *ctx, int32_t device, void *dst,
                               const void *src, size_t bytes, facc_error *err)
{
    struct diag d;
    struct driver *drv = enter(ctx, device, &d);
    if (!drv)
        return error_report(err, &d, NULL, NULL);
    cu_result r =
        bytes ? drv->MemcpyHtoD((cu_ptr)(uintptr_t)dst, src, bytes) : 0;
    /* From pageable memory the driver may return with the data staged only,
     * which a stream that does not wait for the default one would not see. */
    if (r == 0 && bytes)
        r = drv->CtxSynchronize();
    return leave(drv, r, "cuMemcpyHtoD", &d, err);
}

facc_status facc_device_download(facc_ctx *ctx, int32_t device, void *dst,
                                 const void *src, size_t bytes, facc_error *err)
{
    struct diag d;
    struct driver *drv = enter(ctx, device, &d);
    if (!drv)
        return error_report(err, &d, NULL, NULL);
    cu_result r =
        bytes ? drv->MemcpyDtoH(dst, (cu_ptr)(uintptr_t)src, bytes) : 0;
    return leave(drv, r, "cuMemcpyDtoH", &d, err);
}

facc_status facc_device_synchronize(facc_ctx *ctx, int32_t device,
                                    facc_error *err)
{
    struct diag d;
    struct driver *drv = enter(ctx, device, &d);
    if (!drv)
        return error_report(err, &d, NULL, NULL);
    return leave(drv, drv->CtxSynchronize(), "cuCtxSynchronize", &d, err);
}

/* ---- timing ----------------------------------------------------------- */

struct facc_timer {
    facc_ctx *ctx;
    int device;
    cu_stream stream;
    cu_event begin, end;
};

enum { STREAM_NON_BLOCKING = 1 }; /* does not wait for the default stream */

facc_status facc_timer_create(facc_timer **out, facc_ctx *ctx, int32_t device,
                              facc_error *err)
{
    struct diag d;
    if (!out)
        return error_null(err, "out");
    *out = NULL;
    facc_timer *t = calloc(1, sizeof *t);
    struct driver *drv = enter(ctx, device, &d);
    if (!t)
        diag_nomem(&d, stage_name);
    if (!drv || !t) {
        if (drv)
            driver_pop(drv);
        free(t);
        return error_report(err, &d, NULL, NULL);
    }
    t->ctx = ctx;
    t->device = device;
    cu_result r = drv->StreamCreate(&t->stream, STREAM_NON_BLOCKING);
    if (r == 0)
        r = drv->EventCreate(&t->begin, 0);
    if (r == 0)
        r = drv->EventCreate(&t->end, 0);
    facc_status s = leave(drv, r, "making a stream and its events", &d, err);
    if (s == FACC_OK)
        *out = t;
    else
        facc_timer_free(t);
    return s;
}

void *facc_timer_stream(facc_timer *t)
{
    return t ? t->stream : NULL;
}

facc_status facc_timer_begin(facc_timer *t, facc_error *err)
{
    struct diag d;
    if (!t)
        return error_null(err, "timer");
    struct driver *drv = enter(t->ctx, t->device, &d);
    if (!drv)
        return error_report(err, &d, NULL, NULL);
    return leave(drv, drv->EventRecord(t->begin, t->stream), "cuEventRecord",
                 &d, err);
}

facc_status facc_timer_end(facc_timer *t, double *milliseconds, facc_error *err)
{
    struct diag d;
    float ms = 0;
    if (!t)
        return error_null(err, "timer");
    struct driver *drv = enter(t->ctx, t->device, &d);
    if (!drv)
        return error_report(err, &d, NULL, NULL);
    cu_result r = drv->EventRecord(t->end, t->stream);
    if (r == 0)
        r = drv->EventSynchronize(t->end);
    if (r == 0)
        r = drv->EventElapsedTime(&ms, t->begin, t->end);
    if (milliseconds)
        *milliseconds = (double)ms;
    return leave(drv, r, "timing a stream", &d, err);
}

void facc_timer_free(facc_timer *t)
{
    struct diag d;
    struct driver *drv = t ? enter(t->ctx, t->device, &d) : NULL;
    if (drv) {
        if (t->begin)
            drv->EventDestroy(t->begin);
        if (t->end)
            drv->EventDestroy(t->end);
        if (t->stream)
            drv->StreamDestroy(t->stream);
        driver_pop(drv);
    }
    free(t);
}

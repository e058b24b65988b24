/* Opens libcuda at run time, turns its results into diags, and keeps the
 * primary context of each device that is used. Called by context.c (open,
 * close), kernel.c, launch.c and device.c. */
#include "runtime/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/facc.h"

static const char stage_name[] = "driver";

static bool resolve(struct driver *drv, struct diag *d)
{
#define RESOLVE(field, name, params)                                           \
    *(void **)(&drv->field) = dlsym(drv->lib, name);                           \
    if (!drv->field)                                                           \
        return diag_set(d, FACC_ERR_NO_DRIVER, stage_name, NULL, 0,            \
                        "the NVIDIA driver (%s) has no %s: facc needs a "      \
                        "driver for CUDA 12.0 or newer (525.60 or newer)",     \
                        drv->path, name);
    DRIVER_ENTRIES(RESOLVE)
#undef RESOLVE
#define RESOLVE(field, name, params)                                           \
    *(void **)(&drv->field) = dlsym(drv->lib, name);
    DRIVER_OPTIONAL(RESOLVE)
#undef RESOLVE
    return true;
}

static bool initialise(struct driver *drv, struct diag *d)
{
    cu_result r = drv->Init(0);
    if (r != 0) {
        const char *text = NULL;
        drv->GetErrorString(r, &text);
        return diag_set(d, FACC_ERR_NO_DRIVER, stage_name, NULL, 0,
                        "cuInit failed: %s (error %d)",
                        text ? text : "unknown error", r);
    }
    if (drv->DriverGetVersion(&drv->version) != 0)
        drv->version = 0;
    r = drv->DeviceGetCount(&drv->n_devices);
    if (r != 0 || drv->n_devices < 1)
        return diag_set(d, FACC_ERR_NO_DRIVER, stage_name, NULL, 0,
                        "the NVIDIA driver is there, but it sees no GPU "
                        "(check CUDA_VISIBLE_DEVICES and nvidia-smi)");
    if (drv->n_devices > DRIVER_MAX_DEVICES)
        drv->n_devices = DRIVER_MAX_DEVICES;
    return true;
}

struct driver *driver_open(struct diag *d)
{
    struct driver *drv = calloc(1, sizeof *drv);
    if (!drv) {
        diag_nomem(d, stage_name);
        return NULL;
    }
    pthread_mutex_init(&drv->lock, NULL);
    drv->lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!drv->lib) {
        const char *why = dlerror();
        diag_set(d, FACC_ERR_NO_DRIVER, stage_name, NULL, 0,
                 "no NVIDIA driver: %s; a GPU needs the driver, the CPU path "
                 "and compiling do not",
                 why ? why : "libcuda.so.1 cannot be opened");
        driver_close(drv, false);
        return NULL;
    }
    Dl_info info;
    void *init = dlsym(drv->lib, "cuInit");
    snprintf(drv->path, sizeof drv->path, "%s",
             init && dladdr(init, &info) && info.dli_fname ? info.dli_fname
                                                           : "libcuda.so.1");
    if (!resolve(drv, d) || !initialise(drv, d)) {
        driver_close(drv, false);
        return NULL;
    }
    return drv;
}

void driver_close(struct driver *drv, bool forked)
{
    if (!drv)
        return;
    for (int i = 0; i < DRIVER_MAX_DEVICES && !forked; i++)
        if (atomic_load(&drv->context[i]))
            drv->PrimaryCtxRelease(i);
    pthread_mutex_destroy(&drv->lock);
    if (drv->lib && !forked)
        dlclose(drv->lib);
    free(drv);
}

bool driver_ok(const struct driver *drv, cu_result r, const char *stage,
               const char *call, struct diag *d)
{
    if (r == 0)
        return true;
    const char *text = NULL, *name = NULL;
    drv->GetErrorString(r, &text);
    drv->GetErrorName(r, &name);
    int status = r == CU_ERROR_OUT_OF_MEMORY ? FACC_ERR_MEMORY : FACC_ERR_CUDA;
    return diag_set(d, status, stage, NULL, 0, "%s failed: %s (%s, %d)", call,
                    text ? text : "unknown error", name ? name : "?", r);
}

bool driver_device_exists(const struct driver *drv, int device, struct diag *d)
{
    if (device >= 0 && device < drv->n_devices)
        return true;
    return diag_set(d, FACC_ERR_ARGUMENT, stage_name, NULL, 0,
                    "device %d does not exist: there %s %d (0 to %d)", device,
                    drv->n_devices == 1 ? "is" : "are", drv->n_devices,
                    drv->n_devices - 1);
}

static bool retain(struct driver *drv, int device, struct diag *d)
{
    bool ok = true;
    pthread_mutex_lock(&drv->lock);
    if (!atomic_load(&drv->context[device])) {
        cu_context c = NULL;
        ok = driver_ok(drv, drv->PrimaryCtxRetain(&c, device), stage_name,
                       "cuDevicePrimaryCtxRetain", d);
        if (ok)
            atomic_store(&drv->context[device], c);
    }
    pthread_mutex_unlock(&drv->lock);
    return ok;
}

bool driver_push(struct driver *drv, int device, struct diag *d)
{
    if (!driver_device_exists(drv, device, d))
        return false;
    if (!atomic_load(&drv->context[device]) && !retain(drv, device, d))
        return false;
    cu_context c = atomic_load(&drv->context[device]);
    return driver_ok(drv, drv->CtxPushCurrent(c), stage_name,
                     "cuCtxPushCurrent", d);
}

void driver_pop(struct driver *drv)
{
    cu_context c;
    drv->CtxPopCurrent(&c);
}

bool driver_count_multiprocessors(struct driver *drv, int device,
                                  struct diag *d)
{
    int n = 0;
    if (atomic_load(&drv->multiprocessors[device]) > 0)
        return true;
    cu_result r = drv->DeviceGetAttribute(&n, CU_DEV_MULTIPROCESSORS, device);
    if (!driver_ok(drv, r, stage_name, "cuDeviceGetAttribute", d))
        return false;
    atomic_store(&drv->multiprocessors[device], n > 0 ? n : 1);
    return true;
}

bool driver_arch(const struct driver *drv, int device, int *arch,
                 struct diag *d)
{
    int major = 0, minor = 0;
    if (!driver_device_exists(drv, device, d))
        return false;
    cu_result r = drv->DeviceGetAttribute(&major, CU_DEV_CC_MAJOR, device);
    if (r == 0)
        r = drv->DeviceGetAttribute(&minor, CU_DEV_CC_MINOR, device);
    if (!driver_ok(drv, r, stage_name, "cuDeviceGetAttribute", d))
        return false;
    *arch = major * 10 + minor;
    return true;
}

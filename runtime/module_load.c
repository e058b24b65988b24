/* The driver's part of a module: one library for all devices, the functions of
 * each. Called by kernel.c. */
#include "runtime/module.h"

#include <stdio.h>

static bool load_library(struct module *m, struct driver *drv, struct diag *d)
{
    cu_library lib = NULL;
    if (m->library)
        return true;
    if (!driver_ok(
            drv,
            drv->LibraryLoadData(&lib, m->cubin, NULL, NULL, 0, NULL, NULL, 0),
            "load", "cuLibraryLoadData", d))
        return false;
    m->library = lib;
    m->driver = drv;
    return true;
}

/* Asking for the function and an attribute makes the driver load the code
 * now, so that no launch (or capture) has to. The device is current. */
static bool load_entry(struct module *m, struct driver *drv, int device,
                       enum entry e, int shared_bytes, struct diag *d)
{
    cu_kernel kernel = NULL;
    cu_function f = NULL;
    char call[80];
    int registers;
    snprintf(call, sizeof call, "cuLibraryGetKernel (%s)", entry_name(e));
    if (!driver_ok(drv,
                   drv->LibraryGetKernel(&kernel, m->library, entry_name(e)),
                   "load", call, d))
        return false;
    if (e == ENTRY_FORWARD &&
        !driver_ok(drv,
                   drv->KernelSetAttribute(CU_FUNC_MAX_DYNAMIC_SHARED,
                                           shared_bytes, kernel, device),
                   "load", "cuKernelSetAttribute (dynamic shared memory)", d))
        return false;
    if (!driver_ok(drv, drv->KernelGetFunction(&f, kernel), "load",
                   "cuKernelGetFunction", d) ||
        !driver_ok(drv,
                   drv->KernelGetAttribute(&registers, CU_FUNC_NUM_REGS, kernel,
                                           device),
                   "load", "cuKernelGetAttribute", d))
        return false;
    atomic_store(&m->function[device][e], f);
    return true;
}

static bool load_entries(struct module *m, struct driver *drv, int device,
                         int shared_bytes, struct diag *d)
{
    if (!driver_push(drv, device, d))
        return false;
    bool ok = true;
    for (int e = 0; ok && e < N_ENTRIES; e++)
        if (m->entries & 1u << e)
            ok = load_entry(m, drv, device, (enum entry)e, shared_bytes, d);
    driver_pop(drv);
    return ok;
}

/* The last one's function tells that all are there. */
bool module_is_loaded(const struct module *m, int device)
{
    int last = N_ENTRIES - 1;
    while (last > 0 && !(m->entries & 1u << last))
        last--;
    return atomic_load(&m->function[device][last]) != NULL;
}

bool module_load(struct module *m, struct driver *drv, int device,
                 int shared_bytes, struct diag *d)
{
    if (module_is_loaded(m, device))
        return true;
    pthread_mutex_lock(&m->lock);
    bool ok = module_is_loaded(m, device) ||
              (load_library(m, drv, d) &&
               load_entries(m, drv, device, shared_bytes, d));
    pthread_mutex_unlock(&m->lock);
    return ok;
}

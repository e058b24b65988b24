/* The functions of the CUDA driver that capture.c calls, opened at run time:
 * the examples build without a toolkit. Yours: #include <cuda.h>, -lcuda. */
#ifndef DRIVER_H
#define DRIVER_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define DRIVER_FUNCTIONS(F)                                                    \
    F(cuInit, "cuInit", (unsigned flags))                                      \
    F(cuDeviceGet, "cuDeviceGet", (int *device, int ordinal))                  \
    F(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain",                    \
      (void **context, int device))                                            \
    F(cuCtxSetCurrent, "cuCtxSetCurrent", (void *context))                     \
    F(cuStreamCreate, "cuStreamCreate", (void **stream, unsigned flags))       \
    F(cuStreamWaitEvent, "cuStreamWaitEvent",                                  \
      (void *stream, void *event, unsigned flags))                             \
    F(cuStreamSynchronize, "cuStreamSynchronize", (void *stream))              \
    F(cuStreamBeginCapture, "cuStreamBeginCapture_v2",                         \
      (void *stream, int mode))                                                \
    F(cuStreamEndCapture, "cuStreamEndCapture", (void *stream, void **graph))  \
    F(cuEventCreate, "cuEventCreate", (void **event, unsigned flags))          \
    F(cuEventRecord, "cuEventRecord", (void *event, void *stream))             \
    F(cuGraphInstantiate, "cuGraphInstantiateWithFlags",                       \
      (void **exec, void *graph, unsigned long long flags))                    \
    F(cuGraphLaunch, "cuGraphLaunch", (void *exec, void *stream))              \
    F(cuGraphExecDestroy, "cuGraphExecDestroy", (void *exec))                  \
    F(cuGraphDestroy, "cuGraphDestroy", (void *graph))

#define FIELD(name, symbol, parameters) int(*name) parameters;
struct driver {
    DRIVER_FUNCTIONS(FIELD)
};
#undef FIELD

/* Ends with 77 where there is no driver. */
static inline struct driver driver_open(void)
{
    struct driver d;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib) {
        fprintf(stderr, "skipped: %s\n", dlerror());
        exit(77);
    }
#define LOOK_UP(name, symbol, parameters)                                      \
    *(void **)(void *)&d.name = dlsym(lib, symbol);                            \
    if (!d.name) {                                                             \
        fprintf(stderr, "the driver has no %s\n", symbol);                     \
        exit(1);                                                               \
    }
    DRIVER_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return d;
}

#endif

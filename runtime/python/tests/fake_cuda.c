/* A CUDA driver and an NVRTC that do nothing, for tests of the Python package
 * and examples/c on machines without a GPU: two devices of sm_90, whose memory
 * is the host's. They count launches and whatever waits, and keep what the last
 * launch was given. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "templates/common/kernel_args.h"

int fake_launches, fake_waits;
void *fake_stream;
struct facc_kernel_header fake_header;
int fake_block_at = offsetof(struct facc_kernel_header, block_counts);

#define NOTHING(name)                                                          \
    int name(void)                                                             \
    {                                                                          \
        return 0;                                                              \
    }
#define WAITS(name)                                                            \
    int name(void)                                                             \
    {                                                                          \
        fake_waits++;                                                          \
        return 0;                                                              \
    }
#define GIVES(name, type, value)                                               \
    int name(type *out)                                                        \
    {                                                                          \
        *out = value;                                                          \
        return 0;                                                              \
    }

NOTHING(cuInit)
GIVES(cuDriverGetVersion, int, 13000)
int cuGetErrorName(int r, const char **s)
{
    (void)r;
    *s = "?";
    return 0;
}
int cuGetErrorString(int r, const char **s)
{
    (void)r;
    *s = "?";
    return 0;
}
GIVES(cuDeviceGetCount, int, 2)
int cuDeviceGet(int *d, int i)
{
    *d = i;
    return 0;
}
NOTHING(cuDeviceGetName)
int cuDeviceGetAttribute(int *v, int which, int device)
{
    (void)device;
    *v = which == 75 ? 9 : which == 16 ? 132 : 0; /* sm_90, multiprocessors */
    return 0;
}
NOTHING(cuDeviceTotalMem_v2)
GIVES(cuDevicePrimaryCtxRetain, void *, &fake_stream)
NOTHING(cuDevicePrimaryCtxRelease_v2)
GIVES(cuCtxGetCurrent, void *, &fake_stream)
NOTHING(cuCtxPushCurrent_v2)
NOTHING(cuCtxPopCurrent_v2)
WAITS(cuCtxSynchronize)
int cuMemAlloc_v2(void **out, size_t bytes)
{
    fake_waits++;
    bytes = (bytes + 255) / 256 * 256;
    *out = aligned_alloc(256, bytes);
    if (*out)
        memset(*out, 0, bytes);
    return *out ? 0 : 2;
}
int cuMemFree_v2(void *p)
{
    fake_waits++;
    free(p);
    return 0;
}
int cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes)
{
    fake_waits++;
    memcpy(to, from, bytes);
    return 0;
}
int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes)
{
    return cuMemcpyHtoD_v2(to, from, bytes);
}
WAITS(cuMemsetD8_v2)
NOTHING(cuStreamCreate)
NOTHING(cuStreamDestroy_v2)
NOTHING(cuEventCreate)
NOTHING(cuEventDestroy_v2)
NOTHING(cuEventRecord)
WAITS(cuEventSynchronize)
NOTHING(cuCtxSetCurrent)
NOTHING(cuStreamWaitEvent)
WAITS(cuStreamSynchronize)
NOTHING(cuStreamBeginCapture_v2)
int cuStreamEndCapture(void *stream, void **graph)
{
    *graph = stream;
    return 0;
}
GIVES(cuGraphInstantiateWithFlags, void *, &fake_stream)
NOTHING(cuGraphLaunch)
NOTHING(cuGraphExecDestroy)
NOTHING(cuGraphDestroy)
NOTHING(cuEventElapsedTime)
GIVES(cuLibraryLoadData, void *, &fake_stream)
NOTHING(cuLibraryUnload)
GIVES(cuLibraryGetKernel, void *, &fake_stream)
GIVES(cuKernelGetFunction, void *, &fake_stream)
GIVES(cuKernelGetAttribute, int, 0)
NOTHING(cuKernelSetAttribute)
NOTHING(cuTensorMapEncodeTiled)

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned shared, void *stream,
                   void **params, void **extra)
{
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz;
    (void)shared, (void)extra;
    fake_launches++;
    fake_stream = stream;
    memcpy(&fake_header, params[0], sizeof fake_header);
    return 0;
}

int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return 0;
}
const char *nvrtcGetErrorString(int r)
{
    (void)r;
    return "?";
}
GIVES(nvrtcGetNumSupportedArchs, int, 1)
GIVES(nvrtcGetSupportedArchs, int, 90)
NOTHING(nvrtcCreateProgram)
NOTHING(nvrtcDestroyProgram)
NOTHING(nvrtcCompileProgram)
int nvrtcGetPTXSize(void *p, size_t *n)
{
    (void)p;
    *n = 0;
    return 0;
}
NOTHING(nvrtcGetPTX)
int nvrtcGetCUBINSize(void *p, size_t *n)
{
    (void)p;
    *n = 4;
    return 0;
}
int nvrtcGetCUBIN(void *p, char *s)
{
    (void)p;
    memcpy(s, "\177ELF", 4);
    return 0;
}
int nvrtcGetProgramLogSize(void *p, size_t *n)
{
    (void)p;
    *n = 0;
    return 0;
}
NOTHING(nvrtcGetProgramLog)

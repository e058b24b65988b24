/* The CUDA driver, opened at run time: the entries and types that facc uses,
 * declared here so that neither cuda.h nor libcuda is needed to build. */
#ifndef FACC_DRIVER_H
#define FACC_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/support/diag.h"

typedef int cu_result; /* CUresult; 0 is success */
typedef int cu_device;
typedef uint64_t cu_ptr; /* CUdeviceptr */
typedef struct CUctx_st *cu_context;
typedef struct CUlib_st *cu_library;
typedef struct CUkern_st *cu_kernel;
typedef struct CUfunc_st *cu_function;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;

/* As cuda.h has them: how cuLaunchKernelEx launches. */
struct cu_launch_attribute {
    int id, pad;
    union {
        int allowed;
        unsigned char bytes[64];
    } value;
};
struct cu_launch {
    unsigned grid[3], block[3], shared;
    cu_stream stream;
    struct cu_launch_attribute *attributes;
    unsigned n;
};

/* Values of cuda.h. */
enum {
    CU_ERROR_INVALID_VALUE = 1,
    CU_ERROR_OUT_OF_MEMORY = 2,
    CU_ERROR_NOT_FOUND = 500,
    CU_FUNC_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_NUM_REGS = 4,
    CU_FUNC_MAX_DYNAMIC_SHARED = 8,
    CU_FUNC_CARVEOUT = 9, /* preferred shared memory, percent */
    CU_DEV_CLOCK_KHZ = 13,
    CU_DEV_MULTIPROCESSORS = 16,
    CU_DEV_MEMORY_CLOCK_KHZ = 36,
    CU_DEV_MEMORY_BUS_BITS = 37,
    CU_DEV_L2_BYTES = 38,
    CU_DEV_CC_MAJOR = 75,
    CU_DEV_CC_MINOR = 76,
    CU_DEV_SHARED_OPTIN = 97,
    CU_MAP_UINT8 = 0,
    CU_MAP_FLOAT16 = 6, /* CU_TENSOR_MAP_DATA_TYPE_… */
    CU_MAP_FLOAT32 = 7,
    CU_MAP_BFLOAT16 = 9,
    CU_MAP_SWIZZLE_32B = 1,
    CU_MAP_SWIZZLE_64B = 2,
    CU_MAP_SWIZZLE_128B = 3,
    CU_MAP_L2_256B = 3,
    CU_LAUNCH_OVERLAP = 6 /* …_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
};

/* One row per entry: field, exported name, parameters. All return
 * cu_result. */
#define DRIVER_ENTRIES(E)                                                      \
    E(Init, "cuInit", (unsigned))                                              \
    E(DriverGetVersion, "cuDriverGetVersion", (int *))                         \
    E(GetErrorName, "cuGetErrorName", (cu_result, const char **))              \
    E(GetErrorString, "cuGetErrorString", (cu_result, const char **))          \
    E(DeviceGetCount, "cuDeviceGetCount", (int *))                             \
    E(DeviceGet, "cuDeviceGet", (cu_device *, int))                            \
    E(DeviceGetName, "cuDeviceGetName", (char *, int, cu_device))              \
    E(DeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, cu_device))     \
    E(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, cu_device))            \
    E(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (cu_context *, cu_device)) \
    E(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (cu_device))          \
    E(CtxGetCurrent, "cuCtxGetCurrent", (cu_context *))                        \
    E(CtxPushCurrent, "cuCtxPushCurrent_v2", (cu_context))                     \
    E(CtxPopCurrent, "cuCtxPopCurrent_v2", (cu_context *))                     \
    E(CtxSynchronize, "cuCtxSynchronize", (void))                              \
    E(MemAlloc, "cuMemAlloc_v2", (cu_ptr *, size_t))                           \
    E(MemFree, "cuMemFree_v2", (cu_ptr))                                       \
    E(MemcpyHtoD, "cuMemcpyHtoD_v2", (cu_ptr, const void *, size_t))           \
    E(MemcpyDtoH, "cuMemcpyDtoH_v2", (void *, cu_ptr, size_t))                 \
    E(MemsetD8, "cuMemsetD8_v2", (cu_ptr, unsigned char, size_t))              \
    E(StreamCreate, "cuStreamCreate", (cu_stream *, unsigned))                 \
    E(StreamDestroy, "cuStreamDestroy_v2", (cu_stream))                        \
    E(EventCreate, "cuEventCreate", (cu_event *, unsigned))                    \
    E(EventDestroy, "cuEventDestroy_v2", (cu_event))                           \
    E(EventRecord, "cuEventRecord", (cu_event, cu_stream))                     \
    E(EventSynchronize, "cuEventSynchronize", (cu_event))                      \
    E(EventElapsedTime, "cuEventElapsedTime", (float *, cu_event, cu_event))   \
    E(LaunchKernel, "cuLaunchKernel",                                          \
      (cu_function, unsigned, unsigned, unsigned, unsigned, unsigned,          \
       unsigned, unsigned, cu_stream, void **, void **))                       \
    E(LibraryLoadData, "cuLibraryLoadData",                                    \
      (cu_library *, const void *, int *, void **, unsigned, int *, void **,   \
       unsigned))                                                              \
    E(LibraryUnload, "cuLibraryUnload", (cu_library))                          \
    E(LibraryGetKernel, "cuLibraryGetKernel",                                  \
      (cu_kernel *, cu_library, const char *))                                 \
    E(KernelGetFunction, "cuKernelGetFunction", (cu_function *, cu_kernel))    \
    E(KernelGetAttribute, "cuKernelGetAttribute",                              \
      (int *, int, cu_kernel, cu_device))                                      \
    E(KernelSetAttribute, "cuKernelSetAttribute",                              \
      (int, int, cu_kernel, cu_device))

/* Those that may be missing: then the field is NULL. A tensor map's type,
 * rank, address, extents, strides in bytes (rank - 1), box, element strides,
 * interleave, swizzle, L2 promotion, fill. */
#define DRIVER_OPTIONAL(E)                                                     \
    E(TensorMapEncodeTiled, "cuTensorMapEncodeTiled",                          \
      (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,      \
       const uint32_t *, const uint32_t *, int, int, int, int))                \
    E(LaunchKernelEx, "cuLaunchKernelEx",                                      \
      (const struct cu_launch *, cu_function, void **, void **))

enum { DRIVER_MAX_DEVICES = 64 };

struct driver {
    void *lib;
    char path[256];
    int version; /* 13000 = 13.0 */
    int n_devices;
    pthread_mutex_t lock; /* for retaining primary contexts */
    _Atomic(cu_context) context[DRIVER_MAX_DEVICES]; /* NULL: not retained */
    atomic_int multiprocessors[DRIVER_MAX_DEVICES];  /* 0: not asked yet */
#define DRIVER_FIELD(field, name, params) cu_result(*field) params;
    DRIVER_ENTRIES(DRIVER_FIELD)
    DRIVER_OPTIONAL(DRIVER_FIELD)
#undef DRIVER_FIELD
};

/* Opens libcuda.so.1 and initialises it. NULL: *d has FACC_ERR_NO_DRIVER with
 * the reason. */
struct driver *driver_open(struct diag *d);
/* Releases the contexts (not in a forked child: the driver is dead there). */
void driver_close(struct driver *drv, bool forked); /* NULL is fine */

/* False, with the driver's own words in *d, when r is an error. */
bool driver_ok(const struct driver *drv, cu_result r, const char *stage,
               const char *call, struct diag *d);
/* False when the ordinal does not exist. */
bool driver_device_exists(const struct driver *drv, int device, struct diag *d);
/* Makes the device's primary context current; pop undoes it. */
bool driver_push(struct driver *drv, int device, struct diag *d);
void driver_pop(struct driver *drv);
/* Fills drv->multiprocessors[device], once. */
bool driver_count_multiprocessors(struct driver *drv, int device,
                                  struct diag *d);
/* 90 for compute capability 9.0. */
bool driver_arch(const struct driver *drv, int device, int *arch,
                 struct diag *d);

#endif

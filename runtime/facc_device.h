/* facc: what the machine has, and memory, streams and times of a device for
 * programs that no framework gives them. A part of facc.h, which includes it
 * and has the conventions. */
#ifndef FACC_PUBLIC_DEVICE_H
#define FACC_PUBLIC_DEVICE_H

#include "facc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is there ------------------------------------------------------ */

typedef struct facc_system_info {
    size_t struct_size;
    int32_t driver_found, driver_version; /* 13000 = 13.0 */
    int32_t device_count;
    int32_t nvrtc_found, nvrtc_version; /* major * 1000 + minor * 10 */
    char driver_path[256], nvrtc_path[256];
    char driver_error[256], nvrtc_error[256]; /* why not, when not found */
    char cache_dir[256]; /* first directory, "" memory only */
    int32_t cache_writable;
    char cache_error[256];
    int32_t cpu_threads;
    char cpu_isa[32]; /* "avx512f" "avx2" "generic" */
} facc_system_info;
#define FACC_SYSTEM_INFO_INIT FACC_STRUCT_INIT(facc_system_info)
/* Opens driver and NVRTC if they are there; that they are not is no error.
 * Fills the fields that out->struct_size covers. */
FACC_API facc_status facc_system(facc_ctx *ctx, facc_system_info *out,
                                 facc_error *err);

typedef struct facc_device_info {
    size_t struct_size;
    char name[128];
    int32_t arch; /* 90: sm_90 */
    int32_t multiprocessors;
    int64_t memory_bytes, l2_bytes;
    int32_t shared_bytes_per_block; /* opt-in maximum */
    int32_t clock_khz;
    int32_t memory_clock_khz, memory_bus_bits; /* 0: the driver does not say */
} facc_device_info;
#define FACC_DEVICE_INFO_INIT FACC_STRUCT_INIT(facc_device_info)

/* ---- device conveniences: for the CLI, examples and tests ---------------
 * `device` is the driver's ordinal, from 0; sizes are in bytes. Any thread. */

FACC_API facc_status facc_device_info_get(facc_ctx *ctx, int32_t device,
                                          facc_device_info *out,
                                          facc_error *err);
/* Device memory, the caller's until facc_device_free, aligned to 256. */
FACC_API facc_status facc_device_alloc(void **out, facc_ctx *ctx,
                                       int32_t device, size_t bytes,
                                       facc_error *err);
/* Waits for work that uses it. NULL is fine. */
FACC_API facc_status facc_device_free(facc_ctx *ctx, int32_t device, void *ptr);
/* Host to device, device to host: done when they return. */
FACC_API facc_status facc_device_upload(facc_ctx *ctx, int32_t device,
                                        void *dst, const void *src,
                                        size_t bytes, facc_error *err);
FACC_API facc_status facc_device_download(facc_ctx *ctx, int32_t device,
                                          void *dst, const void *src,
                                          size_t bytes, facc_error *err);
/* Waits for all work on the device; reports the errors of kernels. */
FACC_API facc_status facc_device_synchronize(facc_ctx *ctx, int32_t device,
                                             facc_error *err);
/* A stream and a pair of events: launches between begin and end are timed.
 * One thread at a time; the caller's until facc_timer_free. */
typedef struct facc_timer facc_timer;
FACC_API facc_status facc_timer_create(facc_timer **out, facc_ctx *ctx,
                                       int32_t device, facc_error *err);
FACC_API void *facc_timer_stream(facc_timer *t); /* CUstream to launch on */
FACC_API facc_status facc_timer_begin(facc_timer *t, facc_error *err);
FACC_API facc_status facc_timer_end(facc_timer *t, double *milliseconds,
                                    facc_error *err); /* synchronises */
FACC_API void facc_timer_free(facc_timer *t);         /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif

// The kernel's one argument: the header of kernel_args.h, then this program's captured tensors and
// params, then what FP8 needs. Empty lists take no room, as in the runtime's byte layout. A kernel
// takes it as `const __grid_constant__ KernelArgs args`.
#pragma once
#include "common/fp8_args.h"
#include "common/kernel_args.h"
#include "facc_config.cuh"

template <int n> struct CapturedTensors {
    facc_captured tensors[n];
};
template <> struct CapturedTensors<0> {
};

template <int n> struct RunTimeParams {
    facc_scalar params[n];
};
template <> struct RunTimeParams<0> {
};

// TMA descriptors of the two tensors whose rows join Q K^T (sm90).
template <bool kThere> struct DotMaps {
};
template <> struct DotMaps<true> {
    alignas(128) unsigned char dot_map[2][128];
};

// That of the tensor whose tiles are copied (sm90/plane.cuh), if it has `copied`.
template <bool kThere> struct PlaneMap {
};
template <> struct PlaneMap<true> {
    alignas(128) unsigned char plane_map[128];
};

#ifdef FACC_FP8
struct KernelArgs : facc_kernel_header, CapturedTensors<kNumTensors>, RunTimeParams<kNumParams> {
    facc_fp8 fp8;
};
constexpr int kFp8Bytes = sizeof(facc_fp8);
#else
struct KernelArgs : facc_kernel_header,
                    CapturedTensors<kNumTensors>,
                    RunTimeParams<kNumParams>,
                    DotMaps<(kExtraDim > 0)>,
                    PlaneMap<(kPlaneBytes > 0)> {
};
constexpr int kFp8Bytes = 0;
#endif

// The size is rounded up to the header's alignment: the runtime passes a buffer of at least this
// many bytes.
constexpr int kArgsBytes = 1152 + 72 * kNumTensors + 8 * kNumParams + kFp8Bytes;
static_assert(sizeof(KernelArgs) == (kArgsBytes + 127) / 128 * 128 + (kExtraDim > 0 ? 256 : 0) +
                                        (kPlaneBytes > 0 ? 128 : 0),
              "the runtime lays the arguments out as bytes");

// The kernels that round a tensor to FP8, on the CPU, for quantize_host.py: as runtime/quantize.c
// launches them.
#include "quantize.h"
// clang-format off
#include "common/quantize.cu"
// clang-format on

// grid: CTAs of each of the five kernels.
extern "C" __attribute__((visibility("default"))) void run_rounding(const void *args,
                                                                    const int *grid)
{
    const facc_rounding &a = *static_cast<const facc_rounding *>(args);
#ifdef FACC_QUANTIZE_MEAN
    simt::launch(grid[0], kThreads, [&] { facc_quantize_sums(a); });
    simt::launch(grid[1], FACC_REDUCE_THREADS, [&] { facc_quantize_mean(a); });
#endif
    simt::launch(grid[2], kThreads, [&] { facc_quantize_amax(a); });
    simt::launch(grid[3], FACC_REDUCE_THREADS, [&] { facc_quantize_scale(a); });
    simt::launch(grid[4], kThreads, [&] { facc_quantize_round(a); });
}

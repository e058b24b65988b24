// The kernel that transposes V, on the CPU, for quantize_host.py.
#include "quantize.h"
// clang-format off
#include "common/transpose.cu"
// clang-format on

extern "C" __attribute__((visibility("default"))) void run_transpose(const void *args, int ctas)
{
    const facc_transpose_args &a = *static_cast<const facc_transpose_args *>(args);
    simt::launch(ctas, FACC_TRANSPOSE_THREADS, [&] { facc_transpose_v(a); });
}

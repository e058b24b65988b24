// facc.h alone, as C++17 with every warning: the twin of test_facc_h.c.
#include "runtime/facc.h"

int main()
{
    facc_error err = FACC_ERROR_INIT;
    facc_options options = FACC_OPTIONS_INIT;
    facc_variant variant = FACC_VARIANT_INIT;
    facc_args args = FACC_ARGS_INIT;
    facc_cpu_options cpu = FACC_CPU_OPTIONS_INIT;
    facc_block_mask mask = FACC_BLOCK_MASK_INIT;
    facc_kernel_info info = FACC_KERNEL_INFO_INIT;
    facc_verdict_counts counts = FACC_VERDICT_COUNTS_INIT;
    const bool ok =
        err.struct_size == sizeof err &&
        options.struct_size == sizeof options && variant.dtype == 0 &&
        args.struct_size == sizeof args && cpu.struct_size == sizeof cpu &&
        mask.struct_size == sizeof mask && info.struct_size == sizeof info &&
        counts.struct_size == sizeof counts;
    return ok ? 0 : 1;
}

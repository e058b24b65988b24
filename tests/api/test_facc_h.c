/* facc.h alone, as C11 with every warning: compiles, and the _INIT macros
 * give what the comments say. Run by header.sh. */
#include "runtime/facc.h"

static int check(int ok)
{
    return ok ? 0 : 1;
}

int main(void)
{
    facc_error err = FACC_ERROR_INIT;
    facc_options options = FACC_OPTIONS_INIT;
    facc_variant variant = FACC_VARIANT_INIT;
    facc_args args = FACC_ARGS_INIT;
    facc_cpu_options cpu = FACC_CPU_OPTIONS_INIT;
    facc_block_mask mask = FACC_BLOCK_MASK_INIT;
    facc_kernel_info info = FACC_KERNEL_INFO_INIT;
    facc_verdict_counts counts = FACC_VERDICT_COUNTS_INIT;
    int failed = 0;
    failed += check(err.struct_size == sizeof err && err.status == FACC_OK);
    failed += check(options.struct_size == sizeof options && !options.user);
    failed += check(variant.dtype == 0 && variant.arch == 0);
    failed += check(variant.block_mask == 0 && variant.packed == 0);
    failed += check(args.struct_size == sizeof args && args.scale == 0);
    failed += check(!args.cu_seqlens_q && args.n_seqs == 0);
    failed += check(!args.block_mask && args.schedule_ready == 0);
    failed += check(mask.struct_size == sizeof mask && !mask.kv_indices);
    failed += check(info.struct_size == sizeof info && info.scheduled == 0);
    failed += check(counts.struct_size == sizeof counts && counts.kept == 0);
    failed += check((FACC_TILE_EMPTY | FACC_TILE_FULL) == FACC_TILE_PARTIAL);
    failed += check(cpu.struct_size == sizeof cpu && cpu.f64 == 0);
    failed += check(sizeof(facc_scalar_value) == 8);
    failed += check(sizeof(facc_status) == 4);
    return failed;
}

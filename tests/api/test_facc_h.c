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
    int failed = 0;
    failed += check(err.struct_size == sizeof err && err.status == FACC_OK);
    failed += check(options.struct_size == sizeof options && !options.user);
    failed += check(variant.dtype == 0 && variant.arch == 0);
    failed += check(args.struct_size == sizeof args && args.scale == 0);
    failed += check(cpu.struct_size == sizeof cpu && cpu.f64 == 0);
    failed += check(sizeof(facc_scalar_value) == 8);
    failed += check(sizeof(facc_status) == 4);
    return failed;
}

/* What a build machine does, without a GPU: checks a variant, compiles it for
 * an architecture into the cache, and says what came of it. The deployment has
 * the cache ($FACC_CACHE_DIR) and then needs no NVRTC.
 *
 *     compile_only FILE.lua [ARCH] */
#include <string.h>

#include "example.h"

/* "memory", "disk" or "nvrtc": for each code of the kernel. */
static void tell(void *user, const facc_compile_event *event)
{
    (void)user;
    printf("%s: from %s, %.2f s\n", event->key, event->source, event->seconds);
}

int main(int argc, char **argv)
{
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx;
    facc_program *program;
    facc_kernel *kernel;
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE.lua [ARCH]\n", argv[0]);
        return 2;
    }
    facc_options options = FACC_OPTIONS_INIT;
    options.on_compile = tell;
    must(facc_ctx_create(&ctx, &options, &err), &err);
    must(facc_program_load_file(&program, ctx, argv[1], &err), &err);

    facc_variant variant = FACC_VARIANT_INIT;
    variant.dtype = FACC_BF16;
    variant.head_dim = 128;
    variant.arch = argc > 2 ? atoi(argv[2]) : 90;
    /* Pure: what cannot be is told before anything is compiled. */
    must(facc_kernel_check(ctx, program, &variant, NULL, &err), &err);

    facc_status s = facc_kernel_get(&kernel, ctx, program, &variant, &err);
    if (s == FACC_ERR_NO_NVRTC) {
        fprintf(stderr, "skipped: %s\n", err.message);
        return NO_GPU;
    }
    must(s, &err);
    facc_kernel_info info = FACC_KERNEL_INFO_INIT;
    must(facc_kernel_get_info(kernel, &info), &err);
    printf("%s for sm_%d: tile %d x %d, %d registers, %lld bytes, mask %s\n",
           info.family, info.arch, info.tile_m, info.tile_n, info.registers,
           (long long)info.cubin_bytes, info.tier);

    facc_kernel_free(kernel);
    facc_program_free(program);
    facc_ctx_free(ctx);
    return 0;
}

/* The least that runs attention on device pointers: trace two expressions, get
 * a kernel (from the cache, or compiled), load it, launch it. The result is
 * compared with the CPU's, by the same program. */
#include "example.h"

enum { B = 2, H = 8, HKV = 2, S = 500, D = 64 };
enum { N_Q = B * H * S * D, N_KV = B * HKV * S * D };

static uint16_t q[N_Q], k[N_KV], v[N_KV], got[N_Q], want[N_Q];

/* A copy on the device. */
static void *upload(facc_ctx *ctx, const void *host, size_t bytes)
{
    facc_error err = FACC_ERROR_INIT;
    void *p;
    must(facc_device_alloc(&p, ctx, 0, bytes, &err), &err);
    must(facc_device_upload(ctx, 0, p, host, bytes, &err), &err);
    return p;
}

int main(void)
{
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx;
    facc_program *program;
    facc_kernel *kernel;

    must(facc_ctx_create(&ctx, NULL, &err), &err);
    const facc_declaration window = {
        .name = "window", .dtype = FACC_I32, .is_param = 1};
    must(facc_program_load_expressions(&program, ctx, NULL,
                                       "q >= kv and q - kv < window", &window,
                                       1, &err),
         &err);

    facc_variant variant = FACC_VARIANT_INIT;
    variant.dtype = FACC_F16;
    variant.head_dim = D;
    must(facc_kernel_get(&kernel, ctx, program, &variant, &err), &err);
    must(facc_kernel_load(kernel, 0, &err), &err);

    random_f16(q, N_Q, 1);
    random_f16(k, N_KV, 2);
    random_f16(v, N_KV, 3);
    const facc_scalar_value params[] = {{.i = 100}};
    facc_args args = FACC_ARGS_INIT;
    args.params = params;
    args.n_params = 1;

    args.q = tensor(upload(ctx, q, sizeof q), B, H, S, D);
    args.k = tensor(upload(ctx, k, sizeof k), B, HKV, S, D);
    args.v = tensor(upload(ctx, v, sizeof v), B, HKV, S, D);
    args.o = tensor(upload(ctx, got, sizeof got), B, H, S, D);

    /* This mask is plain bounds and needs none; others keep a schedule here. */
    size_t align;
    must(facc_workspace_size(kernel, &args, &args.workspace_size, &align),
         &err);
    if (args.workspace_size > 0)
        must(facc_device_alloc(&args.workspace, ctx, 0, args.workspace_size,
                               &err),
             &err);

    must(facc_kernel_launch(kernel, &args, NULL, &err), &err);
    must(facc_device_download(ctx, 0, got, args.o.data, sizeof got, &err),
         &err);

    facc_device_free(ctx, 0, args.q.data);
    facc_device_free(ctx, 0, args.k.data);
    facc_device_free(ctx, 0, args.v.data);
    facc_device_free(ctx, 0, args.o.data);
    facc_device_free(ctx, 0, args.workspace);

    args.q.data = q, args.k.data = k, args.v.data = v, args.o.data = want;
    must(facc_cpu_attention(ctx, program, &args, NULL, &err), &err);
    double most = difference(got, want, N_Q);
    printf("largest difference from the CPU: %g\n", most);

    facc_kernel_free(kernel);
    facc_program_free(program);
    facc_ctx_free(ctx);
    return most < 2e-3 ? 0 : 1;
}

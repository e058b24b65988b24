/* Two attention calls on two streams, captured into one CUDA graph that is
 * launched again and again on new data. What capturing needs: kernels got and
 * loaded before, a workspace for each call that may be in flight at the same
 * time, and memory that stays where it is. */
#include <string.h>

#include "driver.h"
#include "example.h"

enum { H = 8, HKV = 2, S = 384, D = 64, N_CALLS = 2, ROUNDS = 3 };
enum { N_Q = H * S * D, N_KV = HKV * S * D };

/* One attention call: host arrays, and its arguments on the device. */
struct call {
    uint16_t q[N_Q], k[N_KV], v[N_KV], got[N_Q];
    int32_t document[S];
    facc_tensor captured;
    facc_args args;
};
static struct call calls[N_CALLS];
static uint16_t want[N_Q];

static void cuda(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s: CUDA error %d\n", what, result);
    exit(1);
}

static void *device_bytes(facc_ctx *ctx, size_t bytes)
{
    facc_error err = FACC_ERROR_INIT;
    void *p = NULL;
    if (bytes > 0)
        must(facc_device_alloc(&p, ctx, 0, bytes, &err), &err);
    return p;
}

static void prepare(struct call *c, facc_ctx *ctx, const facc_kernel *kernel)
{
    facc_error err = FACC_ERROR_INIT;
    size_t align;
    facc_args args = FACC_ARGS_INIT;
    args.q = tensor(device_bytes(ctx, sizeof c->q), 1, H, S, D);
    args.k = tensor(device_bytes(ctx, sizeof c->k), 1, HKV, S, D);
    args.v = tensor(device_bytes(ctx, sizeof c->v), 1, HKV, S, D);
    args.o = tensor(device_bytes(ctx, sizeof c->got), 1, H, S, D);
    c->captured = (facc_tensor){
        device_bytes(ctx, sizeof c->document), FACC_I32, 1, {S}, {1}};
    args.tensors = &c->captured;
    args.n_tensors = 1;
    must(facc_workspace_size(kernel, &args, &args.workspace_size, &align),
         &err);
    args.workspace = device_bytes(ctx, args.workspace_size);
    c->args = args;
}

/* New data where the graph expects it. */
static void refill(struct call *c, facc_ctx *ctx, uint32_t seed)
{
    facc_error err = FACC_ERROR_INIT;
    random_f16(c->q, N_Q, seed);
    random_f16(c->k, N_KV, seed + 1);
    random_f16(c->v, N_KV, seed + 2);
    for (int i = 0; i < S; i++)
        c->document[i] = i / (40 + (int)seed % 100);
    const void *from[] = {c->q, c->k, c->v, c->document};
    void *to[] = {c->args.q.data, c->args.k.data, c->args.v.data,
                  c->captured.data};
    const size_t bytes[] = {sizeof c->q, sizeof c->k, sizeof c->v,
                            sizeof c->document};
    for (int i = 0; i < 4; i++)
        must(facc_device_upload(ctx, 0, to[i], from[i], bytes[i], &err), &err);
}

/* Largest difference of the device's output from the CPU's. */
static double check(struct call *c, facc_ctx *ctx, const facc_program *program)
{
    facc_error err = FACC_ERROR_INIT;
    must(facc_device_download(ctx, 0, c->got, c->args.o.data, sizeof c->got,
                              &err),
         &err);
    facc_args args = c->args;
    facc_tensor document = c->captured;
    args.q.data = c->q, args.k.data = c->k, args.v.data = c->v;
    args.o.data = want, document.data = c->document;
    args.tensors = &document;
    must(facc_cpu_attention(ctx, program, &args, NULL, &err), &err);
    return difference(c->got, want, N_Q);
}

/* Stream 1 joins the capture of stream 0 by an event, and is joined by one. */
static void *capture(const struct driver *cu, facc_kernel *kernel,
                     void *stream[N_CALLS])
{
    facc_error err = FACC_ERROR_INIT;
    void *fork, *join, *graph, *exec;
    const unsigned no_timing = 2;
    cuda(cu->cuEventCreate(&fork, no_timing), "cuEventCreate");
    cuda(cu->cuEventCreate(&join, no_timing), "cuEventCreate");
    cuda(cu->cuStreamBeginCapture(stream[0], 0), "cuStreamBeginCapture");
    cuda(cu->cuEventRecord(fork, stream[0]), "cuEventRecord");
    cuda(cu->cuStreamWaitEvent(stream[1], fork, 0), "cuStreamWaitEvent");
    for (int i = 0; i < N_CALLS; i++)
        must(facc_kernel_launch(kernel, &calls[i].args, stream[i], &err), &err);
    cuda(cu->cuEventRecord(join, stream[1]), "cuEventRecord");
    cuda(cu->cuStreamWaitEvent(stream[0], join, 0), "cuStreamWaitEvent");
    cuda(cu->cuStreamEndCapture(stream[0], &graph), "cuStreamEndCapture");
    cuda(cu->cuGraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
    cuda(cu->cuGraphDestroy(graph), "cuGraphDestroy");
    return exec;
}

int main(void)
{
    static const char text[] =
        "local facc = require 'facc'\n"
        "local document = facc.tensor('document', 'i32', { 'q' })\n"
        "return facc.attention {\n"
        "  mask_mod = function(b, h, q, kv)\n"
        "    return q >= kv and document[q] == document[kv]\n"
        "  end }\n";
    facc_error err = FACC_ERROR_INIT;
    facc_ctx *ctx;
    facc_program *program;
    facc_kernel *kernel;
    const struct driver cu = driver_open();
    must(facc_ctx_create(&ctx, NULL, &err), &err);
    must(facc_program_load_string(&program, ctx, "documents", text,
                                  sizeof text - 1, &err),
         &err);
    facc_variant variant = FACC_VARIANT_INIT;
    variant.dtype = FACC_F16;
    variant.head_dim = D;
    must(facc_kernel_get(&kernel, ctx, program, &variant, &err), &err);
    must(facc_kernel_load(kernel, 0, &err), &err); /* not while capturing */

    int device;
    void *context, *stream[N_CALLS];
    cuda(cu.cuInit(0), "cuInit");
    cuda(cu.cuDeviceGet(&device, 0), "cuDeviceGet");
    cuda(cu.cuDevicePrimaryCtxRetain(&context, device), "context");
    cuda(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    for (int i = 0; i < N_CALLS; i++) {
        cuda(cu.cuStreamCreate(&stream[i], 1), "cuStreamCreate");
        prepare(&calls[i], ctx, kernel);
    }
    void *graph = capture(&cu, kernel, stream);

    double most = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N_CALLS; i++)
            refill(&calls[i], ctx, (uint32_t)(10 * round + 5 * i + 1));
        cuda(cu.cuGraphLaunch(graph, stream[0]), "cuGraphLaunch");
        cuda(cu.cuStreamSynchronize(stream[0]), "cuStreamSynchronize");
        for (int i = 0; i < N_CALLS; i++)
            most = fmax(most, check(&calls[i], ctx, program));
    }
    printf("%d launches of a graph of %d calls, largest difference from the "
           "CPU: %g\n",
           ROUNDS, N_CALLS, most);
    cuda(cu.cuGraphExecDestroy(graph), "cuGraphExecDestroy");
    facc_kernel_free(kernel);
    facc_program_free(program);
    facc_ctx_free(ctx);
    return most < 2e-3 ? 0 : 1;
}

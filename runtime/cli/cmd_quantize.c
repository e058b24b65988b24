/* facc quantize: a tensor of floats to FP8. In: a .npy file. Out: codes, their
 * scales, means and the image of V as .npy files. */
#include "runtime/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: facc quantize IN.npy -o OUT.npy --descale D.npy [options]\n"
    "\n"
    "Rounds Q, K or V, [B, H, S, D] of f32, f16 or bf16 (IN.npy:bf16), to "
    "FP8.\n"
    "\n"
    "  -o, --out OUT.npy    the codes, uint8: facc run takes it as "
    "OUT.npy:e4m3\n"
    "  --dtype e4m3|e5m2    default e4m3\n"
    "  --per tensor|head|N  what shares a scale: all (default), each head, or\n"
    "                       each N rows of a head, a multiple of 32\n"
    "  --descale D.npy      the scales: one number, [B, H] or [B, H, blocks]\n"
    "  --power-of-two       scales are powers of two: good for V\n"
    "  --hadamard           Q and K: random signs by --seed N, then a "
    "Hadamard\n"
    "                       transform of each row; the same for both, so that\n"
    "                       scores stay, and outliers are spread. D is 32, "
    "64,\n"
    "                       128 or 256\n"
    "  --v-mean M.npy       V: subtracts each channel's mean; [B, H, D]\n"
    "  --v-image I.npy      V: transposed as GPU kernels read it (uint8)\n"
    "  --cu-seqlens-kv C.npy  packed sequences: [n + 1] offsets\n"
    "  --device cpu|gpu|gpu:N  default cpu; --threads N of the CPU\n"
    "\n"
    "NaN and infinities become NaN. facc run --per does all of it for one "
    "call.\n"
    "\n"
    "example: facc quantize examples/data/v.npy --per head --power-of-two \\\n"
    "             -o v8.npy --descale dv.npy --v-mean mean.npy\n";

static const char *const allowed[] = {
    "out",      "dtype",         "per",    "descale", "power-of-two",
    "hadamard", "seed",          "v-mean", "v-image", "device",
    "threads",  "cu-seqlens-kv", NULL};

struct quantize {
    facc_ctx *ctx;
    facc_quantize_args a; /* host memory */
    struct array in, cu;
    int device; /* -1: CPU */
};

/* ---- on a GPU ------------------------------------------------------------ */

enum { N_VIEWS = 5 };

static void views_of(facc_quantize_args *a, facc_tensor *out[N_VIEWS])
{
    facc_tensor *const all[N_VIEWS] = {&a->in, &a->out, &a->scale, &a->mean,
                                       &a->image};
    memcpy(out, all, sizeof all);
}

static int upload(struct quantize *q, facc_quantize_args *dev, void **cu)
{
    facc_error err = FACC_ERROR_INIT;
    facc_tensor *from[N_VIEWS], *to[N_VIEWS];
    views_of(&q->a, from);
    views_of(dev, to);
    for (int i = 0; i < N_VIEWS; i++) {
        const size_t bytes = tensor_bytes(from[i]);
        if (from[i]->data &&
            (facc_device_alloc(&to[i]->data, q->ctx, q->device,
                               bytes ? bytes : 1, &err) ||
             (bytes && facc_device_upload(q->ctx, q->device, to[i]->data,
                                          from[i]->data, bytes, &err))))
            return cli_fail_facc(&err);
    }
    if (!q->a.cu_seqlens)
        return EXIT_OK;
    const size_t bytes = tensor_bytes(&q->cu.t);
    if (facc_device_alloc(cu, q->ctx, q->device, bytes, &err) ||
        facc_device_upload(q->ctx, q->device, *cu, q->cu.t.data, bytes, &err))
        return cli_fail_facc(&err);
    dev->cu_seqlens = *cu;
    return EXIT_OK;
}

static int launch(struct quantize *q, facc_quantizer *kernel,
                  facc_quantize_args *dev)
{
    facc_error err = FACC_ERROR_INIT;
    facc_tensor *from[N_VIEWS], *to[N_VIEWS];
    size_t align;
    dev->device = q->device;
    if (facc_quantizer_load(kernel, q->device, &err) ||
        facc_quantizer_workspace_size(kernel, dev, &dev->workspace_size, &align,
                                      &err) ||
        (dev->workspace_size &&
         facc_device_alloc(&dev->workspace, q->ctx, q->device,
                           dev->workspace_size, &err)) ||
        facc_quantizer_launch(kernel, dev, NULL, &err) ||
        facc_device_synchronize(q->ctx, q->device, &err))
        return cli_fail_facc(&err);
    views_of(&q->a, to);
    views_of(dev, from);
    for (int i = 1; i < N_VIEWS; i++) {
        const size_t bytes = tensor_bytes(to[i]);
        if (to[i]->data && bytes &&
            facc_device_download(q->ctx, q->device, to[i]->data, from[i]->data,
                                 bytes, &err))
            return cli_fail_facc(&err);
    }
    return EXIT_OK;
}

static int run_gpu(struct quantize *q)
{
    facc_error err = FACC_ERROR_INIT;
    facc_quantizer *kernel = NULL;
    facc_quantize_variant v = FACC_QUANTIZE_VARIANT_INIT;
    facc_quantize_args dev = q->a;
    facc_tensor *all[N_VIEWS], *host[N_VIEWS];
    void *cu = NULL;
    v.from = q->a.in.dtype;
    v.to = q->a.out.dtype;
    v.head_dim = (int32_t)q->a.in.shape[3];
    v.device = q->device;
    v.hadamard = q->a.hadamard;
    v.mean = q->a.mean.data != NULL;
    v.image = q->a.image.data != NULL;
    if (facc_quantizer_get(&kernel, q->ctx, &v, &err))
        return cli_fail_facc(&err);
    int rc = upload(q, &dev, &cu);
    if (!rc)
        rc = launch(q, kernel, &dev);
    views_of(&dev, all);
    views_of(&q->a, host);
    for (int i = 0; i < N_VIEWS; i++)
        if (all[i]->data && all[i]->data != host[i]->data)
            facc_device_free(q->ctx, q->device, all[i]->data);
    facc_device_free(q->ctx, q->device, cu);
    facc_device_free(q->ctx, q->device, dev.workspace);
    facc_quantizer_free(kernel);
    return rc;
}

/* ---- the call ------------------------------------------------------------ */

static int read_inputs(const struct options *o, struct quantize *q)
{
    int rc = read_array(o->positional[0], &q->in);
    if (!rc && q->in.t.dtype == FACC_F64)
        rc = convert_array(o->positional[0], &q->in, FACC_F32);
    if (!rc && q->in.t.rank != 4)
        rc = cli_fail("%s: rank is %d, expected 4, [B, H, S, D]",
                      o->positional[0], q->in.t.rank);
    if (rc || !o->sequences[SEQ_CU_KV])
        return rc;
    rc = read_array(o->sequences[SEQ_CU_KV], &q->cu);
    if (!rc)
        rc = convert_array("--cu-seqlens-kv", &q->cu, FACC_I32);
    if (!rc && (q->cu.t.rank != 1 || q->cu.t.shape[0] < 2))
        rc = cli_fail("--cu-seqlens-kv: expected [n + 1] offsets");
    return rc;
}

static int make_outputs(const struct options *o, int rank, int block,
                        struct quantize *q)
{
    facc_quantize_args *a = &q->a;
    const int64_t *s = q->in.t.shape;
    const bool packed = q->cu.t.data != NULL;
    const int64_t B = packed ? q->cu.t.shape[0] - 1 : s[0];
    const facc_dtype to = o->dtype ? o->dtype : FACC_E4M3;
    if (B > 1 << 30)
        return cli_fail("too many sequences");
    a->in = q->in.t;
    a->out = new_tensor("the output", to, 4, s);
    a->scale = new_tensor(
        "the scales", FACC_F32, rank,
        (int64_t[]){B, s[1], block ? (s[2] + block - 1) / block : 1});
    if (o->v_mean)
        a->mean =
            new_tensor("the means", FACC_F32, 3, (int64_t[]){B, s[1], s[3]});
    if (o->v_image)
        a->image =
            new_tensor("the image", to, 4,
                       (int64_t[]){packed ? 1 : s[0], s[1],
                                   facc_v_chunks(s[2], packed ? (int32_t)B : 0),
                                   32 * s[3]});
    if (packed) {
        a->cu_seqlens = q->cu.t.data;
        a->n_seqs = (int32_t)B;
        if (a->image.data) /* between sequences nothing is written */
            memset(a->image.data, 0, tensor_bytes(&a->image));
    }
    a->block = block;
    a->power_of_two = o->power_of_two;
    a->hadamard = o->hadamard;
    a->seed = o->seed;
    return EXIT_OK;
}

static int write_file(const char *path, facc_tensor t)
{
    char why[512];
    if (t.dtype == FACC_E4M3 || t.dtype == FACC_E5M2)
        t.dtype = FACC_U8; /* NumPy has no FP8 */
    if (!path || npy_write(path, &t, why, sizeof why))
        return EXIT_OK;
    return cli_fail("%s", why);
}

static int write_files(const struct options *o, const struct quantize *q)
{
    int rc = write_file(o->out, q->a.out);
    if (!rc)
        rc = write_file(o->descale, q->a.scale);
    if (!rc)
        rc = write_file(o->v_mean, q->a.mean);
    return rc ? rc : write_file(o->v_image, q->a.image);
}

/* "gpu" or "gpu:N"; else the CPU. */
static int choose_device(const struct options *o, struct quantize *q)
{
    int64_t n = 0;
    q->device = -1;
    if (!o->device || !strcmp(o->device, "cpu"))
        return EXIT_OK;
    if (strcmp(o->device, "gpu") != 0 &&
        (strncmp(o->device, "gpu:", 4) != 0 ||
         !cli_parse_int(o->device + 4, &n) || n < 0 || n > 1000))
        return cli_usage(&command_quantize,
                         "--device is cpu, gpu or gpu:N, got '%s'", o->device);
    q->device = (int)n;
    return EXIT_OK;
}

static int quantize(const struct options *o, int rank, int block,
                    struct quantize *q)
{
    facc_error err = FACC_ERROR_INIT;
    facc_options options = FACC_OPTIONS_INIT;
    options.cpu_threads = o->threads;
    int rc = choose_device(o, q);
    if (!rc && facc_ctx_create(&q->ctx, &options, &err))
        rc = cli_fail_facc(&err);
    if (!rc)
        rc = read_inputs(o, q);
    if (!rc)
        rc = make_outputs(o, rank, block, q);
    if (!rc && q->device >= 0)
        rc = run_gpu(q);
    else if (!rc && facc_quantize(q->ctx, &q->a, &err))
        rc = cli_fail_facc(&err);
    return rc ? rc : write_files(o, q);
}

static int run(int argc, char **argv)
{
    struct options o;
    struct quantize q = {.a = FACC_QUANTIZE_ARGS_INIT};
    int rank, block;
    int rc = options_parse(&command_quantize, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    if (o.n_positional != 1)
        return cli_usage(&command_quantize, "one IN.npy is wanted, got %d",
                         o.n_positional);
    if (!o.descale || (!o.out && !o.v_image))
        return cli_usage(&command_quantize, "-o OUT.npy (or --v-image) and "
                                            "--descale D.npy are wanted");
    if (!fp8_granularity(&command_quantize, o.per ? o.per : "tensor", &rank,
                         &block))
        return EXIT_USAGE;
    rc = quantize(&o, rank, block, &q);
    free(q.in.t.data);
    free(q.cu.t.data);
    free(q.a.out.data);
    free(q.a.scale.data);
    free(q.a.mean.data);
    free(q.a.image.data);
    facc_ctx_free(q.ctx);
    return rc;
}

const struct command command_quantize = {
    "quantize", "round Q, K or V to FP8 with scales", help, run};

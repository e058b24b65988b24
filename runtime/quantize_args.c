/* Is a call that rounds a tensor to FP8 whole and consistent? In: the caller's
 * facc_quantize_args. Out: its sizes, or a diag that names what does not fit.
 * Called by facc_quantize and by launches of the kernels. */
#include <float.h>
#include <limits.h>
#include <string.h>

#include "compiler/dtype.h"
#include "runtime/error.h"
#include "runtime/quantize.h"
#include "runtime/tensor_check.h"
#include "templates/common/fp8_args.h"

enum { BLOCK_UNIT = 32, IMAGE_ALIGN = 128, ROW_ALIGN = 16, MAX_SIZE = 1 << 30 };

struct check {
    const facc_quantize_args *a;
    struct tensor_report r;
    bool gpu, sizes_only;
    struct quantize_sizes *z;
};

#define FAIL(c, status, ...)                                                   \
    diag_set((c)->r.d, status, (c)->r.stage, NULL, 0, __VA_ARGS__)

/* ---- one tensor ---------------------------------------------------------- */

static bool aligned_to(const struct check *c, const char *name,
                       const facc_tensor *t, size_t align)
{
    return c->sizes_only || tensor_is_aligned(&c->r, name, t, align);
}

/* Rows that kernels read and write 16 elements at a time. */
static bool rows_fit(const struct check *c, const char *name,
                     const facc_tensor *t, int64_t align)
{
    const int64_t size = (int64_t)facc_dtype_size(t->dtype);
    if (!c->gpu || !tensor_has_elements(t))
        return true;
    if (t->stride[3] != 1 && t->shape[3] > 1)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "%s: the last dimension has stride %lld, must be 1: make "
                    "it contiguous",
                    name, (long long)t->stride[3]);
    for (int i = 0; i < 3; i++)
        if (t->shape[i] > 1 && t->stride[i] * size % align != 0)
            return FAIL(c, FACC_ERR_ARGUMENT,
                        "%s: stride %d is no multiple of %lld bytes: make it "
                        "contiguous",
                        name, i, (long long)align);
    return true;
}

/* ---- the call ------------------------------------------------------------ */

static bool dtypes_fit(const struct check *c)
{
    const facc_dtype in = c->a->in.dtype, out = c->a->out.dtype;
    if (in != FACC_F32 && in != FACC_F16 && in != FACC_BF16)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "in: dtype is %s, expected f32, f16 or bf16",
                    facc_dtype_name(in));
    return dtype_is_fp8((enum dtype)out) ||
           FAIL(c, FACC_ERR_ARGUMENT, "out: dtype is %s, expected e4m3 or e5m2",
                facc_dtype_name(out));
}

static bool sizes_fit(const struct check *c)
{
    struct quantize_sizes *z = c->z;
    const facc_tensor *t = &c->a->in;
    if (!tensor_rank_is(&c->r, "in", t, 4, "[B, H, S, D]"))
        return false;
    for (int i = 0; i < 4; i++)
        if (t->shape[i] < 0 || t->shape[i] > MAX_SIZE)
            return FAIL(c, FACC_ERR_ARGUMENT, "in: extent %d is %lld", i,
                        (long long)t->shape[i]);
    *z = (struct quantize_sizes){.B = (int)t->shape[0],
                                 .H = (int)t->shape[1],
                                 .S = (int)t->shape[2],
                                 .D = (int)t->shape[3],
                                 .T = (int)t->shape[2]};
    if (z->D < 1)
        return FAIL(c, FACC_ERR_ARGUMENT, "in: D is 0");
    if ((int64_t)z->B * z->H > MAX_SIZE)
        return FAIL(c, FACC_ERR_UNSUPPORTED, "in: B %d and H %d are too many",
                    z->B, z->H);
    if (c->gpu && (z->D % 8 != 0 || z->D > 256))
        return FAIL(c, FACC_ERR_UNSUPPORTED,
                    "in: D is %d; kernels take multiples of 8 up to 256", z->D);
    return true;
}

static bool packed_fit(const struct check *c)
{
    const facc_quantize_args *a = c->a;
    struct quantize_sizes *z = c->z;
    if (!a->cu_seqlens)
        return (a->n_seqs == 0 && a->max_seqlen == 0) ||
               FAIL(c, FACC_ERR_ARGUMENT,
                    "n_seqs is %d, max_seqlen %d: they are of packed "
                    "sequences, but cu_seqlens is NULL",
                    a->n_seqs, a->max_seqlen);
    if (z->B != 1 || a->n_seqs < 1 || a->max_seqlen < 0)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "packed sequences: B is %d, n_seqs %d, max_seqlen %d; "
                    "expected 1, at least 1, at least 0",
                    z->B, a->n_seqs, a->max_seqlen);
    if ((uintptr_t)a->cu_seqlens % sizeof(int32_t) != 0)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "cu_seqlens must be aligned to 4 bytes");
    z->packed = true;
    z->B = a->n_seqs;
    if (a->max_seqlen > 0 && a->max_seqlen < z->T)
        z->S = a->max_seqlen;
    return true;
}

static bool out_fits(const struct check *c)
{
    const facc_tensor *t = &c->a->out;
    if (!t->data && c->a->image.data && !c->sizes_only)
        return true;
    if (!tensor_rank_is(&c->r, "out", t, 4, "[B, H, S, D]"))
        return false;
    for (int i = 0; i < 4; i++)
        if (!tensor_extent_is(&c->r, "out", t, i, c->a->in.shape[i],
                              "[B, H, S, D]"))
            return false;
    const int align = c->z->D % 64 == 0 ? 16 : 8;
    return aligned_to(c, "out", t, c->gpu ? (size_t)align : 1) &&
           tensor_is_writable(&c->r, "out", t) && rows_fit(c, "out", t, align);
}

static bool scale_fits(const struct check *c)
{
    static const char layout[] = "one number, [B, H] or [B, H, blocks]";
    const facc_tensor *t = &c->a->scale;
    struct quantize_sizes *z = c->z;
    const int block = c->a->block;
    if (t->rank != 0 && t->rank != 2 && t->rank != 3)
        return FAIL(c, FACC_ERR_ARGUMENT, "scale: rank is %d, expected %s",
                    t->rank, layout);
    z->per_tensor = t->rank == 0;
    z->blocks = 1;
    if (!tensor_is_f32(&c->r, "scale", t) ||
        !aligned_to(c, "scale", t, sizeof(float)) ||
        !tensor_is_writable(&c->r, "scale", t))
        return false;
    if (t->rank >= 2 &&
        (!tensor_extent_is(&c->r, "scale", t, 0, z->B, layout) ||
         !tensor_extent_is(&c->r, "scale", t, 1, z->H, layout)))
        return false;
    if (t->rank < 3)
        return true;
    if (block < BLOCK_UNIT || block % BLOCK_UNIT != 0)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "block is %d, but scale has a value for each block of "
                    "rows: it must be a multiple of %d",
                    block, BLOCK_UNIT);
    z->blocks = (int)(((int64_t)z->S + block - 1) / block);
    return tensor_extent_is(&c->r, "scale", t, 2, z->blocks, layout);
}

static bool mean_fits(const struct check *c)
{
    static const char layout[] = "[B, H, D]";
    const facc_tensor *t = &c->a->mean;
    if (!t->data)
        return true;
    return tensor_rank_is(&c->r, "mean", t, 3, layout) &&
           tensor_is_f32(&c->r, "mean", t) &&
           aligned_to(c, "mean", t, sizeof(float)) &&
           tensor_is_writable(&c->r, "mean", t) &&
           tensor_extent_is(&c->r, "mean", t, 0, c->z->B, layout) &&
           tensor_extent_is(&c->r, "mean", t, 1, c->z->H, layout) &&
           tensor_extent_is(&c->r, "mean", t, 2, c->z->D, layout) &&
           (t->stride[2] == 1 || t->shape[2] == 1 ||
            FAIL(c, FACC_ERR_ARGUMENT,
                 "mean: the last dimension has stride %lld, must be 1",
                 (long long)t->stride[2]));
}

static bool image_fits(const struct check *c)
{
    static const char layout[] = "[B, H, chunks, 32 * D]";
    const facc_tensor *t = &c->a->image;
    const struct quantize_sizes *z = c->z;
    const int64_t chunk = (int64_t)FACC_V_CHUNK * z->D;
    const int64_t chunks =
        facc_v_chunks(z->packed ? z->T : z->S, z->packed ? z->B : 0);
    if (!t->data)
        return true;
    if (c->gpu && z->D % 16 != 0)
        return FAIL(c, FACC_ERR_UNSUPPORTED,
                    "image: D is %d; kernels take multiples of 16", z->D);
    if (!tensor_rank_is(&c->r, "image", t, 4, layout) ||
        !tensor_extent_is(&c->r, "image", t, 0, z->packed ? 1 : z->B, layout) ||
        !tensor_extent_is(&c->r, "image", t, 1, z->H, layout) ||
        !tensor_extent_is(&c->r, "image", t, 3, chunk, layout))
        return false;
    if (t->dtype != c->a->out.dtype)
        return FAIL(c, FACC_ERR_ARGUMENT, "image: dtype is %s, expected %s",
                    facc_dtype_name(t->dtype),
                    facc_dtype_name(c->a->out.dtype));
    if (t->shape[2] < chunks)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "image: %lld chunks, %lld are needed (facc_v_chunks)",
                    (long long)t->shape[2], (long long)chunks);
    if (t->stride[3] != 1 || t->stride[2] != chunk ||
        (c->gpu && (t->stride[0] % IMAGE_ALIGN || t->stride[1] % IMAGE_ALIGN)))
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "image: chunks must be contiguous, on the GPU strides "
                    "multiples of %d",
                    IMAGE_ALIGN);
    return aligned_to(c, "image", t, c->gpu ? IMAGE_ALIGN : 1) &&
           tensor_is_writable(&c->r, "image", t);
}

static bool hadamard_fits(const struct check *c)
{
    const int D = c->z->D;
    if (c->a->hadamard && c->a->mean.data)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "mean and hadamard exclude each other: the mean is of V, "
                    "hadamard of Q and K");
    if (!c->a->hadamard || D == 32 || D == 64 || D == 128 || D == 256)
        return true;
    return FAIL(c, FACC_ERR_UNSUPPORTED,
                "hadamard: D is %d; it is for 32, 64, 128 and 256", D);
}

bool quantize_check(const facc_quantize_args *a, bool gpu, bool sizes_only,
                    const char *stage, struct quantize_sizes *z, struct diag *d)
{
    const struct check c = {a, {stage, d}, gpu, sizes_only, z};
    return dtypes_fit(&c) && sizes_fit(&c) && packed_fit(&c) &&
           aligned_to(&c, "in", &a->in,
                      gpu ? ROW_ALIGN : facc_dtype_size(a->in.dtype)) &&
           rows_fit(&c, "in", &a->in, ROW_ALIGN) && hadamard_fits(&c) &&
           scale_fits(&c) && mean_fits(&c) && image_fits(&c) && out_fits(&c);
}

/* ---- numbers ------------------------------------------------------------- */

float quantize_scale(float amax, facc_dtype to, bool power_of_two)
{
    float s = amax / (to == FACC_E4M3 ? 448.0f : 57344.0f);
    uint32_t bits;
    if (amax == 0)
        return 1;
    if (s < FLT_MIN)
        s = FLT_MIN;
    if (!power_of_two)
        return s;
    memcpy(&bits, &s, sizeof bits);
    bits = (bits + 0x7fffff) & 0xff800000u;
    memcpy(&s, &bits, sizeof s);
    return s;
}

/* splitmix64 */
void quantize_signs(uint64_t seed, uint64_t signs[4])
{
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t x = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        signs[i] = x ^ x >> 31;
    }
}

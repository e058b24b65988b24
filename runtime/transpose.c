/* In: the tensors and sizes of an FP8 call. Out: where its image of V is, and
 * the arguments of the kernel that makes it unless the caller has; and which
 * calls are better off without that kernel. */
#include "runtime/transpose.h"

#include <limits.h>
#include <string.h>

#include "runtime/error.h"

enum { ALIGN = 16 };

/* 16 bytes at a time. */
static bool readable(const facc_tensor *v, bool no_data, const char *stage,
                     struct diag *d)
{
    bool fits = no_data || (uintptr_t)v->data % ALIGN == 0;
    for (int i = 0; i < 3; i++)
        fits = fits && (v->shape[i] <= 1 || v->stride[i] % ALIGN == 0);
    return fits ||
           diag_set(d, FACC_ERR_ARGUMENT, stage, NULL, 0,
                    "v: data and strides must be multiples of %d bytes to be "
                    "transposed: make it contiguous, or bring v_image",
                    ALIGN);
}

/* A pass over V costs by keys, transposing it in the kernel by keys and query
 * tiles. On an H200, B * S = 16,384, time in the kernel over time with a pass:
 * D 128, S 2,048 full 0.947, causal 0.909; 8,192 full 1.001, causal 0.982, four
 * heads to a KV head 1.012; D 64, 8,192 0.989, 0.972; D 256, S 1,024 0.949,
 * 0.868; 2,048 1.029, 0.954; 4,096 1.090, 1.025 (two groups of warps hide less
 * of it). */
int32_t facc_transposes_v(int32_t head_dim, int64_t q_rows)
{
    return q_rows <= (head_dim <= 128 ? 8192 : 1024);
}

static int64_t slabs_of(const struct args_sizes *z, int64_t chunks)
{
    const int rows = facc_transpose_rows(z->Dv);
    const int64_t each = (chunks * FACC_V_CHUNK + rows - 1) / rows;
    return z->packed ? z->Tkv / rows + 2 * (int64_t)z->B : z->B * each;
}

static void fill_args(struct transpose *t, const facc_args *a,
                      const struct args_sizes *z, int64_t slabs)
{
    struct facc_transpose_args *to = &t->args;
    to->v = a->v.data;
    for (int i = 0; i < 3; i++)
        to->v_stride[i] = a->v.stride[i];
    to->image = t->image;
    to->image_stride[0] = t->stride[0];
    to->image_stride[1] = t->stride[1];
    to->seqused = a->seqused_kv;
    to->cu_seqlens = a->cu_seqlens_kv;
    to->B = z->B;
    to->Skv = z->Skv;
    to->slabs = (int)slabs;
}

bool transpose_make(const facc_args *a, const struct args_sizes *z, size_t used,
                    const char *stage, struct transpose *out, struct diag *d)
{
    memset(out, 0, sizeof *out);
    if (a->v_image) {
        out->image = a->v_image->data;
        out->stride[0] = z->packed ? 0 : a->v_image->stride[0];
        out->stride[1] = a->v_image->stride[1];
        return true;
    }
    const int64_t chunks =
        facc_v_chunks(z->packed ? z->Tkv : z->Skv, z->packed ? z->B : 0);
    const int64_t slabs = slabs_of(z, chunks), ctas = slabs * z->Hkv;
    if (!readable(&a->v, !a->v.data, stage, d))
        return false;
    if (ctas > INT_MAX)
        return diag_set(d, FACC_ERR_UNSUPPORTED, stage, NULL, 0,
                        "B %d, Hkv %d, Skv %d are too large for one launch: "
                        "split the batch",
                        z->B, z->Hkv, z->Tkv);
    out->stride[1] = chunks * FACC_V_CHUNK * z->Dv;
    out->stride[0] = z->packed ? 0 : z->Hkv * out->stride[1];
    out->bytes =
        (size_t)(z->Hkv * out->stride[1]) * (size_t)(z->packed ? 1 : z->B);
    out->image = (void *)((uintptr_t)a->workspace + used);
    out->grid = z->H > 0 && z->Sq > 0 ? (int)ctas : 0;
    fill_args(out, a, z, slabs);
    return true;
}

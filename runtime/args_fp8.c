/* Do the descales, the means and the image of V that a call with FP8 tensors
 * brings fit it? In: the caller's args and their sizes. Out: nothing, or a diag
 * that names what does not fit. Called by args_check; what they hold is not
 * read, as it may be device memory. */
#include <limits.h>

#include "compiler/dtype.h"
#include "runtime/args.h"
#include "runtime/error.h"
#include "runtime/tensor_check.h"
#include "templates/common/fp8_args.h"

enum { BLOCK_UNIT = 32, IMAGE_ALIGN = 128 };

/* Where and about what a message is. */
struct check {
    const struct args_rules *rules;
    const struct args_sizes *z;
    struct tensor_report r;
};

#define FAIL(c, status, ...)                                                   \
    diag_set((c)->r.d, status, (c)->r.stage, NULL, 0, __VA_ARGS__)

int64_t facc_v_chunks(int64_t rows, int32_t n_seqs)
{
    if (rows < 0 || rows > INT_MAX || n_seqs < 0)
        return 0;
    return n_seqs > 0 ? facc_v_chunk(rows, (int64_t)n_seqs)
                      : (rows + FACC_V_CHUNK - 1) / FACC_V_CHUNK + FACC_V_PAD;
}

static bool readable(const struct check *c, const char *name,
                     const facc_tensor *t, size_t align)
{
    return c->rules->sizes_only || tensor_is_aligned(&c->r, name, t, align);
}

/* ---- descales ----------------------------------------------------------- */

struct descale {
    const char *name, *block_name;
    const facc_tensor *t; /* or NULL */
    int block;            /* rows */
    int rows;             /* of the longest sequence */
    int heads;            /* KV heads; that of Q may have all heads */
    bool q;
};

static bool block_fits(const struct check *c, const struct descale *e)
{
    const int64_t blocks =
        e->block > 0 ? ((int64_t)e->rows + e->block - 1) / e->block : 0;
    if (e->block < BLOCK_UNIT || e->block % BLOCK_UNIT != 0)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "%s is %d, but %s has a value for each block of rows: it "
                    "must be a multiple of %d",
                    e->block_name, e->block, e->name, BLOCK_UNIT);
    if (e->t->shape[2] < blocks)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "%s: %lld blocks of %d rows, %lld are needed for %d rows",
                    e->name, (long long)e->t->shape[2], e->block,
                    (long long)blocks, e->rows);
    if (c->rules->gpu && !c->rules->block_scales)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "%s has a value for each block of rows, but the variant "
                    "is for none: get a kernel with facc_variant.block_scales "
                    "1",
                    e->name);
    return true;
}

static bool descale_fits(const struct check *c, const struct descale *e)
{
    static const char layout[] = "one number, [B, Hkv] or [B, Hkv, blocks]";
    const facc_tensor *t = e->t;
    if (!t)
        return true;
    if (t->rank != 0 && t->rank != 2 && t->rank != 3)
        return FAIL(c, FACC_ERR_ARGUMENT, "%s: rank is %d, expected %s",
                    e->name, t->rank, layout);
    if (!tensor_is_f32(&c->r, e->name, t) ||
        !readable(c, e->name, t, sizeof(float)))
        return false;
    if (t->rank == 0)
        return true;
    const bool all_heads = e->q && t->shape[1] == c->z->H;
    return tensor_extent_is(&c->r, e->name, t, 0, c->z->B, layout) &&
           (all_heads ||
            tensor_extent_is(&c->r, e->name, t, 1, e->heads, layout)) &&
           (t->rank == 2 || block_fits(c, e));
}

static bool descales_fit(const struct check *c, const facc_args *a)
{
    const struct args_sizes *z = c->z;
    const struct descale all[3] = {
        {"descale_q", "descale_block_q", a->descale_q, a->descale_block_q,
         z->Sq, z->Hkv, true},
        {"descale_k", "descale_block_kv", a->descale_k, a->descale_block_kv,
         z->Skv, z->Hkv, false},
        {"descale_v", "descale_block_kv", a->descale_v, a->descale_block_kv,
         z->Skv, z->Hkv, false}};
    bool blocks = false;
    for (int i = 0; i < 3; i++) {
        if (!descale_fits(c, &all[i]))
            return false;
        blocks |= all[i].t && all[i].t->rank == 3;
    }
    if (c->rules->gpu && c->rules->block_scales && !blocks)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "the variant is for descales of blocks of rows, but "
                    "descale_q, descale_k and descale_v have none: get a "
                    "kernel with facc_variant.block_scales 0");
    return true;
}

/* ---- V ------------------------------------------------------------------ */

static bool v_mean_fits(const struct check *c, const facc_tensor *t)
{
    static const char name[] = "v_mean", layout[] = "[B, Hkv, Dv]";
    if (!t)
        return true;
    if (t->rank != 3)
        return FAIL(c, FACC_ERR_ARGUMENT, "%s: rank is %d, expected 3 (%s)",
                    name, t->rank, layout);
    if (t->stride[2] != 1 && t->shape[2] > 1)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "%s: the last dimension has stride %lld, must be 1", name,
                    (long long)t->stride[2]);
    return tensor_is_f32(&c->r, name, t) &&
           readable(c, name, t, sizeof(float)) &&
           tensor_extent_is(&c->r, name, t, 0, c->z->B, layout) &&
           tensor_extent_is(&c->r, name, t, 1, c->z->Hkv, layout) &&
           tensor_extent_is(&c->r, name, t, 2, c->z->Dv, layout);
}

static bool image_strides_fit(const struct check *c, const facc_tensor *t)
{
    const int64_t chunk = (int64_t)FACC_V_CHUNK * c->z->Dv;
    if (t->stride[3] != 1 || t->stride[2] != chunk)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "v_image: chunks must be contiguous: strides 2 and 3 are "
                    "%lld and %lld, expected %lld and 1",
                    (long long)t->stride[2], (long long)t->stride[3],
                    (long long)chunk);
    for (int i = 0; i < 2 && c->rules->gpu; i++)
        if (t->shape[i] > 1 && (t->stride[i] < 0 || t->stride[i] % IMAGE_ALIGN))
            return FAIL(c, FACC_ERR_ARGUMENT,
                        "v_image: stride %d is %lld bytes, must be a multiple "
                        "of %d",
                        i, (long long)t->stride[i], IMAGE_ALIGN);
    return true;
}

static bool v_image_fits(const struct check *c, const facc_tensor *t,
                         facc_dtype dtype)
{
    static const char name[] = "v_image",
                      layout[] = "[B, Hkv, chunks, 32 * Dv]";
    const struct args_sizes *z = c->z;
    if (!t)
        return true;
    if (c->rules->gpu && c->rules->transposes_v)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "v_image is given, but the variant's kernel transposes V "
                    "itself: get a kernel with facc_variant.transposes_v 0");
    if (t->rank != 4)
        return FAIL(c, FACC_ERR_ARGUMENT, "%s: rank is %d, expected 4 (%s)",
                    name, t->rank, layout);
    if (t->dtype != dtype)
        return FAIL(c, FACC_ERR_ARGUMENT, "%s: dtype is %s, expected %s", name,
                    facc_dtype_name(t->dtype), facc_dtype_name(dtype));
    const int64_t chunks =
        facc_v_chunks(z->packed ? z->Tkv : z->Skv, z->packed ? z->B : 0);
    if (t->shape[2] < chunks)
        return FAIL(c, FACC_ERR_ARGUMENT,
                    "%s: %lld chunks, %lld are needed (facc_v_chunks)", name,
                    (long long)t->shape[2], (long long)chunks);
    return tensor_extent_is(&c->r, name, t, 0, z->packed ? 1 : z->B, layout) &&
           tensor_extent_is(&c->r, name, t, 1, z->Hkv, layout) &&
           tensor_extent_is(&c->r, name, t, 3, (int64_t)FACC_V_CHUNK * z->Dv,
                            layout) &&
           image_strides_fit(c, t) &&
           readable(c, name, t, c->rules->gpu ? IMAGE_ALIGN : 1);
}

bool args_fp8(const facc_args *a, const struct args_rules *rules,
              const struct args_sizes *z, struct diag *d)
{
    const struct check c = {rules, z, {rules->stage, d}};
    if (dtype_is_fp8((enum dtype)a->v.dtype))
        return descales_fit(&c, a) && v_mean_fits(&c, a->v_mean) &&
               v_image_fits(&c, a->v_image, a->v.dtype);
    if (!a->descale_q && !a->descale_k && !a->descale_v && !a->v_mean &&
        !a->v_image)
        return true;
    return FAIL(&c, FACC_ERR_ARGUMENT,
                "descale_q, descale_k, descale_v, v_mean and v_image are for "
                "e4m3 and e5m2; q, k and v are %s",
                facc_dtype_name(a->v.dtype));
}

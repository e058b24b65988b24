/* In: the tensors of a call. Out: whether TMA takes them, and the descriptors
 * that a kernel of family sm90 loads its tiles and stores its output by. A
 * descriptor has four dimensions, the head dim's columns, rows, heads, batch; a
 * box is a panel of 128 bytes (FP8 of head dim 64: 64) by the rows of a tile,
 * swizzled as wgmma reads it. FP8 kernels load V by one only where they
 * transpose it. Columns behind the head dim, and rows behind the tensor, are
 * read as 0 and not written. */
#include "runtime/tensor_map.h"

enum { ALIGN = 16, PANEL_BYTES = 128, Q_ROWS = 64, O_ROWS = 16, RANK = 4 };
static const int64_t max_stride = INT64_C(1) << 40; /* bytes, below */

struct check {
    const char *stage;
    bool fp8; /* there is one code alone */
    struct diag *d;
};

static const char *way_out(const struct check *c)
{
    return c->fp8
               ? ""
               : ", or get the kernel with variant.layout FACC_LAYOUT_ANY (and "
                 "FACC_FAMILY_AUTO), which has code for others, too";
}

static bool refuse(const struct check *c, const char *name, int dim,
                   int64_t value)
{
    return diag_set(c->d, FACC_ERR_ARGUMENT, c->stage, NULL, 0,
                    "%s: stride %d is %lld elements: family sm90 takes strides "
                    "that are multiples of 16 bytes, not negative and below "
                    "2^40, and rows that do not overlap; make the tensor "
                    "contiguous%s",
                    name, dim, (long long)value, way_out(c));
}

static bool address_fits(const struct check *c, const char *name,
                         const facc_tensor *t)
{
    if ((uintptr_t)t->data % ALIGN == 0)
        return true;
    return diag_set(c->d, FACC_ERR_ARGUMENT, c->stage, NULL, 0,
                    "%s: data (%p) is not aligned to 16 bytes, which family "
                    "sm90 needs; move the tensor%s",
                    name, t->data, way_out(c));
}

static bool has_elements(const facc_tensor *t)
{
    for (int i = 0; i < RANK; i++)
        if (t->shape[i] == 0)
            return false;
    return true;
}

/* Strides of b, h and rows, by TMA, which knows no sign; a tensor that is
 * broadcast over b or h is one of extent 1 there. */
static bool fits(const struct check *c, const char *name, const facc_tensor *t)
{
    const int64_t size = (int64_t)facc_dtype_size(t->dtype);
    if (!has_elements(t))
        return true; /* nothing is read or written */
    if (!address_fits(c, name, t))
        return false;
    for (int i = 2; i >= 0; i--) { /* rows, whose stride decides the others */
        const int64_t bytes = t->stride[i] * size;
        const int64_t least = i == 2 ? t->shape[3] * size : 0;
        if (t->shape[i] == 1)
            continue;
        if (bytes % ALIGN != 0 || bytes < least || bytes >= max_stride)
            return refuse(c, name, i, t->stride[i]);
    }
    return true;
}

static bool loads_v(const struct unit_config *c)
{
    return !dtype_is_fp8(c->dtype) || c->transposes_v;
}

bool tensor_map_possible(const facc_args *a, const struct unit_config *config,
                         const char *stage, struct diag *d)
{
    const struct check c = {stage, dtype_is_fp8((enum dtype)a->q.dtype), d};
    return fits(&c, "q", &a->q) && fits(&c, "k", &a->k) &&
           (!loads_v(config) || fits(&c, "v", &a->v)) && fits(&c, "o", &a->o);
}

static int element_of(facc_dtype t)
{
    if (dtype_is_fp8((enum dtype)t))
        return CU_MAP_UINT8;
    return t == FACC_F16 ? CU_MAP_FLOAT16 : CU_MAP_BFLOAT16;
}

/* Without elements there is nothing to load: then any map that is valid, and
 * one is needed, as kernels prefetch it. */
static bool encode(const struct driver *drv, const facc_tensor *t, void *spare,
                   int rows, unsigned char *map, const char *stage,
                   struct diag *d)
{
    const bool any = !has_elements(t);
    const uint64_t size = facc_dtype_size(t->dtype);
    uint64_t extent[RANK] = {(uint64_t)t->shape[3], 1, 1, 1};
    uint64_t stride[RANK - 1];
    const bool narrow = (uint64_t)t->shape[3] * size < PANEL_BYTES &&
                        dtype_is_fp8((enum dtype)t->dtype);
    const uint32_t panel =
        (uint32_t)((narrow ? PANEL_BYTES / 2 : PANEL_BYTES) / size);
    const uint32_t box[RANK] = {panel, (uint32_t)rows, 1, 1};
    const uint32_t step[RANK] = {1, 1, 1, 1};
    for (int k = 0; k < RANK - 1; k++) { /* of rows, heads, batch */
        const int i = 2 - k;
        const bool one = any || t->shape[i] == 1 || t->stride[i] == 0;
        extent[k + 1] = one ? 1 : (uint64_t)t->shape[i];
        stride[k] =
            size * (one ? (uint64_t)t->shape[3] : (uint64_t)t->stride[i]);
    }
    return driver_ok(drv,
                     drv->TensorMapEncodeTiled(
                         map, element_of(t->dtype), RANK, any ? spare : t->data,
                         extent, stride, box, step, 0,
                         narrow ? CU_MAP_SWIZZLE_64B : CU_MAP_SWIZZLE_128B,
                         CU_MAP_L2_256B, 0),
                     stage, "cuTensorMapEncodeTiled", d);
}

bool tensor_map_encode(const struct driver *drv, const struct unit_config *c,
                       const facc_args *a, unsigned char (*map)[128],
                       const char *stage, struct diag *d)
{
    /* Rows of O, or a schedule's: one of them is there, and aligned. */
    void *spare = has_elements(&a->o) ? a->o.data : a->workspace;
    /* kOutputStaged of templates/sm90/shape.cuh */
    const bool stores =
        c->q_buffers == 2 && c->out_dtype != DTYPE_F32 && !c->packed;
    return encode(drv, &a->q, spare, Q_ROWS, map[0], stage, d) &&
           encode(drv, &a->k, spare, c->tile_n, map[1], stage, d) &&
           (!loads_v(c) ||
            encode(drv, &a->v, spare, c->tile_n, map[2], stage, d)) &&
           (!stores || encode(drv, &a->o, spare, O_ROWS, map[3], stage, d));
}

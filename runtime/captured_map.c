/* In: the captured tensors of a call that kernels of family sm90 load by TMA:
 * the two of a term that joins Q K^T, and the one whose tiles are copied. Out:
 * whether TMA takes them, and the descriptors. A descriptor has five
 * dimensions: a row's columns, the rows, then the tensor's others in order
 * (templates/common/extra.cuh). A box is a panel of up to 128 bytes by the rows
 * of a tile, swizzled as wide as its rows. What is behind the tensor is read as
 * 0. */
#include "runtime/captured_map.h"
#include "runtime/tensor_check.h"

enum { ALIGN = 16, Q_ROWS = 64, RANK = 5 };
static const int64_t max_stride = INT64_C(1) << 40; /* bytes, below */

void dot_tensors_of(const struct dot_term *dot, struct dot_tensors *out)
{
    *out = (struct dot_tensors){.columns = 0};
    if (!dot)
        return;
    out->columns = dot->n;
    out->row =
        (struct captured_rows){dot->row.tensor, dot->row.dim, dot->row.shifted};
    out->col =
        (struct captured_rows){dot->col.tensor, dot->col.dim, dot->col.shifted};
}

struct plane_tensor plane_tensor_of(const struct plane *plane)
{
    return (struct plane_tensor){
        plane->bytes,
        {plane->rows.tensor, plane->rows.dim, plane->rows.shifted}};
}

struct check {
    const char *stage;
    struct diag *d;
};

static const char way_out[] = "get the kernel with variant.layout "
                              "FACC_LAYOUT_ANY (and FACC_FAMILY_AUTO), which "
                              "has code for others, too";

static bool fits_stride(const struct check *c, const char *name,
                        const facc_tensor *t, const struct captured_rows *side,
                        int i)
{
    const int64_t bytes = t->stride[i] * (int64_t)facc_dtype_size(t->dtype);
    const bool last = i == t->rank - 1, rows = i == side->dim;
    if (last ? t->stride[i] == 1
             : t->shape[i] == 1 || (t->stride[i] == 0 && !rows) ||
                   (bytes % ALIGN == 0 && bytes > 0 && bytes < max_stride))
        return true;
    return diag_set(c->d, FACC_ERR_ARGUMENT, c->stage, NULL, 0,
                    "captured tensor \"%s\": stride %d is %lld elements: "
                    "family sm90 reads the rows of facc.dot where their "
                    "elements are contiguous and other strides are positive "
                    "multiples of 16 bytes below 2^40 (0 for b, h); make it "
                    "contiguous, or %s",
                    name, i, (long long)t->stride[i], way_out);
}

static bool fits(const struct check *c, const char *name, const facc_args *a,
                 const struct captured_rows *side)
{
    const facc_tensor *t = &a->tensors[side->tensor];
    if (a->q.shape[2] == 0 || a->k.shape[2] == 0)
        return true; /* nothing is read that counts */
    if (!tensor_has_elements(t))
        return diag_set(c->d, FACC_ERR_ARGUMENT, c->stage, NULL, 0,
                        "captured tensor \"%s\" has no elements, and family "
                        "sm90 reads its rows for facc.dot; %s",
                        name, way_out);
    if ((uintptr_t)t->data % ALIGN != 0)
        return diag_set(c->d, FACC_ERR_ARGUMENT, c->stage, NULL, 0,
                        "captured tensor \"%s\": data (%p) is not aligned to "
                        "16 bytes, which family sm90 needs for facc.dot; move "
                        "it, or %s",
                        name, t->data, way_out);
    for (int i = t->rank - 1; i >= 0; i--)
        if (!fits_stride(c, name, t, side, i))
            return false;
    return true;
}

bool dot_map_possible(const struct dot_tensors *dot, const struct signature *s,
                      const facc_args *a, const char *stage, struct diag *d)
{
    const struct check c = {stage, d};
    return dot->columns == 0 ||
           (fits(&c, s->tensors[dot->row.tensor].name, a, &dot->row) &&
            fits(&c, s->tensors[dot->col.tensor].name, a, &dot->col));
}

bool plane_map_possible(const struct plane_tensor *plane, const facc_args *a)
{
    const struct check quiet = {NULL, NULL};
    return a->q.shape[2] > 0 && a->k.shape[2] > 0 &&
           fits(&quiet, "", a, &plane->rows);
}

/* ---- encoding ------------------------------------------------------------ */

struct map {
    uint64_t extent[RANK], stride[RANK - 1]; /* strides in bytes */
};

/* Broadcast dimensions have one index. */
static void add_dim(struct map *m, int k, const facc_tensor *t, int i,
                    uint64_t extent)
{
    const bool one = extent <= 1 || t->stride[i] == 0;
    m->extent[k] = one ? 1 : extent;
    m->stride[k - 1] =
        one ? ALIGN : facc_dtype_size(t->dtype) * (uint64_t)t->stride[i];
}

/* Rows behind the lengths are another's, or nothing, unless the index says
 * otherwise. */
static uint64_t rows_of(const facc_tensor *t, const struct captured_rows *side,
                        int length)
{
    const int64_t rows = t->shape[side->dim];
    return (uint64_t)(side->shifted || rows < length ? rows : length);
}

static void describe(const facc_tensor *t, const struct captured_rows *side,
                     int columns, int length, struct map *m)
{
    int k = 2;
    m->extent[0] = (uint64_t)columns;
    add_dim(m, 1, t, side->dim, rows_of(t, side, length));
    for (int i = 0; i + 1 < t->rank; i++)
        if (i != side->dim)
            add_dim(m, k++, t, i, (uint64_t)t->shape[i]);
    for (; k < RANK; k++) {
        m->extent[k] = 1;
        m->stride[k - 1] = ALIGN;
    }
}

/* Boxes of `rows` rows of so many bytes, or 128 where they have more. */
static bool encode(const struct driver *drv, const facc_tensor *t,
                   const struct map *m, int bytes, int rows, unsigned char *map,
                   const char *stage, struct diag *d)
{
    const uint32_t step[RANK] = {1, 1, 1, 1, 1};
    const int width = bytes <= 32 ? 32 : bytes <= 64 ? 64 : 128;
    const uint32_t box[RANK] = {(uint32_t)width /
                                    (uint32_t)facc_dtype_size(t->dtype),
                                (uint32_t)rows, 1, 1, 1};
    const int swizzle = width == 32   ? CU_MAP_SWIZZLE_32B
                        : width == 64 ? CU_MAP_SWIZZLE_64B
                                      : CU_MAP_SWIZZLE_128B;
    const int type = t->dtype == FACC_F16    ? CU_MAP_FLOAT16
                     : t->dtype == FACC_BF16 ? CU_MAP_BFLOAT16
                                             : CU_MAP_FLOAT32;
    return driver_ok(drv,
                     drv->TensorMapEncodeTiled(map, type, RANK, t->data,
                                               m->extent, m->stride, box, step,
                                               0, swizzle, CU_MAP_L2_256B, 0),
                     stage, "cuTensorMapEncodeTiled (captured tensor)", d);
}

/* spare: nothing is read that counts; any map that is valid, since kernels
 * load by it. */
static bool encode_rows(const struct driver *drv, const facc_tensor *t,
                        const facc_tensor *spare,
                        const struct captured_rows *side, int columns,
                        int length, int rows, unsigned char *map,
                        const char *stage, struct diag *d)
{
    struct map m;
    facc_tensor x = *t;
    if (spare) {
        x = (facc_tensor){.data = spare->data, .dtype = t->dtype, .rank = 2};
        x.shape[0] = x.shape[1] = 1;
        if (columns > spare->shape[3])
            columns = (int)spare->shape[3];
        describe(&x, &(struct captured_rows){.dim = 0}, columns, 1, &m);
    } else {
        describe(&x, side, columns, length, &m);
    }
    return encode(drv, &x, &m, columns * (int)facc_dtype_size(t->dtype), rows,
                  map, stage, d);
}

bool dot_map_encode(const struct driver *drv, const struct dot_tensors *dot,
                    int tile_n, const facc_args *a, const struct args_sizes *z,
                    unsigned char (*map)[128], const char *stage,
                    struct diag *d)
{
    const facc_tensor *spare = a->k.shape[2] == 0 ? &a->q : NULL;
    return encode_rows(drv, &a->tensors[dot->row.tensor], spare, &dot->row,
                       dot->columns, z->Sq, Q_ROWS, map[0], stage, d) &&
           encode_rows(drv, &a->tensors[dot->col.tensor], spare, &dot->col,
                       dot->columns, z->Skv, tile_n, map[1], stage, d);
}

/* As wide as a tile's row has such parts. */
bool plane_map_encode(const struct driver *drv,
                      const struct plane_tensor *plane, int tile_m, int tile_n,
                      const facc_args *a, const struct args_sizes *z,
                      unsigned char map[128], const char *stage, struct diag *d)
{
    const facc_tensor *t = &a->tensors[plane->rows.tensor];
    const int bytes = tile_n * plane->bytes;
    const int width = bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : 32;
    struct map m;
    describe(t, &plane->rows, (int)t->shape[t->rank - 1], z->Sq, &m);
    return encode(drv, t, &m, width, tile_m, map, stage, d);
}

#include "runtime/tensor_check.h"

#define FAIL(...)                                                              \
    diag_set(r->d, FACC_ERR_ARGUMENT, r->stage, NULL, 0, __VA_ARGS__)

bool tensor_has_elements(const facc_tensor *t)
{
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] == 0)
            return false;
    return true;
}

bool tensor_is_f32(const struct tensor_report *r, const char *name,
                   const facc_tensor *t)
{
    return t->dtype == FACC_F32 || FAIL("%s: dtype is %s, expected f32", name,
                                        facc_dtype_name(t->dtype));
}

bool tensor_rank_is(const struct tensor_report *r, const char *name,
                    const facc_tensor *t, int rank, const char *layout)
{
    return t->rank == rank || FAIL("%s: rank is %d, expected %d (%s)", name,
                                   t->rank, rank, layout);
}

bool tensor_extent_is(const struct tensor_report *r, const char *name,
                      const facc_tensor *t, int dim, int64_t want,
                      const char *layout)
{
    return t->shape[dim] == want ||
           FAIL("%s: extent %d is %lld, expected %lld (%s)", name, dim,
                (long long)t->shape[dim], (long long)want, layout);
}

bool tensor_is_aligned(const struct tensor_report *r, const char *name,
                       const facc_tensor *t, size_t align)
{
    if (!tensor_has_elements(t))
        return true;
    if (!t->data)
        return FAIL("%s: data is NULL", name);
    return (uintptr_t)t->data % align == 0 ||
           FAIL("%s: data is not aligned to %zu bytes", name, align);
}

bool tensor_is_writable(const struct tensor_report *r, const char *name,
                        const facc_tensor *t)
{
    for (int i = 0; i < t->rank && tensor_has_elements(t); i++)
        if (t->stride[i] == 0 && t->shape[i] > 1)
            return FAIL("%s: stride %d is 0 (a broadcast): an output needs "
                        "memory of its own",
                        name, i);
    return true;
}

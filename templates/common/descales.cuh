// Descales of FP8 tensors: what their elements are to be multiplied by. One for all, for each b or
// head, or (kBlockScales) for each block of rows.
#pragma once
#include "common/args.cuh"
#include "common/variant_ptx.cuh"

// Of the first block, where there are blocks; or 0.
FACC_FN const float *descale_at(const float *first, const long long (&stride)[3], int b, int h)
{
    return first ? first + b * stride[0] + h * stride[1] : first;
}

FACC_FN float descale_of(const float *first, const long long (&stride)[3], int b, int h)
{
    const float *at = descale_at(first, stride, b, h);
    return at ? *at : 1.0f;
}

// The softmax scale times the descales of Q and K. Those of blocks are not in it.
FACC_FN float facc_descaled(const KernelArgs &args, int b, int h)
{
    if (kBlockScales)
        return args.scale;
    const facc_fp8 &f = args.fp8;
    return args.scale * descale_of(f.descale_q, f.descale_q_stride, b, h / f.descale_q_group) *
           descale_of(f.descale_k, f.descale_k_stride, b, h / args.group);
}

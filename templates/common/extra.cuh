// Columns that join the products of Q K^T besides the head dim's, kExtraDim of them: of rows of two
// captured tensors, which facc.dot multiplies. Variant::DotRows and Variant::DotCols say where they
// lie, Variant::dot_factor(args, t) by what their product is multiplied. What is here is only
// instantiated where there are some: other programs have no such members.
#pragma once
#include "common/args.cuh"
#include "facc_variant.cuh"

// Where the rows of a (b, h) lie in one of the two tensors: that of position i, counted from the
// sequence's first, has the index position + i in dimension kDim, and in the others, one after the
// other, other[] (0 where the tensor is broadcast: stride 0).
struct ExtraPlace {
    int position, other[FACC_MAX_RANK - 2];
};

template <class Side, class Args>
__device__ __forceinline__ ExtraPlace extra_place(const Args &args, const Variant::Tile &t)
{
    constexpr int kFar = 1 << 30; // behind any tensor, and far from overflow
    const auto &x = args.tensors[Side::kTensor];
    int at[Side::kRank - 1], n = 0;
    Side::at(args, t, at);
    ExtraPlace p = {};
    p.position = max(-kFar, min(at[Side::kDim], kFar));
#pragma unroll
    for (int d = 0; d < Side::kRank - 1; ++d)
        if (d != Side::kDim)
            p.other[n++] = x.stride[d] ? max(0, min(at[d], x.shape[d] - 1)) : 0;
    return p;
}

// S = Q K^T + factor * (the product of the extra columns). 1: nothing is to be multiplied; so for
// what differs from 1 by roundings of a quotient.
template <class V, class Args>
__device__ __forceinline__ float extra_factor(const Args &args, const Variant::Tile &t)
{
    const float factor = V::dot_factor(args, t) / args.scale;
    return fabsf(factor - 1.0f) <= 2.4e-7f ? 1.0f : factor;
}

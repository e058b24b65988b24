// Attention sinks: a logit of each query head that joins the denominator of its rows and has no
// value. Asks the family for KernelArgs, Work, exp2_fast.
#pragma once

__device__ __forceinline__ float sink_of(const KernelArgs &args, const Work &w)
{
    return args.sinks[w.h * args.sinks_stride];
}

// A row's new reference, and what its sum and output so far, against the old one, are to be
// multiplied by. Of a row that attends; where the sink is +inf or NaN the weight is NaN.
struct Sunk {
    float sink;   // in natural units, as given
    float top;    // in log2 units: the larger of reference and sink
    float factor; // 2^(reference - top)
    float weight; // 2^(sink - top)

    __device__ __forceinline__ Sunk(const KernelArgs &args, const Work &w, float reference)
    {
        constexpr float kLog2e = 1.44269504088896340f;
        sink = sink_of(args, w);
        const float own = sink * kLog2e;
        top = fmaxf(reference, own);
        factor = exp2_fast(reference - top);
        weight = exp2_fast(own - top);
    }
};

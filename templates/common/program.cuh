// What the program asks of a forward kernel, of any family.
#pragma once
#include "facc_config.cuh"
#include "facc_variant.cuh"

// True: the softmax takes the accumulators as they are and folds the scale into its exponent.
constexpr bool kRawScores = !Variant::kHasScore && !(Variant::kHasMask && Variant::kMaskNeedsScore);
// True: cells inside the lengths may not count.
constexpr bool kMasks = Variant::kHasMask || kBlockMask;
// True: every tile is masked cell by cell, so no branch asks whether.
constexpr bool kMaskAtOnce =
    Variant::kHasMask && Variant::kAlwaysPartial && !Variant::kScanned && !kBlockMask;
__device__ __forceinline__ float minus_infinity()
{
    return __int_as_float(0xff800000);
}

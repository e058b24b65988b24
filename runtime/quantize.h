/* What the CPU and the kernels have in common that round tensors to FP8: the
 * checks of a call, scales, signs. */
#ifndef FACC_QUANTIZE_H
#define FACC_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/support/diag.h"
#include "runtime/facc.h"

struct quantize_sizes {
    int B, H, S, D; /* packed: B sequences, the longest of S rows */
    int T;          /* rows of the tensor: S unless packed */
    int blocks;     /* scales of a (b, head): of rank 3, else 1 */
    bool packed, per_tensor;
};

/* gpu: with contiguous rows at multiples of 16 bytes. sizes_only: data may be
 * NULL. Reads no tensor's memory. */
bool quantize_check(const facc_quantize_args *a, bool gpu, bool sizes_only,
                    const char *stage, struct quantize_sizes *z,
                    struct diag *d);

/* Of values whose largest magnitude, of those that are finite, is `amax`. The
 * kernels' scale_of in templates/common/quantize.cuh does the same. */
float quantize_scale(float amax, facc_dtype to, bool power_of_two);
/* Bit d % 64 of word d / 64: channel d changes its sign. */
void quantize_signs(uint64_t seed, uint64_t signs[4]);

#endif

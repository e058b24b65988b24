/* Arguments of the kernels that round a tensor to FP8 (common/quantize.cu),
 * included by the C runtime and by that template. */
#ifndef FACC_QUANTIZE_ARGS_H
#define FACC_QUANTIZE_ARGS_H

enum { FACC_REDUCE_THREADS = 1024, FACC_MOST_SLABS = 8 /* to a CTA */ };

/* A CTA has a slab of rows of one head: up to facc_slab_rows(D), 128 at least.
 * twice: from f32, or with hadamard. */
#define facc_slab_rows(D) (((D) > 128 ? 1024 : 512) / (D)*32)
#define facc_round_threads(D, twice) (((D) > 128 ? 256 : 128) << (twice))

/* n / d is (umulhi(n, mul) + n) >> shift, of n below 2^31. */
struct facc_divisor {
    unsigned mul, shift;
};

/* Slabs have ids: a sequence's rows are cut into units, a unit into `parts`
 * slabs. Units of sequence b begin at b * ceil(S / unit), those of packed ones
 * at cu_seqlens[b] / unit + b, which leaves gaps. Unit and block of rows are
 * one if a block is more than a slab; else a unit is a slab of whole blocks
 * (fused), or there are no blocks. */
struct facc_rounding {
    const void *in; /* [B][H][S][D]; strides of (b, h, row) in elements */
    long long in_stride[3];
    unsigned char *out; /* or 0 */
    long long out_stride[3];
    unsigned char *image; /* or 0; bytes, of (b, h) */
    long long image_stride[2];
    float *scale; /* of (b, h, block); 0 where shared */
    long long scale_stride[3];
    float *mean; /* [B][H][D], or 0 */
    long long mean_stride[2];
    /* The workspace: [H][slabs], negative where not all values are finite; with
     * means and no blocks [B * H]. */
    float *amax;
    float *sums; /* with means: [3][H * slabs][D]: sums, largest, least */
    const int *cu_seqlens;
    unsigned long long signs[4];
    int B, H, S; /* packed: sequences, rows of the longest */
    int block;   /* rows to a scale; 0: those of a head, or all */
    int unit, parts, slab;
    int units;     /* of a sequence that is not packed */
    int slabs;     /* ids of a head */
    int all, ctas; /* ids; CTAs that share them out among themselves */
    int fused;     /* blocks are within slabs: their scales are found there */
    int per_tensor, power_of_two;
    float norm; /* 1 / sqrt(D), of hadamard */
    struct facc_divisor by_unit, by_parts, by_units, by_slabs;
};

#ifdef __cplusplus
static_assert(sizeof(facc_rounding) == 296, "the runtime lays it out");
#else
_Static_assert(sizeof(struct facc_rounding) == 296, "as the template has it");
#endif

#endif

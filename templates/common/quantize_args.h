/* Arguments of the kernels that round a tensor to FP8 (common/quantize.cu),
 * included by the C runtime and by that template. */
#ifndef FACC_QUANTIZE_ARGS_H
#define FACC_QUANTIZE_ARGS_H

enum { FACC_QUANTIZE_THREADS = 256, FACC_REDUCE_THREADS = 1024 };

/* A CTA has a slab of rows of one head: up to facc_slab_rows(D), 32 elements of
 * a row to a thread, two rows to a thread. */
#define facc_row_lanes(D) (((D) + 31) / 32)
#define facc_step_rows(D) (32 / facc_row_lanes(D) * (FACC_QUANTIZE_THREADS / 32))
#define facc_slab_rows(D) (2 * facc_step_rows(D) / 32 * 32)

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
    float *amax; /* [H][slabs], with means [B * H]: the workspace */
    float *sums; /* with means: [3][H * slabs][D]: sums, largest, least */
    const int *cu_seqlens;
    unsigned long long signs[4];
    int B, H, S; /* packed: sequences, rows of the longest */
    int block;   /* rows to a scale; 0: those of a head, or all */
    int unit, parts, slab;
    int slabs; /* ids of a head */
    int fused; /* blocks are within slabs: their scales are found there */
    int per_tensor, power_of_two;
    float norm; /* 1 / sqrt(D), of hadamard */
};

#ifdef __cplusplus
static_assert(sizeof(facc_rounding) == 248, "the runtime lays it out");
#else
_Static_assert(sizeof(struct facc_rounding) == 248, "as the template has it");
#endif

#endif

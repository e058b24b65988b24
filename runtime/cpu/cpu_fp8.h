/* What FP8 calls bring besides Q, K and V, on the CPU: descales, means and the
 * image of V. Products are of the elements as they are; scales join them
 * afterwards, so that the oracle's are exact. */
#ifndef FACC_CPU_FP8_H
#define FACC_CPU_FP8_H

#include "runtime/cpu/cpu_tile.h"

/* Rows q0 .. and columns kv0 .. of one head. */
struct cpu_cells {
    int b, h, hkv, q0, rows, kv0, n;
};

/* s[i][j] *= descale_q of row i * descale_k of column j; s: FT, ld columns. */
void cpu_fp8_scores(const struct cpu_call *call, const struct cpu_cells *t,
                    void *s, int ld);
/* sums[i] += p[i][j] of all columns. */
void cpu_fp8_sum(const struct cpu_call *call, const struct cpu_cells *t,
                 const void *p, int ld, double *sums);
/* p[i][j] *= descale_v of column j; weights of 0 stay 0. */
void cpu_fp8_weights(const struct cpu_call *call, const struct cpu_cells *t,
                     void *p, int ld);
/* Row kv of V from its image: Dv values. */
void cpu_fp8_image_row(const struct cpu_call *call, int b, int hkv, int kv,
                       float *row);
/* v_mean of a head, [Dv], or NULL. */
const float *cpu_fp8_mean(const struct cpu_call *call, int b, int hkv);

#endif

/* Inner loops of the CPU attention, one set per float type and instruction
 * set. Matrices are arrays of the set's float type ("FT": float, or double
 * for the oracle), 64-byte aligned. */
#ifndef FACC_CPU_KERNELS_H
#define FACC_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cpu_kernels {
    const char *isa; /* "avx512f" "avx2" "generic" */
    size_t size;     /* of FT */
    int width;       /* lanes of a vector: columns are padded to this */
    /* Right-hand matrices are packed in panels of 2 * width columns (the last
     * one may have width): panel j0 begins at b + j0 * k, its rows are
     * contiguous. */

    /* c[m][n] = scale * a[m][k] b[k][n], or c += a b when `add`. n is a
     * multiple of width. Any blocking sums in the same order. */
    void (*gemm)(bool add, double scale, int m, int n, int k, const void *a,
                 size_t lda, const void *b, void *c, size_t ldc);
    /* Rows of K as columns of b: b[d][col0 .. col0 + 15] = rows[0 .. 15][d].
     * rows: 16 of dim floats each; b has dim rows and a multiple of 32
     * columns, so that every panel is whole. */
    void (*pack_columns)(void *b, int dim, int col0, const float *rows);
    /* One row of V: b[row][0 .. n - 1] of a matrix with k rows; columns
     * dim .. n - 1 become 0. True when a value is not finite. */
    bool (*pack_row)(void *b, int k, int n, int row, int dim,
                     const float *values);
    void (*widen)(void *to, const float *from, int n);
    /* s[i] = keep[i] ? s[i] : -inf */
    void (*mask)(int n, void *s, const uint8_t *keep);
    /* Largest value, NaN ignored; -inf for an empty row. n: multiple of
     * width. */
    double (*row_max)(int n, const void *s);
    /* s[i] = exp(s[i] - m); returns the sum. n: multiple of width. */
    double (*row_exp)(int n, void *s, double m);
    /* o[i] += *p * v[i]; p is an FT */
    void (*add_row)(int n, void *o, const void *p, const float *v);
    /* s[i] *= factor */
    void (*scale_row)(int n, void *s, double factor);
};

/* The best set of this machine; f64 for the oracle. */
const struct cpu_kernels *cpu_kernels_get(bool f64);
/* NULL when this machine lacks it. */
const struct cpu_kernels *cpu_kernels_named(bool f64, const char *isa);

#endif

/* What the examples share and an embedder has already: inputs, comparing, and
 * what to do with a status. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <facc.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { NO_GPU = 77 }; /* exit code: skipped */

/* Prints what went wrong and ends; without a GPU the examples that need one
 * are skipped. */
static inline void must(facc_status s, const facc_error *err)
{
    if (s == FACC_OK)
        return;
    fprintf(stderr, "%s: %s\n%s", facc_status_name(s), err->message, err->log);
    exit(s == FACC_ERR_NO_DRIVER ? NO_GPU : 1);
}

/* n numbers between -1 and 1 as f16. */
static inline void random_f16(uint16_t *to, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        float x = (float)(seed >> 8) / (1 << 23) - 1;
        facc_convert(FACC_F16, &to[i], FACC_F32, &x, 1);
    }
}

/* The largest difference of two f16 arrays. */
static inline double difference(const uint16_t *a, const uint16_t *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        float x = 0, y = 0;
        facc_convert(FACC_F32, &x, FACC_F16, &a[i], 1);
        facc_convert(FACC_F32, &y, FACC_F16, &b[i], 1);
        if (!(fabs((double)x - (double)y) <= most)) /* NaN, too */
            most = fabs((double)x - (double)y);
    }
    return most;
}

/* [B, heads, tokens, dim], compact. */
static inline facc_tensor tensor(void *data, int64_t b, int64_t heads,
                                 int64_t tokens, int64_t dim)
{
    facc_tensor t = {data, FACC_F16, 4, {b, heads, tokens, dim}, {0}};
    t.stride[3] = 1;
    for (int i = 2; i >= 0; i--)
        t.stride[i] = t.stride[i + 1] * t.shape[i + 1];
    return t;
}

#endif

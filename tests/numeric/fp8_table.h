/* The values of FP8 by the text of the OCP's format: sign, exponent, mantissa;
 * and rounding by looking for the nearest. For tests alone. */
#ifndef FACC_TEST_FP8_TABLE_H
#define FACC_TEST_FP8_TABLE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Positive finite values in order: codes 0 .. last. */
struct fp8_table {
    double value[128];
    int last;    /* code of the largest */
    int nan;     /* code that NaN gets */
    double most; /* finite */
};

/* e4m3: bias 7, no infinity, 0x7f is NaN; e5m2: bias 15, 0x7c is infinity. */
static inline void fp8_fill(struct fp8_table *t, bool e4m3)
{
    const int mantissa = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
    t->last = e4m3 ? 0x7e : 0x7b;
    t->nan = 0x7f;
    t->most = e4m3 ? 448 : 57344;
    for (int code = 0; code <= t->last; code++) {
        const int exponent = code >> mantissa;
        const int m = code - (exponent << mantissa);
        const double unit = 1 << mantissa;
        t->value[code] = exponent == 0
                             ? pow(2, 1 - bias) * (m / unit)
                             : pow(2, exponent - bias) * (1 + m / unit);
    }
}

/* The nearest one's code; of two as near the even one; NaN's without sign. */
static inline int fp8_nearest(const struct fp8_table *t, double x)
{
    const double m = fabs(x);
    int low = 0, end = t->last + 1; /* the last that is not above m */
    if (isnan(x))
        return t->nan;
    while (end - low > 1) {
        const int middle = (low + end) / 2;
        if (t->value[middle] <= m)
            low = middle;
        else
            end = middle;
    }
    if (low < t->last) {
        const double down = m - t->value[low], up = t->value[low + 1] - m;
        low += up < down || (up == down && low % 2 == 1);
    }
    return low | (signbit(x) ? 0x80 : 0);
}

static inline double fp8_value(const struct fp8_table *t, int code)
{
    if ((code & 0x7f) > t->last)
        return (code & 0x7f) == 0x7c && t->last == 0x7b
                   ? (code & 0x80 ? -INFINITY : INFINITY)
                   : (double)NAN;
    return code & 0x80 ? -t->value[code & 0x7f] : t->value[code];
}

#endif

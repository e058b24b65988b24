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
    int best = 0;
    if (isnan(x))
        return t->nan;
    for (int code = 1; code <= t->last; code++) {
        const double now = fabs(fabs(x) - t->value[code]);
        const double then = fabs(fabs(x) - t->value[best]);
        if (now < then || (now == then && code % 2 == 0))
            best = code;
    }
    if (fabs(x) > t->value[t->last])
        best = t->last;
    return best | (signbit(x) ? 0x80 : 0);
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

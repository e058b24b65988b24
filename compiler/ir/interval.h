/* Interval rules, one per name in ops.def's iv column: given the ranges of
 * the operands, a range that holds the result. Sound for every input in
 * range; ints saturate at the ends of int64_t, floats carry a may-be-NaN
 * flag. Used for the ranges of int nodes while building, and by the mask
 * verdicts. */
#ifndef FACC_INTERVAL_H
#define FACC_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/ir/ir.h"

struct interval {
    enum ir_type type;
    union {
        struct {
            int64_t lo, hi;
        } i;
        struct {
            double lo, hi; /* hull of the non-NaN values */
            bool nan;      /* result may be NaN */
        } f;
        struct {
            bool may_false, may_true;
        } b;
    };
};

/* All values of a type, NaN included. */
struct interval interval_any(enum ir_type t);
/* Operands x[0..n-1] by the op's arity. Ops with rule "none" must not be
 * asked (the caller has its own rule). */
struct interval interval_eval(enum ir_op op, const struct interval *x);
/* c + sum k[j] * x[j], saturating; *wide is set when the true range leaves
 * int64_t. */
struct interval interval_linear(int64_t c, uint32_t n, const int64_t *k,
                                const struct interval *x, bool *wide);
/* What a linear op says of its sum: LIN the sum itself, GE0 and EQ0 whether
 * it may be so and may not. */
struct interval interval_of_sum(enum ir_op op, const struct interval *sum);

#endif

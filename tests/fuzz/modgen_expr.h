/* Random expressions (modgen_expr.c) for the programs of modgen.c, and the
 * writer that both share. */
#ifndef FACC_MODGEN_EXPR_H
#define FACC_MODGEN_EXPR_H

#include <stdbool.h>

#include "tests/fuzz/modgen.h"

enum { MAX_VARIABLES = 12 };
enum type { INT, FLOAT };

struct variable {
    char name[16];
    enum type type;
    double bound;    /* of |value| */
    double possible; /* ints: what the compiler must reckon with */
};

struct writer {
    uint64_t state;
    char *text;
    size_t n;
    struct variable var[MAX_VARIABLES];
    int n_vars;
    int next_name;
    int forks;  /* comparisons still allowed */
    int loops;  /* nesting of inner functions */
    bool score; /* the mod has a score */
};

/* Of an int: what it is at most here, and what the compiler must reckon with
 * (indices and sizes up to 2^31). */
struct range {
    double value, possible;
};

/* The largest value of an index. */
static const struct range modgen_index = {MODGEN_MAX_LENGTH, 0x1p31};

/* From 0 to n - 1. */
unsigned modgen_pick(struct writer *w, unsigned n);
/* Adds text; what does not fit is left out. */
void modgen_put(struct writer *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* An expression each; the result bounds a float's magnitude. Choice:
 * "(c) and (x) or (y)" of floats. */
double modgen_float(struct writer *w, int depth);
double modgen_choice(struct writer *w, int depth);
void modgen_bool(struct writer *w, int depth);
/* An int or a float expression. */
struct range modgen_number(struct writer *w, int depth, bool floats);
struct range modgen_larger(struct range a, struct range b);

#endif

/* A stream of decisions from which a whole test case is made: given ones
 * first, then random ones of a seed, or zeros. The generator asks so that 0
 * is the simplest answer; a shorter stream with smaller numbers is a simpler
 * case, which is all that the shrinker (shrink.c) needs to know. */
#ifndef FACC_FUZZ_CHOICES_H
#define FACC_FUZZ_CHOICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHOICES_MOST = 1 << 14, SPANS_MOST = 1 << 13 };

/* Decisions first .. end - 1 made one thing of that kind: an int expression,
 * a statement. */
struct span {
    uint32_t first, end;
    uint8_t kind;
};

struct choices {
    uint64_t state; /* of the random numbers; 0: zeros follow the given ones */
    uint32_t n_given, n;
    uint32_t n_spans;
    uint32_t given[CHOICES_MOST];
    uint32_t value[CHOICES_MOST]; /* made so far, each below what was asked */
    struct span span[SPANS_MOST];
};

/* Random by a seed. */
void choices_seed(struct choices *c, uint64_t seed);
/* The given ones, then zeros. */
void choices_replay(struct choices *c, const uint32_t *given, uint32_t n);
/* From 0 to n - 1. */
uint32_t choices_draw(struct choices *c, uint32_t n);
/* Around a thing; close takes what open gave. */
uint32_t choices_open(struct choices *c, int kind);
void choices_close(struct choices *c, uint32_t span);

#endif

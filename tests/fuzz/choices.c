/* The stream of decisions (choices.h). Called by the generator and the
 * shrinker. */
#include "tests/fuzz/choices.h"

#include <string.h>

void choices_seed(struct choices *c, uint64_t seed)
{
    c->n_given = c->n = c->n_spans = 0;
    c->state = (seed + 1) * 0x9e3779b97f4a7c15ull;
    if (!c->state) /* the generator's one fixed point */
        c->state = 1;
}

void choices_replay(struct choices *c, const uint32_t *given, uint32_t n)
{
    c->n = c->n_spans = 0;
    c->state = 0;
    c->n_given = n < CHOICES_MOST ? n : CHOICES_MOST;
    memmove(c->given, given, c->n_given * sizeof *given);
}

static uint64_t next(struct choices *c)
{
    c->state ^= c->state << 13;
    c->state ^= c->state >> 7;
    c->state ^= c->state << 17;
    return (c->state * 0x2545f4914f6cdd1dull) >> 33;
}

uint32_t choices_draw(struct choices *c, uint32_t n)
{
    uint32_t v = 0;
    if (c->n == CHOICES_MOST) /* the simplest to the end */
        return 0;
    if (c->n < c->n_given)
        v = c->given[c->n] % n;
    else if (c->state)
        v = (uint32_t)(next(c) % n);
    c->value[c->n++] = v;
    return v;
}

uint32_t choices_open(struct choices *c, int kind)
{
    if (c->n_spans == SPANS_MOST)
        return SPANS_MOST;
    c->span[c->n_spans] = (struct span){c->n, c->n, (uint8_t)kind};
    return c->n_spans++;
}

void choices_close(struct choices *c, uint32_t span)
{
    if (span < SPANS_MOST)
        c->span[span].end = c->n;
}

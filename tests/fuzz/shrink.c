/* The shrinker (shrink.h). It knows nothing of programs: it takes decisions
 * out, puts a part of a thing in the thing's place (spans of one kind), and
 * makes numbers smaller. Called by fuzz.c. */
#include "tests/fuzz/shrink.h"

#include <stdlib.h>
#include <string.h>

struct search {
    struct pool *pool;
    struct choices *best;
    struct outcome *outcome;
    struct choices *trial[POOL_MOST]; /* under way, by worker */
    struct fuzz_case *made;
    uint32_t next[CHOICES_MOST]; /* a trial's decisions, as given */
    double end;
    long attempts;
};

/* The decisions that the case of these really takes. */
static void record(struct search *s, struct choices *c)
{
    const struct case_limits limits = check_limits(&s->pool->options);
    case_make(s->made, c, &limits);
    case_close(s->made);
}

static bool is_simpler(const struct choices *a, const struct choices *b)
{
    if (a->n != b->n)
        return a->n < b->n;
    for (uint32_t k = 0; k < a->n; k++)
        if (a->value[k] != b->value[k])
            return a->value[k] < b->value[k];
    return false;
}

/* Waits for a trial to end. True: it is the best now. */
static bool collect(struct search *s)
{
    struct outcome out;
    int k;
    while ((k = pool_wait(s->pool, 0.2, &out)) < 0)
        continue;
    if (out.stage != s->outcome->stage || !is_simpler(s->trial[k], s->best))
        return false;
    struct choices *c = s->best;
    s->best = s->trial[k];
    s->trial[k] = c;
    *s->outcome = out;
    return true;
}

static int idle(const struct pool *p)
{
    for (int k = 0; k < p->n; k++)
        if (!p->worker[k].busy)
            return k;
    return -1;
}

static bool all_idle(const struct pool *p)
{
    for (int k = 0; k < p->n; k++)
        if (p->worker[k].busy)
            return false;
    return true;
}

/* Sends next[0 .. n - 1] on trial if it is simpler; most fail, so that others
 * follow before it has ended. True: the best is another one now. */
static bool try(struct search *s, uint32_t n)
{
    bool better = false;
    int k;
    if (pool_now() > s->end)
        return false;
    while ((k = idle(s->pool)) < 0)
        better |= collect(s);
    if (better)
        return true;
    choices_replay(s->trial[k], s->next, n);
    record(s, s->trial[k]);
    if (!is_simpler(s->trial[k], s->best))
        return false;
    s->attempts++;
    pool_send(s->pool, k, 0, s->trial[k]->value, s->trial[k]->n);
    return s->pool->n == 1 && collect(s);
}

static bool drain(struct search *s)
{
    bool better = false;
    while (!all_idle(s->pool))
        better |= collect(s);
    return better;
}

/* With decisions first .. end - 1 replaced by n others. */
static bool try_replaced(struct search *s, uint32_t first, uint32_t end,
                         const uint32_t *by, uint32_t n)
{
    const struct choices *b = s->best;
    if (end > b->n || first + n + (b->n - end) > CHOICES_MOST)
        return false;
    memcpy(s->next, b->value, first * sizeof *s->next);
    memmove(s->next + first, by, n * sizeof *by);
    memcpy(s->next + first + n, b->value + end, (b->n - end) * sizeof *s->next);
    return try(s, first + n + b->n - end);
}

/* Things become their simplest form, or a thing of their kind inside them. */
static bool shrink_spans(struct search *s)
{
    static const uint32_t zeros[6];
    static uint32_t inner[CHOICES_MOST];
    bool any = false;
    for (uint32_t i = 0; i < s->best->n_spans; i++) {
        const struct span a = s->best->span[i];
        bool taken = false;
        for (uint32_t n = 0; n <= 6 && n < a.end - a.first && !taken; n++)
            taken = try_replaced(s, a.first, a.end, zeros, n);
        for (uint32_t k = i + 1; k < s->best->n_spans && !taken; k++) {
            const struct span b = s->best->span[k];
            if (b.first >= a.end)
                break;
            if (b.kind != a.kind || b.end > a.end ||
                b.end - b.first >= a.end - a.first)
                continue;
            memcpy(inner, s->best->value + b.first,
                   (b.end - b.first) * sizeof *inner);
            taken = try_replaced(s, a.first, a.end, inner, b.end - b.first);
        }
        any |= taken;
        i -= taken; /* the same place again */
    }
    return any;
}

static bool shrink_runs(struct search *s)
{
    bool any = false;
    for (uint32_t size = 16; size > 0; size /= 2)
        for (uint32_t i = 0; i + size <= s->best->n;)
            if (try_replaced(s, i, i + size, NULL, 0))
                any = true;
            else
                i += size > 4 ? size / 2 : 1;
    return any;
}

static bool shrink_values(struct search *s)
{
    bool any = false;
    for (uint32_t i = 0; i < s->best->n; i++) {
        uint32_t v = s->best->value[i];
        for (uint32_t to = 0; to < v; to = to ? v : v > 1 ? v - 1 : v) {
            if (try_replaced(s, i, i + 1, &to, 1)) {
                any = true;
                break;
            }
        }
        v = i < s->best->n ? s->best->value[i] : 0;
        uint32_t half = v / 2;
        if (half > 0 && half + 1 < v)
            any |= try_replaced(s, i, i + 1, &half, 1);
    }
    return any;
}

long fuzz_shrink(struct pool *p, struct choices *c, struct outcome *o,
                 double seconds)
{
    struct search *s = calloc(1, sizeof *s);
    struct choices *all = calloc((size_t)p->n + 1, sizeof *all);
    struct fuzz_case *made = malloc(sizeof *made);
    if (!s || !all || !made)
        abort();
    *s = (struct search){.pool = p,
                         .best = &all[p->n],
                         .outcome = o,
                         .made = made,
                         .end = pool_now() + seconds};
    memcpy(s->best, c, sizeof *c);
    for (int k = 0; k < p->n; k++)
        s->trial[k] = &all[k];
    for (bool more = true; more && pool_now() < s->end;) {
        more = shrink_spans(s);
        more |= shrink_runs(s);
        more |= shrink_values(s);
        more |= drain(s);
    }
    drain(s);
    memcpy(c, s->best, sizeof *c);
    const long attempts = s->attempts;
    free(all);
    free(made);
    free(s);
    return attempts;
}

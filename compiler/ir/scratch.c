/* In: a graph. Out: short-lived arrays for the builders and passes that work
 * on lists of operands. Chunks come from the graph's arena, double in size
 * and stay linked, so that releasing is one assignment and the total is a
 * small multiple of the largest demand. Called by logic.c, select.c,
 * passes. */
#include "compiler/ir/scratch.h"

enum { FIRST_CHUNK = 16 * 1024 };

struct scratch_chunk {
    struct scratch_chunk *next; /* larger, empty */
    size_t size, used;          /* bytes of data */
    char *data;
};

struct scratch {
    struct scratch_chunk *first, *top;
};

static void *no_memory(struct ir_graph *g)
{
    ir_fail_memory(g);
    return NULL;
}

struct scratch_mark scratch_mark(const struct ir_graph *g)
{
    struct scratch_mark m = {NULL, 0};
    if (g->scratch && g->scratch->top) {
        m.chunk = g->scratch->top;
        m.used = m.chunk->used;
    }
    return m;
}

void scratch_release(struct ir_graph *g, struct scratch_mark m)
{
    struct scratch *s = g->scratch;
    if (!s || !s->top)
        return;
    if (!m.chunk) { /* the stack did not exist at the mark */
        m.chunk = s->first;
        m.used = 0;
    }
    s->top = m.chunk;
    s->top->used = m.used;
}

static struct scratch_chunk *chunk_new(struct ir_graph *g, size_t size)
{
    struct scratch_chunk *c = arena_alloc(g->arena, sizeof *c);
    if (!c)
        return NULL;
    c->data = arena_alloc(g->arena, size);
    c->size = size;
    return c->data ? c : NULL;
}

void *scratch_alloc(struct ir_graph *g, size_t size)
{
    if (!g->scratch)
        g->scratch = arena_alloc(g->arena, sizeof *g->scratch);
    struct scratch *s = g->scratch;
    if (!s)
        return no_memory(g);
    size = (size + 15) & ~(size_t)15;
    struct scratch_chunk *top = s->top;
    while (!top || top->size - top->used < size) {
        struct scratch_chunk *next = top ? top->next : NULL;
        if (!next) {
            size_t want = top ? 2 * top->size : FIRST_CHUNK;
            while (want < size)
                want *= 2;
            next = chunk_new(g, want);
            if (!next)
                return no_memory(g);
            if (top)
                top->next = next;
            else
                s->first = next;
        }
        next->used = 0;
        s->top = top = next;
    }
    void *p = top->data + top->used;
    top->used += size;
    return p;
}

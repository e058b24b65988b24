/* In: the mask or its negation. Out: its disjunctive form, an OR of
 * conjunctions of literals: where none of these can hold, nothing is kept.
 * Asking each conjunction by itself finds what two operands exclude only
 * together. Bounded; beyond the bound there is no such form. Called by
 * verdict.c. */
#include "compiler/passes/verdict_build.h"

#include "compiler/ir/scratch.h"
#include "compiler/passes/passes.h"

enum { MAX_PARTS = 24, MAX_NESTING = 16 };

struct parts {
    ir_ref of[MAX_PARTS];
    int n;
    bool many; /* more than there is room for */
};

static bool is_conjunction(const struct ir_graph *g, ir_ref r)
{
    for (uint32_t k = 0; ir_is(g, r, IR_AND) && k < ir_node(g, r)->n; k++)
        if (verdict_is_logic(g, ir_arg(g, r, k)))
            return false;
    return !ir_is(g, r, IR_OR);
}

static bool is_disjunctive(const struct ir_graph *g, ir_ref r)
{
    for (uint32_t k = 0; ir_is(g, r, IR_OR) && k < ir_node(g, r)->n; k++)
        if (!is_conjunction(g, ir_arg(g, r, k)))
            return false;
    return ir_is(g, r, IR_OR) || is_conjunction(g, r);
}

/* Whether literal x is one of the conjunction r. */
static bool has(const struct ir_graph *g, ir_ref r, ir_ref x)
{
    bool found = r == x;
    for (uint32_t k = 0; ir_is(g, r, IR_AND) && k < ir_node(g, r)->n; k++)
        found |= ir_arg(g, r, k) == x;
    return found;
}

/* a holds wherever b does: its literals are among b's. */
static bool contains(const struct ir_graph *g, ir_ref a, ir_ref b)
{
    if (!ir_is(g, a, IR_AND))
        return has(g, b, a);
    for (uint32_t k = 0; k < ir_node(g, a)->n; k++)
        if (!has(g, b, ir_arg(g, a, k)))
            return false;
    return true;
}

/* Unless a wider one is there; narrower ones go. */
static void add(const struct ir_graph *g, struct parts *p, ir_ref r)
{
    int m = 0;
    if (ir_is(g, r, IR_CONST_B) && !ir_node(g, r)->i)
        return;
    for (int k = 0; k < p->n; k++)
        if (contains(g, p->of[k], r))
            return;
    for (int k = 0; k < p->n; k++)
        if (!contains(g, r, p->of[k]))
            p->of[m++] = p->of[k];
    p->n = m;
    if (p->n == MAX_PARTS)
        p->many = true;
    else
        p->of[p->n++] = r;
}

static void expand(struct ir_graph *g, ir_ref r, int nesting,
                   struct parts *out);

/* p becomes p and r. */
static void multiply(struct ir_graph *g, ir_ref r, int nesting, struct parts *p)
{
    struct parts by, now = {.n = 0};
    expand(g, r, nesting, &by);
    now.many = by.many;
    for (int i = 0; i < p->n && !now.many; i++)
        for (int j = 0; j < by.n && !now.many && !g->failed; j++) {
            const ir_ref x = ir_and2(g, p->of[i], by.of[j]);
            if (x != IR_NONE)
                add(g, &now, x);
        }
    *p = now;
}

static void expand(struct ir_graph *g, ir_ref r, int nesting, struct parts *out)
{
    *out = (struct parts){.many = nesting == MAX_NESTING || g->failed};
    if (out->many)
        return;
    if (!verdict_is_logic(g, r)) {
        add(g, out, r);
        return;
    }
    const bool all = ir_is(g, r, IR_AND);
    if (all)
        out->of[out->n++] = ir_const_b(g, true);
    for (uint32_t k = 0; k < ir_node(g, r)->n && !out->many; k++) {
        struct parts x;
        if (all) {
            multiply(g, ir_arg(g, r, k), nesting + 1, out);
            continue;
        }
        expand(g, ir_arg(g, r, k), nesting + 1, &x);
        out->many |= x.many;
        for (int j = 0; j < x.n && !out->many; j++)
            add(g, out, x.of[j]);
    }
}

bool verdict_dnf(struct ir_graph *g, ir_ref r, ir_ref **part, int *n)
{
    struct parts p;
    *n = 0;
    if (is_disjunctive(g, r))
        return true;
    expand(g, r, 0, &p);
    const bool lost = g->failed; /* left 64 bits on the way */
    pass_recover(g);
    if (g->failed)
        return false;
    if (lost || p.many || !p.n)
        return true;
    *part = scratch_alloc(g, (size_t)p.n * sizeof **part);
    if (!*part)
        return false;
    for (int k = 0; k < p.n; k++)
        (*part)[k] = p.of[k];
    *n = p.n;
    return true;
}

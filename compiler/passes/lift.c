/* In: roots as traced. Out: the same mod with the -inf arms of the score
 * moved into keep: they are mask, not value, and only as mask do they skip
 * tiles. c and s or -inf, s + (c and 0 or -inf), where(c, s, -inf) all give
 * score s, keep c. Called by compile.c, first of the passes. */
#include "compiler/passes/passes.h"

#include <math.h>

#include "compiler/ir/scratch.h"

/* What a node's value is: value where keep, -inf elsewhere. Absent keep:
 * true; absent value: it is -inf everywhere. */
struct split {
    bool reached; /* -inf here makes the whole score -inf */
    bool lifted;  /* value and keep below are set */
    ir_ref value, keep;
};

static bool is_minus_inf(const struct ir_graph *g, ir_ref r)
{
    return ir_is(g, r, IR_CONST_F) && ir_node(g, r)->f == -INFINITY;
}

/* Passes the mark from a node to the operands whose -inf is its own. */
static void reach(const struct ir_graph *g, ir_ref r, struct split *s)
{
    if (ir_is(g, r, IR_FADD)) {
        s[ir_arg(g, r, 0)].reached = true;
        s[ir_arg(g, r, 1)].reached = true;
    } else if (ir_is(g, r, IR_FSUB)) {
        s[ir_arg(g, r, 0)].reached = true;
    } else if (ir_is(g, r, IR_SEL_F)) {
        s[ir_arg(g, r, 1)].reached = true;
        s[ir_arg(g, r, 2)].reached = true;
    }
}

static ir_ref value_of(const struct split *s, ir_ref r)
{
    return s[r].lifted ? s[r].value : r;
}

static ir_ref keep_of(struct ir_graph *g, const struct split *s, ir_ref r)
{
    return s[r].lifted && s[r].keep ? s[r].keep : ir_const_b(g, true);
}

static void lift_select(struct ir_graph *g, ir_ref r, struct split *s)
{
    ir_ref c = ir_arg(g, r, 0), a = ir_arg(g, r, 1), b = ir_arg(g, r, 2);
    ir_ref x = value_of(s, a), y = value_of(s, b);
    s[r].value = !x ? y : !y ? x : ir_select(g, c, x, y);
    s[r].keep = ir_select(g, c, keep_of(g, s, a), keep_of(g, s, b));
}

static bool is_zero(const struct ir_graph *g, ir_ref r)
{
    return ir_is(g, r, IR_CONST_F) && ir_node(g, r)->f == 0;
}

/* A 0 that only stood beside -inf goes: s + 0 is s but for the sign of a
 * zero, which no softmax sees. */
static void lift_sum(struct ir_graph *g, ir_ref r, struct split *s)
{
    ir_ref a = ir_arg(g, r, 0), b = ir_arg(g, r, 1);
    bool sum = ir_is(g, r, IR_FADD);
    ir_ref x[2] = {value_of(s, a), sum ? value_of(s, b) : b};
    s[r].keep = keep_of(g, s, a);
    if (sum)
        s[r].keep = ir_and2(g, s[r].keep, keep_of(g, s, b));
    if (!x[0] || !x[1])
        s[r].value = IR_NONE;
    else if (s[a].lifted && sum && is_zero(g, x[0]))
        s[r].value = x[1];
    else if (sum && s[b].lifted && is_zero(g, x[1]))
        s[r].value = x[0];
    else
        s[r].value = ir_build(g, ir_node(g, r)->op, x);
}

static void lift_node(struct ir_graph *g, ir_ref r, struct split *s)
{
    if (is_minus_inf(g, r)) {
        s[r].lifted = true;
        s[r].keep = ir_const_b(g, false);
        return;
    }
    bool any = false;
    if (ir_is(g, r, IR_SEL_F))
        any = s[ir_arg(g, r, 1)].lifted || s[ir_arg(g, r, 2)].lifted;
    else if (ir_is(g, r, IR_FADD))
        any = s[ir_arg(g, r, 0)].lifted || s[ir_arg(g, r, 1)].lifted;
    else if (ir_is(g, r, IR_FSUB))
        any = s[ir_arg(g, r, 0)].lifted;
    if (!any)
        return;
    s[r].lifted = true;
    if (ir_is(g, r, IR_SEL_F))
        lift_select(g, r, s);
    else
        lift_sum(g, r, s);
}

/* requires: any roots; leaves: no -inf arm that reaches the score through
 * sums and selects. */
bool pass_lift(struct ir_graph *g, struct ir_roots *roots)
{
    ir_ref *order;
    uint32_t n;
    struct ir_roots score = {roots->score, IR_NONE};
    if (g->failed || !ir_walk(g, &score, &order, &n))
        return false;
    size_t size = g->n_nodes * sizeof(struct split);
    struct split *s = arena_alloc(g->arena, size);
    if (!s) {
        ir_fail_memory(g);
        return false;
    }
    s[roots->score].reached = true;
    for (uint32_t k = n; k-- > 0;)
        if (s[order[k]].reached)
            reach(g, order[k], s);
    for (uint32_t k = 0; k < n && !g->failed; k++)
        if (s[order[k]].reached)
            lift_node(g, order[k], s);
    if (!g->failed && s[roots->score].lifted) {
        struct split *root = &s[roots->score];
        ir_ref keep = ir_and2(g, roots->keep, root->keep);
        roots->score = root->value ? root->value : ir_score(g);
        roots->keep = keep;
    }
    return !g->failed;
}

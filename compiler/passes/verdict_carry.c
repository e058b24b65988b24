/* In: an AND or OR. Out: its operands of one side as they are on the other
 * side of an equality: x(q) = y(kv) and P(x(q)) imply P(y(kv)), so that the
 * equality is asked about rows and columns that both pass P. In an OR the
 * equality stands negated, and so does what is carried. Called by
 * verdict_logic.c. */
#include "compiler/ir/scratch.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/verdict_build.h"

enum { MAX_NESTING = 8 };

/* r with y in place of x. IR_NONE where x is inside of anything but sums,
 * comparisons and logic: other operators may not be defined for y where it is
 * not x. */
static ir_ref replace(struct ir_graph *g, ir_ref r, ir_ref x, ir_ref y,
                      int nesting)
{
    const enum ir_op op = (enum ir_op)ir_node(g, r)->op;
    const uint32_t n = ir_node(g, r)->n;
    enum verdict_side side;
    if (r == x)
        return y;
    if (verdict_is_tile(g, r))
        return r;
    if (nesting == MAX_NESTING || !verdict_is_one_sided(g, r, &side) ||
        (!ir_op_is_linear(op) && op != IR_NOT && !verdict_is_logic(g, r)))
        return IR_NONE;
    struct scratch_mark mark = scratch_mark(g);
    ir_ref *arg = scratch_alloc(g, n * sizeof *arg), out = IR_NONE;
    bool all = arg != NULL;
    for (uint32_t k = 0; all && k < n; k++) {
        arg[k] = replace(g, ir_arg(g, r, k), x, y, nesting + 1);
        all = arg[k] != IR_NONE;
    }
    if (all)
        out = ir_rebuild(g, r, arg);
    scratch_release(g, mark);
    return out;
}

/* An equality (of op OR: its negation) of a value of each side. */
static bool is_equality(const struct ir_graph *g, enum ir_op op, ir_ref r,
                        ir_ref of[SIDES])
{
    if (op == IR_OR && !ir_is(g, r, IR_NOT))
        return false;
    if (op == IR_OR)
        r = ir_arg(g, r, 0);
    if (!ir_is(g, r, IR_EQ0) || ir_node(g, r)->n != 2 || ir_node(g, r)->i ||
        (uint64_t)ir_coef(g, r, 0) + (uint64_t)ir_coef(g, r, 1) != 0 ||
        (ir_coef(g, r, 0) != 1 && ir_coef(g, r, 0) != -1))
        return false;
    enum verdict_side a, b;
    const ir_ref x = ir_arg(g, r, 0), y = ir_arg(g, r, 1);
    if (!verdict_is_one_sided(g, x, &a) || !verdict_is_one_sided(g, y, &b) ||
        a == b || verdict_is_affine(g, x) || verdict_is_affine(g, y))
        return false;
    of[a] = x;
    of[b] = y;
    return true;
}

bool verdict_carry(struct ir_graph *g, enum ir_op op, const ir_ref *mixed,
                   int n_mixed, ir_ref *const side[SIDES], int n[SIDES])
{
    const int had[SIDES] = {n[SIDE_Q], n[SIDE_KV]};
    int carried = 0;
    for (int m = 0; m < n_mixed; m++) {
        ir_ref of[SIDES];
        if (!is_equality(g, op, mixed[m], of))
            continue;
        for (int s = 0; s < SIDES; s++)
            for (int k = 0; k < had[s] && carried < VERDICT_MAX_CARRIED; k++) {
                const int to = s == SIDE_Q ? SIDE_KV : SIDE_Q;
                const ir_ref r = replace(g, side[s][k], of[s], of[to], 0);
                pass_recover(g);
                if (g->failed)
                    return false;
                if (r == IR_NONE || ir_is(g, r, IR_CONST_B) ||
                    verdict_is_tile(g, r))
                    continue;
                side[to][n[to]++] = r;
                carried++;
            }
    }
    return true;
}

/* In: a graph. Out: for each node, how often its value must be computed.
 * Called by the emitter and `facc explain`. */
#include "compiler/passes/passes.h"

const char *scope_name(enum scope s)
{
    static const char *const names[] = {
        [SCOPE_TILE] = "tile", [SCOPE_ROW] = "row",   [SCOPE_COL] = "col",
        [SCOPE_DIAG] = "diag", [SCOPE_CELL] = "cell",
    };
    return names[s];
}

static bool is_index(const struct ir_graph *g, ir_ref r, enum ir_var v)
{
    return ir_is(g, r, IR_VAR_I) && ir_node(g, r)->i == (int64_t)v;
}

/* Whether a node over both indices depends on q - kv alone: a linear form
 * with opposite factors of q and kv, or any op on such values. */
static bool is_diagonal(const struct ir_graph *g, ir_ref r,
                        const enum scope *of)
{
    uint64_t sum = 0; /* of the factors of q and kv, mod 2^64 */
    bool linear = ir_op_is_linear(ir_node(g, r)->op);
    for (uint32_t k = 0; k < ir_node(g, r)->n; k++) {
        ir_ref a = ir_arg(g, r, k);
        if (linear && (is_index(g, a, IR_VAR_Q) || is_index(g, a, IR_VAR_KV)))
            sum += (uint64_t)ir_coef(g, r, k);
        else if (of[a] != SCOPE_TILE && of[a] != SCOPE_DIAG)
            return false;
    }
    return sum == 0;
}

bool pass_scope(struct ir_graph *g, enum scope **of)
{
    if (g->failed)
        return false;
    enum scope *s = arena_alloc(g->arena, g->n_nodes * sizeof *s);
    if (!s) {
        ir_fail_memory(g);
        return false;
    }
    for (ir_ref r = 1; r < g->n_nodes; r++) {
        unsigned deps = ir_node(g, r)->deps;
        bool q = deps & IR_DEP_Q, kv = deps & IR_DEP_KV;
        if (deps & IR_DEP_SCORE)
            s[r] = SCOPE_CELL;
        else if (q && kv)
            s[r] = is_diagonal(g, r, s) ? SCOPE_DIAG : SCOPE_CELL;
        else
            s[r] = q ? SCOPE_ROW : kv ? SCOPE_COL : SCOPE_TILE;
    }
    *of = s;
    return true;
}

bool pass_cell_loads(struct ir_graph *g, ir_ref r, int *out)
{
    const struct ir_roots roots = {r, IR_NONE};
    enum scope *of;
    ir_ref *order;
    uint32_t n;
    *out = 0;
    if (!ir_walk(g, &roots, &order, &n) || !pass_scope(g, &of))
        return false;
    for (uint32_t k = 0; k < n; k++)
        *out += of[order[k]] == SCOPE_CELL &&
                ir_op_is_load((enum ir_op)ir_node(g, order[k])->op);
    return true;
}

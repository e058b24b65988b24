/* Boolean expressions of random programs, and inner functions. */
#include "tests/fuzz/modgen_expr.h"

#include <stdio.h>

/* --- inner functions ---------------------------------------------- */

void modgen_counter(struct writer *w)
{
    struct variable v = modgen_new_variable(w, 'k', INT);
    modgen_put(w, "function(%s) return ", v.name);
    v.bound = v.possible = 4;
    if (w->n_vars < MAX_VARIABLES)
        w->var[w->n_vars++] = v;
}

static struct range where(struct writer *w, int depth, bool floats)
{
    int forks = w->forks;
    w->forks = 2;
    modgen_put(w, "facc.where(function() return ");
    modgen_bool(w, depth);
    w->forks = forks;
    modgen_put(w, " end, ");
    struct range a = modgen_number(w, depth, floats);
    modgen_put(w, ", ");
    struct range b = modgen_number(w, depth, floats);
    modgen_put(w, ")");
    return modgen_larger(a, b);
}

/* where and the reductions; the inner function may compare freely. */
struct range modgen_inner(struct writer *w, int depth, bool floats)
{
    static const char *const reduction[] = {"sum", "max", "min"};
    unsigned what = modgen_pick(w, 4);
    if (what == 0 || w->loops == 2)
        return where(w, depth, floats);
    int forks = w->forks;
    int outside = w->n_vars;
    unsigned n = 1 + modgen_pick(w, 4);
    w->forks = 2;
    w->loops++;
    modgen_put(w, "facc.%s(%u, ", reduction[what - 1], n);
    modgen_counter(w);
    struct range r = modgen_number(w, depth, floats);
    modgen_put(w, " end)");
    w->n_vars = outside;
    w->forks = forks;
    w->loops--;
    if (what == 1) {
        r.value *= n;
        r.possible *= n;
    }
    return r;
}

static void any_all(struct writer *w, int depth)
{
    int forks = w->forks - 1;
    int outside = w->n_vars;
    w->forks = 2;
    w->loops++;
    modgen_put(w, "facc.%s(%u, ", modgen_pick(w, 2) ? "any" : "all",
               1 + modgen_pick(w, 4));
    modgen_counter(w);
    modgen_bool(w, depth);
    modgen_put(w, " end)");
    w->n_vars = outside;
    w->loops--;
    w->forks = forks;
}

/* --- comparisons -------------------------------------------------- */

static const char *const order[] = {">=", "<", "<=", ">", "==", "~="};

/* Floats: equality of computed ones says little. */
static void compare_floats(struct writer *w, int depth)
{
    if (modgen_pick(w, 3) == 0) {
        modgen_load(w, 0, modgen_some_tensor(w, 2));
        modgen_put(w, " %s ", order[4 + modgen_pick(w, 2)]);
        modgen_load(w, 0, modgen_some_tensor(w, 2));
        return;
    }
    modgen_float(w, depth);
    modgen_put(w, " %s ", order[modgen_pick(w, 4)]);
    modgen_float(w, depth);
}

static void comparison(struct writer *w, int depth)
{
    w->forks--;
    switch (modgen_pick(w, 8)) {
    case 3:
        compare_floats(w, depth);
        break;
    case 4: /* an int against a float constant is exact */
        modgen_int(w, depth);
        modgen_put(w, " %s %u.%u", order[modgen_pick(w, 6)], modgen_pick(w, 40),
                   modgen_pick(w, 2) ? 0 : 5);
        break;
    case 5:
        modgen_put(w, "%u ", modgen_pick(w, 40));
        modgen_put(w, "%s ", order[modgen_pick(w, 6)]);
        modgen_int(w, depth);
        break;
    case 6: /* an int against a float */
        modgen_int(w, depth);
        modgen_put(w, " %s ", order[modgen_pick(w, 4)]);
        modgen_float(w, depth);
        break;
    case 7: /* an element as it is, "no limit" too */
        modgen_int(w, depth);
        modgen_put(w, " %s ", order[modgen_pick(w, 6)]);
        modgen_load(w, depth, modgen_some_tensor(w, 1));
        break;
    default:
        modgen_int(w, depth);
        modgen_put(w, " %s ", order[modgen_pick(w, 6)]);
        modgen_int(w, depth);
    }
}

/* --- masks that people write -------------------------------------- */

/* A tensor with one int for each query or key, at both. */
static void documents(struct writer *w, bool order_too)
{
    int t = modgen_some_tensor(w, 1);
    const struct modgen_tensor *x = &w->out->tensor[t];
    if (x->rank != 1) {
        modgen_put(w, "q // 8 == kv // 8");
        return;
    }
    const char *n = x->kind[0] == IR_DIM_Q    ? "facc.size.q"
                    : x->kind[0] == IR_DIM_KV ? "facc.size.kv"
                                              : NULL;
    if (n)
        modgen_put(w, "%s[q %% %s] %s %s[kv %% %s]", x->name, n,
                   order_too ? "<=" : "==", x->name, n);
    else
        modgen_put(w, "%s[0] %s kv", x->name, order_too ? "<=" : "~=");
}

/* What follows an equation says the same of both of its sides. */
static void congruence(struct writer *w)
{
    const unsigned n = 4 << modgen_pick(w, 3);
    const int t = modgen_some_tensor(w, 1);
    const struct modgen_tensor *x = &w->out->tensor[t];
    w->forks--;
    if (x->rank != 1 || x->dtype == DTYPE_I64 || modgen_pick(w, 2)) {
        modgen_put(w, "(q // %u == kv // %u and q %% %u >= kv %% %u %s)", n, n,
                   n, n, modgen_pick(w, 2) ? "+ h" : "");
        return;
    }
    for (int k = 0; k < 4; k++) {
        static const char *const text[] = {"(", " == ", " and q - 3 * ",
                                           " >= kv - 3 * "};
        modgen_put(w, "%s%s[%s %% ", text[k], x->name, k % 2 ? "kv" : "q");
        modgen_put_extent(w, x, 0);
        modgen_put(w, "]");
    }
    modgen_put(w, ")");
}

/* Around positions that a tensor has or that wrap: sharp only by halving. */
static void scattered_window(struct writer *w)
{
    const int t = modgen_some_tensor(w, 1);
    const struct modgen_tensor *x = &w->out->tensor[t];
    if (x->rank != 1 || x->dtype == DTYPE_I64) {
        const unsigned n = 12 + modgen_pick(w, 30);
        modgen_put(w, "math.abs(q %% %u - kv %% %u) <= %u", n, n,
                   1 + modgen_pick(w, 8));
        return;
    }
    modgen_put(w, "math.abs(%s[q %% ", x->name);
    modgen_put_extent(w, x, 0);
    modgen_put(w, "] - kv) <= %u", 1 + modgen_pick(w, 20));
}

static void standard_mask(struct writer *w)
{
    static const char *const list[] = {
        "causal(",           "causal_bottom_right(", "sliding_window(9)(",
        "prefix_lm(5)(",     "dilated(30, 3)(",      "block_diagonal(12)(",
        "longformer(4, 2)(", "sinks_window(2, 7)(",  "natten(5, 7, 3)("};
    unsigned k = modgen_pick(w, 10);
    if (k < 9)
        modgen_put(w, "facc.mods.%sb, h, q, kv)", list[k]);
    else
        modgen_put(w, "facc.mods.or_masks(facc.mods.causal, "
                      "facc.mods.not_mask(facc.mods.dilated(20, 2)))"
                      "(b, h, q, kv)");
    w->forks -= 2;
}

static void idiom(struct writer *w)
{
    w->forks--;
    switch (modgen_pick(w, 9)) {
    case 8:
        scattered_window(w);
        break;
    case 7:
        congruence(w);
        break;
    case 0:
        modgen_put(w, "q >= kv");
        break;
    case 1:
        modgen_put(w, "q - kv < ");
        modgen_int_param(w, false);
        break;
    case 2:
        modgen_put(w, "q // %u == kv // %u", 8, 4 << modgen_pick(w, 3));
        break;
    case 3:
        modgen_put(w, "q + facc.len.kv(b) - facc.len.q(b) >= kv");
        break;
    case 4:
        documents(w, false);
        break;
    case 5:
        documents(w, true);
        break;
    default:
        standard_mask(w);
    }
}

/* --- logic -------------------------------------------------------- */

static void joined(struct writer *w, int depth, const char *op)
{
    modgen_put(w, "(");
    modgen_bool(w, depth);
    modgen_put(w, ") %s (", op);
    modgen_bool(w, depth);
    modgen_put(w, ")");
}

static void other(struct writer *w, int depth, unsigned what)
{
    switch (what) {
    case 5:
    case 6:
        joined(w, depth, modgen_pick(w, 2) ? "and" : "or");
        break;
    case 7:
        modgen_put(w, "not (");
        modgen_bool(w, depth);
        modgen_put(w, ")");
        break;
    case 8:
        w->forks--;
        modgen_load(w, depth, modgen_some_tensor(w, 0));
        break;
    case 9:
        if (modgen_pick(w, 4) == 3 && modgen_any_slice(w, depth))
            break;
        if (w->loops < 2)
            any_all(w, depth);
        else
            comparison(w, depth);
        break;
    case 10: /* booleans are compared by value */
        joined(w, depth, modgen_pick(w, 2) ? "==" : "~=");
        break;
    default: /* decided once, at the mod's start */
        modgen_put(w, "%s", w->decided ? "c0" : "true");
    }
}

void modgen_bool(struct writer *w, int depth)
{
    uint32_t span = choices_open(w->choices, THING_BOOL);
    bool simple = depth <= 0 || w->forks <= 1 || modgen_is_full(w);
    unsigned what = w->forks <= 0 ? 11 : modgen_pick(w, simple ? 3 : 12);
    if (what == 0)
        idiom(w);
    else if (what < 5)
        comparison(w, depth - 1);
    else
        other(w, depth - 1, what);
    choices_close(w->choices, span);
}

/* Statements before a mod's result: variables, branches, loops, functions. */
#include "tests/fuzz/modgen_expr.h"

#include <stdio.h>

static void add(struct writer *w, struct variable v, struct range r)
{
    v.bound = r.value;
    v.possible = r.possible;
    w->var[w->n_vars++] = v;
}

static void declare(struct writer *w, int depth)
{
    struct variable v =
        modgen_new_variable(w, 'v', modgen_pick(w, 2) ? INT : FLOAT);
    modgen_put(w, "  local %s = ", v.name);
    struct range r = modgen_number(w, depth, v.type == FLOAT);
    modgen_put(w, "\n");
    add(w, v, r);
}

static void widen(struct variable *v, struct range r)
{
    r = modgen_larger(r, (struct range){v->bound, v->possible});
    v->bound = r.value;
    v->possible = r.possible;
}

/* if … then v = … elseif … else … end */
static void branch(struct writer *w, int depth)
{
    int k = w->n_vars ? (int)modgen_pick(w, (unsigned)w->n_vars) : 0;
    if (!w->n_vars || w->forks <= 1 || w->var[k].type == VIEW) {
        declare(w, depth);
        return;
    }
    struct variable *v = &w->var[k];
    unsigned arms = 1 + modgen_pick(w, 2);
    for (unsigned i = 0; i <= arms; i++) {
        if (i < arms) {
            modgen_put(w, "  %s ", i ? "elseif" : "if");
            modgen_bool(w, 1);
            modgen_put(w, " then\n");
        } else {
            modgen_put(w, "  else\n");
        }
        modgen_put(w, "    %s = ", v->name);
        widen(v, modgen_number(w, depth, v->type == FLOAT));
        modgen_put(w, "\n");
    }
    modgen_put(w, "  end\n");
}

/* The head of a loop of n turns or so; whether it jumps to a label at its end.
 */
static bool loop_head(struct writer *w, const char *step, unsigned n)
{
    unsigned how = modgen_pick(w, 4);
    if (how == 0)
        modgen_put(w, "  for %s = 1, %u do\n", step, n);
    else if (how == 1)
        modgen_put(w, "  for %s = %u, 1, -1 do\n", step, n);
    else if (how == 2)
        modgen_put(w,
                   "  for _, %s in ipairs({5, 1, 3, 2}) do\n"
                   "    if %s <= %u then goto on_%s end\n",
                   step, step, 4 - n, step);
    else
        modgen_put(w, "  local %s = 0\n  while %s < %u do\n    %s = %s + 1\n",
                   step, step, n, step, step);
    return how == 2;
}

/* A loop that adds to a variable of its own. */
static void loop(struct writer *w, int depth)
{
    int outside = w->n_vars;
    struct variable sum =
        modgen_new_variable(w, 'v', modgen_pick(w, 2) ? INT : FLOAT);
    struct variable step = modgen_new_variable(w, 'i', INT);
    unsigned n = 1 + modgen_pick(w, 4);
    modgen_put(w, "  local %s = %s\n", sum.name, sum.type == INT ? "0" : "0.0");
    bool jumps = loop_head(w, step.name, n);
    add(w, step, modgen_up_to(5));
    int forks = w->forks;
    w->forks = 0; /* in every turn */
    modgen_put(w, "    %s = %s + (", sum.name, sum.name);
    struct range r = modgen_number(w, depth, sum.type == FLOAT);
    modgen_put(w, ")\n");
    if (jumps)
        modgen_put(w, "    ::on_%s::\n", step.name);
    modgen_put(w, "  end\n");
    w->forks = forks;
    w->n_vars = outside;
    add(w, sum, (struct range){r.value * 4, r.possible * 4});
}

/* A helper with two parameters, called at once; an early return. */
static void helper(struct writer *w, int depth)
{
    int outside = w->n_vars;
    struct variable x = modgen_new_variable(w, 'x', INT);
    struct variable y = modgen_new_variable(w, 'y', FLOAT);
    struct variable result = modgen_new_variable(w, 'v', FLOAT);
    double early = 0;
    modgen_put(w, "  local function call_%s(%s, %s)\n", x.name, x.name, y.name);
    add(w, x, modgen_index);
    add(w, y, modgen_up_to(16));
    if (w->forks > 2 && modgen_pick(w, 2)) {
        modgen_put(w, "    if ");
        modgen_bool(w, 1);
        modgen_put(w, " then return ");
        early = modgen_float(w, depth);
        modgen_put(w, " end\n");
    }
    modgen_put(w, "    return ");
    double bound = modgen_float(w, depth);
    modgen_put(w, "\n  end\n");
    w->n_vars = outside;
    modgen_put(w, "  local %s = call_%s(%s, facc.clamp(", result.name, x.name,
               modgen_pick(w, 2) ? "kv" : "q");
    modgen_float(w, 1);
    modgen_put(w, ", -16.0, 16.0))\n");
    add(w, result, modgen_up_to(bound > early ? bound : early));
}

/* A function that calls itself a fixed number of times. */
static void recursion(struct writer *w, int depth)
{
    int outside = w->n_vars;
    struct variable n = modgen_new_variable(w, 'n', INT);
    struct variable result = modgen_new_variable(w, 'v', FLOAT);
    modgen_put(w,
               "  local function down_%s(%s)\n    if %s == 0 then return 0.0 "
               "end\n    return ",
               n.name, n.name, n.name);
    add(w, n, modgen_up_to(4));
    int forks = w->forks;
    w->forks = 0;
    double bound = modgen_float(w, depth);
    w->forks = forks;
    modgen_put(w, " + down_%s(%s - 1)\n  end\n  local %s = down_%s(3)\n",
               n.name, n.name, result.name, n.name);
    w->n_vars = outside;
    add(w, result, modgen_up_to(3 * bound));
}

/* A table of functions, each called once; values by ... */
static void functions(struct writer *w, int depth)
{
    int outside = w->n_vars;
    struct variable x = modgen_new_variable(w, 'x', INT);
    struct variable a = modgen_new_variable(w, 'v', INT);
    struct variable z = modgen_new_variable(w, 'v', FLOAT);
    modgen_put(w, "  local f_%s = { first = function(%s) return ", x.name,
               x.name);
    add(w, x, modgen_index);
    int forks = w->forks;
    w->forks = 0;
    struct range ra = modgen_int(w, depth);
    modgen_put(w, " end, function(...) local %s = select(2, ...) return ",
               x.name);
    double rz = modgen_float(w, depth);
    w->forks = forks;
    modgen_put(w, " end }\n  local %s, %s = f_%s.first(q), f_%s[1](b, kv, h)\n",
               a.name, z.name, x.name, x.name);
    w->n_vars = outside;
    add(w, a, ra);
    add(w, z, modgen_up_to(rz));
}

/* The element of a tensor, or of a view of it, as a variable: one that is
 * never read is an error. */
static void read_element(struct writer *w, int tensor, const char *name,
                         int taken, int depth)
{
    const struct modgen_tensor *t = &w->out->tensor[tensor];
    const bool wide = t->dtype == DTYPE_I64, choice = t->dtype == DTYPE_BOOL;
    const bool floats = choice || dtype_is_float(t->dtype);
    struct variable x = modgen_new_variable(w, 'v', floats ? FLOAT : INT);
    modgen_put(w, "  local %s = %s", x.name, name);
    if (taken < t->rank)
        modgen_indices(w, depth, tensor, taken, t->rank - taken);
    else
        modgen_put(w, "()");
    modgen_put(w, "%s\n", choice ? " and 1.5 or 0.5" : wide ? " % 4096" : "");
    w->forks -= choice;
    add(w, x, wide ? modgen_up_to(4096) : (struct range){200, 0x1p31});
}

/* Part of a tensor's indices. */
static void view(struct writer *w, int depth)
{
    if (w->forks < 2) {
        declare(w, depth);
        return;
    }
    w->reads = true;
    const int t = modgen_some_tensor(w, (int)modgen_pick(w, 3));
    w->reads = false;
    const struct modgen_tensor x = w->out->tensor[t];
    if (x.rank < 2) {
        read_element(w, t, x.name, 0, depth);
        return;
    }
    struct variable v = modgen_new_variable(w, 'w', VIEW);
    v.tensor = t;
    v.taken = 1 + (int)modgen_pick(w, (unsigned)x.rank - 1);
    modgen_put(w, "  local %s = %s", v.name, x.name);
    modgen_indices(w, depth, t, 0, v.taken);
    modgen_put(w, "\n");
    w->var[w->n_vars++] = v;
    read_element(w, t, v.name, v.taken, depth);
}

void modgen_statements(struct writer *w)
{
    static void (*const make[])(struct writer * w, int depth) = {
        declare, declare, branch, loop, helper, view, recursion, functions};
    unsigned n = modgen_pick(w, w->depth > 2 ? 4 : 3);
    for (unsigned i = 0; i < n; i++) {
        if (w->n_vars + 4 > MAX_VARIABLES || modgen_is_full(w))
            return;
        uint32_t span = choices_open(w->choices, THING_STATEMENT);
        make[modgen_pick(w, sizeof make / sizeof *make)](w, w->depth - 1);
        choices_close(w->choices, span);
    }
}

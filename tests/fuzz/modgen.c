/* Writes random programs (modgen.h): declarations, statements and the two
 * mods, around the expressions of modgen_expr.c. Called by the tests. */
#include "tests/fuzz/modgen_expr.h"

#include <stdio.h>

const struct modgen_tensor modgen_tensors[] = {
    {"slopes", DTYPE_F32, 1, {4}, 0},
    {"ids", DTYPE_I32, 1, {64}, 64},
    {"half2", DTYPE_F16, 2, {16, 8}, 0},
    {"brain3", DTYPE_BF16, 3, {4, 8, 8}, 0},
    {"e4", DTYPE_E4M3, 1, {32}, 0},
    {"e5", DTYPE_E5M2, 1, {32}, 0},
    {"small", DTYPE_I8, 1, {32}, 100},
    {"byte", DTYPE_U8, 1, {32}, 200},
    {"word", DTYPE_I16, 1, {32}, 1000},
    {"wide", DTYPE_I64, 1, {32}, 5000},
    {"flag", DTYPE_BOOL, 1, {64}, 2},
    {"grid", DTYPE_BOOL, 2, {8, 8}, 2},
    {"f0", DTYPE_F32, 0, {0}, 0},
    {"i0", DTYPE_I32, 0, {0}, 50},
    {"b0", DTYPE_BOOL, 0, {0}, 2},
};
const int modgen_n_tensors = sizeof modgen_tensors / sizeof *modgen_tensors;

/* --- statements --------------------------------------------------- */

static void declare(struct writer *w, int depth)
{
    if (w->n_vars == MAX_VARIABLES)
        return;
    struct variable v = {.type = modgen_pick(w, 2) ? INT : FLOAT};
    snprintf(v.name, sizeof v.name, "v%d", w->next_name++);
    modgen_put(w, "  local %s = ", v.name);
    struct range r = modgen_number(w, depth, v.type == FLOAT);
    v.bound = r.value;
    v.possible = r.possible;
    modgen_put(w, "\n");
    w->var[w->n_vars++] = v;
}

/* if … then v = … elseif … end */
static void branch(struct writer *w, int depth)
{
    if (!w->n_vars || w->forks <= 1) {
        declare(w, depth);
        return;
    }
    struct variable *v = &w->var[modgen_pick(w, (unsigned)w->n_vars)];
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
        struct range r = modgen_number(w, depth, v->type == FLOAT);
        modgen_put(w, "\n");
        r = modgen_larger(r, (struct range){v->bound, v->possible});
        v->bound = r.value;
        v->possible = r.possible;
    }
    modgen_put(w, "  end\n");
}

/* A counted loop that adds to a variable of its own. */
static void loop(struct writer *w, int depth)
{
    if (w->n_vars + 2 > MAX_VARIABLES) {
        branch(w, depth);
        return;
    }
    int outside = w->n_vars;
    struct variable sum = {.type = modgen_pick(w, 2) ? INT : FLOAT};
    struct variable step = {.type = INT, .bound = 5, .possible = 5};
    unsigned n = 1 + modgen_pick(w, 4);
    snprintf(sum.name, sizeof sum.name, "v%d", w->next_name++);
    snprintf(step.name, sizeof step.name, "i%d", w->next_name++);
    modgen_put(w, "  local %s = %s\n", sum.name, sum.type == INT ? "0" : "0.0");
    if (modgen_pick(w, 2))
        modgen_put(w, "  for %s = 1, %u do\n", step.name, n);
    else
        modgen_put(w, "  for %s = %u, 1, -1 do\n", step.name, n);
    w->var[w->n_vars++] = step;
    int forks = w->forks;
    w->forks = 0; /* in every turn */
    modgen_put(w, "    %s = %s + (", sum.name, sum.name);
    struct range r = modgen_number(w, depth, sum.type == FLOAT);
    modgen_put(w, ")\n  end\n");
    w->forks = forks;
    sum.bound = r.value * n;
    sum.possible = r.possible * n;
    w->n_vars = outside;
    w->var[w->n_vars++] = sum;
}

/* A helper with two parameters, called at once. */
static void helper(struct writer *w, int depth)
{
    if (w->n_vars + 2 > MAX_VARIABLES) {
        declare(w, depth);
        return;
    }
    int outside = w->n_vars;
    int id = w->next_name++;
    struct variable x = {.type = INT};
    x.bound = modgen_index.value;
    x.possible = modgen_index.possible;
    struct variable y = {.type = FLOAT, .bound = 16};
    snprintf(x.name, sizeof x.name, "x%d", id);
    snprintf(y.name, sizeof y.name, "y%d", id);
    modgen_put(w, "  local function call%d(%s, %s)\n", id, x.name, y.name);
    w->var[w->n_vars++] = x;
    w->var[w->n_vars++] = y;
    struct variable result = {.type = FLOAT};
    if (w->forks > 2 && modgen_pick(w, 2)) {
        modgen_put(w, "    if ");
        modgen_bool(w, 1);
        modgen_put(w, " then return ");
        result.bound = modgen_float(w, depth);
        modgen_put(w, " end\n");
    }
    modgen_put(w, "    return ");
    double bound = modgen_float(w, depth);
    modgen_put(w, "\n  end\n");
    result.bound = bound > result.bound ? bound : result.bound;
    w->n_vars = outside;
    snprintf(result.name, sizeof result.name, "v%d", w->next_name++);
    modgen_put(w, "  local %s = call%d(%s, facc.clamp(", result.name, id,
               modgen_pick(w, 2) ? "kv" : "q");
    modgen_float(w, 1);
    modgen_put(w, ", -16.0, 16.0))\n");
    w->var[w->n_vars++] = result;
}

static void statements(struct writer *w)
{
    unsigned n = modgen_pick(w, 4);
    for (unsigned i = 0; i < n; i++)
        switch (modgen_pick(w, 5)) {
        case 0:
        case 1:
            declare(w, 2);
            break;
        case 2:
            branch(w, 2);
            break;
        case 3:
            loop(w, 2);
            break;
        default:
            helper(w, 2);
        }
}

static void score_mod(struct writer *w)
{
    w->n_vars = 0;
    w->forks = 5;
    w->score = true;
    modgen_put(w, "score_mod = function(s, b, h, q, kv)\n  local c0 = b0()\n");
    statements(w);
    if (w->forks > 1 && modgen_pick(w, 3) == 0) {
        modgen_put(w, "  if ");
        modgen_bool(w, 1);
        modgen_put(w, " then return %s end\n",
                   modgen_pick(w, 2) ? "-math.huge" : "s");
    }
    modgen_put(w, "  return ");
    if (w->forks > 0 && modgen_pick(w, 4) == 0)
        modgen_choice(w, 2);
    else
        modgen_float(w, 3);
    modgen_put(w, "\nend,\n");
}

static void mask_mod(struct writer *w)
{
    w->n_vars = 0;
    w->forks = 6;
    w->score = false;
    modgen_put(w, "mask_mod = function(b, h, q, kv)\n  local c0 = b0()\n");
    statements(w);
    if (w->forks > 2 && modgen_pick(w, 3) == 0) {
        modgen_put(w, "  if ");
        modgen_bool(w, 1);
        modgen_put(w, " then return %s end\n",
                   modgen_pick(w, 2) ? "true" : "false");
    }
    w->forks = w->forks > 0 ? w->forks : 1;
    modgen_put(w, "  return ");
    modgen_bool(w, 3);
    modgen_put(w, "\nend,\n");
}

size_t modgen(uint64_t seed, char *text)
{
    struct writer w = {.state = (seed + 1) * 0x9e3779b97f4a7c15ull,
                       .text = text};
    text[0] = '\0';
    modgen_put(&w, "local facc = require 'facc'\n");
    for (int i = 0; i < modgen_n_tensors; i++) {
        const struct modgen_tensor *t = &modgen_tensors[i];
        modgen_put(&w, "local %s = facc.tensor('%s', '%s', {", t->name, t->name,
                   dtype_name(t->dtype));
        for (int d = 0; d < t->rank; d++)
            modgen_put(&w, "%s%lld", d ? ", " : "", (long long)t->extent[d]);
        modgen_put(&w, "})\n");
    }
    modgen_put(&w, "local pi = facc.param('pi', 'i32')\n"
                   "local pl = facc.param('pl', 'i64')\n"
                   "local pf = facc.param('pf', 'f32')\n"
                   "return facc.attention {\n");
    unsigned what = modgen_pick(&w, 4);
    if (what != 0)
        score_mod(&w);
    if (what != 1)
        mask_mod(&w);
    modgen_put(&w, "}\n");
    return w.n;
}

/* Float expressions of random programs. */
#include "tests/fuzz/modgen_expr.h"

static const double most_float = 1e4;

static double load(struct writer *w, int depth)
{
    modgen_load(w, depth, modgen_some_tensor(w, 2));
    return 4;
}

static double leaf(struct writer *w)
{
    const struct variable *v;
    switch (modgen_pick(w, 7)) {
    case 0:
    case 1:
        if (w->score) {
            modgen_put(w, "score");
            return 16;
        }
        return load(w, 0);
    case 2:
        modgen_put(w, "%u.%u", modgen_pick(w, 8), modgen_pick(w, 100));
        return 10;
    case 3:
        modgen_float_param(w);
        return 4;
    case 4:
    case 5:
        v = modgen_some_variable(w, FLOAT);
        if (v) {
            modgen_put(w, "%s", v->name);
            return v->bound;
        }
        return load(w, 0);
    default:
        return load(w, 0);
    }
}

static double tame(struct writer *w, size_t from, double bound)
{
    if (bound <= most_float)
        return bound;
    if (modgen_pick(w, 2))
        modgen_wrap(w, from, "facc.clamp(", ", -50.0, 50.0)");
    else
        modgen_wrap(w, from, "50.0 * math.tanh(0.001 * (", "))");
    return 50;
}

static double arithmetic(struct writer *w, int depth, size_t from)
{
    modgen_put(w, "(");
    double a = modgen_float(w, depth);
    unsigned op = modgen_pick(w, 3);
    modgen_put(w, ") %s (", op == 0 ? "+" : op == 1 ? "-" : "*");
    double b = modgen_float(w, depth);
    modgen_put(w, ")");
    return tame(w, from, op == 2 ? a * b : a + b);
}

static double binary(struct writer *w, int depth)
{
    size_t from = w->n;
    double a, b;
    switch (modgen_pick(w, 7)) {
    case 3: /* divisors keep away from 0 */
        modgen_put(w, "(");
        a = modgen_float(w, depth);
        modgen_put(w, ") / (math.abs(");
        modgen_float(w, depth);
        modgen_put(w, ") + 0.5)");
        return tame(w, from, 2 * a);
    case 4:
        modgen_put(w, "(");
        a = modgen_float(w, depth);
        modgen_put(w, ") %s %s%u.5", modgen_pick(w, 2) ? "%" : "//",
                   modgen_pick(w, 3) ? "" : "-", 1 + modgen_pick(w, 4));
        return a + 8;
    case 5: /* an int and a float */
        modgen_put(w, "(");
        a = modgen_float(w, depth);
        modgen_put(w, ") %s (", modgen_pick(w, 2) ? "+" : "*");
        b = modgen_int(w, depth).value;
        modgen_put(w, ")");
        return tame(w, from, a + b + a * b);
    case 6: /* division of ints gives a float */
        modgen_put(w, "(");
        a = modgen_int(w, depth).value;
        modgen_put(w, ") / %u", 1 + modgen_pick(w, 9));
        return tame(w, from, a);
    default:
        return arithmetic(w, depth, from);
    }
}

/* What turns up in attention: biases by distance, caps, decay. */
static double idiom(struct writer *w, int depth)
{
    size_t from = w->n;
    double a;
    switch (modgen_pick(w, 6)) {
    case 0:
        modgen_put(w, "0.125 * (kv - q)");
        return 128;
    case 1:
        modgen_put(w, "8.0 * facc.%s((",
                   modgen_pick(w, 3) ? "tanh" : "tanh_fast");
        modgen_float(w, depth);
        modgen_put(w, ") / 8.0)");
        return 8;
    case 2:
        modgen_put(w, "-math.abs(q - kv) * 0.0625");
        return 64;
    case 3:
        modgen_put(w, "(");
        a = modgen_float(w, depth);
        modgen_put(w, ") / (1 + 0.125 * (q - kv) ^ 2)");
        return a;
    case 4:
        return tame(w, from, modgen_dot(w, depth));
    default: /* an outer factor and a term of the row */
        modgen_float_param(w);
        modgen_put(w, " * (");
        a = modgen_float(w, depth);
        modgen_put(w, ") + ");
        a = 4 * a + load(w, 0);
        modgen_wrap(w, from, "(", ")");
        return tame(w, from, a);
    }
}

/* The bound of a list's entry that is 0: that of its operand. */
static const struct {
    const char *before, *after;
    double bound;
} functions[] = {
    {"math.abs(", ")", 0},
    {"-(", ")", 0},
    {"facc.exp(facc.clamp(", ", -8.0, 4.0))", 60},
    {"math.exp2(facc.clamp(", ", -8.0, 4.0))", 16},
    {"math.log(math.abs(", ") + 0.5)", 14},
    {"math.log(math.abs(", ") + 0.5, 2)", 20},
    {"math.log(math.abs(", ") + 0.5, 10)", 7},
    {"facc.log2(math.abs(", ") + 0.5)", 20},
    {"facc.tanh(", ")", 1},
    {"math.tanh_fast(", ")", 1},
    {"facc.sigmoid(", ")", 1},
    {"math.sin(", ")", 1},
    {"facc.cos(", ")", 1},
    {"math.tan(facc.clamp(", ", -1.0, 1.0))", 2},
    {"math.sqrt(math.abs(", "))", 100},
    {"facc.rsqrt(math.abs(", ") + 0.25)", 2},
    {"facc.erf(", ")", 1},
    {"facc.float(facc.round(facc.clamp(", ", -90.0, 90.0)))", 90},
    {"(math.abs(", ") + 0.5) ^ 0.75", 1100},
    {"facc.pow(math.abs(", ") + 0.5, -1.5)", 3},
    {"facc.relu(", ")", 0},
    {"facc.softplus(facc.clamp(", ", -9.0, 9.0))", 10},
    {"facc.rcp(math.abs(", ") + 0.5)", 2},
    {"0.25 * facc.sign(", ")", 1},
    {"(facc.clamp(", ", -8.0, 8.0)) ^ 3", 512},
    {"facc.fma(0.5, facc.clamp(", ", -8.0, 8.0), 1.5)", 6},
    {"facc.gelu(facc.clamp(", ", -9.0, 9.0))", 9},
    {"math.silu(facc.clamp(", ", -9.0, 9.0))", 9},
    {"facc.gelu_tanh(facc.clamp(", ", -9.0, 9.0))", 9},
    {"(facc.clamp(", ", -60.0, 60.0)) ^ 2", 3600},
};

static double function(struct writer *w, int depth)
{
    if (modgen_pick(w, 6) == 5) {
        modgen_put(w, "facc.%s(", modgen_pick(w, 2) ? "min" : "max");
        double a = modgen_float(w, depth);
        modgen_put(w, ", ");
        double b = modgen_float(w, depth);
        modgen_put(w, ")");
        return a > b ? a : b;
    }
    unsigned i = modgen_pick(w, sizeof functions / sizeof *functions);
    modgen_put(w, "%s", functions[i].before);
    double a = modgen_float(w, depth);
    modgen_put(w, "%s", functions[i].after);
    return functions[i].bound > 0 ? functions[i].bound : a;
}

/* c and a or b: a is a number, so it counts as true. */
double modgen_choice(struct writer *w, int depth)
{
    const bool call = modgen_pick(w, 4) == 3;
    modgen_put(w, call ? "facc.where(" : "((");
    modgen_bool(w, depth);
    modgen_put(w, call ? ", " : ") and (");
    double a = modgen_float(w, depth);
    modgen_put(w, call ? ", " : ") or (");
    double b = modgen_float(w, depth);
    modgen_put(w, call ? ")" : "))");
    return a > b ? a : b;
}

static double of_int(struct writer *w, int depth)
{
    size_t from = w->n;
    modgen_put(w, "facc.float(");
    double a = modgen_int(w, depth).value;
    modgen_put(w, ")");
    return tame(w, from, a);
}

double modgen_float(struct writer *w, int depth)
{
    uint32_t span = choices_open(w->choices, THING_FLOAT);
    size_t from = w->n;
    double bound;
    switch (depth > 0 && !modgen_is_full(w) ? modgen_pick(w, 11) : 0) {
    case 0:
        bound = leaf(w);
        break;
    case 1:
    case 2:
    case 3:
        bound = binary(w, depth - 1);
        break;
    case 4:
    case 5:
        bound = function(w, depth - 1);
        break;
    case 6:
        bound = load(w, depth - 1);
        break;
    case 7:
        bound = modgen_pick(w, 5) == 4 ? modgen_vector(w, depth - 1, true).value
                                       : modgen_inner(w, depth - 1, true).value;
        bound = tame(w, from, bound);
        break;
    case 8:
        bound = of_int(w, depth - 1);
        break;
    case 9:
        bound = w->forks > 0 ? modgen_choice(w, depth - 1) : leaf(w);
        break;
    default:
        bound = idiom(w, depth - 1);
    }
    choices_close(w->choices, span);
    return bound;
}

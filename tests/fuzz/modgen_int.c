/* Int expressions of random programs. */
#include "tests/fuzz/modgen_expr.h"

static const double most_int = 1e6, most_possible = 0x1p61;

struct range modgen_larger(struct range a, struct range b)
{
    struct range r = {a.value > b.value ? a.value : b.value,
                      a.possible > b.possible ? a.possible : b.possible};
    return r;
}

static struct range length_of(struct writer *w)
{
    modgen_put(w, "facc.len.%s(", modgen_pick(w, 2) ? "q" : "kv");
    if (modgen_pick(w, 4) < 3 || modgen_is_full(w)) {
        modgen_put(w, "b)");
    } else {
        modgen_put(w, "(");
        modgen_int(w, 0);
        modgen_put(w, ") %% facc.size.B)");
    }
    return modgen_index;
}

static struct range leaf(struct writer *w)
{
    static const char *const index[] = {"q", "kv", "h", "b"};
    static const char *const size[] = {"q", "kv", "H", "Hkv", "B", "D", "Dv"};
    unsigned what = modgen_pick(w, 12);
    if (what < 4) {
        modgen_put(w, "%s", index[what]);
        return modgen_index;
    }
    const struct variable *v =
        what >= 7 && what <= 8 ? modgen_some_variable(w, INT) : NULL;
    if (v) {
        modgen_put(w, "%s", v->name);
        return (struct range){v->bound, v->possible};
    }
    switch (what) {
    case 4:
    case 5:
        modgen_put(w, "%u", modgen_pick(w, 20));
        return modgen_up_to(20);
    case 9:
        modgen_put(w, "facc.size.%s", size[modgen_pick(w, w->fixed ? 5 : 7)]);
        return modgen_index;
    case 10:
        return modgen_int_param(w, false);
    case 11:
        return length_of(w);
    default:
        modgen_put(w, "%s", index[modgen_pick(w, 2)]);
        return modgen_index;
    }
}

/* a op b, kept small and inside 64 bits. */
static struct range binary(struct writer *w, int depth)
{
    size_t from = w->n;
    modgen_put(w, "(");
    struct range a = modgen_int(w, depth);
    unsigned op = modgen_pick(w, 3);
    modgen_put(w, ") %s (", op == 0 ? "+" : op == 1 ? "-" : "*");
    size_t second = w->n;
    struct range b = modgen_int(w, depth);
    if (op == 2 && a.possible * b.possible > most_possible) {
        modgen_wrap(w, second, "(", ") % 97");
        b = modgen_up_to(97);
    }
    if (op == 2 && a.possible * b.possible > most_possible) {
        modgen_wrap(w, from + 1, "89 % ((", ") % 4096 + 1"); /* ( of a: open */
        a = modgen_up_to(89);
    }
    modgen_put(w, ")");
    struct range r = {a.value + b.value, a.possible + b.possible};
    if (op == 2)
        r = (struct range){a.value * b.value, a.possible * b.possible};
    if (r.value <= most_int && r.possible <= most_possible)
        return r;
    modgen_wrap(w, from, "(", ") % 997");
    return modgen_up_to(997);
}

/* Divisors: constants of both signs, and run-time values that are not 0. */
static struct range divide(struct writer *w, int depth)
{
    static const int constant[] = {2, 3, 5, 7, 16, -2, -3, 64, 1, -1};
    bool modulo = modgen_pick(w, 2);
    modgen_put(w, "(");
    struct range a = modgen_int(w, depth);
    a.value += 1;
    a.possible += 1;
    modgen_put(w, ") %s ", modulo ? "%" : "//");
    switch (modgen_pick(w, 6)) {
    case 3:
        modgen_put(w, "((");
        modgen_int(w, depth);
        modgen_put(w, ") %% 7 + 1)");
        return modulo ? modgen_up_to(8) : a;
    case 4:
        modgen_put(w, "-((");
        modgen_int(w, depth);
        modgen_put(w, ") %% 5 + 1)");
        return modulo ? modgen_up_to(6) : a;
    case 5:
        modgen_int_param(w, true);
        return modulo ? (struct range){65, 0x1p31} : a;
    default:
        modgen_put(w, "%d", constant[modgen_pick(w, 10)]);
        return modulo ? modgen_up_to(64) : a;
    }
}

static struct range shift(struct writer *w, int depth)
{
    modgen_put(w, "((");
    modgen_int(w, depth);
    if (modgen_pick(w, 2)) {
        modgen_put(w, ") %% 64 << %u)", modgen_pick(w, 5));
    } else {
        modgen_put(w, ") %% 64 << (");
        modgen_int(w, depth);
        modgen_put(w, ") %% 5)");
    }
    return modgen_up_to(64 * 16);
}

static struct range bits(struct writer *w, int depth)
{
    static const char *const op[] = {"&", "|", "~"};
    struct range a;
    switch (modgen_pick(w, 4)) {
    case 0:
        modgen_put(w, "~(");
        a = modgen_int(w, depth);
        modgen_put(w, ")");
        return (struct range){a.value + 1, a.possible + 1};
    case 1: /* logical: the sign comes down too */
        modgen_put(w, "((");
        modgen_int(w, depth);
        if (modgen_pick(w, 2)) {
            modgen_put(w, ") >> %u) %% 1000", 50 + modgen_pick(w, 13));
        } else {
            modgen_put(w, ") >> ((");
            modgen_int(w, depth);
            modgen_put(w, ") %% 70)) %% 1000");
        }
        return modgen_up_to(1000);
    case 2:
        return shift(w, depth);
    default:
        modgen_put(w, "(((");
        modgen_int(w, depth);
        modgen_put(w, ") %s (", op[modgen_pick(w, 3)]);
        modgen_int(w, depth);
        modgen_put(w, ")) %% 512)");
        return modgen_up_to(512);
    }
}

/* A float becomes an int. */
static struct range rounded(struct writer *w, int depth)
{
    static const char *const how[] = {"floor", "ceil", "round"};
    unsigned k = modgen_pick(w, 3);
    modgen_put(w, "%s.%s(facc.clamp(",
               k < 2 && modgen_pick(w, 2) ? "math" : "facc", how[k]);
    modgen_float(w, depth);
    modgen_put(w, ", -500.0, 500.0))");
    return (struct range){501, 0x1p31};
}

static struct range function(struct writer *w, int depth)
{
    const char *lib = modgen_pick(w, 2) ? "math" : "facc";
    struct range a;
    unsigned n;
    switch (modgen_pick(w, 6)) {
    case 4:
        modgen_put(w, "facc.sign(");
        modgen_int(w, depth);
        modgen_put(w, ")");
        return modgen_up_to(1);
    case 5: /* a plain list, by a number from 1 */
        modgen_put(w, "facc.lookup({%u, -%u, ", modgen_pick(w, 40),
                   modgen_pick(w, 40));
        a = modgen_int(w, depth);
        modgen_put(w, "}, (");
        modgen_int(w, depth);
        modgen_put(w, ") %% 3 + 1)");
        return modgen_larger(a, modgen_up_to(40));
    case 0:
        modgen_put(w, "%s.abs(", lib);
        a = modgen_int(w, depth);
        modgen_put(w, ")");
        return a;
    case 1:
        n = 1 + modgen_pick(w, 2);
        modgen_put(w, "%s.%s(", lib, modgen_pick(w, 2) ? "min" : "max");
        a = modgen_int(w, depth);
        for (unsigned k = 0; k < n; k++) {
            modgen_put(w, ", ");
            a = modgen_larger(a, modgen_int(w, depth));
        }
        modgen_put(w, ")");
        return a;
    case 2:
        modgen_put(w, "facc.clamp(");
        modgen_int(w, depth);
        modgen_put(w, ", -%u, %u)", modgen_pick(w, 30), modgen_pick(w, 30));
        return modgen_up_to(30);
    default:
        return rounded(w, depth);
    }
}

static struct range load(struct writer *w, int depth)
{
    size_t from = w->n;
    int t = modgen_some_tensor(w, 1);
    struct modgen_tensor x = w->out->tensor[t];
    modgen_load(w, depth, t);
    if (x.dtype != DTYPE_I64)
        return (struct range){(double)(x.below > -x.low ? x.below : -x.low),
                              0x1p31};
    modgen_wrap(w, from, "(", " % 4096)");
    return modgen_up_to(4096);
}

static struct range inner(struct writer *w, int depth)
{
    size_t from = w->n;
    struct range r = modgen_pick(w, 5) == 4 ? modgen_vector(w, depth, false)
                                            : modgen_inner(w, depth, false);
    if (r.value <= most_int && r.possible <= most_possible)
        return r;
    modgen_wrap(w, from, "(", ") % 991");
    return modgen_up_to(991);
}

struct range modgen_int(struct writer *w, int depth)
{
    uint32_t span = choices_open(w->choices, THING_INT);
    struct range r;
    switch (depth > 0 && !modgen_is_full(w) ? modgen_pick(w, 10) : 0) {
    case 0:
    case 1:
        r = leaf(w);
        break;
    case 2:
    case 3:
    case 4:
        r = binary(w, depth - 1);
        break;
    case 5:
        r = divide(w, depth - 1);
        break;
    case 6:
        r = bits(w, depth - 1);
        break;
    case 7:
        r = function(w, depth - 1);
        break;
    case 8:
        r = load(w, depth - 1);
        break;
    default:
        r = inner(w, depth - 1);
    }
    choices_close(w->choices, span);
    return r;
}

struct range modgen_number(struct writer *w, int depth, bool floats)
{
    return floats ? modgen_up_to(modgen_float(w, depth)) : modgen_int(w, depth);
}

/* Random expressions of modgen.h's programs. Three kinds know their type and
 * a bound of their magnitude: int, float, bool. A budget of comparisons keeps
 * the number of paths small; inner functions of facc.sum and friends have a
 * budget of their own. Called by modgen.c. */
#include "tests/fuzz/modgen_expr.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- text --------------------------------------------------------- */

unsigned modgen_pick(struct writer *w, unsigned n)
{
    w->state ^= w->state << 13;
    w->state ^= w->state >> 7;
    w->state ^= w->state << 17;
    return (unsigned)((w->state * 0x2545f4914f6cdd1dull) >> 33) % n;
}

void modgen_put(struct writer *w, const char *fmt, ...)
{
    va_list ap;
    size_t left = MODGEN_TEXT - w->n;
    va_start(ap, fmt);
    int n = vsnprintf(w->text + w->n, left, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n < left)
        w->n += (size_t)n;
}

/* Text that stands around an expression whose bound is not known yet. */
static void wrap(struct writer *w, size_t from, const char *before,
                 const char *after)
{
    size_t a = strlen(before);
    if (w->n + a + strlen(after) >= MODGEN_TEXT)
        return;
    memmove(w->text + from + a, w->text + from, w->n - from + 1);
    memcpy(w->text + from, before, a);
    w->n += a;
    modgen_put(w, "%s", after);
}

static struct range int_expr(struct writer *w, int depth);

/* --- pieces ------------------------------------------------------- */

static const struct variable *some_variable(struct writer *w, enum type type)
{
    unsigned start = modgen_pick(w, MAX_VARIABLES);
    for (int k = 0; k < w->n_vars; k++) {
        const struct variable *v =
            &w->var[(start + (unsigned)k) % (unsigned)w->n_vars];
        if (v->type == type)
            return v;
    }
    return NULL;
}

/* An index from 0 to extent - 1. */
static void index_expr(struct writer *w, int depth, int64_t extent)
{
    modgen_put(w, "(");
    int_expr(w, depth);
    modgen_put(w, ") %% %lld", (long long)extent);
}

static void load(struct writer *w, int depth, int tensor)
{
    const struct modgen_tensor *t = &modgen_tensors[tensor];
    bool call = t->rank == 0 || modgen_pick(w, 3) == 0;
    modgen_put(w, "%s%s", t->name, call ? "(" : "");
    for (int i = 0; i < t->rank; i++) {
        modgen_put(w, "%s", call ? (i ? ", " : "") : "[");
        index_expr(w, depth, t->extent[i]);
        modgen_put(w, "%s", call ? "" : "]");
    }
    modgen_put(w, "%s", call ? ")" : "");
}

/* A tensor of floats (2), ints (1) or bools (0). */
static int some_tensor(struct writer *w, int kind)
{
    for (;;) {
        int i = (int)modgen_pick(w, (unsigned)modgen_n_tensors);
        enum dtype d = modgen_tensors[i].dtype;
        int k = d == DTYPE_BOOL ? 0 : dtype_is_float(d) ? 2 : 1;
        if (k == kind)
            return i;
    }
}

/* --- ints --------------------------------------------------------- */

static const double most_int = 1e6, most_possible = 0x1p61;

static struct range up_to(double n)
{
    return (struct range){n, n};
}

struct range modgen_larger(struct range a, struct range b)
{
    struct range r = {a.value > b.value ? a.value : b.value,
                      a.possible > b.possible ? a.possible : b.possible};
    return r;
}

static struct range int_leaf(struct writer *w)
{
    static const char *const index[] = {"b", "h", "q", "kv", "q", "kv"};
    static const char *const size[] = {"facc.size.q", "facc.size.kv",
                                       "facc.size.H", "facc.len.kv(b)",
                                       "facc.len.q(b)"};
    const struct variable *v;
    switch (modgen_pick(w, 8)) {
    case 0:
        modgen_put(w, "%u", modgen_pick(w, 20));
        return up_to(20);
    case 1:
        modgen_put(w, "%s", size[modgen_pick(w, 5)]);
        return modgen_index;
    case 2:
        modgen_put(w, "%s", modgen_pick(w, 2) ? "pi" : "(pl % 64)");
        return modgen_index;
    case 3:
    case 4:
        v = some_variable(w, INT);
        if (v) {
            modgen_put(w, "%s", v->name);
            return (struct range){v->bound, v->possible};
        }
        /* fall through */
    default:
        modgen_put(w, "%s", index[modgen_pick(w, 6)]);
        return modgen_index;
    }
}

/* a op b, kept small and inside 64 bits. */
static struct range int_binary(struct writer *w, int depth)
{
    size_t from = w->n;
    modgen_put(w, "(");
    struct range a = int_expr(w, depth);
    unsigned op = modgen_pick(w, 3);
    modgen_put(w, ") %s (", op == 0 ? "+" : op == 1 ? "-" : "*");
    size_t second = w->n;
    struct range b = int_expr(w, depth);
    if (op == 2 && a.possible * b.possible > most_possible) {
        wrap(w, second, "(", ") % 97");
        b = up_to(97);
    }
    if (op == 2 && a.possible * b.possible > most_possible) {
        wrap(w, from + 1, "89 % ((", ") % 4096 + 1"); /* ( of a stays open */
        a = up_to(89);
    }
    modgen_put(w, ")");
    struct range r = {a.value + b.value, a.possible + b.possible};
    if (op == 2)
        r = (struct range){a.value * b.value, a.possible * b.possible};
    if (r.value <= most_int && r.possible <= most_possible)
        return r;
    wrap(w, from, "(", ") % 997");
    return up_to(997);
}

/* Divisors: constants of both signs, and run-time values that are not 0. */
static struct range int_divide(struct writer *w, int depth)
{
    static const int constant[] = {2, 3, 5, 7, 16, -2, -3, 64, 1};
    bool modulo = modgen_pick(w, 2);
    modgen_put(w, "(");
    struct range a = int_expr(w, depth);
    a.value += 1;
    a.possible += 1;
    modgen_put(w, ") %s ", modulo ? "%" : "//");
    if (modgen_pick(w, 3)) {
        int d = constant[modgen_pick(w, 9)];
        modgen_put(w, "%d", d);
        return modulo ? up_to(64) : a;
    }
    modgen_put(w, "((");
    int_expr(w, depth);
    modgen_put(w, ") %% 7 + 1)");
    return modulo ? up_to(8) : a;
}

static struct range int_bits(struct writer *w, int depth)
{
    static const char *const op[] = {"&", "|", "~"};
    switch (modgen_pick(w, 4)) {
    case 0:
        modgen_put(w, "((");
        int_expr(w, depth);
        if (modgen_pick(w, 2)) {
            modgen_put(w, ") %% 64 << %u)", modgen_pick(w, 5));
        } else {
            modgen_put(w, ") %% 64 << (");
            int_expr(w, depth);
            modgen_put(w, ") %% 5)");
        }
        return up_to(64 * 16);
    case 1: /* logical: the sign comes down too */
        modgen_put(w, "((");
        int_expr(w, depth);
        modgen_put(w, ") >> %u) %% 1000", 50 + modgen_pick(w, 13));
        return up_to(1000);
    case 2:
        modgen_put(w, "~(");
        struct range a = int_expr(w, depth);
        modgen_put(w, ")");
        return (struct range){a.value + 1, a.possible + 1};
    default:
        modgen_put(w, "(((");
        int_expr(w, depth);
        modgen_put(w, ") %s (", op[modgen_pick(w, 3)]);
        int_expr(w, depth);
        modgen_put(w, ")) %% 512)");
        return up_to(512);
    }
}

static struct range int_function(struct writer *w, int depth)
{
    const char *lib = modgen_pick(w, 2) ? "math" : "facc";
    struct range a;
    switch (modgen_pick(w, 4)) {
    case 0:
        modgen_put(w, "%s.abs(", lib);
        a = int_expr(w, depth);
        modgen_put(w, ")");
        return a;
    case 1:
        modgen_put(w, "%s.%s(", lib, modgen_pick(w, 2) ? "min" : "max");
        a = int_expr(w, depth);
        modgen_put(w, ", ");
        a = modgen_larger(a, int_expr(w, depth));
        modgen_put(w, ")");
        return a;
    case 2:
        modgen_put(w, "facc.clamp(");
        int_expr(w, depth);
        modgen_put(w, ", -%u, %u)", modgen_pick(w, 30), modgen_pick(w, 30));
        return up_to(30);
    default:
        modgen_put(w, "%s.%s(facc.clamp(", lib,
                   modgen_pick(w, 3) ? "floor" : "ceil");
        modgen_float(w, depth);
        modgen_put(w, ", -500.0, 500.0))");
        return (struct range){501, 0x1p31};
    }
}

/* An int or a float expression. */
struct range modgen_number(struct writer *w, int depth, bool floats)
{
    return floats ? up_to(modgen_float(w, depth)) : int_expr(w, depth);
}

/* The head of an inner function; its counter becomes a variable. */
static void put_counter(struct writer *w)
{
    int name = w->next_name++;
    modgen_put(w, "function(k%d) return ", name);
    if (w->n_vars == MAX_VARIABLES)
        return;
    struct variable *v = &w->var[w->n_vars++];
    *v = (struct variable){.type = INT, .bound = 4, .possible = 4};
    snprintf(v->name, sizeof v->name, "k%d", name);
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
static struct range inner_function(struct writer *w, int depth, bool floats)
{
    static const char *const reduction[] = {"sum", "max", "min"};
    unsigned what = modgen_pick(w, 4);
    if (what == 3 || w->loops == 2)
        return where(w, depth, floats);
    int forks = w->forks;
    int outside = w->n_vars;
    unsigned n = 1 + modgen_pick(w, 4);
    w->forks = 2;
    w->loops++;
    modgen_put(w, "facc.%s(%u, ", reduction[what], n);
    put_counter(w);
    struct range r = modgen_number(w, depth, floats);
    modgen_put(w, " end)");
    w->n_vars = outside;
    w->forks = forks;
    w->loops--;
    if (what == 0) {
        r.value *= n;
        r.possible *= n;
    }
    return r;
}

static struct range int_expr(struct writer *w, int depth)
{
    size_t from = w->n;
    struct range r;
    int t;
    switch (depth > 0 ? modgen_pick(w, 10) : 0) {
    case 0:
    case 1:
        return int_leaf(w);
    case 2:
    case 3:
    case 4:
        return int_binary(w, depth - 1);
    case 5:
        return int_divide(w, depth - 1);
    case 6:
        return int_bits(w, depth - 1);
    case 7:
        return int_function(w, depth - 1);
    case 8:
        t = some_tensor(w, 1);
        load(w, depth - 1, t);
        if (modgen_tensors[t].dtype != DTYPE_I64)
            return (struct range){(double)modgen_tensors[t].below, 0x1p31};
        wrap(w, from, "(", " % 4096)");
        return up_to(4096);
    default:
        r = inner_function(w, depth - 1, false);
        if (r.value <= most_int && r.possible <= most_possible)
            return r;
        wrap(w, from, "(", " % 991)");
        return up_to(991);
    }
}

/* --- floats ------------------------------------------------------- */

static const double most_float = 1e4;

static double float_leaf(struct writer *w)
{
    const struct variable *v;
    switch (modgen_pick(w, 7)) {
    case 0:
        modgen_put(w, "%u.%u", modgen_pick(w, 8), modgen_pick(w, 100));
        return 10;
    case 1:
        modgen_put(w, "%s", modgen_pick(w, 2) ? "pf" : "f0");
        return 4;
    case 2:
        v = some_variable(w, FLOAT);
        if (v) {
            modgen_put(w, "%s", v->name);
            return v->bound;
        }
        /* fall through */
    case 3:
        load(w, 0, some_tensor(w, 2));
        return 4;
    default:
        if (w->score) {
            modgen_put(w, "s");
            return 16;
        }
        load(w, 0, some_tensor(w, 2));
        return 4;
    }
}

static double tame(struct writer *w, size_t from, double bound)
{
    if (bound <= most_float)
        return bound;
    if (modgen_pick(w, 2))
        wrap(w, from, "facc.clamp(", ", -50.0, 50.0)");
    else
        wrap(w, from, "50.0 * math.tanh(0.001 * (", "))");
    return 50;
}

static double float_binary(struct writer *w, int depth)
{
    size_t from = w->n;
    double a, b;
    switch (modgen_pick(w, 6)) {
    case 0: /* divisors keep away from 0 */
        modgen_put(w, "(");
        a = modgen_float(w, depth);
        modgen_put(w, ") / (math.abs(");
        modgen_float(w, depth);
        modgen_put(w, ") + 0.5)");
        return tame(w, from, 2 * a);
    case 1:
        modgen_put(w, "(");
        a = modgen_float(w, depth);
        modgen_put(w, ") %s %u.5", modgen_pick(w, 2) ? "%" : "//",
                   1 + modgen_pick(w, 4));
        return a + 8;
    case 2: /* an int and a float */
        modgen_put(w, "(");
        a = modgen_float(w, depth);
        modgen_put(w, ") %s (", modgen_pick(w, 2) ? "+" : "*");
        b = int_expr(w, depth).value;
        modgen_put(w, ")");
        return tame(w, from, a + b + a * b);
    case 3: /* division of ints gives a float */
        modgen_put(w, "(");
        a = int_expr(w, depth).value;
        modgen_put(w, ") / %u", 1 + modgen_pick(w, 9));
        return tame(w, from, a);
    default: {
        unsigned op = modgen_pick(w, 3);
        modgen_put(w, "(");
        a = modgen_float(w, depth);
        modgen_put(w, ") %s (", op == 0 ? "+" : op == 1 ? "-" : "*");
        b = modgen_float(w, depth);
        modgen_put(w, ")");
        return tame(w, from, op == 2 ? a * b : a + b);
    }
    }
}

static double float_function(struct writer *w, int depth)
{
    static const struct {
        const char *before, *after;
        double bound;
    } list[] = {
        {"facc.exp(facc.clamp(", ", -8.0, 4.0))", 60},
        {"math.exp2(facc.clamp(", ", -8.0, 4.0))", 16},
        {"math.log(math.abs(", ") + 0.5)", 14},
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
        {"facc.gelu(facc.clamp(", ", -9.0, 9.0))", 9},
        {"math.silu(facc.clamp(", ", -9.0, 9.0))", 9},
        {"facc.gelu_tanh(facc.clamp(", ", -9.0, 9.0))", 9},
        {"math.abs(", ")", 1e4},
        {"-(", ")", 1e4},
        {"(facc.clamp(", ", -60.0, 60.0)) ^ 2", 3600},
    };
    unsigned i = modgen_pick(w, sizeof list / sizeof *list);
    if (modgen_pick(w, 6) == 0) {
        modgen_put(w, "facc.%s(", modgen_pick(w, 2) ? "min" : "max");
        double a = modgen_float(w, depth);
        modgen_put(w, ", ");
        double b = modgen_float(w, depth);
        modgen_put(w, ")");
        return a > b ? a : b;
    }
    modgen_put(w, "%s", list[i].before);
    modgen_float(w, depth);
    modgen_put(w, "%s", list[i].after);
    return list[i].bound;
}

/* c and a or b: a is a number, so it counts as true. */
double modgen_choice(struct writer *w, int depth)
{
    modgen_put(w, "((");
    modgen_bool(w, depth);
    modgen_put(w, ") and (");
    double a = modgen_float(w, depth);
    modgen_put(w, ") or (");
    double b = modgen_float(w, depth);
    modgen_put(w, "))");
    return a > b ? a : b;
}

double modgen_float(struct writer *w, int depth)
{
    size_t from = w->n;
    unsigned what = depth > 0 ? modgen_pick(w, 10) : 0;
    switch (what) {
    case 0:
        return float_leaf(w);
    case 1:
    case 2:
    case 3:
        return float_binary(w, depth - 1);
    case 4:
    case 5:
        return float_function(w, depth - 1);
    case 6:
        load(w, depth - 1, some_tensor(w, 2));
        return 4;
    case 7:
        return tame(w, from, inner_function(w, depth - 1, true).value);
    case 8:
        modgen_put(w, "facc.float(");
        double a = int_expr(w, depth - 1).value;
        modgen_put(w, ")");
        return tame(w, from, a);
    default:
        return w->forks > 0 ? modgen_choice(w, depth - 1) : float_leaf(w);
    }
}

/* --- bools -------------------------------------------------------- */

static void comparison(struct writer *w, int depth)
{
    static const char *const order[] = {"<", "<=", ">", ">=", "==", "~="};
    w->forks--;
    switch (modgen_pick(w, 6)) {
    case 0: /* floats: equality of computed ones says little */
        if (modgen_pick(w, 3) == 0) {
            load(w, 0, some_tensor(w, 2));
            modgen_put(w, " %s ", order[4 + modgen_pick(w, 2)]);
            load(w, 0, some_tensor(w, 2));
            break;
        }
        modgen_float(w, depth);
        modgen_put(w, " %s ", order[modgen_pick(w, 4)]);
        modgen_float(w, depth);
        break;
    case 1: /* an int against a float constant is exact */
        int_expr(w, depth);
        modgen_put(w, " %s %u.%u", order[modgen_pick(w, 6)], modgen_pick(w, 40),
                   modgen_pick(w, 2) ? 0 : 5);
        break;
    case 2:
        modgen_put(w, "%u ", modgen_pick(w, 40));
        modgen_put(w, "%s ", order[modgen_pick(w, 6)]);
        int_expr(w, depth);
        break;
    case 3: /* an int against a float */
        int_expr(w, depth);
        modgen_put(w, " %s ", order[modgen_pick(w, 4)]);
        modgen_float(w, depth);
        break;
    default:
        int_expr(w, depth);
        modgen_put(w, " %s ", order[modgen_pick(w, 6)]);
        int_expr(w, depth);
    }
}

static void any_all(struct writer *w, int depth)
{
    int forks = w->forks - 1;
    int outside = w->n_vars;
    w->forks = 2;
    w->loops++;
    modgen_put(w, "facc.%s(%u, ", modgen_pick(w, 2) ? "any" : "all",
               1 + modgen_pick(w, 4));
    put_counter(w);
    modgen_bool(w, depth);
    modgen_put(w, " end)");
    w->n_vars = outside;
    w->loops--;
    w->forks = forks;
}

void modgen_bool(struct writer *w, int depth)
{
    unsigned what = depth > 0 && w->forks > 1 ? modgen_pick(w, 10) : 0;
    if (w->forks <= 0) {
        modgen_put(w, "true");
        return;
    }
    switch (what) {
    case 5:
    case 6:
        modgen_put(w, "(");
        modgen_bool(w, depth - 1);
        modgen_put(w, ") %s (", modgen_pick(w, 2) ? "and" : "or");
        modgen_bool(w, depth - 1);
        modgen_put(w, ")");
        break;
    case 7:
        modgen_put(w, "not (");
        modgen_bool(w, depth - 1);
        modgen_put(w, ")");
        break;
    case 3: /* decided once, at the mod's start */
        modgen_put(w, "c0");
        break;
    case 8:
        w->forks--;
        load(w, depth - 1, some_tensor(w, 0));
        break;
    case 9:
        if (w->loops < 2)
            any_all(w, depth - 1);
        else
            comparison(w, depth - 1);
        break;
    case 4: /* booleans are compared by value */
        modgen_put(w, "(");
        modgen_bool(w, depth - 1);
        modgen_put(w, ") %s (", modgen_pick(w, 2) ? "==" : "~=");
        modgen_bool(w, depth - 1);
        modgen_put(w, ")");
        break;
    default:
        comparison(w, depth - 1);
    }
}

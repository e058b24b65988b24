/* Writes random programs (modgen.h). Three kinds of expressions know their
 * type and a bound of their magnitude: int, float, bool. A budget of
 * comparisons keeps the number of paths small; inner functions of facc.sum
 * and friends have a budget of their own. */
#include "tests/fuzz/modgen.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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

enum { MAX_VARIABLES = 12 };
enum type { INT, FLOAT };

struct variable {
    char name[16];
    enum type type;
    double bound;    /* of |value| */
    double possible; /* ints: what the compiler must reckon with */
};

struct writer {
    uint64_t state;
    char *text;
    size_t n;
    struct variable var[MAX_VARIABLES];
    int n_vars;
    int next_name;
    int forks;  /* comparisons still allowed */
    int loops;  /* nesting of inner functions */
    bool score; /* the mod has a score */
};

/* --- text --------------------------------------------------------- */

static unsigned pick(struct writer *w, unsigned n)
{
    w->state ^= w->state << 13;
    w->state ^= w->state >> 7;
    w->state ^= w->state << 17;
    return (unsigned)((w->state * 0x2545f4914f6cdd1dull) >> 33) % n;
}

static void put(struct writer *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void put(struct writer *w, const char *fmt, ...)
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
    put(w, "%s", after);
}

/* Of an int: what it is at most here, and what the compiler must reckon with
 * (indices and sizes up to 2^31). */
struct range {
    double value, possible;
};

static struct range int_expr(struct writer *w, int depth);
static double float_expr(struct writer *w, int depth);
static void bool_expr(struct writer *w, int depth);

/* --- pieces ------------------------------------------------------- */

static const struct variable *some_variable(struct writer *w, enum type type)
{
    unsigned start = pick(w, MAX_VARIABLES);
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
    put(w, "(");
    int_expr(w, depth);
    put(w, ") %% %lld", (long long)extent);
}

static void load(struct writer *w, int depth, int tensor)
{
    const struct modgen_tensor *t = &modgen_tensors[tensor];
    bool call = t->rank == 0 || pick(w, 3) == 0;
    put(w, "%s%s", t->name, call ? "(" : "");
    for (int i = 0; i < t->rank; i++) {
        put(w, "%s", call ? (i ? ", " : "") : "[");
        index_expr(w, depth, t->extent[i]);
        put(w, "%s", call ? "" : "]");
    }
    put(w, "%s", call ? ")" : "");
}

/* A tensor of floats (2), ints (1) or bools (0). */
static int some_tensor(struct writer *w, int kind)
{
    for (;;) {
        int i = (int)pick(w, (unsigned)modgen_n_tensors);
        enum dtype d = modgen_tensors[i].dtype;
        int k = d == DTYPE_BOOL ? 0 : dtype_is_float(d) ? 2 : 1;
        if (k == kind)
            return i;
    }
}

/* --- ints --------------------------------------------------------- */

static const double most_int = 1e6, most_possible = 0x1p61;
static const struct range index_range = {MODGEN_MAX_LENGTH, 0x1p31};

static struct range up_to(double n)
{
    return (struct range){n, n};
}

static struct range larger(struct range a, struct range b)
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
    switch (pick(w, 8)) {
    case 0:
        put(w, "%u", pick(w, 20));
        return up_to(20);
    case 1:
        put(w, "%s", size[pick(w, 5)]);
        return index_range;
    case 2:
        put(w, "%s", pick(w, 2) ? "pi" : "(pl % 64)");
        return index_range;
    case 3:
    case 4:
        v = some_variable(w, INT);
        if (v) {
            put(w, "%s", v->name);
            return (struct range){v->bound, v->possible};
        }
        /* fall through */
    default:
        put(w, "%s", index[pick(w, 6)]);
        return index_range;
    }
}

/* a op b, kept small and inside 64 bits. */
static struct range int_binary(struct writer *w, int depth)
{
    size_t from = w->n;
    put(w, "(");
    struct range a = int_expr(w, depth);
    unsigned op = pick(w, 3);
    put(w, ") %s (", op == 0 ? "+" : op == 1 ? "-" : "*");
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
    put(w, ")");
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
    bool modulo = pick(w, 2);
    put(w, "(");
    struct range a = int_expr(w, depth);
    a.value += 1;
    a.possible += 1;
    put(w, ") %s ", modulo ? "%" : "//");
    if (pick(w, 3)) {
        int d = constant[pick(w, 9)];
        put(w, "%d", d);
        return modulo ? up_to(64) : a;
    }
    put(w, "((");
    int_expr(w, depth);
    put(w, ") %% 7 + 1)");
    return modulo ? up_to(8) : a;
}

static struct range int_bits(struct writer *w, int depth)
{
    static const char *const op[] = {"&", "|", "~"};
    switch (pick(w, 4)) {
    case 0:
        put(w, "((");
        int_expr(w, depth);
        if (pick(w, 2)) {
            put(w, ") %% 64 << %u)", pick(w, 5));
        } else {
            put(w, ") %% 64 << (");
            int_expr(w, depth);
            put(w, ") %% 5)");
        }
        return up_to(64 * 16);
    case 1: /* logical: the sign comes down too */
        put(w, "((");
        int_expr(w, depth);
        put(w, ") >> %u) %% 1000", 50 + pick(w, 13));
        return up_to(1000);
    case 2:
        put(w, "~(");
        struct range a = int_expr(w, depth);
        put(w, ")");
        return (struct range){a.value + 1, a.possible + 1};
    default:
        put(w, "(((");
        int_expr(w, depth);
        put(w, ") %s (", op[pick(w, 3)]);
        int_expr(w, depth);
        put(w, ")) %% 512)");
        return up_to(512);
    }
}

static struct range int_function(struct writer *w, int depth)
{
    const char *lib = pick(w, 2) ? "math" : "facc";
    struct range a;
    switch (pick(w, 4)) {
    case 0:
        put(w, "%s.abs(", lib);
        a = int_expr(w, depth);
        put(w, ")");
        return a;
    case 1:
        put(w, "%s.%s(", lib, pick(w, 2) ? "min" : "max");
        a = int_expr(w, depth);
        put(w, ", ");
        a = larger(a, int_expr(w, depth));
        put(w, ")");
        return a;
    case 2:
        put(w, "facc.clamp(");
        int_expr(w, depth);
        put(w, ", -%u, %u)", pick(w, 30), pick(w, 30));
        return up_to(30);
    default:
        put(w, "%s.%s(facc.clamp(", lib, pick(w, 3) ? "floor" : "ceil");
        float_expr(w, depth);
        put(w, ", -500.0, 500.0))");
        return (struct range){501, 0x1p31};
    }
}

/* An int or a float expression. */
static struct range number_expr(struct writer *w, int depth, bool floats)
{
    return floats ? up_to(float_expr(w, depth)) : int_expr(w, depth);
}

/* The head of an inner function; its counter becomes a variable. */
static void put_counter(struct writer *w)
{
    int name = w->next_name++;
    put(w, "function(k%d) return ", name);
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
    put(w, "facc.where(function() return ");
    bool_expr(w, depth);
    w->forks = forks;
    put(w, " end, ");
    struct range a = number_expr(w, depth, floats);
    put(w, ", ");
    struct range b = number_expr(w, depth, floats);
    put(w, ")");
    return larger(a, b);
}

/* where and the reductions; the inner function may compare freely. */
static struct range inner_function(struct writer *w, int depth, bool floats)
{
    static const char *const reduction[] = {"sum", "max", "min"};
    unsigned what = pick(w, 4);
    if (what == 3 || w->loops == 2)
        return where(w, depth, floats);
    int forks = w->forks;
    int outside = w->n_vars;
    unsigned n = 1 + pick(w, 4);
    w->forks = 2;
    w->loops++;
    put(w, "facc.%s(%u, ", reduction[what], n);
    put_counter(w);
    struct range r = number_expr(w, depth, floats);
    put(w, " end)");
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
    switch (depth > 0 ? pick(w, 10) : 0) {
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
    switch (pick(w, 7)) {
    case 0:
        put(w, "%u.%u", pick(w, 8), pick(w, 100));
        return 10;
    case 1:
        put(w, "%s", pick(w, 2) ? "pf" : "f0");
        return 4;
    case 2:
        v = some_variable(w, FLOAT);
        if (v) {
            put(w, "%s", v->name);
            return v->bound;
        }
        /* fall through */
    case 3:
        load(w, 0, some_tensor(w, 2));
        return 4;
    default:
        if (w->score) {
            put(w, "s");
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
    if (pick(w, 2))
        wrap(w, from, "facc.clamp(", ", -50.0, 50.0)");
    else
        wrap(w, from, "50.0 * math.tanh(0.001 * (", "))");
    return 50;
}

static double float_binary(struct writer *w, int depth)
{
    size_t from = w->n;
    double a, b;
    switch (pick(w, 6)) {
    case 0: /* divisors keep away from 0 */
        put(w, "(");
        a = float_expr(w, depth);
        put(w, ") / (math.abs(");
        float_expr(w, depth);
        put(w, ") + 0.5)");
        return tame(w, from, 2 * a);
    case 1:
        put(w, "(");
        a = float_expr(w, depth);
        put(w, ") %s %u.5", pick(w, 2) ? "%" : "//", 1 + pick(w, 4));
        return a + 8;
    case 2: /* an int and a float */
        put(w, "(");
        a = float_expr(w, depth);
        put(w, ") %s (", pick(w, 2) ? "+" : "*");
        b = int_expr(w, depth).value;
        put(w, ")");
        return tame(w, from, a + b + a * b);
    case 3: /* division of ints gives a float */
        put(w, "(");
        a = int_expr(w, depth).value;
        put(w, ") / %u", 1 + pick(w, 9));
        return tame(w, from, a);
    default: {
        unsigned op = pick(w, 3);
        put(w, "(");
        a = float_expr(w, depth);
        put(w, ") %s (", op == 0 ? "+" : op == 1 ? "-" : "*");
        b = float_expr(w, depth);
        put(w, ")");
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
    unsigned i = pick(w, sizeof list / sizeof *list);
    if (pick(w, 6) == 0) {
        put(w, "facc.%s(", pick(w, 2) ? "min" : "max");
        double a = float_expr(w, depth);
        put(w, ", ");
        double b = float_expr(w, depth);
        put(w, ")");
        return a > b ? a : b;
    }
    put(w, "%s", list[i].before);
    float_expr(w, depth);
    put(w, "%s", list[i].after);
    return list[i].bound;
}

/* c and a or b: a is a number, so it counts as true. */
static double choice(struct writer *w, int depth)
{
    put(w, "((");
    bool_expr(w, depth);
    put(w, ") and (");
    double a = float_expr(w, depth);
    put(w, ") or (");
    double b = float_expr(w, depth);
    put(w, "))");
    return a > b ? a : b;
}

static double float_expr(struct writer *w, int depth)
{
    size_t from = w->n;
    unsigned what = depth > 0 ? pick(w, 10) : 0;
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
        put(w, "facc.float(");
        double a = int_expr(w, depth - 1).value;
        put(w, ")");
        return tame(w, from, a);
    default:
        return w->forks > 0 ? choice(w, depth - 1) : float_leaf(w);
    }
}

/* --- bools -------------------------------------------------------- */

static void comparison(struct writer *w, int depth)
{
    static const char *const order[] = {"<", "<=", ">", ">=", "==", "~="};
    w->forks--;
    switch (pick(w, 6)) {
    case 0: /* floats: equality of computed ones says little */
        if (pick(w, 3) == 0) {
            load(w, 0, some_tensor(w, 2));
            put(w, " %s ", order[4 + pick(w, 2)]);
            load(w, 0, some_tensor(w, 2));
            break;
        }
        float_expr(w, depth);
        put(w, " %s ", order[pick(w, 4)]);
        float_expr(w, depth);
        break;
    case 1: /* an int against a float constant is exact */
        int_expr(w, depth);
        put(w, " %s %u.%u", order[pick(w, 6)], pick(w, 40), pick(w, 2) ? 0 : 5);
        break;
    case 2:
        put(w, "%u ", pick(w, 40));
        put(w, "%s ", order[pick(w, 6)]);
        int_expr(w, depth);
        break;
    case 3: /* an int against a float */
        int_expr(w, depth);
        put(w, " %s ", order[pick(w, 4)]);
        float_expr(w, depth);
        break;
    default:
        int_expr(w, depth);
        put(w, " %s ", order[pick(w, 6)]);
        int_expr(w, depth);
    }
}

static void any_all(struct writer *w, int depth)
{
    int forks = w->forks - 1;
    int outside = w->n_vars;
    w->forks = 2;
    w->loops++;
    put(w, "facc.%s(%u, ", pick(w, 2) ? "any" : "all", 1 + pick(w, 4));
    put_counter(w);
    bool_expr(w, depth);
    put(w, " end)");
    w->n_vars = outside;
    w->loops--;
    w->forks = forks;
}

static void bool_expr(struct writer *w, int depth)
{
    unsigned what = depth > 0 && w->forks > 1 ? pick(w, 10) : 0;
    if (w->forks <= 0) {
        put(w, "true");
        return;
    }
    switch (what) {
    case 5:
    case 6:
        put(w, "(");
        bool_expr(w, depth - 1);
        put(w, ") %s (", pick(w, 2) ? "and" : "or");
        bool_expr(w, depth - 1);
        put(w, ")");
        break;
    case 7:
        put(w, "not (");
        bool_expr(w, depth - 1);
        put(w, ")");
        break;
    case 3: /* decided once, at the mod's start */
        put(w, "c0");
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
        put(w, "(");
        bool_expr(w, depth - 1);
        put(w, ") %s (", pick(w, 2) ? "==" : "~=");
        bool_expr(w, depth - 1);
        put(w, ")");
        break;
    default:
        comparison(w, depth - 1);
    }
}

/* --- statements --------------------------------------------------- */

static void declare(struct writer *w, int depth)
{
    if (w->n_vars == MAX_VARIABLES)
        return;
    struct variable v = {.type = pick(w, 2) ? INT : FLOAT};
    snprintf(v.name, sizeof v.name, "v%d", w->next_name++);
    put(w, "  local %s = ", v.name);
    struct range r = number_expr(w, depth, v.type == FLOAT);
    v.bound = r.value;
    v.possible = r.possible;
    put(w, "\n");
    w->var[w->n_vars++] = v;
}

/* if … then v = … elseif … end */
static void branch(struct writer *w, int depth)
{
    if (!w->n_vars || w->forks <= 1) {
        declare(w, depth);
        return;
    }
    struct variable *v = &w->var[pick(w, (unsigned)w->n_vars)];
    unsigned arms = 1 + pick(w, 2);
    for (unsigned i = 0; i <= arms; i++) {
        if (i < arms) {
            put(w, "  %s ", i ? "elseif" : "if");
            bool_expr(w, 1);
            put(w, " then\n");
        } else {
            put(w, "  else\n");
        }
        put(w, "    %s = ", v->name);
        struct range r = number_expr(w, depth, v->type == FLOAT);
        put(w, "\n");
        r = larger(r, (struct range){v->bound, v->possible});
        v->bound = r.value;
        v->possible = r.possible;
    }
    put(w, "  end\n");
}

/* A counted loop that adds to a variable of its own. */
static void loop(struct writer *w, int depth)
{
    if (w->n_vars + 2 > MAX_VARIABLES) {
        branch(w, depth);
        return;
    }
    int outside = w->n_vars;
    struct variable sum = {.type = pick(w, 2) ? INT : FLOAT};
    struct variable step = {.type = INT, .bound = 5, .possible = 5};
    unsigned n = 1 + pick(w, 4);
    snprintf(sum.name, sizeof sum.name, "v%d", w->next_name++);
    snprintf(step.name, sizeof step.name, "i%d", w->next_name++);
    put(w, "  local %s = %s\n", sum.name, sum.type == INT ? "0" : "0.0");
    if (pick(w, 2))
        put(w, "  for %s = 1, %u do\n", step.name, n);
    else
        put(w, "  for %s = %u, 1, -1 do\n", step.name, n);
    w->var[w->n_vars++] = step;
    int forks = w->forks;
    w->forks = 0; /* in every turn */
    put(w, "    %s = %s + (", sum.name, sum.name);
    struct range r = number_expr(w, depth, sum.type == FLOAT);
    put(w, ")\n  end\n");
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
    x.bound = index_range.value;
    x.possible = index_range.possible;
    struct variable y = {.type = FLOAT, .bound = 16};
    snprintf(x.name, sizeof x.name, "x%d", id);
    snprintf(y.name, sizeof y.name, "y%d", id);
    put(w, "  local function call%d(%s, %s)\n", id, x.name, y.name);
    w->var[w->n_vars++] = x;
    w->var[w->n_vars++] = y;
    struct variable result = {.type = FLOAT};
    if (w->forks > 2 && pick(w, 2)) {
        put(w, "    if ");
        bool_expr(w, 1);
        put(w, " then return ");
        result.bound = float_expr(w, depth);
        put(w, " end\n");
    }
    put(w, "    return ");
    double bound = float_expr(w, depth);
    put(w, "\n  end\n");
    result.bound = bound > result.bound ? bound : result.bound;
    w->n_vars = outside;
    snprintf(result.name, sizeof result.name, "v%d", w->next_name++);
    put(w, "  local %s = call%d(%s, facc.clamp(", result.name, id,
        pick(w, 2) ? "kv" : "q");
    float_expr(w, 1);
    put(w, ", -16.0, 16.0))\n");
    w->var[w->n_vars++] = result;
}

static void statements(struct writer *w)
{
    unsigned n = pick(w, 4);
    for (unsigned i = 0; i < n; i++)
        switch (pick(w, 5)) {
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
    put(w, "score_mod = function(s, b, h, q, kv)\n  local c0 = b0()\n");
    statements(w);
    if (w->forks > 1 && pick(w, 3) == 0) {
        put(w, "  if ");
        bool_expr(w, 1);
        put(w, " then return %s end\n", pick(w, 2) ? "-math.huge" : "s");
    }
    put(w, "  return ");
    if (w->forks > 0 && pick(w, 4) == 0)
        choice(w, 2);
    else
        float_expr(w, 3);
    put(w, "\nend,\n");
}

static void mask_mod(struct writer *w)
{
    w->n_vars = 0;
    w->forks = 6;
    w->score = false;
    put(w, "mask_mod = function(b, h, q, kv)\n  local c0 = b0()\n");
    statements(w);
    if (w->forks > 2 && pick(w, 3) == 0) {
        put(w, "  if ");
        bool_expr(w, 1);
        put(w, " then return %s end\n", pick(w, 2) ? "true" : "false");
    }
    w->forks = w->forks > 0 ? w->forks : 1;
    put(w, "  return ");
    bool_expr(w, 3);
    put(w, "\nend,\n");
}

size_t modgen(uint64_t seed, char *text)
{
    struct writer w = {.state = (seed + 1) * 0x9e3779b97f4a7c15ull,
                       .text = text};
    text[0] = '\0';
    put(&w, "local facc = require 'facc'\n");
    for (int i = 0; i < modgen_n_tensors; i++) {
        const struct modgen_tensor *t = &modgen_tensors[i];
        put(&w, "local %s = facc.tensor('%s', '%s', {", t->name, t->name,
            dtype_name(t->dtype));
        for (int d = 0; d < t->rank; d++)
            put(&w, "%s%lld", d ? ", " : "", (long long)t->extent[d]);
        put(&w, "})\n");
    }
    put(&w, "local pi = facc.param('pi', 'i32')\n"
            "local pl = facc.param('pl', 'i64')\n"
            "local pf = facc.param('pf', 'f32')\n"
            "return facc.attention {\n");
    unsigned what = pick(&w, 4);
    if (what != 0)
        score_mod(&w);
    if (what != 1)
        mask_mod(&w);
    put(&w, "}\n");
    return w.n;
}

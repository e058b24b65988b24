/* Writes random programs (modgen.h): declarations and the two mods, around
 * the statements and expressions of the other files. */
#include "tests/fuzz/modgen_expr.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct modgen_tensor modgen_tensors[] = {
    {.name = "slopes", .dtype = DTYPE_F32, .rank = 1, .extent = {4}},
    {.name = "ids", .dtype = DTYPE_I32, .rank = 1, .extent = {64}, .below = 64},
    {.name = "half2", .dtype = DTYPE_F16, .rank = 2, .extent = {16, 8}},
    {.name = "brain3", .dtype = DTYPE_BF16, .rank = 3, .extent = {4, 8, 8}},
    {.name = "e4", .dtype = DTYPE_E4M3, .rank = 1, .extent = {32}},
    {.name = "e5", .dtype = DTYPE_E5M2, .rank = 1, .extent = {32}},
    {.name = "small",
     .dtype = DTYPE_I8,
     .rank = 1,
     .extent = {32},
     .below = 100},
    {.name = "byte",
     .dtype = DTYPE_U8,
     .rank = 1,
     .extent = {32},
     .below = 200},
    {.name = "word",
     .dtype = DTYPE_I16,
     .rank = 1,
     .extent = {32},
     .below = 1000},
    {.name = "wide",
     .dtype = DTYPE_I64,
     .rank = 1,
     .extent = {32},
     .below = 5000},
    {.name = "flag",
     .dtype = DTYPE_BOOL,
     .rank = 1,
     .extent = {64},
     .below = 2},
    {.name = "grid",
     .dtype = DTYPE_BOOL,
     .rank = 2,
     .extent = {8, 8},
     .below = 2},
    {.name = "f0", .dtype = DTYPE_F32},
    {.name = "i0", .dtype = DTYPE_I32, .below = 50},
    {.name = "b0", .dtype = DTYPE_BOOL, .below = 2},
};
const int modgen_n_tensors = sizeof modgen_tensors / sizeof *modgen_tensors;

/* --- text --------------------------------------------------------- */

unsigned modgen_pick(struct writer *w, unsigned n)
{
    return choices_draw(w->choices, n);
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

void modgen_wrap(struct writer *w, size_t from, const char *before,
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

bool modgen_is_full(const struct writer *w)
{
    return w->n > MODGEN_TEXT / 4 || w->choices->n > CHOICES_MOST / 2;
}

const struct variable *modgen_some_variable(struct writer *w, enum type type)
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

struct variable modgen_new_variable(struct writer *w, char prefix,
                                    enum type type)
{
    struct variable v = {.type = type};
    snprintf(v.name, sizeof v.name, "%c%d", prefix, w->next_name++);
    return v;
}

/* --- mods --------------------------------------------------------- */

static void early_return(struct writer *w, const char *one, const char *two)
{
    if (w->forks <= 2 || modgen_pick(w, 3) != 2)
        return;
    uint32_t span = choices_open(w->choices, THING_STATEMENT);
    modgen_put(w, "  if ");
    modgen_bool(w, 1);
    modgen_put(w, " then return %s end\n", modgen_pick(w, 2) ? one : two);
    choices_close(w->choices, span);
}

static void decide(struct writer *w)
{
    if (!w->fixed && modgen_pick(w, 4) != 3)
        return;
    modgen_put(w, "  local c0 = ");
    w->reads = true;
    if (w->fixed)
        modgen_put(w, "b0()");
    else
        modgen_load(w, 0, modgen_some_tensor(w, 0));
    w->reads = false;
    modgen_put(w, "\n");
    w->decided = true;
}

/* "…": one expression, with the parameters' own names. */
static bool in_a_string(struct writer *w, const char *key)
{
    if (w->fixed || modgen_pick(w, 8) != 7)
        return false;
    modgen_put(w, "%s = \"", key);
    if (w->score)
        modgen_float(w, w->depth);
    else
        modgen_bool(w, w->depth);
    modgen_put(w, "\",\n");
    return true;
}

static void begin(struct writer *w, bool score, int forks)
{
    w->n_vars = 0;
    w->forks = forks;
    w->score = score;
    w->decided = false;
}

/* Masks as a term or a value of the score: -inf inside of sums and choices,
 * and -inf that a tensor has. Nothing is done with the result, or it might
 * become NaN. */
static void masking_result(struct writer *w)
{
    unsigned how = modgen_pick(w, w->fixed ? 3 : 4);
    if (how == 3) {
        modgen_float(w, w->depth);
        modgen_put(w, " + ");
        modgen_load(w, 1, modgen_some_tensor(w, 3));
        return;
    }
    if (how > 0)
        modgen_put(w, how == 1 ? "score + " : "0.5 + (score + ");
    const bool call = w->forks <= 0 || modgen_pick(w, 2);
    const int forks = w->forks;
    w->forks = call ? 2 : forks;
    modgen_put(w, call ? "facc.where(function() return " : "((");
    modgen_bool(w, 1);
    w->forks = call ? forks : w->forks;
    modgen_put(w, call ? " end, " : ") and ");
    if (how > 0)
        modgen_put(w, "0.0");
    else
        modgen_float(w, 1);
    modgen_put(w, call ? ", -math.huge)" : " or -math.huge)");
    if (how == 2)
        modgen_put(w, ")");
}

static void score_mod(struct writer *w)
{
    begin(w, true, 5);
    if (in_a_string(w, "score_mod"))
        return;
    modgen_put(w, "score_mod = function(score, b, h, q, kv)\n");
    decide(w);
    modgen_statements(w);
    early_return(w, "-math.huge", "score");
    modgen_put(w, "  return ");
    switch (modgen_pick(w, 6)) {
    case 3:
        masking_result(w);
        break;
    case 1:
        if (w->forks > 0) {
            modgen_choice(w, 2);
            break;
        }
        /* fall through */
    case 2:
        modgen_put(w, "score + (");
        modgen_float(w, w->depth);
        modgen_put(w, ")");
        break;
    default:
        modgen_float(w, w->depth);
    }
    modgen_put(w, "\nend,\n");
}

static void mask_mod(struct writer *w)
{
    begin(w, false, 6);
    if (in_a_string(w, "mask_mod"))
        return;
    modgen_put(w, "mask_mod = function(b, h, q, kv)\n");
    decide(w);
    modgen_statements(w);
    early_return(w, "true", "false");
    w->forks = w->forks > 0 ? w->forks : 1;
    modgen_put(w, "  return ");
    modgen_bool(w, w->depth);
    modgen_put(w, "\nend,\n");
}

static void mods(struct writer *w)
{
    unsigned what = modgen_pick(w, 4);
    modgen_put(w, "return facc.attention {\n");
    for (unsigned k = 0; k < 2; k++) {
        if (what == 2 - k)
            continue;
        uint32_t span = choices_open(w->choices, THING_MOD);
        if (k)
            mask_mod(w);
        else
            score_mod(w);
        choices_close(w->choices, span);
    }
    modgen_put(w, "}\n");
}

/* --- programs ----------------------------------------------------- */

static void put_declarations(struct writer *w)
{
    static const char *const dim[] = {"", "B", "H", "Hkv", "q", "kv", "any"};
    const struct modgen_program *p = w->out;
    modgen_put(w, "local facc = require 'facc'\n");
    for (int i = 0; i < p->n_tensors; i++) {
        const struct modgen_tensor *t = &p->tensor[i];
        modgen_put(w, "local %s = facc.tensor('%s', '%s', {", t->name, t->name,
                   dtype_name(t->dtype));
        for (int d = 0; d < t->rank; d++)
            if (t->kind[d] == IR_DIM_FIXED)
                modgen_put(w, "%s%lld", d ? ", " : "", (long long)t->extent[d]);
            else
                modgen_put(w, "%s'%s'", d ? ", " : "", dim[t->kind[d]]);
        modgen_put(w, "})\n");
    }
    for (int i = 0; i < p->n_params; i++)
        modgen_put(w, "local %s = facc.param('%s', '%s')\n", p->param[i].name,
                   p->param[i].name, dtype_name(p->param[i].dtype));
}

/* What is used is known behind the mods. */
static void write_program(struct writer *w)
{
    char *text = w->text;
    mods(w);
    size_t size = w->n;
    char *copy = malloc(size + 1);
    if (!copy)
        abort();
    memcpy(copy, text, size + 1);
    w->n = 0;
    put_declarations(w);
    modgen_put(w, "%s", copy);
    w->out->size = w->n;
    free(copy);
}

void modgen_program(struct choices *c, bool small, struct modgen_program *out)
{
    struct writer w = {
        .choices = c, .out = out, .depth = small ? 2 : 3, .text = out->text};
    out->n_tensors = out->n_params = 0;
    out->text[0] = '\0';
    write_program(&w);
}

size_t modgen(uint64_t seed, char *text)
{
    static const struct modgen_param params[MODGEN_PARAMS] = {
        {"pi", DTYPE_I32, 1, 0},
        {"pl", DTYPE_I64, 1, 0},
        {"pf", DTYPE_F32, 0, 1}};
    struct modgen_program *p = malloc(sizeof *p);
    struct choices *c = malloc(sizeof *c);
    if (!p || !c)
        abort();
    struct writer w = {
        .choices = c, .out = p, .fixed = true, .depth = 3, .text = p->text};
    choices_seed(c, seed);
    p->n_tensors = modgen_n_tensors;
    p->n_params = MODGEN_PARAMS;
    memcpy(p->tensor, modgen_tensors, sizeof modgen_tensors);
    memcpy(p->param, params, sizeof params);
    p->text[0] = '\0';
    write_program(&w);
    memcpy(text, p->text, p->size + 1);
    size_t size = p->size;
    free(p);
    free(c);
    return size;
}

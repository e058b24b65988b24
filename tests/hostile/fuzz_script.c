/* libFuzzer: any bytes as a user's file, the whole way: tracing, passes, the
 * evaluator, verdicts, emit. Bytes after '=' are a one-line mask, after '~' a
 * one-line score. Beside what the sanitizers see: a file either loads or gives
 * an error of the script with its line; a verdict holds in every cell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/compile.h"
#include "runtime/select.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Small enough for a thousand inputs a second; the real limits are tried by
 * test_hostile.c. */
static const struct compile_limits limits = {.lua_memory = 4 << 20,
                                             .instructions = 400000,
                                             .max_paths = 64,
                                             .max_comparisons = 64};

static _Noreturn void defect(const char *what, const struct diag *d)
{
    fprintf(stderr, "DEFECT: %s\n", what);
    if (d)
        fprintf(stderr, "status %d, %s:%d: %s\n", d->status, d->file, d->line,
                d->message);
    abort();
}

/* --- the evaluator and the verdicts --------------------------------- */

enum { B = 2, H = 4, HKV = 2, SQ = 9, SKV = 11, ANY = 13, MOST_TENSORS = 16 };
enum { DATA = 1 << 16 /* bytes of a captured tensor, at most */ };

struct world {
    struct eval_env env;
    struct eval_tensor tensor[MOST_TENSORS];
    union eval_value param[MOST_TENSORS];
};

static int64_t extent(struct ir_dim d)
{
    static const int64_t sizes[] = {
        [IR_DIM_B] = B,  [IR_DIM_H] = H,    [IR_DIM_HKV] = HKV,
        [IR_DIM_Q] = SQ, [IR_DIM_KV] = SKV, [IR_DIM_ANY] = ANY};
    return d.kind == IR_DIM_FIXED ? d.extent : sizes[d.kind];
}

/* False: the program declares more than there is room for. */
static bool make_world(const struct ir_graph *g, struct world *w)
{
    static _Alignas(16) unsigned char data[DATA];
    *w = (struct world){.env = {.B = B,
                                .H = H,
                                .Hkv = HKV,
                                .Sq = SQ,
                                .Skv = SKV,
                                .D = 64,
                                .Dv = 64,
                                .tensors = w->tensor,
                                .params = w->param}};
    if (g->n_tensors > MOST_TENSORS || g->n_params > MOST_TENSORS)
        return false;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = i % 7 == 0; /* true and false, small numbers */
    for (int t = 0; t < g->n_tensors; t++) {
        int64_t n = 1;
        w->tensor[t].data = data;
        for (int d = g->tensors[t].rank; d-- > 0;) {
            const int64_t e = extent(g->tensors[t].dim[d]);
            if (e > DATA / 8 || (n *= e) > DATA / 8)
                return false;
            w->tensor[t].shape[d] = e;
            w->tensor[t].stride[d] = d == g->tensors[t].rank - 1 ? 1 : 0;
        }
    }
    for (int p = 0; p < g->n_params; p++)
        if (g->params[p].dtype == DTYPE_F32)
            w->param[p].f = 2.5;
        else
            w->param[p].i = 3;
    return true;
}

/* The cells of one head. False: a read outside a tensor that matters. */
static bool fill_cells(const struct program *p, const struct world *w,
                       uint8_t keep[SQ][SKV])
{
    struct eval_state *s = eval_state_new(p->plan, EVAL_F32, SKV, &w->env);
    struct diag d;
    diag_init(&d);
    bool ok = s && eval_tile(s, 1, 3, 0, SKV, &d);
    for (int q = 0; ok && q < SQ; q++) {
        float score[SKV] = {0.0f, -3.5f, 1e30f};
        ok = eval_row(s, q, score, keep[q], &d);
    }
    if (!ok && d.status != DIAG_BOUNDS)
        defect("the evaluator fails", &d);
    if (!ok && (d.line <= 0 || !*d.message))
        defect("a bad read without its line", &d);
    eval_state_free(s);
    return ok;
}

static void check_verdict(enum verdict v, uint8_t keep[SQ][SKV], int q0, int q1,
                          int kv0, int kv1)
{
    for (int q = q0; q <= q1; q++)
        for (int kv = kv0; kv <= kv1; kv++)
            if (v != VERDICT_PARTIAL && keep[q][kv] != (v == VERDICT_FULL))
                defect("a verdict is wrong", NULL);
}

static void check_verdicts(const struct program *p, const struct world *w,
                           uint8_t keep[SQ][SKV])
{
    struct verdict_state *s =
        verdict_state_new(p->verdict_plan, EVAL_F32, &w->env);
    if (!s)
        defect("no memory for verdicts", NULL);
    verdict_state_head(s, 1, 3);
    check_verdict(verdict_eval(s, 0, SQ - 1, 0, SKV - 1), keep, 0, SQ - 1, 0,
                  SKV - 1);
    for (int q = 0; q < SQ; q += 2)
        for (int kv = 0; kv < SKV; kv += 3) {
            const int q1 = q + 1 < SQ ? q + 1 : SQ - 1;
            const int kv1 = kv + 2 < SKV ? kv + 2 : SKV - 1;
            check_verdict(verdict_eval(s, q, q1, kv, kv1), keep, q, q1, kv,
                          kv1);
        }
    verdict_state_free(s);
}

static void run_cells(const struct program *p)
{
    static uint8_t keep[SQ][SKV];
    struct world w;
    memset(keep, 1, sizeof keep);
    if (!make_world(p->graph, &w) || !fill_cells(p, &w, keep))
        return;
    /* without scores a mask that reads them was not asked */
    if (!eval_plan_mask_reads_score(p->plan))
        check_verdicts(p, &w, keep);
}

/* --- text ----------------------------------------------------------- */

static void emit(struct program *p, int family, bool check_bounds)
{
    const facc_variant v = {.struct_size = sizeof v,
                            .dtype = FACC_BF16,
                            .out_dtype = FACC_BF16,
                            .head_dim = 64,
                            .head_dim_v = 64,
                            .check_bounds = check_bounds,
                            .family = family};
    struct unit_config c;
    struct cuda_unit unit;
    struct diag d;
    struct arena *a = arena_new(&alloc_libc);
    diag_init(&d);
    if (!select_config(&v, family, family, p->cell_loads, true,
                       p->dot.dot ? &p->dot : NULL, &c, &d) ||
        !compile_unit(p, &c, NULL, a, &unit, &d))
        defect("no unit", &d);
    arena_free(a);
}

static void explain(struct program *p)
{
    struct arena *a = arena_new(&alloc_libc);
    struct strbuf text;
    struct diag d;
    diag_init(&d);
    strbuf_init(&text, a);
    if (!compile_explain(p, &text, &d) || !compile_tier_cause(p, &text, &d))
        defect("nothing is explained", &d);
    arena_free(a);
}

/* --- input ---------------------------------------------------------- */

static const char prelude[] =
    "local facc = require 'facc' facc.tensor('f', 'f32', {'q', 'kv'}) "
    "facc.tensor('n', 'i32', {64}) facc.tensor('t', 'bool', {'kv'}) "
    "facc.tensor('l', 'i64', {}) facc.param('w', 'i32') "
    "facc.param('x', 'f32')\nreturn facc.attention { ";

/* A file around a one-line expression, each byte as a decimal escape. The
 * caller frees. */
static char *wrap(const char *key, const uint8_t *data, size_t n, size_t *size)
{
    const size_t room = sizeof prelude + 4 * n + 32;
    char *text = malloc(room);
    if (!text)
        abort();
    size_t at = (size_t)snprintf(text, room, "%s%s = \"", prelude, key);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, room - at, "\\%03d", data[i]);
    *size = at + (size_t)snprintf(text + at, room - at, "\" }");
    return text;
}

static void run(const char *text, size_t size)
{
    struct diag d;
    diag_init(&d);
    struct program *p =
        compile_program(&alloc_libc, "fuzz.lua", text, size, &limits, &d);
    if (!p) {
        if (d.status != DIAG_SCRIPT || d.line <= 0 || !*d.message)
            defect("an error that is none of the script, or has no line", &d);
        return;
    }
    run_cells(p);
    emit(p, FACC_FAMILY_SM80, size % 2);
    emit(p, FACC_FAMILY_SM90, false);
    explain(p);
    program_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bool mask = size && data[0] == '=';
    const bool score = size && data[0] == '~';
    size_t n = size;
    /* a copy that ends where the text does, so that reading on is seen */
    char *text = mask || score ? wrap(mask ? "mask_mod" : "score_mod", data + 1,
                                      size - 1, &n)
                               : malloc(n ? n : 1);
    if (!text)
        return 0;
    if (!mask && !score && n)
        memcpy(text, data, n);
    run(text, n);
    free(text);
    return 0;
}

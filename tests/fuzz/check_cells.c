/* Plain Lua, cell by cell, and the evaluator against it (check.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/frontend/frontend.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/concrete.h"

/* Evaluators of a mod: f64 as traced, f64 and f32 after the passes. */
enum { AS_TRACED, PASSED, PASSED_F32, N_RUNS };

struct mod {
    struct arena *arena;
    struct diag diag;
    struct ir_graph *graph;
    struct ir_roots roots[2]; /* as traced, after the passes */
    struct concrete *plain;
    struct eval_state *state[N_RUNS];
    struct analysis analysis;
    /* of one row */
    double *f64[2];
    float *f32;
    uint8_t *keep[N_RUNS];
};

static bool trace(struct mod *m, const struct modgen_program *p,
                  struct outcome *o)
{
    struct traced_facts facts;
    diag_init(&m->diag);
    m->arena = arena_new(&alloc_libc);
    m->graph = ir_graph_new(m->arena, &m->diag, "mod.lua");
    if (!m->graph || !frontend_load(m->graph, &alloc_libc, "mod.lua", p->text,
                                    p->size, NULL, &m->roots[0], &facts))
        return check_fail(o, STAGE_TRACE, "line %d: %s", m->diag.line,
                          m->diag.message);
    m->roots[1] = m->roots[0];
    if (!ir_verify(m->graph, &m->roots[0]) ||
        !pass_lift(m->graph, &m->roots[1]) ||
        !ir_verify(m->graph, &m->roots[1]) ||
        !pass_congruence(m->graph, &m->roots[1]) ||
        !ir_verify(m->graph, &m->roots[1]))
        return check_fail(o, STAGE_TRACE, "%s", m->diag.message);
    return true;
}

static bool open_runs(struct mod *m, const struct fuzz_case *c, bool gpu,
                      struct outcome *o)
{
    const size_t n = (size_t)c->Skv + 1;
    for (int k = 0; k < N_RUNS; k++) {
        struct eval_plan *p =
            eval_plan_new(m->arena, m->graph, &m->roots[k > 0]);
        if (p)
            m->state[k] =
                eval_state_new(p, k == PASSED_F32 ? EVAL_F32 : EVAL_F64,
                               c->Skv > 0 ? c->Skv : 1, &c->env);
        m->keep[k] = calloc(n, 1);
        if (!m->state[k] || !m->keep[k])
            return check_fail(o, STAGE_CELLS, "no plan: %s", m->diag.message);
    }
    m->f32 = calloc(n, sizeof *m->f32);
    m->f64[0] = calloc(n, sizeof **m->f64);
    m->f64[1] = calloc(n, sizeof **m->f64);
    if (!m->f32 || !m->f64[0] || !m->f64[1] ||
        !analysis_open(&m->analysis, m->graph, &m->roots[0], &c->env))
        return check_fail(o, STAGE_CELLS, "memory is out");
    m->analysis.gpu = gpu;
    for (uint32_t k = 0; k < m->analysis.n_order; k++)
        o->tally.op[ir_node(m->graph, m->analysis.order[k])->op] = 1;
    m->plain = concrete_open("mod.lua", c->program.text, c->program.size,
                             &c->env, &m->diag);
    if (!m->plain)
        return check_fail(o, STAGE_CELLS, "plain Lua: %s", m->diag.message);
    return true;
}

static void close_mod(struct mod *m)
{
    concrete_close(m->plain);
    analysis_close(&m->analysis);
    for (int k = 0; k < N_RUNS; k++) {
        eval_state_free(m->state[k]);
        free(m->keep[k]);
    }
    free(m->f32);
    free(m->f64[0]);
    free(m->f64[1]);
    arena_free(m->arena);
}

/* --- cells -------------------------------------------------------- */

static bool is_minus_infinity(double x)
{
    return isinf(x) && x < 0;
}

static bool same_bits(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static bool check_f64(const struct mod *m, const struct cell *x, int kv,
                      struct outcome *o)
{
    const int64_t *at = m->analysis.at;
    for (int k = 0; k < 2; k++) {
        const double got = m->f64[k][kv];
        const bool kept = m->keep[k][kv] && !is_minus_infinity(got);
        if (kept == x->keep && (!kept || same_bits(got, x->want)))
            continue;
        return check_fail(o, STAGE_CELLS,
                          "b %d h %d q %d kv %d, score %.9g, %s: plain Lua "
                          "%.17g keep %d, evaluator %.17g keep %d",
                          (int)at[0], (int)at[1], (int)at[2], kv, x->score,
                          k ? "after the passes" : "as traced", x->want,
                          x->keep, got, kept);
    }
    return true;
}

/* Within 4 * ops * 2^-24 of the largest intermediate; where the mod itself
 * magnifies errors more than that, within the running analysis. */
static bool check_f32(struct mod *m, const struct cell *x, int kv,
                      struct outcome *o)
{
    const struct analysis *a = &m->analysis;
    const double got = (double)m->f32[kv];
    const bool kept = m->keep[PASSED_F32][kv] && !is_minus_infinity(got);
    if (x->near)
        return true;
    const double bound =
        4.0 * a->n_order * ANALYSIS_UNIT * a->largest + 0x1p-120;
    if (kept == x->keep && (!kept || isnan(x->want) ||
                            fabs(got - x->want) <= fmax(bound, 2 * x->error)))
        return true;
    return check_fail(o, STAGE_CELLS_F32,
                      "b %d h %d q %d kv %d, score %.9g: plain Lua %.17g keep "
                      "%d, evaluator in f32 %.9g keep %d (error allowed %.3g)",
                      (int)a->at[0], (int)a->at[1], (int)a->at[2], kv, x->score,
                      x->want, x->keep, got, kept, fmax(bound, 2 * x->error));
}

static bool check_cell(struct mod *m, struct cell *x, int kv, struct outcome *o)
{
    struct analysis *a = &m->analysis;
    struct diag d;
    diag_init(&d);
    x->want = x->score;
    if (!concrete_cell(m->plain, a->at[0], a->at[1], a->at[2], kv, &x->want,
                       &x->keep, &d))
        return check_fail(o, STAGE_CELLS, "plain Lua: %s", d.message);
    x->keep = x->keep && !is_minus_infinity(x->want);
    a->at[3] = kv;
    a->score = x->score;
    analysis_cell(a);
    x->near = a->near_threshold;
    x->passed = m->keep[PASSED][kv];
    /* folded factors round otherwise, by the size of what is added */
    x->error = a->error + 4 * ANALYSIS_UNIT * a->largest;
    o->tally.cells++;
    o->tally.kept += x->keep;
    o->tally.near_threshold += x->near;
    return check_f64(m, x, kv, o) && check_f32(m, x, kv, o);
}

static bool check_row(struct mod *m, struct truth *t, int b, int h, int q,
                      struct outcome *o)
{
    const int n = t->c->len_kv[b];
    struct cell *row = truth_cell(t, b, h, q, 0);
    for (int kv = 0; kv < n; kv++) {
        row[kv].score = case_score(t->c, b, h, q, kv);
        m->f64[0][kv] = m->f64[1][kv] = row[kv].score;
        m->f32[kv] = (float)row[kv].score;
    }
    for (int k = 0; k < N_RUNS; k++) {
        struct diag d;
        diag_init(&d);
        void *x = k == PASSED_F32 ? (void *)m->f32 : (void *)m->f64[k];
        if (!eval_row(m->state[k], q, x, m->keep[k], &d))
            return check_fail(o, STAGE_CELLS, "evaluator: %s", d.message);
    }
    m->analysis.at[0] = b;
    m->analysis.at[1] = h;
    m->analysis.at[2] = q;
    for (int kv = 0; kv < n; kv++)
        if (!check_cell(m, &row[kv], kv, o))
            return false;
    return true;
}

static bool check_tiles(struct mod *m, struct truth *t, struct outcome *o)
{
    const struct fuzz_case *c = t->c;
    struct diag d;
    diag_init(&d);
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H && c->len_kv[b] > 0; h++) {
            for (int k = 0; k < N_RUNS; k++)
                if (!eval_tile(m->state[k], b, h, 0, c->len_kv[b], &d))
                    return check_fail(o, STAGE_CELLS, "evaluator: %s",
                                      d.message);
            for (int q = 0; q < c->len_q[b]; q++)
                if (!check_row(m, t, b, h, q, o))
                    return false;
        }
    return true;
}

bool check_cells(struct truth *t, bool gpu, struct outcome *o)
{
    struct mod m = {0};
    bool ok = trace(&m, &t->c->program, o) && open_runs(&m, t->c, gpu, o) &&
              check_tiles(&m, t, o);
    close_mod(&m);
    return ok;
}

/* Scores at the ends of f32, as generated code makes them (compiled as C++ for
 * the CPU): in units of log2(e) a finite score stays finite, since a row of the
 * least number alone is one of equal weights, and one of -inf has no keys. */
#include <check.h>
#include <float.h>
#include <math.h>

#include "compiler/dtype.h"
#include "tests/unit/emit_build.h"
#include "tests/unit/suite.h"

static const char *const bodies[] = {
    "score + t[q][kv]",
    "score - t[q][kv]",
    "t[q][kv] - score",
    "score + t[q][kv] + t[0][kv] * 0",
    "kv % 2 == 0 and score + t[q][kv] or t[q][kv]",
    "kv % 2 == 0 and t[q][kv] or -t[q][kv]",
    "score + max(t[q][kv], t[q][0])",
    "score + abs(t[q][kv])",
    "score + (t[q][kv] + x)",
    "score + x * (kv - q) + t[q][kv]",
    "score + r[q]",
    "score + r[kv] + t[q][kv]",
    "(score + t[q][kv]) * 0.5",
    "score + d[abs(q - kv)]",
    "(q % 3 == 0 or kv < 5) and -3.4028234663852886e38 or score",
    "kv > 3 and score or -3.4028234663852886e38",
};
enum {
    N_BODIES = sizeof bodies / sizeof *bodies,
    N_TYPES = 2,
    N_MODS = N_BODIES * N_TYPES,
    SIZE = 9
};
static const enum dtype types[N_TYPES] = {DTYPE_F32, DTYPE_BF16};
static const char *const type_names[N_TYPES] = {"f32", "bf16"};
static const double ends[SIZE] = {-(double)FLT_MAX,
                                  (double)FLT_MAX,
                                  -INFINITY,
                                  1,
                                  -0x1.fep127,
                                  -0x1.8p127,
                                  0,
                                  -0x1p127,
                                  -3};

typedef void cells_fn(const void *args, int b, int h, int q, int kv0, int n,
                      const float *s, float *score, unsigned char *keep);

/* t is [q, kv], r [kv], d [kv]; the same numbers in all rows. */
struct mod {
    char text[512];
    struct program *program;
    unsigned char data[SIZE * SIZE * 4];
    struct eval_tensor tensor[3];
    union eval_value param[1];
    struct eval_env env;
    unsigned char *bytes;
};

static void open_mod(struct mod *m, int k)
{
    const char *type = type_names[k % N_TYPES];
    const enum dtype t = types[k % N_TYPES];
    struct diag d;
    diag_init(&d);
    snprintf(m->text, sizeof m->text,
             "local facc = require 'facc'\n"
             "local t = facc.tensor('t', '%s', { 'q', 'kv' })\n"
             "local r = facc.tensor('r', '%s', { 'kv' })\n"
             "local d = facc.tensor('d', '%s', { 'kv' })\n"
             "local x = facc.param('x', 'f32')\n"
             "return facc.attention { score_mod = '%s' }\n",
             type, type, type, bodies[k / N_TYPES]);
    m->program = compile_program(&alloc_libc, "ends.lua", m->text,
                                 strlen(m->text), NULL, &d);
    ck_assert_msg(m->program, "%s: %s", m->text, d.message);
    for (int i = 0; i < SIZE * SIZE; i++)
        dtype_store(t, m->data + (size_t)i * dtype_size(t), ends[i % SIZE]);
    const struct ir_graph *g = m->program->graph;
    for (int i = 0; i < g->n_tensors; i++)
        m->tensor[i] = (struct eval_tensor){
            .data = m->data, .shape = {SIZE, SIZE}, .stride = {SIZE, 1}};
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].rank == 1)
            m->tensor[i].stride[0] = 1;
    m->param[0].f = 0.125;
    m->env = (struct eval_env){.B = 1,
                               .H = 1,
                               .Hkv = 1,
                               .Sq = SIZE,
                               .Skv = SIZE,
                               .tensors = m->tensor,
                               .params = m->param};
    m->bytes = emit_args(g, &m->env, 1);
}

static void check_cell(const char *text, int q, int kv, float got, float want)
{
    const double log2 = (double)want * 1.4426950408889634;
    if (isnan(want) || isinf(want))
        ck_assert_msg(isnan(want) ? isnan(got) : got == want,
                      "%s: q %d kv %d: %g, want %g", text, q, kv, (double)got,
                      (double)want);
    else if (fabs(log2) > (double)FLT_MAX)
        ck_assert_msg(got == copysignf(FLT_MAX, want),
                      "%s: q %d kv %d: %g, want the end of f32", text, q, kv,
                      (double)got);
    else
        ck_assert_msg(fabs((double)got - log2) <= 3e-7 * (fabs(log2) + 10),
                      "%s: q %d kv %d: %g, want %g", text, q, kv, (double)got,
                      log2);
}

static void check_mod(struct mod *m, cells_fn *cells)
{
    struct diag d;
    diag_init(&d);
    struct eval_state *state =
        eval_state_new(m->program->plan, EVAL_F32, SIZE, &m->env);
    ck_assert_ptr_nonnull(state);
    ck_assert(eval_tile(state, 0, 0, 0, SIZE, &d));
    for (int q = 0; q < SIZE; q++) {
        float raw[SIZE], want[SIZE], got[SIZE];
        uint8_t keep[SIZE], got_keep[SIZE];
        for (int kv = 0; kv < SIZE; kv++)
            raw[kv] = want[kv] = (float)(kv - 4) / 2;
        ck_assert(eval_row(state, q, want, keep, &d));
        cells(m->bytes, 0, 0, q, 0, SIZE, raw, got, got_keep);
        for (int kv = 0; kv < SIZE; kv++) {
            ck_assert_int_eq(keep[kv], got_keep[kv]);
            if (keep[kv])
                check_cell(m->text, q, kv, got[kv], want[kv]);
        }
    }
    eval_state_free(state);
}

START_TEST(finite_scores_stay_finite)
{
    static struct mod mods[N_MODS];
    struct program *p[N_MODS];
    if (emit_no_compiler())
        return;
    for (int k = 0; k < N_MODS; k++) {
        open_mod(&mods[k], k);
        p[k] = mods[k].program;
    }
    void *so = emit_build(p, N_MODS, false, "-O0");
    for (int k = 0; k < N_MODS; k++) {
        cells_fn *cells;
        *(void **)&cells = emit_function(so, "cells_%d", k);
        check_mod(&mods[k], cells);
        program_free(mods[k].program);
        free(mods[k].bytes);
    }
    dlclose(so);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emit_ends");
    TCase *t = tcase_create("ends");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, finite_scores_stay_finite);
    suite_add_tcase(s, t);
    return suite_run(s);
}

/* The tracer against plain Lua: a mod run by the Lua VM on numbers and its
 * graph run by the evaluator must agree. In f64 bit for bit; in f32 within
 * 4 * ops * 2^-24 of the largest intermediate. Cells so close to a threshold
 * that rounding may decide it are left out and counted; where the mod itself
 * magnifies rounding errors more than that, a running error analysis of the
 * cell gives the bound, and the cell is counted.
 *
 * Mods: random ones (count: argv[1] or $FACC_TEST_MODS or 2,000; first seed:
 * argv[2]), and the list of tests/conformance. Each is compared as traced and
 * after the passes. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/frontend/frontend.h"
#include "tests/conformance/list.h"
#include "tests/fuzz/analysis.h"
#include "tests/fuzz/concrete.h"
#include "tests/fuzz/modgen.h"
#include "tests/unit/test_share.h"
#include "tests/unit/suite.h"

static long n_mods;
static long first_seed = 1;

struct tally {
    long mods, cells;
    long kept;            /* cells of them that are not masked */
    long near_threshold;  /* not compared in f32 */
    long ill_conditioned; /* compared with the error analysis */
    long outside;         /* plain Lua read outside of a tensor */
};

/* --- data --------------------------------------------------------- */

/* Of modgen's tensors: floats in (-4, 4), ints from 0 on, below their own
 * limit. */
static double data_of_modgen(const struct data *d, const struct ir_tensor *t,
                             const int64_t *at)
{
    const struct modgen_tensor *m = modgen_tensors;
    while (strcmp(m->name, t->name) != 0)
        m++;
    uint64_t r = (uint64_t)(m - modgen_tensors) << 40;
    for (int k = 0; k < t->rank; k++)
        r = data_mix(r + (uint64_t)at[k]);
    (void)d;
    return dtype_is_float(t->dtype) ? (double)(int64_t)(r >> 20) * 0x1p-41 - 4
                                    : (double)((int64_t)(r >> 33) % m->below);
}

/* --- one mod ------------------------------------------------------ */

struct mod {
    struct arena *arena;
    struct diag diag;
    struct ir_graph *graph;
    struct ir_roots roots[2]; /* as traced, after the passes */
    struct concrete *plain;
    const char *text;
    const char *label;
};

static void report(const struct mod *m, const char *what)
{
    if (strlen(m->text) < MODGEN_TEXT / 8)
        fprintf(stderr, "%s\n", m->text);
    ck_abort_msg("%s: %s", m->label, what);
}

static void open_mod(struct mod *m, const char *label, const char *text)
{
    struct traced_facts facts;
    *m = (struct mod){.text = text, .label = label};
    diag_init(&m->diag);
    m->arena = arena_new(&alloc_libc);
    m->graph = ir_graph_new(m->arena, &m->diag, "mod.lua");
    if (!frontend_load(m->graph, &alloc_libc, "mod.lua", text, strlen(text),
                       NULL, &m->roots[0], &facts)) {
        fprintf(stderr, "mod.lua:%d: %s\n", m->diag.line, m->diag.message);
        report(m, "does not trace");
    }
    m->roots[1] = m->roots[0];
    if (!ir_verify(m->graph, &m->roots[0]) ||
        !pass_lift(m->graph, &m->roots[1]) ||
        !pass_congruence(m->graph, &m->roots[1]) ||
        !ir_verify(m->graph, &m->roots[1]))
        report(m, m->diag.message);
}

static void close_mod(struct mod *m)
{
    concrete_close(m->plain);
    arena_free(m->arena);
}

/* Evaluators of a mod: f64 as traced, f64 and f32 after the passes. */
enum { AS_TRACED, PASSED, PASSED_F32, N_RUNS };
enum { TILE = 32 };

struct row {
    double f64[2][TILE];
    float f32[TILE];
    uint8_t keep[N_RUNS][TILE];
};

static bool is_minus_infinity(double x)
{
    return isinf(x) && x < 0;
}

static bool same_bits(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static void check_f32(struct mod *m, struct analysis *a, struct tally *t,
                      float got, bool kept)
{
    analysis_cell(a);
    if (a->near_threshold) {
        t->near_threshold++;
        return;
    }
    if (a->keep != kept)
        report(m, "keep differs in f32");
    if (!a->keep || isnan(a->want) != 0)
        return;
    double error = fabs((double)got - a->want);
    double bound = 4.0 * a->n_order * ANALYSIS_UNIT * a->largest + 0x1p-120;
    if (error <= bound)
        return;
    t->ill_conditioned++;
    if (error <= 2 * a->error)
        return;
    fprintf(stderr, "f32 %.9g f64 %.17g bound %g analysis %g\n", (double)got,
            a->want, bound, a->error);
    report(m, "f32 is too far from f64");
}

static void check_cell(struct mod *m, struct analysis *a, struct tally *t,
                       const struct row *r, int c)
{
    double want = a->score;
    bool keep;
    struct diag d;
    diag_init(&d);
    if (!concrete_cell(m->plain, a->at[0], a->at[1], a->at[2], a->at[3], &want,
                       &keep, &d)) {
        if (!strstr(d.message, "outside of"))
            report(m, d.message);
        t->outside++;
        return;
    }
    keep = keep && !is_minus_infinity(want);
    t->cells++;
    t->kept += keep;
    for (int k = 0; k < 2; k++) {
        bool kept = r->keep[k][c] && !is_minus_infinity(r->f64[k][c]);
        if (kept == keep && (!keep || same_bits(r->f64[k][c], want)))
            continue;
        fprintf(stderr,
                "b %lld h %lld q %lld kv %lld score %.17g %s: Lua %.17g keep "
                "%d, graph %.17g keep %d\n",
                (long long)a->at[0], (long long)a->at[1], (long long)a->at[2],
                (long long)a->at[3], a->score,
                k ? "after the passes" : "as traced", want, keep, r->f64[k][c],
                kept);
        report(m, "Lua and the graph differ");
    }
    bool kept = r->keep[PASSED_F32][c] && !is_minus_infinity((double)r->f32[c]);
    check_f32(m, a, t, r->f32[c], kept);
}

static void run_row(struct mod *m, struct eval_state **s, struct analysis *a,
                    struct tally *t, int n)
{
    struct row r;
    double score[TILE];
    int64_t kv0 = a->at[3];
    for (int c = 0; c < n; c++) {
        uint64_t x = data_mix((uint64_t)(a->at[2] * 64 + kv0 + c));
        score[c] = (double)(float)((double)(int64_t)(x >> 16) * 0x1p-44 - 8);
        r.f64[0][c] = r.f64[1][c] = score[c];
        r.f32[c] = (float)score[c];
    }
    for (int k = 0; k < N_RUNS; k++) {
        struct diag d;
        diag_init(&d);
        void *x = k == PASSED_F32 ? (void *)r.f32 : (void *)r.f64[k];
        if (!eval_row(s[k], a->at[2], x, r.keep[k], &d)) {
            if (d.status != DIAG_BOUNDS)
                report(m, d.message);
            t->outside += n;
            return;
        }
    }
    for (int c = 0; c < n; c++) {
        a->at[3] = kv0 + c;
        a->score = score[c];
        check_cell(m, a, t, &r, c);
    }
    a->at[3] = kv0;
}

/* Compares on `rows` rows of random tiles. */
static void compare_mod(struct mod *m, const struct eval_env *env, int tiles,
                        int rows, uint64_t seed, struct tally *t)
{
    struct diag d;
    struct eval_state *s[N_RUNS];
    diag_init(&d);
    m->plain = concrete_open("mod.lua", m->text, strlen(m->text), env, &d);
    if (!m->plain)
        report(m, d.message);
    for (int k = 0; k < N_RUNS; k++) {
        struct eval_plan *p =
            eval_plan_new(m->arena, m->graph, &m->roots[k > 0]);
        ck_assert_ptr_nonnull(p);
        s[k] =
            eval_state_new(p, k == PASSED_F32 ? EVAL_F32 : EVAL_F64, TILE, env);
        ck_assert_ptr_nonnull(s[k]);
    }
    struct analysis a;
    ck_assert(analysis_open(&a, m->graph, &m->roots[0], env));
    for (int i = 0; i < tiles; i++) {
        uint64_t x = data_mix(seed * 64 + (uint64_t)i);
        int n = (int)(env->Skv < TILE ? env->Skv : TILE);
        a.at[0] = (int64_t)(x % (uint64_t)env->B);
        a.at[1] = (int64_t)((x >> 8) % (uint64_t)env->H);
        a.at[3] = (int64_t)((x >> 16) % (uint64_t)(env->Skv - n + 1));
        for (int k = 0; k < N_RUNS; k++)
            if (!eval_tile(s[k], a.at[0], a.at[1], a.at[3], n, &d))
                report(m, d.message);
        for (int j = 0; j < rows; j++) {
            a.at[2] = (int64_t)(data_mix(x + (uint64_t)j) % (uint64_t)env->Sq);
            run_row(m, s, &a, t, n);
        }
    }
    for (int k = 0; k < N_RUNS; k++)
        eval_state_free(s[k]);
    analysis_close(&a);
    t->mods++;
}

static void print_tally(const char *what, const struct tally *t)
{
    printf("%s: %ld mods, %ld cells (%ld kept); f32: %ld near a threshold, "
           "%ld ill-conditioned; %ld outside of a tensor\n",
           what, t->mods, t->cells, t->kept, t->near_threshold,
           t->ill_conditioned, t->outside);
}

/* --- tests -------------------------------------------------------- */

START_TEST(random_mods)
{
    static char text[MODGEN_TEXT];
    static struct data d;
    d = (struct data){
        .env = {.B = 3, .H = 4, .Hkv = 2, .Sq = 48, .Skv = 40},
        .param = {{.i = 13}, {.i = 37}, {.f = 1.25}},
        .len_q = {48, 20, 1},
        .len_kv = {40, 33, 7},
        .varied = true,
    };
    d.env.len_q = d.len_q;
    d.env.len_kv = d.len_kv;
    struct tally t = {0};
    for (long k = 0; k < n_mods; k++) {
        char label[32];
        struct mod m;
        uint64_t seed = (uint64_t)(first_seed + k);
        modgen(seed, text);
        snprintf(label, sizeof label, "seed %llu", (unsigned long long)seed);
        open_mod(&m, label, text);
        if (!d.n)
            data_fill(&d, m.graph, data_of_modgen);
        compare_mod(&m, &d.env, 2, 2, seed, &t);
        close_mod(&m);
    }
    data_free(&d);
    print_tally("random", &t);
    ck_assert_int_eq(t.outside, 0);
    ck_assert_int_gt(t.kept, t.cells / 10);
    ck_assert_int_lt(t.near_threshold, t.cells / 20);
    ck_assert_int_lt(t.ill_conditioned, t.cells / 50);
}
END_TEST

START_TEST(conformance)
{
    static struct list_row rows[LIST_MOST];
    static struct data d;
    struct tally t = {0};
    const int n = list_rows(rows);
    for (int k = 0; k < n; k++) {
        struct mod m;
        open_mod(&m, rows[k].name, list_text(&rows[k]));
        d = (struct data){
            .env = {.B = 2, .H = 4, .Hkv = 2, .Sq = 600, .Skv = 640},
            .len_q = {600, 470},
            .len_kv = {640, 331},
            .varied = true};
        d.env.len_q = d.len_q;
        d.env.len_kv = d.len_kv;
        data_list(&d, m.graph, 1);
        compare_mod(&m, &d.env, 4, 6, (uint64_t)k, &t);
        close_mod(&m);
        data_free(&d);
    }
    print_tally("conformance", &t);
    ck_assert_int_ge(t.mods, 190);
    ck_assert_int_eq(t.outside, 0);
    ck_assert_int_lt(t.near_threshold, t.cells / 100);
    ck_assert_int_lt(t.ill_conditioned, t.cells / 100);
}
END_TEST

int main(int argc, char **argv)
{
    const char *count = argc > 1 ? argv[1] : getenv("FACC_TEST_MODS");
    n_mods = test_share(2000);
    if (count)
        n_mods = strtol(count, NULL, 10);
    if (argc > 2)
        first_seed = strtol(argv[2], NULL, 10);
    setvbuf(stdout, NULL, _IOLBF, 0);
    Suite *s = suite_create("tracer");
    TCase *c = tcase_create("tracer");
    tcase_set_timeout(c, 0);
    tcase_add_test(c, random_mods);
    tcase_add_test(c, conformance);
    suite_add_tcase(s, c);
    return suite_run(s);
}

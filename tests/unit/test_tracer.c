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
#include "tests/fuzz/concrete.h"
#include "tests/fuzz/modgen.h"

static long n_mods = 2000;
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

/* --- error analysis of one cell ----------------------------------- */

struct number { /* of a node, computed in f64 */
    int64_t i;
    double f;
    double e; /* |f32 result - f| at most, to first order */
};

struct analysis {
    const struct ir_graph *g;
    const struct eval_env *env;
    struct number *v;
    int64_t at[4];
    double score;
    double largest;
    bool near_threshold;
};

static const double unit = 0x1p-24;

static int64_t variable(const struct analysis *a, int64_t which)
{
    const int64_t size[] = {a->env->B, a->env->H, a->env->Hkv, a->env->Sq,
                            a->env->Skv};
    return which < 4 ? a->at[which] : size[which - IR_VAR_SIZE_B];
}

static const char *element(const struct analysis *a, const struct ir_node *n)
{
    const struct eval_tensor *t = &a->env->tensors[n->i];
    int64_t at = 0;
    for (uint32_t k = 0; k < n->n; k++) {
        int64_t x = a->v[a->g->args[n->first + k]].i;
        if (x < 0 || x >= t->shape[k])
            x = 0; /* its value does not matter, or eval_row reports it */
        at += x * t->stride[k];
    }
    return (const char *)t->data +
           at * (int64_t)dtype_size(a->g->tensors[n->i].dtype);
}

static int64_t linear(const struct analysis *a, const struct ir_node *n)
{
    uint64_t sum = (uint64_t)n->i;
    for (uint32_t k = 0; k < n->n; k++)
        sum += (uint64_t)a->g->coefs[n->first + k] *
               (uint64_t)a->v[a->g->args[n->first + k]].i;
    return (int64_t)sum;
}

/* The op at the ends of its operands' error ranges. Where one lies outside of
 * the op's domain, rounding decides between a number and NaN. */
static void spread(struct analysis *a, enum ir_op op, const struct number *x,
                   uint32_t n, struct number *out)
{
    double most = 0;
    for (unsigned corner = 0; corner < 1u << n; corner++) {
        union eval_value in[3] = {{0}, {0}, {0}};
        for (uint32_t k = 0; k < n; k++)
            in[k].f = x[k].f + (corner >> k & 1 ? x[k].e : -x[k].e);
        double y = eval_op_f64(op, in).f;
        bool same = y == out->f || (isnan(y) && isnan(out->f));
        double d = same ? 0 : fabs(y - out->f);
        most = d > most ? d : most;
        a->near_threshold |= !isfinite(d);
    }
    /* f32 has nothing between 0 and 2^-149, and little below 2^-126 */
    out->e = most + 8 * unit * fabs(out->f) + 0x1p-125;
}

static bool same_floor(double x, double e)
{
    return floor(x - e) == floor(x + e) && ceil(x - e) == ceil(x + e);
}

static void float_op(struct analysis *a, enum ir_op op, const struct number *x,
                     uint32_t n, struct number *out)
{
    double q;
    union eval_value in[3] = {{0}, {0}, {0}};
    for (uint32_t k = 0; k < n; k++)
        in[k].f = x[k].f;
    if (op == IR_FLOOR || op == IR_CEIL || op == IR_ROUND) {
        out->i = eval_op_f64(op, in).i;
        double shift = op == IR_ROUND ? 0.5 : 0;
        a->near_threshold |= x[0].e > 0 && !same_floor(x[0].f + shift, x[0].e);
        return;
    }
    out->f = eval_op_f64(op, in).f;
    q = n == 2 ? x[0].f / x[1].f : 0;
    if (op == IR_FADD || op == IR_FSUB) {
        out->e = x[0].e + x[1].e + unit * fabs(out->f);
    } else if (op == IR_FNEG || op == IR_FABS) {
        out->e = x[0].e;
    } else if (op == IR_FMIN || op == IR_FMAX) {
        out->e = fmax(x[0].e, x[1].e);
    } else if (op == IR_FSIN || op == IR_FCOS) {
        out->e = x[0].e + 4 * unit;
    } else if (op == IR_FFLOORDIV || op == IR_FMOD) {
        double e = fabs(x[0].e / x[1].f) + fabs(q * x[1].e / x[1].f) +
                   2 * unit * fabs(q);
        a->near_threshold |= !same_floor(q, e);
        out->e = op == IR_FMOD ? x[0].e + fabs(floor(q)) * x[1].e +
                                     2 * unit * fabs(out->f)
                               : 0;
    } else {
        spread(a, op, x, n, out);
    }
}

static bool compare(struct analysis *a, enum ir_op op, const struct number *x)
{
    double d = x[0].f - x[1].f;
    if (fabs(d) <= x[0].e + x[1].e && x[0].e + x[1].e > 0)
        a->near_threshold = true;
    return op == IR_FLT   ? x[0].f < x[1].f
           : op == IR_FLE ? x[0].f <= x[1].f
                          : x[0].f == x[1].f;
}

/* A dot product: along the rows that its operands' loads begin. */
static void dot(struct analysis *a, ir_ref r, struct number *out)
{
    const struct ir_node *load[2] = {ir_node(a->g, ir_arg(a->g, r, 0)),
                                     ir_node(a->g, ir_arg(a->g, r, 1))};
    const int64_t n = ir_dot_length(a->g, r);
    double size = 0;
    for (int64_t k = 0; k < n; k++) {
        double x = 1;
        for (int j = 0; j < 2; j++) {
            const enum dtype t = a->g->tensors[load[j]->i].dtype;
            const int64_t step =
                a->env->tensors[load[j]->i].stride[load[j]->n - 1];
            x *= dtype_load_f64(t, element(a, load[j]) +
                                       k * step * (int64_t)dtype_size(t));
        }
        out->f += x;
        size += fabs(x);
    }
    out->e = (double)(n + 1) * unit * size;
}

static bool leaf(struct analysis *a, const struct ir_node *n,
                 const struct number *x, struct number *out)
{
    const int32_t *len;
    switch (n->op) {
    case IR_CONST_B:
    case IR_CONST_I:
        out->i = n->i;
        return true;
    case IR_CONST_F:
        out->f = n->f;
        out->e = isfinite(n->f) ? fabs(n->f - (double)(float)n->f) : 0;
        return true;
    case IR_VAR_I:
        out->i = variable(a, n->i);
        return true;
    case IR_SCORE:
        out->f = a->score;
        return true;
    case IR_PARAM_I:
        out->i = a->env->params[n->i].i;
        return true;
    case IR_PARAM_F:
        out->f = a->env->params[n->i].f;
        return true;
    case IR_LEN_Q:
    case IR_LEN_KV:
        len = n->op == IR_LEN_Q ? a->env->len_q : a->env->len_kv;
        out->i = len[x[0].i];
        return true;
    case IR_LOAD_B:
        out->i = *element(a, n) != 0;
        return true;
    case IR_LOAD_I:
        out->i = dtype_load_i64(a->g->tensors[n->i].dtype, element(a, n));
        return true;
    case IR_LOAD_F:
        out->f = dtype_load_f64(a->g->tensors[n->i].dtype, element(a, n));
        return true;
    default:
        return false;
    }
}

static void node_value(struct analysis *a, ir_ref r)
{
    const struct ir_node *n = ir_node(a->g, r);
    struct number x[3] = {{0}, {0}, {0}};
    struct number *out = &a->v[r];
    union eval_value in[3];
    bool all = true, any = false;
    *out = (struct number){0};
    for (uint32_t k = 0; k < n->n; k++) {
        const struct number *arg = &a->v[ir_arg(a->g, r, k)];
        all &= arg->i != 0;
        any |= arg->i != 0;
        if (k < 3)
            x[k] = *arg;
    }
    if (leaf(a, n, x, out))
        return;
    switch (n->op) {
    case IR_DOT:
        dot(a, r, out);
        return;
    case IR_LIN:
        out->i = linear(a, n);
        return;
    case IR_GE0:
        out->i = linear(a, n) >= 0;
        return;
    case IR_EQ0:
        out->i = linear(a, n) == 0;
        return;
    case IR_NOT:
        out->i = !x[0].i;
        return;
    case IR_AND:
        out->i = all;
        return;
    case IR_OR:
        out->i = any;
        return;
    case IR_FLT:
    case IR_FLE:
    case IR_FEQ:
        out->i = compare(a, (enum ir_op)n->op, x);
        return;
    case IR_SEL_I:
    case IR_SEL_F:
        *out = x[0].i ? x[1] : x[2];
        return;
    case IR_I2F:
        out->f = (double)x[0].i;
        out->e = fabs(out->f) > 0x1p24 ? unit * fabs(out->f) : 0;
        return;
    default:
        break;
    }
    if (ir_op_info((enum ir_op)n->op)->in[0] == 'f') {
        float_op(a, (enum ir_op)n->op, x, n->n, out);
        return;
    }
    for (uint32_t k = 0; k < n->n && k < 3; k++)
        in[k].i = x[k].i;
    out->i = eval_op_f64((enum ir_op)n->op, in).i;
}

/* --- one mod ------------------------------------------------------ */

struct mod {
    struct arena *arena;
    struct diag diag;
    struct ir_graph *graph;
    struct ir_roots roots[2]; /* as traced, after the passes */
    ir_ref *order;            /* of roots[0] */
    uint32_t n_order;
    struct number *numbers;
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
    ck_assert(ir_walk(m->graph, &m->roots[0], &m->order, &m->n_order));
    m->numbers = calloc(m->graph->n_nodes, sizeof *m->numbers);
    ck_assert_ptr_nonnull(m->numbers);
}

static void close_mod(struct mod *m)
{
    concrete_close(m->plain);
    free(m->numbers);
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
    a->v = m->numbers;
    a->largest = 0;
    a->near_threshold = false;
    for (uint32_t k = 0; k < m->n_order; k++) {
        ir_ref r = m->order[k];
        node_value(a, r);
        if (ir_node(m->graph, r)->type == IR_FLOAT && isfinite(a->v[r].f))
            a->largest = fmax(a->largest, fabs(a->v[r].f));
    }
    const struct number *want = &a->v[m->roots[0].score];
    bool keep = a->v[m->roots[0].keep].i != 0 && !is_minus_infinity(want->f);
    if (a->near_threshold || a->largest > 1e30) {
        t->near_threshold++;
        return;
    }
    if (keep != kept)
        report(m, "keep differs in f32");
    if (!keep || isnan(want->f) != 0)
        return;
    double error = fabs((double)got - want->f);
    double bound = 4.0 * m->n_order * unit * a->largest + 0x1p-120;
    if (error <= bound)
        return;
    t->ill_conditioned++;
    if (error <= 2 * want->e)
        return;
    fprintf(stderr, "f32 %.9g f64 %.17g bound %g analysis %g\n", (double)got,
            want->f, bound, want->e);
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
    struct analysis a = {.g = m->graph, .env = env};
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
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

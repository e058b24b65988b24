/* Generated verdicts against the interpreter's and against all cells: the
 * variants of the list (tests/conformance) and of random masks,
 * compiled as C++ for the CPU, over random rectangles. What they say must be
 * true; where no float and no load in reach is involved it must be what the
 * interpreter says, to the word. And how long one takes. */
#include <check.h>
#include <math.h>

#include "tests/conformance/list.h"
#include "tests/fuzz/modgen.h"
#include "tests/unit/emit_build.h"
#include "tests/unit/test_share.h"
#include "tests/unit/verdict_cells.h"
#include "tests/unit/suite.h"

enum { RANDOM = 150, RECTANGLES = 150 };

typedef int plan_fn(const void *args, int b, int h, int q_first, int q_last,
                    int kv_first, int kv_last);
typedef double time_fn(const void *args, long *sum);

struct tally {
    long rectangles, decided, interpreted; /* decided by us, by it */
    long other; /* where it may differ: how often it does */
};

/* Ends of floats are rounded differently, and indices that may be outside are
 * clamped there, unknown here. */
static bool may_differ(struct program *p)
{
    struct ir_roots roots = {IR_NONE, p->roots.keep};
    ir_ref *order;
    uint32_t n;
    bool differ = false;
    ck_assert(ir_walk(p->graph, &roots, &order, &n));
    for (uint32_t k = 0; k < n; k++)
        differ |= ir_node(p->graph, order[k])->type == IR_FLOAT;
    for (int k = 0; k < p->verdict.n_slots; k++)
        differ |= p->verdict.slot[k].kind == SLOT_LOAD;
    return differ;
}

/* A range of 0 .. n - 1: any, or a tile. */
static void pick_range(uint64_t seed, int n, int *first, int *last)
{
    const int size = 8 << data_pick(seed, 1, 5);
    int64_t a = data_pick(seed, 3, n), b = data_pick(seed, 4, n);
    if (data_pick(seed, 0, 2)) {
        a = a / size * size;
        b = a + size <= n ? a + size - 1 : n - 1;
    }
    *first = (int)(a < b ? a : b);
    *last = (int)(a < b ? b : a);
}

struct head {
    const char *label;
    struct verdict_state *state;
    const struct cells *cells;
    plan_fn *plan;
    const void *args;
    int b, h;
    bool differ;
};

static void check_head(const struct head *x, uint64_t seed, struct tally *t)
{
    const struct cells *c = x->cells;
    long own = 0;
    for (int k = 0; k < RECTANGLES && c->rows > 0 && c->cols > 0; k++) {
        int q0, q1, k0, k1;
        pick_range(data_mix(seed + (uint64_t)k), c->rows, &q0, &q1);
        pick_range(data_mix(seed - 1 - (uint64_t)k), c->cols, &k0, &k1);
        const enum verdict truth = cells_truth(c, q0, q1, k0, k1);
        const enum verdict want = verdict_eval(x->state, q0, q1, k0, k1);
        const enum verdict got =
            (enum verdict)x->plan(x->args, x->b, x->h, q0, q1, k0, k1);
        if (cells_contradict(got, truth) || got < 1 || got > 3)
            ck_abort_msg("%s: (%d, %d) rows %d..%d, columns %d..%d: %d, but "
                         "true is %d",
                         x->label, x->b, x->h, q0, q1, k0, k1, got, truth);
        if (got != want && !x->differ)
            ck_abort_msg("%s: (%d, %d) rows %d..%d, columns %d..%d: %d, but "
                         "the interpreter says %d",
                         x->label, x->b, x->h, q0, q1, k0, k1, got, want);
        t->rectangles++;
        t->decided += got != VERDICT_PARTIAL;
        t->interpreted += want != VERDICT_PARTIAL;
        t->other += got != want;
        own += (got != want);
    }
    if (own && getenv("FACC_TEST_VERBOSE"))
        printf("%s: %ld of %d differ\n", x->label, own, RECTANGLES);
}

/* One program with one data set. */
static void check_program(const char *label, struct program *p, plan_fn *plan,
                          const struct eval_env *env, uint64_t seed,
                          struct tally *t)
{
    struct verdict_program whole = p->verdict;
    unsigned char *args = emit_args(p->graph, env, 1);
    whole.halve = false; /* the kernel's business */
    struct verdict_state *s =
        verdict_state_new(verdict_plan_new(p->graph, &whole), EVAL_F32, env);
    ck_assert_ptr_nonnull(s);
    for (int k = 0; k < 2; k++) {
        struct cells c;
        struct diag d;
        diag_init(&d);
        struct head x = {label, s, &c, plan, args, 0, 0, false};
        x.b = (int)data_pick(seed, 10 + (uint64_t)k, env->B);
        x.h = (int)data_pick(seed, 50 + (uint64_t)k, env->H);
        x.differ = may_differ(p);
        verdict_state_head(s, x.b, x.h);
        ck_assert_msg(cells_make(&c, p->plan, EVAL_F32, env, x.b, x.h, &d),
                      "%s: %s", label, d.message);
        check_head(&x, seed + 1000 * (uint64_t)k, t);
        cells_free(&c);
    }
    verdict_state_free(s);
    free(args);
}

static void print_tally(const char *what, int masks, const struct tally *t)
{
    printf("%s: %d masks, %ld rectangles, %ld decided (interpreter: %ld), "
           "%ld differ; 0 unsound\n",
           what, masks, t->rectangles, t->decided, t->interpreted, t->other);
    ck_assert_int_gt(masks, 20);
    ck_assert_int_gt(t->decided, t->rectangles / 8);
    /* floats alone: a few roundings */
    ck_assert_int_gt(t->decided, t->interpreted - t->rectangles / 100);
}

/* --- random masks --------------------------------------------------------- */

static double data_of_modgen(const struct data *d, const struct ir_tensor *t,
                             const int64_t *at)
{
    const struct modgen_tensor *m = modgen_tensors;
    while (strcmp(m->name, t->name) != 0)
        m++;
    const uint64_t what = (uint64_t)(m - modgen_tensors) << 32 ^
                          (uint64_t)((at[0] * 64 + at[1]) * 64 + at[2]);
    const int64_t style = data_pick(d->seed, (uint64_t)(m - modgen_tensors), 3);
    if (dtype_is_float(t->dtype))
        return (double)data_pick(d->seed, what, 4096) / 512 - 4;
    if (style == 0) /* runs */
        return (double)(at[0] / (1 + data_pick(d->seed, 77, 20)) % m->below);
    return (double)data_pick(d->seed, what, style == 1 ? 3 : m->below) *
           (m->below > 3 || style == 2);
}

static void open_modgen_data(struct data *d, const struct ir_graph *g,
                             uint64_t seed)
{
    *d = (struct data){.seed = seed};
    d->env = (struct eval_env){.B = 2,
                               .H = 4,
                               .Hkv = 2,
                               .Sq = 1 + data_pick(seed, 4, 64),
                               .Skv = 1 + data_pick(seed, 5, 64)};
    d->param[0].i = 1 + data_pick(seed, 7, 64);
    d->param[1].i = 1 + data_pick(seed, 8, 64);
    d->param[2].f = (double)(1 + data_pick(seed, 9, 31)) / 8;
    data_fill(d, g, data_of_modgen);
}

static bool is_planned(const struct program *p)
{
    const struct unit_config c = {.check_bounds = false};
    return emit_planned(&p->verdict, &c);
}

START_TEST(random_masks)
{
    static char text[MODGEN_TEXT];
    static struct program *p[RANDOM];
    static char label[RANDOM][32];
    struct tally t = {0};
    const int most = test_share(RANDOM);
    int n = 0;
    if (emit_no_compiler())
        return;
    for (uint64_t seed = 40000; n < most; seed++) {
        modgen(seed, text);
        snprintf(label[n], sizeof label[n], "modgen %d", (int)seed);
        p[n] = list_compile(label[n], text);
        if (is_planned(p[n]))
            n++;
        else
            program_free(p[n]);
    }
    void *so = emit_build(p, n, false, "-O0");
    for (int k = 0; k < n; k++) {
        plan_fn *plan;
        *(void **)&plan = emit_function(so, "plan_%d", k);
        for (uint64_t i = 0; i < 3; i++) {
            struct data d;
            open_modgen_data(&d, p[k]->graph, 4 * (uint64_t)k + i);
            check_program(label[k], p[k], plan, &d.env, (uint64_t)k, &t);
            data_free(&d);
        }
        program_free(p[k]);
    }
    dlclose(so);
    print_tally("random masks", n, &t);
}
END_TEST

/* --- the list ------------------------------------------------------------- */

START_TEST(list)
{
    static struct list_entry e[LIST_MOST];
    static struct program *p[LIST_MOST];
    static struct data d;
    struct tally t = {0};
    if (emit_no_compiler())
        return;
    const int n = list_open(e, is_planned);
    for (int k = 0; k < n; k++)
        p[k] = e[k].p;
    void *so = emit_build(p, n, false, "-O0");
    for (uint64_t i = 0; i < (uint64_t)test_share(4); i++) {
        for (int k = 0; k < n; k++) {
            plan_fn *plan;
            *(void **)&plan = emit_function(so, "plan_%d", k);
            list_random_data(&d, p[k]->graph, 8000 + i, 600);
            check_program(e[k].name, p[k], plan, &d.env, 31 * i, &t);
            data_free(&d);
        }
    }
    list_close(e, n);
    dlclose(so);
    print_tally("list", n, &t);
}
END_TEST

/* --- i64 elements beyond 2^60 --------------------------------------------- */

/* A third of the rows has no limit, a third admits nothing. */
static int64_t far_limit(int64_t row)
{
    return row / 8 % 3 == 0   ? INT64_MAX
           : row / 8 % 3 == 1 ? INT64_MIN
                              : row % 11 - 5;
}

/* By hand, without a sum that could wrap. */
static bool far_keeps(int mask, int q, int kv)
{
    switch (mask) {
    case 0:
        return q - kv <= far_limit(q);
    case 1:
        return kv - q <= far_limit(kv);
    default:
        return q - kv <= far_limit((q + kv) % 48);
    }
}

static double data_of_far(const struct data *d, const struct ir_tensor *t,
                          const int64_t *at)
{
    (void)d;
    (void)t;
    return (double)far_limit(at[0]); /* 2^63 is stored as INT64_MAX */
}

START_TEST(far_elements)
{
    static const char *const text[] = {"q - kv <= limit[q]",
                                       "limit[kv] + q - kv >= 0",
                                       "limit[(q + kv) % 48] - q + kv > -1"};
    enum { N = sizeof text / sizeof *text };
    struct program *p[N];
    struct tally t = {0};
    if (emit_no_compiler())
        return;
    for (int k = 0; k < N; k++) {
        char whole[400];
        snprintf(whole, sizeof whole,
                 "local facc = require 'facc'\n"
                 "local limit = facc.tensor('limit', 'i64', {'kv'})\n"
                 "return facc.attention { mask_mod = function(b, h, q, kv) "
                 "return %s end }\n",
                 text[k]);
        p[k] = list_compile(text[k], whole);
    }
    void *so = emit_build(p, N, false, "-O0");
    for (int k = 0; k < N; k++) {
        struct data d = {
            .env = {.B = 1, .H = 1, .Hkv = 1, .Sq = 60, .Skv = 60}};
        struct cells c;
        struct diag error;
        plan_fn *plan;
        *(void **)&plan = emit_function(so, "plan_%d", k);
        data_fill(&d, p[k]->graph, data_of_far);
        ck_assert(cells_make(&c, p[k]->plan, EVAL_F32, &d.env, 0, 0, &error));
        for (int q = 0; q < c.rows; q++)
            for (int kv = 0; kv < c.cols; kv++)
                ck_assert_msg(
                    cells_truth(&c, q, q, kv, kv) ==
                        (far_keeps(k, q, kv) ? VERDICT_FULL : VERDICT_EMPTY),
                    "%s: (%d, %d)", text[k], q, kv);
        cells_free(&c);
        check_program(text[k], p[k], plan, &d.env, (uint64_t)k, &t);
        data_free(&d);
        program_free(p[k]);
    }
    dlclose(so);
    ck_assert_int_gt(t.decided, t.rectangles / 16);
}
END_TEST

/* --- time ----------------------------------------------------------------- */

START_TEST(time_of_a_verdict)
{
    static const char *const names[] = {"M02", "M06", "S36", "M16",
                                        "M19", "M21", "M48"};
    enum { N = sizeof names / sizeof *names };
    struct program *p[N];
    static struct data d;
    long sum = 0;
    if (emit_no_compiler())
        return;
    for (int k = 0; k < N; k++)
        p[k] = list_open_one(names[k]);
    void *so = emit_build(p, N, false, "-O2");
    memset(&d, 0, sizeof d);
    d.env = (struct eval_env){
        .B = 2, .H = 4, .Hkv = 2, .Sq = DATA_TOKENS, .Skv = DATA_TOKENS};
    for (int k = 0; k < N; k++) {
        time_fn *ns;
        data_list(&d, p[k]->graph, 1);
        *(void **)&ns = emit_function(so, "time_%d", k);
        unsigned char *args = emit_args(p[k]->graph, &d.env, 1);
        const double took = ns(args, &sum);
        printf("%-8s %5.1f ns a verdict\n", names[k], took);
        ck_assert(took < 200); /* any machine, however busy */
        free(args);
        data_free(&d);
        program_free(p[k]);
    }
    ck_assert_int_gt(sum, 0);
    dlclose(so);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emit_verdict");
    TCase *t = tcase_create("verdict");
    setvbuf(stdout, NULL, _IOLBF, 0);
    tcase_set_timeout(t, 600);
    tcase_add_test(t, random_masks);
    tcase_add_test(t, list);
    tcase_add_test(t, far_elements);
    tcase_add_test(t, time_of_a_verdict);
    suite_add_tcase(s, t);
    return suite_run(s);
}

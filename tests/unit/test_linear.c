/* Canonical linear forms and the two integer predicates, by equality of the
 * nodes that different spellings give, and by brute force. */
#include "tests/unit/ir_oracle.h"

static void open(struct fixture *f)
{
    ck_assert(fixture_open(f, &alloc_libc));
}

/* c + a * x + b * y >= 0, or = 0 */
static struct ir_linear form(struct fixture *f, int64_t c, int64_t a, ir_ref x,
                             int64_t b, ir_ref y)
{
    struct ir_linear l;
    ir_linear_init(&l, c);
    ck_assert(ir_linear_axpy(f->g, &l, x, a));
    ck_assert(ir_linear_axpy(f->g, &l, y, b));
    return l;
}

static ir_ref ge0(struct fixture *f, int64_t c, int64_t a, ir_ref x, int64_t b,
                  ir_ref y)
{
    struct ir_linear l = form(f, c, a, x, b, y);
    return ir_ge0(f->g, &l);
}

static ir_ref eq0(struct fixture *f, int64_t c, int64_t a, ir_ref x, int64_t b,
                  ir_ref y)
{
    struct ir_linear l = form(f, c, a, x, b, y);
    return ir_eq0(f->g, &l);
}

START_TEST(sums_are_canonical)
{
    struct fixture f;
    open(&f);
    ir_ref d = sub(&f, f.q, f.kv);
    ck_same(&f, sub(&f, add(&f, f.q, num(&f, 1)), add(&f, f.kv, num(&f, 1))),
            d);
    ck_same(&f, ir_neg(f.g, sub(&f, f.kv, f.q)), d);
    ck_same(&f, add(&f, d, f.kv), f.q);
    ck_same(&f, sub(&f, d, d), num(&f, 0));
    ck_same(&f, ir_mul(f.g, num(&f, 3), d), add(&f, d, add(&f, d, d)));
    ck_same(&f, ir_mul(f.g, d, num(&f, 0)), num(&f, 0));
    ck_assert_int_eq(ir_node(f.g, d)->op, IR_LIN);
    ck_assert_int_eq(ir_node(f.g, d)->lo, -INT32_MAX);
    ck_assert_int_eq(ir_node(f.g, d)->hi, INT32_MAX);
    fixture_close(&f);
}
END_TEST

START_TEST(terms_are_sorted_by_hash)
{
    struct fixture f;
    open(&f);
    ir_ref x[6] = {
        f.kv, f.b, f.q, f.h, load1(&f, T_INT, f.q), ir_param(f.g, P_INT)};
    ir_ref up = num(&f, 0), down = num(&f, 0);
    for (int k = 0; k < 6; k++) {
        up = add(&f, up, ir_mul(f.g, x[k], num(&f, k + 1)));
        down = add(&f, down, ir_mul(f.g, x[5 - k], num(&f, 6 - k)));
    }
    ck_same(&f, up, down);
    ck_assert_uint_eq(ir_node(f.g, up)->n, 6);
    for (uint32_t k = 1; k < 6; k++)
        ck_assert_uint_lt(ir_node(f.g, ir_arg(f.g, up, k - 1))->hash,
                          ir_node(f.g, ir_arg(f.g, up, k))->hash);
    fixture_close(&f);
}
END_TEST

START_TEST(spellings_of_causal_are_one)
{
    struct fixture f;
    open(&f);
    struct ir_graph *g = f.g;
    ir_ref one = num(&f, 1), want = ge0(&f, 0, 1, f.q, -1, f.kv);
    const ir_ref spellings[] = {
        ge(&f, f.q, f.kv),
        le(&f, f.kv, f.q),
        not1(&f, lt(&f, f.q, f.kv)),
        not1(&f, gt(&f, f.kv, f.q)),
        gt(&f, add(&f, f.q, one), f.kv),
        lt(&f, sub(&f, f.kv, one), f.q),
        ge(&f, sub(&f, f.q, f.kv), num(&f, 0)),
        lt(&f, sub(&f, f.kv, f.q), one),
        le(&f, sub(&f, f.kv, f.q), flt(&f, 0.5)),
        le(&f, ir_mul(g, f.kv, num(&f, 2)),
           add(&f, ir_mul(g, f.q, num(&f, 2)), one)),
        eq(&f, ir_max(g, f.q, f.kv), f.q),
        eq(&f, f.kv, ir_min(g, f.kv, f.q)),
        or2(&f, gt(&f, f.q, f.kv), eq(&f, f.q, f.kv)),
        le(&f, ir_max(g, f.q, f.kv), f.q),
    };
    for (size_t k = 0; k < sizeof spellings / sizeof *spellings; k++)
        ck_same(&f, spellings[k], want);
    fixture_close(&f);
}
END_TEST

START_TEST(predicates_are_in_lowest_terms)
{
    struct fixture f;
    open(&f);
    /* 6x - 4y + 7 >= 0: 3x - 2y + 3 >= 0, since 3.5 rounds down */
    ck_same(&f, ge0(&f, 7, 6, f.q, -4, f.kv), ge0(&f, 3, 3, f.q, -2, f.kv));
    /* 4x - 4y - 3 >= 0: x - y - 1 >= 0 */
    ck_same(&f, ge0(&f, -3, 4, f.q, -4, f.kv), ge0(&f, -1, 1, f.q, -1, f.kv));
    /* 6x - 4y + 8 = 0, from either side */
    ck_same(&f, eq0(&f, 8, 6, f.q, -4, f.kv), eq0(&f, 4, 3, f.q, -2, f.kv));
    ck_same(&f, eq0(&f, 4, 3, f.q, -2, f.kv), eq0(&f, -4, -3, f.q, 2, f.kv));
    ck_same(&f, eq0(&f, 7, 6, f.q, -4, f.kv), no(&f)); /* odd */
    ir_ref r = eq0(&f, 0, -1, f.q, 1, f.kv);
    ck_assert_int_eq(ir_coef(f.g, r, 0), 1);
    struct ir_linear l;
    ck_assert(ir_linear_of(f.g, r, &l));
    ck_same(&f, ir_eq0(f.g, &l), r);
    fixture_close(&f);
}
END_TEST

START_TEST(ranges_decide_predicates)
{
    struct fixture f;
    open(&f);
    ir_ref size = ir_var(f.g, IR_VAR_SIZE_Q);
    ck_same(&f, ge(&f, f.q, num(&f, 0)), yes(&f));
    ck_same(&f, lt(&f, f.q, num(&f, 0)), no(&f));
    ck_same(&f, le(&f, f.q, num(&f, INT32_MAX)), yes(&f));
    ck_same(&f, eq(&f, f.kv, num(&f, -1)), no(&f));
    ck_same(&f, eq(&f, add(&f, f.q, size), num(&f, -4)), no(&f));
    ck_same(&f, lt(&f, sub(&f, f.q, f.kv), num(&f, INT64_MAX)), yes(&f));
    ck_same(&f, ge(&f, num(&f, 3), num(&f, 4)), no(&f));
    ck_assert(!f.g->failed);
    fixture_close(&f);
}
END_TEST

/* The largest differences of 64-bit values still fit. */
START_TEST(long_values_compare)
{
    struct fixture f;
    open(&f);
    struct ir_tensor t = {
        .name = "l", .dtype = DTYPE_I64, .rank = 1, .dim = {{IR_DIM_FIXED, 8}}};
    int at = ir_add_tensor(f.g, &t);
    ir_ref x = load1(&f, at, f.q), y = load1(&f, at, f.kv);
    ir_ref less = lt(&f, x, y);
    ck_assert_int_eq(ir_node(f.g, less)->op, IR_GE0);
    ck_same(&f, not1(&f, less), ge(&f, x, y));
    ck_assert_int_eq(ir_node(f.g, eq(&f, x, y))->op, IR_EQ0);
    ck_assert(!f.g->failed);
    int64_t lo, hi;
    bool wide;
    /* values are within 2^60: four times their difference still fits */
    struct ir_linear l = form(&f, -4, 4, y, -4, x);
    ck_assert(ir_linear_range(f.g, &l, &lo, &hi, &wide));
    ck_assert(!wide && lo == INT64_MIN && hi == INT64_MAX - 7);
    l = form(&f, -5, 4, y, -4, x);
    ck_assert(ir_linear_range(f.g, &l, &lo, &hi, &wide));
    ck_assert(wide && lo == INT64_MIN && hi == INT64_MAX - 8);
    fixture_close(&f);
}
END_TEST

static ir_ref wide_sum(struct fixture *f)
{
    struct ir_param p = {.name = "p", .dtype = DTYPE_I64};
    return ir_mul(f->g, ir_param(f->g, ir_add_param(f->g, &p)), num(f, 16));
}
static ir_ref wide_coefficient(struct fixture *f)
{
    ir_ref x = ir_mul(f->g, num(f, INT64_C(1) << 31), f->q);
    return ir_mul(f->g, ir_mul(f->g, x, num(f, 2)), num(f, INT64_C(1) << 40));
}
static ir_ref wide_constant(struct fixture *f)
{
    return add(f, num(f, INT64_MAX), add(f, f->q, num(f, 1)));
}
static ir_ref wide_literals(struct fixture *f)
{
    return add(f, num(f, INT64_MAX), num(f, 1));
}
static ir_ref wide_product(struct fixture *f)
{
    return ir_mul(f->g, ir_mul(f->g, f->q, f->kv), f->h);
}
static ir_ref wide_comparison(struct fixture *f)
{
    struct ir_param p = {.name = "p", .dtype = DTYPE_I64};
    ir_ref x = ir_param(f->g, ir_add_param(f->g, &p));
    return lt(f, ir_mul(f->g, num(f, 8), x), sub(f, f->q, x));
}

START_TEST(leaving_64_bits_is_an_error)
{
    static ir_ref (*const bad[])(struct fixture *) = {
        wide_sum,      wide_coefficient, wide_constant,
        wide_literals, wide_product,     wide_comparison};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        struct fixture f;
        open(&f);
        f.g->line = 12;
        ck_assert_uint_eq(bad[k](&f), IR_NONE);
        ck_assert(f.g->failed);
        ck_assert_int_eq(f.diag.status, DIAG_SCRIPT);
        ck_assert_int_eq(f.diag.line, 12);
        ck_assert_ptr_nonnull(
            strstr(f.diag.message, "integer arithmetic leaves 64 bits"));
        fixture_close(&f);
    }
}
END_TEST

START_TEST(magnitudes_split_over_both_indices)
{
    struct fixture f;
    open(&f);
    struct ir_graph *g = f.g;
    ir_ref d = sub(&f, f.q, f.kv), three = num(&f, 3);
    ir_ref below = le(&f, d, three), above = ge(&f, d, num(&f, -3));
    ck_same(&f, le(&f, ir_abs(g, d), three), and2(&f, below, above));
    ck_same(&f, gt(&f, ir_abs(g, d), three),
            or2(&f, not1(&f, below), not1(&f, above)));
    ir_ref x = add(&f, f.q, f.kv);
    ck_same(&f, le(&f, ir_max(g, d, x), f.h),
            and2(&f, le(&f, d, f.h), le(&f, x, f.h)));
    ck_same(&f, ge(&f, ir_max(g, d, x), f.h),
            or2(&f, ge(&f, d, f.h), ge(&f, x, f.h)));
    ck_same(&f, ge(&f, ir_min(g, d, x), f.h),
            and2(&f, ge(&f, d, f.h), ge(&f, x, f.h)));
    ck_same(&f, le(&f, ir_min(g, d, x), f.h),
            or2(&f, le(&f, d, f.h), le(&f, x, f.h)));
    /* of one index: as it is, for a summary of rows */
    ir_ref y = ir_abs(g, sub(&f, f.q, num(&f, 50)));
    ir_ref one = le(&f, y, three);
    ck_assert_int_eq(ir_node(g, one)->op, IR_GE0);
    ck_assert_uint_eq(ir_arg(g, one, 0), y);
    fixture_close(&f);
}
END_TEST

/* A limit that keeps a form within 64 bits stays where it is. */
START_TEST(limits_are_not_split)
{
    struct fixture f;
    const int64_t far = (int64_t)1 << 62;
    open(&f);
    struct ir_graph *g = f.g;
    ir_ref shift[2] = {f.q, f.kv};
    ir_ref x = ir_build(g, IR_ISHL, shift);
    ck_assert_int_eq(ir_node(g, x)->lo, INT64_MIN);
    ir_ref y = ir_max(g, ir_min(g, x, num(&f, far)), num(&f, -far));
    ck_assert_int_eq(ir_node(g, lt(&f, y, num(&f, 5)))->op, IR_GE0);
    ck_assert_int_eq(ir_node(g, gt(&f, y, num(&f, 5)))->op, IR_GE0);
    fixture_close(&f);
}
END_TEST

/* A sum of many |..| is not 2^n inequalities. */
START_TEST(splitting_is_bounded)
{
    struct fixture f;
    open(&f);
    ir_ref sum = num(&f, 0);
    for (int k = 1; k <= 40; k++) {
        ir_ref d = sub(&f, ir_mul(f.g, f.q, num(&f, k)), f.kv);
        sum = add(&f, sum, ir_abs(f.g, d));
    }
    uint32_t before = f.g->n_nodes;
    ck_assert_uint_ne(le(&f, sum, num(&f, 1000)), IR_NONE);
    ck_assert_uint_lt(f.g->n_nodes - before, 1000);
    fixture_close(&f);
}
END_TEST

START_TEST(min_and_max_equal_to_an_operand)
{
    struct fixture f;
    open(&f);
    struct ir_graph *g = f.g;
    ir_ref x = load1(&f, T_INT, f.q), y = add(&f, f.kv, num(&f, 2));
    ck_same(&f, eq(&f, ir_max(g, x, y), x), ge(&f, x, y));
    ck_same(&f, eq(&f, ir_max(g, x, y), y), ge(&f, y, x));
    ck_same(&f, eq(&f, y, ir_min(g, x, y)), ge(&f, x, y));
    ck_same(&f, ne(&f, ir_min(g, x, y), x), lt(&f, y, x));
    ck_assert_int_eq(ir_node(g, eq(&f, ir_max(g, x, y), f.h))->op, IR_EQ0);
    fixture_close(&f);
}
END_TEST

/* Random comparisons of sums, magnitudes, minima and maxima at every small
 * point. */
START_TEST(predicates_mean_what_they_say)
{
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct fixture f;
        open(&f);
        struct forest w = {.state = seed * 77};
        static const enum tree_kind kinds[] = {TREE_LT, TREE_LE, TREE_EQ};
        int r = tree_new(&w, kinds[seed % 3], 2);
        for (int k = 0; k < 2; k++) {
            int x = tree_int(&w, 3);
            w.t[r].x[k] = x;
        }
        ir_ref keep = tree_build(&f, &w, r);
        assert_verified(&f, IR_NONE, keep);
        struct oracle o = oracle_open(&f, IR_NONE, keep);
        for (int k = 0; k < N_POINTS; k++) {
            struct point at = point_at(k);
            oracle_run(&o, &at);
            ck_assert_msg(o.value[keep].i == tree_value(&w, r, &at).i,
                          "seed %d\n%s", (int)seed, text_of(&f, IR_NONE, keep));
        }
        fixture_close(&f);
    }
}
END_TEST

static bool build_some(struct fixture *f)
{
    ir_ref sum = num(f, 0);
    for (int k = 1; k < 12; k++) {
        ir_ref d = sub(f, ir_mul(f->g, f->q, num(f, k)), f->kv);
        sum = add(f, sum, ir_max(f->g, d, load1(f, T_INT, d)));
    }
    ir_ref a = le(f, sum, num(f, 9)), b = eq(f, sum, load1(f, T_OTHER, f->h));
    return and2(f, a, b) && !f->g->failed;
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(build_some);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        sums_are_canonical,
        terms_are_sorted_by_hash,
        spellings_of_causal_are_one,
        predicates_are_in_lowest_terms,
        ranges_decide_predicates,
        long_values_compare,
        leaving_64_bits_is_an_error,
        magnitudes_split_over_both_indices,
        limits_are_not_split,
        splitting_is_bounded,
        min_and_max_equal_to_an_operand,
        predicates_mean_what_they_say,
        every_allocation_may_fail,
    };
    return run_tests("linear", tests, sizeof tests / sizeof *tests);
}

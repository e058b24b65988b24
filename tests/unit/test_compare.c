/* ir_lt, ir_le, ir_eq: ints, floats and the mixes between them; what folds,
 * and what must not. */
#include "tests/unit/ir_oracle.h"

START_TEST(ints_are_linear_predicates)
{
    OPEN;
    ir_ref three = num(f, 3);
    ck_assert(ir_is(f->g, lt(f, q, kv), IR_GE0));
    ck_assert(ir_is(f->g, eq(f, q, kv), IR_EQ0));
    ck_same(f, lt(f, q, kv), ge(f, sub(f, kv, q), num(f, 1)));
    ck_same(f, le(f, q, kv), not1(f, lt(f, kv, q)));
    ck_same(f, eq(f, q, kv), eq(f, kv, q));
    ck_same(f, lt(f, q, q), no(f));
    ck_same(f, le(f, q, q), yes(f));
    ck_same(f, eq(f, q, q), yes(f));
    ck_same(f, lt(f, three, num(f, 4)), yes(f));
    ck_same(f, eq(f, three, num(f, 4)), no(f));
    ck_same(f, ge(f, q, num(f, 0)), yes(f)); /* by its range */
    ck_same(f, lt(f, q, num(f, -1)), no(f));
    ck_same(f, eq(f, ir_mul(f->g, q, num(f, 2)), three), no(f));
    ck_same(f, ge(f, ir_mul(f->g, q, num(f, 2)), three), ge(f, q, num(f, 2)));
    CLOSE;
}
END_TEST

START_TEST(int_against_float_constant_is_exact)
{
    OPEN;
    static const struct {
        double c;
        int64_t lt, le, ge, gt; /* q < lt, q <= le, q >= ge, q > gt */
    } t[] = {{2.5, 3, 2, 3, 2}, {4, 4, 4, 4, 4}, {0.25, 1, 0, 1, 0}};
    for (int k = 0; k < 3; k++) {
        ir_ref c = flt(f, t[k].c);
        ck_same(f, lt(f, q, c), lt(f, q, num(f, t[k].lt)));
        ck_same(f, le(f, q, c), le(f, q, num(f, t[k].le)));
        ck_same(f, ge(f, q, c), ge(f, q, num(f, t[k].ge)));
        ck_same(f, gt(f, q, c), gt(f, q, num(f, t[k].gt)));
    }
    ck_same(f, eq(f, q, flt(f, 4.5)), no(f));
    ck_same(f, eq(f, flt(f, 4), q), eq(f, q, num(f, 4)));
    static const double never[] = {INFINITY, 1e300, 0x1p63};
    for (int k = 0; k < 3; k++) {
        ir_ref big = flt(f, never[k]), small = flt(f, -never[k]);
        ck_same(f, lt(f, q, big), yes(f));
        ck_same(f, le(f, q, big), yes(f));
        ck_same(f, ge(f, q, big), no(f));
        ck_same(f, gt(f, q, big), no(f));
        ck_same(f, lt(f, q, small), no(f));
        ck_same(f, le(f, q, small), no(f));
        ck_same(f, ge(f, q, small), yes(f));
        ck_same(f, gt(f, q, small), yes(f));
        ck_same(f, eq(f, q, big), no(f));
    }
    ir_ref nan = flt(f, NAN);
    ck_same(f, lt(f, q, nan), no(f));
    ck_same(f, le(f, nan, q), no(f));
    ck_same(f, eq(f, nan, q), no(f));
    ck_same(f, ne(f, nan, q), yes(f));
    CLOSE;
}
END_TEST

START_TEST(floats_keep_nan)
{
    OPEN;
    ir_ref s = f->s, c = ir_param(f->g, P_FLOAT);
    ck_assert(ir_is(f->g, eq(f, s, s), IR_FEQ)); /* a NaN test */
    ck_assert(ir_is(f->g, le(f, s, s), IR_FLE));
    ck_same(f, lt(f, s, s), no(f));
    ck_same(f, eq(f, s, c), eq(f, c, s));
    ck_assert(ir_is(f->g, not1(f, lt(f, s, c)), IR_NOT)); /* not c <= s */
    ck_same(f, lt(f, flt(f, 1), flt(f, 2)), yes(f));
    ck_same(f, eq(f, flt(f, NAN), flt(f, NAN)), no(f));
    ir_ref mixed = lt(f, s, q);
    ck_assert(ir_is(f->g, mixed, IR_FLT));
    ck_assert(ir_is(f->g, ir_arg(f->g, mixed, 1), IR_I2F));
    CLOSE;
}
END_TEST

START_TEST(large_constants_do_not_overflow)
{
    OPEN;
    struct ir_tensor t = {.name = "far", .dtype = DTYPE_I64, .rank = 0};
    ir_ref x = ir_load(f->g, ir_add_tensor(f->g, &t), 0, NULL);
    ck_same(f, lt(f, x, flt(f, 0x1p62 + 1024)), yes(f));
    ck_same(f, ge(f, x, flt(f, -0x1p63)), yes(f));
    ck_same(f, gt(f, x, flt(f, 9e18)), no(f));
    ck_same(f, eq(f, x, flt(f, 9e18)), no(f));
    /* beyond 2^53 the next whole number is no double */
    ir_ref c = flt(f, 0x1p60);
    ck_same(f, lt(f, x, c), lt(f, x, num(f, (int64_t)1 << 60)));
    ck_same(f, gt(f, x, c), gt(f, x, num(f, (int64_t)1 << 60)));
    CLOSE;
}
END_TEST

START_TEST(ranges_decide_before_a_difference_overflows)
{
    OPEN;
    ir_ref least = num(f, INT64_MIN), most = num(f, INT64_MAX);
    ck_same(f, gt(f, q, least), yes(f));
    ck_same(f, ge(f, q, least), yes(f));
    ck_same(f, lt(f, q, least), no(f));
    ck_same(f, le(f, q, least), no(f));
    ck_same(f, eq(f, q, least), no(f));
    ck_same(f, lt(f, load1(f, T_INT, q), most), yes(f));
    ck_same(f, gt(f, load1(f, T_INT, q), most), no(f));
    ck_same(f, eq(f, most, load1(f, T_INT, q)), no(f));
    ck_same(f, lt(f, least, most), yes(f));
    ck_same(f, lt(f, most, least), no(f));
    ck_same(f, eq(f, least, most), no(f));
    /* at the edge of a range only the strict or the other one is decided */
    ck_same(f, le(f, num(f, 0), q), yes(f));
    ck_same(f, lt(f, q, num(f, 0)), no(f));
    ck_assert(ir_is(f->g, lt(f, num(f, 0), q), IR_GE0));
    ck_assert(ir_is(f->g, le(f, q, num(f, 0)), IR_GE0));
    CLOSE;
}
END_TEST

START_TEST(booleans)
{
    OPEN;
    ir_ref a = load1(f, T_BOOL, q), b = load1(f, T_BOOL, kv);
    ck_same(f, ir_eq(f->g, a, yes(f)), a);
    ck_same(f, ir_eq(f->g, a, no(f)), not1(f, a));
    ck_same(f, ir_eq(f->g, a, a), yes(f));
    ck_same(f, ir_eq(f->g, a, b), ir_eq(f->g, b, a));
    fixture_close(f);
}
END_TEST

START_TEST(a_boolean_is_no_number)
{
    OPEN;
    ck_assert_uint_eq(ir_lt(f->g, load1(f, T_BOOL, q), kv), IR_NONE);
    ck_assert(f->g->failed);
    ck_assert_int_eq(f->diag.status, DIAG_INTERNAL);
    ck_assert_uint_eq(ir_le(f->g, q, kv), IR_NONE); /* sticky */
    ck_assert_uint_eq(ir_eq(f->g, q, kv), IR_NONE);
    fixture_close(f);
}
END_TEST

static bool compare_something(struct fixture *f)
{
    ir_ref a = lt(f, f->q, flt(f, 7.5)), b = le(f, f->s, f->kv);
    ir_ref c = eq(f, f->s, flt(f, 2)), d = eq(f, f->q, f->kv);
    return a && b && c && d;
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(compare_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {ints_are_linear_predicates,
                                  int_against_float_constant_is_exact,
                                  floats_keep_nan,
                                  large_constants_do_not_overflow,
                                  ranges_decide_before_a_difference_overflows,
                                  booleans,
                                  a_boolean_is_no_number,
                                  every_allocation_may_fail};
    return run_tests("compare", tests, sizeof tests / sizeof *tests);
}

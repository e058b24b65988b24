/* ir_verify: accepts what the builders make, names what they never make. The
 * broken nodes are put together by hand through ir_intern. */
#include "tests/unit/ir_oracle.h"

static ir_ref raw(struct fixture *f, enum ir_op op, uint32_t n, const ir_ref *x,
                  const int64_t *k, int64_t i)
{
    return ir_intern(f->g, op, ir_op_info(op)->out, n, x, k, i, 0);
}

static void expect(struct fixture *f, ir_ref score, ir_ref keep,
                   const char *wrong)
{
    struct ir_roots roots = {score, keep};
    diag_init(&f->diag);
    ck_assert_msg(!ir_verify(f->g, &roots), "not found: %s", wrong);
    ck_assert_int_eq(f->diag.status, DIAG_INTERNAL);
    ck_assert_msg(strstr(f->diag.message, wrong), "%s, not %s", f->diag.message,
                  wrong);
}

/* The pair in the order of hashes, or against it. */
static void pair(struct fixture *f, ir_ref x[2], bool sorted)
{
    bool is = ir_node(f->g, x[0])->hash < ir_node(f->g, x[1])->hash;
    if (is != sorted) {
        ir_ref t = x[0];
        x[0] = x[1];
        x[1] = t;
    }
}

START_TEST(good_graphs_pass)
{
    OPEN;
    ir_ref a = load1(f, T_BOOL, q), c = ge(f, q, kv);
    ir_ref bias = ir_mul(f->g, load1(f, T_FLOAT, f->h), sub(f, kv, q));
    assert_verified(f, add(f, f->s, bias), and2(f, c, not1(f, a)));
    assert_verified(f, f->s, yes(f));
    assert_verified(f, IR_NONE, IR_NONE);
    CLOSE;
}
END_TEST

START_TEST(roots_have_types)
{
    OPEN;
    expect(f, q, IR_NONE, "the score is no float");
    expect(f, IR_NONE, f->s, "the mask is no boolean");
    CLOSE;
}
END_TEST

/* Operands that do not begin a row, or rows that differ in length. */
START_TEST(broken_dots)
{
    OPEN;
    const struct ir_tensor rows = {.name = "rows",
                                   .dtype = DTYPE_F16,
                                   .rank = 2,
                                   .dim = {{IR_DIM_KV, 0}, {IR_DIM_FIXED, 8}}};
    struct ir_tensor longer = rows, open = rows;
    longer.name = "longer";
    longer.dim[1].extent = 9;
    open.name = "open";
    open.dim[1].kind = IR_DIM_Q;
    const int first = ir_add_tensor(f->g, &rows);
    ir_add_tensor(f->g, &longer);
    ir_add_tensor(f->g, &open);
    ir_ref index[2] = {kv, num(f, 0)}, second[2] = {kv, num(f, 1)}, x[2];
    x[0] = ir_load(f->g, first, 2, index);
    assert_verified(f, ir_dot(f->g, x[0], x[0]), yes(f));
    index[0] = q;
    x[1] = ir_load(f->g, first, 2, index);
    ck_assert_uint_eq(ir_dot(f->g, x[0], x[1]), ir_dot(f->g, x[1], x[0]));
    for (int bad = 0; bad < 4; bad++) {
        x[1] = bad == 3 ? f->s
                        : ir_load(f->g, first + bad, 2, bad ? index : second);
        expect(f, raw(f, IR_DOT, 2, x, NULL, 0), IR_NONE, "two rows");
    }
    CLOSE;
}
END_TEST

START_TEST(broken_linear_forms)
{
    OPEN;
    int64_t k[2] = {1, -1}, even[2] = {2, -2}, zero[2] = {1, 0}, minus = -1,
            one = 1;
    ir_ref x[2] = {q, kv}, y[2] = {q, q};
    pair(f, x, false);
    expect(f, IR_NONE, raw(f, IR_GE0, 2, x, k, 0), "terms are not sorted");
    pair(f, x, true);
    expect(f, IR_NONE, raw(f, IR_GE0, 2, x, even, 1), "not in lowest terms");
    expect(f, IR_NONE, raw(f, IR_GE0, 2, x, zero, 0), "coefficient 0");
    expect(f, IR_NONE, raw(f, IR_GE0, 0, NULL, NULL, 0), "without terms");
    expect(f, IR_NONE, raw(f, IR_EQ0, 1, x, &minus, 3), "negative first");
    expect(f, IR_NONE, raw(f, IR_GE0, 2, y, k, 0), "a term twice");
    ir_ref sum = add(f, q, kv), alone = raw(f, IR_LIN, 1, x, &one, 0);
    expect(f, IR_NONE, raw(f, IR_GE0, 1, &sum, &one, -2),
           "a linear form in a linear form");
    expect(f, ir_to_float(f->g, alone), IR_NONE, "its only term");
    CLOSE;
}
END_TEST

START_TEST(broken_logic)
{
    OPEN;
    ir_ref a = load1(f, T_BOOL, q), b = load1(f, T_BOOL, kv), c = ge(f, q, kv);
    ir_ref x[2] = {a, b};
    pair(f, x, false);
    expect(f, IR_NONE, raw(f, IR_AND, 2, x, NULL, 0), "not sorted");
    ir_ref twice[2] = {a, a};
    expect(f, IR_NONE, raw(f, IR_AND, 2, twice, NULL, 0), "an operand twice");
    expect(f, IR_NONE, raw(f, IR_OR, 1, x, NULL, 0), "fewer than two");
    expect(f, IR_NONE, raw(f, IR_NOT, 1, &c, NULL, 0), "not over an atom");
    ir_ref nested[2] = {and2(f, a, b), c};
    pair(f, nested, true);
    expect(f, IR_NONE, raw(f, IR_AND, 2, nested, NULL, 0), "its own kind");
    ir_ref constant[2] = {yes(f), c};
    pair(f, constant, true);
    expect(f, IR_NONE, raw(f, IR_OR, 2, constant, NULL, 0),
           "a constant in logic");
    CLOSE;
}
END_TEST

START_TEST(broken_types)
{
    OPEN;
    ir_ref mixed[2] = {f->s, q};
    expect(f, raw(f, IR_FADD, 2, mixed, NULL, 0), IR_NONE,
           "type of an operand");
    expect(f, raw(f, IR_FADD, 1, mixed, NULL, 0), IR_NONE,
           "number of operands");
    expect(f, IR_NONE, raw(f, IR_AND, 2, mixed, NULL, 0), "type of an");
    expect(f, raw(f, IR_LOAD_F, 1, &q, NULL, T_BOOL), IR_NONE,
           "type of a load");
    expect(f, raw(f, IR_LOAD_F, 0, NULL, NULL, T_FLOAT), IR_NONE,
           "number of indices");
    ir_ref wrong = ir_intern(f->g, IR_FNEG, IR_BOOL, 1, &f->s, NULL, 0, 0);
    expect(f, IR_NONE, wrong, "type of the result");
    ir_ref p = raw(f, IR_PARAM_F, 0, NULL, NULL, P_INT);
    expect(f, p, IR_NONE, "type of a param");
    int64_t one = 1;
    expect(f, raw(f, IR_FNEG, 1, &f->s, &one, 0), IR_NONE,
           "outside a linear form");
    CLOSE;
}
END_TEST

START_TEST(broken_by_hand)
{
    OPEN;
    ir_ref r = ir_to_float(f->g, load1(f, T_INT, q));
    ir_ref load = ir_arg(f->g, r, 0);
    f->g->nodes[load].hi = f->g->nodes[load].lo - 1;
    expect(f, r, IR_NONE, "an empty range");
    f->g->args[f->g->nodes[load].first] = r; /* walks would not end */
    f->g->nodes[load].n = 0;
    expect(f, r, IR_NONE, "number of indices");
    CLOSE;
}
END_TEST

static bool verify_something(struct fixture *f)
{
    struct ir_roots roots = {f->s, ge(f, f->q, f->kv)};
    return ir_verify(f->g, &roots);
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(verify_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {good_graphs_pass, roots_have_types,
                                  broken_dots,      broken_linear_forms,
                                  broken_logic,     broken_types,
                                  broken_by_hand,   every_allocation_may_fail};
    return run_tests("verify", tests, sizeof tests / sizeof *tests);
}

/* The node array: sharing by content, structural hashes, facts of nodes,
 * leaves, walks, growth, and every allocation failing. */
#include <math.h>

#include "tests/unit/ir_fixture.h"

static void open(struct fixture *f)
{
    ck_assert(fixture_open(f, &alloc_libc));
}

START_TEST(equal_nodes_are_one)
{
    struct fixture f;
    open(&f);
    ck_assert_uint_eq(num(&f, 7), num(&f, 7));
    ck_assert_uint_ne(num(&f, 7), num(&f, 8));
    ck_assert_uint_ne(num(&f, 7), flt(&f, 7));
    ck_assert_uint_ne(flt(&f, 0.0), flt(&f, -0.0));
    ck_assert_uint_eq(flt(&f, (double)NAN), flt(&f, -(double)NAN));
    ck_assert_uint_ne(yes(&f), no(&f));
    ck_assert_uint_ne(yes(&f), num(&f, 1));
    ck_assert_uint_eq(load1(&f, T_INT, f.q), load1(&f, T_INT, f.q));
    ck_assert_uint_ne(load1(&f, T_INT, f.q), load1(&f, T_INT, f.kv));
    ck_assert_uint_ne(load1(&f, T_INT, f.q), load1(&f, T_OTHER, f.q));
    ck_assert_uint_eq(ir_var(f.g, IR_VAR_SIZE_Q), ir_var(f.g, IR_VAR_SIZE_Q));
    ck_assert_uint_ne(ir_len(f.g, true, f.b), ir_len(f.g, false, f.b));
    fixture_close(&f);
}
END_TEST

/* Two nodes may have one hash: change one behind the table's back and ask
 * for its old content. */
START_TEST(equality_is_by_content_not_by_hash)
{
    struct fixture f;
    open(&f);
    ir_ref five = num(&f, 5);
    f.g->nodes[five].i = 6;
    ir_ref again = num(&f, 5);
    ck_assert_uint_ne(again, five);
    ck_assert_uint_eq(ir_node(f.g, again)->hash, ir_node(f.g, five)->hash);
    ck_assert_uint_eq(num(&f, 5), again);
    ir_ref l = add(&f, f.q, num(&f, 3));
    f.g->coefs[f.g->nodes[l].first] = 2;
    ck_assert_uint_ne(add(&f, f.q, num(&f, 3)), l);
    fixture_close(&f);
}
END_TEST

START_TEST(hashes_do_not_depend_on_order_or_names)
{
    struct arena *a = arena_new(&alloc_libc);
    struct diag d;
    diag_init(&d);
    struct ir_graph *x = ir_graph_new(a, &d, "x"), *y = ir_graph_new(a, &d, "");
    struct ir_tensor t = {.name = "slopes", .dtype = DTYPE_F32, .rank = 1};
    ir_add_tensor(x, &t);
    t.name = "m";
    ir_add_tensor(y, &t);
    ir_ref hx = ir_var(x, IR_VAR_H), qx = ir_var(x, IR_VAR_Q);
    ir_ref sx = ir_mul(x, ir_load(x, 0, 1, &hx), qx);
    ir_const_f(y, 12); /* the same in another order */
    ir_ref qy = ir_var(y, IR_VAR_Q), hy = ir_var(y, IR_VAR_H);
    ir_ref sy = ir_mul(y, ir_to_float(y, qy), ir_load(y, 0, 1, &hy));
    ck_assert_uint_eq(ir_node(x, sx)->hash, ir_node(y, sy)->hash);
    t.dtype = DTYPE_F16;
    struct ir_graph *z = ir_graph_new(a, &d, "z");
    ir_add_tensor(z, &t);
    ir_ref hz = ir_var(z, IR_VAR_H);
    ck_assert_uint_ne(ir_node(z, ir_load(z, 0, 1, &hz))->hash,
                      ir_node(y, ir_load(y, 0, 1, &hy))->hash);
    arena_free(a);
}
END_TEST

static void check_range(struct fixture *f, ir_ref r, int64_t lo, int64_t hi)
{
    ck_assert_int_eq(ir_node(f->g, r)->type, IR_INT);
    ck_assert_int_eq(ir_node(f->g, r)->lo, lo);
    ck_assert_int_eq(ir_node(f->g, r)->hi, hi);
}

static ir_ref load_of(struct fixture *f, enum dtype dtype)
{
    struct ir_tensor t = {.name = "t", .dtype = dtype, .rank = 0};
    return ir_load(f->g, ir_add_tensor(f->g, &t), 0, NULL);
}

static ir_ref param_of(struct fixture *f, enum dtype dtype)
{
    struct ir_param p = {.name = "p", .dtype = dtype};
    return ir_param(f->g, ir_add_param(f->g, &p));
}

START_TEST(leaves_have_types_and_ranges)
{
    struct fixture f;
    open(&f);
    const int64_t i60 = INT64_C(1) << 60;
    for (int v = 0; v < IR_VAR_COUNT; v++)
        check_range(&f, ir_var(f.g, (enum ir_var)v), 0, INT32_MAX);
    check_range(&f, ir_len(f.g, true, f.b), 0, INT32_MAX);
    check_range(&f, num(&f, INT64_MIN), INT64_MIN, INT64_MIN);
    check_range(&f, load_of(&f, DTYPE_I8), -128, 127);
    check_range(&f, load_of(&f, DTYPE_U8), 0, 255);
    check_range(&f, load_of(&f, DTYPE_I16), -32768, 32767);
    check_range(&f, load_of(&f, DTYPE_I32), INT32_MIN, INT32_MAX);
    check_range(&f, load_of(&f, DTYPE_I64), -i60, i60 - 1);
    check_range(&f, param_of(&f, DTYPE_I32), INT32_MIN, INT32_MAX);
    check_range(&f, param_of(&f, DTYPE_I64), -i60, i60 - 1);
    ck_assert_int_eq(ir_node(f.g, param_of(&f, DTYPE_F32))->type, IR_FLOAT);
    ck_assert_int_eq(ir_node(f.g, load_of(&f, DTYPE_BOOL))->type, IR_BOOL);
    static const enum dtype floats[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16,
                                        DTYPE_E4M3, DTYPE_E5M2};
    for (int k = 0; k < 5; k++)
        ck_assert_int_eq(ir_node(f.g, load_of(&f, floats[k]))->op, IR_LOAD_F);
    fixture_close(&f);
}
END_TEST

START_TEST(dependencies_flow_upward)
{
    struct fixture f;
    open(&f);
    struct ir_graph *g = f.g;
    ck_assert_int_eq(ir_node(g, f.b)->deps, IR_DEP_B);
    ck_assert_int_eq(ir_node(g, f.h)->deps, IR_DEP_H);
    ck_assert_int_eq(ir_node(g, f.q)->deps, IR_DEP_Q);
    ck_assert_int_eq(ir_node(g, f.kv)->deps, IR_DEP_KV);
    ck_assert_int_eq(ir_node(g, f.s)->deps, IR_DEP_SCORE);
    ck_assert_int_eq(ir_node(g, ir_var(g, IR_VAR_SIZE_KV))->deps, 0);
    ck_assert_int_eq(ir_node(g, ir_len(g, true, f.b))->deps, IR_DEP_B);
    ir_ref r = add(&f, f.s, add(&f, load1(&f, T_FLOAT, f.q), f.h));
    ck_assert_int_eq(ir_node(g, r)->deps, IR_DEP_SCORE | IR_DEP_Q | IR_DEP_H);
    fixture_close(&f);
}
END_TEST

START_TEST(lines_are_of_the_first_maker)
{
    struct fixture f;
    open(&f);
    f.g->line = 3;
    ir_ref r = add(&f, f.q, f.kv);
    f.g->line = 9;
    ck_assert_uint_eq(add(&f, f.kv, f.q), r);
    ck_assert_uint_eq(ir_node(f.g, r)->line, 3);
    fixture_close(&f);
}
END_TEST

START_TEST(declarations_are_copied)
{
    struct fixture f;
    open(&f);
    char name[] = "window";
    struct ir_param p = {.name = name, .dtype = DTYPE_I64, .line = 4};
    ck_assert_int_eq(ir_add_param(f.g, &p), 2);
    strcpy(name, "xxxxxx");
    ck_assert_str_eq(f.g->params[2].name, "window");
    ck_assert_int_eq(f.g->params[2].line, 4);
    ck_assert_str_eq(f.g->params[P_INT].name, "w");
    ck_assert_int_eq(f.g->n_tensors, 5);
    ck_assert_str_eq(f.g->tensors[T_TABLE].name, "table");
    ck_assert_int_eq(f.g->tensors[T_TABLE].rank, 2);
    fixture_close(&f);
}
END_TEST

/* A chain deep enough to end a recursive walk on a small stack. */
START_TEST(many_nodes)
{
    struct fixture f;
    open(&f);
    enum { N = 200000 };
    ir_ref r = f.s;
    for (int k = 1; k <= N; k++)
        r = add(&f, r, flt(&f, k));
    ck_assert(!f.g->failed);
    for (int k = 1; k <= N; k += 997)
        ck_assert(ir_node(f.g, flt(&f, k))->f == k);
    struct ir_roots roots = {r, no(&f)};
    ir_ref *order;
    uint32_t n;
    ck_assert(ir_walk(f.g, &roots, &order, &n));
    ck_assert_uint_eq(n, 2 * N + 2);
    ck_assert_uint_eq(order[n - 2], r);
    fixture_close(&f);
}
END_TEST

/* Operands first, each node once, whatever was built in between. */
START_TEST(walks_follow_the_roots)
{
    struct fixture f;
    open(&f);
    num(&f, 99);
    ir_ref d = sub(&f, f.kv, f.q);
    ir_ref score = ir_mul(f.g, f.s, d);
    ir_ref keep = le(&f, d, num(&f, 5));
    struct ir_roots roots = {score, keep};
    ir_ref *order;
    uint32_t n;
    ck_assert(ir_walk(f.g, &roots, &order, &n));
    ck_assert_uint_eq(n, 7); /* q, kv, LIN, I2F, SCORE, FMUL, GE0 */
    for (uint32_t k = 0; k < n; k++) {
        ck_assert_uint_ne(order[k], num(&f, 99));
        for (uint32_t j = 0; j < k; j++)
            ck_assert_uint_ne(order[j], order[k]);
        for (uint32_t j = 0; j < ir_node(f.g, order[k])->n; j++) {
            uint32_t at = 0;
            while (order[at] != ir_arg(f.g, order[k], j))
                at++;
            ck_assert_uint_lt(at, k);
        }
    }
    ck_assert_uint_eq(order[n - 1], keep);
    fixture_close(&f);
}
END_TEST

START_TEST(op_table_is_readable)
{
    ck_assert_str_eq(ir_op_info(IR_FADD)->name, "FADD");
    ck_assert_int_eq(ir_op_info(IR_FADD)->n, 2);
    ck_assert_int_eq(ir_op_info(IR_FADD)->out, IR_FLOAT);
    ck_assert_str_eq(ir_op_info(IR_SEL_I)->in, "bii");
    ck_assert_int_eq(ir_op_info(IR_FLOOR)->out, IR_INT);
    ck_assert_int_eq(ir_op_info(IR_FLT)->out, IR_BOOL);
    ck_assert_int_eq(ir_op_info(IR_LIN)->n, -1);
    ck_assert_str_eq(ir_op_info(IR_FTANH)->dsl, "tanh");
    ck_assert_str_eq(ir_op_info(IR_OP_COUNT)->name, "INVALID");
}
END_TEST

START_TEST(failure_is_sticky)
{
    struct fixture f;
    open(&f);
    f.g->line = 17;
    ck_assert_uint_eq(ir_fail_range(f.g), IR_NONE);
    ck_assert_uint_eq(num(&f, 1), IR_NONE);
    ck_assert_uint_eq(add(&f, f.q, f.kv), IR_NONE);
    ck_assert_uint_eq(ir_mul(f.g, f.s, f.q), IR_NONE);
    ck_assert_uint_eq(ir_to_float(f.g, f.q), IR_NONE);
    ck_assert_uint_eq(lt(&f, f.q, f.kv), IR_NONE);
    ck_assert_int_eq(f.diag.status, DIAG_SCRIPT);
    ck_assert_int_eq(f.diag.line, 17);
    ck_assert_str_eq(f.diag.file, "test.lua");
    ck_assert_ptr_nonnull(
        strstr(f.diag.message, "integer arithmetic leaves 64 bits"));
    fixture_close(&f);
}
END_TEST

static bool build_much(struct fixture *f)
{
    ir_ref r = f->s;
    for (int k = 0; k < 300; k++) {
        ir_ref i = add(f, load1(f, T_INT, f->q), num(f, k));
        r = add(f, r, load1(f, T_FLOAT, ir_floormod(f->g, i, f->h)));
    }
    ir_ref keep = and2(f, le(f, ir_abs(f->g, sub(f, f->q, f->kv)), num(f, 3)),
                       eq(f, ir_max(f->g, f->q, f->kv), f->q));
    struct ir_roots roots = {r, keep};
    ir_ref *order;
    uint32_t n;
    return ir_walk(f->g, &roots, &order, &n) && !f->g->failed;
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(build_much);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        equal_nodes_are_one,
        equality_is_by_content_not_by_hash,
        hashes_do_not_depend_on_order_or_names,
        leaves_have_types_and_ranges,
        dependencies_flow_upward,
        lines_are_of_the_first_maker,
        declarations_are_copied,
        many_nodes,
        walks_follow_the_roots,
        op_table_is_readable,
        failure_is_sticky,
        every_allocation_may_fail,
    };
    return run_tests("ir", tests, sizeof tests / sizeof *tests);
}

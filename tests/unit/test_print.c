/* ir_print: exact text of every kind of node, and independence of the order
 * of building. */
#include "tests/unit/ir_oracle.h"

START_TEST(causal_and_alibi)
{
    OPEN;
    ir_ref slope = load1(f, T_FLOAT, f->h);
    ir_ref bias = ir_mul(f->g, slope, sub(f, kv, q));
    const char *text = text_of(f, add(f, f->s, bias), ge(f, q, kv));
    ck_assert_str_eq(text,
                     "%1 = VAR_I kv : int [0, 2147483647] kv\n"
                     "%2 = VAR_I q : int [0, 2147483647] q\n"
                     "%3 = LIN %1 - %2 : int [-2147483647, 2147483647] q kv\n"
                     "%4 = I2F %3 : float q kv\n"
                     "%5 = VAR_I h : int [0, 2147483647] h\n"
                     "%6 = LOAD_F bias[%5] : float h\n"
                     "%7 = FMUL %4 %6 : float h q kv\n"
                     "%8 = SCORE : float score\n"
                     "%9 = FADD %7 %8 : float h q kv score\n"
                     "%10 = GE0 -%1 + %2 : bool q kv\n"
                     "score = %9\n"
                     "keep = %10\n");
    CLOSE;
}
END_TEST

START_TEST(every_kind_of_node)
{
    OPEN;
    ir_ref w = ir_param(f->g, P_INT), c = ir_param(f->g, P_FLOAT);
    ir_ref index[2] = {f->b, ir_floormod(f->g, q, num(f, 8))};
    ir_ref t = ir_load(f->g, T_TABLE, 2, index);
    ir_ref size = ir_var(f->g, IR_VAR_SIZE_HKV), len = ir_len(f->g, true, f->b);
    ir_ref l = add(f, sub(f, ir_mul(f->g, t, num(f, -3)), w), num(f, -4));
    ir_ref keep = and2(f, lt(f, l, len),
                       or2(f, not1(f, load1(f, T_BOOL, kv)),
                           eq(f, add(f, size, num(f, 2)), f->h)));
    ir_ref score = ir_mul(f->g, c, ir_div(f->g, f->s, flt(f, 3)));
    ck_assert_str_eq(
        text_of(f, score, keep),
        "%1 = PARAM_F c : float\n"
        "%2 = SCORE : float score\n"
        "%3 = CONST_F 3.0 : float\n"
        "%4 = FDIV %2 %3 : float score\n"
        "%5 = FMUL %1 %4 : float score\n"
        "%6 = VAR_I kv : int [0, 2147483647] kv\n"
        "%7 = LOAD_B flag[%6] : bool kv\n"
        "%8 = NOT %7 : bool kv\n"
        "%9 = VAR_I h : int [0, 2147483647] h\n"
        "%10 = VAR_I size.Hkv : int [0, 2147483647]\n"
        "%11 = EQ0 %9 - %10 - 2 : bool h\n"
        "%12 = OR %8 %11 : bool h kv\n"
        "%13 = VAR_I b : int [0, 2147483647] b\n"
        "%14 = VAR_I q : int [0, 2147483647] q\n"
        "%15 = CONST_I 8 : int [8, 8]\n"
        "%16 = IMOD %14 %15 : int [0, 7] q\n"
        "%17 = LOAD_I table[%13, %16] : int [-2147483648, 2147483647] b q\n"
        "%18 = LEN_KV %13 : int [0, 2147483647] b\n"
        "%19 = PARAM_I w : int [-2147483648, 2147483647]\n"
        "%20 = GE0 3*%17 + %18 + %19 + 3 : bool b q\n"
        "%21 = AND %12 %20 : bool b h q kv\n"
        "score = %5\n"
        "keep = %21\n");
    CLOSE;
}
END_TEST

START_TEST(constants)
{
    OPEN;
    ck_assert_str_eq(text_of(f, flt(f, 0.1), yes(f)),
                     "%1 = CONST_F 0.1 : float\n"
                     "%2 = CONST_B true : bool\n"
                     "score = %1\nkeep = %2\n");
    ck_assert_str_eq(text_of(f, IR_NONE, lt(f, f->s, flt(f, -INFINITY))),
                     "%1 = SCORE : float score\n"
                     "%2 = CONST_F -inf : float\n"
                     "%3 = FLT %1 %2 : bool score\n"
                     "keep = %3\n");
    CLOSE;
}
END_TEST

/* The same mask, its parts made in another order, after other nodes. */
START_TEST(order_of_building_does_not_show)
{
    static struct forest w;
    for (unsigned seed = 1; seed <= 200; seed++) {
        struct fixture f, g;
        w.n = 0;
        w.state = seed;
        int root = tree_bool(&w, 2);
        ck_assert(fixture_open(&f, &alloc_libc));
        ck_assert(fixture_open(&g, &alloc_libc));
        const char *a = text_of(&f, IR_NONE, tree_build(&f, &w, root));
        for (int k = w.n; k-- > 0;)
            tree_build(&g, &w, k); /* subtrees, last first */
        const char *b = text_of(&g, IR_NONE, tree_build(&g, &w, root));
        ck_assert_str_eq(a, b);
        fixture_close(&f);
        fixture_close(&g);
    }
}
END_TEST

static bool print_something(struct fixture *f)
{
    struct ir_roots roots = {add(f, f->s, load1(f, T_FLOAT, f->q)),
                             ge(f, f->q, f->kv)};
    struct strbuf out;
    strbuf_init(&out, f->arena);
    if (f->g->failed)
        return false;
    ir_print(f->g, &roots, &out);
    if (out.failed && !f->g->failed) { /* text alone ran out of memory */
        f->g->failed = true;
        diag_nomem(&f->diag, "print");
    }
    return !out.failed;
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(print_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {causal_and_alibi, every_kind_of_node,
                                  constants, order_of_building_does_not_show,
                                  every_allocation_may_fail};
    return run_tests("print", tests, sizeof tests / sizeof *tests);
}

/* ir_rebuild: with its own operands a node is itself; with others it is what
 * the builders make of them. */
#include "tests/unit/ir_oracle.h"

START_TEST(own_operands_give_the_node)
{
    static struct forest w;
    for (unsigned seed = 1; seed <= 2000; seed++) {
        struct fixture f;
        ir_ref x[64];
        w.n = 0;
        w.state = seed;
        w.floats = seed % 2;
        ck_assert(fixture_open(&f, &alloc_libc));
        if (seed % 3)
            tree_build(&f, &w, tree_bool(&w, 2));
        else
            tree_build(&f, &w, tree_float(&w, 3));
        ck_assert(!f.g->failed);
        for (ir_ref r = 1, n = f.g->n_nodes; r < n; r++) {
            uint32_t k = ir_node(f.g, r)->n;
            if (k > 64)
                ck_abort_msg("a node of %u operands", k);
            for (uint32_t j = 0; j < k; j++)
                x[j] = ir_arg(f.g, r, j);
            ir_ref got = ir_rebuild(f.g, r, x);
            if (got != r)
                ck_abort_msg("seed %u: got\n%swant\n%s", seed,
                             text_of(&f, IR_NONE, got),
                             text_of(&f, IR_NONE, r));
        }
        fixture_close(&f);
    }
}
END_TEST

START_TEST(other_operands_are_canonical)
{
    OPEN;
    ir_ref c = ge(f, q, kv), h = f->h, b = f->b, a = load1(f, T_BOOL, q);
    bool q_first = ir_arg(f->g, c, 0) == q;
    ir_ref x[2] = {q_first ? q : h, q_first ? h : q};
    ck_same(f, ir_rebuild(f->g, c, x), ge(f, q, h));
    x[0] = x[1] = q;
    ck_same(f, ir_rebuild(f->g, c, x), yes(f));
    ck_same(f, ir_rebuild(f->g, not1(f, a), (ir_ref[]){c}), lt(f, q, kv));
    ck_same(f, ir_rebuild(f->g, and2(f, a, c), (ir_ref[]){c, not1(f, c)}),
            no(f));
    ck_same(f, ir_rebuild(f->g, or2(f, a, c), (ir_ref[]){c, c}), c);
    ir_ref s = ir_select(f->g, a, q, h);
    ck_same(f, ir_rebuild(f->g, s, (ir_ref[]){yes(f), kv, b}), kv);
    ck_same(f, ir_rebuild(f->g, load1(f, T_INT, q), &kv), load1(f, T_INT, kv));
    ck_same(f, ir_rebuild(f->g, ir_len(f->g, true, b), &h),
            ir_len(f->g, true, h));
    ck_same(f, ir_rebuild(f->g, ir_to_float(f->g, q), &kv),
            ir_to_float(f->g, kv));
    ir_ref lesser[2] = {flt(f, 1), flt(f, 2)};
    ck_same(f, ir_rebuild(f->g, lt(f, f->s, flt(f, 2)), lesser), yes(f));
    ck_same(f, ir_rebuild(f->g, q, NULL), q);
    ck_assert_uint_eq(ir_rebuild(f->g, c, (ir_ref[]){q, IR_NONE}), IR_NONE);
    CLOSE;
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {own_operands_give_the_node,
                                  other_operands_are_canonical};
    return run_tests("rebuild", tests, sizeof tests / sizeof *tests);
}

/* pass_scope: examples by hand, and what a scope promises, by brute force:
 * equal indices of the scope give equal values. */
#include "compiler/passes/passes.h"
#include "tests/unit/ir_oracle.h"

static void expect(struct fixture *f, ir_ref r, enum scope want)
{
    enum scope *of;
    ck_assert(pass_scope(f->g, &of));
    ck_assert_msg(of[r] == want, "%s, not %s: %s", scope_name(of[r]),
                  scope_name(want), text_of(f, IR_NONE, r));
}

START_TEST(names)
{
    ck_assert_str_eq(scope_name(SCOPE_TILE), "tile");
    ck_assert_str_eq(scope_name(SCOPE_ROW), "row");
    ck_assert_str_eq(scope_name(SCOPE_COL), "col");
    ck_assert_str_eq(scope_name(SCOPE_DIAG), "diag");
    ck_assert_str_eq(scope_name(SCOPE_CELL), "cell");
}
END_TEST

START_TEST(by_dependence)
{
    OPEN;
    expect(f, num(f, 3), SCOPE_TILE);
    expect(f, load1(f, T_FLOAT, f->h), SCOPE_TILE);
    expect(f, ir_param(f->g, P_INT), SCOPE_TILE);
    expect(f, ir_var(f->g, IR_VAR_SIZE_KV), SCOPE_TILE);
    expect(f, load1(f, T_INT, q), SCOPE_ROW);
    expect(f, ge(f, add(f, q, f->h), num(f, 7)), SCOPE_ROW);
    expect(f, load1(f, T_BOOL, kv), SCOPE_COL);
    expect(f, f->s, SCOPE_CELL);
    expect(f, ir_mul(f->g, f->s, flt(f, 2)), SCOPE_CELL);
    expect(f, eq(f, load1(f, T_INT, q), load1(f, T_INT, kv)), SCOPE_CELL);
    CLOSE;
}
END_TEST

START_TEST(diagonal)
{
    OPEN;
    ir_ref d = sub(f, q, kv), w = ir_param(f->g, P_INT);
    expect(f, d, SCOPE_DIAG);
    expect(f, ge(f, q, kv), SCOPE_DIAG);
    expect(f, ge(f, add(f, d, w), f->h), SCOPE_DIAG);
    expect(f, eq(f, d, num(f, 3)), SCOPE_DIAG);
    expect(f, add(f, ir_mul(f->g, d, num(f, 3)), w), SCOPE_DIAG);
    ir_ref clamped = ir_min(f->g, ir_abs(f->g, d), num(f, 7));
    expect(f, clamped, SCOPE_DIAG);
    expect(f, load1(f, T_FLOAT, clamped), SCOPE_DIAG);
    expect(f, ir_mul(f->g, ir_to_float(f->g, d), load1(f, T_FLOAT, f->h)),
           SCOPE_DIAG);
    expect(f, ge(f, add(f, clamped, d), w), SCOPE_DIAG);
    CLOSE;
}
END_TEST

START_TEST(not_diagonal)
{
    OPEN;
    ir_ref d = sub(f, q, kv), two = num(f, 2);
    expect(f, add(f, q, kv), SCOPE_CELL);
    expect(f, sub(f, ir_mul(f->g, q, two), kv), SCOPE_CELL);
    expect(f, ge(f, add(f, d, load1(f, T_INT, q)), two), SCOPE_CELL);
    expect(f, ir_min(f->g, q, kv), SCOPE_CELL);
    expect(f, sub(f, ir_floordiv(f->g, q, two), ir_floordiv(f->g, kv, two)),
           SCOPE_CELL);
    expect(f, add(f, f->s, ir_to_float(f->g, d)), SCOPE_CELL);
    CLOSE;
}
END_TEST

/* Points that a value of the scope may not tell apart. */
static bool same_for(enum scope s, const struct point *x, const struct point *y)
{
    if (s == SCOPE_CELL || x->b != y->b || x->h != y->h)
        return false;
    return s == SCOPE_TILE || (s == SCOPE_ROW && x->q == y->q) ||
           (s == SCOPE_COL && x->kv == y->kv) ||
           (s == SCOPE_DIAG && x->q - x->kv == y->q - y->kv);
}

START_TEST(random_trees_keep_the_promise)
{
    static struct forest w;
    for (unsigned seed = 1; seed <= 600; seed++) {
        struct fixture f;
        w.n = 0;
        w.state = seed;
        ck_assert(fixture_open(&f, &alloc_libc));
        ir_ref r = tree_build(&f, &w, tree_bool(&w, 2));
        enum scope *of;
        ck_assert(pass_scope(f.g, &of));
        struct oracle o = oracle_open(&f, IR_NONE, r);
        union value *all =
            arena_alloc(f.arena, N_POINTS * f.g->n_nodes * sizeof(union value));
        for (int k = 0; k < N_POINTS; k++) {
            struct point at = point_at(k);
            oracle_run(&o, &at);
            memcpy(all + (size_t)k * f.g->n_nodes, o.value,
                   f.g->n_nodes * sizeof *all);
        }
        for (int k = 0; k < N_POINTS * N_POINTS; k++) {
            struct point x = point_at(k / N_POINTS), y = point_at(k % N_POINTS);
            const union value *vx = all + (size_t)(k / N_POINTS) * f.g->n_nodes;
            const union value *vy = all + (size_t)(k % N_POINTS) * f.g->n_nodes;
            for (uint32_t j = 0; j < o.n; j++) {
                ir_ref a = o.order[j];
                if (same_for(of[a], &x, &y) && vx[a].i != vy[a].i)
                    ck_abort_msg("seed %u: %s is not %s", seed,
                                 text_of(&f, IR_NONE, a), scope_name(of[a]));
            }
        }
        fixture_close(&f);
    }
}
END_TEST

static bool scope_something(struct fixture *f)
{
    enum scope *of;
    return pass_scope(f->g, &of);
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(scope_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {names,
                                  by_dependence,
                                  diagonal,
                                  not_diagonal,
                                  random_trees_keep_the_promise,
                                  every_allocation_may_fail};
    return run_tests("scope", tests, sizeof tests / sizeof *tests);
}

/* The evaluator against literals and loops written by hand: ops, rows, reads
 * outside of tensors, one side's values, memory running out. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/eval.h"
#include "tests/unit/suite.h"

/* --- a graph and a call --- */

static struct arena *arena;
static struct diag diag;
static struct ir_graph *g;
static struct eval_env env;

static void setup(void)
{
    arena = arena_new(&alloc_libc);
    diag_init(&diag);
    g = ir_graph_new(arena, &diag, "mod.lua");
    env = (struct eval_env){.B = 2, .H = 4, .Hkv = 2, .Sq = 40, .Skv = 50};
}

static void teardown(void)
{
    arena_free(arena);
}

/* Position of the cells that a test looks at. */
struct cells {
    int64_t b, h, q, kv0;
    int n;
};

/* One row through the evaluator in f64: scores in and out, keep out. */
static bool run_row(ir_ref score, ir_ref keep, const struct cells *c,
                    double *row, uint8_t *kept)
{
    struct ir_roots roots = {score, keep};
    ck_assert_msg(!g->failed, "%s", diag.message);
    struct eval_plan *p = eval_plan_new(arena, g, &roots);
    ck_assert_ptr_nonnull(p);
    struct eval_state *s = eval_state_new(p, EVAL_F64, c->n, &env);
    ck_assert_ptr_nonnull(s);
    diag_init(&diag);
    bool ok = eval_tile(s, c->b, c->h, c->kv0, c->n, &diag) &&
              eval_row(s, c->q, row, kept, &diag);
    eval_state_free(s);
    return ok;
}

static double cell_f64(ir_ref score, const struct cells *c)
{
    double row[64] = {0};
    ck_assert_msg(run_row(score, ir_const_b(g, true), c, row, NULL), "%s",
                  diag.message);
    return row[0];
}

static ir_ref var(enum ir_var v)
{
    return ir_var(g, v);
}

static ir_ref f(double v)
{
    return ir_const_f(g, v);
}

static ir_ref i(int64_t v)
{
    return ir_const_i(g, v);
}

/* --- scopes --- */

static int tensor(const char *name, enum dtype t, int rank,
                  const int64_t *extent)
{
    struct ir_tensor x = {.name = name, .dtype = t, .rank = rank};
    for (int k = 0; k < rank; k++)
        x.dim[k] = (struct ir_dim){IR_DIM_FIXED, extent[k]};
    return ir_add_tensor(g, &x);
}

START_TEST(scopes_against_loops)
{
    static const float slope[4] = {0.5f, 0.25f, -2, 8};
    static const int32_t doc[50] = {0, 0, 0, 1, 1, 2, 2, 2, 2, 3};
    struct eval_tensor tensors[2] = {{slope, {4}, {1}}, {doc, {50}, {1}}};
    env.tensors = tensors;
    ir_ref b = var(IR_VAR_B), h = var(IR_VAR_H), q = var(IR_VAR_Q);
    ir_ref kv = var(IR_VAR_KV);
    int s = tensor("slope", DTYPE_F32, 1, (int64_t[]){4});
    int d = tensor("doc", DTYPE_I32, 1, (int64_t[]){50});
    /* score * (b + 1) + slope[h] * (kv - q) + doc[kv] % 2 */
    ir_ref score = ir_mul(g, ir_score(g), ir_add(g, b, i(1)));
    score = ir_add(g, score, ir_mul(g, ir_load(g, s, 1, &h), ir_sub(g, kv, q)));
    score = ir_add(g, score, ir_floormod(g, ir_load(g, d, 1, &kv), i(2)));
    /* doc[q] == doc[kv] or 2 * q - kv < 3 */
    ir_ref keep =
        ir_or2(g, ir_eq(g, ir_load(g, d, 1, &q), ir_load(g, d, 1, &kv)),
               ir_lt(g, ir_sub(g, ir_mul(g, i(2), q), kv), i(3)));
    struct ir_roots roots = {score, keep};
    ck_assert(!g->failed);
    struct eval_plan *p = eval_plan_new(arena, g, &roots);
    ck_assert(eval_plan_has_score(p) && eval_plan_has_mask(p));
    ck_assert_int_gt(eval_plan_cost(p), 0);
    for (int prec = EVAL_F32; prec <= EVAL_F64; prec++) {
        struct eval_state *st =
            eval_state_new(p, (enum eval_precision)prec, 16, &env);
        for (int64_t c = 0; c < 2 * 4 * 4; c++) { /* tiles, in odd order */
            int64_t tb = c % 2, th = c / 2 % 4, kv0 = c / 8 * 13;
            int n = kv0 + 16 <= 50 ? 16 : (int)(50 - kv0);
            ck_assert(eval_tile(st, tb, th, kv0, n, &diag));
            for (int64_t tq = 39; tq >= 0; tq -= 3) {
                double wide[16];
                float narrow[16];
                uint8_t kept[16];
                for (int k = 0; k < n; k++)
                    narrow[k] = (float)(wide[k] = 0.125 * k - 1);
                ck_assert(eval_row(st, tq,
                                   prec == EVAL_F32 ? (void *)narrow : wide,
                                   kept, &diag));
                for (int k = 0; k < n; k++) {
                    int64_t col = kv0 + k;
                    double want = (0.125 * k - 1) * (double)(tb + 1) +
                                  (double)slope[th] * (double)(col - tq) +
                                  doc[col] % 2;
                    double got = prec == EVAL_F32 ? (double)narrow[k] : wide[k];
                    ck_assert_double_eq(got, want); /* exact in f32 too */
                    ck_assert_int_eq(kept[k],
                                     doc[tq] == doc[col] || 2 * tq - col < 3);
                }
            }
        }
        eval_state_free(st);
    }
}
END_TEST

START_TEST(identity_and_scalar_roots)
{
    struct cells c = {0, 3, 5, 8, 4};
    double row[4] = {1, 2, 3, 4};
    uint8_t kept[4];
    struct ir_roots none = {ir_score(g), ir_const_b(g, true)};
    struct eval_plan *p = eval_plan_new(arena, g, &none);
    ck_assert(!eval_plan_has_score(p) && !eval_plan_has_mask(p));
    ck_assert(run_row(none.score, none.keep, &c, row, kept));
    ck_assert(row[0] == 1 && row[3] == 4 && kept[0] == 1 && kept[3] == 1);
    /* tile- and row-scope roots fill the row */
    ir_ref h = ir_to_float(g, var(IR_VAR_H));
    ck_assert(run_row(h, ir_lt(g, var(IR_VAR_Q), i(5)), &c, row, kept));
    ck_assert(row[0] == 3 && row[3] == 3 && kept[0] == 0 && kept[3] == 0);
}
END_TEST

START_TEST(sizes_params_lengths)
{
    static const int32_t len_q[2] = {7, 9}, len_kv[2] = {11, 13};
    union eval_value params[2] = {{.i = INT64_C(1) << 40}, {.f = 0.1}};
    struct ir_param pi = {"window", DTYPE_I64, 1}, pf = {"cap", DTYPE_F32, 2};
    struct cells c = {1, 2, 3, 4, 1};
    env.params = params;
    int a = ir_add_param(g, &pi), b = ir_add_param(g, &pf);
    ir_ref sizes = ir_add(g, ir_mul(g, var(IR_VAR_SIZE_B), i(1000000)),
                          ir_add(g, ir_mul(g, var(IR_VAR_SIZE_H), i(100000)),
                                 ir_mul(g, var(IR_VAR_SIZE_HKV), i(10000))));
    sizes = ir_add(g, sizes, ir_mul(g, var(IR_VAR_SIZE_Q), i(100)));
    sizes = ir_add(g, sizes, var(IR_VAR_SIZE_KV));
    ck_assert_double_eq(cell_f64(ir_to_float(g, sizes), &c), 2424050);
    ck_assert_double_eq(
        cell_f64(ir_to_float(g, ir_floordiv(g, ir_param(g, a), i(1 << 20))),
                 &c),
        1 << 20);
    /* an f32 param is an f32 on every path */
    ck_assert_double_eq(cell_f64(ir_param(g, b), &c), (double)0.1f);
    ir_ref vb = var(IR_VAR_B);
    ir_ref lens = ir_add(g, ir_mul(g, ir_len(g, false, vb), i(100)),
                         ir_len(g, true, ir_sub(g, i(1), vb)));
    lens = ir_to_float(g, lens);
    ck_assert_double_eq(cell_f64(lens, &c), 40 * 100 + 50);
    env.len_q = len_q;
    env.len_kv = len_kv;
    ck_assert_double_eq(cell_f64(lens, &c), 9 * 100 + 11);
    /* a length of a sequence that is not there */
    double row[1] = {0};
    ir_ref bad = ir_to_float(g, ir_len(g, true, ir_add(g, vb, i(1))));
    ck_assert(!run_row(bad, ir_const_b(g, true), &c, row, NULL));
    ck_assert_int_eq(diag.status, DIAG_BOUNDS);
    ck_assert_ptr_nonnull(strstr(diag.message, "sequence 2 of 2"));
}
END_TEST

/* --- loads --- */

START_TEST(loads_of_every_type)
{
    static const float f32[2] = {0, -1.5f};
    static const uint16_t f16[2] = {0, 0xbe00}, bf16[2] = {0, 0xbfc0};
    static const uint8_t e4m3[2] = {0, 0xbc}, e5m2[2] = {0, 0xbe};
    static const int8_t i8[2] = {0, -128};
    static const uint8_t u8[2] = {0, 200}, bools[2] = {0, 7};
    static const int16_t i16[2] = {0, -30000};
    static const int32_t i32[2] = {0, INT32_MIN};
    static const int64_t i64[2] = {0, INT64_C(1) << 50};
    const struct {
        enum dtype t;
        const void *data;
        double want;
    } all[] = {{DTYPE_F32, f32, -1.5},    {DTYPE_F16, f16, -1.5},
               {DTYPE_BF16, bf16, -1.5},  {DTYPE_E4M3, e4m3, -1.5},
               {DTYPE_E5M2, e5m2, -1.5},  {DTYPE_I8, i8, -128},
               {DTYPE_U8, u8, 200},       {DTYPE_I16, i16, -30000},
               {DTYPE_I32, i32, -0x1p31}, {DTYPE_I64, i64, 0x1p50},
               {DTYPE_BOOL, bools, 1}};
    enum { N = sizeof all / sizeof *all };
    struct eval_tensor tensors[N];
    env.tensors = tensors;
    struct cells c = {1, 0, 0, 1, 1};
    for (int k = 0; k < N; k++) {
        tensors[k] = (struct eval_tensor){all[k].data, {2}, {1}};
        int t = tensor("t", all[k].t, 1, (int64_t[]){2});
        ir_ref scalar = var(IR_VAR_B), wide = var(IR_VAR_KV);
        ir_ref x[2] = {ir_load(g, t, 1, &scalar), ir_load(g, t, 1, &wide)};
        for (int j = 0; j < 2; j++) {
            ir_ref v = all[k].t == DTYPE_BOOL ? ir_select(g, x[j], f(1), f(0))
                                              : ir_to_float(g, x[j]);
            ck_assert_double_eq(cell_f64(v, &c), all[k].want);
        }
    }
}
END_TEST

/* An i64 beyond 2^60 counts as that end: sums with it stay in 64 bits. */
START_TEST(loads_of_far_ints)
{
    const int64_t end = INT64_C(1) << 60;
    const int64_t data[] = {INT64_MIN, -end - 1, -end, -end + 1, 0,
                            end - 2,   end - 1,  end,  INT64_MAX};
    const int64_t want[] = {-end,    -end,    -end,    -end + 1, 0,
                            end - 2, end - 1, end - 1, end - 1};
    enum { N = sizeof data / sizeof *data };
    struct eval_tensor t = {data, {N}, {1}};
    env.tensors = &t;
    const ir_ref kv = var(IR_VAR_KV);
    const ir_ref x =
        ir_load(g, tensor("t", DTYPE_I64, 1, (int64_t[]){N}), 1, &kv);
    for (int k = 0; k < N; k++) {
        struct cells c = {0, 0, 0, k, 1};
        const ir_ref is = ir_eq(g, x, i(want[k]));
        ck_assert_msg(cell_f64(ir_select(g, is, f(1), f(0)), &c) == 1,
                      "element %d", k);
    }
}
END_TEST

START_TEST(loads_strided)
{
    /* data[i] = i; a view of rank 5 that runs backwards, repeats, skips */
    static int32_t data[400];
    for (int k = 0; k < 400; k++)
        data[k] = k;
    struct eval_tensor tensors[2] = {
        {data + 399, {2, 4, 40, 50, 3}, {-100, 0, -3, -2, 1}},
        {data + 17, {0}, {0}}};
    env.tensors = tensors;
    ir_ref index[5] = {var(IR_VAR_B), var(IR_VAR_H), var(IR_VAR_Q),
                       var(IR_VAR_KV), i(0)};
    int t = tensor("t", DTYPE_I32, 5, (int64_t[]){2, 4, 40, 50, 3});
    int rank0 = tensor("r", DTYPE_I32, 0, NULL);
    ir_ref v = ir_load(g, t, 5, index);
    struct cells c = {1, 3, 11, 7, 20};
    double row[20] = {0};
    ck_assert(run_row(ir_to_float(g, v), ir_const_b(g, true), &c, row, NULL));
    for (int k = 0; k < 20; k++)
        ck_assert_double_eq(row[k], 399 - 100 - 33 - 2 * (7 + k));
    ck_assert_double_eq(
        cell_f64(ir_to_float(g, ir_load(g, rank0, 0, NULL)), &c), 17);
}
END_TEST

/* --- reads outside --- */

static const float eight[8] = {0, 1, 2, 3, 4, 5, 6, 7};

/* t[index] of 8 floats, made in line 12. */
static ir_ref read_eight(ir_ref index)
{
    static struct eval_tensor tensors[1];
    tensors[0] = (struct eval_tensor){eight, {8}, {1}};
    env.tensors = tensors;
    g->line = 12;
    int t = g->n_tensors > 0 ? 0 : tensor("bias", DTYPE_F32, 1, (int64_t[]){8});
    ir_ref r = ir_load(g, t, 1, &index);
    g->line = 0;
    return r;
}

static void expect_bounds(ir_ref score, ir_ref keep, const char *text)
{
    struct cells c = {1, 2, 10, 0, 16};
    double row[16] = {0};
    uint8_t kept[16];
    ck_assert(!run_row(score, keep, &c, row, kept));
    ck_assert_int_eq(diag.status, DIAG_BOUNDS);
    ck_assert_int_eq(diag.line, 12);
    ck_assert_str_eq(diag.file, "mod.lua");
    ck_assert_msg(strstr(diag.message, text) != NULL, "%s", diag.message);
}

START_TEST(bad_read_reported)
{
    ir_ref kv = var(IR_VAR_KV), q = var(IR_VAR_Q), yes = ir_const_b(g, true);
    expect_bounds(ir_add(g, ir_score(g), read_eight(kv)), yes,
                  "'bias' is read outside its bounds: index 1 is 8, the "
                  "extent is 8 (at b 1, h 2, q 10, kv 8)");
    expect_bounds(read_eight(ir_sub(g, kv, q)), yes, "index 1 is -10");
    expect_bounds(read_eight(q), yes, "index 1 is 10");
    expect_bounds(read_eight(ir_sub(g, var(IR_VAR_B), i(2))), yes,
                  "index 1 is -1");
    /* far outside, where index arithmetic would overflow */
    expect_bounds(read_eight(ir_mul(g, kv, i(-(INT64_C(1) << 30)))), yes,
                  "index 1 is -1073741824");
    /* the mask itself is read from outside */
    ir_ref keep = ir_lt(g, read_eight(kv), f(3));
    expect_bounds(ir_score(g), keep, "index 1 is 8");
    /* through an index: t[t[kv]] */
    ir_ref chained =
        read_eight(ir_build(g, IR_FLOOR, (ir_ref[]){read_eight(kv)}));
    expect_bounds(chained, yes, "index 1 is 8");
}
END_TEST

static void expect_fine(ir_ref score, ir_ref keep, const double *want,
                        const uint8_t *want_keep)
{
    struct cells c = {1, 2, 10, 0, 16};
    double row[16] = {0};
    uint8_t kept[16];
    ck_assert_msg(run_row(score, keep, &c, row, kept), "%s", diag.message);
    for (int k = 0; k < 16; k++) {
        ck_assert_int_eq(kept[k], want_keep[k]);
        if (kept[k])
            ck_assert_double_eq(row[k], want[k]);
    }
}

START_TEST(bad_read_that_does_not_matter)
{
    static const double first[16] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const uint8_t all[16] = {1, 1, 1, 1, 1, 1, 1, 1,
                                    1, 1, 1, 1, 1, 1, 1, 1};
    static const uint8_t half[16] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const uint8_t three[16] = {1, 1, 1};
    static const uint8_t not_three[16] = {0, 0, 0, 1, 1, 1, 1, 1,
                                          1, 1, 1, 1, 1, 1, 1, 1};
    static const double zero[16] = {0};
    ir_ref kv = var(IR_VAR_KV), inside = ir_lt(g, kv, i(8));
    ir_ref t = read_eight(kv), yes = ir_const_b(g, true);
    /* masked cells; an arm not taken; both ways round */
    expect_fine(t, inside, first, half);
    expect_fine(ir_select(g, inside, t, f(0)), yes, first, all);
    expect_fine(ir_select(g, ir_not(g, inside), f(0), t), yes, first, all);
    /* a mask that reads, decided by another operand */
    ir_ref low = ir_lt(g, t, f(3));
    expect_fine(f(0), ir_and2(g, inside, low), zero, three);
    expect_fine(f(0), ir_or2(g, ir_not(g, inside), ir_not(g, low)), zero,
                not_three);
    /* a select chosen by a poisoned condition is an error, a clean one with
     * poisoned arms only where taken */
    expect_bounds(ir_select(g, low, f(1), f(2)), yes, "index 1 is 8");
    expect_fine(ir_select(g, low, f(1), f(2)), inside,
                (const double[16]){1, 1, 1, 2, 2, 2, 2, 2}, half);
}
END_TEST

START_TEST(empty_tensor)
{
    struct eval_tensor none = {NULL, {0}, {1}};
    struct cells c = {0, 0, 0, 0, 4};
    double row[4] = {0};
    uint8_t kept[4];
    env.tensors = &none;
    int t = tensor("none", DTYPE_F32, 1, (int64_t[]){0});
    ir_ref kv = var(IR_VAR_KV), v = ir_load(g, t, 1, &kv);
    ck_assert(!run_row(v, ir_const_b(g, true), &c, row, kept));
    ck_assert_int_eq(diag.status, DIAG_BOUNDS);
    ck_assert(run_row(v, ir_lt(g, kv, i(0)), &c, row, kept));
}
END_TEST

/* --- cells that something else decides --- */

/* Block lists: masked cells report nothing, cells that count only what the
 * score reads. */
START_TEST(given_cells)
{
    enum { MASKED = 1, COUNTS = 2, ASKED = 3 };
    float data[4] = {5, 1, 5, 1};
    struct eval_tensor t = {data, {4}, {1}};
    env.tensors = &t;
    int id = tensor("t", DTYPE_F32, 1, (int64_t[]){4});
    ir_ref kv = var(IR_VAR_KV), v = ir_load(g, id, 1, &kv);
    struct ir_roots roots = {v, ir_lt(g, f(2), v)};
    struct eval_state *s =
        eval_state_new(eval_plan_new(arena, g, &roots), EVAL_F64, 6, &env);
    const uint8_t ways[6] = {ASKED, ASKED, MASKED, COUNTS, MASKED, MASKED};
    uint8_t given[6], kept[6];
    double row[6];
    memcpy(given, ways, sizeof given);
    ck_assert(eval_tile(s, 0, 0, 0, 6, &diag));
    ck_assert(eval_row_given(s, 0, given, NULL, kept, &diag));
    ck_assert(eval_row_given(s, 0, given, row, kept, &diag));
    for (int k = 0; k < 6; k++)
        ck_assert_int_eq(kept[k], k == 0 || k == 3);
    ck_assert(!eval_row(s, 0, NULL, kept, &diag));
    given[4] = COUNTS; /* whatever the mask, but its score is bad */
    diag_init(&diag);
    ck_assert(eval_row_given(s, 0, given, NULL, kept, &diag));
    ck_assert_int_eq(kept[4], 1);
    ck_assert(!eval_row_given(s, 0, given, row, kept, &diag));
    ck_assert_int_eq(diag.status, DIAG_BOUNDS);
    given[4] = ASKED;
    diag_init(&diag);
    ck_assert(!eval_row_given(s, 0, given, NULL, kept, &diag));
    eval_state_free(s);
}
END_TEST

/* --- one side --- */

/* Values of q alone for all rows at once, as eval_row has them one by one. */
START_TEST(side_values)
{
    int32_t data[8] = {3, 1, 4, 1, 5, 9, 2, 6};
    struct eval_tensor t = {data, {8}, {1}};
    env.tensors = &t;
    int id = tensor("t", DTYPE_I32, 1, (int64_t[]){8});
    ir_ref q = var(IR_VAR_Q), h = var(IR_VAR_H);
    ir_ref x = ir_load(g, id, 1, (ir_ref[]){ir_sub(g, q, h)});
    ir_ref nodes[4] = {ir_add(g, x, q), ir_lt(g, x, i(3)), ir_mul(g, h, i(7)),
                       ir_to_float(g, x)};
    struct eval_plan *p = eval_plan_new_side(arena, g, 4, nodes);
    ck_assert_ptr_nonnull(p);
    struct eval_state *s = eval_state_new(p, EVAL_F32, 16, &env);
    eval_side(s, 0, 1, 1, 8); /* reads t[0 .. 7] */
    struct eval_column c = eval_side_value(s, 0);
    ck_assert(c.wide && c.bad == NULL);
    for (int k = 0; k < 8; k++) {
        ck_assert_int_eq(((const int64_t *)c.value)[k], data[k] + k + 1);
        ck_assert_int_eq(((const uint8_t *)eval_side_value(s, 1).value)[k],
                         data[k] < 3);
        ck_assert(((const float *)eval_side_value(s, 3).value)[k] ==
                  (float)data[k]);
    }
    c = eval_side_value(s, 2);
    ck_assert(!c.wide && *(const int64_t *)c.value == 7);
    eval_side(s, 0, 2, 0, 9); /* t[-2 .. 6] */
    c = eval_side_value(s, 0);
    ck_assert_ptr_nonnull(c.bad);
    for (int k = 0; k < 9; k++)
        ck_assert_int_eq(c.bad[k], k < 2);
    ck_assert(eval_side_value(s, 2).bad == NULL);
    eval_side(s, 1, 0, 0, 0);
    ck_assert_int_eq(*(const int64_t *)eval_side_value(s, 2).value, 0);
    eval_state_free(s);
}
END_TEST

/* --- memory --- */

/* Gives out memory `left` times and then refuses; counts what is alive. */
struct failing {
    long left, live;
};

static void *failing_fn(void *user, void *ptr, size_t old_size, size_t new_size)
{
    struct failing *x = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        x->live--;
        return NULL;
    }
    if (x->left-- <= 0)
        return NULL;
    x->live += ptr == NULL;
    return realloc(ptr, new_size);
}

START_TEST(allocation_fails)
{
    bool done = false;
    for (long n = 0; n < 200 && !done; n++) {
        struct failing left = {n, 0};
        struct alloc al = {failing_fn, &left};
        struct arena *a = arena_new(&al);
        if (a == NULL)
            continue;
        struct diag d;
        diag_init(&d);
        struct ir_graph *x = ir_graph_new(a, &d, "mod.lua");
        if (x != NULL) {
            ir_ref q = ir_var(x, IR_VAR_Q), kv = ir_var(x, IR_VAR_KV);
            struct ir_roots roots = {
                ir_add(x, ir_score(x), ir_to_float(x, ir_sub(x, kv, q))),
                ir_le(x, kv, q)};
            struct eval_plan *p =
                x->failed ? NULL : eval_plan_new(a, x, &roots);
            ck_assert(p != NULL || d.status == DIAG_MEMORY);
            done = p != NULL;
        }
        arena_free(a);
        ck_assert_int_eq(left.live, 0);
    }
    ck_assert(done);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eval");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, scopes_against_loops);
    tcase_add_test(t, identity_and_scalar_roots);
    tcase_add_test(t, sizes_params_lengths);
    tcase_add_test(t, loads_of_every_type);
    tcase_add_test(t, loads_of_far_ints);
    tcase_add_test(t, loads_strided);
    tcase_add_test(t, bad_read_reported);
    tcase_add_test(t, bad_read_that_does_not_matter);
    tcase_add_test(t, empty_tensor);
    tcase_add_test(t, given_cells);
    tcase_add_test(t, side_values);
    tcase_add_test(t, allocation_fails);
    suite_add_tcase(s, t);
    return suite_run(s);
}

/* pass_dot: which sums of the score hold a product of vectors that kernels make
 * beside Q K^T, what is left of the score, and why others are made cell by
 * cell. The score's value is compared with the one that was split. */
#include <math.h>
#include <stdio.h>

#include "compiler/compile.h"
#include "tests/unit/ir_fixture.h"

static const char declarations[] =
    "local facc = require 'facc' "
    "local a = facc.tensor('a', 'bf16', { 'B', 'H', 'q', 64 }) "
    "local b = facc.tensor('b', 'bf16', { 'B', 'Hkv', 'kv', 64 }) "
    "local c = facc.tensor('c', 'bf16', { 'kv', 64 }) "
    "local other = facc.tensor('other', 'f16', { 'kv', 64 }) "
    "local wide = facc.tensor('wide', 'f32', { 'q', 64 }) "
    "local wide_kv = facc.tensor('wide_kv', 'f32', { 'kv', 64 }) "
    "local odd = facc.tensor('odd', 'bf16', { 'q', 24 }) "
    "local odd_kv = facc.tensor('odd_kv', 'bf16', { 'kv', 24 }) "
    "local all = facc.tensor('all', 'bf16', { 'any', 64 }) "
    "local off = facc.tensor('off', 'i32', { 'B' }) "
    "local at = facc.tensor('at', 'i32', { 'q' }) "
    "local slope = facc.tensor('slope', 'f32', { 'H' }) "
    "local w = facc.param('w', 'f32') ";

static struct program *load(const char *body)
{
    char text[4096];
    struct diag d;
    diag_init(&d);
    snprintf(text, sizeof text, "%s return facc.attention { %s }", declarations,
             body);
    struct program *p =
        compile_program(&alloc_libc, "t.lua", text, strlen(text), NULL, &d);
    ck_assert_msg(p != NULL, "%s", d.message);
    return p;
}

static const char *printed(struct program *p, ir_ref r, struct arena *a)
{
    struct strbuf out;
    strbuf_init(&out, a);
    ir_print(p->graph, &(struct ir_roots){r, p->roots.keep}, &out);
    return strbuf_text(&out);
}

/* Score in place of S, the rest by its graph: loads are numbers of their
 * tensor. */
static double value(const struct ir_graph *g, ir_ref r, double score)
{
    const struct ir_node *n = ir_node(g, r);
    double x[3] = {0};
    if (n->op == IR_DOT)
        return 0.75;
    for (uint32_t k = 0; k < n->n && k < 3; k++)
        x[k] = ir_op_is_load(n->op) ? 0 : value(g, ir_arg(g, r, k), score);
    switch ((int)n->op) {
    case IR_SCORE:
        return score;
    case IR_CONST_F:
        return n->f;
    case IR_PARAM_F:
        return 1.5;
    case IR_LOAD_F:
        return 0.25 + (double)n->i;
    case IR_FADD:
        return x[0] + x[1];
    case IR_FSUB:
        return x[0] - x[1];
    case IR_FMUL:
        return x[0] * x[1];
    case IR_FDIV:
        return x[0] / x[1];
    case IR_FNEG:
        return -x[0];
    case IR_FTANH:
        return tanh(x[0]);
    case IR_I2F:
        return 3;
    default:
        return 0; /* integers: of indices */
    }
}

/* The score is what it was where SCORE stands for SCORE + factor * DOT. */
static void splits(const char *score, double factor)
{
    char body[512];
    snprintf(body, sizeof body,
             "score_mod = function(s, bb, h, q, kv) return %s end", score);
    struct program *p = load(body);
    const struct dot_term *d = &p->dot;
    ck_assert_msg(d->dot != IR_NONE, "%s: %s", score, d->why);
    ck_assert(d->n == 64 && d->dtype == DTYPE_BF16);
    ck_assert_int_eq(d->row.tensor, 0);
    ck_assert(ir_node(p->graph, d->row.load)->deps & IR_DEP_Q);
    ck_assert(ir_node(p->graph, d->col.load)->deps & IR_DEP_KV);
    ck_assert_double_eq_tol(value(p->graph, d->factor, 0), factor, 1e-12);
    for (double s = -2; s < 3; s += 0.5)
        ck_assert_double_eq_tol(
            value(p->graph, p->roots.score, s),
            value(p->graph, d->roots.score, s + factor * 0.75), 1e-12);
    ck_assert(ir_verify(p->graph, &d->roots));
    struct arena *a = arena_new(&alloc_libc);
    ck_assert_ptr_null(strstr(printed(p, d->roots.score, a), "DOT"));
    arena_free(a);
    program_free(p);
}

START_TEST(sums_that_hold_the_product)
{
    splits("s + facc.dot(a[bb][h][q], b[bb][h // 2][kv])", 1);
    splits("facc.dot(b(bb, h, kv), a(bb, h, q)) * 0.5 + s", 0.5);
    splits("s - facc.dot(a[bb][h][q], c[kv])", -1);
    splits("facc.dot(a[bb][h][q], c[kv]) - s", -1);
    splits("s + facc.dot(a[bb][h][q], c[kv]) / 8", 0.125);
    splits("s + w * -facc.dot(a[bb][h][q], c[kv]) * slope[h]",
           -1.5 * (0.25 + 11));
    splits("(s + slope[h] * (kv - q)) + 2 * facc.dot(a[bb][h][q], c[kv])", 2);
    splits("(s - (kv - (facc.dot(a[bb][h][q], c[kv]) - q))) * 2 + 1", 1);
    splits("50 * facc.tanh((s + 0.3 * facc.dot(a[bb][h][q], c[kv])) / 50)",
           0.3);
    splits("s + facc.dot(a[bb][h][q], c[kv]) + "
           "facc.dot(a[bb][h][q], c[kv]) * 3",
           4);
    /* a sum within a sum that is used elsewhere */
    splits("(s + facc.dot(a[bb][h][q], c[kv]) + 1) * "
           "(s + facc.dot(a[bb][h][q], c[kv]))",
           1);
}
END_TEST

START_TEST(places)
{
    struct program *p =
        load("score_mod = function(s, bb, h, q, kv) return s + "
             "facc.dot(a[bb][h // 2][q], all[off[bb] + kv + 3]) end");
    const struct dot_term *d = &p->dot;
    ck_assert_msg(d->dot != IR_NONE, "%s", d->why);
    ck_assert(d->row.tensor == 0 && d->row.dim == 2 && !d->row.shifted);
    ck_assert(d->col.tensor == 8 && d->col.dim == 0 && d->col.shifted);
    ck_assert(ir_is(p->graph, d->col.first, IR_LIN));
    ck_assert(ir_is(p->graph, d->roots.score, IR_SCORE));
    ck_assert_uint_eq(d->roots.keep, p->roots.keep);
    program_free(p);
}
END_TEST

/* Made cell by cell, for a reason. */
static void stays(const char *body, const char *why)
{
    struct program *p = load(body);
    ck_assert_msg(p->dot.dot == IR_NONE, "%s", body);
    ck_assert(p->dot.cell != IR_NONE);
    ck_assert_msg(strcmp(p->dot.why, why) == 0, "%s: %s", body, p->dot.why);
    program_free(p);
}

#define MOD "score_mod = function(s, bb, h, q, kv) return "

START_TEST(products_of_cells)
{
    stays(MOD "s + facc.dot(a[bb][h][q], other[kv]) end",
          "the tensors are not both f16 or both bf16");
    stays(MOD "s + facc.dot(wide[q], wide_kv[kv]) end",
          "the tensors are not both f16 or both bf16");
    stays(MOD "s + facc.dot(odd[q], odd_kv[kv]) end",
          "the vectors' length is no multiple of 16 up to 128");
    stays(MOD "s + facc.dot(all[q + kv], c[kv]) end",
          "not of one row's and one column's vector");
    stays(MOD "s + facc.dot(all[at[q]], c[kv]) end",
          "an index is not q or kv plus a value of (b, h)");
    stays(MOD "s + facc.dot(all[2 * q], c[kv]) end",
          "an index is not q or kv plus a value of (b, h)");
    stays(MOD "s + facc.dot(a[bb][q][q], c[kv]) end",
          "an index is not q or kv plus a value of (b, h)");
    stays(MOD "s * facc.dot(a[bb][h][q], c[kv]) end",
          "not added to the score itself");
    stays(MOD "2 * s + facc.dot(a[bb][h][q], c[kv]) end",
          "not added to the score itself");
    stays(MOD "s + q * facc.dot(a[bb][h][q], c[kv]) end",
          "not added to the score itself");
    stays(MOD "facc.tanh(s) + facc.dot(a[bb][h][q], c[kv]) end",
          "not added to the score itself");
    stays(MOD "(s + facc.dot(a[bb][h][q], c[kv])) * s end",
          "the score is used without it, too");
    stays(MOD "facc.where(q > kv, s + facc.dot(a[bb][h][q], c[kv]), 2 * s) end",
          "the score is used without it, too");
    stays(MOD "q >= kv and s + facc.dot(a[bb][h][q], c[kv]) > 0 and "
              "s + facc.dot(a[bb][h][q], c[kv]) or -math.huge end",
          "the mask reads the score");
}
END_TEST

START_TEST(nothing_to_find)
{
    struct program *p = load(MOD "s + slope[h] end");
    ck_assert(p->dot.dot == IR_NONE && p->dot.cell == IR_NONE);
    ck_assert_uint_eq(p->dot.roots.score, p->roots.score);
    program_free(p);
    /* of a row alone: once per row anyway */
    p = load(MOD "s + facc.dot(a[bb][h][q], a[bb][h][0]) end");
    ck_assert(p->dot.dot == IR_NONE && p->dot.cell == IR_NONE);
    program_free(p);
    /* one of two joins, the other is left in the score */
    p = load(MOD "s + facc.dot(a[bb][h][q], c[kv]) + "
                 "facc.dot(wide[q], wide_kv[kv]) end");
    ck_assert(p->dot.dot != IR_NONE);
    ck_assert_int_eq(p->dot.row.tensor, 0);
    struct arena *a = arena_new(&alloc_libc);
    ck_assert_ptr_nonnull(strstr(printed(p, p->dot.roots.score, a), "DOT"));
    arena_free(a);
    program_free(p);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {sums_that_hold_the_product, places,
                                  products_of_cells, nothing_to_find};
    return run_tests("dot", tests, sizeof tests / sizeof *tests);
}

/* pass_verdict: what of a mask becomes tile values, summaries, guards and
 * disjunctive forms; tiers with their causes; which masks are plain or worth
 * halving; capacities. That verdicts are true and sharp is test_verdict.c's
 * matter. */
#include <check.h>
#include <stdio.h>

#include "compiler/compile.h"
#include "tests/unit/ir_fixture.h"
#include "tests/unit/verdict_cells.h"
#include "tests/conformance/data.h"

/* The body of a mask from line 3 on. */
static const char *source(const char *body)
{
    static char text[1 << 15];
    snprintf(text, sizeof text,
             "local facc = require 'facc' "
             "local T, P = facc.tensor, facc.param "
             "local id, off = T('id', 'i32', {64}), T('off', 'i32', {64}) "
             "local far = T('far', 'i64', {64}) "
             "local valid, good = T('valid', 'bool', {64}), "
             "T('good', 'bool', {64}) "
             "local bias = T('bias', 'f32', {64}) "
             "local len = T('len', 'i32', {'B'}) "
             "local dense = T('dense', 'bool', {'B', 'q', 'kv'}) "
             "local map = T('map', 'bool', {8, 8}) "
             "local table2 = T('table2', 'i32', {2048, 2048}) "
             "local w, wide, c = P('w', 'i32'), P('wide', 'i64'), "
             "P('c', 'f32') "
             "return facc.attention {\n"
             "mask_mod = function(b, h, q, kv)\n%s\nend }\n",
             body);
    return text;
}

static struct program *compile_text(const char *text)
{
    struct diag d;
    diag_init(&d);
    struct program *p =
        compile_program(&alloc_libc, "t.lua", text, strlen(text), NULL, &d);
    ck_assert_msg(p != NULL, "%d: %s\n%s", d.line, d.message, text);
    return p;
}

static struct program *mask(const char *expression)
{
    static char body[1 << 14];
    snprintf(body, sizeof body, "return %s", expression);
    return compile_text(source(body));
}

/* --- facts of whole masks ------------------------------------------------- */

struct fact {
    const char *mask;
    enum mask_tier tier;
    const char *cause;
};

START_TEST(tiers_and_their_causes)
{
    static const struct fact facts[] = {
        {"true", TIER_NONE, ""},
        {"q >= kv or q < kv", TIER_NONE, ""},
        {"false", TIER_ANALYTIC, ""},
        {"q >= kv", TIER_ANALYTIC, ""},
        {"q % 7 >= kv // w", TIER_ANALYTIC, ""},
        {"kv < facc.len.kv(b)", TIER_ANALYTIC, ""},
        {"kv < len[b]", TIER_RANGED, "reads len[b]   line 3"},
        {"q >= kv and\nid[q] ==\nid[kv]", TIER_RANGED, NULL},
        {"q >= kv and\nvalid[kv]", TIER_RANGED, "reads valid[kv]   line 4"},
        {"map[q // 64][kv // 64]", TIER_RANGED, NULL},
        {"map[id[q]][id[kv]]", TIER_RANGED, NULL},
        {"dense[b][q][kv]", TIER_SCANNED,
         "reads dense[b][q][kv] by both q and kv   line 3"},
        {"valid[kv] and q >= kv and\n\ntable2[q][kv] > 4", TIER_SCANNED,
         "reads table2[q][kv] by both q and kv   line 5"},
        {"table2[q // 64][kv // 64] > 4", TIER_RANGED, NULL},
        {"table2[q - kv + w][3] > 4", TIER_RANGED, NULL},
        {"table2[q * kv][3] > 4", TIER_SCANNED, NULL},
    };
    for (size_t k = 0; k < sizeof facts / sizeof *facts; k++) {
        struct program *p = mask(facts[k].mask);
        struct arena *a = arena_new(&alloc_libc);
        struct strbuf text;
        struct diag d;
        diag_init(&d);
        strbuf_init(&text, a);
        ck_assert_msg(p->verdict.tier == facts[k].tier, "%s: %s", facts[k].mask,
                      mask_tier_name(p->verdict.tier));
        ck_assert(compile_tier_cause(p, &text, &d));
        if (facts[k].cause)
            ck_assert_str_eq(strbuf_text(&text), facts[k].cause);
        else
            ck_assert_str_ne(strbuf_text(&text), "");
        arena_free(a);
        program_free(p);
    }
}
END_TEST

START_TEST(what_reads_the_score_is_opaque_by_itself)
{
    struct program *p = compile_text("return require 'facc'.attention {\n"
                                     "score_mod = function(s, b, h, q, kv)\n"
                                     "  if q >= kv and\n"
                                     "     s > 0.5 then return s end\n"
                                     "  return -math.huge\n"
                                     "end }\n");
    const struct verdict_program *v = &p->verdict;
    ck_assert_int_eq(v->tier, TIER_OPAQUE);
    ck_assert_uint_eq(ir_node(p->graph, v->cause)->line, 4);
    ck_assert(!v->plain && !v->halve);
    const struct eval_env env = {.B = 1, .H = 1, .Hkv = 1, .Sq = 64, .Skv = 64};
    struct verdict_state *s =
        verdict_state_new(p->verdict_plan, EVAL_F32, &env);
    ck_assert_ptr_nonnull(s);
    verdict_state_head(s, 0, 0);
    ck_assert_int_eq(verdict_eval(s, 0, 15, 16, 31), VERDICT_EMPTY);
    ck_assert_int_eq(verdict_eval(s, 16, 31, 0, 15), VERDICT_PARTIAL);
    verdict_state_free(s);
    program_free(p);
}
END_TEST

static void all_are(const char *const *masks, size_t n, bool plain, bool halve)
{
    for (size_t k = 0; k < n; k++) {
        struct program *p = mask(masks[k]);
        ck_assert_msg(p->verdict.plain == plain, "plain: %s", masks[k]);
        ck_assert_msg(p->verdict.halve == halve, "halve: %s", masks[k]);
        ck_assert(!plain || p->verdict.n_summaries == 0);
        program_free(p);
    }
}

START_TEST(plain_masks)
{
    static const char *const plain[] = {"q >= kv",
                                        "q >= kv and q - kv < w",
                                        "kv < len[b] and q < facc.len.q(b)",
                                        "q >= kv and valid[h]",
                                        "b % 2 == 0",
                                        "q == kv + w",
                                        "3 * q >= 2 * kv + w",
                                        "false"};
    all_are(plain, sizeof plain / sizeof *plain, true, false);
    static const char *const more[] = {
        "q >= kv or kv < 4",
        "q >= kv and kv ~= 3",
        "kv < 256 or kv >= 1500",
        "kv <= len[b] or q >= kv",
        "id[q] == id[kv]",
        "id[q] == id[kv] and q >= kv and q - kv < 100",
        "q // 64 >= kv // 64",
        "q // 64 >= kv // 64 and q // 64 - kv // 64 < 3",
        "q >= kv and (q - kv) % 4 == 0",
        "math.abs(q - kv) <= 50 and math.abs(q - kv) % 3 == 0",
        "33554432 * q >= kv", /* too large a factor for the corners */
        "q - off[id[q]] >= kv - off[id[kv]]",
        "math.abs(q % 45 - kv % 45) <= 3 and math.abs(q // 45 - kv // 45) <= 3",
        "(q - 24) % 4 == (kv - 28) // 4 % 4",
        "id[q // 15] == kv // 16",
        "id[q // 16] >= kv // 16",
        "id[q // 16 + q] == kv // 16",
        "valid[kv] and q >= id[kv] * 16 + kv % 16"};
    all_are(more, sizeof more / sizeof *more, false, false);
}
END_TEST

START_TEST(masks_worth_halving)
{
    static const char *const masks[] = {
        "math.abs(q % 200 - kv % 200) <= 3 and q // 200 >= kv // 200",
        "valid[kv] and q >= id[kv] * 16 + kv % 16 and "
        "q - (id[kv] * 16 + kv % 16) <= 100",
        "q // 64 == kv // 64 or (q // 64 * 7 + 3) % 32 == kv // 64",
        "q >= kv and q & kv == kv",
        "not (id[q] + 3 >= id[kv] and id[q] - 3 <= id[kv])",
        "(q - kv) % 1000 == 0",
        "id[q // 16] == kv // 16", /* a list of blocks */
        "off[id[q // 16] * 4 + h] == kv // 16 or q == kv"};
    all_are(masks, sizeof masks / sizeof *masks, false, true);
}
END_TEST

START_TEST(dependencies)
{
    static const struct {
        const char *mask;
        unsigned deps;
    } facts[] = {{"q >= kv", 0},
                 {"kv < facc.len.kv(b)", IR_DEP_B},
                 {"q - kv < 32 << h", IR_DEP_H},
                 {"id[q] == id[kv] + h and b == 1", IR_DEP_B | IR_DEP_H}};
    for (size_t k = 0; k < sizeof facts / sizeof *facts; k++) {
        struct program *p = mask(facts[k].mask);
        ck_assert_uint_eq(p->verdict.deps, facts[k].deps);
        program_free(p);
    }
}
END_TEST

/* --- summaries ------------------------------------------------------------ */

static int n_of_side(const struct program *p, enum verdict_side side)
{
    int n = 0;
    for (int k = 0; k < p->verdict.n_summaries; k++)
        n += p->verdict.summary[k].side == side;
    return n;
}

/* The one summary of a side. */
static const struct verdict_summary *only(const struct program *p,
                                          enum verdict_side side)
{
    const struct verdict_summary *s = NULL;
    ck_assert_int_eq(n_of_side(p, side), 1);
    for (int k = 0; k < p->verdict.n_summaries; k++)
        if (p->verdict.summary[k].side == side)
            s = &p->verdict.summary[k];
    return s;
}

static enum ir_op op_of(const struct program *p, ir_ref r)
{
    return (enum ir_op)ir_node(p->graph, r)->op;
}

START_TEST(parts_of_one_side_are_summarised_whole)
{
    struct program *p = mask("q - off[id[q]] + w >= kv - off[id[kv]]");
    ck_assert_int_eq(op_of(p, only(p, SIDE_Q)->node), IR_LIN);
    ck_assert_int_eq(op_of(p, only(p, SIDE_KV)->node), IR_LIN);
    ck_assert_uint_eq(only(p, SIDE_Q)->guard, IR_NONE);
    program_free(p);
    p = mask("kv % 64 < id[kv // 64]"); /* the whole mask */
    ck_assert_int_eq(op_of(p, only(p, SIDE_KV)->node), IR_GE0);
    ck_assert_int_eq(p->verdict.n_slots, 1);
    program_free(p);
    p = mask("bias[q] + c > bias[kv]");
    ck_assert_int_eq(ir_node(p->graph, only(p, SIDE_Q)->node)->type, IR_FLOAT);
    ck_assert_int_eq(op_of(p, only(p, SIDE_KV)->node), IR_LOAD_F);
    program_free(p);
}
END_TEST

START_TEST(indices_stay_exact)
{
    static const char *const masks[] = {
        "q >= kv", "q >= kv or kv < 4 or q == 2 * kv + w",
        "kv < 256 or kv >= 1500", "(q < 9 or kv > w) and q ~= 3"};
    for (size_t k = 0; k < sizeof masks / sizeof *masks; k++) {
        struct program *p = mask(masks[k]);
        ck_assert_msg(p->verdict.n_summaries == 0, "%s", masks[k]);
        program_free(p);
    }
}
END_TEST

START_TEST(a_part_and_its_multiple_share_a_summary)
{
    struct program *p = mask("q >= id[kv] * 16 + kv % 16 and "
                             "2 * q < id[kv] * 32 + 2 * (kv % 16) + w");
    only(p, SIDE_KV);
    ck_assert_int_eq(n_of_side(p, SIDE_Q), 0);
    program_free(p);
}
END_TEST

/* The summary whose node is of an op; NULL: none. */
static const struct verdict_summary *summary_of(const struct program *p,
                                                enum ir_op op)
{
    for (int k = 0; k < p->verdict.n_summaries; k++)
        if (op_of(p, p->verdict.summary[k].node) == op)
            return &p->verdict.summary[k];
    return NULL;
}

START_TEST(operands_of_one_side_guard_mixed_ones)
{
    struct program *p = mask("valid[kv] and q >= kv"); /* AND: where it holds */
    const struct verdict_summary *s = summary_of(p, IR_VAR_I);
    ck_assert(s && s->side == SIDE_KV && op_of(p, s->guard) == IR_LOAD_B);
    ck_assert(summary_of(p, IR_LOAD_B)->guard == IR_NONE);
    program_free(p);
    p = mask("valid[q] or q >= kv"); /* OR: where it does not */
    s = summary_of(p, IR_VAR_I);
    ck_assert(s && s->side == SIDE_Q && op_of(p, s->guard) == IR_NOT);
    program_free(p);
    p = mask("valid[kv] and (q < 3 or good[kv] or q >= id[kv])");
    s = summary_of(p, IR_LOAD_I); /* both: valid and not good */
    ck_assert(s && op_of(p, s->guard) == IR_AND);
    ck_assert_uint_eq(ir_node(p->graph, s->guard)->n, 2);
    program_free(p);
}
END_TEST

START_TEST(affine_guards_only_where_they_tell_something)
{
    struct program *p = mask("kv >= w and q >= kv");
    ck_assert_int_eq(p->verdict.n_summaries, 0);
    program_free(p);
    p = mask("kv >= w and q >= id[kv]");
    ck_assert_int_eq(op_of(p, only(p, SIDE_KV)->guard), IR_GE0);
    program_free(p);
}
END_TEST

START_TEST(operands_of_one_side_are_joined)
{
    struct program *p =
        mask("valid[q] and good[q] and id[q] > 3 and id[kv] > 3");
    ck_assert_int_eq(op_of(p, only(p, SIDE_Q)->node), IR_AND);
    ck_assert_uint_eq(ir_node(p->graph, only(p, SIDE_Q)->node)->n, 3);
    ck_assert_int_eq(op_of(p, only(p, SIDE_KV)->node), IR_GE0);
    program_free(p);
}
END_TEST

/* Each guards the other side's numbers: AND, and OR with all negated. */
START_TEST(equalities_carry_guards)
{
    static const char *const masks[] = {
        "id[q] == id[kv] and id[q] > 3",
        "id[q] == id[kv] and id[kv] > 3",
        "id[q] ~= id[kv] or id[q] <= 3",
        "id[q] == id[kv] and (id[kv] > 3 or id[kv] < -w)",
        "q >= kv or id[q] == id[kv] and not (id[q] <= 3)",
    };
    for (size_t k = 0; k < sizeof masks / sizeof *masks; k++) {
        struct program *p = mask(masks[k]);
        int guarded[SIDES] = {0};
        for (int i = 0; i < p->verdict.n_summaries; i++) {
            const struct verdict_summary *s = &p->verdict.summary[i];
            if (op_of(p, s->node) == IR_LOAD_I && s->guard != IR_NONE)
                guarded[s->side]++;
        }
        ck_assert_msg(guarded[SIDE_Q] && guarded[SIDE_KV], "%s", masks[k]);
        program_free(p);
    }
    /* where the other side's number may be no row of a table */
    struct program *p = mask("id[q] == id[kv] and off[id[q]] > 3");
    for (int i = 0; i < p->verdict.n_summaries; i++) {
        const struct verdict_summary *s = &p->verdict.summary[i];
        ck_assert(s->side == SIDE_Q || s->guard == IR_NONE);
    }
    program_free(p);
}
END_TEST

START_TEST(records)
{
    static const struct {
        const char *mask;
        int q, kv;
    } facts[] = {{"q >= kv", 0, 0},
                 {"valid[q] and good[kv]", 2, 2},
                 {"id[q] == id[kv]", 8, 8},
                 {"far[q] >= id[kv]", 16, 8},
                 {"bias[q] > bias[kv]", 12, 12},
                 {"far[q] >= kv and valid[q]", 24, 0}};
    for (size_t k = 0; k < sizeof facts / sizeof *facts; k++) {
        struct program *p = mask(facts[k].mask);
        const struct verdict_program *v = &p->verdict;
        int q = verdict_summary_bytes(p->graph, v, SIDE_Q);
        int kv = verdict_summary_bytes(p->graph, v, SIDE_KV);
        ck_assert_msg(q == facts[k].q && kv == facts[k].kv, "%s: %d %d",
                      facts[k].mask, q, kv);
        program_free(p);
    }
}
END_TEST

/* --- what operands imply -------------------------------------------------- */

static const struct verdict_slot *root_of(const struct program *p)
{
    return &p->verdict.slot[p->verdict.root];
}

START_TEST(pairs_imply_more)
{
    static const struct {
        const char *mask;
        int implied;
    } facts[] = {{"q >= kv and q - kv < w", 1},   /* w > 0 */
                 {"q >= kv and kv >= len[b]", 1}, /* q >= len[b] */
                 {"q >= kv and kv < len[b]", 0},  /* nothing goes */
                 {"q < kv or q - kv >= w", 1},    /* … or w <= 0 */
                 {"q >= w and kv <= w", 0},       /* w is the same anyway */
                 {"q // 9 >= kv // 9 and q % 9 >= kv % 9", 1}, /* q >= kv */
                 {"kv > q and kv // 9 ~= q // 9", 1}, /* kv // 9 > q // 9 */
                 {"q >= kv or kv // 9 == q // 9", 1},
                 {"id[q] == id[kv] or id[q] == id[kv] + 1", 1}, /* 0 to 1 */
                 {"not (id[q] == id[kv] or id[q] == id[kv] + 1)", 1},
                 {"id[q] == id[kv] or id[q] == id[kv] + 2", 0},
                 /* q - kv + 7 >= 0; kv - q + 8 > 0 of what makes it false */
                 {"(q - id[kv]) // 8 >= (kv - id[kv]) // 8 and valid[kv]", 1},
                 {"(q - id[kv]) // 8 <= (kv - id[kv]) // 8 or valid[kv]", 1}};
    for (size_t k = 0; k < sizeof facts / sizeof *facts; k++) {
        struct program *p = mask(facts[k].mask);
        const struct verdict_slot *s = root_of(p);
        ck_assert_msg(s->n_implied == facts[k].implied, "%s: %d", facts[k].mask,
                      s->n_implied);
        ck_assert_int_eq(s->n - s->n_implied, 2);
        program_free(p);
    }
}
END_TEST

/* --- disjunctive forms ---------------------------------------------------- */

START_TEST(disjunctive_forms)
{
    static const struct {
        const char *mask;
        bool empty, full;
    } facts[] = {
        {"q >= kv and q - kv < w and valid[kv]", false, false},
        {"q >= kv and (q - kv < w or kv < 4)", true, false},
        {"(q < 9 and kv < 9) or q >= kv", false, true},
        {"q >= kv and (kv < 4 or (q - kv < w and id[q] == id[kv]))", true,
         true},
    };
    for (size_t k = 0; k < sizeof facts / sizeof *facts; k++) {
        struct program *p = mask(facts[k].mask);
        ck_assert_msg((p->verdict.empty_root >= 0) == facts[k].empty, "%s",
                      facts[k].mask);
        ck_assert_msg((p->verdict.full_root >= 0) == facts[k].full, "%s",
                      facts[k].mask);
        program_free(p);
    }
}
END_TEST

/* n parts "of the row and of the column" joined by `or`: 2^n conjunctions of
 * the negation. */
static struct program *parts(int n)
{
    char text[256];
    snprintf(text, sizeof text,
             "facc.any(%d, function(k) return id[(q + k) %% 64] > k %% 8 and "
             "off[(kv + k) %% 64] > 3 * k %% 8 end)",
             n);
    return mask(text);
}

START_TEST(long_forms_are_left_out)
{
    struct program *p = parts(4);
    ck_assert_int_ge(p->verdict.full_root, 0);
    program_free(p);
    p = parts(5);
    ck_assert_int_eq(p->verdict.full_root, -1);
    program_free(p);
}
END_TEST

/* --- capacities ----------------------------------------------------------- */

static double small_value(const struct data *d, const struct ir_tensor *t,
                          const int64_t *at)
{
    uint64_t what = (uint64_t)((at[0] * 64 + at[1]) * 64 + at[2]);
    int64_t n = t->dtype == DTYPE_BOOL ? 2 : 8;
    return (double)data_pick(d->seed + (uint64_t)t->name[0], what, n);
}

/* Never a claim that is not true, on 48 rows and columns. */
static long decided_soundly(const struct program *p, const char *what)
{
    static struct data d;
    struct cells c;
    struct diag diag;
    long decided = 0;
    diag_init(&diag);
    d = (struct data){.seed = 3};
    d.env = (struct eval_env){.B = 1, .H = 1, .Hkv = 1, .Sq = 48, .Skv = 48};
    data_fill(&d, p->graph, small_value);
    struct verdict_state *s =
        verdict_state_new(p->verdict_plan, EVAL_F32, &d.env);
    ck_assert(s && cells_make(&c, p->plan, EVAL_F32, &d.env, 0, 0, &diag));
    verdict_state_head(s, 0, 0);
    for (int q = 0; q < 48; q += 3)
        for (int kv = 0; kv < 48; kv++)
            for (int n = 1; n <= 16; n *= 2) {
                int q1 = q + n < 48 ? q + n : 47,
                    k1 = kv + n < 48 ? kv + n : 47;
                enum verdict v = verdict_eval(s, q, q1, kv, k1);
                ck_assert_msg(
                    !cells_contradict(v, cells_truth(&c, q, q1, kv, k1)),
                    "%s: rows %d..%d columns %d..%d", what, q, q1, kv, k1);
                decided += v != VERDICT_PARTIAL;
            }
    cells_free(&c);
    verdict_state_free(s);
    data_free(&d);
    return decided;
}

static int n_of_kind(const struct program *p, enum slot_kind kind)
{
    int n = 0;
    for (int k = 0; k < p->verdict.n_slots; k++)
        n += p->verdict.slot[k].kind == kind;
    return n;
}

START_TEST(too_many_summaries_end_in_unknown)
{
    struct program *p = parts(20);
    ck_assert_int_eq(n_of_kind(p, SLOT_ANY), 0);
    program_free(p);
    p = parts(40);
    ck_assert_int_gt(n_of_kind(p, SLOT_ANY), 0);
    ck_assert_int_lt(p->verdict.n_summaries, 60);
    ck_assert_int_gt(decided_soundly(p, "40 parts"), 10);
    program_free(p);
}
END_TEST

START_TEST(too_many_slots_end_in_unknown)
{
    static const char body[] =
        "local r = q + kv\n"
        "for k = 1, 200 do r = (r * 3 + kv) % (60 + k) + (q ~ k) end\n"
        "return q >= kv and r > 10";
    struct program *p = compile_text(source(body));
    ck_assert_int_gt(n_of_kind(p, SLOT_ANY), 0);
    ck_assert_int_lt(p->verdict.n_slots, 1000);
    ck_assert_int_gt(decided_soundly(p, "200 steps"), 100);
    program_free(p);
}
END_TEST

START_TEST(loads_out_of_reach_are_unknown)
{
    struct program *p = mask("q >= kv and dense[b][q][kv]");
    ck_assert_int_eq(n_of_kind(p, SLOT_ANY), 1);
    ck_assert_int_eq(n_of_kind(p, SLOT_LOAD), 0);
    program_free(p);
    p = mask("map[q // 64][kv // 64]");
    ck_assert_int_eq(n_of_kind(p, SLOT_ANY), 0);
    ck_assert_int_eq(n_of_kind(p, SLOT_LOAD), 1);
    program_free(p);
}
END_TEST

/* Guards nested in guards, on data where they often pass nowhere. */
START_TEST(nested_guards_are_sound)
{
    static const char *const masks[] = {
        "valid[kv] and (q < 3 or good[kv] or q >= id[kv])",
        "valid[q] and (good[kv] or (valid[kv] and (id[q] == id[kv] or "
        "(good[q] and q - id[q] >= kv - id[kv]))))",
        "not (valid[q] and (good[kv] or (id[kv] > 4 and q % 7 < kv % 5)))",
        "(valid[q] or q >= kv) and (good[kv] or off[q] > off[kv])",
        "id[q] ~= id[kv] and (valid[q] and kv > q or good[kv] and kv // 5 ~= "
        "q // 5)",
        "q // 9 >= kv // 9 and q % 9 >= kv % 9 and (kv > 20 or valid[q])"};
    for (size_t k = 0; k < sizeof masks / sizeof *masks; k++) {
        struct program *p = mask(masks[k]);
        ck_assert_int_gt(decided_soundly(p, masks[k]), 100);
        program_free(p);
    }
}
END_TEST

/* --- order ---------------------------------------------------------------- */

static uint64_t hash_of(const struct program *p, ir_ref r)
{
    return r ? ir_node(p->graph, r)->hash : 0;
}

static void assert_same(const struct program *a, const struct program *b)
{
    const struct verdict_program *x = &a->verdict, *y = &b->verdict;
    ck_assert_int_eq(x->n_slots, y->n_slots);
    ck_assert_int_eq(x->n_summaries, y->n_summaries);
    ck_assert(x->root == y->root && x->empty_root == y->empty_root &&
              x->full_root == y->full_root);
    ck_assert_uint_eq(hash_of(a, x->cause), hash_of(b, y->cause));
    for (int k = 0; k < x->n_summaries; k++) {
        const struct verdict_summary *s = &x->summary[k], *t = &y->summary[k];
        ck_assert(s->side == t->side &&
                  hash_of(a, s->node) == hash_of(b, t->node) &&
                  hash_of(a, s->guard) == hash_of(b, t->guard));
    }
    for (int k = 0; k < x->n_slots; k++) {
        const struct verdict_slot *s = &x->slot[k], *t = &y->slot[k];
        ck_assert(s->kind == t->kind && s->op == t->op && s->type == t->type &&
                  s->summary == t->summary && s->c == t->c && s->n == t->n &&
                  s->n_implied == t->n_implied &&
                  hash_of(a, s->node) == hash_of(b, t->node));
        for (int j = 0; j < s->n; j++)
            ck_assert(x->arg[s->first + j] == y->arg[t->first + j] &&
                      x->coef[s->first + j] == y->coef[t->first + j]);
    }
}

START_TEST(spelling_does_not_matter)
{
    struct program *p = mask("valid[kv] and (q - kv < w or kv < 4) and q >= kv"
                             " and id[q] == id[kv]");
    struct program *r = mask("id[kv] == id[q] and not (q < kv) and "
                             "(4 > kv or kv > q - w) and valid[kv]");
    ck_assert_int_gt(p->verdict.n_summaries, 2);
    ck_assert_int_ge(p->verdict.empty_root, 0);
    assert_same(p, r);
    program_free(p);
    program_free(r);
}
END_TEST

START_TEST(operands_come_first)
{
    struct program *p = parts(4);
    const struct verdict_program *v = &p->verdict;
    for (int k = 0; k < v->n_slots; k++)
        for (int j = 0; j < v->slot[k].n; j++)
            ck_assert_int_lt(v->arg[v->slot[k].first + j], k);
    ck_assert(v->root < v->n_slots && v->full_root < v->n_slots);
    program_free(p);
}
END_TEST

/* --- memory --------------------------------------------------------------- */

static bool make_something(struct fixture *f)
{
    struct verdict_program v;
    ir_ref a = load1(f, T_INT, f->q), c = load1(f, T_INT, f->kv);
    ir_ref guard = load1(f, T_BOOL, f->kv);
    ir_ref doc = and2(f, eq(f, a, c), ge(f, f->q, f->kv));
    ir_ref near =
        and2(f, lt(f, sub(f, f->q, f->kv), num(f, 9)), ge(f, f->kv, num(f, 3)));
    ir_ref keep = or2(f, and2(f, guard, doc), near);
    return keep != IR_NONE && pass_verdict(f->g, keep, &v);
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(make_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {tiers_and_their_causes,
                                  what_reads_the_score_is_opaque_by_itself,
                                  plain_masks,
                                  masks_worth_halving,
                                  dependencies,
                                  parts_of_one_side_are_summarised_whole,
                                  indices_stay_exact,
                                  a_part_and_its_multiple_share_a_summary,
                                  operands_of_one_side_guard_mixed_ones,
                                  affine_guards_only_where_they_tell_something,
                                  operands_of_one_side_are_joined,
                                  equalities_carry_guards,
                                  records,
                                  pairs_imply_more,
                                  disjunctive_forms,
                                  long_forms_are_left_out,
                                  too_many_summaries_end_in_unknown,
                                  too_many_slots_end_in_unknown,
                                  loads_out_of_reach_are_unknown,
                                  nested_guards_are_sound,
                                  spelling_does_not_matter,
                                  operands_come_first,
                                  every_allocation_may_fail};
    return run_tests("verdict pass", tests, sizeof tests / sizeof *tests);
}

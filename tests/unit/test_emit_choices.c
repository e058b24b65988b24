/* What the emitter decides of a program for all its launches: kReverse,
 * kHasOffset and kHasNarrow, of single mods and of the list of
 * tests/conformance. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/conformance/list.h"
#include "tests/unit/suite.h"

/* The variant of a program's text, in an arena. */
static const char *variant(struct arena *a, const char *label, const char *text)
{
    struct unit_config config = {
        .family = "sm90", .dtype = DTYPE_BF16, .out_dtype = DTYPE_BF16};
    struct strbuf out;
    struct diag d;
    diag_init(&d);
    strbuf_init(&out, a);
    struct program *p =
        compile_program(&alloc_libc, "mod.lua", text, strlen(text), NULL, &d);
    ck_assert_msg(p, "%s: %s", label, d.message);
    p->graph->diag = &d;
    config.plane_bytes = p->plane.bytes;
    ck_assert(emit_variant(p->graph, &p->roots, &p->verdict, &config, &out));
    program_free(p);
    return strbuf_text(&out);
}

static bool flag(const char *text, const char *name)
{
    char line[64];
    snprintf(line, sizeof line, "%s = true;", name);
    return strstr(text, line) != NULL;
}

/* --- single mods --------------------------------------------------------- */

static const char *variant_of_body(struct arena *a, const char *body)
{
    char text[1024];
    snprintf(text, sizeof text,
             "local facc = require 'facc'\n"
             "local slopes = facc.tensor('slopes', 'f32', { 'H' })\n"
             "local row = facc.tensor('row', 'f32', { 'kv' })\n"
             "local near = facc.tensor('near', 'f32', { 1000 })\n"
             "local dense = facc.tensor('dense', 'f32', { 'q', 'kv' })\n"
             "local half = facc.tensor('half', 'f16', { 'H', 'q', 'kv' })\n"
             "local bytes = facc.tensor('bytes', 'e4m3', { 'q', 'kv' })\n"
             "local x = facc.param('x', 'f32')\n"
             "return facc.attention { %s }\n",
             body);
    return variant(a, body, text);
}

#define CAUSAL ", mask_mod = 'q >= kv'"

static const struct {
    const char *body;
    bool reverse, offset;
} mods[] = {
    {"mask_mod = 'q >= kv'", true, false},
    {"mask_mod = 'kv >= q'", false, false},
    {"score_mod = 'score'", false, false},
    /* the bias decides before the mask */
    {"score_mod = 'score + (q - kv)'" CAUSAL, false, true},
    {"score_mod = 'score + 2 * score * slopes[h] + (q - kv)'" CAUSAL, true,
     false},
    {"score_mod = 'score + slopes[h] * (kv - q)'" CAUSAL, true, true},
    {"score_mod = 'score + slopes[h] * (kv - q)'", true, true},
    {"score_mod = 'score + slopes[h] * (q - kv)'" CAUSAL, false, true},
    {"score_mod = 'score + -slopes[h] * (q - kv)'" CAUSAL, true, true},
    {"score_mod = 'score - slopes[h] * (q - kv)'" CAUSAL, true, true},
    {"score_mod = 'score - slopes[h] * (kv - q)'" CAUSAL, false, true},
    {"score_mod = 'score + -0.5 * slopes[h] * (kv - q)'" CAUSAL, false, true},
    {"score_mod = 'score + (kv - q) / -x'" CAUSAL, false, false},
    {"score_mod = '2 * score + x * (kv - q)'" CAUSAL, true, true},
    {"score_mod = 'score + row[q] * (kv - q)'" CAUSAL, true, true},
    {"score_mod = '(score + slopes[h] * (kv - q)) * 2'", true, true},
    {"score_mod = '(score + slopes[h] * (kv - q)) / x'", true, true},
    {"score_mod = 'score + slopes[h] * (kv - q) * x'", true, true},
    {"score_mod = 'score - x * (slopes[h] * (q - kv)) / 3'", true, true},
    /* terms beside it */
    {"score_mod = 'score + (q - kv) + slopes[h]'" CAUSAL, false, true},
    {"score_mod = 'score + (q - kv) + row[q]'" CAUSAL, false, true},
    {"score_mod = 'score + (q - kv) + dense[q][kv]'" CAUSAL, true, true},
    {"score_mod = 'score + (kv - q) + dense[q][kv]'" CAUSAL, true, true},
    {"score_mod = 'score + (kv - q) * x + (2 * q - kv) * slopes[h]'", false,
     true},
    {"score_mod = 'score + dense[q][kv] * (q - kv)'" CAUSAL, true, false},
    /* other biases, and scores that are not affine */
    {"score_mod = 'score + slopes[h]'" CAUSAL, true, true},
    {"score_mod = 'score + row[q] - row[kv]'" CAUSAL, true, true},
    {"score_mod = 'score - (row[q] + x) / 2'", false, true},
    {"score_mod = 'score + row[kv] * row[q]'", false, false},
    {"score_mod = 'score + row[q] * (score + row[q])'", false, false},
    {"score_mod = 'score + row[kv]'", false, false},
    {"score_mod = 'score + slopes[h] * abs(kv - q)'", false, false},
    /* tables of q - kv: one number each far from the diagonal, or not */
    {"score_mod = 'score + near[clamp(q - kv, 0, 90)]'" CAUSAL, true, true},
    {"score_mod = 'score + near[clamp(q - kv, -9, 90)] - slopes[h]'", false,
     true},
    {"score_mod = 'score - near[min(abs(q - kv), 60)] * x'", false, true},
    {"score_mod = 'score + near[min(abs(q - kv), 90)]'", false, false},
    {"score_mod = 'score + near[clamp(q - kv, 0, 900)]'" CAUSAL, true, false},
    {"score_mod = 'score + near[q - kv]'" CAUSAL, true, false},
    {"score_mod = 'score + near[clamp(q - kv, 0, 90)] + row[kv]'" CAUSAL, true,
     false},
    {"score_mod = 'score + near[clamp(q - kv, 0, 90)] * row[q]'" CAUSAL, true,
     false},
    {"score_mod = 'score * near[clamp(q - kv, 0, 90)]'" CAUSAL, true, false},
    {"score_mod = 'tanh(score + near[clamp(q - kv, 0, 90)])'" CAUSAL, true,
     false},
    {"score_mod = 'score + near[clamp(q - kv, 0, 90)]', "
     "mask_mod = 'q >= kv and q - kv < 512'",
     true, false},
    {"score_mod = '20 * tanh((score + (kv - q)) / 20)'", true, false},
    {"score_mod = 'q > 3 and score + (kv - q) or score'", false, false},
};

START_TEST(order_and_offset_of_single_mods)
{
    struct arena *a = arena_new(&alloc_libc);
    for (size_t k = 0; k < sizeof mods / sizeof *mods; k++) {
        const char *got = variant_of_body(a, mods[k].body);
        ck_assert_msg(flag(got, "kReverse") == mods[k].reverse &&
                          flag(got, "kHasOffset") == mods[k].offset,
                      "%s: not as wanted:\n%.2500s", mods[k].body, got);
    }
    arena_free(a);
}
END_TEST

/* tanh_fast of a multiple of the score, times a factor; no other. */
static const struct {
    const char *score;
    bool narrow;
} caps[] = {
    {"20 * tanh_fast(score / 20)", true},
    {"x * tanh_fast(score / x)", true},
    {"slopes[h] * tanh_fast(-score * x)", true},
    {"-(tanh_fast(score))", false},
    {"20 * tanh(score / 20)", false},
    {"20 * tanh_fast((score + 1) / 20)", false},
    {"20 * tanh_fast(score / 20 + slopes[h])", false},
    {"20 * tanh_fast(score * row[q])", false},
    {"row[q] * tanh_fast(score)", false},
    {"20 * tanh_fast(score / 20) + slopes[h] * (kv - q)", false},
    {"20 * tanh_fast(score * score)", false},
    {"2 * score", false},
};

START_TEST(cheap_form_of_single_mods)
{
    struct arena *a = arena_new(&alloc_libc);
    char body[256];
    for (size_t k = 0; k < sizeof caps / sizeof *caps; k++) {
        snprintf(body, sizeof body, "score_mod = '%s'", caps[k].score);
        const char *got = variant_of_body(a, body);
        ck_assert_msg(flag(got, "kHasNarrow") == caps[k].narrow,
                      "%s: the other one wanted:\n%s", caps[k].score, got);
    }
    arena_free(a);
}
END_TEST

START_TEST(scales_of_single_mods)
{
    struct arena *a = arena_new(&alloc_libc);
    /* the scale joins a row's factor, with log2(e) or without it */
    ck_assert_ptr_nonnull(
        strstr(variant_of_body(a, "score_mod = 'score * row[q] + slopes[h]'"),
               "(s * r."));
    ck_assert_ptr_nonnull(
        strstr(variant_of_body(a, "score_mod = 'tanh(row[kv] * score) * 80'"),
               "(s * k."));
    /* the scale joins log2(e) in a score that is chosen */
    const char *got =
        variant_of_body(a, "score_mod = 'q > 3 and score or score + x'");
    ck_assert_msg(!strstr(got, "* kLog2e) *") && !strstr(got, ") * kLog2e"),
                  "%.2500s", got);
    arena_free(a);
}
END_TEST

/* A captured tensor whose tiles are copied, and whether minus the reference
 * joins it. */
static const struct {
    const char *score;
    const char *first; /* NULL: none */
    bool offset;
} planes[] = {
    {"score + dense[q][kv]", "0", true},
    {"score * x + dense[q + 2][kv + 8] * slopes[h]", "8", true},
    {"score - half[h][q // 1][kv] / 3", "0", true},
    {"score + half[q][h][kv + h]", "t.t2", true},
    {"score + half[h][q + h - 3][kv + 1]", "1", true},
    {"score + half[h][2 * q - h][kv]", NULL, false},
    {"score + dense[q][kv] + slopes[h] * (kv - q)", "0", true},
    {"score + dense[q][kv] * row[kv]", "0", true},
    {"20 * tanh((score + dense[q][kv]) / 20)", "0", false},
    {"max(score, dense[q][kv])", "0", false},
    {"score * dense[q][kv]", "0", false},
    {"score + dense[kv][q]", NULL, false},
    {"score + dense[q][2 * kv]", NULL, false},
    {"score + dense[q][kv - q + 9]", NULL, false},
    {"score + dense[kv][kv]", NULL, false},
    {"score + dense[3][kv]", NULL, false},
    {"score + half[q // 2][q][kv]", NULL, false},
    {"score + bytes[q][kv]", NULL, false},
    {"score + row[kv]", NULL, false},
};

START_TEST(copied_tensors_of_single_mods)
{
    struct arena *a = arena_new(&alloc_libc);
    char body[256], first[64];
    for (size_t k = 0; k < sizeof planes / sizeof *planes; k++) {
        snprintf(body, sizeof body, "score_mod = '%s'", planes[k].score);
        const char *got = variant_of_body(a, body);
        snprintf(first, sizeof first, "const Tile &t) { return %s; }",
                 planes[k].first ? planes[k].first : "");
        const bool has = strstr(got, "plane_score") != NULL;
        ck_assert_msg(has == (planes[k].first != NULL) &&
                          (!has || (strstr(got, first) &&
                                    flag(got, "constexpr bool kOffset") ==
                                        planes[k].offset)),
                      "%s: not as wanted", planes[k].score);
    }
    arena_free(a);
}
END_TEST

/* --- the list of known mods ---------------------------------------------- */

START_TEST(biases_of_the_list_have_an_offset)
{
    static const char with[] =
        " S06 S09 S10 S11 alibi alibi_formula score_and_mask "
        "expression_alibi "
        /* of rows and tiles */
        "S14 S15 S16 S17 S18 S25row S26 S27 S28 S28partial S28scalar S29 S31 "
        "S31gain S32 S32sizes S32dims S45 S55row S55both S57 nan_rows dots "
        "bits ";
    static struct list_row rows[LIST_MOST];
    const int n_rows = list_rows(rows);
    char word[40];
    int n = 0;
    for (int k = 0; k < n_rows && strcmp(rows[k].file, "scores") == 0; k++) {
        struct arena *a = arena_new(&alloc_libc);
        snprintf(word, sizeof word, " %s ", rows[k].name);
        ck_assert_msg(flag(variant(a, rows[k].name, list_text(&rows[k])),
                           "kHasOffset") == (strstr(with, word) != NULL),
                      "%s: the other one wanted", rows[k].name);
        arena_free(a);
        n++;
    }
    ck_assert_int_ge(n, 90);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emit_choices");
    TCase *t = tcase_create("choices");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, order_and_offset_of_single_mods);
    tcase_add_test(t, cheap_form_of_single_mods);
    tcase_add_test(t, copied_tensors_of_single_mods);
    tcase_add_test(t, scales_of_single_mods);
    tcase_add_test(t, biases_of_the_list_have_an_offset);
    suite_add_tcase(s, t);
    return suite_run(s);
}

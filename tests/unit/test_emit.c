/* Generated variants against the evaluator: the text of many mods is compiled
 * as C++ for the CPU and run on cells, tiles and padding. Catches the
 * emitter's mistakes without a GPU. */
#include <math.h>

#include "tests/fuzz/modgen.h"
#include "tests/unit/emit_build.h"
#include "tests/unit/emit_mods.h"
#include "tests/unit/suite.h"

enum {
    N_MODS = sizeof emit_mods / sizeof *emit_mods,
    N_BAD = sizeof bad_mods / sizeof *bad_mods,
    N_RANDOM = 40
};
enum { B = 2, H = 4, HKV = 2, SQ = 37, SKV = 53, RUN = 16 };
static const float scale = 0.3f;
static const float log2e = 1.44269504f;

static const char prologue[] =
    "local facc = require 'facc'\n"
    "local n = facc.param('n', 'i32')\n"
    "local big = facc.param('big', 'i32')\n"
    "local wide = facc.param('wide', 'i64')\n"
    "local x = facc.param('x', 'f32')\n"
    "local doc = facc.tensor('doc', 'i32', {'kv'})\n"
    "local i8 = facc.tensor('i8', 'i8', {'kv'})\n"
    "local i16 = facc.tensor('i16', 'i16', {'kv'})\n"
    "local u8 = facc.tensor('u8', 'u8', {'kv'})\n"
    "local i64 = facc.tensor('i64', 'i64', {'kv'})\n"
    "local far = facc.tensor('far', 'i64', {'kv'})\n"
    "local bits = facc.tensor('bits', 'bool', {'kv'})\n"
    "local flag = facc.tensor('flag', 'bool', {'H'})\n"
    "local f32 = facc.tensor('f32', 'f32', {'kv'})\n"
    "local f16 = facc.tensor('f16', 'f16', {'kv'})\n"
    "local bf = facc.tensor('bf', 'bf16', {'kv'})\n"
    "local e4 = facc.tensor('e4', 'e4m3', {'kv'})\n"
    "local e5 = facc.tensor('e5', 'e5m2', {'kv'})\n"
    "local hs = facc.tensor('hs', 'f32', {'H'})\n"
    "local scalar = facc.tensor('scalar', 'f32', {})\n"
    "local table1 = facc.tensor('table1', 'i32', {4})\n"
    "local table2 = facc.tensor('table2', 'bool', {4, 4})\n"
    "local rel = facc.tensor('rel', 'f32', {9, 'H'})\n"
    "local dense = facc.tensor('dense', 'f32', {'q', 'kv'})\n"
    "local rows = facc.tensor('rows', 'f16', {'H', 'q', 6})\n"
    "local cols = facc.tensor('cols', 'e4m3', {'kv', 6})\n"
    "local hbias = facc.tensor('hbias', 'f16', {'H', 'q', 'kv'})\n";

/* --- a mod and its data -------------------------------------------------- */

struct mod {
    struct program *program;
    bool is_random;       /* of modgen */
    int n_near, n_far;    /* runs of moved cells, where that matters */
    unsigned char *bytes; /* kernel arguments */
    struct eval_env env;
    struct eval_tensor *tensor;
    union eval_value *param;
    void **data;
};

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Values of a random program's ints: 0 … below - 1; 0 for other programs. */
static int64_t modgen_below(const char *name)
{
    for (int k = 0; k < modgen_n_tensors; k++)
        if (strcmp(modgen_tensors[k].name, name) == 0)
            return modgen_tensors[k].below;
    return 0;
}

static double element(const struct ir_tensor *decl, int64_t below,
                      uint32_t *state)
{
    static const double far[] = {-0x1p63, 0x1p63, -0x1p61, 0x1p60};
    const enum dtype t = decl->dtype;
    const uint32_t v = next(state);
    if (strcmp(decl->name, "far") == 0) /* beyond what an i64 counts as */
        return v % 8 < 4 ? far[v % 4] : (double)(v % 61) - 30;
    if (below && !dtype_is_float(t))
        return (double)(v % below);
    if (dtype_is_float(t))
        return (double)v / 8388608.0 - 1.0;
    if (t == DTYPE_BOOL)
        return v & 1;
    return t == DTYPE_I8 || t == DTYPE_I16 ? (double)(v % 9) - 4 : v % 4;
}

static int64_t extent(const struct ir_dim *d)
{
    static const int64_t sizes[] = {0, B, H, HKV, SQ, SKV};
    return d->kind == IR_DIM_FIXED ? d->extent : sizes[d->kind];
}

/* Transposed strides with a gap, so that no order is taken for granted. */
static void make_tensor(struct mod *m, int k, uint32_t *state)
{
    const struct ir_tensor *t = &m->program->graph->tensors[k];
    struct eval_tensor *out = &m->tensor[k];
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) {
        out->shape[d] = extent(&t->dim[d]);
        out->stride[d] = n;
        n *= out->shape[d] + 1;
    }
    const size_t size = dtype_size(t->dtype);
    unsigned char *data = calloc((size_t)n, size);
    ck_assert_ptr_nonnull(data);
    for (int64_t i = 0; i < n; i++)
        dtype_store(
            t->dtype, data + (size_t)i * size,
            element(t, m->is_random ? modgen_below(t->name) : 0, state));
    m->data[k] = data;
    out->data = data;
}

static const int32_t len_q[B] = {SQ, 20}, len_kv[B] = {SKV, 31};

static void make_params(struct mod *m)
{
    static const int64_t ints[] = {6, INT32_MAX - 3, INT64_C(1) << 40};
    for (int k = 0; k < m->program->graph->n_params; k++) {
        if (m->program->graph->params[k].dtype == DTYPE_F32)
            m->param[k].f = 1.75;
        else
            m->param[k].i = m->is_random ? 7 + 3 * k : ints[k % 3];
    }
}

static void mod_open_text(struct mod *m, const char *text, uint32_t seed)
{
    struct diag d;
    diag_init(&d);
    m->program =
        compile_program(&alloc_libc, "test.lua", text, strlen(text), NULL, &d);
    ck_assert_msg(m->program, "%s: line %d: %s", text, d.line, d.message);
    const struct ir_graph *g = m->program->graph;
    m->tensor = calloc((size_t)g->n_tensors + 1, sizeof *m->tensor);
    m->data = calloc((size_t)g->n_tensors + 1, sizeof *m->data);
    m->param = calloc((size_t)g->n_params + 1, sizeof *m->param);
    ck_assert(m->tensor && m->data && m->param);
    for (int k = 0; k < g->n_tensors; k++)
        make_tensor(m, k, &seed);
    make_params(m);
    m->env = (struct eval_env){.B = B,
                               .H = H,
                               .Hkv = HKV,
                               .Sq = SQ,
                               .Skv = SKV,
                               .len_q = len_q,
                               .len_kv = len_kv,
                               .tensors = m->tensor,
                               .params = m->param};
    m->bytes = emit_args(g, &m->env, scale);
}

static void mod_open(struct mod *m, const char *body, uint32_t seed)
{
    char text[8192];
    snprintf(text, sizeof text, "%sreturn facc.attention { %s }\n", prologue,
             body);
    mod_open_text(m, text, seed);
}

static void mod_close(struct mod *m)
{
    for (int k = 0; k < m->program->graph->n_tensors; k++)
        free(m->data[k]);
    free(m->tensor);
    free(m->data);
    free(m->param);
    free(m->bytes);
    program_free(m->program);
}

static void *build(struct mod *mods, int n, bool checked)
{
    struct program *p[N_MODS + N_BAD + N_RANDOM];
    for (int k = 0; k < n; k++)
        p[k] = mods[k].program;
    return emit_build(p, n, checked, "-O0");
}

/* --- comparison ---------------------------------------------------------- */

typedef void cells_fn(const void *args, int b, int h, int q, int kv0, int n,
                      const float *s, float *score, unsigned char *keep);
typedef int moved_fn(const void *args, int b, int h, int q, int kv0, int n,
                     const float *s, float by, float *score);
typedef void tile_fn(const void *args, int b, int h, int q_first, int q_last,
                     int kv_first, int kv_last, int *out);

static bool is_close(float got, float want)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabsf(got - want) <= 1e-5f * (fabsf(want) + 20);
}

/* Row q's kept cells of (b, h) by the evaluator and by the variant. */
static void compare_row(struct mod *m, struct eval_state *state,
                        cells_fn *cells, int b, int h, int q, uint8_t *kept,
                        const char *body)
{
    struct diag d;
    uint32_t seed = (uint32_t)(q + 1000 * h + 10000 * b);
    diag_init(&d);
    for (int kv0 = 0; kv0 < SKV; kv0 += RUN) {
        const int n = SKV - kv0 < RUN ? SKV - kv0 : RUN;
        float raw[RUN], want[RUN], got[RUN];
        uint8_t keep[RUN], got_keep[RUN];
        for (int c = 0; c < RUN; c++) {
            raw[c] = (float)next(&seed) / 1048576.0f - 8.0f;
            want[c] = raw[c] * scale;
        }
        ck_assert(eval_tile(state, b, h, kv0, n, &d));
        ck_assert_msg(eval_row(state, q, want, keep, &d), "%s: %s", body,
                      d.message);
        /* RUN, not n: columns beyond the end are padding */
        cells(m->bytes, b, h, q, kv0, RUN, raw, got, got_keep);
        for (int c = 0; c < n; c++) {
            if (keep[c] != got_keep[c])
                ck_abort_msg("%s: b %d h %d q %d kv %d: keep is %d, want %d",
                             body, b, h, q, kv0 + c, got_keep[c], keep[c]);
            if (keep[c] && !is_close(got[c] / log2e, want[c]))
                ck_abort_msg("%s: b %d h %d q %d kv %d: score is %g, want %g",
                             body, b, h, q, kv0 + c, (double)(got[c] / log2e),
                             (double)want[c]);
        }
        memcpy(kept + kv0, keep, (size_t)n);
    }
}

static bool all_nan(const float *x)
{
    for (int c = 0; c < RUN; c++)
        if (!isnan(x[c]))
            return false;
    return true;
}

/* Scores of a moved base are more by that, up to a rounding of Base's value,
 * which may be larger than the score; or all NaN near the diagonal. False: the
 * variant has none. */
static bool check_moved(struct mod *m, cells_fn *cells, moved_fn *moved, int b,
                        int h, int q, const char *body)
{
    static const float some[] = {-200.25f, 0.0f, 1.0f, 37.7f};
    uint32_t seed = (uint32_t)(q + 1000 * h);
    for (int kv0 = 0; kv0 < SKV; kv0 += RUN) {
        float raw[RUN], plain[RUN], got[RUN];
        unsigned char keep[RUN];
        for (int c = 0; c < RUN; c++)
            raw[c] = (float)next(&seed) / 1048576.0f - 8.0f;
        cells(m->bytes, b, h, q, kv0, RUN, raw, plain, keep);
        for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
            const int how =
                moved(m->bytes, b, h, q, kv0, RUN, raw, some[k], got);
            if (how == 0)
                return false;
            if (how == 2 && all_nan(got)) {
                m->n_near++;
                continue;
            }
            m->n_far += how == 2;
            for (int c = 0; c < RUN; c++) {
                const float want = plain[c] + some[k];
                if (!(fabsf(got[c] - want) <= 5e-7f * (fabsf(want) + 600)))
                    ck_abort_msg("%s: b %d h %d q %d kv %d: score is %g, want "
                                 "%g with %g more",
                                 body, b, h, q, kv0 + c, (double)got[c],
                                 (double)want, (double)some[k]);
            }
        }
    }
    return true;
}

/* kv_range and verdict must hold for every cell of the tile. */
static void check_tile(struct mod *m, tile_fn *tile, int b, int h, int q0,
                       int q1, int kv0, int kv1, const uint8_t *kept,
                       const char *body)
{
    int out[3];
    bool some = false, all = true;
    tile(m->bytes, b, h, q0, q1, kv0, kv1, out);
    for (int q = q0; q <= q1; q++) {
        for (int kv = 0; kv < SKV; kv++) {
            const bool k = kept[q * SKV + kv];
            if (k && (kv < out[0] || kv >= out[1]))
                ck_abort_msg("%s: kept (%d, %d) outside range %d..%d", body, q,
                             kv, out[0], out[1]);
            if (kv >= kv0 && kv <= kv1) {
                some |= k;
                all &= k;
            }
        }
    }
    if (out[2] < 1 || out[2] > 3 || (out[2] == 1 && some) ||
        (out[2] == 2 && !all))
        ck_abort_msg("%s: verdict %d of rows %d..%d, columns %d..%d, but %s",
                     body, out[2], q0, q1, kv0, kv1,
                     all    ? "all count"
                     : some ? "some count"
                            : "none counts");
}

static void check_tiles(struct mod *m, tile_fn *tile, int b, int h,
                        const uint8_t *kept, const char *body)
{
    for (int q0 = 0; q0 < SQ; q0 += 5)
        for (int kv0 = 0; kv0 < SKV; kv0 += 6)
            for (int size = 1; size <= 16; size *= 4)
                check_tile(m, tile, b, h, q0,
                           q0 + size < SQ ? q0 + size - 1 : SQ - 1, kv0,
                           kv0 + size < SKV ? kv0 + size - 1 : SKV - 1, kept,
                           body);
}

/* Whether the variant's base moves. */
static bool check_mod(struct mod *m, void *so, int k, const char *body)
{
    bool moves = true;
    cells_fn *cells;
    moved_fn *moved;
    tile_fn *tile;
    *(void **)&cells = emit_function(so, "cells_%d", k);
    *(void **)&moved = emit_function(so, "moved_%d", k);
    *(void **)&tile = emit_function(so, "tile_%d", k);
    struct eval_state *state =
        eval_state_new(m->program->plan, EVAL_F32, RUN, &m->env);
    ck_assert_ptr_nonnull(state);
    for (int b = 0; b < B; b++) {
        for (int h = 0; h < H; h++) {
            uint8_t kept[SQ * SKV];
            for (int q = 0; q < SQ; q++) {
                compare_row(m, state, cells, b, h, q, kept + q * SKV, body);
                moves = moves && check_moved(m, cells, moved, b, h, q, body);
            }
            check_tiles(m, tile, b, h, kept, body);
            float s[RUN] = {0}, score[RUN];
            unsigned char keep[RUN]; /* padding rows: no bad read */
            cells(m->bytes, b, h, SQ + 90, SKV + 100, RUN, s, score, keep);
            moves = moves && check_moved(m, cells, moved, b, h, SQ + 90, body);
        }
    }
    eval_state_free(state);
    return moves;
}

/* One cell by both: an error there, a report here. Was it one? */
static bool compare_report(struct mod *m, struct eval_state *state,
                           cells_fn *cells, int h, int q, int kv,
                           const char *body)
{
    struct facc_kernel_header *args = (struct facc_kernel_header *)m->bytes;
    int report[4] = {0};
    float raw = 1, want = scale, got;
    uint8_t keep, got_keep;
    struct diag d;
    diag_init(&d);
    args->bounds_report = report;
    cells(m->bytes, 0, h, q, kv, 1, &raw, &got, &got_keep);
    const bool bad = !eval_tile(state, 0, h, kv, 1, &d) ||
                     !eval_row(state, q, &want, &keep, &d);
    if (bad) {
        const int tensor = report[0] - 1;
        if (tensor < 0 || report[1] != d.line ||
            !strstr(d.message, m->program->graph->tensors[tensor].name))
            ck_abort_msg("%s: h %d q %d kv %d: line %d: %s, but report is %d "
                         "%d %d %d",
                         body, h, q, kv, d.line, d.message, report[0],
                         report[1], report[2], report[3]);
    } else if (report[0]) {
        ck_abort_msg("%s: h %d q %d kv %d: report of tensor %d, line %d, "
                     "index %d",
                     body, h, q, kv, report[0] - 1, report[1], report[2]);
    }
    return bad;
}

/* How many bad reads there were. */
static int check_reports(struct mod *m, void *so, int k, const char *body)
{
    cells_fn *cells;
    *(void **)&cells = emit_function(so, "cells_%d", k);
    struct eval_state *state =
        eval_state_new(m->program->plan, EVAL_F32, 1, &m->env);
    ck_assert_ptr_nonnull(state);
    int n_bad = 0;
    for (int h = 0; h < H; h++)
        for (int q = 0; q < SQ; q++)
            for (int kv = 0; kv < SKV; kv++)
                n_bad += compare_report(m, state, cells, h, q, kv, body);
    eval_state_free(state);
    return n_bad;
}

/* As the evaluator, which is tested on its own. */
START_TEST(checked_variants_report_bad_reads)
{
    if (emit_no_compiler())
        return;
    static struct mod mods[N_BAD];
    for (int k = 0; k < N_BAD; k++)
        mod_open(&mods[k], bad_mods[k], (uint32_t)k + 1);
    void *so = build(mods, N_BAD, true);
    int n_with = 0;
    for (int k = 0; k < N_BAD; k++) {
        n_with += check_reports(&mods[k], so, k, bad_mods[k]) > 0;
        mod_close(&mods[k]);
    }
    dlclose(so);
    ck_assert_int_eq(n_with, N_BAD - 1); /* one guards all its reads */
}
END_TEST

START_TEST(random_variants_compute_what_the_evaluator_does)
{
    if (emit_no_compiler())
        return;
    static struct mod mods[N_RANDOM];
    static char text[N_RANDOM][MODGEN_TEXT];
    for (uint32_t k = 0; k < N_RANDOM; k++) {
        modgen(1000 + k, text[k]);
        mods[k].is_random = true;
        mod_open_text(&mods[k], text[k], k + 1);
    }
    void *so = build(mods, N_RANDOM, false);
    for (int k = 0; k < N_RANDOM; k++) {
        check_mod(&mods[k], so, k, text[k]);
        mod_close(&mods[k]);
    }
    dlclose(so);
}
END_TEST

START_TEST(variants_compute_what_the_evaluator_does)
{
    if (emit_no_compiler())
        return;
    static struct mod mods[N_MODS];
    for (int k = 0; k < N_MODS; k++)
        mod_open(&mods[k], emit_mods[k], (uint32_t)k + 1);
    void *so = build(mods, N_MODS, false);
    int n_moves = 0, n_far = 0;
    for (int k = 0; k < N_MODS; k++) {
        n_moves += check_mod(&mods[k], so, k, emit_mods[k]);
        n_far += mods[k].n_far > 0 && mods[k].n_near > 0;
        mod_close(&mods[k]);
    }
    dlclose(so);
    ck_assert_int_ge(n_moves, 10);
    ck_assert_int_ge(n_far, 9);
}
END_TEST

/* --- the cheap form ------------------------------------------------------ */

/* outer * tanh(factor * score) of head 0 with x = 1.75; the score is scale
 * times the raw one. */
static const struct {
    const char *body;
    double outer, factor;
} narrow_mods[] = {
    {"20 * facc.tanh_fast(s / 20)", 20, 0.05},
    {"facc.tanh_fast(s)", 1, 1},
    {"-3 * facc.tanh_fast(2 * s)", -3, 2},
    {"x * facc.tanh_fast(s / x)", 1.75, 1 / 1.75},
    {"2 * (x * facc.tanh_fast(-s * x)) * 5", 17.5, -1.75},
    {"1000 * facc.tanh_fast(s / 1000)", 1000, 1e-3},
    /* factors beyond f32's room */
    {"20 * facc.tanh_fast(s * 1e-8)", 20, 0},
    {"20 * facc.tanh_fast(s * 1e9)", 20, 0},
    {"1e20 * facc.tanh_fast(s)", 1e20, 0},
    {"facc.tanh_fast(0 * s)", 1, 0},
};

enum { N_NARROW = sizeof narrow_mods / sizeof *narrow_mods, N_RAW = 2001 };

typedef float narrow_fn(const void *args, int h, int n, const float *s,
                        float *score, float *widest);

/* Raw scores from 0 to both sides, the widest argument reached being 0.7. */
static void check_narrow(const struct mod *m, narrow_fn *narrow, int k)
{
    const double by = narrow_mods[k].outer * 1.4426950408889634,
                 factor = narrow_mods[k].factor * (double)scale;
    float raw[N_RAW], got[N_RAW], widest[N_RAW];
    for (int i = 0; i < N_RAW; i++)
        raw[i] = (float)((i % 2 ? -0.7 : 0.7) * i / N_RAW / factor);
    const float limit = narrow(m->bytes, 0, N_RAW, raw, got, widest);
    for (int i = 0; i < N_RAW; i++) {
        const double x = factor * (double)raw[i], want = by * tanh(x);
        const bool within = widest[i] <= limit;
        ck_assert_msg(within || fabs(x) > 0.64, "%s: %g is not narrow",
                      narrow_mods[k].body, x);
        ck_assert_msg(!within || fabs(got[i] - want) <= 1e-4 * fabs(want),
                      "%s: at %g %g, want %g", narrow_mods[k].body, x,
                      (double)got[i], want);
        ck_assert(i == 0 || widest[i] >= widest[i - 1]);
    }
    ck_assert(!(widest[N_RAW - 1] <= limit));
}

/* What is not finite is wide, and so is all that comes after it. */
static void check_wide(const struct mod *m, narrow_fn *narrow, const char *body)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        const float raw[] = {0.01f, bad[k], 0.01f, 0};
        float got[4], widest[4];
        const float limit = narrow(m->bytes, 0, 4, raw, got, widest);
        for (int i = 1; i < 4; i++)
            ck_assert_msg(!(widest[i] <= limit), "%s: %g passes as %g", body,
                          (double)bad[k], (double)widest[i]);
    }
}

START_TEST(cheap_forms_are_close_within_their_limit)
{
    if (emit_no_compiler())
        return;
    static struct mod mods[N_NARROW];
    char body[256];
    for (int k = 0; k < N_NARROW; k++) {
        snprintf(body, sizeof body,
                 "score_mod = function(s, b, h, q, kv) return %s end",
                 narrow_mods[k].body);
        mod_open(&mods[k], body, (uint32_t)k + 1);
    }
    void *so = build(mods, N_NARROW, false);
    for (int k = 0; k < N_NARROW; k++) {
        narrow_fn *narrow;
        *(void **)&narrow = emit_function(so, "narrow_%d", k);
        if (narrow_mods[k].factor != 0)
            check_narrow(&mods[k], narrow, k);
        else
            ck_assert_float_eq(narrow(mods[k].bytes, 0, 0, NULL, NULL, NULL),
                               -1);
        check_wide(&mods[k], narrow, narrow_mods[k].body);
        mod_close(&mods[k]);
    }
    dlclose(so);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emit");
    TCase *t = tcase_create("variant");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, checked_variants_report_bad_reads);
    tcase_add_test(t, random_variants_compute_what_the_evaluator_does);
    tcase_add_test(t, variants_compute_what_the_evaluator_does);
    tcase_add_test(t, cheap_forms_are_close_within_their_limit);
    suite_add_tcase(s, t);
    return suite_run(s);
}

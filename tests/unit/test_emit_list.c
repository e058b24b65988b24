/* Generated code of every row of the conformance list, compiled as C++ for the
 * CPU, against the evaluator (which test_tracer.c holds against plain Lua):
 * scores and kept cells of sampled lines, and the tiles around them. */
#include <check.h>
#include <math.h>

#include "tests/conformance/list.h"
#include "tests/unit/emit_build.h"
#include "tests/unit/test_share.h"
#include "tests/unit/suite.h"

enum { SQ = 300, SKV = 340, RUN = 64, LINES = 9, BATCH = 64 };
/* a power of two: folded into factors, it moves no score over a threshold */
static const float scale = 0.25f, log2e = 1.44269504f;
static const int lines[LINES] = {0, 1, 63, 64, 100, 127, 170, 256, SQ - 1};

typedef void cells_fn(const void *args, int b, int h, int q, int kv0, int n,
                      const float *s, float *score, unsigned char *keep);
typedef void tile_fn(const void *args, int b, int h, int q_first, int q_last,
                     int kv_first, int kv_last, int *out);

struct row {
    const char *name;
    struct program *p;
    struct data data;
    unsigned char *args;
    cells_fn *cells;
    tile_fn *tile;
};

/* tanh_fast is the hardware's own. */
static bool is_close(const struct row *r, float got, float want)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    const float by = strstr(r->name, "fast") ? 1e-4f : 1e-5f;
    return fabsf(got - want) <= by * (fabsf(want) + 20);
}

/* The columns from kv0 on; kept: of the whole line. */
static void compare_run(const struct row *r, struct eval_state *state, int b,
                        int h, int q, int kv0, uint8_t *kept)
{
    struct diag d;
    float raw[RUN], want[RUN], got[RUN];
    uint8_t keep[RUN];
    unsigned char got_keep[RUN];
    const int n = SKV - kv0 < RUN ? SKV - kv0 : RUN;
    diag_init(&d);
    for (int c = 0; c < RUN; c++) {
        const uint64_t x = (uint64_t)((q * 1000 + kv0 + c) * 8 + h);
        raw[c] = (float)(data_pick(5, x, 4096) - 2048) / 128;
        want[c] = raw[c] * scale;
    }
    ck_assert(eval_tile(state, b, h, kv0, n, &d));
    ck_assert_msg(eval_row(state, q, want, keep, &d), "%s: %s", r->name,
                  d.message);
    /* columns beyond n are padding: read, not compared */
    r->cells(r->args, b, h, q, kv0, RUN, raw, got, got_keep);
    for (int c = 0; c < n; c++) {
        ck_assert_msg(keep[c] == got_keep[c],
                      "%s: b %d h %d q %d kv %d: keep is %d, want %d", r->name,
                      b, h, q, kv0 + c, got_keep[c], keep[c]);
        ck_assert_msg(!keep[c] || is_close(r, got[c] / log2e, want[c]),
                      "%s: b %d h %d q %d kv %d: score is %g, want %g", r->name,
                      b, h, q, kv0 + c, (double)(got[c] / log2e),
                      (double)want[c]);
    }
    memcpy(kept + kv0, keep, (size_t)n);
}

/* Range and verdict of one line's tile hold for its cells. */
static void check_tile(const struct row *r, int b, int h, int q, int kv0,
                       const uint8_t *kept)
{
    const int kv1 = kv0 + RUN < SKV ? kv0 + RUN - 1 : SKV - 1;
    bool some = false, all = true;
    int out[3];
    r->tile(r->args, b, h, q, q, kv0, kv1, out);
    for (int kv = 0; kv < SKV; kv++) {
        ck_assert_msg(!kept[kv] || (kv >= out[0] && kv < out[1]),
                      "%s: kept (%d, %d) outside of %d..%d", r->name, q, kv,
                      out[0], out[1]);
        some |= kv >= kv0 && kv <= kv1 && kept[kv];
        all &= kv < kv0 || kv > kv1 || kept[kv];
    }
    ck_assert_msg((out[2] & 2 || !some) && (out[2] & 1 || all),
                  "%s: verdict %d of line %d, columns %d..%d", r->name, out[2],
                  q, kv0, kv1);
}

static void check_row(const struct row *r)
{
    struct eval_state *state =
        eval_state_new(r->p->plan, EVAL_F32, RUN, &r->data.env);
    ck_assert_ptr_nonnull(state);
    for (int b = 0; b < 2; b++)
        for (int h = 0; h < 4; h++)
            for (int k = 0; k < LINES; k++) {
                uint8_t kept[SKV];
                for (int kv0 = 0; kv0 < SKV; kv0 += RUN)
                    compare_run(r, state, b, h, lines[k], kv0, kept);
                for (int kv0 = 0; kv0 < SKV; kv0 += RUN)
                    check_tile(r, b, h, lines[k], kv0, kept);
            }
    eval_state_free(state);
}

static void open_row(struct row *r, const struct list_row *row)
{
    *r = (struct row){.name = row->name};
    r->p = list_compile(row->name, list_text(row));
    r->data = (struct data){.env = {.B = 2,
                                    .H = 4,
                                    .Hkv = 2,
                                    .Sq = SQ,
                                    .Skv = SKV,
                                    .D = 64, /* emit_put_variant's */
                                    .Dv = 64},
                            .len_q = {SQ, 171},
                            .len_kv = {SKV, 205},
                            .varied = true};
    r->data.env.len_q = r->data.len_q;
    r->data.env.len_kv = r->data.len_kv;
    data_list(&r->data, r->p->graph, 1);
    r->args = emit_args(r->p->graph, &r->data.env, scale);
}

static void check_batch(const struct list_row *rows, int n)
{
    static struct row r[BATCH];
    struct program *p[BATCH];
    for (int k = 0; k < n; k++) {
        open_row(&r[k], &rows[k]);
        p[k] = r[k].p;
    }
    void *so = emit_build(p, n, false, "-O0");
    for (int k = 0; k < n; k++) {
        *(void **)&r[k].cells = emit_function(so, "cells_%d", k);
        *(void **)&r[k].tile = emit_function(so, "tile_%d", k);
        check_row(&r[k]);
        data_free(&r[k].data);
        program_free(r[k].p);
        free(r[k].args);
    }
    dlclose(so);
}

/* Spread over the list, a quarter in the short form, of that a quarter under
 * sanitizers: the C++ compiler takes more than half a second a row. */
static int some_rows(struct list_row *rows)
{
    const int all = list_rows(rows),
              n = test_share(test_long() ? all : all / 4);
    for (int k = 0; k < n; k++)
        rows[k] = rows[(int64_t)k * all / n];
    return n;
}

START_TEST(rows_compute_what_the_evaluator_does)
{
    static struct list_row rows[LIST_MOST];
    const int n = some_rows(rows);
    if (emit_no_compiler())
        return;
    for (int k = BATCH * _i; k < n && k < BATCH * (_i + 1); k += BATCH)
        check_batch(rows + k, n - k < BATCH ? n - k : BATCH);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emit_list");
    TCase *t = tcase_create("list");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, rows_compute_what_the_evaluator_does, 0,
                        (LIST_MOST + BATCH - 1) / BATCH);
    suite_add_tcase(s, t);
    return suite_run(s);
}

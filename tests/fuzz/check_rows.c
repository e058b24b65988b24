/* The loop by hand: softmax of the truth's scores times V, in f64, row by row,
 * and how far an output may be from it (check.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/check.h"

struct row {
    double lse, top; /* top: the largest |score| */
    double error;    /* of the scores that weigh something */
    bool near;       /* f32 may mask otherwise */
    double o[CASE_MOST_DIM];
    double most; /* largest |v| of those that count */
};

static void row_make(struct row *r, const struct truth *t, int b, int h, int q)
{
    const struct fuzz_case *c = t->c;
    const bool used = q < c->len_q[b];
    const int n = used ? c->len_kv[b] : 0;
    double top = -INFINITY, sum = 0;
    memset(r, 0, sizeof *r);
    r->lse = -INFINITY;
    for (int kv = 0; kv < n; kv++) {
        const struct cell *x = truth_cell(t, b, h, q, kv);
        r->near |= x->near;
        top = x->keep ? fmax(top, x->want) : top;
    }
    for (int kv = 0; kv < n; kv++) {
        const struct cell *x = truth_cell(t, b, h, q, kv);
        if (!x->keep)
            continue;
        const double p = exp(x->want - top);
        sum += p;
        r->top = fmax(r->top, fabs(x->want));
        if (x->want + x->error > top - 60)
            r->error = fmax(r->error, x->error);
        for (int d = 0; d < c->Dv; d++) {
            const double v = case_value(c, b, h, kv, d);
            r->o[d] += p * v;
            r->most = fmax(r->most, fabs(v));
        }
    }
    if (sum > 0)
        r->lse = top + log(sum);
    for (int d = 0; d < c->Dv && sum > 0; d++)
        r->o[d] /= sum;
}

/* --- outputs ------------------------------------------------------ */

static double get(const facc_tensor *x, int64_t at)
{
    const size_t size = facc_dtype_size(x->dtype);
    return dtype_load_f64((enum dtype)x->dtype,
                          (const char *)x->data + (size_t)at * size);
}

/* Rounding of one output: relative; and the least step. */
static void rounding(facc_dtype type, double *relative, double *least)
{
    *relative = type == FACC_BF16  ? 0x1p-8
                : type == FACC_F16 ? 0x1p-11
                                   : 0x1p-23;
    *least = type == FACC_F16 ? 0x1p-24 : 0x1p-120;
    if (type == FACC_F64)
        *relative = *least = 0;
}

static bool fail_at(struct outcome *out, const struct judging *j, int b, int h,
                    int q, const char *what, double got, double want,
                    double allowed)
{
    return check_fail(out, j->stage,
                      "%s: b %d h %d q %d: %s is %.9g, should be %.9g (error "
                      "allowed %.3g)",
                      j->what, b, h, q, what, got, want, allowed);
}

/* True: the row's values could be judged. */
static bool is_judged(const struct row *r, const struct judging *j,
                      double *error)
{
    *error =
        j->f64 ? 1e-11 + 1e-15 * r->top : r->error + 0x1p-21 * r->top + 2e-5;
    return j->f64 || (!r->near && *error < 0.5);
}

static bool judge_row(const struct truth *t, const struct judging *j,
                      const struct row *r, const facc_tensor *o,
                      const facc_tensor *lse, int b, int h, int q,
                      struct outcome *out)
{
    int at_b;
    int64_t at_s;
    double error, relative, least;
    case_row(t->c, false, b, q, &at_b, &at_s);
    const int64_t lse_at =
        at_b * lse->stride[0] + h * lse->stride[1] + at_s * lse->stride[2];
    const int64_t o_at =
        at_b * o->stride[0] + h * o->stride[1] + at_s * o->stride[2];
    const double got = get(lse, lse_at);
    const bool judged = is_judged(r, j, &error);
    rounding(o->dtype, &relative, &least);
    out->tally.rows += !j->f64;
    out->tally.compared += judged && !j->f64;
    if (isnan(got) ||
        (judged && !(got == r->lse || fabs(got - r->lse) <= error)))
        return fail_at(out, j, b, h, q, "LSE", got, r->lse, error);
    for (int d = 0; d < t->c->Dv; d++) {
        const double x = get(o, o_at + d * o->stride[3]);
        const double allowed = r->most * (expm1(2 * error) + j->probability) +
                               relative * fabs(r->o[d]) + least;
        if (isnan(x) || (judged && !(fabs(x - r->o[d]) <= allowed))) {
            char what[24];
            snprintf(what, sizeof what, "O[%d]", d);
            return fail_at(out, j, b, h, q, what, x, r->o[d], allowed);
        }
    }
    return true;
}

bool check_rows(const struct truth *t, const struct judging *j,
                const facc_tensor *o, const facc_tensor *lse,
                struct outcome *out)
{
    const struct fuzz_case *c = t->c;
    struct row r;
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++)
            for (int q = 0; q < case_rows(c, b); q++) {
                row_make(&r, t, b, h, q);
                if (!judge_row(t, j, &r, o, lse, b, h, q, out))
                    return false;
            }
    return true;
}

void rows_shape(const struct fuzz_case *c, facc_tensor *o, facc_dtype o_dtype,
                facc_tensor *lse, facc_dtype lse_dtype, size_t *o_bytes,
                size_t *lse_bytes)
{
    const facc_tensor *q = &c->args.q;
    *o = (facc_tensor){.dtype = o_dtype, .rank = 4};
    *lse = (facc_tensor){.dtype = lse_dtype, .rank = 3};
    for (int d = 0; d < 3; d++)
        o->shape[d] = lse->shape[d] = q->shape[d];
    o->shape[3] = c->Dv;
    o->stride[3] = lse->stride[2] = 1;
    const int64_t rows = q->shape[2] > 0 ? q->shape[2] : 1;
    lse->stride[1] = rows;
    lse->stride[0] = rows * lse->shape[1];
    o->stride[2] = c->Dv;
    o->stride[1] = c->Dv * rows;
    o->stride[0] = c->Dv * rows * o->shape[1];
    *lse_bytes =
        (size_t)(lse->stride[0] * lse->shape[0]) * facc_dtype_size(lse_dtype);
    *o_bytes = (size_t)(o->stride[0] * o->shape[0]) * facc_dtype_size(o_dtype);
}

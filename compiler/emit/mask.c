/* kv_range and verdict: what the mask's plain bounds (kq * q + kkv * kv +
 * rest >= 0) say about whole tiles. In: keep and its bounds; out: bodies of
 * the two functions, in 64-bit arithmetic. Called by variant.c. */
#include "compiler/emit/writer.h"

#include <inttypes.h>

/* With the ranges of real lengths; other bounds are left to mask(), the
 * verdict stays PARTIAL. */
static bool is_usable(const struct emitter *e, const struct plain_bound *b)
{
    const struct range x = e->range[b->rest];
    return plain_bound_is_usable(b, x.lo, x.hi);
}

/* Conjuncts of tile scope: one value decides. */
static bool is_condition(const struct emitter *e, ir_ref r)
{
    return e->scope[r] == SCOPE_TILE &&
           !(ir_is(e->g, r, IR_CONST_B) && ir_node(e->g, r)->i);
}

static uint32_t n_conjuncts(const struct emitter *e, ir_ref keep)
{
    return ir_is(e->g, keep, IR_AND) ? ir_node(e->g, keep)->n : 1;
}

static ir_ref conjunct(const struct emitter *e, ir_ref keep, uint32_t k)
{
    return ir_is(e->g, keep, IR_AND) ? ir_arg(e->g, keep, k) : keep;
}

static const char *term(struct emitter *e, const char *sum, int64_t k,
                        const char *x)
{
    if (k == 0)
        return sum;
    const int64_t a = k < 0 ? -k : k;
    const char *sign = *sum ? (k < 0 ? " - " : " + ") : k < 0 ? "-" : "";
    return a == 1 ? writer_format(e, "%s%s(long long)%s", sum, sign, x)
                  : writer_format(e, "%s%s%" PRId64 "ll * %s", sum, sign, a, x);
}

/* The bound's left side; kv == NULL: without kv's term. */
static const char *left_side(struct emitter *e, enum place p,
                             const struct plain_bound *b, const char *q,
                             const char *kv)
{
    const char *sum = "";
    /* positive terms first, so that no text starts with a minus */
    for (int negative = 0; negative < 2; negative++) {
        if ((b->kq < 0) == negative)
            sum = term(e, sum, b->kq, q);
        if (kv && (b->kkv < 0) == negative)
            sum = term(e, sum, b->kkv, kv);
    }
    if (*sum && ir_is(e->g, b->rest, IR_CONST_I) &&
        ir_node(e->g, b->rest)->i == 0)
        return sum;
    return writer_format(e, "%s%s%s", sum, *sum ? " + " : "",
                         expr_wide(e, p, b->rest));
}

/* --- kv_range ------------------------------------------------------------ */

/* Over all rows the loosest end wins: kv <= floor(a / -kkv), or
 * kv >= ceil(-a / kkv), where a is kq * q + rest at its largest. */
static void range_bound(struct emitter *e, struct strbuf *out,
                        const struct plain_bound *b)
{
    const char *a =
        left_side(e, PLACE_RANGE, b, b->kq > 0 ? "q_last" : "q_first", NULL);
    if (b->kkv == 0)
        strbuf_addf(out, "        end = (%s) >= 0 ? end : 0;\n", a);
    else if (b->kkv == -1)
        strbuf_addf(out, "        end = facc_min(end, %s + 1);\n", a);
    else if (b->kkv == 1)
        strbuf_addf(out, "        first = facc_max(first, -(%s));\n", a);
    else if (b->kkv < 0)
        strbuf_addf(out,
                    "        end = facc_min(end, facc_floordiv(%s, %" PRId64
                    "ll) + 1);\n",
                    a, -b->kkv);
    else
        strbuf_addf(
            out,
            "        first = facc_max(first, -facc_floordiv(%s, %" PRId64
            "ll));\n",
            a, b->kkv);
}

void mask_range(struct emitter *e, ir_ref keep, const struct plain_bounds *b)
{
    struct strbuf *out = &e->at[PLACE_RANGE].body;
    strbuf_add(out, "        long long first = 0, end = kMaxInt;\n");
    for (int k = 0; k < b->n; k++)
        if (is_usable(e, &b->bound[k]))
            range_bound(e, out, &b->bound[k]);
    for (uint32_t k = 0; k < n_conjuncts(e, keep); k++) {
        const ir_ref x = conjunct(e, keep, k);
        if (is_condition(e, x))
            strbuf_addf(out, "        end = %s ? end : 0;\n",
                        expr_text(e, PLACE_RANGE, x));
    }
    strbuf_add(out, "        return KvRange{facc_saturate(first), "
                    "facc_saturate(facc_max(end, 0ll))};\n");
}

/* --- verdict ------------------------------------------------------------- */

/* The left side is linear: its ends over the tile are at corners. */
static void verdict_bound(struct emitter *e, struct strbuf *out,
                          const struct plain_bound *b)
{
    const char *q[2] = {"q_first", "q_last"};
    const char *kv[2] = {"kv_first", "kv_last"};
    strbuf_addf(out, "        may &= %s >= 0;\n",
                left_side(e, PLACE_VERDICT, b, q[b->kq > 0], kv[b->kkv > 0]));
    strbuf_addf(out, "        must &= %s >= 0;\n",
                left_side(e, PLACE_VERDICT, b, q[b->kq < 0], kv[b->kkv < 0]));
}

/* Is keep nothing but usable bounds and conditions? */
static bool is_exact(const struct emitter *e, ir_ref keep,
                     const struct plain_bounds *b)
{
    for (int k = 0; k < b->n; k++)
        if ((b->bound[k].kq || b->bound[k].kkv) && !is_usable(e, &b->bound[k]))
            return false;
    for (uint32_t k = 0; k < n_conjuncts(e, keep) && !b->exact; k++) {
        struct plain_bounds one;
        const ir_ref x = conjunct(e, keep, k);
        if (!is_condition(e, x) && !(pass_bounds(e->g, x, &one) && one.exact))
            return false;
    }
    return true;
}

bool mask_verdict(struct emitter *e, ir_ref keep, const struct plain_bounds *b)
{
    struct strbuf *out = &e->at[PLACE_VERDICT].body;
    const bool exact = is_exact(e, keep, b);
    strbuf_add(out, exact ? "        bool may = true, must = true;\n"
                          : "        bool may = true, must = false;\n");
    for (int k = 0; k < b->n; k++)
        if (is_usable(e, &b->bound[k]))
            verdict_bound(e, out, &b->bound[k]);
    for (uint32_t k = 0; k < n_conjuncts(e, keep); k++) {
        const ir_ref x = conjunct(e, keep, k);
        if (is_condition(e, x))
            strbuf_addf(out, "        may &= %s;\n        must &= %s;\n",
                        expr_text(e, PLACE_VERDICT, x),
                        expr_text(e, PLACE_VERDICT, x));
    }
    strbuf_add(out, "        return !may ? kVerdictEmpty : must ? kVerdictFull "
                    ": kVerdictPartial;\n");
    return exact;
}

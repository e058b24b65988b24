/* A bias of the diagonal that is one number of the tile where q and kv are far
 * from each other. In: the score; out: text in which the quick path adds that
 * number together with minus the row's reference, or NaN where not all of a
 * thread's cells are far, and the exact path the diagonal's value. Called by
 * variant.c and score.c. */
#include "compiler/emit/writer.h"

#include <string.h>

bool far_facts(struct emitter *e, const struct score_frame *f,
               const struct plain_bounds *mask)
{
    const struct affine_score *a = &e->affine[f->inner];
    e->far_bias = IR_NONE;
    /* family sm80 has no quick path */
    if (strcmp(e->config->family, "sm90") != 0 || !f->log2 || f->tanh_below ||
        !a->affine || expr_home(e, PLACE_SCORE, a->beta) != PLACE_DIAG)
        return true;
    if (!pass_far(e->g, a->beta, mask, &e->far))
        return false;
    if (e->far.found)
        e->far_bias = a->beta;
    return true;
}

const char *far_addend(struct emitter *e, const char *near)
{
    return writer_format(e, "base.far.exact ? %s : base.far.by", near);
}

const char *far_offset(struct emitter *e)
{
    const int at[] = {e->far.before, e->far.after};
    const char *from[2];
    for (int k = 0; k < 2; k++)
        from[k] =
            at[k] == FAR_NONE ? "kMaxInt" : expr_int_const(e, at[k], false);
    return writer_format(e,
                         "        moved.far = facc_far_by<%s, %s>(base.far, "
                         "by, kTileN - 7);\n",
                         from[0], from[1]);
}

/* Diagonals that are far need not be made if Diag has nothing else. */
static bool shortens(const struct emitter *e)
{
    return e->far_bias != IR_NONE && e->at[PLACE_DIAG].n_members == 1;
}

const char *far_diag(const struct emitter *e)
{
    return shortens(e) ? "near_diag" : "diag";
}

void far_add_diag(const struct emitter *e, struct strbuf *out)
{
    if (!shortens(e))
        return;
    strbuf_add(out, "\n    static FACC_FN Diag diag(const KernelArgs &args, "
                    "const Tile &t, int q_minus_kv)\n    {\n");
    if (e->far.before != FAR_NONE)
        strbuf_addf(out,
                    "        if (q_minus_kv >= %d)\n            return "
                    "Diag{t.far_before};\n",
                    e->far.before);
    if (e->far.after != FAR_NONE)
        strbuf_addf(out,
                    "        if (q_minus_kv <= %d)\n            return "
                    "Diag{t.far_after};\n",
                    -e->far.after);
    strbuf_add(out, "        return near_diag(args, t, q_minus_kv);\n    }\n");
}

/* The table's own values, so that both paths add the same bits. */
void far_members(struct emitter *e)
{
    const char *member =
        strchr(score_times_log2e(e, PLACE_SCORE, e->far_bias), '.');
    struct strbuf *tile = &e->at[PLACE_TILE].body;
    struct strbuf *base = &e->at[PLACE_BASE].body;
    const bool before = e->far.before != FAR_NONE;
    const bool after = e->far.after != FAR_NONE;
    if (!member) /* no memory */
        return;
    writer_add_line(e, tile, e->far_bias);
    if (before)
        strbuf_addf(tile, "        t.far_before = %s(args, t, %d)%s;\n",
                    far_diag(e), e->far.before, member);
    if (after)
        strbuf_addf(tile, "        t.far_after = %s(args, t, %d)%s;\n",
                    far_diag(e), -e->far.after, member);
    writer_add_line(e, base, e->far_bias);
    strbuf_addf(base, "        base.far = facc_far{q - kv0, %s, %s};\n",
                before ? "t.far_before" : "0.0f",
                after ? "t.far_after" : "0.0f");
}

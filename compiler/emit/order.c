/* In which direction a program's KV tiles are visited. In: the score's node
 * and the mask's plain bounds; out: kReverse. A fact of the program, never of
 * a tile. Called by variant.c. */
#include "compiler/emit/writer.h"

/* Operations from the bias to its forms. */
enum { MAX_TERMS_DEPTH = 8 };

static bool reads_kv(const struct emitter *e, ir_ref r)
{
    return ir_node(e->g, r)->deps & IR_DEP_KV;
}

static bool is_minus(const struct emitter *e, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    if (n->op == IR_CONST_F)
        return n->f < 0;
    if (n->op == IR_FNEG)
        return !is_minus(e, ir_arg(e->g, r, 0));
    return (n->op == IR_FMUL || n->op == IR_FDIV) &&
           is_minus(e, ir_arg(e->g, r, 0)) != is_minus(e, ir_arg(e->g, r, 1));
}

static int growth(const struct emitter *e, ir_ref r, int depth);

/* What is not known hides a shrinking term; of growing ones we hope that they
 * win, as slopes do. */
static int growth_of_sum(const struct emitter *e, ir_ref a, int of_a, ir_ref b,
                         int of_b)
{
    if (of_a == 0 && of_b < 0)
        return reads_kv(e, a) ? 0 : of_b;
    if (of_b == 0 && of_a < 0)
        return reads_kv(e, b) ? 0 : of_a;
    return of_a == -of_b ? 0 : of_a + of_b > 0 ? 1 : -1;
}

/* Factors that are not literals are positive, we hope. */
static int growth_of_product(const struct emitter *e, int g, ir_ref factor)
{
    if (is_minus(e, factor))
        g = -g;
    return g < 0 && reads_kv(e, factor) ? 0 : g;
}

/* 1: the value grows with kv by a term in kv, as ALiBi's; -1: it surely
 * shrinks; 0: neither is known. */
static int growth(const struct emitter *e, ir_ref r, int depth)
{
    const struct ir_node *n = ir_node(e->g, r);
    if (n->op == IR_I2F) {
        const int64_t k = form_kv(e, ir_arg(e->g, r, 0));
        return (k > 0) - (k < 0);
    }
    const bool sum = n->op == IR_FADD || n->op == IR_FSUB;
    if (depth == 0 ||
        !(sum || n->op == IR_FMUL || n->op == IR_FDIV || n->op == IR_FNEG))
        return 0;
    const ir_ref x = ir_arg(e->g, r, 0);
    const int of_x = growth(e, x, depth - 1);
    if (n->op == IR_FNEG)
        return -of_x;
    const ir_ref y = ir_arg(e->g, r, 1);
    const int of_y = growth(e, y, depth - 1);
    if (sum)
        return growth_of_sum(e, x, of_x, y, n->op == IR_FSUB ? -of_y : of_y);
    if (of_y == 0)
        return growth_of_product(e, of_x, y);
    return of_x || n->op == IR_FDIV ? 0 : growth_of_product(e, of_y, x);
}

/* The tiles that matter most come first, so that they set the running maximum
 * at once: the last ones under a bias that grows with kv, the first ones under
 * one that shrinks. Else the masked tiles below a diagonal. */
bool order_is_reverse(const struct emitter *e, ir_ref score,
                      const struct plain_bounds *b)
{
    const struct affine_score *a = &e->affine[score];
    const int g = a->affine ? growth(e, a->beta, MAX_TERMS_DEPTH) : 0;
    if (g != 0)
        return g > 0;
    for (int k = 0; k < b->n; k++)
        if (b->bound[k].kq > 0 && b->bound[k].kkv < 0)
            return true;
    return false;
}

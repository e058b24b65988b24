/* What the compiler knows about a program, for people. In: a program; out:
 * aligned text: inputs, values with their scopes, the score's affine form,
 * the mask's plain bounds and tier. Called by the runtime for `facc
 * explain`. */
#include "compiler/compile.h"

#include <inttypes.h>
#include <string.h>

struct explain {
    struct ir_graph *g;
    struct strbuf *out;
    uint32_t *number; /* of a node, from 1; 0: not of the roots */
    uint32_t n_nodes; /* entries of number */
};

/* --- expressions ---------------------------------------------------------- */

enum { MAX_DEPTH = 4 };

static void expression(struct explain *x, ir_ref r, int depth);

static void leaf(struct explain *x, const struct ir_node *n)
{
    static const char *const var[IR_VAR_COUNT] = {[IR_VAR_B] = "b",
                                                  [IR_VAR_H] = "h",
                                                  [IR_VAR_Q] = "q",
                                                  [IR_VAR_KV] = "kv",
                                                  [IR_VAR_SIZE_B] = "size.B",
                                                  [IR_VAR_SIZE_H] = "size.H",
                                                  [IR_VAR_SIZE_HKV] =
                                                      "size.Hkv",
                                                  [IR_VAR_SIZE_Q] = "size.q",
                                                  [IR_VAR_SIZE_KV] = "size.kv",
                                                  [IR_VAR_SIZE_D] = "size.D",
                                                  [IR_VAR_SIZE_DV] = "size.Dv"};
    if (n->op == IR_CONST_F)
        strbuf_add_double(x->out, n->f);
    else if (n->op == IR_CONST_I)
        strbuf_addf(x->out, "%" PRId64, n->i);
    else if (n->op == IR_CONST_B)
        strbuf_add(x->out, n->i ? "true" : "false");
    else if (n->op == IR_VAR_I)
        strbuf_add(x->out, var[n->i]);
    else if (n->op == IR_SCORE)
        strbuf_add(x->out, "score");
    else
        strbuf_add(x->out, x->g->params[n->i].name);
}

static void load(struct explain *x, ir_ref r, int depth)
{
    strbuf_add(x->out, x->g->tensors[ir_node(x->g, r)->i].name);
    for (uint32_t k = 0; k < ir_node(x->g, r)->n; k++) {
        strbuf_add(x->out, "[");
        expression(x, ir_arg(x->g, r, k), depth);
        strbuf_add(x->out, "]");
    }
}

/* k * term with its sign; first: at the start of a sum. */
static void term(struct explain *x, int64_t k, bool first)
{
    const uint64_t a = k < 0 ? 0 - (uint64_t)k : (uint64_t)k;
    strbuf_add(x->out, k < 0 ? (first ? "-" : " - ") : first ? "" : " + ");
    if (a != 1)
        strbuf_addf(x->out, "%" PRIu64 " * ", a);
}

static void linear(struct explain *x, ir_ref r, int depth)
{
    const struct ir_node *n = ir_node(x->g, r);
    bool first = true;
    for (int negative = 0; negative < 2; negative++) {
        for (uint32_t k = 0; k < n->n; k++) {
            const int64_t c = ir_coef(x->g, r, k);
            if ((c < 0) != negative)
                continue;
            term(x, c, first);
            expression(x, ir_arg(x->g, r, k), depth);
            first = false;
        }
    }
    if (n->i)
        strbuf_addf(x->out, " %c %" PRIu64, n->i < 0 ? '-' : '+',
                    n->i < 0 ? 0 - (uint64_t)n->i : (uint64_t)n->i);
}

/* The table's text for kernels, without the library's prefix. */
static void table_text(struct explain *x, ir_ref r, int depth)
{
    static const char prefix[] = "facc_";
    const struct ir_op_info *op = ir_op_info((enum ir_op)ir_node(x->g, r)->op);
    for (const char *s = op->cuda; *s; s++) {
        if (*s == '$')
            expression(x, ir_arg(x->g, r, (uint32_t)(*++s - '0')), depth);
        else if (strncmp(s, prefix, sizeof prefix - 1) == 0)
            s += sizeof prefix - 2;
        else
            strbuf_addn(x->out, s, 1);
    }
}

static void list(struct explain *x, ir_ref r, const char *between, int depth)
{
    for (uint32_t k = 0; k < ir_node(x->g, r)->n; k++) {
        strbuf_add(x->out, k ? between : "");
        expression(x, ir_arg(x->g, r, k), depth);
    }
}

/* The node itself, operands to a depth. */
static void definition(struct explain *x, ir_ref r, int depth)
{
    const struct ir_node *n = ir_node(x->g, r);
    if (ir_op_is_load(n->op)) {
        load(x, r, depth);
    } else if (n->op == IR_LIN) {
        strbuf_add(x->out, "(");
        linear(x, r, depth);
        strbuf_add(x->out, ")");
    } else if (n->op == IR_GE0 || n->op == IR_EQ0) {
        strbuf_add(x->out, "(");
        linear(x, r, depth);
        strbuf_add(x->out, n->op == IR_GE0 ? " >= 0)" : " == 0)");
    } else if (n->op == IR_AND || n->op == IR_OR) {
        strbuf_add(x->out, "(");
        list(x, r, n->op == IR_AND ? " and " : " or ", depth);
        strbuf_add(x->out, ")");
    } else if (n->op == IR_LEN_Q || n->op == IR_LEN_KV) {
        strbuf_add(x->out, n->op == IR_LEN_Q ? "len.q(" : "len.kv(");
        list(x, r, ", ", depth);
        strbuf_add(x->out, ")");
    } else if (n->n == 0) {
        leaf(x, n);
    } else {
        table_text(x, r, depth);
    }
}

static void expression(struct explain *x, ir_ref r, int depth)
{
    const struct ir_node *n = ir_node(x->g, r);
    const bool is_leaf = n->n == 0 && !ir_op_is_load(n->op);
    if (is_leaf || depth > 0)
        definition(x, r, depth - 1);
    else if (r < x->n_nodes && x->number[r])
        strbuf_addf(x->out, "%%%" PRIu32, x->number[r]);
    else
        strbuf_add(x->out, "...");
}

/* --- sections ------------------------------------------------------------- */

static void inputs(struct explain *x)
{
    static const char *const dim[] = {"", "B", "H", "Hkv", "q", "kv", "any"};
    for (int k = 0; k < x->g->n_tensors; k++) {
        const struct ir_tensor *t = &x->g->tensors[k];
        strbuf_addf(x->out, "tensor   %-12s %-5s {", t->name,
                    dtype_name(t->dtype));
        for (int d = 0; d < t->rank; d++) {
            strbuf_add(x->out, d ? ", " : " ");
            if (t->dim[d].kind == IR_DIM_FIXED)
                strbuf_addf(x->out, "%" PRId64, t->dim[d].extent);
            else
                strbuf_add(x->out, dim[t->dim[d].kind]);
        }
        strbuf_add(x->out, t->rank ? " }\n" : "}\n");
    }
    for (int k = 0; k < x->g->n_params; k++)
        strbuf_addf(x->out, "param    %-12s %s\n", x->g->params[k].name,
                    dtype_name(x->g->params[k].dtype));
}

static void values(struct explain *x, const ir_ref *order, uint32_t n,
                   const enum scope *scope)
{
    static const char *const type[] = {"bool", "int", "float"};
    for (uint32_t k = 0; k < n; k++) {
        const struct ir_node *p = ir_node(x->g, order[k]);
        if (p->n == 0 && !ir_op_is_load(p->op))
            continue;
        strbuf_addf(x->out, "value    %%%-3" PRIu32 " %-4s  %-5s ",
                    x->number[order[k]], scope_name(scope[order[k]]),
                    type[p->type]);
        definition(x, order[k], 0);
        if (p->line)
            strbuf_addf(x->out, "   line %" PRIu32, p->line);
        strbuf_add(x->out, "\n");
    }
}

static void score(struct explain *x, ir_ref root, const struct affine_score *a)
{
    strbuf_add(x->out, "score    ");
    expression(x, root, MAX_DEPTH);
    strbuf_add(x->out, "\n");
    if (ir_is(x->g, root, IR_SCORE)) {
        strbuf_add(x->out, "         unchanged\n");
    } else if (a->affine) {
        strbuf_add(x->out, "         affine: alpha = ");
        expression(x, a->alpha, MAX_DEPTH);
        strbuf_add(x->out, ", beta = ");
        expression(x, a->beta, MAX_DEPTH);
        strbuf_add(x->out, "; alpha folds into the softmax scale\n");
    } else if (a->outer) {
        strbuf_add(x->out, "         outer factor ");
        expression(x, a->outer, MAX_DEPTH);
        strbuf_add(x->out, " folds into log2(e)\n");
    } else {
        strbuf_add(x->out, "         not affine in the score\n");
    }
}

/* A product of a row's and a column's vector: how kernels make it. */
static void dot(struct explain *x, const struct dot_term *d)
{
    const ir_ref r = d->dot ? d->dot : d->cell;
    if (!r)
        return;
    strbuf_add(x->out, "dot      ");
    expression(x, r, MAX_DEPTH);
    if (ir_node(x->g, r)->line)
        strbuf_addf(x->out, "   line %" PRIu32, ir_node(x->g, r)->line);
    if (!d->dot) {
        strbuf_addf(x->out, "\n         made cell by cell: %s\n", d->why);
        return;
    }
    strbuf_add(x->out, "\n         times ");
    expression(x, d->factor, MAX_DEPTH);
    strbuf_addf(x->out,
                ": a matrix product beside Q K^T where Q and K are %s, too; "
                "else cell by cell\n",
                dtype_name(d->dtype));
}

static void bound(struct explain *x, const struct plain_bound *b)
{
    strbuf_add(x->out, "bound    ");
    if (b->kq)
        term(x, b->kq, true);
    strbuf_add(x->out, b->kq ? "q" : "");
    if (b->kkv)
        term(x, b->kkv, !b->kq);
    strbuf_add(x->out, b->kkv ? "kv" : "");
    if (!ir_is(x->g, b->rest, IR_CONST_I) || ir_node(x->g, b->rest)->i) {
        strbuf_add(x->out, b->kq || b->kkv ? " + " : "");
        expression(x, b->rest, MAX_DEPTH);
    }
    strbuf_add(x->out, " >= 0: ");
    strbuf_add(x->out, b->kkv < 0   ? "KV tiles above it are skipped\n"
                       : b->kkv > 0 ? "KV tiles below it are skipped\n"
                       : b->kq      ? "rows outside it are skipped\n"
                                    : "whole (b, h) outside it are skipped\n");
}

static void mask(struct explain *x, ir_ref keep, const struct plain_bounds *b)
{
    strbuf_add(x->out, "mask     ");
    expression(x, keep, MAX_DEPTH);
    strbuf_add(x->out, "\n");
    for (int k = 0; k < b->n; k++)
        bound(x, &b->bound[k]);
    if (ir_is(x->g, keep, IR_CONST_B))
        strbuf_add(x->out, ir_node(x->g, keep)->i ? "         nothing masked\n"
                                                  : "         all masked\n");
}

/* What the tier's cause does, with its line; nothing for the tiers that need
 * none. */
static void cause(struct explain *x, const struct verdict_program *v)
{
    static const struct {
        const char *before, *after;
    } what[] = {
        [TIER_RANGED] = {"reads ", ""},
        [TIER_SCANNED] = {"reads ", " by both q and kv"},
        [TIER_OPAQUE] = {"", " reads the score"},
    };
    if (v->cause == IR_NONE)
        return;
    strbuf_add(x->out, what[v->tier].before);
    expression(x, v->cause, MAX_DEPTH);
    strbuf_add(x->out, what[v->tier].after);
    if (ir_node(x->g, v->cause)->line)
        strbuf_addf(x->out, "   line %" PRIu32, ir_node(x->g, v->cause)->line);
}

static void summaries(struct explain *x, const struct verdict_program *v)
{
    int n[SIDES] = {0, 0};
    for (int k = 0; k < v->n_summaries; k++)
        n[v->summary[k].side]++;
    if (v->n_summaries)
        strbuf_addf(x->out,
                    "         %d summar%s of rows, %d of columns, made before "
                    "the kernel runs\n",
                    n[SIDE_Q], n[SIDE_Q] == 1 ? "y" : "ies", n[SIDE_KV]);
}

/* How the tiles' verdicts are found; of masks that need a schedule. */
static void schedule(struct explain *x, const struct verdict_program *v)
{
    strbuf_add(x->out, "         a schedule is made: EMPTY tiles are skipped, "
                       "FULL ones run no mask code\n");
    summaries(x, v);
    if (v->halve)
        strbuf_addf(x->out,
                    "         PARTIAL tiles are halved, down to granules of %d "
                    "by %d cells\n",
                    VERDICT_GRANULE, VERDICT_GRANULE);
    if (v->tier == TIER_SCANNED)
        strbuf_add(x->out, "         tiles that stay PARTIAL are scanned cell "
                           "by cell\n");
    if (v->tier == TIER_OPAQUE)
        strbuf_add(x->out, "         what reads the score counts as unknown\n");
    if (v->cut)
        strbuf_add(x->out, "         the mask is too large: parts of it count "
                           "as unknown\n");
}

/* What is known of whole tiles, and what it takes. */
static void tier(struct explain *x, const struct verdict_program *v)
{
    const struct unit_config usual = {.check_bounds = false};
    strbuf_addf(x->out, "tier     %s%s", mask_tier_name(v->tier),
                v->cause ? ": " : "");
    cause(x, v);
    strbuf_add(x->out, "\n");
    if (v->tier == TIER_NONE)
        return;
    if (v->plain)
        strbuf_add(x->out, "         nothing but plain bounds: no schedule is "
                           "needed, tiles inside all of them run no mask "
                           "code\n");
    else if (emit_planned(v, &usual))
        schedule(x, v);
    else
        strbuf_add(x->out,
                   "         nothing is known of whole tiles: mask code "
                   "runs in all of them\n");
}

static bool sections(struct program *p, struct strbuf *out)
{
    struct explain x = {.g = p->graph, .out = out};
    struct affine_score affine;
    struct plain_bounds bounds;
    enum scope *scope;
    ir_ref *order;
    uint32_t n;
    if (!ir_walk(x.g, &p->roots, &order, &n) || !pass_scope(x.g, &scope) ||
        !pass_affine_score(x.g, p->roots.score, &affine) ||
        !pass_bounds(x.g, p->roots.keep, &bounds))
        return false;
    x.n_nodes = x.g->n_nodes;
    x.number = arena_alloc(out->arena, x.n_nodes * sizeof *x.number);
    if (!x.number)
        return false;
    for (uint32_t k = 0; k < n; k++)
        x.number[order[k]] = k + 1;
    strbuf_addf(out, "program  %s\npaths    score %d, mask %d\n", p->name,
                p->facts.score_paths, p->facts.mask_paths);
    inputs(&x);
    score(&x, p->roots.score, &affine);
    dot(&x, &p->dot);
    mask(&x, p->roots.keep, &bounds);
    tier(&x, &p->verdict);
    values(&x, order, n, scope);
    if (p->facts.warning[0])
        strbuf_addf(out, "%s\n", p->facts.warning);
    return !out->failed;
}

bool compile_explain(struct program *p, struct strbuf *out, struct diag *d)
{
    p->graph->diag = d;
    p->graph->failed = false;
    const bool ok = sections(p, out);
    if (!ok)
        diag_nomem(d, "explain");
    p->graph->diag = NULL;
    return ok;
}

bool compile_tier_cause(struct program *p, struct strbuf *out, struct diag *d)
{
    struct explain x = {.g = p->graph, .out = out};
    cause(&x, &p->verdict);
    if (p->verdict.cut)
        strbuf_addf(out,
                    "%sthe mask is too large: parts of it count as unknown",
                    p->verdict.cause ? "; " : "");
    return !out->failed || diag_nomem(d, "explain");
}

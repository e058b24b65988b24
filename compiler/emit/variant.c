/* `struct Variant` of a program: templates/README.md is its contract. In: the
 * graph and its roots; out: the text of facc_variant.cuh. The cell functions
 * are printed first; what they ask of wider scopes becomes members, made by
 * those scopes' functions. Called by unit.c and the tests. */
#include "compiler/emit/writer.h"

#include <math.h>
#include <string.h>

#include "compiler/ir/interval.h"
#include "compiler/support/utf8.h"

/* Sequence lengths and sizes in kernels; the runtime refuses longer ones. The
 * room up to 2^31 keeps q + 1 or kv - q + 1024 in 32 bits. */
static const int64_t max_length = (int64_t)1 << 30;

/* Operations in a chain; far beyond what compiles in reasonable time. */
enum { MAX_DEPTH = 2000 };

/* --- facts --------------------------------------------------------------- */

static struct interval operand(const struct emitter *e, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    struct interval x = {.type = (enum ir_type)n->type};
    if (n->type == IR_INT) {
        x.i.lo = e->range[r].lo;
        x.i.hi = e->range[r].hi;
    } else if (n->type == IR_BOOL) {
        x.b.may_false = x.b.may_true = true;
    } else {
        const bool known = n->op == IR_CONST_F && !isnan(n->f);
        x.f.lo = known ? n->f : -INFINITY;
        x.f.hi = known ? n->f : INFINITY;
        x.f.nan = !known;
    }
    return x;
}

/* As the graph's own ranges, but for real lengths. */
static struct range range_of(struct emitter *e, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    if (n->op == IR_VAR_I || n->op == IR_LEN_Q || n->op == IR_LEN_KV)
        return (struct range){0, max_length};
    if (n->n == 0 || n->op == IR_LOAD_I)
        return (struct range){n->lo, n->hi};
    struct interval *x = arena_alloc(e->arena, n->n * sizeof *x);
    if (!x) {
        e->failed = true;
        return (struct range){0, 0};
    }
    for (uint32_t k = 0; k < n->n; k++)
        x[k] = operand(e, ir_arg(e->g, r, k));
    bool wide = false;
    const struct interval y =
        n->op == IR_LIN
            ? interval_linear(n->i, n->n, e->g->coefs + n->first, x, &wide)
            : interval_eval((enum ir_op)n->op, x);
    return (struct range){y.i.lo, y.i.hi};
}

/* Calls cost more than operators and the few cheap functions; by the text of
 * the table's cuda column. */
static int op_cost(const struct ir_node *n)
{
    static const char *const cheap[] = {
        "fabsf(", "facc_min(", "facc_max(", "facc_abs(", "(float)", "!",
        "(-",     "($0 +",     "($0 -",     "($0 *",     "($0 &",   "($0 |",
        "($0 ^",  "($0 <",     "($0 =",     "($0 ?"};
    const char *text = ir_op_info((enum ir_op)n->op)->cuda;
    if (n->op == IR_LOAD_B || n->op == IR_LOAD_I || n->op == IR_LOAD_F)
        return 20;
    if (n->op == IR_LEN_Q || n->op == IR_LEN_KV)
        return 20;
    if (n->op == IR_DOT)
        return 200;
    if (!*text)
        return (int)(n->n < 64 ? n->n : 64);
    for (size_t k = 0; k < sizeof cheap / sizeof *cheap; k++)
        if (strncmp(text, cheap[k], strlen(cheap[k])) == 0)
            return 1;
    return 8;
}

static int cost_of(const struct emitter *e, ir_ref r)
{
    const struct ir_node *n = ir_node(e->g, r);
    int cost = op_cost(n);
    for (uint32_t k = 0; k < n->n; k++) {
        const ir_ref x = ir_arg(e->g, r, k);
        if (e->scope[x] == e->scope[r])
            cost += e->cost[x];
    }
    return cost < 1000 ? cost : 1000;
}

/* Affine forms of all floats that read the score; adds nodes. */
static bool find_affine(struct emitter *e, const struct ir_roots *roots,
                        struct affine_score **of, uint32_t *n_of)
{
    ir_ref *order;
    uint32_t n;
    if (!ir_walk(e->g, roots, &order, &n))
        return false;
    *n_of = e->g->n_nodes;
    *of = arena_alloc(e->arena, *n_of * sizeof **of);
    if (!*of)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        const struct ir_node *x = ir_node(e->g, order[k]);
        if (x->type == IR_FLOAT && (x->deps & IR_DEP_SCORE) &&
            x->op != IR_SCORE && order[k] < *n_of &&
            !pass_affine_score(e->g, order[k], &(*of)[order[k]]))
            return false;
    }
    return true;
}

static bool facts(struct emitter *e, const struct ir_roots *roots)
{
    struct affine_score *affine;
    uint32_t n_affine;
    if (!find_affine(e, roots, &affine, &n_affine) ||
        !pass_scope(e->g, &e->scope))
        return false;
    const uint32_t n = e->n_nodes = e->g->n_nodes;
    e->affine = arena_alloc(e->arena, n * sizeof *e->affine);
    e->range = arena_alloc(e->arena, n * sizeof *e->range);
    e->cost = arena_alloc(e->arena, n * sizeof *e->cost);
    if (!e->affine || !e->range || !e->cost)
        return false;
    memcpy(e->affine, affine, n_affine * sizeof *affine);
    for (ir_ref r = 1; r < n; r++) {
        if (ir_node(e->g, r)->type == IR_INT)
            e->range[r] = range_of(e, r);
        e->cost[r] = cost_of(e, r);
    }
    if (!score_facts(e) || !iv_facts(e, roots->keep) ||
        (e->config->check_bounds && !fault_facts(e)))
        return false;
    return !e->failed;
}

static bool clear_text(struct emitter *e, struct place_text *at)
{
    strbuf_init(&at->body, e->arena);
    at->n_locals = 0;
    at->local = arena_alloc(e->arena, e->n_nodes * sizeof *at->local);
    at->log2 = arena_alloc(e->arena, e->n_nodes * sizeof *at->log2);
    at->fault = arena_alloc(e->arena, e->n_nodes * sizeof *at->fault);
    return at->local && at->fault && at->log2;
}

/* Empty places; uses are kept for the second round. */
static bool clear_places(struct emitter *e)
{
    e->n_members = 0;
    memset(e->by_key, 0, sizeof e->by_key);
    memset(e->by_value, 0, sizeof e->by_value);
    for (int p = 0; p < PLACE_COUNT; p++) {
        struct place_text *at = &e->at[p];
        at->n_members = 0;
        if (!at->uses)
            at->uses = arena_alloc(e->arena, e->n_nodes * sizeof *at->uses);
        if (!at->uses || !clear_text(e, at))
            return false;
    }
    return true;
}

/* --- choices ------------------------------------------------------------- */

static bool is_costly_member(const struct emitter *e, const struct member *m)
{
    const enum scope s = m->place == PLACE_COL ? SCOPE_COL : SCOPE_DIAG;
    bool costly = e->scope[m->node] == s && e->cost[m->node] >= COSTLY;
    for (uint32_t k = 0; k < ir_node(e->g, m->node)->n; k++) {
        const ir_ref x = ir_arg(e->g, m->node, k);
        costly |= e->scope[x] == s && e->cost[x] >= COSTLY;
    }
    return costly;
}

static bool is_staged(const struct emitter *e, enum place p)
{
    bool costly = false;
    for (int k = 0; k < e->n_members; k++)
        if (e->member[k].place == p)
            costly |= is_costly_member(e, &e->member[k]);
    return costly;
}

/* --- text ---------------------------------------------------------------- */

/* The first one of a struct begins its second line. */
static void add_field(struct strbuf *out, bool has, const char *field,
                      bool *any)
{
    if (has)
        strbuf_addf(out, "%s        %s;\n", *any ? "" : "\n", field);
    *any |= has;
}

static void add_struct(const struct emitter *e, struct strbuf *out,
                       const char *name, enum place p)
{
    strbuf_addf(out, "    struct %s {", name);
    bool any = false;
    const bool far = e->far_bias != IR_NONE;
    add_field(out, p == PLACE_TILE && dtype_is_fp8(e->config->dtype),
              "float scale, scale_log2", &any);
    add_field(out, p == PLACE_BASE && e->plane.rows.load != IR_NONE,
              "facc_by by", &any);
    add_field(out, p == PLACE_TILE && far && e->far.before != FAR_NONE,
              "float far_before", &any);
    add_field(out, p == PLACE_TILE && far && e->far.after != FAR_NONE,
              "float far_after", &any);
    add_field(out, p == PLACE_BASE && far, "facc_far far", &any);
    for (int k = 0; k < e->n_members; k++) {
        const struct member *m = &e->member[k];
        if (m->place != p || !m->value)
            continue;
        strbuf_addf(out, "%s        %s %s;\n", any ? "" : "\n", m->type,
                    strchr(m->name, '.') + 1);
        any = true;
    }
    strbuf_add(out, any ? "    };\n" : "};\n");
}

static void add_maker(const struct emitter *e, struct strbuf *out, enum place p)
{
    static const char *const head[] = {
        [PLACE_TILE] = "Tile tile(const KernelArgs &args, int b, int h)",
        [PLACE_ROW] = "Row row(const KernelArgs &args, const Tile &t, int q)",
        [PLACE_COL] = "Col col(const KernelArgs &args, const Tile &t, int kv)",
        [PLACE_DIAG] = "(const KernelArgs &args, const Tile &t, int "
                       "q_minus_kv)",
        [PLACE_BASE] = "Base base(const KernelArgs &args, const Tile &t, "
                       "const Row &r, int q, int kv0)"};
    static const char *const local[] = {[PLACE_TILE] = "Tile t",
                                        [PLACE_ROW] = "Row r",
                                        [PLACE_COL] = "Col k",
                                        [PLACE_DIAG] = "Diag d",
                                        [PLACE_BASE] = "Base base"};
    strbuf_add(out, "\n    static FACC_FN ");
    if (p == PLACE_DIAG)
        strbuf_addf(out, "Diag %s", far_diag(e));
    strbuf_addf(out, "%s\n    {\n        %s;\n", head[p], local[p]);
    if (p == PLACE_TILE && dtype_is_fp8(e->config->dtype))
        strbuf_add(out, "        t.scale = facc_descaled(args, b, h);\n"
                        "        t.scale_log2 = t.scale * kLog2e;\n");
    writer_add_body(out, &e->at[p].body);
    strbuf_addf(out, "        return %s;\n    }\n", strchr(local[p], ' ') + 1);
    if (p == PLACE_DIAG)
        far_add_diag(e, out);
}

/* Of tile scope. */
static void add_constant(struct strbuf *out, const char *name,
                         const char *value)
{
    strbuf_addf(out,
                "\n    static FACC_FN float %s(const KernelArgs &args, "
                "const Tile &t)\n    {\n        return %s;\n    }\n",
                name, value);
}

static void add_cell(const struct emitter *e, struct strbuf *out,
                     const char *head, enum place p, const char *result)
{
    strbuf_addf(out,
                "\n    static FACC_FN %s(const KernelArgs &args, const Tile &t,"
                " const Row &r, const Col &k,\n"
                "            const Diag &d, const Base &base, float s, int q, "
                "int kv0, int c)\n    {\n",
                head);
    writer_add_body(out, &e->at[p].body);
    strbuf_addf(out, "        return %s;\n    }\n", result);
}

/* A base whose scores are `by` more. */
static void add_offset(struct strbuf *out, const char *statement)
{
    strbuf_addf(out,
                "\n    static FACC_FN Base offset_by(const Base &base, float "
                "by)\n    {\n        Base moved = base;\n%s        return "
                "moved;\n    }\n",
                statement ? statement : "");
}

/* The cheap form: exact enough while its widest score is below the limit. */
static void add_narrow(struct strbuf *out, const char *member)
{
    strbuf_add(out, "\n    static FACC_FN float narrow_score(const KernelArgs "
                    "&args, const Tile &t, const Row &r, const Col &k,\n"
                    "            const Diag &d, const Base &base, float s, int "
                    "q, int kv0, int c, float &widest)\n    {\n");
    if (member)
        strbuf_addf(out, "        return facc_narrow_cell(%s, s, widest);\n",
                    member);
    else
        strbuf_add(out, "        return s;\n");
    strbuf_addf(out,
                "    }\n\n    static FACC_FN float narrow_limit(const "
                "KernelArgs &args, const Tile &t)\n    {\n        return "
                "%s%s;\n    }\n",
                member ? member : "-1.0f", member ? ".limit" : "");
}

/* Where rows of a captured tensor lie. */
struct rows_text {
    const char *at[IR_MAX_RANK]; /* by dimension; the rows' own: the first */
};

/* The tensor whose tiles the kernel copies. */
struct plane_text {
    struct rows_text rows;
    const char *first;
    const char *score;
    struct strbuf body; /* of plane_score */
    bool offset;        /* offset_by serves it */
};

struct texts {
    struct plane_text plane;
    struct rows_text row, col;
    const char *factor; /* of their products */
    const char *score, *mask, *multiplier, *shift;
    const char *offset;          /* statement of offset_by, or NULL */
    const char *offset_of_plane; /* the same for plane_score alone, or NULL */
    const char *narrow;          /* Tile's member for the cheap form, or NULL */
    bool has_score, has_mask, reverse, needs_score, always_partial;
};

static void add_rows(const struct emitter *e, struct strbuf *out,
                     const char *name, const struct tensor_rows *r,
                     const struct rows_text *t)
{
    const struct ir_graph *g = e->g;
    const int rank = g->tensors[r->tensor].rank;
    strbuf_addf(
        out,
        "\n    struct %s {\n        static constexpr int kTensor = %d, "
        "kRank = %d, kDim = %d;\n        static constexpr bool kShifted "
        "= %s;\n        static FACC_FN void at(const KernelArgs &args, "
        "const Tile &t, int (&at)[%d])\n        {\n",
        name, r->tensor, rank, r->dim, emit_bool(r->shifted), rank - 1);
    for (int d = 0; d + 1 < rank; d++)
        strbuf_addf(out, "            at[%d] = %s;\n", d, t->at[d]);
    strbuf_add(out, "        }\n    };\n");
}

/* The product that joins Q K^T. */
static void add_dot(const struct emitter *e, const struct texts *t,
                    struct strbuf *out)
{
    const struct dot_term *dot = e->config->dot;
    if (!dot)
        return;
    add_rows(e, out, "DotRows", &dot->row, &t->row);
    add_rows(e, out, "DotCols", &dot->col, &t->col);
    add_constant(out, "dot_factor", t->factor);
}

static void add_plane(const struct emitter *e, const struct plane_text *t,
                      struct strbuf *out)
{
    static const char *const type[] = {[DTYPE_F32] = "kElementF32",
                                       [DTYPE_F16] = "kElementF16",
                                       [DTYPE_BF16] = "kElementBf16"};
    const struct plane *x = &e->plane;
    if (x->rows.load == IR_NONE)
        return;
    add_rows(e, out, "PlaneRows", &x->rows, &t->rows);
    strbuf_addf(out,
                "\n    struct Plane : PlaneRows {\n"
                "        static constexpr int kType = %s;\n"
                "        static constexpr bool kOffset = %s;\n"
                "        static FACC_FN int first(const KernelArgs &args, "
                "const Tile &t) { return %s; }\n    };\n",
                type[e->g->tensors[x->rows.tensor].dtype], emit_bool(t->offset),
                t->first);
    strbuf_add(out, "\n    static FACC_FN float plane_score(const KernelArgs "
                    "&args, const Tile &t, const Row &r, const Col &k,\n"
                    "            const Diag &d, const Base &base, float s, int "
                    "q, int kv0, int c, float x)\n    {\n");
    writer_add_body(out, &t->body);
    strbuf_addf(out, "        return %s;\n    }\n", t->score);
}

static void add_variant(struct emitter *e, const struct texts *t,
                        struct strbuf *out)
{
    strbuf_add(out, "// Generated by facc.\n#pragma once\n"
                    "#include \"common/args.cuh\"\n"
                    "#include \"common/variant_math.cuh\"\n");
    strbuf_addf(out, "%s%s\nstruct Variant {\n",
                dtype_is_fp8(e->config->dtype)
                    ? "#include \"common/descales.cuh\"\n"
                    : "",
                e->verdict ? "#include \"common/interval.cuh\"\n" : "");
    strbuf_addf(out, "    static constexpr bool kHasScore = %s;\n",
                emit_bool(t->has_score));
    strbuf_addf(out, "    static constexpr bool kHasMask = %s;\n",
                emit_bool(t->has_mask));
    strbuf_addf(out, "    static constexpr bool kMaskNeedsScore = %s;\n",
                emit_bool(t->needs_score));
    strbuf_addf(out, "    static constexpr bool kAlwaysPartial = %s;\n",
                emit_bool(t->always_partial));
    strbuf_addf(out, "    static constexpr bool kReverse = %s;\n",
                emit_bool(t->reverse));
    strbuf_addf(out, "    static constexpr bool kHasOffset = %s;\n",
                emit_bool(t->offset != NULL));
    strbuf_addf(out, "    static constexpr bool kHasNarrow = %s;\n",
                emit_bool(t->narrow != NULL));
    strbuf_addf(out, "    static constexpr bool kStageCol = %s;\n",
                emit_bool(is_staged(e, PLACE_COL)));
    strbuf_addf(out, "    static constexpr bool kStageDiag = %s;\n\n",
                emit_bool(is_staged(e, PLACE_DIAG)));
    add_struct(e, out, "Tile", PLACE_TILE);
    add_struct(e, out, "Row", PLACE_ROW);
    add_struct(e, out, "Col", PLACE_COL);
    add_struct(e, out, "Diag", PLACE_DIAG);
    add_struct(e, out, "Base", PLACE_BASE);
    strbuf_add(out, "    struct KvRange {\n        int first, end;\n    };\n");
    for (int p = PLACE_TILE; p <= PLACE_BASE; p++)
        add_maker(e, out, (enum place)p);
    add_constant(out, "multiplier", t->multiplier);
    add_constant(out, "shift", t->shift);
    add_cell(e, out, "float score", PLACE_SCORE, t->score);
    add_offset(out, t->offset ? t->offset : t->offset_of_plane);
    add_narrow(out, t->narrow);
    add_cell(e, out, "bool mask", PLACE_MASK, t->mask);
    add_plane(e, &t->plane, out);
    add_dot(e, t, out);
    strbuf_add(out, "\n    static FACC_FN KvRange kv_range(const KernelArgs "
                    "&args, const Tile &t, int q_first, int q_last)\n"
                    "    {\n");
    writer_add_body(out, &e->at[PLACE_RANGE].body);
    strbuf_add(out, "    }\n\n    static FACC_FN int verdict(const KernelArgs "
                    "&args, const Tile &t, int q_first, int q_last,\n"
                    "            int kv_first, int kv_last)\n    {\n");
    writer_add_body(out, &e->at[PLACE_VERDICT].body);
    strbuf_add(out, "    }\n");
    verdict_add_text(e, out);
    strbuf_add(out, "};\n");
}

/* All of tile scope: members of Tile, or leaves. */
static void write_rows(struct emitter *e, const struct tensor_rows *r,
                       struct rows_text *t)
{
    for (int d = 0; d + 1 < e->g->tensors[r->tensor].rank; d++) {
        const ir_ref x =
            d == r->dim ? r->first : ir_arg(e->g, r->load, (uint32_t)d);
        const char *text = writer_bare(e, expr_text(e, PLACE_SCORE, x));
        t->at[d] = expr_fits_int(e->range[x])
                       ? text
                       : writer_format(e, "facc_saturate(%s)", text);
    }
}

static void write_dot(struct emitter *e, struct texts *t)
{
    const struct dot_term *dot = e->config->dot;
    if (!dot)
        return;
    write_rows(e, &dot->row, &t->row);
    write_rows(e, &dot->col, &t->col);
    t->factor = writer_bare(e, expr_text(e, PLACE_SCORE, dot->factor));
}

/* The score once more, into a place of its own, with the element as x. */
static void write_plane(struct emitter *e, const struct score_frame *frame,
                        struct texts *t)
{
    struct place_text *at = &e->at[PLACE_SCORE];
    const struct place_text score = *at;
    const ir_ref first = e->plane.first;
    bool adds;
    if (e->plane.rows.load == IR_NONE)
        return;
    write_rows(e, &e->plane.rows, &t->plane.rows);
    t->plane.first = writer_bare(e, expr_text(e, PLACE_SCORE, first));
    if (!expr_fits_int(e->range[first]))
        t->plane.first = writer_format(e, "facc_saturate(%s)", t->plane.first);
    if (!clear_text(e, at)) {
        e->failed = true;
        return;
    }
    e->by_plane = true;
    t->plane.score =
        writer_bare(e, score_plane_cell(e, frame, t->offset != NULL, &adds));
    e->by_plane = false;
    t->plane.body = at->body;
    t->plane.offset = adds || t->offset;
    if (adds)
        t->offset_of_plane =
            "        moved.by = facc_by{facc_moved(0.0f, by), true};\n";
    e->failed |= at->body.failed;
    *at = score;
}

static void write_places(struct emitter *e, const struct score_frame *frame,
                         ir_ref keep, const struct plain_bounds *bounds,
                         struct texts *t)
{
    writer_count_uses(e, PLACE_SCORE, frame->inner);
    score_pick_addend(e, frame);
    t->score = writer_bare(e, score_cell(e, frame));
    t->offset = score_offset(e, frame, t->score);
    write_plane(e, frame, t);
    t->narrow = score_narrow(e, frame);
    t->multiplier = expr_float_const(e, frame->multiplier);
    t->shift = expr_float_const(e, frame->shift);
    write_dot(e, t);
    writer_count_uses(e, PLACE_MASK, keep);
    t->mask = writer_bare(e, expr_text(e, PLACE_MASK, keep));
    t->always_partial = e->config->check_bounds;
    if (e->config->check_bounds) {
        /* every cell is looked at */
        fault_report(e, PLACE_SCORE, frame->inner, keep);
        fault_report(e, PLACE_MASK, keep, IR_NONE);
        strbuf_add(&e->at[PLACE_RANGE].body,
                   "        return KvRange{0, kMaxInt};\n");
        strbuf_add(&e->at[PLACE_VERDICT].body,
                   "        return kVerdictPartial;\n");
    } else {
        mask_range(e, keep, bounds);
        t->always_partial = !mask_verdict(e, keep, bounds);
    }
    if (e->verdict) {
        t->always_partial = false;
        verdict_place(e);
        summary_places(e);
    }
    if (e->far_bias != IR_NONE)
        far_members(e);
    for (int p = 0; p < PLACE_COUNT; p++)
        e->failed |= e->at[p].body.failed;
}

/* The file's name without folders: text must not depend on where it lies. ""
 * (no #line) for names that a directive cannot hold. */
static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    for (const char *s = name; *s; s++)
        if (*s == '"' || *s == '\\' || (unsigned char)*s < ' ')
            return "";
    return utf8_is_valid(name) ? name : "";
}

/* The files that print values recurse over operands. */
static bool is_too_deep(struct emitter *e, const struct ir_roots *roots)
{
    ir_ref *order;
    uint32_t n;
    int *depth = arena_alloc(e->arena, e->g->n_nodes * sizeof *depth);
    if (!depth || !ir_walk(e->g, roots, &order, &n)) {
        diag_nomem(e->g->diag, "emit");
        return true;
    }
    for (uint32_t k = 0; k < n; k++) {
        const struct ir_node *p = ir_node(e->g, order[k]);
        for (uint32_t j = 0; j < p->n; j++) {
            const int below = depth[ir_arg(e->g, order[k], j)] + 1;
            if (below > depth[order[k]])
                depth[order[k]] = below;
        }
        if (depth[order[k]] > MAX_DEPTH)
            return !diag_set(e->g->diag, DIAG_UNSUPPORTED, "emit", e->g->file,
                             (int)p->line,
                             "a value is made by more than %d operations in a "
                             "chain: too long for a kernel",
                             MAX_DEPTH);
    }
    return false;
}

bool emit_variant(struct ir_graph *g, const struct ir_roots *roots,
                  const struct verdict_program *v, const struct unit_config *c,
                  struct strbuf *out)
{
    struct emitter e = {.g = g, .arena = out->arena, .config = c};
    struct plain_bounds bounds;
    struct score_frame frame;
    if (c->dot)
        roots = &c->dot->roots;
    e.file = base_name(g->file);
    e.var_b = ir_var(g, IR_VAR_B);
    e.verdict = emit_planned(v, c) ? v : NULL;
    if (is_too_deep(&e, roots))
        return false;
    if ((c->plane_bytes && !pass_plane(g, roots->score, &e.plane)) ||
        !score_split(g, roots->score, &frame) ||
        !pass_bounds(g, roots->keep, &bounds) ||
        !facts(&e, &(struct ir_roots){frame.inner, roots->keep}) ||
        !far_facts(&e, &frame, &bounds)) {
        diag_nomem(g->diag, "emit");
        return false;
    }
    struct texts t = {
        .has_score = !ir_is(g, roots->score, IR_SCORE),
        .has_mask =
            !ir_is(g, roots->keep, IR_CONST_B) || !ir_node(g, roots->keep)->i,
        .needs_score = ir_node(g, roots->keep)->deps & IR_DEP_SCORE,
        .reverse = order_is_reverse(&e, frame.inner, &bounds),
    };
    for (int round = 0; round < 2 && !e.failed; round++) {
        e.counting = round == 0;
        if (clear_places(&e))
            write_places(&e, &frame, roots->keep, &bounds, &t);
        else
            e.failed = true;
    }
    if (!e.failed)
        add_variant(&e, &t, out);
    if (e.failed || out->failed || g->failed) {
        diag_nomem(g->diag, "emit");
        return false;
    }
    return true;
}

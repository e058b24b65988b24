/* tile_verdict: a verdict program as straight-line CUDA. In: its slots; out:
 * the body, and with summary.c's part all members that the kernels of
 * schedules need. Only what a root asks for is printed. Called by variant.c;
 * emit_planned by unit.c, explain.c and the runtime, too. */
#include "compiler/emit/writer.h"

#include <string.h>

/* --- what can be decided ------------------------------------------------- */

/* Of a bool slot: IV_FALSE, IV_TRUE: it says always that it may be so. */
static unsigned always_of(const struct verdict_program *v, int slot,
                          const unsigned *always)
{
    const struct verdict_slot *s = &v->slot[slot];
    unsigned any = 0, all = IV_BOTH;
    if (s->kind == SLOT_ANY)
        return IV_BOTH;
    if (s->kind != SLOT_OP || s->type != IR_BOOL)
        return 0;
    for (int k = 0; k < s->n; k++) {
        any |= always[v->arg[s->first + k]];
        all &= always[v->arg[s->first + k]];
    }
    if (s->op == IR_AND)
        return (any & IV_FALSE) | (all & IV_TRUE);
    if (s->op == IR_OR)
        return (any & IV_TRUE) | (all & IV_FALSE);
    if (s->op == IR_NOT)
        return any == IV_FALSE ? IV_TRUE : any == IV_TRUE ? IV_FALSE : any;
    return 0;
}

static void find_always(const struct verdict_program *v, unsigned *always)
{
    for (int k = 0; k < v->n_slots; k++)
        always[k] = always_of(v, k, always);
}

/* Can the program say anything but PARTIAL? By the shape of its logic alone,
 * slots that are not boolean count as known. */
static bool decides(const struct verdict_program *v)
{
    unsigned always[1024];
    if (v->n_slots > (int)(sizeof always / sizeof *always))
        return true; /* nobody knows: a plan that never decides is right, too */
    find_always(v, always);
    return always[v->root] != IV_BOTH ||
           (v->empty_root >= 0 && !(always[v->empty_root] & IV_TRUE)) ||
           (v->full_root >= 0 && !(always[v->full_root] & IV_TRUE));
}

bool emit_planned(const struct verdict_program *v, const struct unit_config *c)
{
    if (!v || v->tier == TIER_NONE || v->plain || c->check_bounds ||
        v->root < 0)
        return false;
    return v->tier != TIER_OPAQUE || decides(v);
}

/* --- what is needed ------------------------------------------------------ */

struct slots {
    const struct verdict_program *v;
    unsigned *always;
    unsigned *need; /* by slot: IV_FALSE, IV_TRUE; any of it of a number */
    struct iv *iv;
    struct iv *operand; /* of one slot */
};

static bool slots_open(struct emitter *e, struct slots *s)
{
    const size_t n = (size_t)e->verdict->n_slots + 1;
    int most = 0;
    *s = (struct slots){.v = e->verdict};
    for (int k = 0; k < s->v->n_slots; k++)
        most = s->v->slot[k].n > most ? s->v->slot[k].n : most;
    s->always = arena_alloc(e->arena, n * sizeof *s->always);
    s->need = arena_alloc(e->arena, n * sizeof *s->need);
    s->iv = arena_alloc(e->arena, n * sizeof *s->iv);
    s->operand = arena_alloc(e->arena, ((size_t)most + 3) * sizeof *s->iv);
    e->failed |= !s->always || !s->need || !s->iv || !s->operand;
    return !e->failed;
}

static void need_operands(struct slots *s, int slot)
{
    const struct verdict_slot *x = &s->v->slot[slot];
    /* what is always so is said without looking */
    unsigned need = s->need[slot] & ~s->always[slot];
    if (need == 0)
        return;
    if (x->op == IR_NOT && x->kind == SLOT_OP)
        need =
            (need & IV_FALSE ? IV_TRUE : 0) | (need & IV_TRUE ? IV_FALSE : 0);
    else if (!(x->kind == SLOT_OP && (x->op == IR_AND || x->op == IR_OR)))
        need = IV_BOTH;
    for (int k = 0; k < x->n; k++)
        s->need[s->v->arg[x->first + k]] |= need;
}

static void find_needs(struct slots *s)
{
    const struct verdict_program *v = s->v;
    s->need[v->root] |= IV_BOTH;
    if (v->empty_root >= 0)
        s->need[v->empty_root] |= IV_TRUE;
    if (v->full_root >= 0)
        s->need[v->full_root] |= IV_TRUE;
    for (int k = v->n_slots; k-- > 0;)
        need_operands(s, k);
}

/* --- slots --------------------------------------------------------------- */

static struct iv position(struct emitter *e, const struct verdict_slot *x)
{
    const bool q = x->kind == SLOT_Q;
    if (x->summary >= 0)
        return summary_iv(e, x->summary);
    return (struct iv){.type = IR_INT,
                       .lo = q ? "q_first" : "kv_first",
                       .hi = q ? "q_last" : "kv_last",
                       .x = e->range[x->node]};
}

static struct iv slot_iv(struct emitter *e, struct slots *s, int slot)
{
    const struct verdict_slot *x = &s->v->slot[slot];
    const unsigned need = s->need[slot] & ~s->always[slot];
    for (int k = 0; k < x->n; k++)
        s->operand[k] = s->iv[s->v->arg[x->first + k]];
    if (x->type == IR_BOOL && need == 0)
        return iv_anything(e, x->node);
    switch (x->kind) {
    case SLOT_TILE:
        return iv_of_node(e, PLACE_PLAN, x->node);
    case SLOT_SUMMARY:
        return summary_iv(e, x->summary);
    case SLOT_Q:
    case SLOT_KV:
        return position(e, x);
    case SLOT_LINEAR:
        return iv_of_sum(e, PLACE_PLAN, x->node, x->op, x->c,
                         s->v->coef + x->first, s->operand, x->n, need);
    case SLOT_OP:
        return iv_of_op(e, PLACE_PLAN, x->node, x->op, s->operand, x->n, need);
    case SLOT_LOAD:
        return iv_of_load(e, PLACE_PLAN, x->node, s->operand, x->n);
    case SLOT_ANY:
        break;
    }
    return iv_anything(e, x->node);
}

/* --- the body ------------------------------------------------------------ */

/* A disjunctive form decides alone. */
static void add_form(struct emitter *e, const struct slots *s, int root,
                     const char *verdict)
{
    if (e->failed || root < 0 || (s->always[root] & IV_TRUE))
        return;
    const char *t = s->iv[root].t;
    if (strcmp(t, "true") != 0)
        strbuf_addf(&e->at[PLACE_PLAN].body,
                    "        if (!%s)\n            return %s;\n", t, verdict);
}

void verdict_place(struct emitter *e)
{
    struct strbuf *out = &e->at[PLACE_PLAN].body;
    struct slots s;
    if (!slots_open(e, &s))
        return;
    find_always(s.v, s.always);
    find_needs(&s);
    const bool forms = s.v->empty_root >= 0 || s.v->full_root >= 0;
    for (int k = 0; k < s.v->n_slots && !e->failed; k++) {
        if (s.need[k])
            s.iv[k] = slot_iv(e, &s, k);
        if (k != s.v->root)
            continue;
        if (forms)
            strbuf_addf(out,
                        "        const int all = facc_verdict(%s, %s);\n"
                        "        if (all != kVerdictPartial)\n"
                        "            return all;\n",
                        s.iv[k].f, s.iv[k].t);
        else
            strbuf_addf(out, "        return facc_verdict(%s, %s);\n",
                        s.iv[k].f, s.iv[k].t);
    }
    add_form(e, &s, s.v->empty_root, "kVerdictEmpty");
    add_form(e, &s, s.v->full_root, "kVerdictFull");
    if (forms)
        strbuf_add(out, "        return kVerdictPartial;\n");
}

/* --- text ---------------------------------------------------------------- */

static void add_plan(struct emitter *e, struct strbuf *out)
{
    summary_add_text(e, out);
    strbuf_add(out, "    static FACC_FN int tile_verdict(const KernelArgs "
                    "&args, const Tile &t, int q_first, int q_last,\n"
                    "            const QSummary &qs, int kv_first, int "
                    "kv_last, const KvSummary &ks)\n    {\n");
    writer_add_body(out, &e->at[PLACE_PLAN].body);
    strbuf_add(out, "    }\n");
}

/* Of a program without a plan: verdict() says all there is. */
static void add_no_plan(struct strbuf *out)
{
    summary_add_nothing(out);
    strbuf_add(out, "    static FACC_FN int tile_verdict(const KernelArgs "
                    "&args, const Tile &t, int q_first, int q_last,\n"
                    "            const QSummary &, int kv_first, int kv_last, "
                    "const KvSummary &)\n    {\n"
                    "        return verdict(args, t, q_first, q_last, "
                    "kv_first, kv_last);\n    }\n");
}

void verdict_add_text(struct emitter *e, struct strbuf *out)
{
    const struct verdict_program *v = e->verdict;
    strbuf_addf(out,
                "\n    static constexpr bool kPlanned = %s, kScanned = %s, "
                "kHalved = %s;\n",
                emit_bool(v), emit_bool(v && v->tier == TIER_SCANNED),
                emit_bool(v && v->halve));
    if (v)
        add_plan(e, out);
    else
        add_no_plan(out);
}

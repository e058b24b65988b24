/* What the files of pass_verdict share: a program of slots while it grows. */
#ifndef FACC_VERDICT_BUILD_H
#define FACC_VERDICT_BUILD_H

#include "compiler/passes/verdict.h"

/* Where a slot's claim has to hold: at cells whose row passes side[SIDE_Q] and
 * whose column passes side[SIDE_KV]; IR_NONE: all do. */
struct verdict_guards {
    ir_ref side[SIDES];
};

struct verdict_builder {
    struct ir_graph *g;
    struct verdict_program *p;
    struct verdict_guards *guards; /* by slot */
    const bool *scanned;           /* by node: a load out of reach */
    uint32_t n_scanned;            /* entries */
    int cap_slots, n_args, cap_args, cap_summaries;
    int depth;    /* of nested operands */
    bool no_room; /* a capacity was reached: some slot is SLOT_ANY */
};

static inline bool verdict_is_tile(const struct ir_graph *g, ir_ref r)
{
    return !(ir_node(g, r)->deps & (IR_DEP_Q | IR_DEP_KV | IR_DEP_SCORE));
}

/* Of q alone or of kv alone, not of the score; *side says which. */
static inline bool verdict_is_one_sided(const struct ir_graph *g, ir_ref r,
                                        enum verdict_side *side)
{
    unsigned deps = ir_node(g, r)->deps;
    unsigned of = deps & (IR_DEP_Q | IR_DEP_KV | IR_DEP_SCORE);
    *side = of == IR_DEP_Q ? SIDE_Q : SIDE_KV;
    return of == IR_DEP_Q || of == IR_DEP_KV;
}

static inline bool verdict_is_two_sided(const struct ir_graph *g, ir_ref r)
{
    const unsigned both = IR_DEP_Q | IR_DEP_KV;
    return (ir_node(g, r)->deps & both) == both;
}

static inline bool verdict_is_logic(const struct ir_graph *g, ir_ref r)
{
    return ir_is(g, r, IR_AND) || ir_is(g, r, IR_OR);
}

/* --- verdict_build.c */
/* The slot of r's value under guards; -1 when the graph failed. */
int verdict_slot(struct verdict_builder *b, ir_ref r,
                 struct verdict_guards guards);
/* The slot of a disjunction of parts. */
int verdict_slot_or(struct verdict_builder *b, const ir_ref *part, int n);

/* --- verdict_logic.c: AND and OR */
/* An index, linear forms of it and tile terms, comparisons of these with 0
 * and their logic: intervals are exact for them. */
bool verdict_is_affine(const struct ir_graph *g, ir_ref r);
/* Operands of an AND or OR for slots. */
struct verdict_operands {
    ir_ref *node;
    struct verdict_guards *guards; /* of each */
    int n, n_implied;              /* the last ones follow from the others */
};
/* In scratch memory. False: the graph failed. */
bool verdict_operands(struct ir_graph *g, ir_ref r, struct verdict_guards outer,
                      struct verdict_operands *out);

/* --- verdict_implied.c */
enum { VERDICT_MAX_IMPLIED = 16 };
/* Appends what operands of r imply to the *n nodes of `out`, which has room
 * for VERDICT_MAX_IMPLIED more. False: the graph failed. */
bool verdict_implied(struct ir_graph *g, ir_ref r, ir_ref *out, int *n);

/* --- verdict_carry.c */
enum { VERDICT_MAX_CARRIED = 8 };
/* Appends to the n[] operands of each side of an `op` what its mixed ones carry
 * there, for which there is room for VERDICT_MAX_CARRIED more. False: the graph
 * failed. */
bool verdict_carry(struct ir_graph *g, enum ir_op op, const ir_ref *mixed,
                   int n_mixed, ir_ref *const side[SIDES], int n[SIDES]);

/* --- verdict_dnf.c */
/* A disjunctive form of r: *n parts (graph's scratch), each free of
 * disjunctions if it could be helped; 0 when there are too many, or when r is
 * of that form as it stands. False: memory. */
bool verdict_dnf(struct ir_graph *g, ir_ref r, ir_ref **part, int *n);

/* --- verdict_reach.c */
/* Loads by both indices that reach more than VERDICT_MAX_REACH elements from a
 * tile of usual size: one entry per node of the graph (arena). NULL:
 * memory. */
bool *verdict_reach(struct ir_graph *g, const ir_ref *order, uint32_t n);

/* --- verdict_halve.c */
/* Whether smaller rectangles may decide what a tile leaves open. False with
 * the graph failed: memory. */
bool verdict_halves(struct ir_graph *g, const ir_ref *order, uint32_t n);

#endif

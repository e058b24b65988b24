/* What a list of literals says together. Every literal is a statement about
 * one integer: X >= v, X <= v, X == v or X ~= v, where X is the linear form
 * of a GE0 or EQ0 up to sign; any other boolean is an integer that is 0 or 1.
 * The conjunction of all statements about one X is a range without some
 * points. Disjunctions are handled as the negation of the conjunction of
 * their negations (`negate`). Used by logic.c only. */
#ifndef FACC_FACTS_H
#define FACC_FACTS_H

#include "compiler/ir/ir.h"

struct fact;
struct hole;

struct facts { /* arrays live in the graph's scratch */
    struct ir_graph *g;
    bool negate; /* literals are taken negated: the list is a disjunction */
    struct fact *fact;
    uint32_t n;
    struct hole *hole;
    uint32_t n_hole;
    uint32_t *table; /* open addressing, 1 + index of a fact */
    uint32_t mask;
};

/* Room for `cap` literals. False when memory is out. */
bool facts_init(struct facts *f, struct ir_graph *g, bool negate, uint32_t cap);
/* False when r is no literal (constant, AND, OR). */
bool facts_is_literal(const struct ir_graph *g, ir_ref r);
/* Whether two literals are about different things, so that neither says
 * anything about the other. */
bool facts_unrelated(const struct ir_graph *g, ir_ref a, ir_ref b);
void facts_add(struct facts *f, ir_ref literal);
/* Joins what was added. False: it contradicts itself. */
bool facts_settle(struct facts *f);
/* Of a literal, as the list sees it: 1 follows, -1 is excluded, 0 open. */
int facts_truth(const struct facts *f, ir_ref literal);
/* The shortest literals that say the same, at most as many as were added.
 * *built: some are new nodes, possibly no literals. */
uint32_t facts_literals(struct facts *f, ir_ref *out, bool *built);

#endif

/* Mask verdicts: what the mask says about a whole rectangle of cells, without
 * looking at them. EMPTY: all are masked, FULL: all count, PARTIAL: unknown.
 *
 * pass_verdict turns the mask into a program of slots, each an interval (or,
 * for booleans, what it may be), evaluated in order over a rectangle. Parts of
 * the mask that depend on q alone or on kv alone are not bounded but
 * summarised: their exact minimum and maximum (any false, any true) over the
 * rectangle's rows or columns come from tables that a linear-time pass makes.
 * Two consumers: verdict_eval.c interprets it on the CPU, emit/verdict.c
 * prints it as CUDA for the kernels that make a schedule. */
#ifndef FACC_VERDICT_H
#define FACC_VERDICT_H

#include "compiler/ir/eval.h"
#include "compiler/ir/interval.h"
#include "compiler/ir/ir.h"

/* Bit 0: a cell may be masked, bit 1: a cell may count. */
enum verdict { VERDICT_EMPTY = 1, VERDICT_FULL = 2, VERDICT_PARTIAL = 3 };

/* What a verdict needs to know. */
enum mask_tier {
    TIER_NONE,     /* no mask */
    TIER_ANALYTIC, /* lengths and params only */
    TIER_RANGED,   /* also summaries of captured tensors, linear in S */
    TIER_SCANNED,  /* also the cells: reads a tensor by both q and kv */
    TIER_OPAQUE    /* reads the score: known at no time before the kernel */
};
const char *mask_tier_name(enum mask_tier t); /* "none" "analytic" … */

enum verdict_side { SIDE_Q, SIDE_KV };
enum { SIDES = 2 };

/* Over the positions of one side where the guard holds: least and greatest
 * value; of a bool, whether it is anywhere false and anywhere true. Where no
 * position passes the guard: lo > hi, neither false nor true. */
struct verdict_summary {
    enum verdict_side side;
    ir_ref node;  /* of q (or kv), b, h, params, tensors of these */
    ir_ref guard; /* bool of the same side, or IR_NONE: all positions */
};

enum slot_kind {
    SLOT_TILE,    /* node of tile scope: its value */
    SLOT_SUMMARY, /* summary[summary] */
    SLOT_Q,       /* rows of the rectangle; summary >= 0: only the hull */
    SLOT_KV,      /* of those positions that pass a guard (a summary) */
    SLOT_LINEAR,  /* c + sum coef * arg; by the node's op, or its type where
                     `op` is IR_LIN: that sum, its >= 0, its == 0 */
    SLOT_OP,      /* op by its interval rule (AND, OR of n operands too) */
    SLOT_LOAD,    /* tensor by index intervals: all elements in reach, if at
                     most VERDICT_MAX_REACH, else the element type's range */
    SLOT_ANY      /* may be anything of its type */
};
enum { VERDICT_MAX_REACH = 256 };

struct verdict_slot {
    enum slot_kind kind;
    enum ir_op op;
    enum ir_type type;
    ir_ref node;   /* whose Lua line it is; value of SLOT_TILE; the LOAD;
                      IR_NONE: the OR of a disjunctive form */
    int summary;   /* index, or -1 */
    int64_t c;     /* SLOT_LINEAR */
    int n, first;  /* operands: verdict_program.arg, coef */
    int n_implied; /* AND, OR: the last ones, which the others imply. They say
                      nothing of bad reads: only the mask's own operands
                      decide whether such a read matters */
};

struct verdict_program { /* everything in the graph's arena */
    enum mask_tier tier;
    ir_ref cause; /* what put it there: the part of the mask that reads
                     tensors, both indices, or the score; else IR_NONE */
    bool plain;   /* nothing but plain bounds (bounds.c): no schedule needed */
    bool halve;   /* PARTIAL rectangles are worth cutting into granules */
    bool cut;     /* too large: parts of the mask count as unknown */
    uint8_t deps; /* IR_DEP_B, IR_DEP_H of the mask, lengths included */
    struct verdict_slot *slot;
    int n_slots;
    int *arg; /* slots before the one that uses them */
    int64_t *coef;
    int root; /* the mask itself */
    /* A disjunctive form of the mask and of its negation, or -1: where the
     * first cannot be true the verdict is EMPTY, where the second cannot be
     * true it is FULL, whatever root says. */
    int empty_root, full_root;
    struct verdict_summary *summary;
    int n_summaries;
};

/* verdict.c. requires: keep after lift and congruence; leaves keep as it is,
 * adds nodes. Capacities (conjuncts, slots) end in SLOT_ANY or in a missing
 * disjunctive form, never in a wrong verdict. False: memory, diag filled. */
bool pass_verdict(struct ir_graph *g, ir_ref keep, struct verdict_program *out);

/* An int whose ends take 64 bits in a record. */
bool verdict_is_wide(const struct ir_graph *g, const struct verdict_summary *s);
/* Bytes of one side's record of summaries in kernels: 8-byte members first
 * (ints beyond 32 bits: two), then 4-byte ones (ints, floats: two), then
 * bytes (bools: two, floats: one for NaN), rounded up to its alignment. 0
 * without summaries of that side. */
int verdict_summary_bytes(const struct ir_graph *g,
                          const struct verdict_program *p,
                          enum verdict_side side);

/* --- verdict_plan.c, verdict_eval.c: the interpreter --------------------- */

enum { VERDICT_GRANULE = 8 }; /* rows and columns of what halving ends in */

/* What the interpreter needs of a program: immutable, shared by threads while
 * the graph grows. In the graph's arena; keeps p. NULL: memory, diag filled. */
struct verdict_plan;
struct verdict_plan *verdict_plan_new(struct ir_graph *g,
                                      const struct verdict_program *p);

/* One thread's scratch, as large as the longest used length wants. NULL when
 * memory is out. Everything borrowed for its life. The precision is that of
 * the cells the verdicts are about. */
struct verdict_state;
struct verdict_state *verdict_state_new(const struct verdict_plan *plan,
                                        enum eval_precision prec,
                                        const struct eval_env *env);
void verdict_state_free(struct verdict_state *s);
/* Makes the tables of (b, h), which all calls below are about, in time and
 * memory linear in the used lengths; remade only if the mask depends on what
 * changed. A captured tensor read outside its bounds where that may matter
 * makes a verdict PARTIAL, so that whoever asks cells finds it. */
void verdict_state_head(struct verdict_state *s, int64_t b, int64_t h);
/* Of rows q_first .. q_last and columns kv_first .. kv_last, inclusive, inside
 * the lengths. */
enum verdict verdict_eval(struct verdict_state *s, int64_t q_first,
                          int64_t q_last, int64_t kv_first, int64_t kv_last);
/* The same without halving: for large rectangles. */
enum verdict verdict_eval_whole(struct verdict_state *s, int64_t q_first,
                                int64_t q_last, int64_t kv_first,
                                int64_t kv_last);

#endif

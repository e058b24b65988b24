/* One transformation or analysis per file. Passes rewrite roots in place and
 * add nodes to the graph; analyses only read. All return false after filling
 * the graph's diag. */
#ifndef FACC_PASSES_H
#define FACC_PASSES_H

#include "compiler/ir/ir.h"

/* lift.c. requires: any roots; leaves: -inf arms of the score moved into
 * keep (they are mask, not value). */
bool pass_lift(struct ir_graph *g, struct ir_roots *roots);

/* congruence.c. In "x == y and P" uses x for y in P where that is smaller.
 * requires: keep in negation normal form; leaves: the same, never larger. */
bool pass_congruence(struct ir_graph *g, struct ir_roots *roots);
/* A trial may leave 64 bits although the mask does not: then it is no
 * improvement, and the graph is as before. Memory stays an error. */
void pass_recover(struct ir_graph *g);

/* scope.c. How often a value must be computed. */
enum scope {
    SCOPE_TILE, /* b, h, sizes, params: once per (b, h) */
    SCOPE_ROW,  /* also q: once per row */
    SCOPE_COL,  /* also kv: once per column of a KV tile */
    SCOPE_DIAG, /* of q and kv only through q - kv */
    SCOPE_CELL  /* anything else, or of the score */
};
const char *scope_name(enum scope s);
/* One entry per node of the graph at the time of the call (arena). */
bool pass_scope(struct ir_graph *g, enum scope **of);
/* How many elements of captured tensors r loads for every cell, however its
 * values are kept. False: memory. */
bool pass_cell_loads(struct ir_graph *g, ir_ref r, int *out);

/* affine.c. score = alpha * SCORE + beta (+ the exact form of an outer
 * factor: score = outer * inner). Refs are IR_NONE when not so. */
struct affine_score {
    bool affine; /* alpha, beta valid; neither depends on SCORE,
                    alpha is of tile scope */
    ir_ref alpha, beta;
    ir_ref outer, inner; /* outer is tile scope and not 1, else IR_NONE */
};
bool pass_affine_score(struct ir_graph *g, ir_ref score,
                       struct affine_score *out);
/* r = kq * q + kkv * kv + rest, rest free of q and kv. r is an int, or the
 * form of a GE0 or EQ0. */
struct affine_index {
    bool affine;
    int64_t kq, kkv;
    ir_ref rest;
};
bool pass_affine_index(struct ir_graph *g, ir_ref r, struct affine_index *out);

/* Rows of a captured tensor, each of neighbours in memory: of the vectors of
 * rows, or of columns, that a DOT multiplies; of the elements of cells. */
struct tensor_rows {
    ir_ref load; /* of the first element */
    int tensor, dim;
    ir_ref first; /* q, or kv, plus this is the index in `dim`; the other
                     indices but the last are of tile scope */
    bool shifted; /* first is not 0 */
};

/* Says in which dimension the rows lie, and from which index on. */
void pass_rows_lie(const struct ir_graph *g, struct tensor_rows *r, int dim,
                   ir_ref first);

/* A captured tensor of which the score reads the element (…, q + …, …, kv +
 * first) in each cell: a tile's are rows of neighbours, which a kernel can copy
 * before they are needed. */
struct plane {
    struct tensor_rows rows; /* load IR_NONE: none, or of types that are not
                             copied */
    ir_ref first;            /* of tile scope */
    int bytes;               /* of an element: 2 or 4 */
};
/* The first one that the score reads. */
bool pass_plane(struct ir_graph *g, ir_ref score, struct plane *out);

/* bounds.c. The conjuncts of keep that are plain bounds, kq * q + kkv * kv +
 * rest >= 0 with rest of tile scope (causal, windows, lengths); an equation
 * is two. kq and kkv may both be 0 (a tile is all in or all out; keep == false
 * is one with rest -1). `exact` when keep is nothing but these. */
struct plain_bound {
    int64_t kq, kkv;
    ir_ref rest; /* int, tile scope */
};
struct plain_bounds {
    struct plain_bound *bound; /* arena */
    int n;
    bool exact;
};
bool pass_bounds(struct ir_graph *g, ir_ref keep, struct plain_bounds *out);
/* Whether its two sides over any tile stay within 64 bits, for a rest in
 * [rest_lo, rest_hi]. A bound without q and kv is none: it is a condition. */
bool plain_bound_is_usable(const struct plain_bound *b, int64_t rest_lo,
                           int64_t rest_hi);
/* keep is nothing but usable bounds and conditions of tile scope: the corners
 * of a tile decide its verdict. */
bool pass_plain(struct ir_graph *g, ir_ref keep, bool *plain);

/* far.c. A value of q - kv is one and the same for all q - kv >= before, and
 * one (perhaps another) for all q - kv <= -after. */
enum { FAR_NONE = -1 };
struct far_diagonals {
    bool found;        /* there are few other diagonals, and many such */
    int before, after; /* the least ones, from 0 on; FAR_NONE: the mask leaves
                          no such cell */
};
/* r is of SCOPE_DIAG; mask: what pass_bounds says of it. */
bool pass_far(struct ir_graph *g, ir_ref r, const struct plain_bounds *mask,
              struct far_diagonals *out);

/* dot.c. score = F(SCORE + factor * DOT): a product of vectors that kernels
 * make beside Q K^T. */
struct dot_term {
    ir_ref dot; /* IR_NONE: no such product */
    ir_ref factor;
    struct ir_roots roots; /* in score, SCORE stands for SCORE + factor * DOT */
    struct tensor_rows row, col;
    int n;            /* elements of a vector */
    enum dtype dtype; /* of both tensors */
    ir_ref cell;     /* a DOT of q and kv that is no such product, or IR_NONE */
    const char *why; /* it is none */
};
bool pass_dot(struct ir_graph *g, const struct ir_roots *roots,
              struct dot_term *out);

#endif

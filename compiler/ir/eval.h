/* Runs a mod on the CPU over vectors of cells: the oracle, the CPU backend
 * and the folding of constants. Values that depend on b and h alone are made
 * once per tile, column values once per column, row values once per row,
 * the rest per cell.
 *
 * Precision: EVAL_F64 computes floats as double, bit for bit what the Lua VM
 * computes on numbers; EVAL_F32 as float, what kernels compute. Ints are
 * int64_t in both. */
#ifndef FACC_EVAL_H
#define FACC_EVAL_H

#include "compiler/ir/ir.h"

enum eval_precision { EVAL_F32, EVAL_F64 };

/* A captured tensor as passed: strides in elements, any sign. */
struct eval_tensor {
    const void *data;
    int64_t shape[IR_MAX_RANK];
    int64_t stride[IR_MAX_RANK];
};

union eval_value { /* a param: .i for I32/I64, .f for F32 */
    int64_t i;
    double f;
};

struct eval_env { /* borrowed for the life of the state */
    int64_t B, H, Hkv, Sq, Skv, D, Dv;
    const int32_t *len_q;              /* [B] used lengths, or NULL: Sq */
    const int32_t *len_kv;             /* [B] or NULL: Skv */
    const struct eval_tensor *tensors; /* by graph order */
    const union eval_value *params;    /* by graph order */
};

/* Used length of sequence b. */
static inline int64_t eval_env_len(const struct eval_env *e, bool kv, int64_t b)
{
    const int32_t *len = kv ? e->len_kv : e->len_q;
    return len != NULL ? len[b] : kv ? e->Skv : e->Sq;
}

/* A compiled order of evaluation: immutable, shared by threads. */
struct eval_plan;
struct eval_plan *eval_plan_new(struct arena *a, struct ir_graph *g,
                                const struct ir_roots *roots);
bool eval_plan_has_score(const struct eval_plan *p); /* false: identity */
bool eval_plan_has_mask(const struct eval_plan *p);  /* false: all kept */
/* True: keep cannot be asked for without scores (`score > 0 and …`). */
bool eval_plan_mask_reads_score(const struct eval_plan *p);

/* A plan for values that depend on one of q and kv, over many positions at
 * once (tables of summaries). The nodes read neither the other side's index
 * nor the score. */
struct eval_plan *eval_plan_new_side(struct arena *a, const struct ir_graph *g,
                                     uint32_t n, const ir_ref *nodes);

/* One thread's scratch for tiles of up to max_kv columns. NULL when memory
 * is out. */
struct eval_state;
struct eval_state *eval_state_new(const struct eval_plan *p,
                                  enum eval_precision prec, int max_kv,
                                  const struct eval_env *env);
void eval_state_free(struct eval_state *s);

/* Sets the tile: sequence b, head h, columns kv0 .. kv0 + n_kv - 1. */
bool eval_tile(struct eval_state *s, int64_t b, int64_t h, int64_t kv0,
               int n_kv, struct diag *d);
/* One row of the tile. score: n_kv floats (or doubles with EVAL_F64), already
 * scaled, replaced by the mod's values. keep: n_kv bytes, 0 or 1. Either may
 * be NULL. A read outside a captured tensor whose value reaches a kept
 * cell's result is an error naming tensor, index and Lua line
 * (DIAG_BOUNDS); one that does not matter (unselected branch, masked cell)
 * is not. */
bool eval_row(struct eval_state *s, int64_t q, void *score, uint8_t *keep,
              struct diag *d);

/* The same where block lists have a say: given[i] as enum verdict, bit 0 the
 * cell may be masked, bit 1 it may count, both: the mask decides. Masked cells
 * report no bad reads, cells that count none of the mask. NULL: the mask
 * decides all. */
bool eval_row_given(struct eval_state *s, int64_t q, const uint8_t *given,
                    void *score, uint8_t *keep, struct diag *d);

/* Of a plan by eval_plan_new_side: makes the values of sequence b, head h at
 * positions first .. first + n - 1. */
void eval_side(struct eval_state *s, int64_t b, int64_t h, int64_t first,
               int n);
/* Value k of the plan's nodes: uint8_t, int64_t, or float (double in
 * EVAL_F64). Valid until the next eval_side. */
struct eval_column {
    const void *value;  /* by position; one element unless wide */
    const uint8_t *bad; /* hangs on a read outside a tensor; NULL: none */
    bool wide;          /* depends on the position */
};
struct eval_column eval_side_value(const struct eval_state *s, uint32_t k);

/* Rough cost of one cell in abstract ops, for choosing tiles and reports. */
int eval_plan_cost(const struct eval_plan *p);
/* Instructions of a GPU's function unit that the mods add to a cell's exp. */
int eval_plan_functions(const struct eval_plan *p);

/* One op on constants, f64 semantics: what the DSL's functions give for
 * plain Lua numbers. Only rows with an eval column and float/int operands. */
union eval_value eval_op_f64(enum ir_op op, const union eval_value *x);

#endif

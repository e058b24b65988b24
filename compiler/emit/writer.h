/* What the files of compiler/emit share: the text of `struct Variant` while
 * it grows. A place is one of its functions; a member is a value that a place
 * of wider scope hands to the narrower ones. Text is asked for from the
 * narrowest places outward: asking for a wider value is what makes it a
 * member. Sticky: after running out of memory every text is "" and
 * emitter.failed is set. */
#ifndef FACC_EMIT_WRITER_H
#define FACC_EMIT_WRITER_H

#include "compiler/emit/emit.h"
#include "compiler/passes/passes.h"

enum place {
    PLACE_TILE,
    PLACE_ROW,
    PLACE_COL,
    PLACE_DIAG,
    PLACE_BASE,
    PLACE_SCORE, /* score */
    PLACE_MASK,
    PLACE_RANGE, /* kv_range */
    PLACE_VERDICT,
    PLACE_PLAN,   /* tile_verdict */
    PLACE_Q_ADD,  /* q_add */
    PLACE_KV_ADD, /* kv_add */
    PLACE_COUNT
};

/* From this cost on a value of the diagonal is worth a table. */
enum { COSTLY = 9 };

enum member_kind {
    MEMBER_VALUE,           /* the node's value */
    MEMBER_LOG2,            /* its value times log2(e) */
    MEMBER_SCALE,           /* float value times the softmax scale */
    MEMBER_SCALE_LOG2,      /* the same times log2(e) */
    MEMBER_RECIPROCAL,      /* 1 / float value */
    MEMBER_RECIPROCAL_LOG2, /* the same times log2(e) */
    MEMBER_OFFSET,     /* elements: the part of a load's offset known here */
    MEMBER_PART,       /* the part of a sum or of n-ary logic known here */
    MEMBER_PART_NEG,   /* minus that part of a sum */
    MEMBER_FORM,       /* linear form at the base's first column */
    MEMBER_FORM_SAT,   /* the same, saturated to 32 bits */
    MEMBER_FORM_FLOAT, /* the same as a float */
    MEMBER_FAULT,      /* checked builds: its first bad read, or 0 */
    MEMBER_SLOPE,      /* … times a tile value `by` times log2(e) */
    MEMBER_ADDEND,     /* a value of wider scope times log2(e), once more */
    MEMBER_NARROW      /* by * tanh(value * scale * s) times log2(e), s small */
};

struct member {
    enum place place;
    enum member_kind kind;
    ir_ref node, by;  /* by: a factor of MEMBER_SLOPE, _NARROW, else IR_NONE */
    const char *name; /* "t.t1" as used, the member itself after the dot */
    const char *type;
    const char *value;        /* text in its place; NULL: another member's */
    int next_key, next_value; /* see emitter.by_key */
};
enum { MEMBER_BUCKETS = 1024 };

struct range {
    int64_t lo, hi;
};

/* How the score leaves the cell: score * log2(e) = multiplier * cell + shift.
 * The kernel multiplies in its exponent's FMA, so the multiplier is positive;
 * the shift, common to a row's cells, only goes into the LSE. */
struct score_frame {
    ir_ref inner;    /* what the cell computes: its value, */
    bool tanh_below; /* or facc_tanh_below of it (it is twice tanh's operand) */
    bool log2;       /* the cell's value is times log2(e), multiplier is 1 */
    double multiplier, shift;
    ir_ref alpha, outer; /* score = outer * tanh_fast(alpha * SCORE), both of
                            tile scope; IR_NONE: it is not so */
};

struct place_text {
    struct strbuf body; /* statements */
    const char **local; /* per node: name of its local variable, or NULL */
    const char **fault; /* the same of its fault, */
    const char **log2;  /* and of its value times log2(e) */
    uint32_t *uses;     /* per node: how often this place asks for it */
    int n_locals, n_members;
};

struct emitter {
    struct ir_graph *g;
    struct arena *arena; /* of text */
    const struct unit_config *config;
    const char *file;            /* of #line */
    enum scope *scope;           /* per node */
    struct range *range;         /* per int node, with real lengths */
    struct affine_score *affine; /* per node, of floats that read the score */
    int *cost;       /* per node: rough instructions that its own scope does */
    bool *is_far;    /* per node: finite, but log2(e) times it may not be */
    bool *free_log2; /* per node: times log2(e) costs the cell nothing */
    bool *may_fault; /* per node: depends on a load; NULL: not checked */
    bool *of_mask;   /* per node: the mask depends on it */
    bool *inexact;   /* per node: its bits may differ from kernel to kernel */
    const struct verdict_program *verdict; /* NULL: no plan */
    struct plane plane;       /* copied by the kernel; load IR_NONE: none */
    bool by_plane;            /* PLACE_SCORE is printed with its element as x */
    struct far_diagonals far; /* of far_bias: */
    ir_ref far_bias; /* the score's addend, one number far from the diagonal,
                        which the quick path adds; IR_NONE: not so */
    ir_ref addend; /* which the cell adds, of row or tile scope: Base has it */
    ir_ref var_b;
    uint32_t n_nodes;
    struct place_text at[PLACE_COUNT];
    struct member *member;
    int n_members, cap_members;
    /* Members by what they are of, and by their text: 1 + the last one's index
     * of a hash, then on by its next_…; 0: no more. */
    int by_key[MEMBER_BUCKETS], by_value[MEMBER_BUCKETS];
    bool counting; /* the first of two rounds: finds shared values */
    bool failed;
};

/* --- writer.c */
/* Text in the arena. */
const char *writer_format(struct emitter *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The factor of the raw product, or that times log2(e): the softmax scale, with
 * the descales of Q and K where there are any. */
const char *writer_scale(const struct emitter *e, bool log2);
/* Without the parentheses that enclose the whole text. */
const char *writer_bare(struct emitter *e, const char *text);
/* "const type name = value;" in the place, after #line of the node. Returns
 * the name. */
const char *writer_add_local(struct emitter *e, enum place p, ir_ref r,
                             const char *type, const char *value);
/* A place's statements into a text; after lines of the user's file the true
 * place again. */
void writer_add_body(struct strbuf *out, const struct strbuf *body);
/* Counts a place's uses of nodes from a root: shared ones get names. */
void writer_count_uses(struct emitter *e, enum place p, ir_ref root);
/* #line of the node's place in the user's file, if it has one. */
void writer_add_line(struct emitter *e, struct strbuf *out, ir_ref r);

/* --- member.c */
/* The name of a place's member; the member is made when it is first asked
 * for. */
const char *member_name(struct emitter *e, enum place where,
                        enum member_kind kind, ir_ref r, ir_ref by);

/* --- expr.c */
/* C text of a node's value in a place: always one operand to whatever is
 * around (a name, a literal, a call, or parenthesised). */
const char *expr_text(struct emitter *e, enum place p, ir_ref r);
/* The same of an int, as long long. */
const char *expr_wide(struct emitter *e, enum place p, ir_ref r);
const char *expr_float_const(struct emitter *e, double v);
const char *expr_int_const(struct emitter *e, int64_t v, bool wide);
/* Sum of the offsets of a load's indices that a place knows. */
const char *expr_offset_part(struct emitter *e, enum place p, ir_ref load);
/* The operands of an AND or OR that a place decides, joined. */
const char *expr_logic_part(struct emitter *e, enum place p, ir_ref r);
/* Type of a node's value: "bool", "int", "long long", "float". */
const char *expr_type(const struct emitter *e, ir_ref r);
bool expr_fits_int(struct range x);
bool expr_is_cell(enum place p);
/* The place whose struct holds the node's value when p asks for it; p itself
 * when it is made there. */
enum place expr_home(const struct emitter *e, enum place p, ir_ref r);

/* --- form.c: linear forms */
/* A LIN's value, as long long if `wide`. */
const char *form_value(struct emitter *e, enum place p, ir_ref r, bool wide);
/* GE0 or EQ0 as a comparison; `unequal`: the negation of an EQ0. */
const char *form_compare(struct emitter *e, enum place p, ir_ref r,
                         bool unequal);
/* Sum of the terms that a place knows, for narrower ones; minus it if asked. */
const char *form_part(struct emitter *e, enum place p, ir_ref r, bool negate,
                      const char **type);
/* kv's coefficient in a LIN, GE0 or EQ0 whose other terms are of row or tile
 * scope (then Base holds the form at the first column), else 0. */
int64_t form_kv(const struct emitter *e, ir_ref r);
/* k * c for the cell's column. */
const char *form_step(struct emitter *e, int64_t k);
/* Such a form at Base's first column, saturated to 32 bits if asked. */
const char *form_base(struct emitter *e, ir_ref r, bool saturate,
                      const char **type);
/* An int as a float there: i2f of such a form. */
const char *form_base_float(struct emitter *e, ir_ref i2f);

/* Sums of given texts, positive terms first. */
struct form_term {
    int64_t k;
    const char *text;
    bool wide; /* its type is long long */
    struct range x;
};
/* c + sum k * text, as *wide says an int or a long long; NULL: 64 bits might
 * not hold a sum on the way. *x: what it can be. */
const char *form_sum(struct emitter *e, const struct form_term *t, int n,
                     int64_t c, bool *wide, struct range *x);

/* --- score.c */
/* What of the score the cell computes. Before the facts: adds nodes. */
bool score_split(struct ir_graph *g, ir_ref score, struct score_frame *out);
/* Before the cell's text, after its uses are counted: e->addend. */
void score_pick_addend(struct emitter *e, const struct score_frame *f);
/* The cell's text. */
const char *score_cell(struct emitter *e, const struct score_frame *f);
/* The same of plane_score: by e->by_plane. *adds: that adds what Base says,
 * which `moved`, that score_offset gives a statement, makes needless. */
const char *score_plane_cell(struct emitter *e, const struct score_frame *f,
                             bool moved, bool *adds);
/* After the cell's text: a statement that makes every cell's score `by` more
 * in the Base called moved. NULL: none does. */
const char *score_offset(struct emitter *e, const struct score_frame *f,
                         const char *cell);
/* The name of Tile's facc_narrow, the score's cheap form; NULL: none. */
const char *score_narrow(struct emitter *e, const struct score_frame *f);
/* Its value: by * tanh(alpha * scale * s). */
const char *score_narrow_value(struct emitter *e, ir_ref alpha, ir_ref by);
/* After the other facts: fills is_far, free_log2. */
bool score_facts(struct emitter *e);
/* A float times log2(e), in a place. */
const char *score_times_log2e(struct emitter *e, enum place p, ir_ref r);
/* The cell's text of a float, where a tile factor folds into another one;
 * NULL if none does. */
const char *score_folded(struct emitter *e, ir_ref r);

/* --- far.c: a bias that is one number far from the diagonal */
/* After the other facts: fills far, far_bias. False: memory, diag filled. */
bool far_facts(struct emitter *e, const struct score_frame *f,
               const struct plain_bounds *mask);
/* What the cell adds; near: the diagonal's value. */
const char *far_addend(struct emitter *e, const char *near);
/* Statement of offset_by. */
const char *far_offset(struct emitter *e);
/* After all members: the values of Tile and Base. */
void far_members(struct emitter *e);
/* The name of the function that makes a Diag; where that is not diag, diag
 * itself follows. */
const char *far_diag(const struct emitter *e);
void far_add_diag(const struct emitter *e, struct strbuf *out);

/* --- order.c */
bool order_is_reverse(const struct emitter *e, ir_ref score,
                      const struct plain_bounds *b);

/* --- fault.c: checked builds */
/* After the other facts: which nodes may depend on a bad read. */
bool fault_facts(struct emitter *e);
const char *fault_value(struct emitter *e, enum place p, ir_ref r);
/* Reports the root's fault for cells that keep (or, for a mask, IR_NONE). */
void fault_report(struct emitter *e, enum place p, ir_ref root, ir_ref keep);

/* --- mask.c: the bodies of kv_range and verdict */
void mask_range(struct emitter *e, ir_ref keep, const struct plain_bounds *b);
/* Returns whether a verdict may be FULL. */
bool mask_verdict(struct emitter *e, ir_ref keep, const struct plain_bounds *b);

/* --- iv.c: intervals as text, by the rules of templates/common/interval.cuh */
struct iv {
    enum ir_type type;
    const char *whole;   /* a facc_ints, facc_floats, facc_bools, or NULL: */
    const char *lo, *hi; /* ints: ends */
    bool wide;           /* that are long long */
    struct range x;      /* and what they can be */
    const char *f, *t;   /* bools: may be false, true; perhaps "true" */
};
/* What is asked of a bool; WHOLE: both, as one variable. */
enum { IV_FALSE = 1, IV_TRUE = 2, IV_BOTH = 3, IV_WHOLE = 7 };
/* Of what a place knows: a point, or a range where bits may differ. */
struct iv iv_of_node(struct emitter *e, enum place p, ir_ref r);
/* Anything of the node's type. */
struct iv iv_anything(struct emitter *e, ir_ref r);
/* By the op's rule; op is LIN, GE0 or EQ0 for linear forms. r gives the line,
 * a load's tensor, and may be IR_NONE for logic. */
struct iv iv_of_op(struct emitter *e, enum place p, ir_ref r, enum ir_op op,
                   const struct iv *x, int n, unsigned need);
struct iv iv_of_sum(struct emitter *e, enum place p, ir_ref r, enum ir_op op,
                    int64_t c, const int64_t *k, const struct iv *x, int n,
                    unsigned need);
struct iv iv_of_load(struct emitter *e, enum place p, ir_ref r,
                     const struct iv *x, int n);
/* After the other facts: fills of_mask and inexact. */
bool iv_facts(struct emitter *e, ir_ref keep);

/* --- summary.c: QSummary, KvSummary and their functions */
void summary_places(struct emitter *e);
/* An interval that a record of this side holds: "qs.lo0". */
struct iv summary_iv(struct emitter *e, int summary);
void summary_add_text(struct emitter *e, struct strbuf *out);
/* The same members where there are no summaries. */
void summary_add_nothing(struct strbuf *out);

/* --- verdict.c: the body of tile_verdict */
void verdict_place(struct emitter *e);
/* All members that schedules need. */
void verdict_add_text(struct emitter *e, struct strbuf *out);

#endif

/* What the files of the generator share: the writer, and random expressions
 * of three kinds that know their type and a bound of their magnitude: int,
 * float, bool. A budget of comparisons keeps the number of paths small; inner
 * functions of facc.sum and friends have a budget of their own.
 * modgen_load.c: tensors and params; modgen_vector.c: slices; modgen_int.c,
 * modgen_float.c, modgen_bool.c: expressions; modgen_statement.c: what comes
 * before a mod's result; modgen.c: programs. */
#ifndef FACC_MODGEN_EXPR_H
#define FACC_MODGEN_EXPR_H

#include <stdbool.h>

#include "tests/fuzz/modgen.h"

enum { MAX_VARIABLES = 16 };
enum type { INT, FLOAT, VIEW };
/* Of spans: things of one kind may stand for each other. */
enum thing { THING_INT, THING_FLOAT, THING_BOOL, THING_STATEMENT, THING_MOD };

struct variable {
    char name[16];
    enum type type;
    double bound;    /* of |value| */
    double possible; /* ints: what the compiler must reckon with */
    int tensor;      /* VIEW: of it the first `taken` indices are set */
    int taken;
};

struct writer {
    struct choices *choices;
    struct modgen_program *out;
    bool fixed; /* no other tensors and params than there are */
    int depth;  /* of a mod's expressions */
    char *text;
    size_t n;
    struct variable var[MAX_VARIABLES];
    int n_vars;
    int next_name;
    int forks;    /* comparisons still allowed */
    int loops;    /* nesting of inner functions */
    bool score;   /* the mod has a score */
    bool decided; /* c0 is a local, a bool */
    bool reads;   /* what is written now is computed in any case */
};

/* Of an int: what it is at most here, and what the compiler must reckon with
 * (indices and sizes up to 2^31). */
struct range {
    double value, possible;
};

/* The largest value of an index. */
static const struct range modgen_index = {MODGEN_MAX_LENGTH, 0x1p31};

static inline struct range modgen_up_to(double n)
{
    return (struct range){n, n};
}
struct range modgen_larger(struct range a, struct range b);

/* --- modgen.c ----------------------------------------------------- */
/* From 0, the simplest, to n - 1. */
unsigned modgen_pick(struct writer *w, unsigned n);
/* Adds text; what does not fit is left out. */
void modgen_put(struct writer *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Text around what was written since `from`. */
void modgen_wrap(struct writer *w, size_t from, const char *before,
                 const char *after);
/* NULL: there is none of that type. */
const struct variable *modgen_some_variable(struct writer *w, enum type type);
/* A new one, called PREFIXn; it is no variable yet. */
struct variable modgen_new_variable(struct writer *w, char prefix,
                                    enum type type);
/* Text gets long: only leaves from now on. */
bool modgen_is_full(const struct writer *w);

/* --- modgen_load.c ------------------------------------------------ */
/* Kinds of tensors: floats 2, ints 1, bools 0; floats that mask 3. */
int modgen_kind(const struct modgen_tensor *t);
/* For one more tensor, besides the first of each kind. */
bool modgen_has_room(const struct writer *w);
/* last: extent of the last dimension; 0: any dimensions. */
int modgen_new_tensor(struct writer *w, int kind, int64_t last);
int modgen_some_tensor(struct writer *w, int kind);
void modgen_load(struct writer *w, int depth, int tensor);
/* "t[i][j]" with `count` indices from number `first` on, in some spelling. */
void modgen_indices(struct writer *w, int depth, int tensor, int first,
                    int count);
/* The extent of a dimension. */
void modgen_put_extent(struct writer *w, const struct modgen_tensor *t, int d);
/* A param of ints (not negative: from 1), or of floats; its magnitude. */
struct range modgen_int_param(struct writer *w, bool positive);
void modgen_float_param(struct writer *w);

/* --- modgen_vector.c ---------------------------------------------- */
double modgen_dot(struct writer *w, int depth); /* a bound */
struct range modgen_vector(struct writer *w, int depth, bool floats);
/* False: there is no tensor for it. */
bool modgen_any_slice(struct writer *w, int depth);

/* --- expressions -------------------------------------------------- */
struct range modgen_int(struct writer *w, int depth);
/* The result bounds its magnitude. */
double modgen_float(struct writer *w, int depth);
/* "(c) and (x) or (y)" of floats. */
double modgen_choice(struct writer *w, int depth);
void modgen_bool(struct writer *w, int depth);
/* An int or a float. */
struct range modgen_number(struct writer *w, int depth, bool floats);
/* facc.where, facc.sum, … with inner functions (modgen_bool.c). */
struct range modgen_inner(struct writer *w, int depth, bool floats);
/* The head of an inner function, "function(k) return "; its counter becomes a
 * variable. */
void modgen_counter(struct writer *w);

/* --- modgen_statement.c ------------------------------------------- */
void modgen_statements(struct writer *w);

#endif

/* Random programs in Lua. Every mod is pure and defined for all cells:
 * indices stay inside the tensors, divisors are not zero, arguments stay in
 * their functions' domains, numbers stay small, so that plain Lua, the
 * evaluator and kernels must agree. */
#ifndef FACC_MODGEN_H
#define FACC_MODGEN_H

#include <stddef.h>
#include <stdint.h>

#include "compiler/ir/ir.h"
#include "tests/fuzz/choices.h"

/* How a tensor's elements lie, and which they are: for whoever makes them. */
enum modgen_layout {
    LAYOUT_PLAIN,
    LAYOUT_REVERSED, /* the first dimension is the dense one */
    LAYOUT_GAPS,     /* every second element of each dimension */
    LAYOUT_NEGATIVE, /* the first dimension runs backwards */
    LAYOUT_EXPANDED, /* the last dimension has stride 0 */
    LAYOUTS
};
enum modgen_style {
    STYLE_RANDOM,
    STYLE_RUNS, /* sorted, with repeats */
    STYLE_FEW,  /* of two values */
    STYLE_RISING,
    STYLE_LIMITS, /* i64: now and then as large or small as can be */
    STYLES,
    STYLE_MASKING /* floats: 0 or -inf */
};

struct modgen_tensor {
    char name[12];
    enum dtype dtype;
    int rank;
    int64_t extent[IR_MAX_RANK]; /* of IR_DIM_FIXED, IR_DIM_ANY; else 0 */
    int64_t low, below;          /* ints: values are low … below - 1 */
    enum ir_dim_kind kind[IR_MAX_RANK];
    enum modgen_layout layout;
    enum modgen_style style;
};

struct modgen_param {
    char name[12];
    enum dtype dtype;
    int64_t i; /* value of I32, I64 */
    double f;  /* of F32 */
};

/* Lengths stay below; B and H too. */
enum { MODGEN_MAX_LENGTH = 1024, MODGEN_TEXT = 1 << 16 };
enum { MODGEN_MOST_TENSORS = 24, MODGEN_MOST_PARAMS = 8 };

struct modgen_program {
    char text[MODGEN_TEXT];
    size_t size;
    struct modgen_tensor tensor[MODGEN_MOST_TENSORS]; /* as declared */
    int n_tensors;
    struct modgen_param param[MODGEN_MOST_PARAMS];
    int n_params;
};

/* A program that declares what it uses. small: of few nodes, which kernels
 * have once for every score of a thread. */
void modgen_program(struct choices *c, bool small, struct modgen_program *out);

/* Programs that all declare the same tensors and params, in this order. They
 * reckon with lengths up to 64, B and H up to 4. Params: pi (i32) from 1 to
 * 64, pl (i64) the same, pf (f32) in (0, 4). */
extern const struct modgen_tensor modgen_tensors[];
extern const int modgen_n_tensors;
enum { MODGEN_PARAMS = 3 };

/* The program of a seed into text[MODGEN_TEXT]; its length. */
size_t modgen(uint64_t seed, char *text);

#endif

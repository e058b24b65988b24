/* State of one load, shared by the files of compiler/frontend. Lua reaches it
 * through the state's extra space, so there are no globals. Everything that a
 * C function called by Lua (l_…) allocates lies in the graph's arena: Lua may
 * jump out of it at any call. */
#ifndef FACC_TRACE_H
#define FACC_TRACE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>

#include "compiler/compile.h"
#include "compiler/ir/eval.h"
#include "compiler/ir/ir.h"

/* --- what Lua holds ----------------------------------------------- */

/* First field of every userdata; the sandbox has no other userdata. */
enum object_kind {
    OBJECT_VALUE = 1, /* traced number */
    OBJECT_TENSOR,    /* captured tensor with 0 or more indices applied */
    OBJECT_EQ,        /* the sentinel __eq or __ne */
    OBJECT_OPERAND,   /* sentinel | value: the right side of a comparison */
    OBJECT_ATTENTION  /* what facc.attention returns */
};

struct traced {
    enum object_kind kind;
    ir_ref ref;
    uint32_t run; /* that made it; 0: while loading, valid in every run */
};

struct view {
    enum object_kind kind;
    int tensor; /* index of the declaration */
    int n;      /* indices so far */
    union {
        ir_ref ref[IR_MAX_RANK]; /* tracing */
        int64_t at[IR_MAX_RANK]; /* running on numbers */
    } index;
};

struct comparison { /* OBJECT_EQ and OBJECT_OPERAND */
    enum object_kind kind;
    bool negated; /* ~= */
};

struct attention {
    enum object_kind kind;
    bool has_score, has_mask; /* functions are user values 1 and 2 */
};

/* --- exploration -------------------------------------------------- */

enum result_kind { RESULT_SCORE, RESULT_MASK, RESULT_NUMBER, RESULT_BOOL };

struct decision {
    ir_ref cond;
    ir_ref value, keep; /* of the first outcome, once known */
    int line;
    bool outcome; /* on the present path */
    bool second;  /* the first outcome is done */
};

struct exploration { /* one exploration; inner ones for facc.sum, facc.where, …
                      */
    struct exploration *up;
    struct decision *decisions; /* arena, grows */
    int n, cap;                 /* of the present path */
    int pos;                    /* decisions passed in this run */
    uint32_t run;
    int line;             /* where the function is defined, 0 elsewhere */
    uint64_t fingerprint; /* of the function's surroundings */
};

struct merged {
    ir_ref value, keep;
    int paths;
    int line; /* of the function */
};

struct seen { /* set of objects met by the fingerprint */
    const void *object;
    uint32_t round;
};
enum { SEEN_CAPACITY = 1024 }; /* at first */

struct trace {
    lua_State *L;
    struct ir_graph *graph; /* its arena owns all below */
    struct diag *diag;
    const char *name;  /* user's file, for messages */
    const char *chunk; /* "@name" */
    const char *stage; /* "load" or "trace" */
    struct alloc alloc;
    size_t lua_bytes, lua_limit;
    bool over_memory;
    int over_line;
    long long instructions, max_instructions;
    long long start; /* CPU seconds + 1 at the first look, or 0 */
    int compiling;   /* line of the user's file that Lua's compiler is at */
    bool line_ends;  /* there, with what the compiler was given last */
    int max_paths, max_comparisons;
    /* exploration */
    struct exploration *scope; /* innermost, NULL outside of mods */
    struct exploration *spare; /* left scopes, for reuse */
    uint32_t last_run;
    int runs;
    bool first_outcome; /* taken by a new decision */
    const char *mod;    /* "score_mod" or "mask_mod" while tracing one */
    int pending_line;   /* a traced key was made and not yet used, or 0 */
    int attention_line; /* of the facc.attention call */
    int *partial; /* by tensor: line of an index that is not the last, or 0 */
    /* the global that was read last without being there, and where */
    char undefined[64];
    int undefined_line;
    int *forks; /* decisions by line */
    int n_lines;
    struct seen *seen;
    uint32_t seen_cap;
    uint32_t seen_round;
    /* lint, by node: line of the value, and whether anything used it */
    bool lint;
    uint32_t *born;
    bool *used;
    uint32_t lint_cap;
    /* running on numbers instead of tracing: tests/fuzz/concrete.c */
    const struct eval_env *env;
};

static inline struct trace *trace_of(lua_State *L)
{
    struct trace *t;
    memcpy(&t, lua_getextraspace(L), sizeof(struct trace *));
    return t;
}

/* Metatables, and what Lua's messages call their values. */
#define TRACED_NAME "traced number"
#define TENSOR_NAME "tensor"
/* The chunk of the embedded mods.lua: not a file name, so that no user's file
 * can bear it. */
#define STANDARD_CHUNK "@facc.mods"

/* --- state.c ------------------------------------------------------ */
/* Fills *t (graph, diag, env set by the caller before). False: diag filled. */
bool state_open(struct trace *t, const struct alloc *a, const char *name,
                const char *text, size_t size,
                const struct compile_limits *limits);
void state_close(struct trace *t); /* after a failed open too */
/* Calls f(L) with one light userdata in protected mode. False: diag filled. */
bool state_call(struct trace *t, lua_CFunction f, void *argument);
/* Compiles a chunk: the text as it is, for errors in the user's words, then
 * rewritten. Leaves the function; call it by state_run_chunk. */
void l_load_chunk(lua_State *L, const char *text, size_t size,
                  const char *chunk);
/* Is the text a chunk by Lua's grammar? */
bool l_is_chunk(lua_State *L, const char *text, size_t size, const char *chunk);
/* Calls the loaded chunk on top with the values that the rewriting needs. */
void l_run_chunk(lua_State *L);
void l_open_sandbox(lua_State *L);
void l_open_counted(lua_State *L); /* counted.c */
/* Is it the function that pairs returns? It has a memory. */
bool counted_is_iterator(lua_State *L, int i);
/* Bytes that Lua holds. */
long long state_memory(lua_State *L);
/* Pushes what facc has but is not made in C: the standard mods, composed
 * functions. False, and nothing pushed: it has no such field. */
bool l_push_made_field(lua_State *L, const char *name);
/* The name of the undefined global that the present line has read, or NULL. */
const char *sandbox_undefined(const struct trace *t);
/* Runs the user's file; leaves the attention object. */
struct attention *l_run_file(lua_State *L, const char *text, size_t size);

/* --- errors ------------------------------------------------------- */
/* Line of the nearest frame of the user's file. */
int state_line(lua_State *L);
/* Records the error (the first one wins) and jumps to state_call. */
_Noreturn void l_fail(lua_State *L, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, at a line that is known. */
_Noreturn void l_fail_at(lua_State *L, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a failure that diag already holds, or memory being out. */
_Noreturn void l_fail_recorded(lua_State *L);
/* Arena memory, zeroed; does not return NULL. */
void *l_alloc(lua_State *L, size_t size);
/* Counts work done in C as so many VM instructions; fails at the limit. */
void l_charge(lua_State *L, long long work);
/* Every function and metamethod starts with it: stamps the line, counts the
 * call, and finds plain tables indexed with traced values. */
struct trace *l_enter(lua_State *L);

/* --- value.c ------------------------------------------------------ */
void *value_object(lua_State *L, int i, enum object_kind kind); /* or NULL */
bool value_is_traced(lua_State *L, int i);
const char *value_kind_name(lua_State *L,
                            int i); /* "traced number", "nil", … */
/* What to say of a function in place of a value, else "". */
const char *value_uncalled(lua_State *L, int i);
/* Pushes a traced number; fails when the graph has. */
void l_push_value(lua_State *L, ir_ref r);
/* The same for the result of a computation: the lint watches it. */
void l_push_result(lua_State *L, ir_ref r, uint32_t nodes_before);
/* A warning of this line unless r is used otherwise. */
void l_lint_condition(lua_State *L, ir_ref r);
/* Number, traced number or rank-0 tensor; what names the user of it. */
ir_ref l_to_number(lua_State *L, int i, const char *what);
/* The same, or a boolean. */
ir_ref l_to_ref(lua_State *L, int i, const char *what);
/* Replaces a rank-0 tensor at i by its value. */
void l_resolve(lua_State *L, int i);
void l_open_values(lua_State *L);

/* --- operators.c -------------------------------------------------- */
/* Puts arithmetic and order into the metatable on top. */
void l_set_operators(lua_State *L);
void l_open_sentinels(lua_State *L);
/* Pushes __eq, __ne, __k, __c. Returns how many. */
int l_push_sentinels(lua_State *L);

/* --- explore.c ---------------------------------------------------- */
bool l_fork(lua_State *L, ir_ref cond);
/* Runs the function at fn on all its paths, with the n_args values from
 * first_arg on; the stack is left as it was. */
struct merged l_explore(lua_State *L, int fn, int first_arg, int n_args,
                        enum result_kind kind);
/* Of everything that the function can reach. */
uint64_t l_fingerprint(lua_State *L, int fn); /* finger.c */

/* --- tensor.c, dsl.c, scopes.c, attention.c: parts of the facc table  */
void l_open_tensors(lua_State *L, int facc);
void l_open_functions(lua_State *L, int facc);
void l_open_scopes(lua_State *L, int facc);
void l_open_attention(lua_State *L, int facc);
/* max or min of two numbers on top, replaced by the result. */
void l_extremum(lua_State *L, bool max);
/* Loads the tensor of a view whose indices are complete: pushes a traced
 * number, a number, or a boolean. */
void l_load_view(lua_State *L, const struct view *v);
void l_push_view(lua_State *L, const struct view *v);
int l_reduce_numbers(lua_State *L, bool max); /* facc.max(n, f), scopes.c */

#endif

/* What the suites of the IR and its passes share: a graph with a few
 * declarations, an allocator whose n-th call fails, the runner. */
#ifndef FACC_TEST_IR_FIXTURE_H
#define FACC_TEST_IR_FIXTURE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/ir.h"
#include "tests/unit/suite.h"

enum {          /* order of declaration in graph_new */
       T_INT,   /* i32, rank 1 */
       T_BOOL,  /* bool, rank 1 */
       T_FLOAT, /* f32, rank 1 */
       T_TABLE, /* i32, rank 2 */
       T_OTHER, /* i32, rank 1 */
       P_INT = 0,
       P_FLOAT,
       T_EXTENT = 8 /* of every dimension */
};

struct fixture {
    struct arena *arena;
    struct diag diag;
    struct ir_graph *g;
    ir_ref b, h, q, kv, s;
};

struct failing { /* fails call number `at`, from 0; -1: never */
    long at, calls;
};

static inline void *failing_fn(void *user, void *ptr, size_t old_size,
                               size_t new_size)
{
    struct failing *f = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return f->calls++ == f->at ? NULL : realloc(ptr, new_size);
}

static inline void declare(struct ir_graph *g)
{
    static const struct {
        const char *name;
        enum dtype dtype;
        int rank;
    } t[] = {{"id", DTYPE_I32, 1},
             {"flag", DTYPE_BOOL, 1},
             {"bias", DTYPE_F32, 1},
             {"table", DTYPE_I32, 2},
             {"off", DTYPE_I32, 1}};
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        struct ir_tensor d = {
            .name = t[k].name, .dtype = t[k].dtype, .rank = t[k].rank};
        for (int j = 0; j < t[k].rank; j++)
            d.dim[j] = (struct ir_dim){IR_DIM_FIXED, T_EXTENT};
        ir_add_tensor(g, &d);
    }
    ir_add_param(g, &(struct ir_param){.name = "w", .dtype = DTYPE_I32});
    ir_add_param(g, &(struct ir_param){.name = "c", .dtype = DTYPE_F32});
}

/* False when memory is out. */
static inline bool fixture_open(struct fixture *f, const struct alloc *a)
{
    *f = (struct fixture){.arena = arena_new(a)};
    diag_init(&f->diag);
    f->g = f->arena ? ir_graph_new(f->arena, &f->diag, "test.lua") : NULL;
    if (!f->g)
        return false;
    declare(f->g);
    f->b = ir_var(f->g, IR_VAR_B);
    f->h = ir_var(f->g, IR_VAR_H);
    f->q = ir_var(f->g, IR_VAR_Q);
    f->kv = ir_var(f->g, IR_VAR_KV);
    f->s = ir_score(f->g);
    return !f->g->failed;
}

static inline void fixture_close(struct fixture *f)
{
    arena_free(f->arena);
}

/* Runs body, which returns whether it got through, with every allocation
 * failing in turn. */
static inline void fail_every_allocation(bool (*body)(struct fixture *f))
{
    for (long at = 0;; at++) {
        struct failing fail = {.at = at};
        struct alloc a = {failing_fn, &fail};
        struct fixture f;
        bool done = fixture_open(&f, &a) && body(&f);
        bool hit = fail.calls > at;
        if (f.g && hit && !done) {
            ck_assert(f.g->failed);
            ck_assert_int_eq(f.diag.status, DIAG_MEMORY);
        }
        fixture_close(&f);
        if (!hit) {
            ck_assert(done);
            ck_assert_int_gt(at, 3);
            return;
        }
    }
}

/* --- short names ------------------------------------------------------- */

static inline ir_ref num(struct fixture *f, int64_t v)
{
    return ir_const_i(f->g, v);
}
static inline ir_ref flt(struct fixture *f, double v)
{
    return ir_const_f(f->g, v);
}
static inline ir_ref load1(struct fixture *f, int tensor, ir_ref i)
{
    return ir_load(f->g, tensor, 1, &i);
}
static inline ir_ref sub(struct fixture *f, ir_ref a, ir_ref b)
{
    return ir_sub(f->g, a, b);
}
static inline ir_ref add(struct fixture *f, ir_ref a, ir_ref b)
{
    return ir_add(f->g, a, b);
}
static inline ir_ref lt(struct fixture *f, ir_ref a, ir_ref b)
{
    return ir_lt(f->g, a, b);
}
static inline ir_ref le(struct fixture *f, ir_ref a, ir_ref b)
{
    return ir_le(f->g, a, b);
}
static inline ir_ref ge(struct fixture *f, ir_ref a, ir_ref b)
{
    return ir_le(f->g, b, a);
}
static inline ir_ref gt(struct fixture *f, ir_ref a, ir_ref b)
{
    return ir_lt(f->g, b, a);
}
static inline ir_ref eq(struct fixture *f, ir_ref a, ir_ref b)
{
    return ir_eq(f->g, a, b);
}
static inline ir_ref ne(struct fixture *f, ir_ref a, ir_ref b)
{
    return ir_not(f->g, ir_eq(f->g, a, b));
}
static inline ir_ref and2(struct fixture *f, ir_ref a, ir_ref b)
{
    return ir_and2(f->g, a, b);
}
static inline ir_ref or2(struct fixture *f, ir_ref a, ir_ref b)
{
    return ir_or2(f->g, a, b);
}
static inline ir_ref not1(struct fixture *f, ir_ref a)
{
    return ir_not(f->g, a);
}
static inline ir_ref yes(struct fixture *f)
{
    return ir_const_b(f->g, true);
}
static inline ir_ref no(struct fixture *f)
{
    return ir_const_b(f->g, false);
}

/* The text of roots, for messages and expectations. */
static inline const char *text_of(struct fixture *f, ir_ref score, ir_ref keep)
{
    struct strbuf out;
    struct ir_roots roots = {score, keep};
    strbuf_init(&out, f->arena);
    ir_print(f->g, &roots, &out);
    return strbuf_text(&out);
}

static inline void assert_verified(struct fixture *f, ir_ref score, ir_ref keep)
{
    struct ir_roots roots = {score, keep};
    ck_assert_msg(ir_verify(f->g, &roots), "%s\n%s", f->diag.message,
                  text_of(f, score, keep));
}

#define ck_same(f, got, want)                                                  \
    do {                                                                       \
        ir_ref got_ = (got), want_ = (want);                                   \
        ck_assert_msg(got_ == want_, "got\n%s\nwant\n%s",                      \
                      text_of(f, IR_NONE, got_), text_of(f, IR_NONE, want_));  \
    } while (0)

/* Around a test's body: f, q and kv, and no failure at the end. */
#define OPEN                                                                   \
    struct fixture f_, *f = &f_;                                               \
    ck_assert(fixture_open(f, &alloc_libc));                                   \
    ir_ref q = f->q, kv = f->kv;                                               \
    (void)q;                                                                   \
    (void)kv
#define CLOSE                                                                  \
    ck_assert_msg(!f->g->failed, "%s", f->diag.message);                       \
    fixture_close(f)

static inline int run_tests(const char *name, const TTest *const *tests,
                            size_t n)
{
    return suite_run_tests(name, 120, NULL, NULL, tests, n);
}

#endif

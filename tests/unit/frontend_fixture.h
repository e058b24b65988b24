/* One file through the front end, for the suites of compiler/frontend: whole
 * files, or small ones made around one function. */
#ifndef FACC_TEST_FRONTEND_FIXTURE_H
#define FACC_TEST_FRONTEND_FIXTURE_H

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "compiler/frontend/frontend.h"

struct load {
    struct arena *arena;
    struct diag diag;
    struct ir_graph *graph;
    struct ir_roots roots;
    struct traced_facts facts;
    bool ok;
};

static inline void load_limited(struct load *l, const char *text,
                                const struct compile_limits *limits)
{
    *l = (struct load){0};
    diag_init(&l->diag);
    l->arena = arena_new(&alloc_libc);
    l->graph = ir_graph_new(l->arena, &l->diag, "t.lua");
    l->ok = frontend_load(l->graph, &alloc_libc, "t.lua", text, strlen(text),
                          limits, &l->roots, &l->facts);
    ck_assert_msg(l->ok != diag_failed(&l->diag), "%s", text);
    if (l->ok)
        ck_assert_msg(ir_verify(l->graph, &l->roots), "%s\n%s", text,
                      l->diag.message);
}

static inline void load(struct load *l, const char *text)
{
    load_limited(l, text, NULL);
}

static inline void unload(struct load *l)
{
    arena_free(l->arena);
}

static const char prelude[] =
    "local facc = require 'facc' "
    "local tb = facc.tensor('tb', 'f32', {2048}) "
    "local ti = facc.tensor('ti', 'i32', {2048}) "
    "local bb = facc.tensor('bb', 'bool', {2048}) "
    "local t2 = facc.tensor('t2', 'f32', {'q', 'kv'}) "
    "local rows = facc.tensor('rows', 'f16', {2048, 6}) "
    "local flags = facc.tensor('flags', 'bool', {2048, 3}) "
    "local turned = facc.tensor('turned', 'f32', {6, 'kv'}) "
    "local t0 = facc.tensor('t0', 'f32', {}) "
    "local i0 = facc.tensor('i0', 'i32', {}) "
    "local w = facc.param('w', 'i32') "
    "local S = 2048\n";

/* The body stands from line 2 on and gives `score` or `mask`. */
static inline void load_mod_limited(struct load *l, const char *body,
                                    const struct compile_limits *limits)
{
    static char text[8192];
    const char *kind = strstr(body, "mask =") ? "mask" : "score";
    snprintf(text, sizeof text,
             "%slocal score, mask\n%s\nreturn facc.attention { %s_mod = %s }",
             prelude, body, kind, kind);
    load_limited(l, text, limits);
}

static inline void load_mod(struct load *l, const char *body)
{
    load_mod_limited(l, body, NULL);
}

/* Runs the one case of a suite; main's result. */
static inline int run_case(const char *name, TCase *c)
{
    Suite *s = suite_create(name);
    tcase_set_timeout(c, 300);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

#endif

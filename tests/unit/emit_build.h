/* Generated variants on the CPU: their text as one shared object, and the
 * bytes of a launch's arguments. */
#ifndef FACC_TEST_EMIT_BUILD_H
#define FACC_TEST_EMIT_BUILD_H

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/compile.h"
#include "templates/common/kernel_args.h"

/* The byte layout of templates/common/kernel_args.h. The caller frees. */
static inline unsigned char *emit_args(const struct ir_graph *g,
                                       const struct eval_env *env, float scale)
{
    const size_t tensors = (size_t)g->n_tensors, params = (size_t)g->n_params;
    const size_t size = sizeof(struct facc_kernel_header) +
                        tensors * sizeof(struct facc_captured) +
                        params * sizeof(union facc_scalar);
    unsigned char *bytes = aligned_alloc(128, (size + 127) / 128 * 128);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 0, size);
    struct facc_kernel_header *h = (struct facc_kernel_header *)bytes;
    h->B = (int)env->B;
    h->H = (int)env->H;
    h->Hkv = (int)env->Hkv;
    h->Sq = (int)env->Sq;
    h->Skv = (int)env->Skv;
    h->scale = scale;
    h->scale_log2 = scale * 1.44269504f;
    h->seqused_q = env->len_q;
    h->seqused_kv = env->len_kv;
    struct facc_captured *c = (struct facc_captured *)(h + 1);
    for (size_t k = 0; k < tensors; k++) {
        c[k].data = env->tensors[k].data;
        for (int d = 0; d < g->tensors[k].rank; d++) {
            c[k].shape[d] = (int)env->tensors[k].shape[d];
            c[k].stride[d] = env->tensors[k].stride[d];
        }
    }
    union facc_scalar *p = (union facc_scalar *)(c + tensors);
    for (size_t k = 0; k < params; k++) {
        if (g->params[k].dtype == DTYPE_F32)
            p[k].f = (float)env->params[k].f;
        else
            p[k].i = env->params[k].i;
    }
    return bytes;
}

/* A header's text without what the surrounding file provides. */
static inline void emit_put_header(FILE *f, const char *text)
{
    while (*text) {
        const char *end = strchr(text, '\n');
        const size_t n = end ? (size_t)(end - text) + 1 : strlen(text);
        if (strncmp(text, "#include", 8) != 0 &&
            strncmp(text, "#pragma once", 12) != 0 &&
            strncmp(text, "#define FACC_SCHEDULED", 22) != 0 &&
            strncmp(text, "#line", 5) != 0)
            fwrite(text, 1, n, f);
        text += n;
    }
}

/* A program's variant and the functions of emit_cells.h, in a namespace. */
static inline void emit_put_variant(FILE *f, struct program *p, int k,
                                    bool checked)
{
    const struct unit_config c = {.family = checked ? "sm80" : "sm90",
                                  .dtype = DTYPE_BF16,
                                  .out_dtype = DTYPE_BF16,
                                  .head_dim = 64,
                                  .head_dim_v = 64,
                                  .tile_m = 64,
                                  .tile_n = 64,
                                  .warps = 4,
                                  .stages = 1,
                                  .check_bounds = checked,
                                  .plane_bytes = checked ? 0 : p->plane.bytes};
    struct arena *a = arena_new(&alloc_libc);
    struct strbuf config, variant;
    struct diag d;
    diag_init(&d);
    p->graph->diag = &d;
    strbuf_init(&config, a);
    strbuf_init(&variant, a);
    ck_assert_msg(
        emit_config(p->graph, &p->verdict, &c, &config) &&
            emit_variant(p->graph, &p->roots, &p->verdict, &c, &variant),
        "mod %d: %s", k, d.message);
    p->graph->diag = NULL;
    fprintf(f, "namespace n%d {\n", k);
    emit_put_header(f, strbuf_text(&config));
    emit_put_header(f, embedded_find("common/args.cuh")->text);
    emit_put_header(f, embedded_find("common/variant_math.cuh")->text);
    emit_put_header(f, embedded_find("common/interval.cuh")->text);
    emit_put_header(f, strbuf_text(&variant));
    fprintf(f,
            "#define CELLS cells_%d\n#define MOVED moved_%d\n"
            "#define NARROW narrow_%d\n#define TILE tile_%d\n"
            "#define PLAN plan_%d\n#define TIME time_%d\n"
            "#include \"tests/unit/emit_cells.h\"\n}\n",
            k, k, k, k, k, k);
    arena_free(a);
}

/* All of them, loaded. options: "-O0". */
static inline void *emit_build(struct program **p, int n, bool checked,
                               const char *options)
{
    char dir[] = "/tmp/facc_test_emit_XXXXXX", path[64], command[1024];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/all.cc", dir);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "#include \"tests/unit/emit_host.h\"\n");
    for (int k = 0; k < n; k++)
        emit_put_variant(f, p[k], k, checked);
    ck_assert_int_eq(fclose(f), 0);
    snprintf(command, sizeof command,
             "c++ -std=c++17 %s -w -ffp-contract=off -shared -fPIC -I%s -o "
             "%s/all.so %s/all.cc",
             options, FACC_SOURCE_DIR, dir, dir);
    ck_assert_msg(system(command) == 0, "%s", command);
    snprintf(path, sizeof path, "%s/all.so", dir);
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(so != NULL, "%s", dlerror());
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
    return so;
}

/* "plan_%d" of the k-th. */
static inline void *emit_function(void *so, const char *format, int k)
{
    char name[32];
    snprintf(name, sizeof name, format, k);
    void *p = dlsym(so, name);
    ck_assert_msg(p != NULL, "%s", name);
    return p;
}

static inline bool emit_no_compiler(void)
{
    if (system("c++ --version > /dev/null 2>&1") == 0)
        return false;
    fprintf(stderr, "SKIPPED: no C++ compiler\n");
    return true;
}

#endif

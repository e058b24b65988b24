/* What the tensors and params of the conformance list hold, by their names,
 * and filling of any program's tensors by a rule. Built on a given seed, so
 * that every run of a test sees the same. */
#ifndef FACC_TEST_DATA_H
#define FACC_TEST_DATA_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/eval.h"

enum { DATA_TOKENS = 2048, DATA_TENSORS = 64, DATA_PARAMS = 8 };

static inline void data_die(const char *what, const char *name)
{
    fprintf(stderr, "%s '%s'\n", what, name);
    abort();
}

static inline uint64_t data_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* From 0 to n - 1, of anything that tells it apart. */
static inline int64_t data_pick(uint64_t seed, uint64_t what, int64_t n)
{
    return (int64_t)(data_mix(seed * 0x10001 + what) >> 33) % n;
}

/* Documents of one sequence: runs of 16 tokens or more. */
struct documents {
    int32_t id[DATA_TOKENS];
    int32_t first[DATA_TOKENS + 1]; /* by document; 0 beyond the last */
};

static inline void documents_make(struct documents *d, uint64_t seed,
                                  int64_t most)
{
    int32_t doc = -1;
    int64_t left = 0;
    memset(d, 0, sizeof *d);
    for (int i = 0; i < DATA_TOKENS; i++) {
        if (left-- == 0) {
            left = 15 + data_pick(seed, (uint64_t)i, most);
            d->first[++doc] = i;
        }
        d->id[i] = doc;
    }
}

struct data {
    struct eval_env env;
    struct eval_tensor tensor[DATA_TENSORS];
    union eval_value param[DATA_PARAMS];
    int32_t len_q[4], len_kv[4];
    void *block[DATA_TENSORS];
    size_t bytes[DATA_TENSORS];
    int n;
    uint64_t seed;
    bool varied; /* strides: dimensions in turn stored in reverse order */
    struct documents docs, docs_b[4];
    int32_t page[4][DATA_TOKENS / 16]; /* -1: invalid */
};

static inline int64_t data_extent(const struct eval_env *e, struct ir_dim d)
{
    switch (d.kind) {
    case IR_DIM_B:
        return e->B;
    case IR_DIM_H:
        return e->H;
    case IR_DIM_HKV:
        return e->Hkv;
    case IR_DIM_Q:
        return e->Sq;
    case IR_DIM_KV:
        return e->Skv;
    case IR_DIM_ANY:
        return DATA_TOKENS;
    case IR_DIM_FIXED:
        break;
    }
    return d.extent;
}

/* A shuffled page table, every fifth page invalid. */
static inline void data_pages(struct data *d)
{
    enum { PAGES = DATA_TOKENS / 16 };
    for (int b = 0; b < 4; b++) {
        for (int i = 0; i < PAGES; i++)
            d->page[b][i] = i;
        for (int i = PAGES - 1; i > 0; i--) {
            int64_t j = data_pick(d->seed + (uint64_t)b, (uint64_t)i, i + 1);
            int32_t x = d->page[b][i];
            d->page[b][i] = d->page[b][j];
            d->page[b][j] = x;
        }
        for (int i = 0; i < PAGES; i++)
            if (d->page[b][i] % 5 == 0)
                d->page[b][i] = -1;
    }
}

/* Scales of a picture: 1, 4, 9, … tokens. */
static inline double data_level(int64_t i)
{
    int64_t level = 0, end = 1;
    while (i >= end) {
        level++;
        end += (level + 1) * (level + 1);
    }
    return (double)level;
}

/* The number of node i's ancestors-th ancestor in a binary tree; -1 above the
 * root. */
static inline double data_ancestor(int64_t i, int64_t ancestors)
{
    for (; ancestors >= 0 && i >= 0; ancestors--)
        i = i > 0 ? (i - 1) / 2 : -1;
    return (double)i;
}

/* Element at[] of a tensor that is named for itself. */
static inline double data_more(const struct data *d, const char *name,
                               const int64_t *at, uint64_t any)
{
    const int64_t i = at[0];
#define IS(x) (strcmp(name, x) == 0)
#define RANDOM(n) data_pick(d->seed, any, n)
    if (strncmp(name, "below", 5) == 0)
        return (double)RANDOM(strtol(name + 5, NULL, 10));
    if (strncmp(name, "some", 4) == 0)
        return RANDOM(3) == 0;
    if (strncmp(name, "exponent", 8) == 0)
        return (double)(126 + RANDOM(3));
    if (strncmp(name, "zero", 4) == 0)
        return (double)(RANDOM(64) - 32);
    if (IS("csr_first"))
        return (double)(i * 6 - (i > 0 ? (i * 7) % 5 : 0));
    if (IS("place")) /* in its document */
        return (double)(at[1] - d->docs_b[i].first[d->docs_b[i].id[at[1]]]);
    if (IS("pad_left"))
        return (double)(13 + 70 * i);
    if (IS("time")) /* milliseconds since 1970 */
        return 1.7e12 + (double)(1000 * at[1] + RANDOM(900));
    if (IS("width"))
        return (double)(20 + 5 * i);
    if (IS("window_left") || IS("window_right"))
        return i == (IS("window_left") ? 2 : 3) ? -1 : (double)(10 << i);
    if (IS("bits"))
        return (double)(data_mix(any) >> 16);
    if (IS("match"))
        return (double)(i * 5 % 32);
    if (IS("part"))
        return at[1] < 256 ? 0 : at[1] < 400 ? 1 : 2;
    if (IS("span"))
        return (double)(150 * at[1] + (at[2] ? 90 : 20));
    if (IS("image_before"))
        return (double)(at[1] / 100);
    if (IS("order"))
        return (double)(i * 1103 % DATA_TOKENS);
    if (IS("parent"))
        return data_ancestor(i, 0);
    if (IS("ancestor"))
        return data_ancestor(i, at[1]);
    if (IS("tree"))
        return at[0] == at[1] ||
               data_ancestor(at[0], RANDOM(3)) == (double)at[1];
    data_die("no data for tensor", name);
    return 0;
#undef IS
#undef RANDOM
}

/* Element at[] of an integer or bool tensor of the list. */
static inline double data_whole(const struct data *d, const char *name,
                                const int64_t *at, uint64_t any)
{
    const int64_t i = at[0];
#define IS(x) (strcmp(name, x) == 0)
#define RANDOM(n) data_pick(d->seed, any, n)
    if (IS("id"))
        return d->docs.id[i];
    if (IS("off"))
        return d->docs.first[i];
    if (IS("idb"))
        return d->docs_b[i].id[at[1]];
    if (IS("offb"))
        return d->docs_b[i].first[at[1]];
    if (IS("unsorted"))
        return (double)RANDOM(3);
    if (IS("segment"))
        return i / 300 % 2 == 0;
    if (IS("half"))
        return i < DATA_TOKENS / 2;
    if (IS("prefix"))
        return (double)(300 + 500 * i);
    if (IS("start"))
        return (double)(512 * i);
    if (IS("length"))
        return (double)(400 + 300 * i);
    if (IS("page"))
        return d->page[i][at[1]];
    if (IS("global"))
        return i < 2 || i == 450;
    if (IS("limit"))
        return (double)(i / 2 + RANDOM(64));
    if (IS("level"))
        return data_level(i);
    if (IS("level_of_batch"))
        return (double)i;
    if (IS("block_map"))
        return RANDOM(3) == 0;
    if (IS("block_size"))
        return RANDOM(4) == 0 ? (double)RANDOM(64) : 64;
    if (IS("row_flag"))
        return i % 500 < 300;
    if (IS("batch_flag"))
        return (at[1] + 77 * i) % 400 < 250;
    if (IS("dense"))
        return at[2] / 100 != at[3] / 130;
    if (IS("token_window"))
        return (double)(20 + RANDOM(200));
    if (IS("first_of") || IS("end_of"))
        return 2 * i + 1 > DATA_TOKENS
                   ? 0
                   : d->docs.first[2 * i + (IS("end_of") ? 1 : 0)];
    if (IS("prefix_of"))
        return i / 2 < 3 ? (double)(i / 2) : 3;
    if (IS("route"))
        return (double)RANDOM(12);
    if (IS("cluster"))
        return (double)(i / 128 * 3 + RANDOM(3));
    if (IS("shuffled"))
        return (double)RANDOM(DATA_TOKENS);
    if (IS("image")) /* of 200 tokens, 100 of text (0) between two */
        return at[1] % 300 < 200 ? (double)(at[1] / 300 + 1) : 0;
    if (IS("three"))
        return 3;
    if (IS("dist") || IS("edge"))
        return (double)RANDOM(8);
    if (IS("path"))
        return (double)RANDOM(6);
    if (IS("flag") || IS("no_flag"))
        return IS("flag");
    if (IS("count_u8"))
        return (double)RANDOM(200);
    if (strncmp(name, "count_", 6) == 0)
        return (double)RANDOM(200) - 100;
    return data_more(d, name, at, any);
#undef IS
}

/* The same of a float tensor. */
static inline double data_float(const struct data *d, const char *name,
                                const int64_t *at, uint64_t any)
{
    const int64_t i = at[0];
#define IS(x) (strcmp(name, x) == 0)
    if (IS("shift") || IS("batch_number"))
        return (double)i + (IS("shift") ? 0.5 : 0);
    if (IS("head_sign"))
        return i % 2 == 0 ? -1 : 1;
    if (IS("slopes"))
        return 1 / (double)(4 << 2 * i);
    if (IS("factor"))
        return 1.5;
    if (IS("additive") && (at[1] > i + 30 || i % 97 == 63))
        return -INFINITY;
    if ((IS("garbage") && at[2] > at[1]) || (IS("nan_row") && i % 136 == 64))
        return NAN;
    if (IS("weight"))
        return (double)RANDOM(4096) / 1024 - (double)(i / 256 % 3);
    if (IS("prior") && RANDOM(8) == 0)
        return 0;
    if (IS("cap"))
        return i == 2 ? 0 : (double)(2 + i);
    if (IS("gate"))
        return RANDOM(4) == 0 ? -INFINITY : 0;
    if (IS("seconds"))
        return 0.5 * (double)(at[1] / 3);
    if (strncmp(name, "some", 4) == 0)
        return RANDOM(3) == 0;
    if (IS("q_scale") || IS("k_scale") || strncmp(name, "positive", 8) == 0 ||
        IS("prior"))
        return 0.5 + (double)RANDOM(4096) / 4096;
    return (double)RANDOM(4096) / 2048 - 1;
#undef IS
#undef RANDOM
}

static inline double data_of_list(const struct data *d,
                                  const struct ir_tensor *t, const int64_t *at)
{
    uint64_t any = 0;
    for (const char *s = t->name; *s; s++)
        any = any * 31 + (unsigned char)*s;
    for (int k = 0; k < t->rank; k++)
        any = data_mix(any + (uint64_t)at[k]);
    return dtype_is_float(t->dtype) ? data_float(d, t->name, at, any)
                                    : data_whole(d, t->name, at, any);
}

/* Strides of tensor t; how many elements they reach over. Views take every
 * n-th element of something larger. */
static inline int64_t data_strides(struct data *d, const struct ir_tensor *decl,
                                   int t)
{
    struct eval_tensor *x = &d->tensor[t];
    int64_t n = strncmp(decl->name, "view", 4) == 0 ? decl->name[4] - '0' : 1;
    for (int k = 0; k < decl->rank; k++) {
        int i = d->varied && t % 2 ? k : decl->rank - 1 - k;
        x->shape[i] = data_extent(&d->env, decl->dim[i]);
        x->stride[i] = n;
        n *= x->shape[i];
    }
    return n;
}

/* Makes every tensor that the graph declares; value gives element at[]. */
static inline void data_fill(struct data *d, const struct ir_graph *g,
                             double (*value)(const struct data *d,
                                             const struct ir_tensor *t,
                                             const int64_t *at))
{
    if (g->n_tensors > DATA_TENSORS || g->n_params > DATA_PARAMS)
        data_die("too many tensors or params in", g->file);
    d->n = g->n_tensors;
    for (int t = 0; t < g->n_tensors; t++) {
        const struct ir_tensor *decl = &g->tensors[t];
        struct eval_tensor *x = &d->tensor[t];
        size_t size = dtype_size(decl->dtype);
        int64_t count = 1;
        d->bytes[t] = (size_t)data_strides(d, decl, t) * size;
        for (int k = 0; k < decl->rank; k++)
            count *= x->shape[k];
        char *p = calloc(d->bytes[t] + 1, 1);
        if (!p)
            data_die("no memory for tensor", decl->name);
        x->data = d->block[t] = p;
        for (int64_t i = 0; i < count; i++) {
            int64_t at[IR_MAX_RANK] = {0}, rest = i, offset = 0;
            for (int k = decl->rank; k-- > 0; rest /= x->shape[k]) {
                at[k] = rest % x->shape[k];
                offset += at[k] * x->stride[k];
            }
            dtype_store(decl->dtype, p + (size_t)offset * size,
                        value(d, decl, at));
        }
    }
    d->env.tensors = d->tensor;
    d->env.params = d->param;
}

static inline void data_param(struct data *d, const struct ir_graph *g, int k)
{
    static const struct {
        const char *name;
        double value;
    } known[] = {{"W", 32}, {"w", 100},   {"position", 77},
                 {"c", 20}, {"qs", 0.75}, {"ks", 1.25}};
    const char *name = g->params[k].name;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) != 0)
            continue;
        if (dtype_is_float(g->params[k].dtype))
            d->param[k].f = known[i].value;
        else
            d->param[k].i = (int64_t)known[i].value;
        return;
    }
    data_die("no data for param", name);
}

/* Data of a program of the list for d->env, lengths up to DATA_TOKENS. */
static inline void data_list(struct data *d, const struct ir_graph *g,
                             uint64_t seed)
{
    d->seed = seed;
    documents_make(&d->docs, seed, 400);
    for (int b = 0; b < 4; b++)
        documents_make(&d->docs_b[b], seed + 1 + (uint64_t)b, 200 + 200 * b);
    data_pages(d);
    data_fill(d, g, data_of_list);
    for (int k = 0; k < g->n_params; k++)
        data_param(d, g, k);
}

static inline void data_free(struct data *d)
{
    for (int t = 0; t < d->n; t++)
        free(d->block[t]);
    d->n = 0;
}

#endif

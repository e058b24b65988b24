/* The masks of tests/conformance/masks.lua as programs, and data for them of
 * random lengths, params and documents. */
#ifndef FACC_TEST_VERDICT_LIST_H
#define FACC_TEST_VERDICT_LIST_H

#include <stdio.h>

#include "compiler/compile.h"
#include "tests/unit/verdict_data.h"

enum { LIST_MOST = 160 };

struct list_entry {
    char name[32];
    struct program *p;
};

static inline struct program *list_compile(const char *label, const char *text)
{
    struct diag d;
    diag_init(&d);
    struct program *p =
        compile_program(&alloc_libc, label, text, strlen(text), NULL, &d);
    ck_assert_msg(p != NULL, "%s: %s", label, d.message);
    return p;
}

static inline const char *list_text(void)
{
    static char text[1 << 16];
    FILE *f = fopen(FACC_SOURCE_DIR "/tests/conformance/masks.lua", "rb");
    ck_assert_ptr_nonnull(f);
    const size_t size = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    ck_assert_uint_lt(size, sizeof text - 1);
    text[size] = '\0';
    return text;
}

/* One mask by its name. */
static inline struct program *list_open_one(const char *list, const char *name)
{
    static const char first[] = "local want = \"M02\"\n";
    static char text[1 << 17];
    ck_assert(strncmp(list, first, strlen(first)) == 0);
    snprintf(text, sizeof text, "local want = \"%s\"\n%s", name,
             list + strlen(first));
    return list_compile(name, text);
}

/* Those that are wanted (NULL: all) into e[LIST_MOST]; how many. */
static inline int list_open(struct list_entry *e,
                            bool (*wanted)(const struct program *p))
{
    const char *list = list_text();
    int n = 0;
    for (const char *s = list; (s = strchr(s, '\n')) != NULL;) {
        struct list_entry *x = &e[n];
        s++;
        ck_assert_int_lt(n, LIST_MOST);
        if (sscanf(s, "score(\"%31[^\"]", x->name) != 1 &&
            sscanf(s, "mask(\"%31[^\"]", x->name) != 1)
            continue;
        x->p = list_open_one(list, x->name);
        if (!wanted || wanted(x->p))
            n++;
        else
            program_free(x->p);
    }
    return n;
}

static inline void list_close(struct list_entry *e, int n)
{
    for (int k = 0; k < n; k++)
        program_free(e[k].p);
}

/* Lengths up to `most`; those of sequences too if the seed is odd. */
static inline void list_random_data(struct data *d, const struct ir_graph *g,
                                    uint64_t seed, int64_t most)
{
    memset(d, 0, sizeof *d);
    d->env = (struct eval_env){.B = 2,
                               .H = 4,
                               .Hkv = 2,
                               .Sq = 1 + data_pick(seed, 1, most),
                               .Skv = 1 + data_pick(seed, 2, most)};
    for (int b = 0; b < 2; b++) {
        d->len_q[b] = (int32_t)(1 + data_pick(seed, 3, d->env.Sq));
        d->len_kv[b] = (int32_t)(1 + data_pick(seed, 4, d->env.Skv));
    }
    if (seed % 2) {
        d->env.len_q = d->len_q;
        d->env.len_kv = d->len_kv;
    }
    data_list(d, g, seed);
    d->param[0].i = data_pick(seed, 5, 200) - 50;
    d->param[1].i = data_pick(seed, 6, 300) - 20;
    d->param[2].i = data_pick(seed, 7, 3000) - 1000;
}

#endif

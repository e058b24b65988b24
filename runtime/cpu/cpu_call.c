/* Reads what a call on host memory says beyond Q, K and V. In: args whose
 * shapes have been checked. Out: the evaluator's environment and the classes
 * of blocks, or an error that names the entry that does not fit. Called by
 * facc_cpu_attention and facc_verdict_map. */
#include "runtime/cpu/cpu_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where and about what a message is. */
struct reader {
    const facc_args *a;
    const struct args_sizes *z;
    bool score_masks;
    const char *stage;
    struct diag *d;
};

/* --- sequences ---------------------------------------------------------- */

static bool entry_fits(const struct reader *r, const char *name, int64_t index,
                       int64_t value, int64_t least, int64_t most)
{
    if (value >= least && value <= most)
        return true;
    return diag_set(r->d, DIAG_ARGUMENT, r->stage, NULL, 0,
                    "%s[%lld] is %lld: must be from %lld to %lld", name,
                    (long long)index, (long long)value, (long long)least,
                    (long long)most);
}

/* Offsets ascend from 0 within the tensor, by no more than `longest`. */
static bool offsets_fit(const struct reader *r, const char *name,
                        const int32_t *cu, int total, int longest)
{
    if (!entry_fits(r, name, 0, cu[0], 0, 0))
        return false;
    for (int b = 0; b < r->z->B; b++) {
        int64_t most = (int64_t)cu[b] + longest;
        if (!entry_fits(r, name, b + 1, cu[b + 1], cu[b],
                        most < total ? most : total))
            return false;
    }
    return true;
}

/* Lengths of one side; own: [B] where packed. */
static bool read_lengths(const struct reader *r, bool kv, int32_t *own,
                         const int32_t **out)
{
    const facc_args *a = r->a;
    const struct args_sizes *z = r->z;
    const int32_t *used = kv ? a->seqused_kv : a->seqused_q;
    const int32_t *cu = kv ? a->cu_seqlens_kv : a->cu_seqlens_q;
    int size = kv ? z->Skv : z->Sq;
    if (z->packed && !offsets_fit(r, kv ? "cu_seqlens_kv" : "cu_seqlens_q", cu,
                                  kv ? z->Tkv : z->Tq, size))
        return false;
    for (int b = 0; b < z->B && (used != NULL || z->packed); b++) {
        int full = z->packed ? cu[b + 1] - cu[b] : size;
        if (used != NULL && !entry_fits(r, kv ? "seqused_kv" : "seqused_q", b,
                                        used[b], 0, full))
            return false;
        if (z->packed)
            own[b] = used != NULL ? used[b] : full;
    }
    *out = z->packed ? own : used;
    return true;
}

/* --- the environment ---------------------------------------------------- */

static void read_tensors(const facc_args *a, struct eval_tensor *tensors,
                         union eval_value *params)
{
    for (int i = 0; i < a->n_tensors; i++) {
        tensors[i].data = a->tensors[i].data;
        for (int k = 0; k < a->tensors[i].rank; k++) {
            tensors[i].shape[k] = a->tensors[i].shape[k];
            tensors[i].stride[k] = a->tensors[i].stride[k];
        }
    }
    _Static_assert(sizeof *params == sizeof *a->params, "same union");
    if (a->n_params > 0)
        memcpy(params, a->params, (size_t)a->n_params * sizeof *params);
}

static bool read_env(const struct reader *r, struct cpu_env *e)
{
    const struct args_sizes *z = r->z;
    size_t nt = (size_t)r->a->n_tensors, np = (size_t)r->a->n_params;
    size_t nb = z->packed ? (size_t)z->B : 0;
    struct eval_tensor *tensors =
        calloc(1, nt * sizeof *tensors + np * sizeof(union eval_value) +
                      2 * nb * sizeof(int32_t) + 1);
    if (tensors == NULL)
        return diag_nomem(r->d, r->stage);
    union eval_value *params = (void *)(tensors + nt);
    int32_t *lengths = (void *)(params + np);
    e->memory = tensors;
    read_tensors(r->a, tensors, params);
    e->env = (struct eval_env){.B = z->B,
                               .H = z->H,
                               .Hkv = z->Hkv,
                               .Sq = z->Sq,
                               .Skv = z->Skv,
                               .D = z->D,
                               .Dv = z->Dv,
                               .tensors = tensors,
                               .params = params};
    return read_lengths(r, false, lengths, &e->env.len_q) &&
           read_lengths(r, true, lengths + nb, &e->env.len_kv);
}

/* --- block lists -------------------------------------------------------- */

/* "kv_indices[1][0][7][3]": the entry of a row of blocks, counted over all
 * lists. */
static bool block_fits(const struct reader *r, const char *name, int64_t row,
                       int entry, int64_t value, int64_t most)
{
    const facc_block_mask *m = &r->z->block_mask;
    int64_t list = row / m->rows, heads = m->per_h ? r->z->H : 1;
    char text[96], last[16] = "";
    if (value >= 0 && value <= most)
        return true;
    if (entry >= 0)
        snprintf(last, sizeof last, "[%d]", entry);
    snprintf(text, sizeof text, "block_mask: %s[%lld][%lld][%lld]%s", name,
             (long long)(list / heads), (long long)(list % heads),
             (long long)(row % m->rows), last);
    return diag_set(r->d, DIAG_ARGUMENT, r->stage, NULL, 0,
                    "%s is %lld: must be from 0 to %lld", text,
                    (long long)value, (long long)most);
}

/* Enters one kind of lists, all rows of all of them. */
static bool read_lists(const struct reader *r, bool full, int64_t rows,
                       uint8_t *classes)
{
    const facc_block_mask *m = &r->z->block_mask;
    const int32_t *counts = full ? m->full_kv_num_blocks : m->kv_num_blocks;
    const int32_t *indices = full ? m->full_kv_indices : m->kv_indices;
    for (int64_t row = 0; counts != NULL && row < rows; row++) {
        const int32_t *list = indices + row * m->cols;
        if (!block_fits(r, full ? "full_kv_num_blocks" : "kv_num_blocks", row,
                        -1, counts[row], m->cols))
            return false;
        for (int i = 0; i < counts[row]; i++) {
            if (!block_fits(r, full ? "full_kv_indices" : "kv_indices", row, i,
                            list[i], m->cols - 1))
                return false;
            classes[row * m->cols + list[i]] =
                full && !r->score_masks ? VERDICT_FULL : VERDICT_PARTIAL;
        }
    }
    return true;
}

/* A block in both lists is full. */
static bool read_classes(const struct reader *r, struct cpu_env *e)
{
    const facc_block_mask *m = &r->z->block_mask;
    if (r->a->block_mask == NULL)
        return true;
    int64_t rows =
        (int64_t)(m->per_b ? r->z->B : 1) * (m->per_h ? r->z->H : 1) * m->rows;
    size_t n = (size_t)rows * (size_t)m->cols;
    e->classes = malloc(n + 1);
    if (e->classes == NULL)
        return diag_nomem(r->d, r->stage);
    memset(e->classes, VERDICT_EMPTY, n);
    return read_lists(r, false, rows, e->classes) &&
           read_lists(r, true, rows, e->classes);
}

const uint8_t *cpu_env_classes(const struct cpu_env *e,
                               const struct args_sizes *z, int b, int h)
{
    const facc_block_mask *m = &z->block_mask;
    if (e->classes == NULL)
        return NULL;
    int64_t list = (int64_t)(m->per_b ? b : 0) * (m->per_h ? z->H : 1) +
                   (m->per_h ? h : 0);
    return e->classes + list * m->rows * m->cols;
}

unsigned cpu_classes_in(const uint8_t *classes, const facc_block_mask *m,
                        int64_t q_first, int64_t q_last, int64_t kv_first,
                        int64_t kv_last)
{
    unsigned seen = 0;
    for (int64_t r = q_first / m->block_q; r <= q_last / m->block_q; r++)
        for (int64_t c = kv_first / m->block_kv; c <= kv_last / m->block_kv;
             c++)
            seen |= 1u << classes[r * m->cols + c];
    return seen;
}

enum verdict cpu_classes_join(unsigned classes, enum verdict by_mask)
{
    unsigned all = 0;
    if (classes >> VERDICT_EMPTY & 1)
        all |= VERDICT_EMPTY;
    if (classes >> VERDICT_FULL & 1)
        all |= VERDICT_FULL;
    if (classes >> VERDICT_PARTIAL & 1)
        all |= (unsigned)by_mask;
    return (enum verdict)all;
}

/* ------------------------------------------------------------------------ */

bool cpu_env_open(struct cpu_env *e, const facc_args *a,
                  const struct args_sizes *z, bool score_masks,
                  const char *stage, struct diag *d)
{
    const struct reader r = {a, z, score_masks, stage, d};
    *e = (struct cpu_env){.classes = NULL};
    return read_env(&r, e) && read_classes(&r, e);
}

void cpu_env_close(struct cpu_env *e)
{
    free(e->classes);
    free(e->memory);
}

/* Do the lengths, packed sequences and block lists of a call fit each other
 * and its tensors? In: the caller's args and the sizes of its tensors. Out:
 * the sizes as programs see them. Called by args_check; what the lists hold is
 * not read, as it may be device memory. */
#include "runtime/args.h"
#include "runtime/error.h"

#define FAIL(rules, status, ...)                                               \
    diag_set(d, status, (rules)->stage, NULL, 0, __VA_ARGS__)

static bool aligned(const void *p)
{
    return (uintptr_t)p % sizeof(int32_t) == 0;
}

static bool lengths_fit(const facc_args *a, const struct args_rules *r,
                        struct diag *d)
{
    if (!aligned(a->seqused_q) || !aligned(a->seqused_kv))
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "seqused_q and seqused_kv must be aligned to 4 bytes");
    if (!aligned(a->cu_seqlens_q) || !aligned(a->cu_seqlens_kv))
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "cu_seqlens_q and cu_seqlens_kv must be aligned to 4 "
                    "bytes");
    return true;
}

/* ---- packed sequences --------------------------------------------------- */

static bool not_packed(const facc_args *a, const struct args_rules *r,
                       struct diag *d)
{
    if (a->n_seqs == 0 && a->max_seqlen_q == 0 && a->max_seqlen_kv == 0)
        return true;
    return FAIL(r, FACC_ERR_ARGUMENT,
                "n_seqs is %d, max_seqlen_q %d, max_seqlen_kv %d: they are of "
                "packed sequences, but cu_seqlens_q and cu_seqlens_kv are NULL",
                a->n_seqs, a->max_seqlen_q, a->max_seqlen_kv);
}

static bool packed(const facc_args *a, const struct args_rules *r,
                   struct args_sizes *z, struct diag *d)
{
    if (!a->cu_seqlens_q || !a->cu_seqlens_kv)
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "packed sequences need both cu_seqlens_q and "
                    "cu_seqlens_kv: %s is NULL",
                    a->cu_seqlens_q ? "cu_seqlens_kv" : "cu_seqlens_q");
    if (z->B != 1)
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "q: B is %d; with packed sequences (cu_seqlens_q) the "
                    "tensors hold them one behind the other: B is 1",
                    z->B);
    if (a->n_seqs < 1)
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "n_seqs is %d: cu_seqlens_q and cu_seqlens_kv are of at "
                    "least one sequence",
                    a->n_seqs);
    if (a->max_seqlen_q < 0 || a->max_seqlen_kv < 0)
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "max_seqlen_q is %d, max_seqlen_kv %d: they are at least "
                    "0",
                    a->max_seqlen_q, a->max_seqlen_kv);
    z->packed = true;
    z->B = a->n_seqs;
    z->Sq = a->max_seqlen_q ? a->max_seqlen_q : z->Tq;
    z->Skv = a->max_seqlen_kv ? a->max_seqlen_kv : z->Tkv;
    return true;
}

/* A kernel has the code of packed sequences, or has it not. */
static bool as_made(bool given, const struct args_rules *r, struct diag *d)
{
    if (!r->gpu || r->packed == given)
        return true;
    if (given)
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "cu_seqlens_q is given, but the variant is not packed: set "
                    "facc_variant.packed");
    return FAIL(r, FACC_ERR_ARGUMENT,
                "the kernel is made for packed sequences: give cu_seqlens_q "
                "and cu_seqlens_kv, or get one whose facc_variant.packed is "
                "0");
}

/* ---- block masks -------------------------------------------------------- */

static bool lists_whole(const facc_block_mask *m, const struct args_rules *r,
                        struct diag *d)
{
    if (!m->kv_num_blocks || !m->kv_indices)
        return FAIL(r, FACC_ERR_ARGUMENT, "block_mask: %s is NULL",
                    m->kv_num_blocks ? "kv_indices" : "kv_num_blocks");
    if (!m->full_kv_num_blocks != !m->full_kv_indices)
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "block_mask: %s is NULL: give both lists of full blocks "
                    "or neither",
                    m->full_kv_num_blocks ? "full_kv_indices"
                                          : "full_kv_num_blocks");
    if (!aligned(m->kv_num_blocks) || !aligned(m->kv_indices) ||
        !aligned(m->full_kv_num_blocks) || !aligned(m->full_kv_indices))
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "block_mask: its lists must be aligned to 4 bytes");
    return true;
}

static bool covers(const facc_block_mask *m, const struct args_rules *r,
                   const struct args_sizes *z, struct diag *d)
{
    if (m->block_q < 1 || m->block_kv < 1 || m->rows < 1 || m->cols < 1)
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "block_mask: %d x %d blocks of %d x %d: each must be at "
                    "least 1",
                    m->rows, m->cols, m->block_q, m->block_kv);
    if ((int64_t)m->rows * m->block_q < z->Sq)
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "block_mask: %d rows of blocks of %d are fewer than the "
                    "%d query rows",
                    m->rows, m->block_q, z->Sq);
    if ((int64_t)m->cols * m->block_kv < z->Skv)
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "block_mask: %d columns of blocks of %d are fewer than the "
                    "%d keys",
                    m->cols, m->block_kv, z->Skv);
    return true;
}

/* Numbers of rows and entries of all lists are 64-bit, as are their bytes. */
static bool lists_fit(const facc_block_mask *m, const struct args_rules *r,
                      const struct args_sizes *z, struct diag *d)
{
    const int b = m->per_b ? z->B : 1, h = m->per_h ? z->H : 1;
    if ((double)b * h * m->rows * m->cols * (double)sizeof(int32_t) <= 4e18)
        return true;
    return FAIL(r, FACC_ERR_ARGUMENT,
                "block_mask: lists of %d x %d x %d x %d blocks reach beyond a "
                "64-bit address space",
                b, h, m->rows, m->cols);
}

/* FlexAttention asks score_mod in full blocks, mask_mod not; here what both
 * mask is one mask. */
static bool full_blocks_fit(const facc_block_mask *m,
                            const struct args_rules *r,
                            const struct signature *s, struct diag *d)
{
    if (!s->no_full_blocks || !m->full_kv_num_blocks)
        return true;
    return FAIL(r, FACC_ERR_UNSUPPORTED,
                "block_mask has lists of full blocks, but %s masks in "
                "score_mod (-inf) and in mask_mod: put it all into mask_mod, "
                "or list all blocks as partial ones",
                s->file);
}

static bool block_mask_fits(const facc_args *a, const struct args_rules *r,
                            const struct signature *s, struct args_sizes *z,
                            struct diag *d)
{
    facc_block_mask *m = &z->block_mask;
    if (r->gpu && r->block_mask && !a->block_mask)
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "block_mask is NULL, but the variant has block_mask: get "
                    "a kernel without, or give the lists");
    if (r->gpu && !r->block_mask && a->block_mask)
        return FAIL(r, FACC_ERR_ARGUMENT,
                    "block_mask is given, but the variant has none: get a "
                    "kernel with facc_variant.block_mask 1");
    return !a->block_mask ||
           (versioned_read(m, sizeof *m, a->block_mask, "facc_block_mask", d) &&
            covers(m, r, z, d) && lists_fit(m, r, z, d) &&
            lists_whole(m, r, d) && full_blocks_fit(m, r, s, d));
}

/* ----------------------------------------------------------------------- */

bool args_sequences(const facc_args *args, const struct args_rules *rules,
                    const struct signature *signature, struct args_sizes *z,
                    struct diag *d)
{
    const bool any = args->cu_seqlens_q || args->cu_seqlens_kv;
    z->packed = false;
    return lengths_fit(args, rules, d) && as_made(any, rules, d) &&
           (any ? packed(args, rules, z, d) : not_packed(args, rules, d)) &&
           block_mask_fits(args, rules, signature, z, d);
}

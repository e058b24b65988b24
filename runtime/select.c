/* In: a variant, the architecture, how costly the mods are. Out: the kernel
 * family and tile, with the shared memory of a CTA; or the reason why nothing
 * runs it. Called by kernel.c before a unit is emitted. The table's figures
 * were measured; its order is the order of preference. */
#include "runtime/select.h"

#include <stddef.h>

/* What decides tiles between architectures: shared memory. */
struct arch_class {
    int arch;
    int per_block; /* bytes a CTA may opt in to */
};

static const struct arch_class arch_classes[] = {
    {80, 163 * 1024}, {86, 99 * 1024},   {87, 163 * 1024}, {89, 99 * 1024},
    {90, 227 * 1024}, {100, 227 * 1024}, {120, 99 * 1024},
};

/* Left free for static shared memory: the tables of column and diagonal
 * values (struct Stage of sm80/score.cuh). */
enum { STAGE_BYTES = 8 * 1024, MAX_HEAD_DIM = 256 };

/* A mod of this cost or more makes many values per cell, which need registers
 * beside the accumulators. */
enum { HEAVY_MOD = 12 };

struct tile_rule {
    int max_dim;       /* larger of the head dims */
    int min_per_block; /* shared bytes per block of the architecture */
    bool heavy;        /* also for heavy mods */
    int tile_m, tile_n, warps, stages;
    bool q_in_registers;
};

/* The first rule that holds and fits. Warps own 32 query rows up to dim 128,
 * so that each K and V fragment feeds two MMAs; beyond, the output of 32 rows
 * does not fit a thread's 255 registers and they own 16. */
static const struct tile_rule tile_rules[] = {
    {64, 0, true, 128, 64, 4, 2, true},
    {128, 200 * 1024, true, 128, 48, 4, 2, false},
    {128, 0, true, 128, 64, 4, 1, false},
    {256, 200 * 1024, true, 128, 64, 8, 2, false},
    {256, 160 * 1024, true, 128, 64, 8, 1, false},
    {256, 0, true, 64, 32, 4, 1, false},
};

static int padded(int dim)
{
    return (dim + 15) / 16 * 16;
}

/* The same sum as kBytesNeeded of templates/sm80/shape.cuh. */
static int shared_bytes(const struct unit_config *c)
{
    const int row = 2 * padded(c->head_dim) + 16;
    const int row_v = 2 * padded(c->head_dim_v) + 16;
    const int loop = c->tile_m * row + c->stages * c->tile_n * (row + row_v);
    const int output = c->out_dtype == DTYPE_F32 ? 0 : c->tile_m * row_v;
    return loop > output ? loop : output;
}

static int shared_limit(int arch)
{
    const size_t n = sizeof arch_classes / sizeof arch_classes[0];
    for (size_t i = 0; i < n; i++)
        if (arch_classes[i].arch == arch)
            return arch_classes[i].per_block;
    return 99 * 1024; /* the least of all since sm_80 */
}

static bool check_dim(const char *name, int dim, struct diag *d)
{
    if (dim < 8 || dim > MAX_HEAD_DIM || dim % 8 != 0)
        return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                        "%s is %d: GPU kernels take multiples of 8 from 8 to "
                        "%d; pad the tensors with zeros",
                        name, dim, MAX_HEAD_DIM);
    return true;
}

static bool check_variant(const facc_variant *v, int arch, enum dtype out_dtype,
                          struct diag *d)
{
    const enum dtype dtype = (enum dtype)v->dtype;
    if (arch < 80)
        return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                        "architecture sm_%d is too old: sm_80 (Ampere) or "
                        "later is needed; the CPU path runs everywhere",
                        arch);
    if (dtype != DTYPE_F16 && dtype != DTYPE_BF16)
        return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                        "dtype %s: GPU kernels take Q, K and V in f16 or "
                        "bf16; convert the tensors or use the CPU path",
                        dtype_name(dtype));
    if (out_dtype != DTYPE_F16 && out_dtype != DTYPE_BF16 &&
        out_dtype != DTYPE_F32)
        return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                        "out_dtype %s: GPU kernels write f16, bf16 or f32",
                        dtype_name(out_dtype));
    return check_dim("head_dim", v->head_dim, d) &&
           (v->head_dim_v == 0 || check_dim("head_dim_v", v->head_dim_v, d));
}

bool select_config(const facc_variant *v, int arch, int mod_cost, bool has_mods,
                   struct unit_config *out, struct diag *d)
{
    const bool heavy = has_mods && mod_cost >= HEAVY_MOD;
    const enum dtype dtype = (enum dtype)v->dtype;
    const enum dtype out_dtype =
        v->out_dtype == 0 ? dtype : (enum dtype)v->out_dtype;
    if (!check_variant(v, arch, out_dtype, d))
        return false;

    struct unit_config c = {.family = "sm80",
                            .dtype = dtype,
                            .out_dtype = out_dtype,
                            .head_dim = v->head_dim,
                            .head_dim_v = v->head_dim_v == 0 ? v->head_dim
                                                             : v->head_dim_v,
                            .check_bounds = v->check_bounds != 0};
    const int dim = c.head_dim > c.head_dim_v ? c.head_dim : c.head_dim_v;
    const int limit = shared_limit(arch);
    const size_t n = sizeof tile_rules / sizeof tile_rules[0];
    for (size_t i = 0; i < n; i++) {
        const struct tile_rule *r = &tile_rules[i];
        if (dim > r->max_dim || limit < r->min_per_block ||
            (heavy && !r->heavy))
            continue;
        c.tile_m = r->tile_m;
        c.tile_n = r->tile_n;
        c.warps = r->warps;
        c.stages = r->stages;
        c.q_in_registers = r->q_in_registers;
        c.shared_bytes = shared_bytes(&c);
        if (c.shared_bytes + STAGE_BYTES > limit)
            continue;
        *out = c;
        return true;
    }
    return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                    "no tile for head dims %d and %d fits the %d bytes of "
                    "shared memory of sm_%d",
                    c.head_dim, c.head_dim_v, limit, arch);
}

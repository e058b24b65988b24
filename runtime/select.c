/* In: a variant, the architecture, whether there is a mask. Out: the kernel
 * families, and each one's tile with the shared memory of a CTA; or the reason
 * why nothing runs it. Called by kernel.c before a unit is emitted. The table's
 * figures were measured; its order is the order of preference. */
#include "runtime/select.h"

#include <stddef.h>
#include <stdio.h>

/* What decides tiles between architectures: shared memory. */
struct arch_class {
    int arch;
    int per_block; /* bytes a CTA may opt in to; its multiprocessor has
                      PER_CTA_BYTES more */
};

static const struct arch_class arch_classes[] = {
    {80, 163 * 1024}, {86, 99 * 1024},   {87, 163 * 1024}, {89, 99 * 1024},
    {90, 227 * 1024}, {100, 227 * 1024}, {120, 99 * 1024},
};

/* Left free for static shared memory: the work description and the tables of
 * column and diagonal values (kStaticBytes of sm80/stage.cuh, which leaves out
 * the tables that do not fit). */
enum { STATIC_BYTES = 8 * 1024, MAX_HEAD_DIM = 256 };

/* What the system takes of each CTA. */
enum { PER_CTA_BYTES = 1024 };

struct tile_rule {
    int max_dim; /* the larger of the head dims */
    int tile_m, tile_n, warps, stages;
    bool q_in_registers;
    bool masked; /* only for programs with a mask, where two CTAs fit */
};

/* Family sm80: the first rule whose max_dim and shared memory suffice.
 *
 * Reasons, with TFLOP/s on an H200 (bf16, 8k, full / causal; FlashAttention-2
 * in the same run in brackets). Warps own 32 query rows up to dim 128, so
 * that each K and V fragment feeds two MMAs (16 rows at dim 128: 287 / 283
 * instead of 394 / 385); beyond, the output of 32 rows does not fit a
 * thread's 255 registers. Eight warps are two groups that take turns at the
 * tensor cores; four leave room for a second CTA.
 *
 * The figures are from before references followed the maximum (sm80/
 * softmax.cuh), which costs up to 6 % and changes no order: dim 64 then has
 * 328 / 317 (309 / 296), dim 128 394 / 374 (361 / 322).
 *
 * The cost of the mod does not change the order: with softcap, ALiBi or a
 * document mask the same tiles lead, at dim 64 by 3 to 13 % over two groups of
 * 256 x 80; at dim 128 four warps of 128 x 48 are within 3 %, on either side.
 * Where a mod keeps the function units busy (an exact tanh) more warps would
 * help: at dim 64, four CTAs of 64 x 64 gained 4 % with it, and lost 5 %
 * without.
 *
 * A mask does, at dim 128: with few KV tiles per query tile, filling and
 * draining the turns of two groups costs more than they gain, and tiles of 128
 * rows have fewer cells that are masked. Milliseconds of 256 x 48 in turns and
 * of 128 x 64 with four warps (16 heads): window of 1024 at 8k 0.491, 0.442;
 * 16 documents 0.140, 0.112; shared prefix 0.426, 0.335; dilated 0.495, 0.449;
 * causal at 8k 1.470, 1.453, at 1k 0.295, 0.270. Without a mask, at 8k: 2.846,
 * 2.886. 128 x 48 with four warps is between the two, 128 x 32 slower. */
static const struct tile_rule tile_rules[] = {
    /* 344 / 342 (309 / 294); 256 x 80, turns: 347 / 334; 128 x 32, three
     * CTAs: 316 / 305. Dim 32: 248 (222). */
    {64, 128, 64, 4, 2, true, false},
    /* dim 96: 350 (340), 128 x 64 with four warps 322; dim 80: 318 (271) */
    {96, 256, 64, 8, 2, false, false},
    {128, 128, 64, 4, 2, false, true},
    /* 400 / 394 (360 / 321); 128 x 48 with four warps: 387 / 384, less with
     * mods; 256 x 64 spills: 369 / 363 */
    {128, 256, 48, 8, 2, false, false},
    /* dim 192: 329 (326), 128 x 64: 308; dim 160: 313 (243) */
    {192, 128, 80, 8, 2, false, false},
    /* 337 / 338 (330 / 292); 128 x 48: 320 / 321; 64 x 64 with four warps and
     * one buffer: 285 / 289 */
    {256, 128, 64, 8, 2, false, false},
    /* Not measured, for less shared memory: the most columns that fit. */
    {128, 128, 64, 8, 2, false, false},
    {128, 128, 48, 8, 2, false, false},
    {256, 128, 48, 8, 2, false, false},
    {256, 128, 32, 8, 2, false, false},
    {256, 128, 16, 8, 2, false, false},
    {256, 64, 32, 4, 1, false, false},
};

/* Family sm90: 16 query rows to a consumer's warp, four warps more that load;
 * one CTA to a multiprocessor, which has all of its shared memory. Columns are
 * as many as two buffers of K and V leave room for, Q buffers two where they
 * fit: the next tile's Q is then there when the last one's P V ends.
 * Accumulators decide the rows: with 192, a thread has 160 registers, enough
 * for outputs of up to 96 columns. */
struct sm90_rule {
    int max_dim, max_dim_v; /* the larger of the head dims; that of V */
    int tile_m, tile_n, q_buffers, stages;
    bool cell_loads; /* only where the score loads for every cell */
};

/* The first rule that suffices. Reasons, with TFLOP/s on an H200 (bf16, 8k,
 * full / causal; cuDNN in the same run in brackets), and what else was timed.
 * Masks and the cost of the mod do not change the order as far as was seen, but
 * for loads of every cell: a causal mask, biases and softcap were timed with
 * these tiles only.
 *
 * Neither do values of rows, however many: both families spill then, sm80 more
 * of them or sooner slow. Milliseconds of sm90 and of sm80 with 10, 20, 30 and
 * 40 values of each row in the mask (any() over pairs of limits; S 4096, B 2,
 * H * D 2048): dim 64 1.63, 1.75; 3.55, 5.83; 5.93, 13.8; 8.15, 35.3. Dim 128
 * 0.93, 1.12; 2.45, 3.48; 3.85, 10.0; 5.22, 18.9. Dim 256 0.59, 0.98; 1.59,
 * 1.54; 2.48, 2.98; 3.42, 4.18. Bytes spilt with 30: 1742, 1632; 840, 2112;
 * 700, 336: they do not say which is faster. */
static const struct sm90_rule sm90_rules[] = {
    /* Addresses of loads that are under way take registers. Bytes that three
     * groups spill with 96, 80, 64 columns: dense_bias 162, 52, 0; swin 270,
     * 70, 0; sam_position 410, 16, 16; graphormer 52, 0, 0; fire (values of
     * heads) 356, 256, 256. */
    {64, 64, 192, 80, 2, 4, true},
    /* 534 / 483 (475 / 446); more columns do not fit 160 registers. Four stages
     * against two, later: 1.003 / 1.021 of the speed. */
    {64, 64, 192, 96, 2, 4, false},
    /* 683 / 639; with two Q buffers and two stages 668 / 623. Two groups, then,
     * in an earlier run with 652 / 611: 128 x 128 588 / 583, 128 x 144 601 /
     * 580, 128 x 160 581 / 574. 192 x 96 spills. */
    {96, 96, 192, 80, 1, 4, false},
    /* 743 / 712 (664 / 593) */
    {128, 128, 128, 128, 2, 2, false},
    /* 192/128: 704 / 686. Two Q buffers do not fit. */
    {192, 128, 128, 128, 1, 2, false},
    /* 791 / 750 */
    {192, 192, 128, 96, 1, 2, false},
    /* 755 / 729 (726 / 622); 80 columns fit as well, not timed */
    {256, 256, 128, 64, 1, 2, false},
    /* beside more than 16 extra columns */
    {256, 256, 128, 48, 1, 2, false},
};
enum { SM90_SHARED = 227 * 1024 };

/* What a kernel with planes keeps for barriers and descriptions. Where those of
 * a program are larger, it copies nothing. */
enum { PLANE_CONTROL_BYTES = 3 * 1024 };

/* The same for FP8. Reasons are those of the prototype that was timed (issue
 * 6): three groups hide each other's latency, and 192 rows read K and V less
 * often than 128; columns are a multiple of a step, 32, and what 160 registers
 * hold. At 8k, full / causal, V transposed in the time (cuDNN's bf16): dim 64
 * 579 / 534 (465 / 436), dim 128 947 / 890 (658 / 587), dim 256 1304 / 1175
 * (715 / 606). */
static const struct sm90_rule fp8_rules[] = {
    {64, 64, 192, 96, 2, 4, false},
    {128, 128, 192, 96, 2, 4, false},
    {128, 128, 192, 96, 2, 2, false}, /* with a copy of the output */
    {256, 256, 128, 96, 1, 2, false}, /* never with one */
};
/* NATURAL_SLOTS: kNaturalSlots of templates/sm90/shape.cuh. */
enum { FP8_MAX_PROMOTED = 128, NATURAL_SLOTS = 2 };

/* Family sm90, 16 bits, with two tiles of a captured tensor beside those of K
 * and V: rows of tile_n elements of so many bytes. Not two Q buffers, whose
 * room is worth more columns. */
struct plane_rule {
    int max_dim, max_dim_v;
    int bytes;
    int tile_m, tile_n, q_buffers, stages;
};

static const struct plane_rule plane_rules[] = {
    {64, 64, 2, 192, 80, 2, 2},    {64, 64, 4, 192, 80, 1, 2},
    {96, 96, 2, 192, 64, 2, 2},    {96, 96, 4, 192, 64, 1, 2},
    {128, 128, 2, 128, 128, 1, 2}, {128, 128, 4, 128, 96, 1, 2},
    {192, 128, 2, 128, 96, 1, 2},  {192, 128, 4, 128, 64, 1, 2},
    {192, 192, 2, 128, 80, 1, 2},  {192, 192, 4, 128, 64, 1, 2},
    {256, 256, 2, 128, 64, 1, 2},  {256, 256, 4, 128, 48, 1, 2},
};

static int padded(int dim)
{
    return (dim + 15) / 16 * 16;
}

/* The same sum as kBytesNeeded of templates/sm80/shape.cuh. */
static int shared_bytes(const struct unit_config *c)
{
    const int row = 2 * (padded(c->head_dim) + emit_extra_dim(c)) + 16;
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

/* Whether so many CTAs fit a multiprocessor. */
static bool ctas_fit(const struct unit_config *c, int ctas, int arch)
{
    const int each = c->shared_bytes + STATIC_BYTES + PER_CTA_BYTES;
    return ctas * each <= shared_limit(arch) + PER_CTA_BYTES;
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

static bool is_fp8(const facc_variant *v)
{
    return v->dtype == FACC_E4M3 || v->dtype == FACC_E5M2;
}

static bool check_fp8_dims(const facc_variant *v, struct diag *d)
{
    const int dim = v->head_dim;
    if ((dim != 64 && dim != 128 && dim != 256) ||
        (v->head_dim_v != 0 && v->head_dim_v != dim))
        return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                        "head dims %d and %d: the kernels for FP8 take 64, 128 "
                        "or 256, the same for V; pad the tensors with zeros",
                        dim, v->head_dim_v == 0 ? dim : v->head_dim_v);
    return true;
}

static bool check_variant(const facc_variant *v, int arch, enum dtype out_dtype,
                          struct diag *d)
{
    const enum dtype dtype = (enum dtype)v->dtype;
    const bool fp8 = is_fp8(v);
    if (arch < 80)
        return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                        "architecture sm_%d is too old: sm_80 (Ampere) or "
                        "later is needed; the CPU path runs everywhere",
                        arch);
    if (dtype != DTYPE_F16 && dtype != DTYPE_BF16 && !fp8)
        return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                        "dtype %s: GPU kernels take Q, K and V in f16, bf16, "
                        "e4m3 or e5m2; convert the tensors or use the CPU path",
                        dtype_name(dtype));
    if (fp8 && arch != 90)
        return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                        "dtype %s: the kernels for FP8 need sm_90, this is for "
                        "sm_%d; convert the tensors or use the CPU path",
                        dtype_name(dtype), arch);
    if (out_dtype != DTYPE_F16 && out_dtype != DTYPE_BF16 &&
        out_dtype != DTYPE_F32)
        return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                        "out_dtype %s: GPU kernels write f16, bf16 or f32",
                        dtype_name(out_dtype));
    return fp8 ? check_fp8_dims(v, d)
               : check_dim("head_dim", v->head_dim, d) &&
                     (v->head_dim_v == 0 ||
                      check_dim("head_dim_v", v->head_dim_v, d));
}

/* ---- families ----------------------------------------------------------- */

static bool refuse_sm90(const char *why, struct diag *d)
{
    return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                    "family sm90 %s: leave variant.family at "
                    "FACC_FAMILY_AUTO",
                    why);
}

static bool sm90_possible(const facc_variant *v, int arch, struct diag *d)
{
    char why[64];
    if (v->check_bounds)
        return refuse_sm90("has no checked debug build", d);
    snprintf(why, sizeof why, "needs sm_90, this is for sm_%d", arch);
    return arch == 90 || refuse_sm90(why, d);
}

int select_families(const facc_variant *v, int arch,
                    int out[SELECT_MAX_FAMILIES], struct diag *d)
{
    if (v->layout != FACC_LAYOUT_ANY && v->layout != FACC_LAYOUT_ALIGNED)
        return diag_set(d, DIAG_ARGUMENT, "select", NULL, 0,
                        "variant.layout is %d: FACC_LAYOUT_ANY or "
                        "FACC_LAYOUT_ALIGNED",
                        (int)v->layout);
    if (v->family != FACC_FAMILY_AUTO && v->family != FACC_FAMILY_SM80 &&
        v->family != FACC_FAMILY_SM90)
        return diag_set(d, DIAG_ARGUMENT, "select", NULL, 0,
                        "variant.family is %d: FACC_FAMILY_AUTO, "
                        "FACC_FAMILY_SM80 or FACC_FAMILY_SM90",
                        (int)v->family);
    if (v->family == FACC_FAMILY_SM90 && !sm90_possible(v, arch, d))
        return 0;
    if (is_fp8(v)) { /* sm90 or nothing */
        if (v->family == FACC_FAMILY_SM80)
            return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                            "family sm80 takes no FP8: leave variant.family "
                            "at FACC_FAMILY_AUTO");
        out[0] = FACC_FAMILY_SM90;
        return arch != 90 || sm90_possible(v, arch, d); /* select_config */
    }
    if (v->family == FACC_FAMILY_SM80 || !sm90_possible(v, arch, NULL)) {
        out[0] = FACC_FAMILY_SM80;
        return 1;
    }
    out[0] = FACC_FAMILY_SM90;
    if (v->family == FACC_FAMILY_SM90 || v->layout == FACC_LAYOUT_ALIGNED)
        return 1;
    out[1] = FACC_FAMILY_SM80;
    return 2;
}

/* ---- tiles -------------------------------------------------------------- */

/* The larger of the head dims; extra columns count as Q's and K's. */
static int widest(const struct unit_config *c)
{
    const int qk = c->head_dim + emit_extra_dim(c);
    const int dim = qk > c->head_dim_v ? qk : c->head_dim_v;
    return dim < MAX_HEAD_DIM ? dim : MAX_HEAD_DIM;
}

static bool sm80_tile(struct unit_config *c, int arch, bool masked)
{
    const int dim = widest(c);
    const size_t n = sizeof tile_rules / sizeof tile_rules[0];
    c->family = "sm80";
    c->q_buffers = 1;
    for (size_t i = 0; i < n; i++) {
        const struct tile_rule *r = &tile_rules[i];
        if (dim > r->max_dim || (r->masked && !masked))
            continue;
        c->tile_m = r->tile_m;
        c->tile_n = r->tile_n;
        c->warps = r->warps;
        c->stages = r->stages;
        c->q_in_registers = r->q_in_registers;
        c->shared_bytes = shared_bytes(c);
        if (ctas_fit(c, r->masked ? 2 : 1, arch))
            return true;
    }
    return false;
}

/* extra_room() of templates/sm90/extra.cuh: whole KiB. */
static int extra_room(const struct unit_config *c, int rows)
{
    const int n = emit_extra_dim(c);
    const int row = n <= 16 ? 32 : n <= 32 ? 64 : 128;
    return ((n + 63) / 64 * rows * row + 1023) / 1024 * 1024;
}

/* Q, K and V in panels of 64 columns, and extra ones: what the template lays
 * out, but for its barriers and tables. FP8: bytes as they are, and the copy of
 * the output, and tiles of V before they are transposed. */
static int panel_bytes(const struct unit_config *c)
{
    if (dtype_is_fp8(c->dtype)) {
        const int copy = c->promotes ? 4 * c->tile_m * c->head_dim_v : 0;
        const int natural = c->transposes_v ? NATURAL_SLOTS : 0;
        return copy + c->q_buffers * c->tile_m * c->head_dim +
               c->stages * c->tile_n * (c->head_dim + c->head_dim_v) +
               natural * c->tile_n * c->head_dim_v;
    }
    const int qk = (c->head_dim + 63) / 64, v = (c->head_dim_v + 63) / 64;
    const int extra = c->q_buffers * c->tile_m / 64 * extra_room(c, 64) +
                      c->stages * extra_room(c, c->tile_n);
    return extra + 128 * (c->q_buffers * c->tile_m * qk +
                          c->stages * c->tile_n * (qk + v));
}

static bool sm90_tile(struct unit_config *c, bool cell_loads)
{
    const int dim = c->head_dim > c->head_dim_v ? c->head_dim : c->head_dim_v;
    const bool fp8 = dtype_is_fp8(c->dtype);
    const struct sm90_rule *rules = fp8 ? fp8_rules : sm90_rules;
    const size_t n = fp8 ? sizeof fp8_rules / sizeof fp8_rules[0]
                         : sizeof sm90_rules / sizeof sm90_rules[0];
    c->family = "sm90";
    c->shared_bytes = SM90_SHARED;
    for (size_t i = 0; i < n; i++) {
        const struct sm90_rule *r = &rules[i];
        if (dim > r->max_dim || c->head_dim_v > r->max_dim_v ||
            (r->cell_loads && !cell_loads))
            continue;
        c->tile_m = r->tile_m;
        c->tile_n = r->tile_n;
        c->warps = r->tile_m / 16 + 4;
        c->q_buffers = r->q_buffers;
        c->stages = r->stages;
        if (panel_bytes(c) <= SM90_SHARED - STATIC_BYTES)
            return true;
    }
    return false;
}

/* kPlaneSlots of templates/sm90/plane.cuh. */
static int plane_bytes(const struct unit_config *c, int bytes)
{
    return 2 * c->tile_m * c->tile_n * bytes;
}

void select_plane(struct unit_config *c, int bytes)
{
    const int dim = c->head_dim > c->head_dim_v ? c->head_dim : c->head_dim_v;
    const size_t n = sizeof plane_rules / sizeof plane_rules[0];
    if (bytes == 0 || !select_is_sm90(c) || dtype_is_fp8(c->dtype))
        return;
    for (size_t i = 0; i < n; i++) {
        const struct plane_rule *r = &plane_rules[i];
        struct unit_config p = *c;
        if (dim > r->max_dim || c->head_dim_v > r->max_dim_v ||
            bytes != r->bytes)
            continue;
        p.tile_m = r->tile_m;
        p.tile_n = r->tile_n;
        p.warps = r->tile_m / 16 + 4;
        p.q_buffers = r->q_buffers;
        p.stages = r->stages;
        p.plane_bytes = bytes;
        if (panel_bytes(&p) + plane_bytes(&p, bytes) <=
            SM90_SHARED - PLANE_CONTROL_BYTES) {
            *c = p;
            return;
        }
    }
}

bool select_config(const facc_variant *v, int arch, int family, int cell_loads,
                   bool has_mask, const struct dot_term *dot,
                   struct unit_config *out, struct diag *d)
{
    const enum dtype dtype = (enum dtype)v->dtype;
    const enum dtype out_dtype = v->out_dtype != 0 ? (enum dtype)v->out_dtype
                                 : is_fp8(v)       ? DTYPE_BF16
                                                   : dtype;
    if (!check_variant(v, arch, out_dtype, d))
        return false;

    struct unit_config c = {.dtype = dtype,
                            .out_dtype = out_dtype,
                            .head_dim = v->head_dim,
                            .head_dim_v = v->head_dim_v == 0 ? v->head_dim
                                                             : v->head_dim_v,
                            .check_bounds = v->check_bounds != 0,
                            .block_mask = v->block_mask != 0,
                            .promotes = is_fp8(v) && v->centred_v == 0 &&
                                        v->head_dim <= FP8_MAX_PROMOTED,
                            .transposes_v = is_fp8(v) && v->transposes_v != 0,
                            .dot = is_fp8(v) ? NULL : dot};
    if (family == FACC_FAMILY_SM90
            ? !sm90_tile(&c, cell_loads > 0)
            : !sm80_tile(&c, arch, has_mask || c.block_mask))
        return diag_set(d, DIAG_UNSUPPORTED, "select", NULL, 0,
                        "no tile for head dims %d and %d fits the %d bytes of "
                        "shared memory of sm_%d",
                        c.head_dim, c.head_dim_v, shared_limit(arch), arch);
    *out = c;
    return true;
}

/* Tile selection: what every architecture gets for the common head dims, that
 * every variant fits the architecture it is chosen for and has shared memory
 * as the template counts it, and refusals with their reasons. */
#include <check.h>
#include <string.h>

#include "runtime/select.h"
#include "tests/unit/suite.h"

static const int archs[] = {80, 86, 89, 90, 100, 120};
static const int limits[] = {166912, 101376, 101376, 232448, 232448, 101376};
enum { N_ARCHS = sizeof archs / sizeof archs[0] };

static facc_variant variant(int d, int dv)
{
    facc_variant v = FACC_VARIANT_INIT;
    v.dtype = FACC_BF16;
    v.head_dim = d;
    v.head_dim_v = dv;
    return v;
}

static struct unit_config chosen(int arch, int d, int dv, bool has_mask)
{
    facc_variant v = variant(d, dv);
    struct unit_config c;
    struct diag diag;
    memset(&c, 0, sizeof c);
    diag_init(&diag);
    ck_assert_msg(
        select_config(&v, arch, FACC_FAMILY_SM80, 0, has_mask, NULL, &c, &diag),
        "%s", diag.message);
    return c;
}

struct expected {
    int arch, dim;
    bool has_mask;
    int tile_m, tile_n, warps, stages, shared;
};

/* Shared bytes by hand: Q and stages x (K + V), rows of 2 dim + 16 bytes. */
static const struct expected table[] = {
    {90, 64, false, 128, 64, 4, 2, 128 * 144 + 2 * 2 * 64 * 144},
    {90, 96, false, 256, 64, 8, 2, 256 * 208 + 2 * 2 * 64 * 208},
    {90, 128, false, 256, 48, 8, 2, 256 * 272 + 2 * 2 * 48 * 272},
    {100, 128, false, 256, 48, 8, 2, 256 * 272 + 2 * 2 * 48 * 272},
    {80, 128, false, 256, 48, 8, 2, 256 * 272 + 2 * 2 * 48 * 272},
    {89, 128, false, 128, 48, 8, 2, 128 * 272 + 2 * 2 * 48 * 272},
    {90, 192, false, 128, 80, 8, 2, 128 * 400 + 2 * 2 * 80 * 400},
    {80, 192, false, 128, 64, 8, 2, 128 * 400 + 2 * 2 * 64 * 400},
    {90, 256, false, 128, 64, 8, 2, 128 * 528 + 2 * 2 * 64 * 528},
    {80, 256, false, 128, 32, 8, 2, 128 * 528 + 2 * 2 * 32 * 528},
    {120, 256, false, 64, 32, 4, 1, 64 * 528 + 2 * 32 * 528},
    /* two CTAs of the smaller tile fit, or do not */
    {90, 128, true, 128, 64, 4, 2, 128 * 272 + 2 * 2 * 64 * 272},
    {100, 128, true, 128, 64, 4, 2, 128 * 272 + 2 * 2 * 64 * 272},
    {80, 128, true, 256, 48, 8, 2, 256 * 272 + 2 * 2 * 48 * 272},
    {89, 128, true, 128, 48, 8, 2, 128 * 272 + 2 * 2 * 48 * 272},
    {90, 104, true, 128, 64, 4, 2, 128 * 240 + 2 * 2 * 64 * 240},
    {90, 96, true, 256, 64, 8, 2, 256 * 208 + 2 * 2 * 64 * 208},
    {90, 192, true, 128, 80, 8, 2, 128 * 400 + 2 * 2 * 80 * 400},
};

START_TEST(common_head_dims)
{
    const struct expected *e = &table[_i];
    struct unit_config c = chosen(e->arch, e->dim, 0, e->has_mask);
    ck_assert_str_eq(c.family, "sm80");
    ck_assert_int_eq(c.head_dim_v, e->dim);
    ck_assert_int_eq(c.tile_m, e->tile_m);
    ck_assert_int_eq(c.tile_n, e->tile_n);
    ck_assert_int_eq(c.warps, e->warps);
    ck_assert_int_eq(c.stages, e->stages);
    ck_assert_int_eq(c.shared_bytes, e->shared);
}
END_TEST

/* The template's static_asserts, and room for its static shared memory. */
static void check_fits(const struct unit_config *c, int limit)
{
    int rows = c->tile_m / c->warps;
    ck_assert(c->warps == 4 || c->warps == 8);
    ck_assert(rows == 16 || rows == 32);
    ck_assert_int_eq(c->tile_n % 16, 0);
    ck_assert(c->stages == 2 || (c->stages == 1 && c->warps == 4));
    ck_assert_int_le(c->shared_bytes, limit - 8192);
    int dim = c->head_dim > c->head_dim_v ? c->head_dim : c->head_dim_v;
    ck_assert_msg(rows == 16 || dim <= 128, "output does not fit registers");
}

START_TEST(every_head_dim_on_every_architecture)
{
    for (int d = 8; d <= 256; d += 8)
        for (int dv = 8; dv <= 256; dv += 8) {
            struct unit_config c = chosen(archs[_i], d, dv, false);
            ck_assert_int_eq(c.head_dim, d);
            ck_assert_int_eq(c.head_dim_v, dv);
            check_fits(&c, limits[_i]);
            c = chosen(archs[_i], d, dv, true);
            check_fits(&c, limits[_i]);
        }
}
END_TEST

START_TEST(architectures_not_in_the_table_get_the_least)
{
    struct unit_config c = chosen(121, 128, 0, true),
                       d = chosen(86, 128, 0, true);
    ck_assert_int_eq(c.tile_m, d.tile_m);
    ck_assert_int_eq(c.shared_bytes, d.shared_bytes);
}
END_TEST

START_TEST(a_block_mask_is_a_mask)
{
    facc_variant v = variant(128, 0);
    struct unit_config c;
    struct diag diag;
    diag_init(&diag);
    v.block_mask = 1;
    ck_assert(
        select_config(&v, 90, FACC_FAMILY_SM80, 0, false, NULL, &c, &diag));
    ck_assert_int_eq(c.warps, 4);
    ck_assert_int_eq(c.tile_n, 64);
}
END_TEST

/* O passes through shared memory in 16 bits, and may need more than the loop;
 * in 32 bits it does not. */
START_TEST(output_may_decide_the_shared_memory)
{
    facc_variant v = variant(8, 128);
    struct unit_config c;
    struct diag diag;
    diag_init(&diag);
    ck_assert(
        select_config(&v, 90, FACC_FAMILY_SM80, 0, false, NULL, &c, &diag));
    ck_assert_int_eq(c.out_dtype, DTYPE_BF16);
    ck_assert_int_eq(c.shared_bytes, 256 * 272);
    v.out_dtype = FACC_F32;
    ck_assert(
        select_config(&v, 90, FACC_FAMILY_SM80, 0, false, NULL, &c, &diag));
    ck_assert_int_eq(c.out_dtype, DTYPE_F32);
    ck_assert_int_eq(c.shared_bytes, 256 * 48 + 2 * 48 * (48 + 272));
}
END_TEST

START_TEST(dtypes_and_flags_are_passed_on)
{
    facc_variant v = variant(40, 72);
    v.dtype = FACC_F16;
    v.out_dtype = FACC_BF16;
    v.check_bounds = 1;
    struct unit_config c;
    struct diag diag;
    diag_init(&diag);
    ck_assert(
        select_config(&v, 80, FACC_FAMILY_SM80, 1000, true, NULL, &c, &diag));
    ck_assert_int_eq(c.dtype, DTYPE_F16);
    ck_assert_int_eq(c.out_dtype, DTYPE_BF16);
    ck_assert(c.check_bounds);
    ck_assert_int_eq(c.head_dim, 40);
    ck_assert_int_eq(c.head_dim_v, 72);
}
END_TEST

/* Family sm90: by the larger head dim, and V's where that decides. */
static const struct {
    int d, dv, tile_m, tile_n, warps, q_buffers;
} sm90_table[] = {
    {8, 8, 192, 96, 16, 2},      {64, 64, 192, 96, 16, 2},
    {64, 72, 192, 80, 16, 1},    {72, 64, 192, 80, 16, 1},
    {96, 96, 192, 80, 16, 1},    {96, 104, 128, 128, 12, 2},
    {128, 128, 128, 128, 12, 2}, {136, 128, 128, 128, 12, 1},
    {192, 128, 128, 128, 12, 1}, {128, 136, 128, 96, 12, 1},
    {192, 192, 128, 96, 12, 1},  {200, 64, 128, 64, 12, 1},
    {256, 256, 128, 64, 12, 1},
};
enum { N_SM90 = sizeof sm90_table / sizeof sm90_table[0] };

static struct unit_config sm90(const facc_variant *v)
{
    struct unit_config c;
    struct diag diag;
    memset(&c, 0, sizeof c);
    diag_init(&diag);
    ck_assert_msg(
        select_config(v, 90, FACC_FAMILY_SM90, 0, true, NULL, &c, &diag), "%s",
        diag.message);
    ck_assert_str_eq(c.family, "sm90");
    ck_assert(select_is_sm90(&c));
    return c;
}

/* Fewer columns where each cell loads, at the dims of three groups alone. */
START_TEST(sm90_loads_of_cells)
{
    static const int dims[] = {8, 64, 128};
    for (int k = 0; k < 3; k++)
        for (int loads = 0; loads < 3; loads++) {
            const facc_variant v = variant(dims[k], dims[k]);
            struct unit_config c;
            struct diag d;
            diag_init(&d);
            ck_assert(select_config(&v, 90, FACC_FAMILY_SM90, loads, false,
                                    NULL, &c, &d));
            ck_assert_int_eq(c.tile_m, dims[k] <= 64 ? 192 : 128);
            ck_assert_int_eq(c.tile_n, dims[k] > 64 ? 128 : loads ? 80 : 96);
        }
}
END_TEST

START_TEST(sm90_head_dims)
{
    const facc_variant v = variant(sm90_table[_i].d, sm90_table[_i].dv);
    const struct unit_config c = sm90(&v);
    ck_assert_int_eq(c.tile_m, sm90_table[_i].tile_m);
    ck_assert_int_eq(c.tile_n, sm90_table[_i].tile_n);
    ck_assert_int_eq(c.warps, sm90_table[_i].warps);
    ck_assert_int_eq(c.q_buffers, sm90_table[_i].q_buffers);
    ck_assert_int_eq(c.stages, c.tile_m == 192 ? 4 : 2);
    ck_assert(!c.q_in_registers);
    ck_assert_int_eq(c.shared_bytes, 232448);
}
END_TEST

/* 64 rows to a warp group, four warps that load, panels of 64 columns. */
START_TEST(sm90_fits)
{
    facc_variant v;
    for (int d = 8; d <= 256; d += 8)
        for (int dv = 8; dv <= 256; dv += 8) {
            v = variant(d, dv);
            const struct unit_config c = sm90(&v);
            const int qk = (d + 63) / 64 * 128, pv = (dv + 63) / 64 * 128;
            ck_assert_int_eq(c.warps, 4 * (c.tile_m / 64 + 1));
            ck_assert(c.tile_m % 64 == 0 && c.tile_n % 16 == 0);
            ck_assert(c.warps <= 16 && c.tile_n <= 256);
            ck_assert_int_le(c.q_buffers * c.tile_m * qk +
                                 c.stages * c.tile_n * (qk + pv),
                             232448 - 8192);
        }
    v = variant(64, 0);
    v.dtype = FACC_F16;
    v.out_dtype = FACC_F32;
    v.block_mask = 1;
    const struct unit_config c = sm90(&v);
    ck_assert(c.dtype == DTYPE_F16 && c.out_dtype == DTYPE_F32 && c.block_mask);
    ck_assert(c.head_dim == 64 && c.head_dim_v == 64);
}
END_TEST

/* Beside two tiles of a captured tensor, in rows of whole units of 16 bytes. */
START_TEST(planes_beside)
{
    facc_variant v;
    for (int d = 8; d <= 256; d += 8)
        for (int dv = 8; dv <= 256; dv += 8)
            for (int bytes = 2; bytes <= 4; bytes += 2) {
                v = variant(d, dv);
                struct unit_config c = sm90(&v);
                select_plane(&c, bytes);
                const int qk = (d + 63) / 64 * 128, pv = (dv + 63) / 64 * 128;
                ck_assert_int_eq(c.plane_bytes, bytes);
                ck_assert_int_eq(c.warps, 4 * (c.tile_m / 64 + 1));
                ck_assert(c.tile_n % 16 == 0 && c.stages == 2);
                ck_assert_int_le(c.q_buffers * c.tile_m * qk +
                                     c.stages * c.tile_n * (qk + pv) +
                                     2 * c.tile_m * c.tile_n * bytes,
                                 232448 - 3072);
            }
    v = variant(128, 128);
    const struct unit_config plain = sm90(&v);
    struct unit_config c = plain;
    select_plane(&c, 0);
    ck_assert_int_eq(c.plane_bytes, 0);
    ck_assert_int_eq(c.q_buffers, plain.q_buffers);
    c.dtype = DTYPE_E4M3;
    select_plane(&c, 4);
    ck_assert_int_eq(c.plane_bytes, 0);
    c = plain;
    c.family = "sm80";
    select_plane(&c, 4);
    ck_assert_int_eq(c.plane_bytes, 0);
}
END_TEST

static const struct {
    int d, dv, extra, tile_m, tile_n, q_buffers;
} extra_table[] = {
    {64, 64, 16, 192, 96, 2},    {64, 64, 64, 192, 80, 1},
    {128, 128, 16, 128, 128, 2}, {128, 128, 64, 128, 128, 1},
    {128, 128, 128, 128, 96, 1}, {192, 192, 64, 128, 64, 1},
    {256, 256, 16, 128, 64, 1},  {256, 256, 64, 128, 48, 1},
    {256, 256, 128, 128, 48, 1},
};

/* Beside the head dims' columns, in both families: room for all. */
START_TEST(extra_columns)
{
    static const int of_sm80[] = {80, 86, 90};
    struct unit_config c;
    struct diag diag;
    for (size_t k = 0; k < sizeof extra_table / sizeof *extra_table; k++) {
        const struct dot_term dot = {.n = extra_table[k].extra};
        const facc_variant v = variant(extra_table[k].d, extra_table[k].dv);
        diag_init(&diag);
        ck_assert(
            select_config(&v, 90, FACC_FAMILY_SM90, 0, false, &dot, &c, &diag));
        ck_assert_msg(c.tile_m == extra_table[k].tile_m &&
                          c.tile_n == extra_table[k].tile_n &&
                          c.q_buffers == extra_table[k].q_buffers,
                      "%d + %d: %d x %d, %d", v.head_dim, dot.n, c.tile_m,
                      c.tile_n, c.q_buffers);
        const int row = dot.n <= 16 ? 32 : dot.n <= 32 ? 64 : 128;
        const int extra = (dot.n + 63) / 64 * row;
        const int qk = (v.head_dim + 63) / 64 * 128 + extra;
        ck_assert_int_le(c.q_buffers * c.tile_m * qk +
                             c.stages * c.tile_n *
                                 (qk + (v.head_dim_v + 63) / 64 * 128),
                         232448 - 8192);
        for (int a = 0; a < 3; a++) {
            ck_assert_msg(select_config(&v, of_sm80[a], FACC_FAMILY_SM80, 0,
                                        false, &dot, &c, &diag),
                          "%d + %d on sm_%d", v.head_dim, dot.n, of_sm80[a]);
            check_fits(&c, of_sm80[a] == 80   ? 163 * 1024
                           : of_sm80[a] == 86 ? 99 * 1024
                                              : 227 * 1024);
        }
    }
}
END_TEST

static const struct {
    int d, centred, tile_m, q_buffers, stages, promotes;
} fp8_table[] = {{64, 0, 192, 2, 4, 1},  {64, 1, 192, 2, 4, 0},
                 {128, 0, 192, 2, 2, 1}, {128, 1, 192, 2, 4, 0},
                 {256, 0, 128, 1, 2, 0}, {256, 1, 128, 1, 2, 0}};

START_TEST(fp8)
{
    facc_variant v = variant(fp8_table[_i].d, 0);
    struct unit_config c;
    struct diag diag;
    int family[SELECT_MAX_FAMILIES] = {0, 0};
    diag_init(&diag);
    v.dtype = _i % 2 ? FACC_E5M2 : FACC_E4M3;
    v.out_dtype = (facc_dtype)0;
    v.centred_v = fp8_table[_i].centred;
    ck_assert_int_eq(select_families(&v, 90, family, &diag), 1);
    ck_assert_int_eq(family[0], FACC_FAMILY_SM90);
    ck_assert(
        select_config(&v, 90, FACC_FAMILY_SM90, 0, false, NULL, &c, &diag));
    ck_assert_int_eq(c.tile_m, fp8_table[_i].tile_m);
    ck_assert_int_eq(c.tile_n, 96);
    ck_assert_int_eq(c.q_buffers, fp8_table[_i].q_buffers);
    ck_assert_int_eq(c.stages, fp8_table[_i].stages);
    ck_assert_int_eq(c.promotes, fp8_table[_i].promotes);
    ck_assert_int_eq(c.out_dtype, DTYPE_BF16);
    ck_assert_int_le(c.head_dim *
                         (c.q_buffers * c.tile_m + 2 * c.stages * c.tile_n +
                          4 * c.tile_m * c.promotes),
                     219 * 1024);
    ck_assert(!c.transposes_v);
    v.transposes_v = 1; /* the same tiles, and two of V more */
    ck_assert(
        select_config(&v, 90, FACC_FAMILY_SM90, 0, false, NULL, &c, &diag));
    ck_assert(c.transposes_v);
    ck_assert_int_eq(c.tile_m, fp8_table[_i].tile_m);
    ck_assert_int_eq(c.stages, fp8_table[_i].stages);
    ck_assert_int_le(c.head_dim * (c.q_buffers * c.tile_m +
                                   (2 * c.stages + 2) * c.tile_n +
                                   4 * c.tile_m * c.promotes),
                     219 * 1024);
    v.family = FACC_FAMILY_SM80;
    ck_assert_int_eq(select_families(&v, 90, family, &diag), 0);
    ck_assert_str_eq(diag.message, "family sm80 takes no FP8: leave "
                                   "variant.family at FACC_FAMILY_AUTO");
}
END_TEST

START_TEST(families)
{
    static const struct {
        int arch, layout, family, check_bounds;
        int n, first, second;
    } cases[] = {
        {90, FACC_LAYOUT_ANY, FACC_FAMILY_AUTO, 0, 2, 90, 80},
        {90, FACC_LAYOUT_ALIGNED, FACC_FAMILY_AUTO, 0, 1, 90, 0},
        {90, FACC_LAYOUT_ANY, FACC_FAMILY_SM80, 0, 1, 80, 0},
        {90, FACC_LAYOUT_ALIGNED, FACC_FAMILY_SM80, 0, 1, 80, 0},
        {90, FACC_LAYOUT_ANY, FACC_FAMILY_SM90, 0, 1, 90, 0},
        {90, FACC_LAYOUT_ANY, FACC_FAMILY_AUTO, 1, 1, 80, 0},
        {90, FACC_LAYOUT_ALIGNED, FACC_FAMILY_AUTO, 1, 1, 80, 0},
        {90, FACC_LAYOUT_ANY, FACC_FAMILY_SM90, 1, 0, 0, 0},
        {80, FACC_LAYOUT_ANY, FACC_FAMILY_AUTO, 0, 1, 80, 0},
        {89, FACC_LAYOUT_ALIGNED, FACC_FAMILY_AUTO, 0, 1, 80, 0},
        {100, FACC_LAYOUT_ANY, FACC_FAMILY_AUTO, 0, 1, 80, 0},
        {100, FACC_LAYOUT_ANY, FACC_FAMILY_SM90, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        facc_variant v = variant(128, 0);
        int family[SELECT_MAX_FAMILIES] = {0, 0};
        struct diag diag;
        diag_init(&diag);
        v.layout = cases[i].layout;
        v.family = cases[i].family;
        v.check_bounds = cases[i].check_bounds;
        const int n = select_families(&v, cases[i].arch, family, &diag);
        ck_assert_msg(n == cases[i].n && family[0] == cases[i].first &&
                          family[1] == cases[i].second,
                      "%d: %d of %d %d", (int)i, n, family[0], family[1]);
        ck_assert_int_eq(diag.status, n ? DIAG_OK : DIAG_UNSUPPORTED);
    }
}
END_TEST

struct refusal {
    int arch, d, dv;
    facc_dtype dtype, out;
    const char *message;
};

static const struct refusal refusals[] = {
    {75, 64, 0, FACC_F16, (facc_dtype)0,
     "architecture sm_75 is too old: sm_80 (Ampere) or later is needed; the "
     "CPU path runs everywhere"},
    {90, 64, 0, FACC_F32, (facc_dtype)0,
     "dtype f32: GPU kernels take Q, K and V in f16, bf16, e4m3 or e5m2; "
     "convert the tensors or use the CPU path"},
    {89, 64, 0, FACC_E4M3, FACC_BF16,
     "dtype e4m3: the kernels for FP8 need sm_90, this is for sm_89; convert "
     "the tensors or use the CPU path"},
    {90, 96, 0, FACC_E5M2, FACC_BF16,
     "head dims 96 and 96: the kernels for FP8 take 64, 128 or 256, the same "
     "for V; pad the tensors with zeros"},
    {90, 128, 64, FACC_E4M3, (facc_dtype)0,
     "head dims 128 and 64: the kernels for FP8 take 64, 128 or 256, the same "
     "for V; pad the tensors with zeros"},
    {90, 64, 0, FACC_BF16, FACC_F64,
     "out_dtype f64: GPU kernels write f16, bf16 or f32"},
    {90, 60, 0, FACC_BF16, (facc_dtype)0,
     "head_dim is 60: GPU kernels take multiples of 8 from 8 to 256; pad the "
     "tensors with zeros"},
    {90, 0, 0, FACC_BF16, (facc_dtype)0,
     "head_dim is 0: GPU kernels take multiples of 8 from 8 to 256; pad the "
     "tensors with zeros"},
    {90, 64, 264, FACC_BF16, (facc_dtype)0,
     "head_dim_v is 264: GPU kernels take multiples of 8 from 8 to 256; pad "
     "the tensors with zeros"},
    {90, 64, -8, FACC_BF16, (facc_dtype)0,
     "head_dim_v is -8: GPU kernels take multiples of 8 from 8 to 256; pad "
     "the tensors with zeros"},
};

START_TEST(refusals_say_why)
{
    const struct refusal *r = &refusals[_i];
    facc_variant v = variant(r->d, r->dv);
    v.dtype = r->dtype;
    v.out_dtype = r->out;
    struct unit_config c = {.tile_m = -1};
    struct diag diag;
    diag_init(&diag);
    ck_assert(!select_config(&v, r->arch, FACC_FAMILY_SM80, 0, false, NULL, &c,
                             &diag));
    ck_assert_int_eq(diag.status, DIAG_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(diag.message, r->message));
    ck_assert_int_eq(c.tile_m, -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("select");
    TCase *t = tcase_create("select");
    tcase_add_loop_test(t, common_head_dims, 0,
                        (int)(sizeof table / sizeof table[0]));
    tcase_add_loop_test(t, every_head_dim_on_every_architecture, 0, N_ARCHS);
    tcase_add_test(t, architectures_not_in_the_table_get_the_least);
    tcase_add_test(t, a_block_mask_is_a_mask);
    tcase_add_test(t, output_may_decide_the_shared_memory);
    tcase_add_test(t, dtypes_and_flags_are_passed_on);
    tcase_add_test(t, sm90_loads_of_cells);
    tcase_add_loop_test(t, sm90_head_dims, 0, N_SM90);
    tcase_add_test(t, sm90_fits);
    tcase_add_test(t, planes_beside);
    tcase_add_test(t, extra_columns);
    tcase_add_loop_test(t, fp8, 0,
                        (int)(sizeof fp8_table / sizeof fp8_table[0]));
    tcase_add_test(t, families);
    tcase_add_loop_test(t, refusals_say_why, 0,
                        (int)(sizeof refusals / sizeof refusals[0]));
    suite_add_tcase(s, t);
    return suite_run(s);
}

/* CPU attention at the ends of what numbers and addresses can be: least and
 * infinite scores, garbage where nothing counts, every ratio of heads, masks
 * that all batches share, offsets beyond 32 bits. Loops by hand. */
#include <float.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/numeric/attention_reference.h"
#include "tests/unit/suite.h"

enum { BATCHES = 2, HEADS = 4, ROWS = 130, KEYS = 150 };

/* Runs r with one captured tensor (none if NULL). */
static void attend_with(struct run *r, facc_tensor *captured)
{
    facc_cpu_options o = FACC_CPU_OPTIONS_INIT;
    facc_program *program = load(r->p.lua);
    r->args.tensors = captured;
    r->args.n_tensors = captured != NULL;
    ck_assert_int_eq(facc_program_tensor_count(program), captured != NULL);
    o.f64 = r->p.f64;
    r->err = (facc_error)FACC_ERROR_INIT;
    r->status = facc_cpu_attention(ctx, program, &r->args, &o, &r->err);
    facc_program_free(program);
}

static void check_with(const struct problem *p, facc_tensor *captured)
{
    struct run r;
    start(&r, p);
    attend_with(&r, captured);
    compare(&r);
    finish(&r);
}

/* --- the ends of f32 ------------------------------------------------------ */

static const char dense_lua[] =
    FACC "local t = facc.tensor('t', 'f32', { 'q', 'kv' })\n"
         "return facc.attention { score_mod = function(score, b, h, q, kv)\n"
         "  return score + t[q][kv]\n"
         "end }\n";
static float dense[ROWS][KEYS];

static double dense_score(double s, int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return s + (double)dense[q][kv];
}

static facc_tensor dense_tensor(void)
{
    return (facc_tensor){dense, FACC_F32, 2, {ROWS, KEYS}, {KEYS, 1}};
}

/* By rows: numbers; all least, so the mean of V; one key above the least; no
 * key; the second half least, the first none; one key of the largest; the first
 * tile least. least: of f32 or bf16. */
static float least_or(float least, int q, int kv)
{
    switch (q % 7) {
    case 1:
        return least;
    case 2:
        return kv == (q * 7) % KEYS ? 1 : least;
    case 3:
        return -INFINITY;
    case 4:
        return kv < KEYS / 2 ? -INFINITY : least;
    case 5:
        return kv == KEYS - 1 - q ? -least : 0;
    case 6:
        return kv < 70 ? least : -2;
    default:
        return (float)((q + kv) % 5);
    }
}

START_TEST(least_numbers)
{
    const float least[] = {-FLT_MAX, -0x1.fep127f, -3e38f};
    for (int k = 0; k < 3; k++) {
        struct problem p = {.B = 1,
                            .H = 2,
                            .Hkv = 1,
                            .Sq = ROWS,
                            .Skv = KEYS,
                            .D = 8,
                            .Dv = 8,
                            .lua = dense_lua,
                            .score = dense_score,
                            .f64 = _i};
        facc_tensor t = dense_tensor();
        for (int q = 0; q < ROWS; q++)
            for (int kv = 0; kv < KEYS; kv++)
                dense[q][kv] = least_or(least[k], q, kv);
        check_with(&p, &t);
    }
}
END_TEST

/* The same as a constant of the mod. */
static const char constant_lua[] =
    FACC "return facc.attention { score_mod = function(score, b, h, q, kv)\n"
         "  if q % 3 == 0 or kv < 70 then return -3.4028234663852886e38 end\n"
         "  return score\n"
         "end }\n";
static double constant_score(double s, int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return q % 3 == 0 || kv < 70 ? -(double)FLT_MAX : s;
}

START_TEST(least_constants)
{
    struct problem p = {.B = 1,
                        .H = 2,
                        .Hkv = 2,
                        .Sq = ROWS,
                        .Skv = KEYS,
                        .D = 8,
                        .Dv = 8,
                        .lua = constant_lua,
                        .score = constant_score,
                        .f64 = _i};
    check_with(&p, NULL);
}
END_TEST

/* A row with a score of infinity has no numbers; its neighbours do. */
START_TEST(infinite_scores)
{
    struct problem p = {.B = 1,
                        .H = 2,
                        .Hkv = 1,
                        .Sq = ROWS,
                        .Skv = KEYS,
                        .D = 8,
                        .Dv = 8,
                        .lua = dense_lua,
                        .score = dense_score,
                        .f64 = _i};
    facc_tensor t = dense_tensor();
    struct run r;
    for (int q = 0; q < ROWS; q++)
        for (int kv = 0; kv < KEYS; kv++)
            dense[q][kv] = q % 9 == 4 && kv == q ? INFINITY : 0;
    start(&r, &p);
    attend_with(&r, &t);
    compare(&r);
    for (int q = 0; q < ROWS; q++)
        for (int d = 0; d < 8; d++)
            ck_assert_int_eq(isnan(get(&r.o.t, 0, 1, q, d)), q % 9 == 4);
    finish(&r);
}
END_TEST

/* --- garbage where nothing counts ------------------------------------------
 */

static const char garbage_lua[] =
    FACC "local t = facc.tensor('t', 'f32', { 'q', 'kv' })\n"
         "return facc.attention {\n"
         "  score_mod = function(score, b, h, q, kv)\n"
         "    return score * (1 + t[q][kv]) - t(q, kv) / 2\n"
         "  end,\n"
         "  mask_mod = function(b, h, q, kv) return q >= kv end,\n"
         "}\n";
static double garbage_score(double s, int b, int h, int q, int kv)
{
    (void)b, (void)h;
    return s * (1 + (double)dense[q][kv]) - (double)dense[q][kv] / 2;
}

/* Above the diagonal, and behind the used lengths. */
START_TEST(garbage_in_captured_tensors)
{
    static const float garbage[] = {NAN, INFINITY, -INFINITY, FLT_MAX};
    static const int32_t used_q[1] = {97}, used_kv[1] = {129};
    struct problem p = {.B = 1,
                        .H = 2,
                        .Hkv = 1,
                        .Sq = ROWS,
                        .Skv = KEYS,
                        .D = 8,
                        .Dv = 8,
                        .lua = garbage_lua,
                        .score = garbage_score,
                        .keep = causal,
                        .used_q = used_q,
                        .used_kv = used_kv,
                        .f64 = _i};
    facc_tensor t = dense_tensor();
    for (int q = 0; q < ROWS; q++)
        for (int kv = 0; kv < KEYS; kv++)
            dense[q][kv] = kv > q || q >= used_q[0] || kv >= used_kv[0]
                               ? garbage[(q + kv) % 4]
                               : (float)((q * 3 + kv) % 7) / 8;
    check_with(&p, &t);
}
END_TEST

/* Numbers of rows that are none, where the mask says no before. */
static const char index_lua[] =
    FACC "local t = facc.tensor('t', 'i32', { 'kv' })\n"
         "return facc.attention { mask_mod = function(b, h, q, kv)\n"
         "  return kv % 3 == 0 and t[t[kv]] <= q + 1000\n"
         "end }\n";
static int32_t index_of[KEYS];

static bool third(int b, int h, int q, int kv)
{
    (void)b, (void)h, (void)q;
    return kv % 3 == 0 && index_of[index_of[kv]] <= q + 1000;
}

START_TEST(garbage_as_indices)
{
    static const int32_t bad[] = {INT32_MIN, INT32_MAX, -1, KEYS};
    struct problem p = {.B = 1,
                        .H = 2,
                        .Hkv = 1,
                        .Sq = ROWS,
                        .Skv = KEYS,
                        .D = 8,
                        .Dv = 8,
                        .lua = index_lua,
                        .keep = third,
                        .f64 = _i};
    facc_tensor t = {index_of, FACC_I32, 1, {KEYS}, {1}};
    for (int kv = 0; kv < KEYS; kv++)
        index_of[kv] = kv % 3 == 0 ? (kv * 7) % KEYS : bad[kv % 4];
    check_with(&p, &t);
}
END_TEST

/* --- heads and batches ------------------------------------------------------
 */

START_TEST(every_ratio_of_heads)
{
    for (int ratio = 1; ratio <= 64; ratio++) {
        struct problem p = {.B = 1,
                            .Hkv = 1 + ratio % 2,
                            .Sq = 3,
                            .Skv = 17,
                            .D = 8,
                            .Dv = 8,
                            .lua = causal_lua,
                            .keep = causal};
        p.H = ratio * p.Hkv;
        check_with(&p, NULL);
    }
}
END_TEST

static const char shared_lua[] =
    FACC "local t = facc.tensor('t', 'bool', { 'B', 'H', 'q', 'kv' })\n"
         "return facc.attention { mask_mod = function(b, h, q, kv)\n"
         "  return t[b][h][q][kv]\n"
         "end }\n";
static uint8_t keeps[BATCHES][HEADS][ROWS][KEYS];
static bool by_batch, by_head; /* or one for all */

static bool shared(int b, int h, int q, int kv)
{
    return keeps[by_batch ? b : 0][by_head ? h : 0][q][kv] != 0;
}

START_TEST(shared_masks)
{
    for (int b = 0; b < BATCHES; b++)
        for (int h = 0; h < HEADS; h++)
            for (int q = 0; q < ROWS; q++)
                for (int kv = 0; kv < KEYS; kv++)
                    keeps[b][h][q][kv] = (b * 5 + h * 3 + q * kv) % 4 == 0;
    for (int k = 0; k < 4; k++) {
        struct problem p = {.B = BATCHES,
                            .H = HEADS,
                            .Hkv = 2,
                            .Sq = ROWS,
                            .Skv = KEYS,
                            .D = 8,
                            .Dv = 8,
                            .lua = shared_lua,
                            .keep = shared};
        by_batch = k & 1;
        by_head = k & 2;
        facc_tensor t = {keeps,
                         FACC_BOOL,
                         4,
                         {BATCHES, HEADS, ROWS, KEYS},
                         {by_batch ? HEADS * ROWS * KEYS : 0,
                          by_head ? ROWS * KEYS : 0, KEYS, 1}};
        check_with(&p, &t);
    }
}
END_TEST

/* --- addresses
 * ---------------------------------------------------------------- */

/* Rows and heads of all tensors are gigabytes apart (strides of either sign, of
 * more than 2^31 elements); pages that nothing touches take no memory. */
enum { FAR_ROWS = 3, FAR_KEYS = 5, FAR_D = 8, FAR_TENSORS = 6 };
static const int64_t far_row = (INT64_C(1) << 31) + 40;
static char *far_memory;
static const size_t far_bytes = (size_t)1 << 40;

static facc_tensor far_tensor(int n, facc_dtype t, int rank, int rows, int d)
{
    const int64_t first = ((int64_t)far_bytes / FAR_TENSORS * n) & ~4095;
    const int64_t down = n % 2 ? -1 : 1; /* from the last row */
    facc_tensor x = {far_memory + first, t, rank, {1, 2, rows, d}, {0}};
    x.stride[0] = far_row * 16;
    x.stride[1] = far_row * 7;
    x.stride[2] = far_row * down;
    x.stride[3] = 1;
    if (down < 0)
        x.data = far_memory + first +
                 (rows - 1) * far_row * (int64_t)facc_dtype_size(t);
    return x;
}

static const char far_lua[] =
    FACC "local t = facc.tensor('t', 'f32', { 'H', 'q', 'kv' })\n"
         "return facc.attention { score_mod = function(score, b, h, q, kv)\n"
         "  return score + t[h][q][kv]\n"
         "end }\n";
static double far_score(double s, int b, int h, int q, int kv)
{
    (void)b;
    return s + (h * 3 + q * 5 + kv * 7) % 11 / 4.0;
}

static void put_far(struct run *r, facc_tensor *t)
{
    r->q.t = far_tensor(0, FACC_F16, 4, FAR_ROWS, FAR_D);
    r->k.t = far_tensor(1, FACC_F16, 4, FAR_KEYS, FAR_D);
    r->v.t = far_tensor(2, FACC_F16, 4, FAR_KEYS, FAR_D);
    r->o.t = far_tensor(3, FACC_F16, 4, FAR_ROWS, FAR_D);
    r->lse.t = far_tensor(4, FACC_F32, 3, FAR_ROWS, 1);
    fill(&r->q, 1);
    fill(&r->k, 1);
    fill(&r->v, 1);
    *t = far_tensor(5, FACC_F32, 4, FAR_ROWS, FAR_KEYS);
    t->rank = 3; /* of heads, rows, keys */
    for (int d = 0; d < 3; d++) {
        t->shape[d] = t->shape[d + 1];
        t->stride[d] = t->stride[d + 1];
    }
    t->stride[2] = far_row / 64;
    for (int h = 0; h < 2; h++)
        for (int q = 0; q < FAR_ROWS; q++)
            for (int kv = 0; kv < FAR_KEYS; kv++)
                ((float *)t->data)[h * t->stride[0] + q * t->stride[1] +
                                   kv * t->stride[2]] =
                    (float)far_score(0, 0, h, q, kv);
}

START_TEST(offsets_beyond_32_bits)
{
    struct problem p = {.B = 1,
                        .H = 2,
                        .Hkv = 2,
                        .Sq = FAR_ROWS,
                        .Skv = FAR_KEYS,
                        .D = FAR_D,
                        .Dv = FAR_D,
                        .in = FACC_F16,
                        .out = FACC_F16,
                        .lua = far_lua,
                        .score = far_score};
    struct run r;
    facc_tensor t;
    far_memory = mmap(NULL, far_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (far_memory == MAP_FAILED) {
        fprintf(stderr, "SKIPPED: no terabyte of addresses\n");
        return;
    }
    start(&r, &p);
    finish(&r); /* others take their place */
    put_far(&r, &t);
    r.args.q = r.q.t;
    r.args.k = r.k.t;
    r.args.v = r.v.t;
    r.args.o = r.o.t;
    r.args.lse = r.lse.t;
    attend_with(&r, &t);
    compare(&r);
    munmap(far_memory, far_bytes);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cpu attention, edges");
    TCase *t = tcase_create("edges");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, open_context, close_context);
    tcase_add_loop_test(t, least_numbers, 0, 2);
    tcase_add_loop_test(t, least_constants, 0, 2);
    tcase_add_loop_test(t, infinite_scores, 0, 2);
    tcase_add_loop_test(t, garbage_in_captured_tensors, 0, 2);
    tcase_add_loop_test(t, garbage_as_indices, 0, 2);
    tcase_add_test(t, every_ratio_of_heads);
    tcase_add_test(t, shared_masks);
    tcase_add_test(t, offsets_beyond_32_bits);
    suite_add_tcase(s, t);
    return suite_run(s);
}

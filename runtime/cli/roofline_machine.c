/* What machines can do. GPUs: a table of data sheets, or the driver's clocks
 * with the rates of the architecture; this computer: two loops, timed. */
#include "runtime/cli/roofline.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Of a multiprocessor in a clock: FLOP of 16-bit products with f32 sums by the
 * kernels' instructions, values of the function unit, bytes from L2. Products:
 * data sheets (dense); for family sm80 on sm_90 and sm_100 0.62 of sm_90's
 * wgmma, as mma.sync is commonly said to reach. L2: what H100's and A100's
 * papers give, 32 bytes where nothing is published. */
struct per_core {
    int arch;
    double math, legacy; /* legacy: family sm80; 0 the same */
    double exp, l2;
    bool fp8_twice;
};
static const struct per_core rates[] = {
    {80, 2048, 0, 16, 47, false},       {86, 1024, 0, 16, 32, false},
    {89, 1024, 0, 16, 32, true},        {90, 4096, 2540, 16, 38.8, true},
    {100, 2540, 2540, 16, 38.8, false}, {120, 1024, 0, 16, 32, false},
};
enum { N_RATES = sizeof rates / sizeof rates[0] };

/* GHz is the boost clock that the sheet's peak is of. The first one of an
 * architecture stands for it where no GPU is named. */
static const struct sheet {
    const char *name;
    int arch, cores;
    double ghz, memory; /* TB/s */
    double math;        /* FLOP in a clock where the rate is not the arch's */
} sheets[] = {
    {"A100", 80, 108, 1.41, 2.039, 0},
    {"A6000", 86, 84, 1.80, 0.768, 0},
    {"A10", 86, 72, 1.695, 0.600, 0},
    {"3090", 86, 82, 1.695, 0.936, 512},
    {"L40S", 89, 142, 2.52, 0.864, 0},
    {"4090", 89, 128, 2.52, 1.008, 512},
    {"H200", 90, 132, 1.83, 4.8, 0},
    {"H100", 90, 132, 1.83, 3.35, 0},
    {"B200", 100, 148, 1.85, 8.0, 0},
    {"PRO 6000", 120, 188, 2.6, 1.792, 0},
    {"5090", 120, 170, 2.407, 1.792, 512},
};
enum { N_SHEETS = sizeof sheets / sizeof sheets[0] };

static bool has_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (; *text; text++)
        if (strncasecmp(text, word, n) == 0 && !isalnum((unsigned char)text[n]))
            return true;
    return false;
}

static const struct sheet *find_sheet(const char *name, int arch)
{
    for (int i = 0; i < N_SHEETS; i++)
        if (name ? has_word(name, sheets[i].name) &&
                       (arch == 0 || sheets[i].arch == arch)
                 : sheets[i].arch == arch)
            return &sheets[i];
    return NULL;
}

static void set_rates(const struct sheet *s, int arch, const char *family,
                      facc_dtype dtype, struct roof_machine *m)
{
    const struct per_core *p = &rates[0];
    for (int i = 0; i < N_RATES; i++)
        if (rates[i].arch <= arch)
            p = &rates[i];
    const bool legacy = !strcmp(family, "sm80") && p->legacy > 0;
    double math = legacy ? p->legacy : p->math;
    if (s && s->math > 0)
        math = s->math;
    if (p->fp8_twice && !legacy && facc_dtype_size(dtype) == 1)
        math *= 2;
    const double clocks = (double)m->cores * m->ghz * 1e9;
    m->rate[ROOF_MATH] = clocks * math;
    m->rate[ROOF_EXP] = clocks * p->exp;
    m->rate[ROOF_L2] = clocks * p->l2;
}

static int list_known(const struct command *c, const struct options *o)
{
    char names[256] = "";
    size_t n = 0;
    for (int i = 0; i < N_SHEETS; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s",
                              i ? ", " : "", sheets[i].name);
    return cli_usage(c, "--gpu %s is not known here: %s", o->gpu, names);
}

/* A GPU that is here and in no table. */
static void describe(const facc_device_info *info, struct roof_machine *m)
{
    m->source = "clocks of the driver";
    m->cores = info->multiprocessors;
    m->ghz = info->clock_khz * 1e-6;
    /* two transfers in a clock */
    m->rate[ROOF_MEMORY] =
        2e3 * info->memory_clock_khz * info->memory_bus_bits / 8;
}

int roof_machine_gpu(const struct command *c, const struct options *o,
                     struct job *job, int arch, const char *family,
                     facc_dtype dtype, struct roof_machine *m)
{
    facc_device_info info = FACC_DEVICE_INFO_INIT;
    facc_error err = FACC_ERROR_INIT;
    const bool here = job->device >= 0 && !o->gpu;
    *m = (struct roof_machine){.gpu = true, .source = "data sheet"};
    if (here && facc_device_info_get(job->ctx, job->device, &info, &err))
        return cli_fail_facc(&err);
    const struct sheet *s = here     ? find_sheet(info.name, info.arch)
                            : o->gpu ? find_sheet(o->gpu, 0)
                                     : find_sheet(NULL, arch);
    if (!s && o->gpu)
        return list_known(c, o);
    if (s && s->arch != arch)
        return cli_usage(c,
                         "--gpu %s is sm_%d, the kernel is for sm_%d: give "
                         "--arch %d",
                         o->gpu, s->arch, arch, s->arch);
    snprintf(m->name, sizeof m->name, "%s",
             here ? info.name
             : s  ? s->name
                  : "unknown GPU");
    if (s) {
        m->cores = s->cores;
        m->ghz = s->ghz;
        m->rate[ROOF_MEMORY] = s->memory * 1e12;
        if (here)
            m->cores = info.multiprocessors; /* of a part of it (MIG) fewer */
    } else
        describe(&info, m);
    if (!m->cores || m->rate[ROOF_MEMORY] <= 0)
        return cli_fail("%s: the rates of this GPU are not known; --gpu names "
                        "one that is like it",
                        m->name);
    set_rates(s, arch, family, dtype, m);
    return EXIT_OK;
}

/* ---- this computer
 * ------------------------------------------------------------- */

enum {
    CHAINS = 16, /* of dependent operations: two units, some four clocks */
    MATH_ROUNDS = 1 << 16,
    STREAM = 1 << 22 /* floats of each thread's arrays: beyond the caches */
};

/* x -> x / 2 + 1 / 2 stays finite. *sink: so that it is computed. */
#define MATH_LOOP(vec, half, fma, first)                                       \
    vec x[CHAINS];                                                             \
    for (int i = 0; i < CHAINS; i++)                                           \
        x[i] = half;                                                           \
    for (int r = 0; r < MATH_ROUNDS; r++) {                                    \
        _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) x[i] =       \
            fma(x[i], half, half);                                             \
    }                                                                          \
    for (int i = 0; i < CHAINS; i++)                                           \
        *sink += first(x[i]);                                                  \
    return 2.0 * CHAINS * MATH_ROUNDS * (sizeof(vec) / sizeof(float));

#define PLAIN_FMA(a, b, c) ((a) * (b) + (c))
#define PLAIN(a) (a)
static double math_plain(volatile float *sink)
{
    const float half = 0.5f;
    MATH_LOOP(float, half, PLAIN_FMA, PLAIN)
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static double
math_avx2(volatile float *sink)
{
    const __m256 half = _mm256_set1_ps(0.5f);
    MATH_LOOP(__m256, half, _mm256_fmadd_ps, _mm256_cvtss_f32)
}

__attribute__((target("avx512f"))) static double
math_avx512(volatile float *sink)
{
    const __m512 half = _mm512_set1_ps(0.5f);
    MATH_LOOP(__m512, half, _mm512_fmadd_ps, _mm512_cvtss_f32)
}
#endif

/* Returns FLOP. */
static double multiply_add(volatile float *sink)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return math_avx512(sink);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return math_avx2(sink);
#endif
    return math_plain(sink);
}

static double stream(float *to, const float *from)
{
    memcpy(to, from, STREAM * sizeof *to);
    return 2.0 * STREAM * sizeof *to;
}

struct probe {
    pthread_barrier_t *barrier;
    bool memory;
    double done, begin, end;
};

static void *run_probe(void *user)
{
    struct probe *p = user;
    volatile float sink = 0;
    float *from = NULL, *to = NULL;
    const double length = 0.2;
    if (p->memory) {
        from = cli_alloc(STREAM * sizeof *from);
        to = cli_alloc(STREAM * sizeof *to);
        (void)stream(to, from); /* pages are there */
    }
    pthread_barrier_wait(p->barrier);
    p->begin = cli_now();
    do
        p->done += p->memory ? stream(to, from) : multiply_add(&sink);
    while (cli_now() - p->begin < length);
    p->end = cli_now();
    free(from);
    free(to);
    return NULL;
}

static double probe(int threads, bool memory)
{
    enum { MOST = 256 };
    struct probe p[MOST];
    pthread_t t[MOST];
    pthread_barrier_t barrier;
    double rate = 0;
    int n = threads > MOST ? MOST : threads;
    pthread_barrier_init(&barrier, NULL, (unsigned)n);
    for (int i = 0; i < n; i++)
        p[i] = (struct probe){.barrier = &barrier, .memory = memory};
    for (int i = 1; i < n; i++)
        if (pthread_create(&t[i], NULL, run_probe, &p[i])) {
            (void)cli_fail("threads cannot be made");
            exit(EXIT_FAILED);
        }
    run_probe(&p[0]);
    for (int i = 1; i < n; i++)
        pthread_join(t[i], NULL);
    pthread_barrier_destroy(&barrier);
    for (int i = 0; i < n; i++)
        rate += p[i].done / (p[i].end - p[i].begin);
    return rate;
}

void roof_machine_cpu(int threads, struct roof_machine *m)
{
    facc_ctx *ctx;
    facc_system_info s = FACC_SYSTEM_INFO_INIT;
    *m = (struct roof_machine){.source = "measured now", .cores = threads};
    snprintf(m->name, sizeof m->name, "CPU");
    if (!facc_ctx_create(&ctx, NULL, NULL)) {
        if (!facc_system(ctx, &s, NULL)) {
            m->cores = threads ? threads : s.cpu_threads;
            snprintf(m->name, sizeof m->name, "CPU, %s", s.cpu_isa);
        }
        facc_ctx_free(ctx);
    }
    if (m->cores < 1)
        m->cores = 1;
    m->rate[ROOF_MATH] = probe(m->cores, false);
    m->rate[ROOF_MEMORY] = probe(m->cores, true);
}

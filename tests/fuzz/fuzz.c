/* The differential fuzzer: random programs on random tensors through every
 * path, compared with plain Lua on numbers. README.md says what and how.
 *
 *     fuzz [--mods N] [--nvrtc N] [--gpu N] [--seed FIRST] [--jobs N]
 *     fuzz --replay FILE.lua
 *     fuzz --print SEED */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/shrink.h"

static const char *const stage_name[STAGES] = {
    [STAGE_FINE] = "fine",
    [STAGE_TRACE] = "trace",
    [STAGE_CELLS] = "evaluator",
    [STAGE_CELLS_F32] = "evaluator, f32",
    [STAGE_VERDICT] = "verdict",
    [STAGE_CPU_F64] = "CPU attention, f64",
    [STAGE_CPU_F32] = "CPU attention",
    [STAGE_NVRTC] = "NVRTC",
    [STAGE_GPU_SM80] = "GPU, sm80",
    [STAGE_GPU_SM90] = "GPU, sm90",
    [STAGE_CRASH] = "crash",
    [STAGE_HANG] = "hang"};

struct arguments {
    long mods, nvrtc, gpu;
    uint64_t seed;
    int jobs;
    double shrink, timeout; /* seconds */
    double seconds;         /* no case begins later; 0: no limit */
    const char *out;        /* folder of found cases */
    const char *replay;
    bool print;
};

/* One kind of run. */
struct phase {
    const char *name; /* "cpu" "nvrtc" "gpu" */
    struct check_options options;
    long n;
};

enum { MOST_FOUND = 8 };
struct found {
    uint64_t seed;
    struct outcome outcome;
};
struct run {
    const struct arguments *a;
    const struct phase *phase;
    struct pool pool;
    struct tally tally;
    long done, failed;
    struct found found[MOST_FOUND];
    double began, told;
};

/* --- found cases -------------------------------------------------- */

static void write_case(const struct run *r, const struct found *f,
                       struct choices *c)
{
    static struct fuzz_case made;
    static char text[1 << 16];
    char path[512];
    const struct case_limits limits = check_limits(&r->phase->options);
    const struct choices *whole = c;
    text[0] = '\0';
    case_make(&made, c, &limits);
    case_describe(&made, text, sizeof text);
    case_close(&made);
    snprintf(path, sizeof path, "%s/fuzz_%s_%llu.lua", r->a->out,
             r->phase->name, (unsigned long long)f->seed);
    printf("-- seed %llu, %s: %s\n%s%s", (unsigned long long)f->seed,
           stage_name[f->outcome.stage], f->outcome.message, text,
           made.program.text);
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return;
    }
    fprintf(file, "-- seed %llu, %s: ", (unsigned long long)f->seed,
            stage_name[f->outcome.stage]);
    for (const char *s = f->outcome.message; *s; s++)
        fprintf(file, *s == '\n' ? "\n--   " : "%c", *s);
    fprintf(file, "\n%s-- replay %s", text, r->phase->name);
    for (uint32_t k = 0; k < whole->n; k++)
        fprintf(file, " %u", whole->value[k]);
    fprintf(file, "\n%s", made.program.text);
    fclose(file);
    printf("-- again: fuzz --replay %s\n", path);
}

static void shrink_found(struct run *r)
{
    static struct choices c, copy;
    static struct fuzz_case made;
    bool seen[STAGES] = {false};
    for (int k = 0; k < r->failed && k < MOST_FOUND; k++) {
        struct found *f = &r->found[k];
        if (seen[f->outcome.stage]) { /* the first of a kind is enough */
            printf("-- also seed %llu, %s: %s\n", (unsigned long long)f->seed,
                   stage_name[f->outcome.stage], f->outcome.message);
            continue;
        }
        seen[f->outcome.stage] = true;
        const struct case_limits limits = check_limits(&r->phase->options);
        choices_seed(&c, f->seed);
        case_make(&made, &c, &limits);
        case_close(&made);
        printf("seed %llu failed (%s: %s); shrinking for at most %g s\n",
               (unsigned long long)f->seed, stage_name[f->outcome.stage],
               f->outcome.message, r->a->shrink);
        copy = c;
        choices_replay(&c, copy.value, copy.n);
        case_make(&made, &c, &limits);
        case_close(&made);
        long n = fuzz_shrink(&r->pool, &c, &f->outcome, r->a->shrink);
        printf("%ld attempts, from %u to %u decisions\n", n, copy.n, c.n);
        copy = c;
        choices_replay(&c, copy.value, copy.n);
        write_case(r, f, &c);
    }
}

/* --- running ------------------------------------------------------ */

static void add_tally(struct tally *to, const struct tally *from)
{
    long *a = (long *)to;
    const long *b = (const long *)from;
    for (size_t k = 0; k < sizeof *to / sizeof *a; k++)
        a[k] += b[k];
}

static void progress(struct run *r, bool last)
{
    const double now = pool_now();
    if (!last && now - r->told < 5)
        return;
    r->told = now;
    printf("%s: %ld of %ld mods, %.0f a second, %ld failed\n", r->phase->name,
           r->done, r->phase->n, (double)r->done / (now - r->began), r->failed);
    fflush(stdout);
}

/* Another case, besides those under way? */
static bool wants_more(const struct run *r, long under_way)
{
    const double limit = r->a->seconds;
    return r->done + under_way < r->phase->n && r->failed < MOST_FOUND &&
           (limit <= 0 || pool_now() - r->began < limit);
}

static void run_cases(struct run *r)
{
    uint64_t seed = r->a->seed;
    long under_way = 0;
    struct outcome out;
    for (;;) {
        for (int k = 0; k < r->pool.n; k++)
            if (!r->pool.worker[k].busy && wants_more(r, under_way)) {
                pool_send(&r->pool, k, seed++, NULL, 0);
                under_way++;
            }
        if (under_way == 0)
            break;
        const int k = pool_wait(&r->pool, 1, &out);
        progress(r, false);
        if (k < 0)
            continue;
        under_way--;
        r->done += out.tally.left_out == 0;
        add_tally(&r->tally, &out.tally);
        if (out.stage == STAGE_FINE)
            continue;
        if (r->failed < MOST_FOUND)
            r->found[r->failed] = (struct found){r->pool.worker[k].seed, out};
        r->failed++;
    }
    progress(r, true);
}

/* --- what the run was worth --------------------------------------- */

static bool expect(bool ok, const char *what)
{
    if (!ok)
        printf("the cases are not worth enough: %s\n", what);
    return ok;
}

/* A generator that makes nothing of value is a failure, too. */
static bool judge_tally(const struct run *r)
{
    const struct tally *t = &r->tally;
    printf("%s: %ld cells, %ld kept, %ld near a threshold in f32; %ld rows, "
           "%ld compared in f32; %ld rectangles, %ld really EMPTY or FULL, %ld "
           "found; %ld kernels, %ld launches, %ld mods too large for kernels\n",
           r->phase->name, t->cells, t->kept, t->near_threshold, t->rows,
           t->compared, t->tiles, t->really, t->decided, t->kernels,
           t->launches, t->left_out);
    if (t->cases < 500)
        return true;
    bool ok = expect(t->kept > t->cells / 10, "few cells count") &
              expect(t->kept < t->cells / 10 * 9, "few cells are masked") &
              expect(t->near_threshold < t->cells / 20, "much is ambiguous") &
              expect(t->compared > t->rows / 10 * 7, "few rows are compared") &
              expect(t->decided > t->really / 2, "few verdicts are found");
    for (int op = 1; op < IR_OP_COUNT; op++)
        if (t->op[op] == 0) {
            printf("no program has the op %s\n", ir_op_info(op)->name);
            ok = false;
        }
    return ok;
}

static bool run_phase(const struct arguments *a, const struct phase *phase)
{
    static struct run r;
    r = (struct run){.a = a, .phase = phase};
    r.began = r.told = pool_now();
    pool_open(&r.pool, &phase->options, a->jobs, a->timeout);
    run_cases(&r);
    bool ok = judge_tally(&r);
    if (r.failed)
        shrink_found(&r);
    pool_close(&r.pool);
    return ok && r.failed == 0;
}

/* --- single cases ------------------------------------------------- */

static const struct phase phases[] = {{"cpu", {false, false}, 0},
                                      {"nvrtc", {true, false}, 0},
                                      {"gpu", {false, true}, 0}};

/* The line "-- replay NAME decisions". */
static const struct phase *read_replay(const char *path, struct choices *c)
{
    static uint32_t given[CHOICES_MOST];
    static char line[1 << 18];
    uint32_t n = 0;
    const struct phase *phase = NULL;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        char *p = strtok(line, " \n"), *name;
        if (!p || strcmp(p, "--") != 0 || !(p = strtok(NULL, " \n")) ||
            strcmp(p, "replay") != 0 || !(name = strtok(NULL, " \n")))
            continue;
        for (size_t k = 0; k < sizeof phases / sizeof *phases; k++)
            if (strcmp(phases[k].name, name) == 0)
                phase = &phases[k];
        while ((p = strtok(NULL, " \n")) != NULL && n < CHOICES_MOST)
            given[n++] = (uint32_t)strtoul(p, NULL, 10);
    }
    if (f)
        fclose(f);
    choices_replay(c, given, n);
    return phase;
}

/* In this process, for a debugger. */
static int replay(const char *path)
{
    static struct choices c;
    struct outcome out;
    const struct phase *phase = read_replay(path, &c);
    facc_ctx *ctx = check_context();
    if (!phase || !ctx) {
        fprintf(stderr, "fuzz: %s has no line '-- replay …'\n", path);
        return 2;
    }
    check_case(&c, &phase->options, ctx, &out);
    facc_ctx_free(ctx);
    printf("%s%s%s\n", stage_name[out.stage], *out.message ? ": " : "",
           out.message);
    return out.stage != STAGE_FINE;
}

static int print(const struct arguments *a)
{
    static struct choices c;
    static struct fuzz_case made;
    static char text[1 << 16];
    const struct check_options o = {a->nvrtc > 0, a->gpu > 0};
    const struct case_limits limits = check_limits(&o);
    choices_seed(&c, a->seed);
    case_make(&made, &c, &limits);
    case_describe(&made, text, sizeof text);
    printf("%s%s", text, made.program.text);
    case_close(&made);
    return 0;
}

/* --- arguments ---------------------------------------------------- */

static int usage(void)
{
    fprintf(stderr,
            "usage: fuzz [--mods N] [--nvrtc N] [--gpu N] [--seed FIRST] "
            "[--jobs N] [--seconds S]\n            [--shrink S] [--timeout S] "
            "[--out FOLDER]\n"
            "       fuzz --replay FILE.lua\n"
            "       fuzz --print SEED [--nvrtc 1 | --gpu 1]\n");
    return 2;
}

static bool parse(int argc, char **argv, struct arguments *a)
{
    for (int k = 1; k < argc; k += 2) {
        const char *name = argv[k], *value = k + 1 < argc ? argv[k + 1] : NULL;
        if (!value)
            return false;
        if (strcmp(name, "--mods") == 0)
            a->mods = strtol(value, NULL, 10);
        else if (strcmp(name, "--nvrtc") == 0)
            a->nvrtc = strtol(value, NULL, 10);
        else if (strcmp(name, "--gpu") == 0)
            a->gpu = strtol(value, NULL, 10);
        else if (strcmp(name, "--seed") == 0 || strcmp(name, "--print") == 0)
            a->seed = strtoull(value, NULL, 10);
        else if (strcmp(name, "--jobs") == 0)
            a->jobs = (int)strtol(value, NULL, 10);
        else if (strcmp(name, "--shrink") == 0)
            a->shrink = strtod(value, NULL);
        else if (strcmp(name, "--seconds") == 0)
            a->seconds = strtod(value, NULL);
        else if (strcmp(name, "--timeout") == 0)
            a->timeout = strtod(value, NULL);
        else if (strcmp(name, "--out") == 0)
            a->out = value;
        else if (strcmp(name, "--replay") == 0)
            a->replay = value;
        else
            return false;
        a->print |= strcmp(name, "--print") == 0;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct arguments a = {.seed = 1,
                          .jobs = (int)sysconf(_SC_NPROCESSORS_ONLN),
                          .shrink = 60,
                          .timeout = 60,
                          .out = "."};
    bool ok = true;
    if (!parse(argc, argv, &a))
        return usage();
    if (a.replay)
        return replay(a.replay);
    if (a.print)
        return print(&a);
    if (!a.mods && !a.nvrtc && !a.gpu)
        a.mods = 1000;
    if (a.gpu && !pool_has_gpu()) {
        printf("SKIPPED: there is no GPU\n");
        return 77;
    }
    const long n[] = {a.mods, a.nvrtc, a.gpu};
    for (int k = 0; k < 3; k++) {
        struct phase p = phases[k];
        p.n = n[k];
        if (p.n > 0)
            ok &= run_phase(&a, &p);
    }
    return !ok;
}

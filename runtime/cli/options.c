/* Command-line options: argv to struct options. One table for all
 * subcommands; each lists the ones it takes. */
#include "runtime/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_id {
    OPT_HELP = 256,
    OPT_SCORE,
    OPT_MASK,
    OPT_Q,
    OPT_K,
    OPT_V,
    OPT_OUT,
    OPT_LSE,
    OPT_TENSOR,
    OPT_PARAM,
    OPT_SCALE,
    OPT_DTYPE,
    OPT_DEVICE,
    OPT_RANDOM,
    OPT_SEED,
    OPT_THREADS,
    OPT_STATS,
    OPT_JSON,
    OPT_ARCH,
    OPT_HEAD_DIM,
    OPT_WHAT,
    OPT_JOBS,
    OPT_ROUNDS,
    OPT_CHECK_BOUNDS,
    OPT_PACKED,
    OPT_BLOCK_MASK,
    OPT_LSE_LIMIT,
    OPT_CU_Q,
    OPT_CU_KV,
    OPT_USED_Q,
    OPT_USED_KV,
    OPT_SQ,
    OPT_SKV,
    OPT_BATCH,
    OPT_HEAD,
    OPT_HEADS,
    OPT_TILE,
    OPT_LAYOUT,
    OPT_FAMILY,
    OPT_LENGTHS,
    OPT_CSV,
    OPT_PICTURE,
    OPT_PEERS,
    OPT_TIMINGS,
    OPT_SINKS,
    OPT_WITH_SINKS,
    OPT_DROPOUT,
    OPT_DROPOUT_SEED,
    OPT_DROPOUT_OFFSET,
    OPT_WITH_DROPOUT,
    OPT_MANIFEST,
    OPT_MEMORY,
    OPT_OUT_DTYPE,
    OPT_ROOFLINE,
    OPT_GPU,
    OPT_DESCALE_Q,
    OPT_DESCALE_K,
    OPT_DESCALE_V,
    OPT_DESCALE_BLOCK,
    OPT_V_MEAN,
    OPT_V_IMAGE,
    OPT_DESCALE,
    OPT_PER,
    OPT_HADAMARD,
    OPT_POWER_OF_TWO,
    OPT_CENTRE_V,
    OPT_TRANSPOSE_V,
    OPT_EXACT_PEAKS,
    OPT_REBUILD,
    OPT_END
};

static const struct option all_options[] = {
    {"help", no_argument, NULL, OPT_HELP},
    {"score", required_argument, NULL, OPT_SCORE},
    {"mask", required_argument, NULL, OPT_MASK},
    {"q", required_argument, NULL, OPT_Q},
    {"k", required_argument, NULL, OPT_K},
    {"v", required_argument, NULL, OPT_V},
    {"out", required_argument, NULL, OPT_OUT},
    {"lse", required_argument, NULL, OPT_LSE},
    {"tensor", required_argument, NULL, OPT_TENSOR},
    {"param", required_argument, NULL, OPT_PARAM},
    {"scale", required_argument, NULL, OPT_SCALE},
    {"dtype", required_argument, NULL, OPT_DTYPE},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"random", required_argument, NULL, OPT_RANDOM},
    {"seed", required_argument, NULL, OPT_SEED},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"stats", no_argument, NULL, OPT_STATS},
    {"json", no_argument, NULL, OPT_JSON},
    {"arch", required_argument, NULL, OPT_ARCH},
    {"head-dim", required_argument, NULL, OPT_HEAD_DIM},
    {"what", required_argument, NULL, OPT_WHAT},
    {"jobs", required_argument, NULL, OPT_JOBS},
    {"rounds", required_argument, NULL, OPT_ROUNDS},
    {"check-bounds", no_argument, NULL, OPT_CHECK_BOUNDS},
    {"packed", no_argument, NULL, OPT_PACKED},
    {"block-mask", no_argument, NULL, OPT_BLOCK_MASK},
    {"lse-limit", required_argument, NULL, OPT_LSE_LIMIT},
    {"cu-seqlens-q", required_argument, NULL, OPT_CU_Q},
    {"cu-seqlens-kv", required_argument, NULL, OPT_CU_KV},
    {"seqused-q", required_argument, NULL, OPT_USED_Q},
    {"seqused-kv", required_argument, NULL, OPT_USED_KV},
    {"sq", required_argument, NULL, OPT_SQ},
    {"skv", required_argument, NULL, OPT_SKV},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"head", required_argument, NULL, OPT_HEAD},
    {"heads", required_argument, NULL, OPT_HEADS},
    {"tile", required_argument, NULL, OPT_TILE},
    {"layout", required_argument, NULL, OPT_LAYOUT},
    {"family", required_argument, NULL, OPT_FAMILY},
    {"lengths", required_argument, NULL, OPT_LENGTHS},
    {"csv", required_argument, NULL, OPT_CSV},
    {"picture", required_argument, NULL, OPT_PICTURE},
    {"peers", no_argument, NULL, OPT_PEERS},
    {"timings", no_argument, NULL, OPT_TIMINGS},
    {"sinks", required_argument, NULL, OPT_SINKS},
    {"with-sinks", no_argument, NULL, OPT_WITH_SINKS},
    {"manifest", required_argument, NULL, OPT_MANIFEST},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"out-dtype", required_argument, NULL, OPT_OUT_DTYPE},
    {"roofline", no_argument, NULL, OPT_ROOFLINE},
    {"gpu", required_argument, NULL, OPT_GPU},
    {"dropout", required_argument, NULL, OPT_DROPOUT},
    {"dropout-seed", required_argument, NULL, OPT_DROPOUT_SEED},
    {"dropout-offset", required_argument, NULL, OPT_DROPOUT_OFFSET},
    {"with-dropout", no_argument, NULL, OPT_WITH_DROPOUT},
    {"descale-q", required_argument, NULL, OPT_DESCALE_Q},
    {"descale-k", required_argument, NULL, OPT_DESCALE_K},
    {"descale-v", required_argument, NULL, OPT_DESCALE_V},
    {"descale-block", required_argument, NULL, OPT_DESCALE_BLOCK},
    {"v-mean", required_argument, NULL, OPT_V_MEAN},
    {"v-image", required_argument, NULL, OPT_V_IMAGE},
    {"descale", required_argument, NULL, OPT_DESCALE},
    {"per", required_argument, NULL, OPT_PER},
    {"hadamard", no_argument, NULL, OPT_HADAMARD},
    {"power-of-two", no_argument, NULL, OPT_POWER_OF_TWO},
    {"centre-v", no_argument, NULL, OPT_CENTRE_V},
    {"transpose-v", no_argument, NULL, OPT_TRANSPOSE_V},
    {"exact-peaks", no_argument, NULL, OPT_EXACT_PEAKS},
    {"rebuild", no_argument, NULL, OPT_REBUILD},
};
enum { N_OPTIONS = sizeof all_options / sizeof all_options[0] };

bool cli_parse_int(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end)
        return false;
    *out = v;
    return true;
}

bool cli_parse_double(const char *text, double *out)
{
    /* The process never calls setlocale, so strtod reads a '.'. */
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || (errno == ERANGE && isinf(v)))
        return false;
    *out = v;
    return true;
}

bool cli_looks_int(const char *text)
{
    text += *text == '-' || *text == '+';
    return *text && text[strspn(text, "0123456789")] == '\0';
}

const char *cli_next_item(const char **rest, char item[CLI_ITEM])
{
    if (!*rest)
        return NULL;
    size_t n = strcspn(*rest, ",");
    bool fits = n < CLI_ITEM;
    if (fits)
        memcpy(item, *rest, n);
    item[fits ? n : 0] = '\0';
    *rest = (*rest)[n] ? *rest + n + 1 : NULL;
    return item;
}

bool cli_parse_dtype(const char *text, facc_dtype *out)
{
    if (!strcmp(text, "f8"))
        text = "e4m3";
    for (int d = FACC_F32; d <= FACC_F64; d++)
        if (!strcmp(text, facc_dtype_name((facc_dtype)d))) {
            *out = (facc_dtype)d;
            return true;
        }
    return false;
}

/* "name=value", cut in two, into a list. */
static bool add_named(const struct command *c, char *text,
                      struct named_text *list, int *n, const char *what)
{
    char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1]) {
        cli_usage(c, "--%s wants name=value, got '%s'", what, text);
        return false;
    }
    if (*n == MAX_NAMED) {
        cli_usage(c, "more than %d --%s options", MAX_NAMED, what);
        return false;
    }
    *eq = 0;
    for (int i = 0; i < *n; i++)
        if (!strcmp(list[i].name, text)) {
            cli_usage(c, "--%s %s is given twice", what, text);
            return false;
        }
    list[(*n)++] = (struct named_text){text, eq + 1};
    return true;
}

enum { MAX_SIZE = 1 << 30 }; /* as facc.h's calls take them */

/* B,H,Hkv,Sq,Skv,D[,Dv] */
static bool parse_random(const struct command *c, const char *text,
                         struct options *o)
{
    int64_t v[7];
    int n = 0;
    const char *rest = text, *part;
    char item[CLI_ITEM];
    for (; n >= 0 && (part = cli_next_item(&rest, item)); n++)
        if (n == 7 || !cli_parse_int(part, &v[n]) || v[n] < 0 ||
            v[n] > MAX_SIZE)
            n = -2; /* -1 after this step */
    if (n != 6 && n != 7) {
        cli_usage(c,
                  "--random wants B,H,Hkv,Sq,Skv,D[,Dv], six or seven "
                  "integers from 0 to 2^30, got '%s'",
                  text);
        return false;
    }
    o->has_shape = true;
    o->B = v[0], o->H = v[1], o->Hkv = v[2], o->Sq = v[3], o->Skv = v[4];
    o->D = v[5], o->Dv = n == 7 ? v[6] : v[5];
    return true;
}

static bool parse_positive(const struct command *c, const char *name,
                           const char *text, int *out)
{
    int64_t v;
    if (!cli_parse_int(text, &v) || v < 1 || v > 1000000) {
        cli_usage(c, "--%s wants a positive integer, got '%s'", name, text);
        return false;
    }
    *out = (int)v;
    return true;
}

/* A length (sq, skv) or a number of a sequence or head. */
static bool parse_size(const struct command *c, const char *name,
                       const char *text, int64_t *out)
{
    if (cli_parse_int(text, out) && *out >= 0 && *out <= MAX_SIZE)
        return true;
    cli_usage(c, "--%s wants an integer from 0 to 2^30, got '%s'", name, text);
    return false;
}

static bool take_positive(const char *text, int64_t *out)
{
    return cli_parse_int(text, out) && *out > 0 && *out <= MAX_SIZE;
}

/* Two positive sizes with that character between them. */
static bool take_pair(const char *text, char between, int64_t *first,
                      int64_t *second)
{
    char item[CLI_ITEM];
    const char *at = strchr(text, between);
    const size_t n = at ? (size_t)(at - text) : CLI_ITEM;
    if (n >= CLI_ITEM)
        return false;
    memcpy(item, text, n);
    item[n] = '\0';
    return take_positive(item, first) && take_positive(at + 1, second);
}

/* H or H,HKV */
static bool parse_heads(const struct command *c, const char *text,
                        struct options *o)
{
    if (!strchr(text, ',') ? take_positive(text, &o->mask_h)
                           : take_pair(text, ',', &o->mask_h, &o->mask_hkv) &&
                                 o->mask_h % o->mask_hkv == 0)
        return true;
    cli_usage(c, "--heads wants H or H,HKV, such as 32,8, got '%s'", text);
    return false;
}

/* 128x64: rows by columns. */
static bool parse_tile(const struct command *c, const char *text,
                       struct options *o)
{
    if (take_pair(text, 'x', &o->tile_q, &o->tile_kv))
        return true;
    cli_usage(c, "--tile wants ROWSxCOLUMNS, such as 128x64, got '%s'", text);
    return false;
}

static bool set_scale(const struct command *c, const char *text,
                      struct options *o)
{
    if (!cli_parse_double(text, &o->scale) || !isfinite(o->scale)) {
        cli_usage(c, "--scale wants a finite number, got '%s'", text);
        return false;
    }
    o->has_scale = true;
    return true;
}

static bool set_lse_limit(const struct command *c, const char *text,
                          struct options *o)
{
    if (cli_parse_double(text, &o->lse_limit) && o->lse_limit > 0)
        return true;
    cli_usage(c, "--lse-limit wants a positive number, got '%s'", text);
    return false;
}

static bool set_dtype(const struct command *c, const char *text,
                      struct options *o)
{
    o->dtypes = text;
    if (strchr(text, ',')) /* a list: compile splits it */
        return true;
    if (!cli_parse_dtype(text, &o->dtype)) {
        cli_usage(c, "there is no dtype '%s': f32 f16 bf16 e4m3 e5m2", text);
        return false;
    }
    return true;
}

static bool set_out_dtype(const struct command *c, const char *text,
                          struct options *o)
{
    if (cli_parse_dtype(text, &o->out_dtype))
        return true;
    cli_usage(c, "--out-dtype: there is no dtype '%s': f32 f16 bf16", text);
    return false;
}

static bool set_layout(const struct command *c, const char *text,
                       struct options *o)
{
    const bool aligned = !strcmp(text, "aligned");
    if (!aligned && strcmp(text, "any") != 0) {
        cli_usage(c, "--layout is any or aligned, got '%s'", text);
        return false;
    }
    o->layout = aligned ? FACC_LAYOUT_ALIGNED : FACC_LAYOUT_ANY;
    return true;
}

static bool set_family(const struct command *c, const char *text,
                       struct options *o)
{
    static const struct {
        const char *name;
        int32_t family;
    } all[] = {{"auto", FACC_FAMILY_AUTO},
               {"sm80", FACC_FAMILY_SM80},
               {"sm90", FACC_FAMILY_SM90}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!strcmp(text, all[i].name)) {
            o->family = all[i].family;
            return true;
        }
    cli_usage(c, "--family is auto, sm80 or sm90, got '%s'", text);
    return false;
}

static bool set_seed(const struct command *c, const char *name,
                     const char *text, uint64_t *to)
{
    int64_t seed;
    if (!cli_parse_int(text, &seed)) {
        cli_usage(c, "--%s wants an integer, got '%s'", name, text);
        return false;
    }
    *to = (uint64_t)seed;
    return true;
}

/* Options whose text or presence is all there is to them. */
static const char **text_of(int id, struct options *o)
{
    const struct {
        int id;
        const char **to;
    } texts[] = {
        {OPT_SCORE, &o->score},
        {OPT_MASK, &o->mask},
        {OPT_Q, &o->q},
        {OPT_K, &o->k},
        {OPT_V, &o->v},
        {OPT_OUT, &o->out},
        {OPT_LSE, &o->lse},
        {OPT_DEVICE, &o->device},
        {OPT_ARCH, &o->arch},
        {OPT_HEAD_DIM, &o->head_dims},
        {OPT_WHAT, &o->what},
        {OPT_LENGTHS, &o->lengths},
        {OPT_CSV, &o->csv},
        {OPT_PICTURE, &o->picture},
        {OPT_CU_Q, &o->sequences[SEQ_CU_Q]},
        {OPT_CU_KV, &o->sequences[SEQ_CU_KV]},
        {OPT_USED_Q, &o->sequences[SEQ_USED_Q]},
        {OPT_USED_KV, &o->sequences[SEQ_USED_KV]},
        {OPT_SINKS, &o->sinks},
        {OPT_MANIFEST, &o->manifest},
        {OPT_GPU, &o->gpu},
        {OPT_DROPOUT, &o->dropout},
        {OPT_DESCALE_Q, &o->descales[0]},
        {OPT_DESCALE_K, &o->descales[1]},
        {OPT_DESCALE_V, &o->descales[2]},
        {OPT_DESCALE, &o->descale},
        {OPT_V_MEAN, &o->v_mean},
        {OPT_V_IMAGE, &o->v_image},
        {OPT_PER, &o->per},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].id == id)
            return texts[i].to;
    return NULL;
}

static bool *flag_of(int id, struct options *o)
{
    return id == OPT_STATS          ? &o->stats
           : id == OPT_JSON         ? &o->json
           : id == OPT_CHECK_BOUNDS ? &o->check_bounds
           : id == OPT_PACKED       ? &o->packed
           : id == OPT_BLOCK_MASK   ? &o->block_mask
           : id == OPT_WITH_SINKS   ? &o->with_sinks
           : id == OPT_WITH_DROPOUT ? &o->with_dropout
           : id == OPT_PEERS        ? &o->peers
           : id == OPT_TIMINGS      ? &o->timings
           : id == OPT_ROOFLINE     ? &o->roofline
           : id == OPT_HADAMARD     ? &o->hadamard
           : id == OPT_POWER_OF_TWO ? &o->power_of_two
           : id == OPT_CENTRE_V     ? &o->centre_v
           : id == OPT_TRANSPOSE_V  ? &o->transpose_v
           : id == OPT_EXACT_PEAKS  ? &o->exact_peaks
           : id == OPT_REBUILD      ? &o->rebuild
                                    : NULL;
}

static bool set_option(const struct command *c, int id, char *text,
                       struct options *o)
{
    const char **to = text_of(id, o);
    bool *flag = flag_of(id, o);
    if (to)
        *to = text;
    if (flag)
        *flag = true;
    if (to || flag)
        return true;
    switch (id) {
    case OPT_SCALE:
        return set_scale(c, text, o);
    case OPT_LSE_LIMIT:
        return set_lse_limit(c, text, o);
    case OPT_DTYPE:
        return set_dtype(c, text, o);
    case OPT_RANDOM:
        return parse_random(c, text, o);
    case OPT_TENSOR:
        return add_named(c, text, o->tensors, &o->n_tensors, "tensor");
    case OPT_PARAM:
        return add_named(c, text, o->params, &o->n_params, "param");
    case OPT_SEED:
        return set_seed(c, "seed", text, &o->seed);
    case OPT_DROPOUT_SEED:
        return set_seed(c, "dropout-seed", text, &o->dropout_seed);
    case OPT_DROPOUT_OFFSET:
        return set_seed(c, "dropout-offset", text, &o->dropout_offset);
    case OPT_THREADS:
        return parse_positive(c, "threads", text, &o->threads);
    case OPT_DESCALE_BLOCK:
        return parse_positive(c, "descale-block", text, &o->descale_block);
    case OPT_JOBS:
        return parse_positive(c, "jobs", text, &o->jobs);
    case OPT_SQ:
        return parse_size(c, "sq", text, &o->mask_sq);
    case OPT_SKV:
        return parse_size(c, "skv", text, &o->mask_skv);
    case OPT_BATCH:
        return parse_size(c, "batch", text, &o->batch);
    case OPT_HEAD:
        return parse_size(c, "head", text, &o->head);
    case OPT_HEADS:
        return parse_heads(c, text, o);
    case OPT_TILE:
        return parse_tile(c, text, o);
    case OPT_MEMORY:
        return parse_positive(c, "memory", text, &o->memory);
    case OPT_OUT_DTYPE:
        return set_out_dtype(c, text, o);
    case OPT_LAYOUT:
        return set_layout(c, text, o);
    case OPT_FAMILY:
        return set_family(c, text, o);
    default:
        return parse_positive(c, "rounds", text, &o->rounds);
    }
}

static bool takes(const char *const *allowed, const char *name)
{
    for (int i = 0; allowed[i]; i++)
        if (!strcmp(allowed[i], name))
            return true;
    return false;
}

/* The rows of the table that a command takes, --help always. */
static void select_options(const char *const *allowed, struct option *out)
{
    int n = 0;
    for (int i = 0; i < N_OPTIONS; i++)
        if (all_options[i].val == OPT_HELP ||
            takes(allowed, all_options[i].name))
            out[n++] = all_options[i];
    memset(&out[n], 0, sizeof out[n]);
}

/* True the second time: a value that nobody would look at is a mistake.
 * add_named sees to --tensor and --param. */
static bool again(int id, bool seen[OPT_END - OPT_HELP])
{
    bool *at = &seen[id - OPT_HELP];
    bool was = *at;
    *at = true;
    return was && id != OPT_TENSOR && id != OPT_PARAM;
}

static const char *option_name(int id)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (all_options[i].val == id)
            return all_options[i].name;
    return "?";
}

int options_parse(const struct command *c, int argc, char **argv,
                  const char *const *allowed, struct options *o)
{
    *o = (struct options){
        .seed = 1, .mask_sq = -1, .mask_skv = -1, .mask_h = -1, .mask_hkv = -1};
    struct option taken[N_OPTIONS + 1];
    select_options(allowed, taken);
    opterr = 0;
    optind = 1;
    const char *short_options = takes(allowed, "out") ? ":o:" : ":";
    bool seen[OPT_END - OPT_HELP] = {false};
    for (;;) {
        int id = getopt_long(argc, argv, short_options, taken, NULL);
        if (id == -1)
            break;
        if (id == OPT_HELP) {
            fputs(c->help, stdout);
            return -1;
        }
        if (id == 'o')
            id = OPT_OUT;
        if (id == ':')
            return cli_usage(c, "%s wants a value", argv[optind - 1]);
        if (id == '?')
            return cli_usage(c, "%s is no option of this command",
                             argv[optind - 1]);
        if (optarg && again(id, seen))
            return cli_usage(c, "--%s is given twice", option_name(id));
        if (!set_option(c, id, optarg, o))
            return EXIT_USAGE;
    }
    for (; optind < argc; optind++) {
        if (o->n_positional == 256)
            return cli_usage(c, "more than 256 files");
        o->positional[o->n_positional++] = argv[optind];
    }
    o->file = o->n_positional ? o->positional[0] : NULL;
    return EXIT_OK;
}

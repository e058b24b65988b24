/* Everything NVRTC needs for one unit. In: a program's graph and a
 * configuration; out: the main file and the headers it includes, in the
 * order of first inclusion. Called by compile.c; emit_flat by the CLI. */
#include "compiler/emit/emit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct embedded_file *embedded_find(const char *name)
{
    for (int k = 0; k < n_embedded_files; k++)
        if (strcmp(embedded_files[k].name, name) == 0)
            return &embedded_files[k];
    return NULL;
}

/* --- the configuration --------------------------------------------------- */

struct unit_config emit_schedule(const struct unit_config *forward)
{
    return (struct unit_config){.family = "schedule",
                                .head_dim = forward->head_dim,
                                .head_dim_v = forward->head_dim_v,
                                .check_bounds = forward->check_bounds,
                                .block_mask = forward->block_mask,
                                .packed = forward->packed,
                                .full_blocks_partial =
                                    forward->full_blocks_partial};
}

bool emit_is_schedule(const struct unit_config *c)
{
    return strcmp(c->family, "schedule") == 0;
}

struct unit_config emit_transpose(const struct unit_config *forward)
{
    return (struct unit_config){.family = "transpose",
                                .head_dim_v = forward->head_dim_v};
}

bool emit_is_transpose(const struct unit_config *c)
{
    return strcmp(c->family, "transpose") == 0;
}

bool emit_is_quantize(const struct unit_config *c)
{
    return strcmp(c->family, "quantize") == 0;
}

/* Units that know of no program. */
static bool is_common(const struct unit_config *c)
{
    return emit_is_transpose(c) || emit_is_quantize(c);
}

static const char *element_name(enum dtype t)
{
    return t == DTYPE_F16    ? "kElementF16"
           : t == DTYPE_BF16 ? "kElementBf16"
           : t == DTYPE_E4M3 ? "kElementE4m3"
           : t == DTYPE_E5M2 ? "kElementE5m2"
                             : "kElementF32";
}

/* Of an FP8 kernel alone, so that others' keys do not know of it. */
static void add_fp8(const struct unit_config *c, struct strbuf *out)
{
    strbuf_add(out, "#define FACC_FP8 1\n"
                    "constexpr int kElementE4m3 = 3, kElementE5m2 = 4;\n");
    strbuf_addf(out, "constexpr bool kBlockScales = %s;\n",
                emit_bool(c->block_scales));
    strbuf_addf(out, "constexpr bool kPromotes = %s;\n",
                emit_bool(c->promotes));
    strbuf_addf(out, "constexpr bool kTransposesV = %s;\n",
                emit_bool(c->transposes_v));
    strbuf_addf(out, "constexpr bool kExactPeaks = %s;\n",
                emit_bool(c->exact_peaks));
}

bool emit_scheduled(const struct verdict_program *v,
                    const struct unit_config *c)
{
    return c->packed || c->block_mask || emit_planned(v, c);
}

static void add_head_dims(const struct unit_config *c, struct strbuf *out)
{
    strbuf_addf(out, "constexpr int kHeadDim = %d, kHeadDimV = %d;\n",
                c->head_dim, c->head_dim_v);
}

static void add_forward(const struct unit_config *c, struct strbuf *out)
{
    strbuf_add(out, "constexpr int kElementF16 = 0, kElementBf16 = 1, "
                    "kElementF32 = 2;\n");
    if (dtype_is_fp8(c->dtype))
        add_fp8(c, out);
    strbuf_addf(out, "constexpr int kElement = %s;\n", element_name(c->dtype));
    strbuf_addf(out, "constexpr int kOutElement = %s;\n",
                element_name(c->out_dtype));
    add_head_dims(c, out);
    strbuf_addf(out, "constexpr int kTileM = %d, kTileN = %d;\n", c->tile_m,
                c->tile_n);
    strbuf_addf(out, "constexpr int kWarps = %d, kStages = %d;\n", c->warps,
                c->stages);
    strbuf_addf(out, "constexpr bool kQInRegisters = %s;\n",
                emit_bool(c->q_in_registers));
    strbuf_addf(out, "constexpr int kQBuffers = %d;\n", c->q_buffers);
    strbuf_addf(out, "constexpr int kSharedBytes = %d;\n", c->shared_bytes);
    strbuf_addf(out, "constexpr bool kHasSinks = %s;\n", emit_bool(c->sinks));
    strbuf_addf(out, "constexpr bool kHasDropout = %s;\n",
                emit_bool(c->dropout));
}

static void add_rounding(const struct unit_config *c, struct strbuf *out)
{
    strbuf_add(out, "constexpr int kElementF16 = 0, kElementBf16 = 1, "
                    "kElementF32 = 2;\n"
                    "constexpr int kElementE4m3 = 3, kElementE5m2 = 4;\n");
    strbuf_addf(out, "constexpr int kFrom = %s, kTo = %s;\n",
                element_name(c->dtype), element_name(c->out_dtype));
    strbuf_addf(out, "constexpr int kHeadDim = %d;\n", c->head_dim);
    strbuf_addf(out, "constexpr bool kHadamard = %s;\n",
                emit_bool((c->rounding & ROUND_HADAMARD) != 0));
    strbuf_addf(out, "constexpr bool kMean = %s;\n",
                emit_bool((c->rounding & ROUND_MEAN) != 0));
    strbuf_addf(out, "constexpr bool kImage = %s;\n",
                emit_bool((c->rounding & ROUND_IMAGE) != 0));
    if (c->rounding & ROUND_MEAN)
        strbuf_add(out, "#define FACC_QUANTIZE_MEAN 1\n");
}

bool emit_config(const struct ir_graph *g, const struct verdict_program *v,
                 const struct unit_config *c, struct strbuf *out)
{
    strbuf_add(out, "// Generated by facc.\n#pragma once\n\n");
    if (is_common(c)) {
        if (emit_is_transpose(c))
            strbuf_addf(out, "constexpr int kHeadDimV = %d;\n", c->head_dim_v);
        else
            add_rounding(c, out);
        return !out->failed || diag_nomem(g->diag, "emit");
    }
    if (emit_is_schedule(c))
        strbuf_add(out, "constexpr int kTileM = 0, kTileN = 0;\n");
    else
        add_forward(c, out);
    strbuf_addf(out, "constexpr bool kCheckBounds = %s;\n",
                emit_bool(c->check_bounds));
    strbuf_addf(out, "constexpr bool kBlockMask = %s;\n",
                emit_bool(c->block_mask));
    strbuf_addf(out, "constexpr bool kFullBlocksArePartial = %s;\n",
                emit_bool(c->full_blocks_partial));
    strbuf_addf(out, "constexpr bool kPacked = %s;\n", emit_bool(c->packed));
    strbuf_addf(out, "#define FACC_SCHEDULED %d\n", emit_scheduled(v, c));
    strbuf_addf(out, "constexpr int kNumTensors = %d, kNumParams = %d;\n",
                g->n_tensors, g->n_params);
    strbuf_addf(out, "constexpr int kExtraDim = %d;\n", emit_extra_dim(c));
    strbuf_addf(out, "constexpr int kPlaneBytes = %d;\n", c->plane_bytes);
    if (out->failed)
        diag_nomem(g->diag, "emit");
    return !out->failed;
}

/* --- template files ------------------------------------------------------ */

struct unit {
    struct diag *diag;
    struct arena *arena;
    const char *dir; /* or NULL: embedded files */
    struct cuda_unit *out;
    int cap;
};

static bool no_memory(const struct unit *u)
{
    return diag_nomem(u->diag, "emit");
}

static char *read_stream(const struct unit *u, FILE *f)
{
    size_t size = 0, cap = 1 << 14;
    char *text = arena_alloc(u->arena, cap);
    while (text) {
        size += fread(text + size, 1, cap - 1 - size, f);
        if (size < cap - 1)
            break;
        text = arena_grow(u->arena, text, cap, 2 * cap);
        cap *= 2;
    }
    if (!text) {
        no_memory(u);
        return NULL;
    }
    text[size] = '\0';
    return text;
}

/* A template file's text, NULL with the diag filled. */
static const char *template_text(const struct unit *u, const char *name)
{
    if (!u->dir) {
        const struct embedded_file *f = embedded_find(name);
        if (!f)
            diag_set(u->diag, DIAG_INTERNAL, "emit", NULL, 0,
                     "no template file '%s'", name);
        return f ? f->text : NULL;
    }
    const char *path = arena_printf(u->arena, "%s/%s", u->dir, name);
    if (!path) {
        no_memory(u);
        return NULL;
    }
    FILE *f = fopen(path, "rb");
    const char *text = f ? read_stream(u, f) : NULL;
    if (!f || ferror(f))
        diag_set(u->diag, DIAG_IO, "emit", path, 0,
                 "cannot read template file: %s", strerror(errno));
    if (f)
        fclose(f);
    return text;
}

/* --- includes ------------------------------------------------------------ */

/* The name in an include directive with quotes that starts at a line's
 * beginning. */
static const char *include_name(const char *line, size_t *len)
{
    static const char word[] = "#include \"";
    if (strncmp(line, word, sizeof word - 1) != 0)
        return NULL;
    const char *name = line + sizeof word - 1, *end = name;
    while (*end && *end != '"' && *end != '\n')
        end++;
    *len = (size_t)(end - name);
    return *end == '"' ? name : NULL;
}

static const char *next_line(const char *s)
{
    const char *end = strchr(s, '\n');
    return end ? end + 1 : s + strlen(s);
}

static int find_header(const struct cuda_unit *u, const char *name, size_t len)
{
    for (int k = 0; k < u->n_headers; k++)
        if (strncmp(u->headers[k].name, name, len) == 0 &&
            u->headers[k].name[len] == '\0')
            return k;
    return -1;
}

static bool add_header(struct unit *u, const char *name, const char *text)
{
    struct cuda_unit *out = u->out;
    if (out->n_headers == u->cap) {
        const int cap = u->cap ? 2 * u->cap : 16;
        struct cuda_header *p =
            arena_grow(u->arena, out->headers, (size_t)u->cap * sizeof *p,
                       (size_t)cap * sizeof *p);
        if (!p)
            return no_memory(u);
        out->headers = p;
        u->cap = cap;
    }
    out->headers[out->n_headers++] = (struct cuda_header){name, text};
    return true;
}

/* Adds what a file includes and the unit lacks. */
static bool add_includes(struct unit *u, const char *text)
{
    size_t len;
    for (const char *line = text; *line; line = next_line(line)) {
        const char *at = include_name(line, &len);
        if (!at || find_header(u->out, at, len) >= 0)
            continue;
        const char *name = arena_strndup(u->arena, at, len);
        if (!name)
            return no_memory(u);
        const char *header = template_text(u, name);
        if (!header || !add_header(u, name, header))
            return false;
    }
    return true;
}

static bool add_wgmma(struct unit *u, const struct ir_graph *g,
                      const struct unit_config *c)
{
    struct strbuf text;
    strbuf_init(&text, u->arena);
    return emit_wgmma(g, c, &text) &&
           add_header(u, "facc_wgmma.cuh", strbuf_text(&text));
}

static bool add_generated(struct unit *u, struct ir_graph *g,
                          const struct ir_roots *roots,
                          const struct verdict_program *v,
                          const struct unit_config *c)
{
    struct strbuf config, variant;
    strbuf_init(&config, u->arena);
    strbuf_init(&variant, u->arena);
    if (!emit_config(g, v, c, &config))
        return false;
    if (is_common(c))
        return add_header(u, "facc_config.cuh", strbuf_text(&config));
    if (!emit_variant(g, roots, v, c, &variant))
        return false;
    /* The schedule's unit is one for all head dims, unless the mask reads
     * them. */
    if (emit_is_schedule(c) && strstr(strbuf_text(&variant), "kHeadDim"))
        add_head_dims(c, &config);
    return !config.failed &&
           add_header(u, "facc_config.cuh", strbuf_text(&config)) &&
           add_header(u, "facc_variant.cuh", strbuf_text(&variant)) &&
           (strcmp(c->family, "sm90") != 0 || add_wgmma(u, g, c));
}

static const char *entry_of(const struct unit_config *c)
{
    return emit_is_schedule(c)    ? "facc_schedule"
           : emit_is_transpose(c) ? "facc_transpose_v"
           : emit_is_quantize(c)  ? "facc_quantize_round"
                                  : "facc_forward";
}

static const char *main_of(const struct unit_config *c, struct arena *a)
{
    if (emit_is_schedule(c) || is_common(c))
        return arena_printf(a, "common/%s.cu", c->family);
    return arena_printf(a, "%s/%sforward.cu", c->family,
                        dtype_is_fp8(c->dtype) ? "fp8_" : "");
}

/* The template files behind the generated headers. */
static bool add_templates(struct unit *u)
{
    struct cuda_unit *out = u->out;
    out->main_text = template_text(u, out->main_name);
    if (!out->main_text || !add_includes(u, out->main_text))
        return false;
    for (int k = 0; k < out->n_headers; k++)
        if (!add_includes(u, out->headers[k].text))
            return false;
    return true;
}

bool emit_unit(struct ir_graph *g, const struct ir_roots *roots,
               const struct verdict_program *v, const struct unit_config *c,
               const char *template_dir, struct arena *a, struct cuda_unit *out)
{
    struct unit u = {
        .diag = g->diag, .arena = a, .dir = template_dir, .out = out};
    *out = (struct cuda_unit){.entry = entry_of(c)};
    out->main_name = main_of(c, a);
    if (!out->main_name)
        return no_memory(&u);
    return add_generated(&u, g, roots, v, c) && add_templates(&u);
}

bool emit_rejoin(const char *template_dir, struct arena *a, struct diag *d,
                 struct cuda_unit *out)
{
    struct unit u = {.diag = d,
                     .arena = a,
                     .dir = template_dir,
                     .out = out,
                     .cap = out->n_headers};
    return add_templates(&u);
}

/* --- other forms --------------------------------------------------------- */

bool emit_without_lines(const char *text, struct strbuf *out)
{
    for (const char *line = text, *next; *line; line = next) {
        next = next_line(line);
        if (strncmp(line, "#line ", 6) != 0)
            strbuf_addn(out, line, (size_t)(next - line));
    }
    return !out->failed;
}

/* Appends a file with its includes in place, each header once. Depth is
 * bounded by the number of headers. */
static void flatten(const struct cuda_unit *u, const char *text, bool *done,
                    struct strbuf *out)
{
    size_t len;
    for (const char *line = text, *next; *line; line = next) {
        next = next_line(line);
        const char *name = include_name(line, &len);
        const int k = name ? find_header(u, name, len) : -1;
        if (k < 0) {
            if (strncmp(line, "#pragma once", 12) != 0)
                strbuf_addn(out, line, (size_t)(next - line));
        } else if (!done[k]) {
            done[k] = true;
            strbuf_addf(out, "// ---- %s\n", u->headers[k].name);
            flatten(u, u->headers[k].text, done, out);
            strbuf_addf(out, "// ---- end of %s\n", u->headers[k].name);
        }
    }
}

bool emit_flat(const struct cuda_unit *u, struct strbuf *out)
{
    bool *done =
        arena_alloc(out->arena, ((size_t)u->n_headers + 1) * sizeof *done);
    if (!done)
        return false;
    flatten(u, u->main_text, done, out);
    return !out->failed;
}

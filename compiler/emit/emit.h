/* Graph to CUDA text. variant.c prints `struct Variant` (scoped functions),
 * unit.c the configuration header, wgmma.c Hopper's products; unit.c joins them
 * with the embedded template files into a unit that NVRTC compiles. The splice
 * contract is templates/README.md. */
#ifndef FACC_EMIT_H
#define FACC_EMIT_H

#include "compiler/ir/ir.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/verdict.h"

struct unit_config {
    const char
        *family; /* "sm80" "sm90"; "schedule", "transpose", "quantize": below */
    enum dtype dtype;     /* of Q, K, V */
    enum dtype out_dtype; /* of O */
    int head_dim;         /* of Q and K, as the caller's tensors have it */
    int head_dim_v;       /* of V and O */
    int tile_m, tile_n;   /* query rows, KV columns of one tile */
    int warps;            /* of a CTA */
    int stages;           /* K/V buffers in shared memory */
    bool q_in_registers;  /* else Q fragments are re-read from shared memory */
    int q_buffers;        /* Q tiles in shared memory, per warp group */
    int shared_bytes;     /* dynamic shared memory of a CTA */
    bool check_bounds;    /* checked debug build */
    bool block_mask;      /* launches bring block lists */
    bool packed;          /* launches bring packed sequences */
    bool full_blocks_partial; /* the mask is asked in full blocks, too */
    bool sinks;               /* launches bring sinks */
    bool block_scales; /* FP8: launches bring descales of blocks of rows */
    bool promotes;     /* FP8: launches may ask for facc_fp8.promote_tiles */
    bool transposes_v; /* FP8: launches bring V as it is, not its image */
    bool exact_peaks;  /* FP8: weights that carry a row are rounded exactly */
    bool dropout;      /* launches say which weights are dropped */
    unsigned rounding; /* family "quantize": bits of enum emit_rounding */
    int plane_bytes; /* family sm90: of an element of the captured tensor whose
                        tiles the kernel copies (pass_plane); 0: of none */
    const struct dot_term *dot; /* the program's, which the kernel makes beside
                                   Q K^T; NULL: cell by cell, if it has one */
};

/* Columns that join the products of Q K^T besides the head dim's. */
static inline int emit_extra_dim(const struct unit_config *c)
{
    return c->dot ? c->dot->n : 0;
}

/* The unit of the kernels that make a schedule, for the launches of a kernel:
 * one text for every family, tile and dtype, and for every head dim unless the
 * mask reads it (facc.size.D). */
struct unit_config emit_schedule(const struct unit_config *forward);
bool emit_is_schedule(const struct unit_config *c);
/* The unit of facc_transpose_v, which runs before FP8 launches: one text for
 * each head dim of V, whatever the program. */
struct unit_config emit_transpose(const struct unit_config *forward);
bool emit_is_transpose(const struct unit_config *c);
/* The unit of the kernels that round a tensor to FP8, whatever the program:
 * dtype to out_dtype, head_dim. */
enum emit_rounding { ROUND_HADAMARD = 1, ROUND_MEAN = 2, ROUND_IMAGE = 4 };
bool emit_is_quantize(const struct unit_config *c);

/* A bool as C text. */
static inline const char *emit_bool(bool v)
{
    return v ? "true" : "false";
}

struct cuda_header {
    const char *name; /* as spelled in #include */
    const char *text;
};

struct cuda_unit {
    const char *main_name; /* "sm80/forward.cu" "common/schedule.cu" … */
    const char *main_text;
    struct cuda_header *headers; /* config, variant, wgmma, template files */
    int n_headers;
    const char *entry; /* extern "C" name of the kernel, or of one of them */
};

/* Whether the kernel takes its KV tiles from a schedule because of the mask
 * (Variant::kPlanned). v NULL: no verdicts but of plain bounds. */
bool emit_planned(const struct verdict_program *v, const struct unit_config *c);
/* Whether launches bring a schedule, which the kernels of a second unit make
 * (FACC_SCHEDULED): the mask, packed sequences or a block mask need one. */
bool emit_scheduled(const struct verdict_program *v,
                    const struct unit_config *c);
/* Generated headers by themselves. g may gain nodes. v: of roots->keep, may
 * be NULL. */
bool emit_variant(struct ir_graph *g, const struct ir_roots *roots,
                  const struct verdict_program *v, const struct unit_config *c,
                  struct strbuf *out);
bool emit_config(const struct ir_graph *g, const struct verdict_program *v,
                 const struct unit_config *c, struct strbuf *out);
/* Family sm90 alone: products by wgmma, in the shapes of the tile. */
bool emit_wgmma(const struct ir_graph *g, const struct unit_config *c,
                struct strbuf *out);
/* All together. template_dir: read template files from there instead of the
 * embedded ones (development), or NULL. */
bool emit_unit(struct ir_graph *g, const struct ir_roots *roots,
               const struct verdict_program *v, const struct unit_config *c,
               const char *template_dir, struct arena *a,
               struct cuda_unit *out);
/* The same from what an earlier emit_unit generated: out has main_name, entry
 * and those headers, all of them and in a's memory. */
bool emit_rejoin(const char *template_dir, struct arena *a, struct diag *d,
                 struct cuda_unit *out);
/* The text without its #line directives: what runs, wherever the user's lines
 * stand. For cache keys. */
bool emit_without_lines(const char *text, struct strbuf *out);
/* One file for people: includes expanded. */
bool emit_flat(const struct cuda_unit *u, struct strbuf *out);

/* Embedded files (generated at build time by cmake/embed.cmake from
 * templates/ and compiler/frontend/mods.lua), sorted by name. */
struct embedded_file {
    const char *name; /* "sm80/forward.cu", "common/mma.cuh", "mods.lua" */
    const char *text; /* NUL-terminated */
    size_t size;
};
extern const struct embedded_file embedded_files[];
extern const int n_embedded_files;
const struct embedded_file *embedded_find(const char *name);

#endif

/* What kernels with FP8 Q, K and V take besides kernel_args.h, and how V lies in
 * memory for them. Included by the C runtime and by templates. */
#ifndef FACC_FP8_ARGS_H
#define FACC_FP8_ARGS_H

/* Behind the params. Values are q * descale_q, k * descale_k, v * descale_v +
 * v_mean. Descales may be any finite numbers; a pointer of 0 stands for 1. b
 * counts sequences. Block i of a sequence's rows has its descale at
 * b * stride[0] + head * stride[1] + i * stride[2] elements. */
struct facc_fp8 {
    const float *descale_q, *descale_k, *descale_v;
    /* [2]: not read without kBlockScales; 0 of one that has no blocks */
    long long descale_q_stride[3], descale_k_stride[3], descale_v_stride[3];
    int descale_q_group;                   /* the head in descale_q is h / descale_q_group: 1, or
                                              the query heads to a KV head. In the others it is
                                              the KV head */
    int descale_block_q, descale_block_kv; /* rows of a block, in a sequence's
                                              positions: multiples of 32 */
    int promote_tiles;                     /* KV tiles after which the output's sum moves on to
                                              f32; 0: never, always without kPromotes */
    const float *v_mean;                   /* [b][KV head][Dv], or 0 */
    long long v_mean_stride[2];
};

/* V as wgmma reads 8-bit types, tokens contiguous: facc_kernel_header.v of an
 * FP8 launch, whose v_stride of b (packed: 0) and KV head are bytes. A chunk is
 * 32 tokens of a (b, KV head): for each channel a row of 32 bytes. Its 16-byte
 * halves, of 16 tokens each, are swapped as the 32-byte swizzle does; in a half,
 * tokens are in the order in which the accumulators of Q K^T lie in a thread's
 * registers. Behind a sequence's last token are zeros: the rest of its chunk and
 * FACC_V_PAD chunks more, so that tiles of up to 128 tokens lie in its own.
 * Sequence b begins at chunk 0, a packed one at facc_v_chunk(its first row, b). */
enum { FACC_V_CHUNK = 32, FACC_V_PAD = 3 };
#define facc_v_chunk(first_row, b) ((first_row) / FACC_V_CHUNK + (FACC_V_PAD + 1) * (b))
/* Where in its half token t (0 to 15) is; the byte of token t (0 to 31) of
 * channel d in a chunk. */
#define facc_v_place(t) ((t) < 8 ? (t) / 2 * 4 + ((t)&1) : ((t)-8) / 2 * 4 + 2 + ((t)&1))
#define facc_v_byte(d, t) (32 * (d) + 16 * ((((t) >> 4) ^ ((d) >> 2)) & 1) + facc_v_place((t)&15))

/* facc_transpose_v, the kernel that makes such an image of V before each launch
 * without one: a CTA for every facc_transpose_rows(Dv) rows. Sequence b's begin
 * at that of number b * slabs of one, packed at cu_seqlens[b] / rows + 2 * b. */
struct facc_transpose_args {
    const unsigned char *v;
    long long v_stride[3]; /* bytes: of b (packed: 0), KV head, row */
    unsigned char *image;
    long long image_stride[2];
    const int *seqused, *cu_seqlens; /* of keys, or 0; behind those used: zeros */
    int B, Skv;                      /* sequences, rows of the longest */
    int slabs;                       /* CTAs of a KV head */
};
enum { FACC_TRANSPOSE_THREADS = 128 };
/* A thread has 16 rows of 16 channels; 128 rows at least, up to Dv 256. */
#define facc_transpose_rows(Dv) (FACC_TRANSPOSE_THREADS * 256 / (Dv) / 32 * 32)

#ifdef __cplusplus
static_assert(sizeof(facc_fp8) == 136, "the runtime lays it out");
static_assert(sizeof(facc_transpose_args) == 88, "the runtime lays it out");
#else
_Static_assert(sizeof(struct facc_fp8) == 136, "as the templates have it");
_Static_assert(sizeof(struct facc_transpose_args) == 88, "likewise");
#endif

#endif

"""What each example computes, in NumPy, by another way than the Lua file's
where there is one.

NAME(s, b, h, q, kv, x): s scores [B, H, Sq, Skv] after scaling; b, h, q, kv
index arrays that broadcast against it; x has .B .H .Hkv .Sq .Skv, the captured
tensors and the params. Gives the score and what counts. Knows nothing of facc."""
import numpy as np


def causal(s, b, h, q, kv, x):
    return s, kv <= q


def causal_bottom_right(s, b, h, q, kv, x):
    return s, np.tril(np.ones((x.Sq, x.Skv), bool), x.Skv - x.Sq)


def sliding_window(s, b, h, q, kv, x):
    return s, np.isin(q - kv, np.arange(x.window))


gpt_oss = sliding_window


def with_sinks(score, v, sinks):
    """The reference's way: logits as one more column, which is dropped after
    the softmax; here its value is 0."""
    column = np.broadcast_to(sinks[:, None, None], (*score.shape[:3], 1))
    return np.concatenate([score, column], -1), np.pad(v, ((0, 0), (0, 0), (0, 1), (0, 0)))


def head_windows(s, b, h, q, kv, x):
    return s, (kv <= q) & (kv > q - np.array([32, 64, 64, 96, 128, 128, 256, 512])[h])


def chunked(s, b, h, q, kv, x):
    return s, (kv <= q) & (kv >= q - q % x.chunk)


def dilated(s, b, h, q, kv, x):
    return s, np.isin(q - kv, np.arange(-256, 257, 4))


def sparse_transformer(s, b, h, q, kv, x):
    return s, np.isin(q - kv, np.append(np.arange(32), np.arange(32, x.Skv + x.Sq, 32)))


def streaming_sinks(s, b, h, q, kv, x):
    return s, (kv <= q) & ((kv <= 3) | (kv > q - 256))


def longformer(s, b, h, q, kv, x):
    keep = np.abs(q - kv) <= 64
    keep[..., :8] = True
    keep[..., :8, :] = True
    return s, keep


def bigbird(s, b, h, q, kv, x):
    near = np.abs(np.arange(16)[:, None] - np.arange(16)) <= 1
    near[0] = near[:, 0] = True
    blocks = np.repeat(near[None], x.H, 0)
    for head in range(x.H):
        for block in range(16):
            blocks[head, block, x.random[head, block]] = True
    return s, blocks.repeat(64, 1).repeat(64, 2)[:, :x.Sq, :x.Skv]


def block_diagonal(s, b, h, q, kv, x):
    return s, np.kron(np.eye(9, dtype=bool), np.ones((128, 128), bool))[:x.Sq, :x.Skv]


def duo_attention(s, b, h, q, kv, x):
    short = streaming_sinks(s, b, h, q, kv, x)[1] & ((q - kv < 128) | (kv < 4))
    return s, np.where(x.retrieval[h], kv <= q, short)


def prefix_lm(s, b, h, q, kv, x):
    return s, kv < np.maximum(x.prefix[b], q + 1)


def causal_images(s, b, h, q, kv, x):
    keep = np.repeat((kv <= q), x.B, 0)
    for n in range(x.B):
        for image in range(1, x.image.max() + 1):
            tokens = x.image[n] == image
            keep[n] |= tokens[:x.Sq, None] & tokens
    return s, keep


def padding(s, b, h, q, kv, x):
    return s, kv < x.length[b]


def document(s, b, h, q, kv, x):
    return s, (x.ids[:, :x.Sq, None] == x.ids[:, None])[:, None]


def document_causal(s, b, h, q, kv, x):
    return s, np.tril(document(s, b, h, q, kv, x)[1])


def packed_causal(s, b, h, q, kv, x):
    return s, np.tril(x.ids[:x.Sq, None] == x.ids)


def shared_prefix(s, b, h, q, kv, x):
    same = (x.branch[:, :x.Sq, None] == x.branch[:, None])[:, None]
    return s, np.tril(same | (x.branch == 0)[:, None, None])


def tree(s, b, h, q, kv, x):
    keep = np.zeros((x.B, 1, x.Sq, x.Skv), bool)
    for n in range(x.B):
        for token in range(x.Skv):
            keep[n, 0, token:x.last[n, token] + 1, token] = True
    return s, keep


def speculative_tree(s, b, h, q, kv, x):
    seen = (x.ancestors[..., None] >> np.arange(x.Sq)) % 2 == 1
    context = np.ones((x.B, x.Sq, x.Skv - x.Sq), bool)
    return s, np.concatenate([context, seen], 2)[:, None]


def block_diffusion(s, b, h, q, kv, x):
    """The definition of the paper's code, the halves one by one."""
    n = x.Skv // 2
    block = np.arange(n) // 32
    same, before = block[:, None] == block, block[:, None] > block
    return s, np.block([[same, before], [np.zeros((n, n), bool), same | before]])[:x.Sq]


def block_sparse(s, b, h, q, kv, x):
    blocks = x.map.repeat(64, 2).repeat(64, 3)[:, :, :x.Sq, :x.Skv]
    kept = np.concatenate([np.arange(64) < n for n in x.sizes])[:x.Skv]
    return s, blocks & kept


def paged(s, b, h, q, kv, x):
    """The sequence is gathered page by page, its cells are scattered back."""
    keep = np.zeros((x.B, 1, x.Sq, x.Skv), bool)
    for n in range(x.B):
        for page in range(x.Skv // 16):
            for cell in range(16):
                at = x.page_of[n, page] * 16 + cell
                if x.page_of[n, page] >= 0:
                    keep[n, 0, :, page * 16 + cell] = at < x.length[n] - x.Sq + 1 + np.arange(x.Sq)
    return s, keep


def var_levels(s, b, h, q, kv, x):
    level = np.repeat(np.arange(10), np.square([1, 2, 3, 4, 5, 6, 8, 10, 13, 16]))
    return s, level[:x.Sq, None] >= level[:x.Skv]


def natten(s, b, h, q, kv, x):
    """Each pixel's neighbourhood, put where it fits."""
    height, keep = x.Skv // 32, np.zeros((x.Sq, x.Skv), bool)
    for token in range(x.Sq):
        y, at = divmod(token, 32)
        top, left = min(max(y - 3, 0), height - 7), min(max(at - 3, 0), 32 - 7)
        rows, columns = np.arange(top, top + 7), np.arange(left, left + 7)
        keep[token, (rows[:, None] * 32 + columns).ravel()] = True
    return s, keep


def sliding_tile(s, b, h, q, kv, x):
    four = np.array([[1, 1, 1, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 1, 1, 1]], bool)
    keep = np.ones((32, 32), bool)
    for near in four, np.ones((3, 3), bool), four:  # columns, rows, times
        keep = np.kron(near, keep)
    return s, keep[:x.Sq, :x.Skv]


def dense_mask(s, b, h, q, kv, x):
    return s, x.keep


def ring_shard(s, b, h, q, kv, x):
    return s, np.tri(x.q0 + x.Sq, x.kv0 + x.Skv, dtype=bool)[x.q0:, x.kv0:]


# ---- scores ------------------------------------------------------------------

def alibi(s, b, h, q, kv, x):
    return s - x.slopes[h] * (q - kv), True


def alibi_window(s, b, h, q, kv, x):
    return alibi(s, b, h, q, kv, x)[0], sliding_window(s, b, h, q, kv, x)[1]


def relative_bias(s, b, h, q, kv, x):
    return s + x.bias[h, np.clip(kv - q, -128, 128) + 128], True


def t5_bias(s, b, h, q, kv, x):
    """T5's own formula; the small term keeps exact powers from falling short."""
    n = np.abs(kv - q)
    far = 8 + np.floor(np.log(np.maximum(n, 8) / 8) / np.log(16) * 8 + 1e-9).astype(int)
    bucket = np.where(kv > q, 16, 0) + np.where(n < 8, n, np.minimum(far, 15))
    return s + x.bias[bucket, h], True


def fire(s, b, h, q, kv, x):
    distance = np.maximum(q - kv, 0)
    at = np.log1p(x.c * distance) / np.log1p(x.c * np.maximum(q, x.far))
    hidden = np.maximum(at[..., None] * x.w1 + x.b1, 0)
    return s + x.b2[h] + np.einsum("bhijk,hk->bhij", np.broadcast_to(hidden, (1, x.H) + hidden.shape[2:]), x.w2), \
        kv <= q


def forgetting(s, b, h, q, kv, x):
    gates = np.diff(x.sums, axis=2, prepend=0)
    total = np.zeros((x.B, x.H, x.Sq, x.Skv))
    for i in range(x.Sq):  # from key j: the gates of j + 1 .. i
        total[:, :, i, :i] = gates[:, :, i:0:-1].cumsum(2)[:, :, ::-1]
    return s + total, kv <= q


def dense_bias(s, b, h, q, kv, x):
    return s + x.bias, True


def sam_position(s, b, h, q, kv, x):
    both = x.by_row[..., :, None] + x.by_column[..., None, :]
    return s + both.reshape(*both.shape[:3], -1)[..., :x.Skv], True


def swin(s, b, h, q, kv, x):
    """The reference's way: the table at relative_position_index."""
    y, at = np.divmod(np.arange(49), 7)
    index = (y[:, None] - y + 6) * 13 + (at[:, None] - at + 6)
    same = x.region[:, :, None] == x.region[:, None]
    return s + x.bias[index].transpose(2, 0, 1), same[:, None]


def graphormer(s, b, h, q, kv, x):
    bias = x.spatial[:, x.distance].swapaxes(0, 1)
    bias[:, :, 0] = bias[:, :, :, 0] = x.virtual[:, None]
    return s + bias, True


def softcap(s, b, h, q, kv, x):
    return 20 * np.tanh(s / 20), True


softcap_fast = softcap


def sentence_softcap(s, b, h, q, kv, x):
    same = (x.sentence[:, :x.Sq, None] == x.sentence[:, None])[:, None]
    return 15 * np.tanh(s / 15), np.tril(same | (kv == 0))


def logn(s, b, h, q, kv, x):
    growth = np.log(np.maximum(q + 1, x.trained)) / np.log(x.trained)
    return s * growth, kv <= q


def token_merging(s, b, h, q, kv, x):
    return s + np.log(x.mass)[:, None, None], True


def mla(s, b, h, q, kv, x):
    return s + np.einsum("bhid,bjd->bhij", x.q_rope, x.k_rope) / np.sqrt(192), True


def fp8_descale(s, b, h, q, kv, x):
    both = x.q_descale * x.k_descale
    return s * both.repeat(x.H // x.Hkv, 1)[:, :, None, None], True

"""Mods as FlexAttention's users write them: those of attention-gym, of
Hugging Face's transformers, of gpt-fast, and habits of PyTorch's in general.
gallery(B, H, S) gives {name: (score_mod or None, mask_mod or None)}; their
tensors are the same on every device."""
import math

import numpy as np
import torch
from torch.nn.attention.flex_attention import and_masks, or_masks


def causal(b, h, q, kv):
    return q >= kv


# ---- attention-gym -----------------------------------------------------------

def alibi(H):
    def alibi_mod(score, b, h, q_idx, kv_idx):
        scale = torch.exp2(-((h + 1) * 8.0 / H))
        return score + (kv_idx - q_idx) * scale
    return alibi_mod


@torch.library.custom_op("facc_tests::tanh", mutates_args=())
def _tanh_approx(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x)


class _TanhApprox(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.ops.facc_tests.tanh(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x):
        return torch.tanh(x), 0


_tanh_approx.register_fake(torch.tanh)


def approximate_softcap(score, b, h, q, kv):
    return 20 * _TanhApprox.apply(score / 20)


def dilated(b, h, q_idx, kv_idx):
    diff = torch.abs(q_idx - kv_idx)
    return (diff <= 20) & ((diff % 3) == 0)


def documents(offsets):
    counts = offsets[1:] - offsets[:-1]
    ids = torch.repeat_interleave(torch.arange(len(counts), dtype=torch.int32, device=counts.device), counts)

    def doc_mask_mod(b, h, q_idx, kv_idx):
        q_logical, kv_logical = q_idx - offsets[ids[q_idx]], kv_idx - offsets[ids[kv_idx]]
        return (ids[q_idx] == ids[kv_idx]) & causal(b, h, q_logical, kv_logical)

    def doc_score_mod(score, b, h, q_idx, kv_idx):
        q_logical, kv_logical = q_idx - offsets[ids[q_idx]], kv_idx - offsets[ids[kv_idx]]
        return torch.where(ids[q_idx] == ids[kv_idx], score + (q_logical - kv_logical) * 0.1, -float("inf"))
    return doc_score_mod, doc_mask_mod


def natten(width, kernel, tile=None):
    def x_y(i):
        if tile is None:
            return i // width, i % width
        t, inside = i // (tile * tile), i % (tile * tile)
        return t // (width // tile) * tile + inside // tile, t % (width // tile) * tile + inside % tile

    def natten_mask(b, h, q_idx, kv_idx):
        (q_x, q_y), (kv_x, kv_y) = x_y(q_idx), x_y(kv_idx)
        x = q_x.clamp(kernel // 2, (width - 1) - kernel // 2)
        y = q_y.clamp(kernel // 2, (width - 1) - kernel // 2)
        return ((x - kv_x).abs() <= kernel // 2) & ((y - kv_y).abs() <= kernel // 2)
    return natten_mask


def morton(b, h, q_idx, kv_idx):
    def compact(x):
        x = x & 0x55555555
        x = (x ^ (x >> 1)) & 0x33333333
        x = (x ^ (x >> 2)) & 0x0F0F0F0F
        return x
    q_x, q_y, kv_x, kv_y = compact(q_idx), compact(q_idx >> 1), compact(kv_idx), compact(kv_idx >> 1)
    return (torch.abs(q_x - kv_x) <= 1) & (torch.abs(q_y - kv_y) <= 1)


def transfusion(modalities, how):
    def parts(m):
        if how == "index":
            return [(m[n, 0], m[n, 1], m[n, 2]) for n in range(modalities.shape[1])]
        return m if how == "iterate" else [row.unbind(dim=-1) for row in m.unbind(dim=-2)]

    def mask_mod(b, h, q_idx, kv_idx):
        mask = causal(b, h, q_idx, kv_idx)
        for _, offset, length in parts(modalities[b]):
            mask = mask | ((q_idx >= offset) & (kv_idx < (offset + length)))
        return mask
    return mask_mod


def mla_rope(q_rope, k_rope, group, product):
    def mla_rope_score_mod(score, b, h, q_idx, kv_idx):
        return score + 0.3 * product(q_rope[b, h, q_idx], k_rope[b, h // group, kv_idx])
    return mla_rope_score_mod


def flamingo(intervals, image_length):
    def mask_mod(b, h, q_idx, kv_idx):
        interval = intervals[kv_idx // image_length]
        return (q_idx >= interval[0]) & (q_idx < interval[1])
    return mask_mod


def paged(physical_to_logical, page):
    def mask_mod(b, h, q_idx, physical_kv_idx):
        block = physical_to_logical[b, physical_kv_idx // page]
        return torch.where(block >= 0, causal(b, h, q_idx, block * page + physical_kv_idx % page), False)
    return mask_mod


def attention_gym(g, put, B, H, S):
    prefix, offsets = put(torch.tensor([5, 11], dtype=torch.int32)), put(torch.tensor([0, 10, 31, S]))
    modalities = put(torch.tensor([[[0, 4, 9], [1, 30, 10]], [[0, 0, 3], [1, 40, 24]]]))
    q_rope, k_rope = (put(torch.randn(B, n, S, 8, generator=g)) for n in (H, 1))
    intervals = put(torch.tensor([[0, 20], [10, 40], [40, S], [0, S]]))
    pages = put(torch.tensor([[3, 1, 0, 2, -1, -1, -1, -1], [0, 1, -1, 2, 3, -1, -1, -1]]))
    doc_score, doc_mask = documents(offsets)

    def sliding_window(b, h, q_idx, kv_idx):
        return q_idx - kv_idx <= 12
    return {
        "ALiBi": (alibi(H), None), "approximate softcap": (approximate_softcap, causal), "dilated": (None, dilated),
        "softcap": (lambda s, b, h, q, kv: 20 * torch.tanh(s / 20), causal),
        "sliding window": (None, and_masks(sliding_window, causal)),
        "prefix LM": (None, or_masks(lambda b, h, q, kv: kv < prefix[b], causal)),
        "documents": (None, doc_mask), "documents in the score": (doc_score, None),
        "NATTEN": (None, natten(8, 3)), "tiled NATTEN": (None, natten(8, 3, 4)), "Morton NATTEN": (None, morton),
        **{f"transfusion, {how}": (None, transfusion(modalities, how)) for how in ("index", "iterate", "unbind")},
        "MLA, dot": (mla_rope(q_rope, k_rope, H, torch.dot), causal),
        "MLA, @": (mla_rope(q_rope, k_rope, H, lambda x, y: x @ y), causal),
        "MLA, sum": (mla_rope(q_rope, k_rope, H, lambda x, y: (x * y).sum(-1)), causal),
        "Flamingo": (None, flamingo(intervals, 16)), "paged": (None, paged(pages, 8)),
    }


# ---- models ------------------------------------------------------------------

def t5(table):
    def bucket(relative):
        n = -relative
        sign, n = torch.where(n < 0, 16, 0), torch.abs(n)
        far = 8 + (torch.log(n.float() / 8) / math.log(128 / 8) * 8).to(torch.int64)
        far = torch.minimum(far, torch.full_like(far, 15))
        return sign + torch.where(n < 8, n, far)

    def bias(score, b, h, q_idx, kv_idx):
        return score + table[bucket(kv_idx - q_idx), h]
    return bias


class Slopes(torch.nn.Module):
    def __init__(self, H):
        super().__init__()
        self.slopes = torch.nn.Parameter(torch.exp2(-torch.arange(1, H + 1) / 2), requires_grad=False)

    def forward(self, score, b, h, q_idx, kv_idx):
        return score + self.slopes[h] * (kv_idx - q_idx)


def models(g, put, B, H, S):
    document_ids = (torch.arange(S) // 20).expand(B, S).contiguous()
    padding = torch.ones(B, S, dtype=torch.long)
    padding[1, 50:] = 0
    document_ids, padding = put(torch.where(padding > 0, document_ids, -1)), put(padding)
    score_mask, head_mask = (put(torch.randn(n, generator=g)) for n in ((B, 1, S, S), (1, H, 1, 1)))
    offset, chosen = put(torch.tensor([7])), put(torch.rand(S // 8, S // 8, generator=g) > 0.7)

    def transformers_mask(batch_idx, head_idx, q_idx, kv_idx):
        same = document_ids[batch_idx, q_idx] == document_ids[batch_idx, kv_idx]
        return (q_idx >= kv_idx) & same & (padding[batch_idx, q_idx] > 0)

    def transformers_score(score, batch_idx, head_idx, q_idx, kv_idx):
        score = 50 * torch.tanh(score / 50)
        score = score + score_mask[batch_idx][0][q_idx][kv_idx]
        return score + head_mask[0][head_idx][0][0]

    def gpt_fast(b, h, q, kv):
        return causal(b, h, q + offset[0], kv)

    def sliding_tiles(b, h, q, kv):
        return torch.abs(torch.clamp(q // 8, min=1, max=6) - kv // 8) <= 1

    def big_bird(b, h, q, kv):
        i, j = q // 8, kv // 8
        return ((i - j).abs() <= 1) | (j < 1) | (i < 1) | chosen[i, j]
    return {
        "transformers": (transformers_score, transformers_mask), "gpt-fast": (None, gpt_fast),
        "STA": (None, sliding_tiles), "BigBird": (None, big_bird), "a module": (put(Slopes(H)), None),
        "T5": (t5(put(torch.randn(32, H, generator=g))), None),
        "log n": (lambda s, b, h, q, kv: s * torch.log(q.to(torch.float32) + 2) / math.log(16), causal),
        "sinks": (lambda s, b, h, q, kv: torch.where(kv == 0, 0.0, s), causal),
    }


# ---- habits ------------------------------------------------------------------

def habits(g, put, B, H, S):
    bias, table, whole = (put(torch.randn(*n, generator=g)) for n in ((S,), (9,), (1, H, S, S)))
    windows, chosen, starts = (put(torch.tensor(x)) for x in ([4, 8, 16, S][:H], [0, 5, 9], [10, 25, 40]))
    double, zero = put(torch.randn(S, generator=g, dtype=torch.float64)), torch.tensor(3)
    w, s = np.int64(9), np.float32(0.5)

    def in_place(score, b, h, q, kv):
        score = score.clone()
        score += q * 0.1
        score *= 2
        return score

    def grown(b, h, q, kv):
        keep = q >= kv
        for start in (0, 20, 50):
            keep |= (kv >= start) & (kv < start + 4)
        return keep
    return {
        "in place": (in_place, None), "grown": (None, grown), "NumPy's numbers": (
            lambda x, b, h, q, kv: x * s + (q - kv) * w * 0.01 + w * q, None),
        "operands by name": (lambda x, b, h, q, kv: torch.add(x, torch.mul(input=q, other=0.1)), None),
        "where, a method": (lambda x, b, h, q, kv: x.where(q >= kv, x * 0.5 - 1), None),
        "booleans as numbers": (lambda x, b, h, q, kv: x * (q >= kv) + (q < kv) * -1e9, None),
        "index of rank 0": (lambda x, b, h, q, kv: x + bias[zero] + bias[zero + kv - kv], None),
        "clip": (lambda x, b, h, q, kv: x + table[(q - kv).clip(min=-4, max=4) + 4], None),
        "None in an index": (lambda x, b, h, q, kv: x + bias[None][0, kv], None),
        "expanded": (lambda x, b, h, q, kv: x + whole.expand(B, -1, -1, -1)[b, h, q, kv], causal),
        "to": (lambda x, b, h, q, kv: x + bias.to(x.device)[kv] + bias[kv].to(x), None),
        "f64": (lambda x, b, h, q, kv: x + double[kv], None),
        "log1p, expm1": (lambda x, b, h, q, kv: x - torch.log1p((q - kv).abs().float()) + torch.expm1(x * 0.1), causal),
        "windows of heads": (None, lambda b, h, q, kv: (q - kv < windows[h]) & (q >= kv)),
        "stack, any": (None, lambda b, h, q, kv: torch.stack([q >= kv, kv < 3]).any()),
        "stack, all": (None, lambda b, h, q, kv: torch.stack([q >= kv, kv < 30]).all(dim=0)),
        "any of a tensor": (None, lambda b, h, q, kv: (kv == chosen).any() | (q >= kv)),
        "isin": (None, lambda b, h, q, kv: torch.isin(kv, chosen) | (q >= kv)),
        "searchsorted": (None, lambda b, h, q, kv: (
            torch.searchsorted(starts, q, right=True) == torch.searchsorted(starts, kv, right=True))),
        "bucketize": (None, lambda b, h, q, kv: torch.bucketize(q, starts) == torch.bucketize(kv, starts)),
    }


def gallery(B, H, S, device="cpu"):
    g = torch.Generator().manual_seed(2)
    return {name: mods for part in (attention_gym, models, habits)
            for name, mods in part(g, lambda x: x.to(device), B, H, S).items()}

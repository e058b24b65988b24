"""The mods of bench_hopper.py: each in Lua, with what it captures, and by hand
in PyTorch as FlexAttention takes it (which is also the oracle of its check).

A mod's name is that of a score, of a mask, or "score+mask"; "none" is neither."""
import math
from typing import Callable, NamedTuple

import method  # noqa: F401  (puts tests/gpu on the path)
from device import DEVICE

WINDOW, CAP, DOCUMENTS, REACH = 1024, 20.0, 16, 512


class Part(NamedTuple):
    """A score or a mask. captured(B, H, S): {name: tensor}; by_hand(captured):
    a function of (score, b, h, q, kv), or of (b, h, q, kv) for a mask."""
    lua: str
    by_hand: Callable
    declare: str = ""
    captured: Callable = lambda B, H, S: {}
    params: dict = {}
    fast: bool = False  # approximate functions: errors may be larger
    columns: int = 0    # that join those of Q and K


def normal(*shape):
    import torch
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)


def slopes(B, H, S):
    import torch
    return {"slopes": torch.tensor([2.0 ** (-8 * (h + 1) / H) for h in range(H)], device=DEVICE)}


def documents(B, H, S):
    import torch
    length = S // DOCUMENTS
    # an id is its document's first position: documents_by_hand.cuh relies on that
    flat = torch.arange(S, dtype=torch.int32, device=DEVICE) // length * length
    return {"ids": flat.expand(B, S).contiguous()}


def alibi_by_hand(captured):
    m = captured["slopes"]  # closures hold the tensor itself: what FlexAttention traces best
    return lambda s, b, h, q, kv: s + m[h] * (kv - q)


def key_bias_by_hand(captured):
    bias = captured["bias"]
    return lambda s, b, h, q, kv: s + bias[kv]


def table_by_hand(captured):
    table = captured["table"]
    return lambda s, b, h, q, kv: s + table[h, (q - kv + REACH).clamp(0, 2 * REACH)]


def dense_bias(dtype):
    def captured(B, H, S):
        import torch
        g = torch.Generator(DEVICE).manual_seed(2)  # gigabytes: made where they are read
        return {"bias": torch.randn(H, S, S, generator=g, device=DEVICE, dtype=getattr(torch, dtype))}
    return captured


def dense_bias_by_hand(captured):
    bias = captured["bias"]
    return lambda s, b, h, q, kv: s + bias[h, q, kv]


def documents_by_hand(captured):
    ids = captured["ids"][0]  # all sequences have the same
    return lambda b, h, q, kv: (ids[q] == ids[kv]) & (q >= kv)


def t5_edges(half, near, far):
    """First distances of the buckets beyond `near`, as facc.mods.t5_bias has them."""
    edges = []
    for k in range(1, half - near):
        edge = near
        while near + math.log(edge / near) / math.log(far / near) * (half - near) // 1 < near + k:
            edge += 1
        edges.append(edge)
    return edges


def t5_by_hand(captured):
    import torch
    bias, half, near = captured["bias"], 16, 8
    edges = t5_edges(half, near, 128)

    def score(s, b, h, q, kv):
        distance = (kv - q).abs()
        far = sum((distance >= edge).int() for edge in edges)
        return s + bias[torch.where(kv > q, half, 0) + distance.clamp(max=near) + far, h]
    return score


ROPE = 64


def rotary(B, H, S):
    import torch
    return {"q_rope": normal(B, H, S, ROPE).to(torch.bfloat16), "k_rope": normal(B, S, ROPE).to(torch.bfloat16)}


def rotary_by_hand(captured):
    q_rope, k_rope = captured["q_rope"], captured["k_rope"]
    return lambda s, b, h, q, kv: s + 128 ** -0.5 * (q_rope[b, h, q].double() * k_rope[b, kv].double()).sum(-1)


SCORES = {
    "mla": Part("score + 128 ^ -0.5 * facc.dot(q_rope[b][h][q], k_rope[b][kv])", rotary_by_hand,
                f'local q_rope = facc.tensor("q_rope", "bf16", {{ "B", "H", "q", {ROPE} }}) '
                f'local k_rope = facc.tensor("k_rope", "bf16", {{ "B", "kv", {ROPE} }})', rotary, columns=ROPE),
    "alibi": Part("score + slopes[h] * (kv - q)", alibi_by_hand,
                  'local slopes = facc.tensor("slopes", "f32", { "H" })', slopes),
    "relbias": Part("score + (q - kv)", lambda t: lambda s, b, h, q, kv: s + (q - kv)),
    "keybias": Part("score + bias[kv]", key_bias_by_hand,
                    'local bias = facc.tensor("bias", "f32", { "kv" })', lambda B, H, S: {"bias": normal(S)}),
    "t5": Part("t5(score, b, h, q, kv)", t5_by_hand,
               'local t5 = facc.mods.t5_bias(facc.tensor("bias", "f32", { 32, "H" }))',
               lambda B, H, S: {"bias": normal(32, H)}),
    "table": Part(f"score + table[h][facc.clamp(q - kv + {REACH}, 0, {2 * REACH})]", table_by_hand,
                  f'local table = facc.tensor("table", "f32", {{ "H", {2 * REACH + 1} }})',
                  lambda B, H, S: {"table": normal(H, 2 * REACH + 1)}),
    "densebias": Part("score + bias[h][q][kv]", dense_bias_by_hand,
                      'local bias = facc.tensor("bias", "f32", { "H", "q", "kv" })', dense_bias("float32")),
    "densebias16": Part("score + bias[h][q][kv]", dense_bias_by_hand,
                        'local bias = facc.tensor("bias", "bf16", { "H", "q", "kv" })', dense_bias("bfloat16")),
    "softcap": Part(f"{CAP:g} * facc.tanh_fast(score / {CAP:g})",
                    lambda t: lambda s, b, h, q, kv: CAP * (s / CAP).tanh(), fast=True),
}
MASKS = {
    "causal": Part("q >= kv", lambda t: lambda b, h, q, kv: q >= kv),
    "window": Part("q >= kv and q - kv < w", lambda t: lambda b, h, q, kv: (q >= kv) & (q - kv < WINDOW),
                   'local w = facc.param("w", "i32")', params={"w": WINDOW}),
    "documents": Part("ids[b][q] == ids[b][kv] and q >= kv", documents_by_hand,
                      'local ids = facc.tensor("ids", "i32", { "B", "kv" })', documents),
}


class Mod:
    def __init__(self, name):
        self.name, parts = name, name.split("+")
        self.score = next((SCORES[p] for p in parts if p in SCORES), None)
        self.mask = next((MASKS[p] for p in parts if p in MASKS), None)
        self.parts = [p for p in (self.score, self.mask) if p]
        if len(self.parts) != (0 if name == "none" else len(parts)):
            raise ValueError(f"no mod '{name}'")
        self.causal = self.mask is not None
        self.fast = any(p.fast for p in self.parts)
        self.params = {k: v for p in self.parts for k, v in p.params.items()}
        self.columns = sum(p.columns for p in self.parts)

    def lua(self):
        fields = []
        if self.score:
            fields.append(f"  score_mod = function(score, b, h, q, kv) return {self.score.lua} end,")
        if self.mask:
            fields.append(f"  mask_mod = function(b, h, q, kv) return {self.mask.lua} end,")
        declare = [p.declare for p in self.parts if p.declare]
        return "\n".join(['local facc = require "facc"', *declare, "return facc.attention {", *fields, "}", ""])

    def captured(self, B, H, S):
        return {n: x for p in self.parts for n, x in p.captured(B, H, S).items()}

    def by_hand(self, tensors):
        """(score or None, keep or None)"""
        return tuple(p.by_hand(tensors) if p else None for p in (self.score, self.mask))

    def cells(self, S):
        """Cells that count, of S x S; half of them below a diagonal, as all do who
        quote TFLOP/s."""
        if self.mask is None:
            return S * S
        if self.mask is MASKS["window"] and S > WINDOW:
            return S * WINDOW - WINDOW * WINDOW // 2
        if self.mask is MASKS["documents"]:
            return S * S // (2 * DOCUMENTS)
        return S * S // 2

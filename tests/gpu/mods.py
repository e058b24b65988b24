"""The mods of examples/ by hand in PyTorch, with inputs for them; and more
mods of the conformance list as Lua, which facc's own f64 oracle judges.

An oracle here is mod(score, b, h, q, kv) -> (score, keep) over broadcast index
tensors; it knows nothing of facc."""
import torch

from device import DEVICE


def docs(B, S, seed=1):
    """Document ids [B, S], i32: runs of 1 to 200 tokens."""
    g = torch.Generator().manual_seed(seed)
    cuts = torch.rand(B, S, generator=g) < 0.01
    return cuts.cumsum(1).to(torch.int32).to(DEVICE)


def slopes(H):
    return torch.tensor([2.0 ** (-8 * (h + 1) / H) for h in range(H)], device=DEVICE)


def normal(*shape, seed=2):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def ints(low, high, *shape, seed=3):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=g, dtype=torch.int32).to(DEVICE)


# ---- the examples: name -> (inputs(B, H, Sq, Skv) -> (tensors, params, oracle), fast) ----

def plain(B, H, Sq, Skv):
    return {}, {}, None


def causal(B, H, Sq, Skv):
    return {}, {}, lambda s, b, h, q, kv: (s, q >= kv)


def alibi(B, H, Sq, Skv):
    m = slopes(H)
    return {"slopes": m}, {}, lambda s, b, h, q, kv: (s + m[h] * (kv - q), True)


def alibi_window(B, H, Sq, Skv):
    m = slopes(H)
    return {"slopes": m}, {"window": 100}, lambda s, b, h, q, kv: (
        s + m[h] * (kv - q), (q >= kv) & (q - kv < 100))


def softcap(B, H, Sq, Skv):
    return {}, {}, lambda s, b, h, q, kv: (20 * torch.tanh(s / 20), True)


def sliding_window(B, H, Sq, Skv):
    return {}, {"window": 77}, lambda s, b, h, q, kv: (s, (q >= kv) & (q - kv < 77))


def document(B, H, Sq, Skv):
    ids = docs(B, Skv)
    return {"ids": ids}, {}, lambda s, b, h, q, kv: (
        s, ids[b, q.clamp(max=Skv - 1)] == ids[b, kv])


def document_causal(B, H, Sq, Skv):
    tensors, params, same = document(B, H, Sq, Skv)
    return tensors, params, lambda s, b, h, q, kv: (s, same(s, b, h, q, kv)[1] & (q >= kv))


def sentence_softcap(B, H, Sq, Skv):
    ids = docs(B, Skv, seed=5)
    return {"sentence": ids}, {}, lambda s, b, h, q, kv: (
        15 * torch.tanh(s / 15), (q >= kv) & ((ids[b, q] == ids[b, kv]) | (kv == 0)))


def prefix_lm(B, H, Sq, Skv):
    prefix = ints(0, Skv // 2 + 1, B)
    return {"prefix": prefix}, {}, lambda s, b, h, q, kv: (s, (kv < prefix[b]) | (q >= kv))


def relative_bias(B, H, Sq, Skv):
    bias = normal(H, 257)
    return {"bias": bias}, {}, lambda s, b, h, q, kv: (
        s + bias[h, (kv - q).clamp(-128, 128) + 128], True)


def t5_bias(B, H, Sq, Skv):
    bias = normal(32, H)

    def oracle(s, b, h, q, kv):
        # T5's own formula; the small term keeps exact powers from falling short.
        d = kv - q
        n = d.abs()
        far = 8 + (torch.log(n.clamp(min=8).double() / 8) / torch.log(torch.tensor(16.0).double()) * 8
                   + 1e-9).long()
        bucket = 16 * (d > 0) + torch.where(n < 8, n, far.clamp(max=15))
        return s + bias[bucket, h], True
    return {"bias": bias}, {}, oracle


def dilated(B, H, Sq, Skv):
    return {}, {}, lambda s, b, h, q, kv: (s, ((q - kv).abs() <= 256) & ((q - kv).abs() % 4 == 0))


def natten(B, H, Sq, Skv):
    def oracle(s, b, h, q, kv):
        top = torch.clamp(torch.clamp(q // 32, min=3), max=Skv // 32 - 1 - 3)
        left = torch.clamp(q % 32, 3, 32 - 1 - 3)
        return s, ((top - kv // 32).abs() <= 3) & ((left - kv % 32).abs() <= 3)
    return {}, {}, oracle


def streaming_sinks(B, H, Sq, Skv):
    return {}, {}, lambda s, b, h, q, kv: (s, (q >= kv) & ((q - kv < 256) | (kv < 4)))


def block_diagonal(B, H, Sq, Skv):
    return {}, {}, lambda s, b, h, q, kv: (s, q // 128 == kv // 128)


def longformer(B, H, Sq, Skv):
    return {}, {}, lambda s, b, h, q, kv: (s, ((q - kv).abs() <= 64) | (q < 8) | (kv < 8))


def shared_prefix(B, H, Sq, Skv):
    branch = docs(B, Skv, seed=6)  # 0: the prompt
    return {"branch": branch}, {}, lambda s, b, h, q, kv: (
        s, (q >= kv) & ((branch[b, kv] == 0) | (branch[b, q.clamp(max=Skv - 1)] == branch[b, kv])))


# All need Sq <= Skv here: ids are read at q.
EXAMPLES = {f.__name__: f for f in (
    causal, alibi, alibi_window, softcap, sliding_window, document, document_causal,
    sentence_softcap, prefix_lm, relative_bias, t5_bias, dilated, natten, streaming_sinks,
    block_diagonal, longformer, shared_prefix)}
EXAMPLES["softcap_fast"] = softcap

# ---- more rows of the conformance list: name -> (declarations, fields, tensors, params) ----
# Judged by facc's own oracle. Sizes: B 2, H 4, S 300.
B, H, S = 2, 4, 300
_INF = "local inf = math.huge\n"
CONFORMANCE = {
    "S03 squared": ("", "score_mod = function(s) return s ^ 2 end", {}, {}),
    "S04 causal score": (_INF, "score_mod = function(s, b, h, q, kv) return q >= kv and s or -inf end", {}, {}),
    "S08 clamped": ("", "score_mod = function(s, b, h, q, kv) return s + math.min(math.abs(q - kv), 9) end", {}, {}),
    "S10 alibi analytic": ("", "score_mod = function(s, b, h, q, kv) return s + (kv - q) * 2 ^ (-8 * (h + 1) / facc.size.H) end", {}, {}),
    "S17 all dims": (
        'local t, u, v = facc.tensor("t", "f32", {"q"}), facc.tensor("u", "f16", {"B"}), facc.tensor("v", "bf16", {"H"})\n',
        "score_mod = function(s, b, h, q, kv) return s + t[q] + u[b] + v[h] end",
        {"t": lambda: normal(S), "u": lambda: normal(B).half(), "v": lambda: normal(H).bfloat16()}, {}),
    "S19 dense bias": (
        'local d = facc.tensor("d", "f16", {"B", "H", "q", "kv"})\n',
        "score_mod = function(s, b, h, q, kv) return s + d[b][h][q][kv] end",
        {"d": lambda: normal(B, H, S, S).half()}, {}),
    "S20 transposed bias": (
        'local d = facc.tensor("d", "f32", {"kv", "q"})\n',
        "score_mod = function(s, b, h, q, kv) return s + d(kv, q) end",
        {"d": lambda: normal(S, S).t()}, {}),
    "S23 abs table": (
        'local t = facc.tensor("t", "f32", {300})\n',
        "score_mod = function(s, b, h, q, kv) return s + t[math.abs(q - kv)] end",
        {"t": lambda: normal(S)}, {}),
    "S27 indirect": (
        'local t, off = facc.tensor("t", "f32", {300}), facc.tensor("off", "i64", {"q"})\n',
        "score_mod = function(s, b, h, q, kv) return s + t[off[q]] end",
        {"t": lambda: normal(S), "off": lambda: ints(0, S, S).long()}, {}),
    "S29 strided view": (
        'local c = facc.tensor("c", "f32", {"H"})\n',
        "score_mod = function(s, b, h, q, kv) return s + c[h] end",
        {"c": lambda: normal(3 * H)[::3]}, {}),
    "S31 scalar tensor": (
        'local c = facc.tensor("c", "i32", {})\n',
        "score_mod = function(s) return s * c() end",
        {"c": lambda: torch.tensor(2, dtype=torch.int32, device=DEVICE)}, {}),
    "S33 skip odd": (_INF, "score_mod = function(s, b, h, q, kv) return kv % 2 == 0 and s or -inf end", {}, {}),
    "S40 silu": ("", "score_mod = function(s) return facc.silu(s) end", {}, {}),
    "S41 trig": ("", "score_mod = function(s, b) return math.sin(math.cos(s)) + math.tan(b) end", {}, {}),
    "S42 score compared": (
        _INF + 'local n = facc.tensor("n", "i32", {"B"})\n',
        "score_mod = function(s, b) if s <= n[b] then return 2 * s end return -inf end",
        {"n": lambda: torch.tensor([1, 2], dtype=torch.int32, device=DEVICE)}, {}),
    "S47 decay": ("", "score_mod = function(s, b, h, q, kv) return s / (1 + 1e-4 * (q - kv) ^ 2) end", {}, {}),
    "S48 boost": ("", "score_mod = function(s, b, h, q, kv) return math.abs(q - kv) <= 8 and 2 * s or s end", {}, {}),
    "M03 inverse causal": ("", "mask_mod = function(b, h, q, kv) return q <= kv end", {}, {}),
    "M04 bottom right": ("", "mask_mod = function(b, h, q, kv) return kv <= q + facc.size.kv - facc.size.q end", {}, {}),
    "M14 batch prefix": (
        'local p = facc.tensor("p", "i32", {"B"})\n',
        "mask_mod = function(b, h, q, kv) return kv <= p[b] or q >= kv end",
        {"p": lambda: torch.tensor([50, 131], dtype=torch.int32, device=DEVICE)}, {}),
    "M17 packed interval": (
        'local id, off = facc.tensor("id", "i32", {"kv"}), facc.tensor("off", "i32", {300})\n',
        "mask_mod = function(b, h, q, kv) return kv >= off[id[q]] and q >= kv end",
        {"id": lambda: docs(1, S)[0], "off": lambda: ints(0, 60, S).sort().values}, {}),
    "M30 negative operand": (
        "local p, n = 100, 16\n",
        "mask_mod = function(b, h, q, kv) return kv < p or (q // n == (kv - p) // n and (kv - p) % n <= q % n) end",
        {}, {}),
    "M32 block map": (
        'local map = facc.tensor("map", "bool", {"B", "H", 5, 5})\n',
        "mask_mod = function(b, h, q, kv) return map[b][h][q // 64][kv // 64] end",
        {"map": lambda: ints(0, 2, B, H, 5, 5).bool()}, {}),
    "M35 mini causal": ("", "mask_mod = function(b, h, q, kv) return q % 128 >= kv % 128 end", {}, {}),
    "M36 batches": ("", "mask_mod = function(b, h, q, kv) return q >= kv and b % 2 == 0 end", {}, {}),
    "M38 half rows": ("", "mask_mod = function(b, h, q, kv) return q < 100 end", {}, {}),
    "M39 two bands": ("", "mask_mod = function(b, h, q, kv) return kv < 70 or kv >= 201 end", {}, {}),
    "M44 float offset": (
        'local off = facc.tensor("off", "f32", {"B"})\n',
        "mask_mod = function(b, h, q, kv) return q + 128 * off[b] >= kv end",
        {"off": lambda: torch.tensor([0.5, -0.25], device=DEVICE)}, {}),
    "M45 run-time offset": (
        'local pos = facc.param("pos", "i32")\n',
        "mask_mod = function(b, h, q, kv) return kv <= q + pos end", {}, {"pos": 17}),
    "tree bits": ("", "mask_mod = function(b, h, q, kv) return q & kv == kv end", {}, {}),
}


def conformance_source(name):
    declarations, fields, _, _ = CONFORMANCE[name]
    return f'local facc = require "facc"\n{declarations}return facc.attention {{ {fields} }}\n'

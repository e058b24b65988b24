"""Masks that need a schedule, as Lua and by hand in PyTorch, with inputs.

MASKS: name -> f(B, H, Sq, Skv) -> Mask. Captured tables of tokens have TOKENS
entries whatever the lengths, so that one kernel serves all lengths. keep(b, h,
q, kv) works on broadcast index tensors and knows nothing of facc; in_score: the
mask is a score_mod's -inf."""
import functools
from collections import namedtuple

import torch

import facc
from device import DEVICE

Mask = namedtuple("Mask", "source tensors params keep in_score")
TOKENS = 8192


@functools.cache
def program_of(name, source):
    return facc.Program.from_string(source, name.replace(" ", "_") + ".lua")


def oracle(mask):
    """mask as harness.reference takes it: (score, keep)."""
    return lambda s, b, h, q, kv: (s, mask.keep(b, h, q, kv))


def lua(declarations, body, score=False):
    what = "score_mod = function(s, b, h, q, kv)" if score else "mask_mod = function(b, h, q, kv)"
    return ('local facc = require "facc"\n' + declarations +
            f"\nreturn facc.attention {{ {what}\n  {body}\nend }}\n")


def made(declarations, body, tensors=None, params=None, keep=None, score=False):
    return Mask(lua(declarations, body, score), tensors or {}, params or {}, keep, score)


def random_of(seed):
    return torch.Generator().manual_seed(seed)


def runs(B, n, longest, seed):
    """Document ids, i32 [B, n]: runs of 1 to `longest` tokens."""
    g = random_of(seed)
    out = torch.empty(B, n, dtype=torch.int32)
    for b in range(B):
        lengths = torch.randint(1, longest + 1, (n,), generator=g)
        out[b] = torch.repeat_interleave(torch.arange(n), lengths)[:n]
    return out.to(DEVICE)


def ints(low, high, shape, seed, dtype=torch.int32):
    return torch.randint(low, high, shape, generator=random_of(seed)).to(dtype).to(DEVICE)


def starts_of(ids):
    """First position of each document of ids [n], padded to n."""
    first = torch.zeros_like(ids)
    n = int(ids[-1]) + 1
    first[:n] = torch.searchsorted(ids, torch.arange(n, dtype=ids.dtype, device=ids.device)).int()
    return first


def flags(n, share, seed):
    return (torch.rand(n, generator=random_of(seed)) < share).to(DEVICE)


# ---- documents ------------------------------------------------------------------

IDS = f'local ids = facc.tensor("ids", "i32", {{ "B", {TOKENS} }})'


def documents(B, H, Sq, Skv):
    ids = runs(B, TOKENS, 400, 1)
    return made(IDS, "return ids[b][q] == ids[b][kv]", {"ids": ids},
                keep=lambda b, h, q, kv: ids[b, q] == ids[b, kv])


def documents_unsorted(B, H, Sq, Skv):
    # Long runs whose ids do not ascend: interval summaries know little.
    ids = runs(B, TOKENS, 300, 2) * 7 % 5
    return made(IDS, "return ids[b][q] == ids[b][kv]", {"ids": ids.int()},
                keep=lambda b, h, q, kv: ids[b, q] == ids[b, kv])


def other_documents(B, H, Sq, Skv):
    ids = runs(B, TOKENS, 200, 3)
    return made(IDS, "return not (ids[b][q] == ids[b][kv])", {"ids": ids},
                keep=lambda b, h, q, kv: ids[b, q] != ids[b, kv])


def document_causal(B, H, Sq, Skv):
    ids = runs(B, TOKENS, 500, 4)
    return made(IDS, "return ids[b][q] == ids[b][kv] and q >= kv", {"ids": ids},
                keep=lambda b, h, q, kv: (ids[b, q] == ids[b, kv]) & (q >= kv))


def document_causal_u8(B, H, Sq, Skv):
    ids = (runs(1, TOKENS, 300, 5)[0] % 251).to(torch.uint8)
    return made(f'local ids = facc.tensor("ids", "u8", {{ {TOKENS} }})',
                "return ids[q] == ids[kv] and q >= kv", {"ids": ids},
                keep=lambda b, h, q, kv: (ids[q] == ids[kv]) & (q >= kv))


def document_window(B, H, Sq, Skv):
    ids = runs(1, TOKENS, 700, 6)[0]
    off = starts_of(ids)
    return made(f'local id = facc.tensor("id", "i32", {{ {TOKENS} }})\n'
                f'local off = facc.tensor("off", "i32", {{ {TOKENS} }})',
                "local i, j = q - off[id[q]], kv - off[id[kv]]\n"
                "  return id[q] == id[kv] and i >= j and i - j <= 100", {"id": ids, "off": off},
                keep=lambda b, h, q, kv: (ids[q] == ids[kv]) & (q >= kv) & (q - kv <= 100))


def document_sinks(B, H, Sq, Skv):
    ids = runs(1, TOKENS, 900, 7)[0]
    off = starts_of(ids)
    return made(f'local id = facc.tensor("id", "i32", {{ {TOKENS} }})\n'
                f'local off = facc.tensor("off", "i32", {{ {TOKENS} }})',
                "return id[q] == id[kv] and q >= kv and (q - kv < 128 or kv - off[id[kv]] < 4)",
                {"id": ids, "off": off}, keep=lambda b, h, q, kv: (
                    (ids[q] == ids[kv]) & (q >= kv) & ((q - kv < 128) | (kv - off[ids[kv]] < 4))))


def shared_prefix(B, H, Sq, Skv):
    """Questions with two answers each, which see their question (M19)."""
    ids = runs(1, TOKENS, 250, 8)[0]
    off, n = starts_of(ids), int(ids.max()) + 1
    documents = torch.arange(TOKENS, dtype=torch.int32, device=DEVICE)
    prefix_of = documents // 3 * 3
    end = torch.cat([off[1:n], torch.tensor([TOKENS], device=DEVICE, dtype=torch.int32),
                     torch.zeros(TOKENS - n, device=DEVICE, dtype=torch.int32)])
    names = ("id", "off", "prefix_of", "end_of")
    text = "\n".join(f'local {n} = facc.tensor("{n}", "i32", {{ {TOKENS} }})' for n in names)

    def keep(b, h, q, kv):
        d = ids[q]
        p = prefix_of[d]
        return ((kv >= off[d]) & (q >= kv)) | ((d != p) & (off[p] <= kv) & (kv < end[p]))
    return made(text, "local d = id[q]\n  local p = prefix_of[d]\n"
                "  return (kv >= off[d] and q >= kv) or (d ~= p and off[p] <= kv and kv < end_of[p])",
                dict(zip(names, (ids, off, prefix_of, end))), keep=keep)


# ---- positions ------------------------------------------------------------------

def prefix_lm(B, H, Sq, Skv):
    prefix = ints(0, Skv // 2 + 1, (B,), 9)
    return made('local prefix = facc.tensor("prefix", "i32", { "B" })',
                "return kv < prefix[b] or q >= kv", {"prefix": prefix},
                keep=lambda b, h, q, kv: (kv < prefix[b]) | (q >= kv))


def both_in_prefix(B, H, Sq, Skv):
    p = Skv // 3
    return made('local p = facc.param("p", "i32")', "return (q < p and kv < p) or q >= kv",
                params={"p": p}, keep=lambda b, h, q, kv: ((q < p) & (kv < p)) | (q >= kv))


def dilated(B, H, Sq, Skv):
    return made("", "local d = math.abs(q - kv)\n  return d <= 300 and d % 4 == 0",
                keep=lambda b, h, q, kv: ((q - kv).abs() <= 300) & ((q - kv).abs() % 4 == 0))


def strided_causal(B, H, Sq, Skv):
    return made("", "return q >= kv and (q - kv < 32 or (q - kv) % 64 == 0)",
                keep=lambda b, h, q, kv: (q >= kv) & ((q - kv < 32) | ((q - kv) % 64 == 0)))


def longformer(B, H, Sq, Skv):
    is_global = flags(TOKENS, 0.002, 10)
    return made(f'local global = facc.tensor("global", "bool", {{ {TOKENS} }})',
                "return math.abs(q - kv) <= 128 or global[q] or global[kv]", {"global": is_global},
                keep=lambda b, h, q, kv: ((q - kv).abs() <= 128) | is_global[q] | is_global[kv])


def natten_of(width, kernel):
    r = kernel // 2

    def make(B, H, Sq, Skv):
        height = max(Skv // width, kernel)

        def keep(b, h, q, kv):
            top, left = (q // width).clamp(r, height - 1 - r), (q % width).clamp(r, width - 1 - r)
            return ((top - kv // width).abs() <= r) & ((left - kv % width).abs() <= r)
        return made('local height = facc.param("height", "i32")',
                    f"local top = facc.clamp(q // {width}, {r}, height - {1 + r})\n"
                    f"  local left = facc.clamp(q % {width}, {r}, {width - 1 - r})\n"
                    f"  return math.abs(top - kv // {width}) <= {r} and math.abs(left - kv % {width}) <= {r}",
                    params={"height": height}, keep=keep)
    return make


def block_diffusion(B, H, Sq, Skv):
    n, size = max(Sq, Skv) // 2, 32

    def keep(b, h, q, kv):
        cq, ck = q >= n, kv >= n
        bq = torch.where(cq, q - n, q) // size
        bk = torch.where(ck, kv - n, kv) // size
        return ((bq == bk) & (cq == ck)) | ((bq > bk) & ck & ~cq) | ((bq >= bk) & ck & cq)
    return made('local n = facc.param("n", "i32")',
                "local cq, ck = q >= n, kv >= n\n"
                f"  local bq, bk = cq and (q - n) // {size} or q // {size}, ck and (kv - n) // {size} or kv // {size}\n"
                "  return (bq == bk and cq == ck) or (bq > bk and ck and not cq) or (bq >= bk and ck and cq)",
                params={"n": n}, keep=keep)


def block_causal(B, H, Sq, Skv):
    return made("", "return q // 100 == kv // 100 and q % 100 >= kv % 100",
                keep=lambda b, h, q, kv: (q // 100 == kv // 100) & (q >= kv))


def two_bands(B, H, Sq, Skv):
    return made('local m = facc.param("m", "i32")', "return kv < 70 or kv >= m", params={"m": 2 * Skv // 3},
                keep=lambda b, h, q, kv: ((kv < 70) | (kv >= 2 * Skv // 3)) & (q >= 0))


def bigbird(B, H, Sq, Skv):
    def keep(b, h, q, kv):
        x, y = q // 64, kv // 64
        return ((x - y).abs() <= 1) | (y == 0) | (x == 0) | ((x * 7 + 3) % 32 == y)
    return made("", "local x, y = q // 64, kv // 64\n"
                "  return math.abs(x - y) <= 1 or y == 0 or x == 0 or (x * 7 + 3) % 32 == y", keep=keep)


def inverse_in_pieces(B, H, Sq, Skv):
    return made("", "return q <= kv and kv - q < 200 or q % 512 == 5",
                keep=lambda b, h, q, kv: ((q <= kv) & (kv - q < 200)) | (q % 512 == 5))


# ---- tables ---------------------------------------------------------------------

def paged(B, H, Sq, Skv):
    """A causal window over logical positions, through a page table (M48)."""
    pages = TOKENS // 16
    page = torch.stack([torch.randperm(pages, generator=random_of(11 + b)) for b in range(B)])
    near = torch.arange(pages)
    page = torch.where((near % 7 < 4)[None], near[None], page)  # most in place
    page[:, ::5] = -1
    page = page.int().to(DEVICE)

    def keep(b, h, q, kv):
        p = page[b, kv // 16]
        j = p * 16 + kv % 16
        return (p >= 0) & (q >= j) & (q - j <= 100)
    return made(f'local page = facc.tensor("page", "i32", {{ "B", {pages} }})',
                "local p = page[b][kv // 16]\n  local j = p * 16 + kv % 16\n"
                "  return p >= 0 and q >= j and q - j <= 100", {"page": page}, keep=keep)


def block_map(B, H, Sq, Skv):
    n = TOKENS // 64
    g = random_of(12)
    table = (torch.rand(B, H, n, n, generator=g) < 0.2).to(DEVICE)
    return made(f'local map = facc.tensor("map", "bool", {{ "B", "H", {n}, {n} }})',
                "return map[b][h][q // 64][kv // 64]", {"map": table},
                keep=lambda b, h, q, kv: table[b, h, q // 64, kv // 64])


def levels(B, H, Sq, Skv):
    level = torch.arange(TOKENS, device=DEVICE).float().sqrt().int() // 3
    return made(f'local level = facc.tensor("level", "i32", {{ {TOKENS} }})',
                "return level[q] >= level[kv]", {"level": level},
                keep=lambda b, h, q, kv: level[q] >= level[kv])


def limits(B, H, Sq, Skv):
    limit = ints(0, 200, (TOKENS,), 13) + torch.arange(TOKENS, dtype=torch.int32, device=DEVICE) // 2
    return made(f'local limit = facc.tensor("limit", "i32", {{ {TOKENS} }})',
                "return kv >= limit[q] and kv < limit[q] + 300", {"limit": limit},
                keep=lambda b, h, q, kv: (kv >= limit[q]) & (kv < limit[q] + 300))


def float_routes(B, H, Sq, Skv):
    x = torch.rand(TOKENS, generator=random_of(14)).to(DEVICE)
    x = (x * 0.1 + torch.arange(TOKENS, device=DEVICE) / 1000.0).half()
    x[5::97] = float("nan")  # never close to anything
    return made(f'local x = facc.tensor("x", "f16", {{ {TOKENS} }})', "return math.abs(x[q] - x[kv]) < 0.25",
                {"x": x}, keep=lambda b, h, q, kv: (x[q].float() - x[kv].float()).abs() < 0.25)


def dense_bool(B, H, Sq, Skv):
    g = random_of(15)
    table = torch.rand(Sq, Skv, generator=g) < 0.001
    coarse = torch.rand((Sq + 99) // 100, (Skv + 99) // 100, generator=g) < 0.3
    table |= coarse.repeat_interleave(100, 0)[:Sq].repeat_interleave(100, 1)[:, :Skv]
    table[:, 64:256] = False
    table = table.to(DEVICE)
    return made('local dense = facc.tensor("dense", "bool", { "q", "kv" })', "return dense[q][kv]",
                {"dense": table}, keep=lambda b, h, q, kv: table[q, kv])


def dense_causal_per_batch(B, H, Sq, Skv):
    g = random_of(16)
    coarse = torch.rand(B, 1, (Sq + 63) // 64, (Skv + 63) // 64, generator=g) < 0.4
    table = coarse.repeat_interleave(64, 2)[:, :, :Sq].repeat_interleave(64, 3)[..., :Skv].contiguous().to(DEVICE)
    return made('local dense = facc.tensor("dense", "bool", { "B", 1, "q", "kv" })',
                "return dense(b, 0, q, kv) and q >= kv", {"dense": table},
                keep=lambda b, h, q, kv: table[b, 0, q, kv] & (q >= kv))


# ---- batches and heads ----------------------------------------------------------

def even_batches(B, H, Sq, Skv):
    return made("", "return (q >= kv or q % 300 < 2) and b % 2 == 0",
                keep=lambda b, h, q, kv: ((q >= kv) | (q % 300 < 2)) & (b % 2 == 0))


def head_windows(B, H, Sq, Skv):
    return made("", "return q >= kv and (q - kv < 32 << h or kv < 4)",
                keep=lambda b, h, q, kv: (q >= kv) & ((q - kv < 32 * 2 ** h) | (kv < 4)))


def head_and_batch_windows(B, H, Sq, Skv):
    width = ints(1, 600, (B, H), 17)
    return made('local width = facc.tensor("width", "i32", { "B", "H" })',
                "local d = q - kv\n  return (d >= 0 and d < width[b][h]) or kv % 1000 == 3",
                {"width": width}, keep=lambda b, h, q, kv: (
                    ((q >= kv) & (q - kv < width[b, h])) | (kv % 1000 == 3)))


# ---- masks inside score_mod -------------------------------------------------------

def causal_score(B, H, Sq, Skv):
    return made("", "return q >= kv and s or -math.huge", keep=lambda b, h, q, kv: q >= kv, score=True)


def document_score(B, H, Sq, Skv):
    ids = runs(B, TOKENS, 400, 18)
    return made(IDS, "return q >= kv and ids[b][q] == ids[b][kv] and s or -math.huge", {"ids": ids},
                keep=lambda b, h, q, kv: (q >= kv) & (ids[b, q] == ids[b, kv]), score=True)


MASKS = {f.__name__.replace("_", " "): f for f in (
    documents, documents_unsorted, other_documents, document_causal, document_causal_u8, document_window,
    document_sinks, shared_prefix, prefix_lm, both_in_prefix, dilated, strided_causal, longformer,
    block_diffusion, block_causal, two_bands, bigbird, inverse_in_pieces, paged, block_map, levels, limits,
    float_routes, dense_bool, dense_causal_per_batch, even_batches, head_windows, head_and_batch_windows,
    causal_score, document_score)}
MASKS["natten 32"] = natten_of(32, 7)
MASKS["natten 200"] = natten_of(200, 5)

"""facc.dot of a row's and a column's vector: as columns that join those of Q and
K (tensors of Q's type, 16 to 128 elements), and cell by cell where it is no such
term. Oracle: by hand, in PyTorch.

CASES is a list for two users: run_all.py (group dot: the best family of the
device, then sm80) and hopper.py (hopper_dot.py)."""
import functools
import itertools
import math
from collections import namedtuple

import torch

import facc
from device import DEVICE
from harness import DTYPES, check_case, compare, emulation, expect, random_qkv, reference, run_poisoned, test

# family: of the launch where the device has sm90 and no other is asked for
Dot = namedtuple("Dot", "name source variant run family")  # run(program, variant of the launch)
CASES = []
KEEPS = {None: None, "q >= kv": lambda i, j: i >= j, "q % 3 == 0": lambda i, j: (i % 3 == 0) & (j >= 0)}


def source(type_, n, score, mask, rows='{ "B", "H", "q", %d }', cols='{ "B", "Hkv", "kv", %d }',
           index=("qr[b][h][q]", "kr[b][h // (facc.size.H // facc.size.Hkv)][kv]"), more=""):
    mask = f"  mask_mod = function(b, h, q, kv) return {mask} end,\n" if mask else ""
    return f"""local facc = require "facc"
local c = facc.param("c", "f32")
local qr = facc.tensor("qr", "{type_}", {rows % n})
local kr = facc.tensor("kr", "{type_}", {cols % n})
{more}
return facc.attention {{
  score_mod = function(score, b, h, q, kv)
    local dot = facc.dot({index[0]}, {index[1]})
    return {score}
  end,
{mask}}}
"""


def vectors(*shape, type_="bf16", seed=0):
    """With NaN behind them."""
    g = torch.Generator(DEVICE).manual_seed(100 + seed)
    buffer = torch.full((math.prod(shape) + 8192,), math.nan, dtype={**DTYPES, "f32": torch.float32}[type_], device=DEVICE)
    return buffer[:math.prod(shape)].view(shape).copy_(torch.randn(shape, generator=g, device=DEVICE))


def products(qr, kr, H):
    """[B, H, Sq, Skv] of [B, H, Sq, n] and [B, Hkv, Skv, n], in f64; garbage is
    where nothing counts."""
    qr, kr = (torch.nan_to_num(x.double()) for x in (qr, kr))
    return qr @ kr.repeat_interleave(H // kr.shape[1], 1).transpose(2, 3)


def add(name, text, variant, run, family="sm90"):
    CASES.append(Dot(name, text, variant, run, family))


SCORES = {
    "score + c * dot": lambda s, d, c, i, j: s + c * d,
    "score - dot * c": lambda s, d, c, i, j: s - c * d,
    "20 * facc.tanh((score + c * dot) / 20)": lambda s, d, c, i, j: 20 * torch.tanh((s + c * d) / 20),
    "score + 0.03 * (kv - q) + c * dot": lambda s, d, c, i, j: s + 0.03 * (j - i) + c * d,
}


def plain(n, D=64, Dv=None, dtype="bf16", mask=None, score="score + c * dot", c=None, shape=(2, 4, 2, 300, 300),
          type_=None, out=None, scale=None, name="", family="sm90", change=lambda x, y: (x, y), factor=1.2, **more):
    """c None: that of the scale, so that nothing is multiplied."""
    B, H, Hkv, Sq, Skv = shape
    type_ = type_ or dtype
    usual = D ** -0.5 if scale is None else scale
    by = usual if c is None else c

    def run(program, variant):
        q, k, v = random_qkv(*shape, D, Dv, dtype=dtype, seed=n + D)
        qr, kr = change(vectors(B, H, Sq, n, type_=type_), vectors(B, Hkv, Skv, n, type_=type_, seed=1))
        p, keep = products(qr, kr, H), KEEPS[mask]
        check_case(program, q, k, v, lambda s, b, h, i, j: (SCORES[score](s, p.to(s.dtype), by, i, j),
                                                           True if keep is None else keep(i, j)),
                   tensors={"qr": qr, "kr": kr}, params={"c": by}, scale=scale, factor=factor,
                   variant={**(variant or {}), **({"out_dtype": out} if out else {})} or None, **more)
    dims = f"{D}" if Dv in (None, D) else f"{D}/{Dv}"
    add(f"{name}{score} {mask or 'plain'} {dims}+{n} {dtype} {shape}" + (f" c={by:g}" if c is not None else "") +
        (f" scale={scale:g}" if scale is not None else "") + (f" {type_}" if type_ != dtype else ""),
        source(type_, n, score, mask), dict(dtype=dtype, head_dim=D, head_dim_v=Dv or D, **({"out_dtype": out} if out else {})), run, family)


def strided(name, change, family):
    plain(64, c=0.3, mask="q >= kv", name=f"{name}: ", change=change, family=family)


def off_by(x, elements, row):
    """The same values, pointers off, rows of so many elements."""
    B, H, S, n = x.shape
    buffer = torch.full((B * H * S * row + 64,), math.nan, dtype=x.dtype, device=DEVICE)
    return buffer[elements:].as_strided(x.shape, (H * S * row, S * row, row, 1), elements).copy_(x)


def every_other(x):
    wide = torch.full((*x.shape[:3], 2 * x.shape[3]), math.nan, dtype=x.dtype, device=DEVICE)
    wide[..., ::2] = x
    return wide[..., ::2]


def used_lengths():
    def run(program, variant):
        q, k, v = random_qkv(4, 4, 2, 300, 300, 64, seed=7)
        qr, kr = vectors(4, 4, 300, 64), vectors(4, 2, 300, 64, seed=1)
        used = [torch.tensor(n, dtype=torch.int32, device=DEVICE) for n in ([0, 1, 130, 300], [50, 300, 0, 129])]
        for b in range(4):
            for x in (q, qr):
                x[b, :, used[0][b]:] = math.nan
            for x in (k, v, kr):
                x[b, :, used[1][b]:] = math.nan
        p = products(qr, kr, 4)
        check_case(program, q, k, v, lambda s, b, h, i, j: (s + 0.3 * p.to(s.dtype), i >= j),
                   tensors={"qr": qr, "kr": kr}, params={"c": 0.3}, used_q=used[0], used_kv=used[1], variant=variant)
    add("used lengths, garbage behind", source("bf16", 64, "score + c * dot", "q >= kv"),
        dict(dtype="bf16", head_dim=64, head_dim_v=64), run)


def packed(c, D=128, n=64):
    """Rows that begin elsewhere in each sequence, in tensors of all sequences."""
    def run(program, variant):
        q, k, v = random_qkv(1, 4, 2, 700, 700, D, seed=8)
        ends = [0, 5, 305, 305, 700]
        cu = torch.tensor(ends, dtype=torch.int32, device=DEVICE)
        qr, kr = vectors(4, 700, n), vectors(700, n, seed=1)
        by = D ** -0.5 if c is None else c
        o, lse = run_poisoned(program, q, k, v, tensors={"qr": qr, "kr": kr, "off": cu[:-1].contiguous()},
                              params={"c": by}, cu_seqlens_q=cu, cu_seqlens_kv=cu, variant=variant)
        for first, end in zip(ends, ends[1:]):
            if first == end:
                continue
            x = [t[:, :, first:end] for t in (q, k, v)]
            p = products(qr[None, :, first:end], kr[None, None, first:end], 4)
            mod = lambda s, b, h, i, j, p=p: (s + by * p.to(s.dtype), i >= j)  # noqa: E731
            compare(o[:, :, first:end], lse[:, :, first:end], reference(*x, mod), emulation(*x, mod))
    add(f"packed, {D}+{n}, c={c}",
        source("bf16", n, "score + c * dot", "q >= kv", '{ "H", "any", %d }', '{ "any", %d }',
               ("qr[h][off[b] + q]", "kr[off[b] + kv]"), 'local off = facc.tensor("off", "i32", { "B" })'),
        dict(dtype="bf16", head_dim=D, head_dim_v=D, packed=True), run)


def shifted():
    """Of a window: rows before the tensor's first are only asked for where masked."""
    def run(program, variant):
        q, k, v = random_qkv(1, 4, 4, 300, 300, 64, seed=9)
        qr, kr = vectors(1, 4, 300, 32), vectors(1, 4, 300, 32, seed=1)
        back = torch.cat([torch.zeros_like(kr[:, :, :40]), kr[:, :, :260]], 2)
        p = products(qr, back, 4)
        check_case(program, q, k, v, lambda s, b, h, i, j: (s + 0.2 * p.to(s.dtype), j >= 40),
                   tensors={"qr": qr, "kr": kr}, params={"c": 0.2}, variant=variant)
    add("columns 40 further back", source("bf16", 32, "score + c * dot", "kv >= 40",
                                           index=("qr[b][h][q]", "kr[b][h][kv - 40]")),
        dict(dtype="bf16", head_dim=64, head_dim_v=64), run)


def no_keys():
    def run(program, variant):
        q, k, v = random_qkv(2, 4, 2, 129, 0, 64)
        o, lse = run_poisoned(program, q, k, v, tensors={"qr": vectors(2, 4, 129, 64), "kr": vectors(2, 2, 0, 64)},
                              params={"c": 1.0}, variant=variant)
        expect(bool((o == 0).all()) and bool((lse == -math.inf).all()), "rows without keys")
    add("Skv = 0", source("bf16", 64, "score + c * dot", None), dict(dtype="bf16", head_dim=64, head_dim_v=64), run)


def fill():
    for n, dtype, c in itertools.product((16, 32, 48, 64, 96, 128), ("bf16", "f16"), (None, 0.1)):
        plain(n, dtype=dtype, c=c, mask="q >= kv" if n % 32 else None)
    for (D, Dv), n, c in itertools.product(((64, 64), (96, 96), (128, 128), (192, 192), (192, 128), (256, 256), (40, 72)),
                                           (16, 64, 128), (None, -0.2)):
        plain(n, D, Dv, c=c, mask="q >= kv", shape=(1, 4, 2, 515, 700))
    for H, Hkv in ((4, 4), (8, 4), (7, 1), (14, 2)):
        plain(64, shape=(2, H, Hkv, 200, 300))
    for Sq, Skv in ((1, 1), (1, 700), (127, 129), (1025, 1023), (2049, 64)):
        plain(64, 128, shape=(1, 4, 1, Sq, Skv), c=0.05, mask="q >= kv" if Sq >= Skv else None)
    for score in list(SCORES)[1:]:
        for c in (None, 0.3):
            plain(64, 128, score=score, c=c, mask="q >= kv")
    plain(64, c=0.0)
    plain(64, mask="q % 3 == 0", c=0.1)
    plain(64, 128, shape=(1, 16, 4, 4000, 4000), mask="q >= kv")
    plain(64, 128, 128, c=None, out="f32", shape=(1, 4, 1, 300, 400))
    for scale in (1e-60, -0.125, 1.0, 1e-30):
        plain(64, c=0.125, scale=scale, mask="q >= kv")
    strided("BSHD", lambda x, y: [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (x, y)], "sm90")
    strided("one head for all", lambda x, y: (x, y[:, :1].expand(-1, 2, -1, -1)), "sm90")
    strided("one batch for all", lambda x, y: (x[:1].expand(2, -1, -1, -1), y), "sm90")
    strided("rows of 80", lambda x, y: (off_by(x, 8, 80), off_by(y, 16, 72)), "sm90")
    strided("off by an element", lambda x, y: (off_by(x, 1, 64), y), "sm80")
    strided("rows of 65", lambda x, y: (x, off_by(y, 0, 65)), "sm80")
    strided("every other element", lambda x, y: (every_other(x), every_other(y)), "sm80")
    strided("one row for all", lambda x, y: (x, y[:, :, :1].expand(-1, -1, 300, -1)), "sm80")
    used_lengths()
    packed(None)
    packed(0.3)
    packed(0.3, 64, 16)
    shifted()
    no_keys()
    # cell by cell
    plain(24, c=0.1)
    plain(64, c=0.1, type_="f32")
    plain(64, dtype="f16", type_="bf16", c=0.1, shape=(1, 2, 2, 100, 130))


fill()


@functools.cache
def program(source):
    return facc.Program.from_string(source, "dot.lua")


def program_of(case):
    return program(case.source)


@test("dot")
def dots():
    """By the best family of the device; where that is another, by sm80, too."""
    families = {"": None}
    if DEVICE == "cuda" and torch.cuda.get_device_capability() == (9, 0):
        families["sm80 "] = {"family": "sm80"}
    for (label, variant), case in itertools.product(families.items(), CASES):
        yield label + case.name, lambda: case.run(program_of(case), variant)


def kernels(groups):
    if groups and "dot" not in groups:
        return []
    return [(program_of(c), dict(c.variant, device=0)) for c in CASES]

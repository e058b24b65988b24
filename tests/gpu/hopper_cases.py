"""Cases for the sm90 family, whose ways through the kernel they were chosen
for: hopper.py runs them. A case names its kernels, so that they can be compiled
beforehand, and the family that must run it.

What a case's name says (masks, sizes, dims, types, layouts) and the seeds in
here are all that it takes to run it again."""
import functools
import itertools
import math
import os
from collections import namedtuple

import torch

import facc
import harness
import mods
from device import DEVICE
from harness import (DTYPES, check_case, compare, emulation, expect, guarded, random_qkv, reference, run_poisoned,
                     same_bits, spread_sinks)
from masks import mask_case
from mask_list import MASKS, program_of
from numeric import FAST_TOLERANCE, conformance_program, example, oracle_case
import packed as sequences

# Cases have some items (query tiles of a head) for each multiprocessor, so that
# CTAs go from one to the next; few where this is set (on a CPU).
SMALL = bool(os.environ.get("FACC_TEST_SMALL"))

Case = namedtuple("Case", "name run kernels family quick")
GROUPS = {}  # name -> generator function of cases


def group(name):
    def add(f):
        GROUPS[name] = f
        return f
    return add


def spec(dtype="bf16", D=128, Dv=None, out=None, **more):
    """A variant, as Program.kernel takes it."""
    if out:
        more["out_dtype"] = out
    return dict(dtype=dtype, head_dim=D, head_dim_v=Dv or D, **more)


def case(name, run, kernels, family="sm90", quick=False):
    return Case(name, run, kernels, family, quick)


def heads(H, Hkv):
    return (max(H // Hkv, 1) * (1 + (Hkv > 1)), 1 + (Hkv > 1)) if SMALL else (H, Hkv)


# ---- programs ------------------------------------------------------------------

def expression(mask=None, score=None):
    return facc.find_program(score_mod=score, mask_mod=mask)


def counted(i, j):
    return (i >= 0) & (j >= 0)


PLAIN, CAUSAL, WINDOW = None, "q >= kv", "q >= kv and q - kv < w"
KEEPS = {PLAIN: None, CAUSAL: lambda i, j: i >= j}


@functools.cache
def window_program():
    return facc.Program.from_expressions(mask=WINDOW, declarations=(("w", "i32", None),))


@functools.cache
def slope_program(mask):
    return facc.Program.from_expressions(score="score + c * kv", mask=mask, declarations=(("c", "f32", None),))


def mod_of(keep, score=lambda s, i, j: s):
    """Oracle of a mask (or None) and a score, both of positions alone."""
    if keep is None:
        return lambda s, b, h, i, j: (score(s, i, j), True)
    return lambda s, b, h, i, j: (score(s, i, j), keep(i, j))


def one(mask, shape, D=128, Dv=None, dtype="bf16", out=None, seed=1, quick=False, keep=None, name="", gain=1.0,
        change=None, **more):
    """mask: an expression of positions; shape: B, H, Hkv, Sq, Skv; change(q, k,
    v): in place."""
    keep = keep or KEEPS.get(mask)
    program = expression(mask)

    def run():
        q, k, v = random_qkv(*shape, D, Dv, dtype=dtype, seed=seed, gain=gain)
        if change:
            change(q, k, v)
        check_case(program, q, k, v, mod_of(keep), causal=mask == CAUSAL if mask in (PLAIN, CAUSAL) else None,
                   variant={"out_dtype": out} if out else None, **more)
    dims = f"D={D}" if Dv in (None, D) else f"D={D}/{Dv}"
    text = " ".join(filter(None, (name, mask or "plain", str(shape), dims, dtype, f"-> {out}" if out else "",
                                  f"scale={more['scale']:g}" if "scale" in more else "")))
    return case(text, run, [(program, spec(dtype, D, Dv, out))], quick=quick)


# ---- sizes -----------------------------------------------------------------------

DIMS = (8, 40, 64, 72, 80, 96, 104, 128, 136, 160, 192, 200, 256)
UNEQUAL = ((192, 128), (128, 64), (64, 128), (96, 64), (256, 128), (40, 72))
LENGTHS = (1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 257)
LONG = ((1000, 1000), (2125, 2125), (333, 1500), (1500, 333))


@group("dims")
def dims():
    for d in DIMS:
        yield one(PLAIN, (1, *heads(48, 16), 257, 257), d, quick=d in (64, 128, 256))
        yield one(CAUSAL, (2, *heads(36, 12), 130, 515), d, quick=d in (40, 64, 96, 192))
        yield one(CAUSAL, (1, 2, 2, 333, 333), d, dtype="f16", quick=d in (64, 128))
    for n, (d, e) in enumerate(UNEQUAL):
        for mask, dtype in ((PLAIN, "bf16"), (CAUSAL, "f16" if n % 2 else "bf16")):
            yield one(mask, (1, 4, 2, 257, 300), d, e, dtype, quick=(d, e) == (192, 128) and mask == CAUSAL)
    for d, dtype in itertools.product((64, 96, 128, 256), DTYPES):
        yield one(CAUSAL, (1, 2, 1, 200, 270), d, dtype=dtype, out="f32", quick=(d, dtype) == (128, "bf16"))


@group("lengths")
def lengths():
    for mask in (PLAIN, CAUSAL):
        for sq, skv in itertools.product(LENGTHS, LENGTHS):
            yield one(mask, (1, 2, 1, sq, skv), 128, seed=sq * 7 + skv,
                      quick=(sq, skv) in ((1, 1), (65, 129), (129, 257)))
            if sq == skv or (sq + skv) % 3 == 0:
                yield one(mask, (2, 2, 2, sq, skv), 64, seed=sq * 7 + skv, quick=(sq, skv) == (193, 193))
        for (sq, skv), d in itertools.product(LONG, (64, 128, 256)):
            yield one(mask, (1, 2, 1, sq, skv), d, seed=sq, quick=sq == 2125 and d == 128)


@group("nothing")
def nothing():
    for mask in (PLAIN, CAUSAL):
        for shape in ((2, 4, 2, 129, 0), (2, 4, 2, 1, 0), (1, 1, 1, 1000, 0)):
            yield one(mask, shape, quick=shape[3] == 129)
        for shape in ((2, 4, 2, 0, 130), (0, 4, 2, 128, 128), (2, 0, 0, 128, 128), (2, 4, 2, 0, 0)):
            yield one(mask, shape)


@group("gqa")
def gqa():
    for mask in (PLAIN, CAUSAL):
        for ratio, hkv in itertools.product((1, 2, 3, 8, 16), (1, 3)):
            for d in (64, 128):
                yield one(mask, (1 + ratio % 3, ratio * hkv, hkv, 129, 257), d, seed=ratio,
                          quick=(ratio, hkv, d) == (3, 3, 128))


# ---- layouts ---------------------------------------------------------------------

def rows_of(x, lead, row):
    """x in memory with `lead` elements before and rows of `row` elements."""
    buffer, _, _ = guarded((math.prod(x.shape[:3]) * row + lead + 64,), x.dtype)
    _, h, s, _ = x.shape
    view = buffer[lead:].as_strided(x.shape, (h * s * row, s * row, row, 1), buffer.storage_offset() + lead)
    return view.copy_(x)


def in_order(*dims):
    """Memory with the dims (b, h, s as 0, 1, 2) in this order."""
    back = sorted(range(4), key=lambda n: (*dims, 3)[n])
    return lambda x: x.permute(*dims, 3).contiguous().permute(*back)


# name -> (change of each of q, k, v, o; whether TMA takes it)
LAYOUTS = {
    "BSHD": (in_order(0, 2, 1), True),
    "SBHD": (in_order(2, 0, 1), True),
    "HBSD": (in_order(1, 0, 2), True),
    "slice of rows of 192": (lambda x: rows_of(x, 64, 192), True),
    "rows of 72": (lambda x: rows_of(x, 8, 72), True),
    "pointers off by 8 bytes": (lambda x: rows_of(x, 4, 64), False),
    "pointers off by 2 bytes": (lambda x: rows_of(x, 1, 64), False),
    "rows of 65": (lambda x: rows_of(x, 0, 65), False),
    "rows of 68": (lambda x: rows_of(x, 0, 68), False),
}


def layout_case(name, mask, change, family, quick=False):
    """change: (q, k, v, o) -> the same values elsewhere."""
    program, variant = expression(mask), {"layout": "any"}

    def run():
        q, k, v = random_qkv(2, 6, 3, 200, 300, 64, seed=11)
        o = torch.full_like(q, math.nan)
        q, k, v, o = change(q, k, v, o)
        lse = torch.full((200, 2, 6), math.nan, device=DEVICE).permute(1, 2, 0)
        harness.run_into(program, q, k, v, o, lse, variant=variant)
        mod = mod_of(KEEPS[mask])
        compare(o, lse, reference(q, k, v, mod), emulation(q, k, v, mod))
    return case(f"{name} {mask or 'plain'}", run, [(program, spec(D=64, **variant))], family, quick)


def only(n, f):
    """f on one of q, k, v, o."""
    return lambda *x: [f(y) if i == n else y for i, y in enumerate(x)]


@group("layouts")
def layouts():
    for mask in (PLAIN, CAUSAL):
        for name, (f, tma) in LAYOUTS.items():
            yield layout_case(name, mask, lambda *x, f=f: [f(y) for y in x], "sm90" if tma else "sm80",
                              quick=name in ("BSHD", "rows of 65") and mask == CAUSAL)
        for n, which in enumerate("qkvo"):
            yield layout_case(f"{which} off by 8 bytes", mask, only(n, lambda x: rows_of(x, 4, 64)), "sm80",
                              quick=which == "o" and mask == CAUSAL)
            yield layout_case(f"{which} as BSHD", mask, only(n, in_order(0, 2, 1)), "sm90")
        for name, change, family in (
                ("batch expanded", lambda x: x[:1].expand(2, -1, -1, -1), "sm90"),
                ("head expanded", lambda x: x[:, :1].expand(-1, 3, -1, -1), "sm90"),
                ("batch and head expanded", lambda x: x[:1, :1].expand(2, 3, -1, -1), "sm90"),
                ("row expanded", lambda x: x[:, :, :1].expand(-1, -1, 300, -1), "sm80")):
            for n, which in ((1, "K"), (2, "V")):
                yield layout_case(f"{which} {name}", mask, only(n, change), family)
            yield layout_case(f"K and V {name}", mask, lambda *x, f=change: [x[0], f(x[1]), f(x[2]), x[3]], family,
                              quick=name.startswith("batch and") and mask == PLAIN)
        yield layout_case("one row of Q expanded", mask,
                          lambda *x: [x[0][:, :, :1].expand(-1, -1, 200, -1), *x[1:]], "sm80")


def far_apart(row_stride, batch_stride, rows):
    """q, k, v, o of 2 sequences in one buffer of more than 2^31 elements."""
    def run():
        buffer = torch.empty(batch_stride + rows * row_stride + 4 * 4096 + 4096, dtype=torch.bfloat16, device=DEVICE)
        views = []
        for n, x in enumerate((*random_qkv(2, 1, 1, rows, rows, 64, seed=13), None)):
            view = buffer[n * 4096:].as_strided((2, 1, rows, 64), (batch_stride, rows * row_stride, row_stride, 1))
            views.append(view if x is None else view.copy_(x))
        lse = torch.full((2, 1, rows), math.nan, device=DEVICE)
        harness.run_into(expression(), *views, lse, variant={"layout": "any"})
        compare(views[3], lse, reference(*views[:3]), emulation(*views[:3]))
    return run


@group("offsets")
def offsets():
    kernels = [(expression(), spec(D=64, layout="any"))]
    yield case("a batch beyond 2^31 elements", far_apart(64, (1 << 31) + 4096 * 8, 64), kernels, quick=True)
    yield case("rows beyond 2^31 elements", far_apart(24000 * 64, 64 * 256, 1500), kernels)


# ---- values ----------------------------------------------------------------------

def along(pattern, D):
    """Scores (about, with scale 1/sqrt(D)) pattern(kv, n), the same in each row
    but for noise; a pattern may give several, one for each kind of row."""
    def change(q, k, v):
        n = k.shape[2]
        j = torch.arange(n, device=DEVICE)
        rows = pattern(j.double(), n)
        rows = rows if isinstance(rows, list) else [rows]
        q *= 0.1
        for t, values in enumerate(rows):
            q[..., t] = 0
            q[:, :, t::len(rows), t] = math.sqrt(D)
            k[..., t] = values.to(k.dtype)
    return change


def spike(at, size):
    return lambda j, n: torch.where(j == (at if at >= 0 else n + at), size, 0.0)


PATTERNS = {f"rising by {x} every 64": lambda j, n, x=x: (j // 64) * x for x in (0.5, 3, 5.4, 5.7, 10, 20, 60)}
PATTERNS |= {f"falling by {x} every 64": lambda j, n, x=x: -(j // 64) * x for x in (0.5, 5.7, 20)}
PATTERNS |= {f"one key of {x} at {at}": spike(at, float(x)) for x, at in (
    (30, 0), (30, 63), (30, 64), (200, 127), (30, -1), (200, -1))}
PATTERNS["rows that rise and rows that fall"] = lambda j, n: [(j // 64) * 9.0, -(j // 64) * 9.0]
PATTERNS["four kinds of rows"] = lambda j, n: [spike(n // 2, 50.0)(j, n), spike(-1, 90.0)(j, n), 0 * j, (j // 32) * 6.0]
PATTERNS["all of 500"] = lambda j, n: 0 * j + 500
PATTERNS["up and down"] = lambda j, n: 40 * torch.sin(j / 40)
TELLING = ("rising by 5.7 every 64", "rising by 60 every 64", "rows that rise and rows that fall", "four kinds of rows")


@group("values")
def values():
    for n, (name, pattern) in enumerate(PATTERNS.items()):
        for mask, d, dtype in ((PLAIN, 128, "bf16"), (PLAIN, 128, "f16"), (CAUSAL, 128, "bf16"), (CAUSAL, 64, "f16"),
                               (PLAIN, 64, "bf16"), (CAUSAL, 256, "bf16")):
            shape = (1, *heads(48, 6), 300, 1000) if mask == PLAIN else (1, *heads(24, 3), 1000, 1000)
            yield one(mask, shape, d, dtype=dtype, seed=n, name=name + ":", change=along(pattern, d), factor=1.3,
                      quick=name in TELLING and (mask, d, dtype) in ((PLAIN, 128, "f16"), (CAUSAL, 128, "bf16")))
    for gain, name in ((math.sqrt(8.0), "sigma 8"), (math.sqrt(50.0), "sigma 50"), (20.0, "sigma 400"),
                       (120.0, "sigma 14400")):
        for mask, (d, dtype) in itertools.product((PLAIN, CAUSAL), ((128, "bf16"), (64, "f16"))):
            yield one(mask, (1, 4, 2, 515, 515), d, dtype=dtype, seed=31, gain=gain, name=name + ":",
                      quick=name == "sigma 8" and mask == CAUSAL)
    for scale in (1.0, 0.01, 3e-5, 1e-60, -0.125, -3.0):
        for mask in (PLAIN, CAUSAL):
            yield one(mask, (1, 2, 2, 300, 400), scale=scale, seed=32, quick=scale in (1e-60, -3.0) and mask == CAUSAL)
    for mask in (PLAIN, CAUSAL):
        yield one(mask, (1, 2, 2, 300, 2125), 128, dtype="f16", name="V up to 60000, equal weights:",
                  quick=mask == PLAIN, change=lambda q, k, v: (q.zero_(), v.clamp_(-3, 3).mul_(20000)))
        yield one(mask, (1, 2, 2, 300, 300), 64, dtype="f16", name="V of 1e-6:", change=lambda q, k, v: v.mul_(1e-6))
    # A factor of 2 at 1e5: f32 has 7 digits, and the peer adds in another unit.
    for offset, factor in ((1e4, 1.2), (-1e4, 1.2), (1e5, 2), (-1e5, 2)):
        for mask, d in ((PLAIN, 128), (CAUSAL, 64)):
            program = expression(mask, f"score + {offset}")
            yield case(f"scores offset by {offset:g} {mask or 'plain'} D={d}",
                       lambda p=program, m=mask, d=d, a=offset, f=factor: check_case(
                           p, *random_qkv(1, 2, 2, 300, 300, d, seed=34), mod_of(KEEPS[m], lambda s, i, j: s + a),
                           factor=f), [(program, spec(D=d))], quick=offset == -1e5 and mask == PLAIN)


@group("slopes")
def slopes():
    """A bias that grows or shrinks along the keys, by a run-time param."""
    for mask, (d, dtype) in itertools.product((PLAIN, CAUSAL), ((128, "bf16"), (64, "f16"))):
        program = slope_program(mask)
        for c in (0.01, 0.1, 0.24, 1.0, 3.0, -0.01, -0.24, -1.0, -3.0):
            yield case(f"score + {c:g} * kv {mask or 'plain'} D={d} {dtype}",
                       lambda p=program, m=mask, c=c, d=d, t=dtype: check_case(
                           p, *random_qkv(1, 2, 1, 700, 700, d, dtype=t, seed=35),
                           mod_of(KEEPS[m], lambda s, i, j: s + c * j), params={"c": c}, factor=1.5),
                       [(program, spec(dtype, d))], quick=c in (0.24, -3.0) and dtype == "f16" and mask == CAUSAL)


def poisoned_row(which, mask, D, dtype):
    """A NaN in one row of Q or K: the rows that meet it, and no others."""
    def run():
        q, k, v = random_qkv(2, 2, 2, 300, 300, D, dtype=dtype, seed=36)
        meets = torch.zeros(2, 2, 300, dtype=torch.bool, device=DEVICE)
        if which == "Q":
            q[1, 0, 77, 5] = math.nan
            meets[1, 0, 77] = True
        else:
            k[1, 0, 201, 5] = math.nan
            meets[1, 0, 201 if mask == CAUSAL else 0:] = True
        o, lse = run_poisoned(expression(mask), q, k, v)
        expect(torch.equal(torch.isnan(o).all(-1), meets) and torch.equal(torch.isnan(o).any(-1), meets),
               "NaN in other rows than those that meet it: "
               f"h 0 of b 1 has it in rows {harness.ranges(torch.isnan(o[1, 0]).any(-1).tolist())}, others in "
               f"{int(torch.isnan(o).any(-1).sum() - torch.isnan(o[1, 0]).any(-1).sum())} rows")
        mod = mod_of(KEEPS[mask])
        ref = reference(q, k, v, mod)
        compare(torch.where(meets[..., None], ref[0].to(o.dtype), o), torch.where(meets, ref[1].float(), lse), ref,
                emulation(q, k, v, mod))
    return run


def as_sm80(change, mask, score=None):
    """Infinite inputs: NaN, infinities and numbers where sm80 has them."""
    program, families = expression(mask, score), ("sm90", "sm80")

    def run():
        q, k, v = random_qkv(1, 2, 1, 200, 300, 64, seed=37)
        change(q, k, v)
        if DEVICE == "cpu":
            return
        (o, lse), (want_o, want_lse) = (run_poisoned(program, q, k, v, variant={"family": f, "layout": "any"})
                                        for f in families)
        harness.LAUNCHED.discard("sm80")
        for what, a, b in (("output", o, want_o), ("LSE", lse, want_lse)):
            expect(torch.equal(torch.isnan(a), torch.isnan(b)), f"{what}: NaN in other places than sm80's")
            a, b = a.nan_to_num().double(), b.nan_to_num().double()
            expect(bool(((a - b).abs() <= 0.02 + 0.02 * b.abs()).all()), f"{what} is not sm80's",
                   lambda: harness.where_wrong(a, b, 0.02))
    return run, [(program, spec(D=64, family=f, layout="any")) for f in families]


def put(n, where, value):
    def change(*x):
        x[n][where] = value
    return change


@group("nan")
def nan_and_infinity():
    for which, mask, (d, dtype) in itertools.product("QK", (PLAIN, CAUSAL), ((128, "bf16"), (64, "f16"))):
        yield case(f"NaN in one row of {which} {mask or 'plain'} D={d} {dtype}", poisoned_row(which, mask, d, dtype),
                   [(expression(mask), spec(dtype, d))], quick=mask == CAUSAL and d == 128)
    for name, change, mask, score in (
            ("inf in a row of Q", put(0, (0, 0, 33, 3), math.inf), PLAIN, None),
            ("-inf in a row of K", put(1, (0, 0, 130, 3), -math.inf), PLAIN, None),
            ("inf in a row of K", put(1, (0, 0, 130, 3), math.inf), CAUSAL, None),
            ("inf in a row of V", put(2, (0, 0, 130, 3), math.inf), PLAIN, None),
            ("-inf and inf in a column of V", put(2, (0, 0, slice(10, 12), 3), math.inf), PLAIN, None),
            ("inf as a score", put(0, (0, 0, 0, 0), 0), PLAIN, "kv == 100 and q % 7 == 0 and math.huge or score"),
            ("-inf as a score", put(0, (0, 0, 0, 0), 0), PLAIN, "(kv < 100 or q % 3 == 0) and -math.huge or score")):
        run, kernels = as_sm80(change, mask, score)
        yield case(f"{name} {mask or 'plain'}, as sm80", run, kernels)


# ---- mods ------------------------------------------------------------------------

def mod_case(name, B, H, Hkv, Sq, Skv, D, dtype):
    def run():
        tensors, params, mod = mods.EXAMPLES[name](B, H, Sq, Skv)
        check_case(example(name), *random_qkv(B, H, Hkv, Sq, Skv, D, dtype=dtype, seed=41), mod, tensors=tensors,
                   params=params, lse_tolerance=FAST_TOLERANCE if name == "softcap_fast" else harness.LSE_TOLERANCE)
    return run


@group("mods")
def mods_by_hand():
    for name in mods.EXAMPLES:
        for D, dtype, shape in ((128, "bf16", (2, *heads(20, 4), 515, 515)), (64, "f16", (1, *heads(40, 8), 700, 700))):
            yield case(f"{name} {shape} D={D} {dtype}", mod_case(name, *shape, D, dtype),
                       [(example(name), spec(dtype, D))],
                       quick=name in ("alibi_window", "softcap", "t5_bias", "streaming_sinks") and D == 128)
    for name, D in itertools.product(("alibi", "softcap", "relative_bias", "document_causal"), (96, 192, 256)):
        yield case(f"{name} (1, 2, 1, 400, 400) D={D} bf16", mod_case(name, 1, 2, 1, 400, 400, D, "bf16"),
                   [(example(name), spec("bf16", D))], quick=(name, D) == ("alibi", 256))


@group("narrow")
def cheap_tanh():
    """tanh_fast has a cheap form for small arguments: tiles of small scores
    alone, of large ones, and of both in turns."""
    program = example("softcap_fast")
    for name, pattern, gain in (("small scores", None, 0.5), ("sigma 8", None, math.sqrt(8.0)),
                                ("sigma 100", None, 10.0), ("one key of 30", spike(130, 30.0), 1.0),
                                ("one key of -60 late", spike(-3, -60.0), 1.0),
                                ("rising", lambda j, n: (j // 64) * 2.0, 1.0),
                                ("kinds of rows", lambda j, n: [0 * j, spike(70, 40.0)(j, n), (j // 64) * -3.0], 1.0)):
        for D, dtype in ((128, "bf16"), (64, "f16")):
            def run(pattern=pattern, gain=gain, D=D, dtype=dtype):
                q, k, v = random_qkv(1, *heads(48, 6), 300, 700, D, dtype=dtype, seed=45, gain=gain)
                if pattern:
                    along(pattern, D)(q, k, v)
                check_case(program, q, k, v, mods.softcap(1, 1, 1, 1)[2], lse_tolerance=FAST_TOLERANCE, factor=1.3)
            yield case(f"softcap_fast, {name} D={D} {dtype}", run, [(program, spec(dtype, D))],
                       quick=name in ("small scores", "kinds of rows") and D == 128)


@group("score_masks")
def masks_that_read_the_score():
    for text, keep in (("score < 0.5 and score or -math.huge", lambda s: s < 0.5),
                       ("score * score > 0.01 and score or -math.huge", lambda s: s * s > 0.01)):
        for mask, (D, dtype) in itertools.product((PLAIN, CAUSAL), ((128, "bf16"), (64, "f16"))):
            def run(text=text, keep=keep, mask=mask, D=D, dtype=dtype):
                # scores of a few bits: on which side of the limit they are is no matter of rounding
                q, k, v = random_qkv(1, *heads(36, 12), 300, 500, D, dtype=dtype, seed=96)
                q.copy_(q.clamp(-3, 3).round())
                k.copy_(k.clamp(-3, 3).round())
                positions = KEEPS[mask] or counted
                check_case(expression(mask, text), q, k, v, lambda s, b, h, i, j: (s, keep(s) & positions(i, j)),
                           scale=0.0625 + 1 / 1024)
            yield case(f"{text} {mask or 'plain'} D={D} {dtype}", run, [(expression(mask, text), spec(dtype, D))],
                       quick=D == 128 and mask == PLAIN and "0.5" in text)


@group("conformance")
def conformance():
    for name, (_, _, tensors, params) in mods.CONFORMANCE.items():
        def run(name=name, tensors=tensors, params=params):
            oracle_case(conformance_program(name), *random_qkv(mods.B, mods.H, 2, mods.S, mods.S, 64, seed=44),
                        {n: f() for n, f in tensors.items()}, params)
        yield case(name, run, [(conformance_program(name), spec("bf16", 64))])


# ---- masks -----------------------------------------------------------------------

EMPTY = {  # rows, tiles, groups and whole items without work; name: keep(q, kv)
    "kv >= 5000": lambda i, j: (j >= 5000) & (i >= 0),
    "kv > q + 150": lambda i, j: j > i + 150,
    "q >= 130 and q >= kv": lambda i, j: (i >= 130) & (i >= j),
    "q < 100": lambda i, j: (i < 100) & (j >= 0),
    "q // 200 % 2 == 0": lambda i, j: (i // 200 % 2 == 0) & (j >= 0),
    "q // 64 % 2 == 1 and q >= kv": lambda i, j: (i // 64 % 2 == 1) & (i >= j),
    "q // 64 % 3 == 2 and kv < 70": lambda i, j: (i // 64 % 3 == 2) & (j < 70),
    "q // 64 % 2 == 0 and kv >= 64 and kv < 65": lambda i, j: (i // 64 % 2 == 0) & (j == 64),
    "q == kv": lambda i, j: i == j,
    "q // 64 == kv // 64 and q // 64 % 2 == 0": lambda i, j: (i // 64 == j // 64) & (i // 64 % 2 == 0),
    "q % 3 == 0": lambda i, j: (i % 3 == 0) & (j >= 0),
    "(q < 64 or q >= 640) and q >= kv or kv == q // 2":
        lambda i, j: (((i < 64) | (i >= 640)) & (i >= j)) | (j == i // 2),
}
OF_HEADS = {
    "h % 2 == 1": lambda b, h, i, j: (h % 2 == 1) & (i >= 0) & (j >= 0),
    "b % 2 == 0 and q >= kv": lambda b, h, i, j: (b % 2 == 0) & (i >= j),
    "(h + b) % 3 ~= 1 and q - kv < 40 and q >= kv": lambda b, h, i, j: ((h + b) % 3 != 1) & (i - j < 40) & (i >= j),
}
QUICK_EMPTY = ("q // 64 % 2 == 1 and q >= kv", "q // 200 % 2 == 0", "q == kv")


@group("empty")
def empty():
    for D, dtype in ((128, "bf16"), (64, "f16")):
        for mask, keep in EMPTY.items():
            yield one(mask, (2, *heads(24, 8), 1000, 700), D, dtype=dtype, seed=22, keep=keep,
                      quick=mask in QUICK_EMPTY and D == 128)
        for mask, keep in OF_HEADS.items():
            program = expression(mask)
            yield case(f"{mask} D={D} {dtype}", lambda p=program, k=keep, d=D, t=dtype: check_case(
                p, *random_qkv(5, *heads(24, 8), 400, 400, d, dtype=t, seed=23), lambda s, *at: (s, k(*at))),
                [(program, spec(dtype, D))])
        for w in (1, 2, 64, 65, 128, 200, 5000):
            program = window_program()
            yield case(f"{WINDOW}, w = {w} D={D} {dtype}", lambda p=program, w=w, d=D, t=dtype: check_case(
                p, *random_qkv(1, *heads(36, 4), 1000, 1000, d, dtype=t, seed=24),
                mod_of(lambda i, j: (i >= j) & (i - j < w)), params={"w": w}),
                [(program, spec(dtype, D))], quick=w in (1, 200) and D == 128)


@group("sinks")
def sinks():
    """Items whose output waits while the next one runs, items without tiles."""
    masks = {PLAIN: None, CAUSAL: KEEPS[CAUSAL], **{mask: EMPTY[mask] for mask in QUICK_EMPTY}}
    for mask, keep in masks.items():
        for D, dtype, out in ((128, "bf16", None), (64, "f16", None), (96, "bf16", None), (256, "bf16", None),
                              (128, "f16", "f32")):
            program, shape = expression(mask), (2, *heads(24, 8), 700, 500)

            def run(program=program, keep=keep, D=D, dtype=dtype, out=out, shape=shape):
                check_case(program, *random_qkv(*shape, D, dtype=dtype, seed=26), mod_of(keep),
                           sinks=spread_sinks(shape[1]), variant={"out_dtype": out} if out else None)
            yield case(f"{mask or 'plain'} D={D} {dtype} {out or ''}", run,
                       [(program, spec(dtype, D, out=out, sinks=True))], quick=mask in (CAUSAL, PLAIN) and D == 128)
    for D, dtype in ((128, "bf16"), (64, "f16")):
        program = example("document_causal")

        def run(D=D, dtype=dtype):
            ids = (torch.arange(1700, device=DEVICE) // 130).int().expand(2, -1).contiguous()
            H, Hkv = heads(12, 4)
            check_case(program, *random_qkv(2, H, Hkv, 1700, 1700, D, dtype=dtype, seed=27),
                       lambda s, b, h, i, j: (s, (ids[b, i] == ids[b, j]) & (i >= j)), tensors={"ids": ids},
                       sinks=spread_sinks(H))
        yield case(f"documents D={D} {dtype}", run, [(program, spec(dtype, D, sinks=True))], quick=D == 128)


@group("documents")
def documents():
    """Long and short ones by turns; of at most 64 keys each."""
    program = example("document_causal")
    for name, runs in (("at most 64 keys", (64, 1, 30, 63, 64, 2)), ("long and short", (700, 1, 3, 500, 64, 1, 1)),
                       ("of 128", (128,)), ("of 1", (1,))):
        for D, dtype in ((128, "bf16"), (64, "f16")):
            def run(runs=runs, D=D, dtype=dtype):
                ends = torch.tensor(list(itertools.islice(itertools.accumulate(itertools.cycle(runs)), 4000)))
                ids = torch.searchsorted(ends, torch.arange(1700), right=True).int()
                ids = ids.expand(2, -1).contiguous().to(DEVICE)
                check_case(program, *random_qkv(2, *heads(12, 4), 1700, 1700, D, dtype=dtype, seed=25),
                           lambda s, b, h, i, j: (s, (ids[b, i] == ids[b, j]) & (i >= j)), tensors={"ids": ids})
            yield case(f"documents {name} D={D} {dtype}", run, [(program, spec(dtype, D))],
                       quick=name == "long and short" and D == 128)


BOTH_TYPES = ("document causal", "dense bool", "natten 32", "shared prefix")
QUICK_MASKS = ("document causal", "shared prefix", "dense bool", "natten 200", "head windows")


@group("masks")
def masks():
    for n, (name, make) in enumerate(MASKS.items()):
        program = program_of(name, make(1, 2, 64, 64).source)
        for m, (D, dtype) in enumerate(((128, "bf16"), (64, "f16"))):
            if name not in BOTH_TYPES and n % 2 != m:
                continue
            for shape in ((2, *heads(20, 5), 700, 700), (1, 2, 1, 333, 1500)):
                yield case(f"{name} {shape} D={D} {dtype}", lambda a=(name, *shape, D, dtype): mask_case(*a),
                           [(program, spec(dtype, D))],
                           quick=name in QUICK_MASKS and shape[3] == 700 and n % 2 == m)
    for name, shape in (("document causal", (1, 1, 1, 4500, 4500)), ("dense bool", (1, 1, 1, 4500, 4500)),
                        ("longformer", (1, 1, 1, 4500, 4500))):
        program = program_of(name, MASKS[name](1, 2, 64, 64).source)
        yield case(f"{name} {shape} D=64 f16", lambda a=(name, *shape, 64, "f16"): mask_case(*a),
                   [(program, spec("f16", 64))])


@group("block_masks")
def block_masks():
    import block_masks as blocks
    for name, size, (D, dtype) in itertools.product(("none", "causal"), ((128, 128), (48, 80), (64, 192)),
                                                    ((128, "bf16"), (64, "f16"))):
        def run(name=name, size=size, D=D, dtype=dtype):
            rows, cols = blocks.blocks(500, size[0]), blocks.blocks(700, size[1])
            blocks.list_case(name, blocks.random_classes(1, 2, rows, cols, 1), size, (1, 2, 1, 500, 700, D), dtype)
        yield case(f"blocks of {size}, mask {name} D={D} {dtype}", run,
                   [(blocks.program_of(name), spec(dtype, D, block_mask=True))], quick=size == (48, 80) and D == 128)


@group("skips")
def skips():
    """Groups of a tile that visit other KV tiles than their neighbours: lists of
    blocks as high as a group, some of tables and scores, sparse and dense."""
    import block_masks as blocks
    programs = {"none": (lambda: expression(), lambda H: ({}, {}, mod_of(counted))),
                "relative_bias": (lambda: example("relative_bias"), lambda H: mods.relative_bias(2, H, 0, 0)),
                "t5_bias": (lambda: example("t5_bias"), lambda H: mods.t5_bias(2, H, 0, 0)),
                "alibi": (lambda: example("alibi"), lambda H: mods.alibi(2, H, 0, 0))}
    for (name, (make, inputs)), width, share, (D, dtype) in itertools.product(
            programs.items(), (64, 80, 128, 176), (0.15, 0.5), ((128, "bf16"), (64, "f16"))):
        if name != "none" and (width == 176 or (width == 80) == (D == 64)):
            continue

        def run(make=make, inputs=inputs, width=width, share=share, D=D, dtype=dtype):
            H, Hkv = heads(18, 6)
            classes = blocks.random_classes(2, H, blocks.blocks(1000, 64), blocks.blocks(1400, width), 94,
                                            (1 - share, share / 2, share / 2))
            tensors, params, mod = inputs(H)
            check_case(make(), *random_qkv(2, H, Hkv, 1000, 1400, D, dtype=dtype, seed=95),
                       blocks.with_lists(mod, classes, (64, width)), tensors=tensors, params=params,
                       block_mask=blocks.block_mask(classes, (64, width)))
        yield case(f"{name}, blocks of 64 x {width}, {share:g} of them, D={D} {dtype}", run,
                   [(make(), spec(dtype, D, block_mask=True))],
                   quick=share == 0.15 and D == 128 and (name, width) in (("none", 64), ("relative_bias", 80)))


# ---- sequences -------------------------------------------------------------------

def foreign(value, mask, D, dtype):
    """Every other sequence holds nothing but `value`: its neighbours keep clear
    of it, bit for bit."""
    lengths = (70, 3, 129, 1, 64, 5, 0, 2, 300, 7, 1, 200, 191, 63)

    def run():
        packed = sequences.Packed(mask, lengths, lengths, *heads(24, 8), D, dtype, seed=92)
        for b in range(1, packed.n, 2):
            for x, cu in ((packed.q, packed.cu_q), (packed.k, packed.cu_kv), (packed.v, packed.cu_kv)):
                x[:, :, int(cu[b]):int(cu[b + 1])] = value
        o, lse = packed.run()
        for b in range(0, packed.n, 2):
            if lengths[b] == 0:
                continue
            q, k, v = packed.sequence(b)
            got, mod = (packed.rows(o, b), packed.rows(lse, b)), lambda s, _, h, i, j: (s, packed.mask.keep(0, h, i, j))
            compare(*got, reference(q, k, v, mod), emulation(q, k, v, mod))
            alone = run_poisoned(packed.program, *(x.clone() for x in (q, k, v)), params=packed.mask.params)
            expect(same_bits(got[0], alone[0]) and same_bits(got[1], alone[1]),
                   f"sequence {b} of {lengths[b]} differs from the sequence alone")
    return run


def used_case(value, mask, D, dtype):
    """Garbage behind the used lengths of a padded batch."""
    used_q, used_kv = [0, 1, 100, 300, 257, 64], [50, 0, 129, 1, 300, 64]

    def run():
        q, k, v = random_qkv(6, *heads(24, 8), 300, 300, D, dtype=dtype, seed=21)
        for b in range(6):
            k[b, :, used_kv[b]:] = value
            v[b, :, used_kv[b]:] = value
            q[b, :, used_q[b]:] = value
        clean = [torch.nan_to_num(x, 0, 0, 0) for x in (q, k, v)]
        call = dict(used_q=torch.tensor(used_q, dtype=torch.int32, device=DEVICE),
                    used_kv=torch.tensor(used_kv, dtype=torch.int32, device=DEVICE))
        o, lse = run_poisoned(expression(mask), q, k, v, seqused_q=call["used_q"], seqused_kv=call["used_kv"])
        mod = mod_of(KEEPS[mask])
        compare(o, lse, reference(*clean, mod, **call), emulation(*clean, mod, **call))
    return run


@group("sequences")
def packed_and_used():
    kinds = ((128, "bf16"), (64, "f16"))
    for name, (D, dtype) in itertools.product(("plain", "causal", "window", "document causal", "dense", "prefix",
                                               "bottom right"), kinds):
        kv = sequences.LENGTHS_Q if name in sequences.SAME_LENGTHS else sequences.LENGTHS_KV
        kernels = [(sequences.program_of(name), spec(dtype, D, **more)) for more in ({"packed": True}, {})]
        yield case(f"packed {name} D={D} {dtype}", lambda a=(name, sequences.LENGTHS_Q, kv, *heads(24, 8), D, dtype): (
            sequences.packed_case(*a)), kernels, quick=name in ("causal", "document causal") and D == 128)
    for value, mask, (D, dtype) in itertools.product((math.nan, math.inf), ("plain", "causal"), kinds):
        kernels = [(sequences.program_of(mask), spec(dtype, D, **more)) for more in ({"packed": True}, {})]
        yield case(f"packed {mask} between sequences of {value} D={D} {dtype}", foreign(value, mask, D, dtype), kernels,
                   quick=value != value and D == 128)
    for value, mask, (D, dtype) in itertools.product((math.nan, math.inf), (PLAIN, CAUSAL), kinds):
        yield case(f"used lengths before {value} {mask or 'plain'} D={D} {dtype}", used_case(value, mask, D, dtype),
                   [(expression(mask), spec(dtype, D))], quick=value != value and D == 128)


# ---- the grid ----------------------------------------------------------------------

def multiprocessors():
    return torch.cuda.get_device_properties(0).multi_processor_count if DEVICE == "cuda" else 12


@group("grid")
def grid():
    """Items against multiprocessors: fewer, as many, many more; of one KV tile."""
    for mask, D in itertools.product((PLAIN, CAUSAL), (64, 128)):
        for what, items in (("half as many items as", lambda n: n // 2), ("one item less than", lambda n: n - 1),
                            ("as many items as", lambda n: n), ("one item more than", lambda n: n + 1),
                            ("three times and five items more than", lambda n: 3 * n + 5)):
            for skv in (40, 400):
                def run(mask=mask, D=D, items=items, skv=skv):
                    H = items(multiprocessors())
                    check_case(expression(mask), *random_qkv(1, H, H, 64, skv, D, seed=26), mod_of(KEEPS[mask]))
                yield case(f"{what} multiprocessors, {skv} keys {mask or 'plain'} D={D}", run,
                           [(expression(mask), spec(D=D))], quick=what[:5] == "three" and skv == 40 and D == 128)
        yield one(mask, (4, 16, 4, 700, 130), D, seed=27, name="many short items")


# ---- repeats -----------------------------------------------------------------------

def ten_times(launches):
    """launches() gives a function that runs once: equal bits, whatever else the
    GPU does meanwhile."""
    def run():
        once = launches()
        first = [x.clone() for x in once()]
        busy = torch.randn(2048, 2048, device=DEVICE)
        side = torch.cuda.Stream() if DEVICE == "cuda" else None
        for n in range(10):
            if side and n % 2:
                with torch.cuda.stream(side):
                    for _ in range(n):
                        busy @ busy
            again = once()
            expect(all(same_bits(a, b) for a, b in zip(first, again)), f"run {n + 2} gives other bits than the first",
                   lambda: harness.where_wrong(again[0], first[0], 0.0))
    return run


@group("repeat")
def repeats():
    for name, (D, dtype) in itertools.product(
            ("causal", "alibi", "alibi_window", "softcap_fast", "document_causal", "relative_bias"),
            ((128, "bf16"), (64, "f16"))):
        def launches(name=name, D=D, dtype=dtype):
            tensors, params, _ = mods.EXAMPLES[name](4, 8, 1000, 1000)
            x = random_qkv(4, 8, 2, 1000, 1000, D, dtype=dtype, seed=51)
            return lambda: run_poisoned(example(name), *x, tensors=tensors, params=params)
        yield case(f"{name} D={D} {dtype}", ten_times(launches), [(example(name), spec(dtype, D))],
                   quick=name in ("causal", "document_causal") and D == 128)
    for mask, D in itertools.product((PLAIN, CAUSAL), (64, 128, 256)):
        def launches(mask=mask, D=D):
            q, k, v = random_qkv(2, 8, 4, 1000, 1500, D, seed=52)
            along(PATTERNS["four kinds of rows"], D)(q, k, v)
            return lambda: run_poisoned(expression(mask), q, k, v)
        yield case(f"four kinds of rows {mask or 'plain'} D={D}", ten_times(launches), [(expression(mask), spec(D=D))],
                   quick=D == 128)

    def old_schedule():
        """Launches that make no schedule: what hands out work starts anew."""
        q, k, v = random_qkv(2, *heads(24, 8), 900, 900, 128, seed=54)
        tensors, params, mod = mods.EXAMPLES["document_causal"](2, q.shape[1], 900, 900)
        want = reference(q, k, v, mod), emulation(q, k, v, mod)
        if DEVICE == "cpu":
            return
        launch = harness.prepared(example("document_causal"), q, k, v, tensors=tensors, params=params)
        for ready in (0, 1, 1, 1, 0, 1):
            launch.arguments.a.schedule_ready = ready
            launch.out.fill_(math.nan)
            launch.lse.fill_(math.nan)
            launch()
            torch.cuda.synchronize()
            compare(launch.out, launch.lse, *want)
    yield case("an old schedule used again", old_schedule, [(example("document_causal"), spec())], quick=True)

    def batch():
        q, k, v = random_qkv(5, 4, 2, 700, 700, 128, seed=53)
        together = run_poisoned(expression(CAUSAL), q, k, v)
        for b in range(5):
            alone = run_poisoned(expression(CAUSAL), *(x[b:b + 1].clone() for x in (q, k, v)))
            expect(same_bits(together[0][b:b + 1], alone[0]), f"batch {b} alone gives other bits")
    yield case("batch composition causal D=128", batch, [(expression(CAUSAL), spec())])


# ---- families ----------------------------------------------------------------------

@group("families")
def families():
    def kernel(**more):
        return expression(CAUSAL).kernel(**spec(D=64, device=0, **more))

    def inputs():
        return random_qkv(1, 2, 2, 200, 200, 64, seed=61)

    def both():
        k = kernel(layout="any")
        expect((k.info.family, k.info.fallback) == ("sm90", "sm80"), f"family {k.info.family}, then {k.info.fallback}")
        results = []
        for layout, family in ((lambda x: x, "sm90"), (lambda x: rows_of(x, 1, 65), "sm80"), (lambda x: x, "sm90")):
            launch = k.prepare(*(layout(x) for x in inputs()))
            launch()
            expect(k.info.launched == family, f"launched {k.info.launched}, not {family}")
            results.append(launch.out)
        expect(same_bits(results[0], results[2]), "sm90 twice gives other bits")
        expect(float((results[0].float() - results[1].float()).abs().max()) < 0.05, "the families disagree")
    yield case("both in one kernel", both, [(expression(CAUSAL), spec(D=64, layout="any"))], quick=True)

    def chosen():
        k = kernel(family="sm80", layout="any")
        k.prepare(*inputs())()
        expect((k.info.family, k.info.launched) == ("sm80", "sm80"), f"{k.info.family} ran as {k.info.launched}")
    yield case("sm80 when asked for", chosen, [(expression(CAUSAL), spec(D=64, family="sm80", layout="any"))])

    def refused():
        k = kernel(layout="aligned")
        try:
            k.prepare(*(rows_of(x, 1, 65) for x in inputs()))()
        except facc.Error as e:
            expect("align" in e.message and "any" in e.message.lower(), f"no way out in: {e.message}")
            return
        expect(False, "tensors that are not aligned were taken by a kernel for aligned ones")
    yield case("aligned layout, others refused", refused, [(expression(CAUSAL), spec(D=64))])

    def convenience():
        q, k, v = inputs()
        for f in (lambda x: x, lambda x: rows_of(x, 1, 65)):
            o = facc.attention(f(q), f(k), f(v), mask_mod=CAUSAL)
            compare(o, torch.full_like(q[..., 0].float(), 0.0), (reference(q, k, v, mod_of(KEEPS[CAUSAL]))[0],
                    torch.zeros_like(q[..., 0].double())), emulation(q, k, v, mod_of(KEEPS[CAUSAL])))
    yield case("facc.attention picks", convenience, [(expression(CAUSAL), spec(D=64, layout="any"))])

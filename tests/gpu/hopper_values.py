"""Cases of hopper.py: scores, values and mods of many kinds."""
import itertools
import math

import torch

import harness
import mods
from device import DEVICE
from harness import check_case, compare, emulation, expect, random_qkv, reference, run_poisoned
from hopper_base import CAUSAL, KEEPS, PLAIN, case, counted, expression, group, heads, mod_of, one, slope_program, spec
from numeric import FAST_TOLERANCE, conformance_program, example, oracle_case


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

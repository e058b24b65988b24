"""Ends of what numbers and addresses can be: least, largest and infinite scores,
garbage where nothing counts, masks that all batches share, floor division of
negative numbers, captured tensors and LSE beyond 2^31 elements.

CASES is a list for two users: run_all.py (group edges: the best family of the
device, then sm80) and hopper.py (hopper_edges.py)."""
import itertools
import math
from collections import namedtuple

import torch

import facc
from device import DEVICE
from harness import check_case, compare, emulation, expect, random_qkv, reference, run_into, run_poisoned, test

Edge = namedtuple("Edge", "name source variant run")  # run(program, variant of the launch)
CASES = []

LEAST = {"f32": torch.finfo(torch.float32).min, "bf16": torch.finfo(torch.bfloat16).min, "f16": -65504.0}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32, "bool": torch.bool}
# In units of log2 the ends of f32 are nearer than in the scores' own: an LSE beyond is the end.
LSE_END = 2.35e38


def edge(name, source, D=64, dtype="bf16", **more):
    """Registers run(program, variant), which this decorates; source: all after
    the line that requires facc."""
    def add(run):
        CASES.append(Edge(f"{name} D={D} {dtype}", 'local facc = require "facc"\n' + source,
                          dict(dtype=dtype, head_dim=D, head_dim_v=D, **more), run))
        return run
    return add


def scored(expression, declarations="", mask=None):
    mask = f", mask_mod = function(b, h, q, kv) return {mask} end" if mask else ""
    return (f"{declarations}\nreturn facc.attention {{ score_mod = function(score, b, h, q, kv) "
            f"return {expression} end{mask} }}\n")


def masked(expression, declarations=""):
    return f"{declarations}\nreturn facc.attention {{ mask_mod = function(b, h, q, kv) return {expression} end }}\n"


def declared(type_, *dims):
    dims = ", ".join(str(d) if isinstance(d, int) else f'"{d}"' for d in dims)
    return f'local t = facc.tensor("t", "{type_}", {{ {dims} }})'


def check(program, variant, q, k, v, mod, tensors, **more):
    """check_case for scores at the ends of f32: where the LSE is beyond what
    kernels can say, it is large."""
    o, lse = run_poisoned(program, q, k, v, tensors=tensors, variant=variant, **more)
    call = {n.replace("seq", ""): x for n, x in more.items()}
    ref_o, ref_lse = reference(q, k, v, mod, **call)
    far = (ref_lse.abs() > LSE_END) & torch.isfinite(ref_lse)
    expect(bool((lse[far].double() / ref_lse[far] > 0.69).all()) and bool(torch.isfinite(lse[far]).all()),
           "LSE of a row at f32's end")
    compare(o, torch.where(far, ref_lse.float(), lse), (ref_o, ref_lse.float().double()),
            emulation(q, k, v, mod, **call))


# ---- the ends of f32 -----------------------------------------------------------

def ends(least, Sq, Skv):
    """[Sq, Skv] by rows: numbers; all least, so the mean of V; one key above the
    least; no key; none, then least; one key of the largest; least, then few."""
    g = torch.Generator().manual_seed(71)
    t = torch.randn(Sq, Skv, generator=g)
    kind = torch.arange(Sq) % 7
    rows = torch.arange(Sq)
    t[kind == 1] = least
    t[kind == 2] = least
    t[rows[kind == 2], rows[kind == 2] * 7 % Skv] = 1
    t[kind == 3] = -math.inf
    t[kind == 4, :Skv // 2] = -math.inf
    t[kind == 4, Skv // 2:] = least
    t[rows[kind == 5], Skv - 1 - rows[kind == 5] % Skv] = -least
    t[kind == 6, :Skv - 70] = least
    return t.to(DEVICE)


def add_ends():
    for type_, (D, dtype) in itertools.product(LEAST, ((128, "bf16"), (64, "f16"))):
        for mask, keep in ((None, True), ("q >= kv", None)):
            @edge(f"dense bias of {type_} with its least {mask or 'plain'}",
                  scored("score + t[q][kv]", declared(type_, "q", "kv"), mask), D, dtype)
            def run(program, variant, type_=type_, D=D, dtype=dtype, keep=keep):
                t = ends(LEAST[type_], 400, 500).to(TYPES[type_])
                f = t.double()
                check(program, variant, *random_qkv(1, 4, 2, 400, 500, D, dtype=dtype, seed=72),
                      lambda s, b, h, q, kv: (s + f[q, kv], keep or q >= kv), {"t": t})
    for form, mod in (("score + t[b][kv]", lambda s, t, d: s + t),
                      ("score + (kv - q) / 64 + t[b][kv]", lambda s, t, d: s - d / 64 + t),
                      ("2 * score - -t[b][kv]", lambda s, t, d: 2 * s + t)):
        # batch 1: keys that are padding for all rows, as additive masks say it
        @edge(f"key bias, {form}", scored(form, declared("f32", "B", "kv")), 128)
        def by_key(program, variant, mod=mod, form=form):
            t = torch.zeros(3, 500, device=DEVICE)
            t[0, 130:] = LEAST["f32"]
            t[1] = LEAST["f32"]
            t[2, :300] = -math.inf
            t[2, 300:] = LEAST["f32"]
            if "(kv - q)" in form:
                # Where nothing but the least is there, sm90's reference joins the slope and cancels with
                # it: the row's weights are then those of real numbers, not of sums that lose the score.
                t[1:, 400:] = 0
            f = t.double()
            check(program, variant, *random_qkv(3, 4, 2, 300, 500, 128, seed=73),
                  lambda s, b, h, q, kv: (mod(s, f[b, kv], q - kv), True), {"t": t})

    @edge("table by distance with the least", scored("score + t[facc.clamp(q - kv, -100, 100) + 100]",
                                                     declared("f32", 201)), 64)
    def by_distance(program, variant):
        t = torch.zeros(201, device=DEVICE)
        t[100:] = LEAST["f32"]  # rows with keys behind them take those alone; the last has none
        f = t.double()
        check(program, variant, *random_qkv(1, 4, 2, 300, 300, 64, seed=74),
              lambda s, b, h, q, kv: (s + f[(q - kv).clamp(-100, 100) + 100], True), {"t": t})

    @edge("row bias with the least", scored("score + t[q]", declared("bf16", "q")), 128)
    def by_row(program, variant):
        t = torch.zeros(300, dtype=torch.bfloat16, device=DEVICE)
        t[::3] = LEAST["bf16"]
        f = t.double()
        check(program, variant, *random_qkv(1, 4, 2, 300, 400, 128, seed=75),
              lambda s, b, h, q, kv: (s + f[q], True), {"t": t})

    for D in (64, 128, 256):
        @edge("least as a constant", scored("(q % 3 == 0 or kv < 70) and -3.4028234663852886e38 or score"), D)
        def constant(program, variant, D=D):
            check(program, variant, *random_qkv(1, 4, 2, 300, 400, D, seed=76),
                  lambda s, b, h, q, kv: (torch.where((q % 3 == 0) | (kv < 70), LEAST["f32"], s), True), {})

    @edge("(1 - keep) * least", scored("score + (1.0 - t[b][kv]) * -3.4028234663852886e38", declared("f32", "B", "kv")),
          128)
    def product(program, variant):
        t = torch.ones(2, 400, device=DEVICE)
        t[0, 100:] = 0
        t[1] = 0
        check(program, variant, *random_qkv(2, 4, 2, 300, 400, 128, seed=77),
              lambda s, b, h, q, kv: (s + (1.0 - t[b, kv].double()) * LEAST["f32"], True), {"t": t})

    for D, dtype in ((128, "bf16"), (64, "f16")):
        @edge("infinity as a bias", scored("score + t[q][kv]", declared("f32", "q", "kv"), "q >= kv"), D, dtype)
        def infinite(program, variant, D=D, dtype=dtype):
            t = torch.zeros(300, 400, device=DEVICE)
            rows = torch.arange(4, 300, 9, device=DEVICE)
            t[rows, rows // 2] = math.inf  # counts; those above the diagonal do not
            t[:, 350] = math.inf
            q, k, v = random_qkv(1, 4, 2, 300, 400, D, dtype=dtype, seed=78)
            o, lse = run_poisoned(program, q, k, v, tensors={"t": t}, variant=variant)
            met = torch.zeros(300, dtype=torch.bool, device=DEVICE)
            met[rows] = True
            expect(bool(torch.isnan(o[:, :, met]).all()) and not bool(torch.isfinite(lse[:, :, met]).any()),
                   "numbers where a score is infinite")
            clean = torch.where(torch.isinf(t), 0, t).double()

            def mod(s, b, h, q, kv):
                return s + clean[q, kv], q >= kv
            ref, peer = reference(q, k, v, mod), emulation(q, k, v, mod)
            compare(torch.where(met.view(1, 1, -1, 1), ref[0].to(o.dtype), o),
                    torch.where(met, ref[1].float(), lse), ref, peer)


# ---- garbage -------------------------------------------------------------------

def add_garbage():
    for type_, (D, dtype) in itertools.product(("f32", "bf16", "f16"), ((128, "bf16"), (64, "f16"))):
        @edge(f"NaN and infinities above the diagonal and behind used lengths, {type_}",
              scored("score * (1 + t[q][kv]) - t[q][kv] / 2", declared(type_, "q", "kv"), "q >= kv"), D, dtype)
        def run(program, variant, type_=type_, D=D, dtype=dtype):
            t = torch.randn(300, 400, generator=torch.Generator().manual_seed(81)).to(DEVICE, TYPES[type_])
            i, j = torch.arange(300, device=DEVICE).view(-1, 1), torch.arange(400, device=DEVICE)
            used_q, used_kv = (torch.tensor([n, n], dtype=torch.int32, device=DEVICE) for n in (197, 161))
            bad = (j > i) | (i >= 197) | (j >= 161)
            for n, value in enumerate((math.nan, math.inf, -math.inf, LEAST[type_])):
                t[bad & ((i + j) % 4 == n)] = value
            f = torch.where(bad, 0, t.double())
            q, k, v = random_qkv(2, 4, 2, 300, 400, D, dtype=dtype, seed=82)
            check_case(program, q, k, v, lambda s, b, h, q, kv: (s * (1 + f[q, kv]) - f[q, kv] / 2, q >= kv),
                       tensors={"t": t}, used_q=used_q, used_kv=used_kv, variant=variant)

    @edge("numbers of rows that are none, where the mask says no",
          masked("kv % 3 == 0 and t[t[kv]] <= q + 100", declared("i32", "kv")), 64)
    def indices(program, variant):
        j = torch.arange(400, device=DEVICE)
        bad = torch.tensor([-(1 << 31), (1 << 31) - 1, -1, 400], device=DEVICE)
        t = torch.where(j % 3 == 0, j * 7 % 400, bad[j % 4]).int()
        good = torch.where(j % 3 == 0, t, 0).long()
        check_case(program, *random_qkv(1, 4, 2, 300, 400, 64, seed=83),
                   lambda s, b, h, q, kv: (s, (kv % 3 == 0) & (t[good][kv] <= q + 100)), tensors={"t": t},
                   variant=variant)


# ---- masks ---------------------------------------------------------------------

def add_masks():
    for batches, heads in ((1, 1), (1, 6), (2, 1)):
        @edge(f"a mask of [{batches}, {heads}] for [2, 6]",
              masked("t[b][h][q][kv]", declared("bool", "B", "H", "q", "kv")), 128)
        def run(program, variant, batches=batches, heads=heads):
            t = torch.rand(batches, heads, 300, 400, generator=torch.Generator().manual_seed(84)).to(DEVICE) < 0.3
            t = t.expand(2, 6, 300, 400)
            check_case(program, *random_qkv(2, 6, 3, 300, 400, 128, seed=85),
                       lambda s, b, h, q, kv: (s, t[b, h, q, kv]), tensors={"t": t}, variant=variant)

    @edge("a bias permuted and expanded", scored("score + t[b][h][q][kv]", declared("f32", "B", "H", "q", "kv")), 128)
    def permuted(program, variant):
        t = torch.randn(400, 6, 300, generator=torch.Generator().manual_seed(86)).to(DEVICE)
        t = t.permute(1, 2, 0).expand(2, 6, 300, 400)
        check_case(program, *random_qkv(2, 6, 3, 300, 400, 128, seed=87),
                   lambda s, b, h, q, kv: (s + t[b, h, q, kv], True), tensors={"t": t}, variant=variant)

    for text, params, keep in (
            ("(q - 1024) % 4 == (kv - 1024) % 4 and (q - 4 - 1024) // 4 >= (kv - 1024) // 4", {},
             lambda q, kv: ((q - 1024) % 4 == (kv - 1024) % 4) & ((q - 1028) // 4 >= (kv - 1024) // 4)),
            ("(q - kv) // -5 < (kv - q) % -7 + 9", {}, lambda q, kv: (q - kv) // -5 < (kv - q) % -7 + 9),
            ("(q - kv) // (n - 20) < (kv - 900) % n + (q - 700) // n + 60", {"n": 9},
             lambda q, kv: (q - kv) // -11 < (kv - 900) % 9 + (q - 700) // 9 + 60)):
        @edge(f"negative numbers: {text}", masked(text, 'local n = facc.param("n", "i32")' if params else ""), 64)
        def negative(program, variant, params=params, keep=keep):
            check_case(program, *random_qkv(1, 2, 1, 1500, 1300, 64, seed=88),
                       lambda s, b, h, q, kv: (s, keep(q, kv)), params=params, variant=variant)


# ---- addresses -------------------------------------------------------------------

FAR = (1 << 31) + 512


def add_addresses():
    for type_, dims, strides in (("f16", "b h q kv", (FAR, 300 * 400, 400, 1)), ("bf16", "b h q kv", (0, FAR, 400, 1)),
                                 ("f16", "b h q kv", (0, 0, 1 << 23, 1)), ("bf16", "b h q kv", (0, 0, 1, 1 << 23))):
        @edge(f"captured {type_} [{dims}], strides {strides}",
              scored("score + t[b][h][q][kv]", declared(type_, "B", "H", "q", "kv")), 64)
        def run(program, variant, type_=type_, strides=strides):
            shape = (2, 2, 300, 400)
            end = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
            t = torch.empty(end, dtype=TYPES[type_], device=DEVICE).as_strided(shape, strides)
            near = torch.randn(*(n if s else 1 for n, s in zip(shape, strides)),
                               generator=torch.Generator().manual_seed(91)).to(DEVICE, TYPES[type_])
            t[:near.shape[0], :near.shape[1]].copy_(near)
            f = near.double().expand(shape)
            check_case(program, *random_qkv(2, 2, 1, 300, 400, 64, seed=92),
                       lambda s, b, h, q, kv: (s + f[b, h, q, kv], True), tensors={"t": t}, variant=variant)

    @edge("LSE beyond 2^31 elements", "return facc.attention {}\n", 64)
    def far_lse(program, variant):
        q, k, v = random_qkv(2, 2, 1, 300, 400, 64, seed=93)
        lse = torch.empty(FAR + 1000, device=DEVICE).as_strided((2, 2, 300), (FAR, 300, 1)).fill_(math.nan)
        o = torch.full_like(q, math.nan)
        run_into(program, q, k, v, o, lse, variant=variant)
        compare(o, lse, reference(q, k, v), emulation(q, k, v))


add_ends()
add_garbage()
add_masks()
add_addresses()


def program_of(case):
    return facc.Program.from_string(case.source, "edge.lua")


@test("edges")
def edges():
    """By the best family of the device; where that is another, by sm80, too."""
    families = {"": None}
    if DEVICE == "cuda" and torch.cuda.get_device_capability() == (9, 0):
        families["sm80 "] = {"family": "sm80"}
    for (label, variant), case in itertools.product(families.items(), CASES):
        yield label + case.name, lambda: case.run(program_of(case), variant)


def kernels(groups):
    if groups and "edges" not in groups:
        return []
    return [(program_of(c), dict(c.variant, device=0)) for c in CASES]

"""Cases of hopper.py: sizes and layouts."""
import itertools
import math

import torch

import harness
from device import DEVICE
from harness import DTYPES, compare, emulation, guarded, random_qkv, reference
from hopper_base import CAUSAL, KEEPS, PLAIN, case, expression, group, heads, mod_of, one, spec

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
        for ratio, hkv, d in itertools.product(range(1, 65), (1, 3), (64, 128)):
            if hkv == 1 or ratio in (1, 2, 3, 8, 16):
                yield one(mask, (1 + ratio % 3, ratio * hkv, hkv, 129, 257), d, seed=ratio,
                          quick=(ratio, hkv, d) in ((3, 3, 128), (61, 1, 64)))


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

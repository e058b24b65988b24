"""Cases of hopper.py: captured tensors that a score reads in each cell, whose
tiles are copied to shared memory where they lie at multiples of 16 bytes."""
import itertools
import math

import facc
import torch

from device import DEVICE
from harness import check_case, random_qkv
from hopper_base import CAUSAL, KEEPS, PLAIN, case, group, heads, spec

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def bias_of(dtype, *shape, seed=98):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return x.to(TYPES[dtype]).to(DEVICE)


def contiguous(dtype, H, Sq, Skv):
    return bias_of(dtype, H, Sq, Skv)


def padded(dtype, H, Sq, Skv):
    """Rows at multiples of 16 bytes, NaN behind them and behind the last row."""
    x = bias_of(dtype, H, Sq + 5, -(-Skv // 8) * 8 + 16)
    x[:, Sq:] = math.nan
    x[:, :, Skv:] = math.nan
    return x[:, :Sq, :Skv]


def shifted(dtype, H, Sq, Skv):
    """A view that begins between multiples of 16 bytes."""
    return bias_of(dtype, H, Sq + 3, -(-Skv // 8) * 8 + 8)[:, 3:, 1:1 + Skv]


def one_head(dtype, H, Sq, Skv):
    return padded(dtype, 1, Sq, Skv).expand(H, Sq, Skv)


def one_row(dtype, H, Sq, Skv):
    return padded(dtype, H, 1, Skv).expand(H, Sq, Skv)


def one_column(dtype, H, Sq, Skv):
    return bias_of(dtype, H, Sq, 1).expand(H, Sq, Skv)


def turned(dtype, H, Sq, Skv):
    return bias_of(dtype, H, Skv, Sq).transpose(1, 2)


def odd_units(dtype, H, Sq, Skv):
    """Rows at odd multiples of 16 bytes, the first among them."""
    unit = 8 if dtype != "f32" else 4
    x = bias_of(dtype, H, Sq, -(-Skv // (2 * unit)) * 2 * unit + 3 * unit)
    return x[:, :, unit:unit + Skv]


def apart(dtype, H, Sq, Skv):
    """Elements that are not neighbours."""
    return bias_of(dtype, H, Sq, 2 * (-(-Skv // 8) * 8))[:, :, 0:2 * Skv:2]


def masking(dtype, H, Sq, Skv):
    """-inf in places, whole rows of it, and rows of numbers that leave nothing of a
    score (f16: half of it)."""
    least = -65504 if dtype == "f16" else -2e38
    x = padded(dtype, H, Sq, Skv)
    x[:, :, ::3] = -math.inf
    x[:, 5] = -math.inf
    x[:, 9] = least
    x[:, 10, Skv // 2:] = least
    return x


def large(dtype, H, Sq, Skv):
    x = padded(dtype, H, Sq, Skv)
    return x * torch.linspace(1, 300, Sq, device=DEVICE).to(x.dtype)[:, None]


LAYOUTS = (contiguous, padded, shifted, odd_units, one_head, one_row, one_column, turned, apart, masking, large)


def plane_case(layout, dtype, mask, shape, D, score="score + bias[h][q][kv]", by_hand=lambda s, x, h, i, j: s + x,
               quick=False, **more):
    B, H, Hkv, Sq, Skv = shape
    program = facc.Program.from_expressions(score=score, mask=mask, declarations=(("bias", dtype, ["H", "q", "kv"]),))

    def run():
        bias, keep = layout(dtype, H, Sq, Skv), KEEPS[mask]

        def mod(s, b, h, i, j):
            return by_hand(s, bias[h, i, j].double(), h, i, j), keep(i, j) if keep else True
        check_case(program, *random_qkv(*shape, D, seed=99), mod, tensors={"bias": bias}, **more)
    return case(f"{layout.__name__} {dtype} {score} {mask or 'plain'} {shape} D={D}", run, [(program, spec("bf16", D))],
                quick=quick)


def larger(x, rows):
    """With NaN behind the rows (of that dimension) and columns, as part of the tensor."""
    sizes = list(x.shape)
    sizes[rows] += 7
    sizes[-1] = -(-sizes[-1] // 8) * 8 + 24
    y = torch.full(sizes, math.nan, dtype=x.dtype, device=DEVICE)
    y[tuple(slice(n) for n in x.shape)] = x
    return y


# index text: (dims, sizes of the tensor, strides that become 0, the element of (b, h, i, j))
INDICES = {
    "[b][h][q][kv]": (["B", "H", "any", "any"], lambda B, H, q, kv: (B, H, q, kv), (), lambda x, b, h, i, j: x[b, h, i, j]),
    "[b][h][q][kv] of one h": (["B", "H", "any", "any"], lambda B, H, q, kv: (B, H, q, kv), (1,),
                               lambda x, b, h, i, j: x[b, h, i, j]),
    "[b][h][q][kv] of one b": (["B", "H", "any", "any"], lambda B, H, q, kv: (B, H, q, kv), (0,),
                               lambda x, b, h, i, j: x[b, h, i, j]),
    "[q][kv]": (["any", "any"], lambda B, H, q, kv: (q, kv), (), lambda x, b, h, i, j: x[i, j]),
    "[b][q][kv]": (["B", "any", "any"], lambda B, H, q, kv: (B, q, kv), (), lambda x, b, h, i, j: x[b, i, j]),
    "[h][q][b][kv]": (["H", "any", "B", "any"], lambda B, H, q, kv: (H, q, B, kv), (), lambda x, b, h, i, j: x[h, i, b, j]),
    # rows from h - 3 on: those before the first are masked; columns from h on
    "[h][q + h - 3][kv]": (["H", "any", "any"], lambda B, H, q, kv: (H, q + H, kv), (),
                           lambda x, b, h, i, j: x[h, (i + h - 3).clamp(min=0), j]),
    "[h][q][kv + h]": (["H", "any", "any"], lambda B, H, q, kv: (H, q, kv + H), (), lambda x, b, h, i, j: x[h, i, j + h]),
    "[q + h - 3][b][kv + h]": (["any", "B", "any"], lambda B, H, q, kv: (q + H, B, kv + H), (),
                               lambda x, b, h, i, j: x[(i + h - 3).clamp(min=0), b, j + h]),
    "[h][2 * q][kv]": (["H", "any", "any"], lambda B, H, q, kv: (H, 2 * q, kv), (), lambda x, b, h, i, j: x[h, 2 * i, j]),
}


def index_case(name, dtype, causal, shape, D, quick=False):
    """A tensor larger than what is read, NaN behind it, by other indices than bias[h][q][kv]."""
    B, H, Hkv, Sq, Skv = shape
    dims, sizes, zero, element = INDICES[name]
    index = name.split(" of ")[0]
    before = "h - 3" in name  # rows that the tensor lacks
    mask = " and ".join(["q >= kv"] * causal + ["q + h >= 3"] * before) or PLAIN
    program = facc.Program.from_expressions(score=f"score + bias{index}", mask=mask, declarations=(("bias", dtype, dims),))

    def run():
        x = bias_of(dtype, *sizes(B, H, Sq, Skv))
        x = larger(x, dims.index("any"))
        for d in zero:
            x = x.narrow(d, 0, 1).expand(x.shape)

        def mod(s, b, h, i, j):
            keep = (i >= j) if causal else True
            return s + element(x, b, h, i, j).double(), keep & (i + h >= 3) if before else keep
        check_case(program, *random_qkv(*shape, D, seed=97), mod, tensors={"bias": x})
    return case(f"bias{name} {dtype} {mask or 'plain'} {shape} D={D}", run, [(program, spec("bf16", D))], quick=quick)


@group("planes")
def planes():
    for name in INDICES:
        for dtype, causal, B, D in (("bf16", True, 2, 128), ("f32", False, 3, 64), ("f32", True, 4, 128)):
            yield index_case(name, dtype, causal, (B, *heads(20, 4), 520, 515), D, quick=B == 2)
    for layout, dtype in itertools.product(LAYOUTS, TYPES):
        for mask, D, shape in ((PLAIN, 128, (1, *heads(20, 4), 700, 1000)), (CAUSAL, 64, (2, *heads(20, 10), 520, 515)),
                               (CAUSAL, 128, (1, *heads(20, 20), 900, 900))):
            yield plane_case(layout, dtype, mask, shape, D, factor=1.5 if layout in (large, masking) else 1.2,
                             quick=dtype == "bf16" and D == 128 and layout in (padded, contiguous, masking))
    for D, dtype in itertools.product((32, 96, 192, 256), ("f32", "bf16")):
        yield plane_case(padded, dtype, PLAIN, (1, *heads(16, 4), 300, 777), D, quick=D == 256)
    for skv in (1, 7, 8, 127, 128, 129, 255, 257):
        for dtype in ("f32", "bf16"):
            yield plane_case(padded, dtype, PLAIN, (1, 2, 1, 130, skv), 128)
    for score, by_hand in (("score - bias[h][q][kv] / 3", lambda s, x, h, i, j: s - x / 3),
                           ("score + bias[h][q][kv] - 0.25 * (q - kv)", lambda s, x, h, i, j: s + x - 0.25 * (i - j)),
                           ("20 * tanh((score + bias[h][q][kv]) / 20)", lambda s, x, h, i, j: 20 * torch.tanh((s + x) / 20)),
                           ("max(score, bias[h][q][kv])", lambda s, x, h, i, j: torch.maximum(s, x)),
                           ("score * bias[h][q][kv] + bias[h][q][kv]", lambda s, x, h, i, j: s * x + x)):
        for mask, dtype in itertools.product((PLAIN, CAUSAL), ("f32", "bf16")):
            yield plane_case(padded, dtype, mask, (1, *heads(20, 4), 515, 700), 128, score, by_hand,
                             quick=mask == CAUSAL and dtype == "bf16")

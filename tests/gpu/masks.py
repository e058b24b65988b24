"""Masks that need a schedule: numbers, head dims, lengths of 0 and 1, used
lengths, fully masked rows; against f64 by hand and against facc's oracle."""
import math

import torch

import facc
from device import DEVICE
from harness import DTYPES, check_case, random_qkv, test
from mask_list import MASKS, oracle, program_of
from numeric import oracle_case

# B, H, Hkv, Sq, Skv, D: long ones have several windows of 32 KV tiles.
SHAPES = ((2, 4, 2, 700, 700, 128), (2, 2, 1, 333, 517, 64), (2, 2, 2, 517, 333, 64),
          (1, 2, 1, 4500, 4500, 64), (1, 2, 2, 3300, 3300, 128))
OTHER_DIMS = ((1, 2, 1, 300, 300, 40), (1, 2, 2, 700, 700, 96), (1, 2, 1, 515, 515, 192), (1, 2, 2, 515, 515, 256))
CHANGED = ("document causal", "dense bool", "dilated", "natten 32", "natten 200", "head windows", "longformer",
           "both in prefix")  # in schedules.py, bf16
FEW = ("document causal", "dilated", "natten 32", "dense bool", "shared prefix", "paged")


def kernels(groups):
    """What these tests compile, to be made in parallel beforehand."""
    if groups and not groups & {"masks", "changes"}:
        return []
    out = []
    for n, (name, make) in enumerate(MASKS.items()):
        program = program_of(name, make(1, 2, 64, 64).source)
        wanted = {(t, 64) for t in DTYPES} | {(dtype_of(n, 0), 128)}
        wanted |= {("bf16", 128)} if name in CHANGED else set()
        wanted |= {("bf16", d) for d in (40, 96, 192, 256)} if name in FEW else set()
        out += [(program, dict(dtype=t, head_dim=d, head_dim_v=d, device=0)) for t, d in sorted(wanted)]
    return out


def dtype_of(mask, shape):
    return ("bf16", "f16")[(mask + shape) % 2]


def mask_case(name, B, H, Hkv, Sq, Skv, D, dtype, used_q=None, used_kv=None):
    mask = MASKS[name](B, H, Sq, Skv)
    q, k, v = random_qkv(B, H, Hkv, Sq, Skv, D, dtype=dtype, seed=Sq + D)
    for x, used in ((q, used_q), (k, used_kv), (v, used_kv)):
        for b, n in enumerate([] if used is None else used.tolist()):
            x[b, :, n:] = math.nan  # what lies beyond must not reach results
    check_case(program_of(name, mask.source), q, k, v, oracle(mask), tensors=mask.tensors,
               params=mask.params, used_q=used_q, used_kv=used_kv)


@test("masks")
def every_mask():
    for n, name in enumerate(MASKS):
        for i, shape in enumerate(SHAPES):
            if DEVICE == "cpu" and shape[3] > 1000:
                continue
            dtype = dtype_of(n, i)
            yield f"{name} {shape} {dtype}", lambda: mask_case(name, *shape, dtype)


@test("masks")
def other_head_dims():
    for name in FEW:
        for shape in OTHER_DIMS:
            yield f"{name} {shape}", lambda: mask_case(name, *shape, "bf16")


@test("masks")
def by_oracle():
    for name, make in MASKS.items():
        def case():
            mask = make(2, 4, 300, 300)
            oracle_case(program_of(name, mask.source), *random_qkv(2, 4, 2, 300, 300, 64, seed=44),
                        mask.tensors, mask.params)
        yield f"{name} (CPU oracle)", case


@test("masks")
def lengths():
    for name in MASKS:
        for sq, skv in ((130, 0), (0, 130), (1, 1), (257, 1), (1, 700)):
            yield f"{name} {sq}x{skv}", lambda: mask_case(name, 2, 2, 1, sq, skv, 64, "bf16")
        used_q = torch.tensor([0, 1, 100, 700, 513], dtype=torch.int32, device=DEVICE)
        used_kv = torch.tensor([50, 0, 700, 1, 520], dtype=torch.int32, device=DEVICE)
        for which, uq, ukv in (("q", used_q, None), ("kv", None, used_kv), ("both", used_q, used_kv)):
            yield f"{name} used {which}", lambda: mask_case(name, 5, 2, 1, 700, 700, 64, "f16", uq, ukv)


@test("masks")
def nothing_at_all():
    yield "no cell counts", lambda: check_case(
        facc.find_program(mask_mod="q // 64 == kv // 64 and q // 64 ~= kv // 64 or kv + q < 0"),
        *random_qkv(2, 2, 2, 700, 700, 64, seed=45),
        lambda s, b, h, q, kv: (s, (q < 0) & (kv < 0)))
    yield "all cells count", lambda: check_case(
        facc.find_program(mask_mod="q // 64 == kv // 64 or q // 64 ~= kv // 64"),
        *random_qkv(2, 2, 2, 700, 700, 64, seed=45), lambda s, b, h, q, kv: (s, (q >= 0) & (kv >= 0)))

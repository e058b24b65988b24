"""Cases of hopper.py: masks, tiles and items without work, sinks, block lists."""
import itertools

import torch

import mods
from device import DEVICE
from harness import check_case, random_qkv, spread_sinks
from hopper_base import (CAUSAL, KEEPS, PLAIN, WINDOW, case, counted, expression, group, heads, mod_of, one, spec,
                         window_program)
from masks import mask_case
from mask_list import MASKS, program_of
from numeric import example

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


@group("dropout")
def dropout():
    """All tiles of the family, packed ones, with scores that are weighed quickly; several items of a CTA."""
    some = dict(dropout_p=0.2, seed=11, offset=12)
    for mask in (PLAIN, CAUSAL, *QUICK_EMPTY):
        for D, dtype, out in ((128, "bf16", None), (64, "f16", None), (96, "bf16", None), (192, "bf16", None),
                              (256, "bf16", None), (128, "f16", "f32")):
            program, shape = expression(mask), (2, *heads(24, 8), 700, 500)
            keep = EMPTY[mask] if mask in EMPTY else KEEPS[mask]

            def run(program=program, keep=keep, D=D, dtype=dtype, out=out, shape=shape):
                check_case(program, *random_qkv(*shape, D, dtype=dtype, seed=28), mod_of(keep), dropout=some,
                           variant={"out_dtype": out} if out else None)
            yield case(f"{mask or 'plain'} D={D} {dtype} {out or ''}", run,
                       [(program, spec(dtype, D, out=out, dropout=True))], quick=mask in (CAUSAL, PLAIN) and D == 128)
    for D, dtype in ((128, "bf16"), (64, "f16")):
        program = example("document_causal")

        def run(D=D, dtype=dtype):
            ids = (torch.arange(1700, device=DEVICE) // 130).int().expand(2, -1).contiguous()
            H, Hkv = heads(12, 4)
            check_case(program, *random_qkv(2, H, Hkv, 1700, 1700, D, dtype=dtype, seed=29),
                       lambda s, b, h, i, j: (s, (ids[b, i] == ids[b, j]) & (i >= j)), tensors={"ids": ids},
                       dropout=some, sinks=spread_sinks(H))
        yield case(f"documents, sinks D={D} {dtype}", run, [(program, spec(dtype, D, dropout=True, sinks=True))],
                   quick=D == 128)


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

"""Block lists from outside, in FlexAttention's form: torch's own and made by
hand, with and without a mask_mod, of any block size."""
import math
from types import SimpleNamespace

import torch

import facc
from device import DEVICE
from harness import check_case, expect, prepared, random_qkv, run_poisoned, same_bits, test
from mask_list import random_of, runs

IDS = 'local facc = require "facc"\nlocal ids = facc.tensor("ids", "i32", { "B", "kv" })\n'
PROGRAMS = {}


def program_of(name):
    """mods: none, causal, documents (causal), alibi (and causal), causal score
    (-inf in score_mod alone)"""
    if name not in PROGRAMS:
        PROGRAMS[name] = {
            "none": lambda: facc.find_program(),
            "causal": lambda: facc.find_program(mask_mod="q >= kv"),
            "documents": lambda: facc.Program.from_string(
                IDS + "return facc.attention { mask_mod = function(b, h, q, kv)\n"
                "  return ids[b][q] == ids[b][kv] and q >= kv\nend }\n", "documents.lua"),
            "alibi": lambda: facc.find_program("score + 0.05 * (kv - q)", "q >= kv"),
            "causal score": lambda: facc.find_program("q >= kv and score + 0.05 * (kv - q) or -math.huge"),
        }[name]()
    return PROGRAMS[name]


def mod_of(name, ids):
    """The mod by hand: (score, keep) where lists say partial."""
    causal = lambda s, b, h, q, kv: (s, q >= kv)  # noqa: E731
    return {
        "none": lambda s, b, h, q, kv: (s, torch.ones((), dtype=torch.bool, device=DEVICE)),
        "causal": causal,
        "documents": lambda s, b, h, q, kv: (s, (ids[b, q] == ids[b, kv]) & (q >= kv)),
        "alibi": lambda s, b, h, q, kv: (s + 0.05 * (kv - q), q >= kv),
        "causal score": lambda s, b, h, q, kv: (s + 0.05 * (kv - q), q >= kv),
    }[name]


def kernels(groups):
    if groups and "blocks" not in groups:
        return []
    return [(program_of(n), dict(dtype=t, head_dim=d, head_dim_v=d, device=0, block_mask=True))
            for n in ("none", "causal", "documents", "alibi", "causal score") for t, d in (("bf16", 128), ("f16", 64))]


# ---- lists ------------------------------------------------------------------------

def lists_of(chosen, rest):
    """Counts and indices of the blocks chosen [.., rows, cols]; `rest` fills
    what the counts leave unused."""
    counts = chosen.sum(-1).int()
    order = torch.argsort(chosen.int(), dim=-1, descending=True, stable=True).int()
    unused = torch.arange(chosen.shape[-1], device=chosen.device) >= counts[..., None]
    return counts.contiguous(), torch.where(unused, rest, order).int().contiguous()


def block_mask(classes, size, with_full=True, rest=-1):
    """classes [B or 1, H or 1, rows, cols]: 0 masked, 1 partial, 2 full."""
    counts, indices = lists_of(classes == 1, rest)
    full = lists_of(classes == 2, rest) if with_full else (None, None)
    return SimpleNamespace(kv_num_blocks=counts, kv_indices=indices, full_kv_num_blocks=full[0],
                           full_kv_indices=full[1], BLOCK_SIZE=size)


def random_classes(B, H, rows, cols, seed, weights=(0.5, 0.3, 0.2)):
    x = torch.rand(B, H, rows, cols, generator=random_of(seed)).to(DEVICE)
    return (x > weights[0]).int() + (x > weights[0] + weights[1]).int()


def with_lists(mod, classes, size, in_full=False):
    """The mod under the lists, by hand. in_full: the mask is of the score_mod
    and acts in full blocks, too."""
    def f(s, b, h, q, kv):
        s, keep = mod(s, b, h, q, kv)
        c = classes[b % classes.shape[0], h % classes.shape[1], q // size[0], kv // size[1]]
        return s, (c > 0) & keep if in_full else (c == 2) | ((c == 1) & keep)
    return f


def list_case(name, classes, size, shape, dtype="bf16", with_full=True, mask=None, rest=-1, **more):
    B, H, Hkv, Sq, Skv, D = shape
    ids = runs(B, max(Sq, Skv), 200, 92)
    tensors = {"ids": ids[:, :Skv].contiguous()} if name == "documents" else None
    if not with_full:
        classes = classes.clamp(max=1)
    mask = mask or block_mask(classes, size, with_full, rest)
    by_hand = with_lists(mod_of(name, ids), classes, size, name == "causal score")
    return check_case(program_of(name), *random_qkv(*shape, dtype=dtype, seed=93), by_hand,
                      tensors=tensors, block_mask=mask, **more)


def blocks(n, size):
    return -(-n // size)


@test("blocks")
def by_hand():
    sizes = ((128, 128), (64, 128), (48, 80), (16, 16), (256, 64), (300, 7), (1, 1000))
    for name in ("none", "causal", "documents", "alibi"):
        for size in sizes:
            shape = (2, 4, 2, 700, 700, 128) if size[1] != 7 else (2, 2, 2, 700, 700, 64)
            dtype = "bf16" if shape[5] == 128 else "f16"
            rows, cols = blocks(700, size[0]), blocks(700, size[1])
            for per_b, per_h in ((2, shape[1]), (1, 1), (2, 1), (1, shape[1])):
                if size not in ((128, 128), (48, 80)) and (per_b, per_h) != (1, 1):
                    continue
                yield f"{name} {size} lists [{per_b}][{per_h}]", lambda: list_case(
                    name, random_classes(per_b, per_h, rows, cols, 94), size, shape, dtype)
            yield f"{name} {size} no full lists", lambda: list_case(
                name, random_classes(1, 1, rows, cols, 95), size, shape, dtype, with_full=False)


@test("blocks")
def lengths():
    for sq, skv in ((1, 1), (333, 517), (517, 333), (2500, 3000), (130, 0)):
        if DEVICE == "cpu" and sq > 1000:
            continue
        for size in ((128, 128), (48, 80)):
            rows, cols = blocks(sq, size[0]), max(blocks(skv, size[1]), 1)
            for name in ("none", "causal"):
                yield f"{name} {size} {sq}x{skv}", lambda: list_case(
                    name, random_classes(1, 1, rows, cols, 96), size, (1, 2, 1, sq, skv, 64), "f16")
    yield "more blocks than the lengths need", lambda: list_case(
        "causal", random_classes(1, 1, 9, 11, 97), (128, 128), (1, 2, 1, 700, 700, 64), "f16")

    def used():
        lengths = torch.tensor([700, 0, 300], dtype=torch.int32, device=DEVICE)
        list_case("causal", random_classes(3, 1, 6, 6, 98), (128, 128), (3, 2, 1, 700, 700, 64), "f16",
                  used_q=lengths, used_kv=lengths.flip(0).contiguous())
    yield "used lengths", used


@test("blocks")
def extremes():
    shape = (1, 2, 1, 700, 700, 128)
    for name in ("none", "causal"):
        for what, value in (("all masked", 0), ("all partial", 1), ("all full", 2)):
            for size in ((128, 128), (48, 80)):
                yield f"{name} {size} {what}", lambda: list_case(
                    name, torch.full((1, 1, blocks(700, size[0]), blocks(700, size[1])), value,
                                     dtype=torch.int32, device=DEVICE), size, shape)
    for size in ((128, 128), (48, 80)):
        yield f"-inf in score_mod, full blocks {size}", lambda: list_case(
            "causal score", random_classes(1, 1, blocks(700, size[0]), blocks(700, size[1]), 105), size, shape)

    def two_masks():
        program = facc.find_program("q >= kv + 5 and score or -math.huge", "q >= kv")
        q, k, v = random_qkv(*shape, seed=106)
        mask = block_mask(random_classes(1, 1, 6, 6, 107), (128, 128))
        try:
            run_poisoned(program, q, k, v, block_mask=mask)
        except facc.Error as e:
            expect(e.status_name == "FACC_ERR_UNSUPPORTED", f"got {e.status_name}: {e}")
            return
        expect(False, "full blocks of a score_mod and a mask_mod that both mask were not refused")
    yield "full blocks, masks in both mods", two_masks
    yield "garbage behind the lists", lambda: list_case(
        "causal", random_classes(1, 1, 6, 6, 99), (128, 128), shape, rest=1 << 30)

    def unsorted():
        classes = random_classes(1, 1, 6, 6, 100)
        mask = block_mask(classes, (128, 128))
        for counts, indices in ((mask.kv_num_blocks, mask.kv_indices),
                                (mask.full_kv_num_blocks, mask.full_kv_indices)):
            for row in range(6):
                n = int(counts[0, 0, row])
                indices[0, 0, row, :n] = indices[0, 0, row, :n].flip(0)
        list_case("causal", classes, (128, 128), shape, mask=mask)
    yield "numbers in descending order", unsorted
    if DEVICE == "cuda":
        def outside():
            classes = random_classes(1, 1, 6, 6, 101)
            mask = block_mask(classes, (128, 128))
            for row in range(6):  # the first partial block of each row is one that is not there
                first = int(mask.kv_indices[0, 0, row, 0])
                if int(mask.kv_num_blocks[0, 0, row]):
                    mask.kv_indices[0, 0, row, 0] = (-1, 6, 1 << 30)[row % 3]
                    classes[0, 0, row, first] = 0
            list_case("causal", classes, (128, 128), shape, mask=mask)
        yield "numbers outside are ignored", outside


# ---- torch's own --------------------------------------------------------------------

@test("blocks")
def from_torch():
    try:
        from torch.nn.attention.flex_attention import create_block_mask
    except ImportError:
        print("SKIPPED torch's block masks: this PyTorch has no FlexAttention")
        return
    S = 1500 if DEVICE == "cuda" else 600
    ids = runs(2, S, 200, 92)
    masks = {"causal": (None, lambda b, h, q, kv: q >= kv),
             "documents": (2, lambda b, h, q, kv: (ids[b, q] == ids[b, kv]) & (q >= kv))}
    for name, (B, mask_mod) in masks.items():
        for size in (128, (64, 128), (128, 64), 256):
            def case():
                bm = create_block_mask(mask_mod, B, None, S, S, device=DEVICE, BLOCK_SIZE=size)
                q, k, v = random_qkv(2, 4, 2, S, S, 128, seed=102)
                tensors = {"ids": ids} if name == "documents" else None
                hand = lambda s, b, h, q, kv: (s, mask_mod(b, h, q, kv))  # noqa: E731
                check_case(program_of(name), q, k, v, hand, tensors=tensors, block_mask=bm)
            yield f"{name} {size}", case


@test("blocks")
def schedule():
    if DEVICE == "cpu":
        return

    def ready():
        classes = random_classes(2, 4, 12, 12, 103)
        mask = block_mask(classes, (128, 128))
        q, k, v = random_qkv(2, 4, 2, 1500, 1500, 128, seed=104)
        launch = prepared(program_of("causal"), q, k, v, block_mask=mask)
        results = []
        for n in range(6):
            launch.arguments.a.schedule_ready = int(n > 2)
            if n < 3:
                launch.workspace.fill_((0xff, 0, 0x5a)[n])
            launch.out.fill_(math.nan)
            launch.lse.fill_(math.nan)
            launch()
            results.append((launch.out.clone(), launch.lse.clone()))
        for other in results[1:]:
            expect(all(same_bits(a, b) for a, b in zip(results[0], other)), "two runs differ")
    yield "repeated, other workspace contents, schedule_ready", ready

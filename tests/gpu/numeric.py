"""Numbers: lengths, head dims, GQA ratios, strides, masked rows, big scores,
all example mods. Every output is poisoned before, and guarded on both sides."""
import functools
import math

import torch

import facc
import mods
from device import DEVICE
from harness import (DTYPES, EXAMPLES, LSE_TOLERANCE, check_case, compare, emulation, expect, guarded, kept,
                     prepared, random_qkv, reference, run_into, run_poisoned, same_bits, spread_sinks, test)

LENGTHS = (1, 2, 37, 127, 128, 129, 255, 257, 511, 1023, 1025, 2049)
HEAD_DIMS = tuple(range(8, 257, 8))
UNEQUAL_DIMS = ((64, 128), (128, 64), (192, 128), (8, 256), (256, 8), (40, 72), (96, 160))
RATIOS = range(1, 65)
FAST_TOLERANCE = 2e-4
MOD_SHAPES = ((2, 4, 2, 300, 128), (1, 6, 2, 1025, 64), (2, 2, 2, 400, 256))  # B H Hkv S D


def plain_program():
    return facc.find_program()


def causal_program():
    return facc.find_program(mask_mod="q >= kv")


def example(name):
    return facc.find_program(program=EXAMPLES / f"{name}.lua")


def kernels(groups):
    """What the tests of these groups (all if none) ask for first of all:
    compiled in parallel beforehand."""
    def wanted(*names):
        return not groups or groups.intersection(names)
    dims = [(64, 64), (128, 128)]
    if wanted("dims"):
        dims = [(d, d) for d in HEAD_DIMS] + list(UNEQUAL_DIMS)
    out = [(p, dict(dtype=t, head_dim=d, head_dim_v=e, device=0))
           for p in (plain_program(), causal_program()) for t in DTYPES for d, e in dims]
    if wanted("mods"):
        out += [(example(n), dict(dtype=t, head_dim=d, head_dim_v=d, device=0))
                for n in mods.EXAMPLES for t in DTYPES for *_, d in MOD_SHAPES]
        out += [(conformance_program(n), dict(dtype="bf16", head_dim=64, head_dim_v=64, device=0))
                for n in mods.CONFORMANCE]
    return out


@functools.cache
def conformance_program(name):
    return facc.Program.from_string(mods.conformance_source(name), name + ".lua")


def both_masks():
    return ((False, plain_program(), None), (True, causal_program(), mods.causal(0, 0, 0, 0)[2]))


@test("lengths")
def every_pair_of_lengths():
    for is_causal, program, mod in both_masks():
        for sq in LENGTHS:
            for skv in LENGTHS:
                dtype = "bf16" if (sq + skv) % 2 else "f16"
                H = 2 if sq * skv > 1 << 20 else 4
                yield (f"{sq}x{skv} causal={is_causal} {dtype}", lambda: check_case(
                    program, *random_qkv(2, H, 2, sq, skv, 64, dtype=dtype, seed=sq * 7 + skv), mod,
                    causal=is_causal))
        for s in LENGTHS:
            for dtype in DTYPES:
                yield f"{s} D=128 causal={is_causal} {dtype}", lambda: check_case(
                    program, *random_qkv(1, 4, 4, s, s, 128, dtype=dtype, seed=s), mod, causal=is_causal)


@test("dims")
def head_dims():
    for is_causal, program, mod in both_masks():
        for dtype in DTYPES:
            for d, e in [(d, d) for d in HEAD_DIMS] + list(UNEQUAL_DIMS):
                yield f"D={d} Dv={e} causal={is_causal} {dtype}", lambda: check_case(
                    program, *random_qkv(1, 2, 2, 257, 257, d, e, dtype=dtype, seed=d + e), mod,
                    causal=is_causal)


@test("gqa")
def ratios():
    for is_causal, program, mod in both_masks():
        for ratio in RATIOS:
            for hkv in (1, 3) if ratio <= 16 else (1,):
                yield f"ratio {ratio} Hkv={hkv} causal={is_causal}", lambda: check_case(
                    program, *random_qkv(2, ratio * hkv, hkv, 129, 257, 64, seed=ratio), mod,
                    causal=is_causal)


def strided_inputs():
    """Equal values, other layouts: (name, q, k, v)."""
    q, k, v = random_qkv(2, 6, 3, 200, 300, 64, seed=11)

    def bshd(x):
        return x.transpose(1, 2).contiguous().transpose(1, 2)

    def in_wide_rows(x):
        wide, _, _ = guarded((*x.shape[:3], 3 * x.shape[3]), x.dtype)
        view = wide[..., 64:128]
        view.copy_(x)
        return view

    def every_other_row(x):
        wide, _, _ = guarded((x.shape[0], x.shape[1], 2 * x.shape[2], x.shape[3]), x.dtype)
        view = wide[:, :, ::2]
        view.copy_(x)
        return view
    yield "BSHD", bshd(q), bshd(k), bshd(v)
    yield "slice of packed QKV", in_wide_rows(q), in_wide_rows(k), in_wide_rows(v)
    yield "every other row", every_other_row(q), every_other_row(k), every_other_row(v)
    yield "SBHD", *(x.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3) for x in (q, k, v))
    yield "one batch expanded", q, k[:1].expand(2, -1, -1, -1), v[:1].expand(2, -1, -1, -1)
    yield "one head expanded", q, k[:, :1].expand(-1, 3, -1, -1), v[:, :1].expand(-1, 3, -1, -1)
    yield "one key row expanded", q, k[:, :, :1].expand(-1, -1, 300, -1), v
    yield "one query row expanded", q[:, :, :1].expand(-1, -1, 200, -1), k, v


@test("strides")
def layouts():
    for is_causal, program, mod in both_masks():
        for name, q, k, v in strided_inputs():
            yield f"{name} causal={is_causal}", lambda: check_case(program, q, k, v, mod)


@test("strides")
def strided_output():
    def transposed():
        q, k, v = random_qkv(2, 4, 4, 130, 150, 64, seed=12)
        buffer = torch.full((2, 130, 4, 64), math.nan, dtype=q.dtype, device=DEVICE)
        lse_buffer = torch.full((130, 2, 4), math.nan, device=DEVICE)
        o, lse = buffer.transpose(1, 2), lse_buffer.permute(1, 2, 0)
        run_into(causal_program(), q, k, v, o, lse)
        mod = mods.causal(0, 0, 0, 0)[2]
        compare(o, lse, reference(q, k, v, mod), emulation(q, k, v, mod))
    yield "O as BSHD, LSE as SBH", transposed

    def beyond_32_bits():
        stride = (1 << 31) + 512
        buffer = torch.empty(stride + 4 * 64 * 64, dtype=torch.bfloat16, device=DEVICE)
        q, k, v = random_qkv(2, 1, 1, 64, 64, 64, seed=13)
        views = []
        for n, x in enumerate((q, k, v)):
            view = buffer[n * 4096:].as_strided((2, 1, 64, 64), (stride, 4096, 64, 1))
            view.copy_(x)
            views.append(view)
        o = buffer[3 * 4096:].as_strided((2, 1, 64, 64), (stride, 4096, 64, 1))
        lse = torch.full((2, 1, 64), math.nan, device=DEVICE)
        run_into(plain_program(), *views, o, lse)
        compare(o, lse, reference(q, k, v), emulation(q, k, v))
    yield "offsets over 2^31 elements", beyond_32_bits

    for D, shift, row in ((64, 4, 64), (64, 1, 64), (64, 0, 65), (40, 3, 77), (128, 0, 132)):
        def misaligned():
            def placed(x):
                buffer, _, _ = guarded((x.shape[0] * x.shape[1] * x.shape[2] * row + 8,), x.dtype)
                view = buffer[shift:].as_strided(
                    x.shape, (x.shape[1] * x.shape[2] * row, x.shape[2] * row, row, 1),
                    buffer.storage_offset() + shift)
                return view.copy_(x)
            q, k, v = (placed(x) for x in random_qkv(1, 2, 2, 70, 90, D, seed=14))
            o = placed(torch.full((1, 2, 70, D), math.nan, dtype=q.dtype, device=DEVICE))
            lse = torch.full((1, 2, 70), math.nan, device=DEVICE)
            run_into(plain_program(), q, k, v, o, lse)
            compare(o, lse, reference(q, k, v), emulation(q, k, v))
        yield f"rows of {row} elements for D={D}, pointers off by {shift}", misaligned


@test("rows")
def used_lengths():
    used_q = torch.tensor([0, 1, 100, 300, 257], dtype=torch.int32, device=DEVICE)
    used_kv = torch.tensor([50, 0, 129, 1, 300], dtype=torch.int32, device=DEVICE)
    for is_causal, program, mod in both_masks():
        for which in ("q", "kv", "both"):
            def case():
                q, k, v = random_qkv(5, 4, 2, 300, 300, 64, seed=21)
                for b in range(5):  # what lies beyond must not be read into results
                    if which != "q":
                        k[b, :, used_kv[b]:] = math.nan
                        v[b, :, used_kv[b]:] = math.nan
                    if which != "kv":
                        q[b, :, used_q[b]:] = math.nan
                check_case(program, q, k, v, mod, used_q=None if which == "kv" else used_q,
                           used_kv=None if which == "q" else used_kv)
            yield f"used {which} causal={is_causal}", case


@test("rows")
def masked_rows():
    def no_keys():
        q, k, v = random_qkv(2, 4, 2, 129, 0, 64)
        check_case(plain_program(), q, k, v)
        check_case(causal_program(), q, k, v, mods.causal(0, 0, 0, 0)[2])
    yield "Skv = 0", no_keys
    for sizes in ((0, 4, 4, 8, 8), (2, 4, 4, 0, 8)):
        def nothing():
            o, lse = run_poisoned(plain_program(), *random_qkv(*sizes, 64))
            expect(o.numel() == 0 and lse.numel() == 0, "an empty call gave values")
        yield f"empty B,H,Hkv,Sq,Skv = {sizes}", nothing
    masks = {
        "kv > q + 150": lambda q, kv: kv > q + 150,
        "q >= 130 and q >= kv": lambda q, kv: (q >= 130) & (q >= kv),
        "kv >= 5000": lambda q, kv: kv >= 5000,
        "q % 3 == 0": lambda q, kv: (q % 3 == 0) & (kv >= 0),
        "q >= kv and q < kv": lambda q, kv: (q >= kv) & (q < kv),
    }
    for text, keep in masks.items():
        def case():
            check_case(facc.find_program(mask_mod=text), *random_qkv(2, 2, 2, 257, 257, 64, seed=22),
                       lambda s, b, h, q, kv: (s, keep(q, kv)))
        yield text, case

    def minus_infinity_score():
        mod = lambda s, b, h, q, kv: (torch.where(kv >= 140, s, -math.inf), True)  # noqa: E731
        check_case(facc.find_program(score_mod="kv >= 140 and score or -math.huge"),
                   *random_qkv(2, 2, 2, 257, 257, 64, seed=23), mod)
    yield "-inf scores over whole tiles", minus_infinity_score

    def garbage_where_masked():
        # score_mod gives NaN on masked cells: log of a negative number.
        mod = lambda s, b, h, q, kv: (s + torch.log((q - kv + 1).double()).nan_to_num().to(s.dtype), q >= kv)  # noqa: E731
        check_case(facc.find_program(score_mod="score + math.log(q - kv + 1)", mask_mod="q >= kv"),
                   *random_qkv(2, 2, 2, 257, 257, 64, seed=24), mod)
    yield "NaN scores where masked", garbage_where_masked


@test("sinks")
def sinks():
    masks = {None: None, "q >= kv": lambda q, kv: q >= kv, "q % 3 == 0": lambda q, kv: (q % 3 == 0) & (kv >= 0),
             "kv > q + 150": lambda q, kv: kv > q + 150}

    def mod_of(keep):
        return keep and (lambda s, b, h, q, kv: (s, keep(q, kv)))
    for text, keep in masks.items():
        for dtype, (d, e), out in (("bf16", (128, 128), None), ("f16", (64, 64), None), ("bf16", (256, 256), None),
                                   ("f16", (40, 72), "f32")):
            yield f"{text or 'plain'} D={d} Dv={e} {dtype}", lambda: check_case(
                facc.find_program(mask_mod=text), *random_qkv(2, 8, 2, 257, 300, d, e, dtype=dtype, seed=31),
                mod_of(keep), sinks=spread_sinks(8), variant={"out_dtype": out} if out else None)
    for gain in (0.05, 8):
        yield f"scores of {gain}", lambda: check_case(
            causal_program(), *random_qkv(1, 8, 8, 300, 300, 64, seed=32, gain=gain), mod_of(masks["q >= kv"]),
            sinks=spread_sinks(8))
    yield "Skv = 0", lambda: check_case(plain_program(), *random_qkv(2, 8, 2, 129, 0, 64), sinks=spread_sinks(8))
    yield "a score_mod, scale", lambda: check_case(
        facc.find_program(score_mod="20 * math.tanh(score / 20) + (kv - q) / 64"),
        *random_qkv(2, 8, 4, 200, 300, 128, seed=33),
        lambda s, b, h, q, kv: (20 * torch.tanh(s / 20) + (kv - q) / 64, True), sinks=spread_sinks(8), scale=0.3)

    def used():
        q, k, v = random_qkv(3, 8, 2, 300, 300, 64, seed=34)
        lengths = [torch.tensor(n, dtype=torch.int32, device=DEVICE) for n in ([0, 100, 257], [50, 0, 129])]
        check_case(causal_program(), q, k, v, mod_of(masks["q >= kv"]), used_q=lengths[0], used_kv=lengths[1],
                   sinks=spread_sinks(8))
    yield "used lengths", used

    def packed():
        q, k, v = random_qkv(1, 8, 2, 500, 500, 64, seed=35)
        ends = [0, 5, 205, 205, 500]
        cu = torch.tensor(ends, dtype=torch.int32, device=DEVICE)
        o, lse = run_poisoned(causal_program(), q, k, v, cu_seqlens_q=cu, cu_seqlens_kv=cu, sinks=spread_sinks(8))
        for first, end in zip(ends, ends[1:]):
            if first == end:
                continue
            x = [t[:, :, first:end] for t in (q, k, v)]
            compare(o[:, :, first:end], lse[:, :, first:end],
                    reference(*x, mod_of(masks["q >= kv"]), sinks=spread_sinks(8)),
                    emulation(*x, mod_of(masks["q >= kv"]), sinks=spread_sinks(8)))
    yield "packed", packed

    def odd(values):
        """Heads with these against heads without sinks."""
        q, k, v = random_qkv(2, 8, 2, 130, 200, 64, seed=36)
        program = facc.find_program(mask_mod="q % 3 == 0")
        given = torch.full((8,), -math.inf, device=DEVICE)
        given[:len(values)] = torch.tensor(values, device=DEVICE)
        o, lse = run_poisoned(program, q, k, v, sinks=given)
        plain = run_poisoned(program, q, k, v)
        keys = torch.arange(130, device=DEVICE) % 3 == 0
        n = len(values)
        expect(same_bits(o[:, n:], plain[0][:, n:]) and same_bits(lse[:, n:], plain[1][:, n:]),
               "a sink of -inf is not none")
        expect(bool(torch.isnan(o[:, :n, keys]).all() and torch.isnan(lse[:, :n, keys]).all()), "numbers of NaN")
        expect(bool((o[:, :n, ~keys] == 0).all()), "output of rows without keys")
        want = given[:n].view(1, n, 1).expand(2, n, int((~keys).sum()))
        expect(torch.equal(torch.nan_to_num(lse[:, :n, ~keys], 7), torch.nan_to_num(want, 7)), "LSE is not the sink")
    yield "infinity and NaN", lambda: odd((math.inf, math.nan))
    yield "minus infinity is none", lambda: odd(())

    def strided(step):
        q, k, v = random_qkv(2, 8, 2, 130, 200, 64, seed=37)
        values = spread_sinks(8) if step else torch.full((8,), 0.5, device=DEVICE)
        other = values.repeat_interleave(step)[::step] if step else values[:1].expand(8)
        a = run_poisoned(causal_program(), q, k, v, sinks=values)
        b = run_poisoned(causal_program(), q, k, v, sinks=other)
        expect(same_bits(a[0], b[0]) and same_bits(a[1], b[1]), "the stride of sinks counts")
    for step in (3, 0):
        yield f"stride {step}", lambda: strided(step)


@test("dropout")
def dropout():
    causal = lambda s, b, h, q, kv: (s, q >= kv)  # noqa: E731
    some = dict(dropout_p=0.1, seed=2**40 + 5, offset=3 * 2**32 + 7)
    for text, mod in ((None, None), ("q >= kv", causal), ("q % 3 == 0", lambda s, b, h, q, kv: (s, q % 3 == 0))):
        for dtype, (d, e), out, p in (("bf16", (128, 128), None, 0.1), ("f16", (64, 64), None, 0.5),
                                      ("bf16", (256, 256), None, 0.2), ("f16", (40, 72), "f32", 0.3),
                                      ("bf16", (96, 96), None, 0.9)):
            yield f"{text or 'plain'} D={d} Dv={e} {dtype} p={p}", lambda: check_case(
                facc.find_program(mask_mod=text), *random_qkv(2, 8, 2, 257, 300, d, e, dtype=dtype, seed=61), mod,
                dropout={**some, "dropout_p": p}, variant={"out_dtype": out} if out else None)
    yield "a score_mod, scale", lambda: check_case(
        facc.find_program(score_mod="20 * math.tanh(score / 20) + (kv - q) / 64"),
        *random_qkv(2, 8, 4, 200, 300, 128, seed=62),
        lambda s, b, h, q, kv: (20 * torch.tanh(s / 20) + (kv - q) / 64, True), dropout=some, scale=0.3)
    yield "sinks", lambda: check_case(causal_program(), *random_qkv(2, 8, 2, 257, 300, 64, seed=63), causal,
                                      dropout=some, sinks=spread_sinks(8))
    yield "scores of 8", lambda: check_case(causal_program(), *random_qkv(1, 8, 8, 300, 300, 64, seed=64, gain=8),
                                            causal, dropout=some)
    yield "Skv = 0", lambda: check_case(plain_program(), *random_qkv(2, 8, 2, 129, 0, 64), dropout=some)

    def decisions(dtype, D, sq, kernel):
        """V the identity and equal scores: what is 0 was dropped, in cells and by their number."""
        q, k, v = random_qkv(2, 3, 1, sq, D, D, dtype=dtype)
        q.zero_()
        v.copy_(torch.eye(D, device=DEVICE).expand_as(v))
        o, _ = run_poisoned(plain_program(), q, k, v, variant=kernel, **some)
        keep = kept((2, 3, sq, D), some)
        expect(torch.equal(o != 0, keep), "other weights are dropped than philox.h says")
        host = facc.attention(*(x.cpu().contiguous() for x in (q, k, v)), program=plain_program(), **some)
        expect(torch.equal(o.cpu() != 0, host != 0), "other weights are dropped than on the CPU")
        share = float((o == 0).double().mean())
        expect(abs(share - 0.1) < 5 * (0.09 / o.numel()) ** 0.5, f"{share} are dropped")
    for dtype in DTYPES:
        for D in (64, 96, 128, 192, 256):
            for kernel in ({}, {"family": "sm80"}):
                yield f"decisions D={D} {dtype} {kernel}", lambda: decisions(dtype, D, 333, kernel)

    def used():
        q, k, v = random_qkv(3, 8, 2, 300, 300, 64, seed=65)
        lengths = [torch.tensor(n, dtype=torch.int32, device=DEVICE) for n in ([0, 100, 257], [50, 0, 129])]
        check_case(causal_program(), q, k, v, causal, used_q=lengths[0], used_kv=lengths[1], dropout=some)
    yield "used lengths", used

    def packed():
        q, k, v = random_qkv(1, 8, 2, 500, 500, 64, seed=66)
        ends = [0, 5, 205, 205, 500]
        cu = torch.tensor(ends, dtype=torch.int32, device=DEVICE)
        o, lse = run_poisoned(causal_program(), q, k, v, cu_seqlens_q=cu, cu_seqlens_kv=cu, **some)
        for b, (first, end) in enumerate(zip(ends, ends[1:])):
            if first == end:
                continue
            x = [t[:, :, first:end] for t in (q, k, v)]
            compare(o[:, :, first:end], lse[:, :, first:end], reference(*x, causal, dropout=some, first=b),
                    emulation(*x, causal, dropout=some, first=b))
    yield "packed", packed

    def nothing(D, kernel):
        """Probability 0 has the bits of kernels without; so has the LSE of any."""
        q, k, v = random_qkv(2, 8, 2, 300, 400, D, seed=67)
        plain = run_poisoned(causal_program(), q, k, v, variant=kernel)
        none = run_poisoned(causal_program(), q, k, v, variant={**kernel, "dropout": True})
        expect(same_bits(plain[0], none[0]) and same_bits(plain[1], none[1]), "probability 0 has other bits")
        half = run_poisoned(causal_program(), q, k, v, variant=kernel, dropout_p=0.5, seed=1)
        again = run_poisoned(causal_program(), q, k, v, variant=kernel, dropout_p=0.5, seed=1)
        expect(same_bits(plain[1], half[1]), "the LSE is another")
        expect(same_bits(half[0], again[0]), "the second launch has other bits")
        expect(not same_bits(plain[0], half[0]), "nothing is dropped")
    for D in (64, 128, 256):
        for kernel in ({}, {"family": "sm80"}):
            yield f"probability 0 D={D} {kernel}", lambda: nothing(D, kernel)

    def new_seed():
        q, k, v = random_qkv(1, 4, 4, 200, 300, 64, seed=68)
        launch = prepared(causal_program(), q, k, v, dropout_p=0.5, seed=1)
        first = launch().clone()
        launch.set_dropout(2)
        second = launch().clone()
        launch.set_dropout(1, 0)
        expect(same_bits(first, launch()) and not same_bits(first, second), "set_dropout")
    if DEVICE == "cuda":
        yield "another seed of a launch", new_seed


@test("values")
def big_and_odd_values():
    for gain in (20, 120):
        for dtype in DTYPES:
            yield f"scores around {gain * gain * 3:.0f} {dtype}", lambda: check_case(
                plain_program(), *random_qkv(1, 4, 4, 257, 257, 64, dtype=dtype, seed=31, gain=gain))
    for scale in (1.0, 0.01, -0.125, 3e-5):
        yield f"scale {scale}", lambda: check_case(
            causal_program(), *random_qkv(1, 2, 2, 257, 257, 64, seed=32),
            mods.causal(0, 0, 0, 0)[2], scale=scale)

    # A factor of 2 at 1e5: f32 has 7 digits, and the peer adds in another unit.
    for offset, factor in ((1e4, 1.2), (-1e4, 1.2), (1e5, 2), (-1e5, 2)):
        yield f"scores offset by {offset:g}", lambda: check_case(
            facc.find_program(score_mod=f"score + {offset}"), *random_qkv(1, 2, 2, 129, 129, 64, seed=33),
            lambda s, b, h, q, kv: (s + offset, True), factor=factor)

    def nan_stays_in_its_row():
        q, k, v = random_qkv(1, 2, 2, 200, 200, 64, seed=34)
        q[0, 1, 77, 5] = math.nan
        o = facc.attention(q, k, v)
        bad = torch.isnan(o).any(-1)
        expect(bool(bad[0, 1, 77]) and int(bad.sum()) == 1, "NaN left its row, or was lost")
    yield "NaN in one query row", nan_stays_in_its_row


@test("mods")
def examples_by_hand():
    for name, inputs in mods.EXAMPLES.items():
        fast = name == "softcap_fast"
        for dtype in DTYPES:
            for B, H, Hkv, S, D in MOD_SHAPES:
                def case():
                    tensors, params, mod = inputs(B, H, S, S)
                    check_case(example(name), *random_qkv(B, H, Hkv, S, S, D, dtype=dtype, seed=41),
                               mod, tensors=tensors, params=params,
                               lse_tolerance=FAST_TOLERANCE if fast else LSE_TOLERANCE)
                yield f"{name} {dtype} S={S} D={D}", case
        if name not in ("document", "document_causal", "sentence_softcap", "shared_prefix"):  # read ids at q
            def unequal():
                tensors, params, mod = inputs(2, 4, 333, 257)
                check_case(example(name), *random_qkv(2, 4, 4, 333, 257, 64, seed=42), mod,
                           tensors=tensors, params=params,
                           lse_tolerance=FAST_TOLERANCE if fast else LSE_TOLERANCE)
            yield f"{name} 333x257", unequal


def oracle_case(program, q, k, v, tensors, params, tolerance=LSE_TOLERANCE):
    """facc's kernel against facc's CPU oracle; the peer, with no scores of its
    own, is the oracle's result with the rounding of FA2: twice its last place."""
    o, lse = run_poisoned(program, q, k, v, tensors=tensors, params=params)
    host = {n: x.cpu() for n, x in tensors.items()}
    ref_o, ref_lse = facc.oracle(q.cpu(), k.cpu(), v.cpu(), program=program, tensors=host, params=params)
    ref_o, ref_lse = ref_o.to(DEVICE), ref_lse.to(DEVICE)
    expect(not torch.isnan(o).any(), "NaN in the output")
    empty = ref_lse == -math.inf
    expect(torch.equal(lse == -math.inf, empty), "LSE is -inf on other rows than the oracle's")
    d = (lse.double() - ref_lse)[~empty].abs() / ref_lse[~empty].abs().clamp(min=1)
    expect(not d.numel() or float(d.max()) <= tolerance, f"LSE error {float(d.max() if d.numel() else 0):.2e}")
    # P and O are each rounded once, relative to |P| |V| of the row.
    bound = torch.finfo(q.dtype).eps * float(v.nan_to_num().abs().max())
    worst = float((o.double() - ref_o).abs().max())
    expect(worst <= bound, f"output error {worst:.3e} over {bound:.3e}")


@test("mods")
def examples_by_oracle():
    for name, inputs in mods.EXAMPLES.items():
        def case():
            tensors, params, _ = inputs(2, 4, 300, 300)
            oracle_case(example(name), *random_qkv(2, 4, 2, 300, 300, 64, seed=43), tensors, params,
                        FAST_TOLERANCE if name == "softcap_fast" else LSE_TOLERANCE)
        yield f"{name} (CPU oracle)", case


@test("mods")
def conformance_rows():
    for name, (_, _, tensors, params) in mods.CONFORMANCE.items():
        def case():
            made = {n: f() for n, f in tensors.items()}
            oracle_case(conformance_program(name), *random_qkv(
                mods.B, mods.H, 2, mods.S, mods.S, 64, seed=44), made, params)
        yield name, case


@test("repeat")
def bitwise():
    for name in ("causal", "alibi_window", "softcap_fast", "document_causal", "relative_bias"):
        def case():
            tensors, params, _ = mods.EXAMPLES[name](4, 4, 700, 700)
            q, k, v = random_qkv(4, 4, 2, 700, 700, 64, seed=51)
            call = dict(tensors=tensors, params=params)
            first = run_poisoned(example(name), q, k, v, **call)
            for _ in range(3):
                again = run_poisoned(example(name), q, k, v, **call)
                expect(torch.equal(first[0], again[0]) and torch.equal(first[1], again[1]),
                       "two runs differ")
            if "ids" not in tensors:  # batch composition does not matter
                alone = run_poisoned(example(name), q[2:3], k[2:3], v[2:3], **call)
                expect(torch.equal(first[0][2:3], alone[0]), "a sequence alone gives other bits")
            copies = [x.clone() for x in (q, k, v)]  # nor does placement
            moved = run_poisoned(example(name), *copies, **call)
            expect(torch.equal(first[0], moved[0]), "other addresses give other bits")
        yield name, case

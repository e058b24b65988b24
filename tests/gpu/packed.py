"""Packed sequences and padded batches: each sequence equals, bit for bit, that
sequence run alone by the same kernel; against f64 too; nothing is written
outside."""
import math

import torch

import facc
from device import DEVICE
from harness import (DTYPES, EXAMPLES, compare, emulation, expect, guarded, guards_intact, random_qkv,
                     reference, run_into, run_poisoned, same_bits, test)
from mask_list import made, oracle, random_of, runs

LENGTHS_Q = (0, 1, 37, 513, 128, 1, 0, 300, 256, 129)
LENGTHS_KV = (17, 1, 37, 700, 0, 129, 0, 64, 255, 130)
LONG = (2600, 1, 0, 3100)


# ---- mods: name -> (q lengths equal kv lengths, f(lengths) -> Mask). "B" is the sequence. ----

def plain(n, q, kv):
    return made("", "return true", keep=lambda b, h, i, j: (i >= 0) & (j >= 0))


def causal(n, q, kv):
    return made("", "return q >= kv", keep=lambda b, h, i, j: i >= j)


def window(n, q, kv):
    return made('local w = facc.param("w", "i32")', "return q >= kv and q - kv < w", params={"w": 100},
                keep=lambda b, h, i, j: (i >= j) & (i - j < 100))


def bottom_right(n, q, kv):
    return made("", "return kv <= q + facc.len.kv(b) - facc.len.q(b)", keep=None)


def prefix(n, q, kv):
    p = torch.randint(0, 200, (n,), generator=random_of(81)).int().to(DEVICE)
    return made('local prefix = facc.tensor("prefix", "i32", { "B" })', "return kv < prefix[b] or q >= kv",
                {"prefix": p}, keep=lambda b, h, i, j: (j < p[b]) | (i >= j))


def document_causal(n, q, kv):
    ids = runs(n, kv, 150, 82)
    return made('local ids = facc.tensor("ids", "i32", { "B", "kv" })',
                "return ids[b][q] == ids[b][kv] and q >= kv", {"ids": ids},
                keep=lambda b, h, i, j: (ids[b, i.clamp(max=kv - 1)] == ids[b, j]) & (i >= j))


def dense(n, q, kv):
    table = (torch.rand(n, q, kv, generator=random_of(83)) < 0.01).to(DEVICE)
    table[:, :, 100:300] = False
    table |= torch.eye(q, kv, dtype=torch.bool, device=DEVICE)
    return made('local dense = facc.tensor("dense", "bool", { "B", "q", "kv" })', "return dense(b, q, kv)",
                {"dense": table}, keep=lambda b, h, i, j: table[b, i, j])


def dilated(n, q, kv):
    return made("", "local d = math.abs(q - kv)\n  return d <= 300 and d % 4 == 0",
                keep=lambda b, h, i, j: ((i - j).abs() <= 300) & ((i - j) % 4 == 0))


def sequence_and_head(n, q, kv):
    return made("", "return (q >= kv or b % 3 == 1) and q - kv < 64 << h",
                keep=lambda b, h, i, j: ((i >= j) | (b % 3 == 1)) & (i - j < 64 * 2 ** h))


MODS = {f.__name__.replace("_", " "): f for f in (
    plain, causal, window, bottom_right, prefix, document_causal, dense, dilated, sequence_and_head)}
SAME_LENGTHS = ("document causal",)  # reads ids at q
# b is 0 for a sequence alone: these look at b itself
READS_B = ("sequence and head",)


def program_for(name):
    source = MODS[name](2, 8, 8).source
    return facc.Program.from_string(source, name.replace(" ", "_") + ".lua")


PROGRAMS = {}


def program_of(name):
    if name not in PROGRAMS:
        PROGRAMS[name] = program_for(name)
    return PROGRAMS[name]


def kernels(groups):
    if groups and "packed" not in groups:
        return []
    return [(program_of(n), dict(dtype=t, head_dim=d, head_dim_v=d, device=0, **packed))
            for n in MODS for t, d in (("bf16", 128), ("f16", 64)) for packed in ({"packed": True}, {})]


# ---- one packed call -----------------------------------------------------------------

def i32(values):
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def offsets(lengths):
    return i32([0, *torch.tensor(lengths).cumsum(0).tolist()])


def alone(tensors, b, sq, skv):
    """Captured tensors as sequence b alone has them."""
    out = {}
    for name, x in tensors.items():
        x = x[b:b + 1]
        if name == "ids":
            x = x[:, :skv]
        if name == "dense":
            x = x[:, :sq, :skv]
        out[name] = x.contiguous()
    return out


class Packed:
    """Sequences one behind the other, with rows of nobody behind the last."""

    def __init__(self, name, lengths_q, lengths_kv, H, Hkv, D, dtype, seed=90, tail=5):
        self.lengths = list(zip(lengths_q, lengths_kv))
        self.n = len(self.lengths)
        self.cu_q, self.cu_kv = offsets(lengths_q), offsets(lengths_kv)
        self.longest = max(1, *lengths_q), max(1, *lengths_kv)
        self.mask, self.program = MODS[name](self.n, *self.longest), program_of(name)
        self.q, self.k, self.v = random_qkv(1, H, Hkv, sum(lengths_q) + tail, sum(lengths_kv) + tail, D,
                                            dtype=dtype, seed=seed)
        self.tail = tail

    def run(self, exact=True, **more):
        """Output and LSE, checked for writes outside: poisoned, guarded."""
        o, o_buffer, o_span = guarded(self.q.shape, self.q.dtype)
        lse, l_buffer, l_span = guarded(self.q.shape[:3], torch.float32)
        if exact:
            more.update(max_seqlen_q=self.longest[0], max_seqlen_kv=self.longest[1])
        run_into(self.program, self.q, self.k, self.v, o, lse, tensors=self.mask.tensors,
                 params=self.mask.params, cu_seqlens_q=self.cu_q, cu_seqlens_kv=self.cu_kv, **more)
        expect(guards_intact(o_buffer, o_span), "written outside the output")
        expect(guards_intact(l_buffer, l_span), "written outside the LSE")
        end = int(self.cu_q[-1])
        expect(bool(torch.isnan(o[:, :, end:]).all()) and bool(torch.isnan(lse[:, :, end:]).all()),
               "rows of no sequence are written")
        return o, lse

    def sequence(self, b, used=None):
        """q, k, v of sequence b, cut to its used lengths."""
        sq, skv = used or self.lengths[b]
        i, j = int(self.cu_q[b]), int(self.cu_kv[b])
        return self.q[:, :, i:i + sq], self.k[:, :, j:j + skv], self.v[:, :, j:j + skv]

    def rows(self, x, b):
        return x[:, :, int(self.cu_q[b]):int(self.cu_q[b + 1])]


def check_packed(name, packed, o, lse, used=None, bits=True):
    for b in range(packed.n):
        lengths = packed.lengths[b] if used is None else used[b]
        sq = lengths[0]
        q, k, v = packed.sequence(b, lengths)
        got_o, got_lse = packed.rows(o, b), packed.rows(lse, b)
        expect(bool((got_o[:, :, sq:] == 0).all()) and bool((got_lse[:, :, sq:] == -math.inf).all()),
               f"sequence {b}: rows beyond the used length are not 0 and -inf")
        if sq == 0:
            continue
        got_o, got_lse = got_o[:, :, :sq], got_lse[:, :, :sq]
        if bits:
            tensors = alone(packed.mask.tensors, b, *lengths)
            want_o, want_lse = run_poisoned(packed.program, q, k, v, tensors=tensors, params=packed.mask.params)
            expect(same_bits(got_lse, want_lse), f"sequence {b} {lengths}: LSE differs from the sequence alone")
            expect(same_bits(got_o, want_o), f"sequence {b} {lengths}: output differs from the sequence alone")
        keep = packed.mask.keep or (lambda b, h, i, j: j <= i + lengths[1] - lengths[0])
        mod = lambda s, _, h, i, j: (s, keep(b, h, i, j))  # noqa: E731
        compare(got_o, got_lse, reference(q, k, v, mod), emulation(q, k, v, mod))


def packed_case(name, lengths_q, lengths_kv, H, Hkv, D, dtype, exact=True):
    packed = Packed(name, lengths_q, lengths_kv, H, Hkv, D, dtype)
    o, lse = packed.run(exact)
    check_packed(name, packed, o, lse, bits=name not in READS_B)


@test("packed")
def every_mod():
    for name in MODS:
        kv = LENGTHS_Q if name in SAME_LENGTHS else LENGTHS_KV
        yield f"{name} bf16 D=128", lambda: packed_case(name, LENGTHS_Q, kv, 4, 2, 128, "bf16")
        yield f"{name} f16 D=64, no longest lengths", lambda: packed_case(
            name, LENGTHS_Q, kv, 2, 1, 64, "f16", exact=name in ("dense", "document causal"))
        if DEVICE == "cuda":
            yield f"{name} long", lambda: packed_case(name, LONG, LONG, 2, 1, 128, "bf16")


@test("packed")
def odd_batches():
    for name in ("causal", "prefix", "dilated"):
        yield f"{name} one sequence", lambda: packed_case(name, (77,), (99,), 2, 2, 64, "f16")
        yield f"{name} nothing but empty ones", lambda: packed_case(name, (0, 0, 0), (0, 5, 0), 2, 2, 64, "f16")
        yield f"{name} all of length 1", lambda: packed_case(name, (1,) * 40, (1,) * 40, 2, 2, 64, "f16")
        many = torch.randint(0, 60, (300,), generator=random_of(84)).tolist()
        if DEVICE == "cuda":
            yield f"{name} 300 short sequences", lambda: packed_case(name, many, many, 2, 1, 64, "f16")


@test("packed")
def used_inside():
    used_q = (0, 1, 20, 500, 0, 1, 0, 300, 128, 1)
    used_kv = (9, 0, 37, 130, 0, 128, 0, 1, 255, 129)
    for name in ("plain", "causal", "bottom right", "prefix", "dilated", "dense"):
        for which in ("q", "kv", "both"):
            def case():
                packed = Packed(name, LENGTHS_Q, LENGTHS_KV, 2, 1, 64, "f16")
                uq = LENGTHS_Q if which == "kv" else used_q
                ukv = LENGTHS_KV if which == "q" else used_kv
                for b in range(packed.n):  # what lies beyond must not reach results
                    i, j = int(packed.cu_q[b]), int(packed.cu_kv[b])
                    packed.q[:, :, i + uq[b]:i + LENGTHS_Q[b]] = math.nan
                    packed.k[:, :, j + ukv[b]:j + LENGTHS_KV[b]] = math.nan
                    packed.v[:, :, j + ukv[b]:j + LENGTHS_KV[b]] = math.nan
                o, lse = packed.run(seqused_q=None if which == "kv" else i32(used_q),
                                    seqused_kv=None if which == "q" else i32(used_kv))
                check_packed(name, packed, o, lse, used=list(zip(uq, ukv)))
            yield f"{name} used {which}", case


@test("packed")
def padded_batches():
    """[B, H, S, D] with used lengths: each sequence as if alone."""
    used = (0, 1, 129, 700, 512)
    for name in MODS:
        def case():
            mask, program = MODS[name](5, 700, 700), program_of(name)
            q, k, v = random_qkv(5, 4, 2, 700, 700, 64, dtype="f16", seed=91)
            o, lse = run_poisoned(program, q, k, v, tensors=mask.tensors, params=mask.params,
                                  seqused_q=i32(used), seqused_kv=i32(used))
            for b, n in enumerate(used):
                expect(bool((o[b, :, n:] == 0).all()) and bool((lse[b, :, n:] == -math.inf).all()),
                       "rows beyond the used length are not 0 and -inf")
                if n == 0 or name in READS_B:
                    continue
                want = run_poisoned(program, *(x[b:b + 1, :, :n] for x in (q, k, v)),
                                    tensors=alone(mask.tensors, b, n, n), params=mask.params)
                expect(same_bits(o[b:b + 1, :, :n], want[0]) and same_bits(lse[b:b + 1, :, :n], want[1]),
                       f"sequence {b} of {n} differs from the sequence alone")
        yield name, case


@test("packed")
def as_the_example():
    def example():
        name, program = "document causal", facc.find_program(program=EXAMPLES / "document_causal.lua")
        packed = Packed(name, LENGTHS_Q, LENGTHS_Q, 2, 2, 64, "f16")
        packed.program = program
        o, lse = packed.run()
        check_packed(name, packed, o, lse)
    yield "document_causal.lua", example


@test("packed")
def repeated_and_changed():
    if DEVICE == "cpu":
        return

    def other_offsets():
        """The same launch with other offsets in the same memory."""
        from harness import prepared
        packed = Packed("prefix", (200, 300, 100), (200, 300, 100), 2, 1, 128, "bf16", tail=0)
        launch = prepared(packed.program, packed.q, packed.k, packed.v, tensors=packed.mask.tensors,
                          cu_seqlens_q=packed.cu_q, cu_seqlens_kv=packed.cu_kv, max_seqlen_q=600,
                          max_seqlen_kv=600)
        for lengths in ((200, 300, 100), (0, 600, 0), (1, 598, 1), (300, 0, 300)):
            packed.lengths = list(zip(lengths, lengths))
            packed.cu_q.copy_(offsets(lengths))
            packed.cu_kv.copy_(offsets(lengths))
            results = []
            for _ in range(2):
                launch.out.fill_(math.nan)
                launch.lse.fill_(math.nan)
                launch()
                results.append((launch.out.clone(), launch.lse.clone()))
            expect(all(same_bits(a, b) for a, b in zip(*results)), "two runs differ")
            check_packed("prefix", packed, *results[0])
    yield "offsets change in place", other_offsets

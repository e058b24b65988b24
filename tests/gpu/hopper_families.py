"""Cases of hopper.py: sequences, the grid, repeated launches, choice of the family."""
import itertools
import math

import torch

import facc
import harness
import mods
import packed as sequences
from device import DEVICE
from harness import check_case, compare, emulation, expect, random_qkv, reference, run_poisoned, same_bits
from hopper_base import CAUSAL, KEEPS, PLAIN, case, expression, group, heads, mod_of, one, spec
from hopper_layouts import rows_of
from hopper_values import PATTERNS, along
from numeric import example


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

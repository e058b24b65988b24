"""The rows of bench_hopper.py: what is compared with what, and what is to be
reached. Pure: times come in as a dict, lines of a table go out."""
import math
from typing import NamedTuple

from hopper_mods import Mod
from method import TOKENS, WIDTH


class Shape(NamedTuple):
    """Contestants of one shape are timed in one interleaved run; those beside
    FlexAttention, which is slow to make, in a run of their own."""
    D: int
    S: int
    Dv: int = 0  # 0: D
    flex: bool = False

    def __str__(self):
        return f"D {self.D}{f'/{self.Dv}' if self.Dv else ''}, S {self.S}{', beside FlexAttention' if self.flex else ''}"


class Contestant(NamedTuple):
    """who: facc, cudnn, flex, hand (facc with the Variant of BY_HAND), facc128,
    facc192 (facc at the head dims OWN, whatever the shape). how: "" as it is; "ready" without
    making the mask's schedule or lists, "made" with; each in a CUDA graph or
    "made, eager"."""
    who: str
    mod: str
    how: str = ""

    def __str__(self):
        return f"{self.who} {self.mod}{', ' + self.how if self.how else ''}"


OWN = {"facc128": (128, 128), "facc192": (192, 128)}
BY_HAND = {"causal": "causal_by_hand.cuh", "alibi+causal": "alibi_by_hand.cuh", "t5+causal": "t5_by_hand.cuh",
           "documents": "documents_by_hand.cuh"}


class Row(NamedTuple):
    title: str
    shape: Shape
    a: Contestant  # facc
    b: Contestant
    must: float
    aim: float
    time: bool = False  # the ratio is of times: at most `must`; else of speeds: at least


GEOMETRIC_MODS = ("none", "causal", "alibi", "alibi+causal", "relbias", "softcap+causal", "window")
GEOMETRIC_LENGTHS = (2048, 8192)
MOD_NAMES = {"none": "full", "relbias": "relative bias", "window": "window 1024"}
GEOMETRIC = "geometric mean against FlexAttention"


def dense_rows():
    for D, S, must, aim in ((128, 8192, (1.12, 1.21), (1.20, 1.30)), (128, 2048, (1.11, 1.21), (1.18, 1.30)),
                            (64, 8192, (1.18, 1.20), (1.28, 1.30)), (256, 8192, (1.07, 1.19), (1.14, 1.28)),
                            (128, 512, (1.10, 1.02), (1.20, 1.12)), (128, 16384, (1.12, 1.21), (1.20, 1.30))):
        for n, mod in enumerate(("none", "causal")):
            yield Row(f"D {D}, S {S}, {'causal' if n else 'full'}", Shape(D, S), Contestant("facc", mod),
                      Contestant("cudnn", mod), must[n], aim[n])


def head_dim_rows():
    for D, Dv in ((96, 0), (192, 0), (192, 128)):
        for mod in ("none", "causal"):
            shape = Shape(D, 8192, Dv)
            yield Row(f"{shape}, {'full' if mod == 'none' else mod}, per FLOP of own D 128", shape, Contestant("facc", mod),
                      Contestant("facc128", mod), 0.85, 0.95)


def mod_rows():
    shape = Shape(128, 8192)
    for title, mod, must, aim in (("ALiBi", "alibi", 1.15, 1.22), ("relative bias (score + q - kv)", "relbias", 0.98, 1.15),
                                  ("key bias", "keybias", 1.05, 1.15), ("T5-type table", "t5", 0.85, 1.0),
                                  ("softcap", "softcap", 0.98, 1.08)):
        yield Row(f"{title}, causal", shape, Contestant("facc", mod + "+causal"), Contestant("cudnn", "causal"), must, aim)


def flex_rows():
    shape = Shape(128, 8192, flex=True)
    yield Row("window 1024, time / FlexAttention", shape, Contestant("facc", "window"), Contestant("flex", "window"),
              0.55, 0.45, True)
    for how, must, aim, text in (("ready", 0.55, 0.45, "kernel alone"), ("made", 0.40, 0.30, "with mask preparation"),
                                 ("made, eager", 0.40, 0.30, "with mask preparation, eager")):
        yield Row(f"16 documents, time / FlexAttention, {text}", shape, Contestant("facc", "documents", how),
                  Contestant("flex", "documents", how), must, aim, True)
    for S in GEOMETRIC_LENGTHS:
        for mod in GEOMETRIC_MODS:
            yield Row(f"{GEOMETRIC}: {MOD_NAMES.get(mod, mod)}, S {S}", Shape(128, S, flex=True), Contestant("facc", mod),
                      Contestant("flex", mod), 1.15, math.nan)


def dot_rows():
    for n, mask in enumerate(("full", "causal")):
        yield Row(f"MLA, 128 + 64 by facc.dot, {mask}, per FLOP of own D 192/128", Shape(128, 8192),
                  Contestant("facc", "mla+causal" if n else "mla"), Contestant("facc192", "causal" if n else "none"), 0.97, 1.0)


def hand_rows():
    yield Row("causal by verdicts / bound by hand", Shape(128, 8192), Contestant("facc", "causal"),
              Contestant("hand", "causal"), 0.98, 1.00)
    # documents: what is compared is the kernel; its lists are made alike
    for title, mod, how in (("ALiBi, causal", "alibi+causal", ""), ("T5-type table, causal", "t5+causal", ""),
                            ("16 documents", "documents", "ready")):
        yield Row(f"{title} / by hand", Shape(128, 8192), Contestant("facc", mod, how),
                  Contestant("hand", mod, how), 0.97, 1.00)


def gather_rows():
    for title, mod in (("windowed table", "table"), ("dense bias [H, Sq, Skv], bf16", "densebias16"),
                       ("dense bias [H, Sq, Skv], f32", "densebias")):
        yield Row(f"gather: {title}, against FlexAttention", Shape(128, 8192, flex=True), Contestant("facc", mod),
                  Contestant("flex", mod), 1.5, math.nan)


ROWS = [*dense_rows(), *mod_rows(), *hand_rows(), *dot_rows(), *head_dim_rows(), *flex_rows(), *gather_rows()]


# ---- figures ---------------------------------------------------------------------

def flops(shape, contestant):
    """Floating-point operations of one call."""
    D, Dv = OWN.get(contestant.who, (shape.D, shape.Dv or shape.D))
    mod = Mod(contestant.mod)
    return 2 * (D + mod.columns + Dv) * (TOKENS // shape.S) * (WIDTH // D) * mod.cells(shape.S)


def rate(shape, contestant, ms):
    """TFLOP/s"""
    return flops(shape, contestant) / ms / 1e9


class Result(NamedTuple):
    title: str
    must: float
    aim: float
    time: bool
    ratio: float = math.nan  # nan: no figure
    note: str = ""
    ms: tuple = (math.nan, math.nan)
    tflops: tuple = (math.nan, math.nan)

    @property
    def state(self):
        if math.isnan(self.ratio):
            return "SKIPPED"
        good, best = ((self.ratio <= x) if self.time else (self.ratio >= x) for x in (self.must, self.aim))
        return "AIM" if good and best else "OK" if good else "BELOW" if not self.time else "ABOVE"


def result(row, times, why):
    """times: {(shape, contestant): ms}; why(shape, contestant): why there is none."""
    found = [times.get((row.shape, x)) for x in (row.a, row.b)]
    missing = [x for x, ms in zip((row.a, row.b), found) if ms is None]
    if missing:
        return Result(row.title, row.must, row.aim, row.time, note="; ".join(f"{x}: {why(row.shape, x)}" for x in missing))
    rates = tuple(rate(row.shape, x, ms) for x, ms in zip((row.a, row.b), found))
    ratio = found[0] / found[1] if row.time else rates[0] / rates[1]
    return Result(row.title, row.must, row.aim, row.time, ratio, "", tuple(found), rates)


def geometric_mean(results):
    """The row over all rows of GEOMETRIC; None if none of them was asked for."""
    parts = [r for r in results if r.title.startswith(GEOMETRIC)]
    if not parts:
        return None
    ratios, wanted = [r.ratio for r in parts if not math.isnan(r.ratio)], len(GEOMETRIC_MODS) * len(GEOMETRIC_LENGTHS)
    note = f"of {len(ratios)} of {wanted}" if len(ratios) < wanted else f"least {min(ratios):.3f}"
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    return Result(GEOMETRIC, 1.6, 1.9, False, mean, note)


def results(rows, times, why):
    out = [result(r, times, why) for r in rows]
    mean = geometric_mean(out)
    return out + ([mean] if mean else [])


def contestants(rows):
    """{shape: [contestants, each once]} in the order of the rows."""
    out = {}
    for r in rows:
        of_shape = out.setdefault(r.shape, [])
        of_shape += [x for x in (r.a, r.b) if x not in of_shape]
    return out


# ---- what is printed ---------------------------------------------------------------

HEAD = ("case", "must", "aim", "measured", "", "facc ms", "TFLOP/s", "peer ms", "TFLOP/s", "note")


def number(x, digits):
    return "-" if math.isnan(x) else f"{x:.{digits}f}"


def cells_of(r):
    sign = "<=" if r.time else ">="
    return (r.title, f"{sign} {r.must:.2f}", number(r.aim, 2), number(r.ratio, 3), r.state, number(r.ms[0], 4),
            number(r.tflops[0], 0), number(r.ms[1], 4), number(r.tflops[1], 0), r.note)


def csv_rows(found):
    yield "case", "kind", "must", "aim", "measured", "state", "facc_ms", "facc_tflops", "peer_ms", "peer_tflops", "note"
    for r in found:
        figures = ["" if math.isnan(x) else f"{x:.6g}" for x in (r.ratio, r.ms[0], r.tflops[0], r.ms[1], r.tflops[1])]
        yield (r.title, "time" if r.time else "speed", r.must, r.aim, figures[0], r.state, *figures[1:], r.note)


def summary(found):
    states = [r.state for r in found]
    return ", ".join(f"{states.count(s)} {s}" for s in ("AIM", "OK", "BELOW", "ABOVE", "SKIPPED") if s in states)

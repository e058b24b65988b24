"""Section causal_generic of bench_gpu.py: what generated bounds cost against a
bound written by hand in the same kernel (causal_by_hand.cuh)."""
import pathlib
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor

from bench_mask_list import lua
from bench_masks import D, H, qkv
from bench_schedule import schedule_flags
from method import ROOT, in_graph, interleaved, prepared, ready, table

HERE = pathlib.Path(__file__).resolve().parent


def templates_by_hand(folder, variant="causal_by_hand.cuh"):
    """A copy of the templates that takes a file beside this one for the Variant."""
    copy = pathlib.Path(folder) / "templates"
    shutil.copytree(ROOT / "templates", copy)
    changed = 0
    for f in [*copy.rglob("*.cu"), *copy.rglob("*.cuh")]:
        text = f.read_text()
        if '#include "facc_variant.cuh"' in text:
            f.write_text(text.replace('#include "facc_variant.cuh"', f'#include "{variant}"'))
            changed += 1
    if not changed:
        raise RuntimeError("no template includes facc_variant.cuh")
    shutil.copy(HERE / variant, copy)
    return copy


def alike(launch, other):
    """Whether two kernels visit the same tiles in the same order, so that their
    bits must be equal: direction and tile."""
    def of(x):
        i = x.kernel.info
        flags = schedule_flags(x.kernel.program, dtype="bf16", head_dim=D, head_dim_v=D, device=0)
        return flags["kReverse"], i.tile_m, i.tile_n, i.warps
    return of(launch) == of(other)


def programs_of(facc, by_hand):
    """{kernel: program}, compiled side by side."""
    limit = 'local limit = facc.tensor("limit", "i32", { "q" })'
    out = {"generated": facc.find_program(mask_mod="q >= kv"),
           "by hand": facc.Program.from_expressions(mask="q >= kv", context=by_hand),
           "planned": facc.find_program(mask_mod="q >= kv or q + kv < p", params={"p": 0}),
           "ranged": facc.Program.from_string(lua(limit, "return kv <= limit[q]"), "limit.lua"),
           # the bound beside the tensor gives the direction of "by hand"
           "ranged, causal too": facc.Program.from_string(lua(limit, "return q >= kv and kv <= limit[q]"), "both.lua")}
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda p: p.kernel(dtype="bf16", head_dim=D, head_dim_v=D, device=0), out.values()))
    return out


def launches_of(programs, S, q, k, v):
    import torch
    limit = torch.arange(S, dtype=torch.int32, device=q.device)
    return {n: prepared(p, q, k, v, params={"p": 0} if p.params else {}, tensors={"limit": limit} if p.tensors else {})
            for n, p in programs.items()}


def same_bits(launches):
    """{kernel: equal to "by hand"}; None: another order of sums, not comparable."""
    import torch
    for launch in launches.values():
        launch.out.fill_(float("nan"))
        launch()
    torch.cuda.synchronize()
    hand = launches["by hand"]
    return {n: torch.equal(x.out, hand.out) and torch.equal(x.lse, hand.lse) if alike(x, hand) else None
            for n, x in launches.items()}


def causal_generic(args, facc):
    """generated: bounds made by facc. by hand: the same kernel with a bound
    written by hand. planned, ranged: masks that are causal but no plain bound."""
    q, k, v = qkv()
    rows, out = [], []
    with tempfile.TemporaryDirectory() as folder, \
            facc.Context(templates=str(templates_by_hand(folder)), cache_mode="off") as by_hand:
        programs = programs_of(facc, by_hand)
        for S_ in (2048, 8192):
            launches = launches_of(programs, S_, *(x[:, :, :S_].contiguous() for x in (q, k, v)))
            same = same_bits(launches)
            calls = {n: in_graph(x) for n, x in launches.items()}
            for n in ("planned", "ranged", "ranged, causal too"):
                calls[n + ", ready"] = in_graph(ready(launches[n]))
            ms = interleaved(calls, 2 * args.rounds + 1)
            base = ms["by hand"]
            for n, t in ms.items():
                info = launches[n.removesuffix(", ready")].kernel.info
                bits = {None: "other order", True: "equal", False: "DIFFER"}[same[n.removesuffix(", ready")]]
                rows.append((S_, n, f"{info.tile_m} x {info.tile_n}", f"{t:.4f}", f"{t / base:.4f}", bits))
            out.append(dict(S=S_, ms=ms, over_hand={n: t / base for n, t in ms.items()}, same_bits=same))
    table(f"Causal, bf16, B 1, H {H}, D {D}", ("S", "kernel", "tile", "ms", "/ by hand", "bits"), rows)
    for r in out:
        print(f"\nS {r['S']}: generated / by hand {r['over_hand']['generated']:.4f} (to be at most 1.02)")
    if not all(r["same_bits"]["generated"] for r in out):
        raise RuntimeError("generated and by hand give other bits (or have other tiles)")
    wrong = {n for r in out for n, equal in r["same_bits"].items() if equal is False}
    if wrong:
        print(f"same direction and tiles, but other bits: {', '.join(sorted(wrong))}: WRONG")
    return out

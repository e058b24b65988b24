"""Section causal_generic of bench_gpu.py: what generated bounds cost against a
bound written by hand in the same kernel (causal_by_hand.cuh)."""
import pathlib
import shutil
import tempfile

from bench_gpu import ROOT, interleaved, prepared, table
from bench_masks import D, H, in_graph, lua, qkv, ready

HERE = pathlib.Path(__file__).resolve().parent


def templates_by_hand(folder):
    """A copy of the templates that takes causal_by_hand.cuh for the Variant."""
    copy = pathlib.Path(folder) / "templates"
    shutil.copytree(ROOT / "templates", copy)
    changed = 0
    for f in [*copy.rglob("*.cu"), *copy.rglob("*.cuh")]:
        text = f.read_text()
        if '#include "facc_variant.cuh"' in text:
            f.write_text(text.replace('#include "facc_variant.cuh"', '#include "causal_by_hand.cuh"'))
            changed += 1
    if not changed:
        raise RuntimeError("no template includes facc_variant.cuh")
    shutil.copy(HERE / "causal_by_hand.cuh", copy)
    return copy


def causal_generic(args, facc):
    """generated: bounds made by facc. by hand: the same kernel with a bound
    written by hand. planned: a mask that is causal but no plain bound."""
    import torch
    q, k, v = qkv()
    rows, out = [], []
    with tempfile.TemporaryDirectory() as folder, \
            facc.Context(templates=str(templates_by_hand(folder)), cache_mode="off") as by_hand:
        for S_ in (2048, 8192):
            a, b, c = (x[:, :, :S_].contiguous() for x in (q, k, v))
            planned = facc.find_program(mask_mod="q >= kv or q + kv < p", params={"p": 0})
            limit = torch.arange(S_, dtype=torch.int32, device="cuda")
            ranged = facc.Program.from_string(
                lua('local limit = facc.tensor("limit", "i32", { "q" })', "return kv <= limit[q]"), "limit.lua")
            launches = {"generated": prepared(facc.find_program(mask_mod="q >= kv"), a, b, c),
                        "by hand": prepared(facc.Program.from_expressions(mask="q >= kv", context=by_hand), a, b, c),
                        "planned": prepared(planned, a, b, c, params={"p": 0}),
                        "ranged": prepared(ranged, a, b, c, tensors={"limit": limit})}
            for launch in launches.values():
                launch()
            torch.cuda.synchronize()
            same = all(torch.equal(x.out, launches["by hand"].out) for x in launches.values())
            calls = {n: in_graph(x) for n, x in launches.items()}
            for n in ("planned", "ranged"):
                calls[n + ", ready"] = in_graph(ready(launches[n]))
            ms = interleaved(calls, 2 * args.rounds + 1)
            base = ms["by hand"]
            for n, t in ms.items():
                rows.append((S_, n, f"{t:.4f}", f"{t / base:.4f}"))
            out.append(dict(S=S_, ms=ms, over_hand={n: t / base for n, t in ms.items()}, same_bits=same))
    table(f"Causal, bf16, B 1, H {H}, D {D}", ("S", "kernel", "ms", "/ by hand"), rows)
    for r in out:
        print(f"\nS {r['S']}: generated / by hand {r['over_hand']['generated']:.4f} (to be at most 1.02); "
              f"equal bits: {r['same_bits']}")
    return out

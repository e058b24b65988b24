#!/usr/bin/env python3
"""GPU figures, as markdown tables and JSON.

plain   forward against PyTorch's FA2 and cuDNN (SDPA backends)
mods    forward with mods against facc's own kernel without
launch  host time of facc_kernel_launch against a bare cuLaunchKernel (bench_host.py)
launches, cycles   memory over a million launches; over kernels that are loaded and freed (bench_host.py)
disk    a cache hit on disk: from the request to the loaded kernel (bench_host.py)
masks           masks that need a schedule, beside FlexAttention (bench_masks.py)
causal_generic  causal as generated and by hand in the same kernel (bench_causal.py)
million         up to a million tokens, and FlexAttention there (bench_long.py)
packed          64 packed sequences against the dense kernel (bench_long.py)

The method is that of method.py: interleaved bursts, medians, ratios.

    python3 tests/bench/bench_gpu.py [--sections plain,mods] [--json FILE]
"""
import argparse
import importlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from method import ROOT, TOKENS, WIDTH, inputs, interleaved, prepared, sdpa, table, teraflops  # noqa: E402


# ---- sections -------------------------------------------------------------------

def plain(args, facc):
    import torch
    from torch.nn.attention import SDPBackend
    programs = {False: facc.find_program(), True: facc.find_program(mask_mod="q >= kv")}
    rows, out = [], []
    for dtype in args.dtypes:
        for D in args.dims:
            for S in args.lengths:
                element = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
                q, k, v = inputs(D, S, element)
                for causal in (False, True):
                    contestants = {"facc": prepared(programs[causal], q, k, v),
                                   "FA2": sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, causal)}
                    try:
                        contestants["cuDNN"] = sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, causal)
                    except RuntimeError as e:
                        print("cuDNN cannot run this row:", str(e).splitlines()[0], file=sys.stderr)
                    ms = interleaved(contestants, args.rounds)
                    rate = {n: teraflops(D, S, causal, t) for n, t in ms.items()}
                    rows.append((dtype, D, S, "causal" if causal else "full", f"{rate['facc']:.0f}",
                                 f"{rate['FA2']:.0f}", f"{rate.get('cuDNN', math.nan):.0f}",
                                 f"{rate['facc'] / rate['FA2']:.3f}",
                                 f"{rate['facc'] / rate.get('cuDNN', math.nan):.3f}"))
                    out.append(dict(dtype=dtype, D=D, S=S, causal=causal, ms=ms, tflops=rate,
                                    over_fa2=rate["facc"] / rate["FA2"]))
    table("Forward, TFLOP/s", ("dtype", "D", "S", "mask", "facc sm80", "FA2", "cuDNN", "facc / FA2",
                               "facc / cuDNN"), rows)
    worst = min(out, key=lambda r: r["over_fa2"])
    print(f"\nLowest ratio to FA2: {worst['over_fa2']:.3f} ({worst['dtype']}, D {worst['D']}, S "
          f"{worst['S']}, {'causal' if worst['causal'] else 'full'})")
    return out


def mod_programs(facc, D, S):
    """(name, base, program, tensors, params): base names the kernel without
    the mod that it is measured against."""
    import mods
    B, H = TOKENS // S, WIDTH // D
    import torch
    positions = torch.arange(S, dtype=torch.int32, device="cuda")
    sixteen = (positions // (S // 16)).expand(B, S).contiguous()
    slopes = mods.slopes(H)

    def example(name):
        return facc.find_program(program=ROOT / "examples" / f"{name}.lua")

    def expression(score=None, mask=None, tensors=None, params=None):
        return facc.find_program(score, mask, None, tensors, params), tensors or {}, params or {}
    alibi = "score + slopes[h] * (kv - q)"
    cap, fast = "20 * math.tanh(score / 20)", "20 * facc.tanh_fast(score / 20)"
    yield "ALiBi", "full", example("alibi"), {"slopes": slopes}, {}
    yield ("ALiBi + causal", "causal", *expression(alibi, "q >= kv", {"slopes": slopes}))
    yield "softcap", "full", example("softcap"), {}, {}
    yield ("softcap + causal", "causal", *expression(cap, "q >= kv"))
    yield "softcap, fast tanh", "full", example("softcap_fast"), {}, {}
    yield ("softcap, fast tanh + causal", "causal", *expression(fast, "q >= kv"))
    yield "16 documents", "full", example("document"), {"ids": sixteen}, {}
    yield "16 documents + causal", "causal", example("document_causal"), {"ids": sixteen}, {}
    yield "window 1024", "causal", example("sliding_window"), {}, {"window": 1024}
    yield ("relative bias", "full", example("relative_bias"), {"bias": mods.normal(H, 257)}, {})


def with_mods(args, facc):
    import torch
    rows, out = [], []
    for D in args.dims:
        for S in [s for s in args.lengths if s in (2048, 8192)] or args.lengths[-1:]:
            q, k, v = inputs(D, S, torch.bfloat16)
            contestants = {"full": prepared(facc.find_program(), q, k, v),
                           "causal": prepared(facc.find_program(mask_mod="q >= kv"), q, k, v)}
            bases = {}
            for name, base, program, tensors, params in mod_programs(facc, D, S):
                contestants[name] = prepared(program, q, k, v, tensors=tensors, params=params)
                bases[name] = base
            ms = interleaved(contestants, args.rounds)
            for name, base in bases.items():
                rows.append((D, S, name, f"{ms[name]:.4f}", base, f"{ms[base]:.4f}",
                             f"{ms[name] / ms[base]:.3f}"))
                out.append(dict(D=D, S=S, mod=name, base=base, ms=ms[name], base_ms=ms[base],
                                over_base=ms[name] / ms[base]))
    table("Mods, bf16, milliseconds",
          ("D", "S", "mod", "with mod", "without", "ms", "time / without"), rows)
    return out


def elsewhere(module, function):
    """A section of another file, which is loaded when it is asked for."""
    def section(args, facc):
        return getattr(importlib.import_module(module), function)(args, facc)
    return section


SECTIONS = {"plain": plain, "mods": with_mods,
            "launch": elsewhere("bench_host", "launch_overhead"), "disk": elsewhere("bench_host", "disk_hit"),
            "launches": elsewhere("bench_host", "many_launches"), "cycles": elsewhere("bench_host", "cycles"),
            "masks": elsewhere("bench_masks", "masks"),
            "causal_generic": elsewhere("bench_causal", "causal_generic"),
            "million": elsewhere("bench_long", "million"), "packed": elsewhere("bench_long", "packed")}


def run_section(name, args, facc):
    """What the section gives; or the error."""
    try:
        return SECTIONS[name](args, facc)
    except Exception as e:
        traceback.print_exc(limit=-4)
        print(f"\n{name}: FAILED: {type(e).__name__}: {str(e)[:400]}", flush=True)
        return dict(error=f"{type(e).__name__}: {e}")


def in_processes(names, args):
    """Each section in a process of its own, so that neither a fault of the GPU
    nor a hang in one ends the others. Their results."""
    result, seconds, rest, words = {}, {}, [], iter(sys.argv[1:])
    for word in words:
        if word in ("--sections", "--json"):
            next(words)
        elif not word.startswith(("--sections=", "--json=")):
            rest.append(word)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            file, start = pathlib.Path(folder) / f"{name}.json", time.time()
            command = [sys.executable, "-u", __file__, "--sections", name, "--json", str(file), *rest]
            try:
                code = subprocess.run(command, timeout=args.section_seconds).returncode
                end = f"ended with {code}"
            except subprocess.TimeoutExpired:
                end = f"took more than {args.section_seconds:.0f} s"
                print(f"\n{name}: FAILED: {end}", flush=True)
            found = json.loads(file.read_text()) if file.exists() else {}
            result.update({**found, name: found.get(name, dict(error=end))})
            seconds[name] = time.time() - start
            if args.json:
                write_json(args.json, result)
    print("\nseconds, with the start of the process:", ", ".join(f"{n} {t:.0f}" for n, t in seconds.items()),
          f"; all {sum(seconds.values()):.0f}")
    return result


def write_json(file, result):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")


def failures(result, names):
    return [n for n in names if isinstance(result.get(n), dict) and "error" in result[n]]


def main():
    def numbers(text):
        return [int(n) for n in text.split(",")]
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--sections", default=",".join(SECTIONS))
    p.add_argument("--dims", type=numbers, default=[64, 128])
    p.add_argument("--lengths", type=numbers, default=[2048, 4096, 8192, 16384])
    p.add_argument("--dtypes", type=lambda t: t.split(","), default=["bf16", "f16"])
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--flex", default="all", help="masks beside FlexAttention: all, none, or names")
    p.add_argument("--mask-batches", type=numbers, default=[2], help="B of 'masks': 2 (B * S as elsewhere), or 2,1")
    p.add_argument("--flex-seconds", type=float, default=45, help="limit of each child of 'million'")
    p.add_argument("--section-seconds", type=float, default=240, help="limit of a section, if there are several")
    p.add_argument("--json", type=pathlib.Path, help="write all figures here")
    args = p.parse_args()
    try:
        import torch
    except ImportError:
        print("SKIPPED: GPU benchmark: PyTorch is not installed")
        return 0
    if not torch.cuda.is_available():
        print("SKIPPED: GPU benchmark: there is no GPU")
        return 0
    os.environ.setdefault("FACC_LOG", "off")
    names = args.sections.split(",")
    unknown = [n for n in names if n not in SECTIONS]
    if unknown:
        p.error(f"no section '{unknown[0]}'; there are {', '.join(SECTIONS)}")
    if len(names) > 1:
        result = in_processes(names, args)
        print("\nsections that failed:", ", ".join(failures(result, names)) or "none")
        return 1 if failures(result, names) else 0
    import facc
    driver = facc.default_context().system()["driver_version"]
    result = dict(gpu=torch.cuda.get_device_name(), torch=torch.__version__, driver_cuda=driver,
                  facc=facc.version(), cores=os.cpu_count(), rounds=args.rounds)
    print(f"{result['gpu']}, PyTorch {torch.__version__}, driver for CUDA {driver / 1000:.1f}, "
          f"facc {facc.version()}; B*S = {TOKENS}, H*D = {WIDTH}")
    name, start = names[0], time.time()
    result[name] = run_section(name, args, facc)
    print(f"\n({name}: {time.time() - start:.0f} s)", flush=True)
    if args.json:
        write_json(args.json, result)
    return 1 if failures(result, names) else 0


if __name__ == "__main__":
    sys.exit(main())

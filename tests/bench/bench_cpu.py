#!/usr/bin/env python3
"""Figures that need no GPU, as markdown tables and JSON.

cpu      attention on the CPU: B1 H8 S2048 D64 f32, causal and ALiBi + window
compile  cold, from Lua text to cubin, over the examples: NVRTC loaded, no
         cache of facc's and none of NVRTC's own
memory   peak resident memory of `facc compile`, one example per process

Needs build/release (libfacc.so and facc), NumPy, and NVRTC for the last two.

    build/venv/bin/python tests/bench/bench_cpu.py [--json FILE]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime" / "python"))
EXAMPLES = sorted((ROOT / "examples").glob("*.lua"))


def table(title, head, rows):
    print(f"\n### {title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(x) for x in row) + " |")
    sys.stdout.flush()


def cpu(args):
    import numpy as np
    import facc
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, 8, 2048, 64), np.float32) for _ in range(3))
    slopes = np.float32([2.0 ** -(h + 1) for h in range(8)])
    cases = {
        "full": {},
        "causal": dict(program=ROOT / "examples" / "causal.lua"),
        "ALiBi + window 256": dict(program=ROOT / "examples" / "alibi_window.lua",
                                   tensors={"slopes": slopes}, params={"window": 256}),
        "ALiBi + window 2048": dict(program=ROOT / "examples" / "alibi_window.lua",
                                    tensors={"slopes": slopes}, params={"window": 2048}),
    }
    out, rows = {}, []
    with facc.Context(cpu_threads=args.threads) as context:
        for name, call in cases.items():
            times = []
            for _ in range(args.rounds + 1):
                start = time.perf_counter()
                facc.attention(q, k, v, context=context, **call)
                times.append(time.perf_counter() - start)
            out[name] = statistics.median(times[1:])
            rows.append((name, f"{out[name]:.3f}", f"{min(times[1:]):.3f}"))
        threads = args.threads or context.system()["cpu_threads"]
        isa = context.system()["cpu_isa"]
    table(f"CPU, B1 H8 S2048 D64 f32, {threads} threads, {isa}, seconds",
          ("mod", "median", "best"), rows)
    return out


def compile_times(args):
    import facc
    out, rows = [], []
    with facc.Context(cache_mode="off") as first:
        # This one keeps NVRTC loaded, which has then compiled once.
        facc.Program.from_expressions(mask="kv > q", context=first).kernel(
            dtype="bf16", head_dim=64, arch=args.arch)
        for f in EXAMPLES:
            for D in (64, 128):
                times = []
                for _ in range(args.compile_rounds):
                    with facc.Context(cache_mode="off") as cold:
                        start = time.perf_counter()
                        kernel = facc.Program.from_file(f, cold).kernel(
                            dtype="bf16", head_dim=D, arch=args.arch)
                        times.append(time.perf_counter() - start)
                        info = kernel.info
                    if info.source != "nvrtc":
                        raise RuntimeError(f"{f.name} came from {info.source}")
                out.append(dict(example=f.stem, D=D, seconds=statistics.median(times),
                                registers=info.registers, spill_bytes=info.spill_bytes,
                                cubin_bytes=info.cubin_bytes))
                r = out[-1]
                rows.append((f.stem, D, f"{r['seconds']:.3f}", r["registers"], r["spill_bytes"],
                             r["cubin_bytes"]))
    seconds = [r["seconds"] for r in out]
    table(f"Lua to cubin, bf16, sm_{args.arch}, {os.cpu_count()} cores, seconds",
          ("example", "D", "seconds", "registers", "spill bytes", "cubin bytes"), rows)
    print(f"\nMedian {statistics.median(seconds):.3f} s, largest {max(seconds):.3f} s")
    return out


def peak_memory(args):
    """Of a whole process: the CLI, NVRTC and one compile."""
    facc = ROOT / "build" / "release" / "facc"
    out, rows = {}, []
    for f in EXAMPLES:
        child = subprocess.Popen(
            [facc, "compile", f, "--arch", str(args.arch), "--dtype", "bf16", "--head-dim", "128"],
            env={**os.environ, "FACC_CACHE": "off"}, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise RuntimeError(f"facc compile {f.name} ended with {child.returncode}")
        out[f.stem] = usage.ru_maxrss / 1024
        rows.append((f.stem, f"{out[f.stem]:.0f}"))
    table("Peak memory of `facc compile`, D 128, MiB", ("example", "MiB"), rows)
    print(f"\nLargest {max(out.values()):.0f} MiB")
    return out


# Memory comes first: a child's peak counts what this process held when it was started.
SECTIONS = {"memory": peak_memory, "cpu": cpu, "compile": compile_times}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--sections", default=",".join(SECTIONS))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--compile-rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=0, help="0: all")
    p.add_argument("--arch", type=int, default=90)
    p.add_argument("--json", type=pathlib.Path, help="write all figures here")
    args = p.parse_args()
    os.environ.setdefault("FACC_LOG", "off")
    result = dict(cores=os.cpu_count())
    for name in sorted(args.sections.split(","), key=list(SECTIONS).index):
        result[name] = SECTIONS[name](args)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

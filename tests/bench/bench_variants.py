#!/usr/bin/env python3
"""Compares versions of the kernel templates: each folder given is compiled for
each case, checked against PyTorch in f32 on a small case and against f64 on
sampled rows of the real one, then all folders (and cuDNN) are timed in one
interleaved run per case. One line for each case and folder.

    python3 tests/bench/bench_variants.py templates /tmp/new --cases causal:128:8192 softcap+causal:128:8192
    python3 tests/bench/bench_variants.py base=templates new=/tmp/new --cases none:128/64:2048 mine.lua:64:4096:causal

A case is MOD:D[/Dv]:S[:causal]. MOD is one of hopper_mods.py (none, causal,
alibi+causal, softcap+causal, window, documents …) or a Lua file that captures
nothing; ":causal" says of a file that half of its cells count (no check)."""
import argparse
import json
import os
import pathlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from checks import Watch, sampled_error, small_error  # noqa: E402
from hopper_mods import Mod  # noqa: E402
from method import HEAD_START, TOKENS, WIDTH, inputs, interleaved, prepared, sdpa, table  # noqa: E402


class Case(NamedTuple):
    mod: str
    D: int
    Dv: int
    S: int
    causal: bool

    @classmethod
    def parse(cls, text):
        mod, D, S, *rest = text.split(":")
        D, _, Dv = D.partition("/")
        file = mod.endswith(".lua")
        if rest not in ([], ["causal"]) or (rest and not file):
            raise ValueError(f"'{text}': a case is MOD:D[/Dv]:S, of a Lua file also MOD:D:S:causal")
        return cls(mod, int(D), int(Dv or D), int(S), bool(rest) if file else Mod(mod).causal)

    def __str__(self):
        return f"{pathlib.Path(self.mod).stem} {self.D}{f'/{self.Dv}' if self.Dv != self.D else ''} S {self.S}"

    @property
    def known(self):
        """The Mod, with its formula in PyTorch; None of a Lua file."""
        return None if self.mod.endswith(".lua") else Mod(self.mod)

    def lua(self):
        return self.known.lua() if self.known else pathlib.Path(self.mod).read_text()

    def flops(self):
        cells = self.known.cells(self.S) if self.known else self.S**2 // (2 if self.causal else 1)
        return 2 * (self.D + self.Dv) * (TOKENS // self.S) * (WIDTH // self.D) * cells


def compiled(facc, folders, cases, variant, jobs):
    """{(folder's name, case): (program, info) or error text}"""
    contexts = {n: facc.Context(templates=str(f), cache_mode="off") for n, f in folders.items()}

    def compile_one(job):
        name, case = job
        try:
            program = facc.Program.from_string(case.lua(), pathlib.Path(case.mod).name, contexts[name])
            kernel = program.kernel(dtype="bf16", head_dim=case.D, head_dim_v=case.Dv, device=0, **variant)
            return job, (program, kernel.info)
        except Exception as e:
            log = getattr(e, "log", "") or ""
            return job, "\n".join([str(e), *[x for x in log.splitlines() if "error" in x or "C75" in x][:8]])
    with ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(compile_one, [(n, c) for c in cases for n in folders]))


def add(calls, errors, name, case, program, qkv, variant):
    """Checks one folder's kernel, and adds its launch to the contestants."""
    import torch
    mod, (q, k, v) = case.known, qkv
    tensors = mod.captured(*q.shape[:3]) if mod else {}
    launch = prepared(program, q, k, v, variant, tensors=tensors, params=mod.params if mod else {})
    launch.out.fill_(float("nan"))
    launch()
    torch.cuda.synchronize()
    if mod:
        errors[name] = (small_error(program, mod, case.D, case.Dv, variant), *sampled_error(launch, q, k, v, mod, tensors))
    calls[name] = launch


def contest(case, built, args, watch):
    """{name: ms}, {name: errors} of one case."""
    import torch
    from torch.nn.attention import SDPBackend
    qkv, calls, errors = inputs(case.D, case.S, torch.bfloat16, case.Dv), {}, {}
    for (name, c), what in built.items():
        if c != case or isinstance(what, str):
            continue
        watch.step(f"{case}: {name}", 30)
        try:
            add(calls, errors, name, case, what[0], qkv, args.variant)
        except Exception as e:
            print(f"{case}: {name}: FAILED: {type(e).__name__}: {str(e).splitlines()[0][:200]}", flush=True)
            torch.cuda.synchronize()  # raises after a fault: nothing more can be measured
    if not args.no_cudnn:
        try:
            calls["cuDNN"] = sdpa(SDPBackend.CUDNN_ATTENTION, *qkv, case.causal)
        except RuntimeError as e:
            print(f"{case}: cuDNN cannot: {str(e).splitlines()[0]}")
    watch.step(f"timing {case}", 60)
    return interleaved(calls, args.rounds, HEAD_START) if calls else {}, errors


HEAD = ("case", "templates", "ms", "TFLOP/s", "/ cuDNN", "/ first", "error, small", "error, sampled", "LSE", "kernel")


def lines(case, ms, errors, built):
    """Cells of the table; ratios are of speeds."""
    first = next((t for n, t in ms.items() if n != "cuDNN"), None)
    for name, t in ms.items():
        error, info = errors.get(name), built.get((name, case), (None, None))[1]
        about = f"{info.family} {info.tile_m}x{info.tile_n} w{info.warps} regs {info.registers} spill {info.spill_bytes}" \
            if info else ""
        cudnn = f"{ms['cuDNN'] / t:.3f}" if "cuDNN" in ms else "-"
        yield (case, name, f"{t:.4f}", f"{case.flops() / t / 1e9:.0f}", cudnn, f"{first / t:.3f}" if first else "-",
               *([f"{x:.2e}" for x in error] if error else ["-"] * 3), about)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="+", metavar="[NAME=]FOLDER", help="template folders; the first is the base")
    p.add_argument("--cases", nargs="+", default=["causal:128:8192", "none:128:8192"], metavar="MOD:D[/Dv]:S")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--layout", choices=["any", "aligned"], default="aligned")
    p.add_argument("--family", choices=["sm80", "sm90"], help="default: the best")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--no-cudnn", action="store_true")
    p.add_argument("--json", type=pathlib.Path)
    args = p.parse_args()
    args.variant = {n: x for n, x in (("layout", args.layout), ("family", args.family)) if x}
    folders = {}
    for text in args.folders:
        name, _, folder = text.rpartition("=")
        folder = pathlib.Path(folder).resolve()
        if not (folder / "sm80").is_dir():
            p.error(f"{folder} is no folder of templates")
        name = name or folder.name
        folders[name if name not in folders else f"{name} {len(folders)}"] = folder
    try:
        cases = [Case.parse(c) for c in args.cases]
    except ValueError as e:
        p.error(str(e))
    return args, folders, cases


def main():
    args, folders, cases = arguments()
    import torch
    import facc
    if not torch.cuda.is_available():
        print("SKIPPED: there is no GPU")
        return 0
    os.environ.setdefault("FACC_LOG", "off")
    cells, out, start = [], [], time.time()
    watch = Watch(lambda: table("Templates", HEAD, cells))
    watch.step("compiling", 200)
    built = compiled(facc, folders, cases, args.variant, args.jobs)
    print(f"(compiled in {time.time() - start:.1f} s)", flush=True)
    for (name, case), what in built.items():
        if isinstance(what, str):
            print(f"{case}: {name}: NOT COMPILED: {what}", flush=True)
    for case in cases:
        try:
            ms, errors = contest(case, built, args, watch)
        except Exception as e:
            print(f"STOPPED at {case}: {type(e).__name__}: {e}", flush=True)
            break
        cells += lines(case, ms, errors, built)
        out.append(dict(case=str(case), ms=ms, errors=errors))
    table("Templates", HEAD, cells)
    print(f"\n{time.time() - start:.0f} s")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(out, indent=1) + "\n")
    sys.stdout.flush()
    os._exit(0)  # contexts may be freed in any order


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""GPU figures, as markdown tables and JSON.

plain   forward against PyTorch's FA2 and cuDNN (SDPA backends)
mods    forward with mods against facc's own kernel without
launch  host time of facc_kernel_launch against a bare cuLaunchKernel
disk    a cache hit on disk: from the request to the loaded kernel
masks           masks that need a schedule, beside FlexAttention (bench_masks.py)
causal_generic  causal as generated and by hand in the same kernel (bench_causal.py)
million         up to a million tokens, and FlexAttention there (bench_long.py)
packed          64 packed sequences against the dense kernel (bench_long.py)

Method: all contestants of a row in one interleaved run; each measurement is a
burst of about 8 ms after a pause of 20 ms, which keeps the card off its power
limit; the median of the rounds counts. Absolute figures move by some percent
between machines and with heat: compare the ratios.

    python3 tests/bench/bench_gpu.py [--sections plain,mods] [--json FILE]
"""
import argparse
import ctypes
import glob
import importlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime" / "python"))
sys.path.insert(0, str(ROOT / "tests" / "gpu"))
sys.modules.setdefault("bench_gpu", sys.modules[__name__])  # what the other files import

TOKENS, WIDTH = 16384, 2048  # B * S and H * D of every row
PAUSE, BURST = 0.020, 0.008  # seconds


# ---- method -------------------------------------------------------------------

def burst(launch, n):
    """Milliseconds per launch in a burst of n after a pause."""
    import torch
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    time.sleep(PAUSE)
    start.record()
    for _ in range(n):
        launch()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / n


def interleaved(contestants, rounds):
    """{name: callable} -> {name: median milliseconds}"""
    counts, times = {}, {name: [] for name in contestants}
    for name, launch in contestants.items():
        for _ in range(2):
            launch()
        counts[name] = max(1, round(BURST * 1e3 / burst(launch, 2)))
    for _ in range(rounds):
        for name, launch in contestants.items():
            times[name].append(burst(launch, counts[name]))
    return {name: statistics.median(t) for name, t in times.items()}


def inputs(D, S, dtype):
    import torch
    g = torch.Generator("cuda").manual_seed(1)
    shape = (TOKENS // S, WIDTH // D, S, D)
    return [torch.randn(shape, generator=g, device="cuda").to(dtype) for _ in range(3)]


def teraflops(D, S, causal, ms):
    flops = 4 * TOKENS * (WIDTH // D) * S * D
    return flops / (2 if causal else 1) / ms / 1e9


def call_variant(call):
    """What of a variant the arguments of a call decide."""
    return {name: True for name, argument in (("block_mask", "block_mask"), ("packed", "cu_seqlens_q"))
            if call.get(argument) is not None}


def prepared(program, q, k, v, **call):
    dtype = {"bfloat16": "bf16", "float16": "f16"}[str(q.dtype).rpartition(".")[2]]
    kernel = program.kernel(dtype=dtype, head_dim=q.shape[3], head_dim_v=v.shape[3], device=0, **call_variant(call))
    return kernel.prepare(q, k, v, **call)


def table(title, head, rows):
    print(f"\n### {title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(x) for x in row) + " |")
    sys.stdout.flush()


# ---- sections -------------------------------------------------------------------

def sdpa(backend, q, k, v, causal):
    import torch.nn.functional as F
    from torch.nn.attention import sdpa_kernel

    def launch():
        with sdpa_kernel(backend):
            F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    launch()
    return launch


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


def host_microseconds(call, rounds=40, n=100):
    """Median host time of one call; the queue never fills up."""
    import torch
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n):
            call()
        times.append((time.perf_counter() - start) / n * 1e6)
        torch.cuda.synchronize()
    return statistics.median(times)


def bare_launch(cubin, args_bytes, grid, block, shared):
    """A callable that launches facc_forward of a cubin by cuLaunchKernel
    alone, with an argument block of the same size, that of an empty sequence."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def ok(status):
        if status:
            raise RuntimeError(f"CUDA driver error {status}")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    ok(cuda.cuModuleLoadData(ctypes.byref(module), cubin))
    ok(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"facc_forward"))
    ok(cuda.cuFuncSetAttribute(function, 8, shared))  # dynamic shared memory
    block_of_args = (ctypes.c_ubyte * args_bytes)()
    # One tile of an empty sequence: offsets of templates/common/kernel_args.h.
    (ctypes.c_int * 8).from_buffer(block_of_args, 672)[:] = 1, 1, 1, 0, 0, 64, 64, 1
    (ctypes.c_int * 2).from_buffer(block_of_args, 888)[:] = 1, 1  # q_tiles, num_work
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(block_of_args))
    launch = cuda.cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
    address = ctypes.addressof(pointers)

    def call():
        if launch(function, grid, 1, 1, block, 1, 1, shared, 0, address, None):
            raise RuntimeError("cuLaunchKernel failed")
    call.keep = block_of_args, pointers
    call()
    return call


def launch_overhead(args, facc):
    """The same small kernel launched by facc_kernel_launch, by a prepared
    Launch of Python, by attention(), and by the driver alone, all through
    ctypes, whose own cost is in every line."""
    import torch
    from facc import _core
    out, rows = {}, []
    with tempfile.TemporaryDirectory() as folder, \
            facc.Context(cache_dirs=folder, cache_mode="rw") as context:
        program = facc.Program.from_expressions(mask="q >= kv", context=context)
        q, k, v = (torch.randn(1, 1, 64, 64, device="cuda").bfloat16() for _ in range(3))
        launch = prepared(program, q, k, v)
        info = launch.kernel.info
        cubin = pathlib.Path(glob.glob(f"{folder}/**/*.cubin", recursive=True)[0]).read_bytes()
        function = _core._lib.facc_kernel_launch
        handle, arguments, error = launch.kernel.handle, launch._call[1], launch._error_ref
        null = ctypes.c_void_p()
        bare = bare_launch(cubin, 1152, 1, 32 * info.warps, info.shared_bytes)
        calls = {
            "cuLaunchKernel, the same kernel and argument size": bare,
            "facc_kernel_launch": lambda: function(handle, arguments, null, error),
            "facc.Launch(), prepared": launch,
            "facc.attention()": lambda: facc.attention(q, k, v, program=program),
            "torch SDPA (any backend)": lambda: torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=True),
        }
        for name, call in calls.items():
            call()
        for _ in range(3):  # interleaved; the least disturbed run counts
            for name, call in calls.items():
                out[name] = min(out.get(name, math.inf), host_microseconds(call))
        base = out["cuLaunchKernel, the same kernel and argument size"]
        rows = [(n, f"{t:.2f}", f"{t - base:+.2f}") for n, t in out.items()]
        torch.cuda.synchronize()
    table("Host time of one launch, µs", ("call", "µs", "over the driver call"), rows)
    return out


def disk_hit(args, facc):
    """Each example compiled into an empty cache, then asked for by a new
    context: trace, look-up and verification, and module load."""
    import torch
    torch.zeros(1, device="cuda")
    files = sorted((ROOT / "examples").glob("*.lua"))
    rows, out = [], []
    variant = dict(dtype="bf16", head_dim=128, head_dim_v=128, device=0)
    with tempfile.TemporaryDirectory() as folder:
        with facc.Context(cache_dirs=folder, cache_mode="rw") as context:
            for f in files:
                start = time.perf_counter()
                facc.Program.from_file(f, context).kernel(**variant)
                out.append(dict(example=f.stem, cold_ms=(time.perf_counter() - start) * 1e3))
        for row in out:
            file, times = ROOT / "examples" / f"{row['example']}.lua", []
            for _ in range(5):
                with facc.Context(cache_dirs=folder, cache_mode="rw") as context:
                    context.system()  # the driver is open, as in a process that has run a kernel
                    start = time.perf_counter()
                    program = facc.Program.from_file(file, context)
                    traced = time.perf_counter()
                    kernel = program.kernel(**variant)
                    got = time.perf_counter()
                    kernel.load(0)
                    times.append((time.perf_counter() - start, traced - start, got - traced))
                    if kernel.info.source != "disk":
                        raise RuntimeError(f"{row['example']} came from {kernel.info.source}, "
                                           "not from disk")
            total, trace, get = (statistics.median(t) * 1e3 for t in zip(*times))
            row.update(total_ms=total, trace_ms=trace, get_ms=get, load_ms=total - trace - get)
            rows.append((row["example"], f"{row['cold_ms']:.0f}", f"{trace:.2f}", f"{get:.2f}",
                         f"{row['load_ms']:.2f}", f"{total:.2f}"))
    table("From Lua text to a loaded kernel, ms (bf16, D 128)",
          ("example", "cold, with NVRTC", "disk hit: trace", "look-up", "load",
           "disk hit, whole"), rows)
    print(f"\nDisk hit: median {statistics.median(r['total_ms'] for r in out):.2f} ms, "
          f"largest {max(r['total_ms'] for r in out):.2f} ms")
    return out


def elsewhere(module, function):
    """A section of another file, which is loaded when it is asked for."""
    def section(args, facc):
        return getattr(importlib.import_module(module), function)(args, facc)
    return section


SECTIONS = {"plain": plain, "mods": with_mods, "launch": launch_overhead, "disk": disk_hit,
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

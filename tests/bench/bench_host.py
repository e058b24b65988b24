"""Sections launch, launches, cycles and disk of bench_gpu.py: what the host
does. The time of one launch beside the driver's own call; memory over a million
launches, and over kernels that are loaded and freed; a cache hit on disk from
Lua text to the loaded kernel."""
import ctypes
import gc
import math
import pathlib
import resource
import statistics
import tempfile
import time

from method import ROOT, prepared, table

ARGS_BYTES = 1152  # struct facc_kernel_header of templates/common/kernel_args.h
MOST_OVER = 5.0    # µs of host time over the driver's


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


def nvrtc(path):
    """The library, and its builtins, which it does not find in a folder off the
    loader's path."""
    for builtins in pathlib.Path(path).parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(path)


def empty_cubin(library, args_bytes, arch):
    """Of a kernel that takes a block of so many bytes and does nothing."""
    source = (f"struct Args {{ alignas(128) char bytes[{args_bytes}]; }};\n"
              'extern "C" __global__ void nothing(const __grid_constant__ Args args) {}')
    unit, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = (ctypes.c_char_p * 2)(f"-arch=sm_{arch}".encode(), b"-std=c++17")
    steps = (("CreateProgram", ctypes.byref(unit), source.encode(), b"nothing.cu", 0, None, None),
             ("CompileProgram", unit, 2, options), ("GetCUBINSize", unit, ctypes.byref(size)))
    for name, *arguments in steps:
        if getattr(library, "nvrtc" + name)(*arguments):
            raise RuntimeError(f"nvrtc{name} failed")
    cubin = ctypes.create_string_buffer(size.value)
    if library.nvrtcGetCUBIN(unit, cubin):
        raise RuntimeError("nvrtcGetCUBIN failed")
    return cubin.raw


def bare_launch(facc, args_bytes, kernels):
    """A callable that launches an empty kernel `kernels` times by cuLaunchKernel
    alone, with an argument block of facc's size."""
    context, cuda = facc.default_context(), ctypes.CDLL("libcuda.so.1")
    cubin = empty_cubin(nvrtc(context.system()["nvrtc_path"]), args_bytes, context.device()["arch"])

    def ok(status):
        if status:
            raise RuntimeError(f"CUDA driver error {status}")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    ok(cuda.cuModuleLoadData(ctypes.byref(module), cubin))
    ok(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"nothing"))
    block_of_args = (ctypes.c_ubyte * args_bytes)()
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(block_of_args))
    launch = cuda.cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
    address = ctypes.addressof(pointers)

    def call():
        for _ in range(kernels):
            ok(launch(function, 1, 1, 1, 128, 1, 1, 0, 0, address, None))
    call.keep = block_of_args, pointers
    return call


def small_inputs(facc, B=1, H=1, S=64, D=64):
    import torch
    return [torch.randn(B, H, S, D, device="cuda").bfloat16() for _ in range(3)]


def documents(facc, q):
    """A mask whose launches make a schedule, and what it captures."""
    import torch
    ids = (torch.arange(q.shape[2], device="cuda") // 100).to(torch.int32)
    return facc.find_program(mask_mod="doc[q] == doc[kv]", tensors={"doc": ids}), dict(tensors={"doc": ids})


def launch_overhead(args, facc):
    """Small kernels launched by facc_kernel_launch, by a prepared Launch of
    Python and by attention(), beside as many empty kernels by the driver alone,
    all through ctypes, whose own cost is in every line."""
    import torch
    from facc import _core, flex
    q, k, v = small_inputs(facc)
    causal, (scheduled, captured) = facc.find_program(mask_mod="q >= kv"), documents(facc, q)
    launches = {
        "causal, sm90": (1, prepared(causal, q, k, v, dict(layout="aligned"))),
        "causal, sm80": (1, prepared(causal, q, k, v, dict(family="sm80"))),
        "documents, with their schedule": (3, prepared(scheduled, q, k, v, **captured)),
    }
    function, null = _core._lib.facc_kernel_launch, ctypes.c_void_p()
    calls, base = {}, {}
    for n in 1, 3:
        calls[f"cuLaunchKernel, {n} empty"] = bare_launch(facc, ARGS_BYTES, n)
    for name, (kernels, launch) in launches.items():
        handle, arguments, error = launch.kernel.handle, launch._call[1], launch._error_ref
        calls[f"facc_kernel_launch, {name}"] = lambda f=function, a=(handle, arguments, null, error): f(*a)
        base[f"facc_kernel_launch, {name}"] = f"cuLaunchKernel, {kernels} empty"
    calls["facc.Launch(), causal, sm90"] = launches["causal, sm90"][1]
    calls["facc.attention(), causal"] = lambda: facc.attention(q, k, v, mask_mod="q >= kv")
    mask = flex.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 64, 64)
    calls["facc.flex, causal in Python"] = lambda: flex.flex_attention(q, k, v, block_mask=mask)
    calls["torch SDPA, causal"] = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    out = {}
    for call in calls.values():
        call()
    for _ in range(3):  # interleaved; the least disturbed run counts
        for name, call in calls.items():
            out[name] = min(out.get(name, math.inf), host_microseconds(call))
    over = {name: out[name] - out[base.get(name, "cuLaunchKernel, 1 empty")] for name in out}
    rows = [(n, f"{t:.2f}", f"{over[n]:+.2f}") for n, t in out.items()]
    table("Host time of one launch, µs", ("call", "µs", "over the driver's"), rows)
    worst = max(over[n] for n in base)
    print(f"\nfacc_kernel_launch: at most {worst:.2f} µs over the driver's")
    if worst > MOST_OVER:
        raise RuntimeError(f"{worst:.2f} µs over the driver's; at most {MOST_OVER} are allowed")
    return dict(microseconds=out, over=over, worst=worst)


# ---- memory that must stay -------------------------------------------------------

def memory():
    """KiB of the process in main memory, MiB of the device in use."""
    import torch
    torch.cuda.synchronize()
    with open("/proc/self/statm") as f:
        resident = int(f.read().split()[1]) * (resource.getpagesize() // 1024)
    free, total = torch.cuda.mem_get_info()
    return resident, (total - free) / 2**20


def grown(name, n, work, allowed_kib):
    """Calls work(n) after a first part; a row of what it took. Raises where
    memory grows."""
    work(max(n // 10, 1))
    gc.collect()
    before, start = memory(), time.perf_counter()
    work(n)
    seconds = time.perf_counter() - start
    gc.collect()
    after = memory()
    row = dict(name=name, n=n, microseconds=seconds / n * 1e6, host_kib=after[0] - before[0],
               device_mib=after[1] - before[1], host_before_kib=before[0], device_before_mib=before[1])
    row["flat"] = row["host_kib"] <= allowed_kib and row["device_mib"] <= 2  # the driver takes pages of 2 MiB
    return row


def tell_grown(title, rows):
    table(title, ("what", "times", "µs each", "host before, KiB", "after", "device before, MiB", "after"),
          [(r["name"], r["n"], f"{r['microseconds']:.2f}", r["host_before_kib"], f"{r['host_kib']:+}",
            f"{r['device_before_mib']:.0f}", f"{r['device_mib']:+.1f}") for r in rows])
    bad = [r["name"] for r in rows if not r["flat"]]
    if bad:
        raise RuntimeError(f"memory grows: {', '.join(bad)}")
    return rows


def many_launches(args, facc):
    """A million launches of a prepared call, and fewer of the others: the host's
    and the device's memory stay."""
    q, k, v = small_inputs(facc)
    causal, (scheduled, captured) = facc.find_program(mask_mod="q >= kv"), documents(facc, q)
    launch, with_schedule = prepared(causal, q, k, v), prepared(scheduled, q, k, v, **captured)

    def times(call):
        def work(n):
            for _ in range(n):
                call()
        return work
    return tell_grown("Launches", [
        grown("facc.Launch(), causal", 1_000_000, times(launch), 1024),
        grown("the same with a schedule", 100_000, times(with_schedule), 1024),
        grown("facc.attention(), causal", 100_000, times(lambda: facc.attention(q, k, v, mask_mod="q >= kv")), 1024)])


def cycles(args, facc):
    """Contexts, programs and kernels that come, run once and go: from the disk
    cache, and compiled each time. NVRTC keeps some hundred bytes of each compile
    (tests/unit/test_cycles.c)."""
    q, k, v = small_inputs(facc)

    def work(**options):
        def times(n):
            for i in range(n):
                with facc.Context(**options) as context:
                    program = facc.Program.from_expressions(mask=f"q >= kv + {i % 7}", context=context)
                    prepared(program, q, k, v, dict(layout="aligned"))()
        return times
    with tempfile.TemporaryDirectory() as folder:
        work(cache_dirs=folder, cache_mode="rw")(7)
        return tell_grown("Contexts, programs, kernels: load, launch, free", [
            grown("from the disk cache", 3000, work(cache_dirs=folder, cache_mode="rw"), 4096),
            grown("compiled", 14, work(cache_mode="off"), 16384)])


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

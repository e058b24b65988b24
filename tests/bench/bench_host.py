"""Sections launch and disk of bench_gpu.py: what the host does. The time of one
launch beside the driver's own call; a cache hit on disk from Lua text to the
loaded kernel."""
import ctypes
import glob
import math
import pathlib
import statistics
import tempfile
import time

from method import ROOT, prepared, table


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

#!/usr/bin/env python3
"""compute-sanitizer over a small set of launches: memcheck, synccheck and
initcheck must be clean, racecheck may report only what racecheck_accepted.txt
lists. The kernels are compiled first, side by side; the tools run at the same
time.

Needs a GPU, compute-sanitizer, NumPy and libfacc.so; without them it says SKIPPED and ends with 77. No
PyTorch: its allocator hands out parts of large blocks, and a write outside a
tensor would look allowed. Here every tensor is an allocation of its own.

    python3 tests/gpu/sanitize.py [--tools memcheck,racecheck] [--part scheduled]
    python3 tests/gpu/sanitize.py --quick       (one launch of each way through the kernels; no initcheck)
    python3 tests/gpu/sanitize.py --family sm90 (on an sm_90; else all that it can run, --quick the best)
    python3 tests/gpu/sanitize.py --child       (the launches alone)
"""
import argparse
import ctypes as c
import functools
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import SimpleNamespace

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "runtime" / "python"))


# ---- the launches -----------------------------------------------------------

class Name(str):
    """What the layer below asks of a NumPy dtype."""
    isnative = True


class DeviceArray:
    """A device allocation that looks like a NumPy array to facc's Arguments."""

    def __init__(self, gpu, host, dtype):
        self.gpu, self.host, self.dtype = gpu, host, Name(dtype)
        self.shape, self.ndim = host.shape, host.ndim
        self.strides, self.itemsize = host.strides, host.itemsize
        self.pointer = gpu.upload(host)
        self.__array_interface__ = {"data": (self.pointer or 0, False)}


class Gpu:
    def __init__(self):
        import facc
        from facc import _core
        self.facc, self.core, self.lib = facc, _core, _core._lib
        self.context = facc.default_context()
        for name in ("alloc", "free", "upload", "download", "synchronize"):
            getattr(self.lib, "facc_device_" + name).restype = c.c_int32

    def check(self, name, *arguments):
        error = self.core.new_error()
        self.core.check(getattr(self.lib, "facc_device_" + name)(*arguments, c.byref(error)), error)

    def alloc(self, nbytes):
        pointer = c.c_void_p()
        self.check("alloc", c.byref(pointer), c.c_void_p(self.context.handle.value), 0, c.c_size_t(nbytes))
        return pointer.value

    def upload(self, host):
        if host.nbytes == 0:
            return None
        pointer = self.alloc(host.nbytes)
        self.check("upload", c.c_void_p(self.context.handle.value), 0, c.c_void_p(pointer),
                   c.c_void_p(host.ctypes.data), c.c_size_t(host.nbytes))
        return pointer

    def download(self, array):
        if array.host.nbytes:
            self.check("download", c.c_void_p(self.context.handle.value), 0,
                       c.c_void_p(array.host.ctypes.data), c.c_void_p(array.pointer),
                       c.c_size_t(array.host.nbytes))
        return array.host

    def free(self, pointers):
        for pointer in pointers:
            self.lib.facc_device_free(c.c_void_p(self.context.handle.value), 0, c.c_void_p(pointer))


def to_bits(x, dtype):
    import numpy as np
    if dtype == "f16":
        return x.astype(np.float16)
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bits(x, dtype):
    import numpy as np
    if dtype == "f16":
        return x.view(np.float16).astype(np.float32)
    return (x.astype(np.uint32) << 16).view(np.float32)


def on_device(gpu, made, x):
    """x, or the arrays that it holds, as allocations of their own."""
    import numpy as np
    if isinstance(x, np.ndarray):
        made.append(DeviceArray(gpu, np.ascontiguousarray(x), x.dtype.name))
        return made[-1]
    if isinstance(x, SimpleNamespace):
        return SimpleNamespace(**{n: on_device(gpu, made, y) for n, y in vars(x).items()})
    return x


def variant_of(family, D, Dv, dtype, call):
    return dict(dtype=dtype, head_dim=D, head_dim_v=Dv, device=0, family=family,
                **{name: True for name, argument in (("block_mask", "block_mask"), ("packed", "cu_seqlens_q"))
                   if argument in call})


def enqueue(gpu, family, program, q, k, v, o, lse, dtype, call):
    """One launch, waited for; its workspace is memory that nothing has written."""
    kernel = program.kernel(**variant_of(family, q.shape[3], v.shape[3], dtype, call))
    arguments = gpu.core.Arguments(program, q, k, v, o, lse, **call)
    kernel.load(0)
    size, align, error = c.c_size_t(), c.c_size_t(), gpu.core.new_error()
    gpu.core.check(gpu.lib.facc_workspace_size(kernel.handle, c.byref(arguments.a), c.byref(size),
                                               c.byref(align)), error)
    workspace = gpu.alloc(size.value) if size.value else None
    arguments.a.workspace, arguments.a.workspace_size = workspace, size.value
    gpu.core.check(gpu.lib.facc_kernel_launch(kernel.handle, c.byref(arguments.a), None,
                                              c.byref(error)), error)
    gpu.check("synchronize", c.c_void_p(gpu.context.handle.value), 0)
    if workspace:
        gpu.free([workspace])


def run(gpu, family, name, program, B, H, Hkv, Sq, Skv, D, Dv, dtype, tensors, params, used=None, **more):
    """One launch, compared with the f64 oracle. more: of packed sequences and
    block masks, on the host."""
    import numpy as np
    rng = np.random.default_rng(1)
    host = [to_bits(rng.standard_normal(s), dtype)
            for s in ((B, H, Sq, D), (B, Hkv, Skv, D), (B, Hkv, Skv, Dv))]
    call = dict(tensors=tensors, params=params, **more)
    if used:
        call["seqused_kv"] = np.array(used, np.int32)
    made = []

    def sixteen_bits(x):
        made.append(DeviceArray(gpu, x, {"f16": "float16", "bf16": "bfloat16"}[dtype]))
        return made[-1]
    q, k, v = (sixteen_bits(x) for x in host)
    o = sixteen_bits(np.full((B, H, Sq, Dv), 0x7fff, np.uint16))
    lse = on_device(gpu, made, np.full((B, H, Sq), np.nan, np.float32))
    there = {n: on_device(gpu, made, x) for n, x in call.items()}
    there["tensors"] = {n: on_device(gpu, made, x) for n, x in tensors.items()}
    enqueue(gpu, family, program, q, k, v, o, lse, dtype, there)
    got, got_lse = from_bits(gpu.download(o), dtype), gpu.download(lse)
    want, want_lse = gpu.facc.oracle(*(from_bits(x, dtype) for x in host), program=program, **call)
    gpu.free([a.pointer for a in made])
    with np.errstate(invalid="ignore"):
        lse_bad = np.abs(got_lse - want_lse) > 2e-4 * np.maximum(1, np.abs(want_lse))
    if not np.abs(got - want).max(initial=0) < 0.05 or lse_bad.any() or np.isnan(got_lse).any():
        raise SystemExit(f"{family} {name}: wrong result")
    print("ran", family, name, flush=True)


# D, elements, what shares a scale, Hadamard or V's mean and image
QUANTIZED = ((64, "bfloat16", "tensor", ""), (128, "float16", "head", "hadamard"), (64, "bfloat16", 96, "hadamard"),
             (128, "bfloat16", 128, "hadamard"), (256, "bfloat16", 128, "hadamard"), (256, "float32", "head", "hadamard"),
             (128, "bfloat16", 128, "image"), (80, "float32", "head", "image"))


def quantize(gpu, D, dtype, per, extra):
    """One launch of the quantiser, whose codes are those of the CPU but for a few of Hadamard's (facc.h)."""
    import numpy as np
    from facc import _abi, _tensor
    B, H, S = 2, 3, 300
    x = np.random.default_rng(7).standard_normal((B, H, S, D)).astype(np.float32)
    x = x if dtype == "float32" else to_bits(x, "f16" if dtype == "float16" else "bf16")
    like = x if dtype == "float32" else from_bits(x, "bf16") if dtype == "bfloat16" else x
    more = dict(per=per, hadamard=1 if extra == "hadamard" else None, mean=extra == "image", image=extra == "image")
    want = gpu.facc.quantize(like, **more)
    made, a = [], _abi.quantize_args(struct_size=c.sizeof(_abi.quantize_args), block=want.block, device=0,
                                     hadamard=extra == "hadamard", seed=1)
    for name, host, kind in (("in", x, dtype), ("out", np.zeros_like(want.data), "uint8"),
                             ("scale", np.zeros_like(want.scale), "float32"), ("mean", want.mean, "float32"),
                             ("image", want.image, "uint8")):
        if host is not None:
            made.append(DeviceArray(gpu, host.copy(), kind))
            view = getattr(a, name)
            _tensor.fill(view, made[-1], name)
            if kind == "uint8":
                view.dtype = _abi.DTYPES["e4m3"][0]
    variant = _abi.quantize_variant(c.sizeof(_abi.quantize_variant), getattr(a, "in").dtype,
                                    _abi.DTYPES["e4m3"][0], D, 0, 0, a.hadamard, extra == "image", extra == "image")
    error, size, align = gpu.core.new_error(), c.c_size_t(), c.c_size_t()
    handle = gpu.core._create(gpu.lib.facc_quantizer_get, gpu.context.handle, c.byref(variant))
    gpu.core.check(gpu.lib.facc_quantizer_load(handle, 0, c.byref(error)), error)
    gpu.core.check(gpu.lib.facc_quantizer_workspace_size(handle, c.byref(a), c.byref(size), c.byref(align),
                                                         c.byref(error)), error)
    workspace = gpu.alloc(max(1, size.value))
    a.workspace, a.workspace_size = workspace, size.value
    gpu.core.check(gpu.lib.facc_quantizer_launch(handle, c.byref(a), None, c.byref(error)), error)
    gpu.check("synchronize", c.c_void_p(gpu.context.handle.value), 0)
    got = gpu.download(made[1])
    gpu.free([workspace, *(y.pointer for y in made)])
    if (got != want.data).mean() > (0.001 if extra == "hadamard" and dtype != "float32" else 0):
        raise SystemExit(f"quantiser {D} {dtype} {per} {extra}: other codes")
    print("ran quantiser", D, dtype, per, extra, flush=True)


def plain_launches(facc, launch, example):
    import numpy as np
    rng = np.random.default_rng(2)
    slopes = np.float32([2.0 ** (-8 * (h + 1) / 6) for h in range(6)])
    bias = rng.standard_normal((6, 257)).astype(np.float32)
    plain, causal = facc.find_program(), facc.find_program(mask_mod="q >= kv")
    for dtype in ("f16", "bf16"):
        for program, what in ((plain, "plain"), (causal, "causal")):
            for shape in ((1, 1, 1, 1, 1, 64, 64), (2, 6, 2, 37, 129, 64, 64), (1, 4, 4, 257, 255, 128, 128),
                          (1, 2, 1, 129, 65, 256, 256), (1, 2, 1, 70, 130, 40, 72), (1, 2, 2, 129, 0, 64, 64)):
                launch(f"{what} {dtype} {shape}", program, *shape, dtype, {}, {})
    square = (2, 6, 2, 200, 200, 64, 64)
    launch("used lengths", causal, *square, "bf16", {}, {}, (0, 77))
    launch("alibi_window", example("alibi_window"), *square, "bf16", {"slopes": slopes}, {"window": 50})
    launch("softcap", example("softcap_fast"), *square, "f16", {}, {})
    launch("relative_bias", example("relative_bias"), *square, "f16", {"bias": bias}, {})


HALVED = "q & kv == 0"  # PARTIAL tiles of this one are cut into granules


def dense_program(facc):
    return facc.Program.from_string(
        'local facc = require "facc"\nlocal d = facc.tensor("d", "bool", { "q", "kv" })\n'
        "return facc.attention { mask_mod = function(b, h, q, kv) return d[q][kv] end }\n", "dense.lua")


def dense_bias(facc):
    return facc.Program.from_string(
        'local facc = require "facc"\nlocal bias = facc.tensor("bias", "f32", { "H", "q", "kv" })\n'
        "return facc.attention { score_mod = function(s, b, h, q, kv) return s + bias[h][q][kv] end }\n", "bias.lua")


def dense_mask(rng, shape):
    dense = rng.random((shape[3], shape[4])) < 0.01
    dense[:, 64:192] = False
    return dense


def block_lists(rng, size, rows, cols):
    import numpy as np
    classes = rng.integers(0, 3, (1, 1, -(-rows // size[0]), -(-cols // size[1])))
    lists = {}
    for name, value in (("", 1), ("full_", 2)):
        chosen = classes == value
        lists[name + "kv_num_blocks"] = chosen.sum(-1).astype(np.int32)
        lists[name + "kv_indices"] = np.argsort(~chosen, axis=-1, kind="stable").astype(np.int32)
    return SimpleNamespace(BLOCK_SIZE=size, **lists)


def scheduled_launches(facc, launch, example):
    """Summaries, scans, halving; one length of several windows of KV tiles."""
    import numpy as np
    rng = np.random.default_rng(3)
    square, wide = (2, 6, 2, 200, 200, 64, 64), (1, 1, 1, 300, 2150, 128, 128)
    ids = np.sort(rng.integers(0, 4, (2, 200)).astype(np.int32), axis=1)
    documents = example("document_causal")
    launch("document_causal", documents, *square, "bf16", {"ids": ids}, {})
    launch("document_causal, used lengths", documents, *square, "bf16", {"ids": ids}, {}, (0, 77))
    launch("documents, two windows", example("document"), *wide, "bf16",
           {"ids": np.sort(rng.integers(0, 9, (1, 2150)).astype(np.int32), axis=1)}, {})
    launch("prefix_lm", example("prefix_lm"), *square, "f16", {"prefix": np.int32([0, 90])}, {})
    launch("natten", example("natten"), *square, "bf16", {}, {})
    launch("dilated", example("dilated"), *wide, "bf16", {}, {})
    for shape in (square, wide):
        launch(f"halved {shape}", facc.find_program(mask_mod=HALVED), *shape, "bf16", {}, {})
        launch(f"dense bool (scanned) {shape}", dense_program(facc), *shape, "bf16", {"d": dense_mask(rng, shape)}, {})


def sequence_launches(facc, launch, example):
    """Packed sequences and block lists."""
    import numpy as np
    rng = np.random.default_rng(4)
    plain, causal = facc.find_program(), facc.find_program(mask_mod="q >= kv")
    cu = np.int32([0, 0, 1, 131, 131, 331])
    packed = dict(cu_seqlens_q=cu, cu_seqlens_kv=cu, max_seqlen_q=200, max_seqlen_kv=200)
    rows = (1, 2, 1, 331, 331)
    ids = np.sort(rng.integers(0, 3, (5, 200)).astype(np.int32), axis=1)
    for D, dtype in ((64, "f16"), (128, "bf16")):
        launch(f"packed causal {D}", causal, *rows, D, D, dtype, {}, {}, **packed)
        launch(f"packed plain {D}", plain, *rows, D, D, dtype, {}, {}, **packed)
    launch("packed documents", example("document_causal"), *rows, 64, 64, "f16", {"ids": ids}, {}, **packed)
    launch("packed, used lengths", causal, *rows, 64, 64, "f16", {}, {}, (0, 1, 100, 0, 150), **packed)
    for size in ((128, 128), (48, 80)):
        lists = block_lists(rng, size, 300, 300)
        for program, what in ((plain, "no mod"), (causal, "causal")):
            launch(f"block lists {size}, {what}", program, 1, 2, 1, 300, 300, 128, 128, "bf16", {}, {},
                   block_mask=lists)


def item_launches(facc, launch, example):
    """More query tiles than multiprocessors; some without work; scores that
    move references in some rows; tables; most registers and shared memory."""
    import numpy as np
    rng = np.random.default_rng(6)
    plain, causal = facc.find_program(), facc.find_program(mask_mod="q >= kv")
    for D, dtype in ((64, "f16"), (128, "bf16")):
        launch(f"many items {D}", causal, 3, 70, 10, 200, 90, D, D, dtype, {}, {})
        launch(f"many items, used lengths {D}", plain, 3, 70, 10, 200, 90, D, D, dtype, {}, {}, (0, 77, 90))
        launch(f"steep scores {D}", causal, 1, 4, 2, 300, 300, D, D, dtype, {}, {}, scale=1.0)
        launch(f"rising scores {D}", facc.find_program("score + 0.2 * kv"), 1, 2, 2, 200, 500, D, D, dtype, {}, {})
        launch(f"groups without work {D}", facc.find_program(mask_mod="q // 64 % 2 == 1 and q >= kv"),
               1, 40, 10, 700, 700, D, D, dtype, {}, {})
        launch(f"tables {D}", example("relative_bias"), 1, 6, 2, 257, 400, D, D, dtype,
               {"bias": rng.standard_normal((6, 257)).astype(np.float32)}, {})
    for D, Dv in ((256, 256), (192, 128), (64, 128), (96, 96)):
        launch(f"causal {D}/{Dv}", causal, 1, 4, 2, 300, 300, D, Dv, "bf16", {}, {})


def quick_launches(facc, launch, example):
    """Each way through the kernels once."""
    import numpy as np
    rng = np.random.default_rng(5)
    plain, causal, documents = facc.find_program(), facc.find_program(mask_mod="q >= kv"), example("document_causal")
    cu = np.int32([0, 0, 1, 131, 131, 200])
    packed = dict(cu_seqlens_q=cu, cu_seqlens_kv=cu, max_seqlen_q=130, max_seqlen_kv=130)
    square, wide, rows = (1, 2, 1, 150, 270, 128, 128), (1, 1, 1, 140, 2150, 64, 64), (1, 2, 1, 200, 200, 64, 64)

    def ids(B, S):
        return {"ids": np.sort(rng.integers(0, 3, (B, S)).astype(np.int32), axis=1)}
    launch("plain", plain, *square, "bf16", {}, {})
    launch("causal, plain bounds", causal, *rows, "f16", {}, {})
    launch("documents, padded", documents, 2, 2, 1, 200, 200, 128, 128, "bf16", ids(2, 200), {}, (0, 77))
    launch("documents, two windows", example("document"), *wide, "bf16", ids(1, 2150), {})
    launch("halved", facc.find_program(mask_mod=HALVED), *square, "bf16", {}, {})
    launch("scanned, two windows", dense_program(facc), *wide, "bf16", {"d": dense_mask(rng, wide)}, {})
    launch("packed, plain bounds", causal, *rows, "f16", {}, {}, **packed)
    launch("packed documents", documents, 1, 2, 1, 200, 200, 128, 128, "bf16", ids(5, 130), {}, **packed)
    launch("block lists, causal", causal, *square, "bf16", {}, {}, block_mask=block_lists(rng, (48, 80), 150, 270))
    launch("many items", causal, 2, 70, 10, 130, 90, 64, 64, "f16", {}, {})
    launch("steep scores", causal, 1, 2, 1, 200, 200, 256, 256, "bf16", {}, {}, scale=1.0)
    launch("tables", example("relative_bias"), 1, 2, 1, 150, 270, 128, 128, "bf16",
           {"bias": rng.standard_normal((2, 257)).astype(np.float32)}, {})
    launch("a tensor's tiles", dense_bias(facc), 1, 2, 1, 150, 272, 128, 128, "bf16",
           {"bias": rng.standard_normal((2, 150, 272)).astype(np.float32)}, {})


PARTS = {"plain": plain_launches, "scheduled": scheduled_launches, "sequences": sequence_launches,
         "items": item_launches, "quantize": lambda *_: None}


def each_launch(facc, part, launch):
    def example(name):
        return facc.find_program(program=ROOT / "examples" / f"{name}.lua")
    for name, launches in ({"quick": quick_launches} if part == "quick" else PARTS).items():
        if part in ("all", name):
            launches(facc, launch, example)


def child(part, families):
    gpu = Gpu()
    for family in families:
        each_launch(gpu.facc, part, functools.partial(run, gpu, family))
    if part in ("all", "quick", "quantize"):
        for case in QUANTIZED:
            quantize(gpu, *case)
    return 0


def compile_all(part, families):
    """The kernels of these launches into the cache on disk, side by side, so
    that the tools' processes need not."""
    import facc
    kernels = {}

    def note(name, program, B, H, Hkv, Sq, Skv, D, Dv, dtype, tensors, params, used=None, **more):
        for family in families:
            variant = variant_of(family, D, Dv, dtype, more)
            kernels[program, tuple(variant.items())] = variant
    each_launch(facc, part, note)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda k: k[0].kernel(**kernels[k]), kernels))
    return len(kernels)


# ---- the tools ----------------------------------------------------------------

def find_sanitizer():
    return shutil.which("compute-sanitizer") or next(
        iter(sorted(glob.glob("/usr/local/cuda*/bin/compute-sanitizer"), reverse=True)), None)


def accepted():
    """[(pattern, reason)] of racecheck_accepted.txt."""
    out = []
    for n, line in enumerate((HERE / "racecheck_accepted.txt").read_text().splitlines(), 1):
        if line and not line.startswith("#"):
            pattern, _, reason = line.partition("\t")
            if not reason.strip():
                raise SystemExit(f"racecheck_accepted.txt:{n}: no reason is given")
            out.append((re.compile(pattern), reason.strip()))
    return out


def reports(text):
    """The tool's reports: each begins with '========= Error' (Warning, Race …)
    and goes on in lines that the tool indents."""
    found, open_report = [], None
    for line in text.splitlines():
        if not line.startswith("========="):
            continue
        body = line[len("========="):]
        if re.match(r" (Error|Warning|Invalid|Race|Barrier|Program hit|Internal)", body) and \
                "SUMMARY" not in body:
            open_report = [body.strip()]
            found.append(open_report)
        elif body.startswith("     ") and open_report is not None:
            open_report.append(body.strip())
        else:
            open_report = None
    return ["\n".join(r) for r in found]


def kinds(found):
    """The reports without what differs between threads and launches, with how
    many there are of each: what a line of racecheck_accepted.txt is about."""
    count, first = {}, {}
    for report in found:
        kind = re.sub(r"0x[0-9a-f]+|\(\d+,\d+,\d+\)|\b\d+\b", "#", report)
        count[kind] = count.get(kind, 0) + 1
        first.setdefault(kind, report)
    return [f"{n} times:\n{first[kind]}" for kind, n in sorted(count.items(), key=lambda x: -x[1])]


def run_tool(sanitizer, tool, part, families):
    """(whether it is clean, text)"""
    command, start = [sanitizer, "--tool", tool, "--error-exitcode", "9"], time.time()
    if tool == "racecheck":
        command += ["--racecheck-report", "hazard", "--print-limit", "20000"]  # known ones may come first
    if tool == "memcheck":  # facc checks every status; it also asks for entries that may lack
        command += ["--report-api-errors", "no"]
    command += [sys.executable, str(HERE / "sanitize.py"), "--child", "--part", part,
                "--family", ",".join(families)]
    done = subprocess.run(command, capture_output=True, text=True)
    text = done.stdout + done.stderr
    bad, known = [], 0
    patterns = accepted() if tool == "racecheck" else []
    for report in reports(text):
        if any(p.search(report) for p, _ in patterns):
            known += 1
        else:
            bad.append(report)
    launches = len(re.findall(r"^ran ", text, re.M))
    complete = launches > 0 and done.returncode in (0, 9)
    # Exit code 9 without a report that we could read is a failure as well.
    ok = complete and not bad and (done.returncode == 0 or known > 0)
    out = (f"{tool}: {launches} launches, {len(bad)} findings, {known} accepted, {time.time() - start:.0f} s: "
           f"{'ok' if ok else 'FAILED'}")
    return ok, out if ok else out + "\n" + ("\n\n".join(kinds(bad)[:8]) or text[-4000:])


def run_tools(sanitizer, tools, part, families, jobs):
    """Each is mostly the work of one core."""
    good = True
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(run_tool, sanitizer, t, part, families) for t in tools]):
            ok, text = done.result()
            print(text, flush=True)
            good &= ok
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--tools", help="some of memcheck,racecheck,synccheck,initcheck")
    p.add_argument("--part", default="all", choices=("all", *PARTS, "quick"))
    p.add_argument("--quick", action="store_true", help="--part quick with memcheck, racecheck and synccheck")
    p.add_argument("--family", help="of kernels: sm90, sm80, or both by comma")
    p.add_argument("--jobs", type=int, default=4, help="tools at a time")
    p.add_argument("--child", action="store_true")
    p.add_argument("--required", action="store_true", help="fail where it cannot run")
    args = p.parse_args()
    if args.child:
        return child(args.part, args.family.split(","))

    def skip(reason):
        print(f"SKIPPED: sanitizer tests: {reason}")
        return 1 if args.required else 77
    sanitizer = find_sanitizer()
    if not sanitizer:
        return skip("compute-sanitizer is not installed")
    try:
        import numpy  # noqa: F401
        import facc
        if facc.default_context().system()["device_count"] == 0:
            return skip("there is no GPU")
    except ImportError as e:
        return skip(str(e))
    arch = facc.default_context().device(0)["arch"]
    families = args.family or ("sm80" if arch != 90 else "sm90" if args.quick else "sm90,sm80")
    families = families.split(",")
    tools = args.tools or "memcheck,racecheck,synccheck" + ("" if args.quick else ",initcheck")
    part, start = "quick" if args.quick else args.part, time.time()
    print(f"{compile_all(part, families)} kernels ready in {time.time() - start:.1f} s", flush=True)
    return 0 if run_tools(sanitizer, tools.split(","), part, families, args.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())

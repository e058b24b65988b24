"""Compiles the kernels that round tensors to FP8, and the one that transposes V, for the CPU (host/)
and runs them on random cases against NumPy: bits must be the same, but for 16-bit elements with
hadamard. Needs a C++ compiler and NumPy, no GPU.

    python3 tests/gpu/quantize_host.py [CASES [SEED]]
"""
import ctypes
import os
import random
import subprocess
import sys
import tempfile

import numpy as np

import quantize_reference as reference
from tune_unit import ROOT

P, LL, I = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int
ELEMENT = {"f16": "kElementF16", "bf16": "kElementBf16", "f32": "kElementF32",
           "e4m3": "kElementE4m3", "e5m2": "kElementE5m2"}
FLAGS = ["-std=c++17", "-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=undefined", "-w",
         "-fno-sanitize=float-cast-overflow", "-ffp-contract=off"]


class Divisor(ctypes.Structure):
    """struct facc_divisor"""
    _fields_ = [("mul", ctypes.c_uint), ("shift", ctypes.c_uint)]


def divisor(n):
    shift = (n - 1).bit_length()
    return Divisor((1 << 32) * ((1 << shift) - n) // n + 1, shift)


class Rounding(ctypes.Structure):
    """struct facc_rounding"""
    _fields_ = [("in_", P), ("in_stride", LL * 3), ("out", P), ("out_stride", LL * 3), ("image", P),
                ("image_stride", LL * 2), ("scale", P), ("scale_stride", LL * 3), ("mean", P),
                ("mean_stride", LL * 2), ("amax", P), ("sums", P), ("cu_seqlens", P),
                ("signs", ctypes.c_ulonglong * 4)] + [(n, I) for n in (
                    "B", "H", "S", "block", "unit", "parts", "slab", "units", "slabs", "all", "ctas",
                    "fused", "per_tensor", "power_of_two")] + [("norm", ctypes.c_float)] + [
                        (n, Divisor) for n in ("by_unit", "by_parts", "by_units", "by_slabs")]


class Transpose(ctypes.Structure):
    """struct facc_transpose_args"""
    _fields_ = [("v", P), ("v_stride", LL * 3), ("image", P), ("image_stride", LL * 2),
                ("seqused", P), ("cu_seqlens", P), ("B", I), ("Skv", I), ("slabs", I)]


def build(folder, name, source, config):
    where = os.path.join(folder, name)
    os.makedirs(where)
    with open(os.path.join(where, "facc_config.cuh"), "w") as f:
        f.write("#pragma once\n" + config)
    host = os.path.join(ROOT, "tests/gpu/host")
    library = os.path.join(where, "kernels.so")
    include = [x for i in (where, host, os.path.join(ROOT, "templates"), ROOT) for x in ("-I", i)]
    subprocess.run([os.environ.get("CXX", "c++"), *FLAGS, "-shared", "-fPIC", "-fvisibility=hidden",
                    *include, os.path.join(host, source), "-o", library], check=True)
    return ctypes.CDLL(library)


def config_of(c):
    flag = lambda n: str(n in c["with"]).lower()
    return ("constexpr int kElementF16 = 0, kElementBf16 = 1, kElementF32 = 2;\n"
            "constexpr int kElementE4m3 = 3, kElementE5m2 = 4;\n"
            f"constexpr int kFrom = {ELEMENT[c['from']]}, kTo = {ELEMENT[c['to']]};\n"
            f"constexpr int kHeadDim = {c['D']};\n"
            f"constexpr bool kHadamard = {flag('hadamard')}, kMean = {flag('mean')}, "
            f"kImage = {flag('image')};\n" +
            ("#define FACC_QUANTIZE_MEAN 1\n" if "mean" in c["with"] else ""))


KERNELS = [
    {"from": "bf16", "to": "e4m3", "D": 128, "with": ()},
    {"from": "bf16", "to": "e4m3", "D": 128, "with": ("hadamard",)},
    {"from": "f16", "to": "e5m2", "D": 64, "with": ("hadamard",)},
    {"from": "bf16", "to": "e4m3", "D": 256, "with": ("hadamard",)},
    {"from": "f16", "to": "e4m3", "D": 32, "with": ("hadamard",)},
    {"from": "bf16", "to": "e4m3", "D": 128, "with": ("hadamard", "image")},
    {"from": "bf16", "to": "e4m3", "D": 128, "with": ("mean", "image")},
    {"from": "f16", "to": "e5m2", "D": 64, "with": ("mean", "image")},
    {"from": "f32", "to": "e4m3", "D": 64, "with": ("hadamard", "image")},
    {"from": "f32", "to": "e5m2", "D": 256, "with": ("hadamard",)},
    {"from": "f16", "to": "e4m3", "D": 256, "with": ("mean",)},
    {"from": "f32", "to": "e4m3", "D": 80, "with": ("mean", "image")},
    {"from": "bf16", "to": "e4m3", "D": 24, "with": ()},
]


def elements(x, t):
    """f32 values as they are stored, and these again as f32."""
    if t == "f32":
        return x, x
    if t == "f16":
        with np.errstate(over="ignore"):
            h = x.astype(np.float16)
        return h, h.astype(np.float32)
    bits = x.view(np.uint32)
    with np.errstate(over="ignore"):
        high = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    high = np.where(np.isnan(x), np.uint16(0x7fc0), high).astype(np.uint16)
    return high, (high.astype(np.uint32) << 16).view(np.float32)


def slab_rows(D):
    return (1024 if D > 128 else 512) // D * 32


def case(rng, c):
    D, most = c["D"], slab_rows(c["D"])
    packed = rng.random() < 0.4
    B, H = rng.randint(1, 3), rng.randint(1, 2)
    block = rng.choice([0, 32, 64, 96, 128, 160, 416])
    rank = 3 if block else rng.choice([0, 2])
    lengths = [rng.choice([0, 1, 31, 32, 33, rng.randint(1, 2 * most + 40)]) for _ in range(B)]
    if not packed:
        lengths = [lengths[0] or 5] * B
    S, T = max(lengths), sum(lengths)
    x = np.random.default_rng(rng.getrandbits(32)).standard_normal((B, H, S, D), np.float32)
    x = (x * np.exp2(rng.uniform(-3, 3)) + rng.choice([0, 1])).astype(np.float32)
    if S and rng.random() < 0.4:
        for odd in (np.nan, np.inf, -np.inf, 0, 3e38, 1e-45):
            x[rng.randrange(B), rng.randrange(H), rng.randrange(S), rng.randrange(D)] = odd
    for b in range(B):
        x[b, :, lengths[b]:] = 0
    return dict(B=B, H=H, S=S, T=T, D=D, block=block, rank=rank, lengths=lengths, packed=packed, x=x,
                power_of_two=rng.random() < 0.5, seed=rng.getrandbits(64), turns=rng.randint(1, 3))


def padded(c):
    """[seqs] of starts in rows, and the tensor's own shape: packed, or as it is."""
    if c["packed"]:
        return np.cumsum([0] + c["lengths"]).astype(np.int32)
    return None


def pack(c, x):
    if not c["packed"]:
        return np.ascontiguousarray(x)
    return np.ascontiguousarray(np.concatenate(
        [x[b, :, :n] for b, n in enumerate(c["lengths"])], 1)[None])


def unpack(c, x):
    if not c["packed"]:
        return x
    y = np.zeros((c["B"], c["H"], c["S"], c["D"]), x.dtype)
    for b, (n, first) in enumerate(zip(c["lengths"], padded(c))):
        y[b, :, :n] = x[0, :, first:first + n]
    return y


def address(a):
    return a.ctypes.data if a is not None else None


def chunks_of(c):
    return c["T"] // 32 + 4 * c["B"] if c["packed"] else -(-c["S"] // 32) + 3


def first_chunk(c, b):
    return int(padded(c)[b]) // 32 + 4 * b if c["packed"] else 0


def head_image(c, image, b, h):
    n = -(-c["lengths"][b] // 32) + 3
    first = first_chunk(c, b)
    return image[0 if c["packed"] else b, h, first:first + n]


def run_rounding(library, k, c):
    stored, x = elements(c["x"], k["from"])
    stored = pack(c, stored)
    out = np.full(stored.shape, 0x7f, np.uint8)
    B, H, S, D, block = c["B"], c["H"], c["S"], c["D"], c["block"]
    scale = np.full([(), (), (B, H), (B, H, -(-S // block) if block else 1)][c["rank"]], np.nan,
                    np.float32)
    mean = np.full((B, H, D), np.nan, np.float32) if "mean" in k["with"] else None
    image = None
    if "image" in k["with"]:
        image = np.full((stored.shape[0], H, chunks_of(c), 32 * D), 0x7f, np.uint8)
    cu, most = padded(c), slab_rows(D)
    a = Rounding(in_=address(stored), out=address(out), image=address(image), scale=address(scale),
                 mean=address(mean), cu_seqlens=address(cu), B=B, H=H, S=S, block=block,
                 per_tensor=c["rank"] == 0, power_of_two=c["power_of_two"],
                 norm=1 / np.sqrt(float(D)))
    for f, t in (("in_stride", stored), ("out_stride", out)):
        getattr(a, f)[:] = [n // t.itemsize for n in t.strides[:3]]
    if image is not None:
        a.image_stride[:] = image.strides[:2]
    if mean is not None:
        a.mean_stride[:] = [H * D, D]
    a.scale_stride[:] = ([n // 4 for n in scale.strides] + [0, 0, 0])[:3]
    a.signs[:] = reference.signs_of(c["seed"], D)[0]
    a.fused = 0 < block <= most
    a.slab = most // block * block if a.fused else most
    a.unit = block if block > most else a.slab
    a.parts = -(-block // most) if block > most else 1
    a.units = -(-S // a.unit)
    a.slabs = (c["T"] // a.unit + B if c["packed"] else B * a.units) * a.parts
    a.all = H * a.slabs
    a.ctas = -(-a.all // c["turns"]) if "hadamard" in k["with"] else a.all
    for name, n in (("unit", a.unit), ("parts", a.parts), ("units", a.units), ("slabs", a.slabs)):
        setattr(a, "by_" + name, divisor(max(1, n)))
    amax = np.full(max(H * a.slabs, B * H) + 1, np.nan, np.float32)
    sums = np.full(3 * H * a.slabs * D + 1, np.nan, np.float32)
    a.amax, a.sums = address(amax), address(sums)
    needs_amax = not a.fused and (mean is None or block > 0)
    needs_scale = not a.fused and (mean is None or c["rank"] != 2)
    grid = (I * 5)(a.all if mean is not None else 0, B * H if mean is not None else 0,
                   a.ctas if needs_amax else 0,
                   0 if not needs_scale else 1 if c["rank"] == 0 else scale.size, a.ctas)
    library.run_rounding(ctypes.byref(a), grid)
    return x, out, scale, mean, image


def check_rounding(k, c, x, out, scale, mean, image):
    B, S = c["B"], c["S"]
    if mean is not None:
        for b in range(B):
            rows = x[b, :, :c["lengths"][b]].astype(np.float64)
            with np.errstate(invalid="ignore"):
                want = np.where(np.isfinite(rows), rows, 0).sum(1) / max(1, c["lengths"][b])
            close = np.abs(mean[b] - want) <= 1e-5 * np.maximum(1, np.abs(want))
            if not (close | (np.abs(want) > 1e30)).all():
                return "mean"
    seed = c["seed"] if "hadamard" in k["with"] else None
    how = k["to"], c["rank"], c["block"], c["power_of_two"], seed
    if seed is not None and k["from"] != "f32":
        codes = unpack(c, out)
        why = reference.hadamard_differs(x, codes, scale, *how, c["lengths"])
        if why:
            return why
    else:
        codes, want = reference.quantize(x, *how, mean, c["lengths"])
        if not np.array_equal(scale, want):
            return f"scale {scale} want {want}"
        if not np.array_equal(out, pack(c, codes)):
            return f"{(out != pack(c, codes)).sum()} codes of {out.size}"
    for b in range(B if image is not None else 0):
        for h in range(c["H"]):
            if not np.array_equal(head_image(c, image, b, h),
                                  reference.image_of(codes[b, h, :c["lengths"][b]])) and (
                                      c["packed"] or S):
                return "image"
    return None


def check_transpose(library, rng, D):
    c = case(rng, {"D": D})
    codes = np.random.default_rng(rng.getrandbits(32)).integers(
        0, 256, (c["B"], c["H"], c["S"], D), np.uint8)
    v = pack(c, codes)
    image = np.full((v.shape[0], c["H"], chunks_of(c), 32 * D), 0x7f, np.uint8)
    used = np.array([rng.randint(0, n) for n in c["lengths"]], np.int32)
    use = rng.random() < 0.5
    rows = 128 * 256 // D // 32 * 32
    cu = padded(c)
    slabs = c["T"] // rows + 2 * c["B"] if c["packed"] else (
        c["B"] * -(-chunks_of(c) * 32 // rows))
    a = Transpose(v=address(v), image=address(image), seqused=address(used) if use else None,
                  cu_seqlens=address(cu), B=c["B"], Skv=c["S"], slabs=slabs)
    a.v_stride[:] = v.strides[:3]
    a.image_stride[:] = image.strides[:2]
    library.run_transpose(ctypes.byref(a), slabs * c["H"])
    for b, n in enumerate(c["lengths"]):
        n = int(used[b]) if use else n
        for h in range(c["H"]):
            want = reference.image_of(codes[b, h, :n])
            first = first_chunk(c, b)
            if not np.array_equal(image[0 if c["packed"] else b, h, first:first + len(want)], want):
                return f"transposed V, D {D}, lengths {c['lengths']}, used {n}"
    return None


def main():
    cases, seed = [int(x) for x in sys.argv[1:] + ["12", "1"][len(sys.argv) - 1:]]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for i, k in enumerate(KERNELS):
            library = build(folder, f"round{i}", "quantize_kernels.cpp", config_of(k))
            rng, wrong = random.Random(seed * 1000 + i), []
            for _ in range(cases):
                c = case(rng, k)
                why = check_rounding(k, c, *run_rounding(library, k, c))
                if why:
                    shape = {n: c[n] for n in ("B", "H", "lengths", "block", "rank", "packed")}
                    wrong.append(f"{shape}: {why}")
            failed += bool(wrong)
            print("FAILED" if wrong else "ok    ", k["from"], k["to"], k["D"], *k["with"], *wrong[:2],
                  flush=True)
        for D in (64, 96, 128, 256):
            library = build(folder, f"transpose{D}", "transpose_kernels.cpp",
                            f"constexpr int kHeadDimV = {D};\n")
            rng = random.Random(seed * 1000 + D)
            wrong = [w for w in (check_transpose(library, rng, D) for _ in range(cases)) if w]
            failed += bool(wrong)
            print("FAILED" if wrong else "ok    ", "transpose", D, *wrong[:2], flush=True)
    print(f"{failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

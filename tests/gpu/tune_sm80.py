"""Checks and times the sm80 forward template on a GPU, without the library: compiles it with chosen
tiles, compares with an f64 oracle over odd shapes with poisoned outputs, then times it in one
interleaved run with PyTorch's FlashAttention-2 (idle gaps between bursts).

    python3 tests/gpu/tune_sm80.py [peak] [check] [time]      (default: all; about a minute)
"""
import concurrent.futures
import ctypes
import itertools
import math
import multiprocessing
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tune_unit import compile_unit, read, report, shared_bytes

DTYPE = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
cuda = ctypes.CDLL("libcuda.so.1")
LL3 = ctypes.c_longlong * 3
P = ctypes.c_void_p


class Header(ctypes.Structure):
    """struct facc_kernel_header"""
    _fields_ = [
        ("tensor_map", ctypes.c_ubyte * 512), ("q", P), ("k", P), ("v", P), ("o", P), ("lse", P),
        ("q_stride", LL3), ("k_stride", LL3), ("v_stride", LL3), ("o_stride", LL3),
        ("lse_stride", LL3)] + [(n, ctypes.c_int) for n in
        ("B", "H", "Hkv", "Sq", "Skv", "D", "Dv", "group")] + [
        ("scale", ctypes.c_float), ("scale_log2", ctypes.c_float),
        ("seqused_q", P), ("seqused_kv", P), ("cu_seqlens_q", P), ("cu_seqlens_kv", P),
        ("page_table", P), ("page_table_stride", ctypes.c_longlong),
        ("page_size", ctypes.c_int), ("num_pages", ctypes.c_int),
        ("sinks", P), ("row_max", P), ("row_entropy", P),
        ("dropout_key", ctypes.c_uint * 2), ("dropout_offset", ctypes.c_uint), ("dropout_drops", ctypes.c_uint),
        ("dropout_scale", ctypes.c_float), ("last_section", ctypes.c_int),
        ("descale_q", P), ("descale_k", P), ("descale_v", P),
        ("descale_stride", ctypes.c_longlong * 6), ("q_tiles", ctypes.c_int),
        ("num_work", ctypes.c_int)]


class Captured(ctypes.Structure):
    _fields_ = [("data", P), ("stride", ctypes.c_longlong * 5), ("shape", ctypes.c_int * 5),
                ("reserved", ctypes.c_int)]


def ok(rc):
    if rc != 0:
        raise RuntimeError(f"CUDA driver error {rc}")


# From what is generated for 50 * tanh(score / 50) to that for tanh_fast.
SHIFT = "shift(const KernelArgs &args, const Tile &t)\n    {\n        return "
SOFTCAP_FAST = (
    ("facc_tanh_below(", "facc_tanh_fast("),
    ("144.26950073242188f", "72.13475036621094f"),
    (SHIFT + "72.13475036621094f", SHIFT + "0.0f"),
    ("facc_fold(0.03999999910593033f, args.scale_log2)",
     "facc_fold(0.019999999552965164f, args.scale)"))


def variant_text(name):
    if name == "plain":
        return read("templates/stub/facc_variant.cuh")
    if name == "softcap_fast":
        text = variant_text("softcap")
        for old, new in SOFTCAP_FAST:
            assert old in text, old
            text = text.replace(old, new)
        return text
    if name == "full_score":  # the score path with nothing in it
        return variant_text("plain").replace("kHasScore = false", "kHasScore = true")
    return read(f"tests/gpu/variants/{name}.cuh")


TENSORS = {"alibi_causal": 1, "bias": 1, "document": 1}


# Variations to compare: name -> text replaced in template files.
TRIALS = {
    "": (),
    "early": (("sm80/multiply.cuh", "kHandOverPart = 8", "kHandOverPart = 4"),),
}


def config(D, m, n, warps, stages, qreg, Dv=None, dtype="bf16", out=None, mod="plain", trial=""):
    return dict(D=D, Dv=Dv or D, m=m, n=n, warps=warps, stages=stages, qreg=bool(qreg),
                dtype=dtype, out=out or dtype, mod=mod, tensors=TENSORS.get(mod, 0),
                trial=trial)


def label(c):
    return (f"{c['m']}x{c['n']} w{c['warps']} s{c['stages']}{' q' if c['qreg'] else ''}"
            + (" " + c["trial"] if c["trial"] else ""))


def compile_one(c):
    return compile_unit(c, variant_text(c["mod"]), c.get("arch", 90), TRIALS[c["trial"]])


class Kernel:
    def __init__(self, c, compiled):
        self.c = c
        cubin, log = compiled
        if cubin is None:
            raise RuntimeError(label(c) + ": " + log[:2000])
        self.report = report(log)
        module, self.function = P(), P()
        ok(cuda.cuModuleLoadData(ctypes.byref(module), cubin))
        ok(cuda.cuModuleGetFunction(ctypes.byref(self.function), module, b"facc_forward"))
        ok(cuda.cuFuncSetAttribute(self.function, 8, shared_bytes(c)))

    def args(self, q, k, v, o, lse, scale, used_q=None, used_kv=None, tensors=()):
        h = Header()
        for name, x in (("q", q), ("k", k), ("v", v), ("o", o)):
            setattr(h, name, x.data_ptr())
            setattr(h, name + "_stride", LL3(*x.stride()[:3]))
        h.lse = lse.data_ptr() if lse is not None else 0
        if lse is not None:
            h.lse_stride = LL3(*lse.stride())
        h.B, h.H, h.Sq, h.D = q.shape
        h.Hkv, h.Skv, h.Dv = k.shape[1], k.shape[2], v.shape[3]
        h.group = h.H // h.Hkv
        h.scale, h.scale_log2 = scale, scale * math.log2(math.e)
        h.seqused_q = used_q.data_ptr() if used_q is not None else 0
        h.seqused_kv = used_kv.data_ptr() if used_kv is not None else 0
        h.q_tiles = -(-h.Sq // self.c["m"])
        h.num_work = h.q_tiles * h.B * h.H
        raw = ctypes.create_string_buffer(1152 + 72 * max(1, len(tensors)) + 128)
        ctypes.memmove(raw, ctypes.byref(h), ctypes.sizeof(h))
        for i, t in enumerate(tensors):
            x = Captured(t.data_ptr())
            for d in range(t.dim()):
                x.stride[d], x.shape[d] = t.stride(d), t.shape[d]
            ctypes.memmove(ctypes.addressof(raw) + 1152 + 72 * i, ctypes.byref(x), 72)
        return raw, h.num_work

    def launch(self, packed):
        raw, work = packed
        pointers = (P * 1)(ctypes.addressof(raw))
        stream = P(torch.cuda.current_stream().cuda_stream)
        ok(cuda.cuLaunchKernel(self.function, work, 1, 1, 32 * self.c["warps"], 1, 1,
                               shared_bytes(self.c), stream, pointers, None))


def build(configs):
    with concurrent.futures.ProcessPoolExecutor(
            14, multiprocessing.get_context("fork")) as pool:
        compiled = list(pool.map(compile_one, configs))
    return [Kernel(c, x) for c, x in zip(configs, compiled)]


# ---- correctness --------------------------------------------------------------------------------

def oracle(q, k, v, scale, mod, tensors, used_q, used_kv):
    """f64 output and LSE."""
    B, H, Sq, _ = q.shape
    Hkv, Skv = k.shape[1], k.shape[2]
    k, v = (x.double().repeat_interleave(H // Hkv, 1) for x in (k, v))
    s = scale * (q.double() @ k.transpose(2, 3))
    i = torch.arange(Sq, device="cuda")[:, None]
    j = torch.arange(Skv, device="cuda")[None, :]
    keep = torch.ones(B, 1, Sq, Skv, dtype=torch.bool, device="cuda")
    if mod == "alibi_causal":
        s = s + tensors[0].double()[None, :, None, None] * (j - i)
    if mod in ("softcap", "softcap_fast"):
        s = 50 * torch.tanh(s / 50)
    if mod == "bias":
        s = s + tensors[0].double()[None]
    if mod in ("causal", "alibi_causal"):
        keep = keep & (i >= j)
    if mod == "document":
        keep = keep & (tensors[0][i.clamp(max=len(tensors[0]) - 1)]
                       == tensors[0][j.clamp(max=len(tensors[0]) - 1)])
    if used_kv is not None:
        keep = keep & (j < used_kv[:, None, None, None])
    rows = torch.ones(B, 1, Sq, 1, dtype=torch.bool, device="cuda")
    if used_q is not None:
        rows = i < used_q[:, None, None, None]
    keep = keep & rows
    s = s.masked_fill(~keep, -math.inf)
    lse = torch.logsumexp(s, -1) if Skv else torch.full((B, H, Sq), -math.inf, device="cuda",
                                                        dtype=torch.double)
    p = torch.exp(s - lse[..., None]).nan_to_num(0.0)
    p = p.masked_fill(~keep, 0.0)
    # NaN in rows of V that nobody attends to must not count
    return p @ v.nan_to_num(0.0) if used_kv is not None else p @ v, lse


def make_strided(shape, dtype, layout):
    b, h, s, d = shape
    if layout == "bhsd":
        return torch.randn(shape, device="cuda").to(dtype)
    if layout == "bshd":
        return torch.randn(b, s, h, d, device="cuda").to(dtype).transpose(1, 2)
    if layout == "padded":
        return torch.randn(b, h, s, d + 24, device="cuda").to(dtype)[..., 8:8 + d]
    if layout == "odd":  # 2-byte aligned only
        return torch.randn(b, h, s, d + 3, device="cuda").to(dtype)[..., 1:1 + d]
    raise ValueError(layout)


def poison_padding(q, k, v):
    """Random used lengths; what lies behind them becomes NaN."""
    B, Sq, Skv = q.shape[0], q.shape[2], k.shape[2]
    used_q = torch.randint(0, Sq + 1, (B,), device="cuda", dtype=torch.int32)
    used_kv = torch.randint(0, Skv + 1, (B,), device="cuda", dtype=torch.int32)
    for b in range(B):
        k[b, :, int(used_kv[b]):] = math.nan
        v[b, :, int(used_kv[b]):] = math.nan
        q[b, :, int(used_q[b]):] = math.nan
    return used_q, used_kv


def captured(mod, H, Sq, Skv):
    """What the mod captures."""
    if mod == "alibi_causal":
        return (2.0 ** -torch.arange(1, H + 1, device="cuda").float(),)
    if mod == "bias":
        return (torch.randn(H, Sq, Skv, device="cuda"),)
    if mod == "document":
        return (torch.arange(max(Sq, Skv), device="cuda", dtype=torch.int32) // 37,)
    return ()


def judge(c, o, lse, ref, ref_lse):
    """(good, relative error of the output, largest error of the LSE)"""
    fast = c["mod"].endswith("_fast")
    norm = ref.norm().item()
    difference = o.double() - ref
    error = difference.norm().item() / norm if norm else float(difference.abs().max())
    bound = 4e-3 if "bf16" in (c["dtype"], c["out"]) else 8e-4
    empty = torch.isinf(ref_lse)
    lse_error = (lse.double() - ref_lse)[~empty].abs()
    lse_bound = 2e-5 * (1 + ref_lse[~empty].abs()) + (2e-2 if fast else 0)
    good = error < bound * (2 if fast else 1)
    good &= bool(torch.all(lse_error <= lse_bound))
    good &= bool(torch.all(lse[empty] == -math.inf))
    good &= bool(torch.all(o.double()[empty] == 0))
    return good, error, float(lse_error.max()) if lse_error.numel() else 0.0


def check_case(kernel, B, H, Hkv, Sq, Skv, layout="bhsd", scale=None, used=False, seed=0):
    c, mod = kernel.c, kernel.c["mod"]
    torch.manual_seed(seed)
    dtype = DTYPE[c["dtype"]]
    q = make_strided((B, H, Sq, c["D"]), dtype, layout)
    k = make_strided((B, Hkv, Skv, c["D"]), dtype, layout)
    v = make_strided((B, Hkv, Skv, c["Dv"]), dtype, layout)
    scale = c["D"] ** -0.5 if scale is None else scale
    used_q, used_kv = poison_padding(q, k, v) if used else (None, None)
    tensors = captured(mod, H, Sq, Skv)
    o = make_strided((B, H, Sq, c["Dv"]), DTYPE[c["out"]], layout)
    guard = o._base if o._base is not None else o
    guard.fill_(math.nan)
    lse = torch.full((B, H, Sq), math.nan, device="cuda")
    kernel.launch(kernel.args(q, k, v, o, lse, scale, used_q, used_kv, tensors))
    torch.cuda.synchronize()
    if used:
        q = q.nan_to_num(0.0)
        k = k.nan_to_num(0.0)
    ref, ref_lse = oracle(q, k, v, scale, mod, tensors, used_q, used_kv)
    good, error, lse_error = judge(c, o, lse, ref, ref_lse)
    if not used:  # the NaN of padding is gone from q and k
        again = torch.full_like(o, math.nan)
        kernel.launch(kernel.args(q, k, v, again, lse, scale, None, None, tensors))
        torch.cuda.synchronize()
        good &= torch.equal(again, o)
    return good, error, lse_error


CASES = [  # B H Hkv Sq Skv layout scale used
    (1, 2, 2, 256, 256), (2, 3, 1, 129, 257), (1, 4, 2, 1, 1), (1, 2, 2, 63, 500, "bshd"),
    (2, 6, 2, 200, 77, "padded"), (1, 2, 1, 130, 190, "odd"), (1, 1, 1, 5, 0),
    (1, 2, 2, 300, 300, "bhsd", -0.3), (1, 2, 2, 100, 130, "bhsd", 0.0),
    (3, 2, 1, 257, 391, "bshd", None, True), (1, 1, 1, 4096, 4096, "bhsd", 2.0)]


def run_checks(kernels):
    failures, worst = 0, {}
    for kernel in kernels:
        for case in CASES:
            if case[5:7] == ("bhsd", 2.0) and kernel.c["mod"] == "softcap_fast":
                continue
            good, error, lse_error = check_case(kernel, *case)
            key = kernel.c["dtype"] + "->" + kernel.c["out"]
            worst[key] = max(worst.get(key, 0.0), error)
            if not good:
                failures += 1
                if failures < 25:
                    c = kernel.c
                    print(f"FAIL D{c['D']}/{c['Dv']} {c['dtype']}->{c['out']} {label(c)} {c['mod']}"
                          f" {case}: error {error:.2e} lse {lse_error:.2e}", flush=True)
    print(f"checks: {len(kernels)} kernels x {len(CASES)} cases, {failures} failures, worst", worst)
    return failures


# ---- timing -------------------------------------------------------------------------------------

def measure(contestants, rounds, burst_ms=6.0, pause=0.012):
    """{name: median ms}, interleaved with pauses between bursts."""
    times = {name: [] for name, _ in contestants}
    count = {}
    for name, f in contestants:
        f()
        torch.cuda.synchronize()
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        f()
        b.record()
        torch.cuda.synchronize()
        count[name] = max(2, min(200, int(burst_ms / max(a.elapsed_time(b), 1e-3))))
    for _ in range(rounds):
        for name, f in contestants:
            time.sleep(pause)
            a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            f()
            a.record()
            for _ in range(count[name]):
                f()
            b.record()
            torch.cuda.synchronize()
            times[name].append(a.elapsed_time(b) / count[name])
    return {name: statistics.median(t) for name, t in times.items()}


def time_shape(D, S, causal, dtype, kernels, rounds):
    H, B = 2048 // D, max(1, 16384 // S)
    q, k, v = (torch.randn(B, S, H, D, device="cuda").to(DTYPE[dtype]).transpose(1, 2)
               for _ in range(3))
    lse = torch.empty(B, H, S, device="cuda")
    tensors = {"alibi_causal": (2.0 ** -torch.arange(1, H + 1, device="cuda").float(),),
               "document": (torch.arange(S, device="cuda", dtype=torch.int32) // (S // 16),),
               "bias": (torch.randn(H, S, S, device="cuda"),) if S <= 4096 else ()}

    def fa2():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    contestants = [("FA2", fa2)]
    for kernel in kernels:
        o = torch.empty_like(q)
        packed = kernel.args(q, k, v, o, lse, D ** -0.5, tensors=tensors.get(kernel.c["mod"], ()))
        name = kernel.c["mod"] + " " + label(kernel.c)

        def facc(kernel=kernel, packed=packed, o=o):  # o lives as long as the launches
            kernel.launch(packed)
        contestants.append((name, facc))
    flops = 4 * B * H * S * S * D * (0.5 if causal else 1)
    return {n: flops / ms * 1e-9 for n, ms in measure(contestants, rounds).items()}


def peak():
    """Prints what mma.sync alone reaches: the bound of every figure below."""
    import cupy
    f = cupy.RawKernel(read("tests/gpu/tune_peak.cu"), "peak")
    ctas = cupy.cuda.Device().attributes["MultiProcessorCount"]
    out = cupy.zeros(1, dtype=cupy.float32)
    rows = []
    for threads, loads in ((128, 0), (256, 0), (128, 1), (256, 1)):
        n = 4000
        f((ctas,), (threads,), (out, n, loads))
        a, b = cupy.cuda.Event(), cupy.cuda.Event()
        a.record()
        f((ctas,), (threads,), (out, n, loads))
        b.record()
        b.synchronize()
        ms = cupy.cuda.get_elapsed_time(a, b)
        flops = ctas * (threads // 32) * n * 32 * 4096
        rows.append(f"warps {threads // 32} ldmatrix {loads}: {flops / ms * 1e-9:.0f} TFLOP/s")
    print("peak", "; ".join(rows), flush=True)


# Tiles to compare: m, n, warps, stages, Q in registers[, trial]. The first is select.c's.
TILES = {
    64: [(128, 64, 4, 2, 1), (256, 80, 8, 2, 1), (128, 32, 4, 2, 1)],
    96: [(256, 64, 8, 2, 0), (256, 48, 8, 2, 0)],
    128: [(256, 48, 8, 2, 0), (256, 48, 8, 2, 0, "early"), (128, 48, 4, 2, 0), (128, 64, 4, 1, 0),
          (256, 64, 8, 2, 0)],
    192: [(128, 80, 8, 2, 0), (128, 64, 8, 2, 0)],
    256: [(128, 64, 8, 2, 0), (128, 48, 8, 2, 0)],
}


def tile(D, choice=0):
    return TILES[min(d for d in TILES if d >= D)][choice]


def make(D, t, **more):
    return config(D, *t[:5], trial=t[5] if len(t) > 5 else "", **more)


def check_configs():
    out = []
    for i, D in enumerate(range(8, 257, 8)):
        out.append(make(D, tile(D), mod=("plain", "causal")[i % 2],
                        dtype=("bf16", "f16")[i // 2 % 2]))
    for D, Dv in ((192, 128), (128, 192), (8, 256), (256, 8), (40, 64), (64, 40)):
        out.append(make(D, tile(max(D, Dv)), Dv=Dv, out="f32" if D % 16 == 0 else "bf16"))
    for mod in ("alibi_causal", "document", "softcap", "softcap_fast", "bias"):
        out += [make(D, tile(D), mod=mod) for D in (64, 96, 128, 256)]
    out += [make(D, t, mod="causal") for D in TILES for t in TILES[D][1:]]
    # tiles for architectures with less shared memory
    for D, t in ((128, (128, 48, 8, 2, 0)), (256, (128, 32, 8, 2, 0)), (192, (128, 16, 8, 2, 0)),
                 (256, (64, 32, 4, 1, 0))):
        out += [make(D, t, mod=mod) for mod in ("causal", "document")]
    return out + [make(64, tile(64), dtype="f16", out=o) for o in ("f16", "bf16", "f32")]


def time_all(start):
    """[(title, {name: TFLOP/s})]: the chosen tiles over lengths and types, then the alternatives,
    then the mods."""
    jobs = []
    for D, S, mod, dtype in itertools.product((64, 128), (2048, 4096, 8192, 16384),
                                              ("plain", "causal"), ("bf16", "f16")):
        jobs.append((D, S, dtype, [make(D, tile(D), mod=mod, dtype=dtype)]))
    for D, S, mod in itertools.product(TILES, (2048, 8192), ("plain", "causal")):
        jobs.append((D, S, "bf16", [make(D, t, mod=mod) for t in TILES[D]]))
    for D in (64, 128, 256):
        for mods in (("plain", "full_score", "softcap", "softcap_fast", "document"),
                     ("causal", "alibi_causal")):
            jobs.append((D, 8192, "bf16", [make(D, tile(D), mod=mod) for mod in mods]))
    units = {str(c): c for job in jobs for c in job[3]}
    kernels = dict(zip(units, build(list(units.values()))))
    print(f"# built {len(units)} kernels, {time.time() - start:.0f} s", flush=True)
    table = []
    for D, S, dtype, configs in jobs:
        causal = "causal" in configs[0]["mod"]
        mine = [kernels[str(c)] for c in configs]
        table.append((f"D{D} S{S} {dtype}", time_shape(D, S, causal, dtype, mine, 3)))
    return table


def main(words):
    torch.zeros(1, device="cuda")
    words = words or ["peak", "check", "time"]
    start = time.time()
    failures = 0
    if "peak" in words:
        peak()
    if "check" in words:
        failures = run_checks(build(check_configs()))
        print(f"# {time.time() - start:.0f} s", flush=True)
    for title, r in time_all(start) if "time" in words else ():
        fa2 = r.pop("FA2")
        print(f"{title}: FA2 {fa2:.0f} | " +
              " | ".join(f"{n} {x:.0f} ({x / fa2:.2f})" for n, x in r.items()))
    print(f"# {time.time() - start:.0f} s")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

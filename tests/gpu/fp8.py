"""The FP8 kernels of sm90 on a GPU: against f64 on the dequantised inputs, edges, accuracy as in FlashAttention-3's
paper, speed beside cuDNN's bf16.

    python3 tests/gpu/fp8.py [check] [accuracy] [long] [inside] [time]     (default: check accuracy long)
                             [--only TEXT] [--seconds S] [--rounds N]

check: all cases with V transposed before the kernel and inside it; compiles side by side first: half a minute with 16
cores. accuracy and long: half a minute each. inside: from which length on V is better transposed before, half a minute.
time: three minutes. --seconds: no new case or row begins after that, with what is left said. The last line counts
failures.
"""
import argparse
import concurrent.futures
import math
import os
import sys
import time

import torch

import harness
from harness import facc, reference

sys.path.insert(0, str(harness.ROOT / "tests" / "bench"))
from method import interleaved  # noqa: E402

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LUA = 'local facc = require "facc"\n'
PROGRAMS = {
    "none": "return facc.attention {}",
    "causal": "return facc.attention { mask_mod = function(b, h, q, kv) return q >= kv end }",
    "window": "return facc.attention { mask_mod = function(b, h, q, kv) return q >= kv and q - kv < 700 end }",
    "softcap": "return facc.attention { score_mod = function(s) return 20 * facc.tanh(s / 20) end }",
    "alibi": 'local slopes = facc.tensor("slopes", "f32", { "H" })\n'
             "return facc.attention { score_mod = function(s, b, h, q, kv) return s + slopes[h] * (kv - q) end,\n"
             "  mask_mod = function(b, h, q, kv) return q >= kv end }",
    "keybias": 'local bias = facc.tensor("bias", "f32", { "kv" })\n'
               "return facc.attention { score_mod = function(s, b, h, q, kv) return s + bias[kv] end }",
    "documents": 'local id = facc.tensor("id", "i32", { "kv" })\n'
                 "return facc.attention { mask_mod = function(b, h, q, kv) return id[q] == id[kv] end }",
    "never": "return facc.attention { mask_mod = function(b, h, q, kv) return q % 3 == 0 and kv < 50 end }",
    "by_score": "return facc.attention { score_mod = function(s) return facc.where(s > 0, s, 2 * s) end }",
}
MODS = {  # score, b, h, q, kv -> score, keep
    "none": lambda s, b, h, q, kv, t: (s, True),
    "causal": lambda s, b, h, q, kv, t: (s, q >= kv),
    "window": lambda s, b, h, q, kv, t: (s, (q >= kv) & (q - kv < 700)),
    "softcap": lambda s, b, h, q, kv, t: (20 * torch.tanh(s / 20), True),
    "alibi": lambda s, b, h, q, kv, t: (s + t["slopes"].double()[h] * (kv - q), q >= kv),
    "keybias": lambda s, b, h, q, kv, t: (s + t["bias"].double()[kv], True),
    "documents": lambda s, b, h, q, kv, t: (s, t["id"][q] == t["id"][kv]),
    "never": lambda s, b, h, q, kv, t: (s, (q % 3 == 0) & (kv < 50)),
    "by_score": lambda s, b, h, q, kv, t: (torch.where(s > 0, s, 2 * s), True),
}


def program(name, _made={}):
    if name not in _made:
        _made[name] = facc.Program.from_string(LUA + PROGRAMS[name])
    return _made[name]


def captured(name, H, Skv):
    g = harness.generator(11)
    return {"alibi": {"slopes": torch.exp2(-8 * torch.arange(1, H + 1, device="cuda") / H).float()},
            "keybias": {"bias": torch.randn(Skv, generator=g, device="cuda")},
            "documents": {"id": (torch.arange(Skv, device="cuda") // 131).int()}}.get(name)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=harness.generator(seed), device="cuda")


def expanded(scale, like, block):
    """A quantiser's scale for each element of [B, H, S, D]."""
    scale = scale.double()
    if scale.ndim == 3:
        return scale.repeat_interleave(block, 2)[:, :, :like.shape[2], None]
    return scale[..., None, None] if scale.ndim == 2 else scale


def dequantised(x):
    y = x.data.double() * expanded(x.scale, x.data, x.block)
    return y if x.mean is None else y + x.mean.double()[:, :, None]


def quantised(q, k, v, dtype="e4m3", per="tensor", mean=False, image=False, hadamard=None):
    more = dict(dtype=dtype, per=per)
    return (facc.quantize(q, hadamard=hadamard, **more), facc.quantize(k, hadamard=hadamard, **more),
            facc.quantize(v, mean=mean, image=image, power_of_two=per not in ("tensor", "head"), **more))


def run(name, x, tensors=None, out=None, **call):
    """Output and LSE of quantised (q, k, v)."""
    return facc.attention(x[0].data, x[1].data, x[2].data, program=program(name), tensors=tensors, out=out,
                          fp8=facc.Fp8.of(*x), return_lse=True, **call)


def relative(o, ref):
    return float((o.double() - ref).norm() / ref.norm().clamp(min=1e-30))


# ---- check ----------------------------------------------------------------------

def judge(o, lse, ref, most):
    """What is wrong, or ''. Weights are rounded to 4 bits: an error of layout would be 1."""
    ref_o, ref_lse = ref
    if torch.isnan(o).any() or torch.isnan(lse).any():
        return "NaN" + harness.where_wrong(o, ref_o, math.inf)
    empty = ref_lse == -math.inf
    if not torch.equal(lse == -math.inf, empty) or not bool((o[empty] == 0).all()):
        return "rows that attend to nothing"
    # Sums of FP8 products keep 13 fraction bits of their largest term: so much of a score, and of an LSE that it decides.
    off = (lse.double() - ref_lse)[~empty].abs() / ref_lse[~empty].abs().clamp(min=5)
    error = float(off.max()) if off.numel() else 0.0
    if error > 2 ** -10:
        return f"LSE off by {error:.1e} of itself"
    rel = relative(o, ref_o)
    return "" if rel <= most else f"relative error {rel:.2e} over {most:.0e}" + harness.where_wrong(
        o, ref_o, 0.5 * float(ref_o.abs().max()))


def one(D=128, B=2, H=4, Hkv=2, Sq=512, Skv=512, mod="none", dtype="e4m3", per="head", mean=False, image=False,
        out=None, gain=1.0, shift=0.0, used=False, most=4e-2, scale=None, peaks=False):
    q, k, v = normal(B, H, Sq, D, seed=1) * gain, normal(B, Hkv, Skv, D, seed=2), normal(B, Hkv, Skv, D, seed=3) + shift
    x = quantised(q, k, v, dtype, per, mean, image)
    tensors, call = captured(mod, H, Skv), {"exact_peaks": peaks}
    used_q = used_kv = None
    if used:
        used_q = torch.tensor([max(0, Sq - 37 - 50 * b) for b in range(B)], dtype=torch.int32, device="cuda")
        used_kv = torch.tensor([max(0, Skv - 61 * b - 5) for b in range(B)], dtype=torch.int32, device="cuda")
        call.update(seqused_q=used_q, seqused_kv=used_kv)
    given = None if out is None else torch.full((B, H, Sq, D), math.nan, dtype=out, device="cuda")
    o, lse = run(mod, x, tensors, given, scale=scale, **call)
    f = (lambda s, b, h, i, j: MODS[mod](s, b, h, i, j, tensors)) if mod != "none" else None
    ref = reference(*(dequantised(y) for y in x), mod=f, scale=scale, used_q=used_q, used_kv=used_kv)
    wrong = judge(o, lse, ref, most)
    again = run(mod, x, tensors, None if given is None else torch.empty_like(given), scale=scale, **call)
    if not wrong and not (torch.equal(o, again[0]) and torch.equal(lse, again[1])):
        wrong = "another run has other bits"
    return wrong or f"{relative(o, ref[0]):.2e}"


def packed(D=128, per="head", mean=False):
    lengths_q, lengths_kv = [1, 0, 300, 97, 192, 5], [40, 7, 500, 0, 96, 1000]
    cu = [torch.tensor([0, *torch.tensor(n).cumsum(0).tolist()], dtype=torch.int32, device="cuda")
          for n in (lengths_q, lengths_kv)]
    q, k, v = normal(1, 4, sum(lengths_q), D, seed=4), normal(1, 2, sum(lengths_kv), D, seed=5), normal(1, 2, sum(lengths_kv), D, seed=6)
    x = (facc.quantize(q, per=per, cu_seqlens=cu[0]), facc.quantize(k, per=per, cu_seqlens=cu[1]),
         facc.quantize(v, per=per, cu_seqlens=cu[1], mean=mean, power_of_two=per not in ("tensor", "head")))
    o, lse = run("causal", x, cu_seqlens_q=cu[0], cu_seqlens_kv=cu[1])
    worst = 0.0
    for b in range(len(lengths_q)):
        part = [y.data[:, :, cu[n > 0][b]:cu[n > 0][b + 1]].double() for n, y in enumerate(x)]
        for n, y in enumerate(x):
            scale = y.scale if y.scale.ndim == 0 else y.scale[b:b + 1]
            part[n] = part[n] * expanded(scale, part[n], y.block)
            if y.mean is not None:
                part[n] = part[n] + y.mean[b:b + 1].double()[:, :, None]
        rows = slice(int(cu[0][b]), int(cu[0][b + 1]))
        ref = reference(*part, mod=lambda s, b, h, i, j: (s, i >= j))
        if rows.stop > rows.start:
            wrong = judge(o[:, :, rows], lse[:, :, rows], ref, 5e-2)
            if wrong:
                return f"sequence {b}: {wrong}"
            worst = max(worst, relative(o[:, :, rows], ref[0]))
    return f"{worst:.2e}"


def odd_values():
    """NaN in V and K, infinite scores, scales of 0: as the f64 oracle has them."""
    q, k, v = normal(1, 2, 200, 128, seed=7), normal(1, 2, 400, 128, seed=8), normal(1, 2, 400, 128, seed=9)
    x = quantised(q, k, v)
    zero = [facc.Fp8(*(torch.zeros((), device="cuda") if n == m else y.scale for m, y in enumerate(x))) for n in range(3)]
    for n, fp8 in enumerate(zero):
        o = facc.attention(*(y.data for y in x), program=program("none"), fp8=fp8)
        want = dequantised(x[2]).mean(2, keepdim=True).expand(1, 2, 200, 128) if n < 2 else torch.zeros_like(o).double()
        if not torch.allclose(o.double(), want, atol=4e-3):
            return f"descale of {'qkv'[n]} 0: off by {float((o.double() - want).abs().max()):.2e}"
    data = [y.data.clone() for y in x]
    data[2].view(torch.uint8)[0, 0, 150, 5] = 0x7f
    data[1].view(torch.uint8)[0, 1, 399, 0] = 0x7f
    o, lse = facc.attention(*data, program=program("none"), fp8=facc.Fp8.of(*x), return_lse=True)
    bad = torch.isnan(o)
    if not bool(bad[0, 0, :, 5].all()) or int(bad[0, 0].sum()) != 200 or not bool(bad[0, 1].all()):
        return "NaN in V is in its column alone, in K in all of the head"
    o = facc.attention(*data, program=program("never"), fp8=facc.Fp8.of(*x))
    if bool(torch.isnan(o[0, 1]).any()) or not bool((o[:, :, 1] == 0).all()):
        return "NaN in a key that is masked"
    return ""


def broadcast():
    """Strides: [B, S, H, D], a KV head for all, b for all."""
    q, k, v = (normal(2, 300, n, 128, seed=n).transpose(1, 2) for n in (4, 1, 1))
    x = quantised(q.contiguous(), k.contiguous(), v.contiguous())
    y = [t.data.transpose(1, 2).contiguous().transpose(1, 2) for t in x]
    y[1:] = [t[:1].expand(2, -1, -1, -1) for t in y[1:]]
    o, lse = facc.attention(*y, program=program("causal"), fp8=facc.Fp8.of(*x), return_lse=True)
    ref = reference(*(t.double() * p.scale.double() for t, p in zip(y, x)), mod=lambda s, b, h, i, j: (s, i >= j))
    return judge(o, lse, ref, 4e-2)


def cases():
    for D in (128, 64, 256):
        for Sq, Skv in ((256, 256), (1, 1), (7, 1000), (1000, 1000), (333, 1500), (500, 40), (192, 96), (193, 97)):
            for mod in ("none", "causal"):
                yield f"D {D} {Sq}x{Skv} {mod}", lambda D=D, Sq=Sq, Skv=Skv, mod=mod: one(D=D, Sq=Sq, Skv=Skv, mod=mod, most=5e-2)
        yield f"D {D} e5m2", lambda D=D: one(D=D, dtype="e5m2")
        yield f"D {D} per tensor", lambda D=D: one(D=D, per="tensor", Sq=700, Skv=900)
        yield f"D {D} mean", lambda D=D: one(D=D, mean=True, shift=1.0, Sq=400, Skv=1111)
        yield f"D {D} image", lambda D=D: one(D=D, mean=True, image=True, shift=1.0, Sq=400, Skv=1111, mod="causal")
        yield f"D {D} f32 out", lambda D=D: one(D=D, out=torch.float32)
        yield f"D {D} f16 out", lambda D=D: one(D=D, out=torch.float16, mod="causal")
        yield f"D {D} used lengths", lambda D=D: one(D=D, used=True, Sq=400, Skv=777, mod="causal")
        yield f"D {D} used lengths, image", lambda D=D: one(D=D, used=True, Sq=400, Skv=777, image=True)
        yield f"D {D} blocks of 128", lambda D=D: one(D=D, per=128, Sq=600, Skv=1000)
        yield f"D {D} promoted", lambda D=D: one(D=D, B=1, H=2, Hkv=1, Sq=300, Skv=5000, shift=0.5)
        yield f"D {D} packed", lambda D=D: packed(D)
        for mod in ("none", "causal"):
            yield f"D {D} exact peaks, {mod}", lambda D=D, mod=mod: one(D=D, mod=mod, Sq=400, Skv=1500, gain=3.0, peaks=True)
        yield f"D {D} exact peaks, blocks of 128", lambda D=D: one(D=D, per=128, Sq=600, Skv=1000, gain=3.0, peaks=True)
        yield f"D {D} exact peaks, promoted", lambda D=D: one(D=D, B=1, H=2, Hkv=1, Sq=300, Skv=5000, shift=0.5, peaks=True)
    yield "exact peaks, alibi", lambda: one(mod="alibi", Sq=900, Skv=900, gain=3.0, peaks=True)
    for per in (32, 96, 160):
        yield f"blocks of {per}, causal", lambda per=per: one(per=per, Sq=600, Skv=1000, mod="causal")
        yield f"blocks of {per}, packed", lambda per=per: packed(per=per)
        yield f"blocks of {per}, alibi", lambda per=per: one(per=per, Sq=600, Skv=600, mod="alibi")
    yield "packed, mean", lambda: packed(mean=True)
    for mod in ("window", "softcap", "alibi", "keybias", "documents", "never", "by_score"):
        yield f"mod {mod}", lambda mod=mod: one(mod=mod, Sq=900, Skv=900)
        yield f"mod {mod}, peaked", lambda mod=mod: one(mod=mod, Sq=400, Skv=400, gain=6.0)
    yield "promoted, causal", lambda: one(B=1, H=4, Hkv=2, Sq=4500, Skv=4500, mod="causal", shift=1.0)
    yield "promoted, peaked", lambda: one(B=1, H=2, Hkv=2, Sq=500, Skv=6000, gain=8.0)
    yield "negative scale", lambda: one(scale=-0.1, Sq=300, Skv=700)
    yield "no keys", lambda: one(Skv=0, Sq=100)
    yield "ratio 8", lambda: one(H=8, Hkv=1, Sq=300, Skv=300, mod="causal")
    yield "broadcast", broadcast
    yield "odd values", odd_values


# ---- accuracy -------------------------------------------------------------------

def accuracy(_over):
    """RMSE and relative error: of the kernel alone (quantised inputs), of all, of quantisation alone; with exact_peaks, too."""
    B, H, S, D = 1, 8, 8192, 128
    failed = 0
    # Of outliers; FlashAttention-3: 4.0e-3. Descales of V's blocks are in the exponents of the weights, which are asked with them.
    most_of_kernel = {(False, "tensor"): 6.5e-3, (False, 128): 6.5e-3, (True, "tensor"): 4.5e-3, (True, 128): 5.5e-3}
    limits = {("outliers", "tensor", False): 2.5e-2, ("outliers", "tensor", True): 9.6e-3, ("outliers", 128, True): 9.6e-3}
    for kind in ("normal", "outliers"):
        def draw(seed):
            x = normal(B, H, S, D, seed=seed)
            if kind == "outliers":
                x = x + 10 * normal(B, H, S, D, seed=seed + 50) * (torch.rand(
                    B, H, S, D, generator=harness.generator(seed + 99), device="cuda") < 1e-3)
            return x
        q, k, v = draw(1), draw(2), draw(3)
        exact = in_parts(q.double(), k.double(), v.double())
        rms = float(exact.square().mean().sqrt())
        for hadamard in (None, 5):
            for per in ("tensor", 128):
                for mean in (False, True):
                    x = quantised(q, k, v, per=per, hadamard=hadamard, mean=mean)
                    wanted = in_parts(*(dequantised(y) for y in x))
                    for peaks in (False, True):
                        o, _ = run("none", x, exact_peaks=peaks)
                        kernel, whole = relative(o, wanted), relative(o, exact)
                        rmse = whole * rms
                        limit = limits.get((kind, per, hadamard is not None))
                        bad = (limit is not None and rmse > limit) or (kind == "normal" and whole > 5.5e-2)
                        bad |= kind == "outliers" and kernel > most_of_kernel[peaks, per]
                        failed += bad
                        print(f"{'FAILED' if bad else 'ok    '} {kind:8} per {per!s:6} hadamard {hadamard is not None!s:5} "
                              f"mean {mean!s:5} exact peaks {peaks!s:5}: kernel {kernel:.2e} (rmse {kernel * rms:.1e}), "
                              f"against the originals {whole:.2e} (rmse {rmse:.2e}), "
                              f"quantisation alone {relative(wanted, exact):.2e}", flush=True)
    return failed


def in_parts(q, k, v, rows=1024):
    """Plain attention in f64, some rows at a time; heads as they are."""
    o = torch.empty_like(q)
    for h in range(q.shape[1]):
        for r in range(0, q.shape[2], rows):
            s = q[:, h, r:r + rows] @ k[:, h].transpose(1, 2) * q.shape[3] ** -0.5
            o[:, h, r:r + rows] = torch.softmax(s, -1) @ v[:, h]
    return o


def long(_over):
    """V with a mean of one sigma: what sums of P V lose, with the mean taken out and with promotion."""
    failed = 0
    for S in (8192, 65536):
        q, k = normal(1, 2, 1536, 128, seed=1), normal(1, 2, S, 128, seed=2)
        for shift in (0.0, 1.0):
            v = normal(1, 2, S, 128, seed=3) + shift
            for mean in (True, False):
                x = quantised(q, k, v, mean=mean)
                wanted = in_parts(*(dequantised(y) for y in x))
                o, _ = run("none", x)
                error = relative(o, wanted)
                bias = float((o.double() - wanted).mean() / wanted.square().mean().sqrt())
                bad = shift > 0 and error > 5e-3
                failed += bad
                print(f"{'FAILED' if bad else 'ok    '} S {S} V ~ N({shift:g}, 1), {'mean taken out' if mean else 'promoted'}: "
                      f"kernel {error:.2e}, bias {bias:+.1e}", flush=True)
    return failed


# ---- time -----------------------------------------------------------------------

def launch_of(name, x, out, tensors=None, image=False, centred=True, inside=False, peaks=False):
    """A bound launch; all that a call does is inside: V's transposition, too, unless image."""
    fp8 = facc.Fp8.of(*x)
    if not image:
        fp8.v_image = None
    kernel = program(name).kernel(dtype="e4m3", out_dtype="bf16", head_dim=out.shape[3], head_dim_v=out.shape[3],
                                  device=0, layout="aligned", centred_v=centred, block_scales=fp8.has_blocks, transposes_v=inside,
                                  exact_peaks=peaks)
    return kernel.prepare(*(y.data for y in x), out, None, tensors=tensors, fp8=fp8)


def times(over, rounds):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    print("TFLOP/s (ratio to cuDNN bf16); V is transposed first (fp8), in the kernel (inside), or not (image; peaks: exact ones)", flush=True)
    rows = [(128, 8192), (128, 16384), (128, 2048), (256, 8192), (64, 8192)]
    for D, S in rows:
        for causal in (False, True):
            if over():
                print(f"not timed: D {D} S {S} and on")
                return 0
            B, H = 16384 // S, 2048 // D
            q, k, v = (normal(B, S, H, D, seed=n).bfloat16().transpose(1, 2) for n in range(3))
            work = 4 * B * H * S * S * D * (0.5 if causal else 1)
            base = "causal" if causal else "none"

            def cudnn():
                with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            contestants, keep = {"cudnn bf16": cudnn}, []

            def add(name, mod, per="tensor", image=False, mean=False, centred=True, inside=False, peaks=False):
                x = [facc.quantize(t.contiguous(), per=per, mean=mean and n == 2, image=image and n == 2,
                                   power_of_two=per == 128 and n == 2) for n, t in enumerate((q, k, v))]
                out = torch.empty(B, S, H, D, dtype=torch.bfloat16, device="cuda").transpose(1, 2)
                contestants[name] = launch_of(mod, x, out, captured(mod, H, S), image, centred, inside, peaks)
                keep.append((x, out))
            add("fp8", base)
            add("inside", base, inside=True)
            add("image", base, image=True)
            add("peaks", base, image=True, peaks=True)
            add("mean", base, mean=True, image=True)
            if D < 256:
                add("promoted", base, centred=False)
            if S == 8192:
                add("blocks", base, per=128)
            if S == 8192 and D == 128:
                for mod in ("alibi", "window", "documents") if causal else ("softcap",):
                    add(mod, mod)
            t = interleaved(contestants, rounds)
            print(f"D {D:3} S {S:5} {'causal' if causal else 'full  '} " + "  ".join(
                f"{n} {work / t[n] / 1e9:.0f} ({t['cudnn bf16'] / t[n]:.2f})" for n in t), flush=True)
            del contestants, keep
    return 0


def inside(over, rounds):
    """Microseconds with V transposed in the kernel, before it, and not at all; and what facc_transposes_v says."""
    shapes = [(D, S, causal, group) for S in (1024, 2048, 4096, 8192) for D in (128, 64, 256) for causal in (False, True)
              for group in ((1, 4) if D == 128 and not causal else (1,))]

    def make(D, S, causal, group):
        B, H = 16384 // S, 2048 // D
        x = [facc.quantize(normal(B, h, S, D, seed=n).bfloat16(), image=n == 2)
             for n, h in enumerate((H, H // group, H // group))]
        out = torch.empty(B, S, H, D, dtype=torch.bfloat16, device="cuda").transpose(1, 2)
        mod = "causal" if causal else "none"
        return {"inside": launch_of(mod, x, out, inside=True), "before": launch_of(mod, x, out),
                "image": launch_of(mod, x, out, image=True)}, (x, out)
    compile_all([lambda s=s, i=i: launch_of("causal" if s[2] else "none", [facc.quantize(
        normal(1, 1, 32, s[0]).bfloat16(), image=n == 2) for n in range(3)], torch.empty(
            1, 1, 32, s[0], dtype=torch.bfloat16, device="cuda"), inside=i) for s in shapes for i in (False, True)])
    for D, S, causal, group in shapes:
        if over():
            print(f"not timed: S {S} D {D} and on")
            break
        launches, keep = make(D, S, causal, group)
        t = interleaved(launches, rounds)
        best, says = t["inside"] < t["before"], bool(facc._calls._lib.facc_transposes_v(D, S * group))
        print(f"S {S:5} D {D:3} {'causal' if causal else 'full  '} {group} heads to a KV head: "
              + "  ".join(f"{n} {t[n] * 1e3:.1f}" for n in t)
              + f"  inside/before {t['inside'] / t['before']:.3f}" + ("" if best == says else "  (chosen otherwise)"), flush=True)
        del launches, keep
    return 0


class Known(Exception):
    """A case asks for a kernel."""


def compile_all(todo):
    """What these functions ask for first, side by side; they are run as far as their first launch."""
    kernels, quantizers = {}, {}
    launch, kernel = facc._fp8._launch, facc.Program.kernel

    def note_kernel(program, **variant):
        kernels[program, tuple(sorted(variant.items()))] = None
        raise Known

    def note_quantizer(context, a, x, dtype, stream, error):
        quantizers[facc._fp8.dtype_name(x, "x"), dtype, int(x.shape[3]), a.hadamard, bool(a.mean.data), bool(a.image.data)] = None
    facc._fp8._launch, facc.Program.kernel = note_quantizer, note_kernel
    for f in todo:
        try:
            f()
        except Known:
            pass
        except Exception as e:  # said when it runs
            print(f"not compiled ahead: {type(e).__name__}: {e}", flush=True)
    facc._fp8._launch, facc.Program.kernel = launch, kernel

    def make(key):
        try:
            if len(key) == 2:
                key[0].kernel(**dict(key[1]))
            else:
                stored = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[key[0]]
                x = torch.zeros(1, 1, 32, key[2], dtype=stored, device="cuda")
                facc.quantize(x, key[1], hadamard=1 if key[3] else None, mean=key[4], image=key[5])
        except Exception as e:
            print(f"FAILED to compile: {type(e).__name__}: {e}", flush=True)
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(make, [*kernels, *quantizers]))
    print(f"{len(kernels)} kernels and {len(quantizers)} quantisers in {time.monotonic() - start:.1f} s", flush=True)


def transposed(inside, f):
    """f, with V transposed in the kernel, or before it."""
    def run_it():
        chosen = facc._calls.transposes_v
        facc._calls.transposes_v = lambda *_: inside
        try:
            return f()
        finally:
            facc._calls.transposes_v = chosen
    return run_it


def check(over, only):
    failed = count = 0
    todo = [(name + ", inside" * inside, transposed(inside, case)) for name, case in cases()
            for inside in ((False, True) if "image" not in name else (False,))]
    todo = [x for x in todo if only in x[0]]
    compile_all([case for _, case in todo])
    for name, case in todo:
        if over():
            print("stopped: time is up")
            break
        count += 1
        try:
            text = case()
        except Exception as e:  # the others are still worth running
            text = f"{type(e).__name__}: {e}"
        bad = bool(text) and not text[0].isdigit()
        failed += bad
        if bad or only:
            print(("FAILED " if bad else "ok     ") + f"{name}: {text}", flush=True)
    print(f"{count} cases, {failed} failed", flush=True)
    return failed


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("parts", nargs="*", default=["check", "accuracy", "long"])
    p.add_argument("--only", default="")
    p.add_argument("--seconds", type=float, default=math.inf)
    p.add_argument("--rounds", type=int, default=5)
    args = p.parse_args()
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("SKIPPED: no GPU of sm_90")
        return 77
    end = time.monotonic() + args.seconds
    failed = 0

    def over():
        return time.monotonic() > end
    for part in args.parts:
        if over():
            break
        print(f"== {part}", flush=True)
        failed += {"check": lambda: check(over, args.only), "accuracy": lambda: accuracy(over), "long": lambda: long(over),
                   "inside": lambda: inside(over, args.rounds), "time": lambda: times(over, args.rounds)}[part]()
    print(f"{failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

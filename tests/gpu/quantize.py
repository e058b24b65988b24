"""The kernels of facc.quantize on a GPU: bits against NumPy (quantize_reference.py; means against f64),
odd values, packed sequences, strides, repeats; then their speed beside a copy of the bytes that they
must move.

    python3 tests/gpu/quantize.py [check] [time]      (default: both; about a minute)
"""
import itertools
import os
import statistics
import sys

import numpy as np
import torch

import quantize_reference as reference
from tune_unit import ROOT

sys.path.insert(0, os.path.join(ROOT, "runtime", "python"))
import facc  # noqa: E402

DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def host(x):
    return x.view(torch.uint8).cpu().numpy() if x.element_size() == 1 else x.float().cpu().numpy()


def differs(x, got, per, power_of_two, seed, lengths=None):
    """What is wrong, or None. x [B, H, S, D] as the kernel has it; with lengths its b are sequences."""
    rank = {"tensor": 0, "head": 2}.get(per, 3)
    mean = None if got.mean is None else got.mean.cpu().numpy()
    values = x.float().cpu().numpy()
    if mean is not None:
        for b in range(values.shape[0]):
            rows = values[b] if lengths is None else values[b, :, :lengths[b]]
            rows = rows.astype(np.float64)
            want = np.where(np.isfinite(rows), rows, 0).sum(1) / max(1, rows.shape[1])
            if not np.allclose(mean[b], want, rtol=1e-5, atol=1e-5):
                return "mean"
    codes, scale = reference.quantize(values, got.dtype, rank, got.block, power_of_two, seed, mean, lengths)
    if not np.array_equal(got.scale.cpu().numpy(), scale):
        return "scale"
    data, image = host(got.data), None if got.image is None else host(got.image)
    starts = None if lengths is None else np.cumsum([0] + list(lengths))
    for b, h in itertools.product(range(values.shape[0]), range(values.shape[1])):
        n = values.shape[2] if lengths is None else lengths[b]
        mine = data[b, h] if lengths is None else data[0, h, starts[b]:starts[b + 1]]
        if not np.array_equal(mine, codes[b, h, :n]):
            return f"{(mine != codes[b, h, :n]).sum()} codes of (b {b}, h {h})"
        if image is None:
            continue
        want = reference.image_of(codes[b, h, :n])
        first = 0 if lengths is None else starts[b] // 32 + 4 * b
        if not np.array_equal(image[0 if lengths else b, h, first:first + len(want)], want):
            return f"image of (b {b}, h {h})"
    return None


def cases():
    for D, S in ((64, 1), (64, 777), (128, 512), (128, 1000), (256, 300), (80, 130), (32, 2100)):
        for n, per in enumerate(("tensor", "head", 32, 96, 128, 160, 1024)):
            kind = n % 3
            yield dict(D=D, S=S, per=per, stored=("bf16", "f16", "f32")[(n + D // 32) % 3],
                       to=("e4m3", "e5m2")[n % 2], power_of_two=n % 2 == 1,
                       seed=n if kind == 1 and D in (32, 64, 128, 256) else None, mean=kind == 2,
                       image=kind == 2 or n == 0, odd=n % 2 == 0)


def check():
    failed = 0
    torch.manual_seed(1)
    for c in cases():
        x = torch.randn(2, 3, c["S"], c["D"], device="cuda") + (1 if c["mean"] else 0)
        if c["odd"] and c["S"] > 4:
            x[0, 1, 2, 3], x[1, 0, 1, 0], x[1, 2, 3] = float("nan"), -float("inf"), 0
        x = x.to(DTYPE[c["stored"]])
        more = dict(per=c["per"], power_of_two=c["power_of_two"], hadamard=c["seed"], mean=c["mean"],
                    image=c["image"])
        got = [facc.quantize(x, c["to"], **more) for _ in range(2)]
        why = differs(x, got[0], c["per"], c["power_of_two"], c["seed"])
        for a, b in zip(*got):
            if isinstance(a, torch.Tensor) and a is not got[0].image and not torch.equal(
                    a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)):
                why = why or "another result the second time"
        failed += why is not None
        if why:
            print("FAILED", c, why, flush=True)
    for lengths in ([5, 0, 300, 129], [1, 31, 32, 33, 1000]):
        for per in ("tensor", "head", 32, 160):
            cu = torch.tensor(np.cumsum([0] + lengths), dtype=torch.int32, device="cuda")
            rows = torch.randn(1, 2, sum(lengths), 128, device="cuda", dtype=torch.bfloat16) + 0.5
            got = facc.quantize(rows, per=per, mean=True, image=True, cu_seqlens=cu, max_seqlen=max(lengths))
            x = torch.zeros(len(lengths), 2, max(lengths), 128, dtype=torch.bfloat16)
            for b, n in enumerate(lengths):
                x[b, :, :n] = rows[0, :, int(cu[b]):int(cu[b]) + n].cpu()
            why = differs(x, got, per, False, None, lengths)
            failed += why is not None
            if why:
                print("FAILED packed", lengths, per, why, flush=True)
    x = torch.randn(2, 300, 4, 128, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    why = differs(x, facc.quantize(x, per=64), 64, False, None)
    failed += why is not None
    print("strides:", why or "ok")
    print(f"{failed} failed")
    return failed


def milliseconds(run, rounds=15):
    for _ in range(3):
        run()
    times = []
    for _ in range(rounds):
        torch.cuda._sleep(2_000_000)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(4):
            run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 4)
    return statistics.median(times)


def time_all():
    """Share of the speed at which a copy moves as many bytes: reads (two where a scale of more than a block
    or a mean comes first), codes, the image. 256 MB and more, so that nothing stays in L2. A line for each D."""
    print("share of a copy's speed (GB/s)")
    for D in 64, 128, 256:
        line = []
        x = torch.randn(8, 2048 // D * 2, 8192 * 64 // D // 2, D, device="cuda", dtype=torch.bfloat16)
        size = x.numel()
        for name, reads, writes, more in (
                ("128 rows", 1, 1, dict(per=128)),
                ("+hadamard", 1, 1, dict(per=128, hadamard=1)),
                ("head", 2, 1, dict(per="head")),
                ("+hadamard", 2, 1, dict(per="head", hadamard=1)),
                ("tensor", 2, 1, dict(per="tensor")),
                ("V 128 rows+mean+image", 2, 2, dict(per=128, mean=True, image=True)),
                ("V head+mean+image", 2, 2, dict(per="head", mean=True, image=True))):
            moved = size * (2 * reads + writes)
            y = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
            z = torch.empty_like(y)
            copy = milliseconds(lambda: z.copy_(y))
            ms = milliseconds(lambda: facc.quantize(x, **more))
            line.append(f"{name} {copy / ms:.2f} ({moved / ms * 1e-6:.0f})")
            del y, z
        print(f"D {D}: " + ", ".join(line), flush=True)


def main():
    parts = sys.argv[1:] or ["check", "time"]
    failed = check() if "check" in parts else 0
    if "time" in parts:
        time_all()
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

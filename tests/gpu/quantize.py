"""The kernels of facc.quantize on a GPU: bits against NumPy (quantize_reference.py; means, and 16-bit
elements with hadamard, against f64), odd values, packed sequences, strides, repeats; then their speed
beside a copy of the bytes that they must move.

    python3 tests/gpu/quantize.py [check] [time] [--before LIBRARY...] [--only NAME] [--size MB]
                                                                (default: both; about a minute)

--before: other libfacc.so, whose kernels are timed by turns with these. --only: what has that in its
name. --size: of a tensor; else 256 and 64.
"""
import argparse
import importlib
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
    data, image = host(got.data), None if got.image is None else host(got.image)
    if seed is not None and x.dtype != torch.float32:
        codes = data
        why = reference.hadamard_differs(values, codes, got.scale.cpu().numpy(), got.dtype, rank, got.block,
                                         power_of_two, seed)
        if why:
            return why
    else:
        codes, scale = reference.quantize(values, got.dtype, rank, got.block, power_of_two, seed, mean, lengths)
        if not np.array_equal(got.scale.cpu().numpy(), scale):
            return "scale"
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
    for D, stored, per in itertools.product((32, 64, 128, 256), ("bf16", "f16"), ("head", 96, 1024)):
        yield dict(D=D, S=1111, per=per, stored=stored, to="e5m2" if D == 64 else "e4m3", power_of_two=per == 96,
                   seed=D, mean=False, image=stored == "f16", odd=True)


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
    for D, per in ((64, "head"), (128, 128), (128, "head"), (256, 128)):  # more slabs than CTAs
        x = torch.randn(2, 3, 22100 * max(1, 128 // D), D, device="cuda", dtype=torch.bfloat16)
        why = differs(x, facc.quantize(x, per=per, hadamard=3), per, False, 3)
        failed += why is not None
        if why:
            print("FAILED several slabs of a CTA", D, per, why, flush=True)
    x = torch.randn(2, 300, 4, 128, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    why = differs(x, facc.quantize(x, per=64), 64, False, None)
    failed += why is not None
    print("strides:", why or "ok")
    print(f"{failed} failed")
    return failed


def milliseconds(runs, rounds=15):
    """Of each, which take turns."""
    times = [[] for _ in runs]
    for run in runs * 3:
        run()
    for _ in range(rounds):
        for run, mine in zip(runs, times):
            torch.cuda._sleep(2_000_000)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(4):
                run()
            end.record()
            end.synchronize()
            mine.append(begin.elapsed_time(end) / 4)
    return [statistics.median(mine) for mine in times]


def package_of(library):
    """The Python package once more, over another library. Without torch it does not define its operator again."""
    def taken():
        return {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in ("facc", "torch")}
    kept, place = taken(), os.environ.get("FACC_LIBRARY")
    os.environ["FACC_LIBRARY"] = os.path.abspath(library)
    other = importlib.import_module("facc")
    taken()
    sys.modules.update(kept)
    os.environ.pop("FACC_LIBRARY")
    if place is not None:
        os.environ["FACC_LIBRARY"] = place
    return other


# name, reads, writes, options
TIMED = (("128 rows", 1, 1, dict(per=128)),
         ("128 rows+hadamard", 1, 1, dict(per=128, hadamard=1)),
         ("head", 2, 1, dict(per="head")),
         ("head+hadamard", 2, 1, dict(per="head", hadamard=1)),
         ("tensor", 2, 1, dict(per="tensor")),
         ("V 128 rows+mean+image", 2, 2, dict(per=128, mean=True, image=True)),
         ("V head+mean+image", 2, 2, dict(per="head", mean=True, image=True)))


def time_all(before, only, sizes):
    """Share of the speed at which a copy moves as many bytes: reads (two where a scale of more than a block
    or a mean comes first), codes, the image. Of 256 MB, so that little stays in L2, and of 64 MB."""
    packages = [package_of(library) for library in before] + [facc]
    print("share of a copy's speed (GB/s): " + " -> ".join([*before, "now"]), flush=True)
    for D, size in itertools.product((64, 128, 256), [mb << 19 for mb in sizes]):
        x = torch.randn(8, 4096 // D, size // 8 // 4096, D, device="cuda", dtype=torch.bfloat16)
        for name, reads, writes, more in [t for t in TIMED if only in t[0]]:
            moved = size * (2 * reads + writes)
            y = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
            z = torch.empty_like(y)
            copy, *ms = milliseconds([lambda: z.copy_(y)] + [
                lambda p=p: p.quantize(x, **more) for p in packages])
            print(f"D {D}, {2 * size >> 20} MB, {name}: " + " -> ".join(
                f"{copy / t:.2f} ({moved / t * 1e-6:.0f})" for t in ms), flush=True)
            del y, z
        del x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["check", "time"])
    parser.add_argument("--before", nargs="+", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--size", type=int, nargs="+", default=[256, 64])
    options = parser.parse_args()
    failed = check() if "check" in options.parts else 0
    if "time" in options.parts:
        time_all(options.before, options.only, options.size)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

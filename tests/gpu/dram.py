#!/usr/bin/env python3
"""What the forward kernel moves between DRAM and the GPU, by ncu's counters:
it may read at most 1.3 times the bytes of Q, K and V, and write 1.3 times those
of O and LSE - nothing quadratic, nothing twice. One launch each of full and
causal attention at 8,192 tokens, dim 128, with caches that hold nothing.

    python3 tests/gpu/dram.py [--family sm80] [--length 8192] [--limit 1.3]

Needs a GPU, ncu, PyTorch and libfacc.so; without one of them it says SKIPPED
and ends with 77 (--required: 1)."""
import argparse
import csv
import glob
import io
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "runtime" / "python")]
METRICS = {"dram__bytes_read.sum": "read", "dram__bytes_write.sum": "written"}
UNITS = {"byte": 1, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12}
MASKS = {"full": None, "causal": "q >= kv"}
TOKENS, WIDTH, DIM = 16384, 2048, 128  # of all sequences, of all heads


def shape_of(length):
    return max(1, TOKENS // length), WIDTH // DIM, length, DIM


def child(mask, length, family):
    """The launch that ncu looks at."""
    import torch
    import facc
    B, H, S, D = shape_of(length)
    q, k, v = (torch.randn(B, H, S, D, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    kernel = facc.find_program(mask_mod=MASKS[mask]).kernel(dtype="bf16", head_dim=D, head_dim_v=D, device=0,
                                                            family=family)
    launch = kernel.prepare(q, k, v)
    torch.cuda.synchronize()
    launch()
    torch.cuda.synchronize()
    print(f"launched {kernel.info.launched}")


def counters(text):
    """{metric: bytes} of ncu's CSV, whatever is printed around it: rows follow
    a header that names the columns."""
    out, header = {}, None
    for row in csv.reader(io.StringIO(text)):
        if "Metric Name" in row and "Metric Value" in row:
            header = {name: n for n, name in enumerate(row)}
        elif header and len(row) == len(header):
            name = row[header["Metric Name"]]
            if name in METRICS:
                unit = row[header["Metric Unit"]].strip().lower() if "Metric Unit" in header else "byte"
                value = row[header["Metric Value"]].replace(",", "").replace(" ", "")
                out[name] = out.get(name, 0.0) + float(value) * UNITS[unit]
    return out


def find_ncu():
    return shutil.which("ncu") or next(iter(sorted(
        glob.glob("/usr/local/cuda*/bin/ncu") + glob.glob("/opt/nvidia/nsight-compute/*/ncu"), reverse=True)), None)


def measure(ncu, mask, args):
    """({metric: bytes}, text)"""
    command = [ncu, "--clock-control", "none", "--cache-control", "all", "--kernel-name", "facc_forward",
               "--launch-count", "1", "--target-processes", "all", "--metrics", ",".join(METRICS), "--csv",
               "--print-units", "base", sys.executable, str(HERE / "dram.py"), "--child", mask,
               "--length", str(args.length)]
    done = subprocess.run(command + (["--family", args.family] if args.family else []), capture_output=True, text=True,
                          timeout=300, env=dict(os.environ, FACC_LOG="off"))
    return counters(done.stdout), done.stdout + done.stderr


def judge(mask, found, args):
    """Whether the ratios are within the limit; prints them."""
    B, H, S, D = shape_of(args.length)
    ideal = {"dram__bytes_read.sum": 3 * B * H * S * D * 2, "dram__bytes_write.sum": B * H * S * (D * 2 + 4)}
    good = True
    for metric, what in METRICS.items():
        ratio = found[metric] / ideal[metric]
        ok = 0 < ratio <= args.limit
        good &= ok
        print(f"{mask:7} {args.length} tokens, dim {D}: {found[metric] / 1e6:8.1f} MB {what:8} {ratio:5.2f} x of "
              f"{ideal[metric] / 1e6:.1f} MB: {'ok' if ok else 'FAILED'}", flush=True)
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--family", help="sm80 or sm90; else the best")
    p.add_argument("--length", type=int, default=8192)
    p.add_argument("--limit", type=float, default=1.3)
    p.add_argument("--required", action="store_true", help="fail where it cannot run")
    p.add_argument("--child", choices=MASKS, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.child:
        return child(args.child, args.length, args.family)

    def skip(reason):
        print(f"SKIPPED: DRAM traffic: {reason}")
        return 1 if args.required else 77
    ncu = find_ncu()
    if not ncu:
        return skip("ncu is not installed")
    try:
        import torch
        import facc
    except ImportError as e:
        return skip(str(e))
    if not torch.cuda.is_available():
        return skip("there is no GPU")
    for mask in MASKS.values():  # ncu is for the launch alone
        facc.find_program(mask_mod=mask).kernel(dtype="bf16", head_dim=DIM, head_dim_v=DIM, device=0,
                                                family=args.family)
    good = True
    for mask in MASKS:
        found, text = measure(ncu, mask, args)
        if set(found) != set(METRICS):
            if "ERR_NVGPUCTRPERM" in text or "LibraryNotLoaded" in text:
                return skip("this machine does not let ncu read its counters")
            print(f"{mask}: ncu gave no counters: FAILED\n{text[-3000:]}")
            good = False
            continue
        good &= judge(mask, found, args)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

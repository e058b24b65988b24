#!/usr/bin/env python3
"""GPU tests: facc's kernels against f64, PyTorch's FA2 and facc's CPU oracle.

Needs a GPU, PyTorch and libfacc.so ($FACC_LIBRARY or build/release); without
one of them it says SKIPPED and ends with 77 (--required: with 1).

    python3 tests/gpu/run_all.py [--groups lengths,mods] [--only TEXT]

FACC_TEST_DEVICE=cpu runs the numeric groups on the CPU path (PyTorch still
needed).
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time


def skip(reason, required):
    print(f"SKIPPED: GPU tests: {reason}", flush=True)
    return 1 if required else 77


def hopper(args):
    """The sm90 family's own cases, in processes of their own. Whether they are
    fine (or there is no such GPU)."""
    import torch
    from device import DEVICE
    if DEVICE == "cuda" and torch.cuda.get_device_capability() != (9, 0):
        print("hopper: the GPU is not of sm_90")
        return True
    script = pathlib.Path(__file__).resolve().parent / "hopper.py"
    return subprocess.call([sys.executable, str(script), "--jobs", str(args.jobs)]) == 0


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--groups", default="", help="lengths dims gqa strides rows values mods repeat launch errors "
                   "masks changes packed blocks dot edges cli embed hopper")
    p.add_argument("--only", default="", help="cases whose name has this text")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="compiles at a time")
    p.add_argument("--compile-first", action="store_true", help="not beside the tests")
    p.add_argument("--required", action="store_true", help="fail where there is nothing to test on")
    args = p.parse_args()
    try:
        import torch
    except ImportError:
        return skip("PyTorch is not installed", args.required)
    from device import DEVICE
    if DEVICE == "cuda" and not torch.cuda.is_available():
        return skip("there is no GPU", args.required)
    os.environ.setdefault("FACC_LOG", "off")  # spills are the kernel sweep's affair
    try:
        import harness
    except ImportError as e:
        return skip(str(e), args.required)
    import numeric
    import masks
    import packed
    import block_masks
    import dots
    import edges
    import cli  # noqa: F401  (registers its tests)
    import embed  # noqa: F401
    suites = [numeric, masks, packed, block_masks, dots, edges]
    if DEVICE == "cuda":
        import behaviour  # noqa: F401  (registers its tests)
        import schedules  # noqa: F401
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    print(f"{name}, PyTorch {torch.__version__}, facc {harness.facc.version()}")
    torch.backends.cuda.matmul.allow_tf32 = False
    groups = {g for g in args.groups.split(",") if g}
    fine = True
    if DEVICE == "cuda" and (not groups or "hopper" in groups) and not args.only:
        fine = hopper(args)
        if groups == {"hopper"}:
            return 0 if fine else 1
    compiler = None
    if not args.only and DEVICE == "cuda":
        compiler = harness.Precompiler([k for suite in suites for k in suite.kernels(groups)], args.jobs)
        if args.compile_first:
            compiler.wait()
    start, failed = time.time(), harness.run(groups, args.only)
    print(f"{time.time() - start:.0f} s")
    if compiler:
        compiler.end()
    return 1 if failed or not fine else 0


if __name__ == "__main__":
    sys.exit(main())

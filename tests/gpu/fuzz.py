#!/usr/bin/env python3
"""Random programs on the GPU, by both families, against plain Lua on numbers:
the program `fuzz` (tests/fuzz/README.md), which is looked for beside
$FACC_LIBRARY and in build/release. It compiles side by side, a process for each
job, and tells of a kernel that hangs or faults as of any other finding.

    python3 tests/gpu/fuzz.py [--mods 500] [--seed 1] [--jobs N] [--seconds S] [--out FOLDER]

Needs a GPU and NVRTC, no Python package. Without a GPU or the program it says
SKIPPED and ends with 77 (--required: 1)."""
import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def find_program():
    places = [ROOT / "build" / "release"]
    if os.environ.get("FACC_LIBRARY"):
        places.insert(0, pathlib.Path(os.environ["FACC_LIBRARY"]).resolve().parent)
    return next((str(p / "fuzz") for p in places if os.access(p / "fuzz", os.X_OK)), None)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--mods", type=int, default=500, help="programs, each by every family that the GPU has")
    p.add_argument("--seed", type=int, default=1, help="of the first program; the others follow")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    p.add_argument("--seconds", type=float, default=0, help="begin no program later (0: no limit)")
    p.add_argument("--timeout", type=float, default=30, help="seconds of CPU time that one program may take")
    p.add_argument("--shrink", type=float, default=60, help="seconds for making a failing program small")
    p.add_argument("--out", default=".", help="folder for failing programs")
    p.add_argument("--required", action="store_true", help="fail where it cannot run")
    args = p.parse_args()
    program = find_program()
    if program is None:
        print("SKIPPED: the program fuzz was not built (build/release/fuzz)")
        return 1 if args.required else 77
    start = time.time()
    code = subprocess.call([program, "--gpu", str(args.mods), "--seed", str(args.seed), "--jobs", str(args.jobs),
                            "--seconds", str(args.seconds),
                            "--timeout", str(args.timeout), "--shrink", str(args.shrink), "--out", args.out])
    if code == 77:
        return 1 if args.required else 77
    print(f"random programs on the GPU: {'fine' if code == 0 else 'FAILED'}; {time.time() - start:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())

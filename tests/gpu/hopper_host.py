"""Compiles the sm90 forward kernel for the CPU (host/) and runs it on random cases, deadlocks
included: with two and three groups, one and two buffers of Q, tables, both directions. Needs a C++
compiler, no GPU.

    python3 tests/gpu/hopper_host.py [CASES [SEED [PART OF A NAME]]]
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

from tune_unit import ROOT, config_text

SHAPES = {"three groups": dict(D=64, Dv=64, m=192, n=96, warps=16, q_buffers=2),
          "three groups, one Q": dict(D=40, Dv=64, m=192, n=64, warps=16, q_buffers=1),
          "two groups": dict(D=64, Dv=64, m=128, n=64, warps=12, q_buffers=2),
          "two groups, one Q": dict(D=72, Dv=40, m=128, n=80, warps=12, q_buffers=1)}
VARIANTS = {"plain": None, "causal": "tests/gpu/variants/causal.cuh", "skips": (0, 0), "skips reverse": (0, 1),
            "skips tables": (1, 0), "skips tables reverse": (1, 1)}
FLAGS = ["-std=c++17", "-O2", "-g", "-w", "-Wno-psabi"]


def build(folder, shape, variant):
    config = dict(SHAPES[shape], stages=2, qreg=False, dtype="bf16", out="bf16", wgmma=True, scheduled=False)
    source = VARIANTS[variant]
    if isinstance(source, tuple):
        text = "#define SKIPS_TABLES {}\n#define SKIPS_REVERSE {}\n#include \"skips.cuh\"\n".format(*source)
    else:
        text = open(os.path.join(ROOT, source or "templates/stub/facc_variant.cuh")).read()
    os.makedirs(folder)
    for file, content in (("facc_config.cuh", config_text(config)), ("facc_variant.cuh", text)):
        with open(os.path.join(folder, file), "w") as f:
            f.write(content)
    host, program = os.path.join(ROOT, "tests/gpu/host"), os.path.join(folder, "hopper")
    subprocess.run([os.environ.get("CXX", "c++"), *FLAGS, "-I", folder, "-I", host, "-I",
                    os.path.join(ROOT, "templates"), "-I", ROOT, os.path.join(host, "hopper.cpp"), "-o", program],
                   check=True)
    return program


def run(folder, shape, variant, seed, cases):
    done = subprocess.run([build(folder, shape, variant), seed, cases], capture_output=True, text=True)
    return done.returncode, (done.stdout or done.stderr[-1500:]).strip()


def main():
    cases, seed, part = sys.argv[1:] + ["12", "1", ""][len(sys.argv) - 1:]
    failed = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        names = [(s, v) for s in SHAPES for v in VARIANTS if part in f"{v}, {s}"]
        jobs = [pool.submit(run, os.path.join(folder, str(n)), *name, seed, cases) for n, name in enumerate(names)]
        for (shape, variant), job in zip(names, jobs):
            code, text = job.result()
            failed += code != 0
            print("FAILED" if code else "ok    ", f"{variant}, {shape}:", text, flush=True)
    print(f"{failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

"""Compiles the kernels that make a schedule for the CPU (host/) and runs them on random cases: each
sample variant with one group of warps and with two. Needs a C++ compiler, no GPU.

    python3 tests/gpu/schedule_host.py [CASES [SEED [PART OF A NAME]]]
"""
import os
import subprocess
import sys
import tempfile

from tune_unit import ROOT, config_text, shared_bytes

VARIANTS = {"plain": 0, "causal": 0, "document_planned": 1, "document_halved": 1, "dilated": 0,
            "keep_scanned": 1}
SHAPES = [dict(m=128, n=64, warps=4, stages=2), dict(m=256, n=48, warps=8, stages=2)]
NO_TILES = dict(m=0, n=0)  # of the kernels' own unit
FLAGS = ["-std=c++17", "-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=undefined",
         "-Wno-unknown-pragmas", "-w", "-Wno-psabi"]


def build(folder, name, variant, shape, blocks):
    config = dict(shape, D=64, Dv=64, qreg=False, dtype="bf16", out="bf16",
                  tensors=VARIANTS[variant], block_mask=blocks)
    os.makedirs(os.path.join(folder, name, "makers"))
    for file, text in (("facc_config.cuh", config_text(config)),
                       ("makers/facc_config.cuh", config_text(dict(config, **NO_TILES))),
                       ("facc_variant.cuh", open(os.path.join(
                           ROOT, "templates/stub/facc_variant.cuh" if variant == "plain" else
                           f"tests/gpu/variants/{variant}.cuh")).read())):
        with open(os.path.join(folder, name, file), "w") as f:
            f.write(text)
    program = os.path.join(folder, name, "schedule")
    host = os.path.join(ROOT, "tests/gpu/host")
    compiler = [os.environ.get("CXX", "c++"), *FLAGS]
    include = [x for i in (os.path.join(folder, name), host, os.path.join(ROOT, "templates"), ROOT)
               for x in ("-I", i)]
    # Hidden: its functions have the names of the program's.
    subprocess.run([*compiler, "-shared", "-fPIC", "-fvisibility=hidden", "-I",
                    os.path.join(folder, name, "makers"), *include,
                    os.path.join(host, "schedule_kernels.cpp"), "-o", program + ".so"], check=True)
    subprocess.run([*compiler, *include, os.path.join(host, "schedule.cpp"), program + ".so", "-o", program],
                   check=True)
    return program


def main():
    cases, seed, part = sys.argv[1:] + ["30", "1", ""][len(sys.argv) - 1:]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for variant in VARIANTS:
            for blocks in (False, True):
                for i, shape in enumerate(SHAPES):
                    name = f"{variant}{'+blocks' if blocks else ''}.{i + 1}"
                    if part not in name:
                        continue
                    done = subprocess.run([build(folder, name, variant, shape, blocks), seed, cases],
                                          capture_output=True, text=True)
                    failed += done.returncode != 0
                    print("FAILED" if done.returncode else "ok    ", name,
                          (done.stdout + done.stderr).strip()[-600:], flush=True)
    print(f"{failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

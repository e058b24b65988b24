"""Compiles the sm90 forward kernel for the CPU (host/pipeline/) and runs its warps on random cases, in
random order: deadlocks, races of barriers and slots, what is multiplied and written. Needs a C++
compiler, no GPU.

    python3 tests/gpu/pipeline_host.py [--cases N] [--seed N] [--size N] [--only PART] [--mutations]
                                       [--templates FOLDER] [--jobs N]

--mutations: each change of the templates that MUTATIONS lists must be found.
"""
import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

from tune_unit import ROOT, config_text

HOST = os.path.join(ROOT, "tests/gpu/host/pipeline")
FLAGS = ["-std=c++17", "-g", "-O1", "-fno-strict-aliasing", "-w", "-Wno-psabi",
         "-U_FORTIFY_SOURCE"]
# variant: (file, captured tensors, flags)
VARIANTS = {
    "plain": ("templates/stub/facc_variant.cuh", 0, []),
    "causal": ("tests/gpu/variants/causal.cuh", 0, []),
    "alibi": ("tests/gpu/variants/alibi_causal.cuh", 1, ["-DHOST_TENSOR=1"]),
    "bias": ("tests/gpu/variants/bias.cuh", 1, ["-DHOST_TENSOR=3"]),
    "listed": ("tests/gpu/host/pipeline/listed.cuh", 0, ["-DHOST_REVERSE=0", "-DHOST_TABLES=0"]),
    "reverse": ("tests/gpu/host/pipeline/listed.cuh", 0, ["-DHOST_REVERSE=1", "-DHOST_TABLES=0"]),
    "tables": ("tests/gpu/host/pipeline/listed.cuh", 0, ["-DHOST_REVERSE=0", "-DHOST_TABLES=1"]),
}
SHAPES = {"2.1": dict(m=128, warps=12, q_buffers=1, n=64), "2.2": dict(m=128, warps=12, q_buffers=2, n=128),
          "3.1": dict(m=192, warps=16, q_buffers=1, n=96), "3.2": dict(m=192, warps=16, q_buffers=2, n=64)}
NUMBERS = [("plain", "2.2"), ("causal", "2.1"), ("alibi", "3.2"), ("bias", "2.2"), ("listed", "3.1"),
           ("reverse", "2.2"), ("tables", "3.2"), ("tables", "2.1")]
# file, text, in its place, a program that must find it
MUTATIONS = [
    ("sm90/visits.cuh", "if (holds && end - v_open_ > kStages)",
     "if (holds && end - v_open_ > kStages + 1)", "tags.listed.2.2"),
    ("sm90/visits.cuh", "if (holds && load - v_open_ - 1 > kStages)",
     "if (holds && load - v_open_ - 2 > kStages)", "tags.listed.3.2"),
]


def programs():
    return ([f"tags.{v}.{s}" for v in VARIANTS for s in SHAPES] +
            [f"numbers.{v}.{s}" for v, s in NUMBERS])


def build(folder, name, templates, changes=()):
    kind, variant, shape = name.split(".", 2)
    file, tensors, flags = VARIANTS[variant]
    numbers = kind == "numbers"
    place = os.path.join(folder, name + "".join(f"~{i}" for i, _ in enumerate(changes)))
    os.makedirs(place)
    config = dict(SHAPES[shape], D=64, Dv=64, stages=2, qreg=False, dtype="bf16",
                  out="f32" if shape == "2.1" else "bf16", tensors=tensors, wgmma="", scheduled=False)
    if numbers:
        config.update(D=24, Dv=40 if shape != "2.1" else 72)
    texts = {"facc_config.cuh": config_text(config), "facc_variant.cuh": open(os.path.join(ROOT, file)).read()}
    with open(os.path.join(templates, "sm90/forward.cu")) as f:
        forward = f.read()
    for old, new in (("extern __shared__ __align__(1024) unsigned char shared[];",
                      "unsigned char *const shared = simt::m.cta->shared;"),
                     ('extern "C" __global__', "static")):
        assert old in forward, old
        forward = forward.replace(old, new)
    texts["forward_host.cuh"] = forward
    for file, old, new in changes:
        with open(os.path.join(templates, file)) as f:
            text = f.read()
        if text.count(old) != 1:
            raise SystemExit(f"{file} no longer has this once: {old}")
        texts[file] = text.replace(old, new)
    for file, text in texts.items():
        os.makedirs(os.path.dirname(os.path.join(place, file)), exist_ok=True)
        with open(os.path.join(place, file), "w") as f:
            f.write(text)
    include = [place] + ([] if numbers else [os.path.join(HOST, "tags")]) + [HOST, templates, ROOT]
    program = os.path.join(place, "pipeline")
    subprocess.run([os.environ.get("CXX", "c++"), *FLAGS, *flags, f"-DHOST_CONSUMER_LANES={32 if numbers else 1}",
                    *(x for i in include for x in ("-I", i)),
                    os.path.join(HOST, "pipeline.cpp"), "-o", program], check=True)
    return program


def run(folder, name, args, changes=()):
    cases = args.cases if name.startswith("tags") else max(1, args.cases // 25)
    try:
        program = build(folder, name, args.templates, changes)
    except subprocess.CalledProcessError:
        return name, None, "does not compile"
    try:
        done = subprocess.run([program, str(args.seed), str(cases), str(args.size)],
                              capture_output=True, text=True, timeout=args.timeout)
        result = name, done.returncode, (done.stdout + done.stderr).strip()
    except subprocess.TimeoutExpired:
        result = name, None, "takes too long"
    shutil.rmtree(os.path.dirname(program))
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--mutations", action="store_true")
    parser.add_argument("--templates", default=os.path.join(ROOT, "templates"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=int, default=600)
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        if args.mutations:
            tasks = [(m, pool.submit(run, folder, m[3], args, [m[:3]])) for m in MUTATIONS]
            for mutation, task in tasks:
                name, code, text = task.result()
                failed += code != 1
                print("found    " if code == 1 else "NOT FOUND", name, mutation[1], "->", mutation[2])
                print("    " + text.replace("\n", "\n    "), flush=True)
        else:
            for task in [pool.submit(run, folder, name, args) for name in programs() if args.only in name]:
                name, code, text = task.result()
                failed += code != 0
                print("ok    " if code == 0 else "FAILED", name, text[:6000], flush=True)
    print(f"{failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

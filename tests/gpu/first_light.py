#!/usr/bin/env python3
"""One tiny case of each way through the kernels, for the first run of new ones:
a line OK or FAIL for each, within a minute. Each runs in a process of its own,
ended after 20 seconds: a kernel that hangs costs no more than that.

    python3 tests/gpu/first_light.py [--only TEXT] [--jobs 8] [--timeout 20]

FACC_TEST_DEVICE=cpu: the same on the CPU path."""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def mask(name, *shape, dtype="bf16"):
    def run():
        from masks import mask_case
        mask_case(name, *shape, dtype)
    return run


def expression(text, keep, D=128):
    def run():
        import facc
        import harness
        harness.check_case(facc.find_program(mask_mod=text), *harness.random_qkv(1, 2, 1, 300, 300, D, seed=1),
                           lambda s, b, h, q, kv: (s, keep(q, kv)))
    return run


def packed(name, lengths):
    def run():
        from packed import packed_case
        packed_case(name, lengths, lengths, 2, 1, 128, "bf16")
    return run


def padded():
    import torch
    from device import DEVICE
    from masks import mask_case
    used = torch.tensor([200, 0, 300], dtype=torch.int32, device=DEVICE)
    mask_case("document causal", 3, 2, 1, 300, 300, 128, "bf16", used, used)


def lists(name, size, value=None):
    def run():
        import torch
        import block_masks
        from device import DEVICE
        rows, cols = (block_masks.blocks(300, n) for n in size)
        classes = block_masks.random_classes(1, 1, rows, cols, 1)
        if value is not None:
            classes = torch.full((1, 1, rows, cols), value, dtype=torch.int32, device=DEVICE)
        block_masks.list_case(name, classes, size, (1, 2, 1, 300, 300, 128))
    return run


def of_suite(module, function, name):
    """A case of the suites, by its name."""
    def run():
        cases = dict(getattr(__import__(module), function)())
        cases[name]()
    return run


CASES = {
    "full": expression("q >= 0", lambda q, kv: (q >= 0) & (kv >= 0)),
    "causal, plain bounds": expression("q >= kv", lambda q, kv: q >= kv),
    "window, plain bounds": expression("q >= kv and q - kv < 50", lambda q, kv: (q >= kv) & (q - kv < 50)),
    "analytic: both in prefix": mask("both in prefix", 1, 2, 1, 300, 300, 128),
    "analytic D 64": mask("both in prefix", 1, 2, 1, 300, 300, 64),
    "analytic D 256": mask("both in prefix", 1, 2, 1, 300, 300, 256),
    "per head": mask("head windows", 2, 4, 2, 300, 300, 128),
    "per batch": mask("even batches", 2, 2, 1, 300, 300, 128),
    "ranged: documents causal": mask("document causal", 1, 2, 1, 300, 300, 128),
    "ranged: shared prefix": mask("shared prefix", 1, 2, 1, 300, 300, 128),
    "ranged: longformer": mask("longformer", 1, 2, 1, 300, 300, 64, dtype="f16"),
    "ranged: 3300 tokens": mask("document causal", 1, 1, 1, 3300, 3300, 128),
    "analytic: dilated": mask("dilated", 1, 2, 1, 300, 300, 128),
    "halved: q & kv == 0": expression("q & kv == 0", lambda q, kv: (q & kv) == 0),
    "halved: natten 200": mask("natten 200", 1, 2, 1, 1000, 1000, 64),
    "table: paged": mask("paged", 2, 2, 1, 300, 300, 128),
    "scanned: dense bool": mask("dense bool", 1, 2, 1, 300, 300, 128),
    "scanned: 4500 tokens": mask("dense bool", 1, 1, 1, 4500, 4500, 64),
    "-inf in score_mod": mask("document score", 1, 2, 1, 300, 300, 128),
    "no KV": mask("document causal", 1, 2, 1, 130, 0, 64),
    "packed, plain bounds": packed("causal", (0, 1, 130, 300)),
    "packed, no mask": packed("plain", (0, 1, 130, 300)),
    "packed, documents": packed("document causal", (0, 1, 130, 300)),
    "packed, scanned": packed("dense", (0, 1, 130, 300)),
    "padded, documents": padded,
    "block lists, no mod": lists("none", (128, 128)),
    "block lists, causal": lists("causal", (48, 80)),
    "block lists, empty": lists("none", (64, 128), 0),
    "schedule_ready": of_suite("schedules", "repeated", "document causal schedule_ready"),
    "graph capture": of_suite("schedules", "streams_and_graphs", "document causal captured in a graph"),
}


def child(name):
    import torch
    from device import DEVICE
    os.environ.setdefault("FACC_LOG", "off")
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        import harness  # noqa: F401  (says where facc is)
        CASES[name]()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
    except Exception as e:
        print(f"FAIL {type(e).__name__}: {str(e).strip()[:600]}", flush=True)
        os._exit(1)  # a faulted device makes the usual end slow
    print("OK", flush=True)
    os._exit(0)


def run_one(name, timeout):
    """(name, verdict, seconds, text)"""
    start = time.time()
    process = subprocess.Popen([sys.executable, str(HERE / "first_light.py"), "--case", name],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=HERE)
    try:
        text = process.communicate(timeout=timeout)[0].strip()
        ok = process.returncode == 0 and text.endswith("OK")
        return name, "OK" if ok else "FAIL", time.time() - start, "" if ok else text[-700:]
    except subprocess.TimeoutExpired:
        process.kill()
        return name, "FAIL", time.time() - start, f"no end after {timeout} s"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--only", default="")
    p.add_argument("--jobs", type=int, default=min(8, os.cpu_count()))
    p.add_argument("--timeout", type=float, default=20)
    p.add_argument("--case")
    args = p.parse_args()
    if args.case:
        return child(args.case)
    names = [n for n in CASES if args.only in n]
    if os.environ.get("FACC_TEST_DEVICE") == "cpu":
        names = [n for n in names if n not in ("schedule_ready", "graph capture")]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda n: run_one(n, args.timeout), names))
    failed = [r for r in results if r[1] != "OK"]
    for name, _, _, text in failed:
        print(f"--- {name}\n{text}\n")
    for name, verdict, seconds, _ in results:
        print(f"{verdict:5} {name:28} {seconds:5.1f} s")
    print(f"{len(results)} cases, {len(failed)} failed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())

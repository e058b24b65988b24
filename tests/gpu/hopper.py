#!/usr/bin/env python3
"""The sm90 kernels on a Hopper GPU, case by case (hopper_cases.py), against f64.

    python3 tests/gpu/hopper.py [--quick] [--filter TEXT] [--groups dims,nan]

Kernels are compiled first, side by side, into the cache on disk. The cases run
in a process of their own that says which one it begins; one that gets nowhere
for --timeout seconds (a deadlock on the GPU) is ended, reported as HUNG, and
the rest goes on in a new process, as it does after a fault of the GPU.
Failures come last, each with the call that repeats it.

Needs a GPU of sm_90, PyTorch and libfacc.so; without them it says SKIPPED and
ends with 77 (--required: 1). FACC_TEST_DEVICE=cpu: the same cases on the CPU
path, which tests the cases."""
import argparse
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "runtime" / "python")]
NEED_GPU = ("offsets", "families")  # groups that say nothing about the CPU path
START_SECONDS = 120  # for imports and the GPU's first context
MOST_RESTARTS = 8


def selected(args):
    """[(name, case)], the same in parent and child. Names are unique."""
    import hopper_cases
    groups = [g for g in args.groups.split(",") if g] or list(hopper_cases.GROUPS)
    out = {}
    for group in groups:
        for case in hopper_cases.GROUPS[group]():
            name = f"{group}/{case.name}"
            if name in out:
                raise SystemExit(f"two cases are called {name}")
            out[name] = case
    return [(n, c) for n, c in out.items() if args.filter in n and (c.quick or not args.quick)]


# ---- the child: runs cases -------------------------------------------------------

def say(*words):
    print("@" + " ".join(words), flush=True)


def run_case(case):
    """None, or what is wrong."""
    import facc
    import harness
    harness.LAUNCHED.clear()
    try:
        case.run()
        other = harness.LAUNCHED - {case.family}
        return f"launched {', '.join(sorted(other)) or 'nothing'}, not {case.family}" if other else None
    except (harness.Failure, facc.Error) as e:
        return f"{type(e).__name__}: {e}"
    except Exception:
        return traceback.format_exc()


def child(args):
    """Runs the cases whose numbers come in on stdin."""
    import torch
    import harness
    torch.backends.cuda.matmul.allow_tf32 = False
    harness.VARIANT["layout"] = "aligned"
    cases = selected(args)
    say("ready")
    for n in json.load(sys.stdin):
        say("start", str(n))
        wrong = run_case(cases[n][1])
        lost = wrong is not None and harness.device_lost()
        if wrong is None:
            say("ok", str(n))
        else:
            say("failed", str(n), json.dumps(wrong))
        if lost:
            say("lost")
            break
    say("end")
    os._exit(0)  # a faulted device makes the usual end slow


# ---- the parent ------------------------------------------------------------------

class Child:
    def __init__(self, args, numbers, device):
        command = [sys.executable, str(HERE / "hopper.py"), "--child", "--groups", args.groups, "--filter", args.filter]
        self.process = subprocess.Popen(command + ["--quick"] * args.quick, stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env=dict(os.environ, FACC_TEST_DEVICE=device))
        self.process.stdin.write(json.dumps(numbers))
        self.process.stdin.close()
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def line(self, seconds):
        """The next one; None at the end. queue.Empty: nothing for so long."""
        return self.lines.get(timeout=seconds)

    def end(self):
        """Whether it is gone."""
        self.process.kill()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            return False
        return True


class Results:
    def __init__(self, cases):
        self.cases, self.wrong, self.done, self.seconds = cases, {}, set(), {}
        self.begun = None

    def fail(self, n, text):
        self.wrong[n] = text
        self.done.add(n)
        print(f"FAILED {self.cases[n][0]}: {text.strip().splitlines()[-1 if 'Traceback' in text else 0][:200]}",
              flush=True)

    def message(self, line):
        word, _, rest = line[1:].partition(" ")
        if word == "start":
            self.begun = int(rest), time.time()
            return
        if word not in ("ok", "failed"):
            return
        n, _, text = rest.partition(" ")
        n = int(n)
        self.done.add(n)
        self.seconds[n] = time.time() - self.begun[1]
        self.begun = None
        if word == "failed":
            self.fail(n, json.loads(text))


def watch(child, results, timeout):
    """Until the child ends or must be ended. Whether another may be started."""
    last, ready = [], False
    while True:
        try:
            line = child.line(timeout if ready else START_SECONDS)
        except queue.Empty:
            n = results.begun[0] if results.begun else None
            text = f"HUNG: nothing for {timeout if ready else START_SECONDS} s"
            if n is None:
                print(f"{text} outside of any case\n" + "\n".join(last), flush=True)
            else:
                results.fail(n, text)
            gone = child.end()
            if not gone:
                print("the process does not end: the GPU may be lost", flush=True)
            return gone and n is not None
        if line is None:
            break
        if line.startswith("@"):
            ready = True
            results.message(line)
        else:
            last = (last + [line])[-30:]
            print(line, flush=True)
    child.end()
    if results.begun:  # it died inside a case
        results.fail(results.begun[0], "the process died: " + "\n".join(last[-5:]))
        results.begun = None
        return True
    return ready


def run_cases(args, cases, numbers, device):
    results, restarts = Results(cases), 0
    while True:
        left = [n for n in numbers if n not in results.done]
        if not left:
            break
        results.begun = None
        before = len(results.done)
        again = watch(Child(args, left, device), results, args.timeout)
        if not again or len(results.done) == before or restarts == MOST_RESTARTS:
            print(f"STOPPED after {restarts} new starts", flush=True)
            break
        restarts += 1
    return results


# ---- compiling -------------------------------------------------------------------

def compile_kernels(cases, jobs):
    """{number of a case: why its kernel cannot be had}"""
    import facc
    users, start = {}, time.time()
    for n, (_, case) in enumerate(cases):
        for program, variant in case.kernels:
            key = tuple(sorted({"layout": "aligned", **variant, "arch": 90}.items()))
            users.setdefault((program, key), []).append(n)

    def make(job):
        program, key = job
        try:
            return job, program.kernel(**dict(key)).info, None
        except facc.Error as e:
            return job, None, f"cannot compile {dict(key)}: {e.message}\n{getattr(e, 'log', '')[:1500]}"
    bad, spills, printed = {}, [], start
    with ThreadPoolExecutor(jobs) as pool:
        for done, future in enumerate(as_completed([pool.submit(make, job) for job in users]), 1):
            job, info, text = future.result()
            if text:
                bad.update({n: text for n in users[job]})
                print(text.splitlines()[0], flush=True)
            elif info.spill_bytes > 0:
                name, tile = cases[users[job][0]][0], f"{info.tile_m}x{info.tile_n}"
                spills.append(f"{info.spill_bytes} B: {name} {info.family} {tile}")
            if time.time() > printed + 3:
                printed = time.time()
                print(f"  {done} of {len(users)} kernels, {printed - start:.0f} s", flush=True)
    print(f"{len(users)} kernels ready in {time.time() - start:.1f} s, {len(spills)} of them spill", flush=True)
    for line in spills[:10]:
        print("  spills", line)
    return bad


# ---- reports ---------------------------------------------------------------------

def print_groups(cases, results):
    groups = {}
    for n, (name, _) in enumerate(cases):
        g = groups.setdefault(name.partition("/")[0], [0, 0, 0, 0.0])
        g[0] += 1
        g[1] += n in results.wrong
        g[2] += n not in results.done
        g[3] += results.seconds.get(n, 0)
    for name, (count, failed, unrun, seconds) in groups.items():
        print(f"{name:14} {count:5} cases  {failed:4} failed" + (f"  {unrun:4} not run" if unrun else "") +
              f"  {seconds:6.1f} s")


def print_failures(cases, wrong):
    by_text = {}
    for n, text in wrong.items():  # a kernel that does not compile fails many
        by_text.setdefault(text, []).append(cases[n][0])
    for text, names in list(by_text.items())[:40]:
        print(f"\nFAILED {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else ""))
        print("    " + text.strip().replace("\n", "\n    "))
        print(f"    again: python3 tests/gpu/hopper.py --filter {names[0]!r}")
    if len(by_text) > 40:
        print(f"... and {len(by_text) - 40} more")


def skipped_because(device):
    try:
        import torch  # noqa: F401
        import facc
    except ImportError as e:
        return str(e)
    if device == "cpu":
        return None
    system = facc.default_context().system()
    if system["device_count"] == 0:
        return "there is no GPU"
    arch = facc.default_context().device(0)["arch"]
    return None if arch == 90 else f"the GPU is of sm_{arch}, not sm_90"


def have_cache():
    """The child gets its kernels from the cache on disk: where there is none to
    be written, one for this run."""
    import facc
    if not facc.default_context().system()["cache_writable"]:
        folder = tempfile.mkdtemp(prefix="facc-cache-")
        os.environ["FACC_CACHE_DIR"] = folder
        print(f"the cache is not writable: this run has {folder}")
        facc._core._default.clear()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--quick", action="store_true", help="the most telling cases")
    p.add_argument("--filter", default="", help="cases whose name (group/name) has this text")
    p.add_argument("--groups", default="", help="some of the groups, by commas")
    p.add_argument("--timeout", type=float, default=20, help="seconds that a case may take")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="compiles at a time")
    p.add_argument("--list", action="store_true", help="names only")
    p.add_argument("--required", action="store_true", help="fail where it cannot run")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    os.environ.setdefault("FACC_LOG", "off")
    if args.child:
        return child(args)
    device = os.environ.get("FACC_TEST_DEVICE", "cuda")
    os.environ["FACC_TEST_DEVICE"] = "cpu"  # this process needs no GPU
    if device == "cpu":
        os.environ["FACC_TEST_SMALL"] = "1"
    reason = skipped_because(device)
    if reason:
        print(f"SKIPPED: sm90 tests: {reason}")
        return 1 if args.required else 77
    start = time.time()
    if device == "cuda" and not args.list:
        have_cache()
    cases = selected(args)
    if args.list:
        kernels = {(p, tuple(sorted(v.items()))) for _, c in cases for p, v in c.kernels}
        print(*(name for name, _ in cases), f"{len(cases)} cases of {len(kernels)} kernels", sep="\n")
        return 0
    bad = compile_kernels(cases, args.jobs) if device == "cuda" else {}
    numbers = [n for n in range(len(cases)) if n not in bad]
    if device == "cpu":
        numbers = [n for n in numbers if cases[n][0].partition("/")[0] not in NEED_GPU]
    results = run_cases(args, cases, numbers, device)
    results.wrong.update(bad)
    results.done.update(bad)
    print_failures(cases, results.wrong)
    print()
    print_groups(cases, results)
    unrun = len([n for n in numbers if n not in results.done])
    print(f"{len(cases)} cases, {len(results.wrong)} failed, {unrun} not run; {time.time() - start:.0f} s")
    return 0 if cases and not results.wrong and not unrun else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What the sm90 kernels have to reach, as one table: facc beside cuDNN (PyTorch's
SDPA) and FlexAttention on one GPU.

bf16, B * S = 16,384, H * D = 2,048; the method of method.py. A row's ratio is
of speeds (TFLOP/s, at least `must`) or, where it says time, of milliseconds (at
most). Every launch of facc is first checked against f64 on sampled rows. What
could not run is said in its row.

    python3 tests/bench/bench_hopper.py                        everything, about three minutes
    python3 tests/bench/bench_hopper.py --rows 'D 128|softcap' rows whose name matches
    python3 tests/bench/bench_hopper.py --rows 'gather|by hand' those of Variants written by hand, and gathers
    python3 tests/bench/bench_hopper.py --flex none --json out.json
    python3 tests/bench/bench_hopper.py --dry                  no GPU: the rows, and their mods traced
"""
import argparse
import csv
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from checks import Stop, Watch, check_device, sampled_error  # noqa: E402
from hopper_mods import Mod  # noqa: E402
from hopper_rows import (BY_HAND, HEAD, OWN, ROWS, Contestant, cells_of, contestants, csv_rows, rate, results,  # noqa: E402
                         summary)
from method import HEAD_START, flex_calls, in_graph, inputs, interleaved, prepared, ready, sdpa, table  # noqa: E402

SECONDS_OF_ROUND = 0.032  # of one contestant: pause, burst and what is around them
TOLERANCE, FAST_TOLERANCE = 0.02, 0.05  # relative, of sampled rows


# ---- contestants --------------------------------------------------------------------------

def variant_of(args):
    """Keywords of kernels that the command line asks for."""
    return {n: x for n, x in (("layout", args.layout), ("family", args.family)) if x}


def key_of(args, shape, mod, who):
    D, Dv = OWN.get(who, (shape.D, shape.Dv or shape.D))
    where = dict(arch=args.arch) if args.dry else dict(device=0)
    return dict(dtype="bf16", head_dim=D, head_dim_v=Dv, **where, **variant_of(args))


class Programs:
    """facc's programs, one for each mod (and for "hand"), compiled side by side."""

    def __init__(self, facc, args):
        self.facc, self.args, self.programs = facc, args, {}
        self.folders = []  # live as long as the contexts

    def get(self, who, mod):
        facc, key = self.facc, ("hand" if who == "hand" else "facc", mod)
        if key not in self.programs:
            self.programs[key] = facc.Program.from_string(Mod(mod).lua(), mod + ".lua",
                                                          self.hand_context(mod) if who == "hand" else None)
        return self.programs[key]

    def hand_context(self, mod):
        """Templates that take the mod's file of BY_HAND for the Variant."""
        from bench_causal import templates_by_hand
        self.folders.append(tempfile.TemporaryDirectory())
        return self.facc.Context(templates=str(templates_by_hand(self.folders[-1].name, BY_HAND[mod])), cache_mode="off")

    def compile_all(self, wanted):
        """wanted: {shape: [contestants]}. A list of (contestant, variant, info or None, error or None)."""
        jobs = {}
        for shape, of_shape in wanted.items():
            for x in of_shape:
                if x.who in ("facc", "hand", *OWN):
                    key = key_of(self.args, shape, x.mod, x.who)
                    jobs.setdefault((x.who == "hand", x.mod, str(key)), (x, self.get(x.who, x.mod), key))

        def compile_one(job):
            x, program, key = job
            try:
                return x, key, program.kernel(**key).info, None
            except Exception as e:
                return x, key, None, str(e)
        with ThreadPoolExecutor(self.args.jobs) as pool:
            return list(pool.map(compile_one, jobs.values()))


class Contest:
    """The contestants of one shape: made, checked, timed."""

    def __init__(self, bench, shape):
        import torch
        self.bench, self.args, self.shape = bench, bench.args, shape
        self.qkv = inputs(shape.D, shape.S, torch.bfloat16, shape.Dv)
        self.calls, self.launches, self.outputs, self.tensors = {}, {}, {}, {}

    def tensors_of(self, mod, q):
        """Made once for each mod: a dense bias has gigabytes."""
        if mod.name not in self.tensors:
            self.tensors[mod.name] = mod.captured(q.shape[0], q.shape[1], q.shape[2])
        return self.tensors[mod.name]

    def launch_of(self, x):
        """A checked facc.Launch, made once for each mod and who."""
        import torch
        key = x.who, x.mod  # x.how is what becomes of the launch
        if key in self.launches:
            return self.launches[key]
        mod = Mod(x.mod)
        D, Dv = OWN.get(x.who, (0, 0))
        q, k, v = inputs(D, self.shape.S, torch.bfloat16, Dv) if D else self.qkv
        tensors = self.tensors_of(mod, q)
        launch = prepared(self.bench.programs.get(x.who, x.mod), q, k, v, variant_of(self.args), tensors=tensors,
                          params=mod.params)
        launch.out.fill_(float("nan"))
        launch.lse.fill_(float("nan"))
        launch()
        check_device(x)
        error, lse = sampled_error(launch, q, k, v, mod, tensors)
        limit = FAST_TOLERANCE if mod.fast else TOLERANCE
        if not (error <= limit and lse <= limit):
            self.bench.say(f"{self.shape}: {x}: WRONG RESULTS: relative error {error:.3g}, LSE {lse:.3g}")
            self.bench.wrong.append(f"{self.shape}: {x}")
        info = launch.kernel.info
        if getattr(info, "launched", info.family) != info.family:
            self.bench.say(f"{self.shape}: {x}: {info.launched} was launched, not {info.family}")
        self.launches[key] = launch
        return launch

    def facc_call(self, x):
        launch = self.launch_of(x)
        if x.how == "ready":
            return in_graph(ready(launch) if launch.workspace is not None else launch)
        return in_graph(launch) if x.how == "made" else launch

    def cudnn_call(self, x):
        from torch.nn.attention import SDPBackend
        return sdpa(SDPBackend.CUDNN_ATTENTION, *self.qkv, x.mod == "causal")

    def flex_call(self, x):
        q, k, v = self.qkv
        if x.mod not in self.outputs:
            mod = Mod(x.mod)
            score, keep = mod.by_hand(self.tensors_of(mod, q))
            self.outputs[x.mod] = flex_calls(keep, q, k, v, score)
        kernel, both = self.outputs[x.mod]
        call = both if x.how.startswith("made") else kernel
        out, mine = call(), self.launches.get(("facc", x.mod))
        if mine is not None:
            difference = float((out.float() - mine.out.float()).norm() / out.float().norm())
            if not difference <= FAST_TOLERANCE:
                self.bench.say(f"{self.shape}: {x} and facc differ by {difference:.3g}")
        return in_graph(call) if x.how in ("ready", "made") else call

    def add(self, x):
        """Makes one contestant; what fails is a row's note."""
        bench, start = self.bench, time.time()
        if x.who == "flex" and not bench.flex_left() > 0:
            bench.why[self.shape, x] = "not asked for" if self.args.flex == "none" else "no time left for FlexAttention"
            return
        bench.watch.step(f"{self.shape}: making {x}")
        try:
            make = {"cudnn": self.cudnn_call, "flex": self.flex_call}.get(x.who, self.facc_call)
            self.calls[x] = make(x)
        except Stop:
            raise
        except Exception as e:
            bench.fail(self.shape, x, e)
        if x.who == "flex":
            bench.flex_seconds += time.time() - start
        check_device(x)

    def time(self):
        bench = self.bench
        bench.watch.step(f"timing {self.shape}", 30 + 1.5 * SECONDS_OF_ROUND * (self.args.rounds + 2) * len(self.calls))
        ms = interleaved(self.calls, self.args.rounds, HEAD_START)
        for x, t in ms.items():
            bench.times[self.shape, x] = t


# ---- a run ----------------------------------------------------------------------------------

class Bench:
    def __init__(self, args, rows):
        self.args, self.rows, self.start = args, rows, time.time()
        self.times, self.why, self.notes, self.wrong, self.kernels = {}, {}, [], [], []
        self.flex_seconds, self.programs, self.about = 0.0, None, {}
        self.watch = Watch(self.report)

    def say(self, text):
        self.notes.append(text)
        print(text, flush=True)

    def fail(self, shape, x, e):
        first = (str(e).strip().splitlines() or [""])[0][:160]
        self.why[shape, x] = f"{type(e).__name__}: {first}"
        self.say(f"{shape}: {x}: FAILED: {self.why[shape, x]}")
        if self.args.trace:
            traceback.print_exception(e)

    def flex_left(self):
        return 0 if self.args.flex == "none" else float(self.args.flex) - self.flex_seconds

    def left(self):
        return self.args.seconds - (time.time() - self.start)

    def results(self):
        return results(self.rows, self.times, lambda shape, x: self.why.get((shape, x), "not measured"))

    def compile(self, facc, wanted):
        self.programs, start = Programs(facc, self.args), time.time()
        self.watch.step("compiling facc's kernels", 150)
        for x, key, info, error in self.programs.compile_all(wanted):
            name = f"{x.who if x.who == 'hand' else 'facc'} {x.mod}, D {key['head_dim']}/{key['head_dim_v']}"
            if error:
                self.say(f"{name}: NOT COMPILED: {error.strip().splitlines()[0][:300]}")
                continue
            self.kernels.append(dict(kernel=name, **{n: getattr(info, n) for n in (
                "family", "fallback", "tile_m", "tile_n", "warps", "stages", "registers", "spill_bytes", "source", "tier")
                if hasattr(info, n)}))
        print(f"(facc's kernels: {time.time() - start:.1f} s)", flush=True)

    def contest(self, shape, of_shape):
        import torch
        cost = SECONDS_OF_ROUND * (self.args.rounds + 2) * len(of_shape) + 3
        if cost > self.left():
            for x in of_shape:
                self.why.setdefault((shape, x), f"no time left of {self.args.seconds:.0f} s")
            return
        contest = Contest(self, shape)
        # facc first: FlexAttention's outputs are compared with its
        for x in sorted(of_shape, key=lambda x: ("facc", "hand", *OWN, "cudnn", "flex").index(x.who)):
            if x.who == "flex" and self.left() < cost + 8:  # a compile takes some seconds
                self.why[shape, x] = f"no time left of {self.args.seconds:.0f} s"
            else:
                contest.add(x)
        contest.time()
        torch.cuda.synchronize()

    def run(self, facc):
        wanted = contestants(self.rows)
        self.compile(facc, wanted)
        for shape, of_shape in wanted.items():
            before = time.time()
            try:
                self.contest(shape, of_shape)
            except Stop as e:
                self.say(f"STOPPED: {e}")
                break
            except Exception as e:
                for x in of_shape:
                    self.why.setdefault((shape, x), f"{type(e).__name__}: {str(e).splitlines()[0][:120]}")
                self.say(f"{shape}: FAILED: {type(e).__name__}: {e}")
                if self.args.trace:
                    traceback.print_exception(e)
                try:
                    check_device(shape)
                except Stop as stop:
                    self.say(f"STOPPED: {stop}")
                    break
            self.print_times(shape, time.time() - before)
        self.watch.step("the report", 60)

    def print_times(self, shape, seconds):
        """As they come; the table comes last."""
        print(f"\n{shape} ({seconds:.1f} s):", flush=True)
        for (s, x), ms in self.times.items():
            if s == shape:
                print(f"  {str(x):36} {ms:9.4f} ms {rate(s, x, ms):7.1f} TFLOP/s{self.beside_plain(s, x, ms)}", flush=True)

    def beside_plain(self, shape, x, ms):
        """Speed as a ratio to facc's and cuDNN's kernels without the score mod."""
        plain = "causal" if Mod(x.mod).mask is Mod("causal").mask else "none" if Mod(x.mod).mask is None else None
        ratios = [(who, self.times.get((shape, Contestant(who, plain)))) for who in ("facc", "cudnn")]
        return "".join(f"  {t / ms:.3f} of {name} {plain}" for name, t in ratios if t and plain and x.who in ("facc", "flex"))

    def print_kernels(self):
        if self.kernels:
            head = list(dict.fromkeys(n for k in self.kernels for n in k))
            table("Kernels", head, [[k.get(n, "") for n in head] for k in self.kernels])

    def report(self):
        found = self.results()
        self.print_kernels()
        table("To be reached (bf16, B*S 16,384, H*D 2,048; ratio of speeds to cuDNN unless said)", HEAD, map(cells_of, found))
        print(f"\n{summary(found)}; {time.time() - self.start:.0f} s, of it FlexAttention {self.flex_seconds:.0f} s")
        for note in self.notes:
            print("NOTE", note)
        if self.wrong:
            print("WRONG RESULTS:", "; ".join(self.wrong))
        sys.stdout.flush()
        if self.args.csv:
            self.args.csv.parent.mkdir(parents=True, exist_ok=True)
            with open(self.args.csv, "w", newline="") as f:
                csv.writer(f).writerows(csv_rows(found))
        if self.args.json:
            self.args.json.parent.mkdir(parents=True, exist_ok=True)
            contests = [dict(D=s.D, S=s.S, Dv=s.Dv or s.D, contestant=str(x), ms=t, tflops=rate(s, x, t))
                        for (s, x), t in self.times.items()]
            self.args.json.write_text(json.dumps(dict(
                self.about, rounds=self.args.rounds, notes=self.notes, wrong=self.wrong, kernels=self.kernels, times=contests,
                rows=[dict(r._asdict(), state=r.state) for r in found]), indent=1) + "\n")


def dry(args, rows):
    """Lists the rows; traces their mods, and compiles if asked to, if there is a
    libfacc."""
    for shape, of_shape in contestants(rows).items():
        print(f"{shape}: {', '.join(map(str, of_shape))}")
    print()
    table("Rows", HEAD[:3], [cells_of(r)[:3] for r in results(rows, {}, lambda *_: "dry")])
    mods = sorted({x.mod for r in rows for x in (r.a, r.b)})
    try:
        import facc
    except OSError as e:
        print(f"\nno libfacc.so, mods not traced: {e}")
        return
    for name in mods:
        program = facc.Program.from_string(Mod(name).lua(), name + ".lua")
        declared = ", ".join(d.name for d in (*program.tensors, *program.params))
        print(f"{name}: traced{', takes ' + declared if declared else ''}")
    if args.compile:
        bench = Bench(args, rows)
        bench.compile(facc, contestants(rows))
        bench.print_kernels()
    seconds = sum(SECONDS_OF_ROUND * 9 * len(x) for x in contestants(rows).values())
    print(f"\nabout {seconds:.0f} s of timing at 7 rounds, beside compilation")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", default="", metavar="PATTERN", help="rows whose name matches this regular expression")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--flex", default="120", help="none, or seconds that making FlexAttention's contestants may take")
    p.add_argument("--seconds", type=float, default=230, help="of the whole run; rows that do not fit are skipped")
    p.add_argument("--layout", choices=["any", "aligned"], default="aligned", help="of facc's kernels")
    p.add_argument("--family", choices=["sm80", "sm90"], help="of facc's kernels (default: the best)")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="compiles of facc's at the same time")
    p.add_argument("--json", type=pathlib.Path, help="write all figures here")
    p.add_argument("--csv", type=pathlib.Path, help="write the table here")
    p.add_argument("--trace", action="store_true", help="whole tracebacks")
    p.add_argument("--dry", action="store_true", help="list the rows and trace their mods; no GPU")
    p.add_argument("--compile", action="store_true", help="with --dry: compile their kernels, too")
    p.add_argument("--arch", type=int, default=90, help="of --compile")
    args = p.parse_args()
    if args.flex != "none":
        try:
            float(args.flex)
        except ValueError:
            p.error(f"--flex is none or a number of seconds, got '{args.flex}'")
    rows = [r for r in ROWS if re.search(args.rows, r.title, re.I)]
    if not rows:
        p.error("no row matches; the rows are:\n  " + "\n  ".join(r.title for r in ROWS))
    return args, rows


def main():
    args, rows = arguments()
    os.environ.setdefault("FACC_LOG", "off")
    if args.dry:
        dry(args, rows)
        return 0
    try:
        import torch
    except ImportError:
        print("SKIPPED: the benchmark against peers: PyTorch is not installed")
        return 0
    if not torch.cuda.is_available():
        print("SKIPPED: the benchmark against peers: there is no GPU")
        return 0
    import facc
    bench = Bench(args, rows)
    bench.about = dict(gpu=torch.cuda.get_device_name(), torch=torch.__version__, facc=facc.version(),
                       cudnn=torch.backends.cudnn.version())
    print(", ".join(f"{n} {x}" for n, x in bench.about.items()), flush=True)
    bench.run(facc)
    bench.report()
    failed = bench.wrong or any(r.state in ("BELOW", "ABOVE", "SKIPPED") for r in bench.results())
    sys.stdout.flush()
    os._exit(1 if failed else 0)  # contexts and graphs may be freed in any order


if __name__ == "__main__":
    sys.exit(main())

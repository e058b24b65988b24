"""Section masks of bench_gpu.py: masks that need a schedule (and a window),
beside the dense kernel and FlexAttention.

bf16, D 128, H 16, S 8192. Useful work: 4 D for each cell that counts. Tile
work: the time without preparation over the dense kernel's time for the area of
the tiles that are visited (or not EMPTY). "graph": replays of a CUDA graph of
one call each, so that no host time is in the figure; "eager": calls as they
are. Each mask has a process of its own; they compile side by side and are
timed one by one."""
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
from types import SimpleNamespace

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from bench_mask_list import MASKS, S  # noqa: E402
from bench_schedule import blocks, schedule_flags, visits  # noqa: E402
from method import flex_calls, in_graph, interleaved, prepared, ready, table  # noqa: E402

H, D = 16, 128
USEFUL, TILE_WORK, FLEX = 0.75, 1.15, 0.5  # to be reached
READY_SECONDS, ROW_SECONDS = 75, 30  # to compile, side by side; to be timed


# ---- contestants ------------------------------------------------------------------------

def add_both(calls, name, call, notes):
    """call eager and, where that can be captured, in a graph."""
    import torch
    calls[f"{name}, eager"] = call
    try:
        calls[f"{name}, graph"] = in_graph(call)
    except Exception as e:
        torch.cuda.synchronize()
        notes.append(f"{name}: no graph ({type(e).__name__}: {str(e)[:80]})")


def qkv(B=1):
    import torch
    g = torch.Generator("cuda").manual_seed(1)
    return [torch.randn(B, H, S, D, generator=g, device="cuda").bfloat16() for _ in range(3)]


# ---- one mask ---------------------------------------------------------------------------

def cells_and_tiles(keep, tile_m, tile_n, device):
    """Cells that count, and tiles with any (of the kernel's shape), by brute force."""
    import torch
    b = h = torch.zeros((), dtype=torch.int64, device=device)
    kv = torch.arange(S, device=device)[None]
    cells = tiles = 0
    for first in range(0, S, tile_m):
        q = torch.arange(first, min(first + tile_m, S), device=device)[:, None]
        m = torch.broadcast_to(keep(b, h, q, kv), (len(q), S))
        cells += int(m.sum())
        columns = torch.nn.functional.pad(m.any(0).float(), (0, -S % tile_n)).view(-1, tile_n)
        tiles += int(columns.any(1).sum())
    return cells, tiles


class Contest:
    """One mask and batch: everything compiled and run when it is made, so that
    only the timing needs the GPU alone."""

    def __init__(self, facc, name, B, flex):
        import torch
        self.name, self.B, self.notes, self.differs = name, B, [], None
        q, k, v = self.qkv = qkv(B)
        source, tensors, params, self.keep = MASKS[name](B)
        program = facc.Program.from_string(source, name.replace(" ", "_") + ".lua")
        self.launch = prepared(program, q, k, v, tensors=tensors, params=params)
        self.info = self.launch.kernel.info
        self.flags = schedule_flags(program, dtype="bf16", head_dim=D, head_dim_v=D, device=0)
        self.launch()
        torch.cuda.synchronize()
        self.cells, self.tiles = cells_and_tiles(self.keep, self.info.tile_m, self.info.tile_n, q.device)
        try:
            self.visits = visits(self.launch, params, S)
        except Exception as e:
            self.visits = SimpleNamespace(visited=self.tiles, work=1, masked=float("nan"))
            self.notes.append(f"what is visited is not known, tiles not EMPTY in its place: {e}")
        self.calls = {"dense, graph": in_graph(prepared(facc.find_program(), q, k, v))}
        add_both(self.calls, "facc", self.launch, self.notes)
        if getattr(self.launch, "workspace", None) is not None:
            self.calls["facc ready, graph"] = in_graph(ready(self.launch))
        if flex:
            self.add_flex()

    def add_flex(self):
        try:
            kernel, both = flex_calls(self.keep, *self.qkv)
            out, again = kernel(), both()
            self.launch()
            self.differs = max(float((self.launch.out.float() - x.float()).abs().max()) for x in (out, again))
            add_both(self.calls, "flex kernel", kernel, self.notes)
            add_both(self.calls, "flex mask + kernel", both, self.notes)
        except Exception as e:
            self.notes.append(f"FlexAttention failed: {type(e).__name__}: {str(e).splitlines()[0][:200]}")

    def row(self, rounds):
        ms, info, seen = interleaved(self.calls, rounds), self.info, self.visits
        facc = ms.get("facc, graph", ms["facc, eager"])
        forward = ms.get("facc ready, graph", facc)
        all_tiles = blocks(S, info.tile_m) * blocks(S, info.tile_n)
        rate, dense = (4 * D * H * self.B * n / t / 1e9 for n, t in ((self.cells, facc), (S * S, ms["dense, graph"])))
        per_tile = ms["dense, graph"] * info.tile_m * info.tile_n / (S * S)  # dense time for a tile's area
        masks_all = self.flags["kAlwaysPartial"] and not self.flags["kScanned"]
        out = dict(mask=self.name, B=self.B, tier=getattr(info, "tier", "?"), tile_m=info.tile_m, tile_n=info.tile_n,
                   ms=ms, facc_ms=facc, prepare=facc - forward, cells=self.cells, tiles=self.tiles, all_tiles=all_tiles,
                   visited=seen.visited, masked=1 if masks_all else seen.masked / max(seen.work, 1),
                   partial=seen.masked / max(seen.work, 1), group_tiles=seen.work,
                   workspace=self.launch.arguments.a.workspace_size, tflops=rate, dense_tflops=dense, useful=rate / dense,
                   tile_work=forward / (per_tile * max(seen.visited, 1)),
                   tile_work_not_empty=forward / (per_tile * max(self.tiles, 1)), differs_from_flex=self.differs,
                   notes=self.notes)
        for ratio, a, b in (("over_flex_kernel", "facc ready, graph", "flex kernel, graph"),
                            ("over_flex", "facc, graph", "flex mask + kernel, graph"),
                            ("over_flex_eager", "facc, eager", "flex mask + kernel, eager")):
            a = a if a in ms else "facc, graph"  # no schedule: nothing is prepared
            if a in ms and b in ms:
                out[ratio] = ms[a] / ms[b]
        return out


# ---- a process for each mask -------------------------------------------------------------

def child(name, rounds, flex, batches):
    """Says READY when all is compiled, then waits for a line."""
    import facc
    contests = [Contest(facc, name, B, flex) for B in batches]
    print("READY", flush=True)
    if sys.stdin.readline():
        for contest in contests:
            print("ROW " + json.dumps(contest.row(rounds)), flush=True)
    os._exit(0)


class Child:
    """The process of one mask: it compiles beside the others, is timed alone,
    and takes nothing with it if it faults."""

    def __init__(self, command):
        environment = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="1")
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, *map(str, command)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put("END")

    def wait_for(self, word, until):
        """The rest of the line that begins with word; an exception says why there is none."""
        while True:
            try:
                line = self.lines.get(timeout=max(0.1, until - time.time()))
            except queue.Empty:
                raise TimeoutError(f"not {word} in time") from None
            if line == "END":
                self.process.wait(5)
                self.errors.seek(0)
                lines = [x for x in self.errors.read().splitlines() if x.strip()] or ["no message"]
                raise RuntimeError(f"ended with {self.process.returncode}: "
                                   + " / ".join(x.strip()[:200] for x in lines[-2:]))
            if line.startswith(word):
                return line[len(word):]

    def go(self, word="go"):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:  # it ends when its kernel does
                pass


def mask_child(args, name, flex):
    return Child([HERE / "bench_masks.py", name, args.rounds, int(flex), ",".join(map(str, args.mask_batches))])


def rows_of(of_name, args):
    of_name.go()
    return [json.loads(of_name.wait_for("ROW", time.time() + ROW_SECONDS)) for _ in args.mask_batches]


def without_flex(name, args, note):
    """The rows of a mask whose process FlexAttention took down."""
    again = mask_child(args, name, False)
    try:
        again.wait_for("READY", time.time() + 30)
        rows = rows_of(again, args)
        rows[0]["notes"].append(note)
        return rows
    except Exception as e:
        return [dict(mask=name, error=str(e), notes=[note, f"without FlexAttention: FAILED: {e}"])]
    finally:
        again.end()


def compiled(args, names, wanted):
    """({name: child that is ready or has failed}, {name: why it failed})"""
    start, failed = time.time(), {}
    children = {n: mask_child(args, n, wanted[n]) for n in names}
    for name, of_name in children.items():
        try:
            of_name.wait_for("READY", start + READY_SECONDS)
        except Exception as e:
            failed[name] = str(e)
            of_name.end()
    print(f"compiled side by side in {time.time() - start:.0f} s", flush=True)
    return children, failed


def contest_rows(args, names):
    """Rows of these masks: all compile, then each is timed alone."""
    wanted = {n: args.flex == "all" or n in args.flex.split(",") for n in names}
    children, failed = compiled(args, names, wanted)
    for name, of_name in children.items():
        rows = []
        try:
            if name not in failed:
                rows = rows_of(of_name, args)
        except Exception as e:
            failed[name] = str(e)
        finally:
            of_name.end()
        if name not in failed:
            yield from rows
        elif wanted[name]:
            yield from without_flex(name, args, f"with FlexAttention: FAILED: {failed[name]}")
        else:
            yield dict(mask=name, error=failed[name], notes=[f"FAILED: {failed[name]}"])


# ---- what is printed ----------------------------------------------------------------------

HEAD = ("mask", "tier", "B", "tile", "ms", "of it preparation", "visited, % of all tiles", "of these masked, %",
        "useful / dense", "tile work", "met", "flex kernel ms, graph", "eager", "flex mask + kernel ms, graph", "eager",
        "facc / flex, kernel alone, graph", "with mask, graph", "with mask, eager")


def met(row):
    if row["useful"] >= USEFUL:
        return f"useful >= {USEFUL}"
    # against the tiles that are not EMPTY, by brute force
    return f"tile work <= {TILE_WORK}" if row["tile_work_not_empty"] <= TILE_WORK else "NEITHER"


def number(x, digits):
    return "-" if x is None else f"{x:.{digits}f}"


def cells_of(r):
    ms = r["ms"]
    flex = [number(ms.get(f"flex {what}, {how}"), 4) for what in ("kernel", "mask + kernel") for how in ("graph", "eager")]
    return (r["mask"], r["tier"], r["B"], f"{r['tile_m']} x {r['tile_n']}", f"{r['facc_ms']:.4f}", f"{r['prepare']:.4f}",
            f"{100 * r['visited'] / r['all_tiles']:.2f}", f"{100 * r['masked']:.1f}", f"{r['useful']:.3f}",
            f"{r['tile_work']:.3f}", met(r), *flex, number(r.get("over_flex_kernel"), 3), number(r.get("over_flex"), 3),
            number(r.get("over_flex_eager"), 3))


def doubts(r):
    """What in a row contradicts itself or FlexAttention."""
    if "ms" not in r:
        return
    if not r["tiles"] <= r["visited"] <= r["all_tiles"]:
        yield (f"{r['visited']:.0f} tiles are visited, but {r['tiles']} of {r['all_tiles']} are not EMPTY: WRONG")
    elif r["visited"] > 1.01 * r["tiles"]:
        yield (f"{r['visited']:.0f} tiles are visited, {r['tiles']} are not EMPTY: tile work by those "
               f"{r['tile_work_not_empty']:.3f}")
    if (r["differs_from_flex"] or 0) > 0.05:
        yield f"output differs from FlexAttention's by {r['differs_from_flex']:.3f}"
    if "facc, graph" not in r["ms"]:
        yield "facc could not be captured in a graph: host time is in its figures"


def documents_line(rows):
    """The issue's line about FlexAttention."""
    for r in rows:
        if r["mask"] != "16 documents":
            continue
        for how, ratio in (("graph", "over_flex"), ("eager", "over_flex_eager")):
            if ratio in r:
                print(f"16 documents, B {r['B']}, {how}, mask preparation included: facc {r['ms']['facc, ' + how]:.4f} ms / "
                      f"FlexAttention's compiled create_block_mask + kernel {r['ms']['flex mask + kernel, ' + how]:.4f} ms"
                      f" = {r[ratio]:.3f} (to be at most {FLEX}): {'met' if r[ratio] <= FLEX else 'NOT MET'}")
            else:
                print(f"16 documents, B {r['B']}, {how}: FlexAttention has no figure")


def masks(args, facc):
    out, notes = [], []
    for r in contest_rows(args, list(MASKS)):
        out.append(r)
        where = f"{r['mask']}, B {r.get('B', '?')}"
        notes += [f"{where}: {n}" for n in [*r["notes"], *doubts(r)]]
        if "ms" in r:
            print(*cells_of(r), sep=" | ", flush=True)  # as they come; the table comes last
    good = [r for r in out if "ms" in r]
    table(f"Masks, bf16, H {H}, D {D}, S {S}", HEAD, [cells_of(r) for r in good])
    print()
    for B in args.mask_batches:
        of_batch = [r for r in good if r["B"] == B]
        for r in of_batch[:1]:
            print(f"B {B}: dense {r['ms']['dense, graph']:.4f} ms, {r['dense_tflops']:.0f} TFLOP/s (of the first mask's "
                  "process; each row has its own)")
    documents_line(good)
    print("\n".join(["", *notes]))
    return out


if __name__ == "__main__":
    child(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1", [int(b) for b in sys.argv[4].split(",")])

"""Sections of bench_gpu.py: masks that need a schedule, beside the dense kernel
and FlexAttention; and what generated bounds cost against ones by hand.

bf16, D 128, H 16, B 1. Useful work: 4 D for each cell that counts. Tile work:
the time without preparation over (time of the dense kernel per tile) times the
tiles that are visited. All contestants of a row run as replays of a CUDA graph
of one call each, so that no host time is in the figures ("eager": with it).
Each mask has a process of its own; they compile side by side and are timed one
by one."""
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from bench_gpu import interleaved, prepared, table  # noqa: E402

H, D, S = 16, 128, 8192
USEFUL, TILE_WORK, FLEX = 0.75, 1.15, 0.5  # to be reached


# ---- masks: name -> (Lua, tensors, params, keep) ------------------------------------

def lua(declarations, body):
    return (f'local facc = require "facc"\n{declarations}\n'
            f"return facc.attention {{ mask_mod = function(b, h, q, kv)\n  {body}\nend }}\n")


def sixteen_documents():
    import torch
    ids = (torch.arange(S, dtype=torch.int32, device="cuda") // (S // 16))[None].contiguous()
    flat = ids[0]
    return (lua('local ids = facc.tensor("ids", "i32", { "B", "kv" })', "return ids[b][q] == ids[b][kv] and q >= kv"),
            {"ids": ids}, {}, lambda b, h, q, kv: (flat[q] == flat[kv]) & (q >= kv))


def window():
    return (lua('local w = facc.param("w", "i32")', "return q >= kv and q - kv < w"), {}, {"w": 1024},
            lambda b, h, q, kv: (q >= kv) & (q - kv < 1024))


def prefix_lm():
    p = S // 4
    return (lua('local p = facc.param("p", "i32")', "return kv < p or q >= kv"), {}, {"p": p},
            lambda b, h, q, kv: (kv < p) | (q >= kv))


def dilated():
    return (lua("", "local d = math.abs(q - kv)\n  return d <= 1024 and d % 2 == 0"), {}, {},
            lambda b, h, q, kv: ((q - kv).abs() <= 1024) & ((q - kv) % 2 == 0))


def longformer():
    import torch
    is_global = torch.arange(S, device="cuda") < 16
    return (lua('local global = facc.tensor("global", "bool", { "kv" })',
                "return math.abs(q - kv) <= 512 or global[q] or global[kv]"), {"global": is_global}, {},
            lambda b, h, q, kv: ((q - kv).abs() <= 512) | is_global[q] | is_global[kv])


def natten():
    height, width, r = 128, 64, 6

    def keep(b, h, q, kv):
        top, left = (q // width).clamp(r, height - 1 - r), (q % width).clamp(r, width - 1 - r)
        return ((top - kv // width).abs() <= r) & ((left - kv % width).abs() <= r)
    return (f'local facc = require "facc"\nreturn facc.attention {{ mask_mod = facc.mods.natten({height}, {width}, '
            f"{2 * r + 1}) }}\n", {}, {}, keep)


def shared_prefix():
    """Two questions of 1,024 tokens, three answers of 1,024 to each."""
    import torch
    n = S // 1024
    document = torch.arange(S, dtype=torch.int32, device="cuda") // 1024
    start = torch.arange(n, dtype=torch.int32, device="cuda") * 1024
    prefix_of = torch.arange(n, dtype=torch.int32, device="cuda") // 4 * 4
    end = start + 1024
    text = "\n".join(f'local {name} = facc.tensor("{name}", "i32", {{ {n} }})' for name in ("off", "prefix_of", "end_of"))

    # as FlexAttention likes it: what a row needs to know, per token
    first, answer = start[document], document != prefix_of[document]
    prefix_first, prefix_end = start[prefix_of[document]], end[prefix_of[document]]

    def keep(b, h, q, kv):
        return ((kv >= first[q]) & (q >= kv)) | (answer[q] & (kv >= prefix_first[q]) & (kv < prefix_end[q]))
    return (lua('local id = facc.tensor("id", "i32", { "kv" })\n' + text,
                "local d = id[q]\n  local p = prefix_of[d]\n"
                "  return (kv >= off[d] and q >= kv) or (d ~= p and off[p] <= kv and kv < end_of[p])"),
            {"id": document, "off": start, "prefix_of": prefix_of, "end_of": end}, {}, keep)


MASKS = {"16 documents": sixteen_documents, "window 1024": window, "prefix-LM": prefix_lm, "dilated": dilated,
         "longformer": longformer, "natten 13": natten, "shared prefix": shared_prefix}


# ---- counting -------------------------------------------------------------------------

def cells_and_tiles(keep, tile_m, tile_n):
    """Cells that count, and tiles with any (of the kernel's shape), by brute force."""
    import torch
    b = h = torch.zeros((), dtype=torch.int64, device="cuda")
    kv = torch.arange(S, device="cuda")[None]
    cells = tiles = 0
    for first in range(0, S, tile_m):
        q = torch.arange(first, min(first + tile_m, S), device="cuda")[:, None]
        m = torch.broadcast_to(keep(b, h, q, kv), (len(q), S))
        cells += int(m.sum())
        columns = torch.nn.functional.pad(m.any(0).float(), (0, -S % tile_n)).view(-1, tile_n)
        tiles += int(columns.any(1).sum())
    return cells, tiles


def scheduled_tiles(launch, info):
    """KV tiles in the schedule that the last launch left in its workspace: rows
    of {b, h, tile, count, entries, reserved} at its beginning; None without."""
    import torch
    if getattr(launch, "workspace", None) is None:
        return None
    rows = launch.workspace.view(torch.int32)[:-(-S // info.tile_m) * 6].view(-1, 6)
    return int(rows[:, 3].sum())


# ---- contestants ------------------------------------------------------------------------

def in_graph(call):
    """call as the replay of a graph of itself."""
    import torch
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    replay = graph.replay

    def run():
        replay()
    run.keep = graph, out
    return run


def try_graph(call, notes, name):
    """In a graph, or, where that cannot be captured, as it is."""
    import torch
    try:
        return in_graph(call)
    except Exception as e:
        torch.cuda.synchronize()
        notes.append(f"{name}: no graph, host time is in its figure ({type(e).__name__}: {str(e)[:80]})")
        return call


def ready(launch):
    """A second launch of the same call that takes the first one's schedule."""
    def run():
        launch.arguments.a.schedule_ready = 1
        launch()
        launch.arguments.a.schedule_ready = 0
    return run


def allow_many_compiles():
    import torch
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit",
                 "accumulated_cache_size_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 256)


def flex_contestants(keep, q, k, v, notes, name):
    """{kernel alone, compiled create_block_mask and kernel} and the output."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    allow_many_compiles()
    torch._dynamo.reset()
    attend = torch.compile(flex_attention, dynamic=False)
    create = torch.compile(create_block_mask, dynamic=False)

    def made():
        return create(keep, None, None, S, S, device="cuda")
    block_mask = made()

    def kernel():
        return attend(q, k, v, block_mask=block_mask)

    def both():
        return attend(q, k, v, block_mask=made())
    out = kernel()
    both()
    return {"flex": try_graph(kernel, notes, f"{name}, flex kernel"),
            "flex with mask": try_graph(both, notes, f"{name}, flex with mask"),
            "flex with mask, eager": both}, out


def qkv():
    import torch
    g = torch.Generator("cuda").manual_seed(1)
    return [torch.randn(1, H, S, D, generator=g, device="cuda").bfloat16() for _ in range(3)]


class Contest:
    """One mask: everything compiled and run once when it is made, so that only
    the timing needs the GPU alone."""

    def __init__(self, facc, name, flex):
        import torch
        self.name, self.notes, (self.q, self.k, self.v) = name, [], qkv()
        source, tensors, params, self.keep = MASKS[name]()
        program = facc.Program.from_string(source, name.replace(" ", "_") + ".lua")
        launch = prepared(program, self.q, self.k, self.v, tensors=tensors, params=params)
        self.launch, self.info = launch, launch.kernel.info
        launch()
        torch.cuda.synchronize()
        self.scheduled = scheduled_tiles(launch, self.info)
        self.cells, self.tiles = cells_and_tiles(self.keep, self.info.tile_m, self.info.tile_n)
        plain, causal = facc.find_program(), facc.find_program(mask_mod="q >= kv")
        self.calls = {"dense": in_graph(prepared(plain, self.q, self.k, self.v)),
                      "causal": in_graph(prepared(causal, self.q, self.k, self.v)),
                      "facc": try_graph(launch, self.notes, "facc"), "facc, eager": launch}
        if self.scheduled is not None:
            self.calls["facc, ready"] = try_graph(ready(launch), self.notes, "facc ready")
        self.differs = None
        if flex:
            self.add_flex()

    def add_flex(self):
        try:
            calls, out = flex_contestants(self.keep, self.q, self.k, self.v, self.notes, self.name)
            self.launch()
            self.differs = float((self.launch.out.float() - out.float()).abs().max())
            self.calls.update(calls)
        except Exception as e:
            self.notes.append(f"FlexAttention failed: {type(e).__name__}: {str(e).splitlines()[0][:200]}")

    def row(self, rounds):
        ms, info = interleaved(self.calls, rounds), self.info
        all_tiles = -(-S // info.tile_m) * -(-S // info.tile_n)
        forward = ms.get("facc, ready", ms["facc"])
        rate, dense = (4 * D * H * n / t / 1e9 for n, t in ((self.cells, ms["facc"]), (S * S, ms["dense"])))
        visited = self.tiles if self.scheduled is None else self.scheduled
        out = dict(mask=self.name, tier=getattr(info, "tier", "?"), ms=ms, prepare=ms["facc"] - forward,
                   cells=self.cells, tiles=self.tiles, all_tiles=all_tiles, visited=visited,
                   workspace=self.launch.arguments.a.workspace_size, tflops=rate, dense_tflops=dense,
                   useful=rate / dense, tile_work=forward / (ms["dense"] / all_tiles * max(visited, 1)),
                   tile_m=info.tile_m, tile_n=info.tile_n, differs_from_flex=self.differs, notes=self.notes)
        if "flex with mask" in ms:
            out.update(over_flex=ms["facc"] / ms["flex with mask"],
                       over_flex_eager=ms["facc, eager"] / ms["flex with mask, eager"])
        return out


def child(name, rounds, flex):
    """Says READY when all is compiled, then waits for a line."""
    import facc
    contest = Contest(facc, name, flex)
    print("READY", flush=True)
    if sys.stdin.readline():
        print("ROW " + json.dumps(contest.row(rounds)), flush=True)
    os._exit(0)


class Child:
    """The process of one mask: it compiles beside the others, is timed alone,
    and takes nothing with it if it faults."""

    def __init__(self, name, rounds, flex):
        command = [sys.executable, str(HERE / "bench_masks.py"), name, str(rounds), str(int(flex))]
        environment = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="1")
        self.name, self.errors = name, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=environment)
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
                raise RuntimeError(f"not {word} in time") from None
            if line == "END":
                self.process.wait(5)
                self.errors.seek(0)
                lines = [x for x in self.errors.read().splitlines() if x.strip()] or ["no message"]
                raise RuntimeError(f"ended with {self.process.returncode}: "
                                   + " / ".join(x.strip()[:200] for x in lines[-2:]))
            if line.startswith(word):
                return line[len(word):]

    def row(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return json.loads(self.wait_for("ROW", time.time() + 25))

    def end(self):
        if self.process.poll() is None:
            self.process.kill()


def met(row):
    if row["useful"] >= USEFUL:
        return f"useful >= {USEFUL}"
    return f"tile work <= {TILE_WORK}" if row["tile_work"] <= TILE_WORK else "NEITHER"


def number(x, digits):
    return "-" if x is None else f"{x:.{digits}f}"


def without_flex(name, rounds, note):
    """The row of a mask whose process FlexAttention took down."""
    again = Child(name, rounds, False)
    try:
        again.wait_for("READY", time.time() + 25)
        row = again.row()
        row["notes"].append(note)
        return row
    except Exception as e:
        return dict(mask=name, error=str(e), notes=[note, f"without FlexAttention: FAILED: {e}"])
    finally:
        again.end()


def contest_rows(args, names):
    """Rows of these masks: all compile, then each is timed alone."""
    until, failed = time.time() + 70, {}
    wanted = {n: args.flex == "all" or n in args.flex.split(",") for n in names}
    children = {n: Child(n, args.rounds, wanted[n]) for n in names}
    for name, of_name in children.items():
        try:
            of_name.wait_for("READY", until)
        except Exception as e:
            failed[name] = str(e)
            of_name.end()
    for name, of_name in children.items():
        try:
            if name not in failed:
                yield of_name.row()
                continue
        except Exception as e:
            failed[name] = str(e)
        finally:
            of_name.end()
        if wanted[name]:
            yield without_flex(name, args.rounds, f"with FlexAttention: FAILED: {failed[name]}")
        else:
            yield dict(mask=name, error=failed[name], notes=[f"FAILED: {failed[name]}"])


def cells_of(r):
    ms = r["ms"]
    return (r["mask"], r["tier"], f"{ms['facc']:.4f}", f"{r['prepare']:.4f}", f"{r['visited']} / {r['tiles']}",
            f"{r['tflops']:.0f}", f"{r['useful']:.3f}", f"{r['tile_work']:.3f}", met(r), number(ms.get("flex"), 4),
            number(ms.get("flex with mask"), 4), number(r.get("over_flex"), 3), number(r.get("over_flex_eager"), 3))


def masks(args, facc):
    out, notes = [], []
    for r in contest_rows(args, list(MASKS)):
        out.append(r)
        notes += [f"{r['mask']}: {n}" for n in r["notes"]]
        if "ms" not in r:
            continue
        print(*cells_of(r), sep=" | ", flush=True)  # as they come; the table comes last
        if not r["tiles"] <= r["visited"] <= r["all_tiles"]:
            notes.append(f"{r['mask']}: {r['visited']} tiles in the schedule, but {r['tiles']} of {r['all_tiles']} "
                         "are not EMPTY: WRONG")
        if (r["differs_from_flex"] or 0) > 0.05:
            notes.append(f"{r['mask']}: output differs from FlexAttention's by {r['differs_from_flex']:.3f}")
    good = [r for r in out if "ms" in r]
    if good:
        ms = good[0]["ms"]
        print(f"\ndense {ms['dense']:.4f} ms ({good[0]['dense_tflops']:.0f} TFLOP/s), causal {ms['causal']:.4f} ms, "
              f"tiles {good[0]['tile_m']} x {good[0]['tile_n']}, {good[0]['all_tiles']} a head")
    table(f"Masks, bf16, B 1, H {H}, D {D}, S {S}",
          ("mask", "tier", "ms", "of it preparation", "tiles visited / not EMPTY", "useful TFLOP/s", "/ dense",
           "tile work", "met", "flex kernel ms", "with its mask ms", "facc / that", "eager"), [cells_of(r) for r in good])
    print("\n".join(["", *notes]))
    return out


if __name__ == "__main__":
    child(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1")

"""Sections of bench_gpu.py: masks that need a schedule, beside the dense kernel
and FlexAttention; and what generated bounds cost against ones by hand.

bf16, D 128, H 16, B 1. Useful work: 4 D for each cell that counts. Tile work:
the time without preparation over (time of the dense kernel per tile) times the
tiles that are not EMPTY. All contestants of a row run as replays of a CUDA
graph of one call each, so that no host time is in the figures."""
import pathlib
import shutil
import tempfile

from bench_gpu import ROOT, interleaved, prepared, table

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

    def keep(b, h, q, kv):
        d = document[q]
        p = prefix_of[d]
        return ((kv >= start[d]) & (q >= kv)) | ((d != p) & (kv >= start[p]) & (kv < end[p]))
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


def wants_flex(args, name):
    return args.flex == "all" or name in args.flex.split(",")


def mask_row(args, facc, name, yardsticks, q, k, v, notes):
    source, tensors, params, keep = MASKS[name]()
    program = facc.Program.from_string(source, name.replace(" ", "_") + ".lua")
    launch = prepared(program, q, k, v, tensors=tensors, params=params)
    info = launch.kernel.info
    launch()
    contestants = dict(yardsticks)
    contestants["facc"] = try_graph(launch, notes, f"{name}, facc")
    contestants["facc, eager"] = launch
    scheduled = scheduled_tiles(launch, info)
    if scheduled is not None:
        contestants["facc, ready"] = try_graph(ready(launch), notes, f"{name}, facc ready")
    row = dict(mask=name, tier=getattr(info, "tier", "?"), scheduled=scheduled is not None,
               workspace=launch.arguments.a.workspace_size)
    if wants_flex(args, name):
        try:
            flex, out = flex_contestants(keep, q, k, v, notes, name)
            launch()
            row["differs_from_flex"] = float((launch.out.float() - out.float()).abs().max())
            contestants.update(flex)
        except Exception as e:
            notes.append(f"{name}: FlexAttention failed: {type(e).__name__}: {str(e).splitlines()[0][:200]}")
    ms = interleaved(contestants, args.rounds)
    cells, tiles = cells_and_tiles(keep, info.tile_m, info.tile_n)
    all_tiles = -(-S // info.tile_m) * -(-S // info.tile_n)
    forward = ms.get("facc, ready", ms["facc"])
    rate, dense = (4 * D * H * n / t / 1e9 for n, t in ((cells, ms["facc"]), (S * S, ms["dense"])))
    not_empty = scheduled if scheduled is not None else tiles
    row.update(ms=ms, prepare=ms["facc"] - forward, cells=cells, tiles=tiles, all_tiles=all_tiles,
               not_empty=not_empty, tflops=rate, dense_tflops=dense, useful=rate / dense,
               tile_work=forward / (ms["dense"] / all_tiles * not_empty),
               tile_m=info.tile_m, tile_n=info.tile_n)
    if "flex with mask" in ms:
        row.update(over_flex=ms["facc"] / ms["flex with mask"],
                   over_flex_eager=ms["facc, eager"] / ms["flex with mask, eager"])
    return row


def met(row):
    if row["useful"] >= USEFUL:
        return f"useful >= {USEFUL}"
    return f"tile work <= {TILE_WORK}" if row["tile_work"] <= TILE_WORK else "NEITHER"


def number(x, digits):
    return "-" if x is None else f"{x:.{digits}f}"


def masks(args, facc):
    """Every row guards itself: one that fails is reported, the others go on."""
    import torch
    q, k, v = qkv()
    yardsticks = {"dense": in_graph(prepared(facc.find_program(), q, k, v)),
                  "causal": in_graph(prepared(facc.find_program(mask_mod="q >= kv"), q, k, v))}
    rows, out, notes = [], [], []
    for name in MASKS:
        try:
            r = mask_row(args, facc, name, yardsticks, q, k, v, notes)
        except Exception as e:
            notes.append(f"{name}: FAILED: {type(e).__name__}: {str(e)[:300]}")
            out.append(dict(mask=name, error=str(e)))
            torch.cuda.synchronize()
            continue
        out.append(r)
        ms = r["ms"]
        rows.append((name, r["tier"], f"{ms['facc']:.4f}", f"{r['prepare']:.4f}", f"{r['not_empty']} / {r['tiles']}",
                     f"{r['tflops']:.0f}", f"{r['useful']:.3f}", f"{r['tile_work']:.3f}", met(r),
                     number(ms.get("flex"), 4), number(ms.get("flex with mask"), 4),
                     number(r.get("over_flex"), 3), number(r.get("over_flex_eager"), 3)))
    good = [r for r in out if "ms" in r]
    if good:
        ms = good[0]["ms"]
        print(f"\ndense {ms['dense']:.4f} ms ({good[0]['dense_tflops']:.0f} TFLOP/s), causal {ms['causal']:.4f} ms, "
              f"tiles {good[0]['tile_m']} x {good[0]['tile_n']}, {good[0]['all_tiles']} a head")
    table(f"Masks, bf16, B 1, H {H}, D {D}, S {S}",
          ("mask", "tier", "ms", "of it preparation", "tiles visited / not EMPTY", "useful TFLOP/s", "/ dense",
           "tile work", "met", "flex kernel ms", "with its mask ms", "facc / that", "eager"), rows)
    for r in good:
        if not r["tiles"] <= r["not_empty"] <= r["all_tiles"]:
            notes.append(f"{r['mask']}: {r['not_empty']} tiles in the schedule, but {r['tiles']} of {r['all_tiles']} "
                         "are not EMPTY: WRONG")
        if r.get("differs_from_flex", 0) > 0.05:
            notes.append(f"{r['mask']}: output differs from FlexAttention's by {r['differs_from_flex']:.3f}")
    print("\n".join(["", *notes]))
    return out


# ---- causal -------------------------------------------------------------------------------

def templates_by_hand(folder):
    """A copy of the templates that takes causal_by_hand.cuh for the Variant."""
    here = pathlib.Path(__file__).resolve().parent
    copy = pathlib.Path(folder) / "templates"
    shutil.copytree(ROOT / "templates", copy)
    changed = 0
    for f in [*copy.rglob("*.cu"), *copy.rglob("*.cuh")]:
        text = f.read_text()
        if '#include "facc_variant.cuh"' in text:
            f.write_text(text.replace('#include "facc_variant.cuh"', '#include "causal_by_hand.cuh"'))
            changed += 1
    if not changed:
        raise RuntimeError("no template includes facc_variant.cuh")
    shutil.copy(here / "causal_by_hand.cuh", copy)
    return copy


def causal_generic(args, facc):
    """generated: bounds made by facc. by hand: the same kernel with a bound
    written by hand. planned: a mask that is causal but no plain bound."""
    import torch
    q, k, v = qkv()
    rows, out = [], []
    with tempfile.TemporaryDirectory() as folder, \
            facc.Context(templates=str(templates_by_hand(folder)), cache_mode="off") as by_hand:
        for S_ in (2048, 8192):
            a, b, c = (x[:, :, :S_].contiguous() for x in (q, k, v))
            planned = facc.find_program(mask_mod="q >= kv or q + kv < p", params={"p": 0})
            limit = torch.arange(S_, dtype=torch.int32, device="cuda")
            ranged = facc.Program.from_string(
                lua('local limit = facc.tensor("limit", "i32", { "q" })', "return kv <= limit[q]"), "limit.lua")
            launches = {"generated": prepared(facc.find_program(mask_mod="q >= kv"), a, b, c),
                        "by hand": prepared(facc.Program.from_expressions(mask="q >= kv", context=by_hand), a, b, c),
                        "planned": prepared(planned, a, b, c, params={"p": 0}),
                        "ranged": prepared(ranged, a, b, c, tensors={"limit": limit})}
            for launch in launches.values():
                launch()
            torch.cuda.synchronize()
            same = all(torch.equal(x.out, launches["by hand"].out) for x in launches.values())
            calls = {n: in_graph(x) for n, x in launches.items()}
            for n in ("planned", "ranged"):
                calls[n + ", ready"] = in_graph(ready(launches[n]))
            ms = interleaved(calls, 2 * args.rounds + 1)
            base = ms["by hand"]
            for n, t in ms.items():
                rows.append((S_, n, f"{t:.4f}", f"{t / base:.4f}"))
            out.append(dict(S=S_, ms=ms, over_hand={n: t / base for n, t in ms.items()}, same_bits=same))
    table(f"Causal, bf16, B 1, H {H}, D {D}", ("S", "kernel", "ms", "/ by hand"), rows)
    for r in out:
        print(f"\nS {r['S']}: generated / by hand {r['over_hand']['generated']:.4f} (to be at most 1.02); "
              f"equal bits: {r['same_bits']}")
    return out

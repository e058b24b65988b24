"""Sections of bench_gpu.py: up to a million tokens; packed sequences."""
import json
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from bench_mask_list import lua  # noqa: E402
from bench_masks import Child  # noqa: E402
from method import interleaved, prepared, ready, table  # noqa: E402

LENGTHS = (1 << 17, 1 << 18, 1 << 19, 1 << 20)
MEMORY, GROWTH, PACKED = 32, 1.15, 0.85  # MiB beyond inputs and outputs, and ratios, to be reached


# ---- a million tokens ------------------------------------------------------------------

def documents_of(S, length):
    import torch
    return (torch.arange(S, device="cuda") // length).int()[None].contiguous()


def long_mask(name, S):
    """(Lua, tensors, params, keep, cells)"""
    if name == "window 4096":
        w = 4096
        return (lua('local w = facc.param("w", "i32")', "return q >= kv and q - kv < w"), {}, {"w": w},
                lambda b, h, q, kv: (q >= kv) & (q - kv < w), S * w - w * (w - 1) // 2)
    length = S // 64 if name == "64 documents" else 16384
    ids = documents_of(S, length)
    flat = ids[0]
    return (lua('local ids = facc.tensor("ids", "i32", { "B", "kv" })', "return ids[b][q] == ids[b][kv] and q >= kv"),
            {"ids": ids}, {}, lambda b, h, q, kv: (flat[q] == flat[kv]) & (q >= kv),
            S // length * (length * (length + 1) // 2))


LONG_MASKS = ("window 4096", "64 documents", "documents of 16384")


def long_inputs(S):
    import torch
    g = torch.Generator("cuda").manual_seed(2)
    return [torch.randn(1, 2, S, 64, generator=g, device="cuda", dtype=torch.bfloat16) for _ in range(3)]


def sampled_error(launch, q, k, v, keep, rows=48):
    """Largest error of some rows' outputs and LSE against f64."""
    import torch
    S = q.shape[2]
    g = torch.Generator().manual_seed(3)
    chosen = torch.cat([torch.randint(0, S, (rows - 6,), generator=g),
                        torch.tensor([0, 1, S // 2 - 1, S // 2, S - 2, S - 1])]).cuda()
    b = torch.zeros((), dtype=torch.int64, device="cuda")
    kept = keep(b, b, chosen[:, None], torch.arange(S, device="cuda")[None])
    worst = worst_lse = 0.0
    for h in range(q.shape[1]):
        s = q[0, h, chosen].double() @ k[0, h].double().T * q.shape[3] ** -0.5
        s = torch.where(kept, s, -float("inf"))
        o = torch.softmax(s, -1) @ v[0, h].double()
        worst = max(worst, float((launch.out[0, h, chosen].double() - o).abs().max()))
        worst_lse = max(worst_lse, float((launch.lse[0, h, chosen].double() - torch.logsumexp(s, -1)).abs().max()))
    return worst, worst_lse


def million_row(args, facc, name, S):
    import torch
    source, tensors, params, keep, cells = long_mask(name, S)
    q, k, v = long_inputs(S)
    program = facc.Program.from_string(source, name.replace(" ", "_") + ".lua")
    launch = prepared(program, q, k, v, tensors=tensors, params=params)
    before = torch.cuda.mem_get_info()[0]
    launch.out.fill_(float("nan"))
    launch.lse.fill_(float("nan"))
    launch()
    torch.cuda.synchronize()
    taken = before - torch.cuda.mem_get_info()[0]
    error = sampled_error(launch, q, k, v, keep) if S in (LENGTHS[0], LENGTHS[-1]) else None
    contestants = {"facc": launch}
    if getattr(launch, "workspace", None) is not None:
        contestants["ready"] = ready(launch)
    start = time.perf_counter()
    launch()
    torch.cuda.synchronize()
    ms = interleaved(contestants, 5 if time.perf_counter() - start < 0.1 else 1)
    return dict(mask=name, S=S, ms=ms["facc"], ready_ms=ms.get("ready", ms["facc"]), cells=cells, error=error,
                workspace_mib=launch.arguments.a.workspace_size / 2**20, taken_by_launch=taken,
                tflops=4 * 64 * 2 * cells / ms["facc"] / 1e9)


def flex_child(name, S):
    """FlexAttention at one length. Says BEGIN when PyTorch is there, with nothing
    on the GPU yet, and waits for a line; READY when all is compiled and has run
    once; then, told to, the row."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    print("BEGIN", flush=True)
    sys.stdin.readline()
    attend = torch.compile(flex_attention, dynamic=False)
    create = torch.compile(create_block_mask, dynamic=False)
    keep, (q, k, v) = long_mask(name, S)[3], long_inputs(S)
    torch.cuda.synchronize()
    base, row = torch.cuda.memory_allocated(), {}

    def peak(what, call):
        """What call gives, once more than needed: its peak memory is that of
        the compiled code."""
        torch.cuda.reset_peak_memory_stats()
        out = call()
        torch.cuda.synchronize()
        row[what + "_peak_mib"] = (torch.cuda.max_memory_allocated() - base) / 2**20
        return out

    def timed(what, call):
        times = []
        for _ in range(3 if S < LENGTHS[-1] else 1):
            torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
        row[what + "_ms"] = statistics.median(times)
    try:
        made = lambda: create(keep, None, None, S, S, device="cuda")  # noqa: E731
        block_mask = peak("create", made)
        print("CREATED", flush=True)
        kernel = lambda: attend(q, k, v, block_mask=block_mask)  # noqa: E731
        peak("kernel", kernel)
        print("READY", flush=True)
        sys.stdin.readline()
        timed("create", made)
        timed("kernel", kernel)
    except Exception as e:
        row["error"] = f"{type(e).__name__}: {str(e).strip().splitlines()[0][:200] if str(e).strip() else ''}"
        print("READY", flush=True)
    print("FLEX " + json.dumps(row), flush=True)
    os._exit(0)


def flex_children(cases):
    return {case: Child([HERE / "bench_long.py", "--flex-child", case[0], case[1]]) for case in cases}


def flex_rows(children, seconds):
    """A row of each of these, which compile and run once at the same time, in
    `seconds`, and are then timed one by one."""
    rows, ended = [], {}
    for case, child in children.items():
        try:
            child.wait_for("BEGIN", time.time() + 45)
            child.go()
        except Exception as e:
            ended[case] = str(e)
    until = time.time() + seconds
    for case, child in children.items():
        at = "create_block_mask"
        try:
            if case not in ended:
                child.wait_for("CREATED", until)
                at = "the kernel"
                child.wait_for("READY", until)
        except TimeoutError:
            beside = f", {len(children)} such processes at once" if len(children) > 1 else ""
            ended[case] = f"no answer within {seconds:.0f} s ({at}{beside})"
            child.end()
        except Exception as e:
            ended[case] = str(e)
    for (name, S), child in children.items():
        row = dict(mask=name, S=S)
        try:
            if (name, S) not in ended:
                child.go()
                row.update(json.loads(child.wait_for("FLEX ", time.time() + seconds)))
        except TimeoutError:
            ended[name, S] = f"no answer within {seconds:.0f} s (timed)"
        except Exception as e:
            ended[name, S] = str(e)
        child.end()
        if (name, S) in ended:
            row["error"] = ended[name, S]
        rows.append(row)
    return rows


def flex_text(r):
    if r is None:
        return "-"
    if "error" in r:
        return r["error"]
    return (f"{r['create_ms']:.1f} + {r['kernel_ms']:.1f} ms, "
            f"{max(r['create_peak_mib'], r['kernel_peak_mib']):.0f} MiB")


def facc_rows(args, facc, notes):
    """facc alone, each row printed as it comes."""
    import torch
    for name in LONG_MASKS:
        before = None
        for S in LENGTHS:
            try:
                r = million_row(args, facc, name, S)
            except Exception as e:
                notes.append(f"{name} {S}: FAILED: {type(e).__name__}: {str(e)[:300]}")
                yield dict(mask=name, S=S, error=str(e))
                before = None
                continue
            finally:
                torch.cuda.empty_cache()
            if before:
                r["ideal"] = r["cells"] / before["cells"]
                r["growth"] = r["ms"] / before["ms"] / r["ideal"]
            before = r
            print(f"{name} {S // 1024} Ki: {r['ms']:.3f} ms, {r['tflops']:.0f} TFLOP/s, growth / ideal "
                  f"{r.get('growth', 1):.3f}, error {r['error']}", flush=True)
            yield r


def flex_figures(children, seconds):
    """{(mask, S): row}: the shorter lengths side by side, then the longest ones."""
    flex = {}
    for longest in (False, True):
        chosen = {case: child for case, child in children.items() if (case[1] == LENGTHS[-1]) == longest}
        start = time.time()
        for r in flex_rows(chosen, seconds):
            flex[r["mask"], r["S"]] = r
            print(f"FlexAttention, {r['mask']} {r['S'] // 1024} Ki: {flex_text(r)}", flush=True)
        print(f"({time.time() - start:.0f} s)", flush=True)
    return flex


def million(args, facc):
    notes, rows, flex, start = [], [], {}, time.time()
    # FlexAttention's processes load PyTorch meanwhile and wait
    children = flex_children((n, S) for n in LONG_MASKS[:2] for S in LENGTHS) if args.flex != "none" else {}
    try:
        out = list(facc_rows(args, facc, notes))
        print(f"(facc alone: {time.time() - start:.0f} s)", flush=True)
        flex = flex_figures(children, args.flex_seconds)
    finally:
        for child in children.values():
            child.end()
    for r in out:
        if "ms" not in r:
            continue
        error = "-" if r["error"] is None else f"{r['error'][0]:.1e}, LSE {r['error'][1]:.1e}"
        rows.append((r["mask"], r["S"] // 1024, f"{r['ms']:.3f}", f"{r['ms'] - r['ready_ms']:.3f}", f"{r['tflops']:.0f}",
                     f"{r['workspace_mib']:.2f}", f"{r['ideal']:.2f}" if "ideal" in r else "-",
                     f"{r['growth']:.3f}" if "growth" in r else "-", error, flex_text(flex.get((r["mask"], r["S"])))))
    table("B 1, H 2, D 64, bf16, causal inside documents; FlexAttention: mask + kernel, memory beyond its inputs",
          ("mask", "Ki tokens", "ms", "of it preparation", "TFLOP/s", "workspace MiB", "ideal growth", "growth / ideal",
           "error in f64", "FlexAttention"), rows)
    most = max((r["workspace_mib"] for r in out if "ms" in r), default=0)
    worst = max((r.get("growth", 0) for r in out if "ms" in r), default=0)
    taken = max((r["taken_by_launch"] for r in out if "ms" in r), default=0)
    print(f"\nWorkspace at most {most:.2f} MiB (to be at most {MEMORY}), and {taken / 2**20:.2f} MiB taken by a launch "
          f"itself; growth over ideal at most {worst:.3f} "
          f"(to be at most {GROWTH}). Ideal: the ratio of cells that count; with 64 documents it is 4 a doubling.")
    print("\n".join(notes))
    return dict(rows=out, flex=list(flex.values()))


# ---- packed sequences -------------------------------------------------------------------

def lengths_of(n=64, longest=4096, seed=5):
    import torch
    return torch.randint(1, longest + 1, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def fa2_varlen(q, k, v, cu, longest, notes):
    """PyTorch's FA2 on packed sequences, [T, H, D]."""
    import torch

    def call():
        return torch.ops.aten._flash_attention_forward(q, k, v, cu, cu, longest, longest, 0.0, True, False)[0]
    try:
        call()
        torch.cuda.synchronize()
        return call
    except Exception as e:
        notes.append(f"FA2's varlen cannot run: {type(e).__name__}: {str(e).splitlines()[0][:200]}")
        return None


def packed(args, facc):
    """64 sequences of mixed lengths, causal; TFLOP/s count their cells. The
    dense kernel at the mean length has the same number of tokens."""
    import torch
    H, D = 16, 128
    lengths = lengths_of()
    mean = round(sum(lengths) / len(lengths))
    T, B = sum(lengths), len(lengths)
    g = torch.Generator("cuda").manual_seed(6)
    flat = [torch.randn(T, H, D, generator=g, device="cuda").bfloat16() for _ in range(3)]
    even = [torch.randn(B, mean, H, D, generator=g, device="cuda").bfloat16().transpose(1, 2) for _ in range(3)]
    cu = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32, device="cuda")
    causal, notes = facc.find_program(mask_mod="q >= kv"), []
    views = [x.transpose(0, 1)[None] for x in flat]
    launch = prepared(causal, *views, cu_seqlens_q=cu, cu_seqlens_kv=cu, max_seqlen_q=max(lengths),
                      max_seqlen_kv=max(lengths))
    contestants = {"packed": launch, "packed, ready": ready(launch), "dense at the mean length": prepared(causal, *even)}
    fa2 = fa2_varlen(*flat, cu, max(lengths), notes)
    if fa2:
        contestants["FA2 varlen"] = fa2
        launch()
        difference = float((launch.out[0].transpose(0, 1).float() - fa2().float()).abs().max())
        notes.append(f"largest difference from FA2's varlen: {difference:.4f}")
    ms = interleaved(contestants, args.rounds)
    cells = sum(n * (n + 1) // 2 for n in lengths)
    mean_cells = B * mean * (mean + 1) // 2
    rate = {n: 4 * D * H * (mean_cells if "dense" in n else cells) / t / 1e9 for n, t in ms.items()}
    base = rate["dense at the mean length"]
    table(f"Packed: {B} sequences of {min(lengths)} to {max(lengths)}, {T} tokens, mean {mean}; causal, bf16, H {H}, D {D}",
          ("kernel", "ms", "TFLOP/s", "/ dense"),
          [(n, f"{ms[n]:.4f}", f"{rate[n]:.0f}", f"{rate[n] / base:.3f}") for n in ms])
    print(f"\npacked / dense {rate['packed'] / base:.3f} (to be at least {PACKED}); workspace "
          f"{launch.arguments.a.workspace_size / 2**20:.2f} MiB")
    print("\n".join(notes))
    return dict(lengths=lengths, ms=ms, tflops=rate, ratio=rate["packed"] / base)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--flex-child":
        flex_child(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(__doc__)

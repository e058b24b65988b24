"""How the GPU benchmarks measure, and the contestants that several of them
share: launches of facc, PyTorch's SDPA, FlexAttention, CUDA graphs.

Method: all contestants of a row in one interleaved run; each measurement is a
burst of about 8 ms after a pause of 20 ms, which keeps the card off its power
limit; the median of the rounds counts. Absolute figures move by some percent
between machines and with heat: compare the ratios."""
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime" / "python"))
sys.path.insert(0, str(ROOT / "tests" / "gpu"))

TOKENS, WIDTH = 16384, 2048  # B * S and H * D of every row
PAUSE, BURST = 0.020, 0.008  # seconds
HEAD_START = 200_000         # cycles that the GPU waits, so that no burst waits for the host


# ---- timing ---------------------------------------------------------------------

def burst(launch, n, head_start=0):
    """Milliseconds per launch in a burst of n after a pause."""
    import torch
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    time.sleep(PAUSE)
    if head_start:
        torch.cuda._sleep(head_start)
    start.record()
    for _ in range(n):
        launch()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / n


def interleaved(contestants, rounds, head_start=0):
    """{name: callable} -> {name: median milliseconds}"""
    counts, times = {}, {name: [] for name in contestants}
    for name, launch in contestants.items():
        for _ in range(2):
            launch()
        counts[name] = max(1, round(BURST * 1e3 / burst(launch, 2)))
    for _ in range(rounds):
        for name, launch in contestants.items():
            times[name].append(burst(launch, counts[name], head_start))
    return {name: statistics.median(t) for name, t in times.items()}


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
    run.keep = graph, out, call  # the graph reads and writes what call holds
    return run


# ---- inputs ---------------------------------------------------------------------

def inputs(D, S, dtype, Dv=None):
    """Q, K, V [B, H, S, D], random normal, on the GPU."""
    import torch
    g = torch.Generator("cuda").manual_seed(1)
    shape = (TOKENS // S, WIDTH // D, S)
    return [torch.randn(*shape, d, generator=g, device="cuda").to(dtype) for d in (D, D, Dv or D)]


def teraflops(D, S, causal, ms, Dv=None):
    flops = 2 * TOKENS * (WIDTH // D) * S * (D + (Dv or D))
    return flops / (2 if causal else 1) / ms / 1e9


# ---- contestants ----------------------------------------------------------------

def call_variant(call):
    """What of a variant the arguments of a call decide."""
    return {name: True for name, argument in (("block_mask", "block_mask"), ("packed", "cu_seqlens_q"))
            if call.get(argument) is not None}


def prepared(program, q, k, v, variant=None, **call):
    """A facc.Launch of these tensors. variant: more of the kernel's keywords."""
    dtype = {"bfloat16": "bf16", "float16": "f16"}[str(q.dtype).rpartition(".")[2]]
    kernel = program.kernel(dtype=dtype, head_dim=q.shape[3], head_dim_v=v.shape[3], device=0, **call_variant(call),
                            **(variant or {}))
    return kernel.prepare(q, k, v, **call)


def ready(launch):
    """A second launch of the same call that takes the first one's schedule."""
    def run():
        launch.arguments.a.schedule_ready = 1
        launch()
        launch.arguments.a.schedule_ready = 0
        return launch.out
    return run


def sdpa(backend, q, k, v, causal):
    import torch.nn.functional as F
    from torch.nn.attention import sdpa_kernel

    def launch():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    launch()
    return launch


def allow_many_compiles():
    import torch
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit",
                 "accumulated_cache_size_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 256)


def flex_calls(keep, q, k, v, score=None):
    """(kernel alone, compiled create_block_mask and kernel) of FlexAttention.
    keep None: no mask, and the second is None."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    allow_many_compiles()
    attend = torch.compile(flex_attention, dynamic=False)
    create = torch.compile(create_block_mask, dynamic=False)

    def made():
        return create(keep, None, None, q.shape[2], k.shape[2], device=q.device)
    block_mask = create_block_mask(keep, None, None, q.shape[2], k.shape[2], device=q.device) if keep else None

    def kernel():
        return attend(q, k, v, score_mod=score, block_mask=block_mask)

    def both():
        return attend(q, k, v, score_mod=score, block_mask=made())
    return kernel, both if keep else None


# ---- what is printed ------------------------------------------------------------

def table(title, head, rows):
    print(f"\n### {title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(x) for x in row) + " |")
    sys.stdout.flush()

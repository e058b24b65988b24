#!/usr/bin/env python3
"""Two GPUs in one process: the same call on each, in turn, from threads, with either one current; what one has loaded
and captured is not the other's. Needs two GPUs, PyTorch and libfacc.so ($FACC_LIBRARY or build/release); without them
it says SKIPPED and ends with 77."""
import pathlib
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime" / "python"))
MASK = "q >= kv and q - kv < 300"


def inputs(device, seed=0):
    import torch
    g = torch.Generator("cpu").manual_seed(seed)
    return [torch.randn(shape, generator=g).to(device, torch.bfloat16)
            for shape in ((2, 4, 700, 64), (2, 2, 700, 64), (2, 2, 700, 64))]


def reference(q, k, v):
    import torch
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    i = torch.arange(700, device=q.device)
    keep = (i[:, None] >= i) & (i[:, None] - i < 300)
    s = (q @ k.mT / 8).masked_fill(~keep, -torch.inf)
    return s.softmax(-1) @ v


def error(o, ref):
    return ((o.double() - ref).norm() / ref.norm()).item()


def same_on_both(torch, facc):
    outputs = []
    for current in (0, 1):
        torch.cuda.set_device(current)
        for device in (0, 1):
            q, k, v = inputs(f"cuda:{device}")
            o = facc.attention(q, k, v, mask_mod=MASK)
            assert o.device.index == device and torch.cuda.current_device() == current
            assert error(o, reference(q, k, v)) < 5e-3
            outputs.append(o.cpu())
    assert all(torch.equal(o, outputs[0]) for o in outputs), "bits differ between the GPUs"


def threads(torch, facc):
    wrong = []

    def work(device):
        try:
            torch.cuda.set_device(device)
            q, k, v = inputs(f"cuda:{device}", seed=1)
            first = facc.attention(q, k, v, mask_mod=MASK)
            for _ in range(300):
                o = facc.attention(q, k, v, mask_mod=MASK)
            torch.cuda.synchronize(device)
            if not torch.equal(o, first) or error(o, reference(q, k, v)) > 5e-3:
                wrong.append(device)
        except Exception as e:  # of a thread: told below
            wrong.append(f"GPU {device}: {e}")

    all_threads = [threading.Thread(target=work, args=(n % 2,)) for n in range(4)]
    for t in all_threads:
        t.start()
    for t in all_threads:
        t.join()
    assert not wrong, wrong


def captured(torch, facc):
    """A graph on each; replays of one do not touch the other's output."""
    graphs = []
    for device in (0, 1):
        torch.cuda.set_device(device)
        q, k, v = inputs(f"cuda:{device}", seed=2)
        launch = facc.find_program(mask_mod=MASK).kernel(dtype="bf16", head_dim=64, head_dim_v=64,
                                                         device=device).prepare(q, k, v)
        launch()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launch()
        graphs.append((graph, launch, reference(q, k, v)))
    for device, (graph, launch, ref) in enumerate(graphs):
        for _, other, _ in graphs:
            other.out.fill_(float("nan"))
        torch.cuda.set_device(device)
        graph.replay()
        torch.cuda.synchronize(device)
        assert error(launch.out, ref) < 5e-3
        assert bool(torch.isnan(graphs[1 - device][1].out).all())


def mixed(torch, facc):
    (q, k, v), (_, other, _) = inputs("cuda:0"), inputs("cuda:1")
    try:
        facc.attention(q, other, v, mask_mod=MASK)
    except facc.Error as e:
        assert "device" in str(e), e
    else:
        raise AssertionError("tensors of two GPUs in one call were taken")


def main():
    try:
        import torch
        import facc
    except (ImportError, OSError) as e:
        print(f"SKIPPED: two GPUs: {e}")
        return 77
    if torch.cuda.device_count() < 2:
        print(f"SKIPPED: two GPUs: there {'is' if torch.cuda.device_count() == 1 else 'are'} {torch.cuda.device_count()}")
        return 77
    failed = 0
    for case in same_on_both, threads, captured, mixed:
        try:
            case(torch, facc)
            print(f"ok      {case.__name__}", flush=True)
        except Exception as e:
            failed += 1
            print(f"FAILED  {case.__name__}: {type(e).__name__}: {e}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

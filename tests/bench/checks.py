"""What the benchmarks of sm90 guard against: kernels that hang, that fault, and
that are fast because they are wrong."""
import contextlib
import os
import threading
import time

from method import prepared  # first: it puts tests/gpu on the path
from device import DEVICE

HUNG = 90    # seconds without a step: a kernel does not end
SMALL = 1040  # tokens of the small case: no multiple of any tile; sixteen documents fit


class Watch:
    """Ends the process, after saying what there is, when a step takes too long:
    a kernel that hangs would hold everything up."""

    def __init__(self, at_end):
        self.at_end, self.what, self.until = at_end, "start", time.time() + HUNG
        threading.Thread(target=self.run, daemon=True).start()

    def step(self, what, seconds=HUNG):
        self.what, self.until = what, time.time() + seconds

    def run(self):
        while time.time() < self.until:
            time.sleep(0.5)
        print(f"\nHUNG: {self.what}; what there is until here:", flush=True)
        with contextlib.suppress(Exception):
            self.at_end()
        os._exit(3)


class Stop(Exception):
    """The GPU faulted, or time is over: no more can be measured."""


def check_device(what):
    import torch
    try:
        torch.cuda.synchronize()
    except RuntimeError as e:
        raise Stop(f"the GPU faulted ({what}): {str(e).splitlines()[0]}") from e


def sampled_error(launch, q, k, v, mod, tensors, rows=24):
    """Largest relative errors of sampled rows' outputs and LSE, to f64."""
    import torch
    S, (score, keep) = q.shape[2], mod.by_hand(tensors)
    g = torch.Generator().manual_seed(3)
    edges = torch.tensor([0, 1, S // 2 - 1, S // 2, S - 2, S - 1])
    chosen = torch.cat([torch.randint(0, S, (rows - len(edges),), generator=g), edges])
    i, j = chosen.to(DEVICE)[:, None], torch.arange(S, device=DEVICE)[None]
    worst = worst_lse = 0.0
    for b, h in {(0, 0), (q.shape[0] - 1, q.shape[1] - 1)}:
        b_, h_ = (torch.tensor(n, device=DEVICE) for n in (b, h))
        s = q[b, h, chosen].double() @ k[b, h].double().T * q.shape[3] ** -0.5
        s = score(s, b_, h_, i, j) if score else s
        s = torch.where(keep(b_, h_, i, j), s, -float("inf")) if keep else s
        o = torch.softmax(s, -1) @ v[b, h].double()
        d = launch.out[b, h, chosen].double() - o
        worst = max(worst, float((d.norm(dim=1) / o.norm(dim=1)).max()))
        lse = torch.logsumexp(s, -1)
        worst_lse = max(worst_lse, float(((launch.lse[b, h, chosen].double() - lse).abs() / lse.abs().clamp(min=1)).max()))
    return worst, worst_lse


def small_error(program, mod, D, Dv, variant):
    """Largest absolute error against PyTorch in f32 on one small case; NaN if any
    element is."""
    import torch
    g = torch.Generator("cuda").manual_seed(5)
    q, k, v = (torch.randn(1, 2, SMALL, d, generator=g, device="cuda").bfloat16() for d in (D, D, Dv))
    tensors = mod.captured(1, 2, SMALL)
    launch = prepared(program, q, k, v, variant, tensors=tensors, params=mod.params)
    launch.out.fill_(float("nan"))
    launch()
    torch.cuda.synchronize()
    score, keep = mod.by_hand(tensors)
    i, j = torch.arange(SMALL, device="cuda")[:, None], torch.arange(SMALL, device="cuda")[None]
    worst = 0.0
    for h in range(2):
        b_, h_ = (torch.tensor(n, device="cuda") for n in (0, h))
        s = q[0, h].float() @ k[0, h].float().T * D ** -0.5
        s = score(s, b_, h_, i, j) if score else s
        s = torch.where(keep(b_, h_, i, j), s, -float("inf")) if keep else s
        o = torch.softmax(s, -1) @ v[0, h].float()
        d = (launch.out[0, h].float() - o).abs()
        worst = max(worst, float("nan") if bool(d.isnan().any()) else float(d.max()))
        if worst != worst:
            break
    return worst

"""What the GPU tests share: a list of cases, inputs, references, comparison.

Error is judged against attention in f64 on the same (rounded) inputs, and
compared with the error of a reference of the same precision: PyTorch's FA2
where it can run the case, else an emulation that rounds where FA2 rounds (the
probabilities and the output to the input type, all else f32)."""
import math
import pathlib
import sys
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import facc  # noqa: E402
from device import DEVICE  # noqa: E402

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
LSE_TOLERANCE = 1e-5
EXAMPLES = ROOT / "examples"
TESTS = []  # (group, function), in order of definition


class Failure(AssertionError):
    pass


def test(group):
    """Registers a function: a generator of (case name, callable)."""
    def add(f):
        TESTS.append((group, f))
        return f
    return add


def expect(condition, text, *more):
    """more: what to add, functions called only in failure."""
    if not condition:
        raise Failure(text + "".join(f() for f in more))


# ---- inputs -----------------------------------------------------------------

def generator(seed):
    return torch.Generator(DEVICE).manual_seed(seed)


def guarded(shape, dtype, guard=512):
    """A NaN-filled tensor inside a NaN-filled buffer: (tensor, buffer, range)."""
    n = math.prod(shape)
    buffer = torch.full((n + 2 * guard,), float("nan"), dtype=dtype, device=DEVICE)
    return buffer[guard:guard + n].view(shape), buffer, (guard, guard + n)


def guards_intact(buffer, span):
    outside = torch.cat([buffer[:span[0]], buffer[span[1]:]])
    return bool(torch.isnan(outside).all())


def random_qkv(B, H, Hkv, Sq, Skv, D, Dv=None, dtype="bf16", seed=0, gain=1.0):
    g = generator(seed)
    def normal(*shape):
        # Tails of NaN behind each tensor: a read past the end shows.
        x, _, _ = guarded(shape, DTYPES[dtype], guard=4096)
        x.copy_(torch.randn(shape, generator=g, device=DEVICE) * gain)
        return x
    return normal(B, H, Sq, D), normal(B, Hkv, Skv, D), normal(B, Hkv, Skv, Dv or D)


# ---- references ---------------------------------------------------------------

def grid(B, H, Sq, Skv):
    def a(n, where):
        shape = [1, 1, 1, 1]
        shape[where] = n
        return torch.arange(n, device=DEVICE).view(shape)
    return a(B, 0), a(H, 1), a(Sq, 2), a(Skv, 3)


def modified_scores(q, k, mod, scale, used_q, used_kv, dtype):
    """Scores after both mods in `dtype`, -inf where masked. mod(score, b, h, q,
    kv) gives (score, keep); either may be a constant of Python."""
    B, H, Sq, D = q.shape
    Skv, group = k.shape[2], H // max(k.shape[1], 1)
    s = q.to(dtype) @ k.to(dtype).repeat_interleave(group, 1).transpose(2, 3)
    s = s * (D ** -0.5 if scale is None else scale)
    b, h, i, j = grid(B, H, Sq, Skv)
    keep = torch.ones((), dtype=torch.bool, device=DEVICE)
    if mod is not None:
        s, keep = mod(s, b, h, i, j)
        s = torch.broadcast_to(torch.as_tensor(s, device=DEVICE), (B, H, Sq, Skv)).to(dtype)
        keep = torch.as_tensor(keep, device=DEVICE)
    if used_q is not None:
        keep = keep & (i < used_q.view(B, 1, 1, 1))
    if used_kv is not None:
        keep = keep & (j < used_kv.view(B, 1, 1, 1))
    return torch.where(keep, s, torch.full((), -math.inf, dtype=dtype, device=DEVICE))


def value_heads(v, H, dtype):
    """V per query head; garbage beyond used lengths must meet weight 0."""
    return torch.nan_to_num(v.to(dtype)).repeat_interleave(H // max(v.shape[1], 1), 1)


def softmax_parts(s):
    if s.shape[-1] == 0:
        return s, s.new_zeros(s.shape[:-1]), s.new_full(s.shape[:-1], -math.inf)
    top = s.amax(-1, keepdim=True)
    safe = torch.where(top == -math.inf, torch.zeros_like(top), top)
    p = torch.exp(s - safe)
    total = p.sum(-1)
    return p, total, torch.where(total > 0, safe[..., 0] + torch.log(total), -math.inf)


def with_sinks(s, v, sinks, used_q):
    """Sinks are one more key, whose value is 0; rows beyond used_q have none."""
    if sinks is None:
        return s, v
    column = sinks.to(s.dtype).view(1, -1, 1, 1).expand(*s.shape[:3], 1)
    if used_q is not None:
        rows = torch.arange(s.shape[2], device=s.device).view(1, 1, -1, 1)
        column = torch.where(rows < used_q.view(-1, 1, 1, 1), column, -math.inf)
    return torch.cat([s, column], -1), torch.cat([v, v.new_zeros(*v.shape[:2], 1, v.shape[3])], 2)


def philox(counter, key):
    """Philox-4x32-10: four tensors of numbers below 2^32, two numbers."""
    low, x = 0xffffffff, [c.to(torch.int64) for c in counter]

    def product(m, a):  # high and low word; 64 bits with a sign hold 48
        first, second = m * (a & 0xffff), m * (a >> 16)
        middle = second + (first >> 16)
        return middle >> 16, ((middle & 0xffff) << 16) | (first & 0xffff)
    for n in range(10):
        k = (key[0] + n * 0x9E3779B9) & low, (key[1] + n * 0xBB67AE85) & low
        (a, b), (c, d) = product(0xD2511F53, x[0]), product(0xCD9E8D57, x[2])
        x = [c ^ x[1] ^ k[0], d, a ^ x[3] ^ k[1], b]
    return x


def kept(shape, dropout, first=0):
    """What templates/common/philox.h keeps of [B, H, Sq, Skv] weights, a tensor
    of bool; dropout: dropout_p, seed, offset. first: of the sequences."""
    p, seed, offset = dropout["dropout_p"], dropout["seed"], dropout.get("offset", 0)
    b, h, q, kv = grid(*shape)
    key = (seed & 0xffffffff, (seed ^ offset) >> 32)
    counter = (kv // 16 * 4 + kv % 8 // 2, q // 16 * 8 + q % 8, (b + first) * shape[1] + h,
               torch.full((), offset & 0xffffffff, device=DEVICE))
    words = torch.stack([torch.broadcast_to(x, shape) for x in philox(counter, key)])
    word = words.gather(0, torch.broadcast_to(q // 8 % 2 + 2 * (kv // 8 % 2), (1, *shape)))[0]
    return torch.where(kv % 2 == 1, word >> 16, word & 0xffff) < 65536 - drops_of(p)


def drops_of(p):
    return min(math.floor(p * 65536 + 0.5), 65535)


def drop(p, keys, dropout, first=0):
    """Weights p, of which some of the first `keys` columns become 0 and the
    others larger: the rest are sinks."""
    if not dropout:
        return p
    keep = kept((*p.shape[:3], keys), dropout, first)
    return torch.cat([p[..., :keys] * keep / (1 - drops_of(dropout["dropout_p"]) / 65536), p[..., keys:]], -1)


def reference(q, k, v, mod=None, scale=None, used_q=None, used_kv=None, sinks=None, dropout=None, first=0):
    """Output and LSE in f64. first: for dropout, the number of the first b."""
    q, k = torch.nan_to_num(q.double()), torch.nan_to_num(k.double())
    s = modified_scores(q, k, mod, scale, used_q, used_kv, torch.float64)
    s, values = with_sinks(s, value_heads(v, q.shape[1], torch.float64), sinks, used_q)
    p, total, lse = softmax_parts(s)
    o = drop(p, k.shape[2], dropout, first) @ values
    return torch.where(total > 0, 1 / total, 0.0)[..., None] * o, lse


def emulation(q, k, v, mod=None, scale=None, used_q=None, used_kv=None, out_dtype=None, sinks=None, dropout=None,
              first=0):
    """The same precision as FA2's, without its tiling."""
    dtype = q.dtype
    s = modified_scores(torch.nan_to_num(q), torch.nan_to_num(k), mod, scale, used_q, used_kv,
                        torch.float32)
    s, values = with_sinks(s, value_heads(v, q.shape[1], torch.float32), sinks, used_q)
    p, total, _ = softmax_parts(s)
    o = drop(p.to(dtype).float(), k.shape[2], dropout, first) @ values
    return (torch.where(total > 0, 1 / total, 0.0)[..., None] * o).to(out_dtype or dtype)


def spread_sinks(H):
    """f32 [H]: from far below the scores to far above, by turns."""
    values = (0, 2.5, -3, -math.inf, -100000, 30, 1, 12)
    return torch.tensor([values[h % len(values)] for h in range(H)], dtype=torch.float32, device=DEVICE)


def fa2(q, k, v, causal, scale=None):
    """PyTorch's FA2 on the same inputs; it divides by no heads."""
    if q.shape[1] == 0:
        return q.new_empty(*q.shape[:3], v.shape[3])
    group = q.shape[1] // max(1, k.shape[1])
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)


# ---- comparison -----------------------------------------------------------------

def output_error(o, ref):
    d = (o.double() - ref).flatten()
    return (float(d.square().mean().sqrt()), float(d.abs().max())) if d.numel() else (0.0, 0.0)


def ranges(flags):
    """The true ones of a list as text: "0-15 64-79"."""
    out, first = [], None
    for n, flag in enumerate([*flags, False]):
        if flag and first is None:
            first = n
        elif not flag and first is not None:
            out.append(str(first) if n == first + 1 else f"{first}-{n - 1}")
            first = None
    return " ".join(out[:6]) + (f" and {len(out) - 6} more" if len(out) > 6 else "")


def where_wrong(x, ref, limit):
    """Which b, h, rows and columns of x [B, H, S] or [B, H, S, D] are NaN or
    further than `limit` from ref: a hint at the tile that went wrong."""
    x, ref = x.double(), ref.double()
    bad = torch.isnan(x) | ((x - ref).abs() > limit)
    bad &= ~(x == ref)  # infinities
    if not bool(bad.any()):
        return ""
    first = tuple(int(n) for n in bad.nonzero()[0])
    sides = [ranges(bad.movedim(n, 0).flatten(1).any(1).tolist()) for n in range(bad.ndim)]
    names = ("b", "h", "rows", "columns")
    return (f"\n    {int(bad.sum())} of {bad.numel()} wrong: " + ", ".join(f"{n} {t}" for n, t in zip(names, sides)) +
            f"; first at {first}: {float(x[first]):.6g}, should be {float(ref[first]):.6g}")


class Worst:
    """The largest ratios and errors seen, for the summary."""
    rms = peak = lse = lse_fast = 0.0
    cases = 0


def compare(o, lse, ref, peer, lse_tolerance=LSE_TOLERANCE, factor=1.2, weights=None):
    """o, lse against ref = (o, lse) in f64; o's error at most factor times the
    error of `peer`. A peak may also reach one unit in the last place of the
    largest output: on small tensors the peer's own peak is a matter of luck. So it
    is where an f32 output shows the rounding of weights, which have the type
    `weights`: then half a unit of that."""
    ref_o, ref_lse = ref
    expect(not torch.isnan(o).any(), "NaN in the output (or not written)", lambda: where_wrong(o, ref_o, math.inf))
    expect(not torch.isnan(lse).any(), "NaN in the LSE (or not written)", lambda: where_wrong(lse, ref_lse, math.inf))
    empty = ref_lse == -math.inf
    expect(torch.equal(lse == -math.inf, empty), "LSE is -inf on other rows than the oracle's",
           lambda: where_wrong(lse, ref_lse, 1e38))
    expect(bool((o[empty] == 0).all()), "output of a fully masked row is not 0")
    d = (lse.double() - ref_lse)[~empty].abs() / ref_lse[~empty].abs().clamp(min=1)
    lse_error = float(d.max()) if d.numel() else 0.0
    expect(lse_error <= lse_tolerance, f"LSE error {lse_error:.2e} over {lse_tolerance:.0e}", lambda: where_wrong(
        lse, ref_lse, lse_tolerance * ref_lse.abs().clamp(min=1)))
    if ref_o.numel() == 0:
        return
    rms, peak = output_error(o, ref_o)
    peer_rms, peer_peak = output_error(peer, ref_o)
    eps = float(torch.finfo(o.dtype).eps)
    if o.dtype == torch.float32 and weights in (torch.float16, torch.bfloat16):
        eps = float(torch.finfo(weights).eps) / 2
    ulp = eps * float(ref_o.abs().max())
    floor = 0.02 * float(torch.finfo(o.dtype).eps) * float(ref_o.abs().max())  # where the peer is exact by luck (one key, say)
    limit = max(factor * peer_peak, ulp)
    expect(rms <= factor * peer_rms + floor,
           f"output error (rms) {rms:.3e}, the peer's {peer_rms:.3e}", lambda: where_wrong(o, ref_o, limit))
    expect(peak <= limit, f"output error (max) {peak:.3e}, the peer's {peer_peak:.3e}, ulp {ulp:.3e}",
           lambda: where_wrong(o, ref_o, limit))
    Worst.cases += 1
    if o.numel() > 4096 and peer_rms > floor:
        Worst.rms = max(Worst.rms, rms / peer_rms)
        Worst.peak = max(Worst.peak, peak / max(peer_peak, ulp))
    if lse_tolerance > LSE_TOLERANCE:
        Worst.lse_fast = max(Worst.lse_fast, lse_error)
    else:
        Worst.lse = max(Worst.lse, lse_error)


VARIANT = {}     # of every kernel of prepared(), what the call itself does not say
LAUNCHED = set()  # families that run_into has launched


def run_into(program, q, k, v, o, lse, variant=None, **call):
    if DEVICE == "cpu":
        facc.cpu_attention(program, q, k, v, o, lse, **call)
        return
    launch = prepared(program, q, k, v, o, lse, variant, **call)
    launch()
    torch.cuda.synchronize()
    LAUNCHED.add(launch.kernel.info.launched)


def call_variant(call):
    """What of a variant the arguments of a call decide."""
    return {name: True for name, argument in (("block_mask", "block_mask"), ("packed", "cu_seqlens_q"),
                                                         ("sinks", "sinks"), ("dropout", "dropout_p"))
            if call.get(argument) is not None}


def prepared(program, q, k, v, o=None, lse=None, variant=None, **call):
    """A facc.Launch for these tensors. variant: more of Program.kernel."""
    name = str(q.dtype).rpartition(".")[2]
    kernel = program.kernel(dtype={"bfloat16": "bf16", "float16": "f16"}[name], device=0,
                            head_dim=q.shape[3], head_dim_v=v.shape[3],
                            **{**VARIANT, **call_variant(call), **(variant or {})})
    return kernel.prepare(q, k, v, o, lse, **call)


def same_bits(a, b):
    """NaN where NaN, -0 apart from 0."""
    integer = {2: torch.int16, 4: torch.int32}[a.element_size()]
    return torch.equal(a.contiguous().view(integer), b.contiguous().view(integer))


def run_poisoned(program, q, k, v, **call):
    """facc on q, k, v into guarded, NaN-filled output and LSE."""
    f32 = (call.get("variant") or {}).get("out_dtype") == "f32"
    o, o_buffer, o_span = guarded((*q.shape[:3], v.shape[3]), torch.float32 if f32 else q.dtype)
    lse, l_buffer, l_span = guarded(q.shape[:3], torch.float32)
    run_into(program, q, k, v, o, lse, **call)
    expect(guards_intact(o_buffer, o_span), "written outside the output")
    expect(guards_intact(l_buffer, l_span), "written outside the LSE")
    return o, lse


def check_case(program, q, k, v, mod=None, causal=None, lse_tolerance=LSE_TOLERANCE, tensors=None,
               params=None, scale=None, used_q=None, used_kv=None, factor=1.2, sinks=None, dropout=None, **more):
    """One case: facc against f64. dropout: dropout_p, seed, offset. causal not None: the peer is FA2 if it can."""
    o, lse = run_poisoned(program, q, k, v, tensors=tensors, params=params, scale=scale,
                          seqused_q=used_q, seqused_kv=used_kv, sinks=sinks, **(dropout or {}), **more)
    ref = reference(q, k, v, mod, scale, used_q, used_kv, sinks, dropout)
    usable = (DEVICE == "cuda" and causal is not None and q.shape[2] == k.shape[2] > 0 and q.shape[3] == v.shape[3]
              and used_q is None and used_kv is None and sinks is None and not dropout and o.dtype == q.dtype)
    peer = (fa2(q, k, v, causal, scale) if usable else
            emulation(q, k, v, mod, scale, used_q, used_kv, o.dtype, sinks, dropout))
    compare(o, lse, ref, peer, lse_tolerance, factor, q.dtype)
    return o, lse


# ---- running ------------------------------------------------------------------------

class Precompiler:
    """Compiles kernels, (program, variant) each, in the order given, beside the
    tests: ctypes lets go of Python's lock, and a test that asks for a kernel
    under way waits for it. What fails here fails again in its tests."""

    def __init__(self, kernels, jobs):
        from concurrent.futures import ThreadPoolExecutor
        self.start, self.left, self.lock = time.time(), len(kernels), threading.Lock()
        self.pool = ThreadPoolExecutor(jobs)
        self.futures = [self.pool.submit(self.compile_one, *k) for k in kernels]

    def compile_one(self, program, variant):
        try:
            program.kernel(**variant)
        except facc.Error as e:
            print("cannot compile", variant, "-", e.message.splitlines()[0], flush=True)
        with self.lock:
            self.left -= 1
        if self.left == 0:
            print(f"({len(self.futures)} kernels ready after {time.time() - self.start:.1f} s)", flush=True)

    def wait(self):
        for f in self.futures:
            f.result()

    def end(self):
        self.pool.shutdown(wait=True, cancel_futures=True)


def device_lost():
    """After a fault (an illegal address, say) no CUDA call of the process works."""
    if DEVICE == "cpu":
        return False
    try:
        torch.cuda.synchronize()
        return False
    except RuntimeError:
        return True


def run_cases(group, function, only, failed):
    """Runs one function's cases; (number, whether the device still works)."""
    count = 0
    try:
        for name, case in function():
            if only not in name:
                continue
            count += 1
            try:
                case()
            except Exception as e:
                text = f"{group}: {name}: {type(e).__name__}: {e}"
                if not isinstance(e, (Failure, facc.Error)):
                    text += "\n" + traceback.format_exc()
                failed.append(text)
                if device_lost():
                    failed.append(f"{group}: {name}: the GPU faulted; the tests stop here")
                    return count, False
    except Exception:
        failed.append(f"{group}: {function.__name__}: could not list its cases\n{traceback.format_exc()}")
    return count, not device_lost()


def run(groups, only=""):
    """Runs all cases; a failure does not stop the others. Number of failures."""
    failed, total = [], 0
    for group, function in TESTS:
        if groups and group not in groups:
            continue
        start, before = time.time(), len(failed)
        count, alive = run_cases(group, function, only, failed)
        total += count
        print(f"{group:12} {function.__name__:28} {count:5} cases  {len(failed) - before:3} failed  "
              f"{time.time() - start:5.1f} s", flush=True)
        if not alive:
            break
    for line in failed[:60]:
        print("FAILED", line)
    if len(failed) > 60:
        print(f"... and {len(failed) - 60} more")
    print(f"{total} cases, {len(failed)} failed; against the peer: rms {Worst.rms:.3f} x, "
          f"max {Worst.peak:.3f} x; LSE error {Worst.lse:.1e} (tanh_fast {Worst.lse_fast:.1e})")
    return len(failed) if total else 1

"""facc inside of other programs: PyTorch's compiler with its CUDA graphs, other
streams, CuPy by DLPack, FlexAttention's convention, and examples/c."""
import concurrent.futures
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import torch

import facc
from device import DEVICE
from harness import ROOT, expect, test

LIBRARY = pathlib.Path(os.environ.get("FACC_LIBRARY") or ROOT / "build" / "release" / "libfacc.so")
CAUSAL = "q + facc.size.kv - facc.size.q >= kv"


def qkv(S=300, D=64, dtype=torch.bfloat16, seed=0):
    g = torch.Generator(DEVICE).manual_seed(seed)
    return [torch.randn(2, h, S, D, generator=g, device=DEVICE).to(dtype) for h in (8, 2, 2)]


def close(got, want, what, limit=2e-2):
    error = (got.float() - want.float()).abs().max().item()
    expect(error <= limit, f"{what}: largest difference {error:.3g}")


def layer(q, k, v, bias):
    o, lse = facc.attention(q * 1.5, k, v, score_mod="score + bias[h][kv]", mask_mod=CAUSAL, tensors={"bias": bias},
                            return_lse=True)
    return torch.relu(o) + 1, lse


@test("embed")
def compiler():
    bias = torch.randn(8, 300, device=DEVICE)

    def agrees(mode):
        torch._dynamo.reset()
        f = torch.compile(layer, fullgraph=True, mode=mode)
        for seed in range(4):  # with CUDA graphs: warm-up, capture, replays
            inputs = qkv(seed=seed)
            with torch.no_grad():
                got, want = f(*inputs, bias), layer(*inputs, bias)
            close(got[0], want[0], "output")
            close(got[1], want[1], "LSE", 1e-2)
    yield "Inductor", lambda: agrees(None)
    if DEVICE == "cuda":
        yield "Inductor with CUDA graphs", lambda: agrees("reduce-overhead")

    def lengths():
        """One compile for all lengths and params."""
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()

        def f(q, k, v, window):
            return facc.attention(q, k, v, mask_mod="q - kv < w", params={"w": window})
        compiled = torch.compile(f, fullgraph=True, dynamic=True)
        for S, window in (200, 30), (300, 31), (511, 77):
            inputs = qkv(S)
            expect(torch.equal(compiled(*inputs, window), f(*inputs, window)), f"length {S}")
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        expect(graphs == 1, f"{graphs} graphs")
    yield "one graph for all lengths", lengths


@test("embed")
def streams():
    if DEVICE != "cuda":
        return

    def side_stream():
        inputs, stream = qkv(), torch.cuda.Stream()
        want = facc.attention(*inputs, mask_mod="q >= kv")
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)  # about 0.1 s
            late = [x.clone() for x in inputs]
            start = time.perf_counter()
            got = facc.attention(*late, mask_mod="q >= kv")
            seconds = time.perf_counter() - start
            expect(not stream.query(), "the stream was idle: nothing is told of synchronising")
        expect(seconds < 0.03, f"the call took {seconds:.3f} s: it waits for the GPU")
        stream.synchronize()
        expect(torch.equal(got, want), "another result")
    yield "the current stream, without waiting", side_stream

    def cupy_arrays():
        try:
            import cupy
        except ImportError:
            print("SKIPPED CuPy: it is not installed")
            return
        inputs = qkv(dtype=torch.float16)
        want = facc.attention(*inputs, mask_mod="q >= kv")
        lent = [cupy.from_dlpack(x) for x in inputs]
        with cupy.cuda.Stream(non_blocking=True) as stream:
            got = facc.attention(*lent, mask_mod="q >= kv")
            stream.synchronize()
        expect(isinstance(got, cupy.ndarray), f"gave {type(got)}")
        expect(torch.equal(torch.from_dlpack(got), want), "another result")
    yield "CuPy, by DLPack", cupy_arrays


@test("embed")
def flex_attention():
    from facc import flex
    slopes = torch.exp2(-torch.arange(1, 9, device=DEVICE).float())
    doc = (torch.arange(300, device=DEVICE) // 70).to(torch.int32)
    window = torch.tensor(100)  # on the host: a param

    def alibi(score, b, h, q, kv):
        return score + slopes[h] * (kv - q)

    def mask(b, h, q, kv):
        return (q >= kv) & (doc[q] == doc[kv]) & (q - kv < window)

    def agrees():
        from torch.nn.attention import flex_attention as theirs
        q, k, v = qkv()
        want, _ = facc.oracle(*(x.float().cpu().numpy() for x in (q, k, v)),
                              score_mod="score + slopes[h] * (kv - q)",
                              mask_mod="q >= kv and doc[q] == doc[kv] and q - kv < 100",
                              tensors={"slopes": slopes.cpu().numpy(), "doc": doc.cpu().numpy()})
        block_mask = theirs.create_block_mask(
            lambda b, h, i, j: (i >= j) & (doc[i] == doc[j]) & (i - j < 100), None, None, 300, 300, device=DEVICE)
        for given in flex.create_block_mask(mask, None, None, 300, 300), block_mask:
            got = flex.flex_attention(q, k, v, score_mod=alibi, block_mask=given, enable_gqa=True)
            close(got.cpu(), torch.from_numpy(want), type(given).__name__)
    yield "FlexAttention's convention", agrees

    def gallery():
        """Mods as people write them, by kernels and on the CPU, which
        runtime/python/tests compare with PyTorch."""
        sys.path.insert(0, str(ROOT))
        from runtime.python.tests.flex_gallery import gallery
        B, H, S = 2, 4, 64
        inputs = [x[:, :H].contiguous() for x in qkv(S, dtype=torch.float16)]

        def call(mods, *inputs):
            score, mask = mods
            block_mask = mask and flex.create_block_mask(mask, B, H, S, S)
            return flex.flex_attention(*inputs, score_mod=score, block_mask=block_mask, enable_gqa=True)
        here, host = gallery(B, H, S, DEVICE), gallery(B, H, S)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # they compile side by side
            got = dict(zip(here, pool.map(lambda mods: call(mods, *inputs), here.values())))
        for name, mods in host.items():
            close(got[name].cpu(), call(mods, *(x.float().cpu() for x in inputs)), name, 5e-3)
    yield "FlexAttention's gallery", gallery


@test("embed")
def calls_again():
    """Calls like one before take its arguments with other pointers: other values
    give other results, whatever the stream or thread."""
    mods = dict(score_mod="score + bias[h] * w", mask_mod="doc[q] == doc[kv] and q >= kv")

    def call(seed, S=300):
        g = torch.Generator(DEVICE).manual_seed(seed)
        bias = torch.randn(8, generator=g, device=DEVICE)
        doc = torch.randint(0, 3, (S,), generator=g, device=DEVICE, dtype=torch.int32).sort().values
        return qkv(S, seed=seed), dict(tensors={"bias": bias, "doc": doc.int()}, params={"w": seed / 8})

    def alone(seed, S=300):
        """By a Program of its own, which remembers nothing yet."""
        arrays, more = call(seed, S)
        text = dict(score=mods["score_mod"], mask=mods["mask_mod"])
        program = facc.Program.from_expressions(declarations=(("bias", "f32", ("any",)), ("doc", "i32", ("any",)),
                                                              ("w", "f32", None)), **text)
        return facc.attention(*arrays, program=program, return_lse=True, **more)

    def agree(seed, S=300, want=None):
        arrays, more = call(seed, S)
        want = want or alone(seed, S)
        got = facc.attention(*arrays, return_lse=True, **mods, **more)
        expect(all(torch.equal(a, b) for a, b in zip(got, want)), f"seed {seed}, length {S}: another result")

    def in_turn():
        for seed in range(6):
            for S in 300, 177, 300:
                agree(seed, S)
    yield "in turn", in_turn

    def threads():
        want = [alone(seed) for seed in range(4)]
        if DEVICE == "cuda":
            torch.cuda.synchronize()

        def work(seed):
            if DEVICE != "cuda":
                return agree(seed, want=want[seed])
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(50):
                    agree(seed, want=want[seed])
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
    yield "in threads with streams of their own", threads


@test("embed")
def refusals():
    def forked():
        """A child may not use its parent's GPU: an error, no hang; the parent goes
        on."""
        if DEVICE != "cuda":
            return
        q, k, v = qkv()
        kernel = facc.find_program(mask_mod=CAUSAL).kernel(dtype="bf16", head_dim=64, head_dim_v=64, device=0)
        launch = kernel.prepare(q, k, v)
        want = launch().clone()
        torch.cuda.synchronize()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                launch(stream=0)
            except facc.Error as e:
                code = 0 if e.status_name == "FACC_ERR_FORKED" else 2
            finally:
                os._exit(code)
        end = time.time() + 20
        while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.time() < end:
            time.sleep(0.01)
        if done[0] == 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        expect(done[0] == child, "the child hangs")
        expect(done[1] == 0, f"the child ended with {os.waitstatus_to_exitcode(done[1])}: 1 is no error, 2 another one")
        launch.out.fill_(math.nan)
        expect(torch.equal(launch(), want), "the parent has another result")
    yield "forked after use", forked

    def gradient():
        q, k, v = qkv()
        q.requires_grad_()
        for f in facc.attention, torch.compile(facc.attention, fullgraph=True):
            try:
                f(q, k, v)
            except Exception as e:
                expect("q requires a gradient" in str(e), f"says {e}")
            else:
                expect(False, "no error")
    yield "a gradient", gradient


@test("embed")
def c_programs():
    def run(name):
        cc = shutil.which(os.environ.get("CC", "cc"))
        if cc is None:
            print(f"SKIPPED examples/c/{name}.c: there is no C compiler")
            return
        with tempfile.TemporaryDirectory() as folder:
            # The linker need not know what the library itself needs.
            subprocess.run([cc, "-std=gnu11", f"-I{ROOT}/runtime", f"{ROOT}/examples/c/{name}.c", str(LIBRARY),
                            f"-Wl,-rpath,{LIBRARY.resolve().parent}", "-Wl,--allow-shlib-undefined", "-ldl", "-lm",
                            "-o", f"{folder}/{name}"], check=True)
            path = f"{LIBRARY.resolve().parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"
            done = subprocess.run([f"{folder}/{name}"], capture_output=True, text=True, timeout=120,
                                  env={**os.environ, "LD_LIBRARY_PATH": path})
        expect(done.returncode == (0 if DEVICE == "cuda" else 77),
               f"exit code {done.returncode}: {done.stdout + done.stderr}")
    for name in "launch", "capture":
        yield f"examples/c/{name}.c", lambda name=name: run(name)

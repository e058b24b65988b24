"""Launches: graph capture, streams, run-time params, prepared calls, bounds
checks; and bad input, each with the status it must get."""
import math

import torch

import facc
import mods
from facc import _abi, _core
from harness import EXAMPLES, check_case, compare, emulation, expect, random_qkv, reference, test

CAUSAL = mods.causal(0, 0, 0, 0)[2]


def causal_program():
    return facc.find_program(mask_mod="q >= kv")


def judged(q, k, v, o, lse, mod):
    compare(o, lse, reference(q, k, v, mod), emulation(q, k, v, mod))


def prepared(program, q, k, v, **call):
    kernel = program.kernel(dtype="bf16", head_dim=q.shape[3], head_dim_v=v.shape[3], device=0)
    return kernel.prepare(q, k, v, **call)


@test("launch")
def capture_and_streams():
    def graph():
        q, k, v = random_qkv(2, 4, 2, 300, 300, 64, seed=61)
        launch = prepared(causal_program(), q, k, v)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            launch()
        for seed in (62, 63):
            for x, new in zip((q, k, v), random_qkv(2, 4, 2, 300, 300, 64, seed=seed)):
                x.copy_(new)
            launch.out.fill_(math.nan)
            launch.lse.fill_(math.nan)
            g.replay()
            judged(q, k, v, launch.out, launch.lse, CAUSAL)
    yield "captured in a graph", graph

    def not_loaded():
        """A launch of a kernel that is not loaded is an error; the capture that it
        happens in goes on."""
        q, k, v = random_qkv(1, 2, 2, 200, 200, 64, seed=64)
        launch = prepared(causal_program(), q, k, v)
        other = facc.find_program(mask_mod="q >= kv + 7").kernel(dtype="bf16", head_dim=64, head_dim_v=64, device=0)
        g, got = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(g):
            stream = torch.cuda.current_stream().cuda_stream
            got.append(_core._lib.facc_kernel_launch(other.handle, *launch._call[1:], stream, launch._error_ref))
            try:
                facc.attention(q, k, v, mask_mod="q >= kv + 9")
            except facc.Error as e:
                got.append(e.status)
            launch()
        expect(got == [_abi.ERR_NOT_PREPARED] * 2, f"gave {got}")
        launch.out.fill_(math.nan)
        g.replay()
        judged(q, k, v, launch.out, launch.lse, CAUSAL)
    yield "a kernel that is not loaded, in a capture", not_loaded

    def two_streams():
        jobs = []
        for seed in range(8):
            inputs = random_qkv(2, 8, 8, 1024, 1024, 64, seed=70 + seed)
            jobs.append((inputs, prepared(causal_program(), *inputs)))
        streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        for s in streams:
            s.wait_stream(torch.cuda.current_stream())
        for n, (_, launch) in enumerate(jobs):
            with torch.cuda.stream(streams[n % 2]):
                launch()
        torch.cuda.synchronize()
        for inputs, launch in jobs:
            judged(*inputs, launch.out, launch.lse, CAUSAL)
    yield "two streams at once", two_streams

    def stream_order():
        # The launch must wait for what is on the stream before it, and be
        # waited for by what comes after: no synchronisation in between.
        stream = torch.cuda.Stream()
        q, k, v = random_qkv(2, 8, 8, 512, 512, 64, seed=80)
        launch = prepared(causal_program(), torch.zeros_like(q), k, v)
        late_q = launch.arguments.keep[0]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            late_q.copy_(q)
            launch()
            o, lse = launch.out.clone(), launch.lse.clone()
        stream.synchronize()
        judged(q, k, v, o, lse, CAUSAL)
    yield "order on a stream of one's own", stream_order

    def overlap():
        # Launches may begin before the one before them is over: each must see
        # what that, and copies between them, have written, and nothing later.
        program = facc.Program.from_string(
            'local facc = require "facc"\nlocal id = facc.tensor("id", "i32", { "kv" })\n'
            "return facc.attention { mask_mod = function(b, h, q, kv) return id[q] == id[kv] and q >= kv end }")
        sets = [(random_qkv(2, 4, 4, 700, 700, 64, seed=90 + n), torch.arange(700, device="cuda", dtype=torch.int32) // (60 + 80 * n))
                for n in range(2)]
        (q, k, v), id = [tuple(x.clone() for x in sets[0][0]), sets[0][1].clone()]
        first = program.kernel(dtype="bf16", head_dim=64, head_dim_v=64, device=0).prepare(q, k, v, tensors={"id": id})
        second = prepared(causal_program(), first.out, k, v)
        third = program.kernel(dtype="bf16", head_dim=64, head_dim_v=64, device=0).prepare(second.out, k, v, tensors={"id": id})

        def fill(n):
            for x, new in zip((q, k, v, id), (*sets[n][0], sets[n][1])):
                x.copy_(new)

        def chain():
            first()
            second()
            third()
        want = []
        for n in range(2):
            fill(n)
            for launch in (first, second, third):
                launch()
                torch.cuda.synchronize()
            want.append(third.out.clone())
        got = []
        for i in range(300):
            fill(i % 2)
            chain()
            got.append(third.out.clone() if i % 50 < 2 else None)
            q.fill_(math.nan)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            chain()
            chain()
            late = third.out.clone()
        for i in range(20):
            fill(i % 2)
            g.replay()
            got.append(late.clone())
        for i, o in enumerate(got):
            expect(o is None or torch.equal(o, want[i % 2]), f"launch {i} differs")
    yield "launches one behind the other", overlap


@test("launch")
def calls():
    def convenience():
        q, k, v = random_qkv(2, 4, 2, 150, 200, 64, seed=81)
        o, lse = facc.attention(q, k, v, mask_mod="q >= kv", return_lse=True)
        judged(q, k, v, o, lse, CAUSAL)
        out = torch.full_like(o, math.nan)
        expect(facc.attention(q, k, v, mask_mod="q >= kv", out=out) is out, "out is not returned")
        expect(torch.equal(o, out), "with and without LSE differ")
    yield "attention()", convenience

    def run_time_param():
        q, k, v = random_qkv(1, 2, 2, 300, 300, 64, seed=82)
        events = []
        with facc.Context(on_compile=lambda *e: events.append(e)) as context:
            program = facc.Program.from_expressions(
                mask="q >= kv and q - kv < w", declarations=(("w", "i32", None),), context=context)
            launch = prepared(program, q, k, v, params={"w": 10})
            made = len(events)  # one, or one for each family
            for w in (10, 100, 1):
                launch.set_param("w", w)
                launch()
                judged(q, k, v, launch.out, launch.lse,
                       lambda s, b, h, i, j: (s, (i >= j) & (i - j < w)))
            expect(len(events) == made, f"changing a param compiled again: {events}")
    yield "params change without compiling", run_time_param

    def output_type():
        q, k, v = random_qkv(1, 2, 2, 100, 100, 64, seed=83)
        out = torch.full((1, 2, 100, 64), math.nan, device="cuda")
        try:
            facc.attention(q, k, v, out=out)
        except facc.Error as e:
            expect(e.status_name in ("FACC_ERR_UNSUPPORTED", "FACC_ERR_ARGUMENT"), str(e))
            return
        expect(float((out.double() - reference(q, k, v)[0]).abs().max()) < 2e-2, "wrong f32 output")
    yield "f32 output: right or refused", output_type

    def bounds():
        program = facc.Program.from_string(
            'local facc = require "facc"\nlocal t = facc.tensor("t", "f32", { 100 })\n'
            "return facc.attention { score_mod = function(s, b, h, q, kv)\n  return s + t[q + kv]\nend }\n",
            name="outside.lua")
        t = torch.zeros(100, device="cuda")
        kernel = program.kernel(dtype="bf16", head_dim=64, head_dim_v=64, device=0, check_bounds=True)
        kernel.prepare(*random_qkv(1, 2, 2, 50, 50, 64, seed=84), tensors={"t": t})()
        kernel.bounds_report(0)  # 49 + 49 is inside
        kernel.prepare(*random_qkv(1, 2, 2, 80, 80, 64, seed=84), tensors={"t": t})()
        try:
            kernel.bounds_report(0)
        except facc.Error as e:
            expect(e.status_name == "FACC_ERR_BOUNDS", f"got {e.status_name}: {e}")
            expect(e.line == 4, f"line {e.line}, not 4: {e}")
            return
        expect(False, "a read outside a captured tensor was not reported")
    yield "checked build reports a read outside", bounds

    def second_device():
        if torch.cuda.device_count() < 2:
            print("SKIPPED second device: this machine has one GPU")
            return
        q, k, v = (x.to("cuda:1") for x in random_qkv(1, 2, 2, 130, 130, 64, seed=85))
        with torch.cuda.device(0):  # the tensors' device counts, not the current one
            o, lse = facc.attention(q, k, v, mask_mod="q >= kv", return_lse=True)
        judged(*(x.to("cuda:0") for x in (q, k, v, o, lse)), CAUSAL)
    yield "tensors on another device", second_device


def refused(status, call, *words):
    """The call raises facc.Error with this status and these words."""
    def case():
        try:
            call()
        except facc.Error as e:
            expect(e.status_name == "FACC_ERR_" + status, f"got {e.status_name}: {e.message}")
            for word in words:
                expect(word in e.message, f"the message lacks '{word}': {e.message}")
            torch.cuda.synchronize()
            return
        expect(False, "no error")
    return case


@test("errors")
def shapes_and_types():
    def call(q=(2, 4, 50, 64), k=(2, 2, 60, 64), v=(2, 2, 60, 64), dtype=torch.bfloat16, kdtype=None, **more):
        def f():
            z = [torch.zeros(s, dtype=t, device="cuda") for s, t in
                 ((q, dtype), (k, kdtype or dtype), (v, dtype))]
            return facc.attention(*z, **more)
        return f
    yield "head dim 12", refused("UNSUPPORTED", call((1, 1, 8, 12), (1, 1, 8, 12), (1, 1, 8, 12)), "12")
    yield "head dim 264", refused("UNSUPPORTED", call((1, 1, 8, 264), (1, 1, 8, 264), (1, 1, 8, 264)), "264")
    yield "Dv 20", refused("UNSUPPORTED", call(v=(2, 2, 60, 20)), "20")
    yield "f32 on the GPU", refused("UNSUPPORTED", call(dtype=torch.float32))
    yield "f64", refused("UNSUPPORTED", call(dtype=torch.float64))
    yield "K of another type", refused("ARGUMENT", call(kdtype=torch.float16))
    yield "H no multiple of Hkv", refused("ARGUMENT", call(k=(2, 3, 60, 64), v=(2, 3, 60, 64)))
    yield "D of K differs", refused("ARGUMENT", call(k=(2, 2, 60, 32)))
    yield "length of V differs", refused("ARGUMENT", call(v=(2, 2, 61, 64)))
    yield "heads of V differ", refused("ARGUMENT", call(v=(2, 4, 60, 64)))
    yield "batch differs", refused("ARGUMENT", call(k=(1, 2, 60, 64)))
    yield "rank 3", refused("ARGUMENT", call(q=(4, 50, 64)), "rank")
    yield "NaN scale", refused("ARGUMENT", call(scale=math.nan), "scale")
    yield "infinite scale", refused("ARGUMENT", call(scale=math.inf), "scale")
    wrong_out = torch.zeros(2, 4, 51, 64, dtype=torch.bfloat16, device="cuda")
    yield "out of another shape", refused("ARGUMENT", call(out=wrong_out))
    strided = torch.zeros(2, 4, 64, 50, dtype=torch.bfloat16, device="cuda").transpose(2, 3)
    yield "last dimension not contiguous", refused("ARGUMENT", lambda: facc.attention(strided, strided, strided))
    host = torch.zeros(2, 2, 60, 64, dtype=torch.bfloat16)
    on_gpu = torch.zeros(2, 4, 50, 64, dtype=torch.bfloat16, device="cuda")
    yield "K in host memory", refused("ARGUMENT", lambda: facc.attention(on_gpu, host, host), "device")
    lengths = torch.zeros(2, dtype=torch.int64, device="cuda")
    yield "used lengths as i64", refused("ARGUMENT", call(seqused_kv=lengths), "seqused_kv")


@test("errors")
def mods_and_captures():
    x = torch.zeros(2, 4, 50, 64, dtype=torch.bfloat16, device="cuda")

    def call(**more):
        return lambda: facc.attention(x, x, x, **more)
    alibi = facc.find_program(program=EXAMPLES / "alibi.lua")
    window = facc.find_program(program=EXAMPLES / "sliding_window.lua")
    good = torch.zeros(4, device="cuda")
    yield "missing tensor", refused("ARGUMENT", call(program=alibi), "slopes")
    yield "unknown tensor", refused("ARGUMENT", call(program=alibi, tensors={"slopes": good, "m": good}), "m")
    yield "tensor of another type", refused("ARGUMENT", call(program=alibi, tensors={"slopes": good.half()}), "slopes")
    yield "tensor of another rank", refused("ARGUMENT", call(program=alibi, tensors={"slopes": good[None]}), "slopes")
    yield "tensor of another shape", refused("ARGUMENT", call(program=alibi, tensors={"slopes": good[:3]}), "slopes")
    yield "tensor in host memory", refused("ARGUMENT", call(program=alibi, tensors={"slopes": good.cpu()}), "slopes")
    yield "missing param", refused("ARGUMENT", call(program=window), "window")
    yield "unknown param", refused("ARGUMENT", call(program=window, params={"window": 1, "w": 2}), "w")
    yield "half a window", refused("ARGUMENT", call(program=window, params={"window": 1.5}), "window")
    yield "syntax error", refused("SCRIPT", call(mask_mod="q >= "))
    yield "unknown name", refused("SCRIPT", call(mask_mod="q >= kv + offset"), "offset")
    yield "mask that is a number", refused("SCRIPT", call(mask_mod="q - kv"))
    yield "missing file", refused("IO", call(program="no/such/file.lua"), "file.lua")
    for name, words, grad in (("q", ("q", "gradient"), "q"), ("captured", ("slopes", "gradient"), "slopes")):
        def gradient():
            q, slopes = x.clone(), good.clone()
            (q if grad == "q" else slopes).requires_grad_()
            facc.attention(q, x, x, program=alibi, tensors={"slopes": slopes})
        yield f"{name} requires a gradient", refused("UNSUPPORTED", gradient, *words)

    def without_gradient():
        with torch.no_grad():
            facc.attention(x.clone().requires_grad_(), x, x)
    yield "inside no_grad", without_gradient

    def still_alive():
        q, k, v = random_qkv(1, 2, 2, 130, 130, 64, seed=91)
        check_case(causal_program(), q, k, v, CAUSAL)
    yield "right after all these errors", still_alive

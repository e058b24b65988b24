"""Launches that make a schedule: equal bits when repeated, from an old schedule
and whatever the workspace held; what may change between launches; streams and
graph capture."""
import math

import torch

import facc
from device import DEVICE
from harness import (DTYPES, compare, emulation, expect, guarded, guards_intact, prepared, random_qkv,
                     reference, run_poisoned, same_bits, test)
from mask_list import MASKS, oracle, program_of

SHAPE = (2, 4, 2, 1500, 1500, 128)


class Job:
    """One mask with inputs and a prepared launch into poisoned, guarded memory."""

    def __init__(self, name, shape=SHAPE, dtype="bf16", seed=50, program=None):
        B, H, Hkv, Sq, Skv, D = shape
        self.mask = MASKS[name](B, H, Sq, Skv)
        self.q, self.k, self.v = random_qkv(B, H, Hkv, Sq, Skv, D, dtype=dtype, seed=seed)
        self.o, self.o_buffer, self.o_span = guarded((B, H, Sq, D), DTYPES[dtype])
        self.lse, self.l_buffer, self.l_span = guarded((B, H, Sq), torch.float32)
        self.launch = prepared(program or program_of(name, self.mask.source), self.q, self.k, self.v, self.o,
                               self.lse, tensors=self.mask.tensors, params=self.mask.params)

    def poison(self):
        self.o_buffer.fill_(math.nan)
        self.l_buffer.fill_(math.nan)

    def run(self):
        """Output and LSE of one launch."""
        self.poison()
        self.launch()
        return self.taken()

    def taken(self):
        torch.cuda.synchronize()
        expect(guards_intact(self.o_buffer, self.o_span) and guards_intact(self.l_buffer, self.l_span),
               "written outside the output")
        return self.o.clone(), self.lse.clone()

    def judge(self, mod=None):
        mod = mod or oracle(self.mask)
        compare(self.o, self.lse, reference(self.q, self.k, self.v, mod),
                emulation(self.q, self.k, self.v, mod))

    def workspace(self):
        expect(getattr(self.launch, "workspace", None) is not None, "this mask has no schedule")
        return self.launch.workspace


def expect_same(a, b, text):
    expect(same_bits(a[0], b[0]), f"output: {text}")
    expect(same_bits(a[1], b[1]), f"LSE: {text}")


@test("changes")
def repeated():
    for name in ("document causal", "dense bool", "dilated", "natten 32", "natten 200", "head windows", "longformer"):
        def ten():
            job = Job(name)
            first = job.run()
            job.judge()
            for n in range(10):
                # whatever the workspace held before
                job.workspace().fill_((0, 0xff, 0x5a)[n % 3])
                expect_same(first, job.run(), "two runs differ")
        yield f"{name} ten times, other garbage in the workspace", ten

        def ready():
            job = Job(name)
            first = job.run()
            job.launch.arguments.a.schedule_ready = 1
            for _ in range(3):
                expect_same(first, job.run(), "with the old schedule other bits")
            for x in random_qkv(*SHAPE, seed=52)[:1]:
                job.q.copy_(x)
            job.run()
            job.judge()
        yield f"{name} schedule_ready", ready

    def batch_composition():
        B, shape = 3, (4, 2, 900, 900, 128)
        mask = MASKS["document causal"](B, *shape[:1], *shape[2:4])
        q, k, v = random_qkv(B, *shape, seed=53)
        program = program_of("document causal", mask.source)
        together = run_poisoned(program, q, k, v, tensors=mask.tensors)
        for b in range(B):
            alone = run_poisoned(program, q[b:b + 1], k[b:b + 1], v[b:b + 1],
                                 tensors={"ids": mask.tensors["ids"][b:b + 1]})
            expect_same((together[0][b:b + 1], together[1][b:b + 1]), alone, "alone other bits")
    yield "batch composition", batch_composition


@test("changes")
def between_launches():
    def params():
        events = []
        with facc.Context(on_compile=lambda *e: events.append(e)) as context:
            source = MASKS["both in prefix"](2, 4, 1500, 1500).source
            job = Job("both in prefix", program=facc.Program.from_string(source, "prefix.lua", context))
            made = len(events)  # one, or one for each family
            for p in (500, 0, 1, 1499, 700, 5000):
                job.launch.set_param("p", p)
                job.run()
                job.judge(lambda s, b, h, q, kv: (s, ((q < p) & (kv < p)) | (q >= kv)))
            expect(len(events) == made, f"changing a param compiled again: {events}")
    yield "a param", params

    def captured():
        job = Job("document causal")
        ids = job.mask.tensors["ids"]
        for shift in (0, 37, 400):
            ids.copy_(torch.roll(ids, shift, 1))
            job.run()
            job.judge()
    yield "a captured tensor in place", captured

    def used():
        mask = MASKS["dilated"](3, 2, 700, 700)
        q, k, v = random_qkv(3, 2, 1, 700, 700, 64, seed=54)
        used_kv = torch.tensor([700, 300, 0], dtype=torch.int32, device=DEVICE)
        launch = prepared(program_of("dilated", mask.source), q, k, v, seqused_kv=used_kv)
        for lengths in ((700, 300, 0), (1, 700, 699), (0, 0, 0), (128, 129, 127)):
            used_kv.copy_(torch.tensor(lengths, dtype=torch.int32))
            launch.out.fill_(math.nan)
            launch.lse.fill_(math.nan)
            launch()
            compare(launch.out, launch.lse, reference(q, k, v, oracle(mask), used_kv=used_kv),
                    emulation(q, k, v, oracle(mask), used_kv=used_kv))
    yield "used lengths in place", used


@test("changes")
def streams_and_graphs():
    for name in ("document causal", "dense bool", "natten 32"):
        def two_workspaces():
            jobs = [Job(name, seed=60 + n) for n in range(4)]
            streams = [torch.cuda.Stream(), torch.cuda.Stream()]
            for _ in range(3):
                for job in jobs:
                    job.poison()
                for s in streams:
                    s.wait_stream(torch.cuda.current_stream())
                for n, job in enumerate(jobs):
                    with torch.cuda.stream(streams[n % 2]):
                        job.launch()
                torch.cuda.synchronize()
                for job in jobs:
                    job.judge()
        yield f"{name} on two streams", two_workspaces

        def captured():
            job = Job(name)
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                job.launch()
            for seed in (70, 71):
                for x, new in zip((job.q, job.k, job.v), random_qkv(*SHAPE, seed=seed)):
                    x.copy_(new)
                for x in job.mask.tensors.values():
                    x.copy_(torch.roll(x, 41, -1))
                job.poison()
                g.replay()
                job.taken()
                job.judge()
        yield f"{name} captured in a graph", captured

"""facc with PyTorch's compiler, on CPU tensors: a call stays one operator,
other lengths and params compile nothing anew, gradients are refused. Skipped
without PyTorch; with FACC_TEST_LONG=1 Inductor, too."""
import inspect
import os
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np

try:
    import torch
except ImportError:
    torch = None

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

import facc  # noqa: E402

CAUSAL = "q + facc.size.kv - facc.size.q >= kv"


def qkv(S=9, H=4, Hkv=2, D=16, dtype=None, **more):
    torch.manual_seed(S)
    return [torch.randn(1, h, S, D, dtype=dtype, **more) for h in (H, Hkv, Hkv)]


class Recorder:
    """A backend that runs what it is given and keeps the operators."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs):
        self.graphs.append([str(n.target) for n in graph.graph.nodes if n.op == "call_function"])
        return graph

    def facc_calls(self):
        return [sum("facc" in target for target in graph) for graph in self.graphs]


@unittest.skipIf(torch is None, "no PyTorch")
class Compile(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        self.recorder = Recorder()

    def compiled(self, function, **more):
        return torch.compile(function, fullgraph=True, backend=self.recorder, **more)

    def agree(self, got, want):
        for a, b in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,)):
            self.assertTrue(torch.equal(a, b))

    def test_one_operator(self):
        bias = torch.randn(9)

        def f(q, k, v, bias):
            o, lse = facc.attention(q * 2, k, v, score_mod="score + cap * bias[kv]", mask_mod=CAUSAL,
                                    tensors={"bias": bias}, params={"cap": 0.5}, return_lse=True)
            return o + 1, lse
        q, k, v = qkv()
        self.agree(self.compiled(f)(q, k, v, bias), f(q, k, v, bias))
        self.assertEqual(self.recorder.facc_calls(), [1])

    def test_all_kinds_of_mods(self):
        q, k, v = qkv()
        slopes = torch.tensor([0.5, 0.25, 0.125, 1])
        file = ROOT / "examples" / "alibi.lua"
        program = facc.Program.from_file(file)
        text = file.read_text()
        for mods in dict(score_mod=str(file)), dict(score_mod=file), dict(program=program), dict(program=text), \
                dict(score_mod=text), dict(program=str(file)):
            def f(q, k, v):
                return facc.attention(q, k, v, tensors={"slopes": slopes}, **mods)
            self.agree(self.compiled(f)(q, k, v), f(q, k, v))
        self.assertEqual(self.recorder.facc_calls(), [1] * 6)

    def test_lengths_and_params(self):
        """Compiled for any, they are no part of the graph."""
        def f(q, k, v, window):
            return facc.attention(q, k, v, mask_mod="q - kv < w", params={"w": window})
        compiled = self.compiled(f, dynamic=True)
        for S, window in (9, 3), (9, 4), (12, 5), (31, 7):
            q, k, v = qkv(S)
            self.agree(compiled(q, k, v, window), f(q, k, v, window))
        self.assertEqual(self.recorder.facc_calls(), [1])

    def test_packed(self):
        q, k, v = (x[0].transpose(0, 1).contiguous() for x in qkv(20))
        cu = torch.tensor([0, 8, 20], dtype=torch.int32)

        def f(q, k, v, cu):
            return facc.attention(q, k, v, mask_mod="q >= kv", cu_seqlens_q=cu, cu_seqlens_kv=cu, max_seqlen_q=12,
                                  max_seqlen_kv=12, return_lse=True)
        got = self.compiled(f)(q, k, v, cu)
        self.agree(got, f(q, k, v, cu))
        self.assertEqual((got[0].shape, got[1].shape), ((20, 4, 16), (4, 20)))
        self.assertEqual(self.recorder.facc_calls(), [1])

    def test_other_arguments(self):
        q, k, v = qkv(40)
        counts, indices = torch.ones(1, 1, 3, dtype=torch.int32), torch.arange(3, dtype=torch.int32).expand(3, 3)
        indices = indices.roll(1, 1).contiguous().view(1, 1, 3, 3)
        mask = facc.BlockMask(counts, indices, BLOCK_SIZE=16)
        sinks, used = torch.randn(4), torch.tensor([33], dtype=torch.int32)
        for more in dict(block_mask=mask), dict(sinks=sinks), dict(seqused_kv=used), dict(scale=0.7):
            def f(q, k, v):
                return facc.attention(q, k, v, mask_mod="q >= 0", **more)
            self.agree(self.compiled(f)(q, k, v), f(q, k, v))

        def g(q, k, v, out):
            facc.attention(q, k, v, out=out)
            return out
        out = torch.empty_like(q)
        self.agree(self.compiled(g)(q, k, v, out), facc.attention(q, k, v))
        self.agree(out, facc.attention(q, k, v))

    def test_block_mask_of_flex_attention(self):
        from torch.nn.attention import flex_attention as flex
        q, k, v = qkv(40)
        mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 40, 40, device="cpu", BLOCK_SIZE=16)

        def f(q, k, v):
            return facc.attention(q, k, v, mask_mod="q >= kv", block_mask=mask)
        self.agree(self.compiled(f)(q, k, v), f(q, k, v))
        self.assertTrue(torch.allclose(f(q, k, v), facc.attention(q, k, v, mask_mod="q >= kv"), atol=1e-6))

    def test_gradients_are_refused(self):
        for n, name in enumerate("qkv"):
            inputs = qkv()
            inputs[n].requires_grad_()
            for f in facc.attention, torch.compile(facc.attention, backend="eager"), \
                    torch.compile(facc.attention, backend="aot_eager", fullgraph=True):
                torch._dynamo.reset()
                with self.assertRaisesRegex(Exception, f"{name} requires a gradient"):
                    f(*inputs)
                with torch.no_grad():
                    self.agree(f(*inputs), facc.attention(*(x.detach() for x in inputs)))

    def test_what_memory_does_not_hold_is_refused(self):
        """Views that only say that values are negated, tangents, tensors of tensors."""
        q, k, v = qkv()
        slopes = torch.ones(4)
        with self.assertRaisesRegex(facc.Error, r"k is a view with the negative bit: give k.resolve_neg\(\)"):
            facc.attention(q, torch._neg_view(k), v)
        with self.assertRaisesRegex(facc.Error, "tensor 's' is a view with the negative bit"):
            facc.attention(q, k, v, score_mod="score + s[h]", tensors={"s": torch._neg_view(slopes)})
        self.agree(facc.attention(torch._neg_view(q).resolve_neg(), k, v), facc.attention(-q, k, v))
        with torch.autograd.forward_ad.dual_level():
            for n, name in enumerate("qkv"):
                inputs = [q, k, v]
                inputs[n] = torch.autograd.forward_ad.make_dual(inputs[n], torch.ones_like(inputs[n]))
                with self.assertRaisesRegex(facc.Error, f"{name} has a tangent"):
                    facc.attention(*inputs)
            self.agree(facc.attention(q, k, v), facc.attention(q.clone(), k, v))
        with self.assertRaisesRegex(facc.Error, "q has no memory"):
            torch.vmap(facc.attention)(q[None], k[None], v[None])
        with self.assertRaisesRegex(facc.Error, "q has no memory"):
            facc.attention(q.to_sparse(), k, v)

    def test_errors_say_where(self):
        def f(q, k, v):
            return facc.attention(q, k, v, mask_mod="function(b, h, q, kv)\n  return q.x > kv\nend")
        for call in f, torch.compile(f, backend="eager", fullgraph=True):
            with self.assertRaises(facc.Error) as caught:
                call(*qkv())
            self.assertEqual((caught.exception.file, caught.exception.line), ("mask_mod", 2))

    def test_handles_are_refused(self):
        with facc.Context(cache_mode="off") as context:
            q, k, v = qkv()
            program = facc.Program.from_expressions(mask="q >= kv", context=context)
            for f, text in ((lambda q, k, v: facc.attention(q, k, v, context=context), "context= is not"),
                            (lambda q, k, v: facc.attention(q, k, v, stream=0), "stream= is not")):
                with self.assertRaisesRegex(Exception, text):
                    torch.compile(f, backend="eager", fullgraph=True)(q, k, v)

            def f(q, k, v):
                return facc.attention(q, k, v, program=program)
            self.agree(self.compiled(f)(q, k, v), f(q, k, v))

    def test_operator(self):
        """torch's own test of an operator: schema, fake results, tracing."""
        facc.attention(*qkv())
        facc._op.define()
        q, k, v = qkv()
        rest = ("", "q - kv < w", "", -1, [], [], ["w"], [3], [], [], None, True, None, None, None, None, None, None,
                [], [], None, 0.25, 7, 0)
        torch.library.opcheck(torch.ops.facc.attention.default, (q, k, v, *rest))
        out, lse = torch.ops.facc.attention(q.half(), k.half(), v.half(), *rest)
        self.assertEqual((out.dtype, lse.dtype, lse.shape), (torch.float16, torch.float32, (1, 4, 9)))

    def test_export(self):
        class Layer(torch.nn.Module):
            def forward(self, q, k, v):
                return facc.attention(q, k, v, mask_mod=CAUSAL)
        length = torch.export.Dim("length", min=2, max=64)
        q, k, v = qkv()
        program = torch.export.export(Layer(), (q, k, v), dynamic_shapes=[{2: length}] * 3)
        self.assertIn("facc.attention", str(program.graph))
        q, k, v = qkv(20)
        self.agree(program.module()(q, k, v), facc.attention(q, k, v, mask_mod=CAUSAL))

    def test_autocast_and_modes(self):
        q, k, v = qkv(dtype=torch.bfloat16)
        with torch.inference_mode():
            self.agree(facc.attention(q, k, v), facc.attention(q, k, v))
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode() as mode:
            out, lse = facc.attention(*(mode.from_tensor(x) for x in (q, k, v)), return_lse=True)
        self.assertEqual((out.shape, out.dtype, lse.shape), (q.shape, torch.bfloat16, q.shape[:3]))

    def test_facc_before_torch(self):
        program = ("import facc, torch\n"
                   "f = torch.compile(lambda q: facc.attention(q, q, q, mask_mod='q >= kv'), fullgraph=True,\n"
                   "                  backend='eager')\n"
                   "q = torch.randn(1, 2, 5, 8)\n"
                   "assert torch.equal(f(q), facc.attention(q, q, q, mask_mod='q >= kv'))\n")
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "runtime" / "python")}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(os.environ.get("FACC_TEST_LONG") == "1", "long")
    def test_inductor(self):
        bias = torch.randn(9)

        def f(q, k, v):
            q = torch.nn.functional.rms_norm(q, (16,))
            return torch.relu(facc.attention(q, k, v, score_mod="score + bias[kv]", tensors={"bias": bias * 2})) + 1
        q, k, v = qkv()
        self.assertTrue(torch.allclose(torch.compile(f, fullgraph=True)(q, k, v), f(q, k, v), atol=1e-6))


@unittest.skipIf(torch is None, "no PyTorch")
class Forms(unittest.TestCase):
    """What tells calls of facc.attention apart (_again.py), on CPU tensors that
    say they were CUDA's."""

    def form(self, *arrays, **call):
        names = list(inspect.signature(facc._again.form_of).parameters)
        call = {**dict.fromkeys(names), "dropout_p": 0.0, "return_lse": False, **dict(zip("qkv", arrays)), **call}
        with mock.patch.object(torch.Tensor, "is_cuda", property(lambda x: True)):
            return facc._again.form_of(**call)

    def test_told_apart(self):
        q, k, v = qkv(D=16, dtype=torch.float16)
        bias = torch.zeros(4, 9)
        base = dict(score_mod="score + bias[h][q] + w", tensors={"bias": bias}, params={"w": 1})
        calls = [base, {**base, "tensors": {"bias": bias.half()}}, {**base, "tensors": {"bias": bias[:, :8]}},
                 {**base, "tensors": {"bias": bias.expand(1, 4, 9)}}, {**base, "tensors": {"bias": bias[:, ::2]}},
                 {**base, "tensors": {"other": bias}}, {**base, "params": {"w": 1.0}}, {**base, "params": {"w": 2**40}},
                 {**base, "params": {"u": 1}}, {**base, "score_mod": "score"}, {**base, "mask_mod": "q >= kv"},
                 {**base, "scale": 0.5}, {**base, "return_lse": True}, {**base, "out": torch.zeros_like(q)},
                 {**base, "seqused_q": torch.ones(1).int()}, {**base, "seqused_kv": torch.ones(1).int()},
                 {**base, "sinks": torch.ones(4)}, {**base, "max_seqlen_q": 3}, {**base, "max_seqlen_kv": 3},
                 {**base, "dropout_p": 0.5, "seed": 1}, {**base, "dropout_p": 0.25, "seed": 1}]
        keys = [self.form(q, k, v, **call).key for call in calls]
        odd = torch.empty(q.numel() + 1, dtype=q.dtype)[1:].view(q.shape)
        for arrays in (odd, k, v), (q[:, :, :5], k, v), (q.transpose(1, 2).contiguous().transpose(1, 2), k, v), (
                q, k[:, :1], v), (q, k, v[..., :8]), (q.bfloat16(), k, v):
            keys.append(self.form(*arrays, **base).key)
        self.assertEqual(len(set(keys)), len(keys))
        same = self.form(*(x.clone() for x in (q, k, v)), **{**base, "tensors": {"bias": bias + 1}, "params": {"w": 7}})
        self.assertEqual(same.key, keys[0])

    def test_not_plain(self):
        q, k, v = qkv(D=16)
        wants = v.clone().requires_grad_()
        self.assertIsNotNone(self.form(q, k, v))
        self.assertIsNone(self.form(q, k, wants))
        with torch.no_grad():
            self.assertIsNotNone(self.form(q, k, wants))
            self.assertIsNotNone(self.form(q, k, torch.nn.Parameter(v)))
        self.assertIsNone(self.form(q, k, torch.complex(v, v).conj().imag))  # the negative bit
        self.assertIsNone(self.form(q, k, v.to_sparse()))
        self.assertIsNone(self.form(q, k, v.numpy()))
        self.assertIsNone(self.form(q, k, v, tensors={"t": np.ones(4)}))
        self.assertIsNone(self.form(q, k, v, params={"w": torch.ones(())}))
        self.assertIsNone(self.form(q, k, v, params={"w": True}))
        self.assertIsNone(self.form(q, k, v, scale=torch.ones(())))
        self.assertIsNone(self.form(q, k, v, dropout_p=0.5))
        self.assertIsNone(facc._again.form_of(q, k, v, *[None] * 21))  # really on the CPU

        def mapped(x):
            self.assertIsNone(self.form(x, x, x))
            return x
        torch.vmap(mapped)(torch.zeros(2, *q.shape))
        torch.func.jvp(mapped, (q,), (q,))
        with torch.autograd.forward_ad.dual_level():
            self.assertIsNone(self.form(q, k, torch.autograd.forward_ad.make_dual(v, v)))


if __name__ == "__main__":
    unittest.main()

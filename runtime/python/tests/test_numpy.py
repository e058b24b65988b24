"""The package on NumPy arrays: numbers against attention written here, views
and types, every kind of error. Needs libfacc.so and NumPy, no PyTorch."""
import json
import math
import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

import facc  # noqa: E402


def attention(q, k, v, mod=lambda s, h, i, j: (s, i == i), scale=None):
    """Output and LSE in f64; masked rows give 0 and -inf."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = q @ k.swapaxes(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    h, i, j = np.ogrid[:s.shape[1], :s.shape[2], :s.shape[3]]
    s, keep = mod(s, h, i, j)
    p = np.where(keep, np.exp(s), 0)  # inputs are small: no maximum needed
    total = p.sum(-1)
    with np.errstate(divide="ignore"):
        return p @ v / np.where(total > 0, total, 1)[..., None], np.log(total)


def causal(s, h, i, j):
    return s, i >= j


def inputs(B=2, H=4, Hkv=2, Sq=37, Skv=53, D=24, Dv=40, dtype=np.float32):
    rng = np.random.default_rng(1)
    return [rng.standard_normal(s).astype(dtype) for s in
            ((B, H, Sq, D), (B, Hkv, Skv, D), (B, Hkv, Skv, Dv))]


class Numbers(unittest.TestCase):
    def agree(self, got, want, tolerance=2e-6):
        np.testing.assert_allclose(got[0], want[0], atol=tolerance, rtol=tolerance)
        np.testing.assert_allclose(got[1], want[1], atol=1e-5, rtol=1e-5)

    def test_plain_and_causal(self):
        q, k, v = inputs()
        self.agree(facc.attention(q, k, v, return_lse=True), attention(q, k, v))
        self.agree(facc.attention(q, k, v, mask_mod="q >= kv", return_lse=True),
                   attention(q, k, v, causal))

    def test_sinks(self):
        q, k, v = inputs()
        sinks = np.float32([0.5, -np.inf, 3, -20])
        o, lse = attention(q, k, v, causal)  # the first rows of 37 have few keys
        share = 1 / (1 + np.exp(sinks[:, None] - lse))
        want = o * share[..., None], np.logaddexp(lse, sinks[:, None])
        self.agree(facc.attention(q, k, v, mask_mod="q >= kv", sinks=sinks, return_lse=True), want)
        self.agree(facc.attention(q, k, v, mask_mod="q >= kv", sinks=np.repeat(sinks, 2)[::2], return_lse=True), want)
        self.agree(facc.oracle(q, k, v, mask_mod="q >= kv", sinks=sinks), want, 1e-12)
        o, lse = facc.attention(q, k, v, mask_mod="q < 0", sinks=sinks, return_lse=True)
        self.assertTrue((o == 0).all() and (lse == sinks[:, None]).all())

    def test_sinks_refused(self):
        q, k, v = inputs()
        for sinks, text in ((np.zeros(2, np.float32), r"sinks: shape is .2., expected .4."),
                            (np.zeros(4), "sinks: dtype is f64, expected f32"),
                            (np.zeros((1, 4), np.float32), "sinks: rank is 2"),
                            ([0.0] * 4, "sinks must be a NumPy array")):
            with self.assertRaisesRegex(facc.Error, text):
                facc.attention(q, k, v, sinks=sinks)

    def test_dropout(self):
        q, k, v = inputs()
        identity = np.broadcast_to(np.eye(53, dtype=np.float32), (2, 2, 53, 53))
        weights, lse = facc.attention(q, k, identity, mask_mod="q >= kv", return_lse=True)
        drop = dict(dropout_p=0.25, seed=2**64 - 1, offset=5)
        dropped, same = facc.attention(q, k, identity, mask_mod="q >= kv", return_lse=True, **drop)
        self.assertTrue(np.array_equal(lse, same))
        keep = dropped != 0
        np.testing.assert_allclose(dropped, keep * weights / 0.75, rtol=1e-6)
        share = keep.sum() / (weights != 0).sum()
        self.assertTrue(0.7 < share < 0.8, share)
        want = (keep * weights).astype(np.float64) @ np.repeat(v, 2, 1) / 0.75
        for got in (facc.attention(q, k, v, mask_mod="q >= kv", **drop),
                    facc.oracle(q, k, v, mask_mod="q >= kv", **drop)[0]):
            np.testing.assert_allclose(got, want, atol=1e-6)
        o = facc.attention(q, k, v)
        self.assertTrue(np.array_equal(facc.attention(q, k, v, dropout_p=0.0, seed=3), o))
        self.assertFalse(np.array_equal(facc.attention(q, k, v, dropout_p=0.1, seed=3), o))

    def test_dropout_refused(self):
        q, k, v = inputs()
        for call, text in ((dict(dropout_p=1.0, seed=0), "dropout_p is 1: it must be at least 0 and below 1"),
                           (dict(dropout_p=-0.1, seed=0), "dropout_p is -0.1"),
                           (dict(dropout_p=math.nan, seed=0), "dropout_p is nan"),
                           (dict(dropout_p=0.5), "dropout_p needs a seed"),
                           (dict(dropout_p=0.5, seed=-1), "seed is -1: from 0 to"),
                           (dict(dropout_p=0.5, seed=0, offset=2**64), "offset is 18446744073709551616: from 0")):
            with self.assertRaisesRegex(facc.Error, text):
                facc.attention(q, k, v, **call)

    def test_file_with_tensor_and_param(self):
        q, k, v = inputs()
        slopes = np.float32([0.5, 0.25, 0.125, 1])

        def mod(s, h, i, j):
            return s + slopes[h] * (j - i), (i >= j) & (i - j < 7)
        got = facc.attention(q, k, v, program=ROOT / "examples" / "alibi_window.lua",
                             tensors={"slopes": slopes}, params={"window": 7}, return_lse=True)
        self.agree(got, attention(q, k, v, mod))

    def test_expressions_with_names(self):
        q, k, v = inputs()
        bias, cap = np.random.default_rng(2).standard_normal((4, 37)).astype(np.float32), 3.0
        got = facc.attention(q, k, v, score_mod="cap * math.tanh(score / cap) + bias[h][q]",
                             tensors={"bias": bias}, params={"cap": cap}, return_lse=True)
        self.agree(got, attention(q, k, v, lambda s, h, i, j: (
            cap * np.tanh(s / cap) + bias[h, i], i == i)))

    def test_oracle_is_double(self):
        q, k, v = inputs()
        o, lse = facc.oracle(q, k, v, mask_mod="q >= kv")
        self.assertEqual((o.dtype, lse.dtype), (np.float64, np.float64))
        want = attention(q, k, v, causal)
        np.testing.assert_allclose(o, want[0], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(lse, want[1], rtol=1e-12)

    def test_views(self):
        q, k, v = inputs(Sq=40, Skv=40, D=32, Dv=32)
        want = attention(q, k, v, causal)
        for name, view in {
            "transposed": lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2),
            "last dimension strided": lambda x: np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3),
            "reversed": lambda x: np.ascontiguousarray(x[:, :, ::-1])[:, :, ::-1],
            "every second": lambda x: np.repeat(x, 2, 2)[:, :, ::2],
        }.items():
            with self.subTest(name):
                got = facc.attention(view(q), view(k), view(v), mask_mod="q >= kv", return_lse=True)
                self.agree(got, want)
        k0 = np.broadcast_to(k[:1], k.shape)
        self.agree(facc.attention(q, k0, v, return_lse=True), attention(q, k0, v))

    def test_out_is_written_in_place(self):
        q, k, v = inputs()
        buffer = np.full((2, 37, 4, 40), np.nan, np.float32)
        out = buffer.swapaxes(1, 2)
        self.assertIs(facc.attention(q, k, v, out=out), out)
        np.testing.assert_allclose(buffer.swapaxes(1, 2), attention(q, k, v)[0], atol=2e-6)

    def test_f16(self):
        q, k, v = inputs(dtype=np.float16)
        o, lse = facc.attention(q, k, v, return_lse=True)
        self.assertEqual((o.dtype, lse.dtype), (np.float16, np.float32))
        self.agree((o, lse), attention(q, k, v), 2e-3)

    def test_masked_rows_and_no_keys(self):
        q, k, v = inputs()
        o, lse = facc.attention(q, k, v, mask_mod="q >= 5", return_lse=True)
        self.assertTrue((o[:, :, :5] == 0).all() and (lse[:, :, :5] == -np.inf).all())
        self.assertTrue(np.isfinite(lse[:, :, 5:]).all())
        o, lse = facc.attention(q, k[:, :, :0], v[:, :, :0], return_lse=True)
        self.assertTrue((o == 0).all() and (lse == -np.inf).all())

    def test_used_lengths(self):
        q, k, v = inputs()
        k[1, :, 9:] = v[1, :, 9:] = np.nan
        o, lse = facc.attention(q, k, v, seqused_q=np.int32([37, 3]), seqused_kv=np.int32([53, 9]),
                                return_lse=True)
        want = attention(q[1:, :, :3], k[1:, :, :9], v[1:, :, :9])
        self.agree((o[1:, :, :3], lse[1:, :, :3]), want)
        self.assertTrue((o[1, :, 3:] == 0).all() and (lse[1, :, 3:] == -np.inf).all())

    def test_scale(self):
        q, k, v = inputs()
        self.agree(facc.attention(q, k, v, scale=-0.3, return_lse=True),
                   attention(q, k, v, scale=-0.3))


class Programs(unittest.TestCase):
    def test_declared(self):
        p = facc.Program.from_file(ROOT / "examples" / "alibi_window.lua")
        self.assertEqual(p.tensors, [("slopes", "f32", ("H",))])
        self.assertEqual(p.params, [("window", "i32", ())])
        self.assertEqual(p.warning, "")

    def test_looking_inside(self):
        p = facc.Program.from_expressions(mask="q >= kv")
        self.assertIn("q", p.dump("ir"))
        self.assertIn("Variant", p.dump("variant", dtype="f16", head_dim=64, arch=80))
        self.assertTrue(p.explain())

    def test_traced_once(self):
        context = facc.Context()
        a = facc.find_program(mask_mod="q > kv", context=context)
        self.assertIs(a, facc.find_program(mask_mod="q > kv", context=context))
        path = ROOT / "examples" / "causal.lua"
        self.assertIs(facc.find_program(program=path, context=context),
                      facc.find_program(program=str(path), context=context))
        context.close()
        context.close()

    def test_examples_are_the_standard_mods(self):
        """What examples/ write out gives the graph of facc.mods."""
        for name, text in {
            "causal": "mask_mod = m.causal",
            "alibi": 'score_mod = m.alibi(facc.tensor("slopes", "f32", { "H" }))',
            "softcap": "score_mod = m.softcap(20.0)",
            "sliding_window": 'mask_mod = m.sliding_window(facc.param("window", "i32"))',
            "document": 'mask_mod = m.document(facc.tensor("ids", "i32", { "B", "kv" }))',
            "dilated": "mask_mod = m.dilated(256, 4)",
            "streaming_sinks": "mask_mod = m.sinks_window(4, 256)",
            "natten": "mask_mod = m.natten(facc.size.kv // 32, 32, 7)",
            "relative_bias": 'score_mod = m.relative_bias(facc.tensor("bias", "f32", { "H", 257 }), 128)',
            "t5_bias": 'score_mod = m.t5_bias(facc.tensor("bias", "f32", { 32, "H" }))',
        }.items():
            with self.subTest(name):
                source = f'local facc = require "facc"\nlocal m = facc.mods\nreturn facc.attention {{ {text} }}\n'
                self.assertEqual(facc.Program.from_string(source).dump("ir"),
                                 facc.Program.from_file(ROOT / "examples" / f"{name}.lua").dump("ir"))

    def test_system(self):
        s = facc.default_context().system()
        self.assertGreaterEqual(s["cpu_threads"], 1)
        self.assertTrue(s["driver_found"] or s["driver_error"])


class Errors(unittest.TestCase):
    def refused(self, status, *words, **call):
        q, k, v = inputs()
        x = dict(q=q, k=k, v=v)
        x.update((n, call.pop(n)) for n in "qkv" if n in call)
        with self.assertRaises(facc.Error) as caught:
            facc.attention(x["q"], x["k"], x["v"], **call)
        self.assertEqual(caught.exception.status_name, "FACC_ERR_" + status, caught.exception)
        for word in words:
            self.assertIn(word, str(caught.exception))
        return caught.exception

    def test_arrays(self):
        q, k, v = inputs()
        self.refused("ARGUMENT", "heads", k=np.repeat(k, 3, 1)[:, :3], v=np.repeat(v, 3, 1)[:, :3])
        self.refused("ARGUMENT", "k", k=k[..., :16])
        self.refused("ARGUMENT", "v", v=v[:, :, :50])
        self.refused("ARGUMENT", "rank", q=q[0])
        self.refused("ARGUMENT", "complex", q=q.astype(np.complex64))
        self.refused("ARGUMENT", "q", q=q.astype(">f4"))
        self.refused("ARGUMENT", "k", k=k.astype(np.float16))
        self.refused("ARGUMENT", "scale", scale=float("nan"))
        self.refused("ARGUMENT", "scale", scale=0.0)
        self.refused("ARGUMENT", "rank 6", out=np.zeros((2, 4, 37, 40, 1, 1), np.float32))
        frozen = np.zeros((2, 4, 37, 40), np.float32)
        frozen.flags.writeable = False
        self.refused("ARGUMENT", "read-only", out=frozen)
        self.refused("ARGUMENT", "o", out=np.zeros((2, 4, 36, 40), np.float32))
        odd = np.zeros(2 * 4 * 37 * 24 * 4 + 8, np.uint8)
        packed = np.ndarray((2, 4, 37, 24), np.float32, odd, strides=(37 * 400, 400, 97, 4))
        self.refused("ARGUMENT", "strides", q=packed)
        self.refused("ARGUMENT", "seqused_kv", seqused_kv=np.int64([1, 2]))
        self.refused("ARGUMENT", "seqused_q", seqused_q=np.int32([1, 2, 3]))

    def test_captures(self):
        file = ROOT / "examples" / "alibi_window.lua"
        slopes, good = np.float32([1, 2, 3, 4]), {"window": 3}
        self.refused("ARGUMENT", "slopes", program=file, params=good)
        self.refused("ARGUMENT", "window", program=file, tensors={"slopes": slopes})
        self.refused("ARGUMENT", "extra", program=file, tensors={"slopes": slopes, "extra": slopes}, params=good)
        self.refused("ARGUMENT", "slopes", program=file, tensors={"slopes": slopes[:3]}, params=good)
        self.refused("ARGUMENT", "slopes", program=file, tensors={"slopes": slopes.astype("f8")}, params=good)
        self.refused("ARGUMENT", "window", program=file, tensors={"slopes": slopes}, params={"window": 2.5})
        self.refused("ARGUMENT", "not both", program=file, mask_mod="q > kv")
        for bad in None, float("nan"), float("inf"), "3", 1 << 31, 1 << 64, []:
            self.refused("ARGUMENT", "window", program=file, tensors={"slopes": slopes}, params={"window": bad})
        for bad in None, "3", 1 << 60, -(1 << 63), 1 << 64, [], np.float64(1e39):
            self.refused("ARGUMENT", "far", mask_mod="kv < far", params={"far": bad})

    def test_param_values(self):
        q, k, v = inputs()
        for half in 0.5, np.float32(0.5), np.array(0.5):
            got = facc.attention(q, k, v, mask_mod="q * half >= kv", params={"half": half})
            np.testing.assert_allclose(got, attention(q, k, v, lambda s, h, i, j: (s, i >= 2 * j))[0], atol=2e-6)
        want = attention(q, k, v, lambda s, h, i, j: (s, i - j < 7))[0]
        for seven in 7, np.int64(7), np.uint8(7), 7.0, np.float32(7), np.array(7):
            got = facc.attention(q, k, v, mask_mod="q - kv < w", params={"w": seven})
            np.testing.assert_allclose(got, want, atol=2e-6)
        for far in (1 << 60) - q.shape[2], (1 << 53) + 1, np.int64(1 << 40):  # t[q] ends below 2^60
            got = facc.attention(q, k, v, mask_mod="kv + far - 6 <= t[q]", params={"far": far},
                                 tensors={"t": far + np.arange(q.shape[2], dtype=np.int64)})
            want = attention(q, k, v, lambda s, h, i, j: (s, j - 6 <= i))[0]
            np.testing.assert_allclose(got, want, atol=2e-6)

    def test_far_elements(self):
        q, k, v = inputs()
        limit = np.full(q.shape[2], np.iinfo(np.int64).max)
        limit[1::3], limit[2::3] = np.iinfo(np.int64).min, 5
        got = facc.attention(q, k, v, mask_mod="q - kv <= limit[q]", tensors={"limit": limit})
        want = attention(q, k, v, lambda s, h, i, j: (s, (i % 3 == 0) | (i % 3 == 2) & (i - j <= 5)))[0]
        np.testing.assert_allclose(got, want, atol=2e-6)

    def test_no_arrays(self):
        q, k, v = inputs()
        for bad in None, 1, "x", q.tolist():
            self.refused("ARGUMENT", "q must be", q=bad)
            self.refused("ARGUMENT", "v must be", v=bad)
            self.refused("ARGUMENT", "'t' must be", score_mod="score + t[h]", tensors={"t": bad})
        self.refused("ARGUMENT", "out must be", out=5)
        self.refused("ARGUMENT", "seqused_kv must be", seqused_kv=[1, 2])

    def test_rank_6(self):
        self.refused("ARGUMENT", "rank 6", score_mod="score + t[0]", tensors={"t": np.zeros((1,) * 6, np.float32)})

    def test_text(self):
        """C ends text at a NUL: "score\\0 + 1" is not "score"."""
        for bad in 5, abs, "score\0 + 1", "\ud800":
            self.refused("ARGUMENT", "score_mod", score_mod=bad)
        self.refused("ARGUMENT", "name", score_mod="score * w", params={"w": 1, 5: 1})
        self.refused("ARGUMENT", "name", score_mod="score * w", params={"w": 1, "w\0": 1})
        for bad in "causal.lua\0x", 5:
            with self.assertRaisesRegex(facc.Error, "path"):
                facc.Program.from_file(bad)
        with self.assertRaisesRegex(facc.Error, "name"):
            facc.Program.from_string("return require'facc'.attention {}", name="a\0b")

    def test_settings(self):
        for bad in dict(cache_mode="x"), dict(cache_mode=[]), dict(cpu_threads=2**32), dict(cpu_threads=1.5), \
                dict(cache_dirs=5), dict(on_warning=5), dict(on_compile="x"), dict(cpu_threads=-1):
            with self.assertRaisesRegex(facc.Error, next(iter(bad))):
                facc.Context(**bad)
        program = facc.Program.from_string("return require'facc'.attention {}")
        good = dict(dtype="bf16", head_dim=64, arch=90)
        for bad in dict(head_dim=2**32 + 64), dict(head_dim=64.0), dict(arch=2**32 + 90), dict(dtype="f12"), \
                dict(out_dtype="f8x"), dict(device=1 << 40):
            with self.assertRaisesRegex(facc.Error, next(iter(bad))):
                program.kernel(**{**good, **bad})
        with self.assertRaisesRegex(facc.Error, "sass"):
            program.dump("sass")

    def test_any_file_name(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in b"\xe9\xff.lua", b'a"b\n.lua':
                path = os.path.join(os.fsencode(folder), name)
                with open(path, "w") as f:
                    f.write("return require'facc'.attention { mask_mod = 'q >= kv' }")
                for p in path, os.fsdecode(path), pathlib.Path(os.fsdecode(path)):
                    program = facc.Program.from_file(p)
                    json.loads(program.explain(json=True))
                    self.assertIn("mask", program.explain())

    def test_closed_context(self):
        """Whatever is left of a closed context raises; it must not crash."""
        with facc.Context() as context:
            program = facc.Program.from_string("return require'facc'.attention {}", context=context)
            try:
                kernel = program.kernel(dtype="bf16", head_dim=64, arch=90)
            except facc.Error as e:
                if e.status_name != "FACC_ERR_NO_NVRTC":
                    raise
                kernel = None
        context.close()
        calls = [program.explain, context.system, context.clear_cache,
                 lambda: program.kernel(dtype="bf16", head_dim=128, arch=90)]
        if kernel:
            calls += [lambda: kernel.info, kernel.load, kernel.bounds_report]
        for call in calls:
            self.assertRaises(facc.Error, call)

    def test_scripts(self):
        self.refused("SCRIPT", "near", mask_mod="q >=")
        self.refused("SCRIPT", mask_mod="q - kv")
        self.refused("IO", "missing.lua", program="missing.lua")
        with self.assertRaises(facc.Error) as caught:
            facc.Program.from_string(
                'local facc = require "facc"\n\nreturn facc.attention {\n'
                "  mask_mod = function(b, h, q, kv)\n    return q.x > kv\n  end }\n", "broken.lua")
        e = caught.exception
        self.assertEqual((e.status_name, e.file, e.line), ("FACC_ERR_SCRIPT", "broken.lua", 5), e)
        self.assertIn("broken.lua:5:", e.message)

    def test_read_outside_a_captured_tensor(self):
        e = self.refused("BOUNDS", score_mod="score + t[q]", tensors={"t": np.zeros(20, np.float32)})
        self.assertIn("t", e.message)

    def test_variants(self):
        p = facc.Program.from_expressions(mask="q >= kv")
        for variant in (dict(dtype="f32", head_dim=64, arch=90), dict(dtype="bf16", head_dim=60, arch=90),
                        dict(dtype="bf16", head_dim=264, arch=90), dict(dtype="bf16", head_dim=64, arch=75)):
            with self.assertRaises(facc.Error) as caught:
                facc.Kernel(p, **variant)
            self.assertEqual(caught.exception.status_name, "FACC_ERR_UNSUPPORTED", variant)


if __name__ == "__main__":
    unittest.main()

"""FP8 from Python on the CPU: quantize() and attention(fp8=), with NumPy and, if it is there, PyTorch.
Codes against those of tests/gpu/quantize_reference.py."""
import pathlib
import sys
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "runtime" / "python"), str(ROOT / "tests" / "gpu")]

import facc  # noqa: E402
import quantize_reference as reference  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


def inputs(B=2, H=4, Hkv=2, Sq=70, Skv=100, D=32):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(s).astype(np.float32) + (n == 2) for n, s in
            enumerate(((B, H, Sq, D), (B, Hkv, Skv, D), (B, Hkv, Skv, D)))]


def value(x, scale, block, mean=None, dtype="e4m3"):
    y = reference.decode(x, dtype)
    if scale.ndim == 3:
        scale = np.repeat(scale, block, 2)[:, :, :x.shape[2]]
        y = y * scale[..., None]
    else:
        y = y * (scale[:, :, None, None] if scale.ndim == 2 else scale)
    return y if mean is None else y + mean[:, :, None]


class Fp8(unittest.TestCase):
    def test_codes_and_scales(self):
        for x in inputs():
            for per, rank, block in (("tensor", 0, 0), ("head", 2, 0), (64, 3, 64)):
                for dtype in "e4m3", "e5m2":
                    for more in {}, {"power_of_two": True}, {"hadamard": 5}:
                        got = facc.quantize(x, dtype, per, **more)
                        codes, scale = reference.quantize(x, dtype, rank, block, more.get("power_of_two", False),
                                                          more.get("hadamard"))
                        np.testing.assert_array_equal(got.scale, scale)
                        np.testing.assert_array_equal(got.data, codes)
                        self.assertEqual((got.block, got.dtype, got.mean, got.image), (block, dtype, None, None))

    def test_mean_and_image(self):
        v = inputs()[2]
        got = facc.quantize(v, per="head", mean=True, image=True)
        np.testing.assert_allclose(got.mean, v.mean(2), atol=1e-6)
        codes, scale = reference.quantize(v, "e4m3", 2, mean=got.mean)
        np.testing.assert_array_equal(got.data, codes)
        np.testing.assert_array_equal(got.scale, scale)
        for b in range(2):
            for h in range(2):
                np.testing.assert_array_equal(got.image[b, h], reference.image_of(codes[b, h]))

    def check(self, q, k, v, fp8, values, tolerance=3e-6):
        want = facc.oracle(*values)
        got = facc.attention(q, k, v, fp8=fp8, return_lse=True)
        for a, b in zip(got, want):
            np.testing.assert_allclose(np.asarray(a), b, atol=tolerance, rtol=tolerance)
        np.testing.assert_allclose(np.asarray(facc.oracle(q, k, v, fp8=fp8)[0]), want[0], atol=1e-6)

    def test_attention(self):
        q, k, v = inputs()
        for per in "tensor", "head", 32:
            for image in False, True:
                a, b = facc.quantize(q, per=per, hadamard=1), facc.quantize(k, per=per, hadamard=1)
                d = facc.quantize(v, per=per, power_of_two=True, mean=True, image=image)
                values = [value(x.data, x.scale, x.block, x.mean).astype(np.float32) for x in (a, b, d)]
                self.check(a.data, b.data, d.data, facc.Fp8.of(a, b, d), values)
                drop = dict(dropout_p=0.4, seed=9, mask_mod="q >= kv")
                fp8 = facc.Fp8.of(a, b, d)
                np.testing.assert_allclose(facc.attention(a.data, b.data, d.data, fp8=fp8, **drop),
                                           facc.oracle(*values, **drop)[0], atol=4e-6)
                if per == "head":
                    peaks = facc.attention(a.data, b.data, d.data, fp8=fp8, exact_peaks=True)  # the CPU's are always exact
                    np.testing.assert_array_equal(peaks, facc.attention(a.data, b.data, d.data, fp8=fp8))
                    close = facc.attention(a.data, b.data, d.data, fp8=facc.Fp8.of(a, b, d))
                    exact = facc.attention(q, k, v)
                    self.assertLess(np.linalg.norm(close - exact) / np.linalg.norm(exact), 0.08)

    def test_packed(self):
        q, k, v = (x[:1] for x in inputs())
        cu_q, cu_kv = np.int32([0, 30, 30, 70]), np.int32([0, 33, 65, 100])
        a = facc.quantize(q, per=32, cu_seqlens=cu_q, max_seqlen=40)
        b = facc.quantize(k, per=32, cu_seqlens=cu_kv, max_seqlen=35)
        d = facc.quantize(v, per=32, cu_seqlens=cu_kv, max_seqlen=35, mean=True, image=True)
        o = facc.attention(a.data, b.data, d.data, fp8=facc.Fp8.of(a, b, d), cu_seqlens_q=cu_q, cu_seqlens_kv=cu_kv,
                           max_seqlen_q=40, max_seqlen_kv=35)
        for n in (0, 2):
            part = slice(cu_q[n], cu_q[n + 1]), slice(cu_kv[n], cu_kv[n + 1])
            values = [value(x.data[:, :, part[i > 0]], x.scale[n:n + 1], 32,
                            None if x.mean is None else x.mean[n:n + 1]).astype(np.float32)
                      for i, x in enumerate((a, b, d))]
            np.testing.assert_allclose(o[:, :, part[0]], facc.oracle(*values)[0], atol=3e-6)

    def test_mistakes(self):
        q, k, v = inputs()
        for call, words in ((lambda: facc.quantize(q, per=33), "multiple of 32"),
                            (lambda: facc.quantize(q, per="row"), "'tensor', 'head' or a number"),
                            (lambda: facc.quantize(q, "f16"), "there are e4m3, e5m2"),
                            (lambda: facc.quantize(q[0]), "expected [B, H, S, D]"),
                            (lambda: facc.quantize(q.astype(np.int32)), "dtype is i32"),
                            (lambda: facc.quantize(q, hadamard=1, mean=True), "exclude each other"),
                            (lambda: facc.attention(q, k, v, fp8=facc.Fp8(np.float32(1))), "for e4m3 and e5m2"),
                            (lambda: facc.attention(q, k, v, exact_peaks=True), "exact_peaks is for e4m3 and e5m2, q is f32"),
                            (lambda: facc.Fp8(dtype="f16"), "there are e4m3, e5m2")):
            with self.assertRaises(facc.Error) as e:
                call()
            self.assertIn(words, str(e.exception))

    @unittest.skipUnless(torch, "no PyTorch")
    def test_torch(self):
        x = [torch.from_numpy(a) for a in inputs()]
        for stored in torch.float32, torch.bfloat16:
            a, b, d = (facc.quantize(y.to(stored), per="head", mean=n == 2, image=n == 2)
                       for n, y in enumerate(x))
            self.assertEqual(a.data.dtype, torch.float8_e4m3fn)
            values = [value(y.data.view(torch.uint8).numpy(), y.scale.numpy(), 0,
                            None if y.mean is None else y.mean.numpy()).astype(np.float32) for y in (a, b, d)]
            self.check(a.data, b.data, d.data, facc.Fp8.of(a, b, d), values)


if __name__ == "__main__":
    unittest.main()

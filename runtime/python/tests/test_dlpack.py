"""Arrays that have DLPack and nothing else, on the CPU: no copy is made, and
what cannot be is refused. On a GPU's driver: launches.py."""
import pathlib
import sys
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

import facc  # noqa: E402
from .dlpack_capsule import dlpack_capsule  # noqa: E402


class Lent:
    """No more than the protocol. Without how: NumPy's own capsule."""

    def __init__(self, values, **how):
        self.values, self.how = values, how

    def __dlpack_device__(self):
        return self.how.get("device_type", 1), 0

    def __dlpack__(self, **asked):
        if self.how:
            return dlpack_capsule(self.values, **self.how)
        return self.values.__dlpack__(**asked)


class Old(Lent):
    """From before DLPack 1.0: does not know max_version."""

    def __dlpack__(self, stream=None):
        return self.values.__dlpack__()


def inputs(dtype=np.float32):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(s).astype(dtype) for s in ((1, 4, 9, 16), (1, 2, 11, 16), (1, 2, 11, 16))]


class Numbers(unittest.TestCase):
    def test_as_numpy(self):
        for dtype in np.float32, np.float16:
            q, k, v = inputs(dtype)
            bias = np.arange(11, dtype=np.float32)[::-1]
            call = dict(score_mod="score + bias[kv]", mask_mod="q + 2 >= kv", return_lse=True)
            want = facc.attention(q, k, v, tensors={"bias": bias}, **call)
            for kind in Lent, Old, lambda x: Lent(x, versioned=True), lambda x: Lent(x, device_type=3):
                got = facc.attention(kind(q), kind(k), kind(v), tensors={"bias": kind(bias)}, **call)
                for a, b in zip(got, want):
                    self.assertIs(type(a), np.ndarray)
                    self.assertEqual(a.dtype, b.dtype)
                    np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(facc.oracle(Lent(q), Lent(k), Lent(v))[0], facc.oracle(q, k, v)[0])

    def test_views(self):
        q, k, v = inputs()
        want = facc.attention(q, k, v)
        turned = np.ascontiguousarray(q.swapaxes(1, 2)).swapaxes(1, 2)
        np.testing.assert_array_equal(facc.attention(Lent(turned), k, v), want)
        np.testing.assert_array_equal(facc.attention(Lent(q, strides=False), k, v), want)
        np.testing.assert_array_equal(facc.attention(Lent(q, offset=64), k, v), want)

    def test_no_copy(self):
        q, k, v = inputs()
        out = np.zeros((1, 4, 9, 16), np.float32)
        lent = Lent(out)
        self.assertIs(facc.attention(q, k, v, out=lent), lent)
        np.testing.assert_array_equal(out, facc.attention(q, k, v))

    def test_lists(self):
        q, k, v = inputs()
        used = np.int32([7])
        np.testing.assert_array_equal(facc.attention(q, k, v, seqused_kv=Lent(used)),
                                      facc.attention(q, k, v, seqused_kv=used))
        counts, indices = np.ones((1, 1, 1), np.int32), np.zeros((1, 1, 1, 1), np.int32)
        np.testing.assert_array_equal(facc.attention(q, k, v, block_mask=facc.BlockMask(Lent(counts), Lent(indices))),
                                      facc.attention(q, k, v))
        sinks = np.float32([1, 2, 3, 4])
        np.testing.assert_array_equal(facc.attention(q, k, v, sinks=Lent(sinks)), facc.attention(q, k, v, sinks=sinks))

    def test_bf16_of_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch")

        class Hidden:
            def __init__(self, x):
                self.x = x

            def __dlpack_device__(self):
                return self.x.__dlpack_device__()

            def __dlpack__(self, **asked):
                return self.x.__dlpack__(**asked)
        q, k, v = (torch.from_numpy(x).bfloat16() for x in inputs())
        out = torch.empty(1, 4, 9, 16, dtype=torch.bfloat16)
        facc.attention(Hidden(q), Hidden(k), Hidden(v), out=Hidden(out))
        self.assertTrue(torch.equal(out, facc.attention(q, k, v)))


class Refused(unittest.TestCase):
    def refused(self, text, q, **call):
        _, k, v = inputs()
        with self.assertRaisesRegex(facc.Error, text) as caught:
            facc.attention(q, k, v, **call)
        self.assertEqual(caught.exception.status_name, "FACC_ERR_ARGUMENT")

    def test_what_cannot_be(self):
        q = inputs()[0]
        self.refused("q: element type 2/32x4 of DLPack", Lent(q, lanes=4))
        self.refused("q: element type 5/32x1", Lent(q, code=5))
        self.refused("q: DLPack device type 10", Lent(q, device_type=10))
        self.refused("q: DLPack 2.0", Lent(q, versioned=True, major=2))
        self.refused("out is read-only", q, out=Lent(np.zeros_like(q), versioned=True, flags=1))
        self.refused("rank 6", Lent(q), out=Lent(np.zeros((1,) * 6, np.float32)))

        class Broken(Lent):
            def __dlpack__(self, **asked):
                return 5
        self.refused("q: Broken.__dlpack__ gave no", Broken(q))

        class Refusing(Lent):
            def __dlpack__(self, **asked):
                raise BufferError("not today")
        self.refused("q: Refusing gives no DLPack: not today", Refusing(q))


if __name__ == "__main__":
    unittest.main()

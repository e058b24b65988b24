"""Tensors that require a gradient are refused while torch records gradients."""
import pathlib
import sys
import unittest
from unittest import mock

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

import facc  # noqa: E402
from . import stand_in  # noqa: E402
from .stand_in import Tensor  # noqa: E402


class Gradient(unittest.TestCase):
    def setUp(self):
        self.values = np.random.default_rng(0).standard_normal((1, 2, 5, 8)).astype(np.float32)

    def calls(self):
        """Each with one tensor that requires a gradient."""
        def plain():
            return Tensor(self.values)

        wants = Tensor(self.values, True)
        slopes = Tensor(np.ones(2, np.float32), True)
        yield "q", lambda: facc.attention(wants, plain(), plain())
        yield "k", lambda: facc.attention(plain(), wants, plain())
        yield "v", lambda: facc.attention(plain(), plain(), wants)
        yield "tensor 't'", lambda: facc.attention(plain(), plain(), plain(), score_mod="score + t[h]", tensors={"t": slopes})
        out = Tensor(np.empty_like(self.values), True)
        yield "out", lambda: facc.attention(plain(), plain(), plain(), out=out)

    def test_refused(self):
        with mock.patch.dict(sys.modules, torch=stand_in.torch(True)):
            for name, call in self.calls():
                with self.assertRaisesRegex(facc.Error, f"^{name} requires a gradient") as caught:
                    call()
                self.assertEqual(caught.exception.status_name, "FACC_ERR_UNSUPPORTED")

    def test_computed_in_no_grad(self):
        want = facc.attention(self.values, self.values, self.values)
        with mock.patch.dict(sys.modules, torch=stand_in.torch(False)):
            for name, call in self.calls():
                got = call()
                if name != "tensor 't'":
                    np.testing.assert_array_equal(got.values, want)


if __name__ == "__main__":
    unittest.main()

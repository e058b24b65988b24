"""facc.flex against PyTorch's flex_attention on the CPU over mods as people
write them, and what else meets who switches the import. Skipped without
PyTorch."""
import pathlib
import sys
import unittest
import warnings

import numpy as np

try:
    import torch
    from torch.nn.attention import flex_attention as theirs
except ImportError:
    torch = None

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

import facc  # noqa: E402

B, H, HKV, S, D = 2, 4, 2, 64, 16


def causal(b, h, q, kv):
    return q >= kv


@unittest.skipIf(torch is None, "no PyTorch with FlexAttention")
class Gallery(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        self.qkv = torch.randn(B, H, S, D), torch.randn(B, HKV, S, D), torch.randn(B, HKV, S, D)

    def agree(self, got, want):
        np.testing.assert_allclose(got.numpy(), want.numpy(), atol=3e-5, rtol=3e-5)

    def test_numbers(self):
        from facc import flex
        from runtime.python.tests.flex_gallery import gallery
        torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 500
        for name, (score, mask) in gallery(B, H, S).items():
            with self.subTest(name):
                given = mask and theirs.create_block_mask(mask, B, H, S, S, device="cpu", BLOCK_SIZE=16)
                own = mask and flex.create_block_mask(mask, B, H, S, S, device="cpu")
                want = theirs.flex_attention(*self.qkv, score_mod=score, block_mask=given, enable_gqa=True)
                for block_mask in given, own:
                    self.agree(flex.flex_attention(*self.qkv, score_mod=score, block_mask=block_mask, enable_gqa=True),
                               want)

    def test_dot_is_one_operation(self):
        from facc import flex
        qr, kr = torch.randn(B, H, S, 8), torch.randn(B, 1, S, 8)
        for product in torch.dot, torch.inner, lambda x, y: x @ y, lambda x, y: (x * y).sum():
            def mod(s, b, h, q, kv):
                return s + product(qr[b, h, q], kr[b, 0, kv])
            text, tensors, _ = flex.translate(mod, "score_mod")
            self.assertRegex(text, r"facc\.dot\(s\d\w*\(b, h, q\), s\d\w*\(b, 0, kv\)\)")
            self.assertEqual(len(tensors), 2)
            self.assertEqual(text.count("local"), 2)

    def test_variables_in_messages(self):
        """A captured tensor has its variable's name."""
        from facc import flex
        slopes = torch.randn(H + 1)

        def inner(b, h, q, kv):
            return slopes[h + 2] > 0
        with self.assertRaisesRegex(facc.Error, "slopes' is read outside its bounds"):
            flex.flex_attention(*self.qkv, enable_gqa=True, block_mask=flex.create_block_mask(
                theirs.and_masks(inner, causal), None, None, S, S))

    def test_numbers_that_change(self):
        """A Python number is a part of the program, so that another one is another
        program: told once; a tensor of rank 0 is read at each call."""
        from facc import flex
        constant = torch.tensor(0)

        def made(n):
            return (lambda s, b, h, q, kv: s + n), (lambda s, b, h, q, kv: s + constant)

        def warned(mod):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                flex.flex_attention(*self.qkv, score_mod=mod, enable_gqa=True)
            told = [w for w in caught if "torch.tensor" in str(w.message)]
            for w in told:
                self.assertEqual((w.category, w.filename), (facc.FaccWarning, __file__))
            return told
        for n in range(12):
            changing, steady = made(n)
            constant.fill_(n)
            self.assertEqual(len(warned(changing)), n == 7, n)
            self.assertFalse(warned(changing) + warned(steady))

    # ---- the module ----

    def test_names(self):
        """Whatever people import from PyTorch's."""
        from facc.flex import AuxRequest, BlockMask, _DEFAULT_SPARSE_BLOCK_SIZE, and_masks, create_mask, noop_mask
        self.assertIs(BlockMask, theirs.BlockMask)
        self.assertIs(and_masks, theirs.and_masks)
        self.assertEqual(_DEFAULT_SPARSE_BLOCK_SIZE, 128)
        self.assertTrue(callable(create_mask) and callable(noop_mask))
        from facc import flex
        out, aux = flex.flex_attention(*self.qkv, enable_gqa=True, return_aux=AuxRequest(lse=True))
        self.assertIsInstance(aux, theirs.AuxOutput)
        with self.assertRaisesRegex(ImportError, "no_such"):
            from facc.flex import no_such  # noqa: F401

    def test_mask_as_an_object(self):
        """What people do with a BlockMask, besides calling with it."""
        from facc import flex
        mask = flex.create_block_mask(causal, None, None, 300, 300, device="cpu")
        want = theirs.create_block_mask(causal, None, None, 300, 300, device="cpu")
        self.assertNotIn("kv_indices", mask.__dict__)
        self.assertIsInstance(mask, theirs.BlockMask)
        self.assertEqual(mask.shape, want.shape)
        self.assertEqual(mask.BLOCK_SIZE, want.BLOCK_SIZE)
        self.assertEqual(mask._adjust(200, 100).shape, (1, 1, 200, 100))
        self.assertEqual(mask.to("cpu").shape, want.shape)
        self.assertNotIn("kv_indices", mask.__dict__)
        self.assertEqual(str(mask), str(want))
        self.assertEqual(mask.sparsity(), want.sparsity())
        self.assertTrue(torch.equal(mask.to_dense(), want.to_dense()))
        self.assertTrue(torch.equal(mask.kv_indices, want.kv_indices))
        lua = flex.create_block_mask("q >= kv", None, None, 300, 300)
        self.assertEqual(lua.shape, want.shape)
        with self.assertRaisesRegex(facc.Error, "lists are made by PyTorch"):
            lua.sparsity()
        with self.assertRaises(AttributeError):
            mask.no_such

    def test_decoding_from_a_slice(self):
        """gpt-fast's way: a row of blocks of a mask for all positions."""
        from facc import flex
        for made in flex, theirs:
            whole = made.create_block_mask(causal, 1, 1, 512, 512, device="cpu")
            for position in 0, 200, 511:
                mask = whole[:, :, torch.tensor([position // whole.BLOCK_SIZE[0]])]
                mask.mask_mod = lambda b, h, q, kv: whole.mask_mod(b, h, q + position, kv)
                mask.seq_lengths = (1, 512)
                q, k, v = torch.randn(1, H, 1, D), torch.randn(1, H, 512, D), torch.randn(1, H, 512, D)
                n = position + 1
                self.agree(flex.flex_attention(q, k, v, block_mask=mask),
                           torch.nn.functional.scaled_dot_product_attention(q, k[:, :, :n], v[:, :, :n]))

    def test_lengths_of_masks(self):
        from facc import flex
        q, k, v = self.qkv
        for made in flex, theirs:
            for n in S - 20, S + 200:
                with self.assertRaisesRegex(facc.Error, f"lengths {n} and {n}, query and key have {S} and {S}"):
                    flex.flex_attention(q, k, v, enable_gqa=True,
                                        block_mask=made.create_block_mask(causal, None, None, n, n, device="cpu"))
        everything = theirs._create_empty_block_mask(q, k)
        self.agree(flex.flex_attention(q, k, v, enable_gqa=True, block_mask=everything),
                   flex.flex_attention(q, k, v, enable_gqa=True))

    def test_keys_of_one_batch(self):
        from facc import flex
        q, k, v = self.qkv
        mask = flex.create_block_mask(causal, B, None, S, S)
        self.agree(flex.flex_attention(q, k[:1], v[:1], enable_gqa=True, block_mask=mask),
                   flex.flex_attention(q, k[:1].repeat(B, 1, 1, 1), v[:1].repeat(B, 1, 1, 1), enable_gqa=True,
                                       block_mask=mask))

    # ---- torch.compile ----

    def test_compiled(self):
        """Functions that are compiled by themselves, as PyTorch asks for, and a
        model around them."""
        from facc import flex
        plain = flex.create_block_mask(causal, None, None, S, S)
        want = flex.flex_attention(*self.qkv, enable_gqa=True, block_mask=plain)
        create = torch.compile(flex.create_block_mask)
        attend = torch.compile(flex.flex_attention, dynamic=False, backend="eager")
        mask = create(causal, None, None, S, S, device="cpu")
        self.agree(attend(*self.qkv, enable_gqa=True, block_mask=mask), want)
        for given in mask, None:
            @torch.compile(backend="eager")
            def model(q, k, v):
                made = given or flex.create_block_mask(causal, None, None, q.shape[2], k.shape[2])
                return flex.flex_attention(q * 2, k / 2, v, enable_gqa=True, block_mask=made) + 1
            self.agree(model(*self.qkv), want + 1)

        def whole(q, k, v):
            return flex.flex_attention(q, k, v, enable_gqa=True)
        with self.assertRaisesRegex(Exception, "facc.attention with mods in Lua"):
            torch.compile(whole, fullgraph=True, backend="eager")(*self.qkv)


if __name__ == "__main__":
    unittest.main()

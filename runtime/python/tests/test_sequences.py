"""Packed sequences and block masks on NumPy arrays: numbers against one
sequence at a time and against masks written out, and every refusal. With
PyTorch, also the BlockMask of its FlexAttention."""
import pathlib
import sys
import types
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

import facc  # noqa: E402

H, HKV, D, DV = 4, 2, 16, 8
LENGTHS_Q, LENGTHS_KV = (5, 0, 40, 1), (7, 3, 33, 0)


def offsets(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def packed(seed=0):
    r = np.random.default_rng(seed)
    Tq, Tkv = sum(LENGTHS_Q), sum(LENGTHS_KV)
    return [r.standard_normal(s).astype(np.float32) for s in ((Tq, H, D), (Tkv, HKV, D), (Tkv, HKV, DV))]


def heads_first(x):
    """[T, H, D] as [1, H, T, D]."""
    return x.transpose(1, 0, 2)[None]


def inputs(B=2, Sq=50, Skv=70, seed=0):
    r = np.random.default_rng(seed)
    return [r.standard_normal(s).astype(np.float32) for s in ((B, H, Sq, D), (B, HKV, Skv, D), (B, HKV, Skv, DV))]


class Packed(unittest.TestCase):
    cu = dict(cu_seqlens_q=offsets(LENGTHS_Q), cu_seqlens_kv=offsets(LENGTHS_KV))

    def each(self, q, k, v, **call):
        """One call for each sequence: [H, Tq, Dv] and [H, Tq]."""
        out, lse = np.empty((H, len(q), DV)), np.empty((H, len(q)))
        at = list(zip(self.cu["cu_seqlens_q"], self.cu["cu_seqlens_q"][1:],
                      self.cu["cu_seqlens_kv"], self.cu["cu_seqlens_kv"][1:]))
        for q0, q1, kv0, kv1 in at:
            o, m = facc.oracle(*(heads_first(x) for x in (q[q0:q1], k[kv0:kv1], v[kv0:kv1])), **call)
            out[:, q0:q1], lse[:, q0:q1] = o[0], m[0]
        return out, lse

    def test_against_single_sequences(self):
        q, k, v = packed()
        for call in {}, dict(mask_mod="q >= kv"), dict(mask_mod="q % 3 == kv % 3", score_mod="score + 0.1 * (kv - q)"):
            want, want_lse = self.each(q, k, v, **call)
            for longest in {}, dict(max_seqlen_q=40, max_seqlen_kv=50):
                out, lse = facc.oracle(q, k, v, **self.cu, **longest, **call)
                self.assertEqual((out.shape, lse.shape), ((len(q), H, DV), (H, len(q))))
                np.testing.assert_allclose(out.transpose(1, 0, 2), want, atol=1e-12)
                np.testing.assert_allclose(lse, want_lse, atol=1e-12)
            out, lse = facc.attention(*map(heads_first, (q, k, v)), return_lse=True, **self.cu, **call)
            self.assertEqual((out.shape, lse.shape), ((1, H, len(q), DV), (1, H, len(q))))
            np.testing.assert_allclose(out[0], want, atol=1e-5)
            np.testing.assert_allclose(lse[0], want_lse, atol=1e-5)

    def test_b_is_the_sequence(self):
        q, k, v = packed()
        used = np.int32([4, 2, 20, 0])
        flags = np.array([True, False, True, True])
        got = facc.attention(q, k, v, mask_mod="on[b]", tensors={"on": flags}, seqused_kv=used, **self.cu)
        at = self.cu["cu_seqlens_kv"]
        for b, (q0, q1) in enumerate(zip(self.cu["cu_seqlens_q"], self.cu["cu_seqlens_q"][1:])):
            kv = slice(at[b], at[b] + (used[b] if flags[b] else 0))
            want = facc.attention(*(heads_first(x) for x in (q[q0:q1], k[kv], v[kv])))
            np.testing.assert_allclose(heads_first(got[q0:q1]), want, atol=1e-5)

    def refused(self, text, status="ARGUMENT", arrays=None, **call):
        with self.assertRaisesRegex(facc.Error, text) as caught:
            facc.attention(*(arrays or packed()), **{**self.cu, **call})
        self.assertEqual(caught.exception.status_name, "FACC_ERR_" + status)

    def test_refused(self):
        cu = self.cu["cu_seqlens_q"]
        self.refused("cu_seqlens_kv is None", cu_seqlens_kv=None)
        self.refused("rank 3", cu_seqlens_q=None)
        self.refused("cu_seqlens_q must be i32", cu_seqlens_q=cu.astype(np.int64))
        self.refused("contiguous", cu_seqlens_q=np.repeat(cu, 2)[::2])
        self.refused("cu_seqlens_kv must be i32 .5., as cu_seqlens_q", cu_seqlens_kv=cu[:-1])
        self.refused("at least 2 entries", cu_seqlens_q=cu[:1], cu_seqlens_kv=cu[:1])
        self.refused("cu_seqlens_q must be a NumPy array", cu_seqlens_q=[0, 46])
        self.refused("max_seqlen_q", max_seqlen_q=-1)
        self.refused("max_seqlen_kv", max_seqlen_kv=1.5)
        self.refused("max_seqlen_kv", max_seqlen_kv=1 << 40)
        self.refused("B is 2", arrays=inputs())
        self.refused("seqused_q must be i32", seqused_q=np.int32([1, 2]))
        with self.assertRaisesRegex(facc.Error, "no cu_seqlens_q"):
            facc.attention(*inputs(), max_seqlen_q=5)
        with self.assertRaisesRegex(facc.Error, "rank 3"):
            facc.attention(*packed())

    def test_offsets_are_read(self):
        """On the CPU, what they say is checked."""
        down, beyond = self.cu["cu_seqlens_q"].copy(), self.cu["cu_seqlens_kv"].copy()
        down[2] = 1
        beyond[-1] += 1
        self.refused("cu_seqlens_q", cu_seqlens_q=down)
        self.refused("cu_seqlens_kv", cu_seqlens_kv=beyond)
        self.refused("cu_seqlens_q", cu_seqlens_q=self.cu["cu_seqlens_q"] + np.int32(1))


def random_lists(rows, cols, B=1, H=1, seed=0):
    """Classes [B, H, rows, cols] (0 none, 1 partial, 2 full) and their lists."""
    classes = np.random.default_rng(seed).integers(0, 3, (B, H, rows, cols))
    lists = []
    for kind in 1, 2:
        counts = (classes == kind).sum(-1).astype(np.int32)
        indices = np.argsort(classes != kind, axis=-1, kind="stable").astype(np.int32)
        lists += [counts, indices]
    return classes, lists


class BlockMasks(unittest.TestCase):
    def test_against_a_dense_mask(self):
        q, k, v = inputs()
        for B, heads, size in (1, 1, (16, 32)), (2, 1, (7, 9)), (2, H, 24):
            bq, bkv = size if isinstance(size, tuple) else (size, size)
            classes, lists = random_lists(-(-50 // bq), -(-70 // bkv), B, heads, seed=bq)
            cells = np.repeat(np.repeat(classes, bq, 2), bkv, 3)[:, :, :50, :70]
            causal = np.arange(50)[:, None] + 20 >= np.arange(70)
            keep = np.broadcast_to((cells == 2) | ((cells == 1) & causal), (2, H, 50, 70)).copy()
            want, want_lse = facc.oracle(q, k, v, mask_mod="keep[b][h][q][kv]", tensors={"keep": keep})
            for mask in facc.BlockMask(*lists, size), types.SimpleNamespace(
                    **dict(zip(facc.BlockMask._fields, (*lists, size)))):
                got, lse = facc.attention(q, k, v, mask_mod="q + 20 >= kv", block_mask=mask, return_lse=True)
                np.testing.assert_allclose(got, want, atol=1e-5)
                np.testing.assert_allclose(lse, want_lse, atol=1e-5)
            keep &= np.broadcast_to(cells == 1, keep.shape)
            want, _ = facc.oracle(q, k, v, mask_mod="keep[b][h][q][kv]", tensors={"keep": keep})
            got, _ = facc.oracle(q, k, v, mask_mod="q + 20 >= kv",
                                 block_mask=facc.BlockMask(lists[0], lists[1], BLOCK_SIZE=size))
            np.testing.assert_allclose(got, want, atol=1e-12)

    def test_refused(self):
        _, (counts, indices, full_counts, full_indices) = random_lists(4, 5)

        def refused(text, *fields, size=16):
            with self.assertRaisesRegex(facc.Error, text) as caught:
                facc.attention(*inputs(), block_mask=facc.BlockMask(*fields, BLOCK_SIZE=size))
            self.assertEqual(caught.exception.status_name, "FACC_ERR_ARGUMENT")
        refused("4 rows of blocks of 12", counts, indices, size=12)
        refused("5 columns of blocks of 13", counts, indices, size=(16, 13))
        refused("BLOCK_SIZE", counts, indices, size=0)
        refused("BLOCK_SIZE", counts, indices, size=(16, 2.5))
        refused("BLOCK_SIZE", counts, indices, size=(16,))
        refused("BLOCK_SIZE", counts, indices, size=None)
        refused("ranks are 2 and 4", counts[0], indices)
        refused("kv_num_blocks must be a NumPy", None, indices)
        refused("kv_indices must be a NumPy", counts, [1])
        refused("kv_num_blocks must be i32", counts.astype(np.int64), indices)
        refused("kv_indices must be i32 .* contiguous", counts, np.repeat(indices, 2, -1)[..., ::2])
        refused("kv_indices must be i32", counts, indices[:, :, :3])
        refused("both lists of full blocks", counts, indices, full_counts)
        refused("full_kv_indices must be i32", counts, indices, full_counts, full_indices[..., :4])
        refused("for B 2 and H 4", *random_lists(4, 5, B=3)[1][:2])
        refused("for B 2 and H 4", *random_lists(4, 5, H=2)[1][:2])
        with self.assertRaisesRegex(facc.Error, "block_mask must be a BlockMask"):
            facc.attention(*inputs(), block_mask=counts)

    def test_numbers_are_read(self):
        _, (counts, indices, *_) = random_lists(4, 5)
        indices[0, 0, 0, 0] = 5
        counts[0, 0, 0] = 1
        with self.assertRaisesRegex(facc.Error, "kv_indices"):
            facc.attention(*inputs(), block_mask=facc.BlockMask(counts, indices, BLOCK_SIZE=16))

    def test_flex_attention(self):
        try:
            import torch
            from torch.nn.attention import flex_attention as flex
        except ImportError:
            self.skipTest("no PyTorch with FlexAttention")
        q, k, v = map(torch.from_numpy, inputs())
        mask = flex.create_block_mask(lambda b, h, i, j: (i + 20 >= j) & ((i // 16 + h) % 2 == 0), None, H, 50, 70,
                                      device="cpu", BLOCK_SIZE=16)
        want = flex.flex_attention(q, k, v, block_mask=mask, enable_gqa=True)
        got = facc.attention(q, k, v, mask_mod="q + 20 >= kv and (q // 16 + h) % 2 == 0", block_mask=mask)
        np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-5)


if __name__ == "__main__":
    unittest.main()

"""facc.flex against PyTorch's flex_attention on the CPU: mods in Python become
Lua and give its numbers; what cannot be is refused. Skipped without PyTorch."""
import math
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

B, H, HKV, S, D = 2, 4, 2, 50, 16


def mods():
    """{name: (score_mod or None, mask_mod or None)}"""
    g = torch.Generator().manual_seed(1)
    bias = torch.randn(H, S, S, generator=g)
    slopes = torch.exp2(-torch.arange(1, H + 1) / 2)
    doc = (torch.arange(S) // 17).to(torch.int32).expand(B, S).contiguous()
    table, flag = torch.randn(9, H, generator=g), torch.rand(S, generator=g) > 0.3
    window, scale, none = torch.tensor(12), torch.tensor(0.25), torch.tensor(-math.inf)
    order = torch.randperm(S, generator=g)

    def causal(b, h, q, kv):
        return q >= kv

    def window_mask(b, h, q_idx, kv_idx):
        return (q_idx - kv_idx).abs() <= window

    def same_document(b, h, q, kv):
        return doc[b, q] == doc[b, kv]

    def prefix(b, h, q, kv):
        return (kv < 10) | (q >= kv)

    def softcap(score, b, h, q, kv):
        return 20 * torch.tanh(score / 20)

    def many(score, b, h, q, kv):
        for k in range(200):
            score = score + torch.where(q == k, bias[h, k % S, kv], 0.0)
        return score

    def arithmetic(score, b, h, q, kv):
        x = (q * 3 - kv) // 4 % 5 + (kv & 3) * 2 - (1 << (q % 4)) + (~q | 7) + (q ^ kv) - (kv >> 1) + -q
        y = torch.maximum(score, torch.tensor(0.1)) ** 2 + 1.5 / (kv + 1) - torch.rsqrt(q + 1.0)
        return score * scale + x * 0.01 + y.clamp(min=-1, max=2.5) + torch.sigmoid(score) + (q != kv) + h.float() / 3

    def casts(score, b, h, q, kv):
        z = (score * 7).to(torch.int32) + (q > kv).int() + (score > 0).to(torch.float32)
        w = torch.trunc((q - kv) / 7) + torch.fix(kv - q) * 0.1 + (q * 0.5).type_as(kv)
        return torch.where(flag[kv].logical_not(), z.float() * 0.1, score.to(torch.bfloat16).float() * 0 + score) + w
    return {
        "none": (None, None), "causal": (None, causal), "window": (None, window_mask), "prefix": (None, prefix),
        "documents": (None, theirs.and_masks(causal, same_document)),
        "or": (None, theirs.or_masks(window_mask, prefix)), "noop": (None, theirs.noop_mask),
        "flags": (None, lambda b, h, q, kv: flag[kv] & ~(flag[q] ^ (h > 1)) | (q == kv)),
        "mask by logic": (None, lambda b, h, q, kv: torch.logical_or(torch.lt(kv, 3), torch.logical_and(q >= kv, h != 2))),
        "relative": (lambda s, b, h, q, kv: s + (q - kv), causal),
        "alibi": (lambda s, b, h, q, kv: s + slopes[h] * (kv - q), causal), "softcap": (softcap, None),
        "bias": (lambda s, b, h, q, kv: s + bias[h, q, kv], None),
        "table": (lambda s, b, h, q, kv: s + table[torch.clamp(q - kv, -4, 4) + 4, h], None),
        "chained": (lambda s, b, h, q, kv: s + bias[-1, order[q], order[order[kv]]], None),
        "score that masks": (lambda s, b, h, q, kv: torch.where(q >= kv, s, -float("inf")), None),
        "masked_fill": (lambda s, b, h, q, kv: s.masked_fill(q < kv, none), None),
        "arithmetic": (arithmetic, None), "casts": (casts, None), "many": (many, causal),
    }


@unittest.skipIf(torch is None, "no PyTorch with FlexAttention")
class Flex(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        self.qkv = torch.randn(B, H, S, D), torch.randn(B, HKV, S, D), torch.randn(B, HKV, S, D)

    def agree(self, got, want):
        np.testing.assert_allclose(got.numpy(), want.numpy(), atol=2e-5, rtol=2e-5)

    def test_numbers(self):
        from facc import flex
        for name, (score, mask) in mods().items():
            with self.subTest(name):
                given = mask and theirs.create_block_mask(mask, B, H, S, S, device="cpu", BLOCK_SIZE=16)
                own = mask and flex.create_block_mask(mask, B, H, S, S, device="cpu")
                want, want_lse = theirs.flex_attention(*self.qkv, score_mod=score, block_mask=given, enable_gqa=True,
                                                       return_lse=True)
                for block_mask in given, own:
                    out, lse = flex.flex_attention(*self.qkv, score_mod=score, block_mask=block_mask, enable_gqa=True,
                                                   return_lse=True)
                    self.agree(out, want)
                    self.agree(lse, want_lse)

    def test_what_is_not_needed(self):
        """Values of a mod that nothing uses: neither in the program nor a warning."""
        from facc import flex
        def mask(b, h, q, kv):
            distance = q - kv
            distance * 2
            return distance >= 0
        self.assertEqual(flex.translate(mask, "mask_mod")[0].count("local"), 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.agree(flex.flex_attention(*self.qkv, block_mask=flex.create_block_mask(mask, B, H, S, S), enable_gqa=True),
                       facc.attention(*self.qkv, mask_mod="q >= kv"))

    def test_lists_alone(self):
        """Blocks from outside: the mask_mod decides the cells of partial ones only."""
        from facc import flex
        counts = torch.tensor([[[1, 1]]], dtype=torch.int32)
        indices = torch.tensor([[[[1, 0], [0, 1]]]], dtype=torch.int32)
        mask = theirs.BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=25, mask_mod=lambda b, h, q, kv: kv % 2 == 0,
                                               seq_lengths=(S, S))
        cells = np.zeros((S, S), bool)
        cells[:25, 25:] = cells[25:, :25] = True
        q, k, v = (x.numpy() for x in self.qkv)
        for given, keep in (mask, cells & (np.arange(S) % 2 == 0)), (facc.BlockMask(counts, indices, BLOCK_SIZE=25), cells):
            want, _ = facc.oracle(q, k, v, mask_mod="keep[q][kv]", tensors={"keep": keep})
            self.agree(flex.flex_attention(*self.qkv, block_mask=given, enable_gqa=True), torch.from_numpy(want))

    def test_results(self):
        from facc import flex
        q, k, v = self.qkv
        plain = flex.flex_attention(q, k, v, enable_gqa=True, scale=0.3)
        self.agree(plain, theirs.flex_attention(q, k, v, enable_gqa=True, scale=0.3))
        out, aux = flex.flex_attention(q, k, v, enable_gqa=True, scale=0.3, return_aux=flex.AuxOutput(lse=True))
        self.assertTrue(torch.equal(out, plain) and aux.lse.shape == (B, H, S) and aux.max_scores is None)
        compiled = torch.compile(flex.flex_attention, backend="eager")
        self.assertTrue(torch.equal(compiled(q, k, v, enable_gqa=True, scale=0.3), plain))
        lua = flex.flex_attention(q, k, v, score_mod="score + 1", enable_gqa=True, scale=0.3,
                                  block_mask=flex.create_block_mask("q >= kv", None, None, S, S))
        self.agree(lua, facc.attention(q, k, v, mask_mod="q >= kv", scale=0.3))

    def test_index_by_index(self):
        """Which PyTorch's own does not take."""
        from facc import flex
        bias = torch.randn(H, S, S)

        def parts(s, b, h, q, kv):
            return s + bias[h][q][kv] + bias[0][:, kv][q] + bias[h, :, 3][kv]

        def whole(s, b, h, q, kv):
            return s + bias[h, q, kv] + bias[0, q, kv] + bias[h, kv, 3]
        self.agree(flex.flex_attention(*self.qkv, score_mod=parts, enable_gqa=True),
                   theirs.flex_attention(*self.qkv, score_mod=whole, enable_gqa=True))

    def test_rows(self):
        """Neither: rows of captured tensors, which are written out."""
        from facc import flex
        rows, columns, halves = torch.randn(H, 8), torch.randn(8, H), torch.randn(S, 8).half()
        one = torch.randn(8)
        for name, mod, bias in (
                ("sum", lambda s, b, h, q, kv: s + rows[h].sum() * 0.1, rows.sum(1)[:, None, None] * 0.1),
                ("max", lambda s, b, h, q, kv: s + (rows[h] * 2 - columns[:, h]).max(),
                 (rows * 2 - columns.T).amax(1)[:, None, None]),
                ("min of two", lambda s, b, h, q, kv: s + torch.min(rows[h, 0], rows[h, 1]),
                 rows[:, :2].amin(1)[:, None, None]),
                ("column", lambda s, b, h, q, kv: s + torch.dot(rows[h], columns[:, h]),
                 (rows * columns.T).sum(1)[:, None, None]),
                ("constant", lambda s, b, h, q, kv: s + one @ rows[h], (rows @ one)[:, None, None]),
                ("f16", lambda s, b, h, q, kv: s + halves[q] @ halves[kv], (halves.float() @ halves.float().T)[None]),
                ("traced", lambda s, b, h, q, kv: s + (torch.stack([q, kv]) * torch.stack([h, h + 1])).sum() * 0.1,
                 (torch.arange(S)[:, None] * torch.arange(H)[:, None, None]
                  + torch.arange(S) * (torch.arange(H)[:, None, None] + 1)) * 0.1)):
            with self.subTest(name):
                bias = bias.expand(H, S, S)
                self.agree(flex.flex_attention(*self.qkv, score_mod=mod, enable_gqa=True),
                           theirs.flex_attention(*self.qkv, score_mod=lambda s, b, h, q, kv: s + bias[h, q, kv],
                                                 enable_gqa=True))

    def test_changed_tensors(self):
        """A mod reads its tensors at each call."""
        from facc import flex
        slopes, shift = torch.ones(H), torch.tensor(3)

        def alibi(s, b, h, q, kv):
            return s + slopes[h] * (kv - q) + shift
        for _ in range(3):
            self.agree(flex.flex_attention(*self.qkv, score_mod=alibi, enable_gqa=True),
                       theirs.flex_attention(*self.qkv, score_mod=alibi, enable_gqa=True))
            slopes.mul_(0.5)
            shift.add_(2)

    def test_refused(self):
        from facc import flex
        t = torch.randn(S)

        def branch(s, b, h, q, kv):
            return s if q >= kv else s + 1

        def sequence(s, b, h, q, kv):
            return s + t.sum() if (q > kv) and (kv > 2) else s
        for text, score in (("asks for the value", branch), ("asks for the value", sequence),
                            ("asks for the value", lambda s, b, h, q, kv: s + math.tanh(q)),
                            ("of a tensor of rank 1", lambda s, b, h, q, kv: s + t.view(5, 10)[q].cumsum(0)),
                            ("gives a tensor of rank 1", lambda s, b, h, q, kv: s + t),
                            ("row of 65 elements", lambda s, b, h, q, kv: s + (q * t.new_ones(65)).sum()),
                            ("rows of 2 and 3", lambda s, b, h, q, kv: (torch.stack([s, s]) * t[:3]).sum()),
                            ("reduces along dim 1", lambda s, b, h, q, kv: torch.stack([s, s]).sum(1)),
                            ("computes with a tensor of rank 2", lambda s, b, h, q, kv: s + t.view(5, 10)),
                            ("calls lgamma", lambda s, b, h, q, kv: torch.lgamma(s)),
                            ("uses 'lgamma'", lambda s, b, h, q, kv: s.lgamma()),
                            ("2 indices", lambda s, b, h, q, kv: s + t[q, kv]),
                            ("with a float", lambda s, b, h, q, kv: s + t[s]),
                            ("has a NaN", lambda s, b, h, q, kv: s + float("nan")),
                            ("computes with a str", lambda s, b, h, q, kv: s + "x"),
                            ("gives a tensor of rank", lambda s, b, h, q, kv: torch.randn(H, 3)[h])):
            with self.assertRaisesRegex(facc.Error, text) as caught:
                flex.flex_attention(*self.qkv, score_mod=score, enable_gqa=True)
            self.assertEqual(caught.exception.status_name, "FACC_ERR_UNSUPPORTED")
        with self.assertRaisesRegex(facc.Error, "enable_gqa"):
            flex.flex_attention(*self.qkv)
        with self.assertRaisesRegex(facc.Error, "lengths 49 and 50"):
            flex.flex_attention(*self.qkv, enable_gqa=True,
                                block_mask=flex.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 49, S))
        with self.assertRaisesRegex(facc.Error, "requires a gradient"):
            q, k, v = self.qkv
            flex.flex_attention(q.clone().requires_grad_(), k, v, enable_gqa=True)


if __name__ == "__main__":
    unittest.main()
